//! Lists of paths, each kept once however many prefixes share it. What a list resolves to, its leaf, is what all its
//! prefixes lead to: when a next hop moves, the list's forwarding object changes, and not a million routes. Of the
//! same paths there may be a few lists (*variants*) that spread flows differently: those of prefixes that came from
//! other paths, and whose flows are to stay where they were ([`super::balance`]).

use super::balance::Spread;
use super::route::{Hop, LabelTableIndex, Path, TableIndex};
use graph::InterfaceIndex;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;
use tables::{LabelAction, LabelKey, Leaf};
use wire::{Family, Prefix};

/// Prefixes of a list are kept by name up to this many. Those of one with more are found by looking at all.
const FEW: usize = 64;

/// Most routes by which a next hop is reached, one through the other. What is known of them is looked at whenever one
/// changes; nobody means more.
pub const MOST_IN_TURN: u8 = 16;

/// The number of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListId(pub u32);

/// What makes a list the same as another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListKey {
    pub of: Of,
    /// Where next hops are looked for.
    pub table: TableIndex,
    /// The host that a path onto an interface is for, when its prefix is one.
    pub host: Option<IpAddr>,
    /// It holds next hops on the link itself and does not rest on routes that do.
    pub holds_itself: bool,
    pub paths: Arc<[Path]>,
}

/// What has a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Of {
    /// Prefixes of a family.
    Prefixes(Family),
    /// Labels of a table, at the bottom of stacks or above others.
    Labels { table: LabelTableIndex, is_bottom: bool },
    /// A tunnel: what routes that lead onto it take over.
    Tunnel(InterfaceIndex),
}

impl Of {
    pub fn family(self) -> Option<Family> {
        match self {
            Of::Prefixes(family) => Some(family),
            Of::Labels { .. } | Of::Tunnel(_) => None,
        }
    }
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum User {
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

/// The same, to look for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ListRef<'a> {
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
pub(crate) struct PathList {
    pub key: ListKey,
    users: Users,
    /// Single paths it leads to at present, with their weights; of each it has a share.
    pub members: Vec<(Leaf, f64)>,
    /// The object that spreads flows over them, and its buckets, when there are or may be several.
    pub balance: Option<(u32, Vec<Leaf>)>,
    /// Of labels: what they are changed for, and the leaf with which that is all that is done with them.
    pub swap: Option<LabelAction>,
    /// It names a next hop that is on no attached network.
    pub is_recursive: bool,
    /// How many routes, one through the other, its next hops are reached by; more than [`MOST_IN_TURN`] is one more.
    pub in_turn: u8,
    /// Next hops that are resolved through a route with this list.
    pub carries: BTreeSet<Hop>,
}

/// All lists.
#[derive(Default)]
pub(crate) struct PathLists {
    lists: Vec<Option<PathList>>,
    /// Of each list, beside them and close together, for who asks for millions.
    leaves: Vec<Leaf>,
    free: Vec<u32>,
    known: HashTable<ListId>,
    hasher: DefaultHashBuilder,
}

impl PathLists {
    /// The lists of these paths.
    pub fn variants(&self, wanted: &ListRef<'_>) -> impl Iterator<Item = ListId> {
        let alike = self.known.iter_hash(self.hasher.hash_one(wanted)).copied();
        alike.filter(|id| self.get(*id).key.as_ref() == *wanted)
    }

    /// Over which single paths a list spreads flows; one takes them all.
    pub(super) fn spread(&self, id: ListId) -> Spread<'_> {
        let PathList { members, balance, .. } = self.get(id);
        let buckets = match (balance, &members[..]) {
            (Some((_, buckets)), _) => buckets,
            (None, [(leaf, _)]) => std::slice::from_ref(leaf),
            _ => &[],
        };
        Spread { members, buckets }
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// A list without users, which leads nowhere yet; none when there are too many.
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

    /// Gives memory back that lists had which are gone.
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
    /// When there is none of that number, which only a prefix without one could bring.
    pub fn get(&self, id: ListId) -> &PathList {
        self.lists[id.0 as usize].as_ref().expect("prefixes name lists that are there")
    }

    pub fn get_mut(&mut self, id: ListId) -> &mut PathList {
        self.lists[id.0 as usize].as_mut().expect("prefixes name lists that are there")
    }

    /// Whether a number is still a list's.
    pub fn is_there(&self, id: ListId) -> bool {
        self.lists.get(id.0 as usize).is_some_and(Option::is_some)
    }

    pub fn iter(&self) -> impl Iterator<Item = (ListId, &PathList)> {
        (0..).zip(&self.lists).filter_map(|(id, list)| Some((ListId(id), list.as_ref()?)))
    }

    /// What its prefixes lead to; MISS while no path works.
    #[inline]
    pub fn leaf(&self, id: ListId) -> Leaf {
        self.leaves.get(id.0 as usize).copied().unwrap_or(Leaf::MISS)
    }

    /// What its labels lead to.
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

    /// One user less; how many are left.
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

    /// Those that use it, when they are few.
    pub fn few_users(&self) -> Option<&[User]> {
        match &self.users {
            Users::Few(all) => Some(all),
            Users::Many(_) => None,
        }
    }
}
