//! The Linux control plane: interfaces of the router have a second side in Linux, where routing daemons and operators
//! find ordinary network interfaces.
//!
//! A *pair* is an interface of the router and a TAP whose other end is in Linux (`control`). Frames that are not for
//! forwarding go to Linux: packets for the router's addresses and for groups, ARP, Neighbor Discovery, and frames of
//! protocols that the router does not know (`to_host`). Linux answers them. What Linux sends leaves by the router's
//! interface as it is, without a lookup (`from_host`).
//!
//! ```text
//!  wire ──▶ e0 ─▶ ethernet-input ─▶ … ip4-local, ip6-local, arp, l2-input ─▶ linux-cp-punt… ──▶ lcp0 ──▶ Linux: xe0
//!  wire ◀── e0-output ◀─────────────────────────────────────────────────────── linux-cp-xc ◀── lcp0 ◀── Linux: xe0
//! ```
#![forbid(unsafe_code)]

mod audit;
mod cli;
mod control;
mod error;
mod events;
mod follow;
mod followed;
mod fpm;
mod from_host;
mod from_linux;
mod keeper;
mod kernel;
mod netlink;
mod ordered;
mod pair;
mod params;
mod state;
mod sync;
mod to_host;
mod vlan;
mod vrf;
mod ways;

pub use control::{create, delete, join};
pub use error::LcpError;
pub use fpm::first_frame;
pub use keeper::run as keep_links;
pub use kernel::{Kernel, Links};
pub use netlink::link::parse as parse_link;
pub use netlink::message::{Message, Messages};
pub use state::{Pair, Pairs};

use graph::Behaviour;
use graph::directory::{Column, Of};
use params::Params;
use router::Error;
use router::capability::{Chapter, Description, FeatureSpec, Part, Phase, Stage, Starting, no_more};
use router::interface::kind::InterfaceKind;
use startup::{Key, Section};
use state::Startup;
use std::time::Duration;

/// The capabilities of this crate.
pub const CAPABILITIES: router::capability::List = &[&CAPABILITY, &fpm::CAPABILITY];

pub const CAPABILITY: Description = Description {
    name: "linux-cp",
    description: "Linux control plane: interfaces of the router as interfaces of Linux",
    log_classes: &[("linux_cp", "linux-cp")],
    codes: &[LcpError::CODES],
    sections: &[Section::new("linux-cp", KEYS), Section::new("linux-nl", FOLLOW_KEYS)],
    start,
    hears: control::hears,
    allows: control::allows,
    commands: cli::register,
    statements: &[
        (Phase::Basics, Part::Few(control::auto_statements)),
        (Phase::Services, Part::Few(control::statements)),
        (Phase::Services, Part::Few(vlan::statements)),
    ],
    kinds: &[InterfaceKind { driver: pair::DRIVER, specimen: || Box::new(pair::PairConfig::default()), port: None }],
    nodes: &[to_host::NODES[0], to_host::NODES[1], to_host::NODES[2], to_host::NODES[3], from_host::NODE],
    features: &[
        FeatureSpec::new("ip4-local", to_host::NODES[0], no_more),
        FeatureSpec::new("ip6-local", to_host::NODES[1], no_more),
        FeatureSpec::new("arp", to_host::NODES[2], no_more),
        FeatureSpec::new("l2-input", to_host::NODES[3], no_more),
        FeatureSpec::new(drivers::input::ARC, from_host::NODE, no_more),
    ],
    chapters: &[Chapter {
        stage: Stage::Local,
        title: "The Linux control plane",
        about: "Packets between an interface and its pair in Linux (`lcp create`).",
        nodes: &[to_host::NODES[0], to_host::NODES[1], to_host::NODES[2], to_host::NODES[3], from_host::NODE],
    }],
    ..Description::NONE
};

const ALWAYS: &str = "routes of a link that is down always go, as they do in Linux";

/// VPP's keys. Those that do nothing yet say so.
const KEYS: &[Key] = &[
    Key::value("default netns", "the name of a network namespace"),
    Key::value("num-rx-queues", "a number of queues").of(|value| value.number(1, 256).map(drop)),
    Key::value("num-tx-queues", "a number of queues").idle("each worker sends by itself"),
    Key::flag("lcp-sync"),
    Key::value("hold-time", "a number of seconds").of(|value| value.number(0, 86_400).map(drop)),
    Key::value("hold-name", "a name that no other router uses"),
    Key::flag("lcp-auto-subint"),
    Key::flag("lcp-sync-unnumbered"),
    Key::flag("route-no-paths"),
    Key::flag("del-static-on-link-down").idle(ALWAYS),
    Key::flag("del-dynamic-on-link-down").idle(ALWAYS),
];

/// The name under which routers find the process that keeps sides of pairs, unless they are given another one.
const HOLD_NAME: &str = "quiver/links";

/// How Linux is followed.
const FOLLOW_KEYS: &[Key] = &[
    Key::value("rx-buffer-size", "a number of bytes").of(|value| value.number(1 << 12, 1 << 30).map(drop)),
    Key::value("tx-buffer-size", "a number of bytes").idle("requests wait for their answers, one by one"),
    Key::value("nl-batch-size", "a number of routes").of(|value| value.number(1, 1 << 20).map(drop)),
    Key::value("nl-batch-delay-ms", "a number of milliseconds").of(|value| value.number(0, 10_000).map(drop)),
];

fn follow_settings(starting: &mut Starting<'_>) -> follow::Settings {
    let usual = follow::Settings::default();
    let section = starting.section("linux-nl");
    let number = |key: &str, most: u64| section.get(key).and_then(|entry| entry.value().number(0, most).ok());
    follow::Settings {
        room: number("rx-buffer-size", 1 << 30).map_or(usual.room, |bytes| bytes as usize),
        batch: number("nl-batch-size", 1 << 20).map_or(usual.batch, |routes| routes as usize),
        pause: number("nl-batch-delay-ms", 10_000).map_or(usual.pause, |time| Duration::from_millis(time.into())),
    }
}

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let settings = starting.section("linux-cp");
    let namespace = settings.text("default netns").map(str::to_string);
    let (sync, subs) = (settings.has("lcp-sync"), settings.has("lcp-auto-subint"));
    let params = Params::new(|param| settings.has(param.word()));
    let queues = settings.get("num-rx-queues").and_then(|entry| entry.value().number(1, 256).ok()).unwrap_or(1);
    let held =
        settings.get("hold-time").and_then(|entry| entry.value().number(0, 86_400).ok()).filter(|time| *time > 0);
    let hold_name = settings.text("hold-name").unwrap_or(HOLD_NAME).to_string();
    let keep = held.map(|time| keeper::Settings { time: Duration::from_secs(time.into()), name: hold_name });
    let (to_host, from_host) = (starting.per_interface(), starting.per_interface());
    let workers = starting.graph.workers();
    const TO: &[Column] = &[Column::packets("lcp tx packets"), Column::bytes("lcp tx bytes").not_shown()];
    const FROM: &[Column] = &[Column::packets("lcp rx packets"), Column::bytes("lcp rx bytes").not_shown()];
    let directory = &mut starting.graph.directory;
    let sent = directory.table("/if/lcp-tx", workers, Of::Interface, TO, "Packets given to Linux.")?;
    let taken = directory.table("/if/lcp-rx", workers, Of::Interface, FROM, "Packets that Linux sent.")?;
    for (number, name) in to_host::NODES.into_iter().enumerate() {
        let (ways, sent) = (to_host.clone(), sent.clone());
        let new = move |_| Behaviour::Expand(Box::new(to_host::ToHost::new(number, ways.clone(), sent.clone())));
        starting.graph.register(to_host::spec(name), new)?;
    }
    let (ways, pairs) = (from_host.clone(), to_host.clone());
    let new = move |_| Behaviour::Map(Box::new(from_host::FromHost::new(ways.clone(), pairs.clone(), taken.clone())));
    starting.graph.register(from_host::spec(), new)?;
    let (follow, events) = (follow_settings(starting), starting.events(events::handle));
    let startup = Startup { namespace, queues: queues as u16, sync, subs, follow, keep };
    starting.own(Pairs::new(startup, params, events, to_host, from_host));
    Ok(())
}
