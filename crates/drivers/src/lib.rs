//! Drivers: how packets get in and out. One folder (or file) for each driver, one set of traits for all.
//!
//! A driver opens a device and returns its [`Device`]: its description, its receive queues and its transmit queues. The
//! queues go to workers: receive queues into the driver's input node ([`input::DeviceInput`]), transmit queues into its
//! interface's tx node ([`output::DeviceOutput`]).
#![deny(unsafe_code)]

pub mod af_packet;
pub mod af_xdp;
pub mod capture_file;
pub mod chain;
mod host;
#[cfg(test)]
mod host_tests;
pub mod input;
pub mod loopback;
pub mod memif;
pub mod namespace;
pub mod null;
pub mod offload;
pub mod output;
pub mod passing;
pub mod pg;
mod ready;
mod socket_option;
pub mod stand_in;
mod stations;
pub mod tap;
#[cfg(test)]
mod test_frames;
pub mod vnet;

pub use chain::{Chain, link};
pub use host::check_name as check_host_name;

use graph::{Buffers, EdgeIndex, EdgeSpec, Vector};
use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd};
use wire::MacAddress;

/// What a device completes by itself when it sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TxOffloads {
    /// Unfinished transport checksums.
    pub checksum: bool,
    /// Segmentation of packets that are too long for the wire.
    pub segmentation: bool,
}

/// What is behind an interface of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carries {
    /// Other stations: they have addresses, and are announced ours.
    pub neighbours: bool,
    /// Packets of streams arrive by it, although it has no receive queue.
    pub streams: bool,
}

impl Carries {
    /// A link.
    pub const LINK: Carries = Carries { neighbours: true, streams: false };
    /// The packet generator.
    pub const STREAMS: Carries = Carries { neighbours: true, streams: true };
    /// Nothing.
    pub const NOTHING: Carries = Carries { neighbours: false, streams: false };
}

/// An open device.
pub struct Device {
    /// The driver's name, as `show hardware-interfaces` has it.
    pub driver: &'static str,
    pub carries: Carries,
    /// The node by which its packets enter the graph, named as in VPP.
    pub input_node: &'static str,
    /// One line for `show hardware-interfaces`: what it is bound to.
    pub description: String,
    /// The host's interface that it uses, if any.
    pub host: Option<String>,
    pub mac: MacAddress,
    /// Bytes of network-layer packet that it carries.
    pub mtu: u16,
    pub finishes: TxOffloads,
    /// Each receives a share of the packets. Packets of one flow arrive by the same queue, as long as nothing changes.
    pub receive: Vec<Box<dyn Receive>>,
    pub transmit: Box<dyn Transmit>,
    pub link: Box<dyn Link>,
}

/// How fast a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed {
    /// In Mbit/s.
    pub megabits: u32,
    pub full_duplex: Option<bool>,
}

/// Which unicast frames a device must deliver; frames for groups come always.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StationFilter {
    /// Frames to these addresses, the interface's own first.
    pub stations: Vec<MacAddress>,
    /// All frames that it sees.
    pub promiscuous: bool,
}

/// What control may ask of a device at any time. Whoever has to do with one kind of devices can find its own type in it
/// ([`std::any::Any`]).
pub trait Link: Any + Send {
    /// Whether there is a carrier.
    fn is_up(&self) -> bool;
    /// How fast it is, when it knows.
    fn speed(&self) -> Option<Speed> {
        None
    }
    /// The largest payload of a frame that it carries now; none: it has no limit.
    fn mtu(&self) -> Option<u16> {
        None
    }
    /// Makes it carry payloads of up to `mtu` bytes.
    ///
    /// # Errors
    /// When the system refuses: the limit is unchanged.
    fn set_mtu(&mut self, _mtu: u16) -> std::io::Result<()> {
        Ok(())
    }
    /// Makes it deliver at least these frames. Devices that deliver all frames need not implement it.
    ///
    /// # Errors
    /// When the system refuses: the filter is unchanged.
    fn set_filter(&mut self, _filter: &StationFilter) -> std::io::Result<()> {
        Ok(())
    }
    /// Sets the device up or down with its interface.
    ///
    /// # Errors
    /// When the system refuses.
    fn set_admin(&mut self, _up: bool) -> std::io::Result<()> {
        Ok(())
    }
    /// Has the other end of the device see a carrier, or none.
    ///
    /// # Errors
    /// When the system refuses.
    fn set_carrier(&mut self, _up: bool) -> std::io::Result<()> {
        Ok(())
    }
    /// Buffers that the device has, to receive into and to send from.
    fn lent(&self) -> u64 {
        0
    }
    /// Further lines for the operator.
    fn details(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A receive queue, owned by one worker.
pub trait Receive: Send {
    /// Appends what has arrived to `out`, as far as there is room. For each packet: its
    /// buffer, `l2` and `l3` at the link header, length and offload flags; the receiving
    /// interface and the edge are set by the caller.
    fn receive(&mut self, buffers: &mut Buffers, out: &mut Vector, counts: &mut ReceiveCounts);
    /// Readable when something has arrived; none: it cannot be waited for.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
    /// Stops polling until the descriptor is readable: asks the other side to notify us. False: packets have arrived
    /// just now, so the queue must still be polled.
    fn begin_wait(&mut self) -> bool {
        true
    }
    /// Polling resumes.
    fn end_wait(&mut self) {}
    /// Whether it will never receive anything again. It is then no longer watched.
    fn is_gone(&self) -> bool {
        false
    }
}

/// What went wrong while receiving, each counted by name.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveCounts {
    /// The pool had no buffer: the packet was left or lost.
    pub no_buffer: u64,
    /// The device's own header or lengths were invalid.
    pub malformed: u64,
    /// Longer than a packet may be.
    pub too_long: u64,
    /// The kernel's count of packets that it could not deliver.
    pub missed: u64,
}

/// A way to transmit. Either one worker owns it and other workers hand packets over to it, or each worker has
/// [another](Transmit::another).
pub trait Transmit: Send {
    /// Sends the packets and writes each one's edge: [`graph::edge::SENT`]; [`graph::edge::LENT`] when the device sends
    /// from the packet's buffers; or [`FULL`], [`REFUSED`], [`TOO_LONG`] or [`DROPPED`] when it could not be sent.
    fn transmit(&mut self, buffers: &mut Buffers, vector: &mut Vector);
    /// Why it drops packets, when its reasons are not those four.
    fn edges(&self) -> &'static [EdgeSpec] {
        output::Edge::EDGES
    }
    /// How many queues the device has.
    fn queues(&self) -> usize {
        1
    }
    /// Whether each of this many workers can have [another](Transmit::another).
    fn is_for_all(&self, workers: usize) -> bool {
        self.another(0, workers).is_some()
    }
    /// A transmitter for another worker, when each worker can have one. It sends by the queue with the worker's number,
    /// counted round. Each worker asks for its own once.
    fn another(&self, _worker: usize, _workers: usize) -> Option<Box<dyn Transmit>> {
        None
    }
}

/// Edge of a packet for which the device had no room.
pub const FULL: EdgeIndex = 0;
/// Edge of a packet that the device did not take (link down, malformed).
pub const REFUSED: EdgeIndex = 1;
/// Edge of a packet that is longer than the device's MTU allows.
pub const TOO_LONG: EdgeIndex = 2;
/// Edge of a packet that the device accepted and then discarded.
pub const DROPPED: EdgeIndex = 3;

/// Why a device could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// What was tried, and the system's answer.
    #[error("{what}: {source}{}", advice(source))]
    System { what: String, source: std::io::Error },
    #[error("{0}")]
    Refused(String),
}

fn advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => " (it takes root, or the capabilities NET_ADMIN and NET_RAW)",
        _ => "",
    }
}

impl OpenError {
    pub fn system(what: impl Into<String>, source: impl Into<std::io::Error>) -> OpenError {
        OpenError::System { what: what.into(), source: source.into() }
    }
}

/// The descriptor of a queue that has one.
fn borrowed(fd: &impl AsFd) -> Option<BorrowedFd<'_>> {
    Some(fd.as_fd())
}
