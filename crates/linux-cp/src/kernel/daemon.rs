//! Routes as a routing daemon says them, without Linux between: each is the only one of its prefix.

use super::prefixes::Place;
use super::{Kernel, Key, Links, in_family};
use crate::netlink::route::{self, NotFollowed, Route, Target};
use wire::Prefix;

impl Kernel {
    /// A route that is the only one of its prefix, as a routing daemon says it: without others behind it. Gives the
    /// prefix.
    ///
    /// # Errors
    /// When it is malformed, or of a kind that is not followed: one takes the place of one that was.
    pub fn put_alone(&mut self, payload: &[u8]) -> Result<Key, NotFollowed> {
        let route = match route::parse(payload) {
            // It follows from an address.
            Ok(Route { target: Target::Connected(_), .. }) => {
                return self.remove_all(payload).and(Err(NotFollowed::Other));
            }
            Ok(route) => route,
            Err(NotFollowed::Other) => return self.remove_all(payload).and(Err(NotFollowed::Other)),
            Err(malformed) => return Err(malformed),
        };
        let Route { table, prefix, metric, .. } = route;
        let target = self.targets.hold(&route.target);
        let known = self.tables.entry(table).or_default();
        let others = in_family!(known, prefix, known, key => {
            known.remove_where(key, |entry, _| entry.metric != metric)
        });
        let mut changed = in_family!(known, prefix, known, key => known.add(key, metric, target, Place::ReplacesAll));
        changed.gone.extend(others.gone);
        // Who says it again wants to hear of it again.
        changed.forwarding_changed = true;
        self.note(table, prefix, changed);
        Ok((table, prefix))
    }

    /// All routes of the prefix of a message are gone. Gives the prefix.
    ///
    /// # Errors
    /// When the message is about none.
    pub fn remove_all(&mut self, payload: &[u8]) -> Result<Key, NotFollowed> {
        let (table, prefix, _) = route::key(payload).ok_or(NotFollowed::Malformed)?;
        let Some(known) = self.tables.get_mut(&table) else { return Ok((table, prefix)) };
        let changed = in_family!(known, prefix, known, key => known.remove_where(key, |_, _| true));
        self.note(table, prefix, changed);
        Ok((table, prefix))
    }

    /// All prefixes of tables that are followed, and those that went and the router has not heard of.
    pub fn all(&self) -> Vec<Key> {
        let mut all = Vec::new();
        for ((table, _), waiting) in &self.waiting {
            all.extend(waiting.prefixes.iter().map(|prefix| (*table, *prefix)));
        }
        for (table, family) in self.followed.keys() {
            let known = self.tables.get(table).into_iter().flat_map(|known| known.prefixes(*family));
            all.extend(known.map(|prefix| (*table, prefix)));
        }
        all
    }

    /// Whether there is a route for a prefix.
    pub fn has(&self, (table, prefix): Key) -> bool {
        self.tables.get(&table).is_some_and(|table| table.forwards(prefix).is_some())
    }

    /// Whether the route of a prefix has a way for the router.
    pub fn leads(&self, (table, prefix): Key, links: &Links) -> bool {
        let family = prefix.family();
        let Some(own) = self.followed.get(&(table, family)) else { return false };
        let target = self.tables.get(&table).and_then(|table| table.forwards(prefix));
        target.is_some_and(|target| !self.paths(target, links, (*own, family)).is_empty())
    }
}
