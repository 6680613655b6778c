//! The calculator: what a line, or a slot for a card, carries.

use crate::arithmetic::{Bits, FCS, FrameSize, PREAMBLE_AND_GAP, scaled, significant};
use serde::Serialize;
use std::fmt;

/// A number of bytes, with or without the frame check sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// The frame with its frame check sequence: RFC 2544's sizes, of which 64 is the least.
    WithFcs(u32),
    /// The bytes in its buffer: T-Rex's sizes, and those of captures.
    WithoutFcs(u32),
}

impl Size {
    fn frame(self) -> FrameSize {
        match self {
            Size::WithFcs(bytes) => FrameSize(bytes.saturating_sub(FCS)),
            Size::WithoutFcs(bytes) => FrameSize(bytes),
        }
    }

    /// The same number, meant the other way. None: no Ethernet frame is so short.
    fn other(self) -> Option<Size> {
        let other = match self {
            Size::WithFcs(bytes) => Size::WithoutFcs(bytes),
            Size::WithoutFcs(bytes) => Size::WithFcs(bytes),
        };
        (other.frame().frame() >= LEAST).then_some(other)
    }
}

/// The shortest frame (IEEE 802.3, 4.2.3.3 and 4.4.2: minFrameSize).
const LEAST: u32 = 64;

/// The same number of bytes, meant the other way.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct OtherReading {
    pub frame_bytes: u32,
    pub packets_per_second: f64,
}

/// Frames of one size on a full line.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FullLine {
    pub buffer_bytes: u32,
    pub frame_bytes: u32,
    pub wire_bytes: u32,
    /// Bits a second of the line.
    pub speed_bps: f64,
    pub packets_per_second: f64,
    /// From the start of one frame to that of the next.
    pub ns_per_packet: f64,
    /// Clocks that a processor has for each.
    pub clocks_per_packet: Option<f64>,
    #[serde(flatten)]
    pub bits: Bits,
    /// The result when preamble and gap are counted and the frame check sequence is not: a figure that is often quoted,
    /// and that no line carries.
    pub packets_per_second_without_fcs: f64,
    /// The result for the other meaning of the size: with frame check sequence where we take it without, or the
    /// reverse.
    pub other_reading: Option<OtherReading>,
    #[serde(skip)]
    size: Size,
}

impl FullLine {
    /// `hertz`: the processor's clock, if clocks are to be shown.
    pub fn new(asked: Size, speed_bps: f64, hertz: Option<f64>) -> FullLine {
        let size = asked.frame();
        let packets_per_second = size.packets_per_second(speed_bps);
        FullLine {
            buffer_bytes: size.buffer(),
            frame_bytes: size.frame(),
            wire_bytes: size.wire(),
            speed_bps,
            packets_per_second,
            ns_per_packet: 1e9 / packets_per_second,
            clocks_per_packet: hertz.map(|hertz| hertz / packets_per_second),
            bits: Bits::of(packets_per_second, packets_per_second * f64::from(size.buffer())),
            packets_per_second_without_fcs: speed_bps / f64::from(8 * (size.buffer() + PREAMBLE_AND_GAP)),
            other_reading: asked.other().map(|other| OtherReading {
                frame_bytes: other.frame().frame(),
                packets_per_second: other.frame().packets_per_second(speed_bps),
            }),
            size: asked,
        }
    }
}

impl fmt::Display for FullLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = FrameSize(self.buffer_bytes);
        writeln!(f, "Frames of {sizes} bytes (buffer/frame/wire) on a line of {}bit/s", scaled(self.speed_bps))?;
        let mut line = |name: &str, value: String| writeln!(f, "  {name:<22}{value}");
        line(
            "packets",
            format!("{}pps ({:.0} pps)", scaled(self.packets_per_second), self.packets_per_second.floor()),
        )?;
        line("time for each", format!("{} ns", significant(self.ns_per_packet)))?;
        if let Some(clocks) = self.clocks_per_packet {
            line("clocks for each", significant(clocks))?;
        }
        line("layer 1, on the wire", format!("{}bit/s", scaled(self.bits.l1_bps)))?;
        line("layer 2, frames", format!("{}bit/s", scaled(self.bits.l2_bps)))?;
        line("in buffers", format!("{}bit/s, which T-Rex calls L2", scaled(self.bits.buffer_bps)))?;
        writeln!(
            f,
            "  Of its {} bytes on the wire {} are in the buffer, {FCS} are the frame check sequence, 8 preamble and \
             start\n  \
             delimiter, 12 the least gap.",
            self.wire_bytes, self.buffer_bytes,
        )?;
        if let Some(OtherReading { frame_bytes, packets_per_second }) = self.other_reading {
            let pps = packets_per_second.floor();
            match self.size {
                Size::WithFcs(bytes) => writeln!(
                    f,
                    "  {bytes} bytes are taken with the frame check sequence, as RFC 2544 does. Without it, as \
                     T-Rex and captures\n  \
                     count, they are a frame of {frame_bytes}: {pps:.0} pps ('--buffer-size {bytes}').",
                ),
                Size::WithoutFcs(bytes) => writeln!(
                    f,
                    "  {bytes} bytes are taken without the frame check sequence, as T-Rex and captures count. With \
                     it, as in\n  \
                     RFC 2544, they are a frame of {frame_bytes}: {pps:.0} pps ('--size {bytes}').",
                ),
            }?;
        }
        write!(
            f,
            "  Without these {FCS} bytes the result would be {} bytes and {:.0} pps, which the line does not carry.",
            self.wire_bytes - FCS,
            self.packets_per_second_without_fcs.floor(),
        )
    }
}

/// Generations of PCI Express: transfers a second on each lane, bits of payload in a symbol, and bits of the symbol
/// (PCI Express Base Specification 2.0 and 3.0, 4.2).
const GENERATIONS: [(f64, u32, u32); 5] =
    [(2.5e9, 8, 10), (5e9, 8, 10), (8e9, 128, 130), (16e9, 128, 130), (32e9, 128, 130)];

/// A slot for a card, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Slot {
    pub generation: usize,
    pub lanes: u32,
    /// Of each lane.
    pub transfers_per_second: f64,
    /// Bits of payload in a symbol, and bits of the symbol.
    pub coding: (u32, u32),
    /// What is left for packets of the bus, which have headers of their own.
    pub usable_bps: f64,
}

impl Slot {
    /// # Errors
    /// When there is no such generation, or a slot cannot have so many lanes.
    pub fn new(generation: usize, lanes: u32) -> Result<Slot, String> {
        let Some(&(transfers_per_second, payload, symbol)) =
            generation.checked_sub(1).and_then(|at| GENERATIONS.get(at))
        else {
            return Err(format!("PCI Express {generation}: generations 1 to {} are known", GENERATIONS.len()));
        };
        if ![1, 2, 4, 8, 12, 16, 32].contains(&lanes) {
            return Err(format!("x{lanes}: slots have 1, 2, 4, 8, 12, 16 or 32 lanes"));
        }
        let usable_bps = transfers_per_second * f64::from(lanes) * f64::from(payload) / f64::from(symbol);
        Ok(Slot { generation, lanes, transfers_per_second, coding: (payload, symbol), usable_bps })
    }

    /// Reads `3x4`, generation and lanes, or `8gtx4`, GT/s and lanes. Data sheets write the latter `8x4`; the `gt`
    /// distinguishes the two.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(text: &str) -> Result<Slot, String> {
        let wrong = || format!("'{text}' is no slot: write generation and lanes ('3x4'), or GT/s and lanes ('8gtx4')");
        let lower = text.trim().to_ascii_lowercase();
        let (speed, lanes) = lower.split_once('x').ok_or_else(wrong)?;
        let lanes = lanes.trim().parse().map_err(|_| wrong())?;
        let generation = match speed.trim().strip_suffix("gt") {
            None => speed.trim().parse().map_err(|_| wrong())?,
            Some(transfers) => {
                let transfers: f64 = transfers.trim().parse().map_err(|_| wrong())?;
                let known = GENERATIONS.iter().position(|(each, ..)| *each == transfers * 1e9);
                known.map(|at| at + 1).ok_or_else(|| format!("{transfers} GT/s: there are 2.5, 5, 8, 16 and 32"))?
            }
        };
        Slot::new(generation, lanes)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (payload, symbol) = self.coding;
        write!(
            f,
            "PCI Express {} x{}: {} GT/s a lane, {payload}b/{symbol}b: {} Gbit/s each way",
            self.generation,
            self.lanes,
            self.transfers_per_second / 1e9,
            significant(self.usable_bps / 1e9),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_carry_what_the_standard_says() {
        let line = |size, speed| FullLine::new(Size::WithFcs(size), speed, Some(2e9));
        assert_eq!((line(64, 2.5e9).packets_per_second / 1e4).round(), 372.0);
        let ten = line(64, 10e9);
        assert_eq!((ten.packets_per_second / 1e4).round(), 1488.0);
        assert_eq!((ten.ns_per_packet * 10.0).round(), 672.0);
        assert_eq!(ten.clocks_per_packet.unwrap().round(), 134.0);
        assert_eq!((line(64, 40e9).ns_per_packet * 10.0).round(), 168.0);
        assert_eq!((line(64, 100e9).ns_per_packet * 10.0).round(), 67.0);
        assert_eq!(line(64, 100e9).clocks_per_packet.unwrap().round(), 13.0);
    }

    #[test]
    fn without_the_frame_check_sequence_the_figure_is_another() {
        let line = FullLine::new(Size::WithoutFcs(1514), 2.5e9, None);
        assert_eq!(line.packets_per_second_without_fcs.floor(), 203_715.0);
        assert_eq!(line.packets_per_second.floor(), 203_185.0);
        assert!(line.to_string().contains("1534 bytes and 203715 pps, which the line does not carry"), "{line}");
    }

    #[test]
    fn a_size_is_taken_with_frame_check_sequence_and_the_other_reading_is_told() {
        let line = FullLine::new(Size::WithFcs(64), 2.5e9, None);
        assert_eq!((line.buffer_bytes, line.frame_bytes, line.wire_bytes), (60, 64, 84));
        assert_eq!(line.packets_per_second.floor(), 3_720_238.0);
        let other = line.other_reading.unwrap();
        assert_eq!((other.frame_bytes, other.packets_per_second.floor()), (68, 3_551_136.0));
        assert!(line.to_string().contains("they are a frame of 68: 3551136 pps ('--buffer-size 64')"), "{line}");
        let line = FullLine::new(Size::WithoutFcs(1514), 2.5e9, None);
        assert!(line.to_string().contains("they are a frame of 1514: 203715 pps ('--size 1514')"), "{line}");
        // With the frame check sequence, 60 bytes would be no frame.
        assert!(FullLine::new(Size::WithoutFcs(60), 2.5e9, None).other_reading.is_none());
    }

    #[test]
    fn slots_carry_less_than_their_transfers() {
        assert_eq!(Slot::parse("5GTx4").unwrap().usable_bps, 16e9);
        assert_eq!(Slot::parse("2x4"), Slot::parse("5gtx4"));
        assert_eq!(
            Slot::parse("3 x 4").unwrap().to_string(),
            "PCI Express 3 x4: 8 GT/s a lane, 128b/130b: 31.51 Gbit/s each way"
        );
        for wrong in ["", "x4", "3x", "9x4", "0x4", "3x5", "7gtx4", "3"] {
            assert!(Slot::parse(wrong).is_err(), "{wrong}");
        }
    }
}
