//! How long a frame is, and how many of them a line carries. Three different sizes are each called 'the size of a
//! frame', so each has its own name here.
//!
//! ```
//! use quiver_loadtest::arithmetic::FrameSize;
//! let smallest = FrameSize(60);
//! assert_eq!((smallest.buffer(), smallest.frame(), smallest.wire()), (60, 64, 84));
//! assert_eq!(smallest.packets_per_second(10e9).round(), 14_880_952.0);
//! ```

use serde::Serialize;
use std::fmt;

/// Bytes of the frame check sequence (IEEE 802.3, 3.2.9).
pub const FCS: u32 = 4;
/// Bytes of line time that a frame takes besides itself: preamble and start delimiter (IEEE 802.3, 3.1.1), and the
/// least gap to the next (4.4.2).
pub const PREAMBLE_AND_GAP: u32 = 8 + 12;

/// The size of a frame, as the bytes in its buffer: without frame check sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameSize(pub u32);

impl FrameSize {
    /// The bytes that a program sees: T-Rex's sizes, those of captures, and of this program's commands.
    pub fn buffer(self) -> u32 {
        self.0
    }
    /// The Ethernet frame with its frame check sequence: RFC 2544's sizes.
    pub fn frame(self) -> u32 {
        self.0 + FCS
    }
    /// The line time that it takes, in bytes.
    pub fn wire(self) -> u32 {
        self.frame() + PREAMBLE_AND_GAP
    }
    /// How many fit on a line of this many bits a second.
    pub fn packets_per_second(self, line: f64) -> f64 {
        line / f64::from(8 * self.wire())
    }
}

impl fmt::Display for FrameSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}/{}", self.buffer(), self.frame(), self.wire()))
    }
}

/// Bits a second of a flow of packets, counted in three ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Bits {
    /// In the buffers, without frame check sequence: what T-Rex calls L2.
    pub buffer_bps: f64,
    /// Ethernet frames: layer 2.
    pub l2_bps: f64,
    /// On the wire, with preamble and gap: layer 1. On a full line this is the line's speed.
    pub l1_bps: f64,
}

impl Bits {
    /// For this many packets a second, with this many bytes in their buffers in total.
    pub fn of(packets: f64, bytes: f64) -> Bits {
        let with = |each: u32| 8.0 * (bytes + packets * f64::from(each));
        Bits { buffer_bps: with(0), l2_bps: with(FCS), l1_bps: with(FCS + PREAMBLE_AND_GAP) }
    }
}

/// A number with a decimal prefix: `3.72 M`, `14.9 G`.
pub fn scaled(value: f64) -> String {
    let scales = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    let (scale, letter) = scales.into_iter().find(|(scale, _)| value.abs() >= *scale).unwrap_or((1.0, " "));
    format!("{}{letter}", significant(value / scale))
}

/// A number with four significant digits, or all digits before the point.
pub fn significant(value: f64) -> String {
    let before = if value.abs() < 1.0 { 1 } else { value.abs().log10().floor() as i32 + 1 };
    let after = (4 - before).max(0) as usize;
    let text = format!("{value:.after$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_three_names() {
        assert_eq!(FrameSize(60).to_string(), "60/64/84");
        assert_eq!(FrameSize(1514).to_string(), "1514/1518/1538");
    }

    #[test]
    fn a_full_line_has_its_speed_on_layer_1() {
        let packets = FrameSize(60).packets_per_second(10e9);
        let bits = Bits::of(packets, 60.0 * packets);
        assert_eq!(bits.l1_bps.round(), 10e9);
        assert_eq!(bits.l2_bps.round(), (10e9 * 64.0 / 84.0_f64).round());
        assert_eq!(bits.buffer_bps.round(), (10e9 * 60.0 / 84.0_f64).round());
    }

    #[test]
    fn numbers_are_said_briefly() {
        for (value, text) in [
            (0.0, "0 "),
            (12.0, "12 "),
            (999.96, "1000 "),
            (3_720_238.0, "3.72 M"),
            (14_880_952.0, "14.88 M"),
            (2.5e9, "2.5 G"),
        ] {
            assert_eq!(scaled(value), text, "{value}");
        }
    }
}
