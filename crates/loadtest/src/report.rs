//! What a run came to, as data that others read (JSON) and as text.

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

/// Of the data: changes when what is there means something else.
pub const FORMAT: &str = "quiver-loadtest/1";
/// A generator that left out more of what was due has not kept its rate: as much as pacing may be wrong.
pub const TOLERANCE: f64 = 0.001;

/// A run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub format: &'static str,
    /// What others used of the cores of the test.
    pub others: Others,
    pub program: String,
    pub machine: Machine,
    /// Seconds since 1970.
    pub started: f64,
    pub profile: String,
    pub description: String,
    pub device: String,
    /// How it is run, as far as it is known.
    pub device_mode: Option<String>,
    /// As it was asked for.
    pub rate: String,
    /// From the first packet that was due to the last.
    pub seconds: f64,
    /// How long packets were waited for after that.
    pub drained_seconds: f64,
    /// Seconds from the start to the last change of the rate, if it was changed.
    pub rate_changed_at: Option<f64>,
    /// Why it ended: `duration`, `sent`, `interrupt`, or what failed.
    pub ended: String,
    /// How long it was to be.
    pub planned_seconds: f64,
    /// All that was due was sent, but for a thousandth. If not, what was lost says nothing of this rate.
    pub kept_rate: bool,
    pub ports: Vec<PortReport>,
    pub streams: Vec<StreamReport>,
    pub samples: Vec<Sample>,
    /// How late packets were made: the first of each vector.
    pub lateness: Option<Percentiles>,
    pub probe: Vec<Probe>,
    /// Times at which workers of the load tester were preempted: the longest, a thousand of each. And how many there
    /// were, and how long all together.
    pub pauses: Vec<PauseReport>,
    pub pause_count: u64,
    pub away_seconds: f64,
    /// By port.
    pub carried: Vec<Carried>,
    /// How the load tester read each port: whether it kept up.
    pub heard: Vec<Heard>,
    /// What the router under test says of its nodes (`show runtime`) just before packets stop, when it is in this
    /// process.
    pub runtime: Option<String>,
    /// The same of the load tester's own nodes.
    pub own_runtime: String,
    /// Clocks that a cache line takes from the load tester's first core to the first of the router under test.
    pub line_clocks: Option<f64>,
    /// What workers of the router under test did, what it dropped, and what the load tester's own did.
    pub device_load: Vec<WorkerLoad>,
    /// The ports of the router under test are cards, and not shared memory.
    #[serde(skip)]
    pub has_cards: bool,
    pub device_drops: Vec<Lost>,
    pub own_load: Vec<WorkerLoad>,
    /// What it took, where that can be read, or was told.
    pub energy: Option<Energy>,
    /// What held it back.
    pub verdict: Verdict,
    pub notes: Vec<String>,
}

/// What it ran on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    #[serde(default)]
    pub host: String,
    pub processor: String,
    pub cores: usize,
    pub ticks_per_second: f64,
    pub kernel: String,
    /// Of the load tester's workers.
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

/// What went from a port to its peer.
#[derive(Debug, Clone, Serialize)]
pub struct PortReport {
    pub port: usize,
    pub name: String,
    pub to: usize,
    pub line_bps: Option<f64>,
    #[serde(flatten)]
    pub counts: Counts,
    /// Packets a second that left and came, and their bits.
    pub sent_pps: f64,
    pub received_pps: f64,
    pub sent: Bits,
    pub received: Bits,
    /// Of the line, counted on the wire; of a run in both directions each has its own line.
    pub sent_percent_of_line: Option<f64>,
    pub received_percent_of_line: Option<f64>,
}

/// What became of packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Counts {
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub received_packets: u64,
    pub received_bytes: u64,
    /// Sent, and not received when nothing came any more.
    pub lost_packets: u64,
    pub lost_share: f64,
    pub not_sent: NotSent,
}

/// Packets that were due and never left: no loss of the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NotSent {
    /// The port's device had no room for them.
    pub refused: u64,
    /// Their time had passed: the generator was too slow, or away.
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

    /// Of what was due.
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
    /// Packets a second that it was to send; none: the maximum rate.
    pub wanted_pps: Option<f64>,
    pub sent_pps: f64,
    /// Its packets are known again when they come, and timed.
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
    /// One way.
    pub latency: Option<Percentiles>,
    /// Longer than the least delay (PDV, RFC 5481 section 3.2).
    pub pdv: Option<Percentiles>,
    /// From one packet to the next, without sign (IPDV, RFC 5481 section 3.1).
    pub ipdv: Option<Percentiles>,
    /// Seconds from the start to the time when the last packet was sent that is lost, or the one that came behind it;
    /// the end, when nothing came behind it.
    pub last_loss_at: Option<f64>,
    /// The times of the last ones, a few thousand, and whether there were more before.
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
    /// Of nanoseconds, less so many each; none: of nothing.
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

    /// With the least and the longest delay as they were, and not to three digits.
    fn between(self, received: &Received, less: u64) -> Percentiles {
        let [min, max] = [received.least, received.longest].map(|ns| (ns - less) as f64 / 1e3);
        let within = |value: f64| value.clamp(min, max);
        let Percentiles { samples, mean, p50, p99, p99_9, p99_99, .. } = self;
        let [mean, p50, p99, p99_9, p99_99] = [mean, p50, p99, p99_9, p99_99].map(within);
        Percentiles { samples, min, mean, p50, p99, p99_9, p99_99, max }
    }
}

/// What was counted by some time of the run: what is on its way is sent and not received.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Seconds from the start.
    pub at: f64,
    /// Which epoch of the packets' numbers ends with it.
    #[serde(skip)]
    pub epoch: usize,
    pub ports: Vec<SamplePort>,
}

/// A port, by then.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct SamplePort {
    pub port: usize,
    pub sent_packets: u64,
    pub sent_bytes: u64,
    /// Of what it sent.
    pub received_packets: u64,
    pub received_bytes: u64,
    /// Of those that were sent by then, those that never came, by their numbers. Known when the run is over; before
    /// it is 0.
    pub lost_packets: u64,
    /// Due by then, and not sent.
    pub not_sent: u64,
    /// Of the last sample: packets that came after it, when nothing was sent any more.
    pub drained_packets: u64,
}

/// From one sample to the next, or from the start to the first: what was sent and came in this time, and what was
/// lost of what was sent in it.
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

/// The times between samples. Together they are the run: packets that were sent and lost add up to its own, and so do
/// those that came with those that were drained.
pub fn intervals(samples: &[Sample]) -> Vec<Interval> {
    let (mut from, mut before): (f64, &[SamplePort]) = (0.0, &[]);
    let mut all = Vec::new();
    for sample in samples.iter().filter(|sample| sample.at > 0.0) {
        // Two of the same time are one.
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

/// All that a port's device carried during the run, the load tester's packets and others.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Carried {
    pub port: usize,
    pub received_packets: u64,
    pub sent_packets: u64,
}

/// A preempted worker of the load tester.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PauseReport {
    pub worker: usize,
    pub at: f64,
    pub us: f64,
}

/// How a run ended, as it is told: `duration`, `interrupted after 4 of 600 s`.
pub fn ending(ended: &str, seconds: f64, planned: f64) -> String {
    match ended {
        INTERRUPT => interrupted(seconds, Some(planned)),
        other => other.into(),
    }
}

/// That somebody ended it, after so many seconds of so many, if that is known.
pub fn interrupted(seconds: f64, planned: Option<f64>) -> String {
    // No more digits than one counts by.
    let told = |seconds: f64| match seconds < 10.0 {
        true => format!("{}", (seconds * 10.0).round() / 10.0),
        false => format!("{seconds:.0}"),
    };
    match planned {
        Some(planned) => format!("interrupted after {} of {} s", told(seconds), told(planned)),
        None => format!("interrupted after {} s", told(seconds)),
    }
}

/// Why a run ended that somebody ended.
pub const INTERRUPT: &str = "interrupt";

/// What is no end that somebody wanted.
pub fn failure(ended: &str) -> Option<&str> {
    (!matches!(ended, "duration" | "sent" | "interrupt")).then_some(ended)
}

impl Report {
    /// What held the device back, by these figures; where others used the machine, they tell nothing of it. That all
    /// came that was to be sent is true all the same.
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
            // Each worker takes its share.
            away: self.away_seconds / self.own_load.len().max(1) as f64
                * self.ports.iter().map(|port| port.sent_pps).sum::<f64>(),
            in_senders_time: self.device == "kernel",
            has_cards: self.has_cards,
            own_missed: self.heard.iter().map(|heard| heard.missed_packets).sum(),
            workers: &self.device_load,
            drops: &self.device_drops,
        })
    }

    /// Why it ended before its time, unless somebody wanted it to.
    pub fn failure(&self) -> Option<&str> {
        failure(&self.ended)
    }

    /// Sums streams up by the port that sends them.
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
            // What is not told apart is not known to be lost.
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
            // Of a capture with many there is no end.
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

/// A share, in percent, small ones as well.
pub fn share(share: f64) -> String {
    match share {
        0.0 => "0 %".into(),
        share if share < 0.0001 => format!("{:.1e} %", share * 100.0),
        share => format!("{} %", significant(share * 100.0)),
    }
}
