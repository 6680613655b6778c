//! The datagrams in progress on one worker, of one family.
//!
//! The data of a fragment is copied to its place in the datagram, and the fragment is freed. The datagram's buffers of
//! [`graph::buffer::DATA_SIZE`] bytes are allocated as they are needed. So a datagram never takes more than [`WINDOWS`]
//! buffers, however small its fragments are, and it is a packet as soon as its last hole closes.
//!
//! A fragment that overlaps another one ends its datagram, and so do two last fragments that disagree (RFC 5722 for
//! IPv6; RFC 1858 and RFC 8900 section 4 describe the same attacks for IPv4). The key is remembered until the
//! datagram's timeout, so that later fragments do not begin a new datagram. An exact copy of a fragment is harmless.
//!
//! Everything is limited. A new datagram pushes out the oldest one: of its own source when that has more than its
//! share, else of all sources. So a flood of fragments that are never completed mostly pushes out its own, and
//! datagrams that complete quickly get through.

use super::datagram::{Datagram, WINDOWS};
use super::fragment::{Fragment, Key, Refusal};
use super::limits::Limits;
use super::node::Edge;
use graph::{Buffers, PacketIndex, Row, time};
use router::ip::control::TableIndex;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;
use wire::Family;

/// The result of a fragment that was not refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The fragment began a datagram. From now on its packet stands for that datagram in the ledger.
    Began,
    Added,
    /// The fragment completed this datagram.
    Completed(Row),
}

/// A datagram that is no longer in progress.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its packet leaves by this edge.
    Left(Row, Edge),
    /// Its buffers, as a chain, are to be freed. Its end was already counted.
    Discarded(PacketIndex),
}

/// What one sender (for IPv6: one network of senders) has in progress: serial numbers, the oldest first.
#[derive(Default)]
struct Source {
    serials: VecDeque<u64>,
    buffers: usize,
}

/// All datagrams in progress.
pub struct Datagrams {
    family: Family,
    pub limits: Limits,
    /// The most buffers for all datagrams, whatever operators configure.
    most_buffers: usize,
    /// Hashed with a random key of this process, so that senders cannot choose keys that collide.
    by_key: HashMap<Key, Datagram>,
    by_age: BTreeMap<u64, Key>,
    sources: HashMap<IpAddr, Source>,
    next_serial: u64,
    buffers: usize,
    live: usize,
    /// Datagrams that ended since the caller last took them.
    pub ended: Vec<Ended>,
}

/// A datagram in a listing.
#[derive(Debug, Clone, Serialize)]
pub struct Shown {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub identification: u32,
    /// For IPv4, where it is part of the key of a datagram.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    pub age: f64,
    pub fragments: usize,
    pub bytes: usize,
    /// Unknown until the last fragment has arrived.
    pub length: Option<usize>,
    pub buffers: usize,
    pub discarded: bool,
}

impl Datagrams {
    pub fn new(family: Family, most_buffers: usize) -> Datagrams {
        Datagrams {
            family,
            limits: Limits::of(family),
            most_buffers: most_buffers.max(2 * WINDOWS),
            by_key: HashMap::new(),
            by_age: BTreeMap::new(),
            sources: HashMap::new(),
            next_serial: 0,
            buffers: 0,
            live: 0,
            ended: Vec::new(),
        }
    }

    /// Datagrams that hold packets: all but those that were discarded.
    pub fn live(&self) -> usize {
        self.live
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub fn buffers(&self) -> usize {
        self.buffers
    }

    /// The oldest `most` datagrams.
    pub fn shown(&self, most: usize, now: u64) -> Vec<Shown> {
        let oldest = self.by_age.values().take(most);
        oldest
            .map(|key| {
                let datagram = &self.by_key[key];
                Shown {
                    source: key.source,
                    destination: key.destination,
                    identification: key.identification,
                    protocol: key.protocol,
                    age: time::seconds(now.saturating_sub(datagram.started)),
                    fragments: datagram.parts.len(),
                    bytes: datagram.received,
                    length: datagram.end,
                    buffers: datagram.buffers,
                    discarded: datagram.is_discarded,
                }
            })
            .collect()
    }

    fn buffer_limit(&self) -> usize {
        (self.limits.max_buffers as usize).clamp(2 * WINDOWS, self.most_buffers)
    }

    /// Adds a fragment's data. The caller keeps the fragment itself.
    ///
    /// # Errors
    /// Why the fragment is refused.
    pub fn take_in(
        &mut self,
        buffers: &mut Buffers,
        table: TableIndex,
        row: &Row,
        now: u64,
    ) -> Result<Accepted, Refusal> {
        let fragment = Fragment::examine(self.family, buffers, table, row)?;
        let key = fragment.key;
        let is_new = match self.by_key.get(&key) {
            Some(datagram) if datagram.is_discarded => return Err(Edge::Discarded.into()),
            Some(datagram) => {
                match datagram.place_of(buffers, &fragment, self.limits.max_reassembly_length as usize) {
                    Ok(()) => {}
                    Err(Edge::Duplicate) => return Err(Edge::Duplicate.into()),
                    Err(edge) => {
                        self.discard(buffers, key);
                        return Err(edge.into());
                    }
                }
                false
            }
            None => {
                self.make_room_for_one(buffers, key.sharer());
                true
            }
        };
        let known = self.by_key.get(&key);
        let wanted = fragment.windows().filter(|&n| known.is_none_or(|known| known.windows[n].is_none())).count();
        self.make_room_for_buffers(buffers, key, wanted);
        let mut fresh = [PacketIndex::NONE; WINDOWS];
        let got = buffers.allocate(&mut fresh[..wanted]);
        if got < wanted {
            buffers.free(&fresh[..got]);
            return Err(Edge::NoBuffer.into());
        }
        if is_new {
            self.begin(key, row, now);
        }
        self.buffers += wanted;
        self.sources.get_mut(&key.sharer()).expect("has this datagram").buffers += wanted;
        let datagram = self.by_key.get_mut(&key).expect("known or begun above");
        datagram.add(buffers, row, &fragment, &fresh[..wanted]);
        if !datagram.is_complete() {
            return Ok(if is_new { Accepted::Began } else { Accepted::Added });
        }
        let mut datagram = self.forget(key);
        Ok(match datagram.complete(buffers) {
            Some(row) => Accepted::Completed(row),
            None => {
                let row = datagram.incomplete(buffers);
                self.ended.push(Ended::Left(row, Edge::TooLong));
                Accepted::Added
            }
        })
    }

    fn begin(&mut self, key: Key, row: &Row, now: u64) {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.by_age.insert(serial, key);
        self.sources.entry(key.sharer()).or_default().serials.push_back(serial);
        self.by_key.insert(key, Datagram::new(self.family, serial, now, *row));
        self.live += 1;
    }

    /// Removes a datagram from all lists. Its buffers stay with it.
    fn forget(&mut self, key: Key) -> Datagram {
        let datagram = self.by_key.remove(&key).expect("the caller knows it");
        self.by_age.remove(&datagram.serial);
        let source = self.sources.get_mut(&key.sharer()).expect("has this datagram");
        source.serials.retain(|serial| *serial != datagram.serial);
        source.buffers -= datagram.buffers;
        if source.serials.is_empty() {
            self.sources.remove(&key.sharer());
        }
        self.buffers -= datagram.buffers;
        self.live -= !datagram.is_discarded as usize;
        datagram
    }

    /// Discards a datagram and remembers its key.
    fn discard(&mut self, buffers: &mut Buffers, key: Key) {
        let datagram = self.by_key.get_mut(&key).expect("the caller knows it");
        let given_back = std::mem::take(&mut datagram.buffers);
        let chain = datagram.give_back(buffers).expect("a datagram in progress has a buffer");
        datagram.is_discarded = true;
        datagram.parts = Vec::new();
        self.ended.push(Ended::Discarded(chain));
        self.sources.get_mut(&key.sharer()).expect("has this datagram").buffers -= given_back;
        self.buffers -= given_back;
        self.live -= 1;
    }

    /// Ends a datagram that is not complete.
    fn give_up(&mut self, buffers: &mut Buffers, key: Key, edge: Edge) {
        let mut datagram = self.forget(key);
        if !datagram.is_discarded {
            let row = datagram.incomplete(buffers);
            self.ended.push(Ended::Left(row, edge));
        }
    }

    fn make_room_for_one(&mut self, buffers: &mut Buffers, source: IpAddr) {
        while let Some(own) = self.sources.get(&source)
            && own.serials.len() >= self.limits.max_per_source as usize
        {
            self.give_up(buffers, self.by_age[&own.serials[0]], Edge::SourceLimit);
        }
        while self.by_key.len() >= self.limits.max_reassemblies as usize
            && let Some((_, &oldest)) = self.by_age.first_key_value()
        {
            self.give_up(buffers, oldest, Edge::Limit);
        }
    }

    /// Ends older datagrams, other than `key`, until `wanted` more buffers are within the limits.
    fn make_room_for_buffers(&mut self, buffers: &mut Buffers, key: Key, wanted: usize) {
        let limit = self.buffer_limit();
        let share = (limit / 4).max(WINDOWS);
        while let Some(own) = self.sources.get(&key.sharer())
            && own.buffers + wanted > share
        {
            let mut others = own.serials.iter().map(|serial| self.by_age[serial]);
            let Some(oldest) = others.find(|other| *other != key) else { break };
            self.give_up(buffers, oldest, Edge::SourceLimit);
        }
        while self.buffers + wanted > limit {
            let mut others = self.by_age.values().copied();
            let Some(oldest) = others.find(|other| *other != key) else { break };
            self.give_up(buffers, oldest, Edge::Limit);
        }
    }

    /// Ends the datagrams that have reached their timeout at `now`, in ticks.
    pub fn expire(&mut self, buffers: &mut Buffers, now: u64) {
        let timeout = time::to_ticks(Duration::from_millis(self.limits.timeout.into()));
        while let Some((_, &key)) = self.by_age.first_key_value() {
            let datagram = &self.by_key[&key];
            if now.saturating_sub(datagram.started) < timeout {
                return;
            }
            // RFC 1122 section 3.3.2, RFC 8200 section 4.5: the sender gets a report only if the first fragment has
            // arrived.
            let edge = if datagram.has_first() { Edge::IcmpError } else { Edge::Timeout };
            self.give_up(buffers, key, edge);
        }
    }

    /// Frees all buffers of all datagrams.
    pub fn drain(&mut self, buffers: &mut Buffers) {
        for (_, mut datagram) in self.by_key.drain() {
            if let Some(chain) = datagram.give_back(buffers) {
                buffers.free_chain(chain);
            }
        }
        for ended in self.ended.drain(..) {
            let (Ended::Left(Row { packet, .. }, _) | Ended::Discarded(packet)) = ended;
            buffers.free_chain(packet);
        }
        self.by_age.clear();
        self.sources.clear();
        (self.live, self.buffers) = (0, 0);
    }
}
