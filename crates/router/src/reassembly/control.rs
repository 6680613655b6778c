//! Control's part: the limits, and a look at the clock while workers have anything in progress.

use super::node::LocalReassembly;
use super::{Event, Limits, Shown};
use crate::{Error, Router};
use graph::time;
use std::time::{Duration, Instant};

/// What control knows of reassembly.
#[derive(Debug, Default)]
pub struct Reassembly {
    pub limits: Limits,
    /// Workers that have datagrams in progress.
    active: Vec<usize>,
    due: Option<Instant>,
}

/// A worker's datagrams in progress.
#[derive(Debug, Default)]
pub struct InProgress {
    pub datagrams: usize,
    pub buffers: usize,
    /// The oldest of them.
    pub oldest: Vec<Shown>,
}

impl Reassembly {
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(self.limits.expire_walk_interval.into())
    }
}

impl From<Event> for crate::Event {
    fn from(event: Event) -> crate::Event {
        crate::Event::Reassembly(event)
    }
}

impl Router {
    /// Sets the limits of reassembly, on all workers.
    pub fn set_reassembly_limits(&mut self, limits: Limits) {
        self.reassembly.limits = limits;
        let node = self.nodes.reassembly.local;
        self.graph.call(|_| {
            Box::new(move |core| {
                if let Some(node) = core.node::<LocalReassembly>(node) {
                    node.set_limits(limits);
                }
            })
        });
        if self.reassembly.due.is_some() {
            self.reassembly.due = Some(Instant::now() + self.reassembly.interval());
        }
    }

    pub(crate) fn handle_reassembly(&mut self, event: Event) {
        let reassembly = &mut self.reassembly;
        match event {
            Event::Began(worker) if !reassembly.active.contains(&worker) => reassembly.active.push(worker),
            Event::Began(_) => {}
            Event::Idle(worker) => reassembly.active.retain(|other| *other != worker),
        }
        reassembly.due = match reassembly.due {
            _ if reassembly.active.is_empty() => None,
            None => Some(Instant::now() + reassembly.interval()),
            due => due,
        };
    }

    /// Has workers end the datagrams whose time is up.
    pub(crate) fn tick_reassembly(&mut self, now: Instant) {
        if self.reassembly.due.is_none_or(|due| due > now) {
            return;
        }
        self.reassembly.due = Some(now + self.reassembly.interval());
        let node = self.nodes.reassembly.local;
        let ticks = time::ticks() + time::to_ticks(now.saturating_duration_since(Instant::now()));
        for &worker in &self.reassembly.active {
            self.graph.call_one(worker, move |core| {
                if let Some(node) = core.node::<LocalReassembly>(node) {
                    node.expire(ticks);
                }
            });
        }
    }

    /// What each worker has in progress, with at most so many datagrams of each.
    ///
    /// # Errors
    /// When a worker does not answer.
    pub fn reassemblies(&self, most: usize) -> Result<Vec<InProgress>, Error> {
        let node = self.nodes.reassembly.local;
        let ask = |worker| {
            let shown =
                self.graph.ask(worker, move |core| core.node::<LocalReassembly>(node).map(|node| node.shown(most)))?;
            let (datagrams, buffers, oldest) = shown.unwrap_or_default();
            Ok(InProgress { datagrams, buffers, oldest })
        };
        (0..self.graph.workers()).map(ask).collect()
    }
}
