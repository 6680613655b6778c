//! Leaves of labels that are taken off to let out what is inside: how control writes them, and nodes read them.

use crate::ip::class;
use crate::ip::control::TableIndex;
use tables::Leaf;
use wire::Family;

/// In place of a table: that of the interface by which the packet came.
const OF_INTERFACE: u32 = 0xffff;

/// The classes from the given one on are those of [`NODES`].
fn leaf(first: u8, family: Family, index: u32, is_uniform: bool) -> Leaf {
    Leaf::new(first + u8::from(family == Family::Ip6) + 2 * u8::from(is_uniform), index)
}

/// Whether labels with this leaf are popped and the packet inside goes on by an adjacency.
pub const fn is_by_adjacency(leaf: Leaf) -> bool {
    leaf.class() & !3 == class::POP
}

/// Whether labels with this leaf are popped and the packet inside is looked up.
pub(crate) const fn is_into_table(leaf: Leaf) -> bool {
    leaf.class() & !3 == class::POP_LOOKUP
}

/// Whether labels with this leaf are popped to let out the packet inside.
pub const fn lets_out(leaf: Leaf) -> bool {
    is_by_adjacency(leaf) || is_into_table(leaf)
}

/// On by an adjacency.
pub(crate) fn by_adjacency(family: Family, object: u32, is_uniform: bool) -> Leaf {
    leaf(class::POP, family, object, is_uniform)
}

/// On by what a table says; without one, that of the interface by which the packet came.
pub fn into_table(family: Family, table: Option<TableIndex>, is_uniform: bool) -> Leaf {
    leaf(class::POP_LOOKUP, family, table.map_or(OF_INTERFACE, |table| table.0.into()), is_uniform)
}

/// How a leaf says what is inside: the number of its node among [`NODES`].
pub(super) const fn node_of(leaf: Leaf) -> usize {
    (leaf.class() & 3) as usize
}

/// Which node lets out what.
pub const NODES: [(Family, bool); 4] =
    [(Family::Ip4, false), (Family::Ip6, false), (Family::Ip4, true), (Family::Ip6, true)];

pub(crate) fn family_of(leaf: Leaf) -> Family {
    NODES[node_of(leaf)].0
}

pub(crate) fn is_uniform(leaf: Leaf) -> bool {
    NODES[node_of(leaf)].1
}

/// The table of a leaf of [`into_table`].
pub fn table_of(leaf: Leaf) -> Option<TableIndex> {
    let index = leaf.index() & 0xffff;
    (index != OF_INTERFACE).then_some(TableIndex(index as u16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::adjacency::object_of;

    #[test]
    fn a_leaf_says_what_it_was_told() {
        for (family, uniform) in NODES {
            let by = by_adjacency(family, 0xfffff, uniform);
            assert_eq!(
                (is_by_adjacency(by), object_of(by), family_of(by), is_uniform(by)),
                (true, 0xfffff, family, uniform)
            );
            for table in [None, Some(TableIndex(4095))] {
                let into = into_table(family, table, uniform);
                assert_eq!((is_into_table(into), table_of(into)), (true, table));
                assert_eq!((family_of(into), is_uniform(into)), (family, uniform));
            }
        }
    }
}
