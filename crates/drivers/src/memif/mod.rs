//! memif: packets by memory that two processes share (version 2.0 of the protocol, as VPP, DPDK and libmemif speak it).
//!
//! One side, the master, listens on a socket. The other, the slave, connects, and provides the memory with its rings.
//! [`channel`] is the handshake, [`keeper`] the thread that runs it, [`ring`] and [`memory`] what both sides share,
//! [`queue`] and [`transmit`] the workers' part. Neither side trusts the other.

mod channel;
pub mod generator;
mod keeper;
mod lending;
mod memory;
mod message;
pub mod peerless;
mod queue;
mod ring;
mod slot;
mod socket;
#[cfg(test)]
mod tests;
mod transmit;

pub use keeper::{ConnectionHandle, Keeper};
pub use message::SECRET;
pub use queue::Role;
pub use ring::{Descriptor, MAX_LOG2};
pub use socket::check as check_socket;
pub use socket::is_abstract;

use crate::host::random_mac;
use crate::{Carries, Device, Link, OpenError, Receive, TxOffloads};
use graph::Pool;
use keeper::Interface;
use queue::MemifReceive;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use transmit::MemifTransmit;
use wire::MacAddress;

/// The driver's name.
pub const DRIVER: &str = "memif";
/// The node by which its packets arrive.
pub const INPUT: &str = "memif-input";

/// Most queues in each direction.
pub const MAX_QUEUES: u16 = 255;
/// Least and most bytes of a buffer.
pub const MIN_BUFFER: u32 = 64;
pub const MAX_BUFFER: u32 = 65536;
/// Bytes of network-layer packet that it carries by default.
const MTU: u16 = 9000;
/// A region's offsets have 32 bits.
const MAX_MEMORY: u64 = 1 << 32;

/// The settings of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The name of the interface that the peer is sent.
    pub name: String,
    /// Distinguishes interfaces on the same socket.
    pub id: u32,
    /// The number by which operators know the socket.
    pub socket_id: u32,
    /// A path, or `@` and an abstract name.
    pub socket: String,
    pub role: Role,
    pub secret: Option<[u8; SECRET]>,
    /// As a slave: slots of a ring, as a power of two.
    pub log2_ring_size: u8,
    /// As a slave: bytes of a buffer.
    pub buffer_size: u32,
    pub rx_queues: u16,
    pub tx_queues: u16,
    pub hw_address: Option<MacAddress>,
    /// As a slave: the peer gets our packet memory, so that nothing is copied here.
    pub zero_copy: bool,
}

/// Slots of a ring, as a power of two, and bytes of a buffer, unless something else is asked for: VPP's.
pub const LOG2_RING: u8 = 10;
pub const BUFFER: u32 = 2048;

impl Options {
    /// An interface on a socket with all else as usual: one queue each way, and no secret.
    pub fn new(role: Role, id: u32, socket_id: u32, socket: impl Into<String>) -> Options {
        Options {
            name: format!("memif{socket_id}/{id}"),
            id,
            socket_id,
            socket: socket.into(),
            role,
            secret: None,
            log2_ring_size: LOG2_RING,
            buffer_size: BUFFER,
            rx_queues: 1,
            tx_queues: 1,
            hw_address: None,
            zero_copy: false,
        }
    }

    /// Its default name, as in VPP.
    pub fn usual_name(&self) -> String {
        format!("memif{}/{}", self.socket_id, self.id)
    }

    /// # Errors
    /// When the options are invalid.
    pub fn check(&self) -> Result<(), OpenError> {
        if self.zero_copy && self.role == Role::Master {
            return Err(OpenError::Refused("zero-copy: it is the slave who brings the memory".into()));
        }
        let queues = u64::from(self.rx_queues) + u64::from(self.tx_queues);
        let memory =
            queues * ((u64::from(self.buffer_size) << self.log2_ring_size) + (20 << self.log2_ring_size) + 4096);
        if memory >= MAX_MEMORY {
            let ring = 1u64 << self.log2_ring_size;
            return Err(OpenError::Refused(format!(
                "{queues} queues of {ring} buffers of {} bytes: more than the 4 GiB that offsets reach",
                self.buffer_size
            )));
        }
        check_socket(&self.socket)
    }
}

/// The state of an interface.
#[derive(Debug, Clone)]
pub struct MemifStatus {
    pub options: Options,
    pub connected: bool,
    /// The peer's name, and that of its interface.
    pub remote_name: String,
    pub remote_interface: String,
    /// The reason of the last disconnect, from us or from the peer.
    pub local_reason: String,
    pub remote_reason: String,
    pub listener_descriptor: i32,
    pub connection_descriptor: i32,
    pub regions: Vec<RegionStatus>,
    pub receive: Vec<RingStatus>,
    pub transmit: Vec<RingStatus>,
}

#[derive(Debug, Clone)]
pub struct RegionStatus {
    pub size: u64,
}

#[derive(Debug, Clone)]
pub struct RingStatus {
    pub region: u16,
    pub offset: u32,
    pub size: u16,
    pub interrupt_descriptor: i32,
    pub head: u16,
    pub tail: u16,
    pub flags: u16,
    /// How often its receiver was woken.
    pub interrupts: u64,
    /// Empty unless they were asked for.
    pub descriptors: Vec<Descriptor>,
}

/// Creates an interface. It is connected as soon as there is a peer.
///
/// # Errors
/// When the options contradict each other, or the socket cannot be listened on.
pub fn open(keeper: &Keeper, options: Options, pool: &Arc<Pool>) -> Result<Device, OpenError> {
    options.check()?;
    let lender = options.zero_copy.then(|| pool.clone());
    if lender.is_some() && pool.memory().1 as u64 >= MAX_MEMORY {
        return Err(OpenError::Refused("zero-copy: packet memory is more than the 4 GiB that offsets reach".into()));
    }
    let interface = Arc::new(Interface::new(options, lender)?);
    let care = keeper.add(interface.clone())?;
    let options = &interface.options;
    let receive = |(number, waiter): (usize, &Arc<OwnedFd>)| {
        Box::new(MemifReceive::new(interface.slot.clone(), number, waiter.clone())) as Box<dyn Receive>
    };
    let role = if options.role == Role::Master { "master" } else { "slave" };
    Ok(Device {
        driver: DRIVER,
        carries: Carries::LINK,
        input_node: INPUT,
        description: format!("{role}, id {} on socket {} ({})", options.id, options.socket_id, options.socket),
        host: None,
        mac: options.hw_address.unwrap_or_else(random_mac),
        mtu: MTU,
        finishes: TxOffloads::default(),
        receive: interface.waiters.iter().enumerate().map(receive).collect(),
        transmit: Box::new(MemifTransmit::new(interface.slot.clone(), options.tx_queues.into(), 0, 1)),
        link: Box::new(care),
    })
}

impl Link for ConnectionHandle {
    fn is_up(&self) -> bool {
        self.interface.slot.is_up()
    }

    fn lent(&self) -> u64 {
        let connection = self.interface.slot.connection().1;
        connection.map_or(0, |connection| connection.lent.load(Ordering::Relaxed).into())
    }
}

impl ConnectionHandle {
    /// The state of the interface.
    pub fn status(&self, keeper: &Keeper, with_descriptors: bool) -> MemifStatus {
        let options = &self.interface.options;
        let listener = if options.role == Role::Master { keeper.listener(&options.socket) } else { None };
        self.interface.shown(listener, with_descriptors)
    }
}
