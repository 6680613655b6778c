//! Header kernels over many packets at once.
//!
//! A kernel gets [`Frames`], the addresses of up to a vector of packet heads, and columns of metadata beside them. It
//! touches each header once and writes what later nodes need into the columns, so that they need not touch the packet
//! again.
//!
//! Each kernel exists as portable code and for AVX-512 (with VBMI, as every AVX-512 machine since Ice Lake and Zen 4
//! has), and one text serves SSE4.2 and AVX2; tests hold them equal. The choice is made once: the best that the
//! processor has, or less by `QUIVER_SIMD=scalar|sse4.2|avx2`.
#![allow(unsafe_code)]

/// A kernel by an instruction set, which the processor must have: the one of that set, or the portable one.
macro_rules! by_set {
    ($simd:expr, $kernel:ident($($argument:expr),+), $portable:expr) => {{
        let simd: $crate::batch::Simd = $simd;
        assert!(simd.is_available());
        match simd {
            // SAFETY: the processor has the instructions, as just asserted.
            #[cfg(target_arch = "x86_64")]
            $crate::batch::Simd::Avx512 => unsafe { $crate::batch::avx512::$kernel($($argument),+) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            $crate::batch::Simd::Avx2 => unsafe { $crate::batch::pass::avx2::$kernel($($argument),+) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            $crate::batch::Simd::Sse42 => unsafe { $crate::batch::pass::sse42::$kernel($($argument),+) },
            _ => $portable,
        }
    }};
}

#[cfg(target_arch = "x86_64")]
mod avx512;
mod bare;
mod flows;
mod ip6;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod mpls;
#[cfg(target_arch = "x86_64")]
mod numbers;
#[cfg(target_arch = "x86_64")]
mod pass;
mod scalar;

pub use bare::{Before, ip4_headers, ip4_headers_with, ip6_headers, ip6_headers_with};
pub use flows::{FlowFields, flow_hash_by, flow_hash6_by, flow_hashes, flow_hashes_with, flow_hashes6};
pub use ip6::{Columns6, alike_ip6, alike_ip6_with, ethernet_ip6, ethernet_ip6_with, tagged_ip6, tagged_ip6_with};
pub use mpls::{alike_mpls, alike_mpls_with, ethernet_mpls, ethernet_mpls_with};

use crate::addr::MacAddress;
use crate::ethernet::EtherType;
use crate::vlan::TAG_LEN;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Bytes that must be readable at each offset.
pub const READABLE: usize = 64;
/// Fewer packets than this are processed one by one: they would not fill a register.
const FEW: usize = 8;
/// Bytes that must be writable before each offset.
pub const WRITABLE_BEFORE: usize = 64;

/// What [`ethernet_ip4`] found wrong or remarkable, one bit each. No bit: an IPv4 packet for us, without options,
/// complete, unexpired, with a valid header.
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
    /// The source is never a host's address: in 0/8, 127/8 or 224/3 (RFC 1812 5.3.7, RFC 6890).
    pub const MARTIAN_SOURCE: u32 = 1 << 10;
    /// The destination is in 0/8, 127/8 or 224/3: a martian, a multicast group or the limited broadcast; `target`
    /// distinguishes them.
    pub const SPECIAL_DESTINATION: u32 = 1 << 11;
    /// EtherType is not 0x86dd (of [`super::ethernet_ip6`]).
    pub const NOT_IP6: u32 = 1 << 12;
    /// EtherType is not 0x8847 (of [`super::ethernet_mpls`]).
    pub const NOT_MPLS: u32 = 1 << 13;
    /// No fault: the packet was examined as IPv6, so the bits are valid.
    pub const EXAMINED6: u32 = 1 << 14;
    /// No fault: the packet was examined as IPv4, so the bits above are valid.
    pub const EXAMINED: u32 = 1 << 15;
    /// All of the above. Other packet flags are outside of these bits.
    pub const ALL: u32 = 0xffff;
    /// Input flag: the packet's length column spans several segments, so padding is not removed here.
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

    /// The first 64 bytes at the offset of packet `i`. Bytes beyond the packet's length are left over from earlier
    /// packets.
    #[inline]
    pub fn bytes(&self, i: usize) -> &[u8; READABLE] {
        // SAFETY: readable by the contract of `new`; `&self` excludes writers, which
        // take `&mut self`.
        unsafe { &*self.head(i).cast() }
    }

    /// Prefetches the head of packet `i`, if there is such a packet.
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
    /// There are that many packets.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn heads<const N: usize>(&self, at: usize) -> [*mut u8; N] {
        let mut heads = [self.base; N];
        for (i, head) in heads.iter_mut().enumerate() {
            // SAFETY: both columns have an entry for each packet; the place is within the memory of packet `at + i`
            // (contract of `new`).
            unsafe {
                let (packet, offset) = (*self.packets.as_ptr().add(at + i), *self.offsets.as_ptr().add(at + i));
                *head = self.base.add(packet as usize * self.stride + offset as usize);
            }
        }
        heads
    }

    /// Forwards packet `i`, whose network header is at the offset: writes `rewrite`, a whole link header, right before
    /// it, and counts the hop.
    ///
    /// # Panics
    /// When `rewrite` is longer than [`WRITABLE_BEFORE`].
    #[inline]
    pub fn forward<H: Hop>(&mut self, i: usize, rewrite: &[u8]) {
        assert!(rewrite.len() <= WRITABLE_BEFORE);
        let head = self.head(i);
        // SAFETY: as asserted, in the writable bytes before the head.
        unsafe { std::ptr::copy_nonoverlapping(rewrite.as_ptr(), head.sub(rewrite.len()), rewrite.len()) };
        // SAFETY: 64 bytes from the head are ours.
        unsafe { H::count(head) };
    }

    /// [`Frames::forward`] for all packets, with the same Ethernet header.
    #[inline]
    pub fn forward_all<H: Hop>(&mut self, rewrite: &[u8; 14]) {
        // Two overlapping stores of 8 bytes: one of 16 would overwrite bytes that are not the header's.
        let words = [word(rewrite, 0), word(rewrite, 6)];
        for head in self.places() {
            // SAFETY: the 14 bytes before the head are writable, the hop is counted within the
            // first 64 from it on.
            unsafe {
                head.sub(14).cast::<u64>().write_unaligned(words[0]);
                head.sub(8).cast::<u64>().write_unaligned(words[1]);
                H::count(head);
            }
        }
    }

    /// [`Frames::forward`] for all packets, with the same Ethernet header that has tags.
    #[inline]
    pub fn forward_all_tagged<H: Hop, const N: usize>(&mut self, rewrite: &[u8; N]) {
        let (first, last) = ends(rewrite);
        for head in self.places() {
            // SAFETY: as in `forward_tagged`.
            unsafe { forward_tagged::<H, N>(head, first, last) };
        }
    }

    /// [`Frames::forward`] for packet `i` with an Ethernet header that has tags.
    #[inline(always)]
    pub fn forward_tagged<H: Hop, const N: usize>(&mut self, i: usize, rewrite: &[u8; N]) {
        let (first, last) = ends(rewrite);
        // SAFETY: the N bytes before the head are writable, the hop is counted within the first
        // 64 from it on.
        unsafe { forward_tagged::<H, N>(self.head(i), first, last) };
    }

    /// [`Frames::forward`] for one packet after the other, with the Ethernet header that `next` returns for each, until
    /// it returns none; returns how many.
    #[inline(always)]
    pub fn forward_while<'h, H: Hop>(&mut self, mut next: impl FnMut() -> Option<&'h [u8; 14]>) -> usize {
        for (i, head) in self.places().enumerate() {
            let Some(header) = next() else { return i };
            // SAFETY: as in `forward_all`.
            unsafe {
                head.sub(14).cast::<u64>().write_unaligned(word(header, 0));
                head.sub(8).cast::<u64>().write_unaligned(word(header, 6));
                H::count(head);
            }
        }
        self.len()
    }

    /// Counts a hop of every packet, whose network header is at the offset.
    #[inline]
    pub fn count_hops<H: Hop>(&mut self) {
        // SAFETY: 64 bytes from each head are ours.
        self.places().for_each(|head| unsafe { H::count(head) });
    }

    /// All heads, one after the other.
    #[inline(always)]
    fn places(&self) -> impl Iterator<Item = *mut u8> {
        // SAFETY: each is within the memory of its packet (contract of `new`).
        let place =
            |packet: u32, offset: u16| unsafe { self.base.add(packet as usize * self.stride + offset as usize) };
        self.packets.iter().zip(self.offsets).map(move |(packet, offset)| place(*packet, *offset))
    }
}

/// In which bits packets differ from a pattern, in the eight bytes behind the addresses.
///
/// # Safety
/// 20 bytes are readable at each head.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn differ(heads: &[*mut u8], pattern: u64) -> u64 {
    heads.iter().fold(0, |bits, head| {
        // SAFETY: by contract.
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
unsafe fn forward_tagged<H: Hop, const N: usize>(head: *mut u8, first: u128, last: u64) {
    // SAFETY: by contract; N is 16 to 24, so the two stores cover the N bytes.
    unsafe {
        head.sub(N).cast::<u128>().write_unaligned(first);
        head.sub(8).cast::<u64>().write_unaligned(last);
        H::count(head);
    }
}

/// How a protocol counts a hop of a packet.
pub trait Hop: sealed::Hop {}

/// IPv4 decrements the time to live, and updates the checksum (RFC 1141).
pub enum Hop4 {}
/// IPv6 decrements the hop limit.
pub enum Hop6 {}

impl Hop for Hop4 {}
impl Hop for Hop6 {}

mod sealed {
    pub trait Hop {
        /// # Safety
        /// 12 bytes from `head`, the network header, are writable and not otherwise borrowed.
        unsafe fn count(head: *mut u8);
    }
}

impl sealed::Hop for Hop4 {
    /// Decrements TTL and updates the checksum in one read-modify-write of the word that holds TTL, protocol and
    /// checksum. Taking 1 from the TTL takes 0x0100 from its big-endian word, so the checksum grows by 0x0100 with
    /// end-around carry (RFC 1141); read as little-endian, that is +1 on the upper half. A result of 0xffff becomes 0,
    /// as a new sum would give (RFC 1624 section 3).
    #[inline(always)]
    unsafe fn count(head: *mut u8) {
        // SAFETY: by contract.
        unsafe {
            let word = head.add(8).cast::<u32>();
            let (sum, carry) = u32::from_le(word.read_unaligned()).overflowing_add(0x1_0000 - 1);
            let around = carry | (sum >= 0xffff_0000);
            word.write_unaligned(sum.wrapping_add((around as u32) << 16).to_le());
        }
    }
}

impl sealed::Hop for Hop6 {
    #[inline(always)]
    unsafe fn count(head: *mut u8) {
        // SAFETY: by contract.
        unsafe {
            let limit = head.add(7);
            limit.write(limit.read().wrapping_sub(1));
        }
    }
}

/// Instruction sets that kernels are written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Simd {
    /// Portable code.
    Scalar,
    /// SSE4.2, with POPCNT (x86-64-v2): Atom, N6005.
    Sse42,
    Avx2,
    /// AVX-512 with VBMI2.
    Avx512,
}

impl Simd {
    /// All of them, the least first.
    pub const ALL: [Simd; 4] = [Simd::Scalar, Simd::Sse42, Simd::Avx2, Simd::Avx512];

    /// The best that this processor has, unless `QUIVER_SIMD` limits it.
    pub fn detected() -> Simd {
        static DETECTED: OnceLock<Simd> = OnceLock::new();
        *DETECTED.get_or_init(|| {
            let most = match std::env::var("QUIVER_SIMD").as_deref() {
                Ok("scalar") => Simd::Scalar,
                Ok("sse4.2" | "sse42") => Simd::Sse42,
                Ok("avx2") => Simd::Avx2,
                _ => Simd::Avx512,
            };
            let sets = Simd::ALL.into_iter().rev();
            sets.filter(|set| *set <= most).find(|set| set.is_available()).expect("portable code runs anywhere")
        })
    }

    /// The portable code for packets that would not fill a register, else this set.
    #[inline(always)]
    fn for_so_many(self, packets: usize) -> Simd {
        if packets < FEW { Simd::Scalar } else { self }
    }

    /// Whether this processor has it.
    pub fn is_available(self) -> bool {
        match self {
            Simd::Scalar => true,
            Simd::Sse42 => sse42_available(),
            Simd::Avx2 => avx2_available(),
            Simd::Avx512 => avx512_available(),
        }
    }
}

fn sse42_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("popcnt")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

fn avx2_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt")
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
            && is_x86_feature_detected!("popcnt")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// What is between the addresses of a frame and its EtherType.
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

    /// Complete tags: 0, 1 or 2.
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
    /// Whether the inner tag's type is not 802.1Q.
    #[inline]
    pub fn is_inner_other(self) -> bool {
        self.0 & Shape::INNER_OTHER != 0
    }
    /// The types of its tags as in the eight bytes behind the addresses, read little-endian.
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
    /// At most two tags, and the frame is not truncated.
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
/// When there is no frame.
#[inline]
pub fn first_shape(frames: &Frames<'_>, length: u16) -> (Shape, u32) {
    scalar::shape(frames.bytes(0), length)
}

/// How far frames have the same shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alike {
    /// The first `done` frames have one shape: they have been examined, the others have not been touched.
    pub done: usize,
    /// The union of their faults.
    pub faults: u32,
    /// Their tags have the same VLANs.
    pub one_vlan: bool,
}

/// [`ethernet_ip4`] over frames as long as they have the (sound) shape of the `first`. The control information of
/// tags, where there are any, is written to `tags`.
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
    by_set!(
        simd,
        alike_ip4(frames, station, columns, first, tags),
        scalar::alike_ip4(frames, station, columns, first, tags, 0)
    )
}

/// [`ethernet_ip4`] over frames with VLAN tags, whose `shapes` are known.
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
    by_set!(
        simd,
        tagged_ip4(frames, station, columns, shapes),
        scalar::ethernet_ip4(frames, station, &mut { columns }, 0, |i| shapes[i].tags())
    )
}

/// Columns that [`ethernet_ip4`] reads and writes, one entry for each packet.
pub struct EthernetColumns<'a> {
    /// Bits of [`check`] are set; others are kept.
    pub flags: &'a mut [u32],
    /// Frame bytes; Ethernet padding behind a sound IPv4 packet is removed.
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

/// One pass over Ethernet and IPv4 headers: station, EtherType, and the checks of RFC 1812 5.2.2 and 5.3.7 (version,
/// lengths, checksum, TTL, addresses), into `columns`. Frames start at the Ethernet header. Returns the union of all
/// faults: 0 when every packet is plain.
///
/// # Panics
/// When a column is shorter than the frames are many.
pub fn ethernet_ip4(frames: &Frames<'_>, station: MacAddress, columns: EthernetColumns<'_>) -> u32 {
    ethernet_ip4_with(Simd::detected(), frames, station, columns, |_| {})
}

/// [`ethernet_ip4`] that calls `ahead` with some destinations at a time as soon as they are known, each once and in
/// order, so that what they will need can be prefetched while other headers are examined.
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
    by_set!(simd.for_so_many(frames.len()), ethernet_ip4(frames, station, columns, ahead), {
        let mut columns = columns;
        let faults = scalar::ethernet_ip4(frames, station, &mut columns, 0, |_| 0);
        ahead(columns.target);
        faults
    })
}

#[cfg(test)]
mod tests;
