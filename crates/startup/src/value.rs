//! The word after a key, as a number, a size, a time, a list of cores, one of several words.

use command::nearest;
use std::path::PathBuf;
use std::time::Duration;

use super::pci::PciAddress;
use super::tree::{Complaint, Place};
use super::{LogLevel, MAXIMUM_CORES, PageSize};

/// Longest time that a key can ask for, in seconds: a day.
const LONGEST: f64 = 86_400.0;

const LOG_LEVELS: [(&str, LogLevel); 12] = [
    ("disabled", LogLevel::Disabled),
    ("emerg", LogLevel::Emergency),
    ("alert", LogLevel::Alert),
    ("crit", LogLevel::Critical),
    ("err", LogLevel::Error),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warning),
    ("warning", LogLevel::Warning),
    ("notice", LogLevel::Notice),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Debug),
];

/// A key's value, with what is needed to complain about it.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    pub key: &'static str,
    pub text: &'a str,
    pub place: Place,
}

impl Value<'_> {
    pub fn complain(&self, expected: &str) -> Complaint {
        Complaint::new(self.place, format!("'{}' is no value for '{}': expected {expected}", self.text, self.key))
    }

    /// A whole number; units of 1024 may follow: `16k`.
    pub fn number(&self, least: u64, most: u64) -> Result<u32, Complaint> {
        scaled(self.text)
            .filter(|number| (least..=most).contains(number))
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| self.complain(&format!("a number {least}..{most}")))
    }

    /// A number of bytes with a unit of 1024 and decimals if need be: `96M`, `1.5g`.
    pub fn bytes(&self) -> Result<u64, Complaint> {
        scaled(self.text).ok_or_else(|| self.complain("a number of bytes, like 512k, 96M or 1.5G"))
    }

    /// Seconds, with decimals if need be, or milliseconds: `10`, `0.5`, `2s`, `500ms`.
    pub fn seconds(&self) -> Result<Duration, Complaint> {
        let (digits, unit) = match (self.text.strip_suffix("ms"), self.text.strip_suffix('s')) {
            (Some(digits), _) => (digits, 1e-3),
            (None, Some(digits)) => (digits, 1.0),
            (None, None) => (self.text, 1.0),
        };
        decimal(digits)
            .map(|number| number * unit)
            .filter(|seconds| *seconds <= LONGEST)
            .map(Duration::from_secs_f64)
            .ok_or_else(|| self.complain("seconds up to a day, like 10, 0.5 or 500ms"))
    }

    pub fn core(&self) -> Result<u32, Complaint> {
        self.number(0, u64::from(MAXIMUM_CORES) - 1)
    }

    /// `1-3,5` as 1, 2, 3, 5: ascending, each core once.
    pub fn cores(&self) -> Result<Vec<u32>, Complaint> {
        self.list(u64::from(MAXIMUM_CORES) - 1, &format!("cores below {MAXIMUM_CORES}"))
    }

    /// Numbers and ranges of them, ascending, each once.
    pub fn list(&self, most: u64, what: &str) -> Result<Vec<u32>, Complaint> {
        let mut numbers = Vec::new();
        let malformed = || self.complain(&format!("{what} and ranges of them, like 1-3,5"));
        for part in self.text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text| Value { text, ..*self }.number(0, most).map_err(|_| malformed());
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(malformed());
            }
            for number in first..=last {
                if numbers.contains(&number) {
                    return Err(self.complain(&format!("each number once, {number} is there twice")));
                }
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    pub fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, Complaint> {
        let text = self.text.to_ascii_lowercase();
        let chosen = choices.iter().find(|(name, _)| *name == text);
        chosen.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let meant = did_you_mean(&text, names.iter().copied());
            self.complain(&format!("one of {}{meant}", names.join(", ")))
        })
    }

    pub fn on_or_off(&self) -> Result<bool, Complaint> {
        self.one_of(&[("on", true), ("off", false)])
    }

    pub fn log_level(&self) -> Result<LogLevel, Complaint> {
        self.one_of(&LOG_LEVELS)
    }

    /// A page size by its name or its bytes.
    pub fn page_size(&self) -> Result<PageSize, Complaint> {
        let sizes = [(4 << 10, PageSize::Size4K), (2 << 20, PageSize::Size2M), (1 << 30, PageSize::Size1G)];
        match self.text {
            "default" | "default-hugepage" => Ok(PageSize::Default),
            text => {
                let size = scaled(text).and_then(|bytes| sizes.into_iter().find(|(size, _)| *size == bytes));
                let expected = "one of default, default-hugepage, 4k, 2m, 1g";
                size.map(|(_, size)| size).ok_or_else(|| self.complain(expected))
            }
        }
    }

    pub fn pci_address(&self) -> Result<PciAddress, Complaint> {
        self.text.parse().map_err(|error: String| self.complain(&error))
    }

    pub fn path(&self) -> PathBuf {
        PathBuf::from(self.text)
    }

    pub fn string(&self) -> String {
        self.text.to_string()
    }
}

/// A number that is not negative, in decimal digits with one point at most.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let digit = text.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
    (plain && digit).then(|| text.parse().ok()).flatten()
}

/// A decimal number with a unit of 1024; a fraction needs a unit that makes it whole.
fn scaled(text: &str) -> Option<u64> {
    let text =
        text.strip_suffix(['b', 'B']).filter(|rest| rest.ends_with(['k', 'K', 'm', 'M', 'g', 'G'])).unwrap_or(text);
    let (digits, shift) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'm' | 'M') => (&text[..at], 20),
        (at, 'g' | 'G') => (&text[..at], 30),
        _ => (text, 0),
    };
    if digits.contains('.') {
        let bytes = decimal(digits)? * (1_u64 << shift) as f64;
        let whole = shift > 0 && bytes < u64::MAX as f64;
        return whole.then_some(bytes as u64);
    }
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| digits.parse::<u64>().ok()?.checked_mul(1 << shift)).flatten()
}

/// What was probably meant, as the end of a complaint; empty when nothing is alike.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest::likely(word, known).map_or(String::new(), |name| format!("; did you mean '{name}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'_> {
        Value { key: "key", text, place: Place { line: 1, column: 1 } }
    }

    #[test]
    fn sizes_have_units_and_decimals() {
        for (text, bytes) in [("0", 0), ("16k", 16 << 10), ("96M", 96 << 20), ("1.5G", 3 << 29), ("2mb", 2 << 20)] {
            assert_eq!(value(text).bytes().unwrap(), bytes, "{text}");
        }
        for text in ["", "k", "1.5", "-1", "1e3", "1..5k", ".5k", "99999999999999999999", "20000000000g", "1t", "bb"] {
            assert!(value(text).bytes().is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_in_seconds_unless_they_say_milliseconds() {
        for (text, millis) in [("10", 10_000), ("0.5", 500), ("2s", 2000), ("250ms", 250), ("0", 0)] {
            assert_eq!(value(text).seconds().unwrap(), Duration::from_millis(millis), "{text}");
        }
        for text in ["", "s", "-1", "nan", "inf", "86401", "1h", "ms"] {
            assert!(value(text).seconds().is_err(), "{text}");
        }
    }

    #[test]
    fn page_sizes_are_names_or_bytes() {
        assert_eq!(value("2048k").page_size().unwrap(), PageSize::Size2M);
        assert_eq!(value("1024M").page_size().unwrap(), PageSize::Size1G);
        assert_eq!(value("default-hugepage").page_size().unwrap(), PageSize::Default);
        assert!(value("3k").page_size().is_err());
    }
}
