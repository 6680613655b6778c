//! Duplicate Address Detection (RFC 4862 section 5.4, RFC 7527): before the router uses an address, it asks the link
//! whether another station has it. It does not use the address while another station does.
//!
//! Detection begins when an address appears on a usable interface, and again when the interface comes back: a station
//! that was plugged in meanwhile may have the address. Until it ends ([`Standing::Tentative`]) the router neither
//! answers for the address nor sends from it. A duplicate ([`Standing::Duplicate`]) stays unused until the interface
//! goes down and up, or the operator sets the address again.

use crate::agenda::{Agenda, Timed};
use crate::ip::control::Source;
use crate::ip6::local_route;
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::fmt;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};
use wire::{Family, MacAddress};

/// RFC 4861 section 10, RetransTimer: how long an answer may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// RFC 4862 section 5.1, DupAddrDetectTransmits.
const TRANSMITS: u32 = 1;
/// Most questions about one address that operators may ask for.
pub const MAX_TRANSMITS: u32 = 16;

/// What is told of a question, by which its sender knows it again when the link reflects it (RFC 7527).
pub type Nonce = [u8; 6];

/// How it stands with an own address that is not used. All others are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The link is being asked.
    Tentative(Nonce),
    /// This station has it.
    Duplicate(MacAddress),
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Standing::Tentative(_) => f.write_str("tentative"),
            Standing::Duplicate(mac) => write!(f, "duplicate, {mac} has it"),
        }
    }
}

/// An address that is being asked about.
#[derive(Debug)]
struct Probe {
    questions_left: u32,
    due: Instant,
}

impl Timed for Probe {
    fn next_due(&self) -> Option<Instant> {
        Some(self.due)
    }
}

/// What is being asked.
#[derive(Debug)]
pub struct Detection {
    /// Questions about each address; 0: none is asked, addresses are used at once.
    pub transmits: u32,
    probes: Agenda<(InterfaceIndex, Ipv6Addr), Probe>,
    /// The time of the last tick, which tests have run ahead of the clock.
    ticked: Instant,
}

impl Default for Detection {
    fn default() -> Detection {
        Detection { transmits: TRANSMITS, probes: Agenda::default(), ticked: Instant::now() }
    }
}

impl Detection {
    pub fn has_default(&self) -> bool {
        self.transmits == TRANSMITS
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.probes.next_due()
    }

    fn now(&self) -> Instant {
        Instant::now().max(self.ticked)
    }
}

/// A number that nobody can guess.
fn nonce() -> Nonce {
    *crate::random::number().to_be_bytes().first_chunk().expect("eight bytes")
}

impl Router {
    /// Sets how often the link is asked about an address before that is used. Questions that run go on as they began.
    pub fn set_dad_transmits(&mut self, transmits: Option<u32>) {
        self.detection.transmits = transmits.unwrap_or(TRANSMITS).min(MAX_TRANSMITS);
    }

    /// Addresses have appeared on an interface, or it can be used again: asks whether anybody has them, or, when
    /// nobody is to be asked, says that we do.
    pub(crate) fn detect_duplicates(&mut self, index: InterfaceIndex, addresses: &[Ipv6Addr]) {
        let asks = self.detection.transmits > 0;
        let now = self.detection.now();
        let Ok(interface) = self.interfaces.get_mut(index) else { return };
        if addresses.is_empty() || !interface.is_usable() || interface.is_loopback() {
            return;
        }
        let before = interface.ip6.standing.clone();
        let mut taken_back = Vec::new();
        for address in addresses {
            let before = match asks {
                true => interface.ip6.standing.insert(*address, Standing::Tentative(nonce())),
                false => interface.ip6.standing.remove(address),
            };
            taken_back.extend(matches!(before, Some(Standing::Duplicate(_))).then_some(*address));
            if asks {
                let probe = Probe { questions_left: self.detection.transmits, due: now };
                self.detection.probes.insert((index, *address), probe);
            }
        }
        let is_news = interface.ip6.standing != before;
        taken_back.into_iter().for_each(|address| self.take_back(index, address));
        if is_news {
            self.publish_facts();
        }
        // Who does not listen to the group of an address does not hear that others have it (RFC 4862 5.4.2).
        self.listen_anew(index);
        match asks {
            true => self.tick_detection(now),
            false => addresses.iter().for_each(|address| self.address_is_ours(index, *address)),
        }
    }

    /// The same of all addresses of an interface.
    pub(crate) fn detect_all_duplicates(&mut self, index: InterfaceIndex) {
        let Ok(interface) = self.interfaces.get(index) else { return };
        let of_networks = interface.ip6.addresses.iter().map(|prefix| prefix.address());
        let addresses: Vec<_> = of_networks.chain(interface.ip6.link_local).collect();
        self.detect_duplicates(index, &addresses);
    }

    /// An interface cannot be used: nobody is asked any more.
    pub(crate) fn suspend_detection(&mut self, index: InterfaceIndex) {
        let Ok(interface) = self.interfaces.get_mut(index) else { return };
        let of_tentative = |_: &Ipv6Addr, standing: &mut Standing| matches!(standing, Standing::Tentative(_));
        let tentative: Vec<_> = interface.ip6.standing.extract_if(.., of_tentative).collect();
        for (address, _) in &tentative {
            self.detection.probes.remove(&(index, *address));
        }
        if !tentative.is_empty() {
            self.publish_facts();
        }
        self.advertise_anew(index);
        self.listen_anew(index);
    }

    /// An address is no longer on an interface.
    pub(crate) fn forget_standing(&mut self, index: InterfaceIndex, address: Ipv6Addr) {
        self.detection.probes.remove(&(index, address));
        if let Ok(interface) = self.interfaces.get_mut(index) {
            interface.ip6.standing.remove(&address);
        }
    }

    /// Asks what is due, and takes into use what nobody claimed in time.
    pub(crate) fn tick_detection(&mut self, now: Instant) {
        self.detection.ticked = self.detection.ticked.max(now);
        let mut settled = Vec::new();
        for (index, address) in self.detection.probes.due(now) {
            let Some(mut probe) = self.detection.probes.get_mut(&(index, address)) else { continue };
            if probe.questions_left == 0 {
                drop(probe);
                self.forget_standing(index, address);
                settled.push((index, address));
                continue;
            }
            (probe.questions_left, probe.due) = (probe.questions_left - 1, now + PATIENCE);
            drop(probe);
            self.send_probe(index, address);
        }
        if !settled.is_empty() {
            self.publish_facts();
        }
        for (index, address) in settled {
            self.address_is_ours(index, address);
            if address.is_unicast_link_local() {
                self.report_all(index);
            }
        }
    }

    /// An address is used from now on.
    fn address_is_ours(&mut self, index: InterfaceIndex, address: Ipv6Addr) {
        self.announce6(index, address);
        if address.is_unicast_link_local() {
            self.advertise_anew(index);
        }
    }

    /// Somebody says that it has an address, or asks for it as we do (RFC 4862 5.4.3, 5.4.4). Gives whether it was
    /// one that we only ask about.
    pub(crate) fn address_is_claimed(&mut self, index: InterfaceIndex, address: Ipv6Addr, by: MacAddress) -> bool {
        let Ok(interface) = self.interfaces.get_mut(index) else { return false };
        if !matches!(interface.ip6.standing.get(&address), Some(Standing::Tentative(_))) {
            return false;
        }
        interface.ip6.standing.insert(address, Standing::Duplicate(by));
        log::error!(
            "{by} on {name} has {address}, which is to be ours: it is not used ('show ip6 interface {name}')",
            name = interface.name
        );
        self.detection.probes.remove(&(index, address));
        self.publish_facts();
        if !address.is_unicast_link_local() {
            let (route, path) = local_route(index, address);
            let table = self.table_of(index, Family::Ip6);
            match self.remove_route_in(table, route, Source::Interface, &[path]) {
                Ok(()) | Err(Error::NoSuchRoute(_)) => {}
                Err(error) => log::error!("route {route} is not up to date: {error}"),
            }
        }
        true
    }

    /// An address that somebody had is tried again.
    fn take_back(&mut self, index: InterfaceIndex, address: Ipv6Addr) {
        if address.is_unicast_link_local() {
            return;
        }
        let (route, path) = local_route(index, address);
        let table = self.table_of(index, Family::Ip6);
        if let Err(error) = self.add_route_in(table, route, Source::Interface, vec![path], true) {
            log::error!("route {route} is not up to date: {error}");
        }
    }
}
