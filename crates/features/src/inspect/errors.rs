//! `show errors`: drops and events by node and reason; `verbose`: by worker; `meaning`: and what each means.

use super::unresolved::AllUnresolved;
use command::table::{Align, Table, centred};
use command::{Args, Command, CommandError, CommandSet, Done, Reply, reply};
use graph::Severity;
use graph::worker::thread_name;
use router::Router;
use serde::{Serialize, Serializer};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

pub fn register(set: &mut CommandSet<Router>) {
    // VPP has both names for this command.
    for name in ["show errors", "show node counters"] {
        set.add(Command::new(
            &format!("{name} [verbose] [meaning]"),
            "Show drops and events, by node and reason; `verbose`: by worker; `meaning`: what each means, and what \
             to do.",
            show,
        ));
    }
    set.add(
        Command::new("clear errors", "Reset the error counters.", |router: &mut Router, _: &Args| {
            router.graph.counters().errors.clear(0..router.graph.errors().len());
            reply(Done)
        })
        .also("clear node counters"),
    );
}

fn show(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let counters = &router.graph.counters().errors;
    let threads = args.flag("verbose").then(|| {
        let of = |thread| ErrorsOfThread {
            thread: thread + 1,
            name: thread_name(thread),
            errors: collect(router, |number| counters.value(thread, number, 0)),
        };
        (0..router.graph.workers()).map(of).collect()
    });
    let errors = collect(router, |number| counters.sum(number, 0));
    let unresolved = AllUnresolved::of(router);
    reply(ShowErrors { errors, threads, unresolved, meaning: args.flag("meaning") })
}

/// The errors that were counted.
fn collect(router: &Router, count: impl Fn(usize) -> u64) -> Vec<ShownError> {
    // A reason may occur twice: two interfaces had the same name, one after the other.
    let mut sums: BTreeMap<(String, String), ShownError> = BTreeMap::new();
    for (index, error) in router.graph.errors().iter().enumerate() {
        let count = count(index);
        if count == 0 {
            continue;
        }
        let (node, reason) = (error.node.clone(), error.reason.clone());
        let severity = error.severity;
        let (outcome, meaning) = (error.outcome.to_string(), error.meaning);
        let first =
            ShownError { count: 0, node: node.clone(), reason: reason.clone(), severity, outcome, index, meaning };
        sums.entry((node, reason)).or_insert(first).count += count;
    }
    let mut errors: Vec<ShownError> = sums.into_values().collect();
    // Errors that an operator must act on come first; the sort keeps the order of names.
    errors.sort_by_key(|error| Reverse(error.severity as u8));
    errors
}

#[derive(Serialize)]
struct ShownError {
    count: u64,
    node: String,
    reason: String,
    #[serde(serialize_with = "as_text")]
    severity: Severity,
    /// Whether the packet is lost: `dropped`, `done`, `counted`.
    outcome: String,
    /// The number of its counter.
    index: usize,
    meaning: &'static str,
}

fn as_text<S: Serializer>(severity: &Severity, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(severity)
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
    /// Only with `verbose`.
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<Vec<ErrorsOfThread>>,
    /// Neighbours that packets wait for, and those that did not answer.
    unresolved: AllUnresolved,
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
        let (severity, index) = (centred(&self.severity.to_string(), 10), centred(&self.index.to_string(), 6));
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
        self.unresolved.fmt(f)?;
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
            // Reasons that fill their columns are still separated.
            table.row([
                error.count.to_string(),
                format!(" {} ", error.node),
                format!(" {} ", error.reason),
                error.severity.to_string(),
            ]);
        }
        write!(f, "{table}")
    }
}
