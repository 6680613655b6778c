//! `show` of MPLS, in VPP's layout.

use super::control::end;
use super::table::{Labels, reserved};
use super::{pop, table};
use crate::Router;
use crate::ip::control::{LabelTableIndex, TableIndex};
use crate::ip::path_list::{ListId, Of};
use crate::ip::show::{ShownBalance, ShownList, shown_balance, shown_list};
use command::{Args, Command, CommandError, CommandSet, Reply, fail, reply};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use tables::{LabelKey, Leaf, kind};
use wire::Family;
use wire::mpls::{ENTROPY_INDICATOR, IPV4_EXPLICIT_NULL, IPV6_EXPLICIT_NULL, ROUTER_ALERT};

pub(super) fn register(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "show mpls fib [table <table:u32>] [<label:u32 0..1048575> [{eos | non-eos : end}]] [detail]",
            "Show where labels lead: those of tables, or one.",
            show_fib,
        )
        .example("show mpls fib 16")
        .example("show mpls fib table 0"),
    );
    set.add(Command::new(
        "show mpls interface [<interface:interface>]",
        "Show which interfaces take labelled packets.",
        |router: &mut Router, args: &Args| {
            let only = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
            let chosen = router.interfaces.iter().filter(|interface| match only {
                Some(only) => interface.index == only,
                None => interface.mpls,
            });
            let shown = |interface: &crate::interface::Interface| ShownInterface {
                name: interface.name.clone(),
                mpls_enabled: interface.mpls,
            };
            reply(ShowInterfaces { interfaces: chosen.map(shown).collect() })
        },
    ));
    set.add(
        Command::new(
            "show mpls tunnel [<tunnel:interface>]",
            "Show MPLS tunnels, their paths, and where they lead.",
            |router: &mut Router, args: &Args| {
                let router = &*router;
                let only = args.optional_text("tunnel").map(|name| router.interfaces.find(name)).transpose()?;
                only.map_or(Ok(()), |only| router.tunnel_paths(only).map(drop))?;
                let chosen = router.ip.tunnels.iter().filter(|(index, _)| only.is_none_or(|only| only == **index));
                let shown = chosen.filter_map(|(index, list)| {
                    let interface = router.interfaces.get(*index).ok()?;
                    Some(ShownTunnel {
                        name: interface.name.clone(),
                        sw_if_index: index.0,
                        path_list: shown_list(router, *list),
                        forwarding: shown_balance(router, Of::Tunnel(*index), router.ip.lists.leaf(*list), None),
                    })
                });
                reply(ShowTunnels { tunnels: shown.collect() })
            },
        )
        .example("show mpls tunnel mpls-tunnel0"),
    );
    set.add(Command::new("show mpls table", "Show which MPLS tables there are.", |router: &mut Router, _| {
        let shown = |(index, labels): (LabelTableIndex, &Labels)| ShownTable {
            index: index.0,
            table_id: labels.id,
            labels: labels.len(),
        };
        reply(ShowTables { tables: router.ip.labels.iter().map(shown).collect() })
    }));
}

/// What a label means of itself, as VPP names it.
fn name(label: u32) -> Option<&'static str> {
    match label {
        IPV4_EXPLICIT_NULL => Some("ip4-explicit-null"),
        IPV6_EXPLICIT_NULL => Some("ip6-explicit-null"),
        ROUTER_ALERT => Some("router-alert"),
        ENTROPY_INDICATOR => Some("entropy-indicator"),
        _ => None,
    }
}

/// `16:eos/21`: with the bit that says whether it is at the bottom, a label has 21.
struct Name(LabelKey);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.0.is_bottom() { "eos" } else { "neos" };
        match name(self.0.label()) {
            Some(name) => write!(f, "{name}:{end}/21"),
            None => write!(f, "{}:{end}/21", self.0.label()),
        }
    }
}

impl Router {
    /// Where a leaf of labels leads, in words.
    pub(crate) fn label_leaf_text(&self, leaf: Leaf) -> String {
        let (family, short, long) = match pop::family_of(leaf) {
            Family::Ip4 => (Family::Ip4, "ip4", "ipv4"),
            Family::Ip6 => (Family::Ip6, "ip6", "ipv6"),
        };
        let model = if pop::is_uniform(leaf) { "uniform" } else { "pipe" };
        match leaf.kind() {
            kind::PUNT => "[@0]: dpo-drop mpls router-alert".into(),
            kind::LOOKUP if leaf == table::ENTROPY => "[@0]: mpls-entropy: unicast lookup of the label above".into(),
            kind::LOOKUP => {
                let id = self.ip.labels.id_of(LabelTableIndex(leaf.index() as u16));
                format!("[@{}]: dst-address,unicast lookup in mpls-VRF:{id}", leaf.index())
            }
            kind::POP_LOOKUP => {
                let inside = match pop::table_of(leaf) {
                    Some(TableIndex(index)) => {
                        format!(
                            "[@{index}]: dst-address,unicast lookup in {long}-VRF:{}",
                            self.ip.id_of(TableIndex(index))
                        )
                    }
                    None => format!("[@0]: dst-address,unicast lookup in interface's {short} table"),
                };
                format!("[@0]: mpls-disposition:[@0]:[{short}, {model}]\n        {inside}")
            }
            kind::POP => {
                let object = crate::ip::adjacency::object_of(leaf);
                let inside = self.adjacency_text(family, Leaf::new(kind::ADJACENCY, object));
                format!("[@{object}]: mpls-disposition:[@{object}]:[{short}, {model}]\n        {inside}")
            }
            kind::ADJACENCY => self.adjacency_text(Family::Ip4, leaf),
            _ => "[@0]: dpo-drop mpls".into(),
        }
    }
}

fn show_fib(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let tables: Vec<LabelTableIndex> = match args.optional("table")? {
        Some(id) => vec![router.find_label_table(id)?],
        None => router.ip.labels.iter().map(|(index, _)| index).collect(),
    };
    let label: Option<u32> = args.optional("label")?;
    let wanted = |key: &LabelKey| {
        let end_is = args.optional_text("end").is_none_or(|word| word == end(*key));
        label.is_none_or(|label| key.label() == label) && end_is
    };
    let mut shown = Vec::new();
    for index in tables {
        let labels = router.ip.labels.get(index).expect("it was found");
        let mut known: BTreeMap<ListId, ShownRoute> = BTreeMap::new();
        let mut rows = Vec::new();
        let itself = reserved().filter(|(key, _)| wanted(key)).map(|(key, leaf)| {
            let of = Of::Labels { table: index, is_bottom: key.is_bottom() };
            (key, Where::Itself(shown_balance(router, of, leaf, None)))
        });
        rows.extend(itself);
        for (key, route) in labels.routes().filter(|(key, _)| wanted(key)) {
            known.entry(route.list).or_insert_with(|| {
                let of = router.ip.lists.get(route.list).key.of;
                let forwarding = shown_balance(router, of, router.ip.lists.leaf(route.list), None);
                ShownRoute { source: route.source.name(), path_list: shown_list(router, route.list), forwarding }
            });
            rows.push((key, Where::List(route.list)));
        }
        shown.push(ShownLabels { table: labels.id, index: index.0, labels: Rows { rows, known } });
    }
    match label.filter(|_| shown.iter().all(|labels| labels.labels.rows.is_empty())) {
        Some(label) => fail(format!("no local label {label} (`show mpls fib' lists them)")),
        None => reply(ShowFib { details: label.is_some() || args.flag("detail"), tables: shown }),
    }
}

#[derive(Serialize)]
struct ShownRoute {
    source: &'static str,
    path_list: ShownList,
    forwarding: ShownBalance,
}

/// Where a label leads: by what it means of itself, or by a list of paths.
enum Where {
    Itself(ShownBalance),
    List(ListId),
}

struct Rows {
    rows: Vec<(LabelKey, Where)>,
    known: BTreeMap<ListId, ShownRoute>,
}

impl Rows {
    fn iter(&self) -> impl Iterator<Item = (LabelKey, Option<&ShownRoute>, &ShownBalance)> {
        self.rows.iter().map(|(key, leads)| match leads {
            Where::Itself(forwarding) => (*key, None, forwarding),
            Where::List(list) => (*key, Some(&self.known[list]), &self.known[list].forwarding),
        })
    }
}

#[derive(Serialize)]
struct Row<'a> {
    label: u32,
    eos: bool,
    source: &'a str,
    path_list: Option<&'a ShownList>,
    forwarding: &'a ShownBalance,
}

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|(key, route, forwarding)| Row {
            label: key.label(),
            eos: key.is_bottom(),
            source: route.map_or("special", |route| route.source),
            path_list: route.map(|route| &route.path_list),
            forwarding,
        }))
    }
}

#[derive(Serialize)]
struct ShownLabels {
    table: u32,
    index: u16,
    labels: Rows,
}

#[derive(Serialize)]
struct ShowFib {
    #[serde(skip)]
    details: bool,
    tables: Vec<ShownLabels>,
}

impl fmt::Display for ShowFib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ShownLabels { table, index, labels } in &self.tables {
            writeln!(f, "MPLS-VRF:{table}, fib_index:{index}")?;
            for (key, route, forwarding) in labels.iter() {
                write!(f, "{}", Name(key))?;
                if self.details {
                    writeln!(f, " fib:{index}")?;
                    match route {
                        Some(ShownRoute { source, path_list, .. }) => {
                            let active = if forwarding.is_empty() { "" } else { "contributing,active," };
                            write!(f, "  {source} src-flags:added,{active}\n{path_list}\n")?;
                        }
                        None => writeln!(f, "  special entry-flags:exclusive, src-flags:added,contributing,active,\n")?,
                    }
                    write!(f, " forwarding:")?;
                } else {
                    writeln!(f)?;
                }
                if forwarding.is_empty() {
                    writeln!(f, "  unresolved")?;
                    continue;
                }
                writeln!(f, "  mpls-{}-chain", if key.is_bottom() { "eos" } else { "neos" })?;
                write!(f, "{forwarding}")?;
            }
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct ShownInterface {
    name: String,
    mpls_enabled: bool,
}

#[derive(Serialize)]
struct ShowInterfaces {
    interfaces: Vec<ShownInterface>,
}

impl fmt::Display for ShowInterfaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.interfaces.iter().try_for_each(|ShownInterface { name, mpls_enabled }| {
            writeln!(f, "{name}\n  MPLS {}", if *mpls_enabled { "enabled" } else { "disabled" })
        })
    }
}

#[derive(Serialize)]
struct ShownTunnel {
    name: String,
    sw_if_index: u32,
    path_list: ShownList,
    forwarding: ShownBalance,
}

#[derive(Serialize)]
struct ShowTunnels {
    tunnels: Vec<ShownTunnel>,
}

impl fmt::Display for ShowTunnels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tunnels.is_empty() {
            writeln!(f, "No MPLS tunnels configured...")?;
        }
        for (at, ShownTunnel { name, sw_if_index, path_list, forwarding }) in self.tunnels.iter().enumerate() {
            write!(f, "[@{at}] {name}: sw_if_index:{sw_if_index}\n{path_list}")?;
            if forwarding.is_empty() {
                writeln!(f, " forwarding:  unresolved")?;
            } else {
                write!(f, " forwarding:\n{forwarding}")?;
            }
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct ShownTable {
    index: u16,
    table_id: u32,
    labels: usize,
}

#[derive(Serialize)]
struct ShowTables {
    tables: Vec<ShownTable>,
}

impl fmt::Display for ShowTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tables.iter().try_for_each(|ShownTable { index, table_id, labels }| {
            writeln!(f, "[{index}] table_id:{table_id} mpls-VRF:{table_id} labels:{labels}")
        })
    }
}
