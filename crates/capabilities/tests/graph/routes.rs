//! Routes: which route a packet takes, and what happens when it changes.

use crate::bed::{Bed, Port, host_mac, prefix};
use crate::packet::*;
use drivers::TxOffloads;
use graph::InterfaceIndex;
use router::Error;
use router::ip::control::{MAX_PATHS, Path, PathAction, Source};
use router::ip::dump::RouteDump;
use router::neighbour::NeighbourKey;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use wire::Family;
use wire::{MacAddress, Prefix4};

fn via(hop: &str) -> Path {
    Path::new(PathAction::Via { next_hop: ip(hop).into(), interface: None })
}

fn weighted(hop: &str, weight: u8) -> Path {
    Path { weight, ..via(hop) }
}

/// The Ethernet address that a packet is sent to, if it is sent.
fn sent_to(bed: &mut Bed, from: &Port, to: &[Port], packet: &Packet) -> Option<MacAddress> {
    from.receive_packet(packet);
    bed.run();
    let mut sent: Vec<_> = to.iter().flat_map(Port::sent).collect();
    assert!(sent.len() <= 1);
    sent.pop().map(|frame| MacAddress(frame[..6].try_into().unwrap()))
}

pub fn goes_to(bed: &mut Bed, from: &Port, to: &[Port], address: &str) -> Option<MacAddress> {
    sent_to(bed, from, to, &Packet::udp("10.0.0.2", address, b"x"))
}

pub fn hop_mac(hop: &str) -> Option<MacAddress> {
    Some(host_mac(ip(hop)))
}

#[test]
fn the_longest_match_wins_for_every_length() {
    const HOPS: u8 = 60;
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let hop = |n: u8| format!("10.0.1.{}", 100 + n);
    (0..HOPS).for_each(|n| bed.know(&e1, &hop(n)));
    let random = &mut Random::new(32);
    let mut routes: BTreeMap<Prefix4, u8> = BTreeMap::new();
    let bases: Vec<u32> = (0..4).map(|n| (0x2000_0000 * (n + 1)) | (random.next() as u32 & 0x0fff_ffff)).collect();
    for change in 0..12 {
        // Routes of all lengths are added, changed and removed.
        for length in (0..=32).chain(0..=32) {
            let around = random.of(&bases) ^ (random.next() as u32).checked_shr(length).unwrap_or(0);
            let prefix = Prefix4::new(around.into(), length as u8).unwrap().network();
            if random.below(12) < change && routes.remove(&prefix).is_some() {
                bed.router.remove_route(prefix, Source::Config, &[]).unwrap();
            } else {
                let n = random.below(HOPS as usize) as u8;
                bed.route(&prefix.to_string(), &[&hop(n)]);
                routes.insert(prefix, n);
            }
        }
        let edges = routes.keys().flat_map(|prefix| {
            let (first, last) = (u32::from(prefix.first()), u32::from(prefix.last()));
            [first, last, first.wrapping_sub(1), last.wrapping_add(1)]
        });
        // Without the hosts' own networks, groups and reserved addresses.
        let is_usable = |address: &u32| (1..224).contains(&(address >> 24)) && !matches!(address >> 24, 10 | 127);
        let addresses: Vec<Ipv4Addr> = edges.filter(is_usable).map(Ipv4Addr::from).collect();
        let mut expected = Vec::new();
        for address in addresses {
            let matching = routes.iter().filter(|(prefix, _)| prefix.contains(address));
            let longest = matching.max_by_key(|(prefix, _)| prefix.length());
            let frame = e0.receive_packet(&Packet::udp("10.0.0.2", &address.to_string(), b"x"));
            expected.extend(longest.map(|(_, n)| forwarded(&frame, host_mac(ip(&hop(*n))), e1.mac)));
        }
        bed.run();
        // Packets are never reordered, except by way of errors.
        assert_eq!(e1.sent(), expected);
        e0.sent();
    }
    routes.keys().for_each(|prefix| bed.router.remove_route(*prefix, Source::Config, &[]).unwrap());
    assert_eq!(goes_to(&mut bed, &e0, &[e1], "33.0.0.1"), None);
}

#[test]
fn a_route_is_added_replaced_and_deleted() {
    let (mut bed, ports) = Bed::with_three_ports();
    let [e0, ..] = &ports;
    let others = &ports[1..];
    let to = prefix("50.0.0.0/8");
    assert_eq!(goes_to(&mut bed, e0, others, "50.1.1.1"), None);
    bed.router.add_route(to, Source::Config, vec![via("10.0.1.2")], false).unwrap();
    assert_eq!(goes_to(&mut bed, e0, others, "50.1.1.1"), hop_mac("10.0.1.2"));
    bed.router.add_route(to, Source::Config, vec![via("10.0.2.2")], true).unwrap();
    assert_eq!(goes_to(&mut bed, e0, others, "50.1.1.1"), hop_mac("10.0.2.2"));
    // Adding keeps the first path: now there are two.
    bed.router.add_route(to, Source::Config, vec![via("10.0.1.2")], false).unwrap();
    assert_eq!(bed.router.ip.routes().get(to).unwrap().sources[&Source::Config].len(), 2);
    bed.router.remove_route(to, Source::Config, &[via("10.0.2.2")]).unwrap();
    assert_eq!(goes_to(&mut bed, e0, others, "50.1.1.1"), hop_mac("10.0.1.2"));
    assert!(matches!(bed.router.remove_route(to, Source::Config, &[via("10.0.2.2")]), Err(Error::NoSuchPath(_))));
    bed.router.remove_route(to, Source::Config, &[via("10.0.1.2")]).unwrap();
    assert_eq!(goes_to(&mut bed, e0, others, "50.1.1.1"), None);
    assert!(matches!(bed.router.remove_route(to, Source::Config, &[]), Err(Error::NoSuchRoute(_))));
    assert!(matches!(bed.router.remove_route(to, Source::Neighbour, &[]), Err(Error::NoSuchRoute(_))));
}

#[test]
fn host_bits_of_a_route_do_not_matter() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.route("50.1.2.3/8", &["10.0.1.2"]);
    assert_eq!(goes_to(&mut bed, &e0, &[e1], "50.9.9.9"), hop_mac("10.0.1.2"));
    bed.router.remove_route(prefix("50.7.7.7/8"), Source::Config, &[]).unwrap();
}

#[test]
fn a_local_route_makes_an_address_ours() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.route_way("60.0.0.1/32", PathAction::Local(e0.index));
    e0.receive_packet(&Packet::echo_request("10.0.0.2", "60.0.0.1", b"hello"));
    bed.run();
    let reply = Packet::new("60.0.0.1", "10.0.0.2", ICMP, &icmp(0, 0, 0x0042_0007, b"hello"));
    assert_eq!(e0.sent(), [reply.frame(host_mac(ip("10.0.0.2")), e0.mac)]);
}

#[test]
fn punted_packets_are_counted_by_interface() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.route_way("60.0.0.0/8", PathAction::Punt);
    (0..3).for_each(|_| drop(e0.receive_packet(&Packet::udp("10.0.0.2", "60.0.0.1", b"x"))));
    bed.run();
    assert_eq!(bed.counters(&e0)[4..], [3, 3, 3]);
}

/// How many of `flows` UDP flows go to each hop.
fn spread(bed: &mut Bed, from: &Port, to: &[Port], flows: u32) -> BTreeMap<MacAddress, u32> {
    for flow in 0..flows {
        let mut packet = Packet::udp("10.0.0.2", "50.1.1.1", b"x");
        packet.payload[..4].copy_from_slice(&flow.wrapping_mul(0x9e37_79b9).to_be_bytes());
        from.receive_packet(&packet);
    }
    bed.run();
    let mut counts = BTreeMap::new();
    for frame in to.iter().flat_map(Port::sent) {
        *counts.entry(MacAddress(frame[..6].try_into().unwrap())).or_default() += 1;
    }
    counts
}

#[test]
fn flows_spread_over_paths_by_weight() {
    let (mut bed, ports) = Bed::with_three_ports();
    let hops = ["10.0.1.2", "10.0.2.2", "10.0.2.3"];
    bed.know(&ports[2], hops[2]);
    for weights in [[1, 1, 1], [1, 2, 1], [1, 3, 12], [10, 1, 5], [255, 255, 255]] {
        let paths = hops.iter().zip(weights).map(|(hop, weight)| weighted(hop, weight)).collect();
        bed.router.add_route(prefix("50.0.0.0/8"), Source::Config, paths, true).unwrap();
        const FLOWS: u32 = 12_000;
        let counts = spread(&mut bed, &ports[0], &ports[1..], FLOWS);
        assert_eq!(counts.values().sum::<u32>(), FLOWS);
        let total: u32 = weights.iter().map(|weight| *weight as u32).sum();
        for (hop, weight) in hops.iter().zip(weights) {
            let exact = weight as f64 / total as f64;
            let share = counts.get(&host_mac(ip(hop))).copied().unwrap_or(0) as f64 / FLOWS as f64;
            // Buckets may be a tenth off in total, flows a little more.
            assert!((share - exact).abs() < 0.07, "{weights:?}: {hop} has {share}, not {exact}");
        }
    }
}

#[test]
fn a_flow_keeps_its_path_and_its_order() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    bed.route("50.0.0.0/8", &["10.0.1.2", "10.0.2.2"]);
    let mut orders: BTreeMap<[u8; 4], Vec<(usize, u8)>> = BTreeMap::new();
    for number in 0..50u8 {
        for flow in 0..20u8 {
            let mut packet = Packet::udp("10.0.0.2", "50.1.1.1", &[number]);
            packet.payload[..4].copy_from_slice(&[flow, 1, 2, 3]);
            e0.receive_packet(&packet);
        }
    }
    bed.run();
    for (number, port) in [&e1, &e2].into_iter().enumerate() {
        for frame in port.sent() {
            orders.entry(frame[34..38].try_into().unwrap()).or_default().push((number, frame[42]));
        }
    }
    assert_eq!(orders.len(), 20);
    for order in orders.values() {
        let port = order[0].0;
        let expected: Vec<(usize, u8)> = (0..50).map(|number| (port, number)).collect();
        assert_eq!(*order, expected);
    }
}

#[test]
fn all_fragments_of_a_packet_take_one_path() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    bed.route("50.0.0.0/8", &["10.0.1.2", "10.0.2.2"]);
    let mut used = [false; 2];
    for host in 0..40 {
        // With different "ports", because a later fragment has data in their place.
        for (fragment, port) in [(MORE_FRAGMENTS, 1u8), (MORE_FRAGMENTS | 2, 77), (4, 200)] {
            let mut packet = Packet::udp("10.0.0.2", &format!("50.1.1.{host}"), &[1; 16]).fragment(fragment);
            packet.payload[..4].fill(port);
            e0.receive_packet(&packet);
        }
        bed.run();
        let counts = [e1.sent().len(), e2.sent().len()];
        assert!(counts == [3, 0] || counts == [0, 3], "{counts:?}");
        used[(counts[1] == 3) as usize] = true;
    }
    assert_eq!(used, [true, true]);
}

#[test]
fn a_path_whose_interface_goes_down_is_left_and_taken_again() {
    let (mut bed, ports) = Bed::with_three_ports();
    let others = &ports[1..];
    bed.route("50.0.0.0/8", &["10.0.1.2", "10.0.2.2"]);
    assert_eq!(spread(&mut bed, &ports[0], others, 200).len(), 2);
    bed.router.set_admin(ports[1].index, false).unwrap();
    let counts = spread(&mut bed, &ports[0], others, 200);
    assert_eq!(counts, BTreeMap::from([(host_mac(ip("10.0.2.2")), 200)]));
    bed.router.set_admin(ports[1].index, true).unwrap();
    bed.run();
    others.iter().for_each(|port| drop(port.sent()));
    assert_eq!(spread(&mut bed, &ports[0], others, 200).len(), 2);
}

#[test]
fn less_specific_routes_take_over_while_an_interface_is_down() {
    let (mut bed, ports) = Bed::with_three_ports();
    let [e0, e1, _] = &ports;
    let others = &ports[1..];
    bed.route("0.0.0.0/0", &["10.0.2.2"]);
    bed.route("50.0.0.0/8", &["10.0.1.2"]);
    for up in [true, false, true] {
        bed.router.set_admin(e1.index, up).unwrap();
        bed.run();
        others.iter().for_each(|port| drop(port.sent()));
        for address in ["50.1.1.1", "10.0.1.2"] {
            let hop = if up { "10.0.1.2" } else { "10.0.2.2" };
            assert_eq!(goes_to(&mut bed, e0, others, address), hop_mac(hop), "{address}, up: {up}");
        }
    }
}

#[test]
fn an_address_brings_its_network_and_takes_it_away() {
    let (mut bed, ports) = Bed::with_three_ports();
    let [e0, e1, _] = &ports;
    bed.route("0.0.0.0/0", &["10.0.2.2"]);
    let routes = bed.router.ip.routes().len();
    bed.router.add_address(e1.index, prefix("70.0.0.1/24")).unwrap();
    bed.know(e1, "70.0.0.2");
    bed.route("80.0.0.0/8", &["70.0.0.2"]);
    bed.run();
    e1.sent();
    for address in ["70.0.0.2", "80.1.1.1"] {
        assert_eq!(goes_to(&mut bed, e0, &ports[1..], address), hop_mac("70.0.0.2"));
    }
    bed.router.remove_address(e1.index, prefix("70.0.0.1/24")).unwrap();
    // The static neighbour's route is still there, and the next hop now depends on it.
    assert_eq!(goes_to(&mut bed, e0, &ports[1..], "80.1.1.1"), hop_mac("70.0.0.2"));
    assert_eq!(goes_to(&mut bed, e0, &ports[1..], "70.0.0.77"), hop_mac("10.0.2.2"));
    assert_eq!(bed.router.ip.routes().len(), routes + 2);
    bed.router.remove_neighbour(NeighbourKey::new(e1.index, ip("70.0.0.2"))).unwrap();
    // The route that lost its next hop is still there, unresolved: the default route does not resolve next hops.
    assert_eq!(goes_to(&mut bed, e0, &ports[1..], "80.1.1.1"), hop_mac("10.0.2.2"));
    assert!(bed.router.ip.routes().get(prefix("80.0.0.0/8")).unwrap().installed.is_none());
    assert!(matches!(bed.router.remove_address(e1.index, prefix("70.0.0.1/24")), Err(Error::NoSuchAddress { .. })));
}

#[test]
fn a_secondary_address_keeps_the_network() {
    let (mut bed, ports) = Bed::with_three_ports();
    let [e0, e1, _] = &ports;
    bed.router.add_address(e1.index, prefix("10.0.1.9/24")).unwrap();
    bed.router.remove_address(e1.index, prefix("10.0.1.1/24")).unwrap();
    bed.run();
    e1.sent();
    bed.know(e1, "10.0.1.7");
    bed.router.remove_neighbour(NeighbourKey::new(e1.index, ip("10.0.1.7"))).unwrap();
    e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.7", b"x"));
    bed.run();
    let request = arp(REQUEST, (e1.mac, "10.0.1.9"), (MacAddress::ZERO, "10.0.1.7"));
    assert_eq!(e1.sent(), [ethernet(MacAddress::BROADCAST, e1.mac, 0x0806, &request)]);
    bed.router.remove_address(e1.index, prefix("10.0.1.9/24")).unwrap();
    assert!(!bed.router.ip.routes().contains_key(prefix("10.0.1.0/24")));
}

#[test]
fn a_static_neighbour_needs_no_network() {
    let (mut bed, ports) = Bed::with_three_ports();
    bed.know(&ports[1], "99.0.0.9");
    assert_eq!(goes_to(&mut bed, &ports[0], &ports[1..], "99.0.0.9"), hop_mac("99.0.0.9"));
    let over = PathAction::Via { next_hop: ip("99.0.0.9").into(), interface: Some(ports[1].index) };
    bed.route_way("50.0.0.0/8", over);
    assert_eq!(goes_to(&mut bed, &ports[0], &ports[1..], "50.0.0.9"), hop_mac("99.0.0.9"));
}

#[test]
fn overlapping_and_impossible_addresses_are_refused() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    for taken in ["10.0.1.1/24", "10.0.1.7/24", "10.0.1.6/30", "10.0.0.3/16", "10.0.1.1/32", "10.5.0.1/8"] {
        let result = bed.router.add_address(e0.index, prefix(taken));
        assert!(matches!(result, Err(Error::AddressTaken { .. })), "{taken}");
    }
    // A second address in an interface's own network must have the same prefix length.
    assert!(bed.router.add_address(e1.index, prefix("10.0.1.130/25")).is_err());
    for bad in ["0.0.0.1/8", "127.0.0.1/8", "224.0.0.1/24", "250.1.1.1/24", "20.0.0.0/24", "20.0.0.255/24", "1.2.3.4/0"]
    {
        assert!(matches!(bed.router.add_address(e0.index, prefix(bad)), Err(Error::BadAddress(_))), "{bad}");
    }
    for good in ["20.0.0.0/31", "20.0.0.5/32"] {
        bed.router.add_address(e0.index, prefix(good)).unwrap();
    }
    let addresses: Vec<_> = bed.router.interfaces.get(e0.index).unwrap().addresses.clone();
    assert_eq!(addresses, ["10.0.0.1/24", "20.0.0.0/31", "20.0.0.5/32"].map(prefix));
}

#[test]
fn a_host_route_onto_an_interface_reaches_the_host_itself() {
    let (mut bed, ports) = Bed::with_three_ports();
    bed.route_way("10.0.1.2/32", PathAction::Attached(ports[1].index));
    assert_eq!(goes_to(&mut bed, &ports[0], &ports[1..], "10.0.1.2"), hop_mac("10.0.1.2"));
    // The router asks for a host that is not known.
    bed.route_way("10.0.1.77/32", PathAction::Attached(ports[1].index));
    ports[0].receive_packet(&Packet::udp("10.0.0.2", "10.0.1.77", b"x"));
    bed.run();
    assert_eq!((bed.held(), ports[1].sent().len()), (1, 1));
    bed.know(&ports[1], "10.0.1.77");
    bed.run();
    assert_eq!((bed.held(), ports[1].sent().len()), (0, 1));
}

#[test]
fn a_route_that_leads_nowhere_does_not_hide_a_known_neighbour() {
    let (mut bed, ports) = Bed::with_three_ports();
    bed.route("10.0.1.2/32", &["99.0.0.1"]);
    assert_eq!(goes_to(&mut bed, &ports[0], &ports[1..], "10.0.1.2"), hop_mac("10.0.1.2"));
}

#[test]
fn an_operators_route_stands_in_for_a_network_that_is_down() {
    let (mut bed, ports) = Bed::with_three_ports();
    bed.route("10.0.1.0/24", &["10.0.2.2"]);
    for up in [true, false, true] {
        bed.router.set_admin(ports[1].index, up).unwrap();
        bed.run();
        ports.iter().for_each(|port| drop(port.sent()));
        let hop = if up { "10.0.1.2" } else { "10.0.2.2" };
        assert_eq!(goes_to(&mut bed, &ports[0], &ports[1..], "10.0.1.2"), hop_mac(hop));
    }
}

#[test]
fn both_hosts_of_a_31_can_be_reached() {
    let (mut bed, ports) = Bed::with_three_ports();
    bed.router.add_address(ports[1].index, prefix("20.0.0.1/31")).unwrap();
    bed.know(&ports[1], "20.0.0.0");
    bed.run();
    ports[1].sent();
    assert_eq!(goes_to(&mut bed, &ports[0], &ports[1..], "20.0.0.0"), hop_mac("20.0.0.0"));
}

#[test]
fn an_interface_takes_its_routes_and_neighbours_with_it() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    bed.route("0.0.0.0/0", &["10.0.2.2"]);
    let over =
        |port: &Port| Path::new(PathAction::Via { next_hop: ip("10.0.1.2").into(), interface: Some(port.index) });
    bed.router.add_route(prefix("50.0.0.0/8"), Source::Config, vec![over(&e1), via("10.0.2.2")], true).unwrap();
    bed.router.add_route(prefix("51.0.0.0/8"), Source::Config, vec![over(&e1)], true).unwrap();
    bed.router
        .add_route(prefix("52.0.0.0/8"), Source::Config, vec![Path::new(PathAction::Attached(e1.index))], true)
        .unwrap();
    e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.77", b"x"));
    bed.run();
    assert_eq!(bed.held(), 1);
    bed.router.delete_interface(e1.index).unwrap();
    bed.run();
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
    let left: Vec<String> = bed.router.ip.routes().keys().map(|prefix| prefix.to_string()).collect();
    assert!(left.iter().all(|prefix| !prefix.starts_with("10.0.1.")), "{left:?}");
    assert_eq!(bed.router.ip.routes().get(prefix("50.0.0.0/8")).unwrap().sources[&Source::Config], [via("10.0.2.2")]);
    assert!(!left.contains(&"51.0.0.0/8".to_string()) && !left.contains(&"52.0.0.0/8".to_string()));
    assert!(bed.router.neighbours.iter().all(|(key, _)| key.interface != e1.index));
    assert_eq!(goes_to(&mut bed, &e0, &[e2], "10.0.1.2"), hop_mac("10.0.2.2"));
    assert!(matches!(bed.router.delete_interface(e1.index), Err(Error::NoSuchInterface(_))));
    // Packets of a removed device are not forwarded.
    e0.sent();
    e1.receive_packet(&Packet::udp("10.0.1.2", "10.0.0.2", b"x"));
    bed.run();
    assert_eq!(e0.sent(), Vec::<Vec<u8>>::new());
}

#[test]
fn an_interface_may_come_again_and_counts_anew() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let errors = bed.router.graph.errors().len();
    let nodes = bed.router.graph.nodes().len();
    let mut old = bed.router.interfaces.find("e1").unwrap();
    for _ in 0..20 {
        bed.router.delete_interface(old).unwrap();
        let port = bed.port("e1", &["10.0.1.1/24"]);
        bed.know(&port, "10.0.1.2");
        let frame = e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.2", b"x"));
        bed.run();
        assert_eq!(port.sent(), [forwarded(&frame, host_mac(ip("10.0.1.2")), port.mac)]);
        assert_eq!(bed.counters(&port)[2..4], [2, 42 + frame.len() as u64]);
        old = port.index;
    }
    assert_eq!((bed.router.graph.errors().len(), bed.router.graph.nodes().len()), (errors, nodes));
}

#[test]
fn a_new_mac_or_mtu_holds_for_known_neighbours() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let mac = MacAddress([2, 9, 9, 9, 9, 9]);
    bed.router.set_mac(e1.index, mac).unwrap();
    bed.run();
    assert_eq!(e1.sent().len(), 1, "the announcement");
    let packet = Packet::udp("10.0.0.2", "10.0.1.2", &[0; 100]);
    let frame = e0.receive_packet(&packet);
    bed.run();
    assert_eq!(e1.sent(), [forwarded(&frame, host_mac(packet.destination), mac)]);
    bed.router.set_mtu(e1.index, 127).unwrap();
    e0.receive_packet(&packet);
    bed.run();
    assert_eq!(e1.sent().len(), 2);
    bed.router.set_mtu(e1.index, 128).unwrap();
    e0.receive_packet(&packet);
    bed.run();
    assert_eq!(e1.sent(), [forwarded(&frame, host_mac(packet.destination), mac)]);
    // Frames to the old address are for another station now.
    e1.receive(Packet::udp("10.0.1.2", "10.0.0.2", b"x").frame(e1.mac, mac));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, crate::bed::error("ethernet-input", "l3 mac mismatch", 1));
}

#[test]
fn refused_operations_change_nothing() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.route("50.0.0.0/8", &["10.0.1.2"]);
    bed.run();
    let nobody = InterfaceIndex(77);
    let before = snapshot(&bed);
    let many = |n: usize| (0..n).map(|n| via(&format!("10.0.2.{}", 2 + n))).collect::<Vec<Path>>();
    let to = prefix("50.0.0.0/8");
    let router = &mut bed.router;
    assert_eq!(
        router.add_route(to, Source::Config, many(MAX_PATHS), false).unwrap_err().code(),
        "route-too-many-paths"
    );
    assert_eq!(
        router.add_route(to, Source::Config, many(MAX_PATHS + 1), true).unwrap_err().code(),
        "route-too-many-paths"
    );
    for way in [
        PathAction::Attached(nobody),
        PathAction::Local(nobody),
        PathAction::Via { next_hop: ip("1.1.1.1").into(), interface: Some(nobody) },
    ] {
        let paths = vec![via("10.0.2.2"), Path::new(way)];
        assert!(matches!(router.add_route(to, Source::Config, paths, true), Err(Error::NoSuchInterface(_))));
    }
    let gone = [via("10.0.1.2"), via("10.0.1.3")];
    assert!(matches!(router.remove_route(to, Source::Config, &gone), Err(Error::NoSuchPath(_))));
    assert!(router.add_address(nobody, prefix("20.0.0.1/24")).is_err());
    assert!(router.add_address(e0.index, prefix("10.0.1.9/24")).is_err());
    assert!(router.set_admin(nobody, true).is_err());
    assert_eq!(router.set_mtu(e0.index, 67).unwrap_err().code(), "interface-bad-mtu");
    assert_eq!(router.set_mtu(e0.index, 9217).unwrap_err().code(), "interface-bad-mtu");
    assert!(router.set_mac(e0.index, MacAddress::BROADCAST).is_err());
    assert!(matches!(router.rename_interface(e0.index, "e1"), Err(Error::NameTaken(_))));
    assert_eq!(router.rename_interface(e0.index, "a b").unwrap_err().code(), "interface-bad-name");
    assert!(router.rename_interface(e0.index, "interface").is_err());
    for name in ["", "e0", "a b", "interface", &"x".repeat(64)] {
        let device = drivers::null::open(1);
        assert!(router.create_interface(name, device).is_err(), "{name}");
    }
    bed.run();
    assert_eq!(snapshot(&bed), before);
    bed.router.add_route(to, Source::Config, many(MAX_PATHS), true).unwrap();
}

/// The whole state of control, as text.
pub fn snapshot(bed: &Bed) -> String {
    let router = &bed.router;
    let mut lines: Vec<String> = router
        .interfaces
        .iter()
        .map(|i| {
            format!(
                "{} {} {} {} {} {:?} {:?} {:?}",
                i.index, i.name, i.mac, i.mtu, i.admin_up, i.addresses, i.ip4, i.ip6
            )
        })
        .collect();
    for family in Family::ALL {
        for (table, id) in router.ip.table_ids(family) {
            lines.push(format!("{family:?} table {id}"));
            let routes = router.ip.routes_in(family, table);
            lines.extend(routes.iter().map(|(prefix, route)| format!("{prefix} {route:?}")));
        }
    }
    lines.extend(router.neighbours.iter().map(|(key, neighbour)| format!("{key:?} {:?}", neighbour.state)));
    lines.extend(router.graph.nodes().iter().map(|node| format!("{} {:?}", node.name, node.edges)));
    lines.push(format!("{} objects", router.ip.objects()));
    lines.join("\n")
}

#[test]
fn a_renamed_interface_works_on() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.router.rename_interface(e1.index, "uplink").unwrap();
    let frame = e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.2", b"x"));
    bed.run();
    assert_eq!(e1.sent(), [forwarded(&frame, host_mac(ip("10.0.1.2")), e1.mac)]);
    assert!(bed.router.interfaces.find("e1").is_err());
    e1.refuse_next(drivers::FULL);
    e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.2", b"x"));
    assert_eq!(bed.errors_of(|_| {}), crate::bed::error("uplink-tx", "device has no room", 1));
    // The old name is free again.
    bed.port_that_finishes("e1", TxOffloads::default());
    bed.router.delete_interface(e1.index).unwrap();
}

/// The error of a command that must be refused and change nothing.
fn refusal(bed: &mut Bed, command: &str) -> String {
    let before = snapshot(bed);
    let error = bed.command(command).expect_err(command);
    assert_eq!(snapshot(bed), before, "{command}");
    error
}

#[test]
fn a_next_hop_that_cannot_work_is_refused_with_the_reason() {
    let (mut bed, ports) = Bed::with_three_ports();
    bed.router.set_admin(ports[2].index, false).unwrap();
    bed.run();
    for (hop, reason) in [
        ("99.0.0.1", "next hop 99.0.0.1 is on no attached network"),
        ("99.0.0.1 e1", "next hop 99.0.0.1 is on no network of e1: 'via 99.0.0.1 e1 onlink'"),
        ("10.0.1.2 e0", "next hop 10.0.1.2 is on no network of e0 but on one of e1: "),
        ("10.0.1.1", "next hop 10.0.1.1 is this router's own address, on e1"),
        ("10.0.1.255", "next hop 10.0.1.255 is the broadcast address of 10.0.1.0/24 on e1"),
        ("10.0.1.0", "next hop 10.0.1.0 is the first address of 10.0.1.0/24 on e1"),
        ("224.0.0.1 e0 onlink", "next hop 224.0.0.1 is no host's address (it is a group's)"),
        ("255.255.255.255 offlink", "next hop 255.255.255.255 is no host's address (it is the broadcast address)"),
        ("240.0.0.1", "next hop 240.0.0.1 is no host's address (it is reserved, 240.0.0.0/4)"),
        ("127.0.0.1", "next hop 127.0.0.1 is no host's address (it is a loopback address)"),
        ("0.0.0.0", "next hop 0.0.0.0 is no host's address"),
        ("10.0.1.9 onlink", "next hop 10.0.1.9: 'onlink' says by which interface"),
    ] {
        for verb in ["add", "replace"] {
            let said = refusal(&mut bed, &format!("ip route {verb} 50.0.0.0/8 via 10.0.1.2 via {hop}"));
            assert!(said.starts_with(&format!("ip route {verb}: {reason}")), "{said}");
        }
    }
    // A configured network counts, whatever the state of its interface.
    bed.command("ip route add 50.0.0.0/8 via 10.0.2.2 via 10.0.2.2 e2").unwrap();
    bed.command("ip route add 51.0.0.0/8 via 99.0.0.1 offlink via 99.0.0.1 e1 onlink").unwrap();
}

#[test]
fn a_next_hop_on_the_link_is_asked_for_and_listened_to() {
    let (mut bed, ports) = Bed::with_three_ports();
    let [e0, e1, _] = &ports;
    let hop = MacAddress([2, 0xbb, 0, 0, 0, 9]);
    bed.command("ip route add 50.0.0.0/8 via 99.0.0.1 e1 onlink").unwrap();
    bed.command("ip route add 51.0.0.0/8 via 99.0.0.1 e1 onlink").unwrap();
    let frame = e0.receive_packet(&Packet::udp("10.0.0.2", "50.0.0.1", b"x"));
    bed.run();
    let request = arp(REQUEST, (e1.mac, "10.0.1.1"), (MacAddress::ZERO, "99.0.0.1"));
    assert_eq!(e1.sent(), [ethernet(MacAddress::BROADCAST, e1.mac, 0x0806, &request)]);
    let reply = arp(REPLY, (hop, "99.0.0.1"), (e1.mac, "10.0.1.1"));
    e1.receive(ethernet(e1.mac, hop, 0x0806, &reply));
    bed.run();
    assert_eq!(e1.sent(), [forwarded(&frame, hop, e1.mac)]);
    // The next hop itself is reachable, but no other host of its network.
    assert_eq!(goes_to(&mut bed, e0, &ports[1..], "99.0.0.1"), Some(hop));
    assert_eq!(goes_to(&mut bed, e0, &ports[1..], "99.0.0.2"), None);
    e1.receive(ethernet(e1.mac, hop, 0x0806, &arp(REPLY, (hop, "99.0.0.2"), (e1.mac, "10.0.1.1"))));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, crate::bed::error("arp-reply", "IP4 source address not local to subnet", 1));
    // Nor is it accepted on another link.
    ports[2].receive(ethernet(ports[2].mac, hop, 0x0806, &arp(REPLY, (hop, "99.0.0.1"), (ports[2].mac, "10.0.2.1"))));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, crate::bed::error("arp-reply", "IP4 source address not local to subnet", 1));
    // The next hop stays reachable as long as one route says `onlink`.
    bed.command("ip route del 50.0.0.0/8").unwrap();
    assert_eq!(goes_to(&mut bed, e0, &ports[1..], "51.0.0.1"), Some(hop));
    bed.command("ip route del 51.0.0.0/8").unwrap();
    let key = NeighbourKey::new(e1.index, ip("99.0.0.1"));
    bed.router.remove_neighbour(key).unwrap();
    assert_eq!(goes_to(&mut bed, e0, &ports[1..], "99.0.0.1"), None);
    assert!(!bed.router.ip.routes().contains_key(prefix("99.0.0.1/32")));
}

#[test]
fn a_next_hop_may_be_behind_a_route_onto_an_interface() {
    let (mut bed, ports) = Bed::with_three_ports();
    let [e0, e1, _] = &ports;
    refusal(&mut bed, "ip route add 50.0.0.0/8 via 99.0.0.1");
    bed.command("ip route add 99.0.0.0/30 via e1").unwrap();
    bed.command("ip route add 50.0.0.0/8 via 99.0.0.1").unwrap();
    bed.know(e1, "99.0.0.1");
    assert_eq!(goes_to(&mut bed, e0, &ports[1..], "50.0.0.1"), hop_mac("99.0.0.1"));
    bed.router.remove_neighbour(NeighbourKey::new(e1.index, ip("99.0.0.1"))).unwrap();
    bed.command("ip route del 99.0.0.0/30").unwrap();
    assert!(bed.router.ip.routes().get(prefix("50.0.0.0/8")).unwrap().installed.is_none());
    bed.command("ip route add 99.0.0.0/8 via e1").unwrap();
    assert!(bed.router.ip.routes().get(prefix("50.0.0.0/8")).unwrap().installed.is_some());
    // Hosts of that network are asked for, and their replies accepted.
    e0.receive_packet(&Packet::udp("10.0.0.2", "99.0.0.77", b"x"));
    bed.run();
    let request = arp(REQUEST, (e1.mac, "10.0.1.1"), (MacAddress::ZERO, "99.0.0.77"));
    assert_eq!(e1.sent(), [ethernet(MacAddress::BROADCAST, e1.mac, 0x0806, &request)]);
    let host = host_mac(ip("99.0.0.77"));
    e1.receive(ethernet(e1.mac, host, 0x0806, &arp(REPLY, (host, "99.0.0.77"), (e1.mac, "10.0.1.1"))));
    bed.run();
    assert_eq!((bed.held(), e1.sent().len()), (0, 1));
}

#[test]
fn routes_wait_for_a_network_that_went_and_come_back_with_it() {
    let (mut bed, ports) = Bed::with_three_ports();
    let (e0, others) = (&ports[0], &ports[1..]);
    bed.command("ip route add 50.0.0.0/8 via 10.0.1.2 e1").unwrap();
    bed.command("ip route add 51.0.0.0/8 via 10.0.1.2").unwrap();
    let before = bed.command("show running-config").unwrap();
    bed.router.remove_neighbour(NeighbourKey::new(ports[1].index, ip("10.0.1.2"))).unwrap();
    bed.command("set interface ip address del e1 10.0.1.1/24").unwrap();
    for to in ["50.0.0.1", "51.0.0.1"] {
        assert_eq!(goes_to(&mut bed, e0, others, to), None);
    }
    let text = bed.command("show running-config").unwrap();
    assert!(text.contains("ip route add 50.0.0.0/8 via 10.0.1.2 e1 offlink\n"), "{text}");
    assert!(text.contains("ip route add 51.0.0.0/8 via 10.0.1.2 offlink\n"), "{text}");
    bed.command("set interface ip address e1 10.0.1.1/24").unwrap();
    bed.know(&ports[1], "10.0.1.2");
    bed.run();
    others.iter().for_each(|port| drop(port.sent()));
    for to in ["50.0.0.1", "51.0.0.1"] {
        assert_eq!(goes_to(&mut bed, e0, others, to), hop_mac("10.0.1.2"));
    }
    assert_eq!(bed.command("show running-config").unwrap(), before);
}

#[test]
fn a_dead_link_loses_its_routes_and_its_share_and_gets_them_back() {
    let (mut bed, ports) = Bed::with_three_ports();
    let [e0, e1, e2] = &ports;
    let others = &ports[1..];
    let learned = host_mac(ip("10.0.1.77"));
    bed.command("ip route add 50.0.0.0/8 via 10.0.1.2 via 10.0.2.2").unwrap();
    bed.command("ip route add 51.0.0.0/8 via 10.0.1.2").unwrap();
    bed.command("ip route add 10.0.1.0/24 via 10.0.2.2").unwrap();
    bed.command("ip route add 52.0.0.0/8 via 99.0.0.1 e1 onlink").unwrap();
    bed.command("ip route add 53.0.0.0/8 via 10.0.1.2 e1").unwrap();
    let before = bed.command("show ip fib").unwrap();
    e1.receive(ethernet(e1.mac, learned, 0x0806, &arp(REPLY, (learned, "10.0.1.77"), (e1.mac, "10.0.1.1"))));
    bed.run();
    for _ in 0..2 {
        e1.set_carrier(false);
        bed.advance(Duration::from_secs(1));
        assert_eq!(spread(&mut bed, e0, others, 100), BTreeMap::from([(host_mac(ip("10.0.2.2")), 100)]));
        assert_eq!(goes_to(&mut bed, e0, others, "53.0.0.1"), None);
        assert_eq!(goes_to(&mut bed, e0, others, "52.0.0.1"), None);
        // This route reaches its next hop by the operator's route to that network.
        assert_eq!(goes_to(&mut bed, e0, others, "51.0.0.1"), hop_mac("10.0.2.2"));
        // The operator's route replaces the network and its static neighbour.
        assert_eq!(goes_to(&mut bed, e0, others, "10.0.1.2"), hop_mac("10.0.2.2"));
        let detail = bed.command("show ip fib 53.0.0.0/8").unwrap();
        assert!(detail.contains("oper-flags:unresolved"), "{detail}");
        let key = NeighbourKey::new(e1.index, ip("10.0.1.77"));
        assert!(bed.router.neighbours.mac_of(&key).is_none(), "who is on the wire then is not known");
        assert_eq!(bed.json("show interface e1")["interfaces"][0]["link"], "down");
        e1.set_carrier(true);
        bed.advance(Duration::from_secs(1));
        // The router announces its address to hosts that may know another one.
        let announcement = arp(REQUEST, (e1.mac, "10.0.1.1"), (MacAddress::ZERO, "10.0.1.1"));
        assert_eq!(e1.sent(), [ethernet(MacAddress::BROADCAST, e1.mac, 0x0806, &announcement)]);
        assert_eq!(spread(&mut bed, e0, others, 200).len(), 2);
        assert_eq!(goes_to(&mut bed, e0, others, "10.0.1.2"), hop_mac("10.0.1.2"));
        assert_eq!(without_indices(&bed.command("show ip fib").unwrap()), without_indices(&before));
        assert_eq!(e2.sent(), Vec::<Vec<u8>>::new());
    }
}

/// The output of `show ip fib` without object numbers.
fn without_indices(text: &str) -> String {
    let plain = |line: &str| line.split(' ').filter(|word| !word.contains("index:") && !word.contains("[@")).collect();
    text.lines().map(plain).collect::<Vec<String>>().join("\n")
}

#[test]
fn a_link_that_flaps_is_looked_at_no_more_than_so_often() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    bed.run();
    let start = Instant::now() + Duration::from_secs(10);
    let (mut looks, mut now) = (0, start);
    while now < start + Duration::from_secs(60) {
        let due = bed.router.tick_at(now).expect("links are watched");
        now = now.max(due) + Duration::from_millis(1);
        looks += 1;
    }
    assert!(looks <= 75, "at rest once a second: {looks} in a minute");
    // However often the carrier changes in between.
    let mut changes = 0;
    for millisecond in 0..3000 {
        e1.set_carrier(millisecond > 1100 && millisecond / 7 % 2 == 0);
        let before = bed.router.interfaces.get(e1.index).unwrap().link_up();
        bed.router.tick_at(now + Duration::from_millis(millisecond));
        changes += usize::from(bed.router.interfaces.get(e1.index).unwrap().link_up() != before);
    }
    assert!((2..=300).contains(&changes), "{changes} in three seconds");
    e1.set_carrier(true);
    bed.advance(Duration::from_secs(80));
}

#[test]
fn a_flap_costs_what_hangs_on_the_link() {
    const ROUTES: u32 = 20_000;
    let (mut bed, [_, e1, e2]) = Bed::with_three_ports();
    let add = |bed: &mut Bed, first: u32, hop: &str| {
        for n in 0..ROUTES {
            let to = Prefix4::new((first + (n << 8)).into(), 24).unwrap();
            bed.router.add_route(to, Source::Config, vec![via(hop)], false).unwrap();
        }
    };
    add(&mut bed, 0x2000_0000, "10.0.1.2");
    add(&mut bed, 0x4000_0000, "10.0.2.2");
    let time = |bed: &mut Bed, port: &Port, up| {
        port.set_carrier(up);
        let start = Instant::now();
        assert!(bed.router.check_links());
        start.elapsed()
    };
    let (down, up) = (time(&mut bed, &e1, false), time(&mut bed, &e1, true));
    println!("{ROUTES} of {} routes: {down:?} down, {up:?} up", 2 * ROUTES);
    let resolved = |bed: &Bed| bed.router.ip.routes().values().filter(|route| route.installed.is_some()).count();
    let all = resolved(&bed);
    // On an interface without routes it costs next to nothing: routes that do not depend on it are not touched.
    let bare = bed.port("bare", &["10.9.0.1/24"]);
    println!("none of {} routes: {:?} down", 2 * ROUTES, time(&mut bed, &bare, false));
    assert_eq!(resolved(&bed), all + 2, "the first and the last address of its network");
    time(&mut bed, &e2, false);
    assert_eq!(resolved(&bed), all + 2 - ROUTES as usize - 3);
}

#[test]
fn an_unnumbered_interface_speaks_with_the_address_of_another() {
    let (mut bed, ports) = Bed::with_three_ports();
    let e0 = &ports[0];
    let peer = host_mac(ip("192.0.2.2"));
    bed.command("create loopback interface").unwrap();
    bed.command("set interface ip address loop0 192.0.2.1/32").unwrap();
    bed.command("set interface state loop0 up").unwrap();
    let p = bed.port("p", &[]);
    refusal(&mut bed, "set interface unnumbered p use p");
    refusal(&mut bed, "set interface unnumbered e1 use loop0");
    refusal(&mut bed, "set interface unnumbered del p");
    bed.command("set interface unnumbered p use loop0").unwrap();
    bed.run();
    let announcement = arp(REQUEST, (p.mac, "192.0.2.1"), (MacAddress::ZERO, "192.0.2.1"));
    assert_eq!(p.sent(), [ethernet(MacAddress::BROADCAST, p.mac, 0x0806, &announcement)]);
    assert_eq!(
        bed.command("show interface address p").unwrap(),
        "p (up):\n  unnumbered, use loop0\n  L3 192.0.2.1/32\n"
    );
    // An ARP request of an unknown peer is ignored; one of a peer with a route is answered.
    let request = arp(REQUEST, (peer, "192.0.2.2"), (MacAddress::ZERO, "192.0.2.1"));
    p.receive(ethernet(MacAddress::BROADCAST, peer, 0x0806, &request));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, crate::bed::error("arp-reply", "IP4 source address not local to subnet", 1));
    bed.command("ip route add 192.0.2.2/32 via p").unwrap();
    p.receive(ethernet(MacAddress::BROADCAST, peer, 0x0806, &request));
    bed.run();
    let reply = arp(REPLY, (p.mac, "192.0.2.1"), (peer, "192.0.2.2"));
    assert_eq!(p.sent(), [ethernet(peer, p.mac, 0x0806, &reply)]);
    // A gateway that is reached through the peer, and one that is asked for with the lender's address.
    bed.command("ip route add 50.0.0.0/8 via 192.0.2.2").unwrap();
    bed.command("ip route add 51.0.0.0/8 via 192.0.2.9 p onlink").unwrap();
    assert_eq!(goes_to(&mut bed, e0, std::slice::from_ref(&p), "50.0.0.1"), Some(peer));
    e0.receive_packet(&Packet::udp("10.0.0.2", "51.0.0.1", b"x"));
    bed.run();
    let question = arp(REQUEST, (p.mac, "192.0.2.1"), (MacAddress::ZERO, "192.0.2.9"));
    assert_eq!(p.sent(), [ethernet(MacAddress::BROADCAST, p.mac, 0x0806, &question)]);
    p.receive(Packet::echo_request("192.0.2.2", "192.0.2.1", b"hello").frame(p.mac, peer));
    bed.run();
    let answer = Packet::new("192.0.2.1", "192.0.2.2", ICMP, &icmp(0, 0, 0x0042_0007, b"hello"));
    assert_eq!(p.sent(), [answer.frame(peer, p.mac)]);
    // A borrower cannot have addresses of its own, and its lender cannot be deleted.
    refusal(&mut bed, "set interface ip address p 10.9.0.1/24");
    refusal(&mut bed, "set interface unnumbered e0 use p");
    refusal(&mut bed, "set interface unnumbered loop0 use e0");
    let said = refusal(&mut bed, "delete interface loop0");
    assert!(said.ends_with("loop0 lends its addresses to p: 'set interface unnumbered del p' first"), "{said}");
    // The borrower's addresses follow the lender's.
    bed.command("set interface ip address loop0 192.0.2.5/32").unwrap();
    bed.command("set interface ip address del loop0 192.0.2.1/32").unwrap();
    let request = arp(REQUEST, (peer, "192.0.2.2"), (MacAddress::ZERO, "192.0.2.5"));
    p.receive(ethernet(p.mac, peer, 0x0806, &request));
    bed.run();
    assert_eq!(p.sent(), [ethernet(peer, p.mac, 0x0806, &arp(REPLY, (p.mac, "192.0.2.5"), (peer, "192.0.2.2")))]);
    bed.command("set interface unnumbered del p").unwrap();
    bed.command("delete interface loop0").unwrap();
    (0..=3).for_each(|_| bed.advance(Duration::from_millis(1001)));
}

#[test]
fn secondary_addresses_stay_when_the_primary_goes() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    for prefix in ["10.0.1.9/24", "20.0.0.1/31", "20.0.0.5/32"] {
        bed.command(&format!("set interface ip address e1 {prefix}")).unwrap();
    }
    bed.command("set interface ip address del e1 10.0.1.1/24").unwrap();
    bed.run();
    e1.sent();
    let asks = |bed: &mut Bed, target: &str| {
        let request = arp(REQUEST, (host_mac(ip("10.0.1.2")), "10.0.1.2"), (MacAddress::ZERO, target));
        e1.receive(ethernet(MacAddress::BROADCAST, host_mac(ip("10.0.1.2")), 0x0806, &request));
        bed.run();
        e1.sent().len()
    };
    assert_eq!(["10.0.1.1", "10.0.1.9", "20.0.0.1", "20.0.0.5"].map(|target| asks(&mut bed, target)), [0, 1, 1, 1]);
    bed.command("set interface ip address del e1 all").unwrap();
    assert_eq!(bed.command("show interface address e1").unwrap(), "e1 (up):\n");
    // The static neighbour is still there, but no network.
    let left = bed.router.ip.routes().keys().filter(|prefix| prefix.to_string().starts_with("10.0.1."));
    assert_eq!(left.map(|prefix| prefix.to_string()).collect::<Vec<_>>(), ["10.0.1.2/32"]);
}

#[test]
fn a_static_neighbour_makes_routes_work_and_takes_them_along() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    let ports = [e1, e2];
    bed.route("20.0.0.0/8", &["10.0.1.2"]);
    bed.route("20.1.0.0/16", &["10.0.2.2"]);
    let (other, mine) = (hop_mac("10.0.1.2"), "02:00:00:00:00:09".parse().ok());
    // A next hop on no network, and one on another interface's network; with a route of its own and without.
    for (hop, kind) in
        [("192.0.2.9", ""), ("192.0.2.9", " no-fib-entry"), ("10.0.2.77", ""), ("10.0.2.77", " no-fib-entry")]
    {
        bed.command(&format!("ip neighbor e1 {hop} 02:00:00:00:00:09{kind}")).unwrap();
        bed.command(&format!("ip route add 20.2.0.0/16 via {hop} e1")).unwrap();
        assert_eq!(goes_to(&mut bed, &e0, &ports, "20.2.0.1"), mine, "{hop}{kind}");
        bed.command(&format!("ip neighbor del e1 {hop}")).unwrap();
        assert_eq!(goes_to(&mut bed, &e0, &ports, "20.2.0.1"), other, "{hop}{kind}: the shorter one again");
        bed.command(&format!("ip neighbor e1 {hop} 02:00:00:00:00:09{kind}")).unwrap();
        assert_eq!(goes_to(&mut bed, &e0, &ports, "20.2.0.1"), mine, "{hop}{kind}");
        bed.command(&format!("ip neighbor del e1 {hop}")).unwrap();
        bed.command("ip route del 20.2.0.0/16").unwrap();
    }
}

#[test]
fn a_route_that_waits_does_not_come_to_life_by_an_address_of_ours() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    let ports = [e1, e2];
    bed.route("70.0.0.0/7", &["10.0.1.2"]);
    for hop in ["10.0.6.1", "10.0.6.255"] {
        bed.command(&format!("ip route add 71.0.0.0/8 via {hop} offlink")).unwrap();
        bed.command("set interface ip address e2 10.0.6.1/24").unwrap();
        bed.run();
        ports.iter().for_each(|port| drop(port.sent()));
        assert_eq!(goes_to(&mut bed, &e0, &ports, "71.0.0.1"), hop_mac("10.0.1.2"), "{hop}");
        bed.command("set interface ip address del e2 10.0.6.1/24").unwrap();
        bed.command("ip route del 71.0.0.0/8").unwrap();
    }
}

#[test]
fn a_path_of_little_weight_is_no_stranger_to_source_checks() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    bed.know(&e1, "10.0.1.2");
    bed.know(&e2, "10.0.2.2");
    let paths = vec![weighted("10.0.1.2", 255), weighted("10.0.2.2", 1)];
    bed.router.add_route(prefix("60.0.0.0/8"), Source::Config, paths, true).unwrap();
    bed.command("set urpf ip4 rx strict e2").unwrap();
    e2.receive_packet(&Packet::udp("60.1.2.3", "10.0.0.2", b"x"));
    assert_eq!(bed.errors_of(|_| {}), Default::default());
    assert_eq!(e0.sent().len(), 1);
}

#[test]
fn neighbours_go_with_the_address_that_an_interface_borrowed() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let e3 = bed.port("e3", &[]);
    bed.command("set interface unnumbered e3 use e0").unwrap();
    bed.command("ip route add 10.50.0.2/32 via e3").unwrap();
    bed.router.set_neighbour(router::neighbour::NeighbourKey::new(e3.index, ip("10.50.0.2")), e0.mac, false).unwrap();
    assert!(bed.command("show ip neighbors e3").unwrap().contains("10.50.0.2"));
    bed.command("set interface unnumbered del e3").unwrap();
    assert!(!bed.command("show ip neighbors e3").unwrap().contains("10.50.0.2"));
}

/// Object numbers are freed with their objects, and used again.
#[test]
fn next_hops_that_go_for_long_leave_nothing_and_come_again() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    for _ in 0..3 {
        let route = |word: &str, at: usize| format!("ip route {word} 40.0.{at}.0/24 via 10.0.1.{}", at + 2);
        (0..200).for_each(|at| drop(bed.command(&route("add", at)).unwrap()));
        // Two neighbours stay: the last one, and one in between.
        let kept = [199, 77];
        bed.router.ip.audit().unwrap();
        for at in (0..200).filter(|at| !kept.contains(at)) {
            bed.command(&route("del", at)).unwrap();
        }
        bed.advance(std::time::Duration::from_secs(31));
        bed.router.ip.audit().unwrap();
        (0..200).filter(|at| !kept.contains(at)).for_each(|at| drop(bed.command(&route("add", at)).unwrap()));
        bed.router.ip.audit().unwrap();
        e0.receive_packet(&Packet::udp("10.0.0.2", "40.0.0.1", b"x"));
        bed.run();
        assert_eq!(e1.sent().last().unwrap()[..6], host_mac(ip("10.0.1.2")).0);
        (0..200).for_each(|at| drop(bed.command(&route("del", at)).unwrap()));
        bed.advance(std::time::Duration::from_secs(31));
        bed.router.ip.audit().unwrap();
    }
}

/// What programs read of routes.
#[test]
fn a_dump_has_each_route_once_with_its_sources_whatever_happens_meanwhile() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.command("ip table add 7").unwrap();
    let seven = bed.router.find_table(Family::Ip4, 7).unwrap();
    let net = |n: u32| Prefix4::new((0x1000_0000 + n * 256).into(), 24).unwrap();
    for n in 0..1200 {
        bed.router.add_route(net(n), Source::Api, vec![via("10.0.1.2")], false).unwrap();
        bed.router.add_route_in(seven, net(n), Source::Config, vec![Path::new(PathAction::Drop)], false).unwrap();
    }
    bed.router.add_route(net(3), Source::Config, vec![via("10.0.2.2")], false).unwrap();
    let mut dump = RouteDump::all();
    let mut seen: BTreeMap<(u32, wire::Prefix), Vec<Source>> = BTreeMap::new();
    let mut pages = 0;
    while dump.page(&bed.router, |route| {
        let sources = route.sources().map(|(source, _)| source).collect();
        let before = seen.insert((route.id, route.prefix), sources);
        assert_eq!(before, None, "{}", route.prefix);
        assert_eq!(route.is_installed(), route.prefix != net(1100).into(), "{}", route.prefix);
        if route.prefix == net(3).into() && route.id == 0 {
            assert_eq!(route.paths(Source::Api), Some(&[via("10.0.1.2")][..]));
        }
    }) {
        pages += 1;
        if pages == 1 {
            // One behind and one ahead of the reader, one that works no more, and a table that it has not reached.
            bed.router.remove_route(net(0), Source::Api, &[]).unwrap();
            bed.router.remove_route(net(1000), Source::Api, &[]).unwrap();
            bed.router.remove_route(net(1100), Source::Api, &[]).unwrap();
            let gone = Path::new(PathAction::Attached(e0.index));
            bed.router.add_route(net(1100), Source::Api, vec![gone], false).unwrap();
            bed.router.set_admin(e0.index, false).unwrap();
            for n in 0..1200 {
                bed.router.remove_route_in(seven, net(n), Source::Config, &[]).unwrap();
            }
            bed.command("ip table del 7").unwrap();
        }
    }
    let of = |n: u32| seen.get(&(0, net(n).into()));
    assert_eq!((of(0), of(1000), of(1100)), (Some(&vec![Source::Api]), None, Some(&vec![Source::Api])));
    assert_eq!(of(3), Some(&vec![Source::Config, Source::Api]), "the best first");
    assert!(seen.keys().all(|(id, _)| *id == 0) && pages > 2);
    let (mut whole, mut only) = (0, RouteDump::of(Family::Ip4, 9));
    assert!(!only.page(&bed.router, |_| whole += 1) && whole == 0, "no such table");
}
