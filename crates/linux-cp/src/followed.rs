//! Which tables of the router follow tables of Linux: the default one the main table, and each other one the table of its
//! number.

use crate::kernel::{self, Followed};
use crate::netlink::route::TABLE_MAIN;
use crate::state::Pairs;
use router::Router;
use router::ip::bulk::Batch;
use router::ip::route::TableIndex;
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
