//! Section `logging`: which messages the log keeps, and which of those it writes out.

use std::time::Duration;

use super::LogLevel;
use super::reader::{Key, Reading};
use super::tree::{Block, Complaint};

/// Fewest and most entries that are kept in memory.
const ENTRIES: (u64, u64) = (16, 65_536);
/// Most entries a second that a class can be limited to.
const MAXIMUM_RATE: u64 = 1_000_000;

const KERNEL_LOG: &str = "nothing is written to the kernel's log";

pub(super) const KEYS: &[Key] = &[
    Key::value("default-log-level", "a level"),
    Key::value("default-syslog-log-level", "a level"),
    Key::value("size", "a number of entries"),
    Key::value("nthrottle-time", "seconds"),
    Key::value("unthrottle-time", "seconds"),
    Key::named("class", "the name of a class"),
    Key::value("default-kmsg-log-level", "a level").idle(KERNEL_LOG),
    Key::flag("add-to-elog").idle("there is no event log besides this one"),
];

pub(super) const CLASS_KEYS: &[Key] = &[
    Key::value("level", "a level"),
    Key::value("syslog-level", "a level"),
    Key::value("rate-limit", "a number of entries a second"),
    Key::value("kmsg-level", "a level").idle(KERNEL_LOG),
];

/// Which messages the log keeps, and which of those it writes out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    pub default_log_level: LogLevel,
    /// What is written to file, standard error or journal; the level that is kept if not set.
    pub default_syslog_log_level: Option<LogLevel>,
    /// Entries that `show logging` remembers.
    pub size: Option<u32>,
    /// How long the messages of a class that exceeds its rate are counted instead of kept.
    pub throttle_time: Option<Duration>,
    pub classes: Vec<LogClass>,
}

/// The settings of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogClass {
    pub name: String,
    pub level: Option<LogLevel>,
    pub syslog_level: Option<LogLevel>,
    /// Entries a second.
    pub rate_limit: Option<u32>,
}

impl Logging {
    pub(super) fn read(&mut self, block: &Block<'_>, reading: &mut Reading) -> Result<(), Complaint> {
        for given in reading.keys("logging", block, KEYS)? {
            let value = &given.value;
            match given.key {
                "default-log-level" => self.default_log_level = value.log_level()?,
                "default-syslog-log-level" => self.default_syslog_log_level = Some(value.log_level()?),
                "size" => self.size = Some(value.number(ENTRIES.0, ENTRIES.1)?),
                // VPP's documentation and its program spell it differently.
                "nthrottle-time" | "unthrottle-time" => {
                    if self.throttle_time.replace(value.seconds()?).is_some() {
                        return Err(Complaint::new(
                            value.place,
                            "'nthrottle-time' and 'unthrottle-time' are one setting, given twice",
                        ));
                    }
                }
                "class" => self.classes.push(class(value.text, given.block, reading)?),
                key => unreachable!("key {key} is listed"),
            }
        }
        Ok(())
    }
}

fn class(name: &str, block: Option<&Block<'_>>, reading: &mut Reading) -> Result<LogClass, Complaint> {
    let mut class = LogClass { name: name.into(), level: None, syslog_level: None, rate_limit: None };
    let Some(block) = block else { return Ok(class) };
    for given in reading.keys(&format!("logging class {name}"), block, CLASS_KEYS)? {
        let value = &given.value;
        match given.key {
            "level" => class.level = Some(value.log_level()?),
            "syslog-level" => class.syslog_level = Some(value.log_level()?),
            "rate-limit" => class.rate_limit = Some(value.number(1, MAXIMUM_RATE)?),
            key => unreachable!("key {key} is listed"),
        }
    }
    Ok(class)
}
