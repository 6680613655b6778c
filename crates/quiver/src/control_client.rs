//! Between sessions and the router: sessions read lines and write out replies on threads of
//! their own; the control thread, which owns the router, only carries out.
//!
//! One command that changes the router is carried out at a time, whole, in the order in which they came. While one
//! that takes long is done in pieces ([`router::pace`]), requests that only look are answered between the pieces, and
//! see what is done so far; all others wait for its end.

use crate::crash;
use crate::watchdog::Watchdog;
use command::{Args, CommandError, CommandSet, Completion, Files, Reply, Text, fail, reply};
use control::{Executor, SessionDefaults, SessionLine};
use crossbeam_channel::{Receiver, Sender, bounded};
use router::Router;
use router::listing::{Listings, Look};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What a session wants of the control thread.
pub enum Request {
    /// A command, read already.
    Run { name: String, args: Args, answer: Sender<Result<Box<dyn Reply>, CommandError>> },
    /// The names of a type, for completion.
    Values { kind: String, answer: Sender<Vec<String>> },
    /// The next page of a listing.
    Look(Look),
}

/// How replies that are being written ask for the next page of what they list.
pub fn listings(requests: Sender<Request>) -> Listings {
    Listings::by(move |look| requests.send(Request::Look(look)).is_ok())
}

/// What the CLI's threads hold of the router. They read lines and write out replies by
/// themselves; the control thread only carries out.
pub struct ControlClient {
    pub commands: Arc<CommandSet<Router>>,
    pub requests: Sender<Request>,
    /// What commands may reach of the file system.
    pub files: Files,
    /// How interactive sessions begin.
    pub manners: SessionDefaults,
}

impl ControlClient {
    /// Asks the control thread and waits for its answer; `None` when it is gone.
    fn ask<T>(&self, request: impl FnOnce(Sender<T>) -> Request) -> Option<T> {
        let (answer, answered) = bounded(1);
        self.requests.send(request(answer)).ok()?;
        answered.recv().ok()
    }
}

impl Executor for ControlClient {
    fn execute(&self, line: &str) -> Result<Box<dyn Reply>, CommandError> {
        if let Some(before) = self.commands.question(line) {
            return reply(Text(self.commands.help(before)));
        }
        let parsed = self.commands.parse(line)?;
        parsed.log_passed_over();
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

    fn manners(&self) -> SessionDefaults {
        self.manners.clone()
    }
}

impl Request {
    /// Whether it leaves the router as it is, so that it can be answered while another is carried out. Of a
    /// configuration that is half changed nobody has any use, least of all who keeps it: that waits for its end.
    fn only_looks(&self) -> bool {
        match self {
            Request::Run { name, .. } if name == "show running-config" => false,
            Request::Run { name, .. } => name.split(' ').next() == Some("show"),
            Request::Values { .. } | Request::Look(_) => true,
        }
    }

    /// Does what a session wants. It may have gone meanwhile.
    fn carry_out(self, router: &mut Router, commands: &CommandSet<Router>, crashes: &Path) {
        match self {
            Request::Run { name, args, answer } => {
                let _ = answer.send(execute(router, commands, &name, &args, crashes));
            }
            Request::Values { kind, answer } => {
                let _ = answer.send(router::values(router, &kind));
            }
            // A panic has left its report; the listing ends there.
            Request::Look(look) => drop(catch_unwind(AssertUnwindSafe(|| look(router)))),
        }
    }
}

/// The control thread's side: what was asked and is not answered yet, and who watches over the thread.
pub struct Requests {
    incoming: Receiver<Request>,
    commands: Arc<CommandSet<Router>>,
    /// Where crash reports go.
    crashes: PathBuf,
    /// What changes the router and came while something else was done in pieces, in its order. A session waits for its
    /// answer, so there are no more than sessions.
    put_off: VecDeque<Request>,
    watchdog: Option<Watchdog>,
}

/// The control thread has them, and the pieces of what it does.
#[derive(Clone)]
pub struct SharedRequests(Arc<Mutex<Requests>>);

impl SharedRequests {
    pub fn new(
        incoming: Receiver<Request>,
        commands: Arc<CommandSet<Router>>,
        crashes: PathBuf,
        watchdog: Option<Watchdog>,
    ) -> SharedRequests {
        let requests = Requests { incoming, commands, crashes, put_off: VecDeque::new(), watchdog };
        SharedRequests(Arc::new(Mutex::new(requests)))
    }

    /// Only the control thread takes it.
    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has requests that only look answered while others take long.
    pub fn serve_between_pieces(&self, router: &mut Router) {
        let requests = self.clone();
        router.pace.set_between(move |router| requests.lock().look(router));
    }

    /// Lets the watchdog do what is due. Gives when to come back.
    pub fn watch(&self, router: &Router) -> Option<Instant> {
        let mut requests = self.lock();
        let watchdog = requests.watchdog.as_mut()?;
        watchdog.tick(&router.graph, Instant::now());
        Some(watchdog.due())
    }

    /// Where requests come in, to wait there for one.
    pub fn incoming(&self) -> Receiver<Request> {
        self.lock().incoming.clone()
    }

    /// Takes what was put off, if anything.
    pub fn put_off(&self) -> Option<Request> {
        self.lock().put_off.pop_front()
    }

    /// Carries a request out.
    pub fn carry_out(&self, request: Request, router: &mut Router) {
        // Its pieces lock the requests.
        let (commands, crashes) = {
            let requests = self.lock();
            (requests.commands.clone(), requests.crashes.clone())
        };
        match &request {
            Request::Run { name, .. } => router.pace.begin(name.clone()),
            Request::Values { .. } => router.pace.begin("completion"),
            Request::Look(_) => router.pace.begin("page of a listing"),
        }
        request.carry_out(router, &commands, &crashes);
        router.pace.end();
    }
}

impl Requests {
    /// Between two pieces: tells the watchdog that the thread lives, and answers who only looks.
    fn look(&mut self, router: &mut Router) {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.tick(&router.graph, Instant::now());
        }
        // As many as there are now: who asks again at once must not hold up the work for ever.
        for _ in 0..self.incoming.len() {
            let Ok(request) = self.incoming.try_recv() else { return };
            match request.only_looks() {
                true => request.carry_out(router, &self.commands, &self.crashes),
                false => self.put_off.push_back(request),
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
        return fail(format!("no command '{name}'"));
    };
    catch_unwind(AssertUnwindSafe(|| command.run(router, args))).unwrap_or_else(|_| {
        match crash::report(crashes, &format_args!("command: {name}")) {
            Ok(path) => log::error!("command '{name}' panicked; its report: {}", path.display()),
            Err(error) => log::error!("command '{name}' panicked; no report in {}: {error}", crashes.display()),
        }
        fail("this command met a defect of the program; its effects are uncertain (see the log)")
    })
}
