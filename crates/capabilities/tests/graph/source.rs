//! Source checks per interface, and which packets to the router are accepted.

use crate::bed::{Bed, Port, error, host_mac};
use crate::packet::*;
use router::ip::control::{Path, PathAction, Source};

const STRICT: &str = "uRPF drop (strict)";
const LOOSE: &str = "uRPF drop (loose)";

/// Sends a packet from each source by e0. Returns the sources whose packets reach e1.
fn get_through<'a>(bed: &mut Bed, ports: &[Port; 3], sources: &[&'a str]) -> Vec<&'a str> {
    let passes = |source: &&&str| {
        ports[0].receive_packet(&Packet::udp(source, "10.0.1.2", b"data"));
        bed.run();
        ports[1].sent().len() == 1
    };
    sources.iter().filter(passes).copied().collect()
}

/// Behind e0: two attached hosts, a routed one, and one with a path by e0 to an unknown neighbour. Then two behind
/// other interfaces, one whose route drops, one without a route, and an address of ours.
const SOURCES: &[&str] =
    &["10.0.0.2", "10.0.0.77", "50.0.0.1", "51.0.0.1", "10.0.2.2", "52.0.0.1", "53.0.0.1", "99.1.1.1", "10.0.2.1"];

fn bed() -> (Bed, [Port; 3]) {
    let (mut bed, ports) = Bed::with_three_ports();
    bed.route("50.0.0.0/8", &["10.0.0.2"]);
    bed.route("51.0.0.0/8", &["10.0.2.2", "10.0.0.99"]);
    bed.route("52.0.0.0/8", &["10.0.2.2", "10.0.2.3"]);
    bed.route_way("53.0.0.0/8", PathAction::Drop);
    bed.run();
    (bed, ports)
}

#[test]
fn strict_takes_what_the_routes_would_send_back_by_the_same_interface() {
    let (mut bed, ports) = bed();
    assert_eq!(get_through(&mut bed, &ports, SOURCES), SOURCES, "nothing is checked unless asked");
    bed.command("set urpf ip4 rx strict e0").unwrap();
    let own = ["10.0.0.2", "10.0.0.77", "50.0.0.1", "51.0.0.1"];
    assert_eq!(get_through(&mut bed, &ports, SOURCES), own);
    // Other interfaces are not affected.
    ports[2].receive_packet(&Packet::udp("99.1.1.1", "10.0.1.2", b"data"));
    bed.run();
    assert_eq!(ports[1].sent().len(), 1);
    bed.command("set urpf ip4 rx off e0").unwrap();
    assert_eq!(get_through(&mut bed, &ports, SOURCES), SOURCES);
}

#[test]
fn loose_takes_what_has_a_route() {
    let (mut bed, ports) = bed();
    bed.command("set urpf ip4 rx loose e0").unwrap();
    let known = ["10.0.0.2", "10.0.0.77", "50.0.0.1", "51.0.0.1", "10.0.2.2", "52.0.0.1"];
    assert_eq!(get_through(&mut bed, &ports, SOURCES), known);
}

#[test]
fn the_default_route_counts_only_when_allowed() {
    let (mut bed, ports) = bed();
    bed.route("0.0.0.0/0", &["10.0.0.2"]);
    for (mode, name) in [("strict", STRICT), ("loose", LOOSE)] {
        bed.command(&format!("set urpf ip4 rx {mode} e0")).unwrap();
        let stranger = Packet::udp("99.1.1.1", "10.0.1.2", b"data");
        assert_eq!(bed.errors_of(|_| drop(ports[0].receive_packet(&stranger))), error("ip4-rx-urpf", name, 1));
        bed.command(&format!("set urpf ip4 rx {mode} e0 allow-default")).unwrap();
        assert_eq!(get_through(&mut bed, &ports, &["99.1.1.1"]), ["99.1.1.1"]);
        // The default route does not help a source with a route of its own.
        assert_eq!(get_through(&mut bed, &ports, &["53.0.0.1"]), [""; 0]);
    }
    // The default route leads elsewhere.
    bed.route("0.0.0.0/0", &["10.0.2.2"]);
    bed.command("set urpf ip4 rx strict e0 allow-default").unwrap();
    assert_eq!(get_through(&mut bed, &ports, &["99.1.1.1"]), [""; 0]);
    // The default route drops.
    bed.route_way("0.0.0.0/0", PathAction::Drop);
    bed.command("set urpf ip4 rx loose e0 allow-default").unwrap();
    assert_eq!(get_through(&mut bed, &ports, &["99.1.1.1"]), [""; 0]);
}

/// Vectors of all lengths use the lookup kernels. Those that mix interfaces are checked packet by packet.
#[test]
fn whole_vectors_are_judged_packet_by_packet() {
    let (mut bed, ports) = bed();
    bed.command("set urpf ip4 rx strict e0").unwrap();
    for count in [1, 15, 16, 17, 256, 700] {
        let mut expected = Vec::new();
        for n in 0..count {
            let source = SOURCES[n % SOURCES.len()];
            let packet = Packet::udp(source, "10.0.1.2", &(n as u32).to_be_bytes());
            let port = &ports[if n % 5 == 3 { 2 } else { 0 }];
            let frame = port.receive_packet(&packet);
            if port.index == ports[2].index || n % SOURCES.len() < 4 {
                expected.push(forwarded(&frame, host_mac(ip("10.0.1.2")), ports[1].mac));
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
fn a_question_of_a_host_without_address_passes_every_check() {
    let (mut bed, ports) = bed();
    bed.command("set urpf ip4 rx strict e0").unwrap();
    let moved = bed.errors_of(|_| drop(ports[0].receive_packet(&Packet::udp("0.0.0.0", "255.255.255.255", b"dhcp"))));
    // No node listens here, but the packet passed the check.
    assert_eq!(moved, error("ip4-icmp-error", "no ICMP error about a group-addressed packet", 1));
}

#[test]
fn the_router_hears_who_it_can_answer_and_itself() {
    let (mut bed, ports) = bed();
    let ping = |source: &str| Packet::echo_request(source, "10.0.0.1", b"data");
    for source in ["10.0.0.2", "10.0.2.2", "50.0.0.1"] {
        let moved = bed.errors_of(|_| drop(ports[0].receive_packet(&ping(source))));
        assert_eq!(moved, error("ip4-icmp-input", "echo replies sent", 1), "{source}");
    }
    // A default route is a way to answer.
    bed.route("0.0.0.0/0", &["10.0.0.2"]);
    let moved = bed.errors_of(|_| drop(ports[0].receive_packet(&ping("99.1.1.1"))));
    assert_eq!(moved, error("ip4-icmp-input", "echo replies sent", 1));
    // Among other packets, the one forged with our address is dropped. A ping of our own address is not taken for
    // forged.
    (0..20).for_each(|_| drop(ports[0].receive_packet(&ping("10.0.0.2"))));
    ports[0].receive_packet(&ping("10.0.2.1"));
    (0..20).for_each(|_| drop(ports[0].receive_packet(&ping("10.0.0.2"))));
    let moved = bed.errors_of(|_| {});
    let mut expected = error("ip4-icmp-input", "echo replies sent", 40);
    expected.extend(error("ip4-local", "ip4 spoofed local-address packet drops", 1));
    assert_eq!(moved, expected);
    let answers = bed.begin("ping 10.0.0.1 repeat 1").unwrap();
    bed.run();
    assert!(answers.text().contains("1 sent, 1 received"), "{}", answers.text());
}

#[test]
fn a_path_that_is_all_weight_still_counts() {
    let (mut bed, ports) = bed();
    let via = |hop, weight| Path::weighing(PathAction::Via { next_hop: ip(hop).into(), interface: None }, weight);
    let paths = vec![via("10.0.2.2", 1), via("10.0.0.2", 3), via("10.0.2.3", 1)];
    bed.router.add_route("54.0.0.0/8".parse::<wire::Prefix>().unwrap(), Source::Config, paths, true).unwrap();
    bed.command("set urpf ip4 strict e0").unwrap();
    assert_eq!(get_through(&mut bed, &ports, &["54.1.1.1"]), ["54.1.1.1"]);
}

#[test]
fn the_check_is_configuration_and_shown() {
    let (mut bed, _) = Bed::with_three_ports();
    bed.command("set urpf ip4 rx strict e0").unwrap();
    bed.command("set urpf ip4 loose e1 allow-default").unwrap();
    let running = bed.command("show running-config").unwrap();
    assert!(running.contains("set urpf ip4 rx strict e0\n"), "{running}");
    assert!(running.contains("set urpf ip4 rx loose e1 allow-default\n"), "{running}");
    let shown = bed.command("show interface features e1").unwrap();
    assert!(shown.contains("ip4-unicast:\n  ip4-rx-urpf (loose allow-default)\n"), "{shown}");
    assert!(shown.contains("ip4-multicast:\n  ip4-rx-urpf (loose allow-default)\n"), "{shown}");
    let shown = bed.command("show interface features e2").unwrap();
    assert!(!shown.contains("urpf"), "{shown}");
    bed.command("set urpf ip4 off e0").unwrap();
    bed.command("set urpf ip4 rx off e1").unwrap();
    assert!(!bed.command("show running-config").unwrap().contains("urpf"));
}

#[test]
fn what_is_for_all_is_no_source() {
    let (mut bed, ports) = bed();
    for line in ["set interface ip directed-broadcast e0 enable", "set interface ip directed-broadcast e1 enable"] {
        bed.command(line).unwrap();
    }
    for packet in [
        Packet::echo_request("10.0.0.255", "10.0.0.1", b"data"),
        Packet::tcp("10.0.0.255", "10.0.0.1", 7, b"data"),
        Packet::echo_request("10.0.1.255", "10.0.0.1", b"data"),
    ] {
        ports[0].receive_packet(&packet);
        let moved = bed.errors_of(|_| {});
        assert_eq!(moved, error("ip4-local", "ip4 source lookup miss", 1), "{packet:?}");
        assert!(ports.iter().all(|port| port.sent().is_empty()));
    }
    for (mode, name) in [("strict", STRICT), ("loose", LOOSE)] {
        bed.command(&format!("set urpf ip4 rx {mode} e0")).unwrap();
        let packet = Packet::udp("10.0.0.255", "10.0.1.2", b"data");
        assert_eq!(bed.errors_of(|_| drop(ports[0].receive_packet(&packet))), error("ip4-rx-urpf", name, 1));
    }
}

#[test]
fn what_is_for_all_here_is_checked_as_well() {
    let (mut bed, ports) = bed();
    let all = |source: &str| Packet::udp(source, "255.255.255.255", b"data");
    let taken = error("ip4-icmp-error", "no ICMP error about a group-addressed packet", 1);
    let receive = |bed: &mut Bed, packet: &Packet| bed.errors_of(|_| drop(ports[0].receive_packet(packet)));
    assert_eq!(receive(&mut bed, &all("99.1.1.1")), taken);
    bed.command("set urpf ip4 rx strict e0").unwrap();
    assert_eq!(receive(&mut bed, &all("99.1.1.1")), error("ip4-rx-urpf", STRICT, 1));
    assert_eq!(receive(&mut bed, &all("10.0.0.2")), taken);
    // A host without an address may send.
    assert_eq!(receive(&mut bed, &all("0.0.0.0")), taken);
    // Options are checked first.
    let routed = [131, 7, 4, 10, 0, 1, 2, 0];
    let moved = receive(&mut bed, &all("10.0.0.2").options(&routed));
    assert_eq!(moved.get(&("ip4-options".into(), "ip4 source route refused".into())), Some(&1), "{moved:?}");
    assert_eq!(receive(&mut bed, &all("10.0.0.2").options(&[1; 4])), taken);
    assert!(ports.iter().all(|port| port.sent().is_empty()));
}
