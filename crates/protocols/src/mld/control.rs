//! The router as a listener: reports the groups that it listens to, and answers queries (RFC 3810 sections 5, 6 and 8).

use super::Event;
use super::querier;
use super::querier::Querier;
use super::send;
use crate::ip6::Ip6View;
use graph::InterfaceIndex;
pub use router::agenda::{Agenda, Timed};
use router::{Router, random};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};
use wire::ipv6::{Scope, scope};
use wire::mld::{Query, RecordKind};

/// RFC 3810 section 9: how many times a message is sent in case one is lost, and how soon an unsolicited report is
/// repeated.
pub(super) const ROBUSTNESS: u8 = 2;
const UNSOLICITED_INTERVAL: Duration = Duration::from_secs(1);
/// How long a router of version 1 is remembered: two query intervals and the time for answers.
const OLD_QUERIER: Duration = Duration::from_secs(2 * 125 + 10);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// What the router has reported, and will report, on one interface.
#[derive(Debug, Default)]
pub struct MldListener {
    /// The groups to which it listens, as they were reported.
    pub groups: BTreeSet<Ipv6Addr>,
    /// The changes to report once more, and when.
    again: Option<(Instant, Vec<(RecordKind, Ipv6Addr)>)>,
    /// When to answer a general query.
    answer: Option<Instant>,
    /// The groups of specific queries, with the time to answer each.
    asked: BTreeMap<Ipv6Addr, Instant>,
    /// Until when a router on the link knows only version 1.
    old_until: Option<Instant>,
}

/// All listeners and queriers, by interface.
#[derive(Debug)]
pub struct Listening {
    listeners: Agenda<InterfaceIndex, MldListener>,
    pub(super) queriers: Agenda<InterfaceIndex, Querier>,
    /// The time of the last tick. Tests let it run ahead of the clock.
    ticked: Instant,
}

impl Default for Listening {
    fn default() -> Listening {
        Listening { listeners: Agenda::default(), queriers: Agenda::default(), ticked: Instant::now() }
    }
}

impl Listening {
    pub fn listener(&self, index: InterfaceIndex) -> Option<&MldListener> {
        self.listeners.get(&index)
    }

    /// Called when an interface is deleted.
    pub(crate) fn forget(&mut self, index: InterfaceIndex) {
        self.listeners.remove(&index);
        self.queriers.remove(&index);
    }

    pub(super) fn now(&self) -> Instant {
        Instant::now().max(self.ticked)
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        [self.listeners.next_due(), self.queriers.next_due()].into_iter().flatten().min()
    }
}

impl Timed for MldListener {
    fn next_due(&self) -> Option<Instant> {
        let again = self.again.as_ref().map(|(due, _)| *due);
        [again, self.answer, self.asked.values().min().copied()].into_iter().flatten().min()
    }
}

impl MldListener {
    /// The version of MLD that routers on the link understand.
    pub fn version(&self, now: Instant) -> u8 {
        if self.old_until.is_some_and(|until| now < until) { 1 } else { 2 }
    }
}

/// Groups of this scope are reported, except the group of all nodes, to which every host listens (RFC 3810 section 6).
fn is_reported(group: &Ipv6Addr) -> bool {
    *group != ALL_NODES && scope(*group) > Scope::Interface
}

/// Called when an interface or its addresses have changed: reports the groups that the interface listens to now.
pub fn listen_anew(router: &mut Router, index: InterfaceIndex) {
    let usable =
        router.interfaces.get(index).ok().filter(|interface| interface.is_usable() && interface.has_neighbours());
    let Some(interface) = usable.filter(|interface| interface.ip6.is_enabled()) else {
        // A report could not be sent any more, or would have no source address.
        router.state_mut::<Listening>().listeners.remove(&index);
        querier::suspend_querier(router, index);
        return;
    };
    let wanted: BTreeSet<Ipv6Addr> = Ip6View::new(&interface.ip6).groups().filter(is_reported).collect();
    let now = router.state::<Listening>().now();
    let mut listener = router.state_mut::<Listening>().listeners.get_or_insert_with(index, MldListener::default);
    let joined = wanted.difference(&listener.groups).map(|group| (RecordKind::ToExclude, *group));
    let left = listener.groups.difference(&wanted).map(|group| (RecordKind::ToInclude, *group));
    let changes: Vec<_> = joined.chain(left).collect();
    listener.groups = wanted;
    drop(listener);
    querier::resume_querier(router, index);
    if changes.is_empty() {
        return;
    }
    // Changes that are still to be repeated are repeated together with these, unless they are out of date.
    let mut listener = router.state_mut::<Listening>().listeners.get_mut(&index).expect("just made");
    let mut again = listener.again.take().map_or(Vec::new(), |(_, before)| before);
    again.retain(|(_, group)| changes.iter().all(|(_, changed)| changed != group));
    again.extend(&changes);
    listener.again = Some((now + random::time_up_to(UNSOLICITED_INTERVAL), again));
    drop(listener);
    report(router, index, &changes);
}

/// Called when the router stops listening on an interface: reports that it has left all groups (RFC 3810 section
/// 6.1). Returns whether there were any.
pub(crate) fn leave_groups(router: &mut Router, index: InterfaceIndex) -> bool {
    let Some(listener) = router.state::<Listening>().listeners.get(&index) else { return false };
    let left: Vec<_> = listener.groups.iter().map(|group| (RecordKind::ToInclude, *group)).collect();
    report(router, index, &left);
    router.state_mut::<Listening>().listeners.remove(&index);
    !left.is_empty()
}

/// Called when the link-local address comes into use: hosts may have ignored reports without a source address (RFC
/// 3590).
pub fn report_all(router: &mut Router, index: InterfaceIndex) {
    let now = router.state::<Listening>().now();
    let Some(mut listener) = router.state_mut::<Listening>().listeners.get_mut(&index) else { return };
    let all: Vec<_> = listener.groups.iter().map(|group| (RecordKind::ToExclude, *group)).collect();
    listener.again = Some((now + random::time_up_to(UNSOLICITED_INTERVAL), all.clone()));
    drop(listener);
    report(router, index, &all);
}

/// Sends a report in the version that routers on the link understand.
fn report(router: &Router, index: InterfaceIndex, records: &[(RecordKind, Ipv6Addr)]) {
    let Some(listener) = router.state::<Listening>().listeners.get(&index) else { return };
    if listener.version(router.state::<Listening>().now()) == 2 {
        return send::send_report(router, index, records);
    }
    for (kind, group) in records {
        send::send_report_1(router, index, *group, *kind != RecordKind::ToInclude);
    }
}

/// Sends the reports that are due.
pub(crate) fn tick_listening(router: &mut Router, now: Instant) {
    let listening = router.state_mut::<Listening>();
    listening.ticked = listening.ticked.max(now);
    for index in router.state_mut::<Listening>().listeners.due(now) {
        let Some(mut listener) = router.state_mut::<Listening>().listeners.get_mut(&index) else { continue };
        let mut records = Vec::new();
        if let Some((_, again)) = listener.again.take_if(|(due, _)| *due <= now) {
            records.extend(again);
        }
        if listener.answer.take_if(|due| *due <= now).is_some() {
            listener.asked.clear();
            records.retain(|(kind, _)| *kind == RecordKind::ToInclude);
            records.extend(listener.groups.iter().map(|group| (RecordKind::IsExclude, *group)));
        }
        let asked: Vec<Ipv6Addr> =
            listener.asked.extract_if(.., |_, due| *due <= now).map(|(group, _)| group).collect();
        records.extend(asked.into_iter().map(|group| (RecordKind::IsExclude, group)));
        drop(listener);
        report(router, index, &records);
    }
    querier::tick_queriers(router, now);
}

/// Handles a message that a worker received.
pub(crate) fn handle_listening(router: &mut Router, event: Event) {
    match event {
        Event::Query(index, from, query) => {
            asked_by(router, index, query);
            querier::heard_querier(router, index, from, query);
        }
        Event::Listens(index, group) => querier::heard_listener(router, index, group),
        Event::Leaves(index, group) => querier::heard_leaver(router, index, group),
    }
}

/// Handles a query: it is answered at a random time within the limit that the query sets (RFC 3810 section 6.2).
fn asked_by(router: &mut Router, index: InterfaceIndex, query: Query) {
    let now = router.state::<Listening>().now();
    let Some(mut listener) = router.state_mut::<Listening>().listeners.get_mut(&index) else { return };
    if query.version == 1 {
        listener.old_until = Some(now + OLD_QUERIER);
    }
    let due = now + random::time_up_to(query.response);
    let sooner = |before: Option<Instant>| Some(before.map_or(due, |before| before.min(due)));
    match query.group {
        None => listener.answer = sooner(listener.answer),
        Some(group) if listener.groups.contains(&group) => {
            let before = listener.asked.get(&group).copied();
            listener.asked.extend(sooner(before).map(|due| (group, due)));
        }
        Some(_) => {}
    }
}
