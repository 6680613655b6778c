//! Blocks to keys with their values: what all sections have in common.
//!
//! A section lists its keys as a table of [`Key`]s. [`Reading::keys`] walks a block by that
//! table: an unknown key, a missing value, a key that is given twice are complained about
//! here, so that a section only says what its keys mean.

use std::collections::BTreeMap;

use super::section::{Entry, Settings};
use super::tree::{Block, Complaint, Node, NodeKind, Place};
use super::value::{Value, did_you_mean};

/// A key of a section, as its table says.
#[derive(Clone, Copy)]
pub struct Key {
    /// One word, or two (`default data-size`).
    pub name: &'static str,
    pub shape: Shape,
    /// Why it has no effect in this program, when it has none.
    pub idle: Option<&'static str>,
    /// Checks the word after it.
    check: fn(&Value<'_>) -> Result<(), Complaint>,
    /// The keys of its block.
    pub keys: &'static [Key],
}

/// What follows a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Flag,
    /// One word: in words, what it is.
    Value(&'static str),
    /// One word; the key may come again with another.
    Values(&'static str),
    Block,
    /// A block of words: in words, what they are.
    Words(&'static str),
    /// A word and, if need be, a block; the key may come again with another word.
    Named(&'static str),
    /// The same, where flags of the block may stand instead of it.
    NamedWith(&'static str),
}

impl Key {
    const fn new(name: &'static str, shape: Shape) -> Self {
        Self { name, shape, idle: None, check: |_| Ok(()), keys: &[] }
    }

    pub const fn flag(name: &'static str) -> Self {
        Self::new(name, Shape::Flag)
    }

    pub const fn value(name: &'static str, what: &'static str) -> Self {
        Self::new(name, Shape::Value(what))
    }

    pub const fn values(name: &'static str, what: &'static str) -> Self {
        Self::new(name, Shape::Values(what))
    }

    pub const fn block(name: &'static str) -> Self {
        Self::new(name, Shape::Block)
    }

    pub const fn words(name: &'static str, what: &'static str) -> Self {
        Self::new(name, Shape::Words(what))
    }

    pub const fn named(name: &'static str, what: &'static str) -> Self {
        Self::new(name, Shape::Named(what))
    }

    pub const fn named_with(name: &'static str, what: &'static str, keys: &'static [Key]) -> Self {
        Self::new(name, Shape::NamedWith(what)).with(keys)
    }

    /// A number of bytes, with a unit.
    pub const fn size(name: &'static str) -> Self {
        Self::value(name, "a number of bytes").of(|value| value.bytes().map(drop))
    }

    pub const fn seconds(name: &'static str) -> Self {
        Self::value(name, "seconds").of(|value| value.seconds().map(drop))
    }

    pub const fn on_off(name: &'static str) -> Self {
        Self::value(name, "on or off").of(|value| value.on_or_off().map(drop))
    }

    pub const fn page_size(name: &'static str) -> Self {
        Self::value(name, "one of default, default-hugepage, 4k, 2m, 1g").of(|value| value.page_size().map(drop))
    }

    /// Checks the word after the key.
    pub const fn of(mut self, check: fn(&Value<'_>) -> Result<(), Complaint>) -> Self {
        self.check = check;
        self
    }

    /// Its block has these keys.
    pub const fn with(mut self, keys: &'static [Key]) -> Self {
        self.keys = keys;
        self
    }

    /// The key is read and has no effect, because of this.
    pub const fn idle(mut self, why: &'static str) -> Self {
        self.idle = Some(why);
        self
    }
}

/// A key that was given, with what followed it.
pub(crate) struct Given<'a> {
    pub key: &'static str,
    pub value: Value<'a>,
    pub block: Option<&'a Block<'a>>,
    /// Flags that stand in the place of a block.
    flags: Vec<(&'a str, Place)>,
    /// Where the key is.
    place: Place,
    of: &'static Key,
}

/// The words of one block, taken one after the other.
pub(crate) struct Cursor<'a> {
    nodes: std::slice::Iter<'a, Node<'a>>,
    end: Place,
}

impl<'a> Cursor<'a> {
    pub fn new(block: &'a Block<'a>) -> Self {
        Self { nodes: block.nodes.iter(), end: block.end }
    }

    /// The next word, which names something; `None` at the end of the block.
    pub fn name(&mut self) -> Result<Option<(&'a str, Place)>, Complaint> {
        match self.nodes.next() {
            None => Ok(None),
            Some(Node { place, kind: NodeKind::Word(word) }) => Ok(Some((word, *place))),
            Some(Node { place, .. }) => {
                Err(Complaint::new(*place, "'{' without a name before it: expected a word or '}'"))
            }
        }
    }

    /// The next word, if it is one, without taking it.
    fn peek_word(&self) -> Option<&'a str> {
        match self.nodes.as_slice().first()?.kind {
            NodeKind::Word(word) => Some(word),
            NodeKind::Block(_) => None,
        }
    }

    /// The word that has to follow `key`.
    pub fn value(&mut self, key: &'static str, what: &str) -> Result<Value<'a>, Complaint> {
        let missing =
            |place, found| Complaint::new(place, format!("'{key}' needs a value: expected {what}, found {found}"));
        match self.nodes.next() {
            None => Err(missing(self.end, "the end")),
            Some(Node { place, kind: NodeKind::Word(text) }) => Ok(Value { key, text, place: *place }),
            Some(Node { place, .. }) => Err(missing(*place, "'{'")),
        }
    }

    /// The block that has to follow `name`.
    pub fn block(&mut self, name: &str) -> Result<&'a Block<'a>, Complaint> {
        let (place, found) = match self.nodes.next() {
            Some(Node { kind: NodeKind::Block(block), .. }) => return Ok(block),
            Some(Node { place, kind: NodeKind::Word(word) }) => (*place, format!("'{word}'")),
            None => (self.end, "the end".into()),
        };
        Err(Complaint::new(place, format!("expected '{{' after '{name}', found {found}")))
    }

    /// The block that may follow.
    pub fn optional_block(&mut self) -> Option<&'a Block<'a>> {
        match self.nodes.as_slice().first()?.kind {
            NodeKind::Block(ref block) => {
                self.nodes.next();
                Some(block)
            }
            NodeKind::Word(_) => None,
        }
    }

    /// Passes over one word, if there is one.
    pub fn skip_word(&mut self) {
        if self.peek_word().is_some() {
            self.nodes.next();
        }
    }
}

/// What the reading of a file has gathered so far.
#[derive(Default)]
pub(crate) struct Reading {
    pub warnings: Vec<String>,
    /// Where each key was given, by its whole name: `dpdk dev 0000:02:00.0 name`.
    given: BTreeMap<String, Place>,
}

impl Reading {
    /// The keys of a block that have an effect. `block_name` is the block's whole name, such as
    /// `dpdk dev 0000:02:00.0`.
    pub fn keys<'a>(
        &mut self,
        block_name: &str,
        block: &'a Block<'a>,
        keys: &'static [Key],
    ) -> Result<Vec<Given<'a>>, Complaint> {
        let mut found = Vec::new();
        let mut cursor = Cursor::new(block);
        while let Some((word, place)) = cursor.name()? {
            let key = find(keys, word, &mut cursor).ok_or_else(|| unknown_key(block_name, word, place, keys))?;
            let given = Self::what_follows(key, place, &mut cursor)?;
            self.note(block_name, key, &given, place)?;
            match key.idle {
                Some(why) => self.warnings.push(format!("{block_name}: {} has no effect: {why}", key.name)),
                None => found.push(given),
            }
        }
        Ok(found)
    }

    /// A section that is a word after its name, like `heapsize 1g`.
    pub fn word(
        &mut self,
        key: &'static Key,
        place: Place,
        cursor: &mut Cursor<'_>,
        into: &mut Settings,
    ) -> Result<(), Complaint> {
        let given = Self::what_follows(key, place, cursor)?;
        if into.has(key.name) {
            return Err(Complaint::new(place, format!("'{}' is given twice", key.name)));
        }
        (key.check)(&given.value)?;
        let places = (place, given.value.place);
        into.0.push(Entry { key: key.name, text: given.value.string(), inside: Settings::default(), places });
        Ok(())
    }

    /// The same as data, blocks in blocks. Blocks of keys that have none are passed over.
    pub fn settings(
        &mut self,
        block_name: &str,
        block: &Block<'_>,
        keys: &'static [Key],
        into: &mut Settings,
    ) -> Result<(), Complaint> {
        for given in self.keys(block_name, block, keys)? {
            (given.of.check)(&given.value)?;
            let mut inside = Settings::default();
            match (given.of.shape, given.block) {
                (Shape::Words(what), Some(block)) => words(given.key, what, block, &mut inside)?,
                (_, Some(block)) if !given.of.keys.is_empty() => {
                    let name = format!("{block_name} {} {}", given.key, given.value.text);
                    self.settings(name.trim_end(), block, given.of.keys, &mut inside)?;
                }
                _ => {}
            }
            for (word, place) in given.flags {
                let flag = given.of.keys.iter().find(|flag| flag.name == word);
                inside.0.extend(flag.map(|flag| Entry::flag(flag.name, place)));
            }
            let places = (given.place, given.value.place);
            into.0.push(Entry { key: given.key, text: given.value.string(), inside, places });
        }
        Ok(())
    }

    fn what_follows<'a>(key: &'static Key, place: Place, cursor: &mut Cursor<'a>) -> Result<Given<'a>, Complaint> {
        let alone = Value { key: key.name, text: "", place };
        let mut flags = Vec::new();
        let (value, block) = match key.shape {
            Shape::NamedWith(what) => {
                let value = cursor.value(key.name, what)?;
                while cursor.peek_word().is_some_and(|word| key.keys.iter().any(|flag| flag.name == word)) {
                    flags.extend(cursor.name()?);
                }
                let block = if flags.is_empty() { cursor.optional_block() } else { None };
                (value, block)
            }
            Shape::Flag => (alone, None),
            Shape::Value(what) | Shape::Values(what) => (cursor.value(key.name, what)?, None),
            Shape::Block | Shape::Words(_) => (alone, Some(cursor.block(key.name)?)),
            Shape::Named(what) => (cursor.value(key.name, what)?, cursor.optional_block()),
        };
        Ok(Given { key: key.name, value, block, flags, place, of: key })
    }

    /// A key given twice is a mistake, unless it names one of many and another one each time.
    fn note(&mut self, block_name: &str, key: &Key, given: &Given<'_>, place: Place) -> Result<(), Complaint> {
        let name = match key.shape {
            Shape::Values(_) | Shape::Named(_) | Shape::NamedWith(_) => format!("{} {}", key.name, given.value.text),
            Shape::Flag | Shape::Value(_) | Shape::Block | Shape::Words(_) => key.name.into(),
        };
        match self.given.insert(format!("{block_name} {name}"), place) {
            Some(first) => Err(Complaint::new(
                place,
                format!("'{name}' is given twice in '{block_name}' (first at {}:{})", first.line, first.column),
            )),
            None => Ok(()),
        }
    }

    /// Where a key was given, by its whole name.
    pub fn place(&self, name: &str) -> Option<Place> {
        self.given.get(name).copied()
    }

    /// All places, as `LINE:COLUMN`.
    pub fn into_places(self) -> BTreeMap<String, (usize, usize)> {
        self.given.into_iter().map(|(name, place)| (name, (place.line, place.column))).collect()
    }
}

/// A block that holds only words.
fn words(key: &'static str, what: &str, block: &Block<'_>, into: &mut Settings) -> Result<(), Complaint> {
    for node in &block.nodes {
        match node.kind {
            NodeKind::Word(word) => into.0.push(Entry { text: word.into(), ..Entry::flag(key, node.place) }),
            NodeKind::Block(_) => {
                return Err(Complaint::new(node.place, format!("'{{' in '{key}': expected {what}")));
            }
        }
    }
    Ok(())
}

/// The key that a word begins, or is; of two words both are taken.
fn find<'k>(keys: &'k [Key], word: &str, cursor: &mut Cursor<'_>) -> Option<&'k Key> {
    let next = cursor.peek_word();
    let two_words = keys.iter().find(|key| key.name.split_once(' ').is_some_and(|(a, b)| a == word && Some(b) == next));
    if two_words.is_some() {
        cursor.skip_word();
        return two_words;
    }
    keys.iter().find(|key| key.name == word)
}

fn unknown_key(block_name: &str, word: &str, place: Place, keys: &[Key]) -> Complaint {
    let names = || keys.iter().map(|key| key.name);
    let known: Vec<&str> = names().collect();
    let meant = did_you_mean(word, names());
    Complaint::new(
        place,
        format!("unknown key '{word}' in '{block_name}': expected one of {}{meant}", known.join(", ")),
    )
}
