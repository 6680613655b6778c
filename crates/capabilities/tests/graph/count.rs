//! Routes whose packets are counted, and tables with a limit.

use crate::bed::{Bed, Port, prefix};
use crate::packet::*;
use crate::routes::{goes_to, hop_mac, snapshot};
use router::ip::bulk::{Batch, Outcome};
use router::ip::control::{Path, PathAction, Source, TableIndex};

const DEFAULT: TableIndex = TableIndex::DEFAULT;

/// Packets and bytes of a prefix.
fn counts(bed: &Bed, route: &str) -> Option<(u64, u64)> {
    bed.router.ip.counts(DEFAULT, prefix(route)).map(|counts| (counts.packets, counts.bytes))
}

fn send(bed: &mut Bed, ports: &[Port], address: &str, data: &[u8]) {
    ports[0].receive_packet(&Packet::udp("10.0.0.2", address, data));
    bed.run();
    ports.iter().for_each(|port| drop(port.sent()));
}

#[test]
fn a_counted_route_counts_its_own_packets_whatever_becomes_of_it() {
    let (mut bed, ports) = Bed::with_three_ports();
    for line in ["ip route add 50.0.0.0/8 via 10.0.1.2", "ip route add 50.1.0.0/16 via 10.0.1.2"] {
        bed.command(line).unwrap();
    }
    // Also one to which there is no route yet.
    for route in ["50.0.0.0/8", "51.0.0.0/8", "0.0.0.0/0"] {
        bed.command(&format!("set ip route counters {route} enable")).unwrap();
    }
    send(&mut bed, &ports, "50.9.9.9", b"x");
    send(&mut bed, &ports, "50.1.1.1", b"elsewhere");
    assert_eq!((counts(&bed, "50.0.0.0/8"), counts(&bed, "50.1.0.0/16")), (Some((1, 29)), None));
    // Its ways change, one of several takes it, it goes and comes back: all of these count.
    bed.command("ip route add 50.0.0.0/8 via 10.0.2.2 weight 9").unwrap();
    send(&mut bed, &ports, "50.9.9.9", b"y");
    bed.command("ip route replace 50.0.0.0/8 via 10.0.2.2").unwrap();
    assert_eq!(goes_to(&mut bed, &ports[0], &ports[1..], "50.9.9.9"), hop_mac("10.0.2.2"));
    bed.command("ip route del 50.0.0.0/8").unwrap();
    assert_eq!(goes_to(&mut bed, &ports[0], &ports[1..], "50.9.9.9"), None);
    bed.command("ip route add 50.0.0.0/8 via drop").unwrap();
    send(&mut bed, &ports, "50.9.9.9", b"z");
    assert_eq!(counts(&bed, "50.0.0.0/8"), Some((4, 4 * 29)));
    // Batches, and another source beside.
    let mut batch = Batch::default();
    let paths = batch.paths(vec![Path::new(PathAction::Via { next_hop: ip("10.0.1.2").into(), interface: None })]);
    ["50.0.0.0/8", "51.0.0.0/8", "0.0.0.0/0"].into_iter().for_each(|route| batch.put(prefix(route), paths));
    bed.router.change_routes(Source::Api, batch).unwrap();
    bed.command("ip route del 50.0.0.0/8").unwrap();
    for address in ["50.9.9.9", "51.1.1.1", "99.1.1.1"] {
        assert_eq!(goes_to(&mut bed, &ports[0], &ports[1..], address), hop_mac("10.0.1.2"));
    }
    assert_eq!(counts(&bed, "50.0.0.0/8"), Some((5, 5 * 29)));
    assert_eq!((counts(&bed, "51.0.0.0/8"), counts(&bed, "0.0.0.0/0")), (Some((1, 29)), Some((1, 29))));
    let text = bed.command("show ip fib 51.1.1.1").unwrap();
    assert!(text.contains("buckets:1 to:[1:29]]\n"), "{text}");
    // A link that dies takes the route away, and not its counters.
    ports[1].set_carrier(false);
    bed.advance(std::time::Duration::from_secs(1));
    ports[1].set_carrier(true);
    bed.advance(std::time::Duration::from_secs(1));
    bed.know(&ports[1], "10.0.1.2");
    ports[1].sent();
    assert_eq!(goes_to(&mut bed, &ports[0], &ports[1..], "51.1.1.1"), hop_mac("10.0.1.2"));
    assert_eq!(counts(&bed, "51.0.0.0/8"), Some((2, 58)));
    bed.command("clear ip route counters").unwrap();
    assert_eq!(counts(&bed, "51.0.0.0/8"), Some((0, 0)));
    assert_eq!(bed.router.ip.audit(), Ok(()));
    // A place that is given again begins at zero.
    send(&mut bed, &ports, "51.1.1.1", b"x");
    bed.command("set ip route counters 51.0.0.0/8 disable").unwrap();
    assert_eq!(goes_to(&mut bed, &ports[0], &ports[1..], "51.1.1.1"), hop_mac("10.0.1.2"));
    (0..3).for_each(|_| bed.run());
    for number in 0..router::ip::count::MAX_COUNTED - 2 {
        bed.router.count_route(DEFAULT, prefix(&format!("60.{}.{}.0/24", number / 256, number % 256)), true).unwrap();
    }
    let before = snapshot(&bed);
    let error = bed.command("set ip route counters 51.0.0.0/8 enable").unwrap_err();
    assert!(error.contains("4096 routes are counted, which is the most"), "{error}");
    assert_eq!(snapshot(&bed), before);
    assert!(bed.router.ip.counted().all(|(table, route)| {
        let counts = bed.router.ip.counts(table, route).unwrap();
        counts.packets == 0
    }));
}

#[test]
fn sources_of_counted_routes_are_known() {
    let (mut bed, ports) = Bed::with_three_ports();
    for line in [
        "ip route add 50.0.0.0/8 via 10.0.0.2",
        "set ip route counters 50.0.0.0/8 enable",
        "set ip route counters 10.0.0.2/32 enable",
        "set urpf ip4 rx strict e0",
    ] {
        bed.command(line).unwrap();
    }
    for source in ["50.1.1.1", "10.0.0.2"] {
        ports[0].receive_packet(&Packet::udp(source, "10.0.1.2", b"x"));
        ports[0].receive_packet(&Packet::echo_request(source, "10.0.0.1", b"x"));
    }
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, crate::bed::error("ip4-icmp-input", "echo replies sent", 2));
    assert_eq!((ports[0].sent().len(), ports[1].sent().len()), (2, 2));
}

#[test]
fn a_table_has_no_more_routes_than_it_may() {
    let (mut bed, _) = Bed::with_three_ports();
    let there = bed.router.ip.routes().len();
    bed.command(&format!("set ip table max-routes {}", there + 2)).unwrap();
    bed.command("ip route add 50.0.0.0/8 via 10.0.1.2").unwrap();
    let before = snapshot(&bed);
    let error = bed.command("ip route add count 2 51.0.0.0/8 via 10.0.1.2").unwrap_err();
    assert!(error.contains(&format!("table 0 may have {} routes, and these would be more", there + 2)), "{error}");
    assert_eq!(snapshot(&bed), before);
    // What a command could not do whole it takes back, whatever the limit.
    bed.command("ip route add 49.0.0.0/8 via drop").unwrap();
    bed.command("set ip table max-routes 1").unwrap();
    let full = snapshot(&bed);
    assert!(bed.command("ip route del count 3 49.0.0.0/8").is_err());
    assert_eq!(snapshot(&bed), full);
    bed.command("ip route del 49.0.0.0/8").unwrap();
    bed.command(&format!("set ip table max-routes {}", there + 2)).unwrap();
    // What is there may change; what goes makes room.
    let mut batch = Batch::default();
    let paths = batch.paths(vec![Path::new(PathAction::Drop)]);
    ["50.0.0.0/8", "51.0.0.0/8", "52.0.0.0/8", "53.0.0.0/8"].into_iter().for_each(|r| batch.put(prefix(r), paths));
    let outcome = bed.router.change_routes(Source::Api, batch.clone()).unwrap();
    assert_eq!(outcome, Outcome { added: 2, refused: 2, ..Outcome::default() });
    bed.command("ip route replace 50.0.0.0/8 via drop").unwrap();
    // A file in the place of another needs room for itself only, and what is too long changes nothing.
    let path = std::env::temp_dir().join(format!("quiver-limit-{}", std::process::id()));
    let mut load = |routes: &[&str]| {
        std::fs::write(&path, routes.iter().map(|route| format!("{route} via 10.0.1.2\n")).collect::<String>())
            .unwrap();
        bed.command(&format!("ip route load {} replace", path.display()))
    };
    let error = load(&["70.0.0.0/8", "71.0.0.0/8"]).unwrap_err();
    assert!(error.contains("these would be more"), "{error}");
    assert_eq!(load(&["70.0.0.0/8"]).unwrap(), "1 routes added, 0 replaced, 2 removed\n");
    let mut again = Batch::default();
    let dropped = again.paths(vec![Path::new(PathAction::Drop)]);
    ["50.0.0.0/8", "51.0.0.0/8"].into_iter().for_each(|route| again.put(prefix(route), dropped));
    again.remove(prefix("70.0.0.0/8"));
    bed.router.change_routes(Source::Api, again.clone()).unwrap();
    bed.router.change_routes(Source::Api, again).unwrap();
    std::fs::remove_file(std::env::temp_dir().join(format!("quiver-limit-{}", std::process::id()))).unwrap();
    // The router's own routes always find room.
    bed.command("set interface ip address e0 172.16.0.1/24").unwrap();
    assert_eq!(bed.router.ip.routes().len(), there + 6);
    bed.command("set ip table max-routes unlimited").unwrap();
    let outcome = bed.router.change_routes(Source::Api, batch).unwrap();
    assert_eq!(outcome, Outcome { added: 2, replaced: 2, ..Outcome::default() });
}
