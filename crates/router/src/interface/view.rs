//! What the data path needs to know of interfaces: a table that control publishes whole
//! and nodes borrow for a round.

use super::ip6::Ip6View;
use super::source_check::SourceCheck;
use crate::chunks::Chunks;
use crate::interface::sub::Demux;
use crate::table_index::TableIndex;
use crate::table_index::own_table;
use graph::Row;
use graph::{EdgeIndex, InterfaceIndex};
use rcu::Published;
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::sync::Arc;
use wire::ethernet::EtherType;
use wire::vlan::{LinkHeader, Tags};
use wire::{Family, MacAddress, Prefix4};

/// One interface, as nodes see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceView {
    pub index: InterfaceIndex,
    pub mac: MacAddress,
    /// Extra addresses whose frames it takes.
    pub stations: Vec<MacAddress>,
    pub up: bool,
    /// Its addresses with their networks, the primary one first.
    pub addresses: Vec<Prefix4>,
    /// It takes part in IPv4: packets that it receives are looked at.
    pub ip4_enabled: bool,
    /// The routing table of packets that it receives.
    pub ip4_table: TableIndex,
    /// The same and more of IPv6.
    pub ip6: Ip6View,
    /// How the sources of IPv4 packets that it receives are checked.
    pub source_check: Option<SourceCheck>,
    /// The VLAN tags that its frames carry.
    pub tags: Tags,
    /// The edge of `interface-output-arc-end` to its tx node.
    pub tx: EdgeIndex,
    /// Whose its frames are, when it has sub-interfaces.
    pub sub_interfaces: Option<SubInterfaces>,
    /// The edge of `interface-output` to this interface.
    pub output: EdgeIndex,
    /// It takes labelled packets.
    pub mpls: bool,
    /// It takes packets to all groups, not only to those of the router.
    pub all_groups: bool,
}

impl InterfaceView {
    /// The routing table of a family in which it takes part, when it is up.
    pub(super) fn takes_part(&self, family: Family) -> Option<TableIndex> {
        let takes_part = match family {
            Family::Ip4 => self.ip4_enabled,
            Family::Ip6 => self.ip6.is_enabled(),
        };
        (self.up && takes_part).then(|| self.table(family))
    }

    /// The routing table of packets of a family that it receives.
    pub fn table(&self, family: Family) -> TableIndex {
        match family {
            Family::Ip4 => self.ip4_table,
            Family::Ip6 => self.ip6.table,
        }
    }

    /// What stands before a network header that it sends to a station.
    pub fn link_header(&self, to: MacAddress, ethertype: EtherType) -> LinkHeader {
        self.tags.link_header(to, self.mac, ethertype)
    }

    /// Whether the address is one of this interface's own.
    pub fn owns(&self, address: Ipv4Addr) -> bool {
        self.addresses.iter().any(|prefix| prefix.address() == address)
    }

    /// Its own address on the network of `peer`, else its primary one.
    pub fn address_towards(&self, peer: Ipv4Addr) -> Option<Ipv4Addr> {
        let same_network = self.addresses.iter().find(|prefix| prefix.contains(peer));
        same_network.or(self.addresses.first()).map(|prefix| prefix.address())
    }

    /// Whether the address stands for all hosts of one of its networks (RFC 3021: a /31 has no such address).
    pub fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        self.addresses.iter().any(|network| network.length() < 31 && address == network.last())
    }

    /// Whether the address is of an attached network, but no host's: its first or last.
    pub fn is_no_host(&self, address: Ipv4Addr) -> bool {
        self.addresses.iter().any(|p| p.length() < 31 && (address == p.first() || address == p.last()))
    }

    /// Whether `peer` is on one of the attached networks.
    pub fn is_attached(&self, peer: Ipv4Addr) -> bool {
        self.addresses.iter().any(|prefix| prefix.contains(peer))
    }
}

/// A table that changes in place.
#[derive(Debug, Clone)]
pub struct SubInterfaces(pub Arc<Demux>);

impl Deref for SubInterfaces {
    type Target = Demux;
    fn deref(&self) -> &Demux {
        &self.0
    }
}

impl PartialEq for SubInterfaces {
    fn eq(&self, other: &SubInterfaces) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SubInterfaces {}

/// All interfaces, by index. A new table shares with the last one what has not changed.
#[derive(Debug, Clone, Default)]
pub struct ViewTable {
    view: Chunks<Arc<InterfaceView>>,
    /// By family and routing table, an interface that takes part in it.
    of_tables: [Vec<Option<InterfaceIndex>>; Family::ALL.len()],
}

impl ViewTable {
    /// Has it say other things of an interface, or nothing.
    pub(super) fn set(&mut self, index: InterfaceIndex, view: Option<Arc<InterfaceView>>) {
        self.view.set(index.0 as usize, view);
    }

    /// What it says of an interface.
    pub(super) fn shared(&self, index: InterfaceIndex) -> Option<Arc<InterfaceView>> {
        self.view.get(index.0 as usize).cloned()
    }

    /// Has it name these interfaces for the tables of a family.
    pub(super) fn set_members(&mut self, family: Family, members: impl Iterator<Item = (TableIndex, InterfaceIndex)>) {
        let tables = &mut self.of_tables[family as usize];
        tables.clear();
        for (table, index) in members {
            let at = usize::from(table.0);
            tables.resize(tables.len().max(at + 1), None);
            tables[at] = Some(index);
        }
    }

    #[inline]
    pub fn get(&self, index: InterfaceIndex) -> Option<&InterfaceView> {
        self.view.get(index.0 as usize).map(|view| &**view)
    }

    /// Those of all interfaces.
    pub fn iter(&self) -> impl Iterator<Item = &InterfaceView> {
        self.view.iter().map(|view| &**view)
    }

    /// The table of the packets of a family that an interface receives.
    #[inline]
    pub fn table_of(&self, family: Family, index: InterfaceIndex) -> TableIndex {
        self.get(index).map_or(TableIndex::DEFAULT, |view| view.table(family))
    }

    /// An interface whose packets of a family belong to a table: that one, if they do, else another; if there is
    /// none, that one.
    #[inline]
    fn in_table(&self, family: Family, table: TableIndex, index: InterfaceIndex) -> InterfaceIndex {
        if self.table_of(family, index) == table {
            return index;
        }
        self.of_tables[family as usize].get(usize::from(table.0)).copied().flatten().unwrap_or(index)
    }

    /// The interface whose addresses are this router's towards the hosts of a packet's table: the one that received
    /// it, or, for a packet that was led into another table, one of that table, if it has any.
    #[inline]
    pub fn here(&self, family: Family, row: &Row) -> InterfaceIndex {
        match own_table(row) {
            None => row.rx_interface,
            Some(table) => self.in_table(family, table, row.rx_interface),
        }
    }
}

/// The table as control publishes it.
pub type SharedViews = Arc<Published<ViewTable>>;
