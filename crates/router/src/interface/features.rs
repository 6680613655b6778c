//! `show features`: the feature arcs, their features in the order in which packets meet them, and the nodes in which
//! they end. `show interface features`: the chain that packets of an interface follow on each arc.
//!
//! All of it is read from the graph; the chains from where workers read them.

use super::feature::FeatureSpec;
use crate::Router;
use crate::interface::Interface;
use command::{Args, Command, CommandError, CommandSet, Reply, reply};
use graph::NodeIndex;
use serde::Serialize;
use std::fmt;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(Command::new(
        "show features [verbose]",
        "Show the feature arcs: their features in order, and the node in which each arc ends; `verbose`: whose they \
         are.",
        show,
    ));
    set.add(Command::new(
        "show interface features [<interface:interface>]",
        "Show the features that are enabled on interfaces, arc by arc, in the order in which packets pass them.",
        show_of_interfaces,
    ));
}

/// A feature as its capability states it, with the capability's name. `None`: a node of which none is known.
fn stated(router: &Router, arc: &str, node: NodeIndex) -> Option<(&'static str, &'static FeatureSpec)> {
    let name = &router.graph.info(node)?.name;
    let all = router.capabilities.iter().flat_map(|c| c.features.iter().map(move |spec| (c.name, spec)));
    all.into_iter().find(|(_, spec)| spec.feature.arc == arc && spec.feature.node == name)
}

fn name_of(router: &Router, node: NodeIndex) -> String {
    router.graph.info(node).map_or_else(|| format!("#{}", node.0), |info| info.name.clone())
}

/// The features of an arc, or of an interface's chain; none where there is no such arc.
fn listed(nodes: Result<impl Iterator<Item = NodeIndex>, graph::GraphError>) -> Vec<NodeIndex> {
    nodes.into_iter().flatten().collect()
}

fn show(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let feature = |arc: &str, node| ShownFeature {
        node: name_of(router, node),
        capability: stated(router, arc, node).map(|(capability, _)| capability),
    };
    let shown = |(arc, end)| ShownArc {
        arc,
        features: listed(router.graph.features(arc)).into_iter().map(|node| feature(arc, node)).collect(),
        end,
    };
    reply(ShowFeatures { verbose: args.flag("verbose"), arcs: router.graph.arcs().map(shown).collect() })
}

#[derive(Serialize)]
struct ShownFeature {
    node: String,
    /// The capability that it belongs to.
    capability: Option<&'static str>,
}

#[derive(Serialize)]
struct ShownArc {
    arc: &'static str,
    features: Vec<ShownFeature>,
    /// The node in which it ends.
    end: &'static str,
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
        for ShownArc { arc, features, end } in &self.arcs {
            writeln!(f, "{arc}:")?;
            for ShownFeature { node, capability } in features {
                match capability.filter(|_| self.verbose) {
                    Some(capability) => writeln!(f, "  {node} ({capability})")?,
                    None => writeln!(f, "  {node}")?,
                }
            }
            writeln!(f, "  {end}{}", if self.verbose { " (end)" } else { "" })?;
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
    let mut interfaces: Vec<InterfaceFeatures> = chosen.map(|interface| features(router, interface)).collect();
    interfaces.sort_by(|a, b| a.interface.cmp(&b.interface));
    reply(ShowInterfaceFeatures { interfaces })
}

fn features(router: &Router, interface: &Interface) -> InterfaceFeatures {
    let feature = |arc: &str, node| Feature {
        node: name_of(router, node),
        does: stated(router, arc, node).map_or(String::new(), |(_, spec)| (spec.does)(router, interface.index)),
    };
    let arcs = router.graph.arcs().map(|(arc, _)| {
        let chain = listed(router.graph.chain(arc, interface.index).map(Vec::into_iter));
        InterfaceArc { arc, features: chain.into_iter().map(|node| feature(arc, node)).collect() }
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
