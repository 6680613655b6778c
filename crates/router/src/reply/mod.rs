//! What nodes leave for those that answer in the router's name: reports for `ip4-icmp-error` and `ip6-icmp-error`, and
//! why a packet is to be punted; and what all of these nodes look at.
//!
//! It stands below the capabilities that forward and below those that answer, so that neither needs the other.

pub mod marks;
pub mod policy;
pub mod report;
pub mod report4;
pub mod report6;
pub mod to_host;
pub mod unclaimed;
