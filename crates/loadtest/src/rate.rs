//! Rates as operators write them: `1kpps`, `10Mpps`, `1gbps`, `1gbpsl1`, `100%`, or a bare factor. Capital and small
//! letters mean the same, as in T-Rex's `-m`.

use std::fmt;
use std::str::FromStr;

/// How fast all streams of a port are, relative to their rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// This many times what the profile says; 0: they pause.
    Factor(f64),
    /// The maximum rate.
    Maximum,
}

/// How much is to be sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// So many times what the profile says.
    Factor(f64),
    /// Packets a second.
    Packets(f64),
    /// Bits a second of what is in the buffers, without frame check sequence: T-Rex's `bps`.
    Bits(f64),
    /// Bits a second on the wire, with frame check sequence, preamble and gap: T-Rex's `bpsl1`.
    WireBits(f64),
    /// Of the line's speed, counted on the wire.
    Percent(f64),
    /// The maximum rate.
    Maximum,
}

/// What a rate is asked of: the mean packet of a profile, and the line.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    /// Packets a second when nothing is multiplied.
    pub packets: f64,
    /// Mean bytes of a packet in its buffer.
    pub buffer: f64,
    /// Bits a second of the line, when it is known.
    pub line: Option<f64>,
}

/// A rate that is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    #[error(
        "'{0}' is not a rate: write packets ('1kpps', '10Mpps'), bits ('1gbps' in buffers, '1gbpsl1' on the wire), a \
         share of the line ('100%'), a factor ('2'), or 'max'"
    )]
    NotOne(String),
    #[error("'{0}' is not a speed: write bits a second ('10g', '2.5g', '100m')")]
    NotASpeed(String),
    #[error("a share of the line's speed is asked for, and nobody knows it: say 'speed=10g' for the port")]
    NoLine,
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Rate, RateError> {
        let wrong = || RateError::NotOne(text.into());
        let lower = text.trim().to_ascii_lowercase();
        if lower == "max" {
            return Ok(Rate::Maximum);
        }
        let (number, unit) = split(&lower).ok_or_else(wrong)?;
        let (scale, unit) = match unit.chars().next() {
            // 'pps' begins with no prefix, 'mpps' does.
            Some(letter) if unit != "pps" => match prefix(letter) {
                Some(scale) => (scale, &unit[1..]),
                None => (1.0, unit),
            },
            _ => (1.0, unit),
        };
        let value = number * scale;
        match unit {
            "" if scale == 1.0 => Ok(Rate::Factor(value)),
            "pps" => Ok(Rate::Packets(value)),
            "bps" | "bpsl2" => Ok(Rate::Bits(value)),
            "bpsl1" => Ok(Rate::WireBits(value)),
            "%" if scale == 1.0 => Ok(Rate::Percent(value)),
            _ => Err(wrong()),
        }
    }
}

/// Bits a second of a line: `10g`, `2.5Gbps`, `100m`, or megabits as Linux says them: `10000`.
///
/// # Errors
/// When it is none.
pub fn speed(text: &str) -> Result<f64, RateError> {
    let wrong = || RateError::NotASpeed(text.into());
    let lower = text.trim().to_ascii_lowercase();
    let (number, unit) = split(&lower).ok_or_else(wrong)?;
    let scale = match unit.strip_suffix("bit/s").or(unit.strip_suffix("bps")).or(unit.strip_suffix("b")).unwrap_or(unit)
    {
        "" if unit.is_empty() => 1e6,
        "" => 1.0,
        letter if letter.len() == 1 => letter.chars().next().and_then(prefix).ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    Some(number * scale).filter(|speed| (1e3..=1e15).contains(speed)).ok_or_else(wrong)
}

/// Packets a second, more than none: `1mpps`.
pub fn packets_a_second(text: &str) -> Option<f64> {
    match text.parse() {
        Ok(Rate::Packets(rate)) if rate > 0.0 => Some(rate),
        _ => None,
    }
}

fn prefix(letter: char) -> Option<f64> {
    match letter {
        'k' => Some(1e3),
        'm' => Some(1e6),
        'g' => Some(1e9),
        't' => Some(1e12),
        _ => None,
    }
}

/// A number that is not negative, and what stands behind it.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    // More than 1e18 of anything is no rate, and cannot be reckoned with.
    let number = text[..end].parse().ok().filter(|number| *number <= 1e18)?;
    Some((number, text[end..].trim_start()))
}

impl Rate {
    /// One of so many equal parts; the maximum rate stays the maximum rate.
    pub fn divided(self, parts: f64) -> Rate {
        match self {
            Rate::Factor(value) => Rate::Factor(value / parts),
            Rate::Packets(value) => Rate::Packets(value / parts),
            Rate::Bits(value) => Rate::Bits(value / parts),
            Rate::WireBits(value) => Rate::WireBits(value / parts),
            Rate::Percent(value) => Rate::Percent(value / parts),
            Rate::Maximum => Rate::Maximum,
        }
    }

    /// How a port's streams go on at it.
    ///
    /// # Errors
    /// When a share is asked for of a line whose speed is not known.
    pub fn pace(self, mix: &Mix) -> Result<Pace, RateError> {
        let packets = self.packets(mix)?;
        Ok(packets.map_or(Pace::Maximum, |packets| Pace::Factor(packets / mix.packets.max(f64::MIN_POSITIVE))))
    }

    /// Packets a second of a mix; none: the maximum rate.
    ///
    /// # Errors
    /// When a share is asked for of a line whose speed is not known.
    pub fn packets(self, mix: &Mix) -> Result<Option<f64>, RateError> {
        use crate::arithmetic::{FCS, PREAMBLE_AND_GAP};
        let wire = mix.buffer + f64::from(FCS + PREAMBLE_AND_GAP);
        Ok(Some(match self {
            Rate::Factor(factor) => factor * mix.packets,
            Rate::Packets(packets) => packets,
            Rate::Bits(bits) => bits / (8.0 * mix.buffer),
            Rate::WireBits(bits) => bits / (8.0 * wire),
            Rate::Percent(percent) => percent / 100.0 * mix.line.ok_or(RateError::NoLine)? / (8.0 * wire),
            Rate::Maximum => return Ok(None),
        }))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = |value: f64, unit: &str| format!("{}{unit}", crate::arithmetic::scaled(value).replace(' ', ""));
        f.pad(&match *self {
            Rate::Factor(factor) => format!("{factor}"),
            Rate::Packets(packets) => with(packets, "pps"),
            Rate::Bits(bits) => with(bits, "bps"),
            Rate::WireBits(bits) => with(bits, "bpsl1"),
            Rate::Percent(percent) => format!("{percent}%"),
            Rate::Maximum => "max".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_whatever_the_case() {
        for (text, rate) in [
            ("1kpps", Rate::Packets(1e3)),
            ("10Mpps", Rate::Packets(10e6)),
            ("10MPPS", Rate::Packets(10e6)),
            ("28pps", Rate::Packets(28.0)),
            ("0.5 mpps", Rate::Packets(5e5)),
            ("1gbps", Rate::Bits(1e9)),
            ("1GbpsL1", Rate::WireBits(1e9)),
            ("500bps", Rate::Bits(500.0)),
            ("100%", Rate::Percent(100.0)),
            ("37.5%", Rate::Percent(37.5)),
            ("2", Rate::Factor(2.0)),
            ("max", Rate::Maximum),
        ] {
            assert_eq!(text.parse(), Ok(rate), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_with_examples() {
        for text in ["", "fast", "1k", "1k%", "-1pps", "1kppps", "pps", "1..2pps", "NaN", "inf"] {
            assert_eq!(text.parse::<Rate>(), Err(RateError::NotOne(text.into())), "{text}");
        }
    }

    #[test]
    fn speeds_are_bits_or_linux_megabits() {
        for (text, bits) in [
            ("10g", 10e9),
            ("2.5G", 2.5e9),
            ("2.5gbps", 2.5e9),
            ("100Mbit/s", 1e8),
            ("25000", 25e9),
            ("64000bps", 64e3),
        ] {
            assert_eq!(speed(text), Ok(bits), "{text}");
        }
        for text in ["", "g", "10x", "10gg", "0", "-1g", "10 apples"] {
            assert!(speed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn all_ways_to_say_it_meet_at_a_full_line() {
        let mix = Mix { packets: 1.0, buffer: 60.0, line: Some(10e9) };
        let full = 10e9 / 8.0 / 84.0;
        for rate in [
            Rate::Percent(100.0),
            Rate::WireBits(10e9),
            Rate::Packets(full),
            Rate::Bits(full * 480.0),
            Rate::Factor(full),
        ] {
            let packets = rate.packets(&mix).unwrap().unwrap();
            assert!((packets - full).abs() < 1e-3, "{rate}: {packets}");
        }
        assert_eq!(Rate::Maximum.packets(&mix), Ok(None));
        assert_eq!(Rate::Percent(1.0).packets(&Mix { line: None, ..mix }), Err(RateError::NoLine));
    }
}
