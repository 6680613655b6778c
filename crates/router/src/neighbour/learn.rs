//! What a worker does with what a neighbour says of itself, by whatever protocol.

use super::limit::{Bucket, ByInterface};
use super::table::Entry;
use super::{Event, Evidence, NeighbourKey};
use crate::events::EventSender;
use graph::Context;
use wire::MacAddress;

/// Why something is not taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotLearned {
    /// A static neighbour has another Ethernet address.
    ContradictsStatic,
    /// Nobody asked for this neighbour.
    NotAskedFor,
    /// There is more news than the rate allows.
    Limited,
    /// Control has more to do than it can take in.
    ControlBusy,
}

/// Tells control what is news, within a rate on each interface.
pub struct Learner {
    events: EventSender,
    limits: ByInterface<Bucket>,
}

impl Learner {
    pub fn new(events: EventSender) -> Learner {
        Learner { events, limits: ByInterface::default() }
    }

    /// Takes in that a neighbour has an Ethernet address, or says why not; `entry` is what is known of it. With
    /// `create` it need not be known or asked for. So many pieces of news a second pass on an interface as `rate`
    /// says.
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
                return self.events.try_send(news.into()).map_err(|_| {
                    entry.ask_again();
                    NotLearned::ControlBusy
                });
            }
            match entry.word().mac() {
                Some(known) if known == mac => {
                    entry.hear(cx.now); // nothing new
                    return Ok(());
                }
                // Control has been told of another answer.
                None if !entry.word().is_silent() => return Ok(()),
                _ => {}
            }
        }
        // Who is in the table was known or wanted: also one that did not answer in time.
        if entry.is_none() && !create {
            return Err(NotLearned::NotAskedFor);
        }
        if !self.limits.of(key.interface).take(cx.now, rate) {
            return Err(NotLearned::Limited);
        }
        self.events.try_send(news.into()).map_err(|_| NotLearned::ControlBusy)
    }

    /// Tells control that another station may have a neighbour's address, if it has no doubt yet.
    pub fn doubt(&mut self, cx: &Context<'_>, key: NeighbourKey, entry: Option<Entry<'_>>, rate: u32) {
        let is_sure = entry.is_some_and(|entry| !entry.word().is_stale());
        if is_sure && self.limits.of(key.interface).take(cx.now, rate) {
            // Who is not told of this one is told of the next.
            let _ = self.events.try_send(Event::Doubted(key).into());
        }
    }

    /// Tells control of a conflict. Who is not told of this one is told of the next.
    pub fn tell_conflict(&self, key: NeighbourKey, mac: MacAddress) {
        let _ = self.events.try_send(Event::Conflict(key, mac).into());
    }
}
