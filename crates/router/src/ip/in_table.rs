//! `lookup-ip4-dst`, `lookup-ip6-dst`: look packets up in the table to which a route sent them.
//!
//! Reads: `target` (a lookup leaf), the destination. Writes: `target`, what it resolves to there; `flags`, in how
//! many tables it has been. Next: by its kind.

use super::control::TableIndex;
use super::fibs::{Fibs, MAX_TABLES_IN_A_ROW, runs};
use super::leaves::{Edge, Forwarding, dispatch, trace_leaf};
use crate::ip::TABLES;
use graph::{Context, EdgeIndex, Map, NodeSpec, VECTOR_SIZE, Vector};
use tables::Leaf;

pub fn spec<L: Forwarding>() -> NodeSpec {
    NodeSpec { name: L::IN_TABLE.into(), edges: L::EDGES, counters: &[], trace: trace_leaf::<L> }
}

pub struct InTable<L: Forwarding> {
    fibs: Fibs<L>,
}

impl<L: Forwarding> InTable<L> {
    pub fn new(fibs: Fibs<L>) -> InTable<L> {
        InTable { fibs }
    }
}

/// A packet's flags count the tables behind the first in which it was looked up.
const TABLES_SHIFT: u32 = TABLES.trailing_zeros();
const _: () = assert!(MAX_TABLES_IN_A_ROW - 1 == TABLES >> TABLES_SHIFT);

impl<L: Forwarding> Map for InTable<L> {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let (mut asked, mut found) = ([L::Address::default(); VECTOR_SIZE], [0; VECTOR_SIZE]);
        let (mut strays, mut any_strays) = ([false; VECTOR_SIZE], false);
        let (frames, sides) = vector.l3_frames(cx.buffers);
        let count = frames.len();
        for (i, (asked, flags)) in asked.iter_mut().zip(sides.flags).enumerate() {
            *asked = L::destination(frames.bytes(i));
            let has_been_in = 1 + ((*flags & TABLES) >> TABLES_SHIFT);
            strays[i] = has_been_in == MAX_TABLES_IN_A_ROW;
            any_strays |= strays[i];
            *flags += u32::from(!strays[i]) << TABLES_SHIFT;
        }
        let table_of = |leaf: u32| TableIndex(Leaf(leaf).index() as u16);
        for (table, run) in runs(sides.target, table_of) {
            self.fibs.lookup_batch_in(cx.round, table, &asked[run.clone()], &mut found[run]);
        }
        sides.target.copy_from_slice(&found[..count]);
        dispatch::<L>(vector);
        for i in (0..count).filter(|i| any_strays && strays[*i]) {
            vector.set_edge(i, Edge::TooManyTables as EdgeIndex);
        }
    }
}
