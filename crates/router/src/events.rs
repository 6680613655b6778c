//! Events that workers send to control over one bounded queue. A worker that finds it full does not wait: it gives up,
//! which is counted by name.

use crate::{Router, dhcp, icmp, mld, neighbour, router_advertisement};

/// Most events that may be pending for control.
pub const QUEUE: usize = 4096;

/// An event that a worker saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Neighbour(neighbour::Event),
    Listening(mld::Event),
    Routers(router_advertisement::Event),
    Ping(icmp::ping::Event),
    Dhcp(dhcp::Event),
    /// A worker's part of a packet capture is on its way back.
    Captured,
}

pub type EventSender = crossbeam_channel::Sender<Event>;

impl From<neighbour::Event> for Event {
    fn from(event: neighbour::Event) -> Event {
        Event::Neighbour(event)
    }
}

impl From<mld::Event> for Event {
    fn from(event: mld::Event) -> Event {
        Event::Listening(event)
    }
}

impl From<router_advertisement::Event> for Event {
    fn from(event: router_advertisement::Event) -> Event {
        Event::Routers(event)
    }
}

impl Router {
    /// Handles an event of a worker.
    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Neighbour(event) => self.handle_neighbour(event),
            Event::Listening(event) => self.handle_listening(event),
            Event::Routers(event) => self.handle_router_discovery(event),
            Event::Ping(event) => self.handle_ping(event),
            Event::Dhcp(event) => self.handle_dhcp(event),
            Event::Captured => self.collect_capture(),
        }
    }
}
