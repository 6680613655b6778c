//! One network namespace, as the reader follows it.

use super::{Counts, Namespace, Settings};
use crate::kernel::{Kernel, Links};
use crate::netlink::link::{self, Kind, Link, VlanLink};
use crate::netlink::message::{self, Attributes, Message, Messages};
use crate::netlink::neighbour::{self, Standing};
use crate::netlink::next_hop;
use crate::netlink::route::{self, NotFollowed};
use crate::netlink::subscription::{
    ADDRESSES, LINKS, NEIGHBOURS, ROUTES, Received, Subscription, Whole, is_interrupted,
};
use drivers::OpenError;
use graph::InterfaceIndex;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use wire::Family;

/// Types of messages about addresses (linux/rtnetlink.h).
const ADDRESS_NEW: u16 = 20;
const ADDRESS_DELETE: u16 = 21;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// Flags of links (linux/if.h `IFF_*`).
const FLAG_UP: u32 = 1;
const FLAG_RUNNING: u32 = 0x40;
const FLAG_LOWER_UP: u32 = 0x10000;

/// Datagrams that are read before anything else is done.
const AT_ONCE: usize = 512;
/// How often a look that changes interrupted is made again: what changed was also said.
const REPETITIONS: usize = 3;

/// The kinds of objects, in the order in which they are looked at: routes after what they lead to.
const ROUTE_STAGES: [Whole; 4] = [Whole::Changes, Whole::NextHops, Whole::Routes4, Whole::Routes6];

/// How kernels say that they have nothing of a kind.
const NOT_THERE: [Errno; 3] = [Errno::OPNOTSUPP, Errno::AFNOSUPPORT, Errno::INVAL];

/// A look at all objects of a kind, which goes on.
struct Look {
    what: Whole,
    sequence: u32,
    /// Next-hop objects, or VLANs and VRFs, that it has not seen.
    unseen: BTreeSet<u32>,
    /// Permanent neighbours that it has seen.
    permanent: BTreeSet<(InterfaceIndex, IpAddr)>,
}

pub struct Space {
    pub namespace: Namespace,
    subscription: Subscription,
    pub links: Links,
    follows_routes: bool,
    pub kernel: Kernel,
    look: Option<Look>,
    /// All links that are VLANs of others, by number.
    vlans: BTreeMap<u32, VlanLink>,
    /// They, by the link below.
    above: BTreeSet<(u32, u32)>,
    /// Those of followed links that control has not heard of.
    pub new_vlans: BTreeSet<u32>,
    /// Control has not heard of the VRFs as they are now.
    pub vrfs_changed: bool,
    /// What is to be looked at next.
    wanted_links: bool,
    wanted_neighbours: bool,
    wanted_routes: bool,
    was_interrupted: bool,
    repetitions: usize,
    /// Linux had no time for a look: it is to be asked again a little later.
    pub retry: bool,
    /// Messages were dropped: when all was looked at and passed on, an audit is to confirm it.
    pub audit_due: bool,
    pub changed_links: BTreeSet<u32>,
    /// Links that went down, whose routes are there still.
    down: BTreeSet<u32>,
    /// Those of them that were down meanwhile.
    pub seen_down: BTreeSet<u32>,
    /// Addresses that went, each with its link.
    pub lost: BTreeSet<(u32, IpAddr)>,
    /// The latest of each.
    pub neighbours: BTreeMap<(InterfaceIndex, IpAddr), Standing>,
    /// All permanent ones, when a look has seen them.
    pub permanent: Option<BTreeSet<(InterfaceIndex, IpAddr)>>,
    pub counts: Arc<Counts>,
    /// Since when changes of routes wait.
    pub waits_since: Option<Instant>,
}

impl Space {
    /// The longest datagram: the kernel fills at most so much of an answer at once (net/netlink/af_netlink.c).
    pub const DATAGRAM: usize = 64 << 10;

    /// # Errors
    /// When there is no such namespace, or the system refuses.
    pub fn open(
        namespace: Namespace,
        follows_routes: bool,
        settings: Settings,
        counts: Arc<Counts>,
    ) -> Result<Space, OpenError> {
        let groups = LINKS | NEIGHBOURS | ADDRESSES | if follows_routes { ROUTES } else { 0 };
        // First it is heard what changes, and then looked at what is there: so nothing is missed.
        let subscription = Subscription::open(namespace.as_deref(), groups, settings.room)?;
        Ok(Space {
            namespace,
            subscription,
            links: Links::new(),
            follows_routes,
            kernel: Kernel::default(),
            look: None,
            vlans: BTreeMap::new(),
            above: BTreeSet::new(),
            new_vlans: BTreeSet::new(),
            vrfs_changed: false,
            wanted_links: true,
            wanted_neighbours: true,
            wanted_routes: follows_routes,
            was_interrupted: false,
            repetitions: 0,
            retry: false,
            audit_due: false,
            changed_links: BTreeSet::new(),
            down: BTreeSet::new(),
            seen_down: BTreeSet::new(),
            lost: BTreeSet::new(),
            neighbours: BTreeMap::new(),
            permanent: None,
            counts,
            waits_since: None,
        })
    }

    /// Packets of routes without a way for the router go to Linux, or not.
    pub fn set_no_paths(&mut self, on: bool) {
        if self.kernel.has_no_paths() != on {
            self.kernel.set_no_paths(on);
            self.wanted_routes = self.follows_routes;
        }
    }

    pub fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    /// Whether all was looked at.
    pub fn is_settled(&self) -> bool {
        self.look.is_none() && !self.wanted_links && !self.wanted_neighbours && !self.wanted_routes
    }

    pub fn into_kernel(self) -> Kernel {
        self.kernel
    }

    pub fn follows_routes(&self) -> bool {
        self.follows_routes
    }

    /// A link is, or is no longer, the side of an interface.
    /// A new one has no neighbours.
    pub fn set_link(&mut self, link: u32, interface: Option<InterfaceIndex>, is_new: bool) {
        match interface {
            Some(interface) => {
                self.links.insert(link, interface);
                self.changed_links.insert(link);
                self.wanted_neighbours |= !is_new;
                self.new_vlans.remove(&link);
                let above: Vec<u32> = self.vlans_of(link).collect();
                self.new_vlans.extend(above);
            }
            None => {
                self.links.remove(&link);
                // It went and is there again.
                if self.vlans.get(&link).is_some_and(|vlan| self.links.contains_key(&vlan.parent)) {
                    self.new_vlans.insert(link);
                }
            }
        }
        self.kernel.links_changed(&BTreeSet::from([link]));
        self.note_waiting();
    }

    /// Everything is to be looked at.
    pub fn look_at_all(&mut self) {
        self.wanted_links = true;
        self.wanted_neighbours = true;
        self.wanted_routes = self.follows_routes;
        self.changed_links.extend(self.links.keys());
        let above: Vec<u32> = self.links.keys().flat_map(|link| self.vlans_of(*link)).collect();
        self.new_vlans.extend(above);
    }

    /// Reads what Linux said. Whether there may be more.
    ///
    /// # Errors
    /// When the socket is of no use any more.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let more = self.read_some(buffer);
        self.take_down();
        self.note_waiting();
        more
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        self.retry = false;
        self.look_on()?;
        for _ in 0..AT_ONCE {
            match self.subscription.receive(buffer)? {
                Received::Nothing => {
                    // Linux has answered when the question is asked, or the part before was read. What did not come was
                    // dropped, as there was no room for it.
                    if let Some(look) = self.look.take() {
                        self.give_up(&look);
                    }
                    self.look_on()?;
                    return Ok(false);
                }
                Received::Overrun => {
                    self.counts.overruns.add(1);
                    self.audit_due = true;
                    self.look_at_all();
                    self.look_on()?;
                }
                Received::Bytes(length) => match buffer.get(..length) {
                    Some(bytes) => self.take(bytes)?,
                    // Linux makes no such datagram.
                    None => self.counts.malformed.add(1),
                },
            }
        }
        Ok(true)
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        for message in Messages(bytes) {
            self.counts.messages.add(1);
            match message {
                Ok(message) => self.take_one(&message)?,
                Err(_) => self.counts.malformed.add(1),
            }
        }
        Ok(())
    }

    fn take_one(&mut self, message: &Message<'_>) -> io::Result<()> {
        // What others asked for bears their numbers.
        let is_answer = message.port == self.subscription.port();
        let is_look = |look: &Look| look.sequence == message.sequence;
        let is_of_look = is_answer && self.look.as_ref().is_some_and(is_look);
        self.was_interrupted |= is_of_look && is_interrupted(message.flags);
        match message.kind {
            message::DONE | message::ERROR if is_of_look => return self.looked(message),
            link::NEW if self.look.as_ref().is_some_and(|look| is_of_look && look.what == Whole::Changes) => {
                return self.looked(message);
            }
            message::DONE | message::ERROR => {}
            // Of a look that was given up.
            _ if is_answer && !is_of_look => {}
            link::NEW | link::DELETE => self.link(message, is_of_look),
            ADDRESS_NEW | ADDRESS_DELETE => self.address(message),
            neighbour::NEW | neighbour::DELETE => self.neighbour(message),
            next_hop::NEW | next_hop::DELETE | route::NEW | route::DELETE => self.route(message, is_answer),
            _ => self.counts.not_followed.add(1),
        }
        Ok(())
    }

    fn route(&mut self, message: &Message<'_>, is_answer: bool) {
        self.take_down();
        if let Some(look) = self.look.as_mut().filter(|look| look.what == Whole::NextHops)
            && let Ok((id, _)) = next_hop::parse(message.payload)
            && message.kind == next_hop::NEW
        {
            look.unseen.remove(&id);
        }
        match self.kernel.hear(message, is_answer) {
            Ok(()) => {}
            Err(NotFollowed::Other) => self.counts.not_followed.add(1),
            Err(NotFollowed::Malformed) => self.counts.malformed.add(1),
        }
    }

    fn neighbour(&mut self, message: &Message<'_>) {
        match neighbour::parse(message.payload) {
            Ok(neighbour) => {
                let Some(interface) = self.links.get(&neighbour.link) else { return };
                let standing = if message.kind == neighbour::DELETE { Standing::Other } else { neighbour.standing };
                let key = (*interface, neighbour.address);
                if let Some(look) = &mut self.look
                    && matches!(standing, Standing::Permanent(_))
                {
                    look.permanent.insert(key);
                }
                self.neighbours.insert(key, standing);
            }
            Err(NotFollowed::Other) => self.counts.not_followed.add(1),
            Err(NotFollowed::Malformed) => self.counts.malformed.add(1),
        }
    }

    fn link(&mut self, message: &Message<'_>, is_of_look: bool) {
        let Link { number, flags, kind } = match link::parse(message.payload) {
            Ok(Some(link)) => link,
            Ok(None) => return self.counts.not_followed.add(1),
            Err(_) => return self.counts.malformed.add(1),
        };
        if let Some(look) = self.look.as_mut().filter(|look| look.what == Whole::Links) {
            look.unseen.remove(&number);
        }
        let is_gone = message.kind == link::DELETE;
        let was_vrf = self.kernel.vrfs().contains_key(&number);
        match kind {
            _ if is_gone => self.is_other(number),
            Kind::Vlan(vlan) => {
                self.vrf(number, None);
                self.vlan(number, Some(vlan));
            }
            Kind::Vrf(table) => {
                self.vlan(number, None);
                self.vrf(number, Some(table));
            }
            Kind::Other => self.is_other(number),
            Kind::NotSaid => {}
        }
        // A look at all is there to find VLANs and VRFs.
        if is_of_look {
            return;
        }
        let is_followed = self.links.contains_key(&number);
        if is_followed {
            self.changed_links.insert(number);
        }
        // Its routes went without a word, or its next-hop objects did.
        if is_gone || flags & FLAG_UP == 0 {
            self.down.insert(number);
            self.seen_down.extend(is_followed.then_some(number));
        } else if flags & (FLAG_RUNNING | FLAG_LOWER_UP) == 0 {
            self.take_down();
            self.kernel.carrier_lost(number);
        } else {
            return;
        }
        self.wanted_routes |= self.follows_routes && (is_followed || was_vrf || self.kernel.may_take_along(number));
    }

    /// A link is neither a VLAN nor a VRF.
    fn is_other(&mut self, number: u32) {
        self.vlan(number, None);
        self.vrf(number, None);
    }

    fn vrf(&mut self, number: u32, table: Option<u32>) {
        if self.kernel.vrfs().get(&number) != table.as_ref() {
            self.kernel.set_vrf(number, table);
            self.vrfs_changed = true;
        }
    }

    /// Takes the routes of links that went down. All at once, because each time all routes are looked through; before
    /// anything that may bring new ones.
    fn take_down(&mut self) {
        let down = std::mem::take(&mut self.down);
        if !down.is_empty() {
            self.kernel.links_down(&down);
        }
    }

    /// A link is, or is no longer, a VLAN of another.
    fn vlan(&mut self, number: u32, vlan: Option<VlanLink>) {
        let before = self.vlans.get(&number);
        if before == vlan.as_ref() {
            return;
        }
        if let Some(before) = before {
            self.above.remove(&(before.parent, number));
        }
        self.new_vlans.remove(&number);
        match vlan {
            Some(vlan) => {
                self.above.insert((vlan.parent, number));
                if self.links.contains_key(&vlan.parent) && !self.links.contains_key(&number) {
                    self.new_vlans.insert(number);
                }
                self.vlans.insert(number, vlan);
            }
            None => drop(self.vlans.remove(&number)),
        }
    }

    /// The VLANs of a followed link that are not followed themselves.
    pub fn vlans_of(&self, parent: u32) -> impl Iterator<Item = u32> {
        let above = self.above.range((parent, 0)..=(parent, u32::MAX)).map(|(_, number)| *number);
        above.filter(|number| !self.links.contains_key(number))
    }

    pub fn vlan_of(&self, number: u32) -> Option<&VlanLink> {
        self.vlans.get(&number)
    }

    /// `struct ifaddrmsg`: the number of the link is behind four bytes.
    fn address(&mut self, message: &Message<'_>) {
        let Some(link) = message::u32_at(message.payload, 4) else { return self.counts.malformed.add(1) };
        if !self.links.contains_key(&link) {
            let may_lose = message.kind == ADDRESS_DELETE && self.kernel.has_no_paths();
            self.wanted_routes |= self.follows_routes && may_lose;
            return;
        }
        self.changed_links.insert(link);
        if message.kind == ADDRESS_DELETE {
            // Routes with that source went without a word.
            self.wanted_routes |= self.follows_routes;
            let attributes = Attributes(message.payload.get(8..).unwrap_or(&[])).flatten();
            let addresses = attributes.filter(|(kind, _)| matches!(*kind, IFA_ADDRESS | IFA_LOCAL));
            self.lost.extend(addresses.filter_map(|(_, value)| Some((link, route::address(value)?))));
        }
    }

    /// Begins the next look, if one is wanted and none goes on.
    fn look_on(&mut self) -> io::Result<()> {
        if self.look.is_some() || self.retry {
            return Ok(());
        }
        if std::mem::take(&mut self.wanted_links) {
            self.was_interrupted = false;
            return self.begin(Whole::Links);
        }
        if std::mem::take(&mut self.wanted_neighbours) {
            return self.begin(Whole::Neighbours);
        }
        if std::mem::take(&mut self.wanted_routes) {
            self.counts.looks.add(1);
            self.was_interrupted = false;
            self.kernel.begin_look();
            return self.begin(ROUTE_STAGES[0]);
        }
        Ok(())
    }

    fn begin(&mut self, what: Whole) -> io::Result<()> {
        let unseen = match what {
            Whole::NextHops => self.kernel.objects(),
            Whole::Links => self.vlans.keys().chain(self.kernel.vrfs().keys()).copied().collect(),
            _ => BTreeSet::new(),
        };
        let sequence = self.subscription.ask(what)?;
        self.look = Some(Look { what, sequence, unseen, permanent: BTreeSet::new() });
        Ok(())
    }

    /// A look is over.
    fn looked(&mut self, message: &Message<'_>) -> io::Result<()> {
        let Some(look) = self.look.take() else { return Ok(()) };
        match message::error_of(message).filter(|_| message.kind != link::NEW).map(Errno::from_raw_os_error) {
            None => self.saw_all(&look),
            // A kernel without next-hop objects or without IPv6 has none.
            Some(error) if NOT_THERE.contains(&error) => {}
            // There was no room to begin. Linux begins when there is.
            Some(Errno::NOBUFS) if message.kind == message::ERROR => {
                self.look = Some(look);
                return Ok(());
            }
            Some(error) => {
                log::debug!("{:?} in namespace {:?}: {error}", look.what, self.namespace);
                self.give_up(&look);
                return Ok(());
            }
        }
        let at = ROUTE_STAGES.iter().position(|stage| *stage == look.what);
        match at.and_then(|at| ROUTE_STAGES.get(at + 1)) {
            Some(next) => return self.begin(*next),
            None if at.is_some() => {
                self.kernel.finish_look();
                self.repetitions = if self.was_interrupted { self.repetitions + 1 } else { 0 };
                self.wanted_routes |= self.was_interrupted && self.repetitions <= REPETITIONS;
            }
            None => {}
        }
        self.look_on()
    }

    /// A look came to nothing: it is made again a little later.
    fn give_up(&mut self, look: &Look) {
        self.retry = true;
        match look.what {
            Whole::Links => self.wanted_links = true,
            Whole::Neighbours => self.wanted_neighbours = true,
            _ => {
                self.kernel.finish_look();
                self.wanted_routes = true;
            }
        }
    }

    /// What a look has not seen is gone.
    fn saw_all(&mut self, look: &Look) {
        match look.what {
            Whole::Changes => {}
            // One that was left out by chance would be forgotten.
            Whole::Links if self.was_interrupted => self.wanted_links = true,
            Whole::Links => look.unseen.iter().for_each(|gone| self.is_other(*gone)),
            Whole::Neighbours => self.permanent = Some(look.permanent.clone()),
            Whole::NextHops => self.kernel.remove_objects(&look.unseen),
            Whole::Routes4 => self.end_look(Family::Ip4),
            Whole::Routes6 => self.end_look(Family::Ip6),
        }
    }

    fn end_look(&mut self, family: Family) {
        let (gone, is_all) = self.kernel.end_look(family);
        self.counts.stale.add(gone as u64);
        self.was_interrupted |= !is_all;
    }

    fn note_waiting(&mut self) {
        let backlog = self.kernel.backlog();
        self.counts.backlog.set(backlog as u64);
        self.counts.prefixes.set(Family::ALL.into_iter().map(|family| self.kernel.len(family) as u64).sum());
        if backlog > 0 && self.waits_since.is_none() {
            self.waits_since = Some(Instant::now());
        }
    }
}
