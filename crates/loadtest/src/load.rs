//! What a router's workers did in a run: the figures that verdicts and charts are made of.

use graph::registry::Outcome;
use graph::time;
use graph::worker::worker_word;
use router::Router;
use serde::{Deserialize, Serialize};

/// A worker, since its router's counters were cleared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerLoad {
    pub worker: usize,
    pub seconds: f64,
    /// Clocks that it had in this time.
    pub clocks: f64,
    pub rounds: u64,
    /// Times that it waited for a device, as nothing had come.
    pub sleeps: u64,
    /// Nodes that did something.
    pub nodes: Vec<NodeLoad>,
}

/// A node on one worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeLoad {
    pub name: String,
    pub kind: Kind,
    pub calls: u64,
    /// Of these, those of a source that brought nothing.
    pub empty: u64,
    pub packets: u64,
    pub clocks: u64,
    /// Of these, those that no packet had: of calls that brought nothing, or during which the worker was preempted.
    #[serde(default)]
    pub idle_clocks: u64,
}

/// What a node is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It asks devices.
    Input,
    /// It hands packets to devices.
    Output,
    /// All between.
    Graph,
}

/// Parts of a worker's time; together they are one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Taking packets from devices.
    pub input: f64,
    pub graph: f64,
    pub output: f64,
    /// Asking devices that had nothing: idle polls.
    pub polling: f64,
    /// Asleep until a device has something (epoll), and between nodes.
    pub waiting: f64,
}

impl Shares {
    /// All but idle polls and waiting.
    pub fn busy(&self) -> f64 {
        self.input + self.graph + self.output
    }
}

impl NodeLoad {
    /// Packets of a call that brought some.
    pub fn vectors_per_call(&self) -> f64 {
        self.packets as f64 / ((self.calls - self.empty.min(self.calls)) as f64).max(1.0)
    }

    /// Clocks that packets had.
    pub fn busy_clocks(&self) -> f64 {
        self.clocks.saturating_sub(self.idle_clocks) as f64
    }
}

impl WorkerLoad {
    /// What a router's workers did since its counters were cleared, so many seconds ago.
    pub fn of(router: &Router, seconds: f64) -> Vec<WorkerLoad> {
        let graph = &router.graph;
        let of_worker = |worker: usize| {
            let nodes = graph.nodes().into_iter().filter_map(|node| {
                let run = graph.runtime(worker, node.index);
                let kind = kind(&node.name, node.kind == "input");
                (run.calls > 0).then(|| NodeLoad {
                    name: node.name.clone(),
                    kind,
                    calls: run.calls,
                    empty: run.empty,
                    packets: run.packets,
                    clocks: run.clocks,
                    idle_clocks: if kind == Kind::Input { run.idle_clocks } else { 0 },
                })
            });
            let word = |word| graph.counters().workers.value(worker, word, 0);
            WorkerLoad {
                worker,
                seconds,
                clocks: seconds * time::ticks_per_second(),
                rounds: word(worker_word::ROUNDS),
                sleeps: word(worker_word::SLEEPS),
                nodes: nodes.collect(),
            }
        };
        (0..graph.workers()).map(of_worker).collect()
    }

    /// What it did since an earlier time, so many seconds ago.
    pub fn since(&self, before: Option<&WorkerLoad>, seconds: f64) -> WorkerLoad {
        let node = |node: &NodeLoad| {
            let was = before.and_then(|before| before.nodes.iter().find(|was| was.name == node.name));
            let less = |of: fn(&NodeLoad) -> u64| of(node).saturating_sub(was.map_or(0, of));
            let (calls, empty) = (less(|node| node.calls), less(|node| node.empty));
            let (packets, clocks) = (less(|node| node.packets), less(|node| node.clocks));
            let idle_clocks = less(|node| node.idle_clocks);
            NodeLoad { name: node.name.clone(), kind: node.kind, calls, empty, packets, clocks, idle_clocks }
        };
        WorkerLoad {
            worker: self.worker,
            seconds,
            clocks: seconds * time::ticks_per_second(),
            rounds: self.rounds.saturating_sub(before.map_or(0, |before| before.rounds)),
            sleeps: self.sleeps.saturating_sub(before.map_or(0, |before| before.sleeps)),
            nodes: self.nodes.iter().map(node).collect(),
        }
    }

    /// Packets that devices brought.
    pub fn received(&self) -> u64 {
        self.inputs().map(|node| node.packets).sum()
    }

    fn inputs(&self) -> impl Iterator<Item = &NodeLoad> {
        self.nodes.iter().filter(|node| node.kind == Kind::Input)
    }

    /// Packets in a call of the busiest input: 256 is as many as a vector holds.
    pub fn vectors_per_call(&self) -> f64 {
        self.inputs().max_by_key(|node| node.packets).map_or(0.0, NodeLoad::vectors_per_call)
    }

    /// The share of its time in which it asked devices that had nothing. Not of its polls: a vector takes the time of
    /// thousands that find nothing.
    pub fn idle_polls(&self) -> f64 {
        self.inputs().map(|node| node.idle_clocks as f64).sum::<f64>() / self.clocks.max(1.0)
    }

    /// Clocks of each packet, node by node, without those of idle polls.
    pub fn clocks_per_packet(&self) -> f64 {
        self.nodes.iter().map(NodeLoad::busy_clocks).sum::<f64>() / (self.received() as f64).max(1.0)
    }

    pub fn shares(&self) -> Shares {
        let mut shares = Shares::default();
        for node in &self.nodes {
            let busy = node.busy_clocks() / self.clocks;
            shares.polling += node.idle_clocks as f64 / self.clocks;
            match node.kind {
                Kind::Input => shares.input += busy,
                Kind::Graph => shares.graph += busy,
                Kind::Output => shares.output += busy,
            }
        }
        shares.waiting = (1.0 - shares.input - shares.graph - shares.output - shares.polling).max(0.0);
        shares
    }
}

fn kind(name: &str, is_source: bool) -> Kind {
    match name {
        _ if is_source => Kind::Input,
        _ if name.ends_with("-tx") || name.ends_with("-output") => Kind::Output,
        _ => Kind::Graph,
    }
}

/// Packets that a router lost by one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    pub node: String,
    pub reason: String,
    pub packets: u64,
}

impl Lost {
    /// What a router dropped since its error counters were cleared.
    pub fn of(router: &Router) -> Vec<Lost> {
        let counters = &router.graph.counters().errors;
        let errors = router.graph.errors();
        let counted = errors.iter().enumerate().map(|(number, error)| (error, counters.sum(number, 0)));
        let lost = counted.filter(|(error, packets)| *packets > 0 && error.outcome == Outcome::Dropped);
        lost.map(|(error, packets)| Lost { node: error.node.clone(), reason: error.reason.clone(), packets }).collect()
    }

    /// It was to leave.
    pub fn is_output(&self) -> bool {
        self.node.ends_with("-tx")
    }
}
