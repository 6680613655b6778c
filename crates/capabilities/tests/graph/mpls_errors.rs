//! Labelled packets that are dropped: each reason by its name, and the errors to senders, to the byte.

use crate::bed::{Arrival, Bed, Errors, Port, error, host_mac};
use crate::mpls::*;
use crate::packet::*;
use crate::packet6::Packet6;
use drivers::TxOffloads;

/// The quote of 128 bytes of a packet, and the extension with its label stack (RFC 4884, RFC 4950).
fn extended(entries: &[Entry], packet: &[u8]) -> Vec<u8> {
    let mut quote = packet[..packet.len().min(128)].to_vec();
    quote.resize(128, 0);
    let labels = stack(entries);
    let mut extension = vec![0x20, 0, 0, 0, 0, 4 + labels.len() as u8, 1, 1];
    extension.extend(labels);
    let sum = checksum(&extension);
    extension[2..4].copy_from_slice(&sum.to_be_bytes());
    [quote, extension].concat()
}

/// The only frame that e1 sends, without its Ethernet header.
#[track_caller]
fn answer(bed: &mut Bed, ports: &[Port; 3], entries: &[Entry], packet: &[u8]) -> Vec<u8> {
    let [e0, e1, e2] = sent(bed, ports, entries, packet);
    assert!(e0.is_empty() && e2.is_empty() && e1.len() == 1, "{e0:x?} {e1:x?} {e2:x?} {:?}", bed.errors());
    assert_eq!(e1[0][..6], host_mac(ip("10.0.1.2")).0);
    e1[0][14..].to_vec()
}

/// Checks an ICMP error to `source` from e0's address, to the byte but for its identification.
#[track_caller]
fn assert_is_error(ip4: &[u8], source: &str, kind: u8, code: u8, rest: u32, data: &[u8]) {
    let mut expected = Packet::new("10.0.0.1", source, ICMP, &icmp(kind, code, rest, data));
    expected.tos = 0xc0;
    expected.id = u16::from_be_bytes([ip4[4], ip4[5]]);
    assert_eq!(ip4, expected.bytes());
}

#[test]
fn who_is_told_that_hops_are_used_up_sees_the_labels() {
    let (mut bed, ports) = bed();
    all(&mut bed, &["mpls local-label add 16 via 10.0.1.2 e1 out-labels 17"]);
    let packet = Packet::udp("192.0.2.1", "198.51.100.1", &[7; 200]).ttl(9);
    for entries in [vec![(16, 5, true, 1)], vec![(16, 5, false, 1), (99, 2, false, 200), (100, 1, true, 3)]] {
        let told = answer(&mut bed, &ports, &entries, &packet.bytes());
        // The error follows the path of the label: the top label is swapped, the others are unchanged.
        let mut labels: Vec<Entry> =
            entries.iter().map(|(label, class, bottom, _)| (*label, *class, *bottom, 255)).collect();
        (labels[0].0, labels[0].3) = (17, 254);
        let (stack_out, ip4) = told.split_at(4 * labels.len());
        assert_eq!(stack_out, stack(&labels));
        assert_is_error(ip4, "192.0.2.1", 11, 0, 32 << 16, &extended(&entries, &packet.bytes()));
    }
    // A short packet is quoted whole, padded with zeros.
    let short = Packet::udp("192.0.2.1", "198.51.100.1", &[]);
    let told = answer(&mut bed, &ports, &[(16, 0, true, 0)], &short.bytes());
    assert_is_error(&told[4..], "192.0.2.1", 11, 0, 32 << 16, &extended(&[(16, 0, true, 0)], &short.bytes()));
    // IPv6 gives the length of its quote in words of eight bytes.
    let packet = Packet6::udp("2001:db8:aa::1", "2001:db8:bb::1", &[7; 200]);
    let told = answer(&mut bed, &ports, &[(16, 5, true, 1)], &packet.bytes());
    let data = extended(&[(16, 5, true, 1)], &packet.bytes());
    assert_eq!(told[4..8], [0x60, 0, 0, 0]);
    assert_eq!(told[8..12], [0, (8 + data.len()) as u8, 58, 64]);
    assert_eq!((&told[44..46], &told[48..52], &told[52..]), (&[3, 0][..], &[16, 0, 0, 0][..], &data[..]));
    let message = Packet6::new("2001:db8::1", "2001:db8:aa::1", 58, &told[44..]);
    assert_eq!(message.clone().sealed_at(2).payload, message.payload, "source, destination and checksum");
    let errors = bed.errors();
    let of = |name: &str| errors[&("mpls-icmp-error".to_string(), name.to_string())];
    assert_eq!((of("ICMP time exceeded sent"), of("ICMPv6 hop limit exceeded sent")), (3, 1));
}

#[test]
fn what_is_too_long_with_its_labels_is_answered_with_what_fits() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &[
            "mpls local-label add 16 eos via 10.0.1.2 e1 out-labels 17",
            "mpls local-label add 18 eos via 10.0.1.2 e1 out-labels 17 19 20",
            "mpls local-label add 21 eos via 10.0.1.2 e1",
            "ip route add 48.0.0.0/24 via 10.0.1.2 e1 out-labels 17 19",
            "set interface mtu mpls 1000 e1",
        ],
    );
    let of_length =
        |length: usize| Packet::udp("192.0.2.1", "198.51.100.1", &vec![1; length - 28]).fragment(DONT_FRAGMENT);
    for (label, fits, labels) in [(16, 996, 1), (18, 988, 3)] {
        let entries = [(label, 0, true, 9)];
        assert_eq!(answer(&mut bed, &ports, &entries, &of_length(fits).bytes()).len(), fits + 4 * labels);
        let told = answer(&mut bed, &ports, &entries, &of_length(fits + 1).bytes());
        let (labels, ip4) = told.split_at(4 * labels);
        assert_eq!(labels[labels.len() - 4..][2] & 1, 1);
        let data = extended(&entries, &of_length(fits + 1).bytes());
        assert_is_error(ip4, "192.0.2.1", 3, 4, 32 << 16 | fits as u32, &data);
        // A packet that may be fragmented is not fragmented below labels (RFC 3032 3.4).
        let errors = bed.errors_of(|bed| drop(sent(bed, &ports, &entries, &of_length(fits + 1).fragment(0).bytes())));
        let mut expected = error("mpls-icmp-error", "mpls packet too long for its way out", 1);
        expected.extend(error("mpls-output", "mpls packets too big", 1));
        assert_eq!(errors, expected);
        // IPv6: packet too big, with as much of the packet as the path's MTU allows.
        let packet = Packet6::udp("2001:db8:aa::1", "2001:db8:bb::1", &vec![1; fits + 1 - 48]);
        let told = answer(&mut bed, &ports, &entries, &packet.bytes());
        let message = &told[labels.len() + 40..];
        assert_eq!((message[0], &message[4..8], message.len()), (2, &(fits as u32).to_be_bytes()[..], fits - 40));
    }
    // Without labels it is an IP packet, and the MTU of IP applies.
    assert_eq!(answer(&mut bed, &ports, &[(21, 0, true, 9)], &of_length(1500).bytes()).len(), 1500);
    // Where labels are pushed, the packet is fragmented, or its sender gets an error.
    for (length, expected) in [(992, vec![1000]), (993, vec![24 + 8 + 976 - 8, 28 + 13])] {
        let packet = Packet::udp("10.0.0.2", "48.0.0.1", &vec![1; length - 28]);
        ports[0].receive_packet(&packet);
        bed.run();
        let lengths: Vec<usize> = ports[1].sent().iter().map(|frame| frame.len() - 14).collect();
        assert_eq!(lengths.len(), expected.len(), "{length}: {lengths:?}");
        assert!(lengths.iter().all(|length| *length <= 1000));
    }
    ports[0].receive_packet(&Packet::udp("10.0.0.2", "48.0.0.1", &[1; 965]).fragment(DONT_FRAGMENT));
    bed.run();
    let told = ports[0].sent();
    assert_eq!((told[0][34], told[0][35], &told[0][40..42]), (3, 4, &992u16.to_be_bytes()[..]));
}

#[test]
fn errors_about_what_a_label_sent_to_a_next_hop_go_on_along_its_path() {
    let (mut bed, ports) = bed();
    all(&mut bed, &["mpls local-label add 16 eos via 10.0.1.2 e1", "set interface mtu ip4 1000 e1"]);
    // This router has no route to the sender.
    let packet = Packet::udp("192.0.2.1", "198.51.100.1", b"data").ttl(1);
    let told = answer(&mut bed, &ports, &[(16, 0, true, 9)], &packet.bytes());
    let mut expected = Packet::new("10.0.0.1", "192.0.2.1", ICMP, &icmp(11, 0, 0, &packet.bytes()));
    (expected.tos, expected.id) = (0xc0, u16::from_be_bytes([told[4], told[5]]));
    assert_eq!(told, expected.bytes());
    let packet = Packet::udp("192.0.2.1", "198.51.100.1", &[0; 1000]);
    let told = answer(&mut bed, &ports, &[(16, 0, true, 9)], &packet.clone().fragment(DONT_FRAGMENT).bytes());
    assert_eq!((told[20], told[21], &told[26..28]), (3, 4, &1000u16.to_be_bytes()[..]));
    // A packet that may be fragmented is: the path ends here.
    let [_, e1, _] = sent(&mut bed, &ports, &[(16, 0, true, 9)], &packet.bytes());
    assert_eq!(e1.len(), 2);
    all(&mut bed, &["mpls local-label add 17 eos via 2001:db8:1::2 e1"]);
    let packet = Packet6::udp("2001:db8:aa::1", "2001:db8:bb::1", b"data").hops(1);
    let [_, e1, _] = sent(&mut bed, &ports, &[(17, 0, true, 9)], &packet.bytes());
    assert_eq!((e1.len(), e1[0][54], e1[0][55]), (1, 3, 0));
    assert_eq!(e1[0][38..54], packet.source.octets());
}

/// What becomes of a labelled packet, by error counters.
fn errors_of(bed: &mut Bed, ports: &[Port; 3], entries: &[Entry], packet: &[u8]) -> Errors {
    bed.errors_of(|bed| {
        ports[0].receive(labelled(&ports[0], entries, packet));
        bed.run();
        ports.iter().for_each(|port| assert!(port.sent().is_empty()));
    })
}

const PIPE4: &str = "ip4-mpls-label-disposition-pipe";
const PIPE6: &str = "ip6-mpls-label-disposition-pipe";
const UNIFORM4: &str = "ip4-mpls-label-disposition-uniform";
const UNIFORM6: &str = "ip6-mpls-label-disposition-uniform";
const UNSOUND4: &str = "ip4 header behind the label is unsound";
const UNSOUND6: &str = "ip6 header behind the label is unsound";
const NO_HOST4: &str = "ip4 address behind the label is no host's";
const NO_HOST6: &str = "ip6 address behind the label is no host's";

/// Names that are tested in this file or in `mpls.rs`, or cannot be reached.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    [
        ("mpls-input", "mpls not enabled"),
        ("mpls-input", "mpls label stack cut short"),
        ("mpls-input", "mpls in a group-addressed frame"),
        ("mpls-input", "offload request makes no sense"),
        ("mpls-lookup", "mpls label leads nowhere"),
        ("mpls-lookup", "mpls router alert label"),
        ("mpls-lookup", "mpls label stack cut short"),
        ("mpls-lookup", "blackholed packets"),
        ("mpls-lookup", "too many labels in a row"),
        ("mpls-icmp-error", "mpls packet without an ip sender to notify"),
        ("mpls-icmp-error", "mpls packet too long for its way out"),
        ("mpls-icmp-error", "no ICMP error about such a labelled packet"),
        ("mpls-icmp-error", "ICMP errors limited by rate"),
        ("mpls-icmp-error", "no address to send an ICMP error from"),
        ("mpls-icmp-error", "ICMP time exceeded sent"),
        ("mpls-icmp-error", "ICMP fragmentation needed sent"),
        ("mpls-icmp-error", "ICMPv6 hop limit exceeded sent"),
        ("mpls-icmp-error", "ICMPv6 packet too big sent"),
        ("mpls-output", "mpls packets too big"),
        ("ip4-arp", "next hop of a label did not answer"),
        ("ip6-discover-neighbor", "next hop of a label did not answer"),
        (PIPE4, UNSOUND4),
        (PIPE4, NO_HOST4),
        (PIPE6, UNSOUND6),
        (PIPE6, NO_HOST6),
        (UNIFORM4, UNSOUND4),
        (UNIFORM4, NO_HOST4),
        (UNIFORM6, UNSOUND6),
        (UNIFORM6, NO_HOST6),
        // Not reached: buckets are single paths, and an object exists as long as packets may use it.
        ("mpls-load-balance", "mpls label leads nowhere"),
        ("mpls-load-balance", "mpls router alert label"),
        ("mpls-load-balance", "mpls label stack cut short"),
        ("mpls-load-balance", "blackholed packets"),
        ("mpls-load-balance", "too many labels in a row"),
        ("mpls-load-balance", "label leads to nothing"),
        ("mpls-lookup", "label leads to nothing"),
    ]
    .into_iter()
}

#[test]
fn each_fault_has_its_name() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &[
            "mpls local-label add 16 eos via 10.0.1.2 e1",
            "mpls local-label add 17 eos via 2001:db8:1::2 e1",
            "mpls local-label add 18 eos via 10.0.1.2 e1 out-labels 19",
            "mpls local-label add 20 non-eos via mpls-lookup-in-table 0",
            "mpls local-label add 21 eos via drop",
            "ip table add 7",
            "mpls local-label add 22 eos via ip4-lookup-in-table 7",
            "ip6 table add 7",
            "mpls local-label add 26 eos via ip6-lookup-in-table 7",
            "mpls local-label add 23 eos via 10.0.1.2 e1 uniform",
            "mpls local-label add 24 eos via 2001:db8:1::2 e1 uniform",
            "mpls local-label add 25 eos via 10.0.1.2 e1 out-labels 19 via 10.0.2.2 e2 out-labels 19",
        ],
    );
    let good = Packet::udp("192.0.2.1", "198.51.100.1", b"data");
    let good6 = Packet6::udp("2001:db8:aa::1", "2001:db8:bb::1", b"data");
    let spoilt = |at: usize, byte: u8| {
        let mut bytes = good.bytes();
        bytes[at] = byte;
        bytes
    };
    let of6 = |at: usize, byte: u8| {
        let mut bytes = good6.bytes();
        bytes[at] = byte;
        bytes
    };
    let from = |source: &str| Packet::udp(source, "198.51.100.1", b"x").bytes();
    let cases: Vec<(&str, &str, Vec<Entry>, Vec<u8>)> = vec![
        ("mpls-lookup", "mpls label leads nowhere", vec![(99, 0, true, 9)], good.bytes()),
        ("mpls-lookup", "mpls label leads nowhere", vec![(16, 0, false, 9), (17, 0, true, 9)], good.bytes()),
        ("mpls-lookup", "mpls label leads nowhere", vec![(3, 0, true, 9)], good.bytes()),
        ("mpls-lookup", "mpls label leads nowhere", vec![(7, 0, false, 9), (99, 0, true, 0)], vec![0x10; 20]),
        ("mpls-lookup", "mpls router alert label", vec![(1, 0, false, 9), (16, 0, true, 9)], good.bytes()),
        ("mpls-lookup", "mpls label stack cut short", vec![(20, 0, false, 9)], vec![0, 1]),
        ("mpls-lookup", "mpls label stack cut short", vec![(7, 0, false, 9)], vec![0, 1]),
        ("mpls-lookup", "blackholed packets", vec![(21, 0, true, 9)], good.bytes()),
        (
            "mpls-lookup",
            "too many labels in a row",
            [vec![(20, 0, false, 9); 4], vec![(16, 0, true, 9)]].concat(),
            good.bytes(),
        ),
        ("mpls-icmp-error", "mpls packet without an ip sender to notify", vec![(18, 0, true, 1)], vec![0x10; 40]),
        ("mpls-icmp-error", "mpls packet without an ip sender to notify", vec![(18, 0, true, 1)], spoilt(10, 0)),
        (
            "mpls-icmp-error",
            "mpls packet without an ip sender to notify",
            vec![(18, 0, true, 1)],
            good.bytes()[..19].to_vec(),
        ),
        ("mpls-icmp-error", "no ICMP error about such a labelled packet", vec![(18, 0, true, 1)], from("224.0.0.1")),
        (
            "mpls-icmp-error",
            "no ICMP error about such a labelled packet",
            vec![(18, 0, true, 1)],
            good.clone().fragment(100).bytes(),
        ),
        (PIPE4, UNSOUND4, vec![(16, 0, true, 9)], spoilt(0, 0x65)),
        (PIPE4, UNSOUND4, vec![(16, 0, true, 9)], spoilt(0, 0x44)),
        (PIPE4, UNSOUND4, vec![(16, 0, true, 9)], spoilt(10, 0)),
        (PIPE4, UNSOUND4, vec![(16, 0, true, 9)], spoilt(3, 200)),
        (PIPE4, UNSOUND4, vec![(16, 0, true, 9)], good.bytes()[..19].to_vec()),
        (PIPE4, UNSOUND4, vec![(16, 0, true, 9)], vec![]),
        (PIPE4, UNSOUND4, vec![(16, 0, true, 9)], good.clone().fragment(0x1fff).bytes()),
        (PIPE4, NO_HOST4, vec![(16, 0, true, 9)], from("127.0.0.1")),
        (PIPE4, NO_HOST4, vec![(16, 0, true, 9)], Packet::udp("192.0.2.1", "224.0.0.5", b"x").bytes()),
        // Of packets to look up, `ip4-input` says what is wrong, whether or not the table has interfaces.
        ("ip4-input", "bad ip4 checksum", vec![(22, 0, true, 9)], spoilt(10, 0)),
        ("ip4-input", "source martian", vec![(22, 0, true, 9)], from("0.0.0.1")),
        ("ip6-input", "ip6 version != 6", vec![(26, 0, true, 9)], of6(0, 0x45)),
        ("ip4-input", "bad ip4 checksum", vec![(0, 0, true, 9)], spoilt(10, 0)),
        ("ip4-input", "source martian", vec![(0, 0, true, 9)], from("127.0.0.1")),
        (PIPE6, UNSOUND6, vec![(17, 0, true, 9)], of6(0, 0x45)),
        (PIPE6, UNSOUND6, vec![(17, 0, true, 9)], of6(4, 9)),
        (PIPE6, UNSOUND6, vec![(17, 0, true, 9)], good6.bytes()[..39].to_vec()),
        (PIPE6, NO_HOST6, vec![(17, 0, true, 9)], of6(8, 0xff)),
        (PIPE6, NO_HOST6, vec![(17, 0, true, 9)], of6(24, 0xff)),
        ("ip6-input", "ip6 version != 6", vec![(2, 0, true, 9)], of6(0, 0x45)),
        (UNIFORM4, UNSOUND4, vec![(23, 0, true, 9)], spoilt(10, 0)),
        (UNIFORM4, UNSOUND4, vec![(23, 0, true, 9)], good.bytes()[..19].to_vec()),
        (UNIFORM4, NO_HOST4, vec![(23, 0, true, 9)], from("127.0.0.1")),
        (UNIFORM6, UNSOUND6, vec![(24, 0, true, 9)], of6(4, 9)),
        (UNIFORM6, NO_HOST6, vec![(24, 0, true, 9)], of6(24, 0xff)),
    ];
    for (node, reason, entries, packet) in cases {
        let found = errors_of(&mut bed, &ports, &entries, &packet);
        let is_it = found.iter().any(|((at, why), count)| (at.as_str(), why.as_str(), *count) == (node, reason, 1));
        assert!(is_it && found.len() == 1, "{node}: {reason}: {entries:?}: {found:?}");
    }
    // Faults of the frame.
    let mut frame = labelled(&ports[0], &[(16, 0, true, 9)], &good.bytes());
    frame[..6].fill(0xff);
    let of_frame = |bed: &mut Bed, frame: Vec<u8>| bed.errors_of(|_| ports[0].receive(frame));
    assert_eq!(of_frame(&mut bed, frame.clone()), error("mpls-input", "mpls in a group-addressed frame", 1));
    let good_frame = labelled(&ports[0], &[(16, 0, true, 9)], &good.bytes());
    assert_eq!(of_frame(&mut bed, good_frame[..17].to_vec()), error("mpls-input", "mpls label stack cut short", 1));
    all(&mut bed, &["set interface mpls e0 disable"]);
    assert_eq!(of_frame(&mut bed, good_frame), error("mpls-input", "mpls not enabled", 1));
}

#[test]
fn errors_need_an_address_and_are_limited_by_rate() {
    let (mut bed, ports) = bed();
    all(&mut bed, &["mpls local-label add 18 eos via 10.0.1.2 e1 out-labels 19", "set ip icmp error-rate 1 burst 1"]);
    let packet = Packet::udp("192.0.2.1", "198.51.100.1", b"data").bytes();
    let errors = bed.errors_of(|_| {
        (0..5).for_each(|_| ports[0].receive(labelled(&ports[0], &[(18, 0, true, 1)], &packet)));
    });
    let mut expected = error("mpls-icmp-error", "ICMP errors limited by rate", 4);
    expected.extend(error("mpls-icmp-error", "ICMP time exceeded sent", 1));
    assert_eq!(errors, expected);
    all(&mut bed, &["set ip icmp error-rate default"]);
    let names = ["e0", "e1", "e2"];
    names.iter().for_each(|name| all(&mut bed, &[&format!("set interface ip address del {name} all")]));
    all(&mut bed, &["mpls local-label replace 18 eos via 2001:db8:1::2 e1 onlink out-labels 19"]);
    let errors = bed.errors_of(|_| ports[0].receive(labelled(&ports[0], &[(18, 0, true, 1)], &packet)));
    assert_eq!(errors, error("mpls-icmp-error", "no address to send an ICMP error from", 1));
}

#[test]
fn what_a_sender_left_to_its_device_is_finished_before_labels_hide_it() {
    let mut bed = Bed::new();
    all(&mut bed, &["mpls table add 0"]);
    let able = TxOffloads { checksum: true, segmentation: true };
    let ports = ["e0", "e1", "e2"].map(|name| {
        let port = bed.port_that_finishes(name, able);
        bed.router.set_admin(port.index, true).unwrap();
        all(
            &mut bed,
            &[
                &format!("set interface ip address {name} 10.0.{}.1/24", &name[1..]),
                &format!("set interface mpls {name} enable"),
            ],
        );
        bed.know(&port, &format!("10.0.{}.2", &name[1..]));
        port
    });
    all(
        &mut bed,
        &[
            "ip route add 48.0.0.0/24 via 10.0.1.2 e1 out-labels 17",
            "mpls local-label add 16 eos via 10.0.1.2 e1 out-labels 17",
            "mpls local-label add 18 eos via 10.0.1.2 e1",
        ],
    );
    ports[1].sent();
    let whole = Packet::udp("10.0.0.2", "48.0.0.1", b"some data");
    let mut begun = whole.clone();
    let pseudo = !checksum(&whole.pseudo_header());
    begun.payload[6..8].copy_from_slice(&pseudo.to_be_bytes());
    // An unfinished checksum: a device would not find its place behind a label.
    let mut arrival = Arrival::from(begun.frame(ports[0].mac, host_mac(ip("10.0.0.2"))));
    arrival.flags = graph::flag::PARTIAL_CHECKSUM;
    (arrival.offload.checksum_start, arrival.offload.checksum_offset) = (20, 6);
    ports[0].receive(arrival);
    bed.run();
    let sent = ports[1].sent_whole();
    let expected = [&stack(&[(17, 0, true, 64)])[..], &whole.clone().ttl(63).bytes()].concat();
    assert_eq!((sent.len(), sent[0].flags, &sent[0].frame[14..]), (1, 0, &expected[..]));
    // A packet that arrived with a label and an unfinished checksum, as a kernel may pass it on.
    for (label, expected) in
        [(16, [&stack(&[(17, 0, true, 8)])[..], &whole.bytes()].concat()), (18, whole.clone().ttl(63).bytes())]
    {
        let mut arrival = Arrival::from(labelled(&ports[0], &[(label, 0, true, 9)], &begun.bytes()));
        arrival.flags = graph::flag::PARTIAL_CHECKSUM;
        (arrival.offload.checksum_start, arrival.offload.checksum_offset) = (24, 6);
        ports[0].receive(arrival);
        bed.run();
        let sent = ports[1].sent_whole();
        assert_eq!((sent.len(), sent[0].flags, &sent[0].frame[14..]), (1, 0, &expected[..]), "{label}");
    }
    let mut arrival = Arrival::from(labelled(&ports[0], &[(18, 0, true, 9)], &begun.bytes()));
    arrival.flags = graph::flag::SEGMENTED;
    let errors = bed.errors_of(|_| ports[0].receive(arrival));
    assert_eq!(errors, error("mpls-input", "offload request makes no sense", 1));
    // A long segment is segmented here, each part with its label.
    let long = Packet::tcp("10.0.0.2", "48.0.0.1", 1000, &[7; 3000]);
    let mut arrival = Arrival::from(long.frame(ports[0].mac, host_mac(ip("10.0.0.2"))));
    arrival.flags = graph::flag::SEGMENTED;
    arrival.offload = graph::buffer::Offload {
        kind: graph::buffer::Segmentation::Tcp4,
        segment_size: 1400,
        header_length: 40,
        checksum_start: 20,
        checksum_offset: 16,
    };
    let length = arrival.frame.len();
    ports[0].receive(arrival.in_parts(&[1500, length - 1500]));
    bed.run();
    let sent = ports[1].sent_whole();
    assert_eq!(sent.iter().map(|sent| sent.frame.len()).collect::<Vec<_>>(), [1458, 1458, 258], "{:?}", bed.errors());
    for part in sent {
        assert_eq!(
            (part.flags, &part.frame[12..18]),
            (0, &[&[0x88, 0x47][..], &stack(&[(17, 0, true, 64)])].concat()[..])
        );
    }
}

#[test]
fn packets_in_several_buffers_are_packets() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &[
            "mpls local-label add 16 eos via 10.0.1.2 e1",
            "mpls local-label add 18 eos via 10.0.1.2 e1 out-labels 19",
            "mpls local-label add 20 eos via ip4-lookup-in-table 0 uniform",
            "ip route add 198.51.100.0/24 via 10.0.1.2",
        ],
    );
    let packet = Packet::udp("192.0.2.1", "198.51.100.1", &[5; 400]);
    let arrival = |label: u32, ttl: u8, first: usize| {
        let frame = labelled(&ports[0], &[(label, 0, true, ttl)], &packet.bytes());
        let rest = frame.len() - first;
        Arrival::from(frame).in_parts(&[first, rest])
    };
    for (label, after) in [
        (16, packet.clone().ttl(63).bytes()),
        (18, [&stack(&[(19, 0, true, 8)]), &packet.bytes()[..]].concat()),
        (20, packet.clone().ttl(8).bytes()),
    ] {
        for first in [60, 100, 300] {
            ports[0].receive(arrival(label, 9, first));
            bed.run();
            let got = ports[1].sent();
            assert_eq!((got.len(), &got[0][14..]), (1, &after[..]), "{label} {first}");
        }
    }
    // A header that is not whole in the first buffer is not read from the next one.
    let errors = bed.errors_of(|_| ports[0].receive(arrival(16, 9, 30)));
    assert_eq!(errors, error("ip4-mpls-label-disposition-pipe", "ip4 header behind the label is unsound", 1));
    let errors = bed.errors_of(|_| ports[0].receive(arrival(16, 9, 16)));
    assert_eq!(errors, error("mpls-input", "mpls label stack cut short", 1));
    // Errors quote the first buffer only.
    ports[0].receive(arrival(18, 1, 60));
    bed.run();
    assert_eq!(ports[1].sent().len(), 1);
    assert_eq!(bed.buffers_in_use(), 0);
}
