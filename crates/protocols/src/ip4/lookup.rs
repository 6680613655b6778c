//! `ip4-lookup`: the longest prefix that matches.
//!
//! Reads: `target`, the destination; `table`, or the table of `rx_interface`. Writes: `target`, the leaf that it
//! resolves to. Next: by the leaf's class.

use graph::{Context, Map, NodeSpec, Vector};
use router::ip::Fibs4;
use router::ip::fibs::Whose;
pub use router::ip::leaves::{Edge, dispatch, note_tables, trace_lookup};
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
        let whose = Whose { rx: columns.rx_interface, tables: columns.table };
        self.fibs.lookup_batch_in_place(cx.round, whose, columns.target);
        dispatch::<Lookup4>(vector);
        note_tables(vector, |row| self.fibs.index_for(cx.round, row));
    }
}
