//! Which tables of the router follow tables of Linux: the default one the main table, and each other one the table of
//! its number.

use crate::kernel::{self, Followed};
use crate::netlink::route::TABLE_MAIN;
use crate::state::Pairs;
use router::Router;
use router::ip::bulk::Batch;
use router::ip::route::TableIndex;
use std::collections::{BTreeMap, BTreeSet};
use wire::Family;

/// All tables that are followed. They are there.
pub fn all(router: &Router) -> Followed {
    let mut followed = kernel::main_table();
    for family in Family::ALL {
        let tables = router.ip.table_ids(family).filter(|(_, id)| *id != 0 && *id != TABLE_MAIN);
        followed.extend(tables.map(|(index, id)| ((id, family), index)));
    }
    followed
}

/// The table of the router that follows one of Linux.
pub fn by(router: &Router, table: u32, family: Family) -> Option<TableIndex> {
    router.state::<Pairs>().followed.get(&(table, family)).copied().filter(|at| router.ip.has_table(family, *at))
}

/// Batches whose tables are there. A table may have gone since they were made.
pub fn still_there(router: &Router, batches: Vec<(u32, Batch)>) -> Vec<Batch> {
    let is_there = |(table, batch): &(u32, Batch)| match *table {
        TABLE_MAIN => batch.table() == TableIndex::DEFAULT,
        table => by(router, table, batch.family()) == Some(batch.table()),
    };
    batches.into_iter().filter(is_there).map(|(_, batch)| batch).collect()
}

/// The router's number of a table of Linux.
pub fn number_of(table: u32) -> u32 {
    if table == TABLE_MAIN { 0 } else { table }
}

/// The router's numbers of the tables of all VRFs.
fn of_vrfs(pairs: &Pairs) -> BTreeSet<u32> {
    let tables = pairs.vrfs.values().flat_map(BTreeMap::values).map(|table| number_of(*table));
    tables.filter(|id| *id != 0).collect()
}

/// A table of both families for each VRF.
pub fn make_tables(router: &mut Router) {
    for id in of_vrfs(router.state::<Pairs>()) {
        let made = Family::ALL.into_iter().try_for_each(|family| router.add_found_table(family, id).map(drop));
        if let Err(error) = made {
            log::warn!("the VRF with table {id} in Linux has no table of the router: {error}");
        }
        router.state_mut::<Pairs>().vrf_tables.insert(id);
    }
}

/// Tables of VRFs that are gone go, too, when nothing uses them any more.
pub fn drop_tables(router: &mut Router) {
    let pairs = router.state::<Pairs>();
    if pairs.vrf_tables.is_empty() {
        return;
    }
    let gone: Vec<u32> = pairs.vrf_tables.difference(&of_vrfs(pairs)).copied().collect();
    for id in gone {
        let mut all_gone = true;
        for family in Family::ALL {
            if router.ip.find_table(family, id).is_none() {
                continue;
            }
            if let Err(error) = router.remove_found_table(family, id) {
                // It is tried again when routes or interfaces have changed.
                log::debug!("table {id} stays, and its VRF in Linux is gone: {error}");
                all_gone = false;
            }
        }
        if all_gone {
            router.state_mut::<Pairs>().vrf_tables.remove(&id);
        }
    }
}
