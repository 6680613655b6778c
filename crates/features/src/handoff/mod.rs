//! Hand-off: an interface's packets are shared out among workers by flow, right after they were
//! received. For devices that cannot do it themselves, or cannot look into the tunnels that carry
//! the flows: one worker polls, several do the work.
//!
//! `worker-handoff` is a feature of the arc `device-input`; packets of interfaces that stay do not pass it. All
//! packets of a flow go to one worker, in the order in which they came. What a worker has no room for is dropped by
//! name.

mod cli;
mod config;
mod control;
mod node;

pub use control::{Handoff, HandoffError, NoWorkers, Workers, of, set};

use graph::{Behaviour, InterfaceIndex};
use router::capability::{Description, FeatureSpec, Part, Phase, Starting};
use router::{Error, Router};

pub const CAPABILITY: Description = Description {
    name: "handoff",
    codes: &[HandoffError::CODES],
    description: "Packets of an interface shared out among workers by flow",
    nodes: &[node::NODE],
    features: &[FeatureSpec::new(drivers::input::ARC, node::NODE, shared_out)],
    start,
    hears: control::hears,
    commands: cli::register,
    statements: &[(Phase::OnInterfaces, Part::Few(config::statements))],
    ..Description::NONE
};

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let shares = starting.per_interface();
    starting.own(control::Handoffs::new(shares.clone()));
    let node = move |_| Behaviour::Map(Box::new(node::WorkerHandoff::new(shares.clone())));
    starting.graph.register(node::spec(), node)?;
    Ok(())
}

fn shared_out(router: &Router, interface: InterfaceIndex) -> String {
    of(router, interface).map_or(String::new(), |handoff| format!("workers {handoff}"))
}
