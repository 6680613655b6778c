//! SPAN: an interface's packets are copied to other interfaces, where a monitor can receive them.
//!
//! A received packet is copied unchanged, before any decision about it (`span-input`, between a device's input node and
//! `ethernet-input`). A sent packet is copied as the device gets it (`span-output`, between `NAME-output` and
//! `NAME-tx`). Packets of interfaces that are not mirrored do not pass these nodes at all. Copies leave by their
//! destination's output like any packet, and are not copied again.

pub mod cli;
pub(crate) mod config;
pub mod control;
mod input;
mod mirror;
mod output;

pub use control::{MAX_DESTINATIONS, Session};

use crate::capability::{Description, FeatureSpec, no_more};
use crate::config::{Part, Phase};
use crate::interface::SharedViews;
use graph::{Behaviour, EdgeIndex, Graph, GraphError, InterfaceIndex, NodeIndex};

/// The packet is a copy for a listener: it is not copied again.
pub(crate) const MIRRORED: u32 = graph::flag::claimable(3);

pub(crate) const CAPABILITY: Description = Description {
    name: "span",
    description: "Copies of an interface's packets to others",
    flags: MIRRORED,
    nodes: &["span-input", "span-output"],
    features: &[
        FeatureSpec::new("device-input", "span-input", no_more).before(&["worker-handoff"]),
        FeatureSpec::new("interface-output", "span-output", no_more),
    ],
    commands: cli::register,
    statements: &[(Phase::OnInterfaces, Part::Few(config::statements))],
    ..Description::NONE
};

/// Where copies go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanDestination {
    pub interface: InterfaceIndex,
    /// The copying node's edge to this interface's output.
    pub edge: EdgeIndex,
}

/// The SPAN destinations of an interface, as nodes see them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listeners {
    pub rx: Vec<SpanDestination>,
    pub tx: Vec<SpanDestination>,
}

/// Nodes that control calls.
pub(crate) struct Nodes {
    pub input: NodeIndex,
    pub output: NodeIndex,
}

/// Registers the capability's nodes.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(graph: &mut Graph, view: &SharedViews) -> Result<Nodes, GraphError> {
    let of_input = view.clone();
    let input =
        graph.register(input::spec(), move |_| Behaviour::Expand(Box::new(input::SpanInput::new(of_input.clone()))))?;
    let view = view.clone();
    let output =
        graph.register(output::spec(), move |_| Behaviour::Expand(Box::new(output::SpanOutput::new(view.clone()))))?;
    Ok(Nodes { input, output })
}
