//! What control does with routes that a daemon says.

use super::Settings;
use super::server::{self, Counts, Order, Shared, State, keys_of};
use crate::follow::Namespace;
use crate::followed;
use crate::kernel::{Followed, Key, Taken};
use crate::ordered::Ordered;
use graph::InterfaceIndex;
use router::Router;
use router::events::EventSender;
use router::ip::bulk::Batch;
use router::ip::route::Source;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::{Arc, PoisonError};

/// Changes of routes, and what they are about.
pub struct Event {
    pub batches: Vec<(u32, Batch)>,
    pub taken: Taken,
}

/// As control has it.
pub struct Fpm {
    pub settings: Option<Settings>,
    pub shared: Arc<Shared>,
    events: EventSender<Event>,
    /// There since the first pair: without one no route leads anywhere.
    server: Option<Server>,
    /// What its thread follows besides the main table.
    tables: Option<Followed>,
    vrfs: BTreeMap<Namespace, BTreeMap<u32, u32>>,
    no_paths: bool,
}

/// The thread, and the namespace where daemons connect.
struct Server {
    namespace: Namespace,
    thread: Ordered<Order>,
}

impl Fpm {
    pub fn new(settings: Option<Settings>, events: EventSender<Event>) -> Fpm {
        Fpm {
            settings,
            shared: Arc::default(),
            events,
            server: None,
            tables: None,
            vrfs: BTreeMap::new(),
            no_paths: false,
        }
    }

    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    pub fn state(&self) -> State {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn place(&self, default: &Namespace) -> Namespace {
        self.settings.as_ref().and_then(|settings| settings.namespace.clone()).or_else(|| default.clone())
    }

    fn start(&mut self, namespace: Namespace) -> io::Result<()> {
        let Some(settings) = self.settings.clone() else { return Ok(()) };
        let (shared, events) = (self.shared.clone(), self.events.clone());
        let settings = Settings { namespace: namespace.clone(), ..settings };
        let thread = Ordered::start("fpm", move |orders, bell| server::run(settings, &shared, &events, orders, bell))?;
        self.server = Some(Server { namespace, thread });
        self.tables.iter().for_each(|tables| self.order(None, Order::Tables(tables.clone())));
        self.order_vrfs();
        self.order(None, Order::NoPaths(self.no_paths));
        Ok(())
    }

    fn order_vrfs(&self) {
        let Some(server) = &self.server else { return };
        self.order(None, Order::Vrfs(self.vrfs.get(&server.namespace).cloned().unwrap_or_default()));
    }

    fn order(&self, namespace: Option<&Namespace>, order: Order) {
        let Some(server) = &self.server else { return };
        if namespace.is_none_or(|namespace| *namespace == server.namespace) {
            server.thread.order(order);
        }
    }
}

/// An interface has a side in Linux, by which routes may lead. The default namespace is that of pairs that name none.
pub fn followed(router: &mut Router, namespace: &Namespace, default: &Namespace, link: u32, interface: InterfaceIndex) {
    let fpm = router.state_mut::<Fpm>();
    if fpm.settings.is_some() && fpm.server.is_none() {
        let place = fpm.place(default);
        if let Err(error) = fpm.start(place) {
            return log::error!("no routing daemon can connect: {error}");
        }
    }
    fpm.order(Some(namespace), Order::Link(link, Some(interface)));
}

/// The default namespace of pairs is another one: daemons connect there, unless `startup.conf` says where.
pub fn moved(router: &mut Router, default: &Namespace, links: &[(Namespace, u32, InterfaceIndex)]) {
    let fpm = router.state_mut::<Fpm>();
    let place = fpm.place(default);
    let Some(server) = fpm.server.as_mut().filter(|server| server.namespace != place) else { return };
    server.namespace.clone_from(&place);
    fpm.order(None, Order::Move(place));
    fpm.order_vrfs();
    for (namespace, link, interface) in links {
        fpm.order(Some(namespace), Order::Link(*link, Some(*interface)));
    }
}

/// It has none any more.
pub fn ended(router: &mut Router, namespace: &Namespace, link: u32) {
    router.state::<Fpm>().order(Some(namespace), Order::Link(link, None));
}

/// These tables are followed.
pub fn follow(router: &mut Router, tables: &Followed) {
    let fpm = router.state_mut::<Fpm>();
    fpm.tables = Some(tables.clone());
    fpm.order(None, Order::Tables(tables.clone()));
}

/// Packets of routes without a way for the router go to Linux, or not.
pub fn set_no_paths(router: &mut Router, on: bool) {
    let fpm = router.state_mut::<Fpm>();
    if std::mem::replace(&mut fpm.no_paths, on) != on {
        fpm.order(None, Order::NoPaths(on));
    }
}

/// A namespace has these VRFs.
pub fn set_vrfs(router: &mut Router, namespace: &Namespace, vrfs: &BTreeMap<u32, u32>) {
    let fpm = router.state_mut::<Fpm>();
    fpm.vrfs.insert(namespace.clone(), vrfs.clone());
    fpm.order(Some(namespace), Order::Vrfs(vrfs.clone()));
}

/// Carries out changes of routes, and says which forward.
pub fn handle(router: &mut Router, Event { batches, taken }: Event) {
    let batches = followed::still_there(router, batches);
    let done = match router.change_all_routes(Source::Fpm, batches) {
        Ok(outcome) if outcome.refused == 0 => Some(HashSet::new()),
        Ok(_) => Some(keys_of(taken.clone()).filter(|key| !is_there(router, *key)).collect()),
        Err(error) => {
            log::error!("routes of the routing daemon are refused, and tried again: {error}");
            None
        }
    };
    followed::drop_tables(router);
    router.state::<Fpm>().order(None, Order::Done { taken, missing: done });
}

fn is_there(router: &Router, (table, prefix): Key) -> bool {
    let Some(index) = followed::by(router, table, prefix.family()) else { return false };
    let routes = router.ip.routes_in(prefix.family(), index);
    routes.get(prefix).is_some_and(|route| route.sources.contains_key(&Source::Fpm))
}
