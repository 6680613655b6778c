//! Each check by itself, and all instruction sets against the portable code.

use super::*;
use crate::checksum;
use proptest::prelude::*;

const STRIDE: usize = 256;
const OFFSET: u16 = 64;
pub(super) const STATION: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

/// Packets in memory with the columns of a vector.
pub(super) struct Bed {
    pub(super) memory: Vec<u8>,
    packets: Vec<u32>,
    offsets: Vec<u16>,
    pub(super) flags: Vec<u32>,
    pub(super) length: Vec<u16>,
    pub(super) target: Vec<u32>,
}

impl Bed {
    pub(super) fn new(frames: &[Vec<u8>]) -> Bed {
        let mut memory = vec![0xa5; STRIDE * frames.len()];
        for (i, frame) in frames.iter().enumerate() {
            let at = i * STRIDE + OFFSET as usize;
            let take = frame.len().min(STRIDE - OFFSET as usize - READABLE);
            memory[at..at + take].copy_from_slice(&frame[..take]);
        }
        Bed {
            memory,
            packets: (0..frames.len() as u32).collect(),
            offsets: vec![OFFSET; frames.len()],
            flags: vec![0; frames.len()],
            length: frames.iter().map(|f| f.len() as u16).collect(),
            target: vec![0; frames.len()],
        }
    }
    pub(super) fn frames(&mut self) -> (Frames<'_>, EthernetColumns<'_>) {
        // SAFETY: each packet has its own 256 bytes, 64 of them before the offset.
        let frames = unsafe { Frames::new(self.memory.as_mut_ptr(), STRIDE, &self.packets, &self.offsets) };
        let columns = EthernetColumns { flags: &mut self.flags, length: &mut self.length, target: &mut self.target };
        (frames, columns)
    }
    fn check(&mut self, simd: Simd) -> u32 {
        let (frames, columns) = self.frames();
        ethernet_ip4_with(simd, &frames, STATION, columns, |_| {})
    }
}

fn plain() -> Vec<u8> {
    let mut frame = vec![0u8; 60];
    frame[..6].copy_from_slice(&STATION.0);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&46u16.to_be_bytes());
    frame[22] = 64;
    frame[23] = 17;
    frame[26..30].copy_from_slice(&[100, 64, 1, 2]);
    frame[30..34].copy_from_slice(&[16, 0, 0, 1]);
    seal(&mut frame);
    frame
}

fn seal(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum = checksum::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

fn from(frame: &mut [u8], address: [u8; 4]) {
    frame[26..30].copy_from_slice(&address);
    seal(frame);
}

fn to(frame: &mut [u8], address: [u8; 4]) {
    frame[30..34].copy_from_slice(&address);
    seal(frame);
}

pub(super) fn sets() -> Vec<Simd> {
    let (sets, lacking): (Vec<_>, Vec<_>) = Simd::ALL.into_iter().partition(|set| set.is_available());
    lacking.iter().for_each(|set| eprintln!("skipped: {set:?} kernels (the processor lacks them)"));
    sets
}

#[test]
fn each_check_has_its_bit() {
    type Spoil = fn(&mut Vec<u8>);
    let cases: [(u32, Spoil); 21] = [
        (0, |_| {}),
        (check::OTHER_STATION, |f| f[5] = 9),
        (check::GROUP, |f| f[0] = 1),
        (check::NOT_IP4, |f| f[13] = 6),
        (check::SHORT, |f| f.truncate(33)),
        (check::VERSION, |f| {
            f[14] = 0x65;
            seal(f)
        }),
        (check::HEADER_LENGTH, |f| {
            f[14] = 0x46;
            seal(f)
        }),
        (check::TOTAL_LENGTH, |f| {
            f[17] = 47;
            seal(f)
        }),
        (check::CHECKSUM, |f| f[24] ^= 1),
        (check::TTL, |f| {
            f[22] = 1;
            seal(f)
        }),
        (check::FRAGMENT, |f| {
            f[20] = 0x20;
            seal(f)
        }),
        (check::MARTIAN_SOURCE, |f| from(f, [0, 1, 2, 3])),
        (check::MARTIAN_SOURCE, |f| from(f, [127, 0, 0, 1])),
        (check::MARTIAN_SOURCE, |f| from(f, [224, 0, 0, 5])),
        (check::MARTIAN_SOURCE, |f| from(f, [255; 4])),
        (0, |f| from(f, [128, 0, 0, 1])),
        (check::SPECIAL_DESTINATION, |f| to(f, [0, 0, 0, 0])),
        (check::SPECIAL_DESTINATION, |f| to(f, [127, 9, 9, 9])),
        (check::SPECIAL_DESTINATION, |f| to(f, [224, 0, 0, 1])),
        (check::SPECIAL_DESTINATION, |f| to(f, [240, 0, 0, 1])),
        (0, |f| to(f, [223, 255, 255, 255])),
    ];
    for simd in sets() {
        for (bit, spoil) in &cases {
            let mut frame = plain();
            spoil(&mut frame);
            let mut bed = Bed::new(&vec![frame; 17]);
            assert_eq!(bed.check(simd), *bit, "{simd:?}");
            let faults = |flags: &u32| flags & !check::EXAMINED;
            assert!(bed.flags.iter().all(|f| faults(f) == *bit), "{simd:?} {bit:#x}");
            let seen = bit & (check::NOT_IP4 | check::SHORT) == 0;
            assert!(bed.flags.iter().all(|f| (f & check::EXAMINED != 0) == seen));
        }
    }
}

#[test]
fn sound_packets_give_their_destination_and_lose_their_padding() {
    for simd in sets() {
        let mut frame = plain();
        frame[16..18].copy_from_slice(&28u16.to_be_bytes());
        seal(&mut frame);
        let mut bed = Bed::new(&vec![frame; 20]);
        bed.flags[3] = check::CHAINED;
        bed.check(simd);
        assert!(bed.target.iter().all(|&t| t == 0x1000_0001));
        assert_eq!((bed.length[0], bed.length[3], bed.length[19]), (42, 60, 42));
    }
}

#[test]
fn forwarding_writes_the_link_header_and_counts_the_hop() {
    let rewrite: [u8; 14] = std::array::from_fn(|i| i as u8 + 1);
    for ttl in [2u8, 64, 255] {
        for id in 0..2000u16 {
            let mut frame = plain();
            frame[22] = ttl;
            frame[18..20].copy_from_slice(&(id.wrapping_mul(331)).to_be_bytes());
            seal(&mut frame);
            let mut bed = Bed::new(&[frame.clone(), frame.clone(), frame]);
            bed.offsets.fill(OFFSET + 14);
            let (mut frames, _) = bed.frames();
            if id % 2 == 0 {
                frames.forward_all::<Hop4>(&rewrite);
            } else {
                (0..3).for_each(|i| frames.forward::<Hop4>(i, &rewrite));
            }
            let bytes = &bed.memory[STRIDE + OFFSET as usize..][..34];
            assert_eq!(bytes[..14], rewrite);
            assert_eq!(bytes[22], ttl - 1);
            let mut anew = bytes.to_vec();
            seal(&mut anew);
            assert_eq!(bytes[24..26], anew[24..26]);
        }
    }
}

#[test]
fn forwarding_writes_link_headers_with_tags() {
    fn forwarded<const N: usize>() {
        let rewrite: [u8; N] = std::array::from_fn(|i| i as u8 + 1);
        let mut bed = Bed::new(&vec![plain(); 3]);
        bed.offsets.fill(OFFSET + 14);
        let (mut frames, _) = bed.frames();
        frames.forward_all_tagged::<Hop4, _>(&rewrite);
        for packet in 0..3 {
            let head = packet * STRIDE + OFFSET as usize + 14;
            assert_eq!(bed.memory[head - N..head], rewrite);
            assert_eq!((bed.memory[head - N - 1], bed.memory[head + 8]), (if N < 14 { 0 } else { 0xa5 }, 63));
        }
    }
    forwarded::<18>();
    forwarded::<22>();
}

#[test]
fn every_first_octet_is_judged_alike() {
    for simd in sets() {
        for octet in 0..=255u8 {
            let is_no_host = octet == 0 || octet == 127 || octet >= 224;
            let mut frame = plain();
            from(&mut frame, [octet, 127, 0, 224]);
            let expected = if is_no_host { check::MARTIAN_SOURCE } else { 0 };
            assert_eq!(Bed::new(&vec![frame; 16]).check(simd), expected, "{simd:?} {octet}");
            let mut frame = plain();
            to(&mut frame, [octet, 127, 0, 224]);
            let expected = if is_no_host { check::SPECIAL_DESTINATION } else { 0 };
            assert_eq!(Bed::new(&vec![frame; 16]).check(simd), expected, "{simd:?} {octet}");
        }
    }
}

/// Tags of all sorts, the same for many frames in a row.
fn stacks() -> impl Strategy<Value = Vec<(u16, u16)>> {
    let tag = (prop_oneof![Just(0x8100u16), Just(0x88a8)], prop_oneof![0u16..3, any::<u16>()]);
    prop::collection::vec(tag, 0..4)
}

pub(super) fn tagged(frame: &[u8], tags: &[(u16, u16)]) -> Vec<u8> {
    let tags: Vec<u8> = tags.iter().flat_map(|(t, c)| [t.to_be_bytes(), c.to_be_bytes()].concat()).collect();
    [&frame[..12], &tags, &frame[12..]].concat()
}

#[test]
fn tags_are_found_and_what_is_behind_them_is_judged_as_without() {
    for simd in sets() {
        for tags in [&[][..], &[(0x8100, 100)], &[(0x88a8, 0xa00a), (0x8100, 20)], &[(0x8100, 7), (0x88a8, 8)]] {
            let mut bed = Bed::new(&vec![tagged(&plain(), tags); 37]);
            let (mut shapes_of, mut control) = (vec![Shape::PLAIN; 37], vec![0; 37]);
            let lengths = bed.length.clone();
            let (frames, columns) = bed.frames();
            shapes(&frames, &lengths, &mut shapes_of, &mut control);
            let word = |at: usize| tags.get(at).map_or(0, |(_, tci): &(u16, u16)| *tci as u32);
            assert!(shapes_of.iter().all(|shape| shape.depth() == tags.len() && shape.is_sound()));
            assert!(control.iter().all(|tags| *tags == word(0) << 16 | word(1)));
            let first = first_shape(&frames, lengths[0]);
            assert_eq!(first, (shapes_of[0], control[0]));
            let mut found = vec![0; 37];
            let alike = alike_ip4_with(simd, &frames, STATION, columns, first, &mut found);
            assert_eq!(alike, Alike { done: 37, faults: 0, one_vlan: true }, "{simd:?} {tags:?}");
            assert!(tags.is_empty() || found == control, "{simd:?} {tags:?}");
            assert!(bed.target.iter().all(|&target| target == 0x1000_0001), "{simd:?} {tags:?}");
            assert!(bed.length.iter().all(|&length| length == 60 + 4 * tags.len() as u16));
        }
    }
}

/// Numbers that look random and are the same each time (Marsaglia's xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// Sound, damaged or no frame at all, with any number of tags; most often with `tags`.
    fn frame(&mut self, tags: &[(u16, u16)]) -> Vec<u8> {
        let mut frame = plain();
        for byte in &mut frame[14..40] {
            if self.one_in(20) {
                *byte = self.below(256) as u8;
            }
        }
        if !self.one_in(10) {
            seal(&mut frame);
        }
        if self.one_in(20) {
            frame[self.0 as usize % 14] ^= 1 << self.below(8);
        }
        let own: Vec<_> = (0..self.below(4)).map(|at| ([0x8100, 0x88a8][at as usize % 2], self.0 as u16)).collect();
        let mut frame = if self.one_in(30) { tagged(&frame, &own) } else { tagged(&frame, tags) };
        if self.one_in(100) {
            frame.iter_mut().for_each(|byte| *byte = self.below(256) as u8);
        }
        if self.one_in(15) {
            frame.truncate(self.below(70) as usize);
        }
        frame
    }
}

#[test]
fn a_million_headers_are_judged_alike_by_all_instruction_sets() {
    const VECTORS: usize = 4096;
    let mut dice = Dice(20_261_122);
    let (mut headers, mut faulty) = (0, 0);
    for vector in 0..VECTORS {
        let tags = [&[][..], &[(0x8100, 100)], &[(0x88a8, 5), (0x8100, 20)]][vector % 3];
        let frames: Vec<_> = (0..256).map(|_| dice.frame(tags)).collect();
        let mut outcomes = Vec::new();
        for simd in sets() {
            let mut bed = Bed::new(&frames);
            let mut told = Vec::new();
            let (heads, columns) = bed.frames();
            let union = ethernet_ip4_with(simd, &heads, STATION, columns, |some| told.extend_from_slice(some));
            assert_eq!(told, bed.target, "{simd:?}: each destination is told once, in order");
            outcomes.push((union, bed.flags, bed.length, bed.target));
            let mut bed = Bed::new(&frames);
            let lengths = bed.length.clone();
            let (mut shapes_of, mut control) = (vec![Shape::PLAIN; 256], vec![0; 256]);
            let (heads, columns) = bed.frames();
            shapes(&heads, &lengths, &mut shapes_of, &mut control);
            let union = tagged_ip4_with(simd, &heads, STATION, columns, &shapes_of);
            outcomes.push((union, bed.flags, bed.length, bed.target));
            let mut bed = Bed::new(&frames);
            let first = (shapes_of[0], control[0]);
            if first.0.is_sound() {
                let (heads, columns) = bed.frames();
                alike_ip4_with(simd, &heads, STATION, columns, first, &mut control);
            }
            outcomes.push((0, bed.flags, bed.length, bed.target));
        }
        let (portable, others) = outcomes.split_at(3);
        others.chunks(3).for_each(|set| assert_eq!(set, portable, "vector {vector}"));
        headers += frames.len();
        faulty += portable[1].1.iter().filter(|flags| **flags != check::EXAMINED).count();
    }
    assert!(headers > 1_000_000 && (headers / 4..headers * 3 / 4).contains(&faulty), "{faulty} of {headers}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn tagged_frames_are_judged_alike_by_simd_and_portable_code(
        runs in prop::collection::vec((stacks(), 1usize..40), 1..6),
        damage in prop::collection::vec((0usize..200, 0usize..64, any::<u8>()), 0..12),
        cuts in prop::collection::vec((0usize..200, 0u16..80), 0..4),
    ) {
        let mut frames: Vec<Vec<u8>> = runs.iter().flat_map(|(tags, n)| vec![tagged(&plain(), tags); *n]).collect();
        let count = frames.len();
        for (i, at, byte) in damage {
            let frame = &mut frames[i % count];
            let at = at % frame.len();
            frame[at] = byte;
        }
        let mut outcomes = Vec::new();
        for simd in sets() {
            let mut bed = Bed::new(&frames);
            for (i, length) in &cuts {
                bed.length[i % count] = *length;
            }
            let lengths = bed.length.clone();
            let (mut shapes_of, mut control, mut found) = (vec![Shape::PLAIN; count], vec![0; count], vec![0; count]);
            let (heads, columns) = bed.frames();
            shapes(&heads, &lengths, &mut shapes_of, &mut control);
            let union = tagged_ip4_with(simd, &heads, STATION, columns, &shapes_of);
            outcomes.push((union, bed.flags.clone(), bed.length.clone(), bed.target.clone()));
            let whole = outcomes[0].clone();
            // As long as frames are alike they are judged the same; the others are left alone.
            let mut bed = Bed::new(&frames);
            bed.length.clone_from(&lengths);
            let (heads, columns) = bed.frames();
            let first = first_shape(&heads, lengths[0]);
            if first.0.is_sound() {
                let alike = alike_ip4_with(simd, &heads, STATION, columns, first, &mut found);
                let same = shapes_of.iter().take_while(|shape| **shape == first.0).count();
                prop_assert_eq!(alike.done, same);
                prop_assert_eq!(&bed.flags[..same], &whole.1[..same]);
                prop_assert_eq!(&bed.length[..same], &whole.2[..same]);
                prop_assert_eq!(&bed.target[..same], &whole.3[..same]);
                prop_assert!(bed.flags[same..].iter().all(|flags| *flags == 0));
                prop_assert_eq!(&bed.length[same..], &lengths[same..]);
                let faults = whole.1[..same].iter().fold(0, |all, flags| all | flags) & !check::EXAMINED;
                prop_assert_eq!(alike.faults, faults);
                let vids = |tags: &u32| tags & 0x0fff_0fff;
                prop_assert_eq!(alike.one_vlan, control[..same].iter().all(|tags| vids(tags) == vids(&first.1)));
                prop_assert!(first.0.depth() == 0 || found[..same] == control[..same]);
            }
        }
        prop_assert!(outcomes.windows(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn instruction_sets_agree(
        seeds in proptest::collection::vec(
            (proptest::collection::vec((0usize..40, any::<u8>()), 0..3), any::<bool>(), 0usize..80, any::<bool>()),
            0..70),
    ) {
        let frames: Vec<_> = seeds.iter().map(|(changes, sealed, length, resized)| {
            let mut frame = plain();
            for (at, value) in changes { frame[*at] = *value; }
            if *sealed { seal(&mut frame); }
            if *resized { frame.resize(*length, 0); }
            frame
        }).collect();
        let mut portable = Bed::new(&frames);
        let union = portable.check(Simd::Scalar);
        for simd in sets() {
            let mut bed = Bed::new(&frames);
            prop_assert_eq!(bed.check(simd), union);
            prop_assert_eq!(&bed.flags, &portable.flags);
            prop_assert_eq!(&bed.length, &portable.length);
            for i in 0..frames.len() {
                if bed.flags[i] & (check::NOT_IP4 | check::SHORT) == 0 {
                    prop_assert_eq!(bed.target[i], portable.target[i]);
                }
            }
        }
    }
}
