//! Whether the router has what Linux has. The audit reads all of Linux anew, on a socket of its own, so it finds what
//! the reader may have missed.

use crate::follow::{Counts, Namespace, Order, Settings, Space};
use crate::kernel::{Kernel, Key};
use crate::netlink::request::Seen;
use crate::netlink::route::TABLE_MAIN;
use crate::params::Param;
use crate::state::{Pair, Pairs};
use crate::{followed, from_linux, vrf};
use graph::InterfaceIndex;
use router::Router;
use router::ip::dump::RouteDump;
use router::ip::route::{Path, Source, TableIndex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::{Family, Prefix};

/// Linux answers at once. A million routes take some seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// When Linux has no time to answer, it is asked again after this time.
const RETRY: Duration = Duration::from_millis(5);
/// Differences that are named; the others are counted.
const NAMED: usize = 1000;

/// What differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Linux has it, and the router does not.
    Missing,
    /// The router has it, and Linux does not.
    Stale,
    /// Both have it, and it leads elsewhere.
    Differs,
}

#[derive(Debug, Serialize)]
pub struct Difference {
    pub what: What,
    /// A route, or an address with its interface.
    pub of: String,
}

/// The result of an audit.
#[derive(Debug, Default, Serialize)]
pub struct Audit {
    /// The namespace whose routes are the router's; none: the router's own.
    pub namespace: Namespace,
    /// Prefixes that Linux has routes for by interfaces of the router.
    pub routes: usize,
    pub addresses: usize,
    /// How many differences there are.
    pub differences: usize,
    pub named: Vec<Difference>,
    #[serde(skip)]
    differing: Vec<Key>,
}

impl Audit {
    fn add(&mut self, what: What, of: impl FnOnce() -> String) {
        self.differences += 1;
        if self.named.len() < NAMED {
            self.named.push(Difference { what, of: of() });
        }
    }
}

/// Compares. Other clients are answered meanwhile.
///
/// # Errors
/// When Linux cannot be read.
pub fn audit(router: &mut Router) -> Result<Audit, String> {
    let pairs = router.state::<Pairs>();
    let mut audit = Audit::default();
    if let Some(namespace) = pairs.routes_of.clone() {
        audit.namespace.clone_from(&namespace);
        let (settings, followed) = (Settings::default(), followed::all(router));
        let pairs = router.state::<Pairs>();
        let no_paths = pairs.params.is_on(Param::RouteNoPaths);
        let is_its = |pair: &&Pair| pair.namespace == namespace;
        let links = pairs.iter().filter(is_its).filter_map(|pair| Some((pair.link?, pair.phy))).collect();
        let read = || -> Result<Kernel, String> {
            let space = Space::open(namespace, true, settings, Arc::new(Counts::default()));
            let mut space = space.map_err(|error| error.to_string())?;
            space.links = links;
            space.kernel.follow(&followed);
            space.kernel.set_no_paths(no_paths);
            read(&mut space).map_err(|error| error.to_string())?;
            Ok(space.into_kernel())
        };
        let kernel = router.aside(read)?;
        followed::all(router).into_iter().for_each(|place| routes(router, &kernel, place, &mut audit));
        router.aside(|| drop(kernel));
    }
    addresses(router, &mut audit);
    Ok(audit)
}

/// Sets right what an audit found.
pub fn repair(router: &mut Router, audit: &Audit) {
    if audit.differences == 0 {
        return;
    }
    let pairs = router.state_mut::<Pairs>();
    if let Some(reader) = &pairs.reader {
        reader.order(Order::Again { namespace: audit.namespace.clone(), prefixes: audit.differing.clone() });
        reader.order(Order::Look);
    }
    // What its links have is compared with what the router has.
    let phys: Vec<InterfaceIndex> = pairs.by_phy.keys().copied().collect();
    vrf::settle_all(router, phys.clone());
    for phy in phys {
        let Ok(interface) = router.interfaces.get(phy) else { continue };
        let addresses = interface.found.iter().filter(|address| !router.is_kept(phy, **address)).copied().collect();
        let link_locals = interface.ip6.found_link_local.into_iter().collect();
        let Some(before) = router.state::<Pairs>().of(phy).map(|pair| pair.seen.clone()) else { continue };
        let seen = Seen { addresses, link_locals, ..before };
        router.state_mut::<Pairs>().set_seen(phy, seen);
    }
}

/// Reads until all was looked at.
fn read(space: &mut Space) -> std::io::Result<()> {
    let (mut buffer, began) = (vec![0; Space::DATAGRAM], Instant::now());
    while space.read(&mut buffer)? || !space.is_settled() {
        let left = PATIENCE.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        let left = if space.retry { RETRY } else { left };
        let until = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ };
        poll(&mut [PollFd::new(space.subscription(), PollFlags::IN)], Some(&until))?;
    }
    Ok(())
}

type Place = ((u32, Family), TableIndex);

fn routes(router: &mut Router, kernel: &Kernel, ((table, family), index): Place, audit: &mut Audit) {
    let is_its = |pair: &&Pair| pair.namespace == audit.namespace;
    let pairs = router.state::<Pairs>().iter().filter(is_its);
    let links = pairs.filter_map(|pair| Some((pair.link?, pair.phy))).collect();
    let wanted = kernel.wanted(table, family, &links);
    // First what the router has, and then what it should have.
    let mut dump = RouteDump::of(family, router.ip.id_of(index));
    let mut found = Vec::new();
    while dump.page(router, |route| {
        if let Some(paths) = route.paths(Source::Linux) {
            found.push((route.prefix, wanted.paths(route.prefix).map(|wanted| is_same(wanted, paths))));
        }
    }) {
        for (prefix, is_same) in found.drain(..) {
            let what = match is_same {
                Some(true) => continue,
                Some(false) => What::Differs,
                None => What::Stale,
            };
            audit.differing.push((table, prefix));
            audit.add(what, || named(table, prefix));
        }
        router.breathe();
    }
    for prefix in wanted.prefixes() {
        if wanted.paths(prefix).is_none() {
            continue;
        }
        audit.routes += 1;
        let routes = router.ip.routes_in(family, index);
        if routes.get(prefix).is_none_or(|route| !route.sources.contains_key(&Source::Linux)) {
            audit.differing.push((table, prefix));
            audit.add(What::Missing, || named(table, prefix));
        }
        router.breathe();
    }
}

fn named(table: u32, prefix: Prefix) -> String {
    match table {
        TABLE_MAIN => format!("route {prefix}"),
        table => format!("route {prefix} of table {table}"),
    }
}

/// Whether two lists of paths are the same, in whatever order.
fn is_same(one: &[Path], other: &[Path]) -> bool {
    one.len() == other.len() && one.iter().all(|path| other.contains(path))
}

fn addresses(router: &mut Router, audit: &mut Audit) {
    let pairs: Vec<Pair> = router.state::<Pairs>().iter().cloned().collect();
    for pair in pairs {
        let Pair { phy, link, namespace, .. } = &pair;
        let (phy, link) = (*phy, *link);
        let Some(link) = link else { continue };
        let look = router.state_mut::<Pairs>().netlink(namespace.as_deref());
        let Some(seen) = look.ok().and_then(|netlink| netlink.look(link).ok()) else { continue };
        let Ok(interface) = router.interfaces.get(phy) else { continue };
        let has: Vec<Prefix> = Family::ALL.into_iter().flat_map(|family| interface.networks(family)).collect();
        let vrf = Pair { seen: seen.clone(), ..pair.clone() };
        if !vrf::is_settled(router, &vrf) {
            audit.add(What::Differs, || format!("the VRF of {}", interface.name));
        }
        audit.addresses += seen.addresses.len();
        let is_missing = |address: &&Prefix| !has.contains(address) && !from_linux::is_borrowed(router, phy, **address);
        for address in seen.addresses.iter().filter(is_missing) {
            audit.add(What::Missing, || format!("address {address} of {}", interface.name));
        }
        let is_stale = |address: &&Prefix| !seen.addresses.contains(address) && !router.is_kept(phy, **address);
        for address in interface.found.iter().filter(is_stale) {
            audit.add(What::Stale, || format!("address {address} of {}", interface.name));
        }
        router.breathe();
    }
}
