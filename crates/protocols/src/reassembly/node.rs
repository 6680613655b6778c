//! `ip4-local-full-reassembly`, `ip6-local-full-reassembly`: fragments to this router become datagrams.
//!
//! Reads: fragments. Writes: the datagram, in buffers of its own, with the header of its first fragment. Next:
//! `ip4-local` or `ip6-local` with a datagram that is whole; `ip4-icmp-error` or `ip6-icmp-error` when its time was
//! up and the first fragment had come, and with IPv6 fragments whose sender is notified of the fault.
//!
//! In the ledger a datagram in progress is one held packet, and the fragments after its first
//! are consumed. While anything is in progress, a timer has it look for what is overdue.

use super::datagrams::{Accepted, Datagrams, Ended, Shown};
use super::fragment::Refusal;
use super::limits::Limits;
use graph::{Buffers, Context, CounterSpec, Expand, Expansion, NodeSpec, Row, Severity, Vector, edge, time};
use router::ip::control::TableIndex;
use router::ip::fibs::{Fibs4, Fibs6};
use std::time::Duration;
use wire::Family;

pub const NAME4: &str = "ip4-local-full-reassembly";
pub const NAME6: &str = "ip6-local-full-reassembly";

graph::edges! {
    pub enum Edge like edge6::Edge {
        Local => next "ip4-local",
        IcmpError => next "ip4-icmp-error",
        /// The fragment is an exact copy of a fragment that arrived before. The network duplicated it. Nothing is
        /// lost.
        Duplicate => end "duplicate fragments",
        /// The fragment overlaps another fragment and is not an exact copy of it. Only senders that try to evade a
        /// filter do this. The router discarded the whole datagram (RFC 5722 section 4, RFC 8900 section 4.6).
        Overlap => warn "overlapping fragments",
        /// Two fragments give different ends for the datagram, or a fragment is beyond its end. An attack, or a
        /// sender that reuses an identification too soon (RFC 6864). The router discarded the whole datagram.
        Conflict => warn "last fragments disagree",
        /// One fragment has the congestion mark of ECN, and another comes from a sender that does not support ECN. No
        /// sender mixes the two. The router discarded the whole datagram (RFC 3168 5.3).
        Marks => warn "fragments disagree on congestion",
        /// A datagram has more fragments than `set ip4-full-reassembly max-reassembly-length` allows. The router
        /// discarded it.
        TooMany => warn "fragment chain too long",
        /// The fragment belongs to a datagram that the router discarded before. The router remembers such datagrams
        /// until their timeout.
        Discarded => warn "fragment of a discarded datagram",
        /// All fragments arrived, but the datagram with its header is longer than 65535 bytes (RFC 791). An attack.
        TooLong => warn "reassembled datagram beyond 65535 bytes",
        /// The fragment is invalid: it has no data, its length is not a multiple of 8 although more fragments follow,
        /// it ends beyond 65535 bytes (RFC 791 section 3.2), or its sender left the checksum to a NIC (checksum
        /// offload), which is not possible for a fragment.
        Malformed => warn "malformed packets",
        /// There was no free buffer for the data of a fragment (`show buffers`). Increase `buffers-per-numa` in
        /// startup.conf.
        NoBuffer => drop "out of buffers",
        /// The router discarded the oldest incomplete datagram to make room for a newer one:
        /// `set ip4-full-reassembly` limits their number and buffers. Either many datagrams are in progress, or a
        /// host sends fragments that never become complete.
        Limit => warn "drops due to concurrent reassemblies limit",
        /// One source had more incomplete datagrams or buffers than its share, so the router discarded the oldest
        /// datagram of this source: `set ip4-full-reassembly max-per-source`. Other sources are not affected.
        SourceLimit => warn "drops due to reassemblies limit of one source",
        /// Some fragments of a datagram did not arrive in time (`set ip4-full-reassembly timeout`). The first
        /// fragment is missing, too, so the router could not notify the sender. Fragments are lost on the way to this
        /// router.
        Timeout => warn "fragments dropped due to reassembly timeout",
    }
}

/// The same of `ip6-local-full-reassembly`, in the same order.
pub mod edge6 {
    graph::edges! {
        pub enum Edge {
            Local => next "ip6-local",
            IcmpError => next "ip6-icmp-error",
            /// The fragment is an exact copy of a fragment that arrived before. The network duplicated it. Nothing is
            /// lost (RFC 8200 4.5).
            Duplicate => end "duplicate fragments",
            /// The fragment overlaps another fragment and is not an exact copy of it. Only senders that try to evade
            /// a filter do this. The router discarded the whole datagram (RFC 8200 4.5, RFC 5722).
            Overlap => warn "overlapping fragments",
            /// Two fragments give different ends for the datagram, or a fragment is beyond its end. An attack, or a
            /// sender that reuses an identification too soon (RFC 7739). The router discarded the whole datagram.
            Conflict => warn "last fragments disagree",
            /// One fragment has the congestion mark of ECN, and another comes from a sender that does not support
            /// ECN. No sender mixes the two. The router discarded the whole datagram (RFC 3168 5.3).
            Marks => warn "fragments disagree on congestion",
            /// A datagram has more fragments than `set ip6-full-reassembly max-reassembly-length` allows. The router
            /// discarded it.
            TooMany => warn "fragment chain too long",
            /// The fragment belongs to a datagram that the router discarded before. The router remembers such
            /// datagrams until their timeout.
            Discarded => warn "fragment of a discarded datagram",
            /// All fragments arrived, but the datagram with its headers is longer than 65535 bytes. RFC 8200 allows
            /// 40 bytes more, which this router does not support.
            TooLong => warn "reassembled datagram beyond 65535 bytes",
            /// The fragment is invalid: it has no data, or its sender left the checksum to a NIC (checksum offload),
            /// which is not possible for a fragment.
            Malformed => warn "malformed packets",
            /// There was no free buffer for the data of a fragment (`show buffers`). Increase `buffers-per-numa` in
            /// startup.conf.
            NoBuffer => drop "out of buffers",
            /// The router discarded the oldest incomplete datagram to make room for a newer one:
            /// `set ip6-full-reassembly` limits their number and buffers. Either many datagrams are in progress, or a
            /// host sends fragments that never become complete.
            Limit => warn "drops due to concurrent reassemblies limit",
            /// One source network (a /64 prefix) had more incomplete datagrams or buffers than its share, so the
            /// router discarded the oldest datagram of this source: `set ip6-full-reassembly max-per-source`. Other
            /// sources are not affected.
            SourceLimit => warn "drops due to reassemblies limit of one source",
            /// Some fragments of a datagram did not arrive in time (`set ip6-full-reassembly timeout`). The first
            /// fragment is missing, too, so the router could not notify the sender. Fragments are lost on the way to
            /// this router.
            Timeout => warn "fragments dropped due to reassembly timeout",
            /// The extension headers before the fragment header are longer than 80 bytes. No sender needs that many
            /// there.
            Headers => warn "headers before the fragment header too long",
        }
    }
}

const COUNTERS4: &[CounterSpec] = &[
    CounterSpec("successful reassemblies", Severity::Info, "Datagrams to this router that were reassembled."),
    CounterSpec(
        "reassembly timeout, sender told",
        Severity::Warning,
        "Some fragments of a datagram did not arrive in time (`set ip4-full-reassembly timeout`). The router \
         reported this to the sender by ICMP (RFC 1122 3.3.2). Fragments are lost on the way to this router.",
    ),
];
const COUNTERS6: &[CounterSpec] = &[
    CounterSpec("successful reassemblies", Severity::Info, "Datagrams to this router that were reassembled."),
    CounterSpec(
        "reassembly timeout, sender told",
        Severity::Warning,
        "Some fragments of a datagram did not arrive in time (`set ip6-full-reassembly timeout`). The router \
         reported this to the sender by ICMPv6 (RFC 8200 4.5). Fragments are lost on the way to this router.",
    ),
    CounterSpec(
        "fragment length is no multiple of 8",
        Severity::Warning,
        "The length of the fragment's data is not a multiple of 8 although more fragments follow, so the next \
         fragment cannot follow without a gap. The router reported this to the sender (RFC 8200 4.5).",
    ),
    CounterSpec(
        "fragment ends beyond 65535 bytes",
        Severity::Warning,
        "The fragment ends beyond the greatest length that the payload length field can express. An attack. The \
         router reported this to the sender (RFC 8200 4.5).",
    ),
];
const REASSEMBLED: usize = 0;
const TOLD: usize = 1;
/// Of IPv6 only.
pub const UNEVEN: usize = 2;
pub const BEYOND: usize = 3;

pub fn spec(family: Family) -> NodeSpec {
    match family {
        Family::Ip4 => {
            NodeSpec { name: NAME4.into(), edges: Edge::EDGES, counters: COUNTERS4, trace: router::headers::trace_ip4 }
        }
        Family::Ip6 => NodeSpec {
            name: NAME6.into(),
            edges: edge6::Edge::EDGES,
            counters: COUNTERS6,
            trace: router::headers::trace_ip6,
        },
    }
}

/// By which the table of an interface's packets is found.
#[derive(Clone)]
pub enum Tables {
    Ip4(Fibs4),
    Ip6(Fibs6),
}

impl Tables {
    fn family(&self) -> Family {
        match self {
            Tables::Ip4(_) => Family::Ip4,
            Tables::Ip6(_) => Family::Ip6,
        }
    }

    fn index_of(&self, cx: &Context<'_>, row: &Row) -> TableIndex {
        match self {
            Tables::Ip4(fibs) => fibs.index_for(cx.round, row),
            Tables::Ip6(fibs) => fibs.index_for(cx.round, row),
        }
    }
}

pub struct LocalReassembly {
    tables: Tables,
    datagrams: Datagrams,
    /// The timer that counts, and whether it runs.
    timer: u64,
    is_armed: bool,
}

impl LocalReassembly {
    pub fn new(tables: Tables, most_buffers: usize) -> LocalReassembly {
        let datagrams = Datagrams::new(tables.family(), most_buffers);
        LocalReassembly { tables, datagrams, timer: 0, is_armed: false }
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
            let table = self.tables.index_of(x.cx, &row);
            match self.datagrams.take_in(x.cx.buffers, table, &row, x.cx.now) {
                Err(refusal) => {
                    self.let_go(x);
                    let edge = match refusal {
                        Refusal::End(edge) => edge,
                        Refusal::Tell { report, counter } => {
                            x.cx.count(counter, 1);
                            vector.leave(i, report);
                            Edge::IcmpError.into()
                        }
                    };
                    vector.set_edge(i, edge);
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
