//! The other side of a memif, for measurements: it makes packets in the ring's own buffers, and counts the packets that
//! come back.
//!
//! It is a slave, so it knows where its buffers lie. It writes each packet anew, as any sender has to. Of packets that
//! come back it reads only the descriptors. So the side that is measured bears the cost of memory that moves between
//! cores, and the generator itself costs little.
#![allow(unsafe_code)]

use super::keeper::{ConnectionHandle, Interface, Keeper};
use super::queue::Connection;
use super::ring::Descriptor;
use super::{Options, Role};
use crate::OpenError;
use std::sync::Arc;

/// Bytes at a frame's beginning that may differ from frame to frame.
pub const HEAD: usize = 64;

/// Uses one ring in each direction: the first queue of each.
pub struct Generator {
    interface: Arc<Interface>,
    _care: ConnectionHandle,
    connection: Option<Arc<Connection>>,
    seen: u32,
    /// The slots to write and to read next.
    next: u16,
    coming: u16,
}

/// What came back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Came {
    pub packets: u64,
    pub bytes: u64,
}

impl Generator {
    /// Connects to a master.
    ///
    /// # Errors
    /// When the options contradict each other.
    ///
    /// # Panics
    /// When the options are a master's.
    pub fn new(keeper: &Keeper, options: Options) -> Result<Generator, OpenError> {
        assert_eq!(options.role, Role::Slave);
        options.check()?;
        let interface = Arc::new(Interface::new(options, None)?);
        let care = keeper.add(interface.clone())?;
        Ok(Generator { interface, _care: care, connection: None, seen: 0, next: 0, coming: 0 })
    }

    /// Whether a master is connected. With each new connection the rings start from the beginning.
    pub fn is_connected(&mut self) -> bool {
        if self.interface.slot.generation() != self.seen {
            (self.seen, self.connection) = self.interface.slot.connection();
            (self.next, self.coming) = (0, 0);
            if let Some(way) = self.connection.as_ref().and_then(|it| it.receive.first()) {
                way.ring.set_wakes(false);
            }
        }
        self.connection.is_some()
    }

    /// Writes as many copies of a frame as there is room for, `most` at most. `change` may change the beginning of
    /// each. Returns how many were written.
    pub fn send(&mut self, most: u16, frame: &[u8], mut change: impl FnMut(&mut [u8; HEAD])) -> u16 {
        let Some(connection) = self.connection.as_deref() else { return 0 };
        let (memory, Some(way)) = (&connection.memory, connection.transmit.first()) else { return 0 };
        let Some(own) = way.own.filter(|own| frame.len() <= own.size as usize) else { return 0 };
        let used = self.next.wrapping_sub(way.ring.tail());
        let count = way.ring.size().saturating_sub(used).min(most);
        let (head, rest) = frame.split_at(frame.len().min(HEAD));
        let mut line = [0; HEAD];
        line[..head.len()].copy_from_slice(head);
        let mut done = 0;
        for slot in (0..count).map(|i| self.next.wrapping_add(i)) {
            change(&mut line);
            let offset = own.offset + u32::from(slot & (way.ring.size() - 1)) * own.size;
            let Some(to) = memory.buffer(own.region, offset, frame.len()) else { break };
            // SAFETY: `buffer` has found that many bytes there, and no reference to them exists here; what is read is
            // as long.
            unsafe {
                if head.len() == HEAD {
                    to.as_ptr().cast::<[u8; HEAD]>().write_unaligned(line);
                    std::ptr::copy_nonoverlapping(rest.as_ptr(), to.as_ptr().add(HEAD), rest.len());
                } else {
                    std::ptr::copy_nonoverlapping(line.as_ptr(), to.as_ptr(), head.len());
                }
            }
            way.ring.put(slot, Descriptor { flags: 0, region: own.region, length: frame.len() as u32, offset });
            done += 1;
        }
        let next = self.next.wrapping_add(done);
        way.ring.set_head(next);
        self.next = next;
        done
    }

    /// Counts the packets that came back, and returns their buffers to the ring.
    pub fn receive(&mut self) -> Came {
        let Some(way) = self.connection.as_deref().and_then(|it| it.receive.first()) else { return Came::default() };
        let Some(own) = way.own else { return Came::default() };
        let there = way.ring.tail().wrapping_sub(self.coming).min(way.ring.size());
        let mut came = Came { packets: there.into(), bytes: 0 };
        for slot in (0..there).map(|i| self.coming.wrapping_add(i)) {
            came.bytes += u64::from(way.ring.descriptor(slot).length);
            let offset = own.offset + u32::from(slot & (way.ring.size() - 1)) * own.size;
            way.ring.put(slot, Descriptor { flags: 0, region: own.region, length: own.size, offset });
        }
        self.coming = self.coming.wrapping_add(there);
        let (coming, size) = (self.coming, way.ring.size());
        if there > 0 {
            way.ring.set_head(coming.wrapping_add(size));
        }
        came
    }
}
