//! How a worker handles what a neighbour says about itself, for all protocols.

use super::limit::{Bucket, ByInterface};
use super::table::Entry;
use super::{Event, Evidence, NeighbourKey};
use crate::events::EventSender;
use graph::Context;
use wire::MacAddress;

/// Why a message is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotLearned {
    /// A static neighbour has another Ethernet address.
    ContradictsStatic,
    /// This neighbour was not asked for.
    NotAskedFor,
    /// There are more changes than the rate allows.
    Limited,
    /// The control thread is overloaded.
    ControlBusy,
}

/// Reports changes to the control thread, within a rate on each interface.
pub struct Learner {
    events: EventSender<Event>,
    limits: ByInterface<Bucket>,
}

impl Learner {
    pub fn new(events: EventSender<Event>) -> Learner {
        Learner { events, limits: ByInterface::default() }
    }

    /// Learns a neighbour's Ethernet address, or returns why not. `entry` is the present state of the neighbour. With
    /// `create`, also a neighbour that is unknown and was not asked for. At most `rate` changes a second are reported
    /// for each interface.
    #[allow(clippy::too_many_arguments)]
    pub fn learn(
        &mut self,
        cx: &Context<'_>,
        (key, mac): (NeighbourKey, MacAddress),
        evidence: Evidence,
        entry: Option<Entry<'_>>,
        create: bool,
        rate: u32,
    ) -> Result<(), NotLearned> {
        let news = Event::Learned(key, mac, evidence);
        if let Some(entry) = entry
            && entry.word().is_static()
        {
            if entry.word().mac() != Some(mac) {
                return Err(NotLearned::ContradictsStatic);
            }
            if evidence != Evidence::Hearsay {
                entry.hear(cx.now);
            }
            return Ok(());
        }
        if let Some(entry) = entry {
            if evidence == Evidence::Hearsay && entry.word().mac() == Some(mac) {
                return Ok(()); // neither new nor an answer
            }
            if entry.take_question() {
                return self.events.try_send(news).map_err(|_| {
                    entry.ask_again();
                    NotLearned::ControlBusy
                });
            }
            match entry.word().mac() {
                Some(known) if known == mac => {
                    entry.hear(cx.now); // nothing new
                    return Ok(());
                }
                // Another answer was already reported to the control thread.
                None if !entry.word().is_silent() => return Ok(()),
                _ => {}
            }
        }
        // A neighbour in the table was known or wanted. This includes one that did not answer in time.
        if entry.is_none() && !create {
            return Err(NotLearned::NotAskedFor);
        }
        if !self.limits.of(key.interface).take(cx.now, rate) {
            return Err(NotLearned::Limited);
        }
        self.events.try_send(news).map_err(|_| NotLearned::ControlBusy)
    }

    /// Reports to the control thread that another station may have a neighbour's address, unless the neighbour is stale
    /// already.
    pub fn doubt(&mut self, cx: &Context<'_>, key: NeighbourKey, entry: Option<Entry<'_>>, rate: u32) {
        let is_sure = entry.is_some_and(|entry| !entry.word().is_stale());
        if is_sure && self.limits.of(key.interface).take(cx.now, rate) {
            // If this report is lost, the next message is reported.
            let _ = self.events.try_send(Event::Doubted(key));
        }
    }

    /// Reports a conflict to the control thread. If this report is lost, the next message is reported.
    pub fn tell_conflict(&self, key: NeighbourKey, mac: MacAddress) {
        let _ = self.events.try_send(Event::Conflict(key, mac));
    }
}
