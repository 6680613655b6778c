//! `ping` from the router itself, printed as VPP prints it.

use super::control;
use super::{Answers, Line, Statistics, Wanted};
use command::{Args, Command, CommandError, CommandSet, Format, Reply, still_wanted};
use crossbeam_channel::RecvTimeoutError;
use router::Router;
use std::io;
use std::net::IpAddr;
use std::sync::PoisonError;
use std::time::Duration;
use wire::Family;

/// VPP's defaults: five requests, a second apart, of 116 bytes with their headers.
const REPEAT: u32 = 5;
const INTERVAL: f64 = 1.0;
const SIZE: u16 = 88;
/// How long the client may wait for a line before the router checks that it is still connected.
const PATIENCE: Duration = Duration::from_millis(100);

const SYNTAX: &str = "ping {<address:ip> | ipv4 <address4:ip4> | ipv6 <address6:ip6>} {{ [repeat <repeat:u32 \
 1..1000000>] | [size <size:u32 0..65507>] | [interval <interval:f64>] | [source <interface:interface>] | [table-id \
 <table:u32>] | [ttl <ttl:u32 1..255>] | [df-bit] }}";

pub(in crate::icmp) fn register(set: &mut CommandSet<Router>) {
    set.section("Ping", "Test from the router whether a host is reachable.");
    set.add(
        Command::new(SYNTAX, "Send ICMP echo requests and show the answers.", ping)
            .also(&SYNTAX.replace("[df-bit]", "[df-bit] | [verbose] | [burst <burst:u32 1..1>]"))
            .example("ping 10.0.1.2 repeat 3 size 1400")
            .example("ping 10.0.1.2 source e0 df-bit")
            .example("ping fe80::2 source e0"),
    );
}

fn ping(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let destination: IpAddr = match (args.optional("address")?, args.optional("address4")?) {
        (Some(address), _) | (None, Some(address)) => address,
        (None, None) => args.parse("address6")?,
    };
    let source = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
    let table = args.optional("table")?.map(|id| router.find_table(Family::of(destination), id)).transpose()?;
    let answers = control::start_ping(
        router,
        Wanted {
            table,
            destination,
            repeat: args.optional("repeat")?.unwrap_or(REPEAT),
            size: args.optional("size")?.unwrap_or(SIZE),
            interval: args.optional("interval")?.unwrap_or(INTERVAL),
            source,
            ttl: args.optional("ttl")?.unwrap_or(crate::icmp::OUR_TTL),
            dont_fragment: args.flag("df-bit"),
        },
    )?;
    Ok(Box::new(ShowPing { address: destination, answers }))
}

/// A running ping. The session's thread reads it to its end while it renders it, so that the control thread does not
/// wait.
pub struct ShowPing {
    pub address: IpAddr,
    pub answers: Answers,
}

impl ShowPing {
    /// To be read after the last line.
    fn statistics(&self) -> Statistics {
        *self.answers.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `tell` with each line as it arrives, up to the last.
    fn each_line(
        &self,
        out: &mut dyn io::Write,
        mut tell: impl FnMut(&mut dyn io::Write, &Line) -> io::Result<()>,
    ) -> io::Result<()> {
        loop {
            match self.answers.lines.recv_timeout(PATIENCE) {
                Ok(line) => tell(out, &line)?,
                Err(RecvTimeoutError::Timeout) => still_wanted(out)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn write_text(&self, out: &mut dyn io::Write) -> io::Result<()> {
        self.each_line(out, |out, line| write!(out, "{line}"))?;
        let statistics = self.statistics();
        let Statistics { sent, received } = statistics;
        writeln!(out, "\nStatistics: {sent} sent, {received} received, {}% packet loss", statistics.loss_percent())
    }

    fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        write!(out, "{{\"address\":\"{}\",\"answers\":[", self.address)?;
        let mut comma = "";
        self.each_line(out, |out, line| {
            out.write_all(std::mem::replace(&mut comma, ",").as_bytes())?;
            Ok(serde_json::to_writer(out, line)?)
        })?;
        let statistics = self.statistics();
        let Statistics { sent, received } = statistics;
        let loss = statistics.loss_percent();
        write!(out, "],\"sent\":{sent},\"received\":{received},\"loss_percent\":{loss}}}")
    }
}

/// Written by hand, because serde cannot check whether the client still reads.
impl Reply for ShowPing {
    fn write(&self, format: Format, out: &mut dyn io::Write) -> io::Result<()> {
        match format {
            Format::Text => self.write_text(out),
            Format::Json => self.write_json(out),
        }
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.render(Format::Json)).expect("as written above")
    }
}
