//! Pairs, as control keeps them, and the operations on them.

use crate::netlink::Netlink;
use crate::pair::PairConfig;
use crate::{Startup, Way, from_host, sync, to_host};
use graph::{InterfaceIndex, PerInterface};
use router::capability::{Notice, Statement};
use router::interface::kind::InterfaceConfig;
use router::{Error, Router};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Longest name of an interface in Linux (`IFNAMSIZ`, with its zero).
const MAX_NAME: usize = 15;

/// The arcs of [`to_host::NODES`].
const ARCS: [&str; 4] = ["ip4-local", "ip6-local", "arp", "l2-input"];

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
}

/// All pairs.
pub struct Pairs {
    by_phy: BTreeMap<InterfaceIndex, Pair>,
    by_tap: BTreeMap<InterfaceIndex, InterfaceIndex>,
    /// The namespace of pairs that name none. What a command says goes before what `startup.conf` says.
    stated_namespace: Option<Option<String>>,
    /// Whether state, MTU and addresses follow the router's; the same.
    stated_sync: Option<bool>,
    startup: Startup,
    /// For requests to Linux, by namespace.
    netlinks: BTreeMap<Option<String>, Netlink>,
    /// What nodes read: by the router's interface where its packets go, and by the TAP.
    to_host: PerInterface<Way>,
    from_host: PerInterface<Way>,
}

impl Pairs {
    pub(crate) fn new(startup: Startup, to_host: PerInterface<Way>, from_host: PerInterface<Way>) -> Pairs {
        let (by_phy, by_tap, netlinks) = Default::default();
        let (stated_namespace, stated_sync) = (None, None);
        Pairs { by_phy, by_tap, stated_namespace, stated_sync, startup, netlinks, to_host, from_host }
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

/// Why a pair cannot be made or removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LcpError {
    #[error("{phy} has a pair already: {host} ('lcp delete {phy}' removes it)")]
    Paired { phy: String, host: String },
    #[error("{0} is the Linux side of a pair itself")]
    IsHostSide(String),
    #[error("{0} cannot be the Linux side of itself")]
    ToItself(String),
    #[error("{0} has no pair ('show lcp' lists them)")]
    NoPair(String),
    #[error("'{0}' is no name for an interface in Linux: expected 1 to {MAX_NAME} bytes without '/' and spaces")]
    BadName(String),
    #[error("{0} carries no Ethernet frames, and pairs of other interfaces are not implemented yet")]
    NoFrames(String),
    #[error("{0} is a sub-interface, and pairs of sub-interfaces are not implemented yet: make one of its parent")]
    SubInterface(String),
}

router::codes! { LcpError {
    Paired => "lcp-paired",
    IsHostSide => "lcp-is-host-side",
    ToItself => "lcp-to-itself",
    NoPair => "lcp-no-pair",
    BadName => "lcp-bad-name",
    NoFrames => "lcp-no-frames",
    SubInterface => "lcp-sub-interface",
} }

/// Makes a pair: an interface of this name in Linux, which is down. Its Ethernet address and MTU are those of the
/// router's interface. Without a namespace it is in the default one.
///
/// # Errors
/// When the interface cannot have a pair, or Linux refuses the name; then nothing has changed.
pub fn create(
    router: &mut Router,
    phy: InterfaceIndex,
    host: &str,
    namespace: Option<&str>,
) -> Result<InterfaceIndex, Error> {
    let interface = router.interfaces.get(phy)?;
    let name = || interface.name.clone();
    check_free(router, phy, name())?;
    if interface.sub.is_some() {
        return Err(LcpError::SubInterface(name()).into());
    }
    if router.is_tunnel(phy) {
        return Err(LcpError::NoFrames(name()).into());
    }
    let is_bad = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    if host.is_empty() || host.len() > MAX_NAME || matches!(host, "." | "..") || host.contains(is_bad) {
        return Err(LcpError::BadName(host.into()).into());
    }
    let pairs = router.state::<Pairs>();
    let config = PairConfig {
        phy,
        phy_name: name(),
        host: host.into(),
        usual_namespace: pairs.startup.namespace.clone(),
        namespace: namespace.or(pairs.default_namespace()).map(str::to_string),
        mac: Some(interface.mac),
        mtu: interface.mtu,
        queues: pairs.startup.queues,
    };
    let namespace = config.namespace.clone();
    let tap_name = config.default_name(router);
    router.operation(|router| {
        let tap = router.create(&tap_name, Box::new(config))?;
        let pair = Pair { phy, tap, host: host.into(), namespace, link: None };
        let made = connect(router, pair).and_then(|()| router.set_admin(tap, true));
        if let Err(error) = made {
            disconnect(router, phy);
            router.delete_interface(tap)?;
            return Err(error);
        }
        sync::begin(router, phy);
        Ok(tap)
    })
}

/// Makes a pair of two interfaces of the router: `tap` leads to Linux already, where its other end has this name.
///
/// # Errors
/// When one of them does not exist, or is of a pair already; then nothing has changed.
pub fn join(router: &mut Router, phy: InterfaceIndex, tap: InterfaceIndex, host: &str) -> Result<(), Error> {
    for index in [phy, tap] {
        let name = router.interfaces.get(index)?.name.clone();
        check_free(router, index, name)?;
    }
    if phy == tap {
        return Err(LcpError::ToItself(router.interfaces.get(phy)?.name.clone()).into());
    }
    let joined = connect(router, Pair { phy, tap, host: host.into(), namespace: None, link: None });
    joined.inspect_err(|_| disconnect(router, phy))
}

fn check_free(router: &Router, index: InterfaceIndex, name: String) -> Result<(), Error> {
    let pairs = router.state::<Pairs>();
    if let Some(pair) = pairs.of(index) {
        return Err(LcpError::Paired { phy: name, host: pair.host.clone() }.into());
    }
    if pairs.by_tap.contains_key(&index) {
        return Err(LcpError::IsHostSide(name).into());
    }
    Ok(())
}

/// Removes a pair with its interface in Linux.
///
/// # Errors
/// When the interface has none.
pub fn delete(router: &mut Router, phy: InterfaceIndex) -> Result<(), Error> {
    let interface = router.interfaces.get(phy)?;
    let Some(pair) = router.state::<Pairs>().of(phy) else {
        return Err(LcpError::NoPair(interface.name.clone()).into());
    };
    let tap = pair.tap;
    router.operation(|router| {
        disconnect(router, phy);
        router.delete_interface(tap)
    })
}

/// Sets the namespace of pairs that are made from now on and name none; none: that of this process.
pub fn set_default_namespace(router: &mut Router, namespace: Option<String>) {
    let pairs = router.state_mut::<Pairs>();
    pairs.stated_namespace = if namespace == pairs.startup.namespace { None } else { Some(namespace) };
}

/// Has the state, the MTU and the addresses of all sides in Linux follow the router's from now on, or no longer.
pub fn set_sync(router: &mut Router, on: bool) {
    let pairs = router.state_mut::<Pairs>();
    let before = pairs.is_synchronous();
    pairs.stated_sync = if on == pairs.startup.sync { None } else { Some(on) };
    if on && !before {
        let all: Vec<InterfaceIndex> = pairs.by_phy.keys().copied().collect();
        all.into_iter().for_each(|phy| sync::all(router, phy));
    }
}

/// Packets take the ways of the pair.
fn connect(router: &mut Router, pair: Pair) -> Result<(), Error> {
    let (phy, tap) = (pair.phy, pair.tap);
    let mac = router.interfaces.get(phy)?.mac;
    let pairs = router.state_mut::<Pairs>();
    pairs.to_host.set(phy, Some(Way { to: tap, mac }));
    pairs.from_host.set(tap, Some(Way { to: phy, mac }));
    pairs.by_tap.insert(tap, phy);
    pairs.by_phy.insert(phy, pair);
    for (arc, node) in ARCS.into_iter().zip(to_host::NODES) {
        router.graph.set_feature(arc, node, phy, true)?;
    }
    router.graph.set_feature(drivers::input::ARC, from_host::NODE, tap, true)?;
    router.set_all_groups(phy, true)
}

/// The same back, as far as it was done.
fn disconnect(router: &mut Router, phy: InterfaceIndex) {
    let pairs = router.state_mut::<Pairs>();
    let Some(Pair { tap, namespace, .. }) = pairs.by_phy.remove(&phy) else { return };
    // A namespace of this name may be another one when the next pair is made there.
    if pairs.by_phy.values().all(|pair| pair.namespace != namespace) {
        pairs.netlinks.remove(&namespace);
    }
    pairs.by_tap.remove(&tap);
    pairs.to_host.set(phy, None);
    pairs.from_host.set(tap, None);
    let ways = ARCS.into_iter().zip(to_host::NODES).map(|(arc, node)| (arc, node, phy));
    for (arc, node, interface) in ways.chain([(drivers::input::ARC, from_host::NODE, tap)]) {
        if let Err(error) = router.graph.set_feature(arc, node, interface, false) {
            log::error!("{node} stays enabled on interface {interface}: {error}");
        }
    }
    if let Err(error) = router.set_all_groups(phy, false) {
        log::error!("interface {phy} receives all groups still: {error}");
    }
}

/// A pair ends with either side.
pub(crate) fn hears(router: &mut Router, notice: &Notice) {
    if let Notice::Mac(changed) = notice
        && let Some(tap) = router.state::<Pairs>().of(*changed).map(|pair| pair.tap)
        && let Ok(mac) = router.interfaces.get(*changed).map(|interface| interface.mac)
    {
        router.state::<Pairs>().to_host.set(*changed, Some(Way { to: tap, mac }));
    }
    sync::hears(router, notice);
    let Notice::Leaving(leaving) = notice else { return };
    if let Some(phy) = router.state::<Pairs>().by_tap.get(leaving).copied() {
        return disconnect(router, phy);
    }
    if router.state::<Pairs>().of(*leaving).is_some()
        && let Err(error) = delete(router, *leaving)
    {
        log::error!("the pair of a removed interface stays: {error}");
    }
}

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    let pairs = router.state::<Pairs>();
    if let Some(on) = pairs.stated_sync {
        let said = |on: bool| format!("lcp lcp-sync {}", if on { "on" } else { "off" });
        into.push(Statement::new(said(on), said(!on)));
    }
    if let Some(stated) = &pairs.stated_namespace {
        let (undo, line) = ("lcp default netns default", stated.as_deref().unwrap_or("clear"));
        into.push(Statement::new(format!("lcp default netns {line}"), undo.into()).replaced_by_itself());
    }
}
