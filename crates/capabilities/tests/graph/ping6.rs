//! `ping` of IPv6 hosts: what is as that of IPv4 is tested there.

use crate::bed::{Bed, Port, error};
use crate::bed6::{bed, bed_of, mac_of};
use crate::packet6::*;
use crate::ping::{Asked, told};
use router::neighbour::NeighbourKey;
use std::time::Duration;
use wire::MacAddress;

const HOST: &str = "2001:db8::2";
const OURS: &str = "2001:db8::1";
const LINK_LOCAL: &str = "fe80::ff:fe00:1000";
const FAR_HOST: &str = "fe80::9";
const FAR_MAC: MacAddress = MacAddress([2, 0xaa, 0, 0, 9, 9]);

/// The one echo request that a port sent to a station, checked in all but its identifier.
fn asked(port: &Port, mac: MacAddress, from: &str, to: &str, size: usize) -> Asked {
    let sent = port.sent();
    assert_eq!(sent.len(), 1, "{sent:02x?}");
    let half = |at: usize| u16::from_be_bytes([sent[0][54 + at], sent[0][54 + at + 1]]);
    let asked = Asked { identifier: half(4), sequence: half(6) };
    let data: Vec<u8> = (0..size).map(|n| n as u8).collect();
    let expected = Packet6::icmp(from, to, (128, 0), asked.rest(), &data);
    assert_eq!(sent[0], expected.frame(mac, port.mac));
    asked
}

fn reply_to(asked: Asked, from: &str, to: &str) -> Packet6 {
    Packet6::icmp(from, to, (129, 0), asked.rest(), &[0; 88])
}

fn receive(port: &Port, mac: MacAddress, packet: &Packet6) {
    port.receive(packet.frame(port.mac, mac));
}

#[test]
fn requests_are_paced_and_replies_told() {
    let (mut bed, [e0, ..]) = bed();
    let reply = bed.begin("ping 2001:db8::2 repeat 3 interval 0.5").unwrap();
    bed.run();
    for sequence in 1..=3 {
        let asked = asked(&e0, mac_of(0), OURS, HOST, 88);
        assert_eq!(asked.sequence, sequence);
        let mut answer = reply_to(asked, HOST, OURS).hops(60 + sequence as u8);
        if sequence == 2 {
            answer = answer.extension(OPTIONS, &[1, 4, 0, 0, 0, 0]);
        }
        let moved = bed.errors_of(|_| receive(&e0, mac_of(0), &answer));
        assert_eq!(moved, error("ip6-icmp-input", "ICMPv6 answers to our requests", 1));
        bed.advance(Duration::from_millis(501));
    }
    assert_eq!(
        told(&bed, &*reply),
        "96 bytes from 2001:db8::2: icmp_seq=1 ttl=61 ms\n104 bytes from 2001:db8::2: icmp_seq=2 ttl=62 ms\n\
         96 bytes from 2001:db8::2: icmp_seq=3 ttl=63 ms\n\nStatistics: 3 sent, 3 received, 0% packet loss\n"
    );
    // With the word that VPP has, from another interface's address, with fewer hops.
    let _reply = bed.begin("ping ipv6 2001:db8::2 repeat 1 size 3 ttl 9 source e2").unwrap();
    bed.run();
    let sent = e0.sent();
    assert_eq!((sent[0].len(), sent[0][21], &sent[0][22..38]), (54 + 11, 9, &ip6("2001:db8:2::1").octets()[..]));
}

#[test]
fn errors_about_our_requests_are_told_by_name() {
    let (mut bed, [_, e1, _]) = bed();
    let reply = bed.begin("ping 2001:db8:24::9 repeat 5 interval 0.1 size 8").unwrap();
    for (kind, code, rest) in [(1, 0, 0), (2, 0, 1280), (3, 0, 0), (4, 1, 6), (1, 200, 0)] {
        bed.run();
        let request = e1.sent()[0][54 - 40..].to_vec();
        // Some other error first, which quotes something else.
        let (mut foreign, mut elsewhere) = (request.clone(), request.clone());
        foreign[6] = 17;
        elsewhere[39] ^= 1;
        let quotes = [(&foreign[..], 9), (&elsewhere, 9), (&request[..47], 9), (&[0x6f; 28], 9), (&request, code)];
        for (quote, code) in quotes {
            let error = Packet6::icmp("2001:db8:1::2", "2001:db8:1::1", (kind, code), rest, quote);
            receive(&e1, mac_of(1), &error);
        }
        bed.run();
        bed.advance(Duration::from_millis(101));
    }
    assert_eq!(
        told(&bed, &*reply),
        "From 2001:db8:1::2: icmp_seq=1 destination_unreachable_no_route\n\
         From 2001:db8:1::2: icmp_seq=2 packet_too_big\n\
         From 2001:db8:1::2: icmp_seq=3 ttl_exceeded_in_transit\n\
         From 2001:db8:1::2: icmp_seq=4 unrecognized_next_header\n\
         From 2001:db8:1::2: icmp_seq=5 destination_unreachable code 200\n\n\
         Statistics: 5 sent, 0 received, 100% packet loss\n"
    );
}

/// The same address on another link is another station (RFC 4007 section 6).
#[test]
fn a_link_local_host_is_of_its_link() {
    let (mut bed, [e0, e1, _]) = bed();
    for port in [&e0, &e1] {
        let key = NeighbourKey::new(port.index, ip6(FAR_HOST));
        bed.router.set_neighbour(key, FAR_MAC, true).unwrap();
    }
    // No route takes it elsewhere.
    bed.command("ip route add ::/0 via 2001:db8:2::2").unwrap();
    let reply = bed.begin("ping fe80::9 source e0 repeat 1").unwrap();
    bed.run();
    let asked = asked(&e0, FAR_MAC, LINK_LOCAL, FAR_HOST, 88);
    let e1_address = "fe80::ff:fe00:1001";
    let moved = bed.errors_of(|_| receive(&e1, FAR_MAC, &reply_to(asked, FAR_HOST, e1_address)));
    assert_eq!(moved, error("ip6-punt-redirect", "ICMPv6 message that asks for nothing", 1));
    receive(&e0, FAR_MAC, &reply_to(asked, FAR_HOST, LINK_LOCAL));
    bed.run();
    assert_eq!(
        told(&bed, &*reply),
        "96 bytes from fe80::9: icmp_seq=1 ttl=64 ms\n\nStatistics: 1 sent, 1 received, 0% packet loss\n"
    );
}

#[test]
fn a_neighbour_is_asked_for_first_and_one_that_is_silent_is_told_of() {
    for (host, from, source) in [("2001:db8::77", OURS, ""), ("fe80::77", LINK_LOCAL, " source e0")] {
        let (mut bed, [e0, ..]) = bed();
        let reply = bed.begin(&format!("ping {host} repeat 2 interval 10{source}")).unwrap();
        bed.run();
        assert_eq!(e0.sent()[0][54], 135);
        let answer = Packet6::discovery(
            host,
            from,
            136,
            0x6000_0000,
            &[&ip6(host).octets()[..], &link_option(2, FAR_MAC)].concat(),
        );
        receive(&e0, FAR_MAC, &answer);
        bed.run();
        let first = asked(&e0, FAR_MAC, from, host, 88);
        receive(&e0, FAR_MAC, &reply_to(first, host, from));
        bed.run();
        bed.command(&format!("ip6 neighbor del e0 {host}")).unwrap();
        let moved = bed.errors_of(|bed| (0..15).for_each(|_| bed.advance(Duration::from_millis(1001))));
        assert_eq!(
            moved.get(&("ip6-icmp-error".into(), "echo requests of this router that were not forwarded".into())),
            Some(&1)
        );
        e0.sent();
        assert_eq!(
            told(&bed, &*reply),
            format!(
                "96 bytes from {host}: icmp_seq=1 ttl=64 ms\nFrom {from}: icmp_seq=2 address_unreachable\n\n\
                 Statistics: 2 sent, 1 received, 50% packet loss\n"
            )
        );
    }
}

#[test]
fn what_is_no_answer_does_not_count() {
    let (mut bed, [e0, e1, _]) = bed();
    let reply = bed.begin("ping 2001:db8::2 repeat 2").unwrap();
    bed.run();
    let right = asked(&e0, mac_of(0), OURS, HOST, 88);
    let moved = bed.errors_of(|_| {
        let other = Asked { identifier: right.identifier ^ 1, ..right };
        receive(&e0, mac_of(0), &reply_to(other, HOST, OURS));
        // From another host than the one that was asked.
        (0..9).for_each(|_| receive(&e1, mac_of(1), &reply_to(right, "2001:db8:1::2", "2001:db8:1::1")));
    });
    assert_eq!(moved, error("ip6-punt-redirect", "ICMPv6 message that asks for nothing", 10));
    // One and a duplicate for each request; more do not reach control.
    let moved = bed.errors_of(|_| (0..10).for_each(|_| receive(&e0, mac_of(0), &reply_to(right, HOST, OURS))));
    let mut expected = error("ip6-icmp-input", "ICMPv6 answers to our requests", 2);
    expected.extend(error("ip6-punt-redirect", "ICMPv6 message that asks for nothing", 8));
    assert_eq!(moved, expected);
    (0..3).for_each(|_| bed.advance(Duration::from_millis(1001)));
    assert_eq!(
        told(&bed, &*reply),
        "96 bytes from 2001:db8::2: icmp_seq=1 ttl=64 ms\n96 bytes from 2001:db8::2: icmp_seq=1 ttl=64 ms \
         (duplicate)\n\n\
         Statistics: 2 sent, 1 received, 50% packet loss\n"
    );
}

#[test]
fn our_own_addresses_answer_at_any_size() {
    let (mut bed, ports) = bed();
    bed.command("create loopback interface instance 3").unwrap();
    bed.command("set interface state loop3 up").unwrap();
    bed.command("enable ip6 interface loop3").unwrap();
    let shown = bed.command("show ip6 interface loop3").unwrap();
    let loopback = shown.split_whitespace().find(|word| word.starts_with("fe80::")).unwrap().to_string();
    let loopback = loopback.split('/').next().unwrap();
    for (host, source) in [("2001:db8:2::1", ""), (LINK_LOCAL, " source e0"), (loopback, " source loop3")] {
        for size in [0, 88, 2020, 2021, 65487] {
            let reply = bed.begin(&format!("ping {host} repeat 2 interval 0.1 size {size}{source}")).unwrap();
            bed.run();
            bed.advance(Duration::from_millis(101));
            let bytes = size + 8;
            assert_eq!(
                told(&bed, &*reply),
                format!(
                    "{bytes} bytes from {host}: icmp_seq=1 ttl=64 ms\n{bytes} bytes from {host}: icmp_seq=2 ttl=64 \
                     ms\n\n\
                     Statistics: 2 sent, 2 received, 0% packet loss\n"
                )
            );
        }
    }
    assert_eq!(bed.buffers_in_use(), 0);
    assert!(ports.iter().all(|port| port.sent().is_empty()));
}

#[test]
fn refusals_come_at_once() {
    let (mut bed, ports) = bed();
    for line in [
        "set interface mtu ip6 1300 e0",
        "ip6 table add 9",
        "enable ip6 interface e2",
        "set interface ip address del e2 all",
    ] {
        bed.command(line).unwrap();
    }
    bed.port("bare", &[]);
    for (line, refusal) in [
        ("ping 2001:db8:99::1", "no route to 2001:db8:99::1"),
        ("ping 2001:db8:20::1", "no route to 2001:db8:20::1: packets to 2001:db8:20::/48 are not forwarded"),
        ("ping ff02::1", "ff02::1 is no host's address"),
        ("ping ::", ":: is no host's address"),
        ("ping fe80::9", "fe80::9 is link-local, of one link only: name its interface, as in 'ping fe80::9 source e0'"),
        ("ping fe80::9 source bare", "interface bare has no IPv6 address to ping from"),
        ("ping 2001:db8::2 source e2", "interface e2 has no global IPv6 address to ping from"),
        // Nobody cuts it on its way.
        (
            "ping 2001:db8::2 size 1253",
            "a packet of 1301 bytes is over the mtu of 1300 and must not be fragmented: size is at most 1252",
        ),
        (
            "ping 2001:db8::1 size 65488",
            "a packet of 65536 bytes is over the mtu of 65535 and must not be fragmented: size is at most 65487",
        ),
        ("ping 2001:db8::2 table-id 9", "no route to 2001:db8::2"),
    ] {
        assert_eq!(bed.begin(line).err().unwrap(), format!("ping: {refusal}"), "{line}");
    }
    // An address that is not used yet is said to be so.
    bed.command("set ip6 dad transmits 1").unwrap();
    bed.command("set interface ip address e2 2001:db8:2::1/64").unwrap();
    let refusal = bed.begin("ping 2001:db8::2 source e2").err().unwrap();
    assert_eq!(
        refusal,
        "ping: 2001:db8:2::1 of e2 is not used to ping from: it is tentative ('show ip6 interface e2')"
    );
    for line in ["ping ipv6 10.0.0.1", "ping ipv4 2001:db8::2", "ping ipv6"] {
        assert!(bed.begin(line).is_err(), "{line}");
    }
    bed.command("set interface state e0 down").unwrap();
    assert_eq!(bed.begin("ping fe80::9 source e0").err().unwrap(), "ping: no route to fe80::9");
    bed.run();
    assert!(ports.iter().all(|port| port.sent().iter().all(|frame| frame[54] != 128)));
}

/// RFC 6724 section 5: an interface without an address of the host's scope speaks from another's.
#[test]
fn a_way_without_a_global_address_has_one_of_another_interface() {
    let (mut bed, [e0, ..]) = bed();
    for line in [
        "set interface ip address del e0 all",
        "enable ip6 interface e0",
        "ip6 neighbor e0 fe80::9 02:aa:00:00:09:09",
        "ip route add 2001:db8:9::/48 via fe80::9 e0",
    ] {
        bed.command(line).unwrap();
    }
    bed.run();
    e0.sent();
    let _reply = bed.begin("ping 2001:db8:9::1 repeat 1").unwrap();
    bed.run();
    asked(&e0, FAR_MAC, "2001:db8:1::1", "2001:db8:9::1", 88);
}

#[test]
fn what_cannot_go_is_counted_by_name() {
    let (mut bed, [e0, ..]) = bed();
    let mut all = vec![graph::PacketIndex::NONE; 4096];
    let got = bed.worker.core().buffers.allocate(&mut all);
    let mut replies = Vec::new();
    let moved = bed.errors_of(|bed| replies.push(bed.begin("ping 2001:db8::2 repeat 1").unwrap()));
    assert_eq!(moved, error("ip6-ping", "no free buffer", 1));
    bed.worker.core().buffers.free(&all[..got]);
    // The link goes while the request is on its way to the worker.
    let moved = bed.errors_of(|bed| {
        bed.command("enable ip6 interface e0").unwrap();
        replies.push(bed.begin("ping fe80::9 source e0 repeat 1").unwrap());
        bed.command("set interface ip address del e0 all").unwrap();
        bed.command("disable ip6 interface e0").unwrap();
    });
    assert_eq!(moved.get(&("ip6-ping".into(), "echo request has no link to go onto".into())), Some(&1), "{moved:?}");
    assert!(e0.sent().iter().all(|frame| frame[54] != 128));
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn control_that_does_not_listen_costs_pings_by_name() {
    let (mut bed, [e0, ..]) = bed_of(Bed::with_room_for_events(1));
    let _first = bed.begin("ping 2001:db8::2 repeat 2").unwrap();
    bed.run();
    let request = asked(&e0, mac_of(0), OURS, HOST, 88);
    receive(&e0, mac_of(0), &reply_to(request, HOST, OURS));
    while bed.worker.round() != graph::Progress::Idle {}
    let _second = bed.begin("ping 2001:db8::2 repeat 1").unwrap();
    receive(&e0, mac_of(0), &reply_to(request, HOST, OURS));
    while bed.worker.round() != graph::Progress::Idle {}
    let count = |bed: &Bed, node: &str, reason: &str| bed.errors().get(&(node.into(), reason.into())).copied();
    assert_eq!(count(&bed, "ip6-ping", "control is busy, not sent"), Some(1));
    assert_eq!(count(&bed, "ip6-icmp-input", "control is busy, answer not told"), Some(1));
    bed.run();
    assert_eq!(bed.buffers_in_use(), 0);
}
