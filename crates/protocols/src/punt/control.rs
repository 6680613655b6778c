//! Where packets for the host go, as control keeps it, and the operations on it.

use super::{PuntTable, SharedPunts, ToHost};
use graph::InterfaceIndex;
use router::capability::{Change, Notice};
use router::interface::Interface;
use router::ip::class;
use router::ip::control::TableIndex;
use router::neighbour::NeighbourKey;
use router::rate::Limit;
use router::{Error, Router};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tables::Leaf;
use wire::Family;

/// A bound on punted packets, as operators set it: so many a second, and a tenth of that at once.
pub const MAX_RATE: u32 = 10_000_000;

/// Why packets for the host cannot be sent there, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PuntError {
    #[error("{0} is an address of this router: packets for the host go to a next hop of its own")]
    ToOurselves(IpAddr),
    #[error("{address} is where '{word} punt redirect' sends packets for the host: it is the host's")]
    PuntedTo { address: IpAddr, word: &'static str },
    #[error("packets of {0} would be punted to where they came from")]
    ToItself(String),
    #[error("no such punt redirect (show {word} punt redirect lists them)")]
    NotThere { word: &'static str },
}

router::codes! { PuntError {
    ToOurselves => "punt-to-ourselves",
    PuntedTo => "punt-address-taken",
    ToItself => "punt-to-itself",
    NotThere => "punt-no-such-redirect",
} }

/// A way to the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    pub next_hop: IpAddr,
    pub interface: InterfaceIndex,
    pub(crate) adjacency: Leaf,
}

/// Control's state of punting.
pub struct Punts {
    ip4: OfFamily,
    ip6: OfFamily,
    /// What nodes see.
    published: RefCell<PuntTable>,
    table: SharedPunts,
}

#[derive(Debug, Default)]
struct OfFamily {
    /// By the interface that received the packets; without one: all that have none of their own.
    redirects: BTreeMap<Option<InterfaceIndex>, Redirect>,
    /// The same, by the interface that leads to the host.
    by_way: BTreeSet<(InterfaceIndex, Option<InterfaceIndex>)>,
    /// The same, by the next hop.
    by_hop: BTreeSet<(IpAddr, InterfaceIndex, Option<InterfaceIndex>)>,
    /// Packets a second by each worker.
    rate: Option<u32>,
}

impl OfFamily {
    fn insert(&mut self, rx: Option<InterfaceIndex>, redirect: Redirect) -> Option<Redirect> {
        let before = self.remove(rx);
        self.by_way.insert((redirect.interface, rx));
        self.by_hop.insert((redirect.next_hop, redirect.interface, rx));
        self.redirects.insert(rx, redirect);
        before
    }

    fn remove(&mut self, rx: Option<InterfaceIndex>) -> Option<Redirect> {
        let gone = self.redirects.remove(&rx)?;
        self.by_way.remove(&(gone.interface, rx));
        self.by_hop.remove(&(gone.next_hop, gone.interface, rx));
        Some(gone)
    }

    /// Whose packets an interface leads to the host, those without a way of their own first.
    fn by(&self, index: InterfaceIndex) -> impl Iterator<Item = Option<InterfaceIndex>> {
        self.by_way.range((index, None)..).take_while(move |(way, _)| *way == index).map(|(_, rx)| *rx)
    }
}

impl Punts {
    pub(super) fn new(table: SharedPunts) -> Punts {
        Punts { ip4: OfFamily::default(), ip6: OfFamily::default(), published: RefCell::default(), table }
    }

    fn of(&self, family: Family) -> &OfFamily {
        match family {
            Family::Ip4 => &self.ip4,
            Family::Ip6 => &self.ip6,
        }
    }

    fn of_mut(&mut self, family: Family) -> &mut OfFamily {
        match family {
            Family::Ip4 => &mut self.ip4,
            Family::Ip6 => &mut self.ip6,
        }
    }

    /// All ways of a family, that for all interfaces first.
    pub fn iter(&self, family: Family) -> impl Iterator<Item = (Option<InterfaceIndex>, &Redirect)> {
        self.of(family).redirects.iter().map(|(rx, redirect)| (*rx, redirect))
    }

    /// Packets of a family that each worker punts a second at most.
    pub fn rate(&self, family: Family) -> Option<u32> {
        self.of(family).rate
    }
}

/// Has packets for the host that came by an interface, or by any, sent to a next hop on another. They are those
/// of the next hop's family. What was said of that interface before holds no more.
///
/// # Errors
/// When there is no such interface, they are the same, the next hop is no host's address, or a table is full;
/// then nothing has changed.
pub fn add_punt_redirect(
    router: &mut Router,
    rx: Option<InterfaceIndex>,
    next_hop: IpAddr,
    interface: InterfaceIndex,
) -> Result<(), Error> {
    rx.map(|index| router.interfaces.get(index).map(drop)).transpose()?;
    let name = &router.interfaces.get(interface)?.name;
    if rx == Some(interface) {
        return Err(PuntError::ToItself(name.clone()).into());
    }
    if is_own_beside(router, interface, next_hop) {
        return Err(PuntError::ToOurselves(next_hop).into());
    }
    if !router::headers::is_one_host(next_hop) {
        return Err(Error::BadNeighbourAddress(next_hop));
    }
    let object = router.share_adjacency(NeighbourKey::new(interface, next_hop))?;
    let adjacency = Leaf::new(class::ADJACENCY, object);
    let family = Family::of(next_hop);
    let before = router.state_mut::<Punts>().of_mut(family).insert(rx, Redirect { next_hop, interface, adjacency });
    let ways = [interface].into_iter().chain(before.iter().map(|before| before.interface));
    publish_ways(router, family, [rx], ways);
    before.into_iter().for_each(|before| router.ip.release(before.adjacency));
    Ok(())
}

/// Whether an address is this router's where an interface's packets are routed; one of its link only, on that link.
fn is_own_beside(router: &Router, index: InterfaceIndex, address: IpAddr) -> bool {
    is_own_in(router, router.table_of(index, Family::of(address)), index, address)
}

fn is_own_in(router: &Router, table: TableIndex, index: InterfaceIndex, address: IpAddr) -> bool {
    let has_it = |interface: &Interface| match address {
        IpAddr::V4(address) => {
            interface.ip4.table == table && interface.addresses.iter().any(|own| own.address() == address)
        }
        IpAddr::V6(address) if address.is_unicast_link_local() => interface.ip6.link_local == Some(address),
        IpAddr::V6(address) => {
            interface.ip6.table == table && interface.ip6.addresses.iter().any(|own| own.address() == address)
        }
    };
    let is_its = |index: InterfaceIndex| router.interfaces.get(index).is_ok_and(has_it);
    match address {
        IpAddr::V6(address) if address.is_unicast_link_local() => is_its(index),
        _ => router.interfaces.book.borrow().may_be_around(table, address).any(is_its),
    }
}

/// Packets of a family for the host that came by an interface, or by any, have no way of their own any more.
///
/// # Errors
/// When they had none.
pub fn remove_punt_redirect(router: &mut Router, family: Family, rx: Option<InterfaceIndex>) -> Result<(), Error> {
    let gone =
        router.state_mut::<Punts>().of_mut(family).remove(rx).ok_or(PuntError::NotThere { word: word(family) })?;
    publish_ways(router, family, [rx], [gone.interface]);
    router.ip.release(gone.adjacency);
    Ok(())
}

/// Sets how many packets of a family a second each worker punts at most; none is no bound.
pub fn set_punt_rate(router: &mut Router, family: Family, rate: Option<u32>) {
    router.state_mut::<Punts>().of_mut(family).rate = rate;
    publish_ways(router, family, [], []);
}

/// An interface goes away, and with it what was to come from it or go to it.
fn forget_punts(router: &mut Router, index: InterfaceIndex) {
    for family in Family::ALL {
        let by: Vec<_> = router.state::<Punts>().of(family).by(index).chain([Some(index)]).collect();
        for rx in by {
            // Most have none.
            let _ = remove_punt_redirect(router, family, rx);
        }
    }
}

/// Refuses an address for an interface to which packets for the host are sent.
fn check_not_punted_to(router: &Router, index: InterfaceIndex, address: IpAddr) -> Result<(), Error> {
    let family = Family::of(address);
    let is_of_link = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    let is_it = |way: InterfaceIndex| match is_of_link {
        true => way == index,
        false => router.table_of(way, family) == router.table_of(index, family),
    };
    let from = (address, InterfaceIndex(0), None);
    let to_it = router.state::<Punts>().of(family).by_hop.range(from..).take_while(|(hop, ..)| *hop == address);
    match to_it.into_iter().any(|(_, way, _)| is_it(*way)) {
        true => Err(PuntError::PuntedTo { address, word: word(family) }.into()),
        false => Ok(()),
    }
}

/// Refuses to have an interface to which packets for the host are sent in a table where they would be sent to
/// this router.
fn check_punted_move(router: &Router, index: InterfaceIndex, family: Family, to: TableIndex) -> Result<(), Error> {
    let known = router.state::<Punts>().of(family);
    let mut ways = known.by(index).filter_map(|rx| known.redirects.get(&rx));
    match ways.find(|redirect| is_own_in(router, to, index, redirect.next_hop)) {
        Some(redirect) => Err(PuntError::ToOurselves(redirect.next_hop).into()),
        None => Ok(()),
    }
}

/// An interface may be usable now, or not any more: nodes see the ways by it, or not.
pub(super) fn punt_link_changed(router: &Router, index: InterfaceIndex) {
    for family in Family::ALL {
        let of: Vec<_> = router.state::<Punts>().of(family).by(index).collect();
        if !of.is_empty() {
            publish_ways(router, family, of, [index]);
        }
    }
}

/// Publishes the ways of the packets that came by the interfaces `of`, and the ways back of the interfaces `by`. A
/// way whose interface cannot be used is left out.
fn publish_ways(
    router: &Router,
    family: Family,
    of: impl IntoIterator<Item = Option<InterfaceIndex>>,
    by: impl IntoIterator<Item = InterfaceIndex>,
) {
    let known = router.state::<Punts>().of(family);
    let way = |rx: Option<InterfaceIndex>| {
        let redirect = known.redirects.get(&rx)?;
        let is_usable = router.interfaces.get(redirect.interface).is_ok_and(|interface| interface.is_usable());
        is_usable.then_some(ToHost { interface: redirect.interface, adjacency: redirect.adjacency })
    };
    let mut table = router.state::<Punts>().published.borrow_mut();
    let ways = table.of_mut(family);
    for rx in of {
        match rx {
            None => ways.others = way(None),
            Some(index) => ways.by_interface.set(index.0 as usize, way(rx)),
        }
    }
    for index in by {
        // That of an interface goes before that of all.
        let named = known.by(index).find(Option::is_some);
        let first = named.or_else(|| known.by(index).next());
        ways.back.set(index.0 as usize, first.and_then(way));
    }
    ways.limit = known.rate.map(|per_second| Limit { per_second, burst: per_second.div_ceil(10) });
    router.state::<Punts>().table.publish(table.clone());
    // Many changes in a row must not leave as many tables behind until the next tick.
    router.graph.domain().collect();
}

/// What commands call a family.
pub(super) const fn word(family: Family) -> &'static str {
    match family {
        Family::Ip4 => "ip",
        Family::Ip6 => "ip6",
    }
}

pub(super) fn allows(router: &Router, change: &Change) -> Result<(), Error> {
    match *change {
        Change::Address { interface, address } => check_not_punted_to(router, interface, address),
        Change::Table { interface, family, table } => check_punted_move(router, interface, family, table),
        Change::NoAddress { .. } | Change::Borrow { .. } => Ok(()),
    }
}

pub(super) fn hears(router: &mut Router, notice: &Notice) {
    if let Notice::Leaving(interface) = notice {
        forget_punts(router, *interface);
    }
}
