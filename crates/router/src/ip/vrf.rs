//! Routing tables beside the default one (VRFs): how they are added and removed, and which interfaces belong to them.

use super::bulk::Batch;
use super::control::Ip;
use super::entry::Entry;
use super::path_list::Of;
use super::route::{Path, Source, TableIndex};
use super::table::{Fib, PART, Table};
use crate::interface::Interface;
use crate::notice::{Change, Notice};
use crate::statement::Statement;
use crate::table_index::{removal, word};
use crate::{Error, Router};
use command::{Args, CommandError};
use graph::InterfaceIndex;
use rcu::Domain;
use std::sync::Arc;
use tables::{Fib4, Fib6, fib4};
use wire::{Family, Prefix};

/// The most tables, the default one included.
pub const MAX_TABLES: usize = 4096;

/// Why a table cannot be added, removed or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    #[error("there is no table {id} ('show {0} table' lists them): '{0} table add {id}' makes it", word(*family))]
    NotThere { family: Family, id: u32 },
    #[error("table {id} is there already: '{0} route add table {id}' fills it", word(*family))]
    There { family: Family, id: u32 },
    #[error("table 0, the default one, is always there: any other number will do")]
    Default,
    #[error("there may be {MAX_TABLES} tables, and there are, or were a moment ago: remove one ('show ip table')")]
    TooMany,
    #[error("no memory for another table: {0}")]
    NoMemory(String),
    #[error("table {id} is that of a VRF in Linux ('show lcp'): 'ip link del' in Linux removes both")]
    Found { id: u32 },
    #[error("table {id} is that of {interface}: 'set interface {0} table {interface} 0' first", word(*family))]
    OfInterface { family: Family, id: u32, interface: String },
    #[error("{interface} is a tunnel whose other end is looked up in table {id}: remove the tunnel first")]
    OfTunnel { family: Family, id: u32, interface: String },
    #[error("the route to {prefix} in table {of} leads into table {id}: remove that route first")]
    InUse { id: u32, prefix: Prefix, of: u32 },
    #[error("label {label} of MPLS table {of} leads into table {id}: 'mpls local-label del {label}' first")]
    InUseByLabel { id: u32, label: u32, of: u32 },
    #[error(
        "{name} has addresses, which are routes of its table ('show interface address {name}'): 'set interface ip \
         address del {name} all' first"
    )]
    HasAddresses { name: String },
    #[error(
        "table {id} may have {limit} routes, and these would be more ('set ip table max-routes'): remove some, or \
         let it \
         have more"
    )]
    Limit { id: u32, limit: usize },
    #[error(
        "{routes} routes of table {id} are left, as the memory of its lookups is used up: the others are gone; try \
         again"
    )]
    RoutesStay { id: u32, routes: usize },
    #[error("the route would lead from table {0} into the same table: name another, or a next hop")]
    IntoItself(u32),
}

crate::codes! { TableError {
    NotThere => "table-not-there",
    There => "table-there",
    Default => "table-default",
    TooMany => "table-too-many",
    NoMemory => "table-no-memory",
    Found => "table-found",
    OfInterface => "table-of-interface",
    OfTunnel => "table-of-tunnel",
    InUse => "table-in-use",
    InUseByLabel => "table-in-use-by-label",
    HasAddresses => "table-has-addresses",
    Limit => "table-limit",
    RoutesStay => "table-routes-stay",
    IntoItself => "table-into-itself",
} }

/// A table for a few routes; it grows when there are many.
fn new_fib(family: Family, domain: &Arc<Domain>) -> Result<Fib, TableError> {
    let options = fib4::Options { begins_with_slots: false, ..fib4::Options::default() };
    let fib = match family {
        Family::Ip4 => Fib4::with_options(domain, options).map(|fib| Fib::V4(fib.into())),
        Family::Ip6 => Fib6::new(domain).map(|fib| Fib::V6(fib.into())),
    };
    fib.map_err(|error| TableError::NoMemory(error.to_string()))
}

impl Router {
    /// The table with an identifier.
    ///
    /// # Errors
    /// When there is none.
    pub fn find_table(&self, family: Family, id: u32) -> Result<TableIndex, Error> {
        self.ip.find_table(family, id).ok_or(TableError::NotThere { family, id }.into())
    }

    /// Adds an empty table. One that was found is stated from now on.
    ///
    /// # Errors
    /// When the identifier is in use, or there are too many tables.
    pub fn add_table(&mut self, family: Family, id: u32) -> Result<TableIndex, Error> {
        let Some(index) = self.ip.find_table(family, id) else { return self.make_table(family, id) };
        let table = self.ip.tables.get_mut(family, index);
        if std::mem::replace(&mut table.is_stated, true) {
            return Err(if id == 0 { TableError::Default } else { TableError::There { family, id } }.into());
        }
        Ok(index)
    }

    /// Adds a table that nobody stated, for another capability's use. It may be there.
    ///
    /// # Errors
    /// When there are too many tables.
    pub fn add_found_table(&mut self, family: Family, id: u32) -> Result<TableIndex, Error> {
        let known = self.ip.find_table(family, id);
        let index = match known {
            Some(known) => known,
            None => self.make_table(family, id)?,
        };
        let table = self.ip.tables.get_mut(family, index);
        (table.is_found, table.is_stated) = (true, known.is_some() && table.is_stated);
        Ok(index)
    }

    /// An operator stated something in a table: it is stated, too.
    pub fn has_stated(&mut self, family: Family, index: TableIndex) {
        if self.ip.has_table(family, index) {
            self.ip.tables.get_mut(family, index).is_stated = true;
        }
    }

    fn make_table(&mut self, family: Family, id: u32) -> Result<TableIndex, Error> {
        let Ip { leaving, tables, .. } = &mut self.ip;
        leaving.settled().for_each(drop);
        // The tables of both families with one identifier have the same index.
        let free = || tables.free(MAX_TABLES).find(|index| !leaving.holds(index));
        let index = tables.find(id).or_else(free).ok_or(TableError::TooMany)?;
        let fib = new_fib(family, self.graph.domain())?;
        self.ip.tables.add(index, id, Table::new(fib));
        self.ip.publish_table(family, index);
        self.say(Notice::Tables(family));
        Ok(index)
    }

    /// Removes a table with its routes. One that another capability has use for, too, stays, without what operators
    /// stated.
    ///
    /// # Errors
    /// When there is no such table, or an interface or a route of another table uses it; then nothing has changed. When
    /// there is no room to remove a route, the table stays with its remaining routes.
    pub fn remove_table(&mut self, family: Family, id: u32) -> Result<(), Error> {
        self.operation(|router| {
            let index = router.find_table(family, id)?;
            let table = router.ip.tables.get_mut(family, index);
            match (table.is_found, table.is_stated) {
                (true, true) => {
                    router.stated_by_none(family, index, id)?;
                    router.leads_nowhere_into(family, index, id, true)?;
                    router.unstate_table(family, index, id)
                }
                (true, false) => Err(TableError::Found { id }.into()),
                (false, _) => router.take_table(family, id),
            }
        })
    }

    /// Another capability has no use for a table any more. One that nobody stated goes with its routes.
    ///
    /// # Errors
    /// As [`Router::remove_table`].
    pub fn remove_found_table(&mut self, family: Family, id: u32) -> Result<(), Error> {
        let index = self.find_table(family, id)?;
        if self.ip.tables.get_mut(family, index).is_stated {
            self.ip.tables.get_mut(family, index).is_found = false;
            return Ok(());
        }
        self.operation(|router| router.take_table(family, id))
    }

    /// Takes what operators stated out of a table that stays.
    fn unstate_table(&mut self, family: Family, index: TableIndex, id: u32) -> Result<(), Error> {
        self.take_routes(family, index, id, &[Source::Config, Source::Api])?;
        let counted = self.ip.counted().filter(|(of, prefix)| *of == index && prefix.family() == family);
        for (_, prefix) in counted.collect::<Vec<_>>() {
            self.count_route(index, prefix, false)?;
        }
        self.set_flow_fields(family, index, super::flow_hash::usual(family))?;
        let table = self.ip.tables.get_mut(family, index);
        (table.is_stated, table.limit) = (false, None);
        Ok(())
    }

    fn stated_by_none(&self, family: Family, index: TableIndex, id: u32) -> Result<(), TableError> {
        match self.interfaces.iter().find(|interface| interface.stated_table(family) == index) {
            Some(interface) => Err(TableError::OfInterface { family, id, interface: interface.name.clone() }),
            None => Ok(()),
        }
    }

    fn take_table(&mut self, family: Family, id: u32) -> Result<(), Error> {
        let index = self.find_table(family, id)?;
        if index == TableIndex::DEFAULT {
            return Err(TableError::Default.into());
        }
        if let Some(interface) = self.interfaces.iter().find(|interface| interface.table(family) == index) {
            return Err(TableError::OfInterface { family, id, interface: interface.name.clone() }.into());
        }
        self.stated_by_none(family, index, id)?;
        if let Some(interface) = self.tunnel_in(family, index) {
            return Err(TableError::OfTunnel { family, id, interface }.into());
        }
        self.leads_nowhere_into(family, index, id, false)?;
        // Without interfaces there are no routes that follow from interfaces.
        self.take_routes(family, index, id, &Source::ALL)?;
        self.ip.tables.remove(family, index);
        self.ip.publish_table(family, index);
        self.ip.leaving.add(&self.graph, index);
        self.ip.forget_counted(&self.graph, family, index);
        self.graph.domain().collect();
        self.say(Notice::Tables(family));
        Ok(())
    }

    /// Refuses when a route or a label leads from elsewhere into a table, or one that is stated does.
    fn leads_nowhere_into(
        &self,
        family: Family,
        index: TableIndex,
        id: u32,
        only_stated: bool,
    ) -> Result<(), TableError> {
        let itself = (Of::Prefixes(family), index);
        let others = self.ip.lists.iter().filter(|(_, list)| (list.key.of, list.key.table) != itself);
        for (list, found) in others {
            let key = &found.key;
            let into = |path: &Path| path.way.table_of(key.of.family(), index) == Some((family, index));
            if !key.paths.iter().any(into) {
                continue;
            }
            if let Of::Labels { table, .. } = key.of
                && let Some(label) = self.ip.labels_of(list).first()
            {
                let of = self.ip.labels.id_of(table);
                return Err(TableError::InUseByLabel { id, label: label.label(), of });
            }
            let is_stated = |prefix: &&Prefix| {
                let mut shares = self.ip.shares(key.table, **prefix);
                !only_stated || shares.any(|share| share.list == list && share.source == Source::Config)
            };
            if let Some(prefix) = self.ip.users_of(list).iter().find(is_stated) {
                return Err(TableError::InUse { id, prefix: *prefix, of: self.ip.id_of(key.table) });
            }
        }
        Ok(())
    }

    /// Removes the routes of some sources.
    fn take_routes(&mut self, family: Family, index: TableIndex, id: u32, of: &[Source]) -> Result<(), Error> {
        for (source, batch) in Source::ALL.into_iter().zip(self.all_to_go(family, index)) {
            if batch.is_empty() || !of.contains(&source) {
                continue;
            }
            let outcome = self.change_routes(source, batch)?;
            if outcome.refused > 0 {
                return Err(TableError::RoutesStay { id, routes: outcome.refused }.into());
            }
        }
        Ok(())
    }

    /// Batches that remove all routes of a table, one for each source.
    fn all_to_go(&mut self, family: Family, index: TableIndex) -> [Batch; Source::ALL.len()] {
        let mut batches = Source::ALL.map(|_| Batch::new(family, index));
        let mut behind = None;
        loop {
            let ip = &self.ip;
            let mut last = None;
            for (prefix, value) in ip.fib(family, index).behind(behind).take(PART) {
                ip.several.shares(Entry(value)).for_each(|share| batches[share.source as usize].remove(prefix));
                last = Some(prefix);
            }
            if last.is_none() {
                return batches;
            }
            behind = last;
            self.breathe();
        }
    }

    /// Limits the number of prefixes to which operators and programs may bring a table, or removes the limit. Existing
    /// prefixes stay.
    pub fn limit_table(&mut self, family: Family, table: TableIndex, limit: Option<usize>) {
        self.has_stated(family, table);
        self.ip.tables.get_mut(family, table).limit = limit;
    }

    /// The table of an interface.
    pub fn table_of(&self, index: InterfaceIndex, family: Family) -> TableIndex {
        self.interfaces.get(index).map_or(TableIndex::DEFAULT, |interface| interface.table(family))
    }

    /// Moves an interface into a table: its addresses, and the packets that it receives.
    ///
    /// # Errors
    /// When there is no such interface, or it has addresses; then nothing has changed.
    pub fn set_interface_table(
        &mut self,
        index: InterfaceIndex,
        family: Family,
        table: TableIndex,
    ) -> Result<(), Error> {
        self.operation(|router| {
            let interface = router.interfaces.get(index)?;
            let is_there = interface.table(family) == table;
            if !is_there && interface.stated_networks(family).next().is_some() {
                return Err(TableError::HasAddresses { name: interface.name.clone() }.into());
            }
            router.check_meets_none(index, family, table)?;
            router.move_into_table(index, family, table)?;
            *router.interfaces.get_mut(index)?.stated_table_mut(family) = table;
            router.has_stated(family, table);
            router.say(Notice::TableStated(index));
            Ok(())
        })
    }

    /// Moves an interface of both families into a table with all its addresses; none: into those that are stated.
    ///
    /// # Errors
    /// When there is no such interface, or another one there has one of its addresses; then nothing has changed.
    pub fn follow_table(&mut self, index: InterfaceIndex, table: Option<TableIndex>) -> Result<(), Error> {
        if let Some(missing) = table.and_then(|at| Family::ALL.into_iter().find(|of| !self.ip.has_table(*of, at))) {
            return Err(TableError::NotThere { family: missing, id: table.map_or(0, |at| self.ip.id_of(at)) }.into());
        }
        self.operation(|router| {
            let interface = router.interfaces.get(index)?;
            let before = Family::ALL.map(|family| (family, interface.table(family)));
            let into = before.map(|(family, _)| (family, table.unwrap_or(interface.stated_table(family))));
            // Before anything moves: a move that is taken back would be said.
            for (family, into) in into {
                router.check_meets_none(index, family, into)?;
                router.check_move(index, family, into)?;
            }
            let moved = into.into_iter().try_for_each(|(family, into)| router.move_into_table(index, family, into));
            if moved.is_err() {
                // There was no room.
                for (family, into) in before {
                    router.move_into_table(index, family, into)?;
                }
            }
            moved
        })
    }

    /// An operator stated something of a family about an interface that may follow another table than the stated one.
    /// What was stated is true in that table only, so the table is stated, too.
    pub(crate) fn has_stated_in_table(&mut self, index: InterfaceIndex, family: Family) {
        let Ok(interface) = self.interfaces.get(index) else { return };
        let table = interface.table(family);
        // Whoever is changed is published anew, with all that depends on it.
        if interface.stated_table(family) == table {
            return;
        }
        if let Ok(interface) = self.interfaces.get_mut(index) {
            *interface.stated_table_mut(family) = table;
        }
        self.has_stated(family, table);
    }

    /// Refuses to state an address of an interface in its table if another one's is stated there, which follows another
    /// table at present: both could not be loaded again.
    pub(crate) fn check_stated_there(&self, index: InterfaceIndex, prefix: Prefix) -> Result<(), Error> {
        let family = prefix.family();
        let table = self.interfaces.get(index)?.table(family);
        // Interfaces follow only tables that were found.
        if !self.ip.tables.all().any(|known| known.is_found) {
            return Ok(());
        }
        let meets = |known: &Prefix| known.contains_prefix(prefix.network()) || prefix.contains_prefix(known.network());
        let away = |other: &&Interface| {
            other.index != index && other.stated_table(family) == table && other.table(family) != table
        };
        let mut found = self.interfaces.iter().filter(away);
        let met = found.find_map(|other| Some((other.stated_networks(family).find(meets)?, other.name.clone())));
        match met {
            Some((taken, name)) => Err(Error::AddressTaken { wanted: prefix, taken, name }),
            None => Ok(()),
        }
    }

    /// Refuses to bring an interface where others have its addresses.
    fn check_meets_none(&self, index: InterfaceIndex, family: Family, table: TableIndex) -> Result<(), Error> {
        let interface = self.interfaces.get(index)?;
        if interface.table(family) == table {
            return Ok(());
        }
        let met = |own: Prefix| {
            let others =
                self.interfaces.iter().filter(move |other| other.index != index && other.table(family) == table);
            let meets =
                move |known: &Prefix| known.contains_prefix(own.network()) || own.contains_prefix(known.network());
            let mut found = others.filter_map(move |other| Some((other.stated_and_found(family).find(meets)?, other)));
            found.next().map(|(taken, other)| Error::AddressTaken { wanted: own, taken, name: other.name.clone() })
        };
        let book = self.interfaces.book.borrow();
        let meeting = interface.stated_and_found(family).filter(|own| book.meets_network(table, own.network()));
        meeting.into_iter().find_map(met).map_or(Ok(()), Err)
    }

    /// Refuses to move an interface that others need where it is.
    fn check_move(&self, index: InterfaceIndex, family: Family, table: TableIndex) -> Result<(), Error> {
        let interface = self.interfaces.get(index)?;
        if interface.table(family) == table {
            return Ok(());
        }
        self.allows(Change::Table { interface: index, family, table })?;
        if family == Family::Ip4 {
            self.check_borrows_nothing(interface)?;
            self.check_lends_nothing(index)?;
        }
        Ok(())
    }

    fn move_into_table(&mut self, index: InterfaceIndex, family: Family, table: TableIndex) -> Result<(), Error> {
        self.check_move(index, family, table)?;
        let before = self.interfaces.get(index)?.table(family);
        if before == table {
            return Ok(());
        }
        // Routes of addresses, of neighbours and of hosts that the router answers for belong to the table of their
        // interface.
        let mut follow: Vec<_> = self
            .routes_by(index)
            .into_iter()
            .filter(|(of, prefix, source, _)| {
                let follows = matches!(source, Source::OnLink | Source::Neighbour | Source::Proxy);
                *of == before && prefix.family() == family && follows
            })
            .collect();
        let connected = self.connected_of(index, family).into_iter();
        follow.extend(connected.map(|(prefix, path)| (before, prefix, Source::Interface, vec![path])));
        for (done, (_, prefix, source, paths)) in follow.iter().enumerate() {
            if let Err(error) = self.add_route_in(table, *prefix, *source, paths.clone(), false) {
                for (_, prefix, source, paths) in &follow[..done] {
                    self.remove_route_in(table, *prefix, *source, paths)?;
                }
                return Err(error);
            }
        }
        *self.interfaces.get_mut(index)?.table_mut(family) = table;
        self.publish_facts();
        let mut removed = Ok(());
        for (_, prefix, source, paths) in follow {
            match self.remove_route_in(before, prefix, source, &paths) {
                Ok(()) | Err(Error::NoSuchRoute(_) | Error::NoSuchPath(_)) => {}
                error => removed = removed.and(error),
            }
        }
        self.addresses_moved(index, family);
        self.install_by(index);
        self.say(Notice::Table { interface: index, family });
        removed
    }
}

/// The table that a command names, or the default one.
pub(super) fn table(router: &Router, family: Family, args: &Args) -> Result<TableIndex, CommandError> {
    Ok(args.optional("table")?.map_or(Ok(TableIndex::DEFAULT), |id| router.find_table(family, id))?)
}

/// The limits of tables. These statements come after all routes, because they must not refuse any.
pub(crate) fn limits(router: &Router, into: &mut Vec<Statement>) {
    let tables = Family::ALL.into_iter().flat_map(|family| router.ip.table_ids(family).map(move |at| (family, at)));
    for (family, (index, id)) in tables {
        let Some(limit) = router.ip.limit(family, index) else { continue };
        let named = if index == TableIndex::DEFAULT { String::new() } else { format!(" table {id}") };
        let command = format!("set {} table max-routes", word(family));
        // A changed limit is removed first, so that it does not refuse what the new one allows.
        let mut statement = Statement::new(format!("{command} {limit}{named}"), format!("{command} unlimited{named}"));
        statement.needs.extend((index != TableIndex::DEFAULT).then(|| removal(family, id)));
        into.push(statement);
    }
}

/// The tables. They come before their contents.
pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    let tables = Family::ALL.into_iter().flat_map(|family| router.ip.table_ids(family).map(move |at| (family, at)));
    for (family, (index, id)) in tables {
        if router.ip.tables.get(family, index).is_none_or(|table| !table.is_stated) {
            continue;
        }
        let word = word(family);
        let needs: Vec<String> = (index != TableIndex::DEFAULT).then(|| removal(family, id)).into_iter().collect();
        into.extend(needs.iter().map(|removal| Statement::new(format!("{word} table add {id}"), removal.clone())));
        let named = if index == TableIndex::DEFAULT { String::new() } else { format!(" table {id}") };
        let mut rests_on_table = |line: String, undo: String| {
            let statement = Statement { needs: needs.clone(), ..Statement::new(line, undo) };
            into.push(statement.replaced_by_itself());
        };
        for (_, prefix) in router.ip.counted().filter(|(of, prefix)| *of == index && prefix.family() == family) {
            let command = format!("set {word} route counters {prefix}");
            rests_on_table(format!("{command} enable{named}"), format!("{command} disable{named}"));
        }
    }
}
