//! The limits as the command that sets those that are not the default.

use super::Limits;
use super::cli::words;
use crate::Router;
use crate::config::Statement;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    let (limits, default) = (router.reassembly.limits, Limits::default());
    let set: Vec<String> = words(&limits)
        .into_iter()
        .zip(words(&default))
        .filter(|(set, default)| set != default)
        .map(|((word, value), _)| format!("{word} {value}"))
        .collect();
    if !set.is_empty() {
        let line = format!("set ip4-full-reassembly {}", set.join(" "));
        let mut statement = Statement::new(line.clone(), "set ip4-full-reassembly default".into());
        // What it does not name goes back to the default.
        statement.replace = Some(line.replacen("reassembly", "reassembly default", 1));
        into.push(statement);
    }
}
