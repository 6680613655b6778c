//! Addresses of interfaces, and the routes that they bring.

mod ip4;
mod ip6;

pub use ip6::local_route;

/// Most addresses of an interface, of each family.
pub const MAX_ADDRESSES: usize = 64;

/// Why an interface cannot have an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("too many addresses on one interface (at most {max})", max = MAX_ADDRESSES)]
    TooMany,
}

crate::codes! { AddressError {
    TooMany => "address-too-many",
} }
