//! Routing of both families, as control keeps it: tables, routes and their paths, next hops, adjacencies, and the
//! commands on them; and the nodes that are the same of both. What else packets meet is in `protocols::ip4` and
//! `protocols::ip6`.

pub mod adjacency;
pub mod arcs;
mod balance;
pub mod bulk;
pub mod change;
pub mod class;
pub mod cli;
pub mod config;
pub mod control;
pub mod count;
pub mod dump;
pub mod edges;
mod entry;
pub mod fault;
pub mod fibs;
pub mod fix_up;
pub(crate) mod flow_hash;
pub mod forward;
pub mod fragment;
mod hops;
pub mod in_table;
pub mod labels;
pub mod leaves;
pub(crate) mod leaving;
mod load;
pub mod load_balance;
pub mod marks;
pub mod next_hop;
pub mod objects;
mod of_interface;
pub mod on_link;
pub mod path_list;
mod resolve;
pub mod route;
pub mod route_counters;
mod rules;
pub mod show;
pub mod source;
pub mod source6;
pub mod source_check;
pub mod stack;
mod table;
pub(crate) mod vrf;
mod why;

/// The packet was reassembled from fragments on its way; forwarding and Neighbor Discovery ask.
pub const REASSEMBLED: u32 = graph::flag::claimable(2);

/// Counts the routing tables to which routes have sent the packet.
pub const TABLES: u32 = graph::flag::claimable(5) | graph::flag::claimable(6);

pub use fibs::{Fibs, Fibs4, Fibs6};
pub use table::TableFull;
pub use vrf::TableError;
