//! Captured packets as a pcapng file (draft-ietf-opsawg-pcapng).
//!
//! The file appears under its name when it is whole.
//!
//! An interface is described right before its first packet: tcpdump reads no file without an
//! interface, and reads up to one whose link type is not the first one's.

use command::{FileError, Files};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where files without a directory go, as in VPP.
const DIRECTORY: &str = "/tmp";

/// Link types of the pcap family.
pub const ETHERNET: u16 = 1;
pub const RAW_IP: u16 = 101;

/// Which way a packet went, as `epb_flags` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    Inbound = 1,
    Outbound = 2,
}

/// An interface block.
#[derive(Debug, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub link_type: u16,
}

/// An enhanced packet block.
pub struct Packet<'a> {
    /// Position among the file's interfaces, which are in the order of their first packets.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub time: u64,
    pub bytes: &'a [u8],
    /// Bytes of the whole packet.
    pub length: u32,
    pub direction: Direction,
    pub comment: Option<&'a str>,
}

/// Where a file of this name goes.
///
/// # Errors
/// When it names no file.
pub fn resolve(files: &Files, name: &str) -> io::Result<PathBuf> {
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, format!("'{name}': {why}")));
    let path = Path::new(name);
    if path.components().any(|part| part.as_os_str() == "..") {
        return refuse("must not contain '..'");
    }
    if name.ends_with('/') || path.file_name().is_none() {
        return refuse("names no file");
    }
    match path.parent() {
        _ if path.is_absolute() || files.are_confined() => Ok(path.into()),
        Some(parent) if parent.as_os_str().is_empty() => Ok(Path::new(DIRECTORY).join(path)),
        _ => refuse("write a name without a directory, or one that begins with '/'"),
    }
}

/// Writes a file whole, or leaves what was there.
///
/// # Errors
/// When it lies where commands may not write, or the system refuses.
pub fn write<'a>(
    files: &Files,
    path: &Path,
    interfaces: &[Interface],
    packets: impl Iterator<Item = Packet<'a>>,
) -> Result<(), FileError> {
    files.replace(path, |mut out| write_blocks(&mut out, interfaces, packets))
}

fn write_blocks<'a>(
    out: &mut impl Write,
    interfaces: &[Interface],
    packets: impl Iterator<Item = Packet<'a>>,
) -> io::Result<()> {
    write_block(out, SECTION_HEADER, &section_header())?;
    let mut described = 0;
    let mut describe_up_to = |out: &mut _, end: usize| {
        let new = interfaces[described..].iter().take(end.saturating_sub(described));
        described = described.max(end);
        new.map(interface_description).try_for_each(|body| write_block(out, INTERFACE_DESCRIPTION, &body))
    };
    for packet in packets {
        describe_up_to(out, packet.interface as usize + 1)?;
        write_block(out, ENHANCED_PACKET, &enhanced_packet(&packet))?;
    }
    describe_up_to(out, interfaces.len())
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;

/// Type, length, body, length; the body is whole words.
fn write_block(out: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let length = (body.len() as u32 + 12).to_le_bytes();
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&length)?;
    out.write_all(body)?;
    out.write_all(&length)
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(u16::MAX as usize)];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn section_header() -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(0x1a2b_3c4du32.to_le_bytes());
    body.extend([1, 0, 0, 0]); // version 1.0
    body.extend((-1i64).to_le_bytes()); // the section's length is not given
    option(&mut body, SECTION_APPLICATION, concat!("quiver ", env!("CARGO_PKG_VERSION")).as_bytes());
    option(&mut body, OPTION_END, &[]);
    body
}

fn interface_description(interface: &Interface) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(interface.link_type.to_le_bytes());
    body.extend([0; 6]); // reserved; no limit on the packets' length
    option(&mut body, INTERFACE_NAME, interface.name.as_bytes());
    option(&mut body, INTERFACE_RESOLUTION, &[9]); // nanoseconds
    option(&mut body, OPTION_END, &[]);
    body
}

fn enhanced_packet(packet: &Packet<'_>) -> Vec<u8> {
    let mut body = Vec::with_capacity(packet.bytes.len() + 64);
    body.extend(packet.interface.to_le_bytes());
    body.extend(((packet.time >> 32) as u32).to_le_bytes());
    body.extend((packet.time as u32).to_le_bytes());
    body.extend((packet.bytes.len() as u32).to_le_bytes());
    body.extend(packet.length.to_le_bytes());
    body.extend(packet.bytes);
    pad(&mut body);
    option(&mut body, PACKET_FLAGS, &(packet.direction as u32).to_le_bytes());
    if let Some(comment) = packet.comment {
        option(&mut body, OPTION_COMMENT, comment.as_bytes());
    }
    option(&mut body, OPTION_END, &[]);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_resolved_or_refused() {
        let anywhere = Files::anywhere();
        assert_eq!(resolve(&anywhere, "rx.pcap").unwrap(), Path::new("/tmp/rx.pcap"));
        assert_eq!(resolve(&anywhere, "/var/log/a.pcap").unwrap(), Path::new("/var/log/a.pcap"));
        for name in ["..", "../x", "/tmp/../etc/x", "a/b", "/", "/tmp/", ".", ""] {
            assert!(resolve(&anywhere, name).is_err(), "{name}");
        }
    }

    #[test]
    fn interfaces_are_described_when_they_are_first_needed_and_all_of_them() {
        let interfaces = ["e0", "e1", "e2"].map(|name| Interface { name: name.into(), link_type: ETHERNET });
        let packet = |interface| Packet {
            interface,
            time: 0,
            bytes: &[],
            length: 0,
            direction: Direction::Inbound,
            comment: None,
        };
        let mut file = Vec::new();
        write_blocks(&mut file, &interfaces, [0, 0, 1, 0].map(packet).into_iter()).unwrap();
        let (mut kinds, mut rest) = (Vec::new(), &file[..]);
        while !rest.is_empty() {
            let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
            kinds.push(word(0));
            rest = &rest[word(4) as usize..];
        }
        assert_eq!(kinds, [SECTION_HEADER, 1, 6, 6, 1, 6, 6, 1]);
    }

    #[test]
    fn blocks_have_their_bytes() {
        let interfaces = [Interface { name: "e0".into(), link_type: ETHERNET }];
        let packet = Packet {
            interface: 0,
            time: 0x0000_0001_0000_0002,
            bytes: &[1, 2, 3, 4, 5],
            length: 60,
            direction: Direction::Outbound,
            comment: Some("n: r"),
        };
        let mut file = Vec::new();
        write_blocks(&mut file, &interfaces, [packet].into_iter()).unwrap();
        let section = u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize;
        assert_eq!(file[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
        let rest = &file[section..];
        #[rustfmt::skip]
        assert_eq!(rest[..40], [
            1, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
            2, 0, 2, 0, b'e', b'0', 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0,
            40, 0, 0, 0,
        ]);
        #[rustfmt::skip]
        assert_eq!(rest[40..], [
            6, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 60, 0, 0, 0,
            1, 2, 3, 4, 5, 0, 0, 0,
            2, 0, 4, 0, 2, 0, 0, 0, 1, 0, 4, 0, b'n', b':', b' ', b'r', 0, 0, 0, 0,
            60, 0, 0, 0,
        ]);
    }
}
