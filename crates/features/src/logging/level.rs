//! How urgent a message is: VPP's levels, which are those of syslog (RFC 5424 6.2.1).

use std::fmt;
use std::str::FromStr;

/// How urgent a message is, or how much is let through. Numbers are one more than syslog's, so
/// that zero is free to stand for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    Emergency = 1,
    Alert = 2,
    Critical = 3,
    Error = 4,
    Warning = 5,
    Notice = 6,
    Info = 7,
    Debug = 8,
    /// As a bound: nothing is let through.
    Disabled = 9,
}

impl Level {
    pub const ALL: [Level; 9] = [
        Level::Emergency,
        Level::Alert,
        Level::Critical,
        Level::Error,
        Level::Warning,
        Level::Notice,
        Level::Info,
        Level::Debug,
        Level::Disabled,
    ];

    pub(super) fn from_number(number: u32) -> Option<Level> {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        Self::ALL.get(at).copied()
    }

    pub fn name(self) -> &'static str {
        match self {
            Level::Emergency => "emerg",
            Level::Alert => "alert",
            Level::Critical => "crit",
            Level::Error => "err",
            Level::Warning => "warn",
            Level::Notice => "notice",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Disabled => "disabled",
        }
    }

    /// The priority of syslog and the journal, 0 to 7.
    pub fn priority(self) -> u8 {
        (self as u8).min(Level::Debug as u8) - 1
    }

    /// Whether a message of this level passes a bound.
    pub fn is_within(self, bound: Level) -> bool {
        bound != Level::Disabled && self != Level::Disabled && self <= bound
    }
}

/// What the `log` facade calls info is what operators should see unless they ask for less, VPP's
/// notice.
impl From<log::Level> for Level {
    fn from(level: log::Level) -> Self {
        match level {
            log::Level::Error => Level::Error,
            log::Level::Warn => Level::Warning,
            log::Level::Info => Level::Notice,
            log::Level::Debug | log::Level::Trace => Level::Debug,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let level = Self::ALL.into_iter().find(|level| level.name() == text);
        level.ok_or_else(|| format!("expected one of {}", Self::ALL.map(Level::name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_numbers_and_priorities_agree() {
        for (at, level) in Level::ALL.into_iter().enumerate() {
            assert_eq!(level.name().parse(), Ok(level));
            assert_eq!(Level::from_number(level as u32), Some(level));
            assert_eq!(usize::from(level.priority()), at.min(7));
        }
        assert_eq!(Level::from_number(0), None);
        assert!("loud".parse::<Level>().is_err());
    }

    #[test]
    fn a_bound_lets_through_what_is_at_least_as_urgent() {
        assert!(Level::Error.is_within(Level::Notice) && Level::Notice.is_within(Level::Notice));
        assert!(!Level::Debug.is_within(Level::Notice));
        assert!(!Level::Emergency.is_within(Level::Disabled), "disabled is silence");
    }
}
