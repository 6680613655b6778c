//! `ip4-lookup`: the longest prefix that matches.
//!
//! Reads: `target`, the destination. Writes: `target`, the leaf that it resolves to. Next: by the leaf's kind.

use crate::ip::Fibs4;
use crate::ip::leaves::{Edge, dispatch, note_tables, trace_lookup};
use graph::{Context, Map, NodeSpec, Vector};
use tables::Lookup4;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-lookup".into(), edges: Edge::EDGES, counters: &[], trace: trace_lookup::<Lookup4> }
}

pub struct Ip4Lookup {
    fibs: Fibs4,
}

impl Ip4Lookup {
    pub fn new(fibs: Fibs4) -> Ip4Lookup {
        Ip4Lookup { fibs }
    }
}

impl Map for Ip4Lookup {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let columns = vector.columns();
        self.fibs.lookup_batch_in_place(cx.round, columns.rx_interface, columns.target);
        dispatch::<Lookup4>(vector);
        note_tables(vector, |row| self.fibs.index_of(cx.round, row.rx_interface));
    }
}
