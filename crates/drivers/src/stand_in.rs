//! In place of a device: has its queues and touches nothing of the host. For a router that is a plan.

use crate::{Device, Receive, ReceiveCounts, borrowed, null};
use graph::{Buffers, Vector};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use wire::MacAddress;

/// A device of that driver on a link. Nothing ever arrives by its input node.
pub fn open(driver: &'static str, input_node: &'static str, host: Option<String>, queues: u16) -> Device {
    // One for all: nothing ever comes to any of them.
    let bell = eventfd(0, EventfdFlags::CLOEXEC).ok().map(Arc::new);
    let queue = |_| Box::new(Silent(bell.clone())) as Box<dyn Receive>;
    Device {
        driver,
        input_node,
        host,
        mac: MacAddress::ZERO,
        receive: (0..queues).map(queue).collect(),
        ..null::open(0)
    }
}

/// Can be waited for, as what it stands for.
struct Silent(Option<Arc<OwnedFd>>);

impl Receive for Silent {
    fn receive(&mut self, _: &mut Buffers, _: &mut Vector, _: &mut ReceiveCounts) {}

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        borrowed(self.0.as_ref()?)
    }
}
