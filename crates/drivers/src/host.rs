//! Interfaces of the host's kernel, as its ioctls know them (netdevice(7)).
//!
//! An [`Interface`] is held by its index, so that it may be renamed. It is looked up in the network namespace in which
//! its control socket was opened.
#![allow(unsafe_code)]

use crate::{OpenError, Speed};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::ffi::CString;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use wire::{Ipv4Address, MacAddress, Prefix4, Prefix6};

/// Bytes of an interface name, its terminating zero included.
const NAME_SIZE: usize = libc::IFNAMSIZ;

/// `struct ifreq`: a name and a value whose meaning depends on the request.
#[repr(C, align(8))]
pub struct Request {
    name: [u8; NAME_SIZE],
    value: [u8; 24],
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());

impl Request {
    /// # Panics
    /// When the name is too long: names are [checked](check_name) or come from the kernel.
    pub fn new(name: &str, value: &[u8]) -> Request {
        let mut request = Request { name: [0; NAME_SIZE], value: [0; 24] };
        request.name[..NAME_SIZE - 1][..name.len()].copy_from_slice(name.as_bytes());
        request.value[..value.len()].copy_from_slice(value);
        request
    }

    pub fn name(&self) -> String {
        let end = self.name.iter().position(|&byte| byte == 0);
        String::from_utf8_lossy(&self.name[..end.unwrap_or(NAME_SIZE)]).into_owned()
    }

    fn value<const N: usize>(&self) -> [u8; N] {
        std::array::from_fn(|i| self.value[i])
    }

    /// Makes the request.
    pub fn make(&mut self, to: impl AsFd, operation: libc::c_ulong) -> io::Result<()> {
        // SAFETY: all operations used here read and write one `struct ifreq`, which this is
        // laid out like and at least as large as.
        let result = unsafe { libc::ioctl(to.as_fd().as_raw_fd(), operation as _, std::ptr::from_mut(self)) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// An ioctl whose argument is a number.
pub fn set_number(to: BorrowedFd<'_>, operation: libc::c_ulong, value: u32) -> io::Result<()> {
    // SAFETY: the operations used here take their argument by value.
    let result = unsafe { libc::ioctl(to.as_raw_fd(), operation as _, libc::c_ulong::from(value)) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// An ioctl whose argument is a pointer to a number that says yes or no.
pub fn set_flag(to: BorrowedFd<'_>, operation: libc::c_ulong, value: bool) -> io::Result<()> {
    let value = libc::c_int::from(value);
    // SAFETY: the operations used here read one `int`, which lives to the end of this function.
    let result = unsafe { libc::ioctl(to.as_raw_fd(), operation as _, std::ptr::from_ref(&value)) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// # Errors
/// When no interface can have that name.
pub fn check_name(name: &str) -> Result<(), OpenError> {
    let allowed = |byte: u8| byte.is_ascii_graphic() && !b"/:%".contains(&byte);
    if name.is_empty() || name.len() >= NAME_SIZE || !name.bytes().all(allowed) || name == "." || name == ".." {
        return Err(OpenError::Refused(format!(
            "'{name}' cannot name a host interface: expected 1 to {} printable characters without / : %",
            NAME_SIZE - 1
        )));
    }
    Ok(())
}

/// A MAC address for our end of a link: locally administered, the rest random, in the range that operators know from
/// VPP.
pub fn random_mac() -> MacAddress {
    let [a, b, c, d, ..] = RandomState::new().hash_one(()).to_ne_bytes();
    MacAddress([0x02, 0xfe, a, b, c, d])
}

const ETHTOOL_GSET: u32 = 1;
const ETHTOOL_GLINK: u32 = 10;
const ETHTOOL_GCHANNELS: u32 = 60;

/// `struct ethtool_cmd`.
#[repr(C, align(8))]
struct EthtoolCommand([u8; 44]);

impl EthtoolCommand {
    fn speed(&self) -> Option<Speed> {
        let half = |at: usize| u32::from(u16::from_ne_bytes([self.0[at], self.0[at + 1]]));
        let megabits = half(28) << 16 | half(12);
        let full_duplex = match self.0[14] {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        // All ones means unknown, in either width.
        let is_known = !matches!(megabits, 0 | 0xffff | u32::MAX);
        is_known.then_some(Speed { megabits, full_duplex })
    }
}

/// One interface of the host.
pub struct Interface {
    socket: OwnedFd,
    pub index: u32,
}

impl Interface {
    /// # Errors
    /// When there is no such interface in the current network namespace.
    pub fn find(name: &str) -> Result<Interface, OpenError> {
        check_name(name)?;
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(|error| OpenError::system("opening a control socket", error))?;
        let index = netdevice::name_to_index(&socket, name)
            .map_err(|error| OpenError::system(format!("host interface '{name}'"), error))?;
        Ok(Interface { socket, index })
    }

    /// Its current name.
    fn name(&self) -> io::Result<String> {
        Ok(netdevice::index_to_name(&self.socket, self.index)?)
    }

    fn get<const N: usize>(&self, operation: libc::c_ulong) -> io::Result<[u8; N]> {
        let mut request = Request::new(&self.name()?, &[]);
        request.make(&self.socket, operation)?;
        Ok(request.value())
    }

    fn set(&self, operation: libc::c_ulong, value: &[u8]) -> io::Result<()> {
        Request::new(&self.name()?, value).make(&self.socket, operation)
    }

    fn flags(&self) -> io::Result<u16> {
        self.get(libc::SIOCGIFFLAGS).map(u16::from_ne_bytes)
    }

    /// Whether it is up and has a carrier. False when it is gone.
    pub fn is_running(&self) -> bool {
        let (up, running) = (libc::IFF_UP as u16, libc::IFF_RUNNING as u16);
        // The kernel updates IFF_RUNNING up to a second after the carrier.
        self.flags().is_ok_and(|flags| flags & up != 0 && self.carrier().unwrap_or(flags & running != 0))
    }

    /// Whether there is a carrier, when its driver reports it (ethtool's `ETHTOOL_GLINK`).
    fn carrier(&self) -> Option<bool> {
        let answer = self.ethtool(ETHTOOL_GLINK)?;
        Some(answer.0[4..8] != [0; 4])
    }

    pub fn set_up(&self) -> io::Result<()> {
        let flags = self.flags()? | libc::IFF_UP as u16;
        self.set(libc::SIOCSIFFLAGS, &flags.to_ne_bytes())
    }

    /// Whether its frames have Ethernet headers.
    pub fn is_ethernet(&self) -> io::Result<bool> {
        let kind = self.get(libc::SIOCGIFHWADDR).map(u16::from_ne_bytes)?;
        Ok([libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK].contains(&kind))
    }

    /// Bytes of network-layer packet that it carries.
    pub fn mtu(&self) -> io::Result<u32> {
        self.get(libc::SIOCGIFMTU).map(u32::from_ne_bytes)
    }

    pub fn set_mtu(&self, mtu: u32) -> io::Result<()> {
        self.set(libc::SIOCSIFMTU, &mtu.to_ne_bytes())
    }

    pub fn set_mac(&self, mac: MacAddress) -> io::Result<()> {
        let mut address = [0; 8];
        address[..2].copy_from_slice(&libc::ARPHRD_ETHER.to_ne_bytes());
        address[2..].copy_from_slice(&mac.0);
        self.set(libc::SIOCSIFHWADDR, &address)
    }

    /// Its speed, when it has one and its driver knows (ethtool's `ETHTOOL_GSET`).
    pub fn speed(&self) -> Option<Speed> {
        self.ethtool(ETHTOOL_GSET)?.speed()
    }

    /// Asks ethtool a question whose answer is at most as long as `ETHTOOL_GSET`'s.
    fn ethtool(&self, question: u32) -> Option<EthtoolCommand> {
        let mut command = EthtoolCommand([0; 44]);
        command.0[..4].copy_from_slice(&question.to_ne_bytes());
        let address = std::ptr::from_mut(&mut command).expose_provenance();
        let mut request = Request::new(&self.name().ok()?, &address.to_ne_bytes());
        // SAFETY: a `struct ifreq` with the address of the command, which outlives the call; for
        // ETHTOOL_GSET the kernel reads and writes one `struct ethtool_cmd` there, for the others
        // one `struct ethtool_value` or `struct ethtool_channels`, which are shorter.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        if result < 0 { None } else { Some(command) }
    }

    /// How many queues it receives by, when its driver reports it (ethtool's `ETHTOOL_GCHANNELS`).
    pub fn receive_queues(&self) -> Option<u32> {
        let told = self.ethtool(ETHTOOL_GCHANNELS)?.0;
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| told[at + i]));
        // Queues that only receive, and queues that do both.
        Some(word(20).saturating_add(word(32)))
    }

    pub fn mac(&self) -> io::Result<MacAddress> {
        let [_, _, address @ ..]: [u8; 8] = self.get(libc::SIOCGIFHWADDR)?;
        Ok(MacAddress(address))
    }

    /// Adds an IPv6 address.
    pub fn add_ip6(&self, prefix: Prefix6) -> io::Result<()> {
        let address = libc::in6_ifreq {
            ifr6_addr: libc::in6_addr { s6_addr: prefix.address().octets() },
            ifr6_prefixlen: prefix.length().into(),
            ifr6_ifindex: self.index as libc::c_int,
        };
        // SAFETY: for IPv6 sockets this operation reads one `struct in6_ifreq`, which outlives the call.
        let result = unsafe { libc::ioctl(socket6()?.as_raw_fd(), libc::SIOCSIFADDR as _, &raw const address) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Adds a default route of the host by a router on this interface, which is up.
    pub fn add_gateway(&self, gateway: IpAddr) -> io::Result<()> {
        let flags = libc::RTF_UP | libc::RTF_GATEWAY;
        let result = match gateway {
            IpAddr::V4(gateway) => {
                let name = CString::new(self.name()?)?;
                // SAFETY: all zeros is a valid value: no addresses, no name.
                let mut route: libc::rtentry = unsafe { std::mem::zeroed() };
                route.rt_dst = socket_address_of(Ipv4Address::UNSPECIFIED);
                route.rt_genmask = socket_address_of(Ipv4Address::UNSPECIFIED);
                route.rt_gateway = socket_address_of(gateway);
                route.rt_flags = flags as libc::c_ushort;
                route.rt_dev = name.as_ptr().cast_mut();
                // SAFETY: this operation reads one `struct rtentry` and the name that it points to; both outlive the
                // call.
                unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCADDRT as _, &raw const route) }
            }
            IpAddr::V6(gateway) => {
                let route = Route6 {
                    destination: [0; 16],
                    source: [0; 16],
                    gateway: gateway.octets(),
                    kind: 0,
                    destination_length: 0,
                    source_length: 0,
                    metric: METRIC6,
                    info: 0,
                    flags: flags.into(),
                    interface: self.index as libc::c_int,
                };
                // SAFETY: for IPv6 sockets this operation reads one `struct in6_rtmsg`, which outlives the call.
                unsafe { libc::ioctl(socket6()?.as_raw_fd(), libc::SIOCADDRT as _, &raw const route) }
            }
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Makes it a port of a bridge of the host.
    pub fn join_bridge(&self, bridge: &str) -> Result<(), OpenError> {
        check_name(bridge)?;
        let joined = Request::new(bridge, &self.index.to_ne_bytes()).make(&self.socket, BRIDGE_ADD);
        joined.map_err(|error| OpenError::system(format!("joining the host's bridge '{bridge}'"), error))
    }

    pub fn set_ip4(&self, prefix: Prefix4) -> io::Result<()> {
        self.set(libc::SIOCSIFADDR, &socket_address(prefix.address()))?;
        self.set(libc::SIOCSIFNETMASK, &socket_address(prefix.mask()))
    }
}

/// `struct in6_rtmsg`.
#[repr(C)]
struct Route6 {
    destination: [u8; 16],
    source: [u8; 16],
    gateway: [u8; 16],
    kind: u32,
    destination_length: u16,
    source_length: u16,
    metric: u32,
    info: libc::c_ulong,
    flags: u32,
    interface: libc::c_int,
}

/// The metric of routes for which none is given, as in iproute2.
const METRIC6: u32 = 1024;
/// `SIOCBRADDIF`.
const BRIDGE_ADD: libc::c_ulong = 0x89a2;

/// A control socket for IPv6.
fn socket6() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::INET6, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// `struct sockaddr_in`: family, port, address, padding.
fn socket_address(address: Ipv4Address) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[4..8].copy_from_slice(&address.octets());
    bytes
}

fn socket_address_of(address: Ipv4Address) -> libc::sockaddr {
    let [_, _, data @ ..] = socket_address(address).map(|byte| byte as libc::c_char);
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_interface_can_have_are_refused() {
        for name in ["", ".", "..", "a/b", "a b", "tap%d", "sixteen-letters!", "e\u{e9}"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        for name in ["tap0", "fifteen-letters", "veth-a.100@"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_missing_interface_is_named_in_the_error() {
        let error = Interface::find("no-such-one").err().unwrap().to_string();
        assert!(error.starts_with("host interface 'no-such-one': "), "{error}");
    }

    #[test]
    fn a_speed_is_read_from_both_halves_and_may_be_unknown() {
        let command = |low: u16, high: u16, duplex: u8| {
            let mut command = EthtoolCommand([0; 44]);
            command.0[12..14].copy_from_slice(&low.to_ne_bytes());
            command.0[14] = duplex;
            command.0[28..30].copy_from_slice(&high.to_ne_bytes());
            command.speed()
        };
        assert_eq!(command(10_000, 0, 1), Some(Speed { megabits: 10_000, full_duplex: Some(true) }));
        assert_eq!(command(0x86a0, 1, 0xff), Some(Speed { megabits: 100_000, full_duplex: None }));
        assert_eq!([command(0xffff, 0xffff, 0), command(0xffff, 0, 0), command(0, 0, 0)], [None; 3]);
    }

    #[test]
    fn random_addresses_are_local_unicast_and_differ() {
        let (a, b) = (random_mac(), random_mac());
        assert_eq!(a.0[..2], [0x02, 0xfe]);
        assert_ne!(a, b);
    }
}
