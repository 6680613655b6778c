//! The kernels in portable code: what they mean, and the twin that SIMD is held to.

use super::{Alike, EthernetColumns, Frames, Shape, check};
use crate::addr::MacAddress;
use crate::ethernet::EtherType;
use crate::vlan::VID_MASK;

/// How far ahead packet heads are fetched.
pub(super) const AHEAD: usize = 16;

/// Whose frames are looked at.
#[derive(Clone, Copy)]
pub(super) struct Station {
    address: MacAddress,
    /// The address as it stands in the upper six bytes of a word, read little-endian.
    word: u64,
}

impl Station {
    #[inline(always)]
    pub(super) fn new(address: MacAddress) -> Station {
        let [a, b, c, d, e, f] = address.0;
        Station { address, word: u64::from_le_bytes([0, 0, a, b, c, d, e, f]) }
    }

    /// Whether a frame is addressed to it.
    #[inline(always)]
    pub(super) fn is(self, head: &[u8; 64]) -> bool {
        u64::from_le_bytes(head[..8].try_into().expect("8 bytes")) << 16 == self.word
    }
}

/// See [`super::ethernet_ip4`]; starts at packet `from`, for the tail of SIMD kernels. `tags`
/// says how many bytes of VLAN tags a frame has.
#[inline(always)]
pub(super) fn ethernet_ip4(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: &mut EthernetColumns<'_>,
    from: usize,
    tags: impl Fn(usize) -> usize,
) -> u32 {
    let station = Station::new(station);
    // In variables of its own, so that stores into one column do not have the others' places looked up again.
    let mut columns =
        EthernetColumns { flags: &mut *columns.flags, length: &mut *columns.length, target: &mut *columns.target };
    (from..frames.len()).fold(0, |union, i| {
        frames.prefetch(i + AHEAD);
        union | one(frames, i, station, &mut columns, tags(i))
    })
}

/// One packet with so many bytes of VLAN tags; gives the bits of its faults.
#[inline(always)]
fn one(frames: &Frames<'_>, i: usize, station: Station, columns: &mut EthernetColumns<'_>, tags: usize) -> u32 {
    let (head, length) = (frames.bytes(i), u32::from(columns.length[i]));
    // With offsets known beforehand nothing has to be checked against the head's end.
    let (bits, total_length, target) = match tags {
        0 => judge::<0>(head, length, station),
        4 => judge::<4>(head, length, station),
        _ => judge::<8>(head, length, station),
    };
    columns.target[i] = target;
    if bits & NOT_TRIMMED == 0 && columns.flags[i] & check::CHAINED == 0 {
        columns.length[i] = total_length + 14 + tags as u16;
    }
    let examined = if bits & (check::NOT_IP4 | check::SHORT) == 0 { check::EXAMINED } else { 0 };
    columns.flags[i] |= bits | examined;
    bits
}

/// See [`super::alike_ip4`]; starts at packet `from`.
#[inline]
pub(super) fn alike_ip4(
    frames: &Frames<'_>,
    station: MacAddress,
    mut columns: EthernetColumns<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
    from: usize,
) -> Alike {
    let station = Station::new(station);
    while_alike(tags, first.1, from, |i| {
        let (other, own) = shape(frames.bytes(i), columns.length[i]);
        (other == first.0).then(|| (one(frames, i, station, &mut columns, other.tags()), own))
    })
}

/// Looks at frames from one on, as long as they are alike: `look` gives the faults of such a one and the control
/// information of its tags.
#[inline(always)]
pub(super) fn while_alike(
    tags: &mut [u32],
    first: u32,
    from: usize,
    mut look: impl FnMut(usize) -> Option<(u32, u32)>,
) -> Alike {
    let mut alike = Alike { done: from, faults: 0, one_vlan: true };
    for (i, tags) in tags.iter_mut().enumerate().skip(from) {
        let Some((faults, own)) = look(i) else { break };
        alike.faults |= faults;
        alike.one_vlan &= (own ^ first) & VIDS == 0;
        *tags = own;
        alike.done = i + 1;
    }
    alike
}

/// The identifiers in the control information of two tags.
const VIDS: u32 = (VID_MASK as u32) << 16 | VID_MASK as u32;

/// With any of these the total length says nothing about the frame, or not yet: it may be less
/// than a header that has options.
pub(super) const NOT_TRIMMED: u32 =
    check::NOT_IP4 | check::SHORT | check::VERSION | check::HEADER_LENGTH | check::TOTAL_LENGTH;

/// The faults of a frame with so many bytes of VLAN tags, its IPv4 packet's total length and destination.
#[inline(always)]
pub(super) fn judge<const TAGS: usize>(head: &[u8; 64], length: u32, station: Station) -> (u32, u16, u32) {
    match plain::<TAGS>(head, length, station.word) {
        Some(found) => found,
        None => in_full::<TAGS>(head, length, station.address),
    }
}

/// What [`in_full`] says of a frame in whose header nothing is wrong or remarkable but, perhaps, its addresses; in few
/// steps, for most are so.
#[inline(always)]
fn plain<const TAGS: usize>(head: &[u8; 64], length: u32, station: u64) -> Option<(u32, u16, u32)> {
    let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"));
    let dword = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes"));
    let (first, second, target) = (long(14 + TAGS), long(22 + TAGS), dword(30 + TAGS));
    // In what the frame differs from one that is for us, is IPv4 (EtherType, version and header length), and is whole:
    // flags and offset are the upper bytes, swapped, so that 0x3fff reads 0xff3f.
    let differs =
        (long(0) << 16 ^ station) | u64::from((dword(12 + TAGS) ^ 0x45_0008) & 0xff_ffff) | (first >> 48 & 0xff3f);
    // RFC 1071 section 2: the sum of larger words is as good. A sum with end-around carry is sound when 0xffff divides
    // it; that of a header that begins with 0x45 is not 0.
    let (sum, carry) = first.overflowing_add(second);
    let (sum, again) = sum.overflowing_add(u64::from(target) + u64::from(carry));
    let (sum, _) = sum.overflowing_add(u64::from(again));
    let is_sound = sum.wrapping_mul(INVERSE_OF_0XFFFF) <= u64::MAX / 0xffff;
    let total_length = ((first >> 16) as u16).swap_bytes();
    // Below the header's 20, or beyond the frame: one comparison, unless the frame is too short for any.
    let room = length.saturating_sub(34 + TAGS as u32);
    let is_there = (u32::from(total_length).wrapping_sub(20) <= room) & (length >= 34 + TAGS as u32);
    if !((differs == 0) & is_sound & is_there & (second as u8 > 1)) {
        return None;
    }
    let (source, destination) = ((second >> 32) as u8, target as u8);
    let bits = (no_host(source) * check::MARTIAN_SOURCE) | (no_host(destination) * check::SPECIAL_DESTINATION);
    Some((bits, total_length, target.swap_bytes()))
}

/// What times 0xffff is 1, modulo 2 to the 64: a product of 0xffff comes back to its other factor, all else to more.
const INVERSE_OF_0XFFFF: u64 = 0xfffe_fffe_fffe_ffff;
const _: () = assert!(INVERSE_OF_0XFFFF.wrapping_mul(0xffff) == 1);

/// Whether an address that begins so is no host's. No branches: such an address is as likely as an attacker wants.
#[inline(always)]
fn no_host(octet: u8) -> u32 {
    u32::from((octet == 0) | (octet == 127) | (octet >= 224))
}

/// Each check by itself.
#[cold]
fn in_full<const TAGS: usize>(head: &[u8; 64], length: u32, station: MacAddress) -> (u32, u16, u32) {
    let mut bits = 0;
    if head[0] & 1 != 0 {
        bits |= check::GROUP;
    } else if head[..6] != station.0 {
        bits |= check::OTHER_STATION;
    }
    // Tags stand before the EtherType: what follows is as if they were not there.
    let head: &[u8; 34] = head[TAGS..].first_chunk().expect("tags are at most 8 bytes");
    let length = length.saturating_sub(TAGS as u32);
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let target = u32::from_be_bytes([head[30], head[31], head[32], head[33]]);
    if word(12) != 0x0800 {
        return (bits | check::NOT_IP4, 0, target);
    }
    if length < 34 {
        return (bits | check::SHORT, 0, target);
    }
    if head[14] >> 4 != 4 {
        bits |= check::VERSION;
    }
    if head[14] & 0xf != 5 {
        bits |= check::HEADER_LENGTH;
    } else {
        // Summed by dwords: the order of bytes does not matter to a one's complement sum, nor does
        // what is wider than its words (RFC 1071 section 2).
        let dword = |at: usize| u64::from(u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
        let sum = dword(14) + dword(18) + dword(22) + dword(26) + dword(30);
        let words = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
        let folded = (words & 0xffff) + (words >> 16);
        if folded != 0xffff {
            bits |= check::CHECKSUM;
        }
    }
    let total_length = word(16);
    if total_length < 20 || u32::from(total_length) > length - 14 {
        bits |= check::TOTAL_LENGTH;
    }
    if head[22] <= 1 {
        bits |= check::TTL;
    }
    if word(20) & 0x3fff != 0 {
        bits |= check::FRAGMENT;
    }
    bits |= (no_host(head[26]) * check::MARTIAN_SOURCE) | (no_host(head[30]) * check::SPECIAL_DESTINATION);
    (bits, total_length, target)
}

/// See [`super::shapes`].
#[inline]
pub(super) fn shapes(frames: &Frames<'_>, lengths: &[u16], shapes: &mut [Shape], tags: &mut [u32]) {
    for i in 0..frames.len() {
        (shapes[i], tags[i]) = shape(frames.bytes(i), lengths[i]);
    }
}

#[inline]
pub(super) fn shape(head: &[u8; 64], length: u16) -> (Shape, u32) {
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let is_tag = |at: usize| EtherType(word(at)).is_tag();
    // What is beyond the frame is left over from others.
    if length < 14 || !is_tag(12) {
        return (Shape::PLAIN, 0);
    }
    if length < 18 {
        return (Shape(Shape::TRUNCATED), 0);
    }
    let outer = (word(14) as u32) << 16;
    let kind = if word(12) == EtherType::QINQ.0 { Shape::OUTER_AD } else { 0 };
    if !is_tag(16) {
        return (Shape(1 | kind), outer);
    }
    if length < 22 {
        return (Shape(1 | kind | Shape::TRUNCATED), outer);
    }
    let inner = if word(16) == EtherType::VLAN.0 { 0 } else { Shape::INNER_OTHER };
    let deeper = if is_tag(20) { Shape::DEEPER } else { 0 };
    (Shape(2 | kind | inner | deeper), outer | word(18) as u32)
}
