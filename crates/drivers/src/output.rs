//! The tx node of an interface: hands packets to the device and counts what it took.

use crate::{REFUSED, Transmit};
use graph::{Buffers, Context, CounterTable, InterfaceIndex, Map, NodeSpec, Snapshot, Vector, edge};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// In the order of [`crate::FULL`] and [`crate::REFUSED`].
    pub enum Edge {
        Full => drop "device has no room",
        Refused => drop "device refused the packet",
    }
}

/// Map node that owns an interface's transmit queue.
pub struct DeviceOutput {
    interface: InterfaceIndex,
    transmit: Box<dyn Transmit>,
    /// Packets and bytes sent, by interface.
    tx: Arc<CounterTable>,
}

impl DeviceOutput {
    pub fn new(interface: InterfaceIndex, transmit: Box<dyn Transmit>, tx: Arc<CounterTable>) -> DeviceOutput {
        DeviceOutput { interface, transmit, tx }
    }

    pub fn spec(interface_name: &str) -> NodeSpec {
        NodeSpec { name: format!("{interface_name}-tx"), edges: Edge::EDGES, counters: &[], trace }
    }
}

/// Stands in on workers that do not own the queue.
pub struct NotOwner;

impl Transmit for NotOwner {
    fn transmit(&mut self, _: &mut Buffers, vector: &mut Vector) {
        vector.set_edges(REFUSED);
    }
}

impl Map for DeviceOutput {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        self.transmit.transmit(cx.buffers, vector);
        let (mut sent, mut bytes) = (0, 0u64);
        for (&to, &length) in vector.edges().iter().zip(vector.lengths()) {
            let taken = (to == edge::SENT) as u32;
            sent += taken;
            bytes += (taken * length as u32) as u64;
        }
        let interface = self.interface.0 as usize;
        self.tx.add(cx.thread, interface, 0, sent as u64);
        self.tx.add(cx.thread, interface, 1, bytes);
    }

    fn interface(&self) -> Option<InterfaceIndex> {
        Some(self.interface)
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  length {}{}", snapshot.row.length, if snapshot.edge == edge::SENT { "" } else { ", not sent" })?;
    writeln!(f, "{}", wire::pretty::Summary::ethernet(snapshot.l2()).indented(2))
}
