//! Operators' routes as the commands that add them. Connected routes follow from addresses,
//! neighbours' from neighbours.

use super::control::{Path, Source, Way};
use crate::Router;
use crate::config::Statement;
use crate::interface;
use graph::InterfaceIndex;
use std::fmt::Write;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for (prefix, route) in router.ip4.routes() {
        let Some(paths) = route.sources.get(&Source::Config) else { continue };
        let mut ways = String::new();
        let mut needs = Vec::new();
        for path in paths {
            write_path(router, path, &mut ways, &mut needs);
        }
        needs.sort();
        needs.dedup();
        let mut statement = Statement::new(format!("ip route add {prefix}{ways}"), format!("ip route del {prefix}"));
        statement.replace = Some(format!("ip route replace {prefix}{ways}"));
        statement.needs = needs;
        into.push(statement);
    }
}

fn write_path(router: &Router, path: &Path, ways: &mut String, needs: &mut Vec<String>) {
    let mut named = |index: InterfaceIndex| {
        let name = router.interfaces.get(index).map_or_else(|_| index.to_string(), |interface| interface.name.clone());
        needs.push(interface::config::removal(&name));
        name
    };
    let way = match path.way {
        Way::Via { next_hop, interface: None } => next_hop.to_string(),
        Way::Via { next_hop, interface: Some(index) } => format!("{next_hop} {}", named(index)),
        Way::Attached(index) | Way::Local(index) => named(index),
        Way::LocalAnywhere => "local".into(),
        Way::Drop => "drop".into(),
        Way::Punt => "punt".into(),
        Way::Unreachable => "unreachable".into(),
        Way::Prohibit => "prohibit".into(),
    };
    let _ = write!(ways, " via {way}");
    if path.weight != 1 {
        let _ = write!(ways, " weight {}", path.weight);
    }
}
