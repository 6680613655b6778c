//! A filter expression, a line end, and a packet that it is tried on.

use std::hint::black_box;
use wire::filter::{Filter, LinkType};

pub fn run(bytes: &[u8]) {
    let (text, packet) = match bytes.iter().position(|&byte| byte == b'\n') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[][..]),
    };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let filter = match Filter::parse(text) {
        Ok(filter) => filter,
        Err(error) => {
            black_box(error.to_string());
            return;
        }
    };
    let again = Filter::parse(&filter.to_string()).expect("what a filter prints is a filter");
    assert_eq!(filter, again);
    for link in [LinkType::Ethernet, LinkType::Ip] {
        assert_eq!(filter.matches(packet, link), again.matches(packet, link));
        for cut in [0, 14, 20, 34, packet.len() / 2] {
            black_box(filter.matches_head(&packet[..cut.min(packet.len())], packet.len(), link));
        }
    }
}
