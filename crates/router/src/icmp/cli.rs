//! `ping`, from the router itself, printed as VPP prints it.

use super::control::{MAX_BURST, MAX_RATE};
use super::ping::{Answers, Line, Statistics, Wanted};
use crate::Router;
use command::{Args, Command, CommandError, CommandSet, Done, Format, Reply, reply};
use crossbeam_channel::RecvTimeoutError;
use graph::InterfaceIndex;
use serde::Serialize;
use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::sync::PoisonError;
use std::time::Duration;
use wire::Family;

/// What VPP sends unless told otherwise: five requests, a second apart, of 116 bytes with
/// their headers.
const REPEAT: u32 = 5;
const INTERVAL: f64 = 1.0;
const SIZE: u16 = 88;
/// How long the reader is left waiting before it is asked whether it is still there.
const PATIENCE: Duration = Duration::from_millis(100);

pub fn register(set: &mut CommandSet<Router>) {
    register_errors(set);
    set.section("Ping", "Reachability as the router itself sees it.");
    set.add(Command::new(
        "ping <address:ip4> {{ [repeat <repeat:u32 1..1000000>] | [size <size:u32 0..65507>] | [interval <interval:f64>] | [source <interface:interface>] | [table-id <table:u32>] | [ttl <ttl:u32 1..255>] | [df-bit] }}",
        "Send ICMP echo requests and show the answers.",
        ping,
    ).example("ping 10.0.1.2 repeat 3 size 1400").example("ping 10.0.1.2 source e0 df-bit"));
}

/// The interface that a command names.
fn find(router: &Router, args: &Args) -> Result<InterfaceIndex, CommandError> {
    Ok(router.interfaces.find(args.text("interface")?)?)
}

fn register_errors(set: &mut CommandSet<Router>) {
    set.section(
        "ICMP",
        "Errors that the router sends about packets that it does not forward. Each worker sends no more of them than it may, \
         and no more TCP resets. A redirect tells a host that its packets would do better by another router on its own \
         network; the packets are forwarded all the same.",
    );
    set.add(
        Command::new(
            &format!("set ip icmp error-rate {{<rate:u32 1..{MAX_RATE}> [burst <burst:u32 1..{MAX_BURST}>] | default : value}}"),
            "Set how many ICMP errors, and how many TCP resets, each worker sends a second and at once.",
            |router: &mut Router, args: &Args| {
                let burst = args.optional("burst")?.unwrap_or(super::control::DEFAULT_LIMIT.burst);
                router.set_icmp_limit(args.optional("rate")?.map(|rate| (rate, burst)));
                reply(Done)
            },
        )
        .configures()
        .example("set ip icmp error-rate 10000 burst 500")
        .example("set ip icmp error-rate default"),
    );
    set.add(
        Command::new(
            "set interface ip redirects <interface:interface> {enable | disable : switch}",
            "Have hosts on an interface told of better next hops (ICMP redirect), or not: the default.",
            |router: &mut Router, args: &Args| {
                let index = find(router, args)?;
                router.set_redirects(index, args.text("switch")? == "enable")?;
                reply(Done)
            },
        )
        .configures()
        .example("set interface ip redirects e0 enable"),
    );
    set.add(Command::new("show ip icmp", "Show what is set of ICMP.", |router: &mut Router, _| {
        let limit = router.icmp.limit;
        let names = router.icmp.redirects().filter_map(|index| router.interfaces.get(index).ok());
        reply(ShowIcmp {
            errors_per_second: limit.per_second,
            burst: limit.burst,
            router_id: router.router_id(),
            redirects: names.map(|interface| interface.name.clone()).collect(),
        })
    }));
}

#[derive(Serialize)]
struct ShowIcmp {
    errors_per_second: u32,
    burst: u32,
    router_id: Option<Ipv4Addr>,
    redirects: Vec<String>,
}

impl fmt::Display for ShowIcmp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShowIcmp { errors_per_second, burst, router_id, redirects } = self;
        writeln!(f, "errors: {errors_per_second}/s by each worker, {burst} at once")?;
        let router_id = router_id.map_or("none".into(), |address| address.to_string());
        writeln!(f, "router id: {router_id}")?;
        let redirects = if redirects.is_empty() { "none".into() } else { redirects.join(", ") };
        writeln!(f, "interfaces with redirects: {redirects}")
    }
}

fn ping(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let destination = args.parse("address")?;
    let source = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
    let table = args.optional("table")?.map(|id| router.find_table(Family::Ip4, id)).transpose()?;
    let answers = router.start_ping(Wanted {
        table,
        destination,
        repeat: args.optional("repeat")?.unwrap_or(REPEAT),
        size: args.optional("size")?.unwrap_or(SIZE),
        interval: args.optional("interval")?.unwrap_or(INTERVAL),
        source,
        ttl: args.optional("ttl")?.unwrap_or(super::OUR_TTL),
        dont_fragment: args.flag("df-bit"),
    })?;
    Ok(Box::new(ShowPing { address: destination, answers }))
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

    /// Tells each line as it comes in, to the last.
    fn each_line(
        &self,
        out: &mut dyn io::Write,
        mut tell: impl FnMut(&mut dyn io::Write, &Line) -> io::Result<()>,
    ) -> io::Result<()> {
        loop {
            match self.answers.lines.recv_timeout(PATIENCE) {
                Ok(line) => tell(out, &line)?,
                // Writing nothing asks whether anybody still reads.
                Err(RecvTimeoutError::Timeout) => drop(out.write(&[])?),
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

/// By hand, for serde cannot look whether anybody still reads.
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
