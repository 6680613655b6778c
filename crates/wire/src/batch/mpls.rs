//! One pass over Ethernet headers and the label behind them, and operations on labels.

use super::{Alike, EthernetColumns, Frames, Shape, Simd, WRITABLE_BEFORE, bare, check, scalar, word};
use crate::addr::MacAddress;
use crate::ethernet::EtherType;
use crate::mpls::ENTRY_LEN;

/// Bytes of an Ethernet header and one entry of a label stack.
const LEN: u16 = 14 + ENTRY_LEN as u16;

/// Station, EtherType and the top entry of the label stack of frames, into the columns: `target` is that entry in host
/// order. Returns the union of all faults. Meaning of bits of [`check`]: `SHORT`: shorter than header and entry; `TTL`:
/// the entry's time to live is 0 or 1. `EXAMINED` is no fault but a hint, which only AVX-512 gives, because it has the
/// bytes at hand: the label is the last of its stack, and an IPv4 packet without faults for [`super::ip4_headers`] and
/// without padding follows it.
///
/// # Panics
/// When a column is shorter than the frames are many.
pub fn ethernet_mpls(frames: &Frames<'_>, station: MacAddress, columns: EthernetColumns<'_>) -> u32 {
    ethernet_mpls_with(Simd::detected(), frames, station, columns)
}

/// [`ethernet_mpls`] by a chosen instruction set (which the processor must have).
pub fn ethernet_mpls_with(simd: Simd, frames: &Frames<'_>, station: MacAddress, columns: EthernetColumns<'_>) -> u32 {
    let mut columns = columns.first(frames.len());
    by_set!(
        simd.for_so_many(frames.len()),
        ethernet_mpls(frames, station, columns),
        each::<false>(frames, station, &mut columns, 0)
    )
}

/// Examines the packets from `at` on one by one, and with `INSIDE` what is behind their labels.
#[inline(always)]
pub(super) fn each<const INSIDE: bool>(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: &mut EthernetColumns<'_>,
    from: usize,
) -> u32 {
    let station = scalar::Station::new(station);
    let sides = columns.flags.iter_mut().zip(columns.length.iter()).zip(columns.target.iter_mut());
    let mut union = 0;
    for (i, ((flags, length), target)) in sides.enumerate().skip(from) {
        frames.prefetch(i + scalar::AHEAD);
        let (bits, entry) = judge::<0>(frames.bytes(i), *length, station);
        let split = bits & check::NOT_MPLS | *flags & check::CHAINED;
        let plain = INSIDE && split == 0 && entry & BOTTOM != 0 && bare::is_plain(frames.bytes(i), *length);
        (*flags, *target) = (*flags | bits | if plain { check::EXAMINED } else { 0 }, entry);
        union |= bits;
    }
    union
}

/// [`ethernet_mpls`] over frames as long as they have the (sound) shape of the `first`, like [`super::alike_ip4`].
///
/// # Panics
/// When a column is shorter than the frames are many.
pub fn alike_mpls(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: EthernetColumns<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    alike_mpls_with(Simd::detected(), frames, station, columns, first, tags)
}

/// [`alike_mpls`] by a chosen instruction set (which the processor must have).
pub fn alike_mpls_with(
    simd: Simd,
    frames: &Frames<'_>,
    station: MacAddress,
    columns: EthernetColumns<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    let (columns, tags) = (columns.first(frames.len()), &mut tags[..frames.len()]);
    by_set!(simd, alike_mpls(frames, station, columns, first, tags), alike(frames, station, columns, first, tags, 0))
}

/// The same as long as they are alike.
pub(super) fn alike(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: EthernetColumns<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
    from: usize,
) -> Alike {
    let station = scalar::Station::new(station);
    scalar::while_alike(tags, first.1, from, |i| {
        frames.prefetch(i + scalar::AHEAD);
        let (head, length) = (frames.bytes(i), columns.length[i]);
        let (other, own) = scalar::shape(head, length);
        if other != first.0 {
            return None;
        }
        let (bits, entry) = match other.depth() {
            0 => judge::<0>(head, length, station),
            1 => judge::<4>(head, length, station),
            _ => judge::<8>(head, length, station),
        };
        columns.flags[i] |= bits;
        columns.target[i] = entry;
        Some((bits, own))
    })
}

/// The faults of a frame with this many bytes of VLAN tags, and the top entry of its label stack.
#[inline(always)]
fn judge<const TAGS: usize>(head: &[u8; 64], length: u16, station: scalar::Station) -> (u32, u32) {
    let bit = |is: bool, bit: u32| u32::from(is) * bit;
    let group = head[0] & 1 != 0;
    let entry = u32::from_be_bytes(*head[14 + TAGS..].first_chunk().expect("tags are at most 8 bytes"));
    let is_mpls = head[12 + TAGS..14 + TAGS] == EtherType::MPLS.0.to_be_bytes();
    let short = length < LEN + TAGS as u16;
    let bits = bit(group, check::GROUP)
        | bit(!group & !station.is(head), check::OTHER_STATION)
        | bit(!is_mpls, check::NOT_MPLS)
        | bit(is_mpls & short, check::SHORT)
        | bit(is_mpls & !short & (entry & 0xff <= 1), check::TTL);
    (bits, entry)
}

/// What an entry passes on to its replacements: traffic class and time to live, and to the lowest label the
/// bottom-of-stack bit.
const PASSED_ON: u32 = 0xeff;
const BOTTOM: u32 = 0x100;

impl Frames<'_> {
    /// Swaps the top label and writes an Ethernet header before it; the hop is counted. The offset is that of the
    /// label. All packets get the same header, and each the label of its own entry.
    ///
    /// # Panics
    /// When there are fewer entries than packets.
    #[inline]
    pub fn swap_all(&mut self, header: &[u8; 14], entries: &[u32]) {
        let words = [word(header, 0), word(header, 6)];
        for (head, entry) in self.places().zip(&entries[..self.len()]) {
            // SAFETY: the 14 bytes before the head are writable, as are the first 64 from it on.
            unsafe { swap(head, words, *entry) };
        }
    }

    /// [`Frames::swap_all`] for one packet after the other, with what `next` returns for each, until it returns none;
    /// returns how many.
    #[inline(always)]
    pub fn swap_while<'h>(&mut self, mut next: impl FnMut() -> Option<(&'h [u8; 14], u32)>) -> usize {
        for (i, head) in self.places().enumerate() {
            let Some((header, entry)) = next() else { return i };
            // SAFETY: as in `swap_all`.
            unsafe { swap(head, [word(header, 0), word(header, 6)], entry) };
        }
        self.len()
    }

    /// Pops the label at the offset of packet `i` and writes `rewrite` in its place: a link header that ends in
    /// `labels` labels. The lowest `copies` of these get the popped label's time to live, less one, and its traffic
    /// class; the last one also gets the bottom-of-stack bit. Without labels, and with `uniform`, the entry below gets
    /// both; the time to live only if that is less than its own.
    ///
    /// # Panics
    /// When `rewrite` is longer than [`WRITABLE_BEFORE`], or has fewer labels.
    pub fn relabel(&mut self, i: usize, rewrite: &[u8], labels: usize, copies: usize, uniform: bool) {
        assert!((ENTRY_LEN..=WRITABLE_BEFORE).contains(&rewrite.len()));
        assert!(labels * ENTRY_LEN <= rewrite.len() && copies <= labels);
        let head = self.head(i);
        // SAFETY: the bytes written are within 64 bytes before the head and 8 from it on, and are this packet's own.
        unsafe {
            let old = u32::from_be(head.cast::<u32>().read_unaligned());
            let passed_on = old.wrapping_sub(1) & PASSED_ON;
            let end = head.add(ENTRY_LEN);
            std::ptr::copy_nonoverlapping(rewrite.as_ptr(), end.sub(rewrite.len()), rewrite.len());
            for from_bottom in 0..labels {
                let place = end.sub(ENTRY_LEN * (from_bottom + 1)).cast::<u32>();
                let mut entry = u32::from_be(place.read_unaligned());
                if from_bottom < copies {
                    entry = entry & !0xfff | passed_on;
                }
                if from_bottom == 0 {
                    entry = entry & !BOTTOM | old & BOTTOM;
                }
                place.write_unaligned(entry.to_be());
            }
            if labels == 0 && uniform {
                let place = end.cast::<u32>();
                let entry = u32::from_be(place.read_unaligned());
                // The time to live must not grow.
                let ttl = (entry & 0xff).min(passed_on & 0xff);
                place.write_unaligned((entry & !PASSED_ON | passed_on & !0xff | ttl).to_be());
            }
        }
    }

    /// Sets the lowest `copies` entries of the label stack that ends at packet `i`'s network header from that header:
    /// time to live (for IPv6 the hop limit) and, as traffic class, the precedence.
    ///
    /// # Panics
    /// When they do not fit [`WRITABLE_BEFORE`].
    pub fn copy_to_labels(&mut self, i: usize, is_ip6: bool, copies: usize) {
        assert!(copies * ENTRY_LEN <= WRITABLE_BEFORE);
        let header = self.bytes(i);
        let (ttl, class) = match is_ip6 {
            // The traffic class begins in the lower half of the first byte.
            true => (header[7], header[0] << 4 | header[1] >> 4),
            false => (header[8], header[1]),
        };
        let passed_on = u32::from(class >> 5) << 9 | u32::from(ttl);
        let head = self.head(i);
        for from_bottom in 0..copies {
            // SAFETY: within the writable bytes before the head, as asserted.
            unsafe {
                let place = head.sub(ENTRY_LEN * (from_bottom + 1)).cast::<u32>();
                let entry = u32::from_be(place.read_unaligned());
                place.write_unaligned((entry & !PASSED_ON | passed_on).to_be());
            }
        }
    }

    /// Sets packet `i`'s IP header from the label stack entry right before it: the time to live if that is less, and
    /// the precedence from the traffic class. The header must be complete; a right checksum stays right, and a wrong
    /// one stays wrong.
    pub fn copy_from_label(&mut self, i: usize, is_ip6: bool, entry: u32) {
        let header: &mut [u8; 20] = {
            let head = self.head(i);
            // SAFETY: the first 64 bytes from the head on are this packet's own, and `&mut self` excludes other access.
            unsafe { &mut *head.cast() }
        };
        let (ttl, class) = (entry as u8, (entry >> 9) as u8 & 7);
        if is_ip6 {
            header[7] = header[7].min(ttl);
            header[0] = header[0] & !0x0e | class << 1;
            return;
        }
        let words = [0, 8].map(|at| u16::from_be_bytes([header[at], header[at + 1]]));
        header[8] = header[8].min(ttl);
        header[1] = header[1] & 0x1f | class << 5;
        for (at, was) in [0, 8].into_iter().zip(words) {
            let is = u16::from_be_bytes([header[at], header[at + 1]]);
            let sum = crate::checksum::update16(u16::from_be_bytes([header[10], header[11]]), was, is);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// # Safety
/// 14 bytes before and 4 after `head` are writable and not otherwise borrowed.
#[inline(always)]
unsafe fn swap(head: *mut u8, header: [u64; 2], entry: u32) {
    // SAFETY: by contract.
    unsafe {
        let place = head.cast::<u32>();
        let old = u32::from_be(place.read_unaligned());
        // A packet with a TTL of 0 is not forwarded and does not get here: the subtraction does not borrow from the
        // class.
        let passed_on = old.wrapping_sub(1) & 0xfff;
        head.sub(14).cast::<u64>().write_unaligned(header[0]);
        head.sub(8).cast::<u64>().write_unaligned(header[1]);
        place.write_unaligned((entry & !0xfff | passed_on).to_be());
    }
}

#[cfg(test)]
mod tests {
    use super::super::first_shape;
    use super::super::tests::{Bed, STATION, sets, tagged};
    use super::*;
    use crate::checksum;
    use crate::mpls::StackEntry;
    use proptest::prelude::*;

    /// The offset of packets in a bed.
    const AT: usize = 64;

    fn frame(entries: &[StackEntry], payload: &[u8]) -> Vec<u8> {
        let stack = entries.iter().flat_map(|entry| entry.to_bytes());
        let ethernet = [&STATION.0[..], &[2; 6], &[0x88, 0x47]].concat();
        ethernet.into_iter().chain(stack).chain(payload.iter().copied()).collect()
    }

    fn entry(label: u32, class: u8, is_bottom: bool, ttl: u8) -> StackEntry {
        StackEntry::new(label, class, is_bottom, ttl)
    }

    #[test]
    fn each_check_has_its_bit_behind_any_tags() {
        type Spoil = fn(&mut Vec<u8>);
        let cases: [(u32, Spoil); 7] = [
            (0, |_| {}),
            (check::OTHER_STATION, |f| f[5] = 9),
            (check::GROUP, |f| f[0] = 3),
            (check::NOT_MPLS, |f| f[13] = 0x48),
            (check::SHORT, |f| f.truncate(17)),
            (check::TTL, |f| f[17] = 1),
            (check::TTL, |f| f[17] = 0),
        ];
        let all_tags: [(&[(u16, u16)], u32); 3] =
            [(&[], 0), (&[(0x8100, 100)], 100 << 16), (&[(0x88a8, 10), (0x8100, 20)], 10 << 16 | 20)];
        for (bit, spoil) in cases {
            let mut plain = frame(&[entry(16, 5, true, 64)], &[]);
            spoil(&mut plain);
            for simd in sets() {
                let mut bed = Bed::new(&vec![plain.clone(); 37]);
                let (frames, columns) = bed.frames();
                assert_eq!(ethernet_mpls_with(simd, &frames, STATION, columns), bit, "{simd:?}");
                assert_eq!(bed.flags, [bit; 37], "{simd:?}");
                assert!(bit != 0 || bed.target == [entry(16, 5, true, 64).0; 37], "{simd:?}");
                for (tags, control) in all_tags {
                    let mut all = vec![tagged(&plain, tags); 37];
                    all.push(frame(&[], &[0x45]));
                    let mut bed = Bed::new(&all);
                    let length = bed.length[0];
                    let (frames, columns) = bed.frames();
                    let (first, mut found) = (first_shape(&frames, length), [0; 38]);
                    let alike = alike_mpls_with(simd, &frames, STATION, columns, first, &mut found);
                    let done = if tags.is_empty() { 38 } else { 37 };
                    let short = if tags.is_empty() { check::SHORT } else { 0 };
                    assert_eq!(alike, Alike { done, faults: bit | short, one_vlan: true }, "{simd:?} {tags:?}");
                    assert_eq!((bed.flags[1], found[36]), (bit, control), "{simd:?} {tags:?}");
                }
            }
        }
    }

    /// A packet of IPv4.
    fn packet() -> Vec<u8> {
        let header = [0x45, 0, 0, 28, 0, 1, 0x40, 0, 9, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1];
        let mut whole = frame(&[entry(16, 5, true, 64)], &[&header[..], &[7; 8]].concat());
        sum(&mut whole);
        whole.split_off(18)
    }

    /// Corrects the checksum of the header behind the label of a frame.
    fn sum(frame: &mut [u8]) {
        frame[28..30].fill(0);
        let sum = checksum::checksum(&frame[18..38]);
        frame[28..30].copy_from_slice(&sum.to_be_bytes());
    }

    #[test]
    fn plain_packets_behind_a_label_are_told() {
        type Spoil = fn(&mut Vec<u8>);
        let remarkable: [Spoil; 17] = [
            |f| f[16] &= !1, // not the last label
            |f| f[18] = 0x65,
            |f| f[18] = 0x46,
            |f| f[21] = 19,
            |f| f[21] = 27,
            |f| f[21] = 29,
            |f| f.push(0),
            |f| f.truncate(45),
            |f| f[24] = 0x20,
            |f| f[25] = 1,
            |f| f[26] = 1,
            |f| f[26] = 0,
            |f| f[30] = 127,
            |f| f[30] = 0,
            |f| f[34] = 224,
            |f| f[34] = 255,
            |f| f[13] = 0x48,
        ];
        let whole = frame(&[entry(16, 5, true, 64)], &packet());
        let with = |spoil: Spoil| {
            let mut frame = whole.clone();
            spoil(&mut frame);
            sum(&mut frame);
            frame
        };
        let mut cases: Vec<(Vec<u8>, bool)> = remarkable.iter().map(|spoil| (with(*spoil), false)).collect();
        // The label determines its time to live, and the link header determines its receiver.
        let plain: [Spoil; 5] = [|_| {}, |f| f[17] = 1, |f| f[0] = 1, |f| f[24] = 0x40, |f| f[26] = 2];
        cases.extend(plain.iter().map(|spoil| (with(*spoil), true)));
        let mut wrong = whole.clone();
        wrong[29] ^= 1;
        cases.push((wrong, false));
        for (number, (frame, is_plain)) in cases.iter().enumerate() {
            for simd in sets() {
                for chained in [0, check::CHAINED] {
                    let mut bed = Bed::new(&vec![frame.clone(); 37]);
                    bed.flags.fill(chained);
                    let (frames, mut columns) = bed.frames();
                    let union = match simd {
                        Simd::Scalar => each::<true>(&frames, STATION, &mut columns, 0),
                        _ => ethernet_mpls_with(simd, &frames, STATION, columns),
                    };
                    assert_eq!(union & check::EXAMINED, 0);
                    let found = *is_plain && matches!(simd, Simd::Scalar | Simd::Avx512) && chained == 0;
                    let expected = if found { check::EXAMINED } else { 0 };
                    let of = |flags: &u32| flags & check::EXAMINED;
                    assert!(bed.flags.iter().all(|flags| of(flags) == expected), "{number} {simd:?} {chained}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn instruction_sets_agree(
            frames in prop::collection::vec((0..42usize, any::<u8>(), 12..60usize, any::<bool>()), 40),
        ) {
            let frames: Vec<Vec<u8>> = frames.into_iter().map(|(at, byte, length, summed)| {
                let mut frame = frame(&[entry(16, 5, true, 64)], &packet());
                frame[at] = byte;
                if summed {
                    sum(&mut frame);
                }
                frame.truncate(length);
                frame
            }).collect();
            let mut expected = Bed::new(&frames);
            let (heads, mut columns) = expected.frames();
            let union = each::<true>(&heads, STATION, &mut columns, 0);
            for simd in sets() {
                let mut bed = Bed::new(&frames);
                let (heads, columns) = bed.frames();
                prop_assert_eq!(ethernet_mpls_with(simd, &heads, STATION, columns), union);
                let told = if simd == Simd::Avx512 { u32::MAX } else { !check::EXAMINED };
                prop_assert_eq!(&bed.flags, &expected.flags.iter().map(|flags| flags & told).collect::<Vec<_>>());
                prop_assert_eq!(&bed.target, &expected.target);
                prop_assert_eq!(&bed.length, &expected.length);
            }
        }
    }

    /// The memory of a packet, starting this many bytes before its offset.
    fn bytes(bed: &Bed, before: usize, count: usize) -> Vec<u8> {
        bed.memory[AT - before..][..count].to_vec()
    }

    /// A bed with one packet that starts with its label.
    fn at_label(entries: &[StackEntry]) -> Bed {
        Bed::new(&[frame(entries, &[0x45])[14..].to_vec()])
    }

    const HEADER: [u8; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x88, 0x47];

    #[test]
    fn a_label_is_swapped_and_all_else_passed_on() {
        let below = entry(99, 1, true, 9);
        for (old, new) in [
            (entry(16, 5, false, 64), entry(17, 5, false, 63)),
            (entry(0xfffff, 7, true, 2), entry(17, 7, true, 1)),
            (entry(16, 0, true, 255), entry(17, 0, true, 254)),
        ] {
            let expected = [&HEADER[..], &new.to_bytes(), &below.to_bytes()].concat();
            let mut bed = at_label(&[old, below]);
            bed.frames().0.swap_all(&HEADER, &[entry(17, 3, true, 200).0]);
            assert_eq!(bytes(&bed, 14, 22), expected);
            let rewrite: [u8; 18] = [&HEADER[..], &entry(17, 0, false, 0).to_bytes()].concat().try_into().unwrap();
            let mut bed = at_label(&[old, below]);
            let mut given = [Some((&HEADER, entry(17, 3, true, 200).0)), None].into_iter();
            assert_eq!(bed.frames().0.swap_while(|| given.next().flatten()), 1);
            assert_eq!(bytes(&bed, 14, 22), expected);
            let mut bed = at_label(&[old, below]);
            bed.frames().0.relabel(0, &rewrite, 1, 1, false);
            assert_eq!(bytes(&bed, 14, 22), expected);
        }
    }

    #[test]
    fn labels_are_put_on_and_taken_off() {
        let (old, below) = (entry(16, 5, true, 64), entry(99, 1, true, 200));
        let (top, bottom) = (entry(17, 1, false, 30), entry(18, 0, false, 40));
        let rewrite = [&HEADER[..], &top.to_bytes(), &bottom.to_bytes()].concat();
        for (copies, first, second) in [
            (0, top, entry(18, 0, true, 40)),
            (1, top, entry(18, 5, true, 63)),
            (2, entry(17, 5, false, 63), entry(18, 5, true, 63)),
        ] {
            let mut bed = at_label(&[old]);
            bed.frames().0.relabel(0, &rewrite, 2, copies, true);
            let expected = [&HEADER[..], &first.to_bytes(), &second.to_bytes(), &[0x45]].concat();
            assert_eq!(bytes(&bed, 18, 23), expected, "{copies}");
        }
        for (uniform, ttl, exposed) in
            [(false, 64, below), (true, 64, entry(99, 5, true, 63)), (true, 250, entry(99, 5, true, 200))]
        {
            let mut bed = at_label(&[entry(16, 5, false, ttl), below]);
            bed.frames().0.relabel(0, &HEADER, 0, 0, uniform);
            assert_eq!(bytes(&bed, 10, 18), [&HEADER[..], &exposed.to_bytes()].concat());
        }
    }

    #[test]
    fn labels_and_headers_tell_each_other_their_hops_and_class() {
        let mut ip4 = vec![0x45, 0xb9, 0, 20, 0, 0, 0, 0, 57, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = checksum::checksum(&ip4);
        ip4[10..12].copy_from_slice(&sum.to_be_bytes());
        let ip6 = [&[0x6b, 0x91, 0x23, 0x45, 0, 0, 59, 57][..], &[0x20; 32]].concat();
        for (is_ip6, header) in [(false, &ip4), (true, &ip6)] {
            let mut bed = Bed::new(std::slice::from_ref(header));
            bed.memory[AT - 8..AT].copy_from_slice(&[0, 1, 0x10, 9, 0, 2, 1, 9]);
            bed.frames().0.copy_to_labels(0, is_ip6, 1);
            let bottom = entry(0x20, 5, true, 57).to_bytes();
            assert_eq!(bytes(&bed, 8, 8), [&[0, 1, 0x10, 9], &bottom[..]].concat());
            bed.frames().0.copy_to_labels(0, is_ip6, 2);
            assert_eq!(bytes(&bed, 8, 4), entry(0x11, 5, false, 57).to_bytes());
            // Back: a time to live that is not less than the packet's is not copied.
            for (ttl, left) in [(40, 40), (200, 40)] {
                bed.frames().0.copy_from_label(0, is_ip6, entry(16, 2, true, ttl).0);
                let bytes = bytes(&bed, 0, 20);
                assert_eq!(bytes[if is_ip6 { 7 } else { 8 }], left);
                match is_ip6 {
                    true => assert_eq!(bytes[..4], [0x65, 0x91, 0x23, 0x45]),
                    false => assert_eq!((bytes[1], checksum::checksum(&bytes)), (0x59, 0)),
                }
            }
        }
    }
}
