//! Routes as Linux says them (linux/rtnetlink.h: `struct rtmsg` and its attributes).

use super::message::{Attributes, Malformed, u16_at, u32_at};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::{Family, Prefix};

pub const NEW: u16 = 24;
pub const DELETE: u16 = 25;

pub const AF_INET: u8 = 2;
pub const AF_INET6: u8 = 10;

/// The table of routes that are not of a VRF.
pub const TABLE_MAIN: u32 = 254;

/// Routes that follow from addresses, or from ICMP (linux/rtnetlink.h `RTPROT_*`).
const PROTOCOL_REDIRECT: u8 = 1;
const PROTOCOL_KERNEL: u8 = 2;

/// A copy of a route for one destination.
const FLAG_CLONED: u32 = 0x200;
/// The next hop is on the link whatever addresses there are.
const HOP_ON_LINK: u32 = 4;

/// Most paths of one route that count: more than that are refused, as the router takes no more.
const MAX_HOPS: usize = router::ip::route::MAX_PATHS;
/// Most labels on one path.
const MAX_LABELS: usize = 16;

const TYPE_UNICAST: u8 = 1;
const TYPE_BLACKHOLE: u8 = 6;
const TYPE_UNREACHABLE: u8 = 7;
const TYPE_PROHIBIT: u8 = 8;

const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
const RTA_NH_ID: u16 = 30;

/// linux/lwtunnel.h and linux/mpls_iptunnel.h.
const ENCAP_MPLS: u16 = 1;
const MPLS_IPTUNNEL_DST: u16 = 1;
const MPLS_IPTUNNEL_TTL: u16 = 2;

/// One way of a route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The interface of Linux.
    pub link: u32,
    pub gateway: Option<IpAddr>,
    /// From 1 on.
    pub weight: u16,
    pub on_link: bool,
    /// Labels that are pushed, the outermost first, and their time to live.
    pub labels: Vec<u32>,
    pub ttl: Option<u8>,
}

/// Where a route leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    Hops(Vec<Hop>),
    /// The network of an address of this link.
    Connected(u32),
    /// A next-hop object, by its number.
    Object(u32),
    Drop,
    Unreachable,
    Prohibit,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub table: u32,
    pub prefix: Prefix,
    /// The lowest of a prefix forwards.
    pub metric: u32,
    pub target: Target,
}

/// Why a message is about no route that is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotFollowed {
    Malformed,
    /// It follows from an address, is a copy, is of a kind without a counterpart, or depends on more than the
    /// destination.
    Other,
}

impl From<Malformed> for NotFollowed {
    fn from(_: Malformed) -> NotFollowed {
        NotFollowed::Malformed
    }
}

/// What attributes say of one way.
#[derive(Default)]
struct Way<'a> {
    link: u32,
    gateway: Option<IpAddr>,
    encap_type: u16,
    encap: Option<&'a [u8]>,
}

impl<'a> Way<'a> {
    fn take(&mut self, kind: u16, value: &'a [u8]) -> Result<(), Malformed> {
        match kind {
            RTA_OIF => self.link = u32_at(value, 0).ok_or(Malformed)?,
            RTA_GATEWAY => self.gateway = Some(address(value).ok_or(Malformed)?),
            // RFC 8950: the gateway may be of another family.
            RTA_VIA => self.gateway = Some(via(value).ok_or(Malformed)?),
            RTA_ENCAP_TYPE => self.encap_type = u16_at(value, 0).ok_or(Malformed)?,
            RTA_ENCAP => self.encap = Some(value),
            _ => {}
        }
        Ok(())
    }

    fn hop(self, weight: u16, flags: u32) -> Result<Hop, NotFollowed> {
        let (labels, ttl) = match (self.encap_type, self.encap) {
            (ENCAP_MPLS, Some(encap)) => labels(encap)?,
            (0, _) => (Vec::new(), None),
            // The packets would leave without what is to be around them.
            _ => return Err(NotFollowed::Other),
        };
        let gateway = self.gateway.filter(|gateway| !gateway.is_unspecified());
        Ok(Hop { link: self.link, gateway, weight, on_link: flags & HOP_ON_LINK != 0, labels, ttl })
    }
}

/// Reads the payload of a message of type [`NEW`] or [`DELETE`].
///
/// # Errors
/// When it is about no route that is followed.
pub fn parse(payload: &[u8]) -> Result<Route, NotFollowed> {
    let (header, attributes) = payload.split_at_checked(12).ok_or(Malformed)?;
    let [family, length, source_length, tos, table, protocol, _, kind, ..] = *header else {
        return Err(Malformed.into());
    };
    let flags = u32_at(header, 8).ok_or(Malformed)?;
    let family = match family {
        AF_INET => Family::Ip4,
        AF_INET6 => Family::Ip6,
        _ => return Err(NotFollowed::Other),
    };
    let is_followed = matches!(kind, TYPE_UNICAST | TYPE_BLACKHOLE | TYPE_UNREACHABLE | TYPE_PROHIBIT);
    if !is_followed || protocol == PROTOCOL_REDIRECT || flags & FLAG_CLONED != 0 || source_length != 0 || tos != 0 {
        return Err(NotFollowed::Other);
    }
    let (mut table, mut metric, mut destination) = (u32::from(table), 0, family.unspecified());
    let (mut way, mut hops, mut object) = (Way::default(), Vec::new(), None);
    for attribute in Attributes(attributes) {
        let (kind, value) = attribute?;
        match kind {
            RTA_DST => destination = address(value).ok_or(Malformed)?,
            RTA_SRC => return Err(NotFollowed::Other),
            RTA_PRIORITY => metric = u32_at(value, 0).ok_or(Malformed)?,
            RTA_TABLE => table = u32_at(value, 0).ok_or(Malformed)?,
            RTA_MULTIPATH => hops = multipath(value)?,
            RTA_NH_ID => object = u32_at(value, 0),
            _ => way.take(kind, value)?,
        }
    }
    let prefix = prefix(destination, length, family).ok_or(Malformed)?;
    if protocol == PROTOCOL_KERNEL {
        return connected(table, prefix, metric, &way).filter(|_| kind == TYPE_UNICAST).ok_or(NotFollowed::Other);
    }
    let target = match (kind, object) {
        (TYPE_BLACKHOLE, _) => Target::Drop,
        (TYPE_UNREACHABLE, _) => Target::Unreachable,
        (TYPE_PROHIBIT, _) => Target::Prohibit,
        (_, Some(object)) => Target::Object(object),
        _ if hops.is_empty() => Target::Hops(vec![way.hop(1, flags)?]),
        _ => Target::Hops(hops),
    };
    Ok(Route { table, prefix, metric, target })
}

/// A route that follows from an address, if others than those on the link may send there.
fn connected(table: u32, prefix: Prefix, metric: u32, way: &Way<'_>) -> Option<Route> {
    let is_of_link = match prefix {
        Prefix::V4(prefix) => {
            let address = prefix.address();
            address.is_multicast() || address.is_loopback() || address.is_link_local()
        }
        Prefix::V6(prefix) => {
            let address = prefix.address();
            address.is_multicast() || address.is_unicast_link_local() || address.is_loopback()
        }
    };
    let target = Target::Connected(way.link);
    (way.link != 0 && way.gateway.is_none() && !is_of_link).then_some(Route { table, prefix, metric, target })
}

/// The table, the prefix and the metric of a route that depends on nothing else, of whatever kind it is.
pub fn key(payload: &[u8]) -> Option<(u32, Prefix, u32)> {
    let (header, attributes) = payload.split_at_checked(12)?;
    let [family, length, 0, 0, table, ..] = *header else { return None };
    let family = match family {
        AF_INET => Family::Ip4,
        AF_INET6 => Family::Ip6,
        _ => return None,
    };
    let (mut table, mut metric, mut destination) = (u32::from(table), 0, family.unspecified());
    for attribute in Attributes(attributes) {
        match attribute.ok()? {
            (RTA_DST, value) => destination = address(value)?,
            (RTA_PRIORITY, value) => metric = u32_at(value, 0)?,
            (RTA_TABLE, value) => table = u32_at(value, 0)?,
            _ => {}
        }
    }
    Some((table, prefix(destination, length, family)?, metric))
}

/// `struct rtnexthop`: a length, flags, a weight less one, an interface, and attributes.
fn multipath(mut bytes: &[u8]) -> Result<Vec<Hop>, NotFollowed> {
    let mut hops = Vec::new();
    while !bytes.is_empty() {
        let length = usize::from(u16_at(bytes, 0).ok_or(Malformed)?);
        let one = bytes.get(8..length).ok_or(Malformed)?;
        let (flags, weight) = (u32::from(bytes[2]), u16::from(bytes[3]) + 1);
        let mut way = Way { link: u32_at(bytes, 4).ok_or(Malformed)?, ..Way::default() };
        for attribute in Attributes(one) {
            let (kind, value) = attribute?;
            way.take(kind, value)?;
        }
        if hops.len() < MAX_HOPS {
            hops.push(way.hop(weight, flags)?);
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Ok(hops)
}

/// An address by its length.
pub fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

/// `struct rtvia`: a family and an address, whose length follows from the family.
fn via(bytes: &[u8]) -> Option<IpAddr> {
    let length = match u16_at(bytes, 0)? {
        family if family == u16::from(AF_INET) => 4,
        family if family == u16::from(AF_INET6) => 16,
        _ => return None,
    };
    address(bytes.get(2..2 + length)?)
}

fn prefix(address: IpAddr, length: u8, family: Family) -> Option<Prefix> {
    let prefix = Prefix::new(address, length).ok().filter(|prefix| prefix.family() == family);
    prefix.map(Prefix::network)
}

/// The labels of an encapsulation, the outermost first, and their time to live.
pub fn labels(encap: &[u8]) -> Result<(Vec<u32>, Option<u8>), Malformed> {
    let (mut labels, mut ttl) = (Vec::new(), None);
    for attribute in Attributes(encap) {
        match attribute? {
            (MPLS_IPTUNNEL_DST, stack) if stack.len().is_multiple_of(4) && stack.len() <= 4 * MAX_LABELS => {
                let entries = stack.chunks_exact(4);
                labels =
                    entries.map(|entry| u32::from_be_bytes([entry[0], entry[1], entry[2], entry[3]]) >> 12).collect();
            }
            (MPLS_IPTUNNEL_DST, _) => return Err(Malformed),
            (MPLS_IPTUNNEL_TTL, value) => ttl = value.first().copied(),
            _ => {}
        }
    }
    Ok((labels, ttl))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::attribute;
    /// A route of a family and type, with attributes.
    fn route(family: u8, length: u8, kind: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        let header = [family, length, 0, 0, 254, 4, 0, kind, 0, 0, 0, 0];
        [&header[..], &attributes.concat()].concat()
    }

    fn hop(link: u32, gateway: &str) -> Hop {
        let gateway = Some(gateway.parse().unwrap());
        Hop { link, gateway, weight: 1, on_link: false, labels: vec![], ttl: None }
    }

    fn of(bytes: &[u8]) -> Result<(u32, String, u32, Target), NotFollowed> {
        parse(bytes).map(|route| (route.table, route.prefix.to_string(), route.metric, route.target))
    }

    #[test]
    fn a_route_has_a_table_a_prefix_a_metric_and_a_target() {
        let destination = attribute(RTA_DST, &[10, 1, 2, 3]);
        let gateway = [attribute(RTA_GATEWAY, &[192, 0, 2, 1]), attribute(RTA_OIF, &7u32.to_ne_bytes())].concat();
        let metric = attribute(RTA_PRIORITY, &20u32.to_ne_bytes());
        let bytes = route(AF_INET, 24, 1, &[destination.clone(), gateway.clone(), metric]);
        let target = Target::Hops(vec![hop(7, "192.0.2.1")]);
        assert_eq!(of(&bytes), Ok((254, "10.1.2.0/24".into(), 20, target.clone())), "without bits of hosts");
        let table = attribute(RTA_TABLE, &1000u32.to_ne_bytes());
        let bytes = route(AF_INET, 0, 1, &[table, gateway.clone()]);
        assert_eq!(of(&bytes), Ok((1000, "0.0.0.0/0".into(), 0, target)), "the number in the attribute counts");
        for (kind, target) in [(6, Target::Drop), (7, Target::Unreachable), (8, Target::Prohibit)] {
            let bytes = route(AF_INET, 32, kind, std::slice::from_ref(&destination));
            assert_eq!(of(&bytes), Ok((254, "10.1.2.3/32".into(), 0, target)));
        }
        let object = attribute(RTA_NH_ID, &9u32.to_ne_bytes());
        let bytes = route(AF_INET, 32, 1, &[destination, object, gateway]);
        assert_eq!(of(&bytes).unwrap().3, Target::Object(9), "the object, and not what it leads to now");
    }

    #[test]
    fn weights_are_stored_less_one() {
        let way = |link: u32, weight: u8, flags: u8, gateway: Vec<u8>| {
            let length = 8 + gateway.len() as u16;
            [&length.to_ne_bytes()[..], &[flags, weight], &link.to_ne_bytes(), &gateway].concat()
        };
        let gateway = |last: u8| attribute(RTA_GATEWAY, &[192, 0, 2, last]);
        let both = [way(7, 0, 0, gateway(1)), way(8, 255, 4, gateway(2))].concat();
        let bytes = route(AF_INET, 8, 1, &[attribute(RTA_DST, &[10, 0, 0, 0]), attribute(RTA_MULTIPATH, &both)]);
        let second = Hop { weight: 256, on_link: true, ..hop(8, "192.0.2.2") };
        assert_eq!(of(&bytes).unwrap().3, Target::Hops(vec![hop(7, "192.0.2.1"), second]));
        // A length that does not cover the way itself.
        let broken = attribute(RTA_MULTIPATH, &way(7, 0, 0, vec![])[..7]);
        assert_eq!(of(&route(AF_INET, 8, 1, &[broken])), Err(NotFollowed::Malformed));
    }

    #[test]
    fn a_gateway_may_be_of_another_family() {
        let via = [&10u16.to_ne_bytes()[..], &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]].concat();
        let bytes = route(AF_INET, 0, 1, &[attribute(RTA_VIA, &via), attribute(RTA_OIF, &7u32.to_ne_bytes())]);
        assert_eq!(of(&bytes).unwrap().3, Target::Hops(vec![hop(7, "fe80::1")]), "whole, and not its first bytes");
        let short = attribute(RTA_VIA, &via[..6]);
        assert_eq!(of(&route(AF_INET, 0, 1, &[short])), Err(NotFollowed::Malformed));
    }

    #[test]
    fn labels_are_of_the_path() {
        let stack = [0, 1, 0, 0, 0, 1, 0x11, 0];
        let encap = [attribute(MPLS_IPTUNNEL_DST, &stack), attribute(MPLS_IPTUNNEL_TTL, &[9])].concat();
        let kind = |kind: u16| attribute(RTA_ENCAP_TYPE, &kind.to_ne_bytes());
        let bytes = |of: u16| route(AF_INET, 0, 1, &[kind(of), attribute(RTA_ENCAP, &encap)]);
        let Ok((.., Target::Hops(hops))) = of(&bytes(1)) else { panic!("no hops") };
        assert_eq!((&hops[0].labels[..], hops[0].ttl), (&[16, 17][..], Some(9)));
        assert_eq!(of(&bytes(5)), Err(NotFollowed::Other), "packets would leave bare");
    }

    #[test]
    fn networks_of_addresses_are_those_of_their_link() {
        let of_kernel = |destination: &[u8], length: u8, more: &[Vec<u8>]| {
            let family = if destination.len() == 4 { AF_INET } else { AF_INET6 };
            let mut bytes = route(family, length, 1, &[attribute(RTA_DST, destination), more.concat()]);
            bytes[5] = PROTOCOL_KERNEL;
            of(&bytes).map(|(.., target)| target)
        };
        let by = attribute(RTA_OIF, &7u32.to_ne_bytes());
        assert_eq!(of_kernel(&[10, 1, 0, 0], 16, std::slice::from_ref(&by)), Ok(Target::Connected(7)));
        let gateway = attribute(RTA_GATEWAY, &[10, 1, 0, 1]);
        assert_eq!(of_kernel(&[10, 2, 0, 0], 16, &[by.clone(), gateway]), Err(NotFollowed::Other));
        let mut link_local = [0; 16];
        link_local[..2].copy_from_slice(&[0xfe, 0x80]);
        assert_eq!(of_kernel(&link_local, 64, std::slice::from_ref(&by)), Err(NotFollowed::Other));
        assert_eq!(of_kernel(&[127, 0, 0, 0], 8, &[by]), Err(NotFollowed::Other));
    }

    #[test]
    fn what_is_no_route_of_ours_is_not_followed() {
        let other = |change: fn(&mut Vec<u8>)| {
            let mut bytes = route(AF_INET, 8, 1, &[attribute(RTA_DST, &[10, 0, 0, 0])]);
            change(&mut bytes);
            of(&bytes)
        };
        assert!(other(|_| ()).is_ok());
        assert_eq!(other(|bytes| bytes[0] = 28), Err(NotFollowed::Other), "another family");
        assert_eq!(other(|bytes| bytes[3] = 8), Err(NotFollowed::Other), "a type of service");
        assert_eq!(other(|bytes| bytes[5] = 2), Err(NotFollowed::Other), "of the kernel itself");
        assert_eq!(other(|bytes| bytes[7] = 2), Err(NotFollowed::Other), "a local address");
        assert_eq!(other(|bytes| bytes[1] = 33), Err(NotFollowed::Malformed), "a length beyond the address");
        assert_eq!(other(|bytes| bytes[12] = 40), Err(NotFollowed::Malformed), "an attribute beyond the end");
        assert_eq!(other(|bytes| bytes[0] = AF_INET6), Err(NotFollowed::Malformed), "an address of the wrong length");
        assert_eq!(of(&[2, 0, 0]), Err(NotFollowed::Malformed));
    }
}
