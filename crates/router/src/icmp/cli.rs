//! `ping`, from the router itself, printed as VPP prints it.

use super::ping::{Answers, Line, Statistics, Wanted};
use crate::Router;
use command::{Args, Command, CommandError, CommandSet, Reply, reply};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::PoisonError;
use std::time::Duration;

/// What VPP sends unless told otherwise: five requests, a second apart, of 116 bytes with
/// their headers.
const REPEAT: u32 = 5;
const INTERVAL: f64 = 1.0;
const SIZE: u16 = 88;
/// How long the reader is left waiting before it is asked whether it is still there.
const PATIENCE: Duration = Duration::from_millis(100);

pub fn register(set: &mut CommandSet<Router>) {
    set.section("Ping", "Reachability as the router itself sees it.");
    set.add(Command::new(
        "ping <address:ip4> {{ [repeat <repeat:u32 1..1000000>] | [size <size:u32 0..65507>] | [interval <interval:f64>] | [source <interface:interface>] | [ttl <ttl:u32 1..255>] | [df-bit] }}",
        "Send ICMP echo requests and show the answers.",
        ping,
    ).example("ping 10.0.1.2 repeat 3 size 1400").example("ping 10.0.1.2 source e0 df-bit"));
}

fn ping(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let destination = args.parse("address")?;
    let source = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
    let answers = router.start_ping(Wanted {
        destination,
        repeat: args.optional("repeat")?.unwrap_or(REPEAT),
        size: args.optional("size")?.unwrap_or(SIZE),
        interval: args.optional("interval")?.unwrap_or(INTERVAL),
        source,
        ttl: args.optional("ttl")?.unwrap_or(super::OUR_TTL),
        dont_fragment: args.flag("df-bit"),
    })?;
    reply(ShowPing { address: destination, answers })
}

/// A ping that runs: it is read to its end when it is rendered, which is on the session's
/// thread, not on control's.
pub struct ShowPing {
    pub address: Ipv4Addr,
    pub answers: Answers,
}

impl ShowPing {
    /// To be read when there are no more lines.
    fn statistics(&self) -> Statistics {
        *self.answers.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for ShowPing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        loop {
            match self.answers.lines.recv_timeout(PATIENCE) {
                Ok(line) => write!(f, "{line}")?,
                // Writing nothing asks whether anybody still reads.
                Err(RecvTimeoutError::Timeout) => f.write_str("")?,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let statistics = self.statistics();
        let Statistics { sent, received } = statistics;
        writeln!(f, "\nStatistics: {sent} sent, {received} received, {}% packet loss", statistics.loss_percent())
    }
}

/// The lines as they come in, to the last.
struct Lines<'a>(&'a Receiver<Line>);

impl Serialize for Lines<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter())
    }
}

impl Serialize for ShowPing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut shown = serializer.serialize_struct("ping", 5)?;
        shown.serialize_field("address", &self.address)?;
        shown.serialize_field("answers", &Lines(&self.answers.lines))?;
        let statistics = self.statistics();
        shown.serialize_field("sent", &statistics.sent)?;
        shown.serialize_field("received", &statistics.received)?;
        shown.serialize_field("loss_percent", &statistics.loss_percent())?;
        shown.end()
    }
}
