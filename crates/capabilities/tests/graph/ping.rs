//! `ping` from the router: its requests, the replies that count, and its report.

use crate::bed::{Arrival, Bed, Port, error, host_mac};
use crate::packet::*;
use command::{Format, Reply};
use protocols::icmp::ping::{MAX_PINGS, Pings};
use std::time::Duration;

/// The identifier and sequence number of an echo request that a port sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub identifier: u16,
    pub sequence: u16,
}

impl Asked {
    /// The word behind the checksum.
    pub fn rest(self) -> u32 {
        u32::from(self.identifier) << 16 | u32::from(self.sequence)
    }
}

/// The one echo request that a port sent. All fields are checked except the identifiers and the sequence number.
fn asked(port: &Port, from: &str, to: &str, size: usize) -> Asked {
    asked_by(port, from, to, to, size)
}

/// The same to a next hop.
fn asked_by(port: &Port, from: &str, to: &str, hop: &str, size: usize) -> Asked {
    let sent = port.sent();
    assert_eq!(sent.len(), 1, "{sent:02x?}");
    let packet = &sent[0][14..];
    let half = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let asked = Asked { identifier: half(24), sequence: half(26) };
    let data: Vec<u8> = (0..size).map(|n| n as u8).collect();
    let expected = Packet::new(from, to, ICMP, &icmp(8, 0, asked.rest(), &data)).id(half(4));
    assert_eq!(sent[0], expected.frame(host_mac(ip(hop)), port.mac));
    asked
}

fn reply_to(asked: Asked, data: &[u8]) -> Packet {
    Packet::new("10.0.1.2", "10.0.1.1", ICMP, &icmp(0, 0, asked.rest(), data))
}

/// The report of a ping, without the times. The ping must have ended: otherwise reading would never end.
pub fn told(bed: &Bed, reply: &dyn Reply) -> String {
    assert!(bed.router.state::<Pings>().is_empty());
    let mut text = String::new();
    for line in reply.text().lines() {
        match line.split_once(" time=") {
            Some((before, after)) => {
                let (time, unit) = after.split_once(' ').unwrap();
                let (whole, fraction) = time.split_once('.').expect("a point");
                assert!(whole != "0" && fraction.len() == 4 && time.parse::<f64>().is_ok(), "{line}");
                text += &format!("{before} {unit}\n");
            }
            None => text += &format!("{line}\n"),
        }
    }
    text
}

#[test]
fn requests_are_paced_and_replies_told() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    let reply = bed.begin("ping 10.0.1.2 repeat 3 interval 0.5").unwrap();
    bed.run();
    for sequence in 1..=3 {
        let asked = asked(&e1, "10.0.1.1", "10.0.1.2", 88);
        assert_eq!(asked.sequence, sequence);
        e1.receive_packet(&reply_to(asked, &[0; 88]).ttl(60 + sequence as u8));
        bed.run();
        bed.advance(Duration::from_millis(400));
        assert_eq!(e1.sent().len(), 0, "not before its time");
        bed.advance(Duration::from_millis(101));
    }
    assert!(bed.router.state::<Pings>().is_empty(), "all answered: nothing is waited for");
    assert_eq!(
        told(&bed, &*reply),
        "116 bytes from 10.0.1.2: icmp_seq=1 ttl=61 ms\n116 bytes from 10.0.1.2: icmp_seq=2 ttl=62 ms\n\
         116 bytes from 10.0.1.2: icmp_seq=3 ttl=63 ms\n\nStatistics: 3 sent, 3 received, 0% packet loss\n"
    );
    assert_eq!(e1.sent().len(), 0);
}

#[test]
fn options_are_in_the_packet() {
    let (mut bed, [_, e1, e2]) = Bed::with_three_ports();
    let _reply = bed.begin("ping 10.0.1.2 repeat 1 size 3 ttl 9 df-bit source e2").unwrap();
    bed.run();
    let sent = e1.sent();
    let packet = &sent[0][14..];
    assert_eq!(packet.len(), 31);
    assert_eq!((packet[6] & 0x40, packet[8]), (0x40, 9));
    assert_eq!(packet[12..16], ip("10.0.2.1").octets());
    assert_eq!(checksum(&packet[..20]), 0);
    assert_eq!(checksum(&packet[20..]), 0);
    assert_eq!(e2.sent().len(), 0);
}

#[test]
fn what_is_no_answer_does_not_count() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let reply = bed.begin("ping 10.0.1.2 repeat 2 interval 1").unwrap();
    bed.run();
    let right = asked(&e1, "10.0.1.1", "10.0.1.2", 88);
    let data = [0; 88];
    let moved = bed.errors_of(|_| {
        let other = Asked { identifier: right.identifier ^ 1, ..right };
        e1.receive_packet(&reply_to(other, &data));
        // From a host other than the destination.
        let mut stranger = reply_to(right, &data);
        stranger.source = ip("10.0.0.2");
        stranger.destination = ip("10.0.0.1");
        e0.receive_packet(&stranger);
        // Too short to contain an identifier.
        let mut cut = reply_to(right, &data);
        cut.payload.truncate(7);
        e1.receive_packet(&cut);
        let mut spoilt = reply_to(right, &data);
        spoilt.payload[2] ^= 1;
        e1.receive_packet(&spoilt);
    });
    let mut expected = error("ip4-punt-redirect", "ICMP type not handled", 2);
    expected.extend(error("ip4-icmp-input", "ICMP message shorter than its header", 1));
    expected.extend(error("ip4-icmp-input", "bad ICMP checksum", 1));
    assert_eq!(moved, expected);
    // A sequence number that was not sent yet.
    e1.receive_packet(&reply_to(Asked { sequence: 2, ..right }, &data));
    bed.run();
    bed.advance(Duration::from_secs(1));
    e1.sent();
    bed.advance(Duration::from_secs(2));
    assert!(bed.router.state::<Pings>().is_empty());
    assert_eq!(told(&bed, &*reply), "\nStatistics: 2 sent, 0 received, 100% packet loss\n");
}

#[test]
fn a_duplicate_is_told_but_not_counted_and_more_do_not_reach_control() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    let reply = bed.begin("ping 10.0.1.2 repeat 2").unwrap();
    bed.run();
    let first = asked(&e1, "10.0.1.1", "10.0.1.2", 88);
    let moved = bed.errors_of(|_| (0..10).for_each(|_| drop(e1.receive_packet(&reply_to(first, &[0; 88])))));
    let mut expected = error("ip4-icmp-input", "ICMP answers to our requests", 2);
    expected.extend(error("ip4-punt-redirect", "ICMP type not handled", 8));
    assert_eq!(moved, expected);
    bed.advance(Duration::from_secs(1));
    let second = asked(&e1, "10.0.1.1", "10.0.1.2", 88);
    e1.receive_packet(&reply_to(second, &[0; 88]));
    bed.run();
    assert_eq!(
        told(&bed, &*reply),
        "116 bytes from 10.0.1.2: icmp_seq=1 ttl=64 ms\n\
         116 bytes from 10.0.1.2: icmp_seq=1 ttl=64 ms (duplicate)\n\
         116 bytes from 10.0.1.2: icmp_seq=2 ttl=64 ms\n\nStatistics: 2 sent, 2 received, 0% packet loss\n"
    );
}

#[test]
fn errors_about_our_requests_are_told_by_name() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    bed.route("99.0.0.0/8", &["10.0.1.2"]);
    let reply = bed.begin("ping 99.1.1.1 repeat 3 interval 0.1 size 8").unwrap();
    for (kind, code) in [(11, 0), (3, 1), (3, 200)] {
        bed.run();
        let request = e1.sent()[0][14..].to_vec();
        // First errors that quote other packets.
        let mut foreign = request.clone();
        foreign[9] = UDP;
        for (code, quote) in [(13, &foreign[..]), (13, &request[..27]), (13, &[0x4f; 28]), (code, &request[..])] {
            let message = icmp(kind, code, 0, quote);
            e1.receive_packet(&Packet::new("10.0.1.2", "10.0.1.1", ICMP, &message));
        }
        bed.run();
        bed.advance(Duration::from_millis(101));
    }
    assert_eq!(
        told(&bed, &*reply),
        "From 10.0.1.2: icmp_seq=1 ttl_exceeded_in_transit\n\
         From 10.0.1.2: icmp_seq=2 destination_unreachable_host\n\
         From 10.0.1.2: icmp_seq=3 destination_unreachable code 200\n\n\
         Statistics: 3 sent, 0 received, 100% packet loss\n"
    );
}

#[test]
fn replies_with_options_and_in_chains_count() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    let reply = bed.begin("ping 10.0.1.2 repeat 2 interval 0.1 size 1000").unwrap();
    bed.run();
    let first = asked(&e1, "10.0.1.1", "10.0.1.2", 1000);
    e1.receive_packet(&reply_to(first, &[1; 1000]).options(&[1; 40]));
    bed.advance(Duration::from_millis(101));
    let second = asked(&e1, "10.0.1.1", "10.0.1.2", 1000);
    let packet = reply_to(second, &[1; 1000]);
    let frame = packet.frame(e1.mac, host_mac(packet.source));
    let rest = frame.len() - 64 - 500;
    e1.receive(Arrival::from(frame).in_parts(&[64, 500, rest]));
    bed.run();
    assert_eq!(
        told(&bed, &*reply),
        "1068 bytes from 10.0.1.2: icmp_seq=1 ttl=64 ms\n1028 bytes from 10.0.1.2: icmp_seq=2 ttl=64 ms\n\n\
         Statistics: 2 sent, 2 received, 0% packet loss\n"
    );
}

#[test]
fn our_own_address_answers_at_any_size() {
    let (mut bed, _) = Bed::with_three_ports();
    for size in [0, 88, 2020, 2021, 65507] {
        let reply = bed.begin(&format!("ping 10.0.2.1 repeat 2 interval 0.1 size {size}")).unwrap();
        bed.run();
        bed.advance(Duration::from_millis(101));
        let bytes = size + 28;
        assert_eq!(
            told(&bed, &*reply),
            format!(
                "{bytes} bytes from 10.0.2.1: icmp_seq=1 ttl=64 ms\n{bytes} bytes from 10.0.2.1: icmp_seq=2 ttl=64 \
                 ms\n\n\
                 Statistics: 2 sent, 2 received, 0% packet loss\n"
            )
        );
    }
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn a_large_request_lies_in_a_chain() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    bed.router.set_mtu(e1.index, 9000).unwrap();
    let _reply = bed.begin("ping 10.0.1.2 repeat 1 size 8972").unwrap();
    bed.run();
    asked(&e1, "10.0.1.1", "10.0.1.2", 8972);
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn a_neighbour_is_asked_for_first() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    let _reply = bed.begin("ping 10.0.1.77 repeat 1").unwrap();
    bed.run();
    let arp = e1.sent();
    assert_eq!(arp[0][12..14], [8, 6]);
    bed.know(&e1, "10.0.1.77");
    bed.run();
    asked(&e1, "10.0.1.1", "10.0.1.77", 88);
}

#[test]
fn it_follows_next_hops_that_other_routes_reach() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    bed.command("ip route add 20.0.0.0/8 via 10.0.1.2").unwrap();
    bed.command("ip route add 10.0.9.0/24 via 20.1.1.1").unwrap();
    bed.begin("ping 10.0.9.9 repeat 1").unwrap();
    bed.run();
    asked_by(&e1, "10.0.1.1", "10.0.9.9", "10.0.1.2", 88);
    // Its path was removed with the route.
    bed.command("ip route del 20.0.0.0/8").unwrap();
    let refusal = bed.begin("ping 10.0.9.9").err().unwrap();
    assert_eq!(refusal, "ping: no route to 10.0.9.9");
}

#[test]
fn a_neighbour_that_does_not_answer_is_a_host_unreachable() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    let reply = bed.begin("ping 10.0.1.77 repeat 1 interval 10").unwrap();
    let moved = bed.errors_of(|bed| (0..4).for_each(|_| bed.advance(Duration::from_millis(1001))));
    assert_eq!(
        moved.get(&("ip4-icmp-error".into(), "echo requests of this router that were not forwarded".into())),
        Some(&1)
    );
    e1.sent();
    assert_eq!(
        told(&bed, &*reply),
        "From 10.0.1.1: icmp_seq=1 destination_unreachable_host\n\nStatistics: 1 sent, 0 received, 100% packet loss\n"
    );
}

#[test]
fn refusals_come_at_once() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    bed.router.set_mtu(e1.index, 1000).unwrap();
    bed.command("ip route add 99.0.0.0/8 via drop").unwrap();
    let bare = bed.port("bare", &[]);
    bed.command("ip route add 98.0.0.0/8 via 10.5.0.1 bare onlink").unwrap();
    for (line, refusal) in [
        ("ping 88.1.1.1", "no route to 88.1.1.1"),
        ("ping 99.1.1.1", "no route to 99.1.1.1: packets to 99.0.0.0/8 are not forwarded"),
        ("ping 98.1.1.1", "interface bare has no IPv4 address to ping from"),
        ("ping 224.0.0.1", "224.0.0.1 is no host's address"),
        (
            "ping 10.0.1.2 df-bit size 973",
            "a packet of 1001 bytes is over the mtu of 1000 and must not be fragmented: size is at most 972",
        ),
        ("ping 10.0.1.2 interval 0", "interval must be 0.001 to 3600 seconds"),
        ("ping 10.0.1.2 interval -1", "interval must be 0.001 to 3600 seconds"),
        ("ping 10.0.1.2 source bare", "interface bare has no IPv4 address to ping from"),
        ("ping 10.0.1.2 source nine", "no interface named 'nine' (show interface lists them)"),
    ] {
        assert_eq!(bed.begin(line).err().unwrap(), format!("ping: {refusal}"), "{line}");
    }
    for line in ["ping 10.0.1.2 size 65508", "ping 10.0.1.2 repeat 0", "ping 10.0.1.2 ttl 256", "ping nobody"] {
        assert!(bed.begin(line).is_err(), "{line}");
    }
    bed.run();
    assert_eq!((e1.sent().len(), bare.sent().len()), (0, 0));
}

#[test]
fn a_reader_that_goes_ends_its_ping_and_pings_are_bounded() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    let replies: Vec<_> = (0..MAX_PINGS).map(|_| bed.begin("ping 10.0.1.2 repeat 1000000").unwrap()).collect();
    assert_eq!(bed.begin("ping 10.0.1.2").err().unwrap(), "ping: 16 pings run already");
    bed.run();
    assert_eq!(e1.sent().len(), MAX_PINGS);
    drop(replies);
    bed.advance(Duration::from_millis(1001));
    assert_eq!((e1.sent().len(), bed.router.state::<Pings>().len()), (0, 0));
}

/// A client that disconnects after some lines.
struct Gone;

impl std::io::Write for Gone {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Data is still accepted; only the empty write shows that the client is gone.
        if bytes.is_empty() { Err(std::io::ErrorKind::BrokenPipe.into()) } else { Ok(bytes.len()) }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_is_asked_whether_it_is_there_while_nobody_answers() {
    let (mut bed, _) = Bed::with_three_ports();
    let shown = bed.begin("ping 10.0.1.2 repeat 1000").unwrap();
    for format in [Format::Text, Format::Json] {
        assert!(shown.write(format, &mut Gone).is_err(), "rendering ends though the ping goes on");
    }
}

#[test]
fn json_has_every_answer() {
    let (mut bed, [..]) = Bed::with_three_ports();
    let reply = bed.begin("ping 10.0.1.1 repeat 1").unwrap();
    bed.run();
    assert!(bed.router.state::<Pings>().is_empty());
    let json = reply.json();
    assert_eq!(json["address"], "10.0.1.1");
    assert_eq!(
        (json["sent"].as_u64(), json["received"].as_u64(), json["loss_percent"].as_u64()),
        (Some(1), Some(1), Some(0))
    );
    let answer = &json["answers"][0];
    assert_eq!(
        (answer["result"].as_str(), answer["sequence"].as_u64(), answer["bytes"].as_u64()),
        (Some("reply"), Some(1), Some(116))
    );
    assert!(answer["milliseconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_lack_of_buffers_is_counted_and_loses_none() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    let mut all = vec![graph::PacketIndex::NONE; 4096];
    let got = bed.worker.core().buffers.allocate(&mut all);
    let mut replies = Vec::new();
    let moved = bed.errors_of(|bed| replies.push(bed.begin("ping 10.0.1.2 repeat 1").unwrap()));
    assert_eq!(moved, error("ip4-ping", "no free buffer", 1));
    bed.worker.core().buffers.free(&all[..got]);
    // A chain that could be allocated only in part must be freed again.
    bed.router.set_mtu(e1.index, 9000).unwrap();
    let got = bed.worker.core().buffers.allocate(&mut all[..4094]);
    let moved = bed.errors_of(|bed| replies.push(bed.begin("ping 10.0.1.2 repeat 1 size 8000").unwrap()));
    assert_eq!(moved, error("ip4-ping", "no free buffer", 1));
    bed.worker.core().buffers.free(&all[..got]);
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn control_that_does_not_listen_costs_pings_by_name() {
    let mut bed = Bed::with_room_for_events(1);
    let [_, e1, _] = bed.three_ports();
    let _first = bed.begin("ping 10.0.1.2 repeat 2").unwrap();
    bed.run();
    let request = asked(&e1, "10.0.1.1", "10.0.1.2", 88);
    e1.receive_packet(&reply_to(request, &[0; 88]));
    while bed.worker.round() != graph::Progress::Idle {}
    let _second = bed.begin("ping 10.0.1.2 repeat 1").unwrap();
    e1.receive_packet(&reply_to(request, &[0; 88]));
    let before = bed.errors();
    while bed.worker.round() != graph::Progress::Idle {}
    assert_eq!(e1.sent().len(), 0);
    let count = |node: &str, reason: &str| bed.errors().get(&(node.into(), reason.into())).copied();
    assert_eq!(count("ip4-ping", "control is busy, not sent"), Some(1), "{before:?}");
    assert_eq!(count("ip4-icmp-input", "control is busy, answer not told"), Some(1));
    bed.run();
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn pings_whose_readers_have_gone_make_room() {
    let (mut bed, ..) = Bed::with_three_ports();
    let replies: Vec<_> = (0..MAX_PINGS).map(|_| bed.begin("ping 10.0.1.2 interval 3600 repeat 2").unwrap()).collect();
    drop(replies);
    bed.begin("ping 10.0.1.2").unwrap();
    assert_eq!(bed.router.state::<Pings>().len(), 1);
}
