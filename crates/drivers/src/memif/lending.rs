//! Rings whose slots hold buffers of our packet pool: a slave's, on request, for a master that is trusted.
//!
//! Nothing is copied here: the master writes to our buffers and reads from them. So it has all of our packet memory,
//! and may change a packet while we look at it.
#![forbid(unsafe_code)]

use super::queue::Way;
use super::ring::{Descriptor, NEXT};
use crate::chain::Chain;
use crate::{FULL, REFUSED, ReceiveCounts, TOO_LONG};
use graph::buffer::{DATA_SIZE, HEADROOM, MAX_SEGMENTS, STRIDE};
use graph::vector::VECTOR_SIZE;
use graph::{Buffers, EdgeIndex, Lent, PacketIndex, Pool, Row, Vector, edge, flag};
use std::sync::Arc;

/// The region that is the pool; that of the rings is 0.
pub const REGION: u16 = 1;

/// The other side's count of slots makes no sense.
pub struct Nonsense;

/// The buffers of a ring that the master has.
pub struct Loan {
    lent: Lent,
    /// By slot, which buffer it has.
    slots: Box<[u32]>,
    /// Slots before are done with, and those before `offered` are the master's.
    done: u16,
    offered: u16,
    /// How many of the buffers are followed by another of the same packet.
    linked: usize,
}

fn descriptor(packet: PacketIndex, offset: u16, length: u16, flags: u16) -> Descriptor {
    let offset = packet.as_u32() * STRIDE as u32 + u32::from(offset);
    Descriptor { flags, region: REGION, length: length.into(), offset }
}

impl Loan {
    pub fn new(pool: &Arc<Pool>, log2: u8) -> Loan {
        Loan { lent: Lent::new(pool), slots: vec![0; 1 << log2].into(), done: 0, offered: 0, linked: 0 }
    }

    fn slot(&mut self, number: u16) -> &mut u32 {
        let mask = self.slots.len() - 1;
        &mut self.slots[usize::from(number) & mask]
    }

    pub fn count(&self) -> usize {
        self.lent.count()
    }

    /// The first slot that is not done with.
    pub fn done(&self) -> u16 {
        self.done
    }

    /// Slots that the master has done with since.
    fn come(&self, tail: u16) -> Result<u16, Nonsense> {
        let come = tail.wrapping_sub(self.done);
        if come > self.offered.wrapping_sub(self.done) { Err(Nonsense) } else { Ok(come) }
    }

    /// Takes packets that the master has put into our buffers, and offers it others.
    ///
    /// # Errors
    /// When its count makes no sense.
    pub fn receive(
        &mut self,
        way: &Way,
        buffers: &mut Buffers,
        out: &mut Vector,
        counts: &mut ReceiveCounts,
    ) -> Result<(), Nonsense> {
        let mut there = self.come(way.ring.tail())?;
        while there > 0 && out.room() > 0 {
            let used = self.take(way, there, buffers, out, counts)?;
            if used == 0 {
                break;
            }
            there -= used;
        }
        let wanted = way.ring.size() - self.offered.wrapping_sub(self.done);
        let wanted = usize::from(wanted).min(VECTOR_SIZE);
        let got = buffers.each_fresh(wanted, |packet| {
            self.lent.lend(packet);
            *self.slot(self.offered) = packet.as_u32();
            way.ring.put(self.offered, descriptor(packet, HEADROOM as u16, DATA_SIZE as u16, 0));
            self.offered = self.offered.wrapping_add(1);
        });
        counts.no_buffer += u64::from(got < wanted);
        if got > 0 {
            way.ring.set_head(self.offered);
        }
        Ok(())
    }

    /// Whether the master has as many buffers as it can have.
    pub fn is_full(&self) -> bool {
        usize::from(self.offered.wrapping_sub(self.done)) == self.slots.len()
    }

    /// One packet, in one slot or several; the slots that it took, 0 when its end has not come.
    fn take(
        &mut self,
        way: &Way,
        there: u16,
        buffers: &mut Buffers,
        out: &mut Vector,
        counts: &mut ReceiveCounts,
    ) -> Result<u16, Nonsense> {
        let said = way.ring.descriptor(self.done);
        if said.flags & NEXT == 0 && (1..=DATA_SIZE as u32).contains(&said.length) {
            let number = *self.slot(self.done);
            let packet = self.lent.regain(number).expect("it was offered in this slot");
            self.done = self.done.wrapping_add(1);
            let l2 = HEADROOM as u16;
            out.push(Row { packet, l2, l3: l2, length: said.length as u16, ..Row::default() }, 0);
            return Ok(1);
        }
        self.take_odd(way, (said, there), buffers, out, counts)
    }

    /// The same of a packet in several slots, or of nonsense. `first`: what its first slot says, which is read once.
    #[cold]
    fn take_odd(
        &mut self,
        way: &Way,
        (first, there): (Descriptor, u16),
        buffers: &mut Buffers,
        out: &mut Vector,
        counts: &mut ReceiveCounts,
    ) -> Result<u16, Nonsense> {
        let mut parts = [(PacketIndex::NONE, 0); MAX_SEGMENTS];
        let (mut count, mut total, mut is_sound) = (0u16, 0usize, true);
        loop {
            if count == there {
                // No room is left in which it could end.
                return if there >= way.ring.size() { Err(Nonsense) } else { Ok(0) };
            }
            let said = if count == 0 { first } else { way.ring.descriptor(self.done.wrapping_add(count)) };
            let length = said.length as usize;
            is_sound &= length > 0 && length <= DATA_SIZE;
            if let Some(part) = parts.get_mut(usize::from(count)) {
                part.1 = length.min(DATA_SIZE) as u16;
            }
            total = total.saturating_add(length);
            count += 1;
            if said.flags & NEXT == 0 {
                break;
            }
        }
        let fits = usize::from(count) <= MAX_SEGMENTS && total <= usize::from(u16::MAX);
        for at in 0..count {
            let number = *self.slot(self.done.wrapping_add(at));
            let packet = self.lent.regain(number).expect("it was offered in this slot");
            match parts.get_mut(usize::from(at)).filter(|_| is_sound && fits) {
                Some(part) => part.0 = packet,
                None => buffers.free(&[packet]),
            }
        }
        self.done = self.done.wrapping_add(count);
        if !is_sound || !fits {
            *(if is_sound { &mut counts.too_long } else { &mut counts.malformed }) += 1;
            return Ok(count);
        }
        let parts = &parts[..usize::from(count)];
        for (i, &(packet, length)) in parts.iter().enumerate() {
            let segment = buffers.segment_mut(packet);
            (segment.offset, segment.length) = (HEADROOM as u16, length);
            segment.set_next(parts.get(i + 1).map(|next| next.0));
        }
        let (l2, length) = (HEADROOM as u16, total as u16);
        out.push(Row { packet: parts[0].0, l2, l3: l2, length, flags: flag::CHAINED, ..Row::default() }, 0);
        Ok(count)
    }

    /// Puts packets into the ring where they lie, or copies of them when others send by it, too, and writes their
    /// edges.
    ///
    /// # Errors
    /// When the master's count makes no sense.
    pub fn send(
        &mut self,
        way: &Way,
        buffers: &mut Buffers,
        vector: &mut Vector,
        is_shared: bool,
    ) -> Result<(), Nonsense> {
        for _ in 0..self.come(way.ring.tail())? {
            let number = *self.slot(self.done);
            let packet = self.lent.regain(number).expect("it was sent in this slot");
            if self.linked > 0 && buffers.segment(packet).next().is_some() {
                buffers.segment_mut(packet).set_next(None);
                self.linked -= 1;
            }
            buffers.free(&[packet]);
            self.done = self.done.wrapping_add(1);
        }
        for i in 0..vector.len() {
            let row = vector.row(i);
            let to = if is_shared { self.put_copy(way, buffers, &row) } else { self.put(way, buffers, &row) };
            vector.set_edge(i, to);
        }
        way.ring.announce_head(self.offered);
        Ok(())
    }

    fn room(&self, way: &Way) -> usize {
        usize::from(way.ring.size() - self.offered.wrapping_sub(self.done))
    }

    fn give(&mut self, way: &Way, packet: PacketIndex, offset: u16, length: u16, goes_on: bool) {
        self.lent.lend(packet);
        *self.slot(self.offered) = packet.as_u32();
        way.ring.put(self.offered, descriptor(packet, offset, length, if goes_on { NEXT } else { 0 }));
        self.offered = self.offered.wrapping_add(1);
    }

    fn put(&mut self, way: &Way, buffers: &Buffers, row: &Row) -> EdgeIndex {
        let Some(chain) = Chain::of(buffers, row).filter(|_| row.length > 0) else { return REFUSED };
        let parts = chain.parts();
        if parts.len() > usize::from(way.ring.size()) {
            return TOO_LONG;
        }
        if parts.len() > self.room(way) {
            return FULL;
        }
        for (i, part) in parts.iter().enumerate() {
            self.give(way, part.packet, part.offset, part.length, i + 1 < parts.len());
        }
        self.linked += parts.len() - 1;
        edge::LENT
    }

    fn put_copy(&mut self, way: &Way, buffers: &mut Buffers, row: &Row) -> EdgeIndex {
        let Some(chain) = Chain::of(buffers, row).filter(|_| row.length > 0) else { return REFUSED };
        let count = usize::from(row.length).div_ceil(DATA_SIZE);
        if count > usize::from(way.ring.size()) {
            return TOO_LONG;
        }
        let mut copies = [PacketIndex::NONE; u16::MAX as usize / DATA_SIZE + 1];
        let copies = &mut copies[..count];
        let got = if count <= self.room(way) { buffers.allocate(copies) } else { 0 };
        if got < count {
            buffers.free(&copies[..got]);
            return FULL;
        }
        for (i, &packet) in copies.iter().enumerate() {
            let n = DATA_SIZE.min(usize::from(row.length) - i * DATA_SIZE);
            buffers.segment_mut(packet).set_next(None);
            chain.copy(buffers, i * DATA_SIZE, n, packet, HEADROOM);
            self.give(way, packet, HEADROOM as u16, n as u16, i + 1 < count);
        }
        edge::SENT
    }
}
