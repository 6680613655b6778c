//! AF_XDP sockets: one for each queue of an interface. The sockets of one interface share one registration of our
//! buffers.
//!
//! All buffers of the pool are registered as chunks of one memory area (with `XDP_UMEM_UNALIGNED_CHUNK_FLAG`, because
//! their distance is no power of two). A chunk starts where a buffer does, so the 256 bytes that the kernel leaves free
//! are our headroom.
#![allow(unsafe_code)]

use super::ring::{Consumer, Kind, Offsets, Producer};
use crate::{OpenError, socket_option};
use graph::buffer::{DATA_SIZE, HEADROOM, STRIDE};
use graph::{Lent, Pool};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that the kernel leaves free ahead of a frame (`XDP_PACKET_HEADROOM`).
const KERNEL_HEADROOM: usize = 256;
const _: () = assert!(KERNEL_HEADROOM == HEADROOM);
/// Bytes of a buffer that the kernel may use.
const CHUNK: usize = HEADROOM + DATA_SIZE;
/// An address says where a chunk starts; its upper bits say how far into the chunk the bytes start.
const OFFSET_SHIFT: u32 = libc::XSK_UNALIGNED_BUF_OFFSET_SHIFT as u32;

/// A driver may use our memory for a while after a socket that it served is closed, and does not report when it stops.
const GRACE: Duration = Duration::from_millis(200);

/// The kernel's address of bytes in a buffer.
#[inline(always)]
pub fn address(number: u32, offset: u16) -> u64 {
    (u64::from(number) * STRIDE as u64) | (u64::from(offset) << OFFSET_SHIFT)
}

/// The buffer of an address, and how far into it the bytes start. None: no buffer starts there.
#[inline(always)]
pub fn place(address: u64) -> Option<(u32, u16)> {
    let start = address & ((1 << OFFSET_SHIFT) - 1);
    let number = start / STRIDE as u64;
    (number * STRIDE as u64 == start && number <= u64::from(u32::MAX))
        .then_some((number as u32, (address >> OFFSET_SHIFT) as u16))
}

/// How a socket is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    pub interface: u32,
    pub queue: u32,
    pub zero_copy: bool,
}

/// What the kernel counts for a socket: full and empty rings, and invalid frames (`struct xdp_statistics`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Statistics {
    pub rx_dropped: u64,
    pub rx_invalid: u64,
    pub tx_invalid: u64,
    pub rx_ring_full: u64,
    pub fill_ring_empty: u64,
}

/// A socket.
pub struct Socket {
    fd: OwnedFd,
    zero_copy: bool,
    /// Whether a frame may span several buffers.
    pub multi_buffer: bool,
    /// Set when the device had no room for all that is in the transmit ring. The worker that receives by this socket
    /// retries; the bell wakes it, because it may be asleep.
    unsent: AtomicBool,
    bell: OwnedFd,
    /// Readable when frames have arrived, or the bell was rung.
    waiter: OwnedFd,
    /// How many buffers the kernel has: first those to receive, then those to send.
    pub lent: [AtomicU32; 2],
    /// Buffers that the kernel still had when their queue was given up. It has them until this socket is closed.
    left: Mutex<Vec<Lent>>,
}

/// The rings of a socket.
pub struct Rings {
    pub receive: Consumer<libc::xdp_desc>,
    pub fill: Producer<u64>,
    pub transmit: Producer<libc::xdp_desc>,
    pub completion: Consumer<u64>,
}

fn failed(what: &str) -> impl Fn(io::Error) -> OpenError {
    let what = what.to_string();
    move |error| OpenError::system(what.clone(), error)
}

impl Socket {
    /// A bound socket, and its rings of `receive` and `transmit` entries. The first socket of an interface registers
    /// the pool; later ones share that registration.
    ///
    /// # Errors
    /// When the kernel refuses the socket, its rings, its memory or its queue.
    pub fn open(
        binding: Binding,
        (receive, transmit): (u32, u32),
        pool: &Pool,
        first: Option<&Socket>,
    ) -> Result<(Rings, Socket), OpenError> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::socket(libc::AF_XDP, kind, 0) };
        if fd < 0 {
            return Err(failed("opening an AF_XDP socket")(io::Error::last_os_error()));
        }
        // SAFETY: just opened, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        if first.is_none() {
            register(&fd, pool)?;
        }
        let sizes =
            [(Kind::Fill, receive), (Kind::Completion, transmit), (Kind::Receive, receive), (Kind::Transmit, transmit)];
        for (kind, size) in sizes {
            let made = socket_option::set(&fd, libc::SOL_XDP, kind.option(), &size);
            made.map_err(|error| OpenError::system(format!("making the {kind:?} ring of {size} entries"), error))?;
        }
        let offsets: Offsets =
            socket_option::get(&fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS).map_err(failed("asking where rings lie"))?;
        let mapping = failed("mapping a ring");
        let rings = Rings {
            receive: Consumer::of(&fd, Kind::Receive, receive, &offsets).map_err(&mapping)?,
            fill: Producer::of(&fd, Kind::Fill, receive, &offsets).map_err(&mapping)?,
            transmit: Producer::of(&fd, Kind::Transmit, transmit, &offsets).map_err(&mapping)?,
            completion: Consumer::of(&fd, Kind::Completion, transmit, &offsets).map_err(&mapping)?,
        };
        let multi_buffer = bind_soon(&fd, binding, first).map_err(|error| {
            let taken =
                if error.raw_os_error() == Some(libc::EBUSY) { " (another program has that queue)" } else { "" };
            OpenError::system(format!("queue {}{taken}", binding.queue), error)
        })?;
        let socket = Socket::of(fd, binding.zero_copy, multi_buffer).map_err(failed("a descriptor to wait for"))?;
        // In this order a tuple that is dropped drops the rings first: they would keep the socket open.
        Ok((rings, socket))
    }

    /// Makes the kernel send what is in the transmit ring.
    ///
    /// # Errors
    /// When the kernel did not send all of it.
    #[inline]
    pub fn kick_transmit(&self) -> Result<(), Errno> {
        // SAFETY: no memory is passed.
        let n =
            unsafe { libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        if n >= 0 { Ok(()) } else { Err(last_error()) }
    }

    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Notes that the device had no room, and wakes the worker that receives by this socket, which retries.
    #[cold]
    pub fn set_unsent(&self) {
        self.unsent.store(true, Ordering::Relaxed);
        // When the counter is full, the bell has been rung already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Retries to send what is in the transmit ring.
    #[cold]
    pub fn send_rest(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        self.unsent.store(false, Ordering::Relaxed);
        if let Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) = self.kick_transmit() {
            self.set_unsent();
        }
    }

    /// Makes the driver look at the fill ring and, with busy polling, receive.
    #[inline]
    pub fn kick_receive(&self) {
        // SAFETY: no memory is passed. Faults of the device show elsewhere, so the result is ignored.
        unsafe {
            let (nothing, no_address) = (std::ptr::null_mut(), std::ptr::null_mut());
            libc::recvfrom(self.fd.as_raw_fd(), nothing, 0, libc::MSG_DONTWAIT, no_address, std::ptr::null_mut());
        }
    }

    /// Makes the driver poll the device only when we ask it to, for at most this many microseconds and packets.
    ///
    /// # Errors
    /// When the kernel is older than 5.11.
    pub fn set_busy_poll(&self, microseconds: u32, budget: u32) -> io::Result<()> {
        let options = [
            (libc::SO_PREFER_BUSY_POLL, 1u32),
            (libc::SO_BUSY_POLL, microseconds),
            (libc::SO_BUSY_POLL_BUDGET, budget),
        ];
        options.iter().try_for_each(|(name, value)| socket_option::set(&self.fd, libc::SOL_SOCKET, *name, value))
    }

    /// The kernel's counts; zeros when it does not report them.
    pub fn statistics(&self) -> Statistics {
        let told: [u64; 6] = socket_option::get(&self.fd, libc::SOL_XDP, libc::XDP_STATISTICS).unwrap_or_default();
        let [rx_dropped, rx_invalid, tx_invalid, rx_ring_full, fill_ring_empty, _] = told;
        Statistics { rx_dropped, rx_invalid, tx_invalid, rx_ring_full, fill_ring_empty }
    }

    /// Keeps buffers that the kernel has while their queue is given up.
    pub fn leave(&self, lent: Lent) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(lent);
    }
}

impl Socket {
    /// Wraps a bound socket; in tests, a file with rings.
    pub fn of(fd: OwnedFd, zero_copy: bool, multi_buffer: bool) -> io::Result<Socket> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let waiter = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&waiter, &bell, EventData::new_u64(0), EventFlags::IN)?;
        // A regular file is always ready, and epoll refuses it.
        match epoll::add(&waiter, &fd, EventData::new_u64(1), EventFlags::IN) {
            Ok(()) | Err(Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        let (unsent, lent) = (AtomicBool::new(false), Default::default());
        Ok(Socket { fd, zero_copy, multi_buffer, unsent, bell, waiter, lent, left: Mutex::default() })
    }

    /// The socket itself, for the XDP program that sends frames to it.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsFd for Socket {
    /// What a receiver waits for.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waiter.as_fd()
    }
}

impl Drop for Socket {
    /// Closes the socket before the buffers go back to the pool.
    fn drop(&mut self) {
        if let Ok(nowhere) = eventfd(0, EventfdFlags::CLOEXEC) {
            let _ = epoll::delete(&self.waiter, &self.fd);
            drop(std::mem::replace(&mut self.fd, nowhere));
        }
        // Even without zero-copy, a device may read frames that it sends from our buffers (virtio-net).
        let is_used = self.zero_copy || self.lent[1].load(Ordering::Relaxed) > 0;
        let left = self.left.get_mut().unwrap_or_else(PoisonError::into_inner);
        if is_used && left.iter().any(|lent| lent.count() > 0) {
            std::thread::sleep(GRACE);
        }
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Registers our buffers with the kernel, which pins all of their memory.
fn register(fd: &OwnedFd, pool: &Pool) -> Result<(), OpenError> {
    let (base, length) = pool.memory();
    let about = libc::xdp_umem_reg {
        addr: base.as_ptr().expose_provenance() as u64,
        len: length as u64,
        chunk_size: CHUNK as u32,
        headroom: 0,
        flags: libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG,
        tx_metadata_len: 0,
    };
    socket_option::set(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &about).map_err(|error| {
        let advice = match error.raw_os_error() {
            Some(libc::ENOBUFS) => " (more than this user may lock: 'ulimit -l', or LimitMEMLOCK= of the service)",
            Some(libc::ENOMEM) => " (there is not that much memory: fewer 'buffers-per-numa')",
            _ => "",
        };
        OpenError::system(format!("registering {} MiB of buffers{advice}", length >> 20), error)
    })
}

/// Binds to a queue. Retries while the kernel still detaches another socket of that queue, which was just closed.
fn bind_soon(fd: &OwnedFd, binding: Binding, first: Option<&Socket>) -> io::Result<bool> {
    let end = Instant::now() + GRACE;
    loop {
        match bind(fd, binding, first) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            outcome => return outcome,
        }
    }
}

/// Binds to a queue. Returns whether a frame may span several buffers.
fn bind(fd: &OwnedFd, binding: Binding, first: Option<&Socket>) -> io::Result<bool> {
    // A socket that shares memory copies, or does not, as the first one does.
    let way = match first {
        Some(_) => libc::XDP_SHARED_UMEM,
        None if binding.zero_copy => libc::XDP_ZEROCOPY | libc::XDP_USE_NEED_WAKEUP,
        None => libc::XDP_COPY | libc::XDP_USE_NEED_WAKEUP,
    };
    let bind = |flags: u16| {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: binding.interface,
            sxdp_queue_id: binding.queue,
            sxdp_shared_umem_fd: first.map_or(0, |first| first.fd.as_raw_fd() as u32),
        };
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: an address of that length.
        let result = unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    match first {
        Some(first) => bind(way).map(|()| first.multi_buffer),
        // Kernels before 6.6 know no frames in several buffers, and some drivers support them only with copying.
        None => match bind(way | libc::XDP_USE_SG) {
            Ok(()) => Ok(true),
            Err(error) if [Some(libc::EINVAL), Some(libc::EOPNOTSUPP)].contains(&error.raw_os_error()) => {
                bind(way).map(|()| false).map_err(|_| error)
            }
            Err(error) => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_buffers() {
        for (number, offset) in [(0, 0), (1, 256), (70_000, 2303), (u32::MAX, u16::MAX)] {
            assert_eq!(place(address(number, offset)), Some((number, offset)));
        }
        for wrong in [1, STRIDE as u64 - 1, STRIDE as u64 + 64, (1 << 48) - 1] {
            assert_eq!(place(wrong), None, "{wrong}");
        }
    }
}
