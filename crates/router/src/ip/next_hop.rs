//! Next hops: the interface by which each is reached, and which next hops are refused when an operator configures them
//! ([decision 005](../../../../docs/decisions/005-next-hops.md)).

use super::route::{Hop, Path, PathAction, TableIndex};
use crate::interface::Interface;
use crate::neighbour_key::NeighbourKey;
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::net::IpAddr;
use wire::{Family, Prefix};

/// Why a next hop is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NextHopError {
    #[error("next hop {hop} is no host's address (it is {what}): name that of a neighbouring router")]
    NoHost { hop: IpAddr, what: &'static str },
    #[error(
        "next hop {hop} is this router's own address, on {name}: name the neighbour's ('via local' takes packets in)"
    )]
    Own { hop: IpAddr, name: String },
    #[error("next hop {hop} is the {what} address of {network} on {name}, which no host has")]
    Edge { hop: IpAddr, what: &'static str, network: Prefix, name: String },
    #[error(
        "next hop {hop} is on no attached network ('show interface address' lists them): add an address of its network \
         first; 'via {hop} INTERFACE onlink' if it is on that wire all the same; 'via {hop} offlink' to have the route \
         wait for the network"
    )]
    OffLink { hop: IpAddr },
    #[error(
        "next hop {hop} is on no network of {name}{}: 'via {hop} {name} onlink' if it is on that wire all the same; \
         'via {hop} {name} offlink' to have the route wait for the network",
        elsewhere.as_ref().map_or(String::new(), |other| format!(" but on one of {other}"))
    )]
    OffLinkOf { hop: IpAddr, name: String, elsewhere: Option<String> },
    #[error("next hop {hop}: 'onlink' says by which interface, as in 'via {hop} e0 onlink'")]
    OnWhichLink { hop: IpAddr },
    #[error("next hop {hop} is of another family than the prefix {prefix}")]
    OtherFamily { hop: IpAddr, prefix: Prefix },
    #[error("next hop {hop} is link-local, of one link only: name its interface, as in 'via {hop} e0'")]
    LinkLocal { hop: IpAddr },
}

crate::codes! { NextHopError {
    NoHost => "next-hop-no-host",
    Own => "next-hop-own",
    Edge => "next-hop-edge",
    OffLink => "next-hop-off-link",
    OffLinkOf => "next-hop-off-link-of",
    OnWhichLink => "next-hop-on-which-link",
    OtherFamily => "next-hop-other-family",
    LinkLocal => "next-hop-link-local",
} }

/// What is wrong with an address that cannot belong to a host.
fn not_a_host(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => match address.octets()[0] {
            0 => Some("of this network, 0.0.0.0/8"),
            127 => Some("a loopback address"),
            224..=239 => Some("a group's"),
            240.. => Some(if address.is_broadcast() { "the broadcast address" } else { "reserved, 240.0.0.0/4" }),
            _ => None,
        },
        IpAddr::V6(address) if address.is_unspecified() => Some("the unspecified address"),
        IpAddr::V6(address) if address.is_loopback() => Some("the loopback address"),
        IpAddr::V6(address) if address.is_multicast() => Some("a group's"),
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => Some("IPv4-mapped, ::ffff:0:0/96"),
        IpAddr::V6(_) => None,
    }
}

pub(super) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

impl Router {
    /// Refuses a path whose next hop cannot work in the router's present state. For paths that operators configure.
    /// With `may_be_off_link`, the next hop only has to be a host's address: a configuration must load even if it was
    /// saved while an address was missing.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_next_hop_of(&self, table: TableIndex, path: &Path, may_be_off_link: bool) -> Result<(), Error> {
        match path.way {
            PathAction::Via { next_hop, .. } | PathAction::ViaIn { next_hop, .. } if may_be_off_link => {
                check_host(next_hop, path.way.interface())?;
            }
            PathAction::Via { next_hop, interface } => self.check_next_hop((next_hop, table), interface)?,
            PathAction::ViaIn { next_hop, table } => self.check_next_hop((next_hop, table), None)?,
            PathAction::OnLink { next_hop, interface } => check_host(next_hop, Some(interface))?,
            _ => {}
        }
        Ok(())
    }

    fn check_next_hop(&self, hop_there: Hop, wanted: Option<InterfaceIndex>) -> Result<(), NextHopError> {
        let hop_there = self.by_interface(hop_there, wanted);
        let hop = hop_there.0;
        check_host(hop, wanted)?;
        self.check_against_addresses(hop_there, wanted)?;
        if self.network_of(hop_there, wanted, |_| true).is_some()
            || self.attached_by_route(hop_there, wanted, |_| true).is_some()
            || wanted.is_none() && self.is_routed(hop_there)
            || wanted.is_some_and(|interface| self.is_known(hop, interface))
        {
            return Ok(());
        }
        let Some(name) = wanted.and_then(|index| self.name_of(index)) else {
            return Err(NextHopError::OffLink { hop });
        };
        let elsewhere = self.network_of(hop_there, None, |_| true).and_then(|(index, _)| self.name_of(index));
        Err(NextHopError::OffLinkOf { hop, name, elsewhere })
    }

    /// A next hop with an interface is looked up in that interface's table.
    fn by_interface(&self, (hop, table): Hop, wanted: Option<InterfaceIndex>) -> Hop {
        (hop, wanted.map_or(table, |index| self.table_of(index, Family::of(hop))))
    }

    /// Refuses our own addresses, and the first and last address of an attached network: no neighbour has these. A
    /// link-local address may be ours on one link and a neighbour's on another (RFC 4007 section 6).
    pub(super) fn check_against_addresses(
        &self,
        (hop, table): Hop,
        wanted: Option<InterfaceIndex>,
    ) -> Result<(), NextHopError> {
        let family = Family::of(hop);
        let others = if is_link_local(hop) { Vec::new() } else { self.interfaces_around(hop, table) };
        let all = others.into_iter().chain(wanted.and_then(|index| self.interfaces.get(index).ok()));
        for interface in all.filter(|interface| interface.table(family) == table) {
            for network in interface.networks(family) {
                let name = || interface.name.clone();
                if network.address() == hop {
                    return Err(NextHopError::Own { hop, name: name() });
                }
                let edges = [(network.first(), "first"), (network.last(), "broadcast")];
                let has_edges = matches!(network, Prefix::V4(network) if network.length() < 31);
                let edge = edges.into_iter().find(|(edge, _)| has_edges && *edge == hop);
                if let Some((_, what)) = edge {
                    return Err(NextHopError::Edge { hop, what, network: network.network(), name: name() });
                }
            }
        }
        Ok(())
    }

    /// The interface and the configured address whose network makes a next hop acceptable. Without such a network a
    /// next hop is only accepted with `offlink`.
    pub(super) fn stated_network_of(
        &self,
        hop: Hop,
        wanted: Option<InterfaceIndex>,
    ) -> Option<(InterfaceIndex, Prefix)> {
        let (hop, table) = self.by_interface(hop, wanted);
        let is_host = not_a_host(hop).is_none() && self.check_against_addresses((hop, table), wanted).is_ok();
        let family = Family::of(hop);
        let interfaces = self.attached_to(hop, table, wanted).into_iter();
        let networks = interfaces.flat_map(|i| i.stated_networks(family).map(|prefix| (i.index, prefix)));
        let around = networks.filter(|(_, prefix)| is_host && prefix.contains(hop));
        around.max_by_key(|(_, prefix)| prefix.length())
    }

    /// The interfaces of a table that may have a network that contains an address: the wanted one, or all.
    fn attached_to(&self, hop: IpAddr, table: TableIndex, wanted: Option<InterfaceIndex>) -> Vec<&Interface> {
        let mut all: Vec<&Interface> = match wanted {
            Some(index) => self.interfaces.get(index).into_iter().collect(),
            // Every link has this network.
            None if is_link_local(hop) => self.interfaces.iter().collect(),
            None => self.interfaces_around(hop, table),
        };
        all.retain(|interface| interface.table(Family::of(hop)) == table);
        all
    }

    /// The interfaces that may have a network that contains an address.
    fn interfaces_around(&self, hop: IpAddr, table: TableIndex) -> Vec<&Interface> {
        let book = self.interfaces.book.borrow();
        book.may_be_around(table, hop).filter_map(|index| self.interfaces.get(index).ok()).collect()
    }

    /// The longest attached network that contains an address, with its interface.
    fn network_of(
        &self,
        (hop, table): Hop,
        wanted: Option<InterfaceIndex>,
        may: impl Fn(InterfaceIndex) -> bool,
    ) -> Option<(InterfaceIndex, Prefix)> {
        let family = Family::of(hop);
        let interfaces = self.attached_to(hop, table, wanted).into_iter().filter(|interface| may(interface.index));
        let networks = interfaces.flat_map(|i| i.networks(family).map(|prefix| (i.index, prefix)));
        networks.filter(|(_, prefix)| prefix.contains(hop)).max_by_key(|(_, prefix)| prefix.length())
    }

    /// The interface on whose network a next hop is, whether the interface is usable or not.
    pub(super) fn attached_interface(&self, hop: Hop) -> Option<&Interface> {
        self.network_of(hop, None, |_| true).and_then(|(index, _)| self.interfaces.get(index).ok())
    }

    /// The interface onto which the longest route to an address leads.
    fn attached_by_route(
        &self,
        hop: Hop,
        wanted: Option<InterfaceIndex>,
        may: impl Fn(InterfaceIndex) -> bool,
    ) -> Option<InterfaceIndex> {
        let eligible = |path: &Path| match path.way {
            PathAction::Attached(index) if wanted.is_none_or(|wanted| wanted == index) && may(index) => Some(index),
            _ => None,
        };
        let lists = self.ip.lists_around(hop);
        lists.into_iter().find_map(|list| self.ip.lists.get(list).key.paths.iter().find_map(eligible))
    }

    /// Whether a neighbour's Ethernet address is known, which proves that the neighbour is on the link.
    fn is_known(&self, address: IpAddr, interface: InterfaceIndex) -> bool {
        self.neighbours.mac_of(&NeighbourKey { interface, address }).is_some()
    }

    fn name_of(&self, index: InterfaceIndex) -> Option<String> {
        self.interfaces.get(index).ok().map(|interface| interface.name.clone())
    }

    /// Whether packets can leave by an interface.
    pub fn is_usable(&self, index: InterfaceIndex) -> bool {
        self.interfaces.get(index).is_ok_and(|interface| interface.is_usable())
    }

    /// The interface by which a next hop is reached at present: the one on whose network it is, or onto which a route
    /// to it leads.
    fn way_to_hop(&self, hop: Hop, wanted: Option<InterfaceIndex>) -> Option<InterfaceIndex> {
        let hop = self.by_interface(hop, wanted);
        // Our own addresses and broadcast addresses lead to no neighbour.
        if self.check_against_addresses(hop, wanted).is_err() {
            return None;
        }
        let usable = |index| self.is_usable(index);
        let known = wanted.filter(|index| usable(*index) && self.is_known(hop.0, *index));
        known
            .or_else(|| self.network_of(hop, wanted, usable).map(|(index, _)| index))
            .or_else(|| self.attached_by_route(hop, wanted, usable))
    }

    /// The neighbour to which a path by a next hop leads, for a route in a table.
    pub fn way_of(&self, way: &PathAction, table: TableIndex) -> Option<NeighbourKey> {
        let wanted = way.interface();
        let hop = way.hop(table)?;
        self.way_to_hop(hop, wanted).map(|interface| NeighbourKey { interface, address: hop.0 })
    }

    /// The same for the end of a tunnel: a longer route decides before a shorter one onto an interface, which may be
    /// that of the tunnel.
    pub(super) fn way_of_end(&self, way: &PathAction, table: TableIndex) -> Option<NeighbourKey> {
        let neighbour = self.way_of(way, table)?;
        let is_onto = |path: &Path| match path.way {
            PathAction::Attached(interface) | PathAction::OnLink { interface, .. } => interface == neighbour.interface,
            _ => false,
        };
        let longest = self.route_to_hop(way.hop(table)?);
        longest.is_none_or(|(_, list)| self.ip.lists.get(list).key.paths.iter().any(is_onto)).then_some(neighbour)
    }

    /// Whether a host is on the link of an interface, according to addresses and routes.
    pub fn is_on_link(&self, key: &NeighbourKey) -> bool {
        // Without an address the router cannot send a request.
        let asks = self.interfaces.has_address(key.interface, key.family());
        let hop = (key.address, self.table_of(key.interface, key.family()));
        asks && self.is_usable(key.interface)
            && (self.network_of(hop, Some(key.interface), |_| true).is_some()
                || self.ip.is_insisted(key)
                || self.attached_by_route(hop, Some(key.interface), |_| true).is_some())
    }
}

fn check_host(hop: IpAddr, wanted: Option<InterfaceIndex>) -> Result<(), NextHopError> {
    match not_a_host(hop) {
        Some(what) => Err(NextHopError::NoHost { hop, what }),
        None if wanted.is_none() && is_link_local(hop) => Err(NextHopError::LinkLocal { hop }),
        None => Ok(()),
    }
}
