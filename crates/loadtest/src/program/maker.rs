//! A worker's share of a stream: makes its packets.

use super::series::Series;
use super::{Frame, Program, TagPlace};
use crate::layout::{Field, Sum, fold};
use crate::profile::MAX_SIZE;
use crate::tag;
use drivers::chain;
use graph::buffer::{DATA_SIZE, HEADROOM};
use graph::{Buffers, PacketIndex, VECTOR_SIZE};
use std::sync::Arc;

/// A worker's share of a stream: makes its packets.
pub struct Maker {
    program: Arc<Program>,
    /// The stream's number in tags.
    number: u16,
    /// Its templates, with the stream's number in them.
    frames: Vec<Frame>,
    /// How many packets it has made.
    made: u64,
    /// Of the stream's packets, it makes number `share`, `share + shares`, and so on.
    share: u64,
    shares: u64,
    /// The position of each series, so that it need not be computed: place, and packets until it advances.
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

    /// How many packets it has made.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Writes the next packets into buffers, starting behind the headroom, and returns their lengths; `stamp` gives the
    /// time. A long packet continues in buffers of `more`, which has [`Maker::more_buffers`] for each packet.
    ///
    /// # Panics
    /// When `more` has fewer buffers.
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
                // A packet that spans several buffers is made in the template.
                frame.bytes.first_chunk_mut().expect("it is longer")
            } else {
                let bytes: &mut [u8; DATA_SIZE] =
                    (&mut buffers.bytes_mut(packet)[HEADROOM..HEADROOM + DATA_SIZE]).try_into().expect("so many bytes");
                // A whole cache line at once, regardless of the frame's length.
                match frame.bytes.as_array::<64>() {
                    Some(line) => *bytes.first_chunk_mut::<64>().expect("it is longer") = *line,
                    None => bytes[..frame.bytes.len()].copy_from_slice(&frame.bytes),
                }
                bytes
            };
            if frame.own.is_none() {
                for (varied, values) in varied.iter().zip(&self.values) {
                    store(bytes, varied.field, values[i]);
                }
            }
            for (at, sum) in changing.iter().enumerate() {
                let value = Sum::finish(frame.bases[at] + fold(self.sums[at][i]), sum.zero_is_none);
                bytes[sum.at..sum.at + 2].copy_from_slice(&value.to_be_bytes());
                for &(outer, odd) in &sum.within {
                    let value = if odd { value.swap_bytes() } else { value };
                    self.sums[outer][i] += u32::from(value);
                }
            }
            // From here on, work on the whole frame.
            let bytes: &mut [u8] = if is_long { &mut frame.bytes } else { bytes };
            match frame.tag {
                TagPlace::Full(at) => {
                    words.write(bytes[usize::from(at)..].first_chunk_mut().expect("the frame has room"));
                }
                TagPlace::Small { at, .. } => {
                    bytes[usize::from(at)..][..tag::SMALL].copy_from_slice(&tag::small(words.sequence()));
                }
                TagPlace::None => {}
            }
            if let Some(own) = frame.own.as_deref().filter(|own| !own.is_empty()) {
                own.write(&mut bytes[..frame.length.into()], &self.values, i);
            }
            words = if is_plain { words.plus(1) } else { words.next() };
            *length = frame.length;
            if is_long {
                spread(buffers, packet, &frame.bytes[..frame.length.into()], more);
            }
        }
    }

    /// Computes the values of fields for this many packets, and what they add to checksums.
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

/// Buffers of the longest packet.
pub const MAX_BUFFERS: usize = (MAX_SIZE as usize).div_ceil(DATA_SIZE);

/// Copies a packet into its first buffer and some buffers of `more`.
#[inline(never)]
fn spread(buffers: &mut Buffers, first: PacketIndex, bytes: &[u8], more: &mut Vec<PacketIndex>) {
    let mut parts = [first; MAX_BUFFERS];
    let n = bytes.len().div_ceil(DATA_SIZE);
    for part in &mut parts[1..n] {
        *part = more.pop().expect("there is one for each part");
    }
    chain::write(buffers, &parts[..n], bytes);
}

/// Writes the stream's number into a small tag, and corrects the header's checksum.
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
    // A value at an odd offset adds its sum with the bytes swapped (RFC 1071, section 2(B)).
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
