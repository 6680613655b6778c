//! Commands of the packet generator, as VPP has them.

use super::entry;
use super::kind::Generator;
use command::table::{Align, Table};
use command::{Args, Command, CommandError, CommandSet, Done, fail, reply};
use drivers::capture_file::{self, MAX_FRAME};
use drivers::pg::template::{Template, Vary};
use drivers::pg::{Content, Stream};
use graph::{InterfaceIndex, VECTOR_SIZE};
use router::interface;
use router::{Error, Router};
use serde::Serialize;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// As in VPP, a stream needs no interface, and `limit -1` makes it endless.
const SYNTAX: &str = "packet-generator new '{' {{ name <name:word> | interface <interface:interface> | [limit \
 <limit:u64>] | [rate <rate:rate>] | [size <size:word>] | [maxframe <maxframe:u32 1..256>] | [node <node:node>] | \
 [worker <worker:u32>] | [pcap <pcap:path>] | [data <data:block>] }} '}'";

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Packet generator",
        "A packet-generator interface receives the packets of streams. The [packet generator's \
         chapter](packet-generator.md) explains how to describe them.",
    );
    set.add(
        Command::new(
            "create packet-generator interface <name:word>",
            "Create an interface that receives the packets of streams.",
            |router: &mut Router, args: &Args| {
                interface::cli::create(router, Some(args.text("name")?), Box::new(Generator))
            },
        )
        .configures()
        .example("create packet-generator interface pg0"),
    );
    set.add(Command::new(
        SYNTAX,
        "Create a stream of packets (in VPP's notation; see the guide).",
        new_stream,
    )
    .also(
        &SYNTAX
            .replace("| interface <interface:interface>", "| [interface <interface:interface>]")
            .replace("[limit <limit:u64>]", "[limit {<limit:u64> | -1}]"),
    )
.configures()
.example(
    "packet-generator new { name s0 limit 1000 size 64-1500 interface pg0 data {\n  IP4: 02:00:00:00:00:aa -> \
     02:fe:00:00:00:00\n  \
     UDP: 10.0.0.1 -> 16.0.0.1\n  UDP: 1234 -> 5678\n  incrementing 30\n} }",
));
    set.add(
        Command::new(
            "packet-generator enable-stream [<name:stream>]",
            "Start a stream, or all.",
            |router: &mut Router, args: &Args| {
                super::enable(router, args.optional_text("name"), true)?;
                reply(Done)
            },
        )
        .example("packet-generator enable-stream s0"),
    );
    set.add(Command::new(
        "packet-generator disable-stream [<name:stream>]",
        "Stop a stream, or all.",
        |router: &mut Router, args: &Args| {
            super::enable(router, args.optional_text("name"), false)?;
            reply(Done)
        },
    ));
    set.add(
        Command::new(
            "packet-generator delete <name:stream>",
            "Remove a stream.",
            |router: &mut Router, args: &Args| {
                super::remove(router, args.text("name")?)?;
                reply(Done)
            },
        )
        .configures()
        .example("packet-generator delete s0"),
    );
    set.add(
        Command::new(
            "packet-generator stall <milliseconds:u32 0..60000>",
            "Set how long each vector of a stream with `node pg-stall` blocks its worker, to test how the router \
             behaves then.",
            |router: &mut Router, args: &Args| {
                super::set_stall(router, Duration::from_millis(args.parse("milliseconds")?));
                reply(Done)
            },
        )
        .example("packet-generator stall 3000"),
    );
    set.add(Command::new("show packet-generator", "Show the streams.", |router: &mut Router, _: &Args| {
        let progress = super::progress(router);
        let streams = super::streams(router).iter().map(|stream| {
            let (enabled, count) = progress
                .iter()
                .find(|(name, ..)| *name == stream.name)
                .map(|(_, enabled, sent)| (*enabled, *sent))
                .unzip();
            ShownStream { name: stream.name.clone(), enabled, count, parameters: stream.parameters.clone() }
        });
        reply(ShowPacketGenerator { streams: streams.collect() })
    }));
}

/// `64`, `64-1500` (counting up) or `64+1500` (at random).
fn parse_size(text: &str) -> Result<(u64, u64, Vary), CommandError> {
    let bad = || CommandError::new(format!("size '{text}': expected like 64, 64-1500 or 64+1500"));
    let number = |text: &str| text.parse::<u64>().map_err(|_| bad());
    if let Some((low, high)) = text.split_once('-') {
        return Ok((number(low)?, number(high)?, Vary::Increment));
    }
    if let Some((low, high)) = text.split_once('+') {
        return Ok((number(low)?, number(high)?, Vary::Random));
    }
    Ok((number(text)?, number(text)?, Vary::Increment))
}

fn new_stream(router: &mut Router, args: &Args) -> Result<Box<dyn command::Reply>, CommandError> {
    let name = args.text("name")?;
    let named = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
    let node = args.optional_text("node").unwrap_or("ethernet-input");
    let Some(entry) = entry::BY_NODE.into_iter().find_map(|(name, entry)| (name == node).then_some(entry)) else {
        let entries = entry::BY_NODE.map(|(name, _)| name).join(", ");
        return fail(format!("node '{node}': packets can enter at one of {entries}"));
    };
    let worker = args.optional::<usize>("worker")?.unwrap_or(0);
    let sizes = args.optional_text("size").map(parse_size).transpose()?;
    let content = match (args.optional_text("data"), args.optional_text("pcap")) {
        (Some(_), Some(_)) => return fail("a stream has either data or pcap"),
        (None, None) => return fail("what shall it send? (data { ... } or pcap FILE)"),
        (Some(data), None) => {
            let template = Template::parse(inside(data), sizes, entry.first).map_err(CommandError::new)?;
            Content::Template(Box::new(template))
        }
        (None, Some(name)) => {
            let (name, file) = (Path::new(name), router.files.open(Path::new(name))?);
            let packets = capture_file::read(name, file, MAX_FRAME).map_err(CommandError::new)?;
            Content::Replay(packets.into_iter().map(|packet| packet.frame).collect())
        }
    };
    let replayed = if let Content::Replay(frames) = &content { Some(frames.len()) } else { None };
    let interface = match named {
        Some(interface) => interface,
        None => own_interface(router, name)?,
    };
    let mut stream = Stream::new(name, interface, content);
    stream.entry = entry;
    // A replay runs once by default.
    let endless = args.flag("-1").then_some(0);
    stream.limit = args.optional("limit")?.or(endless).or(replayed.map(|n| n as u64)).unwrap_or(0);
    stream.rate = args.optional_rate("rate")?.unwrap_or(0.0);
    stream.max_frame = args.optional("maxframe")?.unwrap_or(VECTOR_SIZE);
    let shown_size = match (sizes, replayed) {
        (_, Some(frames)) => format!("{frames} packets replayed, "),
        (Some((low, high, Vary::Increment)), None) => format!("size {low}-{high}, "),
        (Some((low, high, Vary::Random)), None) => format!("size {low}+{high}, "),
        (None, None) => String::new(),
    };
    let parameters = format!(
        "limit {}, rate {:.2e} pps, {shown_size}buffer-size {}, worker {worker}, ",
        stream.limit,
        stream.rate,
        graph::buffer::DATA_SIZE
    );
    if let Err(error) = super::add(router, stream, worker, parameters, definition(args)) {
        if named.is_none() {
            router.delete_interface(interface)?;
        }
        return Err(error.into());
    }
    reply(Done)
}

/// The interface of a stream that names none: the command creates one, and sets it up.
fn own_interface(router: &mut Router, stream: &str) -> Result<InterfaceIndex, Error> {
    let interface = router.create(&format!("pg-{stream}"), Box::new(Generator))?;
    router.set_admin(interface, true)?;
    Ok(interface)
}

/// The lines that define a stream, without its name and interface.
fn definition(args: &Args) -> Vec<String> {
    let words = ["limit", "rate", "size", "maxframe", "node", "worker", "pcap"];
    let endless = |word: &str| (word == "limit" && args.flag("-1")).then_some("0");
    let said = |word: &str| args.optional_text(word).or_else(|| endless(word));
    let given = words.iter().filter_map(|word| Some(format!("{word} {}", said(word)?)));
    let data = args.optional_text("data").map(|data| {
        let lines = inside(data).lines().map(str::trim).filter(|line| !line.is_empty());
        let lines: String = lines.map(|line| format!("    {line}\n")).collect();
        format!("data {{\n{lines}  }}")
    });
    given.chain(data).collect()
}

/// The text between the braces of a block.
fn inside(block: &str) -> &str {
    let block = block.trim();
    block.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(block)
}

#[derive(Serialize)]
struct ShownStream {
    name: String,
    /// None: its worker did not answer.
    enabled: Option<bool>,
    count: Option<u64>,
    parameters: String,
}

#[derive(Serialize)]
struct ShowPacketGenerator {
    streams: Vec<ShownStream>,
}

impl fmt::Display for ShowPacketGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.streams.is_empty() {
            return writeln!(f, "no streams currently defined");
        }
        let mut table = Table::new("")
            .column("Name", Align::Left, 19)
            .titled_column("Enabled", Align::Left, Align::Centre, 7)
            .titled_column("Count", Align::Right, Align::Right, 13)
            .column("     Parameters", Align::Left, 0);
        for stream in &self.streams {
            let enabled = stream.enabled.map_or("?", |enabled| if enabled { "Yes" } else { "No" });
            table.row([
                stream.name.clone(),
                enabled.into(),
                stream.count.map_or("?".into(), |count| count.to_string()),
                format!("     {}", stream.parameters),
            ]);
        }
        write!(f, "{table}")
    }
}
