//! Captures to replay: pcap, and pcapng as `pcap trace` writes it.

use super::MAX_SIZE;
use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Most packets that are replayed from one file, and most of its bytes.
const MAX_PACKETS: usize = 1 << 20;
const MAX_BYTES: usize = 1 << 30;

/// With what a pcapng file begins, in any byte order.
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Reads the packets of a capture file (pcap or pcapng, Ethernet).
///
/// # Errors
/// What is wrong with the file, in words.
pub fn read_capture(path: &Path, file: File) -> Result<Vec<Vec<u8>>, String> {
    let mut input = BufReader::new(file);
    let begins_so = input.fill_buf().is_ok_and(|bytes| bytes.starts_with(&SECTION_HEADER));
    let frames = if begins_so { read_pcapng(input) } else { read_pcap(input) };
    let frames = frames.map_err(|why| format!("{}: {why}", path.display()))?;
    match frames.packets.is_empty() {
        true => Err(format!("{}: holds no packet", path.display())),
        false => Ok(frames.packets),
    }
}

/// What was read so far.
#[derive(Default)]
struct Frames {
    packets: Vec<Vec<u8>>,
    bytes: usize,
}

impl Frames {
    /// The number of the next packet, counted from 1 as Wireshark does.
    fn next(&self) -> usize {
        self.packets.len() + 1
    }

    fn add(&mut self, data: &[u8], link: DataLink) -> Result<(), String> {
        let number = self.next();
        if link != DataLink::ETHERNET {
            return Err(format!("packet {number}: not an Ethernet frame"));
        }
        if data.is_empty() || data.len() > MAX_SIZE {
            return Err(format!("packet {number}: {} bytes (1 to {MAX_SIZE} can be sent)", data.len()));
        }
        self.bytes += data.len();
        if number > MAX_PACKETS || self.bytes > MAX_BYTES {
            return Err(format!("more than {MAX_PACKETS} packets or {MAX_BYTES} bytes"));
        }
        self.packets.push(data.to_vec());
        Ok(())
    }
}

fn read_pcap(input: impl Read) -> Result<Frames, String> {
    let mut reader = PcapReader::new(input).map_err(|error| format!("not a pcap or pcapng file: {error}"))?;
    let link = reader.header().datalink;
    if link != DataLink::ETHERNET {
        return Err("not a capture of Ethernet frames".into());
    }
    let mut frames = Frames::default();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.map_err(|error| format!("packet {}: {error}", frames.next()))?;
        frames.add(&packet.data, link)?;
    }
    Ok(frames)
}

fn read_pcapng(input: impl Read) -> Result<Frames, String> {
    let mut reader = PcapNgReader::new(input).map_err(|error| format!("not a pcapng file: {error}"))?;
    let mut frames = Frames::default();
    // Of the section's interfaces, in the order of their blocks.
    let mut links: Vec<DataLink> = Vec::new();
    while let Some(block) = reader.next_block() {
        let number = frames.next();
        let link = |links: &[DataLink], interface: u32| {
            let known = links.get(interface as usize).copied();
            known.ok_or_else(|| format!("packet {number}: of interface {interface}, which is not described"))
        };
        match block.map_err(|error| format!("at packet {number}: {error}"))? {
            Block::SectionHeader(_) => links.clear(),
            Block::InterfaceDescription(interface) => links.push(interface.linktype),
            Block::EnhancedPacket(packet) => frames.add(&packet.data, link(&links, packet.interface_id)?)?,
            Block::SimplePacket(packet) => frames.add(&packet.data, link(&links, 0)?)?,
            Block::Packet(packet) => frames.add(&packet.data, link(&links, packet.interface_id.into())?)?,
            // Names, statistics and what others invent.
            _ => {}
        }
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A capture of `count` frames of 60 bytes, as bytes of a file.
    fn capture(count: usize) -> Vec<u8> {
        capture_of(count, 60)
    }

    fn capture_of(count: usize, size: u32) -> Vec<u8> {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
            file.extend(word.to_le_bytes());
        }
        for n in 0..count {
            for word in [n as u32, 0, size, size] {
                file.extend(word.to_le_bytes());
            }
            file.extend(vec![n as u8; size as usize]);
        }
        file
    }

    /// The same as pcapng: a section, an interface, the frames; `link` is the interface's type.
    fn next_generation(count: usize, link: u32) -> Vec<u8> {
        let mut file = Vec::new();
        let mut block = |kind: u32, body: &[u8]| {
            let length = (body.len() as u32 + 12).to_le_bytes();
            file.extend([&kind.to_le_bytes()[..], &length, body, &length].concat());
        };
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
        block(1, &words(&[link, 65535]));
        for n in 0..count {
            block(6, &[words(&[0, 0, n as u32, 60, 60]), vec![n as u8; 60]].concat());
        }
        file
    }

    fn read(name: &str, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let path = std::env::temp_dir().join(format!("quiver-capture-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("a temporary file");
        let result = read_capture(&path, File::open(&path).unwrap());
        std::fs::remove_file(&path).expect("just written");
        result
    }

    #[test]
    fn a_capture_gives_its_frames_in_order() {
        let frames = read("sound", &capture(3)).unwrap();
        assert_eq!(frames, [[0; 60], [1; 60], [2; 60]]);
        assert_eq!(read("next", &next_generation(3, 1)).unwrap(), frames);
    }

    #[test]
    fn captures_that_cannot_be_sent_are_refused_with_the_reason() {
        assert!(read("empty", b"").unwrap_err().contains("not a pcap or pcapng file"));
        assert!(read("no-packet", &capture(0)).unwrap_err().contains("holds no packet"));
        let mut other_link = capture(1);
        other_link[20] = 113;
        assert!(read("link", &other_link).unwrap_err().contains("not a capture of Ethernet frames"));
        for size in [0, MAX_SIZE as u32 + 1] {
            let expected = format!("packet 1: {size} bytes (1 to {MAX_SIZE} can be sent)");
            assert!(read("size", &capture_of(1, size)).unwrap_err().contains(&expected));
        }
        assert_eq!(read("largest", &capture_of(1, MAX_SIZE as u32)).unwrap()[0].len(), MAX_SIZE);
        let mut cut = capture(2);
        cut.truncate(cut.len() - 7);
        assert!(read("cut", &cut).unwrap_err().contains("packet 2"));
        assert!(read("next-link", &next_generation(1, 101)).unwrap_err().contains("packet 1: not an Ethernet frame"));
        let mut cut = next_generation(2, 1);
        cut.truncate(cut.len() - 7);
        assert!(read("next-cut", &cut).unwrap_err().contains("at packet 2"));
        let mut stranger = next_generation(1, 1);
        stranger[28 + 20 + 8] = 7;
        assert!(read("stranger", &stranger).unwrap_err().contains("of interface 7, which is not described"));
    }

    #[test]
    fn any_file_gives_frames_that_fit_a_buffer_or_an_error() {
        let mut random = 0x1234_5678_9abc_def1u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as usize
        };
        for _ in 0..2000 {
            let mut file = if next() % 2 == 0 { capture(4) } else { next_generation(4, 1) };
            for _ in 0..1 + next() % 6 {
                let at = next() % file.len();
                file[at] = next() as u8;
            }
            file.truncate(1 + next() % file.len());
            if let Ok(frames) = read("mutated", &file) {
                assert!(frames.iter().all(|frame| (1..=MAX_SIZE).contains(&frame.len())));
            }
        }
    }
}
