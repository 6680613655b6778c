//! The single tests of a filter, on a packet's bytes.
//!
//! Offsets are those of pcap's own code, so that verdicts agree. `None` means that the packet
//! ends before the test could be made.

use super::LinkType;
use crate::addr::MacAddress;

/// A packet as a filter sees it: its first bytes, and how long it is.
pub(super) struct Packet<'a> {
    pub bytes: &'a [u8],
    pub length: usize,
    pub link: LinkType,
}

impl Packet<'_> {
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..at + N)?.try_into().ok()
    }
    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }
    fn half(&self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_be_bytes)
    }
    fn word(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_be_bytes)
    }
}

/// Which of a packet's two addresses or ports is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Either,
    Both,
    Source,
    Destination,
}

impl Direction {
    /// Looks at source and destination as far as the answer needs them.
    fn holds(self, at: [usize; 2], test: impl Fn(usize) -> Option<bool>) -> Option<bool> {
        match self {
            Direction::Source => test(at[0]),
            Direction::Destination => test(at[1]),
            Direction::Either => Some(test(at[0])? || test(at[1])?),
            Direction::Both => Some(test(at[0])? && test(at[1])?),
        }
    }
}

/// How many VLAN tags and MPLS labels were named before a test: it looks behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Depth {
    pub tags: u8,
    pub labels: u8,
}

impl Depth {
    fn type_at(self) -> usize {
        12 + 4 * self.tags as usize
    }
    fn network_at(self, link: LinkType) -> usize {
        match link {
            LinkType::Ethernet => self.type_at() + 2 + 4 * self.labels as usize,
            LinkType::Ip => 0,
        }
    }
}

pub(super) const TYPE_IP: u16 = 0x0800;
pub(super) const TYPE_ARP: u16 = 0x0806;
pub(super) const TYPE_RARP: u16 = 0x8035;
pub(super) const TYPE_IP6: u16 = 0x86dd;
const TYPE_MPLS: u16 = 0x8847;
/// What marks a VLAN tag: 802.1Q, 802.1ad, and the older double tag.
const TYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const FRAGMENT_HEADER: u8 = 44;

/// The comparison of a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    AtMost,
    Equal,
    Unequal,
    AtLeast,
    Greater,
}

/// In which network protocols to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Families {
    pub ip: bool,
    pub ip6: bool,
    pub arp: bool,
    pub rarp: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    EtherAddress(Direction, MacAddress),
    EtherBroadcast,
    EtherMulticast,
    EtherType(u16),
    Vlan(Option<u16>),
    Mpls(Option<u32>),
    /// The protocol that an IP header names.
    Protocol(Families, u8),
    /// An IPv4 address under a mask, in IPv4 and ARP.
    Address(Families, Direction, u32, u32),
    Address6(Direction, u128, u128),
    /// Ports within a range, of these transport protocols.
    Port(&'static [u8], Direction, u16, u16),
    Multicast,
    Multicast6,
    Fragment,
    Length(Comparison, u32),
    /// A test, behind tags or labels.
    Behind(Depth, Box<Test>),
}

impl Test {
    pub fn of(&self, packet: &Packet<'_>) -> Option<bool> {
        match self {
            Test::Behind(depth, test) => test.at(packet, *depth),
            test => test.at(packet, Depth::default()),
        }
    }

    fn at(&self, packet: &Packet<'_>, depth: Depth) -> Option<bool> {
        let ethernet = packet.link == LinkType::Ethernet;
        if !ethernet && depth != Depth::default() {
            return Some(false);
        }
        let network = depth.network_at(packet.link);
        match *self {
            Test::EtherAddress(way, address) => {
                Some(ethernet && way.holds([6, 0], |at| Some(packet.array(at)? == address.0))?)
            }
            Test::EtherBroadcast => Some(ethernet && packet.array(0)? == [0xff; 6]),
            Test::EtherMulticast => Some(ethernet && packet.byte(0)? & 1 != 0),
            Test::EtherType(kind) => is_type(packet, depth, kind),
            Test::Vlan(id) => {
                if !ethernet || !TYPES_VLAN.contains(&packet.half(depth.type_at())?) {
                    return Some(false);
                }
                id.map_or(Some(true), |id| Some(packet.half(depth.type_at() + 2)? & 0xfff == id))
            }
            Test::Mpls(label) => {
                if !ethernet || !has_label(packet, depth)? {
                    return Some(false);
                }
                label.map_or(Some(true), |label| Some(packet.word(network)? >> 12 == label))
            }
            Test::Protocol(families, number) => Some(
                (families.ip && is_type(packet, depth, TYPE_IP)? && packet.byte(network + 9)? == number)
                    || (families.ip6 && is_type(packet, depth, TYPE_IP6)? && names_protocol6(packet, network, number)?),
            ),
            Test::Address(families, way, address, mask) => {
                let is = |at| Some(packet.word(network + at)? & mask == address);
                if families.ip && is_type(packet, depth, TYPE_IP)? {
                    return way.holds([12, 16], is);
                }
                if (families.arp && is_type(packet, depth, TYPE_ARP)?)
                    || (families.rarp && is_type(packet, depth, TYPE_RARP)?)
                {
                    return way.holds([14, 24], is);
                }
                Some(false)
            }
            Test::Address6(way, address, mask) => {
                let is = |at| Some(u128::from_be_bytes(packet.array(network + at)?) & mask == address);
                Some(is_type(packet, depth, TYPE_IP6)? && way.holds([8, 24], is)?)
            }
            Test::Port(protocols, way, low, high) => {
                let Some(ports) = ports_at(packet, depth, network, protocols)? else { return Some(false) };
                way.holds([ports, ports + 2], |at| Some((low..=high).contains(&packet.half(at)?)))
            }
            Test::Multicast => Some(is_type(packet, depth, TYPE_IP)? && packet.byte(network + 16)? >= 224),
            Test::Multicast6 => Some(is_type(packet, depth, TYPE_IP6)? && packet.byte(network + 24)? == 0xff),
            Test::Fragment => Some(
                (is_type(packet, depth, TYPE_IP)? && packet.half(network + 6)? & 0x3fff != 0)
                    || (is_type(packet, depth, TYPE_IP6)? && packet.byte(network + 6)? == FRAGMENT_HEADER),
            ),
            Test::Length(comparison, than) => Some(compare(packet.length, comparison, than as usize)),
            Test::Behind(..) => Some(false), // never nested
        }
    }
}

fn compare(length: usize, comparison: Comparison, than: usize) -> bool {
    match comparison {
        Comparison::Less => length < than,
        Comparison::AtMost => length <= than,
        Comparison::Equal => length == than,
        Comparison::Unequal => length != than,
        Comparison::AtLeast => length >= than,
        Comparison::Greater => length > than,
    }
}

/// Whether the network header is of this EtherType. Behind MPLS nothing says so but the last
/// label's mark and the version of the header.
fn is_type(packet: &Packet<'_>, depth: Depth, kind: u16) -> Option<bool> {
    let network = depth.network_at(packet.link);
    let version = match kind {
        TYPE_IP => 4,
        TYPE_IP6 => 6,
        _ => 0,
    };
    if packet.link == LinkType::Ip {
        return Some(version != 0 && packet.byte(0)? >> 4 == version);
    }
    if depth.labels == 0 {
        return Some(packet.half(depth.type_at())? == kind);
    }
    Some(version != 0 && packet.byte(network - 2)? & 1 == 1 && packet.byte(network)? >> 4 == version)
}

/// Whether there is an MPLS label here: announced by the type, or by the label before.
fn has_label(packet: &Packet<'_>, depth: Depth) -> Option<bool> {
    match depth.labels {
        0 => Some(packet.half(depth.type_at())? == TYPE_MPLS),
        _ => Some(packet.byte(depth.network_at(packet.link) - 2)? & 1 == 0),
    }
}

/// Whether an IPv6 header names the protocol, directly or behind one fragment header.
fn names_protocol6(packet: &Packet<'_>, network: usize, number: u8) -> Option<bool> {
    let next = packet.byte(network + 6)?;
    Some(next == number || (next == FRAGMENT_HEADER && packet.byte(network + 40)? == number))
}

/// Where the ports are, when the packet has any of these protocols and is no later fragment.
fn ports_at(packet: &Packet<'_>, depth: Depth, network: usize, protocols: &[u8]) -> Option<Option<usize>> {
    if is_type(packet, depth, TYPE_IP)? {
        let carries = protocols.contains(&packet.byte(network + 9)?) && packet.half(network + 6)? & 0x1fff == 0;
        let header = (packet.byte(network)? & 0xf) as usize * 4;
        return Some(carries.then_some(network + header));
    }
    if is_type(packet, depth, TYPE_IP6)? {
        return Some(protocols.contains(&packet.byte(network + 6)?).then_some(network + 40));
    }
    Some(None)
}
