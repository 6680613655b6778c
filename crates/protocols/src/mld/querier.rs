//! The router as a querier (RFC 3810 section 7), if the operator enables it: snooping switches need a querier on the
//! link. The router keeps the reports that it receives until they expire, and shows them.

use super::control::Listening;
use super::control::ROBUSTNESS;
use super::send;
use graph::InterfaceIndex;
pub use router::agenda::Timed;
use router::{Error, Router, random};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};
use wire::mld::Query;

/// RFC 3810 section 9.
const QUERY_INTERVAL: u8 = 125;
const RESPONSE: Duration = Duration::from_secs(10);
const STARTUP_INTERVAL: Duration = Duration::from_secs(QUERY_INTERVAL as u64 / 4);
const LAST_LISTENER_INTERVAL: Duration = Duration::from_secs(1);
/// How long a listener, and another querier, counts as present without another message.
const LISTENER_INTERVAL: Duration = Duration::from_secs(QUERY_INTERVAL as u64 * ROBUSTNESS as u64 + 10);
const OTHER_QUERIER: Duration = Duration::from_secs(QUERY_INTERVAL as u64 * ROBUSTNESS as u64 + 5);
/// The most groups of an interface that are remembered.
const MAX_GROUPS: usize = 4096;

/// The queries and reports of one interface.
#[derive(Debug, Default)]
pub struct Querier {
    /// When to send the next general query; `None` while another router is the querier, or the interface cannot be
    /// used.
    due: Option<Instant>,
    startup_left: u8,
    /// The other router that is the querier, because its address is lower, and until when it counts as present.
    other: Option<(Ipv6Addr, Instant)>,
    /// Groups that have listeners, and until when they count as present.
    groups: BTreeMap<Ipv6Addr, Heard>,
}

#[derive(Debug)]
struct Heard {
    until: Instant,
    /// After a listener has left: how many queries for other listeners remain, and when the next one is due.
    questions: u8,
    due: Option<Instant>,
}

impl Timed for Querier {
    fn next_due(&self) -> Option<Instant> {
        let groups = self.groups.values().flat_map(|heard| [Some(heard.until), heard.due]).flatten();
        groups.chain(self.due).chain(self.other.map(|(_, until)| until)).min()
    }
}

impl Querier {
    /// The router that is the querier instead of this one.
    pub fn other(&self) -> Option<Ipv6Addr> {
        self.other.map(|(address, _)| address)
    }

    /// Groups that have listeners, and for how long these still count as present.
    pub fn groups(&self, now: Instant) -> impl Iterator<Item = (Ipv6Addr, Duration)> + '_ {
        self.groups.iter().map(move |(group, heard)| (*group, heard.until.saturating_duration_since(now)))
    }
}

/// Makes the router a querier on an interface, or stops that.
///
/// # Errors
/// When there is no such interface, or it is a loopback.
pub fn set_mld_querier(router: &mut Router, index: InterfaceIndex, asks: bool) -> Result<(), Error> {
    let interface = router.interfaces.get(index)?;
    if !interface.has_neighbours() {
        return Err(Error::NoNeighbours(interface.name.clone()));
    }
    if !asks {
        router.state_mut::<Listening>().queriers.remove(&index);
    } else {
        router.state_mut::<Listening>().queriers.get_or_insert_with(index, Querier::default);
        resume_querier(router, index);
    }
    Ok(())
}

pub(crate) fn mld_querier(router: &Router, index: InterfaceIndex) -> Option<&Querier> {
    router.state::<Listening>().queriers.get(&index)
}

/// Called when the interface has become usable: begins to send queries, unless it does already.
pub(super) fn resume_querier(router: &mut Router, index: InterfaceIndex) {
    let now = router.state::<Listening>().now();
    let is_listener = router.state::<Listening>().listener(index).is_some();
    let Some(mut querier) = router.state_mut::<Listening>().queriers.get_mut(&index) else { return };
    if is_listener && querier.due.is_none() && querier.other.is_none() {
        (querier.due, querier.startup_left) = (Some(now), ROBUSTNESS);
        drop(querier);
        tick_queriers(router, now);
    }
}

/// Called when the interface has become unusable.
pub(super) fn suspend_querier(router: &mut Router, index: InterfaceIndex) {
    if let Some(mut querier) = router.state_mut::<Listening>().queriers.get_mut(&index) {
        *querier = Querier::default();
    }
}

pub(super) fn tick_queriers(router: &mut Router, now: Instant) {
    for index in router.state_mut::<Listening>().queriers.due(now) {
        let Some(mut querier) = router.state_mut::<Listening>().queriers.get_mut(&index) else { continue };
        querier.groups.retain(|_, heard| heard.until > now);
        if querier.other.take_if(|(_, until)| *until <= now).is_some() {
            querier.due = Some(now);
        }
        let mut asks_all = false;
        if querier.due.is_some_and(|due| due <= now) {
            asks_all = true;
            querier.startup_left = querier.startup_left.saturating_sub(1);
            let usual = Duration::from_secs(QUERY_INTERVAL.into());
            querier.due = Some(now + if querier.startup_left > 0 { STARTUP_INTERVAL } else { usual });
        }
        let mut asked = Vec::new();
        for (group, heard) in &mut querier.groups {
            if heard.due.is_some_and(|due| due <= now) {
                asked.push(*group);
                heard.questions -= 1;
                heard.due = (heard.questions > 0).then(|| now + LAST_LISTENER_INTERVAL);
            }
        }
        drop(querier);
        if asks_all {
            send::send_query(router, index, None, RESPONSE, QUERY_INTERVAL);
        }
        for group in asked {
            send::send_query(router, index, Some(group), LAST_LISTENER_INTERVAL, QUERY_INTERVAL);
        }
    }
}

/// Handles a query of another router: the router with the lowest address is the querier (RFC 3810 section 7.6.2).
pub(super) fn heard_querier(router: &mut Router, index: InterfaceIndex, from: Ipv6Addr, _: Query) {
    let now = router.state::<Listening>().now();
    let ours = router.interfaces.get(index).ok().and_then(|interface| interface.ip6.link_local);
    let Some(mut querier) = router.state_mut::<Listening>().queriers.get_mut(&index) else { return };
    let best = querier.other.map(|(address, _)| address).or(ours);
    if best.is_none_or(|best| from <= best) {
        querier.other = Some((from, now + OTHER_QUERIER));
        querier.due = None;
        querier.groups.values_mut().for_each(|heard| heard.due = None);
    }
}

/// Handles a report of a listener.
pub(super) fn heard_listener(router: &mut Router, index: InterfaceIndex, group: Ipv6Addr) {
    let now = router.state::<Listening>().now();
    let Some(mut querier) = router.state_mut::<Listening>().queriers.get_mut(&index) else { return };
    if querier.groups.len() < MAX_GROUPS || querier.groups.contains_key(&group) {
        querier.groups.insert(group, Heard { until: now + LISTENER_INTERVAL, questions: 0, due: None });
    }
}

/// Handles the report that a listener has left: asks whether there are others.
pub(super) fn heard_leaver(router: &mut Router, index: InterfaceIndex, group: Ipv6Addr) {
    let now = router.state::<Listening>().now();
    let Some(mut querier) = router.state_mut::<Listening>().queriers.get_mut(&index) else { return };
    let asks = querier.due.is_some();
    let Some(heard) = querier.groups.get_mut(&group).filter(|heard| heard.due.is_none()) else { return };
    heard.until = heard
        .until
        .min(now + LAST_LISTENER_INTERVAL * u32::from(ROBUSTNESS) + random::time_up_to(Duration::from_millis(1)));
    if asks {
        (heard.questions, heard.due) = (ROBUSTNESS, Some(now));
        drop(querier);
        tick_queriers(router, now);
    }
}
