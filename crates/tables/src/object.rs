//! Forwarding objects: what a [`Leaf`] names. One object serves all prefixes that are forwarded alike; one cache line
//! holds all that a worker needs to forward.
//!
//! A line is a head word, read and written atomically, and a body. For a single path the body is the link header to
//! write; for several paths, the buckets over which flows are spread, over as many lines as they need; for a midchain,
//! where its packets go next, with a header of up to 128 bytes on the two lines behind; for a custom object, what its
//! node wants there. Workers read the head first and the rest after it.
//!
//! Changing an object under a million prefixes is one atomic write: [`Objects::replace`] fills a spare line and turns
//! the old head into a redirection to it. When every worker has begun a new round, no worker can be reading the old
//! body. It is then overwritten with the new one, and the head made direct again.
#![allow(unsafe_code)]

use crate::leaf::Leaf;
use crate::memory::{Pages, Reserved, SYSTEM_PAGE, Zeroed};
use rcu::Domain;
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

mod read;
#[cfg(test)]
mod tests;

pub use read::{MidchainRef, ObjectHandle, ObjectRef, ObjectsRef};

/// Most objects.
pub const MAX_OBJECTS: usize = 1 << 20;
/// Longest link header of an adjacency: Ethernet with two tags, and some bytes more.
pub const MAX_REWRITE: usize = 36;
/// Longest header that a midchain writes in front of a packet.
pub const MAX_LONG_REWRITE: usize = 128;
/// Lines of a midchain: the first, and those with the header.
pub const MIDCHAIN_LINES: usize = 1 + MAX_LONG_REWRITE / size_of::<Line>();
/// Most bytes in a custom object.
pub const MAX_CUSTOM: usize = BODY;
/// Most buckets of a load balance.
pub const MAX_BUCKETS: usize = 64;
/// Buckets in one line.
const BUCKETS_IN_LINE: usize = 8;
const BODY: usize = 56;
/// Offset of the next hop in an adjacency's body: the interface is before it, the link header behind it.
const HOP: usize = 4;
const REWRITE: usize = HOP + 16;
// Of a midchain, where an adjacency has its link header.
const NEXT: usize = REWRITE;
const FIX_UP: usize = NEXT + 4;
const OUT: usize = FIX_UP + 2;

/// An object as control describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    Adjacency(Adjacency),
    LoadBalance(LoadBalance),
    Midchain(Midchain),
    Custom(Custom),
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
    /// Bits for the owner and its nodes, which this crate does not interpret.
    pub owner: u16,
}

/// Where packets go that get a header and are sent on by that: into tunnels.
///
/// It is an adjacency with more lines: a node that expects an adjacency finds one that is not complete, and sends its
/// packets by `edge` to the node that knows midchains. So an adjacency becomes a midchain, and a midchain an
/// adjacency, in one atomic write, whatever the leaves say that name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Midchain {
    /// The edge by which a node for adjacencies sends packets to the node for midchains.
    pub edge: u16,
    /// The edge that the node for midchains uses.
    pub out: u16,
    /// Largest network-layer packet that gets the header.
    pub mtu: u16,
    pub interface: u32,
    pub next_hop: IpAddr,
    /// The header, at most [`MAX_LONG_REWRITE`] bytes.
    pub rewrite: Vec<u8>,
    /// Which function completes the header for each packet, by the owner's numbers; 0: none.
    pub fix_up: u16,
    /// Where the packet goes with its header: what the owner's table says for the header's destination.
    pub next: Leaf,
    /// Bits for the owner and its nodes, which this crate does not interpret.
    pub owner: u16,
}

/// What one node knows how to forward by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Custom {
    /// The edge to that node.
    pub edge: u16,
    /// At most [`MAX_CUSTOM`] bytes that the node reads, by a layout of its own.
    pub bytes: Vec<u8>,
    /// Bits for the owner and its nodes, which this crate does not interpret.
    pub owner: u16,
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

// The head word, from the lowest byte: state; bytes of the rewrite or log2 of buckets; edge or the flow fields (16
// bits); MTU (16 bits); the owner's bits (16). A redirection has the index of its line in the upper half.
const STATE_COMPLETE: u8 = 1;
const STATE_INCOMPLETE: u8 = 2;
const STATE_LOAD_BALANCE: u8 = 3;
const STATE_REDIRECTED: u8 = 4;
const STATE_MIDCHAIN: u8 = 5;
const STATE_CUSTOM: u8 = 6;
const OWNER: u32 = 48;

fn head_of(object: &Object) -> u64 {
    let word = |state: u8, size: usize, edge: u16, mtu: u16, owner: u16| {
        state as u64 | (size as u64) << 8 | (edge as u64) << 16 | (mtu as u64) << 32 | (owner as u64) << OWNER
    };
    match object {
        Object::Adjacency(a) => {
            let state = if a.complete { STATE_COMPLETE } else { STATE_INCOMPLETE };
            word(state, a.rewrite.len(), a.edge, a.mtu, a.owner)
        }
        Object::LoadBalance(b) => word(STATE_LOAD_BALANCE, b.buckets.len().ilog2() as usize, b.flow, 0, 0),
        Object::Midchain(m) => word(STATE_MIDCHAIN, m.rewrite.len(), m.edge, m.mtu, m.owner),
        Object::Custom(c) => word(STATE_CUSTOM, c.bytes.len(), c.edge, 0, c.owner),
    }
}

/// The interface and the next hop at the begin of a body.
fn body_to(interface: u32, next_hop: IpAddr) -> [u8; BODY] {
    let mut body = [0; BODY];
    body[..4].copy_from_slice(&interface.to_ne_bytes());
    match next_hop {
        IpAddr::V4(hop) => body[HOP..HOP + 4].copy_from_slice(&hop.octets()),
        IpAddr::V6(hop) => body[HOP..REWRITE].copy_from_slice(&hop.octets()),
    }
    body
}

/// The bodies of an object's lines: one line, except for load balances with many buckets. The header of a midchain
/// follows on lines of its own.
fn bodies_of(object: &Object) -> Vec<[u8; BODY]> {
    match object {
        Object::Adjacency(a) => {
            let mut body = body_to(a.interface, a.next_hop);
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
        Object::Midchain(m) => {
            let mut body = body_to(m.interface, m.next_hop);
            body[NEXT..NEXT + 4].copy_from_slice(&m.next.0.to_ne_bytes());
            body[FIX_UP..FIX_UP + 2].copy_from_slice(&m.fix_up.to_ne_bytes());
            body[OUT..OUT + 2].copy_from_slice(&m.out.to_ne_bytes());
            vec![body]
        }
        Object::Custom(c) => {
            let mut body = [0; BODY];
            body[..c.bytes.len()].copy_from_slice(&c.bytes);
            vec![body]
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
        if let Object::Midchain(midchain) = object {
            let lines = &self.lines[index as usize + 1..][..MIDCHAIN_LINES - 1];
            let mut header = [0; MAX_LONG_REWRITE];
            header[..midchain.rewrite.len()].copy_from_slice(&midchain.rewrite);
            // SAFETY: as above, for whole lines, which are nothing but cells.
            unsafe { lines.as_ptr().cast_mut().cast::<[u8; MAX_LONG_REWRITE]>().write(header) };
        }
        self.lines[index as usize].head.store(head_of(object), Ordering::Release);
    }
}

/// How many lines an object takes.
fn run_of(object: &Object) -> usize {
    match object {
        Object::Adjacency(_) | Object::Custom(_) => 1,
        Object::LoadBalance(b) => lines_of_buckets(b.buckets.len()),
        Object::Midchain(_) => MIDCHAIN_LINES,
    }
}

/// How many lines so many buckets take.
pub const fn lines_of_buckets(buckets: usize) -> usize {
    buckets.div_ceil(BUCKETS_IN_LINE)
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
    /// When the object exceeds its bounds (bytes of the header, number of buckets).
    pub fn insert(&mut self, object: &Object) -> Result<u32, ObjectsFull> {
        self.insert_with_room(object, 1)
    }

    /// As [`Objects::insert`], with room for this many lines ([`lines_of_buckets`], [`MIDCHAIN_LINES`]), in case it
    /// becomes an object that needs them.
    ///
    /// # Errors
    /// As [`Objects::insert`].
    pub fn insert_with_room(&mut self, object: &Object, lines: usize) -> Result<u32, ObjectsFull> {
        check(object);
        let run = run_of(object).max(lines);
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
        }
        Object::LoadBalance(LoadBalance { buckets: b, .. }) => {
            assert!(b.len().is_power_of_two() && b.len() <= MAX_BUCKETS)
        }
        Object::Midchain(m) => assert!(m.rewrite.len() <= MAX_LONG_REWRITE),
        Object::Custom(c) => assert!(c.bytes.len() <= MAX_CUSTOM),
    }
}
