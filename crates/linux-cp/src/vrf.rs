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
use crate::netlink::Netlink;
use crate::state::{Pair, Pairs};
use crate::{followed, fpm};
use graph::InterfaceIndex;
use router::{Devices, Error, Router};
use std::collections::BTreeMap;
use std::io;
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
    let vrfs = pairs.vrfs.entry(pair.namespace.clone()).or_default();
    vrfs.insert(master, table);
    let vrfs = vrfs.clone();
    fpm::set_vrfs(router, &pair.namespace, &vrfs);
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
    // Nobody follows them: thousands may be made one by one.
    if router.state::<Pairs>().reader.is_none() {
        return;
    }
    let followed = followed::all(router);
    fpm::follow(router, &followed);
    let pairs = router.state_mut::<Pairs>();
    pairs.followed.clone_from(&followed);
    if let Some(reader) = &pairs.reader {
        reader.order(Order::Tables(followed));
    }
}

/// VRFs that the router made go with the last port that they have, or should have.
pub fn sweep(router: &mut Router, namespace: &Namespace) {
    let pairs = router.state::<Pairs>();
    let made: Vec<u32> = pairs.made_vrfs.iter().filter(|(of, _)| of == namespace).map(|(_, link)| *link).collect();
    for link in made {
        let pairs = router.state::<Pairs>();
        let Some(table) = pairs.vrfs.get(namespace).and_then(|vrfs| vrfs.get(&link)).copied() else {
            router.state_mut::<Pairs>().made_vrfs.remove(&(namespace.clone(), link));
            continue;
        };
        let is_port = |pair: &Pair| pair.seen.master == Some(link) || wanted(router, pair.phy) == Some(table);
        if pairs.iter().any(|pair| pair.namespace == *namespace && is_port(pair)) {
            continue;
        }
        let pairs = router.state_mut::<Pairs>();
        let asked = pairs.netlink(namespace.as_deref());
        let gone = asked.and_then(|netlink| delete(netlink, link, table).map_err(|error| error.to_string()));
        match gone {
            Ok(true) => {
                pairs.made_vrfs.remove(&(namespace.clone(), link));
                let vrfs = pairs.vrfs.get(namespace).cloned().unwrap_or_default();
                found(router, namespace, vrfs.into_iter().filter(|(known, _)| *known != link).collect());
            }
            Ok(false) => {}
            Err(error) => log::warn!("a VRF without ports stays in Linux: {error}"),
        }
    }
}

/// Deletes a VRF that the router made. Whether it is gone.
fn delete(netlink: &mut Netlink, link: u32, table: u32) -> io::Result<bool> {
    // The number may be that of another link by now.
    if netlink.vrfs()?.get(&link) != Some(&(table, name_of(table))) {
        return Ok(true);
    }
    // Somebody else in Linux may use it.
    if !netlink.ports_of(link)?.is_empty() {
        return Ok(false);
    }
    netlink.delete_link(link).map(|()| true)
}

/// How the router calls a VRF that it makes.
fn name_of(table: u32) -> String {
    format!("vrf{table}")
}

/// The number of the table that operators stated for an interface; none: the default one.
fn wanted(router: &Router, phy: InterfaceIndex) -> Option<u32> {
    let interface = router.interfaces.get(phy).ok()?;
    let stated = Family::ALL.map(|family| router.ip.id_of(interface.stated_table(family)));
    stated.into_iter().find(|id| *id != 0)
}

/// A side in Linux that is a port of nothing becomes one of the VRF with the table that operators stated, if any.
pub fn sync_if_free(router: &mut Router, phy: InterfaceIndex) {
    let is_free = router.state::<Pairs>().of(phy).is_some_and(|pair| pair.seen.master.is_none());
    if is_free && wanted(router, phy).is_some() {
        sync(router, phy);
    }
}

/// An operator of the router stated which table an interface belongs to: its side in Linux is a port of the VRF with
/// that table. One is made if Linux has none.
pub fn sync(router: &mut Router, phy: InterfaceIndex) {
    let wanted = wanted(router, phy);
    let pairs = router.state::<Pairs>();
    let Some(pair) = pairs.of(phy).filter(|_| pairs.is_synchronous()).cloned() else { return };
    let Some(link) = pair.link.filter(|_| router.devices() != Devices::DryRun) else { return };
    let is = table_of(router, &pair);
    if wanted == is {
        return;
    }
    let Pair { host, namespace, seen, .. } = pair;
    if seen.master.is_some() && is.is_none() {
        return log::warn!("{host} in Linux is a port of something that is no VRF, and stays so");
    }
    if let Some(table) = wanted.filter(|table| OF_LINUX.contains(table)) {
        return log::warn!("{host} in Linux has no VRF: Linux uses the table {table} by itself");
    }
    let master = wanted.map(|table| vrf_with(router, &namespace, table)).transpose();
    if let Err(error) = master.and_then(|master| port_of(router, phy, &namespace, link, master)) {
        log::warn!("Linux refuses {host} another VRF: {error}");
    }
    sweep(router, &namespace);
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
        let host = pair.host.clone();
        let netlink = pairs.netlink(namespace.as_deref())?;
        for address in lost {
            if let Err(error) = netlink.set_address(link, address, true) {
                log::warn!("Linux does not give {host} the address {address} again: {error}");
            }
        }
    }
    settle_all(router, vec![phy]);
    Ok(())
}

/// The device of the VRF with a table, which may be a new one.
fn vrf_with(router: &mut Router, namespace: &Namespace, table: u32) -> Result<u32, String> {
    let pairs = router.state_mut::<Pairs>();
    let netlink = pairs.netlink(namespace.as_deref())?;
    let named = netlink.vrfs().map_err(|error| error.to_string())?;
    let known = named.iter().find(|(_, (of, _))| *of == table);
    let mut vrfs: BTreeMap<u32, u32> = named.iter().map(|(link, (table, _))| (*link, *table)).collect();
    let (link, is_ours) = match known {
        // One with that name a router before this one made.
        Some((link, (_, name))) => (*link, *name == name_of(table)),
        None => {
            let link = netlink.create_vrf(&name_of(table), table).map_err(|error| error.to_string())?;
            vrfs.insert(link, table);
            (link, true)
        }
    };
    if is_ours {
        pairs.made_vrfs.insert((namespace.clone(), link));
    }
    found(router, namespace, vrfs);
    Ok(link)
}
