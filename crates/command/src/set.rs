//! Commands and the set of them that a program knows.

use std::collections::BTreeMap;

use crate::line::{self, Word};
use crate::matcher::{self, Input, Mismatch, one_of, quoted};
use crate::reply::{Reply, Text, reply};
use crate::syntax::{Program, Syntax, shown};
use crate::{Args, CommandError, Done};

/// Width of the name column of a help listing, as VPP prints it.
const HELP_NAME_WIDTH: usize = 40;

type Handler<C> = Box<dyn Fn(&mut C, &Args) -> Result<Box<dyn Reply>, CommandError> + Send + Sync>;

/// One command: its grammar, its help sentence and what it does to the context `C`.
pub struct Command<C> {
    name: String,
    path: Vec<String>,
    parameters: String,
    help: String,
    program: Program,
    configures: bool,
    handler: Handler<C>,
}

impl<C> Command<C> {
    /// Makes a command of a syntax string (see the crate's documentation).
    ///
    /// # Panics
    /// When the syntax string is malformed: that is a programmer's error, and it shows at
    /// the first start.
    pub fn new<H>(syntax: &str, help: &str, handler: H) -> Self
    where
        H: Fn(&mut C, &Args) -> Result<Box<dyn Reply>, CommandError> + Send + Sync + 'static,
    {
        let read = Syntax::parse(syntax).unwrap_or_else(|error| panic!("syntax of command `{syntax}': {error}"));
        Self {
            name: read.path.join(" "),
            parameters: shown(&read.parameters),
            program: Program::compile(&read.parameters),
            path: read.path,
            help: help.to_string(),
            configures: false,
            handler: Box::new(handler),
        }
    }

    /// Marks a command that states configuration, or takes it away.
    #[must_use]
    pub fn configures(mut self) -> Self {
        self.configures = true;
        self
    }

    /// Whether it states configuration.
    pub fn is_configuration(&self) -> bool {
        self.configures
    }

    /// The words of the path in full, such as `set interface state`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole syntax as help shows it, without types.
    pub fn syntax(&self) -> String {
        format!("{} {}", self.name, self.parameters).trim_end().to_string()
    }

    /// The help sentence.
    pub fn help(&self) -> &str {
        &self.help
    }

    /// Its line in a listing: the syntax, or the sentence when the syntax adds nothing.
    fn listing(&self) -> String {
        let about = match self.parameters.is_empty() {
            true => self.help.clone(),
            false => self.syntax(),
        };
        format!("  {:<HELP_NAME_WIDTH$} {about}\n", self.name)
    }
}

/// A word of a path, with the words that may follow it.
struct Node<C> {
    children: BTreeMap<String, Node<C>>,
    command: Option<Command<C>>,
}

impl<C> Default for Node<C> {
    fn default() -> Self {
        Self { children: BTreeMap::new(), command: None }
    }
}

/// How a typed word fits the words that may come.
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

    fn beginning_with(&self, word: &str) -> impl Iterator<Item = (&str, &Node<C>)> {
        self.children
            .range(word.to_string()..)
            .take_while(move |(name, _)| name.starts_with(word))
            .map(|(name, node)| (name.as_str(), node))
    }

    fn commands<'a>(&'a self, into: &mut Vec<&'a Command<C>>) {
        into.extend(&self.command);
        for child in self.children.values() {
            child.commands(into);
        }
    }
}

/// How far the words of a line follow the paths of a set.
struct Walk<'a, C> {
    node: &'a Node<C>,
    /// The words of the path in full.
    path: Vec<&'a str>,
    /// What the next word could mean, when it is ambiguous.
    ambiguous: Vec<&'a str>,
}

/// All commands, found by the words of their paths.
pub struct CommandSet<C> {
    root: Node<C>,
}

impl<C> Default for CommandSet<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> CommandSet<C> {
    /// A set that knows only `comment`, which does nothing.
    pub fn new() -> Self {
        let mut set = Self { root: Node::default() };
        set.add(Command::new(
            "comment [<text:rest>]",
            "Does nothing: a remark in a file of commands.",
            |_: &mut C, _: &Args| reply(Done),
        ));
        set
    }

    /// Adds a command.
    ///
    /// # Panics
    /// When there is a command of that name already: a programmer's error that shows at
    /// the first start.
    pub fn add(&mut self, command: Command<C>) -> &mut Self {
        let mut node = &mut self.root;
        for word in &command.path {
            node = node.children.entry(word.clone()).or_default();
        }
        assert!(node.command.is_none(), "command `{}' is registered twice", command.name);
        node.command = Some(command);
        self
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
        self.walk(&words).node.command.as_ref()
    }

    /// Runs one command line. A line that ends in the word `?` asks for help instead.
    ///
    /// # Errors
    /// The message begins with the command's name and says what is wrong with which word,
    /// or is that of the handler.
    pub fn execute(&self, context: &mut C, line: &str) -> Result<Box<dyn Reply>, CommandError> {
        let line = line.trim();
        if line::is_remark(line) {
            return reply(Done);
        }
        if let Some(before) = line.strip_suffix('?')
            && self.asks_for_help(before)
        {
            return reply(Text(self.help(before)));
        }
        let words = line::split_words(line)?;
        let walk = self.walk(&words);
        let Some(command) = &walk.node.command else {
            return Err(self.incomplete(&walk, &words));
        };
        let input = Input { line, words: &words, first: walk.path.len() };
        let args = matcher::parse(&command.program, input)
            .map_err(|mismatch| explain(mismatch, &walk, &words))
            .map_err(|error| error.within(&command.name))?;
        (command.handler)(context, &args).map_err(|error| error.within(&command.name))
    }

    /// Help on what a line could go on with: `show ` lists all commands that begin with
    /// `show`, `sh` also those of other words that begin so; a complete path shows its
    /// syntax, its help sentence and what may come next. A final `?` is ignored.
    pub fn help(&self, line: &str) -> String {
        let line = line.trim_start();
        let line = line.strip_suffix('?').unwrap_or(line);
        let words = match line::split_unfinished(line) {
            Ok((words, _)) => words,
            Err(error) => return format!("{error}\n"),
        };
        let walk = self.walk(&words);
        let consumed = walk.path.len();
        let partial = !words.is_empty() && !line.ends_with(char::is_whitespace);
        if partial && consumed + 1 >= words.len() {
            let listing = self.help_on_partial_word(&words);
            if !listing.is_empty() {
                return listing;
            }
        }
        match &walk.node.command {
            Some(command) if consumed < words.len() || walk.node.children.is_empty() => {
                let input = Input { line, words: &words, first: consumed };
                help_on_command(command, input)
            }
            _ if consumed < words.len() => format!("{}\n", self.incomplete(&walk, &words)),
            _ => {
                let mut commands = Vec::new();
                walk.node.commands(&mut commands);
                commands.iter().map(|command| command.listing()).collect()
            }
        }
    }

    /// Lists all commands of which the last word may be the unfinished beginning.
    fn help_on_partial_word(&self, words: &[Word<'_>]) -> String {
        let Some((last, before)) = words.split_last() else {
            return String::new();
        };
        let parent = self.walk(before);
        if parent.path.len() < before.len() {
            return String::new();
        }
        let mut commands = Vec::new();
        for (_, node) in parent.node.beginning_with(last.text) {
            node.commands(&mut commands);
        }
        commands.iter().map(|command| command.listing()).collect()
    }

    /// Whether `line?` is a question: the mark stands alone, or ends a word of a path. A
    /// mark at the end of a value is part of the value.
    fn asks_for_help(&self, before: &str) -> bool {
        if before.is_empty() || before.ends_with(char::is_whitespace) {
            return true;
        }
        let Ok(words) = line::split_words(before) else {
            return false;
        };
        let walk = self.walk(&words);
        walk.path.len() == words.len() || (walk.path.len() + 1 == words.len() && !walk.ambiguous.is_empty())
    }

    fn walk(&self, words: &[Word<'_>]) -> Walk<'_, C> {
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
    fn incomplete(&self, walk: &Walk<'_, C>, words: &[Word<'_>]) -> CommandError {
        let names: Vec<String> = walk.node.children.keys().cloned().collect();
        let error = match words.get(walk.path.len()) {
            Some(word) if !walk.ambiguous.is_empty() => CommandError::new(format!(
                "ambiguous command `{}', could be: {}",
                quoted(word.text),
                walk.ambiguous.join(", ")
            )),
            Some(word) => {
                CommandError::new(format!("unknown input `{}'\n{}", quoted(word.text), one_of(word.text, &names)))
            }
            None => CommandError::new(format!("incomplete command\n{}", one_of("", &names))),
        };
        match walk.path.is_empty() {
            true => error,
            false => error.within(&walk.path.join(" ")),
        }
    }
}

/// The error of a command whose parameters do not fit. Where the refused word could also
/// have been the next word of a longer path, both ways on are named.
fn explain<C>(mismatch: Mismatch, walk: &Walk<'_, C>, words: &[Word<'_>]) -> CommandError {
    let at_the_fork = mismatch.word == walk.path.len();
    let Some(word) = words.get(mismatch.word) else {
        return mismatch.error;
    };
    let text = quoted(word.text);
    if at_the_fork && !walk.ambiguous.is_empty() {
        return CommandError::new(format!("ambiguous command `{text}', could be: {}", walk.ambiguous.join(", ")));
    }
    if !at_the_fork || walk.node.children.is_empty() {
        return mismatch.error;
    }
    let mut ways = mismatch.expectations;
    ways.extend(walk.node.children.keys().cloned());
    CommandError::new(format!("unknown input `{text}'\n{}", one_of(word.text, &ways)))
}

fn help_on_command<C>(command: &Command<C>, input: Input<'_>) -> String {
    let mut help = format!("  {:<HELP_NAME_WIDTH$} {}\n", command.name, command.syntax());
    help += &format!("  {:<HELP_NAME_WIDTH$} {}\n", "", command.help);
    let next = matcher::continuations(&command.program, input);
    if !next.is_empty() {
        help += &format!("  {:<HELP_NAME_WIDTH$} next: {}\n", "", next.join(", "));
    }
    help
}
