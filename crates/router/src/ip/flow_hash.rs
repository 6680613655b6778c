//! `set ip flow-hash`: the packet fields by which a table distinguishes flows, to keep each flow on one of several
//! paths.
//!
//! The fields are stored in the load balances of the table's routes, so that the node that reads a load balance knows
//! them. A table with the default fields costs nothing.

use super::control::Ip;
use super::path_list::{ListId, ListKey, Of};
use super::route::TableIndex;
use super::vrf::table;
use crate::Router;
use crate::statement::Statement;
use crate::table_index::{removal, word};
use command::{Args, Command, CommandSet, Done, fail, reply};
use std::fmt;
use tables::object::{LoadBalance, Object, ObjectsFull};
use wire::Family;
use wire::batch::FlowFields;

/// The names of the fields, in the order in which they are displayed.
const NAMES: [(&str, FlowFields); 8] = [
    ("src", FlowFields::SOURCE),
    ("dst", FlowFields::DESTINATION),
    ("sport", FlowFields::SOURCE_PORT),
    ("dport", FlowFields::DESTINATION_PORT),
    ("proto", FlowFields::PROTOCOL),
    ("reverse", FlowFields::REVERSE),
    ("symmetric", FlowFields::SYMMETRIC),
    ("flowlabel", FlowFields::LABEL),
];
/// A mark beside the fields in an object: they are not the default ones.
const IS_OWN: u16 = 1 << 8;

/// The fields stored in an object.
pub(super) fn fields_of(flow: u16) -> FlowFields {
    FlowFields::of_bits(flow as u8)
}

/// The default fields.
pub(super) fn usual(family: Family) -> FlowFields {
    match family {
        Family::Ip4 => FlowFields::USUAL4,
        Family::Ip6 => FlowFields::USUAL6,
    }
}

/// Displays fields by their names.
pub(super) struct Names(pub FlowFields);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never writes an empty string, because an empty string tells the reply that it has to wait.
        for (at, (name, _)) in NAMES.iter().filter(|(_, field)| self.0.has(*field)).enumerate() {
            f.write_str(if at > 0 { " " } else { name })?;
            if at > 0 {
                f.write_str(name)?;
            }
        }
        Ok(())
    }
}

impl Ip {
    /// The fields by which a table distinguishes flows.
    pub(super) fn flow_fields(&self, family: Family, table: TableIndex) -> FlowFields {
        self.tables.get(family, table).map_or(usual(family), |table| table.flow)
    }

    /// The value for these fields in the object of a path list.
    pub(super) fn flow_of(&self, key: &ListKey) -> u16 {
        let Of::Prefixes(family) = key.of else { return 0 };
        let fields = self.flow_fields(family, key.table);
        if fields == usual(family) { 0 } else { IS_OWN | u16::from(fields.bits()) }
    }
}

impl Router {
    /// Sets the fields by which a table distinguishes flows. Flows may change their paths.
    ///
    /// # Errors
    /// When there is no room for the change; then nothing has changed.
    pub fn set_flow_fields(
        &mut self,
        family: Family,
        table: TableIndex,
        fields: FlowFields,
    ) -> Result<(), ObjectsFull> {
        self.has_stated(family, table);
        let before = std::mem::replace(&mut self.ip.tables.get_mut(family, table).flow, fields);
        let is_of_table = |key: &ListKey| key.of == Of::Prefixes(family) && key.table == table;
        let lists: Vec<ListId> =
            self.ip.lists.iter().filter(|(_, list)| is_of_table(&list.key)).map(|(id, _)| id).collect();
        for (at, id) in lists.iter().enumerate() {
            if let Err(full) = self.write_balance(*id) {
                self.ip.tables.get_mut(family, table).flow = before;
                // The earlier values fit.
                for id in &lists[..at] {
                    let _ = self.write_balance(*id);
                }
                return Err(full);
            }
        }
        Ok(())
    }

    /// Rewrites the object of a list, if it has one.
    fn write_balance(&mut self, id: ListId) -> Result<(), ObjectsFull> {
        let list = self.ip.lists.get(id);
        let flow = self.ip.flow_of(&list.key);
        let Some((object, buckets)) = list.balance.clone() else { return Ok(()) };
        self.ip.objects.replace(object, &Object::LoadBalance(LoadBalance { buckets, flow }))
    }
}

/// The tables that distinguish flows by other fields than the default ones.
pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    let tables = Family::ALL.into_iter().flat_map(|family| router.ip.table_ids(family).map(move |at| (family, at)));
    for (family, (index, id)) in tables {
        let fields = router.ip.flow_fields(family, index);
        if fields == usual(family) {
            continue;
        }
        let command = format!("set {} flow-hash table {id}", word(family));
        let mut statement = Statement::new(format!("{command} {}", Names(fields)), format!("{command} default"));
        statement.needs.extend((index != TableIndex::DEFAULT).then(|| removal(family, id)));
        into.push(statement.replaced_by_itself());
    }
}

pub(super) fn register(set: &mut CommandSet<Router>) {
    for family in Family::ALL {
        let (word, name) = (word(family), super::cli::name(family));
        let label = if family == Family::Ip6 { " | [flowlabel]" } else { "" };
        set.add(
            Command::new(
                &format!(
                    "set {word} flow-hash [table <table:u32>] {{{{ [src] | [dst] | [sport] | [dport] | [proto] | \
                     [reverse] | \
                     [symmetric]{label} | [default] }}}}"
                ),
                &format!(
                    "Set the packet fields by which an {name} routing table recognizes flows. All packets of a flow \
                     take \
                     the same path. `symmetric` treats both directions as one flow."
                ),
                move |router: &mut Router, args: &Args| {
                    let fields = NAMES.iter().filter(|(name, _)| args.flag(name)).map(|(_, field)| *field);
                    let fields = fields.fold(FlowFields::NONE, FlowFields::and);
                    let fields = match (args.flag("default"), fields) {
                        (true, FlowFields::NONE) => usual(family),
                        (true, _) => return fail("'default' stands alone"),
                        (false, fields) if !usual(Family::Ip6).shares(fields) => {
                            return fail("name what tells flows, as in 'src dst', or 'default'");
                        }
                        (false, fields) => fields,
                    };
                    router.set_flow_fields(family, table(router, family, args)?, fields).map_err(crate::Error::from)?;
                    reply(Done)
                },
            )
            .configures()
            .example(&format!("set {word} flow-hash table 0 src dst")),
        );
    }
}
