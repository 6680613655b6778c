//! `show` of MPLS, in VPP's layout.

use super::tunnel;
use command::{Args, Command, CommandError, CommandSet, Reply, fail, reply};
use router::Router;
use router::ip::control::LabelTableIndex;
use router::ip::labels::control::end;
use router::ip::labels::key::LabelKey;
use router::ip::labels::table::{LabelRoute, Labels, reserved};
pub use router::ip::path_list::{ListId, Of};
use router::ip::show::{ShownBalance, ShownList, shown_balance, shown_list};
use router::listing::{Listing, PAGE, Pages};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use wire::mpls::{ENTROPY_INDICATOR, IPV4_EXPLICIT_NULL, IPV6_EXPLICIT_NULL, ROUTER_ALERT};

pub(super) fn register(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "show mpls fib [table <table:u32>] [<label:u32 0..1048575> [{eos | non-eos : end}]] [detail]",
            "Show the labels of all tables, or one label, with their paths.",
            show_fib,
        )
        .example("show mpls fib 16")
        .example("show mpls fib table 0"),
    );
    set.add(Command::new(
        "show mpls interface [<interface:interface>]",
        "Show the interfaces on which MPLS is enabled.",
        |router: &mut Router, args: &Args| {
            let only = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
            let chosen = router.interfaces.iter().filter(|interface| match only {
                Some(only) => interface.index == only,
                None => interface.mpls,
            });
            let shown = |interface: &router::interface::Interface| ShownInterface {
                name: interface.name.clone(),
                mpls_enabled: interface.mpls,
            };
            reply(ShowInterfaces { interfaces: chosen.map(shown).collect() })
        },
    ));
    set.add(
        Command::new(
            "show mpls tunnel [<tunnel:interface>]",
            "Show MPLS tunnels, their paths and next hops.",
            |router: &mut Router, args: &Args| {
                let router = &*router;
                let only = args.optional_text("tunnel").map(|name| router.interfaces.find(name)).transpose()?;
                only.map_or(Ok(()), |only| tunnel::tunnel_paths(router, only).map(drop))?;
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
    set.add(Command::new("show mpls table", "Show the MPLS tables.", |router: &mut Router, _| {
        let shown = |(index, labels): (LabelTableIndex, &Labels)| ShownTable {
            index: index.0,
            table_id: labels.id,
            labels: labels.count(),
        };
        reply(ShowTables { tables: router.ip.labels.iter().map(shown).collect() })
    }));
}

/// The meaning of a reserved label, by VPP's name.
fn name(label: u32) -> Option<&'static str> {
    match label {
        IPV4_EXPLICIT_NULL => Some("ip4-explicit-null"),
        IPV6_EXPLICIT_NULL => Some("ip6-explicit-null"),
        ROUTER_ALERT => Some("router-alert"),
        ENTROPY_INDICATOR => Some("entropy-indicator"),
        _ => None,
    }
}

/// `16:eos/21`: a label with its bottom-of-stack bit takes 21 bits.
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

fn show_fib(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let tables: Vec<LabelTableIndex> = match args.optional("table")? {
        Some(id) => vec![router.find_label_table(id)?],
        None => router.ip.labels.iter().map(|(index, _)| index).collect(),
    };
    let label: Option<u32> = args.optional("label")?;
    let is_bottom = args.optional_text("end").map(|word| word == end(LabelKey::new(0, true)));
    let shown = |index: LabelTableIndex| {
        let id = router.ip.labels.id_of(index);
        let begin = LabelPages { index, id, label, is_bottom, last: None };
        ShownLabels { table: id, index: index.0, labels: Listing::new(router, move || begin) }
    };
    let is_known = |label: u32| {
        let ends = [false, true].map(|is_bottom| LabelKey::new(label, is_bottom));
        let keys = ends.into_iter().filter(|key| is_bottom.is_none_or(|is_bottom| key.is_bottom() == is_bottom));
        let has =
            |key: LabelKey| tables.iter().filter_map(|of| router.ip.labels.get(*of)).any(|of| of.get(key).is_some());
        keys.into_iter().any(|key| has(key) || reserved().any(|(reserved, _)| reserved == key))
    };
    match label.filter(|label| !is_known(*label)) {
        Some(label) => fail(format!("no local label {label} ('show mpls fib' lists them)")),
        None => {
            let tables = tables.into_iter().map(shown).collect();
            reply(ShowFib { details: label.is_some() || args.flag("detail"), tables })
        }
    }
}

/// Where a label leads: by its source and a list of paths, or by its reserved meaning.
#[derive(Serialize)]
struct ShownRoute {
    source: &'static str,
    path_list: Option<ShownList>,
    forwarding: ShownBalance,
}

struct ShownLabel {
    key: LabelKey,
    route: Arc<ShownRoute>,
}

impl Serialize for ShownLabel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            label: u32,
            eos: bool,
            #[serde(flatten)]
            route: &'a ShownRoute,
        }
        Row { label: self.key.label(), eos: self.key.is_bottom(), route: &self.route }.serialize(serializer)
    }
}

/// The labels of a table, page by page: the reserved ones come first.
#[derive(Clone, Copy)]
struct LabelPages {
    index: LabelTableIndex,
    id: u32,
    /// Only this label.
    label: Option<u32>,
    /// Only at the bottom of the stack, or above it.
    is_bottom: Option<bool>,
    /// The label after which the next page begins. `None` before the page of reserved labels, `Some(None)` after it.
    last: Option<Option<LabelKey>>,
}

impl LabelPages {
    fn wants(&self, key: LabelKey) -> bool {
        self.label.is_none_or(|label| key.label() == label)
            && self.is_bottom.is_none_or(|is_bottom| key.is_bottom() == is_bottom)
    }
}

impl Pages for LabelPages {
    type Entry = ShownLabel;

    fn next(&mut self, router: &Router) -> Option<Vec<ShownLabel>> {
        let labels = router.ip.labels.get(self.index).filter(|labels| labels.id == self.id)?;
        let Some(last) = self.last else {
            self.last = Some(None);
            let itself = reserved().filter(|(key, _)| self.wants(*key)).map(|(key, leaf)| {
                let of = Of::Labels { table: self.index, is_bottom: key.is_bottom() };
                let forwarding = shown_balance(router, of, leaf, None);
                ShownLabel { key, route: Arc::new(ShownRoute { source: "special", path_list: None, forwarding }) }
            });
            return Some(itself.collect());
        };
        let part: Vec<(LabelKey, LabelRoute)> = match self.label {
            Some(label) => {
                let both = [true, false].map(|is_bottom| LabelKey::new(label, is_bottom)).into_iter();
                both.filter(|key| Some(*key) > last).filter_map(|key| Some((key, labels.get(key)?))).collect()
            }
            None => labels.behind(last).take(PAGE).collect(),
        };
        self.last = Some(Some(part.last()?.0));
        let mut known: HashMap<ListId, Arc<ShownRoute>> = HashMap::new();
        let shown = part.into_iter().filter(|(key, _)| self.wants(*key)).map(|(key, route)| {
            let shown = known.entry(route.list).or_insert_with(|| {
                let of = router.ip.lists.get(route.list).key.of;
                let forwarding = shown_balance(router, of, router.ip.lists.leaf(route.list), None);
                let path_list = Some(shown_list(router, route.list));
                Arc::new(ShownRoute { source: route.source.name(), path_list, forwarding })
            });
            ShownLabel { key, route: shown.clone() }
        });
        Some(shown.collect())
    }
}

#[derive(Serialize)]
struct ShownLabels {
    table: u32,
    index: u16,
    labels: Listing<LabelPages>,
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
            labels.try_each(|ShownLabel { key, route }| {
                let ShownRoute { source, path_list, forwarding } = &**route;
                write!(f, "{}", Name(*key))?;
                if self.details {
                    writeln!(f, " fib:{index}")?;
                    match path_list {
                        Some(path_list) => {
                            let active = if forwarding.is_empty() { "" } else { "contributing,active," };
                            write!(f, "  {source} src-flags:added,{active}\n{path_list}\n")?;
                        }
                        None => {
                            let flags = "src-flags:added,contributing,active,";
                            writeln!(f, "  {source} entry-flags:exclusive, {flags}\n")?;
                        }
                    }
                    write!(f, " forwarding:")?;
                } else {
                    writeln!(f)?;
                }
                if forwarding.is_empty() {
                    return writeln!(f, "  unresolved");
                }
                writeln!(f, "  mpls-{}-chain", if key.is_bottom() { "eos" } else { "neos" })?;
                write!(f, "{forwarding}")
            })?;
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
