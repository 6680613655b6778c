//! `show` of routes, lists of paths and forwarding objects, in VPP's layout.
//!
//! A table is copied as it stands, eight bytes a route; text is made of it by who reads it, and not by control.

use super::control::way_of;
use super::count::Counts;
use super::entry::Entry;
use super::path_list::ListId;
use super::route::{MAX_PATHS, Path, TableIndex, Way};
use crate::Router;
use crate::arp::NeighbourKey;
use command::{Args, Command, CommandError, CommandSet, Reply, fail, reply};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::fmt;
use tables::Leaf;
use tables::fib4::Key;
use wire::Prefix4;

pub(super) fn register(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "show ip fib [table <table:u32>] [{summary | memory | <prefix:prefix4> | <address:ip4> : what}] [detail]",
            "The IPv4 routing tables, or what is known of one destination.",
            show_fib,
        )
        .example("show ip fib 16.0.0.9")
        .example("show ip fib table 10")
        .example("show ip fib summary"),
    );
    register_parts(set);
    set.add(Command::new("show ip table", "Show which routing tables there are.", |router: &mut Router, _| {
        let tables = router.ip4.table_ids();
        let shown = |(index, id): (TableIndex, u32)| ShownTableName { index: index.0, table_id: id };
        reply(ShowTables { tables: tables.map(shown).collect() })
    }));
}

fn register_parts(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "show fib entry [table <table:u32>] [<prefix:prefix4>]",
            "Show who wants which prefixes, and by which lists of paths.",
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
        let lists = router.ip4.lists.iter().map(|(id, _)| shown_list(router, id));
        reply(ShowPaths { path_lists: lists.collect() })
    }));
    set.add(
        Command::new(
            "show adj [{<index:u32> | <interface:interface> : which}]",
            "Show adjacencies: what packets to a neighbour begin with.",
            show_adjacencies,
        )
        .example("show adj e0"),
    );
    set.add(
        Command::new(
            "show load-balance [<index:u32>]",
            "Show the objects that spread flows over several paths.",
            show_balances,
        )
        .example("show load-balance 4"),
    );
    set.add(Command::new("show ip route counters", "Show the routes that are counted.", |router: &mut Router, _| {
        let counted = router.ip4.counted().filter_map(|(table, prefix)| {
            let Counts { packets, bytes } = router.ip4.counts(table, prefix)?;
            Some(CountedRoute { table: router.ip4.id_of(table), prefix: prefix.to_string(), packets, bytes })
        });
        reply(ShowCounted { routes: counted.collect() })
    }));
}

/// The tables that a command is about: the one that it names, or all.
fn tables(router: &Router, args: &Args) -> Result<Vec<(TableIndex, u32)>, CommandError> {
    let named: Option<u32> = args.optional("table")?;
    match named {
        Some(id) => Ok(vec![(router.find_table(id)?, id)]),
        None => Ok(router.ip4.table_ids().collect()),
    }
}

fn show_fib(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let router = &*router;
    let tables = tables(router, args)?;
    match args.optional_text("what") {
        Some("summary") => {
            let summary = |(index, table): (TableIndex, u32)| {
                let used = (0u8..).zip(*router.ip4.routes_in(index).lengths()).filter(|(_, count)| *count > 0);
                let lengths = used.map(|(length, count)| LengthCount { length, count }).collect();
                TableSummary { table, index: index.0, lengths }
            };
            reply(Summary { tables: tables.into_iter().map(summary).collect() })
        }
        Some("memory") => {
            let memory = |(index, table): (TableIndex, u32)| {
                let memory = router.ip4.memory_of(index);
                TableMemory { table, bytes: memory.lookup + memory.prefixes }
            };
            reply(Memory { tables: tables.into_iter().map(memory).collect() })
        }
        Some(_) => {
            let (prefix, named): (Option<Prefix4>, Option<u32>) = (args.optional("prefix")?, args.optional("table")?);
            let mut found = Vec::new();
            for (index, id) in tables {
                let key = match prefix {
                    Some(prefix) => Some(prefix.network()),
                    None => router.ip4.longest_match(index, args.parse("address")?).map(|(prefix, _)| prefix),
                };
                let key = key.map(super::control::key_of);
                let route = key.and_then(|key| Some((key, router.ip4.fib(index).get(key)?)));
                found.extend(route.map(|route| ShownTable::new(router, index, id, vec![route])));
            }
            match (found.is_empty(), prefix) {
                (false, _) => reply(ShowFib { details: true, tables: found }),
                (true, Some(prefix)) => {
                    let named = named.map_or_else(String::new, |id| format!("table {id} "));
                    let address = prefix.address();
                    fail(format!("no route {prefix} (`show ip fib {named}{address}' shows the one that is taken)"))
                }
                (true, None) => fail(format!("no route to {}", args.text("address")?)),
            }
        }
        None => {
            let all = |(index, id)| ShownTable::new(router, index, id, router.ip4.fib(index).iter().collect());
            reply(ShowFib { details: args.flag("detail"), tables: tables.into_iter().map(all).collect() })
        }
    }
}

#[derive(Serialize)]
struct ShownPath {
    /// Numbers it among all.
    index: usize,
    path_list: u32,
    path: String,
    weight: u8,
    preference: u8,
    resolved: bool,
}

#[derive(Serialize)]
struct ShownList {
    index: u32,
    table: u32,
    /// Routes that have it.
    locks: usize,
    paths: Vec<ShownPath>,
}

#[derive(Serialize)]
struct ShownSource {
    source: &'static str,
    /// Its paths are those that packets take.
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
struct ShownBalance {
    object: u32,
    buckets: Vec<ShownBucket>,
    /// Of a route that is counted.
    #[serde(flatten)]
    counts: Option<Counts>,
}

/// What routes of the same sources with the same paths have in common.
#[derive(Serialize)]
struct ShownRoute {
    sources: Vec<ShownSource>,
    forwarding: ShownBalance,
}

#[derive(Serialize)]
struct ShownRow<'a> {
    prefix: String,
    #[serde(flatten)]
    route: &'a ShownRoute,
}

struct Rows {
    routes: Vec<(Key, u32)>,
    /// By the number of each.
    known: HashMap<u32, ShownRoute>,
}

impl Rows {
    fn iter(&self) -> impl Iterator<Item = (Prefix4, &ShownRoute)> {
        let named = |(key, number): &(Key, u32)| Some((super::control::prefix_of(*key), self.known.get(number)?));
        self.routes.iter().filter_map(named)
    }
}

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|(prefix, route)| ShownRow { prefix: prefix.to_string(), route }))
    }
}

#[derive(Serialize)]
struct ShownTable {
    table: u32,
    index: u16,
    routes: Rows,
}

impl ShownTable {
    fn new(router: &Router, index: TableIndex, id: u32, routes: Vec<(Key, u32)>) -> ShownTable {
        let mut known = HashMap::new();
        for (key, number) in &routes {
            known.entry(*number).or_insert_with(|| shown_route(router, index, *key, Entry(*number)));
        }
        ShownTable { table: id, index: index.0, routes: Rows { routes, known } }
    }
}

/// Of counted routes each has a number of its own.
fn shown_route(router: &Router, table: TableIndex, key: Key, entry: Entry) -> ShownRoute {
    let ip4 = &router.ip4;
    let mut is_chosen = false;
    let sources = ip4.several.shares(entry).map(|share| {
        let active = !is_chosen && ip4.lists.leaf(share.list) != Leaf::MISS;
        is_chosen |= active;
        ShownSource { source: share.source.name(), active, path_list: shown_list(router, share.list) }
    });
    let sources = sources.collect();
    let way = way_of(&ip4.lists, &ip4.several, entry.0);
    ShownRoute { sources, forwarding: shown_balance(router, way, ip4.counts_of(table, key)) }
}

fn shown_balance(router: &Router, leaf: Leaf, counts: Option<Counts>) -> ShownBalance {
    ShownBalance { object: leaf.index(), buckets: shown_buckets(router, leaf), counts }
}

/// Where a leaf leads, neighbours of the same way taken together; nothing for one that leads nowhere.
fn shown_buckets(router: &Router, leaf: Leaf) -> Vec<ShownBucket> {
    let leaves = match leaf {
        Leaf::MISS => Vec::new(),
        _ => router.ip4.buckets(leaf).map_or(vec![leaf], <[Leaf]>::to_vec),
    };
    let mut buckets: Vec<ShownBucket> = Vec::new();
    let mut previous = None;
    for (at, leaf) in leaves.into_iter().enumerate() {
        if previous == Some(leaf) {
            buckets.last_mut().expect("there was a previous one").last = at;
        } else {
            buckets.push(ShownBucket { first: at, last: at, to: router.adjacency_text(leaf) });
            previous = Some(leaf);
        }
    }
    buckets
}

fn shown_list(router: &Router, id: ListId) -> ShownList {
    let list = router.ip4.lists.get(id);
    let first = id.0 as usize * MAX_PATHS;
    let path = |(at, path): (usize, &Path)| {
        let (text, resolved) = shown_way(router, list.key.table, &path.way);
        ShownPath {
            index: first + at,
            path_list: id.0,
            path: text,
            weight: path.weight,
            preference: path.preference,
            resolved,
        }
    };
    let table = router.ip4.id_of(list.key.table);
    ShownList { index: id.0, table, locks: list.users(), paths: list.key.paths.iter().enumerate().map(path).collect() }
}

fn show_entries(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let router = &*router;
    let prefix: Option<Prefix4> = args.optional("prefix")?;
    let of = |(index, id)| {
        let fib = router.ip4.fib(index);
        let routes = match prefix.map(|prefix| super::control::key_of(prefix.network())) {
            Some(key) => fib.get(key).map(|number| (key, number)).into_iter().collect(),
            None => fib.iter().collect(),
        };
        ShownTable::new(router, index, id, routes)
    };
    let entries: Vec<ShownTable> = tables(router, args)?.into_iter().map(of).collect();
    match prefix.filter(|_| entries.iter().all(|table| table.routes.routes.is_empty())) {
        Some(prefix) => fail(format!("no route {prefix}")),
        None => reply(ShowEntries { tables: entries }),
    }
}

fn show_lists(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let wanted: Option<u32> = args.optional("list")?;
    let ids = router.ip4.lists.iter().map(|(id, _)| id).filter(|id| wanted.is_none_or(|wanted| id.0 == wanted));
    let path_lists: Vec<ShownList> = ids.map(|id| shown_list(router, id)).collect();
    match wanted.filter(|_| path_lists.is_empty()) {
        Some(wanted) => fail(format!("no list of paths {wanted} (`show fib path-lists' shows all)")),
        None => reply(ShowLists { path_lists }),
    }
}

fn show_adjacencies(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let index: Option<u32> = args.optional("index")?;
    let by = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
    let mut leaves: Vec<(Leaf, NeighbourKey)> = router.ip4.adjacencies().collect();
    leaves.sort_by_key(|(leaf, _)| leaf.index());
    leaves.retain(|(leaf, key)| {
        index.is_none_or(|index| leaf.index() == index) && by.is_none_or(|by| key.interface == by)
    });
    let shown = |(leaf, key): (Leaf, NeighbourKey)| ShownAdjacency {
        index: leaf.index(),
        interface: router.interfaces.get(key.interface).map_or_else(|_| "?".into(), |there| there.name.clone()),
        text: router.adjacency_text(leaf),
    };
    let adjacencies: Vec<ShownAdjacency> = leaves.into_iter().map(shown).collect();
    match index.filter(|_| adjacencies.is_empty()) {
        Some(index) => fail(format!("no adjacency {index} (`show adj' shows all)")),
        None => reply(ShowAdjacencies { adjacencies }),
    }
}

fn show_balances(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let wanted: Option<u32> = args.optional("index")?;
    let mut objects: Vec<u32> = router.ip4.balances.keys().copied().collect();
    objects.retain(|object| wanted.is_none_or(|wanted| *object == wanted));
    objects.sort();
    let leaf = |object| Leaf::new(tables::kind::LOAD_BALANCE, object);
    let objects: Vec<ShownBalance> =
        objects.into_iter().map(|object| shown_balance(router, leaf(object), None)).collect();
    match wanted.filter(|_| objects.is_empty()) {
        Some(wanted) => fail(format!("no load balance {wanted} (`show load-balance' shows all)")),
        None => reply(ShowBalances { objects }),
    }
}

/// What is to be said of a way of a route in a table, and whether it works.
fn shown_way(router: &Router, table: TableIndex, way: &Way) -> (String, bool) {
    let interface_name =
        |index| router.interfaces.get(index).map_or("?".to_string(), |interface| interface.name.clone());
    let is_up = |index| router.is_usable(index);
    match *way {
        Way::Via { next_hop, .. } | Way::ViaIn { next_hop, .. } => {
            let leads = router.way_of(way, table);
            let through = way.open_hop(table).filter(|_| leads.is_none()).and_then(|hop| router.ip4.through(hop));
            let other = way.table().map_or_else(String::new, |table| format!(" table {}", router.ip4.id_of(table)));
            if let Some((prefix, leads)) = through {
                return (format!("recursive: via {next_hop} in {prefix}{other}"), leads);
            }
            let interface = leads.map(|key| key.interface).or(way.interface());
            let name = interface.map_or_else(|| why_none(router, way, table), interface_name);
            (format!("attached-nexthop: {next_hop} {name}{other}"), leads.is_some())
        }
        Way::OnLink { next_hop, interface } => {
            let name = interface_name(interface);
            (format!("attached-nexthop: {next_hop} {name} cfg-flags:onlink"), is_up(interface))
        }
        Way::Attached(index) => (format!("attached: {}", interface_name(index)), is_up(index)),
        Way::Broadcast(index) => (format!("broadcast: {}", interface_name(index)), true),
        Way::Local(index) => (format!("receive: {}", interface_name(index)), is_up(index)),
        Way::Lookup(table) => (format!("deag: fib-index:{} table {}", table.0, router.ip4.id_of(table)), true),
        Way::LocalAnywhere => ("receive".into(), true),
        Way::Drop => ("special: cfg-flags:drop".into(), true),
        Way::Punt => ("special: cfg-flags:punt".into(), true),
        Way::Unreachable => ("special: cfg-flags:icmp-unreach".into(), true),
        Way::Prohibit => ("special: cfg-flags:icmp-prohibit".into(), true),
    }
}

/// Why a next hop is not reached at present.
fn why_none(router: &Router, way: &Way, table: TableIndex) -> String {
    match way.hop(table).and_then(|hop| router.attached_interface(hop)) {
        Some(interface) if !interface.is_usable() => format!("({}: link or interface is down)", interface.name),
        _ => "(no attached network)".into(),
    }
}

#[derive(Serialize)]
struct ShowFib {
    #[serde(skip)]
    details: bool,
    tables: Vec<ShownTable>,
}

impl fmt::Display for ShowFib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ShownTable { table, index, routes } in &self.tables {
            write_head(f, *table, *index)?;
            for (prefix, route) in routes.iter() {
                write_route(f, prefix, *index, route, self.details)?;
            }
        }
        Ok(())
    }
}

fn write_head(f: &mut fmt::Formatter<'_>, table: u32, index: u16) -> fmt::Result {
    writeln!(f, "ipv4-VRF:{table}, fib_index:{index}, flow hash:[src dst sport dport proto ]")
}

fn write_route(
    f: &mut fmt::Formatter<'_>,
    prefix: Prefix4,
    fib: u16,
    route: &ShownRoute,
    details: bool,
) -> fmt::Result {
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
    writeln!(f, "  unicast-ip4-chain")?;
    write!(f, "{}", route.forwarding)
}

impl fmt::Display for ShownBalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.buckets.last().map_or(0, |bucket| bucket.last + 1);
        write!(f, "  [@0]: dpo-load-balance: [proto:ip4 index:{} buckets:{count}", self.object)?;
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
        let ShownPath { index, path_list, path, weight, preference, .. } = self;
        write!(
            f,
            "path:[{index}] pl-index:{path_list} ip4 weight={weight} pref={preference} {path} oper-flags:{state},"
        )
    }
}

/// Entries by themselves, without where they lead.
#[derive(Serialize)]
struct ShowEntries {
    tables: Vec<ShownTable>,
}

impl fmt::Display for ShowEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "FIB Entries:")?;
        for table in &self.tables {
            for (prefix, route) in table.routes.iter() {
                write!(f, "  {}@{prefix}", table.table)?;
                for ShownSource { source, active, path_list } in &route.sources {
                    let active = if *active { " active" } else { "" };
                    write!(f, "  {source}{active} path-list:[{}]", path_list.index)?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct ShowLists {
    path_lists: Vec<ShownList>,
}

impl fmt::Display for ShowLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "FIB Path Lists:")?;
        self.path_lists.iter().try_for_each(|list| write!(f, "{list}"))
    }
}

#[derive(Serialize)]
struct ShowPaths {
    path_lists: Vec<ShownList>,
}

impl fmt::Display for ShowPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "FIB Paths:")?;
        let mut paths = self.path_lists.iter().flat_map(|list| &list.paths);
        paths.try_for_each(|path| writeln!(f, "  {path}"))
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
    adjacencies: Vec<ShownAdjacency>,
}

impl fmt::Display for ShowAdjacencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.adjacencies.iter().try_for_each(|adjacency| writeln!(f, "{}", adjacency.text))
    }
}

#[derive(Serialize)]
struct ShowBalances {
    objects: Vec<ShownBalance>,
}

impl fmt::Display for ShowBalances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.objects.iter().try_for_each(|object| write!(f, "{object}"))
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
    table: u32,
    index: u16,
    lengths: Vec<LengthCount>,
}

#[derive(Serialize)]
struct Summary {
    tables: Vec<TableSummary>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for TableSummary { table, index, lengths } in &self.tables {
            write_head(f, *table, *index)?;
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
    table: u32,
    bytes: usize,
}

#[derive(Serialize)]
struct Memory {
    tables: Vec<TableMemory>,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tables.iter().try_for_each(|TableMemory { table, bytes }| writeln!(f, "ipv4-VRF:{table} bytes:{bytes}"))
    }
}

#[derive(Serialize)]
struct ShownTableName {
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
        tables.try_for_each(|table| writeln!(f, "[{}] table_id:{} ipv4-VRF:{1}", table.index, table.table_id))
    }
}
