//! Router advertisements: their content and times, and what is received from other routers.

use crate::bed::{Bed, Port, error};
use crate::packet6::*;
use std::collections::BTreeSet;
use std::time::Duration;
use wire::MacAddress;

const STRANGER: MacAddress = MacAddress([2, 0xbb, 0, 0, 0, 1]);
const HOST: &str = "fe80::ff:fe00:9";
const OURS: &str = "fe80::ff:fe00:1000";
const NODE: &str = "icmp6-neighbor-discovery";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A router whose port e0 has 2001:db8::1/64.
fn bed() -> (Bed, Port) {
    let mut bed = Bed::new();
    bed.command("set ip6 dad transmits 0").unwrap();
    let port = bed.port("e0", &[]);
    bed.command("set interface ip address e0 2001:db8::1/64").unwrap();
    bed.run();
    port.sent();
    (bed, port)
}

fn say(bed: &mut Bed, what: &str) {
    bed.command(&format!("ip6 nd e0 {what}")).unwrap_or_else(|error| panic!("{what}: {error}"));
    bed.run();
}

/// The router advertisements that were sent.
fn advertisements(port: &Port) -> Vec<Vec<u8>> {
    port.sent().into_iter().filter(|frame| frame[54] == 134).collect()
}

/// The expected advertisement: flags, lifetime, and the options after the Ethernet address and MTU.
fn expected(port: &Port, flags: u8, lifetime: u16, options: &[&[u8]]) -> Vec<u8> {
    let word = u32::from_be_bytes([64, flags, (lifetime >> 8) as u8, lifetime as u8]);
    let data = [&[0; 8][..], &link_option(1, port.mac), &[5, 1, 0, 0, 0, 0, 5, 220], &options.concat()].concat();
    let packet = Packet6::discovery(OURS, "ff02::1", 134, word, &data);
    packet.frame(MacAddress([0x33, 0x33, 0, 0, 0, 1]), port.mac)
}

fn prefix_option(prefix: &str, length: u8, flags: u8, valid: u32, preferred: u32) -> Vec<u8> {
    let times = [valid.to_be_bytes(), preferred.to_be_bytes(), [0; 4]].concat();
    [&[3, 4, length, flags][..], &times, &ip6(prefix).octets()].concat()
}

fn usual_prefix() -> Vec<u8> {
    prefix_option("2001:db8::", 64, 0xc0, 2_592_000, 604_800)
}

fn solicitation(options: &[u8]) -> Packet6 {
    Packet6::discovery(HOST, "ff02::2", 133, 0, options)
}

fn hear(port: &Port, packet: &Packet6) {
    port.receive(packet.frame(port.mac, STRANGER));
}

#[test]
fn nothing_is_said_until_it_is_wanted() {
    let (mut bed, port) = bed();
    hear(&port, &solicitation(&link_option(1, STRANGER)));
    bed.advance(seconds(4000));
    assert_eq!(advertisements(&port), Vec::<Vec<u8>>::new());
    assert!(bed.command("show ip6 ra").unwrap().contains("e0: router advertisements are suppressed"));
    say(&mut bed, "no ra-suppress");
    assert_eq!(advertisements(&port), [expected(&port, 0, 600, &[&usual_prefix()])]);
}

#[test]
fn the_first_ones_follow_soon_and_others_within_the_interval() {
    let (mut bed, port) = bed();
    say(&mut bed, "no ra-suppress");
    assert_eq!(advertisements(&port).len(), 1);
    for _ in 0..2 {
        bed.advance(seconds(15));
        assert_eq!(advertisements(&port).len(), 0);
        bed.advance(seconds(1));
        assert_eq!(advertisements(&port).len(), 1);
    }
    let mut pauses = BTreeSet::new();
    for _ in 0..10 {
        let mut pause = 0;
        while advertisements(&port).is_empty() {
            bed.advance(seconds(1));
            pause += 1;
        }
        assert!((150..=201).contains(&pause), "{pause}");
        pauses.insert(pause);
    }
    assert!(pauses.len() > 1, "they are not in step with others");
}

#[test]
fn news_are_told_but_not_more_often_than_a_link_can_bear() {
    let (mut bed, port) = bed();
    say(&mut bed, "no ra-suppress");
    advertisements(&port);
    bed.command("set interface ip address e0 2001:db8:9::1/64").unwrap();
    say(&mut bed, "ra-managed-config-flag");
    assert_eq!(advertisements(&port).len(), 0);
    bed.advance(seconds(3));
    let other = prefix_option("2001:db8:9::", 64, 0xc0, 2_592_000, 604_800);
    assert_eq!(advertisements(&port), [expected(&port, 0x80, 600, &[&usual_prefix(), &other])]);
}

#[test]
fn who_asks_is_answered_with_all_or_alone() {
    let (mut bed, port) = bed();
    say(&mut bed, "no ra-suppress");
    bed.advance(seconds(16));
    bed.advance(seconds(16));
    bed.advance(seconds(4));
    advertisements(&port);
    for _ in 0..3 {
        let moved = bed.errors_of(|_| hear(&port, &solicitation(&link_option(1, STRANGER))));
        assert_eq!(moved, error(NODE, "router solicitations received", 1));
    }
    bed.advance(Duration::from_millis(501));
    assert_eq!(advertisements(&port), [expected(&port, 0, 600, &[&usual_prefix()])], "one for all");
    // After a multicast advertisement, the next one has to wait.
    hear(&port, &solicitation(&[]));
    bed.run();
    bed.advance(Duration::from_millis(2400));
    assert_eq!(advertisements(&port).len(), 0);
    bed.advance(Duration::from_millis(1200));
    assert_eq!(advertisements(&port).len(), 1);
    // With `ra-send-unicast`, a host that gives its address gets one answer of its own to each solicitation.
    say(&mut bed, "ra-send-unicast");
    bed.advance(seconds(3));
    advertisements(&port);
    for _ in 0..2 {
        hear(&port, &solicitation(&link_option(1, STRANGER)));
        hear(&port, &solicitation(&link_option(1, STRANGER)));
        bed.run();
        bed.advance(Duration::from_millis(501));
        let answers = advertisements(&port);
        let [answer] = &answers[..] else { panic!("{} answers", answers.len()) };
        assert_eq!((&answer[..6], &answer[38..54]), (&STRANGER.0[..], &ip6(HOST).octets()[..]));
    }
}

#[test]
fn who_no_longer_speaks_says_so() {
    let (mut bed, port) = bed();
    say(&mut bed, "no ra-suppress");
    advertisements(&port);
    say(&mut bed, "ra-suppress");
    assert_eq!(advertisements(&port), [expected(&port, 0, 0, &[&usual_prefix()])]);
    bed.advance(seconds(4000));
    assert_eq!(advertisements(&port).len(), 0);
    // No advertisements on a link that is down; they start anew when it comes back.
    say(&mut bed, "no ra-suppress");
    advertisements(&port);
    port.set_carrier(false);
    bed.advance(seconds(2));
    bed.advance(seconds(1000));
    assert_eq!(advertisements(&port).len(), 0);
    port.set_carrier(true);
    bed.advance(seconds(2));
    assert_eq!(advertisements(&port).len(), 1);
}

/// RFC 4861 6.2.5: in whatever way a router ceases to advertise, it sends a last advertisement to hosts.
#[test]
fn however_a_router_falls_silent_it_says_so() {
    type Act = fn(&mut Bed);
    let ways: [(&str, Act); 5] = [
        ("interface down", |bed| drop(bed.ask("set interface state e0 down").unwrap())),
        ("address gone", |bed| drop(bed.command("set interface ip address del e0 2001:db8::1/64").unwrap())),
        ("interface gone", |bed| {
            let index = bed.router.interfaces.find("e0").unwrap();
            bed.while_the_worker_runs(|router| router.delete_interface(index)).unwrap();
        }),
        ("exit", |bed| bed.while_the_worker_runs(router::Router::farewell)),
        ("another link-local address", |bed| drop(bed.command("set ip6 link-local address e0 fe80::7").unwrap())),
    ];
    for (how, cease) in ways {
        let (mut bed, port) = bed();
        say(&mut bed, "no ra-suppress");
        assert_eq!(advertisements(&port).len(), 1);
        cease(&mut bed);
        bed.run();
        let mut last = advertisements(&port);
        if how == "another link-local address" {
            // Advertisements start anew from the new address.
            let next = last.pop().unwrap();
            assert_eq!((&next[22..38], &next[60..62]), (&ip6("fe80::7").octets()[..], &[2, 88][..]));
        }
        let [last] = &last[..] else { panic!("{how}: {} advertisements", last.len()) };
        let options = if how == "address gone" { Vec::new() } else { usual_prefix() };
        assert_eq!(*last, expected(&port, 0, 0, &[&options]), "{how}");
        bed.advance(seconds(1));
        assert_eq!(bed.errors().get(&("e0-output".into(), "interface is down".into())), None, "{how}");
    }
    // A router that has not advertised sends no last advertisement.
    let (mut bed, port) = bed();
    bed.command("set interface state e0 down").unwrap();
    bed.run();
    assert_eq!(advertisements(&port).len(), 0);
}

#[test]
fn a_sub_interface_falls_silent_with_its_parent() {
    let (mut bed, port) = bed();
    for line in [
        "create sub-interfaces e0 7",
        "set interface state e0.7 up",
        "set interface ip address e0.7 2001:db8:7::1/64",
        "ip6 nd e0.7 no ra-suppress",
    ] {
        bed.command(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    bed.run();
    port.sent();
    bed.ask("set interface state e0 down").unwrap();
    bed.run();
    // Behind the tag.
    let tagged: Vec<_> =
        port.sent().into_iter().filter(|frame| frame[12..14] == [0x81, 0] && frame[58] == 134).collect();
    assert_eq!(tagged.iter().map(|frame| &frame[64..66]).collect::<Vec<_>>(), [[0, 0]]);
}

#[test]
fn only_an_address_that_nobody_else_has_speaks() {
    let mut bed = Bed::new();
    let port = bed.port("e0", &[]);
    bed.command("enable ip6 interface e0").unwrap();
    say(&mut bed, "no ra-suppress");
    assert_eq!(advertisements(&port).len(), 0, "still tentative");
    assert!(bed.command("show ip6 ra e0").unwrap().contains("wanted, but the interface cannot be used yet"));
    bed.advance(Duration::from_millis(1001));
    assert_eq!(advertisements(&port), [expected(&port, 0, 600, &[])]);
}

#[test]
fn all_that_can_be_said_is_said_and_comes_back_with_the_configuration() {
    let (mut bed, port) = bed();
    for what in [
        "prefix default 7200 1800",
        "prefix 2001:db8:5::/64 infinite no-autoconfig no-onlink",
        "prefix 2001:db8:6::1/56",
        "rdnss 2001:db8::53 lifetime 600",
        "rdnss 2001:db8::54 infinite",
        "rdnss fe80::53",
        "dnssl Example.org.",
        "dnssl a.example lifetime 77",
        "ra-managed-config-flag ra-other-config-flag ra-suppress-link-layer ra-send-unicast",
        "ra-interval 60 30 ra-lifetime 90 ra-initial 2 5 ra-preference high ra-hop-limit 32",
        "ra-reachable-time 30000 ra-retransmit-timer 500",
        "no ra-suppress",
    ] {
        say(&mut bed, what);
    }
    let mut sent = advertisements(&port);
    let frame = sent.pop().expect("one");
    let options: &[&[u8]] = &[
        &[5, 1, 0, 0, 0, 0, 5, 220],
        &prefix_option("2001:db8::", 64, 0xc0, 7200, 1800),
        &prefix_option("2001:db8:5::", 64, 0, u32::MAX, u32::MAX),
        &prefix_option("2001:db8:6::", 56, 0x80, 7200, 1800),
        &[&[25, 3, 0, 0, 0, 0, 2, 88][..], &ip6("2001:db8::53").octets()].concat(),
        &[&[25, 3, 0, 0, 255, 255, 255, 255][..], &ip6("2001:db8::54").octets()].concat(),
        &[&[25, 3, 0, 0, 0, 0, 0, 180][..], &ip6("fe80::53").octets()].concat(),
        b"\x1f\x03\0\0\0\0\0\x4d\x01a\x07example\0\0\0\0\0\0",
        b"\x1f\x03\0\0\0\0\0\xb4\x07example\x03org\0\0\0\0",
    ];
    let timers = [30_000u32.to_be_bytes(), 500u32.to_be_bytes()].concat();
    let word = u32::from_be_bytes([32, 0xc8, 0, 90]);
    let packet = Packet6::discovery(OURS, "ff02::1", 134, word, &[&timers[..], &options.concat()].concat());
    assert_eq!(frame, packet.frame(MacAddress([0x33, 0x33, 0, 0, 0, 1]), port.mac));

    let stated = |bed: &mut Bed| {
        let config = bed.command("show running-config").unwrap();
        config.lines().filter(|line| line.starts_with("ip6 nd")).map(str::to_string).collect::<Vec<_>>()
    };
    let lines = stated(&mut bed);
    assert_eq!(lines.last().map(String::as_str), Some("ip6 nd e0 no ra-suppress"), "when all is said");
    let (mut other, other_port) = self::bed();
    lines.iter().for_each(|line| drop(other.command(line).unwrap()));
    other.run();
    assert_eq!(stated(&mut other), lines);
    assert_eq!(advertisements(&other_port), [frame]);
    // Each command can be undone.
    for what in [
        "no prefix default",
        "no prefix 2001:db8:5::/64",
        "no prefix 2001:db8:6::/56",
        "no rdnss 2001:db8::53",
        "no rdnss 2001:db8::54",
        "no rdnss fe80::53",
        "no dnssl example.org",
        "no dnssl a.example",
        "no ra-managed-config-flag ra-other-config-flag ra-suppress-link-layer ra-send-unicast",
        "no ra-lifetime ra-interval ra-initial ra-preference ra-hop-limit ra-reachable-time ra-retransmit-timer",
        "ra-cease",
    ] {
        say(&mut bed, what);
    }
    assert_eq!(stated(&mut bed), Vec::<String>::new());
}

#[test]
fn what_the_rfc_forbids_is_refused_and_changes_nothing() {
    let (mut bed, _) = bed();
    bed.command("create loopback interface").unwrap();
    for (line, why) in [
        ("ip6 nd e0 ra-interval 60 46", "three quarters"),
        ("ip6 nd e0 ra-lifetime 100", "a lifetime of 100 s"),
        ("ip6 nd e0 prefix 2001:db8::/64 100 200", "preferred for 200 s"),
        ("ip6 nd e0 prefix fe80::/64", "no prefix of hosts"),
        ("ip6 nd e0 prefix ff00::/64", "no prefix of hosts"),
        ("ip6 nd e0 rdnss ff02::1", "no address of a name server"),
        ("ip6 nd e0 dnssl -a.example", "no domain name"),
        ("ip6 nd e0 dnssl a..example", "no domain name"),
        ("ip6 nd e0 no rdnss 2001:db8::53", "nothing was said of 2001:db8::53 before"),
        ("ip6 nd e0 no prefix 2001:db8:7::/64", "nothing was said of 2001:db8:7::/64 before"),
        ("ip6 nd e0 ra-lifetime", "needs a value"),
        ("ip6 nd e0 no ra-lifetime 600", "takes no value"),
        ("ip6 nd e0", "nothing said"),
        ("ip6 nd loop0 no ra-suppress", "loopback"),
    ] {
        let error = bed.command(line).unwrap_err();
        assert!(error.contains(why), "{line}: {error}");
    }
    for server in 0..8 {
        say(&mut bed, &format!("rdnss 2001:db8::{server:x}"));
    }
    assert!(bed.command("ip6 nd e0 rdnss 2001:db8::99").unwrap_err().contains("too many name servers"));
    let label = "a".repeat(60);
    say(&mut bed, &format!("dnssl {label}.{label}.{label}.{label}"));
    assert!(bed.command(&format!("ip6 nd e0 dnssl {label}.{label}.{label}")).unwrap_err().contains("search list"));
    assert_eq!(bed.command("show running-config").unwrap().matches("ip6 nd").count(), 9);
}

#[test]
fn many_prefixes_are_told_in_several_messages() {
    let (mut bed, port) = bed();
    for number in 0..8 {
        say(&mut bed, &format!("rdnss 2001:db8::{number:x}"));
    }
    let label = "a".repeat(60);
    say(&mut bed, &format!("dnssl {label}.{label}.{label}.{label}"));
    say(&mut bed, &format!("dnssl {label}.{label}"));
    for number in 1..40 {
        say(&mut bed, &format!("prefix 2001:db8:{number:x}::/64"));
    }
    say(&mut bed, "no ra-suppress");
    let sent = advertisements(&port);
    assert_eq!(sent.len(), 3);
    let prefixes: usize =
        sent.iter().map(|frame| frame.windows(4).filter(|four| four == &[3, 4, 64, 0xc0]).count()).sum();
    assert_eq!(prefixes, 40);
    assert!(sent.iter().all(|frame| frame.len() <= 14 + 1280), "each fits the least MTU");
}

#[test]
fn other_routers_are_heard_and_remembered_within_bounds() {
    let (mut bed, port) = bed();
    let advertisement = |from: &str, flags: u8| {
        let word = u32::from_be_bytes([64, flags, 7, 8]);
        Packet6::discovery(from, "ff02::1", 134, word, &[0; 8])
    };
    let moved = bed.errors_of(|_| hear(&port, &advertisement("fe80::9", 0x08)));
    assert_eq!(moved, error(NODE, "router advertisements received", 1));
    let shown = bed.command("show ip6 ra e0").unwrap();
    assert!(
        shown.contains(&format!("other router fe80::9 {STRANGER} lifetime 1800 preference high, heard 0 s ago")),
        "{shown}"
    );
    let moved = bed.errors_of(|_| hear(&port, &advertisement("2001:db8::9", 0)));
    assert_eq!(moved, error(NODE, "router advertisement is not of a link-local address", 1));
    let moved = bed.errors_of(|_| {
        let redirect = [ip6("fe80::9").octets(), ip6("2001:db8:1::1").octets()].concat();
        hear(&port, &Packet6::discovery("fe80::9", OURS, 137, 0, &redirect));
    });
    assert_eq!(moved, error(NODE, "redirect to a router is not heeded", 1));
    // A flood is limited, and the oldest router is replaced.
    bed.advance(seconds(1));
    let moved =
        bed.errors_of(|_| (0..200).for_each(|number| hear(&port, &advertisement(&format!("fe80::1:{number:x}"), 0))));
    let limited = moved[&(NODE.to_string(), "router discovery limited by rate".to_string())];
    assert!(limited >= 180, "{moved:?}");
    for _ in 0..3 {
        bed.advance(seconds(1));
        (0..10).for_each(|number| hear(&port, &advertisement(&format!("fe80::2:{number:x}"), 0)));
        bed.run();
    }
    assert_eq!(bed.json("show ip6 ra e0")["interfaces"][0]["other_routers"].as_array().unwrap().len(), 16);
    bed.router.delete_interface(port.index).unwrap();
    bed.run();
    assert_eq!(bed.router.state::<protocols::router_advertisement::Advertising>().others(port.index).count(), 0);
}
