//! Interfaces as such: loopbacks, what they carry, which frames they take.

use crate::bed::{Bed, error, prefix};
use crate::packet::*;
use quiver_router::Error;
use quiver_router::arp::NeighbourKey;
use wire::MacAddress;

#[test]
fn a_loopback_has_vpps_name_and_address() {
    let mut bed = Bed::new();
    assert_eq!(bed.command("create loopback interface").unwrap(), "loop0\n");
    assert_eq!(bed.command("create loopback interface instance 258").unwrap(), "loop258\n");
    assert_eq!(bed.command("create loopback interface").unwrap(), "loop1\n");
    assert_eq!(bed.command("create loopback interface mac 02:00:00:00:00:09 name lo").unwrap(), "lo\n");
    let mac = |bed: &Bed, name: &str| {
        let index = bed.router.interfaces.find(name).unwrap();
        bed.router.interfaces.get(index).unwrap().mac
    };
    assert_eq!(mac(&bed, "loop0"), MacAddress([0xde, 0xad, 0, 0, 0, 0]));
    assert_eq!(mac(&bed, "loop258"), MacAddress([0xde, 0xad, 0, 0, 1, 2]));
    assert_eq!(mac(&bed, "lo"), MacAddress([2, 0, 0, 0, 0, 9]));
    let taken = bed.command("create loopback interface instance 258 name other").unwrap_err();
    assert!(taken.contains("loopback 258 is loop258 already"), "{taken}");
    // Deleted by its own command, which leaves others alone; its number is free again.
    bed.command("create null interface name n0").unwrap();
    let refused = bed.command("delete loopback interface intfc n0").unwrap_err();
    assert!(refused.contains("n0 is no loopback but of the driver null"), "{refused}");
    bed.command("delete loopback interface intfc loop258").unwrap();
    assert_eq!(bed.command("create loopback interface instance 258").unwrap(), "loop258\n");
}

#[test]
fn a_loopbacks_address_answers_on_every_interface_while_it_is_up() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.command("create loopback interface").unwrap();
    bed.command("set interface ip address loop0 9.9.9.9/32").unwrap();
    let ask = |bed: &mut Bed| {
        e0.receive_packet(&Packet::echo_request("10.0.0.2", "9.9.9.9", b"data"));
        e1.receive_packet(&Packet::echo_request("10.0.1.2", "9.9.9.9", b"data"));
        bed.run();
        (e0.sent().len(), e1.sent().len())
    };
    // Down: no route, and both senders are told.
    let moved = bed.errors_of(|bed| assert_eq!(ask(bed), (1, 1)));
    assert_eq!(moved, error("ip4-icmp-error", "ICMP net unreachable sent", 2));
    bed.command("set interface state loop0 up").unwrap();
    e0.receive_packet(&Packet::echo_request("10.0.0.2", "9.9.9.9", b"data"));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("ip4-icmp-input", "echo replies sent", 1), "and nothing was announced to nobody");
    let sent = e0.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][26..30], [9, 9, 9, 9]);
    assert_eq!(ask(&mut bed), (1, 1));
}

#[test]
fn behind_a_loopback_is_nobody() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.command("create loopback interface").unwrap();
    bed.command("set interface state loop0 up").unwrap();
    bed.command("set interface ip address loop0 9.9.9.1/24").unwrap();
    bed.command("ip route add 40.0.0.0/8 via 9.9.9.7").unwrap();
    for to in ["9.9.9.7", "40.1.2.3"] {
        e0.receive_packet(&Packet::udp("10.0.0.2", to, b"data"));
        let moved = bed.errors_of(|_| {});
        assert_eq!(moved, error("loop0-tx", "nothing is behind a loopback interface", 1), "{to}");
        assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0), "nobody is asked for, nothing waits");
    }
    let interface = bed.router.interfaces.find("loop0").unwrap();
    let key = NeighbourKey { interface, address: ip("9.9.9.7") };
    let refused = bed.router.set_neighbour(key, MacAddress([2, 0, 0, 0, 0, 1]), true);
    assert!(matches!(refused, Err(Error::NoNeighbours(_))));
    // The route goes with the loopback.
    bed.command("delete loopback interface intfc loop0").unwrap();
    assert!(bed.router.ip4.longest_match(ip("9.9.9.1")).is_none());
    bed.router.add_address(e0.index, prefix("9.9.9.1/24")).unwrap();
}
