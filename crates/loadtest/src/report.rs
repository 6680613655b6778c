//! The result of a run, as JSON for programs and as text.

use crate::arithmetic::{Bits, FrameSize, scaled, significant};
use crate::energy::Energy;
use crate::load::{Lost, WorkerLoad};
use crate::others::Others;
use crate::probe::Probe;
use crate::receive::Received;
use crate::receive::heard::Heard;
use crate::tester::{Counted, Finished};
use crate::verdict::{Verdict, VerdictInput};
use graph::time;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};

/// Version of the JSON format: changes when the meaning of the data changes.
pub const FORMAT: &str = "quiver-loadtest/1";
/// A generator that left out a larger share than this of the due packets has not kept its rate: pacing is exact to
/// this.
pub const TOLERANCE: f64 = 0.001;

/// A run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub format: &'static str,
    /// What other programs used of the cores of the test.
    pub others: Others,
    pub program: String,
    pub machine: Machine,
    /// Seconds since 1970.
    pub started: f64,
    pub profile: String,
    pub description: String,
    pub device: String,
    /// How the device is run, as far as that is known.
    pub device_mode: Option<String>,
    /// As the operator gave it.
    pub rate: String,
    /// From the first due packet to the last.
    pub seconds: f64,
    /// How long packets were waited for after that.
    pub drained_seconds: f64,
    /// Seconds from the start to the last change of the rate, if it was changed.
    pub rate_changed_at: Option<f64>,
    /// Why it ended: `duration`, `sent`, `interrupt`, or what failed.
    pub ended: String,
    /// How long it should take.
    pub planned_seconds: f64,
    /// All due packets were sent, except for at most a thousandth. If not, loss says nothing about this rate.
    pub kept_rate: bool,
    pub ports: Vec<PortReport>,
    pub streams: Vec<StreamReport>,
    pub samples: Vec<Sample>,
    /// How late packets were made; one sample for each vector, its first packet.
    pub lateness: Option<Percentiles>,
    pub probe: Vec<Probe>,
    /// When workers of the load tester were preempted: the longest pauses, at most a thousand of each worker. And the
    /// number and total length of all pauses.
    pub pauses: Vec<PauseReport>,
    pub pause_count: u64,
    pub away_seconds: f64,
    /// All traffic of each port.
    pub carried: Vec<Carried>,
    /// How the load tester polled each port: whether it kept up.
    pub heard: Vec<Heard>,
    /// The router's `show runtime` just before sending stops, if the router under test is in this process.
    pub runtime: Option<String>,
    /// The same of the load tester's own nodes.
    pub own_runtime: String,
    /// Clocks that a cache line takes from the load tester's first core to the first core of the router under test.
    pub line_clocks: Option<f64>,
    /// Load of the router's workers, what the router dropped, and load of the load tester's workers.
    pub device_load: Vec<WorkerLoad>,
    /// The ports of the router under test are network cards, not shared memory.
    #[serde(skip)]
    pub has_cards: bool,
    pub device_drops: Vec<Lost>,
    pub own_load: Vec<WorkerLoad>,
    /// The energy used, where it can be read or was given.
    pub energy: Option<Energy>,
    /// What limited the device.
    pub verdict: Verdict,
    pub notes: Vec<String>,
}

/// The machine that it ran on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    #[serde(default)]
    pub host: String,
    pub processor: String,
    pub cores: usize,
    pub ticks_per_second: f64,
    pub kernel: String,
    /// Cores of the load tester's workers.
    pub worker_cores: Vec<Option<u32>>,
}

impl Machine {
    pub fn here(worker_cores: &[Option<u32>]) -> Machine {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Machine {
            host: host.trim().into(),
            processor: model.map_or("unknown", |(_, name)| name.trim()).into(),
            cores: graph::schedule::available_cores().len(),
            ticks_per_second: time::ticks_per_second(),
            kernel: kernel.trim().into(),
            worker_cores: worker_cores.to_vec(),
        }
    }
}

/// Traffic from a port to its peer.
#[derive(Debug, Clone, Serialize)]
pub struct PortReport {
    pub port: usize,
    pub name: String,
    pub to: usize,
    pub line_bps: Option<f64>,
    #[serde(flatten)]
    pub counts: Counts,
    /// Packets a second sent and received, and their bits.
    pub sent_pps: f64,
    pub received_pps: f64,
    pub sent: Bits,
    pub received: Bits,
    /// Percent of the line, counted on the wire; in both directions, each has its own line.
    pub sent_percent_of_line: Option<f64>,
    pub received_percent_of_line: Option<f64>,
}

/// What happened to packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Counts {
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub received_packets: u64,
    pub received_bytes: u64,
    /// Packets sent that had not been received when nothing more arrived.
    pub lost_packets: u64,
    pub lost_share: f64,
    pub not_sent: NotSent,
}

/// Packets that were due and never left: no loss of the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NotSent {
    /// The port's device had no room for them.
    pub refused: u64,
    /// Their time had passed: the generator was too slow, or preempted.
    pub late: u64,
    /// There was no buffer.
    pub starved: u64,
}

impl NotSent {
    pub fn total(&self) -> u64 {
        self.refused + self.late + self.starved
    }
}

impl Counts {
    fn new(all: &[Counted]) -> Counts {
        let sum = |of: fn(&Counted) -> u64| all.iter().map(of).sum::<u64>();
        let (sent, received) = (sum(|counted| counted.sent), sum(|counted| counted.received));
        let lost = sum(Counted::lost);
        Counts {
            sent_packets: sent,
            sent_bytes: sum(|counted| counted.sent_bytes),
            received_packets: received,
            received_bytes: sum(|counted| counted.received_bytes),
            lost_packets: lost,
            lost_share: lost as f64 / (sent as f64).max(1.0),
            not_sent: NotSent {
                refused: sum(|counted| counted.refused),
                late: sum(|counted| counted.late),
                starved: sum(|counted| counted.starved),
            },
        }
    }

    /// As a share of the due packets.
    pub fn not_sent_share(&self) -> f64 {
        let not_sent = self.not_sent.total() as f64;
        not_sent / (self.sent_packets as f64 + not_sent).max(1.0)
    }
}

/// A stream of a port.
#[derive(Debug, Clone, Serialize)]
pub struct StreamReport {
    pub name: String,
    pub port: usize,
    pub to: usize,
    /// In the buffer, as frames, and on the wire.
    pub sizes: Vec<[u32; 3]>,
    /// Packets a second that it should send; none: the maximum rate.
    pub wanted_pps: Option<f64>,
    pub sent_pps: f64,
    /// Its packets are recognised when they arrive, and timed.
    pub accounted: bool,
    pub timed: bool,
    #[serde(flatten)]
    pub counts: Counts,
    pub duplicates: u64,
    pub reordered: u64,
    pub reordering_extent: u64,
    pub too_old: u64,
    pub elsewhere: u64,
    pub gaps: u64,
    pub longest_gap: u64,
    /// One-way delay.
    pub latency: Option<Percentiles>,
    /// Delay beyond the least delay (PDV, RFC 5481 section 3.2).
    pub pdv: Option<Percentiles>,
    /// Difference of delay between consecutive packets, absolute (IPDV, RFC 5481 section 3.1).
    pub ipdv: Option<Percentiles>,
    /// Seconds from the start to the last loss. Its time is when the first packet after the lost one was sent; the end
    /// of the run, if there was none.
    pub last_loss_at: Option<f64>,
    /// The times of the last losses, a few thousand, and whether there were earlier ones.
    #[serde(skip)]
    pub losses_at: Vec<f64>,
    #[serde(skip)]
    pub lost_before: bool,
    /// Seconds from the start to the longest delay.
    pub worst_at: Option<f64>,
    /// The longest delays.
    pub outliers: Vec<Outlier>,
}

/// A delay that stands out, and when it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Outlier {
    /// Seconds from the start.
    pub at: f64,
    pub us: f64,
}

impl StreamReport {
    pub fn new(stream: &Finished, seconds: f64, began: u64) -> StreamReport {
        let (program, received) = (&stream.running.program, &stream.received);
        let is_timed = program.is_timed();
        let since = |at: u64| time::seconds(at.saturating_sub(began));
        let sizes = program.sizes().into_iter().map(|size| {
            let size = FrameSize(size.into());
            [size.buffer(), size.frame(), size.wire()]
        });
        let mut counts = Counts::new(&[stream.counted]);
        if !stream.running.is_accounted() {
            (counts.lost_packets, counts.lost_share) = (0, 0.0);
        }
        StreamReport {
            name: program.name.clone(),
            port: stream.running.port,
            to: stream.running.to,
            sizes: sizes.collect(),
            wanted_pps: stream.running.wanted,
            sent_pps: stream.counted.sent as f64 / seconds.max(f64::MIN_POSITIVE),
            accounted: stream.running.is_accounted(),
            timed: is_timed,
            counts,
            duplicates: received.duplicates,
            reordered: received.reordered,
            reordering_extent: received.reordering_extent,
            too_old: received.too_old,
            elsewhere: received.elsewhere,
            gaps: received.gaps,
            longest_gap: received.longest_gap,
            latency: Percentiles::of(&received.latency, 0).map(|latency| latency.between(received, 0)),
            pdv: Percentiles::of(&received.latency, received.least).map(|pdv| pdv.between(received, received.least)),
            ipdv: Percentiles::of(&received.ipdv, 0),
            outliers: received
                .outliers
                .iter()
                .map(|&(ns, at)| Outlier { at: time::seconds(at.saturating_sub(began)), us: ns as f64 / 1e3 })
                .collect(),
            last_loss_at: received.losses.last().copied().map(since),
            losses_at: received.losses.iter().copied().map(since).collect(),
            lost_before: received.lost_before,
            worst_at: (!received.latency.is_empty()).then(|| time::seconds(received.worst_at.saturating_sub(began))),
        }
    }
}

/// A distribution, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    pub samples: u64,
    pub min: f64,
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub p99_99: f64,
    pub max: f64,
}

impl Percentiles {
    /// From a histogram of nanoseconds, less `less` for each value; none: it is empty.
    pub fn of(histogram: &Histogram<u64>, less: u64) -> Option<Percentiles> {
        if histogram.is_empty() {
            return None;
        }
        let us = |ns: u64| ns.saturating_sub(less) as f64 / 1e3;
        let at = |quantile| us(histogram.value_at_quantile(quantile));
        Some(Percentiles {
            samples: histogram.len(),
            min: us(histogram.min()),
            mean: (histogram.mean() - less as f64).max(0.0) / 1e3,
            p50: at(0.5),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: us(histogram.max()),
        })
    }

    /// The same with the exact least and longest delay, which the histogram keeps to three digits.
    fn between(self, received: &Received, less: u64) -> Percentiles {
        let [min, max] = [received.least, received.longest].map(|ns| (ns - less) as f64 / 1e3);
        let within = |value: f64| value.clamp(min, max);
        let Percentiles { samples, mean, p50, p99, p99_9, p99_99, .. } = self;
        let [mean, p50, p99, p99_9, p99_99] = [mean, p50, p99, p99_9, p99_99].map(within);
        Percentiles { samples, min, mean, p50, p99, p99_9, p99_99, max }
    }
}

/// The counts at some time of the run; packets on their way are sent, but not received.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Seconds from the start.
    pub at: f64,
    /// Which epoch of sequence numbers ends with it.
    #[serde(skip)]
    pub epoch: usize,
    pub ports: Vec<SamplePort>,
}

/// A port at that time.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct SamplePort {
    pub port: usize,
    pub sent_packets: u64,
    pub sent_bytes: u64,
    /// Of the packets that it sent.
    pub received_packets: u64,
    pub received_bytes: u64,
    /// Of the packets sent by then, those that never arrived, by their numbers. Known when the run is over; 0 before.
    pub lost_packets: u64,
    /// Packets that were due by then and not sent.
    pub not_sent: u64,
    /// For the last sample: packets that arrived after it, when sending had stopped.
    pub drained_packets: u64,
}

/// The time between two samples, or from the start to the first: packets sent and received in this time, and the
/// packets sent in it that were lost.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Seconds from the start.
    pub from: f64,
    pub at: f64,
    pub ports: Vec<SamplePort>,
}

impl Interval {
    pub fn seconds(&self) -> f64 {
        self.at - self.from
    }
}

/// The intervals between samples. Together they are the whole run: their sent and lost packets sum to those of the run,
/// and so do received packets together with the drained ones.
pub fn intervals(samples: &[Sample]) -> Vec<Interval> {
    let (mut from, mut before): (f64, &[SamplePort]) = (0.0, &[]);
    let mut all = Vec::new();
    for sample in samples.iter().filter(|sample| sample.at > 0.0) {
        // Two samples of the same time count as one.
        if sample.at <= from {
            continue;
        }
        let port = |port: &SamplePort| {
            let was = before.iter().find(|was| was.port == port.port);
            let less = |of: fn(&SamplePort) -> u64| of(port).saturating_sub(was.map_or(0, of));
            SamplePort {
                port: port.port,
                sent_packets: less(|port| port.sent_packets),
                sent_bytes: less(|port| port.sent_bytes),
                received_packets: less(|port| port.received_packets),
                received_bytes: less(|port| port.received_bytes),
                lost_packets: less(|port| port.lost_packets),
                not_sent: less(|port| port.not_sent),
                drained_packets: port.drained_packets,
            }
        };
        all.push(Interval { from, at: sample.at, ports: sample.ports.iter().map(port).collect() });
        (from, before) = (sample.at, &sample.ports);
    }
    all
}

/// All traffic of a port's device during the run, including packets that are not the load tester's.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Carried {
    pub port: usize,
    pub received_packets: u64,
    pub sent_packets: u64,
}

/// A pause: a worker of the load tester was preempted.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PauseReport {
    pub worker: usize,
    pub at: f64,
    pub us: f64,
}

/// How a run ended, as text: `duration`, `interrupted after 4 of 600 s`.
pub fn ending(ended: &str, seconds: f64, planned: f64) -> String {
    match ended {
        INTERRUPT => interrupted(seconds, Some(planned)),
        other => other.into(),
    }
}

/// The text for an interrupted run, with its seconds and, if known, the seconds planned.
pub fn interrupted(seconds: f64, planned: Option<f64>) -> String {
    // A digit after the point only below ten seconds.
    let told = |seconds: f64| match seconds < 10.0 {
        true => format!("{}", (seconds * 10.0).round() / 10.0),
        false => format!("{seconds:.0}"),
    };
    match planned {
        Some(planned) => format!("interrupted after {} of {} s", told(seconds), told(planned)),
        None => format!("interrupted after {} s", told(seconds)),
    }
}

/// Why a run ended that was interrupted.
pub const INTERRUPT: &str = "interrupt";

/// Why a run ended, if that is a failure.
pub fn failure(ended: &str) -> Option<&str> {
    (!matches!(ended, "duration" | "sent" | "interrupt")).then_some(ended)
}

impl Report {
    /// What limited the device, by these figures. If other programs used the machine, the figures say nothing about it;
    /// but a run without loss at the full rate is valid all the same.
    pub fn judge(&self) -> Verdict {
        let count = |of: fn(&Counts) -> u64| self.ports.iter().map(|port| of(&port.counts)).sum::<u64>();
        let is_whole = self.kept_rate && self.rate != "max" && count(|counts| counts.lost_packets) == 0;
        if let Some(why) = self.others.excess().filter(|_| !is_whole) {
            return Verdict::no_result(why);
        }
        Verdict::from(&VerdictInput {
            is_maximum: self.rate == "max",
            kept_rate: self.kept_rate,
            not_sent_share: self.ports.iter().map(|port| port.counts.not_sent_share()).fold(0.0, f64::max),
            sent: count(|counts| counts.sent_packets),
            lost: count(|counts| counts.lost_packets),
            refused: count(|counts| counts.not_sent.refused),
            own_is_full: self.heard.iter().any(|heard| heard.rounds > 0 && heard.is_full()),
            // Each worker receives its share of the packets.
            away: self.away_seconds / self.own_load.len().max(1) as f64
                * self.ports.iter().map(|port| port.sent_pps).sum::<f64>(),
            in_senders_time: self.device == "kernel",
            has_cards: self.has_cards,
            own_missed: self.heard.iter().map(|heard| heard.missed_packets).sum(),
            workers: &self.device_load,
            drops: &self.device_drops,
        })
    }

    /// Why it ended before its time, unless it was interrupted.
    pub fn failure(&self) -> Option<&str> {
        failure(&self.ended)
    }

    /// Sums streams by the port that sends them.
    pub fn ports_of(
        streams: &[Finished],
        name: impl Fn(usize) -> (String, Option<f64>),
        seconds: f64,
    ) -> Vec<PortReport> {
        let mut numbers: Vec<usize> = streams.iter().map(|stream| stream.running.port).collect();
        numbers.dedup();
        let seconds = seconds.max(f64::MIN_POSITIVE);
        let port = |port: usize| {
            let own: Vec<&Finished> = streams.iter().filter(|stream| stream.running.port == port).collect();
            let counted: Vec<Counted> = own.iter().map(|stream| stream.counted).collect();
            let mut counts = Counts::new(&counted);
            // For packets that are only counted by port, loss is unknown.
            let known: Vec<Counted> =
                own.iter().filter(|stream| stream.running.is_accounted()).map(|stream| stream.counted).collect();
            let known = Counts::new(&known);
            (counts.lost_packets, counts.lost_share) = (known.lost_packets, known.lost_share);
            let (name, line_bps) = name(port);
            let rate = |count: u64| count as f64 / seconds;
            let (sent_pps, received_pps) = (rate(counts.sent_packets), rate(counts.received_packets));
            let sent = Bits::of(sent_pps, rate(counts.sent_bytes));
            let received = Bits::of(received_pps, rate(counts.received_bytes));
            let of_line = |bits: &Bits| line_bps.map(|line| 100.0 * bits.l1_bps / line);
            PortReport {
                port,
                name,
                to: own[0].running.to,
                line_bps,
                counts,
                sent_pps,
                received_pps,
                sent_percent_of_line: of_line(&sent),
                received_percent_of_line: of_line(&received),
                sent,
                received,
            }
        };
        numbers.into_iter().map(port).collect()
    }
}

/// Sizes of a stream that are printed.
const MOST_SIZES: usize = 8;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.others)?;
        let about = if self.description.is_empty() { String::new() } else { format!(": {}", self.description) };
        writeln!(f, "{}{about}", self.profile)?;
        writeln!(
            f,
            "Device {}, rate {}, {} s, ended: {}",
            self.device,
            self.rate,
            significant(self.seconds),
            ending(&self.ended, self.seconds, self.planned_seconds)
        )?;
        if let Some(mode) = &self.device_mode {
            writeln!(f, "Device under test: {mode}")?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "{:<6}{:>14}{:>14}{:>12}{:>10}{:>11}{:>11}{:>11}{:>9}",
            "Ports", "sent", "received", "lost", "share", "sent pps", "recv pps", "recv L1", "of line"
        )?;
        for port in &self.ports {
            let of_line = port.received_percent_of_line.map_or("-".into(), |percent| format!("{percent:.1} %"));
            writeln!(
                f,
                "{:<6}{:>14}{:>14}{:>12}{:>10}{:>11}{:>11}{:>11}{:>9}",
                format!("{}>{}", port.port, port.to),
                port.counts.sent_packets,
                port.counts.received_packets,
                port.counts.lost_packets,
                share(port.counts.lost_share),
                scaled(port.sent_pps),
                scaled(port.received_pps),
                scaled(port.received.l1_bps) + "b",
                of_line
            )?;
        }
        if let [a, b] = &self.ports[..]
            && let (Some(a_line), Some(b_line)) = (a.line_bps, b.line_bps)
        {
            let both = 100.0 * (a.received.l1_bps + b.received.l1_bps) / (a_line + b_line);
            writeln!(f, "Both directions together: {both:.1} % of twice the line's speed")?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "{:<14}{:>6}{:>18}{:>12}{:>12}{:>9}{:>9}{:>8}{:>8}",
            "Streams", "ports", "buffer/frame/wire", "sent", "received", "lost", "copies", "late", "extent"
        )?;
        for stream in &self.streams {
            let mut sizes = stream.sizes.iter().map(|[buffer, frame, wire]| format!("{buffer}/{frame}/{wire}"));
            let lost = if stream.accounted { stream.counts.lost_packets.to_string() } else { "unknown".into() };
            writeln!(
                f,
                "{:<14}{:>6}{:>18}{:>12}{:>12}{:>9}{:>9}{:>8}{:>8}",
                stream.name,
                format!("{}>{}", stream.port, stream.to),
                sizes.next().unwrap_or_default(),
                stream.counts.sent_packets,
                stream.counts.received_packets,
                lost,
                stream.duplicates,
                stream.reordered,
                stream.reordering_extent
            )?;
            // A capture may have a very long list of sizes.
            let more = stream.sizes.len().saturating_sub(MOST_SIZES);
            for size in sizes.by_ref().take(MOST_SIZES - 1) {
                writeln!(f, "{size:>38}")?;
            }
            if more > 0 {
                writeln!(f, "{:>38}", format!("and {more} more"))?;
            }
        }
        writeln!(f)?;
        writeln!(
            f,
            "{:<22}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
            "Microseconds", "min", "mean", "p50", "p99", "p99.9", "p99.99", "max"
        )?;
        for stream in self.streams.iter().filter(|stream| stream.accounted) {
            let of = [("delay", stream.latency), ("PDV", stream.pdv), ("IPDV", stream.ipdv)];
            if !stream.timed {
                writeln!(f, "{:<14} not timed: its packets have no room for the time", stream.name)?;
            }
            for (name, percentiles) in of {
                if let Some(percentiles) = percentiles {
                    writeln!(f, "{}", line(&format!("{:<14}{:>2} {name}", stream.name, stream.port), &percentiles))?;
                }
            }
        }
        if let Some(lateness) = &self.lateness {
            writeln!(f, "{}", line("sent after it was due", lateness))?;
        }
        writeln!(
            f,
            "L1 is counted on the wire, with frame check sequence, preamble and gap: 24 bytes more than in the buffer."
        )?;
        if let Some(energy) = &self.energy {
            writeln!(f, "Energy: {energy}")?;
        }
        writeln!(f, "Verdict: {}", self.verdict.line())?;
        for note in &self.notes {
            writeln!(f, "Note: {note}")?;
        }
        Ok(())
    }
}

fn line(name: &str, of: &Percentiles) -> String {
    let values = [of.min, of.mean, of.p50, of.p99, of.p99_9, of.p99_99, of.max];
    values.iter().fold(format!("{name:<22}"), |mut line, value| {
        let _ = write!(line, "{:>9}", significant(*value));
        line
    })
}

/// A share as percent, with enough digits for small ones.
pub fn share(share: f64) -> String {
    match share {
        0.0 => "0 %".into(),
        share if share < 0.0001 => format!("{:.1e} %", share * 100.0),
        share => format!("{} %", significant(share * 100.0)),
    }
}
