//! The null device: accepts every packet and receives none. For measurements, and as a destination that never refuses.

use crate::{Carries, Device, Link, Transmit, TxOffloads};
use graph::{Buffers, Vector, edge};
use wire::MacAddress;

/// The driver's name.
pub const DRIVER: &str = "null";

/// Opens a null device with a MAC address made from `number`.
pub fn open(number: u32) -> Device {
    let [a, b, c, d] = number.to_be_bytes();
    Device {
        driver: DRIVER,
        carries: Carries::LINK,
        input_node: "null-input",
        description: "discards what it is given".into(),
        host: None,
        mac: MacAddress([0x02, 0x51, a, b, c, d]),
        mtu: 9216,
        // No host sees the packets, so nothing has to be finished.
        finishes: TxOffloads { checksum: true, segmentation: true },
        receive: Vec::new(),
        transmit: Box::new(Null),
        link: Box::new(Null),
    }
}

struct Null;

impl Transmit for Null {
    #[inline]
    fn transmit(&mut self, _: &mut Buffers, vector: &mut Vector) {
        vector.set_edges(edge::SENT);
    }

    fn another(&self, _: usize, _: usize) -> Option<Box<dyn Transmit>> {
        Some(Box::new(Null))
    }
}

impl Link for Null {
    fn is_up(&self) -> bool {
        true
    }
}
