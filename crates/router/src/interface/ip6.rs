//! IPv6 of an interface: its settings and addresses, and what nodes know of them.

use super::source_check::SourceCheck;
use super::standing::Standing;
use crate::table_index::TableIndex;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use wire::Prefix6;
use wire::ipv6::MIN_MTU;
use wire::nd::solicited_node;

/// Groups of which every router's interface is a member, of the link and of the site (RFC 4291 section 2.8), and that
/// of routers that hear reports of MLDv2 (RFC 3810 section 5.2.14).
const GROUPS: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2),
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16),
    Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 2),
];

/// The operator's IPv6 settings of an interface, and the state that follows from them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The table of its addresses, and of the packets that it receives.
    pub table: TableIndex,
    /// The one that an operator stated. Others may have set another since ([`super::found`]).
    pub stated_table: TableIndex,
    /// How the sources of received packets are checked.
    pub source_check: Option<SourceCheck>,
    /// The interface's addresses that are valid beyond its link, with their networks.
    pub addresses: Vec<Prefix6>,
    /// Whether IPv6 is enabled without such an address (`enable ip6 interface`).
    pub is_stated: bool,
    /// The link-local address, when an operator chose it.
    pub stated_link_local: Option<Ipv6Addr>,
    /// The link-local address that another capability found; it goes before the stated one, and enables IPv6.
    pub found_link_local: Option<Ipv6Addr>,
    /// The link-local address while IPv6 is enabled.
    pub link_local: Option<Ipv6Addr>,
    /// The interface's own addresses that are not in use, and why not.
    pub standing: BTreeMap<Ipv6Addr, Standing>,
    /// Hosts on other links that the interface answers for, in order.
    pub proxied: Vec<Ipv6Addr>,
    /// The object for packets onto the link, while IPv6 is enabled.
    pub on_link: Option<u32>,
}

impl Settings {
    /// Whether IPv6 is enabled on the interface.
    pub fn is_enabled(&self) -> bool {
        self.link_local.is_some()
    }
}

/// The network of a link-local address (RFC 4291 section 2.5.6).
pub(crate) fn link_local_network(address: Ipv6Addr) -> Prefix6 {
    Prefix6::new(address, 64).expect("64 is a length")
}

/// RFC 4291 section 2.5.6: the 54 bits behind fe80::/10 are zero.
pub(crate) fn check_link_local(address: Ipv6Addr) -> Result<(), Ip6Error> {
    match address.segments()[..4] == [0xfe80, 0, 0, 0] {
        true => Ok(()),
        false => Err(Ip6Error::NotLinkLocal(address)),
    }
}

/// Why IPv6 on an interface is not as wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ip6Error {
    #[error(
        "{0} is no IPv6 address for an interface (RFC 4291: the unspecified or loopback address, a group's, or one \
         that embeds an \
         IPv4 address)"
    )]
    BadAddress(Prefix6),
    #[error("{0} is link-local: every interface of IPv6 has one, and 'set ip6 link-local address' chooses it")]
    LinkLocal(Prefix6),
    #[error("{0} is no link-local address (fe80::/64)")]
    NotLinkLocal(Ipv6Addr),
    #[error("{name} takes no part in IPv6: 'enable ip6 interface {name}' or an address first")]
    NotEnabled { name: String },
    #[error("{name} has IPv6 addresses ('show interface address {name}'): take them away first")]
    HasAddresses { name: String },
    #[error("{name} carries packets of {mtu} bytes, IPv6 needs {MIN_MTU} (RFC 8200 5): 'set interface mtu' first")]
    LinkTooSmall { name: String, mtu: u16 },
    #[error(
        "{name} would carry packets of {mtu} bytes, IPv6 on it needs {MIN_MTU} (RFC 8200 5): take its IPv6 \
         addresses away, and \
         'disable ip6 interface {name}', first"
    )]
    WouldNotFit { name: String, mtu: u16 },
}

crate::codes! { Ip6Error {
    BadAddress => "ip6-bad-address",
    LinkLocal => "ip6-link-local",
    NotLinkLocal => "ip6-not-link-local",
    NotEnabled => "ip6-not-enabled",
    HasAddresses => "ip6-has-addresses",
    LinkTooSmall => "ip6-link-too-small",
    WouldNotFit => "ip6-would-not-fit",
} }

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ip6View {
    /// The routing table of packets that it receives.
    pub table: TableIndex,
    /// How the sources of packets that it receives are checked.
    pub source_check: Option<SourceCheck>,
    /// Its address of its link only; none: it takes no part in IPv6.
    pub link_local: Option<Ipv6Addr>,
    /// Its other addresses with their networks, the first one stated first.
    pub addresses: Vec<Prefix6>,
    /// Those of its addresses that are not used, and why not.
    standing: BTreeMap<Ipv6Addr, Standing>,
    /// Groups of which it is a member, in order.
    groups: Vec<Ipv6Addr>,
    /// Hosts on other links that it answers for, in order.
    proxied: Vec<Ipv6Addr>,
    /// The object of what goes onto its link.
    pub on_link: Option<u32>,
    /// It takes packets to all groups, not only to its own.
    pub all_groups: bool,
}

/// The address that every router on a network answers for: the first of the network (RFC 4291 section 2.6.1). A link
/// of two routers has none (RFC 6164 section 5.1).
pub fn subnet_router_anycast(prefix: &Prefix6) -> Option<Ipv6Addr> {
    const LONGEST: u8 = 126;
    (prefix.length() <= LONGEST).then(|| prefix.network().address())
}

impl Ip6View {
    pub fn new(settings: &Settings) -> Ip6View {
        let Settings { table, source_check, link_local, on_link, .. } = *settings;
        let own = settings.addresses.iter().map(|prefix| prefix.address()).chain(link_local);
        let own = own.chain(settings.addresses.iter().filter_map(subnet_router_anycast));
        let proxied = settings.proxied.clone();
        let answered_for = own.chain(proxied.iter().copied());
        let mut groups: Vec<Ipv6Addr> = answered_for.map(solicited_node).chain(GROUPS).collect();
        groups.sort();
        groups.dedup();
        groups.retain(|_| link_local.is_some());
        let (addresses, standing) = (settings.addresses.clone(), settings.standing.clone());
        Ip6View { table, source_check, link_local, addresses, standing, groups, proxied, on_link, all_groups: false }
    }

    #[must_use]
    pub fn taking_all_groups(mut self, all_groups: bool) -> Ip6View {
        self.all_groups = all_groups;
        self
    }

    pub fn groups(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.groups.iter().copied()
    }

    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.link_local.is_some()
    }

    /// Whether an address, of any scope, is this interface's own. One that another station has is that station's.
    pub fn owns(&self, address: Ipv6Addr) -> bool {
        (self.link_local == Some(address) || self.addresses.iter().any(|prefix| prefix.address() == address))
            && !matches!(self.standing(address), Some(Standing::Duplicate(_)))
    }

    /// Whether an address is the subnet-router anycast address of one of its networks, and not an address of its own.
    /// Other routers have it too: nothing is sent from it (RFC 4443 section 2.2).
    pub fn is_anycast(&self, address: Ipv6Addr) -> bool {
        self.addresses.iter().any(|prefix| subnet_router_anycast(prefix) == Some(address))
            && self.addresses.iter().all(|prefix| prefix.address() != address)
    }

    /// Why an own address is not used, when it is not.
    pub fn standing(&self, address: Ipv6Addr) -> Option<Standing> {
        self.standing.get(&address).copied()
    }

    /// Its own addresses that are not used, and why not.
    pub fn unused(&self) -> impl Iterator<Item = (Ipv6Addr, Standing)> + '_ {
        self.standing.iter().map(|(address, standing)| (*address, *standing))
    }

    /// Whether it answers for a host on another link.
    pub fn stands_in_for(&self, host: Ipv6Addr) -> bool {
        self.proxied.binary_search(&host).is_ok()
    }

    /// Whether it answers for any.
    #[inline]
    pub fn is_proxy(&self) -> bool {
        !self.proxied.is_empty()
    }

    /// Whether it takes packets to a group.
    pub fn is_member(&self, group: Ipv6Addr) -> bool {
        self.groups.binary_search(&group).is_ok()
    }

    /// Whether an address is on its link, as far as its own addresses say.
    pub fn is_attached(&self, peer: Ipv6Addr) -> bool {
        peer.is_unicast_link_local() || self.addresses.iter().any(|prefix| prefix.contains(peer))
    }

    /// Its address of its link only, when that is used.
    pub fn used_link_local(&self) -> Option<Ipv6Addr> {
        self.link_local.filter(|address| self.standing(*address).is_none())
    }

    /// The address that it speaks with to a peer: one of the peer's scope, on its network if there is one (RFC 6724
    /// section 5, rules 2 and 8).
    pub fn address_towards(&self, peer: Ipv6Addr) -> Option<Ipv6Addr> {
        if peer.is_unicast_link_local() {
            return self.used_link_local();
        }
        let used = || self.addresses.iter().filter(|prefix| self.standing(prefix.address()).is_none());
        let same_network = used().find(|prefix| prefix.contains(peer));
        same_network.or(used().next()).map(|prefix| prefix.address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(addresses: &[&str]) -> Ip6View {
        Ip6View::new(&Settings {
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            link_local: Some("fe80::1".parse().unwrap()),
            ..Settings::default()
        })
    }

    #[test]
    fn an_interface_is_a_member_of_the_groups_of_its_addresses() {
        let view = view(&["2001:db8::12:3456/64"]);
        for group in ["ff02::1", "ff02::2", "ff05::2", "ff02::16", "ff02::1:ff12:3456", "ff02::1:ff00:1"] {
            assert!(view.is_member(group.parse().unwrap()), "{group}");
        }
        for group in ["ff02::5", "ff02::1:ff00:2", "ff0e::1"] {
            assert!(!view.is_member(group.parse().unwrap()), "{group}");
        }
        assert!(!Ip6View::new(&Settings::default()).is_member("ff02::1".parse().unwrap()));
    }

    #[test]
    fn each_network_has_an_anycast_address_of_its_routers() {
        let view = view(&[
            "2001:db8:1::1/64",
            "2001:db8:2::/64",
            "2001:db8:3::11/126",
            "2001:db8:4::3/127",
            "2001:db8:5::1/128",
        ]);
        let anycast = |address: &str| view.is_anycast(address.parse().unwrap());
        assert!(anycast("2001:db8:1::") && anycast("2001:db8:3::10"));
        // An address of its own, those of links of two routers and of hosts, and others of the network.
        for address in ["2001:db8:2::", "2001:db8:4::2", "2001:db8:5::1", "2001:db8:5::", "2001:db8:1::1", "fe80::"] {
            assert!(!anycast(address), "{address}");
        }
        assert!(
            view.is_member("ff02::1:ff00:0".parse().unwrap()) && view.is_member("ff02::1:ff00:10".parse().unwrap())
        );
        assert!(!view.is_member("ff02::1:ff00:2".parse().unwrap()));
    }

    #[test]
    fn a_peer_sees_an_address_of_its_scope_and_network() {
        let view = view(&["2001:db8:1::1/64", "2001:db8:2::1/64"]);
        let towards = |peer: &str| view.address_towards(peer.parse().unwrap()).unwrap().to_string();
        assert_eq!(towards("fe80::9"), "fe80::1");
        assert_eq!(towards("2001:db8:2::9"), "2001:db8:2::1");
        assert_eq!(towards("2001:db8:9::9"), "2001:db8:1::1");
        assert!(view.owns("fe80::1".parse().unwrap()) && !view.owns("fe80::2".parse().unwrap()));
        assert!(view.is_attached("2001:db8:2::9".parse().unwrap()));
        assert!(!view.is_attached("2001:db8:3::9".parse().unwrap()));
    }
}
