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
use crate::netlink::route::TABLE_MAIN;
use crate::state::{Pair, Pairs};
use crate::{followed, fpm};
use graph::InterfaceIndex;
use router::{Devices, Error, Router};
use std::collections::{BTreeMap, BTreeSet};
use wire::Family;

/// Numbers of tables that Linux uses by itself (linux/rtnetlink.h `RT_TABLE_*`).
const OF_LINUX: std::ops::RangeInclusive<u32> = 253..=255;

/// The router's number of a table of Linux.
fn number_of(table: u32) -> u32 {
    if table == TABLE_MAIN { 0 } else { table }
}

/// A namespace has these VRFs.
pub fn found(router: &mut Router, namespace: &Namespace, vrfs: BTreeMap<u32, u32>) {
    fpm::set_vrfs(router, namespace, &vrfs);
    let pairs = router.state_mut::<Pairs>();
    pairs.made_vrfs.retain(|(of, link)| of != namespace || vrfs.contains_key(link));
    match vrfs.is_empty() {
        true => drop(pairs.vrfs.remove(namespace)),
        false => drop(pairs.vrfs.insert(namespace.clone(), vrfs)),
    }
    let phys: Vec<InterfaceIndex> =
        pairs.iter().filter(|pair| pair.namespace == *namespace).map(|pair| pair.phy).collect();
    make_tables(router);
    for phy in phys {
        if let Err(error) = settle(router, phy) {
            log::warn!("interface {phy} does not follow its VRF in Linux: {error}");
        }
        router.breathe();
    }
    drop_tables(router);
}

/// An interface belongs to the table of the VRF that its side in Linux is a port of.
///
/// # Errors
/// When there is no room for the table, or another interface there has an address of this one.
pub fn settle(router: &mut Router, phy: InterfaceIndex) -> Result<(), Error> {
    let pairs = router.state::<Pairs>();
    let Some(pair) = pairs.of(phy) else { return Ok(()) };
    let into = match table_of(pairs, pair) {
        Some(table) => Some(router.find_table(Family::Ip4, number_of(table))?),
        None => None,
    };
    router.follow_table(phy, into)
}

/// The table of the VRF that a side in Linux is a port of.
fn table_of(pairs: &Pairs, pair: &Pair) -> Option<u32> {
    pairs.vrfs.get(&pair.namespace)?.get(&pair.seen.master?).copied()
}

/// A table for each VRF.
fn make_tables(router: &mut Router) {
    let pairs = router.state::<Pairs>();
    let wanted: BTreeSet<u32> = pairs.vrfs.values().flat_map(BTreeMap::values).map(|table| number_of(*table)).collect();
    for id in wanted.into_iter().filter(|id| *id != 0) {
        for family in Family::ALL {
            if let Err(error) = router.add_found_table(family, id) {
                log::warn!("the VRF with table {id} in Linux has no table of the router: {error}");
            }
        }
        router.state_mut::<Pairs>().vrf_tables.insert(id);
    }
}

/// Tables of VRFs that are gone go, too, when nothing uses them any more.
pub fn drop_tables(router: &mut Router) {
    let pairs = router.state::<Pairs>();
    let has = |id: &u32| pairs.vrfs.values().flat_map(BTreeMap::values).any(|table| number_of(*table) == *id);
    let gone: Vec<u32> = pairs.vrf_tables.iter().copied().filter(|id| !has(id)).collect();
    for id in gone {
        let mut all_gone = true;
        for family in Family::ALL {
            if router.ip.find_table(family, id).is_none() {
                continue;
            }
            if let Err(error) = router.remove_found_table(family, id) {
                // It is tried again after each batch of routes.
                log::debug!("table {id} stays, and its VRF in Linux is gone: {error}");
                all_gone = false;
            }
        }
        if all_gone {
            router.state_mut::<Pairs>().vrf_tables.remove(&id);
        }
    }
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

/// A side in Linux is not there any more, or a port of nothing. A VRF that the router made goes with
/// the last port that it has, or should have.
pub fn left(router: &mut Router, namespace: &Namespace, master: Option<u32>) {
    let Some(master) = master else { return };
    let pairs = router.state_mut::<Pairs>();
    let table = pairs.vrfs.get(namespace).and_then(|vrfs| vrfs.get(&master)).copied();
    let is_port = |pair: &Pair| {
        pair.namespace == *namespace && (pair.seen.master == Some(master) || Some(pair.stated_table) == table)
    };
    if !pairs.made_vrfs.contains(&(namespace.clone(), master)) || pairs.iter().any(is_port) {
        return;
    }
    pairs.made_vrfs.remove(&(namespace.clone(), master));
    let deleted = pairs.netlink(namespace.as_deref()).map(|netlink| netlink.delete_link(master));
    if let Ok(Err(error)) = deleted {
        log::warn!("a VRF without ports stays in Linux: {error}");
    }
}

/// An operator of the router stated which table an interface belongs to: its side in Linux is a port of the VRF with
/// that table. One is made if Linux has none.
pub fn sync(router: &mut Router, phy: InterfaceIndex) {
    let Ok(interface) = router.interfaces.get(phy) else { return };
    let stated = Family::ALL.map(|family| router.ip.id_of(interface.stated_table(family)));
    let wanted = stated.into_iter().find(|id| *id != 0).unwrap_or(0);
    let pairs = router.state_mut::<Pairs>();
    let Some(pair) = pairs.by_phy.get_mut(&phy).filter(|pair| pair.stated_table != wanted) else { return };
    pair.stated_table = wanted;
    let Some(Pair { host, namespace, link: Some(link), seen, .. }) = pairs.of(phy).cloned() else { return };
    if router.devices() == Devices::DryRun {
        return;
    }
    if OF_LINUX.contains(&wanted) {
        return log::warn!("{host} in Linux has no VRF: Linux uses the table {wanted} by itself");
    }
    let done = match wanted {
        0 => port_of(router, phy, &namespace, link, None),
        wanted => {
            vrf_with(router, &namespace, wanted).and_then(|master| port_of(router, phy, &namespace, link, Some(master)))
        }
    };
    match done {
        Ok(()) => left(router, &namespace, seen.master),
        Err(error) => log::warn!("Linux refuses {host} a VRF with table {wanted}: {error}"),
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
    if pairs.of(phy).is_some_and(|pair| pair.seen.master == master) {
        return Ok(());
    }
    let netlink = pairs.netlink(namespace.as_deref())?;
    netlink.set_master(link, master).map_err(|error| error.to_string())?;
    if let Some(pair) = pairs.by_phy.get_mut(&phy) {
        pair.seen.master = master;
    }
    settle(router, phy).map_err(|error| error.to_string())
}

/// The device of the VRF with a table, which may be a new one.
fn vrf_with(router: &mut Router, namespace: &Namespace, table: u32) -> Result<u32, String> {
    let pairs = router.state_mut::<Pairs>();
    let known = pairs.vrfs.get(namespace).and_then(|vrfs| vrfs.iter().find(|(_, of)| **of == table));
    if let Some((link, _)) = known {
        return Ok(*link);
    }
    let made = pairs.netlink(namespace.as_deref())?.create_vrf(&format!("vrf{table}"), table);
    let link = made.map_err(|error| error.to_string())?;
    pairs.made_vrfs.insert((namespace.clone(), link));
    let mut vrfs = pairs.vrfs.get(namespace).cloned().unwrap_or_default();
    vrfs.insert(link, table);
    found(router, namespace, vrfs);
    Ok(link)
}
