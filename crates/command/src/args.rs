//! The parameters that a command line gave, as its handler reads them.
//!
//! The grammar has already checked each word against its type, so a getter fails only
//! when an optional parameter that the handler needs is absent, or when the handler's own
//! type is narrower than the grammar's. Either way the error names the parameter.

use std::fmt::Display;
use std::str::FromStr;

use crate::CommandError;
use crate::value;

/// The parameters of one command, or of one repetition inside it.
#[derive(Clone, Debug, Default)]
pub struct Args {
    entries: Vec<(String, Entry)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// A keyword that was there.
    Flag,
    /// A value as written, or the name of the alternative taken.
    Text(String),
    Group(Args),
}

impl Args {
    pub(crate) fn push(&mut self, name: &str, entry: Entry) {
        self.entries.push((name.to_string(), entry));
    }

    /// Whether the keyword `name` was given.
    pub fn flag(&self, name: &str) -> bool {
        self.named(name).any(|entry| matches!(entry, Entry::Flag))
    }

    /// Whether the value or choice `name` was given.
    pub fn has(&self, name: &str) -> bool {
        self.optional_text(name).is_some()
    }

    /// The value as written, or for a choice the alternative that was taken.
    pub fn text(&self, name: &str) -> Result<&str, CommandError> {
        self.optional_text(name).ok_or_else(|| missing(name))
    }

    /// All values as written, in repetitions too.
    pub fn texts(&self) -> Vec<&str> {
        let mut texts = Vec::new();
        for (_, entry) in &self.entries {
            match entry {
                Entry::Flag => {}
                Entry::Text(text) => texts.push(text.as_str()),
                Entry::Group(group) => texts.extend(group.texts()),
            }
        }
        texts
    }

    /// All values of a parameter, in repetitions too.
    pub(crate) fn all_texts<'a>(&'a self, name: &str, into: &mut Vec<&'a str>) {
        for (of, entry) in &self.entries {
            match entry {
                Entry::Text(text) if of == name => into.push(text),
                Entry::Group(group) => group.all_texts(name, into),
                _ => {}
            }
        }
    }

    pub fn optional_text(&self, name: &str) -> Option<&str> {
        self.named(name).find_map(|entry| match entry {
            Entry::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The value as a type of the handler's: an address, a prefix, a number, a name.
    pub fn parse<T: FromStr>(&self, name: &str) -> Result<T, CommandError>
    where
        T::Err: Display,
    {
        self.optional(name)?.ok_or_else(|| missing(name))
    }

    /// Like [`Args::parse`], and `None` when the parameter was left out.
    pub fn optional<T: FromStr>(&self, name: &str) -> Result<Option<T>, CommandError>
    where
        T::Err: Display,
    {
        self.convert(name, |text| text.parse().map_err(|error: T::Err| error.to_string()))
    }

    /// A `rate` per second.
    pub fn rate(&self, name: &str) -> Result<f64, CommandError> {
        self.optional_rate(name)?.ok_or_else(|| missing(name))
    }

    pub fn optional_rate(&self, name: &str) -> Result<Option<f64>, CommandError> {
        self.convert(name, |text| value::parse_rate(text).ok_or_else(|| "not a rate".into()))
    }

    /// A `size` in bytes.
    pub fn size(&self, name: &str) -> Result<u64, CommandError> {
        self.optional_size(name)?.ok_or_else(|| missing(name))
    }

    pub fn optional_size(&self, name: &str) -> Result<Option<u64>, CommandError> {
        self.convert(name, |text| value::parse_size(text).ok_or_else(|| "not a size".into()))
    }

    /// A `hex` number.
    pub fn hex(&self, name: &str) -> Result<u64, CommandError> {
        self.optional_hex(name)?.ok_or_else(|| missing(name))
    }

    pub fn optional_hex(&self, name: &str) -> Result<Option<u64>, CommandError> {
        self.convert(name, |text| value::parse_hex(text).ok_or_else(|| "not a hexadecimal number".into()))
    }

    /// The repetitions of `( ... : name)`, in the order in which they were written.
    pub fn groups(&self, name: &str) -> impl Iterator<Item = &Args> {
        self.named(name).filter_map(|entry| match entry {
            Entry::Group(args) => Some(args),
            _ => None,
        })
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |(entry, _)| entry == name).map(|(_, entry)| entry)
    }

    fn convert<T>(&self, name: &str, convert: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, CommandError> {
        let Some(text) = self.optional_text(name) else {
            return Ok(None);
        };
        convert(text).map(Some).map_err(|error| CommandError::new(format!("{name} '{text}': {error}")))
    }
}

fn missing(name: &str) -> CommandError {
    CommandError::new(format!("missing {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> Args {
        let mut args = Args::default();
        args.push("verbose", Entry::Flag);
        args.push("rate", Entry::Text("10k".into()));
        args.push("address", Entry::Text("10.0.0.1".into()));
        args
    }

    #[test]
    fn getters_convert_and_absent_options_are_none() {
        let args = args();
        assert!(args.flag("verbose") && !args.flag("rate"));
        assert_eq!(args.rate("rate").unwrap(), 10_000.0);
        let address: std::net::Ipv4Addr = args.parse("address").unwrap();
        assert_eq!(address.octets(), [10, 0, 0, 1]);
        assert_eq!(args.optional::<u32>("weight").unwrap(), None);
    }

    #[test]
    fn errors_name_the_parameter() {
        let args = args();
        assert_eq!(args.text("table").unwrap_err().message(), "missing table");
        assert_eq!(
            args.parse::<u32>("address").unwrap_err().message(),
            "address '10.0.0.1': invalid digit found in string"
        );
    }
}
