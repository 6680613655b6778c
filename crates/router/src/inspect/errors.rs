//! `show errors`: drops and events by node and reason; `verbose`: by worker; `meaning`: and what each means.

use super::worker_name;
use crate::Router;
use command::table::{Align, Table, centred};
use command::{Args, Command, CommandError, CommandSet, Done, Reply, reply};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

pub fn register(set: &mut CommandSet<Router>) {
    // VPP knows them by both names.
    for name in ["show errors", "show node counters"] {
        set.add(Command::new(
            &format!("{name} [verbose] [meaning]"),
            "Drops and events, by node and reason; `verbose': by worker; `meaning': what each means, and what to do.",
            show,
        ));
    }
    set.add(Command::new("clear errors", "Make error counters read zero.", |router: &mut Router, _: &Args| {
        router.graph.counters().errors.clear(0..router.graph.errors().len());
        reply(Done)
    }));
}

fn show(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let counters = &router.graph.counters().errors;
    let threads = args.flag("verbose").then(|| {
        let of = |thread| ErrorsOfThread {
            thread: thread + 1,
            name: worker_name(thread),
            errors: collect(router, |number| counters.value(thread, number, 0)),
        };
        (0..router.graph.workers()).map(of).collect()
    });
    let errors = collect(router, |number| counters.sum(number, 0));
    reply(ShowErrors { errors, threads, meaning: args.flag("meaning") })
}

/// The errors that were counted.
fn collect(router: &Router, count: impl Fn(usize) -> u64) -> Vec<ShownError> {
    // A reason may stand twice: two interfaces had the name, one after the other.
    let mut sums: BTreeMap<(String, String), ShownError> = BTreeMap::new();
    for (index, error) in router.graph.errors().iter().enumerate() {
        let count = count(index);
        if count == 0 {
            continue;
        }
        let (node, reason) = (error.node.clone(), error.reason.clone());
        let severity = error.severity.to_string();
        let (outcome, meaning) = (error.outcome.to_string(), error.meaning);
        let first =
            ShownError { count: 0, node: node.clone(), reason: reason.clone(), severity, outcome, index, meaning };
        sums.entry((node, reason)).or_insert(first).count += count;
    }
    sums.into_values().collect()
}

#[derive(Serialize)]
struct ShownError {
    count: u64,
    node: String,
    reason: String,
    severity: String,
    /// Whether the packet is lost: `dropped`, `done`, `counted`.
    outcome: String,
    /// The number of its counter.
    index: usize,
    meaning: &'static str,
}

#[derive(Serialize)]
struct ErrorsOfThread {
    thread: usize,
    name: String,
    errors: Vec<ShownError>,
}

#[derive(Serialize)]
struct ShowErrors {
    errors: Vec<ShownError>,
    /// With `verbose`.
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<Vec<ErrorsOfThread>>,
    #[serde(skip)]
    meaning: bool,
}

impl ShowErrors {
    fn write_by_thread(&self, f: &mut fmt::Formatter<'_>, threads: &[ErrorsOfThread]) -> fmt::Result {
        let (node, reason) = (centred("Node", 35), centred("Reason", 35));
        writeln!(f, "{}{node}{reason}{}{}", centred("Count", 10), centred("Severity", 10), centred("Index", 6))?;
        for thread in threads {
            writeln!(f, "Thread {} ({}):", thread.thread, thread.name)?;
            thread.errors.iter().try_for_each(|error| error.write(f))?;
        }
        writeln!(f, "Total:")?;
        self.errors.iter().try_for_each(|error| error.write(f))
    }
}

impl ShownError {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, reason) = (centred(&format!(" {} ", self.node), 35), centred(&format!(" {} ", self.reason), 35));
        let (severity, index) = (centred(&self.severity, 10), centred(&self.index.to_string(), 6));
        writeln!(f, "{:>10}{node}{reason}{severity}{index}", self.count)
    }

    fn write_meaning(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}: {} ({})\n  {}", self.node, self.reason, self.outcome, self.meaning)
    }
}

impl fmt::Display for ShowErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.threads {
            Some(threads) => self.write_by_thread(f, threads)?,
            None => self.write_sums(f)?,
        }
        match self.meaning {
            true => self.errors.iter().try_for_each(|error| error.write_meaning(f)),
            false => Ok(()),
        }
    }
}

impl ShowErrors {
    fn write_sums(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new("")
            .titled_column("Count", Align::Centre, Align::Right, 10)
            .titled_column("Node", Align::Centre, Align::Centre, 35)
            .titled_column("Reason", Align::Centre, Align::Centre, 35)
            .titled_column("Severity", Align::Centre, Align::Centre, 10);
        for error in &self.errors {
            // Columns of reasons that fill theirs stay apart.
            table.row([
                error.count.to_string(),
                format!(" {} ", error.node),
                format!(" {} ", error.reason),
                error.severity.clone(),
            ]);
        }
        write!(f, "{table}")
    }
}
