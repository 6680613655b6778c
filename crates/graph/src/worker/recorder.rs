//! The flight recorder: what a worker ran last, for the report of a panic.
//!
//! A ring of the worker's own, 1 KiB: running a node costs one 16-byte store into it. A
//! source is noted when it has brought packets; its empty polls would push out everything
//! else.

use crate::time;
use std::any::Any;
use std::fmt;

/// Runs of nodes that are kept.
pub const KEPT: usize = 64;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Run {
    pub node: u32,
    pub packets: u32,
    /// When it began.
    pub ticks: u64,
}

pub(super) struct Recorder {
    runs: [Run; KEPT],
    /// Runs so far; the next one's place, modulo the ring.
    count: usize,
}

impl Recorder {
    pub fn new() -> Recorder {
        Recorder { runs: [Run::default(); KEPT], count: 0 }
    }

    #[inline(always)]
    pub fn note(&mut self, node: usize, packets: usize, ticks: u64) {
        self.runs[self.count % KEPT] = Run { node: node as u32, packets: packets as u32, ticks };
        self.count = self.count.wrapping_add(1);
    }

    /// What is kept, oldest first.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        let kept = self.count.min(KEPT);
        (self.count - kept..self.count).map(|at| &self.runs[at % KEPT])
    }
}

/// One run of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub node: String,
    /// Packets that it was given, or, of a source, that it brought.
    pub packets: u32,
    /// Ticks of the clock from then to the panic.
    pub ticks_before: u64,
}

/// A panic that was caught at the border of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// The worker's number, from 0.
    pub thread: usize,
    /// The node that ran; none: it was a message from control.
    pub node: Option<String>,
    /// What the panic said.
    pub message: String,
    /// Rounds that the worker had finished.
    pub rounds: u64,
    /// Packets that were lost with it.
    pub lost: usize,
    /// How many panics in a row this is, and after how many the process ends.
    pub panics: u32,
    pub most_panics: u32,
    /// The last runs of nodes, oldest first: the last one is the node's that panicked, if one did.
    pub recent: Vec<Step>,
}

impl Crash {
    /// Whether the process ends now.
    pub fn is_last(&self) -> bool {
        self.panics >= self.most_panics
    }

    /// What panicked, in words.
    pub fn culprit(&self) -> String {
        self.node.as_ref().map_or_else(|| "a message from control".into(), |node| format!("node {node}"))
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "worker {}: {} panicked: {}", self.thread, self.culprit(), self.message)?;
        writeln!(
            f,
            "panic {} of {} in a row, after {} rounds; {} packets dropped",
            self.panics, self.most_panics, self.rounds, self.lost
        )?;
        writeln!(f, "what ran last, oldest first:\n{:>16}  {:<32}{:>8}", "us before", "node", "packets")?;
        for step in &self.recent {
            let micros = time::seconds(step.ticks_before) * 1e6;
            writeln!(f, "{micros:>16.3}  {:<32}{:>8}", step.node, step.packets)?;
        }
        Ok(())
    }
}

/// What a panic said, when it said it in words.
pub(super) fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(a panic without words)").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_last_runs_in_order() {
        let mut recorder = Recorder::new();
        let nodes = |recorder: &Recorder| recorder.runs().map(|run| run.node).collect::<Vec<_>>();
        assert!(nodes(&recorder).is_empty());
        (0..3).for_each(|n| recorder.note(n, 1, 0));
        assert_eq!(nodes(&recorder), [0, 1, 2]);
        (3..KEPT + 5).for_each(|n| recorder.note(n, 1, 0));
        assert_eq!(nodes(&recorder), (5..KEPT as u32 + 5).collect::<Vec<_>>());
    }
}
