//! The load tester: makes packets, receives them, and accounts for each.
//!
//! It is a second router beside the one under test, with ports of its own: any driver, and the same graph. One source
//! node makes packets ([`generate`]), one node takes those that come back and are ours ([`receive`]); all else that a
//! port brings (ARP, neighbour discovery, pings) goes the way that it goes in any router.
//!
//! Read in this order: [`arithmetic`] (what sizes mean), [`profile`] (what is sent), [`tag`] (how a packet is known
//! again), [`generate`], [`receive`], [`port`], [`device`] (what is under test), [`run`], [`report`]; then [`method`]
//! and [`session`], with [`load`], [`others`] and [`verdict`]; [`console`] is the same, steered by hand.
#![forbid(unsafe_code)]

pub mod arithmetic;
pub mod console;
pub mod device;
pub mod energy;
mod epochs;
pub mod frame;
pub mod generate;
pub mod layout;
pub mod linerate;
pub mod load;
pub mod method;
pub mod others;
pub mod page;
pub mod port;
pub mod probe;
pub mod profile;
pub mod program;
pub mod rate;
pub mod receive;
pub mod report;
pub mod run;
pub mod session;
pub mod tag;
pub mod tester;
pub mod verdict;
