//! Reads captures that are to be sent, pcap and pcapng, as frames with their times. The packet generator and the load
//! tester share this reader.
//!
//! Another program wrote the file, so everything that it says is bounded: the length of a packet, the number of
//! packets, and their total size. Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.
//!
//! A frame is what was on the wire. The frame check sequence is left out where the capture has it. When a packet was
//! cut short (snap length), zeros fill the rest, so that it has the length that its headers say.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

/// The longest frame of Ethernet that switches carry, without frame check sequence.
pub const MAX_FRAME: usize = 9216;
/// Most packets in a file, and most bytes of all of them together.
const MAX_PACKETS: usize = 1 << 20;
const MAX_BYTES: usize = 1 << 30;
/// Most bytes in a block of pcapng, and most interfaces in a section.
const MAX_BLOCK: usize = 16 << 20;
const MAX_INTERFACES: usize = 1 << 16;

/// Link type of Ethernet.
const ETHERNET: u32 = 1;
/// The word that begins a section of pcapng, the same in any byte order, and the word that shows the byte order.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Types of other blocks.
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Options of an interface (4.2) and of an enhanced packet (4.3).
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_FCS_LENGTH: u16 = 13;
const OPTION_FLAGS: u16 = 2;

/// A packet of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    pub frame: Vec<u8>,
    /// When it was captured, by the clock of the writer. None: the file does not say.
    pub at: Option<Duration>,
}

/// Reads the packets of a capture of Ethernet, each of `longest` bytes at most.
///
/// # Errors
/// What is wrong with the file, in words, and at which packet, counted from 1.
pub fn read(path: &Path, file: File, longest: usize) -> Result<Vec<Captured>, String> {
    let about = |why: String| format!("{}: {why}", path.display());
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(about("not a regular file".into())),
        Err(error) => return Err(about(error.to_string())),
    }
    let mut reader =
        Reader { input: BufReader::new(file), is_big_endian: false, longest, packets: Vec::new(), bytes: 0 };
    reader.read().map_err(about)?;
    match reader.packets.is_empty() {
        true => Err(about("holds no packet".into())),
        false => Ok(reader.packets),
    }
}

/// An interface of a section.
#[derive(Clone, Copy)]
struct Interface {
    link: u32,
    snap: u32,
    /// Bytes of frame check sequence.
    fcs: usize,
    /// How many units of its times make a second.
    units: u64,
}

/// What a file says of a packet besides its bytes.
struct About {
    link: u32,
    captured: usize,
    original: usize,
    fcs: usize,
    at: Option<Duration>,
}

struct Reader {
    input: BufReader<File>,
    is_big_endian: bool,
    longest: usize,
    packets: Vec<Captured>,
    bytes: usize,
}

impl Reader {
    /// The number of the next packet, counted from 1 as Wireshark does.
    fn number(&self) -> usize {
        self.packets.len() + 1
    }

    fn u32(&self, bytes: &[u8]) -> u32 {
        let bytes = *bytes.first_chunk().expect("who asks has them");
        if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn u16(&self, bytes: &[u8]) -> u16 {
        let bytes = *bytes.first_chunk().expect("who asks has them");
        if self.is_big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    /// Fills `bytes` from the file. False: the file ends before the first of them.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool, String> {
        let mut at = 0;
        while at < bytes.len() {
            match self.input.read(&mut bytes[at..]) {
                Ok(0) if at == 0 => return Ok(false),
                Ok(0) => return Err("the file ends within it".into()),
                Ok(n) => at += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(true)
    }

    fn read(&mut self) -> Result<(), String> {
        let mut magic = [0; 4];
        let is_there = self.fill(&mut magic).map_err(|_| NEITHER)?;
        match (u32::from_be_bytes(magic), is_there) {
            (SECTION_HEADER, true) => self.sections(),
            (magic, true) => {
                let (times, is_big_endian, more) = match (magic, magic.swap_bytes()) {
                    (0xa1b2_c3d4, _) => (1_000_000, true, 0),
                    (_, 0xa1b2_c3d4) => (1_000_000, false, 0),
                    (0xa1b2_3c4d, _) => (1_000_000_000, true, 0),
                    (_, 0xa1b2_3c4d) => (1_000_000_000, false, 0),
                    // Kuznetzov's variant has a longer header for each packet.
                    (0xa1b2_cd34, _) => (1_000_000, true, 8),
                    (_, 0xa1b2_cd34) => (1_000_000, false, 8),
                    _ => return Err(NEITHER.into()),
                };
                self.is_big_endian = is_big_endian;
                self.records(times, more)
            }
            (_, false) => Err(NEITHER.into()),
        }
    }

    /// Reads the rest of a pcap file. `units`: units of its times in a second; `more`: bytes of a packet's header
    /// beyond the usual 16.
    fn records(&mut self, units: u64, more: usize) -> Result<(), String> {
        let mut header = [0; 20];
        if !self.fill(&mut header).is_ok_and(|is_there| is_there) {
            return Err(NEITHER.into());
        }
        // The lower half of the last word is the link type. The upper half has the length of the frame check sequence,
        // in units of 16 bits, and a bit that says whether that length is given.
        let word = self.u32(&header[16..]);
        let link = word & 0xffff;
        let fcs = if word & 0x0400_0000 == 0 { 0 } else { 2 * (word >> 28) as usize };
        if link != ETHERNET {
            return Err(format!("not a capture of Ethernet frames: its link type is {link}"));
        }
        let mut header = [0; 24];
        let header = &mut header[..16 + more];
        while self.fill(header).map_err(|why| self.within(why))? {
            let [seconds, fraction, captured, original] = [0, 4, 8, 12].map(|at| self.u32(&header[at..]));
            let nanos = u64::from(fraction) * (1_000_000_000 / units);
            let at = Duration::from_secs(seconds.into()) + Duration::from_nanos(nanos);
            let about = About { link, captured: captured as usize, original: original as usize, fcs, at: Some(at) };
            self.check(&about)?;
            let mut data = vec![0; about.captured];
            if !self.fill(&mut data).map_err(|why| self.within(why))? && about.captured > 0 {
                return Err(self.within("the file ends within it".into()));
            }
            self.add(&about, data)?;
        }
        Ok(())
    }

    fn within(&self, why: String) -> String {
        format!("packet {}: {why}", self.number())
    }

    /// Reads a pcapng file, from after the type of its first block.
    fn sections(&mut self) -> Result<(), String> {
        let mut interfaces: Vec<Interface> = Vec::new();
        let mut kind = SECTION_HEADER.to_be_bytes();
        loop {
            let at = |this: &Reader, why: String| format!("at packet {}: {why}", this.number());
            let mut length = [0; 4];
            let is_there = self.fill(&mut length).map_err(|why| at(self, why))?;
            if !is_there {
                return Err(at(self, "the file ends within a block".into()));
            }
            let is_section = u32::from_be_bytes(kind) == SECTION_HEADER;
            let mut first = [0; 4];
            if is_section {
                // The word after the length shows the byte order.
                self.fill(&mut first).map_err(|why| at(self, why))?;
                self.is_big_endian = match (u32::from_be_bytes(first), u32::from_le_bytes(first)) {
                    (BYTE_ORDER, _) => true,
                    (_, BYTE_ORDER) => false,
                    _ => return Err(at(self, "not a pcapng section: its byte order is not known".into())),
                };
                interfaces.clear();
            }
            let length = self.u32(&length) as usize;
            let had = if is_section { 12 } else { 8 };
            if length < had + 4 || length > MAX_BLOCK {
                return Err(at(self, format!("a block of {length} bytes ({} to {MAX_BLOCK} can be)", had + 4)));
            }
            let mut body = vec![0; length.next_multiple_of(4) - had];
            if !self.fill(&mut body).map_err(|why| at(self, why))? {
                return Err(at(self, "the file ends within a block".into()));
            }
            let trailer = body.split_off(body.len() - 4);
            if self.u32(&trailer) as usize != length {
                return Err(at(self, "a block says two lengths".into()));
            }
            match if is_section { SECTION_HEADER } else { self.u32(&kind) } {
                INTERFACE if interfaces.len() < MAX_INTERFACES => interfaces.push(self.interface(&body)?),
                INTERFACE => return Err(format!("more than {MAX_INTERFACES} interfaces")),
                ENHANCED_PACKET => self.packet(&interfaces, &body, false)?,
                OLD_PACKET => self.packet(&interfaces, &body, true)?,
                SIMPLE_PACKET => self.simple_packet(&interfaces, &body)?,
                // Names, statistics and blocks of unknown types.
                _ => {}
            }
            if !self.fill(&mut kind).map_err(|why| at(self, why))? {
                return Ok(());
            }
        }
    }

    fn short(&self) -> String {
        format!("at packet {}: a block is too short for what it is", self.number())
    }

    fn interface(&self, body: &[u8]) -> Result<Interface, String> {
        if body.len() < 8 {
            return Err(self.short());
        }
        let mut interface =
            Interface { link: self.u16(body).into(), snap: self.u32(&body[4..]), fcs: 0, units: 1_000_000 };
        for (code, value) in self.options(&body[8..]) {
            match (code, value) {
                // A power of ten, or of two when the highest bit is set.
                (OPTION_TIME_RESOLUTION, &[resolution, ..]) => {
                    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
                    let units = base.checked_pow((resolution & 0x7f).into());
                    interface.units = units.ok_or("times finer than can be reckoned with")?;
                }
                (OPTION_FCS_LENGTH, &[length, ..]) => interface.fcs = length.into(),
                _ => {}
            }
        }
        Ok(interface)
    }

    /// The options after a block's fixed part, up to the first that is not whole.
    fn options<'a>(&self, mut rest: &'a [u8]) -> Vec<(u16, &'a [u8])> {
        let mut found = Vec::new();
        while rest.len() >= 4 {
            let (code, length) = (self.u16(rest), usize::from(self.u16(&rest[2..])));
            let Some(value) = rest[4..].get(..length).filter(|_| code != 0) else { break };
            found.push((code, value));
            rest = rest[4..].get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        found
    }

    fn known(&self, interfaces: &[Interface], interface: u32) -> Result<Interface, String> {
        let known = interfaces.get(interface as usize).copied();
        known.ok_or_else(|| self.within(format!("of interface {interface}, which is not described")))
    }

    fn packet(&mut self, interfaces: &[Interface], body: &[u8], is_old: bool) -> Result<(), String> {
        if body.len() < 20 {
            return Err(self.short());
        }
        let number = if is_old { self.u16(body).into() } else { self.u32(body) };
        let interface = self.known(interfaces, number)?;
        let [high, low, captured, original] = [4, 8, 12, 16].map(|at| self.u32(&body[at..]));
        let captured = captured as usize;
        let time = u64::from(high) << 32 | u64::from(low);
        let part = u128::from(time % interface.units) * 1_000_000_000 / u128::from(interface.units);
        let at = Duration::from_secs(time / interface.units) + Duration::from_nanos(part as u64);
        let mut about =
            About { link: interface.link, captured, original: original as usize, fcs: interface.fcs, at: Some(at) };
        self.check(&about)?;
        let Some(data) = body[20..].get(..captured) else { return Err(self.short()) };
        for (code, value) in self.options(body[20..].get(captured.next_multiple_of(4)..).unwrap_or_default()) {
            if code == OPTION_FLAGS
                && value.len() >= 4
                && let fcs @ 1.. = self.u32(value) >> 5 & 0xf
            {
                about.fcs = fcs as usize;
            }
        }
        self.add(&about, data.to_vec())
    }

    fn simple_packet(&mut self, interfaces: &[Interface], body: &[u8]) -> Result<(), String> {
        if body.len() < 4 {
            return Err(self.short());
        }
        let interface = self.known(interfaces, 0)?;
        let original = self.u32(body);
        // The block does not say how much was captured: it is all, or as much as the interface's snap length. The bytes
        // after that are padding.
        let captured = if interface.snap == 0 { original } else { original.min(interface.snap) } as usize;
        let about = About { link: interface.link, captured, original: original as usize, fcs: interface.fcs, at: None };
        self.check(&about)?;
        let Some(data) = body[4..].get(..captured) else { return Err(self.short()) };
        self.add(&about, data.to_vec())
    }

    /// Refuses a packet that cannot be sent, before memory is allocated for it.
    fn check(&self, about: &About) -> Result<(), String> {
        if about.link != ETHERNET {
            return Err(self.within(format!("not an Ethernet frame: its link type is {}", about.link)));
        }
        let length = about.length();
        if length == 0 || length > self.longest || about.captured > self.longest + about.fcs {
            let length = length.max(about.captured);
            return Err(self.within(format!("{length} bytes (1 to {} can be sent)", self.longest)));
        }
        if self.number() > MAX_PACKETS || self.bytes + length > MAX_BYTES {
            return Err(format!("more than {MAX_PACKETS} packets or {MAX_BYTES} bytes"));
        }
        Ok(())
    }

    fn add(&mut self, about: &About, mut data: Vec<u8>) -> Result<(), String> {
        self.check(about)?;
        // This removes the frame check sequence, or adds zeros for what was not captured.
        data.resize(about.length(), 0);
        self.bytes += data.len();
        self.packets.push(Captured { frame: data, at: about.at });
        Ok(())
    }
}

impl About {
    /// Bytes of the frame. Some writers give an original length of 0, or one below what they captured.
    fn length(&self) -> usize {
        self.original.max(self.captured).saturating_sub(self.fcs)
    }
}

const NEITHER: &str = "not a pcap or pcapng file";

#[cfg(test)]
mod tests {
    use super::*;

    /// A pcap file with this last word in its header, and packets with their original lengths.
    fn pcap(link: u32, packets: &[(&[u8], u32)]) -> Vec<u8> {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 96, link]);
        for (n, (data, original)) in packets.iter().enumerate() {
            file.extend(words(&[7, 250_000 * n as u32, data.len() as u32, *original]));
            file.extend(*data);
        }
        file
    }

    /// Frames of 60 bytes, each full of its number.
    fn plain(count: u8) -> Vec<u8> {
        let frames: Vec<[u8; 60]> = (0..count).map(|n| [n; 60]).collect();
        pcap(ETHERNET, &frames.iter().map(|frame| (&frame[..], 60)).collect::<Vec<_>>())
    }

    fn words_of(words: &[u32], is_big: bool) -> Vec<u8> {
        words.iter().flat_map(|word| if is_big { word.to_be_bytes() } else { word.to_le_bytes() }).collect()
    }

    fn block(kind: u32, body: &[u8], is_big: bool) -> Vec<u8> {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0xee);
        let length = body.len() as u32 + 12;
        [words_of(&[kind, length], is_big), body, words_of(&[length], is_big)].concat()
    }

    /// A section with one interface: its link type, its snap length and its options.
    fn section(link: u16, snap: u32, options: &[u8], is_big: bool) -> Vec<u8> {
        let header = words_of(&[BYTE_ORDER, if is_big { 0x0001_0000 } else { 1 }, u32::MAX, u32::MAX], is_big);
        let link = if is_big { [link.to_be_bytes(), [0; 2]] } else { [link.to_le_bytes(), [0; 2]] }.concat();
        let interface = [link, words_of(&[snap], is_big), options.to_vec()].concat();
        [block(SECTION_HEADER, &header, is_big), block(INTERFACE, &interface, is_big)].concat()
    }

    fn enhanced(interface: u32, time: u32, data: &[u8], original: u32) -> Vec<u8> {
        let head = words_of(&[interface, 0, time, data.len() as u32, original], false);
        block(ENHANCED_PACKET, &[head, data.to_vec()].concat(), false)
    }

    fn read_of(bytes: &[u8], longest: usize) -> Result<Vec<Captured>, String> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("quiver-capture-{}-{number}", std::process::id()));
        std::fs::write(&path, bytes).expect("a temporary file");
        let result = read(&path, File::open(&path).unwrap(), longest);
        std::fs::remove_file(&path).expect("just written");
        result
    }

    fn frames(bytes: &[u8]) -> Vec<Vec<u8>> {
        read_of(bytes, 2048).unwrap().into_iter().map(|packet| packet.frame).collect()
    }

    #[test]
    fn a_capture_gives_its_frames_in_order_with_their_times() {
        let read = read_of(&plain(3), 2048).unwrap();
        assert_eq!(read.iter().map(|packet| &packet.frame[..]).collect::<Vec<_>>(), [[0; 60], [1; 60], [2; 60]]);
        let times = [7_000, 7_250, 7_500].map(|ms| Some(Duration::from_millis(ms)));
        assert_eq!(read.iter().map(|packet| packet.at).collect::<Vec<_>>(), times);
        // In nanoseconds, and in the other byte order.
        let mut nano = plain(2);
        nano[..4].copy_from_slice(&0xa1b2_3c4du32.to_le_bytes());
        assert_eq!(read_of(&nano, 2048).unwrap()[1].at, Some(Duration::new(7, 250_000)));
        let big: Vec<u8> = plain(1)[..40].chunks(4).flat_map(|word| word.iter().rev().copied()).collect();
        let big = [big, vec![9; 60]].concat();
        assert_eq!(frames(&big), [[9; 60]]);
        // Kuznetzov's variant, with eight more bytes for each packet.
        let mut more = plain(1);
        more[..4].copy_from_slice(&0xa1b2_cd34u32.to_le_bytes());
        more.splice(40..40, [0xff; 8]);
        assert_eq!(frames(&more), [[0; 60]]);
    }

    #[test]
    fn pcapng_gives_the_same_in_either_byte_order() {
        let file =
            [section(1, 0, &[], false), enhanced(0, 1_500_000, &[1; 60], 60), enhanced(0, 0, &[2; 61], 61)].concat();
        let read = read_of(&file, 2048).unwrap();
        assert_eq!(
            (read[0].frame.len(), read[1].frame.len()),
            (60, 61),
            "what fills a block up is no part of the frame"
        );
        assert_eq!(read[0].at, Some(Duration::from_micros(1_500_000)));
        let simple =
            |is_big| [section(1, 0, &[], is_big), block(3, &[words_of(&[61], is_big), vec![3; 61]].concat(), is_big)];
        assert_eq!(frames(&simple(true).concat()), [[3; 61]]);
        assert_eq!(frames(&[simple(false).concat(), simple(true).concat()].concat()), [[3; 61], [3; 61]]);
        // A time in units of 2^-10 seconds; a block of an unknown type.
        let options = [9, 0, 1, 0, 0x8a, 0, 0, 0, 0, 0, 0, 0];
        let odd =
            [section(1, 0, &options, false), block(0x0bad, &[1, 2, 3], false), enhanced(0, 512, &[1; 60], 60)].concat();
        assert_eq!(read_of(&odd, 2048).unwrap()[0].at, Some(Duration::from_millis(500)));
        let old = [words_of(&[0, 0, 0, 60, 60], false), vec![4; 60]].concat();
        assert_eq!(frames(&[section(1, 0, &[], false), block(OLD_PACKET, &old, false)].concat()), [[4; 60]]);
    }

    #[test]
    fn padding_of_simple_packets_is_no_part_of_the_frame() {
        let sizes = [60, 61, 575, 1513, 1514];
        let packets = sizes.map(|size| block(3, &[words_of(&[size], false), vec![5; size as usize]].concat(), false));
        let file = [section(1, 262_144, &[], false), packets.concat()].concat();
        assert_eq!(frames(&file).iter().map(|frame| frame.len() as u32).collect::<Vec<_>>(), sizes);
        // The interface captured 64 of 100 bytes.
        let cut = block(3, &[words_of(&[100], false), vec![5; 64]].concat(), false);
        let frame = &frames(&[section(1, 64, &[], false), cut].concat())[0];
        assert_eq!((frame.len(), &frame[63..66]), (100, &[5, 0, 0][..]));
    }

    #[test]
    fn of_packets_that_were_cut_short_the_rest_is_zeros() {
        let file = pcap(ETHERNET, &[(&[1; 96], 575), (&[2; 60], 60), (&[3; 60], 0)]);
        let frames = frames(&file);
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [575, 60, 60]);
        assert!(frames[0][..96].iter().all(|byte| *byte == 1) && frames[0][96..].iter().all(|byte| *byte == 0));
        let long = pcap(ETHERNET, &[(&[1; 96], 65_000)]);
        assert!(read_of(&long, 9216).unwrap_err().contains("packet 1: 65000 bytes (1 to 9216 can be sent)"));
    }

    #[test]
    fn frame_check_sequences_are_left_out() {
        // Two units of 16 bits, and the bit that says so.
        let file = pcap(0x2400_0001, &[(&[7; 64], 64), (&[8; 62], 64), (&[9; 50], 64)]);
        let read = frames(&file);
        assert_eq!(read.iter().map(Vec::len).collect::<Vec<_>>(), [60, 60, 60]);
        assert_eq!((&read[1][..], read[2][49], read[2][50]), (&[8; 60][..], 9, 0));
        // Without the bit no length is given.
        assert_eq!(frames(&pcap(0x2000_0001, &[(&[7; 64], 64)]))[0].len(), 64);
        // In pcapng an interface gives the length, or a single packet does.
        let options = [13, 0, 1, 0, 4, 0, 0, 0];
        let file = [section(1, 0, &options, false), enhanced(0, 0, &[1; 64], 64)].concat();
        assert_eq!(frames(&file)[0].len(), 60);
        let flags = [2, 0, 4, 0, 0x80, 0, 0, 0, 0, 0, 0, 0];
        let head = words_of(&[0, 0, 0, 64, 64], false);
        let own = block(ENHANCED_PACKET, &[head, vec![1; 64], flags.to_vec()].concat(), false);
        assert_eq!(frames(&[section(1, 0, &[], false), own].concat())[0].len(), 60);
        // A frame that is nothing but its check sequence.
        assert!(read_of(&pcap(0x2400_0001, &[(&[7; 4], 4)]), 2048).unwrap_err().contains("packet 1: "));
    }

    #[test]
    fn frames_are_as_long_as_who_reads_can_send() {
        for longest in [2048, 9216] {
            let (most, more) = (vec![1; longest], vec![1; longest + 1]);
            assert_eq!(read_of(&pcap(ETHERNET, &[(&most, longest as u32)]), longest).unwrap()[0].frame, most);
            let refused = read_of(&pcap(ETHERNET, &[(&more, longest as u32 + 1)]), longest).unwrap_err();
            assert!(refused.contains(&format!("packet 1: {} bytes (1 to {longest} can be sent)", longest + 1)));
        }
    }

    #[test]
    fn captures_that_cannot_be_sent_are_refused_with_the_reason() {
        let refused = |bytes: &[u8], why: &str| {
            let told = read_of(bytes, 2048).unwrap_err();
            assert!(told.contains(why), "{told}");
        };
        refused(b"", NEITHER);
        refused(b"\xa1\xb2", NEITHER);
        refused(&[b'x'; 100], NEITHER);
        refused(&plain(1)[..20], NEITHER);
        refused(&plain(0), "holds no packet");
        refused(&pcap(113, &[(&[0; 60], 60)]), "not a capture of Ethernet frames: its link type is 113");
        refused(&pcap(ETHERNET, &[(&[], 0)]), "packet 1: 0 bytes (1 to 2048 can be sent)");
        let cut = plain(2);
        refused(&cut[..cut.len() - 7], "packet 2: the file ends within it");
        refused(&cut[..cut.len() - 60], "packet 2: the file ends within it");
        refused(&cut[..cut.len() - 70], "packet 2: the file ends within it");
        let mut giant = plain(1);
        giant[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
        refused(&giant, "packet 1: 4294967295 bytes (1 to");
        let one = enhanced(0, 0, &[0; 60], 60);
        refused(
            &[section(101, 0, &[], false), one.clone()].concat(),
            "packet 1: not an Ethernet frame: its link type is 101",
        );
        let two = [section(1, 0, &[], false), one.clone(), one.clone()].concat();
        refused(&two[..two.len() - 7], "at packet 2: the file ends within it");
        refused(&two[..two.len() - one.len() + 6], "at packet 2: the file ends within it");
        refused(&[section(1, 0, &[], false), enhanced(7, 0, &[0; 60], 60)].concat(), "of interface 7, which is not");
        let mut lengths = two.clone();
        let end = lengths.len();
        lengths[end - 4] ^= 1;
        refused(&lengths, "at packet 2: a block says two lengths");
        let mut giant = two.clone();
        giant[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
        refused(&giant, "a block of 4294967295 bytes (12 to");
        let mut order = two;
        order[8] = 0;
        refused(&order, "its byte order is not known");
        let short = block(ENHANCED_PACKET, &words_of(&[0, 0, 0, 60, 60], false), false);
        refused(&[section(1, 0, &[], false), short].concat(), "a block is too short for what it is");
        // A device file could hold the reader for ever.
        let device = read(Path::new("/dev/zero"), File::open("/dev/zero").unwrap(), 2048);
        assert_eq!(device.unwrap_err(), "/dev/zero: not a regular file");
    }

    #[test]
    fn any_file_gives_frames_that_can_be_sent_or_an_error() {
        let mut random = 0x1234_5678_9abc_def1u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as usize
        };
        let simple = block(3, &[words_of(&[61], false), vec![3; 61]].concat(), false);
        let generation =
            [section(1, 64, &[13, 0, 1, 0, 4, 0, 0, 0], false), enhanced(0, 0, &[1; 64], 64), simple].concat();
        for _ in 0..2000 {
            let mut file = if next() % 2 == 0 { plain(4) } else { generation.clone() };
            for _ in 0..1 + next() % 6 {
                let at = next() % file.len();
                file[at] = next() as u8;
            }
            file.truncate(1 + next() % file.len());
            if let Ok(read) = read_of(&file, 2048) {
                assert!(read.iter().all(|packet| (1..=2048).contains(&packet.frame.len())));
            }
        }
    }
}
