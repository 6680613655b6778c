//! Frames that are not for an interface's own address, but for an extra one.
//!
//! The header pass compares with one address only. What it takes for another station's is
//! compared with the extra ones here: whoever has none, and frames for the own address, cost
//! nothing.

use crate::interface::InterfaceView;
use graph::{Context, Vector};
use std::ops::Range;
use wire::batch::check;

/// Takes the mark off packets of `range` that are for an extra address of the interface.
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
