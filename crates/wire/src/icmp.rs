//! What ICMP of both families has in common: the eight bytes ahead of each message. [`crate::icmpv4`] and
//! [`crate::icmpv6`] have types, codes and checksums.

use std::fmt;
use std::marker::PhantomData;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::layout::{fixed, fixed_mut};

/// Bytes of a header: type, code, checksum and four bytes that depend on the type.
pub const HEADER_LEN: usize = 8;

/// Why bytes are not an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    Truncated { available: usize },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Truncated { available } = self;
        write!(f, "ICMP header truncated: {available} bytes of {HEADER_LEN}")
    }
}

impl std::error::Error for ParseError {}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Fixed {
    kind: u8,
    code: u8,
    checksum: U16,
    rest: U32,
}

const _: () = assert!(size_of::<Fixed>() == HEADER_LEN);

/// What the families call their messages.
pub trait Version {
    type Type: Copy + PartialEq + fmt::Debug + From<u8> + Into<u8>;
    type Message;

    /// The meaning of type, code and the four bytes after the checksum.
    fn message(kind: Self::Type, code: u8, rest: u32) -> Self::Message;
}

/// Writes a header to the first 8 bytes of `bytes` with a checksum of zero: it covers what follows, too, so that it
/// is filled when that is in place.
///
/// # Panics
/// When `bytes` is shorter than that.
pub fn emit(bytes: &mut [u8], kind: impl Into<u8>, code: u8, rest: u32) {
    *fixed_mut(bytes) = Fixed { kind: kind.into(), code, checksum: 0.into(), rest: rest.into() };
}

/// A view of a message: all bytes of an IP payload.
#[derive(Clone, Copy, Debug)]
pub struct Header<T, V>(T, PhantomData<V>);

impl<T: AsRef<[u8]>, V: Version> Header<T, V> {
    /// Checks that the header is there. The checksum is not checked.
    ///
    /// # Errors
    /// When there are fewer than 8 bytes.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, ParseError> {
        match bytes.as_ref().len() {
            available @ ..HEADER_LEN => Err(ParseError::Truncated { available }),
            _ => Ok(Self(bytes, PhantomData)),
        }
    }

    /// The whole message.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_ref()
    }

    #[inline]
    fn fixed(&self) -> &Fixed {
        fixed(self.0.as_ref())
    }

    #[inline]
    pub fn kind(&self) -> V::Type {
        self.fixed().kind.into()
    }

    #[inline]
    pub fn code(&self) -> u8 {
        self.fixed().code
    }

    #[inline]
    pub fn checksum(&self) -> u16 {
        self.fixed().checksum.get()
    }

    /// The four bytes after the checksum.
    #[inline]
    pub fn rest(&self) -> u32 {
        self.fixed().rest.get()
    }

    #[inline]
    pub fn message(&self) -> V::Message {
        V::message(self.kind(), self.code(), self.rest())
    }

    /// Echo data, or the quoted packet of an error.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>, V: Version> Header<T, V> {
    #[inline]
    fn fixed_mut(&mut self) -> &mut Fixed {
        fixed_mut(self.0.as_mut())
    }

    #[inline]
    pub fn set_kind(&mut self, kind: V::Type) {
        self.fixed_mut().kind = kind.into();
    }

    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        self.fixed_mut().checksum = checksum.into();
    }

    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.0.as_mut()[HEADER_LEN..]
    }
}
