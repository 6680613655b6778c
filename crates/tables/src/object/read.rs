//! Objects as workers read them.

use super::{
    BODY, BUCKETS_IN_LINE, FIX_UP, HOP, Line, Lines, MAX_BUCKETS, MAX_LONG_REWRITE, MAX_OBJECTS, MAX_REWRITE,
    MIDCHAIN_LINES, NEXT, OUT, OWNER, REWRITE, STATE_COMPLETE, STATE_CUSTOM, STATE_LOAD_BALANCE, STATE_MIDCHAIN,
    STATE_REDIRECTED,
};
use crate::leaf::Leaf;
use rcu::Round;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The readers' side: cheap to clone, one for each node that forwards.
#[derive(Clone)]
pub struct ObjectHandle {
    pub(super) lines: Arc<Lines>,
}

/// An object as a worker sees it, for one round.
#[derive(Clone, Copy)]
pub struct ObjectRef<'r> {
    head: u64,
    line: &'r Line,
    lines: &'r [Line],
    index: usize,
}

/// All objects, for one round.
#[derive(Clone, Copy)]
pub struct ObjectsRef<'r> {
    // An array, so that masked indices need no bounds check.
    lines: &'r [Line; MAX_OBJECTS],
}

/// A midchain as a worker sees it, for one round.
#[derive(Clone, Copy)]
pub struct MidchainRef<'r> {
    body: &'r [u8; BODY],
    header: &'r [u8; MAX_LONG_REWRITE],
    length: u8,
}

impl<'r> MidchainRef<'r> {
    /// The header to write. What is behind it up to 128 bytes can be read, so that it can be copied in wide pieces.
    #[inline(always)]
    pub fn rewrite(&self) -> (&'r [u8; MAX_LONG_REWRITE], usize) {
        (self.header, self.length.into())
    }

    /// Where the packet goes with its header.
    #[inline(always)]
    pub fn next(&self) -> Leaf {
        Leaf(u32::from_ne_bytes(*self.body[NEXT..].first_chunk().expect("the body is longer")))
    }

    /// The function that completes the header, by the owner's numbers; 0: none.
    #[inline(always)]
    pub fn fix_up(&self) -> u16 {
        u16::from_ne_bytes(*self.body[FIX_UP..].first_chunk().expect("the body is longer"))
    }

    /// The edge that the node for midchains uses.
    #[inline(always)]
    pub fn out(&self) -> u16 {
        u16::from_ne_bytes(*self.body[OUT..].first_chunk().expect("the body is longer"))
    }
}

impl ObjectHandle {
    /// Borrows all objects, for nodes that look up many of them.
    #[inline(always)]
    pub fn load<'r>(&'r self, _round: &'r Round<'_>) -> ObjectsRef<'r> {
        ObjectsRef { lines: (&*self.lines.lines).try_into().expect("length set in new") }
    }

    /// The object of a leaf: see [`ObjectsRef::get`].
    #[inline(always)]
    pub fn get<'r>(&'r self, round: &'r Round<'_>, index: u32) -> ObjectRef<'r> {
        self.load(round).get(index)
    }
}

impl<'r> ObjectsRef<'r> {
    /// Prefetches the object of a leaf.
    #[inline(always)]
    pub fn prefetch(&self, index: u32) {
        let line = &self.lines[index as usize & (MAX_OBJECTS - 1)];
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint, which reads and writes nothing.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(line).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }

    /// The object of a leaf. An index that was never allocated reads as an empty object: incomplete, without buckets.
    #[inline(always)]
    pub fn get(&self, index: u32) -> ObjectRef<'r> {
        let lines = self.lines;
        let mut at = index as usize & (MAX_OBJECTS - 1);
        let mut head = lines[at].head.load(Ordering::Acquire);
        if head as u8 == STATE_REDIRECTED {
            at = (head >> 32) as usize & (MAX_OBJECTS - 1);
            head = lines[at].head.load(Ordering::Acquire);
        }
        ObjectRef { head, line: &lines[at], lines, index: at }
    }
}

impl<'r> ObjectRef<'r> {
    #[inline(always)]
    fn body(&self) -> &'r [u8; BODY] {
        // SAFETY: the writer does not touch this body until this worker has begun another round.
        unsafe { &*self.line.body.get() }
    }

    /// Whether packets can be sent by an adjacency: the link header is known.
    #[inline(always)]
    pub fn is_complete(&self) -> bool {
        self.head as u8 == STATE_COMPLETE
    }

    #[inline(always)]
    pub fn edge(&self) -> u16 {
        (self.head >> 16) as u16
    }

    #[inline(always)]
    pub fn mtu(&self) -> u16 {
        (self.head >> 32) as u16
    }

    /// The owner's bits.
    #[inline(always)]
    pub fn owner(&self) -> u16 {
        (self.head >> OWNER) as u16
    }

    /// Which interface an adjacency or a midchain sends by.
    pub fn interface(&self) -> u32 {
        let body = self.body();
        u32::from_ne_bytes([body[0], body[1], body[2], body[3]])
    }

    /// The next hop, of an adjacency for IPv4.
    pub fn next_hop(&self) -> Ipv4Addr {
        let body = self.body();
        Ipv4Addr::new(body[HOP], body[HOP + 1], body[HOP + 2], body[HOP + 3])
    }

    /// The next hop, of an adjacency for IPv6.
    pub fn next_hop6(&self) -> Ipv6Addr {
        let hop: &[u8; 16] = self.body()[HOP..].first_chunk().expect("the body is longer");
        Ipv6Addr::from(*hop)
    }

    /// The link header.
    #[inline(always)]
    pub fn rewrite(&self) -> &'r [u8] {
        let length = ((self.head >> 8) as u8 as usize).min(MAX_REWRITE);
        &self.body()[REWRITE..REWRITE + length]
    }

    /// What a midchain says, or `None` when the object is none at present.
    #[inline(always)]
    pub fn midchain(&self) -> Option<MidchainRef<'r>> {
        let lines = self.lines.get(self.index + 1..self.index + MIDCHAIN_LINES)?;
        if self.head as u8 != STATE_MIDCHAIN {
            return None;
        }
        // SAFETY: as in `body`, for whole lines; there are enough of them, and any bytes are valid.
        let header = unsafe { &*lines.as_ptr().cast::<[u8; MAX_LONG_REWRITE]>() };
        Some(MidchainRef { body: self.body(), header, length: ((self.head >> 8) as u8).min(MAX_LONG_REWRITE as u8) })
    }

    /// The bytes of a custom object; those behind its own are zeros. Empty when the object is none at present.
    #[inline(always)]
    pub fn custom(&self) -> &'r [u8] {
        match self.head as u8 {
            STATE_CUSTOM => self.body(),
            _ => &[],
        }
    }

    /// The link header, if it is Ethernet without tags.
    #[inline(always)]
    pub fn ethernet(&self) -> Option<&'r [u8; 14]> {
        ((self.head >> 8) as u8 == 14).then(|| self.body()[REWRITE..REWRITE + 14].try_into().expect("14 bytes"))
    }

    /// How many buckets it has, if it is a load balance.
    #[inline]
    fn bucket_count(&self) -> usize {
        1 << ((self.head >> 8) as u8).min(MAX_BUCKETS.ilog2() as u8)
    }

    /// Which fields identify a flow for this load balance; 0: the default.
    #[inline]
    pub fn flow(&self) -> u16 {
        (self.head >> 16) as u16
    }

    /// The leaves of all buckets of a load balance.
    pub fn buckets(&self) -> impl Iterator<Item = Leaf> + '_ {
        (0..self.bucket_count() as u32).map(|bucket| self.bucket(bucket))
    }

    /// The link header, if it is Ethernet with one tag.
    #[inline(always)]
    pub fn ethernet_tagged(&self) -> Option<&'r [u8; 18]> {
        ((self.head >> 8) as u8 == 18).then(|| self.body()[REWRITE..REWRITE + 18].try_into().expect("18 bytes"))
    }

    /// The link header, if it is Ethernet with two tags.
    #[inline(always)]
    pub fn ethernet_double_tagged(&self) -> Option<&'r [u8; 22]> {
        ((self.head >> 8) as u8 == 22).then(|| self.body()[REWRITE..REWRITE + 22].try_into().expect("22 bytes"))
    }

    /// The leaf of all flows, of a load balance over one path.
    #[inline]
    pub fn only_bucket(&self) -> Option<Leaf> {
        (self.head as u16 == u16::from(STATE_LOAD_BALANCE)).then(|| self.bucket(0))
    }

    /// The leaf for a flow, by its hash.
    #[inline]
    pub fn bucket(&self, hash: u32) -> Leaf {
        if self.head as u8 != STATE_LOAD_BALANCE {
            return Leaf::MISS;
        }
        let count = self.bucket_count();
        let bucket = hash as usize & (count - 1);
        let Some(line) = self.lines.get(self.index + bucket / BUCKETS_IN_LINE) else {
            return Leaf::MISS;
        };
        // SAFETY: as in `body`.
        let body = unsafe { &*line.body.get() };
        let at = bucket % BUCKETS_IN_LINE * 4;
        Leaf(u32::from_ne_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]))
    }
}
