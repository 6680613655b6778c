//! Source checks of IPv6 per interface.

use crate::bed::{Bed, Port, error};
use crate::bed6::{OURS, bed as three_ports, mac_of, solicitation};
use crate::packet6::*;
use router::ip::control::{Path, PathAction, Source};

const STRICT: &str = "uRPF drop (strict)";
const LOOSE: &str = "uRPF drop (loose)";

/// Behind e0: two attached hosts, a routed one, and one with a path by e0 to an unknown neighbour. Then two behind
/// other interfaces, one whose route drops, one without a route, an address of ours, and one that is checked packet by
/// packet.
const SOURCES: &[&str] = &[
    "2001:db8::2",
    "2001:db8::77",
    "2001:db8:50::1",
    "2001:db8:51::1",
    "2001:db8:2::2",
    "2001:db8:52::1",
    "2001:db8:53::1",
    "2001:db8:99::1",
    "2001:db8:2::1",
    "0:0:1::1",
];
/// How many of them are behind e0.
const OWN: usize = 4;

fn say(bed: &mut Bed, line: &str) {
    bed.command(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    bed.run();
}

fn bed() -> (Bed, [Port; 3]) {
    let (mut bed, ports) = three_ports();
    for line in [
        "ip route add 2001:db8:50::/48 via 2001:db8::2",
        "ip route add 2001:db8:51::/48 via 2001:db8:2::2 via 2001:db8::99",
        "ip route add 2001:db8:52::/48 via 2001:db8:2::2 via 2001:db8:2::3",
        "ip route add 2001:db8:53::/48 via drop",
    ] {
        say(&mut bed, line);
    }
    (bed, ports)
}

fn send(port: &Port, packet: &Packet6) -> Vec<u8> {
    let frame = packet.frame(port.mac, mac_of(0));
    port.receive(frame.clone());
    frame
}

/// Sends a packet from each source by e0. Returns the sources whose packets reach e1.
fn get_through<'a>(bed: &mut Bed, ports: &[Port; 3], sources: &[&'a str]) -> Vec<&'a str> {
    let passes = |source: &&&str| {
        send(&ports[0], &Packet6::udp(source, "2001:db8:1::2", b"data"));
        bed.run();
        ports[1].sent().len() == 1
    };
    sources.iter().filter(passes).copied().collect()
}

#[test]
fn strict_takes_what_the_routes_would_send_back_by_the_same_interface() {
    let (mut bed, ports) = bed();
    assert_eq!(get_through(&mut bed, &ports, SOURCES), SOURCES, "nothing is checked unless asked");
    say(&mut bed, "set urpf ip6 rx strict e0");
    assert_eq!(get_through(&mut bed, &ports, SOURCES), SOURCES[..OWN]);
    // Other interfaces are not affected.
    send(&ports[2], &Packet6::udp("2001:db8:99::1", "2001:db8:1::2", b"data"));
    bed.run();
    assert_eq!(ports[1].sent().len(), 1);
    say(&mut bed, "set urpf ip6 rx off e0");
    assert_eq!(get_through(&mut bed, &ports, SOURCES), SOURCES);
}

#[test]
fn loose_takes_what_has_a_route() {
    let (mut bed, ports) = bed();
    say(&mut bed, "set urpf ip6 rx loose e0");
    assert_eq!(get_through(&mut bed, &ports, SOURCES), SOURCES[..OWN + 2]);
}

#[test]
fn the_families_are_checked_apart() {
    let (mut bed, ports) = bed();
    say(&mut bed, "set urpf ip4 rx strict e0");
    assert_eq!(get_through(&mut bed, &ports, SOURCES), SOURCES);
    say(&mut bed, "set urpf ip6 rx strict e0");
    say(&mut bed, "set urpf ip4 rx off e0");
    assert_eq!(get_through(&mut bed, &ports, SOURCES), SOURCES[..OWN]);
}

#[test]
fn the_default_route_counts_only_when_allowed() {
    let (mut bed, ports) = bed();
    say(&mut bed, "ip route add ::/0 via 2001:db8::2");
    for (mode, name) in [("strict", STRICT), ("loose", LOOSE)] {
        say(&mut bed, &format!("set urpf ip6 rx {mode} e0"));
        let stranger = Packet6::udp("2001:db8:99::1", "2001:db8:1::2", b"data");
        assert_eq!(bed.errors_of(|_| drop(send(&ports[0], &stranger))), error("ip6-rx-urpf", name, 1));
        say(&mut bed, &format!("set urpf ip6 rx {mode} e0 allow-default"));
        assert_eq!(get_through(&mut bed, &ports, &["2001:db8:99::1"]), ["2001:db8:99::1"]);
        // The default route does not help a source with a route of its own.
        assert_eq!(get_through(&mut bed, &ports, &["2001:db8:53::1"]), [""; 0]);
    }
    // The default route leads elsewhere.
    say(&mut bed, "ip route replace ::/0 via 2001:db8:2::2");
    say(&mut bed, "set urpf ip6 rx strict e0 allow-default");
    assert_eq!(get_through(&mut bed, &ports, &["2001:db8:99::1"]), [""; 0]);
    // The default route drops.
    say(&mut bed, "ip route replace ::/0 via drop");
    say(&mut bed, "set urpf ip6 rx loose e0 allow-default");
    assert_eq!(get_through(&mut bed, &ports, &["2001:db8:99::1"]), [""; 0]);
}

/// Vectors of all lengths use the lookup kernels. Those that mix interfaces are checked packet by packet.
#[test]
fn whole_vectors_are_judged_packet_by_packet() {
    let (mut bed, ports) = bed();
    say(&mut bed, "set urpf ip6 rx strict e0");
    for count in [1, 15, 16, 17, 256, 700] {
        let mut expected = Vec::new();
        for n in 0..count {
            let source = SOURCES[n % SOURCES.len()];
            let packet = Packet6::udp(source, "2001:db8:1::2", &(n as u32).to_be_bytes());
            let is_other = n % 5 == 3;
            send(&ports[if is_other { 2 } else { 0 }], &packet);
            if is_other || n % SOURCES.len() < OWN {
                expected.push(packet.hops(63).frame(mac_of(1), ports[1].mac));
            }
        }
        bed.run();
        let mut sent = ports[1].sent();
        // Ports are read one after the other.
        sent.sort();
        expected.sort();
        assert_eq!(sent, expected, "{count}");
    }
}

#[test]
fn a_path_that_is_all_weight_still_counts() {
    let (mut bed, ports) = bed();
    let via =
        |hop: &str, weight| Path::weighing(PathAction::Via { next_hop: ip6(hop).into(), interface: None }, weight);
    let paths = vec![via("2001:db8:2::2", 1), via("2001:db8::2", 3), via("2001:db8:2::3", 1)];
    bed.router.add_route("2001:db8:54::/48".parse::<wire::Prefix>().unwrap(), Source::Config, paths, true).unwrap();
    say(&mut bed, "set urpf ip6 strict e0");
    assert_eq!(get_through(&mut bed, &ports, &["2001:db8:54::1"]), ["2001:db8:54::1"]);
}

/// Sources are looked up in the interface's table, and in tables that its routes lead to.
#[test]
fn sources_are_sought_in_the_table_of_the_interface() {
    let (mut bed, ports) = bed();
    for line in [
        "ip6 table add 9",
        "ip route add table 9 2001:db8:60::/48 via 2001:db8::2 e0",
        "ip route add 2001:db8:60::/48 via ip6-lookup-in-table 9",
        "set ip6 route counters 2001:db8:50::/48 enable",
        "set urpf ip6 rx strict e0",
    ] {
        say(&mut bed, line);
    }
    let sources = ["2001:db8:60::1", "2001:db8:50::1", "2001:db8:61::1"];
    assert_eq!(get_through(&mut bed, &ports, &sources), sources[..2]);
}

/// Messages of Neighbor Discovery and address configuration pass any source check.
#[test]
fn what_is_said_on_the_link_is_heard_whatever_routes_say() {
    let (mut bed, ports) = bed();
    for mode in ["strict", "loose"] {
        say(&mut bed, &format!("set urpf ip6 rx {mode} e0"));
        let nobody = |destination: &str, (kind, flags): (u8, u32), data: &[u8]| {
            Packet6::discovery("::", destination, kind, flags, data)
        };
        let report = [&[4, 0, 0, 0][..], &ip6("ff02::1:ff00:7").octets()].concat();
        let alert = [5, 2, 0, 0, 1, 0];
        let listens = |source: &str| {
            let packet = Packet6::icmp(source, "ff02::16", (143, 0), 1, &report);
            packet.hops(1).extension(HOP_BY_HOP, &alert)
        };
        let discovered = "icmp6-neighbor-discovery";
        for (packet, node, reason) in [
            // A probe for our own address.
            (nobody(&solicited_group(OURS), (135, 0), &ip6(OURS).octets()), discovered, "neighbor advertisements sent"),
            (nobody("ff02::2", (133, 0), &[]), discovered, "router solicitations received"),
            (listens("::"), "icmp6-multicast-listener", "multicast listener reports received"),
            (listens("fe80::9"), "icmp6-multicast-listener", "multicast listener reports received"),
            (Packet6::echo_request("fe80::9", OURS, b"x"), "ip6-icmp-input", "echo replies sent"),
            (Packet6::echo_request("fe80::9", "fe80::ff:fe00:1000", b"x"), "ip6-icmp-input", "echo replies sent"),
            // The node that receives it reports why it is ignored.
            (solicitation("2001:db8:99::9", OURS, &[]), discovered, "neighbor discovery sender is not on link"),
        ] {
            let moved = bed.errors_of(|_| drop(send(&ports[0], &packet)));
            assert!(moved.contains_key(&(node.into(), reason.into())), "{mode}: {packet:?}: {moved:?}");
            assert!(moved.keys().all(|(node, _)| node != "ip6-rx-urpf"), "{mode}: {moved:?}");
        }
        // When they are forwarded, the usual rules apply.
        let onward = Packet6::udp("fe80::9", "2001:db8:1::2", b"data");
        let moved = bed.errors_of(|_| drop(send(&ports[0], &onward)));
        assert_eq!(moved, error("ip6-icmp-error", "ICMPv6 beyond scope of source sent", 1));
        bed.advance(std::time::Duration::from_secs(60));
        ports.iter().for_each(|port| drop(port.sent()));
    }
}

/// A forged request to a group would make all members answer a host that did not ask.
#[test]
fn what_is_for_groups_and_for_the_link_is_checked_as_well() {
    let (mut bed, ports) = bed();
    say(&mut bed, "set urpf ip6 rx strict e0");
    for destination in ["ff02::1", "fe80::ff:fe00:1000", OURS] {
        let ask = |source: &str| Packet6::echo_request(source, destination, b"x");
        let mut of = |source: &str| bed.errors_of(|_| drop(send(&ports[0], &ask(source))));
        assert_eq!(of("2001:db8:2::2"), error("ip6-rx-urpf", STRICT, 1), "{destination}");
        assert_eq!(of("2001:db8::2"), error("ip6-icmp-input", "echo replies sent", 1), "{destination}");
    }
    // A message that looks like a solicitation but is forwarded is checked like any packet.
    let posing = Packet6::discovery("2001:db8:99::1", "2001:db8:1::2", 135, 0, &ip6("2001:db8:1::2").octets());
    assert_eq!(bed.errors_of(|_| drop(send(&ports[0], &posing))), error("ip6-rx-urpf", STRICT, 1));
}

#[test]
fn the_check_is_configuration_and_shown() {
    let (mut bed, _) = three_ports();
    say(&mut bed, "set urpf ip6 rx strict e0");
    say(&mut bed, "set urpf ip6 loose e1 allow-default");
    let running = bed.command("show running-config").unwrap();
    assert!(running.contains("set urpf ip6 rx strict e0\n"), "{running}");
    assert!(running.contains("set urpf ip6 rx loose e1 allow-default\n"), "{running}");
    let shown = bed.command("show interface features e1").unwrap();
    assert!(shown.contains("ip6-unicast:\n  ip6-rx-urpf (loose allow-default)\n"), "{shown}");
    let shown = bed.command("show interface features e2").unwrap();
    assert!(!shown.contains("urpf"), "{shown}");
    say(&mut bed, "set urpf ip6 off e0");
    say(&mut bed, "set urpf ip6 rx off e1");
    assert!(!bed.command("show running-config").unwrap().contains("urpf"));
}
