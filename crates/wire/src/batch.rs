//! Header kernels over many packets at once.
//!
//! A kernel gets [`Frames`], the places of up to a vector of packet heads, and columns
//! of metadata beside them. It touches each header once and leaves what later nodes
//! need in the columns, so that they need not touch the packet again.
//!
//! Each kernel exists as portable code, for AVX2 and for AVX-512 (with VBMI, as every
//! AVX-512 machine since Ice Lake and Zen 4 has); tests hold them equal. Which one runs is
//! decided once: the best that the processor has, or less by `QUIVER_SIMD=scalar|avx2`.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod flows;
mod scalar;

pub use flows::{flow_hashes, flow_hashes_with};

use crate::addr::MacAddress;
use crate::ethernet::EtherType;
use crate::vlan::TAG_LEN;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Bytes that must be readable at each offset.
pub const READABLE: usize = 64;
/// Fewer packets than this are looked at one by one: no register would be full.
const FEW: usize = 8;
/// Bytes that must be writable before each offset.
pub const WRITABLE_BEFORE: usize = 64;

/// What [`ethernet_ip4`] found wrong or remarkable, a bit each. No bit: an IPv4 packet
/// for us, without options, whole, unexpired, its header sound.
pub mod check {
    /// Addressed to another station (IEEE 802.3 unicast, not this interface's).
    pub const OTHER_STATION: u32 = 1 << 0;
    /// Group-addressed frame, broadcast included.
    pub const GROUP: u32 = 1 << 1;
    /// Ethertype is not 0x0800: none of the IPv4 bits below is meaningful.
    pub const NOT_IP4: u32 = 1 << 2;
    /// Shorter than Ethernet and IPv4 headers together.
    pub const SHORT: u32 = 1 << 3;
    /// Version is not 4.
    pub const VERSION: u32 = 1 << 4;
    /// Header length is not 20: options, or fewer than 5 words. The checksum was not
    /// verified.
    pub const HEADER_LENGTH: u32 = 1 << 5;
    /// Total length is below the header's or beyond the frame.
    pub const TOTAL_LENGTH: u32 = 1 << 6;
    /// Header checksum is wrong.
    pub const CHECKSUM: u32 = 1 << 7;
    /// Time to live is 0 or 1: may be delivered here, not forwarded.
    pub const TTL: u32 = 1 << 8;
    /// A fragment: more to come, or not the first.
    pub const FRAGMENT: u32 = 1 << 9;
    /// The source is no host's address wherever it is seen: in 0/8, 127/8 or 224/3 (RFC 1812
    /// 5.3.7, RFC 6890).
    pub const MARTIAN_SOURCE: u32 = 1 << 10;
    /// The destination is in 0/8, 127/8 or 224/3: a martian, a multicast group or the limited
    /// broadcast, which `target` tells apart.
    pub const SPECIAL_DESTINATION: u32 = 1 << 11;
    /// Not a fault: the packet was seen as IPv4, so that the bits above tell about it.
    pub const EXAMINED: u32 = 1 << 15;
    /// All of the above. Packet flags of other meaning lie outside.
    pub const ALL: u32 = 0xffff;
    /// Input flag: the packet's length column spans several segments, so padding is
    /// not cut off here.
    pub const CHAINED: u32 = 1 << 16;
}

/// The heads of some packets: `base + packet * stride + offset` each.
pub struct Frames<'a> {
    base: *mut u8,
    stride: usize,
    packets: &'a [u32],
    offsets: &'a [u16],
    _memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Frames<'a> {
    /// # Safety
    /// For each `i`, [`WRITABLE_BEFORE`] bytes before and [`READABLE`] bytes from
    /// `base + packets[i] * stride + offsets[i]` lie in memory that this borrow owns
    /// for `'a`; the packets are distinct. `packets` and `offsets` are equally long.
    pub unsafe fn new(base: *mut u8, stride: usize, packets: &'a [u32], offsets: &'a [u16]) -> Frames<'a> {
        debug_assert_eq!(packets.len(), offsets.len());
        Frames { base, stride, packets, offsets, _memory: PhantomData }
    }

    pub fn len(&self) -> usize {
        self.packets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    #[inline(always)]
    fn head(&self, i: usize) -> *mut u8 {
        let place = self.packets[i] as usize * self.stride + self.offsets[i] as usize;
        // SAFETY: within the memory of packet i (contract of `new`).
        unsafe { self.base.add(place) }
    }

    /// The first 64 bytes at the offset of packet `i`. What lies beyond the packet's
    /// length is left over from earlier packets.
    #[inline]
    pub fn bytes(&self, i: usize) -> &[u8; READABLE] {
        // SAFETY: readable by the contract of `new`; `&self` excludes writers, which
        // take `&mut self`.
        unsafe { &*self.head(i).cast() }
    }

    /// Has the head of packet `i` fetched, if there is such a packet.
    #[inline(always)]
    fn prefetch(&self, i: usize) {
        #[cfg(target_arch = "x86_64")]
        if i < self.packets.len() {
            // SAFETY: a hint, which reads and writes nothing.
            unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(self.head(i).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = i;
    }

    /// The heads of `N` packets from `at` on.
    ///
    /// # Safety
    /// There are so many.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn heads<const N: usize>(&self, at: usize) -> [*mut u8; N] {
        let mut heads = [self.base; N];
        for (i, head) in heads.iter_mut().enumerate() {
            // SAFETY: both columns are as long as there are packets; the place is within the memory
            // of packet `at + i` (contract of `new`).
            unsafe {
                let (packet, offset) = (*self.packets.as_ptr().add(at + i), *self.offsets.as_ptr().add(at + i));
                *head = self.base.add(packet as usize * self.stride + offset as usize);
            }
        }
        heads
    }

    /// Forwards packet `i` whose IPv4 header is at the offset: puts `rewrite`, a whole
    /// link header, right before it, and counts the hop: TTL minus one and the
    /// checksum to match (RFC 1141).
    ///
    /// # Panics
    /// When `rewrite` is longer than [`WRITABLE_BEFORE`].
    #[inline]
    pub fn forward_ip4(&mut self, i: usize, rewrite: &[u8]) {
        assert!(rewrite.len() <= WRITABLE_BEFORE);
        let head = self.head(i);
        // SAFETY: as asserted, in the writable bytes before the head.
        unsafe { std::ptr::copy_nonoverlapping(rewrite.as_ptr(), head.sub(rewrite.len()), rewrite.len()) };
        // SAFETY: 64 bytes from the head are ours.
        unsafe { count_hop(head) };
    }

    /// [`Frames::forward_ip4`] for all packets with the same Ethernet header.
    #[inline]
    pub fn forward_ip4_all(&mut self, rewrite: &[u8; 14]) {
        // Two stores of 8 that overlap: one of 16 would reach into bytes that are not the header's.
        let words = [word(rewrite, 0), word(rewrite, 6)];
        for head in self.places() {
            // SAFETY: the 14 bytes before the head are writable, the hop is counted within the
            // first 64 from it on.
            unsafe {
                head.sub(14).cast::<u64>().write_unaligned(words[0]);
                head.sub(8).cast::<u64>().write_unaligned(words[1]);
                count_hop(head);
            }
        }
    }

    /// [`Frames::forward_ip4`] for all packets with the same Ethernet header that has tags.
    #[inline]
    pub fn forward_ip4_all_tagged<const N: usize>(&mut self, rewrite: &[u8; N]) {
        let (first, last) = ends(rewrite);
        for head in self.places() {
            // SAFETY: as in `forward_ip4_tagged`.
            unsafe { forward_tagged::<N>(head, first, last) };
        }
    }

    /// [`Frames::forward_ip4`] for packet `i` with an Ethernet header that has tags.
    #[inline(always)]
    pub fn forward_ip4_tagged<const N: usize>(&mut self, i: usize, rewrite: &[u8; N]) {
        let (first, last) = ends(rewrite);
        // SAFETY: the N bytes before the head are writable, the hop is counted within the first
        // 64 from it on.
        unsafe { forward_tagged::<N>(self.head(i), first, last) };
    }

    /// [`Frames::forward_ip4`] for one packet after the other, each with the Ethernet header that is given for it, as
    /// long as one is; how many.
    #[inline(always)]
    pub fn forward_ip4_while<'h>(&mut self, mut next: impl FnMut() -> Option<&'h [u8; 14]>) -> usize {
        for (i, head) in self.places().enumerate() {
            let Some(header) = next() else { return i };
            // SAFETY: as in `forward_ip4_all`.
            unsafe {
                head.sub(14).cast::<u64>().write_unaligned(word(header, 0));
                head.sub(8).cast::<u64>().write_unaligned(word(header, 6));
                count_hop(head);
            }
        }
        self.len()
    }

    /// All heads in turn.
    #[inline(always)]
    fn places(&self) -> impl Iterator<Item = *mut u8> {
        // SAFETY: each is within the memory of its packet (contract of `new`).
        let place =
            |packet: u32, offset: u16| unsafe { self.base.add(packet as usize * self.stride + offset as usize) };
        self.packets.iter().zip(self.offsets).map(move |(packet, offset)| place(*packet, *offset))
    }
}

/// In what bits packets differ from a pattern, in the eight bytes behind the addresses.
///
/// # Safety
/// 20 bytes are readable at each head.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn differ(heads: &[*mut u8], pattern: u64) -> u64 {
    heads.iter().fold(0, |bits, head| {
        // SAFETY: given by the caller.
        let behind = unsafe { head.add(12).cast::<u64>().read_unaligned() };
        bits | (u64::from_le(behind) ^ pattern)
    })
}

/// Eight bytes of a link header.
#[inline(always)]
fn word(rewrite: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(rewrite[at..at + 8].try_into().expect("8 bytes"))
}

/// The first 16 and the last 8 bytes of a link header, which overlap.
#[inline(always)]
fn ends<const N: usize>(rewrite: &[u8; N]) -> (u128, u64) {
    const { assert!(N >= 16 && N <= 24 && N <= WRITABLE_BEFORE) };
    (u128::from_ne_bytes(rewrite[..16].try_into().expect("16 bytes")), word(rewrite, N - 8))
}

/// # Safety
/// `N` bytes before and 12 after `head` are writable and not otherwise borrowed.
#[inline(always)]
unsafe fn forward_tagged<const N: usize>(head: *mut u8, first: u128, last: u64) {
    // SAFETY: given by the caller; N is 16 to 24, so that the two stores cover the N bytes.
    unsafe {
        head.sub(N).cast::<u128>().write_unaligned(first);
        head.sub(8).cast::<u64>().write_unaligned(last);
        count_hop(head);
    }
}

/// Decrements TTL and updates the checksum in one read-modify-write of the word that
/// holds TTL, protocol and checksum. Taking 1 from the TTL takes 0x0100 from its
/// big-endian word, so the checksum grows by 0x0100 with end-around carry (RFC 1141);
/// seen little-endian that is +1 on the upper half. What comes to 0xffff is 0, as summing
/// anew gives it (RFC 1624 section 3).
///
/// # Safety
/// 12 bytes from `head` are writable and not otherwise borrowed.
#[inline(always)]
unsafe fn count_hop(head: *mut u8) {
    // SAFETY: given by the caller.
    unsafe {
        let word = head.add(8).cast::<u32>();
        let (sum, carry) = u32::from_le(word.read_unaligned()).overflowing_add(0x1_0000 - 1);
        let around = carry | (sum >= 0xffff_0000);
        word.write_unaligned(sum.wrapping_add((around as u32) << 16).to_le());
    }
}

/// Instruction sets that kernels are written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Simd {
    Scalar,
    Avx2,
    Avx512,
}

impl Simd {
    /// The best that this processor has, unless `QUIVER_SIMD` says less.
    pub fn detected() -> Simd {
        static DETECTED: OnceLock<Simd> = OnceLock::new();
        *DETECTED.get_or_init(|| {
            let most = match std::env::var("QUIVER_SIMD").as_deref() {
                Ok("scalar") => Simd::Scalar,
                Ok("avx2") => Simd::Avx2,
                _ => Simd::Avx512,
            };
            let sets = [Simd::Avx512, Simd::Avx2, Simd::Scalar];
            sets.into_iter().find(|set| *set <= most && set.is_available()).expect("portable code runs anywhere")
        })
    }

    /// Whether this processor has it.
    pub fn is_available(self) -> bool {
        match self {
            Simd::Scalar => true,
            Simd::Avx2 => avx2_available(),
            Simd::Avx512 => avx512_available(),
        }
    }
}

fn avx2_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx2")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

fn avx512_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// What stands between the addresses of a frame and its EtherType.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Shape(u8);

impl Shape {
    /// No tag.
    pub const PLAIN: Shape = Shape(0);
    const DEPTH: u8 = 0b11;
    const OUTER_AD: u8 = 1 << 2;
    const INNER_OTHER: u8 = 1 << 3;
    const DEEPER: u8 = 1 << 4;
    const TRUNCATED: u8 = 1 << 5;

    /// Whole tags: 0, 1 or 2.
    #[inline]
    pub fn depth(self) -> usize {
        (self.0 & Shape::DEPTH) as usize
    }
    /// Bytes of the tags.
    #[inline]
    pub fn tags(self) -> usize {
        self.depth() * TAG_LEN
    }
    /// Bytes of the link header.
    #[inline]
    pub fn header_length(self) -> u16 {
        14 + self.tags() as u16
    }
    /// The type of the outer tag: 802.1Q or 802.1ad.
    #[inline]
    pub fn outer_type(self) -> EtherType {
        if self.0 & Shape::OUTER_AD != 0 { EtherType::QINQ } else { EtherType::VLAN }
    }
    /// Whether the inner tag is of another type than 802.1Q.
    #[inline]
    pub fn is_inner_other(self) -> bool {
        self.0 & Shape::INNER_OTHER != 0
    }
    /// The types of its tags as they stand in the eight bytes behind the addresses, read
    /// little-endian.
    #[cfg(target_arch = "x86_64")]
    fn types(self) -> u64 {
        let inner = if self.is_inner_other() { EtherType::QINQ } else { EtherType::VLAN };
        u64::from(self.outer_type().0.swap_bytes()) | u64::from(inner.0.swap_bytes()) << 32
    }
    /// A third tag follows.
    #[inline]
    pub fn is_deeper(self) -> bool {
        self.0 & Shape::DEEPER != 0
    }
    /// Tags and all, it is as frames should be.
    #[inline]
    pub fn is_sound(self) -> bool {
        self.0 & (Shape::DEEPER | Shape::TRUNCATED) == 0
    }
    /// The frame ends within a tag.
    #[inline]
    pub fn is_truncated(self) -> bool {
        self.0 & Shape::TRUNCATED != 0
    }
}

/// Finds the VLAN tags of frames of some `lengths`: each one's shape, and its control
/// information: the outer tag's in the upper half of a word, the inner's in the lower.
///
/// # Panics
/// When a column is shorter than the frames are many.
pub fn shapes(frames: &Frames<'_>, lengths: &[u16], shapes: &mut [Shape], tags: &mut [u32]) {
    let count = frames.len();
    scalar::shapes(frames, &lengths[..count], &mut shapes[..count], &mut tags[..count]);
}

/// The shape of the first frame, which is `length` bytes long, and its tags' control information.
///
/// # Panics
/// When there is none.
#[inline]
pub fn first_shape(frames: &Frames<'_>, length: u16) -> (Shape, u32) {
    scalar::shape(frames.bytes(0), length)
}

/// How far frames are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alike {
    /// So many, from the first on, are of one shape: they have been examined, the others have not
    /// been touched.
    pub done: usize,
    /// The union of their faults.
    pub faults: u32,
    /// Their tags name the same VLANs.
    pub one_vlan: bool,
}

/// [`ethernet_ip4`] over frames as long as they have the (sound) shape of the `first`. With tags
/// their control information is left in `tags`.
///
/// # Panics
/// When a column is shorter than the frames are many.
pub fn alike_ip4(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: EthernetColumns<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    alike_ip4_with(Simd::detected(), frames, station, columns, first, tags)
}

/// [`alike_ip4`] by a chosen instruction set (which the processor must have).
pub fn alike_ip4_with(
    simd: Simd,
    frames: &Frames<'_>,
    station: MacAddress,
    columns: EthernetColumns<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    let (columns, tags) = (columns.first(frames.len()), &mut tags[..frames.len()]);
    debug_assert!(first.0.is_sound());
    match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 => {
            assert!(avx512_available());
            // SAFETY: the processor has the instructions, as just asserted.
            unsafe { avx512::alike_ip4(frames, station, columns, first, tags) }
        }
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => {
            assert!(avx2_available());
            // SAFETY: as above.
            unsafe { avx2::alike_ip4(frames, station, columns, first, tags) }
        }
        _ => scalar::alike_ip4(frames, station, columns, first, tags, 0),
    }
}

/// [`ethernet_ip4`] over frames with VLAN tags, whose `shapes` were found before.
///
/// # Panics
/// When a column is shorter than the frames are many.
pub fn tagged_ip4(frames: &Frames<'_>, station: MacAddress, columns: EthernetColumns<'_>, shapes: &[Shape]) -> u32 {
    tagged_ip4_with(Simd::detected(), frames, station, columns, shapes)
}

/// [`tagged_ip4`] by a chosen instruction set (which the processor must have).
pub fn tagged_ip4_with(
    simd: Simd,
    frames: &Frames<'_>,
    station: MacAddress,
    columns: EthernetColumns<'_>,
    shapes: &[Shape],
) -> u32 {
    let (columns, shapes) = (columns.first(frames.len()), &shapes[..frames.len()]);
    match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 => {
            assert!(avx512_available());
            // SAFETY: the processor has the instructions, as just asserted.
            unsafe { avx512::tagged_ip4(frames, station, columns, shapes) }
        }
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => {
            assert!(avx2_available());
            // SAFETY: as above.
            unsafe { avx2::tagged_ip4(frames, station, columns, shapes) }
        }
        _ => scalar::ethernet_ip4(frames, station, &mut { columns }, 0, |i| shapes[i].tags()),
    }
}

/// Columns that [`ethernet_ip4`] reads and writes, one entry a packet.
pub struct EthernetColumns<'a> {
    /// Bits of [`check`] are set; others are kept.
    pub flags: &'a mut [u32],
    /// Frame bytes; Ethernet padding behind a sound IPv4 packet is cut off.
    pub length: &'a mut [u16],
    /// IPv4 destination, host order (of sound IPv4 packets).
    pub target: &'a mut [u32],
}

impl<'a> EthernetColumns<'a> {
    /// The entries of the first packets.
    fn first(self, count: usize) -> EthernetColumns<'a> {
        EthernetColumns {
            flags: &mut self.flags[..count],
            length: &mut self.length[..count],
            target: &mut self.target[..count],
        }
    }
}

/// One pass over Ethernet and IPv4 headers: station, ethertype, and the checks of
/// RFC 1812 5.2.2 and 5.3.7 (version, lengths, checksum, TTL, addresses), into `columns`. Frames start at
/// the Ethernet header. Says the union of all faults: 0 when every packet is plain.
///
/// # Panics
/// When a column is shorter than the frames are many.
pub fn ethernet_ip4(frames: &Frames<'_>, station: MacAddress, columns: EthernetColumns<'_>) -> u32 {
    ethernet_ip4_with(Simd::detected(), frames, station, columns, |_| {})
}

/// [`ethernet_ip4`] that tells `ahead` some destinations at a time as soon as they are known, each once and in order, so
/// that what they will need can be fetched while other headers are looked at.
///
/// # Panics
/// As [`ethernet_ip4`].
#[inline]
pub fn ethernet_ip4_ahead(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: EthernetColumns<'_>,
    ahead: impl FnMut(&[u32]),
) -> u32 {
    ethernet_ip4_with(Simd::detected(), frames, station, columns, ahead)
}

/// [`ethernet_ip4_ahead`] by a chosen instruction set (which the processor must have).
#[inline]
pub fn ethernet_ip4_with(
    simd: Simd,
    frames: &Frames<'_>,
    station: MacAddress,
    columns: EthernetColumns<'_>,
    mut ahead: impl FnMut(&[u32]),
) -> u32 {
    let columns = columns.first(frames.len());
    match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 if frames.len() >= FEW => {
            assert!(avx512_available());
            // SAFETY: the processor has the instructions, as just asserted.
            unsafe { avx512::ethernet_ip4(frames, station, columns, ahead) }
        }
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 if frames.len() >= FEW => {
            assert!(avx2_available());
            // SAFETY: as above.
            unsafe { avx2::ethernet_ip4(frames, station, columns, ahead) }
        }
        _ => {
            let mut columns = columns;
            let faults = scalar::ethernet_ip4(frames, station, &mut columns, 0, |_| 0);
            ahead(columns.target);
            faults
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;
    use proptest::prelude::*;

    const STRIDE: usize = 256;
    const OFFSET: u16 = 64;
    const STATION: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

    /// Packets in memory with the columns of a vector.
    struct Bed {
        memory: Vec<u8>,
        packets: Vec<u32>,
        offsets: Vec<u16>,
        flags: Vec<u32>,
        length: Vec<u16>,
        target: Vec<u32>,
    }

    impl Bed {
        fn new(frames: &[Vec<u8>]) -> Bed {
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
        fn frames(&mut self) -> (Frames<'_>, EthernetColumns<'_>) {
            // SAFETY: each packet has its own 256 bytes, 64 of them before the offset.
            let frames = unsafe { Frames::new(self.memory.as_mut_ptr(), STRIDE, &self.packets, &self.offsets) };
            let columns =
                EthernetColumns { flags: &mut self.flags, length: &mut self.length, target: &mut self.target };
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

    fn sets() -> Vec<Simd> {
        let (sets, lacking): (Vec<_>, Vec<_>) =
            [Simd::Scalar, Simd::Avx2, Simd::Avx512].into_iter().partition(|set| set.is_available());
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
                    frames.forward_ip4_all(&rewrite);
                } else {
                    (0..3).for_each(|i| frames.forward_ip4(i, &rewrite));
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
            frames.forward_ip4_all_tagged(&rewrite);
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

    fn tagged(frame: &[u8], tags: &[(u16, u16)]) -> Vec<u8> {
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
                (proptest::collection::vec((0usize..40, any::<u8>()), 0..3), any::<bool>(), 0usize..80, any::<bool>()), 0..70),
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
}
