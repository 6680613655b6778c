//! Routing tables beside the default one (VRFs): they come and go, and interfaces belong to one each.

use super::bulk::Batch;
use super::control::{Table, prefix_of};
use super::route::{Path, Source, TableIndex};
use crate::config::Statement;
use crate::{Error, Router};
use graph::InterfaceIndex;
use rcu::Domain;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    #[error("table {0} is there already")]
    There(u32),
    #[error("table 0 is always there")]
    Default,
    #[error("there are {MAX_TABLES} tables, which is the most")]
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
    #[error("{name} has a DHCP client, whose routes are in its table: `set dhcp client intfc {name} del' first")]
    HasDhcpClient { name: String },
    #[error("the route would lead from table {0} into the same table")]
    IntoItself(u32),
}

/// Places of tables that packets may still name.
#[derive(Default)]
pub(super) struct Leaving(VecDeque<(TableIndex, Arc<AtomicBool>)>);

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
        let leaving = &mut self.ip4.leaving.0;
        leaving.retain(|(_, is_settled)| !is_settled.load(Ordering::Acquire));
        let tables = &self.ip4.tables;
        let is_free = |index: &usize| {
            tables.get(*index).is_none_or(Option::is_none) && !leaving.iter().any(|(left, _)| left.0 as usize == *index)
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
        let is_settled = Arc::new(AtomicBool::new(false));
        self.ip4.leaving.0.push_back((index, is_settled.clone()));
        self.graph.when_settled(move || is_settled.store(true, Ordering::Release));
        self.graph.domain().collect();
        Ok(())
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
        if !interface.addresses.is_empty() {
            return Err(TableError::HasAddresses { name }.into());
        }
        if interface.has_dhcp_client {
            return Err(TableError::HasDhcpClient { name }.into());
        }
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

/// The command that takes a table away: what other statements name it by.
pub(crate) fn removal(id: u32) -> String {
    format!("ip table del {id}")
}

/// What puts an interface back into the default table.
pub(crate) fn table_reset(name: &str) -> String {
    format!("set interface ip table {name} 0")
}

/// The tables. They come before what is in them.
pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    let tables = router.ip4.table_ids().filter(|(index, _)| *index != TableIndex::DEFAULT);
    into.extend(tables.map(|(_, id)| Statement::new(format!("ip table add {id}"), removal(id))));
}
