//! The router as a listener: says to which groups it listens, and answers who asks (RFC 3810 sections 5, 6 and 8).

use super::Event;
use super::querier::Querier;
use crate::agenda::{Agenda, Timed};
use crate::ip6::Ip6View;
use crate::{Router, random};
use graph::InterfaceIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};
use wire::ipv6::{Scope, scope};
use wire::mld::{Query, RecordKind};

/// RFC 3810 section 9: how many lost messages are borne, and how soon what was not asked for is said again.
pub(super) const ROBUSTNESS: u8 = 2;
const UNSOLICITED_INTERVAL: Duration = Duration::from_secs(1);
/// For how long a router of version 1 is remembered: two intervals of queries and the time for answers.
const OLD_QUERIER: Duration = Duration::from_secs(2 * 125 + 10);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// What was said, and is to be said, on one interface.
#[derive(Debug, Default)]
pub struct MldListener {
    /// The groups to which it listens, as they were reported.
    pub groups: BTreeSet<Ipv6Addr>,
    /// What has changed and is said once more, and when.
    again: Option<(Instant, Vec<(RecordKind, Ipv6Addr)>)>,
    /// When who asked for all is answered.
    answer: Option<Instant>,
    /// Groups that were asked for, each with its time.
    asked: BTreeMap<Ipv6Addr, Instant>,
    /// Until when there is a router that knows version 1 only.
    old_until: Option<Instant>,
}

/// All of them.
#[derive(Debug)]
pub struct Listening {
    listeners: Agenda<InterfaceIndex, MldListener>,
    pub(super) queriers: Agenda<InterfaceIndex, Querier>,
    /// The time of the last tick, which tests have run ahead of the clock.
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

    /// An interface goes away.
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

/// Groups of this scope are reported; that of all nodes, to which everybody listens, is not (RFC 3810 section 6).
fn is_reported(group: &Ipv6Addr) -> bool {
    *group != ALL_NODES && scope(*group) > Scope::Interface
}

impl Router {
    /// Something has changed of an interface, or of its addresses: says to which groups it listens now.
    pub(crate) fn listen_anew(&mut self, index: InterfaceIndex) {
        let usable =
            self.interfaces.get(index).ok().filter(|interface| interface.is_usable() && !interface.is_loopback());
        let Some(interface) = usable.filter(|interface| interface.ip6.is_enabled()) else {
            // What is said there any more reaches nobody, or would be of no address.
            self.listening.listeners.remove(&index);
            self.suspend_querier(index);
            return;
        };
        let wanted: BTreeSet<Ipv6Addr> = Ip6View::new(&interface.ip6).groups().filter(is_reported).collect();
        let now = self.listening.now();
        let mut listener = self.listening.listeners.get_or_insert_with(index, MldListener::default);
        let joined = wanted.difference(&listener.groups).map(|group| (RecordKind::ToExclude, *group));
        let left = listener.groups.difference(&wanted).map(|group| (RecordKind::ToInclude, *group));
        let changes: Vec<_> = joined.chain(left).collect();
        listener.groups = wanted;
        drop(listener);
        self.resume_querier(index);
        if changes.is_empty() {
            return;
        }
        // What is still to be repeated of before is repeated with it, unless it is no longer so.
        let mut listener = self.listening.listeners.get_mut(&index).expect("just made");
        let mut again = listener.again.take().map_or(Vec::new(), |(_, before)| before);
        again.retain(|(_, group)| changes.iter().all(|(_, changed)| changed != group));
        again.extend(&changes);
        listener.again = Some((now + random::time_up_to(UNSOLICITED_INTERVAL), again));
        drop(listener);
        self.report(index, &changes);
    }

    /// The router listens to nothing on an interface any more: says of all groups that it has left them (RFC 3810
    /// section 6.1). Whether there were any.
    pub(crate) fn leave_groups(&mut self, index: InterfaceIndex) -> bool {
        let Some(listener) = self.listening.listeners.get(&index) else { return false };
        let left: Vec<_> = listener.groups.iter().map(|group| (RecordKind::ToInclude, *group)).collect();
        self.report(index, &left);
        self.listening.listeners.remove(&index);
        !left.is_empty()
    }

    /// The link-local address is used from now on: what was said from none may not have been believed (RFC 3590).
    pub(crate) fn report_all(&mut self, index: InterfaceIndex) {
        let now = self.listening.now();
        let Some(mut listener) = self.listening.listeners.get_mut(&index) else { return };
        let all: Vec<_> = listener.groups.iter().map(|group| (RecordKind::ToExclude, *group)).collect();
        listener.again = Some((now + random::time_up_to(UNSOLICITED_INTERVAL), all.clone()));
        drop(listener);
        self.report(index, &all);
    }

    /// Says something in the version that is understood.
    fn report(&self, index: InterfaceIndex, records: &[(RecordKind, Ipv6Addr)]) {
        let Some(listener) = self.listening.listeners.get(&index) else { return };
        if listener.version(self.listening.now()) == 2 {
            return self.send_report(index, records);
        }
        for (kind, group) in records {
            self.send_report_1(index, *group, *kind != RecordKind::ToInclude);
        }
    }

    /// Says what is due.
    pub(crate) fn tick_listening(&mut self, now: Instant) {
        self.listening.ticked = self.listening.ticked.max(now);
        for index in self.listening.listeners.due(now) {
            let Some(mut listener) = self.listening.listeners.get_mut(&index) else { continue };
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
            self.report(index, &records);
        }
        self.tick_queriers(now);
    }

    /// Takes in what a worker heard.
    pub(crate) fn handle_listening(&mut self, event: Event) {
        match event {
            Event::Query(index, from, query) => {
                self.asked_by(index, query);
                self.heard_querier(index, from, query);
            }
            Event::Listens(index, group) => self.heard_listener(index, group),
            Event::Leaves(index, group) => self.heard_leaver(index, group),
        }
    }

    /// A router asks: it is answered at a time of chance within that which it gives (RFC 3810 section 6.2).
    fn asked_by(&mut self, index: InterfaceIndex, query: Query) {
        let now = self.listening.now();
        let Some(mut listener) = self.listening.listeners.get_mut(&index) else { return };
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
}
