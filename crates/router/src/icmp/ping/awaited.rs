//! Which answers a worker tells control of: those to pings that run, from the host that was asked, a few for each
//! request. Everybody else's are not told, so that whoever guesses or floods costs control nothing.

use super::{Event, answer};
use crate::events::EventSender;
use graph::{Context, InterfaceIndex, Row};
use std::net::IpAddr;

/// A host that is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    pub address: IpAddr,
    /// Where it is, when its address is of one link only: another link may have a station of that name.
    pub link: Option<InterfaceIndex>,
}

/// A ping that runs.
#[derive(Debug)]
struct Awaits {
    identifier: u16,
    peer: Peer,
    /// Answers that it may still have.
    left: u32,
}

/// The worker's side of pings of a family.
pub(crate) struct Awaited {
    events: EventSender,
    pings: Vec<Awaits>,
}

impl Awaited {
    pub fn new(events: EventSender) -> Awaited {
        Awaited { events, pings: Vec::new() }
    }

    /// Control: tell of so many more answers to this identifier.
    pub fn expect(&mut self, identifier: u16, peer: Peer, answers: u32) {
        match self.pings.iter_mut().find(|ping| ping.identifier == identifier) {
            Some(ping) => ping.left = ping.left.saturating_add(answers),
            None => self.pings.push(Awaits { identifier, peer, left: answers }),
        }
    }

    /// Control: this ping is over.
    pub fn forget(&mut self, identifier: u16) {
        self.pings.retain(|ping| ping.identifier != identifier);
    }

    /// Tells control of an answer, when it is to a ping of ours that may have one more: `told`, or `busy` when
    /// control has more to do than it can.
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
        Some(if self.events.try_send(event.into()).is_ok() { told } else { busy })
    }
}
