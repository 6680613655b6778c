//! Where packets for the host go, as control keeps it, and the operations on it.

use super::{PuntTable, ToHost, Ways};
use crate::ip::control::TableIndex;
use crate::neighbour::NeighbourKey;
use crate::rate::Limit;
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use tables::{Leaf, kind};
use wire::Family;

/// A bound on punted packets, as operators set it: so many a second, and a tenth of that at once.
pub const MAX_RATE: u32 = 10_000_000;

/// A way to the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    pub next_hop: IpAddr,
    pub interface: InterfaceIndex,
    pub(crate) adjacency: Leaf,
}

/// Control's state of punting.
#[derive(Debug, Default)]
pub struct Punts {
    ip4: OfFamily,
    ip6: OfFamily,
}

#[derive(Debug, Default)]
struct OfFamily {
    /// By the interface that received the packets; without one: all that have none of their own.
    redirects: BTreeMap<Option<InterfaceIndex>, Redirect>,
    /// Packets a second by each worker.
    rate: Option<u32>,
}

impl Punts {
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

impl Router {
    /// Has packets for the host that came by an interface, or by any, sent to a next hop on another. They are those of the next
    /// hop's family. What was said of that interface before holds no more.
    ///
    /// # Errors
    /// When there is no such interface, they are the same, the next hop is no host's address, or a table is full;
    /// then nothing has changed.
    pub fn add_punt_redirect(
        &mut self,
        rx: Option<InterfaceIndex>,
        next_hop: IpAddr,
        interface: InterfaceIndex,
    ) -> Result<(), Error> {
        rx.map(|index| self.interfaces.get(index).map(drop)).transpose()?;
        let name = &self.interfaces.get(interface)?.name;
        if rx == Some(interface) {
            return Err(Error::PuntToItself(name.clone()));
        }
        if self.is_own_beside(interface, next_hop) {
            return Err(Error::PuntToOurselves(next_hop));
        }
        if !crate::headers::is_one_host(next_hop) {
            return Err(Error::BadNeighbourAddress(next_hop));
        }
        let object = self.share_adjacency(NeighbourKey::new(interface, next_hop))?;
        let adjacency = Leaf::new(kind::ADJACENCY, object);
        let redirects = &mut self.punts.of_mut(Family::of(next_hop)).redirects;
        let before = redirects.insert(rx, Redirect { next_hop, interface, adjacency });
        self.publish_punts();
        before.into_iter().for_each(|before| self.ip.release(before.adjacency));
        Ok(())
    }

    /// Whether an address is this router's where an interface's packets are routed; one of its link only, on that link.
    fn is_own_beside(&self, index: InterfaceIndex, address: IpAddr) -> bool {
        self.is_own_in(self.table_of(index, Family::of(address)), index, address)
    }

    fn is_own_in(&self, table: TableIndex, index: InterfaceIndex, address: IpAddr) -> bool {
        self.interfaces.iter().any(|interface| match address {
            IpAddr::V4(address) => {
                interface.ip4.table == table && interface.addresses.iter().any(|own| own.address() == address)
            }
            IpAddr::V6(address) if address.is_unicast_link_local() => {
                interface.index == index && interface.ip6.link_local == Some(address)
            }
            IpAddr::V6(address) => {
                interface.ip6.table == table && interface.ip6.addresses.iter().any(|own| own.address() == address)
            }
        })
    }

    /// Packets of a family for the host that came by an interface, or by any, have no way of their own any more.
    ///
    /// # Errors
    /// When they had none.
    pub fn remove_punt_redirect(&mut self, family: Family, rx: Option<InterfaceIndex>) -> Result<(), Error> {
        let redirects = &mut self.punts.of_mut(family).redirects;
        let gone = redirects.remove(&rx).ok_or(Error::NoSuchPunt { word: word(family) })?;
        self.publish_punts();
        self.ip.release(gone.adjacency);
        Ok(())
    }

    /// Sets how many packets of a family a second each worker punts at most; none is no bound.
    pub fn set_punt_rate(&mut self, family: Family, rate: Option<u32>) {
        self.punts.of_mut(family).rate = rate;
        self.publish_punts();
    }

    /// An interface goes away, and with it what was to come from it or go to it.
    pub(crate) fn forget_punts(&mut self, index: InterfaceIndex) {
        let names = |rx: Option<InterfaceIndex>, redirect: &Redirect| rx == Some(index) || redirect.interface == index;
        for family in Family::ALL {
            let ways = self.punts.iter(family);
            let gone: Vec<_> = ways.filter(|(rx, way)| names(*rx, way)).map(|(rx, _)| rx).collect();
            for rx in gone {
                let _ = self.remove_punt_redirect(family, rx);
            }
        }
    }

    /// Refuses an address for an interface to which packets for the host are sent.
    pub(crate) fn check_not_punted_to(&self, index: InterfaceIndex, address: IpAddr) -> Result<(), Error> {
        let family = Family::of(address);
        let is_of_link = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        let is_it = |redirect: &Redirect| {
            redirect.next_hop == address
                && match is_of_link {
                    true => redirect.interface == index,
                    false => self.table_of(redirect.interface, family) == self.table_of(index, family),
                }
        };
        match self.punts.iter(family).any(|(_, redirect)| is_it(redirect)) {
            true => Err(Error::PuntedTo { address, word: word(family) }),
            false => Ok(()),
        }
    }

    /// Refuses to have an interface to which packets for the host are sent in a table where they would be sent to this router.
    pub(crate) fn check_punted_move(&self, index: InterfaceIndex, family: Family, to: TableIndex) -> Result<(), Error> {
        let mut ways = self.punts.iter(family).filter(|(_, redirect)| redirect.interface == index);
        match ways.find(|(_, redirect)| self.is_own_in(to, index, redirect.next_hop)) {
            Some((_, redirect)) => Err(Error::PuntToOurselves(redirect.next_hop)),
            None => Ok(()),
        }
    }

    /// Publishes the ways that can be taken: those whose interface can be used.
    pub(crate) fn publish_punts(&self) {
        let [ip4, ip6] = Family::ALL.map(|family| self.ways(family));
        self.punt_table.publish(PuntTable { ip4, ip6 });
    }

    fn ways(&self, family: Family) -> Ways {
        let rate = self.punts.rate(family);
        let limit = rate.map(|per_second| Limit { per_second, burst: per_second.div_ceil(10) });
        let mut ways = Ways { limit, ..Ways::default() };
        for (rx, redirect) in self.punts.iter(family) {
            if !self.interfaces.get(redirect.interface).is_ok_and(|interface| interface.is_usable()) {
                continue;
            }
            let way = Some(ToHost { interface: redirect.interface, adjacency: redirect.adjacency });
            match rx {
                None => ways.others = way,
                Some(rx) => {
                    let at = rx.0 as usize;
                    ways.by_interface.resize(ways.by_interface.len().max(at + 1), None);
                    ways.by_interface[at] = way;
                }
            }
        }
        ways
    }
}

/// What commands call a family.
pub(super) const fn word(family: Family) -> &'static str {
    match family {
        Family::Ip4 => "ip",
        Family::Ip6 => "ip6",
    }
}
