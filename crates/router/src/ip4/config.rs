//! Operators' routes as the commands that add them. Connected routes follow from addresses,
//! neighbours' from neighbours.

use super::control::{Path, Source, Way};
use crate::Router;
use crate::config::Statement;
use crate::interface;
use graph::InterfaceIndex;
use std::collections::HashMap;
use std::fmt::Write;
use std::net::Ipv4Addr;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    router.interfaces.iter().for_each(|interface| super::settings::statements(interface, into));
    // Of each next hop; routes share few.
    let mut networks = Networks::new();
    for (prefix, paths) in router.ip4.routes().of(Source::Config) {
        let mut ways = String::new();
        let mut needs = Vec::new();
        for path in paths {
            write_path(router, path, &mut ways, &mut needs, &mut networks);
        }
        needs.sort();
        needs.dedup();
        let mut statement = Statement::new(format!("ip route add {prefix}{ways}"), format!("ip route del {prefix}"));
        statement.replace = Some(format!("ip route replace {prefix}{ways}"));
        statement.needs = needs;
        into.push(statement);
    }
}

/// The address on whose network a next hop is, as the command that takes it away.
type Networks = HashMap<(Ipv4Addr, Option<InterfaceIndex>), Option<String>>;

fn write_path(router: &Router, path: &Path, ways: &mut String, needs: &mut Vec<String>, networks: &mut Networks) {
    let mut named = |index: InterfaceIndex| {
        let name = router.interfaces.get(index).map_or_else(|_| index.to_string(), |interface| interface.name.clone());
        needs.push(interface::config::removal(&name));
        name
    };
    let way = match path.way {
        Way::Via { next_hop, interface } => {
            let mut way = next_hop.to_string();
            if let Some(index) = interface {
                way = format!("{way} {}", named(index));
            }
            let network = networks.entry((next_hop, interface)).or_insert_with(|| {
                let (index, prefix) = router.stated_network_of(next_hop, interface)?;
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
        Way::OnLink { next_hop, interface } => format!("{next_hop} {} onlink", named(interface)),
        Way::Attached(index) | Way::Broadcast(index) | Way::Local(index) => named(index),
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
    if path.preference != 0 {
        let _ = write!(ways, " preference {}", path.preference);
    }
}
