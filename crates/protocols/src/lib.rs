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

/// The capabilities of this crate.
pub const CAPABILITIES: router::capability::List = &[
    &vlan::CAPABILITY,
    &ethernet::CAPABILITY,
    &ip4::CAPABILITY,
    &ip6::CAPABILITY,
    &mpls::CAPABILITY,
    &midchain::CAPABILITY,
    &object::CAPABILITY,
    &punt::CAPABILITY,
    &arp::CAPABILITY,
    &nd::CAPABILITY,
    &router_advertisement::CAPABILITY,
    &mld::CAPABILITY,
    &icmp::CAPABILITY,
    &icmp6::CAPABILITY,
    &reassembly::CAPABILITY,
    &local::CAPABILITY,
    &dhcp::CAPABILITY,
];
