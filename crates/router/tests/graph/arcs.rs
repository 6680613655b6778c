//! The router's feature arcs: a feature that only looks sees each packet of its interface once, and nothing else
//! changes.

use crate::bed::{Bed, Port, host_mac};
use crate::mpls::{MPLS, all, bed, labelled, mac6, stack, to_host};
use crate::packet::*;
use crate::packet6::Packet6;
use graph::node::{Behaviour, Map, NodeSpec};
use graph::{Context, Feature, InterfaceIndex, Vector, edge};
use std::sync::{Arc, Mutex};

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
        assert!(ways.iter().any(|way| way.arc == arc), "no packet passes {arc}");
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
    assert_eq!(bed.errors().get(&("dispatcher".into(), "edge leads nowhere".into())), None);
}

/// A feature is enabled before it is told what to do on an interface, and disabled after that.
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
