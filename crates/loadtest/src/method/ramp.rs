//! Method 2 of the T-Rex users: warm up, raise the rate in a straight line to a share of the line's, hold it. The rate
//! at which loss begins is what the device carries.

use super::Watch;
use super::trial::Trial;
use crate::arithmetic::Bits;
use crate::rate::Rate;
use crate::report::{Interval, Sample, SamplePort, intervals};
use crate::run::{Bench, Plan, RunPolicy};
use crate::tester::TestError;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// More loss than this is a failure: the threshold of the viewer that made the method known.
pub const THRESHOLD: f64 = 0.001;

/// Printed in place of loss that did not occur.
pub const NEVER: &str = "never";

/// How the rate rises.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    pub warmup_rate: Rate,
    pub warmup: Duration,
    /// Percent of the line's rate.
    pub target: f64,
    pub rampup: Duration,
    pub hold: Duration,
}

impl Slope {
    pub fn length(&self) -> Duration {
        self.warmup + self.rampup + self.hold
    }

    /// The rate at a time.
    pub fn rate(&self, at: f64) -> Rate {
        let up = at - self.warmup.as_secs_f64();
        if up < 0.0 {
            return self.warmup_rate;
        }
        let share = (up / self.rampup.as_secs_f64().max(f64::MIN_POSITIVE)).min(1.0);
        // A rate of zero is not allowed.
        Rate::Percent((self.target * share).max(1e-3))
    }
}

/// The result of a ramp.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ramp {
    /// Distinguishes it from other ramps of the same device: '2 rx queues', or nothing.
    pub label: String,
    pub warmup_rate: String,
    pub warmup: f64,
    pub target: f64,
    pub rampup: f64,
    pub hold: f64,
    pub line_bps: f64,
    pub points: Vec<Point>,
    /// The first time that loss was above the threshold, and the time from which it stayed above it to the end.
    pub first_loss: Option<Overload>,
    pub overload: Option<Overload>,
    /// The most packets a second received in one sample, all ports together.
    pub max_pps: f64,
    pub max_percent: f64,
    /// Why it ended too early, if it did.
    pub failure: Option<String>,
    /// Set if it was interrupted before it was done: after how long.
    #[serde(default)]
    pub interrupted: Option<String>,
    /// Why it cannot say where loss begins: other programs used the machine.
    #[serde(default)]
    pub no_result: Option<String>,
    /// The whole ramp as one trial.
    pub total: Trial,
}

/// The interval between two samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Seconds from the start.
    pub at: f64,
    pub ports: Vec<PortPoint>,
}

/// What a port sent, and its peer received.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PortPoint {
    pub port: usize,
    pub to: usize,
    /// In this interval. For the last point, packets that arrived after it, when sending had stopped, are separate.
    #[serde(default)]
    pub sent_packets: u64,
    #[serde(default)]
    pub received_packets: u64,
    #[serde(default)]
    pub drained_packets: u64,
    /// Of the packets sent in this interval, by their numbers.
    #[serde(default)]
    pub lost_packets: u64,
    pub sent_pps: f64,
    pub received_pps: f64,
    /// Bytes in the buffers.
    pub sent_bytes_per_second: f64,
    pub received_bytes_per_second: f64,
    pub sent_percent: f64,
    pub received_percent: f64,
    /// Due, but not sent.
    pub not_sent_pps: f64,
    /// Share of the packets sent in this time that were lost.
    pub loss: f64,
}

/// A point at which a device loses packets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Overload {
    pub at: f64,
    pub port: usize,
    pub sent_pps: f64,
    pub received_pps: f64,
    /// Rate sent, in percent of the line.
    pub percent: f64,
    pub loss: f64,
}

/// The differences between samples. `line`: bits a second of each port.
pub fn points(samples: &[Sample], peers: &[(usize, usize)], line: f64) -> Vec<Point> {
    let point = |interval: Interval| {
        let port = |port: &SamplePort| {
            let to = peers.iter().find(|(from, _)| *from == port.port).map_or(port.port, |(_, to)| *to);
            let rate = |count: u64| count as f64 / interval.seconds();
            let (sent, received) = (rate(port.sent_packets), rate(port.received_packets));
            let (sent_bytes, received_bytes) = (rate(port.sent_bytes), rate(port.received_bytes));
            let percent = |packets, bytes| 100.0 * Bits::of(packets, bytes).l1_bps / line;
            PortPoint {
                port: port.port,
                to,
                sent_packets: port.sent_packets,
                received_packets: port.received_packets,
                drained_packets: port.drained_packets,
                lost_packets: port.lost_packets,
                sent_pps: sent,
                received_pps: received,
                sent_bytes_per_second: sent_bytes,
                received_bytes_per_second: received_bytes,
                sent_percent: percent(sent, sent_bytes),
                received_percent: percent(received, received_bytes),
                not_sent_pps: rate(port.not_sent),
                loss: port.lost_packets as f64 / (port.sent_packets as f64).max(1.0),
            }
        };
        Point { at: interval.at, ports: interval.ports.iter().map(port).collect() }
    };
    intervals(samples).into_iter().map(point).collect()
}

/// For any port: the first point with more loss than the threshold, and the first of those that stay above it to the
/// end.
pub fn overloads(points: &[Point]) -> (Option<Overload>, Option<Overload>) {
    let at = |point: &Point, port: &PortPoint| Overload {
        at: point.at,
        port: port.port,
        sent_pps: port.sent_pps,
        received_pps: port.received_pps,
        percent: port.sent_percent,
        loss: port.loss,
    };
    let failing = |point: &Point| point.ports.iter().find(|port| port.loss > THRESHOLD).map(|port| at(point, port));
    let first = points.iter().find_map(failing);
    let unrecovered = points.iter().rev().map(failing).take_while(Option::is_some).last().flatten();
    (first, unrecovered)
}

struct Climb<'a, 'b> {
    slope: Slope,
    name: &'a str,
    watch: &'a mut Watch<'b>,
}

impl RunPolicy for Climb<'_, '_> {
    fn rate(&mut self, at: f64) -> Option<Rate> {
        Some(self.slope.rate(at))
    }

    fn sampled(&mut self, sample: &Sample) {
        let share = sample.at / self.slope.length().as_secs_f64();
        (self.watch.progress)(self.name, share, Some(sample));
    }

    fn is_interrupted(&self) -> bool {
        self.watch.interrupted.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// Runs it. The plan's rate and duration are ignored.
///
/// # Errors
/// When the line's speed is unknown, or nothing can be sent.
pub fn run(
    bench: &mut Bench,
    plan: &Plan,
    slope: Slope,
    label: &str,
    watch: &mut Watch<'_>,
) -> Result<Ramp, TestError> {
    let line = bench.tester.ports().first().and_then(|port| port.line).ok_or_else(|| {
        TestError::Other("a ramp goes up to a share of the line's rate, which is not known: give '--speed'".into())
    })?;
    let plan = Plan { rate: slope.rate(0.0), duration: slope.length(), ..plan.clone() };
    watch.begin();
    let report = bench.run(&plan, &mut Climb { slope, name: "ramp", watch: &mut *watch })?;
    watch.note(&report);
    let peers: Vec<(usize, usize)> = report.ports.iter().map(|port| (port.port, port.to)).collect();
    let points = points(&report.samples, &peers, line);
    let (mut first_loss, mut overload) = overloads(&points);
    // Each sample counts, so other programs must not use the machine for even a second.
    let no_result = report.others.peak_excess().filter(|_| first_loss.is_some() || !report.kept_rate);
    if no_result.is_some() {
        (first_loss, overload) = (None, None);
    }
    let sum = |point: &Point, of: fn(&PortPoint) -> f64| point.ports.iter().map(of).sum::<f64>();
    let most = |of: fn(&PortPoint) -> f64| points.iter().map(|point| sum(point, of)).fold(0.0, f64::max);
    Ok(Ramp {
        label: label.into(),
        warmup_rate: slope.warmup_rate.to_string(),
        warmup: slope.warmup.as_secs_f64(),
        target: slope.target,
        rampup: slope.rampup.as_secs_f64(),
        hold: slope.hold.as_secs_f64(),
        line_bps: line,
        max_pps: most(|port| port.received_pps),
        max_percent: most(|port| port.received_percent) / (peers.len() as f64).max(1.0),
        failure: report.failure().map(String::from),
        interrupted: watch.interruption(),
        no_result,
        first_loss,
        overload,
        points,
        total: Trial::of(&report, plan.is_bidirectional),
    })
}

impl Ramp {
    /// What to print in place of a point that was not found.
    pub fn not_found(&self) -> String {
        match &self.no_result {
            Some(why) => format!("no result: {why}"),
            None if self.interrupted.is_some() || self.failure.is_some() => "not until it ended".into(),
            None => NEVER.into(),
        }
    }

    /// How many times the rate of another ramp came through, if both are known.
    pub fn scaling(&self, first: &Ramp) -> Option<f64> {
        let is_known = self.no_result.is_none() && first.no_result.is_none() && first.max_pps > 0.0;
        is_known.then(|| self.max_pps / first.max_pps)
    }

    /// The rate that the device carries: where loss begins for good, or else the most that was received.
    pub fn carried_pps(&self) -> f64 {
        match self.overload {
            Some(overload) => {
                let point = self.points.iter().find(|point| point.at == overload.at);
                point.map_or(overload.received_pps, |point| point.ports.iter().map(|port| port.received_pps).sum())
            }
            None => self.max_pps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: f64, sent: f64, received: f64) -> Point {
        let port = PortPoint {
            port: 0,
            to: 1,
            sent_packets: sent as u64,
            received_packets: received as u64,
            drained_packets: 0,
            lost_packets: (sent - received) as u64,
            sent_pps: sent,
            received_pps: received,
            sent_bytes_per_second: 60.0 * sent,
            received_bytes_per_second: 60.0 * received,
            sent_percent: sent / 100.0,
            received_percent: received / 100.0,
            not_sent_pps: 0.0,
            loss: (sent - received) / sent,
        };
        Point { at, ports: vec![port] }
    }

    #[test]
    fn overload_is_loss_that_goes_on_to_the_end() {
        let points = [
            point(1.0, 1000.0, 1000.0),
            point(2.0, 2000.0, 1900.0),
            point(3.0, 3000.0, 3000.0),
            point(4.0, 4000.0, 3995.0),
            point(5.0, 5000.0, 4000.0),
        ];
        let (first, unrecovered) = overloads(&points);
        assert_eq!((first.unwrap().at, unrecovered.unwrap().at), (2.0, 4.0));
        assert_eq!(overloads(&points[..3]), (first, None));
        assert_eq!(overloads(&points[..1]), (None, None));
        // A loss that equals the threshold is not above it.
        assert_eq!(overloads(&[point(1.0, 1000.0, 999.0)]), (None, None));
    }

    #[test]
    fn the_slope_is_straight() {
        let slope = Slope {
            warmup_rate: Rate::Packets(1e3),
            warmup: Duration::from_secs(30),
            target: 100.0,
            rampup: Duration::from_secs(600),
            hold: Duration::from_secs(30),
        };
        assert_eq!(slope.length(), Duration::from_secs(660));
        for (at, rate) in [
            (0.0, Rate::Packets(1e3)),
            (29.9, Rate::Packets(1e3)),
            (330.0, Rate::Percent(50.0)),
            (630.0, Rate::Percent(100.0)),
            (650.0, Rate::Percent(100.0)),
        ] {
            assert_eq!(slope.rate(at), rate, "{at}");
        }
    }
}
