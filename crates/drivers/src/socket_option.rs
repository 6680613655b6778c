//! Options of sockets, for those that no library knows.
#![allow(unsafe_code)]

use rustix::fd::{AsRawFd, OwnedFd};
use std::io;

pub(crate) fn set<T: Copy>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of the value.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), length) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Plain numbers, of which any bytes are some.
///
/// # Safety
/// That is so.
pub(crate) unsafe trait Numbers: Copy + Default {}

// SAFETY: integers.
unsafe impl<const N: usize> Numbers for [u32; N] where [u32; N]: Default {}
// SAFETY: integers.
unsafe impl<const N: usize> Numbers for [u64; N] where [u64; N]: Default {}

/// An option that is one or several numbers. What the kernel has fewer of than asked for stays 0.
pub(crate) fn get<T: Numbers>(fd: &OwnedFd, level: i32, name: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes of the value, and any bytes are such numbers.
    let result = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, std::ptr::from_mut(&mut value).cast(), &raw mut length)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value)
}
