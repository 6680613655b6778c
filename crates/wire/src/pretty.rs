//! Headers as text, the way VPP's packet trace prints them.
//!
//! A trace keeps only the first bytes of a packet, so a header is printed as far as it is
//! there, and a packet longer than the capture is not called malformed.

use std::fmt;

use crate::arp::{self, Arp};
use crate::ethernet::{self, EtherType};
use crate::icmpv4::{self, Message};
use crate::ipv4::{self, Protocol};
use crate::ipv6::{self, Chain};
use crate::mpls::Stack;
use crate::vlan::{TAG_LEN, Tag, Tags};
use crate::{icmpv6, tcp, udp};

/// Prints the headers at the start of some bytes, several lines, no line end after the last.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    layer: Layer,
    bytes: &'a [u8],
    indent: usize,
}

#[derive(Clone, Copy, Debug)]
enum Layer {
    Ethernet,
    Arp,
    Ipv4,
    Ipv6,
    Mpls,
}

impl<'a> Summary<'a> {
    /// One line: `IP4: 02:00:00:00:00:aa -> 02:00:00:00:00:01`, and each VLAN tag:
    /// ` 802.1q vlan 100 priority 5`.
    pub const fn ethernet(frame: &'a [u8]) -> Self {
        Self { layer: Layer::Ethernet, bytes: frame, indent: 0 }
    }

    /// Two lines, of what follows the Ethernet header.
    pub const fn arp(packet: &'a [u8]) -> Self {
        Self { layer: Layer::Arp, bytes: packet, indent: 0 }
    }

    /// The IPv4 header and, but in later fragments, the UDP, TCP or ICMP header after it.
    pub const fn ipv4(packet: &'a [u8]) -> Self {
        Self { layer: Layer::Ipv4, bytes: packet, indent: 0 }
    }

    /// The IPv6 header and, behind its extension headers but in later fragments, the UDP, TCP or ICMPv6 header.
    pub const fn ipv6(packet: &'a [u8]) -> Self {
        Self { layer: Layer::Ipv6, bytes: packet, indent: 0 }
    }

    /// A line for each entry of the label stack: `MPLS: label 16 exp 0 s 1 ttl 64`, then what the stack carries if
    /// that is IP.
    pub const fn mpls(packet: &'a [u8]) -> Self {
        Self { layer: Layer::Mpls, bytes: packet, indent: 0 }
    }

    /// Puts that many spaces before every line.
    pub const fn indented(self, indent: usize) -> Self {
        Self { indent, ..self }
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Lines { out: f, indent: self.indent, first: true };
        match self.layer {
            Layer::Ethernet => write_ethernet(&mut lines, self.bytes),
            Layer::Arp => write_arp(&mut lines, self.bytes),
            Layer::Ipv4 => write_ipv4(&mut lines, self.bytes),
            Layer::Ipv6 => write_ipv6(&mut lines, self.bytes),
            Layer::Mpls => write_mpls(&mut lines, self.bytes),
        }
    }
}

/// Starts lines: a header's first at the indentation, its others two further in.
struct Lines<'o, 'f> {
    out: &'o mut fmt::Formatter<'f>,
    indent: usize,
    first: bool,
}

impl Lines<'_, '_> {
    fn head(&mut self, line: fmt::Arguments<'_>) -> fmt::Result {
        self.line(self.indent, line)
    }

    fn detail(&mut self, line: fmt::Arguments<'_>) -> fmt::Result {
        self.line(self.indent + 2, line)
    }

    fn line(&mut self, indent: usize, line: fmt::Arguments<'_>) -> fmt::Result {
        if !std::mem::take(&mut self.first) {
            self.out.write_str("\n")?;
        }
        write!(self.out, "{:indent$}{line}", "")
    }
}

fn write_ethernet(lines: &mut Lines<'_, '_>, frame: &[u8]) -> fmt::Result {
    match ethernet::Header::new_checked(frame) {
        Ok(header) => {
            let tags = tags(frame);
            let at = ethernet::HEADER_LEN - 2 + tags.as_bytes().len();
            let ethertype = frame
                .get(at..at + 2)
                .map_or(header.ethertype(), |bytes| EtherType(u16::from_be_bytes([bytes[0], bytes[1]])));
            lines.head(format_args!("{ethertype}: {} -> {}", header.src(), header.dst()))?;
            tags.iter().try_for_each(|tag| write_tag(lines, tag))
        }
        Err(error) => lines.head(format_args!("{error}")),
    }
}

/// The VLAN tags of a frame, as many as are understood.
fn tags(frame: &[u8]) -> Tags {
    let mut tags = Vec::new();
    for at in [ethernet::HEADER_LEN - 2, ethernet::HEADER_LEN - 2 + TAG_LEN] {
        match frame.get(at..).and_then(Tag::parse) {
            Some(tag) => tags.push(tag),
            None => break,
        }
    }
    Tags::new(&tags)
}

fn write_tag(lines: &mut Lines<'_, '_>, tag: Tag) -> fmt::Result {
    let standard = if tag.tpid == EtherType::QINQ { "802.1ad" } else { "802.1q" };
    write!(lines.out, " {standard} vlan {}", tag.vid())?;
    if tag.priority() != 0 {
        write!(lines.out, " priority {}", tag.priority())?;
    }
    if tag.is_drop_eligible() {
        write!(lines.out, " dei")?;
    }
    Ok(())
}

fn write_mpls(lines: &mut Lines<'_, '_>, packet: &[u8]) -> fmt::Result {
    let mut stack = Stack::new(packet);
    let mut has_bottom = false;
    for entry in stack.by_ref() {
        lines.head(format_args!("MPLS: {entry}"))?;
        has_bottom = entry.is_bottom();
    }
    // Nothing says what it is, but its first bits.
    match stack.rest().first().map(|byte| byte >> 4).filter(|_| has_bottom) {
        Some(4) => write_ipv4(lines, stack.rest()),
        Some(6) => write_ipv6(lines, stack.rest()),
        _ => Ok(()),
    }
}

fn write_arp(lines: &mut Lines<'_, '_>, packet: &[u8]) -> fmt::Result {
    match Arp::parse(packet) {
        Ok(arp) => {
            lines.head(format_args!("{}, type ethernet/IP4, address size 6/4", arp.operation))?;
            lines.head(format_args!("{}/{} -> {}/{}", arp.sender_mac, arp.sender_ip, arp.target_mac, arp.target_ip))
        }
        Err(error @ arp::ParseError::Truncated { .. }) => lines.head(format_args!("{error}")),
        Err(error) => lines.head(format_args!("malformed: {error}")),
    }
}

fn write_ipv4(lines: &mut Lines<'_, '_>, packet: &[u8]) -> fmt::Result {
    let error = ipv4::Header::new_checked(packet).err();
    if let Some(error @ ipv4::ParseError::Truncated { .. }) = error {
        return lines.head(format_args!("{error}"));
    }
    // The fixed header is there, whatever its fields say.
    let header = ipv4::Header::new_unchecked(packet);
    write_ipv4_fields(lines, &header, packet.len())?;
    match error {
        // That much was captured; the next header may be whole.
        None | Some(ipv4::ParseError::TotalLengthBeyondData { .. }) => {}
        Some(error) => return lines.detail(format_args!("malformed: {error}")),
    }
    if header.fragment_offset() != 0 {
        return Ok(());
    }
    let end = packet.len().min(header.total_len().into());
    let payload = &packet[header.header_len()..end];
    match header.protocol() {
        Protocol::UDP => write_udp(lines, payload),
        Protocol::TCP => write_tcp(lines, payload),
        Protocol::ICMP => write_icmp(lines, payload),
        _ => Ok(()),
    }
}

fn write_ipv6(lines: &mut Lines<'_, '_>, packet: &[u8]) -> fmt::Result {
    let error = ipv6::Header::new_checked(packet).err();
    if let Some(error @ ipv6::ParseError::Truncated { .. }) = error {
        return lines.head(format_args!("{error}"));
    }
    // The header is there, whatever its fields say.
    let header = ipv6::Header::new_unchecked(packet);
    let payload = &packet[ipv6::HEADER_LEN..];
    let payload = &payload[..payload.len().min(header.payload_len().into())];
    let chain = Chain::walk(header.next_header(), payload);
    let protocol = chain.as_ref().map_or(header.next_header(), |chain| chain.protocol);
    lines.head(format_args!("{protocol}: {} -> {}", header.src(), header.dst()))?;
    lines.detail(format_args!(
        "tos 0x{:02x}, flow label 0x{:x}, hop limit {}, payload length {}",
        header.traffic_class(),
        header.flow_label(),
        header.hop_limit(),
        header.payload_len()
    ))?;
    if let Some(error @ ipv6::ParseError::Version(_)) = error {
        return lines.detail(format_args!("malformed: {error}"));
    }
    let Ok(chain) = chain else { return Ok(()) };
    if let Some(ipv6::FragmentHeader { fragment, .. }) = chain.fragment {
        lines.detail(format_args!(
            "fragment id 0x{:08x}, offset {}{}",
            fragment.id,
            fragment.offset,
            if fragment.more { ", more" } else { "" }
        ))?;
        if fragment.offset > 0 {
            return Ok(());
        }
    }
    match (chain.protocol, payload.get(chain.payload..).unwrap_or_default()) {
        (Protocol::UDP, payload) => write_udp(lines, payload),
        (Protocol::TCP, payload) => write_tcp(lines, payload),
        (Protocol::ICMP6, payload) => write_icmp6(lines, payload),
        _ => Ok(()),
    }
}

fn write_icmp6(lines: &mut Lines<'_, '_>, message: &[u8]) -> fmt::Result {
    let header = match icmpv6::Header::new_checked(message) {
        Ok(header) => header,
        Err(error) => return lines.head(format_args!("{error}")),
    };
    lines.head(format_args!("ICMP {}", header.kind()))?;
    if let Some(name) = header.kind().code_name(header.code()) {
        write!(lines.out, " {name}")?;
    }
    write!(lines.out, " checksum 0x{:x}", header.checksum())?;
    match header.message() {
        icmpv6::Message::EchoRequest { identifier, sequence } | icmpv6::Message::EchoReply { identifier, sequence } => {
            write!(lines.out, " id {identifier} seq {sequence}")
        }
        _ => Ok(()),
    }
}

fn write_ipv4_fields(lines: &mut Lines<'_, '_>, header: &ipv4::Header<&[u8]>, available: usize) -> fmt::Result {
    lines.head(format_args!("{}: {} -> {}", header.protocol(), header.src(), header.dst()))?;
    let (version, header_len) = (header.version(), header.header_len());
    if version != 4 || header_len != ipv4::HEADER_LEN {
        lines.detail(format_args!("version {version}, header length {header_len}"))?;
    }
    lines.detail(format_args!(
        "tos 0x{:02x}, ttl {}, length {}, checksum 0x{:04x} dscp {} ecn {}",
        header.tos(),
        header.ttl(),
        header.total_len(),
        header.checksum(),
        dscp_name(header.dscp()),
        ECN_NAMES[usize::from(header.ecn())],
    ))?;
    let whole = (ipv4::HEADER_LEN..=available).contains(&header_len);
    if whole && !header.verify_checksum() {
        write!(lines.out, " (should be 0x{:04x})", right_checksum(header))?;
    }
    lines.detail(format_args!("fragment id 0x{:04x}", header.id()))?;
    if header.fragment_offset() != 0 {
        write!(lines.out, " offset {}", header.fragment_offset())?;
    }
    lines.out.write_str(match (header.more_fragments(), header.dont_fragment()) {
        (false, false) => "",
        (true, false) => ", flags MORE_FRAGMENTS",
        (false, true) => ", flags DONT_FRAGMENT",
        (true, true) => ", flags MORE_FRAGMENTS DONT_FRAGMENT",
    })
}

fn right_checksum(header: &ipv4::Header<&[u8]>) -> u16 {
    let mut bytes = [0; ipv4::MAX_HEADER_LEN];
    let bytes = &mut bytes[..header.header_len()];
    bytes.copy_from_slice(header.header_bytes());
    let mut copy = ipv4::Header::new_unchecked(bytes);
    copy.fill_checksum();
    copy.checksum()
}

const ECN_NAMES: [&str; 4] = ["NON_ECN", "ECT_0", "ECT_1", "CE"];

/// The classes of RFC 2474 (CS), RFC 2597 (AF), RFC 3246 (EF) and RFC 5865 (VA).
fn dscp_name(dscp: u8) -> &'static str {
    match dscp {
        0 => "CS0",
        8 => "CS1",
        10 => "AF11",
        12 => "AF12",
        14 => "AF13",
        16 => "CS2",
        18 => "AF21",
        20 => "AF22",
        22 => "AF23",
        24 => "CS3",
        26 => "AF31",
        28 => "AF32",
        30 => "AF33",
        32 => "CS4",
        34 => "AF41",
        36 => "AF42",
        38 => "AF43",
        40 => "CS5",
        44 => "VA",
        46 => "EF",
        48 => "CS6",
        56 => "CS7",
        _ => "unknown",
    }
}

fn write_udp(lines: &mut Lines<'_, '_>, datagram: &[u8]) -> fmt::Result {
    let error = udp::Header::new_checked(datagram).err();
    if let Some(error @ udp::ParseError::Truncated { .. }) = error {
        return lines.head(format_args!("{error}"));
    }
    let header = udp::Header::new_unchecked(datagram);
    lines.head(format_args!("UDP: {} -> {}", header.src_port(), header.dst_port()))?;
    lines.detail(format_args!("length {}, checksum 0x{:04x}", header.length(), header.checksum()))?;
    match error {
        Some(error @ udp::ParseError::LengthTooSmall { .. }) => lines.detail(format_args!("malformed: {error}")),
        _ => Ok(()),
    }
}

fn write_tcp(lines: &mut Lines<'_, '_>, segment: &[u8]) -> fmt::Result {
    let error = tcp::Header::new_checked(segment).err();
    if let Some(error @ tcp::ParseError::Truncated { .. }) = error {
        return lines.head(format_args!("{error}"));
    }
    let header = tcp::Header::new_unchecked(segment);
    lines.head(format_args!("TCP: {} -> {}", header.src_port(), header.dst_port()))?;
    lines.detail(format_args!("seq. 0x{:08x} ack 0x{:08x}", header.seq(), header.ack()))?;
    lines.detail(format_args!(
        "flags 0x{:02x} {}, tcp header: {} bytes",
        header.flags().0,
        header.flags(),
        header.header_len()
    ))?;
    lines.detail(format_args!("window {}, checksum 0x{:04x}", header.window(), header.checksum()))?;
    match error {
        Some(error @ tcp::ParseError::DataOffsetTooSmall { .. }) => lines.detail(format_args!("malformed: {error}")),
        _ => Ok(()),
    }
}

fn write_icmp(lines: &mut Lines<'_, '_>, message: &[u8]) -> fmt::Result {
    let header = match icmpv4::Header::new_checked(message) {
        Ok(header) => header,
        Err(error) => return lines.head(format_args!("{error}")),
    };
    lines.head(format_args!("ICMP {}", header.kind()))?;
    if let Some(name) = header.kind().code_name(header.code()) {
        write!(lines.out, " {name}")?;
    }
    write!(lines.out, " checksum 0x{:x}", header.checksum())?;
    match header.message() {
        Message::EchoRequest { identifier, sequence } | Message::EchoReply { identifier, sequence } => {
            write!(lines.out, " id {identifier} seq {sequence}")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Ipv4Address;
    use proptest::prelude::*;

    fn ipv4(protocol: Protocol, payload: &[u8]) -> Vec<u8> {
        let repr = ipv4::Repr {
            src: Ipv4Address::new(100, 64, 1, 2),
            dst: Ipv4Address::new(10, 0, 0, 1),
            protocol,
            ttl: 64,
            dscp: 0,
            ecn: 0,
            id: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: payload.len() as u16,
        };
        let mut bytes = vec![0; ipv4::HEADER_LEN];
        repr.emit(&mut bytes);
        bytes.extend(payload);
        bytes
    }

    fn udp_packet() -> Vec<u8> {
        let mut datagram = [0; 30];
        udp::emit(&mut datagram, 1234, 5678, 30);
        udp::Header::new_checked(&mut datagram[..]).unwrap().set_checksum(0x06f6);
        ipv4(Protocol::UDP, &datagram)
    }

    fn ipv4_text(packet: &[u8]) -> String {
        Summary::ipv4(packet).to_string()
    }

    #[test]
    fn ethernet_is_one_line() {
        let mut frame = [0; 60];
        let mac = |last| crate::MacAddress([2, 0, 0, 0, 0, last]);
        ethernet::emit(&mut frame, mac(0x01), mac(0xaa), EtherType::IPV4);
        let text = Summary::ethernet(&frame).indented(4).to_string();
        assert_eq!(text, "    IP4: 02:00:00:00:00:aa -> 02:00:00:00:00:01");
        frame[12..22].copy_from_slice(&[0x88, 0xa8, 0, 10, 0x81, 0, 0xb0, 20, 8, 0]);
        let text = Summary::ethernet(&frame).to_string();
        assert_eq!(text, "IP4: 02:00:00:00:00:aa -> 02:00:00:00:00:01 802.1ad vlan 10 802.1q vlan 20 priority 5 dei");
        let text = Summary::ethernet(&frame[..19]).to_string();
        assert_eq!(text, "VLAN: 02:00:00:00:00:aa -> 02:00:00:00:00:01 802.1ad vlan 10");
        let text = Summary::ethernet(&frame[..9]).to_string();
        assert_eq!(text, "Ethernet header truncated: 9 bytes of 14");
    }

    #[test]
    fn udp_reads_as_in_a_vpp_trace() {
        let text = Summary::ipv4(&udp_packet()).indented(2).to_string();
        let expected = "  UDP: 100.64.1.2 -> 10.0.0.1
    tos 0x00, ttl 64, length 50, checksum 0x0b79 dscp CS0 ecn NON_ECN
    fragment id 0x0000
  UDP: 1234 -> 5678
    length 30, checksum 0x06f6";
        assert_eq!(text, expected);
    }

    #[test]
    fn tcp_reads_as_in_a_vpp_trace() {
        let segment =
            [0x8f, 0xb6, 0x00, 0x50, 0x7b, 0x5c, 0x2a, 0x5f, 0, 0, 0, 1, 0x50, 0x12, 0xfa, 0xf0, 0x12, 0x34, 0, 0];
        let mut packet = ipv4(Protocol::TCP, &segment);
        let mut header = ipv4::Header::new_checked(&mut packet[..]).unwrap();
        header.set_tos(46, 2);
        header.set_id(0xbeef);
        header.set_fragment(true, false, 0);
        header.fill_checksum();
        let expected = "TCP: 100.64.1.2 -> 10.0.0.1
  tos 0xba, ttl 64, length 40, checksum 0x0be4 dscp EF ecn ECT_1
  fragment id 0xbeef, flags DONT_FRAGMENT
TCP: 36790 -> 80
  seq. 0x7b5c2a5f ack 0x00000001
  flags 0x12 SYN ACK, tcp header: 20 bytes
  window 64240, checksum 0x1234";
        assert_eq!(ipv4_text(&packet), expected);
    }

    #[test]
    fn icmp_prints_type_code_and_echo_numbers() {
        let last_line = |message: &[u8]| {
            let text = ipv4_text(&ipv4(Protocol::ICMP, message));
            text.lines().last().unwrap().to_owned()
        };
        assert_eq!(last_line(&[8, 0, 0x73, 0x2c, 0x12, 0x34, 0, 7]), "ICMP echo_request checksum 0x732c id 4660 seq 7");
        assert_eq!(
            last_line(&[11, 0, 0xf4, 0xff, 0, 0, 0, 0]),
            "ICMP time_exceeded ttl_exceeded_in_transit checksum 0xf4ff"
        );
        assert_eq!(last_line(&[8, 0, 0x73]), "ICMP header truncated: 3 bytes of 8");
    }

    #[test]
    fn arp_is_two_lines() {
        let arp = Arp {
            operation: arp::Operation::Request,
            sender_mac: crate::MacAddress([0x50, 0x7c, 0x6f, 0x20, 0x30, 0x70]),
            sender_ip: Ipv4Address::new(192, 168, 1, 1),
            target_mac: crate::MacAddress::ZERO,
            target_ip: Ipv4Address::new(192, 168, 1, 2),
        };
        let mut bytes = [0; arp::LEN];
        arp.emit(&mut bytes);
        let expected = "  request, type ethernet/IP4, address size 6/4
  50:7c:6f:20:30:70/192.168.1.1 -> 00:00:00:00:00:00/192.168.1.2";
        assert_eq!(Summary::arp(&bytes).indented(2).to_string(), expected);
        bytes[4] = 8;
        assert_eq!(Summary::arp(&bytes).to_string(), "malformed: ARP hardware address length 8: Ethernet has 6");
    }

    #[test]
    fn captured_start_of_a_packet_prints_what_is_there() {
        let packet = udp_packet();
        assert_eq!(ipv4_text(&packet[..28]), ipv4_text(&packet));
        assert!(ipv4_text(&packet[..27]).ends_with("\nUDP header truncated: 7 bytes of 8"));
        assert_eq!(ipv4_text(&packet[..19]), "IP header truncated: 19 bytes of 20");
    }

    #[test]
    fn wrong_fields_are_pointed_out() {
        let with = |at: usize, value: u8| {
            let mut packet = udp_packet();
            packet[at] = value;
            ipv4_text(&packet)
        };
        assert!(with(8, 63).contains("checksum 0x0b79 dscp CS0 ecn NON_ECN (should be 0x0c79)"));
        assert!(with(0, 0x44).contains("\n  version 4, header length 16\n"));
        assert!(with(0, 0x44).ends_with("\n  malformed: IP header length of 4 words, expected at least 5"));
        assert!(with(25, 7).ends_with("\n  malformed: UDP length 7, expected at least 8"));
    }

    #[test]
    fn later_fragments_have_no_next_header() {
        let mut packet = udp_packet();
        let mut header = ipv4::Header::new_checked(&mut packet[..]).unwrap();
        header.set_fragment(false, true, 1480);
        header.fill_checksum();
        assert!(ipv4_text(&packet).ends_with("\n  fragment id 0x0000 offset 1480, flags MORE_FRAGMENTS"));
    }

    proptest! {
        #[test]
        fn any_bytes_print(mut bytes in prop::collection::vec(any::<u8>(), 0..100), ip: bool) {
            for layer in [Summary::ethernet, Summary::arp, Summary::ipv4] {
                prop_assert!(!layer(&bytes).to_string().is_empty());
            }
            // Random bytes seldom get past the first checks.
            if ip && bytes.len() > 9 {
                bytes[0] = 0x45 + bytes[0] % 3;
                bytes[2] = 0;
                bytes[6] = 0;
                bytes[7] = 0;
                bytes[9] = [1, 6, 17][usize::from(bytes[9] % 3)];
            }
            prop_assert!(!Summary::ipv4(&bytes).to_string().is_empty());
        }
    }
}
