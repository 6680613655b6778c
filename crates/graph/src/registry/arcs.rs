//! Control's side of feature arcs ([`crate::chains`]): which features there are, in what order, and where they are
//! enabled.

use super::{Graph, GraphError};
use crate::chains::{ArcIndex, MAX_ARCS, MAX_STEPS};
use crate::drops::{self, DROP, DROP_ARC};
use crate::index::InterfaceIndex;
use crate::index::MAX_INTERFACES;
use crate::index::NodeIndex;
use crate::node::{Behaviour, NodeSpec};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

/// A feature as its capability states it. Names of nodes that are not on the arc mean nothing.
#[derive(Debug, Clone, Copy)]
pub struct Feature {
    pub arc: &'static str,
    pub node: &'static str,
    /// It stands behind these features.
    pub after: &'static [&'static str],
    /// It stands before these.
    pub before: &'static [&'static str],
}

/// An arc, as control knows it.
struct Book {
    name: &'static str,
    end: &'static str,
    /// The nodes in which it begins.
    starts: BTreeSet<NodeIndex>,
    /// In the order in which packets meet them.
    features: Vec<(NodeIndex, Feature)>,
    enabled: BTreeMap<InterfaceIndex, BTreeSet<NodeIndex>>,
}

impl Book {
    fn new(name: &'static str, end: &'static str) -> Book {
        let (starts, features, enabled) = Default::default();
        Book { name, end, starts, features, enabled }
    }
}

/// All arcs; the first is that of dropped packets.
pub(super) struct ArcBook {
    arcs: Vec<Book>,
    /// Chains that were ever published, and where they begin. They stay: packets may be on their way along them.
    known: HashMap<Vec<NodeIndex>, u16>,
    /// The first step that is free. Step 0 stands for no chain.
    free: usize,
}

impl Default for ArcBook {
    fn default() -> ArcBook {
        ArcBook { arcs: vec![Book::new(DROP_ARC, DROP)], known: HashMap::new(), free: 1 }
    }
}

impl ArcBook {
    fn find(&self, name: &str) -> Result<usize, GraphError> {
        let at = self.arcs.iter().position(|arc| arc.name == name);
        at.ok_or_else(|| GraphError::NoSuchArc(name.into()))
    }

    /// The node in which an arc ends.
    pub fn end_of(&self, name: &str) -> Option<&'static str> {
        Some(self.arcs[self.find(name).ok()?].end)
    }
}

/// Sorts features so that each stands behind those that it names in `after`, and before those in `before`. Else they
/// keep their order.
fn sorted(features: &[(NodeIndex, Feature)]) -> Result<Vec<(NodeIndex, Feature)>, GraphError> {
    let is_before = |a: &Feature, b: &Feature| a.before.contains(&b.node) || b.after.contains(&a.node);
    let (mut rest, mut order) = (features.to_vec(), Vec::new());
    while !rest.is_empty() {
        let is_free = |at: &usize| {
            let feature = &rest[*at].1;
            !rest.iter().enumerate().any(|(other, (_, before))| other != *at && is_before(before, feature))
        };
        let Some(first) = (0..rest.len()).find(is_free) else {
            let circle = rest.iter().map(|(_, feature)| feature.node).collect::<Vec<_>>();
            return Err(GraphError::FeaturesInACircle(rest[0].1.arc, circle.join(", ")));
        };
        order.push(rest.remove(first));
    }
    Ok(order)
}

impl Graph {
    /// Adds an arc that ends in the node of that name, which may be registered later. Nodes that begin it must be
    /// registered after this.
    ///
    /// # Errors
    /// When there is an arc of that name, or there are too many.
    pub fn register_arc(&mut self, name: &'static str, end: &'static str) -> Result<ArcIndex, GraphError> {
        let arcs = &mut self.arcs.arcs;
        if arcs.iter().any(|arc| arc.name == name) {
            return Err(GraphError::NameTaken(name.into()));
        }
        if arcs.len() == MAX_ARCS {
            return Err(GraphError::TooMany("arcs", MAX_ARCS));
        }
        arcs.push(Book::new(name, end));
        Ok(ArcIndex(arcs.len() as u8 - 1))
    }

    /// The arc of a name.
    ///
    /// # Errors
    /// When there is none.
    pub fn arc(&self, name: &str) -> Result<ArcIndex, GraphError> {
        self.arcs.find(name).map(|at| ArcIndex(at as u8))
    }

    /// Adds a registered node to an arc. It is enabled nowhere.
    ///
    /// # Errors
    /// When there is no such arc or node, features state an order that is a circle, or there are too many different
    /// chains; then no packet's way has changed.
    pub fn register_feature(&mut self, feature: Feature) -> Result<(), GraphError> {
        let (at, node) = (self.arcs.find(feature.arc)?, self.find(feature.node)?);
        let mut features = self.arcs.arcs[at].features.clone();
        if features.iter().any(|(other, _)| *other == node) {
            return Err(GraphError::NameTaken(feature.node.into()));
        }
        features.push((node, feature));
        let before = std::mem::replace(&mut self.arcs.arcs[at].features, sorted(&features)?);
        let added = self.connect_arc(at).and_then(|()| self.publish_arc(at));
        if added.is_err() {
            // Chains as they were are known: publishing them again needs no room.
            self.arcs.arcs[at].features = before;
            self.publish_arc(at)?;
        }
        added
    }

    /// A node begins an arc.
    pub(super) fn begins(&mut self, node: NodeIndex, arc: &str) -> Result<(), GraphError> {
        let at = self.arcs.find(arc)?;
        let book = &mut self.arcs.arcs[at];
        book.starts.insert(node);
        let first = book.features.first().map(|(first, _)| *first);
        let first = first.and_then(|first| self.info(first)).map(|info| info.name.clone());
        first.map_or(Ok(()), |first| self.connect(node, &first).map(|_| ()))
    }

    /// Gives nodes edges in the order of the arc: packets take other ways, but the graph's order follows edges.
    fn connect_arc(&mut self, at: usize) -> Result<(), GraphError> {
        let arc = &self.arcs.arcs[at];
        let (end, starts) = (arc.end, arc.starts.clone());
        let features: Vec<NodeIndex> = arc.features.iter().map(|(node, _)| *node).collect();
        let name = |graph: &Graph, node| graph.info(node).map(|info| info.name.clone());
        if let Some(first) = features.first().and_then(|first| name(self, *first)) {
            for start in starts {
                self.connect(start, &first)?;
            }
        }
        for pair in features.windows(2) {
            if let Some(next) = name(self, pair[1]) {
                self.connect(pair[0], &next)?;
            }
        }
        if let Some(last) = features.last()
            && self.find(end).is_ok()
        {
            self.connect(*last, end)?;
        }
        Ok(())
    }

    /// Enables a feature on an interface, or disables it.
    ///
    /// # Errors
    /// When there is no such arc, feature, interface or arc's end, or there are too many different chains; then nothing
    /// has changed.
    pub fn set_feature(
        &mut self,
        arc: &str,
        node: &str,
        interface: InterfaceIndex,
        is_enabled: bool,
    ) -> Result<(), GraphError> {
        let (at, node) = (self.arcs.find(arc)?, self.find(node)?);
        let book = &mut self.arcs.arcs[at];
        if !book.features.iter().any(|(other, _)| *other == node) {
            return Err(GraphError::NoSuchFeature(
                arc.into(),
                self.info(node).map_or(String::new(), |i| i.name.clone()),
            ));
        }
        if interface.0 as usize >= MAX_INTERFACES {
            return Err(GraphError::TooMany("interfaces", MAX_INTERFACES));
        }
        let before = book.enabled.get(&interface).cloned().unwrap_or_default();
        let mut now = before.clone();
        let changed = if is_enabled { now.insert(node) } else { now.remove(&node) };
        if !changed {
            return Ok(());
        }
        book.enabled.insert(interface, now);
        let published = self.publish_chain(at, interface);
        let enabled = &mut self.arcs.arcs[at].enabled;
        if published.is_err() {
            enabled.insert(interface, before);
        }
        if enabled.get(&interface).is_some_and(BTreeSet::is_empty) {
            enabled.remove(&interface);
        }
        published
    }

    /// Disables all features of an interface that goes away.
    pub fn clear_features(&mut self, interface: InterfaceIndex) {
        for (at, book) in self.arcs.arcs.iter_mut().enumerate() {
            if book.enabled.remove(&interface).is_some() {
                self.chains.publish(ArcIndex(at as u8), interface, 0);
            }
        }
    }

    fn publish_arc(&mut self, at: usize) -> Result<(), GraphError> {
        let interfaces: Vec<InterfaceIndex> = self.arcs.arcs[at].enabled.keys().copied().collect();
        interfaces.into_iter().try_for_each(|interface| self.publish_chain(at, interface))
    }

    fn publish_chain(&mut self, at: usize, interface: InterfaceIndex) -> Result<(), GraphError> {
        let book = &self.arcs.arcs[at];
        let enabled = book.enabled.get(&interface);
        let features = book.features.iter().map(|(node, _)| *node);
        let mut chain: Vec<NodeIndex> =
            features.filter(|node| enabled.is_some_and(|enabled| enabled.contains(node))).collect();
        let mut first = 0;
        if !chain.is_empty() {
            chain.push(self.find(book.end)?);
            first = self.intern(chain)?;
        }
        self.chains.publish(ArcIndex(at as u8), interface, first);
        Ok(())
    }

    /// Where a chain begins.
    fn intern(&mut self, chain: Vec<NodeIndex>) -> Result<u16, GraphError> {
        if let Some(first) = self.arcs.known.get(&chain) {
            return Ok(*first);
        }
        let first = self.arcs.free;
        if first + chain.len() > MAX_STEPS {
            return Err(GraphError::TooMany("steps of feature chains", MAX_STEPS));
        }
        self.chains.write(first, &chain);
        self.arcs.free += chain.len();
        self.arcs.known.insert(chain, first as u16);
        Ok(first as u16)
    }

    /// A node goes away: it is no feature any more.
    pub(super) fn leave_arcs(&mut self, node: NodeIndex) {
        for at in 0..self.arcs.arcs.len() {
            let book = &mut self.arcs.arcs[at];
            book.starts.remove(&node);
            let before = book.features.len();
            book.features.retain(|(other, _)| *other != node);
            if book.features.len() == before {
                continue;
            }
            book.enabled.values_mut().for_each(|features| {
                features.remove(&node);
            });
            // Fewer features need no new room but for chains that were never published.
            if let Err(error) = self.connect_arc(at).and_then(|()| self.publish_arc(at)) {
                log::error!("a feature that is gone stays in a chain: {error}");
            }
            self.arcs.arcs[at].enabled.retain(|_, features| !features.is_empty());
        }
        let before = self.arcs.known.len();
        self.arcs.known.retain(|chain, _| !chain.contains(&node));
        if self.arcs.known.len() < before {
            self.chains.forget(node, self.arcs.free);
        }
    }

    /// All arcs by name, each with the node in which it ends; that of dropped packets last.
    pub fn arcs(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let (first, others) = self.arcs.arcs.split_at(1);
        others.iter().chain(first).map(|arc| (arc.name, arc.end))
    }

    /// The features of an arc, in the order in which packets meet them.
    ///
    /// # Errors
    /// When there is no such arc.
    pub fn features(&self, arc: &str) -> Result<impl Iterator<Item = NodeIndex>, GraphError> {
        Ok(self.arcs.arcs[self.arcs.find(arc)?].features.iter().map(|(node, _)| *node))
    }

    /// The chain that packets of an interface follow, read from where workers read it; without the arc's end. Empty:
    /// nothing is enabled.
    ///
    /// # Errors
    /// When there is no such arc.
    pub fn chain(&self, arc: &str, interface: InterfaceIndex) -> Result<Vec<NodeIndex>, GraphError> {
        let start = self.chains.of(self.arc(arc)?, interface);
        let mut nodes: Vec<NodeIndex> = start.into_iter().flat_map(|at| self.chains.nodes_from(at)).flatten().collect();
        nodes.pop();
        Ok(nodes)
    }
}

impl Graph {
    /// Registers the node in which the arc ends. Without it no feature can be enabled there.
    ///
    /// # Errors
    /// When it is registered already, or the graph is full.
    pub fn register_drop(&mut self) -> Result<(), GraphError> {
        let trace = |snapshot: &crate::Snapshot, f: &mut dyn Write| writeln!(f, "  error {}", snapshot.row.target);
        let spec = NodeSpec { name: DROP.into(), edges: &[], counters: &[], trace };
        self.register(spec, |_| Behaviour::Map(Box::new(drops::Drop))).map(|_| ())
    }
}
