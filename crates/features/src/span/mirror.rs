//! Copies a packet to SPAN destinations.

use super::MIRRORED;
use super::SpanDestination;
use graph::{CounterSpec, Expansion, Row, Scratch, Severity, flag};

/// Counters of both nodes.
pub const COUNTERS: &[CounterSpec] = &[
    CounterSpec(
        "packets mirrored",
        Severity::Info,
        "Copies of packets that the router made for a SPAN destination (`show interface span`). Each copy is counted \
         again where it leaves.",
    ),
    CounterSpec(
        "no free buffer to mirror into",
        Severity::Error,
        "All packet buffers are in use, so the router did not copy this packet for its SPAN destination. The packet \
         itself is forwarded. Check `show buffers`, and increase `buffers-per-numa` in startup.conf.",
    ),
];
const COPIES: usize = 0;
const NO_BUFFER: usize = 1;

/// Sends a copy of the packet to each destination. The device has the same work left to do on a copy as on the packet,
/// so `l3` must be right. A copy counts as received on the interface that it leaves by, so that a lost copy does not
/// count for the mirrored interface.
pub fn copy(x: &mut Expansion<'_, '_>, row: &Row, to: &[SpanDestination]) {
    for listener in to {
        let Some(copy) = row.copy(x.cx.buffers) else {
            x.cx.count(NO_BUFFER, 1);
            continue;
        };
        x.cx.count(COPIES, 1);
        let flags = row.flags & (flag::CHAINED | flag::OFFLOAD) | MIRRORED | flag::ORIGINATED;
        let mut copy = Row { rx_interface: listener.interface, flags, target: 0, scratch: Scratch::NONE, ..copy };
        copy.set_tx_interface(listener.interface);
        x.originate(copy, listener.edge);
    }
}
