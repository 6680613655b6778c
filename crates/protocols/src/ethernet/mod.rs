//! Ethernet: what arrives is checked, its IPv4 header examined in the same pass, and
//! handed to the protocol that its ethertype names.

mod input;
mod llc;
mod snap;
mod station;

use graph::{Behaviour, Context, Row};
use router::Error;
use router::capability::{Chapter, Description, Stage, Starting};

pub const CAPABILITY: Description = Description {
    name: "ethernet",
    description: "Ethernet frames in, their IPv4 headers examined in the same pass",
    log_classes: &[("ethernet", "ethernet")],
    start,
    nodes: &["ethernet-input", "llc-input", "snap-input"],
    // A switch begins the second.
    arcs: &[("l2-input", "llc-input"), ("l2-output", "interface-output")],
    chapters: &[Chapter {
        stage: Stage::Link,
        title: "Ethernet",
        about: "Frames as they come from a device.",
        nodes: &["ethernet-input", "llc-input", "snap-input"],
    }],
    ..Description::NONE
};

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let Starting { graph, core, .. } = starting;
    let punts = core.counters.punts.clone();
    graph.register(llc::spec(), move |_| Behaviour::Map(Box::new(llc::LlcInput::new(punts.clone()))))?;
    let punts = core.counters.punts.clone();
    graph.register(snap::spec(), move |_| Behaviour::Map(Box::new(snap::SnapInput::new(punts.clone()))))?;
    let (view, fibs, rx) = (core.view.clone(), core.fibs.clone(), core.counters.rx.clone());
    let l2 = graph.arc("l2-input")?;
    graph.register(input::spec(), move |_| {
        Behaviour::Map(Box::new(input::EthernetInput::new(view.clone(), fibs.clone(), rx.clone(), l2)))
    })?;
    Ok(())
}

/// What the first buffer has of a packet from `l3` on.
fn head<'a>(cx: &'a Context<'_>, row: &Row) -> &'a [u8] {
    let (l2, l3) = (row.l2 as usize, row.l3 as usize);
    let end = l2 + row.first_length(cx.buffers);
    cx.buffers.bytes(row.packet).get(l3..end).unwrap_or(&[])
}
