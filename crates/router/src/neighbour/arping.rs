//! `arping`: asks a host on the wire whether it is there, by ARP or Neighbor Discovery, or announces an address of
//! ours.
//!
//! Workers note when they hear of a neighbour; that it was heard of after it was asked is its answer. So nothing is
//! asked of packets. One that was not known becomes a neighbour by its answer, as any other.

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
use wire::{Family, MacAddress};

/// What VPP does unless told otherwise.
const REPEAT: u32 = 1;
const INTERVAL: f64 = 1.0;
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);
/// Of a day.
const LONGEST_INTERVAL: f64 = 86_400.0;
/// The last answer is waited for so long at least, and at most.
const PATIENCE: Duration = Duration::from_secs(1);
const MOST_PATIENCE: Duration = Duration::from_secs(3);
/// While an answer is waited for, it is looked for so often.
const LOOK: Duration = Duration::from_millis(10);
/// Most that run at once: each may run for days.
const MOST: usize = 32;
/// How long the reader is left waiting before it is asked whether it is still there.
const READER_PATIENCE: Duration = Duration::from_millis(100);

/// What has come of it.
#[derive(Debug, Clone, Copy, Default)]
struct Outcome {
    sent: u32,
    received: u32,
    mac: Option<MacAddress>,
}

/// A host that is asked, or an address that is announced.
struct Arping {
    key: NeighbourKey,
    is_gratuitous: bool,
    repeat: u32,
    interval: Duration,
    /// When it goes on: the next question, or the end.
    due: Instant,
    /// Since a question that has no answer yet: when the host was heard of before, if it was known.
    waits: Option<Option<u64>>,
    outcome: Outcome,
    report: Sender<Outcome>,
    reader: Weak<()>,
}

/// Those that run.
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
        if interface.is_loopback() {
            return fail(format!("{name} is a loopback interface: nobody is there to hear it"));
        }
        if !is_gratuitous && !self.is_on_link(&key) {
            return fail(format!("{} is on no network of {name} ('show interface address {name}')", key.address));
        }
        if self.arpings.live.len() >= MOST {
            return fail(format!("{MOST} run already"));
        }
        let (report, outcome) = bounded(1);
        let reader = Arc::new(());
        let now = Instant::now();
        self.arpings.live.push(Arping {
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

    /// Sends what is due, looks for answers, and ends those that have had all of them, or whose reader has gone.
    pub(crate) fn tick_arpings(&mut self, now: Instant) {
        if self.arpings.live.is_empty() {
            return;
        }
        self.arpings.looked = Some(now);
        let mut live = std::mem::take(&mut self.arpings.live);
        live.retain_mut(|arping| {
            let goes_on = self.advance_arping(arping, now);
            if !goes_on {
                // Its reader may have gone.
                let _ = arping.report.try_send(arping.outcome);
            }
            goes_on
        });
        self.arpings.live = live;
    }

    /// Says whether it goes on.
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
        match (arping.is_gratuitous, key.address) {
            (true, IpAddr::V4(address)) => self.announce(key.interface, address),
            (true, IpAddr::V6(address)) => self.announce6(key.interface, address),
            (false, _) => arping.waits = Some(self.ask_on_wire(key)),
        }
        // Nobody answers an announcement.
        !(arping.is_gratuitous && is_last)
    }

    /// Asks for a host, known or not; says when it was heard of before, if it is known.
    fn ask_on_wire(&mut self, key: NeighbourKey) -> Option<u64> {
        match self.neighbours.get(&key).map(|known| known.state) {
            Some(state) if state.mac().is_some() => {
                let heard = self.neighbours.heard_at(&key);
                match key.family() {
                    Family::Ip4 => self.send_arp_request(key, MacAddress::BROADCAST),
                    Family::Ip6 => self.send_solicitation(key, MacAddress::BROADCAST),
                }
                Some(heard)
            }
            // It is being asked for.
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

pub(crate) fn register(set: &mut CommandSet<Router>) {
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

/// One that runs: it is waited for when it is rendered, which is on the session's thread, not on control's.
struct ShowArping {
    address: IpAddr,
    interface: String,
    is_gratuitous: bool,
    repeat: u32,
    outcome: Receiver<Outcome>,
    /// As long as it is there, somebody reads.
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
