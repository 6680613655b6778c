//! The loopback device: an interface that is always there, with nothing behind it. It holds
//! addresses that must not depend on any wire; what is sent out of it is dropped by name.

use crate::{Carries, Device, Link, Transmit, TxOffloads};
use graph::{Buffers, EdgeSpec, Vector};
use wire::MacAddress;

/// The driver's name.
pub const DRIVER: &str = "loopback";

/// Instances are numbered below this (VPP's bound).
pub const MAX_INSTANCES: u32 = 16 * 1024;

graph::edges! {
    pub enum Edge {
        /// A packet was routed out of a loopback interface, which has no network behind it. Most often its
        /// destination is in the prefix of the loopback's address, but is not that address. Give loopbacks /32
        /// addresses, or find the route that leads to the loopback.
        Nothing => note "nothing is behind a loopback interface",
    }
}

/// Opens a loopback device. Its own Ethernet address is the one that operators know from VPP.
pub fn open(instance: u32, mac: Option<MacAddress>) -> Device {
    let [_, _, high, low] = instance.to_be_bytes();
    Device {
        driver: DRIVER,
        carries: Carries::NOTHING,
        input_node: "loopback-input",
        description: format!("loopback {instance}"),
        host: None,
        mac: mac.unwrap_or(MacAddress([0xde, 0xad, 0, 0, high, low])),
        mtu: 9216,
        // Nobody sees the packets: nothing is left to finish.
        finishes: TxOffloads { checksum: true, segmentation: true },
        receive: Vec::new(),
        transmit: Box::new(Loopback),
        link: Box::new(Loopback),
    }
}

struct Loopback;

impl Transmit for Loopback {
    fn transmit(&mut self, _: &mut Buffers, vector: &mut Vector) {
        vector.set_edges(Edge::Nothing.into());
    }

    fn edges(&self) -> &'static [EdgeSpec] {
        Edge::EDGES
    }

    fn another(&self, _: usize, _: usize) -> Option<Box<dyn Transmit>> {
        Some(Box::new(Loopback))
    }
}

impl Link for Loopback {
    fn is_up(&self) -> bool {
        true
    }
}
