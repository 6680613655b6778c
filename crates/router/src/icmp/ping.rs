//! Pings as control keeps them: paced, matched with what workers report, and told to whoever
//! asked over a channel.
//!
//! Workers tell of each request when it goes ([`Event::Sent`]) and of each answer to an
//! identifier that control gave out. They let two answers through for each request, so that
//! duplicates show and a flood does not reach control.

use super::input::EchoInput;
use super::request::{EchoRequests, HEADERS, Request};
use crate::ip::control::{TableIndex, Way};
use crate::{Error, Router};
use crossbeam_channel::{Receiver, Sender, TrySendError};
use graph::{InterfaceIndex, time};
use serde::Serialize;
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::icmpv4::Type;
use wire::{Family, Prefix};

/// Most pings at once.
pub const MAX_PINGS: usize = 16;
/// Bounds of the time between requests.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
const MAX_INTERVAL: Duration = Duration::from_secs(3600);
/// How long the last answers are waited for.
const PATIENCE: Duration = Duration::from_secs(1);
const MOST_PATIENCE: Duration = Duration::from_secs(10);
/// Requests of one ping whose answers are still recognised.
const WINDOW: usize = 1024;
/// Lines that may wait for the reader; more are counted and not shown.
const LINES: usize = 4096;
/// Answers that a request may have: one and a duplicate.
const ANSWERS: u32 = 2;
/// The worker that sends.
const SENDER: usize = 0;

/// What workers tell of requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Sent { identifier: u16, sequence: u16, ticks: u64 },
    Reply { identifier: u16, sequence: u16, ticks: u64, from: Ipv4Addr, ttl: u8, bytes: u16 },
    Refused { identifier: u16, sequence: u16, from: Ipv4Addr, to: Ipv4Addr, kind: Type, code: u8 },
}

impl From<Event> for crate::Event {
    fn from(event: Event) -> crate::Event {
        crate::Event::Ping(event)
    }
}

/// Why a ping was refused.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    #[error("no route to {0}")]
    NoRoute(Ipv4Addr),
    #[error("no route to {0}: packets to {1} are not forwarded")]
    Refused(Ipv4Addr, Prefix),
    #[error("{0} is no host's address")]
    NoHost(Ipv4Addr),
    #[error("interface {0} has no IPv4 address to ping from")]
    NoSource(String),
    #[error(
        "no interface belongs to table {0}, so that no answer would come (`set interface ip table' has one belong)"
    )]
    NobodysTable(u32),
    #[error("a packet of {packet} bytes is over the mtu of {mtu} and must not be fragmented: size is at most {most}", packet = HEADERS + *.size as usize, most = (*mtu as usize).saturating_sub(HEADERS))]
    TooLarge { size: u16, mtu: u16 },
    #[error("interval must be 0.001 to 3600 seconds")]
    Interval,
    #[error("{MAX_PINGS} pings run already")]
    TooMany,
}

/// What to ping and how.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub destination: Ipv4Addr,
    pub repeat: u32,
    /// Bytes of data.
    pub size: u16,
    pub interval: f64,
    /// The table in which its route is looked for; else that of the interface whose address it is sent from, else the
    /// default one.
    pub table: Option<TableIndex>,
    /// Whose address to send from; else that of the interface on the way.
    pub source: Option<InterfaceIndex>,
    pub ttl: u8,
    pub dont_fragment: bool,
}

/// What there is to tell of one request.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Line {
    Reply { from: Ipv4Addr, sequence: u32, bytes: u16, ttl: u8, milliseconds: f64, duplicate: bool },
    Refused { from: Ipv4Addr, sequence: u32, reason: String },
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Reply { from, sequence, bytes, ttl, milliseconds, duplicate } => {
                // VPP writes no zero before the point.
                let time = format!("{milliseconds:.4}");
                let time = time.strip_prefix('0').unwrap_or(&time);
                let duplicate = if *duplicate { " (duplicate)" } else { "" };
                writeln!(f, "{bytes} bytes from {from}: icmp_seq={sequence} ttl={ttl} time={time} ms{duplicate}")
            }
            Line::Refused { from, sequence, reason } => writeln!(f, "From {from}: icmp_seq={sequence} {reason}"),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Statistics {
    pub sent: u32,
    pub received: u32,
}

impl Statistics {
    pub fn loss_percent(&self) -> u32 {
        (u64::from(self.sent.saturating_sub(self.received)) * 100 / u64::from(self.sent.max(1))) as u32
    }
}

/// The reader's end of a ping. When it is dropped the ping ends.
pub struct Answers {
    pub lines: Receiver<Line>,
    pub statistics: Arc<Mutex<Statistics>>,
}

struct Outstanding {
    sequence: u32,
    sent: Option<u64>,
    answered: bool,
}

struct Ping {
    identifier: u16,
    table: TableIndex,
    source: Ipv4Addr,
    wanted: Wanted,
    interval: Duration,
    due: Instant,
    outstanding: VecDeque<Outstanding>,
    statistics: Arc<Mutex<Statistics>>,
    lines: Sender<Line>,
    /// The reader has gone.
    is_over: bool,
}

impl Ping {
    /// Its reader has gone, whose the statistics are, too.
    fn is_left(&self) -> bool {
        Arc::strong_count(&self.statistics) == 1
    }

    fn statistics(&self) -> std::sync::MutexGuard<'_, Statistics> {
        // Plain counts are right even if a reader panicked over them.
        self.statistics.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The latest request with these lower bits of its number.
    fn find(&mut self, sequence: u16) -> Option<&mut Outstanding> {
        self.outstanding.iter_mut().rev().find(|request| request.sequence as u16 == sequence)
    }

    fn tell(&mut self, line: Line) {
        if let Err(TrySendError::Disconnected(_)) = self.lines.try_send(line) {
            self.is_over = true;
        }
    }

    fn is_complete(&self) -> bool {
        self.statistics().sent == self.wanted.repeat && self.outstanding.iter().all(|request| request.answered)
    }

    fn answer(&mut self, event: Event) {
        match event {
            Event::Sent { sequence, ticks, .. } => {
                if let Some(request) = self.find(sequence) {
                    request.sent = Some(ticks);
                }
            }
            Event::Reply { sequence, ticks, from, ttl, bytes, .. } if from == self.wanted.destination => {
                let Some(request) = self.find(sequence) else { return };
                let Some(sent) = request.sent else { return };
                let (sequence, duplicate) = (request.sequence, request.answered);
                request.answered = true;
                if !duplicate {
                    self.statistics().received += 1;
                }
                let milliseconds = time::seconds(ticks.saturating_sub(sent)) * 1e3;
                self.tell(Line::Reply { from, sequence, bytes, ttl, milliseconds, duplicate });
            }
            Event::Refused { sequence, from, to, kind, code, .. } if to == self.wanted.destination => {
                let Some(request) = self.find(sequence).filter(|request| !request.answered) else { return };
                request.answered = true;
                let sequence = request.sequence;
                let reason = kind.code_name(code).map_or_else(|| format!("{kind} code {code}"), str::to_string);
                self.tell(Line::Refused { from, sequence, reason });
            }
            Event::Reply { .. } | Event::Refused { .. } => {}
        }
    }
}

/// All pings that run.
#[derive(Default)]
pub struct Pings {
    live: Vec<Ping>,
}

impl Pings {
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.live.iter().map(|ping| ping.due).min()
    }

    pub fn len(&self) -> usize {
        self.live.len()
    }

    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// An identifier that no live ping has and nobody can guess.
    fn free_identifier(&self) -> u16 {
        let start = RandomState::new().build_hasher().finish() as u16;
        let taken = |identifier: &u16| self.live.iter().any(|ping| ping.identifier == *identifier);
        (0..=u16::MAX).map(|n| start.wrapping_add(n)).find(|id| !taken(id)).unwrap_or(start)
    }
}

/// How packets to a host leave.
struct WayOut {
    source: Option<Ipv4Addr>,
    interface: Option<InterfaceIndex>,
    /// None: they do not leave.
    mtu: Option<u16>,
}

impl Router {
    /// Begins to ping a host; the first request goes at once.
    ///
    /// # Errors
    /// When there is no way to the host, the packet is too large for it, or too many pings run.
    pub fn start_ping(&mut self, wanted: Wanted) -> Result<Answers, Error> {
        let destination = wanted.destination;
        if destination.is_unspecified() || destination.is_multicast() || destination.is_broadcast() {
            return Err(PingError::NoHost(destination).into());
        }
        let interval = Duration::try_from_secs_f64(wanted.interval).ok();
        let interval = interval.filter(|time| (MIN_INTERVAL..=MAX_INTERVAL).contains(time));
        let interval = interval.ok_or(PingError::Interval)?;
        // Whose reader has gone makes room.
        let left: Vec<u16> = self.pings.live.iter().filter(|ping| ping.is_left()).map(|ping| ping.identifier).collect();
        left.into_iter().for_each(|identifier| self.end_ping(identifier));
        if self.pings.live.len() == MAX_PINGS {
            return Err(PingError::TooMany.into());
        }
        let table = wanted.table.or(wanted.source.map(|index| self.table_of(index, Family::Ip4))).unwrap_or_default();
        let out = self.way_to(table, destination)?;
        let is_too_large = |mtu: &u16| wanted.dont_fragment && HEADERS + usize::from(wanted.size) > usize::from(*mtu);
        if let Some(mtu) = out.mtu.filter(is_too_large) {
            return Err(PingError::TooLarge { size: wanted.size, mtu }.into());
        }
        let source = match wanted.source {
            Some(index) => self.interfaces.address_towards(index, destination),
            None => out.source,
        };
        let source = source.ok_or_else(|| {
            let interface = wanted.source.or(out.interface).and_then(|index| self.interfaces.get(index).ok());
            PingError::NoSource(interface.map_or_else(|| "?".into(), |interface| interface.name.clone()))
        })?;
        self.member_of(table).ok_or(PingError::NobodysTable(self.ip.id_of(table)))?;
        let (lines, receiver) = crossbeam_channel::bounded(LINES);
        let statistics = Arc::<Mutex<Statistics>>::default();
        let identifier = self.pings.free_identifier();
        let answers = Answers { lines: receiver, statistics: statistics.clone() };
        let now = Instant::now();
        self.pings.live.push(Ping {
            identifier,
            table,
            source,
            wanted,
            interval,
            due: now,
            outstanding: VecDeque::new(),
            statistics,
            lines,
            is_over: false,
        });
        self.tick_pings(now);
        Ok(answers)
    }

    /// An interface as if by which packets come that are to be looked up in a table.
    fn member_of(&self, table: TableIndex) -> Option<InterfaceIndex> {
        match table {
            // No interface has the index 0, and what is nobody's is looked up there.
            TableIndex::DEFAULT => Some(InterfaceIndex(0)),
            _ => self.interfaces.iter().find(|interface| interface.ip4.table == table).map(|member| member.index),
        }
    }

    /// By which interface packets to a host leave, as far as its route in a table says.
    fn way_to(&self, table: TableIndex, destination: Ipv4Addr) -> Result<WayOut, PingError> {
        self.way_in(table, destination, crate::ip::fibs::MAX_TABLES_IN_A_ROW)
    }

    fn way_in(&self, table: TableIndex, destination: Ipv4Addr, most: u32) -> Result<WayOut, PingError> {
        let found = self.ip.longest_match(table, destination.into()).filter(|_| most > 0);
        let (prefix, route) = found.ok_or(PingError::NoRoute(destination))?;
        let usable = |index: InterfaceIndex| self.interfaces.get(index).ok().filter(|interface| interface.is_usable());
        for paths in route.sources.values() {
            let mut found: Option<WayOut> = None;
            for path in paths {
                let ways: Vec<(InterfaceIndex, IpAddr)> = match path.way {
                    Way::Local(_) | Way::LocalAnywhere => {
                        return Ok(WayOut { source: Some(destination), interface: None, mtu: None });
                    }
                    Way::Drop | Way::Punt | Way::Unreachable | Way::Prohibit | Way::Broadcast(_) => {
                        return Err(PingError::Refused(destination, prefix));
                    }
                    Way::Attached(index) => vec![(index, destination.into())],
                    Way::OnLink { next_hop, interface } => vec![(interface, next_hop)],
                    Way::Lookup(other) => return self.way_in(other, destination, most - 1),
                    Way::Via { .. } | Way::ViaIn { .. } => {
                        match (self.way_of(&path.way, table), path.way.open_hop(table)) {
                            (Some(key), _) => vec![(key.interface, key.address)],
                            (None, Some(hop)) => {
                                self.ip.reached_by(hop).map(|key| (key.interface, key.address)).collect()
                            }
                            (None, None) => vec![],
                        }
                    }
                };
                for (index, towards) in ways {
                    let (Some(interface), IpAddr::V4(towards)) = (usable(index), towards) else { continue };
                    // Whichever path the flow takes, it has to fit.
                    let mtu =
                        found.as_ref().and_then(|out| out.mtu).unwrap_or(interface.ip4_mtu).min(interface.ip4_mtu);
                    let first = found.and_then(|out| Some((out.source?, out.interface)));
                    let (source, interface) = match first {
                        Some((source, interface)) => (Some(source), interface),
                        None => (self.interfaces.address_towards(interface.index, towards), Some(interface.index)),
                    };
                    found = Some(WayOut { source, interface, mtu: Some(mtu) });
                }
            }
            if let Some(out) = found {
                return Ok(out);
            }
        }
        Err(PingError::NoRoute(destination))
    }

    /// Takes in what a worker saw of a request or an answer.
    pub(crate) fn handle_ping(&mut self, event: Event) {
        let (Event::Sent { identifier, .. } | Event::Reply { identifier, .. } | Event::Refused { identifier, .. }) =
            event;
        if let Some(ping) = self.pings.live.iter_mut().find(|ping| ping.identifier == identifier) {
            ping.answer(event);
            if ping.is_complete() || ping.is_over {
                self.end_ping(identifier);
            }
        }
    }

    /// Sends what is due, and ends pings whose answers were waited for long enough or whose
    /// reader has gone.
    pub(crate) fn tick_pings(&mut self, now: Instant) {
        let due = self.pings.live.iter().filter(|ping| ping.due <= now).map(|ping| ping.identifier);
        for identifier in due.collect::<Vec<_>>() {
            let table = self.pings.live.iter().find(|ping| ping.identifier == identifier).map(|ping| ping.table);
            let rx = table.and_then(|table| self.member_of(table));
            let ping = self.pings.live.iter_mut().find(|ping| ping.identifier == identifier).expect("listed above");
            let sent = ping.statistics().sent;
            // Nor can it go on when no interface belongs to its table any more.
            let Some(rx) = rx.filter(|_| sent < ping.wanted.repeat && !ping.is_left()) else {
                self.end_ping(identifier);
                continue;
            };
            ping.statistics().sent += 1;
            if ping.outstanding.len() == WINDOW {
                ping.outstanding.pop_front();
            }
            let sequence = sent + 1;
            ping.outstanding.push_back(Outstanding { sequence, sent: None, answered: false });
            // The last answer has as long as another request would give it, within reason.
            let patience = ping.interval.clamp(PATIENCE, MOST_PATIENCE);
            ping.due = now + if sequence == ping.wanted.repeat { patience } else { ping.interval };
            let Wanted { destination, size, ttl, dont_fragment, .. } = ping.wanted;
            let sequence = sequence as u16;
            let request =
                Request { rx, identifier, sequence, source: ping.source, destination, size, ttl, dont_fragment };
            self.send_request(request);
        }
    }

    fn send_request(&self, request: Request) {
        let (input, requests) = (self.nodes.icmp.input, self.nodes.icmp.requests);
        // Before it goes, for the answer may be quick.
        self.graph.call(|_| {
            Box::new(move |core| {
                if let Some(input) = core.node::<EchoInput>(input) {
                    input.expect(request.identifier, ANSWERS);
                }
            })
        });
        self.graph.call_one(SENDER, move |core| {
            if let Some(requests) = core.node::<EchoRequests>(requests) {
                requests.send(request);
            }
        });
    }

    fn end_ping(&mut self, identifier: u16) {
        self.pings.live.retain(|ping| ping.identifier != identifier);
        let input = self.nodes.icmp.input;
        self.graph.call(|_| {
            Box::new(move |core| {
                if let Some(input) = core.node::<EchoInput>(input) {
                    input.forget(identifier);
                }
            })
        });
    }
}
