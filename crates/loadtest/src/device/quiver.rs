//! This program's own router as the device under test: on a core of its own, connected to the load tester by two
//! memifs.
//!
//! It has the networks and routes of the usual profiles: `docs/guide/load-tester.md` lists them.

use super::fault_injection::FaultInjection;
use command::CommandSet;
use devices::memif::MemifConfig;
use drivers::memif::{self, Role};
use graph::schedule;
use router::ip::bulk::Batch;
use router::ip::control::{Path, PathAction, Source, TableIndex};
use router::neighbour::NeighbourKey;
use router::{Options as RouterOptions, Router};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use tables::fib4::Key;
use tables::synthetic;
use wire::{Family, Prefix4};

/// The seed of route tables: the same each time.
const SEED: u64 = 1;
/// Most routes that it can get beside its own.
pub const MOST_ROUTES: usize = 8_000_000;
/// How many /24s there are from 1.0.0.0 to 223.255.255.0.
const ALL_TWENTY_FOURS: usize = (224 - 1) << 16;

/// Its interfaces and routes: even ports send from 16.0.0.0/8 to 48.0.0.0/8, odd ports back.
pub const CONFIGURATION: &str = "\
set interface state e0 up
set interface state e1 up
set interface ip address e0 100.64.1.1/30
set interface ip address e1 100.64.2.1/30
set interface ip address e0 2001:2:0:1::1/64
set interface ip address e1 2001:2:0:2::1/64
ip route add 16.0.0.0/8 via 100.64.1.2
ip route add 48.0.0.0/8 via 100.64.2.2
ip route add 2001:2:0:16::/64 via 2001:2:0:1::2
ip route add 2001:2:0:48::/64 via 2001:2:0:2::2
mpls table add 0
set interface mpls e0 enable
set interface mpls e1 enable
mpls local-label add 16 eos via 100.64.2.2 e1
mpls local-label add 17 eos via 100.64.1.2 e0
";

/// The router, running.
pub struct QuiverDevice {
    pub router: Router,
    pub commands: CommandSet<Router>,
    workers: Vec<JoinHandle<()>>,
    /// How the load tester's ports are to be opened, as [`crate::port::PortSpec`]s.
    pub ports: [String; 2],
}

/// So many prefixes, `most` of them in the Internet's proportions and the rest /24s. The networks behind port 0 and the
/// router's own are left out.
fn keys(count: usize, most: usize) -> impl Iterator<Item = Key> {
    let is_free = |key: &Key| !matches!(key.address() >> 24, 16 | 100);
    let mut keys = synthetic::internet(count.min(most), SEED);
    keys.retain(is_free);
    let known: HashSet<Key> = keys.iter().copied().collect();
    // Enough of them, whichever are left out.
    let others = synthetic::twenty_fours((2 * count + (4 << 16)).min(ALL_TWENTY_FOURS), SEED).into_iter();
    let missing = count.saturating_sub(keys.len());
    keys.into_iter().chain(others.filter(move |key| is_free(key) && !known.contains(key)).take(missing))
}

impl QuiverDevice {
    /// Starts a router with its workers on these cores. `queues`: as many as workers, unless given. `plant`: a fault to
    /// inject.
    ///
    /// # Errors
    /// When the router cannot be made.
    pub fn start(cores: &[Option<u32>], queues: Option<u16>, plant: FaultInjection) -> Result<QuiverDevice, String> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let started = STARTED.fetch_add(1, Ordering::Relaxed);
        let text = |error: router::Error| format!("the router under test: {error}");
        let workers = cores.len().max(1);
        let queues = queues.unwrap_or(workers as u16);
        let mut router = capabilities::router(RouterOptions { workers, ..RouterOptions::default() }).map_err(text)?;
        let mut ports = [String::new(), String::new()];
        for (number, port) in ports.iter_mut().enumerate() {
            let socket = format!("@quiver-loadtest-{}-{started}-{number}", std::process::id());
            let name = format!("e{number}");
            let options = memif::Options {
                name: name.clone(),
                rx_queues: queues,
                tx_queues: queues,
                ..memif::Options::new(Role::Master, 0, number as u32 + 1, &socket)
            };
            let device = router.open(&name, &MemifConfig(options));
            let device = device.map_err(|error| format!("the router under test: {name}: {error}"))?;
            let index = router.create_interface(&name, plant.into(device)).map_err(text)?;
            router.set_receive_mode(index, None, drivers::input::Mode::Polling).map_err(text)?;
            let net = number + 1;
            *port = format!(
                "memif:{socket},queues={queues},ip=100.64.{net}.2/30,ip=2001:2:0:{net}::2/64,gw=100.64.{net}.1"
            );
        }
        let commands = capabilities::commands();
        for line in CONFIGURATION.lines() {
            commands.execute(&mut router, line).map_err(|error| format!("the router under test: {line}: {error}"))?;
        }
        let mut device = QuiverDevice { router, commands, workers: Vec::new(), ports };
        for number in 0..workers {
            let worker = device.router.graph.worker(number).map_err(|error| error.to_string())?;
            let core = cores.get(number).copied().flatten();
            let run = move || {
                pin("the router under test", core);
                worker.run();
            };
            let thread = std::thread::Builder::new().name(format!("dut_{number}"));
            device.workers.push(thread.spawn(run).map_err(|error| error.to_string())?);
        }
        Ok(device)
    }

    /// Adds `count` prefixes in the Internet's proportions, [`MOST_ROUTES`] at most, and a default route. All lead to
    /// port 1. Beyond four million, the proportions cannot be kept: the rest are /24s.
    ///
    /// # Errors
    /// When the router has no room for them.
    pub fn add_routes(&mut self, count: usize) -> Result<(), String> {
        let text = |error: router::Error| format!("routes of the router under test: {error}");
        let next_hop = IpAddr::from([100, 64, 2, 2]);
        let mut batch = Batch::new(Family::Ip4, TableIndex::DEFAULT);
        let paths = batch.paths(vec![Path::new(PathAction::Via { next_hop, interface: None })]);
        for key in keys(count, synthetic::MOST_INTERNET) {
            let prefix = Prefix4::new(key.address().into(), key.length()).expect("a key has a prefix's length");
            batch.put(prefix, paths);
        }
        batch.put(Prefix4::new([0, 0, 0, 0].into(), 0).expect("the default route"), paths);
        self.router.change_routes(Source::Api, batch).map(drop).map_err(text)
    }

    /// Whether its links are up and its neighbours are resolved. It resolves those that it does not know.
    pub fn is_ready(&mut self) -> bool {
        self.router.check_links();
        let (mut known, mut down) = (true, false);
        for (number, name) in ["e0", "e1"].into_iter().enumerate() {
            let index = self.router.interfaces.find(name).expect("it was made with both");
            down |= !self.router.interfaces.get(index).is_ok_and(|interface| self.router.interfaces.link_up(interface));
            let net = number as u16 + 1;
            for hop in [IpAddr::from([100, 64, net as u8, 2]), IpAddr::from([0x2001, 2, 0, net, 0, 0, 0, 2])] {
                let key = NeighbourKey::new(index, hop);
                if self.router.neighbours.mac_of(&key).is_none() {
                    known = false;
                    if !down {
                        self.router.resolve_neighbour(key);
                    }
                }
            }
        }
        known && !down
    }

    /// How it is run: its workers, its queues and their receive mode.
    pub fn mode(&self) -> String {
        let queues = || self.router.interfaces.iter().flat_map(|interface| &interface.receive_queues);
        let mut modes: Vec<&str> = queues().map(|queue| queue.mode.name()).collect();
        modes.sort_unstable();
        modes.dedup();
        let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (workers, count) = (self.router.graph.workers(), queues().count());
        format!(
            "{}, {}, receive mode {}",
            plural(workers, "worker"),
            plural(count, "receive queue"),
            modes.join(" and ")
        )
    }

    /// Does the router's control work that is due.
    pub fn tick(&mut self) {
        self.router.handle_events();
        self.router.tick();
    }
}

/// Keeps the calling thread on a core, if one is given. A refusal of the system is only logged.
pub(crate) fn pin(what: &str, core: Option<u32>) {
    if let Some(core) = core
        && let Err(error) = schedule::pin(core)
    {
        log::warn!("{what} is not kept on core {core}: {error}");
    }
}

impl Drop for QuiverDevice {
    fn drop(&mut self) {
        self.router.graph.stop();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_routes_as_were_asked_for_and_each_once() {
        for (count, most) in [(1, 1), (5_000, 5_000), (5_000, 4_000), (200_000, 1_000)] {
            let all: Vec<Key> = keys(count, most).collect();
            let different: HashSet<Key> = all.iter().copied().collect();
            assert_eq!((all.len(), different.len()), (count, count));
            assert!(all.iter().all(|key| !matches!(key.address() >> 24, 16 | 100)), "those are of the ports");
        }
    }
}
