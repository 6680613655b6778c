//! What the router's interfaces are, carried out on their sides in Linux.
//!
//! The Ethernet address and the carrier always follow. The state, the MTU and the addresses follow where operators want
//! it (`lcp lcp-sync on`). Linux may refuse a change, for example one of an interface that somebody deleted there: the
//! log says so, and the router goes on.

use crate::netlink::Netlink;
use crate::netlink::request::Seen;
use crate::params::Param;
use crate::state::{Pair, Pairs};
use crate::{vrf, ways};
use graph::InterfaceIndex;
use router::capability::Notice;
use router::interface::Interface;
use router::{Devices, Router};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;
use wire::Prefix;

/// One change of a pair's side in Linux.
#[derive(Debug, Clone, Copy)]
enum Step {
    State(bool),
    Mtu(u16),
    Mac(wire::MacAddress),
    Address(Prefix, bool),
}

impl Step {
    fn take(self, netlink: &mut Netlink, link: u32) -> io::Result<()> {
        match self {
            Step::State(up) => netlink.set_up(link, up),
            Step::Mtu(mtu) => netlink.set_mtu(link, mtu),
            Step::Mac(mac) => netlink.set_mac(link, mac),
            Step::Address(address, present) => netlink.set_address(link, address, present),
        }
    }

    /// Whether Linux has it so already, as far as was seen last.
    fn is_done(self, seen: &Seen) -> bool {
        match self {
            Step::State(up) => seen.up == up,
            Step::Mtu(mtu) => seen.mtu == u32::from(mtu),
            Step::Mac(mac) => seen.mac == mac,
            Step::Address(address, present) => is_seen(seen, address) == present,
        }
    }

    /// It was done.
    fn note(self, seen: &mut Seen) {
        match self {
            Step::State(up) => seen.up = up,
            Step::Mtu(mtu) => seen.mtu = mtu.into(),
            Step::Mac(mac) => seen.mac = mac,
            Step::Address(Prefix::V6(address), present) if address.address().is_unicast_link_local() => {
                match present {
                    true => seen.link_locals.insert(address.address()),
                    false => seen.link_locals.remove(&address.address()),
                };
            }
            Step::Address(address, true) => drop(seen.addresses.insert(address)),
            Step::Address(address, false) => drop(seen.addresses.remove(&address)),
        }
    }

    fn what(self) -> String {
        match self {
            Step::State(up) => format!("going {}", if up { "up" } else { "down" }),
            Step::Mtu(mtu) => format!("the MTU {mtu}"),
            Step::Mac(mac) => format!("the Ethernet address {mac}"),
            Step::Address(address, true) => format!("the address {address}"),
            Step::Address(address, false) => format!("no address {address}"),
        }
    }
}

fn is_seen(seen: &Seen, address: Prefix) -> bool {
    match address {
        Prefix::V6(one) if one.address().is_unicast_link_local() => seen.link_locals.contains(&one.address()),
        _ => seen.addresses.contains(&address),
    }
}

/// Finds the side in Linux of a pair that was made just now, and has it follow. Of one that was there before, only what
/// it always has from the router does.
pub fn begin(router: &mut Router, phy: InterfaceIndex, was_there: bool) {
    let Some(Pair { host, namespace, link, .. }) = router.state::<Pairs>().of(phy).cloned() else { return };
    // A plan has no side in Linux.
    if router.devices() == Devices::DryRun {
        return;
    }
    let pairs = router.state_mut::<Pairs>();
    if link.is_none() {
        let asked = pairs.netlink(namespace.as_deref());
        match asked.and_then(|netlink| netlink.find(&host).map_err(|error| error.to_string())) {
            Ok(link) => pairs.set_link(phy, link),
            Err(error) => return refused(&host, "being found", error),
        }
    }
    carrier(router, phy);
    if was_there {
        // The address that others know stays, unless an operator wants another.
        if let Some(mac) = router.interfaces.get(phy).ok().and_then(|interface| interface.stated_mac) {
            take(router, phy, &[Step::Mac(mac)]);
        }
        return;
    }
    // What it has now is what it has from the router.
    look_now(router, phy);
    // A TAP was made so. A VLAN link has what the link below has.
    if let Ok(&Interface { mac, mtu, .. }) = router.interfaces.get(phy) {
        take(router, phy, &[Step::Mac(mac), Step::Mtu(mtu)]);
    }
    if router.state::<Pairs>().is_synchronous() {
        all(router, phy);
        vrf::sync_if_free(router, phy);
    }
}

fn pairs_look(router: &mut Router, phy: InterfaceIndex) -> Seen {
    let pairs = router.state_mut::<Pairs>();
    let Some(Pair { namespace, link: Some(link), .. }) = pairs.of(phy).cloned() else { return Seen::default() };
    pairs.netlink(namespace.as_deref()).ok().and_then(|netlink| netlink.look(link).ok()).unwrap_or_default()
}

/// All that the router's interface has, for a side in Linux that did not follow before.
pub fn all(router: &mut Router, phy: InterfaceIndex) {
    let Ok(interface) = router.interfaces.get(phy) else { return };
    let mut steps = vec![Step::Mtu(interface.mtu)];
    steps.extend(addresses_of(interface));
    steps.push(Step::State(interface.admin_up));
    take(router, phy, &steps);
    borrowed(router, phy);
}

/// The addresses alone.
pub fn addresses(router: &mut Router, phy: InterfaceIndex) {
    if !router.state::<Pairs>().is_synchronous() {
        return;
    }
    let Ok(interface) = router.interfaces.get(phy) else { return };
    let steps: Vec<Step> = addresses_of(interface).collect();
    take(router, phy, &steps);
}

fn addresses_of(interface: &Interface) -> impl Iterator<Item = Step> {
    let addresses = interface.addresses.iter().map(|address| Prefix::from(*address));
    let addresses = addresses.chain(interface.ip6.addresses.iter().map(|address| Prefix::from(*address)));
    addresses.map(|address| Step::Address(address, true))
}

/// Where operators want it, a side in Linux has the addresses that the router's interface borrows, without their
/// networks; and no longer those that it borrowed.
pub fn borrowed(router: &mut Router, phy: InterfaceIndex) {
    let pairs = router.state::<Pairs>();
    let Some(pair) = pairs.of(phy) else { return };
    let is_wanted = pairs.is_synchronous() && pairs.params.is_on(Param::SyncUnnumbered);
    let lender = router.interfaces.get(phy).ok().and_then(|interface| interface.lender).filter(|_| is_wanted);
    let lender = lender.and_then(|lender| router.interfaces.get(lender).ok());
    let addresses = lender.into_iter().flat_map(|lender| &lender.addresses);
    let wanted: BTreeSet<Prefix> = addresses.map(|address| Prefix::host(address.address().into())).collect();
    let gone = pair.borrowed.difference(&wanted).map(|address| Step::Address(*address, false));
    let steps: Vec<Step> = gone.chain(wanted.iter().map(|address| Step::Address(*address, true))).collect();
    take(router, phy, &steps);
    if let Some(pair) = router.state_mut::<Pairs>().by_phy.get_mut(&phy) {
        pair.borrowed = wanted;
    }
}

/// Those that borrow the addresses of an interface.
fn lent(router: &mut Router, lender: InterfaceIndex) {
    let borrows = |pair: &&Pair| router.interfaces.get(pair.phy).is_ok_and(|it| it.lender == Some(lender));
    let all: Vec<InterfaceIndex> = router.state::<Pairs>().iter().filter(borrows).map(|pair| pair.phy).collect();
    all.into_iter().for_each(|phy| borrowed(router, phy));
}

/// What Linux has now is known.
fn look_now(router: &mut Router, phy: InterfaceIndex) {
    let seen = pairs_look(router, phy);
    router.state_mut::<Pairs>().set_seen(phy, seen);
}

/// An interface changed.
pub fn hears(router: &mut Router, notice: &Notice) {
    let is_synchronous = router.state::<Pairs>().is_synchronous();
    let (phy, step) = match *notice {
        Notice::LinkState { interface, .. } => return carrier(router, interface),
        Notice::Mac(interface) => {
            // A VLAN link has had the new one of the link below already, until it is given one of its own.
            if router.state::<Pairs>().of(interface).is_some_and(|pair| pair.vlan.is_some()) {
                let mac = pairs_look(router, interface).mac;
                router.state_mut::<Pairs>().set_seen_mac(interface, mac);
            }
            match router.interfaces.get(interface) {
                Ok(known) => (interface, Step::Mac(known.mac)),
                Err(_) => return,
            }
        }
        Notice::Lender(interface) => return borrowed(router, interface),
        _ if !is_synchronous => return,
        // Linux has taken IPv6 addresses from an interface that went down.
        Notice::AdminState { interface, up: true } => return all(router, interface),
        Notice::AdminState { interface, up } => (interface, Step::State(up)),
        Notice::TableStated(interface) => return vrf::sync(router, interface),
        Notice::Mtu(interface) => match router.interfaces.get(interface) {
            Ok(known) => (interface, Step::Mtu(known.mtu)),
            Err(_) => return,
        },
        Notice::AddressAdded { interface, address } => {
            lent(router, interface);
            (interface, Step::Address(address, true))
        }
        Notice::AddressRemoved { interface, address } => {
            lent(router, interface);
            (interface, Step::Address(address, false))
        }
        _ => return,
    };
    take(router, phy, &[step]);
}

/// Linux sees a carrier when the router's interface has one.
fn carrier(router: &mut Router, phy: InterfaceIndex) {
    // A VLAN link has that of the link below.
    let Some(pair) = router.state::<Pairs>().of(phy).filter(|pair| pair.vlan.is_none()) else { return };
    let (tap, host) = (pair.tap, pair.host.clone());
    let Ok(up) = router.interfaces.get(phy).map(|interface| interface.link.is_up()) else { return };
    let Ok(interface) = router.interfaces.get_mut(tap) else { return };
    if let Err(error) = interface.link.set_carrier(up) {
        refused(&host, if up { "a carrier" } else { "no carrier" }, error);
    }
}

/// Carries out changes on the side in Linux, if the interface has one.
fn take(router: &mut Router, phy: InterfaceIndex, steps: &[Step]) {
    let pairs = router.state_mut::<Pairs>();
    let Some(Pair { host, namespace, link: Some(link), mut seen, vlan, .. }) = pairs.of(phy).cloned() else { return };
    // Linux refuses a VLAN link more than the link below has.
    let is_tap = vlan.is_none();
    let below = vlan.and_then(|vlan| pairs.of(vlan.parent)).map_or(u32::MAX, |below| below.seen.mtu);
    let fitting = |step: &Step| match *step {
        Step::Mtu(mtu) if u32::from(mtu) > below => Step::Mtu(below as u16),
        step => step,
    };
    let steps: Vec<Step> = steps.iter().map(fitting).filter(|step| !step.is_done(&seen)).collect();
    if steps.is_empty() {
        return;
    }
    match pairs.netlink(namespace.as_deref()) {
        Ok(netlink) => {
            for step in &steps {
                match step.take(netlink, link) {
                    Ok(()) => step.note(&mut seen),
                    Err(error) => refused(&host, &step.what(), error),
                }
            }
        }
        Err(error) => refused(&host, "any change", error),
    }
    pairs.set_seen(phy, seen);
    ways::update(router, phy);
    // Whether a TAP's side is up is known at once, and not when links are looked at next.
    if is_tap && steps.iter().any(|step| matches!(step, Step::State(_))) {
        router.check_links();
    }
}

fn refused(host: &str, what: &str, error: impl Display) {
    log::warn!("Linux refuses {host} {what}: {error}");
}
