//! Checksums that the other end of a wire has left to hardware that is not there.
//!
//! A host leaves the checksum of TCP and UDP to its network card; a veth pair or a virtual machine's card leaves it
//! to whoever needs it, and says so beside the frame. An XDP program does not get to see that. But such a frame can
//! be told: its checksum is the pseudo header's sum (RFC 9293 section 3.1). A finished one is that, too, once in
//! 65536 times: so the first that is found is checked as its receiver would. For those after it to compute it again
//! changes nothing.
#![forbid(unsafe_code)]

use super::inside;
use crate::vnet::link_header_length;
use graph::buffer::Offload;
use wire::checksum;
use wire::ethernet::EtherType;

/// Frames of a queue that are looked at from the beginning.
const FIRST: u32 = 4096;
/// Of those after, so many polls go by between two of which one is looked at.
const INTERVAL: u32 = 64;

/// Which frames of a queue are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// All, for so many more frames.
    All(u32),
    /// The first of a poll, after so many more polls.
    Some(u32),
    /// All, for good: there was one that was not finished.
    Finishing,
}

impl Watch {
    pub fn new() -> Watch {
        Watch::All(FIRST)
    }

    /// How many of the frames of a poll are to be looked at.
    #[inline]
    pub fn due(&mut self, frames: usize) -> usize {
        match self {
            Watch::All(left) => {
                let rest = left.saturating_sub(frames as u32);
                *self = if rest > 0 { Watch::All(rest) } else { Watch::Some(INTERVAL) };
                frames
            }
            Watch::Some(0) => {
                *self = Watch::Some(INTERVAL);
                frames.min(1)
            }
            Watch::Some(polls) => {
                *polls -= 1;
                0
            }
            Watch::Finishing => frames,
        }
    }
}

/// A frame whose checksum is, or might be, not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// What is left to do.
    pub offload: Offload,
    /// Where in the frame the datagram or segment starts, and how long it says that it is.
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) pseudo: u16,
}

impl Begun {
    /// Whether the checksum is right, over all of the frame.
    pub fn is_right<'a>(&self, frame: impl Iterator<Item = &'a [u8]>) -> bool {
        let all: Vec<u8> = frame.flatten().copied().collect();
        let Some(bytes) = all.get(self.start..).and_then(|rest| rest.get(..self.length)) else { return false };
        checksum::fold(checksum::sum(bytes, self.pseudo.into())) == u16::MAX
    }
}

/// What is left to do for a frame that starts so, if it is a checksum: its own, or that of a packet inside it.
pub fn begun(head: &[u8]) -> Option<Begun> {
    let l3 = link_header_length(head)?;
    let kind = EtherType(u16::from_be_bytes(*head.get(l3 - 2..)?.first_chunk()?));
    let place = inside::network(&head[l3..], kind, inside::Around::default())?;
    Some(Begun { start: l3 + usize::from(place.offload.checksum_start), ..place })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_frames::transport_frame;
    use wire::ethernet::HEADER_LEN;

    #[test]
    fn frames_with_only_the_pseudo_headers_sum_are_told() {
        for (ip6, udp, options) in
            [false, true].map(|a| [false, true].map(|b| [false, true].map(|c| (a, b, c)))).concat().concat()
        {
            let frame = transport_frame(ip6, udp, options, b"some payload");
            let said = begun(&frame);
            let Begun { offload, .. } = said.unwrap();
            let start = if ip6 { 40 + 8 * usize::from(options) } else { 20 + 4 * usize::from(options) };
            let field = if udp { 6 } else { 16 };
            assert_eq!((offload.checksum_start as usize, offload.checksum_offset as usize), (start, field));
            let end = HEADER_LEN + start + field + 2;
            (0..end).for_each(|cut| assert_eq!(begun(&frame[..cut]), None, "{cut}"));
            let mut tagged = frame.clone();
            tagged.splice(12..12, [0x81, 0, 0, 7]);
            assert_eq!(begun(&tagged).unwrap().offload, offload, "offsets count from the network header");

            let mut finished = frame.clone();
            let sum = checksum::checksum(&frame[HEADER_LEN + start..]);
            finished[end - 2..end].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(begun(&finished), None);
            // Padding does not count, and frames may come in parts.
            finished.extend([0x55; 9]);
            assert!(said.unwrap().is_right(finished.chunks(7)) && !said.unwrap().is_right([&frame[..]].into_iter()));
            assert!(!said.unwrap().is_right([&finished[..end]].into_iter()), "cut off");
        }
        let mut fragment = transport_frame(false, true, false, b"1");
        fragment[HEADER_LEN + 6] = 0x20;
        assert_eq!(begun(&fragment), None);
        let mut none = transport_frame(true, true, false, b"1");
        none[HEADER_LEN + 46..][..2].fill(0);
        assert_eq!(begun(&none), None);
    }

    #[test]
    fn all_are_looked_at_until_none_was_found_for_long_and_then_some() {
        let mut watch = Watch::new();
        let seen: usize = (0..16).map(|_| watch.due(256)).sum();
        assert_eq!((seen, watch), (4096, Watch::Some(INTERVAL)));
        let seen: usize = (0..(INTERVAL + 1) * 3).map(|_| watch.due(256)).sum();
        assert_eq!(seen, 3);
        watch = Watch::Finishing;
        assert_eq!((watch.due(256), watch.due(7), watch), (256, 7, Watch::Finishing));
    }
}
