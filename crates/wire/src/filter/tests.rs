//! Expressions on packets whose fields are known: verdicts against a plain evaluation of the
//! fields, and what is refused.

use super::*;
use proptest::prelude::*;
use std::net::Ipv4Addr;

/// A packet before it becomes bytes.
#[derive(Clone, Debug)]
struct Fields {
    vlan: Option<u16>,
    source: u32,
    destination: u32,
    protocol: u8,
    ports: (u16, u16),
    fragment_offset: u16,
    options: usize,
    arp: bool,
    payload: usize,
}

impl Fields {
    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if let Some(id) = self.vlan {
            frame.extend(0x8100u16.to_be_bytes());
            frame.extend(id.to_be_bytes());
        }
        if self.arp {
            frame.extend(0x0806u16.to_be_bytes());
            frame.extend([0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2]);
            frame.extend(self.source.to_be_bytes());
            frame.extend([0; 6]);
            frame.extend(self.destination.to_be_bytes());
            return frame;
        }
        frame.extend(0x0800u16.to_be_bytes());
        frame.extend([0x45 + self.options as u8, 0, 0, 0, 0, 0]);
        frame.extend(self.fragment_offset.to_be_bytes());
        frame.extend([64, self.protocol, 0, 0]);
        frame.extend(self.source.to_be_bytes());
        frame.extend(self.destination.to_be_bytes());
        frame.extend(vec![1; self.options * 4]);
        frame.extend(self.ports.0.to_be_bytes());
        frame.extend(self.ports.1.to_be_bytes());
        frame.extend(vec![0; self.payload + 4]);
        frame
    }
}

/// An expression as a tree.
#[derive(Clone, Debug)]
enum Tree {
    Ip,
    Arp,
    Protocol(u8),
    Host(&'static str, u32),
    Net(u32, u32),
    Port(&'static str, u16),
    Fragment,
    Long(usize),
    Not(Box<Tree>),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
}

impl Tree {
    fn text(&self) -> String {
        match self {
            Tree::Ip => "ip".into(),
            Tree::Arp => "arp".into(),
            Tree::Protocol(6) => "tcp".into(),
            Tree::Protocol(17) => "udp".into(),
            Tree::Protocol(number) => format!("proto {number}"),
            Tree::Host(way, address) => format!("{way} host {}", Ipv4Addr::from(*address)),
            Tree::Net(address, length) => format!("dst net {}/{length}", Ipv4Addr::from(*address)),
            Tree::Port(way, port) => format!("{way} port {port}"),
            Tree::Fragment => "fragment".into(),
            Tree::Long(length) => format!("len >= {length}"),
            Tree::Not(tree) => format!("not ({})", tree.text()),
            Tree::And(a, b) => format!("({}) and ({})", a.text(), b.text()),
            Tree::Or(a, b) => format!("({}) || ({})", a.text(), b.text()),
        }
    }

    fn holds(&self, packet: &Fields) -> bool {
        let ip = !packet.arp;
        let either = |way: &str, source: bool, destination: bool| match way {
            "src" => source,
            "dst" => destination,
            "src and dst" => source && destination,
            _ => source || destination,
        };
        match self {
            Tree::Ip => ip,
            Tree::Arp => packet.arp,
            Tree::Protocol(number) => ip && packet.protocol == *number,
            Tree::Host(way, address) => either(way, packet.source == *address, packet.destination == *address),
            Tree::Net(address, length) => {
                let bits = |of: u32| if *length == 0 { 0 } else { of >> (32 - length) };
                bits(packet.destination) == bits(*address)
            }
            Tree::Port(way, port) => {
                ip && [6, 17, 132].contains(&packet.protocol)
                    && packet.fragment_offset & 0x1fff == 0
                    && either(way, packet.ports.0 == *port, packet.ports.1 == *port)
            }
            Tree::Fragment => ip && packet.fragment_offset & 0x3fff != 0,
            Tree::Long(length) => packet.frame().len() >= *length,
            Tree::Not(tree) => !tree.holds(packet),
            Tree::And(a, b) => a.holds(packet) && b.holds(packet),
            Tree::Or(a, b) => a.holds(packet) || b.holds(packet),
        }
    }
}

/// Few values, so that tests and packets often meet.
fn an_address() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![0x0a00_0001u32, 0x0a00_0002, 0x0a01_0001, 0xc0a8_0001])
}
fn a_port() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![53u16, 80, 443])
}
fn a_packet() -> impl Strategy<Value = Fields> {
    let fragment = prop::sample::select(vec![0u16, 0x4000, 0x2000, 0x2001, 0x0007]);
    let protocol = prop::sample::select(vec![1u8, 6, 17, 47, 132]);
    (an_address(), an_address(), protocol, (a_port(), a_port()), fragment, 0..11usize, any::<bool>(), 0..40usize)
        .prop_map(|(source, destination, protocol, ports, fragment_offset, options, arp, payload)| Fields {
            vlan: None,
            source,
            destination,
            protocol,
            ports,
            fragment_offset,
            options,
            arp,
            payload,
        })
}
fn a_tree() -> impl Strategy<Value = Tree> {
    let way = || prop::sample::select(vec!["", "src", "dst", "src or dst", "src and dst"]);
    let leaf = prop_oneof![
        Just(Tree::Ip),
        Just(Tree::Arp),
        Just(Tree::Fragment),
        prop::sample::select(vec![1u8, 6, 17, 47]).prop_map(Tree::Protocol),
        (way(), an_address()).prop_map(|(way, address)| Tree::Host(way, address)),
        (an_address(), 0..33u32).prop_map(|(address, length)| Tree::Net(address, length)),
        (way(), a_port()).prop_map(|(way, port)| Tree::Port(way, port)),
        (40..90usize).prop_map(Tree::Long),
    ];
    leaf.prop_recursive(5, 24, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|tree| Tree::Not(Box::new(tree))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Tree::And(Box::new(a), Box::new(b))),
            (inner.clone(), inner).prop_map(|(a, b)| Tree::Or(Box::new(a), Box::new(b))),
        ]
    })
}

proptest! {
    #[test]
    fn verdicts_are_those_of_a_plain_evaluation(tree in a_tree(), packets in prop::collection::vec(a_packet(), 20),
        vlan: Option<u8>) {
        let filter = Filter::parse(&tree.text()).unwrap();
        // The same behind a tag that the expression names.
        let tagged = Filter::parse(&format!("vlan and ({})", tree.text())).unwrap();
        for mut packet in packets {
            prop_assert_eq!(filter.matches(&packet.frame(), LinkType::Ethernet), tree.holds(&packet), "{}", filter);
            packet.vlan = vlan.map(u16::from);
            let expected = vlan.is_some() && tree.holds(&packet);
            prop_assert_eq!(tagged.matches(&packet.frame(), LinkType::Ethernet), expected, "{}", tagged);
        }
    }

    #[test]
    fn without_a_link_header_verdicts_are_the_same(tree in a_tree(), packet in a_packet()) {
        prop_assume!(!packet.arp);
        let filter = Filter::parse(&tree.text()).unwrap();
        let frame = packet.frame();
        let same = filter.matches_head(&frame[14..], frame.len(), LinkType::Ip);
        prop_assert_eq!(same, tree.holds(&packet), "{}", filter);
    }

    #[test]
    fn cut_and_arbitrary_packets_are_judged_without_panic(tree in a_tree(), bytes: Vec<u8>, packet in a_packet(),
        cut in 0..60usize) {
        let filter = Filter::parse(&format!("vlan or mpls or ({})", tree.text())).unwrap();
        filter.matches(&bytes, LinkType::Ethernet);
        filter.matches(&bytes, LinkType::Ip);
        let frame = packet.frame();
        filter.matches(&frame[..cut.min(frame.len())], LinkType::Ethernet);
    }

    #[test]
    fn any_text_is_refused_without_panic(text in "[a-z0-9()!&|<>=./: \\\\é-]{0,40}",
        words in prop::collection::vec(0..24usize, 0..12)) {
        let _ = Filter::parse(&text);
        const WORDS: [&str; 24] = [
            "ip", "ip6", "arp", "tcp", "src", "dst", "host", "net", "port", "portrange", "proto", "ether", "vlan",
            "mpls", "and", "or", "not", "(", ")", "len", ">=", "10.0.0.1", "7", "1-2",
        ];
        let text: Vec<&str> = words.into_iter().map(|word| WORDS[word]).collect();
        let _ = Filter::parse(&text.join(" "));
    }
}

fn udp(source: [u8; 4], destination: [u8; 4], ports: (u16, u16)) -> Fields {
    Fields {
        vlan: None,
        source: u32::from_be_bytes(source),
        destination: u32::from_be_bytes(destination),
        protocol: 17,
        ports,
        fragment_offset: 0,
        options: 0,
        arp: false,
        payload: 0,
    }
}

fn holds(expression: &str, packet: &Fields) -> bool {
    Filter::parse(expression).unwrap().matches(&packet.frame(), LinkType::Ethernet)
}

#[test]
fn fields_may_be_listed() {
    let packet = udp([10, 0, 0, 1], [10, 0, 0, 2], (1024, 53));
    assert!(holds("proto udp src 10.0.0.1 dst-port 53", &packet));
    assert!(!holds("proto udp src 10.0.0.1 src-port 53", &packet));
    assert!(!holds("proto tcp src 10.0.0.1 dst-port 53", &packet));
    assert!(holds("udp src 10.0.0.0/24 dst 10.0.0.2", &packet));
}

#[test]
fn and_and_or_bind_equally_from_the_left() {
    let packet = udp([10, 0, 0, 1], [10, 0, 0, 2], (1024, 53));
    assert!(!holds("udp or udp and tcp", &packet));
    assert!(holds("udp or (udp and tcp)", &packet));
    assert!(holds("not tcp or tcp", &packet));
    assert!(!holds("not not tcp", &packet));
}

#[test]
fn a_value_takes_the_keyword_of_the_last() {
    let packet = udp([10, 0, 0, 1], [10, 0, 0, 2], (1024, 53));
    assert!(holds("dst port 80 or 53", &packet));
    assert!(!holds("src port 80 or 53", &packet));
    assert!(holds("src host 10.0.0.9 or 10.0.0.1", &packet));
}

#[test]
fn a_packet_too_short_matches_nothing_not_even_a_negation() {
    let frame = udp([10, 0, 0, 1], [10, 0, 0, 2], (1024, 53)).frame();
    for expression in ["port 53", "not port 53", "port 53 or ip", "not port 53 or ip"] {
        assert!(!Filter::parse(expression).unwrap().matches(&frame[..34], LinkType::Ethernet), "{expression}");
    }
    assert!(Filter::parse("not tcp").unwrap().matches(&frame[..34], LinkType::Ethernet));
}

#[test]
fn refusals_say_where_and_what() {
    let refusal = |text: &str| Filter::parse(text).unwrap_err();
    let cases: [(&str, usize, &str); 19] = [
        ("", 0, "empty; write something like 'udp and port 53'"),
        ("udp and", 7, "the expression ends where a term is expected"),
        ("udp and (tcp", 8, "'(' is never closed"),
        ("udp)", 3, "')' closes nothing"),
        ("port http", 5, "'http' is not a port number"),
        ("port 65536", 5, "'65536' is not a port number"),
        ("portrange 7", 10, "'7' is not a range of ports such as 1024-2047"),
        ("host 10.0.0.0/8", 5, "'10.0.0.0/8' is not an address"),
        ("net 10.0.0.0/33", 4, "'10.0.0.0/33' is not a prefix such as 10.0.0.0/8"),
        ("ip host ::1", 8, "'::1' is not an address"),
        ("src", 3, "the expression ends where an address is expected"),
        ("ether host 10.0.0.1", 11, "'10.0.0.1' is not an Ethernet address"),
        ("ether proto 5", 12, "'5' is no EtherType: 0x0600 to 0xffff, or ip, ip6, arp, rarp"),
        ("vlan 4096", 5, "'4096': vlan takes a number from 0 to 4095"),
        ("mpls and vlan", 9, "a VLAN tag cannot be behind an MPLS label"),
        ("ip[6:2] > 0", 2, "bytes by offset ('[...]') are not read here"),
        ("len ~ 5", 4, "'~': expected one of < <= = != >= >"),
        ("arp host 10.0.0.1 and arp src port 5", 22, "'arp' does not go with 'port'"),
        ("upd", 0, "unknown word 'upd': expected a protocol, host, net, port, an address, ..."),
    ];
    for (text, at, message) in cases {
        let error = refusal(text);
        assert_eq!((error.at, error.message.as_str()), (at, message), "{text}");
    }
}

#[test]
fn bounds_hold() {
    let deep = |n: usize| format!("{}ip{}", "(".repeat(n), ")".repeat(n));
    assert!(Filter::parse(&deep(MAX_DEPTH)).is_ok());
    assert_eq!(Filter::parse(&deep(MAX_DEPTH + 1)).unwrap_err().message, "parentheses nested deeper than 32");
    let many = |n: usize| vec!["ip"; n].join(" or ");
    assert!(Filter::parse(&many(MAX_TESTS)).is_ok());
    assert_eq!(Filter::parse(&many(MAX_TESTS + 1)).unwrap_err().message, "more than 256 tests");
    assert_eq!(Filter::parse(&" ".repeat(MAX_TEXT + 1)).unwrap_err().message, "longer than 4096 bytes");
    assert!(Filter::parse(&"!".repeat(4000)).is_err());
    assert!(Filter::parse(&vec!["vlan"; 200].join(" ")).is_err());
}
