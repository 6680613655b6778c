//! The router's feature arcs: a feature that only looks sees each packet of its interface once, and nothing else
//! changes.

use crate::bed::{Bed, Port, host_mac};
use crate::mpls::{MPLS, all, bed, labelled, mac6, stack, to_host};
use crate::packet::*;
use crate::packet6::Packet6;
use drivers::pg::{Content, Stream};
use features::handoff::{self, Handoff};
use features::span;
use graph::node::{Behaviour, Map, NodeSpec};
use graph::{Context, Feature, InterfaceIndex, Vector, edge};
use router::ip::source_check::{Mode, SourceCheck};
use router::neighbour::NeighbourKey;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use wire::{Family, MacAddress};

/// The interfaces that received and that send each packet, as it was seen.
type Seen = Arc<Mutex<Vec<(u32, u32)>>>;

struct Witness(Seen);

impl Map for Witness {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            self.0.lock().unwrap().push((row.rx_interface.0, row.tx_interface().0));
        }
        vector.set_edges(edge::CONTINUE);
    }
}

/// Registers a witness as a feature of an arc.
fn witness(bed: &mut Bed, arc: &'static str, node: &'static str, after: &'static [&'static str]) -> Seen {
    let seen = Seen::default();
    let spec = NodeSpec { name: node.into(), edges: &[], counters: &[], trace: |_, _| Ok(()) };
    bed.router.graph.register(spec, |_| Behaviour::Map(Box::new(Witness(seen.clone())))).unwrap();
    bed.router.graph.register_feature(Feature { arc, node, after, before: &[] }).unwrap();
    seen
}

fn set(bed: &mut Bed, arc: &str, node: &str, port: &Port, is_enabled: bool) {
    bed.router.graph.set_feature(arc, node, port.index, is_enabled).unwrap();
}

/// What e0 receives, and what e1 then sends, if anything.
struct Way {
    arc: &'static str,
    /// The port whose packets pass the arc: 0, which receives them, or 1, which sends them.
    at: usize,
    frame: Vec<u8>,
    expected: Option<Vec<u8>>,
}

fn ways(ports: &[Port; 3]) -> Vec<Way> {
    let packet = Packet::udp("10.0.0.2", "10.0.1.2", b"data");
    let ip4 = packet.frame(ports[0].mac, host_mac(ip("10.0.0.2")));
    let after4 = to_host(ports, 0x0800, &packet.clone().ttl(63).bytes());
    let packet6 = Packet6::udp("2001:db8::2", "2001:db8:1::2", b"data");
    let ip6 = packet6.frame(ports[0].mac, mac6(0));
    let after6 = ethernet(mac6(1), ports[1].mac, 0x86dd, &packet6.clone().hops(63).bytes());
    let label = labelled(&ports[0], &[(16, 5, true, 64)], b"anything");
    let after = to_host(ports, MPLS, &[&stack(&[(17, 5, true, 63)]), &b"anything"[..]].concat());
    let all_hosts = Packet::udp("10.0.0.2", "255.255.255.255", b"data").frame(ports[0].mac, host_mac(ip("10.0.0.2")));
    let group = Packet6::udp("2001:db8::2", "ff02::1", b"data").frame(ports[0].mac, mac6(0));
    let here = Packet::udp("10.0.0.2", "10.0.1.1", b"data").frame(ports[0].mac, host_mac(ip("10.0.0.2")));
    let here6 = Packet6::udp("2001:db8::2", "2001:db8:1::1", b"data").frame(ports[0].mac, mac6(0));
    let mut spoilt = ip4.clone();
    spoilt[24] ^= 0xff;
    let bridges = MacAddress([1, 0x80, 0xc2, 0, 0, 0]);
    let spanning_tree = ethernet(bridges, host_mac(ip("10.0.0.2")), 38, &[&[0x42, 0x42, 3][..], &[0; 35]].concat());
    let lldp = ethernet(bridges, host_mac(ip("10.0.0.2")), 0x88cc, &[0; 50]);
    let stranger = MacAddress([2, 0, 0, 0, 0, 77]);
    let said = arp(1, (stranger, "10.0.0.77"), (MacAddress::default(), "10.0.0.77"));
    let announcement = ethernet(MacAddress([0xff; 6]), stranger, 0x806, &said);
    let way = |arc, at, frame: &Vec<u8>, expected: Option<&Vec<u8>>| Way {
        arc,
        at,
        frame: frame.clone(),
        expected: expected.cloned(),
    };
    vec![
        way("device-input", 0, &ip4, Some(&after4)),
        way("device-input", 0, &label, Some(&after)),
        way("ip4-unicast", 0, &ip4, Some(&after4)),
        way("ip4-multicast", 0, &all_hosts, None),
        way("ip6-unicast", 0, &ip6, Some(&after6)),
        way("ip6-multicast", 0, &group, None),
        way("mpls-input", 0, &label, Some(&after)),
        way("ip4-output", 1, &ip4, Some(&after4)),
        way("ip6-output", 1, &ip6, Some(&after6)),
        way("mpls-output", 1, &label, Some(&after)),
        way("ip4-local", 0, &all_hosts, None),
        way("ip4-local", 0, &here, None),
        way("ip6-local", 0, &group, None),
        way("ip6-local", 0, &here6, None),
        way("ip4-punt", 0, &here, None),
        way("ip6-punt", 0, &here6, None),
        way("error-drop", 0, &spoilt, None),
        way("l2-input", 0, &spanning_tree, None),
        way("l2-input", 0, &lldp, None),
        way("arp", 0, &announcement, None),
        way("interface-output", 1, &ip4, Some(&after4)),
        way("interface-output", 1, &ip6, Some(&after6)),
    ]
}

fn with_labels() -> (Bed, [Port; 3]) {
    let (mut bed, ports) = bed();
    all(&mut bed, &["mpls local-label add 16 eos via 10.0.1.2 e1 out-labels 17"]);
    (bed, ports)
}

/// Sends a way's frame so many times. Returns how many frames left; all must be as expected.
fn pass(bed: &mut Bed, ports: &[Port; 3], way: &Way, count: usize) -> usize {
    (0..count).for_each(|_| ports[0].receive(way.frame.clone()));
    bed.run();
    let sent = ports[1].sent();
    assert!(sent.iter().all(|frame| Some(frame) == way.expected.as_ref()), "{}: {sent:x?}", way.arc);
    sent.len()
}

#[test]
fn a_feature_that_only_looks_sees_each_packet_once_and_changes_nothing() {
    let (mut bed, ports) = with_labels();
    let arcs: Vec<&'static str> = bed.router.graph.arcs().map(|(arc, _)| arc).collect();
    let ways = ways(&ports);
    for arc in arcs {
        let (first, second): (&str, &str) = (format!("{arc}-first").leak(), format!("{arc}-second").leak());
        let later = witness(&mut bed, arc, second, std::slice::from_ref(Box::leak(Box::new(first))));
        let sooner = witness(&mut bed, arc, first, &[]);
        // Begun by a switch only: see below.
        assert!(arc == "l2-output" || ways.iter().any(|way| way.arc == arc), "no packet passes {arc}");
        for way in ways.iter().filter(|way| way.arc == arc) {
            for count in [1, 40, 256] {
                let leave = if way.expected.is_some() { count } else { 0 };
                let saw = |seen: &Seen| std::mem::take(&mut *seen.lock().unwrap());
                let tx = if way.at == 1 { ports[1].index.0 } else { 0 };
                let all = vec![(ports[0].index.0, tx); count];
                assert_eq!(pass(&mut bed, &ports, way, count), leave);
                assert_eq!((saw(&sooner), saw(&later)), (vec![], vec![]), "{arc}: enabled nowhere");
                set(&mut bed, arc, first, &ports[way.at], true);
                set(&mut bed, arc, second, &ports[2], true);
                assert_eq!(pass(&mut bed, &ports, way, count), leave);
                assert_eq!((saw(&sooner), saw(&later)), (all.clone(), vec![]), "{arc}");
                set(&mut bed, arc, second, &ports[way.at], true);
                assert_eq!(pass(&mut bed, &ports, way, count), leave);
                assert_eq!((saw(&sooner), saw(&later)), (all.clone(), all), "{arc}");
                ports.iter().for_each(|port| bed.router.graph.clear_features(port.index));
            }
        }
    }
    let errors = bed.errors();
    assert_eq!(errors.get(&("dispatcher".into(), "edge leads nowhere".into())), None);
    assert!(errors[&("llc-input".into(), "unknown ethernet type".into())] > 0, "what a feature passes on ends by name");
}

/// Control may enable a feature before its rule is published, and disable it after the rule is gone.
#[test]
fn every_feature_passes_packets_on_of_interfaces_for_which_it_has_no_rule() {
    let (mut bed, ports) = with_labels();
    let all: Vec<(&str, Vec<graph::NodeIndex>)> =
        bed.router.graph.arcs().map(|(arc, _)| (arc, bed.router.graph.features(arc).unwrap().collect())).collect();
    assert!(all.iter().map(|(_, features)| features.len()).sum::<usize>() >= 7);
    let ways = ways(&ports);
    for (arc, features) in all {
        for feature in features {
            let name = bed.router.graph.info(feature).unwrap().name.clone();
            for way in ways.iter().filter(|way| way.arc == arc) {
                set(&mut bed, arc, &name, &ports[way.at], true);
                let leave = if way.expected.is_some() { 256 } else { 0 };
                assert_eq!(pass(&mut bed, &ports, way, 256), leave, "{name} on {arc}: {:?}", bed.errors());
                set(&mut bed, arc, &name, &ports[way.at], false);
            }
        }
    }
}

/// A feature that writes its letter into the packet's data, behind those that are there.
struct Letter(u8);

/// Where the data of the frames below begins, from their IP header on.
const DATA: usize = 28;

impl Map for Letter {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            let data = &mut cx.buffers.bytes_mut(row.packet)[row.l3 as usize + DATA..];
            data[0] += 1;
            data[usize::from(data[0])] = self.0;
        }
        vector.set_edges(edge::CONTINUE);
    }
}

/// What letters were written into the packets that leave, and how often.
type Words = Arc<Mutex<BTreeMap<String, u64>>>;

struct Reader(Words);

impl Map for Reader {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let mut words = self.0.lock().unwrap();
        for i in 0..vector.len() {
            let row = vector.row(i);
            let data = &cx.buffers.bytes(row.packet)[row.l3 as usize + DATA..];
            let word = String::from_utf8_lossy(&data[1..=usize::from(data[0])]).into_owned();
            *words.entry(word).or_default() += 1;
        }
        vector.set_edges(edge::CONTINUE);
    }
}

/// Two workers forward packets while control changes what happens to them on their way.
#[test]
fn features_come_and_go_under_traffic_on_two_workers() {
    let mut bed = Bed::with_workers(2);
    let open = |bed: &mut Bed, name: &str, number: u32| {
        let index = bed.router.create_interface(name, drivers::null::open(number)).unwrap();
        bed.router.set_admin(index, true).unwrap();
        index
    };
    let [tx, monitor] = [("tx", 1), ("monitor", 2)].map(|(name, number)| open(&mut bed, name, number));
    for line in [
        "create packet-generator interface rx",
        "set interface state rx up",
        "set interface ip address rx 10.0.0.1/24",
        "set interface ip address tx 10.0.1.1/24",
    ] {
        bed.command(line).unwrap();
    }
    let rx = bed.router.interfaces.find("rx").unwrap();
    let hop = NeighbourKey::new(tx, ip("10.0.1.2"));
    bed.router.set_neighbour(hop, host_mac(ip("10.0.1.2")), true).unwrap();
    let from = NeighbourKey::new(rx, ip("10.0.0.2"));
    bed.router.set_neighbour(from, host_mac(ip("10.0.0.2")), true).unwrap();
    let words = Words::default();
    let graph = &mut bed.router.graph;
    let spec = |node: &str| NodeSpec { name: node.into(), edges: &[], counters: &[], trace: |_, _| Ok(()) };
    for (node, letter, after, before) in
        [("test-b", b'b', &["test-a", "ip4-rx-urpf"][..], &[][..]), ("test-a", b'a', &[], &["ip4-rx-urpf"])]
    {
        graph.register(spec(node), |_| Behaviour::Map(Box::new(Letter(letter)))).unwrap();
        graph.register_feature(Feature { arc: "ip4-unicast", node, after, before }).unwrap();
    }
    graph.register(spec("test-reader"), |_| Behaviour::Map(Box::new(Reader(words.clone())))).unwrap();
    let reader = Feature { arc: "interface-output", node: "test-reader", after: &[], before: &["span-output"] };
    graph.register_feature(reader).unwrap();
    graph.set_feature("interface-output", "test-reader", tx, true).unwrap();
    bed.run();
    let mac = bed.router.interfaces.get(rx).unwrap().mac;
    let frame = |n: u16| {
        let mut packet = Packet::udp("10.0.0.2", "10.0.1.2", &[0; 16]);
        packet.payload[..2].copy_from_slice(&n.to_be_bytes());
        packet.payload[6..8].fill(0);
        packet.frame(mac, host_mac(ip("10.0.0.2")))
    };
    let mut stream = Stream::new("s", rx, Content::Replay((0..64).map(frame).collect()));
    stream.max_frame = 32;
    features::packet_generator::add(&mut bed.router, stream, 0, String::new(), Vec::new()).unwrap();
    let strict = Some(SourceCheck { mode: Mode::Strict, allow_default: false });
    let shared = Handoff { workers: "0-1".parse().unwrap(), symmetrical: false };
    let both = |graph: &mut graph::Graph, node| graph.set_feature("ip4-unicast", node, rx, true).unwrap();
    // At no time is `b` there without `a`: all features of the interface go at once.
    bed.under_traffic(10_000, 9, |router, toggle| match toggle % 9 {
        0 => both(&mut router.graph, "test-a"),
        1 => both(&mut router.graph, "test-b"),
        2 => router.set_source_check(rx, Family::Ip4, strict).unwrap(),
        3 => handoff::set(router, rx, Some(shared.clone())).unwrap(),
        4 => span::set(router, rx, monitor, true, false).unwrap(),
        5 => span::set(router, rx, monitor, false, false).unwrap(),
        6 => handoff::set(router, rx, None).unwrap(),
        7 => router.set_source_check(rx, Family::Ip4, None).unwrap(),
        _ => router.graph.clear_features(rx),
    });
    let ledger = bed.router.graph.ledger();
    assert_eq!(ledger.received + ledger.originated, ledger.sent + ledger.dropped + ledger.consumed, "{ledger:?}");
    let dropped = bed.errors();
    let congested = dropped.get(&("dispatcher".into(), "congestion drop between workers".into())).copied();
    assert_eq!(ledger.dropped, congested.unwrap_or_default(), "{dropped:?}");
    let words = words.lock().unwrap();
    let seen: Vec<&str> = words.keys().map(String::as_str).collect();
    assert_eq!(seen, ["", "a", "ab"], "{words:?}");
    let mirrored = dropped.get(&("span-input".into(), "packets mirrored".into())).copied();
    assert!(mirrored.is_some_and(|copies| copies > 0), "{dropped:?}");
    assert!(bed.others[0].core().ledger().taken > 0, "some were handed over");
}

#[test]
fn an_interface_that_comes_back_has_no_features() {
    let (mut bed, _) = with_labels();
    bed.command("create loopback interface instance 7").unwrap();
    bed.command("set urpf ip4 rx strict loop7").unwrap();
    let index = bed.router.interfaces.find("loop7").unwrap();
    assert_eq!(bed.router.graph.chain("ip4-unicast", index).unwrap().len(), 1);
    bed.command("delete loopback interface intfc loop7").unwrap();
    assert_eq!(bed.router.graph.chain("ip4-unicast", index).unwrap(), []);
    assert_eq!(bed.router.graph.chain("ip4-unicast", InterfaceIndex(1 << 30)).unwrap(), []);
}

/// Half a switch: what a port receives it sends by another, along the features of what leaves there.
struct CrossConnect {
    to: InterfaceIndex,
    arc: graph::ArcIndex,
}

graph::edges! {
    enum CrossEdge {
        Output => next "interface-output",
        Features => arc "l2-output",
    }
}

impl Map for CrossConnect {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            vector.set_tx_interface(i, self.to);
            vector.send(i, cx.chain(self.arc, self.to), CrossEdge::Output.into());
        }
    }
}

#[test]
fn a_switch_finds_its_arcs_ready() {
    let (mut bed, ports) = Bed::with_three_ports();
    let graph = &mut bed.router.graph;
    let arc = graph.arc("l2-output").unwrap();
    let spec = NodeSpec { name: "l2-cross".into(), edges: CrossEdge::EDGES, counters: &[], trace: |_, _| Ok(()) };
    let to = ports[1].index;
    graph.register(spec, |_| Behaviour::Map(Box::new(CrossConnect { to, arc }))).unwrap();
    graph.register_feature(Feature { arc: "l2-input", node: "l2-cross", after: &[], before: &[] }).unwrap();
    let seen = witness(&mut bed, "l2-output", "l2-witness", &[]);
    let group = MacAddress([1, 0x80, 0xc2, 0, 0, 0]);
    let frame = ethernet(group, host_mac(ip("10.0.0.2")), 38, &[&[0x42, 0x42, 3][..], &[7; 35]].concat());
    let pass = |bed: &mut Bed| {
        (0..3).for_each(|_| ports[0].receive(frame.clone()));
        bed.run();
        (ports[1].sent(), std::mem::take(&mut *seen.lock().unwrap()))
    };
    assert_eq!(pass(&mut bed), (vec![], vec![]));
    set(&mut bed, "l2-input", "l2-cross", &ports[0], true);
    assert_eq!(pass(&mut bed), (vec![frame.clone(); 3], vec![]));
    set(&mut bed, "l2-output", "l2-witness", &ports[1], true);
    assert_eq!(pass(&mut bed), (vec![frame.clone(); 3], vec![(ports[0].index.0, ports[1].index.0); 3]));
    set(&mut bed, "l2-input", "l2-cross", &ports[0], false);
    assert_eq!(pass(&mut bed), (vec![], vec![]));
}
