//! Profiles: streams of packets to send, in a TOML file.
//!
//! `docs/guide/load-tester.md` has the schema with examples; the built-in profiles are in `profiles/`. Errors name the
//! line and column of the file.

mod foreign;
mod shipped;
mod text;

pub use shipped::{NAMES, shipped};
pub use text::{Bytes, Flags, Mac, Number};

use crate::rate::Rate;
use command::files::Files;
use serde::Deserialize;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Most bytes of a profile.
const MOST: u64 = 1 << 20;
/// Most streams of one.
pub const MAX_STREAMS: usize = 1024;
/// Sizes of frames, without frame check sequence. The minimum: Ethernet pads shorter frames.
pub const MIN_SIZE: u16 = 60;
pub const MAX_SIZE: u16 = 9216;

/// A set of streams.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Profile {
    #[serde(skip)]
    pub name: String,
    #[serde(default)]
    pub description: String,
    #[serde(rename = "stream")]
    streams: Vec<Spanned<Stream>>,
    #[serde(skip)]
    source: Source,
}

/// The text that a profile was read from.
#[derive(Debug, Clone, Default)]
struct Source {
    file: String,
    text: String,
}

/// Packets that are made in the same way.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Stream {
    #[serde(default)]
    pub name: String,
    /// Bytes in the buffer: the frame without frame check sequence.
    pub size: Option<Spanned<Size>>,
    /// Several sizes in turn, as often as their weights say.
    pub sizes: Option<Spanned<Vec<Weighted>>>,
    /// The rate before any multiplier.
    #[serde(default = "text::one_packet", deserialize_with = "text::rate")]
    pub rate: Rate,
    #[serde(default)]
    pub mode: Mode,
    /// Seconds from the start to the first packet: T-Rex's inter-stream gap.
    #[serde(default)]
    pub isg: f64,
    #[serde(default)]
    pub ports: Ports,
    /// The stream that begins when this one has ended, and only then.
    pub next: Option<Spanned<String>>,
    /// Ports with odd numbers send it with source and destination exchanged.
    #[serde(default = "yes")]
    pub mirror: bool,
    /// Headers from the outermost to the innermost.
    #[serde(default)]
    pub layers: Vec<Layer>,
    /// A capture, whose frames are sent one after the other instead.
    pub pcap: Option<PathBuf>,
    /// For a capture: when its packets are sent.
    #[serde(default)]
    pub timing: Timing,
    #[serde(default)]
    pub vary: Vec<Spanned<Vary>>,
    /// Its packets are accounted for one by one; without, they are only counted by port.
    #[serde(default = "yes")]
    pub tag: bool,
}

fn yes() -> bool {
    true
}

/// When frames of a capture are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// At the stream's rate.
    #[default]
    Rate,
    /// With the gaps of the capture.
    Capture,
}

/// One size, or all of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    One(u16),
    /// One after the other ('64-1514'), or pseudo-random ('64+1514').
    Range {
        from: u16,
        to: u16,
        is_random: bool,
    },
}

/// A size, and how often it occurs.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weighted {
    pub size: u16,
    pub weight: u16,
}

/// How long a stream sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Mode {
    #[default]
    Continuous,
    /// This many packets in total.
    Burst { packets: u64 },
    /// Bursts of this many packets; `gap` seconds from the last packet of a burst to the first of the next. `bursts` of
    /// them; none: without end.
    MultiBurst {
        packets: u64,
        gap: f64,
        #[serde(default)]
        bursts: Option<u64>,
    },
}

/// Which ports send a stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Ports {
    #[default]
    All,
    Even,
    Odd,
    These(Vec<usize>),
}

impl Ports {
    pub fn has(&self, port: usize) -> bool {
        match self {
            Ports::All => true,
            Ports::Even => port.is_multiple_of(2),
            Ports::Odd => !port.is_multiple_of(2),
            Ports::These(ports) => ports.contains(&port),
        }
    }
}

/// A header, or raw bytes.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    Ethernet(EthernetLayer),
    Vlan(VlanLayer),
    Mpls(MplsLayer),
    Ipv4(Ipv4Layer),
    Ipv6(Ipv6Layer),
    Fragment(FragmentLayer),
    Gre(GreLayer),
    Udp(UdpLayer),
    Tcp(TcpLayer),
    Icmp(IcmpLayer),
    Vxlan(VxlanLayer),
    /// These bytes, unchanged.
    Raw(Bytes),
    /// These bytes, repeated to the end of the frame.
    Payload(Bytes),
}

macro_rules! layers {
    ($($(#[$meta:meta])* $name:ident { $($field:ident: $type:ty = $default:expr),* $(,)? })*) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
        pub struct $name { $(pub $field: $type),* }
        impl Default for $name {
            fn default() -> $name { $name { $($field: $default),* } }
        }
    )* };
}

layers! {
    /// Without addresses: from the port to its gateway.
    EthernetLayer { source: Option<Mac> = None, destination: Option<Mac> = None, ethertype: Option<u16> = None }
    VlanLayer { id: u16 = 1, pcp: u8 = 0, dei: bool = false, tpid: Option<u16> = None }
    MplsLayer { label: u32 = 16, tc: u8 = 0, ttl: u8 = 64 }
    Ipv4Layer {
        source: Ipv4Addr = Ipv4Addr::new(16, 0, 0, 1),
        destination: Ipv4Addr = Ipv4Addr::new(48, 0, 0, 1),
        dscp: u8 = 0,
        ecn: u8 = 0,
        id: u16 = 0,
        df: bool = false,
        mf: bool = false,
        fragment_offset: u16 = 0,
        ttl: u8 = 64,
        protocol: u8 = 253,
        options: Option<Bytes> = None,
    }
    /// IPv6's (RFC 8200, 4.5).
    FragmentLayer { offset: u16 = 0, more: bool = false, id: u32 = 1, next_header: u8 = 59 }
    /// RFC 2784 and RFC 2890.
    GreLayer { protocol: u16 = 0, checksum: bool = false, key: Option<u32> = None, sequence: Option<u32> = None }
    Ipv6Layer {
        source: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0x16, 0, 0, 0, 1),
        destination: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0x48, 0, 0, 0, 1),
        dscp: u8 = 0,
        ecn: u8 = 0,
        flow_label: u32 = 0,
        hop_limit: u8 = 64,
        next_header: u8 = 253,
    }
    UdpLayer { source: u16 = 1025, destination: u16 = 12, checksum: Option<bool> = None }
    TcpLayer {
        source: u16 = 1025,
        destination: u16 = 80,
        sequence: u32 = 1,
        acknowledgement: u32 = 0,
        flags: Flags = Flags::SYN,
        window: u16 = 65_535,
    }
    IcmpLayer { kind: Option<u8> = None, code: u8 = 0, id: u16 = 1, sequence: u16 = 1 }
    VxlanLayer { vni: u32 = 1 }
}

/// A field whose value changes from packet to packet.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Vary {
    /// By name, such as `ipv4.source`; or else by offset.
    pub field: Option<String>,
    /// Bytes from the start of the frame, and the width of the field: 1, 2, 4 or 8.
    pub offset: Option<usize>,
    pub width: Option<usize>,
    #[serde(default)]
    pub how: How,
    pub from: Option<Number>,
    pub to: Option<Number>,
    /// Instead of both: a list of values.
    pub values: Option<Vec<Number>>,
    #[serde(default = "one")]
    pub step: u64,
    /// For random values: the sequence repeats after this many.
    pub limit: Option<u64>,
    /// For random values: the same seed gives the same sequence.
    #[serde(default = "one")]
    pub seed: u64,
    /// For a tuple: a second field, which advances when the first starts over.
    #[serde(rename = "with")]
    pub second: Option<Second>,
}

fn one() -> u64 {
    1
}

/// The second field of a tuple.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Second {
    pub field: String,
    pub from: Number,
    pub to: Number,
}

/// How a field gets its next value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    #[default]
    Increment,
    Decrement,
    Random,
    Tuple,
}

/// What is wrong with a profile, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ProfileError {
    pub file: String,
    /// Line and column, from 1.
    pub place: Option<(usize, usize)>,
    pub message: String,
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl Source {
    fn error(&self, at: Option<usize>, message: impl Into<String>) -> ProfileError {
        let place = at.map(|at| {
            let before = &self.text[..self.text.floor_char_boundary(at)];
            let line = before.rsplit('\n').next().expect("there is one at least");
            (before.matches('\n').count() + 1, line.chars().count() + 1)
        });
        ProfileError { file: self.file.clone(), place, message: message.into() }
    }
}

impl Profile {
    /// Loads a built-in profile, by its name or T-Rex's (`imix`, `stl/bench.py`), or a file. A built-in profile never
    /// hides a file: only a name without a directory means one, and a name with `.py` only when there is no such file.
    ///
    /// # Errors
    /// What is wrong with it, with line and column.
    pub fn load(name: &str) -> Result<Profile, ProfileError> {
        let source = Source { file: name.into(), text: String::new() };
        let path = Path::new(name);
        if let Some(own) = shipped::known_as(name).filter(|own| name == *own || !path.exists()) {
            return Profile::built_in(own);
        }
        if !path.exists() {
            let near = command::nearest::likely(name, NAMES.iter().copied());
            let advice = near.map_or(String::new(), |near| format!(" (did you mean '{near}'?)"));
            return Err(source.error(
                None,
                format!("no such file, and no built-in profile of this name: see 'quiver loadtest profiles'{advice}"),
            ));
        }
        let wrong = |why: String| source.error(None, why.strip_prefix(&format!("{name}: ")).unwrap_or(&why));
        let file = Files::anywhere().open(path).map_err(|error| wrong(error.to_string()))?;
        let mut bytes = Vec::new();
        let read = std::io::Read::read_to_end(&mut std::io::Read::take(file, MOST + 1), &mut bytes);
        read.map_err(|error| wrong(error.to_string()))?;
        if let Some(what) = foreign::of_bytes(name, &bytes[..bytes.len().min(MOST as usize)]) {
            return Err(wrong(what));
        }
        if bytes.len() as u64 > MOST {
            return Err(wrong(format!("longer than {MOST} bytes")));
        }
        let text = String::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
        let mut profile = Profile::parse(name, &text).map_err(|error| {
            let Some(what) = foreign::of_text(name, &text) else { return error };
            let instead = shipped::known_as(&path.file_name().unwrap_or_default().to_string_lossy());
            let instead =
                instead.map_or(String::new(), |own| format!(" (the built-in '{own}' sends what T-Rex's does)"));
            wrong(what + &instead)
        })?;
        // Captures are relative to the profile's directory.
        let beside = path.parent().unwrap_or(Path::new(""));
        for stream in &mut profile.streams {
            if let Some(pcap) = &mut stream.get_mut().pcap {
                *pcap = beside.join(&*pcap);
            }
        }
        Ok(profile)
    }

    /// A built-in profile, even if a file has its name.
    ///
    /// # Errors
    /// When none has this name.
    pub fn built_in(name: &str) -> Result<Profile, ProfileError> {
        let source = || Source { file: name.into(), text: String::new() };
        let text = shipped(name).ok_or_else(|| source().error(None, "there is no built-in profile of this name"))?;
        Profile::parse(name, text)
    }

    /// Parses the text of a profile; errors call it `file`.
    ///
    /// # Errors
    /// What is wrong with it, with line and column.
    pub fn parse(file: &str, text: &str) -> Result<Profile, ProfileError> {
        let source = Source { file: file.into(), text: text.into() };
        let mut profile: Profile = toml::from_str(text)
            .map_err(|error| source.error(error.span().map(|span| span.start), error.message().replace('\n', "; ")))?;
        profile.name = Path::new(file).file_stem().map_or(file.into(), |stem| stem.to_string_lossy().into());
        profile.source = source;
        profile.check()?;
        Ok(profile)
    }

    /// Checks what does not depend on ports.
    fn check(&mut self) -> Result<(), ProfileError> {
        if self.streams.is_empty() || self.streams.len() > MAX_STREAMS {
            return Err(self.source.error(None, format!("a profile has 1 to {MAX_STREAMS} of '[[stream]]'")));
        }
        for at in 0..self.streams.len() {
            let span = self.streams[at].span();
            if self.streams[at].get_ref().name.is_empty() {
                self.streams[at].get_mut().name = format!("stream-{}", at + 1);
            }
            let stream = self.streams[at].get_ref();
            let name = &stream.name;
            if self.streams[..at].iter().any(|other| other.get_ref().name == *name) {
                return Err(self.source.error(Some(span.start), format!("there are two streams called '{name}'")));
            }
            if let Some(next) = &stream.next {
                let wrong = |message: String| Err(self.source.error(Some(next.span().start), message));
                let all = self.streams.iter().map(Spanned::get_ref);
                if stream.mode.is_endless() {
                    return wrong(format!(
                        "stream '{name}' has no end, so that nothing can come next: give it a 'mode' with a number \
                         of bursts"
                    ));
                }
                // Streams without a name get one later, one by one.
                let is_named = |number: usize, other: &Stream| match other.name.is_empty() {
                    true => format!("stream-{}", number + 1) == *next.get_ref(),
                    false => other.name == *next.get_ref(),
                };
                if !all.clone().enumerate().any(|(number, other)| is_named(number, other)) {
                    return wrong(format!("stream '{name}': there is no stream '{}' to come next", next.get_ref()));
                }
                let before = self.streams[..at].iter().map(Spanned::get_ref);
                if let Some(other) = before.clone().find(|other| other.is_before(next.get_ref())) {
                    return wrong(format!(
                        "stream '{name}': '{}' comes after '{}' already",
                        next.get_ref(),
                        other.name
                    ));
                }
            }
            if let Err((place, message)) = stream.check() {
                let place = place.unwrap_or(span.start);
                return Err(self.source.error(Some(place), format!("stream '{name}': {message}")));
            }
        }
        Ok(())
    }

    /// The same profile, with packets that are only counted by port.
    #[must_use]
    pub fn untagged(mut self) -> Profile {
        self.streams.iter_mut().for_each(|stream| stream.get_mut().tag = false);
        self
    }

    /// Its streams, in the order of the file.
    pub fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter().map(Spanned::get_ref)
    }

    /// Whether a stream begins only when another has ended. If streams follow each other in a loop, the first of them
    /// begins.
    pub(crate) fn waits(&self, stream: usize) -> bool {
        let before = |at: usize| self.streams().position(|other| other.is_before(&self.streams[at].get_ref().name));
        let (mut at, mut first) = (stream, stream);
        while let Some(other) = before(at) {
            if other == stream {
                return first < stream;
            }
            (at, first) = (other, first.min(other));
        }
        at != stream
    }

    /// An error of the n-th stream, at a place of the text if one is known.
    pub(crate) fn error(&self, stream: usize, at: Option<usize>, message: impl fmt::Display) -> ProfileError {
        let stream = &self.streams[stream];
        let at = at.unwrap_or(stream.span().start);
        self.source.error(Some(at), format!("stream '{}': {message}", stream.get_ref().name))
    }
}

impl Mode {
    /// Whether it sends until it is stopped.
    pub fn is_endless(self) -> bool {
        matches!(self, Mode::Continuous | Mode::MultiBurst { bursts: None, .. })
    }
}

impl Ipv4Layer {
    /// Bytes of the header, with its options.
    pub fn header(&self) -> usize {
        20 + self.options.as_ref().map_or(0, |options| options.0.len().next_multiple_of(4))
    }
}

impl GreLayer {
    /// Bytes of the header.
    pub fn header(&self) -> usize {
        4 + 4 * (usize::from(self.checksum) + usize::from(self.key.is_some()) + usize::from(self.sequence.is_some()))
    }
}

impl Stream {
    /// Whether the stream `name` begins when this one has ended.
    pub fn is_before(&self, name: &str) -> bool {
        self.next.as_ref().is_some_and(|next| next.get_ref() == name)
    }

    /// Whether its sizes are pseudo-random.
    pub fn has_random_size(&self) -> bool {
        matches!(self.size.as_ref().map(Spanned::get_ref), Some(Size::Range { is_random: true, .. }))
    }

    fn check(&self) -> Result<(), (Option<usize>, String)> {
        let wrong = |message: &str| Err((None, message.to_string()));
        if !(0.0..=86_400.0).contains(&self.isg) {
            return wrong("'isg' is 0 to 86400 seconds");
        }
        match self.rate {
            Rate::Packets(rate) | Rate::Bits(rate) | Rate::WireBits(rate) if rate > 0.0 && rate.is_finite() => {}
            _ => return wrong("its rate is in packets or bits a second ('28pps', '1gbps'), and not nothing"),
        }
        match self.mode {
            Mode::Burst { packets: 0 } | Mode::MultiBurst { packets: 0, .. } => return wrong("a burst has packets"),
            Mode::MultiBurst { gap, .. } if !(0.0..=86_400.0).contains(&gap) => {
                return wrong("the gap between bursts is 0 to 86400 seconds");
            }
            _ => {}
        }
        let has_sizes = usize::from(self.size.is_some()) + usize::from(self.sizes.is_some());
        match &self.pcap {
            Some(_) if has_sizes > 0 || !self.layers.is_empty() => {
                return wrong("'pcap' brings frames with their sizes: it goes without 'size', 'sizes' and 'layers'");
            }
            None if self.layers.is_empty() => return wrong("it has no packets: give 'layers', or a 'pcap'"),
            None if has_sizes != 1 => return wrong("it has either a 'size' or 'sizes'"),
            _ => {}
        }
        if self.timing == Timing::Capture && self.pcap.is_none() {
            return wrong("'timing' is of a capture: it goes with 'pcap'");
        }
        if self.timing == Timing::Capture && self.mode != Mode::Continuous {
            return wrong("'timing = \"capture\"' has no bursts: leave 'mode' out");
        }
        if let Some(sizes) = &self.sizes {
            let total: u32 = sizes.get_ref().iter().map(|size| u32::from(size.weight)).sum();
            if !(1..=1000).contains(&total) || sizes.get_ref().iter().any(|size| size.weight == 0) {
                return Err((Some(sizes.span().start), "weights are 1 or more, and 1000 at most together".into()));
            }
        }
        for (at, size) in self.spanned_sizes() {
            if !(MIN_SIZE..=MAX_SIZE).contains(&size) {
                let message =
                    format!("{size} bytes: frames have {MIN_SIZE} to {MAX_SIZE} without frame check sequence");
                return Err((Some(at), message));
            }
        }
        for layer in &self.layers {
            layer.check().map_err(|message| (None, message.to_string()))?;
        }
        for vary in &self.vary {
            vary.get_ref().check().map_err(|message| (Some(vary.span().start), message.to_string()))?;
        }
        Ok(())
    }

    fn spanned_sizes(&self) -> Vec<(usize, u16)> {
        let one = self.size.iter().flat_map(|size| {
            let start = size.span().start;
            let ends = match *size.get_ref() {
                Size::One(size) => [size, size],
                Size::Range { from, to, .. } => [from, to],
            };
            ends.map(|end| (start, end))
        });
        let many = self.sizes.iter().flat_map(|sizes| {
            let start = sizes.span().start;
            sizes.get_ref().iter().map(move |size| (start, size.size))
        });
        one.chain(many).collect()
    }

    /// Sizes with their weights.
    pub fn weighted(&self) -> Vec<Weighted> {
        let one = self.size.iter().flat_map(|size| match *size.get_ref() {
            Size::One(size) => size..=size,
            Size::Range { from, to, .. } => from..=to,
        });
        let one = one.map(|size| Weighted { size, weight: 1 });
        one.chain(self.sizes.iter().flat_map(|sizes| sizes.get_ref().iter().copied())).collect()
    }
}

impl Layer {
    fn check(&self) -> Result<(), &'static str> {
        match self {
            Layer::Vlan(VlanLayer { id, pcp, .. }) if *id > 4095 || *pcp > 7 => {
                Err("a VLAN has an id up to 4095 and a pcp up to 7")
            }
            Layer::Mpls(MplsLayer { label, tc, .. }) if *label > 0xf_ffff || *tc > 7 => {
                Err("an MPLS label is up to 1048575, its tc up to 7")
            }
            Layer::Ipv4(Ipv4Layer { dscp, ecn, .. }) | Layer::Ipv6(Ipv6Layer { dscp, ecn, .. })
                if *dscp > 63 || *ecn > 3 =>
            {
                Err("dscp is up to 63, ecn up to 3")
            }
            Layer::Ipv4(layer) if layer.fragment_offset > 0x1fff => {
                Err("'fragment-offset' is in units of 8 bytes, up to 8191")
            }
            Layer::Ipv4(Ipv4Layer { options: Some(Bytes(options)), .. }) if options.len() > 40 => {
                Err("an IPv4 header has 40 bytes of options at most")
            }
            Layer::Fragment(layer) if layer.offset > 0x1fff => Err("'offset' is in units of 8 bytes, up to 8191"),
            Layer::Ipv6(layer) if layer.flow_label > 0xf_ffff => Err("a flow label is up to 1048575"),
            Layer::Vxlan(layer) if layer.vni > 0xff_ffff => Err("a vni is up to 16777215"),
            Layer::Payload(bytes) | Layer::Raw(bytes) if bytes.0.is_empty() => Err("'payload' and 'raw' have bytes"),
            _ => Ok(()),
        }
    }

    /// The layer with source and destination exchanged.
    #[must_use]
    pub fn mirrored(&self) -> Layer {
        let mut layer = self.clone();
        match &mut layer {
            Layer::Ethernet(layer) => std::mem::swap(&mut layer.source, &mut layer.destination),
            Layer::Ipv4(layer) => std::mem::swap(&mut layer.source, &mut layer.destination),
            Layer::Ipv6(layer) => std::mem::swap(&mut layer.source, &mut layer.destination),
            Layer::Udp(layer) => std::mem::swap(&mut layer.source, &mut layer.destination),
            Layer::Tcp(layer) => std::mem::swap(&mut layer.source, &mut layer.destination),
            _ => {}
        }
        layer
    }
}

/// Most values of a list.
const MAX_VALUES: usize = 1 << 16;

impl Vary {
    /// Its first value.
    pub fn first(&self) -> Number {
        let nothing = Number { value: 0, above: None };
        self.values.as_ref().and_then(|values| values.first().copied()).or(self.from).unwrap_or(nothing)
    }

    fn check(&self) -> Result<(), &'static str> {
        match (&self.field, self.offset, self.width) {
            (Some(_), None, None) => {}
            (None, Some(_), Some(1 | 2 | 4 | 8)) => {}
            _ => return Err("say a 'field', or an 'offset' with a 'width' of 1, 2, 4 or 8"),
        }
        if self.step == 0 {
            return Err("a step is 1 or more");
        }
        match (&self.values, self.from, self.to) {
            (None, Some(_), Some(_)) => {}
            (Some(values), None, None) if (1..=MAX_VALUES).contains(&values.len()) && self.step == 1 => {}
            (Some(_), None, None) => return Err("'values' are 1 to 65536, without a 'step'"),
            _ => return Err("say 'from' and 'to', or 'values'"),
        }
        if self.limit == Some(0) || self.limit.is_some() && self.how != How::Random {
            return Err("'limit' is of 'how = \"random\"', and 1 or more");
        }
        match (self.how, &self.second) {
            (How::Tuple, None) => Err("a tuple goes on in a second field: 'with = { field, from, to }'"),
            (How::Tuple, Some(_)) => Ok(()),
            (_, Some(_)) => Err("'with' belongs to 'how = \"tuple\"'"),
            (_, None) => Ok(()),
        }
    }
}

/// The name of a field when source and destination are exchanged.
pub(crate) fn mirrored_field(name: &str) -> String {
    // Source and destination addresses or ports change places; MPLS labels and the like stay.
    match name.rsplit_once('.') {
        Some((layer, "source")) => format!("{layer}.destination"),
        Some((layer, "destination")) => format!("{layer}.source"),
        _ => name.into(),
    }
}
