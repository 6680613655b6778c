//! One pass over Ethernet and IPv6 headers.

#[cfg(target_arch = "x86_64")]
use super::{FEW, avx512};
use super::{Frames, Simd, avx512_available, check, scalar};
use crate::addr::MacAddress;
use crate::ethernet::EtherType;
use crate::ipv6::HEADER_LEN;

/// Bytes of Ethernet and IPv6 headers.
const LEN: u16 = 14 + HEADER_LEN as u16;
/// With any of these the payload length says nothing about the frame.
const NOT_TRIMMED: u32 = check::NOT_IP6 | check::SHORT | check::VERSION | check::TOTAL_LENGTH;

/// As [`super::ethernet_ip4`], of IPv6: station, EtherType, and what RFC 8200 and RFC 4291 have a router look at in every
/// packet, into the columns of flags and lengths (behind a sound packet Ethernet padding is cut off). Says the union of all
/// faults: 0 when every packet is plain. Bits of [`check`] mean here:
///
/// - `SHORT`: shorter than both headers; `VERSION`: not 6; `TOTAL_LENGTH`: the payload goes beyond the frame;
/// - `TTL`: the hop limit is 0 or 1; `HEADER_LENGTH`: hop-by-hop options follow, which every router looks at;
/// - `MARTIAN_SOURCE`, `SPECIAL_DESTINATION`: an address in ff00::/8, fe80::/10 or ::/32, not to be forwarded just so.
///
/// # Panics
/// When a column is shorter than the frames are many.
pub fn ethernet_ip6(frames: &Frames<'_>, station: MacAddress, flags: &mut [u32], length: &mut [u16]) -> u32 {
    ethernet_ip6_with(Simd::detected(), frames, station, flags, length)
}

/// [`ethernet_ip6`] by a chosen instruction set (which the processor must have). There is none for AVX2 alone.
pub fn ethernet_ip6_with(
    simd: Simd,
    frames: &Frames<'_>,
    station: MacAddress,
    flags: &mut [u32],
    length: &mut [u16],
) -> u32 {
    let (flags, length) = (&mut flags[..frames.len()], &mut length[..frames.len()]);
    match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 if frames.len() >= FEW => {
            assert!(avx512_available());
            // SAFETY: the processor has the instructions, as just asserted.
            unsafe { avx512::ethernet_ip6(frames, station, flags, length) }
        }
        _ => each(frames, station, flags, length, 0),
    }
}

/// The packets from one on, each by itself.
#[inline(always)]
pub(super) fn each(
    frames: &Frames<'_>,
    station: MacAddress,
    flags: &mut [u32],
    length: &mut [u16],
    from: usize,
) -> u32 {
    let station = scalar::Station::new(station);
    let columns = flags.iter_mut().zip(length).enumerate().skip(from);
    columns.fold(0, |union, (i, (flags, length))| {
        frames.prefetch(i + scalar::AHEAD);
        let (bits, payload) = judge(frames.bytes(i), *length, station);
        if (bits & NOT_TRIMMED) | (*flags & check::CHAINED) == 0 {
            *length = LEN + payload;
        }
        let examined = if bits & (check::NOT_IP6 | check::SHORT) == 0 { check::EXAMINED6 } else { 0 };
        *flags |= bits | examined;
        union | bits
    })
}

/// The faults of a frame, and how long its payload says that it is.
#[inline(always)]
fn judge(head: &[u8; 64], length: u16, station: scalar::Station) -> (u32, u16) {
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let bit = |is: bool, bit: u32| if is { bit } else { 0 };
    let group = head[0] & 1 != 0;
    let link = bit(group, check::GROUP) | bit(!group && !station.is(head), check::OTHER_STATION);
    if word(12) != EtherType::IPV6.0 {
        return (link | check::NOT_IP6, 0);
    }
    if length < LEN {
        return (link | check::SHORT, 0);
    }
    let payload = word(18);
    let bits = bit(head[14] >> 4 != 6, check::VERSION)
        | bit(payload > length - LEN, check::TOTAL_LENGTH)
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
    use super::super::tests::{Bed, STATION, sets};
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
        ethernet_ip6_with(simd, &frames, STATION, columns.flags, columns.length)
    }

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
                let mut bed = Bed::new(&vec![frame; 17]);
                assert_eq!(check_by(simd, &mut bed), *bit, "{simd:?}");
                let seen = if bit & (check::NOT_IP6 | check::SHORT) == 0 { check::EXAMINED6 } else { 0 };
                assert!(bed.flags.iter().all(|flags| *flags == bit | seen), "{simd:?} {bit:#x}");
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
            for simd in sets() {
                let mut bed = Bed::new(&frames);
                prop_assert_eq!(check_by(simd, &mut bed), union);
                prop_assert_eq!(&bed.flags, &expected.flags);
                prop_assert_eq!(&bed.length, &expected.length);
            }
        }
    }
}
