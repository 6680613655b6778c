//! Why packets to an address take no route, or not the one that an operator expects: what is stated for it and
//! withdrawn at present. Only prefixes around the address are looked at, a few dozen at most, however many routes
//! there are.

use super::control::leaf_of;
use super::entry::Entry;
use super::path_list::ListId;
use super::route::{Path, PathAction, Source, TableIndex};
use crate::Router;
use crate::interface::Interface;
use crate::ip::class;
use crate::neighbour_key::NeighbourKey;
use graph::InterfaceIndex;
use std::net::IpAddr;
use tables::Leaf;
use wire::{Family, Prefix};

/// Most lines of one answer.
const MOST: usize = 8;

impl Interface {
    /// Why packets cannot leave by it; none when they can.
    pub(crate) fn why_unusable(&self) -> Option<&'static str> {
        match (self.admin_up, self.is_up(), self.is_usable()) {
            (_, _, true) => None,
            (false, ..) => Some("admin down"),
            (true, false, _) => Some("its parent is down"),
            (true, true, false) => Some("link down"),
        }
    }
}

/// The stated routes of a table around an address that are longer than the one that packets take, and why each is
/// withdrawn.
pub(super) fn withdrawn(router: &Router, table: TableIndex, address: IpAddr) -> Vec<String> {
    let ip = &router.ip;
    let mut reasons = Vec::new();
    let Some(fib) = ip.find_fib(Family::of(address), table) else { return reasons };
    fib.longest(address, |prefix, value| {
        if leaf_of(&ip.lists, &ip.several, value) != Leaf::MISS {
            return Some(());
        }
        for share in ip.several.shares(Entry(value)) {
            reasons.extend(why_list(router, prefix, share.source, share.list));
        }
        (reasons.len() >= MOST).then_some(())
    });
    reasons.truncate(MOST);
    reasons
}

/// Neighbours of the route that packets to an address take which do not answer.
pub(super) fn unresolved(router: &Router, table: TableIndex, prefix: Prefix, address: IpAddr) -> Vec<String> {
    let mut found: Vec<NeighbourKey> = Vec::new();
    if let Some(share) = router.ip.shares(table, prefix).find(|share| router.ip.lists.leaf(share.list) != Leaf::MISS) {
        for (leaf, _) in &router.ip.lists.get(share.list).members {
            match (leaf.class(), router.ip.neighbour_of(*leaf)) {
                (class::ADJACENCY, Some(key)) => found.push(key),
                // A host of an attached network.
                (class::GLEAN, Some(key)) => found.push(NeighbourKey { address, ..key }),
                _ => {}
            }
        }
    }
    let said = |key: NeighbourKey| {
        let name = &router.interfaces.get(key.interface).ok()?.name;
        let why = router.neighbours.get(&key)?.state.why_unresolved()?;
        Some(format!("next hop {} on {name} unresolved: {why}", key.address))
    };
    let mut said: Vec<String> = found.into_iter().filter_map(said).collect();
    said.truncate(MOST);
    said
}

/// Other tables of the family in which packets to an address would take a route.
pub(super) fn elsewhere(router: &Router, but: TableIndex, address: IpAddr) -> Option<String> {
    let tables = router.ip.table_ids(Family::of(address)).filter(|(index, _)| *index != but);
    let has = tables.filter(|(index, _)| router.ip.longest_match(*index, address).is_some());
    let ids: Vec<String> = has.take(MOST).map(|(_, id)| id.to_string()).collect();
    match &ids[..] {
        [] => None,
        [one] => Some(format!("only in table {one}")),
        several => Some(format!("only in tables {}", several.join(", "))),
    }
}

fn why_list(router: &Router, prefix: Prefix, source: Source, list: ListId) -> Vec<String> {
    let key = &router.ip.lists.get(list).key;
    let whose = match source {
        Source::Interface => "connected",
        _ => "route",
    };
    let why = |path: &Path| format!("{whose} {prefix}{}", why_path(router, key.table, &path.way));
    key.paths.iter().take(MOST).map(why).collect()
}

/// Why a way does not work, to be put behind a prefix.
fn why_path(router: &Router, table: TableIndex, way: &PathAction) -> String {
    let on = |index: InterfaceIndex| match router.interfaces.get(index) {
        Ok(interface) => {
            let why = interface.why_unusable().unwrap_or("not used");
            format!(" on {} is withdrawn: {why}", interface.name)
        }
        Err(_) => " is withdrawn: its interface is gone".into(),
    };
    let Some((hop, _)) = way.hop(table) else {
        return way.interface().map_or_else(|| " is withdrawn".into(), on);
    };
    if let Some(there) = way.interface().and_then(|index| router.interfaces.get(index).ok())
        && let Some(why) = there.why_unusable()
    {
        return format!(" via {hop} on {} is withdrawn: {why}", there.name);
    }
    if let Some((through, _)) = way.open_hop(table).and_then(|hop| router.ip.through(hop)) {
        return format!(" is withdrawn: next hop {hop} unresolved: its route {through} leads nowhere");
    }
    match way.hop(table).and_then(|hop| router.attached_interface(hop)) {
        Some(interface) => match interface.why_unusable() {
            Some(why) => format!(" via {hop} on {} is withdrawn: {why}", interface.name),
            None => format!(" is withdrawn: next hop {hop} unresolved: it is no neighbour on {}", interface.name),
        },
        None => format!(" is withdrawn: next hop {hop} unresolved: it is on no attached network"),
    }
}
