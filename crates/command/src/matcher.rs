//! Runs a command's automaton over the words of a line.
//!
//! All threads move forward together, so each word is read once. The threads that are alive at a word say what could
//! stand there: a keyword spelled exactly wins, else the values that accept the word, else the one keyword that the
//! word abbreviates.

use std::collections::HashSet;
use std::rc::Rc;

use crate::CommandError;
use crate::args::{Args, Entry};
use crate::line::Word;
use crate::nearest;
use crate::syntax::{Instruction, Program};
use crate::value::Kind;

/// Threads alive at one word. Real grammars need a handful; the bound keeps a grammar with ambiguous options from
/// growing without end.
const MAXIMUM_THREADS: usize = 1024;

/// Most continuations that an error message names.
const NAMED_CONTINUATIONS: usize = 40;

/// Most characters of a word that an error message repeats.
const QUOTED_CHARACTERS: usize = 60;

/// A point in the program that has been reached.
#[derive(Clone)]
struct Thread {
    at: usize,
    /// Bits of the options used, for each any-order group.
    used: Rc<[u64]>,
    /// The last capture, an index into `captures`.
    capture: Option<usize>,
}

/// What a thread has read, as a list that threads share towards its beginning.
struct Capture<'a> {
    before: Option<usize>,
    what: Captured<'a>,
}

#[derive(Clone, Copy)]
enum Captured<'a> {
    Flag(&'a str),
    Text { name: &'a str, text: &'a str },
    GroupStart(&'a str),
    GroupEnd,
}

/// The parameters of a line: its words from `first` on, after the command's path.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub line: &'a str,
    pub words: &'a [Word<'a>],
    pub first: usize,
}

impl<'a> Input<'a> {
    /// The text of a `{ ... }` whose opening brace is word `at`, without the braces.
    fn block(&self, at: usize) -> &'a str {
        let open = &self.words[at];
        let close = &self.words[open.closed_by];
        self.line[open.start + 1..close.start].trim()
    }
}

struct Matcher<'a> {
    program: &'a Program,
    input: Input<'a>,
    captures: Vec<Capture<'a>>,
    /// Threads waiting at each word, and after the last word.
    waiting: Vec<Vec<Thread>>,
    seen: HashSet<(usize, usize, Rc<[u64]>)>,
    /// The last word at which a thread waits.
    furthest: usize,
}

/// Why a line does not fit.
pub(crate) struct Mismatch {
    /// The word that was refused; the number of words when a word is missing.
    pub word: usize,
    /// What could stand there.
    pub expectations: Vec<String>,
    pub error: CommandError,
}

/// Reads the parameters of a line.
pub(crate) fn parse(program: &Program, input: Input<'_>) -> Result<Args, Mismatch> {
    let mut matcher = Matcher::new(program, input);
    matcher.run()?;
    matcher.finish()
}

/// What may come at some word.
#[derive(Debug, PartialEq)]
pub(crate) enum Next<'a> {
    Keyword {
        word: &'a str,
        /// The value that must follow the keyword, if there is one.
        before: Option<(&'a str, &'a Kind)>,
    },
    Value {
        name: &'a str,
        kind: &'a Kind,
    },
    /// The command is complete.
    End,
}

/// What may come after the words of a line, each once; empty when the words do not fit.
pub(crate) fn continuations<'a>(program: &'a Program, input: Input<'a>) -> Vec<Next<'a>> {
    let mut matcher = Matcher::new(program, input);
    if matcher.run().is_err() {
        return Vec::new();
    }
    let mut continuations = Vec::new();
    for thread in std::mem::take(&mut matcher.waiting[input.words.len()]) {
        let next = match &program.instructions[thread.at] {
            Instruction::Keyword(word) => Next::Keyword { word, before: value_at(program, thread.at + 1) },
            Instruction::Value { name, kind } => Next::Value { name, kind },
            Instruction::Accept => Next::End,
            _ => continue,
        };
        if !continuations.contains(&next) {
            continuations.push(next);
        }
    }
    continuations
}

fn value_at(program: &Program, at: usize) -> Option<(&str, &Kind)> {
    match program.instructions.get(at)? {
        Instruction::Value { name, kind } => Some((name, kind)),
        _ => None,
    }
}

impl<'a> Matcher<'a> {
    fn new(program: &'a Program, input: Input<'a>) -> Self {
        let mut matcher = Self {
            program,
            input,
            captures: Vec::new(),
            waiting: vec![Vec::new(); input.words.len() + 1],
            seen: HashSet::new(),
            furthest: input.first,
        };
        let start = Thread { at: 0, used: vec![0; program.sets].into(), capture: None };
        matcher.follow(input.first, start);
        matcher
    }

    /// Moves threads over all words; an error when no thread gets past some word.
    fn run(&mut self) -> Result<(), Mismatch> {
        for word in self.input.first..self.input.words.len() {
            let threads = std::mem::take(&mut self.waiting[word]);
            if threads.is_empty() {
                continue;
            }
            self.step(word, &threads)?;
            if self.furthest == word {
                return Err(self.refuse(word, &threads));
            }
        }
        Ok(())
    }

    fn step(&mut self, word: usize, threads: &[Thread]) -> Result<(), Mismatch> {
        if self.step_keywords(word, threads, |keyword, text| keyword == text) {
            return Ok(());
        }
        for thread in threads {
            self.step_value(word, thread);
        }
        if self.furthest > word {
            return Ok(());
        }
        let text = self.input.words[word].text;
        let mut candidates = self.keywords(threads);
        candidates.retain(|keyword| keyword.starts_with(text));
        if candidates.len() > 1 {
            let error = CommandError::new(format!(
                "ambiguous '{}' (word {}), could be: {}",
                quoted(text),
                word + 1,
                candidates.join(", ")
            ));
            return Err(Mismatch { word, expectations: candidates.into_iter().map(str::to_string).collect(), error });
        }
        self.step_keywords(word, threads, |keyword, text| keyword.starts_with(text));
        Ok(())
    }

    /// Moves the threads that wait for a keyword which fits the word.
    fn step_keywords(&mut self, word: usize, threads: &[Thread], fits: impl Fn(&str, &str) -> bool) -> bool {
        let program = self.program;
        let mut moved = false;
        for thread in threads {
            if let Instruction::Keyword(keyword) = &program.instructions[thread.at]
                && fits(keyword, self.input.words[word].text)
            {
                self.advance(word + 1, thread, Captured::Flag(keyword));
                moved = true;
            }
        }
        moved
    }

    /// Moves a thread that waits for a value which accepts the word.
    fn step_value(&mut self, word: usize, thread: &Thread) {
        let program = self.program;
        let Instruction::Value { name, kind } = &program.instructions[thread.at] else {
            return;
        };
        let input = self.input;
        let at = &input.words[word];
        let (text, next) = match kind {
            Kind::Rest => (input.line[at.start..].trim_end(), input.words.len()),
            Kind::Block if at.text == "{" && at.closed_by > word => (input.block(word), at.closed_by + 1),
            _ if !at.is_brace() && kind.accepts(at.text) => (at.text, word + 1),
            _ => return,
        };
        self.advance(next, thread, Captured::Text { name, text });
    }

    fn advance(&mut self, word: usize, thread: &Thread, what: Captured<'a>) {
        let mut thread = thread.clone();
        thread.capture = self.capture(thread.capture, what);
        thread.at += 1;
        self.follow(word, thread);
    }

    fn capture(&mut self, before: Option<usize>, what: Captured<'a>) -> Option<usize> {
        self.captures.push(Capture { before, what });
        Some(self.captures.len() - 1)
    }

    /// Follows a thread to the instructions that read a word (or end the command), and leaves it waiting there.
    fn follow(&mut self, word: usize, mut thread: Thread) {
        loop {
            let key = (word, thread.at, Rc::clone(&thread.used));
            if self.waiting[word].len() >= MAXIMUM_THREADS || !self.seen.insert(key) {
                return;
            }
            let program = self.program;
            match &program.instructions[thread.at] {
                Instruction::Keyword(_) | Instruction::Value { .. } | Instruction::Accept => {
                    self.furthest = self.furthest.max(word);
                    self.waiting[word].push(thread);
                    return;
                }
                Instruction::Jump(target) => {
                    thread.at = *target;
                    continue;
                }
                Instruction::Split(targets) => {
                    self.follow_all(word, &thread, targets.iter().copied());
                    return;
                }
                Instruction::Options(options) => {
                    let used = thread.used[options.set];
                    let open = |option: usize| (used & !options.repeatable) >> option & 1 == 0;
                    let starts = options.starts.iter().enumerate();
                    let starts = starts.filter(|(option, _)| open(*option)).map(|(_, at)| *at);
                    let complete = used & options.required == options.required;
                    self.follow_all(word, &thread, starts.chain(complete.then_some(options.exit)));
                    return;
                }
                Instruction::Chosen { name, choice } => {
                    let what = Captured::Text { name, text: choice };
                    thread.capture = self.capture(thread.capture, what);
                }
                Instruction::GroupStart(name) => {
                    thread.capture = self.capture(thread.capture, Captured::GroupStart(name));
                }
                Instruction::GroupEnd => {
                    thread.capture = self.capture(thread.capture, Captured::GroupEnd);
                }
                Instruction::OptionsEnter(set) => set_bits(&mut thread.used, *set, |_| 0),
                Instruction::OptionUsed { set, option } => {
                    set_bits(&mut thread.used, *set, |bits| bits | 1 << option);
                }
            }
            thread.at += 1;
        }
    }

    fn follow_all(&mut self, word: usize, thread: &Thread, targets: impl Iterator<Item = usize>) {
        for at in targets {
            let mut thread = thread.clone();
            thread.at = at;
            self.follow(word, thread);
        }
    }

    /// The parameters that the preferred complete thread read.
    fn finish(mut self) -> Result<Args, Mismatch> {
        let end = self.input.words.len();
        let threads = std::mem::take(&mut self.waiting[end]);
        let complete = |thread: &&Thread| matches!(self.program.instructions[thread.at], Instruction::Accept);
        match threads.iter().find(complete) {
            Some(thread) => Ok(self.args(thread.capture)),
            None => {
                let after = self.input.words.last().map_or("", |word| word.text);
                let expectations = self.expectations(&threads);
                let expected = either(&expectations);
                let error = CommandError::new(format!("expected {expected} after '{}'", quoted(after)));
                Err(Mismatch { word: end, expectations, error })
            }
        }
    }

    fn args(&self, last: Option<usize>) -> Args {
        let mut read = Vec::new();
        let mut next = last;
        while let Some(index) = next {
            read.push(self.captures[index].what);
            next = self.captures[index].before;
        }
        // Open groups, outermost first, each with its name.
        let mut open = vec![("", Args::default())];
        for what in read.into_iter().rev() {
            let (_, args) = open.last_mut().expect("the whole command is never closed");
            match what {
                Captured::Flag(name) => args.push(name, Entry::Flag),
                Captured::Text { name, text } => args.push(name, Entry::Text(text.to_string())),
                Captured::GroupStart(name) => open.push((name, Args::default())),
                Captured::GroupEnd => {
                    let (name, group) = open.pop().expect("starts and ends are compiled in pairs");
                    let (_, args) = open.last_mut().expect("the whole command is never closed");
                    args.push(name, Entry::Group(group));
                }
            }
        }
        open.swap_remove(0).1
    }

    /// The keywords that threads wait for, each once.
    fn keywords(&self, threads: &[Thread]) -> Vec<&'a str> {
        let mut keywords: Vec<&str> = Vec::new();
        for thread in threads {
            if let Instruction::Keyword(keyword) = &self.program.instructions[thread.at]
                && !keywords.contains(&keyword.as_str())
            {
                keywords.push(keyword);
            }
        }
        keywords
    }

    /// Everything that threads wait for, in words, each once.
    fn expectations(&self, threads: &[Thread]) -> Vec<String> {
        let mut expectations: Vec<String> = Vec::new();
        for thread in threads {
            let expectation = match &self.program.instructions[thread.at] {
                Instruction::Keyword(keyword) => keyword.clone(),
                Instruction::Value { name, kind } => kind.expectation(name),
                _ => continue,
            };
            if !expectations.contains(&expectation) {
                expectations.push(expectation);
            }
        }
        expectations
    }

    /// Why no thread gets past the word.
    fn refuse(&self, word: usize, threads: &[Thread]) -> Mismatch {
        let text = quoted(self.input.words[word].text);
        let number = word + 1;
        let expectations = self.expectations(threads);
        let error = CommandError::new(if expectations.is_empty() {
            format!("unexpected '{text}' (word {number}): the command is complete before it")
        } else if self.keywords(threads).is_empty() {
            format!("bad value '{text}' (word {number}): expected {}", either(&expectations))
        } else {
            let typed = self.input.words[word].text;
            let meant = did_you_mean(typed, self.keywords(threads));
            format!("unknown input '{text}' (word {number}){meant}\n{}", one_of(typed, &expectations))
        });
        Mismatch { word, expectations, error }
    }
}

fn set_bits(used: &mut Rc<[u64]>, set: usize, change: impl Fn(u64) -> u64) {
    let mut bits = used.to_vec();
    bits[set] = change(bits[set]);
    *used = bits.into();
}

/// A word as an error message repeats it: shortened if it is long.
pub(crate) fn quoted(word: &str) -> String {
    match word.char_indices().nth(QUOTED_CHARACTERS) {
        Some((end, _)) => format!("{}...", &word[..end]),
        None => word.to_string(),
    }
}

/// "a", "a or b", "a, b or c".
fn either(expectations: &[String]) -> String {
    match expectations {
        [] => "nothing".into(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// The line of an error message that names what could come; of many, the names most like `word`.
pub(crate) fn one_of(word: &str, expectations: &[String]) -> String {
    let mut named = nearest::sorted(word, expectations.iter().map(String::as_str));
    named.truncate(NAMED_CONTINUATIONS);
    named.sort_unstable();
    let more = match expectations.len() > named.len() {
        true => format!(", ... ({} in all)", expectations.len()),
        false => String::new(),
    };
    format!("expected one of: {}{more}", named.join(", "))
}

/// The end of an error's first line, which names the word probably meant; empty when there is none.
pub(crate) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    match nearest::likely(word, candidates) {
        Some(meant) => format!(", did you mean '{meant}'?"),
        None => String::new(),
    }
}
