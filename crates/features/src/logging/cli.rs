//! Commands on the log, as VPP has them.

use super::{By, ClassSettings, DEFAULT_RATE_LIMIT, Entry, Level};
use command::table::{Align, Table};
use command::{Args, Command, CommandError, CommandSet, Done, Reply, fail, reply};
use router::Router;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Logging",
        "Log messages have a class and a level. `level` is what `show logging` keeps; `syslog-level` is what goes to \
         the log file or the journal.",
    );
    set.add(Command::new("show logging", "Show the last entries of the log, in UTC.", show_logging));
    set.add(Command::new(
        "show logging configuration",
        "Show levels and rate limits of each class.",
        show_configuration,
    ));
    set.add(Command::new(
        "clear logging",
        "Clear the log that `show logging` shows.",
        |router: &mut Router, _: &Args| {
            super::of(router).clear();
            reply(Done)
        },
    ));
    let levels = "default|emerg|alert|crit|err|warn|notice|info|debug|disabled";
    set.add(
        Command::new(
            &format!(
                "set logging class <class:class> {{{{ [level {{{levels} : level}}] | [syslog-level {{{levels} : \
             syslog}}] | \
             [rate-limit {{default | <limit:u32 1..1000000> : rate}}] }}}}"
            ),
            "Set what a class keeps (level) and writes (syslog-level), and its maximum of entries per second.",
            set_class,
        )
        .configures()
        .example("set logging class neighbor level debug"),
    );
    set.add(
        Command::new(
            "set logging size {default | <entries:u32 16..65536> : size}",
            "Set how many entries `show logging` keeps.",
            |router: &mut Router, args: &Args| {
                super::of(router).set_size(By::Command, args.optional("entries")?);
                reply(Done)
            },
        )
        .configures()
        .example("set logging size 1000"),
    );
    set.add(
        Command::new(
            "set logging unthrottle-time {default | <seconds:u32 0..86400> : time}",
            "Set how long a class is silent after it exceeded its rate limit.",
            |router: &mut Router, args: &Args| {
                let seconds: Option<u32> = args.optional("seconds")?;
                super::of(router)
                    .set_throttle_time(By::Command, seconds.map(|seconds| Duration::from_secs(seconds.into())));
                reply(Done)
            },
        )
        .configures(),
    );
}

fn set_class(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    // `default` is not a level: it parses to none.
    let level = |name| args.optional_text(name).map(|text| text.parse::<Level>().ok());
    let settings = ClassSettings {
        level: level("level"),
        syslog_level: level("syslog"),
        rate_limit: args.optional_text("rate").map(|_| args.optional("limit")).transpose()?,
    };
    if settings == ClassSettings::default() {
        return fail("set logging class: expected one of level, syslog-level, rate-limit after the class");
    }
    match super::of(router).set_class(By::Command, args.text("class")?, settings) {
        Ok(()) => reply(Done),
        Err(error) => fail(error.to_string()),
    }
}

fn show_logging(router: &mut Router, _: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let suppressed = super::of(router).suppressed().into_iter();
    reply(ShowLogging {
        entries: super::of(router).entries(),
        suppressed: suppressed.map(|(class, messages)| Suppressed { class, messages }).collect(),
    })
}

#[derive(Serialize)]
struct Suppressed {
    class: String,
    messages: u64,
}

#[derive(Serialize)]
struct ShowLogging {
    entries: Vec<Entry>,
    /// Classes over their rate limit, and how many of their messages were suppressed so far.
    suppressed: Vec<Suppressed>,
}

impl fmt::Display for ShowLogging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.entries.is_empty() {
            writeln!(f, "No log entries")?;
        }
        for Entry { time, level, class, text } in &self.entries {
            writeln!(f, "{} {level:<10} {class:<14} {text}", time.vpp())?;
        }
        for Suppressed { class, messages } in &self.suppressed {
            writeln!(f, "{messages} messages of class {class} suppressed so far")?;
        }
        Ok(())
    }
}

fn show_configuration(router: &mut Router, _: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let log = super::of(router);
    let name = |level: Level| level.name();
    let classes = log.classes();
    let of_class = |(class, settings): (&String, &super::Class)| ClassConfiguration {
        class: class.clone(),
        level: name(log.level_of(Some(settings))),
        syslog_level: log.syslog_level_of(Some(settings)).map(name),
        rate_limit: settings.rate_limit.get().unwrap_or(DEFAULT_RATE_LIMIT),
    };
    reply(ShowConfiguration {
        default_level: name(log.default_level()),
        default_syslog_level: log.default_syslog_level().map(name),
        size: log.size(),
        unthrottle_time: log.throttle_time().as_secs_f64(),
        waiting: log.writing.waiting(),
        lost: log.writing.lost(),
        classes: classes.iter().map(of_class).collect(),
    })
}

#[derive(Serialize)]
struct ClassConfiguration {
    class: String,
    level: &'static str,
    /// None: all entries that are kept are written.
    syslog_level: Option<&'static str>,
    /// Entries a second.
    rate_limit: u32,
}

#[derive(Serialize)]
struct ShowConfiguration {
    default_level: &'static str,
    default_syslog_level: Option<&'static str>,
    size: u32,
    /// Seconds.
    unthrottle_time: f64,
    /// Lines that are pending.
    waiting: u64,
    /// Lines that found no room, and that no line of the log reports yet.
    lost: u64,
    classes: Vec<ClassConfiguration>,
}

/// Shown when no syslog level is set: all entries that are kept are written.
const AS_KEPT: &str = "all";

impl fmt::Display for ShowConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Levels: {}", Level::ALL.map(Level::name).join(" "))?;
        let syslog = self.default_syslog_level.unwrap_or(AS_KEPT);
        writeln!(f, "Defaults: level {} syslog-level {syslog} rate-limit {DEFAULT_RATE_LIMIT}", self.default_level)?;
        writeln!(f, "Size: {} entries, unthrottle-time {} s", self.size, self.unthrottle_time)?;
        if self.waiting + self.lost > 0 {
            writeln!(f, "Log file: {} lines wait to be written, {} found no room", self.waiting, self.lost)?;
        }
        let mut table = Table::new(" ")
            .column("Class", Align::Left, 22)
            .column("Level", Align::Left, 14)
            .column("Syslog Level", Align::Left, 14)
            .column("Rate Limit", Align::Left, 10);
        for ClassConfiguration { class, level, syslog_level, rate_limit } in &self.classes {
            table.row([class, *level, syslog_level.unwrap_or(AS_KEPT), &rate_limit.to_string()]);
        }
        write!(f, "{table}")
    }
}
