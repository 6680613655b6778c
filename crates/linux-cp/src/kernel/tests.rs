//! What the router hears, from what Linux says.

use super::*;
use router::ip::route::{Path, PathAction};

/// There was no such route before.
const FLAG_EXCLUSIVE: u16 = 0x200;

/// The router's interfaces 1 and 2 are the links 7 and 8 of Linux.
fn links() -> Links {
    HashMap::from([(7, InterfaceIndex(1)), (8, InterfaceIndex(2))])
}

fn hop(link: u32, gateway: &str) -> Hop {
    let gateway = (!gateway.is_empty()).then(|| gateway.parse().unwrap());
    Hop { link, gateway, weight: 1, on_link: false, labels: vec![], ttl: None }
}

fn route(prefix: &str, metric: u32, target: Target) -> Route {
    Route { table: TABLE_MAIN, prefix: prefix.parse().unwrap(), metric, target }
}

fn by(hops: &[Hop]) -> Target {
    Target::Hops(hops.to_vec())
}

fn shown_path(path: &Path) -> String {
    let weight = if path.weight == 1 { String::new() } else { format!("*{}", path.weight) };
    let labels = path.labels.as_ref().map_or(String::new(), |out| format!(" labels {:?}", out.labels));
    match path.way {
        PathAction::Via { next_hop, interface: Some(by) } => format!("via {next_hop} {by}{weight}{labels}"),
        PathAction::OnLink { next_hop, interface } => format!("via {next_hop} {interface}{weight} onlink{labels}"),
        PathAction::Attached(interface) => format!("onto {interface}"),
        PathAction::Drop => "drop".into(),
        PathAction::Prohibit => "prohibit".into(),
        ref other => format!("{other:?}"),
    }
}

fn taken_by(kernel: &mut Kernel, links: &Links) -> Vec<String> {
    let (batches, _) = kernel.take(links, usize::MAX);
    let mut taken: Vec<String> = Vec::new();
    for (prefix, paths) in batches.iter().flat_map(|(_, batch)| batch.iter()) {
        let paths = paths.map(|paths| paths.iter().map(shown_path).collect::<Vec<_>>().join(" "));
        taken.push(format!("{prefix} {}", paths.unwrap_or("removed".into())));
    }
    taken.sort();
    taken
}

fn taken(kernel: &mut Kernel) -> Vec<String> {
    taken_by(kernel, &links())
}

#[test]
fn the_router_hears_what_forwards_now() {
    let mut kernel = Kernel::default();
    kernel.add(&route("10.1.0.0/16", 0, by(&[hop(7, "192.0.2.1")])), FLAG_EXCLUSIVE);
    kernel.add(&route("10.2.0.0/16", 0, Target::Prohibit), FLAG_EXCLUSIVE);
    kernel.add(&route("10.3.0.0/16", 0, by(&[hop(9, "192.0.2.1")])), FLAG_EXCLUSIVE);
    kernel.add(&route("2001:db8::/32", 0, by(&[hop(7, "fe80::1"), hop(9, "fe80::1")])), 0);
    assert_eq!(
        taken(&mut kernel),
        ["10.1.0.0/16 via 192.0.2.1 1", "10.2.0.0/16 prohibit", "10.3.0.0/16 removed", "2001:db8::/32 via fe80::1 1"]
    );
    assert_eq!((kernel.backlog(), taken(&mut kernel).len()), (0, 0));
    let other = Route { table: 100, ..route("10.4.0.0/16", 0, Target::Drop) };
    assert!(!kernel.add(&other, 0));
    // A change that is taken back before the router hears of it: it hears what there is now.
    kernel.remove(&route("10.2.0.0/16", 0, Target::Prohibit));
    kernel.add(&route("10.2.0.0/16", 0, Target::Drop), FLAG_EXCLUSIVE);
    kernel.add(&route("10.2.0.0/16", 5, Target::Prohibit), FLAG_EXCLUSIVE);
    assert_eq!(taken(&mut kernel), ["10.2.0.0/16 drop"; 2]);
}

#[test]
fn a_refused_batch_is_heard_again() {
    let mut kernel = Kernel::default();
    kernel.add(&route("10.1.0.0/16", 0, Target::Drop), FLAG_EXCLUSIVE);
    let (_, refused) = kernel.take(&links(), 1);
    assert_eq!(kernel.backlog(), 0);
    kernel.give_back(refused);
    assert_eq!(taken(&mut kernel), ["10.1.0.0/16 drop"]);
}

#[test]
fn ipv6_says_all_ways_when_one_comes_and_one_when_one_goes() {
    let mut kernel = Kernel::default();
    let only = |hop: &Hop| by(std::slice::from_ref(hop));
    let (first, second) = (hop(7, "fe80::1"), hop(8, "fe80::2"));
    kernel.add(&route("2001:db8::/32", 1024, only(&first)), FLAG_EXCLUSIVE);
    kernel.add(&route("2001:db8::/32", 1024, by(&[first.clone(), second.clone()])), FLAG_APPEND);
    assert_eq!(taken(&mut kernel)[0], "2001:db8::/32 via fe80::1 1 via fe80::2 2");
    kernel.remove(&route("2001:db8::/32", 1024, only(&first)));
    assert_eq!(taken(&mut kernel), ["2001:db8::/32 via fe80::2 2"], "the other is left");
    kernel.add(&route("2001:db8::/32", 1024, only(&first)), FLAG_REPLACE);
    assert_eq!(taken(&mut kernel), ["2001:db8::/32 via fe80::1 1"], "the whole set is replaced");
    kernel.remove(&route("2001:db8::/32", 1024, only(&first)));
    assert_eq!(taken(&mut kernel), ["2001:db8::/32 removed"]);
}

#[test]
fn ipv6_routes_of_one_metric_that_are_no_siblings_are_several() {
    let mut kernel = Kernel::default();
    kernel.set_object(5, NextHop::Hop(hop(7, "fe80::5")));
    kernel.set_object(6, NextHop::Hop(hop(8, "fe80::6")));
    kernel.add(&route("2001:db8::/32", 1024, Target::Object(5)), FLAG_EXCLUSIVE);
    kernel.add(&route("2001:db8::/32", 1024, Target::Object(6)), FLAG_APPEND);
    assert_eq!(taken(&mut kernel)[0], "2001:db8::/32 via fe80::5 1", "the first forwards");
    kernel.remove(&route("2001:db8::/32", 1024, Target::Object(6)));
    assert_eq!((kernel.backlog(), kernel.len(Family::Ip6)), (0, 1), "the first is left");
    kernel.add(&route("2001:db8::/32", 1024, by(&[hop(8, "")])), FLAG_APPEND);
    kernel.remove(&route("2001:db8::/32", 1024, Target::Object(5)));
    assert_eq!(taken(&mut kernel), ["2001:db8::/32 onto 2"]);
    // Ways that it does not have.
    kernel.remove(&route("2001:db8::/32", 1024, by(&[hop(7, "fe80::9")])));
    assert_eq!(kernel.len(Family::Ip6), 1);
}

#[test]
fn ipv4_routes_of_one_metric_are_several() {
    let mut kernel = Kernel::default();
    let to = |last: u32| by(&[hop(7, &format!("192.0.2.{last}"))]);
    kernel.add(&route("10.0.0.0/8", 0, to(1)), FLAG_EXCLUSIVE);
    kernel.add(&route("10.0.0.0/8", 0, to(2)), FLAG_APPEND);
    assert_eq!(taken(&mut kernel), ["10.0.0.0/8 via 192.0.2.1 1"]);
    kernel.remove(&route("10.0.0.0/8", 0, to(1)));
    assert_eq!(taken(&mut kernel), ["10.0.0.0/8 via 192.0.2.2 1"]);
    kernel.add(&route("10.0.0.0/8", 0, to(3)), 0);
    assert_eq!(taken(&mut kernel), ["10.0.0.0/8 via 192.0.2.3 1"], "prepended");
    kernel.add(&route("10.0.0.0/8", 0, to(4)), FLAG_REPLACE);
    assert_eq!(taken(&mut kernel), ["10.0.0.0/8 via 192.0.2.4 1"]);
    kernel.remove(&route("10.0.0.0/8", 0, to(4)));
    assert_eq!(taken(&mut kernel), ["10.0.0.0/8 via 192.0.2.2 1"]);
    // Named in another form than when it was added: it is the first of its metric.
    kernel.remove(&route("10.0.0.0/8", 0, to(9)));
    assert_eq!(taken(&mut kernel), ["10.0.0.0/8 removed"]);
}

#[test]
fn objects_change_and_go_under_their_routes() {
    let mut kernel = Kernel::default();
    kernel.add(&route("10.1.0.0/16", 0, Target::Object(10)), FLAG_EXCLUSIVE);
    kernel.add(&route("10.2.0.0/16", 0, Target::Object(1)), FLAG_EXCLUSIVE);
    assert_eq!(taken(&mut kernel), ["10.1.0.0/16 removed", "10.2.0.0/16 removed"], "until the objects are said");
    kernel.set_object(1, NextHop::Hop(hop(7, "192.0.2.1")));
    kernel.set_object(2, NextHop::Hop(hop(8, "198.51.100.1")));
    kernel.set_object(10, NextHop::Group(vec![(1, 1), (2, 3)]));
    let both = "10.1.0.0/16 via 192.0.2.1 1 via 198.51.100.1 2*3";
    assert_eq!(taken(&mut kernel), [both, "10.2.0.0/16 via 192.0.2.1 1"]);
    kernel.set_object(1, NextHop::Hop(hop(7, "192.0.2.9")));
    assert_eq!(taken(&mut kernel)[1], "10.2.0.0/16 via 192.0.2.9 1");
    // Said again, and behind another of the same metric.
    kernel.add(&route("10.2.0.0/16", 0, Target::Object(2)), FLAG_APPEND);
    kernel.add(&route("10.2.0.0/16", 0, Target::Object(2)), FLAG_REPLACE);
    assert_eq!(kernel.backlog(), 0, "the first forwards still");
    kernel.remove(&route("10.2.0.0/16", 0, Target::Object(2)));
    // The interface of one goes down: the group loses it, and routes by it alone go.
    kernel.links_down(&BTreeSet::from([7]));
    assert_eq!(taken(&mut kernel), ["10.1.0.0/16 via 198.51.100.1 2*3", "10.2.0.0/16 removed"]);
    kernel.remove_object(2);
    assert_eq!(taken(&mut kernel), ["10.1.0.0/16 removed"]);
    assert!(kernel.objects().is_empty(), "a group without members is none");
}

#[test]
fn ipv4_routes_go_with_their_link_without_a_word() {
    let mut kernel = Kernel::default();
    kernel.add(&route("10.1.0.0/16", 0, by(&[hop(7, "192.0.2.1")])), FLAG_EXCLUSIVE);
    kernel.add(&route("10.1.0.0/16", 9, by(&[hop(8, "198.51.100.1")])), FLAG_EXCLUSIVE);
    kernel.add(&route("10.2.0.0/16", 0, by(&[hop(7, "192.0.2.1"), hop(8, "198.51.100.1")])), FLAG_EXCLUSIVE);
    kernel.add(&route("2001:db8::/32", 0, by(&[hop(7, "fe80::1")])), FLAG_EXCLUSIVE);
    taken(&mut kernel);
    kernel.links_down(&BTreeSet::from([7]));
    assert_eq!(taken(&mut kernel), ["10.1.0.0/16 via 198.51.100.1 2"], "of IPv6 routes it says so");
}

#[test]
fn a_look_finds_what_is_gone_and_believes_messages_more() {
    let mut kernel = Kernel::default();
    let drop = |prefix: &str| route(prefix, 0, Target::Drop);
    for prefix in ["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"] {
        kernel.add(&drop(prefix), FLAG_EXCLUSIVE);
    }
    kernel.add(&drop("2001:db8::/32"), FLAG_EXCLUSIVE);
    taken(&mut kernel);
    kernel.begin_look();
    // One more of the same metric: the first, which the look sees later, is not taken for gone.
    kernel.add(&route("10.1.0.0/16", 0, Target::Prohibit), FLAG_APPEND);
    kernel.see(&drop("10.1.0.0/16"));
    kernel.see(&drop("10.4.0.0/16"));
    // Said gone after the look began: the look has seen it before.
    kernel.remove(&drop("10.2.0.0/16"));
    kernel.see(&drop("10.2.0.0/16"));
    kernel.add(&drop("10.5.0.0/16"), FLAG_EXCLUSIVE);
    assert_eq!(kernel.end_look(Family::Ip4), (1, false));
    kernel.remove(&route("10.1.0.0/16", 0, Target::Prohibit));
    kernel.finish_look();
    let left = ["10.2.0.0/16 removed", "10.3.0.0/16 removed", "10.4.0.0/16 drop", "10.5.0.0/16 drop"];
    assert_eq!(taken(&mut kernel), left);
    assert_eq!((kernel.len(Family::Ip4), kernel.len(Family::Ip6)), (3, 1));
    // The same again changes nothing, and costs the router nothing.
    kernel.begin_look();
    ["10.1.0.0/16", "10.4.0.0/16", "10.5.0.0/16"].iter().for_each(|prefix| kernel.see(&drop(prefix)));
    assert_eq!((kernel.end_look(Family::Ip4), kernel.backlog()), ((0, true), 0));
}

#[test]
fn routes_follow_when_an_interface_becomes_the_routers() {
    let mut kernel = Kernel::default();
    kernel.add(&route("10.1.0.0/16", 0, by(&[hop(7, "192.0.2.1")])), FLAG_EXCLUSIVE);
    assert_eq!(taken_by(&mut kernel, &Links::new()), ["10.1.0.0/16 removed"]);
    kernel.links_changed(&BTreeSet::from([8]));
    assert_eq!(kernel.backlog(), 0, "not by that one");
    kernel.links_changed(&BTreeSet::from([7]));
    assert_eq!(taken(&mut kernel), ["10.1.0.0/16 via 192.0.2.1 1"]);
    kernel.add(&route("10.2.0.0/16", 0, Target::Drop), FLAG_EXCLUSIVE);
    kernel.remove(&route("10.2.0.0/16", 0, Target::Drop));
    let mut other = Kernel::default();
    other.forget(&kernel);
    let gone: BTreeSet<String> = taken(&mut other).into_iter().collect();
    let both = ["10.1.0.0/16 removed", "10.2.0.0/16 removed"].map(String::from);
    assert_eq!(gone, BTreeSet::from(both), "also what the router has not heard of yet");
}

#[test]
fn ways_have_weights_labels_and_links_of_their_own() {
    let mut kernel = Kernel::default();
    let heavy = Hop { weight: 512, on_link: true, ..hop(8, "198.51.100.1") };
    kernel.add(&route("10.1.0.0/16", 0, by(&[hop(7, "192.0.2.1"), heavy])), FLAG_EXCLUSIVE);
    kernel.add(&route("10.2.0.0/16", 0, by(&[hop(7, "")])), FLAG_EXCLUSIVE);
    kernel.add(&route("10.3.0.0/16", 0, by(&[Hop { labels: vec![16], ..hop(7, "") }])), FLAG_EXCLUSIVE);
    kernel.add(&route("10.4.0.0/16", 0, by(&[Hop { labels: vec![16], ..hop(7, "192.0.2.1") }])), FLAG_EXCLUSIVE);
    assert_eq!(
        taken(&mut kernel),
        [
            "10.1.0.0/16 via 192.0.2.1 1 via 198.51.100.1 2*255 onlink",
            "10.2.0.0/16 onto 1",
            "10.3.0.0/16 removed",
            "10.4.0.0/16 via 192.0.2.1 1 labels [16]"
        ]
    );
}

/// A payload as in messages of routes: the prefix, the metric, a gateway of link 7 or none.
fn said(prefix: [u8; 4], length: u8, kind: u8, metric: u32, gateway: Option<[u8; 4]>) -> Vec<u8> {
    use crate::netlink::message::attribute;
    let mut payload = vec![route::AF_INET, length, 0, 0, TABLE_MAIN as u8, 11, 0, kind, 0, 0, 0, 0];
    payload.extend(attribute(1, &prefix));
    payload.extend(attribute(6, &metric.to_ne_bytes()));
    if let Some(gateway) = gateway {
        payload.extend([attribute(5, &gateway), attribute(4, &7u32.to_ne_bytes())].concat());
    }
    payload
}

#[test]
fn a_daemon_has_one_route_for_a_prefix() {
    let mut kernel = Kernel::default();
    let prefix = [10, 1, 0, 0];
    kernel.put_alone(&said(prefix, 16, 1, 20, Some([192, 0, 2, 1]))).unwrap();
    assert_eq!(taken(&mut kernel), ["10.1.0.0/16 via 192.0.2.1 if1"].map(|line| line.replace("if1", &shown_if(1))));
    // Another metric takes its place, also a higher one.
    kernel.put_alone(&said(prefix, 16, 1, 30, Some([192, 0, 2, 2]))).unwrap();
    assert_eq!(taken(&mut kernel).len(), 1);
    assert_eq!(kernel.len(Family::Ip4), 1);
    // Gone and there again: one change.
    kernel.remove_all(&said(prefix, 16, 1, 30, None)).unwrap();
    kernel.put_alone(&said(prefix, 16, 1, 40, Some([192, 0, 2, 3]))).unwrap();
    let heard = taken(&mut kernel);
    assert!(!heard.is_empty() && heard.iter().all(|line| line.contains("192.0.2.3")), "{heard:?}");
    // One of a kind without a counterpart takes its place, too.
    assert_eq!(kernel.put_alone(&said(prefix, 16, 5, 40, None)), Err(NotFollowed::Other));
    assert_eq!(taken(&mut kernel), ["10.1.0.0/16 removed"]);
    assert_eq!(kernel.put_alone(&[2, 16]), Err(NotFollowed::Malformed));
    kernel.put_alone(&said(prefix, 16, 6, 1, None)).unwrap();
    taken(&mut kernel);
    let key = |prefix: &str| (TABLE_MAIN, prefix.parse::<Prefix>().unwrap());
    assert_eq!(kernel.all(), [key("10.1.0.0/16")]);
    assert!(kernel.has(kernel.all()[0]) && !kernel.has(key("10.2.0.0/16")));
    assert!(kernel.leads(key("10.1.0.0/16"), &links()));
    assert!(!kernel.leads(key("10.2.0.0/16"), &links()));
}

fn shown_if(index: u32) -> String {
    InterfaceIndex(index).to_string()
}

fn in_table(table: u32, prefix: &str, target: Target) -> Route {
    Route { table, ..route(prefix, 0, target) }
}

/// The main table, and table 10 as the router's third one.
fn with_red() -> Followed {
    main_table().into_iter().chain(Family::ALL.map(|family| ((10, family), TableIndex(3)))).collect()
}

#[test]
fn a_table_that_is_followed_later_brings_its_routes() {
    let mut kernel = Kernel::default();
    assert!(!kernel.add(&in_table(10, "10.1.0.0/16", by(&[hop(7, "192.0.2.1")])), FLAG_EXCLUSIVE));
    assert!(!kernel.add(&in_table(11, "10.9.0.0/16", by(&[hop(7, "192.0.2.1")])), FLAG_EXCLUSIVE));
    assert_eq!((kernel.backlog(), kernel.len(Family::Ip4)), (0, 0));
    kernel.follow(&with_red());
    let (batches, taken) = kernel.take(&links(), usize::MAX);
    let places: Vec<(u32, TableIndex)> = batches.iter().map(|(table, batch)| (*table, batch.table())).collect();
    assert_eq!(places, [(10, TableIndex(3))]);
    assert_eq!(taken.iter().map(|(.., prefixes)| prefixes.len()).sum::<usize>(), 1);
    // Another table of the router is empty. One that is followed no longer is none of ours.
    let other = with_red().into_iter().map(|(place, at)| (place, TableIndex(at.0 + 1))).collect();
    kernel.follow(&other);
    assert_eq!(taken_by(&mut kernel, &links()), ["10.1.0.0/16 via 192.0.2.1 1"]);
    kernel.follow(&main_table());
    assert_eq!(taken_by(&mut kernel, &links()), [] as [&str; 0]);
    kernel.give_back(taken);
    kernel.remove(&in_table(10, "10.1.0.0/16", by(&[hop(7, "192.0.2.1")])));
    assert_eq!(kernel.backlog(), 0);
    // It was removed meanwhile.
    kernel.follow(&with_red());
    assert_eq!(kernel.backlog(), 0);
}

#[test]
fn a_route_by_the_device_of_a_vrf_leads_into_its_table() {
    let mut kernel = Kernel::default();
    kernel.follow(&with_red());
    kernel.add(&route("10.1.0.0/16", 0, by(&[hop(9, "")])), FLAG_EXCLUSIVE);
    kernel.add(&route("10.2.0.0/16", 0, by(&[hop(9, "192.0.2.1")])), FLAG_EXCLUSIVE);
    // In circles.
    kernel.add(&in_table(10, "10.3.0.0/16", by(&[hop(9, "")])), FLAG_EXCLUSIVE);
    let nothing = ["10.1.0.0/16 removed", "10.2.0.0/16 removed", "10.3.0.0/16 removed"];
    assert_eq!(taken(&mut kernel), nothing, "9 is no link of the router");
    kernel.set_vrf(9, Some(10));
    let there = [
        "10.1.0.0/16 Lookup(TableIndex(3))",
        "10.2.0.0/16 ViaIn { next_hop: 192.0.2.1, table: TableIndex(3) }",
        "10.3.0.0/16 removed",
    ];
    assert_eq!(taken(&mut kernel), there);
    kernel.set_vrf(9, Some(10));
    assert_eq!(kernel.backlog(), 0, "it is so already");
    kernel.follow(&main_table());
    assert_eq!(taken(&mut kernel), nothing[..2]);
    kernel.set_vrf(9, None);
    assert_eq!(taken(&mut kernel), nothing[..2]);
}

#[test]
fn packets_of_routes_that_only_linux_has_a_way_for_go_there() {
    let mut kernel = Kernel::default();
    kernel.add(&route("10.1.0.0/16", 0, by(&[hop(9, "192.0.2.1")])), FLAG_EXCLUSIVE);
    kernel.add(&route("10.2.0.0/16", 0, by(&[hop(9, "192.0.2.1"), hop(7, "192.0.2.1")])), FLAG_EXCLUSIVE);
    kernel.add(&route("10.3.0.0/16", 0, Target::Object(5)), FLAG_EXCLUSIVE);
    kernel.add(&route("172.17.0.0/16", 0, Target::Connected(9)), FLAG_EXCLUSIVE);
    kernel.add(&route("192.0.2.0/24", 0, Target::Connected(7)), FLAG_EXCLUSIVE);
    let usual = [
        "10.1.0.0/16 removed",
        "10.2.0.0/16 via 192.0.2.1 1",
        "10.3.0.0/16 removed",
        "172.17.0.0/16 removed",
        "192.0.2.0/24 removed",
    ];
    assert_eq!(taken(&mut kernel), usual);
    kernel.set_no_paths(true);
    let to_linux = [
        "10.1.0.0/16 LocalAnywhere",
        "10.2.0.0/16 via 192.0.2.1 1",
        "10.3.0.0/16 removed",
        "172.17.0.0/16 LocalAnywhere",
        "192.0.2.0/24 removed",
    ];
    assert_eq!(taken(&mut kernel), to_linux);
    // Its link becomes the router's, and goes down.
    kernel.links_changed(&BTreeSet::from([9]));
    let all = links().into_iter().chain([(9, InterfaceIndex(3))]).collect();
    assert_eq!(taken_by(&mut kernel, &all)[2..], ["172.17.0.0/16 removed"]);
    kernel.set_no_paths(false);
    assert_eq!(taken(&mut kernel), usual);
    kernel.links_down(&BTreeSet::from([9]));
    assert_eq!(taken(&mut kernel), ["10.1.0.0/16 removed", "172.17.0.0/16 removed"]);
    assert_eq!(kernel.len(Family::Ip4), 3);
}
