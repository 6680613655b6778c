//! The view of a test at one moment: rates since the last look, and counts since they were cleared.

use super::{PortState, between};
use crate::arithmetic::{Bits, scaled, significant};
use crate::load::WorkerLoad;
use crate::run::Bench;
use std::fmt;
use std::time::Instant;

/// What a port does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Activity {
    #[default]
    Idle,
    Transmitting,
    Paused,
}

impl Activity {
    /// T-Rex's word for it.
    pub fn words(self) -> &'static str {
        match self {
            Activity::Idle => "IDLE",
            Activity::Transmitting => "TRANSMITTING",
            Activity::Paused => "PAUSE",
        }
    }
}

/// A port at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PortView {
    pub name: String,
    pub is_up: bool,
    pub activity: Activity,
    /// Bits a second of its line.
    pub line: Option<f64>,
    pub profile: String,
    pub rate: String,
    pub sent_pps: f64,
    pub received_pps: f64,
    pub sent: Bits,
    pub received: Bits,
    /// All that its device carried since the counters were cleared.
    pub sent_packets: u64,
    pub received_packets: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Packets that it sent and that are known to be lost by now; none: nothing is known. And packets that were due and
    /// did not leave.
    pub lost: Option<u64>,
    pub not_sent: u64,
    /// Delays in microseconds: the mean of its packets that arrived since the last look, and the longest since it began
    /// to send.
    pub delay: Option<f64>,
    pub longest: Option<f64>,
}

impl PortView {
    /// Sets what it does now.
    pub(super) fn set_job(&mut self, state: &PortState) {
        let job = state.job.as_ref();
        self.activity = match job {
            None => Activity::Idle,
            Some(job) if job.is_paused => Activity::Paused,
            Some(_) => Activity::Transmitting,
        };
        // Its last test is shown until it sends again.
        let told = job.or(state.last.as_ref().map(|last| &last.job));
        self.profile = told.map_or("-".into(), |job| job.profile.clone());
        self.rate = told.map_or("-".into(), |job| job.rate.to_string());
    }
}

/// The whole view.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// Seconds since the console began.
    pub at: f64,
    pub ports: Vec<PortView>,
    /// Busy shares of the workers of the load tester, and of the router under test.
    pub own: Vec<f64>,
    pub device: Vec<f64>,
}

/// The counters of a port at some time.
#[derive(Debug, Clone, Copy, Default)]
struct PortCounts {
    /// Packets and bytes that its device carried.
    sent: (u64, u64),
    received: (u64, u64),
    /// For the streams that it sends: packets that were timed, the sum of their delays, and the longest, in
    /// nanoseconds.
    timed: u64,
    delays: u64,
    longest: u64,
    /// Packets lost by then, and not sent; and whether the fate of some is unknown.
    lost: u64,
    not_sent: u64,
    is_unknown: bool,
}

/// What the next look is compared with.
pub struct Look {
    began: Instant,
    at: Instant,
    counts: Vec<PortCounts>,
    own: Vec<WorkerLoad>,
    device: Vec<WorkerLoad>,
    /// The counts when the counters were cleared.
    cleared: Vec<PortCounts>,
}

fn counts(bench: &Bench) -> Vec<PortCounts> {
    let tester = &bench.tester;
    let mut ports: Vec<PortCounts> = (0..tester.ports().len())
        .map(|port| {
            let [received, sent] = tester.port_counted(port);
            PortCounts { sent, received, ..PortCounts::default() }
        })
        .collect();
    for (stream, counted) in tester.running().iter().zip(tester.counted()) {
        let port = &mut ports[stream.port];
        port.timed += counted.timed;
        port.delays = port.delays.wrapping_add(counted.delays);
        port.longest = port.longest.max(counted.longest);
        port.not_sent += counted.not_sent();
        match stream.is_accounted() {
            true => port.lost += counted.lost_by_now(),
            false => port.is_unknown = true,
        }
    }
    ports
}

fn loads(bench: &mut Bench) -> [Vec<WorkerLoad>; 2] {
    // Clocks only count up; the length of time matters only in differences.
    let device = bench.device.as_ref().map(|device| WorkerLoad::of(&device.router, 0.0)).unwrap_or_default();
    [WorkerLoad::of(bench.tester.router(), 0.0), device]
}

impl Look {
    pub fn new(bench: &mut Bench) -> Look {
        let now = Instant::now();
        let [own, device] = loads(bench);
        let counts = counts(bench);
        Look { began: now, at: now, cleared: counts.clone(), counts, own, device }
    }

    /// Makes counts start at zero.
    pub fn clear(&mut self, bench: &Bench) {
        self.cleared = counts(bench);
    }

    /// Notes that a port's streams are over: other streams start at zero. Returns what they had lost, and not sent,
    /// when the counters were cleared.
    pub fn end(&mut self, port: usize) -> (u64, u64) {
        (self.counts[port].timed, self.counts[port].delays) = (0, 0);
        let cleared = &mut self.cleared[port];
        (std::mem::take(&mut cleared.lost), std::mem::take(&mut cleared.not_sent))
    }

    /// Updates the counts and the activity of ports; rates stay.
    pub fn count(&self, bench: &Bench, states: &[PortState], view: &mut View) {
        self.write(&counts(bench), states, view);
    }

    fn write(&self, counts: &[PortCounts], states: &[PortState], view: &mut View) {
        for (number, port) in view.ports.iter_mut().enumerate() {
            let (now, base, state) = (&counts[number], &self.cleared[number], &states[number]);
            port.set_job(state);
            port.sent_packets = now.sent.0 - base.sent.0;
            port.received_packets = now.received.0 - base.received.0;
            port.sent_bytes = now.sent.1 - base.sent.1;
            port.received_bytes = now.received.1 - base.received.1;
            let lost = state.lost + now.lost.saturating_sub(base.lost);
            // A known loss is shown even if the fate of other packets is unknown.
            port.lost = Some(lost).filter(|lost| *lost > 0 || !(state.is_unknown || now.is_unknown));
            port.not_sent = state.not_sent + now.not_sent.saturating_sub(base.not_sent);
            port.longest = (now.timed > 0).then_some(now.longest as f64 / 1e3);
            if let Some(last) = &state.last {
                (port.delay, port.longest) = (last.delay, last.longest);
            }
        }
    }

    /// Renews the whole view.
    pub fn view(&mut self, bench: &mut Bench, states: &[PortState]) -> View {
        let now = Instant::now();
        let seconds = (now - self.at).as_secs_f64().max(1e-6);
        let [own, device] = loads(bench);
        let busy = |before: &[WorkerLoad], now: &[WorkerLoad]| -> Vec<f64> {
            between(before, now, seconds).iter().map(|worker| worker.shares().busy()).collect()
        };
        let (own_busy, device_busy) = (busy(&self.own, &own), busy(&self.device, &device));
        let fresh = counts(bench);
        let port = |number: usize| {
            let (port, now, was) = (&bench.tester.ports()[number], &fresh[number], &self.counts[number]);
            let rate = |now: u64, was: u64| now.saturating_sub(was) as f64 / seconds;
            let (sent_pps, received_pps) = (rate(now.sent.0, was.sent.0), rate(now.received.0, was.received.0));
            let timed = now.timed.saturating_sub(was.timed);
            let delays = now.delays.wrapping_sub(was.delays);
            PortView {
                name: port.name.clone(),
                is_up: bench.tester.is_link_up(number),
                line: port.line,
                sent_pps,
                received_pps,
                sent: Bits::of(sent_pps, rate(now.sent.1, was.sent.1)),
                received: Bits::of(received_pps, rate(now.received.1, was.received.1)),
                delay: (timed > 0).then(|| delays as f64 / timed as f64 / 1e3),
                ..PortView::default()
            }
        };
        let ports = (0..states.len()).map(port).collect();
        let mut view = View { at: (now - self.began).as_secs_f64(), ports, own: own_busy, device: device_busy };
        self.write(&fresh, states, &mut view);
        (self.counts, self.own, self.device, self.at) = (fresh, own, device, now);
        view
    }
}

/// Columns of a table.
const NAME: usize = 20;
const COLUMN: usize = 18;

impl View {
    /// The sum over all ports.
    pub fn sent_pps(&self) -> f64 {
        self.ports.iter().map(|port| port.sent_pps).sum()
    }

    pub fn received_pps(&self) -> f64 {
        self.ports.iter().map(|port| port.received_pps).sum()
    }

    fn row(&self, name: &str, of: impl Fn(&PortView) -> String, total: String) -> String {
        let cells: String = self.ports.iter().map(|port| format!("{:>COLUMN$}", cut(&of(port)))).collect();
        format!("{name:<NAME$}{cells}{:>COLUMN$}", cut(&total))
    }

    fn sum(&self, name: &str, unit: &str, of: impl Fn(&PortView) -> f64) -> String {
        let text = |value: f64| format!("{}{unit}", scaled(value));
        self.row(name, |port| text(of(port)), text(self.ports.iter().map(&of).sum()))
    }

    fn count(&self, name: &str, of: impl Fn(&PortView) -> u64) -> String {
        self.row(name, |port| of(port).to_string(), self.ports.iter().map(&of).sum::<u64>().to_string())
    }

    /// As lines of text.
    pub fn lines(&self) -> Vec<String> {
        let us = |value: Option<f64>| value.map_or("-".into(), |value| format!("{} us", significant(value)));
        let of_line = |bits: &Bits, line: Option<f64>| {
            line.map_or("-".into(), |line| format!("{} %", significant(100.0 * bits.l1_bps / line)))
        };
        let width = NAME + COLUMN * (self.ports.len() + 1);
        let busy =
            |all: &[f64]| all.iter().map(|share| format!("{:.1} %", 100.0 * share)).collect::<Vec<_>>().join(" ");
        let ports: String = (0..self.ports.len()).map(|number| format!("{number:>COLUMN$}")).collect();
        let mut lines = vec![
            format!("{:<NAME$}{ports}{:>COLUMN$}", "Port", "total"),
            self.row("device", |port| port.name.split(',').next().unwrap_or_default().into(), String::new()),
            self.row("link", |port| if port.is_up { "UP" } else { "DOWN" }.into(), String::new()),
            self.row("state", |port| port.activity.words().into(), String::new()),
            self.row(
                "speed",
                |port| port.line.map_or("-".into(), |line| format!("{}b/s", scaled(line))),
                String::new(),
            ),
            self.row("profile", |port| port.profile.clone(), String::new()),
            self.row("rate", |port| port.rate.clone(), String::new()),
            "-".repeat(width),
            self.sum("Tx bps L2", "bps", |port| port.sent.buffer_bps),
            self.sum("Tx bps L1", "bps", |port| port.sent.l1_bps),
            self.sum("Tx pps", "pps", |port| port.sent_pps),
            self.row("Line Util.", |port| of_line(&port.sent, port.line), String::new()),
            self.sum("Rx bps L2", "bps", |port| port.received.buffer_bps),
            self.sum("Rx pps", "pps", |port| port.received_pps),
            "-".repeat(width),
            self.count("opackets", |port| port.sent_packets),
            self.count("ipackets", |port| port.received_packets),
            self.count("obytes", |port| port.sent_bytes),
            self.count("ibytes", |port| port.received_bytes),
            self.row(
                "lost",
                |port| port.lost.map_or("unknown".into(), |lost| lost.to_string()),
                self.ports.iter().filter_map(|port| port.lost).sum::<u64>().to_string(),
            ),
            self.count("not sent", |port| port.not_sent),
            self.row("delay", |port| us(port.delay), String::new()),
            self.row("longest delay", |port| us(port.longest), String::new()),
            "-".repeat(width),
            format!("{:<NAME$}{}", "CPU, load tester", busy(&self.own)),
        ];
        if !self.device.is_empty() {
            lines.push(format!("{:<NAME$}{}", "CPU, router tested", busy(&self.device)));
        }
        lines
    }
}

/// A text, shortened to a column.
fn cut(text: &str) -> String {
    let most = COLUMN - 2;
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['~']).collect(),
        false => text.into(),
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|line| writeln!(f, "{}", line.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_has_a_column_for_each_port_and_one_for_all() {
        let port = PortView {
            name: "memif:@a-rather-long-name-of-a-socket,ip=10.0.0.1/24".into(),
            is_up: true,
            activity: Activity::Transmitting,
            line: Some(10e9),
            profile: "bench".into(),
            rate: "1 Mpps".into(),
            sent_pps: 1e6,
            sent: Bits::of(1e6, 60e6),
            sent_packets: 5,
            delay: Some(1.5),
            ..PortView::default()
        };
        let idle = PortView { name: "null".into(), profile: "-".into(), rate: "-".into(), ..PortView::default() };
        let view = View { at: 1.0, ports: vec![port, idle], own: vec![0.25], device: vec![0.5, 0.75] };
        let text = view.to_string();
        for line in [
            "Port                               0                 1             total",
            "device              memif:@a-rather~              null",
            "link                              UP              DOWN",
            "state                   TRANSMITTING              IDLE",
            "speed                      10 Gb/s                 -",
            "Tx bps L2                 480 Mbps             0 bps          480 Mbps",
            "Tx bps L1                 672 Mbps             0 bps          672 Mbps",
            "Tx pps                      1 Mpps             0 pps            1 Mpps",
            "Line Util.                   6.72 %                 -",
            "opackets                           5                 0                 5",
            "delay                         1.5 us                 -",
            "CPU, load tester  25.0 %",
            "CPU, router tested  50.0 % 75.0 %",
        ] {
            let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.lines().any(|own| squeezed(own) == squeezed(line)), "{line}\n{text}");
        }
        assert!(text.lines().all(|line| line.len() <= NAME + 3 * COLUMN), "{text}");
    }
}
