//! Batches of one address, which are looked up once.

use std::ops::{BitOr, BitXor};

/// Whether all are the same. In blocks, so that it is seen early when they are not, and in few instructions when they
/// are.
#[inline]
pub(crate) fn is_one_value<A>(addresses: &[A]) -> bool
where
    A: Copy + Default + PartialEq + BitXor<Output = A> + BitOr<Output = A>,
{
    let Some(&first) = addresses.first() else { return true };
    let differ = |block: &[A]| block.iter().fold(A::default(), |differ, address| differ | (*address ^ first));
    addresses.chunks(64).all(|block| differ(block) == A::default())
}
