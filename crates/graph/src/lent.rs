//! Buffers that a device has: the kernel writes what arrives to them, or reads what is to be sent.
//!
//! Whoever lends buffers keeps count of which, so that a device can only give back what it was given, and that
//! nothing is lost with a device that goes.

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

    /// How many it has.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The device gets a buffer. It has to be the caller's, who does not touch it any more.
    #[inline]
    pub fn lend(&mut self, packet: PacketIndex) {
        self.held[packet.0 as usize / 64] |= 1 << (packet.0 % 64);
        self.count += 1;
    }

    /// The device gives a buffer back, which it knows by its number; none: it has no such buffer.
    #[inline]
    pub fn regain(&mut self, number: u32) -> Option<PacketIndex> {
        let word = self.held.get_mut(number as usize / 64)?;
        let bit = 1 << (number % 64);
        if *word & bit == 0 {
            return None;
        }
        *word &= !bit;
        self.count -= 1;
        Some(PacketIndex(number))
    }
}

impl Drop for Lent {
    /// What the device still has goes back to the pool. To be dropped once the device is closed.
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
            let mut some = [PacketIndex::default(); 700];
            assert_eq!(buffers.allocate(&mut some), 700, "round {round}");
            some.iter().for_each(|packet| lent.lend(*packet));
            drop(lent);
            assert_eq!(pool.returned(), round * 700);
        }
        assert_eq!(buffers.in_use() - pool.returned(), 0);
    }
}
