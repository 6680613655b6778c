//! The bpf(2) system call, as far as a program on an interface and its maps need it (Linux `include/uapi/linux/bpf.h`).
#![allow(unsafe_code)]

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ffi::CStr;
use std::io;

/// Commands.
const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP_ELEM: libc::c_long = 1;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
/// Program and attachment.
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// The program supports frames in several buffers.
const F_XDP_HAS_FRAGS: u32 = 1 << 5;
/// Kinds of maps.
pub const MAP_ARRAY: u32 = 2;
pub const MAP_XSKMAP: u32 = 17;
/// Bytes of the verifier's log.
const LOG_SIZE: usize = 64 << 10;

/// Where a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// In the device's driver.
    Native,
    /// In the kernel's common receive path, whatever the driver.
    Generic,
}

impl Hook {
    fn flag(self) -> u32 {
        match self {
            Hook::Native => 1 << 2,
            Hook::Generic => 1 << 1,
        }
    }
}

/// `union bpf_attr`, as bytes: fields that a command does not set are zero.
#[repr(C, align(8))]
struct Attributes([u8; 128]);

impl Attributes {
    fn new() -> Attributes {
        Attributes([0; 128])
    }

    fn number(mut self, at: usize, value: u32) -> Attributes {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn long(mut self, at: usize, value: u64) -> Attributes {
        self.0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn pointer<T: ?Sized>(self, at: usize, to: *const T) -> Attributes {
        self.long(at, to.cast::<u8>().expose_provenance() as u64)
    }

    /// # Safety
    /// What its pointers point to is as long as the command expects.
    unsafe fn call(mut self, command: libc::c_long) -> io::Result<libc::c_long> {
        let attributes = std::ptr::from_mut(&mut self.0);
        // SAFETY: by contract; the length is that of the attributes.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<Attributes>()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }

    /// The same, for a command that returns a descriptor.
    ///
    /// # Safety
    /// As for `call`.
    unsafe fn make(self, command: libc::c_long) -> io::Result<OwnedFd> {
        // SAFETY: by contract.
        let fd = unsafe { self.call(command)? };
        // SAFETY: just made, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }
}

/// The properties of a new map.
#[derive(Debug, Clone, Copy)]
pub struct MapSpec {
    pub kind: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub entries: u32,
    pub flags: u32,
}

/// A map in the kernel.
pub struct Map {
    fd: OwnedFd,
    spec: MapSpec,
}

impl Map {
    /// # Errors
    /// When the kernel refuses.
    pub fn create(spec: MapSpec) -> io::Result<Map> {
        let attributes = Attributes::new()
            .number(0, spec.kind)
            .number(4, spec.key_size)
            .number(8, spec.value_size)
            .number(12, spec.entries)
            .number(16, spec.flags);
        // SAFETY: no pointers.
        let fd = unsafe { attributes.make(MAP_CREATE)? };
        Ok(Map { fd, spec })
    }

    /// # Errors
    /// Those of the kernel.
    ///
    /// # Panics
    /// When the key or the value is not as long as the map's.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!((key.len(), value.len()), (self.spec.key_size as usize, self.spec.value_size as usize));
        let attributes = Attributes::new()
            .number(0, self.fd.as_raw_fd() as u32)
            .pointer(8, key.as_ptr())
            .pointer(16, value.as_ptr());
        // SAFETY: the kernel reads a key and a value, which are as long as the map's.
        unsafe { attributes.call(MAP_UPDATE_ELEM) }.map(drop)
    }

    /// The value of a key, in a map of numbers.
    pub fn number(&self, key: u32) -> io::Result<u64> {
        assert_eq!((self.spec.key_size, self.spec.value_size), (4, 8));
        let mut value = 0u64;
        let attributes = Attributes::new()
            .number(0, self.fd.as_raw_fd() as u32)
            .pointer(8, &raw const key)
            .pointer(16, &raw mut value);
        // SAFETY: the kernel reads a key and writes a value, which are as long as the map's.
        unsafe { attributes.call(MAP_LOOKUP_ELEM) }?;
        Ok(value)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Loads a program, optionally as one that supports frames in several buffers.
///
/// # Errors
/// The kernel's error, and its verifier's log.
pub fn load(
    name: &CStr,
    instructions: &[u64],
    license: &CStr,
    multi_buffer: bool,
) -> Result<OwnedFd, (io::Error, String)> {
    let attributes = |log: Option<&mut Vec<u8>>| {
        let attributes = Attributes::new()
            .number(0, PROG_TYPE_XDP)
            .number(4, instructions.len() as u32)
            .pointer(8, instructions.as_ptr())
            .pointer(16, license.as_ptr())
            .number(44, if multi_buffer { F_XDP_HAS_FRAGS } else { 0 })
            .number(68, ATTACH_XDP);
        let mut attributes = match log {
            Some(log) => attributes.number(24, 1).number(28, log.len() as u32).pointer(32, log.as_mut_ptr()),
            None => attributes,
        };
        let name = &name.to_bytes()[..name.to_bytes().len().min(15)];
        attributes.0[48..48 + name.len()].copy_from_slice(name);
        attributes
    };
    // SAFETY: the instructions have the stated length, and the string is terminated.
    match unsafe { attributes(None).make(PROG_LOAD) } {
        Ok(program) => Ok(program),
        Err(error) => {
            let mut log = vec![0; LOG_SIZE];
            // SAFETY: as above; the kernel writes at most the log's length.
            let _ = unsafe { attributes(Some(&mut log)).make(PROG_LOAD) };
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            Err((error, String::from_utf8_lossy(&log[..end]).into_owned()))
        }
    }
}

/// Runs a program for each frame of an interface for as long as the link is held.
///
/// # Errors
/// Those of the kernel.
pub fn attach(program: BorrowedFd<'_>, interface: u32, hook: Hook) -> io::Result<OwnedFd> {
    let attributes = Attributes::new()
        .number(0, program.as_raw_fd() as u32)
        .number(4, interface)
        .number(8, ATTACH_XDP)
        .number(12, hook.flag());
    // SAFETY: no pointers.
    unsafe { attributes.make(LINK_CREATE) }
}
