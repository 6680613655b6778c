//! A test that the operator steers while it runs: ports start, change their rate, pause and stop one by one. The
//! operator sees every second what they do, as in T-Rex's console.
//!
//! Commands are parsed elsewhere; here are the operations. Each is done completely, or refused.

mod view;

pub use view::{Activity, PortView, View};

use crate::arithmetic::significant;
use crate::load::WorkerLoad;
use crate::profile::Profile;
use crate::rate::Rate;
use crate::report::{Report, StreamReport, share};
use crate::run::Bench;
use crate::tester::{Counted, Finished, Outcome, Running, TestError};
use graph::time;
use std::fmt::Write;
use std::time::{Duration, Instant};
use view::Look;

/// A test that the operator steers.
pub struct Console {
    bench: Bench,
    ports: Vec<PortState>,
    drain: Duration,
    look: Look,
    view: View,
}

/// What a port does, and has done.
#[derive(Default)]
struct PortState {
    job: Option<Job>,
    /// Sums over finished tests since the counters were cleared. `is_unknown`: for some packets it is unknown whether
    /// they were lost.
    lost: u64,
    not_sent: u64,
    is_unknown: bool,
    /// The last test, which is over. It is shown until the port sends again or the counters are cleared.
    last: Option<Last>,
}

/// A finished test of a port.
struct Last {
    job: Job,
    /// A line for each of its streams.
    streams: Vec<String>,
    /// Delays in microseconds: the mean over all packets, and the longest.
    delay: Option<f64>,
    longest: Option<f64>,
}

impl Last {
    fn of(job: Job, streams: &[&Finished]) -> Last {
        let sum = |of: fn(&Finished) -> u64| streams.iter().map(|stream| of(stream)).fold(0, u64::wrapping_add);
        let timed = sum(|stream| stream.received.timed);
        let longest = streams.iter().map(|stream| stream.received.longest).max().filter(|_| timed > 0);
        Last {
            job,
            streams: streams
                .iter()
                .map(|stream| {
                    let lost = stream.running.is_accounted().then(|| stream.counted.lost());
                    line(&stream.running, &stream.counted, lost, "over")
                })
                .collect(),
            delay: (timed > 0).then(|| sum(|stream| stream.received.delays) as f64 / timed as f64 / 1e3),
            longest: longest.map(|ns| ns as f64 / 1e3),
        }
    }
}

/// The line that describes a stream.
fn line(stream: &Running, counted: &Counted, lost: Option<u64>, state: &str) -> String {
    format!(
        "{:<6}{:<18}{:>14}{:>14}{:>14}{:>10}  {state}\n",
        stream.port,
        stream.program.name,
        stream.wanted.map_or("max".into(), significant),
        counted.sent,
        counted.received,
        lost.map_or("unknown".into(), |lost| lost.to_string()),
    )
}

/// What a port sends.
#[derive(Clone)]
struct Job {
    profile: String,
    rate: Rate,
    is_paused: bool,
    until: Option<Instant>,
}

/// The arguments of a start.
pub struct Start {
    pub profile: Profile,
    pub rate: Rate,
    /// The rate is the sum over all ports.
    pub total: bool,
    /// The test ends by itself after this time, or after this many packets of each port.
    pub duration: Option<Duration>,
    pub packets: Option<u64>,
    /// Ports that send already are stopped first.
    pub force: bool,
}

/// A change of a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    To(Rate),
    More(Rate),
    Less(Rate),
}

impl std::str::FromStr for Change {
    type Err = crate::rate::RateError;

    /// `1mpps`; `+10%` and `-100kpps`: more or less than now.
    fn from_str(text: &str) -> Result<Change, Self::Err> {
        match (text.strip_prefix('+'), text.strip_prefix('-')) {
            (Some(more), _) => more.parse().map(Change::More),
            (_, Some(less)) => less.parse().map(Change::Less),
            _ => text.parse().map(Change::To),
        }
    }
}

fn refused(why: String) -> TestError {
    TestError::Other(why)
}

impl Console {
    /// `drain`: a port that has stopped is done when none of its packets has arrived for this long.
    pub fn new(mut bench: Bench, drain: Duration) -> Console {
        let ports = (0..bench.tester.ports().len()).map(|_| PortState::default()).collect();
        let look = Look::new(&mut bench);
        let mut console = Console { bench, ports, drain, look, view: View::default() };
        console.look();
        console
    }

    /// How many ports there are.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// The ports that send or pause.
    pub fn busy(&self) -> Vec<usize> {
        (0..self.ports.len()).filter(|port| self.ports[*port].job.is_some()).collect()
    }

    /// Checks that all these ports exist.
    fn check(&self, ports: &[usize]) -> Result<(), TestError> {
        match ports.iter().find(|port| **port >= self.ports.len()) {
            Some(port) => Err(refused(format!("there is no port {port}: there are 0 to {}", self.ports.len() - 1))),
            None => Ok(()),
        }
    }

    /// What these ports send. Each must send or pause.
    fn jobs(&self, ports: &[usize]) -> Result<Vec<Job>, TestError> {
        self.check(ports)?;
        let job = |port: &usize| {
            let job = self.ports[*port].job.clone();
            job.ok_or_else(|| refused(format!("port {port} sends nothing: 'start' it first")))
        };
        ports.iter().map(job).collect()
    }

    /// Makes ports send.
    ///
    /// # Errors
    /// When a port does not exist, sends already or has no link, or the profile or the rate cannot be sent.
    pub fn start(&mut self, ports: &[usize], start: &Start) -> Result<String, TestError> {
        self.check(ports)?;
        let busy: Vec<usize> = ports.iter().copied().filter(|port| self.ports[*port].job.is_some()).collect();
        if let Some(port) = busy.first()
            && !start.force
        {
            return Err(refused(format!("port {port} sends already: 'stop' it first, or '--force'")));
        }
        if let Some(port) = ports.iter().find(|port| !self.bench.tester.is_link_up(**port)) {
            return Err(refused(format!("the link of port {port} is down")));
        }
        // Plan first, so that a profile that cannot be sent does not stop ports that send.
        let plan = |rate| self.bench.tester.plan(&start.profile, ports, rate);
        let senders: Vec<usize> = plan(start.rate)?.iter().map(|order| order.port).collect();
        let rate = if start.total { start.rate.divided(senders.len() as f64) } else { start.rate };
        plan(rate)?;
        let mut said = if busy.is_empty() { String::new() } else { self.stop(&busy)? };
        self.bench.tester.start(&start.profile, &senders, rate, start.packets)?;
        for &port in &senders {
            self.ports[port].last = None;
            self.ports[port].job = Some(Job {
                profile: start.profile.name.clone(),
                rate,
                is_paused: false,
                until: start.duration.map(|duration| Instant::now() + duration),
            });
        }
        self.refresh();
        let _ = write!(said, "{} by {} at {rate}", start.profile.name, named(&senders));
        let idle: Vec<usize> = ports.iter().copied().filter(|port| !senders.contains(port)).collect();
        if !idle.is_empty() {
            let _ = write!(said, "; it has nothing for {}", named(&idle));
        }
        Ok(said)
    }

    /// Stops ports, and returns their results.
    ///
    /// # Errors
    /// When a port sends nothing, or a worker does not answer.
    pub fn stop(&mut self, ports: &[usize]) -> Result<String, TestError> {
        self.jobs(ports)?;
        let device = &mut self.bench.device;
        let outcome = self.bench.tester.stop_ports(ports, self.drain, &mut || {
            device.iter_mut().for_each(crate::device::quiver::QuiverDevice::tick);
        })?;
        let summary = summary(&outcome);
        for &port in ports {
            let state = &mut self.ports[port];
            let own = || outcome.streams.iter().filter(|stream| stream.running.port == port);
            state.last = state.job.take().map(|job| Last::of(job, &own().collect::<Vec<_>>()));
            let known = own().filter(|stream| stream.running.is_accounted());
            let lost: u64 = known.map(|stream| stream.counted.lost()).sum();
            let not_sent: u64 = own().map(|stream| stream.counted.not_sent()).sum();
            let (had_lost, had_not_sent) = self.look.end(port);
            state.lost += lost.saturating_sub(had_lost);
            state.not_sent += not_sent.saturating_sub(had_not_sent);
            state.is_unknown |= own().any(|stream| !stream.running.is_accounted());
        }
        self.refresh();
        Ok(summary)
    }

    /// Pauses ports, or resumes them.
    ///
    /// # Errors
    /// When a port sends nothing.
    pub fn set_paused(&mut self, ports: &[usize], is_paused: bool) -> Result<String, TestError> {
        let jobs = self.jobs(ports)?;
        for (&port, job) in ports.iter().zip(jobs) {
            let rate = if is_paused { Rate::Factor(0.0) } else { job.rate };
            self.bench.tester.set_rate(Some(port), rate)?;
            self.ports[port].job = Some(Job { is_paused, ..job });
        }
        self.refresh();
        Ok(format!("{} {}", named(ports), if is_paused { "paused" } else { "goes on" }))
    }

    /// Changes the rate of ports.
    ///
    /// # Errors
    /// When a port sends nothing, a rate is a share of a line whose speed is unknown, or it is below zero. Then no port
    /// is changed.
    pub fn update(&mut self, ports: &[usize], change: Change) -> Result<String, TestError> {
        let jobs = self.jobs(ports)?;
        let mut rates = Vec::new();
        for (&port, job) in ports.iter().zip(&jobs) {
            let mix = self.bench.tester.running_mix(port);
            let packets = |rate: Rate| {
                let packets = rate.packets(&mix)?;
                packets.ok_or_else(|| refused("'max' is not so much more or less than something".into()))
            };
            rates.push(match change {
                Change::To(rate) => rate,
                Change::More(more) => Rate::Packets(packets(job.rate)? + packets(more)?),
                Change::Less(less) => {
                    let rate = packets(job.rate)? - packets(less)?;
                    if rate < 0.0 {
                        return Err(refused(format!("port {port} sends no more than that: 'pause' lets it wait")));
                    }
                    Rate::Packets(rate)
                }
            });
            rates.last().copied().unwrap_or(job.rate).pace(&mix)?;
        }
        for ((&port, job), rate) in ports.iter().zip(jobs).zip(&rates) {
            if !job.is_paused {
                self.bench.tester.set_rate(Some(port), *rate)?;
            }
            self.ports[port].job = Some(Job { rate: *rate, ..job });
        }
        self.refresh();
        let is_one = rates.windows(2).all(|pair| pair[0] == pair[1]);
        Ok(match (rates.first(), is_one) {
            (Some(rate), true) => format!("{} at {rate}", named(ports)),
            _ => {
                let each = ports.iter().zip(&rates).map(|(port, rate)| format!("port {port} at {rate}"));
                each.collect::<Vec<_>>().join(", ")
            }
        })
    }

    /// Resets the counters.
    pub fn clear(&mut self) {
        self.look.clear(&self.bench);
        for state in &mut self.ports {
            (state.lost, state.not_sent, state.is_unknown, state.last) = (0, 0, false, None);
        }
        self.refresh();
    }

    /// The reply of the router under test to a command.
    ///
    /// # Errors
    /// When there is no such router in this process, or it refuses.
    pub fn ask_device(&mut self, command: &str) -> Result<String, TestError> {
        let Some(device) = &mut self.bench.device else {
            return Err(refused("the device under test is not in this process: ask it by its own means".into()));
        };
        let answer = device.commands.execute(&mut device.router, command);
        answer.map(|reply| reply.text()).map_err(|error| refused(error.to_string()))
    }

    /// Does the control work that is due, and stops ports that are done. Returns the messages to report.
    ///
    /// # Errors
    /// When a device or a port goes away. The results are still there for [`Console::stop`] to return.
    pub fn tick(&mut self) -> Result<Vec<String>, TestError> {
        let Bench { tester, device, .. } = &mut self.bench;
        tester.wait(Instant::now(), &mut || device.iter_mut().for_each(crate::device::quiver::QuiverDevice::tick));
        self.bench.check().map_err(refused)?;
        self.bench.tester.down();
        let busy = self.busy();
        let is_down = |port: &usize| !self.bench.tester.is_link_up(*port);
        let is_over = |port: &usize| {
            let until = self.ports[*port].job.as_ref().and_then(|job| job.until);
            until.is_some_and(|end| Instant::now() >= end) || self.bench.tester.port_has_ended(*port)
        };
        let down: Vec<usize> = busy.iter().copied().filter(is_down).collect();
        let over: Vec<usize> = busy.iter().copied().filter(|port| is_down(port) || is_over(port)).collect();
        if over.is_empty() {
            return Ok(Vec::new());
        }
        let mut said = vec![format!("{} stopped", named(&over))];
        if !down.is_empty() {
            said.push(format!("the link of {} went down", named(&down)));
        }
        said.push(self.stop(&over)?);
        Ok(said)
    }

    /// A port that sends, or pauses, until the operator stops it.
    pub fn endless(&self) -> Option<usize> {
        let running = self.bench.tester.running();
        self.busy().into_iter().find(|port| {
            let job = self.ports[*port].job.as_ref();
            let is_timed = job.is_some_and(|job| job.until.is_some());
            let is_paused = job.is_some_and(|job| job.is_paused);
            !is_timed && (is_paused || running.iter().any(|stream| stream.port == *port && stream.goes_on()))
        })
    }

    /// Renews the view with what happened since the last look.
    pub fn look(&mut self) {
        self.view = self.look.view(&mut self.bench, &self.ports);
    }

    /// Brings the states and counts of the view up to date; its rates stay as they were.
    fn refresh(&mut self) {
        self.look.count(&self.bench, &self.ports, &mut self.view);
    }

    /// The view of the last look.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The view, with states and counts up to date.
    pub fn stats(&mut self) -> &View {
        self.refresh();
        &self.view
    }

    /// The streams that are being sent. For an idle port, its streams as they were when it stopped.
    pub fn streams(&self) -> String {
        let tester = &self.bench.tester;
        let mut text = format!(
            "{:<6}{:<18}{:>14}{:>14}{:>14}{:>10}  state\n",
            "port", "stream", "wanted pps", "sent", "received", "lost"
        );
        let counted: Vec<(&Running, Counted)> = tester.running().iter().zip(tester.counted()).collect();
        for (port, state) in self.ports.iter().enumerate() {
            let word = if state.job.as_ref().is_some_and(|job| job.is_paused) { "paused" } else { "sending" };
            for (stream, counted) in counted.iter().filter(|(stream, _)| stream.port == port) {
                text += &line(stream, counted, stream.is_accounted().then(|| counted.lost_by_now()), word);
            }
            text.extend(state.last.iter().flat_map(|last| &last.streams).map(String::as_str));
        }
        text
    }
}

/// `ports 0 and 1`.
fn named(ports: &[usize]) -> String {
    let numbers: Vec<String> = ports.iter().map(usize::to_string).collect();
    match numbers.as_slice() {
        [one] => format!("port {one}"),
        [all @ .., last] => format!("ports {} and {last}", all.join(", ")),
        [] => "no port".into(),
    }
}

/// The results of ports that stopped: a line for each, and one for each stream with delays.
fn summary(outcome: &Outcome) -> String {
    let mut text = String::new();
    for port in Report::ports_of(&outcome.streams, |_| (String::new(), None), outcome.seconds) {
        let own = || outcome.streams.iter().filter(|stream| stream.running.port == port.port);
        let began = own().map(|stream| stream.running.began).min().unwrap_or(outcome.began);
        let seconds = time::seconds(outcome.ended.saturating_sub(began));
        let counts = &port.counts;
        let _ =
            write!(text, "port {}: {} packets sent in {} s, ", port.port, counts.sent_packets, significant(seconds));
        let _ = match own().any(|stream| stream.running.is_accounted()) {
            true => write!(
                text,
                "{} came by port {}, {} lost ({})",
                counts.received_packets,
                port.to,
                counts.lost_packets,
                share(counts.lost_share)
            ),
            false => write!(text, "what became of them is not known"),
        };
        let _ = writeln!(text, ", {} not sent", counts.not_sent.total());
        for stream in own() {
            let report = StreamReport::new(stream, seconds, began);
            if let Some(delay) = report.latency {
                let [min, p50, p99, max] = [delay.min, delay.p50, delay.p99, delay.max].map(significant);
                let _ = writeln!(
                    text,
                    "  {}: delay {min} us at least, {p50} median, {p99} at 99 %, {max} at most; {} late, {} copies",
                    report.name, report.reordered, report.duplicates
                );
            }
        }
    }
    text
}

/// What workers did between two looks.
fn between(before: &[WorkerLoad], now: &[WorkerLoad], seconds: f64) -> Vec<WorkerLoad> {
    now.iter().map(|now| now.since(before.iter().find(|before| before.worker == now.worker), seconds)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read() {
        assert_eq!("1mpps".parse(), Ok(Change::To(Rate::Packets(1e6))));
        assert_eq!("+10%".parse(), Ok(Change::More(Rate::Percent(10.0))));
        assert_eq!("-5kpps".parse(), Ok(Change::Less(Rate::Packets(5e3))));
        assert!("--5kpps".parse::<Change>().is_err() && "+".parse::<Change>().is_err());
    }

    #[test]
    fn ports_are_named() {
        assert_eq!([named(&[1]), named(&[0, 1]), named(&[0, 1, 2])], ["port 1", "ports 0 and 1", "ports 0, 1 and 2"]);
    }
}
