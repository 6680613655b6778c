//! `show runtime`: what each node did since the last clear, as VPP prints it.

use super::Clears;
use super::task::Task;
use command::table::centred;
use command::{Args, Command, CommandError, CommandSet, Done, Reply, reply};
use graph::registry::NodeInfo;
use graph::worker::thread_name;
use graph::worker::worker_word;
use graph::{NodeIndex, time};
use router::Router;
use serde::Serialize;
use std::fmt;
use std::time::Instant;

pub fn register(set: &mut CommandSet<Router>) {
    // Operators type 'show run', which must not begin to mean something else as well.
    for name in ["show runtime", "show run"] {
        set.add(Command::new(
            &format!("{name} [{{summary|max|time|total|rounds : view}}] [verbose] [<node:word>]"),
            "Show calls, packets and clocks of nodes, by worker; `max`: the costliest call; `time`: in ns; `total`: \
             all workers together; `rounds`: the duration of rounds; `verbose`: idle nodes, too.",
            show,
        ));
    }
    set.add(Command::new("clear runtime", "Reset the counters of nodes.", |router: &mut Router, _: &Args| {
        router.graph.clear_runtime();
        router.state_mut::<Clears>().punts = (0..router.graph.workers()).map(|thread| punts(router, thread)).collect();
        router.state_mut::<Clears>().runtime = Instant::now();
        reply(Done)
    }));
}

/// Packets that a worker has handed to the host's control plane.
fn punts(router: &Router, thread: usize) -> u64 {
    router.interfaces.iter().map(|interface| router.counters.punts.raw(thread, interface.index.0 as usize, 0)).sum()
}

/// Which figures are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    Clocks,
    Time,
    Max,
    Summary,
    Total,
    Rounds,
}

fn show(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let view = match args.optional_text("view") {
        Some("summary") => View::Summary,
        Some("max") => View::Max,
        Some("time") => View::Time,
        Some("total") => View::Total,
        Some("rounds") => View::Rounds,
        _ => View::Clocks,
    };
    let only = args.optional_text("node").map(|name| router.graph.find(name)).transpose()?;
    let threads = (0..router.graph.workers()).map(|thread| {
        let mut shown = ShownThread::of(router, thread, only, args.flag("verbose"));
        if matches!(view, View::Summary | View::Rounds) {
            shown.nodes.clear();
        }
        shown
    });
    let mut threads: Vec<ShownThread> = threads.collect();
    if view == View::Total {
        threads = threads.into_iter().reduce(ShownThread::together).into_iter().collect();
    }
    reply(ShowRuntime { view, threads })
}

#[derive(Serialize)]
struct ShownNode {
    name: String,
    state: &'static str,
    calls: u64,
    /// Calls that had packets.
    #[serde(skip)]
    filled: u64,
    #[serde(skip)]
    all_clocks: u64,
    vectors: u64,
    suspends: u64,
    /// Clocks a packet, or a call when there was no packet; the same in nanoseconds.
    clocks: f64,
    nanoseconds: f64,
    vectors_per_call: f64,
    /// Of the costliest call: its clocks, its packets, clocks a packet.
    max_node_clocks: u64,
    vectors_at_max: u64,
    max_clocks: f64,
}

impl ShownNode {
    fn of(router: &Router, thread: usize, node: &NodeInfo) -> ShownNode {
        let run = router.graph.runtime(thread, node.index);
        // As VPP does: clocks a packet, or a call when there was none.
        let per = if run.packets > 0 { run.packets } else { run.calls.max(1) };
        // The worker counts on between the two readings.
        let filled = run.calls.saturating_sub(run.empty);
        let clocks = run.clocks as f64 / per as f64;
        ShownNode {
            name: node.name.clone(),
            state: router.graph.node_state(thread, node.index).name(),
            calls: run.calls,
            filled,
            all_clocks: run.clocks,
            vectors: run.packets,
            suspends: 0,
            clocks,
            nanoseconds: clocks / time::ticks_per_second() * 1e9,
            vectors_per_call: ratio(run.packets, filled),
            max_node_clocks: run.max_clocks,
            vectors_at_max: run.max_packets,
            max_clocks: ratio(run.max_clocks, run.max_packets),
        }
    }

    /// Whether it has something to show.
    fn has_run(&self, router: &Router) -> bool {
        let idles = |node| router.capabilities().iter().any(|capability| (capability.idles)(router, node));
        self.calls > 0 && !(self.vectors == 0 && router.graph.find(&self.name).is_ok_and(idles))
    }
}

impl ShownNode {
    /// The figures of two workers' as if one had had them.
    fn add(&mut self, other: ShownNode) {
        let clocks = self.all_clocks + other.all_clocks;
        self.calls += other.calls;
        self.filled += other.filled;
        self.vectors += other.vectors;
        self.all_clocks = clocks;
        self.clocks = clocks as f64 / (if self.vectors > 0 { self.vectors } else { self.calls.max(1) }) as f64;
        self.nanoseconds = self.clocks / time::ticks_per_second() * 1e9;
        self.vectors_per_call = ratio(self.vectors, self.filled);
        if other.max_node_clocks > self.max_node_clocks {
            self.max_node_clocks = other.max_node_clocks;
            self.vectors_at_max = other.vectors_at_max;
            self.max_clocks = other.max_clocks;
        }
        if self.state != other.state {
            self.state = "any";
        }
    }
}

fn ratio(value: u64, per: u64) -> f64 {
    if per > 0 { value as f64 / per as f64 } else { 0.0 }
}

/// Rounds that took about as long.
#[derive(Serialize)]
struct RoundTimes {
    /// Less than this, and at least half of it.
    microseconds: f64,
    rounds: u64,
}

#[derive(Serialize)]
struct ShownThread {
    /// None: all workers together.
    thread: Option<usize>,
    name: String,
    /// The processor that it ran on last; none when no thread of its own runs it.
    lcore: Option<u32>,
    seconds: f64,
    vector_rate: f64,
    loops_per_second: f64,
    rate_in: f64,
    rate_out: f64,
    rate_drop: f64,
    rate_punt: f64,
    sleeps: u64,
    /// Packets and calls of nodes that are no sources.
    #[serde(skip)]
    internal: (u64, u64),
    /// By how long they took, from the shortest to the longest.
    rounds: Vec<RoundTimes>,
    nodes: Vec<ShownNode>,
}

impl ShownThread {
    fn of(router: &Router, thread: usize, only: Option<NodeIndex>, idle_too: bool) -> ShownThread {
        let seconds = router.state::<Clears>().runtime.elapsed().as_secs_f64();
        let word = |word| router.graph.counters().workers.value(thread, word, 0) as f64;
        let rate = |value: f64| value / seconds;
        let all = router.graph.nodes();
        let internal = all.iter().filter(|node| node.kind != "input").map(|node| ShownNode::of(router, thread, node));
        let (packets, calls) = internal.fold((0, 0), |(p, c), node| (p + node.vectors, c + node.filled));
        let wanted = all.iter().filter(|node| only.is_none_or(|only| only == node.index));
        let nodes = wanted.map(|node| ShownNode::of(router, thread, node));
        let cleared = router.state::<Clears>().punts.get(thread).copied().unwrap_or(0);
        ShownThread {
            thread: Some(thread + 1),
            name: thread_name(thread),
            lcore: router.graph.worker_lwp(thread).and_then(Task::of).map(|task| task.processor),
            seconds,
            vector_rate: ratio(packets, calls),
            loops_per_second: rate(word(worker_word::ROUNDS)),
            rate_in: rate(word(worker_word::RECEIVED) + word(worker_word::ORIGINATED)),
            rate_out: rate(word(worker_word::SENT)),
            rate_drop: rate(word(worker_word::DROPPED)),
            rate_punt: rate(punts(router, thread).saturating_sub(cleared) as f64),
            sleeps: word(worker_word::SLEEPS) as u64,
            rounds: router.graph.round_times(thread).into_iter().map(RoundTimes::of).collect(),
            internal: (packets, calls),
            nodes: nodes.filter(|node| idle_too || only.is_some() || node.has_run(router)).collect(),
        }
    }

    /// Two workers as if they were one.
    fn together(mut self, other: ShownThread) -> ShownThread {
        (self.thread, self.lcore) = (None, None);
        self.name = format!("{}, {}", self.name, other.name);
        self.internal = (self.internal.0 + other.internal.0, self.internal.1 + other.internal.1);
        self.vector_rate = ratio(self.internal.0, self.internal.1);
        self.loops_per_second += other.loops_per_second;
        self.rate_in += other.rate_in;
        self.rate_out += other.rate_out;
        self.rate_drop += other.rate_drop;
        self.rate_punt += other.rate_punt;
        self.sleeps += other.sleeps;
        for times in other.rounds {
            match self.rounds.iter_mut().find(|known| known.microseconds >= times.microseconds) {
                Some(known) if known.microseconds == times.microseconds => known.rounds += times.rounds,
                _ => self.rounds.push(times),
            }
        }
        self.rounds.sort_by(|a, b| a.microseconds.total_cmp(&b.microseconds));
        for node in other.nodes {
            match self.nodes.iter_mut().find(|known| known.name == node.name) {
                Some(known) => known.add(node),
                None => self.nodes.push(node),
            }
        }
        self.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        self
    }

    fn write_heading(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lcore = self.lcore.map(|lcore| format!(" (lcore {lcore})")).unwrap_or_default();
        match self.thread {
            Some(thread) => writeln!(f, "Thread {thread} {}{lcore}", self.name)?,
            None => writeln!(f, "All threads: {}", self.name)?,
        }
        writeln!(
            f,
            "Time {:.1}, {:.6} sec internal node vector rate {:.2} loops/sec {:.2}",
            self.seconds, self.seconds, self.vector_rate, self.loops_per_second
        )?;
        writeln!(
            f,
            "  vector rates in {:.4e}, out {:.4e}, drop {:.4e}, punt {:.4e}",
            self.rate_in, self.rate_out, self.rate_drop, self.rate_punt
        )
    }

    fn write_rounds(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: u64 = self.rounds.iter().map(|times| times.rounds).sum();
        writeln!(f, "{:>24}{:>16}{:>10}", "Rounds of less than", "Rounds", "Share")?;
        for RoundTimes { microseconds, rounds } in &self.rounds {
            let share = 100.0 * ratio(*rounds, all);
            writeln!(f, "{:>24}{rounds:>16}{share:>9.3}%", format!("{microseconds:.2} us"))?;
        }
        Ok(())
    }

    /// VPP's 30 columns, unless a name needs more: then all lines have as many.
    fn name_width(&self) -> usize {
        self.nodes.iter().map(|node| node.name.chars().count() + 1).max().unwrap_or(0).max(30)
    }

    /// VPP's columns, to the space.
    fn write_runs(&self, f: &mut fmt::Formatter<'_>, cost: &str, of: fn(&ShownNode) -> f64) -> fmt::Result {
        let names = self.name_width();
        write!(f, "{}{}", centred("Name", names), centred("State", 12))?;
        for title in ["Calls", "Vectors", "Suspends", cost, "Vectors/Call"] {
            write!(f, "{}", centred(title, 16))?;
        }
        writeln!(f)?;
        for node in &self.nodes {
            // VPP's column has no room for more.
            let state = centred(&node.state[..node.state.len().min(12)], 12);
            writeln!(
                f,
                "{:<names$}{state}{:>16}{:>16}{:>16}{:>16.2e}{:>16.2}",
                node.name,
                node.calls,
                node.vectors,
                node.suspends,
                of(node),
                node.vectors_per_call
            )?;
        }
        Ok(())
    }

    fn write_maxima(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WIDTHS: [usize; 5] = [17, 16, 16, 16, 16];
        let names = self.name_width();
        write!(f, "{}", centred("Name", names))?;
        let titles = ["Max Node Clocks", "Vectors at Max", "Max Clocks", "Avg Clocks", "Avg Vectors/Call"];
        for (title, width) in titles.into_iter().zip(WIDTHS) {
            write!(f, "{}", centred(title, width))?;
        }
        writeln!(f)?;
        for node in &self.nodes {
            write!(f, "{:<names$}", node.name)?;
            let figures = [
                format!("{:.2e}", node.max_node_clocks as f64),
                node.vectors_at_max.to_string(),
                format!("{:.2e}", node.max_clocks),
                format!("{:.2e}", node.clocks),
                format!("{:.2e}", node.vectors_per_call),
            ];
            for (figure, width) in figures.iter().zip(WIDTHS) {
                write!(f, "{}", centred(figure, width))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl RoundTimes {
    fn of((ticks, rounds): (u64, u64)) -> RoundTimes {
        RoundTimes { microseconds: time::seconds(ticks) * 1e6, rounds }
    }
}

#[derive(Serialize)]
struct ShowRuntime {
    #[serde(skip)]
    view: View,
    threads: Vec<ShownThread>,
}

impl fmt::Display for ShowRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, thread) in self.threads.iter().enumerate() {
            if position > 0 {
                writeln!(f, "---------------")?;
            }
            thread.write_heading(f)?;
            match self.view {
                View::Summary => {}
                View::Max => thread.write_maxima(f)?,
                View::Rounds => thread.write_rounds(f)?,
                View::Clocks | View::Total => thread.write_runs(f, "Clocks", |node| node.clocks)?,
                View::Time => thread.write_runs(f, "Packet-Time", |node| node.nanoseconds)?,
            }
        }
        Ok(())
    }
}
