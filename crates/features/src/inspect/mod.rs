//! Looking inside: what nodes did, where packets went and why, what is held.

mod clock;
mod control;
mod cpu;
mod errors;
mod files;
mod hardware;
mod meanings;
mod memory;
mod nodes;
mod placement;
mod runtime;
mod stall_watch;
mod task;
mod threads;
mod trace;
mod trace_filter;
mod unresolved;
mod version;
mod vlib_graph;

pub use meanings::{Meaning, errors_guide, meanings};
pub use stall_watch::StallWatch;
use trace_filter::Filtering;
pub use trace_filter::TraceFilter;
pub(crate) use trace_filter::predicate;

use command::table::centred;
use command::{Args, Command, CommandSet, reply};
use graph::time;
use router::Router;
use router::capability::{Description, Tick};
use serde::Serialize;
use std::fmt;
use std::time::Instant;

pub const CAPABILITY: Description = Description {
    name: "inspect",
    log_classes: &[("inspect", "inspect")],
    start: |starting| {
        starting.own(Clears::default());
        starting.own(StallWatch::default());
        starting.own(Filtering::default());
        Ok(())
    },
    commands: register,
    ticks: &[Tick::new(stall_watch::tick_stalls, |router| router.state::<StallWatch>().next_due())],
    values: &[("node", |router| router.graph.nodes().iter().map(|node| node.name.clone()).collect())],
    ..Description::NONE
};

/// The program's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// When counters were cleared, and what else has to be subtracted since.
pub struct Clears {
    pub runtime: Instant,
    /// Punted packets until then, by worker.
    pub punts: Vec<u64>,
    /// The time that traces count from, in ticks.
    pub origin: u64,
}

impl Default for Clears {
    fn default() -> Clears {
        Clears { runtime: Instant::now(), punts: Vec::new(), origin: time::ticks() }
    }
}

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Looking inside",
        "Inspect the running router: the work of nodes, where packets went and why, single \
     packets on their way.",
    );
    runtime::register(set);
    errors::register(set);
    trace::register(set);
    trace_filter::register(set);
    nodes::register(set);
    vlib_graph::register(set);
    router::interface::features::register(set);
    placement::register(set);
    hardware::register(set);
    threads::register(set);
    control::register(set);
    cpu::register(set);
    clock::register(set);
    memory::register(set);
    files::register(set);
    version::register(set);
    set.add(Command::new(
        "show buffers",
        "Show packet buffers: in the pool, in caches, in use.",
        |router: &mut Router, _: &Args| reply(buffers(router)),
    ));
    set.add(Command::new(
        "show ledger",
        "Show the packet ledger: where every packet went. It must balance.",
        |router: &mut Router, _: &Args| {
            let ledger = router.graph.ledger();
            let graph::Ledger { received, originated, sent, dropped, consumed, held, .. } = ledger;
            reply(ShowLedger { received, originated, sent, dropped, consumed, held, balanced: ledger.is_balanced() })
        },
    ));
}

fn buffers(router: &Router) -> ShowBuffers {
    use graph::worker::worker_word::{BUFFERS_CACHED, BUFFERS_IN_USE};
    let pool = router.graph.pool();
    // A worker may have freed more than it took: packets change workers.
    let of = |word| (0..router.graph.workers()).map(move |thread| router.graph.counters().workers.raw(thread, word, 0));
    let sum = |word| of(word).fold(0, u64::wrapping_add);
    let (cached, used) = (sum(BUFFERS_CACHED), sum(BUFFERS_IN_USE).wrapping_sub(pool.returned()));
    ShowBuffers {
        pool: "default-numa-0",
        size: graph::buffer::STRIDE,
        data_size: graph::buffer::DATA_SIZE,
        total: pool.capacity() as u64,
        available: (pool.capacity() as u64).saturating_sub(cached + used),
        cached,
        used,
        lent: router.interfaces.iter().map(|interface| interface.link.lent()).sum(),
        pages: if pool.huge { "huge" } else { "plain" },
    }
}

#[derive(Serialize)]
struct ShowBuffers {
    pool: &'static str,
    size: usize,
    data_size: usize,
    total: u64,
    available: u64,
    cached: u64,
    used: u64,
    /// Of those used: which devices have, to write what arrives to and being sent.
    lent: u64,
    pages: &'static str,
}

impl fmt::Display for ShowBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShowBuffers { pool, size, data_size, total, available, cached, used, lent, .. } = self;
        writeln!(f, "Pool Name            Index NUMA  Size  Data Size  Total  Avail  Cached   Used  ")?;
        write!(f, "{pool:<20}{}{}", centred("0", 6), centred("0", 6))?;
        write!(f, "{}{}", centred(&size.to_string(), 7), centred(&data_size.to_string(), 11))?;
        for (count, width) in [(total, 7), (available, 7), (cached, 8), (used, 8)] {
            write!(f, "{}", centred(&count.to_string(), width))?;
        }
        writeln!(f)?;
        if *lent > 0 {
            writeln!(f, "  {lent} of those used are with devices, to receive by or being sent")?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct ShowLedger {
    received: u64,
    originated: u64,
    sent: u64,
    dropped: u64,
    consumed: u64,
    held: u64,
    balanced: bool,
}

impl fmt::Display for ShowLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in [("received", self.received), ("originated", self.originated)] {
            writeln!(f, "  {name:<12}{count:>20}")?;
        }
        for (name, count) in
            [("sent", self.sent), ("dropped", self.dropped), ("consumed", self.consumed), ("held", self.held)]
        {
            writeln!(f, "- {name:<12}{count:>20}")?;
        }
        writeln!(f, "{}", if self.balanced { "balanced" } else { "NOT BALANCED" })
    }
}
