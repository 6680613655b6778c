//! What a packet costs that is received and sent by shared memory. Another core makes packets and counts those that
//! come back ([`drivers::memif::generator`]); this program's router, or another program, is in between.
//!
//! The cost is that of memory that moves between cores, and depends on where a virtual machine's cores happen to be. So
//! each window reports how long a cache line took from one core to the other just before.

use super::scenario::Scenario;
use super::{NEXT_HOP, Spread, pin};
use devices::memif::MemifConfig;
use drivers::input::Mode;
use drivers::memif::generator::{Generator, HEAD};
use drivers::memif::{Keeper, Options as MemifOptions, Role};
use graph::{InterfaceIndex, Worker, time};
use loadtest::probe::line_clocks;
use router::neighbour::NeighbourKey;
use router::{Options as RouterOptions, Router};
use serde::Serialize;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tables::synthetic::Random;
use wire::{MacAddress, Prefix4};

pub const NAME: &str = "memif";
/// What the router in between does: passes packets on unchanged, or routes them.
const SCENARIOS: [&str; 3] = ["dumb", "ip4-1", "ip4-1m"];
/// Sizes of frames around the ends of cache lines, without frame check sequence; 60, 61, 120, 124 and 125 are 64, 65,
/// 124, 128 and 129 with one.
const SWEEP: [u16; 24] = [
    60, 61, 64, 65, 96, 120, 124, 125, 128, 129, 192, 193, 256, 257, 320, 384, 512, 513, 768, 769, 1024, 1025, 1280,
    1514,
];
/// Packets a second that are offered, besides the maximum rate.
const OFFERED: f64 = 20e6;
const WINDOW: Duration = Duration::from_millis(200);
/// Time before the first window, and time for packets on their way to arrive.
const WARM_UP: Duration = Duration::from_millis(100);
const DRAIN: Duration = Duration::from_millis(20);
/// Destination address of packets for another program: a router must be configured to have it.
const STATION: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
/// Timeout for the other side to connect.
const PATIENCE: Duration = Duration::from_secs(20);
/// Rounds of the router between two checks whether it must end.
const ROUNDS: usize = 64;
/// The cores of the generator and of what is measured.
const GENERATOR: u32 = 1;
const MEASURED: u32 = 0;

/// What to measure.
pub struct Plan {
    /// Bytes of a frame; none: many sizes, each at the maximum rate.
    pub size: Option<u16>,
    pub repeat: u16,
    /// Packets a second; none: both the usual rate and the maximum rate.
    pub rate: Option<f64>,
    /// The directory where another program listens, as master: `DIR/in.sock` and `DIR/out.sock`; and the program's
    /// name.
    pub device: Option<(String, String)>,
}

#[derive(Serialize)]
pub struct Outcome {
    pub scenario: String,
    pub size: u16,
    /// Packets a second; none: the maximum rate.
    pub offered_mpps: Option<f64>,
    /// Packets a second that came back.
    pub mpps: Spread,
    /// Clocks of the router's core per packet: at the maximum rate its whole time, else that of rounds with packets.
    /// None: for another program below the maximum rate.
    pub clocks_per_packet: Option<Spread>,
    /// Mean packets in a round of our router.
    pub vector: Option<f64>,
    /// Share of the packets sent that did not come back.
    pub lost: f64,
    /// When the generator had packets to send, how often there was room for all of them. At the maximum rate, a value
    /// near 1 means that the router is faster than the generator.
    pub ready: f64,
    /// Clocks that a cache line takes from one core to the other, before each window.
    pub line_clocks: Spread,
}

/// Measures each scenario, or another program.
///
/// # Errors
/// When there are not two cores, the router cannot be made, or no peer connects.
pub fn measure(plan: &Plan) -> Result<Vec<Outcome>, String> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err("memif: a second core has to make packets, and there is one".into());
    }
    let rates = match (plan.size, plan.rate) {
        (None, None) => vec![None],
        (_, Some(rate)) => vec![Some(rate)],
        (Some(_), None) => vec![Some(OFFERED), None],
    };
    let sizes = plan.size.map_or(SWEEP.to_vec(), |size| vec![size]);
    let cases = || sizes.iter().flat_map(|size| rates.iter().map(|rate| (*size, *rate)));
    let mut outcomes = Vec::new();
    match &plan.device {
        Some((directory, name)) => {
            let (inward, outward) = (format!("{directory}/in.sock"), format!("{directory}/out.sock"));
            let mut bench = Bench::new(&inward, &outward)?;
            for (size, rate) in cases() {
                bench.frame = frame(size, STATION, "l3fwd");
                bench.await_way()?;
                outcomes.push(bench.run(name, plan, rate, None));
            }
        }
        None => {
            let scenarios = if plan.size.is_none() { &SCENARIOS[..2] } else { &SCENARIOS };
            for scenario in scenarios {
                let (mut device, inward, outward) = Device::new(scenario).map_err(|error| error.to_string())?;
                let mut bench = Bench::new(&inward, &outward)?;
                // Routes resolve once control has seen that the links are up.
                device.router.check_links();
                bench.routes = Scenario::of(scenario).routes() as u32;
                for (size, rate) in cases() {
                    bench.frame = frame(size, device.station, scenario);
                    outcomes.push(bench.run(scenario, plan, rate, Some(&device.shared)));
                }
            }
        }
    }
    Ok(outcomes)
}

/// UDP from 100.64.1.2: to the first route, or to the network that DPDK's l3fwd sends by its second port.
fn frame(size: u16, station: MacAddress, scenario: &str) -> Vec<u8> {
    let to = if scenario == "l3fwd" { [198, 18, 1, 1] } else { [16, 0, 0, 1] };
    let mut frame = [&station.0[..], &[2, 0, 0, 0, 0, 0xaa], &[8, 0]].concat();
    let length = size - 14;
    let mut ip = vec![0x45, 0];
    ip.extend(length.to_be_bytes());
    ip.extend([0, 0, 0, 0, 64, 17, 0, 0, 100, 64, 1, 2]);
    ip.extend(to);
    let sum = wire::checksum::checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(ip);
    frame.extend([0x04, 0xd2, 0x16, 0x2e]);
    frame.extend((length - 20).to_be_bytes());
    frame.resize(size.into(), 0);
    frame
}

/// What the router's thread shares with the measuring thread.
#[derive(Default)]
struct Shared {
    end: AtomicBool,
    /// Clocks of rounds with packets, those rounds, and their packets, since the start.
    busy: AtomicU64,
    rounds: AtomicU64,
    packets: AtomicU64,
}

impl Shared {
    fn figures(&self) -> [u64; 3] {
        [&self.busy, &self.rounds, &self.packets].map(|figure| figure.load(Ordering::Relaxed))
    }
}

/// A router between two memifs, on a thread of its own.
struct Device {
    shared: Arc<Shared>,
    station: MacAddress,
    thread: Option<std::thread::JoinHandle<()>>,
    router: Router,
}

impl Device {
    /// Makes the router; returns it with the sockets by which it receives and sends.
    fn new(scenario: &str) -> Result<(Device, String, String), router::Error> {
        let mut router = capabilities::router(RouterOptions { workers: 1, ..RouterOptions::default() })?;
        let worker = router.graph.worker(0).expect("there is one");
        let [(inward, from), (outward, to)] = [
            memif(&mut router, scenario, 0, "100.64.1.1/24")?,
            memif(&mut router, scenario, 1, &format!("{}/24", Ipv4Addr::from(u32::from(NEXT_HOP) - 1)))?,
        ];
        let station = router.interfaces.get(from)?.mac;
        let routes = Scenario::of(scenario);
        for hop in routes.hops() {
            router.set_neighbour(NeighbourKey::new(to, hop), MacAddress([2, 0, 0, 0, 0, 0xbb]), true)?;
        }
        routes.install(&mut router)?;
        if scenario == "dumb" {
            let input = router.graph.find("memif-input")?;
            let edge = router.graph.connect(input, "m1-tx")?;
            router.graph.call_one(0, move |core| {
                if let Some(input) = core.node::<drivers::input::DeviceInput>(input) {
                    input.set_cross_connect(from, Some(edge));
                }
            });
        }
        let shared = Arc::new(Shared::default());
        let told = shared.clone();
        let thread = std::thread::spawn(move || drive(worker, &told));
        Ok((Device { shared, station, thread: Some(thread), router }, inward, outward))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a worker does not panic");
        }
    }
}

fn memif(
    router: &mut Router,
    scenario: &str,
    number: u32,
    address: &str,
) -> Result<(String, InterfaceIndex), router::Error> {
    let socket = format!("@quiver-bench-{}-{scenario}-{number}", std::process::id());
    let options = MemifOptions { role: Role::Master, ..options(number, &socket) };
    let index = router.create(&format!("m{number}"), Box::new(MemifConfig(options)))?;
    router.set_admin(index, true)?;
    router.add_address(index, address.parse::<Prefix4>().expect("a prefix"))?;
    router.set_receive_mode(index, None, Mode::Polling)?;
    Ok((socket, index))
}

fn options(id: u32, socket: &str) -> MemifOptions {
    MemifOptions { name: format!("bench{id}"), ..MemifOptions::new(Role::Slave, id, id + 1, socket) }
}

/// Runs a worker until it is stopped.
fn drive(mut worker: Worker, shared: &Shared) {
    pin("what is measured", Some(MEASURED));
    let (mut busy, mut rounds, mut packets) = (0, 0, 0);
    while !shared.end.load(Ordering::Relaxed) {
        for _ in 0..ROUNDS {
            let before = time::ticks();
            worker.round();
            let now = worker.core().ledger().received;
            if now != packets {
                packets = now;
                busy += time::ticks() - before;
                rounds += 1;
            }
        }
        shared.busy.store(busy, Ordering::Relaxed);
        shared.rounds.store(rounds, Ordering::Relaxed);
        shared.packets.store(packets, Ordering::Relaxed);
    }
}

/// The generator and what it sends.
struct Bench {
    _keeper: Keeper,
    into: Generator,
    back: Generator,
    frame: Vec<u8>,
    /// Packets go to this many adjacent /24s, in random order.
    routes: u32,
    random: Random,
}

/// Counts of packets sent and received so far.
#[derive(Clone, Copy, Default)]
struct Counts {
    sent: u64,
    came: u64,
    /// How often there was something to send, and there was room for it.
    tries: u64,
    ready: u64,
}

impl Bench {
    fn new(inward: &str, outward: &str) -> Result<Bench, String> {
        let keeper = Keeper::start().map_err(|error| error.to_string())?;
        let make = |id, socket: &str| Generator::new(&keeper, options(id, socket)).map_err(|error| error.to_string());
        let (mut into, mut back) = (make(0, inward)?, make(1, outward)?);
        let end = Instant::now() + PATIENCE;
        // Poll both connections, even if the first is not connected yet.
        while !(into.is_connected() & back.is_connected()) {
            if Instant::now() > end {
                return Err(format!("memif: nobody listens at {inward} and {outward}, as master, ids 0 and 1"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Bench { _keeper: keeper, into, back, frame: Vec::new(), routes: 1, random: Random::new(1) })
    }

    /// Waits until packets come back: another program may have to see that its links are up before it sends.
    fn await_way(&mut self) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        while self.pass(Some(1e5), DRAIN).0.came == 0 {
            if Instant::now() > end {
                return Err("memif: nothing comes back (UDP to 198.18.1.1, Ethernet address 02:00:00:00:00:01)".into());
            }
        }
        self.drain();
        Ok(())
    }

    fn run(&mut self, scenario: &str, plan: &Plan, rate: Option<f64>, device: Option<&Shared>) -> Outcome {
        let mut windows: Vec<Window> = Vec::new();
        std::thread::scope(|scope| {
            let run = || {
                pin("generator", Some(GENERATOR));
                self.pass(rate, WARM_UP);
                self.drain();
                for _ in 0..plan.repeat {
                    let line = line_clocks(GENERATOR, MEASURED);
                    windows.push(Window { line, ..self.window(rate, device) });
                }
            };
            scope.spawn(run).join().expect("the generator does not panic");
        });
        let spread = |of: &dyn Fn(&Window) -> f64| Spread::of(windows.iter().map(of).collect());
        let sum = |of: &dyn Fn(&Counts) -> u64| windows.iter().map(|window| of(&window.counts)).sum::<u64>() as f64;
        Outcome {
            scenario: scenario.into(),
            size: self.frame.len() as u16,
            offered_mpps: rate.map(|rate| rate / 1e6),
            mpps: spread(&|window| window.mpps),
            clocks_per_packet: (device.is_some() || rate.is_none()).then(|| spread(&|window| window.clocks)),
            vector: device.map(|_| spread(&|window| window.vector).median),
            lost: 1.0 - sum(&|counts| counts.came) / sum(&|counts| counts.sent).max(1.0),
            ready: sum(&|counts| counts.ready) / sum(&|counts| counts.tries).max(1.0),
            line_clocks: spread(&|window| window.line),
        }
    }

    fn window(&mut self, rate: Option<f64>, device: Option<&Shared>) -> Window {
        let before = device.map(Shared::figures);
        let (mut counts, ticks) = self.pass(rate, WINDOW);
        let after = device.map(Shared::figures);
        let mpps = counts.came as f64 / ticks as f64 * time::ticks_per_second() / 1e6;
        let whole = ticks as f64 / counts.came.max(1) as f64;
        let taken = before.zip(after).map(|(before, after)| {
            let [busy, rounds, packets] = std::array::from_fn(|at| (after[at] - before[at]) as f64);
            (busy / packets.max(1.0), packets / rounds.max(1.0))
        });
        let clocks = taken.filter(|_| rate.is_some()).map_or(whole, |(clocks, _)| clocks);
        counts.came += self.drain();
        Window { counts, mpps, clocks, vector: taken.map_or(0.0, |(_, vector)| vector), line: 0.0 }
    }

    /// Sends and receives for a while; returns the counts, and the ticks that it took.
    fn pass(&mut self, rate: Option<f64>, length: Duration) -> (Counts, u64) {
        let mut counts = Counts::default();
        let (start, length) = (time::ticks(), time::to_ticks(length));
        let per_tick = rate.map(|rate| rate / time::ticks_per_second());
        let (routes, random) = (self.routes, &mut self.random);
        let mut to_any = |line: &mut [u8; HEAD]| {
            if routes > 1 {
                readdress(line, random.below(routes));
            }
        };
        loop {
            counts.came += self.back.receive().packets;
            let now = time::ticks() - start;
            if now >= length {
                return (counts, now);
            }
            let wanted = match per_tick {
                Some(per_tick) => ((now as f64 * per_tick) as u64).saturating_sub(counts.sent).min(256) as u16,
                None => 256,
            };
            if wanted > 0 {
                let sent = self.into.send(wanted, &self.frame, &mut to_any);
                counts.sent += u64::from(sent);
                counts.tries += 1;
                counts.ready += u64::from(sent == wanted);
            }
        }
    }

    /// Waits until no more packets arrive; returns how many did.
    fn drain(&mut self) -> u64 {
        let (mut came, mut last) = (0, Instant::now());
        while last.elapsed() < DRAIN {
            let some = self.back.receive().packets;
            if some > 0 {
                (came, last) = (came + some, Instant::now());
            }
        }
        came
    }
}

struct Window {
    counts: Counts,
    mpps: f64,
    clocks: f64,
    vector: f64,
    line: f64,
}

/// Sets the destination to the /24 of this number, and keeps the checksum right (RFC 1624, equation 3).
#[inline(always)]
fn readdress(line: &mut [u8; HEAD], route: u32) {
    const CHECKSUM: usize = 14 + 10;
    const DESTINATION: usize = 14 + 16;
    let half = |line: &[u8; HEAD], at: usize| u32::from(u16::from_be_bytes([line[at], line[at + 1]]));
    let to = (16 << 24) + (route << 8) + 1;
    let old = half(line, DESTINATION) + half(line, DESTINATION + 2);
    let new = (to >> 16) + (to & 0xffff);
    let mut sum = (!half(line, CHECKSUM) & 0xffff) + (2 * 0xffff - old) + new;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    line[CHECKSUM..CHECKSUM + 2].copy_from_slice(&(!sum as u16).to_be_bytes());
    line[DESTINATION..DESTINATION + 4].copy_from_slice(&to.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_stay_right_wherever_packets_go() {
        let frame = frame(64, MacAddress([2, 0, 0, 0, 0, 1]), "ip4-1m");
        let mut line: [u8; HEAD] = frame[..].try_into().unwrap();
        for route in [0, 1, 255, 256, 65_535, 999_999, 3, 0] {
            readdress(&mut line, route);
            assert_eq!(wire::checksum::checksum(&line[14..34]), 0, "{route}");
            assert_eq!(line[30..34], (0x1000_0001 + (route << 8)).to_be_bytes());
        }
    }
}
