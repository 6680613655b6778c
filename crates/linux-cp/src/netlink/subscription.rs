//! A socket on which Linux says what changes, and answers what is asked for as a whole.

use super::message::FLAG_DUMP_INTERRUPTED;
use drivers::{OpenError, namespace};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, socket_recv_buffer_size};
use rustix::net::{RecvFlags, SendFlags, netlink::SocketAddrNetlink, recvfrom, send};
use std::io;

/// Groups of messages, as bits (linux/rtnetlink.h `RTMGRP_*`, and `RTNLGRP_NEXTHOP`).
pub const LINKS: u32 = 1;
pub const NEIGHBOURS: u32 = 1 << 2;
pub const ADDRESSES: u32 = 1 << 4 | 1 << 8;
pub const ROUTES: u32 = 1 << 6 | 1 << 10 | 1 << 31;

/// The loopback, which is in every namespace.
const FIRST_LINK: u32 = 1;
const FLAG_REQUEST: u16 = 1;
const FLAG_DUMP: u16 = 0x300;

/// What was received.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes.
    Bytes(usize),
    /// Linux had no room for a message, and dropped it.
    Overrun,
    Nothing,
}

/// What can be asked for as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// Nothing but that changes which go on are done. Linux says that an address or an interface is going before it
    /// removes the routes that go with it (`net/ipv4/devinet.c`), under a lock that a question about a link waits for.
    Changes,
    Links,
    Neighbours,
    NextHops,
    Routes4,
    Routes6,
}

impl Whole {
    /// The type of the request, its flags, the family, and the length of the header that begins with it.
    fn request(self) -> (u16, u16, u8, usize) {
        match self {
            Whole::Changes => (18, 0, 0, 16),
            Whole::Links => (18, FLAG_DUMP, 0, 16),
            Whole::Neighbours => (30, FLAG_DUMP, 0, 12),
            Whole::NextHops => (106, FLAG_DUMP, 0, 8),
            Whole::Routes4 => (26, FLAG_DUMP, super::route::AF_INET, 12),
            Whole::Routes6 => (26, FLAG_DUMP, super::route::AF_INET6, 12),
        }
    }
}

/// A subscription to groups of messages in a network namespace.
pub struct Subscription {
    socket: Socket,
    /// The number of the socket, which answers bear.
    port: u32,
    /// Bytes of messages that Linux keeps.
    room: usize,
    sequence: u32,
}

impl Subscription {
    /// Subscribes in a namespace; none: the one of this process. Linux keeps up to `room` bytes until they are read.
    ///
    /// # Errors
    /// When there is no such namespace, or the system refuses.
    pub fn open(namespace: Option<&str>, groups: u32, room: usize) -> Result<Subscription, OpenError> {
        let refused = |error: io::Error| OpenError::system("a netlink socket", error);
        let mut socket = namespace::inside(namespace, || Socket::new(NETLINK_ROUTE).map_err(refused))?;
        // Without the right to it, the largest that everybody may have.
        set_socket_recv_buffer_size_force(&socket, room)
            .or_else(|_| set_socket_recv_buffer_size(&socket, room))
            .map_err(|error| OpenError::system("the receive buffer of a netlink socket", error))?;
        socket.bind(&SocketAddr::new(0, groups)).map_err(refused)?;
        let mut own = SocketAddr::new(0, 0);
        socket.get_address(&mut own).map_err(refused)?;
        let room = socket_recv_buffer_size(&socket).unwrap_or(0);
        Ok(Subscription { socket, port: own.port_number(), room, sequence: 0 })
    }

    /// Bytes of messages that Linux keeps until they are read: it may give less than it was asked for.
    pub fn room(&self) -> usize {
        self.room
    }

    pub fn port(&self) -> u32 {
        self.port
    }

    /// Receives a datagram that Linux sent.
    ///
    /// # Errors
    /// When the socket is of no use any more.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Received> {
        match recvfrom(&self.socket, into, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
            Ok((_, length, from)) => match is_from_linux(from) {
                true => Ok(Received::Bytes(length)),
                // Another program's messages are none.
                false => Ok(Received::Bytes(0)),
            },
            Err(Errno::NOBUFS) => Ok(Received::Overrun),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks for all of a kind. Gives the number that the answer bears.
    ///
    /// # Errors
    /// When Linux refuses.
    pub fn ask(&mut self, what: Whole) -> io::Result<u32> {
        let (kind, flags, family, header) = what.request();
        let mut rest = vec![0; header];
        rest[0] = family;
        if what == Whole::Changes {
            rest[4..8].copy_from_slice(&FIRST_LINK.to_ne_bytes());
        }
        self.request(kind, flags, &rest)
    }

    fn request(&mut self, kind: u16, flags: u16, rest: &[u8]) -> io::Result<u32> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let mut request = vec![0; 16];
        request.extend(rest);
        let length = request.len() as u32;
        request[..4].copy_from_slice(&length.to_ne_bytes());
        request[4..6].copy_from_slice(&kind.to_ne_bytes());
        request[6..8].copy_from_slice(&(FLAG_REQUEST | flags).to_ne_bytes());
        request[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        send(&self.socket, &request, SendFlags::empty())?;
        Ok(self.sequence)
    }
}

fn is_from_linux(from: Option<rustix::net::SocketAddrAny>) -> bool {
    from.and_then(|from| SocketAddrNetlink::try_from(from).ok()).is_some_and(|from| from.pid() == 0)
}

/// Whether the answer that a message is of may have missed something, because it changed meanwhile.
pub fn is_interrupted(flags: u16) -> bool {
    flags & FLAG_DUMP_INTERRUPTED != 0
}

impl AsFd for Subscription {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
