//! How long packets are lost when the way to a recursive next hop dies that many prefixes share ("prefix-independent
//! convergence"; Filsfils et al., "BGP prefix independent convergence (PIC)", 2011): from the moment when control
//! learns of it.

use super::scenario::prefix_of;
use super::{NEXT_HOP, Spread};
use drivers::pg::template::{First, Template, Vary};
use drivers::pg::{self, Content, Stream};
use graph::time;
use router::Options as RouterOptions;
use router::ip::bulk::Batch;
use router::ip::control::{Path, PathAction, Source};
use router::neighbour::NeighbourKey;
use serde::Serialize;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tables::synthetic::{self, Random};
use wire::Prefix4;

pub const NAME: &str = "pic";
const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];
const SEED: u64 = 20_261_122;
/// Where all routes lead, and the two ways there.
const RECURSIVE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const STANDBY: Ipv4Addr = Ipv4Addr::new(100, 64, 3, 2);

#[derive(Serialize)]
pub struct Outcome {
    pub prefixes: usize,
    /// Microseconds without a way: packets lost over the rate of packets.
    pub outage_us: Spread,
    /// What the whole operation on control took, in microseconds.
    pub control_us: Spread,
    pub lost_packets: Spread,
}

/// Has the way die and come back, several times, for each number of prefixes.
///
/// # Errors
/// When the router cannot be made.
pub fn measure(repeat: u16) -> Result<Vec<Outcome>, router::Error> {
    SIZES.into_iter().map(|prefixes| measure_one(prefixes, repeat)).collect()
}

fn measure_one(prefixes: usize, repeat: u16) -> Result<Outcome, router::Error> {
    let mut router = capabilities::router(RouterOptions { workers: 1, ..RouterOptions::default() })?;
    let mut worker = router.graph.worker(0).expect("there is one");
    let device = router.create_interface("pg0", pg::open(0))?;
    router.set_admin(device, true)?;
    router.add_address(device, "100.64.1.1/24".parse().expect("a prefix"))?;
    let station = router.interfaces.get(device)?.mac;
    let mut ways = Vec::new();
    for (number, hop) in [NEXT_HOP, STANDBY].into_iter().enumerate() {
        let name = format!("null{number}");
        let index = router.create_interface(&name, drivers::null::open(number as u32))?;
        router.set_admin(index, true)?;
        let own = Ipv4Addr::from(u32::from(hop) - 1);
        router.add_address(index, Prefix4::new(own, 24).expect("24 is a length"))?;
        router.set_neighbour(NeighbourKey::new(index, hop), station, true)?;
        let way = PathAction::Via { next_hop: hop.into(), interface: None };
        let path = Path { preference: number as u8, ..Path::new(way) };
        router.add_route(Prefix4::new(RECURSIVE, 32).expect("32 is a length"), Source::Config, vec![path], false)?;
        ways.push(index);
    }
    let keys: Vec<_> = synthetic::twenty_fours(prefixes, SEED);
    let mut batch = Batch::default();
    let all = batch.paths(vec![Path::new(PathAction::Via { next_hop: RECURSIVE.into(), interface: None })]);
    keys.iter().for_each(|key| batch.put(prefix_of(*key), all));
    router.change_routes(Source::Api, batch)?;
    let mut random = Random::new(SEED);
    let destinations: Arc<[u32]> =
        (0..1 << 20).map(|_| keys[random.below(keys.len() as u32) as usize].address() + 1).collect();
    let text = format!("IP4: 02:00:00:00:00:aa -> {station} UDP: 100.64.1.2 -> 16.0.0.1 ttl 255 UDP: 1234 -> 5678");
    let template = Template::parse(&text, Some((64, 64, Vary::Increment)), First::Ethernet).expect("a template");
    let stream = Stream::new("pic", device, Content::Template(Box::new(template.to_each_of(destinations))));
    features::packet_generator::add(&mut router, stream, 0, String::new(), Vec::new())?;
    features::packet_generator::enable(&mut router, None, true)?;
    let stop = AtomicBool::new(false);
    let counters = router.graph.counters().clone();
    let node = router.graph.find("pg-input")?;
    let packets = || counters.nodes.raw(0, node.0 as usize, graph::worker::node_word::PACKETS);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                worker.round();
            }
        });
        let mut times: [Vec<f64>; 3] = Default::default();
        let mut result = Ok(());
        for _ in 0..repeat {
            std::thread::sleep(Duration::from_millis(100));
            let (begin, before, lost) = (time::ticks(), packets(), router.graph.ledger().dropped);
            std::thread::sleep(Duration::from_millis(100));
            let rate = (packets() - before) as f64 / ((time::ticks() - begin) as f64 / time::ticks_per_second());
            let start = Instant::now();
            result = router.set_admin(ways[0], false);
            times[1].push(start.elapsed().as_secs_f64() * 1e6);
            std::thread::sleep(Duration::from_millis(100));
            let lost = (router.graph.ledger().dropped - lost) as f64;
            times[0].push(lost / rate * 1e6);
            times[2].push(lost);
            result = result.and_then(|()| router.set_admin(ways[0], true));
            router.tick();
            if result.is_err() {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        let [outage_us, control_us, lost_packets] = times.map(Spread::of);
        result.map(|()| Outcome { prefixes, outage_us, control_us, lost_packets })
    })
}
