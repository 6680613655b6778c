//! `show features`: which nodes stand on the way of a packet, part by part, in the order
//! in which they run; and which of them work for an interface.
//!
//! Capabilities name their nodes ([`crate::capability`]); whether these exist and in what
//! order they come is read from the graph.

use crate::capability::{OUTPUT, SUB_OUTPUT, Stage, TX};
use crate::interface::Interface;
use crate::{CAPABILITIES, Router};
use command::{Args, Command, CommandError, CommandSet, Reply, reply};
use graph::NodeIndex;
use serde::Serialize;
use std::fmt;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(Command::new(
        "show features [verbose]",
        "Show the stages of a packet's way and their nodes in order; `verbose`: with their next nodes.",
        show,
    ));
    set.add(Command::new(
        "show interface features [<interface:interface>]",
        "Show the nodes that process the packets of interfaces.",
        show_of_interfaces,
    ));
}

/// An arc with its stages, first to last.
struct Arc {
    name: &'static str,
    stages: Vec<(&'static str, &'static Stage)>,
}

/// The arcs of all capabilities, in the graph's order.
fn arcs(router: &Router) -> Vec<Arc> {
    let order = router.graph.order();
    // What no source leads to (yet) stands before the first source: it is no packet's first stage.
    let is_source = |index: &NodeIndex| router.graph.info(*index).is_some_and(|node| node.kind == "input");
    let first = order.iter().position(is_source).unwrap_or(0);
    let rank = |stage: &Stage| {
        let index = node_of(router, stage.node, None)?;
        let place = order.iter().position(|other| *other == index)?;
        Some((place < first, place))
    };
    let all = CAPABILITIES.iter().flat_map(|c| c.stages.iter().map(move |stage| (c.name, stage)));
    let mut ranked: Vec<_> = all.filter_map(|(capability, stage)| Some((rank(stage)?, capability, stage))).collect();
    ranked.sort_by_key(|(rank, ..)| *rank);
    let mut arcs: Vec<Arc> = Vec::new();
    for stage in ranked.into_iter().map(|(_, capability, stage)| (capability, stage)) {
        match arcs.iter_mut().find(|arc| arc.name == stage.1.arc) {
            Some(arc) => arc.stages.push(stage),
            None => arcs.push(Arc { name: stage.1.arc, stages: vec![stage] }),
        }
    }
    arcs
}

/// The node of a stage: an interface's own one for the given interface, or for any.
fn node_of(router: &Router, name: &str, interface: Option<&Interface>) -> Option<NodeIndex> {
    let find = |is_one: fn(&Interface) -> bool| match interface {
        Some(interface) => is_one(interface).then_some(interface),
        None => router.interfaces.iter().find(|interface| is_one(interface)),
    };
    let interface = || find(|_| true);
    match name {
        // A sub-interface sends by its parent's.
        OUTPUT => {
            let interface = interface()?;
            let device = interface.sub.as_ref().map_or(Ok(interface), |sub| router.interfaces.get(sub.parent)).ok()?;
            Some(device.output_node)
        }
        SUB_OUTPUT => Some(find(|interface| interface.sub.is_some())?.output_node),
        TX => Some(interface()?.tx_node),
        name => router.graph.find(name).ok(),
    }
}

fn show(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let shown = |(capability, stage): &(&'static str, &'static Stage)| {
        let info = node_of(router, stage.node, None).and_then(|index| router.graph.info(index));
        let next = info.map_or(Vec::new(), |info| {
            info.edges.iter().filter(|edge| edge.node.is_some()).map(|edge| edge.to.clone()).collect()
        });
        ShownStage { node: stage.node.to_string(), capability, next }
    };
    let arcs = arcs(router).into_iter();
    let arcs = arcs.map(|arc| ShownArc { arc: arc.name, nodes: arc.stages.iter().map(shown).collect() });
    reply(ShowFeatures { verbose: args.flag("verbose"), arcs: arcs.collect() })
}

#[derive(Serialize)]
struct ShownStage {
    node: String,
    /// The capability that it belongs to.
    capability: &'static str,
    next: Vec<String>,
}

#[derive(Serialize)]
struct ShownArc {
    arc: &'static str,
    nodes: Vec<ShownStage>,
}

#[derive(Serialize)]
struct ShowFeatures {
    #[serde(skip)]
    verbose: bool,
    arcs: Vec<ShownArc>,
}

impl fmt::Display for ShowFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Available feature paths")?;
        for arc in &self.arcs {
            writeln!(f, "{}:", arc.arc)?;
            for stage in &arc.nodes {
                match self.verbose && !stage.next.is_empty() {
                    true => writeln!(f, "  {} ({}) -> {}", stage.node, stage.capability, stage.next.join(", "))?,
                    false if self.verbose => writeln!(f, "  {} ({})", stage.node, stage.capability)?,
                    false => writeln!(f, "  {}", stage.node)?,
                }
            }
        }
        Ok(())
    }
}

fn show_of_interfaces(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    of_interfaces(router, args.optional_text("interface"))
}

/// The features of one interface, or of all.
///
/// # Errors
/// When there is no interface of this name.
pub fn of_interfaces(router: &Router, name: Option<&str>) -> Result<Box<dyn Reply>, CommandError> {
    let only = name.map(|name| router.interfaces.find(name)).transpose()?;
    let chosen = router.interfaces.iter().filter(|interface| only.is_none_or(|only| only == interface.index));
    let arcs = arcs(router);
    let mut interfaces: Vec<InterfaceFeatures> = chosen.map(|interface| features(router, &arcs, interface)).collect();
    interfaces.sort_by(|a, b| a.interface.cmp(&b.interface));
    reply(ShowInterfaceFeatures { interfaces })
}

fn features(router: &Router, arcs: &[Arc], interface: &Interface) -> InterfaceFeatures {
    let feature = |stage: &Stage| {
        let does = (stage.on)(interface)?;
        let node = router.graph.info(node_of(router, stage.node, Some(interface))?)?.name.clone();
        Some(Feature { node, does })
    };
    let arcs = arcs.iter().map(|arc| InterfaceArc {
        arc: arc.name,
        features: arc.stages.iter().filter_map(|(_, stage)| feature(stage)).collect(),
    });
    InterfaceFeatures { interface: interface.name.clone(), arcs: arcs.collect() }
}

#[derive(Serialize)]
struct Feature {
    node: String,
    /// What it does besides what it does for all; often nothing.
    does: String,
}

#[derive(Serialize)]
struct InterfaceArc {
    arc: &'static str,
    features: Vec<Feature>,
}

#[derive(Serialize)]
struct InterfaceFeatures {
    interface: String,
    arcs: Vec<InterfaceArc>,
}

#[derive(Serialize)]
struct ShowInterfaceFeatures {
    interfaces: Vec<InterfaceFeatures>,
}

impl fmt::Display for ShowInterfaceFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for interface in &self.interfaces {
            writeln!(f, "Feature paths configured on {}...", interface.interface)?;
            for arc in &interface.arcs {
                writeln!(f, "\n{}:", arc.arc)?;
                for Feature { node, does } in &arc.features {
                    match does.is_empty() {
                        true => writeln!(f, "  {node}")?,
                        false => writeln!(f, "  {node} ({does})")?,
                    }
                }
                if arc.features.is_empty() {
                    writeln!(f, "  none configured")?;
                }
            }
        }
        Ok(())
    }
}
