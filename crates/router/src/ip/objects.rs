//! Forwarding objects of other capabilities, as routes name them.

use super::class;
use super::control::{Path, PathAction};
use std::collections::BTreeMap;
use std::fmt;
use tables::Leaf;

/// An object, as routes name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);

impl ObjectId {
    pub(crate) fn leaf(self) -> Leaf {
        Leaf::new(class::OBJECT, self.0)
    }
}

/// `object 7`, as `show` commands name it.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {}", self.0)
    }
}

pub struct Known {
    /// The name of its kind.
    pub name: &'static str,
    /// Paths of lists that name it.
    pub users: usize,
}

/// The objects that there are.
#[derive(Default)]
pub struct CustomObjects(pub BTreeMap<ObjectId, Known>);

impl CustomObjects {
    pub fn name(&self, id: ObjectId) -> Option<&'static str> {
        self.0.get(&id).map(|known| known.name)
    }

    /// Paths begin to name objects.
    pub fn hold(&mut self, paths: &[Path]) {
        self.each(paths, |users| users + 1);
    }

    /// Paths are gone.
    pub fn let_go(&mut self, paths: &[Path]) {
        self.each(paths, |users| users - 1);
    }

    fn each(&mut self, paths: &[Path], change: impl Fn(usize) -> usize) {
        for path in paths {
            if let PathAction::Object(id) = path.way
                && let Some(known) = self.0.get_mut(&id)
            {
                known.users = change(known.users);
            }
        }
    }

    /// The object of a leaf, with the name of its kind.
    pub fn of(&self, leaf: Leaf) -> Option<(ObjectId, &'static str)> {
        let id = ObjectId(leaf.index());
        self.name(id).filter(|_| leaf.class() == class::OBJECT).map(|name| (id, name))
    }
}

/// Why a forwarding object cannot be used or removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    #[error("{0}: there is none")]
    NotThere(ObjectId),
    #[error("{0}: routes lead to it, remove these first ('show ip fib')")]
    InUse(ObjectId),
}

crate::codes! { ObjectError {
    NotThere => "object-not-there",
    InUse => "object-in-use",
} }
