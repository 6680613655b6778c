//! Fragments of IPv6 that the router makes: of what it sends itself, and of nothing else (RFC 8200 sections 4.5 and 5).

use crate::bed::error;
use crate::bed6::{OURS, STRANGER, bed, mac_of, told};
use crate::fragmentation::in_buffers;
use crate::packet6::*;
use crate::pieces::data;
use crate::reassembly6::{HOST, LONGEST, cut, echoed, echoed_from, receive, request, whole};
use graph::buffer::Offload;
use graph::flag;

/// A request that one frame holds is answered in one as long as the way takes it, else in fragments that every way
/// takes.
#[test]
fn answers_too_long_for_their_way_leave_in_fragments() {
    for (mtu, length, fragments) in [
        (1500, 1452, 0),
        (1500, 1453, 2),
        (1280, 1232, 0),
        (1280, 1233, 2),
        (1280, 2 * 1232 - 8, 2),
        (1280, 2 * 1232 - 7, 3),
        (9000, 8952, 0),
        (9000, 8953, 8),
        (1500, LONGEST - 14, 54),
    ] {
        let (mut bed, ports) = bed();
        bed.router.set_mtu(ports[0].index, mtu).unwrap();
        receive(&ports[0], &request(length));
        let moved = bed.errors_of(|_| {});
        let sent = ports[0].sent();
        assert_eq!(sent.len(), fragments.max(1), "{length} over {mtu}");
        assert!(sent.iter().all(|frame| frame.len() <= 14 + usize::from(mtu)));
        let [(id, message)] = &whole(&sent)[..] else { panic!("several packets") };
        assert_eq!((id.is_some(), &message[8..]), (fragments > 0, &data(length)[..]));
        let mut counted = error("ip6-icmp-input", "echo replies sent", 1);
        if fragments > 0 {
            counted.extend(error("ip6-frag", "packet fragmented", 1));
            counted.extend(error("ip6-frag", "number of sent fragments", fragments as u64));
        }
        assert_eq!(moved, counted, "{length} over {mtu}");
        assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
        // Each has another number.
        if let Some(id) = id {
            receive(&ports[0], &request(length));
            bed.run();
            assert_ne!(whole(&ports[0].sent())[0].0, Some(*id));
        }
    }
}

/// A host on the same machine left the checksum to its device: it is finished before the answer is cut.
#[test]
fn an_answer_that_is_to_be_finished_is_finished_first() {
    for (place, expected) in [(2, None), (4000, Some(error("ip6-frag", "malformed packet", 1)))] {
        let (mut bed, ports) = bed();
        let mut request = request(3000);
        // The sum of the pseudo header only.
        let mut pseudo = Packet6 { payload: Vec::new(), ..request.clone() };
        pseudo.payload = vec![0; request.payload.len()];
        let begun = !u16::from_be_bytes(*pseudo.sealed_at(2).payload[2..].first_chunk().unwrap());
        request.payload[2..4].copy_from_slice(&begun.to_be_bytes());
        let mut arrival = in_buffers(request.frame(ports[0].mac, mac_of(0)));
        arrival.flags = flag::PARTIAL_CHECKSUM;
        arrival.offload = Offload { checksum_start: 40, checksum_offset: place, ..Offload::default() };
        let mut moved = bed.errors_of(|_| ports[0].receive(arrival));
        moved.remove(&("ip6-icmp-input".to_string(), "echo replies sent".to_string()));
        match expected {
            None => assert_eq!(echoed(&ports[0]), [data(3000)]),
            Some(expected) => assert_eq!(moved, expected),
        }
        assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
    }
}

#[test]
fn packets_of_others_are_never_cut() {
    let (mut bed, ports) = bed();
    let packet = Packet6::udp(HOST, "2001:db8:1::2", &data(1500));
    bed.router.set_mtu(ports[1].index, 1400).unwrap();
    let (kind, code, mtu, _) = told(&mut bed, &ports, &packet);
    assert_eq!((kind, code, mtu), (2, 0, 1400));
    assert_eq!(ports[1].sent(), Vec::<Vec<u8>>::new());
    // Nor are they put together.
    let fragments = cut(&packet, 7, 800);
    fragments.iter().for_each(|fragment| receive(&ports[0], fragment));
    bed.run();
    let expected: Vec<Vec<u8>> =
        fragments.iter().map(|fragment| fragment.clone().hops(63).frame(mac_of(1), ports[1].mac)).collect();
    assert_eq!(ports[1].sent(), expected);
}

#[test]
fn a_long_answer_waits_whole_for_its_neighbour() {
    // On the link, and behind a router that is.
    for (asker, hop) in [("2001:db8::77", "2001:db8::77"), ("fe80::77", "fe80::77"), ("2001:db8:50::1", "2001:db8::77")]
    {
        let (mut bed, ports) = bed();
        bed.command("ip route add 2001:db8:50::/48 via 2001:db8::77").unwrap();
        bed.run();
        let us = if asker.starts_with("fe80") { "fe80::ff:fe00:1000" } else { OURS };
        let request = Packet6::echo_request(asker, us, &data(20_000));
        cut(&request, 7, 1448).iter().for_each(|part| ports[0].receive(part.frame(ports[0].mac, STRANGER)));
        bed.run();
        let sent = ports[0].sent();
        assert_eq!((sent.len(), sent[0][54], bed.held()), (1, 135, 1), "asked for");
        let says = [&ip6(hop).octets()[..], &link_option(2, STRANGER)].concat();
        let answer = Packet6::discovery(hop, us, 136, 0x6000_0000, &says);
        ports[0].receive(answer.frame(ports[0].mac, STRANGER));
        bed.run();
        assert_eq!(echoed_from(&ports[0], us, asker), [data(20_000)]);
        assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
    }
}
