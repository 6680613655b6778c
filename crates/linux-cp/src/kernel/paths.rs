//! Paths of the router for targets of Linux.

use super::{Kernel, Links, Table};
use crate::netlink::next_hop::NextHop;
use crate::netlink::route::{Hop, Target};
use router::ip::control::join_paths;
use router::ip::labels::out::Stated;
use router::ip::route::{MAX_PATHS, Path, PathAction, TableIndex};
use std::collections::HashMap;
use wire::{Family, Prefix};

/// The routes that the router should have of one family in one table.
pub struct Wanted<'a> {
    table: Option<&'a Table>,
    family: Family,
    /// By their targets.
    paths: HashMap<u32, Vec<Path>>,
}

impl Wanted<'_> {
    /// The paths of a prefix; none: it should have none.
    pub fn paths(&self, prefix: Prefix) -> Option<&[Path]> {
        let paths = self.paths.get(&self.table?.forwards(prefix)?)?;
        Some(paths)
    }

    /// All prefixes that Linux has routes for.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + '_ {
        self.table.into_iter().flat_map(|table| table.prefixes(self.family))
    }
}

impl Kernel {
    /// What the router should have of a table that is followed, for a comparison.
    pub fn wanted(&self, table: u32, family: Family, links: &Links) -> Wanted<'_> {
        let own = (self.followed.get(&(table, family)).copied().unwrap_or_default(), family);
        let joined = |target: u32| join_paths(Vec::new(), self.paths(target, links, own));
        let paths = self.targets.iter().map(|(target, _)| (target, joined(target)));
        let paths = paths.filter(|(_, paths)| !paths.is_empty()).collect();
        Wanted { table: self.tables.get(&table), family, paths }
    }

    /// What the router does for a target of routes in a table. Ways by interfaces that are not the router's are none.
    pub(super) fn paths(&self, target: u32, links: &Links, own: (TableIndex, Family)) -> Vec<Path> {
        let hops: Vec<(&Hop, u32)> = match self.targets.get(target) {
            Some(Target::Hops(hops)) => hops.iter().map(|hop| (hop, u32::from(hop.weight))).collect(),
            Some(Target::Object(id)) => match self.objects.get(id) {
                Some(NextHop::Drop) => return vec![Path::new(PathAction::Drop)],
                _ => self.hops_of(*id),
            },
            Some(Target::Drop) => return vec![Path::new(PathAction::Drop)],
            Some(Target::Connected(link)) if self.no_paths && !links.contains_key(link) => return vec![to_linux()],
            Some(Target::Connected(_)) => return Vec::new(),
            Some(Target::Unreachable) => return vec![Path::new(PathAction::Unreachable)],
            Some(Target::Prohibit) => return vec![Path::new(PathAction::Prohibit)],
            None => return Vec::new(),
        };
        let most = hops.iter().map(|(_, weight)| *weight).max().unwrap_or(1);
        let scaled = |weight: u32| if most > 255 { (weight * 255 / most).max(1) as u8 } else { weight as u8 };
        let is_there = !hops.is_empty();
        let paths = hops.into_iter().filter_map(|(hop, weight)| self.path(hop, scaled(weight), links, own));
        let paths: Vec<Path> = paths.take(MAX_PATHS).collect();
        // Linux has a way.
        if self.no_paths && is_there && paths.is_empty() { vec![to_linux()] } else { paths }
    }

    /// The ways of an object, with their weights. A group within a group is no way.
    pub(super) fn hops_of(&self, id: u32) -> Vec<(&Hop, u32)> {
        let hop = |id: &u32| match self.objects.get(id) {
            Some(NextHop::Hop(hop)) => Some(hop),
            _ => None,
        };
        match self.objects.get(&id) {
            Some(NextHop::Group(all)) => {
                all.iter().filter_map(|(id, weight)| Some((hop(id)?, u32::from(*weight)))).collect()
            }
            _ => hop(&id).into_iter().map(|hop| (hop, 1)).collect(),
        }
    }

    fn path(&self, hop: &Hop, weight: u8, links: &Links, own: (TableIndex, Family)) -> Option<Path> {
        match self.vrfs.get(&hop.link) {
            Some(table) => self.by_vrf(hop, *table, own).map(|way| Path::weighing(way, weight)),
            None => path(hop, weight, links),
        }
    }

    /// A way by the device of a VRF: what its table says of the packet, or of the gateway.
    fn by_vrf(&self, hop: &Hop, table: u32, (own, family): (TableIndex, Family)) -> Option<PathAction> {
        let into = |family: Family| self.followed.get(&(table, family)).copied();
        match hop.gateway {
            _ if !hop.labels.is_empty() => None,
            Some(next_hop) => Some(PathAction::ViaIn { next_hop, table: into(Family::of(next_hop))? }),
            // Not in circles.
            None => into(family).filter(|table| *table != own).map(PathAction::Lookup),
        }
    }
}

/// Packets go to Linux, as those to the router itself do.
fn to_linux() -> Path {
    Path::new(PathAction::LocalAnywhere)
}

fn path(hop: &Hop, weight: u8, links: &Links) -> Option<Path> {
    let interface = *links.get(&hop.link)?;
    let way = match hop.gateway {
        Some(next_hop) if hop.on_link => PathAction::OnLink { next_hop, interface },
        Some(next_hop) => PathAction::Via { next_hop, interface: Some(interface) },
        // Labels need a neighbour to send them to.
        None if !hop.labels.is_empty() => return None,
        None => PathAction::Attached(interface),
    };
    // A time to live is that of labels.
    let ttl = hop.ttl.filter(|_| !hop.labels.is_empty());
    let labels = Stated { labels: hop.labels.clone(), ttl, ..Stated::default() };
    Some(Path { labels: labels.shared(), ..Path::weighing(way, weight) })
}
