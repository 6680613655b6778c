//! `pcap trace`: copies of packets, as received, sent or dropped, in a file.
//!
//! Workers copy into memory that control gave them ([`graph::capture`]); when it is full, or
//! at `pcap trace off`, control writes it as pcapng ([`file`](mod@file)) with the names of
//! interfaces, directions, and the reason of each drop as a comment.

mod cli;
mod control;
mod file;

pub use control::CaptureError;

use router::Error;
use router::capability::{Description, Starting};

pub const CAPABILITY: Description = Description {
    name: "capture",
    log_classes: &[("capture", "capture")],
    codes: &[CaptureError::CODES],
    description: "Packets written to a file, with the reason of their drop",
    start,
    commands: cli::register,
    ..Description::NONE
};

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let events = starting.events(|router, ()| control::collect(router));
    starting.own(control::Captures::new(events));
    Ok(())
}
