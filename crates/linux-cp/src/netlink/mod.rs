//! rtnetlink(7): requests to Linux, and what it says by itself.
//!
//! Links and addresses are few, so their messages are read by a library (`request`). Routes and neighbours may be
//! millions, so theirs are read in place (`message`, `route`, `next_hop`, `neighbour`). All of it comes from outside:
//! what is malformed is refused, and counted.

pub mod link;
pub mod message;
pub mod neighbour;
pub mod next_hop;
pub mod request;
pub mod route;
pub mod subscription;

pub use request::Netlink;
