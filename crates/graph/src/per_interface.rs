//! What a capability knows of single interfaces, for its nodes to read.

use crate::InterfaceIndex;
use crate::index::MAX_INTERFACES;
use rcu::{Domain, PublishedArray, Round};
use std::fmt;
use std::sync::Arc;

/// A value for each interface, or none. Its owner replaces the values one by one; nodes borrow them for a round. A
/// clone is another handle to the same values.
pub struct PerInterface<T: Send + Sync + 'static>(Arc<PublishedArray<T>>);

impl<T: Send + Sync + 'static> Clone for PerInterface<T> {
    fn clone(&self) -> PerInterface<T> {
        PerInterface(self.0.clone())
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for PerInterface<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PerInterface")
    }
}

impl<T: Send + Sync + 'static> PerInterface<T> {
    /// Without values.
    pub fn new(domain: &Arc<Domain>) -> PerInterface<T> {
        PerInterface(Arc::new(PublishedArray::new(domain, MAX_INTERFACES)))
    }

    /// The value of an interface.
    #[inline]
    pub fn get<'r>(&self, round: &'r Round<'_>, interface: InterfaceIndex) -> Option<&'r T> {
        self.0.load(round, interface.0 as usize)
    }

    /// Gives an interface another value, or takes its value away.
    ///
    /// # Panics
    /// When the index is [`MAX_INTERFACES`] or more, which no interface's is.
    pub fn set(&self, interface: InterfaceIndex, value: Option<T>) {
        self.0.set(interface.0 as usize, value);
    }
}
