//! How routing tables are named.

/// A routing table, by its index. Operators name tables by identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TableIndex(pub u16);

impl TableIndex {
    /// The table that always exists, of all interfaces that are in no other table.
    pub const DEFAULT: TableIndex = TableIndex(0);
}
