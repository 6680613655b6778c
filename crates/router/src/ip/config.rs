//! Operators' routes as the commands that add them. Connected routes follow from addresses,
//! neighbours' from neighbours.

use super::dump::RouteDump;
use super::labels::words;
use super::route::{Path, PathAction, Source, TableIndex};
use super::source_check;
use crate::Router;
use crate::interface;
use crate::statement::{Statement, Statements};
use crate::table_index;
use graph::InterfaceIndex;
use std::fmt::Write;
use wire::{Family, Prefix};

/// How interfaces take part in routing.
pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for interface in router.interfaces.iter() {
        source_check::statements(interface, into);
        super::rules::statements(interface, into);
    }
}

/// The routes of all tables.
pub(crate) fn routes() -> Box<dyn Statements> {
    Box::new(RouteStatements(RouteDump::all()))
}

struct RouteStatements(RouteDump);

impl Statements for RouteStatements {
    fn go_on(&mut self, router: &Router, into: &mut Vec<Statement>) -> bool {
        self.0.page(router, |route| {
            if let Some(paths) = route.paths(Source::Config) {
                state_route(router, (route.table, route.id), route.prefix, paths, into);
            }
        })
    }
}

fn state_route(
    router: &Router,
    (table, id): (TableIndex, u32),
    prefix: Prefix,
    paths: &[Path],
    into: &mut Vec<Statement>,
) {
    let family = prefix.family();
    let named = if table == TableIndex::DEFAULT { String::new() } else { format!("table {id} ") };
    let mut ways = String::new();
    let mut needs = Vec::new();
    for path in paths {
        write_path(router, family, table, path, &mut ways, &mut needs);
    }
    if table != TableIndex::DEFAULT {
        needs.push(table_index::removal(family, id));
    }
    needs.sort();
    needs.dedup();
    let mut statement =
        Statement::new(format!("ip route add {named}{prefix}{ways}"), format!("ip route del {named}{prefix}"));
    statement.replace = Some(format!("ip route replace {named}{prefix}{ways}"));
    statement.needs = needs;
    into.push(statement);
}

pub fn write_path(
    router: &Router,
    family: Family,
    table: TableIndex,
    path: &Path,
    ways: &mut String,
    needs: &mut Vec<String>,
) {
    let mut named = |index: InterfaceIndex| {
        let name = router.interfaces.get(index).map_or_else(|_| index.to_string(), |interface| interface.name.clone());
        needs.push(interface::config::removal(&name));
        name
    };
    let way = match path.way {
        PathAction::Via { next_hop, .. } | PathAction::ViaIn { next_hop, .. } => {
            let (hop, interface) = (path.way.hop(table).expect("it has one"), path.way.interface());
            let mut way = next_hop.to_string();
            if let Some(index) = interface {
                way = format!("{way} {}", named(index));
            }
            if let Some(other) = path.way.table() {
                way = format!("{way} next-hop-table {}", router.ip.id_of(other));
                let of = Family::of(next_hop);
                needs.extend((other != TableIndex::DEFAULT).then(|| table_index::removal(of, router.ip.id_of(other))));
            }
            // A route rests on the address that makes its next hop acceptable: where there is
            // none (any more), it has to insist.
            let network = router.stated_network_of(hop, interface);
            let named = network.and_then(|(index, prefix)| Some((router.interfaces.get(index).ok()?, prefix)));
            match named {
                Some((there, prefix)) => needs.push(interface::config::address_removal(&there.name, prefix)),
                None => way += " offlink",
            }
            way
        }
        PathAction::Lookup(other) => {
            let id = router.ip.id_of(other);
            needs.extend((other != TableIndex::DEFAULT).then(|| table_index::removal(family, id)));
            format!("{} {id}", words::lookup_word(family))
        }
        PathAction::LookupIn(family, other) => {
            let id = router.ip.id_of(other);
            needs.extend((other != TableIndex::DEFAULT).then(|| table_index::removal(family, id)));
            format!("{} {id}", words::lookup_word(family))
        }
        PathAction::LookupLabel(other) => {
            let id = router.ip.labels.id_of(other);
            needs.push(words::removal(id));
            format!("mpls-lookup-in-table {id}")
        }
        PathAction::OnLink { next_hop, interface } => format!("{next_hop} {} onlink", named(interface)),
        PathAction::Attached(index) | PathAction::Broadcast(index) | PathAction::Local(index) => named(index),
        PathAction::LocalAnywhere => "local".into(),
        PathAction::Drop => "drop".into(),
        PathAction::Punt => "punt".into(),
        PathAction::Object(id) => id.to_string(),
        PathAction::Unreachable => "unreachable".into(),
        PathAction::Prohibit => "prohibit".into(),
    };
    let _ = write!(ways, " via {way}");
    if let Some(labels) = &path.labels {
        let _ = write!(ways, "{labels}");
    }
    if path.weight != 1 {
        let _ = write!(ways, " weight {}", path.weight);
    }
    if path.preference != 0 {
        let _ = write!(ways, " preference {}", path.preference);
    }
}
