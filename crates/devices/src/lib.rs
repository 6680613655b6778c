//! Kinds of interfaces, one folder a kind. What moves frames to and from devices is in the crate `drivers`.
#![forbid(unsafe_code)]

pub mod af_packet;
pub mod af_xdp;
pub mod loopback;
pub mod memif;
pub mod null;
pub mod tap;
