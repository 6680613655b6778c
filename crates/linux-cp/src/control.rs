//! Operations on pairs.

use crate::error::LcpError;
use crate::follow::Order;
use crate::pair::{self, PairConfig};
use crate::params::Param;
use crate::state::{Opened, Origin, Pair, Pairs};
use crate::{followed, fpm, from_linux, sync, vlan, vrf, ways};
use graph::InterfaceIndex;
use router::capability::{Change, Notice, Statement};
use router::interface::kind::InterfaceConfig;
use router::{Error, Router};
use std::net::IpAddr;

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
    let name = interface.name.clone();
    if is_stated_now(router, phy, host, namespace) {
        return Ok(router.state::<Pairs>().of(phy).map_or(phy, |pair| pair.tap));
    }
    // An operator's goes before one that came by itself.
    let is_automatic = |pair: &Pair| pair.vlan.as_ref().is_some_and(|vlan| vlan.origin == Origin::Automatic);
    if !router.state::<Pairs>().of(phy).is_some_and(is_automatic) {
        check_free(router, phy, name.clone())?;
    }
    let interface = router.interfaces.get(phy)?;
    if interface.sub.is_some() {
        vlan::create(router, phy, host, namespace)?;
        return router.state::<Pairs>().of(phy).map(|pair| pair.tap).ok_or_else(|| LcpError::NoPair(name).into());
    }
    if router.is_tunnel(phy) {
        return Err(LcpError::NoFrames(name).into());
    }
    drivers::check_host_name(host)?;
    let pairs = router.state::<Pairs>();
    let config = PairConfig {
        phy,
        phy_name: name,
        host: host.into(),
        namespace: namespace.or(pairs.default_namespace()).and_then(pair::namespace_of).map(str::to_string),
        mac: Some(interface.mac),
        mtu: interface.mtu,
        queues: pairs.startup.queues,
    };
    let namespace = config.namespace.clone();
    let tap_name = config.default_name(router);
    let key = config.key();
    router.operation(|router| {
        router.state_mut::<Pairs>().opened = None;
        let made = router.create(&tap_name, Box::new(config));
        let opened = router.state_mut::<Pairs>().opened.take();
        // What was kept before is kept on, for the next try.
        if made.is_err() && opened == Some(Opened::New) {
            router.state_mut::<Pairs>().let_go(&key);
        }
        let (tap, was_there) = (made?, opened == Some(Opened::WasThere));
        let pair = Pair::new(phy, tap, host, namespace);
        let made = ways::connect(router, pair).and_then(|()| router.set_admin(tap, true));
        if let Err(error) = made {
            disconnect(router, phy);
            router.delete_interface(tap)?;
            return Err(error);
        }
        sync::begin(router, phy, was_there);
        from_linux::begin(router, phy, !was_there);
        if was_there {
            // What Linux has goes before what the router has.
            vlan::end_gone(router, |router| from_linux::look_at(router, phy));
            sync::addresses(router, phy);
        }
        vlan::above_of(router, phy);
        Ok(tap)
    })
}

/// An operator states a pair that came by itself: it is stated from now on. Whether it was there.
fn is_stated_now(router: &mut Router, phy: InterfaceIndex, host: &str, namespace: Option<&str>) -> bool {
    let Some(pair) = router.state_mut::<Pairs>().by_phy.get_mut(&phy) else { return false };
    let is_same =
        pair.host == host && namespace.is_none_or(|named| pair::namespace_of(named) == pair.namespace.as_deref());
    match &mut pair.vlan {
        Some(vlan) if is_same && vlan.origin != Origin::Stated => {
            vlan.origin = Origin::Stated;
            let below = vlan.parent;
            vlan::state_below(router, below);
            true
        }
        _ => false,
    }
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
    let joined = ways::connect(router, Pair::new(phy, tap, host, None));
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
    if let Some(vlan) = &pair.vlan {
        let was_stated = vlan.origin == Origin::Stated;
        vlan::end(router, phy, true);
        if was_stated {
            vlan::automatic(router, phy);
        }
        return Ok(());
    }
    // The pair ends when its TAP leaves.
    router.delete_interface(pair.tap)
}

/// Sets the namespace of pairs that are made from now on and name none; none: that of this process.
pub fn set_default_namespace(router: &mut Router, namespace: Option<String>) {
    let pairs = router.state_mut::<Pairs>();
    pairs.stated_namespace = if namespace == pairs.startup.namespace { None } else { Some(namespace) };
    from_linux::settle_routes(pairs);
    let default = pairs.default_namespace().map(str::to_string);
    let links = pairs.iter().filter_map(|pair| Some((pair.namespace.clone(), pair.link?, pair.phy)));
    let links: Vec<_> = links.collect();
    fpm::moved(router, &default, &links);
}

/// Has the state, the MTU and the addresses of all sides in Linux follow the router's from now on, or no longer.
pub fn set_sync(router: &mut Router, on: bool) {
    let pairs = router.state_mut::<Pairs>();
    let before = pairs.is_synchronous();
    pairs.stated_sync = if on == pairs.startup.sync { None } else { Some(on) };
    if on == before {
        return;
    }
    let all: Vec<InterfaceIndex> = pairs.by_phy.keys().copied().collect();
    for phy in all {
        if on {
            sync::all(router, phy);
            vrf::sync_if_free(router, phy);
        } else {
            sync::borrowed(router, phy);
        }
    }
}

/// Has sub-interfaces of interfaces with pairs get pairs by themselves from now on, or no longer. Those that they have
/// stay.
pub fn set_subs(router: &mut Router, on: bool) {
    let pairs = router.state_mut::<Pairs>();
    pairs.stated_subs = if on == pairs.startup.subs { None } else { Some(on) };
    // Those of sub-interfaces look after the ones above them when they are made.
    let is_lowest = |pair: &&Pair| pair.vlan.is_none();
    let all: Vec<InterfaceIndex> = pairs.iter().filter(is_lowest).map(|pair| pair.phy).collect();
    all.into_iter().for_each(|phy| vlan::above_of(router, phy));
}

/// Sets a switch for all pairs.
pub fn set_param(router: &mut Router, param: Param, on: bool) {
    let pairs = router.state_mut::<Pairs>();
    pairs.params.set(param, on);
    match param {
        Param::RouteNoPaths => {
            if let Some(reader) = &pairs.reader {
                reader.order(Order::NoPaths(on));
            }
            fpm::set_no_paths(router, on);
        }
        Param::SyncUnnumbered => {
            let all: Vec<InterfaceIndex> = pairs.iter().map(|pair| pair.phy).collect();
            all.into_iter().for_each(|phy| sync::borrowed(router, phy));
        }
        Param::DelStatic | Param::DelDynamic => {}
    }
}

fn disconnect(router: &mut Router, phy: InterfaceIndex) {
    if let Some(pair) = ways::disconnect(router, phy) {
        from_linux::end(router, &pair);
    }
}

/// A pair ends with either side.
pub(crate) fn hears(router: &mut Router, notice: &Notice) {
    let published = match notice {
        Notice::Mac(phy) => ways::publish(router, *phy),
        Notice::LinkState { interface, .. } | Notice::State { interface, .. } => ways::publish_all(router, *interface),
        _ => Ok(()),
    };
    if let Err(error) = published {
        log::error!("a pair is not up to date: {error}");
    }
    // What stood in the way of a VLAN link of Linux may be gone.
    if let Notice::Gone { .. } = notice {
        vlan::try_again(router);
    }
    if let Notice::Created(interface) = notice {
        vlan::automatic(router, *interface);
    }
    if let Notice::Renamed { interface, .. } = notice {
        renamed(router, *interface);
    }
    if let Notice::Tables(_) = notice {
        vrf::tables_changed(router);
    }
    sync::hears(router, notice);
    // What kept an interface out of the table of its VRF may be gone, and so may what kept a table.
    if let Notice::Table { .. } | Notice::Lender(_) = notice {
        if !router.state::<Pairs>().refused.is_empty() {
            vlan::end_gone(router, from_linux::look_again);
        }
        followed::drop_tables(router);
    }
    // Addresses of links stand in nobody's way.
    if let Notice::AddressRemoved { address, .. } = notice
        && !matches!(address.address(), IpAddr::V6(address) if address.is_unicast_link_local())
        && !router.state::<Pairs>().refused.is_empty()
    {
        vlan::end_gone(router, from_linux::look_again);
    }
    let Notice::Leaving(leaving) = notice else { return };
    if let Some(phy) = router.state::<Pairs>().by_tap.get(leaving).copied() {
        // Linux removes the VLAN links with the one below, all at once.
        vlan::end_above(router, phy, false);
        return disconnect(router, phy);
    }
    if router.state::<Pairs>().of(*leaving).is_some_and(|pair| pair.vlan.is_some()) {
        // Its link goes with the TAP below, if the parent leaves, too.
        let parent = router.interfaces.get(*leaving).ok().and_then(|it| it.sub.as_ref().map(|sub| sub.parent));
        let with_link = parent.is_none_or(|parent| !router.is_leaving(parent));
        return vlan::end(router, *leaving, with_link);
    }
    if router.state::<Pairs>().of(*leaving).is_some()
        && let Err(error) = delete(router, *leaving)
    {
        log::error!("the TAP of a removed interface stays: {error}");
        disconnect(router, *leaving);
    }
}

/// The command that makes the pair has the interface's name in it.
fn renamed(router: &mut Router, phy: InterfaceIndex) {
    let Some(pair) = router.state::<Pairs>().of(phy).filter(|pair| pair.vlan.is_none()) else { return };
    let tap = pair.tap;
    let Ok(name) = router.interfaces.get(phy).map(|interface| interface.name.clone()) else { return };
    let Ok(interface) = router.interfaces.get_mut(tap) else { return };
    if let Some(config) = interface.options::<PairConfig>().cloned() {
        interface.creation = Some(Box::new(PairConfig { phy_name: name, ..config }));
    }
}

/// What Linux has on its side is set there.
pub(crate) fn allows(router: &Router, change: &Change) -> Result<(), Error> {
    let Change::Address { interface, .. } = *change else { return Ok(()) };
    match router.state::<Pairs>().by_tap.contains_key(&interface) {
        true => Err(LcpError::OfLinux(router.interfaces.get(interface)?.name.clone()).into()),
        false => Ok(()),
    }
}

/// Before any interface: `off` keeps those from getting pairs that have none, and a pair that is stated replaces one
/// that came by itself.
pub(crate) fn auto_statements(router: &Router, into: &mut Vec<Statement>) {
    if let Some(on) = router.state::<Pairs>().stated_subs {
        let said = |on: bool| format!("lcp lcp-auto-subint {}", if on { "on" } else { "off" });
        into.push(Statement::new(said(on), said(!on)));
    }
}

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    let pairs = router.state::<Pairs>();
    if let Some(on) = pairs.stated_sync {
        let said = |on: bool| format!("lcp lcp-sync {}", if on { "on" } else { "off" });
        into.push(Statement::new(said(on), said(!on)));
    }
    for param in Param::ALL {
        if let Some(on) = pairs.params.stated(param) {
            let said = |on: bool| format!("lcp param {} {}", param.word(), if on { "on" } else { "off" });
            into.push(Statement::new(said(on), said(!on)));
        }
    }
    for ethertype in &pairs.params.ethertypes {
        let said = |word: &str| format!("lcp ethertype {word} {ethertype:#06x}");
        into.push(Statement::new(said("enable"), said("disable")));
    }
    if let Some(stated) = &pairs.stated_namespace {
        let (undo, line) = ("lcp default netns default", stated.as_deref().unwrap_or("clear"));
        into.push(Statement::new(format!("lcp default netns {line}"), undo.into()).replaced_by_itself());
    }
}
