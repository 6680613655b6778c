//! Operators' routes as the commands that add them. Connected routes follow from addresses,
//! neighbours' from neighbours.

use super::route::{Hop, Path, Source, TableIndex, Way};
use super::{source_check, vrf};
use crate::Router;
use crate::config::Statement;
use crate::interface;
use crate::mpls;
use graph::InterfaceIndex;
use std::collections::HashMap;
use std::fmt::Write;
use wire::Family;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for interface in router.interfaces.iter() {
        source_check::statements(interface, into);
        crate::ip4::settings::statements(interface, into);
    }
    // Of each next hop; routes share few.
    let mut networks = Networks::new();
    for family in Family::ALL {
        for (table, id) in router.ip.table_ids(family) {
            of_table(router, family, table, id, &mut networks, into);
        }
    }
}

fn of_table(
    router: &Router,
    family: Family,
    table: TableIndex,
    id: u32,
    networks: &mut Networks,
    into: &mut Vec<Statement>,
) {
    let named = if table == TableIndex::DEFAULT { String::new() } else { format!("table {id} ") };
    for (prefix, paths) in router.ip.routes_in(family, table).of(Source::Config) {
        let mut ways = String::new();
        let mut needs = Vec::new();
        for path in paths {
            write_path(router, family, table, path, &mut ways, &mut needs, networks);
        }
        if table != TableIndex::DEFAULT {
            needs.push(vrf::removal(family, id));
        }
        needs.sort();
        needs.dedup();
        let mut statement =
            Statement::new(format!("ip route add {named}{prefix}{ways}"), format!("ip route del {named}{prefix}"));
        statement.replace = Some(format!("ip route replace {named}{prefix}{ways}"));
        statement.needs = needs;
        into.push(statement);
    }
}

/// The address on whose network a next hop is, as the command that takes it away.
pub(crate) type Networks = HashMap<(Hop, Option<InterfaceIndex>), Option<String>>;

pub(crate) fn write_path(
    router: &Router,
    family: Family,
    table: TableIndex,
    path: &Path,
    ways: &mut String,
    needs: &mut Vec<String>,
    networks: &mut Networks,
) {
    let mut named = |index: InterfaceIndex| {
        let name = router.interfaces.get(index).map_or_else(|_| index.to_string(), |interface| interface.name.clone());
        needs.push(interface::config::removal(&name));
        name
    };
    let way = match path.way {
        Way::Via { next_hop, .. } | Way::ViaIn { next_hop, .. } => {
            let (hop, interface) = (path.way.hop(table).expect("it has one"), path.way.interface());
            let mut way = next_hop.to_string();
            if let Some(index) = interface {
                way = format!("{way} {}", named(index));
            }
            if let Some(other) = path.way.table() {
                way = format!("{way} next-hop-table {}", router.ip.id_of(other));
                let of = Family::of(next_hop);
                needs.extend((other != TableIndex::DEFAULT).then(|| vrf::removal(of, router.ip.id_of(other))));
            }
            let network = networks.entry((hop, interface)).or_insert_with(|| {
                let (index, prefix) = router.stated_network_of(hop, interface)?;
                let name = &router.interfaces.get(index).ok()?.name;
                Some(interface::config::address_removal(name, prefix))
            });
            // A route rests on the address that makes its next hop acceptable: where there is
            // none (any more), it has to insist.
            match network {
                Some(address) => needs.push(address.clone()),
                None => way += " offlink",
            }
            way
        }
        Way::Lookup(other) => {
            let id = router.ip.id_of(other);
            needs.extend((other != TableIndex::DEFAULT).then(|| vrf::removal(family, id)));
            format!("{} {id}", mpls::control::lookup_word(family))
        }
        Way::LookupIn(family, other) => {
            let id = router.ip.id_of(other);
            needs.extend((other != TableIndex::DEFAULT).then(|| vrf::removal(family, id)));
            format!("{} {id}", mpls::control::lookup_word(family))
        }
        Way::LookupLabel(other) => {
            let id = router.ip.labels.id_of(other);
            needs.push(mpls::config::removal(id));
            format!("mpls-lookup-in-table {id}")
        }
        Way::OnLink { next_hop, interface } => format!("{next_hop} {} onlink", named(interface)),
        Way::Attached(index) | Way::Broadcast(index) | Way::Local(index) => named(index),
        Way::LocalAnywhere => "local".into(),
        Way::Drop => "drop".into(),
        Way::Punt => "punt".into(),
        Way::Unreachable => "unreachable".into(),
        Way::Prohibit => "prohibit".into(),
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
