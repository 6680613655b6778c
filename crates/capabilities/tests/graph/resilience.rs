//! Flows stay where they are when their prefix gets other paths (`ip::balance`, decision 021): whatever command takes
//! a path or adds one, and whatever lists of the same paths other prefixes brought before.

use crate::bed::*;
use crate::packet::*;
use crate::packet6::Packet6;
use crate::{bed6, mpls};
use router::ip::bulk::Batch;
use router::ip::control::{Path, PathAction, Source, TableIndex};
use std::collections::BTreeMap;
use wire::Family;

const FLOWS: u16 = 240;
const HOPS: [&str; 4] = ["10.0.1.2", "10.0.1.3", "10.0.2.2", "10.0.2.3"];
/// Where each flow went, by its number.
type Ways = BTreeMap<u16, [u8; 6]>;

fn bed() -> (Bed, [Port; 3]) {
    let (mut bed, ports) = Bed::with_three_ports();
    bed.know(&ports[1], HOPS[1]);
    bed.know(&ports[2], HOPS[3]);
    (bed, ports)
}

fn all(bed: &mut Bed, commands: &[&str]) {
    commands.iter().for_each(|line| drop(bed.command(line).unwrap_or_else(|error| panic!("{line}: {error}"))));
}

/// Where the flows go; `port_at` is where their packets have the source port.
fn ways(bed: &mut Bed, ports: &[Port; 3], port_at: usize, frame: impl Fn(u16) -> Vec<u8>) -> Ways {
    (0..FLOWS).for_each(|flow| ports[0].receive(frame(flow)));
    bed.run();
    let sent = ports[1..].iter().flat_map(Port::sent);
    let found: Ways = sent
        .map(|frame| {
            let flow = u16::from_be_bytes(frame[port_at..port_at + 2].try_into().unwrap());
            (flow, frame[..6].try_into().unwrap())
        })
        .collect();
    assert_eq!(found.len(), usize::from(FLOWS), "{:?}", bed.errors());
    found
}

fn ways_to(bed: &mut Bed, ports: &[Port; 3], to: &str) -> Ways {
    let mac = ports[0].mac;
    ways(bed, ports, 34, |flow| {
        let mut packet = Packet::udp("10.0.0.2", to, b"x");
        packet.payload[..2].copy_from_slice(&flow.to_be_bytes());
        packet.frame(mac, host_mac(ip("10.0.0.2")))
    })
}

/// Flows that went from one of the ways that are in both to another of those, which none has to.
fn needless(before: &Ways, after: &Ways) -> usize {
    let in_both = |way: &[u8; 6]| before.values().any(|other| other == way) && after.values().any(|other| other == way);
    before.iter().filter(|(flow, way)| after[flow] != **way && in_both(way) && in_both(&after[flow])).count()
}

/// Each command and what undoes it.
fn change_and_undo(bed: &mut Bed, changes: &[(&str, &str)], mut look: impl FnMut(&mut Bed) -> Ways) {
    for (change, undo) in changes {
        let before = look(bed);
        all(bed, &[change]);
        let after = look(bed);
        assert_ne!(before, after, "{change} changes nothing");
        assert_eq!(needless(&before, &after), 0, "{change}");
        all(bed, &[undo]);
        assert_eq!(needless(&after, &look(bed)), 0, "{undo}");
    }
    bed.router.ip.audit().unwrap();
}

#[test]
fn a_path_that_is_taken_off_a_route_moves_only_its_flows() {
    let (mut bed, ports) = bed();
    // Lists that the prefix will come to are there already, spread as if they had no past.
    all(
        &mut bed,
        &[
            "ip route add 51.0.0.0/24 via 10.0.1.2 via 10.0.2.2 via 10.0.2.3",
            "ip route add 51.0.1.0/24 via 10.0.1.2 via 10.0.1.3 via 10.0.2.3",
            "ip route add 51.0.2.0/24 via 10.0.1.3 via 10.0.2.2 via 10.0.2.3",
            "ip route add 51.0.3.0/24 via 10.0.1.2 via 10.0.2.3",
            "ip route add 50.0.0.0/24 via 10.0.1.2 via 10.0.1.3 via 10.0.2.2 via 10.0.2.3",
        ],
    );
    let changes = [
        ("ip route del 50.0.0.0/24 via 10.0.1.3", "ip route add 50.0.0.0/24 via 10.0.1.3"),
        ("ip route del 50.0.0.0/24 via 10.0.1.2", "ip route add 50.0.0.0/24 via 10.0.1.2"),
        (
            "ip route replace 50.0.0.0/24 via 10.0.1.2 via 10.0.2.3",
            "ip route replace 50.0.0.0/24 via 10.0.1.2 via 10.0.1.3 via 10.0.2.2 via 10.0.2.3",
        ),
        ("ip route add 50.0.0.0/24 via 10.0.2.3 weight 3", "ip route add 50.0.0.0/24 via 10.0.2.3 weight 1"),
        ("ip route del 50.0.0.0/24 via 10.0.2.2", "ip route add 50.0.0.0/24 via 10.0.2.2"),
    ];
    // A weight moves flows between paths that stay: those to the heavier one.
    let unweighted: Vec<_> = changes.into_iter().filter(|(change, _)| !change.contains("weight")).collect();
    change_and_undo(&mut bed, &unweighted, |bed| ways_to(bed, &ports, "50.0.0.1"));
    let before = ways_to(&mut bed, &ports, "50.0.0.1");
    all(&mut bed, &[changes[3].0]);
    let after = ways_to(&mut bed, &ports, "50.0.0.1");
    let heavier = host_mac(ip(HOPS[3])).0;
    assert!(before.iter().all(|(flow, way)| after[flow] == *way || after[flow] == heavier));
    // Where the others' flows go has not changed.
    let other = ways_to(&mut bed, &ports, "51.0.3.1");
    let shares: std::collections::BTreeSet<_> = other.values().collect();
    assert_eq!(shares.len(), 2);
}

#[test]
fn prefixes_that_move_together_share_a_list() {
    let (mut bed, ports) = bed();
    all(&mut bed, &["ip route add 51.0.0.0/24 via 10.0.1.2 via 10.0.2.2"]);
    all(&mut bed, &["ip route add count 200 50.0.0.0/24 via 10.0.1.2 via 10.0.1.3 via 10.0.2.2"]);
    let before = ways_to(&mut bed, &ports, "50.0.99.1");
    let objects = bed.router.ip.objects();
    for n in 0..200 {
        all(&mut bed, &[&format!("ip route del 50.0.{n}.0/24 via 10.0.1.3")]);
    }
    assert_eq!(needless(&before, &ways_to(&mut bed, &ports, "50.0.99.1")), 0);
    assert_eq!(bed.router.ip.objects(), objects, "one list came, one went");
    // However prefixes come and go: lists of the same paths are few.
    for n in 0..40 {
        let [a, b] = [HOPS[n % 4], HOPS[(n / 4) % 4]];
        let route = format!("52.0.{n}.0/24");
        all(&mut bed, &[&format!("ip route add {route} via {a} weight {} via {b} weight {}", n + 1, 1 + n * 7 % 5)]);
        all(&mut bed, &[&format!("ip route replace {route} via 10.0.1.2 via 10.0.1.3 via 10.0.2.2")]);
    }
    assert!(bed.router.ip.objects() <= objects + 8, "{} after {objects}", bed.router.ip.objects());
    all(&mut bed, &["ip route del count 200 50.0.0.0/24", "ip route del count 40 52.0.0.0/24"]);
    bed.router.ip.audit().unwrap();
}

#[test]
fn a_batch_moves_only_the_flows_that_must() {
    let (mut bed, ports) = bed();
    let path = |hop: &str| Path::new(PathAction::Via { next_hop: ip(hop).into(), interface: None });
    let change = |bed: &mut Bed, hops: &[&str]| {
        let mut batch = Batch::new(Family::Ip4, TableIndex::DEFAULT);
        let paths = batch.paths(hops.iter().map(|hop| path(hop)).collect());
        (0..100u8).for_each(|n| batch.put(prefix(&format!("50.0.{n}.0/24")), paths));
        bed.router.change_routes(Source::Api, batch).unwrap();
    };
    all(&mut bed, &["ip route add 51.0.0.0/24 via 10.0.1.2 via 10.0.2.2"]);
    change(&mut bed, &[HOPS[0], HOPS[1], HOPS[2]]);
    let before = ways_to(&mut bed, &ports, "50.0.7.1");
    // Some had other paths: they come to the same paths from elsewhere.
    change(&mut bed, &[HOPS[0], HOPS[2]]);
    let less = ways_to(&mut bed, &ports, "50.0.7.1");
    assert_eq!(needless(&before, &less), 0);
    change(&mut bed, &[HOPS[0], HOPS[2], HOPS[3]]);
    assert_eq!(needless(&less, &ways_to(&mut bed, &ports, "50.0.7.1")), 0);
    // A better source takes over with one path less.
    let before = ways_to(&mut bed, &ports, "50.0.9.1");
    all(&mut bed, &["ip route add 50.0.9.0/24 via 10.0.1.2 via 10.0.2.3"]);
    assert_eq!(needless(&before, &ways_to(&mut bed, &ports, "50.0.9.1")), 0);
    bed.router.ip.audit().unwrap();
}

#[test]
fn flows_of_ip6_and_labels_stay_as_well() {
    let (mut bed, ports) = bed6::bed();
    all(
        &mut bed,
        &[
            "set ip neighbor static e1 2001:db8:1::3 02:00:00:00:01:03",
            "ip route add 2001:db8:51::/48 via 2001:db8:1::2 via 2001:db8:2::2",
            "ip route add 2001:db8:50::/48 via 2001:db8:1::2 via 2001:db8:1::3 via 2001:db8:2::2",
        ],
    );
    let mac = ports[0].mac;
    let changes =
        [("ip route del 2001:db8:50::/48 via 2001:db8:1::3", "ip route add 2001:db8:50::/48 via 2001:db8:1::3")];
    change_and_undo(&mut bed, &changes, |bed| {
        ways(bed, &ports, 54, |flow| {
            let mut packet = Packet6::udp("2001:db8:0::2", "2001:db8:50::1", b"x");
            packet.payload[..2].copy_from_slice(&flow.to_be_bytes());
            packet.frame(mac, bed6::mac_of(0))
        })
    });

    let (mut bed, ports) = mpls::bed();
    bed.know(&ports[1], "10.0.1.3");
    all(
        &mut bed,
        &[
            "mpls local-label add 20 eos via 10.0.1.2 out-labels 30 via 10.0.2.2 out-labels 32",
            "mpls local-label add 21 eos via 10.0.1.2 out-labels 30 via 10.0.1.3 out-labels 31 via 10.0.2.2 \
             out-labels 32",
        ],
    );
    let changes = [(
        "mpls local-label del 21 eos via 10.0.1.3 out-labels 31",
        "mpls local-label add 21 eos via 10.0.1.3 out-labels 31",
    )];
    change_and_undo(&mut bed, &changes, |bed| {
        ways(bed, &ports, 18 + 20, |flow| {
            let mut packet = Packet::udp("10.0.0.2", "50.0.0.1", b"x");
            packet.payload[..2].copy_from_slice(&flow.to_be_bytes());
            mpls::labelled(&ports[0], &[(21, 0, true, 64)], &packet.bytes())
        })
    });
}
