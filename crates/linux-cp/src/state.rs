//! Pairs, as control keeps them.

use crate::follow::{Counts, Event, Namespace, Reader, Settings};
use crate::keeper::{self, Keeper};
use crate::kernel::{self, Followed};
use crate::netlink::Netlink;
use crate::netlink::link::VlanLink;
use crate::netlink::request::Seen;
use crate::params::Params;
use graph::{InterfaceIndex, PerInterface};
use router::events::EventSender;
use router::interface::sub::Demux;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::ethernet::EtherType;
use wire::vlan::Tags;
use wire::{MacAddress, Prefix};

/// What `startup.conf` says.
pub(crate) struct Startup {
    /// The namespace of pairs that name none.
    pub namespace: Option<String>,
    /// Queues of each TAP.
    pub queues: u16,
    /// State, MTU and addresses follow the router's.
    pub sync: bool,
    /// Sub-interfaces get pairs by themselves.
    pub subs: bool,
    /// How Linux is followed.
    pub follow: Settings,
    /// How sides in Linux outlive the router; none: they do not.
    pub keep: Option<keeper::Settings>,
}

/// What nodes read of an interface that has a pair: its way to Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    /// The TAP that its packets take.
    pub tap: InterfaceIndex,
    /// The Ethernet address of both sides.
    pub mac: MacAddress,
    /// The tags that its frames have.
    pub tags: Tags,
    /// Whether packets take it. It is closed while the side in Linux is down.
    pub is_open: bool,
}

/// What nodes read of a TAP: the way from Linux.
#[derive(Debug, Clone)]
pub(crate) struct BackWay {
    /// The interface by which its packets leave.
    pub phy: InterfaceIndex,
    /// That interface's sub-interfaces, by which tagged ones leave.
    pub subs: Option<Arc<Demux>>,
}

/// A side in Linux that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opened {
    New,
    WasThere,
}

/// What makes a side in Linux a VLAN link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vlan {
    /// The interface whose side lies below.
    pub parent: InterfaceIndex,
    pub outer_type: EtherType,
    pub vid: u16,
    pub origin: Origin,
}

/// Who made a pair of a sub-interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An operator: it is configuration.
    Stated,
    /// The router, for each sub-interface.
    Automatic,
    /// Somebody in Linux.
    Found,
}

/// An interface of the router and its side in Linux.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    pub phy: InterfaceIndex,
    /// The TAP between; of a VLAN link, that of the link below.
    pub tap: InterfaceIndex,
    /// The name in Linux.
    pub host: String,
    pub namespace: Option<String>,
    pub(crate) vlan: Option<Vlan>,
    /// Its index there, as far as it was found.
    pub(crate) link: Option<u32>,
    /// What it had there when it was looked at, or changed by the router, last.
    pub(crate) seen: Seen,
    /// Addresses that it has because the router's interface borrows them.
    pub(crate) borrowed: BTreeSet<Prefix>,
}

impl Pair {
    /// A pair that nothing is known of in Linux yet.
    pub(crate) fn new(phy: InterfaceIndex, tap: InterfaceIndex, host: &str, namespace: Namespace) -> Pair {
        let (vlan, link, seen, borrowed) = Default::default();
        Pair { phy, tap, host: host.into(), namespace, vlan, link, seen, borrowed }
    }
}

/// All pairs.
pub struct Pairs {
    pub(crate) by_phy: BTreeMap<InterfaceIndex, Pair>,
    pub(crate) by_tap: BTreeMap<InterfaceIndex, InterfaceIndex>,
    /// By the index of the side in Linux.
    by_link: BTreeMap<Namespace, BTreeMap<u32, InterfaceIndex>>,
    /// Each pair of a sub-interface behind the one whose side in Linux lies below.
    above: BTreeSet<(InterfaceIndex, InterfaceIndex)>,
    /// VLAN links of Linux that could not be sub-interfaces.
    pub(crate) refused_vlans: BTreeMap<Namespace, BTreeMap<u32, VlanLink>>,
    /// The VRFs of Linux: the table of each, by the number of its device.
    pub(crate) vrfs: BTreeMap<Namespace, BTreeMap<u32, u32>>,
    /// Those that the router made.
    pub(crate) made_vrfs: BTreeSet<(Namespace, u32)>,
    /// Tables of the router that are there for them.
    pub(crate) vrf_tables: BTreeSet<u32>,
    /// The tables that are followed.
    pub(crate) followed: Followed,
    /// The namespace of pairs that name none. What a command says goes before what `startup.conf` says.
    pub(crate) stated_namespace: Option<Option<String>>,
    /// Whether state, MTU and addresses follow the router's; the same.
    pub(crate) stated_sync: Option<bool>,
    /// Whether sub-interfaces get pairs by themselves; the same.
    pub(crate) stated_subs: Option<bool>,
    pub(crate) startup: Startup,
    pub(crate) params: Params,
    /// Keeps the sides in Linux; there since the first pair.
    keeper: Option<Keeper>,
    /// The side that was opened last was kept from before; none: it is not kept.
    pub(crate) opened: Option<Opened>,
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
    pub(crate) from_host: PerInterface<BackWay>,
}

impl Pairs {
    pub(crate) fn new(
        startup: Startup,
        params: Params,
        events: EventSender<Event>,
        to_host: PerInterface<Way>,
        from_host: PerInterface<BackWay>,
    ) -> Pairs {
        let (by_phy, by_tap, by_link, above, refused_vlans, netlinks, counts, refused) = Default::default();
        let (vrfs, made_vrfs, vrf_tables) = Default::default();
        let (stated_namespace, stated_sync, stated_subs, reader, routes_of) = (None, None, None, None, None);
        Pairs {
            by_phy,
            by_tap,
            by_link,
            above,
            refused_vlans,
            vrfs,
            made_vrfs,
            vrf_tables,
            followed: kernel::main_table(),
            stated_namespace,
            stated_sync,
            stated_subs,
            startup,
            params,
            keeper: None,
            opened: None,
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

    /// Whether sub-interfaces of an interface with a pair get pairs by themselves.
    pub fn makes_subs(&self) -> bool {
        self.stated_subs.unwrap_or(self.startup.subs)
    }

    /// The process that keeps sides in Linux, where that is wanted. It is found, or started, for the first pair.
    pub(crate) fn keeper(&mut self) -> Option<&mut Keeper> {
        if self.keeper.is_none()
            && let Some(settings) = &self.startup.keep
        {
            match Keeper::find(settings) {
                Ok(found) => self.keeper = Some(found),
                Err(error) => log::warn!("sides of pairs end with the router: no process keeps them: {error}"),
            }
        }
        self.keeper.as_mut()
    }

    /// A side in Linux is kept no longer.
    pub(crate) fn let_go(&mut self, key: &str) {
        if let Some(keeper) = &mut self.keeper
            && let Err(error) = keeper.let_go(key)
        {
            log::warn!("the process that keeps sides of pairs does not answer: {error}");
            // The next pair finds it again, or starts another.
            self.keeper = None;
        }
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

    pub(crate) fn insert(&mut self, pair: Pair) {
        if let Some(link) = pair.link {
            self.by_link.entry(pair.namespace.clone()).or_default().insert(link, pair.phy);
        }
        if let Some(vlan) = &pair.vlan {
            self.above.insert((vlan.parent, pair.phy));
        }
        self.by_phy.insert(pair.phy, pair);
    }

    pub(crate) fn remove(&mut self, phy: InterfaceIndex) -> Option<Pair> {
        self.lose_index(phy);
        let pair = self.by_phy.remove(&phy)?;
        if let Some(vlan) = &pair.vlan {
            self.above.remove(&(vlan.parent, phy));
        }
        Some(pair)
    }

    pub(crate) fn set_link(&mut self, phy: InterfaceIndex, link: u32) {
        if let Some(pair) = self.by_phy.get_mut(&phy) {
            pair.link = Some(link);
            self.by_link.entry(pair.namespace.clone()).or_default().insert(link, phy);
        }
    }

    pub(crate) fn lose_link(&mut self, phy: InterfaceIndex) {
        self.lose_index(phy);
        if let Some(pair) = self.by_phy.get_mut(&phy) {
            (pair.link, pair.seen) = (None, Seen::default());
        }
    }

    fn lose_index(&mut self, phy: InterfaceIndex) {
        let Some(Pair { namespace, link: Some(link), .. }) = self.by_phy.get(&phy) else { return };
        if let Some(links) = self.by_link.get_mut(namespace) {
            links.remove(link);
            if links.is_empty() {
                self.by_link.remove(namespace);
            }
        }
    }

    /// The interface whose side in Linux has this index.
    pub(crate) fn with_link(&self, namespace: &Namespace, link: u32) -> Option<InterfaceIndex> {
        self.by_link.get(namespace)?.get(&link).copied()
    }

    pub(crate) fn set_seen(&mut self, phy: InterfaceIndex, seen: Seen) {
        if let Some(pair) = self.by_phy.get_mut(&phy) {
            pair.seen = seen;
        }
    }

    pub(crate) fn set_seen_mac(&mut self, phy: InterfaceIndex, mac: MacAddress) {
        if let Some(pair) = self.by_phy.get_mut(&phy) {
            pair.seen.mac = mac;
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

    /// The interfaces of pairs whose sides in Linux lie directly above that of an interface.
    pub(crate) fn above(&self, phy: InterfaceIndex) -> Vec<InterfaceIndex> {
        let all = self.above.range((phy, InterfaceIndex(0))..=(phy, InterfaceIndex(u32::MAX)));
        all.map(|(_, above)| *above).collect()
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
