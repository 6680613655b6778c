//! Proxy Neighbor Discovery (RFC 4861 7.2.8): the router answers for a host behind another interface, forwards to it,
//! and sends solicitations for it.

use crate::bed::{Bed, Port, error};
use crate::packet6::*;
use protocols::nd;
use wire::MacAddress;

const ASKER: MacAddress = MacAddress([2, 0xaa, 0, 0, 0, 2]);
const HOST_MAC: MacAddress = MacAddress([2, 0xbb, 0, 0, 0, 9]);
const OURS: &str = "2001:db8::1";
const HOST: &str = "2001:db8::9";
const NODE: &str = "icmp6-neighbor-discovery";

/// A router with 2001:db8::/64 on e0. One host of that network is behind e1, which has no network of its own.
fn bed() -> (Bed, [Port; 2]) {
    let mut bed = Bed::new();
    let ports = ["e0", "e1"].map(|name| bed.port(name, &[]));
    for line in [
        "set ip6 dad transmits 0",
        &format!("set interface ip address e0 {OURS}/64"),
        "set interface ip address e1 2001:db8:1::1/64",
        &format!("ip6 neighbor e0 2001:db8::2 {ASKER}"),
        &format!("set ip6 nd proxy {HOST} e1"),
    ] {
        bed.command(line).unwrap();
    }
    bed.run();
    ports.iter().for_each(|port| drop(port.sent()));
    (bed, ports)
}

fn hear(port: &Port, packet: &Packet6, from: MacAddress) {
    port.receive(packet.frame(port.mac, from));
}

/// A solicitation for the host: to its group, or to the host, whose Ethernet address is then the router's.
fn question(source: &str, to: &str) -> Packet6 {
    let option = if source == "::" { Vec::new() } else { link_option(1, ASKER) };
    Packet6::discovery(source, to, 135, 0, &[&ip6(HOST).octets()[..], &option].concat())
}

fn packets(port: &Port) -> Vec<Vec<u8>> {
    port.sent().into_iter().map(|frame| frame[14..].to_vec()).collect()
}

#[test]
fn a_host_behind_another_interface_is_answered_for() {
    let (mut bed, [e0, e1]) = bed();
    let data = [&ip6(HOST).octets()[..], &link_option(2, e0.mac)].concat();
    // The answer neither overrides the host's own, nor claims to come from a router.
    const SOLICITED: u32 = 0x4000_0000;
    let group = solicited_group(HOST);
    for (from, to) in [("2001:db8::2", &*group), ("2001:db8::2", HOST), ("fe80::2", &*group), ("fe80::2", HOST)] {
        let moved = bed.errors_of(|_| hear(&e0, &question(from, to), ASKER));
        assert_eq!(moved, error(NODE, "neighbor advertisements sent", 1), "{from} asks {to}");
        let answer = Packet6::discovery(HOST, from, 136, SOLICITED, &data);
        assert_eq!(e0.sent(), [answer.frame(ASKER, e0.mac)], "{from} asks {to}");
    }
    // A host that probes the address learns that it is taken.
    bed.errors_of(|_| hear(&e0, &question("::", &solicited_group(HOST)), ASKER));
    let answer = Packet6::discovery(HOST, "ff02::1", 136, 0, &data);
    assert_eq!(e0.sent(), [answer.frame(MacAddress([0x33, 0x33, 0, 0, 0, 1]), e0.mac)]);
    // On its own link the host answers by itself. The router does not answer for other addresses of the network.
    let moved = bed.errors_of(|_| hear(&e1, &question("fe80::2", &solicited_group(HOST)), ASKER));
    assert_eq!(moved, error("ip6-input", "ip6 multicast not routed", 1));
    let other = Packet6::discovery("2001:db8::2", &solicited_group(HOST), 135, 0, &ip6("2001:db8::a:0:9").octets());
    let moved = bed.errors_of(|_| hear(&e0, &other, ASKER));
    assert_eq!(moved, error(NODE, "neighbor solicitation for another station", 1));
    assert_eq!((e0.sent().len(), e1.sent().len()), (0, 0));
}

#[test]
fn what_is_sent_to_it_is_led_there() {
    let (mut bed, [e0, e1]) = bed();
    let packet = Packet6::udp("2001:db8::2", HOST, b"to the host");
    hear(&e0, &packet, ASKER);
    bed.run();
    let asked = packets(&e1);
    assert_eq!((asked.len(), asked[0][40], &asked[0][48..64]), (1, 135, &ip6(HOST).octets()[..]));
    let data = [&ip6(HOST).octets()[..], &link_option(2, HOST_MAC)].concat();
    hear(&e1, &Packet6::discovery(HOST, "2001:db8:1::1", 136, 0x6000_0000, &data), HOST_MAC);
    bed.run();
    let forwarded = packet.clone().hops(63);
    assert_eq!(e1.sent(), [forwarded.frame(HOST_MAC, e1.mac)]);
    // Also when the host is known already. An echo request with hop limit 255 is no solicitation.
    let echo = Packet6::echo_request("2001:db8::2", HOST, b"").hops(255);
    hear(&e0, &echo, ASKER);
    bed.run();
    assert_eq!(e1.sent(), [echo.hops(254).frame(HOST_MAC, e1.mac)]);
    assert_eq!(bed.router.ip.audit(), Ok(()));
    // The neighbour is forgotten with the route that alone put it on the link.
    bed.command(&format!("set ip6 nd proxy {HOST} e1 del")).unwrap();
    hear(&e0, &packet, ASKER);
    bed.run();
    // Apart from the report that the address's group was left.
    let asked: Vec<_> = packets(&e0).into_iter().filter(|packet| packet[6] == ICMP6).collect();
    assert_eq!((asked.len(), asked[0][40], e1.sent().len()), (1, 135, 0), "asked for where its network is");
    assert_eq!(bed.router.ip.audit(), Ok(()));
}

#[test]
fn it_is_answered_for_where_its_network_is() {
    let (mut bed, [e0, _]) = bed();
    let shown = |bed: &mut Bed| bed.json("show ip6 nd proxy")["hosts"][0]["answered_on"].to_string();
    assert_eq!(shown(&mut bed), r#"["e0"]"#);
    let group = ip6(&solicited_group(HOST)).to_string();
    let joined = |bed: &mut Bed| bed.command("show ip6 interface e0").unwrap().contains(&group);
    assert!(joined(&mut bed));
    bed.command(&format!("set interface ip address del e0 {OURS}/64")).unwrap();
    assert_eq!(shown(&mut bed), "[]");
    bed.command("set interface ip address e0 2001:db8::5/64").unwrap();
    assert_eq!(shown(&mut bed), r#"["e0"]"#);
    // Only for its own table.
    bed.command("ip6 table add 7").unwrap();
    bed.command("set interface ip address del e1 all").unwrap();
    bed.command("set interface ip6 table e1 7").unwrap();
    assert_eq!(shown(&mut bed), "[]");
    assert!(!joined(&mut bed));
    let moved = bed.errors_of(|_| hear(&e0, &question("2001:db8::2", &solicited_group(HOST)), ASKER));
    assert_eq!(moved, error("ip6-input", "ip6 multicast not routed", 1));
    assert!(bed.command(&format!("show ip6 fib table 7 {HOST}")).unwrap().contains("IP6-proxy-nd"));
    let saved = bed.command("show running-config").unwrap();
    assert!(saved.contains(&format!("set ip6 nd proxy {HOST} e1\n")), "{saved}");
    bed.command("delete interface e1").unwrap();
    assert_eq!(nd::proxy::proxied_hosts(&bed.router).count(), 0);
    assert_eq!(bed.router.ip.audit(), Ok(()));
}

/// An operator's neighbour stays when the route is removed that alone put its address on the link.
#[test]
fn a_static_neighbour_stays_when_it_is_no_longer_answered_for() {
    let (mut bed, _) = bed();
    bed.command(&format!("ip6 neighbor e1 {HOST} {HOST_MAC}")).unwrap();
    bed.command(&format!("set ip6 nd proxy {HOST} e1 del")).unwrap();
    assert!(bed.command("show running-config").unwrap().contains(&format!("ip neighbor e1 {HOST} {HOST_MAC}")));
    assert_eq!(bed.router.ip.audit(), Ok(()));
}

#[test]
fn what_cannot_be_answered_for_is_refused() {
    let (mut bed, _) = bed();
    bed.command("create loopback interface").unwrap();
    for (line, refusal) in [
        (format!("{OURS} e1"), format!("{OURS} is an address of e0, which answers for it anyway")),
        (format!("{HOST} e1"), format!("{HOST} is answered for already, as a host behind e1")),
        (format!("{HOST} e0"), format!("{HOST} is answered for already, as a host behind e1")),
        (
            format!("{HOST} e0 del"),
            format!("{HOST} is not answered for as a host behind e0 ('show ip6 nd proxy' lists who is)"),
        ),
        ("fe80::9 e1".into(), "fe80::9 is no address of a host beyond its link".into()),
        ("ff02::9 e1".into(), "ff02::9 is no address of a host beyond its link".into()),
        (":: e1".into(), ":: is no address of a host beyond its link".into()),
    ] {
        let error = bed.command(&format!("set ip6 nd proxy {line}")).unwrap_err();
        assert_eq!(error, format!("set ip6 nd proxy: {refusal}"), "{line}");
    }
    assert!(bed.command("set ip6 nd proxy 2001:db8::a loop0").unwrap_err().contains("loop0"));
    // The saved configuration can be loaded in any order: no address is both the router's and a proxied host's.
    let error = bed.command(&format!("set interface ip address e0 {HOST}/64")).unwrap_err();
    assert!(error.contains("a host behind e1 that is answered for"), "{error}");
    bed.port("e2", &[]);
    for line in ["ip6 table add 7", "set interface ip6 table e2 7", &format!("set ip6 nd proxy {HOST} e2")] {
        bed.command(line).unwrap();
    }
    let error = bed.command("set interface ip6 table e2 0").unwrap_err();
    assert!(error.contains("answered for already, as a host behind e1"), "{error}");
    bed.command(&format!("set ip6 nd proxy {HOST} e2 del")).unwrap();
    let index = bed.router.interfaces.find("e1").unwrap();
    for number in 1..protocols::nd::proxy::MAX_PROXIED as u32 {
        nd::proxy::add_proxied_host(&mut bed.router, index, ip6(&format!("2001:db8::1:{number:x}"))).unwrap();
    }
    let error = bed.command("set ip6 nd proxy 2001:db8::f e1").unwrap_err();
    assert!(error.contains("at most 1024"), "{error}");
}
