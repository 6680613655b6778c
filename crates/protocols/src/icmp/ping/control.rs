//! Pings as the control thread keeps them: it paces them, matches them with the workers' reports, and sends the results
//! to the client over a channel.

use super::Event;
use super::awaited::{Awaited, Peer};
use super::egress::{self, Egress, is_link_local};
use super::request::{EchoRequests, Request, headers_of};
use crossbeam_channel::{Receiver, Sender, TrySendError};
use graph::{InterfaceIndex, time};
use router::by_family::ByFamily;
use router::interface::standing::Standing;
use router::ip::control::TableIndex;
use router::{Error, Router};
use serde::Serialize;
use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::{Family, Prefix};

/// Most pings at a time.
pub const MAX_PINGS: usize = 16;
/// Bounds of the time between requests.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
const MAX_INTERVAL: Duration = Duration::from_secs(3600);
/// How long to wait for the last answers.
const PATIENCE: Duration = Duration::from_secs(1);
const MOST_PATIENCE: Duration = Duration::from_secs(10);
/// Requests of one ping whose answers are still recognised: the latest ones.
const WINDOW: usize = 1024;
/// Lines that may wait for the client. Answers beyond these are counted and not shown.
const LINES: usize = 4096;
/// Answers that a request may have: a reply and one duplicate.
const ANSWERS: u32 = 2;
/// The worker that sends the requests.
const SENDER: usize = 0;

/// Why a ping was refused.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    #[error("no route to {0}")]
    NoRoute(IpAddr),
    #[error("no route to {0}: packets to {1} are not forwarded")]
    Refused(IpAddr, Prefix),
    #[error("{0} is no host's address")]
    NoHost(IpAddr),
    #[error("{0} is link-local, of one link only: name its interface, as in 'ping {0} source e0'")]
    WhichLink(IpAddr),
    #[error("interface {name} has no {what} address to ping from")]
    NoSource { name: String, what: &'static str },
    #[error("{address} of {name} is not used to ping from: it is {standing} ('show ip6 interface {name}')")]
    UnusedSource { name: String, address: Ipv6Addr, standing: Standing },
    #[error(
        "no interface belongs to table {0}, so that no answer would come ('set interface ip table' has one belong)"
    )]
    NobodysTable(u32),
    #[error("a packet of {packet} bytes is over the mtu of {mtu} and must not be fragmented: size is at most {most}",
        packet = headers + *.size as usize, most = (*mtu as usize).saturating_sub(*headers))]
    TooLarge { size: u16, mtu: u16, headers: usize },
    #[error("interval must be 0.001 to 3600 seconds")]
    Interval,
    #[error("{MAX_PINGS} pings run already")]
    TooMany,
}

router::codes! { PingError {
    NoRoute => "ping-no-route",
    Refused => "ping-refused",
    NoHost => "ping-no-host",
    WhichLink => "ping-which-link",
    NoSource => "ping-no-source",
    UnusedSource => "ping-unused-source",
    NobodysTable => "ping-nobodys-table",
    TooLarge => "ping-too-large",
    Interval => "ping-interval",
    TooMany => "ping-too-many",
} }

/// What to ping, and how.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub destination: IpAddr,
    pub repeat: u32,
    /// Bytes of data.
    pub size: u16,
    pub interval: f64,
    /// The table in which the host's route is looked up. Default: the table of the `source` interface, else the default
    /// table.
    pub table: Option<TableIndex>,
    /// The interface from whose address the requests are sent. Default: the outgoing interface. For a link-local
    /// address, also the link on which the host is.
    pub source: Option<InterfaceIndex>,
    pub ttl: u8,
    /// For IPv4: routers never fragment an IPv6 packet.
    pub dont_fragment: bool,
}

impl Wanted {
    fn family(&self) -> Family {
        Family::of(self.destination)
    }

    /// The interface on whose link the host is, when its address is link-local.
    fn link(&self) -> Option<InterfaceIndex> {
        self.source.filter(|_| is_link_local(self.destination))
    }

    fn peer(&self) -> Peer {
        Peer { address: self.destination, link: self.link() }
    }
}

/// The result of one request.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Line {
    Reply { from: IpAddr, sequence: u32, bytes: u16, ttl: u8, milliseconds: f64, duplicate: bool },
    Refused { from: IpAddr, sequence: u32, reason: String },
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Reply { from, sequence, bytes, ttl, milliseconds, duplicate } => {
                // VPP writes no zero before the decimal point.
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

/// The client's end of a ping. Dropping it ends the ping.
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
    source: IpAddr,
    wanted: Wanted,
    interval: Duration,
    due: Instant,
    outstanding: VecDeque<Outstanding>,
    statistics: Arc<Mutex<Statistics>>,
    lines: Sender<Line>,
    /// The client has disconnected.
    is_over: bool,
}

impl Ping {
    /// Whether the client, which holds the other reference to the statistics, has gone.
    fn is_left(&self) -> bool {
        Arc::strong_count(&self.statistics) == 1
    }

    fn statistics(&self) -> std::sync::MutexGuard<'_, Statistics> {
        // Plain counts stay valid even if a reader panicked while it held the lock.
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
            Event::Refused { sequence, from, to, refusal, .. } if to == self.wanted.destination => {
                let Some(request) = self.find(sequence).filter(|request| !request.answered) else { return };
                request.answered = true;
                let sequence = request.sequence;
                self.tell(Line::Refused { from, sequence, reason: refusal.to_string() });
            }
            Event::Reply { .. } | Event::Refused { .. } => {}
        }
    }
}

/// All running pings.
#[derive(Default)]
pub struct Pings {
    live: Vec<Ping>,
    /// Set when the router starts.
    pub(crate) nodes: ByFamily<Option<super::Nodes>>,
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

    /// An identifier that no running ping has and that other hosts cannot guess.
    fn free_identifier(&self) -> u16 {
        let start = router::random::number() as u16;
        let taken = |identifier: &u16| self.live.iter().any(|ping| ping.identifier == *identifier);
        (0..=u16::MAX).map(|n| start.wrapping_add(n)).find(|id| !taken(id)).unwrap_or(start)
    }
}

/// Begins to ping a host. The first request is sent at once.
///
/// # Errors
/// When there is no route to the host, the packet is too large for it, or too many pings run.
pub fn start_ping(router: &mut Router, wanted: Wanted) -> Result<Answers, Error> {
    let (destination, family) = (wanted.destination, wanted.family());
    let is_broadcast = matches!(destination, IpAddr::V4(address) if address.is_broadcast());
    if destination.is_unspecified() || destination.is_multicast() || is_broadcast {
        return Err(PingError::NoHost(destination).into());
    }
    let interval = Duration::try_from_secs_f64(wanted.interval).ok();
    let interval = interval.filter(|time| (MIN_INTERVAL..=MAX_INTERVAL).contains(time));
    let interval = interval.ok_or(PingError::Interval)?;
    // A ping whose client has gone makes room.
    let left: Vec<u16> =
        router.state::<Pings>().live.iter().filter(|ping| ping.is_left()).map(|ping| ping.identifier).collect();
    left.into_iter().for_each(|identifier| end_ping(router, identifier));
    if router.state::<Pings>().live.len() == MAX_PINGS {
        return Err(PingError::TooMany.into());
    }
    let table = wanted.table.or(wanted.source.map(|index| router.table_of(index, family))).unwrap_or_default();
    let out = way_of_ping(router, &wanted, table)?;
    let headers = headers_of(family);
    let (size, mtu) = (wanted.size, out.mtu.unwrap_or(u16::MAX));
    let must_fit = wanted.dont_fragment || family == Family::Ip6;
    if must_fit && headers + usize::from(size) > usize::from(mtu) {
        return Err(PingError::TooLarge { size, mtu, headers }.into());
    }
    let source = match wanted.source {
        Some(index) => egress::source_towards(router, index, destination),
        None => out.source,
    };
    // The source and the destination of a request are of one family.
    let source = source.filter(|source| Family::of(*source) == family);
    let source = source.ok_or_else(|| egress::no_source(router, wanted.source.or(out.interface), destination))?;
    if !has_member(router, family, table) {
        return Err(PingError::NobodysTable(router.ip.id_of(table)).into());
    }
    let (lines, receiver) = crossbeam_channel::bounded(LINES);
    let statistics = Arc::<Mutex<Statistics>>::default();
    let identifier = router.state::<Pings>().free_identifier();
    let answers = Answers { lines: receiver, statistics: statistics.clone() };
    let now = Instant::now();
    router.state_mut::<Pings>().live.push(Ping {
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
    tick_pings(router, now);
    Ok(answers)
}

fn way_of_ping(router: &Router, wanted: &Wanted, table: TableIndex) -> Result<Egress, PingError> {
    let destination = wanted.destination;
    match wanted.link() {
        Some(link) => egress::egress_onto(router, link, destination),
        None if is_link_local(destination) => Err(PingError::WhichLink(destination)),
        None => egress::way_to(router, table, destination),
    }
}

/// Whether some interface's received packets are looked up in this table, or it is the default table.
fn has_member(router: &Router, family: Family, table: TableIndex) -> bool {
    table == TableIndex::DEFAULT || router.interfaces.iter().any(|interface| interface.table(family) == table)
}

/// Handles a worker's report of a request or an answer.
pub(crate) fn handle_ping(router: &mut Router, event: Event) {
    let identifier = event.identifier();
    if let Some(ping) = router.state_mut::<Pings>().live.iter_mut().find(|ping| ping.identifier == identifier) {
        ping.answer(event);
        if ping.is_complete() || ping.is_over {
            end_ping(router, identifier);
        }
    }
}

/// Sends the requests that are due. Ends pings that have waited long enough for their answers, or whose client has
/// gone.
pub(crate) fn tick_pings(router: &mut Router, now: Instant) {
    let due = router.state::<Pings>().live.iter().filter(|ping| ping.due <= now).map(|ping| ping.identifier);
    for identifier in due.collect::<Vec<_>>() {
        let ping = router.state::<Pings>().live.iter().find(|ping| ping.identifier == identifier);
        let has_member = |ping: &Ping| has_member(router, ping.wanted.family(), ping.table);
        let rx = ping.and_then(|ping| ping.wanted.link().or(has_member(ping).then_some(InterfaceIndex(0))));
        let ping = router
            .state_mut::<Pings>()
            .live
            .iter_mut()
            .find(|ping| ping.identifier == identifier)
            .expect("listed above");
        let sent = ping.statistics().sent;
        // A ping cannot go on either when no interface belongs to its table any more.
        let Some(rx) = rx.filter(|_| sent < ping.wanted.repeat && !ping.is_left()) else {
            end_ping(router, identifier);
            continue;
        };
        ping.statistics().sent += 1;
        if ping.outstanding.len() == WINDOW {
            ping.outstanding.pop_front();
        }
        let sequence = sent + 1;
        ping.outstanding.push_back(Outstanding { sequence, sent: None, answered: false });
        // The last answer has as much time as a further request would give it, within bounds.
        let patience = ping.interval.clamp(PATIENCE, MOST_PATIENCE);
        ping.due = now + if sequence == ping.wanted.repeat { patience } else { ping.interval };
        let Wanted { destination, size, ttl, dont_fragment, .. } = ping.wanted;
        let (sequence, source, table, peer) = (sequence as u16, ping.source, ping.table, ping.wanted.peer());
        let request = Request { rx, table, identifier, sequence, source, destination, size, ttl, dont_fragment };
        // Before the request is sent, because the answer may come quickly.
        change_awaited(router, peer.address, move |awaited| awaited.expect(identifier, peer, ANSWERS));
        send_request(router, request);
    }
}

fn ping_nodes(router: &Router, host: IpAddr) -> super::Nodes {
    router.state::<Pings>().nodes[Family::of(host)].expect("both families have nodes")
}

/// Changes, in all workers, which answers of a host the input node of its family waits for.
fn change_awaited(router: &Router, host: IpAddr, change: impl Fn(&mut Awaited) + Copy + Send + 'static) {
    let super::Nodes { input, awaited, .. } = ping_nodes(router, host);
    router.graph.call(|_| Box::new(move |core| awaited(core, input).into_iter().for_each(change)));
}

fn send_request(router: &Router, request: Request) {
    let requests = ping_nodes(router, request.destination).requests;
    router.graph.call_one(SENDER, move |core| {
        if let Some(requests) = core.node::<EchoRequests>(requests) {
            requests.send(request);
        }
    });
}

fn end_ping(router: &mut Router, identifier: u16) {
    let Some(at) = router.state::<Pings>().live.iter().position(|ping| ping.identifier == identifier) else { return };
    let ping = router.state_mut::<Pings>().live.remove(at);
    change_awaited(router, ping.wanted.destination, move |awaited| awaited.forget(identifier));
}
