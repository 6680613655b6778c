//! Packet flags that other capabilities read than the one that claims them ([`crate::capability::Description::flags`]).

/// The packet leaves by the interface that received it, and its sender was sent a redirect if it should get one.
pub const REDIRECTED: u32 = graph::flag::claimable(0);

/// The packet is on its way to the host, which gets it unchanged.
pub const PUNTED: u32 = graph::flag::claimable(1);

/// The packet was received with a label, whose entry stands before its network header.
pub const BEHIND_LABEL: u32 = graph::flag::claimable(7);

/// The host answers the packet, and the router only learns from it.
pub const ANSWERED: u32 = graph::flag::claimable(8);
