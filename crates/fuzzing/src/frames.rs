//! The whole graph: a router of three ports whose worker and control run here, in turns, fed
//! with frames and, between them, with time and commands. After each turn no node has
//! panicked, the ledger is balanced, and no buffer is used but by what is held.
//!
//! An input is a row of records: a byte that says what it is, then what belongs to it.
//!
//! | byte | record |
//! |---|---|
//! | bits 0-1: 0 to 2 | a frame on that port: length (2 bytes, the low 11 bits; see [`Frame::read`]), bytes |
//! | bits 0-1: 3 | a byte that picks one of [`ACTS`] |

use crate::ports::{Arrival, Port, Ports};
use graph::Progress;
use router::{Options, Router};
use std::time::{Duration, Instant};
use wire::ethernet::{self, EtherType};
use wire::ipv4::{self, Protocol};
use wire::{checksum, icmpv6, ipv6};

/// Few, so that running out of them is met too.
const BUFFERS: u32 = 2048;

/// What the router is before the first frame. Neighbours `10.0.N.2` are known, and `2001:db8:N::2` of e0 and e1.
const CONFIGURATION: &[&str] = &[
    "set ip6 dad transmits 0",
    "set interface ip address e0 10.0.0.1/24",
    "set interface ip address e1 10.0.1.1/24",
    "set interface ip address e2 10.0.2.1/24",
    "set interface ip address e2 10.0.3.1/31",
    "set interface state e0 up",
    "set interface state e1 up",
    "set interface state e2 up",
    "set interface mtu packet 576 e2",
    "ip neighbor e0 10.0.0.2 02:aa:0a:00:00:02",
    "ip neighbor e1 10.0.1.2 02:aa:0a:00:01:02",
    "ip neighbor e2 10.0.2.2 02:aa:0a:00:02:02",
    "set interface ip address e0 2001:db8::1/64",
    "set interface ip address e1 2001:db8:1::1/64",
    "ip6 neighbor e0 2001:db8::2 02:aa:0a:00:00:02",
    "ip6 neighbor e1 2001:db8:1::2 02:aa:0a:00:01:02",
    "ip route add 20.0.0.0/8 via drop",
    "ip route add 21.0.0.0/8 via punt",
    "ip route add 22.0.0.0/8 via unreachable",
    "ip route add 23.0.0.0/8 via 10.0.1.2",
    "ip route add 24.0.0.0/8 via 10.0.1.2 via 10.0.2.2",
    "ip route add 25.0.0.0/8 via 10.0.2.99",
    "ip route add 26.0.0.0/8 via drop weight 3 via 10.0.2.2",
    "ip route add 2001:db8:20::/48 via drop",
    "mpls table add 0",
    "set interface mpls e0 enable",
    "set interface mpls e1 enable",
    "mpls local-label add 16 via 10.0.1.2 e1 out-labels 17",
    "mpls local-label add 18 via 10.0.1.2 e1",
    "mpls local-label add 19 eos via 2001:db8:1::2 e1 uniform",
    "mpls local-label add 20 eos via ip4-lookup-in-table 0 uniform",
    "mpls local-label add 21 eos via ip6-lookup-in-table 0",
    "mpls local-label add 22 non-eos via mpls-lookup-in-table 0",
    "mpls local-label add 23 via 10.0.1.2 e1 out-labels 17 18 via 10.0.2.99 out-labels 24",
    "ip route add 29.0.0.0/8 via 10.0.1.2 out-labels 17 18 uniform",
    "ip route add 2001:db8:22::/48 via unreachable",
    "ip route add 2001:db8:23::/48 via 2001:db8:1::2",
    "ip route add 2001:db8:24::/48 via 2001:db8:1::2 via 2001:db8::2",
    "ip route add 2001:db8:25::/48 via fe80::9 e1",
];

/// What may happen between frames: commands, and what a word in capitals names.
const ACTS: &[&str] = &[
    "PASS 100",
    "PASS 1100",
    "PASS 70000",
    "REFUSE full",
    "REFUSE refused",
    "set interface state e1 down",
    "set interface state e1 up",
    "set interface mtu packet 100 e1",
    "set interface mtu packet 9000 e1",
    "set interface ip address del e1 10.0.1.1/24",
    "set interface ip address e1 10.0.1.1/24",
    "ip route del 23.0.0.0/8 via 10.0.1.2",
    "ip route add 0.0.0.0/0 via 10.0.1.2",
    "ip route del 0.0.0.0/0 via 10.0.1.2",
    "ip route replace 24.0.0.0/8 via 10.0.2.77 via 10.0.1.2",
    "ip neighbor del e1 10.0.1.2",
    "delete interface e2",
    "trace add test-input 100",
    "clear trace",
    "pcap trace rx tx drop max 100 file capture.pcap",
    "pcap trace off",
    "clear errors",
    "set urpf ip4 strict e0",
    "set urpf ip4 loose e0 allow-default",
    "set urpf ip4 off e0",
    "set interface span e0 destination e1 both",
    "set interface span e1 destination e0 both",
    "set interface span e0 disable",
    "set interface ip redirects e0 enable",
    "ip route add 27.0.0.0/8 via 10.0.0.2",
    "ip route add 28.0.0.0/8 via prohibit",
    "ip punt redirect add rx all via 10.0.1.2 e1",
    "ip punt redirect del rx all",
    "set ip punt rate 10",
    "create loopback interface",
    "set interface ip address loop0 10.0.9.1/24",
    "set interface state loop0 up",
    "set interface promiscuous on e0",
    "set interface unnumbered e2 use e0",
    "set interface mtu ip4 300 e1",
    "set urpf ip6 strict e0",
    "set urpf ip6 loose e0 allow-default",
    "set urpf ip6 off e0",
    "set ip6 dad transmits 0",
    "set ip6 dad default",
    "set interface ip address e2 2001:db8:2::1/64",
    "set interface mtu packet 1280 e2",
    "set interface ip address del e1 2001:db8:1::1/64",
    "set interface ip address e1 2001:db8:1::1/64",
    "set interface mtu ip6 1280 e1",
    "disable ip6 interface e1",
    "enable ip6 interface e1",
    "set ip6 link-local address e0 fe80::1",
    "ip6 nd e0 no ra-suppress",
    "ip6 nd e0 ra-suppress",
    "set ip6 mld querier e0 enable",
    "set interface ip6 redirects e0 enable",
    "ip route add 2001:db8:26::/48 via 2001:db8::3",
    "ip route add ::/0 via 2001:db8:1::2",
    "ip route del ::/0 via 2001:db8:1::2",
    "ip6 neighbor del e1 2001:db8:1::2",
    "ip6 table add 9",
    "ip route add 2001:db8:27::/48 via ip6-lookup-in-table 9",
    "ip route add table 9 2001:db8:27::/48 via ip6-lookup-in-table 0",
    "set ip6 route counters 2001:db8:23::/48 enable",
    "set ip6-full-reassembly max-reassemblies 2",
    "create sub-interfaces e0 100",
    "set interface state e0.100 up",
    "set interface ip address e0.100 2001:db8:9::1/64",
    "mpls local-label replace 16 eos via 10.0.2.99 out-labels 17",
    "mpls local-label del 18 eos",
    "set interface mtu mpls 200 e1",
    "mpls tunnel add via 10.0.1.2 e1 out-labels 40",
    "set interface state mpls-tunnel0 up",
    "ip route add 23.0.0.0/8 via mpls-tunnel0",
    "mpls tunnel del mpls-tunnel0",
    "set interface mpls e0 disable",
    "PAIR",
];

/// Of the bits of a frame's length, and of its record's first byte.
const LENGTH: u16 = 0x07ff;
const HAS_VNET_HEADER: u16 = 1 << 11;
const IN_PARTS: u16 = 1 << 12;
const WITH_NEXT: u16 = 1 << 13;
const ODD_PLACE: u16 = 1 << 14;
const TO_US: u8 = 1 << 2;
const MEND_IP4: u8 = 1 << 3;
const MEND_ICMP: u8 = 1 << 4;
const MEND_IP6: u8 = 1 << 5;

pub fn run(bytes: &[u8]) {
    let mut bed = Bed::new();
    let mut rest = bytes;
    while let Some(record) = take(&mut rest, 1) {
        let port = usize::from(record[0] & 3);
        if port == 3 {
            let Some(which) = take(&mut rest, 1) else { break };
            bed.act(ACTS[usize::from(which[0]) % ACTS.len()]);
            bed.settle();
        } else {
            let Some(frame) = Frame::read(record[0], &mut rest, &bed.ports[port]) else { break };
            bed.ports[port].receive(frame.arrival);
            if !frame.with_next {
                bed.settle();
            }
        }
    }
    bed.settle();
    bed.finish();
}

/// The next bytes of the input.
fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, others) = rest.split_at_checked(length)?;
    *rest = others;
    Some(taken)
}

struct Frame {
    arrival: Arrival,
    /// It comes in one vector with the next.
    with_next: bool,
}

impl Frame {
    /// Reads a frame. Its length's upper bits say whether a virtio-net header comes first, whether a byte follows
    /// that says after how many the first buffer ends, whether it comes with the next frame, and whether it lies at
    /// an odd place. The record's bits say what of it is made right: the destination, the IPv4 checksum, the payload
    /// length of IPv6, the checksum of ICMP or ICMPv6.
    fn read(record: u8, rest: &mut &[u8], port: &Port) -> Option<Frame> {
        let length = take(rest, 2)?;
        let length = u16::from_le_bytes([length[0], length[1]]);
        let header = if length & HAS_VNET_HEADER != 0 { take(rest, 10)? } else { &[] };
        let cut = if length & IN_PARTS != 0 { Some(usize::from(take(rest, 1)?[0])) } else { None };
        let most = usize::from(length & LENGTH).min(rest.len());
        let mut frame = take(rest, most)?.to_vec();
        if record & TO_US != 0 && frame.len() >= 6 {
            frame[..6].copy_from_slice(&port.mac.0);
        }
        mend(&mut frame, record);
        let mut arrival = Arrival::new(frame, header.first_chunk());
        if let Some(cut) = cut {
            arrival.cut_after(cut);
        }
        if length & ODD_PLACE != 0 {
            arrival.offset += 2;
        }
        Some(Frame { arrival, with_next: length & WITH_NEXT != 0 })
    }
}

/// Makes lengths and checksums right, so that what lies behind their checks is reached.
fn mend(frame: &mut [u8], what: u8) {
    let mut at = ethernet::HEADER_LEN;
    while frame.get(at - 2..at).is_some_and(|kind| EtherType(u16::from_be_bytes([kind[0], kind[1]])).is_tag()) {
        at += wire::vlan::TAG_LEN;
    }
    let Some(packet) = frame.get_mut(at..) else { return };
    match packet.first().map(|first| first >> 4) {
        Some(6) => mend_ip6(packet, what),
        _ => mend_ip4(packet, what),
    }
}

fn mend_ip4(packet: &mut [u8], what: u8) {
    let Ok(mut header) = ipv4::Header::new_checked(packet) else { return };
    if what & MEND_IP4 != 0 {
        header.fill_checksum();
    }
    if what & MEND_ICMP != 0 && header.protocol() == Protocol::ICMP && header.payload().len() >= 8 {
        let payload = header.payload_mut();
        payload[2..4].fill(0);
        let sum = checksum::checksum(payload);
        payload[2..4].copy_from_slice(&sum.to_be_bytes());
    }
}

fn mend_ip6(packet: &mut [u8], what: u8) {
    let Some(length) = packet.len().checked_sub(ipv6::HEADER_LEN) else { return };
    if what & MEND_IP6 != 0 {
        ipv6::Header::new_unchecked(&mut *packet).set_payload_len(length as u16);
    }
    let Ok(header) = ipv6::Header::new_checked(&*packet) else { return };
    let Ok(chain) = header.chain() else { return };
    let (source, destination) = (header.src(), header.dst());
    let end = ipv6::HEADER_LEN + usize::from(header.payload_len());
    // The checksum of fragments is that of the whole.
    if what & MEND_ICMP == 0 || chain.protocol != Protocol::ICMP6 || chain.is_fragment() {
        return;
    }
    if let Ok(mut message) = icmpv6::Header::new_checked(&mut packet[ipv6::HEADER_LEN + chain.payload..end]) {
        message.fill_checksum(source, destination);
    }
}

struct Bed {
    router: Router,
    worker: graph::Worker,
    ports: [Port; 3],
    commands: command::CommandSet<Router>,
    now: Instant,
    _directory: crate::Directory,
}

impl Bed {
    fn new() -> Bed {
        let options = Options { buffers: BUFFERS, huge_pages: false, workers: 1, hash_seed: 7, ..Options::default() };
        let mut router = capabilities::router(options).expect("a router");
        let directory = crate::Directory::new();
        router.files = directory.files();
        let worker = router.graph.worker(0).expect("a worker");
        let ports = Ports::open(&mut router);
        let commands = capabilities::commands();
        let mut bed = Bed { router, worker, ports, commands, now: Instant::now(), _directory: directory };
        for line in CONFIGURATION {
            bed.commands.execute(&mut bed.router, line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        bed.settle();
        bed
    }

    fn act(&mut self, act: &str) {
        match act.split_once(' ') {
            Some(("PASS", time)) => {
                self.now += Duration::from_millis(time.parse().expect("a number"));
                self.router.tick_at(self.now);
            }
            Some(("REFUSE", "full")) => self.ports.iter().for_each(|port| port.refuse_next(drivers::FULL)),
            Some(("REFUSE", _)) => self.ports.iter().for_each(|port| port.refuse_next(drivers::REFUSED)),
            // The third port is the side of the first one in Linux.
            None if act == "PAIR" => {
                let index = |name| self.router.interfaces.find(name);
                if let (Ok(phy), Ok(tap)) = (index("e0"), index("e2")) {
                    let _ = linux_cp::join(&mut self.router, phy, tap, "xe0");
                }
            }
            // It may be refused, as when the interface is gone already.
            _ => {
                assert!(self.commands.parse(act).is_ok(), "{act}: no command");
                drop(self.commands.execute(&mut self.router, act));
            }
        }
    }

    /// Runs worker and control until neither has anything to do.
    fn settle(&mut self) {
        const MANY: usize = 100_000;
        for _ in 0..MANY {
            let worked = self.worker.round() != Progress::Idle;
            let has_events = self.router.events_waiting() > 0;
            self.router.handle_events();
            if !worked && !has_events {
                return self.check();
            }
        }
        panic!("worker or control never come to rest");
    }

    fn check(&mut self) {
        let ledger = self.worker.core().ledger();
        assert!(ledger.is_balanced(), "{ledger:?}");
        let used = self.worker.core().buffers.in_use();
        // What is held may be chains: of each packet one buffer at least.
        assert!(used >= ledger.held && (ledger.held > 0 || used == 0), "{used} buffers are used, {ledger:?}");
        for (number, error) in self.router.graph.errors().iter().enumerate() {
            let count = self.router.graph.counters().errors.sum(number, 0);
            let never = error.node == "dispatcher" && error.reason != "edge leads nowhere";
            assert!(!never || count == 0, "{}", error.reason);
        }
    }

    /// Ends the worker: it gives back all that it holds.
    fn finish(mut self) {
        self.router.graph.stop();
        while self.worker.round() != Progress::Stopped {}
        assert_eq!(self.worker.core().buffers.in_use(), 0, "all buffers are given back");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_act_is_one() {
        for which in 0..ACTS.len() as u8 {
            run(&[3, which]);
        }
    }
}
