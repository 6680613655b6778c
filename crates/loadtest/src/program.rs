//! Streams prepared for sending: templates, and the fields that are written into each copy.
//!
//! Packets are made a vector at a time. First come the values of each field for all packets of the vector, and what
//! they add to checksums; then, for each packet, template, fields, checksums and tag. A checksum is not computed from
//! scratch: the sum of its constant part is known, and only the rest is added.

mod captured;
mod maker;
mod series;

pub use maker::{MAX_BUFFERS, Maker};

use crate::frame::{self, Ends, VLAN_AT, VLAN_TAG, build};
use crate::layout::{Field, Kind, Layout, Sum};
use crate::profile::{Layer, Mode, Number, Profile, ProfileError, Stream, Timing, mirrored_field};
use crate::rate::Mix;
use crate::tag;
use captured::Own;
use graph::buffer::DATA_SIZE;
use series::{Series, mix};
use std::ops::Range;
use std::sync::Arc;

/// Frames of a stream before they become templates, which frame each packet has (a repeated cycle), and the gaps
/// between packets.
type Raw = (Vec<Vec<u8>>, Vec<u16>, Option<Arc<[u64]>>);

/// A template.
#[derive(Debug, Clone)]
struct Frame {
    /// Padded to a multiple of 64 bytes.
    bytes: Box<[u8]>,
    length: u16,
    /// For each checksum that changes, the sum of its constant part.
    bases: Vec<u32>,
    tag: TagPlace,
    /// For a captured frame with varied fields: where the fields are in this frame.
    own: Option<Box<Own>>,
}

/// Where the tag is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagPlace {
    Full(u16),
    /// In an IPv4 header at `ip`, or in an IPv6 header, which also holds the stream's number.
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
    /// The constant bits of the word around it.
    around: u64,
    series: Series,
    /// Checksums that include it, and whether it starts at an odd offset there.
    sums: Vec<(usize, bool)>,
}

/// A checksum that changes, and the outer checksums that cover it.
#[derive(Debug, Clone)]
struct Changing {
    at: usize,
    zero_is_none: bool,
    within: Vec<(usize, bool)>,
}

/// A stream of one port, ready to send.
#[derive(Debug, Clone)]
pub struct Program {
    pub name: String,
    /// Packets a second before any multiplier.
    pub rate: f64,
    pub mode: Mode,
    /// Seconds from the start to its first packet.
    pub isg: f64,
    /// Which of the port's programs begins when it has ended; and whether it itself begins only when another has ended.
    pub next: Option<usize>,
    pub waits: bool,
    /// For a capture with its own timing: nanoseconds from each packet to the next.
    pub gaps: Option<Arc<[u64]>>,
    frames: Vec<Frame>,
    /// Which template each packet has, as a repeated cycle.
    cycle: Vec<u16>,
    varied: Vec<Varied>,
    changing: Vec<Changing>,
}

impl Program {
    /// The streams of a profile that a port sends.
    ///
    /// # Errors
    /// What is inconsistent, with its place in the profile.
    pub fn of_port(profile: &Profile, port: usize, ends: Ends) -> Result<Vec<Arc<Program>>, ProfileError> {
        let streams: Vec<(usize, &Stream)> =
            profile.streams().enumerate().filter(|(_, stream)| stream.ports.has(port)).collect();
        let place_of = |name: &str| streams.iter().position(|(_, stream)| stream.name == name);
        let compile = |&(at, stream): &(usize, &Stream)| {
            let wrong = |(place, message): (Option<usize>, String)| profile.error(at, place, message);
            let mirror = stream.mirror && port % 2 == 1 && stream.pcap.is_none();
            let mut program = Program::new(stream, mirror, ends).map_err(wrong)?;
            if let Some(next) = &stream.next {
                let elsewhere = || format!("'next': port {port} does not send '{}'", next.get_ref());
                let found = place_of(next.get_ref()).ok_or_else(|| wrong((Some(next.span().start), elsewhere())))?;
                program.next = Some(found);
            }
            if let Some(before) = profile.streams().find(|other| other.is_before(&stream.name)) {
                program.waits = profile.waits(at);
                if program.waits && place_of(&before.name).is_none() {
                    let message = format!("port {port} does not send '{}', which it comes after", before.name);
                    return Err(wrong((None, message)));
                }
            }
            Ok(Arc::new(program))
        };
        streams.iter().map(compile).collect()
    }

    fn new(stream: &Stream, mirror: bool, ends: Ends) -> Result<Program, (Option<usize>, String)> {
        let plain = |message: String| (None, message);
        let vlan = ends.vlan.filter(|_| stream.pcap.is_none() && frame::takes_port_vlan(&stream.layers));
        let (mut raw, cycle, gaps): Raw = match &stream.pcap {
            Some(path) => {
                let (frames, times) = captured::read(path).map_err(plain)?;
                let gaps = match &stream.timing {
                    Timing::Rate => None,
                    Timing::Capture => Some(captured::gaps(&times).map_err(plain)?),
                };
                let cycle = (0..frames.len() as u16).collect();
                (frames, cycle, gaps)
            }
            None => {
                let layers: Vec<Layer> = match mirror {
                    true => stream.layers.iter().map(Layer::mirrored).collect(),
                    false => stream.layers.clone(),
                };
                let sizes = stream.weighted();
                let frames = sizes.iter().map(|size| build(&layers, size.size.into(), ends));
                let frames = frames.collect::<Result<_, _>>().map_err(plain)?;
                let weights: Vec<u16> = sizes.iter().map(|size| size.weight).collect();
                let cycle = if stream.has_random_size() { at_random(sizes.len()) } else { by_turns(&weights) };
                (frames, cycle, None)
            }
        };
        if let Some(vlan) = vlan {
            raw.iter_mut().for_each(|bytes| frame::tag(bytes, vlan));
        }
        let mut program = Program {
            name: stream.name.clone(),
            rate: 0.0,
            mode: stream.mode,
            isg: stream.isg,
            next: None,
            waits: false,
            gaps,
            frames: Vec::new(),
            cycle,
            varied: Vec::new(),
            changing: Vec::new(),
        };
        if stream.pcap.is_some() && !stream.vary.is_empty() {
            program.add_captured(stream, raw)?;
            program.set_rate(stream);
            return Ok(program);
        }
        let first = Layout::of(&raw[0]);
        for vary in &stream.vary {
            let place = Some(vary.span().start);
            let mut vary = vary.get_ref().clone();
            // The profile's offsets are those of the frame without the port's VLAN tag.
            vary.offset = vary.offset.map(|at| if vlan.is_some() && at >= VLAN_AT { at + VLAN_TAG } else { at });
            program
                .add_varied(&vary, mirror, &first, raw.iter().map(Vec::len).min().unwrap_or(0))
                .map_err(|message| (place, message))?;
        }
        for bytes in raw {
            program.add_frame(bytes, stream.tag).map_err(plain)?;
        }
        program.set_rate(stream);
        Ok(program)
    }

    fn set_rate(&mut self, stream: &Stream) {
        let mix = Mix { packets: 1.0, buffer: self.mean_size(), line: None };
        self.rate = match &self.gaps {
            Some(gaps) => gaps.len() as f64 * 1e9 / gaps.iter().sum::<u64>() as f64,
            None => stream.rate.packets(&mix).ok().flatten().unwrap_or(1.0),
        };
    }

    /// Frames of a capture with varied fields: each frame has them at its own offsets.
    fn add_captured(&mut self, stream: &Stream, raw: Vec<Vec<u8>>) -> Result<(), (Option<usize>, String)> {
        let mut names = Vec::new();
        for vary in &stream.vary {
            let at = |message: String| (Some(vary.span().start), message);
            let vary = vary.get_ref();
            let (series, field) = captured::series(vary, &raw).map_err(at)?;
            let every = series.clone();
            // Each frame has the field at its own offset, so values are not shifted here.
            let field = Field { shift: 0, ..field };
            names.push((captured::name(vary), vary.first().above.unwrap_or(0)));
            self.varied.push(Varied { field, around: 0, series, sums: Vec::new() });
            if let Some(second) = &vary.second {
                let find = |frame: &Vec<u8>| Layout::of(frame).field(&second.field).ok();
                let field = raw.iter().find_map(find);
                let field = field.ok_or_else(|| at(format!("no packet of the capture has '{}'", second.field)))?;
                let series = Series::second(field, second.from, second.to, &every).map_err(at)?;
                names.push((second.field.clone(), second.from.above.unwrap_or(0)));
                self.varied.push(Varied { field: Field { shift: 0, ..field }, around: 0, series, sums: Vec::new() });
            }
        }
        let varied = std::mem::take(&mut self.varied);
        for (number, mut bytes) in raw.into_iter().enumerate() {
            let layout = Layout::of(&bytes);
            let place = if stream.tag { tag_place(&layout) } else { TagPlace::None };
            let own = Own::find(&names, &mut bytes, place);
            let own =
                own.map_err(|why| (Some(stream.vary[0].span().start), format!("packet {}: {why}", number + 1)))?;
            self.add_frame(bytes, stream.tag).map_err(|why| (None, why))?;
            self.frames.last_mut().expect("it was added").own = Some(Box::new(own));
        }
        self.varied = varied;
        Ok(())
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
        let series = Series::new(vary, field)?;
        self.push_varied(field, series.clone(), vary.first(), layout)?;
        if let Some(second) = &vary.second {
            let name = if mirror { mirrored_field(&second.field) } else { second.field.clone() };
            let field = layout.field(&name)?;
            let series = Series::second(field, second.from, second.to, &series)?;
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
            return Err("these bytes hold a checksum, which the load tester sets itself".into());
        }
        // The upper half of an IPv6 address is given with the lower half.
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
            // The stream's number is not known yet.
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
        if self.varied.iter().any(|varied| tag.has(&varied.field.bytes())) {
            return Err(match tag {
                TagPlace::Small { is_v6, .. } => format!(
                    "a field that varies lies where the tag goes: in so short a packet the last {} bytes and {} (or \
                     say \
                     'tag = false')",
                    tag::SMALL,
                    if is_v6 { "the flow label" } else { "the IPv4 id" }
                ),
                _ => "a field that varies lies where the tag goes, at the packet's end (or say 'tag = false')".into(),
            });
        }
        // The constant part of a checksum leaves out what varies.
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
        self.frames.push(Frame { bytes: bytes.into(), length, bases, tag, own: None });
        Ok(())
    }

    /// Mean bytes in the buffer.
    pub fn mean_size(&self) -> f64 {
        let total: u64 = self.cycle.iter().map(|frame| u64::from(self.frames[usize::from(*frame)].length)).sum();
        total as f64 / self.cycle.len() as f64
    }

    /// Sizes of its packets, in the buffer.
    pub fn sizes(&self) -> Vec<u16> {
        let mut sizes: Vec<u16> = self.frames.iter().map(|frame| frame.length).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Whether it sends until it is stopped.
    pub fn is_endless(&self) -> bool {
        self.mode.is_endless()
    }

    /// Whether packets are accounted for one by one, and whether all of them are timed.
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

/// Numbers of templates, each as often as its weight says, spread evenly.
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

/// Numbers of this many templates in pseudo-random order, the same each time.
fn at_random(count: usize) -> Vec<u16> {
    const LENGTH: u64 = 1 << 16;
    (0..LENGTH).map(|n| ((u128::from(mix(1, n)) * count as u128) >> 64) as u16).collect()
}

/// The rates of a port's streams together. Only streams that begin by themselves count: the others send when these have
/// ended.
pub fn mix_of(programs: &[Arc<Program>], line: Option<f64>) -> Mix {
    let own = || programs.iter().filter(|program| !program.waits);
    let packets: f64 = own().map(|program| program.rate).sum();
    let bytes: f64 = own().map(|program| program.rate * program.mean_size()).sum();
    Mix { packets, buffer: bytes / packets.max(f64::MIN_POSITIVE), line }
}

#[cfg(test)]
mod tests;
