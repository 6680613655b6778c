//! Requests to Linux about its links and addresses (rtnetlink(7)), each with its answer.

use super::link::VlanLink;
use drivers::{OpenError, namespace};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVlan, InfoVrf, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, VlanProtocol,
};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_ROUTE;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Error, ErrorKind};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use wire::ethernet::EtherType;
use wire::{MacAddress, Prefix};

/// The kernel answers at once.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest answer: one link with all that can be said of it has some kilobytes.
const ANSWER: usize = 64 << 10;

/// What Linux has of a link.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    pub up: bool,
    pub mtu: u32,
    pub mac: MacAddress,
    /// Addresses that are valid beyond the link, with their networks.
    pub addresses: BTreeSet<Prefix>,
    pub link_locals: BTreeSet<Ipv6Addr>,
    /// The link that it is a port of: a VRF, a bridge.
    pub master: Option<u32>,
}

/// A socket for requests in a network namespace.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens one in a namespace; none: the one of this process.
    ///
    /// # Errors
    /// When there is no such namespace, or the system refuses.
    pub fn open(namespace: Option<&str>) -> Result<Netlink, OpenError> {
        let refused = |error: Error| OpenError::system("a netlink socket", error);
        let socket = namespace::inside(namespace, || Socket::new(NETLINK_ROUTE).map_err(refused))?;
        // Without it an answer about one link is about all.
        socket.set_netlink_get_strict_chk(true).map_err(refused)?;
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

    /// Looks at a link and its addresses.
    ///
    /// # Errors
    /// When there is no such link.
    pub fn look(&mut self, link: u32) -> io::Result<Seen> {
        let mut message = LinkMessage::default();
        message.header.index = link;
        let Some(RouteNetlinkMessage::NewLink(answer)) = self.ask(RouteNetlinkMessage::GetLink(message), 0)? else {
            return Err(Error::new(ErrorKind::InvalidData, "the answer is about no link"));
        };
        let mut seen = Seen { up: answer.header.flags.contains(LinkFlags::Up), ..Seen::default() };
        for attribute in answer.attributes {
            match attribute {
                LinkAttribute::Mtu(mtu) => seen.mtu = mtu,
                LinkAttribute::Controller(master) => seen.master = Some(master).filter(|master| *master != 0),
                LinkAttribute::Address(bytes) => {
                    seen.mac = <[u8; 6]>::try_from(&bytes[..]).map_or(seen.mac, MacAddress);
                }
                _ => {}
            }
        }
        let mut message = AddressMessage::default();
        message.header.index = link;
        for answer in self.ask_all(RouteNetlinkMessage::GetAddress(message))? {
            let RouteNetlinkMessage::NewAddress(answer) = answer else { continue };
            // A socket of an older kernel gets all addresses.
            if answer.header.index != link {
                continue;
            }
            match address_of(&answer) {
                Some(IpAddr::V6(address)) if address.is_unicast_link_local() => {
                    seen.link_locals.insert(address);
                }
                Some(address) => {
                    let length =
                        if has_peer(&answer) { Prefix::host(address).length() } else { answer.header.prefix_len };
                    seen.addresses.extend(Prefix::new(address, length));
                }
                None => {}
            }
        }
        Ok(seen)
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

    /// The index of the link of a name, and which VLAN of which it is; none: it is no VLAN.
    ///
    /// # Errors
    /// When there is no link of that name.
    pub fn find_vlan(&mut self, name: &str) -> io::Result<Option<(u32, VlanLink)>> {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(name.into()));
        let Some(RouteNetlinkMessage::NewLink(answer)) = self.ask(RouteNetlinkMessage::GetLink(link), 0)? else {
            return Err(Error::new(ErrorKind::InvalidData, "the answer is about no link"));
        };
        let (mut parent, mut vid, mut outer_type) = (None, None, EtherType::VLAN);
        for attribute in &answer.attributes {
            match attribute {
                LinkAttribute::Link(below) => parent = Some(*below),
                LinkAttribute::LinkInfo(infos) => {
                    for info in infos {
                        let LinkInfo::Data(InfoData::Vlan(data)) = info else { continue };
                        for datum in data {
                            match datum {
                                InfoVlan::Id(number) => vid = Some(*number),
                                InfoVlan::Protocol(protocol) => outer_type = EtherType(u16::from(*protocol)),
                                _ => {}
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        let vlan = |(parent, vid)| VlanLink { name: name.into(), parent, outer_type, vid };
        Ok(parent.zip(vid).map(|known| (answer.header.index, vlan(known))))
    }

    /// Makes a VLAN link above another, which is down. Gives its index.
    ///
    /// # Errors
    /// When Linux refuses.
    pub fn create_vlan(&mut self, parent: u32, name: &str, outer_type: EtherType, vid: u16) -> io::Result<u32> {
        let data = vec![InfoVlan::Id(vid), InfoVlan::Protocol(VlanProtocol::from(outer_type.0))];
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.into()),
            LinkAttribute::Link(parent),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Vlan), LinkInfo::Data(InfoData::Vlan(data))]),
        ];
        self.ask(RouteNetlinkMessage::NewLink(message), NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)?;
        self.find(name)
    }

    /// Makes a link a port of another one, or of none.
    ///
    /// # Errors
    /// When Linux refuses.
    pub fn set_master(&mut self, link: u32, master: Option<u32>) -> io::Result<()> {
        self.set(link, LinkAttribute::Controller(master.unwrap_or(0)))
    }

    /// The table of a VRF by its device; none: it is no VRF, or not there.
    ///
    /// # Errors
    /// When Linux does not answer.
    pub fn vrf_of(&mut self, link: u32) -> io::Result<Option<u32>> {
        let mut message = LinkMessage::default();
        message.header.index = link;
        match self.ask(RouteNetlinkMessage::GetLink(message), 0) {
            Ok(Some(RouteNetlinkMessage::NewLink(answer))) => Ok(table_of(&answer)),
            Ok(_) => Ok(None),
            Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All VRFs: the table and the name of each, by the number of its device.
    ///
    /// # Errors
    /// When Linux does not answer.
    pub fn vrfs(&mut self) -> io::Result<BTreeMap<u32, (u32, String)>> {
        let links = self.links()?;
        let name_of = |link: &LinkMessage| link.attributes.iter().find_map(name);
        let vrf = |link: &LinkMessage| Some((link.header.index, (table_of(link)?, name_of(link)?)));
        Ok(links.iter().filter_map(vrf).collect())
    }

    /// The links that are ports of another one.
    ///
    /// # Errors
    /// When Linux does not answer.
    pub fn ports_of(&mut self, master: u32) -> io::Result<Vec<u32>> {
        let is_its = |link: &&LinkMessage| link.attributes.contains(&LinkAttribute::Controller(master));
        Ok(self.links()?.iter().filter(is_its).map(|link| link.header.index).collect())
    }

    fn links(&mut self) -> io::Result<Vec<LinkMessage>> {
        let answers = self.ask_all(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
        let link = |answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(link),
            _ => None,
        };
        Ok(answers.into_iter().filter_map(link).collect())
    }

    /// Makes the device of a VRF with a table, which is up. Gives its index.
    ///
    /// # Errors
    /// When Linux refuses.
    pub fn create_vrf(&mut self, name: &str, table: u32) -> io::Result<u32> {
        let mut message = LinkMessage::default();
        let data = InfoData::Vrf(vec![InfoVrf::TableId(table)]);
        message.attributes = vec![
            LinkAttribute::IfName(name.into()),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Vrf), LinkInfo::Data(data)]),
        ];
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.ask(RouteNetlinkMessage::NewLink(message), NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)?;
        self.find(name)
    }

    /// # Errors
    /// When Linux refuses.
    pub fn delete_link(&mut self, link: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = link;
        self.ask(RouteNetlinkMessage::DelLink(message), NLM_F_ACK).map(drop)
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
        self.send(request, flags)?;
        Ok(self.answers(false)?.pop())
    }

    /// Asks for all objects of a kind.
    fn ask_all(&mut self, request: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.send(request, NLM_F_DUMP)?;
        self.answers(true)
    }

    fn send(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = NetlinkMessage::from(request);
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        send(&self.socket, &bytes, SendFlags::empty())?;
        Ok(())
    }

    /// Waits for the answer to the request sent last: one object, or several up to the word that it was all.
    fn answers(&mut self, several: bool) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut answers = Vec::new();
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
                match message.payload {
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    _ => return Ok(answers),
                }
                if !several {
                    return Ok(answers);
                }
            }
        }
    }
}

fn name(attribute: &LinkAttribute) -> Option<String> {
    match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    }
}

/// The table of a VRF.
fn table_of(link: &LinkMessage) -> Option<u32> {
    let infos = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => Some(infos),
        _ => None,
    });
    infos?.iter().find_map(|info| match info {
        LinkInfo::Data(InfoData::Vrf(data)) => data.iter().find_map(|datum| match datum {
            InfoVrf::TableId(table) => Some(*table),
            _ => None,
        }),
        _ => None,
    })
}

/// The own address, and that of the other station on a link with two.
fn both_of(message: &AddressMessage) -> (Option<IpAddr>, Option<IpAddr>) {
    let (mut own, mut other) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(address) => own = Some(*address),
            AddressAttribute::Address(address) => other = Some(*address),
            _ => {}
        }
    }
    (own, other)
}

fn address_of(message: &AddressMessage) -> Option<IpAddr> {
    let (own, other) = both_of(message);
    own.or(other)
}

/// Whether the network of the address is that of another station.
fn has_peer(message: &AddressMessage) -> bool {
    let (own, other) = both_of(message);
    own.is_some() && other.is_some() && own != other
}
