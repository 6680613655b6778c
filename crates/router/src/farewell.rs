//! The last messages that the router sends before it falls silent on an interface, so that its peers need not wait for
//! a timeout.
//!
//! A capability with a last message is a row of [`PARTING`]. The message is on the wire before the interface goes down
//! or the process ends: control waits for the workers, each bounded by [`graph::Graph::ask`].

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

/// Sends a last message. Returns whether there was one.
type Farewell = fn(&mut Router, InterfaceIndex) -> bool;

/// Which protocol says farewell, and when. MLD leaves a group, and DHCP gives back an address, only where the router
/// does not come back to them: MLD sends nothing on a link that goes down with its port, and a lease outlives an
/// interface that is down (RFC 2131 3.2).
const PARTING: &[(&[Parting], Farewell)] = &[
    (&[Parting::Down, Parting::Deleted, Parting::Exit], Router::cease_advertising),
    (&[Parting::Exit], Router::leave_groups),
    (&[Parting::Deleted, Parting::Exit], Router::release_lease),
];

/// Rounds until an injected frame is sent: one to reach its node, one to reach another worker's transmit queue, one to
/// leave.
const ROUNDS: usize = 3;

impl Router {
    /// Sends the last messages on all interfaces before the router ends, and waits until they are sent.
    pub fn farewell(&mut self) {
        let all: Vec<InterfaceIndex> = self.interfaces.iter().map(|interface| interface.index).collect();
        self.part_from(&all, Parting::Exit);
    }

    /// Sends the last messages on some interfaces before they fall silent, and waits until they are sent.
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

    /// Waits until injected frames have left the graph. Stops waiting when a worker does not answer.
    fn await_sent(&self) {
        for worker in (0..ROUNDS).flat_map(|_| 0..self.graph.workers()) {
            if let Err(error) = self.graph.ask(worker, |_| ()) {
                return log::warn!("what is said before falling silent may not be sent: {error}");
            }
        }
    }
}
