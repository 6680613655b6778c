//! The operator's settings of router advertisements, as the commands that configure them.

use super::cli::preference_word;
use super::control::Advertising;
use super::settings::{PrefixSettings, Settings};
use router::Router;
use router::capability::Statement;
use router::interface::config::removal;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for (index, settings) in router.state::<Advertising>().stated() {
        let Ok(interface) = router.interfaces.get(index) else { continue };
        for (words, undo) in words(settings) {
            let command = |rest: &str| format!("ip6 nd {} {rest}", interface.name);
            let statement = Statement::new(command(&words), command(&undo)).replaced_by_itself();
            into.push(statement.needing(removal(&interface.name)));
        }
    }
}

/// The settings that differ from the defaults, and how to undo each. The one that starts advertisements comes last.
fn words(settings: &Settings) -> Vec<(String, String)> {
    let default = Settings::default();
    let mut words = Vec::new();
    let mut say = |is_said: bool, words_: String, word: &str| {
        if is_said {
            words.push((words_, format!("no {word}")));
        }
    };
    let flags = [
        (settings.managed, "ra-managed-config-flag"),
        (settings.other, "ra-other-config-flag"),
        (!settings.tells_link_address, "ra-suppress-link-layer"),
        (settings.answers_directly, "ra-send-unicast"),
    ];
    flags.into_iter().for_each(|(is_set, word)| say(is_set, word.into(), word));
    let Settings { max_interval, initial_count, initial_interval, .. } = *settings;
    let min = settings.min_interval.map_or(String::new(), |min| format!(" {min}"));
    let is_other = max_interval != default.max_interval || settings.min_interval.is_some();
    say(is_other, format!("ra-interval {max_interval}{min}"), "ra-interval");
    if let Some(lifetime) = settings.lifetime {
        say(true, format!("ra-lifetime {lifetime}"), "ra-lifetime");
    }
    let is_other = (initial_count, initial_interval) != (default.initial_count, default.initial_interval);
    say(is_other, format!("ra-initial {initial_count} {initial_interval}"), "ra-initial");
    let preference = preference_word(settings.preference);
    say(settings.preference != default.preference, format!("ra-preference {preference}"), "ra-preference");
    let numbers = [
        (settings.hop_limit.into(), default.hop_limit.into(), "ra-hop-limit"),
        (settings.reachable, default.reachable, "ra-reachable-time"),
        (settings.retransmit, default.retransmit, "ra-retransmit-timer"),
    ];
    numbers.into_iter().for_each(|(set, default, word)| say(set != default, format!("{word} {set}"), word));
    let is_other = settings.default_prefix != PrefixSettings::default();
    say(is_other, of_prefix("default", settings.default_prefix, PrefixSettings::default()), "prefix default");
    for (prefix, of) in &settings.prefixes {
        say(true, of_prefix(&prefix.to_string(), *of, settings.default_prefix), &format!("prefix {prefix}"));
    }
    let time = |time: &Option<u32>| match time {
        None => String::new(),
        Some(wire::nd::FOREVER) => " infinite".into(),
        Some(time) => format!(" lifetime {time}"),
    };
    for (server, lifetime) in &settings.servers {
        say(true, format!("rdnss {server}{}", time(lifetime)), &format!("rdnss {server}"));
    }
    for (name, lifetime) in &settings.search {
        say(true, format!("dnssl {name}{}", time(lifetime)), &format!("dnssl {name}"));
    }
    if !settings.is_suppressed {
        words.push(("no ra-suppress".into(), "ra-suppress".into()));
    }
    words
}

fn of_prefix(name: &str, of: PrefixSettings, default: PrefixSettings) -> String {
    let mut words = format!("prefix {name}");
    if (of.valid, of.preferred) != (default.valid, default.preferred) {
        words += &match (of.valid, of.preferred) {
            (wire::nd::FOREVER, wire::nd::FOREVER) => " infinite".into(),
            (valid, preferred) => format!(" {} {}", valid, preferred),
        };
    }
    let flags = [
        (default.is_advertised && !of.is_advertised, " no-advertise"),
        (default.on_link && !of.on_link, " no-onlink"),
        (default.autonomous && !of.autonomous, " no-autoconfig"),
    ];
    flags.into_iter().filter(|(differs, _)| *differs).for_each(|(_, word)| words += word);
    words
}
