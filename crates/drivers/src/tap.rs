//! TAP: an interface of the host's kernel whose other end is ours (Linux
//! `Documentation/networking/tuntap.rst`).
//!
//! Each frame is read and written with a virtio-net header, so that the host need not
//! compute checksums nor cut TCP streams for a wire that is not there: frames of up to 64
//! KiB arrive in chains of buffers. One system call a frame; nothing is copied but by the
//! kernel.
//!
//! A TAP may have several queues, each a descriptor. The kernel shares flows out among them and
//! follows where their answers are written. Any thread may write to any of them, so every worker
//! sends by itself: nothing is handed over.

use crate::chain::{Chain, Fresh};
use crate::host::{self, Interface, Request};
use crate::{
    Carries, Device, FULL, Link, OpenError, REFUSED, Receive, ReceiveCounts, Transmit, TxOffloads, borrowed, namespace,
    vnet,
};
use graph::buffer::MAX_SEGMENTS;
use graph::{Buffers, EdgeIndex, Row, Vector, edge};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::io::IoSlice;
use std::net::IpAddr;
use std::sync::Arc;
use wire::{Ipv4Address, Ipv6Address, MacAddress, Prefix4, Prefix6};

/// The driver's name.
pub const DRIVER: &str = "tap";
/// The node by which its packets arrive.
pub const INPUT: &str = "virtio-input";

/// Most queues of a TAP (the kernel's `MAX_TAP_QUEUES`).
pub const MAX_QUEUES: u16 = 256;
/// Sets the carrier that the host sees (`linux/if_tun.h`: `_IOW('T', 226, int)`).
const TUNSETCARRIER: libc::c_ulong = 0x4004_54e2;
/// Most frames of one poll, so that other interfaces get their turn.
const FRAMES_PER_POLL: usize = 64;

/// What to ask the host not to finish, best first: kernels before 6.2 know no USO.
const OFFLOADS: [u32; 4] = {
    use libc::{TUN_F_CSUM, TUN_F_TSO_ECN, TUN_F_TSO4, TUN_F_TSO6, TUN_F_USO4, TUN_F_USO6};
    const TCP: u32 = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    [TCP | TUN_F_USO4 | TUN_F_USO6, TCP, TUN_F_CSUM, 0]
};

/// What the host's end of a TAP shall be.
#[derive(Debug, Clone)]
pub struct TapOptions {
    /// Tells TAPs apart: names the host's end `tap<id>` unless a name is given.
    pub id: u32,
    /// The host's name for its end.
    pub host_interface_name: Option<String>,
    /// The network namespace of the host's end: a name under `/var/run/netns`, or a path.
    pub host_namespace: Option<String>,
    pub host_ip4: Option<Prefix4>,
    pub host_ip6: Option<Prefix6>,
    /// The default gateways that the host gets.
    pub host_gateway4: Option<Ipv4Address>,
    pub host_gateway6: Option<Ipv6Address>,
    /// The host's bridge that its end becomes a port of.
    pub host_bridge: Option<String>,
    pub host_mac: Option<MacAddress>,
    /// In bytes; the host's default is 1500.
    pub host_mtu: Option<u32>,
    /// The host's end stays down until somebody sets it up.
    pub host_is_down: bool,
    /// Our own address, else one by chance.
    pub hw_address: Option<MacAddress>,
    /// Queues, 1 to [`MAX_QUEUES`].
    pub queues: u16,
}

impl Default for TapOptions {
    fn default() -> TapOptions {
        TapOptions {
            id: 0,
            host_interface_name: None,
            host_namespace: None,
            host_ip4: None,
            host_ip6: None,
            host_gateway4: None,
            host_gateway6: None,
            host_bridge: None,
            host_mac: None,
            host_mtu: None,
            host_is_down: false,
            hw_address: None,
            queues: 1,
        }
    }
}

/// What another process needs to keep the host's end of a TAP when this one ends.
#[derive(Debug)]
pub struct Kept {
    /// A queue by which no frames go. While it is open, the host's end stays as it is, with its carrier.
    pub holder: OwnedFd,
    /// The host's end was there before: it is as it was, and not as the options say.
    pub was_there: bool,
}

/// The host's end, made.
struct HostEnd {
    /// One a queue.
    descriptors: Vec<OwnedFd>,
    kept: Option<Kept>,
    mtu: u32,
    name: String,
    interface: Interface,
}

/// Opens a TAP, creating the host's end unless it exists, and sets that up.
///
/// # Errors
/// When the system refuses, which it does without `CAP_NET_ADMIN`.
pub fn open(options: TapOptions) -> Result<Device, OpenError> {
    open_as(options, Open::Ours).map(|(device, _)| device)
}

/// How a TAP is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// It ends with us.
    Ours,
    /// The same, and we have it alone: another program's is refused.
    Alone,
    /// Another process is to keep it.
    ToKeep,
    /// Another process keeps it.
    Kept,
}

/// The same, of a TAP that no other program has. One with several queues could be shared by accident.
///
/// # Errors
/// As [`open`].
pub fn open_alone(options: TapOptions) -> Result<Device, OpenError> {
    open_as(options, Open::Alone).map(|(device, _)| device)
}

/// The same, of a TAP that another process is to keep. One that `is_kept` already is taken over, and any other one of
/// that name is refused: another router may have it.
///
/// # Errors
/// As [`open`].
pub fn open_kept(options: TapOptions, is_kept: bool) -> Result<(Device, Kept), OpenError> {
    let (device, kept) = open_as(options, if is_kept { Open::Kept } else { Open::ToKeep })?;
    kept.map(|kept| (device, kept)).ok_or_else(|| OpenError::Refused("no queue to keep the TAP by".into()))
}

fn open_as(options: TapOptions, how: Open) -> Result<(Device, Option<Kept>), OpenError> {
    let HostEnd { descriptors, kept, mtu, name, interface } =
        namespace::inside(options.host_namespace.as_deref(), || host_end(&options, how))?;
    let queues: Arc<[Arc<OwnedFd>]> = descriptors.into_iter().map(Arc::new).collect();
    let place = options.host_namespace.map_or(String::new(), |namespace| format!(" in namespace {namespace}"));
    let receive = |fd: &Arc<OwnedFd>| Box::new(TapReceive { fd: fd.clone(), gone: false }) as Box<dyn Receive>;
    let device = Device {
        driver: DRIVER,
        carries: Carries::LINK,
        input_node: INPUT,
        description: format!("host interface {name}{place}"),
        host: Some(name.to_string()),
        mac: options.hw_address.unwrap_or_else(host::random_mac),
        mtu: mtu.try_into().unwrap_or(u16::MAX),
        finishes: TxOffloads { checksum: true, segmentation: true },
        receive: queues.iter().map(receive).collect(),
        transmit: Box::new(TapTransmit { queues: queues.clone(), own: 0 }),
        link: Box::new(TapLink { fd: queues[0].clone(), interface }),
    };
    Ok((device, kept))
}

/// Makes the host's end in the current namespace.
fn host_end(options: &TapOptions, how: Open) -> Result<HostEnd, OpenError> {
    let wanted = options.host_interface_name.clone().unwrap_or_else(|| format!("tap{}", options.id));
    host::check_name(&wanted)?;
    let is_kept = matches!(how, Open::ToKeep | Open::Kept);
    let several = if options.queues > 1 || is_kept { libc::IFF_MULTI_QUEUE } else { 0 };
    let is_there = Interface::find(&wanted).is_ok();
    let was_there = is_there && is_kept;
    if is_there && (how == Open::ToKeep || how == Open::Alone && several != 0) {
        return Err(OpenError::Refused(format!("host interface '{wanted}' is there already")));
    }
    let first = queue(&wanted, several)?;
    let name = first.1;
    let mut descriptors = vec![first.0];
    for _ in 1..options.queues {
        descriptors.push(queue(&name, several)?.0);
    }
    let kept = if is_kept { Some(Kept { holder: idle_queue(&name)?, was_there }) } else { None };
    let interface = Interface::find(&name)?;
    let ended = |interface: Interface, descriptors| {
        let mtu =
            interface.mtu().map_err(|error| OpenError::system(format!("the MTU of host interface '{name}'"), error))?;
        Ok(HostEnd { descriptors, kept, mtu, name: name.clone(), interface })
    };
    if was_there {
        return ended(interface, descriptors);
    }
    let failed = |what: &str, error| OpenError::system(format!("setting {what} of host interface '{name}'"), error);
    if let Some(mac) = options.host_mac {
        interface.set_mac(mac).map_err(|error| failed("the MAC address", error))?;
    }
    if let Some(mtu) = options.host_mtu {
        interface.set_mtu(mtu).map_err(|error| failed("the MTU", error))?;
    }
    if let Some(prefix) = options.host_ip4 {
        interface.set_ip4(prefix).map_err(|error| failed("the IPv4 address", error))?;
    }
    if let Some(prefix) = options.host_ip6 {
        interface.add_ip6(prefix).map_err(|error| match error.raw_os_error() {
            Some(libc::EACCES) => OpenError::Refused(format!(
                "host interface '{name}' takes no IPv6 address: IPv6 is off there (sysctl \
                 net.ipv6.conf.all.disable_ipv6)"
            )),
            _ => failed("the IPv6 address", error),
        })?;
    }
    if let Some(bridge) = &options.host_bridge {
        interface.join_bridge(bridge)?;
    }
    if !options.host_is_down {
        interface.set_up().map_err(|error| failed("up the link", error))?;
    }
    let gateways = [options.host_gateway4.map(IpAddr::from), options.host_gateway6.map(IpAddr::from)];
    for gateway in gateways.into_iter().flatten() {
        let what = format!("the gateway {gateway}");
        interface.add_gateway(gateway).map_err(|error| failed(&what, error))?;
    }
    ended(interface, descriptors)
}

/// Opens a queue of a TAP by which no frames go.
fn idle_queue(name: &str) -> Result<OwnedFd, OpenError> {
    let (fd, _) = queue(name, libc::IFF_MULTI_QUEUE)?;
    // Here the flags are the value, and the name is not read.
    let mut request = Request::new("", &(libc::IFF_DETACH_QUEUE as u16).to_ne_bytes());
    request
        .make(&fd, libc::TUNSETQUEUE as _)
        .map_err(|error| OpenError::system(format!("a queue to keep host interface '{name}' by"), error))?;
    Ok(fd)
}

/// Opens a queue of the TAP of a name, which is made unless it is there; and says its name, in which the
/// kernel has filled in a number.
fn queue(wanted: &str, several: libc::c_int) -> Result<(OwnedFd, String), OpenError> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = fs::open("/dev/net/tun", flags, Mode::empty())
        .map_err(|error| OpenError::system("opening /dev/net/tun", error))?;
    let kind = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | several) as u16;
    let mut request = Request::new(wanted, &kind.to_ne_bytes());
    request
        .make(&fd, libc::TUNSETIFF as _)
        .map_err(|error| OpenError::system(format!("creating host interface '{wanted}'"), error))?;
    // The last, nothing, is what every kernel takes.
    let _ = OFFLOADS.iter().find(|&&offload| host::set_number(fd.as_fd(), libc::TUNSETOFFLOAD as _, offload).is_ok());
    Ok((fd, request.name()))
}

struct TapLink {
    fd: Arc<OwnedFd>,
    /// The host's end, for as long as it stays in the namespace that it was made in.
    interface: Interface,
}

impl Link for TapLink {
    /// A TAP can be written to exactly while the host has its end up. Unlike asking by name
    /// this works wherever that end was moved and however it was renamed.
    fn is_up(&self) -> bool {
        let mut fds = [PollFd::new(&*self.fd, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::OUT)
    }

    fn mtu(&self) -> Option<u16> {
        self.interface.mtu().ok().map(|mtu| mtu.try_into().unwrap_or(u16::MAX))
    }

    fn set_mtu(&mut self, mtu: u16) -> std::io::Result<()> {
        self.interface.set_mtu(mtu.into())
    }

    fn set_carrier(&mut self, up: bool) -> std::io::Result<()> {
        host::set_flag(self.fd.as_fd(), TUNSETCARRIER, up)
    }
}

struct TapReceive {
    fd: Arc<OwnedFd>,
    /// The host has deleted its end.
    gone: bool,
}

impl Receive for TapReceive {
    fn receive(&mut self, buffers: &mut Buffers, out: &mut Vector, counts: &mut ReceiveCounts) {
        if self.gone {
            return;
        }
        let mut fresh = Fresh::new();
        for _ in 0..out.room().min(FRAMES_PER_POLL) {
            if !fresh.fill(buffers) {
                counts.no_buffer += 1;
                break;
            }
            let mut header = [0; vnet::SIZE];
            match fresh.read(buffers, self.fd.as_fd(), &mut header) {
                Ok(frame) => vnet::deliver(&header, frame, buffers, out, counts),
                Err(error) => match Errno::from_io_error(&error) {
                    None => counts.malformed += 1,
                    Some(Errno::AGAIN | Errno::INTR | Errno::NOMEM) => break,
                    Some(_) => {
                        self.gone = true;
                        break;
                    }
                },
            }
        }
        fresh.give_back(buffers);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        borrowed(&self.fd)
    }

    fn is_gone(&self) -> bool {
        self.gone
    }
}

struct TapTransmit {
    queues: Arc<[Arc<OwnedFd>]>,
    /// The one that this writes to.
    own: usize,
}

impl Transmit for TapTransmit {
    fn transmit(&mut self, buffers: &mut Buffers, vector: &mut Vector) {
        for i in 0..vector.len() {
            let to = self.send(buffers, &vector.row(i));
            vector.set_edge(i, to);
        }
    }

    fn queues(&self) -> usize {
        self.queues.len()
    }

    fn another(&self, worker: usize, _workers: usize) -> Option<Box<dyn Transmit>> {
        Some(Box::new(TapTransmit { queues: self.queues.clone(), own: worker % self.queues.len() }))
    }
}

impl TapTransmit {
    fn send(&self, buffers: &Buffers, row: &Row) -> EdgeIndex {
        let header = vnet::emit(row, || buffers.segment(row.packet).offload);
        let (Ok(header), Some(chain)) = (header, Chain::of(buffers, row)) else {
            return REFUSED;
        };
        let mut parts = [IoSlice::new(&[]); MAX_SEGMENTS + 1];
        parts[0] = IoSlice::new(&header);
        let mut count = 1;
        for slice in chain.slices(buffers) {
            parts[count] = IoSlice::new(slice);
            count += 1;
        }
        match rustix::io::writev(&*self.queues[self.own], &parts[..count]) {
            Ok(_) => edge::SENT,
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => FULL,
            Err(_) => REFUSED,
        }
    }
}
