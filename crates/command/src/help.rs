//! What may stand at the end of an unfinished line: completion for the TAB key and help
//! for the `?` key, both from the automaton that also parses.

use crate::line::{self, Word};
use crate::matcher::{self, Input, Next};
use crate::set::{Node, Walk};
use crate::{Command, CommandError, CommandSet};

/// Width of the name column of a help listing, as VPP prints it.
const NAME_WIDTH: usize = 40;
/// Words that follow a first word, as many as fit a line.
const FOLLOWING_WORDS: usize = 6;

/// A word that may stand at the end of a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    pub word: String,
    /// What it is, in a few words; may be empty.
    pub help: String,
}

/// The words of which one may complete a line, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Where the word begins that is completed, in bytes; the end of the line when a word
    /// is yet to begin.
    pub start: usize,
    pub candidates: Vec<Candidate>,
}

impl Completion {
    /// The longest text with which all candidates begin.
    pub fn common_prefix(&self) -> &str {
        let Some((first, others)) = self.candidates.split_first() else {
            return "";
        };
        let mut common = first.word.as_str();
        for other in others {
            let same = common.char_indices().zip(other.word.chars()).find(|((_, a), b)| a != b);
            let end = same.map_or(common.len().min(other.word.len()), |((at, _), _)| at);
            common = &common[..end];
        }
        common
    }
}

/// An unfinished line: whole words, and the beginning of one more.
struct Unfinished<'a, C> {
    line: &'a str,
    words: Vec<Word<'a>>,
    /// The word being typed; empty when it is yet to begin.
    typed: &'a str,
    start: usize,
    walk: Walk<'a, C>,
}

impl<'a, C> Unfinished<'a, C> {
    fn read(set: &'a CommandSet<C>, line: &'a str) -> Result<Self, CommandError> {
        let (mut words, _) = line::split_unfinished(line)?;
        let typing = |word: &&Word<'_>| !word.is_brace() && !line.ends_with(char::is_whitespace);
        let (start, typed) = words.last().filter(typing).map_or((line.len(), ""), |word| (word.start, word.text));
        if !typed.is_empty() {
            words.pop();
        }
        let walk = set.walk(&words);
        Ok(Self { line, words, typed, start, walk })
    }

    /// Whether all whole words belong to a path, so that the next may too.
    fn is_on_path(&self) -> bool {
        self.walk.path.len() == self.words.len()
    }

    /// The command that the path leads to, when it is complete.
    fn command(&self) -> Option<&'a Command<C>> {
        self.walk.node.command.as_ref()
    }

    /// What the command's parameters may go on with.
    fn continuations(&self) -> Vec<Next<'_>> {
        let input = Input { line: self.line, words: &self.words, first: self.walk.path.len() };
        self.command().map_or(Vec::new(), |command| matcher::continuations(&command.program, input))
    }
}

impl<C> CommandSet<C> {
    /// The words that may stand at the end of an unfinished line. `values` lists the
    /// values of a type that the program knows, such as `interface`.
    pub fn complete(&self, line: &str, values: &dyn Fn(&str) -> Vec<String>) -> Completion {
        let Ok(unfinished) = Unfinished::read(self, line) else {
            return Completion { start: line.len(), candidates: Vec::new() };
        };
        let typed = unfinished.typed;
        let mut candidates = Vec::new();
        if unfinished.is_on_path() {
            for (word, node) in unfinished.walk.node.beginning_with(typed) {
                let mut commands = Vec::new();
                node.commands(&mut commands);
                let help = match &commands[..] {
                    [only] => only.help(),
                    _ => "...",
                };
                candidates.push(Candidate { word: word.to_string(), help: help.to_string() });
            }
        }
        for next in unfinished.continuations() {
            match next {
                Next::Keyword { word, .. } if word.starts_with(typed) => {
                    candidates.push(Candidate { word: word.to_string(), help: about(&next) });
                }
                Next::Value { kind, .. } => {
                    let known = kind.listed().map_or(Vec::new(), values);
                    let fitting = known.into_iter().filter(|word| word.starts_with(typed));
                    candidates.extend(fitting.map(|word| Candidate { word, help: about(&next) }));
                }
                _ => {}
            }
        }
        candidates.sort();
        candidates.dedup_by(|a, b| a.word == b.word);
        Completion { start: unfinished.start, candidates }
    }

    /// Help on what a line could go on with, one line each: nothing lists the first words of commands, `show ` lists
    /// all commands that begin with `show`, `sh` also those of other words that begin so; after a command its syntax,
    /// its sentence and the words that may come next. A final `?` is ignored.
    pub fn help(&self, line: &str) -> String {
        let line = line.trim_start();
        let line = line.strip_suffix('?').unwrap_or(line);
        let unfinished = match Unfinished::read(self, line) {
            Ok(unfinished) => unfinished,
            Err(error) => return format!("{error}\n"),
        };
        if !unfinished.is_on_path() && unfinished.command().is_none() {
            return format!("{}\n", self.incomplete(&unfinished.walk, &unfinished.words));
        }
        let mut help = paths(&unfinished) + &parameters(&unfinished);
        if help.is_empty() {
            // Nothing begins with what was typed: say what could come instead.
            let whole = Unfinished { typed: "", ..unfinished };
            help = paths(&whole) + &parameters(&whole);
        }
        help
    }
}

/// The commands whose paths go on with the typed word, as VPP lists them; and the command
/// that the line names already.
fn paths<C>(unfinished: &Unfinished<'_, C>) -> String {
    let mut help = String::new();
    if unfinished.typed.is_empty()
        && let Some(command) = unfinished.command()
    {
        help += &row(&command.name, &command.syntax());
        help += &row("", command.help());
    }
    if unfinished.words.is_empty() && unfinished.typed.is_empty() {
        return unfinished.walk.node.beginning_with("").map(|(word, node)| first_word(word, node)).collect();
    }
    if unfinished.is_on_path() {
        let mut commands = Vec::new();
        for (_, node) in unfinished.walk.node.beginning_with(unfinished.typed) {
            node.commands(&mut commands);
        }
        help.extend(commands.iter().map(|command| listing(command)));
    }
    help
}

/// A word with which commands begin, in one line: what goes on with it.
fn first_word<C>(word: &str, node: &Node<C>) -> String {
    let mut commands = Vec::new();
    node.commands(&mut commands);
    if let [only] = commands[..] {
        return row(&only.name, only.help());
    }
    let next: Vec<&str> = node.beginning_with("").map(|(word, _)| word).collect();
    let shown = &next[..next.len().min(FOLLOWING_WORDS)];
    let more = if next.len() > shown.len() { ", ..." } else { "" };
    row(word, &format!("{} commands: {word} {}{more}", commands.len(), shown.join(", ")))
}

/// The words that the parameters of the line's command may go on with.
fn parameters<C>(unfinished: &Unfinished<'_, C>) -> String {
    let rows = unfinished.continuations().into_iter().filter_map(|next| match next {
        Next::Keyword { word, .. } => word.starts_with(unfinished.typed).then(|| row(word, &about(&next))),
        Next::Value { name, kind } => Some(row(&kind.placeholder(name), &about(&next))),
        Next::End => unfinished.typed.is_empty().then(|| row("<enter>", "carry it out")),
    });
    rows.collect()
}

/// What a word is.
fn about(next: &Next<'_>) -> String {
    match next {
        Next::Keyword { before: Some((name, kind)), .. } => kind.expectation(name),
        Next::Value { name, kind } => kind.expectation(name),
        Next::Keyword { before: None, .. } | Next::End => String::new(),
    }
}

/// A command's line in a listing: the syntax, or the sentence when the syntax adds nothing.
fn listing<C>(command: &Command<C>) -> String {
    match command.parameters.is_empty() {
        true => row(&command.name, command.help()),
        false => row(&command.name, &command.syntax()),
    }
}

fn row(name: &str, about: &str) -> String {
    format!("  {}\n", format_args!("{name:<NAME_WIDTH$} {about}").to_string().trim_end())
}
