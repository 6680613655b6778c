//! What fuzzers feed: for each parser of the program a function of bytes that panics when
//! something is wrong.
//!
//! `fuzz/` makes a libFuzzer binary of each (`make fuzz`), and what those found worth keeping
//! is in `fuzz/corpus/`, which `tests/replay.rs` gives to the same functions. Each function
//! starts from nothing, so that an input that failed once fails again.
#![forbid(unsafe_code)]

mod capture_file;
mod commands;
mod configuration;
mod filter;
mod frames;
mod headers;
mod lines;
mod memif;
mod netlink;
mod offload;
mod ports;
mod session;
mod startup_conf;
mod template;

use command::Files;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A parser, and what gives it bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All of them; the names are those of the binaries and of the folders of inputs.
pub const TARGETS: &[Target] = &[
    ("headers", headers::run),
    ("frames", frames::run),
    ("offload", offload::run),
    ("filter", filter::run),
    ("lines", lines::run),
    ("commands", commands::run),
    ("configuration", configuration::run),
    ("startup_conf", startup_conf::run),
    ("session", session::run),
    ("capture_file", capture_file::run),
    ("template", template::run),
    ("memif", memif::run),
    ("netlink", netlink::run),
];

/// Gives bytes to a target.
///
/// # Panics
/// When there is none of that name, or something is wrong with the program.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target of this name");
    target(bytes);
}

/// A directory for the files that commands name, there for one input.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("quiver-fuzzing-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }

    fn files(&self) -> Files {
        Files::beneath(&self.0).expect("a directory")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
