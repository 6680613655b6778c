//! Codes of errors: programs compare them, so none ever changes or goes.

use quiver_capabilities::CAPABILITIES;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn described() -> Vec<&'static str> {
    CAPABILITIES.iter().flat_map(|capability| capability.codes).flat_map(|codes| codes.iter().copied()).collect()
}

/// `codes.txt` has the codes of all releases. A new one is added to it; a line that is there stays.
#[test]
fn codes_stay_and_each_means_one_thing() {
    let codes = described();
    let once: BTreeSet<&str> = codes.iter().copied().collect();
    assert_eq!(once.len(), codes.len(), "two reasons have one code");
    let of_releases: BTreeSet<&str> = include_str!("codes.txt").lines().collect();
    assert_eq!(of_releases.difference(&once).collect::<Vec<_>>(), Vec::<&&str>::new(), "a code is gone");
    assert_eq!(once.difference(&of_releases).collect::<Vec<_>>(), Vec::<&&str>::new(), "add these to codes.txt");
    let is_plain = |code: &&str| code.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    assert_eq!(once.iter().find(|code| !is_plain(code)), None);
}

/// Who gives an error codes also names them in the description.
#[test]
fn every_code_is_described() {
    fn visit(folder: &Path, into: &mut BTreeSet<String>) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                visit(&path, into);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("code.rs") {
                let text = fs::read_to_string(&path).unwrap();
                for block in text.split("codes! {").skip(1).filter_map(|rest| rest.split("} }").next()) {
                    into.extend(block.split('"').skip(1).step_by(2).map(String::from));
                }
            }
        }
    }
    let mut written = BTreeSet::new();
    for name in ["router", "protocols", "features", "devices", "linux-cp"] {
        visit(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"), &mut written);
    }
    let described: BTreeSet<String> = described().into_iter().map(String::from).collect();
    assert!(written.len() > 100);
    assert_eq!(written, described);
}
