//! What is where in a frame: its layers, its fields by name, and its checksums with the bytes that they cover.
//!
//! Frames that are built and frames that were captured are read alike. Headers are followed as far as they are known:
//! Ethernet, VLAN tags, MPLS, IPv4 with options, IPv6, its fragment header (of other extension headers none), UDP,
//! TCP, ICMP, and through VXLAN, GRE and IP in IP to what is inside. Of a fragment nothing is known behind its
//! header.

use arrayvec::ArrayVec;
use std::ops::Range;
use wire::checksum;

/// Headers that are followed: what is behind is payload. None has more than one checksum.
pub const MAX_HEADERS: usize = 24;

/// UDP port of VXLAN (RFC 7348, section 4.1).
pub const VXLAN_PORT: u16 = 4789;

/// What a header is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ethernet,
    Vlan,
    Mpls,
    Ipv4,
    Ipv6,
    Fragment,
    /// Without a key; with one behind the first word; with one behind its checksum.
    Gre,
    GreKey,
    GreSumKey,
    Udp,
    Tcp,
    Icmp,
    Icmp6,
    Vxlan,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Ethernet => "ethernet",
            Kind::Vlan => "vlan",
            Kind::Mpls => "mpls",
            Kind::Ipv4 => "ipv4",
            Kind::Ipv6 => "ipv6",
            Kind::Fragment => "fragment",
            Kind::Gre | Kind::GreKey | Kind::GreSumKey => "gre",
            Kind::Udp => "udp",
            Kind::Tcp => "tcp",
            Kind::Icmp => "icmp",
            Kind::Icmp6 => "icmp6",
            Kind::Vxlan => "vxlan",
        }
    }

    /// Its fields that may vary: name, place in the header, bytes of the word that it lies in, bits to its right, and
    /// its bits.
    fn fields(self) -> &'static [(&'static str, usize, usize, u32, u32)] {
        match self {
            Kind::Ethernet => &[("destination", 0, 6, 0, 48), ("source", 6, 6, 0, 48)],
            Kind::Vlan => &[("id", 0, 2, 0, 12), ("pcp", 0, 2, 13, 3)],
            Kind::Mpls => &[("label", 0, 4, 12, 20), ("tc", 0, 4, 9, 3), ("ttl", 0, 4, 0, 8)],
            Kind::Ipv4 => &[
                ("source", 12, 4, 0, 32),
                ("destination", 16, 4, 0, 32),
                ("dscp", 0, 2, 2, 6),
                ("id", 4, 2, 0, 16),
                ("fragment-offset", 6, 2, 0, 13),
                ("ttl", 8, 2, 8, 8),
            ],
            // Of the addresses the lower half.
            Kind::Ipv6 => &[
                ("source", 16, 8, 0, 64),
                ("destination", 32, 8, 0, 64),
                ("flow-label", 0, 4, 0, 20),
                ("dscp", 0, 2, 6, 6),
                ("hop-limit", 6, 2, 0, 8),
            ],
            Kind::Fragment => &[("offset", 2, 2, 3, 13), ("id", 4, 4, 0, 32)],
            Kind::Gre => &[],
            Kind::GreKey => &[("key", 4, 4, 0, 32)],
            Kind::GreSumKey => &[("key", 8, 4, 0, 32)],
            Kind::Udp => &[("source", 0, 2, 0, 16), ("destination", 2, 2, 0, 16)],
            Kind::Tcp => &[
                ("source", 0, 2, 0, 16),
                ("destination", 2, 2, 0, 16),
                ("sequence", 4, 4, 0, 32),
                ("acknowledgement", 8, 4, 0, 32),
                ("window", 14, 2, 0, 16),
            ],
            Kind::Icmp | Kind::Icmp6 => &[("id", 4, 2, 0, 16), ("sequence", 6, 2, 0, 16)],
            Kind::Vxlan => &[("vni", 4, 4, 8, 24)],
        }
    }
}

/// A number in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Where the word starts that it lies in, and its bytes: 1, 2, 4, 6 or 8.
    pub at: usize,
    pub width: usize,
    /// Bits of the word to its right.
    pub shift: u32,
    pub bits: u32,
}

impl Field {
    /// The largest number that fits.
    pub fn largest(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }
    /// Its bits within the word.
    pub fn mask(self) -> u64 {
        self.largest() << self.shift
    }
    pub fn bytes(self) -> Range<usize> {
        self.at..self.at + self.width
    }
}

/// A checksum of the Internet (RFC 1071).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    pub at: usize,
    /// Bytes that it covers, its own among them.
    pub covers: ArrayVec<Range<usize>, 2>,
    /// The part of the pseudo header that is in no header.
    pub besides: u32,
    /// Zero says that there is none (RFC 768).
    pub zero_is_none: bool,
}

/// What is where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// Headers and where they start, the outermost first.
    pub headers: ArrayVec<(Kind, usize), MAX_HEADERS>,
    /// The innermost first.
    pub sums: ArrayVec<Sum, MAX_HEADERS>,
    /// Bytes behind the last header that is known, up to the end of the packet: padding is beyond.
    pub payload: Range<usize>,
}

impl Layout {
    /// Reads a frame.
    pub fn of(frame: &[u8]) -> Layout {
        let mut layout = Layout { payload: 0..frame.len(), ..Layout::default() };
        layout.ethernet(frame, 0, frame.len());
        // An outer checksum covers the inner ones.
        layout.sums.sort_by_key(|sum| std::cmp::Reverse(sum.at));
        layout
    }

    fn begin(&mut self, kind: Kind, at: usize, header: usize, end: usize) -> Option<usize> {
        let payload = at + header;
        if payload > end {
            return None;
        }
        self.headers.try_push((kind, at)).ok()?;
        self.payload = payload..end;
        Some(payload)
    }

    fn ethernet(&mut self, frame: &[u8], at: usize, end: usize) -> Option<()> {
        let mut next = self.begin(Kind::Ethernet, at, 14, end)?;
        loop {
            match half(frame, next - 2)? {
                0x8100 | 0x88a8 | 0x9100 => next = self.begin(Kind::Vlan, next, 4, end)?,
                0x0800 => return self.ipv4(frame, next, end),
                0x86dd => return self.ipv6(frame, next, end),
                0x8847 | 0x8848 => return self.mpls(frame, next, end),
                _ => return None,
            }
        }
    }

    fn mpls(&mut self, frame: &[u8], at: usize, end: usize) -> Option<()> {
        let mut next = self.begin(Kind::Mpls, at, 4, end)?;
        while frame.get(next - 2)? & 1 == 0 {
            next = self.begin(Kind::Mpls, next, 4, end)?;
        }
        match frame.get(next)? >> 4 {
            4 => self.ipv4(frame, next, end),
            6 => self.ipv6(frame, next, end),
            _ => None,
        }
    }

    fn ipv4(&mut self, frame: &[u8], at: usize, end: usize) -> Option<()> {
        let (&first, length) = (frame.get(at)?, usize::from(half(frame, at + 2)?));
        let fragment = half(frame, at + 6)? & 0x3fff;
        let header = usize::from(first & 0xf) * 4;
        if first >> 4 != 4 || header < 20 || length < header || at + length > end {
            return None;
        }
        let end = at + length;
        let next = self.begin(Kind::Ipv4, at, header, end)?;
        self.sums.push(Sum::of(at + 10, at..at + header));
        let protocol = *frame.get(at + 9)?;
        if fragment != 0 {
            return None;
        }
        self.transport(frame, next, end, protocol, at + 12..at + 20)
    }

    fn ipv6(&mut self, frame: &[u8], at: usize, end: usize) -> Option<()> {
        let length = 40 + usize::from(half(frame, at + 4)?);
        if at + length > end {
            return None;
        }
        let end = at + length;
        let next = self.begin(Kind::Ipv6, at, 40, end)?;
        self.transport(frame, next, end, *frame.get(at + 6)?, at + 8..at + 40)
    }

    fn transport(&mut self, frame: &[u8], at: usize, end: usize, protocol: u8, addresses: Range<usize>) -> Option<()> {
        let is_v6 = addresses.len() == 32;
        if protocol == 44 && is_v6 {
            let next = self.begin(Kind::Fragment, at, 8, end)?;
            // One that is whole (RFC 6946) goes on.
            let is_whole = half(frame, at + 2)? & 0xfff9 == 0;
            return if is_whole { self.transport(frame, next, end, *frame.get(at)?, addresses) } else { None };
        }
        let besides = u32::from(protocol) + (end - at) as u32;
        let pseudo = |sum: usize, zero_is_none| Sum {
            at: at + sum,
            covers: ArrayVec::from([addresses, at..end]),
            besides,
            zero_is_none,
        };
        match protocol {
            17 => {
                let next = self.begin(Kind::Udp, at, 8, end)?;
                if usize::from(half(frame, at + 4)?) != end - at {
                    return None;
                }
                // One that is absent stays so.
                if half(frame, at + 6)? != 0 || is_v6 {
                    self.sums.push(pseudo(6, true));
                }
                if half(frame, at + 2)? == VXLAN_PORT {
                    let inner = self.begin(Kind::Vxlan, next, 8, end)?;
                    return self.ethernet(frame, inner, end);
                }
                Some(())
            }
            6 => {
                let header = usize::from(frame.get(at + 12)? >> 4) * 4;
                self.begin(Kind::Tcp, at, header.max(20), end)?;
                self.sums.push(pseudo(16, false));
                Some(())
            }
            1 if !is_v6 => {
                self.begin(Kind::Icmp, at, 8, end)?;
                self.sums.push(Sum::of(at + 2, at..end));
                Some(())
            }
            4 => self.ipv4(frame, at, end),
            41 => self.ipv6(frame, at, end),
            47 => self.gre(frame, at, end),
            58 if is_v6 => {
                self.begin(Kind::Icmp6, at, 8, end)?;
                self.sums.push(pseudo(2, false));
                Some(())
            }
            _ => None,
        }
    }

    /// GRE (RFC 2784, RFC 2890).
    fn gre(&mut self, frame: &[u8], at: usize, end: usize) -> Option<()> {
        let flags = half(frame, at)?;
        let [has_sum, has_key, has_sequence] = [0x8000, 0x2000, 0x1000].map(|bit| flags & bit != 0);
        // Version 0; routing (RFC 1701) is no more.
        if flags & 0x4007 != 0 {
            return None;
        }
        let kind = match (has_key, has_sum) {
            (false, _) => Kind::Gre,
            (true, false) => Kind::GreKey,
            (true, true) => Kind::GreSumKey,
        };
        let words = 1 + usize::from(has_sum) + usize::from(has_key) + usize::from(has_sequence);
        let next = self.begin(kind, at, 4 * words, end)?;
        if has_sum {
            self.sums.push(Sum::of(at + 4, at..end));
        }
        match half(frame, at + 2)? {
            0x0800 => self.ipv4(frame, next, end),
            0x86dd => self.ipv6(frame, next, end),
            0x8847 | 0x8848 => self.mpls(frame, next, end),
            // Transparent Ethernet bridging (RFC 1701, section 2).
            0x6558 => self.ethernet(frame, next, end),
            _ => None,
        }
    }

    /// A field by its name: `ipv4.source`, or `ipv4[1].source` of the second header of that kind.
    ///
    /// # Errors
    /// What there is instead.
    pub fn field(&self, name: &str) -> Result<Field, String> {
        let (layer, attribute) = name.split_once('.').ok_or_else(|| self.no_such(name))?;
        let (layer, index) = match layer.strip_suffix(']').and_then(|layer| layer.split_once('[')) {
            Some((layer, index)) => (layer, index.parse::<usize>().map_err(|_| self.no_such(name))?),
            None => (layer, 0),
        };
        let header = self.headers.iter().filter(|(kind, _)| kind.name() == layer).nth(index);
        let &(kind, start) = header.ok_or_else(|| self.no_such(name))?;
        let field = kind.fields().iter().find(|(field, ..)| *field == attribute);
        let &(_, at, width, shift, bits) = field.ok_or_else(|| {
            let names: Vec<_> = kind.fields().iter().map(|(name, ..)| *name).collect();
            match names.is_empty() {
                true => format!("this {layer} has no field that can vary"),
                false => format!("{layer} has no field '{attribute}' that can vary: there are {}", names.join(", ")),
            }
        })?;
        Ok(Field { at: start + at, width, shift, bits })
    }

    fn no_such(&self, name: &str) -> String {
        let names: Vec<_> = self.headers.iter().map(|(kind, _)| kind.name()).collect();
        format!("there is no '{name}': the packet has {} (write 'layer.field', as in 'ipv4.source')", names.join(", "))
    }

    /// The first header of a kind.
    pub fn find(&self, wanted: &[Kind]) -> Option<(Kind, usize)> {
        self.headers.iter().copied().find(|(kind, _)| wanted.contains(kind))
    }
}

fn half(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().expect("two bytes")))
}

impl Sum {
    /// One over these bytes alone.
    pub fn of(at: usize, bytes: Range<usize>) -> Sum {
        Sum { at, covers: ArrayVec::from_iter([bytes]), besides: 0, zero_is_none: false }
    }

    /// What it sums up to now, its own bytes left out.
    pub fn base(&self, frame: &[u8]) -> u32 {
        let covered = self.covers.iter().fold(self.besides, |sum, range| {
            // Each range starts a word of its own: all start at even places of their headers.
            fold(sum) + fold(checksum::sum(&frame[range.clone()], 0))
        });
        let own = u32::from(half(frame, self.at).expect("it covers itself"));
        fold(fold(covered) + (0xffff - own))
    }

    /// Where bytes count in it; none: it does not cover all of them. True: they start at odd places.
    pub fn covers(&self, bytes: &Range<usize>) -> Option<bool> {
        let range = self.covers.iter().find(|range| range.start <= bytes.start && bytes.end <= range.end)?;
        Some((bytes.start - range.start) % 2 == 1)
    }

    /// Whether it covers any of the bytes.
    pub fn touches(&self, bytes: &Range<usize>) -> bool {
        self.covers.iter().any(|range| range.start < bytes.end && bytes.start < range.end)
    }

    /// What stands in its place when all that it covers sums up to `sum`.
    #[inline(always)]
    pub fn finish(sum: u32, zero_is_none: bool) -> u16 {
        let value = !(fold(sum) as u16);
        if zero_is_none && value == 0 { 0xffff } else { value }
    }

    /// Has it right.
    pub fn mend(&self, frame: &mut [u8]) {
        let value = Sum::finish(self.base(frame), self.zero_is_none);
        frame[self.at..self.at + 2].copy_from_slice(&value.to_be_bytes());
    }
}

/// A sum in one's complement to 16 bits.
#[inline(always)]
pub fn fold(sum: u32) -> u32 {
    let sum = (sum >> 16) + (sum & 0xffff);
    (sum >> 16) + (sum & 0xffff)
}
