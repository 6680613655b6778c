//! `show runtime`: what each node did since the last clear, as VPP prints it.

use crate::Router;
use command::table::centred;
use command::{Args, Command, CommandError, CommandSet, Done, Reply, reply};
use graph::worker::worker_word;
use serde::Serialize;
use std::fmt;
use std::time::Instant;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(Command::new(
        "show runtime",
        "Calls, packets and clocks of every node, by worker.",
        |router: &mut Router, _: &Args| show(router),
    ));
    set.add(Command::new("clear runtime", "Make node counters read zero.", |router: &mut Router, _: &Args| {
        let counters = router.graph.counters().clone();
        counters.nodes.clear(router.graph.nodes().iter().map(|node| node.index.0 as usize));
        counters.workers.clear(0..worker_word::COUNT);
        router.clears.runtime = Instant::now();
        reply(Done)
    }));
}

fn show(router: &Router) -> Result<Box<dyn Reply>, CommandError> {
    let seconds = router.clears.runtime.elapsed().as_secs_f64();
    let threads = (0..router.graph.workers()).map(|thread| {
        let word = |word| router.graph.counters().workers.value(thread, word, 0) as f64;
        let rate = |value: f64| value / seconds;
        let mut nodes = Vec::new();
        for node in router.graph.nodes() {
            let run = router.graph.runtime(thread, node.index);
            if run.calls == 0 {
                continue;
            }
            // As VPP does: clocks a packet, or a call when there was none.
            let per = if run.packets > 0 { run.packets } else { run.calls };
            // The worker counts on between the two readings.
            let calls = run.calls.saturating_sub(run.empty);
            nodes.push(ShownNode {
                name: node.name.clone(),
                state: if node.kind == "input" { "adaptive" } else { "active" },
                calls: run.calls,
                filled: calls,
                vectors: run.packets,
                suspends: 0,
                clocks: run.clocks as f64 / per as f64,
                vectors_per_call: if calls > 0 { run.packets as f64 / calls as f64 } else { 0.0 },
            });
        }
        let internal = nodes.iter().filter(|node| node.state == "active");
        let (packets, calls) = internal.fold((0, 0), |(p, c), node| (p + node.vectors, c + node.filled));
        ShownThread {
            thread: thread + 1,
            name: format!("quiver_wk_{thread}"),
            seconds,
            vector_rate: if calls > 0 { packets as f64 / calls as f64 } else { 0.0 },
            loops_per_second: rate(word(worker_word::ROUNDS)),
            rate_in: rate(word(worker_word::RECEIVED) + word(worker_word::ORIGINATED)),
            rate_out: rate(word(worker_word::SENT)),
            rate_drop: rate(word(worker_word::DROPPED)),
            rate_punt: 0.0,
            sleeps: word(worker_word::SLEEPS) as u64,
            nodes,
        }
    });
    reply(ShowRuntime { threads: threads.collect() })
}

#[derive(Serialize)]
struct ShownNode {
    name: String,
    state: &'static str,
    calls: u64,
    /// Calls that had packets.
    #[serde(skip)]
    filled: u64,
    vectors: u64,
    suspends: u64,
    clocks: f64,
    vectors_per_call: f64,
}

#[derive(Serialize)]
struct ShownThread {
    thread: usize,
    name: String,
    seconds: f64,
    vector_rate: f64,
    loops_per_second: f64,
    rate_in: f64,
    rate_out: f64,
    rate_drop: f64,
    rate_punt: f64,
    sleeps: u64,
    nodes: Vec<ShownNode>,
}

#[derive(Serialize)]
struct ShowRuntime {
    threads: Vec<ShownThread>,
}

impl fmt::Display for ShowRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, t) in self.threads.iter().enumerate() {
            if position > 0 {
                writeln!(f, "---------------")?;
            }
            writeln!(f, "Thread {} {}", t.thread, t.name)?;
            writeln!(
                f,
                "Time {:.1}, {:.6} sec internal node vector rate {:.2} loops/sec {:.2}",
                t.seconds, t.seconds, t.vector_rate, t.loops_per_second
            )?;
            writeln!(
                f,
                "  vector rates in {:.4e}, out {:.4e}, drop {:.4e}, punt {:.4e}",
                t.rate_in, t.rate_out, t.rate_drop, t.rate_punt
            )?;
            // VPP's columns, to the space.
            write!(f, "{}{}", centred("Name", 30), centred("State", 12))?;
            for title in ["Calls", "Vectors", "Suspends", "Clocks", "Vectors/Call"] {
                write!(f, "{}", centred(title, 16))?;
            }
            writeln!(f)?;
            for node in &t.nodes {
                let state = centred(node.state, 12);
                writeln!(
                    f,
                    "{:<30}{state}{:>16}{:>16}{:>16}{:>16.2e}{:>16.2}",
                    node.name, node.calls, node.vectors, node.suspends, node.clocks, node.vectors_per_call
                )?;
            }
        }
        Ok(())
    }
}
