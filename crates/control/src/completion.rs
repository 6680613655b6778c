//! How the words that complete a line are shown: in columns to a person, a line each to
//! programs.

use std::fmt;

use command::{Candidate, Completion};
use serde::Serialize;

/// The candidates' words in as many columns as the width allows, downwards.
pub(crate) fn columns(completion: &Completion, width: usize) -> String {
    const GAP: usize = 2;
    let words: Vec<&str> = completion.candidates.iter().map(|candidate| candidate.word.as_str()).collect();
    let widest = words.iter().map(|word| word.chars().count()).max().unwrap_or(0) + GAP;
    let columns = ((width + GAP) / widest).clamp(1, words.len().max(1));
    let rows = words.len().div_ceil(columns);
    let mut text = String::new();
    for row in 0..rows {
        let line: String = words.iter().skip(row).step_by(rows).map(|word| format!("{word:<widest$}")).collect();
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// The answer to a line that ends in a tab: a word a line, with what it is after a tab.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct Completed(Vec<CompletedWord>);

#[derive(Serialize)]
struct CompletedWord {
    word: String,
    help: String,
}

impl Completed {
    pub fn of(completion: &Completion) -> Self {
        let word = |candidate: &Candidate| CompletedWord { word: candidate.word.clone(), help: candidate.help.clone() };
        Self(completion.candidates.iter().map(word).collect())
    }
}

impl fmt::Display for Completed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|CompletedWord { word, help }| writeln!(f, "{word}\t{help}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fill_the_width_downwards() {
        let candidates = ["a", "bb", "c", "d", "e"].map(|word| Candidate { word: word.into(), help: String::new() });
        let completion = Completion { start: 0, candidates: candidates.to_vec() };
        assert_eq!(columns(&completion, 80), "a   bb  c   d   e\n");
        assert_eq!(columns(&completion, 10), "a   c   e\nbb  d\n");
        assert_eq!(columns(&completion, 9), "a   d\nbb  e\nc\n");
        assert_eq!(columns(&completion, 0), "a\nbb\nc\nd\ne\n");
    }
}
