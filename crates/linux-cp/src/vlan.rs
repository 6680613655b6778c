//! Pairs of sub-interfaces: their sides in Linux are VLAN links above the side of the parent.
//!
//! Frames of a sub-interface go through the parent's TAP with their tags, so they need no TAP of their own. Where Linux
//! has such a link, the router has the sub-interface: it is made when somebody makes the link, and goes with it.
//!
//! ```text
//!  e0, e0.101            lcp0 (the TAP of e0)     xe0, servers (VLAN 101 of xe0)
//!  e0.3000030  ────────────────────────────────   VLAN 30 of VLAN 300 of xe0
//! ```

use crate::error::LcpError;
use crate::follow::Namespace;
use crate::from_linux::Gone;
use crate::netlink::link::VlanLink;
use crate::state::{Origin, Pair, Pairs, Vlan};
use crate::{from_linux, pair, sync, ways};
use graph::InterfaceIndex;
use router::capability::Statement;
use router::interface::Interface;
use router::interface::config::removal;
use router::interface::kind::host_claim;
use router::interface::sub::{Sub, Vid, VlanMatch};
use router::{Devices, Error, Router};
use rustix::io::Errno;
use std::io;
use wire::ethernet::EtherType;
use wire::vlan::{MAX_VID, MIN_VID};

/// Makes a pair for a sub-interface: a VLAN link of this name above the side in Linux of its parent, which is down.
///
/// # Errors
/// When the sub-interface cannot have a pair, or Linux refuses; then nothing has changed.
pub fn create(router: &mut Router, phy: InterfaceIndex, host: &str, namespace: Option<&str>) -> Result<(), Error> {
    let (vlan, below) = below(router, phy)?;
    if namespace.is_some_and(|named| pair::namespace_of(named) != below.namespace.as_deref()) {
        let (sub, parent) = (name_of(router, phy)?, name_of(router, below.phy)?);
        return Err(LcpError::OtherNamespace { sub, parent }.into());
    }
    drivers::check_host_name(host)?;
    check_free(router, host, &below.namespace)?;
    // One that came by itself.
    if router.state::<Pairs>().of(phy).is_some() {
        end(router, phy, true);
    }
    if let Err(error) = make(router, phy, host, Vlan { origin: Origin::Stated, ..vlan }, &below) {
        automatic(router, phy);
        return Err(error);
    }
    state_below(router, below.phy);
    Ok(())
}

/// What a stated pair lies above is stated, too: without it the pair cannot be made again.
pub fn state_below(router: &mut Router, phy: InterfaceIndex) {
    let Some(pair) = router.state_mut::<Pairs>().by_phy.get_mut(&phy) else { return };
    if let Some(vlan) = &mut pair.vlan {
        vlan.origin = Origin::Stated;
        if let Ok(name) = name_of(router, phy) {
            router.is_stated_with(&name);
        }
    }
}

fn make(router: &mut Router, phy: InterfaceIndex, host: &str, vlan: Vlan, below: &Pair) -> Result<(), Error> {
    let (link, was_there) = match (router.devices(), below.link) {
        // A plan has no side in Linux.
        (Devices::DryRun, _) => (None, false),
        (_, None) => return Err(LcpError::NoSideBelow(below.host.clone()).into()),
        (_, Some(parent)) => {
            let asked = router.state_mut::<Pairs>().netlink(below.namespace.as_deref());
            let refused = |why| LcpError::NoVlanLink { host: host.into(), why };
            let netlink = asked.map_err(refused)?;
            // One that a router before this one made, or somebody in Linux.
            let wanted = VlanLink { name: host.into(), parent, outer_type: vlan.outer_type, vid: vlan.vid };
            match netlink.find_vlan(host) {
                Ok(Some((link, found))) if found == wanted => (Some(link), true),
                _ => {
                    let made = netlink.create_vlan(parent, host, vlan.outer_type, vlan.vid);
                    (Some(made.map_err(|error| refused(explained(&error)))?), false)
                }
            }
        }
    };
    let pair = new_pair(phy, host, below, vlan, link);
    if let Err(error) = ways::connect(router, pair) {
        end(router, phy, !was_there);
        return Err(error);
    }
    sync::begin(router, phy, was_there);
    from_linux::begin(router, phy, !was_there);
    if was_there {
        // What Linux has goes before what the router has.
        end_gone(router, |router| from_linux::look_at(router, phy));
        sync::addresses(router, phy);
    }
    above_of(router, phy);
    Ok(())
}

fn new_pair(phy: InterfaceIndex, host: &str, below: &Pair, vlan: Vlan, link: Option<u32>) -> Pair {
    Pair { vlan: Some(vlan), link, ..Pair::new(phy, below.tap, host, below.namespace.clone()) }
}

fn explained(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::OPNOTSUPP) => "it knows no VLANs. Load its module: 'modprobe 8021q'".into(),
        Some(Errno::EXIST) => "it has an interface of that name, or that VLAN, already".into(),
        _ => error.to_string(),
    }
}

fn check_free(router: &Router, host: &str, namespace: &Namespace) -> Result<(), Error> {
    let mut pairs = router.state::<Pairs>().iter();
    match pairs.find(|pair| pair.host == host && pair.namespace == *namespace) {
        Some(taken) => Err(LcpError::HostTaken(host.into(), name_of(router, taken.phy)?).into()),
        None => Ok(()),
    }
}

fn name_of(router: &Router, index: InterfaceIndex) -> Result<String, Error> {
    Ok(router.interfaces.get(index)?.name.clone())
}

/// The VLAN of a sub-interface, and the pair whose side in Linux lies below.
fn below(router: &Router, phy: InterfaceIndex) -> Result<(Vlan, Pair), Error> {
    let interface = router.interfaces.get(phy)?;
    let name = || interface.name.clone();
    let Some(Sub { parent, takes, .. }) = interface.sub else { return Err(Error::NoSubInterface(name())) };
    let VlanMatch::Tagged { outer_type, outer: Vid::Is(vid), inner, exact: true } = takes else {
        return Err(LcpError::NotExact(name()).into());
    };
    let above = name_of(router, parent)?;
    let pairs = router.state::<Pairs>();
    let origin = Origin::Automatic;
    match inner {
        None => {
            let below = pairs.of(parent).ok_or(LcpError::ParentHasNone { sub: name(), parent: above })?;
            Ok((Vlan { parent, outer_type, vid, origin }, below.clone()))
        }
        Some(Vid::Any) => Err(LcpError::NotExact(name()).into()),
        Some(Vid::Is(inner)) => {
            let outer = VlanMatch::Tagged { outer_type, outer: Vid::Is(vid), inner: None, exact: true };
            let below = who_takes(router, parent, &outer).and_then(|sub| pairs.of(sub));
            let below = below.ok_or_else(|| LcpError::OuterHasNone { sub: name(), parent: above, vid, outer })?;
            let vlan = Vlan { parent: below.phy, outer_type: EtherType::VLAN, vid: inner, origin };
            Ok((vlan, below.clone()))
        }
    }
}

/// The sub-interface that takes exactly these frames.
fn who_takes(router: &Router, parent: InterfaceIndex, takes: &VlanMatch) -> Option<InterfaceIndex> {
    let demux = router.interfaces.get(parent).ok()?.sub_interfaces()?;
    let sub = demux.who_takes(takes)?;
    router.interfaces.get(sub).ok()?.sub.as_ref().is_some_and(|sub| sub.takes == *takes).then_some(sub)
}

/// Removes the pair of a sub-interface, and first those above it; the links in Linux, too, unless they went already. A
/// sub-interface that came from Linux goes with it.
pub fn end(router: &mut Router, phy: InterfaceIndex, with_link: bool) {
    end_above(router, phy, with_link);
    let Some(pair) = ways::disconnect(router, phy) else { return };
    // Before the reader leaves it, so that it does not take the link for a new one.
    if let Some(link) = pair.link.filter(|_| with_link) {
        let asked = router.state_mut::<Pairs>().netlink(pair.namespace.as_deref());
        match asked.map(|netlink| netlink.delete_link(link)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => {}
            Ok(Err(error)) => log::warn!("{} stays in Linux: {error}", pair.host),
            Err(error) => log::warn!("{} stays in Linux: {error}", pair.host),
        }
    }
    from_linux::end(router, &pair);
    if router.interfaces.get(phy).is_ok_and(Interface::is_found)
        && let Err(error) = router.delete_interface(phy)
    {
        log::warn!("the sub-interface of {} stays: {error}", pair.host);
    }
}

/// The same for those above a pair.
pub fn end_above(router: &mut Router, phy: InterfaceIndex, with_link: bool) {
    for above in router.state::<Pairs>().above(phy) {
        end(router, above, with_link);
        router.breathe();
    }
}

/// Ends the pairs whose links a look finds gone.
pub fn end_gone(router: &mut Router, look: impl FnOnce(&mut Router) -> Gone) {
    look(router).0.into_iter().for_each(|phy| end(router, phy, false));
}

/// Somebody made VLAN links in Linux: the router has sub-interfaces for them, and pairs.
pub fn found(router: &mut Router, namespace: &Namespace, vlans: Vec<(u32, VlanLink)>) {
    for (link, vlan) in vlans {
        let pairs = router.state::<Pairs>();
        if pairs.with_link(namespace, link).is_some() {
            continue;
        }
        let Some(parent) = pairs.with_link(namespace, vlan.parent) else { continue };
        if let Err(error) = take_over(router, parent, link, &vlan) {
            log::warn!("{} in Linux has no sub-interface: {error}", vlan.name);
            router.state_mut::<Pairs>().refused_vlans.entry(namespace.clone()).or_default().insert(link, vlan);
        }
        router.breathe();
    }
}

/// Tries again what was refused.
pub fn try_again(router: &mut Router) {
    let refused = std::mem::take(&mut router.state_mut::<Pairs>().refused_vlans);
    refused.into_iter().for_each(|(namespace, vlans)| found(router, &namespace, vlans.into_iter().collect()));
}

fn take_over(router: &mut Router, parent: InterfaceIndex, link: u32, vlan: &VlanLink) -> Result<(), Error> {
    let Some(below) = router.state::<Pairs>().of(parent).cloned() else { return Ok(()) };
    let VlanLink { outer_type, vid, .. } = *vlan;
    if !(MIN_VID..=MAX_VID).contains(&vid) {
        return Err(LcpError::NoVlan { host: vlan.name.clone(), vid }.into());
    }
    let interface = router.interfaces.get(parent)?;
    let (top, takes) = match &interface.sub {
        None => (parent, VlanMatch::Tagged { outer_type, outer: Vid::Is(vid), inner: None, exact: true }),
        Some(sub) => match sub.takes {
            VlanMatch::Tagged { outer_type: first, outer, inner: None, .. } if outer_type == EtherType::VLAN => {
                (sub.parent, VlanMatch::Tagged { outer_type: first, outer, inner: Some(Vid::Is(vid)), exact: true })
            }
            _ => return Err(LcpError::DeepTags(vlan.name.clone()).into()),
        },
    };
    let phy = match who_takes(router, top, &takes) {
        Some(known) => known,
        None => router.create_found_sub_interface(top, takes)?,
    };
    let known = Vlan { parent, outer_type, vid, origin: Origin::Found };
    match router.state::<Pairs>().of(phy) {
        // The link of a pair was deleted, and is there again.
        Some(Pair { link: None, .. }) => router.state_mut::<Pairs>().set_link(phy, link),
        Some(other) => {
            let host = other.host.clone();
            return Err(LcpError::Paired { phy: name_of(router, phy)?, host }.into());
        }
        None => ways::connect(router, new_pair(phy, &vlan.name, &below, known, Some(link)))
            .inspect_err(|_| end(router, phy, false))?,
    }
    from_linux::begin(router, phy, false);
    // What Linux has goes before what the router has.
    end_gone(router, |router| from_linux::look_at(router, phy));
    sync::addresses(router, phy);
    Ok(())
}

/// While it is wanted (`lcp lcp-auto-subint on`), each sub-interface of an interface with a pair has one: those with
/// these interfaces as parents get it.
pub fn above_of(router: &mut Router, phy: InterfaceIndex) {
    if !router.state::<Pairs>().makes_subs() {
        return;
    }
    let Ok(interface) = router.interfaces.get(phy) else { return };
    let (parent, outer) = match &interface.sub {
        None => (phy, None),
        // Those with its tag and another one.
        Some(Sub { parent, takes: VlanMatch::Tagged { outer, inner: None, .. }, .. }) => (*parent, Some(*outer)),
        Some(_) => return,
    };
    let is_above = |takes: &VlanMatch| match takes {
        VlanMatch::Tagged { inner: None, .. } => outer.is_none(),
        VlanMatch::Tagged { outer: with, inner: Some(_), .. } => outer == Some(*with),
        _ => false,
    };
    let subs = router.interfaces.sub_interfaces_of(parent);
    let subs = subs.filter(|it| it.sub.as_ref().is_some_and(|sub| is_above(&sub.takes)));
    let subs: Vec<InterfaceIndex> = subs.map(|sub| sub.index).collect();
    for sub in subs {
        if below(router, sub).is_ok_and(|(_, below)| below.phy == phy) {
            automatic(router, sub);
        }
    }
}

/// Makes the pair of a sub-interface that has none, if it can have one. Its name is that of its parent's side, with the
/// sub-interface's number.
pub fn automatic(router: &mut Router, phy: InterfaceIndex) {
    let pairs = router.state::<Pairs>();
    if !pairs.makes_subs() || pairs.of(phy).is_some() {
        return;
    }
    let Ok(interface) = router.interfaces.get(phy) else { return };
    let Some(sub) = interface.sub.clone().filter(|sub| !sub.is_found) else { return };
    let Ok((vlan, below)) = below(router, phy) else { return };
    let Some(Pair { host, .. }) = router.state::<Pairs>().of(sub.parent) else { return };
    let (host, name) = (format!("{host}.{}", sub.id), interface.name.clone());
    let made = drivers::check_host_name(&host).map_err(Error::from).and_then(|()| {
        check_free(router, &host, &below.namespace)?;
        make(router, phy, &host, vlan, &below)
    });
    if let Err(error) = made {
        log::warn!("{name} gets no pair: {error}");
    }
}

/// The pairs that operators stated, outer ones first.
pub fn statements(router: &Router, into: &mut Vec<Statement>) {
    let is_inner = |vlan: &Vlan| router.interfaces.get(vlan.parent).is_ok_and(|below| below.sub.is_some());
    for inner in [false, true] {
        for pair in router.state::<Pairs>().iter() {
            let Some(vlan) = pair.vlan.as_ref().filter(|vlan| vlan.origin == Origin::Stated && is_inner(vlan) == inner)
            else {
                continue;
            };
            let (Ok(name), Ok(parent)) = (name_of(router, pair.phy), name_of(router, vlan.parent)) else { continue };
            let undo = |name: &str| format!("lcp delete {name}");
            let mut statement = Statement::new(format!("lcp create {name} host-if {}", pair.host), undo(&name));
            statement.claims = vec![host_claim(pair.namespace.as_deref(), &pair.host)];
            into.push(statement.needing(removal(&name)).needing(undo(&parent)));
        }
    }
}
