//! Persistent configuration: shown, saved, loaded and rolled back.

use crate::commands::any_line;
use crate::packet::Random;
use command::{CommandSet, Files};
use features::config::ConfigError;
use features::config::{self, Configuration};
use router::capability::Statement;
use router::neighbour::NeighbourKey;
use router::{Devices, Options, Router};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use wire::MacAddress;

/// A router whose worker does not run. Its devices are stand-ins.
struct Bench {
    router: Router,
    commands: CommandSet<Router>,
}

impl Bench {
    fn new() -> Bench {
        let options = Options { buffers: 1024, huge_pages: false, devices: Devices::DryRun, ..Options::default() };
        Bench { router: quiver_capabilities::router(options).unwrap(), commands: quiver_capabilities::commands() }
    }

    fn of(commands: &[&str]) -> Bench {
        let mut desk = Bench::new();
        commands.iter().for_each(|line| drop(desk.must(line)));
        desk
    }

    fn try_to(&mut self, line: &str) -> Result<String, String> {
        self.commands.execute(&mut self.router, line).map(|reply| reply.text()).map_err(|error| error.to_string())
    }

    fn must(&mut self, line: &str) -> String {
        self.try_to(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn config(&self) -> String {
        text_of(&config::running_config(&self.router))
    }

    /// All that a refused command could have changed, as far as an operator can see.
    fn state(&mut self) -> String {
        let shows = [
            "show interface",
            "show interface address",
            "show ip fib detail",
            "show mpls fib detail",
            "show mpls tunnel",
            "show node",
        ];
        let shown: Vec<String> = shows.iter().map(|line| self.must(line)).collect();
        let neighbours: Vec<String> =
            self.router.neighbours.iter().map(|(key, neighbour)| format!("{key:?} {:?}", neighbour.state)).collect();
        format!("{}\n{}\n{}\n{}", self.config(), shown.join("\n"), neighbours.join("\n"), self.router.ip.objects())
    }
}

fn text_of(statements: &[Statement]) -> String {
    statements.iter().map(|statement| statement.line.clone() + "\n").collect()
}

fn sorted(statements: &[Statement]) -> Vec<String> {
    let mut lines: Vec<String> = statements.iter().map(|statement| statement.line.clone()).collect();
    lines.sort();
    lines
}

/// The addresses of each interface, in their order.
fn addresses(router: &Router) -> BTreeMap<String, Vec<String>> {
    let of = |prefixes: &[wire::Prefix4]| prefixes.iter().map(ToString::to_string).collect();
    router.interfaces.iter().map(|interface| (interface.name.clone(), of(&interface.addresses))).collect()
}

/// A directory that is removed with its test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("quiver-config-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const EVERYTHING: &[&str] = &[
    "set logging size 100",
    "set logging class neighbor level debug rate-limit 7",
    "create tap id 7 name e0 host-if-name lan0 host-ns left host-ip4-addr 10.0.1.2/24 host-mac-addr \
     02:00:00:00:00:07 host-mtu-size 9000 hw-addr 02:00:00:00:00:70",
    "create tap",
    "create host-interface eth1 name e1 hw-addr 02:00:00:00:00:71",
    "create host-interface name name interface-name e2",
    "create packet-generator interface pg0",
    "create null interface",
    "set interface name null0 sink",
    "set interface mtu packet 1400 e0",
    "set interface mac address e1 02:00:00:00:00:aa",
    "set interface ip address e0 10.0.1.1/24",
    "set interface ip address e0 10.0.1.3/24",
    "set interface ip address e1 10.0.2.1/31",
    "set interface state e0 up",
    "set interface state sink up",
    "set interface tag e0 lan-7",
    "ip neighbor e0 10.0.1.9 02:00:00:00:00:09",
    "ip route add 16.0.0.0/8 via 10.0.1.9 e0 weight 3 via 10.0.2.0",
    "ip route add 0.0.0.0/0 via sink",
    "ip route add 17.0.0.0/8 via drop",
    "ip route add 18.0.0.0/8 via punt",
    "ip route add 19.0.0.0/8 via unreachable",
    "ip route add 20.0.0.1/32 via local",
    "create loopback interface",
    "set interface ip address loop0 192.0.2.1/32",
    "set interface unnumbered e2 use loop0",
    "ip route add 21.0.0.0/8 via prohibit",
    "ip route add 22.0.0.0/8 via 192.0.2.9 e2 onlink via 10.9.0.1 offlink weight 2 via 10.9.0.1 e1 offlink",
    "set ip6 dad transmits 2",
    "ip6 table add 6",
    "set interface ip6 table e1 6",
    "set interface ip address e1 2001:db8:6::1/64",
    "enable ip6 interface e0",
    "set ip6 link-local address e0 fe80::7",
    "set ip6 nd proxy 2001:db8:6::9 pg0",
    "set ip6 nd proxy 2001:db8:6::9 e1",
    "ip6 neighbor e1 2001:db8:6::9 02:00:00:00:00:19",
    "ip6 nd e0 no ra-suppress",
    "set ip6 mld querier e0 enable",
    "set ip neighbor-config ip6 limit 100",
    "set ip6 nd rate replies 7",
    "ip route add table 6 2001:db8:16::/48 via 2001:db8:6::9",
    "ip table add 7",
    "mpls table add 0",
    "mpls table add 5",
    "set interface mpls e0 enable",
    "set interface mtu mpls 1300 e0",
    "ip route add 24.0.0.0/8 via 10.0.1.9 e0 out-labels 17 18 ttl 9 exp 2 weight 2",
    "ip route add 25.0.0.0/8 via 10.0.1.9 out-labels 17 uniform",
    "mpls local-label add 16 via 10.0.1.9 e0 out-labels 17 weight 2 via 10.0.1.8 e0 preference 1",
    "mpls local-label add 18 eos via ip4-lookup-in-table 7 uniform",
    "mpls local-label add table 5 18 non-eos via mpls-lookup-in-table 0",
    "mpls tunnel add via 10.0.1.9 e0 out-labels 17",
    "set interface state mpls-tunnel0 up",
    "ip route add 26.0.0.0/8 via mpls-tunnel0 out-labels 20",
    "packet-generator new {\n  name s0\n  limit 10\n  rate 1e6\n  size 64-128\n  maxframe 16\n  interface \
     pg0\n  node ip4-input\n  worker 0\n  data {\n UDP: 1.2.3.4 -> 10.0.0.1\n UDP: 1 -> 2\n   incrementing 8 } }",
];

#[test]
fn a_question_in_a_file_is_refused() {
    let directory = Directory::new("question");
    let file = directory.file("file", "create null interface name n0\nip route add 9.0.0.0/8 via drop ?\n");
    let mut desk = Bench::new();
    let refusal = desk.try_to(&format!("load {file}")).unwrap_err();
    assert_eq!(refusal, format!("load: {file}:2: a question ('?') states no configuration"));
    desk.router.startup = Some(file.into());
    assert_eq!(config::restore_config(&mut desk.router).unwrap(), Some(1));
    assert_eq!(desk.router.state::<Configuration>().failed_at_start, 1);
}

#[test]
fn every_object_comes_back_and_a_fresh_router_says_the_same() {
    let mut first = Bench::of(EVERYTHING);
    let text = first.config();
    for line in [
        "create tap id 7 name e0 host-if-name lan0 host-ns left host-ip4-addr 10.0.1.2/24 host-mac-addr \
         02:00:00:00:00:07 host-mtu-size 9000 hw-addr 02:00:00:00:00:70\n",
        "create tap id 0 name tap0\n",
        "create host-interface name eth1 hw-addr 02:00:00:00:00:71 interface-name e1\n",
        "create host-interface name name interface-name e2\n",
        "create null interface name sink\n",
        "set interface mtu packet 1400 e0\n",
        "set interface mac address e1 02:00:00:00:00:aa\n",
        "set interface ip address e0 10.0.1.1/24\nset interface ip address e0 10.0.1.3/24\n",
        "set interface state sink up\n",
        "ip neighbor e0 10.0.1.9 02:00:00:00:00:09\n",
        "ip route add 16.0.0.0/8 via 10.0.1.9 e0 weight 3 via 10.0.2.0\n",
        "ip route add 0.0.0.0/0 via sink\n",
        "ip route add 20.0.0.1/32 via local\n",
        "ip route add 24.0.0.0/8 via 10.0.1.9 e0 out-labels 17 18 ttl 9 exp 2 weight 2\n",
        "mpls local-label add table 5 18 non-eos via mpls-lookup-in-table 0\n",
        "mpls tunnel add mpls-tunnel0 via 10.0.1.9 e0 out-labels 17\nset interface state mpls-tunnel0 up\n",
        "packet-generator new {\n  name s0\n  interface pg0\n  limit 10\n  rate 1e6\n  size 64-128\n  maxframe \
         16\n  node ip4-input\n  worker 0\n  data {\n    UDP: 1.2.3.4 -> 10.0.0.1\n    UDP: 1 -> \
         2\n    incrementing 8\n  }\n}\n",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    // Routes that follow from addresses and neighbours are not configuration.
    assert!(!text.contains("ip route add 10.0."));
    let mut second = Bench::new();
    let commands = command::complete_lines(&text).unwrap();
    assert_eq!(commands.len(), config::running_config(&first.router).len());
    commands.iter().for_each(|line| drop(second.must(&line.text)));
    assert_eq!(second.config(), text);
    let wanted = config::parse_config(&mut first.router, "text", &text).unwrap();
    assert!(config::compare_config(&mut first.router, &wanted).unwrap().is_empty());
}

/// Executes random lines, of which some are refused, to reach states of all kinds.
fn random_state(random: &mut Random, lines: usize) -> Bench {
    let mut desk = Bench::new();
    // Most lines need an interface.
    (0..4).filter(|_| random.below(4) > 0).for_each(|n| drop(desk.try_to(&format!("create null interface name n{n}"))));
    for _ in 0..lines {
        let (name, other) = (format!("n{}", random.below(4)), format!("n{}", random.below(4)));
        let (low, high) = (random.below(4), random.below(4));
        let (table, into) = (random.below(3), random.below(3));
        let line = match random.below(57) {
            0 => format!("create null interface name {name}"),
            1 => format!("create tap id {low} name {name}"),
            2 => format!("create host-interface eth{low} name {name}"),
            3 => format!("delete interface {name}"),
            4 => format!("set interface state {name} {}", random.of(&["up", "down"])),
            5 | 6 => format!("set interface ip address {name} 10.0.{low}.{}/24", high + 1),
            7 => format!("set interface ip address del {name} 10.0.{low}.{}/24", high + 1),
            8 => format!("set interface mtu {} {name}", random.of(&["1400", "1500", "default"])),
            9 => format!("set interface mac address {name} {}", random.of(&["02:00:00:00:00:01", "default"])),
            10 => format!("ip neighbor {name} 10.0.{low}.9 02:00:00:00:00:0{high}"),
            11 => format!("ip route add 16.{low}.0.0/16 via 10.0.{high}.9"),
            12 => format!("ip route add 16.{low}.0.0/16 via 10.0.{high}.9 {name} via {other} weight 2"),
            13 => format!("ip route add 16.{low}.0.0/16 via 10.0.{high}.9 {name} onlink"),
            14 => format!("ip route replace 16.{low}.0.0/16 via 10.0.{high}.9 offlink via 10.0.{low}.9 {name} offlink"),
            15 => format!("ip route add 10.0.{low}.8/30 via {name}"),
            16 => format!("set interface unnumbered {name} use {other}"),
            17 => format!("set interface unnumbered del {name}"),
            18 | 19 => format!("ip table add {table}"),
            20 => format!("ip table del {table}"),
            21 | 22 => format!("set interface ip table {name} {table}"),
            23 => format!("ip route add table {table} 17.{low}.0.0/16 via ip4-lookup-in-table {into} via {other}"),
            24 => {
                format!("ip route add table {table} 16.{low}.0.0/16 via 10.0.{high}.9 next-hop-table {into} offlink")
            }
            25 => format!("set ip table max-routes {} table {table}", random.of(&["2", "9", "unlimited"])),
            26 => format!(
                "set ip route counters 16.{low}.0.0/16 {} table {table}",
                random.of(&["enable", "enable", "disable"])
            ),
            27 | 28 => format!("set interface ip address {name} 2001:db8:{low}::{}/64", high + 1),
            29 => format!("set interface ip address del {name} 2001:db8:{low}::{}/64", high + 1),
            30 => format!("{} ip6 interface {name}", random.of(&["enable", "disable"])),
            31 => format!("set ip6 nd proxy 2001:db8:{low}::{} {name} {}", high + 1, random.of(&["", "del"])),
            32 => format!("ip6 table {} {table}", random.of(&["add", "add", "del"])),
            33 => format!("set interface ip6 table {name} {table}"),
            34 => format!("ip6 neighbor {name} 2001:db8:{low}::9 02:00:00:00:00:0{high}"),
            35 => format!("ip route add 2001:db8:1{low}::/48 via 2001:db8:{high}::9"),
            36 => format!("ip route add table {table} 2001:db8:1{low}::/48 via fe80::{} {name}", high + 1),
            37 => format!("ip6 nd {name} {} ra-suppress", random.of(&["no", ""])),
            38 => format!("set ip6 mld querier {name} {}", random.of(&["enable", "disable"])),
            39 => format!("ip6 punt redirect add rx {other} via 2001:db8:{low}::{} {name}", high + 1),
            41 | 42 => format!("mpls table {} {table}", random.of(&["add", "add", "del"])),
            43 => format!("set interface mpls {name} {}", random.of(&["enable", "disable"])),
            44 | 45 => format!("mpls local-label add {} via 10.0.{high}.9 {name} out-labels 3{low}", 16 + low),
            46 => format!("mpls local-label add table {table} {} eos via ip4-lookup-in-table {into}", 16 + low),
            47 => format!("mpls local-label replace {} non-eos mpls-lookup-in-table {into} via drop", 16 + low),
            48 => format!("mpls local-label del {} {}", 16 + low, random.of(&["", "eos", "non-eos"])),
            49 => format!(
                "ip route add 18.{low}.0.0/16 via 10.0.{high}.9 offlink out-labels 4{low} {}",
                random.of(&["", "uniform"])
            ),
            50 | 51 => format!("mpls tunnel add mpls-tunnel{low} via 10.0.{high}.9 {name} out-labels 5{low}"),
            52 => format!("ip route add 19.{low}.0.0/16 via mpls-tunnel{high}"),
            53 => format!("mpls tunnel del mpls-tunnel{low}"),
            40 => format!("set urpf ip6 {} {name}", random.of(&["strict", "loose", "off"])),
            54 => format!("set interface name {name} {other}"),
            55 => format!("set interface tag {name} {other}"),
            _ => format!("set interface tag del {name}"),
        };
        let _ = desk.try_to(&line);
    }
    desk
}

#[test]
fn what_was_learned_is_no_configuration_and_defaults_come_back() {
    let mut desk = Bench::of(EVERYTHING);
    let before = desk.config();
    let e0 = desk.router.interfaces.find("e0").unwrap();
    let own = desk.router.interfaces.get(desk.router.interfaces.find("e1").unwrap()).unwrap().mtu;
    let key = NeighbourKey::new(e0, [10, 0, 1, 77]);
    desk.router.set_neighbour(key, MacAddress([2, 0, 0, 0, 0, 7]), false).unwrap();
    assert_eq!(desk.config(), before);
    for line in ["set interface mtu packet default e0", "set interface mac address e1 default"] {
        desk.must(line);
    }
    assert_eq!(desk.router.interfaces.get(e0).unwrap().mtu, own);
    let gone = ["set interface mtu packet 1400 e0\n", "set interface mac address e1 02:00:00:00:00:aa\n"];
    assert_eq!(desk.config(), gone.iter().fold(before, |text, line| text.replace(line, "")));
}

#[test]
fn no_interface_has_a_name_that_a_command_takes_for_something_else() {
    let mut desk = Bench::of(&["create null interface name n0", "ip route add 16.0.0.0/8 via n0"]);
    let before = desk.config();
    for name in ["drop", "local", "any", "weight", "default", "10.0.0.1", "1", "fe80::1", "aa:bb:cc:dd:ee:ff", "-x"] {
        for line in [format!("set interface name n0 {name}"), format!("create null interface name {name}")] {
            assert!(desk.try_to(&line).unwrap_err().contains("is no interface name"), "{line}");
        }
    }
    assert_eq!(desk.config(), before);
}

#[test]
fn a_long_load_gives_signs_of_life() {
    static SIGNS: AtomicUsize = AtomicUsize::new(0);
    let mut desk = Bench::of(&["create null interface name n0"]);
    desk.router.pace.set_piece(Duration::ZERO);
    desk.router.pace.set_between(|_| {
        SIGNS.fetch_add(1, Ordering::Relaxed);
    });
    let routes: String = (0..10_000).map(|i| format!("ip route add 20.{}.{}.0/24 via n0\n", i >> 8, i & 255)).collect();
    let wanted =
        config::parse_config(&mut desk.router, "long", &format!("create null interface name n0\n{routes}")).unwrap();
    let checked = SIGNS.load(Ordering::Relaxed);
    config::load_config(&mut desk.router, &wanted, None).unwrap();
    assert!(checked >= 10_000 && SIGNS.load(Ordering::Relaxed) - checked >= 10_000, "one for each command");
}

#[test]
fn a_load_brings_addresses_into_the_order_of_the_file() {
    let desk = |order: [&str; 3]| {
        let mut desk = Bench::of(&["create null interface name n0"]);
        order.iter().for_each(|host| drop(desk.must(&format!("set interface ip address n0 10.0.0.{host}/24"))));
        desk
    };
    let (mut from, to) = (desk(["1", "2", "3"]), desk(["1", "3", "2"]));
    let wanted = config::running_config(&to.router);
    config::load_config(&mut from.router, &wanted, None).unwrap();
    assert_eq!(addresses(&from.router), addresses(&to.router));
}

#[test]
fn a_load_makes_any_state_of_any_other() {
    let random = &mut Random::new(3);
    let mut moved = 0;
    for _ in 0..300 {
        let (mut from, lines) = (random_state(random, 40), 10 + random.below(40));
        let to = random_state(random, lines);
        let wanted =
            config::parse_config(&mut from.router, "to", &to.config()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(text_of(&wanted), to.config());
        let before = config::running_config(&from.router);
        let difference = config::load_config(&mut from.router, &wanted, None).unwrap();
        assert_eq!(sorted(&config::running_config(&from.router)), sorted(&wanted));
        assert_eq!(addresses(&from.router), addresses(&to.router));
        assert!(config::compare_config(&mut from.router, &wanted).unwrap().is_empty());
        from.router.ip.audit().unwrap();
        if difference.is_empty() {
            continue;
        }
        moved += 1;
        config::rollback_config(&mut from.router).unwrap();
        assert_eq!(sorted(&config::running_config(&from.router)), sorted(&before));
    }
    assert!(moved > 250, "{moved}");
}

#[test]
fn an_error_in_the_middle_of_a_file_leaves_everything_as_it_was() {
    let directory = Directory::new("middle");
    let mut desk = Bench::of(EVERYTHING);
    let before = desk.state();
    for (wrong, message) in [
        ("set interface state e9 up", ":2: set interface state: no interface named 'e9' (show interface lists them)"),
        ("bogus", ":2: unknown input 'bogus'"),
        ("show interface", ":2: 'show interface' states no configuration"),
        ("clear errors", ":2: 'clear errors' states no configuration"),
        ("save /tmp/x", ":2: 'save' states no configuration"),
        ("set interface ip address n0 0.0.0.0/0", ":2: set interface ip address: 0.0.0.0/0 is no address"),
        ("packet-generator new {", ":2: '{' is never closed"),
    ] {
        let text = format!("create null interface name n0\n{wrong}\nset interface state n0 up\n");
        let file = directory.file("file", &text);
        let error = desk.try_to(&format!("load {file}")).unwrap_err();
        assert!(error.starts_with(&format!("load: {file}{message}")), "{error}");
        assert_eq!(desk.state(), before, "{wrong}");
    }
}

#[test]
fn a_device_that_cannot_be_opened_leaves_everything_as_it_was() {
    let directory = Directory::new("device");
    let options = Options { buffers: 1024, huge_pages: false, ..Options::default() };
    let mut desk =
        Bench { router: quiver_capabilities::router(options).unwrap(), commands: quiver_capabilities::commands() };
    for line in ["create null interface name n0", "set int state n0 up", "set int ip address n0 10.0.0.1/24"] {
        desk.must(line);
    }
    let before = desk.state();
    let file = directory.file("file", "create null interface name n1\ncreate host-interface absent0 name e0\n");
    let error = desk.try_to(&format!("load {file}")).unwrap_err();
    assert!(
        error.contains("create host-interface name absent0 interface-name e0") && error.contains("absent0"),
        "{error}"
    );
    assert!(error.ends_with("nothing was changed"), "{error}");
    assert_eq!(desk.state(), before);
}

#[test]
fn steps_that_were_taken_before_a_failure_are_taken_back() {
    let options = Options { buffers: 1024, huge_pages: false, ..Options::default() };
    let mut desk =
        Bench { router: quiver_capabilities::router(options).unwrap(), commands: quiver_capabilities::commands() };
    for line in [
        "create null interface name n0",
        "create null interface name n1",
        "set int state n0 up",
        "set int ip address n0 10.0.0.1/24",
        "ip route add 16.0.0.0/8 via 10.0.0.2 n0",
        "ip route add 17.0.0.0/8 via 10.0.0.2",
    ] {
        desk.must(line);
    }
    // The old n0 has to be removed before the new n0 is created, whose device cannot be opened.
    let text = "create null interface name n2\ncreate host-interface absent0 name n0\nip route add 17.0.0.0/8 via n2\n";
    let wanted = config::parse_config(&mut desk.router, "file", text).unwrap();
    let (before, fib) = (sorted(&config::running_config(&desk.router)), desk.must("show ip fib summary"));
    let error = config::load_config(&mut desk.router, &wanted, None).unwrap_err().to_string();
    assert!(error.contains("absent0") && error.ends_with("nothing was changed"), "{error}");
    assert_eq!(sorted(&config::running_config(&desk.router)), before);
    assert_eq!(desk.must("show ip fib summary"), fib);
    assert!(desk.try_to("rollback").unwrap_err().contains("nothing to go back to"));
}

#[test]
fn what_differs_is_shown_before_and_nothing_happens() {
    let directory = Directory::new("dry");
    let mut desk = Bench::of(EVERYTHING);
    let text =
        desk.config().replace("mtu packet 1400", "mtu packet 1300").replace("ip route add 17.0.0.0/8 via drop\n", "");
    let file = directory.file("file", &text);
    let before = desk.state();
    let shown = desk.must(&format!("load {file} dry-run"));
    assert_eq!(
        shown,
        "- set interface mtu packet 1400 e0\n- ip route add 17.0.0.0/8 via drop\n+ set interface mtu packet 1300 e0\n"
    );
    assert_eq!(desk.state(), before);
    assert_eq!(desk.must(&format!("load {file}")), shown);
    assert_eq!(desk.config(), text);
    for options in ["", " confirm", " confirm 9"] {
        assert_eq!(desk.must(&format!("load {file}{options}")), "no difference\n");
    }
}

#[test]
fn an_unconfirmed_load_goes_back_by_itself_and_a_confirmed_one_stays() {
    let directory = Directory::new("confirm");
    let file = directory.file("file", "create null interface name n1\n");
    let mut desk = Bench::of(&["create null interface name n0"]);
    let (old, new) = ("create null interface name n0\n", "create null interface name n1\n");
    assert_eq!(desk.try_to("confirm").unwrap_err(), "confirm: no loaded configuration waits to be confirmed");
    assert!(desk.try_to("rollback").unwrap_err().contains("nothing to go back to"));

    let answer = desk.must(&format!("load {file} confirm 30"));
    assert!(answer.ends_with("goes back in 30 s unless you 'confirm'\n"), "{answer}");
    assert!(desk.try_to(&format!("load {file}")).unwrap_err().contains("the last load still waits"));
    let start = Instant::now();
    let due = desk.router.tick_at(start + Duration::from_secs(20)).unwrap();
    assert_eq!(desk.config(), new);
    assert!(due <= start + Duration::from_secs(31), "control comes back in time");
    desk.router.tick_at(start + Duration::from_secs(32));
    assert_eq!(desk.config(), old);
    desk.router.tick_at(start + Duration::from_secs(99));
    assert_eq!(desk.config(), old, "once is enough");

    desk.must(&format!("load {file} confirm"));
    assert!(desk.try_to(&format!("save {file}.saved")).unwrap_err().contains("the last load still waits"));
    desk.must("confirm");
    desk.router.tick_at(Instant::now() + Duration::from_secs(99));
    assert_eq!(desk.config(), new);
    assert_eq!(desk.must("rollback dry-run"), format!("- {new}+ {old}"));
    assert_eq!(desk.config(), new);
    desk.must("rollback");
    assert_eq!(desk.config(), old);
    desk.must("rollback");
    assert_eq!(desk.config(), new);
}

#[test]
fn a_save_can_be_loaded_and_a_start_that_failed_in_part_is_not_overwritten() {
    let directory = Directory::new("save");
    let mut desk = Bench::of(EVERYTHING);
    assert!(desk.try_to("save").unwrap_err().contains("no file to save to"));
    let startup = directory.0.join("startup.cli");
    desk.router.startup = Some(startup.clone());
    let count = config::running_config(&desk.router).len();
    assert_eq!(desk.must("save"), format!("{}: {count} commands saved\n", startup.display()));
    assert_eq!(desk.must(&format!("load {}", startup.display())), "no difference\n");

    desk.router.state_mut::<Configuration>().failed_at_start = 2;
    let refusal = desk.try_to("save").unwrap_err();
    assert!(refusal.contains("2 commands of") && refusal.contains("'save force'"), "{refusal}");
    // Under any name of the startup file.
    let link = directory.0.join("link");
    std::os::unix::fs::symlink(&startup, &link).unwrap();
    for other in [directory.0.join(".").join("startup.cli"), link] {
        assert!(desk.try_to(&format!("save {}", other.display())).unwrap_err().contains("2 commands of"));
    }
    desk.must(&format!("save {}", directory.0.join("other").display()));
    desk.must("save force");
    desk.must("save");
    let text = desk.config();
    let mut next = Bench::new();
    next.router.startup = Some(startup.clone());
    assert_eq!(config::restore_config(&mut next.router).unwrap(), Some(count));
    assert_eq!(next.config(), text);

    // One line is invalid: the other lines are restored, and the file is not overwritten.
    std::fs::write(&startup, text.replacen("create tap id 0 name tap0", "create tap id nonsense", 1)).unwrap();
    let mut partial = Bench::new();
    partial.router.startup = Some(startup.clone());
    assert_eq!(config::restore_config(&mut partial.router).unwrap(), Some(count - 1));
    assert_eq!(partial.config(), text.replacen("create tap id 0 name tap0\n", "", 1));
    assert!(partial.try_to("save").unwrap_err().contains("1 commands of"));
    std::fs::remove_file(&startup).unwrap();
    assert_eq!(config::restore_config(&mut Bench::new().router).unwrap(), None);
}

#[test]
fn files_are_confined_when_a_root_is_set() {
    let directory = Directory::new("confined");
    let mut desk = Bench::of(&["create null interface name n0"]);
    desk.router.files = Files::beneath(&directory.0).unwrap();
    assert!(desk.try_to("load /etc/hostname").unwrap_err().contains("outside of"));
    assert!(desk.try_to("save ../escaped").unwrap_err().contains("outside of"));
    desk.must("save kept");
    assert_eq!(desk.must("load kept dry-run"), "no difference\n");
}

#[test]
fn a_refused_command_changes_nothing() {
    let random = &mut Random::new(21);
    let mut desk = Bench::of(EVERYTHING);
    let (mut before, mut stated) = (desk.state(), desk.config());
    let mut refused = 0;
    for _ in 0..10_000 {
        let line = any_line(random);
        let name = desk.commands.find(&line).map_or(String::new(), |command| command.name().to_string());
        // These commands ask a worker, and none runs here; 'commands.rs' has one.
        if ["show", "trace", "clear trace"].iter().any(|asks| name.starts_with(asks)) {
            continue;
        }
        if let Err(error) = desk.try_to(&line) {
            refused += 1;
            assert_eq!(desk.config(), stated, "after '{line}': {error}");
            // Comparing all that can be seen takes longer, so it is done now and then: a change would still be there.
            if refused % 20 == 0 {
                assert_eq!(desk.state(), before, "after '{line}': {error}");
            }
        } else {
            (before, stated) = (desk.state(), desk.config());
        }
    }
    assert!(refused > 3_000, "{refused}");
}

#[test]
fn damaged_files_are_refused_whole_or_taken_whole() {
    let random = &mut Random::new(22);
    let mut desk = Bench::of(EVERYTHING);
    let text = desk.config();
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..1_200 {
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        for _ in 0..=random.below(3) {
            let at = random.below(lines.len());
            match random.below(5) {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, any_line(random)),
                2 => {
                    let other = random.below(lines.len());
                    lines.swap(at, other);
                }
                3 => {
                    let keep = random.below(lines[at].chars().count() + 1);
                    lines[at] = lines[at].chars().take(keep).collect();
                }
                _ => lines[at].push(char::from_u32(random.below(0x3000) as u32).unwrap_or('?')),
            }
        }
        match config::parse_config(&mut desk.router, "damaged", &lines.join("\n")) {
            Ok(wanted) => {
                taken += 1;
                if taken % 10 == 0 {
                    config::load_config(&mut desk.router, &wanted, None).unwrap_or_else(|error| panic!("{error}"));
                    assert_eq!(sorted(&config::running_config(&desk.router)), sorted(&wanted));
                }
            }
            Err(ConfigError::Line { line, message, .. }) => {
                refused += 1;
                assert!(line > 0 && line <= lines.len() && !message.is_empty());
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 240 && taken > 60, "{refused} refused, {taken} taken");
}

/// Any state can be loaded, in whatever order it was reached.
#[test]
fn states_that_were_reached_by_a_detour_can_be_loaded() {
    let mut desk = Bench::new();
    for commands in [
        &[
            "create null interface name n0",
            "set interface mtu 9000 n0",
            "set interface mtu packet 9000 n0",
            "set interface mtu 1500 n0",
        ][..],
        &[
            "create null interface name n0",
            "create sub-interfaces n0 100",
            "set interface mtu packet 8000 n0.100",
            "set interface mtu 1400 n0",
            "set interface mtu packet 1300 n0",
        ],
        &[
            "create null interface name n0",
            "ip neighbor n0 10.0.0.2 02:00:00:00:00:01",
            "set ip neighbor-config ip4 interface-limit 1",
        ],
    ] {
        let wanted = Bench::of(commands).config();
        let steps = config::parse_config(&mut desk.router, "wanted", &wanted).unwrap();
        config::load_config(&mut desk.router, &steps, None).unwrap();
        assert_eq!(desk.config(), wanted);
    }
    let mut desk = Bench::of(&["create null interface name n0", "set interface ip address n0 10.0.0.1/24"]);
    desk.must("ip neighbor n0 10.0.0.2 02:00:00:00:00:01");
    desk.must("ip neighbor n0 10.0.0.3 02:00:00:00:00:02");
    let refused = desk.try_to("set ip neighbor-config ip4 interface-limit 1").unwrap_err();
    assert!(refused.contains("a limit of 1 neighbours: 2 static ones are there"), "{refused}");
}

/// A load makes a second router to evaluate the file. Nothing of that router may be left.
#[test]
fn a_router_that_ends_leaves_nothing() {
    let mut desk = Bench::new();
    for line in [
        "create loopback interface",
        "set interface state loop0 up",
        "set interface ip address loop0 10.0.0.1/24",
        "set interface ip address loop0 2001:db8::1/64",
        "ip table add 5",
        "ip6 table add 5",
        "ip route add 10.1.0.0/16 via drop",
        "ip route add 2001:db8:1::/48 via drop",
        "ip route del 2001:db8:1::/48",
        "ip table del 5",
    ] {
        desk.must(line);
    }
    let domain = std::sync::Arc::downgrade(desk.router.graph.domain());
    drop(desk);
    assert!(domain.upgrade().is_none(), "what waited for readers is gone with the router");
}
