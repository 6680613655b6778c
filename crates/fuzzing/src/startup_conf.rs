//! The text of a `startup.conf`.

use startup::StartupConfig;
use std::hint::black_box;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let sections = router::capability::sections(capabilities::CAPABILITIES);
    let parse = || StartupConfig::parse("startup.conf", text, &sections);
    match parse() {
        Ok(config) => assert_eq!(Ok(config), parse()),
        Err(error) => {
            black_box(error.to_string());
        }
    }
}
