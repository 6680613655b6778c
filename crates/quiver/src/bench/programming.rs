//! What it costs to add, replace and delete routes through the router's own operations, and what memory they take.

use super::scenario::prefix_of;
use super::{NEXT_HOP, Spread};
use router::arp::NeighbourKey;
use router::ip4::bulk::Batch;
use router::ip4::control::{Path, Source, TRIM_AFTER, TableIndex, Way};
use router::{Options as RouterOptions, Router};
use serde::Serialize;
use std::net::Ipv4Addr;
use std::time::Instant;
use tables::fib4::Key;
use tables::synthetic;

pub const ALL: [&str; 2] = ["fib4-1m", "fib4-8m"];
const SEED: u64 = 20_261_122;
const NEXT_HOPS: u32 = 16;

#[derive(Serialize)]
pub struct Outcome {
    pub scenario: String,
    pub routes: usize,
    /// Microseconds a route, each over all routes.
    pub add_bulk_us: Spread,
    /// The same when all memory has to be had from the system first, as at the start.
    pub add_bulk_fresh_us: Spread,
    pub delete_bulk_us: Spread,
    pub add_single_us: Spread,
    pub replace_single_us: Spread,
    pub delete_single_us: Spread,
    /// Resident memory that the routes took, everything counted.
    pub bytes_per_route: Spread,
    /// Resident bytes that another table with 100 routes takes, of 64 that were made.
    pub bytes_per_vrf: f64,
    /// Resident bytes before the first route, and when all had been deleted.
    pub resident_before: usize,
    pub resident_after: usize,
}

/// Resident memory of this process.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

/// Has the router as it is when routes have been away for a while.
fn rest(router: &mut Router) {
    router.tick();
    router.tick_at(Instant::now() + 2 * TRIM_AFTER);
}

/// What another table takes that has 100 routes.
fn measure_tables(router: &mut Router, keys: &[Key], path: &dyn Fn(usize) -> Vec<Path>) -> Result<f64, router::Error> {
    const TABLES: usize = 64;
    let before = resident();
    for id in 1..=TABLES {
        let table = router.add_table(id as u32)?;
        for (at, key) in keys.iter().skip(id * 100).take(100).enumerate() {
            let Way::Via { next_hop, .. } = path(at)[0].way else { continue };
            let way = Way::ViaIn { next_hop, table: TableIndex::DEFAULT };
            router.add_route_in(table, prefix_of(*key), Source::Api, vec![Path::new(way)], false)?;
        }
    }
    let taken = resident().saturating_sub(before) as f64 / TABLES as f64;
    (1..=TABLES as u32).try_for_each(|id| router.remove_table(id))?;
    Ok(taken)
}

/// Adds and deletes all routes of a scenario, several times.
///
/// # Errors
/// When the router cannot be made.
pub fn measure(scenario: &str, repeat: u16) -> Result<Outcome, router::Error> {
    let keys = match scenario {
        "fib4-8m" => synthetic::twenty_fours(8_000_000, SEED),
        _ => synthetic::internet(1_000_000, SEED),
    };
    // Those of the addresses below are the router's own.
    let keys: Vec<Key> = keys.into_iter().filter(|key| key.address() >> 16 != 100 << 8 | 64).collect();
    let mut router = Router::new(RouterOptions::default())?;
    let sink = router.create_interface("null0", drivers::null::open(0))?;
    router.set_admin(sink, true)?;
    router.add_address(sink, "100.64.2.1/24".parse().expect("a prefix"))?;
    let hops: Vec<Ipv4Addr> = (0..NEXT_HOPS).map(|hop| Ipv4Addr::from(u32::from(NEXT_HOP) + hop)).collect();
    for hop in &hops {
        let mac = router.interfaces.get(sink)?.mac;
        router.set_neighbour(NeighbourKey { interface: sink, address: *hop }, mac, true)?;
    }
    let path = |at: usize| vec![Path::new(Way::Via { next_hop: hops[at % hops.len()], interface: None })];
    let mut times: [Vec<f64>; 7] = Default::default();
    let timed = |router: &mut Router, work: &mut dyn FnMut(&mut Router) -> Result<(), router::Error>| {
        let start = Instant::now();
        work(router)?;
        Ok::<f64, router::Error>(start.elapsed().as_secs_f64() * 1e6 / keys.len() as f64)
    };
    let own = router.ip4.routes().len();
    let bytes_per_vrf = measure_tables(&mut router, &keys, &path)?;
    let before = resident();
    let mut after = before;
    let bulk = |router: &mut Router| {
        // Filling the batch is part of it.
        let mut batch = Batch::default();
        let lists: Vec<_> = (0..hops.len()).map(|hop| batch.paths(path(hop))).collect();
        keys.iter().enumerate().for_each(|(at, key)| batch.put(prefix_of(*key), lists[at % lists.len()]));
        router.change_routes(Source::Api, batch).map(drop)
    };
    let none = |router: &mut Router| {
        let mut batch = Batch::default();
        keys.iter().for_each(|key| batch.remove(prefix_of(*key)));
        router.change_routes(Source::Api, batch).map(drop)
    };
    for turn in 0..repeat {
        let empty = resident();
        times[6].push(timed(&mut router, &mut |router| bulk(router))?);
        assert_eq!(router.ip4.routes().len(), own + keys.len());
        times[1].push(resident().saturating_sub(empty) as f64 / keys.len() as f64);
        times[2].push(timed(&mut router, &mut |router| none(router))?);
        assert_eq!(router.ip4.routes().len(), own);
        // Again, in the memory that is still there.
        times[0].push(timed(&mut router, &mut |router| bulk(router))?);
        none(&mut router)?;
        rest(&mut router);
        if turn == 0 {
            after = resident();
        }
        let add = |shift: usize| {
            let (keys, path) = (&keys, &path);
            move |router: &mut Router| {
                let one =
                    |(at, key): (usize, &Key)| router.add_route(prefix_of(*key), Source::Api, path(at + shift), true);
                keys.iter().enumerate().try_for_each(one)
            }
        };
        times[3].push(timed(&mut router, &mut add(0))?);
        times[4].push(timed(&mut router, &mut add(1))?);
        times[5].push(timed(&mut router, &mut |router| {
            keys.iter().try_for_each(|key| router.remove_route(prefix_of(*key), Source::Api, &[]))
        })?);
        assert_eq!(router.ip4.routes().len(), own);
        rest(&mut router);
    }
    let [add_bulk, bytes, delete_bulk, add_single, replace_single, delete_single, add_bulk_fresh] =
        times.map(Spread::of);
    Ok(Outcome {
        scenario: scenario.into(),
        routes: keys.len(),
        add_bulk_us: add_bulk,
        add_bulk_fresh_us: add_bulk_fresh,
        delete_bulk_us: delete_bulk,
        add_single_us: add_single,
        replace_single_us: replace_single,
        delete_single_us: delete_single,
        bytes_per_route: bytes,
        bytes_per_vrf,
        resident_before: before,
        resident_after: after,
    })
}
