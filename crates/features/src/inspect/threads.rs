//! `show threads`: the control thread and the workers, where they run, and whether a
//! worker keeps the others waiting.

use super::stall_watch;
use super::stall_watch::Stuck;
use super::task::Task;
use graph::worker::thread_name;
use router::Router;

use command::table::{Align, Table};
use command::{Args, Command, CommandSet, reply};
use graph::WorkerState;
use graph::worker::worker_word;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::fmt;
use std::fs;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(Command::new(
        "show threads",
        "Show threads, their cores and their current work.",
        |router: &mut Router, _: &Args| {
            let mut threads = vec![control_thread()];
            threads.extend((0..router.graph.workers()).map(|thread| worker(router, thread)));
            reply(ShowThreads { threads, retired: router.graph.domain().pending() })
        },
    ));
}

/// Whoever carries out a command is the control thread.
fn control_thread() -> ShownThread {
    let task = Task::current();
    let name = task.as_ref().map_or_else(|| "control".into(), |task| task.name.clone());
    ShownThread {
        id: 0,
        name,
        kind: "",
        place: Place::of(task),
        state: "",
        stalled_seconds: None,
        stuck: None,
        rounds: 0,
        sleeps: 0,
    }
}

fn worker(router: &Router, thread: usize) -> ShownThread {
    let (state, stalled) = match router.graph.worker_state(thread) {
        WorkerState::NotStarted => ("not started", None),
        WorkerState::Online => ("online", None),
        WorkerState::Asleep => ("asleep", None),
        WorkerState::Stalled(time) => ("stalled", Some(time.as_secs_f64())),
    };
    let word = |word| router.graph.counters().workers.raw(thread, word, 0);
    ShownThread {
        id: thread + 1,
        name: thread_name(thread),
        kind: "workers",
        place: Place::of(router.graph.worker_lwp(thread).and_then(Task::of)),
        state,
        stalled_seconds: stalled,
        stuck: stalled.map(|_| ShownStuck(stall_watch::stuck_with(router, thread))),
        rounds: word(worker_word::ROUNDS),
        sleeps: word(worker_word::SLEEPS),
    }
}

/// Where a thread runs. What the system does not tell is left out.
#[derive(Default, Serialize)]
struct Place {
    lwp: Option<u32>,
    policy: Option<&'static str>,
    priority: Option<u32>,
    lcore: Option<u32>,
    core: Option<u32>,
    socket: Option<u32>,
}

impl Place {
    fn of(task: Option<Task>) -> Place {
        let Some(task) = task else { return Place::default() };
        let topology = |what: &str| {
            let file = format!("/sys/devices/system/cpu/cpu{}/topology/{what}", task.processor);
            fs::read_to_string(file).ok()?.trim().parse().ok()
        };
        Place {
            lwp: Some(task.lwp),
            policy: Some(task.policy),
            priority: Some(task.priority),
            lcore: Some(task.processor),
            core: topology("core_id"),
            socket: topology("physical_package_id"),
        }
    }
}

struct ShownStuck(Stuck);

impl Serialize for ShownStuck {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Stuck { node, packets, head } = &self.0;
        let mut fields = serializer.serialize_struct("Stuck", 3)?;
        fields.serialize_field("node", node)?;
        fields.serialize_field("packets", packets)?;
        fields.serialize_field("first_packet", &head.iter().map(|byte| format!("{byte:02x}")).collect::<String>())?;
        fields.end()
    }
}

#[derive(Serialize)]
struct ShownThread {
    id: usize,
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    place: Place,
    /// Of a worker: `online`, `asleep`, `stalled`, `not started`.
    state: &'static str,
    /// How long a stalled worker has been in one round.
    stalled_seconds: Option<f64>,
    /// In what, and with which packet.
    stuck: Option<ShownStuck>,
    rounds: u64,
    sleeps: u64,
}

#[derive(Serialize)]
struct ShowThreads {
    threads: Vec<ShownThread>,
    /// Replaced tables and objects that wait until every worker has begun another round.
    retired: usize,
}

impl fmt::Display for ShowThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new("");
        let columns = [
            ("ID", 7),
            ("Name", 20),
            ("Type", 12),
            ("LWP", 8),
            ("Sched Policy (Priority)", 25),
            ("lcore", 7),
            ("Core", 7),
            ("Socket", 7),
            ("State", 10),
        ];
        for (title, width) in columns {
            table = table.column(title, Align::Left, width);
        }
        let number = |number: Option<u32>| number.map_or(String::new(), |number| number.to_string());
        for ShownThread { id, name, kind, place, state, stalled_seconds, .. } in &self.threads {
            let policy =
                place.policy.map_or(String::new(), |policy| format!("{policy} ({})", place.priority.unwrap_or(0)));
            let state = match stalled_seconds {
                Some(seconds) => format!("stalled for {seconds:.1} s"),
                None => state.to_string(),
            };
            let (lwp, lcore) = (number(place.lwp), number(place.lcore));
            let (core, socket) = (number(place.core), number(place.socket));
            table.row([id.to_string(), format!("{name} "), kind.to_string(), lwp, policy, lcore, core, socket, state]);
        }
        write!(f, "{table}")?;
        for ShownThread { name, stuck, .. } in &self.threads {
            if let Some(ShownStuck(stuck)) = stuck {
                writeln!(f, "{name} is {stuck}")?;
            }
        }
        let stalled = self.threads.iter().filter(|thread| thread.stalled_seconds.is_some()).map(|thread| &*thread.name);
        let stalled: Vec<&str> = stalled.collect();
        if !stalled.is_empty() {
            writeln!(f, "{} retired objects wait for {}", self.retired, stalled.join(", "))?;
        }
        Ok(())
    }
}
