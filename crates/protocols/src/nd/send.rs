//! What control says by Neighbor Discovery: questions, and announcements of our own addresses.

use super::dad::Standing;
use super::input::{finish, write_advertisement};
use graph::InterfaceIndex;
use router::Router;
use router::neighbour::NeighbourKey;
use std::net::{IpAddr, Ipv6Addr};
use wire::MacAddress;
use wire::ethernet::EtherType;
use wire::ipv6::HEADER_LEN;
use wire::nd::{self, AdvertisementFlags, NEIGHBOUR_LEN, NdOption};

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Asks on the wire: directly when `to` is a station's address, else in the group of the address that is wanted.
pub(super) fn solicit(router: &Router, key: NeighbourKey, to: MacAddress) {
    let IpAddr::V6(wanted) = key.address else { return };
    let Ok(interface) = router.interfaces.get(key.interface) else { return };
    let Some(us) = interface.address6_towards(wanted) else { return };
    let (destination, mac) = match to.is_broadcast() {
        true => (nd::solicited_node(wanted), nd::group_mac(nd::solicited_node(wanted))),
        false => (wanted, to),
    };
    let mut packet = [0; HEADER_LEN + NEIGHBOUR_LEN + 8];
    nd::emit_solicitation(&mut packet[HEADER_LEN..], wanted);
    NdOption::SourceLinkAddress(interface.mac).emit(&mut packet[HEADER_LEN + NEIGHBOUR_LEN..]);
    finish(&mut packet, us, destination);
    router.inject(key.interface, &interface.link_header(mac, EtherType::IPV6), &packet);
}

/// Asks the link whether anybody has an address that is to be ours (RFC 4862 5.4.2), with a number by which the
/// question is known when it comes back (RFC 7527).
pub(super) fn probe(router: &Router, interface: InterfaceIndex, address: Ipv6Addr) {
    let Ok(known) = router.interfaces.get(interface) else { return };
    let Some(Standing::Tentative(nonce)) = known.ip6.standing.get(&address) else { return };
    let mut packet = [0; HEADER_LEN + NEIGHBOUR_LEN + 8];
    nd::emit_solicitation(&mut packet[HEADER_LEN..], address);
    NdOption::Nonce(nonce).emit(&mut packet[HEADER_LEN + NEIGHBOUR_LEN..]);
    let group = nd::solicited_node(address);
    finish(&mut packet, Ipv6Addr::UNSPECIFIED, group);
    router.inject(interface, &known.link_header(nd::group_mac(group), EtherType::IPV6), &packet);
}

/// Tells the link an address of ours (RFC 4861 7.2.6), so that hosts that knew it elsewhere find us.
pub(super) fn announce(router: &Router, interface: InterfaceIndex, address: IpAddr) {
    let IpAddr::V6(address) = address else { return };
    let Some(known) = router.interfaces.get(interface).ok().filter(|known| known.has_neighbours()) else { return };
    let flags = AdvertisementFlags { router: true, solicited: false, overrides: true };
    let mut packet = [0; HEADER_LEN + NEIGHBOUR_LEN + 8];
    write_advertisement(&mut packet, address, ALL_NODES, address, flags, known.mac);
    router.inject(interface, &known.link_header(nd::group_mac(ALL_NODES), EtherType::IPV6), &packet);
}
