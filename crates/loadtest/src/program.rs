//! Streams made ready: templates, and what is written into each copy.
//!
//! Packets are made a vector at a time: first the values of each field for all packets of the vector, and what they add to
//! checksums; then, packet by packet, template, fields, checksums and tag. A checksum is not summed up anew: what does not
//! change of it is known, and the rest is added.

use crate::frame::{self, Ends, VLAN_AT, VLAN_TAG, build};
use crate::layout::{Field, Kind, Layout, Sum, fold};
use crate::profile::{How, Layer, MAX_SIZE, MIN_SIZE, Mode, Number, Profile, ProfileError, Stream, mirrored_field};
use crate::rate::Mix;
use crate::tag;
use command::files::Files;
use drivers::{capture_file, chain};
use graph::buffer::{DATA_SIZE, HEADROOM};
use graph::{Buffers, PacketIndex, VECTOR_SIZE};
use std::ops::Range;
use std::sync::Arc;

/// A template.
#[derive(Debug, Clone)]
struct Frame {
    /// A multiple of 64 of them.
    bytes: Box<[u8]>,
    length: u16,
    /// Of each checksum that changes, what does not.
    bases: Vec<u32>,
    tag: TagPlace,
}

/// Where the tag goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagPlace {
    Full(u16),
    /// The stream's number is in an IPv4 header at `ip`, or in an IPv6 header.
    Small {
        at: u16,
        ip: u16,
        is_v6: bool,
    },
    None,
}

impl TagPlace {
    fn bytes(self) -> Range<usize> {
        match self {
            TagPlace::Full(at) => at.into()..usize::from(at) + tag::LENGTH,
            TagPlace::Small { at, .. } => at.into()..usize::from(at) + tag::SMALL,
            TagPlace::None => 0..0,
        }
    }
}

/// A field that varies.
#[derive(Debug, Clone)]
struct Varied {
    field: Field,
    /// The word around it.
    around: u64,
    series: Series,
    /// Checksums that it counts in, and whether it starts at an odd place there.
    sums: Vec<(usize, bool)>,
}

/// A checksum that changes, and those further out that cover it.
#[derive(Debug, Clone)]
struct Changing {
    at: usize,
    zero_is_none: bool,
    within: Vec<(usize, bool)>,
}

/// How values follow each other: `from`, `from + step`, and so on, `count` of them.
#[derive(Debug, Clone, Copy)]
struct Series {
    how: How,
    from: u64,
    step: u64,
    count: u64,
    seed: u64,
    /// It goes on each time that so many packets have gone: the second of a tuple.
    every: u64,
}

impl Series {
    /// The value of the n-th packet.
    #[cfg(test)]
    fn at(&self, n: u64) -> u64 {
        let place = (n / self.every) % self.count;
        let k = match self.how {
            How::Increment | How::Tuple => place,
            How::Decrement => self.count - 1 - place,
            How::Random => ((u128::from(mix(self.seed, n)) * u128::from(self.count)) >> 64) as u64,
        };
        self.from + k * self.step
    }
}

/// Bits that look random of the n-th packet (SplitMix64, Steele et al., OOPSLA 2014).
#[inline(always)]
fn mix(seed: u64, n: u64) -> u64 {
    let z =
        seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of one port, ready to be sent.
#[derive(Debug, Clone)]
pub struct Program {
    pub name: String,
    /// Packets a second when nothing is multiplied.
    pub rate: f64,
    pub mode: Mode,
    /// Seconds from the start to its first packet.
    pub isg: f64,
    frames: Vec<Frame>,
    /// Which template each packet has, round and round.
    cycle: Vec<u16>,
    varied: Vec<Varied>,
    changing: Vec<Changing>,
}

impl Program {
    /// Those of a profile that a port sends.
    ///
    /// # Errors
    /// What does not fit together, with its place in the profile.
    pub fn of_port(profile: &Profile, port: usize, ends: Ends) -> Result<Vec<Arc<Program>>, ProfileError> {
        let streams = profile.streams().enumerate().filter(|(_, stream)| stream.ports.has(port));
        let compile = |(at, stream): (usize, &Stream)| {
            let program = Program::new(stream, stream.mirror && port % 2 == 1, ends);
            program.map(Arc::new).map_err(|(place, message)| profile.error(at, place, message))
        };
        streams.map(compile).collect()
    }

    fn new(stream: &Stream, mirror: bool, ends: Ends) -> Result<Program, (Option<usize>, String)> {
        let plain = |message: String| (None, message);
        let vlan = ends.vlan.filter(|_| stream.pcap.is_none() && frame::takes_port_vlan(&stream.layers));
        let (mut raw, cycle): (Vec<Vec<u8>>, Vec<u16>) = match &stream.pcap {
            Some(path) => {
                let file = Files::anywhere().open(path).map_err(|error| plain(error.to_string()))?;
                let packets = capture_file::read(path, file, MAX_SIZE.into()).map_err(plain)?;
                if packets.len() > usize::from(u16::MAX) {
                    return Err(plain(format!("{}: has more than {} packets", path.display(), u16::MAX)));
                }
                let padded = |mut frame: Vec<u8>| {
                    frame.resize(frame.len().max(MIN_SIZE.into()), 0);
                    frame
                };
                let frames: Vec<Vec<u8>> = packets.into_iter().map(|packet| padded(packet.frame)).collect();
                let cycle = (0..frames.len() as u16).collect();
                (frames, cycle)
            }
            None => {
                let layers: Vec<Layer> = match mirror {
                    true => stream.layers.iter().map(Layer::mirrored).collect(),
                    false => stream.layers.clone(),
                };
                let sizes = stream.weighted();
                let frames = sizes.iter().map(|size| build(&layers, size.size.into(), ends));
                let weights: Vec<u16> = sizes.iter().map(|size| size.weight).collect();
                (frames.collect::<Result<_, _>>().map_err(plain)?, by_turns(&weights))
            }
        };
        if let Some(vlan) = vlan {
            raw.iter_mut().for_each(|bytes| frame::tag(bytes, vlan));
        }
        if stream.pcap.is_some() && !stream.vary.is_empty() {
            return Err((
                Some(stream.vary[0].span().start),
                "frames of a capture are sent as they are: nothing varies".into(),
            ));
        }
        let mut program = Program {
            name: stream.name.clone(),
            rate: 0.0,
            mode: stream.mode,
            isg: stream.isg,
            frames: Vec::new(),
            cycle,
            varied: Vec::new(),
            changing: Vec::new(),
        };
        let first = Layout::of(&raw[0]);
        for vary in &stream.vary {
            let place = Some(vary.span().start);
            let mut vary = vary.get_ref().clone();
            // Offsets are those of the frame as it is written.
            vary.offset = vary.offset.map(|at| if vlan.is_some() && at >= VLAN_AT { at + VLAN_TAG } else { at });
            program
                .add_varied(&vary, mirror, &first, raw.iter().map(Vec::len).min().unwrap_or(0))
                .map_err(|message| (place, message))?;
        }
        for bytes in raw {
            program.add_frame(bytes, stream.tag).map_err(plain)?;
        }
        let mix = Mix { packets: 1.0, buffer: program.mean_size(), line: None };
        program.rate = stream.rate.packets(&mix).ok().flatten().unwrap_or(1.0);
        Ok(program)
    }

    fn add_varied(
        &mut self,
        vary: &crate::profile::Vary,
        mirror: bool,
        layout: &Layout,
        shortest: usize,
    ) -> Result<(), String> {
        let field = match (&vary.field, vary.offset, vary.width) {
            (Some(name), ..) => layout.field(&if mirror { mirrored_field(name) } else { name.clone() })?,
            (None, Some(at), Some(width)) if at + width <= shortest => {
                Field { at, width, shift: 0, bits: 8 * width as u32 }
            }
            _ => return Err(format!("the shortest frame has {shortest} bytes: the field is beyond")),
        };
        if field.bytes().end > DATA_SIZE {
            return Err(format!("fields vary within the first {DATA_SIZE} bytes"));
        }
        let series = series(vary.how, field, vary.from, vary.to, vary.step, vary.seed)?;
        self.push_varied(field, series, vary.from, layout)?;
        if let Some(second) = &vary.second {
            let name = if mirror { mirrored_field(&second.field) } else { second.field.clone() };
            let field = layout.field(&name)?;
            let every = series.count;
            let series = Series { every, ..self::series(vary.how, field, second.from, second.to, 1, 0)? };
            self.push_varied(field, series, second.from, layout)?;
        }
        Ok(())
    }

    fn push_varied(&mut self, field: Field, series: Series, from: Number, layout: &Layout) -> Result<(), String> {
        let overlaps = |other: &Range<usize>| other.start < field.bytes().end && field.bytes().start < other.end;
        if self.varied.iter().any(|other| overlaps(&other.field.bytes())) {
            return Err("two fields that vary lie in the same word".into());
        }
        if layout.sums.iter().any(|sum| overlaps(&(sum.at..sum.at + 2))) {
            return Err("a checksum lies there, which is kept right".into());
        }
        // The upper half of an IPv6 address is told with the lower one.
        let around = from.above.unwrap_or(0);
        self.varied.push(Varied { field, around, series, sums: Vec::new() });
        Ok(())
    }

    fn add_frame(&mut self, mut bytes: Vec<u8>, is_tagged: bool) -> Result<(), String> {
        let is_first = self.frames.is_empty();
        for varied in &mut self.varied {
            let range = varied.field.bytes();
            if varied.field.bits == 64 && varied.field.width == 8 && varied.around != 0 {
                bytes[range.start - 8..range.start].copy_from_slice(&varied.around.to_be_bytes());
            }
        }
        let layout = Layout::of(&bytes);
        let tag = if is_tagged { tag_place(&layout) } else { TagPlace::None };
        bytes[tag.bytes()].fill(0);
        if let TagPlace::Small { ip, is_v6, .. } = tag {
            // The number of the stream is not known yet.
            match is_v6 {
                true => bytes[usize::from(ip) + 1..][..3]
                    .iter_mut()
                    .zip([0xf0, 0, 0])
                    .for_each(|(byte, keep)| *byte &= keep),
                false => bytes[usize::from(ip) + 4..][..2].fill(0),
            }
        }
        for sum in &layout.sums {
            sum.mend(&mut bytes);
        }
        if self.varied.iter().any(|varied| overlap(&varied.field.bytes(), &tag.bytes())) {
            return Err(
                "a field that varies lies where the tag goes, at the packet's end (or say `tag = false')".into()
            );
        }
        // Of what varies, nothing is in the base.
        for varied in &mut self.varied {
            let range = varied.field.bytes();
            let word = bytes[range.clone()].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            if is_first {
                varied.around = word & !varied.field.mask();
            }
            bytes[range].fill(0);
        }
        let changes = |sum: &Sum, known: &[usize]| {
            let by_field = self.varied.iter().any(|varied| sum.touches(&varied.field.bytes()));
            by_field || known.iter().any(|at| *at != sum.at && sum.touches(&(*at..at + 2)))
        };
        let mut changing: Vec<&Sum> = Vec::new();
        for sum in &layout.sums {
            let known: Vec<usize> = changing.iter().map(|sum| sum.at).collect();
            if changes(sum, &known) {
                changing.push(sum);
            }
        }
        for sum in &changing {
            bytes[sum.at..sum.at + 2].fill(0);
        }
        let bases = changing.iter().map(|sum| sum.base(&bytes)).collect();
        if is_first {
            for varied in &mut self.varied {
                let range = varied.field.bytes();
                for (at, sum) in changing.iter().enumerate().filter(|(_, sum)| sum.touches(&range)) {
                    let odd = sum.covers(&range).ok_or("a field lies across the border of a checksum's bytes")?;
                    varied.sums.push((at, odd));
                }
            }
            self.changing = (0..changing.len())
                .map(|at| {
                    let sum = changing[at];
                    let own = sum.at..sum.at + 2;
                    let outer = changing.iter().enumerate().skip(at + 1);
                    let within = outer.filter_map(|(place, outer)| Some((place, outer.covers(&own)?))).collect();
                    Changing { at: sum.at, zero_is_none: sum.zero_is_none, within }
                })
                .collect();
        }
        let length = bytes.len() as u16;
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        self.frames.push(Frame { bytes: bytes.into(), length, bases, tag });
        Ok(())
    }

    /// Mean bytes in the buffer.
    pub fn mean_size(&self) -> f64 {
        let total: u64 = self.cycle.iter().map(|frame| u64::from(self.frames[usize::from(*frame)].length)).sum();
        total as f64 / self.cycle.len() as f64
    }

    /// Sizes that it has, in the buffer.
    pub fn sizes(&self) -> Vec<u16> {
        let mut sizes: Vec<u16> = self.frames.iter().map(|frame| frame.length).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// It goes on until somebody stops it.
    pub fn is_endless(&self) -> bool {
        matches!(self.mode, Mode::Continuous | Mode::MultiBurst { bursts: None, .. })
    }

    /// Whether packets are told apart, and whether all of them are timed.
    pub fn is_tagged(&self) -> bool {
        self.frames.iter().any(|frame| frame.tag != TagPlace::None)
    }

    pub fn is_timed(&self) -> bool {
        self.frames.iter().any(|frame| matches!(frame.tag, TagPlace::Full(_)))
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

fn tag_place(layout: &Layout) -> TagPlace {
    let Range { start, end } = layout.payload;
    let ip = layout.headers.iter().rev().find(|(kind, _)| matches!(kind, Kind::Ipv4 | Kind::Ipv6));
    match (end - start, ip) {
        (tag::LENGTH.., _) => TagPlace::Full((end - tag::LENGTH) as u16),
        (tag::SMALL.., Some((kind, ip))) => {
            TagPlace::Small { at: (end - tag::SMALL) as u16, ip: *ip as u16, is_v6: *kind == Kind::Ipv6 }
        }
        _ => TagPlace::None,
    }
}

fn series(how: How, field: Field, from: Number, to: Number, step: u64, seed: u64) -> Result<Series, String> {
    let largest = field.largest();
    if from.value > largest || to.value > largest {
        return Err(format!("the field has {} bits: its values go up to {largest}", field.bits));
    }
    if from.above != to.above {
        return Err("of IPv6 addresses the lower half varies: the upper ones differ".into());
    }
    if from.value > to.value {
        return Err("`from' is beyond `to'".into());
    }
    let count = ((to.value - from.value) / step).saturating_add(1);
    Ok(Series { how, from: from.value, step, count, seed, every: 1 })
}

/// Numbers of templates so that each comes as often as its weight says, spread out evenly.
fn by_turns(weights: &[u16]) -> Vec<u16> {
    let total: i64 = weights.iter().map(|weight| i64::from(*weight)).sum();
    let mut credit = vec![0i64; weights.len()];
    (0..total)
        .map(|_| {
            credit.iter_mut().zip(weights).for_each(|(credit, weight)| *credit += i64::from(*weight));
            let next =
                (0..credit.len()).max_by_key(|at| (credit[*at], std::cmp::Reverse(*at))).expect("there are weights");
            credit[next] -= total;
            next as u16
        })
        .collect()
}

/// A worker's share of a stream: who makes its packets.
pub struct Maker {
    program: Arc<Program>,
    /// Its number in tags.
    number: u16,
    /// Its templates, with its number in them.
    frames: Vec<Frame>,
    /// Packets made.
    made: u64,
    /// Of the stream's packets, those `share`, `share + shares`, and so on are this one's.
    share: u64,
    shares: u64,
    /// Where each series is, so that it need not be reckoned: place, and packets until it goes on.
    places: Vec<(u64, u64)>,
    values: Box<[[u64; VECTOR_SIZE]]>,
    sums: Box<[[u32; VECTOR_SIZE]]>,
}

impl Maker {
    pub fn new(program: &Arc<Program>, number: u16, share: usize, shares: usize) -> Maker {
        let mut frames = program.frames.clone();
        for frame in &mut frames {
            number_small(frame, number, program);
        }
        Maker {
            number,
            frames,
            made: 0,
            share: share as u64,
            shares: shares as u64,
            places: program
                .varied
                .iter()
                .map(|varied| {
                    let Series { every, count, .. } = varied.series;
                    ((share as u64 / every) % count, every - share as u64 % every)
                })
                .collect(),
            values: vec![[0; VECTOR_SIZE]; program.varied.len()].into(),
            sums: vec![[0; VECTOR_SIZE]; program.changing.len()].into(),
            program: program.clone(),
        }
    }

    /// Buffers that its longest packet needs besides the first.
    pub fn more_buffers(&self) -> usize {
        let longest = self.frames.iter().map(|frame| usize::from(frame.length)).max().unwrap_or(0);
        longest.div_ceil(DATA_SIZE).max(1) - 1
    }

    /// Packets made so far.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Writes the next packets into buffers, from the headroom's end on, and their lengths; what `stamp` says is when. A long
    /// one goes on in buffers of `more`, which has [`Maker::more_buffers`] for each packet.
    ///
    /// # Panics
    /// When it has fewer.
    pub fn make(
        &mut self,
        buffers: &mut Buffers,
        packets: &[PacketIndex],
        lengths: &mut [u16],
        stamp: u32,
        more: &mut Vec<PacketIndex>,
    ) {
        let n = packets.len().min(VECTOR_SIZE);
        if !self.program.varied.is_empty() {
            self.vary(n);
        }
        let sequence = self.made as u32;
        let mut words = tag::Words::new(self.number, sequence, stamp);
        let is_plain = words.has_ahead(n as u64);
        self.made += n as u64;
        let Program { cycle, varied, changing, .. } = &*self.program;
        let mut turn = if cycle.len() == 1 { 0 } else { (self.made - n as u64) as usize % cycle.len() };
        for (i, (&packet, length)) in packets.iter().zip(lengths).enumerate().take(n) {
            let frame = &mut self.frames[usize::from(cycle[turn])];
            turn += 1;
            if turn == cycle.len() {
                turn = 0;
            }
            let is_long = frame.bytes.len() > DATA_SIZE;
            let bytes: &mut [u8; DATA_SIZE] = if is_long {
                // What lies in several buffers is made in the template.
                frame.bytes.first_chunk_mut().expect("it is longer")
            } else {
                let bytes: &mut [u8; DATA_SIZE] =
                    (&mut buffers.bytes_mut(packet)[HEADROOM..HEADROOM + DATA_SIZE]).try_into().expect("so many bytes");
                // One line at once, without asking how many bytes there are.
                match frame.bytes.as_array::<64>() {
                    Some(line) => *bytes.first_chunk_mut::<64>().expect("it is longer") = *line,
                    None => bytes[..frame.bytes.len()].copy_from_slice(&frame.bytes),
                }
                bytes
            };
            for (varied, values) in varied.iter().zip(&self.values) {
                store(bytes, varied.field, values[i]);
            }
            for (at, sum) in changing.iter().enumerate() {
                let value = Sum::finish(frame.bases[at] + fold(self.sums[at][i]), sum.zero_is_none);
                bytes[sum.at..sum.at + 2].copy_from_slice(&value.to_be_bytes());
                for &(outer, odd) in &sum.within {
                    let value = if odd { value.swap_bytes() } else { value };
                    self.sums[outer][i] += u32::from(value);
                }
            }
            match frame.tag {
                TagPlace::Full(at) => {
                    let bytes: &mut [u8] = if is_long { &mut frame.bytes } else { bytes };
                    words.write(bytes[usize::from(at)..].first_chunk_mut().expect("the frame has room"));
                }
                TagPlace::Small { at, .. } => {
                    bytes[usize::from(at)..][..tag::SMALL].copy_from_slice(&tag::small(words.sequence()));
                }
                TagPlace::None => {}
            }
            words = if is_plain { words.plus(1) } else { words.next() };
            *length = frame.length;
            if is_long {
                spread(buffers, packet, &frame.bytes[..frame.length.into()], more);
            }
        }
    }

    /// The values of fields for so many packets, and what they add to checksums.
    #[inline]
    fn vary(&mut self, n: usize) {
        for sums in &mut self.sums {
            sums[..n].fill(0);
        }
        let first = self.made * self.shares + self.share;
        for ((varied, values), place) in self.program.varied.iter().zip(&mut self.values).zip(&mut self.places) {
            let values = &mut values[..n];
            varied.series.fill(values, first, self.shares, place);
            let (around, shift) = (varied.around, varied.field.shift);
            if around != 0 || shift != 0 {
                values.iter_mut().for_each(|value| *value = around | *value << shift);
            }
            for &(sum, odd) in &varied.sums {
                add(&mut self.sums[sum][..n], values, varied.field.width, odd);
            }
        }
    }
}

impl Series {
    /// Values of packets `first`, `first + stride`, and so on. `at`: where the first is, kept from call to call.
    #[inline]
    fn fill(&self, values: &mut [u64], first: u64, stride: u64, at: &mut (u64, u64)) {
        if self.how == How::Random {
            let mut n = first;
            for value in values {
                let k = ((u128::from(mix(self.seed, n)) * u128::from(self.count)) >> 64) as u64;
                *value = self.from + k * self.step;
                n += stride;
            }
            return;
        }
        let (mut place, mut left) = *at;
        for value in values {
            let k = if self.how == How::Decrement { self.count - 1 - place } else { place };
            *value = self.from + k * self.step;
            // Mostly one step: no division.
            let mut ahead = stride;
            while ahead >= left {
                ahead -= left;
                left = self.every;
                place += 1;
                if place == self.count {
                    place = 0;
                }
            }
            left -= ahead;
        }
        *at = (place, left);
    }
}

/// Buffers of the longest packet.
pub const MAX_BUFFERS: usize = (MAX_SIZE as usize).div_ceil(DATA_SIZE);

/// Has a packet of this buffer and some of `more`.
#[inline(never)]
fn spread(buffers: &mut Buffers, first: PacketIndex, bytes: &[u8], more: &mut Vec<PacketIndex>) {
    let mut parts = [first; MAX_BUFFERS];
    let n = bytes.len().div_ceil(DATA_SIZE);
    for part in &mut parts[1..n] {
        *part = more.pop().expect("there is one for each part");
    }
    chain::write(buffers, &parts[..n], bytes);
}

/// Puts the stream's number where a small tag has it, and mends the header's checksum.
fn number_small(frame: &mut Frame, number: u16, program: &Program) {
    let TagPlace::Small { ip, is_v6, .. } = frame.tag else { return };
    let ip = usize::from(ip);
    if is_v6 {
        let label = tag::FLOW_LABEL | u32::from(number);
        let word = u32::from_be_bytes(frame.bytes[ip..ip + 4].try_into().expect("four bytes")) & 0xfff0_0000 | label;
        frame.bytes[ip..ip + 4].copy_from_slice(&word.to_be_bytes());
        return;
    }
    frame.bytes[ip + 4..ip + 6].copy_from_slice(&number.to_be_bytes());
    let at = ip + 10;
    match program.changing.iter().position(|sum| sum.at == at) {
        Some(sum) => frame.bases[sum] += u32::from(number),
        None => {
            let header = Sum::of(at, ip..ip + 20);
            header.mend(&mut frame.bytes);
        }
    }
}

#[inline(always)]
fn store(bytes: &mut [u8; DATA_SIZE], field: Field, value: u64) {
    let word = value.to_be_bytes();
    match field.width {
        1 => bytes[field.at] = value as u8,
        2 => bytes[field.at..field.at + 2].copy_from_slice(&word[6..]),
        4 => bytes[field.at..field.at + 4].copy_from_slice(&word[4..]),
        6 => bytes[field.at..field.at + 6].copy_from_slice(&word[2..]),
        _ => bytes[field.at..field.at + 8].copy_from_slice(&word),
    }
}

/// Adds words to sums, 16 bits at a time.
#[inline]
fn add(sums: &mut [u32], values: &[u64], width: usize, odd: bool) {
    // What starts at an odd place adds its sum with the bytes changed (RFC 1071, section 2(B)).
    if odd || width == 1 {
        for (sum, &value) in sums.iter_mut().zip(values) {
            let value = if width == 1 { value << 8 } else { value };
            let folded = fold_wide(value) as u16;
            *sum += u32::from(if odd { folded.swap_bytes() } else { folded });
        }
    } else if width == 2 || width == 4 {
        for (sum, &value) in sums.iter_mut().zip(values) {
            *sum += (value as u32 >> 16) + (value as u32 & 0xffff);
        }
    } else {
        for (sum, &value) in sums.iter_mut().zip(values) {
            *sum += fold_wide(value);
        }
    }
}

#[inline(always)]
fn fold_wide(value: u64) -> u32 {
    let sum = (value >> 32) + (value & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u32
}

/// Rates of a port's streams together.
pub fn mix_of(programs: &[Arc<Program>], line: Option<f64>) -> Mix {
    let packets: f64 = programs.iter().map(|program| program.rate).sum();
    let bytes: f64 = programs.iter().map(|program| program.rate * program.mean_size()).sum();
    Mix { packets, buffer: bytes / packets.max(f64::MIN_POSITIVE), line }
}

#[cfg(test)]
mod tests;
