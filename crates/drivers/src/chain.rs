//! Frames in buffers: one buffer, or a chain of them for a longer frame.
//!
//! In a chain the later buffers' segments say where their bytes lie. The first buffer's
//! bytes start at the row's `l2`, and there are as many as `length` leaves for it, so that
//! a node that changes the headers changes the row only.
#![allow(unsafe_code)]

use graph::buffer::{DATA_SIZE, HEADROOM, MAX_SEGMENTS};
use graph::{Buffers, PacketIndex, Row, flag};
use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;

/// Where a buffer's data ends.
const DATA_END: usize = HEADROOM + DATA_SIZE;

/// One buffer's bytes of a frame.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub packet: PacketIndex,
    pub offset: u16,
    pub length: u16,
}

/// A frame's bytes, part by part.
#[derive(Clone)]
pub struct Chain {
    parts: [Part; MAX_SEGMENTS],
    count: usize,
}

impl Chain {
    /// The parts of a packet; none if its metadata contradict each other.
    #[inline]
    pub fn of(buffers: &Buffers, row: &Row) -> Option<Chain> {
        const NONE: Part = Part { packet: PacketIndex::NONE, offset: 0, length: 0 };
        let mut chain = Chain { parts: [NONE; MAX_SEGMENTS], count: 1 };
        let mut first = row.length as usize;
        if row.flags & flag::CHAINED != 0 {
            let mut next = buffers.segment(row.packet).next();
            while let Some(packet) = next {
                let segment = buffers.segment(packet);
                let part = chain.parts.get_mut(chain.count)?;
                *part = Part { packet, offset: segment.offset, length: segment.length };
                if segment.offset as usize + segment.length as usize > DATA_END {
                    return None;
                }
                first = first.checked_sub(segment.length as usize)?;
                chain.count += 1;
                next = segment.next();
            }
        }
        if row.l2 as usize + first > DATA_END {
            return None;
        }
        chain.parts[0] = Part { packet: row.packet, offset: row.l2, length: first as u16 };
        Some(chain)
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts[..self.count]
    }

    /// The bytes of the first buffer: the headers.
    pub fn head<'a>(&self, buffers: &'a Buffers) -> &'a [u8] {
        bytes(buffers, self.parts[0])
    }

    /// All bytes, in order.
    #[inline]
    pub fn slices<'a>(&self, buffers: &'a Buffers) -> impl Iterator<Item = &'a [u8]> {
        self.parts().iter().map(|&part| bytes(buffers, part))
    }

    /// Copies `length` bytes from `from` on to the buffer `to`, at `at`.
    ///
    /// # Panics
    /// When the frame or the buffer has fewer.
    pub fn copy(&self, buffers: &mut Buffers, from: usize, length: usize, to: PacketIndex, at: usize) {
        let (mut skip, mut done) = (from, 0);
        for part in self.parts() {
            let part_length = part.length as usize;
            if skip >= part_length {
                skip -= part_length;
                continue;
            }
            let n = (part_length - skip).min(length - done);
            let (source, target) = buffers.pair_mut(part.packet, to);
            let start = part.offset as usize + skip;
            target[at + done..at + done + n].copy_from_slice(&source[start..start + n]);
            (skip, done) = (0, done + n);
            if done == length {
                return;
            }
        }
        assert_eq!(done, length, "copied beyond the end of a frame");
    }
}

#[inline]
fn bytes(buffers: &Buffers, part: Part) -> &[u8] {
    let start = part.offset as usize;
    &buffers.bytes(part.packet)[start..start + part.length as usize]
}

/// Links buffers into one packet of `length` bytes that start at [`HEADROOM`] in each.
/// All but the last are full.
pub fn link(buffers: &mut Buffers, packets: &[PacketIndex], length: usize) {
    debug_assert_eq!(packets.len(), length.div_ceil(DATA_SIZE).max(1));
    let mut rest = length;
    for (i, &packet) in packets.iter().enumerate() {
        let segment = buffers.segment_mut(packet);
        segment.offset = HEADROOM as u16;
        segment.length = rest.min(DATA_SIZE) as u16;
        segment.set_next(packets.get(i + 1).copied());
        rest = rest.saturating_sub(DATA_SIZE);
    }
}

/// Copies bytes into buffers, as many as they need, and links these into one packet.
pub fn write(buffers: &mut Buffers, packets: &[PacketIndex], bytes: &[u8]) {
    for (&packet, part) in packets.iter().zip(bytes.chunks(DATA_SIZE)) {
        buffers.bytes_mut(packet)[HEADROOM..HEADROOM + part.len()].copy_from_slice(part);
    }
    link(buffers, packets, bytes.len());
}

/// Enough buffers for the longest frame and some more bytes, by which a longer frame is detected.
const FRAME_BUFFERS: usize = 32;
const _: () = assert!(FRAME_BUFFERS * DATA_SIZE > u16::MAX as usize && FRAME_BUFFERS <= MAX_SEGMENTS);

/// A frame that was read: its first buffer and its length, which may be beyond what a
/// packet can have.
pub struct Frame {
    pub packet: PacketIndex,
    pub length: usize,
}

impl Frame {
    /// [`flag::CHAINED`] or nothing.
    pub fn flags(&self) -> u32 {
        if self.length > DATA_SIZE { flag::CHAINED } else { 0 }
    }
}

/// Fresh buffers, enough for the longest frame, for as long as a receive queue is polled.
pub(crate) struct Fresh {
    packets: [PacketIndex; FRAME_BUFFERS],
    /// The buffers before this one are used up.
    first: usize,
}

impl Fresh {
    /// Bytes of a frame that are read; the rest of a longer one is cut off.
    pub const CAPACITY: usize = FRAME_BUFFERS * DATA_SIZE;

    pub fn new() -> Fresh {
        Fresh { packets: [PacketIndex::NONE; FRAME_BUFFERS], first: FRAME_BUFFERS }
    }

    /// Replaces used buffers; returns whether the pool had enough.
    #[inline]
    pub fn fill(&mut self, buffers: &mut Buffers) -> bool {
        let got = buffers.allocate(&mut self.packets[..self.first]);
        if got < self.first {
            self.packets.copy_within(..got, self.first - got);
        }
        self.first -= got;
        self.first == 0
    }

    /// Returns the unused buffers to the pool.
    pub fn give_back(self, buffers: &mut Buffers) {
        buffers.free(&self.packets[self.first..]);
    }

    /// Reads one frame with `header` ahead of it.
    ///
    /// # Errors
    /// The system's; `WouldBlock` when nothing has arrived, `InvalidData` when even the header is incomplete.
    ///
    /// # Panics
    /// Unless filled.
    #[inline]
    pub fn read(&mut self, buffers: &mut Buffers, from: BorrowedFd<'_>, header: &mut [u8]) -> io::Result<Frame> {
        assert_eq!(self.first, 0);
        let header_length = header.len();
        let mut vectors =
            [libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header_length }; FRAME_BUFFERS + 1];
        for (vector, &packet) in vectors[1..].iter_mut().zip(&self.packets) {
            vector.iov_base = buffers.bytes_mut(packet)[HEADROOM..].as_mut_ptr().cast();
            vector.iov_len = DATA_SIZE;
        }
        // SAFETY: the vectors point to the header and to DATA_SIZE bytes in distinct buffers that are ours; nothing
        // else borrows either during the call.
        let n = unsafe { libc::readv(from.as_raw_fd(), vectors.as_ptr(), vectors.len() as i32) };
        let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        let Some(length) = n.checked_sub(header_length) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        Ok(self.take(buffers, length))
    }

    /// Copies one frame of at most two buffers from memory that other processes may write to.
    ///
    /// # Panics
    /// When it is longer.
    ///
    /// # Safety
    /// `length` bytes can be read at `from`.
    #[inline]
    pub unsafe fn copy(&mut self, buffers: &mut Buffers, from: *const u8, length: usize) -> Frame {
        assert!(length <= 2 * DATA_SIZE && self.first + 2 <= FRAME_BUFFERS);
        let (head, tail) = (length.min(DATA_SIZE), length.saturating_sub(DATA_SIZE));
        let first = &mut buffers.bytes_mut(self.packets[self.first])[HEADROOM..][..head];
        // SAFETY: readable by contract, writable as a slice.
        unsafe { std::ptr::copy_nonoverlapping(from, first.as_mut_ptr(), head) };
        if tail > 0 {
            let second = &mut buffers.bytes_mut(self.packets[self.first + 1])[HEADROOM..][..tail];
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(from.add(head), second.as_mut_ptr(), tail) };
        }
        self.take(buffers, length)
    }

    /// Takes the buffers that `length` bytes were written to.
    #[inline]
    fn take(&mut self, buffers: &mut Buffers, length: usize) -> Frame {
        let packet = self.packets[self.first];
        let used = length.div_ceil(DATA_SIZE).max(1);
        if used > 1 {
            link(buffers, &self.packets[self.first..][..used], length);
        }
        self.first += used;
        Frame { packet, length }
    }
}
