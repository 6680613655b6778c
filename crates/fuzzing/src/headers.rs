//! Every view of a header over any bytes: what a checked view hands out must not panic, what
//! is written must read back, and headers print as text however short they are.

use std::hint::black_box;
use wire::arp::Arp;
use wire::dhcp::Message;
use wire::ethernet::EtherType;
use wire::flow::FlowHasher;
use wire::pretty::Summary;
use wire::vlan::Tag;
use wire::{checksum, ethernet, icmpv4, icmpv6, ipv4, ipv6, mld, mpls, nd, tcp, udp};

pub fn run(bytes: &[u8]) {
    for summary in [Summary::ethernet(bytes), Summary::arp(bytes), Summary::ipv4(bytes)] {
        black_box(summary.indented(4).to_string());
    }
    flow(bytes);
    arp(bytes);
    dhcp(bytes);
    ip4(bytes);
    ip6(bytes);
    labels(bytes);
    if let Ok(frame) = ethernet::Header::new_checked(bytes) {
        black_box(format!("{} {} {}", frame.dst(), frame.src(), frame.ethertype()));
        let mut at = ethernet::HEADER_LEN;
        let mut kind = frame.ethertype();
        while let Some(tag) = bytes.get(at - 2..).and_then(Tag::parse) {
            black_box((tag.vid(), tag.priority(), tag.is_drop_eligible()));
            at += wire::vlan::TAG_LEN;
            kind = EtherType(bytes.get(at - 2..at).map_or(0, |kind| u16::from_be_bytes([kind[0], kind[1]])));
        }
        let payload = bytes.get(at..).unwrap_or_default();
        match kind {
            EtherType::ARP => arp(payload),
            EtherType::IPV4 => ip4(payload),
            EtherType::IPV6 => ip6(payload),
            EtherType::MPLS => labels(payload),
            _ => {}
        }
    }
}

fn flow(bytes: &[u8]) {
    for hasher in [FlowHasher::new(1, false), FlowHasher::new(1, true)] {
        let hash = black_box(hasher.of_frame(bytes));
        if bytes.len() >= ethernet::HEADER_LEN && Tag::parse(&bytes[12..]).is_none() {
            let tagged = [&bytes[..12], &[0x81, 0, 0, 5], &bytes[12..]].concat();
            assert_eq!(hasher.of_frame(&tagged), hash, "a tag parts no flow");
        }
    }
}

fn labels(bytes: &[u8]) {
    let stack: Vec<mpls::StackEntry> = mpls::Stack::new(bytes).collect();
    assert!(stack.len() * mpls::ENTRY_LEN <= bytes.len(), "each entry takes its own bytes");
    for (entry, place) in stack.iter().zip(bytes.chunks_exact(mpls::ENTRY_LEN)) {
        assert_eq!(entry.to_bytes(), place);
        let again = mpls::StackEntry::new(entry.label(), entry.traffic_class(), entry.is_bottom(), entry.ttl());
        assert_eq!((again, again.to_string().is_empty()), (*entry, false), "an entry reads back as it was");
    }
    let payload = mpls::Stack::new(bytes).payload(stack.len());
    assert_eq!(
        payload.map(<[u8]>::len),
        stack.last().filter(|last| last.is_bottom()).map(|_| bytes.len() - 4 * stack.len())
    );
    if let Some(told) = mpls::parse_extension(bytes) {
        let told: Vec<mpls::StackEntry> = told.collect();
        let mut room = vec![0; mpls::EXTENSION_LEN + told.len() * mpls::ENTRY_LEN];
        let length = mpls::emit_extension(&mut room, &told);
        let again = mpls::parse_extension(&room[..length]).expect("what was written reads back");
        assert!(again.eq(told));
    }
}

fn arp(bytes: &[u8]) {
    let Ok(message) = Arp::parse(bytes) else { return };
    let mut again = [0; wire::arp::LEN];
    message.emit(&mut again);
    assert_eq!(again, bytes[..again.len()], "an ARP message reads back as it was");
}

fn dhcp(bytes: &[u8]) {
    let joined = wire::dhcp::join(bytes);
    let Ok(message) = Message::parse(&joined) else { return };
    black_box((message.name_servers().count(), message.routers().count()));
    let mut again = [0; wire::dhcp::MAX_LEN];
    let length = message.emit(&mut again);
    let known = |message: Message<'_>| (message.kind, message.transaction, message.yours, message.server, message.mask);
    assert_eq!(Message::parse(&again[..length]).map(known), Ok(known(message)), "a DHCP message reads back as it was");
}

fn ip4(bytes: &[u8]) {
    let Ok(header) = ipv4::Header::new_checked(bytes) else { return };
    assert!(header.header_bytes().len() + header.payload().len() <= bytes.len());
    black_box((header.ecn(), header.id(), header.dont_fragment(), header.ttl(), header.verify_checksum()));
    let options: usize = header.options().map(|option| format!("{option:?}").len().min(1)).sum();
    assert!(options <= header.option_bytes().len(), "each option takes a byte at least");
    let mut copy = bytes.to_vec();
    let mut whole = ipv4::Header::new_checked(&mut copy[..]).expect("the same bytes");
    whole.fill_checksum();
    assert!(whole.verify_checksum(), "a checksum that was made is right");
    if whole.ttl() > 0 {
        whole.decrement_ttl();
        assert!(whole.verify_checksum(), "and stays right when the TTL goes down");
    }
    let (src, dst, length) = (header.src(), header.dst(), header.payload().len() as u16);
    let pseudo = checksum::pseudo_header4(src, dst, header.protocol().0, length);
    transport(header.payload(), pseudo);
}

fn ip6(bytes: &[u8]) {
    black_box(ipv6::options(bytes));
    let Ok(header) = ipv6::Header::new_checked(bytes) else { return };
    let repr = ipv6::Repr {
        src: header.src(),
        dst: header.dst(),
        traffic_class: header.traffic_class(),
        flow_label: header.flow_label(),
        next_header: header.next_header(),
        hop_limit: header.hop_limit(),
        payload_len: header.payload_len(),
    };
    let mut again = [0; ipv6::HEADER_LEN];
    repr.emit(&mut again);
    assert_eq!(again, bytes[..again.len()], "a header reads back as it was");
    black_box((ipv6::scope(header.src()), ipv6::scope(header.dst())));
    match header.chain() {
        Ok(chain) => {
            assert!(chain.payload <= header.payload().len());
            assert!(chain.own_end() <= chain.payload);
            assert!(chain.routing.is_none_or(|(at, _)| at < chain.payload));
            assert!(chain.fragment.is_none_or(|header| header.at + ipv6::FRAGMENT_HEADER_LEN <= chain.payload));
            icmp6(&header.payload()[chain.payload..], &header);
        }
        Err(error) => drop(black_box(error.to_string())),
    }
}

fn icmp6(bytes: &[u8], ip: &ipv6::Header<&[u8]>) {
    let mut copy = bytes.to_vec();
    let Ok(mut packet) = icmpv6::Header::new_checked(&mut copy[..]) else { return };
    black_box((format!("{:?}", packet.message()), packet.kind().to_string(), packet.kind().code_name(packet.code())));
    packet.fill_checksum(ip.src(), ip.dst());
    assert!(packet.verify_checksum(ip.src(), ip.dst()));
    if let Some(Ok(mld::Listening::Records(records))) = mld::Listening::parse(bytes) {
        let all: Vec<_> = records.map(|record| (record.kind, record.group)).collect();
        assert!(all.len() * mld::RECORD_LEN <= bytes.len(), "each record takes its own bytes");
        let mut again = vec![0; bytes.len()];
        let length = mld::emit_report(&mut again, &all);
        let Some(Ok(mld::Listening::Records(read))) = mld::Listening::parse(&again[..length]) else {
            panic!("a report reads back as one");
        };
        assert!(read.map(|record| (record.kind, record.group)).eq(all), "with the same records");
    } else {
        black_box(mld::Listening::parse(bytes).is_some());
    }
    if let Some(Ok(nd::Discovery::RouterAdvertisement(_, options))) = nd::Discovery::parse(bytes) {
        let mut room = [0; 2040];
        for option in options.iter() {
            assert_eq!(option.emit(&mut room), option.len());
        }
    }
}

fn transport(bytes: &[u8], pseudo: u32) {
    let mut copy = bytes.to_vec();
    if let Ok(mut segment) = tcp::Header::new_checked(&mut copy[..]) {
        black_box((segment.flags().to_string(), segment.option_bytes().len(), segment.payload().len()));
        segment.fill_checksum(pseudo);
        assert!(segment.verify_checksum(pseudo));
    }
    let mut copy = bytes.to_vec();
    if let Ok(mut datagram) = udp::Header::new_checked(&mut copy[..]) {
        datagram.fill_checksum(pseudo);
        assert!(datagram.verify_checksum(pseudo));
    }
    let mut copy = bytes.to_vec();
    if let Ok(mut packet) = icmpv4::Header::new_checked(&mut copy[..]) {
        let message = packet.message();
        black_box((format!("{message:?}"), packet.kind().to_string(), packet.kind().code_name(packet.code())));
        let (kind, code, rest) = message.into_parts();
        assert_eq!((kind, code), (packet.kind(), packet.code()));
        black_box(rest);
        packet.fill_checksum();
        assert!(packet.verify_checksum());
    }
}
