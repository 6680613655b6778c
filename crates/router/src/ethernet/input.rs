//! `ethernet-input`: one pass over the Ethernet and IPv4 headers.
//!
//! Reads: `l2`, `length`, `rx_interface`. Writes: check bits into `flags`, `target` (IPv4
//! destination), `l3`; cuts Ethernet padding off `length`. Next: `ip4-input`,
//! `arp-input`, `llc-input`, or a drop by name.

use super::station;
use crate::interface::{Facts, SharedFacts};
use graph::{Context, Map, NodeSpec, Snapshot, Vector, flag};
use std::fmt;
use std::ops::Range;
use wire::batch::{self, EthernetColumns, check};
use wire::ethernet::{EtherType, HEADER_LEN};
use wire::pretty::Summary;

graph::edges! {
    pub enum Edge {
        Ip4Input => next "ip4-input",
        ArpInput => next "arp-input",
        /// Shorter than an Ethernet header's 14 bytes. A broken driver or sender.
        Runt => drop "frame shorter than its header",
        /// The frame is for another station's MAC address. Normal on a shared wire; else the sender has an old ARP
        /// entry for our address.
        OtherStation => drop "l3 mac mismatch",
        /// The frame carries something else than what this router speaks, such as IPv6 or LLDP. Normal.
        UnknownType => drop "unknown ethernet type",
        Llc => next "llc-input",
        /// The frame says that more bytes follow its header than do (IEEE 802.3, 3.2.6): it was cut short on its way, or
        /// its sender is broken.
        LengthBeyond => drop "802.3 length beyond the frame",
        /// Between 1501 and 1535 a number is neither a length nor a type (IEEE 802.3, 3.2.6). A broken sender.
        NeitherLengthNorType => drop "neither an 802.3 length nor an ethernet type",
        /// The interface was deleted while the frame was on its way. A few at that moment are normal.
        NoInterface => drop "interface is gone",
    }
}

/// The largest length that an 802.3 frame can have in place of a type.
const MAX_PAYLOAD: u16 = 1500;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ethernet-input".into(), edges: Edge::EDGES, counters: &[], trace }
}

pub struct EthernetInput {
    facts: SharedFacts,
}

impl EthernetInput {
    pub fn new(facts: SharedFacts) -> EthernetInput {
        EthernetInput { facts }
    }
}

impl Map for EthernetInput {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let facts = self.facts.load(cx.round);
        if let Some(rx) = vector.one_rx_interface() {
            let all = 0..vector.len();
            return input(cx, vector, all, facts.get(rx));
        }
        // Several interfaces in one vector: run by run.
        let mut start = 0;
        while start < vector.len() {
            let rx = vector.rx_interfaces()[start];
            let run = vector.rx_interfaces()[start..].iter().take_while(|&&other| other == rx).count();
            input(cx, vector, start..start + run, facts.get(rx));
            start += run;
        }
    }
}

/// Packets `range`, all received on the interface of `facts`.
#[inline]
fn input(cx: &mut Context<'_>, vector: &mut Vector, range: Range<usize>, facts: Option<&Facts>) {
    let Some(facts) = facts else {
        range.for_each(|i| vector.set_edge(i, Edge::NoInterface.into()));
        return;
    };
    let (frames, sides) = vector.l2_frames(cx.buffers, range.clone());
    let columns = EthernetColumns { flags: sides.flags, length: sides.length, target: sides.target };
    let faults = batch::ethernet_ip4(&frames, facts.mac, columns);
    let columns = vector.columns();
    for (l3, l2) in columns.l3[range.clone()].iter_mut().zip(&columns.l2[range.clone()]) {
        *l3 = l2 + HEADER_LEN as u16;
    }
    const ETHERNET_FAULTS: u32 = check::OTHER_STATION | check::GROUP | check::NOT_IP4 | check::SHORT;
    if faults & check::OTHER_STATION != 0 && !facts.stations.is_empty() {
        station::admit(cx, vector, range.clone(), facts);
    }
    let columns = vector.columns();
    if faults & ETHERNET_FAULTS == 0 {
        columns.edge[range].fill(Edge::Ip4Input.into());
        return;
    }
    for i in range {
        let (flags, length) = (columns.flags[i], columns.length[i] as usize);
        let l2 = columns.l2[i] as usize;
        columns.edge[i] = if length < HEADER_LEN {
            Edge::Runt
        } else if flags & check::OTHER_STATION != 0 {
            Edge::OtherStation
        } else if flags & check::NOT_IP4 == 0 {
            // Too short for its IPv4 header: ip4-input says so.
            Edge::Ip4Input
        } else {
            let bytes = cx.buffers.bytes(columns.packets[i]);
            let ethertype = EtherType(u16::from_be_bytes([bytes[l2 + 12], bytes[l2 + 13]]));
            match ethertype {
                EtherType::ARP => Edge::ArpInput,
                other if other.is_length() => length_edge(columns.flags[i], &mut columns.length[i], other.0),
                _ => Edge::UnknownType,
            }
        }
        .into();
    }
}

/// Where a frame goes that has `said` in place of a type; padding after what it says is cut
/// off.
fn length_edge(flags: u32, length: &mut u16, said: u16) -> Edge {
    if said > MAX_PAYLOAD {
        return Edge::NeitherLengthNorType;
    }
    let whole = said + HEADER_LEN as u16;
    if whole > *length {
        return Edge::LengthBeyond;
    }
    if flags & flag::CHAINED == 0 {
        *length = whole;
    }
    Edge::Llc
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    let row = &snapshot.row;
    writeln!(
        f,
        "  frame: flags {:#x}, hw-if-index {}, sw-if-index {}",
        row.flags & !flag::TRACED,
        row.rx_interface,
        row.rx_interface
    )?;
    writeln!(f, "{}", Summary::ethernet(snapshot.l2()).indented(2))
}
