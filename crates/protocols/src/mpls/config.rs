//! MPLS as the commands that state it: tables come before interfaces, labels after what their paths rest on.

use super::tunnel;
use router::Router;
use router::capability::{Statement, Statements};
use router::interface::Interface;
use router::interface::config::removal as interface_removal;
use router::ip::config::write_path;
use router::ip::control::{LabelTableIndex, TableIndex};
use router::ip::labels::control::end;
use router::ip::labels::key::LabelKey;
use router::ip::labels::words::removal;
use router::listing::PAGE;
use wire::Family;

/// The tables.
pub(crate) fn tables(router: &Router, into: &mut Vec<Statement>) {
    for (_, labels) in router.ip.labels.iter() {
        let id = labels.id;
        into.push(Statement::new(format!("mpls table add {id}"), removal(id)));
    }
}

/// A tunnel, with its paths.
pub(super) fn tunnel(router: &Router, interface: &Interface, into: &mut Vec<Statement>) {
    let Ok(paths) = tunnel::tunnel_paths(router, interface.index) else { return };
    let (mut ways, mut needs) = (String::new(), Vec::new());
    for path in paths {
        write_path(router, Family::Ip4, TableIndex::DEFAULT, path, &mut ways, &mut needs);
    }
    needs.sort();
    needs.dedup();
    let name = &interface.name;
    let mut statement = Statement::new(format!("mpls tunnel add {name}{ways}"), interface_removal(name));
    statement.replace = Some(format!("mpls tunnel replace {name}{ways}"));
    statement.needs = needs;
    into.push(statement);
}

/// Which interfaces take labelled packets.
pub(super) fn interface(_: &Router, interface: &Interface, into: &mut Vec<Statement>) {
    if !interface.mpls {
        return;
    }
    let name = &interface.name;
    let command = format!("set interface mpls {name}");
    let statement = Statement::new(format!("{command} enable"), format!("{command} disable"));
    into.push(statement.needing(interface_removal(name)).needing(removal(0)));
}

/// Where labels lead.
pub(crate) fn statements() -> Box<dyn Statements> {
    Box::new(LabelStatements::default())
}

#[derive(Default)]
struct LabelStatements {
    /// The tables that are left, the last one first; none before it began.
    tables: Option<Vec<(LabelTableIndex, u32)>>,
    /// Of the last of them, behind which label to go on.
    behind: Option<LabelKey>,
}

impl Statements for LabelStatements {
    fn go_on(&mut self, router: &Router, into: &mut Vec<Statement>) -> bool {
        let all = || {
            let ids: Vec<_> = router.ip.labels.iter().map(|(table, labels)| (table, labels.id)).collect();
            ids.into_iter().rev().collect()
        };
        let tables = self.tables.get_or_insert_with(all);
        let Some(&(table, id)) = tables.last() else { return false };
        let behind = self.behind.take();
        // It may be gone meanwhile.
        if let Some(labels) = router.ip.labels.get(table).filter(|labels| labels.id == id) {
            for (key, _) in labels.behind(behind).take(PAGE) {
                self.behind = Some(key);
                state_label(router, (table, id), key, into);
            }
        }
        if self.behind.is_none() {
            tables.pop();
        }
        true
    }
}

fn state_label(router: &Router, (table, id): (LabelTableIndex, u32), key: LabelKey, into: &mut Vec<Statement>) {
    let named = if table == LabelTableIndex::DEFAULT { String::new() } else { format!("table {id} ") };
    let (mut ways, mut needs) = (String::new(), vec![removal(id)]);
    for path in router.ip.label_paths(table, key).unwrap_or_default() {
        // Lookups name their family.
        write_path(router, Family::Ip4, TableIndex::DEFAULT, path, &mut ways, &mut needs);
    }
    needs.sort();
    needs.dedup();
    let label = format!("{named}{} {}", key.label(), end(key));
    let mut statement =
        Statement::new(format!("mpls local-label add {label}{ways}"), format!("mpls local-label del {label}"));
    statement.replace = Some(format!("mpls local-label replace {label}{ways}"));
    statement.needs = needs;
    into.push(statement);
}
