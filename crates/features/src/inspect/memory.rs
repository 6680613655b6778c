//! `show memory`: what the process holds and what its tables take of it.

use command::table::{Align, Table};
use command::{Args, Command, CommandError, CommandSet, Reply, reply};
use graph::buffer::STRIDE;
use router::Router;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;

/// A forwarding object is one cache line (see `tables::object`).
const OBJECT: u64 = 64;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(Command::new(
        "show memory [verbose]",
        "Show the memory of the process and its tables; `verbose`: with its mappings.",
        show,
    ));
}

fn show(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let read = |file: &str| {
        fs::read_to_string(file).map_err(|error| CommandError::new(format!("show memory: {file}: {error}")))
    };
    let mappings = args.flag("verbose").then(|| read("/proc/self/smaps").map(|smaps| mappings(&smaps))).transpose()?;
    reply(ShowMemory { process: Process::parse(&read("/proc/self/status")?), tables: tables(router), mappings })
}

/// In bytes.
#[derive(Serialize)]
struct Process {
    resident: u64,
    anonymous: u64,
    shared: u64,
    files: u64,
    peak: u64,
    mapped: u64,
}

impl Process {
    /// From /proc/self/status (proc_pid_status(5)); its "kB" are 1024 bytes.
    fn parse(status: &str) -> Process {
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.map_or(0, kilobytes)
        };
        Process {
            resident: field("VmRSS"),
            anonymous: field("RssAnon"),
            shared: field("RssShmem"),
            files: field("RssFile"),
            peak: field("VmHWM"),
            mapped: field("VmSize"),
        }
    }
}

/// `  12 kB` in bytes.
fn kilobytes(text: &str) -> u64 {
    text.trim().trim_end_matches("kB").trim().parse::<u64>().map_or(0, |kilobytes| kilobytes << 10)
}

/// What one table or pool has and uses.
#[derive(Serialize)]
struct Used {
    name: &'static str,
    entries: u64,
    bytes: u64,
    /// Of how many entries there can be, when that is bounded.
    capacity: Option<u64>,
}

fn tables(router: &Router) -> Vec<Used> {
    let buffers = super::buffers(router);
    let routes = router.ip.routes().len() as u64;
    let objects = router.ip.objects() as u64;
    let memory = router.ip.memory();
    vec![
        Used {
            name: "buffers",
            entries: buffers.used + buffers.cached,
            bytes: (buffers.used + buffers.cached) * STRIDE as u64,
            capacity: Some(buffers.total),
        },
        Used { name: "ip4 fib", entries: routes, bytes: (memory.lookup + memory.prefixes) as u64, capacity: None },
        Used { name: "forwarding objects", entries: objects, bytes: objects * OBJECT, capacity: None },
        Used {
            name: "graph nodes",
            entries: router.graph.nodes().len() as u64,
            bytes: (router.graph.workers() * router.graph.nodes().len() * graph::worker::node_word::WIDTH * 8) as u64,
            capacity: Some(graph::MAX_NODES as u64),
        },
    ]
}

/// Mappings of one name together.
#[derive(Serialize, Default)]
struct Mapped {
    name: String,
    count: u64,
    size: u64,
    resident: u64,
}

/// From /proc/self/smaps (proc_pid_smaps(5)), the largest first.
fn mappings(smaps: &str) -> Vec<Mapped> {
    let mut by_name: BTreeMap<String, Mapped> = BTreeMap::new();
    let mut current = String::new();
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or("");
        // A mapping begins with its addresses; its figures begin with their names.
        if !first.ends_with(':') {
            let name = words.skip(4).collect::<Vec<_>>().join(" ");
            current = if name.is_empty() { "(anonymous)".into() } else { name };
            by_name.entry(current.clone()).or_default().count += 1;
        } else if let Some(mapped) = by_name.get_mut(&current) {
            match first {
                "Size:" => mapped.size += kilobytes(&line["Size:".len()..]),
                "Rss:" => mapped.resident += kilobytes(&line["Rss:".len()..]),
                _ => {}
            }
        }
    }
    let mut all: Vec<Mapped> = by_name.into_iter().map(|(name, mapped)| Mapped { name, ..mapped }).collect();
    all.sort_by(|a, b| b.resident.cmp(&a.resident).then_with(|| a.name.cmp(&b.name)));
    all
}

#[derive(Serialize)]
struct ShowMemory {
    process: Process,
    tables: Vec<Used>,
    /// With `verbose`.
    #[serde(skip_serializing_if = "Option::is_none")]
    mappings: Option<Vec<Mapped>>,
}

/// As VPP writes sizes: `45.39M`.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let unit = UNITS.iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or(format!("{bytes}"), |(unit, name)| format!("{:.2}{name}", bytes as f64 / *unit as f64))
}

impl fmt::Display for ShowMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Process { resident, anonymous, shared, files, peak, mapped } = self.process;
        writeln!(f, "process: resident {}, peak {}, mapped {}", size(resident), size(peak), size(mapped))?;
        writeln!(f, "  anonymous {}, shared {}, files {}", size(anonymous), size(shared), size(files))?;
        let mut table = Table::new("  ")
            .column("Table", Align::Left, 24)
            .column("Entries", Align::Right, 10)
            .column("Of", Align::Right, 10)
            .column("Bytes", Align::Right, 10);
        for used in &self.tables {
            let capacity = used.capacity.map_or("-".into(), |capacity| capacity.to_string());
            table.row([used.name.to_string(), used.entries.to_string(), capacity, size(used.bytes)]);
        }
        write!(f, "{table}")?;
        let Some(mappings) = &self.mappings else { return Ok(()) };
        let mut table = Table::new("  ")
            .column("Mapping", Align::Left, 24)
            .column("Count", Align::Right, 10)
            .column("Size", Align::Right, 10)
            .column("Resident", Align::Right, 10);
        for mapped in mappings {
            table.row([mapped.name.clone(), mapped.count.to_string(), size(mapped.size), size(mapped.resident)]);
        }
        write!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_one_name_are_added_up() {
        let smaps = "7f00-7f01 rw-p 00000000 00:00 0 \nSize:  8 kB\nRss: 4 kB\nVmFlags: rd\n\
             7f01-7f02 rw-s 00000000 00:01 77   /memfd:/err (deleted)\nSize: 1024 kB\nRss: 512 kB\n\
             7f02-7f03 rw-p 00000000 00:00 0 \nSize: 8 kB\nRss: 8 kB\n";
        let all = mappings(smaps);
        let shown: Vec<_> = all.iter().map(|m| (m.name.as_str(), m.count, m.size, m.resident)).collect();
        assert_eq!(shown, [("/memfd:/err (deleted)", 1, 1 << 20, 512 << 10), ("(anonymous)", 2, 16 << 10, 12 << 10)]);
    }

    #[test]
    fn the_processs_figures_are_in_bytes() {
        let process = Process::parse("VmRSS:\t    2048 kB\nVmHWM:\t 4096 kB\nRssAnon: x kB\n");
        assert_eq!((process.resident, process.peak, process.anonymous, process.mapped), (2 << 20, 4 << 20, 0, 0));
    }

    #[test]
    fn sizes_look_as_vpps() {
        let sizes = [0, 1023, 1024, 46_500 << 10, 3 << 30].map(size);
        assert_eq!(sizes, ["0", "1023", "1.00K", "45.41M", "3.00G"]);
    }
}
