//! Pairs, as control keeps them.

use crate::follow::{Counts, Event, Namespace, Reader, Settings};
use crate::netlink::Netlink;
use crate::netlink::request::Seen;
use graph::{InterfaceIndex, PerInterface};
use router::events::EventSender;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::{MacAddress, Prefix};

/// What `startup.conf` says.
pub(crate) struct Startup {
    /// The namespace of pairs that name none.
    pub namespace: Option<String>,
    /// Queues of each TAP.
    pub queues: u16,
    /// State, MTU and addresses follow the router's.
    pub sync: bool,
    /// How Linux is followed.
    pub follow: Settings,
}

/// What nodes read of an interface that has a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    /// Where its packets go: the pair's TAP, or from there the router's interface.
    pub to: InterfaceIndex,
    /// The Ethernet address of both sides.
    pub mac: MacAddress,
    /// Whether packets take it. The way to Linux is closed while its side there is down.
    pub is_open: bool,
}

/// An interface of the router and its side in Linux.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    pub phy: InterfaceIndex,
    /// The TAP between.
    pub tap: InterfaceIndex,
    /// The name in Linux.
    pub host: String,
    pub namespace: Option<String>,
    /// Its index there, as far as it was found.
    pub(crate) link: Option<u32>,
    /// What it had there when it was looked at, or changed by the router, last.
    pub(crate) seen: Seen,
}

/// All pairs.
pub struct Pairs {
    pub(crate) by_phy: BTreeMap<InterfaceIndex, Pair>,
    pub(crate) by_tap: BTreeMap<InterfaceIndex, InterfaceIndex>,
    /// The namespace of pairs that name none. What a command says goes before what `startup.conf` says.
    pub(crate) stated_namespace: Option<Option<String>>,
    /// Whether state, MTU and addresses follow the router's; the same.
    pub(crate) stated_sync: Option<bool>,
    pub(crate) startup: Startup,
    /// For requests to Linux, by namespace.
    pub(crate) netlinks: BTreeMap<Namespace, Netlink>,
    /// Reads what Linux says; there since the first pair.
    pub(crate) reader: Option<Reader>,
    /// Where the reader says it.
    pub(crate) events: EventSender<Event>,
    pub(crate) counts: BTreeMap<Namespace, Arc<Counts>>,
    /// Interfaces that could not have an address of Linux.
    pub(crate) refused: BTreeSet<InterfaceIndex>,
    /// The namespace whose routes are the router's.
    pub(crate) routes_of: Option<Namespace>,
    /// What nodes read: by the router's interface where its packets go, and by the TAP.
    pub(crate) to_host: PerInterface<Way>,
    pub(crate) from_host: PerInterface<Way>,
}

impl Pairs {
    pub(crate) fn new(
        startup: Startup,
        events: EventSender<Event>,
        to_host: PerInterface<Way>,
        from_host: PerInterface<Way>,
    ) -> Pairs {
        let (by_phy, by_tap, netlinks, counts, refused) = Default::default();
        let (stated_namespace, stated_sync, reader, routes_of) = (None, None, None, None);
        Pairs {
            by_phy,
            by_tap,
            stated_namespace,
            stated_sync,
            startup,
            netlinks,
            reader,
            events,
            counts,
            refused,
            routes_of,
            to_host,
            from_host,
        }
    }

    /// Whether the state, the MTU and the addresses of an interface in Linux follow the router's.
    pub fn is_synchronous(&self) -> bool {
        self.stated_sync.unwrap_or(self.startup.sync)
    }

    /// A socket for requests in a namespace.
    pub(crate) fn netlink(&mut self, namespace: Option<&str>) -> Result<&mut Netlink, String> {
        let key = namespace.map(str::to_string);
        match self.netlinks.entry(key) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => match Netlink::open(namespace) {
                Ok(opened) => Ok(new.insert(opened)),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    pub(crate) fn set_link(&mut self, phy: InterfaceIndex, link: u32) {
        if let Some(pair) = self.by_phy.get_mut(&phy) {
            pair.link = Some(link);
        }
    }

    pub(crate) fn lose_link(&mut self, phy: InterfaceIndex) {
        if let Some(pair) = self.by_phy.get_mut(&phy) {
            (pair.link, pair.seen) = (None, Seen::default());
        }
    }

    pub(crate) fn set_seen(&mut self, phy: InterfaceIndex, seen: Seen) {
        if let Some(pair) = self.by_phy.get_mut(&phy) {
            pair.seen = seen;
        }
    }

    pub(crate) fn keep_seen(&mut self, phy: InterfaceIndex, address: Prefix) {
        if let Some(pair) = self.by_phy.get_mut(&phy) {
            pair.seen.addresses.insert(address);
        }
    }

    pub(crate) fn forget_seen(&mut self, phy: InterfaceIndex, address: Prefix) {
        if let Some(pair) = self.by_phy.get_mut(&phy) {
            pair.seen.addresses.remove(&address);
        }
    }

    /// In the order of the router's interfaces.
    pub fn iter(&self) -> impl Iterator<Item = &Pair> {
        self.by_phy.values()
    }

    pub fn of(&self, phy: InterfaceIndex) -> Option<&Pair> {
        self.by_phy.get(&phy)
    }

    /// What `startup.conf` says of it.
    pub fn startup_namespace(&self) -> Option<&str> {
        self.startup.namespace.as_deref()
    }

    /// The namespace of pairs that name none; none: that of this process.
    pub fn default_namespace(&self) -> Option<&str> {
        self.stated_namespace.as_ref().unwrap_or(&self.startup.namespace).as_deref()
    }
}
