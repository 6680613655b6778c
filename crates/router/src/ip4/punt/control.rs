//! Where packets for the host go, as control keeps it, and the operations on it.

use super::{PuntTable, ToHost};
use crate::ip::control::TableIndex;
use crate::neighbour::NeighbourKey;
use crate::rate::Limit;
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use tables::{Leaf, kind};
use wire::Family;

/// A bound on punted packets, as operators set it: so many a second, and a tenth of that at once.
pub const MAX_RATE: u32 = 10_000_000;

/// A way to the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    pub next_hop: Ipv4Addr,
    pub interface: InterfaceIndex,
    pub(crate) adjacency: Leaf,
}

/// Control's state of punting.
#[derive(Debug, Default)]
pub struct Punts {
    /// By the interface that received the packets; without one: all that have none of their own.
    redirects: BTreeMap<Option<InterfaceIndex>, Redirect>,
    /// Packets a second by each worker.
    pub(crate) rate: Option<u32>,
}

impl Punts {
    /// All ways, that for all interfaces first.
    pub fn iter(&self) -> impl Iterator<Item = (Option<InterfaceIndex>, &Redirect)> {
        self.redirects.iter().map(|(rx, redirect)| (*rx, redirect))
    }

    /// Whether the host sends by this interface: under the router's own addresses, too.
    pub fn leads_to_host(&self, index: InterfaceIndex) -> bool {
        self.redirects.values().any(|redirect| redirect.interface == index)
    }
}

impl Router {
    /// Has packets for the host that came by an interface, or by any, sent to a next hop on another. What was
    /// said of that interface before holds no more.
    ///
    /// # Errors
    /// When there is no such interface, they are the same, the next hop is no host's address, or a table is full;
    /// then nothing has changed.
    pub fn add_punt_redirect(
        &mut self,
        rx: Option<InterfaceIndex>,
        next_hop: Ipv4Addr,
        interface: InterfaceIndex,
    ) -> Result<(), Error> {
        rx.map(|index| self.interfaces.get(index).map(drop)).transpose()?;
        let name = &self.interfaces.get(interface)?.name;
        if rx == Some(interface) {
            return Err(Error::PuntToItself(name.clone()));
        }
        let table = self.table_of(interface, Family::Ip4);
        let of_table = self.interfaces.iter().filter(|other| other.ip4.table == table);
        let is_ours = of_table.flat_map(|other| &other.addresses).any(|own| own.address() == next_hop);
        if is_ours {
            return Err(Error::PuntToOurselves(next_hop));
        }
        if !crate::headers::is_one_host(next_hop) {
            return Err(Error::BadNeighbourAddress(next_hop.into()));
        }
        let object = self.share_adjacency(NeighbourKey::new(interface, next_hop))?;
        let adjacency = Leaf::new(kind::ADJACENCY, object);
        let before = self.punts.redirects.insert(rx, Redirect { next_hop, interface, adjacency });
        self.publish_punts();
        before.into_iter().for_each(|before| self.ip.release(before.adjacency));
        Ok(())
    }

    /// Packets for the host that came by an interface, or by any, have no way of their own any more.
    ///
    /// # Errors
    /// When they had none.
    pub fn remove_punt_redirect(&mut self, rx: Option<InterfaceIndex>) -> Result<(), Error> {
        let gone = self.punts.redirects.remove(&rx).ok_or(Error::NoSuchPunt)?;
        self.publish_punts();
        self.ip.release(gone.adjacency);
        Ok(())
    }

    /// Sets how many packets a second each worker punts at most; none is no bound.
    pub fn set_punt_rate(&mut self, rate: Option<u32>) {
        self.punts.rate = rate;
        self.publish_punts();
    }

    /// An interface goes away, and with it what was to come from it or go to it.
    pub(crate) fn forget_punts(&mut self, index: InterfaceIndex) {
        let names = |rx: Option<InterfaceIndex>, redirect: &Redirect| rx == Some(index) || redirect.interface == index;
        let gone: Vec<_> = self.punts.iter().filter(|(rx, way)| names(*rx, way)).map(|(rx, _)| rx).collect();
        for rx in gone {
            let _ = self.remove_punt_redirect(rx);
        }
    }

    /// Refuses an address to which packets for the host are sent.
    pub(crate) fn check_not_punted_to(&self, table: TableIndex, address: Ipv4Addr) -> Result<(), Error> {
        let is_it = |redirect: &Redirect| {
            redirect.next_hop == address && self.table_of(redirect.interface, Family::Ip4) == table
        };
        match self.punts.iter().any(|(_, redirect)| is_it(redirect)) {
            true => Err(Error::PuntedTo(address)),
            false => Ok(()),
        }
    }

    /// Publishes the ways that can be taken: those whose interface can be used.
    pub(crate) fn publish_punts(&self) {
        let rate = self.punts.rate;
        let limit = rate.map(|per_second| Limit { per_second, burst: per_second.div_ceil(10) });
        let mut table = PuntTable { limit, ..PuntTable::default() };
        for (rx, redirect) in self.punts.iter() {
            if !self.interfaces.get(redirect.interface).is_ok_and(|interface| interface.is_usable()) {
                continue;
            }
            let way = Some(ToHost { interface: redirect.interface, adjacency: redirect.adjacency });
            match rx {
                None => table.others = way,
                Some(rx) => {
                    let at = rx.0 as usize;
                    table.by_interface.resize(table.by_interface.len().max(at + 1), None);
                    table.by_interface[at] = way;
                }
            }
        }
        self.punt_table.publish(table);
    }
}
