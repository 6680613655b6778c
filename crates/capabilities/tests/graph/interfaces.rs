//! Interfaces: loopbacks, MTUs, and which frames they accept.

use crate::bed::{Bed, error, prefix};
use crate::packet::*;
use devices::loopback::LoopbackOptions;
use graph::directory::{Column, Of};
use router::Error;
use router::ip::control::TableIndex;
use router::neighbour::NeighbourKey;
use wire::MacAddress;

#[test]
fn a_loopback_has_vpps_name_and_address() {
    let mut bed = Bed::new();
    assert_eq!(bed.command("create loopback interface").unwrap(), "loop0\n");
    assert_eq!(bed.command("create loopback interface instance 258").unwrap(), "loop258\n");
    assert_eq!(bed.command("create loopback interface").unwrap(), "loop1\n");
    assert_eq!(bed.command("create loopback interface mac 02:00:00:00:00:09 name lo").unwrap(), "lo\n");
    let mac = |bed: &Bed, name: &str| {
        let index = bed.router.interfaces.find(name).unwrap();
        bed.router.interfaces.get(index).unwrap().mac
    };
    assert_eq!(mac(&bed, "loop0"), MacAddress([0xde, 0xad, 0, 0, 0, 0]));
    assert_eq!(mac(&bed, "loop258"), MacAddress([0xde, 0xad, 0, 0, 1, 2]));
    assert_eq!(mac(&bed, "lo"), MacAddress([2, 0, 0, 0, 0, 9]));
    let taken = bed.command("create loopback interface instance 258 name other").unwrap_err();
    assert!(taken.contains("loopback 258 is loop258 already"), "{taken}");
    // `delete loopback` deletes loopbacks only, and frees the number.
    bed.command("create null interface name n0").unwrap();
    let refused = bed.command("delete loopback interface intfc n0").unwrap_err();
    assert!(refused.contains("n0 is no loopback but of the driver null"), "{refused}");
    bed.command("delete loopback interface intfc loop258").unwrap();
    assert_eq!(bed.command("create loopback interface instance 258").unwrap(), "loop258\n");
}

#[test]
fn a_loopbacks_address_answers_on_every_interface_while_it_is_up() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.command("create loopback interface").unwrap();
    bed.command("set interface ip address loop0 9.9.9.9/32").unwrap();
    let ask = |bed: &mut Bed| {
        e0.receive_packet(&Packet::echo_request("10.0.0.2", "9.9.9.9", b"data"));
        e1.receive_packet(&Packet::echo_request("10.0.1.2", "9.9.9.9", b"data"));
        bed.run();
        (e0.sent().len(), e1.sent().len())
    };
    // While loop0 is down there is no route, and both senders get an error.
    let moved = bed.errors_of(|bed| assert_eq!(ask(bed), (1, 1)));
    assert_eq!(moved, error("ip4-icmp-error", "ICMP net unreachable sent", 2));
    bed.command("set interface state loop0 up").unwrap();
    e0.receive_packet(&Packet::echo_request("10.0.0.2", "9.9.9.9", b"data"));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("ip4-icmp-input", "echo replies sent", 1), "and nothing was announced to nobody");
    let sent = e0.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][26..30], [9, 9, 9, 9]);
    assert_eq!(ask(&mut bed), (1, 1));
}

#[test]
fn behind_a_loopback_is_nobody() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.command("create loopback interface").unwrap();
    bed.command("set interface state loop0 up").unwrap();
    bed.command("set interface ip address loop0 9.9.9.1/24").unwrap();
    bed.command("ip route add 40.0.0.0/8 via 9.9.9.7").unwrap();
    for to in ["9.9.9.7", "40.1.2.3"] {
        e0.receive_packet(&Packet::udp("10.0.0.2", to, b"data"));
        let moved = bed.errors_of(|_| {});
        assert_eq!(moved, error("loop0-tx", "nothing is behind a loopback interface", 1), "{to}");
        assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0), "nobody is asked for, nothing waits");
    }
    let interface = bed.router.interfaces.find("loop0").unwrap();
    let key = NeighbourKey::new(interface, ip("9.9.9.7"));
    let refused = bed.router.set_neighbour(key, MacAddress([2, 0, 0, 0, 0, 1]), true);
    assert!(matches!(refused, Err(Error::NoNeighbours(_))));
    // The route is removed with the loopback.
    bed.command("delete loopback interface intfc loop0").unwrap();
    assert!(bed.router.ip.longest_match(TableIndex::DEFAULT, ip("9.9.9.1").into()).is_none());
    bed.router.add_address(e0.index, prefix("9.9.9.1/24")).unwrap();
}

#[test]
fn the_smallest_mtu_that_applies_counts() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    // The longest packet with don't-fragment that is forwarded: the MTU of the adjacency.
    let longest = |bed: &mut Bed, settings: &[&str]| {
        settings.iter().for_each(|line| drop(bed.command(line).unwrap_or_else(|error| panic!("{line}: {error}"))));
        let mtu = bed.router.interfaces.get(e1.index).unwrap().ip4_mtu;
        for (length, passes) in [(mtu, true), (mtu + 1, false)] {
            let data = vec![0; length as usize - 28];
            e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.2", &data).fragment(DONT_FRAGMENT));
            bed.run();
            assert_eq!(e1.sent().len(), usize::from(passes), "{length} bytes after {settings:?}");
            let told = e0.sent();
            assert_eq!(told.len(), usize::from(!passes));
            told.iter().for_each(|error| assert_eq!(error[40..42], mtu.to_be_bytes(), "the right MTU is told"));
        }
        mtu
    };
    assert_eq!(longest(&mut bed, &[]), 1500);
    assert_eq!(longest(&mut bed, &["set interface mtu ip4 1400 e1"]), 1400);
    assert_eq!(longest(&mut bed, &["set interface mtu packet 1300 e1"]), 1300);
    assert_eq!(longest(&mut bed, &["set interface mtu 1200 e1"]), 1200);
    let advice = bed.command("set interface mtu packet 1300 e1").unwrap();
    assert!(advice.contains("e1 takes packets of up to 1200 bytes for now"), "{advice}");
    let mut longest_after = |line: &str| longest(&mut bed, &[line]);
    assert_eq!(longest_after("set interface mtu default e1"), 1300);
    assert_eq!(longest_after("set interface mtu packet default e1"), 1400);
    assert_eq!(longest_after("set interface mtu ip4 default e1"), 1500);
    assert_eq!(longest_after("set interface mtu 1800 e1"), 1800);
    assert_eq!(longest_after("set interface mtu ip4 1900 e1"), 1800);
}

#[test]
fn packets_of_the_largest_mtu_pass_in_chains() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    [&e0, &e1].into_iter().for_each(|port| bed.router.set_link_mtu(port.index, Some(9216)).unwrap());
    let data: Vec<u8> = (0..9216 - 28).map(|n| (n * 7) as u8).collect();
    let through = Packet::udp("10.0.0.2", "10.0.1.2", &data);
    let frame = through.frame(e0.mac, crate::bed::host_mac(through.source));
    e0.receive(crate::bed::Arrival::from(frame.clone()).in_parts(&[2048, 2048, 2048, 2048, 1038]));
    bed.run();
    assert_eq!(e1.sent(), [forwarded(&frame, crate::bed::host_mac(ip("10.0.1.2")), e1.mac)]);
    let ping = Packet::echo_request("10.0.0.2", "10.0.0.1", &data);
    let frame = ping.frame(e0.mac, crate::bed::host_mac(ping.source));
    e0.receive(crate::bed::Arrival::from(frame).in_parts(&[2048, 2048, 2048, 2048, 1038]));
    bed.run();
    let sent = e0.sent();
    assert_eq!((sent.len(), sent[0].len(), sent[0][34], &sent[0][42..]), (1, 9230, 0, &data[..]));
    assert_eq!(checksum(&sent[0][34..]), 0);
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn frames_for_extra_addresses_are_taken_and_no_others() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    let extra = MacAddress([0, 0, 0x5e, 0, 1, 7]);
    let say = |bed: &mut Bed, line: &str| bed.command(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    // Among other frames in one vector, so that the run is handled packet by packet.
    let taken = |bed: &mut Bed, port: &crate::bed::Port, to: MacAddress| {
        let from = if port.index == e0.index { "10.0.0.2" } else { "10.0.2.2" };
        for mac in [port.mac, to, MacAddress([2, 9, 9, 9, 9, 9]), port.mac] {
            port.receive(Packet::udp(from, "10.0.1.2", b"data").frame(mac, crate::bed::host_mac(ip(from))));
        }
        bed.run();
        e1.sent().len() - 2
    };
    assert_eq!(taken(&mut bed, &e0, extra), 0);
    say(&mut bed, "set interface secondary-mac-address e0 00:00:5e:00:01:07");
    say(&mut bed, "set interface secondary-mac-address e0 02:00:00:00:00:99 add");
    assert_eq!((taken(&mut bed, &e0, extra), taken(&mut bed, &e2, extra)), (1, 0));
    // Packets that the router sends have the interface's own address.
    e0.receive(Packet::echo_request("10.0.0.2", "10.0.0.1", b"x").frame(extra, crate::bed::host_mac(ip("10.0.0.2"))));
    bed.run();
    assert_eq!(e0.sent()[0][6..12], e0.mac.0);
    let shown = say(&mut bed, "show hardware-interfaces e0");
    assert!(shown.contains("  Secondary MAC addresses: 00:00:5e:00:01:07 02:00:00:00:00:99\n"), "{shown}");
    say(&mut bed, "set interface secondary-mac-address e0 00:00:5e:00:01:07 del");
    assert_eq!(taken(&mut bed, &e0, extra), 0);
    // Refused, with the reason.
    let own = format!("set interface secondary-mac-address e0 {}", e0.mac);
    for (line, why) in [
        ("set interface secondary-mac-address e0 01:00:5e:00:00:01", "is no station's address"),
        ("set interface secondary-mac-address e0 02:00:00:00:00:99", "e0 has the address 02:00:00:00:00:99 already"),
        (&own, "already"),
        ("set interface secondary-mac-address e0 02:00:00:00:00:98 del", "does not have the extra address"),
    ] {
        let refused = bed.command(line).unwrap_err();
        assert!(refused.contains(why), "{line}: {refused}");
    }
    for last in 1..16 {
        say(&mut bed, &format!("set interface secondary-mac-address e0 02:00:00:00:01:{last:02x}"));
    }
    let refused = bed.command("set interface secondary-mac-address e0 02:00:00:00:02:00").unwrap_err();
    assert!(refused.contains("too many extra addresses of e0 (at most 16)"), "{refused}");
}

#[test]
fn a_promiscuous_interface_receives_frames_for_others_and_does_not_route_them() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    bed.command("set interface promiscuous on e0").unwrap();
    bed.command("set interface span e0 destination e2 rx").unwrap();
    bed.run();
    let other = MacAddress([2, 9, 9, 9, 9, 9]);
    let frame = Packet::udp("10.0.0.2", "10.0.1.2", b"data").frame(other, crate::bed::host_mac(ip("10.0.0.2")));
    e0.receive(frame.clone());
    bed.run();
    assert_eq!((e1.sent().len(), e2.sent()), (0, vec![frame]));
    assert_eq!(bed.errors()[&("ethernet-input".into(), "l3 mac mismatch".into())], 1);
    assert!(bed.command("show hardware-interfaces e0").unwrap().contains("  Promiscuous: "));
    bed.command("create sub-interfaces e0 100").unwrap();
    for line in ["set interface promiscuous on e0.100", "set interface secondary-mac-address e0.100 02:00:00:00:00:99"]
    {
        let refused = bed.command(line).unwrap_err();
        assert!(refused.contains("e0.100 has no device of its own but e0's"), "{refused}");
    }
}

#[test]
fn what_is_punted_by_name_counts_as_punted_by_interface() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let bridges = MacAddress([1, 0x80, 0xc2, 0, 0, 0]);
    e0.receive(ethernet(bridges, e1.mac, 3, &[0x42, 0x42, 3]));
    e0.receive(ethernet(bridges, e1.mac, 8, &[0xaa, 0xaa, 3, 0, 0, 12, 32, 0]));
    e0.receive(ethernet(bridges, e1.mac, 2, &[0x42, 0x42]));
    bed.run();
    assert_eq!((bed.counters(&e0)[6], bed.counters(&e1)[6]), (2, 0), "what is malformed is not punted");
}

#[test]
fn an_address_is_an_interfaces_own_or_an_extra_one() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.command("set interface secondary-mac-address e0 02:00:00:00:00:99").unwrap();
    let refused = bed.command("set interface mac address e0 02:00:00:00:00:99").unwrap_err();
    assert!(refused.contains("is an extra address of e0"), "{refused}");
    let device = e0.mac;
    bed.command("set interface mac address e0 02:00:00:00:00:98").unwrap();
    bed.command(&format!("set interface secondary-mac-address e0 {device}")).unwrap();
    let refused = bed.command("set interface mac address e0 default").unwrap_err();
    assert!(refused.contains(&format!("{device} is an extra address of e0")), "{refused}");
    let refused = bed.command("create loopback interface mac 01:00:5e:00:00:01").unwrap_err();
    assert!(refused.contains("is no station's address"), "{refused}");
}

#[test]
fn no_two_devices_of_a_driver_have_one_address() {
    let mut bed = Bed::new();
    let mac = |bed: &Bed, name: &str| bed.router.interfaces.get(bed.router.interfaces.find(name).unwrap()).unwrap().mac;
    for name in ["a0", "a1", "a2"] {
        bed.command(&format!("create null interface name {name}")).unwrap();
    }
    let first = mac(&bed, "a0");
    bed.command("delete interface a0").unwrap();
    bed.command("create null interface name a3").unwrap();
    assert_eq!(mac(&bed, "a3"), first, "the lowest number that is free");
    let all: std::collections::BTreeSet<_> = ["a1", "a2", "a3"].iter().map(|name| mac(&bed, name)).collect();
    assert_eq!(all.len(), 3);
}

#[test]
fn streams_on_a_sub_interface_follow_its_parents_link() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.command("create sub-interfaces e0 100").unwrap();
    e0.set_carrier(false);
    bed.router.check_links();
    bed.command("set interface state e0.100 up").unwrap();
    bed.command("set interface ip address e0.100 10.7.0.1/24").unwrap();
    let stream = "packet-generator new { name s limit 10 rate 1e6 interface e0.100 node ip4-input data { UDP: \
     10.7.0.2 -> 10.0.1.2 UDP: 1 -> 2 incrementing 8 } }";
    bed.command(stream).unwrap();
    let play = |bed: &mut Bed| {
        bed.command("packet-generator enable-stream s").unwrap();
        (0..50).for_each(|_| bed.run());
        e1.sent().len()
    };
    assert_eq!(play(&mut bed), 0);
    e0.set_carrier(true);
    bed.router.check_links();
    bed.run();
    e1.sent();
    assert_eq!(play(&mut bed), 10);
}

/// RFC 8200 section 5: every link with IPv6 carries 1280 bytes.
#[test]
fn no_mtu_is_too_small_for_ip6_on_an_interface_or_on_those_on_it() {
    let mut bed = Bed::new();
    bed.port("e0", &[]);
    let sub = bed.command("create sub-interfaces e0 7").unwrap().trim().to_string();
    let mtu = |bed: &Bed, name: &str| {
        let index = bed.router.interfaces.find(name).unwrap();
        bed.router.interfaces.get(index).unwrap().ip6_mtu
    };
    for owner in ["e0", &sub] {
        bed.command(&format!("set interface ip address {owner} 2001:db8::1/64")).unwrap();
        for line in [
            "set interface mtu 1279 e0".to_string(),
            "set interface mtu packet 1279 e0".to_string(),
            format!("set interface mtu packet 1279 {owner}"),
        ] {
            let error = bed.command(&line).unwrap_err();
            let expected =
                format!("set interface mtu: {owner} would carry packets of 1279 bytes, IPv6 on it needs 1280");
            assert!(error.starts_with(&expected), "{line}: {error}");
            assert_eq!((mtu(&bed, "e0"), mtu(&bed, &sub)), (1500, 1500), "{line}");
        }
        bed.command("set interface mtu packet 1280 e0").unwrap();
        bed.command("set interface mtu packet default e0").unwrap();
        bed.command(&format!("set interface ip address del {owner} all")).unwrap();
        bed.command("set interface mtu packet 1000 e0").unwrap();
        bed.command("set interface mtu packet default e0").unwrap();
    }
    // IPv6 cannot be enabled on a sub-interface whose own MTU is too small.
    bed.command(&format!("set interface mtu packet 1279 {sub}")).unwrap();
    assert!(bed.command(&format!("enable ip6 interface {sub}")).unwrap_err().contains("IPv6 needs 1280"));
    bed.command("set interface ip address e0 2001:db8::1/64").unwrap();
    assert_eq!((mtu(&bed, "e0"), mtu(&bed, &sub)), (1500, 1279));
}

#[test]
fn an_interface_has_a_tag_of_its_operators() {
    let (mut bed, _) = Bed::with_three_ports();
    bed.command("set interface tag e1 transit:as64500").unwrap();
    assert!(bed.command("show interface e1").unwrap().ends_with("\n  tag transit:as64500\n"));
    assert_eq!(bed.json("show interface e1")["interfaces"][0]["tag"], "transit:as64500");
    assert!(bed.command("show running-config").unwrap().contains("set interface tag e1 transit:as64500\n"));
    // Tags that a file of commands could not contain.
    for tag in ["$(X)", "a;b", &"x".repeat(64)] {
        let said = bed.command(&format!("set interface tag e1 {tag}")).unwrap_err();
        assert!(said.contains("is no tag: up to 63 letters"), "{said}");
    }
    assert!(bed.command("show interface e1").unwrap().contains("  tag transit:as64500\n"));
    bed.command("set interface tag del e1").unwrap();
    assert!(!bed.command("show interface").unwrap().contains("tag"));
    assert!(!bed.command("show running-config").unwrap().contains("tag"));
}

#[test]
fn a_counter_of_a_capability_is_shown_and_cleared_like_all_others() {
    const COLUMNS: &[Column] = &[Column::packets("test packets"), Column::bytes("test bytes").not_shown()];
    let mut bed = Bed::new();
    let port = bed.port("e0", &[]);
    let table = bed.router.graph.directory.table("/if/test", 1, Of::Interface, COLUMNS, "Packets of a test.").unwrap();
    table.add(0, port.index.0 as usize, 0, 5);
    table.add(0, port.index.0 as usize, 1, 500);
    let shown = bed.command("show interface e0").unwrap();
    assert!(shown.contains("test packets                   5\n") && !shown.contains("test bytes"), "{shown}");
    assert_eq!(bed.json("show interface e0")["interfaces"][0]["counters"]["test_packets"], 5);
    bed.command("clear interfaces").unwrap();
    assert_eq!([0, 1].map(|word| table.sum(port.index.0 as usize, word)), [0, 0]);
    assert!(!bed.command("show interface e0").unwrap().contains("test packets"));
}

#[test]
fn there_is_room_for_ten_thousand_loopbacks() {
    const MANY: u32 = 10_000;
    let mut bed = Bed::new();
    let loopback = |instance| Box::new(LoopbackOptions { instance, mac: None });
    let made: Vec<_> = (0..MANY).map(|n| bed.router.create(&format!("loop{n}"), loopback(n)).unwrap()).collect();
    made.into_iter().for_each(|index| bed.router.delete_interface(index).unwrap());
    assert_eq!(bed.router.interfaces.iter().count(), 0);
}
