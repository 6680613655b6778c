//! The limits as the commands that set those that are not the default.

use super::Limits;
use super::Reassembly;
use super::cli::{command, words};
use router::Router;
use router::capability::Statement;
use wire::Family;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for family in Family::ALL {
        let (limits, default) = (router.state::<Reassembly>().limits(family), Limits::of(family));
        let set: Vec<String> = words(&limits)
            .into_iter()
            .zip(words(&default))
            .filter(|(set, default)| set != default)
            .map(|((word, value), _)| format!("{word} {value}"))
            .collect();
        if !set.is_empty() {
            let (command, set) = (command(family), set.join(" "));
            let mut statement = Statement::new(format!("set {command} {set}"), format!("set {command} default"));
            // What it does not name goes back to the default.
            statement.replace = Some(format!("set {command} default {set}"));
            into.push(statement);
        }
    }
}
