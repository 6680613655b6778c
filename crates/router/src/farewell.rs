//! The last messages that the router sends before it falls silent on an interface, so that its peers need not wait for
//! a timeout.
//!
//! A capability with a last message names it in its description. The message is on the wire before the interface goes
//! down or the process ends: control waits for the workers, each bounded by [`graph::Graph::ask`].

use crate::Router;
use graph::InterfaceIndex;

/// Why the router falls silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parting {
    /// The interface goes down, and may come back.
    Down,
    /// The interface goes away.
    Deleted,
    /// The router ends.
    Exit,
    /// The interface gets another link-local address, or will have none.
    Readdressed,
    /// The interface takes part in IPv6 no longer.
    Ip6,
}

/// A last message on an interface.
pub struct Farewell {
    pub when: &'static [Parting],
    /// Sends it. Returns whether there was one.
    pub say: fn(&mut Router, InterfaceIndex) -> bool,
}

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
        let all = self.capabilities.iter().flat_map(|capability| capability.farewells);
        for farewell in all.filter(|farewell| farewell.when.contains(&why)) {
            for index in interfaces {
                has_spoken |= self.is_usable(*index) && (farewell.say)(self, *index);
            }
        }
        if has_spoken {
            self.await_sent();
        }
    }

    /// Sends the last messages before a change of an interface that goes on. What says them knows whether it could
    /// speak there.
    pub(crate) fn part_without_waiting(&mut self, interface: InterfaceIndex, why: Parting) {
        let all = self.capabilities.iter().flat_map(|capability| capability.farewells);
        for farewell in all.filter(|farewell| farewell.when.contains(&why)) {
            (farewell.say)(self, interface);
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
