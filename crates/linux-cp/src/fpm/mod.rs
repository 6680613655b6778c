//! The Forwarding Plane Manager's protocol: a routing daemon, FRR's zebra with its module `dplane_fpm_nl`, connects and
//! says its routes and next-hop objects, without the kernel between. It hears which of them forward.
//!
//! ```text
//!  zebra ──frames of netlink──▶ thread "fpm" ──Event──▶ control ──▶ change_all_routes
//!        ◀──routes, offloaded──   mirror       ◀─Order── Done
//! ```
//!
//! A daemon that connects again says all of it again. What it does not say within the hold time goes, as do all its
//! routes when it does not come again. Until then they forward.

mod cli;
mod control;
mod frames;
mod server;

pub use control::{Fpm, ended, follow, followed, moved, set_no_paths, set_vrfs};
pub use frames::first as first_frame;

use router::Error;
use router::capability::{Description, Starting};
use startup::{Key, Section};
use std::net::SocketAddr;
use std::time::Duration;

pub const CAPABILITY: Description = Description {
    name: "fpm",
    description: "Routes of a routing daemon by the Forwarding Plane Manager's protocol (FRR)",
    log_classes: &[("fpm", "fpm")],
    sections: &[Section::new("fpm", KEYS)],
    start,
    commands: cli::register,
    ..Description::NONE
};

const KEYS: &[Key] = &[
    Key::value("listen", "an address and a port (127.0.0.1:2620)").of(|value| {
        value.text.parse::<SocketAddr>().map(drop).map_err(|_| value.complain("an address and a port (127.0.0.1:2620)"))
    }),
    Key::value("netns", "the name of a network namespace"),
    Key::value("hold-time", "a number of seconds").of(|value| value.number(0, 86_400).map(drop)),
];

/// How long routes stay without a word, unless `hold-time` says it.
const HOLD_TIME: Duration = Duration::from_secs(60);

/// What `startup.conf` says.
#[derive(Debug, Clone)]
pub struct Settings {
    pub listen: SocketAddr,
    /// Where the daemon runs; none: where pairs are by default.
    pub namespace: Option<String>,
    pub hold_time: Duration,
}

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let events = starting.events(control::handle);
    let section = starting.section("fpm");
    let listen = section.text("listen").and_then(|text| text.parse().ok());
    let hold_time = section.get("hold-time").and_then(|entry| entry.value().number(0, 86_400).ok());
    let settings = listen.map(|listen| Settings {
        listen,
        namespace: section.text("netns").map(str::to_string),
        hold_time: hold_time.map_or(HOLD_TIME, |time| Duration::from_secs(time.into())),
    });
    starting.own(Fpm::new(settings, events));
    Ok(())
}
