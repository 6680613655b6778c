//! What a stream's packets look like: VPP's `data { ... }` notation.
//!
//! ```text
//! IP4: 02:00:00:00:00:aa -> 02:00:00:00:00:01     Ethernet: ethertype, source, destination
//!   vlan 100 dot1ad 10 vlan 20                      its VLAN tags, the outer one first (802.1Q, 802.1ad)
//! MPLS: label 16 exp 0 ttl 64                      behind 'MPLS:', a label; then MPLS:, IP4:, IP6: or ANY:
//! UDP: 10.0.0.1 - 10.0.0.9 -> 16.0.0.0 + 16.0.0.255   IPv4: protocol, source, destination
//!   ttl 64                                          options of the layer
//! UDP: 2001:db8::1 -> 2001:db8:1:: + 2001:db8:1::ff   IPv6, behind 'IP6:'; ranges are of the lower 64 bits
//!   hop-limit 64 flow-label 7 tos 0                 options of the layer
//! UDP: 1234 -> 5678                               ports
//! incrementing 30                                 payload: bytes 0, 1, 2 ...
//! hex 0xdeadbeef                                  payload as given
//! ```
//!
//! A value may be a range: `low - high` counts up, packet by packet, and starts over;
//! `low + high` is drawn at random. Lengths and checksums are filled in.

mod notation;

use crate::pg::MAX_SIZE;
use std::sync::Arc;
use wire::checksum;

/// The header that a notation begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    Ethernet,
    /// An entry of a label stack.
    Label,
    Ip4,
    Ip6,
}

impl First {
    pub const ALL: [First; 4] = [First::Ethernet, First::Label, First::Ip4, First::Ip6];
}

/// How a field changes from packet to packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vary {
    Increment,
    Random,
}

/// A field of the packet with a range of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// First byte and number of bytes (at most 8) of the big-endian field.
    offset: usize,
    bytes: usize,
    low: u64,
    high: u64,
    /// From one value to the next.
    step: u64,
    vary: Vary,
    next: u64,
}

/// A packet and how the next ones differ from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// All bytes of the longest packet.
    bytes: Vec<u8>,
    edits: Vec<Edit>,
    sizes: Edit,
    /// Where the IPv4 header and the UDP or ICMP header start, to fill in lengths and
    /// checksums.
    ip4: Option<usize>,
    ip6: Option<usize>,
    /// Where the label stack starts.
    mpls: Option<usize>,
    udp: Option<usize>,
    icmp: Option<usize>,
    tcp: Option<usize>,
    random: u64,
    /// Destinations that packets have in turn, and which is next.
    destinations: (Destinations, usize),
    /// Sizes that packets have in turn in place of those of the range, and which is next.
    in_turn: Option<InTurn>,
    /// Nothing varies: the bytes can be copied as they are.
    constant: bool,
}

/// Sizes that follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InTurn {
    sizes: Vec<u16>,
    next: usize,
}

/// Addresses in host order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destinations {
    V4(Arc<[u32]>),
    V6(Arc<[u128]>),
    /// Top entries of label stacks.
    Labels(Arc<[u32]>),
}

impl Destinations {
    fn len(&self) -> usize {
        match self {
            Destinations::V4(all) | Destinations::Labels(all) => all.len(),
            Destinations::V6(all) => all.len(),
        }
    }
}

impl From<Arc<[u32]>> for Destinations {
    fn from(all: Arc<[u32]>) -> Destinations {
        Destinations::V4(all)
    }
}

impl From<Arc<[u128]>> for Destinations {
    fn from(all: Arc<[u128]>) -> Destinations {
        Destinations::V6(all)
    }
}

impl Template {
    /// Reads the notation above. `sizes` is the range of packet sizes in bytes from the
    /// first header on, if given; `first` says which header that is.
    ///
    /// # Errors
    /// What was wrong, at which word.
    pub fn parse(text: &str, sizes: Option<(u64, u64, Vary)>, first: First) -> Result<Template, String> {
        notation::read(text, first)?.sized(sizes)
    }

    fn empty() -> Template {
        let sizes = Edit { offset: 0, bytes: 0, low: 0, high: 0, step: 1, vary: Vary::Increment, next: 0 };
        Template {
            bytes: vec![],
            edits: vec![],
            sizes,
            ip4: None,
            ip6: None,
            mpls: None,
            udp: None,
            icmp: None,
            tcp: None,
            random: SEED,
            destinations: (Destinations::V4(Arc::default()), 0),
            in_turn: None,
            constant: false,
        }
    }

    /// Gives packets these destinations in turn, again and again, instead of what the notation says.
    pub fn to_each_of(mut self, destinations: impl Into<Destinations>) -> Template {
        let destinations = destinations.into();
        self.constant &= destinations.len() == 0;
        self.destinations = (destinations, 0);
        self
    }

    /// Gives packets these sizes in turn, again and again.
    ///
    /// # Panics
    /// When one is longer than the template's packet.
    pub fn of_sizes(mut self, sizes: Vec<u16>) -> Template {
        assert!(sizes.iter().all(|size| usize::from(*size) <= self.bytes.len()), "a template has all bytes");
        self.constant &= sizes.is_empty();
        self.in_turn = (!sizes.is_empty()).then_some(InTurn { sizes, next: 0 });
        self
    }

    fn sized(mut self, sizes: Option<(u64, u64, Vary)>) -> Result<Template, String> {
        let headers = self.bytes.len() as u64;
        let (low, high, vary) = sizes.unwrap_or((headers, headers, Vary::Increment));
        if low > high || high > MAX_SIZE as u64 || low == 0 {
            return Err(format!("size {low}-{high}: must be 1 to {MAX_SIZE}, the smaller first"));
        }
        // A smaller size cuts the packet off, a larger one goes on counting up.
        for i in self.bytes.len()..high as usize {
            self.bytes.push(i as u8);
        }
        self.bytes.truncate(high as usize);
        let reach = self.edits.iter().map(|edit| edit.offset + edit.bytes).max().unwrap_or(0);
        if (reach as u64) > low {
            return Err(format!("size {low}: the varying fields reach to byte {reach}"));
        }
        self.sizes = Edit { offset: 0, bytes: 0, low, high, step: 1, vary, next: low };
        self.constant = self.edits.is_empty() && low == high;
        self.finish(high as usize);
        Ok(self)
    }

    /// Writes the next packet into `out` and gives its length.
    #[inline]
    pub fn write_next(&mut self, out: &mut [u8]) -> u16 {
        if !self.constant {
            self.step();
        }
        let size = if self.constant { self.bytes.len() } else { self.sizes.current() };
        out[..size].copy_from_slice(&self.bytes[..size]);
        size as u16
    }

    /// Makes `bytes` the next packet.
    fn step(&mut self) {
        for edit in &mut self.edits {
            let value = edit.advance(&mut self.random).to_be_bytes();
            self.bytes[edit.offset..edit.offset + edit.bytes].copy_from_slice(&value[8 - edit.bytes..]);
        }
        let (destinations, next) = &mut self.destinations;
        match (&*destinations, self.ip4, self.ip6) {
            (Destinations::V4(all), Some(ip4), _) if !all.is_empty() => {
                self.bytes[ip4 + 16..ip4 + 20].copy_from_slice(&all[*next].to_be_bytes());
            }
            (Destinations::V6(all), _, Some(ip6)) if !all.is_empty() => {
                self.bytes[ip6 + 24..ip6 + 40].copy_from_slice(&all[*next].to_be_bytes());
            }
            (Destinations::Labels(all), ..) if !all.is_empty() => {
                if let Some(at) = self.mpls {
                    self.bytes[at..at + 4].copy_from_slice(&all[*next].to_be_bytes());
                }
            }
            _ => {}
        }
        *next = if *next + 1 < destinations.len() { *next + 1 } else { 0 };
        self.sizes.advance(&mut self.random);
        if let Some(InTurn { sizes, next }) = &mut self.in_turn {
            self.sizes.offset = usize::from(sizes[*next]);
            *next = (*next + 1) % sizes.len();
        }
        let size = self.sizes.current();
        self.finish(size);
    }

    /// Lengths and checksums of a packet of `size` bytes.
    fn finish(&mut self, size: usize) {
        let bytes = &mut self.bytes[..size];
        // What the sums of what follows begin with: addresses and protocol.
        let pseudo = if let Some(ip4) = self.ip4.filter(|ip4| ip4 + 20 <= size) {
            bytes[ip4 + 2..ip4 + 4].copy_from_slice(&((size - ip4) as u16).to_be_bytes());
            bytes[ip4 + 10..ip4 + 12].fill(0);
            let sum = checksum::checksum(&bytes[ip4..ip4 + 20]);
            bytes[ip4 + 10..ip4 + 12].copy_from_slice(&sum.to_be_bytes());
            checksum::sum(&bytes[ip4 + 12..ip4 + 20], bytes[ip4 + 9].into())
        } else if let Some(ip6) = self.ip6.filter(|ip6| ip6 + 40 <= size) {
            bytes[ip6 + 4..ip6 + 6].copy_from_slice(&((size - ip6 - 40) as u16).to_be_bytes());
            checksum::sum(&bytes[ip6 + 8..ip6 + 40], bytes[ip6 + 6].into())
        } else {
            return;
        };
        if let Some(udp) = self.udp.filter(|udp| udp + 8 <= size) {
            bytes[udp + 4..udp + 6].copy_from_slice(&((size - udp) as u16).to_be_bytes());
            fill_checksum(bytes, udp, 6, pseudo + (size - udp) as u32);
            if bytes[udp + 6..udp + 8] == [0, 0] {
                bytes[udp + 6..udp + 8].fill(0xff); // 0 means "no checksum" (RFC 768)
            }
        }
        if let Some(tcp) = self.tcp.filter(|tcp| tcp + 20 <= size) {
            fill_checksum(bytes, tcp, 16, pseudo + (size - tcp) as u32);
        }
        if let Some(icmp) = self.icmp.filter(|icmp| icmp + 8 <= size) {
            // That of ICMPv6 is over the addresses, too (RFC 4443 2.3).
            let initial = if self.ip6.is_some() { pseudo + (size - icmp) as u32 } else { 0 };
            fill_checksum(bytes, icmp, 2, initial);
        }
    }
}

/// Fills in the checksum at `start + field` over everything from `start` on.
fn fill_checksum(bytes: &mut [u8], start: usize, field: usize, initial: u32) {
    let at = start + field;
    bytes[at..at + 2].fill(0);
    let sum = !checksum::fold(checksum::sum(&bytes[start..], initial));
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Where random fields start: runs repeat.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

impl Edit {
    /// The next value.
    fn advance(&mut self, random: &mut u64) -> u64 {
        let value = match self.vary {
            Vary::Increment => {
                let value = self.next;
                self.next = if value == self.high { self.low } else { value + self.step };
                value
            }
            Vary::Random => {
                // xorshift64 (Marsaglia 2003), scaled to the range by multiplication.
                *random ^= *random << 13;
                *random ^= *random >> 7;
                *random ^= *random << 17;
                let span = u128::from((self.high - self.low) / self.step) + 1;
                self.low + ((u128::from(*random) * span) >> 64) as u64 * self.step
            }
        };
        if self.bytes == 0 {
            self.offset = value as usize;
        }
        value
    }

    /// Of the sizes' edit: the size drawn last.
    fn current(&self) -> usize {
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UDP: &str =
        "IP4: 02:00:00:00:00:aa -> 02:00:00:00:00:01 UDP: 100.64.1.2 -> 10.0.0.1 UDP: 1234 -> 5678 incrementing 22";

    fn next(template: &mut Template) -> Vec<u8> {
        let mut out = [0; MAX_SIZE];
        let length = template.write_next(&mut out);
        out[..length as usize].to_vec()
    }

    #[test]
    fn a_packet_is_made_as_written() {
        let packet = next(&mut Template::parse(UDP, None, First::Ethernet).unwrap());
        assert_eq!(packet.len(), 64);
        assert_eq!(packet[..14], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0xaa, 8, 0]);
        let ip = wire::ipv4::Header::new_checked(&packet[14..]).unwrap();
        assert!(ip.verify_checksum());
        assert_eq!((ip.ttl(), ip.total_len()), (64, 50));
        let udp = wire::udp::Header::new_checked(ip.payload()).unwrap();
        assert_eq!((udp.src_port(), udp.dst_port(), udp.length()), (1234, 5678, 30));
        assert!(udp.verify_checksum(checksum::pseudo_header4(ip.src(), ip.dst(), 17, 30)));
        assert_eq!(udp.payload()[..4], [0, 1, 2, 3]);
    }

    #[test]
    fn labels_stand_before_what_they_carry() {
        let link = "MPLS: 02:00:00:00:00:aa -> 02:00:00:00:00:01";
        let text = format!("{link} MPLS: label 16 - 17 exp 5 ttl 9 IP4: label 1048575 UDP: 10.0.0.1 -> 10.0.0.2");
        let mut template = Template::parse(&text, None, First::Ethernet).unwrap();
        for label in [0x10, 0x11, 0x10] {
            let packet = next(&mut template);
            assert_eq!(packet[12..22], [0x88, 0x47, 0, label >> 4, (label & 0xf) << 4 | 0xa, 9, 0xff, 0xff, 0xf1, 64]);
            assert!(wire::ipv4::Header::new_checked(&packet[22..]).unwrap().verify_checksum());
        }
        let random = format!("{link} ANY: label 100 + 200 exp 7 hex 0x1234");
        let mut template = Template::parse(&random, None, First::Ethernet).unwrap();
        let labels: std::collections::BTreeSet<u32> = (0..2000)
            .map(|_| {
                let packet = next(&mut template);
                let entry = wire::mpls::StackEntry::from_bytes(*packet[14..].first_chunk().unwrap());
                assert_eq!((entry.traffic_class(), entry.is_bottom(), &packet[18..]), (7, true, &[0x12, 0x34][..]));
                entry.label()
            })
            .collect();
        assert!(labels.iter().copied().eq(100..=200));
        let given =
            Template::parse(&format!("{link} IP4: label 16 UDP: 10.0.0.1 -> 10.0.0.2"), None, First::Ethernet).unwrap();
        let mut given = given.to_each_of(Destinations::Labels([7, 0x0123_4567].into()));
        assert_eq!(next(&mut given)[14..18], [0, 0, 0, 7]);
        assert_eq!(next(&mut given)[14..18], [1, 0x23, 0x45, 0x67]);
        for wrong in ["label 1048576", "label 9 - 1048576", "label 16 exp 8", "16", "label"] {
            Template::parse(&format!("{link} IP4: {wrong} UDP: 1.1.1.1 -> 1.1.1.2"), None, First::Ethernet)
                .unwrap_err();
        }
    }

    #[test]
    fn vlan_tags_stand_before_the_ethertype() {
        let text = UDP.replace(" UDP: 100", " dot1ad 45066 vlan 20 - 21 UDP: 100");
        let mut template = Template::parse(&text, None, First::Ethernet).unwrap();
        let packet = next(&mut template);
        assert_eq!(packet[12..24], [0x88, 0xa8, 0xb0, 0x0a, 0x81, 0, 0, 20, 8, 0, 0x45, 0]);
        assert!(wire::ipv4::Header::new_checked(&packet[22..]).unwrap().verify_checksum());
        assert_eq!((packet.len(), next(&mut template)[18..20].to_vec()), (72, vec![0, 21]));
        let refusal =
            Template::parse(&UDP.replace(" UDP: 100", " vlan x UDP: 100"), None, First::Ethernet).unwrap_err();
        assert!(refusal.contains("a VLAN"), "{refusal}");
    }

    #[test]
    fn fields_count_up_and_start_over() {
        let text = UDP.replace("10.0.0.1", "10.0.0.1 - 10.0.0.3");
        let mut template = Template::parse(&text, None, First::Ethernet).unwrap();
        let last: Vec<u8> = (0..7).map(|_| next(&mut template)[33]).collect();
        assert_eq!(last, [1, 2, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn random_fields_stay_in_their_range_and_reach_all_of_it() {
        let text = UDP.replace("10.0.0.1", "10.0.0.16 + 10.0.0.31");
        let mut template = Template::parse(&text, None, First::Ethernet).unwrap();
        let seen: std::collections::BTreeSet<u8> = (0..1000).map(|_| next(&mut template)[33]).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), (16..=31).collect::<Vec<_>>());
    }

    #[test]
    fn sizes_vary_and_lengths_follow() {
        let mut template = Template::parse(UDP, Some((60, 62, Vary::Increment)), First::Ethernet).unwrap();
        for expected in [60, 61, 62, 60] {
            let packet = next(&mut template);
            assert_eq!(packet.len(), expected);
            let ip = wire::ipv4::Header::new_checked(&packet[14..]).unwrap();
            assert!(ip.verify_checksum());
            assert_eq!(ip.total_len() as usize, expected - 14);
        }
    }

    #[test]
    fn ip6_packets_are_made_as_written() {
        let text = "IP6: 02:00:00:00:00:aa -> 02:00:00:00:00:01 UDP: 2001:db8::1 -> 2001:db8:1::1 - 2001:db8:1::2 \
                    hop-limit 9 flow-label 74565 tos 33 UDP: 1234 -> 5678 incrementing 6";
        let mut template = Template::parse(text, None, First::Ethernet).unwrap();
        for last in [1, 2, 1] {
            let packet = next(&mut template);
            assert_eq!((packet.len(), &packet[12..14]), (68, &[0x86, 0xdd][..]));
            let ip = wire::ipv6::Header::new_checked(&packet[14..]).unwrap();
            assert_eq!((ip.hop_limit(), ip.flow_label(), ip.traffic_class(), ip.payload_len()), (9, 0x12345, 33, 14));
            assert_eq!(ip.dst().segments()[7], last);
            let udp = wire::udp::Header::new_checked(ip.payload()).unwrap();
            assert!(udp.verify_checksum(checksum::pseudo_header6(ip.src(), ip.dst(), 17, 14)));
        }
        let echo = "IP6: 02:00:00:00:00:aa -> 02:00:00:00:00:01 ICMP6: 2001:db8::1 -> 2001:db8::2 echo_request";
        let packet = next(&mut Template::parse(echo, None, First::Ethernet).unwrap());
        let ip = wire::ipv6::Header::new_checked(&packet[14..]).unwrap();
        let message = wire::icmpv6::Header::new_checked(ip.payload()).unwrap();
        assert!(message.verify_checksum(ip.src(), ip.dst()));
        let all: std::sync::Arc<[u128]> = [5, 6].into();
        let mut template = Template::parse(text, None, First::Ethernet).unwrap().to_each_of(all);
        let lasts: Vec<u8> = (0..3).map(|_| next(&mut template)[53]).collect();
        assert_eq!(lasts, [5, 6, 5]);
        let wide = text.replace("2001:db8:1::2", "2001:db8:2::2");
        assert!(Template::parse(&wide, None, First::Ethernet).unwrap_err().contains("lower 64 bits"));
        // Bytes from the header on are taken as they are.
        let raw = "IP6: 02:00:00:00:00:aa -> 02:00:00:00:00:01 hex 0x6000";
        assert_eq!(next(&mut Template::parse(raw, None, First::Ethernet).unwrap())[14..], [0x60, 0]);
    }

    #[test]
    fn sizes_come_in_turn_each_with_its_lengths_and_checksum() {
        let text = "IP6: 02:00:00:00:00:aa -> 02:00:00:00:00:01 UDP: 2001:db8::1 -> 2001:db8::9 UDP: 1 -> 2";
        let template = Template::parse(text, Some((566, 566, Vary::Increment)), First::Ethernet).unwrap();
        let mut template = template.of_sizes(vec![66, 566, 70]);
        for size in [66, 566, 70, 66] {
            let packet = next(&mut template);
            assert_eq!(packet.len(), size);
            assert_eq!(packet[18..20], (size as u16 - 54).to_be_bytes());
            let pseudo = checksum::sum(&packet[22..54], 17 + (size - 54) as u32);
            assert_eq!(checksum::fold(checksum::sum(&packet[54..], pseudo)), 0xffff, "{size}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            ("", "an ethertype"),
            ("IP4: x -> y", "not a MAC address"),
            ("IP4: 02:00:00:00:00:aa 02:00:00:00:00:01", "'->' expected"),
            ("IP4: 02:00:00:00:00:aa -> 02:00:00:00:00:01 FOO: 1.1.1.1 -> 2.2.2.2", "unknown protocol"),
            ("IP4: 02:00:00:00:00:aa -> 02:00:00:00:00:01 UDP: 1.1.1.9 - 1.1.1.1 -> 2.2.2.2", "lower end first"),
            ("ARP: 02:00:00:00:00:aa -> 02:00:00:00:00:01 hex 0xabc", "not hexadecimal"),
            ("ARP: 02:00:00:00:00:aa -> 02:00:00:00:00:01 incrementing 99999", "more than"),
            ("ARP: 02:00:00:00:00:aa -> 02:00:00:00:00:01 nonsense", "unexpected 'nonsense'"),
        ];
        for (text, expected) in cases {
            let error = Template::parse(text, None, First::Ethernet).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_packet_without_a_link_header_begins_with_any_of_its_headers() {
        let starts = [
            (First::Label, "IP6: label 16 UDP: 2001:db8::1 -> 2001:db8::2 UDP: 1 -> 2", [0, 1, 1, 64, 0x60]),
            (First::Ip4, "UDP: 10.0.0.1 -> 10.0.0.2 UDP: 1 -> 2", [0x45, 0, 0, 28, 0]),
            (First::Ip6, "UDP: 2001:db8::1 -> 2001:db8::2 UDP: 1 -> 2", [0x60, 0, 0, 0, 0]),
        ];
        for (first, text, bytes) in starts {
            assert_eq!(next(&mut Template::parse(text, None, first).unwrap())[..5], bytes, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn any_text_gives_a_template_or_an_error(
            words in proptest::collection::vec(proptest::sample::select(vec![
                "IP4:", "IP6:", "MPLS:", "label", "::1", "hop-limit", "flow-label", "ICMP6:", "ARP:", "UDP:", "TCP:",
                "ICMP:", "echo_request", "1.2.3.4", "02:00:00:00:00:aa", "->", "-", "+",
                "ttl", "incrementing", "hex", "0x00", "70000", "3", "é",
            ]), 0..24),
            low in 0u64..3000, high in 0u64..3000, random in any::<bool>(),
            first in proptest::sample::select(&First::ALL[..]),
        ) {
            let vary = if random { Vary::Random } else { Vary::Increment };
            if let Ok(mut template) = Template::parse(&words.join(" "), Some((low, high, vary)), first) {
                for _ in 0..3 { next(&mut template); }
            }
        }
    }
}
