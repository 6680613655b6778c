//! The tx node of an interface: hands packets to the device and counts what it took.

use crate::Transmit;
use graph::{Context, CounterTable, EdgeSpec, InterfaceIndex, Map, NodeSpec, Snapshot, Vector, edge};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// In the order of [`crate::FULL`], [`crate::REFUSED`], [`crate::TOO_LONG`] and [`crate::DROPPED`].
    pub enum Edge {
        /// The device's transmit queue is full. Packets arrive faster than the device sends them, or the host does
        /// not read its end. Shape the traffic to this interface, or find out why the other end is slow.
        Full => drop "device has no room",
        /// The device cannot send the packet. Usually its link is down, or the device is gone. Check
        /// `show hardware-interfaces` and the host's own view of the device.
        Refused => drop "device refused the packet",
        /// The frame is longer than the MTU that the host now has for this device. The MTU was lowered on the host
        /// without the router's knowledge, or the frame was sent without being routed. Set the same MTU on both
        /// (`set interface mtu`).
        TooLong => drop "packet is longer than the device's mtu",
        /// The host's device took the packet and dropped it at once, although the router's own queue to it had room.
        /// On a veth, the other end has a smaller MTU, is down, or its receiver is overloaded. On other devices, a
        /// queueing discipline reached its limit. Compare `ip -s link` and the MTU at both ends, and `tc -s qdisc`.
        Dropped => drop "device dropped the packet",
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

    /// `edges`: the queue's ([`Transmit::edges`]).
    pub fn spec(interface_name: &str, edges: &'static [EdgeSpec]) -> NodeSpec {
        NodeSpec { name: format!("{interface_name}-tx"), edges, counters: &[], trace }
    }
}

impl Map for DeviceOutput {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        self.transmit.transmit(cx.buffers, vector);
        let (mut sent, mut bytes) = (0, 0u64);
        for (&to, &length) in vector.edges().iter().zip(vector.lengths()) {
            let taken = (to == edge::SENT || to == edge::LENT) as u32;
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
    let is_sent = [edge::SENT, edge::LENT].contains(&snapshot.edge);
    writeln!(f, "  length {}{}", snapshot.row.length, if is_sent { "" } else { ", not sent" })?;
    writeln!(f, "{}", wire::pretty::Summary::ethernet(snapshot.l2()).indented(2))
}
