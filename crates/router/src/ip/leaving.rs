//! Numbers that packets inside a round may still carry.

use graph::Graph;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Numbers that were given back: they are given again when no packet can carry them any more, for it would take
/// another's way.
pub(crate) struct Leaving<T>(Vec<(T, Arc<AtomicBool>)>);

impl<T> Default for Leaving<T> {
    fn default() -> Leaving<T> {
        Leaving(Vec::new())
    }
}

impl<T: PartialEq> Leaving<T> {
    /// A number to which nothing leads from now on.
    pub fn add(&mut self, graph: &Graph, number: T) {
        let is_settled = Arc::new(AtomicBool::new(false));
        self.0.push((number, is_settled.clone()));
        graph.when_settled(move || is_settled.store(true, Ordering::Release));
    }

    /// Those that may be given again.
    pub fn settled(&mut self) -> impl Iterator<Item = T> {
        self.0.extract_if(.., |(_, is_settled)| is_settled.load(Ordering::Acquire)).map(|(number, _)| number)
    }

    pub fn holds(&self, number: &T) -> bool {
        self.0.iter().any(|(leaving, _)| leaving == number)
    }
}
