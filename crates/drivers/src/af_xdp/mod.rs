//! AF_XDP: an interface of the host whose driver gives frames to us before the host's network stack sees them (Linux
//! `Documentation/networking/af_xdp.rst`).
//!
//! A small program on the interface ([`program`]) hands the frames of each queue to a socket ([`socket`]). The socket
//! writes them to buffers of our pool and sends from there ([`queue`], [`ring`]): in the best case the device itself
//! accesses the buffers, else the kernel copies.

mod bpf;
mod checksum;
mod inside;
mod program;
mod queue;
mod ring;
mod socket;
#[cfg(test)]
mod tests;

use crate::host::{self, Interface};
use crate::stations::Stations;
use crate::{Carries, Device, Link, OpenError, Receive, Speed, StationFilter, Transmit, TxOffloads, namespace};
use bpf::Hook;
use graph::{Buffers, Pool, Vector};
use program::{Attached, Program};
use queue::{Facts, Service, XdpReceive, XdpTransmit};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use socket::{Binding, Socket, Statistics};
use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use wire::MacAddress;
use wire::ethernet;
use wire::vlan::{MAX_TAGS, TAG_LEN};

/// The driver's name.
pub const DRIVER: &str = "af_xdp";
/// The node by which its packets arrive.
pub const INPUT: &str = "af_xdp-input";

/// Most queues of an interface.
pub const MAX_QUEUES: u16 = 64;
/// Least and most entries of a ring.
pub const MIN_RING: u32 = 64;
pub const MAX_RING: u32 = 16384;
/// Entries of a ring by default.
pub const RING: u32 = 1024;
/// Most packets of one busy poll, by default.
pub const BUDGET: u32 = 64;

/// What moves frames between the device and our buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copying {
    /// The device, if it can; else the kernel.
    Auto,
    /// The device; if it cannot, opening fails.
    Never,
    /// The kernel.
    Always,
}

/// The settings of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub host_interface: String,
    /// The network namespace that it is in: a name under `/var/run/netns`, or a path.
    pub namespace: Option<String>,
    /// Queues; none: all that the interface has.
    pub queues: Option<u16>,
    /// Entries of the rings of a queue, powers of two.
    pub receive_ring: u32,
    pub transmit_ring: u32,
    /// The object file of the operator's program. None: ours.
    pub program: Option<String>,
    pub copying: Copying,
    /// Workers poll the device: for at most this many microseconds, and packets.
    pub busy_poll: Option<(u32, u32)>,
    /// VPP's option against a lock that this driver never takes; accepted because configurations have it.
    pub no_syscall_lock: bool,
    /// Whether to use the MAC address of the host's interface.
    pub reuses_mac: bool,
    pub hw_address: Option<MacAddress>,
}

impl Options {
    pub fn new(host_interface: &str) -> Options {
        Options {
            host_interface: host_interface.into(),
            namespace: None,
            queues: Some(1),
            receive_ring: RING,
            transmit_ring: RING,
            program: None,
            copying: Copying::Auto,
            busy_poll: None,
            no_syscall_lock: false,
            reuses_mac: false,
            hw_address: None,
        }
    }

    /// Ways to serve the interface, best first.
    fn ways(&self) -> &'static [Way] {
        const ALL: [Way; 3] = [
            Way { hook: Hook::Native, zero_copy: true },
            Way { hook: Hook::Native, zero_copy: false },
            Way { hook: Hook::Generic, zero_copy: false },
        ];
        match self.copying {
            Copying::Auto => &ALL,
            Copying::Never => &ALL[..1],
            Copying::Always => &ALL[1..],
        }
    }
}

/// How an interface is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    hook: Hook,
    zero_copy: bool,
}

impl Way {
    fn name(self) -> &'static str {
        match (self.hook, self.zero_copy) {
            (_, true) => "zero-copy",
            (Hook::Native, false) => "copy",
            (Hook::Generic, false) => "generic",
        }
    }
}

/// Opens sockets on an interface of the host, over this pool.
///
/// # Errors
/// When there is no such interface, it does not carry Ethernet frames, has fewer queues, or the system refuses (it
/// requires `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_BPF`).
pub fn open(options: &Options, pool: &Arc<Pool>) -> Result<Device, OpenError> {
    namespace::inside(options.namespace.as_deref(), || open_here(options, pool))
}

fn open_here(options: &Options, pool: &Arc<Pool>) -> Result<Device, OpenError> {
    let name = &options.host_interface;
    let interface = Interface::find(name)?;
    let about = |what: &str, error| OpenError::system(format!("{what} of host interface '{name}'"), error);
    if !interface.is_ethernet().map_err(|error| about("the type", error))? {
        return Err(OpenError::Refused(format!("host interface '{name}' does not carry Ethernet frames")));
    }
    let mtu = interface.mtu().map_err(|error| about("the MTU", error))?;
    let there = interface.receive_queues().unwrap_or(1).max(1);
    let queues = queues(options, there, pool)?;
    let mac = match (options.hw_address, options.reuses_mac) {
        (Some(mac), _) => mac,
        (None, true) => interface.mac().map_err(|error| about("the Ethernet address", error))?,
        (None, false) => host::random_mac(),
    };
    let packets = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)
        .map_err(|error| OpenError::system("opening a packet socket", error))?;
    let mut stations = Stations::new(Arc::new(packets), interface.index);
    stations
        .set(&StationFilter { stations: vec![mac], promiscuous: false })
        .map_err(|error| OpenError::system(format!("asking host interface '{name}' for frames"), error))?;

    let (way, served) = serve(options, &interface, (queues, there), pool)?;
    let facts = Arc::new(Facts::default());
    let service = Service { zero_copy: way.zero_copy, busy_poll: options.busy_poll.is_some() };
    let sizes = (options.receive_ring, options.transmit_ring);
    let multi_buffer = served.program.is_multi_buffer() && served.sockets.iter().all(|(_, socket)| socket.multi_buffer);
    let ends =
        served.sockets.into_iter().map(|(rings, socket)| queue::split(socket, rings, sizes, pool, &facts, service));
    let (receive, transmit): (Vec<XdpReceive>, Vec<XdpTransmit>) = ends.unzip();
    let link = XdpLink {
        name: name.clone(),
        sockets: receive.iter().map(|queue| queue.socket().clone()).collect(),
        interface,
        stations,
        program: served.program,
        facts,
        queues_there: there,
        told_unattended: Cell::new(false),
        told_unfinished: Cell::new(false),
        told_invalid: Cell::new(false),
        manner: format!(
            "{}{}{}",
            way.name(),
            if multi_buffer { ", multi-buffer" } else { "" },
            if service.busy_poll { ", busy-poll" } else { "" }
        ),
    };
    link.set_longest(mtu);
    let place = options.namespace.as_ref().map_or(String::new(), |namespace| format!(" in namespace {namespace}"));
    Ok(Device {
        driver: DRIVER,
        carries: Carries::LINK,
        input_node: INPUT,
        description: format!("host interface {name}{place}"),
        host: Some(name.clone()),
        mac,
        mtu: mtu.try_into().unwrap_or(u16::MAX),
        finishes: TxOffloads::default(),
        receive: receive.into_iter().map(|queue| Box::new(queue) as Box<dyn Receive>).collect(),
        transmit: Box::new(Transmitters(transmit.into_iter().map(|queue| Mutex::new(Some(queue))).collect())),
        link: Box::new(link),
    })
}

/// How many queues to serve.
fn queues(options: &Options, there: u32, pool: &Pool) -> Result<u32, OpenError> {
    let name = &options.host_interface;
    let asked = options.queues.map_or(there, u32::from);
    if asked > there {
        let many = if there == 1 { "1 receive queue".into() } else { format!("{there} receive queues") };
        return Err(OpenError::Refused(format!("host interface '{name}' has {many}, not {asked}")));
    }
    if asked > MAX_QUEUES.into() {
        return Err(OpenError::Refused(format!("host interface '{name}': at most {MAX_QUEUES} queues can be served")));
    }
    let wanted = u64::from(asked) * u64::from(options.receive_ring);
    if wanted > u64::from(pool.capacity()) / 2 {
        return Err(OpenError::Refused(format!(
            "host interface '{name}': {asked} queues of {} buffers are more than half of the {} that there are: a \
             smaller \
             'rx-queue-size', or more 'buffers-per-numa' in startup.conf",
            options.receive_ring,
            pool.capacity()
        )));
    }
    Ok(asked)
}

/// A running program, and the sockets that it hands frames to.
struct Served {
    program: Attached,
    sockets: Vec<(socket::Rings, Socket)>,
}

/// Serves the interface in the best way that works.
fn serve(
    options: &Options,
    interface: &Interface,
    (queues, there): (u32, u32),
    pool: &Arc<Pool>,
) -> Result<(Way, Served), OpenError> {
    let name = &options.host_interface;
    let mut program = match &options.program {
        Some(file) => Program::from_file(file, there)?,
        None => Program::own(there)?,
    };
    let mut reasons = Vec::new();
    for &way in options.ways() {
        match try_way(options, interface, way, queues, pool, program) {
            Ok(served) => {
                if !reasons.is_empty() {
                    log::info!("host interface {name} is served as '{}', for {}", way.name(), reasons.join("; "));
                }
                if queues < there {
                    log::warn!(
                        "host interface {name} has {there} receive queues, and sockets on {queues} of them: frames \
                         that come by the \
                         others go to the host. 'num-rx-queues all' takes all; 'ethtool -L {name} combined {queues}' \
                         or 'ethtool -L {name} rx {queues}' leaves as many"
                    );
                }
                return Ok((way, served));
            }
            Err((error, back)) => {
                reasons.push(format!("{}: {error}", way.name()));
                program = back;
            }
        }
    }
    Err(OpenError::Refused(format!("host interface '{name}' cannot be served: {}", reasons.join("; "))))
}

fn try_way(
    options: &Options,
    interface: &Interface,
    way: Way,
    queues: u32,
    pool: &Arc<Pool>,
    program: Program,
) -> Result<Served, (OpenError, Program)> {
    if way.zero_copy && !pool.huge {
        let why = "packet buffers do not lie on huge pages ('page-size default-hugepage' in startup.conf)";
        return Err((OpenError::Refused(why.into()), program));
    }
    let program = program.attach(interface.index, way.hook)?;
    match sockets(options, interface, way, queues, pool, &program) {
        Ok(sockets) => Ok(Served { program, sockets }),
        Err(error) => Err((error, program.detach())),
    }
}

fn sockets(
    options: &Options,
    interface: &Interface,
    way: Way,
    queues: u32,
    pool: &Arc<Pool>,
    program: &Attached,
) -> Result<Vec<(socket::Rings, Socket)>, OpenError> {
    let mut sockets: Vec<(socket::Rings, Socket)> = Vec::new();
    let sizes = (options.receive_ring, options.transmit_ring);
    for queue in 0..queues {
        let binding = Binding { interface: interface.index, queue, zero_copy: way.zero_copy };
        let first = sockets.first().map(|(_, socket)| socket);
        let (rings, socket) = Socket::open(binding, sizes, pool, first)?;
        if let Some((microseconds, budget)) = options.busy_poll {
            socket
                .set_busy_poll(microseconds, budget)
                .map_err(|error| OpenError::system("busy polling (it takes Linux 5.11)", error))?;
        }
        program.lead(queue, socket.socket())?;
        sockets.push((rings, socket));
    }
    Ok(sockets)
}

/// The transmit queues, until workers take them.
struct Transmitters(Vec<Mutex<Option<XdpTransmit>>>);

impl Transmitters {
    fn queue(&self, number: usize) -> std::sync::MutexGuard<'_, Option<XdpTransmit>> {
        self.0[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transmit for Transmitters {
    /// For a single worker to which other workers hand packets over: it sends by the first queue.
    fn transmit(&mut self, buffers: &mut Buffers, vector: &mut Vector) {
        let only = self.0[0].get_mut().unwrap_or_else(PoisonError::into_inner);
        match only {
            Some(queue) => queue.transmit(buffers, vector),
            None => vector.set_edges(crate::REFUSED),
        }
    }

    fn queues(&self) -> usize {
        self.0.len()
    }

    /// A ring has one owner, so each worker needs a queue of its own.
    fn is_for_all(&self, workers: usize) -> bool {
        workers <= self.0.len()
    }

    fn another(&self, worker: usize, _workers: usize) -> Option<Box<dyn Transmit>> {
        Some(Box::new(self.queue(worker).take()?))
    }
}

struct XdpLink {
    name: String,
    interface: Interface,
    stations: Stations,
    program: Attached,
    sockets: Vec<Arc<Socket>>,
    facts: Arc<Facts>,
    /// Receive queues that the interface has.
    queues_there: u32,
    told_unattended: Cell<bool>,
    told_unfinished: Cell<bool>,
    told_invalid: Cell<bool>,
    /// How the interface is served, for operators.
    manner: String,
}

impl XdpLink {
    fn set_longest(&self, mtu: u32) {
        let headers = ethernet::HEADER_LEN + MAX_TAGS * TAG_LEN;
        self.facts.longest.store(mtu.saturating_add(headers as u32), Ordering::Relaxed);
    }

    /// Frames that went to the host because their queue has no socket.
    fn unattended(&self) -> Option<u64> {
        if self.sockets.len() == self.queues_there as usize {
            return None;
        }
        self.program.unattended(self.queues_there)
    }

    /// Logs once what an operator should know.
    fn tell(&self) {
        let name = &self.name;
        if !self.told_unattended.get() && self.unattended().is_some_and(|frames| frames > 0) {
            self.told_unattended.set(true);
            log::warn!(
                "host interface {name}: frames come by queues that have no socket, and go to the host \
                 ('num-rx-queues all' takes them; 'show hardware-interfaces' counts them)"
            );
        }
        if !self.told_unfinished.get() && self.facts.unfinished.load(Ordering::Relaxed) {
            self.told_unfinished.set(true);
            log::warn!("host interface {name}: {UNFINISHED}");
        }
        let refuses = |socket: &Arc<Socket>| (socket.statistics().rx_invalid, socket.statistics().tx_invalid) != (0, 0);
        if !self.told_invalid.get() && self.sockets.iter().any(refuses) {
            self.told_invalid.set(true);
            log::error!(
                "host interface {name}: the kernel refuses buffers of ours, which are lost to it; behind an IOMMU \
                 zero-copy may \
                 not be possible: 'no-zero-copy' does without"
            );
        }
    }
}

/// What unfinished checksums are, and how to avoid them.
const UNFINISHED: &str = "TCP and UDP checksums come unfinished, as from a veth or a virtual machine whose other \
 end leaves them \
                          to hardware. They are finished here, which costs time; 'ethtool -K DEVICE tx off' at the \
                          other end, \
                          of its interface, spares it";

impl Link for XdpLink {
    fn is_up(&self) -> bool {
        self.tell();
        // The host's MTU may have been lowered; the kernel would silently drop longer frames.
        let _ = self.mtu();
        self.interface.is_running()
    }

    fn speed(&self) -> Option<Speed> {
        self.interface.speed()
    }

    fn set_filter(&mut self, filter: &StationFilter) -> io::Result<()> {
        self.stations.set(filter)
    }

    fn mtu(&self) -> Option<u16> {
        let mtu = self.interface.mtu().ok()?;
        self.set_longest(mtu);
        Some(mtu.try_into().unwrap_or(u16::MAX))
    }

    fn set_mtu(&mut self, mtu: u16) -> io::Result<()> {
        self.interface.set_mtu(mtu.into())?;
        self.set_longest(mtu.into());
        Ok(())
    }

    /// Sets the host's interface up with ours, but never down: it is the host's.
    fn set_admin(&mut self, up: bool) -> io::Result<()> {
        if up { self.interface.set_up() } else { Ok(()) }
    }

    fn lent(&self) -> u64 {
        let counts = self.sockets.iter().flat_map(|socket| &socket.lent);
        counts.map(|count| u64::from(count.load(Ordering::Relaxed))).sum()
    }

    fn details(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "served: {}, {} of {} receive queues have a socket",
            self.manner,
            self.sockets.len(),
            self.queues_there
        )];
        if let Some(frames) = self.unattended().filter(|frames| *frames > 0) {
            lines.push(format!("frames by queues without a socket, that went to the host: {frames}"));
        }
        let finished = self.facts.finished.load(Ordering::Relaxed);
        if finished > 0 {
            lines.push(format!(
                "frames with unfinished checksums: {finished} ('ethtool -K DEVICE tx off' at the other end)"
            ));
        }
        for (socket, queue) in self.sockets.iter().zip(0..) {
            let Statistics { rx_dropped, rx_invalid, tx_invalid, rx_ring_full, fill_ring_empty } = socket.statistics();
            let counts = [
                ("rx dropped", rx_dropped),
                ("rx ring full", rx_ring_full),
                ("no buffer for the kernel", fill_ring_empty),
                ("invalid rx descriptors", rx_invalid),
                ("invalid tx descriptors", tx_invalid),
            ];
            let some = counts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}"));
            let some: Vec<String> = some.collect();
            if !some.is_empty() {
                lines.push(format!("queue {queue}, as the kernel counted: {}", some.join(", ")));
            }
        }
        lines
    }
}
