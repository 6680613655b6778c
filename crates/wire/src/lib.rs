//! What packets look like: protocol headers, addresses, prefixes and checksums.
//!
//! There is no I/O, no state and no policy here. One file is one protocol:
//!
//! - a *view* (`Header<T>`) over bytes. `new_checked` proves once that every accessor is
//!   safe; after that, reading a field is one load. `T` is anything that lends bytes, and
//!   setters exist when it lends them mutably;
//! - *plain data* where a whole header is built or taken apart (`ipv4::Repr`, `arp::Arp`);
//! - a `ParseError` whose variants are the distinct reasons for refusing the bytes, so that
//!   a node can count each by name.
//!
//! Nothing here panics on the contents of a packet. `emit` functions panic when the caller
//! hands them too small a buffer: that is a bug in the program, not in the input.
#![deny(unsafe_code)]

pub mod addr;
pub mod arp;
pub mod batch;
pub mod checksum;
pub mod dhcp;
pub mod ethernet;
pub mod filter;
pub mod flow;
pub mod icmp;
pub mod icmpv4;
pub mod icmpv6;
pub mod ip4_options;
pub mod ipv4;
pub mod ipv6;
mod layout;
pub mod mld;
pub mod mpls;
pub mod nd;
pub mod pretty;
pub mod tcp;
pub mod udp;
pub mod vlan;

pub use addr::{AddressError, Family, Ipv4Address, Ipv6Address, MacAddress, Prefix, Prefix4, Prefix6};
