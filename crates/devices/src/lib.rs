//! Kinds of interfaces, one folder a kind. What moves frames to and from devices is in the crate `drivers`.
#![forbid(unsafe_code)]

pub mod af_packet;
pub mod af_xdp;
pub mod loopback;
pub mod memif;
pub mod null;
pub mod tap;

/// The capabilities of this crate.
pub const CAPABILITIES: router::capability::List = &[
    &null::CAPABILITY,
    &loopback::CAPABILITY,
    &tap::CAPABILITY,
    &af_packet::CAPABILITY,
    &af_xdp::CAPABILITY,
    &memif::CAPABILITY,
];
