//! IPv4 of an interface, as operators state it.

use super::source_check::SourceCheck;
use crate::table_index::TableIndex;

/// Of one interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// The table of its addresses, and of the packets that it receives.
    pub table: TableIndex,
    /// The one that an operator stated. Others may have set another since ([`super::found`]).
    pub stated_table: TableIndex,
    /// How the sources of received packets are checked.
    pub source_check: Option<SourceCheck>,
    /// Packets from elsewhere to all hosts of its networks are sent on (RFC 2644).
    pub directed_broadcast: bool,
}
