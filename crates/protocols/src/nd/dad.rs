//! Duplicate Address Detection (RFC 4862 section 5.4, RFC 7527): before the router uses an address, it asks the link
//! whether another station has it. It does not use the address while another station does.
//!
//! Detection begins when an address appears on a usable interface, and again when the interface comes back: a station
//! that was plugged in meanwhile may have the address. Until it ends ([`Standing::Tentative`]) the router neither
//! answers for the address nor sends from it. A duplicate ([`Standing::Duplicate`]) stays unused until the interface
//! goes down and up, or the operator sets the address again.

use crate::mld;
pub use router::interface::standing::{Nonce, Standing};

use super::send;
use graph::InterfaceIndex;
use router::addresses::local_route;
pub use router::agenda::{Agenda, Timed};
use router::capability::Notice;
use router::ip::control::Source;
use router::{Error, Router};
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
    *router::random::number().to_be_bytes().first_chunk().expect("eight bytes")
}

/// Sets how many probes are sent for an address before it is used. Running detections continue unchanged.
pub fn set_dad_transmits(router: &mut Router, transmits: Option<u32>) {
    router.state_mut::<Detection>().transmits = transmits.unwrap_or(TRANSMITS).min(MAX_TRANSMITS);
}

/// Called for new addresses of an interface, and when the interface becomes usable again: probes for other stations
/// that have them. If probes are disabled, announces them at once.
pub(crate) fn detect_duplicates_of(router: &mut Router, index: InterfaceIndex, addresses: &[Ipv6Addr]) {
    let detection = router.state::<Detection>();
    let (questions_left, now) = (detection.transmits, detection.now());
    let asks = questions_left > 0;
    let Ok(interface) = router.interfaces.get_mut(index) else { return };
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
        router.state_mut::<Detection>().probes.insert((index, *address), Probe { questions_left, due: now });
    }
    taken_back.into_iter().for_each(|address| take_back(router, index, address));
    if is_news {
        router.publish_facts();
    }
    // Without membership in an address's group, the router would not hear that another station has the address (RFC
    // 4862 5.4.2).
    mld::listen_anew(router, index);
    match asks {
        true => tick_detection(router, now),
        false => addresses.iter().for_each(|address| address_is_ours(router, index, *address)),
    }
}

/// Called when an interface has become unusable: ends all probes.
pub(crate) fn suspend_probes(router: &mut Router, index: InterfaceIndex) {
    let Ok(interface) = router.interfaces.get_mut(index) else { return };
    let of_tentative = |_: &Ipv6Addr, standing: &mut Standing| matches!(standing, Standing::Tentative(_));
    let tentative: Vec<_> = interface.ip6.standing.extract_if(.., of_tentative).collect();
    for (address, _) in &tentative {
        router.state_mut::<Detection>().probes.remove(&(index, *address));
    }
    if !tentative.is_empty() {
        router.publish_facts();
    }
    mld::listen_anew(router, index);
}

/// Called when an address is removed from an interface.
pub(crate) fn forget_standing(router: &mut Router, index: InterfaceIndex, address: Ipv6Addr) {
    router.state_mut::<Detection>().probes.remove(&(index, address));
    if let Ok(interface) = router.interfaces.get_mut(index) {
        interface.ip6.standing.remove(&address);
    }
}

/// Sends the probes that are due, and begins to use addresses that no station claimed in time.
pub(crate) fn tick_detection(router: &mut Router, now: Instant) {
    let detection = router.state_mut::<Detection>();
    detection.ticked = detection.ticked.max(now);
    let mut settled = Vec::new();
    for (index, address) in router.state_mut::<Detection>().probes.due(now) {
        let Some(mut probe) = router.state_mut::<Detection>().probes.get_mut(&(index, address)) else { continue };
        if probe.questions_left == 0 {
            drop(probe);
            forget_standing(router, index, address);
            settled.push((index, address));
            continue;
        }
        (probe.questions_left, probe.due) = (probe.questions_left - 1, now + PATIENCE);
        drop(probe);
        send::probe(router, index, address);
    }
    if !settled.is_empty() {
        router.publish_facts();
    }
    router.operation(|router| {
        for (index, address) in settled {
            address_is_ours(router, index, address);
            if address.is_unicast_link_local() {
                mld::report_all(router, index);
            }
        }
    });
}

/// Called when an address comes into use.
fn address_is_ours(router: &mut Router, index: InterfaceIndex, address: Ipv6Addr) {
    send::announce(router, index, address.into());
    router.say(Notice::AddressInUse { interface: index, address: address.into() });
}

/// Called when another station has an address, or probes for it at the same time (RFC 4862 5.4.3, 5.4.4). Returns
/// whether the address was still being probed.
pub(crate) fn address_is_claimed(
    router: &mut Router,
    index: InterfaceIndex,
    address: Ipv6Addr,
    by: MacAddress,
) -> bool {
    let Ok(interface) = router.interfaces.get_mut(index) else { return false };
    if !matches!(interface.ip6.standing.get(&address), Some(Standing::Tentative(_))) {
        return false;
    }
    interface.ip6.standing.insert(address, Standing::Duplicate(by));
    log::error!(
        "{by} on {name} has {address}, which is to be ours: it is not used ('show ip6 interface {name}')",
        name = interface.name
    );
    router.state_mut::<Detection>().probes.remove(&(index, address));
    router.publish_facts();
    if !address.is_unicast_link_local() {
        let (route, path) = local_route(index, address);
        let table = router.table_of(index, Family::Ip6);
        match router.remove_route_in(table, route, Source::Interface, &[path]) {
            Ok(()) | Err(Error::NoSuchRoute(_)) => {}
            Err(error) => log::error!("route {route} is not up to date: {error}"),
        }
    }
    true
}

/// Tries an address again that another station had.
fn take_back(router: &mut Router, index: InterfaceIndex, address: Ipv6Addr) {
    if address.is_unicast_link_local() {
        return;
    }
    let (route, path) = local_route(index, address);
    let table = router.table_of(index, Family::Ip6);
    if let Err(error) = router.add_route_in(table, route, Source::Interface, vec![path], true) {
        log::error!("route {route} is not up to date: {error}");
    }
}
