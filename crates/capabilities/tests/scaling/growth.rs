//! The commands that are measured.

use crate::cost::{Scratch, Step, check, check_steps, turn};
use std::fs;

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect()
}

/// Two links with networks of both families.
fn network() -> Vec<String> {
    lines(
        "mpls table add 0
         create null interface name n0
         create null interface name n1
         set interface state n0 up
         set interface state n1 up
         set interface mpls n0 enable
         set interface ip address n0 10.0.0.1/24
         set interface ip address n1 10.0.1.1/24
         set interface ip address n0 2001:db8:0:1::1/64
         set interface ip address n1 2001:db8:0:2::1/64",
    )
}

fn network_and(more: &[String]) -> Vec<String> {
    [network(), more.to_vec()].concat()
}

/// By family: a name, prefixes of several lengths to begin with, and ways to go.
const FAMILIES: [(&str, [&str; 2], [&str; 3]); 2] = [
    ("ip4", ["20.0.0.0/28", "40.0.0.0/32"], ["10.0.0.2", "n0", "drop"]),
    ("ip6", ["2001:db8:1000::/64", "2001:db8:2000::/128"], ["2001:db8:0:1::2", "n0", "drop"]),
];

/// Lines of a configuration of so many.
type Lines = fn(usize) -> Vec<String>;
/// The line of one of them.
type Line = fn(usize) -> String;

#[test]
fn many_routes_of_one_command() {
    let _turn = turn();
    for (family, prefixes, ways) in FAMILIES {
        for prefix in prefixes {
            for way in ways {
                let add = |n: usize| vec![format!("ip route add count {n} {prefix} via {way}")];
                check(&format!("{family} add {prefix} via {way}"), 32_000, |_| network(), add);
            }
            let hop = ways[0];
            let add = |n: usize| network_and(&[format!("ip route add count {n} {prefix} via {hop}")]);
            let replace = |n: usize| vec![format!("ip route replace count {n} {prefix} via drop")];
            let del = |n: usize| vec![format!("ip route del count {n} {prefix}")];
            check_steps(&format!("{family} {prefix}"), 32_000, add, &[("replace", &replace), ("del", &del)]);
        }
    }
}

#[test]
fn networks_of_one_interface() {
    let _turn = turn();
    // They lie side by side in one large network, and nothing else does.
    for (family, prefix) in
        [("ip4", "20.0.0.0/24"), ("ip6", "2001:db8:1000::/64"), ("ip6 hosts", "2001:db8:1000::1/128")]
    {
        let before = |n: usize| network_and(&[format!("ip route add count {n} {prefix} via n0")]);
        let down = |_| lines("set interface state n0 down");
        let del = |n: usize| vec![format!("ip route del count {n} {prefix}")];
        let name = format!("{family} networks");
        check_steps(&name, 64_000, before, &[("link down", &down), ("del of those that are down", &del)]);
        check(&format!("{name}' interface deleted"), 32_000, before, |_| lines("delete interface n0"));
    }
}

#[test]
fn many_labels_of_one_command() {
    let _turn = turn();
    let add = |n: usize| vec![format!("mpls local-label add count {n} 100 eos via 10.0.0.2 n0 out-labels 17")];
    let down = |_| lines("set interface state n0 down");
    let del = |n: usize| vec![format!("mpls local-label del count {n} 100 eos")];
    check_steps("labels", 32_000, |_| network(), &[("add", &add), ("link down", &down), ("del", &del)]);
    let before = |n: usize| network_and(&add(n));
    check("labels, delete interface", 16_000, before, |_| lines("delete interface n0"));
}

/// Routes of each command one, as a file of configuration or a program says them.
fn one_by_one(family: &str, n: usize) -> Vec<String> {
    let route = |at: usize| match family {
        "ip4" => format!("ip route add 20.{}.{}.0/24 via 10.0.0.2 n0", at >> 8, at & 255),
        _ => format!("ip route add 2001:db8:{at:x}::/48 via 2001:db8:0:1::2 n0"),
    };
    (0x1000..0x1000 + n).map(|at| route(if family == "ip4" { at - 0x1000 } else { at })).collect()
}

#[test]
fn routes_one_by_one() {
    let _turn = turn();
    for family in ["ip4", "ip6"] {
        let add = |n| one_by_one(family, n);
        let down = |_| lines("set interface state n0 down");
        let up = |_| lines("set interface state n0 up");
        let del = |n| {
            let without = |line: String| line.replace(" add ", " del ").split(" via ").next().unwrap().to_string();
            one_by_one(family, n).into_iter().map(without).collect()
        };
        let steps: [Step; 4] = [("add", &add), ("link down", &down), ("link up", &up), ("del", &del)];
        check_steps(&format!("{family} one by one"), 12_000, |_| network(), &steps);
        let before = |n| network_and(&one_by_one(family, n));
        let no_address = |_| lines("set interface ip address del n0 all");
        let no_interface = |_| lines("delete interface n0");
        let steps: [Step; 2] = [("address gone", &no_address), ("interface gone", &no_interface)];
        check_steps(&format!("{family} that stay"), 16_000, before, &steps);
    }
}

#[test]
fn a_table_of_routes_that_goes() {
    let _turn = turn();
    for (word, prefix) in [("ip", "20.0.0.0/28"), ("ip6", "2001:db8:1000::/64")] {
        let before =
            |n: usize| lines(&format!("{word} table add 10\nip route add table 10 count {n} {prefix} via drop"));
        check(&format!("{word} table del"), 256_000, before, |_| vec![format!("{word} table del 10")]);
    }
}

#[test]
fn files_of_routes() {
    let _turn = turn();
    for family in ["ip4", "ip6"] {
        let file = Scratch::new(family);
        let name = file.0.display().to_string();
        let write = |n: usize| {
            let routes = one_by_one(family, n).into_iter().map(|line| line.replace("ip route add ", "") + "\n");
            fs::write(&file.0, routes.collect::<String>()).unwrap();
            network()
        };
        let load = |_| vec![format!("ip route load {name}")];
        let replace = |_| {
            fs::write(format!("{name}.none"), "").unwrap();
            vec![format!("ip route load {name}.none replace")]
        };
        check_steps(&format!("{family} ip route load"), 32_000, write, &[("all", &load), ("replace", &replace)]);
        let _ = fs::remove_file(format!("{name}.none"));
    }
}

#[test]
fn files_of_configuration() {
    let _turn = turn();
    let kinds: [(&str, usize, Lines); 3] = [
        ("loopbacks", 1_600, |n| {
            let up = |at| format!("set interface state loop{at} up");
            let address = |at| format!("set interface ip address loop{at} 20.{}.{}.1/32", at >> 8, at & 255);
            [loopbacks(n), of_each(n, up), of_each(n, address)].concat()
        }),
        ("routes", 4_000, |n| network_and(&[one_by_one("ip4", n / 2), one_by_one("ip6", n / 2)].concat())),
        ("neighbours", 4_000, |n| network_and(&neighbours(n))),
    ];
    for (kind, work, state) in kinds {
        let file = Scratch::new(kind);
        let name = file.0.display().to_string();
        let save = |_| vec![format!("save {name}")];
        let dry_run = |_| vec![format!("load {name} dry-run")];
        let nothing = |_| {
            fs::write(&file.0, "").unwrap();
            vec![format!("load {name}")]
        };
        let all = |n| {
            fs::write(&file.0, state(n).join("\n") + "\n").unwrap();
            vec![format!("load {name}")]
        };
        let steps: [Step; 4] =
            [("save", &save), ("load dry-run", &dry_run), ("load nothing over all", &nothing), ("load", &all)];
        check_steps(kind, work, state, &steps);
    }
}

fn neighbours(n: usize) -> Vec<String> {
    let neighbour = |at: usize| format!("ip neighbor n0 2001:db8:0:1::{:x} 02:00:00:00:00:01 static", at + 0x100);
    (0..n).map(neighbour).collect()
}

#[test]
fn neighbours_one_by_one() {
    let _turn = turn();
    let down = |_| lines("set interface state n0 down");
    let flush = |_| lines("ip neighbor flush n0");
    let steps: [Step; 3] = [("made", &neighbours), ("link down", &down), ("flushed", &flush)];
    check_steps("neighbours", 8_000, |_| network(), &steps);
}

fn loopbacks(n: usize) -> Vec<String> {
    (0..n).map(|at| format!("create loopback interface instance {at}")).collect()
}

/// A line for each of some loopbacks.
fn of_each(n: usize, line: impl Fn(usize) -> String) -> Vec<String> {
    (0..n).map(line).collect()
}

#[test]
fn interfaces_one_by_one() {
    let _turn = turn();
    let work = 4_000;
    check("interfaces made", work, |_| Vec::new(), |n| lines(&"create loopback interface\n".repeat(n)));
    let up = |n| of_each(n, |at| format!("set interface state loop{at} up"));
    let down = |n| of_each(n, |at| format!("set interface state loop{at} down"));
    let named = |n| of_each(n, |at| format!("set interface name loop{at} link{at}"));
    let addresses = |n| {
        let address = |at| format!("set interface ip address loop{at} 20.{}.{}.1/24", at >> 8, at & 255);
        let address6 = |at| format!("set interface ip address loop{at} 2001:db8:{at:x}::1/64");
        [of_each(n, address), of_each(n, address6)].concat()
    };
    let no_addresses = |n| of_each(n, |at| format!("set interface ip address del loop{at} all"));
    let deleted = |n| of_each(n, |at| format!("loopback delete-interface intfc loop{at}"));
    let steps: [Step; 6] = [
        ("made", &loopbacks),
        ("set up", &up),
        ("addresses", &addresses),
        ("set down", &down),
        ("set up with addresses", &up),
        ("deleted", &deleted),
    ];
    check_steps("interfaces", work, |_| Vec::new(), &steps);
    let all_up = |n| [loopbacks(n), addresses(n), up(n)].concat();
    check_steps("interfaces", work, all_up, &[("addresses gone", &no_addresses), ("named", &named)]);
    let tables = |n| [loopbacks(n), of_each(100, |at| format!("ip table add {}", at + 1))].concat();
    let of_stand_ins = |kind: &'static str| move |n| lines(&format!("create {kind}\n").repeat(n));
    check("null interfaces", work, |_| Vec::new(), of_stand_ins("null interface"));
    check("TAPs", work, |_| Vec::new(), of_stand_ins("tap"));
    check("interfaces put into tables", work, tables, |n| {
        of_each(n, |at| format!("set interface ip table loop{at} {}", at % 100 + 1))
    });
    let tables6 = |n| [loopbacks(n), of_each(100, |at| format!("ip6 table add {}", at + 1))].concat();
    check("interfaces put into IPv6 tables", work, tables6, |n| {
        of_each(n, |at| format!("set interface ip6 table loop{at} {}", at % 100 + 1))
    });
}

/// So many sub-interfaces of a link, in the given state.
fn links(n: usize, state: &str) -> Vec<String> {
    let made = of_each(n, |at| format!("create sub-interfaces n0 {}", at + 1));
    network_and(&[made, of_each(n, |at| format!("set interface state n0.{} {state}", at + 1))].concat())
}

#[test]
fn sub_interfaces_one_by_one() {
    let _turn = turn();
    let work = 4_000;
    let made = |n| of_each(n, |at| format!("create sub-interfaces n0 {}", at + 1));
    let up = |n| of_each(n, |at| format!("set interface state n0.{} up", at + 1));
    let link_down = |_| lines("set interface state n0 down");
    let deleted = |n| of_each(n, |at| format!("delete sub n0.{}", at + 1));
    let steps: [Step; 4] = [("made", &made), ("set up", &up), ("link down", &link_down), ("deleted", &deleted)];
    check_steps("sub-interfaces", work, |_| network(), &steps);
}

#[test]
fn what_interfaces_have_besides() {
    let _turn = turn();
    let work = 4_000;
    let kinds: [(&str, Line); 6] = [
        ("unnumbered", |at| format!("set interface unnumbered n0.{at} use n1")),
        ("tags", |at| format!("set interface tag n0.{at} t{at}")),
        ("MTUs", |at| format!("set interface mtu packet 1400 n0.{at}")),
        ("IPv6 enabled", |at| format!("enable ip6 interface n0.{at}")),
        ("advertising", |at| format!("ip6 nd n0.{at} no ra-suppress")),
        ("IPv6 addresses", |at| format!("set interface ip address n0.{at} 2001:db8:{at:x}::1/64")),
    ];
    for state in ["down", "up"] {
        let commands = kinds.map(|(kind, line)| (kind, move |n| of_each(n, |at| line(at + 1))));
        let steps: Vec<Step> = commands.iter().map(|(kind, commands)| (*kind, commands as _)).collect();
        check_steps(&format!("links that are {state}"), work, |n| links(n, state), &steps);
    }
}

/// Settings of each of many interfaces, one after the other.
#[test]
fn settings_of_each_interface() {
    let _turn = turn();
    let kinds: [(&str, Line); 12] = [
        ("MAC addresses", |at| {
            format!("set interface mac address n0.{at} 02:00:00:01:{:02x}:{:02x}", at >> 8, at & 255)
        }),
        ("proxy ARP", |at| format!("set interface proxy-arp n0.{at} enable")),
        ("directed broadcasts", |at| format!("set interface ip directed-broadcast n0.{at} enable")),
        ("source checks", |at| format!("set urpf ip4 rx strict n0.{at}")),
        ("source checks of IPv6", |at| format!("set urpf ip6 rx strict n0.{at}")),
        ("labels", |at| format!("set interface mpls n0.{at} enable")),
        ("redirects", |at| format!("set interface ip redirects n0.{at} disable")),
        ("punts", |at| format!("ip punt redirect add rx n0.{at} via 20.0.0.9 n1")),
        ("punts of IPv6", |at| format!("ip6 punt redirect add rx n0.{at} via 2001:db8::9 n1")),
        ("DHCP clients", |at| format!("set dhcp client intfc n0.{at}")),
        ("MLD queriers", |at| format!("set ip6 mld querier n0.{at} enable")),
        ("tunnels", |at| format!("mpls tunnel add via 10.0.1.9 n1 onlink out-labels {}", at + 16)),
    ];
    for (kind, line) in kinds {
        let set = |n| of_each(n, |at| line(at + 1));
        let ready = |n| [links(n, "up"), of_each(n, |at| format!("enable ip6 interface n0.{}", at + 1))].concat();
        let shown = |_| lines("show running-config");
        let deleted = |n| of_each(n, |at| format!("delete interface n0.{}", at + 1));
        let steps: [Step; 3] = [("set", &set), ("show running-config", &shown), ("interfaces deleted", &deleted)];
        check_steps(kind, 2_400, ready, &steps);
    }
}

/// Nearly as many routing tables as there can be.
#[test]
fn tables_one_by_one() {
    let _turn = turn();
    for family in ["ip", "ip6"] {
        let made = |n| of_each(n, |at| format!("{family} table add {}", at + 1));
        let deleted = |n| of_each(n, |at| format!("{family} table del {}", at + 1));
        check_steps(&format!("{family} tables"), 4_000, |_| Vec::new(), &[("made", &made), ("deleted", &deleted)]);
    }
}

/// Each interface has its network, and a router on it by which some other network is reached.
#[test]
fn what_is_behind_each_interface() {
    let _turn = turn();
    let work = 4_000;
    let attached = |n: usize| {
        let address = |at: usize| format!("set interface ip address n0.{} 20.{}.{}.1/24", at + 1, at >> 8, at & 255);
        let address6 = |at: usize| format!("set interface ip address n0.{} 2001:db8:{at:x}::1/64", at + 1);
        [links(n, "up"), of_each(n, address), of_each(n, address6)].concat()
    };
    let routes = |n: usize| {
        let (hop, hop6) =
            (|at: usize| format!("20.{}.{}.2", at >> 8, at & 255), |at: usize| format!("2001:db8:{at:x}::2"));
        let route = |at: usize| format!("ip route add 40.{}.{}.0/24 via {}", at >> 8, at & 255, hop(at));
        let route6 = |at: usize| format!("ip route add 2001:db9:{at:x}::/48 via {} n0.{}", hop6(at), at + 1);
        [of_each(n, route), of_each(n, route6)].concat()
    };
    let neighbours =
        |n| of_each(n, |at| format!("ip neighbor n0.{} 20.{}.{}.2 02:00:00:00:00:02", at + 1, at >> 8, at & 255));
    let shown = |_| lines("show running-config");
    let steps: [Step; 3] = [("routes", &routes), ("neighbours", &neighbours), ("show running-config", &shown)];
    check_steps("behind each interface", work, attached, &steps);
}

/// As many next hops more as there are routes more: of each some hundred routes.
#[test]
fn many_routes_by_many_next_hops() {
    let _turn = turn();
    let routes = |n: usize| {
        let route = |at: usize| {
            let (count, hop) = (256, at + 2);
            format!(
                "ip route add count {count} 20.{}.{}.0/32 via 10.{}.{}.2",
                at >> 8,
                at & 255,
                64 + (hop >> 8),
                hop & 255
            )
        };
        let route6 =
            |at: usize| format!("ip route add count 256 2001:db8:{:x}::/64 via 2001:db8:0:1::{:x}", at + 16, at + 2);
        let network = lines("set interface ip address n0 10.64.0.1/10");
        [network_and(&network), of_each(n, route), of_each(n, route6)].concat()
    };
    let down = |_| lines("set interface state n0 down");
    let up = |_| lines("set interface state n0 up");
    check_steps("next hops of many routes", 256, routes, &[("go", &down), ("come", &up)]);
}

/// Each route's next hop is in the one before.
fn chain(n: usize) -> Vec<String> {
    let address = |at: usize| format!("20.{}.{}.{}", at >> 16, at >> 8 & 255, at & 255);
    let first = "ip route add 20.0.0.1/32 via 10.0.0.2".to_string();
    let others = (2..n).map(|at| format!("ip route add {}/32 via {} offlink", address(at), address(at - 1)));
    [first].into_iter().chain(others).collect()
}

#[test]
fn a_chain_of_routes_that_hang_on_each_other() {
    let _turn = turn();
    let del = |n| {
        let without = |line: String| line.replace(" add ", " del ").split(" via ").next().unwrap().to_string();
        chain(n).into_iter().map(without).collect()
    };
    check_steps("chain", 4_000, |_| network(), &[("made", &chain), ("unmade", &del)]);
    check("chain made from its end", 4_000, |_| network(), |n| chain(n).into_iter().rev().collect());
    let before = |n| network_and(&chain(n));
    let down = |_| lines("set interface state n0 down");
    let first = |_| lines("ip route del 20.0.0.1/32");
    check_steps("chain", 16_000, before, &[("link down", &down), ("first route gone", &first)]);
}
