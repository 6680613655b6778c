//! What it costs to add, replace and delete routes through the router's own operations, and what memory they take.

use super::scenario::{NETWORK6, prefix_of, prefix6_of};
use super::{NEXT_HOP, Spread};
use router::ip::bulk::Batch;
use router::ip::control::{Path, PathAction, Source, TRIM_AFTER, TableIndex};
use router::neighbour::NeighbourKey;
use router::{Options as RouterOptions, Router};
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;
use tables::fib4::Key;
use tables::synthetic;
use wire::{Family, Prefix, Prefix6};

pub const ALL: [&str; 4] = ["fib4-1m", "fib4-8m", "fib6-200k", "fib6-2m"];
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
fn measure_tables(
    router: &mut Router,
    prefixes: &[Prefix],
    path: &dyn Fn(usize) -> Vec<Path>,
) -> Result<f64, router::Error> {
    const TABLES: usize = 64;
    let family = prefixes[0].family();
    let before = resident();
    for id in 1..=TABLES {
        let table = router.add_table(family, id as u32)?;
        for (at, prefix) in prefixes.iter().skip(id * 100).take(100).enumerate() {
            let PathAction::Via { next_hop, .. } = path(at)[0].way else { continue };
            let way = PathAction::ViaIn { next_hop, table: TableIndex::DEFAULT };
            router.add_route_in(table, *prefix, Source::Api, vec![Path::new(way)], false)?;
        }
    }
    let taken = resident().saturating_sub(before) as f64 / TABLES as f64;
    (1..=TABLES as u32).try_for_each(|id| router.remove_table(family, id))?;
    Ok(taken)
}

/// The prefixes of a scenario, but those of the router's own addresses.
fn prefixes_of(scenario: &str) -> Vec<Prefix> {
    let of4 = |keys: Vec<Key>| -> Vec<Prefix> {
        let others = keys.into_iter().filter(|key| key.address() >> 16 != 100 << 8 | 64);
        others.map(|key| prefix_of(key).into()).collect()
    };
    let of6 = |count| synthetic::internet6(count, SEED).into_iter().map(|key| prefix6_of(key).into()).collect();
    match scenario {
        "fib4-8m" => of4(synthetic::twenty_fours(8_000_000, SEED)),
        "fib6-200k" => of6(200_000),
        "fib6-2m" => of6(2_000_000),
        _ => of4(synthetic::internet(1_000_000, SEED)),
    }
}

/// Adds and deletes all routes of a scenario, several times.
///
/// # Errors
/// When the router cannot be made.
pub fn measure(scenario: &str, repeat: u16) -> Result<Outcome, router::Error> {
    let prefixes = prefixes_of(scenario);
    let family = prefixes[0].family();
    let mut router = capabilities::router(RouterOptions::default())?;
    let sink = router.create_interface("null0", drivers::null::open(0))?;
    router.set_admin(sink, true)?;
    let hops: Vec<IpAddr> = match family {
        Family::Ip4 => {
            router.add_address(sink, "100.64.2.1/24".parse().expect("a prefix"))?;
            (0..NEXT_HOPS).map(|hop| Ipv4Addr::from(u32::from(NEXT_HOP) + hop).into()).collect()
        }
        Family::Ip6 => {
            router.add_address6(sink, Prefix6::new((NETWORK6 + 1).into(), 64).expect("a /64"))?;
            (0..NEXT_HOPS).map(|hop| Ipv6Addr::from(NETWORK6 + u128::from(2 + hop)).into()).collect()
        }
    };
    for hop in &hops {
        let mac = router.interfaces.get(sink)?.mac;
        router.set_neighbour(NeighbourKey::new(sink, *hop), mac, true)?;
    }
    let path = |at: usize| vec![Path::new(PathAction::Via { next_hop: hops[at % hops.len()], interface: None })];
    let mut times: [Vec<f64>; 7] = Default::default();
    let timed = |router: &mut Router, work: &mut dyn FnMut(&mut Router) -> Result<(), router::Error>| {
        let start = Instant::now();
        work(router)?;
        Ok::<f64, router::Error>(start.elapsed().as_secs_f64() * 1e6 / prefixes.len() as f64)
    };
    let routes = |router: &Router| router.ip.routes_in(family, TableIndex::DEFAULT).len();
    let own = routes(&router);
    let bytes_per_vrf = measure_tables(&mut router, &prefixes, &path)?;
    let before = resident();
    let mut after = before;
    let bulk = |router: &mut Router| {
        // Filling the batch is part of it.
        let mut batch = Batch::new(family, TableIndex::DEFAULT);
        let lists: Vec<_> = (0..hops.len()).map(|hop| batch.paths(path(hop))).collect();
        prefixes.iter().enumerate().for_each(|(at, prefix)| batch.put(*prefix, lists[at % lists.len()]));
        router.change_routes(Source::Api, batch).map(drop)
    };
    let none = |router: &mut Router| {
        let mut batch = Batch::new(family, TableIndex::DEFAULT);
        prefixes.iter().for_each(|prefix| batch.remove(*prefix));
        router.change_routes(Source::Api, batch).map(drop)
    };
    for turn in 0..repeat {
        let empty = resident();
        times[6].push(timed(&mut router, &mut |router| bulk(router))?);
        assert_eq!(routes(&router), own + prefixes.len());
        times[1].push(resident().saturating_sub(empty) as f64 / prefixes.len() as f64);
        times[2].push(timed(&mut router, &mut |router| none(router))?);
        assert_eq!(routes(&router), own);
        // Again, in the memory that is still there.
        times[0].push(timed(&mut router, &mut |router| bulk(router))?);
        none(&mut router)?;
        rest(&mut router);
        if turn == 0 {
            after = resident();
        }
        let add = |shift: usize| {
            let (prefixes, path) = (&prefixes, &path);
            move |router: &mut Router| {
                let one =
                    |(at, prefix): (usize, &Prefix)| router.add_route(*prefix, Source::Api, path(at + shift), true);
                prefixes.iter().enumerate().try_for_each(one)
            }
        };
        times[3].push(timed(&mut router, &mut add(0))?);
        times[4].push(timed(&mut router, &mut add(1))?);
        times[5].push(timed(&mut router, &mut |router| {
            prefixes.iter().try_for_each(|prefix| router.remove_route(*prefix, Source::Api, &[]))
        })?);
        assert_eq!(routes(&router), own);
        rest(&mut router);
    }
    let [add_bulk, bytes, delete_bulk, add_single, replace_single, delete_single, add_bulk_fresh] =
        times.map(Spread::of);
    Ok(Outcome {
        scenario: scenario.into(),
        routes: prefixes.len(),
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
