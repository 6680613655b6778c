//! Unnumbered interfaces (RFC 1812 2.2.7): point-to-point links that need no network of their own and
//! speak with the addresses of another interface, most often a loopback. Who is at the other end says
//! a route: `ip route add ADDRESS/32 via INTERFACE`.

use super::{Interface, Interfaces};
use crate::interface::InterfaceError;
use crate::notice::{Change, Notice};
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::net::Ipv4Addr;
use wire::{Family, Prefix, Prefix4};

/// Why an interface cannot borrow, or not give back, addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnnumberedError {
    #[error("{name} cannot use its own addresses")]
    Itself { name: String },
    #[error(
        "{name} has addresses of its own ('show interface address {name}'): 'set interface ip address del {name} \
         all' first"
    )]
    Numbered { name: String },
    #[error("{lender} is unnumbered itself: it uses those of {other}, which can lend them to {name}, too")]
    LenderBorrows { name: String, lender: String, other: String },
    #[error("{name} lends its addresses to {borrower}: 'set interface unnumbered del {borrower}' first")]
    Lends { name: String, borrower: String },
    #[error("{name} is unnumbered and uses the addresses of {lender}: 'set interface unnumbered del {name}' first")]
    Borrows { name: String, lender: String },
    #[error(
        "{lender} belongs to another routing table than {name}, which could not be reached by its addresses: 'set \
         interface ip table' has both belong to one"
    )]
    OtherTable { name: String, lender: String },
    #[error("{name} is not unnumbered")]
    NotBorrowing { name: String },
}

crate::codes! { UnnumberedError {
    Itself => "unnumbered-itself",
    Numbered => "unnumbered-numbered",
    LenderBorrows => "unnumbered-lender-borrows",
    Lends => "unnumbered-lends",
    Borrows => "unnumbered-borrows",
    OtherTable => "unnumbered-other-table",
    NotBorrowing => "unnumbered-not-borrowing",
} }

impl Interfaces {
    /// The addresses that an interface speaks with: its own with their networks, or those that it
    /// borrows, without.
    pub fn addresses_of(&self, interface: &Interface) -> Vec<Prefix4> {
        let lender = interface.lender.and_then(|lender| self.get(lender).ok());
        let host = |prefix: &Prefix4| Prefix4::new(prefix.address(), 32).expect("32 is a length");
        lender.map_or_else(|| interface.addresses.clone(), |lender| lender.addresses.iter().map(host).collect())
    }

    /// The address that an interface speaks with to a host: on the host's network, else its
    /// primary one.
    pub fn address_towards(&self, index: InterfaceIndex, peer: Ipv4Addr) -> Option<Ipv4Addr> {
        let addresses = self.addresses_of(self.get(index).ok()?);
        let same_network = addresses.iter().find(|prefix| prefix.contains(peer));
        same_network.or(addresses.first()).map(|prefix| prefix.address())
    }

    /// Whether an interface has an address of a family to speak with.
    pub fn has_address(&self, index: InterfaceIndex, family: Family) -> bool {
        self.get(index).is_ok_and(|interface| match family {
            Family::Ip4 => !self.addresses_of(interface).is_empty(),
            Family::Ip6 => interface.ip6.link_local.is_some(),
        })
    }

    fn borrower_of(&self, lender: InterfaceIndex) -> Option<&Interface> {
        let book = self.book.borrow();
        let mut may = book.may_borrow_from(lender).filter_map(|index| self.get(index).ok());
        may.find(|interface| interface.lender == Some(lender))
    }

    fn name_of(&self, index: InterfaceIndex) -> String {
        self.get(index).map_or_else(|_| index.to_string(), |interface| interface.name.clone())
    }
}

impl Router {
    /// Has an interface use the addresses of another, in place of whose it used.
    ///
    /// # Errors
    /// When there is no such interface, it has addresses or lends them, or the other has none of
    /// its own.
    pub fn set_unnumbered(&mut self, index: InterfaceIndex, lender: InterfaceIndex) -> Result<(), Error> {
        let (interface, other) = (self.interfaces.get(index)?, self.interfaces.get(lender)?);
        let name = interface.name.clone();
        if let Some(sub) = interface.sub.as_ref().filter(|sub| sub.takes.tags().is_none()) {
            return Err(InterfaceError::NoStation { name, takes: sub.takes }.into());
        }
        if index == lender {
            return Err(UnnumberedError::Itself { name }.into());
        }
        // Linux has had them from a router before: they are the lender's.
        let is_lent = |prefix: &Prefix| other.addresses.iter().any(|own| prefix.address() == own.address());
        let lent: Vec<Prefix> = interface.found.iter().copied().filter(is_lent).collect();
        if interface.addresses.iter().any(|prefix| !lent.contains(&Prefix::from(*prefix))) {
            return Err(UnnumberedError::Numbered { name }.into());
        }
        self.allows(Change::Borrow { interface: index })?;
        if other.ip4.table != interface.ip4.table {
            return Err(UnnumberedError::OtherTable { name, lender: other.name.clone() }.into());
        }
        if let Some(third) = other.lender {
            let (lender, other) = (other.name.clone(), self.interfaces.name_of(third));
            return Err(UnnumberedError::LenderBorrows { name, lender, other }.into());
        }
        self.check_lends_nothing(index)?;
        for prefix in lent {
            self.remove_found_address(index, prefix)?;
        }
        self.interfaces.get_mut(index)?.lender = Some(lender);
        self.has_stated_in_table(index, Family::Ip4);
        self.has_stated_in_table(lender, Family::Ip4);
        self.addresses_changed(index);
        Ok(())
    }

    /// Has an interface no longer use another's addresses.
    ///
    /// # Errors
    /// When it does not.
    pub fn reset_unnumbered(&mut self, index: InterfaceIndex) -> Result<(), Error> {
        let interface = self.interfaces.get_mut(index)?;
        if interface.lender.take().is_none() {
            return Err(UnnumberedError::NotBorrowing { name: interface.name.clone() }.into());
        }
        self.operation(|router| {
            router.addresses_changed(index);
            router.forget_detached_neighbours(index);
        });
        Ok(())
    }

    /// Refuses to take an interface away whose addresses another uses.
    pub(crate) fn check_lends_nothing(&self, index: InterfaceIndex) -> Result<(), Error> {
        let Some(borrower) = self.interfaces.borrower_of(index) else { return Ok(()) };
        let (name, borrower) = (self.interfaces.name_of(index), borrower.name.clone());
        Err(UnnumberedError::Lends { name, borrower }.into())
    }

    /// Refuses addresses of its own to an interface that uses another's.
    pub fn check_borrows_nothing(&self, interface: &Interface) -> Result<(), Error> {
        let Some(lender) = interface.lender else { return Ok(()) };
        let (name, lender) = (interface.name.clone(), self.interfaces.name_of(lender));
        Err(UnnumberedError::Borrows { name, lender }.into())
    }

    fn addresses_changed(&mut self, index: InterfaceIndex) {
        self.publish_facts();
        self.announce_all(index);
        self.say(Notice::Lender(index));
    }

    /// Tells the networks of an interface that can be used which addresses are there.
    pub(crate) fn announce_all(&self, index: InterfaceIndex) {
        let Ok(interface) = self.interfaces.get(index) else { return };
        if interface.is_usable() {
            let addresses = self.interfaces.addresses_of(interface);
            addresses.iter().for_each(|prefix| self.announce(index, prefix.address().into()));
        }
    }
}
