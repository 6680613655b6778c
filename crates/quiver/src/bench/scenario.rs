//! Which routes a scenario has, and where its packets go.

use super::NEXT_HOP;
use router::Router;
use router::ip4::bulk::Batch;
use router::ip4::control::{Path, Source, Way};
use std::net::Ipv4Addr;
use std::sync::Arc;
use tables::fib4::Key;
use tables::synthetic::{self, Random};
use wire::Prefix4;

/// All scenarios that send packets.
pub const ALL: [&str; 11] = [
    "dumb",
    "ip4-1",
    "ip4-1k",
    "ip4-100k",
    "ip4-1m",
    "ip4-1m-bgp",
    "ip4-1m-bgp-zipf",
    "ip4-8m",
    "ip4-ecmp4",
    "ip4-64nh",
    "ip4-mixed",
];

const FIRST_DESTINATION: u32 = 16 << 24;
/// Destinations of which packets take one after the other.
const DESTINATIONS: usize = 1 << 20;
const SEED: u64 = 20_261_122;

/// The networks of interfaces are so many bits apart.
const NETWORK: u32 = 12;

/// What is looked up how often.
enum Popularity {
    Even,
    /// As often as its rank says: the n-th most popular route has 1/n of the first one's packets.
    Zipf,
}

/// Routes of one scenario.
pub struct Scenario {
    keys: Vec<Key>,
    /// Next hops, to which routes lead in turn.
    pub next_hops: u32,
    /// Interfaces by which these are reached, in turn.
    pub interfaces: u32,
    /// Next hops of one in so many routes, the first among them; the rest have one.
    pub paths: u32,
    one_in: usize,
    popularity: Popularity,
}

impl Scenario {
    pub fn of(name: &str) -> Scenario {
        let plain = |keys, next_hops| Scenario {
            keys,
            next_hops,
            interfaces: 1,
            paths: 1,
            one_in: 1,
            popularity: Popularity::Even,
        };
        let million = || synthetic::internet(1_000_000, SEED);
        match name {
            "ip4-1k" => plain(side_by_side(1000), 1),
            "ip4-100k" => plain(side_by_side(100_000), 1),
            "ip4-1m" => plain(side_by_side(1_000_000), 1),
            "ip4-8m" => plain(synthetic::twenty_fours(8_000_000, SEED), 1),
            "ip4-1m-bgp" => plain(million(), 16),
            "ip4-1m-bgp-zipf" => Scenario { popularity: Popularity::Zipf, ..plain(million(), 16) },
            "ip4-64nh" => plain(side_by_side(1000), 64),
            "ip4-ecmp4" => Scenario { paths: 4, ..plain(side_by_side(1), 4) },
            "ip4-mixed" => Scenario { interfaces: 4, paths: 4, one_in: 10, ..plain(side_by_side(1000), 64) },
            _ => plain(side_by_side(1), 1),
        }
    }

    pub fn routes(&self) -> usize {
        self.keys.len()
    }

    /// The addresses of its next hops.
    pub fn hops(&self) -> impl Iterator<Item = Ipv4Addr> {
        (0..self.next_hops).map(|hop| {
            let (interface, station) = (hop % self.interfaces, hop / self.interfaces);
            Ipv4Addr::from(u32::from(NEXT_HOP) + (interface << NETWORK) + station)
        })
    }

    /// The addresses of the interfaces behind which they are.
    pub fn networks(&self) -> impl Iterator<Item = Prefix4> {
        (0..self.interfaces).map(|interface| {
            let address = u32::from(NEXT_HOP) - 1 + (interface << NETWORK);
            Prefix4::new(address.into(), 24).expect("a /24")
        })
    }

    /// Puts the routes into a router's table.
    pub fn install(&self, router: &mut Router) -> Result<(), router::Error> {
        let hops: Vec<Ipv4Addr> = self.hops().collect();
        let path = |at: usize| Path::new(Way::Via { next_hop: hops[at % hops.len()], interface: None });
        let mut batch = Batch::default();
        let lists: Vec<_> = (0..hops.len()).map(|hop| batch.paths(vec![path(hop)])).collect();
        let several: Vec<_> = match self.paths {
            1 => lists.clone(),
            paths => (0..hops.len()).map(|hop| batch.paths((hop..hop + paths as usize).map(path).collect())).collect(),
        };
        for (at, key) in self.keys.iter().enumerate() {
            let lists = if at % self.one_in == 0 { &several } else { &lists };
            let hop = (key.address() >> (32 - u32::from(key.length()))) as usize % lists.len();
            batch.put(prefix_of(*key), lists[hop]);
        }
        let outcome = router.change_routes(Source::Api, batch)?;
        assert_eq!(outcome.added, self.keys.len(), "{outcome:?}");
        Ok(())
    }

    /// Where packets go, one after the other; some address of a route.
    pub fn destinations(&self) -> Arc<[u32]> {
        let mut random = Random::new(SEED + 1);
        let count = match self.keys.len() {
            1 => 1,
            routes => DESTINATIONS.min(routes * 256),
        };
        let one = |_| {
            let at = match self.popularity {
                Popularity::Even => random.below(self.keys.len() as u32) as usize,
                Popularity::Zipf => {
                    // The inverse of the distribution function of 1/n, nearly.
                    let part = f64::from(random.draw()) / f64::from(u32::MAX);
                    ((self.keys.len() as f64).powf(part) as usize).min(self.keys.len()) - 1
                }
            };
            let key = self.keys[at];
            match self.keys.len() {
                1 => key.address() + 1,
                _ => key.address() | random.draw().unbounded_shr(u32::from(key.length())),
            }
        };
        (0..count).map(one).collect()
    }
}

/// So many /24s side by side.
fn side_by_side(count: u32) -> Vec<Key> {
    (0..count).map(|route| Key::new(FIRST_DESTINATION + (route << 8), 24)).collect()
}

pub fn prefix_of(key: Key) -> Prefix4 {
    Prefix4::new(key.address().into(), key.length()).expect("a key has a prefix's length")
}
