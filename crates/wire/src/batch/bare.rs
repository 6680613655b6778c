//! IP headers that no link header announces: what a label, or a tunnel, leaves when it is taken off.

use super::{Columns6, EthernetColumns, Frames, Simd, check, ip6, scalar};
use crate::addr::MacAddress;
use crate::{ipv4, ipv6};

const ETHERNET: usize = 14;
/// An Ethernet header of which the other kernels find nothing to say.
pub(super) const OURS: MacAddress = MacAddress([2, 0, 0, 0, 0, 0]);

/// What stands before the headers that are looked at: nothing, or an Ethernet header with one or two words of four
/// bytes behind it. Frames begin with it, and lengths count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    Nothing,
    OneWord,
    TwoWords,
}

impl Before {
    /// What so many bytes are.
    #[inline]
    pub fn of(bytes: u16) -> Option<Before> {
        [Before::Nothing, Before::OneWord, Before::TwoWords].into_iter().find(|before| before.bytes() == bytes)
    }

    #[inline]
    pub const fn bytes(self) -> u16 {
        match self {
            Before::Nothing => 0,
            Before::OneWord => ETHERNET as u16 + 4,
            Before::TwoWords => ETHERNET as u16 + 8,
        }
    }
}

/// [`super::ethernet_ip4`] of IPv4 headers that no EtherType announces. No bits of Ethernet are set.
///
/// # Panics
/// When a column is shorter than the frames are many.
pub fn ip4_headers(frames: &Frames<'_>, before: Before, columns: EthernetColumns<'_>) -> u32 {
    ip4_headers_with(Simd::detected(), frames, before, columns)
}

/// [`ip4_headers`] by a chosen instruction set (which the processor must have).
pub fn ip4_headers_with(simd: Simd, frames: &Frames<'_>, before: Before, columns: EthernetColumns<'_>) -> u32 {
    let mut columns = columns.first(frames.len());
    by_set!(
        simd.for_so_many(frames.len()),
        ip4_headers(frames, before, columns),
        each4(frames, before, &mut columns, 0)
    )
}

/// [`super::ethernet_ip6`] of IPv6 headers that no EtherType announces, as [`ip4_headers`].
///
/// # Panics
/// When a column is shorter than the frames are many.
pub fn ip6_headers(frames: &Frames<'_>, before: Before, columns: Columns6<'_>) -> u32 {
    ip6_headers_with(Simd::detected(), frames, before, columns)
}

/// [`ip6_headers`] by a chosen instruction set (which the processor must have).
pub fn ip6_headers_with(simd: Simd, frames: &Frames<'_>, before: Before, columns: Columns6<'_>) -> u32 {
    let mut columns = columns.first(frames.len());
    by_set!(
        simd.for_so_many(frames.len()),
        ip6_headers(frames, before, columns),
        each6(frames, before, &mut columns, 0)
    )
}

/// What the kernels of frames would see: the first bytes of a packet behind such a header.
#[inline(always)]
fn framed<const HEADER: usize>(head: &[u8; 64], before: Before, ethertype: [u8; 2]) -> [u8; 64] {
    let begin = usize::from(before.bytes());
    let mut framed = [0; 64];
    framed[..6].copy_from_slice(&OURS.0);
    framed[12..ETHERNET].copy_from_slice(&ethertype);
    framed[ETHERNET..ETHERNET + HEADER].copy_from_slice(&head[begin..begin + HEADER]);
    framed
}

/// Whether behind one word is an IPv4 packet about which there is nothing to say, and nothing behind that.
#[inline(always)]
pub(super) fn is_plain(head: &[u8; 64], length: u16) -> bool {
    let before = Before::OneWord;
    let head = framed::<{ ipv4::HEADER_LEN }>(head, before, [8, 0]);
    let own = length.saturating_sub(before.bytes());
    let (bits, total, _) = scalar::judge::<0>(&head, u32::from(own) + ETHERNET as u32, scalar::Station::new(OURS));
    bits == 0 && total == own
}

/// The packets from one on, each by itself.
pub(super) fn each4(frames: &Frames<'_>, before: Before, columns: &mut EthernetColumns<'_>, from: usize) -> u32 {
    let station = scalar::Station::new(OURS);
    (from..frames.len()).fold(0, |union, i| {
        frames.prefetch(i + scalar::AHEAD);
        let head = framed::<{ ipv4::HEADER_LEN }>(frames.bytes(i), before, [8, 0]);
        let length = u32::from(columns.length[i].saturating_sub(before.bytes())) + ETHERNET as u32;
        let (bits, total, target) = scalar::judge::<0>(&head, length, station);
        columns.target[i] = target;
        if bits & scalar::NOT_TRIMMED | columns.flags[i] & check::CHAINED == 0 {
            columns.length[i] = before.bytes() + total;
        }
        let examined = if bits & check::SHORT == 0 { check::EXAMINED } else { 0 };
        columns.flags[i] |= bits | examined;
        union | bits
    })
}

/// The same of IPv6.
pub(super) fn each6(frames: &Frames<'_>, before: Before, columns: &mut Columns6<'_>, from: usize) -> u32 {
    let station = scalar::Station::new(OURS);
    (from..frames.len()).fold(0, |union, i| {
        frames.prefetch(i + scalar::AHEAD);
        let head = framed::<{ ipv6::HEADER_LEN }>(frames.bytes(i), before, [0x86, 0xdd]);
        let length = u32::from(columns.length[i].saturating_sub(before.bytes())) + ETHERNET as u32;
        let (bits, payload) = ip6::judge::<0>(&head, length, station);
        if bits & ip6::NOT_TRIMMED | columns.flags[i] & check::CHAINED == 0 {
            columns.length[i] = before.bytes() + payload + ipv6::HEADER_LEN as u16;
        }
        let examined = if bits & check::SHORT == 0 { check::EXAMINED6 } else { 0 };
        columns.flags[i] |= bits | examined;
        union | bits
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Bed, STATION, sets};
    use super::super::{ethernet_ip4_with, ethernet_ip6_with};
    use super::*;
    use proptest::prelude::*;

    const ALL: [Before; 3] = [Before::Nothing, Before::OneWord, Before::TwoWords];

    /// A header, most of it as it should be, of either family.
    fn header(is_ip6: bool, noise: u64) -> Vec<u8> {
        let mut bytes = vec![0x20; 56];
        match is_ip6 {
            true => bytes[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 16, 17, 64]),
            false => {
                bytes[..12].copy_from_slice(&[0x45, 0, 0, 56, 0, 0, 0, 0, 64, 17, 0, 0]);
                let sum = crate::checksum::checksum(&bytes[..20]);
                bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            }
        }
        if !noise.is_multiple_of(3) {
            bytes[(noise >> 8) as usize % 40] ^= (noise >> 16) as u8;
        }
        if noise % 3 > 1 {
            bytes[(noise >> 24) as usize % 40] = (noise >> 32) as u8;
        }
        bytes.truncate(16 + (noise >> 40) as usize % 41);
        bytes
    }

    #[test]
    fn the_longest_packets_are_sound() {
        for simd in sets() {
            for (is_ip6, own, length) in
                [(false, 65_531u16, 65_531u16), (true, 65_490, 65_530), (false, 65_535, 65_535)]
            {
                let mut long = header(is_ip6, 0x40 << 40);
                let at = if is_ip6 { 4 } else { 2 };
                long[at..at + 2].copy_from_slice(&own.to_be_bytes());
                long[10..12].copy_from_slice(if is_ip6 { &[0x20, 0x20] } else { &[0, 0] });
                let sum = crate::checksum::checksum(&long[..20]);
                if !is_ip6 {
                    long[10..12].copy_from_slice(&sum.to_be_bytes());
                }
                // More than fill a register, so that there is a rest.
                let mut bed = Bed::new(&vec![long; 17]);
                bed.length.fill(length);
                let (frames, columns) = bed.frames();
                let faults = match is_ip6 {
                    true => {
                        let columns = Columns6 { flags: columns.flags, length: columns.length };
                        ip6_headers_with(simd, &frames, Before::Nothing, columns)
                    }
                    false => ip4_headers_with(simd, &frames, Before::Nothing, columns),
                };
                assert_eq!(faults, 0, "{simd:?} {is_ip6} {length}");
                assert!(bed.length.iter().all(|found| *found == length), "{simd:?} {is_ip6} {length}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        #[test]
        fn a_header_is_judged_as_behind_one_of_ethernet(noise in prop::collection::vec(any::<u64>(), 20),
            is_ip6: bool) {
            let headers: Vec<Vec<u8>> = noise.iter().map(|noise| header(is_ip6, *noise)).collect();
            let ethertype = if is_ip6 { [0x86, 0xdd] } else { [8, 0] };
            let framed = |header: &Vec<u8>| [&STATION.0[..], &[2; 6], &ethertype, header].concat();
            let mut expected = Bed::new(&headers.iter().map(framed).collect::<Vec<_>>());
            expected.flags[7] = check::CHAINED;
            let (frames, columns) = expected.frames();
            let faults = match is_ip6 {
                true => {
                    let columns = Columns6 { flags: columns.flags, length: columns.length };
                    ethernet_ip6_with(Simd::Scalar, &frames, STATION, columns)
                }
                false => ethernet_ip4_with(Simd::Scalar, &frames, STATION, columns, |_| {}),
            };
            for (simd, before) in sets().into_iter().flat_map(|set| ALL.map(|before| (set, before))) {
                let begin = vec![0xee; before.bytes().into()];
                let mut bed = Bed::new(&headers.iter().map(|header| [&begin[..], header].concat()).collect::<Vec<_>>());
                bed.flags[7] = check::CHAINED;
                let (frames, columns) = bed.frames();
                let found = match is_ip6 {
                    true => {
                        let columns = Columns6 { flags: columns.flags, length: columns.length };
                        ip6_headers_with(simd, &frames, before, columns)
                    }
                    false => ip4_headers_with(simd, &frames, before, columns),
                };
                prop_assert_eq!(found, faults, "{:?} {:?}", simd, before);
                prop_assert_eq!(&bed.flags, &expected.flags, "{:?} {:?}", simd, before);
                let lengths = expected.length.iter().map(|length| length - 14 + before.bytes());
                prop_assert!(bed.length.iter().copied().eq(lengths), "{:?} {:?}", simd, before);
                prop_assert!(is_ip6 || bed.target == expected.target, "{:?} {:?}", simd, before);
            }
        }
    }
}
