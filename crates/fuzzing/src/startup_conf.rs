//! The text of a `startup.conf`.

use startup::StartupConfig;
use std::hint::black_box;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match StartupConfig::parse("startup.conf", text, &[]) {
        Ok(config) => assert_eq!(Ok(config), StartupConfig::parse("startup.conf", text, &[])),
        Err(error) => {
            black_box(error.to_string());
        }
    }
}
