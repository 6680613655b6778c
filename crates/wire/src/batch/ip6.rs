//! One pass over Ethernet and IPv6 headers.

use super::{Alike, Frames, Shape, Simd, check, scalar};
use crate::addr::MacAddress;
use crate::ethernet::EtherType;
use crate::ipv6::HEADER_LEN;

/// Bytes of Ethernet and IPv6 headers.
const LEN: u16 = 14 + HEADER_LEN as u16;
/// With any of these the payload length says nothing about the frame.
pub(super) const NOT_TRIMMED: u32 = check::NOT_IP6 | check::SHORT | check::VERSION | check::TOTAL_LENGTH;

/// Columns6 that [`ethernet_ip6`] reads and writes, one entry a packet.
pub struct Columns6<'a> {
    /// Bits of [`check`] are set; others are kept.
    pub flags: &'a mut [u32],
    /// In: the frame's length. Out: of sound packets that without padding.
    pub length: &'a mut [u16],
}

impl Columns6<'_> {
    /// Those of the first packets.
    pub(super) fn first(self, count: usize) -> Self {
        Columns6 { flags: &mut self.flags[..count], length: &mut self.length[..count] }
    }
}

/// As [`super::ethernet_ip4`], of IPv6: station, EtherType, and what RFC 8200 and RFC 4291 have a router look at in
/// every packet, into the columns of flags and lengths (behind a sound packet Ethernet padding is cut off). Says the
/// union of all faults: 0 when every packet is plain. Bits of [`check`] mean here:
///
/// - `SHORT`: shorter than both headers; `VERSION`: not 6; `TOTAL_LENGTH`: the payload goes beyond the frame;
/// - `TTL`: the hop limit is 0 or 1; `HEADER_LENGTH`: hop-by-hop options follow, which every router looks at;
/// - `MARTIAN_SOURCE`, `SPECIAL_DESTINATION`: an address in ff00::/8, fe80::/10 or ::/32, not to be forwarded just so.
///
/// # Panics
/// When a column is shorter than the frames are many.
pub fn ethernet_ip6(frames: &Frames<'_>, station: MacAddress, columns: Columns6<'_>) -> u32 {
    ethernet_ip6_with(Simd::detected(), frames, station, columns)
}

/// [`ethernet_ip6`] by a chosen instruction set (which the processor must have).
pub fn ethernet_ip6_with(simd: Simd, frames: &Frames<'_>, station: MacAddress, columns: Columns6<'_>) -> u32 {
    let mut columns = columns.first(frames.len());
    by_set!(
        simd.for_so_many(frames.len()),
        ethernet_ip6(frames, station, columns),
        each(frames, station, &mut columns, 0, |_| 0)
    )
}

/// [`ethernet_ip6`] over frames as long as they have the (sound) shape of the `first`, as [`super::alike_ip4`] does it.
///
/// # Panics
/// When a column is shorter than the frames are many.
pub fn alike_ip6(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: Columns6<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    alike_ip6_with(Simd::detected(), frames, station, columns, first, tags)
}

/// [`alike_ip6`] by a chosen instruction set (which the processor must have).
pub fn alike_ip6_with(
    simd: Simd,
    frames: &Frames<'_>,
    station: MacAddress,
    columns: Columns6<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    let (columns, tags) = (columns.first(frames.len()), &mut tags[..frames.len()]);
    debug_assert!(first.0.is_sound());
    by_set!(simd, alike_ip6(frames, station, columns, first, tags), alike(frames, station, columns, first, tags, 0))
}

/// [`ethernet_ip6`] over frames with VLAN tags, whose `shapes` are known.
///
/// # Panics
/// When a column is shorter than the frames are many.
pub fn tagged_ip6(frames: &Frames<'_>, station: MacAddress, columns: Columns6<'_>, shapes: &[Shape]) -> u32 {
    tagged_ip6_with(Simd::detected(), frames, station, columns, shapes)
}

/// [`tagged_ip6`] by a chosen instruction set (which the processor must have).
pub fn tagged_ip6_with(
    simd: Simd,
    frames: &Frames<'_>,
    station: MacAddress,
    columns: Columns6<'_>,
    shapes: &[Shape],
) -> u32 {
    let (mut columns, shapes) = (columns.first(frames.len()), &shapes[..frames.len()]);
    by_set!(
        simd,
        tagged_ip6(frames, station, columns, shapes),
        each(frames, station, &mut columns, 0, |i| shapes[i].tags())
    )
}

/// The packets from one on, each by itself. `tags` says how many bytes of VLAN tags a frame has.
#[inline(always)]
pub(super) fn each(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: &mut Columns6<'_>,
    from: usize,
    tags: impl Fn(usize) -> usize,
) -> u32 {
    let station = scalar::Station::new(station);
    let mut columns = Columns6 { flags: &mut *columns.flags, length: &mut *columns.length };
    (from..frames.len()).fold(0, |union, i| {
        frames.prefetch(i + scalar::AHEAD);
        union | one(frames, i, station, &mut columns, tags(i))
    })
}

/// The same as long as they are alike.
pub(super) fn alike(
    frames: &Frames<'_>,
    station: MacAddress,
    mut columns: Columns6<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
    from: usize,
) -> Alike {
    let station = scalar::Station::new(station);
    scalar::while_alike(tags, first.1, from, |i| {
        frames.prefetch(i + scalar::AHEAD);
        let (other, own) = scalar::shape(frames.bytes(i), columns.length[i]);
        (other == first.0).then(|| (one(frames, i, station, &mut columns, other.tags()), own))
    })
}

/// One packet with so many bytes of VLAN tags; gives the bits of its faults.
#[inline(always)]
fn one(frames: &Frames<'_>, i: usize, station: scalar::Station, columns: &mut Columns6<'_>, tags: usize) -> u32 {
    let (head, length) = (frames.bytes(i), u32::from(columns.length[i]));
    // With offsets known beforehand nothing has to be checked against the head's end.
    let (bits, payload) = match tags {
        0 => judge::<0>(head, length, station),
        4 => judge::<4>(head, length, station),
        _ => judge::<8>(head, length, station),
    };
    if (bits & NOT_TRIMMED) | (columns.flags[i] & check::CHAINED) == 0 {
        columns.length[i] = LEN + tags as u16 + payload;
    }
    let examined = if bits & (check::NOT_IP6 | check::SHORT) == 0 { check::EXAMINED6 } else { 0 };
    columns.flags[i] |= bits | examined;
    bits
}

/// The faults of a frame with so many bytes of VLAN tags, and how long its payload says that it is.
#[inline(always)]
pub(super) fn judge<const TAGS: usize>(head: &[u8; 64], length: u32, station: scalar::Station) -> (u32, u16) {
    let bit = |is: bool, bit: u32| if is { bit } else { 0 };
    let group = head[0] & 1 != 0;
    let link = bit(group, check::GROUP) | bit(!group && !station.is(head), check::OTHER_STATION);
    // Tags stand before the EtherType: what follows is as if they were not there.
    let head: &[u8; 54] = head[TAGS..].first_chunk().expect("tags are at most 8 bytes");
    let length = length.saturating_sub(TAGS as u32);
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    if word(12) != EtherType::IPV6.0 {
        return (link | check::NOT_IP6, 0);
    }
    if length < u32::from(LEN) {
        return (link | check::SHORT, 0);
    }
    let payload = word(18);
    let bits = bit(head[14] >> 4 != 6, check::VERSION)
        | bit(u32::from(payload) > length - u32::from(LEN), check::TOTAL_LENGTH)
        | bit(head[20] == 0, check::HEADER_LENGTH)
        | bit(head[21] <= 1, check::TTL)
        | bit(is_special(&head[22..26]), check::MARTIAN_SOURCE)
        | bit(is_special(&head[38..42]), check::SPECIAL_DESTINATION);
    (link | bits, payload)
}

/// Whether an address that begins so is in ff00::/8, fe80::/10 or ::/32.
#[inline(always)]
fn is_special(first: &[u8]) -> bool {
    (first[0] == 0xff) | ((first[0] == 0xfe) & (first[1] & 0xc0 == 0x80)) | (first == [0; 4])
}

#[cfg(test)]
mod tests {
    use super::super::first_shape;
    use super::super::tests::{Bed, STATION, sets, tagged};
    use super::*;
    use proptest::prelude::*;

    fn plain() -> Vec<u8> {
        let mut frame = vec![0u8; 62];
        frame[..6].copy_from_slice(&STATION.0);
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[14] = 0x60;
        frame[19] = 8;
        frame[20] = 17;
        frame[21] = 64;
        for at in [22, 38] {
            frame[at..at + 4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
        }
        frame
    }

    fn check_by(simd: Simd, bed: &mut Bed) -> u32 {
        let (frames, columns) = bed.frames();
        ethernet_ip6_with(simd, &frames, STATION, Columns6 { flags: columns.flags, length: columns.length })
    }

    /// The tags of frames, and their control information as it is found.
    const TAGS: [(&[(u16, u16)], u32); 3] =
        [(&[], 0), (&[(0x8100, 100)], 100 << 16), (&[(0x88a8, 0xa00a), (0x8100, 20)], 0xa00a_0014)];

    #[test]
    fn each_check_has_its_bit() {
        type Spoil = fn(&mut Vec<u8>);
        let cases: [(u32, Spoil); 20] = [
            (0, |_| {}),
            (check::OTHER_STATION, |f| f[5] = 9),
            (check::GROUP, |f| f[..2].fill(0x33)),
            (check::NOT_IP6, |f| f[13] = 0),
            (check::SHORT, |f| f.truncate(53)),
            (check::VERSION, |f| f[14] = 0x45),
            (check::TOTAL_LENGTH, |f| f[19] = 9),
            (check::TOTAL_LENGTH, |f| f[18] = 0xff),
            (check::HEADER_LENGTH, |f| f[20] = 0),
            (check::TTL, |f| f[21] = 1),
            (check::TTL, |f| f[21] = 0),
            (check::MARTIAN_SOURCE, |f| f[22] = 0xff),
            (check::MARTIAN_SOURCE, |f| f[22..26].copy_from_slice(&[0xfe, 0xbf, 0, 0])),
            (check::MARTIAN_SOURCE, |f| f[22..26].fill(0)),
            (0, |f| f[22..26].copy_from_slice(&[0xfe, 0xc0, 0, 0])),
            (0, |f| f[22..26].copy_from_slice(&[0, 0, 0, 1])),
            (check::SPECIAL_DESTINATION, |f| f[38] = 0xff),
            (check::SPECIAL_DESTINATION, |f| f[38..42].copy_from_slice(&[0xfe, 0x80, 0, 0])),
            (check::SPECIAL_DESTINATION, |f| f[38..42].fill(0)),
            (0, |f| f[38] = 0xfc),
        ];
        for simd in sets() {
            for (bit, spoil) in &cases {
                let mut frame = plain();
                spoil(&mut frame);
                let mut bed = Bed::new(&vec![frame.clone(); 17]);
                assert_eq!(check_by(simd, &mut bed), *bit, "{simd:?}");
                let seen = if bit & (check::NOT_IP6 | check::SHORT) == 0 { check::EXAMINED6 } else { 0 };
                assert!(bed.flags.iter().all(|flags| *flags == bit | seen), "{simd:?} {bit:#x}");
                // The same behind tags.
                for (tags, control) in TAGS {
                    let mut bed = Bed::new(&vec![tagged(&frame, tags); 37]);
                    let length = bed.length[0];
                    let (frames, columns) = bed.frames();
                    let columns = Columns6 { flags: columns.flags, length: columns.length };
                    let first = first_shape(&frames, length);
                    let mut found = vec![0; 37];
                    let mut each = Bed::new(&vec![tagged(&frame, tags); 37]);
                    let (heads, own) = each.frames();
                    let own = Columns6 { flags: own.flags, length: own.length };
                    assert_eq!(tagged_ip6_with(simd, &heads, STATION, own, &[first.0; 37]), *bit, "{simd:?} {tags:?}");
                    assert!(each.flags.iter().all(|flags| *flags == bit | seen), "{simd:?} {tags:?} {bit:#x}");
                    let alike = alike_ip6_with(simd, &frames, STATION, columns, first, &mut found);
                    assert_eq!(alike, Alike { done: 37, faults: *bit, one_vlan: true }, "{simd:?} {tags:?} {bit:#x}");
                    assert!(bed.flags.iter().all(|flags| *flags == bit | seen), "{simd:?} {tags:?} {bit:#x}");
                    assert!(tags.is_empty() || found.iter().all(|tags| *tags == control), "{simd:?} {tags:?}");
                }
            }
        }
    }

    #[test]
    fn it_ends_where_frames_have_other_tags_and_says_whether_they_are_of_one_vlan() {
        for simd in sets() {
            let of = |tags: &[(u16, u16)]| tagged(&plain(), tags);
            let mut frames = vec![of(&[(0x8100, 100)]); 40];
            frames[20] = of(&[(0x8100, 0xe000 | 101)]);
            frames[33] = of(&[(0x88a8, 100)]);
            for (until, one_vlan) in [(20, true), (40, false)] {
                let mut bed = Bed::new(&frames[..until]);
                let lengths = bed.length.clone();
                let (heads, columns) = bed.frames();
                let columns = Columns6 { flags: columns.flags, length: columns.length };
                let (first, mut found) = (first_shape(&heads, lengths[0]), vec![0; until]);
                let alike = alike_ip6_with(simd, &heads, STATION, columns, first, &mut found);
                assert_eq!(alike, Alike { done: until.min(33), faults: 0, one_vlan }, "{simd:?}");
                assert!(bed.flags[..alike.done].iter().all(|flags| *flags == check::EXAMINED6), "{simd:?}");
                assert!(bed.flags[alike.done..].iter().all(|flags| *flags == 0), "the others are left alone");
                assert_eq!(bed.length[alike.done..], lengths[alike.done..]);
            }
        }
    }

    #[test]
    fn padding_is_cut_off_sound_packets() {
        for simd in sets() {
            let mut frame = plain();
            frame[19] = 3;
            let mut bed = Bed::new(&vec![frame; 20]);
            bed.flags[3] = check::CHAINED;
            check_by(simd, &mut bed);
            assert_eq!((bed.length[0], bed.length[3], bed.length[19]), (57, 62, 57), "{simd:?}");
        }
    }

    proptest! {
        // 20 frames a case: half a million headers.
        #![proptest_config(ProptestConfig::with_cases(25_000))]

        #[test]
        fn instruction_sets_agree(
            frames in prop::collection::vec((0..64usize, any::<[u8; 3]>(), any::<u64>(), 40..70usize), 20),
        ) {
            let frames: Vec<Vec<u8>> = frames.into_iter().map(|(at, bytes, noise, length)| {
                let mut frame = plain();
                frame.resize(72, 0x5a);
                // Most are sound but for a byte or two; some are noise.
                if noise % 8 == 0 {
                    frame.iter_mut().enumerate().for_each(|(i, byte)| *byte ^= (noise >> (i % 57)) as u8);
                } else if noise % 8 < 6 {
                    let at = at.min(60);
                    frame[at..at + 1 + noise as usize % 3].copy_from_slice(&bytes[..1 + noise as usize % 3]);
                }
                frame.truncate(length);
                frame
            }).collect();
            let mut expected = Bed::new(&frames);
            let union = check_by(Simd::Scalar, &mut expected);
            // One behind the other with no tag, one tag, two tags.
            let tags_of = |i: usize| TAGS[i % 3].0;
            let mixed: Vec<_> = frames.iter().enumerate().map(|(i, frame)| tagged(frame, tags_of(i))).collect();
            let mut outcomes = Vec::new();
            for simd in sets() {
                let mut bed = Bed::new(&mixed);
                let lengths = bed.length.clone();
                let (mut shapes, mut control) = ([Shape::PLAIN; 20], [0; 20]);
                let (heads, columns) = bed.frames();
                super::super::shapes(&heads, &lengths, &mut shapes, &mut control);
                let columns = Columns6 { flags: columns.flags, length: columns.length };
                let union = tagged_ip6_with(simd, &heads, STATION, columns, &shapes);
                for (i, shape) in shapes.iter().enumerate().filter(|(i, shape)| shape.depth() == tags_of(*i).len()) {
                    prop_assert_eq!(bed.flags[i], expected.flags[i]);
                    prop_assert_eq!(bed.length[i], expected.length[i] + 4 * shape.depth() as u16);
                }
                outcomes.push((union, bed.flags, bed.length));
            }
            prop_assert!(outcomes.windows(2).all(|pair| pair[0] == pair[1]));
            for simd in sets() {
                let mut bed = Bed::new(&frames);
                prop_assert_eq!(check_by(simd, &mut bed), union);
                prop_assert_eq!(&bed.flags, &expected.flags);
                prop_assert_eq!(&bed.length, &expected.length);
                // What is behind tags is judged as without; where a frame is too short to have them, they are not
                // alike.
                for (tags, _) in TAGS {
                    let mut bed = Bed::new(&frames.iter().map(|frame| tagged(frame, tags)).collect::<Vec<_>>());
                    let (heads, columns) = bed.frames();
                    let first = first_shape(&heads, columns.length[0]);
                    if !first.0.is_sound() {
                        continue;
                    }
                    let columns = Columns6 { flags: columns.flags, length: columns.length };
                    let done = alike_ip6_with(simd, &heads, STATION, columns, first, &mut [0; 20]).done;
                    if first.0.depth() == tags.len() {
                        prop_assert_eq!(&bed.flags[..done], &expected.flags[..done]);
                        let padded = expected.length[..done].iter().map(|length| length + 4 * tags.len() as u16);
                        prop_assert!(bed.length[..done].iter().copied().eq(padded));
                    }
                    prop_assert!(bed.flags[done..].iter().all(|flags| *flags == 0));
                }
            }
        }
    }
}
