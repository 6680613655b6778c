//! Drivers: how packets get in and out. One folder (or file) a driver, one set of
//! traits for all.
//!
//! A driver opens a device and gives its [`Device`]: what it is, its receive queues and
//! its transmit queues. The queues go to workers: receive queues into the driver's input
//! node ([`input::DeviceInput`]), transmit queues into its interface's tx node
//! ([`output::DeviceOutput`]).
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
mod namespace;
pub mod null;
pub mod offload;
pub mod output;
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

use graph::{Buffers, EdgeIndex, EdgeSpec, Vector};
use std::os::fd::{AsFd, BorrowedFd};
use wire::MacAddress;

/// What a device finishes by itself when it sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TxOffloads {
    /// Transport checksums that are only begun.
    pub checksum: bool,
    /// Packets that are longer than the wire takes.
    pub segmentation: bool,
}

/// An open device.
pub struct Device {
    /// The driver's name: `tap`, `af_packet`, `memif`, `pg`, `null`, `loopback`.
    pub driver: &'static str,
    /// The node that its packets come in by, as VPP calls it.
    pub input_node: &'static str,
    /// One line for `show hardware-interfaces`: what it is bound to.
    pub description: String,
    /// The host's interface that it lies on, when it does.
    pub host: Option<String>,
    pub mac: MacAddress,
    /// Bytes of network-layer packet that it carries.
    pub mtu: u16,
    pub finishes: TxOffloads,
    /// Each brings a share of the packets; those of one flow come by one of them, as long as nothing changes.
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

/// Which frames a device is to bring, besides those for groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StationFilter {
    /// For these addresses, the interface's own first.
    pub stations: Vec<MacAddress>,
    /// All that it sees.
    pub promiscuous: bool,
}

/// What control may ask of a device at any time.
pub trait Link: Send {
    /// Whether there is a carrier.
    fn is_up(&self) -> bool;
    /// How fast it is, when it knows.
    fn speed(&self) -> Option<Speed> {
        None
    }
    /// The largest payload of a frame that it carries now; none: it knows no bound.
    fn mtu(&self) -> Option<u16> {
        None
    }
    /// Has it carry payloads of up to `mtu` bytes.
    ///
    /// # Errors
    /// When the system refuses: it carries what it did.
    fn set_mtu(&mut self, _mtu: u16) -> std::io::Result<()> {
        Ok(())
    }
    /// Has it bring these frames at least. Devices that bring all there is need not care.
    ///
    /// # Errors
    /// When the system refuses: it brings what it did.
    fn set_filter(&mut self, _filter: &StationFilter) -> std::io::Result<()> {
        Ok(())
    }
    /// Tells the device that its interface was set up or down.
    ///
    /// # Errors
    /// When the system refuses.
    fn set_admin(&mut self, _up: bool) -> std::io::Result<()> {
        Ok(())
    }
    /// Buffers that the device has: to write what arrives to, and being sent.
    fn lent(&self) -> u64 {
        0
    }
    /// What else an operator may want to know, in lines.
    fn details(&self) -> Vec<String> {
        Vec::new()
    }
    /// What is behind a memif.
    fn memif(&self) -> Option<&memif::ConnectionHandle> {
        None
    }
}

/// A receive queue, owned by one worker.
pub trait Receive: Send {
    /// Appends what has arrived to `out`, as far as there is room. For each packet: its
    /// buffer, `l2` and `l3` at the link header, length and offload flags; the receiving
    /// interface and the edge are set by the caller.
    fn receive(&mut self, buffers: &mut Buffers, out: &mut Vector, counts: &mut ReceiveCounts);
    /// Readable when something has arrived; none: nobody can wait for it.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
    /// It is not polled until its descriptor says that something has come: has the other side say so. False:
    /// something has come just now, and it is to be polled.
    fn begin_wait(&mut self) -> bool {
        true
    }
    /// It is polled again.
    fn end_wait(&mut self) {}
    /// Whether it will never bring anything again. Nobody waits for it any more.
    fn is_gone(&self) -> bool {
        false
    }
}

/// What went wrong while receiving, each counted by name.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveCounts {
    /// The pool had no buffer: the packet was left or lost.
    pub no_buffer: u64,
    /// The device's own header or lengths made no sense.
    pub malformed: u64,
    /// Longer than a packet may be.
    pub too_long: u64,
    /// The kernel's count of packets that it could not hand over.
    pub missed: u64,
}

/// A way to transmit. One worker owns it, to which others hand packets over; or each has [another](Transmit::another).
pub trait Transmit: Send {
    /// Sends the packets and writes each one's edge: [`graph::edge::SENT`], [`graph::edge::LENT`] when they are sent
    /// from where they lie, or [`FULL`], [`REFUSED`], [`TOO_LONG`] or [`DROPPED`] when it could not be sent.
    fn transmit(&mut self, buffers: &mut Buffers, vector: &mut Vector);
    /// Why it drops packets, when its reasons are others than those three.
    fn edges(&self) -> &'static [EdgeSpec] {
        output::Edge::EDGES
    }
    /// How many queues the device has.
    fn queues(&self) -> usize {
        1
    }
    /// Whether each of so many workers can have [another](Transmit::another).
    fn is_for_all(&self, workers: usize) -> bool {
        self.another(0, workers).is_some()
    }
    /// Another of it for another worker, by its number and how many there are, when nothing about it has to have one
    /// owner: it sends by the queue of that number, counted round. Each worker asks for its own once.
    fn another(&self, _worker: usize, _workers: usize) -> Option<Box<dyn Transmit>> {
        None
    }
}

/// Edge of a packet for which the device had no room.
pub const FULL: EdgeIndex = 0;
/// Edge of a packet that the device did not take (link down, malformed).
pub const REFUSED: EdgeIndex = 1;
/// Edge of a packet that is longer than the device's own MTU allows.
pub const TOO_LONG: EdgeIndex = 2;
/// Edge of a packet that the device took and threw away.
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
