//! A router without threads: the test plays devices, worker and control loop.

use crate::packet::{Packet, ip};
use command::CommandSet;
use drivers::{DROPPED, Device, FULL, Link, REFUSED, Receive, ReceiveCounts, TOO_LONG, Transmit, TxOffloads};
use graph::buffer::{DATA_SIZE, HEADROOM, Offload};
use graph::{Buffers, InterfaceIndex, PacketIndex, Progress, Row, Vector, Worker, edge, flag};
use router::ip::control::{Path, PathAction, Source};
use router::neighbour::NeighbourKey;
use router::{Options, Router, capability};
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::{MacAddress, Prefix4};

/// Packet buffers: the fewest that a pool can have makes leaks show soon.
const BUFFERS: u32 = 4096;

/// A frame as a device brings it.
#[derive(Debug, Clone)]
pub struct Arrival {
    pub frame: Vec<u8>,
    /// Where the frame starts in its first buffer.
    pub offset: usize,
    /// Bytes in the first buffer and in each later one; one buffer when empty.
    pub parts: Vec<usize>,
    pub flags: u32,
    pub offload: Offload,
}

impl From<Vec<u8>> for Arrival {
    fn from(frame: Vec<u8>) -> Arrival {
        Arrival { frame, offset: HEADROOM, parts: Vec::new(), flags: 0, offload: Offload::default() }
    }
}

impl Arrival {
    /// The same frame in several buffers.
    pub fn in_parts(mut self, parts: &[usize]) -> Arrival {
        assert_eq!(parts.iter().sum::<usize>(), self.frame.len());
        self.parts = parts.to_vec();
        self
    }

    /// Puts the frame into buffers, as far as there are any.
    fn write(&self, buffers: &mut Buffers) -> Option<Row> {
        let whole = [self.frame.len()];
        let parts = if self.parts.is_empty() { &whole[..] } else { &self.parts };
        let mut packets = vec![PacketIndex::NONE; parts.len()];
        let got = buffers.allocate(&mut packets);
        if got < packets.len() {
            buffers.free(&packets[..got]);
            return None;
        }
        let mut rest = &self.frame[..];
        for (number, (&packet, &length)) in packets.iter().zip(parts).enumerate() {
            let (bytes, others) = rest.split_at(length);
            rest = others;
            let offset = if number == 0 { self.offset } else { HEADROOM };
            // What was there before is not what the frame says: nothing may depend on it.
            buffers.bytes_mut(packet)[..HEADROOM + DATA_SIZE].fill(0xa5);
            buffers.bytes_mut(packet)[offset..offset + length].copy_from_slice(bytes);
            let next = packets.get(number + 1).copied();
            let segment = buffers.segment_mut(packet);
            (segment.offset, segment.length) = (offset as u16, length as u16);
            segment.set_next(next);
        }
        buffers.segment_mut(packets[0]).offload = self.offload;
        let chained = if packets.len() > 1 { flag::CHAINED } else { 0 };
        Some(Row {
            packet: packets[0],
            flags: self.flags | chained,
            l2: self.offset as u16,
            l3: self.offset as u16,
            length: self.frame.len() as u16,
            ..Row::default()
        })
    }
}

/// A frame as a device was given it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub frame: Vec<u8>,
    /// What the device is to finish.
    pub flags: u32,
    pub offload: Offload,
}

type Shared<T> = Arc<Mutex<T>>;

struct Queue(Shared<VecDeque<Arrival>>);

impl Receive for Queue {
    fn receive(&mut self, buffers: &mut Buffers, out: &mut Vector, counts: &mut ReceiveCounts) {
        let mut arrivals = self.0.lock().unwrap();
        while out.room() > 0 {
            let Some(arrival) = arrivals.pop_front() else { return };
            match arrival.write(buffers) {
                Some(row) => out.push(row, 0),
                None => counts.no_buffer += 1,
            }
        }
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

struct Record {
    sent: Shared<Vec<Sent>>,
    /// Edges for the next packets in place of sending them.
    refusals: Shared<VecDeque<u16>>,
}

/// A packet's bytes, all segments.
fn bytes_of(buffers: &Buffers, row: &Row) -> Vec<u8> {
    let first = row.first_length(buffers);
    let mut frame = buffers.bytes(row.packet)[row.l2 as usize..row.l2 as usize + first].to_vec();
    let chained = row.flags & flag::CHAINED != 0;
    let mut next = if chained { buffers.segment(row.packet).next() } else { None };
    while let Some(packet) = next {
        let segment = *buffers.segment(packet);
        let from = segment.offset as usize;
        frame.extend(&buffers.bytes(packet)[from..from + segment.length as usize]);
        next = segment.next();
    }
    assert_eq!(frame.len(), row.length as usize, "the segments are as long as the packet");
    frame
}

impl Transmit for Record {
    fn transmit(&mut self, buffers: &mut Buffers, vector: &mut Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            if let Some(refusal) = self.refusals.lock().unwrap().pop_front() {
                vector.set_edge(i, refusal);
                continue;
            }
            let offload = buffers.segment(row.packet).offload;
            let sent = Sent { frame: bytes_of(buffers, &row), flags: row.flags & flag::OFFLOAD, offload };
            self.sent.lock().unwrap().push(sent);
            vector.set_edge(i, edge::SENT);
        }
    }
}

/// A wire that a test can pull out.
struct Carrier(Arc<AtomicBool>);

impl Link for Carrier {
    fn is_up(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// An interface and the test's hold on its device.
#[derive(Clone)]
pub struct Port {
    pub index: InterfaceIndex,
    pub mac: MacAddress,
    arrivals: Shared<VecDeque<Arrival>>,
    sent: Shared<Vec<Sent>>,
    refusals: Shared<VecDeque<u16>>,
    carrier: Arc<AtomicBool>,
}

impl Port {
    /// Pulls its wire out, or puts it back. Control sees it when it looks next.
    pub fn set_carrier(&self, up: bool) {
        self.carrier.store(up, Ordering::Relaxed);
    }

    pub fn receive(&self, arrival: impl Into<Arrival>) {
        self.arrivals.lock().unwrap().push_back(arrival.into());
    }

    /// Receives a packet that a host on this port's network sends by way of the router.
    pub fn receive_packet(&self, packet: &Packet) -> Vec<u8> {
        let frame = packet.frame(self.mac, host_mac(packet.source));
        self.receive(frame.clone());
        frame
    }

    /// What was sent since the last call.
    pub fn sent(&self) -> Vec<Vec<u8>> {
        self.sent_whole().into_iter().map(|sent| sent.frame).collect()
    }

    pub fn sent_whole(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }

    /// The device has no room for the next packet, refuses it or throws it away.
    pub fn refuse_next(&self, edge: u16) {
        assert!([FULL, REFUSED, TOO_LONG, DROPPED].contains(&edge));
        self.refusals.lock().unwrap().push_back(edge);
    }
}

/// The Ethernet address of a host of the test.
pub fn host_mac(address: Ipv4Addr) -> MacAddress {
    let [a, b, c, d] = address.octets();
    MacAddress([0x02, 0xaa, a, b, c, d])
}

pub fn prefix(text: &str) -> Prefix4 {
    text.parse().expect("a prefix")
}

pub type Errors = BTreeMap<(String, String), u64>;

pub struct Bed {
    pub router: Router,
    pub worker: Worker,
    pub others: Vec<Worker>,
    commands: CommandSet<Router>,
    /// Runs ahead of the clock as the test says.
    now: Instant,
}

impl Bed {
    pub fn new() -> Bed {
        Bed::with_buffers(BUFFERS)
    }

    pub fn with_buffers(buffers: u32) -> Bed {
        Bed::with_options(Options { buffers, huge_pages: false, workers: 1, hash_seed: 7, ..Options::default() })
    }

    /// Of several workers the bed runs the first; the others go along when they have something to do.
    pub fn with_workers(workers: usize) -> Bed {
        Bed::with_options(Options { buffers: BUFFERS, huge_pages: false, workers, hash_seed: 7, ..Options::default() })
    }

    /// Control takes so many events of each kind at a time, and no more.
    pub fn with_room_for_events(events: usize) -> Bed {
        Bed::with_options(Options { buffers: BUFFERS, huge_pages: false, hash_seed: 7, events, ..Options::default() })
    }

    /// Of other capabilities than those of the crate.
    pub fn with_capabilities(capabilities: capability::List) -> Bed {
        Bed::of(Options { buffers: BUFFERS, huge_pages: false, hash_seed: 7, ..Options::default() }, capabilities)
    }

    /// The same, with what `startup.conf` says to them.
    pub fn with_sections(sections: startup::Sections, capabilities: capability::List) -> Bed {
        let sections = std::sync::Arc::new(sections);
        let options = Options { buffers: BUFFERS, huge_pages: false, hash_seed: 7, sections, ..Options::default() };
        Bed::of(options, capabilities)
    }

    fn with_options(options: Options) -> Bed {
        Bed::of(options, quiver_capabilities::CAPABILITIES)
    }

    fn of(options: Options, capabilities: capability::List) -> Bed {
        let router = Router::with(options, capabilities).expect("a router");
        let worker = router.graph.worker(0).expect("a worker");
        let others = (1..router.graph.workers()).map(|n| router.graph.worker(n).expect("a worker")).collect();
        Bed { router, worker, others, commands: router::commands_of(capabilities), now: Instant::now() }
    }

    /// A router with three ports that are up, `10.0.N.1/24` each, that know the host
    /// `10.0.N.2`.
    pub fn with_three_ports() -> (Bed, [Port; 3]) {
        let mut bed = Bed::new();
        let ports = bed.three_ports();
        (bed, ports)
    }

    pub fn three_ports(&mut self) -> [Port; 3] {
        [0, 1, 2].map(|number| {
            let port = self.port(&format!("e{number}"), &[&format!("10.0.{number}.1/24")]);
            self.know(&port, &format!("10.0.{number}.2"));
            port
        })
    }

    /// A port that is up and has addresses. What it announced is forgotten.
    pub fn port(&mut self, name: &str, addresses: &[&str]) -> Port {
        let port = self.port_that_finishes(name, TxOffloads::default());
        self.router.set_admin(port.index, true).unwrap();
        for address in addresses {
            self.router.add_address(port.index, prefix(address)).unwrap();
        }
        self.run();
        port.sent();
        port
    }

    /// A port that is down and has no address.
    pub fn port_that_finishes(&mut self, name: &str, finishes: TxOffloads) -> Port {
        self.port_by("test-input", name, finishes)
    }

    /// The same, its packets coming in by the node of some driver.
    pub fn port_by(&mut self, input_node: &'static str, name: &str, finishes: TxOffloads) -> Port {
        let (arrivals, sent, refusals) = (Shared::default(), Shared::default(), Shared::default());
        let carrier = Arc::new(AtomicBool::new(true));
        let number = self.router.interfaces.iter().count() as u8;
        let mac = MacAddress([0x02, 0, 0, 0, 0x10, number]);
        let device = Device {
            driver: "test",
            carries: drivers::Carries::LINK,
            input_node,
            description: "played by a test".into(),
            host: None,
            mac,
            mtu: 1500,
            finishes,
            receive: vec![Box::new(Queue(arrivals.clone()))],
            transmit: Box::new(Record { sent: sent.clone(), refusals: refusals.clone() }),
            link: Box::new(Carrier(carrier.clone())),
        };
        let index = self.router.create_interface(name, device).unwrap();
        Port { index, mac, arrivals, sent, refusals, carrier }
    }

    pub fn know(&mut self, port: &Port, host: &str) {
        let key = NeighbourKey::new(port.index, ip(host));
        self.router.set_neighbour(key, host_mac(ip(host)), true).unwrap();
    }

    /// A route over next hops that have the same weight.
    pub fn route(&mut self, to: &str, via: &[&str]) {
        let path = |hop: &&str| Path::new(PathAction::Via { next_hop: ip(hop).into(), interface: None });
        self.router.add_route(prefix(to), Source::Config, via.iter().map(path).collect(), true).unwrap();
    }

    pub fn route_way(&mut self, to: &str, way: PathAction) {
        self.router.add_route(prefix(to), Source::Config, vec![Path::new(way)], true).unwrap();
    }

    /// Runs worker and control until neither has anything to do.
    pub fn run(&mut self) {
        const MANY: usize = 100_000;
        for _ in 0..MANY {
            let mut worked = self.worker.round() != Progress::Idle;
            for other in &mut self.others {
                worked |= other.round() != Progress::Idle;
            }
            let has_events = self.router.events_waiting() > 0;
            self.router.handle_events();
            if !worked && !has_events {
                // Twice: some retired objects retire others.
                for _ in 0..2 {
                    self.router.graph.domain().collect();
                    self.worker.round();
                    for other in &mut self.others {
                        other.round();
                    }
                }
                self.router.graph.domain().collect();
                assert!(self.worker.core().ledger().is_balanced(), "{:?}", self.worker.core().ledger());
                return;
            }
        }
        panic!("worker or control never come to rest");
    }

    /// Lets time pass for control and workers, then runs.
    pub fn advance(&mut self, time: Duration) {
        for worker in std::iter::once(&mut self.worker).chain(&mut self.others) {
            worker.core().let_pass(time);
        }
        self.now = self.now.max(Instant::now()) + time;
        self.router.tick_at(self.now);
        self.run();
    }

    /// All error counters that are not zero.
    pub fn errors(&self) -> Errors {
        let mut errors = Errors::new();
        for (number, error) in self.router.graph.errors().iter().enumerate() {
            let count = self.router.graph.counters().errors.sum(number, 0);
            if count > 0 {
                *errors.entry((error.node.clone(), error.reason.clone())).or_default() += count;
            }
        }
        errors
    }

    /// Error counters that moved while `act` ran and what came of it.
    pub fn errors_of(&mut self, act: impl FnOnce(&mut Bed)) -> Errors {
        let before = self.errors();
        act(self);
        self.errors_since(&before)
    }

    // Not in `errors_of`, of which the compiler makes one for each caller.
    fn errors_since(&mut self, before: &Errors) -> Errors {
        self.run();
        let mut moved = self.errors();
        moved.iter_mut().for_each(|(key, count)| *count -= before.get(key).copied().unwrap_or(0));
        moved.retain(|_, count| *count > 0);
        moved
    }

    /// `rx packets`, `rx bytes`, `tx packets`, `tx bytes`, `ip4`, `drops`, `punt`.
    pub fn counters(&self, port: &Port) -> [u64; 7] {
        let (at, counters) = (port.index.0 as usize, &self.router.counters);
        let drops = self.router.graph.counters().drops.sum(at, 0);
        [
            counters.rx.sum(at, 0),
            counters.rx.sum(at, 1),
            counters.tx.sum(at, 0),
            counters.tx.sum(at, 1),
            counters.ip4.sum(at, 0),
            drops,
            counters.punts.sum(at, 0),
        ]
    }

    pub fn held(&mut self) -> u64 {
        self.worker.core().ledger().held
    }

    pub fn buffers_in_use(&mut self) -> u64 {
        self.worker.core().buffers.in_use()
    }

    /// Runs a command line; its text, or what was wrong.
    pub fn command(&mut self, line: &str) -> Result<String, String> {
        let result = self.commands.execute(&mut self.router, line);
        result.map(|reply| reply.text()).map_err(|error| error.to_string())
    }

    /// What a command that must succeed answers to programs.
    pub fn json(&mut self, line: &str) -> serde_json::Value {
        let result = self.commands.execute(&mut self.router, line);
        result.unwrap_or_else(|error| panic!("{line}: {error}")).json()
    }

    /// Begins a command whose answer comes in while it is read.
    pub fn begin(&mut self, line: &str) -> Result<Box<dyn command::Reply>, String> {
        self.commands.execute(&mut self.router, line).map_err(|error| error.to_string())
    }

    /// Runs a command that asks the worker, which for that time has a thread of its own.
    pub fn ask(&mut self, line: &str) -> Result<String, String> {
        let commands = std::mem::take(&mut self.commands);
        let result = self.while_the_worker_runs(|router| commands.execute(router, line));
        self.commands = commands;
        result.map(|reply| reply.text()).map_err(|error| error.to_string())
    }

    /// Does something that waits for the worker, which for that time has a thread of its own.
    pub fn while_the_worker_runs<T>(&mut self, act: impl FnOnce(&mut Router) -> T) -> T {
        let Bed { router, worker, others, .. } = self;
        let answered = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !answered.load(Ordering::Relaxed) {
                    worker.round();
                    others.iter_mut().for_each(|other| {
                        other.round();
                    });
                    std::thread::yield_now();
                }
            });
            let result = act(router);
            answered.store(true, Ordering::Relaxed);
            result
        })
    }
}

/// Stops workers when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How long a busy machine may take to forward a few packets.
const PATIENCE: Duration = Duration::from_secs(2);

impl Bed {
    /// Runs all workers while control makes so many changes, by their numbers, to a router that the packet generator
    /// sends packets. Of every 100 changes, packets pass after each of the first `stay`.
    pub fn under_traffic(&mut self, changes: usize, stay: usize, mut change: impl FnMut(&mut Router, usize)) {
        features::packet_generator::enable(&mut self.router, None, true).unwrap();
        let Bed { router, worker, others, .. } = self;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Also when something below panics: else the workers would run for ever.
            let stopping = Stop(&stop);
            for worker in std::iter::once(worker).chain(others) {
                let stop = &stop;
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        worker.round();
                        std::thread::yield_now();
                    }
                });
            }
            for number in 0..changes {
                change(router, number);
                if number % 100 < stay {
                    let (before, began) = (router.graph.ledger().sent, Instant::now());
                    while router.graph.ledger().sent < before + 100 && began.elapsed() < PATIENCE {
                        std::thread::yield_now();
                    }
                }
            }
            features::packet_generator::enable(router, None, false).unwrap();
            drop(stopping);
        });
        self.run();
    }
}

/// One error counter, for comparisons.
pub fn error(node: &str, reason: &str, count: u64) -> Errors {
    Errors::from([((node.to_string(), reason.to_string()), count)])
}
