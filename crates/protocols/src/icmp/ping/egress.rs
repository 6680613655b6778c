//! By which interface, and from which address, packets to a host leave: as far as control's routes say.

use super::PingError;
use crate::icmp;
use crate::ip6::Ip6View;
use graph::InterfaceIndex;
use router::Router;
use router::ip::control::{PathAction, TableIndex};
use std::net::{IpAddr, Ipv6Addr};
use wire::Family;

/// How packets to a host leave.
pub(super) struct Egress {
    pub source: Option<IpAddr>,
    pub interface: Option<InterfaceIndex>,
    /// None: they do not leave.
    pub mtu: Option<u16>,
}

pub(super) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// The way onto the link of an interface, to a host with an address of that link only.
pub(super) fn egress_onto(router: &Router, link: InterfaceIndex, destination: IpAddr) -> Result<Egress, PingError> {
    let interface = router.interfaces.get(link).map_err(|_| PingError::NoRoute(destination))?;
    let source = interface.ip6.link_local.map(IpAddr::from);
    if source.is_some_and(|source| source != destination) && !interface.is_usable() {
        return Err(PingError::NoRoute(destination));
    }
    let mtu = Some(interface.ip_mtu(Family::Ip6)).filter(|_| source != Some(destination));
    Ok(Egress { source, interface: Some(link), mtu })
}

/// By which interface packets to a host leave, as far as its route in a table says.
pub(super) fn way_to(router: &Router, table: TableIndex, destination: IpAddr) -> Result<Egress, PingError> {
    way_in(router, table, destination, router::ip::fibs::MAX_TABLES_IN_A_ROW)
}

fn way_in(router: &Router, table: TableIndex, destination: IpAddr, most: u32) -> Result<Egress, PingError> {
    let found = router.ip.longest_match(table, destination).filter(|_| most > 0);
    let (prefix, route) = found.ok_or(PingError::NoRoute(destination))?;
    let usable = |index: InterfaceIndex| router.interfaces.get(index).ok().filter(|interface| interface.is_usable());
    for paths in route.sources.values() {
        let mut found: Option<Egress> = None;
        for path in paths {
            let ways: Vec<(InterfaceIndex, IpAddr)> = match path.way {
                PathAction::Local(_) | PathAction::LocalAnywhere => {
                    return Ok(Egress { source: Some(destination), interface: None, mtu: None });
                }
                PathAction::Drop
                | PathAction::Punt
                | PathAction::Object(_)
                | PathAction::Unreachable
                | PathAction::Prohibit
                | PathAction::Broadcast(_)
                | PathAction::LookupIn(..)
                | PathAction::LookupLabel(_) => {
                    return Err(PingError::Refused(destination, prefix));
                }
                PathAction::Attached(index) => vec![(index, destination)],
                PathAction::OnLink { next_hop, interface } => vec![(interface, next_hop)],
                PathAction::Lookup(other) => return way_in(router, other, destination, most - 1),
                PathAction::Via { .. } | PathAction::ViaIn { .. } => {
                    match (router.way_of(&path.way, table), path.way.open_hop(table)) {
                        (Some(key), _) => vec![(key.interface, key.address)],
                        (None, Some(hop)) => {
                            router.ip.reached_by(hop).map(|key| (key.interface, key.address)).collect()
                        }
                        (None, None) => vec![],
                    }
                }
            };
            for (index, towards) in ways {
                let Some(interface) = usable(index) else { continue };
                // Whichever path the flow takes, it has to fit.
                let mtu = interface.ip_mtu(Family::of(destination));
                let mtu = found.as_ref().and_then(|out| out.mtu).unwrap_or(mtu).min(mtu);
                let first = found.and_then(|out| Some((out.source?, out.interface)));
                let (source, interface) = match first {
                    Some((source, interface)) => (Some(source), interface),
                    None => (source_of_table(router, table, index, towards, destination), Some(index)),
                };
                found = Some(Egress { source, interface, mtu: Some(mtu) });
            }
        }
        if let Some(out) = found {
            return Ok(out);
        }
    }
    Err(PingError::NoRoute(destination))
}

/// The address to send from to a host of a table by a next hop. Where the way there leads out of the table, it is one
/// of another interface of the table: the host has routes to no others.
fn source_of_table(
    router: &Router,
    table: TableIndex,
    index: InterfaceIndex,
    next_hop: IpAddr,
    destination: IpAddr,
) -> Option<IpAddr> {
    let family = Family::of(destination);
    let is_of_table = router.table_of(index, family) == table;
    let members = router.interfaces.iter().filter(|member| member.table(family) == table && member.is_up());
    let home = || members.map(|member| member.index).find_map(|member| source_towards(router, member, destination));
    let home = if is_of_table { None } else { home() };
    home.or_else(|| source_on_way(router, index, next_hop, destination))
}

/// The address to send from to a host by a next hop: one on the next hop's network, if there is one. A router
/// speaks IPv6 beyond the link from an address of another interface, if need be (RFC 6724 section 5), and so it
/// does where a next hop is of the other family (RFC 4798).
fn source_on_way(router: &Router, index: InterfaceIndex, next_hop: IpAddr, destination: IpAddr) -> Option<IpAddr> {
    let is_alike = Family::of(next_hop) == Family::of(destination);
    let peer = if !is_alike || is_link_local(next_hop) { destination } else { next_hop };
    let other = || match destination {
        IpAddr::V4(_) => icmp::control::router_id(router).filter(|_| !is_alike).map(IpAddr::from),
        IpAddr::V6(_) => icmp::control::router_id6(router).map(IpAddr::from),
    };
    source_towards(router, index, peer).or_else(other)
}

/// The address of an interface to send from to a host.
pub(super) fn source_towards(router: &Router, index: InterfaceIndex, peer: IpAddr) -> Option<IpAddr> {
    match peer {
        IpAddr::V4(peer) => router.interfaces.address_towards(index, peer).map(IpAddr::from),
        IpAddr::V6(peer) => {
            let interface = router.interfaces.get(index).ok()?;
            Ip6View::new(&interface.ip6).address_towards(peer).map(IpAddr::from)
        }
    }
}

/// Why an interface has no address to send from to a host.
pub(super) fn no_source(router: &Router, index: Option<InterfaceIndex>, destination: IpAddr) -> PingError {
    let interface = index.and_then(|index| router.interfaces.get(index).ok());
    let name = interface.map_or_else(|| "?".into(), |interface| interface.name.clone());
    let of_link = is_link_local(destination);
    let unused = interface.filter(|_| destination.is_ipv6()).and_then(|interface| {
        let of_scope = |address: &Ipv6Addr| address.is_unicast_link_local() == of_link;
        Ip6View::new(&interface.ip6).unused().find(|(address, _)| of_scope(address))
    });
    if let Some((address, standing)) = unused {
        return PingError::UnusedSource { name, address, standing };
    }
    let what = match destination {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) if of_link => "IPv6",
        IpAddr::V6(_) => "global IPv6",
    };
    PingError::NoSource { name, what }
}
