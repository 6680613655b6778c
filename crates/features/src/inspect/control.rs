//! `show control`: the longest tasks of the control thread, and how long other clients waited meanwhile.

use command::table::{Align, Table};
use command::{Args, Command, CommandSet, reply};
use router::Router;
use router::pace::{ControlStatus, Done};
use serde::Serialize;
use std::fmt;
use std::time::Instant;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(Command::new(
        "show control",
        "Show the current task of the control thread and its longest tasks, with the longest time without answering \
         other clients.",
        |router: &mut Router, _: &Args| reply(ShowControl::of(&router.pace.status, Instant::now())),
    ));
    set.add(Command::new(
        "clear control",
        "Clear the list of the longest tasks of the control thread.",
        |router: &mut Router, _: &Args| {
            router.pace.status.clear();
            reply(command::Done)
        },
    ));
}

#[derive(Serialize)]
struct ShowControl {
    /// The task that is being done in pieces; never this command itself.
    doing: Option<Work>,
    longest: Vec<Work>,
}

#[derive(Serialize)]
struct Work {
    what: String,
    seconds: f64,
    pieces: u64,
    longest_piece_seconds: f64,
    /// Seconds since it ended.
    ago: Option<f64>,
}

impl ShowControl {
    fn of(status: &ControlStatus, now: Instant) -> ShowControl {
        let doing = status.doing().filter(|doing| doing.pieces > 0).map(|doing| Work {
            what: doing.what.to_string(),
            seconds: now.duration_since(doing.since).as_secs_f64(),
            pieces: doing.pieces,
            longest_piece_seconds: doing.longest_piece.as_secs_f64(),
            ago: None,
        });
        let work = |done: Done| Work {
            what: done.what.to_string(),
            seconds: done.took.as_secs_f64(),
            pieces: done.pieces,
            longest_piece_seconds: done.longest_piece.as_secs_f64(),
            ago: Some(now.duration_since(done.ended).as_secs_f64()),
        };
        ShowControl { doing, longest: status.longest().into_iter().map(work).collect() }
    }
}

impl fmt::Display for ShowControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.doing {
            Some(work) => writeln!(f, "{}: at work for {:.1} s, {} pieces done", work.what, work.seconds, work.pieces)?,
            None => writeln!(f, "nothing that takes long is being done")?,
        }
        let mut table = Table::new("  ")
            .column("What took longest", Align::Left, 17)
            .column("Seconds", Align::Right, 7)
            .column("Pieces", Align::Right, 6)
            .column("Longest piece", Align::Right, 13)
            .column("Ended", Align::Right, 5);
        for work in &self.longest {
            table.row([
                work.what.clone(),
                format!("{:.3}", work.seconds),
                work.pieces.to_string(),
                format!("{:.3}", work.longest_piece_seconds),
                format!("{:.0} s ago", work.ago.unwrap_or(0.0)),
            ]);
        }
        write!(f, "{table}")
    }
}
