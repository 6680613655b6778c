//! The kernels in portable code: what they mean, and the twin that SIMD is held to.

use super::{EthernetColumns, Frames, check};
use crate::addr::MacAddress;

/// See [`super::ethernet_ip4`]; starts at packet `from`, for the tail of SIMD kernels.
#[inline]
pub(super) fn ethernet_ip4(frames: &Frames<'_>, station: MacAddress, columns: EthernetColumns<'_>, from: usize) -> u32 {
    let mut union = 0;
    for i in from..frames.len() {
        let head = frames.bytes(i);
        let (bits, total_length) = judge(head, columns.length[i], station);
        columns.target[i] = u32::from_be_bytes([head[30], head[31], head[32], head[33]]);
        if bits & NOT_TRIMMED == 0 && columns.flags[i] & check::CHAINED == 0 {
            columns.length[i] = total_length + 14;
        }
        let examined = if bits & (check::NOT_IP4 | check::SHORT) == 0 { check::EXAMINED } else { 0 };
        columns.flags[i] |= bits | examined;
        union |= bits;
    }
    union
}

/// With any of these the total length says nothing about the frame, or not yet: it may be less
/// than a header that has options.
pub(super) const NOT_TRIMMED: u32 =
    check::NOT_IP4 | check::SHORT | check::VERSION | check::HEADER_LENGTH | check::TOTAL_LENGTH;

fn judge(head: &[u8; 64], length: u16, station: MacAddress) -> (u32, u16) {
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let mut bits = 0;
    if head[0] & 1 != 0 {
        bits |= check::GROUP;
    } else if head[..6] != station.0 {
        bits |= check::OTHER_STATION;
    }
    if word(12) != 0x0800 {
        return (bits | check::NOT_IP4, 0);
    }
    if length < 34 {
        return (bits | check::SHORT, 0);
    }
    if head[14] >> 4 != 4 {
        bits |= check::VERSION;
    }
    if head[14] & 0xf != 5 {
        bits |= check::HEADER_LENGTH;
    } else {
        let sum: u32 = (14..34).step_by(2).map(|at| word(at) as u32).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let folded = (folded & 0xffff) + (folded >> 16);
        if folded != 0xffff {
            bits |= check::CHECKSUM;
        }
    }
    let total_length = word(16);
    if total_length < 20 || total_length > length - 14 {
        bits |= check::TOTAL_LENGTH;
    }
    if head[22] <= 1 {
        bits |= check::TTL;
    }
    if word(20) & 0x3fff != 0 {
        bits |= check::FRAGMENT;
    }
    let is_no_host = |octet: u8| octet == 0 || octet == 127 || octet >= 224;
    if is_no_host(head[26]) {
        bits |= check::MARTIAN_SOURCE;
    }
    if is_no_host(head[30]) {
        bits |= check::SPECIAL_DESTINATION;
    }
    (bits, total_length)
}
