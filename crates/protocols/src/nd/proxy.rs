//! Proxy Neighbor Discovery (RFC 4861 7.2.8, RFC 4389): the router answers for a host behind one interface on the
//! others, where its address would be on the link. Packets to it then come to this router, which has a route to the
//! host.

use crate::mld;
use graph::InterfaceIndex;
use router::capability::{Change, Notice};
use router::interface::Interface;
use router::ip::control::{Path, PathAction, Source, TableIndex};
use router::neighbour::NeighbourKey;
use router::{Error, Router};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use wire::{Family, Prefix};

/// The most hosts that the router answers for.
pub const MAX_PROXIED: usize = 1024;

/// Why the router cannot answer for a host as configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    #[error("{0} is no address of a host beyond its link")]
    NoHost(Ipv6Addr),
    #[error("{host} is an address of {name}, which answers for it anyway")]
    Ours { host: Ipv6Addr, name: String },
    #[error("{host} is answered for already, as a host behind {name}")]
    There { host: Ipv6Addr, name: String },
    #[error("{host} is not answered for as a host behind {name} ('show ip6 nd proxy' lists who is)")]
    NotThere { host: Ipv6Addr, name: String },
    #[error(
        "{address} is a host behind {behind} that is answered for: 'set ip6 nd proxy {address} {behind} del' first"
    )]
    Answered { address: Ipv6Addr, behind: String },
    #[error("too many hosts are answered for (at most {MAX_PROXIED})")]
    TooMany,
}

router::codes! { ProxyError {
    NoHost => "nd-proxy-no-host",
    Ours => "nd-proxy-ours",
    There => "nd-proxy-there",
    NotThere => "nd-proxy-not-there",
    Answered => "nd-proxy-answered",
    TooMany => "nd-proxy-too-many",
} }

/// The hosts that the router answers for, and the interfaces behind which they are.
#[derive(Default)]
pub(super) struct Proxied(BTreeSet<(InterfaceIndex, Ipv6Addr)>);

/// The host route of a host.
fn route(index: InterfaceIndex, host: Ipv6Addr) -> (Prefix, Path) {
    (Prefix::host(host.into()), Path::new(PathAction::Attached(index)))
}

/// Makes the router answer for a host behind an interface. It answers on those other interfaces of the same table
/// whose networks contain the host's address.
///
/// # Errors
/// When there is no such interface or it is a loopback, the address cannot be a host's, is one of ours or is
/// answered for already, or there are too many hosts; then nothing has changed.
pub fn add_proxied_host(router: &mut Router, index: InterfaceIndex, host: Ipv6Addr) -> Result<(), Error> {
    let interface = router.interfaces.get(index)?;
    let name = interface.name.clone();
    if !interface.has_neighbours() {
        return Err(Error::NoNeighbours(name));
    }
    let is_special = host.is_unicast_link_local() || host.is_multicast() || u128::from(host) >> 32 == 0;
    if is_special || host.to_ipv4_mapped().is_some() {
        return Err(ProxyError::NoHost(host).into());
    }
    let table = interface.ip6.table;
    check_proxied(router, table, host)?;
    if router.state::<Proxied>().0.len() >= MAX_PROXIED {
        return Err(ProxyError::TooMany.into());
    }
    let (prefix, path) = route(index, host);
    router.add_route_in(table, prefix, Source::Proxy, vec![path], true)?;
    router.state_mut::<Proxied>().0.insert((index, host));
    settle_proxied_host(router, table, host);
    Ok(())
}

/// Refuses a host of a table whose address is one of ours, or that the router answers for already.
fn check_proxied(router: &Router, table: TableIndex, host: Ipv6Addr) -> Result<(), ProxyError> {
    let has = |other: &&Interface| other.ip6.addresses.iter().any(|own| own.address() == host);
    if let Some(owner) = router.interfaces.iter().filter(|other| other.ip6.table == table).find(has) {
        return Err(ProxyError::Ours { host, name: owner.name.clone() });
    }
    match proxied_in(router, table, host) {
        Some(name) => Err(ProxyError::There { host, name }),
        None => Ok(()),
    }
}

/// The interface behind which a host of a table is, if the router answers for that host.
fn proxied_in(router: &Router, table: TableIndex, host: Ipv6Addr) -> Option<String> {
    let mut behind = proxied_hosts(router).filter(|(_, other)| *other == host).map(|(index, _)| index);
    let index = behind.find(|index| router.table_of(*index, Family::Ip6) == table)?;
    router.interfaces.get(index).ok().map(|interface| interface.name.clone())
}

/// Stops answering for a host.
///
/// # Errors
/// When the router does not answer for it.
pub fn remove_proxied_host(router: &mut Router, index: InterfaceIndex, host: Ipv6Addr) -> Result<(), Error> {
    let interface = router.interfaces.get(index)?;
    let (name, table) = (interface.name.clone(), interface.ip6.table);
    if !router.state::<Proxied>().0.contains(&(index, host)) {
        return Err(ProxyError::NotThere { host, name }.into());
    }
    let (prefix, path) = route(index, host);
    router.remove_route_in(table, prefix, Source::Proxy, &[path])?;
    router.state_mut::<Proxied>().0.remove(&(index, host));
    // A learned neighbour may have been reachable by that route only. A neighbour that an operator configured
    // stays.
    let key = NeighbourKey::new(index, host);
    let is_learned = router.neighbours.get(&key).is_some_and(|neighbour| !neighbour.state.is_static());
    if is_learned && !router.is_on_link(&key) {
        router.remove_neighbour(key)?;
    }
    settle_proxied_host(router, table, host);
    Ok(())
}

/// The hosts that the router answers for, with the interfaces behind which they are.
pub fn proxied_hosts(router: &Router) -> impl Iterator<Item = (InterfaceIndex, Ipv6Addr)> + '_ {
    router.state::<Proxied>().0.iter().copied()
}

/// Updates the interfaces that answer for a host, after the host was added or removed.
fn settle_proxied_host(router: &mut Router, table: TableIndex, host: Ipv6Addr) {
    let is_here = |interface: &&Interface| {
        interface.ip6.table == table && interface.ip6.addresses.iter().any(|network| network.contains(host))
    };
    let here = router.interfaces.iter().filter(is_here).map(|interface| interface.index).collect();
    settle_proxied_of(router, here);
}

/// Updates the hosts that an interface answers for to its networks. Whether they are others now.
fn settle_proxied(router: &mut Router, index: InterfaceIndex) -> bool {
    let Ok(interface) = router.interfaces.get(index) else { return false };
    let ip6 = &interface.ip6;
    let is_here = |host: &Ipv6Addr| ip6.addresses.iter().any(|network| network.contains(*host));
    let is_of_table = |of: &InterfaceIndex| router.table_of(*of, Family::Ip6) == ip6.table;
    let others = proxied_hosts(router).filter(|(of, _)| *of != index && is_of_table(of));
    let mut proxied: Vec<Ipv6Addr> = others.map(|(_, host)| host).filter(is_here).collect();
    proxied.sort();
    proxied.dedup();
    if proxied == ip6.proxied {
        return false;
    }
    if let Ok(interface) = router.interfaces.get_mut(index) {
        interface.ip6.proxied = proxied;
    }
    true
}

/// The same for all interfaces.
fn settle_all_proxied(router: &mut Router) {
    settle_proxied_of(router, router.interfaces.iter().map(|interface| interface.index).collect());
}

fn settle_proxied_of(router: &mut Router, interfaces: Vec<InterfaceIndex>) {
    let mut changed = interfaces;
    changed.retain(|index| settle_proxied(router, *index));
    if !changed.is_empty() {
        router.publish_facts();
    }
    changed.into_iter().for_each(|index| mld::listen_anew(router, index));
}

/// Refuses an address of a host that is answered for, and a table where a host behind the interface is ours or is
/// answered for already.
pub(super) fn allows(router: &Router, change: &Change) -> Result<(), Error> {
    match *change {
        Change::Address { interface, address: IpAddr::V6(address) } => {
            let table = router.table_of(interface, Family::Ip6);
            match proxied_in(router, table, address) {
                Some(behind) => Err(ProxyError::Answered { address, behind }.into()),
                None => Ok(()),
            }
        }
        Change::Table { interface, family: Family::Ip6, table } => {
            let mut hosts = proxied_hosts(router).filter(|(of, _)| *of == interface);
            Ok(hosts.try_for_each(|(_, host)| check_proxied(router, table, host))?)
        }
        _ => Ok(()),
    }
}

pub(super) fn hears(router: &mut Router, notice: &Notice) {
    match notice {
        Notice::AddressAdded { interface, address } | Notice::AddressRemoved { interface, address }
            if address.family() == Family::Ip6 =>
        {
            settle_proxied_of(router, vec![*interface]);
        }
        Notice::Table { family: Family::Ip6, .. } if proxied_hosts(router).next().is_some() => {
            settle_all_proxied(router)
        }
        // Its routes go with it.
        Notice::Leaving(gone) => {
            let behind = router.state_mut::<Proxied>().0.extract_if(.., |(of, _)| of == gone);
            if behind.count() > 0 {
                settle_all_proxied(router);
            }
        }
        _ => {}
    }
}
