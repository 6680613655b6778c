//! When the router sends advertisements (RFC 4861 sections 6.2.4 to 6.2.6), and what it hears from other routers.

use super::Settings;
use super::message;
use crate::nd::RouterEvent;
use graph::InterfaceIndex;
pub use router::agenda::{Agenda, Timed};
use router::capability::Notice;
use router::rate::Throttle;
use router::{Error, Router, random};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};
use wire::MacAddress;
use wire::ethernet::EtherType;
use wire::nd::{RouterAdvertisement, group_mac};

/// RFC 4861 section 10: the shortest time between two advertisements to all hosts, and the longest delay before an
/// answer.
const LEAST_PAUSE: Duration = Duration::from_secs(3);
const ANSWER_DELAY: Duration = Duration::from_millis(500);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Hosts of a link that may wait for an answer of their own; more are answered together.
const MAX_WAITING: usize = 16;
/// The most other routers of a link that are remembered.
const MAX_OTHERS: usize = 16;

/// Another router on the link.
#[derive(Debug, Clone, Copy)]
pub struct Other {
    pub mac: MacAddress,
    pub told: RouterAdvertisement,
    pub heard: Instant,
}

/// An interface on which the router advertises.
#[derive(Debug)]
pub struct Advertiser {
    /// When the next advertisement to all hosts is due.
    pub due: Instant,
    initial_left: u8,
    last: Option<Instant>,
    /// Hosts that get an answer of their own, and when.
    waiting: Vec<(Instant, Ipv6Addr, MacAddress)>,
    /// Advertisements sent, and solicitations received.
    pub sent: u64,
    pub asked: u64,
}

impl Timed for Advertiser {
    fn next_due(&self) -> Option<Instant> {
        self.waiting.iter().map(|(due, ..)| *due).chain([self.due]).min()
    }
}

/// All advertisers, and the operators' settings.
#[derive(Debug)]
pub struct Advertising {
    settings: BTreeMap<InterfaceIndex, Settings>,
    advertisers: Agenda<InterfaceIndex, Advertiser>,
    others: BTreeMap<(InterfaceIndex, Ipv6Addr), Other>,
    contradictions_told: Throttle,
    /// The time of the last tick. Tests let it run ahead of the clock.
    ticked: Instant,
}

impl Default for Advertising {
    fn default() -> Advertising {
        let (settings, advertisers, others, contradictions_told) = Default::default();
        Advertising { settings, advertisers, others, contradictions_told, ticked: Instant::now() }
    }
}

impl Advertising {
    pub fn settings(&self, index: InterfaceIndex) -> Settings {
        self.settings.get(&index).cloned().unwrap_or_default()
    }

    /// The settings that differ from the defaults.
    pub(super) fn stated(&self) -> impl Iterator<Item = (InterfaceIndex, &Settings)> {
        self.settings.iter().map(|(index, settings)| (*index, settings))
    }

    pub fn advertiser(&self, index: InterfaceIndex) -> Option<&Advertiser> {
        self.advertisers.get(&index)
    }

    /// Other routers on an interface.
    pub fn others(&self, index: InterfaceIndex) -> impl Iterator<Item = (Ipv6Addr, &Other)> {
        self.others
            .range((index, Ipv6Addr::UNSPECIFIED)..)
            .take_while(move |((of, _), _)| *of == index)
            .map(|((_, address), other)| (*address, other))
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.advertisers.next_due()
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::now().max(self.ticked)
    }
}

impl Settings {
    /// How long to wait for the next advertisement to all hosts.
    fn pause(&self) -> Duration {
        let (least, most) =
            (Duration::from_secs(self.least_interval().into()), Duration::from_secs(self.max_interval.into()));
        least + random::time_up_to(most - least)
    }
}

/// Sets what the router advertises on a link.
///
/// # Errors
/// When there is no such interface or it is a loopback, or the settings are outside RFC 4861's bounds; then nothing
/// has changed.
pub fn set(router: &mut Router, index: InterfaceIndex, settings: Settings) -> Result<(), Error> {
    let interface = router.interfaces.get(index)?;
    if !interface.has_neighbours() {
        return Err(Error::NoNeighbours(interface.name.clone()));
    }
    settings.check()?;
    let before = router.state::<Advertising>().settings(index);
    if before == settings {
        return Ok(());
    }
    if settings.is_suppressed {
        cease_advertising(router, index);
    }
    match settings == Settings::default() {
        true => drop(router.state_mut::<Advertising>().settings.remove(&index)),
        false => drop(router.state_mut::<Advertising>().settings.insert(index, settings)),
    }
    advertise_anew(router, index);
    Ok(())
}

/// What happened to an interface, as far as hosts hear of it.
pub(super) fn hears(router: &mut Router, notice: &Notice) {
    match notice {
        Notice::State { interface, up: false } => advertise_anew(router, *interface),
        // What was stopped for nothing goes on; otherwise an address that comes into use begins it.
        Notice::State { interface, up: true } if router.state::<Advertising>().advertiser(*interface).is_none() => {
            advertise_anew(router, *interface);
        }
        Notice::AddressAdded { interface, address } | Notice::AddressRemoved { interface, address } => {
            if matches!(address.address(), IpAddr::V6(address) if !address.is_unicast_link_local()) {
                advertise_anew(router, *interface);
            }
        }
        Notice::AddressInUse { interface, address: IpAddr::V6(address) } if address.is_unicast_link_local() => {
            advertise_anew(router, *interface);
        }
        Notice::Gone { interface, .. } => forget(router, *interface),
        _ => {}
    }
}

/// Whether the router may advertise on an interface now.
fn may_advertise(router: &Router, index: InterfaceIndex) -> bool {
    let wanted = router.state::<Advertising>().settings.get(&index).is_some_and(|settings| !settings.is_suppressed);
    wanted && router.is_usable(index) && speaks_as(router, index).is_some()
}

/// The link-local address. Hosts accept advertisements from no other address (RFC 4861 section 6.1.2).
fn speaks_as(router: &Router, index: InterfaceIndex) -> Option<Ipv6Addr> {
    let ip6 = &router.interfaces.get(index).ok()?.ip6;
    ip6.link_local.filter(|address| !ip6.standing.contains_key(address))
}

/// Called when an interface or its settings have changed: begins to advertise, advertises the change soon, or
/// stops.
pub(crate) fn advertise_anew(router: &mut Router, index: InterfaceIndex) {
    if !may_advertise(router, index) {
        router.state_mut::<Advertising>().advertisers.remove(&index);
        return;
    }
    let now = router.state::<Advertising>().now();
    let initial_left = router.state::<Advertising>().settings[&index].initial_count;
    let fresh = || Advertiser { due: now, initial_left: 0, last: None, waiting: Vec::new(), sent: 0, asked: 0 };
    let mut advertiser = router.state_mut::<Advertising>().advertisers.get_or_insert_with(index, fresh);
    advertiser.initial_left = initial_left;
    advertiser.due = advertiser.last.map_or(now, |last| now.max(last + LEAST_PAUSE));
    drop(advertiser);
    tick(router, now);
}

/// Called when an interface is deleted, together with its settings.
pub(crate) fn forget(router: &mut Router, index: InterfaceIndex) {
    router.state_mut::<Advertising>().settings.remove(&index);
    router.state_mut::<Advertising>().advertisers.remove(&index);
    router.state_mut::<Advertising>().others.retain(|(of, _), _| *of != index);
}

/// Tells hosts that this router is no longer a default router, or not by its present address (RFC 4861 sections
/// 6.2.5 and 6.2.8). Returns whether it had advertised before.
pub(crate) fn cease_advertising(router: &mut Router, index: InterfaceIndex) -> bool {
    let has_spoken = router
        .state_mut::<Advertising>()
        .advertisers
        .remove(&index)
        .is_some_and(|advertiser| advertiser.last.is_some());
    if has_spoken {
        advertise(router, index, ALL_NODES, group_mac(ALL_NODES), true);
    }
    has_spoken
}

/// Sends the advertisements that are due.
pub(crate) fn tick(router: &mut Router, now: Instant) {
    router.state_mut::<Advertising>().ticked = router.state_mut::<Advertising>().ticked.max(now);
    for index in router.state_mut::<Advertising>().advertisers.due(now) {
        let settings = router.state::<Advertising>().settings(index);
        let Some(mut advertiser) = router.state_mut::<Advertising>().advertisers.get_mut(&index) else { continue };
        let mut answers = std::mem::take(&mut advertiser.waiting);
        let tells_all = advertiser.due <= now;
        if tells_all {
            let pause = settings.pause();
            let soon = Duration::from_secs(settings.initial_interval.into());
            let is_initial = advertiser.initial_left > 0;
            advertiser.initial_left = advertiser.initial_left.saturating_sub(1);
            let is_followed_by_initial = is_initial && advertiser.initial_left > 0;
            advertiser.due = now + if is_followed_by_initial { pause.min(soon) } else { pause };
            advertiser.last = Some(now);
            // The advertisement to all hosts also answers the waiting ones.
            answers.clear();
        }
        let (ready, later): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(due, ..)| *due <= now);
        advertiser.waiting = later;
        drop(advertiser);
        if tells_all {
            advertise(router, index, ALL_NODES, group_mac(ALL_NODES), false);
        }
        for (_, host, mac) in ready {
            advertise(router, index, host, mac, false);
        }
    }
}

/// Sends an advertisement to all hosts, or to one.
fn advertise(router: &mut Router, index: InterfaceIndex, to: Ipv6Addr, mac: MacAddress, is_last: bool) {
    let Some(from) = speaks_as(router, index) else { return };
    let Ok(interface) = router.interfaces.get(index) else { return };
    let settings = router.state::<Advertising>().settings(index);
    let header = interface.link_header(mac, EtherType::IPV6);
    let packets = message::packets(interface, &settings, (from, to), is_last);
    packets.iter().for_each(|packet| router.inject(index, &header, packet));
    if let Some(mut advertiser) = router.state_mut::<Advertising>().advertisers.get_mut(&index) {
        advertiser.sent += packets.len() as u64;
    }
}

/// Handles a message that a worker received.
pub(super) fn handle(router: &mut Router, event: RouterEvent) {
    match event {
        RouterEvent::Solicited(index, host) => solicited_by(router, index, host),
        RouterEvent::Heard(index, address, mac, told) => heard_router(router, index, address, mac, told),
    }
}

/// Handles a solicitation of a host (RFC 4861 section 6.2.6).
fn solicited_by(router: &mut Router, index: InterfaceIndex, host: Option<(Ipv6Addr, MacAddress)>) {
    let now = router.state::<Advertising>().now();
    let answers_directly = router.state::<Advertising>().settings(index).answers_directly;
    let Some(mut advertiser) = router.state_mut::<Advertising>().advertisers.get_mut(&index) else { return };
    advertiser.asked += 1;
    let due = now + random::time_up_to(ANSWER_DELAY);
    match host.filter(|_| answers_directly && advertiser.waiting.len() < MAX_WAITING) {
        Some((address, mac)) => {
            if !advertiser.waiting.iter().any(|(_, waits, _)| *waits == address) {
                advertiser.waiting.push((due, address, mac));
            }
        }
        None => {
            let earliest = advertiser.last.map_or(due, |last| due.max(last + LEAST_PAUSE));
            advertiser.due = advertiser.due.min(earliest);
        }
    }
}

/// Handles an advertisement of another router: remembers it, and logs contradictions to this one (RFC 4861 section
/// 6.2.7).
fn heard_router(
    router: &mut Router,
    index: InterfaceIndex,
    address: Ipv6Addr,
    mac: MacAddress,
    told: RouterAdvertisement,
) {
    let now = router.state::<Advertising>().now();
    let Ok(name) = router.interfaces.get(index).map(|interface| interface.name.clone()) else { return };
    let key = (index, address);
    let is_new = !router.state::<Advertising>().others.contains_key(&key);
    if is_new && router.state::<Advertising>().others(index).count() >= MAX_OTHERS {
        let heard = |(address, other): (Ipv6Addr, &Other)| (other.heard, address);
        let oldest = router.state::<Advertising>().others(index).map(heard).min().map(|(_, address)| address);
        oldest.map(|address| router.state_mut::<Advertising>().others.remove(&(index, address)));
    }
    let before = router.state_mut::<Advertising>().others.insert(key, Other { mac, told, heard: now });
    if router.state::<Advertising>().advertisers.contains_key(&index) && before.is_none_or(|before| before.told != told)
    {
        let settings = router.state::<Advertising>().settings(index);
        let differ = settings.contradictions(&told).join(", ");
        // A router that changes its advertisement each time must not fill the log.
        if !differ.is_empty()
            && let Some(others) = router.state_mut::<Advertising>().contradictions_told.pass(now)
        {
            log::warn!("router {address} ({mac}) on {name} advertises other values than this router: {differ}{others}");
        }
    }
}

impl Settings {
    /// The settings in which another router's advertisement differs. A value that one of the two leaves out is no
    /// contradiction.
    fn contradictions(&self, told: &RouterAdvertisement) -> Vec<&'static str> {
        let differ = |ours: u32, theirs: u32| ours != 0 && theirs != 0 && ours != theirs;
        let found = [
            (differ(self.hop_limit.into(), told.hop_limit.into()), "hop limit"),
            (self.managed != told.managed, "way to addresses (M)"),
            (self.other != told.other, "way to other settings (O)"),
            (differ(self.reachable, told.reachable), "reachable time"),
            (differ(self.retransmit, told.retransmit), "retransmit timer"),
        ];
        found.into_iter().filter(|(differs, _)| *differs).map(|(_, what)| what).collect()
    }
}
