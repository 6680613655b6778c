//! Watches over the control thread: a small thread checks now and then what the control thread does
//! ([`ControlStatus`]), and logs work that does not end. The control thread in turn watches the workers
//! (`inspect::stall_watch`).

use router::pace::{ControlStatus, Doing};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{io, thread};

/// The time between two checks.
const LOOK: Duration = Duration::from_secs(1);
/// When no request was answered for this long, that is logged.
const STUCK: Duration = Duration::from_secs(2);
/// When work in pieces takes this long, that is logged, too.
const LONG: Duration = Duration::from_secs(10);

/// Begins to watch. The thread ends with the process, or when the status is dropped.
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
        match watcher.look(status.doing().as_ref(), Instant::now()) {
            Some(Finding::Stuck(text)) => log::error!("{text}"),
            Some(Finding::Note(text)) => log::warn!("{text}"),
            None => {}
        }
    }
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
    /// The work that was logged as stuck, and the piece that did not end.
    stuck: Option<(Instant, Instant)>,
    /// The work that was logged as long.
    long: Option<Instant>,
}

impl Watcher {
    fn look(&mut self, doing: Option<&Doing>, now: Instant) -> Option<Finding> {
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
        let (piece, whole) = (now.duration_since(doing.piece_since), now.duration_since(doing.since));
        let what = &doing.what;
        if piece >= STUCK && self.stuck.is_none() {
            self.stuck = Some((doing.since, doing.piece_since));
            let seconds = piece.as_secs();
            let text =
                format!("control thread: '{what}' has held it for {seconds} s: no command is answered meanwhile");
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

    fn doing(what: &'static str) -> Doing {
        let mut pace = Pace::default();
        pace.begin(what);
        pace.status.doing().expect("just begun")
    }

    #[test]
    fn what_does_not_come_back_is_named_once_and_so_is_its_end() {
        let (mut watcher, doing) = (Watcher::default(), doing("load"));
        let after = |seconds| doing.since + Duration::from_secs(seconds);
        assert_eq!(watcher.look(Some(&doing), after(1)), None);
        let Some(Finding::Stuck(text)) = watcher.look(Some(&doing), after(3)) else { panic!("it is stuck") };
        assert_eq!(text, "control thread: 'load' has held it for 3 s: no command is answered meanwhile");
        assert_eq!(watcher.look(Some(&doing), after(20)), None, "said already");
        assert_eq!(watcher.look(None, after(21)), Some(Finding::Note("control thread: it answers again".into())));
        assert_eq!(watcher.look(None, after(22)), None);
    }

    #[test]
    fn what_was_held_and_goes_on_answers_again() {
        let (mut watcher, mut doing) = (Watcher::default(), doing("ip route add"));
        let after = |seconds| doing.since + Duration::from_secs(seconds);
        assert!(matches!(watcher.look(Some(&doing), after(3)), Some(Finding::Stuck(_))));
        let next = after(4);
        doing.piece_since = next;
        let again = Some(Finding::Note("control thread: it answers again".into()));
        assert_eq!(watcher.look(Some(&doing), next), again);
        let Some(Finding::Stuck(text)) = watcher.look(Some(&doing), next + STUCK) else { panic!("it is held again") };
        assert_eq!(text, "control thread: 'ip route add' has held it for 2 s: no command is answered meanwhile");
    }

    #[test]
    fn what_is_done_in_pieces_is_not_stuck_but_long() {
        let (mut watcher, mut doing) = (Watcher::default(), doing("ip route load"));
        let began = doing.since;
        for second in 1..30 {
            let now = began + Duration::from_secs(second);
            doing.piece_since = now;
            let said = watcher.look(Some(&doing), now);
            match second {
                10 => assert!(matches!(said, Some(Finding::Note(text)) if text.contains("at work for 10 s"))),
                _ => assert_eq!(said, None, "{second}"),
            }
        }
    }
}
