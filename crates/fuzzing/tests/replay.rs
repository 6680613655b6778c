//! Every input of `fuzz/corpus/` through its target: what fuzzers found worth keeping, and
//! what once did harm.

use quiver_fuzzing::TARGETS;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Bounds of a target's folder, so that a copy of this repository stays small.
const MOST_FILES: usize = 100;
const MOST_BYTES: u64 = 200 << 10;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

fn inputs(target: &str) -> Vec<PathBuf> {
    let folder = corpus().join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

#[test]
fn every_input_that_was_kept_does_no_harm() {
    for (name, target) in TARGETS {
        for file in inputs(name) {
            println!("{}", file.display());
            target(&fs::read(&file).expect("a file"));
        }
    }
}

#[test]
fn inputs_are_few_and_small_and_belong_to_targets() {
    let known: BTreeSet<String> = TARGETS.iter().map(|(name, _)| name.to_string()).collect();
    let folders = fs::read_dir(corpus()).expect("a folder");
    let folders = folders.map(|folder| folder.expect("an entry").file_name().into_string().expect("a name"));
    assert_eq!(folders.collect::<BTreeSet<String>>(), known);
    for name in &known {
        let files = inputs(name);
        let bytes: u64 = files.iter().map(|file| fs::metadata(file).expect("a file").len()).sum();
        assert!((1..=MOST_FILES).contains(&files.len()) && bytes <= MOST_BYTES, "{name}: {} files", files.len());
    }
}

#[test]
fn every_target_has_a_binary() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml: no binary {name}");
        let text = fs::read_to_string(folder.join(format!("fuzz_targets/{name}.rs"))).expect("a binary");
        assert!(text.contains(&format!("\"{name}\"")), "fuzz_targets/{name}.rs runs another");
    }
}
