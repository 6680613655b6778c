//! `arping`: checks whether a host on the link answers, by ARP or Neighbor Discovery, or announces one of our
//! addresses.
//!
//! Workers record when they hear of a neighbour. If they hear of it after a request, that is its answer. So the workers
//! have no extra work for each packet. A host that was unknown becomes a neighbour by its answer, like any other.

use super::NeighbourKey;
use super::known::State;
use crate::Router;
use command::{Args, Command, CommandError, CommandSet, Format, Reply, fail, still_wanted};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use graph::InterfaceIndex;
use serde::Serialize;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use wire::MacAddress;

/// VPP's defaults.
const REPEAT: u32 = 1;
const INTERVAL: f64 = 1.0;
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);
/// A day.
const LONGEST_INTERVAL: f64 = 86_400.0;
/// The shortest and the longest wait for the last answer.
const PATIENCE: Duration = Duration::from_secs(1);
const MOST_PATIENCE: Duration = Duration::from_secs(3);
/// How often to check for an answer while one is pending.
const LOOK: Duration = Duration::from_millis(10);
/// The most that may run at once: each may run for days.
const MOST: usize = 32;
/// How long the client may wait before the router checks that it is still connected.
const READER_PATIENCE: Duration = Duration::from_millis(100);

/// The result so far.
#[derive(Debug, Clone, Copy, Default)]
struct Outcome {
    sent: u32,
    received: u32,
    mac: Option<MacAddress>,
}

/// A host that is asked for, or an address that is announced.
struct Arping {
    key: NeighbourKey,
    is_gratuitous: bool,
    repeat: u32,
    interval: Duration,
    /// When the next step is due: the next request, or the end.
    due: Instant,
    /// While a request is pending: when the host was heard of before it, if it was known.
    waits: Option<Option<u64>>,
    outcome: Outcome,
    report: Sender<Outcome>,
    reader: Weak<()>,
}

/// All that run.
#[derive(Default)]
pub(crate) struct Arpings {
    live: Vec<Arping>,
    looked: Option<Instant>,
}

impl Arpings {
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let looks = self.looked.filter(|_| !self.live.is_empty()).map(|looked| looked + LOOK);
        self.live.iter().map(|arping| arping.due).chain(looks).min()
    }
}

impl Router {
    fn start_arping(
        &mut self,
        key: NeighbourKey,
        is_gratuitous: bool,
        (repeat, interval): (u32, Duration),
    ) -> Result<(Receiver<Outcome>, Arc<()>), CommandError> {
        let interface = self.interfaces.get(key.interface)?;
        let name = interface.name.clone();
        if !interface.admin_up {
            return fail(format!("{name} is down: 'set interface state {name} up' first"));
        }
        if !interface.has_neighbours() {
            return fail(format!("{name} is a loopback interface: nobody is there to hear it"));
        }
        if !is_gratuitous && !self.is_on_link(&key) {
            return fail(format!("{} is on no network of {name} ('show interface address {name}')", key.address));
        }
        if self.state::<Arpings>().live.len() >= MOST {
            return fail(format!("{MOST} run already"));
        }
        let (report, outcome) = bounded(1);
        let reader = Arc::new(());
        let now = Instant::now();
        self.state_mut::<Arpings>().live.push(Arping {
            key,
            is_gratuitous,
            repeat,
            interval,
            due: now,
            waits: None,
            outcome: Outcome::default(),
            report,
            reader: Arc::downgrade(&reader),
        });
        self.tick_arpings(now);
        Ok((outcome, reader))
    }

    /// Sends what is due, checks for answers, and ends those that have all their answers or whose client has gone.
    pub(crate) fn tick_arpings(&mut self, now: Instant) {
        if self.state::<Arpings>().live.is_empty() {
            return;
        }
        self.state_mut::<Arpings>().looked = Some(now);
        let mut live = std::mem::take(&mut self.state_mut::<Arpings>().live);
        live.retain_mut(|arping| {
            let goes_on = self.advance_arping(arping, now);
            if !goes_on {
                // The client may have gone.
                let _ = arping.report.try_send(arping.outcome);
            }
            goes_on
        });
        self.state_mut::<Arpings>().live = live;
    }

    /// Returns whether it continues.
    fn advance_arping(&mut self, arping: &mut Arping, now: Instant) -> bool {
        let key = arping.key;
        if let Some(before) = arping.waits
            && let Some(mac) = self.neighbours.get(&key).and_then(|known| known.state.mac())
            && before != Some(self.neighbours.heard_at(&key))
        {
            arping.waits = None;
            arping.outcome.received += 1;
            arping.outcome.mac = Some(mac);
        }
        let is_answered = arping.outcome.received == arping.repeat;
        if is_answered || arping.reader.strong_count() == 0 || self.interfaces.get(key.interface).is_err() {
            return false;
        }
        if arping.due > now {
            return true;
        }
        if arping.outcome.sent == arping.repeat {
            return false;
        }
        arping.outcome.sent += 1;
        let is_last = arping.outcome.sent == arping.repeat;
        arping.due = now + if is_last { arping.interval.clamp(PATIENCE, MOST_PATIENCE) } else { arping.interval };
        match arping.is_gratuitous {
            true => self.announce(key.interface, key.address),
            false => arping.waits = Some(self.ask_on_wire(key)),
        }
        // No host answers an announcement.
        !(arping.is_gratuitous && is_last)
    }

    /// Asks for a host, known or not. Returns when it was heard of before, if it is known.
    fn ask_on_wire(&mut self, key: NeighbourKey) -> Option<u64> {
        match self.neighbours.get(&key).map(|known| known.state) {
            Some(state) if state.mac().is_some() => {
                let heard = self.neighbours.heard_at(&key);
                (self.resolver(key.family()).ask)(self, key, MacAddress::BROADCAST);
                Some(heard)
            }
            // A request for it is already pending.
            Some(State::Incomplete { .. }) => None,
            Some(_) => {
                self.neighbours.take(&key);
                self.resolve_neighbour(key);
                None
            }
            None => {
                self.resolve_neighbour(key);
                None
            }
        }
    }
}

pub fn register(set: &mut CommandSet<Router>) {
    let options = "{{ [repeat <repeat:u32 1..1000000>] | [interval <interval:f64>] }}";
    set.add(
        Command::new(
            &format!("arping <address:ip> <interface:interface> {options}"),
            "Ask a host on the link whether it is there, by ARP or Neighbor Discovery.",
            |router: &mut Router, args: &Args| arping(router, args, false),
        )
        .example("arping 100.64.1.2 e0 repeat 3 interval 0.5"),
    );
    set.add(
        Command::new(
            &format!("arping gratuitous <address:ip> <interface:interface> {options}"),
            "Announce an address on an interface, so that hosts update their neighbour entries.",
            |router: &mut Router, args: &Args| arping(router, args, true),
        )
        .example("arping gratuitous 100.64.1.1 e0"),
    );
}

fn arping(router: &mut Router, args: &Args, is_gratuitous: bool) -> Result<Box<dyn Reply>, CommandError> {
    let interface: InterfaceIndex = router.interfaces.find(args.text("interface")?)?;
    let key = NeighbourKey { interface, address: args.parse("address")? };
    let repeat = args.optional("repeat")?.unwrap_or(REPEAT);
    let interval = args.optional("interval")?.unwrap_or(INTERVAL);
    if !(0.0..=LONGEST_INTERVAL).contains(&interval) {
        return fail(format!("an interval of {interval} s: expected 0.001 to {LONGEST_INTERVAL}"));
    }
    let interval = Duration::from_secs_f64(interval).max(SHORTEST_INTERVAL);
    let (outcome, reader) = router.start_arping(key, is_gratuitous, (repeat, interval))?;
    let interface = args.text("interface")?.to_string();
    Ok(Box::new(ShowArping { address: key.address, interface, is_gratuitous, repeat, outcome, _reader: reader }))
}

/// A running `arping`. The session's thread waits for it while it renders it, so that the control thread does not.
struct ShowArping {
    address: IpAddr,
    interface: String,
    is_gratuitous: bool,
    repeat: u32,
    outcome: Receiver<Outcome>,
    /// Exists as long as the client reads.
    _reader: Arc<()>,
}

#[derive(Serialize)]
struct Shown<'a> {
    address: IpAddr,
    interface: &'a str,
    sent: u32,
    received: u32,
    mac: Option<String>,
}

impl ShowArping {
    fn wait(&self, out: &mut dyn io::Write) -> io::Result<Outcome> {
        loop {
            match self.outcome.recv_timeout(READER_PATIENCE) {
                Ok(outcome) => return Ok(outcome),
                Err(RecvTimeoutError::Timeout) => still_wanted(out)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(Outcome::default()),
            }
        }
    }

    fn write_text(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let (asked, answers) = match (self.is_gratuitous, self.address) {
            (true, _) => ("GARP", ""),
            (false, IpAddr::V4(_)) => ("ARP Request", "ARP Replies"),
            (false, IpAddr::V6(_)) => ("Neighbor Solicitation", "Neighbor Advertisements"),
        };
        writeln!(out, "Sending {} {asked} to {}", self.repeat, self.address)?;
        let outcome = self.wait(out)?;
        match (self.is_gratuitous, outcome.mac) {
            (true, _) => Ok(()),
            (false, Some(mac)) => {
                writeln!(out, "Received {} {answers} from {mac} ({})", outcome.received, self.address)
            }
            (false, None) => writeln!(out, "Received 0 {answers} from {}", self.address),
        }
    }
}

impl Reply for ShowArping {
    fn write(&self, format: Format, out: &mut dyn io::Write) -> io::Result<()> {
        if let Format::Text = format {
            return self.write_text(out);
        }
        let Outcome { sent, received, mac } = self.wait(out)?;
        let mac = mac.map(|mac| mac.to_string());
        let shown = Shown { address: self.address, interface: &self.interface, sent, received, mac };
        Ok(serde_json::to_writer(out, &shown)?)
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.render(Format::Json)).expect("as written above")
    }
}
