//! Buffers that a device has: the kernel writes packets that arrive to them, or reads packets to send from them.
//!
//! The lender records which buffers are lent. So a device can only give back what it was given, and no buffer is lost
//! with a device that goes away.

use crate::{PacketIndex, Pool};
use std::sync::Arc;

/// The buffers of a pool that a device has.
pub struct Lent {
    pool: Arc<Pool>,
    /// A bit for each buffer of the pool.
    held: Box<[u64]>,
    count: usize,
}

impl Lent {
    pub fn new(pool: &Arc<Pool>) -> Lent {
        let words = (pool.capacity() as usize).div_ceil(64);
        Lent { pool: pool.clone(), held: vec![0; words].into(), count: 0 }
    }

    /// How many buffers the device has.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Lends a buffer to the device. The caller must own it, and must not touch it any more.
    #[inline]
    pub fn lend(&mut self, packet: PacketIndex) {
        self.held[packet.0 as usize / 64] |= 1 << (packet.0 % 64);
        self.count += 1;
        self.pool.owners().lend(packet.0);
    }

    /// Takes a buffer back from the device, by its number. None: the device has no such buffer.
    #[inline]
    pub fn regain(&mut self, number: u32) -> Option<PacketIndex> {
        let word = self.held.get_mut(number as usize / 64)?;
        let bit = 1 << (number % 64);
        if *word & bit == 0 {
            return None;
        }
        *word &= !bit;
        self.count -= 1;
        self.pool.owners().send(number);
        Some(PacketIndex(number))
    }
}

impl Drop for Lent {
    /// Returns what the device still has to the pool. This must be dropped only once the device is closed.
    fn drop(&mut self) {
        let mut left = Vec::with_capacity(self.count);
        for (at, mut word) in self.held.iter().copied().enumerate() {
            while word != 0 {
                left.push(PacketIndex(at as u32 * 64 + word.trailing_zeros()));
                word &= word - 1;
            }
        }
        self.pool.give_back(&left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffers;

    #[test]
    fn a_device_gives_back_what_it_has_and_that_once() {
        let pool = Pool::new(1024, false).unwrap();
        let mut buffers = Buffers::new(&pool, 1024);
        let mut lent = Lent::new(&pool);
        let [a, b] = [buffers.allocate_one().unwrap(), buffers.allocate_one().unwrap()];
        lent.lend(a);
        assert_eq!((lent.regain(b.as_u32()), lent.regain(1 << 20), lent.regain(u32::MAX)), (None, None, None));
        assert_eq!((lent.count(), lent.regain(a.as_u32()), lent.regain(a.as_u32())), (1, Some(a), None));
        assert_eq!(lent.count(), 0);
    }

    #[test]
    fn what_a_device_still_has_goes_back_with_it() {
        let pool = Pool::new(1024, false).unwrap();
        let mut buffers = Buffers::new(&pool, 1024);
        for round in 1..=4 {
            let mut lent = Lent::new(&pool);
            let mut some = [PacketIndex::NONE; 700];
            assert_eq!(buffers.allocate(&mut some), 700, "round {round}");
            some.iter().for_each(|packet| lent.lend(*packet));
            drop(lent);
            assert_eq!(pool.returned(), round * 700);
        }
        assert_eq!(buffers.in_use() - pool.returned(), 0);
    }
}
