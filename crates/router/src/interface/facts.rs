//! What the data path needs to know of interfaces: a table that control publishes whole
//! and nodes borrow for a round.

use crate::handoff::Shares;
use crate::ip::control::TableIndex;
use crate::ip::source_check::SourceCheck;
use crate::ip6::Facts6;
use crate::span::Listeners;
use crate::vlan::Demux;
use graph::{EdgeIndex, InterfaceIndex};
use rcu::Published;
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::sync::Arc;
use wire::ethernet::EtherType;
use wire::vlan::{LinkHeader, Tags};
use wire::{MacAddress, Prefix4};

/// One interface, as nodes see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
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
    pub ip6: Facts6,
    /// How the sources of IPv4 packets that it receives are checked.
    pub source_check: Option<SourceCheck>,
    /// The VLAN tags that its frames carry.
    pub tags: Tags,
    /// Who gets copies of its packets.
    pub span: Listeners,
    /// The workers among which its packets are shared out.
    pub handoff: Option<Shares>,
    /// Whose its frames are, when it has sub-interfaces.
    pub sub_interfaces: Option<SubInterfaces>,
    /// The edge of `interface-output` to this interface.
    pub output: EdgeIndex,
    /// Requests for the addresses of `set arp proxy` are answered.
    pub proxy_arp: bool,
}

impl Facts {
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
pub struct FactsTable(pub Vec<Option<Arc<Facts>>>);

impl FactsTable {
    #[inline]
    pub fn get(&self, index: InterfaceIndex) -> Option<&Facts> {
        self.0.get(index.0 as usize)?.as_deref()
    }
}

/// The table as control publishes it.
pub type SharedFacts = Arc<Published<FactsTable>>;
