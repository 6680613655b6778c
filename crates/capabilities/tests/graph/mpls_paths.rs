//! MPLS paths: tunnels, next hops of either family, and interfaces and tables that are added and removed.

use crate::bed::*;
use crate::mpls::*;
use crate::packet::*;
use crate::packet6::{Packet6, ip6};
use router::neighbour::NeighbourKey;

#[test]
fn a_tunnel_is_an_interface_behind_which_is_a_path() {
    let (mut bed, ports) = bed();
    assert_eq!(bed.command("mpls tunnel add via 10.0.1.2 e1 out-labels 17 18").unwrap(), "mpls-tunnel0\n");
    all(
        &mut bed,
        &[
            "set interface state mpls-tunnel0 up",
            "set interface ip address mpls-tunnel0 10.7.0.1/30",
            "ip route add 48.0.0.0/24 via mpls-tunnel0",
            "ip route add 48.0.1.0/24 via mpls-tunnel0 out-labels 100",
            "ip route add 2001:db8:48::/48 via mpls-tunnel0",
            "mpls local-label add 16 eos via mpls-tunnel0 out-labels 200",
        ],
    );
    ports[1].sent();
    let packet = |to: &str| Packet::udp("10.0.0.2", to, b"x");
    let labels = [(17, 0, false, 64), (18, 0, false, 64)];
    let on_top = |label: Entry| [&labels[..], &[label]].concat();
    let expected = |entries: &[Entry], inner: Vec<u8>| to_host(&ports, MPLS, &[stack(entries), inner].concat());
    let last = |mut entries: Vec<Entry>| {
        entries.last_mut().unwrap().2 = true;
        entries
    };
    let packet6 = Packet6::udp("2001:db8:0::2", "2001:db8:48::1", b"x");
    let mut after6 = packet6.bytes();
    after6[7] -= 1;
    let cases = [
        (
            packet("48.0.0.1").frame(ports[0].mac, host_mac(ip("10.0.0.2"))),
            expected(&last(labels.to_vec()), packet("48.0.0.1").ttl(63).bytes()),
        ),
        (
            packet("48.0.1.1").frame(ports[0].mac, host_mac(ip("10.0.0.2"))),
            expected(&on_top((100, 0, true, 64)), packet("48.0.1.1").ttl(63).bytes()),
        ),
        (
            packet("10.7.0.2").frame(ports[0].mac, host_mac(ip("10.0.0.2"))),
            expected(&last(labels.to_vec()), packet("10.7.0.2").ttl(63).bytes()),
        ),
        (packet6.frame(ports[0].mac, mac6(0)), expected(&last(labels.to_vec()), after6)),
        (
            labelled(&ports[0], &[(16, 3, true, 9)], b"anything"),
            expected(&on_top((200, 3, true, 8)), b"anything".to_vec()),
        ),
    ];
    let tunnel = bed.router.interfaces.find("mpls-tunnel0").unwrap();
    let counted = |bed: &Bed| [0, 1].map(|word| bed.router.counters.tx.sum(tunnel.0 as usize, word));
    for (frame, after) in cases {
        for count in COUNTS {
            let before = counted(&bed);
            (0..count).for_each(|_| ports[0].receive(frame.clone()));
            bed.run();
            let got = ports[1].sent();
            assert!(
                got.len() == count && got.iter().all(|frame| *frame == after),
                "{after:x?}: {got:x?} {:?}",
                bed.errors()
            );
            let now = counted(&bed);
            assert_eq!([now[0] - before[0], now[1] - before[1]], [count as u64, (count * after.len()) as u64]);
        }
    }
    // Another path beside the first, then instead of it.
    all(&mut bed, &["mpls tunnel add mpls-tunnel0 via 10.0.2.2 e2 out-labels 27"]);
    (0..200).for_each(|n| drop(ports[0].receive_packet(&packet(&format!("48.0.0.{n}")))));
    bed.run();
    let shares = [1, 2].map(|port| ports[port].sent().len());
    assert!(shares[0] > 50 && shares[1] > 50, "{shares:?}");
    all(&mut bed, &["mpls tunnel replace mpls-tunnel0 via 10.0.2.2 e2 out-labels 27"]);
    ports[0].receive_packet(&packet("48.0.0.1"));
    bed.run();
    let after = ethernet(
        host_mac(ip("10.0.2.2")),
        ports[2].mac,
        MPLS,
        &[stack(&[(27, 0, true, 64)]), packet("48.0.0.1").ttl(63).bytes()].concat(),
    );
    assert_eq!((ports[1].sent(), ports[2].sent()), (vec![], vec![after]));
    let shown = bed.command("show mpls tunnel").unwrap();
    assert!(
        shown.starts_with("[@0] mpls-tunnel0: sw_if_index:") && shown.contains("10.0.2.2 e2 out-labels 27"),
        "{shown}"
    );
    // A tunnel that is down, or whose interface is down, is not usable.
    for (off, on) in [
        ("set interface state mpls-tunnel0 down", "set interface state mpls-tunnel0 up"),
        ("set interface state e2 down", "set interface state e2 up"),
    ] {
        all(&mut bed, &[off]);
        let errors = bed.errors_of(|_| ports[0].receive(labelled(&ports[0], &[(16, 0, true, 9)], b"x")));
        assert_eq!(errors, error("mpls-lookup", "mpls label leads nowhere", 1), "{off}");
        all(&mut bed, &[on]);
        bed.know(&ports[2], "10.0.2.2");
        bed.run();
        ports[2].sent();
        ports[0].receive(labelled(&ports[0], &[(16, 0, true, 9)], b"x"));
        bed.run();
        assert_eq!(ports[2].sent().len(), 1, "{on}");
    }
    // A tunnel depends on a route like any path, but not on itself.
    all(
        &mut bed,
        &[
            "ip route add 192.0.2.9/32 via 10.0.1.2 out-labels 33",
            "mpls tunnel replace mpls-tunnel0 via 192.0.2.9 out-labels 27",
        ],
    );
    ports[0].receive_packet(&packet("48.0.0.1"));
    bed.run();
    let both = [stack(&[(33, 0, false, 64), (27, 0, true, 64)]), packet("48.0.0.1").ttl(63).bytes()].concat();
    assert_eq!(ports[1].sent(), [to_host(&ports, MPLS, &both)]);
    let error = bed.command("ip route replace 192.0.2.9/32 via mpls-tunnel0").unwrap_err();
    assert!(error.contains("reached by the route to 192.0.2.9/32 itself"), "{error}");
    for (line, why) in [
        ("mpls tunnel add all via 10.0.1.2 e1 out-labels 17", "'all' is no interface name: commands take it for"),
        ("mpls tunnel add 9x via 10.0.1.2 e1 out-labels 17", "'9x' is no interface name: a letter"),
        ("mpls tunnel add via 10.0.1.2 e1", "a tunnel's path leads to a next hop with labels"),
        ("mpls tunnel add via 10.0.1.2 e1 out-labels 17 uniform", "a tunnel's path leads to a next hop with labels"),
        ("mpls tunnel add via ip4-lookup-in-table 0", "a tunnel's path leads to a next hop with labels"),
        ("mpls tunnel del e1", "e1 is no MPLS tunnel"),
        ("show mpls tunnel e1", "e1 is no MPLS tunnel"),
        ("mpls tunnel del mpls-tunnel0 via 10.0.1.9 e1", "mpls-tunnel0 has no such path"),
        ("set interface span e0 destination mpls-tunnel0", "mpls-tunnel0 is a sub-interface or a tunnel"),
    ] {
        let error = bed.command(line).unwrap_err();
        assert!(error.contains(why), "{line}: {error}");
    }
    // Paths are removed with their interface. What leads into a tunnel is removed with the tunnel.
    all(&mut bed, &["mpls tunnel replace mpls-tunnel0 via 10.0.2.2 e2 out-labels 27"]);
    bed.router.delete_interface(ports[2].index).unwrap();
    assert!(!bed.command("show mpls tunnel").unwrap().contains("e2"));
    bed.router.ip.audit().unwrap();
    all(&mut bed, &["mpls tunnel del mpls-tunnel0"]);
    assert_eq!(bed.command("show mpls tunnel").unwrap(), "No MPLS tunnels configured...\n");
    assert!(bed.command("show ip fib 48.0.0.0/24").is_err());
    bed.router.ip.audit().unwrap();
}

#[test]
fn labels_carry_either_family_to_next_hops_of_either() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &[
            // RFC 4798: the bottom label identifies the payload.
            "ip route add 2001:db8:48::/48 via 10.0.1.9 e1 out-labels 17 2",
            "ip route add 48.0.0.0/24 via 2001:db8:1::9 e1 out-labels 18",
        ],
    );
    let packet6 = Packet6::udp("2001:db8:0::2", "2001:db8:48::1", b"x");
    ports[0].receive(packet6.frame(ports[0].mac, mac6(0)));
    ports[0].receive_packet(&Packet::udp("10.0.0.2", "48.0.0.1", b"x"));
    bed.run();
    // Both packets are pending, each for a neighbour of the other family.
    assert_eq!((bed.held(), ports[1].sent().len()), (2, 2));
    bed.know(&ports[1], "10.0.1.9");
    let key = NeighbourKey::new(ports[1].index, ip6("2001:db8:1::9"));
    bed.router.set_neighbour(key, mac6(9), true).unwrap();
    bed.run();
    let mut after6 = packet6.bytes();
    after6[7] -= 1;
    let mut got = ports[1].sent();
    got.sort();
    let mut expected = vec![
        ethernet(
            host_mac(ip("10.0.1.9")),
            ports[1].mac,
            MPLS,
            &[stack(&[(17, 0, false, 64), (2, 0, true, 64)]), after6].concat(),
        ),
        ethernet(
            mac6(9),
            ports[1].mac,
            MPLS,
            &[stack(&[(18, 0, true, 64)]), Packet::udp("10.0.0.2", "48.0.0.1", b"x").ttl(63).bytes()].concat(),
        ),
    ];
    expected.sort();
    assert_eq!(got, expected);
    // When the neighbour does not answer, the error has the packet's own family.
    all(
        &mut bed,
        &[
            "ip route replace 2001:db8:48::/48 via 10.0.1.8 e1 out-labels 17 2",
            "ip route replace 48.0.0.0/24 via 2001:db8:1::8 e1 out-labels 18",
        ],
    );
    ports[0].receive(packet6.frame(ports[0].mac, mac6(0)));
    ports[0].receive_packet(&Packet::udp("10.0.0.2", "48.0.0.1", b"x"));
    (0..10).for_each(|_| bed.advance(std::time::Duration::from_secs(1)));
    let told: Vec<Vec<u8>> = ports[0].sent();
    assert!(told.iter().any(|frame| frame[12..14] == [8, 0] && frame[34..36] == [3, 1]), "{told:x?}");
    assert!(told.iter().any(|frame| frame[12..14] == [0x86, 0xdd] && frame[54..56] == [1, 3]), "{told:x?}");
}

#[test]
fn labels_follow_interfaces_and_tables() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &["mpls local-label add 16 eos via 10.0.1.2 e1 out-labels 17 via 10.0.2.2 e2 out-labels 18 preference 1"],
    );
    let inner = udp().bytes();
    by_e1(&mut bed, &ports, &[(16, 0, true, 9)], &inner);
    all(&mut bed, &["set interface state e1 down"]);
    let [_, e1, e2] = sent(&mut bed, &ports, &[(16, 0, true, 9)], &inner);
    assert_eq!((e1.len(), e2.len()), (0, 1));
    all(&mut bed, &["set interface state e1 up"]);
    bed.know(&ports[1], "10.0.1.2");
    bed.run();
    ports.iter().for_each(|port| drop(port.sent()));
    by_e1(&mut bed, &ports, &[(16, 0, true, 9)], &inner);
    // Paths that name an interface are removed with it.
    bed.router.delete_interface(ports[1].index).unwrap();
    bed.run();
    let paths = bed.command("show mpls fib 16").unwrap();
    assert!(!paths.contains("10.0.1.2") && paths.contains("10.0.2.2 e2"), "{paths}");
    for (line, why) in [
        ("mpls table del 0", "e0 takes labelled packets, of MPLS table 0: 'set interface mpls e0 disable' first"),
        ("mpls table add 0", "MPLS table 0 is there already"),
        ("mpls table del 8", "there is no MPLS table 8 ('show mpls table' lists them): 'mpls table add 8' makes it"),
        (
            "mpls local-label add 15 eos via 10.0.2.2 e2",
            "label 15 means something of its own (RFC 3032 2.1): local labels begin with 16",
        ),
        (
            "mpls local-label add 17 non-eos via ip4-lookup-in-table 0",
            "what is inside is known of the last label only: say 'eos'",
        ),
        (
            "mpls local-label add 17 eos via mpls-lookup-in-table 0",
            "the next label is there above others only: say 'non-eos'",
        ),
        (
            "mpls local-label add 17 eos via 10.0.2.2 e2 out-labels 1 2 3 4 5 6",
            "6 labels: at most 5 fit before a packet",
        ),
        (
            "mpls local-label add 17 eos via 10.0.2.2 e2 out-labels 7",
            "label 7 is taken off by whoever sees it, and never put before a packet (RFC 3032 2.1, RFC 6790)",
        ),
        (
            "mpls local-label add 17 eos via drop out-labels 18",
            "labels are put on packets to a next hop: name one, as in 'via 192.0.2.1 e0 out-labels 17'",
        ),
        (
            "ip route add 48.0.0.0/8 via e2 out-labels 18",
            "labels are put on packets to a next hop: name one, as in 'via 192.0.2.1 e0 out-labels 17'",
        ),
        ("mpls local-label del 17 eos", "no local label 17 eos ('show mpls fib' lists them)"),
        ("mpls local-label del 16 eos via 10.0.2.9 e2", "local label 16 eos has no such path"),
        (
            "mpls local-label add count 10 1048570 eos via 10.0.2.2 e2",
            "10 labels from 1048570 on: labels end with 1048575",
        ),
        ("show mpls fib 99", "no local label 99 ('show mpls fib' lists them)"),
        (
            "mpls local-label add 17 eos via 10.0.2.2 e2 out-labels 18 uniform ttl 9",
            "'uniform' has ttl and exp copied: leave those out, or say 'pipe'",
        ),
    ] {
        let error = bed.command(line).unwrap_err();
        assert!(error.ends_with(&format!(": {why}")), "{line}: {error}");
    }
    all(&mut bed, &["set interface mpls e0 disable", "set interface mpls e2 disable", "mpls table del 0"]);
    assert_eq!(
        bed.command("set interface mpls e0 enable").unwrap_err(),
        "set interface mpls: there is no MPLS table 0 ('show mpls table' lists them): 'mpls table add 0' makes it"
    );
    bed.router.ip.audit().unwrap();
    assert_eq!(bed.router.ip.objects(), bed.command("show adj").unwrap().lines().count());
}

#[test]
fn one_remarkable_packet_among_plain_ones_is_seen_and_they_go_as_without_it() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &[
            "mpls local-label add 16 eos via 10.0.1.2 e1",
            "mpls local-label add 17 eos via ip4-lookup-in-table 0",
            "ip table add 7",
            "mpls local-label add 18 eos via ip4-lookup-in-table 7",
            "ip route add 198.51.100.0/24 via 10.0.1.2",
            "ip route add table 7 198.51.100.0/24 via 10.0.1.2 next-hop-table 0",
        ],
    );
    let plain = udp().bytes();
    let spoilt = |at: usize, byte: u8| {
        let mut bytes = udp().bytes();
        bytes[at] = byte;
        bytes
    };
    let from = |source: &str| Packet::udp(source, "198.51.100.1", b"some data").bytes();
    let odd = [
        spoilt(10, 0),
        spoilt(0, 0x65),
        from("127.0.0.1"),
        from("224.0.0.1"),
        Packet::udp("192.0.2.1", "224.0.0.1", b"some data").bytes(),
        [plain.clone(), vec![0; 9]].concat(),
        plain[..plain.len() - 1].to_vec(),
        udp().options(&[1, 1, 1, 0]).bytes(),
        udp().ttl(1).bytes(),
        udp().fragment(MORE_FRAGMENTS).bytes(),
        Packet6::udp("2001:db8:aa::1", "2001:db8:bb::1", b"some data").bytes(),
        Packet::udp("192.0.2.1", "203.0.113.1", b"no way there").bytes(),
        b"".to_vec(),
    ];
    let become_of = |bed: &mut Bed, label: u32, packets: &[&[u8]]| {
        let mut got = Vec::new();
        let errors = bed.errors_of(|bed| {
            for packet in packets {
                ports[0].receive(labelled(&ports[0], &[(label, 5, true, 9)], packet));
            }
            bed.run();
            got = ports.iter().flat_map(|port| port.sent()).collect();
        });
        (got, errors)
    };
    for label in [16, 17, 18] {
        let (alone, none) = become_of(&mut bed, label, &[&plain]);
        assert_eq!((alone.len(), none), (1, Default::default()), "{label}");
        for odd in &odd {
            let (others, errors) = become_of(&mut bed, label, &[odd]);
            let mut packets = vec![&plain[..]; 40];
            packets[20] = odd;
            let (got, all_errors) = become_of(&mut bed, label, &packets);
            assert_eq!(all_errors, errors, "{label} {odd:x?}");
            let plain_of = |frames: &[Vec<u8>]| frames.iter().filter(|frame| **frame == alone[0]).count();
            let (whole, with_others) = ((got.len(), plain_of(&got)), (others.len(), plain_of(&others)));
            assert_eq!(whole, (39 + with_others.0, 39 + with_others.1), "{label} {odd:x?}");
            assert!(!errors.is_empty() || !others.is_empty());
        }
    }
}
