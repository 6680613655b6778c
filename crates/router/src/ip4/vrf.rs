//! Routing tables beside the default one (VRFs): they come and go, and interfaces belong to one each.

use super::bulk::Batch;
use super::control::{Ip4, Table, prefix_of, table_mut};
use super::route::{Path, Source, TableIndex};
use crate::config::Statement;
use crate::{Error, Router};
use command::{Args, CommandError};
use graph::InterfaceIndex;
use rcu::Domain;
use std::sync::Arc;
use tables::Fib4;
use tables::fib4::Options;
use wire::Prefix4;

/// Most tables, the default one included.
pub const MAX_TABLES: usize = 4096;

/// Why a table cannot come, go or be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    #[error("there is no table {0} (`show ip table' lists them): `ip table add {0}' makes it")]
    NotThere(u32),
    #[error("table {0} is there already: `ip route add table {0}' fills it")]
    There(u32),
    #[error("table 0, the default one, is always there: any other number will do")]
    Default,
    #[error("there may be {MAX_TABLES} tables, and there are, or were a moment ago: remove one (`show ip table')")]
    TooMany,
    #[error("no memory for another table: {0}")]
    NoMemory(String),
    #[error("table {id} is that of {interface}: `set interface ip table {interface} 0' first")]
    OfInterface { id: u32, interface: String },
    #[error("the route to {prefix} in table {of} leads into table {id}: remove that route first")]
    InUse { id: u32, prefix: Prefix4, of: u32 },
    #[error(
        "{name} has addresses, which are routes of its table (`show interface address {name}'): `set interface ip \
         address del {name} all' first"
    )]
    HasAddresses { name: String },
    #[error("{name} has a DHCP client, whose routes are in its table: `set dhcp client del intfc {name}' first")]
    HasDhcpClient { name: String },
    #[error(
        "table {id} may have {limit} routes, and these would be more (`set ip table max-routes'): remove some, or let it \
         have more"
    )]
    Limit { id: u32, limit: usize },
    #[error("the route would lead from table {0} into the same table: name another, or a next hop")]
    IntoItself(u32),
}

/// A table of a few routes, until it has many.
pub(super) fn new_fib(domain: &Arc<Domain>) -> Result<Fib4, TableError> {
    let options = Options { begins_with_slots: false, ..Options::default() };
    Fib4::with_options(domain, options).map_err(|error| TableError::NoMemory(error.to_string()))
}

impl Router {
    /// The table of an identifier.
    ///
    /// # Errors
    /// When there is none.
    pub fn find_table(&self, id: u32) -> Result<TableIndex, Error> {
        self.ip4.find_table(id).ok_or(TableError::NotThere(id).into())
    }

    /// Makes an empty table.
    ///
    /// # Errors
    /// When there is one of that identifier, or there are too many.
    pub fn add_table(&mut self, id: u32) -> Result<TableIndex, Error> {
        if self.ip4.find_table(id).is_some() {
            return Err(if id == 0 { TableError::Default } else { TableError::There(id) }.into());
        }
        let Ip4 { leaving, tables, .. } = &mut self.ip4;
        leaving.settled().for_each(drop);
        let is_free = |index: &usize| {
            tables.get(*index).is_none_or(Option::is_none) && !leaving.holds(&TableIndex(*index as u16))
        };
        let index = (0..MAX_TABLES).find(is_free).ok_or(TableError::TooMany)?;
        let fib = new_fib(self.graph.domain())?;
        if index >= self.ip4.tables.len() {
            self.ip4.tables.resize_with(index + 1, || None);
        }
        self.ip4.tables[index] = Some(Table::new(id, fib));
        self.ip4.publish_tables();
        Ok(TableIndex(index as u16))
    }

    /// Takes a table away, with its routes.
    ///
    /// # Errors
    /// When there is none, or an interface or another table's route has it.
    pub fn remove_table(&mut self, id: u32) -> Result<(), Error> {
        let index = self.find_table(id)?;
        if index == TableIndex::DEFAULT {
            return Err(TableError::Default.into());
        }
        if let Some(interface) = self.interfaces.iter().find(|interface| interface.ip4.table == index) {
            return Err(TableError::OfInterface { id, interface: interface.name.clone() }.into());
        }
        let into = |paths: &[Path]| paths.iter().any(|path| path.way.table() == Some(index));
        let leading = self.ip4.lists.iter().find(|(_, list)| list.key.table != index && into(&list.key.paths));
        if let Some((list, found)) = leading {
            let prefix = self.ip4.users_of(list).first().map_or(tables::fib4::Key::DEFAULT, |key| *key);
            return Err(TableError::InUse { id, prefix: prefix_of(prefix), of: self.ip4.id_of(found.key.table) }.into());
        }
        // Without interfaces none are of those that follow from them.
        for source in Source::ALL {
            let mut batch = Batch::in_table(index);
            self.ip4.routes_in(index).of(source).for_each(|(prefix, _)| batch.remove(prefix));
            self.change_routes(source, batch)?;
        }
        self.ip4.tables[index.0 as usize] = None;
        while self.ip4.tables.last().is_some_and(Option::is_none) {
            self.ip4.tables.pop();
        }
        self.ip4.publish_tables();
        self.ip4.leaving.add(&self.graph, index);
        self.ip4.forget_counted(&self.graph, index);
        self.graph.domain().collect();
        Ok(())
    }

    /// Lets operators and programs bring a table to so many prefixes at most, or to any number. Those that are there
    /// stay.
    pub fn limit_table(&mut self, table: TableIndex, limit: Option<usize>) {
        table_mut(&mut self.ip4.tables, table).limit = limit;
    }

    /// The table of an interface.
    pub(crate) fn table_of(&self, index: InterfaceIndex) -> TableIndex {
        self.interfaces.get(index).map_or(TableIndex::DEFAULT, |interface| interface.ip4.table)
    }

    /// Has an interface belong to a table: its addresses, and the packets that it receives.
    ///
    /// # Errors
    /// When there is no such interface, or it has addresses; then nothing has changed.
    pub fn set_interface_table(&mut self, index: InterfaceIndex, table: TableIndex) -> Result<(), Error> {
        let interface = self.interfaces.get(index)?;
        let (before, name) = (interface.ip4.table, interface.name.clone());
        if before == table {
            return Ok(());
        }
        if interface.has_dhcp_client {
            return Err(TableError::HasDhcpClient { name }.into());
        }
        if !interface.addresses.is_empty() {
            return Err(TableError::HasAddresses { name }.into());
        }
        self.check_borrows_nothing(interface)?;
        self.check_lends_nothing(index)?;
        // What follows from neighbours lies in the table of their interface.
        let follow: Vec<_> = self
            .routes_by(index)
            .into_iter()
            .filter(|(of, _, source, _)| *of == before && matches!(source, Source::OnLink | Source::Neighbour))
            .collect();
        for (done, (_, prefix, source, paths)) in follow.iter().enumerate() {
            if let Err(error) = self.add_route_in(table, *prefix, *source, paths.clone(), false) {
                for (_, prefix, source, paths) in &follow[..done] {
                    self.remove_route_in(table, *prefix, *source, paths)?;
                }
                return Err(error);
            }
        }
        self.interfaces.get_mut(index)?.ip4.table = table;
        self.publish_facts();
        for (_, prefix, source, paths) in follow {
            self.remove_route_in(before, prefix, source, &paths)?;
        }
        self.install_by(index);
        Ok(())
    }
}

/// The table that a command names, or the default one.
pub(super) fn table(router: &Router, args: &Args) -> Result<TableIndex, CommandError> {
    Ok(args.optional("table")?.map_or(Ok(TableIndex::DEFAULT), |id| router.find_table(id))?)
}

/// The command that takes a table away: what other statements name it by.
pub(crate) fn removal(id: u32) -> String {
    format!("ip table del {id}")
}

/// What puts an interface back into the default table.
pub(crate) fn table_reset(name: &str) -> String {
    format!("set interface ip table {name} 0")
}

/// How many routes tables may have. Said when all routes are there, of which none is to be refused.
pub(crate) fn limits(router: &Router, into: &mut Vec<Statement>) {
    for (index, id) in router.ip4.table_ids() {
        let Some(limit) = router.ip4.limit(index) else { continue };
        let named = if index == TableIndex::DEFAULT { String::new() } else { format!(" table {id}") };
        let command = "set ip table max-routes";
        // One that changes goes first, so that it does not refuse what the next allows.
        let mut statement = Statement::new(format!("{command} {limit}{named}"), format!("{command} unlimited{named}"));
        statement.needs.extend((index != TableIndex::DEFAULT).then(|| removal(id)));
        into.push(statement);
    }
}

/// The tables. They come before what is in them.
pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for (index, id) in router.ip4.table_ids() {
        let needs: Vec<String> = (index != TableIndex::DEFAULT).then(|| removal(id)).into_iter().collect();
        into.extend(needs.iter().map(|removal| Statement::new(format!("ip table add {id}"), removal.clone())));
        let named = if index == TableIndex::DEFAULT { String::new() } else { format!(" table {id}") };
        let mut rests_on_table = |line: String, undo: String| {
            let statement = Statement { needs: needs.clone(), ..Statement::new(line, undo) };
            into.push(statement.replaced_by_itself());
        };
        for (_, prefix) in router.ip4.counted().filter(|(of, _)| *of == index) {
            let command = format!("set ip route counters {prefix}");
            rests_on_table(format!("{command} enable{named}"), format!("{command} disable{named}"));
        }
    }
}
