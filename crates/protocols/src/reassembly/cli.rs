//! Commands on reassembly. VPP sets these limits by its API (`ip_reassembly_set`), whose words
//! are taken, and shows them by the command that is here too.

use super::Reassembly;
use super::control;
use super::{Limits, Shown};
use command::table::{Align, Table};
use command::{Args, Command, CommandError, CommandSet, Done, Reply, reply};
use graph::worker::thread_name;
use router::Router;
use router::ip::cli::name;
use serde::Serialize;
use std::fmt;
use wire::Family;
use wire::ipv4::Protocol;

/// Most datagrams of a worker that `details` lists.
const LISTED: usize = 1000;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Reassembly",
        "The router reassembles fragmented datagrams for its own addresses, within limits: `timeout` and \
         `expire-walk-interval` in milliseconds, `max-reassemblies` datagrams and `max-buffers` buffers for each \
         worker, `max-per-source` datagrams of one sender (IPv6: of one /64), `max-reassembly-length` fragments of \
         one datagram.",
    );
    Family::ALL.into_iter().for_each(|family| register_of(set, family));
}

/// What a family's reassembly is called in commands.
pub(super) fn command(family: Family) -> &'static str {
    match family {
        Family::Ip4 => "ip4-full-reassembly",
        Family::Ip6 => "ip6-full-reassembly",
    }
}

fn register_of(set: &mut CommandSet<Router>, family: Family) {
    let (command, family_name) = (command(family), name(family));
    set.add(
        Command::new(
            &format!(
                "set {command} [default] {{{{ [timeout <timeout:u32 100..600000>] | \
                 [max-reassemblies <datagrams:u32 1..65536>] | [max-reassembly-length <fragments:u32 2..8192>] | \
                 [max-per-source <share:u32 1..65536>] | [max-buffers <buffers:u32 64..1048576>] | \
                 [expire-walk-interval <interval:u32 10..60000>] }}}}"
            ),
            &format!("Set the limits of {family_name} reassembly. `default` restores all limits that are not named."),
            move |router: &mut Router, args: &Args| {
                let now =
                    if args.flag("default") { Limits::of(family) } else { router.state::<Reassembly>().limits(family) };
                let limits = Limits {
                    timeout: args.optional("timeout")?.unwrap_or(now.timeout),
                    max_reassemblies: args.optional("datagrams")?.unwrap_or(now.max_reassemblies),
                    max_reassembly_length: args.optional("fragments")?.unwrap_or(now.max_reassembly_length),
                    max_per_source: args.optional("share")?.unwrap_or(now.max_per_source),
                    max_buffers: args.optional("buffers")?.unwrap_or(now.max_buffers),
                    expire_walk_interval: args.optional("interval")?.unwrap_or(now.expire_walk_interval),
                };
                control::set_reassembly_limits(router, family, limits);
                reply(Done)
            },
        )
        .configures()
        .example(&format!("set {command} timeout 5000 max-reassemblies 4096"))
        .example(&format!("set {command} default")),
    );
    set.add(Command::new(
        &format!("show {command} [details]"),
        &format!("Show {family_name} reassemblies in progress and the limits; `details`: the oldest datagrams."),
        move |router: &mut Router, args: &Args| show(router, family, args),
    ));
}

/// The limits by their words in commands.
pub(super) fn words(limits: &Limits) -> [(&'static str, u32); 6] {
    [
        ("timeout", limits.timeout),
        ("max-reassemblies", limits.max_reassemblies),
        ("max-reassembly-length", limits.max_reassembly_length),
        ("max-per-source", limits.max_per_source),
        ("max-buffers", limits.max_buffers),
        ("expire-walk-interval", limits.expire_walk_interval),
    ]
}

fn show(router: &mut Router, family: Family, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let details = args.flag("details");
    let workers = control::reassemblies(router, family, if details { LISTED } else { 0 });
    let unheard = (0..workers.len()).filter(|worker| workers[*worker].is_none()).map(thread_name).collect();
    let workers: Vec<_> = workers.into_iter().flatten().collect();
    reply(ShowReassembly {
        family,
        limits: router.state::<Reassembly>().limits(family),
        reassemblies: workers.iter().map(|worker| worker.datagrams).sum(),
        buffers: workers.iter().map(|worker| worker.buffers).sum(),
        unheard,
        datagrams: details.then(|| workers.into_iter().flat_map(|worker| worker.oldest).collect()),
    })
}

#[derive(Serialize)]
struct ShowReassembly {
    #[serde(skip)]
    family: Family,
    limits: Limits,
    reassemblies: usize,
    buffers: usize,
    /// Workers that did not answer: theirs are not counted.
    unheard: Vec<String>,
    datagrams: Option<Vec<Shown>>,
}

/// A table of datagrams.
fn table(family: Family, datagrams: &[Shown]) -> Table {
    let is_ip4 = family == Family::Ip4;
    let (address, id) = if is_ip4 { (15, 6) } else { (24, 10) };
    let mut table = Table::new(" ")
        .column("Source", Align::Left, address)
        .column("Destination", Align::Left, address)
        .column("ID", Align::Left, id);
    if is_ip4 {
        table = table.column("Protocol", Align::Left, 8);
    }
    table = table
        .column("Age", Align::Right, 6)
        .column("Fragments", Align::Right, 9)
        .column("Bytes", Align::Right, 5)
        .column("Of", Align::Right, 9);
    for shown in datagrams {
        let of = match shown.length {
            _ if shown.discarded => "discarded".into(),
            Some(length) => length.to_string(),
            None => "?".into(),
        };
        let mut row = vec![
            shown.source.to_string(),
            shown.destination.to_string(),
            // 0x and two digits a byte.
            format!("0x{:0width$x}", shown.identification, width = id - 2),
        ];
        row.extend(shown.protocol.map(|protocol| Protocol(protocol).to_string()));
        row.extend([format!("{:.1}", shown.age), shown.fragments.to_string(), shown.bytes.to_string(), of]);
        table.row(row);
    }
    table
}

impl fmt::Display for ShowReassembly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(datagrams) = &self.datagrams {
            write!(f, "{}", table(self.family, datagrams))?;
        }
        if !self.unheard.is_empty() {
            writeln!(f, "Not counted, for want of an answer ('show threads'): {}", self.unheard.join(", "))?;
        }
        let ip = match self.family {
            Family::Ip4 => "IP4",
            Family::Ip6 => "IP6",
        };
        let Limits { timeout, max_reassemblies, max_reassembly_length, max_per_source, max_buffers, .. } = self.limits;
        writeln!(f, "Current full {ip} reassemblies count: {}, buffers: {}", self.reassemblies, self.buffers)?;
        writeln!(f, "Maximum configured concurrent full {ip} reassemblies per worker-thread: {max_reassemblies}")?;
        writeln!(f, "Maximum configured full {ip} reassemblies of one source: {max_per_source}")?;
        writeln!(f, "Maximum configured full {ip} reassembly length: {max_reassembly_length} fragments")?;
        writeln!(f, "Maximum configured full {ip} reassembly buffers per worker-thread: {max_buffers}")?;
        writeln!(f, "Maximum configured full {ip} reassembly timeout: {timeout}ms")?;
        let interval = self.limits.expire_walk_interval;
        writeln!(f, "Maximum configured full {ip} reassembly expire walk interval: {interval}ms")
    }
}
