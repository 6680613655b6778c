//! The set of commands that a program knows, and how a line finds its command.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::command::{Configured, Guard};
use crate::line::{self, Word};
use crate::matcher::{self, Input, Mismatch, did_you_mean, one_of, quoted};
use crate::options::{Becomes, KnownOption};
use crate::reply::{Reply, Text, reply};
use crate::spelling::Spellings;
use crate::{Args, Command, CommandError, Done, PathKind};

/// A word of a path, with the words that may follow it.
pub(crate) struct Node<C> {
    pub children: BTreeMap<String, Node<C>>,
    pub command: Option<Command<C>>,
}

impl<C> Default for Node<C> {
    fn default() -> Self {
        Self { children: BTreeMap::new(), command: None }
    }
}

/// How a typed word fits the words that may come next.
enum Fit<'a, C> {
    One(&'a str, &'a Node<C>),
    Several(Vec<&'a str>),
    None,
}

impl<C> Node<C> {
    fn fit(&self, word: &str) -> Fit<'_, C> {
        if let Some((name, node)) = self.children.get_key_value(word) {
            return Fit::One(name, node);
        }
        let mut beginning_so = self.beginning_with(word);
        match (beginning_so.next(), beginning_so.next()) {
            (Some((name, node)), None) => Fit::One(name, node),
            (Some(_), Some(_)) => Fit::Several(self.beginning_with(word).map(|(name, _)| name).collect()),
            _ => Fit::None,
        }
    }

    pub fn beginning_with(&self, word: &str) -> impl Iterator<Item = (&str, &Node<C>)> {
        self.children
            .range(word.to_string()..)
            .take_while(move |(name, _)| name.starts_with(word))
            .map(|(name, node)| (name.as_str(), node))
    }

    pub fn commands<'a>(&'a self, into: &mut Vec<&'a Command<C>>) {
        into.extend(&self.command);
        for child in self.children.values() {
            child.commands(into);
        }
    }
}

/// How far the words of a line follow the paths of a set.
pub(crate) struct Walk<'a, C> {
    pub node: &'a Node<C>,
    /// The words of the path in full.
    pub path: Vec<&'a str>,
    /// What the next word could mean, when it is ambiguous.
    pub ambiguous: Vec<&'a str>,
}

/// A command line, read: which command it names and with what parameters.
pub struct Parsed<'a, C> {
    pub command: &'a Command<C>,
    pub args: Args,
    /// Options of the line that have no effect, each with the reason.
    pub passed_over: Vec<String>,
}

impl<C> Parsed<'_, C> {
    /// Logs which options of the line have no effect.
    pub fn log_passed_over(&self) {
        self.passed_over.iter().for_each(|said| log::info!("{}: {said}", self.command.name));
    }
}

/// Most options of a line that may be passed over.
const MAXIMUM_PASSED_OVER: usize = 16;

/// Why a line is no command of the set.
struct Refusal {
    /// The word that was refused; the number of words when a word is missing.
    word: usize,
    /// The full name of the command that the line begins with.
    command: Option<String>,
    error: CommandError,
}

/// Commands that belong together, as the guide shows them.
#[derive(Clone, Debug)]
pub struct Section {
    pub title: String,
    /// One or two sentences (Markdown) on what its commands are about.
    pub introduction: String,
}

/// The section of the commands that every set has, and of the session's own.
pub const SESSION_SECTION: &str = "Sessions and files";

/// All commands, found by the words of their paths.
pub struct CommandSet<C> {
    root: Node<C>,
    spellings: Spellings,
    options: Vec<KnownOption>,
    sections: Vec<Section>,
    /// The section to which commands are being added.
    open: Option<usize>,
    /// Decides whether a command may reach a path.
    guard: Option<Guard<C>>,
    /// Hears of each command that stated configuration.
    configured: Option<Configured<C>>,
}

impl<C> Default for CommandSet<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> CommandSet<C> {
    /// A set that knows only `comment` and `echo`.
    pub fn new() -> Self {
        let spellings = Spellings::default();
        let mut set = Self {
            root: Node::default(),
            spellings,
            options: Vec::new(),
            sections: Vec::new(),
            open: None,
            guard: None,
            configured: None,
        };
        set.section(SESSION_SECTION, "");
        set.add(
            Command::new(
                "comment [<text:rest>]",
                "A remark in a file of commands. It does nothing.",
                |_: &mut C, _: &Args| reply(Done),
            )
            .example("comment the way to the peering"),
        );
        set.add(
            Command::new("echo [<text:rest>]", "Print a text.", |_: &mut C, args: &Args| {
                reply(Text(format!("{}\n", args.optional_text("text").unwrap_or_default())))
            })
            .example("echo half way there"),
        );
        set
    }

    /// Opens a section: commands added from now on belong to it. A section of that title that exists already is
    /// reopened.
    pub fn section(&mut self, title: &str, introduction: &str) -> &mut Self {
        let at = self.sections.iter().position(|section| section.title == title).unwrap_or_else(|| {
            self.sections.push(Section { title: title.to_string(), introduction: String::new() });
            self.sections.len() - 1
        });
        if !introduction.is_empty() {
            self.sections[at].introduction = introduction.to_string();
        }
        self.open = Some(at);
        self
    }

    /// All sections in the order in which they were first opened, each with its commands by name. The section of the
    /// commands that every set has comes last.
    pub fn sections(&self) -> Vec<(&Section, Vec<&Command<C>>)> {
        let commands = self.commands();
        let of = |number: usize| commands.iter().copied().filter(move |command| command.section == Some(number));
        let mut sections: Vec<_> =
            self.sections.iter().enumerate().map(|(number, section)| (section, of(number).collect())).collect();
        sections.rotate_left(1);
        sections
    }

    /// Adds a command.
    ///
    /// # Panics
    /// When there is a command of that name already: a programmer's error that shows at
    /// the first start.
    pub fn add(&mut self, mut command: Command<C>) -> &mut Self {
        command.section = self.open;
        command.guard = self.guard;
        command.configured = self.configured;
        let mut node = &mut self.root;
        for word in &command.path {
            node = node.children.entry(word.clone()).or_default();
        }
        assert!(node.command.is_none(), "command '{}' is registered twice", command.name);
        for (number, (path, _)) in command.spellings.iter().enumerate() {
            self.spellings.at(path).commands.push((command.name.clone(), number));
        }
        node.command = Some(command);
        self
    }

    /// Makes each command that is added from now on check, for each parameter that names something in the file system,
    /// whether it may reach it. So no handler can forget to.
    pub fn guard_paths(&mut self, guard: fn(&C, PathKind, &str) -> Result<(), CommandError>) {
        self.guard = Some(guard);
    }

    /// Has each command that is added from now on and that states configuration call this when it was carried out, with
    /// its parameters.
    pub fn when_configured(&mut self, hears: Configured<C>) {
        self.configured = Some(hears);
    }

    /// Makes a line that begins with these words fail with `why`.
    pub fn refuse(&mut self, words: &str, why: &str) -> &mut Self {
        let path: Vec<String> = words.split(' ').map(str::to_string).collect();
        self.spellings.at(&path).refusal = Some(why.to_string());
        self
    }

    /// Says what to do with a line that has an option which its command does not take. Add a longer option before a
    /// shorter one that it begins with.
    ///
    /// # Panics
    /// When there is no such command yet: a programmer's error that shows at the first start.
    pub fn option(&mut self, command: &str, option: &str, becomes: Becomes) -> &mut Self {
        assert!(self.command(command).is_some(), "option '{option}' of '{command}', which is not there");
        self.options.push(KnownOption::new(command, option, becomes));
        self
    }

    /// The command of this full name.
    pub fn command(&self, name: &str) -> Option<&Command<C>> {
        let mut node = &self.root;
        for word in name.split(' ') {
            node = node.children.get(word)?;
        }
        node.command.as_ref()
    }

    /// The first example that its command does not accept, with the reason: for a test that keeps examples true.
    pub fn check_examples(&self) -> Result<(), CommandError> {
        for command in self.commands() {
            for example in command.examples() {
                let about =
                    |reason: &str| CommandError::new(format!("example '{example}' of {}: {reason}", command.name));
                let parsed = self.parse(example).map_err(|error| about(error.message()))?;
                if parsed.command.name != command.name {
                    return Err(about(&format!("it is one of {}", parsed.command.name)));
                }
            }
        }
        Ok(())
    }

    /// All commands, sorted by name.
    pub fn commands(&self) -> Vec<&Command<C>> {
        let mut commands = Vec::new();
        self.root.commands(&mut commands);
        commands
    }

    /// The command whose path the words of `line` begin with.
    pub fn find(&self, line: &str) -> Option<&Command<C>> {
        let words = line::split_words(line).ok()?;
        let listed = self.walk(&words).node.command.as_ref();
        listed.or_else(|| self.spelled(line, &words).ok().map(|parsed| parsed.command))
    }

    /// Reads a command line without running it. A comment is read as `comment`.
    ///
    /// # Errors
    /// The message begins with the command's name and says what is wrong with which word.
    pub fn parse(&self, line: &str) -> Result<Parsed<'_, C>, CommandError> {
        let line = line.trim();
        if line::is_remark(line) {
            let command = self.command("comment").expect("a new set knows 'comment'");
            return Ok(Parsed { command, args: Args::default(), passed_over: Vec::new() });
        }
        let (mut shorter, mut passed_over) = (String::new(), Vec::new());
        let mut refusal = match self.read(line) {
            Ok(parsed) => return Ok(parsed),
            Err(refusal) => refusal,
        };
        // Removes the options that have no effect from the line, one by one.
        for _ in 0..MAXIMUM_PASSED_OVER {
            let line = if passed_over.is_empty() { line } else { &shorter };
            let Some(found) = self.passed_over(line, &refusal) else { break };
            let (said, place) = found?;
            shorter = format!("{}{}", &line[..place.start], &line[place.end..]);
            passed_over.push(said);
            match self.read(&shorter) {
                Ok(parsed) => return Ok(Parsed { passed_over, ..parsed }),
                Err(next) => refusal = next,
            }
        }
        Err(refusal.error)
    }

    fn read(&self, line: &str) -> Result<Parsed<'_, C>, Refusal> {
        let words = line::split_words(line).map_err(|error| Refusal { word: 0, command: None, error })?;
        // A word that only another spelling has is not a value: 'nbr' of 'show adj nbr' names no interface.
        if let Some((first, node)) = self.spellings.in_full(&words)
            && first > self.walk(&words).path.len()
            && let Some(parsed) = self.spelled_at(line, &words, first, node).find_map(Result::ok)
        {
            return Ok(parsed);
        }
        let refusal = match self.listed(line, &words) {
            Ok(parsed) => return Ok(parsed),
            Err(refusal) => refusal,
        };
        match self.spelled(line, &words) {
            Ok(parsed) => Ok(parsed),
            // The refusal further along the line describes the fault better.
            Err(Some(better)) if better.word > refusal.word => Err(better),
            Err(_) => Err(refusal),
        }
    }

    /// The option without effect at which a line was refused: its warning, and its bytes in the line. `None` when the
    /// line was refused for something else.
    fn passed_over(&self, line: &str, refusal: &Refusal) -> Option<Result<(String, Range<usize>), CommandError>> {
        let (name, words) = (refusal.command.as_deref()?, line::split_words(line).ok()?);
        let option = self.options.iter().find(|option| option.is_at(name, &words, refusal.word))?;
        let place = option.length(&words, refusal.word).map(|length| {
            let (first, last) = (&words[refusal.word], &words[refusal.word + length - 1]);
            (option.said(), first.start..last.start + last.text.len())
        });
        Some(place.map_err(|error| error.within(name)))
    }

    /// Reads a line as the canonical spelling of a command.
    fn listed(&self, line: &str, words: &[Word<'_>]) -> Result<Parsed<'_, C>, Refusal> {
        let walk = self.walk(words);
        let Some(command) = &walk.node.command else {
            return Err(Refusal { word: walk.path.len(), command: None, error: self.incomplete(&walk, words) });
        };
        let input = Input { line, words, first: walk.path.len() };
        let args = matcher::parse(&command.program, input).map_err(|mismatch| {
            let (word, name) = (mismatch.word, command.name.clone());
            let error = explain(mismatch, &walk, words).within(&name);
            Refusal { word, command: Some(name), error }
        })?;
        Ok(Parsed { command, args, passed_over: Vec::new() })
    }

    /// The line read as each spelling whose path ends at a node.
    fn spelled_at<'s, 'w>(
        &'s self,
        line: &'w str,
        words: &'w [Word<'w>],
        first: usize,
        node: &'s Spellings,
    ) -> impl Iterator<Item = Result<Parsed<'s, C>, Refusal>> + use<'s, 'w, C> {
        node.commands.iter().map(move |(name, number)| {
            let command = self.command(name).expect("a spelling is of a command that is there");
            let (_, program) = &command.spellings[*number];
            match matcher::parse(program, Input { line, words, first }) {
                Ok(args) => Ok(Parsed { command, args, passed_over: Vec::new() }),
                Err(mismatch) => {
                    let (word, error) = (mismatch.word, mismatch.error.within(name));
                    Err(Refusal { word, command: Some(name.clone()), error })
                }
            }
        })
    }

    /// Reads a line as another spelling of a command; else returns the closest refusal.
    fn spelled(&self, line: &str, words: &[Word<'_>]) -> Result<Parsed<'_, C>, Option<Refusal>> {
        let mut closest: Option<Refusal> = None;
        let is_closer = |word: usize, closest: &Option<Refusal>| closest.as_ref().is_none_or(|other| word > other.word);
        for (first, node) in self.spellings.along(words) {
            for read in self.spelled_at(line, words, first, node) {
                match read {
                    Ok(parsed) => return Ok(parsed),
                    Err(refusal) if is_closer(refusal.word, &closest) => closest = Some(refusal),
                    Err(_) => {}
                }
            }
            if let Some(why) = &node.refusal
                && is_closer(first, &closest)
            {
                let said: Vec<&str> = words[..first].iter().map(|word| word.text).collect();
                let error = CommandError::new(format!("{}: {why}", said.join(" ")));
                closest = Some(Refusal { word: first, command: None, error });
            }
        }
        Err(closest)
    }

    /// If a line ends in `?`, the part that it asks about; `None` when the line is no question. The mark stands alone
    /// or ends a word of a path; a mark at the end of a value is part of the value.
    pub fn question<'a>(&self, line: &'a str) -> Option<&'a str> {
        let line = line.trim();
        let before = line.strip_suffix('?').filter(|_| !line::is_remark(line))?;
        if before.is_empty() || before.ends_with(char::is_whitespace) {
            return Some(before);
        }
        let words = line::split_words(before).ok()?;
        let walk = self.walk(&words);
        let on_path =
            walk.path.len() == words.len() || (walk.path.len() + 1 == words.len() && !walk.ambiguous.is_empty());
        on_path.then_some(before)
    }

    /// Runs one command line. A line that ends in the word `?` asks for help instead.
    ///
    /// # Errors
    /// Those of [`CommandSet::parse`], and those of the handler.
    pub fn execute(&self, context: &mut C, line: &str) -> Result<Box<dyn Reply>, CommandError> {
        if let Some(before) = self.question(line) {
            return reply(Text(self.help(before)));
        }
        let parsed = self.parse(line)?;
        parsed.log_passed_over();
        parsed.command.run(context, &parsed.args)
    }

    /// Follows the words of a line along the paths, as far as they go.
    pub(crate) fn walk(&self, words: &[Word<'_>]) -> Walk<'_, C> {
        let mut walk = Walk { node: &self.root, path: Vec::new(), ambiguous: Vec::new() };
        for word in words {
            match walk.node.fit(word.text) {
                Fit::One(name, node) => {
                    walk.path.push(name);
                    walk.node = node;
                }
                Fit::Several(names) => {
                    walk.ambiguous = names;
                    break;
                }
                Fit::None => break,
            }
        }
        walk
    }

    /// Why the words of a line name no command.
    pub(crate) fn incomplete(&self, walk: &Walk<'_, C>, words: &[Word<'_>]) -> CommandError {
        let names: Vec<String> = walk.node.children.keys().cloned().collect();
        let error = match words.get(walk.path.len()) {
            Some(word) if !walk.ambiguous.is_empty() => ambiguous(word, &walk.ambiguous),
            Some(word) => unknown(word, &names),
            None => CommandError::new(format!("incomplete command\n{}", one_of("", &names))),
        };
        match walk.path.is_empty() {
            true => error,
            false => error.within(&walk.path.join(" ")),
        }
    }
}

/// The error of a command whose parameters do not fit. Where the refused word could also have been the next word of a
/// longer path, the message names both continuations.
fn explain<C>(mismatch: Mismatch, walk: &Walk<'_, C>, words: &[Word<'_>]) -> CommandError {
    let at_the_fork = mismatch.word == walk.path.len();
    let Some(word) = words.get(mismatch.word) else {
        return mismatch.error;
    };
    if at_the_fork && !walk.ambiguous.is_empty() {
        return ambiguous(word, &walk.ambiguous);
    }
    if !at_the_fork || walk.node.children.is_empty() {
        return mismatch.error;
    }
    let mut ways = mismatch.expectations;
    ways.extend(walk.node.children.keys().cloned());
    unknown(word, &ways)
}

fn ambiguous(word: &Word<'_>, meanings: &[&str]) -> CommandError {
    CommandError::new(format!("ambiguous command '{}', could be: {}", quoted(word.text), meanings.join(", ")))
}

fn unknown(word: &Word<'_>, ways: &[String]) -> CommandError {
    let meant = did_you_mean(word.text, ways.iter().map(String::as_str));
    CommandError::new(format!("unknown input '{}'{meant}\n{}", quoted(word.text), one_of(word.text, ways)))
}
