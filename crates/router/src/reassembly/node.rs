//! `ip4-local-full-reassembly`: fragments to this router become datagrams.
//!
//! Reads: fragments. Writes: the datagram, in buffers of its own, with the header of its first
//! fragment. Next: `ip4-local` with a datagram that is whole; `ip4-icmp-error` when its time was
//! up and the first fragment had come.
//!
//! In the ledger a datagram in progress is one held packet, and the fragments after its first
//! are consumed. While anything is in progress, a timer has it look for what is overdue.

use super::datagrams::{Accepted, Datagrams, Ended, Limits, Shown};
use crate::ip::Fibs4;
use graph::{Buffers, CounterSpec, Expand, Expansion, NodeSpec, Severity, Snapshot, Vector, edge, time};
use std::fmt;
use std::time::Duration;

pub const NAME: &str = "ip4-local-full-reassembly";

graph::edges! {
    pub enum Edge {
        Local => next "ip4-local",
        IcmpError => next "ip4-icmp-error",
        /// A fragment repeats one that has come, byte for byte. The network duplicated it; nothing is lost.
        Duplicate => end "duplicate fragments",
        /// A fragment covers bytes that another one brought, and not as its exact copy: no sender does so but to get
        /// something past a filter. Its whole datagram was discarded (RFC 5722 section 4, RFC 8900 section 4.6).
        Overlap => drop "overlapping fragments",
        /// Two fragments say differently where their datagram ends, or one lies beyond its end: an attack, or a sender
        /// that uses one identification twice too soon (RFC 6864). The whole datagram was discarded.
        Conflict => drop "last fragments disagree",
        /// One fragment met congestion on its way, another is of a sender that does not react to such marks: no
        /// sender mixes the two. The whole datagram was discarded (RFC 3168 5.3).
        Marks => drop "fragments disagree on congestion",
        /// A datagram came in more fragments than `set ip4-full-reassembly max-reassembly-length` allows, and was
        /// discarded.
        TooMany => drop "fragment chain too long",
        /// A fragment of a datagram that was discarded before, which is remembered until its time would have been up.
        Discarded => drop "fragment of a discarded datagram",
        /// All fragments came, but with the header the datagram is longer than 65535 bytes (RFC 791): an attack.
        TooLong => drop "reassembled datagram beyond 65535 bytes",
        /// Not a fragment that could belong anywhere: no data, a length that is no multiple of 8 with more to follow, an
        /// end beyond 65535 bytes (RFC 791 section 3.2), or a request of a device to finish its checksum.
        Malformed => drop "malformed packets",
        /// There was no free buffer for a fragment's data (`show buffers`): more `buffers-per-numa` in startup.conf.
        NoBuffer => drop "out of buffers",
        /// The oldest datagram in progress was given up for a newer one: `set ip4-full-reassembly` limits their number
        /// and buffers. Either much is in progress, or somebody sends fragments that never become whole.
        Limit => drop "drops due to concurrent reassemblies limit",
        /// One source had more datagrams in progress, or more buffers, than its share, and its own oldest was given up:
        /// `set ip4-full-reassembly max-per-source`. Others are not hurt.
        SourceLimit => drop "drops due to reassemblies limit of one source",
        /// Not all fragments of a datagram came in time, and the first, which alone could be told of, did not: `set
        /// ip4-full-reassembly timeout`. Fragments are lost on the way to this router.
        Timeout => drop "fragments dropped due to reassembly timeout",
    }
}

const COUNTERS: &[CounterSpec] = &[
    CounterSpec("successful reassemblies", Severity::Info, "Datagrams to this router that were put together."),
    CounterSpec(
        "reassembly timeout, sender told",
        Severity::Warning,
        "Not all fragments of a datagram came in time, and its sender is told so by ICMP (RFC 1122 3.3.2): `set \
         ip4-full-reassembly timeout`. Fragments are lost on the way to this router.",
    ),
];
const REASSEMBLED: usize = 0;
const TOLD: usize = 1;

pub fn spec() -> NodeSpec {
    NodeSpec { name: NAME.into(), edges: Edge::EDGES, counters: COUNTERS, trace }
}

pub struct LocalReassembly {
    fibs: Fibs4,
    datagrams: Datagrams,
    /// The timer that counts, and whether it runs.
    timer: u64,
    is_armed: bool,
}

impl LocalReassembly {
    pub fn new(fibs: Fibs4, most_buffers: usize) -> LocalReassembly {
        LocalReassembly { fibs, datagrams: Datagrams::new(most_buffers), timer: 0, is_armed: false }
    }

    /// Control: these limits hold from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.datagrams.limits = limits;
        // Another interval begins now.
        self.timer += 1;
        self.is_armed = false;
    }

    /// Control: datagrams and buffers in progress, and the oldest datagrams.
    pub fn shown(&self, most: usize) -> (usize, usize, Vec<Shown>) {
        (self.datagrams.len(), self.datagrams.buffers(), self.datagrams.shown(most, time::ticks()))
    }

    /// Looks for what is overdue in a while, once.
    fn arm(&mut self, x: &mut Expansion<'_, '_>) {
        if !self.is_armed {
            self.is_armed = true;
            let interval = Duration::from_millis(self.datagrams.limits.expire_walk_interval.into());
            x.arm(x.cx.now + time::to_ticks(interval), self.timer);
        }
    }

    /// Sends on what ended.
    fn let_go(&mut self, x: &mut Expansion<'_, '_>) {
        for ended in self.datagrams.ended.drain(..) {
            match ended {
                Ended::Left(row, edge) => {
                    x.cx.count(TOLD, (edge == Edge::IcmpError) as u64);
                    x.emit(row, edge.into());
                }
                Ended::Discarded(chain) => x.consume(chain),
            }
        }
    }
}

impl Expand for LocalReassembly {
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        if x.fired.contains(&self.timer) {
            self.is_armed = false;
            self.datagrams.expire(x.cx.buffers, x.cx.now);
            self.let_go(x);
        }
        if !self.datagrams.is_empty() {
            self.arm(x);
        }
        for i in 0..vector.len() {
            self.arm(x);
            let row = vector.row(i);
            let table = self.fibs.index_of(x.cx.round, row.rx_interface);
            match self.datagrams.take_in(x.cx.buffers, table, &row, x.cx.now) {
                Err(refusal) => {
                    self.let_go(x);
                    vector.set_edge(i, refusal.into());
                    continue;
                }
                // From now on it is the datagram that is held, in other buffers.
                Ok(Accepted::Began) => x.cx.buffers.free_chain(row.packet),
                Ok(Accepted::Added) => x.consume(row.packet),
                Ok(Accepted::Completed(datagram)) => {
                    x.cx.count(REASSEMBLED, 1);
                    x.consume(row.packet);
                    x.emit(datagram, Edge::Local.into());
                }
            }
            self.let_go(x);
            vector.set_edge(i, edge::TAKEN);
        }
    }

    fn held(&self) -> usize {
        self.datagrams.live()
    }

    fn drain(&mut self, buffers: &mut Buffers) {
        self.datagrams.drain(buffers);
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    crate::headers::trace_ip4(snapshot, f)
}
