//! VLAN tags (IEEE 802.1Q-2022, clause 9) and the link headers that carry them: up to two
//! tags stand between the addresses and the EtherType of what follows.

use crate::addr::MacAddress;
use crate::ethernet::{self, EtherType};
use std::fmt;
use std::ops::Deref;

/// Bytes of a tag: its type (TPID) and its control information (TCI).
pub const TAG_LEN: usize = 4;
/// Most tags of a frame.
pub const MAX_TAGS: usize = 2;
/// Most bytes of a link header.
pub const MAX_LINK_HEADER: usize = ethernet::HEADER_LEN + MAX_TAGS * TAG_LEN;
/// The VLAN identifiers that networks can have (9.6): 0 is "no VLAN, only a priority", 4095 is reserved.
pub const MIN_VID: u16 = 1;
pub const MAX_VID: u16 = 4094;
/// The bits of the TCI that are the VLAN identifier.
pub const VID_MASK: u16 = 0x0fff;

/// One tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag {
    /// [`EtherType::VLAN`] for 802.1Q, [`EtherType::QINQ`] for 802.1ad.
    pub tpid: EtherType,
    /// Priority (3 bits), drop eligibility (1 bit), VLAN identifier (12 bits).
    pub tci: u16,
}

impl Tag {
    /// The tag that opens `bytes`, when its type is one of the two.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Tag> {
        let &[a, b, c, d, ..] = bytes else { return None };
        let tpid = EtherType(u16::from_be_bytes([a, b]));
        tpid.is_tag().then_some(Tag { tpid, tci: u16::from_be_bytes([c, d]) })
    }

    /// The VLAN identifier.
    #[inline]
    pub fn vid(self) -> u16 {
        self.tci & VID_MASK
    }

    /// The priority (PCP).
    #[inline]
    pub fn priority(self) -> u8 {
        (self.tci >> 13) as u8
    }

    /// Whether it may be dropped before others (DEI).
    #[inline]
    pub fn is_drop_eligible(self) -> bool {
        self.tci & 0x1000 != 0
    }

    fn bytes(self) -> [u8; TAG_LEN] {
        let ([a, b], [c, d]) = (self.tpid.0.to_be_bytes(), self.tci.to_be_bytes());
        [a, b, c, d]
    }
}

/// The tags of a frame, the outer one first: none, one or two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tags {
    bytes: [u8; MAX_TAGS * TAG_LEN],
    length: u8,
}

impl Tags {
    pub const NONE: Tags = Tags { bytes: [0; MAX_TAGS * TAG_LEN], length: 0 };

    /// # Panics
    /// When there are more than [`MAX_TAGS`].
    pub fn new(tags: &[Tag]) -> Tags {
        let mut all = Tags::NONE;
        for (place, tag) in all.bytes.chunks_exact_mut(TAG_LEN).zip(tags) {
            place.copy_from_slice(&tag.bytes());
        }
        assert!(tags.len() <= MAX_TAGS);
        all.length = (tags.len() * TAG_LEN) as u8;
        all
    }

    /// As they stand in a frame.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }

    pub fn iter(&self) -> impl Iterator<Item = Tag> {
        self.as_bytes().chunks_exact(TAG_LEN).filter_map(Tag::parse)
    }

    /// What stands before a network header of `ethertype`.
    pub fn link_header(&self, to: MacAddress, from: MacAddress, ethertype: EtherType) -> LinkHeader {
        let mut header = LinkHeader { bytes: [0; MAX_LINK_HEADER], length: ethernet::HEADER_LEN as u8 + self.length };
        let end = header.length as usize;
        header.bytes[..6].copy_from_slice(&to.0);
        header.bytes[6..12].copy_from_slice(&from.0);
        header.bytes[12..end - 2].copy_from_slice(self.as_bytes());
        header.bytes[end - 2..end].copy_from_slice(&ethertype.0.to_be_bytes());
        header
    }
}

impl fmt::Debug for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// What stands before a network header on an Ethernet link: 14, 18 or 22 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkHeader {
    bytes: [u8; MAX_LINK_HEADER],
    length: u8,
}

impl LinkHeader {
    /// The Ethernet addresses, that of the receiver first: 12 bytes.
    pub fn addresses_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..12]
    }
}

impl Deref for LinkHeader {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const FROM: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xaa]);

    #[test]
    fn tags_stand_between_addresses_and_ethertype() {
        let outer = Tag { tpid: EtherType::QINQ, tci: 0xb00a };
        let inner = Tag { tpid: EtherType::VLAN, tci: 20 };
        let addresses = [TO.0, FROM.0].concat();
        for (tags, between) in [
            (Tags::NONE, vec![]),
            (Tags::new(&[inner]), vec![0x81, 0, 0, 20]),
            (Tags::new(&[outer, inner]), vec![0x88, 0xa8, 0xb0, 0x0a, 0x81, 0, 0, 20]),
        ] {
            let header = tags.link_header(TO, FROM, EtherType::ARP);
            assert_eq!(*header, [&addresses[..], &between, &[8, 6]].concat());
            assert_eq!(Tags::new(&tags.iter().collect::<Vec<_>>()), tags);
        }
    }

    #[test]
    fn control_information_is_priority_eligibility_and_identifier() {
        let tag = Tag::parse(&[0x88, 0xa8, 0xb0, 0x0a, 0x81]).unwrap();
        assert_eq!((tag.priority(), tag.is_drop_eligible(), tag.vid()), (5, true, 10));
        assert_eq!(Tag::parse(&[0x08, 0x00, 0, 1]), None);
        assert_eq!(Tag::parse(&[0x81, 0x00, 0]), None);
    }
}
