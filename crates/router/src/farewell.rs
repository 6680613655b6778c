//! What the router says before it falls silent on an interface, so that nobody waits for it until a time runs out.
//!
//! A capability with a last message is a row of [`PARTING`]. What is said is on the wire before the interface
//! goes down or the process ends: control waits for the workers, each bounded by [`graph::Graph::ask`].

use crate::Router;
use graph::InterfaceIndex;

/// Why the router falls silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parting {
    /// The interface goes down, and may come back.
    Down,
    /// The interface goes away.
    Deleted,
    /// The router ends.
    Exit,
}

/// What is said; whether anything was.
type Farewell = fn(&mut Router, InterfaceIndex) -> bool;

/// Which protocol says farewell, and when. MLD leaves a group, and DHCP gives back an address, only where the router
/// does not come back to them: MLD sends nothing on a link that goes down with its port, and a lease outlives an
/// interface that is down (RFC 2131 3.2).
const PARTING: &[(&[Parting], Farewell)] = &[
    (&[Parting::Down, Parting::Deleted, Parting::Exit], Router::cease_advertising),
    (&[Parting::Exit], Router::leave_groups),
    (&[Parting::Deleted, Parting::Exit], Router::release_lease),
];

/// An injected frame takes a round to its node, one to another worker's transmit queue, and is out after the next.
const ROUNDS: usize = 3;

impl Router {
    /// The router ends: says so on all interfaces, and waits until that is sent.
    pub fn farewell(&mut self) {
        let all: Vec<InterfaceIndex> = self.interfaces.iter().map(|interface| interface.index).collect();
        self.part_from(&all, Parting::Exit);
    }

    /// Says what is to be said before some interfaces fall silent, and waits until it is sent.
    pub(crate) fn part_from(&mut self, interfaces: &[InterfaceIndex], why: Parting) {
        let mut has_spoken = false;
        for (_, farewell) in PARTING.iter().filter(|(when, _)| when.contains(&why)) {
            for index in interfaces {
                has_spoken |= self.is_usable(*index) && farewell(self, *index);
            }
        }
        if has_spoken {
            self.await_sent();
        }
    }

    /// Waits until what was injected has left the graph. A worker that does not answer is not waited for.
    fn await_sent(&self) {
        for worker in (0..ROUNDS).flat_map(|_| 0..self.graph.workers()) {
            if let Err(error) = self.graph.ask(worker, |_| ()) {
                return log::warn!("what is said before falling silent may not be sent: {error}");
            }
        }
    }
}
