//! Between sessions and the router: sessions read lines and write out replies on threads of
//! their own; the control thread, which owns the router, only carries out.

use crate::crash;
use command::{Args, CommandError, CommandSet, Completion, Files, Reply, Text, fail, reply};
use control::{Executor, Manners, SessionLine};
use crossbeam_channel::{Sender, bounded};
use router::Router;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// What a session wants of the control thread.
pub enum Request {
    /// A command, read already.
    Run { name: String, args: Args, answer: Sender<Result<Box<dyn Reply>, CommandError>> },
    /// The names of a type, for completion.
    Values { kind: String, answer: Sender<Vec<String>> },
}

/// What the CLI's threads hold of the router. They read lines and write out replies by
/// themselves; the control thread only carries out.
pub struct Desk {
    pub commands: Arc<CommandSet<Router>>,
    pub requests: Sender<Request>,
    /// What commands may reach of the file system.
    pub files: Files,
    /// How interactive sessions begin.
    pub manners: Manners,
}

impl Desk {
    /// Asks the control thread and waits for its answer; `None` when it is gone.
    fn ask<T>(&self, request: impl FnOnce(Sender<T>) -> Request) -> Option<T> {
        let (answer, answered) = bounded(1);
        self.requests.send(request(answer)).ok()?;
        answered.recv().ok()
    }
}

impl Executor for Desk {
    fn execute(&self, line: &str) -> Result<Box<dyn Reply>, CommandError> {
        if let Some(before) = self.commands.question(line) {
            return reply(Text(self.commands.help(before)));
        }
        let parsed = self.commands.parse(line)?;
        let (name, args) = (parsed.command.name().to_string(), parsed.args);
        self.ask(|answer| Request::Run { name, args, answer }).unwrap_or_else(|| fail("the router is shutting down"))
    }

    fn of_session(&self, line: &str) -> Option<SessionLine> {
        if self.commands.question(line).is_some() {
            return None;
        }
        let parsed = self.commands.parse(line).ok().filter(|parsed| parsed.command.is_of_session())?;
        Some(SessionLine { name: parsed.command.name().to_string(), args: parsed.args })
    }

    fn help(&self, line: &str) -> String {
        self.commands.help(line)
    }

    fn complete(&self, line: &str) -> Completion {
        let values = |kind: &str| self.ask(|answer| Request::Values { kind: kind.into(), answer }).unwrap_or_default();
        self.commands.complete(line, &values)
    }

    fn files(&self) -> Files {
        self.files.clone()
    }

    fn manners(&self) -> Manners {
        self.manners.clone()
    }
}

impl Request {
    /// Does what a session wants. It may have gone meanwhile.
    pub fn carry_out(self, router: &mut Router, commands: &CommandSet<Router>, crashes: &Path) {
        match self {
            Request::Run { name, args, answer } => {
                let _ = answer.send(execute(router, commands, &name, &args, crashes));
            }
            Request::Values { kind, answer } => {
                let _ = answer.send(router::values(router, &kind));
            }
        }
    }
}

/// Carries out a command. A panic in it is a defect, but no reason to stop forwarding.
fn execute(
    router: &mut Router,
    commands: &CommandSet<Router>,
    name: &str,
    args: &Args,
    crashes: &Path,
) -> Result<Box<dyn Reply>, CommandError> {
    let Some(command) = commands.command(name) else {
        return fail(format!("no command `{name}'"));
    };
    catch_unwind(AssertUnwindSafe(|| command.run(router, args))).unwrap_or_else(|_| {
        match crash::report(crashes, &format_args!("command: {name}")) {
            Ok(path) => log::error!("command `{name}' panicked; its report: {}", path.display()),
            Err(error) => log::error!("command `{name}' panicked; no report in {}: {error}", crashes.display()),
        }
        fail("this command met a defect of the program; its effects are uncertain (see the log)")
    })
}
