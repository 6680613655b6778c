//! What the core itself has as a capability: interfaces, routes and neighbours with their nodes and commands.

use super::{Chapter, Description, OUTPUT, Part, Phase, Stage, Starting, TX, Tick};
use crate::Error;
use crate::addresses::AddressError;
use crate::interface::exit::Exit;
use crate::interface::ip6::Ip6Error;
use crate::interface::unnumbered::UnnumberedError;
use crate::interface::{self, InterfaceError, inject, output, standing};
use crate::ip::labels::control::MplsError;
use crate::ip::next_hop::NextHopError;
use crate::ip::objects::ObjectError;
use crate::ip::route::RouteError;
use crate::ip::stack::EncapsulationError;
use crate::ip::{self, flow_hash, vrf};
use crate::ip::{TableError, TableFull};
use crate::neighbour;
use crate::neighbour::arping::Arpings;
use crate::neighbour::policy::RangeError;
use crate::neighbour::resolver::Resolvers;
use graph::Behaviour;

/// The capabilities of this crate.
pub const CAPABILITIES: super::List = &[&INTERFACE, &IP, &NEIGHBOUR];

const INTERFACE: Description = Description {
    name: "interface",
    description: "Interfaces: their state, addresses and counters",
    nodes: &["interface-output", output::OUTPUT_ARC_END, OUTPUT, TX],
    arcs: &[(drivers::input::ARC, "ethernet-input"), (output::OUTPUT_ARC, output::OUTPUT_ARC_END)],
    log_classes: &[("interface", "interface"), ("addresses", "interface"), ("notice", "interface")],
    start: start_interfaces,
    codes: &[Error::CODES, InterfaceError::CODES, AddressError::CODES, UnnumberedError::CODES, Ip6Error::CODES],
    commands: interface::cli::register,
    statements: &[(Phase::Interfaces, Part::Many(interface::config::statements))],
    ticks: &[Tick::new(|router, now| router.tick_links(now), |router| router.links.next_due())],
    values: &[("interface", |router| router.interfaces.iter().map(|interface| interface.name.clone()).collect())],
    chapters: &[
        Chapter {
            stage: Stage::Receiving,
            title: "Devices, receiving",
            about: "Frames that a driver could not receive from its device, or the packet generator from its streams.",
            nodes: &[],
        },
        Chapter {
            stage: Stage::Sending,
            title: "Interfaces, sending",
            about: "The last nodes of a packet. `INTERFACE` stands for the name: each interface has these nodes.",
            nodes: &["interface-output", output::OUTPUT_ARC_END, OUTPUT, TX, "control-input"],
        },
    ],
    ..Description::NONE
};

fn start_interfaces(starting: &mut Starting<'_>) -> Result<(), Error> {
    let (view, of_end) = (starting.core.view.clone(), starting.core.view.clone());
    let end = move |_| Behaviour::Map(Box::new(output::ArcEnd::new(of_end.clone())));
    let end = starting.graph.register(output::ArcEnd::spec(), end)?;
    starting.leaves(Exit::Device, end, None);
    let output = move |_| Behaviour::Map(Box::new(output::Demultiplex::new(view.clone())));
    let output = starting.graph.register(output::Demultiplex::spec(), output)?;
    starting.leaves(Exit::Frames, output, None);
    let inject = |_| Behaviour::Expand(Box::<inject::Inject>::default());
    let inject = starting.graph.register(inject::spec(), inject)?;
    starting.own(standing::Detecting::default());
    starting.own(interface::Nodes { inject });
    Ok(())
}

const IP: Description = Description {
    name: "ip",
    flags: ip::REASSEMBLED,
    log_classes: &[("ip", "ip")],
    codes: &[
        RouteError::CODES,
        NextHopError::CODES,
        TableError::CODES,
        TableFull::CODES,
        ObjectError::CODES,
        EncapsulationError::CODES,
        MplsError::CODES,
    ],
    commands: ip::cli::register,
    statements: &[
        (Phase::Tables, Part::Few(vrf::statements)),
        (Phase::Tables, Part::Few(flow_hash::statements)),
        (Phase::Routes, Part::Few(ip::config::statements)),
        (Phase::Routes, Part::Many(ip::config::routes)),
        (Phase::Limits, Part::Few(vrf::limits)),
    ],
    ..Description::NONE
};

const NEIGHBOUR: Description = Description {
    name: "neighbour",
    codes: &[RangeError::CODES],
    log_classes: &[("neighbour", "neighbor")], // as commands spell it
    start: |starting| {
        starting.own(Resolvers::default());
        starting.own(Arpings::default());
        Ok(())
    },
    commands: neighbour::cli::register,
    statements: &[
        (Phase::Neighbours, Part::Few(neighbour::config::limits)),
        (Phase::Neighbours, Part::Many(neighbour::config::statements)),
    ],
    ticks: &[
        Tick::new(|router, now| router.tick_neighbours(now), |router| router.neighbours.next_due()),
        Tick::new(|router, now| router.tick_arpings(now), |router| router.state::<Arpings>().next_due()),
    ],
    ..Description::NONE
};
