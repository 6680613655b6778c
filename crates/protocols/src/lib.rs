//! Protocols: how packets are received, forwarded and answered, one folder a protocol.
#![forbid(unsafe_code)]

pub mod arp;
pub mod dhcp;
pub mod ethernet;
pub mod icmp;
pub mod icmp6;
pub mod ip4;
pub mod ip6;
pub mod local;
pub mod midchain;
pub mod mld;
pub mod mpls;
pub mod nd;
pub mod object;
pub mod punt;
pub mod reassembly;
pub mod router_advertisement;
pub mod vlan;
