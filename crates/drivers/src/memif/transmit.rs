//! The transmit queues: they copy packets into rings.
#![allow(unsafe_code)]

use super::queue::{Connection, FEW, Known, Role, Way, fetch_to_write};
use super::ring::{Descriptor, NEXT, Ring};
use super::slot::Slot;
use crate::chain::Chain;
use crate::{FULL, REFUSED, TOO_LONG, Transmit};
use graph::{Buffers, EdgeIndex, Row, Vector, edge, flag};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
