//! Multicast Listener Discovery: the router reports its own groups, answers queries, and sends queries where enabled.

use crate::bed::{Bed, Port, error};
use crate::packet6::*;
use std::time::Duration;
use wire::MacAddress;

const STRANGER: MacAddress = MacAddress([2, 0xbb, 0, 0, 0, 1]);
const OURS: &str = "fe80::ff:fe00:1000";
const NODE: &str = "icmp6-multicast-listener";
/// Router alert and padding, after the next header and length.
const ALERT: [u8; 6] = [5, 2, 0, 0, 1, 0];
/// The groups of an interface with that link-local address.
const GROUPS: [&str; 4] = ["ff02::2", "ff02::16", "ff02::1:ff00:1000", "ff05::2"];

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A router whose port e0 takes part in IPv6. Its first messages are still to be read.
fn bed() -> (Bed, Port) {
    let mut bed = Bed::new();
    bed.command("set ip6 dad transmits 0").unwrap();
    let port = bed.port("e0", &[]);
    bed.command("enable ip6 interface e0").unwrap();
    bed.run();
    (bed, port)
}

/// The same, after its first reports.
fn quiet_bed() -> (Bed, Port) {
    let (mut bed, port) = bed();
    bed.advance(seconds(1));
    messages(&port);
    (bed, port)
}

/// The MLD messages that were sent, after the router alert, with source and destination addresses.
fn messages(port: &Port) -> Vec<(String, String, Vec<u8>)> {
    let address = |bytes: &[u8]| std::net::Ipv6Addr::from(*bytes.first_chunk::<16>().unwrap()).to_string();
    let is_of_listeners = |frame: &Vec<u8>| frame[20] == HOP_BY_HOP && [130, 131, 132, 143].contains(&frame[62]);
    let read = |frame: Vec<u8>| {
        let (source, destination) = (address(&frame[22..]), address(&frame[38..]));
        // The caller checks the message; all other bytes are checked here.
        let mut packet = Packet6::new(&source, &destination, ICMP6, &frame[62..]).hops(1).sealed_at(2);
        packet = packet.extension(HOP_BY_HOP, &ALERT);
        let [.., a, b, c, d] = packet.destination.octets();
        assert_eq!(frame, packet.frame(MacAddress([0x33, 0x33, a, b, c, d]), port.mac));
        (source, destination, frame[62..].to_vec())
    };
    port.sent().into_iter().filter(is_of_listeners).map(read).collect()
}

/// A version 2 report with a record of that kind for each group.
fn report(kind: u8, groups: &[&str]) -> Vec<u8> {
    let mut message = vec![143, 0, 0, 0, 0, 0, 0, groups.len() as u8];
    for group in groups {
        message.extend([kind, 0, 0, 0]);
        message.extend(ip6(group).octets());
    }
    message
}

/// Reports that were sent, without their checksums.
fn reports(port: &Port) -> Vec<Vec<u8>> {
    let blank = |(_, _, mut message): (String, String, Vec<u8>)| {
        message[2..4].fill(0);
        message
    };
    messages(port).into_iter().map(blank).collect()
}

fn query(group: &str, response: u16, version: u8) -> Packet6 {
    let mut message = [&[130, 0, 0, 0][..], &response.to_be_bytes(), &[0, 0], &ip6(group).octets()].concat();
    if version == 2 {
        message.extend([2, 125, 0, 0]);
    }
    from_host("fe80::9", &message)
}

fn from_host(source: &str, message: &[u8]) -> Packet6 {
    Packet6::new(source, "ff02::16", ICMP6, message).hops(1).sealed_at(2).extension(HOP_BY_HOP, &ALERT)
}

fn hear(port: &Port, packet: &Packet6) {
    port.receive(packet.frame(MacAddress([0x33, 0x33, 0, 0, 0, 0x16]), STRANGER));
}

#[test]
fn groups_are_reported_twice_when_they_are_joined_and_left() {
    let (mut bed, port) = bed();
    let sent = messages(&port);
    assert_eq!(sent.len(), 1);
    assert_eq!((&sent[0].0[..], &sent[0].1[..]), (OURS, "ff02::16"));
    bed.advance(seconds(1));
    assert_eq!(reports(&port), [report(4, &GROUPS)], "once more");
    bed.advance(seconds(300));
    assert_eq!(reports(&port).len(), 0);
    // An additional address joins an additional group.
    bed.command("set interface ip address e0 2001:db8::5/128").unwrap();
    bed.run();
    assert_eq!(reports(&port), [report(4, &["ff02::1:ff00:5"])]);
    // A report that a new change has overtaken is not repeated.
    bed.command("set interface ip address del e0 2001:db8::5/128").unwrap();
    bed.run();
    assert_eq!(reports(&port), [report(3, &["ff02::1:ff00:5"])]);
    bed.advance(seconds(1));
    assert_eq!(reports(&port), [report(3, &["ff02::1:ff00:5"])]);
    let shown = bed.command("show ip6 mld e0").unwrap();
    assert_eq!(shown.lines().skip(2).map(str::trim).collect::<Vec<_>>(), GROUPS);
    // When a link comes back, all groups are reported again.
    port.set_carrier(false);
    bed.advance(seconds(2));
    assert_eq!(bed.command("show ip6 mld e0").unwrap(), "No interface of IPv6 can be used\n");
    port.set_carrier(true);
    bed.advance(seconds(2));
    assert_eq!(reports(&port)[0], report(4, &GROUPS));
}

#[test]
fn before_the_address_is_used_reports_come_from_none_and_afterwards_again() {
    let mut bed = Bed::new();
    let port = bed.port("e0", &[]);
    bed.command("enable ip6 interface e0").unwrap();
    bed.run();
    let sent = messages(&port);
    assert_eq!((sent.len(), &sent[0].0[..]), (1, "::"));
    bed.advance(Duration::from_millis(1001));
    let sent = messages(&port);
    let (_, _, last) = sent.iter().rfind(|(source, ..)| source == OURS).expect("from the address");
    assert_eq!(last[4..], report(4, &GROUPS)[4..]);
}

#[test]
fn who_asks_is_answered_in_time() {
    let (mut bed, port) = quiet_bed();
    let moved = bed.errors_of(|_| hear(&port, &query("::", 10_000, 2)));
    assert_eq!(moved, error(NODE, "multicast listener queries received", 1));
    bed.advance(seconds(10));
    assert_eq!(reports(&port), [report(2, &GROUPS)]);
    hear(&port, &query("ff02::1:ff00:1000", 1000, 2));
    // This router does not listen to that group.
    hear(&port, &query("ff02::1:ff00:7777", 1000, 2));
    bed.run();
    bed.advance(seconds(1));
    assert_eq!(reports(&port), [report(2, &["ff02::1:ff00:1000"])]);
    bed.advance(seconds(20));
    assert_eq!(reports(&port).len(), 0);
}

#[test]
fn a_router_of_version_1_is_spoken_to_in_its_version() {
    let (mut bed, port) = quiet_bed();
    hear(&port, &query("::", 1000, 1));
    bed.run();
    bed.advance(seconds(1));
    let sent = messages(&port);
    assert_eq!(sent.iter().map(|(_, to, _)| &to[..]).collect::<Vec<_>>(), GROUPS);
    assert!(sent.iter().all(|(_, _, message)| message[0] == 131 && message.len() == 24));
    bed.command("set interface ip address e0 2001:db8::5/128").unwrap();
    bed.command("set interface ip address del e0 2001:db8::5/128").unwrap();
    bed.run();
    let kinds: Vec<_> = messages(&port).iter().map(|(_, to, message)| (to.clone(), message[0])).collect();
    assert_eq!(kinds, [("ff02::1:ff00:5".into(), 131), ("ff02::2".into(), 132)]);
    // Version 2 again when the version 1 router is gone.
    bed.advance(seconds(261));
    messages(&port);
    hear(&port, &query("::", 1000, 2));
    bed.run();
    bed.advance(seconds(1));
    assert_eq!(reports(&port), [report(2, &GROUPS)]);
}

type Fault = (&'static str, fn() -> Packet6);

#[test]
fn each_fault_of_a_message_has_its_name() {
    let cases: &[Fault] = &[
        ("multicast listener message from beyond the link", || query("::", 1000, 2).hops(2)),
        ("multicast listener message without router alert", || {
            let mut packet = query("::", 1000, 2);
            packet.extensions[0].1[2..].copy_from_slice(&[1, 4, 0, 0, 0, 0]);
            packet
        }),
        ("multicast listener message without router alert", || {
            let mut packet = query("::", 1000, 2);
            packet.extensions.clear();
            packet
        }),
        // A router alert for another protocol, after padding of one byte.
        ("multicast listener message without router alert", || {
            let mut packet = query("::", 1000, 2);
            packet.extensions[0].1[2..].copy_from_slice(&[0, 5, 2, 0, 1, 0]);
            packet
        }),
        ("multicast listener message is not of a link-local address", || {
            let mut packet = query("::", 1000, 2);
            packet.source = ip6("::");
            packet.sealed_at(2)
        }),
        ("multicast listener message too short", || from_host("fe80::9", &[130, 0, 0, 0, 0, 0, 0, 0, 0])),
        ("multicast listener message too short", || {
            let mut message = report(4, &["ff02::9"]);
            message[7] = 2;
            from_host("fe80::9", &message)
        }),
        ("multicast listener message about no group", || from_host("fe80::9", &report(4, &["2001:db8::9"]))),
        ("multicast listener reports received", || from_host("fe80::9", &report(4, &["ff02::9"]))),
        ("multicast listener reports received", || from_host("::", &report(4, &["ff02::9"]))),
    ];
    for (name, packet) in cases {
        let (mut bed, port) = quiet_bed();
        let moved = bed.errors_of(|_| hear(&port, &packet()));
        assert_eq!(moved, error(NODE, name, 1));
        bed.advance(seconds(2));
        assert_eq!(reports(&port).len(), 0, "{name}");
    }
}

#[test]
fn a_querier_asks_until_another_with_a_lower_address_does() {
    let (mut bed, port) = quiet_bed();
    bed.command("set ip6 mld querier e0 enable").unwrap();
    assert!(bed.command("show running-config").unwrap().contains("set ip6 mld querier e0 enable\n"));
    bed.run();
    let general = [&[130, 0, 0, 0, 0x27, 0x10, 0, 0][..], &[0; 16], &[2, 125, 0, 0]].concat();
    assert_eq!(reports(&port), vec![general.clone()]);
    for pause in [31, 125, 125] {
        bed.advance(seconds(pause - 1));
        assert_eq!(reports(&port).len(), 0, "{pause}");
        bed.advance(seconds(1));
        assert_eq!(reports(&port), vec![general.clone()], "{pause}");
    }
    // A querier with a higher address has no effect; one with a lower address is the querier from now on.
    let mut other = query("::", 10_000, 2);
    other.source = ip6("fe80::ff:fe00:1001");
    hear(&port, &other.clone().sealed_at(2));
    bed.run();
    assert!(bed.command("show ip6 mld e0").unwrap().contains("querier this router"));
    hear(&port, &query("::", 10_000, 2));
    bed.run();
    assert!(bed.command("show ip6 mld e0").unwrap().contains("querier fe80::9"));
    bed.advance(seconds(254));
    assert!(!reports(&port).contains(&general));
    bed.advance(seconds(2));
    assert!(reports(&port).contains(&general), "the other is gone");
    bed.command("set ip6 mld querier e0 disable").unwrap();
    bed.advance(seconds(300));
    assert!(!reports(&port).contains(&general));
}

#[test]
fn listeners_are_remembered_asked_again_when_one_leaves_and_forgotten() {
    let (mut bed, port) = quiet_bed();
    bed.command("set ip6 mld querier e0 enable").unwrap();
    hear(&port, &from_host("fe80::9", &report(4, &["ff02::fb", "ff05::1:3"])));
    hear(&port, &from_host("fe80::a", &[&[131, 0, 0, 0, 0, 0, 0, 0][..], &ip6("ff02::99").octets()].concat()));
    bed.run();
    let heard = |bed: &mut Bed| {
        let shown = bed.json("show ip6 mld e0");
        let heard = shown["interfaces"][0]["heard"].as_array().unwrap().clone();
        heard.into_iter().map(|one| one[0].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(heard(&mut bed), ["ff02::99", "ff02::fb", "ff05::1:3"]);
    reports(&port);
    // The host that leaves may not have been the last listener.
    hear(&port, &from_host("fe80::9", &report(3, &["ff02::fb", "ff05::1:3"])));
    bed.run();
    let asks = |group: &str| [&[130, 0, 0, 0, 3, 0xe8, 0, 0][..], &ip6(group).octets(), &[2, 125, 0, 0]].concat();
    assert_eq!(reports(&port), [asks("ff02::fb"), asks("ff05::1:3")]);
    hear(&port, &from_host("fe80::b", &report(2, &["ff02::fb"])));
    bed.run();
    bed.advance(seconds(1));
    assert_eq!(reports(&port), [asks("ff05::1:3")]);
    bed.advance(Duration::from_millis(1002));
    assert_eq!(heard(&mut bed), ["ff02::99", "ff02::fb"]);
    // A listener of version 1 leaves.
    hear(&port, &from_host("fe80::a", &[&[132, 0, 0, 0, 0, 0, 0, 0][..], &ip6("ff02::99").octets()].concat()));
    bed.run();
    bed.advance(seconds(3));
    assert_eq!(heard(&mut bed), ["ff02::fb"]);
    bed.advance(seconds(261));
    assert_eq!(heard(&mut bed), Vec::<String>::new());
}

#[test]
fn floods_of_listeners_are_bounded() {
    let (mut bed, port) = quiet_bed();
    bed.command("set ip6 mld querier e0 enable").unwrap();
    for round in 0..12u32 {
        for number in 0..10u32 {
            let groups: Vec<String> = (0..60).map(|n| format!("ff05::{:x}:{n:x}", round * 10 + number)).collect();
            let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
            hear(&port, &from_host("fe80::9", &report(4, &groups)));
        }
        bed.run();
        bed.advance(seconds(1));
    }
    let limited = bed.errors()[&(NODE.to_string(), "multicast listener messages limited by rate".to_string())];
    assert!(limited >= 12, "{limited}");
    let heard = bed.json("show ip6 mld e0")["interfaces"][0]["heard"].as_array().unwrap().len();
    assert_eq!(heard, 4096);
}

#[test]
fn who_leaves_the_link_leaves_its_groups() {
    for act in [(|bed| drop(bed.command("disable ip6 interface e0").unwrap())) as fn(&mut Bed), |bed| {
        bed.while_the_worker_runs(router::Router::farewell)
    }] {
        let (mut bed, port) = quiet_bed();
        act(&mut bed);
        bed.run();
        // Record type 3: changed to include mode, without sources.
        assert_eq!(reports(&port), [report(3, &GROUPS)]);
        bed.advance(seconds(10));
        assert_eq!(reports(&port).len(), 0);
    }
}
