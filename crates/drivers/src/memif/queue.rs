//! Connections as workers have them, and the receive queues: they copy packets out of rings.
//!
//! Packets are copied, so that a peer cannot change bytes that were already checked. When a peer's rings make no sense,
//! the worker marks the connection broken, and the keeper closes it.
#![allow(unsafe_code)]

use super::lending::{self, Loan};
use super::ring::{Descriptor, Memory, NEXT, Ring};
use super::slot::{Bell, Slot};
use crate::chain::link;
use crate::{Receive, ReceiveCounts, borrowed};
use graph::buffer::{DATA_SIZE, HEADROOM};
use graph::vector::VECTOR_SIZE;
use graph::{Buffers, PacketIndex, Row, Vector, flag};
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
    pub(super) fn place(&self, slot: u16, said: Descriptor) -> Descriptor {
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
    pub(super) fn with_loan<T>(
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
    pub(super) fn give_up(&self) {
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
pub(super) struct Known {
    pub slot: Arc<Slot>,
    seen: u32,
    pub connection: Option<Arc<Connection>>,
}

impl Known {
    pub fn new(slot: Arc<Slot>) -> Known {
        Known { slot, seen: 0, connection: None }
    }

    /// Adopts another connection, if there is one. Returns whether there was.
    #[inline(always)]
    pub fn refresh(&mut self) -> bool {
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
pub(super) const FEW: usize = 16;

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
pub(super) fn fetch_to_write(place: NonNull<u8>) {
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
