//! The list of capabilities: what is in it is in the router.
#![forbid(unsafe_code)]

mod absent;

use command::CommandSet;
use router::{Error, Options, Router};

/// All capabilities of this program.
// A constant: a static item would have all of them compiled into each test program that uses none.
pub const CAPABILITIES: router::capability::List = &[
    &router::capability::INTERFACE,
    &devices::null::CAPABILITY,
    &devices::loopback::CAPABILITY,
    &devices::tap::CAPABILITY,
    &devices::af_packet::CAPABILITY,
    &devices::af_xdp::CAPABILITY,
    &protocols::vlan::CAPABILITY,
    &devices::memif::CAPABILITY,
    &features::span::CAPABILITY,
    &features::handoff::CAPABILITY,
    &protocols::ethernet::CAPABILITY,
    &router::capability::IP,
    &protocols::ip4::CAPABILITY,
    &protocols::ip6::CAPABILITY,
    &protocols::mpls::CAPABILITY,
    &protocols::midchain::CAPABILITY,
    &protocols::object::CAPABILITY,
    &protocols::punt::CAPABILITY,
    &router::capability::NEIGHBOUR,
    &protocols::arp::CAPABILITY,
    &protocols::nd::CAPABILITY,
    &protocols::router_advertisement::CAPABILITY,
    &protocols::mld::CAPABILITY,
    &protocols::icmp::CAPABILITY,
    &protocols::icmp6::CAPABILITY,
    &protocols::reassembly::CAPABILITY,
    &protocols::local::CAPABILITY,
    &protocols::dhcp::CAPABILITY,
    &features::packet_generator::CAPABILITY,
    &features::config::CAPABILITY,
    &features::capture::CAPABILITY,
    &features::inspect::CAPABILITY,
    &features::logging::CAPABILITY,
    &absent::CAPABILITY,
];

/// No two capabilities have a packet flag in common.
const _: () = {
    let (mut at, mut taken) = (0, 0);
    while at < CAPABILITIES.len() {
        assert!(taken & CAPABILITIES[at].flags == 0);
        taken |= CAPABILITIES[at].flags;
        at += 1;
    }
};

/// A router with all capabilities and without interfaces. The caller takes its workers from [`graph::Graph::worker`]
/// and runs them.
///
/// # Errors
/// When the system refuses memory.
pub fn router(options: Options) -> Result<Router, Error> {
    Router::with(options, CAPABILITIES)
}

/// The commands of all capabilities.
pub fn commands() -> CommandSet<Router> {
    router::commands_of(CAPABILITIES)
}
