#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quiver_fuzzing::run("netlink", bytes));
