//! `quiver bench`: clocks per packet, node by node.
//!
//! The packet generator drives the graph that `quiver run` uses, on this thread; a null device discards the output.
//! Clocks are those of the time stamp counter over whole windows: all nodes and what is between them (the residue),
//! less the generator. With `--cold` the generator cycles through all buffers of the pool, oldest first, and writes
//! nothing into them.

#![forbid(unsafe_code)]

mod churn;
mod features;
mod memif;
mod midchain;
mod notices;
mod pic;
mod programming;
mod rounds;
mod scenario;

use ::features::handoff::{self, Handoff};
use ::features::packet_generator;
use drivers::pg::template::{First, Template, Vary};
use drivers::pg::{self, Content, Entry, Stream};
use graph::buffer::Reuse;
use graph::shared::SharedCounters;
use graph::worker::node_word;
use graph::{Graph, InterfaceIndex, NodeIndex, Progress, Worker, time};
use protocols::vlan::{Vid, VlanMatch};
use router::ip::source_check::{self, SourceCheck};
use router::neighbour::NeighbourKey;
use router::{Options as RouterOptions, Router};
use scenario::Scenario;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::net::Ipv4Addr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use wire::ethernet::EtherType;
use wire::vlan::TAG_LEN;
use wire::{Family, MacAddress, Prefix, Prefix4};

#[derive(clap::Args)]
pub struct Options {
    /// Scenarios, such as 'ip4-1' or 'fib4-1m'; default: those that send packets to up to a thousand routes.
    scenarios: Vec<String>,
    /// Packets in a vector.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=256))]
    vector: u16,
    /// Bytes of a frame, from its Ethernet header on.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(60..=2048))]
    size: u16,
    /// Frames of several sizes in turn, as on the Internet: of twelve, seven of 66 bytes, four of 566 and one of 1514.
    #[arg(long, conflicts_with_all = ["size", "cold", "mix"])]
    imix: bool,
    /// VLAN tags of the frames, which are received and sent by sub-interfaces: 1 or 2.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=2))]
    vlan: u16,
    /// With --vlan: every other frame is of another VLAN, or with 'shapes' untagged.
    #[arg(long, value_enum)]
    mix: Option<Mix>,
    /// Packets come from 16k buffers in turn, which the generator does not touch.
    #[arg(long)]
    cold: bool,
    /// Threads, each with its own packets, on the first cores.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    /// Distribute each worker's packets among all workers by flow; as many flows as UDP has source ports.
    #[arg(long)]
    handoff: bool,
    /// Check the sources of packets ('set urpf ... strict').
    #[arg(long)]
    urpf: bool,
    /// Features that do nothing on the way of the packets, between input and lookup.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=i64::from(features::MOST)))]
    features: u16,
    /// With --features: they are enabled on another interface only.
    #[arg(long, requires = "features")]
    elsewhere: bool,
    /// For 'memif': frames of many sizes.
    #[arg(long, conflicts_with = "size")]
    sweep: bool,
    /// For 'memif': packets a second; default: both 20 million and the maximum rate.
    #[arg(long)]
    rate: Option<f64>,
    /// For 'memif': measure another program, which listens as master at DIR/in.sock (id 0) and DIR/out.sock (id 1).
    #[arg(long, value_name = "DIR")]
    device: Option<String>,
    /// Measuring windows; minimum, median and maximum are printed.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

impl Options {
    /// Bytes of the longest frame.
    fn longest(&self) -> u16 {
        if self.imix { *IMIX.iter().max().expect("there are twelve") } else { self.size }
    }
}

/// How packets of a vector differ.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mix {
    Vlans,
    Shapes,
}

/// 70, 570 and 1518 bytes on the wire, with the frame check sequence, which buffers do not hold.
const IMIX: [u16; 12] = [66, 566, 66, 66, 566, 66, 1514, 66, 566, 66, 566, 66];

/// The scenarios that are measured by default.
const USUAL: [&str; 3] = ["dumb", "ip4-1", "ip4-1k"];
/// Packets of a measuring window, and of the run before the first one.
const WINDOW: u64 = 4 << 20;
const WARM_UP: u64 = 1 << 20;
/// Buffers of the pool: what `--cold` cycles through.
const BUFFERS: u32 = 16384;
/// Rounds over all buffers until the packets' TTL must be restored.
const COLD_ROUNDS: u64 = 200;

/// Rounds, and turns of control, before the measurement.
const SETTLE: usize = 8;
const NEXT_HOP: Ipv4Addr = Ipv4Addr::new(100, 64, 2, 2);

#[derive(Serialize)]
struct Report {
    machine: Machine,
    results: Vec<Outcome>,
    programming: Vec<programming::Outcome>,
    pic: Vec<pic::Outcome>,
    churn: Option<churn::Outcome>,
    memif: Vec<memif::Outcome>,
    notices: Vec<notices::Outcome>,
}

#[derive(Serialize)]
struct Machine {
    cpu: String,
    cores: usize,
    tsc_mhz: f64,
    kernels: String,
    build: &'static str,
    huge_pages: bool,
}

#[derive(Serialize)]
struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let at = |at: usize| values.get(at).copied().unwrap_or(f64::NAN);
        Spread { min: at(0), median: at(values.len() / 2), max: at(values.len().saturating_sub(1)) }
    }
}

#[derive(Serialize)]
struct NodeCost {
    name: String,
    clocks: f64,
    vectors_per_call: f64,
}

#[derive(Serialize)]
struct Outcome {
    scenario: String,
    vector: u16,
    /// Bytes of a frame; with several sizes, of the longest.
    size: u16,
    imix: bool,
    workers: u16,
    /// VLAN tags of each frame, and how frames differ.
    tags: u16,
    mix: &'static str,
    cold: bool,
    handoff: bool,
    /// The sources of packets are checked.
    urpf: bool,
    /// Features that do nothing, and whether they do so on another interface.
    features: u16,
    elsewhere: bool,
    /// Share of the received packets that were dropped between workers.
    dropped: f64,
    /// Of all nodes and the residue, the generator excluded.
    clocks_per_packet: Spread,
    /// Packets a second, not counting the generator's time.
    mpps: Spread,
    /// Clocks per packet outside of all nodes, in the median window.
    residue: f64,
    /// Clocks per packet in the generator, in the median window.
    generator: f64,
    nodes: Vec<NodeCost>,
}

/// Runs the scenarios. Returns what they cost, as text or as JSON.
///
/// # Errors
/// When a scenario is unknown or the router cannot be made.
pub fn run(options: &Options) -> Result<String, String> {
    if options.mix.is_some() && (options.vlan == 0 || options.cold) {
        return Err("--mix goes with --vlan 1 or 2, and not with --cold".into());
    }
    if options.handoff && (options.cold || options.workers < 2) {
        return Err("--handoff goes with --workers 2 or more, and not with --cold".into());
    }
    if options.handoff && (options.scenarios.is_empty() || options.scenarios.iter().any(|name| name == "dumb")) {
        return Err("--handoff goes with ip4-1 and ip4-1k: what 'dumb' sends on meets no flow".into());
    }
    let known: Vec<&str> = scenario::ALL
        .into_iter()
        .chain(programming::ALL)
        .chain([pic::NAME, churn::NAME, memif::NAME, notices::NAME])
        .collect();
    if let Some(unknown) = options.scenarios.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("no scenario '{unknown}' (there are: {})", known.join(", ")));
    }
    let all: Vec<String> = USUAL.map(String::from).to_vec();
    let chosen = if options.scenarios.is_empty() { &all } else { &options.scenarios };
    let machine = machine();
    let mut report = Report {
        machine,
        results: Vec::new(),
        programming: Vec::new(),
        pic: Vec::new(),
        churn: None,
        memif: Vec::new(),
        notices: Vec::new(),
    };
    for scenario in chosen {
        if scenario == churn::NAME {
            report.churn = Some(churn::measure(options.repeat).map_err(|error| error.to_string())?);
            continue;
        }
        if scenario == memif::NAME {
            let device = options.device.clone().map(|directory| (directory, "device".to_string()));
            let size = (!options.sweep).then_some(options.size);
            let plan = memif::Plan { size, repeat: options.repeat, rate: options.rate, device };
            report.memif = memif::measure(&plan)?;
            continue;
        }
        if scenario == notices::NAME {
            report.notices = notices::measure().map_err(|error| error.to_string())?;
            continue;
        }
        if scenario == pic::NAME {
            report.pic = pic::measure(options.repeat).map_err(|error| error.to_string())?;
            continue;
        }
        if programming::ALL.contains(&scenario.as_str()) {
            let outcome = programming::measure(scenario, options.repeat).map_err(|error| error.to_string())?;
            report.programming.push(outcome);
            continue;
        }
        let mut bed = Bed::new(scenario, options).map_err(|error| error.to_string())?;
        report.machine.huge_pages = bed.router.graph.pool().huge;
        report.results.push(bed.measure(scenario, options));
    }
    if options.json {
        let json = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
        Ok(json + "\n")
    } else {
        Ok(text(&report))
    }
}

/// Keeps the calling thread on a core.
fn pin(what: &str, core: Option<u32>) {
    let pinned = core.map_or(Ok(()), graph::schedule::pin);
    pinned.unwrap_or_else(|error| eprintln!("quiver: bench: {what} is not kept on its core: {error}"));
}

fn machine() -> Machine {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Machine {
        cpu: model.map_or("unknown", |(_, name)| name.trim()).to_string(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        tsc_mhz: time::ticks_per_second() / 1e6,
        kernels: format!("{:?}", wire::batch::Simd::detected()).to_lowercase(),
        build: if cfg!(debug_assertions) { "debug" } else { "release" },
        huge_pages: false,
    }
}

/// A router with one stream for each of its workers.
struct Bed {
    router: Router,
    lanes: Vec<Lane>,
}

/// A worker with its packets.
struct Lane {
    worker: Worker,
    thread: usize,
    counters: SharedCounters,
    nodes: Vec<(String, NodeIndex)>,
    template: Template,
    cold: bool,
    handoff: bool,
}

impl Bed {
    fn new(scenario: &str, options: &Options) -> Result<Bed, router::Error> {
        let workers = usize::from(options.workers);
        let buffers = BUFFERS * u32::from(options.workers);
        let mut router = capabilities::router(RouterOptions { buffers, workers, ..RouterOptions::default() })?;
        let all = (0..workers).map(|thread| router.graph.worker(thread).expect("each worker has a place"));
        let all: Vec<Worker> = all.collect();
        let device = router.create_interface("pg0", pg::open(0))?;
        router.set_admin(device, true)?;
        let station = router.interfaces.get(device)?.mac;
        let rx = match options.vlan {
            0 => device,
            tags => sub_interface(&mut router, device, VLANS[0], tags)?,
        };
        let prefix = |text: &str| text.parse::<Prefix4>().expect("a prefix");
        let routes = Scenario::of(scenario);
        match routes.family() {
            Family::Ip4 => router.add_address(rx, prefix("100.64.1.1/24"))?,
            Family::Ip6 => router.add_address6(rx, "fd00:1::1/64".parse().expect("a prefix"))?,
        }
        if options.urpf {
            let check = SourceCheck { mode: source_check::Mode::Strict, allow_default: false };
            router.set_source_check(rx, routes.family(), Some(check))?;
        }
        let mut sinks = Vec::new();
        for (number, network) in routes.networks().enumerate() {
            let sink = router.create_interface(&format!("null{number}"), drivers::null::open(number as u32))?;
            router.set_admin(sink, true)?;
            let tx = match options.vlan {
                0 => sink,
                tags => sub_interface(&mut router, sink, VLANS[0], tags)?,
            };
            match network {
                Prefix::V4(network) => router.add_address(tx, network)?,
                Prefix::V6(network) => router.add_address6(tx, network)?,
            }
            sinks.push(tx);
        }
        let other = match options.mix {
            Some(Mix::Vlans) => Some(sub_interface(&mut router, device, VLANS[1], options.vlan)?),
            Some(Mix::Shapes) => Some(device),
            None => None,
        };
        match (other, routes.family()) {
            (Some(other), Family::Ip4) => router.add_address(other, prefix("100.64.3.1/24"))?,
            (Some(other), Family::Ip6) => router.enable_ip6(other)?,
            (None, _) => {}
        }
        // If buffers are not rewritten, what was sent is received again.
        for (hop, tx) in routes.hops().zip(sinks.iter().cycle()) {
            router.set_neighbour(NeighbourKey::new(*tx, hop), station, true)?;
        }
        routes.install(&mut router)?;
        if options.handoff {
            let every = format!("0-{}", workers - 1).parse().expect("a list of workers");
            handoff::set(&mut router, device, Some(Handoff { workers: every, symmetrical: false }))?;
        }
        let on = if options.elsewhere { sinks[0] } else { rx };
        features::enable(&mut router, routes.family(), options.features, on)?;
        let mut template = template(station, &routes, options);
        let entry = if scenario == "dumb" { Some(dumb_edge(&mut router.graph)?) } else { None };
        for thread in 0..workers {
            let content = match (options.cold, options.mix) {
                (true, _) => Content::AsTheyAre(options.size),
                (false, Some(Mix::Shapes)) => Content::Replay(every_other_untagged(&mut template, options)),
                (false, _) => Content::Template(Box::new(template.clone())),
            };
            let mut stream = Stream::new(&format!("bench-{thread}"), device, content);
            stream.max_frame = options.vector as usize;
            stream.entry = entry.map_or(stream.entry, Entry::frames);
            packet_generator::add(&mut router, stream, thread, String::new(), Vec::new())?;
        }
        let nodes: Vec<_> = router.graph.nodes().into_iter().map(|node| (node.name.clone(), node.index)).collect();
        let lane = |(thread, worker)| Lane {
            worker,
            thread,
            counters: router.graph.counters().clone(),
            nodes: nodes.clone(),
            template: template.clone(),
            cold: options.cold,
            handoff: options.handoff,
        };
        let mut bed = Bed { lanes: all.into_iter().enumerate().map(lane).collect(), router };
        // The interfaces announce themselves: send those frames before packets are laid out.
        let settle = |lane: &mut Lane| while lane.worker.round() == Progress::Worked {};
        for _ in 0..SETTLE {
            bed.lanes.iter_mut().for_each(settle);
            // What was replaced while routes were made takes effect when all workers have begun another round.
            bed.router.tick();
        }
        packet_generator::enable(&mut bed.router, None, true)?;
        for lane in bed.lanes.iter_mut().filter(|lane| lane.cold) {
            lane.worker.core().buffers.set_reuse(Reuse::OldestFreed);
            lane.renew();
        }
        Ok(bed)
    }

    /// Runs all lanes at the same time, each on its own core; returns the windows of each.
    fn windows(&mut self, options: &Options) -> Vec<Vec<Window>> {
        if let [lane] = &mut self.lanes[..] {
            return vec![lane.windows(options, &mut || {})];
        }
        let (start, finished) = (Barrier::new(self.lanes.len()), AtomicUsize::new(0));
        let (start, finished, count) = (&start, &finished, self.lanes.len());
        std::thread::scope(|scope| {
            let run = |lane: &mut Lane| {
                pin(&format!("worker {}", lane.thread), Some(lane.thread as u32));
                let mut together = || {
                    start.wait();
                };
                // Even if it panics: otherwise the others would wait for ever.
                let end = Finish(finished);
                let windows = lane.windows(options, &mut together);
                // Keep running until the last lane has finished, so that all measure under the same load.
                drop(end);
                while finished.load(Ordering::SeqCst) < count {
                    lane.pass(lane.warm_up(options));
                }
                windows
            };
            let running: Vec<_> = self.lanes.iter_mut().map(|lane| scope.spawn(move || run(lane))).collect();
            running.into_iter().map(|lane| lane.join().expect("a lane does not panic")).collect()
        })
    }

    fn measure(&mut self, scenario: &str, options: &Options) -> Outcome {
        let lanes = self.windows(options);
        let sum = |of: &dyn Fn(graph::node::Ledger) -> u64, lanes: &mut [Lane]| {
            lanes.iter_mut().map(|lane| of(lane.worker.core().ledger())).sum::<u64>()
        };
        let lost = sum(&|ledger| ledger.dropped, &mut self.lanes);
        // A preempted worker has no room for handed-over packets; otherwise nothing is lost.
        assert!(lost == 0 || options.handoff, "{scenario}: packets were dropped");
        let dropped = lost as f64 / sum(&|ledger| ledger.received, &mut self.lanes) as f64;
        let mut windows: Vec<Window> = (0..options.repeat.into())
            .map(|window| Window::of_all(lanes.iter().map(|windows| &windows[window])))
            .collect();
        windows.sort_by(|a, b| a.clocks.total_cmp(&b.clocks));
        let median = &windows[windows.len() / 2];
        let (fastest, slowest) = (&windows[0], &windows[windows.len() - 1]);
        Outcome {
            scenario: scenario.into(),
            vector: options.vector,
            size: options.longest(),
            imix: options.imix,
            workers: options.workers,
            tags: options.vlan,
            mix: match options.mix {
                None => "",
                Some(Mix::Vlans) => ", two VLANs",
                Some(Mix::Shapes) => " or none",
            },
            cold: options.cold,
            handoff: options.handoff,
            urpf: options.urpf,
            features: options.features,
            elsewhere: options.elsewhere,
            dropped,
            clocks_per_packet: Spread { min: fastest.clocks, median: median.clocks, max: slowest.clocks },
            mpps: Spread { min: slowest.mpps, median: median.mpps, max: fastest.mpps },
            residue: median.residue,
            generator: median.generator,
            nodes: median.nodes.iter().map(|n| NodeCost { name: n.name.clone(), ..*n }).collect(),
        }
    }
}

/// Counts a lane as finished when dropped.
struct Finish<'a>(&'a AtomicUsize);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Lane {
    /// Writes the packet into every buffer.
    fn renew(&mut self) {
        let template = &mut self.template;
        pg::fill_all_buffers(&mut self.worker.core().buffers, &mut |bytes| {
            template.write_next(bytes);
        });
    }

    /// Clocks, packets and calls of every node so far.
    fn snapshot(&self) -> BTreeMap<String, (u64, u64, u64)> {
        let word = |node: &NodeIndex, word| self.counters.nodes.raw(self.thread, node.0 as usize, word);
        let figures =
            |node| (word(node, node_word::CLOCKS), word(node, node_word::PACKETS), word(node, node_word::CALLS));
        self.nodes.iter().map(|(name, node)| (name.clone(), figures(node))).collect()
    }

    /// Runs until this many packets have been received.
    fn pass(&mut self, packets: u64) {
        let until = self.worker.core().ledger().received + packets;
        while self.worker.core().ledger().received < until {
            for _ in 0..64 {
                let progress = self.worker.round();
                // With hand-off all buffers may be with the other worker for a moment.
                assert!(self.handoff || progress == Progress::Worked, "the stream ran dry");
            }
        }
    }

    /// Packets that it has handled: with hand-off those that it has sent, whichever worker received them.
    fn done(&mut self) -> u64 {
        let ledger = self.worker.core().ledger();
        if self.handoff { ledger.sent } else { ledger.received }
    }

    /// Packets of a window.
    fn packets(&self, options: &Options) -> u64 {
        match self.cold {
            true => WINDOW.min(COLD_ROUNDS * BUFFERS as u64),
            // Small vectors cost more per packet, so fewer packets keep windows alike in time.
            false => WINDOW / (256 / options.vector as u64).clamp(1, 16),
        }
    }

    /// Packets before the first window.
    fn warm_up(&self, options: &Options) -> u64 {
        if self.cold { BUFFERS as u64 } else { WARM_UP.min(self.packets(options)) }
    }

    fn windows(&mut self, options: &Options, start: &mut dyn FnMut()) -> Vec<Window> {
        start();
        self.pass(self.warm_up(options));
        let packets = self.packets(options);
        (0..options.repeat).map(|_| self.window(packets)).collect()
    }

    fn window(&mut self, packets: u64) -> Window {
        if self.cold {
            self.renew();
            // One turn removes from the cache what renewing left there.
            self.pass(BUFFERS as u64);
        }
        let before = self.snapshot();
        let start = (self.done(), time::ticks());
        self.pass(packets);
        let wall = (time::ticks() - start.1) as f64;
        let packets = (self.done() - start.0) as f64;
        let after = self.snapshot();
        let mut window = Window::default();
        let mut counted = 0.0;
        for (name, (clocks, vectors, calls)) in &after {
            let (clocks_before, vectors_before, calls_before) = before[name];
            let (clocks, calls) = ((clocks - clocks_before) as f64, (calls - calls_before) as f64);
            if calls == 0.0 {
                continue;
            }
            counted += clocks;
            if name == "pg-input" {
                window.generator = clocks / packets;
            } else {
                let vectors_per_call = (vectors - vectors_before) as f64 / calls;
                window.nodes.push(NodeCost { name: name.clone(), clocks: clocks / packets, vectors_per_call });
            }
        }
        window.residue = (wall - counted) / packets;
        window.clocks = wall / packets - window.generator;
        window.mpps = time::ticks_per_second() / window.clocks / 1e6;
        window
    }
}

#[derive(Default)]
struct Window {
    clocks: f64,
    mpps: f64,
    residue: f64,
    generator: f64,
    nodes: Vec<NodeCost>,
}

impl Window {
    /// Combines lanes that ran at the same time: the mean cost of a packet, and the sum of their rates.
    fn of_all<'a>(lanes: impl Iterator<Item = &'a Window>) -> Window {
        let lanes: Vec<&Window> = lanes.collect();
        let mean = |of: &dyn Fn(&Window) -> f64| lanes.iter().map(|lane| of(lane)).sum::<f64>() / lanes.len() as f64;
        let node = |(at, node): (usize, &NodeCost)| NodeCost {
            name: node.name.clone(),
            clocks: mean(&|lane| lane.nodes[at].clocks),
            vectors_per_call: mean(&|lane| lane.nodes[at].vectors_per_call),
        };
        Window {
            clocks: mean(&|lane| lane.clocks),
            mpps: lanes.iter().map(|lane| lane.mpps).sum(),
            residue: mean(&|lane| lane.residue),
            generator: mean(&|lane| lane.generator),
            nodes: lanes[0].nodes.iter().enumerate().map(node).collect(),
        }
    }
}

/// The VLANs of the sub-interfaces.
const VLANS: [u16; 2] = [100, 101];

/// A sub-interface with `tags` tags, the inner one of VLAN 20, that is up.
fn sub_interface(
    router: &mut Router,
    parent: InterfaceIndex,
    vlan: u16,
    tags: u16,
) -> Result<InterfaceIndex, router::Error> {
    let inner = (tags == 2).then_some(Vid::Is(20));
    let takes = VlanMatch::Tagged { outer_type: EtherType::VLAN, outer: Vid::Is(vlan), inner, exact: true };
    let index = router.create_sub_interface(parent, vlan.into(), takes)?;
    router.set_admin(index, true)?;
    Ok(index)
}

/// Frames of the template; every other one has no tags.
fn every_other_untagged(template: &mut Template, options: &Options) -> Vec<Vec<u8>> {
    let frame = |n: usize| {
        let mut bytes = vec![0; options.size.into()];
        template.write_next(&mut bytes);
        if n % 2 == 1 {
            bytes.drain(12..12 + TAG_LEN * usize::from(options.vlan));
        }
        bytes
    };
    (0..1024).map(frame).collect()
}

/// The edge from the generator directly to the null device.
fn dumb_edge(graph: &mut Graph) -> Result<u16, router::Error> {
    let input = graph.find("pg-input")?;
    Ok(graph.connect(input, "null0-tx")?)
}

/// UDP packets to the station; to one destination, or to destinations in all routes.
fn template(station: MacAddress, routes: &Scenario, options: &Options) -> Template {
    let Options { vlan: tags, mix, .. } = *options;
    let size = u64::from(options.longest());
    let ports = if options.handoff || routes.paths > 1 { "1024 + 65535" } else { "1234" };
    let outer = match mix {
        Some(Mix::Vlans) => format!("{} - {}", VLANS[0], VLANS[1]),
        _ => VLANS[0].to_string(),
    };
    let tags = ["", &format!("vlan {outer}"), &format!("vlan {outer} vlan 20")][usize::from(tags)].to_string();
    let link = format!("02:00:00:00:00:aa -> {station} {tags}");
    let text = match routes.family() {
        Family::Ip4 if routes.is_labelled() => {
            format!("MPLS: {link} IP4: label 16 ttl 255 UDP: 100.64.1.2 -> 16.0.0.1 ttl 255 UDP: {ports} -> 5678")
        }
        Family::Ip4 => format!("IP4: {link} UDP: 100.64.1.2 -> 16.0.0.1 ttl 255 UDP: {ports} -> 5678"),
        Family::Ip6 => format!("IP6: {link} UDP: fd00:1::2 -> 2001:db8:16::1 hop-limit 255 UDP: {ports} -> 5678"),
    };
    let template = Template::parse(&text, Some((size, size, Vary::Increment)), First::Ethernet).expect("a template");
    let template = if options.imix { template.of_sizes(IMIX.to_vec()) } else { template };
    if routes.routes() == 1 { template } else { template.to_each_of(routes.destinations()) }
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    write(&mut text, report).expect("a string takes all");
    text
}

fn write_memif(f: &mut String, results: &[memif::Outcome]) -> fmt::Result {
    if results.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nmemif: from another core and back to it; median (min-max) of windows")?;
    writeln!(
        f,
        "  scenario   bytes  offered  Mpps \
         back             Gbit/s  clocks/packet         vector      lost  ready  line from core to core"
    )?;
    for result in results {
        let spread =
            |it: &Spread, digits: usize| format!("{:.digits$} ({:.digits$}-{:.digits$})", it.median, it.min, it.max);
        let offered = result.offered_mpps.map_or("all".into(), |mpps| format!("{mpps:.1}"));
        let clocks = result.clocks_per_packet.as_ref().map_or("-".into(), |it| spread(it, 1));
        writeln!(
            f,
            "  {:<10} {:>5}  {offered:>7}  {:<20}  {:>6.1}  {clocks:<20}  {:>6}  {:>7.4}%  {:>4.0}%  {}",
            result.scenario,
            result.size,
            spread(&result.mpps, 2),
            result.mpps.median * f64::from(result.size) * 8e-3,
            result.vector.map_or("-".into(), |packets| format!("{packets:.0}")),
            result.lost * 100.0,
            result.ready * 100.0,
            spread(&result.line_clocks, 0),
        )?;
    }
    Ok(())
}

fn write_churn(f: &mut String, result: &churn::Outcome) -> fmt::Result {
    writeln!(f, "\n{}: median (min-max) of windows", churn::NAME)?;
    let rows = [
        ("Mpps alone", &result.quiet_mpps),
        ("Mpps beside changes", &result.churn_mpps),
        ("fall, per cent", &result.fall_percent),
        ("million changes a second", &result.changes_mps),
    ];
    for (what, spread) in rows {
        writeln!(f, "  {what:<26}{:>10.2} ({:.2}-{:.2})", spread.median, spread.min, spread.max)?;
    }
    writeln!(
        f,
        "  {:<26}{:>9}{:>9}{:>9}{:>9}{:>7}{:>10}{:>7}{:>11}",
        "microseconds a round", "50%", "99%", "99.99%", "most", ">1 ms", "own most", ">1 ms", "rounds"
    )?;
    let rows = [
        ("alone", &result.quiet_round_us),
        ("beside changes", &result.churn_round_us),
        ("bare loop beside changes", &result.probe_us),
        ("reading loop", &result.reading_probe_us),
    ];
    for (what, p) in rows {
        writeln!(
            f,
            "  {what:<26}{:>9.2}{:>9.2}{:>9.2}{:>9.1}{:>7}{:>10.1}{:>7}{:>11}",
            p.p50, p.p99, p.p9999, p.max, p.over_1ms, p.own_max, p.own_over_1ms, p.rounds
        )?;
    }
    let churn::Outcome { sampled, astray, dropped, .. } = result;
    writeln!(f, "  {sampled} packets looked at, {astray} went where neither route led; {dropped} dropped")
}

fn write(f: &mut String, report: &Report) -> fmt::Result {
    let m = &report.machine;
    writeln!(f, "{} ({} cores), TSC {:.0} MHz, {} kernels, {} build", m.cpu, m.cores, m.tsc_mhz, m.kernels, m.build)?;
    if m.build == "debug" {
        writeln!(f, "This is a debug build: its figures say nothing.")?;
    }
    write_memif(f, &report.memif)?;
    for notices::Outcome { operation, heard_us } in &report.notices {
        let Spread { min, median, max } = heard_us;
        writeln!(f, "notices, {operation}: heard by another thread after {median:.0} us ({min:.0}-{max:.0})")?;
    }
    for result in &report.pic {
        let (outage, control, lost) = (&result.outage_us, &result.control_us, &result.lost_packets);
        writeln!(
            f,
            "\npic, {} prefixes behind one next hop: {:.0} us without a way ({:.0}-{:.0}), {:.0} packets lost \
             ({:.0}-{:.0}); \
             {:.0} us on control ({:.0}-{:.0})",
            result.prefixes,
            outage.median,
            outage.min,
            outage.max,
            lost.median,
            lost.min,
            lost.max,
            control.median,
            control.min,
            control.max
        )?;
    }
    report.churn.iter().try_for_each(|result| write_churn(f, result))?;
    for result in &report.programming {
        writeln!(f, "\n{}: {} routes, us a route: median (min-max)", result.scenario, result.routes)?;
        let rows = [
            ("add bulk", &result.add_bulk_us),
            ("add bulk, new memory", &result.add_bulk_fresh_us),
            ("delete bulk", &result.delete_bulk_us),
            ("add single", &result.add_single_us),
            ("replace single", &result.replace_single_us),
            ("delete single", &result.delete_single_us),
        ];
        for (what, spread) in rows {
            writeln!(f, "  {what:<22}{:>10.3} ({:.3}-{:.3})", spread.median, spread.min, spread.max)?;
        }
        let bytes = &result.bytes_per_route;
        writeln!(f, "  {:<22}{:>10.1} ({:.1}-{:.1})", "bytes a route", bytes.median, bytes.min, bytes.max)?;
        writeln!(f, "  {:<22}{:>10.0}  (100 routes)", "bytes a further table", result.bytes_per_vrf)?;
        let (before, after) = (result.resident_before >> 10, result.resident_after >> 10);
        writeln!(f, "  resident before {before} KiB, after all were deleted {after} KiB")?;
    }
    for result in &report.results {
        let c = &result.clocks_per_packet;
        writeln!(
            f,
            "\n{}: {:.1} clocks/packet (min {:.1}, max {:.1}), {:.1} Mpps; vectors of {}, frames of {}{}{}{}{}{}",
            result.scenario,
            c.median,
            c.min,
            c.max,
            result.mpps.median,
            result.vector,
            if result.imix { "66 to 1514, mean 353".to_string() } else { result.size.to_string() },
            match result.tags {
                0 => String::new(),
                tags => format!(", VLAN tags: {tags}{}", result.mix),
            },
            if result.cold { ", cold" } else { "" },
            if result.urpf { ", sources checked" } else { "" },
            match (result.features, result.elsewhere) {
                (0, _) => String::new(),
                (count, true) => format!(", {count} features elsewhere"),
                (count, false) => format!(", {count} features"),
            },
            match result.workers {
                1 => String::new(),
                workers => format!(", {workers} workers"),
            },
        )?;
        if result.handoff {
            let percent = 100.0 * result.dropped;
            writeln!(f, "  handed among workers by flow; {percent:.2} % dropped on the way, not counted above")?;
        }
        writeln!(f, "  {:<28}{:>10}{:>16}", "Node", "Clocks", "Vectors/Call")?;
        for node in &result.nodes {
            writeln!(f, "  {:<28}{:>10.2}{:>16.2}", node.name, node.clocks, node.vectors_per_call)?;
        }
        writeln!(f, "  {:<28}{:>10.2}", "(between nodes)", result.residue)?;
        writeln!(f, "  {:<28}{:>10.2}  not included", "(generator)", result.generator)?;
    }
    Ok(())
}
