//! The queues of workers: they copy packets out of rings, and into them.
//!
//! Packets are copied, so that a peer cannot change bytes that were already checked. When a peer's rings make no sense,
//! the worker marks the connection broken, and the keeper closes it.
#![allow(unsafe_code)]

use super::lending::{self, Loan};
use super::ring::{Descriptor, Memory, NEXT, Ring};
use super::slot::{Bell, Slot};
use crate::chain::{Chain, link};
use crate::{FULL, REFUSED, Receive, ReceiveCounts, TOO_LONG, Transmit, borrowed};
use graph::buffer::{DATA_SIZE, HEADROOM};
use graph::vector::VECTOR_SIZE;
use graph::{Buffers, EdgeIndex, PacketIndex, Row, Vector, edge, flag};
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most buffers that one packet of a peer may span.
const MAX_PARTS: usize = 256;

/// Which side we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Listens, and uses the peer's memory.
    Master,
    /// Connects, and brings the memory.
    Slave,
}

/// The slave's buffers for a ring: one for each slot, side by side.
#[derive(Debug, Clone, Copy)]
pub struct OwnBuffers {
    pub region: u16,
    pub offset: u32,
    pub size: u32,
}

impl OwnBuffers {
    /// The empty buffer of a slot, whose number is below the ring's size.
    fn descriptor(&self, slot: u16) -> Descriptor {
        let offset = self.offset + u32::from(slot) * self.size;
        Descriptor { flags: 0, region: self.region, length: self.size, offset }
    }
}

/// One ring of a connection.
pub struct Way {
    pub ring: Ring,
    pub region: u16,
    pub offset: u32,
    /// Our own buffers, when we are the slave.
    pub own: Option<OwnBuffers>,
    /// In place of `own`: the buffers of the pool that the master has, until the connection ends.
    pub loan: Option<Mutex<Option<Loan>>>,
    /// Wakes the receiver of this ring.
    pub interrupt: OwnedFd,
    /// A worker is sending by this ring.
    pub busy: AtomicBool,
    /// The receiver of this ring is to be woken.
    pub kicked: AtomicBool,
    /// How often the keeper has woken it.
    pub kicks: AtomicU64,
}

impl Way {
    /// Where the bytes of the packet in a slot are. None: the length in its descriptor does not fit the buffer or the
    /// memory.
    #[inline(always)]
    fn source(&self, memory: &Memory, slot: u16, said: Descriptor) -> Option<NonNull<u8>> {
        let place = self.place(slot, said);
        if self.own.is_some_and(|own| said.length > own.size) {
            return None;
        }
        memory.buffer(place.region, place.offset, said.length as usize)
    }

    /// The buffer of a slot. We know where our own buffers are, so their descriptors are not used.
    #[inline(always)]
    fn place(&self, slot: u16, said: Descriptor) -> Descriptor {
        match &self.own {
            Some(own) => own.descriptor(slot & (self.ring.size() - 1)),
            None => said,
        }
    }
}

/// Rings and memory that both sides have agreed on.
pub struct Connection {
    pub role: Role,
    pub memory: Arc<Memory>,
    pub receive: Vec<Way>,
    pub transmit: Vec<Way>,
    /// Makes the keeper of the connection wake the peer, or check whether the connection is broken.
    pub bell: Arc<Bell>,
    pub broken: AtomicBool,
    /// How many buffers of the pool the master has.
    pub lent: AtomicU32,
}

impl Connection {
    /// Ends all loans, and returns what the master has of the pool. Workers that still have the connection cannot lend
    /// it more.
    pub fn end_loans(&self) -> Vec<Loan> {
        let loans = self.receive.iter().chain(&self.transmit).filter_map(|way| way.loan.as_ref());
        loans.filter_map(|loan| lock(loan).take()).collect()
    }

    /// Works with a ring whose slots hold the pool's buffers. Workers never wait for each other here: only one at a
    /// time uses a ring.
    fn with_loan<T>(
        &self,
        loan: &Mutex<Option<Loan>>,
        work: impl FnOnce(&mut Loan) -> Result<T, lending::Nonsense>,
    ) -> Option<T> {
        let mut loan = lock(loan);
        let loan = loan.as_mut()?;
        let before = loan.count() as u32;
        let outcome = work(loan);
        let more = (loan.count() as u32).wrapping_sub(before);
        if more != 0 {
            self.lent.fetch_add(more, Ordering::Relaxed);
        }
        outcome.map_err(|_| self.give_up()).ok()
    }

    /// Marks the connection broken: the contents of its rings make no sense.
    #[cold]
    fn give_up(&self) {
        if !self.broken.swap(true, Ordering::Relaxed) {
            self.bell.ring();
        }
    }

    /// Initialises the rings in a slave's memory.
    pub fn begin(&self) {
        self.transmit.iter().chain(&self.receive).for_each(|way| way.ring.begin());
    }

    /// Offers a slave's buffers, once the master is ready: DPDK's master begins by emptying all rings.
    pub fn offer_all(&self) {
        for way in self.receive.iter().filter(|way| way.loan.is_none()) {
            let size = way.ring.size();
            (0..size).for_each(|slot| offer(way, slot));
            way.ring.set_head(size);
        }
    }
}

fn offer(way: &Way, slot: u16) {
    if let Some(own) = &way.own {
        way.ring.put(slot, own.descriptor(slot & (way.ring.size() - 1)));
    }
}

fn lock(loan: &Mutex<Option<Loan>>) -> MutexGuard<'_, Option<Loan>> {
    loan.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The connection as a queue knows it.
struct Known {
    slot: Arc<Slot>,
    seen: u32,
    connection: Option<Arc<Connection>>,
}

impl Known {
    fn new(slot: Arc<Slot>) -> Known {
        Known { slot, seen: 0, connection: None }
    }

    /// Adopts another connection, if there is one. Returns whether there was.
    #[inline(always)]
    fn refresh(&mut self) -> bool {
        let is_other = self.slot.generation() != self.seen;
        if is_other {
            self.adopt();
        }
        is_other
    }

    #[cold]
    fn adopt(&mut self) {
        (self.seen, self.connection) = self.slot.connection();
    }
}

/// A receive queue.
pub struct MemifReceive {
    known: Known,
    number: usize,
    /// The slot that is read next.
    next: u16,
    /// Readable when the peer or the connection's keeper sent something.
    waiter: Arc<OwnedFd>,
    is_waiting: bool,
}

impl MemifReceive {
    pub fn new(slot: Arc<Slot>, number: usize, waiter: Arc<OwnedFd>) -> MemifReceive {
        MemifReceive { known: Known::new(slot), number, next: 0, waiter, is_waiting: false }
    }

    /// Filled slots that were not read yet.
    #[inline(always)]
    fn available(way: &Way, role: Role, next: u16) -> u16 {
        let end = if role == Role::Master { way.ring.head() } else { way.ring.tail() };
        end.wrapping_sub(next)
    }
}

impl Receive for MemifReceive {
    fn receive(&mut self, buffers: &mut Buffers, out: &mut Vector, counts: &mut ReceiveCounts) {
        if self.known.refresh() {
            self.next = 0;
            if let Some(way) = self.known.connection.as_ref().and_then(|it| it.receive.get(self.number)) {
                way.ring.set_wakes(self.is_waiting);
            }
        }
        let Some(connection) = &self.known.connection else { return };
        let Some(way) = connection.receive.get(self.number) else { return };
        if let Some(loan) = &way.loan {
            if connection.broken.load(Ordering::Relaxed) {
                return;
            }
            let received = |loan: &mut Loan| loan.receive(way, buffers, out, counts).map(|()| loan.done());
            match connection.with_loan(loan, received) {
                Some(done) => self.next = done,
                None => counts.malformed += u64::from(connection.broken.load(Ordering::Relaxed)),
            }
            return;
        }
        let there = MemifReceive::available(way, connection.role, self.next);
        if there == 0 {
            return;
        }
        if there > way.ring.size() || connection.broken.load(Ordering::Relaxed) {
            counts.malformed += u64::from(!connection.broken.load(Ordering::Relaxed));
            return connection.give_up();
        }
        let done = take(connection, way, (self.next, there), buffers, out, counts);
        let from = self.next;
        self.next = from.wrapping_add(done);
        match connection.role {
            Role::Master => way.ring.set_tail(self.next),
            Role::Slave => {
                (0..done).for_each(|i| offer(way, from.wrapping_add(i)));
                way.ring.set_head(self.next.wrapping_add(way.ring.size()));
            }
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        borrowed(&self.waiter)
    }

    fn begin_wait(&mut self) -> bool {
        self.is_waiting = true;
        if self.known.slot.generation() != self.known.seen {
            return false;
        }
        let Some(connection) = &self.known.connection else { return true };
        let Some(way) = connection.receive.get(self.number) else { return true };
        way.ring.set_wakes(true);
        // The master gets its buffers by and by, so the worker keeps polling until it has all of them.
        let is_ready = |loan: &Mutex<Option<Loan>>| lock(loan).as_ref().is_none_or(Loan::is_full);
        if !connection.broken.load(Ordering::Relaxed) && !way.loan.as_ref().is_none_or(is_ready) {
            return false;
        }
        MemifReceive::available(way, connection.role, self.next) == 0
    }

    fn end_wait(&mut self) {
        self.is_waiting = false;
        if let Some(way) = self.known.connection.as_ref().and_then(|it| it.receive.get(self.number)) {
            way.ring.set_wakes(false);
        }
        // The descriptors in the waiter are edge-triggered: it reports each event once, so pending events are taken
        // here.
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 4];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = epoll::wait(&*self.waiter, &mut events, Some(&now));
    }
}

/// So many packets are few.
const FEW: usize = 16;

/// Takes packets out of a ring, from slot `next` on, where `there` slots are filled. Returns how many slots are done
/// with.
fn take(
    connection: &Connection,
    way: &Way,
    (next, there): (u16, u16),
    buffers: &mut Buffers,
    out: &mut Vector,
    counts: &mut ReceiveCounts,
) -> u16 {
    let (first, wanted) = (out.len(), out.room().min(there.into()));
    let alike = Row { l2: HEADROOM as u16, l3: HEADROOM as u16, ..Row::default() };
    let got = out.extend_fresh(buffers, wanted, alike, 0);
    counts.no_buffer += u64::from(got < wanted);
    // Packets in one buffer, as most are. Another core has written all of this memory, so it is prefetched before it is
    // read.
    way.ring.lines(next, got as u16).for_each(fetch);
    // Few packets, as at low rates, take little room to note where they are.
    let used = match got {
        ..=FEW => copy_plain::<FEW>(connection, way, next, buffers, out, first),
        _ => copy_plain::<VECTOR_SIZE>(connection, way, next, buffers, out, first),
    };
    let mut done = used as u16;
    if used < got {
        buffers.free(&out.packets()[first + used..]);
        out.truncate(first + used);
        // A longer packet, or nonsense.
        done += odd(connection, way, (next.wrapping_add(done), there - done), buffers, out, counts);
    }
    done
}

/// Copies packets out of a ring into the buffers that `out` has from `first` on, at most `N`, until one is not plain:
/// it takes more than one buffer, or its descriptor makes no sense. Returns how many are copied.
#[inline]
fn copy_plain<const N: usize>(
    connection: &Connection,
    way: &Way,
    next: u16,
    buffers: &mut Buffers,
    out: &mut Vector,
    first: usize,
) -> usize {
    let columns = out.columns();
    let (packets, lengths) = (&columns.packets[first..], &mut columns.length[first..]);
    // All are prefetched before the first of them is copied.
    let mut places = [NonNull::<u8>::dangling(); N];
    let mut used = 0;
    for (length, place) in lengths.iter_mut().zip(&mut places) {
        let slot = next.wrapping_add(used as u16);
        let said = way.ring.descriptor(slot);
        let is_single = said.flags & NEXT == 0 && said.length as usize <= DATA_SIZE;
        let Some(from) = way.source(&connection.memory, slot, said).filter(|_| is_single && said.length > 0) else {
            break;
        };
        fetch(from);
        (*place, *length) = (from, said.length as u16);
        used += 1;
    }
    for ((from, packet), length) in places.iter().zip(packets).zip(lengths).take(used) {
        let to = &mut buffers.bytes_mut(*packet)[HEADROOM..][..usize::from(*length)];
        // SAFETY: `source` has found that many bytes at `from`; `to` is as long, and ours alone.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len()) };
    }
    used
}

/// Prefetches a cache line to read.
#[inline(always)]
fn fetch(place: NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it touches nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Prefetches a cache line to write.
#[inline(always)]
fn fetch_to_write(place: NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it touches nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(place.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Takes one packet that is not plain. Returns how many slots are done with.
#[cold]
fn odd(
    connection: &Connection,
    way: &Way,
    (next, there): (u16, u16),
    buffers: &mut Buffers,
    out: &mut Vector,
    counts: &mut ReceiveCounts,
) -> u16 {
    // Each descriptor is read once, and all of them before anything is copied.
    let mut parts = [(NonNull::<u8>::dangling(), 0usize); MAX_PARTS];
    let (mut total, mut count, mut is_sound) = (0usize, 0, true);
    loop {
        if count == there {
            if there >= way.ring.size() {
                // All slots are full, and the packet does not end.
                counts.malformed += 1;
                connection.give_up();
            }
            // The rest of the packet has not arrived yet.
            return 0;
        }
        let slot = next.wrapping_add(count);
        let said = way.ring.descriptor(slot);
        match (way.source(&connection.memory, slot, said), parts.get_mut(usize::from(count))) {
            (Some(from), Some(part)) => *part = (from, said.length as usize),
            _ => is_sound = false,
        }
        total += said.length as usize;
        count += 1;
        if said.flags & NEXT == 0 {
            break;
        }
    }
    if !is_sound || total == 0 {
        counts.malformed += 1;
        return count;
    }
    let Ok(length) = u16::try_from(total) else {
        counts.too_long += 1;
        return count;
    };
    let mut packets = [PacketIndex::NONE; u16::MAX as usize / DATA_SIZE + 1];
    let packets = &mut packets[..total.div_ceil(DATA_SIZE)];
    let got = buffers.allocate(packets);
    if got < packets.len() {
        buffers.free(&packets[..got]);
        counts.no_buffer += 1;
        return count;
    }
    link(buffers, packets, total);
    let mut at = 0;
    for &(from, length) in &parts[..usize::from(count)] {
        let mut from = from;
        let mut rest = length;
        while rest > 0 {
            let (packet, begin) = (packets[at / DATA_SIZE], at % DATA_SIZE);
            let n = rest.min(DATA_SIZE - begin);
            let to = &mut buffers.bytes_mut(packet)[HEADROOM + begin..][..n];
            // SAFETY: `source` has found `rest` bytes at `from`; `to` is ours alone.
            unsafe {
                std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), n);
                from = from.add(n);
            }
            (at, rest) = (at + n, rest - n);
        }
    }
    let flags = if packets.len() > 1 { flag::CHAINED } else { 0 };
    let row = Row { packet: packets[0], l2: HEADROOM as u16, l3: HEADROOM as u16, length, flags, ..Row::default() };
    out.push(row, 0);
    count
}

/// A transmit queue.
pub struct MemifTransmit {
    known: Known,
    queues: usize,
    /// The queue that this one sends by, modulo the queues that there are.
    number: usize,
    /// How many workers send.
    workers: usize,
    /// Of the connection's rings, the one by which this queue sends.
    ring: usize,
    /// The other side's position in it, as it was last read; unknown where others send by the ring, too.
    seen: Option<u16>,
}

impl MemifTransmit {
    pub fn new(slot: Arc<Slot>, queues: usize, number: usize, workers: usize) -> MemifTransmit {
        MemifTransmit { known: Known::new(slot), queues, number, workers, ring: 0, seen: None }
    }

    #[inline(always)]
    fn refresh(&mut self) {
        if self.known.refresh() {
            let rings = self.known.connection.as_ref().map_or(0, |connection| connection.transmit.len());
            (self.ring, self.seen) = (self.number % rings.max(1), None);
        }
    }
}

impl Transmit for MemifTransmit {
    fn transmit(&mut self, buffers: &mut Buffers, vector: &mut Vector) {
        self.refresh();
        let connection = self.known.connection.as_ref().filter(|it| !it.broken.load(Ordering::Relaxed));
        let Some((connection, way)) = connection.and_then(|it| Some((it, it.transmit.get(self.ring)?))) else {
            return vector.set_edges(REFUSED);
        };
        // Several workers may use a ring when there are fewer rings.
        let is_shared = self.workers > connection.transmit.len();
        let _turn = match is_shared.then(|| Turn::of(&way.busy)) {
            Some(None) => return vector.set_edges(FULL),
            turn => turn.flatten(),
        };
        match &way.loan {
            None => {
                put(connection, way, buffers, vector, &mut self.seen);
                if is_shared {
                    self.seen = None;
                }
            }
            Some(loan) => {
                // Packets for a shared ring are copied: another worker may take back a buffer while this one still
                // reads it.
                if connection.with_loan(loan, |loan| loan.send(way, buffers, vector, is_shared)).is_none() {
                    return vector.set_edges(REFUSED);
                }
            }
        }
        if way.ring.wakes() && !way.kicked.swap(true, Ordering::Relaxed) {
            connection.bell.ring();
        }
    }

    fn queues(&self) -> usize {
        self.queues
    }

    fn another(&self, worker: usize, workers: usize) -> Option<Box<dyn Transmit>> {
        Some(Box::new(MemifTransmit::new(self.known.slot.clone(), self.queues, worker, workers)))
    }
}

/// How often a worker checks whether another worker is done with a ring.
const PATIENCE: u32 = 10_000;

/// A worker's use of a ring, for one vector. With as many rings as workers there is no contention for it.
struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    /// None: another worker keeps the ring for longer than a vector takes.
    #[inline]
    fn of(busy: &'a AtomicBool) -> Option<Turn<'a>> {
        for _ in 0..PATIENCE {
            if !busy.swap(true, Ordering::Acquire) {
                return Some(Turn(busy));
            }
            std::hint::spin_loop();
        }
        None
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// What this side knows of a ring's room. The other side writes its position all the time, so reading it is a cache
/// miss: that is done only when the room that was there before does not suffice.
struct Room {
    /// Our own position: the next slot.
    next: u16,
    /// Slots that are free, at least.
    free: u16,
    /// The other side's position was read for this vector.
    is_new: bool,
}

impl Room {
    /// The room as of the other side's position `seen`, if it is known from before.
    #[inline]
    fn of(connection: &Connection, ring: &Ring, seen: Option<u16>) -> Room {
        let next = if connection.role == Role::Master { ring.tail() } else { ring.head() };
        let mut room = Room { next, free: 0, is_new: false };
        if let Some(seen) = seen {
            room.free = room.up_to(connection.role, ring, seen);
        }
        room
    }

    /// The master fills buffers that the slave offered; the slave fills free slots.
    fn up_to(&self, role: Role, ring: &Ring, seen: u16) -> u16 {
        match role {
            Role::Master => seen.wrapping_sub(self.next),
            Role::Slave => ring.size().wrapping_sub(self.next.wrapping_sub(seen)),
        }
    }

    /// Reads the other side's position. False: it makes no sense.
    fn look(&mut self, connection: &Connection, ring: &Ring, seen: &mut Option<u16>) -> bool {
        let position = if connection.role == Role::Master { ring.head() } else { ring.tail() };
        self.is_new = true;
        self.free = self.up_to(connection.role, ring, position);
        let is_sound = self.free <= ring.size();
        *seen = is_sound.then_some(position);
        if !is_sound {
            self.free = 0;
            connection.give_up();
        }
        is_sound
    }
}

/// Puts packets into a ring and writes their edges. `seen`: the other side's position as it was last read.
fn put(connection: &Connection, way: &Way, buffers: &Buffers, vector: &mut Vector, seen: &mut Option<u16>) {
    let ring = &way.ring;
    let mut room = Room::of(connection, ring, *seen);
    if usize::from(room.free) < vector.len() && !room.look(connection, ring, seen) {
        return vector.set_edges(REFUSED);
    }
    let first = room.free.min(vector.len() as u16);
    prepare(connection, way, room.next, first);
    let columns = vector.columns();
    let sides = columns.packets.iter().zip(columns.flags.iter()).zip(columns.l2.iter()).zip(columns.length.iter());
    for ((((packet, flags), l2), length), edge) in sides.zip(columns.edge) {
        let row = Row { packet: *packet, flags: *flags, l2: *l2, length: *length, ..Row::default() };
        let (mut to, mut used) = put_one(connection, way, (room.next, room.free), buffers, &row);
        if to == FULL && !room.is_new {
            (to, used) = put_late(connection, way, (&mut room, seen), buffers, &row);
        }
        *edge = to;
        room.next = room.next.wrapping_add(used);
        room.free -= used;
    }
    match connection.role {
        Role::Master => ring.announce_tail(room.next),
        Role::Slave => ring.announce_head(room.next),
    }
    if usize::from(first) <= FEW {
        // At low rates the next packets' slots can be here before the packets are.
        prepare(connection, way, room.next, room.free.min(first));
    }
}

/// Prefetches slots and their buffers, which another core has, to write them.
#[inline]
fn prepare(connection: &Connection, way: &Way, next: u16, count: u16) {
    way.ring.lines(next, count).for_each(fetch_to_write);
    for slot in (0..count).map(|i| next.wrapping_add(i)) {
        let place = way.place(slot, way.ring.descriptor(slot));
        if let Some(place) = connection.memory.buffer(place.region, place.offset, 64) {
            fetch_to_write(place);
        }
    }
}

/// [`put_one`], into room that there may be by now.
#[cold]
fn put_late(
    connection: &Connection,
    way: &Way,
    (room, seen): (&mut Room, &mut Option<u16>),
    buffers: &Buffers,
    row: &Row,
) -> (EdgeIndex, u16) {
    match room.look(connection, &way.ring, seen) {
        true => put_one(connection, way, (room.next, room.free), buffers, row),
        false => (REFUSED, 0),
    }
}

/// Puts one packet into the slots from `next` on, of which `room` are free. Returns its edge, and how many slots it
/// took.
#[inline(always)]
fn put_one(
    connection: &Connection,
    way: &Way,
    (next, room): (u16, u16),
    buffers: &Buffers,
    row: &Row,
) -> (EdgeIndex, u16) {
    if room == 0 {
        return (FULL, 0);
    }
    let length = usize::from(row.length);
    let first = way.place(next, way.ring.descriptor(next));
    if row.flags & flag::CHAINED != 0 || length > first.length as usize {
        return put_long(connection, way, (next, room), buffers, row);
    }
    let Some(to) = connection.memory.buffer(first.region, first.offset, length) else {
        connection.give_up();
        return (REFUSED, 0);
    };
    let Some(from) = buffers.bytes(row.packet)[usize::from(row.l2)..].get(..length) else { return (REFUSED, 0) };
    // SAFETY: `buffer` has found that many bytes at `to`; no reference to them exists here.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), length) };
    way.ring.put(next, Descriptor { flags: 0, length: length as u32, ..first });
    (edge::SENT, 1)
}

/// Puts a packet that is in several buffers, or needs several of the peer's.
#[cold]
fn put_long(
    connection: &Connection,
    way: &Way,
    (next, room): (u16, u16),
    buffers: &Buffers,
    row: &Row,
) -> (EdgeIndex, u16) {
    let Some(chain) = Chain::of(buffers, row) else { return (REFUSED, 0) };
    let (mut used, mut filled) = (0u16, 0usize);
    let mut place = way.place(next, way.ring.descriptor(next));
    for slice in chain.slices(buffers) {
        let mut rest = slice;
        while !rest.is_empty() {
            if filled == place.length as usize {
                if used + 1 >= way.ring.size() || place.length == 0 {
                    return (TOO_LONG, 0);
                }
                if used + 1 >= room {
                    // Later packets may be shorter, and fit. The peer does not see what was written here: the ring does
                    // not advance.
                    return (FULL, 0);
                }
                way.ring.put(next.wrapping_add(used), Descriptor { flags: NEXT, length: filled as u32, ..place });
                used += 1;
                let slot = next.wrapping_add(used);
                (place, filled) = (way.place(slot, way.ring.descriptor(slot)), 0);
                continue;
            }
            let n = rest.len().min(place.length as usize - filled);
            let to =
                place.offset.checked_add(filled as u32).and_then(|at| connection.memory.buffer(place.region, at, n));
            let Some(to) = to else {
                connection.give_up();
                return (REFUSED, 0);
            };
            // SAFETY: as in `put_one`.
            unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), to.as_ptr(), n) };
            (rest, filled) = (&rest[n..], filled + n);
        }
    }
    way.ring.put(next.wrapping_add(used), Descriptor { flags: 0, length: filled as u32, ..place });
    (edge::SENT, used + 1)
}
