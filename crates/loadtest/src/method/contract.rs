//! A ramp in the format of `trex-loadtest.py`, for programs that read that format: `vars` with the arguments, `stats`
//! with each sample by port.

use super::ramp::{Point, Ramp};
use crate::arithmetic::Bits;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// The file.
#[derive(Serialize)]
pub struct Contract<'a> {
    vars: Vars<'a>,
    stats: Stats<'a>,
}

#[derive(Serialize)]
struct Vars<'a> {
    profile_file: &'a str,
    warmup_mult: &'a str,
    warmup_duration: f64,
    rampup_target: f64,
    rampup_duration: f64,
    hold_duration: f64,
    /// Present only if true: readers test whether it is there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unidirectional: bool,
}

/// Ordered by time; as text the keys would sort differently.
struct Stats<'a>(&'a [Point]);

impl Serialize for Stats<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for point in self.0 {
            map.serialize_entry(&format!("{:.3}", point.at), &Ports(point))?;
        }
        map.end()
    }
}

struct Ports<'a>(&'a Point);

/// A port's figures, with the names of T-Rex: what it sent, and what it received. `bps` leaves out the frame check
/// sequence, `bps_L1` counts everything on the wire; `util` is percent of the line.
#[derive(Debug, Default, Clone, Copy, Serialize)]
#[allow(non_snake_case)]
struct Port {
    tx_pps: f64,
    rx_pps: f64,
    tx_bps: f64,
    rx_bps: f64,
    tx_bps_L1: f64,
    rx_bps_L1: f64,
    tx_util: f64,
    rx_util: f64,
}

impl Serialize for Ports<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let numbers = self.0.ports.iter().flat_map(|port| [port.port, port.to]);
        let mut ports = vec![Port::default(); numbers.max().map_or(0, |most| most + 1)];
        for port in &self.0.ports {
            let sent = Bits::of(port.sent_pps, port.sent_bytes_per_second);
            let received = Bits::of(port.received_pps, port.received_bytes_per_second);
            let from = &mut ports[port.port];
            (from.tx_pps, from.tx_bps, from.tx_bps_L1) = (port.sent_pps, sent.buffer_bps, sent.l1_bps);
            from.tx_util = port.sent_percent;
            let to = &mut ports[port.to];
            (to.rx_pps, to.rx_bps, to.rx_bps_L1) = (port.received_pps, received.buffer_bps, received.l1_bps);
            to.rx_util = port.received_percent;
        }
        let mut map = to.serialize_map(Some(ports.len()))?;
        for (number, port) in ports.iter().enumerate() {
            map.serialize_entry(&number.to_string(), port)?;
        }
        map.end()
    }
}

impl<'a> Contract<'a> {
    /// `profile`, `warmup`: as the operator gave them.
    pub fn new(ramp: &'a Ramp, profile: &'a str, warmup: &'a str) -> Contract<'a> {
        let unidirectional = !ramp.total.bidirectional;
        Contract {
            vars: Vars {
                profile_file: profile,
                warmup_mult: warmup,
                warmup_duration: ramp.warmup,
                rampup_target: ramp.target,
                rampup_duration: ramp.rampup,
                hold_duration: ramp.hold,
                unidirectional,
            },
            stats: Stats(&ramp.points),
        }
    }
}
