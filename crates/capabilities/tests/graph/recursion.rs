//! Next hops that are reached through other routes, backup paths, and many routes at once.

use crate::bed::{Bed, Port, prefix};
use crate::packet::ip;
use crate::packet6::Packet6;
use crate::routes::{goes_to, hop_mac};
use graph::InterfaceIndex;
use router::ip::bulk::{Batch, Outcome};
use router::ip::control::{Path, PathAction, Source, TableIndex};
use std::io::Write;
use std::time::Duration;
use wire::Family;

fn leads(bed: &mut Bed, ports: &[Port], address: &str, hop: Option<&str>) {
    assert_eq!(goes_to(bed, &ports[0], &ports[1..], address), hop.and_then(hop_mac), "{address}");
}

fn installed(bed: &Bed, route: &str) -> bool {
    bed.router.ip.routes().get(prefix(route)).is_some_and(|route| route.installed.is_some())
}

#[test]
fn a_next_hop_is_reached_through_the_longest_route_to_it() {
    let (mut bed, ports) = Bed::with_three_ports();
    bed.command("ip route add 10.9.0.0/16 via 10.0.1.2").unwrap();
    bed.command("ip route add 50.0.0.0/8 via 10.9.9.9").unwrap();
    leads(&mut bed, &ports, "50.1.1.1", Some("10.0.1.2"));
    let text = bed.command("show ip fib 50.0.0.0/8").unwrap();
    assert!(text.contains("recursive: via 10.9.9.9 in 10.9.0.0/16 oper-flags:resolved"), "{text}");
    // A longer one takes over, and leaves again.
    bed.command("ip route add 10.9.9.0/24 via 10.0.2.2").unwrap();
    leads(&mut bed, &ports, "50.1.1.1", Some("10.0.2.2"));
    // A chain of two: each link may move.
    bed.command("ip route add 60.0.0.0/8 via 50.0.0.9").unwrap();
    leads(&mut bed, &ports, "60.1.1.1", Some("10.0.2.2"));
    bed.command("ip route del 10.9.9.0/24").unwrap();
    leads(&mut bed, &ports, "60.1.1.1", Some("10.0.1.2"));
    bed.command("ip route replace 10.9.0.0/16 via 10.0.2.2").unwrap();
    leads(&mut bed, &ports, "60.1.1.1", Some("10.0.2.2"));
    // Without a way both wait; the default route is none to a next hop.
    bed.command("ip route add 0.0.0.0/0 via 10.0.1.2").unwrap();
    bed.command("ip route del 10.9.0.0/16").unwrap();
    assert!(!installed(&bed, "50.0.0.0/8") && !installed(&bed, "60.0.0.0/8"));
    leads(&mut bed, &ports, "60.1.1.1", Some("10.0.1.2"));
    let config = bed.command("show running-config").unwrap();
    assert!(config.contains("ip route add 60.0.0.0/8 via 50.0.0.9 offlink\n"), "{config}");
    bed.command("ip route add 10.9.0.0/16 via 10.0.2.2").unwrap();
    leads(&mut bed, &ports, "60.1.1.1", Some("10.0.2.2"));
}

#[test]
fn what_hangs_on_more_than_sixteen_routes_in_turn_waits() {
    let chain = |bed: &mut Bed, order: &mut dyn Iterator<Item = usize>| {
        for at in order {
            let line = match at {
                0 => "ip route add 20.0.0.0/32 via 10.0.1.2".to_string(),
                _ => format!("ip route add 20.0.0.{at}/32 via 20.0.0.{} offlink", at - 1),
            };
            bed.command(&line).unwrap();
        }
    };
    let works = |bed: &Bed| -> Vec<usize> { (0..30).filter(|at| installed(bed, &format!("20.0.0.{at}/32"))).collect() };
    let (mut bed, ports) = Bed::with_three_ports();
    chain(&mut bed, &mut (0..30));
    // The first is on a network, the next hangs on one route, and so on.
    assert_eq!(works(&bed), (0..=16).collect::<Vec<_>>());
    leads(&mut bed, &ports, "20.0.0.16", Some("10.0.1.2"));
    // What follows from the routes does not hang on their order.
    let (mut other, _) = Bed::with_three_ports();
    chain(&mut other, &mut (0..30).rev());
    assert_eq!(works(&other), works(&bed));
    // A short cut brings all behind it nearer, and its end takes them away again.
    bed.command("ip route replace 20.0.0.10/32 via 10.0.1.2").unwrap();
    assert_eq!(works(&bed), (0..=26).collect::<Vec<_>>());
    leads(&mut bed, &ports, "20.0.0.26", Some("10.0.1.2"));
    bed.command("ip route replace 20.0.0.10/32 via 20.0.0.9").unwrap();
    assert_eq!(works(&bed), (0..=16).collect::<Vec<_>>());
    bed.command("set interface state e1 down").unwrap();
    assert!(works(&bed).is_empty());
    bed.command("set interface state e1 up").unwrap();
    assert_eq!(works(&bed), (0..=16).collect::<Vec<_>>());
    // A circle that is too long to be seen is not reached either.
    bed.command("ip route replace 20.0.0.0/32 via 20.0.0.29 offlink").unwrap();
    assert!(works(&bed).is_empty());
    bed.command("ip route replace 20.0.0.0/32 via 10.0.1.2").unwrap();
    assert_eq!(works(&bed), (0..=16).collect::<Vec<_>>());
}

#[test]
fn what_would_lead_through_itself_is_refused() {
    let (mut bed, ports) = Bed::with_three_ports();
    let error = bed.command("ip route add 50.0.0.0/8 via 50.1.1.1").unwrap_err();
    assert!(error.contains("next hop 50.1.1.1 is on no attached network"), "{error}");
    bed.command("ip route add 50.0.0.0/8 via 10.0.1.2").unwrap();
    bed.command("ip route add 60.0.0.0/8 via 50.1.1.1").unwrap();
    let before = bed.command("show ip fib").unwrap();
    let error = bed.command("ip route replace 50.0.0.0/8 via 60.1.1.1").unwrap_err();
    assert!(error.contains("the next hops of 50.0.0.0/8 are reached by the route to 50.0.0.0/8 itself"), "{error}");
    assert_eq!(bed.command("show ip fib").unwrap(), before);
    leads(&mut bed, &ports, "60.1.1.1", Some("10.0.1.2"));
    // A circle that closes later leads nowhere, and opens again.
    bed.command("ip route add 50.1.1.0/24 via 10.0.2.2").unwrap();
    bed.command("ip route add 50.1.1.1/32 via 60.9.9.9 offlink").unwrap();
    assert!(!installed(&bed, "60.0.0.0/8") && !installed(&bed, "50.1.1.1/32"));
    bed.command("ip route del 50.1.1.1/32").unwrap();
    leads(&mut bed, &ports, "60.1.1.1", Some("10.0.2.2"));
}

/// What is said while the links work and while they do not, of the same state.
#[test]
fn what_may_be_stated_does_not_depend_on_links() {
    let bed = || {
        let (mut bed, ports) = Bed::with_three_ports();
        for line in [
            "set interface ip address e1 2001:db8:1::1/64",
            "ip table add 10",
            "mpls table add 0",
            "ip route add 20.0.0.0/8 via 10.0.1.2",
            "ip route add 21.0.0.0/8 via 10.0.1.2 e1",
            "ip route add 22.0.0.0/8 via 172.16.0.9 e1 onlink",
            "ip route add 23.0.0.0/8 via 20.1.1.1",
            "ip route add 24.0.0.0/8 via drop",
            "ip route add 24.1.0.0/16 via punt",
            "ip route add 25.0.0.0/8 table 10 via 10.0.1.2 next-hop-table 0",
            "ip route add 26.0.0.0/16 via e1",
            "ip route add 0.0.0.0/0 via 10.0.1.2",
            "ip route add 2001:db8:20::/48 via 2001:db8:1::2",
            "ip route add 2001:db8:21::/48 via 2001:db8:1::2 e1",
        ] {
            bed.command(line).unwrap();
        }
        (bed, ports)
    };
    let (mut with_links, _) = bed();
    let (mut without, ports) = bed();
    ports[1].set_carrier(false);
    without.advance(Duration::from_secs(1));
    assert!(!installed(&without, "20.0.0.0/8") && !installed(&without, "21.0.0.0/8"));
    let stated = [
        ("ip route add 30.0.0.0/16 via 20.0.0.9", true),
        ("ip route add 30.1.0.0/16 via 21.0.0.9", true),
        ("ip route add 30.2.0.0/16 via 22.0.0.9", true),
        ("ip route add 30.3.0.0/16 via 23.0.0.9", true),
        ("ip route add 30.4.0.0/16 via 24.0.0.9", true),
        ("ip route add 30.5.0.0/16 via 24.1.0.9", false),
        ("ip route add 30.6.0.0/16 via 25.0.0.9 next-hop-table 10", true),
        ("ip route add 30.7.0.0/16 via 25.0.0.9", false),
        ("ip route add 30.8.0.0/16 via 26.0.0.9", true),
        ("ip route add 30.9.0.0/16 via 10.0.1.7", true),
        ("ip route add 30.10.0.0/16 via 10.0.1.7 e1", true),
        ("ip route add 30.11.0.0/16 via 99.9.9.9", false),
        ("ip route add 30.12.0.0/16 via 30.12.0.1", false),
        ("ip route add 2001:db8:30::/48 via 2001:db8:20::9", true),
        ("ip route add 2001:db8:31::/48 via 2001:db8:21::9", true),
        ("ip route add 2001:db8:32::/48 via 2001:db8:1::7", true),
        ("ip route add 2001:db8:33::/48 via 2001:db8:99::9", false),
        ("mpls local-label add 40 eos via 21.0.0.9 out-labels 50", true),
        ("mpls local-label add 41 eos via 99.9.9.9 out-labels 50", false),
    ];
    for (line, may_be) in stated {
        let answer = with_links.command(line);
        assert_eq!(answer.is_ok(), may_be, "with links: {line}: {answer:?}");
        let answer = without.command(line);
        assert_eq!(answer.is_ok(), may_be, "without links: {line}: {answer:?}");
    }
    // It works when the link does.
    ports[1].set_carrier(true);
    without.advance(Duration::from_secs(1));
    ports[1].sent();
    leads(&mut without, &ports, "30.1.1.1", Some("10.0.1.2"));
    assert_eq!(without.router.ip.audit(), Ok(()));
}

#[test]
fn paths_of_lower_preference_stand_by() {
    let (mut bed, ports) = Bed::with_three_ports();
    bed.command("ip route add 50.0.0.0/8 via 10.0.1.2 via 10.0.2.2 preference 9").unwrap();
    let config = bed.command("show running-config").unwrap();
    assert!(config.contains("ip route add 50.0.0.0/8 via 10.0.1.2 via 10.0.2.2 preference 9\n"), "{config}");
    for _ in 0..2 {
        leads(&mut bed, &ports, "50.1.1.1", Some("10.0.1.2"));
        ports[1].set_carrier(false);
        bed.advance(Duration::from_secs(1));
        leads(&mut bed, &ports, "50.1.1.1", Some("10.0.2.2"));
        ports[1].set_carrier(true);
        bed.advance(Duration::from_secs(1));
        ports[1].sent();
    }
}

#[test]
fn prefixes_side_by_side_are_added_and_deleted_together_or_not_at_all() {
    let (mut bed, ports) = Bed::with_three_ports();
    let before = bed.router.ip.routes().len();
    bed.command("ip route add count 1000 50.0.0.0/24 via 10.0.1.2").unwrap();
    assert_eq!(bed.router.ip.routes().len(), before + 1000);
    leads(&mut bed, &ports, "50.3.231.1", Some("10.0.1.2"));
    assert!(!installed(&bed, "50.3.232.0/24"));
    let error = bed.command("ip route del count 1001 50.0.0.0/24").unwrap_err();
    assert!(error.contains("no route 50.3.232.0/24"), "{error}");
    assert_eq!(bed.router.ip.routes().len(), before + 1000);
    leads(&mut bed, &ports, "50.0.0.1", Some("10.0.1.2"));
    bed.command("ip route del count 1000 50.0.0.0/24").unwrap();
    assert_eq!(bed.router.ip.routes().len(), before);
    let error = bed.command("ip route add count 3 255.255.254.0/24 via drop").unwrap_err();
    assert!(error.contains("more than there are addresses"), "{error}");
    assert_eq!(bed.router.ip.audit(), Ok(()));
}

#[test]
fn what_a_source_does_not_say_again_goes_away() {
    let (mut bed, ports) = Bed::with_three_ports();
    let via = |hop| vec![Path::new(PathAction::Via { next_hop: ip(hop).into(), interface: None })];
    let say = |bed: &mut Bed, routes: &[&str], hop| {
        let mut batch = Batch::default();
        let paths = batch.paths(via(hop));
        routes.iter().for_each(|route| batch.put(prefix(route), paths));
        bed.router.change_routes(Source::Api, batch).unwrap()
    };
    let all = ["50.0.0.0/8", "51.0.0.0/8", "52.0.0.0/8"];
    assert_eq!(say(&mut bed, &all, "10.0.1.2"), Outcome { added: 3, ..Outcome::default() });
    bed.command("ip route add 52.0.0.0/8 via 10.0.2.2").unwrap();
    // One that is broken off changes nothing by itself.
    bed.router.begin_resync(Family::Ip4, TableIndex::DEFAULT, Source::Api);
    say(&mut bed, &all[..1], "10.0.1.2");
    bed.router.begin_resync(Family::Ip4, TableIndex::DEFAULT, Source::Api);
    leads(&mut bed, &ports, "51.1.1.1", Some("10.0.1.2"));
    assert_eq!(say(&mut bed, &all[1..2], "10.0.2.2"), Outcome { replaced: 1, ..Outcome::default() });
    assert_eq!(bed.router.end_resync(Family::Ip4, TableIndex::DEFAULT, Source::Api), 2);
    leads(&mut bed, &ports, "51.1.1.1", Some("10.0.2.2"));
    assert!(!installed(&bed, "50.0.0.0/8"));
    // The operator's stays.
    leads(&mut bed, &ports, "52.1.1.1", Some("10.0.2.2"));
    assert_eq!(bed.router.end_resync(Family::Ip4, TableIndex::DEFAULT, Source::Api), 0);
    assert_eq!(bed.router.ip.audit(), Ok(()));
}

#[test]
fn a_batch_may_give_a_host_a_path_onto_an_interface() {
    let (mut bed, ports) = Bed::with_three_ports();
    let onto = |port: &Port| vec![Path::new(PathAction::Attached(port.index))];
    let mut batch = Batch::default();
    let (first, second) = (batch.paths(onto(&ports[1])), batch.paths(onto(&ports[2])));
    // A network and a host share what the operator says of them, and lead to different neighbours.
    batch.put(prefix("50.0.0.0/24"), first);
    batch.put(prefix("50.0.1.7/32"), first);
    batch.put(prefix("50.0.1.8/32"), first);
    batch.put(prefix("50.0.1.8/32"), second);
    batch.remove(prefix("50.0.1.7/32"));
    batch.put(prefix("50.0.1.7/32"), first);
    assert_eq!(bed.router.change_routes(Source::Api, batch).unwrap(), Outcome { added: 3, ..Outcome::default() });
    let host = |bed: &mut Bed, address| bed.command(&format!("show ip fib {address}")).unwrap();
    assert!(host(&mut bed, "50.0.1.7").contains("via 50.0.1.7 e1"), "{}", host(&mut bed, "50.0.1.7"));
    assert!(host(&mut bed, "50.0.1.8").contains("via 50.0.1.8 e2"), "{}", host(&mut bed, "50.0.1.8"));
    let mut batch = Batch::default();
    let (second, gone) =
        (batch.paths(onto(&ports[2])), batch.paths(vec![Path::new(PathAction::Attached(InterfaceIndex(99)))]));
    batch.put(prefix("50.0.1.7/32"), second);
    batch.put(prefix("50.0.0.0/24"), gone);
    let before = bed.command("show ip fib").unwrap();
    assert!(bed.router.change_routes(Source::Api, batch).is_err());
    assert_eq!(bed.command("show ip fib").unwrap(), before);
    assert_eq!(bed.router.ip.audit(), Ok(()));
}

#[test]
fn a_file_of_routes_is_loaded_whole_or_not() {
    let (mut bed, ports) = Bed::with_three_ports();
    let path = std::env::temp_dir().join(format!("quiver-routes-{}", std::process::id()));
    let mut load = |text: &str, words: &str| {
        std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        bed.command(&format!("ip route load {} {words}", path.display()))
    };
    let text =
        "50.0.0.0/8 via 10.0.1.2\n51.0.0.0/8 via 10.0.2.2 two2\n51.0.0.0/8 via 99.9.9.9\n52.0.0.0/8 via 99.9.9.9\n";
    let error = load(text, "").unwrap_err();
    assert!(error.contains("no interface named 'two2'"), "{error}");
    let text = text.replace("two2", "e2");
    assert_eq!(
        load(&text, "").unwrap(),
        "3 routes added, 0 replaced, 0 removed; 1 wait for their next hops ('show ip fib PREFIX', 'show ip6 fib \
         PREFIX' say why)\n"
    );
    let error = load("53.0.0.0/8 via 10.0.1.2\n54.0.0.0/8 over there\n", "replace").unwrap_err();
    assert!(error.contains("line 2: expected '54.0.0.0/8 via NEXT-HOP [INTERFACE]'"), "{error}");
    let replaced = load("50.0.0.0/8 via 10.0.1.2\n", "via 10.0.2.2 replace").unwrap();
    assert_eq!(replaced, "0 routes added, 1 replaced, 2 removed\n");
    std::fs::remove_file(&path).unwrap();
    leads(&mut bed, &ports, "50.1.1.1", Some("10.0.2.2"));
    assert!(!installed(&bed, "51.0.0.0/8") && !installed(&bed, "53.0.0.0/8"));
}

#[test]
fn a_file_of_both_families_is_loaded_whole_or_not() {
    let (mut bed, ports) = crate::bed6::bed();
    bed.command("set interface ip address e1 10.0.1.1/24").unwrap();
    bed.know(&ports[1], "10.0.1.2");
    bed.run();
    let path = std::env::temp_dir().join(format!("quiver-routes6-{}", std::process::id()));
    let load = |bed: &mut Bed, text: &str, words: &str| {
        std::fs::write(&path, text).unwrap();
        let done = bed.command(&format!("ip route load {} {words}", path.display()));
        assert_eq!(bed.router.ip.audit(), Ok(()));
        done
    };
    let routes = |bed: &mut Bed| {
        let of_table = |line: &str, bed: &mut Bed| bed.command(line).unwrap();
        of_table("show ip fib", bed) + &of_table("show ip6 fib", bed)
    };
    let before = routes(&mut bed);
    // What is wrong in one family keeps the other out.
    let good = "50.0.0.0/8 via 10.0.1.2\n2001:db8:50::/48 via 2001:db8:1::2\n2001:db8:51::/48 via fe80::9 dev e2\n";
    for (wrong, error) in [
        ("2001:db8:52::/48 via 10.0.1.2", "line 4: '10.0.1.2' is no IPv6 next hop"),
        ("2001:db8:52::/48 via fe80::9 e9", "no interface named 'e9'"),
        ("52.0.0.0/8 via 2001:db8:1::2", "line 4: '2001:db8:1::2' is no IPv4 next hop"),
    ] {
        let refused = load(&mut bed, &format!("{good}{wrong}\n"), "").unwrap_err();
        assert!(refused.contains(error), "{refused}");
        assert_eq!(routes(&mut bed), before);
    }
    assert_eq!(load(&mut bed, good, "").unwrap(), "3 routes added, 0 replaced, 0 removed\n");
    ports[1].sent();
    crate::bed6::send(&ports, &Packet6::udp("2001:db8::2", "2001:db8:50::1", b"x"));
    bed.run();
    assert_eq!(ports[1].sent().len(), 1);
    // A file that has one family leaves the other alone; one next hop is one family's.
    let ip6 = "2001:db8:50::/48 via 2001:db8:1::2\n2001:db8:53::/48 via 2001:db8:1::2\n";
    assert_eq!(load(&mut bed, ip6, "replace").unwrap(), "1 routes added, 1 replaced, 1 removed\n");
    let via = load(&mut bed, &format!("{good}{ip6}"), "via 10.0.1.2").unwrap();
    assert_eq!(via, "0 routes added, 1 replaced, 0 removed; 4 of the other family passed over\n");
    let fib = bed.command("show ip fib 50.0.0.0/8").unwrap();
    assert!(fib.contains("50.0.0.0/8"), "{fib}");
    // No room for one of the families: neither changes.
    let there = bed.router.ip.routes_in(Family::Ip6, TableIndex::DEFAULT).len();
    bed.command(&format!("set ip6 table max-routes {there}")).unwrap();
    let before = routes(&mut bed);
    let more = format!("60.0.0.0/8 via 10.0.1.2\n{ip6}2001:db8:54::/48 via 2001:db8:1::2\n");
    let error = load(&mut bed, "2001:db8:5::/48 via 2001:db8::2\n", "via 10.0.1.2 replace").unwrap_err();
    assert!(error.contains("of the next hop's family"), "{error}");
    let refused = load(&mut bed, &more, "replace").unwrap_err();
    assert!(refused.contains("these would be more"), "{refused}");
    assert_eq!(routes(&mut bed), before);
    // A table of one family has no routes of the other; an empty file in the place of all takes all away.
    bed.command("ip6 table add 9").unwrap();
    let refused = load(&mut bed, good, "table 9").unwrap_err();
    assert!(refused.contains("9"), "{refused}");
    let waiting = load(&mut bed, ip6, "table 9").unwrap();
    assert!(waiting.starts_with("2 routes added, 0 replaced, 0 removed; 2 wait for their next hops"), "{waiting}");
    assert_eq!(load(&mut bed, "# none\n", "table 9 replace").unwrap(), "0 routes added, 0 replaced, 2 removed\n");
    assert_eq!(load(&mut bed, "", "replace").unwrap(), "0 routes added, 0 replaced, 3 removed\n");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn batches_of_both_families_are_carried_out_together_or_not_at_all() {
    let (mut bed, _) = crate::bed6::bed();
    let batch = |family: Family, prefix: &str, way: PathAction| {
        let mut batch = Batch::new(family, TableIndex::DEFAULT);
        let paths = batch.paths(vec![Path::new(way)]);
        batch.put(prefix.parse::<wire::Prefix>().unwrap(), paths);
        batch
    };
    let first = batch(Family::Ip4, "50.0.0.0/8", PathAction::Drop);
    let gone = batch(Family::Ip6, "2001:db8:50::/48", PathAction::Attached(InterfaceIndex(99)));
    assert!(bed.router.change_all_routes(Source::Api, vec![first.clone(), gone]).is_err());
    assert!(!installed(&bed, "50.0.0.0/8"));
    assert_eq!(bed.router.ip.audit(), Ok(()));
    let second = batch(Family::Ip6, "2001:db8:50::/48", PathAction::Drop);
    let outcome = bed.router.change_all_routes(Source::Api, vec![first, second]).unwrap();
    assert_eq!(outcome, Outcome { added: 2, ..Outcome::default() });
    assert_eq!(bed.router.ip.audit(), Ok(()));
}
