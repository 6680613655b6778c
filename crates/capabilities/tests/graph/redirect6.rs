//! Redirects of IPv6 (RFC 4861 section 8.2): which senders the router redirects to a better first hop, and which it
//! does not.

use crate::bed::{Bed, Port, error};
use crate::bed6::{bed, mac_of};
use crate::packet6::*;
use wire::MacAddress;

const OURS: &str = "fe80::ff:fe00:1000";
const SENDER: &str = "2001:db8::2";
/// Another router on e0's link, the next hop for 2001:db8:60::/48, and another host.
const ROUTER: &str = "fe80::9";
const ROUTER_MAC: MacAddress = MacAddress([2, 0xbb, 0, 0, 0, 9]);
const HOST: &str = "2001:db8::3";
const HOST_MAC: MacAddress = MacAddress([2, 0xbb, 0, 0, 0, 3]);

fn redirecting() -> (Bed, [Port; 3]) {
    let (mut bed, ports) = bed();
    for line in [
        "ip6 neighbor e0 fe80::9 02:bb:00:00:00:09",
        "ip6 neighbor e0 2001:db8::3 02:bb:00:00:00:03",
        "ip route add 2001:db8:60::/48 via fe80::9 e0",
        "set interface ip6 redirects e0 enable",
    ] {
        bed.command(line).unwrap();
    }
    bed.run();
    (bed, ports)
}

fn send(port: &Port, packet: &Packet6) {
    port.receive(packet.frame(port.mac, mac_of(0)));
}

/// The redirect to e0's neighbour about a packet that it sent.
fn redirect(port: &Port, about: &Packet6, target: &str, mac: MacAddress) -> Vec<u8> {
    let bytes = about.bytes();
    let most = 1280 - 40 - 40 - 8 - 8;
    let quote = &bytes[..bytes.len().min(most) / 8 * 8];
    let quoting = [&[4, (1 + quote.len() / 8) as u8, 0, 0, 0, 0, 0, 0], quote].concat();
    let addresses = [ip6(target).octets(), about.destination.octets()].concat();
    let data = [&addresses[..], &link_option(2, mac), &quoting].concat();
    Packet6::discovery(OURS, SENDER, 137, 0, &data).frame(mac_of(0), port.mac)
}

#[test]
fn a_host_is_told_of_a_better_first_hop_and_its_packet_goes_on() {
    let (mut bed, [e0, e1, _]) = redirecting();
    // The redirect is sent on the link from its link-local address, whatever the routes say.
    bed.command("ip route add 2001:db8::2/128 via 2001:db8:1::2").unwrap();
    let far = Packet6::udp(SENDER, "2001:db8:60::1", &[7; 1300]).extension(HOP_BY_HOP, &[1, 4, 0, 0, 0, 0]);
    let near = Packet6::udp(SENDER, HOST, b"x");
    for (packet, target, mac) in [(&far, ROUTER, ROUTER_MAC), (&near, HOST, HOST_MAC)] {
        let moved = bed.errors_of(|_| send(&e0, packet));
        assert_eq!(moved, error("ip6-redirect", "ICMPv6 redirect sent", 1));
        let mut sent = e0.sent();
        sent.sort_by_key(|frame| frame[54] != 137);
        assert_eq!(sent, [redirect(&e0, packet, target, mac), packet.clone().hops(63).frame(mac, e0.mac)]);
        assert!(sent[0].len() <= 14 + 1280);
    }
    assert_eq!((e1.sent().len(), bed.buffers_in_use()), (0, 0));
}

#[test]
fn nothing_is_said_where_there_is_no_better_hop() {
    let (mut bed, [e0, e1, _]) = redirecting();
    bed.command("ip route add 2001:db8:61::/48 via 2001:db8:1::2").unwrap();
    // To another interface; from another interface; from a sender that is no neighbour; from the next hop itself;
    // errors.
    for (port, packet, onward) in [
        (&e0, Packet6::udp(SENDER, "2001:db8:61::1", b""), &e1),
        (&e1, Packet6::udp("2001:db8:1::2", "2001:db8:60::1", b""), &e0),
        (&e0, Packet6::udp("2001:db8:61::9", "2001:db8:60::1", b""), &e0),
        (&e0, Packet6::udp(HOST, HOST, b""), &e0),
        (&e0, Packet6::icmp(SENDER, "2001:db8:60::1", (1, 0), 0, &[0; 48]), &e0),
    ] {
        let moved = bed.errors_of(|_| send(port, &packet));
        assert_eq!((moved, onward.sent().len()), (Default::default(), 1), "{packet:?}");
    }
    assert_eq!((e0.sent().len(), e1.sent().len()), (0, 0));
}

/// Hosts identify a router by its link-local address only.
#[test]
fn a_router_that_is_known_by_another_address_is_not_told_of() {
    let (mut bed, [e0, ..]) = redirecting();
    bed.command("ip route add 2001:db8:62::/48 via 2001:db8::3").unwrap();
    let moved = bed.errors_of(|_| send(&e0, &Packet6::udp(SENDER, "2001:db8:62::1", b"")));
    assert_eq!(moved, error("ip6-redirect", "ICMPv6 redirect not sent, next hop is no link-local address", 1));
    assert_eq!(e0.sent().len(), 1);
}

#[test]
fn a_redirect_is_sent_once_a_second_and_only_where_it_is_wanted() {
    let (mut bed, [e0, ..]) = redirecting();
    let packet = Packet6::udp(SENDER, "2001:db8:60::1", b"");
    let moved = bed.errors_of(|_| (0..100).for_each(|_| send(&e0, &packet)));
    let mut expected = error("ip6-redirect", "ICMPv6 redirect sent", 1);
    expected.extend(error("ip6-redirect", "ICMPv6 redirects limited by rate", 99));
    assert_eq!((moved, e0.sent().len()), (expected, 101));
    // The limit is per destination, and the rate of all errors applies.
    bed.command("set ip icmp error-rate 3 burst 3").unwrap();
    let moved = bed.errors_of(|_| {
        (0..9).for_each(|host| send(&e0, &Packet6::udp(SENDER, &format!("2001:db8:60::a{host}"), b"")));
    });
    assert_eq!(moved[&("ip6-redirect".into(), "ICMPv6 redirects limited by rate".into())], 6);
    bed.command("set ip icmp error-rate default").unwrap();
    // Redirects are off by default, and can be turned off again; IPv4 has its own setting.
    assert!(bed.command("show running-config").unwrap().contains("set interface ip6 redirects e0 enable\n"));
    assert!(bed.command("show ip icmp").unwrap().ends_with("redirects: none\ninterfaces with ip6 redirects: e0\n"));
    bed.command("set interface ip redirects e0 enable").unwrap();
    bed.command("set interface ip6 redirects e0 disable").unwrap();
    e0.sent();
    let moved = bed.errors_of(|_| send(&e0, &Packet6::udp(SENDER, "2001:db8:60::5", b"")));
    assert_eq!((moved, e0.sent().len()), (Default::default(), 1));
    assert!(!bed.command("show running-config").unwrap().contains("ip6 redirects"));
    // The setting is removed with the interface.
    bed.command("set interface ip6 redirects e0 enable").unwrap();
    bed.command("set interface state e0 down").unwrap();
    bed.router.delete_interface(e0.index).unwrap();
    assert!(bed.command("show ip icmp").unwrap().ends_with("redirects: none\ninterfaces with ip6 redirects: none\n"));
}

#[test]
fn without_buffers_packets_go_on_and_nobody_is_told() {
    let (mut bed, [e0, ..]) = redirecting();
    send(&e0, &Packet6::udp(SENDER, "2001:db8:60::1", b""));
    let mut all = vec![graph::PacketIndex::NONE; 4096];
    // One free buffer, for the packet itself.
    let free = bed.worker.core().buffers.allocate(&mut all);
    bed.worker.core().buffers.free(&all[free - 1..free]);
    let moved = bed.errors_of(|_| {});
    assert_eq!((moved, e0.sent().len()), (error("ip6-redirect", "no free buffer", 1), 1));
    bed.worker.core().buffers.free(&all[..free - 1]);
    assert_eq!(bed.buffers_in_use(), 0);
}
