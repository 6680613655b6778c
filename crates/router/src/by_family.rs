//! One value for IPv4 and one for IPv6.

use std::ops::{Index, IndexMut};
use wire::Family;

/// One value for each family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ByFamily<T> {
    pub ip4: T,
    pub ip6: T,
}

impl<T> Index<Family> for ByFamily<T> {
    type Output = T;

    fn index(&self, family: Family) -> &T {
        match family {
            Family::Ip4 => &self.ip4,
            Family::Ip6 => &self.ip6,
        }
    }
}

impl<T> IndexMut<Family> for ByFamily<T> {
    fn index_mut(&mut self, family: Family) -> &mut T {
        match family {
            Family::Ip4 => &mut self.ip4,
            Family::Ip6 => &mut self.ip6,
        }
    }
}
