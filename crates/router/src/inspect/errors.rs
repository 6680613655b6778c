//! `show errors`: drops and events by node and reason.

use crate::Router;
use command::table::{Align, Table};
use command::{Args, Command, CommandSet, Done, reply};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(Command::new("show errors", "Drops and events, by node and reason.", |router: &mut Router, _: &Args| {
        let counters = &router.graph.counters().errors;
        // A reason may stand twice: two interfaces had the name, one after the other.
        let mut sums: BTreeMap<(String, String), (u64, String)> = BTreeMap::new();
        for (number, error) in router.graph.errors().iter().enumerate() {
            let count = counters.sum(number, 0);
            if count > 0 {
                let key = (error.node.clone(), error.reason.clone());
                sums.entry(key).or_insert((0, error.severity.to_string())).0 += count;
            }
        }
        let errors =
            sums.into_iter().map(|((node, reason), (count, severity))| ShownError { count, node, reason, severity });
        reply(ShowErrors { errors: errors.collect() })
    }));
    set.add(Command::new("clear errors", "Make error counters read zero.", |router: &mut Router, _: &Args| {
        router.graph.counters().errors.clear(0..router.graph.errors().len());
        reply(Done)
    }));
}

#[derive(Serialize)]
struct ShownError {
    count: u64,
    node: String,
    reason: String,
    severity: String,
}

#[derive(Serialize)]
struct ShowErrors {
    errors: Vec<ShownError>,
}

impl fmt::Display for ShowErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
