//! The ARP messages that the control thread sends: requests, and announcements of our own addresses.

use crate::Router;
use crate::neighbour::NeighbourKey;
use graph::InterfaceIndex;
use std::net::{IpAddr, Ipv4Addr};
use wire::MacAddress;
use wire::arp::{self, Arp, Operation};
use wire::ethernet::EtherType;

impl Router {
    /// Sends a request for an address: to all hosts, or to one, as `to` says.
    pub(crate) fn send_arp_request(&self, key: NeighbourKey, to: MacAddress) {
        let IpAddr::V4(wanted) = key.address else { return };
        let Ok(interface) = self.interfaces.get(key.interface) else { return };
        let Some(us) = self.interfaces.address_towards(key.interface, wanted) else { return };
        let request = Arp {
            operation: Operation::Request,
            sender_mac: interface.mac,
            sender_ip: us,
            target_mac: MacAddress::ZERO,
            target_ip: wanted,
        };
        self.send_arp(key.interface, to, &request);
    }

    /// Announces one of our addresses to the network (RFC 5227 2.3), so that hosts that knew it at another Ethernet
    /// address find us.
    pub(crate) fn announce(&self, interface: InterfaceIndex, address: Ipv4Addr) {
        let Some(known) = self.interfaces.get(interface).ok().filter(|known| known.has_neighbours()) else { return };
        let announcement = Arp {
            operation: Operation::Request,
            sender_mac: known.mac,
            sender_ip: address,
            target_mac: MacAddress::ZERO,
            target_ip: address,
        };
        self.send_arp(interface, MacAddress::BROADCAST, &announcement);
    }

    fn send_arp(&self, interface: InterfaceIndex, to: MacAddress, message: &Arp) {
        let Ok(header) = self.interfaces.get(interface).map(|known| known.link_header(to, EtherType::ARP)) else {
            return;
        };
        let mut payload = [0; arp::LEN];
        message.emit(&mut payload);
        self.inject(interface, &header, &payload);
    }
}
