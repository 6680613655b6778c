//! Packets that were not forwarded stay visible. They count as drops of the interface that received them, whatever
//! errors their senders get. Their trace shows where they wait, hand-offs, and where they leave. The neighbour that
//! they wait for is named.

use crate::arp::{reply, to_unknown};
use crate::bed::{Bed, Port, error};
use crate::bed6;
use crate::packet::*;
use crate::packet6::Packet6;
use router::neighbour::control::REQUESTS;
use std::time::Duration;
use wire::MacAddress;

const HOST: MacAddress = MacAddress([2, 0xbb, 0, 0, 0, 9]);
const SECOND: Duration = Duration::from_millis(1001);

/// The packets that a port received, and its drops.
fn rx_and_drops(bed: &Bed, port: &Port) -> (u64, u64) {
    let counters = bed.counters(port);
    (counters[0], counters[5])
}

#[test]
fn what_is_answered_with_an_error_is_a_drop_of_its_interface() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.router.set_mtu(e1.index, 1000).unwrap();
    bed.command("ip route add 22.0.0.0/8 via unreachable").unwrap();
    bed.command("ip route add 24.0.0.0/8 via prohibit").unwrap();
    let udp = |to: &str| Packet::udp("10.0.0.2", to, b"data");
    let cases = [
        ("ICMP time exceeded sent", udp("10.0.1.2").ttl(1)),
        ("ICMP net unreachable sent", udp("99.1.2.3")),
        ("ICMP host unreachable sent", udp("22.1.2.3")),
        ("ICMP admin prohibited sent", udp("24.1.2.3")),
        ("ICMP protocol unreachable sent", Packet::new("10.0.0.2", "10.0.0.1", 89, b"hello")),
        ("ICMP port unreachable sent", udp("10.0.0.1")),
        ("ICMP fragmentation needed sent", Packet::udp("10.0.0.2", "10.0.1.2", &[1; 1200]).fragment(0x4000)),
        ("no ICMP error about a later fragment", udp("99.1.2.3").fragment(3)),
    ];
    for (number, (name, packet)) in (1..).zip(cases) {
        let mut moved = bed.errors_of(|_| drop(e0.receive_packet(&packet)));
        moved.retain(|(node, _), _| node != "ip4-rewrite");
        assert_eq!(moved, error("ip4-icmp-error", name, 1));
        assert_eq!(rx_and_drops(&bed, &e0), (number, number), "{name}");
        let shown = bed.router.graph.errors().iter().find(|error| error.reason == name).unwrap();
        assert_eq!(shown.outcome.to_string(), "dropped", "{name}");
    }
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn so_it_is_in_ipv6() {
    let (mut bed, ports) = bed6::bed();
    let (received, dropped) = rx_and_drops(&bed, &ports[0]);
    let udp = bed6::from_e0;
    let cases = [
        ("ICMPv6 hop limit exceeded sent", udp("2001:db8:1::2").hops(1)),
        ("ICMPv6 no route sent", udp("2001:db9::1")),
        ("ICMPv6 address unreachable sent", udp("2001:db8:22::1")),
        ("ICMPv6 admin prohibited sent", udp("2001:db8:23::1")),
        ("ICMPv6 port unreachable sent", udp(bed6::OURS)),
        ("ICMPv6 unrecognized next header sent", Packet6::new("2001:db8::2", bed6::OURS, 253, b"data")),
    ];
    for (number, (name, packet)) in (1..).zip(cases) {
        let moved = bed.errors_of(|_| bed6::send(&ports, &packet));
        assert_eq!(moved[&("ip6-icmp-error".into(), name.into())], 1, "{moved:?}");
        assert_eq!(rx_and_drops(&bed, &ports[0]), (received + number, dropped + number), "{name}");
    }
}

#[test]
fn who_never_answers_costs_drops_too() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    e0.receive_packet(&to_unknown(1));
    bed.run();
    assert_eq!(rx_and_drops(&bed, &e0), (1, 0), "it waits");
    (0..=REQUESTS).for_each(|_| bed.advance(SECOND));
    assert_eq!(rx_and_drops(&bed, &e0), (1, 1));
}

/// The nodes of a trace, without times and packet headers, and the lines about waiting and hand-off.
fn nodes(trace: &str) -> Vec<String> {
    let node = |line: &str| Some(line.split_once(": ")?.1).filter(|_| line.starts_with("00:")).map(str::to_string);
    let said = |line: &str| (line.contains("waiting for") || line.contains("handed")).then(|| line.trim().to_string());
    trace.lines().filter_map(|line| node(line).or_else(|| said(line))).collect()
}

#[test]
fn a_trace_tells_what_a_packet_waits_for_and_follows_it_out() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.command("trace add test-input 10").unwrap();
    e0.receive_packet(&to_unknown(1));
    bed.run();
    let way = ["test-input", "ethernet-input", "ip4-input", "ip4-lookup", "ip4-glean", "ip4-rewrite", "ip4-arp"];
    let waits = |asked: &str| {
        [&way[..], &[&format!("ip4-arp: waiting for 10.0.1.77 on e1, asked {asked}")]].concat().join("\n")
    };
    assert_eq!(nodes(&bed.ask("show trace").unwrap()).join("\n"), waits("once"));
    bed.advance(SECOND);
    assert_eq!(nodes(&bed.ask("show trace").unwrap()).join("\n"), waits("2 times"));
    assert!(bed.command("show errors").unwrap().contains("ip4-arp: waiting for 10.0.1.77 on e1, asked 2 times\n"));
    reply(&e1, (HOST, "10.0.1.77"), "10.0.1.1");
    bed.run();
    let trace = nodes(&bed.ask("show trace").unwrap()).join("\n");
    let out = "ip4-arp\nip4-lookup\nip4-rewrite\ne1-output\ne1-tx";
    let waited = [&way[..], &["ip4-arp: waiting for 10.0.1.77 on e1"]].concat().join("\n");
    assert!(trace.starts_with(&format!("{waited}\n{out}")), "{trace}");
    assert!(!bed.command("show errors").unwrap().contains("10.0.1.77"));
}

#[test]
fn neighbours_without_an_answer_are_named_with_the_errors() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    (1..=25)
        .for_each(|host| drop(e0.receive_packet(&Packet::udp("10.0.0.2", &format!("10.0.1.{}", 100 + host), b"x"))));
    bed.run();
    let shown = bed.command("show errors").unwrap();
    assert_eq!(shown.matches("waiting for 10.0.1.").count(), 20, "{shown}");
    assert!(
        shown.ends_with("5 more neighbours without an answer: 'show ip neighbors', 'show ip6 neighbors'\n"),
        "{shown}"
    );
    (0..=REQUESTS).for_each(|_| bed.advance(SECOND));
    let shown = bed.command("show errors").unwrap();
    assert!(shown.contains("ip4-arp: 10.0.1.101 on e1 did not answer\n"), "{shown}");
    let json = bed.json("show errors");
    assert_eq!(
        (&json["unresolved"]["named"][0]["interface"], &json["unresolved"]["others"]),
        (&"e1".into(), &5.into())
    );
}

#[test]
fn a_trace_follows_a_packet_to_another_worker() {
    let mut bed = Bed::with_workers(2);
    let ports = [0, 1].map(|number| {
        let port = bed.port(&format!("e{number}"), &[&format!("10.0.{number}.1/24")]);
        bed.know(&port, &format!("10.0.{number}.2"));
        port
    });
    // In this bed a device sends on its own worker only, whichever worker received the packet.
    for from in [0, 1] {
        bed.command(&format!("set interface rx-placement e{from} worker 0")).unwrap();
        (0..2).for_each(|_| bed.run());
    }
    bed.command("trace add test-input 10").unwrap();
    for (from, to) in [(0, 1), (1, 0)] {
        let (source, target) = (format!("10.0.{from}.2"), format!("10.0.{to}.2"));
        ports[from].receive_packet(&Packet::udp(&source, &target, b"data"));
        bed.run();
        assert_eq!(ports[to].sent().len(), 1);
    }
    let trace = bed.ask("show trace").unwrap();
    let steps = nodes(&trace);
    assert!(steps.iter().any(|step| step == "e0-tx") && steps.iter().any(|step| step == "e1-tx"), "{trace}");
    assert!(steps.iter().any(|step| step == "handed over to thread 2 quiver_wk_1"), "{trace}");
    // Both packets were marked by the first worker, and are listed there.
    let of_second = trace.split("Start of thread 2").nth(1).unwrap();
    assert!(of_second.contains("No packets in trace buffer"), "{trace}");
}
