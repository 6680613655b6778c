//! What operators do with a router beyond protocols: looking inside, configuration, the log, captures, mirroring, test
//! traffic; one folder a capability.
#![forbid(unsafe_code)]

pub mod capture;
pub mod config;
pub mod handoff;
pub mod inspect;
pub mod logging;
pub mod packet_generator;
pub mod span;

/// The capabilities of this crate.
pub const CAPABILITIES: router::capability::List = &[
    &span::CAPABILITY,
    &handoff::CAPABILITY,
    &packet_generator::CAPABILITY,
    &config::CAPABILITY,
    &capture::CAPABILITY,
    &inspect::CAPABILITY,
    &logging::CAPABILITY,
];
