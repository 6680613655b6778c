//! What capabilities own: their state, which is made when a router starts.
//!
//! State stays where it is while it is used: an operation borrows it from the router for as long as it needs it. So
//! there is no time at which it is missing, also not while a long command of one client pauses and another client looks
//! at the same state ([decision 035](../../../../docs/decisions/035-state-stays-in-its-place.md)).

use crate::Router;
use crate::events::{EventSender, Events};
use crate::interface::exit::{Exit, Exits};
use crate::interface::{InterfaceCounters, SharedViews};
use crate::ip::count::CounterSlots;
use crate::ip::edges::{AllEdges, RewriteEdges};
use crate::ip::labels::table::SharedLabels;
use crate::ip::{Fibs4, Fibs6};
use crate::neighbour::table;
use graph::{Graph, InterfaceIndex, NodeIndex, PerInterface};
use rcu::{Domain, Published};
use startup::{Sections, Settings};
use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;
use tables::ObjectHandle;

/// The state of all capabilities, by type.
#[derive(Default)]
pub(crate) struct States(HashMap<TypeId, Box<dyn Any + Send>>);

impl States {
    fn get<T: Any>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }

    fn get_mut<T: Any>(&mut self) -> Option<&mut T> {
        self.0.get_mut(&TypeId::of::<T>())?.downcast_mut()
    }
}

/// Takes from an interface what a capability published of it.
pub(crate) type Forget = Box<dyn Fn(InterfaceIndex) + Send>;

/// A router that starts, as its capabilities see it. Each registers its nodes, and leaves the state that it owns.
pub struct Starting<'a> {
    pub graph: &'a mut Graph,
    pub core: &'a SharedCore,
    /// All capabilities of the router.
    pub capabilities: super::List,
    pub(crate) sections: &'a Sections,
    pub(crate) events: &'a mut Events,
    pub(crate) states: &'a mut States,
    pub(crate) shared: &'a mut Shared,
    pub(crate) published: &'a mut Vec<Forget>,
    pub(crate) exits: &'a mut Exits,
    pub(crate) rewrites: &'a mut AllEdges,
}

/// What nodes read of the core: interfaces, routes and neighbours.
pub struct SharedCore {
    pub view: SharedViews,
    pub counters: InterfaceCounters,
    pub fibs: Fibs4,
    pub fibs6: Fibs6,
    pub objects: ObjectHandle,
    pub labels: SharedLabels,
    /// Where routes that are counted have their counters.
    pub places: CounterSlots,
    pub neighbours: Arc<table::Shared>,
    /// Makes this router's flow hashes differ from those of other routers.
    pub hash_seed: u32,
}

/// Published values that several capabilities use, by type.
#[derive(Default)]
pub(crate) struct Shared(HashMap<TypeId, Box<dyn Any>>);

impl Shared {
    /// See [`Starting::shared`].
    pub fn of<T: Default + Send + Sync + 'static>(&mut self, domain: &Arc<Domain>) -> Arc<Published<T>> {
        let new = || Box::new(Arc::new(Published::new(domain, T::default()))) as Box<dyn Any>;
        let value = self.0.entry(TypeId::of::<T>()).or_insert_with(new);
        value.downcast_ref::<Arc<Published<T>>>().expect("of this type").clone()
    }
}

impl Starting<'_> {
    /// What `startup.conf` says in a section ([`super::Description::sections`]); nothing if it has no such section.
    pub fn section(&self, name: &str) -> &Settings {
        const NOTHING: &Settings = &Settings::NONE;
        self.sections.get(name).unwrap_or(NOTHING)
    }

    /// Leaves state of a type of the capability's own ([`Router::state`]).
    ///
    /// # Panics
    /// When there is state of this type already: a programmer's error that shows at the first start.
    pub fn own<T: Any + Send>(&mut self, state: T) {
        let before = self.states.0.insert(TypeId::of::<T>(), Box::new(state));
        assert!(before.is_none(), "two capabilities own a {}", type_name::<T>());
    }

    /// The state of a capability that comes earlier in the list.
    ///
    /// # Panics
    /// When there is none: a programmer's error that shows at the first start.
    pub fn state<T: Any>(&mut self) -> &mut T {
        self.states.get_mut().unwrap_or_else(|| missing::<T>())
    }

    /// A value that control publishes and that nodes of several capabilities read. There is one of each type, which is
    /// the default until its owner publishes another.
    pub fn shared<T: Default + Send + Sync + 'static>(&mut self) -> Arc<Published<T>> {
        self.shared.of(self.graph.domain())
    }

    /// Says that packets leave by interfaces from a node: it gets an edge to the output of each, or to the tx node of
    /// each for [`Exit::Device`]. Features of this arc come before.
    pub fn leaves(&mut self, exit: Exit, node: NodeIndex, arc: Option<&'static str>) {
        self.exits.push((exit, node, arc));
    }

    /// Says where packets go from the node of an exit that cannot go straight to an interface.
    pub fn rewrites(&mut self, exit: Exit, edges: RewriteEdges) {
        self.rewrites.push((exit, edges));
    }

    /// A queue for events that the capability's nodes send, each of which this function handles.
    pub fn events<E: Send + 'static>(&mut self, handle: fn(&mut Router, E)) -> EventSender<E> {
        self.events.queue(handle)
    }

    /// Values for single interfaces, for nodes to read. The router takes them away when an interface goes.
    pub fn per_interface<T: Send + Sync + 'static>(&mut self) -> PerInterface<T> {
        let values = PerInterface::new(self.graph.domain());
        let all = values.clone();
        self.published.push(Box::new(move |gone| all.set(gone, None)));
        values
    }
}

impl Router {
    /// The state of a capability.
    ///
    /// # Panics
    /// When no capability of this router owns a `T`: a programmer's error that shows at the first use.
    pub fn state<T: Any>(&self) -> &T {
        self.states.get().unwrap_or_else(|| missing::<T>())
    }

    /// The same, to be changed.
    ///
    /// # Panics
    /// As [`Router::state`].
    pub fn state_mut<T: Any>(&mut self) -> &mut T {
        self.states.get_mut().unwrap_or_else(|| missing::<T>())
    }
}

#[cold]
fn missing<T>() -> ! {
    panic!("no capability owns a {}", type_name::<T>())
}
