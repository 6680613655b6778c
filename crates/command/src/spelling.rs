//! Lines that no listed command takes: other spellings of commands, and words of which it is known why there is no
//! command of theirs here.
//!
//! They are looked at when a line is refused, so that they change neither what other lines mean nor what may be shortened.

use crate::line::Word;
use std::collections::BTreeMap;

/// Fewest letters that stand for a longer word.
const SHORTEST: usize = 3;

/// A word of a path, with the words that may follow it.
#[derive(Default)]
pub(crate) struct Spellings {
    children: BTreeMap<String, Spellings>,
    /// Commands by their full names, with the number of the spelling.
    pub commands: Vec<(String, usize)>,
    /// Why there is no such command.
    pub refusal: Option<String>,
}

impl Spellings {
    /// The place of a path, made when it is not there.
    pub fn at(&mut self, path: &[String]) -> &mut Self {
        path.iter().fold(self, |node, word| node.children.entry(word.clone()).or_default())
    }

    /// The longest path that a line begins with, each word of it in full, with the number of its words.
    pub fn in_full(&self, words: &[Word<'_>]) -> Option<(usize, &Self)> {
        let mut node = self;
        let mut longest = None;
        for (at, word) in words.iter().enumerate() {
            let Some(next) = node.children.get(word.text) else { break };
            node = next;
            longest = Some((at + 1, node)).filter(|_| !node.commands.is_empty()).or(longest);
        }
        longest
    }

    fn next(&self, word: &str) -> Option<&Self> {
        if let Some(child) = self.children.get(word) {
            return Some(child);
        }
        let mut beginning_so = self
            .children
            .range(word.to_string()..)
            .take_while(|(name, _)| name.starts_with(word))
            .map(|(_, node)| node);
        let only = beginning_so.next().filter(|_| word.len() >= SHORTEST)?;
        beginning_so.next().is_none().then_some(only)
    }

    /// What the words of a line lead to, the longest path first, each with the number of its words.
    pub fn along(&self, words: &[Word<'_>]) -> Vec<(usize, &Self)> {
        let mut passed = Vec::new();
        let mut node = self;
        for (at, word) in words.iter().enumerate() {
            let Some(next) = node.next(word.text) else { break };
            passed.push((at + 1, next));
            node = next;
        }
        passed.reverse();
        passed
    }
}
