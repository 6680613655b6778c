//! The link between sessions and the router. Sessions read lines and write replies on threads of their own. The control
//! thread, which owns the router, only carries out requests.
//!
//! Commands that change the router are carried out completely, one at a time, in the order of their arrival. A command
//! that takes long is done in pieces ([`router::pace`]). Requests that only read are answered between the pieces, and
//! see the work done so far; all other requests wait until it is finished.

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

/// What a session asks the control thread to do.
pub enum Request {
    /// A command, already parsed.
    Run { name: String, args: Args, answer: Sender<Result<Box<dyn Reply>, CommandError>> },
    /// The names of a type, for completion.
    Values { kind: String, answer: Sender<Vec<String>> },
    /// The next page of a listing.
    Look(Look),
}

/// How a reply that is being written asks for the next page of its listing.
pub fn listings(requests: Sender<Request>) -> Listings {
    Listings::by(move |look| requests.send(Request::Look(look)).is_ok())
}

/// What session threads hold to reach the router: with it they parse lines, and ask the control thread to carry them
/// out.
pub struct ControlClient {
    pub commands: Arc<CommandSet<Router>>,
    pub requests: Sender<Request>,
    /// The part of the file system that commands may reach.
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
    /// Whether it only reads, so that it can be answered while another request is carried out. The command
    /// `show running-config` waits: a half-changed configuration is of no use, least of all to an operator who saves
    /// it.
    fn only_looks(&self) -> bool {
        match self {
            Request::Run { name, .. } if name == "show running-config" => false,
            Request::Run { name, .. } => name.split(' ').next() == Some("show"),
            Request::Values { .. } | Request::Look(_) => true,
        }
    }

    /// Carries out the request of a session. The session may be gone by now.
    fn carry_out(self, router: &mut Router, commands: &CommandSet<Router>, crashes: &Path) {
        match self {
            Request::Run { name, args, answer } => {
                let _ = answer.send(execute(router, commands, &name, &args, crashes));
            }
            Request::Values { kind, answer } => {
                let _ = answer.send(router::values(router, &kind));
            }
            // A panic has written its report; the listing ends there.
            Request::Look(look) => drop(catch_unwind(AssertUnwindSafe(|| look(router)))),
        }
    }
}

/// The control thread's side: requests that are pending, and the watchdog.
pub struct Requests {
    incoming: Receiver<Request>,
    commands: Arc<CommandSet<Router>>,
    /// Where crash reports go.
    crashes: PathBuf,
    /// Pending requests that change the router and arrived while another was done in pieces, in order. Each session
    /// waits for its answer, so there are no more of them than sessions.
    put_off: VecDeque<Request>,
    watchdog: Option<Watchdog>,
}

/// The requests, shared by the control thread's loop and the pieces of what it does.
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

    /// Only the control thread takes this lock.
    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers requests that only read while another request takes long.
    pub fn serve_between_pieces(&self, router: &mut Router) {
        let requests = self.clone();
        router.pace.set_between(move |router| requests.lock().look(router));
    }

    /// Lets the watchdog do what is due. Returns when to call this again.
    pub fn watch(&self, router: &Router) -> Option<Instant> {
        let mut requests = self.lock();
        let watchdog = requests.watchdog.as_mut()?;
        watchdog.tick(&router.graph, Instant::now());
        Some(watchdog.due())
    }

    /// The channel by which requests arrive, to wait for one.
    pub fn incoming(&self) -> Receiver<Request> {
        self.lock().incoming.clone()
    }

    /// Takes the first pending request, if there is one.
    pub fn put_off(&self) -> Option<Request> {
        self.lock().put_off.pop_front()
    }

    /// Carries a request out.
    pub fn carry_out(&self, request: Request, router: &mut Router) {
        // The lock is released first, because the request's pieces take it, too.
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
    /// Called between two pieces: shows the watchdog that the thread lives, and answers requests that only read.
    fn look(&mut self, router: &mut Router) {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.tick(&router.graph, Instant::now());
        }
        // Only as many as there are now: a session that asks again at once must not delay the work for ever.
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
