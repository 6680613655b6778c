//! Frames to an extra Ethernet address of an interface.
//!
//! The header pass compares with one address only, and marks all other frames as another station's. This code compares
//! the marked frames with the extra addresses. Interfaces without extra addresses, and frames to the interface's own
//! address, pay nothing for it.

use graph::{Context, Vector};
use router::interface::InterfaceView;
use std::ops::Range;
use wire::batch::check;

/// Clears the mark of packets in `range` that are for an extra address of the interface.
#[cold]
pub fn admit(cx: &Context<'_>, vector: &mut Vector, range: Range<usize>, view: &InterfaceView) {
    let columns = vector.columns();
    for i in range {
        if columns.flags[i] & check::OTHER_STATION != 0 {
            let l2 = columns.l2[i] as usize;
            let to = &cx.buffers.bytes(columns.packets[i])[l2..l2 + 6];
            if view.stations.iter().any(|station| station.0 == to) {
                columns.flags[i] &= !check::OTHER_STATION;
            }
        }
    }
}
