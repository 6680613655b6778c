//! `pcap trace` and trace filters: which packets are captured, and what the file contains.

use crate::bed::{Arrival, Bed, Port, host_mac};
use crate::packet::*;
use std::path::PathBuf;
use wire::MacAddress;

/// A file of one test, removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("quiver-{}-{name}", std::process::id())))
    }
    fn read(&self) -> Vec<Caught> {
        read(&std::fs::read(&self.0).expect("the capture's file"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A packet as read from the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Caught {
    interface: String,
    link_type: u16,
    bytes: Vec<u8>,
    length: usize,
    direction: u32,
    comment: Option<String>,
    time: u64,
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}
fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// The value of an option. `options` starts at the first one.
fn option(mut options: &[u8], code: u16) -> Option<Vec<u8>> {
    while half(options, 0) != 0 {
        let length = half(options, 2) as usize;
        if half(options, 0) == code {
            return Some(options[4..4 + length].to_vec());
        }
        options = &options[4 + length.next_multiple_of(4)..];
    }
    None
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Parses a pcapng file, block by block.
fn read(mut file: &[u8]) -> Vec<Caught> {
    let (mut interfaces, mut packets) = (Vec::new(), Vec::new());
    assert_eq!(file[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    while !file.is_empty() {
        let length = word(file, 4);
        assert_eq!(word(file, length - 4), length);
        let body = &file[8..length - 4];
        match word(file, 0) {
            1 => {
                assert_eq!(option(&body[8..], 9), Some(vec![9]), "nanoseconds");
                interfaces.push((half(body, 0), text(option(&body[8..], 2).unwrap())));
            }
            6 => {
                let (link_type, interface) = interfaces[word(body, 0)].clone();
                let taken = word(body, 12);
                let options = &body[20 + taken.next_multiple_of(4)..];
                packets.push(Caught {
                    interface,
                    link_type,
                    bytes: body[20..20 + taken].to_vec(),
                    length: word(body, 16),
                    direction: word(&option(options, 2).unwrap(), 0) as u32,
                    comment: option(options, 1).map(text),
                    time: (word(body, 4) as u64) << 32 | word(body, 8) as u64,
                });
            }
            0x0a0d_0d0a => assert_eq!(word(body, 0), 0x1a2b_3c4d),
            other => panic!("block of type {other}"),
        }
        file = &file[length..];
    }
    packets
}

const RECEIVED: u32 = 1;
const SENT: u32 = 2;
const ETHERNET: u16 = 1;
const RAW_IP: u16 = 101;

fn udp(to: &str) -> Packet {
    Packet::udp("10.0.0.2", to, b"some data")
}

/// A frame from e0 as it leaves for a host on another port.
fn forwarded(packet: &Packet, to: &Port) -> Vec<u8> {
    packet.clone().ttl(63).frame(host_mac(packet.destination), to.mac)
}

#[test]
fn all_points_have_their_packets_with_names_directions_and_reasons() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let file = Scratch::new("all.pcap");
    bed.command(&format!("pcap trace rx tx drop file {}", file.0.display())).unwrap();
    let before = std::time::SystemTime::now();
    let there = e0.receive_packet(&udp("10.0.1.2"));
    let mut unknown = udp("10.0.1.2").frame(e0.mac, host_mac(ip("10.0.0.2")));
    unknown[12..14].copy_from_slice(&[0x12, 0x34]);
    e0.receive(unknown.clone());
    bed.run();
    let status = bed.command("pcap trace status").unwrap();
    assert_eq!(
        status,
        format!(
            "max is 1000, for any interface to file {}\npcap rx tx drop capture is on: 4 of 1000 pkts...\n\
             captured: 2 rx, 1 tx, 1 drop\n",
            file.0.display()
        )
    );
    let said = bed.ask("pcap trace off").unwrap();
    assert_eq!(said, format!("Write 4 packets to {}, and stop capture...\n", file.0.display()));
    let after = std::time::SystemTime::now();
    let caught = file.read();
    let expected = [
        ("e0", there, RECEIVED, None),
        ("e0", unknown.clone(), RECEIVED, None),
        ("e0", unknown, RECEIVED, Some("ethernet-input: unknown ethernet type".to_string())),
        ("e1", forwarded(&udp("10.0.1.2"), &e1), SENT, None),
    ];
    assert_eq!(caught.len(), expected.len());
    for expected in expected {
        let found = caught.iter().find(|caught| {
            (caught.interface.as_str(), caught.bytes.clone(), caught.direction, caught.comment.clone()) == expected
        });
        let found = found.unwrap_or_else(|| panic!("{expected:?} is not in {caught:?}"));
        assert_eq!((found.length, found.link_type), (found.bytes.len(), ETHERNET));
        let nanoseconds =
            |time: std::time::SystemTime| time.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        // The two clocks are read one after the other, not at the same time.
        const SLACK: u64 = 50_000_000;
        assert!(found.time + SLACK > nanoseconds(before) && found.time < nanoseconds(after) + SLACK);
    }
    assert!(caught.windows(2).all(|pair| pair[0].time <= pair[1].time));
}

#[test]
fn a_full_capture_ends_and_is_written_by_itself() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let file = Scratch::new("full.pcap");
    bed.command(&format!("pcap trace rx max 3 file {}", file.0.display())).unwrap();
    for _ in 0..5 {
        e0.receive_packet(&udp("10.0.1.2"));
    }
    bed.run();
    assert_eq!(file.read().len(), 3);
    let last = format!("the last one: Write 3 packets to {}, and stop capture...\n", file.0.display());
    assert_eq!(bed.command("show pcap trace").unwrap(), format!("pcap capture is off...\n{last}"));
    assert_eq!(bed.command("pcap trace off").unwrap_err(), "pcap trace off: no capture runs");
    bed.command(&format!("pcap trace rx max 1 file {}", file.0.display())).unwrap();
    e0.receive_packet(&udp("10.0.2.2"));
    bed.run();
    assert_eq!(file.read().len(), 1, "another one takes its place");
}

#[test]
fn a_worker_that_is_full_ends_the_capture_of_the_others() {
    let mut bed = Bed::with_workers(2);
    let mut second = bed.others.remove(0);
    let e0 = bed.port("e0", &["10.0.0.1/24"]);
    let file = Scratch::new("two.pcap");
    bed.command(&format!("pcap trace rx max 1 file {}", file.0.display())).unwrap();
    e0.receive_packet(&udp("10.0.1.2"));
    bed.run();
    assert!(!file.0.exists(), "the other one's part is missing");
    assert!(bed.command("pcap trace tx").is_err());
    second.round();
    bed.run();
    assert_eq!(file.read().len(), 1);
    bed.command(&format!("pcap trace rx max 1 file {}", file.0.display())).unwrap();
}

#[test]
fn the_worker_that_does_not_give_its_part_back_is_named_and_may_do_so_later() {
    let mut bed = Bed::with_workers(2);
    let mut second = bed.others.remove(0);
    let file = Scratch::new("stuck.pcap");
    bed.command(&format!("pcap trace rx file {}", file.0.display())).unwrap();
    bed.router.graph.call_one(1, |core| core.capture.finish());
    second.round();
    let refusal = bed.command("pcap trace off").unwrap_err();
    assert!(refusal.contains("worker 0"), "{refusal}");
    assert!(bed.command("show pcap trace").unwrap().contains("capture is on"));
    bed.run();
    assert!(file.read().is_empty());
}

#[test]
fn chains_are_gathered_and_cut_at_the_limit() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let packet = Packet::udp("10.0.0.2", "10.0.1.2", &[7; 1000]);
    let frame = packet.frame(e0.mac, host_mac(packet.source));
    for (limit, taken) in [(100, 100), (600, 600), (9216, frame.len())] {
        let file = Scratch::new("chain.pcap");
        bed.command(&format!("pcap trace rx max 1 max-bytes-per-pkt {limit} file {}", file.0.display())).unwrap();
        let parts = [64, 300, 1, frame.len() - 365];
        e0.receive(Arrival::from(frame.clone()).in_parts(&parts));
        bed.run();
        let caught = file.read();
        assert_eq!(caught[0].bytes, frame[..taken]);
        assert_eq!(caught[0].length, frame.len());
    }
}

#[test]
fn filters_and_interfaces_choose() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    let file = Scratch::new("choose.pcap");
    let start = |bed: &mut Bed, more: &str| bed.command(&format!("pcap trace {more} file {}", file.0.display()));
    let some_traffic = |bed: &mut Bed| {
        e0.receive_packet(&udp("10.0.1.2"));
        e0.receive_packet(&udp("10.0.2.2"));
        e1.receive_packet(&Packet::tcp("10.0.1.2", "10.0.2.2", 1, b"x"));
        bed.run();
    };
    start(&mut bed, "tx intfc e2").unwrap();
    some_traffic(&mut bed);
    bed.ask("pcap trace off").unwrap();
    assert_eq!(file.read().len(), 2);
    assert!(file.read().iter().all(|caught| caught.interface == "e2"));

    let command = format!("pcap trace rx tx file {} filter udp and dst host 10.0.1.2", file.0.display());
    bed.command(&command).unwrap();
    assert!(bed.command("pcap trace status").unwrap().contains("\nfilter is udp and dst host 10.0.1.2\n"));
    some_traffic(&mut bed);
    bed.ask("pcap trace off").unwrap();
    let directions: Vec<u32> = file.read().iter().map(|caught| caught.direction).collect();
    assert_eq!(directions, [RECEIVED, SENT]);
    e2.sent();
}

#[test]
fn what_the_router_made_and_lost_before_it_had_a_frame_is_raw_ip() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let file = Scratch::new("raw.pcap");
    bed.command(&format!("pcap trace drop file {} filter icmp", file.0.display())).unwrap();
    // The ICMP error goes to a host whose route drops, so it is captured as raw IP.
    bed.command("ip route add 99.0.0.0/8 via drop").unwrap();
    e0.receive_packet(&Packet::udp("99.1.1.1", "88.9.9.9", b""));
    bed.run();
    bed.ask("pcap trace off").unwrap();
    let caught = file.read();
    assert_eq!(caught.len(), 1, "{caught:?}");
    assert_eq!(caught[0].link_type, RAW_IP);
    assert_eq!(caught[0].bytes[..1], [0x45]);
    assert_eq!(caught[0].comment.as_deref(), Some("ip4-lookup: blackholed packets"));
}

#[test]
fn what_is_answered_with_an_error_is_caught_as_it_came_with_the_reason() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.command("ip route add 24.0.0.0/8 via prohibit").unwrap();
    let file = Scratch::new("answered.pcap");
    bed.command(&format!("pcap trace drop intfc e0 file {}", file.0.display())).unwrap();
    let packets = [
        (udp("10.0.1.2").ttl(1), "ICMP time exceeded sent"),
        (udp("88.9.9.9"), "ICMP net unreachable sent"),
        (udp("24.0.0.1"), "ICMP admin prohibited sent"),
        (udp("10.0.0.1"), "ICMP port unreachable sent"),
        // Packets that are ICMP errors are captured, too: they are lost, and their sender gets no error.
        (Packet::new("10.0.0.2", "88.9.9.9", ICMP, &icmp(3, 1, 0, &[0; 28])), "no ICMP error about an ICMP error"),
    ];
    let expected: Vec<_> = packets
        .iter()
        .map(|(packet, reason)| {
            let frame = e0.receive_packet(packet);
            bed.run();
            (frame, Some(format!("ip4-icmp-error: {reason}")))
        })
        .collect();
    bed.ask("pcap trace off").unwrap();
    let caught: Vec<_> = file.read().into_iter().map(|caught| (caught.bytes, caught.comment)).collect();
    assert_eq!(caught, expected);
    assert_eq!(bed.counters(&e0)[5], 5, "all of them are drops of e0");
}

#[test]
fn an_interface_may_go_while_a_capture_runs() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let file = Scratch::new("gone.pcap");
    bed.command(&format!("pcap trace rx tx drop intfc e1 file {}", file.0.display())).unwrap();
    e0.receive_packet(&udp("10.0.1.2"));
    bed.run();
    bed.router.delete_interface(e1.index).unwrap();
    bed.run();
    assert!(bed.command("pcap trace status").unwrap().contains("interface (removed)"));
    e0.receive_packet(&udp("10.0.1.2"));
    bed.run();
    bed.ask("pcap trace off").unwrap();
    let names: Vec<String> = file.read().into_iter().map(|caught| caught.interface).collect();
    assert_eq!(names, ["e1"], "under the name that it had");
}

#[test]
fn refusals_say_why() {
    let (mut bed, _) = Bed::with_three_ports();
    let file = Scratch::new("refused.pcap");
    let path = file.0.display().to_string();
    let refusal = |bed: &mut Bed, line: &str| bed.command(line).unwrap_err();
    assert_eq!(refusal(&mut bed, "pcap trace off"), "pcap trace off: no capture runs");
    assert!(refusal(&mut bed, "pcap trace max 5").contains("nothing to capture: name rx, tx, drop"));
    assert!(refusal(&mut bed, "pcap trace rx intfc nine").contains("no interface named 'nine'"));
    assert!(refusal(&mut bed, "pcap trace rx file ../x").contains("must not contain '..'"));
    assert!(refusal(&mut bed, "pcap trace rx file a/b").contains("begins with '/'"));
    assert!(refusal(&mut bed, "pcap trace rx max 1000000 max-bytes-per-pkt 9216").contains("at most 256 MiB"));
    assert_eq!(
        refusal(&mut bed, "pcap trace rx filter upd"),
        "pcap trace: filter: unknown word 'upd': expected a protocol, host, net, port, an address, ... (at byte 0)"
    );
    bed.command(&format!("pcap trace rx file {path}")).unwrap();
    assert_eq!(
        refusal(&mut bed, "pcap trace tx"),
        format!("pcap trace: a capture runs already, to {path} ('pcap trace off' ends it)")
    );
    bed.ask("pcap trace off").unwrap();
    let nowhere = refusal(&mut bed, "pcap trace rx file /nowhere/at/all.pcap");
    assert!(nowhere.starts_with("pcap trace: cannot write /nowhere/at/all.pcap: "), "{nowhere}");
    // A directory that is removed during the capture.
    let directory = std::env::temp_dir().join(format!("quiver-gone-{}", std::process::id()));
    let lost = directory.join("x.pcap");
    std::fs::create_dir_all(&directory).unwrap();
    bed.command(&format!("pcap trace rx file {}", lost.display())).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let complaint = format!("cannot write {}: ", lost.display());
    assert!(bed.ask("pcap trace off").unwrap_err().contains(&complaint));
    assert!(bed.command("show pcap trace").unwrap().contains(&format!("the last one: {complaint}")));
    assert_eq!(refusal(&mut bed, "pcap trace off"), "pcap trace off: no capture runs");
}

#[test]
fn a_file_that_is_there_is_replaced_whole_and_a_link_is_not_followed() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let (file, victim) = (Scratch::new("link.pcap"), Scratch::new("victim"));
    std::fs::write(&victim.0, "precious").unwrap();
    std::os::unix::fs::symlink(&victim.0, &file.0).unwrap();
    bed.command(&format!("pcap trace rx max 1 file {}", file.0.display())).unwrap();
    e0.receive_packet(&udp("10.0.1.2"));
    bed.run();
    assert_eq!(std::fs::read_to_string(&victim.0).unwrap(), "precious");
    assert_eq!(file.read().len(), 1);
    let directory = std::fs::read_dir(file.0.parent().unwrap()).unwrap();
    let own = format!(".quiver-{}-", std::process::id());
    let left = directory.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&own));
    assert!(left.filter(|entry| entry.file_name().to_string_lossy().contains("link")).count() == 0);
}

/// The numbers of marked packets and their lengths.
fn traced(bed: &mut Bed) -> Vec<(u32, u16)> {
    let mut traced: Vec<(u32, u16)> =
        bed.worker.core().tracer.steps().iter().map(|step| (step.packet, step.row.length)).collect();
    traced.dedup_by_key(|(packet, _)| *packet);
    traced.sort();
    traced.dedup_by_key(|(packet, _)| *packet);
    traced
}

#[test]
fn only_packets_that_a_trace_filter_lets_pass_are_marked_and_counted() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let sizes = |n: usize| Packet::udp("10.0.0.2", "10.0.1.2", &vec![0; n]);
    let traffic = |bed: &mut Bed| {
        for n in [100, 10, 200, 20, 300] {
            e0.receive_packet(&sizes(n));
        }
        bed.run();
    };
    bed.command("trace filter include udp and len >= 140").unwrap();
    assert_eq!(bed.command("show trace filter").unwrap(), "include: udp and len >= 140\n");
    bed.command("trace add test-input 2").unwrap();
    traffic(&mut bed);
    assert_eq!(traced(&mut bed), [(1, 142), (2, 242)]);

    bed.command("clear trace").unwrap();
    bed.command("trace filter exclude udp and len >= 140").unwrap();
    bed.command("trace add test-input 5 verbose").unwrap();
    traffic(&mut bed);
    assert_eq!(traced(&mut bed), [(1, 52), (2, 62)]);

    bed.command("clear trace").unwrap();
    bed.command("trace filter none").unwrap();
    assert_eq!(bed.command("show trace filter").unwrap(), "no trace filter: all packets are marked\n");
    bed.command("trace add test-input 5").unwrap();
    traffic(&mut bed);
    assert_eq!(traced(&mut bed).len(), 5);
}

#[test]
fn a_trace_keeps_of_a_chain_what_its_first_buffer_has() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let frame = Packet::udp("10.0.0.2", "10.0.1.2", &[7; 500]).frame(e0.mac, host_mac(ip("10.0.0.2")));
    bed.command("trace add test-input 1").unwrap();
    e0.receive(Arrival::from(frame.clone()).in_parts(&[64, frame.len() - 64]));
    bed.run();
    assert_eq!(bed.worker.core().tracer.steps()[0].l2(), &frame[..64]);
}

#[test]
fn a_trace_filter_by_node_is_refused_with_a_hint() {
    let (mut bed, _) = Bed::with_three_ports();
    let refusal = bed.command("trace filter include ip4-lookup 5").unwrap_err();
    assert!(refusal.contains("filters are by packet, not by node"), "{refusal}");
    let refusal = bed.command("trace filter include portt 5").unwrap_err();
    assert!(refusal.contains("unknown word 'portt'"), "{refusal}");
    assert_eq!(bed.command("show trace filter").unwrap(), "no trace filter: all packets are marked\n");
}

#[test]
fn nothing_is_lost_or_doubled_while_a_capture_sees_all() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let file = Scratch::new("ledger.pcap");
    bed.command(&format!("pcap trace rx tx drop max 100000 max-bytes-per-pkt 64 file {}", file.0.display())).unwrap();
    let mut random = Random::new(5);
    for _ in 0..2000 {
        let mut frame =
            udp(["10.0.1.2", "10.0.1.9", "99.0.0.1", "10.0.0.1"][random.below(4)]).frame(e0.mac, MacAddress([2; 6]));
        for _ in 0..random.below(3) {
            let at = random.below(frame.len());
            frame[at] ^= 1 << random.below(8);
        }
        frame.truncate(frame.len() - random.below(20));
        e0.receive(frame);
        if random.below(16) == 0 {
            bed.run();
        }
    }
    bed.run();
    e1.sent();
    bed.ask("pcap trace off").unwrap();
    let ledger = bed.worker.core().ledger();
    let caught = file.read();
    let count = |direction, comment| {
        caught.iter().filter(|c| c.direction == direction && c.comment.is_some() == comment).count() as u64
    };
    assert_eq!(count(RECEIVED, false), 2000);
    assert_eq!(count(RECEIVED, true), ledger.dropped);
}
