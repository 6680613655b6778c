//! The router as a whole, from a device's receive queue to another's transmit queue, in
//! one thread that steps the worker by hand: exact packets in, exact packets and counters
//! out. One binary, so that all tests share one bed.

mod accounting;
mod arp;
mod bed;
mod capture;
mod commands;
mod config;
mod count;
mod dad;
mod dhcp;
mod drops;
mod forwarding;
mod fragmentation;
mod fragmentation6;
mod hostile;
mod icmp;
mod input;
mod inspect;
mod interfaces;
mod ip6;
mod local;
mod local6;
mod mld;
mod nd;
mod offload;
mod options;
mod packet;
mod packet6;
mod pieces;
mod ping;
mod ping6;
mod proxy6;
mod punt;
mod punt6;
mod reassembly;
mod reassembly6;
mod recursion;
mod redirect6;
mod router_advertisement;
mod routes;
mod source;
mod source6;
mod span;
mod vlan;
mod vrf;
