//! `set ip flow-hash`: by what of its packets a table tells flows, to keep each on one of several paths.
//!
//! It is written into the objects that spread the flows of the table's routes, so that who reads one knows it; a table
//! that tells flows as usual costs nothing.

use super::control::Ip;
use super::path_list::{ListId, ListKey, Of};
use super::route::TableIndex;
use super::vrf::{removal, table, word};
use crate::Router;
use crate::config::Statement;
use command::{Args, Command, CommandSet, Done, fail, reply};
use std::fmt;
use tables::object::{LoadBalance, Object, ObjectsFull};
use wire::Family;
use wire::batch::FlowFields;

/// The names of the fields, in the order in which they are shown.
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
/// Stands beside the fields in an object: they are others than usual.
const IS_OWN: u16 = 1 << 8;

/// The fields that an object has.
pub(super) fn fields_of(flow: u16) -> FlowFields {
    FlowFields::of_bits(flow as u8)
}

/// What is told of flows where nobody said otherwise.
pub(super) fn usual(family: Family) -> FlowFields {
    match family {
        Family::Ip4 => FlowFields::USUAL4,
        Family::Ip6 => FlowFields::USUAL6,
    }
}

/// Fields by their names.
pub(super) struct Names(pub FlowFields);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing empty is written: that is how a reply says that it waits.
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
    /// By what a table tells flows.
    pub(super) fn flow_fields(&self, family: Family, table: TableIndex) -> FlowFields {
        self.tables.get(family, table).map_or(usual(family), |table| table.flow)
    }

    /// What the object of a list of paths has of that.
    pub(super) fn flow_of(&self, key: &ListKey) -> u16 {
        let Of::Prefixes(family) = key.of else { return 0 };
        let fields = self.flow_fields(family, key.table);
        if fields == usual(family) { 0 } else { IS_OWN | u16::from(fields.bits()) }
    }
}

impl Router {
    /// Has a table tell flows by these fields from now on. Flows may change their paths.
    ///
    /// # Errors
    /// When there is no room for the change; then nothing has changed.
    pub fn set_flow_fields(
        &mut self,
        family: Family,
        table: TableIndex,
        fields: FlowFields,
    ) -> Result<(), ObjectsFull> {
        let before = std::mem::replace(&mut self.ip.tables.get_mut(family, table).flow, fields);
        let is_of_table = |key: &ListKey| key.of == Of::Prefixes(family) && key.table == table;
        let lists: Vec<ListId> =
            self.ip.lists.iter().filter(|(_, list)| is_of_table(&list.key)).map(|(id, _)| id).collect();
        for (at, id) in lists.iter().enumerate() {
            if let Err(full) = self.write_balance(*id) {
                self.ip.tables.get_mut(family, table).flow = before;
                // What was there has room.
                for id in &lists[..at] {
                    let _ = self.write_balance(*id);
                }
                return Err(full);
            }
        }
        Ok(())
    }

    /// Writes the object of a list anew, when it has one.
    fn write_balance(&mut self, id: ListId) -> Result<(), ObjectsFull> {
        let list = self.ip.lists.get(id);
        let flow = self.ip.flow_of(&list.key);
        let Some((object, buckets)) = list.balance.clone() else { return Ok(()) };
        self.ip.objects.replace(object, &Object::LoadBalance(LoadBalance { buckets, flow }))
    }
}

/// Tables that tell flows otherwise than usual.
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
