//! How routing tables are named: by operators, and in the column of a packet.

use graph::{Lazy, Row};
use wire::Family;

/// A routing table, by its index. Operators name tables by identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TableIndex(pub u16);

impl TableIndex {
    /// The table that always exists, of all interfaces that are in no other table.
    pub const DEFAULT: TableIndex = TableIndex(0);
}

/// The table of a packet that is not looked up in the one of its receive interface: one that a label led there.
#[inline]
pub fn own_table(row: &Row) -> Option<TableIndex> {
    named(row.lazy(Lazy::Table))
}

/// What stands in a packet's `table` column for a table.
pub fn mark_of(table: TableIndex) -> u32 {
    u32::from(table.0) + 1
}

#[inline]
pub(crate) fn named(mark: u32) -> Option<TableIndex> {
    mark.checked_sub(1).map(|table| TableIndex(table as u16))
}

/// The word for a family in commands.
pub(crate) fn word(family: Family) -> &'static str {
    match family {
        Family::Ip4 => "ip",
        Family::Ip6 => "ip6",
    }
}

/// The command that removes a table, to which other statements refer.
pub fn removal(family: Family, id: u32) -> String {
    format!("{} table del {id}", word(family))
}

/// The command that moves an interface back into the default table.
pub fn table_reset(family: Family, name: &str) -> String {
    format!("set interface {} table {name} 0", word(family))
}
