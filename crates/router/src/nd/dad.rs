//! Duplicate Address Detection (RFC 4862 section 5.4, RFC 7527): before the router uses an address, it asks the link
//! whether another station has it. It does not use the address while another station does.
//!
//! Detection begins when an address appears on a usable interface, and again when the interface comes back: a station
//! that was plugged in meanwhile may have the address. Until it ends ([`Standing::Tentative`]) the router neither
//! answers for the address nor sends from it. A duplicate ([`Standing::Duplicate`]) stays unused until the interface
//! goes down and up, or the operator sets the address again.

pub use crate::interface::standing::{Nonce, Standing};

use super::send;
use crate::agenda::{Agenda, Timed};
use crate::capability::Notice;
use crate::interface::local_route;
use crate::ip::control::Source;
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};
use wire::{Family, MacAddress};

/// RFC 4861 section 10, RetransTimer: how long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// RFC 4862 section 5.1, DupAddrDetectTransmits.
const TRANSMITS: u32 = 1;
/// The most probes for one address that operators may configure.
pub const MAX_TRANSMITS: u32 = 16;

/// An address that is being probed.
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

/// The addresses that are being probed.
#[derive(Debug)]
pub struct Detection {
    /// Probes for each address. With 0 there are none, and addresses are used at once.
    pub transmits: u32,
    probes: Agenda<(InterfaceIndex, Ipv6Addr), Probe>,
    /// The time of the last tick. Tests let it run ahead of the clock.
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

/// A number that other hosts cannot guess.
fn nonce() -> Nonce {
    *crate::random::number().to_be_bytes().first_chunk().expect("eight bytes")
}

impl Router {
    /// Sets how many probes are sent for an address before it is used. Running detections continue unchanged.
    pub fn set_dad_transmits(&mut self, transmits: Option<u32>) {
        self.state_mut::<Detection>().transmits = transmits.unwrap_or(TRANSMITS).min(MAX_TRANSMITS);
    }

    /// Called for new addresses of an interface, and when the interface becomes usable again: probes for other stations
    /// that have them. If probes are disabled, announces them at once.
    pub(crate) fn detect_duplicates_of(&mut self, index: InterfaceIndex, addresses: &[Ipv6Addr]) {
        let detection = self.state::<Detection>();
        let (questions_left, now) = (detection.transmits, detection.now());
        let asks = questions_left > 0;
        let Ok(interface) = self.interfaces.get_mut(index) else { return };
        if addresses.is_empty() || !interface.is_usable() || !interface.has_neighbours() {
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
        }
        let is_news = interface.ip6.standing != before;
        for address in addresses.iter().filter(|_| asks) {
            self.state_mut::<Detection>().probes.insert((index, *address), Probe { questions_left, due: now });
        }
        taken_back.into_iter().for_each(|address| self.take_back(index, address));
        if is_news {
            self.publish_facts();
        }
        // Without membership in an address's group, the router would not hear that another station has the address (RFC
        // 4862 5.4.2).
        self.listen_anew(index);
        match asks {
            true => self.tick_detection(now),
            false => addresses.iter().for_each(|address| self.address_is_ours(index, *address)),
        }
    }

    /// Called when an interface has become unusable: ends all probes.
    pub(crate) fn suspend_probes(&mut self, index: InterfaceIndex) {
        let Ok(interface) = self.interfaces.get_mut(index) else { return };
        let of_tentative = |_: &Ipv6Addr, standing: &mut Standing| matches!(standing, Standing::Tentative(_));
        let tentative: Vec<_> = interface.ip6.standing.extract_if(.., of_tentative).collect();
        for (address, _) in &tentative {
            self.state_mut::<Detection>().probes.remove(&(index, *address));
        }
        if !tentative.is_empty() {
            self.publish_facts();
        }
        self.listen_anew(index);
    }

    /// Called when an address is removed from an interface.
    pub(crate) fn forget_standing(&mut self, index: InterfaceIndex, address: Ipv6Addr) {
        self.state_mut::<Detection>().probes.remove(&(index, address));
        if let Ok(interface) = self.interfaces.get_mut(index) {
            interface.ip6.standing.remove(&address);
        }
    }

    /// Sends the probes that are due, and begins to use addresses that no station claimed in time.
    pub(crate) fn tick_detection(&mut self, now: Instant) {
        let detection = self.state_mut::<Detection>();
        detection.ticked = detection.ticked.max(now);
        let mut settled = Vec::new();
        for (index, address) in self.state_mut::<Detection>().probes.due(now) {
            let Some(mut probe) = self.state_mut::<Detection>().probes.get_mut(&(index, address)) else { continue };
            if probe.questions_left == 0 {
                drop(probe);
                self.forget_standing(index, address);
                settled.push((index, address));
                continue;
            }
            (probe.questions_left, probe.due) = (probe.questions_left - 1, now + PATIENCE);
            drop(probe);
            send::probe(self, index, address);
        }
        if !settled.is_empty() {
            self.publish_facts();
        }
        self.operation(|router| {
            for (index, address) in settled {
                router.address_is_ours(index, address);
                if address.is_unicast_link_local() {
                    router.report_all(index);
                }
            }
        });
    }

    /// Called when an address comes into use.
    fn address_is_ours(&mut self, index: InterfaceIndex, address: Ipv6Addr) {
        send::announce(self, index, address.into());
        self.say(Notice::AddressInUse { interface: index, address: address.into() });
    }

    /// Called when another station has an address, or probes for it at the same time (RFC 4862 5.4.3, 5.4.4). Returns
    /// whether the address was still being probed.
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
        self.state_mut::<Detection>().probes.remove(&(index, address));
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

    /// Tries an address again that another station had.
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
