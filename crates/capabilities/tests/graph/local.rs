//! Packets to the router itself: which node receives them, and what the router answers when none does.

use crate::bed::{Arrival, Bed, Port, error, host_mac};
use crate::packet::*;
use graph::{Behaviour, Context, Map, NodeSpec, Vector, flag};
use protocols::local;
use std::sync::{Arc, Mutex};
use wire::Family;

graph::edges! {
    enum Edge {
        Taken => end "taken by a test",
    }
}

/// A node that keeps the data of the datagrams that it gets.
struct Listener(Arc<Mutex<Vec<Vec<u8>>>>);

impl Map for Listener {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            let at = protocols::local::datagram_at(&row);
            let bytes = cx.buffers.bytes(row.packet);
            let length = u16::from_be_bytes([bytes[at + 4], bytes[at + 5]]) as usize;
            // Of a long datagram, only the data in its first buffer.
            let end = (at + length).min(row.l2 as usize + row.first_length(cx.buffers));
            self.0.lock().unwrap().push(bytes[at + 8..end].to_vec());
            vector.set_edge(i, Edge::Taken.into());
        }
    }
}

/// Registers a listener on UDP port 2000 of a family. Returns the data that it receives.
pub fn listen(bed: &mut Bed, family: Family) -> Arc<Mutex<Vec<Vec<u8>>>> {
    let heard = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let to = heard.clone();
    let spec = NodeSpec { name: "test-listener".into(), edges: Edge::EDGES, counters: &[], trace: |_, _| Ok(()) };
    bed.router.graph.register(spec, move |_| Behaviour::Map(Box::new(Listener(to.clone())))).unwrap();
    local::listen_udp(&mut bed.router, family, 2000, "test-listener", "a test").unwrap();
    bed.run();
    heard
}

fn udp(to: &str) -> Packet {
    Packet::udp("10.0.0.2", to, b"some data")
}

#[test]
fn a_datagram_goes_to_whoever_listens_to_its_port() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let heard = listen(&mut bed, Family::Ip4);
    e0.receive_packet(&udp("10.0.0.1"));
    // With options; to another of our addresses; padded beyond its length; without a checksum.
    e0.receive_packet(&udp("10.0.1.1").options(&[1; 8]));
    let mut padded = udp("10.0.0.1");
    padded.payload.extend(b"padding");
    e0.receive_packet(&padded);
    let mut bare = udp("10.0.0.1");
    bare.payload[6..8].fill(0);
    e0.receive_packet(&bare);
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("test-listener", "taken by a test", 4));
    assert_eq!(*heard.lock().unwrap(), vec![b"some data".to_vec(); 4]);
    // No node listens on another port.
    let mut other = udp("10.0.0.1");
    other.payload[3] += 1;
    other.payload[6..8].fill(0);
    e0.receive_packet(&other);
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("ip4-icmp-error", "ICMP port unreachable sent", 1));
    local::unlisten_udp(&mut bed.router, Family::Ip4, 2000);
    e0.receive_packet(&udp("10.0.0.1"));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("ip4-icmp-error", "ICMP port unreachable sent", 1));
}

#[test]
fn a_port_has_one_listener_and_ports_have_a_limit() {
    let (mut bed, _) = Bed::with_three_ports();
    listen(&mut bed, Family::Ip4);
    let refused = local::listen_udp(&mut bed.router, Family::Ip4, 2000, "test-listener", "another").unwrap_err();
    assert_eq!(refused.to_string(), "UDP port 2000 is listened to already: a test");
    assert!(local::listen_udp(&mut bed.router, Family::Ip4, 1, "no-such-node", "x").is_err());
    let shown = bed.command("show udp ports").unwrap();
    assert_eq!(
        shown,
        " Port Proto  Node                     Description\n 2000  UDP4  test-listener            a test\n"
    );
    for port in 3000..3000 + protocols::local::control::MAX_PORTS as u16 - 1 {
        local::listen_udp(&mut bed.router, Family::Ip4, port, "test-listener", "many").unwrap();
    }
    let refused = local::listen_udp(&mut bed.router, Family::Ip4, 1, "test-listener", "too many").unwrap_err();
    assert_eq!(refused.to_string(), "too many UDP ports are listened to (at most 1024)");
}

#[test]
fn a_datagram_in_several_buffers_is_summed_over_all_of_them() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    listen(&mut bed, Family::Ip4);
    let whole = Packet::udp("10.0.0.2", "10.0.0.1", &[7; 3000]);
    let frame = whole.frame(e0.mac, host_mac(whole.source));
    let mut altered = frame.clone();
    *altered.last_mut().unwrap() ^= 1;
    for (frame, counted) in
        [(frame, ("test-listener", "taken by a test")), (altered, ("ip4-udp-lookup", "bad udp checksum"))]
    {
        let parts = [1001, frame.len() - 1001];
        e0.receive(Arrival::from(frame).in_parts(&parts));
        let moved = bed.errors_of(|_| {});
        assert_eq!(moved, error(counted.0, counted.1, 1));
    }
    assert_eq!(bed.buffers_in_use(), 0);
}

/// A TCP segment to port 2000 of the router with these flags.
fn segment(sequence: u32, flags: u8, data: &[u8]) -> Packet {
    let mut packet = Packet::tcp("10.0.0.2", "10.0.0.1", sequence, data);
    packet.payload[13] = flags;
    packet.fill_transport_checksum(16);
    packet
}

/// The reset to such a segment, from the Ethernet header on.
fn reset(e0: &Port, sequence: u32, acknowledged: u32, flags: u8) -> Vec<u8> {
    let ports = [0x07, 0xd0, 0x03, 0xe8];
    let words = [&ports[..], &sequence.to_be_bytes(), &acknowledged.to_be_bytes(), &[0x50, flags], &[0; 6]].concat();
    let mut packet = Packet::new("10.0.0.1", "10.0.0.2", TCP, &words).id(0).fragment(DONT_FRAGMENT);
    packet.fill_transport_checksum(16);
    packet.frame(host_mac(packet.destination), e0.mac)
}

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 0x10;

#[test]
fn a_segment_to_nobody_is_answered_with_the_reset_that_its_sender_accepts() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    // RFC 9293 3.10.7.1: the reset acknowledges SYN, data and FIN. It takes its sequence number from a segment with
    // ACK.
    let cases = [
        (segment(100, SYN, b""), reset(&e0, 0, 101, RST | ACK)),
        (segment(u32::MAX, SYN | FIN, b"abc"), reset(&e0, 0, 4, RST | ACK)),
        (segment(7, 0, b""), reset(&e0, 0, 7, RST | ACK)),
        (segment(100, ACK, b"hello"), reset(&e0, 9, 0, RST)),
        (segment(100, SYN | ACK, b""), reset(&e0, 9, 0, RST)),
        (segment(100, FIN | ACK, b"").options(&[1; 12]), reset(&e0, 9, 0, RST)),
    ];
    for (packet, answer) in cases {
        e0.receive_packet(&packet);
        let moved = bed.errors_of(|_| {});
        assert_eq!(e0.sent(), [answer]);
        assert_eq!(moved, error("tcp4-reset", "TCP resets sent", 1));
    }
    // In several buffers, of which the reset keeps one.
    let long = segment(100, 0, &[3; 3000]);
    let frame = long.frame(e0.mac, host_mac(long.source));
    let parts = [2048, frame.len() - 2048];
    e0.receive(Arrival::from(frame).in_parts(&parts));
    bed.run();
    assert_eq!(e0.sent(), [reset(&e0, 0, 3100, RST | ACK)]);
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn a_segment_whose_checksum_its_sender_left_to_a_device_is_answered() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let mut packet = segment(100, SYN, b"");
    packet.payload[16..18].fill(0x5a);
    let mut arrival = Arrival::from(packet.frame(e0.mac, host_mac(packet.source)));
    arrival.flags = flag::PARTIAL_CHECKSUM;
    (arrival.offload.checksum_start, arrival.offload.checksum_offset) = (20, 16);
    e0.receive(arrival);
    bed.run();
    let sent = e0.sent_whole();
    assert_eq!((sent.len(), sent[0].flags), (1, 0), "nothing is left to the device");
    assert_eq!(sent[0].frame, reset(&e0, 0, 101, RST | ACK));
}

#[test]
fn resets_are_limited_by_rate() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    (0..2000).for_each(|_| drop(e0.receive_packet(&segment(1, SYN, b""))));
    let start = std::time::Instant::now();
    let errors = bed.errors_of(|_| {});
    let most = 100 + (start.elapsed().as_secs_f64() * 1000.0) as u64 + 1;
    let sent = e0.sent().len() as u64;
    assert!((100..=most).contains(&sent), "{sent} sent, at most {most}");
    let mut expected = error("tcp4-reset", "TCP resets limited by rate", 2000 - sent);
    expected.extend(error("tcp4-reset", "TCP resets sent", sent));
    assert_eq!(errors, expected);
}
