//! What operators said of IPv6 on an interface, as the commands that say it.

use router::Router;
use router::capability::Statement;
use router::interface::Interface;
use router::interface::config::{address_removal, removal};
use router::ip::control::TableIndex;
use router::table_index;
use wire::Family;

pub(super) fn statements(router: &Router, interface: &Interface, into: &mut Vec<Statement>) {
    let ip = &router.ip;
    let (name, ip6) = (&interface.name, &interface.ip6);
    let series = format!("ip6 addresses of {name}");
    let mut in_series = |statement: Statement| {
        let mut statement = statement.needing(removal(name));
        statement.series = Some(series.clone());
        into.push(statement);
    };
    let is_elsewhere = ip6.stated_table != TableIndex::DEFAULT;
    if is_elsewhere {
        let id = ip.id_of(ip6.stated_table);
        let line = format!("set interface ip6 table {name} {id}");
        in_series(
            Statement::new(line, table_index::table_reset(Family::Ip6, name))
                .needing(table_index::removal(Family::Ip6, id)),
        );
    }
    if ip6.is_stated {
        in_series(Statement::new(format!("enable ip6 interface {name}"), format!("disable ip6 interface {name}")));
    }
    for prefix in interface.stated_addresses6() {
        let line = format!("set interface ip address {name} {prefix}");
        let mut statement = Statement::new(line, address_removal(name, *prefix));
        statement.needs.extend(is_elsewhere.then(|| table_index::table_reset(Family::Ip6, name)));
        in_series(statement);
    }
    if let Some(address) = ip6.stated_link_local {
        let command = format!("set ip6 link-local address {name}");
        in_series(Statement::new(format!("{command} {address}"), format!("{command} default")).replaced_by_itself());
    }
}
