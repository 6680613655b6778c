//! Duplicate Address Detection (RFC 4862 5.4): the router probes addresses before it uses them, and does not use an
//! address that another station has.

use crate::bed::{Bed, Port, error};
use crate::packet6::*;
use std::time::Duration;
use wire::MacAddress;

const STRANGER: MacAddress = MacAddress([2, 0xbb, 0, 0, 0, 1]);
const OURS: &str = "2001:db8::1";
const NODE: &str = "icmp6-neighbor-discovery";
/// Longer than the wait for an answer.
const PATIENCE: Duration = Duration::from_millis(1001);

/// A router whose port e0 is probing [`OURS`].
fn bed() -> (Bed, Port) {
    let mut bed = Bed::new();
    let port = bed.port("e0", &[]);
    bed.command(&format!("set interface ip address e0 {OURS}/64")).unwrap();
    bed.run();
    (bed, port)
}

/// Another station probes an address, too.
fn probe(target: &str, nonce: &[u8]) -> Packet6 {
    let option = if nonce.is_empty() { Vec::new() } else { [&[14, 1][..], nonce].concat() };
    let data = [&ip6(target).octets()[..], &option].concat();
    Packet6::discovery("::", &solicited_group(target), 135, 0, &data)
}

/// A station asks for an address of the router's.
fn question(target: &str) -> Packet6 {
    let data = [&ip6(target).octets()[..], &link_option(1, STRANGER)].concat();
    Packet6::discovery("2001:db8::9", &solicited_group(target), 135, 0, &data)
}

/// A station says that it has an address.
fn claim(target: &str) -> Packet6 {
    let data = [&ip6(target).octets()[..], &link_option(2, STRANGER)].concat();
    Packet6::discovery(target, "ff02::1", 136, 0x2000_0000, &data)
}

fn hear(port: &Port, packet: &Packet6) {
    port.receive(packet.frame(port.mac, STRANGER));
}

/// The nonces of the probes that were sent. All must be probes for that address, to the byte.
fn probes(port: &Port, target: &str) -> Vec<Vec<u8>> {
    let group = solicited_group(target);
    let [.., a, b, c] = ip6(&group).octets();
    let nonces = port.sent().into_iter().filter_map(|frame| {
        let nonce = frame[14 + 40 + 24 + 2..].to_vec();
        let is_of_target = frame[14 + 48..14 + 64] == ip6(target).octets();
        let expected = probe(target, &nonce).frame(MacAddress([0x33, 0x33, 0xff, a, b, c]), port.mac);
        assert!(!is_of_target || frame == expected, "{frame:x?}");
        is_of_target.then_some(nonce)
    });
    nonces.collect()
}

/// The state of [`OURS`].
fn standing(bed: &mut Bed) -> String {
    let shown = bed.json("show ip6 interface e0");
    shown["interfaces"][0]["unused"][OURS].as_str().unwrap_or("used").to_string()
}

fn routes_to_ourselves(bed: &mut Bed) -> bool {
    bed.command(&format!("show ip6 fib {OURS}")).unwrap().contains(&format!("{OURS}/128"))
}

#[test]
fn an_address_is_asked_for_first_and_used_when_nobody_answers() {
    let (mut bed, port) = bed();
    let asked = probes(&port, OURS);
    assert_eq!(asked.len(), 1);
    assert_eq!(standing(&mut bed), "tentative");
    let moved = bed.errors_of(|_| hear(&port, &question(OURS)));
    assert_eq!(moved, error(NODE, "neighbor solicitation of a tentative address", 1));
    assert_eq!(port.sent().len(), 0);
    bed.advance(PATIENCE);
    assert_eq!(standing(&mut bed), "used");
    // Both addresses are announced.
    let of_neighbours = port.sent().into_iter().filter(|frame| frame[20] == ICMP6);
    let mut announced: Vec<_> = of_neighbours.map(|frame| (frame[54], frame[62..78].to_vec())).collect();
    announced.sort();
    let link_local = ip6("fe80::ff:fe00:1000").octets().to_vec();
    assert_eq!(announced, [(136, ip6(OURS).octets().to_vec()), (136, link_local)]);
    hear(&port, &question(OURS));
    bed.run();
    assert_eq!(port.sent().len(), 1, "answered");
}

#[test]
fn a_question_of_ours_that_the_link_reflects_is_no_other_stations() {
    let (mut bed, port) = bed();
    let asked = probes(&port, OURS);
    // Reflected by a bridge, and by a device that rewrites Ethernet addresses.
    for mac in [port.mac, STRANGER] {
        let frame = probe(OURS, &asked[0]).frame(port.mac, mac);
        let moved = bed.errors_of(|_| port.receive(frame));
        assert_eq!(moved, error(NODE, "duplicate address probe of ours came back", 1));
    }
    bed.advance(PATIENCE);
    assert_eq!(standing(&mut bed), "used");
}

#[test]
fn an_address_that_another_station_has_is_that_stations() {
    let others: [fn() -> Packet6; 3] = [|| probe(OURS, &[]), || probe(OURS, &[1, 2, 3, 4, 5, 6]), || claim(OURS)];
    for other in others {
        let (mut bed, port) = bed();
        assert!(routes_to_ourselves(&mut bed));
        let moved = bed.errors_of(|_| hear(&port, &other()));
        assert_eq!(moved, error(NODE, "neighbor has an address of ours", 1));
        let expected = format!("duplicate, {STRANGER} has it");
        assert_eq!(standing(&mut bed), expected);
        bed.advance(PATIENCE);
        bed.advance(PATIENCE);
        assert_eq!(standing(&mut bed), expected);
        // The router neither answers for the address nor sends from it. Packets to the address go to the other station.
        port.sent();
        let moved = bed.errors_of(|_| hear(&port, &question(OURS)));
        assert_eq!(moved, error(NODE, "neighbor solicitation for another station", 1));
        assert!(!routes_to_ourselves(&mut bed));
        let shown = bed.command("show ip6 interface e0").unwrap();
        assert!(shown.contains(&format!("    {OURS}/64 [duplicate, {STRANGER} has it]")), "{shown}");
        assert_eq!(bed.router.ip.audit(), Ok(()));
        // When the interface comes up again, the router probes again.
        bed.command("set interface state e0 down").unwrap();
        bed.command("set interface state e0 up").unwrap();
        bed.run();
        assert_eq!((standing(&mut bed), probes(&port, OURS).len()), ("tentative".into(), 1));
        assert!(routes_to_ourselves(&mut bed));
        bed.advance(PATIENCE);
        assert_eq!(standing(&mut bed), "used");
        assert_eq!(bed.router.ip.audit(), Ok(()));
    }
}

#[test]
fn who_comes_later_is_answered_and_the_address_stays() {
    let (mut bed, port) = bed();
    bed.advance(PATIENCE);
    port.sent();
    hear(&port, &probe(OURS, &[9; 6]));
    bed.run();
    let sent = port.sent();
    let all_nodes = MacAddress([0x33, 0x33, 0, 0, 0, 1]);
    let data = [&ip6(OURS).octets()[..], &link_option(2, port.mac)].concat();
    let answer = Packet6::discovery(OURS, "ff02::1", 136, 0xa000_0000, &data);
    assert_eq!(sent, [answer.frame(all_nodes, port.mac)]);
    // A station that ignores the defence is answered again, in whatever way it uses the address.
    let mut asking = question("fe80::ff:fe00:1000");
    asking.source = ip6(OURS);
    let asking = asking.sealed_at(2);
    for packet in [claim(OURS), question(OURS), asking] {
        let (mut bed, port) = self::bed();
        bed.advance(PATIENCE);
        port.sent();
        let is_asked = packet.source != ip6(OURS);
        let moved = bed.errors_of(|_| hear(&port, &packet));
        let sent = port.sent();
        assert_eq!((standing(&mut bed), sent.len()), ("used".into(), 1), "{moved:?}");
        let expected = if is_asked { "neighbor advertisements sent" } else { "neighbor has an address of ours" };
        assert_eq!(moved, error(NODE, expected, 1));
    }
}

#[test]
fn the_link_is_asked_as_often_as_was_set_and_again_when_it_comes_back() {
    let mut bed = Bed::new();
    bed.command("set ip6 dad transmits 3").unwrap();
    assert!(bed.command("show running-config").unwrap().contains("set ip6 dad transmits 3\n"));
    let port = bed.port("e0", &[]);
    bed.command(&format!("set interface ip address e0 {OURS}/64")).unwrap();
    bed.run();
    for _ in 0..3 {
        assert_eq!((standing(&mut bed), probes(&port, OURS).len()), ("tentative".into(), 1));
        bed.advance(PATIENCE);
    }
    port.sent();
    assert_eq!(standing(&mut bed), "used");
    bed.command("set ip6 dad default").unwrap();
    assert!(!bed.command("show running-config").unwrap().contains("dad"));
    // While the link is down, no station can answer a probe.
    port.set_carrier(false);
    bed.advance(Duration::from_secs(2));
    port.sent();
    assert_eq!(standing(&mut bed), "used");
    port.set_carrier(true);
    bed.advance(Duration::from_secs(2));
    assert_eq!((standing(&mut bed), probes(&port, OURS).len()), ("tentative".into(), 1));
    // An address that is removed while it is probed is neither probed again nor used.
    bed.command(&format!("set interface ip address del e0 {OURS}/64")).unwrap();
    bed.run();
    port.sent();
    bed.advance(PATIENCE);
    assert_eq!(port.sent().len(), 0);
    assert_eq!(bed.router.ip.audit(), Ok(()));
}

#[test]
fn without_questions_addresses_are_used_at_once() {
    let mut bed = Bed::new();
    bed.command("set ip6 dad transmits 0").unwrap();
    let port = bed.port("e0", &[]);
    bed.command(&format!("set interface ip address e0 {OURS}/64")).unwrap();
    bed.run();
    let sent = port.sent();
    let kinds: Vec<u8> = sent.iter().filter(|frame| frame[20] == ICMP6).map(|frame| frame[54]).collect();
    assert_eq!((standing(&mut bed), kinds), ("used".into(), vec![136, 136]), "announced");
}
