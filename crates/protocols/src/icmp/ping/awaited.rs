//! Which replies a worker reports to the control thread: those to running pings, from the pinged host, a few for each
//! request. It reports no others, so that a host that guesses or floods costs the control thread nothing.

use super::{Event, answer};
use graph::{Context, InterfaceIndex, Row};
use router::events::EventSender;
use std::net::IpAddr;

/// A host that is pinged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    pub address: IpAddr,
    /// The link of the host when its address is link-local: a station on another link may have the same address.
    pub link: Option<InterfaceIndex>,
}

/// A running ping.
#[derive(Debug)]
struct Awaits {
    identifier: u16,
    peer: Peer,
    /// Answers that the worker may still report.
    left: u32,
}

/// A worker's view of the running pings of a family.
pub(crate) struct Awaited {
    events: EventSender<Event>,
    pings: Vec<Awaits>,
}

impl Awaited {
    pub fn new(events: EventSender<Event>) -> Awaited {
        Awaited { events, pings: Vec::new() }
    }

    /// Called by the control thread: report so many more answers to this identifier.
    pub fn expect(&mut self, identifier: u16, peer: Peer, answers: u32) {
        match self.pings.iter_mut().find(|ping| ping.identifier == identifier) {
            Some(ping) => ping.left = ping.left.saturating_add(answers),
            None => self.pings.push(Awaits { identifier, peer, left: answers }),
        }
    }

    /// Called by the control thread: this ping is over.
    pub fn forget(&mut self, identifier: u16) {
        self.pings.retain(|ping| ping.identifier != identifier);
    }

    /// Reports a reply to the control thread, when it belongs to a running ping that may have one more. Returns `told`,
    /// or `busy` when the control thread is overloaded.
    #[inline]
    pub fn tell<E>(&mut self, cx: &Context<'_>, row: &Row, told: E, busy: E) -> Option<E> {
        if self.pings.is_empty() { None } else { self.tell_cold(cx, row, told, busy) }
    }

    #[cold]
    fn tell_cold<E>(&mut self, cx: &Context<'_>, row: &Row, told: E, busy: E) -> Option<E> {
        let event = answer::answer(cx, row)?;
        let asked = match event {
            Event::Reply { from, .. } => from,
            Event::Refused { to, .. } => to,
            Event::Sent { .. } => return None,
        };
        let ping = self.pings.iter_mut().find(|ping| ping.identifier == event.identifier() && ping.left > 0)?;
        if ping.peer.address != asked || ping.peer.link.is_some_and(|link| link != row.rx_interface) {
            return None;
        }
        ping.left -= 1;
        Some(if self.events.try_send(event).is_ok() { told } else { busy })
    }
}
