//! Reads the fixed part of a header in place.
//!
//! Each protocol file declares its header once as a `#[repr(C)]` struct of byte-aligned,
//! network-order fields; zerocopy derives that any bytes of that length are such a header.
//! The views reach their fields through these two functions only.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const TOO_SHORT: &str = "a header view needs at least its fixed header in the buffer";

/// The first bytes of `bytes` as a fixed header.
///
/// # Panics
/// When `bytes` is shorter than `T`, which a view's `new_checked` has ruled out.
#[inline]
pub(crate) fn fixed<T: FromBytes + KnownLayout + Immutable + Unaligned>(bytes: &[u8]) -> &T {
    match T::ref_from_prefix(bytes) {
        Ok((header, _)) => header,
        Err(_) => panic!("{TOO_SHORT}"),
    }
}

/// As [`fixed`], for writing.
#[inline]
pub(crate) fn fixed_mut<T: FromBytes + IntoBytes + KnownLayout + Unaligned>(bytes: &mut [u8]) -> &mut T {
    match T::mut_from_prefix(bytes) {
        Ok((header, _)) => header,
        Err(_) => panic!("{TOO_SHORT}"),
    }
}
