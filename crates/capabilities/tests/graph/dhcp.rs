//! The DHCP client against servers that the test simulates, to the byte.

use crate::bed::{Bed, Errors, Port, error, prefix};
use crate::packet::*;
use graph::InterfaceIndex;
use protocols::local::UdpListeners;
use router::ip::control::Source;
use std::time::Duration;
use wire::MacAddress;

const SERVER: &str = "192.0.2.1";
const SERVER_MAC: MacAddress = MacAddress([2, 0xdd, 0, 0, 0, 1]);
const LEASED: &str = "192.0.2.9";
const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const ASK: u8 = 3;
const DECLINE: u8 = 4;
const ACK: u8 = 5;
const NAK: u8 = 6;
const RELEASE: u8 = 7;
const COOKIE: [u8; 4] = [99, 130, 83, 99];

/// A DHCP message after its UDP header, with these options, padded to 300 bytes.
fn message(
    operation: u8,
    transaction: [u8; 4],
    rest: (u16, u16, &str, &str),
    mac: MacAddress,
    options: &[u8],
) -> Vec<u8> {
    let (seconds, flags, client, yours) = rest;
    let mut bytes = vec![operation, 1, 6, 0];
    bytes.extend(transaction);
    bytes.extend(seconds.to_be_bytes());
    bytes.extend(flags.to_be_bytes());
    bytes.extend(ip(client).octets());
    bytes.extend(ip(yours).octets());
    bytes.extend([0; 8]);
    bytes.extend(mac.0);
    bytes.extend([0; 202]);
    bytes.extend(COOKIE);
    bytes.extend(options);
    bytes.push(255);
    bytes.resize(bytes.len().max(300), 0);
    bytes
}

fn datagram(source: &str, destination: &str, ports: [u16; 2], data: &[u8]) -> Packet {
    let mut packet = Packet::udp(source, destination, data);
    packet.payload[..2].copy_from_slice(&ports[0].to_be_bytes());
    packet.payload[2..4].copy_from_slice(&ports[1].to_be_bytes());
    packet.fill_transport_checksum(6);
    packet
}

/// A server's answer.
#[derive(Clone)]
struct Answer {
    kind: u8,
    transaction: [u8; 4],
    yours: &'static str,
    server: &'static str,
    mac: MacAddress,
    /// Lease time, mask, router.
    options: Vec<u8>,
}

fn usual_options() -> Vec<u8> {
    [&[51, 4, 0, 0, 14, 16][..], &[1, 4, 255, 255, 255, 0], &[3, 4, 192, 0, 2, 1], &[6, 4, 192, 0, 2, 53]].concat()
}

impl Answer {
    fn new(kind: u8, port: &Port, transaction: [u8; 4]) -> Answer {
        let options = if kind == NAK { Vec::new() } else { usual_options() };
        Answer { kind, transaction, yours: LEASED, server: SERVER, mac: port.mac, options }
    }

    fn frame(&self) -> Vec<u8> {
        let server = ip(self.server).octets();
        let options = [&[53, 1, self.kind, 54, 4][..], &server, &self.options].concat();
        let message = message(2, self.transaction, (0, 0x8000, "0.0.0.0", self.yours), self.mac, &options);
        datagram(SERVER, "255.255.255.255", [67, 68], &message).frame(MacAddress::BROADCAST, SERVER_MAC)
    }
}

/// A frame of the client's, parsed.
#[derive(Debug, PartialEq)]
struct Said {
    kind: u8,
    transaction: [u8; 4],
    to: MacAddress,
    source: String,
    destination: String,
}

fn said(frame: &[u8]) -> Said {
    let four = |at: usize| [frame[at], frame[at + 1], frame[at + 2], frame[at + 3]];
    let address = |at: usize| std::net::Ipv4Addr::from(four(at)).to_string();
    assert_eq!((&frame[34..38], &frame[278..282]), (&[0, 68, 0, 67][..], &COOKIE[..]), "{frame:02x?}");
    let to = MacAddress(frame[..6].try_into().unwrap());
    Said { kind: frame[284], transaction: four(46), to, source: address(26), destination: address(30) }
}

/// A router whose port `wan` has a client that has sent its first DISCOVER.
fn bed() -> (Bed, Port, [u8; 4]) {
    bed_of(Bed::new())
}

/// The same, made of an empty bed.
fn bed_of(mut bed: Bed) -> (Bed, Port, [u8; 4]) {
    let wan = bed.port("wan", &[]);
    bed.command("set dhcp client intfc wan").unwrap();
    bed.advance(Duration::ZERO);
    let transaction = only(&wan, DISCOVER).transaction;
    (bed, wan, transaction)
}

/// The only frame that was sent since the last call, a message of this kind.
fn only(port: &Port, kind: u8) -> Said {
    let sent = port.sent();
    assert_eq!(sent.len(), 1, "{sent:02x?}");
    let said = said(&sent[0]);
    assert_eq!(said.kind, kind);
    said
}

fn silent(port: &Port) {
    assert_eq!(port.sent(), Vec::<Vec<u8>>::new());
}

fn answer(bed: &mut Bed, port: &Port, answer: &Answer) -> Errors {
    port.receive(answer.frame());
    bed.errors_of(|_| {})
}

/// The same, after it got a lease.
fn bound() -> (Bed, Port) {
    let (mut bed, wan, transaction) = bed();
    answer(&mut bed, &wan, &Answer::new(OFFER, &wan, transaction));
    only(&wan, ASK);
    answer(&mut bed, &wan, &Answer::new(ACK, &wan, transaction));
    assert_eq!(wan.sent().len(), 1, "the announcement");
    assert_eq!(state(&mut bed), "DHCP_BOUND");
    (bed, wan)
}

fn state(bed: &mut Bed) -> String {
    bed.json("show dhcp client")["clients"][0]["state"].as_str().unwrap().into()
}

fn addresses(bed: &Bed, index: InterfaceIndex) -> Vec<String> {
    bed.router.interfaces.get(index).unwrap().addresses.iter().map(ToString::to_string).collect()
}

fn default_routes(bed: &Bed) -> Vec<Source> {
    let route = bed.router.ip.routes().get(prefix("0.0.0.0/0"));
    route.into_iter().flat_map(|route| route.sources.into_keys()).collect()
}

fn taken(count: u64) -> Errors {
    error("ip4-dhcp-client", "DHCP messages for our clients", count)
}

#[test]
fn an_address_and_a_default_route_are_leased() {
    let mut bed = Bed::new();
    let wan = bed.port("wan", &[]);
    bed.command("set dhcp client intfc wan hostname edge1").unwrap();
    bed.advance(Duration::ZERO);
    let asked = wan.sent();
    let transaction = said(&asked[0]).transaction;
    let [a, b, c, d, e, f] = wan.mac.0;
    let who =
        [&[12, 5][..], b"edge1", &[61, 7, 1, a, b, c, d, e, f, 57, 2, 2, 64, 55, 6, 1, 3, 6, 51, 58, 59]].concat();
    let expected = |kind: &[u8]| {
        let options = [kind, &who].concat();
        let message = message(1, transaction, (0, 0x8000, "0.0.0.0", "0.0.0.0"), wan.mac, &options);
        let packet = datagram("0.0.0.0", "255.255.255.255", [68, 67], &message).id(0).fragment(DONT_FRAGMENT);
        packet.frame(MacAddress::BROADCAST, wan.mac)
    };
    assert_eq!(asked, [expected(&[53, 1, DISCOVER])]);
    assert_eq!(bed.command("show dhcp client").unwrap(), "[1] wan state DHCP_DISCOVER hostname edge1 no address\n");

    assert_eq!(answer(&mut bed, &wan, &Answer::new(OFFER, &wan, transaction)), taken(1));
    assert_eq!(wan.sent(), [expected(&[53, 1, ASK, 50, 4, 192, 0, 2, 9, 54, 4, 192, 0, 2, 1])]);
    assert_eq!(addresses(&bed, wan.index), [""; 0]);

    assert_eq!(answer(&mut bed, &wan, &Answer::new(ACK, &wan, transaction)), taken(1));
    let announcement = arp(REQUEST, (wan.mac, LEASED), (MacAddress::ZERO, LEASED));
    assert_eq!(wan.sent(), [ethernet(MacAddress::BROADCAST, wan.mac, 0x0806, &announcement)]);
    assert_eq!(addresses(&bed, wan.index), ["192.0.2.9/24"]);
    assert_eq!(default_routes(&bed), [Source::Dhcp]);
    let shown = bed.command("show dhcp client intfc wan").unwrap();
    let head =
        "[1] wan state DHCP_BOUND hostname edge1 addr 192.0.2.9/24 gw 192.0.2.1 server 192.0.2.1 dns 192.0.2.53\n";
    assert!(shown.starts_with(head), "{shown}");
    // The router sends an ARP request for the gateway when it has a packet for it.
    let lan = bed.port("lan", &["10.0.0.1/24"]);
    lan.receive_packet(&Packet::udp("10.0.0.2", "198.51.100.1", b"x"));
    bed.run();
    let question = arp(REQUEST, (wan.mac, LEASED), (MacAddress::ZERO, SERVER));
    assert_eq!(wan.sent(), [ethernet(MacAddress::BROADCAST, wan.mac, 0x0806, &question)]);
}

#[test]
fn an_operators_default_route_goes_before_that_of_a_lease() {
    let (mut bed, _) = bound();
    let _lan = bed.port("lan", &["10.0.0.1/24"]);
    bed.command("ip route add 0.0.0.0/0 via 10.0.0.2").unwrap();
    assert_eq!(default_routes(&bed), [Source::Config, Source::Dhcp]);
    bed.command("set dhcp client del intfc wan").unwrap();
    assert_eq!(default_routes(&bed), [Source::Config]);
}

#[test]
fn servers_are_looked_for_again_and_again() {
    let (mut bed, wan, transaction) = bed();
    for pause in [4, 8, 16, 32, 64, 64] {
        bed.advance(Duration::from_millis(pause * 1000 - 1500));
        silent(&wan);
        bed.advance(Duration::from_millis(3000));
        let said = only(&wan, DISCOVER);
        assert_eq!((said.transaction, said.to), (transaction, MacAddress::BROADCAST));
        // The next pause is counted from the last tick.
        bed.advance(Duration::ZERO);
    }
}

#[test]
fn a_lease_is_renewed_then_rebound_then_over() {
    let (mut bed, wan) = bound();
    bed.advance(Duration::from_secs(1790));
    silent(&wan);
    bed.advance(Duration::from_secs(15));
    let sent = wan.sent();
    let transaction = said(&sent[0]).transaction;
    // Unicast to the server, from the leased address.
    let [a, b, c, d, e, f] = wan.mac.0;
    let options = [53, 1, ASK, 61, 7, 1, a, b, c, d, e, f, 57, 2, 2, 64, 55, 6, 1, 3, 6, 51, 58, 59];
    let asked = message(1, transaction, (0, 0, LEASED, "0.0.0.0"), wan.mac, &options);
    let packet = datagram(LEASED, SERVER, [68, 67], &asked).id(0).fragment(DONT_FRAGMENT);
    assert_eq!(sent, [packet.frame(SERVER_MAC, wan.mac)]);
    // An answer of another server is ignored while renewing.
    let mut other = Answer::new(NAK, &wan, transaction);
    other.server = "192.0.2.2";
    assert_eq!(answer(&mut bed, &wan, &other), taken(1));
    assert_eq!(state(&mut bed), "DHCP_RENEW");
    answer(&mut bed, &wan, &Answer::new(ACK, &wan, transaction));
    assert_eq!(state(&mut bed), "DHCP_BOUND");
    silent(&wan);
    // The second time no server answers: requests at 1800 s and at half of what is left, rebinding at 3150 s, the end
    // at 3600 s.
    bed.advance(Duration::from_secs(1801));
    assert_eq!(only(&wan, ASK).destination, SERVER);
    bed.advance(Duration::from_secs(676));
    assert_eq!(only(&wan, ASK).destination, SERVER);
    bed.advance(Duration::from_secs(674));
    let said = only(&wan, ASK);
    assert_eq!((said.source.as_str(), said.destination.as_str()), (LEASED, "255.255.255.255"));
    assert_eq!((state(&mut bed).as_str(), said.to), ("DHCP_REBIND", MacAddress::BROADCAST));
    assert_eq!(addresses(&bed, wan.index), ["192.0.2.9/24"]);
    bed.advance(Duration::from_secs(450));
    assert_eq!(only(&wan, DISCOVER).source, "0.0.0.0");
    assert_eq!((addresses(&bed, wan.index), default_routes(&bed)), (Vec::new(), Vec::new()));
}

#[test]
fn any_server_may_rebind_a_lease() {
    let (mut bed, wan) = bound();
    bed.advance(Duration::from_secs(3200));
    let mut ack = Answer::new(ACK, &wan, only(&wan, ASK).transaction);
    ack.server = "192.0.2.2";
    answer(&mut bed, &wan, &ack);
    assert_eq!(state(&mut bed), "DHCP_BOUND");
    assert!(bed.command("show dhcp client").unwrap().contains("server 192.0.2.2"));
}

#[test]
fn who_is_refused_begins_anew() {
    let (mut bed, wan) = bound();
    bed.advance(Duration::from_secs(1801));
    let transaction = only(&wan, ASK).transaction;
    answer(&mut bed, &wan, &Answer::new(NAK, &wan, transaction));
    assert_eq!((addresses(&bed, wan.index), default_routes(&bed)), (Vec::new(), Vec::new()));
    silent(&wan);
    bed.advance(Duration::from_secs(1));
    assert_ne!(only(&wan, DISCOVER).transaction, transaction);
}

#[test]
fn requests_that_nobody_answers_end_in_another_search() {
    let (mut bed, wan, transaction) = bed();
    answer(&mut bed, &wan, &Answer::new(OFFER, &wan, transaction));
    only(&wan, ASK);
    for pause in [4, 8, 16] {
        bed.advance(Duration::from_secs(pause + 2));
        assert_eq!(only(&wan, ASK).transaction, transaction);
    }
    bed.advance(Duration::from_secs(34));
    assert_ne!(only(&wan, DISCOVER).transaction, transaction);
}

#[test]
fn messages_for_others_and_broken_ones_change_nothing() {
    let (mut bed, wan, transaction) = bed();
    let offer = Answer::new(OFFER, &wan, transaction);
    let other = || error("ip4-dhcp-client", "DHCP message for another client", 1);
    let malformed = || error("ip4-dhcp-client", "malformed DHCP message", 1);
    let mut wrong = offer.clone();
    wrong.transaction[3] ^= 1;
    assert_eq!(answer(&mut bed, &wan, &wrong), other());
    let mut wrong = offer.clone();
    wrong.mac = SERVER_MAC;
    assert_eq!(answer(&mut bed, &wan, &wrong), other());
    let mut wrong = offer.clone();
    wrong.options = vec![1, 5, 255, 255, 255, 0, 0];
    assert_eq!(answer(&mut bed, &wan, &wrong), malformed());
    wan.receive(datagram(SERVER, "255.255.255.255", [67, 68], b"short").frame(MacAddress::BROADCAST, SERVER_MAC));
    assert_eq!(bed.errors_of(|_| {}), malformed());
    // An offer on another interface may be for a client on the host, so this client does not take it.
    let lan = bed.port("lan", &["10.0.0.1/24"]);
    lan.receive(Answer::new(OFFER, &lan, transaction).frame());
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved.keys().filter(|(node, _)| node == "ip4-dhcp-client").count(), 0, "{moved:?}");
    assert_eq!(state(&mut bed), "DHCP_DISCOVER");
    silent(&wan);
    // An acknowledgement without a request.
    assert_eq!(answer(&mut bed, &wan, &Answer::new(ACK, &wan, transaction)), taken(1));
    assert_eq!((state(&mut bed).as_str(), wan.sent().len()), ("DHCP_DISCOVER", 0));
    answer(&mut bed, &wan, &offer);
    only(&wan, ASK);
    let mut wrong = Answer::new(ACK, &wan, transaction);
    wrong.server = "192.0.2.2";
    assert_eq!(answer(&mut bed, &wan, &wrong), taken(1));
    assert_eq!(addresses(&bed, wan.index), [""; 0]);
}

#[test]
fn a_flood_of_answers_does_not_reach_control() {
    let (mut bed, wan, transaction) = bed();
    let mut absurd = Answer::new(OFFER, &wan, transaction);
    absurd.yours = "0.0.0.0";
    (0..20).for_each(|_| wan.receive(absurd.frame()));
    let mut expected = taken(16);
    expected.extend(error("ip4-dhcp-client", "too many DHCP answers", 4));
    assert_eq!(bed.errors_of(|_| {}), expected);
    // The limit starts anew with the next message.
    bed.advance(Duration::from_secs(6));
    only(&wan, DISCOVER);
    assert_eq!(answer(&mut bed, &wan, &Answer::new(OFFER, &wan, transaction)), taken(1));
    only(&wan, ASK);
}

#[test]
fn answers_that_control_has_no_time_for_are_named() {
    let (mut bed, wan, transaction) = bed_of(Bed::with_room_for_events(1));
    for _ in 0..2 {
        wan.receive(Answer::new(OFFER, &wan, transaction).frame());
        while bed.worker.round() != graph::Progress::Idle {}
    }
    let busy = ("ip4-dhcp-client".to_string(), "control is busy, DHCP answer not told".to_string());
    assert_eq!(bed.errors().get(&busy), Some(&1));
}

#[test]
fn absurd_offers_are_refused() {
    let cases: &[(&str, &str, &[u8])] = &[
        ("no address", "0.0.0.0", &[1, 4, 255, 255, 255, 0]),
        ("this network", "0.0.0.9", &[1, 4, 255, 255, 255, 0]),
        ("loopback", "127.0.0.9", &[1, 4, 255, 255, 255, 0]),
        ("a group's", "224.0.0.9", &[1, 4, 255, 255, 255, 0]),
        ("everybody's", "255.255.255.255", &[1, 4, 255, 255, 255, 0]),
        ("our own", "10.0.0.1", &[1, 4, 255, 255, 255, 255]),
        ("of another interface's network", "10.0.0.77", &[1, 4, 255, 255, 255, 128]),
        ("around another interface's network", "10.0.3.1", &[1, 4, 255, 255, 0, 0]),
        ("the first of its network", "192.0.2.0", &[1, 4, 255, 255, 255, 0]),
        ("the last of its network", "192.0.2.255", &[1, 4, 255, 255, 255, 0]),
        ("no network", "192.0.2.9", &[1, 4, 0, 0, 0, 0]),
        ("a network of /7", "192.0.2.9", &[1, 4, 254, 0, 0, 0]),
        ("no mask", "192.0.2.9", &[1, 4, 255, 0, 255, 0]),
        ("no time", "192.0.2.9", &[51, 4, 0, 0, 0, 0]),
        ("hardly any time", "192.0.2.9", &[51, 4, 0, 0, 0, 9]),
    ];
    let (mut bed, wan, transaction) = bed();
    bed.port("lan", &["10.0.0.1/24"]);
    for (what, yours, options) in cases {
        let mut offer = Answer::new(OFFER, &wan, transaction);
        (offer.yours, offer.options) = (yours, [options, &usual_options()[..]].concat());
        assert_eq!(answer(&mut bed, &wan, &offer), taken(1), "{what}");
        assert_eq!((wan.sent().len(), state(&mut bed).as_str()), (0, "DHCP_DISCOVER"), "{what}");
    }
    let mut offer = Answer::new(OFFER, &wan, transaction);
    offer.server = "0.0.0.0";
    answer(&mut bed, &wan, &offer);
    // No lease time at all.
    (offer.server, offer.options) = (SERVER, Vec::new());
    bed.advance(Duration::from_secs(6));
    only(&wan, DISCOVER);
    answer(&mut bed, &wan, &offer);
    silent(&wan);
    answer(&mut bed, &wan, &Answer::new(OFFER, &wan, transaction));
    only(&wan, ASK);
}

#[test]
fn a_router_that_cannot_be_one_is_left_out() {
    for router in [[0, 0, 0, 0], [224, 0, 0, 1], [192, 0, 2, 9], [192, 0, 2, 255], [127, 0, 0, 1]] {
        let (mut bed, wan, transaction) = bed();
        let with = |kind| {
            let mut answer = Answer::new(kind, &wan, transaction);
            let [a, b, c, d] = router;
            answer.options = [&[3, 4, a, b, c, d, 51, 4, 0, 0, 14, 16][..], &[1, 4, 255, 255, 255, 0]].concat();
            answer
        };
        answer(&mut bed, &wan, &with(OFFER));
        answer(&mut bed, &wan, &with(ACK));
        assert_eq!(addresses(&bed, wan.index), ["192.0.2.9/24"]);
        assert_eq!(default_routes(&bed), [], "{router:?}");
    }
}

#[test]
fn the_next_router_is_used_when_the_first_cannot_be_one() {
    // Two addresses in one option; the network address first; and parts of an option (RFC 3396), each cut within an
    // address.
    for (options, router) in [
        (&[3, 8, 0, 0, 0, 0, 192, 0, 2, 1][..], "192.0.2.1"),
        (&[3, 8, 198, 51, 100, 1, 192, 0, 2, 7], "192.0.2.7"),
        (&[3, 6, 192, 0, 2, 255, 192, 0, 3, 2, 2, 5], "192.0.2.5"),
        (&[3, 8, 192, 0, 2, 3, 192, 0, 2, 4], "192.0.2.3"),
    ] {
        let (mut bed, wan, transaction) = bed();
        let with = |kind| {
            let mut answer = Answer::new(kind, &wan, transaction);
            answer.options = [options, &[51, 4, 0, 0, 14, 16, 1, 4, 255, 255, 255, 0]].concat();
            answer
        };
        answer(&mut bed, &wan, &with(OFFER));
        answer(&mut bed, &wan, &with(ACK));
        assert_eq!(addresses(&bed, wan.index), ["192.0.2.9/24"]);
        assert_eq!(bed.json("show dhcp client")["clients"][0]["gateway"], router, "{options:?}");
        assert_eq!(default_routes(&bed), [Source::Dhcp]);
    }
}

#[test]
fn a_router_beside_the_network_is_on_the_link() {
    let (mut bed, wan, transaction) = bed();
    let with = |kind| {
        let mut answer = Answer::new(kind, &wan, transaction);
        answer.options = [&[1, 4, 255, 255, 255, 255, 3, 4, 169, 254, 1, 1][..], &usual_options()].concat();
        answer
    };
    answer(&mut bed, &wan, &with(OFFER));
    answer(&mut bed, &wan, &with(ACK));
    assert_eq!((addresses(&bed, wan.index), default_routes(&bed)), (vec!["192.0.2.9/32".into()], vec![Source::Dhcp]));
    bed.command("set dhcp client del intfc wan").unwrap();
    assert!(bed.router.ip.routes().is_empty(), "{:?}", bed.router.ip.routes());
}

#[test]
fn an_address_that_was_taken_meanwhile_is_declined() {
    let (mut bed, wan, transaction) = bed();
    answer(&mut bed, &wan, &Answer::new(OFFER, &wan, transaction));
    only(&wan, ASK);
    let _lan = bed.port("lan", &["192.0.2.129/25"]);
    answer(&mut bed, &wan, &Answer::new(ACK, &wan, transaction));
    assert_eq!(only(&wan, DECLINE).source, "0.0.0.0");
    assert_eq!((addresses(&bed, wan.index), default_routes(&bed)), (Vec::new(), Vec::new()));
    bed.advance(Duration::from_secs(9));
    silent(&wan);
    bed.advance(Duration::from_secs(2));
    only(&wan, DISCOVER);
}

#[test]
fn what_is_leased_is_no_configuration() {
    let (mut bed, wan) = bound();
    bed.command("ip route add 198.51.100.0/24 via 192.0.2.77").unwrap();
    bed.command("set interface ip address wan 203.0.113.1/24").unwrap();
    let expected = "set interface ip address wan 203.0.113.1/24\nset interface state wan up\n\
                    ip route add 198.51.100.0/24 via 192.0.2.77 offlink\nset dhcp client intfc wan\n";
    let shown = bed.command("show running-config").unwrap();
    assert_eq!(shown, expected);
    // Loaded into a router without a lease, it makes the same configuration.
    let mut other = Bed::new();
    other.port_that_finishes("wan", drivers::TxOffloads::default());
    shown.lines().for_each(|line| drop(other.command(line).unwrap_or_else(|error| panic!("{line}: {error}"))));
    assert_eq!(other.command("show running-config").unwrap(), shown);
    // Operators can remove their own addresses, but not the leased one.
    let refused = bed.command("set interface ip address del wan 192.0.2.9/24").unwrap_err();
    assert!(refused.contains("192.0.2.9/24 on wan is leased by DHCP"), "{refused}");
    bed.command("set interface ip address del wan all").unwrap();
    assert_eq!(addresses(&bed, wan.index), ["192.0.2.9/24"]);
}

#[test]
fn who_goes_gives_the_address_back() {
    let (mut bed, wan) = bound();
    bed.command("set dhcp client del intfc wan").unwrap();
    bed.run();
    let said = only(&wan, RELEASE);
    assert_eq!((said.to, said.source.as_str(), said.destination.as_str()), (SERVER_MAC, LEASED, SERVER));
    assert_eq!((addresses(&bed, wan.index), default_routes(&bed)), (Vec::new(), Vec::new()));
    assert!(bed.router.ip.routes().is_empty());
    assert_eq!(bed.command("show dhcp client").unwrap(), "no interface has a DHCP client\n");
    assert_eq!(bed.router.state::<UdpListeners>().iter().count(), 0);
    let refused = bed.command("set dhcp client del intfc wan").unwrap_err();
    assert!(refused.contains("wan has no DHCP client"), "{refused}");
    bed.advance(Duration::from_secs(7200));
    silent(&wan);
    // Without a client and an address, the interface does not take part in IPv4.
    wan.receive(Answer::new(OFFER, &wan, [0; 4]).frame());
    assert_eq!(bed.errors_of(|_| {}), error("ip4-input", "ip4 not enabled", 1));
}

#[test]
fn an_interface_goes_with_its_client() {
    let (mut bed, wan) = bound();
    let index = wan.index;
    bed.while_the_worker_runs(|router| router.delete_interface(index)).unwrap();
    bed.run();
    assert_eq!(only(&wan, RELEASE).destination, SERVER, "the server may give the address to others");
    bed.advance(Duration::from_secs(7200));
    assert_eq!(bed.command("show dhcp client").unwrap(), "no interface has a DHCP client\n");
    assert!(bed.router.ip.routes().is_empty());
    assert_eq!(bed.command("show running-config").unwrap(), "");
}

#[test]
fn a_router_that_ends_gives_the_address_back() {
    let (mut bed, wan) = bound();
    bed.while_the_worker_runs(router::Router::farewell);
    assert_eq!(only(&wan, RELEASE).source, LEASED);
}

#[test]
fn a_link_that_comes_back_is_asked_whether_the_lease_holds() {
    let (mut bed, wan) = bound();
    bed.command("set interface state wan down").unwrap();
    bed.advance(Duration::from_secs(2000));
    silent(&wan);
    bed.command("set interface state wan up").unwrap();
    bed.run();
    assert_eq!(wan.sent().len(), 1, "the announcement");
    bed.advance(Duration::ZERO);
    let again = only(&wan, ASK);
    assert_eq!((again.source.as_str(), again.to), ("0.0.0.0", MacAddress::BROADCAST));
    answer(&mut bed, &wan, &Answer::new(ACK, &wan, again.transaction));
    assert_eq!((state(&mut bed).as_str(), addresses(&bed, wan.index)), ("DHCP_BOUND", vec!["192.0.2.9/24".into()]));
    // The same when the wire is unplugged, and the lease ends meanwhile.
    wan.set_carrier(false);
    bed.router.check_links();
    bed.advance(Duration::from_secs(3601));
    assert_eq!((addresses(&bed, wan.index), wan.sent().len()), (Vec::new(), 0));
    wan.set_carrier(true);
    bed.router.check_links();
    bed.advance(Duration::ZERO);
    only(&wan, DISCOVER);
}

#[test]
fn another_ethernet_address_is_another_client() {
    let (mut bed, wan) = bound();
    bed.command("set interface mac address wan 02:00:00:00:77:77").unwrap();
    bed.advance(Duration::ZERO);
    let sent = wan.sent();
    assert_eq!(said(sent.last().unwrap()).kind, DISCOVER);
    assert_eq!(addresses(&bed, wan.index), [""; 0]);
}

#[test]
fn what_cannot_have_a_client_is_refused() {
    let (mut bed, wan, _) = bed();
    let refused = |bed: &mut Bed, line: &str| bed.command(line).unwrap_err();
    bed.command("create loopback interface").unwrap();
    assert!(refused(&mut bed, "set dhcp client intfc loop0").contains("loop0 is a loopback interface"));
    assert!(refused(&mut bed, "set dhcp client intfc wan hostname a_b").contains("'a_b' is no host name"));
    assert!(refused(&mut bed, "set dhcp client intfc nobody").contains("no interface named"));
    assert!(refused(&mut bed, "show dhcp client intfc loop0").contains("loop0 has no DHCP client"));
    bed.command("set interface ip address loop0 10.9.9.9/32").unwrap();
    let unnumbered = refused(&mut bed, "set interface unnumbered wan use loop0");
    assert!(unnumbered.contains("wan gets its address by DHCP"), "{unnumbered}");
    let _other = bed.port("other", &[]);
    bed.command("set interface unnumbered other use loop0").unwrap();
    assert!(refused(&mut bed, "set dhcp client intfc other").contains("other is unnumbered"));
    // The hostname of an existing client may change.
    bed.command("set dhcp client intfc wan hostname edge2").unwrap();
    assert!(bed.command("show running-config").unwrap().contains("set dhcp client intfc wan hostname edge2\n"));
    silent(&wan);
}

#[test]
fn an_answer_that_makes_no_sense_takes_no_lease_away() {
    let (mut bed, wan) = bound();
    bed.advance(Duration::from_secs(1801));
    let renewal = only(&wan, ASK);
    let short = [&[51, 4, 0, 0, 0, 5][..], &[1, 4, 255, 255, 255, 0]].concat();
    answer(&mut bed, &wan, &Answer { options: short, ..Answer::new(ACK, &wan, renewal.transaction) });
    silent(&wan);
    assert_eq!(addresses(&bed, wan.index), ["192.0.2.9/24"]);
    // A valid acknowledgement is still accepted.
    answer(&mut bed, &wan, &Answer::new(ACK, &wan, renewal.transaction));
    assert_eq!(state(&mut bed), "DHCP_BOUND");
}

#[test]
fn a_lease_ends_in_time_while_its_server_is_asked_whether_it_holds() {
    let (mut bed, wan) = bound();
    bed.command("set interface state wan down").unwrap();
    bed.advance(Duration::from_secs(3590));
    bed.command("set interface state wan up").unwrap();
    bed.advance(Duration::ZERO);
    assert_eq!(addresses(&bed, wan.index), ["192.0.2.9/24"]);
    bed.advance(Duration::from_secs(11));
    assert_eq!(addresses(&bed, wan.index), [""; 0]);
}

#[test]
fn the_same_ethernet_address_again_is_no_other_client() {
    let (mut bed, wan) = bound();
    bed.command(&format!("set interface mac address wan {}", wan.mac)).unwrap();
    bed.advance(Duration::ZERO);
    silent(&wan);
    assert_eq!((state(&mut bed).as_str(), addresses(&bed, wan.index)), ("DHCP_BOUND", vec!["192.0.2.9/24".into()]));
}

#[test]
fn a_request_tells_how_long_the_discovery_had_waited() {
    let (mut bed, wan, _) = bed();
    bed.advance(Duration::from_secs(5));
    let sent = wan.sent();
    let seconds = |frame: &[u8]| u16::from_be_bytes([frame[50], frame[51]]);
    let (waited, transaction) = (seconds(&sent[0]), said(&sent[0]).transaction);
    assert!(waited >= 3, "{waited}");
    bed.advance(Duration::from_secs(2));
    wan.sent();
    answer(&mut bed, &wan, &Answer::new(OFFER, &wan, transaction));
    let asked = wan.sent();
    assert_eq!((said(&asked[0]).kind, seconds(&asked[0])), (ASK, waited));
}
