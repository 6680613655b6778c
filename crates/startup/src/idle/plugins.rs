//! Section `plugins`. Capabilities are built in: nothing is loaded, and nothing needs to be.

use crate::reader::Key;
use crate::section::{Section, Settings};
use crate::tree::Complaint;

pub(super) const SECTION: Section = Section::new("plugins", KEYS).check(check);

const KEYS: &[Key] = &[
    Key::value("path", "directories"),
    Key::values("add-path", "directories"),
    Key::named_with("plugin", "the name of a plugin or 'default'", PLUGIN),
    Key::value("name-filter", "a word").idle("nothing is loaded"),
    Key::value("vat-path", "directories").idle("nothing is loaded"),
    Key::value("vat-name-filter", "a word").idle("nothing is loaded"),
];

const PLUGIN: &[Key] = &[Key::flag("enable"), Key::flag("disable"), Key::flag("skip-version-check")];

fn check(settings: &Settings, warnings: &mut Vec<String>) -> Result<(), Complaint> {
    for plugin in settings.all("plugin") {
        let mut said = plugin.inside.0.iter().filter(|entry| entry.key != "skip-version-check");
        if let (Some(_), Some(second)) = (said.next(), said.next()) {
            let message = format!("plugin '{}' cannot be both enabled and disabled", plugin.text);
            return Err(second.complain(message));
        }
    }
    if settings.is_empty() {
        return Ok(());
    }
    let wanted = settings.all("plugin").filter(|plugin| plugin.text != "default" && plugin.inside.has("enable"));
    let wanted: Vec<&str> = wanted.map(|plugin| plugin.text.as_str()).collect();
    let named = if wanted.is_empty() { String::new() } else { format!(" ({} too)", wanted.join(", ")) };
    warnings.push(format!(
        "plugins: no plugins are loaded{named}: what this version can do is built in, and '?' in a session lists it"
    ));
    Ok(())
}
