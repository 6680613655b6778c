//! `pcap trace`: copies of packets, as received, sent or dropped, in a file.
//!
//! Workers copy into memory that control gave them ([`graph::capture`]); when it is full, or
//! at `pcap trace off`, control writes it as pcapng ([`file`](mod@file)) with the names of
//! interfaces, directions, and the reason of each drop as a comment.

pub mod cli;
mod control;
mod file;

pub use control::{CaptureError, Captures};

use crate::capability::{Description, Tick};

pub(crate) const CAPABILITY: Description = Description {
    name: "capture",
    description: "Packets written to a file, with the reason of their drop",
    commands: cli::register,
    ticks: &[Tick::new(|router, _| router.collect_capture(), |_| None)],
    ..Description::NONE
};
