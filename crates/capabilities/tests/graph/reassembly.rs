//! Reassembly of datagrams to the router.

use crate::bed::{Bed, Errors, Port, error, host_mac};
use crate::fragmentation::{cut, in_buffers, receive};
use crate::packet::*;
use crate::pieces::{data, in_orders, of_node, time_out};
use graph::PacketIndex;
use std::time::Duration;

const NODE: &str = "ip4-local-full-reassembly";
const TIMEOUT: Duration = Duration::from_secs(31);

fn request(id: u16, length: usize) -> Packet {
    Packet::echo_request("10.0.0.2", "10.0.0.1", &data(length)).id(id)
}

/// A fragment with generated data. `from` and `to` are in units of eight bytes.
fn part(id: u16, from: u16, to: u16, more: bool) -> Packet {
    let payload = (from * 8..to * 8).map(|n| n as u8).collect::<Vec<u8>>();
    let flags = if more { MORE_FRAGMENTS } else { 0 };
    Packet::new("10.0.0.2", "10.0.0.1", ICMP, &payload).id(id).fragment(flags | from)
}

/// The data of the replies that were sent, reassembled by the test: all fragments of a reply must be there, in order.
fn echoed(port: &Port) -> Vec<Vec<u8>> {
    let mut replies: Vec<Vec<u8>> = Vec::new();
    for frame in port.sent() {
        let data = 14 + (frame[14] & 0xf) as usize * 4;
        assert_eq!(checksum(&frame[14..data]), 0);
        let offset = u16::from_be_bytes([frame[20], frame[21]]) & 0x1fff;
        if offset == 0 {
            replies.push(Vec::new());
        }
        let reply = replies.last_mut().expect("the first fragment comes first");
        assert_eq!(reply.len(), offset as usize * 8);
        reply.extend(&frame[data..]);
    }
    for reply in &mut replies {
        assert_eq!((reply[0], checksum(reply)), (0, 0));
        reply.drain(..8);
    }
    replies
}

#[test]
fn fragments_in_any_order_are_one_datagram() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    for (length, mtu) in
        [(100, 68), (8000, 1500), (8000, 576), (2040, 1500), (2041, 1500), (60_000, 1500), (65_507, 9000)]
    {
        let fragments = cut(&request(7, length), mtu);
        for order in in_orders(&fragments) {
            let moved = bed.errors_of(|_| order.iter().for_each(|fragment| receive(&e0, fragment)));
            assert_eq!(moved[&(NODE.to_string(), "successful reassemblies".to_string())], 1);
            assert_eq!(echoed(&e0), [data(length)], "{length} over {mtu}");
            assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
        }
    }
}

#[test]
fn the_longest_datagram_in_the_smallest_fragments_is_put_together() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let fragments = cut(&request(7, 65_507), 68);
    assert_eq!(fragments.len(), 1365);
    for batch in fragments.chunks(200) {
        batch.iter().for_each(|fragment| receive(&e0, fragment));
        bed.run();
        assert!(bed.buffers_in_use() <= 32, "however small they are");
    }
    assert_eq!(echoed(&e0), [data(65_507)]);
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn a_datagram_is_as_if_it_had_not_been_cut() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    // The reply has the first fragment's options. A datagram of an unknown protocol is quoted like a whole one.
    let datagram = Packet::new("10.0.0.2", "10.0.0.1", 89, &data(700)).options(&[1; 4]);
    cut(&datagram, 300).iter().for_each(|fragment| receive(&e0, fragment));
    bed.run();
    let told = e0.sent();
    assert_eq!((told.len(), &told[0][34..36]), (1, &[3, 2][..]));
    assert_eq!(told[0][42..], datagram.bytes()[..548]);
}

#[test]
fn what_belongs_to_different_datagrams_is_kept_apart() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.know(&e0, "10.0.0.3");
    let base = request(7, 2000);
    let mut others = vec![base.clone(), base.clone().id(8)];
    others.push(Packet { source: ip("10.0.0.3"), ..base.clone() });
    others.push(Packet { destination: ip("10.0.1.1"), ..base.clone() });
    let fragments: Vec<Vec<Packet>> = others.iter().map(|packet| cut(packet, 1500)).collect();
    for n in 0..2 {
        fragments.iter().for_each(|fragments| receive(&e0, &fragments[n]));
    }
    // Another protocol is another datagram, which stays incomplete.
    receive(&e0, &Packet { protocol: 89, ..fragments[0][1].clone() });
    bed.run();
    assert_eq!(echoed(&e0), vec![data(2000); 4]);
    assert_eq!(bed.held(), 1);
    assert_eq!(time_out(&mut bed, NODE, TIMEOUT), error(NODE, "fragments dropped due to reassembly timeout", 1));
}

#[test]
fn the_same_fragment_again_is_ignored() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let fragments = cut(&request(7, 5000), 1500);
    let moved = bed.errors_of(|_| {
        for n in [1, 1, 0, 3, 0, 3, 1, 2] {
            receive(&e0, &fragments[n]);
        }
    });
    assert_eq!(of_node(NODE, moved), error(NODE, "duplicate fragments", 4));
    assert_eq!(echoed(&e0), [data(5000)]);
}

#[test]
fn fragments_that_overlap_end_their_datagram_for_good() {
    let whole = || [part(7, 0, 100, true), part(7, 100, 200, true)];
    let mut other_bytes = part(7, 100, 200, true);
    other_bytes.payload[777] ^= 1;
    let same_but_last = part(7, 100, 200, false);
    for liar in [
        part(7, 50, 150, true),
        part(7, 0, 50, true),
        part(7, 99, 101, true),
        part(7, 150, 201, true),
        other_bytes,
        same_but_last,
    ] {
        let (mut bed, [e0, ..]) = Bed::with_three_ports();
        let moved = bed.errors_of(|_| {
            whole().iter().for_each(|fragment| receive(&e0, fragment));
            receive(&e0, &liar);
        });
        assert_eq!(moved, error(NODE, "overlapping fragments", 1));
        assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0), "its memory is given back at once");
        let moved = bed.errors_of(|_| {
            whole().iter().for_each(|fragment| receive(&e0, fragment));
            receive(&e0, &part(7, 200, 210, false));
        });
        assert_eq!(moved, error(NODE, "fragment of a discarded datagram", 3));
        // After the timeout another datagram may use its identification.
        assert!(time_out(&mut bed, NODE, TIMEOUT).is_empty());
        cut(&request(7, 2000), 1500).iter().for_each(|fragment| receive(&e0, fragment));
        bed.run();
        assert_eq!(echoed(&e0), [data(2000)]);
    }
}

#[test]
fn last_fragments_that_disagree_end_their_datagram() {
    let cases = [
        // Two ends; data beyond the end; an end before data.
        [part(7, 10, 20, false), part(7, 30, 40, false)],
        [part(7, 10, 20, false), part(7, 20, 30, true)],
        [part(7, 10, 20, false), part(7, 2, 8, false)],
        [part(7, 10, 20, true), part(7, 2, 8, false)],
    ];
    for fragments in cases {
        let (mut bed, [e0, ..]) = Bed::with_three_ports();
        let moved = bed.errors_of(|_| fragments.iter().for_each(|fragment| receive(&e0, fragment)));
        assert_eq!(moved, error(NODE, "last fragments disagree", 1), "{fragments:?}");
        assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
    }
}

#[test]
fn a_datagram_beyond_what_one_can_be_is_dropped() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.router.set_mtu(e0.index, 9000).unwrap();
    let mut fragments = cut(&request(7, 65_507), 9000);
    fragments[0].options = vec![1; 4];
    let moved = bed.errors_of(|_| fragments.iter().for_each(|fragment| receive(&e0, fragment)));
    assert_eq!(moved, error(NODE, "reassembled datagram beyond 65535 bytes", 1));
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
    fragments[0].options.clear();
    fragments.iter().for_each(|fragment| receive(&e0, fragment));
    bed.run();
    assert_eq!(echoed(&e0), [data(65_507)]);
}

#[test]
fn a_sender_is_told_of_the_timeout_when_its_first_fragment_has_come() {
    let first = part(7, 0, 60, true);
    let later = part(7, 60, 62, true);
    for (fragments, told) in
        [(vec![first.clone()], true), (vec![later.clone(), first.clone()], true), (vec![later], false)]
    {
        let (mut bed, [e0, ..]) = Bed::with_three_ports();
        fragments.iter().for_each(|fragment| receive(&e0, fragment));
        bed.run();
        bed.advance(Duration::from_secs(29));
        assert_eq!(bed.held(), 1, "half a minute is not over");
        let moved = time_out(&mut bed, NODE, TIMEOUT);
        let sent = e0.sent();
        if told {
            assert_eq!(moved, error(NODE, "reassembly timeout, sender told", 1));
            assert_eq!(sent[0][34..36], [11, 1]);
            assert_eq!(sent[0][42..], first.bytes());
        } else {
            assert_eq!((moved, sent), (error(NODE, "fragments dropped due to reassembly timeout", 1), vec![]));
        }
    }
}

#[test]
fn one_source_pushes_out_its_own_oldest() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.know(&e0, "10.0.0.3");
    let others = cut(&Packet { source: ip("10.0.0.3"), ..request(1, 3000) }, 1500);
    receive(&e0, &others[0]);
    let moved = bed.errors_of(|_| (0..1000).for_each(|id| receive(&e0, &part(id, 1, 2, true))));
    assert_eq!(moved, error(NODE, "drops due to reassemblies limit of one source", 1000 - 64));
    assert_eq!(bed.held(), 65);
    // The oldest datagrams were discarded: this one is still pending.
    assert_eq!(
        of_node(NODE, bed.errors_of(|_| receive(&e0, &part(999, 1, 2, true)))),
        error(NODE, "duplicate fragments", 1)
    );
    others[1..].iter().for_each(|fragment| receive(&e0, fragment));
    bed.run();
    assert_eq!(echoed(&e0), [data(3000)]);
    assert_eq!(time_out(&mut bed, NODE, TIMEOUT), error(NODE, "fragments dropped due to reassembly timeout", 64));
}

#[test]
fn many_sources_push_out_the_oldest_of_all() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.route("10.0.0.0/16", &["10.0.0.2"]);
    let from = |n: u16| Packet { source: [10, 0, 7 + (n >> 8) as u8, n as u8].into(), ..part(1, 1, 2, true) };
    // 1024 datagrams take as many buffers: a quarter of the bed's.
    let moved = bed.errors_of(|_| (0..1500).for_each(|n| receive(&e0, &from(n))));
    assert_eq!(moved, error(NODE, "drops due to concurrent reassemblies limit", 1500 - 1024));
    // A datagram that is complete at once gets through.
    cut(&request(7, 8000), 1500).iter().for_each(|fragment| receive(&e0, fragment));
    bed.run();
    assert_eq!(echoed(&e0), [data(8000)]);
    time_out(&mut bed, NODE, TIMEOUT);
}

#[test]
fn buffers_are_shared_among_sources_too() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.route("10.0.0.0/16", &["10.0.0.2"]);
    bed.command("set ip4-full-reassembly max-buffers 400").unwrap();
    bed.run();
    // Almost whole datagrams of 32 buffers each: a source may have a hundred buffers.
    let long = |source: [u8; 4], id| cut(&Packet { source: source.into(), ..request(id, 65_507) }, 9000);
    let moved = bed.errors_of(|_| {
        for id in 0..6 {
            long([10, 0, 0, 2], id).iter().skip(1).for_each(|fragment| receive(&e0, fragment));
        }
    });
    assert_eq!(moved, error(NODE, "drops due to reassemblies limit of one source", 3));
    assert!(bed.buffers_in_use() <= 100);
    let moved = bed.errors_of(|_| {
        for n in 0..20 {
            long([10, 0, 9, n], 1).iter().skip(1).for_each(|fragment| receive(&e0, fragment));
        }
    });
    assert_eq!(
        moved.keys().collect::<Vec<_>>(),
        [&(NODE.to_string(), "drops due to concurrent reassemblies limit".to_string())]
    );
    assert!(bed.buffers_in_use() <= 400);
    time_out(&mut bed, NODE, TIMEOUT);
}

#[test]
fn a_datagram_of_too_many_fragments_is_discarded() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.command("set ip4-full-reassembly max-reassembly-length 3").unwrap();
    bed.run();
    let moved = bed.errors_of(|_| (0..5).for_each(|n| receive(&e0, &part(7, 2 * n, 2 * n + 1, true))));
    let mut expected = error(NODE, "fragment chain too long", 1);
    expected.extend(error(NODE, "fragment of a discarded datagram", 1));
    assert_eq!(moved, expected);
    bed.command("set ip4-full-reassembly default").unwrap();
    bed.run();
    assert!(time_out(&mut bed, NODE, TIMEOUT).is_empty());
}

#[test]
fn without_buffers_a_fragment_is_refused_and_the_datagram_stays() {
    let mut bed = Bed::with_buffers(1024);
    let e0 = bed.port("e0", &["10.0.0.1/24"]);
    bed.know(&e0, "10.0.0.2");
    let fragments = cut(&request(7, 2500), 1500);
    receive(&e0, &fragments[0]);
    bed.run();
    let mut all = vec![PacketIndex::NONE; 1024];
    let got = bed.worker.core().buffers.allocate(&mut all);
    assert_eq!(got, 1023);
    bed.worker.core().buffers.free(&all[..1]);
    let moved = bed.errors_of(|_| receive(&e0, &fragments[1]));
    assert_eq!(moved, error(NODE, "out of buffers", 1));
    bed.worker.core().buffers.free(&all[1..got]);
    receive(&e0, &fragments[1]);
    bed.run();
    assert_eq!(echoed(&e0), [data(2500)]);
}

#[test]
fn a_worker_that_ends_gives_back_what_it_holds() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    (0..10).for_each(|id| cut(&request(id, 9000), 1500).iter().skip(1).for_each(|fragment| receive(&e0, fragment)));
    bed.run();
    assert_eq!(bed.held(), 10);
    let node = bed.router.graph.find(NODE).unwrap();
    bed.router.graph.remove(node);
    bed.run();
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
}

#[test]
fn limits_are_configuration_and_shown() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.command("set ip4-full-reassembly timeout 5000 max-per-source 3").unwrap();
    let running = bed.command("show running-config").unwrap();
    assert!(running.contains("set ip4-full-reassembly timeout 5000 max-per-source 3\n"), "{running}");
    bed.run();
    (0..3).for_each(|id| receive(&e0, &part(id, 1, 3, true)));
    receive(&e0, &part(0, 2, 3, true));
    bed.run();
    let shown = bed.ask("show ip4-full-reassembly details").unwrap();
    assert!(shown.contains("count: 3, buffers: 2\n") && shown.contains("timeout: 5000ms"), "{shown}");
    assert!(shown.contains("10.0.0.2        10.0.0.1        0x0001 ICMP"), "{shown}");
    assert!(shown.contains("discarded"), "{shown}");
    bed.advance(Duration::from_secs(6));
    assert_eq!(bed.held(), 0);
    bed.command("set ip4-full-reassembly default").unwrap();
    assert!(!bed.command("show running-config").unwrap().contains("reassembly"));
}

/// The router at both ends: it fragments what it forwards. The test sends the fragments back, in any order and some of
/// them twice, and the router reassembles them.
#[test]
fn what_was_cut_is_whole_again() {
    for seed in 1..=60 {
        let random = &mut Random::new(seed);
        let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
        bed.router.set_mtu(e1.index, 68 + random.below(3000) as u16).unwrap();
        let length = [random.below(3000), random.below(65_480)][random.below(2)];
        // From one port to the other, so it is fragmented. The test then addresses the fragments to the router.
        let mut packet = Packet::echo_request("10.0.0.2", "10.0.1.2", &random.bytes(length)).id(seed as u16);
        packet.options = random.of(&[vec![], vec![1; 4], vec![148, 4, 0, 0, 68, 8, 5, 0, 0, 0, 0, 0]]).clone();
        for fragment in cut(&packet, 1500) {
            receive(&e0, &fragment);
        }
        bed.run();
        let mut fragments: Vec<Vec<u8>> = e1.sent();
        for n in (1..fragments.len()).rev() {
            fragments.swap(n, random.below(n + 1));
        }
        let mut twice = fragments.clone();
        twice.retain(|_| random.one_in(3));
        // A copy of the last fragment to arrive would start another datagram.
        let last = fragments.pop().expect("something was sent");
        twice.retain(|frame| *frame != last);
        for copy in twice {
            fragments.insert(random.below(fragments.len() + 1), copy);
        }
        fragments.push(last);
        bed.router.set_mtu(e0.index, 9216).unwrap();
        for mut frame in fragments {
            frame[..6].copy_from_slice(&e0.mac.0);
            frame[30..34].copy_from_slice(&[10, 0, 0, 1]);
            seal(&mut frame, 14);
            e0.receive(in_buffers(frame));
        }
        bed.run();
        assert_eq!(echoed(&e0), [packet.payload[8..].to_vec()], "seed {seed}");
        // Other packets overtake those with options, so a copy of the first fragment may come last.
        time_out(&mut bed, NODE, TIMEOUT);
    }
}

/// Random fragments: no panic, no leak, and memory stays within its limit.
#[test]
fn any_fragments_are_borne() {
    for seed in 1..=40 {
        let random = &mut Random::new(seed);
        let (mut bed, [e0, ..]) = Bed::with_three_ports();
        bed.command("set ip4-full-reassembly max-reassemblies 20 max-per-source 7 max-buffers 64").unwrap();
        bed.run();
        for _ in 0..40 {
            for _ in 0..random.below(60) {
                let source = format!("10.0.0.{}", 2 + random.below(4));
                let length = random.below(20) * 8 + random.below(2) * random.below(4000);
                let (flags, id) = ((random.next() as u16 & 1) << 13, random.below(5) as u16);
                let offset = if random.one_in(2) { random.below(30) } else { random.below(8192) } as u16;
                let packet =
                    Packet::new(&source, "10.0.0.1", ICMP, &random.bytes(length)).id(id).fragment(flags | offset);
                let mut frame = packet.frame(e0.mac, host_mac(packet.source));
                if random.one_in(10) {
                    let at = 14 + random.below(30).min(frame.len() - 15);
                    frame[at] ^= 1 << random.below(8);
                }
                e0.receive(in_buffers(frame));
            }
            bed.run();
            assert!(bed.buffers_in_use() <= 64 + 40, "held {} in {}", bed.held(), bed.buffers_in_use());
            if random.one_in(10) {
                bed.advance(Duration::from_secs(random.below(40) as u64));
            }
        }
        bed.advance(TIMEOUT * 3);
        (0..4).for_each(|_| bed.advance(Duration::from_millis(1001)));
        assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0), "seed {seed}");
    }
}

#[test]
fn congestion_marks_are_not_lost() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let whole = request(7, 2000);
    let mut fragments = cut(&whole, 1500);
    // The sender supports ECN (ECT(0)); the later fragment was marked for congestion.
    fragments[0].tos = 0xb8 | 2;
    fragments[1].tos = 0xb8 | 3;
    fragments.iter().for_each(|fragment| receive(&e0, fragment));
    assert_eq!(of_node(NODE, bed.errors_of(|_| {})), Errors::new());
    // The reply has the mark of the request.
    assert!(e0.sent().iter().all(|frame| frame[15] == 0xb8 | 3));
    // Fragments of a sender without ECN cannot be marked (RFC 3168 5.3).
    for order in [[0, 1], [1, 0]] {
        fragments[0].tos = 0;
        fragments.iter_mut().for_each(|fragment| fragment.id += 1);
        let moved = bed.errors_of(|_| order.iter().for_each(|n| receive(&e0, &fragments[*n])));
        assert_eq!(moved, error(NODE, "fragments disagree on congestion", 1));
        assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
    }
}

#[test]
fn a_datagram_of_which_a_part_was_for_all_is_not_answered() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    for for_all in [0, 1] {
        let fragments = cut(&request(7 + for_all as u16, 2000), 1500);
        for (n, fragment) in fragments.iter().enumerate() {
            let to = if n == for_all { wire::MacAddress::BROADCAST } else { e0.mac };
            e0.receive(fragment.frame(to, host_mac(fragment.source)));
        }
        bed.run();
        assert_eq!(e0.sent(), Vec::<Vec<u8>>::new());
    }
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
}
