//! `show` of routes, path lists and forwarding objects, in VPP's layout.
//!
//! The session that reads a reply makes its text, not the control thread. A whole table is copied page by page, as the
//! client reads it ([`crate::listing`]).

use super::control::way_of;
use super::count::Counts;
use super::entry::Entry;
use super::flow_hash::Names;
use super::labels;
use super::path_list::{ListId, Of};
use super::route::{MAX_PATHS, Path, PathAction, TableIndex};
use super::why;
use crate::Router;
use crate::ip::class;
use crate::listing::{Keys, Listing, PAGE, Pages};
use crate::neighbour_key::NeighbourKey;
use crate::table_index::word;
use command::{Args, Command, CommandError, CommandSet, Reply, fail, reply};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use tables::Leaf;

use wire::batch::FlowFields;
use wire::{Family, Prefix};

pub(super) fn register(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "show ip fib [table <table:u32>] [{summary | memory | <prefix:prefix4> | <address:ip4> : what}] [detail]",
            "Show the IPv4 routing tables, or the route to one destination.",
            |router: &mut Router, args: &Args| show_fib(router, Family::Ip4, args),
        )
        .also("show fib {memory : what}")
        .example("show ip fib 16.0.0.9")
        .example("show ip fib table 10")
        .example("show ip fib summary"),
    );
    set.add(
        Command::new(
            "show ip6 fib [table <table:u32>] [{summary | memory | <prefix:prefix6> | <address:ip6> : what}] [detail]",
            "Show the IPv6 routing tables, or the route to one destination.",
            |router: &mut Router, args: &Args| show_fib(router, Family::Ip6, args),
        )
        .example("show ip6 fib 2001:db8::9")
        .example("show ip6 fib summary"),
    );
    register_parts(set);
    for family in Family::ALL {
        let words = format!("show {} table", word(family));
        let command = Command::new(&words, "Show the routing tables.", move |router: &mut Router, args| {
            let only: Option<u32> = args.optional("table")?;
            let tables = router.ip.table_ids(family).filter(|(_, id)| only.is_none_or(|only| only == *id));
            let shown =
                |(index, id): (TableIndex, u32)| ShownTableName { family: Shown(family), index: index.0, table_id: id };
            let tables: Vec<ShownTableName> = tables.map(shown).collect();
            match (only, tables.is_empty()) {
                (Some(id), true) => fail(format!("there is no {} table {id}", word(family))),
                _ => reply(ShowTables { tables }),
            }
        });
        set.add(command.also(&format!("{words} <table:u32>")));
    }
}

fn register_parts(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "show fib entry [table <table:u32>] [<prefix:prefix>]",
            "Show the sources of each prefix and their lists of paths.",
            show_entries,
        )
        .example("show fib entry 16.0.0.0/24"),
    );
    set.add(
        Command::new(
            "show fib path-lists [<list:u32>]",
            "Show the lists of paths that routes share, or one of them.",
            show_lists,
        )
        .example("show fib path-lists 3"),
    );
    set.add(Command::new("show fib paths", "Show all paths, and whether they work.", |router: &mut Router, _| {
        let ids = router.ip.lists.iter().map(|(id, _)| id).collect();
        reply(ShowPaths { path_lists: Listing::of_keys(router, ids, list_there) })
    }));
    set.add(
        Command::new(
            "show adj [{<index:u32> | <interface:interface> : which}]",
            "Show adjacencies: the link headers of packets to each neighbour.",
            show_adjacencies,
        )
        .also("show adj nbr [{<index:u32> | <interface:interface> : which}]")
        .example("show adj e0"),
    );
    set.add(
        Command::new(
            "show load-balance [<index:u32>]",
            "Show load balances: the objects that spread flows over several paths.",
            show_balances,
        )
        .example("show load-balance 4"),
    );
    set.add(Command::new("show ip route counters", "Show the counters of routes.", |router: &mut Router, _| {
        let counted = router.ip.counted().filter_map(|(table, prefix)| {
            let Counts { packets, bytes } = router.ip.counts(table, prefix)?;
            Some(CountedRoute { table: router.ip.id_of(table), prefix: prefix.to_string(), packets, bytes })
        });
        reply(ShowCounted { routes: counted.collect() })
    }));
}

/// The tables that a command is about: the one that it names, or all.
fn tables(router: &Router, family: Family, args: &Args) -> Result<Vec<(TableIndex, u32)>, CommandError> {
    let named: Option<u32> = args.optional("table")?;
    match named {
        Some(id) => Ok(vec![(router.find_table(family, id)?, id)]),
        None => Ok(router.ip.table_ids(family).collect()),
    }
}

fn show_fib(router: &mut Router, family: Family, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let router = &*router;
    let tables = tables(router, family, args)?;
    match args.optional_text("what") {
        Some("summary") => {
            let summary = |(index, table): (TableIndex, u32)| {
                let used = (0u8..).zip(router.ip.routes_in(family, index).lengths()).filter(|(_, count)| **count > 0);
                let lengths = used.map(|(length, count)| LengthCount { length, count: *count }).collect();
                TableSummary { head: Head::new(router, family, (index, table)), lengths }
            };
            reply(Summary { tables: tables.into_iter().map(summary).collect() })
        }
        Some("memory") => {
            let memory = |(index, table): (TableIndex, u32)| {
                let memory = router.ip.memory_of(family, index);
                TableMemory { family: Shown(family), table, bytes: memory.lookup + memory.prefixes }
            };
            reply(Memory { tables: tables.into_iter().map(memory).collect() })
        }
        Some(_) => {
            let (prefix, named): (Option<Prefix>, Option<u32>) = (args.optional("prefix")?, args.optional("table")?);
            // The address to explain: why packets to it do not take a longer route, or any route.
            let asked: Option<IpAddr> = if prefix.is_some() { None } else { Some(args.parse("address")?) };
            let (mut found, mut notes) = (Vec::new(), Vec::new());
            for (index, id) in &tables {
                let (index, id) = (*index, *id);
                let mut withdrawn = asked.map_or_else(Vec::new, |address| why::withdrawn(router, index, address));
                let key = match prefix {
                    Some(prefix) => Some(prefix.network()),
                    None => asked.and_then(|to| router.ip.longest_match(index, to)).map(|(prefix, _)| prefix),
                };
                let Some((key, number)) = key.and_then(|key| Some((key, router.ip.fib(family, index).get(key)?)))
                else {
                    let table = if id == 0 { String::new() } else { format!("table {id}: ") };
                    notes.extend(withdrawn.into_iter().map(|why| format!("{table}{why}")));
                    continue;
                };
                withdrawn.extend(asked.map_or_else(Vec::new, |to| why::unresolved(router, index, key, to)));
                let table = ShownTable::of_one(router, family, (index, id), Some((key, number)));
                found.push(ShownTable { notes: withdrawn, ..table });
            }
            if let (Some(to), [(first, id), ..]) = (asked, &tables[..])
                && found.iter().all(|table| table.head.index != first.0)
            {
                notes.extend(why::elsewhere(router, *first, to).map(|only| format!("not in table {id}, {only}")));
            }
            match (found.is_empty(), prefix) {
                (false, _) => reply(ShowFib { details: true, tables: found, notes }),
                (true, Some(prefix)) => {
                    let named = named.map_or_else(String::new, |id| format!("table {id} "));
                    let address = prefix.address();
                    fail(format!("no route {prefix} ('show ip fib {named}{address}' shows the one that is taken)"))
                }
                (true, None) if notes.is_empty() => fail(format!("no route to {}", args.text("address")?)),
                (true, None) => fail(format!("no route to {}: {}", args.text("address")?, notes.join("; "))),
            }
        }
        None => {
            let all = |(index, id)| ShownTable::whole(router, family, index, id);
            let tables = tables.into_iter().map(all).collect();
            reply(ShowFib { details: args.flag("detail"), tables, notes: Vec::new() })
        }
    }
}

#[derive(Serialize)]
struct ShownPath {
    /// The path's index among all displayed paths.
    index: usize,
    #[serde(skip)]
    proto: &'static str,
    path_list: u32,
    path: String,
    weight: u8,
    preference: u8,
    resolved: bool,
}

#[derive(Serialize)]
pub struct ShownList {
    index: u32,
    table: u32,
    /// The routes that use the list.
    locks: usize,
    paths: Vec<ShownPath>,
}

#[derive(Serialize)]
struct ShownSource {
    source: &'static str,
    /// Whether packets take this source's paths.
    active: bool,
    path_list: ShownList,
}

#[derive(Serialize)]
struct ShownBucket {
    first: usize,
    last: usize,
    to: String,
}

/// Where packets go: an object and what its buckets lead to.
#[derive(Serialize)]
pub struct ShownBalance {
    object: u32,
    buckets: Vec<ShownBucket>,
    /// The counts, if the route is counted.
    #[serde(flatten)]
    counts: Option<Counts>,
    #[serde(skip)]
    proto: &'static str,
}

impl ShownBalance {
    /// Whether it leads nowhere.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }
}

/// The common part of routes that have the same sources with the same paths.
#[derive(Serialize)]
struct ShownRoute {
    sources: Vec<ShownSource>,
    forwarding: ShownBalance,
}

/// A prefix and its route.
struct ShownRow {
    prefix: Prefix,
    route: Arc<ShownRoute>,
}

impl Serialize for ShownRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            prefix: String,
            #[serde(flatten)]
            route: &'a ShownRoute,
        }
        Row { prefix: self.prefix.to_string(), route: &self.route }.serialize(serializer)
    }
}

/// The rows for routes of a table. The common part of several routes is computed once.
fn rows(router: &Router, index: TableIndex, routes: impl Iterator<Item = (Prefix, u32)>) -> Vec<ShownRow> {
    let mut known: HashMap<u32, Arc<ShownRoute>> = HashMap::new();
    let row = |(prefix, number): (Prefix, u32)| {
        let route = known.entry(number).or_insert_with(|| Arc::new(shown_route(router, index, prefix, Entry(number))));
        ShownRow { prefix, route: route.clone() }
    };
    routes.map(row).collect()
}

/// The routes of a table, page by page.
#[derive(Clone, Copy)]
struct Routes {
    family: Family,
    index: TableIndex,
    id: u32,
    /// The prefix after which the next page begins.
    last: Option<Prefix>,
}

impl Pages for Routes {
    type Entry = ShownRow;

    fn next(&mut self, router: &Router) -> Option<Vec<ShownRow>> {
        if router.find_table(self.family, self.id).ok() != Some(self.index) {
            return None;
        }
        let page = rows(router, self.index, router.ip.fib(self.family, self.index).behind(self.last).take(PAGE));
        self.last = Some(page.last()?.prefix);
        Some(page)
    }
}

#[derive(Serialize)]
struct ShownTable {
    #[serde(flatten)]
    head: Head,
    routes: Listing<Routes>,
    /// For one address: withdrawn routes that are longer than this one, and next hops that do not answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// The table of the routes.
#[derive(Clone, Copy, Serialize)]
struct Head {
    family: Shown,
    table: u32,
    index: u16,
    /// The fields by which the table distinguishes flows.
    #[serde(serialize_with = "as_names")]
    flow_hash: FlowFields,
}

fn as_names<S: Serializer>(fields: &FlowFields, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Names(*fields))
}

impl Head {
    fn new(router: &Router, family: Family, (index, table): (TableIndex, u32)) -> Head {
        let flow_hash = router.ip.flow_fields(family, index);
        Head { family: Shown(family), table, index: index.0, flow_hash }
    }
}

/// A family by VPP's name.
#[derive(Clone, Copy)]
struct Shown(Family);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Family::Ip4 => "ipv4",
            Family::Ip6 => "ipv6",
        })
    }
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The name of a family within the names of nodes and protocols.
fn short(family: Family) -> &'static str {
    match family {
        Family::Ip4 => "ip4",
        Family::Ip6 => "ip6",
    }
}

impl ShownTable {
    /// One route of a table, or none.
    fn of_one(
        router: &Router,
        family: Family,
        (index, id): (TableIndex, u32),
        route: Option<(Prefix, u32)>,
    ) -> ShownTable {
        let routes = Listing::Whole(rows(router, index, route.into_iter()));
        ShownTable { head: Head::new(router, family, (index, id)), routes, notes: Vec::new() }
    }

    /// All routes of a table.
    fn whole(router: &Router, family: Family, index: TableIndex, id: u32) -> ShownTable {
        let routes = Listing::new(router, move || Routes { family, index, id, last: None });
        ShownTable { head: Head::new(router, family, (index, id)), routes, notes: Vec::new() }
    }
}

/// Makes the displayed form of a route. Counted routes share none, because each has a number of its own.
fn shown_route(router: &Router, table: TableIndex, key: Prefix, entry: Entry) -> ShownRoute {
    let ip = &router.ip;
    let mut is_chosen = false;
    let sources = ip.several.shares(entry).map(|share| {
        let active = !is_chosen && ip.lists.leaf(share.list) != Leaf::MISS;
        is_chosen |= active;
        ShownSource { source: share.source.name(), active, path_list: shown_list(router, share.list) }
    });
    let sources = sources.collect();
    let way = way_of(&ip.lists, &ip.several, entry.0);
    let forwarding = shown_balance(router, Of::Prefixes(key.family()), way, ip.counts_of(table, key));
    ShownRoute { sources, forwarding }
}

pub fn shown_balance(router: &Router, of: Of, leaf: Leaf, counts: Option<Counts>) -> ShownBalance {
    // Only leaves of objects have an object number.
    let is_object = of.family().is_some() || class::is_adjacency(leaf) || leaf.class() == class::LOAD_BALANCE;
    let object = if is_object { super::adjacency::object_of(leaf) } else { 0 };
    ShownBalance { object, buckets: shown_buckets(router, of, leaf), counts, proto: proto(of) }
}

/// The kind of a list's users, as in the names of nodes and protocols.
fn proto(of: Of) -> &'static str {
    of.family().map_or("mpls", short)
}

/// Where a leaf leads: consecutive buckets with the same path are combined. Empty when it leads nowhere.
fn shown_buckets(router: &Router, of: Of, leaf: Leaf) -> Vec<ShownBucket> {
    let leaves = match leaf {
        Leaf::MISS => Vec::new(),
        _ => router.ip.buckets(leaf).map_or(vec![leaf], <[Leaf]>::to_vec),
    };
    let mut buckets: Vec<ShownBucket> = Vec::new();
    let mut previous = None;
    for (at, leaf) in leaves.into_iter().enumerate() {
        if previous == Some(leaf) {
            buckets.last_mut().expect("there was a previous one").last = at;
        } else {
            let to = match of {
                Of::Prefixes(family) | Of::Underlay(family) => router.adjacency_text(family, leaf),
                Of::Labels { .. } => labels::text::leaf_text(router, leaf),
                Of::Tunnel(_) => router.adjacency_text(Family::Ip4, leaf),
            };
            buckets.push(ShownBucket { first: at, last: at, to });
            previous = Some(leaf);
        }
    }
    buckets
}

pub fn shown_list(router: &Router, id: ListId) -> ShownList {
    let list = router.ip.lists.get(id);
    let first = id.0 as usize * MAX_PATHS;
    let path = |(at, path): (usize, &Path)| {
        let (text, resolved) = shown_way(router, list.key.table, &path.way);
        let labels = path.labels.as_ref().map_or(String::new(), |labels| labels.to_string());
        ShownPath {
            index: first + at,
            proto: proto(list.key.of),
            path_list: id.0,
            path: text + &labels,
            weight: path.weight,
            preference: path.preference,
            resolved,
        }
    };
    let table = router.ip.id_of(list.key.table);
    ShownList { index: id.0, table, locks: list.users(), paths: list.key.paths.iter().enumerate().map(path).collect() }
}

fn show_entries(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let router = &*router;
    let prefix: Option<Prefix> = args.optional("prefix")?;
    let mut is_found = false;
    let mut of = |family, index, id| {
        let fib = router.ip.fib(family, index);
        match prefix.map(Prefix::network) {
            Some(key) => {
                let route = fib.get(key).map(|number| (key, number));
                is_found |= route.is_some();
                ShownTable::of_one(router, family, (index, id), route)
            }
            None => ShownTable::whole(router, family, index, id),
        }
    };
    let mut entries = Vec::new();
    for family in Family::ALL.into_iter().filter(|family| prefix.is_none_or(|prefix| prefix.family() == *family)) {
        entries.extend(tables(router, family, args)?.into_iter().map(|(index, id)| of(family, index, id)));
    }
    match prefix.filter(|_| !is_found) {
        Some(prefix) => fail(format!("no route {prefix}")),
        None => reply(ShowEntries { tables: entries }),
    }
}

fn show_lists(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let wanted: Option<u32> = args.optional("list")?;
    let ids = router.ip.lists.iter().map(|(id, _)| id).filter(|id| wanted.is_none_or(|wanted| id.0 == wanted));
    let ids: Vec<ListId> = ids.collect();
    match wanted.filter(|_| ids.is_empty()) {
        Some(wanted) => fail(format!("no list of paths {wanted} ('show fib path-lists' shows all)")),
        None => reply(ShowLists { path_lists: Listing::of_keys(router, ids, list_there) }),
    }
}

type ShownLists = Listing<Keys<ListId, ShownList>>;

fn list_there(router: &Router, id: ListId) -> Option<ShownList> {
    router.ip.lists.is_there(id).then(|| shown_list(router, id))
}

fn show_adjacencies(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let index: Option<u32> = args.optional("index")?;
    let by = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
    let mut leaves: Vec<(Leaf, NeighbourKey)> = router.ip.adjacencies().collect();
    leaves.sort_by_key(|(leaf, _)| leaf.index());
    leaves.retain(|(leaf, key)| {
        index.is_none_or(|index| leaf.index() == index) && by.is_none_or(|by| key.interface == by)
    });
    match index.filter(|_| leaves.is_empty()) {
        Some(index) => fail(format!("no adjacency {index} ('show adj' shows all)")),
        None => reply(ShowAdjacencies { adjacencies: Listing::of_keys(router, leaves, shown_adjacency) }),
    }
}

fn shown_adjacency(router: &Router, (leaf, key): (Leaf, NeighbourKey)) -> Option<ShownAdjacency> {
    // It may have been removed or reused meanwhile.
    router.ip.adjacency_of(leaf).filter(|there| there.neighbour == key)?;
    Some(ShownAdjacency {
        index: leaf.index(),
        interface: router.interfaces.get(key.interface).ok()?.name.clone(),
        text: router.adjacency_text(key.family(), leaf),
    })
}

fn show_balances(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let wanted: Option<u32> = args.optional("index")?;
    let mut objects: Vec<(u32, ListId)> = router.ip.balances.iter().map(|(object, list)| (*object, *list)).collect();
    objects.retain(|(object, _)| wanted.is_none_or(|wanted| *object == wanted));
    objects.sort();
    let shown = |router: &Router, (object, list): (u32, ListId)| {
        // It may have been removed or reused meanwhile.
        (router.ip.balances.get(&object) == Some(&list)).then(|| {
            let leaf = Leaf::new(class::LOAD_BALANCE, object);
            shown_balance(router, router.ip.lists.get(list).key.of, leaf, None)
        })
    };
    match wanted.filter(|_| objects.is_empty()) {
        Some(wanted) => fail(format!("no load balance {wanted} ('show load-balance' shows all)")),
        None => reply(ShowBalances { objects: Listing::of_keys(router, objects, shown) }),
    }
}

/// The text for a path of a route in a table, and whether the path works.
fn shown_way(router: &Router, table: TableIndex, way: &PathAction) -> (String, bool) {
    let interface_name =
        |index| router.interfaces.get(index).map_or("?".to_string(), |interface| interface.name.clone());
    let is_up = |index| router.is_usable(index);
    match *way {
        PathAction::Via { next_hop, .. } | PathAction::ViaIn { next_hop, .. } => {
            let leads = router.way_of(way, table);
            let through = way.open_hop(table).filter(|_| leads.is_none()).and_then(|hop| router.ip.through(hop));
            let other = way.table().map_or_else(String::new, |table| format!(" table {}", router.ip.id_of(table)));
            if let Some((prefix, leads)) = through {
                return (format!("recursive: via {next_hop} in {prefix}{other}"), leads);
            }
            let interface = leads.map(|key| key.interface).or(way.interface());
            let name = interface.map_or_else(|| why_none(router, way, table), interface_name);
            (format!("attached-nexthop: {next_hop} {name}{other}"), leads.is_some())
        }
        PathAction::OnLink { next_hop, interface } => {
            let name = interface_name(interface);
            (format!("attached-nexthop: {next_hop} {name} cfg-flags:onlink"), is_up(interface))
        }
        PathAction::Attached(index) => (format!("attached: {}", interface_name(index)), is_up(index)),
        PathAction::Broadcast(index) => (format!("broadcast: {}", interface_name(index)), true),
        PathAction::Local(index) => (format!("receive: {}", interface_name(index)), is_up(index)),
        PathAction::Lookup(table) => (format!("deag: fib-index:{} table {}", table.0, router.ip.id_of(table)), true),
        PathAction::LookupIn(family, table) => {
            (format!("deag: {} fib-index:{} table {}", short(family), table.0, router.ip.id_of(table)), true)
        }
        PathAction::LookupLabel(table) => {
            (format!("deag: mpls fib-index:{} table {}", table.0, router.ip.labels.id_of(table)), true)
        }
        PathAction::LocalAnywhere => ("receive".into(), true),
        PathAction::Drop => ("special: cfg-flags:drop".into(), true),
        PathAction::Punt => ("special: cfg-flags:punt".into(), true),
        PathAction::Object(id) => (format!("exclusive: {id}"), true),
        PathAction::Unreachable => ("special: cfg-flags:icmp-unreach".into(), true),
        PathAction::Prohibit => ("special: cfg-flags:icmp-prohibit".into(), true),
    }
}

/// Why a next hop is not reached at present.
fn why_none(router: &Router, way: &PathAction, table: TableIndex) -> String {
    match way.hop(table).and_then(|hop| router.attached_interface(hop)) {
        Some(interface) => match interface.why_unusable() {
            Some(why) => format!("({}: {why})", interface.name),
            None => "(no attached network)".into(),
        },
        None => "(no attached network)".into(),
    }
}

#[derive(Serialize)]
struct ShowFib {
    #[serde(skip)]
    details: bool,
    tables: Vec<ShownTable>,
    /// Why an address has no route in some of the tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl fmt::Display for ShowFib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ShownTable { head, routes, notes } in &self.tables {
            write!(f, "{head}")?;
            routes.try_each(|row| write_route(f, row.prefix, head.index, &row.route, self.details))?;
            notes.iter().try_for_each(|note| writeln!(f, " note: {note}"))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Head { family, table, index, flow_hash } = self;
        writeln!(f, "{family}-VRF:{table}, fib_index:{index}, flow hash:[{} ]", Names(*flow_hash))
    }
}

fn write_route(f: &mut fmt::Formatter<'_>, prefix: Prefix, fib: u16, route: &ShownRoute, details: bool) -> fmt::Result {
    match details {
        true => {
            writeln!(f, "{prefix} fib:{fib}")?;
            for ShownSource { source, active, path_list } in &route.sources {
                let active = if *active { "contributing,active," } else { "" };
                writeln!(f, "  {source} src-flags:added,{active}")?;
                write!(f, "{path_list}")?;
            }
            writeln!(f)?;
            write!(f, " forwarding:")?;
        }
        false => writeln!(f, "{prefix}")?,
    }
    if route.forwarding.buckets.is_empty() {
        return writeln!(f, "  unresolved");
    }
    writeln!(f, "  unicast-{}-chain", short(prefix.family()))?;
    write!(f, "{}", route.forwarding)
}

impl fmt::Display for ShownBalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.buckets.last().map_or(0, |bucket| bucket.last + 1);
        write!(f, "  [@0]: dpo-load-balance: [proto:{} index:{} buckets:{count}", self.proto, self.object)?;
        match self.counts {
            Some(Counts { packets, bytes }) => writeln!(f, " to:[{packets}:{bytes}]]")?,
            None => writeln!(f, "]")?,
        }
        for bucket in &self.buckets {
            match bucket.last > bucket.first {
                true => writeln!(f, "    [{}-{}] {}", bucket.first, bucket.last, bucket.to)?,
                false => writeln!(f, "    [{}] {}", bucket.first, bucket.to)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for ShownList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShownList { index, table, locks, paths } = self;
        writeln!(f, "    path-list:[{index}] table:{table} locks:{locks}")?;
        paths.iter().try_for_each(|path| writeln!(f, "      {path}"))
    }
}

impl fmt::Display for ShownPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.resolved { "resolved" } else { "unresolved" };
        let ShownPath { index, proto, path_list, path, weight, preference, .. } = self;
        write!(
            f,
            "path:[{index}] pl-index:{path_list} {proto} weight={weight} pref={preference} {path} oper-flags:{state},"
        )
    }
}

/// Only the entries, without where they lead.
#[derive(Serialize)]
struct ShowEntries {
    tables: Vec<ShownTable>,
}

impl fmt::Display for ShowEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "FIB Entries:")?;
        for table in &self.tables {
            table.routes.try_each(|ShownRow { prefix, route }| {
                write!(f, "  {}@{prefix}", table.head.table)?;
                for ShownSource { source, active, path_list } in &route.sources {
                    let active = if *active { " active" } else { "" };
                    write!(f, "  {source}{active} path-list:[{}]", path_list.index)?;
                }
                writeln!(f)
            })?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct ShowLists {
    path_lists: ShownLists,
}

impl fmt::Display for ShowLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "FIB Path Lists:")?;
        self.path_lists.try_each(|list| write!(f, "{list}"))
    }
}

#[derive(Serialize)]
struct ShowPaths {
    path_lists: ShownLists,
}

impl fmt::Display for ShowPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "FIB Paths:")?;
        self.path_lists.try_each(|list| list.paths.iter().try_for_each(|path| writeln!(f, "  {path}")))
    }
}

#[derive(Serialize)]
struct ShownAdjacency {
    index: u32,
    interface: String,
    text: String,
}

#[derive(Serialize)]
struct ShowAdjacencies {
    adjacencies: Listing<Keys<(Leaf, NeighbourKey), ShownAdjacency>>,
}

impl fmt::Display for ShowAdjacencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.adjacencies.try_each(|adjacency| writeln!(f, "{}", adjacency.text))
    }
}

#[derive(Serialize)]
struct ShowBalances {
    objects: Listing<Keys<(u32, ListId), ShownBalance>>,
}

impl fmt::Display for ShowBalances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.objects.try_each(|object| write!(f, "{object}"))
    }
}

#[derive(Serialize)]
struct CountedRoute {
    table: u32,
    prefix: String,
    packets: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct ShowCounted {
    routes: Vec<CountedRoute>,
}

impl fmt::Display for ShowCounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>10}  {:<18}{:>20}{:>20}", "Table", "Prefix", "Packets", "Bytes")?;
        for CountedRoute { table, prefix, packets, bytes } in &self.routes {
            writeln!(f, "{table:>10}  {prefix:<18}{packets:>20}{bytes:>20}")?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct LengthCount {
    length: u8,
    count: usize,
}

#[derive(Serialize)]
struct TableSummary {
    #[serde(flatten)]
    head: Head,
    lengths: Vec<LengthCount>,
}

#[derive(Serialize)]
struct Summary {
    tables: Vec<TableSummary>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for TableSummary { head, lengths } in &self.tables {
            write!(f, "{head}")?;
            writeln!(f, "    Prefix length         Count     ")?;
            for LengthCount { length, count } in lengths {
                writeln!(f, "{length:>20}{count:>16}")?;
            }
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct TableMemory {
    family: Shown,
    table: u32,
    bytes: usize,
}

#[derive(Serialize)]
struct Memory {
    tables: Vec<TableMemory>,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tables = self.tables.iter();
        tables.try_for_each(|TableMemory { family, table, bytes }| writeln!(f, "{family}-VRF:{table} bytes:{bytes}"))
    }
}

#[derive(Serialize)]
struct ShownTableName {
    family: Shown,
    index: u16,
    table_id: u32,
}

#[derive(Serialize)]
struct ShowTables {
    tables: Vec<ShownTableName>,
}

impl fmt::Display for ShowTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tables = self.tables.iter();
        tables.try_for_each(|table| {
            let ShownTableName { family, index, table_id } = table;
            writeln!(f, "[{index}] table_id:{table_id} {family}-VRF:{table_id}")
        })
    }
}
