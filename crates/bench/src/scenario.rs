//! Which routes a scenario has, and where its packets go.

use super::{NEXT_HOP, midchain};
use drivers::pg::template::Destinations;
use protocols::mpls::control::LabelBatch;
use protocols::mpls::key::LabelKey;
use protocols::mpls::labels::Stated;
use router::Router;
use router::ip::bulk::Batch;
use router::ip::control::{Path, PathAction, Source, TableIndex};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use tables::fib4::Key;
use tables::fib6::Key as Key6;
use tables::synthetic::{self, Random};
use wire::mpls::StackEntry;
use wire::{Family, Prefix, Prefix4, Prefix6};

/// All scenarios that send packets.
pub const ALL: [&str; 22] = [
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
    midchain::NAME,
    "ip6-1",
    "ip6-16",
    "ip6-200k-bgp",
    "ip6-200k-48",
    "ip6-2m",
    "mpls-swap",
    "mpls-100k",
    "mpls-php",
    "mpls-pop-ip4",
    "mpls-push",
];

const FIRST_DESTINATION: u32 = 16 << 24;
/// Destinations of which packets take one after the other.
const DESTINATIONS: usize = 1 << 20;
const SEED: u64 = 20_261_122;

/// The networks of interfaces are so many bits apart.
const NETWORK: u32 = 12;

/// That of the first interface, and the others from it on.
pub const NETWORK6: u128 = 0xfd00_0002 << 96;

/// What is looked up how often.
enum Popularity {
    Even,
    /// As often as its rank says: the n-th most popular route has 1/n of the first one's packets.
    Zipf,
}

/// Prefixes of either family, or labels.
enum Keys {
    V4(Vec<Key>),
    V6(Vec<Key6>),
    Labels { count: u32, labelled: Labelled },
}

/// What is done with labels of packets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Labelled {
    /// Each is changed for another of its own.
    Swap,
    /// It is taken off, and what is inside sent to a next hop.
    Pop,
    /// It is taken off, and what is inside looked up.
    Lookup,
    /// A route puts one on.
    Push,
}

/// The first local label.
const FIRST_LABEL: u32 = 16;
/// What is put in the place of the first.
const FIRST_OUT_LABEL: u32 = 500_016;

/// Routes of one scenario.
pub struct Scenario {
    keys: Keys,
    /// Next hops, to which routes lead in turn.
    pub next_hops: u32,
    /// Interfaces by which these are reached, in turn.
    pub interfaces: u32,
    /// Next hops of one in so many routes, the first among them; the rest have one.
    pub paths: u32,
    one_in: usize,
    popularity: Popularity,
    /// Packets get a header in front.
    is_tunnelled: bool,
}

impl Scenario {
    pub fn of(name: &str) -> Scenario {
        let of = |keys, next_hops| Scenario {
            keys,
            next_hops,
            interfaces: 1,
            paths: 1,
            one_in: 1,
            popularity: Popularity::Even,
            is_tunnelled: false,
        };
        let plain = |keys, next_hops| of(Keys::V4(keys), next_hops);
        let plain6 = |keys, next_hops| of(Keys::V6(keys), next_hops);
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
            midchain::NAME => Scenario { is_tunnelled: true, ..plain(side_by_side(1), 1) },
            "ip6-1" => plain6(vec![Key6::new(0x2001_0db8_0016 << 80, 48)], 1),
            "ip6-16" => plain6((0..16).map(|route| Key6::new((0x2001_0db8_0016 + 2 * route) << 80, 48)).collect(), 1),
            "ip6-200k-bgp" => plain6(synthetic::internet6(200_000, SEED), 16),
            "ip6-200k-48" => plain6(synthetic::forty_eights(200_000, SEED), 16),
            "ip6-2m" => plain6(synthetic::internet6(2_000_000, SEED), 16),
            "mpls-swap" => of(Keys::Labels { count: 1, labelled: Labelled::Swap }, 1),
            "mpls-100k" => of(Keys::Labels { count: 100_000, labelled: Labelled::Swap }, 16),
            "mpls-php" => of(Keys::Labels { count: 1, labelled: Labelled::Pop }, 1),
            "mpls-pop-ip4" => of(Keys::Labels { count: 1, labelled: Labelled::Lookup }, 1),
            "mpls-push" => of(Keys::Labels { count: 1, labelled: Labelled::Push }, 1),
            _ => plain(side_by_side(1), 1),
        }
    }

    pub fn routes(&self) -> usize {
        match &self.keys {
            Keys::V4(keys) => keys.len(),
            Keys::V6(keys) => keys.len(),
            Keys::Labels { count, .. } => *count as usize,
        }
    }

    /// Whether its packets come with a label.
    pub fn is_labelled(&self) -> bool {
        matches!(self.keys, Keys::Labels { labelled, .. } if labelled != Labelled::Push)
    }

    pub fn family(&self) -> Family {
        match self.keys {
            Keys::V4(_) | Keys::Labels { .. } => Family::Ip4,
            Keys::V6(_) => Family::Ip6,
        }
    }

    /// The addresses of its next hops.
    pub fn hops(&self) -> impl Iterator<Item = IpAddr> {
        (0..self.next_hops).map(|hop| {
            let (interface, station) = (hop % self.interfaces, hop / self.interfaces);
            match self.family() {
                Family::Ip4 => Ipv4Addr::from(u32::from(NEXT_HOP) + (interface << NETWORK) + station).into(),
                Family::Ip6 => {
                    Ipv6Addr::from(NETWORK6 + (u128::from(interface) << 64) + u128::from(2 + station)).into()
                }
            }
        })
    }

    /// The addresses of the interfaces behind which they are.
    pub fn networks(&self) -> impl Iterator<Item = Prefix> {
        (0..self.interfaces).map(|interface| match self.family() {
            Family::Ip4 => {
                let address = u32::from(NEXT_HOP) - 1 + (interface << NETWORK);
                Prefix4::new(address.into(), 24).expect("a /24").into()
            }
            Family::Ip6 => {
                let address = NETWORK6 + (u128::from(interface) << 64) + 1;
                Prefix6::new(address.into(), 64).expect("a /64").into()
            }
        })
    }

    /// Puts the routes into a router's table.
    pub fn install(&self, router: &mut Router) -> Result<(), router::Error> {
        let hops: Vec<IpAddr> = self.hops().collect();
        if let Keys::Labels { count, labelled } = self.keys {
            return install_labels(router, &hops, count, labelled);
        }
        if let (Keys::V4(keys), true) = (&self.keys, self.is_tunnelled) {
            return midchain::install(router, prefix_of(keys[0]).into(), hops[0]);
        }
        let path = |at: usize| Path::new(PathAction::Via { next_hop: hops[at % hops.len()], interface: None });
        let mut batch = Batch::new(self.family(), TableIndex::DEFAULT);
        let lists: Vec<_> = (0..hops.len()).map(|hop| batch.paths(vec![path(hop)])).collect();
        let several: Vec<_> = match self.paths {
            1 => lists.clone(),
            paths => (0..hops.len()).map(|hop| batch.paths((hop..hop + paths as usize).map(path).collect())).collect(),
        };
        let mut put = |at: usize, prefix: Prefix, number: u128| {
            let lists = if at.is_multiple_of(self.one_in) { &several } else { &lists };
            batch.put(prefix, lists[number as usize % lists.len()]);
        };
        match &self.keys {
            Keys::V4(keys) => keys.iter().enumerate().for_each(|(at, key)| {
                put(at, prefix_of(*key).into(), (key.address() >> (32 - u32::from(key.length()))).into());
            }),
            Keys::V6(keys) => keys.iter().enumerate().for_each(|(at, key)| {
                put(at, prefix6_of(*key).into(), key.address() >> (128 - u32::from(key.length())));
            }),
            Keys::Labels { .. } => unreachable!("installed above"),
        }
        let outcome = router.change_routes(Source::Api, batch)?;
        assert_eq!(outcome.added, self.routes(), "{outcome:?}");
        Ok(())
    }

    /// Where packets go, one after the other; some address of a route.
    pub fn destinations(&self) -> Destinations {
        let mut random = Random::new(SEED + 1);
        let routes = self.routes();
        let count = if routes == 1 { 1 } else { DESTINATIONS.min(routes * 256) };
        let pick = |random: &mut Random| match self.popularity {
            Popularity::Even => random.below(routes as u32) as usize,
            Popularity::Zipf => {
                // The inverse of the distribution function of 1/n, nearly.
                let part = f64::from(random.draw()) / f64::from(u32::MAX);
                ((routes as f64).powf(part) as usize).min(routes) - 1
            }
        };
        match &self.keys {
            Keys::V4(keys) => {
                let one = |_| {
                    let key = keys[pick(&mut random)];
                    match routes {
                        1 => key.address() + 1,
                        _ => key.address() | random.draw().unbounded_shr(u32::from(key.length())),
                    }
                };
                (0..count).map(one).collect::<Arc<[u32]>>().into()
            }
            Keys::V6(keys) => {
                let one = |_| {
                    let key = keys[pick(&mut random)];
                    let host = (0..4).fold(0, |host, _| host << 32 | u128::from(random.draw()));
                    match routes {
                        1 => key.address() + 1,
                        _ => key.address() | host.unbounded_shr(u32::from(key.length())),
                    }
                };
                (0..count).map(one).collect::<Arc<[u128]>>().into()
            }
            Keys::Labels { count: labels, .. } => {
                let one = |_| StackEntry::new(FIRST_LABEL + random.below(*labels), 0, true, 255).0;
                Destinations::Labels((0..count).map(one).collect())
            }
        }
    }
}

/// Labels with what is done with them, and a route for what is inside.
fn install_labels(router: &mut Router, hops: &[IpAddr], count: u32, labelled: Labelled) -> Result<(), router::Error> {
    let table = router.add_label_table(0)?;
    let received = router.interfaces.iter().map(|interface| interface.index).collect::<Vec<_>>();
    received.into_iter().try_for_each(|index| router.set_mpls(index, true))?;
    let to = |label: u32| PathAction::Via { next_hop: hops[label as usize % hops.len()], interface: None };
    let with = |label: u32, way| {
        let labels = Stated { labels: vec![label], ..Stated::default() };
        Path { labels: labels.shared(), ..Path::new(way) }
    };
    let mut batch = LabelBatch::default();
    for number in 0..count {
        let path = match labelled {
            Labelled::Swap => with(FIRST_OUT_LABEL + number, to(number)),
            Labelled::Pop => Path::new(to(number)),
            Labelled::Lookup | Labelled::Push => Path::new(PathAction::LookupIn(Family::Ip4, TableIndex::DEFAULT)),
        };
        let paths = batch.paths(vec![path]);
        batch.put(LabelKey::new(FIRST_LABEL + number, true), paths);
    }
    router.change_labels(table, Source::Api, batch)?;
    let prefix = prefix_of(side_by_side(1)[0]);
    let route = if labelled == Labelled::Push { with(FIRST_OUT_LABEL, to(0)) } else { Path::new(to(0)) };
    router.add_route(prefix, Source::Api, vec![route], true)
}

/// So many /24s side by side.
fn side_by_side(count: u32) -> Vec<Key> {
    (0..count).map(|route| Key::new(FIRST_DESTINATION + (route << 8), 24)).collect()
}

pub fn prefix6_of(key: Key6) -> Prefix6 {
    Prefix6::new(key.address().into(), key.length()).expect("a key has a prefix's length")
}

pub fn prefix_of(key: Key) -> Prefix4 {
    Prefix4::new(key.address().into(), key.length()).expect("a key has a prefix's length")
}
