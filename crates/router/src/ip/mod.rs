//! Routing of both families, as control keeps it: tables, routes and their paths, next hops, adjacencies, and the
//! commands on them; and the nodes that are the same of both. What else packets meet is in [`crate::ip4`] and
//! [`crate::ip6`].

pub(crate) mod adjacency;
pub(crate) mod arcs;
mod balance;
pub mod bulk;
pub mod class;
pub mod cli;
pub(crate) mod config;
pub mod control;
pub mod count;
pub(crate) mod edges;
mod entry;
pub(crate) mod fault;
pub(crate) mod fibs;
pub(crate) mod fix_up;
pub(crate) mod flow_hash;
pub(crate) mod forward;
pub(crate) mod fragment;
mod hops;
pub(crate) mod in_table;
pub mod labels;
pub(crate) mod leaves;
pub(crate) mod leaving;
mod load;
pub(crate) mod load_balance;
pub mod marks;
pub mod next_hop;
pub mod objects;
mod of_interface;
pub(crate) mod on_link;
pub(crate) mod path_list;
mod resolve;
pub(crate) mod route;
pub(crate) mod route_counters;
mod rules;
pub(crate) mod show;
pub(crate) mod source;
pub(crate) mod source6;
pub mod source_check;
pub mod stack;
mod table;
pub(crate) mod vrf;
mod why;

/// The packet was reassembled from fragments on its way; forwarding and Neighbor Discovery ask.
pub(crate) const REASSEMBLED: u32 = graph::flag::claimable(2);

/// Counts the routing tables to which routes have sent the packet.
pub(crate) const TABLES: u32 = graph::flag::claimable(5) | graph::flag::claimable(6);

pub use fibs::{Fibs, Fibs4, Fibs6};
pub use table::TableFull;
pub use vrf::TableError;
