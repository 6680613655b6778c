//! The text of a configuration: what a router takes, it states again, and that is taken again.

use features::config;
use router::{Devices, Options, Router};
use std::hint::black_box;

/// A longer one finds nothing new.
const MOST_BYTES: usize = 4096;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(&bytes[..bytes.len().min(MOST_BYTES)]) else { return };
    let directory = crate::Directory::new();
    let options = Options { buffers: 1024, huge_pages: false, devices: Devices::DryRun, ..Options::default() };
    let mut router = capabilities::router(options).expect("a router");
    router.files = directory.files();
    let wanted = match config::parse_config(&mut router, "file", text) {
        Ok(wanted) => wanted,
        Err(error) => {
            black_box(error.to_string());
            return;
        }
    };
    config::load_config(&mut router, &wanted, None).expect("what was checked can be loaded");
    assert_eq!(stated(&router), lines(&wanted), "the router states what it was given");
    let text = stated(&router).join("\n");
    let again = config::parse_config(&mut router, "again", &text).expect("what it states can be read");
    assert_eq!(lines(&again), lines(&wanted), "and is the same");
    assert!(config::load_config(&mut router, &again, None).expect("nothing to do").is_empty());
}

fn stated(router: &Router) -> Vec<String> {
    lines(&config::running_config(router))
}

fn lines(statements: &[router::capability::Statement]) -> Vec<String> {
    statements.iter().map(|statement| statement.line.clone()).collect()
}
