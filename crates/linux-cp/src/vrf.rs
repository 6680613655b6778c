//! VRFs of Linux: devices with a routing table each, and the links that are their ports.
//!
//! An interface whose side in Linux is a port of a VRF belongs to the router's table of the same number, in both
//! families. Such a table is there while the VRF is; it is no configuration until somebody states something about it.
//! Other tables that the router has are followed, too.
//!
//! ```text
//!  Linux: red (table 10) ◀─ xe0, xe1           router: table 10 of IPv4 and IPv6 ◀─ e0, e1
//!  routes of table 10    ───────────────────▶  routes of table 10
//! ```

use crate::follow::{Namespace, Order};
use crate::followed::{drop_tables, make_tables, number_of};
use crate::state::{Pair, Pairs};
use crate::{followed, fpm};
use graph::InterfaceIndex;
use router::{Devices, Error, Router};
use std::collections::BTreeMap;
use wire::{Family, Prefix};

/// Numbers of tables that Linux uses by itself (linux/rtnetlink.h `RT_TABLE_*`).
const OF_LINUX: std::ops::RangeInclusive<u32> = 253..=255;

/// A namespace has these VRFs.
pub fn found(router: &mut Router, namespace: &Namespace, vrfs: BTreeMap<u32, u32>) {
    let pairs = router.state_mut::<Pairs>();
    let here: Vec<(InterfaceIndex, Option<u32>)> =
        pairs.iter().filter(|pair| pair.namespace == *namespace).map(|pair| (pair.phy, pair.seen.master)).collect();
    // Of a namespace that is followed no longer.
    let vrfs = if here.is_empty() { BTreeMap::new() } else { vrfs };
    let before = match vrfs.is_empty() {
        true => pairs.vrfs.remove(namespace),
        false => pairs.vrfs.insert(namespace.clone(), vrfs.clone()),
    };
    let before = before.unwrap_or_default();
    if before == vrfs {
        return;
    }
    fpm::set_vrfs(router, namespace, &vrfs);
    make_tables(router);
    let is_other = |master: &Option<u32>| master.is_some_and(|master| before.get(&master) != vrfs.get(&master));
    settle_all(router, here.into_iter().filter(|(_, master)| is_other(master)).map(|(phy, _)| phy).collect());
    drop_tables(router);
}

/// Interfaces belong to the tables of the VRFs that their sides in Linux are ports of. One may have to leave a table
/// before another can enter it.
pub fn settle_all(router: &mut Router, phys: Vec<InterfaceIndex>) {
    let mut left = phys;
    loop {
        let (mut refused, before) = (Vec::new(), left.len());
        for phy in left {
            if let Err(error) = settle(router, phy) {
                refused.push((phy, error));
            }
            router.breathe();
        }
        if refused.is_empty() || refused.len() == before {
            for (phy, error) in refused {
                let name = router.interfaces.get(phy).map_or_else(|_| phy.to_string(), |it| it.name.clone());
                log::warn!("{name} does not follow its VRF in Linux: {error}");
                router.state_mut::<Pairs>().refused.insert(phy);
            }
            return;
        }
        left = refused.into_iter().map(|(phy, _)| phy).collect();
    }
}

/// An interface belongs to the table of the VRF that its side in Linux is a port of.
///
/// # Errors
/// When there is no such table, or another interface there has an address of this one.
fn settle(router: &mut Router, phy: InterfaceIndex) -> Result<(), Error> {
    let Some(pair) = router.state::<Pairs>().of(phy).cloned() else { return Ok(()) };
    let into = match table_of(router, &pair) {
        Some(table) => Some(router.find_table(Family::Ip4, number_of(table))?),
        None => None,
    };
    router.follow_table(phy, into)
}

/// The table of the VRF that a side in Linux is a port of. One that was made just now, Linux is asked about.
fn table_of(router: &mut Router, pair: &Pair) -> Option<u32> {
    let master = pair.seen.master?;
    let pairs = router.state_mut::<Pairs>();
    let known = pairs.vrfs.get(&pair.namespace).and_then(|vrfs| vrfs.get(&master)).copied();
    if known.is_some() {
        return known;
    }
    let table = pairs.netlink(pair.namespace.as_deref()).ok()?.vrf_of(master).ok()??;
    pairs.vrfs.entry(pair.namespace.clone()).or_default().insert(master, table);
    make_tables(router);
    Some(table)
}

/// Whether an interface is in the table that its side in Linux says.
pub fn is_settled(router: &Router, pair: &Pair) -> bool {
    let pairs = router.state::<Pairs>();
    let table = pair.seen.master.and_then(|master| pairs.vrfs.get(&pair.namespace)?.get(&master));
    let Ok(interface) = router.interfaces.get(pair.phy) else { return true };
    Family::ALL.into_iter().all(|family| match table {
        Some(table) => router.ip.id_of(interface.table(family)) == number_of(*table),
        None => interface.table(family) == interface.stated_table(family),
    })
}

/// The router has other tables than before: those are followed. A new one is empty.
pub fn tables_changed(router: &mut Router) {
    let followed = followed::all(router);
    fpm::follow(router, &followed);
    let pairs = router.state_mut::<Pairs>();
    pairs.followed.clone_from(&followed);
    if let Some(reader) = &pairs.reader {
        reader.order(Order::Tables(followed));
    }
}

/// A side in Linux is not there any more, or a port of something else. A VRF that the router made goes with the last
/// port that it has, or should have.
pub fn left(router: &mut Router, namespace: &Namespace, master: Option<u32>) {
    let Some(master) = master.filter(|at| router.state::<Pairs>().made_vrfs.contains(&(namespace.clone(), *at))) else {
        return;
    };
    let table = router.state::<Pairs>().vrfs.get(namespace).and_then(|vrfs| vrfs.get(&master)).copied();
    let should_be = |pair: &Pair| wanted(router, pair.phy).is_some_and(|wanted| Some(wanted) == table);
    let is_port = |pair: &Pair| pair.namespace == *namespace && (pair.seen.master == Some(master) || should_be(pair));
    if router.state::<Pairs>().iter().any(is_port) {
        return;
    }
    let pairs = router.state_mut::<Pairs>();
    let deleted = pairs.netlink(namespace.as_deref()).map(|netlink| {
        // Somebody else in Linux may use it.
        if netlink.ports_of(master)?.is_empty() { netlink.delete_link(master) } else { Ok(()) }
    });
    if let Ok(Err(error)) = deleted {
        log::warn!("a VRF without ports stays in Linux: {error}");
    }
    pairs.made_vrfs.remove(&(namespace.clone(), master));
    let vrfs = pairs.vrfs.get(namespace).map(|vrfs| vrfs.iter().filter(|(link, _)| **link != master));
    let vrfs = vrfs.into_iter().flatten().map(|(link, table)| (*link, *table)).collect();
    found(router, namespace, vrfs);
}

/// The number of the table that operators stated for an interface; none: the default one.
fn wanted(router: &Router, phy: InterfaceIndex) -> Option<u32> {
    let interface = router.interfaces.get(phy).ok()?;
    let stated = Family::ALL.map(|family| router.ip.id_of(interface.stated_table(family)));
    stated.into_iter().find(|id| *id != 0)
}

/// An operator of the router stated which table an interface belongs to: its side in Linux is a port of the VRF with
/// that table. One is made if Linux has none.
pub fn sync(router: &mut Router, phy: InterfaceIndex) {
    let wanted = wanted(router, phy);
    let pairs = router.state::<Pairs>();
    let Some(pair) = pairs.of(phy).filter(|_| pairs.is_synchronous()).cloned() else { return };
    let Some(link) = pair.link.filter(|_| router.devices() != Devices::DryRun) else { return };
    // Something else in Linux may have it as a port.
    let is = table_of(router, &pair);
    if wanted == is || wanted.is_none() && is.is_none() {
        return;
    }
    let Pair { host, namespace, seen, .. } = pair;
    if let Some(table) = wanted.filter(|table| OF_LINUX.contains(table)) {
        return log::warn!("{host} in Linux has no VRF: Linux uses the table {table} by itself");
    }
    let master = wanted.map(|table| vrf_with(router, &namespace, table)).transpose();
    match master.and_then(|master| port_of(router, phy, &namespace, link, master)) {
        Ok(()) => left(router, &namespace, seen.master),
        Err(error) => log::warn!("Linux refuses {host} another VRF: {error}"),
    }
}

fn port_of(
    router: &mut Router,
    phy: InterfaceIndex,
    namespace: &Namespace,
    link: u32,
    master: Option<u32>,
) -> Result<(), String> {
    let pairs = router.state_mut::<Pairs>();
    let netlink = pairs.netlink(namespace.as_deref())?;
    netlink.set_master(link, master).map_err(|error| error.to_string())?;
    if let Some(pair) = pairs.by_phy.get_mut(&phy) {
        pair.seen.master = master;
        // Linux has taken them from the link.
        let lost: Vec<Prefix> = pair.seen.addresses.iter().copied().filter(|it| it.family() == Family::Ip6).collect();
        let netlink = pairs.netlink(namespace.as_deref())?;
        for address in lost {
            netlink.set_address(link, address, true).map_err(|error| error.to_string())?;
        }
    }
    settle(router, phy).map_err(|error| error.to_string())
}

/// The device of the VRF with a table, which may be a new one.
fn vrf_with(router: &mut Router, namespace: &Namespace, table: u32) -> Result<u32, String> {
    let pairs = router.state_mut::<Pairs>();
    let netlink = pairs.netlink(namespace.as_deref())?;
    let mut vrfs = netlink.vrfs().map_err(|error| error.to_string())?;
    let known = vrfs.iter().find(|(_, of)| **of == table).map(|(link, _)| *link);
    let link = match known {
        Some(link) => link,
        None => {
            let link = netlink.create_vrf(&format!("vrf{table}"), table).map_err(|error| error.to_string())?;
            pairs.made_vrfs.insert((namespace.clone(), link));
            vrfs.insert(link, table);
            link
        }
    };
    found(router, namespace, vrfs);
    Ok(link)
}
