//! Messages about links, as far as they say which are VLANs of others, or VRFs (linux/if_link.h).

use super::message::{Attributes, Malformed, u16_at, u32_at};
use wire::ethernet::EtherType;

pub const NEW: u16 = 16;
pub const DELETE: u16 = 17;

/// `struct ifinfomsg`: the number of the link is behind its family and type, and its flags are behind that.
const HEADER: usize = 16;
const AF_UNSPEC: u8 = 0;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_VLAN_ID: u16 = 1;
const IFLA_VLAN_PROTOCOL: u16 = 5;
const IFLA_VRF_TABLE: u16 = 1;
/// The link below is in another namespace.
const IFLA_LINK_NETNSID: u16 = 37;

/// A link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub number: u32,
    pub flags: u32,
    pub kind: Kind,
}

/// What a message says of the kind of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: not every message is about all of a link.
    NotSaid,
    Vlan(VlanLink),
    /// The device of a VRF, with the number of its table.
    Vrf(u32),
    Other,
}

/// A link that is a VLAN of another one in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VlanLink {
    pub name: String,
    /// The link below.
    pub parent: u32,
    pub outer_type: EtherType,
    pub vid: u16,
}

/// Reads a message about a link. None: it is about the link's part in something else, for example as port of a bridge,
/// where `DELETE` does not mean that the link is gone.
///
/// # Errors
/// When it is no such message.
pub fn parse(payload: &[u8]) -> Result<Option<Link>, Malformed> {
    let (number, flags) = (u32_at(payload, 4).ok_or(Malformed)?, u32_at(payload, 8).ok_or(Malformed)?);
    if payload.first() != Some(&AF_UNSPEC) {
        return Ok(None);
    }
    let (mut name, mut parent, mut info, mut is_far) = (None, None, None, false);
    for attribute in Attributes(payload.get(HEADER..).ok_or(Malformed)?) {
        let (kind, value) = attribute?;
        match kind {
            IFLA_IFNAME => name = Some(value),
            IFLA_LINK => parent = Some(u32_at(value, 0).ok_or(Malformed)?),
            IFLA_LINKINFO => info = Some(value),
            IFLA_LINK_NETNSID => is_far = true,
            _ => {}
        }
    }
    let kind = match (info.map(kind_of).transpose()?, parent, name) {
        (None, ..) => Kind::NotSaid,
        (Some(Info::Vrf(table)), ..) => Kind::Vrf(table),
        (Some(Info::Vlan(outer_type, vid)), Some(parent), Some(name)) if !is_far => {
            let name = String::from_utf8_lossy(name.strip_suffix(&[0]).unwrap_or(name)).into_owned();
            Kind::Vlan(VlanLink { name, parent, outer_type, vid })
        }
        _ => Kind::Other,
    };
    Ok(Some(Link { number, flags, kind }))
}

/// What the kind says.
enum Info {
    /// With its tag.
    Vlan(EtherType, u16),
    /// With its table.
    Vrf(u32),
    Other,
}

fn kind_of(info: &[u8]) -> Result<Info, Malformed> {
    let (mut kind, mut data) = (&[][..], &[][..]);
    for attribute in Attributes(info) {
        match attribute? {
            (IFLA_INFO_KIND, value) => kind = value.strip_suffix(&[0]).unwrap_or(value),
            (IFLA_INFO_DATA, value) => data = value,
            _ => {}
        }
    }
    match kind {
        b"vlan" => Ok(tag_of(data)?.map_or(Info::Other, |(outer_type, vid)| Info::Vlan(outer_type, vid))),
        b"vrf" => Ok(table_of(data)?.map_or(Info::Other, Info::Vrf)),
        _ => Ok(Info::Other),
    }
}

fn table_of(data: &[u8]) -> Result<Option<u32>, Malformed> {
    let mut table = None;
    for attribute in Attributes(data) {
        if let (IFLA_VRF_TABLE, value) = attribute? {
            table = Some(u32_at(value, 0).ok_or(Malformed)?);
        }
    }
    Ok(table)
}

fn tag_of(data: &[u8]) -> Result<Option<(EtherType, u16)>, Malformed> {
    let (mut vid, mut outer_type) = (None, EtherType::VLAN);
    for attribute in Attributes(data) {
        match attribute? {
            (IFLA_VLAN_ID, value) => vid = Some(u16_at(value, 0).ok_or(Malformed)?),
            // In the byte order of the wire.
            (IFLA_VLAN_PROTOCOL, &[a, b]) => outer_type = EtherType(u16::from_be_bytes([a, b])),
            _ => {}
        }
    }
    Ok(vid.map(|vid| (outer_type, vid)))
}

#[cfg(test)]
mod tests {
    use super::super::message::attribute;
    use super::*;

    fn link(number: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
        let head = [&[0; 4][..], &number.to_ne_bytes(), &1u32.to_ne_bytes(), &[0; 4]].concat();
        [head, attributes.concat()].concat()
    }

    fn info(kind: &[u8], data: &[Vec<u8>]) -> Vec<u8> {
        attribute(IFLA_LINKINFO, &[attribute(1, kind), attribute(2, &data.concat())].concat())
    }

    #[test]
    fn vlans_are_known_by_their_tag_and_the_link_below() {
        let name = attribute(IFLA_IFNAME, b"servers\0");
        let parent = attribute(IFLA_LINK, &7u32.to_ne_bytes());
        let vid = attribute(IFLA_VLAN_ID, &101u16.to_ne_bytes());
        let outer = attribute(IFLA_VLAN_PROTOCOL, &[0x88, 0xa8]);
        let vlan = info(b"vlan\0", &[vid.clone(), outer]);
        let known = parse(&link(9, &[name.clone(), parent.clone(), vlan.clone()])).unwrap().unwrap();
        let expected = VlanLink { name: "servers".into(), parent: 7, outer_type: EtherType::QINQ, vid: 101 };
        assert_eq!(known, Link { number: 9, flags: 1, kind: Kind::Vlan(expected) });
        // A link of another kind, one above a link of another namespace, and one without a number.
        let far = attribute(IFLA_LINK_NETNSID, &[0; 4]);
        for attributes in [
            vec![name.clone(), parent.clone(), info(b"macvlan\0", std::slice::from_ref(&vid))],
            vec![name.clone(), parent.clone(), vlan.clone(), far],
            vec![name.clone(), parent.clone(), info(b"vlan\0", &[])],
            vec![name.clone(), vlan.clone()],
        ] {
            assert_eq!(parse(&link(9, &attributes)).unwrap().unwrap().kind, Kind::Other);
        }
        let vrf = info(b"vrf\0", &[attribute(IFLA_VRF_TABLE, &1000u32.to_ne_bytes())]);
        assert_eq!(parse(&link(9, &[name.clone(), vrf])).unwrap().unwrap().kind, Kind::Vrf(1000));
        assert_eq!(parse(&link(9, &[name.clone(), info(b"vrf\0", &[])])).unwrap().unwrap().kind, Kind::Other);
        assert_eq!(parse(&link(9, &[info(b"vrf\0", &[attribute(IFLA_VRF_TABLE, &[1])])])), Err(Malformed));
        // A message about something else of the link, and one about a port of a bridge.
        assert_eq!(parse(&link(9, std::slice::from_ref(&name))).unwrap().unwrap().kind, Kind::NotSaid);
        let mut port = link(9, &[name, parent, vlan]);
        port[0] = 7;
        assert_eq!(parse(&port), Ok(None));
        assert_eq!(parse(&[0; 15]), Err(Malformed));
        assert_eq!(parse(&link(9, &[info(b"vlan\0", &[vec![3, 0, 1, 0]])])), Err(Malformed));
        assert_eq!(parse(&link(9, &[attribute(IFLA_LINK, &[1])])), Err(Malformed));
    }
}
