//! What ports send: started, changed, counted and stopped, each port by itself.

use super::{LOOK, NUMBERS, TestError, Tester, port_name};
use crate::epochs::{self, Cuts, MOST_CUTS};
use crate::generate::schedule::{Line, Schedule};
use crate::generate::{self, Generator, Made, Pause, PortShare, Stopped};
use crate::profile::Profile;
use crate::program::{Maker, Program, mix_of};
use crate::rate::Pace;
use crate::rate::{Mix, Rate};
use crate::receive::heard::{Ear, Heard};
use crate::receive::{self, Received, Receiver, Tracker};
use graph::{InterfaceIndex, time};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Packets begin this long after a start, so that every worker is ready.
const AHEAD: Duration = Duration::from_millis(2);

/// A worker's share of a stream, while it runs.
pub(super) struct Part {
    number: u16,
    stream: usize,
}

/// A stream of a port, while it runs.
pub struct Running {
    pub port: usize,
    /// The port where its packets are to arrive.
    pub to: usize,
    pub program: Arc<Program>,
    /// Packets a second that it is to send; none: the maximum rate.
    pub wanted: Option<f64>,
    /// When its first packet was due, in ticks.
    pub began: u64,
    /// Its port stops after this many packets.
    limit: Option<u64>,
    /// Packets that were sent by the end of each epoch.
    sent_by: Vec<u64>,
    /// Whether the device of port `to` brings packets. If not, it is not known whether packets were lost.
    pub is_heard: bool,
}

impl Running {
    /// Whether its packets are recognised when they arrive.
    pub fn is_accounted(&self) -> bool {
        self.is_heard && self.program.is_tagged()
    }

    /// Whether it goes on until it is stopped.
    pub fn goes_on(&self) -> bool {
        self.program.is_endless() && self.limit.is_none()
    }
}

/// What was counted of a stream at some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Handed to the device, and accepted by it.
    pub sent: u64,
    pub sent_bytes: u64,
    pub received: u64,
    pub received_bytes: u64,
    /// Packets up to the last that arrived, lost ones included: of these it is known whether they arrived.
    pub reached: u64,
    /// Due, but not sent: the device did not accept them, they were too late, or there was no buffer.
    pub refused: u64,
    pub late: u64,
    pub starved: u64,
    /// How many packets had a delay, the sum of the delays, and the longest, in nanoseconds.
    pub timed: u64,
    pub delays: u64,
    pub longest: u64,
}

impl Counted {
    /// Due, but not sent, for whatever reason.
    pub fn not_sent(&self) -> u64 {
        self.refused + self.late + self.starved
    }

    /// Lost as far as is known by now: packets that are on their way do not count.
    pub fn lost_by_now(&self) -> u64 {
        // Counts are read one after the other while they change: so limit the result to what is missing.
        self.reached.saturating_sub(self.received).min(self.lost())
    }

    /// Lost, when nothing arrives any more.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }
}

/// The end of an epoch, and what was counted of each stream by then. Between two rounds, each worker reports what it
/// has sent.
pub struct Cut {
    pub epoch: usize,
    /// Seconds since the first packet was due.
    pub at: f64,
    pub counted: Vec<Counted>,
}

/// What a port is to send.
pub struct Order {
    pub port: usize,
    pace: Pace,
    programs: Vec<Arc<Program>>,
}

/// The results of a stream.
pub struct Finished {
    pub running: Running,
    pub counted: Counted,
    pub received: Received,
    /// What was counted when the last worker had stopped. The rest arrived during the drain.
    pub at_stop: Counted,
    /// How many of the packets sent by the end of each epoch were lost. Empty: its packets are not recognised when they
    /// arrive.
    pub lost_by: Vec<u64>,
}

/// The results of a run.
pub struct Outcome {
    pub streams: Vec<Finished>,
    /// Seconds from the first packet that was due to the end of sending, and to the count in `at_stop`.
    pub seconds: f64,
    pub stopped_at: f64,
    /// How late packets were made, in nanoseconds.
    pub lateness: Histogram<u64>,
    /// The longest times that workers were preempted: the worker, seconds from the start, and how long. `pause_count`
    /// and `away` cover all such times: how many there were, and their sum in seconds.
    pub pauses: Vec<(usize, f64, Duration)>,
    pub pause_count: u64,
    pub away: f64,
    /// When the run began, and when the last worker stopped, in ticks.
    pub began: u64,
    pub ended: u64,
    /// When the rate was last changed, in ticks. None: never.
    pub rate_changed: Option<u64>,
    /// How long it took until nothing arrived any more.
    pub drained: Duration,
    /// How the packets of each port were read.
    pub heard: Vec<Heard>,
}

impl Tester {
    /// The streams of a profile that a port would send.
    ///
    /// # Errors
    /// When parts of the profile do not fit together.
    pub fn programs(&self, profile: &Profile, port: usize) -> Result<(Vec<Arc<Program>>, Mix), TestError> {
        let programs = Program::of_port(profile, port, self.ends(port))?;
        let mix = mix_of(&programs, self.ports[port].line);
        Ok((programs, mix))
    }

    /// What these ports would send of a profile. Ports without a stream in it are left out.
    ///
    /// # Errors
    /// When parts of the profile do not fit together, or the rate is a share of a line whose speed is not known.
    pub fn plan(&self, profile: &Profile, senders: &[usize], rate: Rate) -> Result<Vec<Order>, TestError> {
        let mut orders = Vec::new();
        for &port in senders {
            let (programs, mix) = self.programs(profile, port)?;
            if !programs.is_empty() {
                orders.push(Order { port, pace: rate.pace(&mix)?, programs });
            }
        }
        if orders.is_empty() {
            return Err(TestError::Other(format!(
                "profile '{}' has no stream for any port that is to send",
                profile.name
            )));
        }
        let shares = |order: &Order| order.programs.len() * self.ports[order.port].workers.len();
        let others = self.parts.iter().filter(|part| !senders.contains(&self.running[part.stream].port)).count();
        let all = others + orders.iter().map(shares).sum::<usize>();
        // No stream has the number 0.
        if all >= NUMBERS {
            return Err(TestError::Other(format!(
                "{all} streams, each counted once for each worker that sends it, are too many: {NUMBERS} have numbers"
            )));
        }
        Ok(orders)
    }

    /// Starts a profile on these ports, which must be idle, beside what other ports send. With a limit, each port stops
    /// after that many packets.
    ///
    /// # Errors
    /// As [`Tester::plan`], and when a worker does not answer; then nothing is sent.
    pub fn start(
        &mut self,
        profile: &Profile,
        senders: &[usize],
        rate: Rate,
        limit: Option<u64>,
    ) -> Result<(), TestError> {
        let orders = self.plan(profile, senders, rate)?;
        let (running, parts) = (self.running.len(), self.parts.len());
        let begun = self.begin(orders, limit);
        if begun.is_err() {
            self.running.truncate(running);
            self.parts.truncate(parts);
        }
        begun
    }

    fn begin(&mut self, orders: Vec<Order>, limit: Option<u64>) -> Result<(), TestError> {
        let began = time::ticks() + time::to_ticks(AHEAD);
        if self.running.is_empty() {
            (self.began, self.epoch) = (began, 0);
            self.ports.iter_mut().for_each(|port| port.heard_before = Ear::sum(&port.ears));
        }
        let workers = self.router.graph.workers();
        let mut shares: Vec<Vec<PortShare>> = (0..workers).map(|_| Vec::new()).collect();
        let mut expected = Vec::new();
        for Order { port, pace, programs } in orders {
            let (to, known) = (self.peer(port), &self.ports[port]);
            let tx_node = format!("{}-tx", port_name(port));
            let edge = self.router.graph.connect(self.generator, &tx_node)?;
            let senders = known.workers.clone();
            let first = self.running.len();
            for program in &programs {
                let wanted = match pace {
                    Pace::Factor(factor) => Some(program.rate * factor),
                    Pace::Maximum => None,
                };
                let is_heard = self.ports[to].is_heard;
                let (program, sent_by) = (program.clone(), vec![0; self.epoch]);
                self.running.push(Running { port, to, program, wanted, began, limit, sent_by, is_heard });
            }
            for (share, &worker) in senders.iter().enumerate() {
                let (mut makers, mut numbers, mut cuts, mut lines) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
                for (at, program) in programs.iter().enumerate() {
                    let number = self.free_number();
                    makers.push(Maker::new(program, number, share, senders.len()));
                    numbers.push(number);
                    let ends = Arc::new(Cuts::default());
                    // Epochs that ended before the stream began have no packets of it.
                    (0..self.epoch).for_each(|_| ends.push(0));
                    cuts.push(ends.clone());
                    lines.push(Line {
                        rate: program.rate,
                        mode: program.mode,
                        isg: program.isg,
                        share,
                        shares: senders.len(),
                        next: program.next,
                        waits: program.waits,
                        gaps: program.gaps.clone(),
                    });
                    self.parts.push(Part { number, stream: first + at });
                    expected.push((number, self.ports[to].interface.0, ends));
                }
                let mut schedule = Schedule::new(&lines, pace, began);
                if let Some(limit) = limit {
                    let (share, shares) = (share as u64, senders.len() as u64);
                    schedule = schedule.limited_to(limit / shares + u64::from(share < limit % shares));
                }
                let taken = self.ports[port].taken[worker].clone();
                let interface = self.ports[port].interface;
                shares[worker].push(PortShare::new(interface, edge, schedule, makers, numbers, cuts, taken));
            }
        }
        let numbers = || expected.iter().map(|(number, ..)| usize::from(*number));
        self.tx.clear(numbers());
        self.rx.clear(numbers());
        let (receiver, generator) = (self.receiver, self.generator);
        for worker in 0..workers {
            // Trackers are made here, so that workers that account for other streams need not wait.
            let tracker = |(number, interface, cuts): &(u16, u32, Arc<Cuts>)| {
                (*number, Box::new(Tracker::new(*interface, cuts.clone())))
            };
            let trackers: Vec<(u16, Box<Tracker>)> = expected.iter().map(tracker).collect();
            self.ask(worker, move |core| {
                if let Some(receiver) = core.node::<Receiver>(receiver) {
                    receiver.start(trackers);
                }
            })?;
        }
        for (worker, shares) in shares.into_iter().enumerate() {
            self.router.graph.call_one(worker, move |core| {
                if let Some(generator) = core.node::<Generator>(generator) {
                    generator.start(shares);
                }
            });
        }
        Ok(())
    }

    /// A number for a share of a stream, which no running share has. [`Tester::plan`] checks that there is one.
    fn free_number(&mut self) -> u16 {
        loop {
            let number = self.next_number;
            self.next_number = number.checked_add(1).unwrap_or(1);
            if !self.parts.iter().any(|part| part.number == number) {
                return number;
            }
        }
    }

    /// Discards all packets that arrive unread, or not, to measure what accounting costs. Then only the ports' own
    /// counts are known.
    ///
    /// # Errors
    /// When a worker does not answer.
    pub fn set_blind(&mut self, is_blind: bool) -> Result<(), TestError> {
        let receiver = self.receiver;
        for worker in 0..self.router.graph.workers() {
            self.ask(worker, move |core| {
                if let Some(receiver) = core.node::<Receiver>(receiver) {
                    receiver.set_blind(is_blind);
                }
            })?;
        }
        Ok(())
    }

    /// Makes one port, or all, go on at another rate.
    ///
    /// # Errors
    /// When the rate is a share of a line whose speed is not known.
    pub fn set_rate(&mut self, port: Option<usize>, rate: Rate) -> Result<(), TestError> {
        for number in (0..self.ports.len()).filter(|number| port.is_none_or(|port| port == *number)) {
            if self.running.iter().all(|stream| stream.port != number) {
                continue;
            }
            let pace = rate.pace(&self.running_mix(number))?;
            for stream in self.running.iter_mut().filter(|stream| stream.port == number) {
                stream.wanted = match pace {
                    Pace::Factor(factor) => Some(stream.program.rate * factor),
                    Pace::Maximum => None,
                };
            }
            let (generator, interface) = (self.generator, self.ports[number].interface);
            for worker in 0..self.router.graph.workers() {
                self.router.graph.call_one(worker, move |core| {
                    if let Some(generator) = core.node::<Generator>(generator) {
                        generator.set_pace(Some(interface), pace);
                    }
                });
            }
        }
        Ok(())
    }

    /// What a port sends, taken together.
    pub fn running_mix(&self, port: usize) -> Mix {
        let own = self.running.iter().filter(|stream| stream.port == port);
        let programs: Vec<Arc<Program>> = own.map(|stream| stream.program.clone()).collect();
        mix_of(&programs, self.ports[port].line)
    }

    /// The streams that run.
    pub fn running(&self) -> &[Running] {
        &self.running
    }

    /// What is counted of each stream by now. Packets on their way are in `sent` only, so this is no figure to judge a
    /// device by.
    pub fn counted(&self) -> Vec<Counted> {
        let mut all = vec![Counted::default(); self.running.len()];
        for part in &self.parts {
            let at = usize::from(part.number);
            let (tx, rx) = (|word| self.tx.sum(at, word), |word| self.rx.sum(at, word));
            let counted = &mut all[part.stream];
            let refused = tx(generate::word::REFUSED);
            counted.sent += tx(generate::word::PACKETS).saturating_sub(refused);
            counted.sent_bytes += tx(generate::word::BYTES).saturating_sub(tx(generate::word::REFUSED_BYTES));
            counted.refused += refused;
            counted.late += tx(generate::word::LATE);
            counted.starved += tx(generate::word::STARVED);
            let threads = 0..self.router.graph.workers();
            let reached = threads.map(|thread| self.rx.value(thread, at, receive::word::REACHED)).max();
            // Packets that the device refused have numbers, too.
            counted.reached += reached.unwrap_or(0).saturating_sub(refused);
            counted.received += rx(receive::word::PACKETS);
            counted.received_bytes += rx(receive::word::BYTES);
            counted.timed += rx(receive::word::TIMED);
            counted.delays = counted.delays.wrapping_add(rx(receive::word::DELAYS));
            let threads = 0..self.router.graph.workers();
            let longest = threads.map(|thread| self.rx.value(thread, at, receive::word::LONGEST)).max();
            counted.longest = counted.longest.max(longest.unwrap_or(0));
        }
        all
    }

    /// Ends an epoch for all that is sent, and reads what was counted by then. None: a worker did not answer in time,
    /// or there were too many epochs.
    pub fn cut(&mut self) -> Option<Cut> {
        if self.epoch == MOST_CUTS {
            return None;
        }
        let epoch = self.epoch;
        self.epoch += 1;
        let generator = self.generator;
        let asked: Vec<_> = (0..self.router.graph.workers())
            .map(|worker| {
                self.post(worker, move |core| {
                    let made = core.node::<Generator>(generator).map(|generator| generator.cut(worker));
                    (time::ticks(), made.unwrap_or_default())
                })
            })
            .collect();
        let (mut at, mut made) = (0, BTreeMap::<u16, Made>::new());
        let mut is_whole = true;
        for (worker, answers) in asked.iter().enumerate() {
            match self.answer(worker, answers) {
                Ok((ticks, own)) => {
                    at = at.max(ticks);
                    made.extend(own);
                }
                Err(_) => is_whole = false,
            }
        }
        let mut counted = self.counted();
        counted.iter_mut().for_each(|counted| {
            let Counted { received, received_bytes, .. } = *counted;
            *counted = Counted { received, received_bytes, ..Counted::default() };
        });
        for part in &self.parts {
            let made = made.get(&part.number).copied().unwrap_or_default();
            let counted = &mut counted[part.stream];
            counted.sent += made.packets - made.refused;
            counted.sent_bytes += made.bytes - made.refused_bytes;
            (counted.refused, counted.late) = (counted.refused + made.refused, counted.late + made.late);
            counted.starved += made.starved;
        }
        for (stream, counted) in self.running.iter_mut().zip(&counted) {
            // If a worker has not answered there is no sample, and this epoch is merged with the next.
            let before = stream.sent_by.last().copied().unwrap_or(0);
            stream.sent_by.push(if is_whole { counted.sent } else { before });
        }
        is_whole.then(|| Cut { epoch, at: time::seconds(at.saturating_sub(self.began)), counted })
    }

    /// Packets and bytes that a port's device has received and sent since the program began, also those that are not
    /// ours.
    pub fn port_counted(&self, number: usize) -> [(u64, u64); 2] {
        let at = self.ports[number].interface.0 as usize;
        let counters = &self.router.counters;
        [&counters.rx, &counters.tx].map(|table| (table.sum(at, 0), table.sum(at, 1)))
    }

    /// Seconds since the first packet was due.
    pub fn elapsed(&self) -> f64 {
        time::seconds(time::ticks().saturating_sub(self.began))
    }

    /// Whether all streams have sent what they had to.
    pub fn has_ended(&self) -> bool {
        (0..self.ports.len()).all(|port| self.port_has_ended(port))
    }

    /// Whether all streams of a port have sent what they had to.
    pub fn port_has_ended(&self, port: usize) -> bool {
        if self.running.iter().any(|stream| stream.port == port && stream.goes_on()) {
            return false;
        }
        let (generator, interface) = (self.generator, self.ports[port].interface);
        (0..self.router.graph.workers()).all(|worker| {
            let asked = self.ask(worker, move |core| {
                core.node::<Generator>(generator).is_none_or(|node| node.has_ended(interface))
            });
            asked.unwrap_or(false)
        })
    }

    /// Stops all ports, waits until nothing has arrived for as long as `drain`, and reads the results.
    ///
    /// # Errors
    /// When a worker does not answer.
    pub fn stop(&mut self, drain: Duration, others: &mut dyn FnMut()) -> Result<Outcome, TestError> {
        let all: Vec<usize> = (0..self.ports.len()).collect();
        self.stop_ports(&all, drain, others)
    }

    /// The same for some ports, while other ports go on.
    ///
    /// # Errors
    /// When a worker does not answer.
    pub fn stop_ports(
        &mut self,
        ports: &[usize],
        drain: Duration,
        others: &mut dyn FnMut(),
    ) -> Result<Outcome, TestError> {
        let (generator, receiver) = (self.generator, self.receiver);
        let mut lateness = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds make sense");
        let began = self.running.iter().filter(|stream| ports.contains(&stream.port)).map(|stream| stream.began).min();
        let began = began.unwrap_or(self.began);
        let (mut pauses, mut pause_count, mut away) = (Vec::new(), 0, 0.0);
        let (mut ended, mut rate_changed) = (began, None);
        let interfaces: Vec<InterfaceIndex> = ports.iter().map(|port| self.ports[*port].interface).collect();
        for worker in 0..self.router.graph.workers() {
            let interfaces = interfaces.clone();
            let stopped = self.ask(worker, move |core| {
                core.node::<Generator>(generator).map(|generator| generator.stop(&interfaces))
            })?;
            let Some(Stopped { lateness: late, away: seen, at, paced_at }) = stopped else { continue };
            pause_count += seen.count;
            away += time::seconds(seen.ticks);
            ended = ended.max(at);
            rate_changed = rate_changed.max(paced_at);
            for late in late.iter_recorded() {
                let ns = time::seconds(late.value_iterated_to()) * 1e9;
                lateness.saturating_record_n(ns as u64, late.count_at_value());
            }
            pauses.extend(seen.longest().filter(|pause| pause.began >= began).map(|Pause { began: at, length }| {
                (worker, time::seconds(at - began), Duration::from_secs_f64(time::seconds(length)))
            }));
        }
        pauses.sort_by(|a, b| a.1.total_cmp(&b.1));
        let counted = self.running.iter().zip(self.counted());
        let at_stop: Vec<Counted> =
            counted.filter(|(stream, _)| ports.contains(&stream.port)).map(|(_, counted)| counted).collect();
        let stopped_at = time::seconds(time::ticks().max(ended).saturating_sub(began));
        let drained = self.drain(ports, drain, others);
        let (gone, parts) = self.take(ports);
        let numbers: Vec<u16> = parts.iter().map(|part| part.number).collect();
        let mut received: BTreeMap<usize, Received> = BTreeMap::new();
        for worker in 0..self.router.graph.workers() {
            let numbers = numbers.clone();
            let stopped =
                self.ask(worker, move |core| core.node::<Receiver>(receiver).map(|receiver| receiver.stop(&numbers)))?;
            for (number, tracker) in stopped.into_iter().flatten() {
                if let Some(part) = parts.iter().find(|part| part.number == number) {
                    received.entry(part.stream).or_default().add(&tracker.finish());
                }
            }
        }
        let streams = gone.into_iter().zip(at_stop).enumerate().map(|(at, ((running, counted), at_stop))| {
            let mut received = received.remove(&at).unwrap_or_default();
            let counted = Counted { received: received.packets, received_bytes: received.bytes, ..counted };
            if counted.lost() == 0 {
                // The port did not take what is missing.
                (received.losses, received.lost_before) = (Vec::new(), false);
            } else if running.is_accounted() && counted.sent > counted.reached {
                // Packets after the last that arrived leave no gap, so their loss is added here.
                received.losses.push(ended);
            }
            let lost_by = match running.is_accounted() {
                true => epochs::lost_by(&running.sent_by, &received.by_epoch, counted.lost()),
                false => Vec::new(),
            };
            Finished { running, counted, received, at_stop, lost_by }
        });
        Ok(Outcome {
            streams: streams.collect(),
            seconds: time::seconds(ended.saturating_sub(began)),
            stopped_at,
            lateness,
            pauses,
            pause_count,
            away,
            began,
            ended,
            rate_changed,
            drained,
            heard: self.ports.iter().map(|port| Ear::sum(&port.ears) - port.heard_before).collect(),
        })
    }

    /// Removes the streams of some ports. Returns them with what was counted of them, and their shares.
    fn take(&mut self, ports: &[usize]) -> (Vec<(Running, Counted)>, Vec<Part>) {
        let counted = self.counted();
        let (mut gone, mut places) = (Vec::new(), Vec::new());
        let running = std::mem::take(&mut self.running);
        for (stream, counted) in running.into_iter().zip(counted) {
            let is_gone = ports.contains(&stream.port);
            places.push((is_gone, if is_gone { gone.len() } else { self.running.len() }));
            match is_gone {
                true => gone.push((stream, counted)),
                false => self.running.push(stream),
            }
        }
        let mut parts = Vec::new();
        for Part { number, stream } in std::mem::take(&mut self.parts) {
            let (is_gone, stream) = places[stream];
            let to = if is_gone { &mut parts } else { &mut self.parts };
            to.push(Part { number, stream });
        }
        (gone, parts)
    }

    /// Waits until no packet of these ports has arrived for as long as `quiet`. Returns how long that took.
    fn drain(&mut self, ports: &[usize], quiet: Duration, others: &mut dyn FnMut()) -> Duration {
        const MOST: Duration = Duration::from_secs(30);
        let begun = Instant::now();
        let own = |tester: &Tester| {
            let counted = tester.running.iter().zip(tester.counted());
            counted.filter(|(stream, _)| ports.contains(&stream.port)).map(|(_, counted)| counted).collect::<Vec<_>>()
        };
        let (mut last, mut changed) = (own(self), Instant::now());
        while changed.elapsed() < quiet && begun.elapsed() < MOST {
            self.wait(Instant::now() + LOOK, others);
            let now = own(self);
            if now != last {
                (last, changed) = (now, Instant::now());
            }
        }
        begun.elapsed().saturating_sub(quiet)
    }
}
