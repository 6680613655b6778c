//! Watches over the control thread: a small thread checks now and then what the control thread does
//! ([`ControlStatus`]), and logs work that does not end. The control thread in turn watches the workers
//! (`inspect::stall_watch`).

use router::pace::{ControlStatus, Doing};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{fs, io, process, thread};

/// The time between two checks.
const LOOK: Duration = Duration::from_secs(1);
/// When no request was answered for this long, that is logged.
const STUCK: Duration = Duration::from_secs(2);
/// When work in pieces takes this long, that is logged, too.
const LONG: Duration = Duration::from_secs(10);

/// Begins to watch the process's first thread, which is the control thread. The watching thread ends with the process,
/// or when the status is dropped.
///
/// # Errors
/// When the system refuses a thread.
pub fn start(status: &Arc<ControlStatus>) -> io::Result<()> {
    let status = Arc::downgrade(status);
    thread::Builder::new().name("quiver_watch".into()).spawn(move || watch(&status)).map(drop)
}

fn watch(status: &Weak<ControlStatus>) {
    let mut watcher = Watcher::default();
    loop {
        thread::sleep(LOOK);
        let Some(status) = status.upgrade() else { return };
        let doing = status.doing();
        let waited = doing.as_ref().and_then(|_| waited_for_processor()).unwrap_or_default();
        match watcher.look(doing.as_ref(), Instant::now(), waited) {
            Some(Finding::Stuck(text)) => log::error!("{text}"),
            Some(Finding::Note(text)) => log::warn!("{text}"),
            None => {}
        }
    }
}

/// For how long the control thread, since it began, could have run and got no processor: the second number of
/// /proc/PID/task/TID/schedstat, in nanoseconds (Linux, Documentation/scheduler/sched-stats.rst).
fn waited_for_processor() -> Option<Duration> {
    let process = process::id();
    let numbers = fs::read_to_string(format!("/proc/{process}/task/{process}/schedstat")).ok()?;
    numbers.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// What is to be logged.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    Stuck(String),
    Note(String),
}

/// What was logged already: each thing is logged once.
#[derive(Default)]
struct Watcher {
    /// When the piece that is at work began, and how long the thread had waited for a processor when it was seen first.
    piece: Option<(Instant, Duration)>,
    /// The work that was logged as stuck, and the piece that did not end.
    stuck: Option<(Instant, Instant)>,
    /// The work that was logged as long.
    long: Option<Instant>,
}

impl Watcher {
    /// `waited` is how long the thread has waited for a processor until now.
    fn look(&mut self, doing: Option<&Doing>, now: Instant, waited: Duration) -> Option<Finding> {
        // The long work has ended.
        self.long.take_if(|since| doing.is_none_or(|doing| doing.since != *since));
        let is_same = |(since, piece): &mut (Instant, Instant)| {
            doing.is_some_and(|doing| (doing.since, doing.piece_since) == (*since, *piece))
        };
        // The stuck piece has ended: requests were answered after it, whatever is being done now.
        if self.stuck.take_if(|stuck| !is_same(stuck)).is_some() {
            return Some(Finding::Note("control thread: it answers again".into()));
        }
        let doing = doing?;
        if self.piece.is_none_or(|(since, _)| since != doing.piece_since) {
            self.piece = Some((doing.piece_since, waited));
        }
        let (piece, whole) = (now.duration_since(doing.piece_since), now.duration_since(doing.since));
        let what = &doing.what;
        if piece >= STUCK && self.stuck.is_none() {
            self.stuck = Some((doing.since, doing.piece_since));
            let seconds = piece.as_secs();
            // What the system does not say is 0.
            let waited = waited.saturating_sub(self.piece.map_or(waited, |(_, before)| before));
            let waited = match waited.as_secs_f64() {
                0.1.. => format!(" (it waited for a processor {:.1} s)", waited.as_secs_f64()),
                _ => String::new(),
            };
            let text = format!(
                "control thread: '{what}' has held it for {seconds} s{waited}: no command is answered meanwhile"
            );
            return Some(Finding::Stuck(text));
        }
        if whole >= LONG && piece < STUCK && self.long.is_none() {
            self.long = Some(doing.since);
            let seconds = whole.as_secs();
            let text = format!(
                "control thread: '{what}' has been at work for {seconds} s: only 'show' commands are answered meanwhile"
            );
            return Some(Finding::Note(text));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use router::pace::Pace;

    const NONE: Duration = Duration::ZERO;

    fn doing(what: &'static str) -> Doing {
        let mut pace = Pace::default();
        pace.begin(what);
        pace.status.doing().expect("just begun")
    }

    #[test]
    fn what_does_not_come_back_is_named_once_and_so_is_its_end() {
        let (mut watcher, doing) = (Watcher::default(), doing("load"));
        let after = |seconds| doing.since + Duration::from_secs(seconds);
        assert_eq!(watcher.look(Some(&doing), after(1), NONE), None);
        let Some(Finding::Stuck(text)) = watcher.look(Some(&doing), after(3), NONE) else { panic!("it is stuck") };
        assert_eq!(text, "control thread: 'load' has held it for 3 s: no command is answered meanwhile");
        assert_eq!(watcher.look(Some(&doing), after(20), NONE), None, "said already");
        assert_eq!(watcher.look(None, after(21), NONE), Some(Finding::Note("control thread: it answers again".into())));
        assert_eq!(watcher.look(None, after(22), NONE), None);
    }

    #[test]
    fn a_thread_that_gets_no_processor_is_told_apart() {
        let (mut watcher, doing) = (Watcher::default(), doing("load"));
        let after = |seconds| doing.since + Duration::from_secs(seconds);
        // It had waited before this piece began, too.
        assert_eq!(watcher.look(Some(&doing), after(0), Duration::from_secs(7)), None);
        let waited = Duration::from_millis(8_640);
        let Some(Finding::Stuck(text)) = watcher.look(Some(&doing), after(2), waited) else { panic!("it is stuck") };
        let expected = "control thread: 'load' has held it for 2 s (it waited for a processor 1.6 s): \
                        no command is answered meanwhile";
        assert_eq!(text, expected);
        assert!(waited_for_processor().is_some());
        // The system says no more how long it waited.
        let mut watcher = Watcher::default();
        assert_eq!(watcher.look(Some(&doing), after(0), Duration::from_secs(7)), None);
        let Some(Finding::Stuck(text)) = watcher.look(Some(&doing), after(2), NONE) else { panic!("it is stuck") };
        assert_eq!(text, "control thread: 'load' has held it for 2 s: no command is answered meanwhile");
    }

    #[test]
    fn what_was_held_and_goes_on_answers_again() {
        let (mut watcher, mut doing) = (Watcher::default(), doing("ip route add"));
        let after = |seconds| doing.since + Duration::from_secs(seconds);
        assert!(matches!(watcher.look(Some(&doing), after(3), NONE), Some(Finding::Stuck(_))));
        let next = after(4);
        doing.piece_since = next;
        let again = Some(Finding::Note("control thread: it answers again".into()));
        assert_eq!(watcher.look(Some(&doing), next, NONE), again);
        let Some(Finding::Stuck(text)) = watcher.look(Some(&doing), next + STUCK, NONE) else {
            panic!("it is held again")
        };
        assert_eq!(text, "control thread: 'ip route add' has held it for 2 s: no command is answered meanwhile");
    }

    #[test]
    fn what_is_done_in_pieces_is_not_stuck_but_long() {
        let (mut watcher, mut doing) = (Watcher::default(), doing("ip route load"));
        let began = doing.since;
        for second in 1..30 {
            let now = began + Duration::from_secs(second);
            doing.piece_since = now;
            let said = watcher.look(Some(&doing), now, NONE);
            match second {
                10 => assert!(matches!(said, Some(Finding::Note(text)) if text.contains("at work for 10 s"))),
                _ => assert_eq!(said, None, "{second}"),
            }
        }
    }
}
