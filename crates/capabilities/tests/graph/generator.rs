//! Streams of the packet generator: where their packets can enter, and what comes out.

use crate::bed::host_mac;
use crate::mpls::{all, bed, mac6};
use crate::packet::ip;
use drivers::pg::{Content, Stream};
use features::packet_generator::entry;
use wire::MacAddress;

/// For each node: a stream's data, the station that its packets are sent to, and their first bytes behind the
/// addresses.
fn streams() -> [(&'static str, &'static str, MacAddress, Vec<u8>); 6] {
    const IP4: &str = "UDP: 10.0.0.2 -> 10.0.1.2 UDP: 1 -> 2 hex 0xcafe";
    const IP6: &str = "UDP: 2001:db8::2 -> 2001:db8:1::2 UDP: 1 -> 2 hex 0xcafe";
    const FRAME: &str = "IP4: 02:bb:00:00:00:02 -> 02:fe:00:00:00:00 UDP: 10.0.0.2 -> 10.0.1.2 UDP: 1 -> 2 hex 0xcafe";
    let host = host_mac(ip("10.0.1.2"));
    let ip4 = || vec![8, 0, 0x45, 0, 0, 30];
    let ip6 = || vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, 10];
    [
        ("ethernet-input", FRAME, host, ip4()),
        ("ip4-input", IP4, host, ip4()),
        ("ip4-input-no-checksum", IP4, host, ip4()),
        ("ip6-input", IP6, mac6(1), ip6()),
        (
            "mpls-input",
            "IP4: label 16 UDP: 10.9.0.2 -> 10.9.1.2 UDP: 1 -> 2",
            host,
            vec![0x88, 0x47, 0, 1, 0x11, 63, 0x45],
        ),
        ("mpls-input", "IP6: label 17 UDP: 2001:db8::2 -> 2001:db8:1::2 UDP: 1 -> 2 hex 0xcafe", mac6(1), ip6()),
    ]
}

#[test]
fn packets_enter_where_a_stream_says() {
    for size in ["", "size 80-300", "size 300+1500"] {
        let (mut bed, ports) = bed();
        all(
            &mut bed,
            &[
                "mpls local-label add 16 eos via 10.0.1.2 e1 out-labels 17",
                "mpls local-label add 17 eos via ip6-lookup-in-table 0",
            ],
        );
        for (node, data, to, begin) in streams() {
            let data = data.replace("02:fe:00:00:00:00", &ports[0].mac.to_string());
            let stream = format!("name s limit 10 {size} interface e0 node {node} data {{ {data} }}");
            all(&mut bed, &[&format!("packet-generator new {{ {stream} }}"), "packet-generator enable-stream s"]);
            let sent = ports[1].sent();
            assert_eq!(sent.len(), 10, "{node}: {:?}", bed.errors());
            for frame in sent {
                let length = if size.is_empty() { begin.len() } else { 3 };
                assert_eq!(frame[..6], to.0, "{node}");
                assert_eq!(frame[12..12 + length], begin[..length], "{node}");
            }
            all(&mut bed, &["packet-generator delete s"]);
        }
    }
    let nodes: Vec<&str> = streams().iter().map(|stream| stream.0).collect();
    assert!(entry::BY_NODE.iter().all(|(node, _)| nodes.contains(node) || *node == "pg-stall"), "one is not tried");
}

#[test]
fn a_trace_shows_what_a_streams_packets_begin_with() {
    for (node, data, shown) in [
        ("ip6-input", "UDP: 2001:db8::2 -> 2001:db8:1::2 UDP: 1 -> 2", "2001:db8::2 -> 2001:db8:1::2"),
        ("mpls-input", "IP4: label 99 UDP: 10.9.0.2 -> 10.9.1.2 UDP: 1 -> 2", "label 99"),
        ("ip4-input", "UDP: 10.0.0.2 -> 10.0.1.2 UDP: 1 -> 2", "10.0.0.2 -> 10.0.1.2"),
        (
            "ethernet-input",
            "IP4: 02:bb:00:00:00:02 -> 02:fe:00:00:00:00 UDP: 10.0.0.2 -> 10.0.1.2 UDP: 1 -> 2",
            "02:bb:00:00:00:02 -> 02:fe:00:00:00:00",
        ),
    ] {
        // The packets of an interface that is down are shown as well.
        for state in ["up", "down"] {
            let (mut bed, _) = bed();
            all(
                &mut bed,
                &[
                    &format!("set interface state e0 {state}"),
                    &format!("packet-generator new {{ name s limit 1 interface e0 node {node} data {{ {data} }} }}"),
                    "trace add pg-input 1",
                    "packet-generator enable-stream s",
                ],
            );
            let trace = bed.ask("show trace").unwrap();
            let first = trace.split("pg-input").nth(1).unwrap().lines().skip(1).take(3).collect::<Vec<_>>().join("\n");
            assert!(first.contains(shown), "{node} {state}: {trace}");
        }
    }
}

/// Bytes that are none of what a node expects end under a name, and no packet is lost sight of.
#[test]
fn rubbish_ends_under_a_name_wherever_it_enters() {
    let rubbish = [vec![0], vec![0xff; 3], vec![0x45; 19], vec![0x60; 40], vec![0, 1, 0, 64], vec![0xff; 2048]];
    for (node, entry) in entry::BY_NODE.into_iter().filter(|(node, _)| *node != "pg-stall") {
        for bytes in &rubbish {
            let (mut bed, [e0, ..]) = bed();
            let mut stream = Stream::new("s", e0.index, Content::Replay(vec![bytes.clone()]));
            (stream.entry, stream.limit) = (entry, 5);
            features::packet_generator::add(&mut bed.router, stream, 0, String::new(), Vec::new()).unwrap();
            let moved = bed.errors_of(|bed| features::packet_generator::enable(&mut bed.router, None, true).unwrap());
            assert_eq!(moved.values().sum::<u64>(), 5, "{node} {:x?}: {moved:?}", &bytes[..1]);
            assert_eq!(bed.buffers_in_use(), 0, "{node} {:x?}", &bytes[..1]);
        }
    }
}
