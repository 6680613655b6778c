//! One command: its grammar, its help sentence, what is said about it and what it does.

use crate::reply::Reply;
use crate::syntax::{Element, Instruction, Program, Syntax, shown};
use crate::{Args, CommandError, PathKind, fail};

type Handler<C> = Box<dyn Fn(&mut C, &Args) -> Result<Box<dyn Reply>, CommandError> + Send + Sync>;

/// Whether a command may reach what a parameter names.
pub(crate) type Guard<C> = fn(&C, PathKind, &str) -> Result<(), CommandError>;

/// Hears of a command that stated configuration.
pub(crate) type Configured<C> = fn(&mut C, &Args);

/// One command: its grammar, its help sentence and what it does to the context `C`.
pub struct Command<C> {
    pub(crate) name: String,
    pub(crate) path: Vec<String>,
    pub(crate) parameters: Vec<Element>,
    pub(crate) program: Program,
    /// The section in which it was added, by its place in the set's list.
    pub(crate) section: Option<usize>,
    help: String,
    examples: Vec<String>,
    /// Other spellings of the same.
    pub(crate) spellings: Vec<(Vec<String>, Program)>,
    configures: bool,
    of_session: bool,
    pub(crate) guard: Option<Guard<C>>,
    pub(crate) configured: Option<Configured<C>>,
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
        let read = Syntax::parse(syntax).unwrap_or_else(|error| panic!("syntax of command '{syntax}': {error}"));
        Self {
            name: read.path.join(" "),
            program: Program::compile(&read.parameters),
            parameters: read.parameters,
            path: read.path,
            section: None,
            help: help.to_string(),
            examples: Vec::new(),
            spellings: Vec::new(),
            configures: false,
            of_session: false,
            guard: None,
            configured: None,
            handler: Box::new(handler),
        }
    }

    /// A command that the session (or the reader of a file) carries out by itself, such as
    /// `quit`: the grammar knows it for help, completion and abbreviation.
    ///
    /// # Panics
    /// As [`Command::new`].
    pub fn of_session(syntax: &str, help: &str) -> Self {
        let mut command =
            Self::new(syntax, help, |_: &mut C, _: &Args| fail("this command is for interactive sessions"));
        command.of_session = true;
        command
    }

    /// Adds a line that shows how it is used. [`crate::CommandSet::check_examples`] holds
    /// it against the grammar.
    #[must_use]
    pub fn example(mut self, line: &str) -> Self {
        self.examples.push(line.to_string());
        self
    }

    /// Takes another syntax for the same command: an older one, or one of VPP's many. Its values have the names that
    /// the handler knows; help, completion and the guide do not list it.
    ///
    /// # Panics
    /// As [`Command::new`].
    #[must_use]
    pub fn also(mut self, syntax: &str) -> Self {
        let read = Syntax::parse(syntax).unwrap_or_else(|error| panic!("syntax of command '{syntax}': {error}"));
        self.spellings.push((read.path, Program::compile(&read.parameters)));
        self
    }

    /// States that this command says how the program is to be set up (it does not act), so
    /// that it can be saved and loaded.
    #[must_use]
    pub fn configures(mut self) -> Self {
        self.configures = true;
        self
    }

    /// The words of the path in full, such as `set interface state`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole syntax as help shows it, without types.
    pub fn syntax(&self) -> String {
        format!("{} {}", self.name, shown(&self.parameters)).trim_end().to_string()
    }

    /// The help sentence.
    pub fn help(&self) -> &str {
        &self.help
    }

    /// Lines that show how it is used.
    pub fn examples(&self) -> &[String] {
        &self.examples
    }

    /// Whether it states configuration.
    pub fn is_configuration(&self) -> bool {
        self.configures
    }

    /// Whether the session carries it out.
    pub fn is_of_session(&self) -> bool {
        self.of_session
    }

    /// Its parameters by name, with what each names of the file system, if it does.
    pub fn values(&self) -> impl Iterator<Item = (&str, Option<PathKind>)> {
        self.program.instructions.iter().filter_map(|instruction| match instruction {
            Instruction::Value { name, kind } => Some((name.as_str(), kind.path())),
            _ => None,
        })
    }

    /// Carries it out with parameters that were parsed for it.
    ///
    /// # Errors
    /// The guard's, when a parameter names what it may not reach, and the handler's, with the command's name before it.
    pub fn run(&self, context: &mut C, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
        let outcome = self.check_paths(context, args).and_then(|()| (self.handler)(context, args));
        if let (Ok(_), Some(hears)) = (&outcome, self.configured.filter(|_| self.configures)) {
            hears(context, args);
        }
        outcome.map_err(|error| error.within(&self.name))
    }

    fn check_paths(&self, context: &C, args: &Args) -> Result<(), CommandError> {
        let Some(guard) = self.guard else { return Ok(()) };
        for (name, kind) in self.values() {
            let Some(kind) = kind else { continue };
            let mut given = Vec::new();
            args.all_texts(name, &mut given);
            given.into_iter().try_for_each(|text| guard(context, kind, text))?;
        }
        Ok(())
    }
}
