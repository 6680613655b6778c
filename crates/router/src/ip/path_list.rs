//! Path lists, each stored once for all the prefixes that share it. All prefixes of a list follow the leaf to which the
//! list resolves. When a next hop moves, only the list's forwarding object changes, and not a million routes. A few
//! lists with the same paths (*variants*) may spread flows differently: they belong to prefixes that had other paths
//! before and whose flows should stay on their paths ([`super::balance`]).

use super::balance::Spread;
use super::route::{Hop, LabelTableIndex, Path, TableIndex};
use crate::ip::labels::key::{LabelAction, LabelKey};
use graph::InterfaceIndex;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;
use tables::Leaf;
use wire::{Family, Prefix};

/// A list records its prefixes by name up to this many. The prefixes of a larger list are found by a search through
/// all.
const FEW: usize = 64;

/// The most routes, one through the other, by which a next hop may be reached. All of them are checked whenever one
/// changes, and no sensible configuration needs more.
pub const MOST_IN_TURN: u8 = 16;

/// The number of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListId(pub u32);

/// The properties by which two lists are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListKey {
    pub of: Of,
    /// The table in which next hops are looked up.
    pub table: TableIndex,
    /// The host for a path onto an interface, when the prefix is that of a host.
    pub host: Option<IpAddr>,
    /// Whether the list itself holds next hops on the link, and does not depend on routes that do.
    pub holds_itself: bool,
    pub paths: Arc<[Path]>,
}

/// What uses a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Of {
    /// Prefixes of a family.
    Prefixes(Family),
    /// Labels of a table, at the bottom of stacks or above others.
    Labels { table: LabelTableIndex, is_bottom: bool },
    /// A tunnel, whose paths the routes onto it take over.
    Tunnel(InterfaceIndex),
    /// Headers of a family that interfaces put in front of packets: where their destination is.
    Underlay(Family),
}

impl Of {
    pub fn family(self) -> Option<Family> {
        match self {
            Of::Prefixes(family) | Of::Underlay(family) => Some(family),
            Of::Labels { .. } | Of::Tunnel(_) => None,
        }
    }
}

/// One user of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum User {
    Prefix(Prefix),
    Label(LabelKey),
    Tunnel(InterfaceIndex),
}

impl User {
    pub fn prefix(&self) -> Option<Prefix> {
        match *self {
            User::Prefix(prefix) => Some(prefix),
            User::Label(_) | User::Tunnel(_) => None,
        }
    }

    pub fn label(&self) -> Option<LabelKey> {
        match *self {
            User::Label(key) => Some(key),
            User::Prefix(_) | User::Tunnel(_) => None,
        }
    }
}

impl From<Prefix> for User {
    fn from(prefix: Prefix) -> User {
        User::Prefix(prefix)
    }
}

impl From<LabelKey> for User {
    fn from(key: LabelKey) -> User {
        User::Label(key)
    }
}

/// The same without ownership, to look for a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListRef<'a> {
    pub of: Of,
    pub table: TableIndex,
    pub host: Option<IpAddr>,
    pub holds_itself: bool,
    pub paths: &'a [Path],
}

impl ListKey {
    pub fn as_ref(&self) -> ListRef<'_> {
        let ListKey { of, table, host, holds_itself, ref paths } = *self;
        ListRef { of, table, host, holds_itself, paths }
    }
}

impl ListRef<'_> {
    pub fn to_key(self) -> ListKey {
        let ListRef { of, table, host, holds_itself, paths } = self;
        ListKey { of, table, host, holds_itself, paths: paths.into() }
    }
}

/// Which prefixes or labels use a list.
#[derive(Debug)]
enum Users {
    Few(Vec<User>),
    Many(usize),
}

/// One list.
#[derive(Debug)]
pub struct PathList {
    pub key: ListKey,
    users: Users,
    /// The single paths that the list leads to at present, with their weights. The list holds a reference to each.
    pub members: Vec<(Leaf, f64)>,
    /// The object that spreads flows over these paths, and its buckets, when there are or may be several paths.
    pub balance: Option<(u32, Vec<Leaf>)>,
    /// For labels that are only swapped: the new label, and the leaf that does nothing else.
    pub swap: Option<LabelAction>,
    /// Whether a next hop of the list is on no attached network.
    pub is_recursive: bool,
    /// How many routes, one through the other, reach the list's next hops; at most [`MOST_IN_TURN`] + 1, which means
    /// too many.
    pub in_turn: u8,
    /// Next hops that are resolved through a route with this list.
    pub carries: BTreeSet<Hop>,
}

/// All lists.
#[derive(Default)]
pub struct PathLists {
    lists: Vec<Option<PathList>>,
    /// The leaf of each list. They are stored close together, because millions are read in a row.
    leaves: Vec<Leaf>,
    free: Vec<u32>,
    known: HashTable<ListId>,
    hasher: DefaultHashBuilder,
}

impl PathLists {
    /// The lists with these paths.
    pub fn variants(&self, wanted: &ListRef<'_>) -> impl Iterator<Item = ListId> {
        let alike = self.known.iter_hash(self.hasher.hash_one(wanted)).copied();
        alike.filter(|id| self.get(*id).key.as_ref() == *wanted)
    }

    /// The single paths over which a list spreads flows. A single path takes all flows.
    pub(super) fn spread(&self, id: ListId) -> Spread<'_> {
        let PathList { members, balance, .. } = self.get(id);
        let buckets = match (balance, &members[..]) {
            (Some((_, buckets)), _) => buckets,
            (None, [(leaf, _)]) => std::slice::from_ref(leaf),
            _ => &[],
        };
        Spread { members, buckets }
    }

    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// Adds a list without users that leads nowhere yet. `None` when there are too many.
    pub fn add(&mut self, key: ListKey) -> Option<ListId> {
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.lists.len() == super::entry::MAX_LISTS => return None,
            None => {
                self.lists.push(None);
                self.leaves.push(Leaf::MISS);
                self.lists.len() as u32 - 1
            }
        };
        let hash = self.hasher.hash_one(key.as_ref());
        let list = PathList {
            key,
            users: Users::Few(Vec::new()),
            members: Vec::new(),
            balance: None,
            swap: None,
            is_recursive: false,
            in_turn: 0,
            carries: BTreeSet::new(),
        };
        self.lists[id as usize] = Some(list);
        self.leaves[id as usize] = Leaf::MISS;
        let PathLists { known, lists, hasher, .. } = self;
        let hash_of = |id: &ListId| lists[id.0 as usize].as_ref().map_or(0, |list| hasher.hash_one(list.key.as_ref()));
        known.insert_unique(hash, ListId(id), hash_of);
        Some(ListId(id))
    }

    /// Forgets a list.
    pub fn remove(&mut self, id: ListId) -> Option<PathList> {
        let list = self.lists.get_mut(id.0 as usize)?.take()?;
        let hash = self.hasher.hash_one(list.key.as_ref());
        if let Ok(known) = self.known.find_entry(hash, |known| *known == id) {
            known.remove();
        }
        self.leaves[id.0 as usize] = Leaf::MISS;
        self.free.push(id.0);
        Some(list)
    }

    /// Frees the memory of lists that were removed.
    pub fn trim(&mut self) {
        while self.lists.last().is_some_and(Option::is_none) {
            self.lists.pop();
        }
        let (end, PathLists { lists, leaves, free, known, hasher, .. }) = (self.lists.len(), self);
        leaves.truncate(end);
        free.retain(|id| (*id as usize) < end);
        lists.shrink_to_fit();
        leaves.shrink_to_fit();
        free.shrink_to_fit();
        known.shrink_to_fit(|id| lists[id.0 as usize].as_ref().map_or(0, |list| hasher.hash_one(list.key.as_ref())));
    }

    /// # Panics
    /// When there is no such list. The number of a prefix always names an existing list.
    pub fn get(&self, id: ListId) -> &PathList {
        self.lists[id.0 as usize].as_ref().expect("prefixes name lists that are there")
    }

    pub fn get_mut(&mut self, id: ListId) -> &mut PathList {
        self.lists[id.0 as usize].as_mut().expect("prefixes name lists that are there")
    }

    /// Whether a list with this number exists.
    pub fn is_there(&self, id: ListId) -> bool {
        self.lists.get(id.0 as usize).is_some_and(Option::is_some)
    }

    pub fn iter(&self) -> impl Iterator<Item = (ListId, &PathList)> {
        (0..).zip(&self.lists).filter_map(|(id, list)| Some((ListId(id), list.as_ref()?)))
    }

    /// The leaf that the list's prefixes lead to; MISS while no path works.
    #[inline]
    pub fn leaf(&self, id: ListId) -> Leaf {
        self.leaves.get(id.0 as usize).copied().unwrap_or(Leaf::MISS)
    }

    /// What the list's labels lead to.
    pub fn label_way(&self, id: ListId) -> LabelAction {
        self.get(id).swap.unwrap_or(LabelAction::to(self.leaf(id)))
    }

    pub fn set_leaf(&mut self, id: ListId, leaf: Leaf) {
        self.leaves[id.0 as usize] = leaf;
    }

    #[inline]
    pub fn add_user(&mut self, id: ListId, user: impl FnOnce() -> User) {
        let users = &mut self.get_mut(id).users;
        match users {
            Users::Many(count) => *count += 1,
            Users::Few(all) if all.len() == FEW => *users = Users::Many(FEW + 1),
            Users::Few(all) => all.push(user()),
        }
    }

    /// Removes a user; returns how many are left.
    #[inline]
    pub fn remove_user(&mut self, id: ListId, user: impl FnOnce() -> User) -> usize {
        match &mut self.get_mut(id).users {
            Users::Many(count) => {
                *count -= 1;
                *count
            }
            Users::Few(all) => {
                let user = user();
                if let Some(at) = all.iter().rposition(|known| *known == user) {
                    all.swap_remove(at);
                }
                all.len()
            }
        }
    }
}

impl PathList {
    pub fn users(&self) -> usize {
        match &self.users {
            Users::Few(all) => all.len(),
            Users::Many(count) => *count,
        }
    }

    /// The users of the list, when they are few.
    pub fn few_users(&self) -> Option<&[User]> {
        match &self.users {
            Users::Few(all) => Some(all),
            Users::Many(_) => None,
        }
    }
}
