//! What forwarding notices while control adds, replaces and deletes a million routes as fast as it can: the rate, how
//! long single rounds take, and whether any packet took a way that no route said.
//!
//! Windows alternate: forwarding alone, forwarding beside the changes, and in the worker's place beside the same
//! changes to another router's table a bare loop, and one that only reads as much memory as the table has. These two
//! show what the machine itself does to a busy core, and to one that reads much.

use super::rounds::{Percentiles, Rounds};
use super::scenario::prefix_of;
use super::{NEXT_HOP, Spread, pin};
use drivers::pg::template::{First, Template, Vary};
use drivers::pg::{self, Content, Stream};
use drivers::{Device, Link, Transmit};
use graph::{Buffers, Vector, edge, flag, time};
use router::ip::bulk::Batch;
use router::ip::control::{Path, PathAction, Source};
use router::neighbour::NeighbourKey;
use router::{Options as RouterOptions, Router};
use serde::Serialize;
use std::collections::HashMap;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tables::fib4::Key;
use tables::synthetic::{self, Random};
use wire::MacAddress;

pub const NAME: &str = "ip4-1m-bgp-churn";
const ROUTES: usize = 1_000_000;
const SEED: u64 = 20_261_122;
/// Next hops of the routes that stay and are replaced; those that come and go have one more.
const HOPS: usize = 16;
/// Destinations in a row.
const DESTINATIONS: usize = 1 << 20;
/// What the loop reads that only reads, in words of eight bytes: as much as the slots of the table, 57 MiB, and the
/// rest that forwarding touches.
const WORDS: usize = 64 << 17;
/// Packets that a window remembers, one of each vector.
const SAMPLES: usize = 1 << 20;

#[derive(Serialize)]
pub struct Outcome {
    /// Mpps, the generator included, alone and beside the changes.
    pub quiet_mpps: Spread,
    pub churn_mpps: Spread,
    /// By how much the rate fell, in per cent, window by window beside it.
    pub fall_percent: Spread,
    /// Changes of routes a second, in millions.
    pub changes_mps: Spread,
    /// Microseconds of a round, all windows together.
    pub quiet_round_us: Percentiles,
    pub churn_round_us: Percentiles,
    /// Of a bare loop beside the changes, and of one that reads 256 words of 64 MiB at random.
    pub probe_us: Percentiles,
    pub reading_probe_us: Percentiles,
    /// Packets of which it was seen where they went, and those that went where neither the old nor the new route led.
    pub sampled: u64,
    pub astray: u64,
    pub dropped: u64,
}

/// What a device has seen: of one packet a vector, the destination and the last byte of the neighbour's address.
struct Seen {
    packets: Box<[AtomicU64]>,
    next: AtomicUsize,
}

/// Takes everything, and looks at a little of it.
struct Witness(Arc<Seen>);

impl Transmit for Witness {
    fn transmit(&mut self, buffers: &mut Buffers, vector: &mut Vector) {
        vector.set_edges(edge::SENT);
        let row = vector.row(0);
        let bytes = buffers.bytes(row.packet);
        // The interface announces itself, too.
        if row.flags & flag::ORIGINATED != 0 {
            return;
        }
        let (l2, destination) = (row.l2 as usize, row.l3 as usize + 16);
        let hop = u64::from(bytes[l2 + 5]);
        let to = u32::from_be_bytes(bytes[destination..destination + 4].try_into().expect("four bytes"));
        let at = self.0.next.load(Ordering::Relaxed);
        if let Some(place) = self.0.packets.get(at) {
            place.store(u64::from(to) << 32 | hop, Ordering::Relaxed);
            self.0.next.store(at + 1, Ordering::Release);
        }
    }
}

impl Link for Witness {
    fn is_up(&self) -> bool {
        true
    }
}

/// What the worker's thread does.
const FORWARD: u8 = 0;
const PROBE: u8 = 1;
const READ: u8 = 2;
const END: u8 = 3;

struct Bed {
    router: Router,
    /// Routes that stay, and others that come and go.
    stay: Arc<[Key]>,
    come: Arc<[Key]>,
    seen: Arc<Seen>,
}

fn hop(number: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(NEXT_HOP) + number as u32)
}

impl Bed {
    fn new(workers: usize, stay: Arc<[Key]>, come: Arc<[Key]>) -> Result<Bed, router::Error> {
        let mut router = capabilities::router(RouterOptions { workers, ..RouterOptions::default() })?;
        let packets = (0..SAMPLES).map(|_| AtomicU64::new(0)).collect();
        let seen = Arc::new(Seen { packets, next: AtomicUsize::new(0) });
        let witness = Device {
            transmit: Box::new(Witness(seen.clone())),
            link: Box::new(Witness(seen.clone())),
            description: "looks at what it is given".into(),
            ..drivers::null::open(0)
        };
        let sink = router.create_interface("null0", witness)?;
        router.set_admin(sink, true)?;
        router.add_address(sink, "100.64.2.1/24".parse().expect("a prefix"))?;
        for number in 0..=HOPS {
            let mac = MacAddress([2, 0x51, 0xff, 0, 0, number as u8]);
            router.set_neighbour(NeighbourKey::new(sink, hop(number)), mac, true)?;
        }
        let mut bed = Bed { router, stay, come, seen };
        bed.replace(0)?;
        Ok(bed)
    }

    /// Gives the routes that stay other next hops.
    fn replace(&mut self, shift: usize) -> Result<(), router::Error> {
        let mut batch = Batch::default();
        let via = |number| vec![Path::new(PathAction::Via { next_hop: hop(number).into(), interface: None })];
        let lists: Vec<_> = (0..HOPS).map(|number| batch.paths(via(number))).collect();
        self.stay.iter().enumerate().for_each(|(at, key)| batch.put(prefix_of(*key), lists[(at + shift) % HOPS]));
        self.router.change_routes(Source::Api, batch).map(drop)
    }

    fn come(&mut self) -> Result<(), router::Error> {
        let mut batch = Batch::default();
        let list = batch.paths(vec![Path::new(PathAction::Via { next_hop: hop(HOPS).into(), interface: None })]);
        self.come.iter().for_each(|key| batch.put(prefix_of(*key), list));
        self.router.change_routes(Source::Api, batch).map(drop)
    }

    fn go(&mut self) -> Result<(), router::Error> {
        let mut batch = Batch::default();
        self.come.iter().for_each(|key| batch.remove(prefix_of(*key)));
        self.router.change_routes(Source::Api, batch).map(drop)
    }

    /// Adds, replaces and deletes them all; millions of changes a second.
    fn churn(&mut self) -> Result<f64, router::Error> {
        let start = Instant::now();
        self.come()?;
        self.replace(1)?;
        self.go()?;
        self.replace(0)?;
        self.router.tick();
        let changes = 2 * (self.stay.len() + self.come.len());
        Ok(changes as f64 / start.elapsed().as_secs_f64() / 1e6)
    }
}

/// Measures windows of each kind.
///
/// # Errors
/// When the router cannot be made.
pub fn measure(repeat: u16) -> Result<Outcome, router::Error> {
    let usable = |key: &Key| key.address() >> 16 != 100 << 8 | 64;
    let stay: Arc<[Key]> = synthetic::internet(ROUTES, SEED).into_iter().filter(usable).collect();
    let places: HashMap<Key, usize> = stay.iter().copied().zip(0..).collect();
    let mut others = synthetic::internet(ROUTES + ROUTES / 4, SEED + 1);
    others.retain(|key| usable(key) && !places.contains_key(key));
    others.truncate(ROUTES);
    let come: Arc<[Key]> = others.into();
    let coming: HashMap<Key, ()> = come.iter().map(|key| (*key, ())).collect();

    let mut twin = Bed::new(1, stay.clone(), come.clone())?;
    let mut bed = Bed::new(1, stay.clone(), come)?;
    let router = &mut bed.router;
    let device = router.create_interface("pg0", pg::open(0))?;
    router.set_admin(device, true)?;
    router.add_address(device, "100.64.1.1/24".parse().expect("a prefix"))?;
    let station = router.interfaces.get(device)?.mac;
    let mut random = Random::new(SEED);
    let destination = |_| {
        let key = stay[random.below(stay.len() as u32) as usize];
        key.address() | random.draw().unbounded_shr(u32::from(key.length()))
    };
    let destinations: Arc<[u32]> = (0..DESTINATIONS).map(destination).collect();
    let text = format!("IP4: 02:00:00:00:00:aa -> {station} UDP: 100.64.1.2 -> 16.0.0.1 ttl 255 UDP: 1234 -> 5678");
    let template = Template::parse(&text, Some((64, 64, Vary::Increment)), First::Ethernet).expect("a template");
    let stream = Stream::new("churn", device, Content::Template(Box::new(template.to_each_of(destinations))));
    features::packet_generator::add(router, stream, 0, String::new(), Vec::new())?;
    features::packet_generator::enable(router, None, true)?;
    let mut worker = router.graph.worker(0).expect("there is one");
    let (task, packets) = (AtomicU8::new(FORWARD), AtomicU64::new(0));
    let is_astray = |destination: u32, hop: usize| {
        let around = |length| Key::new(destination, length);
        let route = (0..=32).rev().find_map(|length| places.get(&around(length)).map(|place| (*place, length)));
        let Some((place, length)) = route else { return true };
        let covered = (length..=32).any(|length| coming.contains_key(&around(length)));
        !(hop == place % HOPS || hop == (place + 1) % HOPS || hop == HOPS && covered)
    };
    std::thread::scope(|scope| {
        let (task, packets) = (&task, &packets);
        let (ended, windows) = mpsc::channel::<(u8, Rounds)>();
        scope.spawn(move || {
            pin("churn-worker", Some(0));
            let mut doing = FORWARD;
            let mut rounds = Rounds::new();
            let words: Vec<u64> = (1..=WORDS as u64).collect();
            let mut random = Random::new(SEED);
            loop {
                let begin = time::ticks();
                match doing {
                    FORWARD => drop(worker.round()),
                    READ => drop(black_box((0..256).map(|_| words[random.below(WORDS as u32) as usize]).sum::<u64>())),
                    _ => {}
                }
                rounds.add(begin);
                let next = task.load(Ordering::Acquire);
                if next & 0x7f != doing || next & 0x80 != 0 {
                    packets.store(worker.core().ledger().received, Ordering::Relaxed);
                    let _ = ended.send((doing, std::mem::replace(&mut rounds, Rounds::new())));
                    doing = next & 0x7f;
                    task.store(doing, Ordering::Release);
                }
                if doing == END {
                    return;
                }
            }
        });
        pin("churn-control", Some(1));
        // The end of one window is the beginning of the next.
        let turn = |to: u8| {
            task.store(to | 0x80, Ordering::Release);
            let (_, rounds) = windows.recv().expect("the worker's thread runs");
            (rounds, packets.load(Ordering::Relaxed), Instant::now())
        };
        let mut kinds = [(); 4].map(|()| Rounds::new());
        let mut values: [Vec<f64>; 4] = Default::default();
        let (mut sampled, mut astray) = (0, 0);
        let mut failure = None;
        let mut window = Duration::from_secs(1);
        // The first turn warms up.
        for number in 0..=repeat {
            let (_, before, start) = turn(FORWARD);
            std::thread::sleep(window);
            let (quiet, middle, between) = turn(FORWARD);
            let changes = bed.churn();
            let (churned, after, end) = turn(PROBE);
            let probed = twin.churn();
            let (probe, ..) = turn(READ);
            let probed = probed.and_then(|_| twin.churn());
            let (reading, ..) = turn(FORWARD);
            let changes = match changes.and_then(|changes| probed.map(|_| changes)) {
                Ok(changes) => changes,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            };
            window = end - between;
            let count = bed.seen.next.load(Ordering::Acquire);
            for packet in &bed.seen.packets[..count] {
                let packet = packet.load(Ordering::Relaxed);
                sampled += 1;
                astray += u64::from(is_astray((packet >> 32) as u32, packet as u8 as usize));
            }
            bed.seen.next.store(0, Ordering::Release);
            if number == 0 {
                continue;
            }
            let rate = |packets: u64, time: Duration| packets as f64 / time.as_secs_f64() / 1e6;
            let (alone, beside) = (rate(middle - before, between - start), rate(after - middle, end - between));
            let measured = [alone, beside, (1.0 - beside / alone) * 100.0, changes];
            values.iter_mut().zip(measured).for_each(|(values, value)| values.push(value));
            for (sum, part) in kinds.iter_mut().zip([&quiet, &churned, &probe, &reading]) {
                sum.merge(part);
            }
        }
        task.store(END | 0x80, Ordering::Release);
        let [quiet_mpps, churn_mpps, fall_percent, changes_mps] = values.map(Spread::of);
        let [quiet, churned, probe, reading] = kinds.map(|rounds| rounds.percentiles());
        match failure {
            Some(error) => Err(error),
            None => Ok(Outcome {
                quiet_mpps,
                churn_mpps,
                fall_percent,
                changes_mps,
                quiet_round_us: quiet,
                churn_round_us: churned,
                probe_us: probe,
                reading_probe_us: reading,
                sampled,
                astray,
                dropped: bed.router.graph.ledger().dropped,
            }),
        }
    })
}
