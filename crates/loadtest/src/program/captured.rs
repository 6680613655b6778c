//! Frames of a capture, each with headers of its own: so each knows by itself where fields are that change.

use super::series::Series;
use super::{TagPlace, overlap};
use crate::layout::{Field, Layout, Sum};
use crate::profile::{MAX_SIZE, MIN_SIZE, Vary};
use command::files::Files;
use drivers::capture_file;
use graph::VECTOR_SIZE;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Most frames of a capture: each is a template.
const MOST: usize = u16::MAX as usize;

/// Frames, and when each came, as far as it is known.
type Frames = (Vec<Vec<u8>>, Vec<Option<Duration>>);

/// The frames of a capture file, not shorter than Ethernet has them, and when each was captured.
///
/// # Errors
/// What is wrong with the file, in words.
pub(super) fn read(path: &Path) -> Result<Frames, String> {
    let file = Files::anywhere().open(path).map_err(|error| error.to_string())?;
    let packets = capture_file::read(path, file, MAX_SIZE.into())?;
    if packets.len() > MOST {
        return Err(format!("{}: has more than {MOST} packets", path.display()));
    }
    let padded = |packet: capture_file::Captured| {
        let mut frame = packet.frame;
        frame.resize(frame.len().max(MIN_SIZE.into()), 0);
        (frame, packet.at)
    };
    Ok(packets.into_iter().map(padded).unzip())
}

/// Nanoseconds from each packet to the next, and from the last to the first of the next round: as long as others are
/// in the mean.
///
/// # Errors
/// When the capture does not say when its packets came, or they all came at once.
pub(super) fn gaps(times: &[Option<Duration>]) -> Result<Arc<[u64]>, String> {
    let times: Option<Vec<Duration>> = times.iter().copied().collect();
    let times = times.ok_or("the capture does not say when its packets came: it has no 'timing'")?;
    // Clocks of captures may go back a little.
    let gap =
        |pair: &[Duration]| u64::try_from(pair[1].saturating_sub(pair[0]).as_nanos()).unwrap_or(LONGEST).min(LONGEST);
    let mut gaps: Vec<u64> = times.windows(2).map(gap).collect();
    let all: u64 = gaps.iter().sum();
    if all == 0 {
        return Err("all packets of the capture came at the same time: it has no 'timing'".into());
    }
    gaps.push((all / gaps.len() as u64).max(1));
    Ok(gaps.into())
}

/// The longest gap that is kept: a day.
const LONGEST: u64 = 86_400_000_000_000;

/// What changes in one frame: fields, each with the number of its series, and checksums, the innermost first.
#[derive(Debug, Clone, Default)]
pub(super) struct Own {
    fields: Vec<(usize, Field)>,
    sums: Vec<Sum>,
}

impl Own {
    /// Finds the fields in a frame. Those that it has not are left alone.
    ///
    /// # Errors
    /// When two of them, a checksum or the tag lie in the same place.
    pub(super) fn find(varied: &[(String, u64)], bytes: &mut [u8], tag: TagPlace) -> Result<Own, String> {
        let layout = Layout::of(bytes);
        let mut own = Own::default();
        for (series, (name, above)) in varied.iter().enumerate() {
            let Some(field) = place(name, &layout, bytes.len()) else { continue };
            let range = field.bytes();
            if layout.sums.iter().any(|sum| overlap(&range, &(sum.at..sum.at + 2))) {
                return Err(format!("{name}: these bytes hold a checksum, which the load tester sets itself"));
            }
            let is_taken =
                |other: &(usize, Field)| overlap(&range, &other.1.bytes()) && field.mask() & other.1.mask() != 0;
            if own.fields.iter().any(is_taken) {
                return Err(format!("{name}: two fields that vary lie in the same place"));
            }
            if tag.has(&range) {
                return Err(format!("{name}: it lies where the tag goes (or say 'tag = false')"));
            }
            if field.bits == 64 && field.width == 8 && *above != 0 {
                bytes[range.start - 8..range.start].copy_from_slice(&above.to_be_bytes());
            }
            own.fields.push((series, field));
        }
        for sum in &layout.sums {
            let by_field = own.fields.iter().any(|(_, field)| sum.touches(&field.bytes()));
            if by_field || own.sums.iter().any(|inner| sum.touches(&(inner.at..inner.at + 2))) {
                own.sums.push(sum.clone());
            }
        }
        layout.sums.iter().for_each(|sum| sum.mend(bytes));
        Ok(own)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Writes the values of the i-th packet into a frame, and has its checksums right.
    #[inline(never)]
    pub(super) fn write(&self, frame: &mut [u8], values: &[[u64; VECTOR_SIZE]], i: usize) {
        for (series, field) in &self.fields {
            let place = &mut frame[field.bytes()];
            let word = place.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            let word = word & !field.mask() | values[*series][i] << field.shift;
            let width = place.len();
            place.copy_from_slice(&word.to_be_bytes()[8 - width..]);
        }
        self.sums.iter().for_each(|sum| sum.mend(frame));
    }
}

/// Where a field is, by its name, or by its place as [`name`] writes it.
fn place(name: &str, layout: &Layout, length: usize) -> Option<Field> {
    let Some((at, width)) = name.strip_prefix('@').and_then(|place| place.split_once('/')) else {
        return layout.field(name).ok();
    };
    let (at, width) = (at.parse().ok()?, width.parse().ok()?);
    (at + width <= length).then_some(Field { at, width, shift: 0, bits: 8 * width as u32 })
}

/// What a field is called: its name, or its place.
pub(super) fn name(vary: &Vary) -> String {
    match (&vary.field, vary.offset, vary.width) {
        (Some(field), ..) => field.clone(),
        (None, at, width) => format!("@{}/{}", at.unwrap_or(0), width.unwrap_or(1)),
    }
}

/// The series of a field, for which any frame that has it stands.
///
/// # Errors
/// When none has it, or its values do not fit.
pub(super) fn series(vary: &Vary, frames: &[Vec<u8>]) -> Result<(Series, Field), String> {
    let name = name(vary);
    let mut found = frames.iter().filter_map(|frame| place(&name, &Layout::of(frame), frame.len()));
    let Some(field) = found.next() else {
        return Err(match Layout::of(&frames[0]).field(&name) {
            Err(why) if !name.starts_with('@') => format!("no packet of the capture has it; of the first, {why}"),
            _ => "no packet of the capture is so long".into(),
        });
    };
    Ok((Series::new(vary, field)?, field))
}

/// Ranges of a packet that its tag takes.
impl TagPlace {
    pub(super) fn has(self, range: &Range<usize>) -> bool {
        let number = match self {
            TagPlace::Small { ip, is_v6: false, .. } => usize::from(ip) + 4..usize::from(ip) + 6,
            TagPlace::Small { ip, is_v6: true, .. } => usize::from(ip)..usize::from(ip) + 4,
            _ => 0..0,
        };
        overlap(range, &self.bytes()) || overlap(range, &number)
    }
}
