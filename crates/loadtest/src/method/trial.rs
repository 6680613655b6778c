//! A run at one rate, as methods keep it: what was offered, what was received, and what the router under test did.

use crate::energy::Energy;
use crate::load::WorkerLoad;
use crate::others::Others;
use crate::report::{INTERRUPT, Interval, Percentiles, Report, SamplePort, intervals};
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    pub device: String,
    /// How the device is run, as far as that is known.
    #[serde(default)]
    pub device_mode: Option<String>,
    /// What other programs used of the cores meanwhile.
    #[serde(default)]
    pub others: Others,
    pub profile: String,
    /// As the operator gave it.
    pub rate: String,
    pub bidirectional: bool,
    pub seconds: f64,
    /// It was interrupted before its time.
    #[serde(default)]
    pub is_interrupted: bool,
    /// All ports together.
    pub sent_packets: u64,
    pub received_packets: u64,
    pub lost_packets: u64,
    pub lost_share: f64,
    pub sent_pps: f64,
    pub received_pps: f64,
    /// Rates received: on the wire, and as T-Rex counts layer 2, without frame check sequence.
    pub l1_bps: f64,
    pub l2_bps: f64,
    /// Percent of the lines of all ports that send.
    pub percent_of_line: Option<f64>,
    /// The generator sent all that was due, except for at most a thousandth.
    pub kept_rate: bool,
    pub not_sent_share: f64,
    /// Those of the stream with the longest delay at 99 %.
    pub latency: Option<Percentiles>,
    pub pdv: Option<Percentiles>,
    pub ipdv: Option<Percentiles>,
    /// Load of the router under test, if it is in this process, and of the load tester itself.
    pub device_load: Vec<WorkerLoad>,
    pub own_load: Vec<WorkerLoad>,
    /// Sample by sample.
    pub timeline: Vec<Moment>,
    /// The energy used, where it can be read or was given.
    #[serde(default)]
    pub energy: Option<Energy>,
    pub verdict: Verdict,
    pub notes: Vec<String>,
}

/// The interval between two samples, all ports together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Seconds from the start.
    pub at: f64,
    pub sent_pps: f64,
    pub received_pps: f64,
    /// In this interval. For the last one, packets that arrived after it are separate.
    #[serde(default)]
    pub sent_packets: u64,
    #[serde(default)]
    pub received_packets: u64,
    #[serde(default)]
    pub drained_packets: u64,
    /// Of the packets sent in this interval, by their numbers.
    #[serde(default)]
    pub lost_packets: u64,
}

impl Moment {
    fn of(report: &Report) -> Vec<Moment> {
        let moment = |interval: Interval| {
            let sum = |of: fn(&SamplePort) -> u64| interval.ports.iter().map(of).sum::<u64>();
            let (sent, received) = (sum(|port| port.sent_packets), sum(|port| port.received_packets));
            Moment {
                at: interval.at,
                sent_pps: sent as f64 / interval.seconds(),
                received_pps: received as f64 / interval.seconds(),
                sent_packets: sent,
                received_packets: received,
                drained_packets: sum(|port| port.drained_packets),
                lost_packets: sum(|port| port.lost_packets),
            }
        };
        intervals(&report.samples).into_iter().map(moment).collect()
    }
}

impl Trial {
    /// What limited the device, in a word or two for a table.
    pub fn verdict_words(&self) -> String {
        let words = self.verdict.bound.words();
        if self.is_interrupted { format!("{words} (interrupted)") } else { words.into() }
    }

    pub fn of(report: &Report, bidirectional: bool) -> Trial {
        let sum = |of: fn(&crate::report::PortReport) -> f64| report.ports.iter().map(of).sum::<f64>();
        let count =
            |of: fn(&crate::report::Counts) -> u64| report.ports.iter().map(|port| of(&port.counts)).sum::<u64>();
        let (sent, lost) = (count(|counts| counts.sent_packets), count(|counts| counts.lost_packets));
        let lines: Option<Vec<f64>> = report.ports.iter().map(|port| port.line_bps).collect();
        let l1_bps = sum(|port| port.received.l1_bps);
        let worst = report.streams.iter().filter(|stream| stream.latency.is_some());
        let worst = worst.max_by(|a, b| {
            let p99 = |of: &Option<Percentiles>| of.map_or(0.0, |of| of.p99);
            p99(&a.latency).total_cmp(&p99(&b.latency))
        });
        Trial {
            device: report.device.clone(),
            device_mode: report.device_mode.clone(),
            others: report.others.clone(),
            profile: report.profile.clone(),
            rate: report.rate.clone(),
            bidirectional,
            seconds: report.seconds,
            is_interrupted: report.ended == INTERRUPT,
            sent_packets: sent,
            received_packets: count(|counts| counts.received_packets),
            lost_packets: lost,
            lost_share: lost as f64 / (sent as f64).max(1.0),
            sent_pps: sum(|port| port.sent_pps),
            received_pps: sum(|port| port.received_pps),
            l1_bps,
            l2_bps: sum(|port| port.received.buffer_bps),
            percent_of_line: lines.map(|lines| 100.0 * l1_bps / lines.iter().sum::<f64>().max(f64::MIN_POSITIVE)),
            kept_rate: report.kept_rate,
            not_sent_share: report.ports.iter().map(|port| port.counts.not_sent_share()).fold(0.0, f64::max),
            latency: worst.and_then(|stream| stream.latency),
            pdv: worst.and_then(|stream| stream.pdv),
            ipdv: worst.and_then(|stream| stream.ipdv),
            device_load: report.device_load.clone(),
            own_load: report.own_load.clone(),
            timeline: Moment::of(report),
            energy: report.energy.clone(),
            verdict: report.verdict.clone(),
            notes: report.notes.clone(),
        }
    }
}
