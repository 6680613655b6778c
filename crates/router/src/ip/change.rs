//! Changes of routes as operators and programs state them: of one prefix or of some side by side, checked in full, and
//! carried out for all of them or none. Commands, an API and files so cannot differ in what they refuse.

use super::labels::control::check_labels;
use super::next_hop::NextHopError;
use super::route::{Path, Route, RouteError, Source, TableIndex};
use crate::{Error, Router, check_memory};
use std::net::IpAddr;
use wire::{Family, Prefix};

/// What is to become of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// They join the route's paths.
    Add,
    /// They are the route's only paths from now on.
    Replace,
    /// They leave the route; without paths the whole route goes.
    Remove,
}

/// A path as it is stated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedPath {
    pub path: Path,
    /// The next hop need not be on a network of the router yet.
    pub may_be_off_link: bool,
}

/// The paths alone.
pub fn paths_of(stated: &[StatedPath]) -> Vec<Path> {
    stated.iter().map(|stated| stated.path.clone()).collect()
}

/// A change of routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteChange {
    pub verb: Verb,
    pub source: Source,
    pub table: TableIndex,
    pub first: Prefix,
    /// As many prefixes of the first one's length side by side, from 1 on.
    pub count: u32,
    pub paths: Vec<StatedPath>,
}

impl Router {
    /// Carries out a change of routes.
    ///
    /// # Errors
    /// When a path cannot be as stated, there are not so many prefixes, or one of them cannot be changed; then nothing
    /// has changed.
    pub fn state_routes(&mut self, change: &RouteChange) -> Result<(), Error> {
        change.paths.iter().try_for_each(|stated| self.check_stated(change, stated))?;
        let RouteChange { first, count, .. } = *change;
        let prefixes = side_by_side(first, count).ok_or(RouteError::TooFewAddresses { first, count })?;
        let paths = paths_of(&change.paths);
        self.operation(|router| match count {
            1 => router.state_route(change, first, &paths),
            _ => router.state_each(change, prefixes, &paths),
        })?;
        if change.source == Source::Config && change.verb != Verb::Remove {
            let into = paths.iter().filter_map(|path| path.way.table_of(Some(first.family()), change.table));
            into.chain([(first.family(), change.table)]).for_each(|(family, table)| self.has_stated(family, table));
        }
        Ok(())
    }

    fn check_stated(&self, change: &RouteChange, stated: &StatedPath) -> Result<(), Error> {
        let path = &stated.path;
        // RFC 4798: labels carry either family to next hops of either.
        if let Some(hop) = path.way.next_hop().filter(|hop| Family::of(*hop) != change.first.family())
            && path.labels.is_none()
        {
            return Err(NextHopError::OtherFamily { hop, prefix: change.first }.into());
        }
        if change.verb != Verb::Remove {
            check_labels(path)?;
            self.check_next_hop_of(change.table, path, stated.may_be_off_link)?;
        }
        Ok(())
    }

    fn state_route(&mut self, change: &RouteChange, prefix: Prefix, paths: &[Path]) -> Result<(), Error> {
        let RouteChange { verb, source, table, .. } = *change;
        match verb {
            Verb::Add | Verb::Replace => {
                check_memory()?;
                self.add_route_in(table, prefix, source, paths.to_vec(), verb == Verb::Replace)
            }
            Verb::Remove => self.remove_route_in(table, prefix, source, paths),
        }
    }

    fn state_each(
        &mut self,
        change: &RouteChange,
        prefixes: impl Iterator<Item = Prefix>,
        paths: &[Path],
    ) -> Result<(), Error> {
        let mut done: Vec<(Prefix, Option<Route>)> = Vec::new();
        for prefix in prefixes {
            self.breathe();
            let was = self.ip.routes_in(prefix.family(), change.table).get(prefix);
            match self.state_route(change, prefix, paths) {
                Ok(()) => done.push((prefix, was)),
                Err(error) => {
                    self.take_back(change, done);
                    return Err(error);
                }
            }
        }
        self.aside(|| drop(done));
        Ok(())
    }

    fn take_back(&mut self, change: &RouteChange, done: Vec<(Prefix, Option<Route>)>) {
        let RouteChange { source, table, .. } = *change;
        for (prefix, was) in done.into_iter().rev() {
            self.breathe();
            let paths = was.and_then(|mut route| route.sources.remove(&source));
            let result = match paths {
                Some(paths) => self.restore_route(table, prefix, source, paths),
                None => self.remove_route_in(table, prefix, source, &[]),
            };
            if let Err(error) = result {
                log::error!("route {prefix} is not as it was: {error}");
            }
        }
    }
}

/// As many prefixes of the length of the first one; none when there are not so many.
fn side_by_side(first: Prefix, count: u32) -> Option<impl Iterator<Item = Prefix>> {
    let begin = match first.first() {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => address.into(),
    };
    let (family, length) = (first.family(), first.length());
    let bits = u32::from(family.max_length());
    // Of the default route there is one.
    let step = match count {
        1 => 0,
        _ => 1u128.checked_shl(bits - u32::from(length))?,
    };
    let last = step.checked_mul(u128::from(count.checked_sub(1)?)).and_then(|more| begin.checked_add(more))?;
    if last > u128::MAX.unbounded_shr(128 - bits) {
        return None;
    }
    let address = move |number: u32| match (family, begin + step * u128::from(number)) {
        (Family::Ip4, address) => IpAddr::from((address as u32).to_be_bytes()),
        (Family::Ip6, address) => IpAddr::from(address.to_be_bytes()),
    };
    Some((0..count).map(move |number| Prefix::new(address(number), length).expect("the length is the first one's")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_of(first: &str, count: u32) -> Option<Vec<String>> {
        side_by_side(first.parse().unwrap(), count).map(|all| all.map(|prefix| prefix.to_string()).collect())
    }

    #[test]
    fn prefixes_lie_side_by_side_and_end_where_addresses_do() {
        assert_eq!(count_of("10.0.0.0/24", 2).unwrap(), ["10.0.0.0/24", "10.0.1.0/24"]);
        assert_eq!(count_of("255.255.255.254/32", 2).unwrap().len(), 2);
        assert_eq!(count_of("255.255.255.254/32", 3), None);
        assert_eq!(count_of("0.0.0.0/0", 1).unwrap(), ["0.0.0.0/0"]);
        assert_eq!(count_of("0.0.0.0/0", 2), None);
        assert_eq!(count_of("::/0", 1).unwrap(), ["::/0"]);
        assert_eq!(count_of("::/0", 2), None);
        assert_eq!(count_of("ffff:ffff::/32", 2), None);
        assert_eq!(count_of("2001:db8::/32", 0), None);
    }
}
