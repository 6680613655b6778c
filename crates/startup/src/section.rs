//! Sections that are data: which keys may stand in them, and what was given.
//!
//! A capability names its sections in its description, and finds what was given when it starts. The sections of VPP
//! that have no effect here are data, too ([`super::idle`]).

use super::reader::Key;
use super::tree::{Complaint, Place};
use super::value::Value;
use std::collections::BTreeMap;

/// A section of `startup.conf`.
pub struct Section {
    pub name: &'static str,
    pub keys: &'static [Key],
    /// Where a word follows the name, and no block: what it is.
    pub word: Option<Key>,
    /// Why it has no effect, if it has none: a warning says so.
    pub idle: Option<&'static str>,
    /// Checks what depends on several keys, and adds warnings.
    pub check: fn(&Settings, &mut Vec<String>) -> Result<(), Complaint>,
}

impl Section {
    pub const fn new(name: &'static str, keys: &'static [Key]) -> Section {
        Section { name, keys, word: None, idle: None, check: |_, _| Ok(()) }
    }

    /// It is read and has no effect, because of this.
    pub const fn idle(mut self, why: &'static str) -> Section {
        self.idle = Some(why);
        self
    }

    pub const fn check(mut self, check: fn(&Settings, &mut Vec<String>) -> Result<(), Complaint>) -> Section {
        self.check = check;
        self
    }
}

/// What was given in a section, or in a block of it; in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(pub(crate) Vec<Entry>);

/// What was given, by the name of the section.
pub type Sections = BTreeMap<&'static str, Settings>;

/// A key that was given. Its value has passed the key's check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: &'static str,
    /// The word after the key; empty if there is none.
    pub text: String,
    /// What its block has.
    pub inside: Settings,
    /// The place of the key, and that of its value.
    pub(crate) places: (Place, Place),
}

impl Settings {
    pub const NONE: Settings = Settings(Vec::new());

    /// Each time that a key was given.
    pub fn all(&self, key: &str) -> impl Iterator<Item = &Entry> {
        self.0.iter().filter(move |entry| entry.key == key)
    }

    /// A key that can be given once.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.all(key).next()
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The word after a key.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).map(|entry| entry.text.as_str())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Entry {
    pub(crate) fn flag(key: &'static str, place: Place) -> Entry {
        Entry { key, text: String::new(), inside: Settings::default(), places: (place, place) }
    }

    /// The word after the key, to be read as a number, a size, or something else.
    pub fn value(&self) -> Value<'_> {
        Value { key: self.key, text: &self.text, place: self.places.1 }
    }

    /// Complains about the key where it stands.
    pub fn complain(&self, message: impl Into<String>) -> Complaint {
        Complaint::new(self.places.0, message)
    }
}
