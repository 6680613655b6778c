//! One run: what is sent, for how long, through which device; and its report.

use crate::device::fault_injection::FaultInjection;
use crate::device::kernel::KernelDevice;
use crate::device::process::Process;
use crate::device::quiver::QuiverDevice;
use crate::device::reference::{Counts, Impairments, wire};
use crate::device::testpmd::TestpmdDevice;
use crate::energy::{Energy, Meters, Watts};
use crate::load::{Lost, WorkerLoad};
use crate::others::{BEFORE, CoreUse, Others, OthersMeter};
use crate::port::PortSpec;
use crate::probe::{line_clocks, probe};
use crate::profile::Profile;
use crate::rate::Rate;
use crate::report::{
    Carried, FORMAT, INTERRUPT, Machine, PauseReport, Percentiles, PortReport, Report, Sample, SamplePort,
    StreamReport, TOLERANCE, share,
};
use crate::tester::{Counted, Cut, Finished, Options, Outcome, TestError, Tester};
use crate::verdict::Verdict;
use graph::time;
use std::fmt;
use std::process::Command;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long each core is watched before a run.
const PROBE: Duration = Duration::from_millis(100);
/// Timeout for a router under test to resolve its neighbours.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a run checks whether it must end.
const LOOK: Duration = Duration::from_millis(50);

/// What is between the ports.
#[derive(Debug, Clone, PartialEq)]
pub enum DeviceSpec {
    /// An outside device, behind the ports that are given.
    Outside,
    /// This program's router, in this process, with injected faults.
    Quiver(FaultInjection),
    /// The reference device, in this process.
    Reference(Impairments),
    /// Ports that discard: measures how fast packets are made.
    Null,
    /// Linux, in a network namespace.
    Kernel,
    /// DPDK's dpdk-testpmd.
    Testpmd,
    /// A device that a command starts, behind the ports that are given.
    Command(String),
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            DeviceSpec::Outside => "outside",
            DeviceSpec::Quiver(plant) if *plant != FaultInjection::default() => return write!(f, "quiver:{plant}"),
            DeviceSpec::Quiver(_) => "quiver",
            DeviceSpec::Reference(_) => "reference",
            DeviceSpec::Null => "null",
            DeviceSpec::Kernel => "kernel",
            DeviceSpec::Testpmd => "testpmd",
            DeviceSpec::Command(command) => command,
        })
    }
}

impl FromStr for DeviceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<DeviceSpec, String> {
        match text.split_once(':').unwrap_or((text, "")) {
            ("quiver", plant) => plant.parse().map(DeviceSpec::Quiver),
            ("outside", "") => Ok(DeviceSpec::Outside),
            ("null", "") => Ok(DeviceSpec::Null),
            ("reference", impairments) => impairments.parse().map(DeviceSpec::Reference),
            ("kernel", "") => Ok(DeviceSpec::Kernel),
            ("testpmd", "") => Ok(DeviceSpec::Testpmd),
            ("exec", command) if !command.is_empty() => Ok(DeviceSpec::Command(command.into())),
            _ => Err(format!(
                "'{text}' is no device: there are 'quiver[:card=1mpps,...]', 'kernel', 'testpmd', 'null', \
                 'reference[:lose=1000,delay=1ms,...]' and, behind ports, 'exec:COMMAND' and 'outside'"
            )),
        }
    }
}

impl DeviceSpec {
    pub fn is_quiver(&self) -> bool {
        matches!(self, DeviceSpec::Quiver(_))
    }

    /// Whether the device is behind ports that are given.
    pub fn is_outside(&self) -> bool {
        matches!(self, DeviceSpec::Outside | DeviceSpec::Command(_))
    }
}

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub profile: Profile,
    pub device: DeviceSpec,
    /// The ports that an outside device is connected to.
    pub ports: Vec<PortSpec>,
    /// The speed of every port's line, in place of the known one.
    pub line: Option<f64>,
    pub rate: Rate,
    /// Both ports of each pair send.
    pub is_bidirectional: bool,
    /// Each port ends after this many packets.
    pub packets: Option<u64>,
    pub duration: Duration,
    pub interval: Duration,
    /// The run ends when nothing has arrived for this long after the last packet was sent.
    pub drain: Duration,
    /// Receive queues of the router under test (default: as many as workers), and its workers if no cores are given
    /// (default: one).
    pub device_queues: Option<u16>,
    pub device_workers: Option<usize>,
    /// Routes that the router under test gets in addition to its own: this many prefixes, distributed as in the
    /// Internet.
    pub routes: Option<usize>,
    /// Cores of the load tester's workers, and of the router under test; none: chosen automatically.
    pub cores: Option<Vec<u32>>,
    pub device_cores: Option<Vec<u32>>,
    pub buffers: u32,
    /// Packets are accounted for one by one; else they are only counted by port.
    pub accounts: bool,
    /// Readings of a power meter at the plug.
    pub watts: Option<Watts>,
    /// Percent of a core that other programs may use: more falsifies what is lost or not sent.
    pub others: f64,
}

/// The processes of a device outside this process.
#[derive(Default)]
struct Started {
    kernel: Option<KernelDevice>,
    testpmd: Option<TestpmdDevice>,
    process: Option<Process>,
}

impl Started {
    /// Fails if it has exited, with the reason.
    fn check(&mut self) -> Result<(), String> {
        self.testpmd.as_mut().map_or(Ok(()), TestpmdDevice::check)?;
        self.process.as_mut().map_or(Ok(()), Process::check)
    }
}

/// Controls a run while it goes on.
pub trait RunPolicy {
    /// The rate from now on, at this many seconds after the start; none: unchanged. Called twenty times a second.
    fn rate(&mut self, _at: f64) -> Option<Rate> {
        None
    }
    /// A sample was taken.
    fn sampled(&mut self, _sample: &Sample) {}
    /// Whether the run is to be interrupted.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// The load tester with the device under test, ready to run.
pub struct Bench {
    pub tester: Tester,
    pub device: Option<QuiverDevice>,
    started: Started,
    reference: Vec<Arc<Counts>>,
    pub cores: Vec<Option<u32>>,
    probe: Vec<crate::probe::Probe>,
    line_clocks: Option<f64>,
    meters: Option<Meters>,
    others: OthersMeter,
    /// What other programs used before the run, and how many seconds that was measured.
    before: (Vec<CoreUse>, f64),
}

impl Bench {
    /// Opens ports and devices, and waits until packets can be sent.
    ///
    /// # Errors
    /// What cannot be opened, or does not answer.
    pub fn new(plan: &Plan) -> Result<Bench, TestError> {
        let (cores, device_cores) = choose(plan);
        let meters = if plan.watts.is_none() { Meters::here() } else { None };
        let probe = probe(&cores, PROBE);
        let line_clocks = match (&plan.device, cores.first(), device_cores.first()) {
            (DeviceSpec::Quiver(_), Some(Some(own)), Some(Some(device))) if own != device => {
                Some(line_clocks(*own, *device))
            }
            _ => None,
        };
        // Other devices run on the load tester's cores, or outside this machine.
        let has_cores = matches!(plan.device, DeviceSpec::Quiver(_) | DeviceSpec::Testpmd);
        let watched = [&cores[..], if has_cores { &device_cores[..] } else { &[] }].concat();
        let others = OthersMeter::new(&watched);
        let mut device = match plan.device {
            DeviceSpec::Quiver(plant) => {
                Some(QuiverDevice::start(&device_cores, plan.device_queues, plant).map_err(TestError::Other)?)
            }
            _ => None,
        };
        if let (Some(device), Some(routes)) = (&mut device, plan.routes) {
            device.add_routes(routes).map_err(TestError::Other)?;
        }
        let mut tester = Tester::new(&Options { cores: cores.clone(), buffers: plan.buffers })?;
        let mut reference = Vec::new();
        let wrong = TestError::Other;
        let mut started = Started::default();
        let own: Vec<String> = match (&plan.device, &device) {
            (DeviceSpec::Quiver(_), Some(device)) => device.ports.to_vec(),
            (DeviceSpec::Kernel, _) => started.kernel.insert(KernelDevice::start().map_err(wrong)?).ports.to_vec(),
            (DeviceSpec::Testpmd, _) => {
                let core = device_cores.first().copied().flatten();
                started.testpmd.insert(TestpmdDevice::new(core)).ports.to_vec()
            }
            (DeviceSpec::Command(line), _) => {
                let mut command = Command::new("sh");
                command.args(["-c", &format!("exec {line}")]);
                started.process = Some(Process::start(command).map_err(wrong)?);
                Vec::new()
            }
            (DeviceSpec::Null, _) => vec!["null".into(), "null".into()],
            (DeviceSpec::Reference(impairments), _) => {
                let wire = wire(impairments);
                for (number, end) in wire.ends.into_iter().enumerate() {
                    tester.add_device(&format!("reference:{number}"), end)?;
                }
                reference = wire.counts.into();
                Vec::new()
            }
            _ => Vec::new(),
        };
        let is_outside = plan.device.is_outside();
        if is_outside && plan.ports.is_empty() {
            return Err(TestError::Other(
                "there are no ports: name some ('--port'), or a device in this process ('--dut')".into(),
            ));
        }
        for port in own {
            let spec = port.parse::<PortSpec>().map_err(|error| TestError::Other(error.to_string()))?;
            tester.add_port(&spec)?;
        }
        if is_outside {
            for spec in &plan.ports {
                tester.add_port(spec)?;
            }
        }
        for number in 0..tester.ports().len() {
            let port = tester.port_mut(number);
            port.line = plan.line.or(port.line);
        }
        if let Some(testpmd) = &mut started.testpmd {
            testpmd.start().map_err(wrong)?;
        }
        let ready = tester.await_ready(&mut || device.iter_mut().for_each(QuiverDevice::tick));
        // A process that has exited gives a better reason than a timeout.
        started.check().map_err(wrong)?;
        ready?;
        if let Some(device) = &mut device {
            let end = Instant::now() + PATIENCE;
            while !device.is_ready() {
                if Instant::now() > end {
                    return Err(TestError::Other("the router under test does not find its neighbours".into()));
                }
                tester.wait(Instant::now() + LOOK / 5, &mut || device.tick());
            }
        }
        let before = Default::default();
        Ok(Bench { tester, device, started, reference, cores, probe, line_clocks, meters, others, before })
    }

    /// Fails if a device that was started has exited.
    ///
    /// # Errors
    /// Its exit code and the end of its output.
    pub fn check(&mut self) -> Result<(), String> {
        self.started.check()
    }

    /// How the device under test is run, as far as that is known: its version, its workers, whether they poll.
    pub fn device_mode(&self) -> Option<String> {
        if self.started.kernel.is_some() {
            let kernel = Machine::here(&[]).kernel;
            return Some(format!("Linux {kernel}, routing in a network namespace behind two pairs of veth"));
        }
        let testpmd = self.started.testpmd.as_ref().map(TestpmdDevice::mode);
        testpmd.or_else(|| self.device.as_ref().map(QuiverDevice::mode))
    }

    /// The machine that it runs on.
    pub fn machine(&self) -> Machine {
        Machine::here(&self.cores)
    }

    /// Runs once.
    ///
    /// # Errors
    /// When there is nothing to run. A later failure ends the run, and is in the report.
    pub fn run(&mut self, plan: &Plan, conduct: &mut dyn RunPolicy) -> Result<Report, TestError> {
        let ports = self.tester.ports().len();
        let senders: Vec<usize> = (0..ports).filter(|port| plan.is_bidirectional || port % 2 == 0).collect();
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        self.show("clear runtime");
        self.show("clear errors");
        self.tester.execute("clear runtime")?;
        let before: Vec<_> = (0..ports).map(|port| self.tester.port_counted(port)).collect();
        // Ignore packets only during the run: before it, answers of gateways must be read.
        self.tester.set_blind(!plan.accounts)?;
        self.meters.iter_mut().for_each(Meters::start);
        self.look_at_others_before();
        self.tester.start(&plan.profile, &senders, plan.rate, plan.packets)?;
        let (mut samples, begun, mut sampled, mut rate) = (Vec::new(), Instant::now(), 1, plan.rate);
        let ended = loop {
            let device = &mut self.device;
            let next_sample = begun + plan.interval * sampled;
            let until = (begun + plan.duration).min(next_sample).min(Instant::now() + LOOK);
            self.tester.wait(until, &mut || device.iter_mut().for_each(QuiverDevice::tick));
            self.others.poll();
            if Instant::now() >= next_sample {
                sampled += 1;
                self.meters.iter_mut().for_each(Meters::poll);
                if let Some(sample) = self.sample() {
                    conduct.sampled(&sample);
                    samples.push(sample);
                }
            }
            if let Some(other) = conduct.rate(begun.elapsed().as_secs_f64()).filter(|other| *other != rate) {
                rate = other;
                self.tester.set_rate(None, rate)?;
            }
            if let Err(why) = self.started.check() {
                break why;
            }
            if conduct.is_interrupted() {
                break INTERRUPT.to_string();
            }
            if let Some(number) = self.tester.down() {
                break format!(
                    "port {number} ({}): its link went down after {:.1} s",
                    self.tester.ports()[number].name,
                    self.tester.elapsed()
                );
            }
            if begun.elapsed() >= plan.duration {
                break "duration".into();
            }
            if self.tester.has_ended() {
                break "sent".into();
            }
        };
        let during = self.others.take();
        let runtime = self.show("show runtime");
        let seconds = begun.elapsed().as_secs_f64();
        let device_load =
            self.device.as_ref().map(|device| WorkerLoad::of(&device.router, seconds)).unwrap_or_default();
        let own_load = WorkerLoad::of(self.tester.router(), seconds);
        // Counted by port, because that is known without accounting, too.
        let brought = |(port, before): (usize, &[(u64, u64); 2])| self.tester.port_counted(port)[0].0 - before[0].0;
        let forwarded = before.iter().enumerate().map(brought).sum::<u64>() as f64 / seconds;
        let energy = match (plan.watts, &mut self.meters) {
            (Some(watts), _) => Energy::given(watts, forwarded),
            (None, meters) => meters.as_mut().and_then(|meters| meters.energy(forwarded)),
        };
        let own_runtime = self.tester.execute("show runtime")?;
        let device = &mut self.device;
        let outcome = self.tester.stop(plan.drain, &mut || device.iter_mut().for_each(QuiverDevice::tick))?;
        self.tester.set_blind(false)?;
        complete(&mut samples, &outcome, plan.interval);
        let carried = |(port, before): (usize, [(u64, u64); 2])| {
            let [received, sent] = self.tester.port_counted(port);
            let [had_received, had_sent] = before;
            Carried { port, received_packets: received.0 - had_received.0, sent_packets: sent.0 - had_sent.0 }
        };
        let carried = before.into_iter().enumerate().map(carried).collect();
        let device_drops = self.device.as_ref().map(|device| Lost::of(&device.router)).unwrap_or_default();
        let report = self.report(plan, outcome, started, ended, samples);
        let (before, before_seconds) = self.before.clone();
        let others = Others { limit: plan.others, before_seconds, seconds: during.1, before, during: during.0 };
        let has_cards = matches!(plan.device, DeviceSpec::Quiver(plant) if plant.card.is_some());
        let report = Report { others, has_cards, ..report };
        let report = Report { runtime, own_runtime, carried, device_load, own_load, device_drops, energy, ..report };
        Ok(Report { verdict: report.judge(), ..report })
    }

    /// Measures what other programs use of the cores while nothing is sent: before the first run for a while, between
    /// runs if there is enough time.
    fn look_at_others_before(&mut self) {
        let watched = self.others.watched();
        if self.before.0.is_empty() && watched < BEFORE {
            let device = &mut self.device;
            let until = Instant::now() + (BEFORE - watched);
            self.tester.wait(until, &mut || device.iter_mut().for_each(QuiverDevice::tick));
        }
        let before = self.others.take();
        if self.before.0.is_empty() || before.1 >= BEFORE.as_secs_f64() {
            self.before = before;
        }
    }

    /// The reply of the router under test to a command, if the router is in this process.
    fn show(&mut self, command: &str) -> Option<String> {
        let device = self.device.as_mut()?;
        Some(
            device
                .commands
                .execute(&mut device.router, command)
                .map_or_else(|error| error.to_string(), |reply| reply.text()),
        )
    }

    /// Takes a sample. None: a worker was late, so the next sample includes this one's packets; or there are as many
    /// samples as are kept.
    fn sample(&mut self) -> Option<Sample> {
        let Cut { epoch, at, counted } = self.tester.cut()?;
        let ports = self.tester.running().iter().map(|stream| stream.port);
        Some(sample(at, epoch, &ports.zip(counted).collect::<Vec<_>>()))
    }

    fn report(&self, plan: &Plan, outcome: Outcome, started: f64, ended: String, samples: Vec<Sample>) -> Report {
        let Outcome {
            streams, seconds, lateness, pauses, pause_count, away, began, rate_changed, drained, heard, ..
        } = outcome;
        let named = |number: usize| {
            let port = &self.tester.ports()[number];
            (port.name.clone(), port.line)
        };
        let ports = Report::ports_of(&streams, named, seconds);
        let is_limited = plan.rate != Rate::Maximum;
        let not_sent = ports.iter().map(|port| port.counts.not_sent_share()).fold(0.0, f64::max);
        let kept_rate = !is_limited || not_sent <= TOLERANCE;
        let mut notes = Vec::new();
        if !kept_rate {
            notes.push(format!(
                "THE GENERATOR DID NOT KEEP ITS RATE: {} of what was due was not sent. Loss is of what was sent.",
                share(not_sent)
            ));
        } else if is_limited && not_sent > 0.0 {
            notes.push(format!("{} of what was due was not sent; that is no loss of the device.", share(not_sent)));
        }
        if self.probe.iter().any(|probe| probe.pauses > 0) || pause_count > 0 {
            let longest = pauses.iter().map(|(.., length)| length.as_secs_f64() * 1e6).fold(0.0, f64::max);
            let bare = self.probe.iter().map(|probe| probe.longest_us).fold(0.0, f64::max);
            notes.push(format!(
                "The machine preempts: the generator was preempted {pause_count} times, {longest:.0} us at most; \
                 with nothing to do, before \
                 the run, {bare:.0} us at most."
            ));
        }
        for (number, heard) in heard.iter().enumerate() {
            let lost = |port: &PortReport| port.to == number && port.counts.lost_packets > 0;
            if heard.missed_packets > 0 {
                notes.push(format!(
                    "Port {number}: {} packets came that the load tester did not get: the system dropped them, or \
                     buffers ran \
                     out. That is its own loss: more '--cores', more '--buffers', or a lower rate.",
                    heard.missed_packets
                ));
            } else if heard.is_full() && ports.iter().any(lost) {
                notes.push(format!(
                    "Port {number}: nearly always a whole vector was waiting, {} of {} times: the load tester was \
                     at its \
                     limit, and loss may be for want of room in front of it.",
                    heard.full_rounds, heard.rounds
                ));
            }
        }
        if !plan.accounts {
            notes.push("Nothing was accounted for, as was asked: only ports count.".into());
        }
        for stream in streams.iter().filter(|stream| plan.accounts && !stream.running.program.is_tagged()) {
            notes.push(format!(
                "Stream {}: its packets have no room for a tag: only what is sent is known.",
                stream.running.program.name
            ));
        }
        let unheard = streams.iter().filter(|stream| !stream.running.is_heard).map(|stream| stream.running.to);
        for port in unheard.collect::<std::collections::BTreeSet<_>>() {
            notes.push(format!("Port {port} brings nothing: what became of packets to it is not known."));
        }
        for (counts, way) in self.reference.iter().zip(["0>1", "1>0"]) {
            notes.push(format!("The reference device itself, {way}: {counts}."));
        }
        Report {
            format: FORMAT,
            others: Others::default(),
            has_cards: false,
            program: format!("quiver {}", env!("CARGO_PKG_VERSION")),
            machine: Machine::here(&self.cores),
            started,
            profile: plan.profile.name.clone(),
            description: plan.profile.description.clone(),
            device: plan.device.to_string(),
            device_mode: self.device_mode(),
            rate: plan.rate.to_string(),
            seconds,
            drained_seconds: drained.as_secs_f64(),
            rate_changed_at: rate_changed.map(|at| time::seconds(at.saturating_sub(began))),
            ended,
            planned_seconds: plan.duration.as_secs_f64(),
            kept_rate,
            ports,
            streams: streams.iter().map(|stream| StreamReport::new(stream, seconds, began)).collect(),
            samples,
            lateness: is_limited.then(|| Percentiles::of(&lateness, 0)).flatten(),
            probe: self.probe.clone(),
            pauses: pauses
                .iter()
                .map(|(worker, at, length)| PauseReport { worker: *worker, at: *at, us: length.as_secs_f64() * 1e6 })
                .collect(),
            pause_count,
            away_seconds: away,
            carried: Vec::new(),
            runtime: None,
            heard,
            own_runtime: String::new(),
            device_load: Vec::new(),
            own_load: Vec::new(),
            device_drops: Vec::new(),
            line_clocks: self.line_clocks,
            energy: None,
            verdict: Verdict::default(),
            notes,
        }
    }
}

/// Sets the losses of samples, which are known now, and adds the last sample, which has all sent packets.
fn complete(samples: &mut Vec<Sample>, outcome: &Outcome, interval: Duration) {
    let own = |port: usize| outcome.streams.iter().filter(move |stream| stream.running.port == port);
    for sample in &mut *samples {
        for port in &mut sample.ports {
            port.lost_packets = own(port.port).filter_map(|stream| stream.lost_by.get(sample.epoch)).sum();
        }
    }
    let streams: Vec<(usize, Counted)> = outcome
        .streams
        .iter()
        .map(|Finished { running, counted, at_stop, .. }| {
            let Counted { received, received_bytes, .. } = *at_stop;
            (running.port, Counted { received, received_bytes, ..*counted })
        })
        .collect();
    let at = outcome.stopped_at;
    let mut last = sample(at, usize::MAX, &streams);
    for port in &mut last.ports {
        let known = own(port.port).filter(|stream| stream.running.is_accounted());
        port.lost_packets = known.map(|stream| stream.counted.lost()).sum();
        let received: u64 = own(port.port).map(|stream| stream.counted.received).sum();
        port.drained_packets = received.saturating_sub(port.received_packets);
    }
    // A sample that was taken just before has almost no packets of its own.
    while samples.pop_if(|sample| sample.at > at - interval.as_secs_f64() / 2.0).is_some() {}
    samples.push(last);
}

/// The counts of streams at a time, by port.
fn sample(at: f64, epoch: usize, streams: &[(usize, Counted)]) -> Sample {
    let mut ports: Vec<usize> = streams.iter().map(|(port, _)| *port).collect();
    ports.dedup();
    let port = |port: usize| {
        let own = || streams.iter().filter(|(of, _)| *of == port);
        let sum = |of: fn(&Counted) -> u64| own().map(|(_, counted)| of(counted)).sum();
        SamplePort {
            port,
            sent_packets: sum(|counted| counted.sent),
            sent_bytes: sum(|counted| counted.sent_bytes),
            received_packets: sum(|counted| counted.received),
            received_bytes: sum(|counted| counted.received_bytes),
            lost_packets: 0,
            not_sent: sum(Counted::not_sent),
            drained_packets: 0,
        }
    };
    Sample { at, epoch, ports: ports.into_iter().map(port).collect() }
}

/// Cores of the load tester's workers and of the router under test: a different core for each, while there are enough.
fn choose(plan: &Plan) -> (Vec<Option<u32>>, Vec<Option<u32>>) {
    let available = graph::schedule::available_cores();
    let given =
        |cores: &Option<Vec<u32>>| cores.as_ref().map(|cores| cores.iter().copied().map(Some).collect::<Vec<_>>());
    let own = given(&plan.cores).unwrap_or_else(|| vec![available.first().copied().filter(|_| available.len() > 1)]);
    let device = given(&plan.device_cores).unwrap_or_else(|| {
        let mut free = available.iter().rev().copied().filter(|core| !own.contains(&Some(*core)));
        (0..plan.device_workers.unwrap_or(1)).map(|_| free.next()).collect()
    });
    (own, device)
}
