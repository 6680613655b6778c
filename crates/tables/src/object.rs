//! Forwarding objects: what a [`Leaf`] names. One object serves all prefixes that are forwarded alike; one cache line
//! holds all that a worker needs to forward.
//!
//! A line is a head word, read and written atomically, and a body. For a single path the body is the link header to
//! write; for several paths, the buckets over which flows are spread. Workers read the head first and the body after
//! it.
//!
//! Changing an object under a million prefixes is one atomic write: [`Objects::replace`] fills a spare line and turns
//! the old head into a redirection to it. When every worker has begun a new round, no worker can be reading the old
//! body. It is then overwritten with the new one, and the head made direct again.
#![allow(unsafe_code)]

use crate::leaf::Leaf;
use crate::memory::{Pages, Reserved, SYSTEM_PAGE, Zeroed};
use rcu::{Domain, Round};
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Most objects.
pub const MAX_OBJECTS: usize = 1 << 20;
/// Longest link header that is written in front of a packet: Ethernet with two tags and
/// room for a few labels.
pub const MAX_REWRITE: usize = 36;
/// Most labels that are pushed on a packet: as many as fit behind an Ethernet header.
pub const MAX_LABELS: usize = (MAX_REWRITE - 14) / 4;
/// Most buckets of a load balance.
pub const MAX_BUCKETS: usize = 64;
/// Buckets in one line.
const BUCKETS_IN_LINE: usize = 8;
const BODY: usize = 56;
/// Offset of the next hop in an adjacency's body: the interface is before it, the link header behind it.
const HOP: usize = 4;
const REWRITE: usize = HOP + 16;

/// Kinds of leaf. A lookup node gives each kind an edge of its own.
pub mod kind {
    /// No route.
    pub const MISS: u8 = 0;
    /// Discard silently.
    pub const DROP: u8 = 1;
    /// Through an adjacency: one next hop on one interface.
    pub const ADJACENCY: u8 = 2;
    /// To a neighbour on an attached network that is not known yet.
    pub const GLEAN: u8 = 3;
    /// To this router.
    pub const RECEIVE: u8 = 4;
    /// Over several paths.
    pub const LOAD_BALANCE: u8 = 5;
    /// To the host's control plane.
    pub const PUNT: u8 = 6;
    /// Discard, and notify the sender that there is no route.
    pub const UNREACHABLE: u8 = 7;
    /// Discard, and notify the sender that forwarding is prohibited.
    pub const PROHIBIT: u8 = 8;
    /// To all hosts of an attached network; not forwarded.
    pub const BROADCAST: u8 = 9;
    /// Look up in another table, the leaf's index.
    pub const LOOKUP: u8 = 10;
    /// Count, and then forward by the leaf that is stored at this place (the leaf's index).
    pub const COUNTED: u8 = 11;
    /// For labels: pop it, and send the packet inside by an adjacency.
    pub const POP: u8 = 12;
    /// For labels: pop it, and look up the packet inside in an IP table.
    pub const POP_LOOKUP: u8 = 13;
    /// For labels: swap it for the one beside the leaf, and send by an adjacency.
    pub const SWAP: u8 = 14;
    /// How many kinds there can be.
    pub const COUNT: usize = 16;
}

/// An object as control describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    Adjacency(Adjacency),
    LoadBalance(LoadBalance),
}

/// Where packets of several next hops go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadBalance {
    /// Leaves to spread flows over: a power of two of them, at most [`MAX_BUCKETS`].
    pub buckets: Vec<Leaf>,
    /// Which fields identify a flow, for the node that reads this; 0: the default.
    pub flow: u16,
}

/// Where packets of one next hop go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adjacency {
    /// The edge that the forwarding node uses: to the interface's output or, when the neighbour is unknown, to the node
    /// that resolves it.
    pub edge: u16,
    pub complete: bool,
    /// Largest network-layer packet that the interface carries.
    pub mtu: u16,
    pub interface: u32,
    /// The next hop, for the node that must resolve it.
    pub next_hop: IpAddr,
    /// The link header, at most [`MAX_REWRITE`] bytes; empty when not complete.
    pub rewrite: Vec<u8>,
    /// Number of label stack entries at its end.
    pub labels: u8,
    /// How many of them, from the bottom up, copy time to live and traffic class from the packet under them.
    pub copies: u8,
    /// Bits of [`mark`].
    pub marks: u8,
}

/// Further properties of an adjacency.
pub mod mark {
    /// A label that is popped passes its time to live and traffic class to the header below (RFC 3443, uniform model).
    pub const UNIFORM: u8 = 1;
    /// The neighbour was not confirmed recently.
    pub const STALE: u8 = 2;
}

/// There is no room for another object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectsFull;

impl std::fmt::Display for ObjectsFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no room for another forwarding object (at most {MAX_OBJECTS})")
    }
}
impl std::error::Error for ObjectsFull {}

#[repr(C, align(64))]
struct Line {
    head: AtomicU64,
    body: UnsafeCell<[u8; BODY]>,
}
const _: () = assert!(size_of::<Line>() == 64);

// SAFETY: zeros are a valid line (an atomic and bytes), and dropping it does nothing.
unsafe impl Zeroed for Line {}
// SAFETY: the body is written only while no reader can be reading it (module docs).
unsafe impl Sync for Line {}

// The head word, from the lowest byte: state, rewrite length or log2 of buckets, edge or the flow fields (16 bits), MTU
// (16 bits), number of labels and of those that copy (4 bits each), marks. A redirection has the index of its line in
// the upper half.
const STATE_COMPLETE: u8 = 1;
const STATE_INCOMPLETE: u8 = 2;
const STATE_LOAD_BALANCE: u8 = 3;
const STATE_REDIRECTED: u8 = 4;
const LABELS: u32 = 48;
const COPIES: u32 = 52;
const MARKS: u32 = 56;

fn head_of(object: &Object) -> u64 {
    let word = |state: u8, size: u8, edge: u16, mtu: u16| {
        state as u64 | (size as u64) << 8 | (edge as u64) << 16 | (mtu as u64) << 32
    };
    let labels = |a: &Adjacency| (a.labels as u64) << LABELS | (a.copies as u64) << COPIES | (a.marks as u64) << MARKS;
    match object {
        Object::Adjacency(a) if a.complete => word(STATE_COMPLETE, a.rewrite.len() as u8, a.edge, a.mtu) | labels(a),
        Object::Adjacency(a) => word(STATE_INCOMPLETE, 0, a.edge, a.mtu) | labels(a),
        Object::LoadBalance(b) => word(STATE_LOAD_BALANCE, b.buckets.len().ilog2() as u8, b.flow, 0),
    }
}

/// The bodies of an object's lines: one line, except for load balances with many buckets.
fn bodies_of(object: &Object) -> Vec<[u8; BODY]> {
    match object {
        Object::Adjacency(a) => {
            let mut body = [0; BODY];
            body[..4].copy_from_slice(&a.interface.to_ne_bytes());
            match a.next_hop {
                IpAddr::V4(hop) => body[HOP..HOP + 4].copy_from_slice(&hop.octets()),
                IpAddr::V6(hop) => body[HOP..REWRITE].copy_from_slice(&hop.octets()),
            }
            body[REWRITE..REWRITE + a.rewrite.len()].copy_from_slice(&a.rewrite);
            vec![body]
        }
        Object::LoadBalance(LoadBalance { buckets, .. }) => {
            let line = |leaves: &[Leaf]| {
                let mut body = [0; BODY];
                for (leaf, place) in leaves.iter().zip(body.chunks_exact_mut(4)) {
                    place.copy_from_slice(&leaf.0.to_ne_bytes());
                }
                body
            };
            buckets.chunks(BUCKETS_IN_LINE).map(line).collect()
        }
    }
}

/// What the writer and the readers share.
struct Lines {
    lines: Reserved<Line>,
    spare: Mutex<Spare>,
}

/// The free lines, and the lines that replaced objects use meanwhile.
#[derive(Default)]
struct Spare {
    /// Free runs of lines, by length.
    free: HashMap<usize, Vec<u32>>,
    /// Lines never used start here.
    fresh: usize,
    /// Redirected objects: the run of lines that each uses meanwhile, and its length.
    standing_in: HashMap<u32, (u32, usize)>,
    /// The last change that was prepared for each object: older changes are ignored.
    changes: HashMap<u32, u64>,
    last_change: u64,
}

impl Spare {
    /// Makes free runs at the end fresh again.
    fn forget_last(&mut self) {
        let runs = self.free.iter().flat_map(|(run, begins)| begins.iter().map(|begin| (*begin, *run)));
        let mut runs: Vec<(u32, usize)> = runs.collect();
        runs.sort_unstable();
        while let Some(&(begin, run)) = runs.last()
            && begin as usize + run == self.fresh
        {
            self.fresh = begin as usize;
            runs.pop();
        }
        self.free.clear();
        self.free.shrink_to_fit();
        for (begin, run) in runs {
            self.free.entry(run).or_default().push(begin);
        }
    }
}

impl Lines {
    fn take(&self, run: usize) -> Result<u32, ObjectsFull> {
        let mut spare = self.spare.lock().expect("no panic under this lock");
        if let Some(index) = spare.free.get_mut(&run).and_then(Vec::pop) {
            return Ok(index);
        }
        if spare.fresh + run > self.lines.len() {
            return Err(ObjectsFull);
        }
        spare.fresh += run;
        Ok((spare.fresh - run) as u32)
    }

    fn give_back(&self, index: u32, run: usize) {
        let mut spare = self.spare.lock().expect("no panic under this lock");
        spare.free.entry(run).or_default().push(index);
    }

    /// Writes an object into lines that no reader can be reading, the head last.
    fn write(&self, index: u32, object: &Object) {
        for (line, body) in self.lines[index as usize..].iter().zip(bodies_of(object)) {
            // SAFETY: by contract no reader is reading this body, and there is one writer.
            unsafe { *line.body.get() = body };
        }
        self.lines[index as usize].head.store(head_of(object), Ordering::Release);
    }
}

/// How many lines an object takes.
fn run_of(object: &Object) -> usize {
    match object {
        Object::Adjacency(_) => 1,
        Object::LoadBalance(b) => b.buckets.len().div_ceil(BUCKETS_IN_LINE),
    }
}

/// The control side: makes, changes and frees objects. One writer.
pub struct Objects {
    lines: Arc<Lines>,
    domain: Arc<Domain>,
    /// The number of lines that each object has at its own place.
    runs: HashMap<u32, usize>,
}

impl Objects {
    /// # Errors
    /// When the address space cannot be reserved.
    pub fn new(domain: &Arc<Domain>) -> io::Result<Objects> {
        let lines = Lines { lines: Reserved::new(MAX_OBJECTS, Pages::Small)?, spare: Mutex::default() };
        Ok(Objects { lines: Arc::new(lines), domain: domain.clone(), runs: HashMap::new() })
    }

    /// Frees the memory of removed objects: that of the bookkeeping, and that of the free lines behind the last one in
    /// use.
    pub fn trim(&mut self) {
        self.runs.shrink_to_fit();
        let mut spare = self.lines.spare.lock().expect("no panic under this lock");
        spare.changes.shrink_to_fit();
        spare.standing_in.shrink_to_fit();
        let before = spare.fresh;
        spare.forget_last();
        // Only whole system pages.
        let up = |lines: usize| lines.next_multiple_of(SYSTEM_PAGE / size_of::<Line>());
        self.lines.lines.give_back(up(spare.fresh)..up(before));
    }

    /// The readers' side.
    pub fn handle(&self) -> ObjectHandle {
        ObjectHandle { lines: self.lines.clone() }
    }

    /// Objects in use.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Makes an object and returns its index.
    ///
    /// # Errors
    /// When there is no room.
    ///
    /// # Panics
    /// When the object exceeds its bounds (rewrite length, number of buckets).
    pub fn insert(&mut self, object: &Object) -> Result<u32, ObjectsFull> {
        self.insert_with_room(object, 1)
    }

    /// As [`Objects::insert`], with room for this many buckets, in case it is or becomes a load balance.
    ///
    /// # Errors
    /// As [`Objects::insert`].
    pub fn insert_with_room(&mut self, object: &Object, buckets: usize) -> Result<u32, ObjectsFull> {
        check(object);
        let run = run_of(object).max(buckets.div_ceil(BUCKETS_IN_LINE));
        let index = self.lines.take(run)?;
        self.lines.write(index, object);
        self.runs.insert(index, run);
        Ok(index)
    }

    /// Changes an object; workers see the change as one step.
    ///
    /// # Errors
    /// When there is no room for the line that it uses meanwhile; nothing has changed.
    ///
    /// # Panics
    /// When there is no such object, or the new one needs more lines than the old.
    pub fn replace(&mut self, index: u32, object: &Object) -> Result<(), ObjectsFull> {
        self.prepare(index, object).map(Replacement::carry_out)
    }

    /// Prepares a change for later. The caller chooses the time: a worker between two rounds changes what it will find
    /// in the next round. If the object is changed or removed first, the prepared change has no effect.
    ///
    /// # Errors
    /// When there is no room for the line that it uses meanwhile.
    ///
    /// # Panics
    /// When there is no such object, or the new one needs more lines than the old.
    pub fn prepare(&mut self, index: u32, object: &Object) -> Result<Replacement, ObjectsFull> {
        check(object);
        let run = run_of(object);
        assert!(run <= self.runs[&index], "an object cannot grow in place");
        let stand_in = self.lines.take(run)?;
        self.lines.write(stand_in, object);
        let mut spare = self.lines.spare.lock().expect("no panic under this lock");
        spare.last_change += 1;
        let change = spare.last_change;
        spare.changes.insert(index, change);
        drop(spare);
        let (lines, domain) = (self.lines.clone(), self.domain.clone());
        Ok(Replacement { lines, domain, index, stand_in, run, object: object.clone(), change })
    }

    /// How many buckets an object has room for.
    pub fn room(&self, index: u32) -> usize {
        self.runs.get(&index).map_or(0, |run| run * BUCKETS_IN_LINE)
    }

    /// Frees an object that no table refers to any more.
    ///
    /// # Panics
    /// When there is no such object.
    pub fn remove(&mut self, index: u32) {
        let run = self.runs.remove(&index).expect("objects are removed once");
        let stand_in = {
            let mut spare = self.lines.spare.lock().expect("no panic under this lock");
            spare.changes.remove(&index);
            spare.standing_in.remove(&index)
        };
        let lines = self.lines.clone();
        self.domain.retire(move || {
            lines.give_back(index, run);
            if let Some((stand_in, run)) = stand_in {
                lines.give_back(stand_in, run);
            }
        });
    }
}

/// A prepared change of an object.
pub struct Replacement {
    lines: Arc<Lines>,
    domain: Arc<Domain>,
    index: u32,
    stand_in: u32,
    run: usize,
    object: Object,
    change: u64,
}

impl Replacement {
    /// Makes the change; workers see it as one step.
    pub fn carry_out(self) {
        let Replacement { lines, domain, index, stand_in, run, object, change } = self;
        let previous = {
            let mut spare = lines.spare.lock().expect("no panic under this lock");
            if spare.changes.get(&index) != Some(&change) {
                spare.free.entry(run).or_default().push(stand_in);
                return;
            }
            let redirection = STATE_REDIRECTED as u64 | (stand_in as u64) << 32;
            lines.lines[index as usize].head.store(redirection, Ordering::Release);
            spare.standing_in.insert(index, (stand_in, run))
        };
        if let Some((previous, run)) = previous {
            let lines = lines.clone();
            domain.retire(move || lines.give_back(previous, run));
        }
        // No lasting Arc cycle: the domain drops the action after running it.
        let weak = Arc::downgrade(&domain);
        domain.retire(move || {
            {
                let mut spare = lines.spare.lock().expect("no panic under this lock");
                if spare.standing_in.get(&index) != Some(&(stand_in, run)) {
                    return; // replaced again, or freed
                }
                spare.standing_in.remove(&index);
            }
            lines.write(index, &object);
            if let Some(domain) = weak.upgrade() {
                domain.retire(move || lines.give_back(stand_in, run));
            }
        });
    }
}

fn check(object: &Object) {
    match object {
        Object::Adjacency(a) => {
            assert!(a.rewrite.len() <= MAX_REWRITE && a.complete != a.rewrite.is_empty());
            assert!(usize::from(a.labels) <= MAX_LABELS && a.copies <= a.labels);
        }
        Object::LoadBalance(LoadBalance { buckets: b, .. }) => {
            assert!(b.len().is_power_of_two() && b.len() <= MAX_BUCKETS)
        }
    }
}

/// The readers' side: cheap to clone, one for each node that forwards.
#[derive(Clone)]
pub struct ObjectHandle {
    lines: Arc<Lines>,
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

    /// Whether packets can be sent: the link header is known.
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

    /// Number of label stack entries at the end of the link header.
    #[inline(always)]
    pub fn labels(&self) -> usize {
        (self.head >> LABELS) as usize & 0xf
    }

    /// How many of these copy time to live and traffic class.
    #[inline(always)]
    pub fn copies(&self) -> usize {
        (self.head >> COPIES) as usize & 0xf
    }

    /// Bits of [`mark`].
    #[inline(always)]
    pub fn marks(&self) -> u8 {
        (self.head >> MARKS) as u8
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_prepared_change_comes_into_force_when_carried_out_unless_another_was_made() {
        let domain = Domain::new(1);
        let mut objects = Objects::new(&domain).unwrap();
        let handle = objects.handle();
        let mut reader = domain.register().unwrap();
        let index = objects.insert(&adjacency(1)).unwrap();
        let mut edge = || {
            domain.collect();
            handle.get(&reader.round(), index).edge()
        };
        let later = objects.prepare(index, &adjacency(2)).unwrap();
        assert_eq!(edge(), 1);
        later.carry_out();
        assert_eq!((edge(), edge(), edge()), (2, 2, 2));
        let too_late = objects.prepare(index, &adjacency(3)).unwrap();
        objects.replace(index, &adjacency(4)).unwrap();
        too_late.carry_out();
        assert_eq!((edge(), edge(), edge()), (4, 4, 4));
        let too_late = objects.prepare(index, &adjacency(5)).unwrap();
        objects.remove(index);
        let other = objects.insert(&adjacency(6)).unwrap();
        too_late.carry_out();
        assert_eq!(handle.get(&reader.round(), other).edge(), 6);
    }

    fn adjacency(value: u8) -> Object {
        Object::Adjacency(Adjacency {
            edge: value as u16,
            complete: true,
            mtu: 1000 + value as u16,
            interface: value as u32,
            next_hop: Ipv4Addr::new(0, 0, 0, 7).into(),
            rewrite: vec![value; 14],
            labels: 1 + value % 3,
            copies: value % 2,
            marks: value,
        })
    }

    #[test]
    fn the_lines_of_objects_that_are_gone_go_back() {
        let domain = Domain::new(1);
        let mut objects = Objects::new(&domain).unwrap();
        const MANY: usize = 20_000;
        let indices: Vec<u32> = (0..MANY).map(|_| objects.insert(&adjacency(1)).unwrap()).collect();
        indices.iter().for_each(|index| objects.replace(*index, &adjacency(2)).unwrap());
        // Two objects stay, and with them the lines between; one with a prepared change has its new line far behind.
        let (kept, changed) = (indices[0], indices[700]);
        let later = objects.prepare(changed, &adjacency(4)).unwrap();
        for index in indices.iter().filter(|index| ![kept, changed].contains(*index)) {
            objects.remove(*index);
        }
        domain.collect_all();
        objects.trim();
        assert!(objects.lines.lines.resident() > MANY * size_of::<Line>());
        later.carry_out();
        domain.collect_all();
        objects.trim();
        assert!(objects.lines.lines.resident() <= 1024 * size_of::<Line>());
        // No index is allocated twice.
        let again: BTreeSet<u32> = (0..MANY).map(|_| objects.insert(&adjacency(3)).unwrap()).collect();
        assert!(again.len() == MANY && !again.contains(&kept) && !again.contains(&changed));
        let (mut reader, handle) = (domain.register().unwrap(), objects.handle());
        let round = reader.round();
        assert_eq!((handle.get(&round, kept).edge(), handle.get(&round, changed).edge()), (2, 4));
        assert!(again.iter().all(|index| handle.get(&round, *index).edge() == 3));
    }

    #[test]
    fn an_object_reads_back_as_it_was_made() {
        let domain = Domain::new(1);
        let mut objects = Objects::new(&domain).unwrap();
        let index = objects.insert(&adjacency(9)).unwrap();
        let mut reader = domain.register().unwrap();
        let handle = objects.handle();
        let round = reader.round();
        let object = handle.get(&round, index);
        assert!(object.is_complete());
        assert_eq!(
            (object.edge(), object.mtu(), object.interface(), object.next_hop()),
            (9, 1009, 9, Ipv4Addr::new(0, 0, 0, 7))
        );
        assert_eq!(object.rewrite(), [9; 14]);
        assert_eq!(object.ethernet(), Some(&[9; 14]));
        assert_eq!(object.bucket(1), Leaf::MISS);
        let index = objects.insert(&adjacency(5)).unwrap();
        let object = handle.get(&round, index);
        assert_eq!((object.mtu(), object.labels(), object.copies(), object.marks()), (1005, 3, 1, 5));
    }

    #[test]
    fn buckets_of_every_size_are_found() {
        let domain = Domain::new(1);
        let mut objects = Objects::new(&domain).unwrap();
        let mut reader = domain.register().unwrap();
        let handle = objects.handle();
        for log in 0..=6 {
            let leaves: Vec<_> = (0..1 << log).map(|i| Leaf::new(kind::ADJACENCY, i)).collect();
            let index =
                objects.insert(&Object::LoadBalance(LoadBalance { buckets: leaves.clone(), flow: 0x17f })).unwrap();
            let round = reader.round();
            for hash in 0..200u32 {
                let expected = leaves[hash as usize % leaves.len()];
                assert_eq!(handle.get(&round, index).bucket(hash), expected);
            }
            assert_eq!(handle.get(&round, index).buckets().collect::<Vec<_>>(), leaves);
        }
    }

    #[test]
    fn lines_come_back_after_replacing_and_removing() {
        let domain = Domain::new(1);
        let mut objects = Objects::new(&domain).unwrap();
        for n in 0..1000u32 {
            let index = objects.insert(&adjacency(n as u8)).unwrap();
            objects.replace(index, &adjacency(1)).unwrap();
            if n % 3 == 0 {
                objects.replace(index, &adjacency(2)).unwrap();
            }
            if n % 2 == 0 {
                domain.collect();
            }
            objects.remove(index);
            domain.collect();
            domain.collect();
        }
        assert!(objects.is_empty());
        let spare = objects.lines.spare.lock().unwrap();
        assert!(spare.standing_in.is_empty());
        assert_eq!(spare.free.values().map(Vec::len).sum::<usize>(), spare.fresh);
        assert!(spare.fresh < 20, "{}", spare.fresh);
    }

    #[test]
    fn a_reader_sees_the_old_object_or_the_new_one_never_a_mixture() {
        let domain = Domain::new(1);
        let mut objects = Objects::new(&domain).unwrap();
        let index = objects.insert(&adjacency(0)).unwrap();
        let handle = objects.handle();
        let stop = Arc::new(AtomicBool::new(false));
        let reading = {
            let (domain, stop) = (domain.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut reader = domain.register().unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let round = reader.round();
                    for _ in 0..50 {
                        let object = handle.get(&round, index);
                        let value = object.edge() as u8;
                        assert_eq!(object.rewrite(), [value; 14]);
                        assert_eq!(object.interface(), value as u32);
                    }
                }
            })
        };
        for n in 0..50_000u32 {
            objects.replace(index, &adjacency(n as u8)).unwrap();
            domain.collect();
        }
        stop.store(true, Ordering::Relaxed);
        reading.join().unwrap();
    }
}
