//! `ethernet-input`: one pass over the Ethernet and the IPv4, IPv6 or MPLS headers, which also finds the sub-interface
//! that a frame belongs to.
//!
//! The first frame decides which headers the pass expects. A frame with other headers is checked by `ip4-input`,
//! `ip6-input` or `mpls-input`.
//!
//! Reads: `l2`, `length`, `rx_interface`. Writes: check bits into `flags`, `target` (IPv4 destination, or top label),
//! `l3`; `rx_interface`, when a sub-interface takes the frame by its VLAN tags; cuts Ethernet padding off `length`.
//! Next: `ip4-input`, `ip6-input`, `mpls-input`, `arp-input`, `llc-input`, or a drop by name. While it reads the
//! headers it prefetches the entries of a large routing table that their destinations need. Behind a label it reads the
//! IPv4 header, too, for the node that takes the label off.

use super::station;
use graph::vector::VECTOR_SIZE;
use graph::{ArcIndex, Context, CounterTable, InterfaceIndex, Map, NodeSpec, Snapshot, Vector, flag};
pub use router::interface::sub::{Found, Inner};
use router::interface::{InterfaceView, SharedViews, ViewTable};
use router::ip::Fibs4;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use wire::MacAddress;
use wire::batch::{self, Columns6, EthernetColumns, Shape, check};
use wire::ethernet::{EtherType, HEADER_LEN};
use wire::pretty::Summary;
use wire::vlan::VID_MASK;

graph::edges! {
    pub enum Edge {
        Ip4Input => next "ip4-input",
        Ip6Input => next "ip6-input",
        ArpInput => next "arp-input",
        MplsInput => next "mpls-input",
        /// The frame is shorter than an Ethernet header's 14 bytes. The driver or the sender is broken.
        Runt => warn "frame shorter than its header",
        /// The frame is for another station's MAC address. Normal on a shared link. Otherwise the sender has an old
        /// ARP entry for this router's address.
        OtherStation => note "l3 mac mismatch",
        /// The frame carries a protocol that this router does not process, such as LLDP. Normal.
        UnknownType => note "unknown ethernet type",
        Llc => next "llc-input",
        /// Along the features of the interface for frames that no layer-3 node takes; else to `llc-input`.
        Features => arc "l2-input",
        /// The length field of the frame says that more bytes follow its header than really do (IEEE 802.3, 3.2.6).
        /// The frame was truncated on its way, or its sender is broken.
        LengthBeyond => warn "802.3 length beyond the frame",
        /// The type field is between 1501 and 1535, which is neither a length nor a type (IEEE 802.3, 3.2.6). The
        /// sender is broken.
        NeitherLengthNorType => warn "neither an 802.3 length nor an ethernet type",
        /// The interface was deleted while the frame was being processed. A few at that moment are normal.
        NoInterface => note "interface is gone",
        /// The frame carries VLAN tags that no sub-interface of this interface matches. To receive these frames,
        /// create a sub-interface (`create sub-interfaces`). Otherwise the switch sends more VLANs than it should
        /// (IEEE 802.1Q-2022 8.8.1).
        UnknownVlan => warn "unknown vlan",
        /// The frame belongs to a VLAN whose sub-interface is administratively down. Set it up
        /// (`set interface state e0.100 up`).
        SubDown => warn "subinterface down",
        /// The frame ends before its VLAN tag does. It was truncated, or crafted to break parsers (IEEE 802.1Q-2022
        /// 9.3).
        TruncatedTag => warn "frame ends within a vlan tag",
        /// The frame has more than two VLAN tags. This router processes at most two (IEEE 802.1ad).
        TooManyTags => warn "more than two vlan tags",
    }
}

/// With fewer packets than this, nothing is prefetched.
const FEW: usize = 16;

/// The largest length that an 802.3 frame can have in place of a type.
const MAX_PAYLOAD: u16 = 1500;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ethernet-input".into(), edges: Edge::EDGES, counters: &[], trace }
}

pub struct EthernetInput {
    view: SharedViews,
    intake: Intake,
}

/// What frames are checked against.
struct Intake {
    fibs: Fibs4,
    /// Packets and bytes received, by interface. Devices count their own; this node counts those of sub-interfaces.
    rx: Arc<CounterTable>,
    /// The arc of frames that no layer-3 node takes.
    l2: ArcIndex,
    scratch: Box<Scratch>,
}

/// What the pass found out about the frames of one vector. Kept, so that it need not be cleared for each vector.
struct Scratch {
    shapes: [Shape; VECTOR_SIZE],
    /// The control information of their VLAN tags.
    tags: [u32; VECTOR_SIZE],
    /// Their lengths before padding is cut off: counters include the padding.
    lengths: [u16; VECTOR_SIZE],
}

impl EthernetInput {
    /// `l2`: the arc `l2-input`.
    pub fn new(view: SharedViews, fibs: Fibs4, rx: Arc<CounterTable>, l2: ArcIndex) -> EthernetInput {
        let scratch =
            Scratch { shapes: [Shape::PLAIN; VECTOR_SIZE], tags: [0; VECTOR_SIZE], lengths: [0; VECTOR_SIZE] };
        EthernetInput { view, intake: Intake { fibs, rx, l2, scratch: Box::new(scratch) } }
    }
}

impl Map for EthernetInput {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let view = self.view.load(cx.round);
        if let Some(rx) = vector.one_rx_interface() {
            let all = 0..vector.len();
            return self.intake.input(cx, vector, all, view, rx);
        }
        // Several interfaces in one vector: run by run.
        let mut start = 0;
        while start < vector.len() {
            let rx = vector.rx_interfaces()[start];
            let run = vector.rx_interfaces()[start..].iter().take_while(|&&other| other == rx).count();
            self.intake.input(cx, vector, start..start + run, view, rx);
            start += run;
        }
    }
}

const LINK_FAULTS: u32 = check::OTHER_STATION | check::GROUP | check::SHORT;

/// The result of a pass over headers.
#[derive(Clone, Copy)]
struct HeaderScan {
    faults: u32,
    /// The flag of packets whose EtherType is not the one that the pass looked for.
    missed: u32,
    /// The next node of packets whose EtherType is the expected one.
    found: Edge,
}

impl HeaderScan {
    const IP4: HeaderScan = HeaderScan { faults: 0, missed: check::NOT_IP4, found: Edge::Ip4Input };
    const IP6: HeaderScan = HeaderScan { faults: 0, missed: check::NOT_IP6, found: Edge::Ip6Input };
    const MPLS: HeaderScan = HeaderScan { faults: 0, missed: check::NOT_MPLS, found: Edge::MplsInput };

    /// The next node of all packets, when none needs a second look.
    fn plain(self) -> Option<Edge> {
        (self.faults & (LINK_FAULTS | self.missed) == 0).then_some(self.found)
    }
}

impl Intake {
    /// Handles packets `range`, all received on the interface `rx`.
    #[inline]
    fn input(
        &mut self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        range: Range<usize>,
        table: &ViewTable,
        rx: InterfaceIndex,
    ) {
        let Some(view) = table.get(rx) else {
            range.for_each(|i| vector.set_edge(i, Edge::NoInterface.into()));
            return;
        };
        if view.sub_interfaces.is_some() {
            return self.demultiplex(cx, vector, range, table, view);
        }
        let (frames, sides) = vector.l2_frames(cx.buffers, range.clone());
        let ethertype = ethertype_at(frames.bytes(0), 12);
        if ethertype == EtherType::IPV6 {
            let columns = Columns6 { flags: sides.flags, length: sides.length };
            let faults = batch::ethernet_ip6(&frames, view.mac, columns);
            return self.examined(cx, vector, range, (table, view), HeaderScan { faults, ..HeaderScan::IP6 });
        }
        let columns = EthernetColumns { flags: sides.flags, length: sides.length, target: sides.target };
        if ethertype == EtherType::MPLS {
            let faults = batch::ethernet_mpls(&frames, view.mac, columns);
            return self.examined(cx, vector, range, (table, view), HeaderScan { faults, ..HeaderScan::MPLS });
        }
        // With few packets the pass is over before prefetched lines arrive.
        let slots = if frames.len() < FEW { None } else { self.fibs.ahead(cx.round, view.ip4_table) };
        let faults = match slots {
            Some(slots) => batch::ethernet_ip4_ahead(&frames, view.mac, columns, |targets| slots.ask(targets)),
            None => batch::ethernet_ip4(&frames, view.mac, columns),
        };
        self.examined(cx, vector, range, (table, view), HeaderScan { faults, ..HeaderScan::IP4 });
    }

    /// Handles packets `range` of an interface without sub-interfaces, after the pass over their headers.
    #[inline]
    fn examined(
        &mut self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        range: Range<usize>,
        (table, view): (&ViewTable, &InterfaceView),
        looked: HeaderScan,
    ) {
        admit(cx, vector, &range, view, looked.faults);
        let columns = vector.columns();
        for (l3, l2) in columns.l3[range.clone()].iter_mut().zip(&columns.l2[range.clone()]) {
            *l3 = l2 + HEADER_LEN as u16;
        }
        if let Some(edge) = looked.plain() {
            columns.edge[range].fill(edge.into());
            return;
        }
        for i in range.clone() {
            let Some(edge) = ethertype_edge(cx, vector, i, looked) else {
                // A VLAN tag, though the interface has no sub-interfaces: check this packet and the rest again, one by
                // one.
                vector.columns().flags[i..range.end].iter_mut().for_each(|flags| *flags &= !check::ALL);
                return self.one_by_one(cx, vector, i..range.end, table, view);
            };
            send(cx, vector, i, edge, self.l2);
        }
    }

    /// Handles packets `range`, which may carry VLAN tags, of the interface of `view`. Most often all of them have the
    /// same shape and the same VLAN.
    #[inline]
    fn demultiplex(
        &mut self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        range: Range<usize>,
        table: &ViewTable,
        view: &InterfaceView,
    ) {
        let (frames, sides) = vector.l2_frames(cx.buffers, range.clone());
        let first = batch::first_shape(&frames, sides.length[0]);
        if !first.0.is_sound() {
            return self.one_by_one(cx, vector, range, table, view);
        }
        let owner_of_first = owner(view, first.0, first.1);
        let own = |found: Found| table.get(found.index()).map_or(view.mac, |own| own.mac);
        let station = match owner_of_first {
            Ok(Some(found)) if found.has_own_mac() => own(found),
            _ => view.mac,
        };
        let Scratch { tags, lengths, .. } = &mut *self.scratch;
        lengths[..sides.length.len()].copy_from_slice(sides.length);
        let ethertype = ethertype_at(frames.bytes(0), 12 + first.0.tags());
        let (alike, looked) = if ethertype == EtherType::IPV6 {
            let columns = Columns6 { flags: sides.flags, length: sides.length };
            (batch::alike_ip6(&frames, station, columns, first, tags), HeaderScan::IP6)
        } else {
            let columns = EthernetColumns { flags: sides.flags, length: sides.length, target: sides.target };
            match ethertype {
                EtherType::MPLS => (batch::alike_mpls(&frames, station, columns, first, tags), HeaderScan::MPLS),
                _ => (batch::alike_ip4(&frames, station, columns, first, tags), HeaderScan::IP4),
            }
        };
        let looked = HeaderScan { faults: alike.faults, ..looked };
        let (tags, lengths) = (&tags[..alike.done], &lengths[..alike.done]);
        let done = range.start..range.start + alike.done;
        admit(cx, vector, &done, view, alike.faults);
        let columns = vector.columns();
        for (l3, l2) in columns.l3[done.clone()].iter_mut().zip(&columns.l2[done.clone()]) {
            *l3 = l2 + first.0.header_length();
        }
        let plain = looked.plain();
        if alike.one_vlan {
            let edge = match owner_of_first {
                Err(edge) => Some(edge),
                Ok(Some(found)) => {
                    columns.rx_interface[done.clone()].fill(found.index());
                    count(&self.rx, cx, found, lengths);
                    (!found.is_up()).then_some(Edge::SubDown)
                }
                Ok(None) => None,
            };
            match edge.or(plain) {
                Some(edge) => columns.edge[done.clone()].fill(edge.into()),
                None => done.clone().for_each(|i| {
                    let edge = ethertype_edge(cx, vector, i, looked).unwrap_or(Edge::UnknownVlan);
                    send(cx, vector, i, edge, self.l2);
                }),
            }
        } else {
            let mut counted = Counted::new(&self.rx, self.l2, cx.thread);
            for i in done.clone() {
                let at = i - range.start;
                let owner = owner(view, first.0, tags[at]);
                let has_own_mac = matches!(owner, Ok(Some(found)) if found.has_own_mac());
                if has_own_mac || station != view.mac {
                    let mac = if let Ok(Some(found)) = owner { own(found) } else { view.mac };
                    address_to(cx, vector, i, mac, view);
                    give(cx, vector, i, owner, lengths[at], &mut counted, (None, looked));
                } else {
                    give(cx, vector, i, owner, lengths[at], &mut counted, (plain, looked));
                }
            }
        }
        if done.end < range.end {
            self.one_by_one(cx, vector, done.end..range.end, table, view);
        }
    }

    /// Handles packets `range`, each with its own shape.
    fn one_by_one(
        &mut self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        range: Range<usize>,
        table: &ViewTable,
        view: &InterfaceView,
    ) {
        let Scratch { shapes, tags, lengths } = &mut *self.scratch;
        let (frames, sides) = vector.l2_frames(cx.buffers, range.clone());
        lengths[..sides.length.len()].copy_from_slice(sides.length);
        batch::shapes(&frames, lengths, shapes, tags);
        let looked = if ethertype_at(frames.bytes(0), 12 + shapes[0].tags()) == EtherType::IPV6 {
            let columns = Columns6 { flags: sides.flags, length: sides.length };
            HeaderScan { faults: batch::tagged_ip6(&frames, view.mac, columns, shapes), ..HeaderScan::IP6 }
        } else {
            let columns = EthernetColumns { flags: sides.flags, length: sides.length, target: sides.target };
            HeaderScan { faults: batch::tagged_ip4(&frames, view.mac, columns, shapes), ..HeaderScan::IP4 }
        };
        let (faults, plain) = (looked.faults, looked.plain());
        admit(cx, vector, &range, view, faults);
        let mut counted = Counted::new(&self.rx, self.l2, cx.thread);
        for i in range.clone() {
            let at = i - range.start;
            let columns = vector.columns();
            columns.l3[i] = columns.l2[i] + shapes[at].header_length();
            let owner = owner(view, shapes[at], tags[at]);
            let mut plain = plain;
            if let Ok(Some(found)) = owner
                && found.has_own_mac()
            {
                address_to(cx, vector, i, table.get(found.index()).map_or(view.mac, |own| own.mac), view);
                plain = None;
            }
            give(cx, vector, i, owner, lengths[at], &mut counted, (plain, looked));
        }
    }
}

/// Counts what one sub-interface has received.
#[inline]
fn count(rx: &CounterTable, cx: &Context<'_>, found: Found, lengths: &[u16]) {
    let at = found.index().0 as usize;
    let bytes: u32 = lengths.iter().map(|&length| u32::from(length)).sum();
    rx.add(cx.thread, at, 0, lengths.len() as u64);
    rx.add(cx.thread, at, 1, bytes.into());
}

/// Accepts frames to the extra addresses of the receiving interface.
#[inline]
fn admit(cx: &Context<'_>, vector: &mut Vector, range: &Range<usize>, view: &InterfaceView, faults: u32) {
    if faults & check::OTHER_STATION != 0 && !view.stations.is_empty() {
        station::admit(cx, vector, range.clone(), view);
    }
}

/// Gives a packet to its owner and sets its edge: `plain` when no packet of the pass has a fault, else by the packet's
/// own flags and EtherType.
#[inline]
fn give(
    cx: &Context<'_>,
    vector: &mut Vector,
    i: usize,
    owner: Result<Option<Found>, Edge>,
    length: u16,
    counted: &mut Counted<'_>,
    (plain, looked): (Option<Edge>, HeaderScan),
) {
    let found = match owner {
        Ok(found) => found,
        Err(edge) => return vector.set_edge(i, edge.into()),
    };
    if let Some(found) = found {
        vector.columns().rx_interface[i] = found.index();
        counted.packet(found.index(), length);
        if !found.is_up() {
            return vector.set_edge(i, Edge::SubDown.into());
        }
    }
    let edge = plain.or_else(|| ethertype_edge(cx, vector, i, looked)).unwrap_or(Edge::UnknownVlan);
    send(cx, vector, i, edge, counted.l2);
}

/// Sends a packet on: of those that no layer-3 node takes, along the features of its interface.
#[inline]
fn send(cx: &Context<'_>, vector: &mut Vector, i: usize, edge: Edge, l2: ArcIndex) {
    let chain = match edge {
        Edge::Llc | Edge::UnknownType => cx.chain(l2, vector.rx_interfaces()[i]),
        _ => None,
    };
    vector.send(i, chain, edge.into());
}

/// The owner of a frame with these tags: a sub-interface, or none when it is the receiving interface itself.
#[inline]
fn owner(view: &InterfaceView, shape: Shape, tags: u32) -> Result<Option<Found>, Edge> {
    if shape.is_truncated() {
        return Err(Edge::TruncatedTag);
    }
    if shape.is_deeper() {
        return Err(Edge::TooManyTags);
    }
    let (outer, inner) = ((tags >> 16) as u16 & VID_MASK, tags as u16 & VID_MASK);
    // IEEE 802.1Q-2022 9.6: identifier 0 names no VLAN, the tag only carries a priority.
    if shape.depth() == 0 || shape.depth() == 1 && outer == 0 {
        return Ok(view.sub_interfaces.as_ref().and_then(|demux| demux.untagged()));
    }
    let inner = match shape.depth() {
        1 => Inner::None,
        _ if shape.is_inner_other() => Inner::Other,
        _ => Inner::Vid(inner),
    };
    let found = view.sub_interfaces.as_ref().and_then(|demux| demux.tagged(shape.outer_type(), outer, inner));
    found.map(Some).ok_or(Edge::UnknownVlan)
}

/// Decides again whether a frame is for the owner of the address `mac`, or for an extra address of the interface that
/// received it.
fn address_to(cx: &Context<'_>, vector: &mut Vector, i: usize, mac: MacAddress, view: &InterfaceView) {
    let columns = vector.columns();
    let l2 = columns.l2[i] as usize;
    let to = &cx.buffers.bytes(columns.packets[i])[l2..l2 + 6];
    let is_ours = *to == mac.0 || view.stations.iter().any(|station| *to == station.0);
    columns.flags[i] &= !check::OTHER_STATION;
    if columns.flags[i] & check::GROUP == 0 && !is_ours {
        columns.flags[i] |= check::OTHER_STATION;
    }
}

/// The EtherType at an offset of a frame's first bytes.
fn ethertype_at(head: &[u8; 64], at: usize) -> EtherType {
    EtherType(u16::from_be_bytes([head[at], head[at + 1]]))
}

/// The edge of a packet by its check bits and its EtherType, the two bytes before `l3`; none when these are a VLAN
/// tag's. The pass over headers has set `missed` where the EtherType is not the one that it looked for.
fn ethertype_edge(cx: &Context<'_>, vector: &mut Vector, i: usize, looked: HeaderScan) -> Option<Edge> {
    let columns = vector.columns();
    let (flags, length) = (columns.flags[i], columns.length[i] as usize);
    let l3 = columns.l3[i] as usize;
    Some(if length < HEADER_LEN {
        Edge::Runt
    } else if flags & check::OTHER_STATION != 0 {
        Edge::OtherStation
    } else if flags & looked.missed == 0 {
        // A packet too short for its IP header goes on, too: the next node reports it.
        looked.found
    } else {
        let bytes = cx.buffers.bytes(columns.packets[i]);
        match EtherType(u16::from_be_bytes([bytes[l3 - 2], bytes[l3 - 1]])) {
            EtherType::ARP => Edge::ArpInput,
            EtherType::IPV4 => Edge::Ip4Input,
            EtherType::IPV6 => Edge::Ip6Input,
            EtherType::MPLS => Edge::MplsInput,
            other if other.is_tag() => return None,
            other if other.is_length() => {
                length_edge(flags, &mut columns.length[i], l3 as u16 - columns.l2[i], other.0)
            }
            _ => Edge::UnknownType,
        }
    })
}

/// The edge of a frame that has the length `said` in place of a type, behind a link header of `link` bytes. Cuts off
/// padding beyond that length.
fn length_edge(flags: u32, length: &mut u16, link: u16, said: u16) -> Edge {
    if said > MAX_PAYLOAD {
        return Edge::NeitherLengthNorType;
    }
    let whole = said + link;
    if whole > *length {
        return Edge::LengthBeyond;
    }
    if flags & flag::CHAINED == 0 {
        *length = whole;
    }
    Edge::Llc
}

/// Adds up what sub-interfaces receive, so that a run of packets counts once.
struct Counted<'a> {
    rx: &'a CounterTable,
    /// For [`send`].
    l2: ArcIndex,
    thread: usize,
    interface: InterfaceIndex,
    packets: u64,
    bytes: u64,
}

impl<'a> Counted<'a> {
    fn new(rx: &'a CounterTable, l2: ArcIndex, thread: usize) -> Counted<'a> {
        Counted { rx, l2, thread, interface: InterfaceIndex::default(), packets: 0, bytes: 0 }
    }

    #[inline]
    fn packet(&mut self, interface: InterfaceIndex, length: u16) {
        if interface != self.interface {
            self.write();
            (self.interface, self.packets, self.bytes) = (interface, 0, 0);
        }
        self.packets += 1;
        self.bytes += length as u64;
    }

    fn write(&self) {
        if self.packets > 0 {
            self.rx.add(self.thread, self.interface.0 as usize, 0, self.packets);
            self.rx.add(self.thread, self.interface.0 as usize, 1, self.bytes);
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.write();
    }
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
