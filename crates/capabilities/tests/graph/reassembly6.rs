//! Reassembly of IPv6 datagrams to the router, and fragmentation of the router's own.

use crate::bed::{Arrival, Errors, Port, error};
use crate::bed6::{OURS, STRANGER, bed, mac_of, padding, solicitation, told};
use crate::fragmentation::in_buffers;
use crate::packet::Random;
use crate::packet6::*;
use crate::pieces::{data, in_orders, of_node, time_out};
use graph::PacketIndex;
use router::neighbour::NeighbourKey;
use std::time::Duration;
use wire::MacAddress;

const NODE: &str = "ip6-local-full-reassembly";
const TIMEOUT: Duration = Duration::from_secs(61);
pub const HOST: &str = "2001:db8::2";
/// The data of the longest echo request: 65535 bytes less the IPv6 and ICMPv6 headers.
pub const LONGEST: usize = 65_535 - 40 - 8;

/// Counted by the tests below, for [`crate::drops`].
pub const NAMES: &[(&str, &str)] = &[
    (NODE, "overlapping fragments"),
    (NODE, "last fragments disagree"),
    (NODE, "fragments disagree on congestion"),
    (NODE, "fragment chain too long"),
    (NODE, "fragment of a discarded datagram"),
    (NODE, "reassembled datagram beyond 65535 bytes"),
    (NODE, "out of buffers"),
    (NODE, "drops due to concurrent reassemblies limit"),
    (NODE, "drops due to reassemblies limit of one source"),
    (NODE, "fragments dropped due to reassembly timeout"),
    (NODE, "successful reassemblies"),
    (NODE, "reassembly timeout, sender told"),
    (NODE, "fragment length is no multiple of 8"),
    (NODE, "fragment ends beyond 65535 bytes"),
    ("ip6-icmp-error", "ICMPv6 reassembly time exceeded sent"),
    ("ip6-frag", "packet fragmented"),
    ("ip6-frag", "number of sent fragments"),
    ("ip6-frag", "could not allocate buffer"),
    ("ip6-frag", "malformed packet"),
];

pub fn request(length: usize) -> Packet6 {
    Packet6::echo_request(HOST, OURS, &data(length))
}

/// A packet in fragments with `most` bytes of payload each, made as RFC 8200 section 4.5 says.
pub fn cut(packet: &Packet6, id: u32, most: usize) -> Vec<Packet6> {
    let parts: Vec<&[u8]> = packet.payload.chunks(most).collect();
    let fragment = |(n, part): (usize, &&[u8])| {
        let payload = part.to_vec();
        Packet6 { payload, ..packet.clone() }.fragment((n * most) as u16, n + 1 < parts.len(), id)
    };
    parts.iter().enumerate().map(fragment).collect()
}

/// A fragment with generated data, of a protocol that this router does not know. `from` and `to` are in units of eight
/// bytes.
fn part(id: u32, from: u16, to: u16, more: bool) -> Packet6 {
    let payload = (from * 8..to * 8).map(|n| n as u8).collect::<Vec<u8>>();
    Packet6::new(HOST, OURS, 99, &payload).fragment(from * 8, more, id)
}

pub fn receive(port: &Port, packet: &Packet6) {
    port.receive(in_buffers(packet.frame(port.mac, mac_of(0))));
}

/// Parses a packet that was sent whole, or all fragments of one, in order. Returns its identification and its payload.
pub fn whole(frames: &[Vec<u8>]) -> Vec<(Option<u32>, Vec<u8>)> {
    let mut packets: Vec<(Option<u32>, Vec<u8>)> = Vec::new();
    let mut is_open = false;
    for frame in frames {
        let ip = &frame[14..];
        let (length, next) = (u16::from_be_bytes([ip[4], ip[5]]) as usize, ip[6]);
        assert_eq!((frame[12], frame[13], ip.len()), (0x86, 0xdd, 40 + length));
        if next == ICMP6 {
            assert!(!is_open);
            packets.push((None, ip[40..].to_vec()));
            continue;
        }
        assert_eq!((next, ip[40], ip[41]), (FRAGMENT, ICMP6, 0));
        assert!(ip.len() <= 1280, "as every way takes");
        let word = u16::from_be_bytes([ip[42], ip[43]]);
        let (offset, more) = ((word & !7) as usize, word & 1 != 0);
        assert!(word & 6 == 0 && (!more || (length - 8).is_multiple_of(8)));
        let id = u32::from_be_bytes(*ip[44..].first_chunk().unwrap());
        if offset == 0 {
            assert!(!is_open && more, "the first fragment comes first and is not alone");
            packets.push((Some(id), Vec::new()));
        }
        let (known, packet) = packets.last_mut().expect("the first fragment comes first");
        assert_eq!((*known, packet.len()), (Some(id), offset));
        packet.extend(&ip[48..]);
        is_open = more;
    }
    assert!(!is_open);
    packets
}

/// The data of the echo replies that were sent to a host from an address.
pub fn echoed_from(port: &Port, us: &str, host: &str) -> Vec<Vec<u8>> {
    let packets = whole(&port.sent()).into_iter();
    let reply = |(_, message): (Option<u32>, Vec<u8>)| {
        assert_eq!(message[..2], [129, 0]);
        let sealed = Packet6::new(us, host, ICMP6, &message).sealed_at(2);
        assert_eq!(sealed.payload, message, "the checksum");
        message[8..].to_vec()
    };
    packets.map(reply).collect()
}

pub fn echoed(port: &Port) -> Vec<Vec<u8>> {
    echoed_from(port, OURS, HOST)
}

#[test]
fn fragments_in_any_order_are_one_datagram() {
    let (mut bed, ports) = bed();
    let e0 = &ports[0];
    for (length, most) in
        [(100, 8), (8000, 1448), (8000, 1232), (2040, 1448), (2041, 1448), (60_000, 1448), (LONGEST, 8000)]
    {
        let fragments = cut(&request(length), 7, most);
        for order in in_orders(&fragments) {
            let moved = bed.errors_of(|_| order.iter().for_each(|fragment| receive(e0, fragment)));
            assert_eq!(moved[&(NODE.to_string(), "successful reassemblies".to_string())], 1);
            assert_eq!(echoed(e0), [data(length)], "{length} in {most}");
            assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
        }
    }
}

#[test]
fn the_longest_datagram_in_small_fragments_is_put_together() {
    let (mut bed, ports) = bed();
    let fragments = cut(&request(LONGEST), 7, 48);
    assert_eq!(fragments.len(), 1365);
    for batch in fragments.chunks(200) {
        batch.iter().for_each(|fragment| receive(&ports[0], fragment));
        bed.run();
        assert!(bed.buffers_in_use() <= 32, "however small they are");
    }
    assert_eq!(echoed(&ports[0]), [data(LONGEST)]);
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn a_datagram_beyond_what_one_can_be_is_dropped() {
    let (mut bed, ports) = bed();
    let moved = bed.errors_of(|_| cut(&request(LONGEST + 1), 7, 8000).iter().for_each(|part| receive(&ports[0], part)));
    assert_eq!(moved, error(NODE, "reassembled datagram beyond 65535 bytes", 1));
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
}

/// RFC 8200 section 4.5: the headers are those of the first fragment, and its fragment header names what follows them.
#[test]
fn a_datagram_is_as_if_it_had_not_been_cut() {
    let plain = Packet6 { label: 0x12345, ..Packet6::new(HOST, OURS, 99, &data(700)) };
    let long = plain.clone().extension(HOP_BY_HOP, &padding(70)).extension(OPTIONS, &padding(6));
    for (datagram, pointer) in [(plain, 6), (long, 40 + 72)] {
        let (mut bed, ports) = bed();
        let mut fragments = cut(&datagram, 7, 256);
        fragments[0].hops = 60;
        // Later fragments may have other headers, and name another protocol.
        fragments[1].extensions.retain(|(kind, _)| *kind == FRAGMENT);
        fragments[1].next = 17;
        fragments[2].label = 1;
        for order in [[2, 1], [1, 2]] {
            order.iter().for_each(|n| receive(&ports[0], &fragments[*n]));
            bed.run();
            let (kind, code, at, quote) = {
                let first = fragments[0].clone();
                told(&mut bed, &ports, &first)
            };
            assert_eq!((kind, code, at), (4, 1, pointer));
            assert_eq!(quote, datagram.clone().hops(60).bytes());
        }
    }
}

#[test]
fn extension_headers_behind_the_fragment_header_are_judged_when_all_is_there() {
    let (mut bed, ports) = bed();
    // An unknown option in the datagram, checked once it is whole; and a 'discard' option in front, checked in each
    // fragment.
    let mut inner = [&[99, 0, 0x9e, 4, 0, 0, 0, 0][..], &data(700)].concat();
    let datagram = Packet6::new(HOST, OURS, OPTIONS, &inner);
    let fragments = cut(&datagram, 7, 400);
    receive(&ports[0], &fragments[0]);
    bed.run();
    assert_eq!((bed.held(), ports[0].sent()), (1, vec![]));
    let (kind, code, at, quote) = told(&mut bed, &ports, &fragments[1]);
    assert_eq!((kind, code, at), (4, 2, 42));
    assert_eq!(quote, datagram.bytes());
    let each = Packet6::new(HOST, OURS, 99, &data(8)).extension(HOP_BY_HOP, &[0x5e, 4, 0, 0, 0, 0]);
    let moved = bed.errors_of(|_| receive(&ports[0], &each.fragment(8, true, 8)));
    assert_eq!(moved, error("ip6-local", "ip6 option says discard", 1));
    // A routing header may follow the fragment header, too.
    inner[..8].copy_from_slice(&[99, 0, 4, 1, 0, 0, 0, 0]);
    let fragments = cut(&Packet6::new(HOST, OURS, ROUTING, &inner), 9, 400);
    receive(&ports[0], &fragments[1]);
    let (kind, code, at, _) = told(&mut bed, &ports, &fragments[0]);
    assert_eq!((kind, code, at), (4, 0, 42));
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
}

#[test]
fn what_belongs_to_different_datagrams_is_kept_apart() {
    let (mut bed, ports) = bed();
    // Another host, with the same address in another table.
    bed.command("ip6 table add 7").unwrap();
    let other = bed.port("e7", &[]);
    bed.command("set interface ip6 table e7 7").unwrap();
    bed.command("set interface ip address e7 2001:db8::1/64").unwrap();
    let key = NeighbourKey::new(other.index, ip6(HOST));
    bed.router.set_neighbour(key, mac_of(0), true).unwrap();
    let key = NeighbourKey::new(ports[0].index, ip6("2001:db8::3"));
    bed.router.set_neighbour(key, mac_of(0), true).unwrap();
    bed.run();
    drop((other.sent(), ports[0].sent()));
    let base = cut(&request(2000), 7, 1448);
    let fragments = [
        (&ports[0], base.clone()),
        (&ports[0], cut(&request(2000), 7 << 16 | 7, 1448)),
        (&ports[0], cut(&Packet6::echo_request("2001:db8::3", OURS, &data(2000)), 7, 1448)),
        (&ports[0], cut(&Packet6::echo_request(HOST, "2001:db8:1::1", &data(2000)), 7, 1448)),
        (&other, base),
    ];
    for n in 0..2 {
        fragments.iter().for_each(|(port, fragments)| receive(port, &fragments[n]));
        bed.run();
        assert_eq!(bed.held(), if n == 0 { 5 } else { 0 });
    }
    assert_eq!(echoed(&other), [data(2000)]);
    let packets = whole(&ports[0].sent());
    assert_eq!(packets.iter().map(|(_, message)| message[8..].to_vec()).collect::<Vec<_>>(), vec![data(2000); 4]);
}

#[test]
fn the_same_fragment_again_is_ignored() {
    let (mut bed, ports) = bed();
    let fragments = cut(&request(5000), 7, 1448);
    let moved = bed.errors_of(|_| {
        for n in [1, 1, 0, 3, 0, 3, 1, 2] {
            receive(&ports[0], &fragments[n]);
        }
    });
    assert_eq!(of_node(NODE, moved), error(NODE, "duplicate fragments", 4));
    assert_eq!(echoed(&ports[0]), [data(5000)]);
}

/// RFC 5722: no error is sent, and no data of the datagram is used.
#[test]
fn fragments_that_overlap_end_their_datagram_for_good() {
    let whole = || [part(7, 0, 100, true), part(7, 100, 200, true)];
    let mut other_bytes = part(7, 100, 200, true);
    other_bytes.payload[777] ^= 1;
    for liar in [
        part(7, 50, 150, true),
        part(7, 0, 50, true),
        part(7, 99, 101, true),
        part(7, 150, 201, true),
        other_bytes,
        part(7, 100, 200, false),
    ] {
        let (mut bed, ports) = bed();
        let moved = bed.errors_of(|_| {
            whole().iter().for_each(|fragment| receive(&ports[0], fragment));
            receive(&ports[0], &liar);
        });
        assert_eq!(moved, error(NODE, "overlapping fragments", 1));
        assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0), "its memory is given back at once");
        let moved = bed.errors_of(|_| {
            whole().iter().for_each(|fragment| receive(&ports[0], fragment));
            receive(&ports[0], &part(7, 200, 210, false));
        });
        assert_eq!(moved, error(NODE, "fragment of a discarded datagram", 3));
        // After the timeout another datagram may use its identification.
        assert!(time_out(&mut bed, NODE, TIMEOUT).is_empty());
        assert_eq!(ports[0].sent(), Vec::<Vec<u8>>::new());
        cut(&request(2000), 7, 1448).iter().for_each(|fragment| receive(&ports[0], fragment));
        bed.run();
        assert_eq!(echoed(&ports[0]), [data(2000)]);
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
        let (mut bed, ports) = bed();
        let moved = bed.errors_of(|_| fragments.iter().for_each(|fragment| receive(&ports[0], fragment)));
        assert_eq!(moved, error(NODE, "last fragments disagree", 1), "{fragments:?}");
        assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
    }
}

#[test]
fn refused_fragments_leave_their_datagram_as_it_is() {
    let (mut bed, ports) = bed();
    let fragments = cut(&request(2000), 7, 1448);
    receive(&ports[0], &fragments[0]);
    bed.run();
    let uneven = Packet6::new(HOST, OURS, ICMP6, &[0; 1001]).fragment(1448, true, 7);
    let beyond = Packet6::new(HOST, OURS, ICMP6, &[0; 16]).fragment(65_520, false, 7);
    let empty = Packet6::new(HOST, OURS, ICMP6, &[]).fragment(1448, true, 7);
    let tiny = Packet6::new(HOST, OURS, 6, &[0; 16]).fragment(0, true, 7);
    let moved = bed.errors_of(|_| [uneven, beyond, empty, tiny].iter().for_each(|part| receive(&ports[0], part)));
    let mut expected = error(NODE, "fragment length is no multiple of 8", 1);
    expected.extend(error(NODE, "fragment ends beyond 65535 bytes", 1));
    expected.extend(error(NODE, "malformed packets", 1));
    expected.extend(error("ip6-icmp-error", "ICMPv6 erroneous header field sent", 2));
    expected.extend(error("ip6-icmp-error", "ICMPv6 incomplete first fragment sent", 1));
    assert_eq!(moved, expected);
    assert_eq!(ports[0].sent().len(), 3);
    receive(&ports[0], &fragments[1]);
    bed.run();
    assert_eq!(echoed(&ports[0]), [data(2000)]);
}

/// RFC 6946: an atomic fragment has nothing to do with other fragments of its identification.
#[test]
fn an_atomic_fragment_stands_by_itself() {
    let (mut bed, ports) = bed();
    let fragments = cut(&request(2000), 7, 1448);
    receive(&ports[0], &fragments[0]);
    receive(&ports[0], &request(50).fragment(0, false, 7));
    bed.run();
    assert_eq!((echoed(&ports[0]), bed.held()), (vec![data(50)], 1));
    receive(&ports[0], &fragments[1]);
    bed.run();
    assert_eq!(echoed(&ports[0]), [data(2000)]);
}

/// RFC 6980 section 5: not even when it is reassembled.
#[test]
fn neighbor_discovery_in_fragments_is_refused() {
    let (mut bed, ports) = bed();
    let asks = solicitation("2001:db8::9", OURS, &link_option(1, STRANGER));
    let fragments = cut(&asks, 7, 16);
    assert_eq!(fragments.len(), 2);
    for order in [[0, 1], [1, 0]] {
        let moved =
            bed.errors_of(|_| order.iter().for_each(|n| ports[0].receive(fragments[*n].frame(ports[0].mac, STRANGER))));
        let mut expected = error("icmp6-neighbor-discovery", "neighbor discovery in a fragment", 1);
        expected.extend(error(NODE, "successful reassemblies", 1));
        assert_eq!(moved, expected);
    }
    assert_eq!(ports[0].sent(), Vec::<Vec<u8>>::new());
    let key = NeighbourKey::new(ports[0].index, ip6("2001:db8::9"));
    assert_eq!(bed.router.neighbours.mac_of(&key), None);
}

#[test]
fn a_sender_is_told_of_the_timeout_when_its_first_fragment_has_come() {
    let first = part(7, 0, 60, true);
    let wrapped = {
        let mut wrapped = first.clone();
        wrapped.extensions.insert(0, (HOP_BY_HOP, [&[0, 0][..], &padding(6)].concat()));
        wrapped
    };
    let later = part(7, 60, 62, true);
    let cases = [
        (vec![first.clone()], Some(first.clone())),
        (vec![later.clone(), first.clone()], Some(first)),
        (vec![wrapped.clone(), later.clone()], Some(wrapped)),
        (vec![later], None),
    ];
    for (fragments, told) in cases {
        let (mut bed, ports) = bed();
        fragments.iter().for_each(|fragment| receive(&ports[0], fragment));
        bed.run();
        bed.advance(Duration::from_secs(59));
        assert_eq!(bed.held(), 1, "a minute is not over");
        let moved = time_out(&mut bed, NODE, TIMEOUT);
        let sent = ports[0].sent();
        match told {
            Some(first) => {
                assert_eq!(moved, error(NODE, "reassembly timeout, sender told", 1));
                assert_eq!(sent[0][54..56], [3, 1]);
                assert_eq!(sent[0][62..], first.bytes(), "as it came");
                let message = Packet6::new(OURS, HOST, ICMP6, &sent[0][54..]);
                assert_eq!(message.clone().sealed_at(2).payload, message.payload);
            }
            None => {
                assert_eq!((moved, sent), (error(NODE, "fragments dropped due to reassembly timeout", 1), vec![]));
            }
        }
    }
}

/// A fragment from this source.
fn from(source: &str, id: u32) -> Packet6 {
    Packet6 { source: ip6(source), ..part(id, 1, 2, true) }
}

#[test]
fn one_network_pushes_out_its_own_oldest() {
    let (mut bed, ports) = bed();
    bed.command("ip route add 2001:db8:40::/48 via 2001:db8::2 e0").unwrap();
    bed.run();
    let other = "2001:db8:40:1::1";
    let others = cut(&Packet6::echo_request(other, OURS, &data(3000)), 1, 1448);
    receive(&ports[0], &others[0]);
    // Even when the source uses many addresses of its network.
    let moved = bed.errors_of(|_| {
        (0..1000).for_each(|id| receive(&ports[0], &from(&format!("2001:db8:40::{:x}", id % 500), id)));
    });
    assert_eq!(moved, error(NODE, "drops due to reassemblies limit of one source", 1000 - 64));
    assert_eq!(bed.held(), 65);
    // The oldest datagrams were discarded: this one is still pending.
    let again = from(&format!("2001:db8:40::{:x}", 499), 999);
    assert_eq!(of_node(NODE, bed.errors_of(|_| receive(&ports[0], &again))), error(NODE, "duplicate fragments", 1));
    others[1..].iter().for_each(|fragment| receive(&ports[0], fragment));
    bed.run();
    assert_eq!(echoed_from(&ports[0], OURS, other), [data(3000)]);
    assert_eq!(time_out(&mut bed, NODE, TIMEOUT), error(NODE, "fragments dropped due to reassembly timeout", 64));
}

#[test]
fn many_networks_push_out_the_oldest_of_all() {
    let (mut bed, ports) = bed();
    bed.command("ip route add 2001:db8:40::/48 via 2001:db8::2 e0").unwrap();
    bed.run();
    // 1024 datagrams take as many buffers: a quarter of the bed's.
    let moved = bed.errors_of(|_| {
        (0..1500).for_each(|n: u32| receive(&ports[0], &from(&format!("2001:db8:40:{n:x}::1"), 1)));
    });
    assert_eq!(moved, error(NODE, "drops due to concurrent reassemblies limit", 1500 - 1024));
    // A datagram that is complete at once gets through. IPv4 has its own limit.
    cut(&request(8000), 7, 1448).iter().for_each(|fragment| receive(&ports[0], fragment));
    bed.run();
    assert_eq!(echoed(&ports[0]), [data(8000)]);
    time_out(&mut bed, NODE, TIMEOUT);
}

#[test]
fn buffers_are_shared_among_sources_too() {
    let (mut bed, ports) = bed();
    bed.command("ip route add 2001:db8:40::/48 via 2001:db8::2 e0").unwrap();
    bed.command("set ip6-full-reassembly max-buffers 400").unwrap();
    bed.run();
    // Almost whole datagrams of 32 buffers each: a source may have a hundred buffers.
    let long = |source: &str, id| cut(&Packet6::echo_request(source, OURS, &data(LONGEST)), id, 8000);
    let moved = bed.errors_of(|_| {
        (0..6).for_each(|id| long("2001:db8:40::1", id).iter().skip(1).for_each(|part| receive(&ports[0], part)));
    });
    assert_eq!(moved, error(NODE, "drops due to reassemblies limit of one source", 3));
    assert!(bed.buffers_in_use() <= 100);
    let moved = bed.errors_of(|_| {
        for n in 0..20 {
            long(&format!("2001:db8:40:{}::1", n + 1), 1).iter().skip(1).for_each(|part| receive(&ports[0], part));
        }
    });
    let limited = (NODE.to_string(), "drops due to concurrent reassemblies limit".to_string());
    assert_eq!(moved.keys().collect::<Vec<_>>(), [&limited]);
    assert!(bed.buffers_in_use() <= 400);
    time_out(&mut bed, NODE, TIMEOUT);
}

#[test]
fn a_datagram_of_too_many_fragments_is_discarded() {
    let (mut bed, ports) = bed();
    bed.command("set ip6-full-reassembly max-reassembly-length 3").unwrap();
    bed.run();
    let moved = bed.errors_of(|_| (0..5).for_each(|n| receive(&ports[0], &part(7, 2 * n, 2 * n + 1, true))));
    let mut expected = error(NODE, "fragment chain too long", 1);
    expected.extend(error(NODE, "fragment of a discarded datagram", 1));
    assert_eq!(moved, expected);
    assert!(time_out(&mut bed, NODE, TIMEOUT).is_empty());
}

#[test]
fn without_buffers_a_fragment_is_refused_and_nothing_is_cut() {
    let (mut bed, ports) = bed();
    let fragments = cut(&request(2500), 7, 1448);
    receive(&ports[0], &fragments[0]);
    bed.run();
    let mut all = vec![PacketIndex::NONE; 1 << 16];
    let got = bed.worker.core().buffers.allocate(&mut all);
    // One free buffer: enough to receive the fragment, not to keep its data.
    bed.worker.core().buffers.free(&all[..1]);
    let moved = bed.errors_of(|_| receive(&ports[0], &fragments[1]));
    assert_eq!(moved, error(NODE, "out of buffers", 1));
    assert_eq!(bed.worker.core().buffers.allocate(&mut all[..1]), 1);
    // Two free buffers: the datagram is reassembled and answered, but there are none for the fragments of the answer.
    bed.worker.core().buffers.free(&all[..2]);
    let mut expected = error(NODE, "successful reassemblies", 1);
    expected.extend(error("ip6-icmp-input", "echo replies sent", 1));
    expected.extend(error("ip6-frag", "could not allocate buffer", 1));
    assert_eq!(bed.errors_of(|_| receive(&ports[0], &fragments[1])), expected);
    bed.worker.core().buffers.free(&all[2..got]);
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
}

#[test]
fn a_worker_that_ends_gives_back_what_it_holds() {
    let (mut bed, ports) = bed();
    (0..10).for_each(|id| cut(&request(9000), id, 1448).iter().skip(1).for_each(|part| receive(&ports[0], part)));
    bed.run();
    assert_eq!(bed.held(), 10);
    let node = bed.router.graph.find(NODE).unwrap();
    bed.router.graph.remove(node);
    bed.run();
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
}

#[test]
fn limits_are_configuration_and_shown() {
    let (mut bed, ports) = bed();
    bed.command("set ip6-full-reassembly timeout 5000 max-per-source 3").unwrap();
    let running = bed.command("show running-config").unwrap();
    assert!(running.contains("set ip6-full-reassembly timeout 5000 max-per-source 3\n"), "{running}");
    assert!(!running.contains("ip4-full"), "{running}");
    bed.run();
    (0..3).for_each(|id| receive(&ports[0], &part(id, 1, 3, true)));
    receive(&ports[0], &part(0, 2, 3, true));
    bed.run();
    let shown = bed.ask("show ip6-full-reassembly details").unwrap();
    assert!(shown.contains("IP6 reassemblies count: 3, buffers: 2\n") && shown.contains("timeout: 5000ms"), "{shown}");
    assert!(shown.contains("2001:db8::2              2001:db8::1              0x00000001"), "{shown}");
    assert!(shown.contains("discarded"), "{shown}");
    let of4 = bed.ask("show ip4-full-reassembly").unwrap();
    assert!(of4.contains("IP4 reassemblies count: 0,") && of4.contains("timeout: 30000ms"), "{of4}");
    bed.advance(Duration::from_secs(6));
    assert_eq!(bed.held(), 0);
    bed.command("set ip6-full-reassembly default").unwrap();
    assert!(!bed.command("show running-config").unwrap().contains("reassembly"));
    let shown = bed.ask("show ip6-full-reassembly").unwrap();
    assert!(shown.contains("timeout: 60000ms"), "{shown}");
}

#[test]
fn congestion_marks_are_not_lost() {
    let (mut bed, ports) = bed();
    let class = |class: u32| class << 20;
    let mut fragments = cut(&request(2000), 7, 1448);
    // The sender supports ECN (ECT(0)); the later fragment was marked for congestion.
    fragments[0].label = class(0xb8 | 2);
    fragments[1].label = class(0xb8 | 3);
    fragments.iter().for_each(|fragment| receive(&ports[0], fragment));
    assert_eq!(of_node(NODE, bed.errors_of(|_| {})), Errors::new());
    // The reply has the mark of the request.
    let sent = ports[0].sent();
    assert!(sent.len() == 2 && sent.iter().all(|frame| frame[14..16] == [0x6b, 0xb0]), "{sent:x?}");
    // Fragments of a sender without ECN cannot be marked (RFC 3168 5.3).
    for (id, order) in [(8, [0, 1]), (9, [1, 0])] {
        let mut fragments = cut(&request(2000), id, 1448);
        fragments[1].label = class(3);
        let moved = bed.errors_of(|_| order.iter().for_each(|n| receive(&ports[0], &fragments[*n])));
        assert_eq!(moved, error(NODE, "fragments disagree on congestion", 1));
        assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
    }
}

#[test]
fn a_datagram_of_which_a_part_was_for_all_is_not_answered() {
    let (mut bed, ports) = bed();
    let datagram = Packet6::udp(HOST, OURS, &data(2000));
    for for_all in [0, 1] {
        for (n, fragment) in cut(&datagram, for_all as u32, 1448).iter().enumerate() {
            let to = if n == for_all { MacAddress([0x33, 0x33, 0, 0, 0, 1]) } else { ports[0].mac };
            ports[0].receive(fragment.frame(to, mac_of(0)));
        }
        let moved = bed.errors_of(|_| {});
        let silent = ("ip6-icmp-error".to_string(), "no ICMPv6 error about a group-addressed packet".to_string());
        assert_eq!(moved.get(&silent), Some(&1), "{moved:?}");
        assert_eq!(ports[0].sent(), Vec::<Vec<u8>>::new());
    }
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
}

/// Random fragments: no panic, no leak, and memory stays within its limit.
#[test]
fn any_fragments_are_borne() {
    for seed in 1..=40 {
        let random = &mut Random::new(seed);
        let (mut bed, ports) = bed();
        bed.command("set ip6-full-reassembly max-reassemblies 20 max-per-source 7 max-buffers 64").unwrap();
        bed.command("ip route add 2001:db8:40::/48 via 2001:db8::2 e0").unwrap();
        bed.run();
        for _ in 0..40 {
            for _ in 0..random.below(60) {
                let source = format!("2001:db8:40:{}::{}", random.below(3), random.below(3));
                let length = random.below(20) * 8 + random.below(2) * random.below(4000);
                let kind = *random.of(&[ICMP6, 17, 6, 99, OPTIONS, FRAGMENT, ROUTING]);
                let offset = if random.one_in(2) { random.below(30) } else { random.below(8192) } as u16 * 8;
                let destination = *random.of(&[OURS, "ff02::1"]);
                let mut packet = Packet6::new(&source, destination, kind, &random.bytes(length));
                if random.one_in(5) {
                    let length = *random.of(&[6, 14, 78, 86]);
                    packet = packet.extension(*random.of(&[HOP_BY_HOP, OPTIONS]), &padding(length));
                }
                packet = packet.fragment(offset, random.one_in(2), random.below(5) as u32);
                let mut frame = packet.frame(ports[0].mac, mac_of(0));
                if random.one_in(10) {
                    let at = 14 + random.below(60).min(frame.len() - 15);
                    frame[at] ^= 1 << random.below(8);
                }
                ports[0].receive(in_buffers(frame));
            }
            // Among them, a whole datagram.
            let data = random.bytes(3000);
            let request = Packet6::echo_request("2001:db8:1::2", OURS, &data);
            for fragment in cut(&request, random.next() as u32, 1448) {
                ports[1].receive(in_buffers(fragment.frame(ports[1].mac, mac_of(1))));
            }
            bed.run();
            assert_eq!(echoed_from(&ports[1], OURS, "2001:db8:1::2"), [data]);
            assert!(bed.buffers_in_use() <= 64 + 40, "held {} in {}", bed.held(), bed.buffers_in_use());
            if random.one_in(10) {
                bed.advance(Duration::from_secs(random.below(70) as u64));
            }
        }
        bed.advance(TIMEOUT * 3);
        (0..4).for_each(|_| bed.advance(Duration::from_millis(1001)));
        assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0), "seed {seed}");
        let panics = bed.errors().into_iter().filter(|((node, _), _)| node == "dispatcher").count();
        assert_eq!(panics, 0);
    }
}

#[test]
fn a_first_fragment_in_several_buffers_is_taken_in() {
    let (mut bed, ports) = bed();
    for fragment in cut(&request(3000), 7, 1448) {
        let frame = fragment.frame(ports[0].mac, mac_of(0));
        let rest = frame.len() - 100 - 50;
        ports[0].receive(Arrival::from(frame).in_parts(&[100, 50, rest]));
    }
    bed.run();
    assert_eq!(echoed(&ports[0]), [data(3000)]);
}
