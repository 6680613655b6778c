//! `pcap trace`, as VPP has it.

use super::control::{self, BYTES_PER_PACKET, Captures, MAX_PACKETS, Outcome, Wanted};
use command::{Args, Command, CommandError, CommandSet, Reply, Text, fail, reply};
use graph::capture::Point;
use router::{Error, Router};
use serde::Serialize;
use std::fmt;
use wire::filter::Filter;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Captures",
        "A capture writes packets to a pcapng file: as they are received, as they are sent, or where they are \
         dropped, with the reason as the packet's comment. A capture ends when it is full or stopped; then the \
         complete file appears. [Captures](capture.md) explains the filters.",
    );
    set.add(
        Command::new(
            "pcap trace {{ [rx] | [tx] | [drop] | [max <max:u32 1..1000000>] | [intfc <interface:interface>] | [file \
         <file:path>] | [max-bytes-per-pkt <bytes:u32 32..9216>] | [filter <filter:rest>] }}",
            "Capture packets into a file: received, sent, dropped. `intfc any` means all interfaces.",
            start,
        )
        .example("pcap trace drop max 100 file drops.pcapng")
        .example(
            "pcap trace rx tx max 1000 intfc e0 filter udp \
     and port 53",
        ),
    );
    set.add(Command::new("pcap trace off", "Stop the capture and write its file.", |router: &mut Router, _: &Args| {
        reply(control::stop(router)?)
    }));
    for path in ["pcap trace status", "show pcap trace"] {
        set.add(Command::new(path, "Show the running capture, or how the last one ended.", status));
    }
}

/// What a point is called in commands.
fn word(point: Point) -> &'static str {
    match point {
        Point::Received => "rx",
        Point::Sent => "tx",
        Point::Dropped => "drop",
    }
}

fn words(points: u8) -> Vec<&'static str> {
    Point::ALL.into_iter().filter(|point| points & *point as u8 != 0).map(word).collect()
}

fn start(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let chosen = Point::ALL.into_iter().filter(|point| args.flag(word(*point)));
    let points = chosen.fold(0, |points, point| points | point as u8);
    if points == 0 {
        return fail("nothing to capture: name rx, tx, drop or several of them");
    }
    let interface = match args.optional_text("interface") {
        None | Some("any") => None,
        Some(name) => Some(router.interfaces.find(name)?),
    };
    let filter = args.optional_text("filter").map(Filter::parse).transpose().map_err(Error::from)?;
    let file = args.optional_text("file").map_or_else(|| format!("{}.pcap", words(points).concat()), str::to_string);
    control::start(
        router,
        Wanted {
            points,
            interface,
            filter,
            max: args.optional("max")?.unwrap_or(MAX_PACKETS),
            bytes_per_packet: args.optional("bytes")?.unwrap_or(BYTES_PER_PACKET),
            file,
        },
    )?;
    reply(Text(format!("pcap {} capture on...\n", words(points).join(" "))))
}

fn status(router: &mut Router, _: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let running = router.state::<Captures>().running.as_ref().map(|running| {
        let interface = running.interface.map(|index| match router.interfaces.get(index) {
            Ok(interface) => interface.name.clone(),
            Err(_) => "(removed)".into(),
        });
        Status {
            points: words(running.points),
            interface: interface.unwrap_or_else(|| "any".into()),
            filter: running.filter.as_ref().map(|filter| filter.to_string()),
            max: running.max,
            max_bytes_per_packet: running.bytes_per_packet,
            file: running.path.display().to_string(),
            rx: running.count(Point::Received),
            tx: running.count(Point::Sent),
            drop: running.count(Point::Dropped),
        }
    });
    reply(ShowCapture { running, last: router.state::<Captures>().last.clone() })
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            None => writeln!(f, "Write {} packets to {}, and stop capture...", self.packets, self.file.display()),
            Some(error) => writeln!(f, "cannot write {}: {error}", self.file.display()),
        }
    }
}

#[derive(Serialize)]
struct Status {
    points: Vec<&'static str>,
    interface: String,
    filter: Option<String>,
    max: usize,
    max_bytes_per_packet: usize,
    file: String,
    rx: u64,
    tx: u64,
    drop: u64,
}

#[derive(Serialize)]
struct ShowCapture {
    running: Option<Status>,
    last: Option<Outcome>,
}

impl fmt::Display for ShowCapture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(running) = &self.running else {
            writeln!(f, "pcap capture is off...")?;
            return match &self.last {
                Some(last) => write!(f, "the last one: {last}"),
                None => Ok(()),
            };
        };
        let which = if running.interface == "any" {
            "any interface".into()
        } else {
            format!("interface {}", running.interface)
        };
        writeln!(f, "max is {}, for {which} to file {}", running.max, running.file)?;
        if let Some(filter) = &running.filter {
            writeln!(f, "filter is {filter}")?;
        }
        let Status { rx, tx, drop, max, .. } = running;
        writeln!(f, "pcap {} capture is on: {} of {max} pkts...", running.points.join(" "), rx + tx + drop)?;
        writeln!(f, "captured: {rx} rx, {tx} tx, {drop} drop")
    }
}
