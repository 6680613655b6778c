//! Unfinished checksums: the sender left them to hardware, but no hardware computes them.
//!
//! A host leaves the checksum of TCP and UDP to its network card. A veth pair or a virtual machine's card does not
//! compute it, and marks the frame as unfinished instead. An XDP program cannot see that mark. But the frame can be
//! recognised: its checksum field holds the sum of the pseudo header (RFC 9293 section 3.1). A finished checksum has
//! that value, too, once in 65536 frames. So the first frame found is verified as its receiver would verify it. Later
//! frames need no verification: computing a checksum that is already right changes nothing.
#![forbid(unsafe_code)]

use super::inside;
use crate::vnet::link_header_length;
use graph::buffer::Offload;
use wire::checksum;
use wire::ethernet::EtherType;

/// Frames at the start of a queue, of which each is checked.
const FIRST: u32 = 4096;
/// After those, how many polls go by between two that check one frame each.
const INTERVAL: u32 = 64;

/// Which frames of a queue are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// All, for this many more frames.
    All(u32),
    /// The first frame of a poll, after this many more polls.
    Some(u32),
    /// All, for good: one had an unfinished checksum.
    Finishing,
}

impl Watch {
    pub fn new() -> Watch {
        Watch::All(FIRST)
    }

    /// How many of a poll's frames to check.
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

/// A frame whose checksum is, or may be, unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// What is left to do.
    pub offload: Offload,
    /// Where in the frame the datagram or segment starts, and its length as the headers give it.
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) pseudo: u16,
}

impl Begun {
    /// Whether the checksum is right, summed over all of the frame.
    pub fn is_right<'a>(&self, frame: impl Iterator<Item = &'a [u8]>) -> bool {
        let all: Vec<u8> = frame.flatten().copied().collect();
        let Some(bytes) = all.get(self.start..).and_then(|rest| rest.get(..self.length)) else { return false };
        checksum::fold(checksum::sum(bytes, self.pseudo.into())) == u16::MAX
    }
}

/// The checksum of a frame that starts with `head`, if it may be unfinished: the frame's own, or that of a packet
/// inside a tunnel.
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
