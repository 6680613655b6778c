//! Our parsers against those of the etherparse crate: what it builds we read field by field,
//! and of bytes that are almost right we refuse the same.

use etherparse as oracle;
use proptest::prelude::*;
use quiver_wire::arp::{self, Arp};
use quiver_wire::checksum::pseudo_header4;
use quiver_wire::tcp::Flags;
use quiver_wire::{Ipv4Address, MacAddress, ethernet, icmp, icmpv4, ipv4, tcp, udp};

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..100)
}

/// Options of IPv4 and TCP alike: up to ten words of any bytes.
fn options() -> impl Strategy<Value = Vec<u8>> {
    (0usize..=10).prop_flat_map(|words| prop::collection::vec(any::<u8>(), words * 4))
}

prop_compose! {
    fn ipv4_header()(
        source: [u8; 4],
        destination: [u8; 4],
        tos: u8,
        identification: u16,
        (dont_fragment, more_fragments) in any::<(bool, bool)>(),
        offset in 0u16..0x2000,
        (time_to_live, protocol) in any::<(u8, u8)>(),
        options in options(),
    ) -> oracle::Ipv4Header {
        oracle::Ipv4Header {
            dscp: oracle::IpDscp::try_new(tos >> 2).unwrap(),
            ecn: oracle::IpEcn::try_new(tos & 3).unwrap(),
            identification,
            dont_fragment,
            more_fragments,
            fragment_offset: oracle::IpFragOffset::try_new(offset).unwrap(),
            time_to_live,
            protocol: protocol.into(),
            source,
            destination,
            options: options[..].try_into().unwrap(),
            ..Default::default()
        }
    }
}

prop_compose! {
    fn tcp_header()(
        (source_port, destination_port, window_size, urgent_pointer) in any::<(u16, u16, u16, u16)>(),
        (sequence_number, acknowledgment_number) in any::<(u32, u32)>(),
        (ns, flags) in any::<(bool, u8)>(),
        options in options(),
    ) -> oracle::TcpHeader {
        let flag = |flag: Flags| Flags(flags).contains(flag);
        let mut header = oracle::TcpHeader {
            source_port,
            destination_port,
            sequence_number,
            acknowledgment_number,
            ns,
            fin: flag(Flags::FIN),
            syn: flag(Flags::SYN),
            rst: flag(Flags::RST),
            psh: flag(Flags::PSH),
            ack: flag(Flags::ACK),
            urg: flag(Flags::URG),
            ece: flag(Flags::ECE),
            cwr: flag(Flags::CWR),
            window_size,
            checksum: 0,
            urgent_pointer,
            options: Default::default(),
        };
        header.set_options_raw(&options).unwrap();
        header
    }
}

/// Bytes in which a few were overwritten, possibly cut short.
fn damaged(bytes: impl Strategy<Value = Vec<u8>>, header_len: usize) -> impl Strategy<Value = Vec<u8>> {
    let change = (0..header_len, any::<u8>());
    (bytes, prop::collection::vec(change, 0..3), any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(mut bytes, changes, cut, keep)| {
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            let cut = cut.index(bytes.len() + 1);
            bytes.truncate(if keep { bytes.len() } else { cut });
            bytes
        },
    )
}

fn ipv4_packet() -> impl Strategy<Value = Vec<u8>> {
    (ipv4_header(), payload()).prop_map(|(mut header, payload)| {
        header.set_payload_len(payload.len()).unwrap();
        header.header_checksum = header.calc_header_checksum();
        [header.to_bytes().as_slice(), &payload].concat()
    })
}

proptest! {
    #[test]
    fn ethernet_fields_agree(destination: [u8; 6], source: [u8; 6], ether_type: u16, payload in payload()) {
        let built = oracle::Ethernet2Header { source, destination, ether_type: ether_type.into() };
        let bytes = [&built.to_bytes()[..], &payload].concat();
        let header = ethernet::Header::new_checked(&bytes[..]).unwrap();
        prop_assert_eq!(header.dst(), MacAddress(destination));
        prop_assert_eq!(header.src(), MacAddress(source));
        prop_assert_eq!(header.ethertype().0, ether_type);
        prop_assert_eq!(header.payload(), &payload[..]);

        let mut emitted = [0; ethernet::HEADER_LEN];
        ethernet::emit(&mut emitted, header.dst(), header.src(), header.ethertype());
        prop_assert_eq!(emitted, built.to_bytes());
    }

    #[test]
    fn arp_fields_agree(operation: u16, macs: [[u8; 6]; 2], ips: [[u8; 4]; 2]) {
        let built = oracle::ArpEthIpv4Packet {
            operation: oracle::ArpOperation(operation),
            sender_mac: macs[0],
            sender_ipv4: ips[0],
            target_mac: macs[1],
            target_ipv4: ips[1],
        };
        let arp = Arp::parse(&built.to_bytes()).unwrap();
        prop_assert_eq!(arp, Arp {
            operation: operation.into(),
            sender_mac: MacAddress(macs[0]),
            sender_ip: ips[0].into(),
            target_mac: MacAddress(macs[1]),
            target_ip: ips[1].into(),
        });
        let mut emitted = [0; arp::LEN];
        arp.emit(&mut emitted);
        prop_assert_eq!(emitted, built.to_bytes());
    }

    #[test]
    fn ipv4_fields_agree(mut built in ipv4_header(), payload in payload(), padding in 0usize..20) {
        built.set_payload_len(payload.len()).unwrap();
        built.header_checksum = built.calc_header_checksum();
        let bytes = [built.to_bytes().as_slice(), &payload, &vec![0; padding]].concat();

        let header = ipv4::Header::new_checked(&bytes[..]).unwrap();
        prop_assert!(header.verify_checksum());
        prop_assert_eq!(header.header_len(), built.header_len());
        prop_assert_eq!(header.dscp(), built.dscp.value());
        prop_assert_eq!(header.ecn(), built.ecn.value());
        prop_assert_eq!(header.total_len(), built.total_len);
        prop_assert_eq!(header.id(), built.identification);
        prop_assert_eq!(header.dont_fragment(), built.dont_fragment);
        prop_assert_eq!(header.more_fragments(), built.more_fragments);
        prop_assert_eq!(header.fragment_offset(), built.fragment_offset.value() * 8);
        prop_assert_eq!(header.is_fragment(), built.is_fragmenting_payload());
        prop_assert_eq!(header.ttl(), built.time_to_live);
        prop_assert_eq!(header.protocol().0, built.protocol.0);
        prop_assert_eq!(header.checksum(), built.header_checksum);
        prop_assert_eq!(header.src().octets(), built.source);
        prop_assert_eq!(header.dst().octets(), built.destination);
        prop_assert_eq!(header.option_bytes(), built.options.as_slice());
        prop_assert_eq!(header.payload(), &payload[..]);

        let mut emitted = [0; ipv4::HEADER_LEN];
        ipv4::Repr::parse(&header).emit(&mut emitted);
        built.options = Default::default();
        built.set_payload_len(payload.len()).unwrap();
        built.header_checksum = built.calc_header_checksum();
        let expected = built.to_bytes();
        prop_assert_eq!(&emitted[..], expected.as_slice());
    }

    #[test]
    fn udp_fields_and_checksum_agree(
        ports: (u16, u16), payload in payload(), src: [u8; 4], dst: [u8; 4],
    ) {
        let built = oracle::UdpHeader::without_ipv4_checksum(ports.0, ports.1, payload.len()).unwrap();
        let mut bytes = [&built.to_bytes()[..], &payload].concat();
        let pseudo = pseudo_header4(src.into(), dst.into(), 17, bytes.len() as u16);
        let mut header = udp::Header::new_checked(&mut bytes[..]).unwrap();
        header.fill_checksum(pseudo);
        prop_assert!(header.verify_checksum(pseudo));
        prop_assert_eq!(header.checksum(), built.calc_checksum_ipv4_raw(src, dst, &payload).unwrap());
        prop_assert_eq!((header.src_port(), header.dst_port()), ports);
        prop_assert_eq!(header.length(), built.length);
        prop_assert_eq!(header.payload(), &payload[..]);
    }

    #[test]
    fn tcp_fields_and_checksum_agree(
        built in tcp_header(), payload in payload(), src: [u8; 4], dst: [u8; 4],
    ) {
        let mut bytes = [built.to_bytes().as_slice(), &payload].concat();
        let pseudo = pseudo_header4(src.into(), dst.into(), 6, bytes.len() as u16);
        let mut header = tcp::Header::new_checked(&mut bytes[..]).unwrap();
        header.fill_checksum(pseudo);
        prop_assert!(header.verify_checksum(pseudo));
        prop_assert_eq!(header.checksum(), built.calc_checksum_ipv4_raw(src, dst, &payload).unwrap());
        prop_assert_eq!(header.src_port(), built.source_port);
        prop_assert_eq!(header.dst_port(), built.destination_port);
        prop_assert_eq!(header.seq(), built.sequence_number);
        prop_assert_eq!(header.ack(), built.acknowledgment_number);
        prop_assert_eq!(header.header_len(), built.header_len());
        for (flag, set) in [
            (Flags::FIN, built.fin),
            (Flags::SYN, built.syn),
            (Flags::RST, built.rst),
            (Flags::PSH, built.psh),
            (Flags::ACK, built.ack),
            (Flags::URG, built.urg),
            (Flags::ECE, built.ece),
            (Flags::CWR, built.cwr),
        ] {
            prop_assert_eq!(header.flags().contains(flag), set, "{}", flag);
        }
        prop_assert_eq!(header.window(), built.window_size);
        prop_assert_eq!(header.urgent(), built.urgent_pointer);
        prop_assert_eq!(header.option_bytes(), built.options.as_slice());
        prop_assert_eq!(header.payload(), &payload[..]);
    }

    #[test]
    fn icmp_fields_and_checksum_agree(
        // A timestamp, 13 and 14, has twelve bytes more of header for the oracle.
        kind in prop_oneof![0u8..13, 15u8..],
        code: u8,
        rest: u32,
        payload in payload(),
    ) {
        let mut bytes = vec![0; icmpv4::HEADER_LEN];
        icmp::emit(&mut bytes, kind, code, rest);
        bytes.extend(&payload);
        icmpv4::Header::new_checked(&mut bytes[..]).unwrap().fill_checksum();
        let header = icmpv4::Header::new_checked(&bytes[..]).unwrap();
        prop_assert!(header.verify_checksum());

        let expected = oracle::Icmpv4Slice::from_slice(&bytes).unwrap();
        prop_assert_eq!(header.kind().0, expected.type_u8());
        prop_assert_eq!(header.code(), expected.code_u8());
        prop_assert_eq!(header.rest().to_be_bytes(), expected.bytes5to8());
        prop_assert_eq!(header.payload(), expected.payload());
        let built = oracle::Icmpv4Type::Unknown {
            type_u8: kind,
            code_u8: code,
            bytes5to8: rest.to_be_bytes(),
        };
        prop_assert_eq!(header.checksum(), built.calc_checksum(&payload));
    }

    #[test]
    fn damaged_ipv4_is_refused_alike(bytes in damaged(ipv4_packet(), 20)) {
        let ours = ipv4::Header::new_checked(&bytes[..]);
        // The oracle also parses an authentication header, which may be wrong.
        prop_assume!(bytes.get(9) != Some(&ipv4::Protocol::AH.0));
        let theirs = oracle::Ipv4Slice::from_slice(&bytes);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            prop_assert_eq!(ours.option_bytes(), theirs.header().options());
            prop_assert_eq!(ours.payload(), theirs.payload().payload);
            // The oracle's header has no place for the reserved flag.
            let right = theirs.header().to_header().calc_header_checksum() == ours.checksum();
            prop_assert!(bytes[6] & 0x80 != 0 || ours.verify_checksum() == right);
        }
    }

    #[test]
    fn damaged_tcp_is_refused_alike(
        bytes in damaged(
            (tcp_header(), payload()).prop_map(|(h, p)| [h.to_bytes().as_slice(), &p].concat()),
            20,
        ),
    ) {
        let ours = tcp::Header::new_checked(&bytes[..]);
        let theirs = oracle::TcpSlice::from_slice(&bytes);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            prop_assert_eq!(ours.option_bytes(), theirs.options());
            prop_assert_eq!(ours.payload(), theirs.payload());
        }
    }

    #[test]
    fn damaged_udp_is_refused_alike(
        bytes in damaged(
            payload().prop_map(|payload| {
                let mut bytes = vec![0; udp::HEADER_LEN];
                udp::emit(&mut bytes, 1, 2, (udp::HEADER_LEN + payload.len()) as u16);
                bytes.extend(payload);
                bytes
            }),
            udp::HEADER_LEN,
        ),
    ) {
        let ours = udp::Header::new_checked(&bytes[..]);
        // To the oracle a length of zero is that of a jumbogram (RFC 2675), which IPv4 has not.
        prop_assume!(bytes.get(4..6) != Some(&[0, 0]));
        let theirs = oracle::UdpSlice::from_slice(&bytes);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            prop_assert_eq!(ours.payload(), theirs.payload());
        }
    }

    #[test]
    fn damaged_arp_is_refused_alike(
        bytes in damaged(
            any::<[u8; 20]>().prop_map(|tail| [&[0, 1, 8, 0, 6, 4, 0, 1][..], &tail].concat()),
            6,
        ),
    ) {
        let theirs = oracle::ArpPacketSlice::from_slice(&bytes)
            .ok()
            .and_then(|packet| packet.to_packet().try_eth_ipv4().ok());
        let ours = Arp::parse(&bytes).ok();
        prop_assert_eq!(ours.map(|arp| arp.target_ip), theirs.map(|arp| Ipv4Address::from(arp.target_ipv4)));
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in payload()) {
        let bytes = &bytes[..];
        let _ = Arp::parse(bytes);
        if let Ok(header) = ethernet::Header::new_checked(bytes) {
            header.payload();
        }
        if let Ok(header) = ipv4::Header::new_checked(bytes) {
            let _ = (header.payload(), header.options().count(), header.verify_checksum());
        }
        if let Ok(header) = udp::Header::new_checked(bytes) {
            let _ = (header.payload(), header.verify_checksum(0));
        }
        if let Ok(header) = tcp::Header::new_checked(bytes) {
            let _ = (header.payload(), header.option_bytes(), header.verify_checksum(0));
        }
        if let Ok(header) = icmpv4::Header::new_checked(bytes) {
            let _ = (header.payload(), header.message(), header.verify_checksum());
        }
    }
}
