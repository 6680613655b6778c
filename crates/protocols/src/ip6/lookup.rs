//! `ip6-lookup`: the longest prefix that matches.
//!
//! Reads: the destination; `table`, or the table of `rx_interface`. Writes: `target`, the leaf that it resolves to.
//! Next: by the leaf's class.

use graph::{Context, Map, NodeSpec, VECTOR_SIZE, Vector};
use router::ip::Fibs6;
use router::ip::fibs::Whose;
pub use router::ip::leaves::{Forwarding, dispatch, edge6::Edge, note_tables, trace_lookup};
use tables::Lookup6;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip6-lookup".into(), edges: Edge::EDGES, counters: &[], trace: trace_lookup::<Lookup6> }
}

pub struct Ip6Lookup {
    fibs: Fibs6,
    destinations: Box<[u128; VECTOR_SIZE]>,
}

impl Ip6Lookup {
    pub fn new(fibs: Fibs6) -> Ip6Lookup {
        Ip6Lookup { fibs, destinations: Box::new([0; VECTOR_SIZE]) }
    }
}

impl Map for Ip6Lookup {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let count = vector.len();
        let (frames, _) = vector.l3_frames(cx.buffers);
        for (i, destination) in self.destinations[..count].iter_mut().enumerate() {
            *destination = Lookup6::destination(frames.bytes(i));
        }
        let columns = vector.columns();
        let whose = Whose { rx: columns.rx_interface, tables: columns.table };
        self.fibs.lookup_batch(cx.round, whose, &self.destinations[..count], columns.target);
        dispatch::<Lookup6>(vector);
        note_tables(vector, |row| self.fibs.index_for(cx.round, row));
    }
}
