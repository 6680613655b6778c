//! Addresses of interfaces, and the routes that they bring.

mod ip4;
mod ip6;

pub use ip6::local_route;

/// Most addresses of an interface, of each family.
pub const MAX_ADDRESSES: usize = 64;
