//! SPAN: an interface's packets are copied to other interfaces, where a monitor can receive them.
//!
//! A received packet is copied unchanged, before any decision about it (`span-input`, between a device's input node and
//! `ethernet-input`). A sent packet is copied as the device gets it (`span-output`, between `NAME-output` and
//! `NAME-tx`). Packets of interfaces that are not mirrored do not pass these nodes at all. Copies leave by their
//! destination's output like any packet, and are not copied again.

mod cli;
mod config;
mod control;
mod input;
mod mirror;
mod output;

pub use control::{MAX_DESTINATIONS, Session, SpanError, clear, sessions, set};

use graph::{Behaviour, EdgeIndex, InterfaceIndex};
use router::Error;
use router::capability::{Chapter, Description, FeatureSpec, Part, Phase, Stage, Starting, no_more};
use router::interface::output::OUTPUT_ARC;

/// The packet is a copy for a listener: it is not copied again.
pub(crate) const MIRRORED: u32 = graph::flag::claimable(3);

/// Its nodes.
const INPUT: &str = "span-input";
const OUTPUT: &str = "span-output";

pub const CAPABILITY: Description = Description {
    name: "span",
    log_classes: &[("span", "span")],
    codes: &[SpanError::CODES],
    description: "Copies of an interface's packets to others",
    flags: MIRRORED,
    nodes: &[INPUT, OUTPUT],
    features: &[
        FeatureSpec::new(drivers::input::ARC, INPUT, no_more).before(&["worker-handoff"]),
        FeatureSpec::new(OUTPUT_ARC, OUTPUT, no_more),
    ],
    start,
    hears: control::hears,
    commands: cli::register,
    statements: &[(Phase::OnInterfaces, Part::Few(config::statements))],
    chapters: &[Chapter {
        stage: Stage::Sending,
        title: "Mirroring",
        about: "Copies of packets to a mirror port (SPAN).",
        nodes: &[INPUT, OUTPUT],
    }],
    ..Description::NONE
};

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let listeners = starting.per_interface();
    let (of_input, of_output) = (listeners.clone(), listeners.clone());
    let input = move |_| Behaviour::Expand(Box::new(input::SpanInput::new(of_input.clone())));
    let output = move |_| Behaviour::Expand(Box::new(output::SpanOutput::new(of_output.clone())));
    let input = starting.graph.register(input::spec(), input)?;
    let output = starting.graph.register(output::spec(), output)?;
    starting.own(control::Spans::new(listeners, input, output));
    Ok(())
}

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
