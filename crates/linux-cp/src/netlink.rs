//! Requests to Linux about its links and addresses (rtnetlink(7)), each with its answer.

use drivers::{OpenError, namespace};
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rustix::fd::OwnedFd;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use std::io::{self, Error, ErrorKind};
use std::net::IpAddr;
use std::time::Duration;
use wire::{MacAddress, Prefix};

/// The kernel answers at once.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest answer: one link with all that can be said of it has some kilobytes.
const ANSWER: usize = 64 << 10;

/// A socket for requests in a network namespace.
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens one in a namespace; none: the one of this process.
    ///
    /// # Errors
    /// When there is no such namespace, or the system refuses.
    pub fn open(namespace: Option<&str>) -> Result<Netlink, OpenError> {
        let socket = namespace::inside(namespace, || {
            let flags = SocketFlags::CLOEXEC;
            let opened = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None);
            opened.map_err(|error| OpenError::system("a netlink socket", error))
        })?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))
            .map_err(|error| OpenError::system("the timeout of a netlink socket", error))?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// The index of a link.
    ///
    /// # Errors
    /// When there is no link of that name.
    pub fn find(&mut self, name: &str) -> io::Result<u32> {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(name.into()));
        match self.ask(RouteNetlinkMessage::GetLink(link), 0)? {
            Some(RouteNetlinkMessage::NewLink(link)) => Ok(link.header.index),
            _ => Err(Error::new(ErrorKind::InvalidData, "the answer is about no link")),
        }
    }

    /// Sets a link up or down.
    ///
    /// # Errors
    /// When Linux refuses.
    pub fn set_up(&mut self, link: u32, up: bool) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = link;
        message.header.change_mask = LinkFlags::Up;
        message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        self.ask(RouteNetlinkMessage::SetLink(message), NLM_F_ACK).map(drop)
    }

    /// # Errors
    /// When Linux refuses.
    pub fn set_mtu(&mut self, link: u32, mtu: u16) -> io::Result<()> {
        self.set(link, LinkAttribute::Mtu(mtu.into()))
    }

    /// # Errors
    /// When Linux refuses.
    pub fn set_mac(&mut self, link: u32, mac: MacAddress) -> io::Result<()> {
        self.set(link, LinkAttribute::Address(mac.0.to_vec()))
    }

    fn set(&mut self, link: u32, attribute: LinkAttribute) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = link;
        message.attributes.push(attribute);
        self.ask(RouteNetlinkMessage::SetLink(message), NLM_F_ACK).map(drop)
    }

    /// Gives a link an address, or takes it away. One that is there, or gone, already is no error.
    ///
    /// # Errors
    /// When Linux refuses.
    pub fn set_address(&mut self, link: u32, prefix: Prefix, present: bool) -> io::Result<()> {
        let (address, length): (IpAddr, u8) = (prefix.address(), prefix.length());
        let mut message = AddressMessage::default();
        message.header.family = match address {
            IpAddr::V4(_) => netlink_packet_route::AddressFamily::Inet,
            IpAddr::V6(_) => netlink_packet_route::AddressFamily::Inet6,
        };
        message.header.prefix_len = length;
        message.header.index = link;
        // Of a link with many stations both are the own address.
        message.attributes.push(AddressAttribute::Local(address));
        message.attributes.push(AddressAttribute::Address(address));
        let asked = match present {
            true => self.ask(RouteNetlinkMessage::NewAddress(message), NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE),
            false => self.ask(RouteNetlinkMessage::DelAddress(message), NLM_F_ACK),
        };
        match asked {
            Err(error) if !present && error.kind() == ErrorKind::AddrNotAvailable => Ok(()),
            asked => asked.map(drop),
        }
    }

    /// Sends a request and waits for its answer: an object, or nothing but that it was done.
    fn ask(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<Option<RouteNetlinkMessage>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = NetlinkMessage::from(request);
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        send(&self.socket, &bytes, SendFlags::empty())?;
        let mut answer = vec![0; ANSWER];
        loop {
            let (_, length) = recv(&self.socket, &mut answer[..], RecvFlags::TRUNC)?;
            let mut rest = answer.get(..length).ok_or_else(|| Error::new(ErrorKind::InvalidData, "a long answer"))?;
            while !rest.is_empty() {
                let broken = |error| Error::new(ErrorKind::InvalidData, error);
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(broken)?;
                let taken = (message.header.length as usize).next_multiple_of(4).clamp(1, rest.len());
                rest = &rest[taken..];
                // What is left of a request that was given up.
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                return match message.payload {
                    NetlinkPayload::InnerMessage(answer) => Ok(Some(answer)),
                    NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
                    _ => Ok(None),
                };
            }
        }
    }
}
