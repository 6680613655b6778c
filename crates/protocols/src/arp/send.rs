//! The ARP messages that the control thread sends: requests, and announcements of our own addresses.

use graph::InterfaceIndex;
use router::Router;
use router::neighbour::NeighbourKey;
use std::net::IpAddr;
use wire::MacAddress;
use wire::arp::{self, Arp, Operation};
use wire::ethernet::EtherType;

/// Sends a request for an address: to all hosts, or to one, as `to` says.
pub(super) fn request(router: &Router, key: NeighbourKey, to: MacAddress) {
    let IpAddr::V4(wanted) = key.address else { return };
    let Ok(interface) = router.interfaces.get(key.interface) else { return };
    let Some(us) = router.interfaces.address_towards(key.interface, wanted) else { return };
    let request = Arp {
        operation: Operation::Request,
        sender_mac: interface.mac,
        sender_ip: us,
        target_mac: MacAddress::ZERO,
        target_ip: wanted,
    };
    send(router, key.interface, to, &request);
}

/// Announces one of our addresses to the network (RFC 5227 2.3), so that hosts that knew it at another Ethernet address
/// find us.
pub(super) fn announce(router: &Router, interface: InterfaceIndex, address: IpAddr) {
    let IpAddr::V4(address) = address else { return };
    let Some(known) = router.interfaces.get(interface).ok().filter(|known| known.has_neighbours()) else { return };
    let announcement = Arp {
        operation: Operation::Request,
        sender_mac: known.mac,
        sender_ip: address,
        target_mac: MacAddress::ZERO,
        target_ip: address,
    };
    send(router, interface, MacAddress::BROADCAST, &announcement);
}

fn send(router: &Router, interface: InterfaceIndex, to: MacAddress, message: &Arp) {
    let Ok(header) = router.interfaces.get(interface).map(|known| known.link_header(to, EtherType::ARP)) else {
        return;
    };
    let mut payload = [0; arp::LEN];
    message.emit(&mut payload);
    router.inject(interface, &header, &payload);
}
