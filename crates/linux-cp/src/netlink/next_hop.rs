//! Next-hop objects as Linux says them (linux/nexthop.h: `struct nhmsg` and its attributes).

use super::message::{Attributes, Malformed, u16_at, u32_at};
use super::route::{Hop, address, labels};

pub const NEW: u16 = 104;
pub const DELETE: u16 = 105;

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_ENCAP_TYPE: u16 = 7;
const NHA_ENCAP: u16 = 8;
const ENCAP_MPLS: u16 = 1;
const HOP_ON_LINK: u32 = 4;

/// What an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextHop {
    Hop(Hop),
    /// Other objects, each with its weight.
    Group(Vec<(u32, u16)>),
    Drop,
    /// Its packets are to be changed in a way that the router does not follow: no way is left.
    Unknown,
}

/// Reads the payload of a message of type [`NEW`] or [`DELETE`]: the number of an object, and what it is.
///
/// # Errors
/// When it is malformed.
pub fn parse(payload: &[u8]) -> Result<(u32, NextHop), Malformed> {
    let (header, attributes) = payload.split_at_checked(8).ok_or(Malformed)?;
    let flags = u32_at(header, 4).ok_or(Malformed)?;
    let mut hop =
        Hop { link: 0, gateway: None, weight: 1, on_link: flags & HOP_ON_LINK != 0, labels: Vec::new(), ttl: None };
    let (mut id, mut group, mut is_drop, mut encap_type, mut encap) = (None, None, false, 0, &[][..]);
    for attribute in Attributes(attributes) {
        let (kind, value) = attribute?;
        match kind {
            NHA_ID => id = u32_at(value, 0),
            NHA_GROUP => group = Some(members(value)?),
            NHA_BLACKHOLE => is_drop = true,
            NHA_OIF => hop.link = u32_at(value, 0).ok_or(Malformed)?,
            NHA_GATEWAY => hop.gateway = Some(address(value).ok_or(Malformed)?),
            NHA_ENCAP_TYPE => encap_type = u16_at(value, 0).ok_or(Malformed)?,
            NHA_ENCAP => encap = value,
            _ => {}
        }
    }
    let id = id.filter(|id| *id != 0).ok_or(Malformed)?;
    Ok((
        id,
        match (group, encap_type) {
            (Some(group), _) => NextHop::Group(group),
            _ if is_drop => NextHop::Drop,
            (None, 0) => NextHop::Hop(hop),
            (None, ENCAP_MPLS) => {
                (hop.labels, hop.ttl) = labels(encap)?;
                NextHop::Hop(hop)
            }
            _ => NextHop::Unknown,
        },
    ))
}

/// `struct nexthop_grp`: an object, and its weight less one. The upper byte of the weight is in what older kernels
/// leave at zero.
fn members(bytes: &[u8]) -> Result<Vec<(u32, u16)>, Malformed> {
    if !bytes.len().is_multiple_of(8) {
        return Err(Malformed);
    }
    let member = |one: &[u8]| {
        let weight = u16::from_be_bytes([one[5], one[4]]).saturating_add(1);
        Some((u32_at(one, 0)?, weight))
    };
    bytes.chunks_exact(8).map(|one| member(one).ok_or(Malformed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::attribute;
    #[test]
    fn objects_are_single_ones_or_groups() {
        let with = |attributes: &[Vec<u8>]| {
            let id = attribute(NHA_ID, &5u32.to_ne_bytes());
            parse(&[&[2, 0, 0, 0, 4, 0, 0, 0][..], &id, &attributes.concat()].concat())
        };
        let gateway = attribute(NHA_GATEWAY, &[192, 0, 2, 1]);
        let link = attribute(NHA_OIF, &7u32.to_ne_bytes());
        let gateway_is = Some("192.0.2.1".parse().unwrap());
        let hop = Hop { link: 7, gateway: gateway_is, weight: 1, on_link: true, labels: vec![], ttl: None };
        assert_eq!(with(&[gateway, link]), Ok((5, NextHop::Hop(hop))));
        assert_eq!(with(&[attribute(NHA_BLACKHOLE, &[])]), Ok((5, NextHop::Drop)));
        let member = |id: u32, low: u8, high: u8| [&id.to_ne_bytes()[..], &[low, high, 0, 0]].concat();
        let group = attribute(NHA_GROUP, &[member(1, 0, 0), member(2, 255, 1)].concat());
        assert_eq!(with(&[group]), Ok((5, NextHop::Group(vec![(1, 1), (2, 512)]))));
        assert_eq!(with(&[attribute(NHA_GROUP, &[0; 7])]), Err(Malformed));
        assert_eq!(with(&[attribute(NHA_ENCAP_TYPE, &5u16.to_ne_bytes())]), Ok((5, NextHop::Unknown)));
        assert_eq!(parse(&[2, 0, 0, 0, 0, 0, 0, 0]), Err(Malformed), "without a number");
    }
}
