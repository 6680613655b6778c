//! `trace add`, `show trace`: single packets on their way.

use super::Clears;
use super::trace_filter::Filtering;
use super::trace_filter::notice;
use super::unresolved::waiting;
use command::{Args, Command, CommandError, CommandSet, Done, Reply, Text, fail, reply};
use graph::trace::MAX_TRACED;
use graph::worker::thread_name;
use graph::{Core, Snapshot, edge, time};
use router::Router;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Packets that `show trace` prints by default, as VPP does.
const SHOWN: usize = 50;
/// Recorded steps that a worker looks through at a time.
const PAGE: usize = 4096;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "trace add <node:node> <count:u32 1..> [verbose]",
            "Trace the next packets of an input node.",
            |router: &mut Router, args: &Args| {
                let name = args.text("node")?;
                let node = router.graph.find(name)?;
                if router.graph.info(node).is_none_or(|info| info.kind != "input") {
                    return fail(format!("'{name}' is not an input node; packets are marked where they enter"));
                }
                let count = args.parse::<u32>("count")?.min(MAX_TRACED);
                router.graph.call(|_| Box::new(move |core| core.tracer.arm(node, count)));
                reply(Text(router.state::<Filtering>().0.as_ref().map(notice).unwrap_or_default()))
            },
        )
        .example("trace add af-packet-input 10"),
    );
    set.add(Command::new("show trace [max <max:u32 1..>]", "Show the traced packets.", show));
    set.add(Command::new("clear trace", "Clear the trace.", |router: &mut Router, _: &Args| {
        router.graph.call(|_| Box::new(|core| core.tracer.clear()));
        reply(Done)
    }));
}

fn show(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let most = args.optional::<usize>("max")?.unwrap_or(SHOWN);
    let records: Vec<_> = (0..router.graph.workers()).map(|thread| recorded(router, thread, most)).collect();
    // By the worker that marked them, because another worker may have gone on with them.
    let mut packets: BTreeMap<(usize, u32), Vec<(usize, &Snapshot)>> = BTreeMap::new();
    for (thread, (steps, _)) in records.iter().enumerate() {
        for step in steps {
            packets.entry((step.marked_by(), step.number())).or_default().push((thread, step));
        }
    }
    let mut threads = Vec::new();
    for (thread, (_, unheard)) in records.iter().enumerate() {
        let of_thread = packets.range_mut((thread, 0)..=(thread, u32::MAX));
        let packets = of_thread.map(|((_, number), steps)| TracedPacket::of(router, *number, thread, steps));
        let (number, name) = (thread + 1, thread_name(thread));
        threads.push(TracedThread { thread: number, name, unheard: unheard.clone(), packets: packets.collect() });
    }
    reply(ShowTrace { filter: router.state::<Filtering>().0.as_ref().map(notice), threads })
}

impl TracedPacket {
    /// A packet from the steps of all workers, in any order. The worker `marked_by` marked it.
    fn of(router: &Router, number: u32, marked_by: usize, steps: &mut [(usize, &Snapshot)]) -> TracedPacket {
        steps.sort_by_key(|(_, step)| step.ticks);
        let mut before = marked_by;
        let steps = steps.iter().map(|(thread, step)| {
            let mut traced = traced(router, step);
            if *thread != before {
                let (number, name) = (thread + 1, thread_name(*thread));
                traced.text.insert_str(0, &format!("  handed over to thread {number} {name}\n"));
                before = *thread;
            }
            traced
        });
        TracedPacket { number, steps: steps.collect() }
    }
}

/// What a worker recorded of its first packets; and the error, if it did not answer.
///
/// The worker copies the steps that are shown a page at a time, and forwards packets between two pages: a full buffer
/// is hundreds of megabytes.
fn recorded(router: &Router, thread: usize, most: usize) -> (Vec<Snapshot>, Option<String>) {
    let shown = move |step: &&Snapshot| step.number() as usize <= most;
    let (mut steps, mut from, mut end) = (Vec::new(), 0, usize::MAX);
    while from < end {
        let page = move |core: &mut Core| {
            let all = core.tracer.steps();
            let page: Vec<Snapshot> = all.iter().skip(from).take(PAGE).filter(shown).cloned().collect();
            (page, all.len())
        };
        match router.graph.ask(thread, page) {
            Ok((page, there)) => {
                steps.extend(page);
                // Steps that are recorded meanwhile are left to the next `show trace`.
                end = end.min(there);
                from += PAGE;
            }
            Err(error) => return (steps, Some(error.to_string())),
        }
    }
    (steps, None)
}

fn traced(router: &Router, step: &Snapshot) -> TracedStep {
    let mut text = String::new();
    let name = match router.graph.info(step.node) {
        Some(info) => {
            // Writing to a string cannot fail.
            let _ = (info.trace)(step, &mut text);
            if let Some(whose) = router.capabilities().iter().find_map(|capability| (capability.traces)(router, step)) {
                text = format!("  {whose}, {}", text.trim_start());
            }
            if let Some(edge) = info.edges.get(step.edge as usize).filter(|edge| edge.is_drop) {
                let what = if edge.is_end { "done" } else { "dropped" };
                let _ = writeln!(text, "  {what}: {}", edge.to);
            }
            if step.edge == edge::TAKEN {
                let _ = writeln!(text, "  {}: {}", info.name, waiting(router, step));
            }
            info.name.clone()
        }
        None => "(removed node)".into(),
    };
    TracedStep { seconds: time::seconds(step.ticks.saturating_sub(router.state::<Clears>().origin)), node: name, text }
}

#[derive(Serialize)]
struct TracedStep {
    /// Seconds since the router started.
    seconds: f64,
    node: String,
    text: String,
}

#[derive(Serialize)]
struct TracedPacket {
    number: u32,
    steps: Vec<TracedStep>,
}

#[derive(Serialize)]
struct TracedThread {
    thread: usize,
    name: String,
    /// Why the worker's packets are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    unheard: Option<String>,
    packets: Vec<TracedPacket>,
}

#[derive(Serialize)]
struct ShowTrace {
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
    threads: Vec<TracedThread>,
}

impl fmt::Display for ShowTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for thread in &self.threads {
            writeln!(f, "------------------- Start of thread {} {} -------------------", thread.thread, thread.name)?;
            if let Some(why) = &thread.unheard {
                writeln!(f, "{why}")?;
                continue;
            }
            if thread.packets.is_empty() {
                writeln!(f, "No packets in trace buffer")?;
                f.write_str(self.filter.as_deref().unwrap_or_default())?;
            }
            for packet in &thread.packets {
                writeln!(f, "Packet {}\n", packet.number)?;
                for step in &packet.steps {
                    let whole = step.seconds as u64;
                    let micros = (step.seconds.fract() * 1e6) as u64;
                    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
                    writeln!(f, "{hours:02}:{minutes:02}:{seconds:02}:{micros:06}: {}", step.node)?;
                    f.write_str(&step.text)?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
