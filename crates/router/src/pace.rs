//! The pace of the control thread: a long command is done in pieces, and between two pieces clients that only read are
//! answered ([decision 023](../../../docs/decisions/023-the-control-thread-is-watched.md)).
//!
//! A long loop calls [`Router::breathe`] wherever the router's state is consistent for a reader: after each route, each
//! command of a file, each batch of a listing. When the piece has lasted its time, `breathe` calls the function set
//! with [`Pace::set_between`]. That function answers clients and reports to the watchdog that the thread is alive. It
//! must not change the router. A nested call of `breathe` does nothing: there is one level of pieces.
//!
//! [`ControlStatus`] shows other threads what the control thread is doing and since when.

use crate::Router;
use crossbeam_channel::{RecvTimeoutError, bounded};
use std::borrow::Cow;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a piece lasts. Other clients should be answered within 50 ms: the rest is for the last step of a piece.
pub const PIECE: Duration = Duration::from_millis(20);
/// The shortest wait between two looks at work that another thread does.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// How many of the longest tasks are kept.
const KEPT: usize = 8;
/// Tasks shorter than this are not kept.
const NOTABLE: Duration = Duration::from_millis(1);

/// Called between two pieces.
pub type Between = Box<dyn FnMut(&mut Router) + Send>;

/// When a long command pauses to answer other clients.
pub struct Pace {
    between: Option<Between>,
    piece: Duration,
    piece_began: Instant,
    /// What the control thread is doing, for other threads to read.
    pub status: Arc<ControlStatus>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { between: None, piece: PIECE, piece_began: Instant::now(), status: Arc::default() }
    }
}

impl Pace {
    /// Sets the function that is called between the pieces of long work from now on. It must not change the router.
    pub fn set_between(&mut self, between: impl FnMut(&mut Router) + Send + 'static) {
        self.between = Some(Box::new(between));
    }

    /// Sets how long a piece lasts.
    pub fn set_piece(&mut self, piece: Duration) {
        self.piece = piece;
    }

    /// The control thread begins a task with this name.
    pub fn begin(&mut self, what: impl Into<Cow<'static, str>>) {
        self.piece_began = Instant::now();
        self.status.begin(what.into(), self.piece_began);
    }

    /// The task that was begun last is done.
    pub fn end(&mut self) {
        self.status.end(Instant::now());
    }
}

impl Router {
    /// Called by long work, at points where the router's state is consistent for a reader. When the piece has lasted
    /// its time, other clients are answered.
    pub fn breathe(&mut self) {
        if self.pace.between.is_none() || self.pace.piece_began.elapsed() < self.pace.piece {
            return;
        }
        let Some(mut between) = self.pace.between.take() else { return };
        self.pace.status.piece_ends(Instant::now());
        between(self);
        self.pace.between = Some(between);
        self.pace.piece_began = Instant::now();
        self.pace.status.piece_begins(self.pace.piece_began);
    }
}

impl Router {
    /// Runs work that needs no router on a thread of its own, while other clients are answered here: reading or writing
    /// a file; sorting, comparing or freeing a large list. When no client could be answered, the work is done at once.
    pub fn aside<T: Send>(&mut self, work: impl FnOnce() -> T + Send) -> T {
        if self.pace.between.is_none() {
            return work();
        }
        let wait = (self.pace.piece / 2).max(SHORTEST_WAIT);
        let mut work = Some(work);
        let done = thread::scope(|scope| {
            let (ends, ended) = bounded::<()>(0);
            let place = &mut work;
            let run = move || {
                let _ends = ends; // dropped when the work is done, or panics
                place.take().map(|work| work())
            };
            let thread = thread::Builder::new().name("quiver_aside".into()).spawn_scoped(scope, run).ok()?;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                self.breathe();
            }
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        });
        // The system refused a thread, so the work is done here.
        done.or_else(|| work.take().map(|work| work())).expect("it is done there or here")
    }
}

/// What the control thread is doing, and what it did longest.
#[derive(Debug, Default)]
pub struct ControlStatus {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    doing: Option<Doing>,
    longest: Vec<Done>,
}

/// A task that is being done.
#[derive(Debug, Clone)]
pub struct Doing {
    pub what: Cow<'static, str>,
    pub since: Instant,
    /// Since when no client was answered.
    pub piece_since: Instant,
    /// Pieces that are done.
    pub pieces: u64,
    /// The longest time in which no client was answered.
    pub longest_piece: Duration,
}

/// A task that is done.
#[derive(Debug, Clone)]
pub struct Done {
    pub what: Cow<'static, str>,
    pub took: Duration,
    pub pieces: u64,
    /// The longest time in which no client was answered.
    pub longest_piece: Duration,
    pub ended: Instant,
}

impl ControlStatus {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present task.
    pub fn doing(&self) -> Option<Doing> {
        self.state().doing.clone()
    }

    /// The longest tasks, each kind of task once, the longest first.
    pub fn longest(&self) -> Vec<Done> {
        self.state().longest.clone()
    }

    /// Forgets the longest tasks.
    pub fn clear(&self) {
        self.state().longest.clear();
    }

    fn begin(&self, what: Cow<'static, str>, now: Instant) {
        let doing = Doing { what, since: now, piece_since: now, pieces: 0, longest_piece: Duration::ZERO };
        self.state().doing = Some(doing);
    }

    fn piece_ends(&self, now: Instant) {
        if let Some(doing) = &mut self.state().doing {
            doing.pieces += 1;
            doing.longest_piece = doing.longest_piece.max(now.duration_since(doing.piece_since));
        }
    }

    fn piece_begins(&self, now: Instant) {
        if let Some(doing) = &mut self.state().doing {
            doing.piece_since = now;
        }
    }

    fn end(&self, now: Instant) {
        self.piece_ends(now);
        let mut state = self.state();
        let Some(Doing { what, since, pieces, longest_piece, .. }) = state.doing.take() else { return };
        let took = now.duration_since(since);
        if took < NOTABLE {
            return;
        }
        let longest = &mut state.longest;
        match longest.iter().position(|known| known.what == what) {
            Some(at) if longest[at].took >= took => return,
            Some(at) => drop(longest.remove(at)),
            None => {}
        }
        let at = longest.partition_point(|known| known.took >= took);
        longest.insert(at, Done { what, took, pieces, longest_piece, ended: now });
        longest.truncate(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_kind_of_work_the_longest_is_kept() {
        let status = ControlStatus::default();
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let does = |what: &'static str, milliseconds| {
            status.begin(what.into(), at(0));
            status.piece_ends(at(milliseconds / 2));
            status.piece_begins(at(milliseconds / 2));
            status.end(at(milliseconds));
        };
        for (what, milliseconds) in [("load", 30), ("save", 40), ("load", 50), ("save", 20), ("confirm", 0)] {
            does(what, milliseconds);
        }
        let found = status.longest();
        let shown: Vec<_> = found.iter().map(|done| (&*done.what, done.took.as_millis(), done.pieces)).collect();
        assert_eq!(shown, [("load", 50, 2), ("save", 40, 2)]);
        assert_eq!(found[0].longest_piece, Duration::from_millis(25));
        status.clear();
        assert!(status.longest().is_empty());
    }
}
