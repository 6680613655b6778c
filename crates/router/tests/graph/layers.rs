//! What lower crates must not know: the graph and the drivers serve any protocol and any node.

use crate::bed::Bed;
use std::fs;
use std::path::{Path, PathBuf};

/// The source files of a crate, without those of tests.
fn sources(name: &str) -> Vec<(PathBuf, String)> {
    fn files(folder: &Path, into: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => files(&path, into),
                false if path.extension().is_some_and(|end| end == "rs") => into.push(path),
                false => {}
            }
        }
    }
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"), &mut found);
    let is_test = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
    found.retain(|path| !is_test(path));
    assert!(found.len() > 10, "{name} has sources");
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The lines that are code, without comments and unit tests.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
    lines.enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")).map(|(at, line)| (at + 1, line))
}

#[test]
fn drivers_and_graph_name_no_node_of_the_router() {
    let (bed, _) = Bed::with_three_ports();
    // What the drivers and the graph register themselves.
    let own = ["drop", "pg-input", "virtio-input", "af-packet-input", "af_xdp-input", "memif-input"];
    let nodes: Vec<String> = bed.router.graph.nodes().iter().map(|node| node.name.clone()).collect();
    assert!(nodes.len() > 60 && nodes.iter().any(|name| name == "ethernet-input"));
    for (path, text) in ["drivers", "graph"].into_iter().flat_map(sources) {
        for (line, code) in code(&text) {
            let named =
                nodes.iter().find(|name| code.contains(&format!("\"{name}\"")) && !own.contains(&name.as_str()));
            assert_eq!(named, None, "{}:{line}", path.display());
        }
    }
}

#[test]
fn the_graph_has_no_flag_of_a_protocol() {
    let all = sources("graph");
    let (_, flags) = all.iter().find(|(path, _)| path.ends_with("vector/flag.rs")).unwrap();
    let names = flags.lines().filter_map(|line| line.trim().strip_prefix("pub const ")?.split(':').next());
    let names: Vec<&str> = names.filter(|name| !name.starts_with("fn ")).collect();
    let graphs = ["CHAINED", "TRACED", "PARTIAL_CHECKSUM", "SEGMENTED", "ORIGINATED", "BARE"];
    assert_eq!(names, [&graphs[..], &["CLAIMABLE", "NOT_PLAIN", "OFFLOAD"]].concat());
}

/// What a forwarding object means is the owner's affair: labels, time to live, reports to senders.
#[test]
fn the_tables_know_no_protocol() {
    let words = ["label", "mpls", "uniform", "punt", "prohibit", "vxlan"];
    for (path, text) in sources("tables") {
        for (line, code) in code(&text) {
            let code = code.to_lowercase();
            let named = words.iter().find(|word| code.contains(*word));
            assert_eq!(named, None, "{}:{line}", path.display());
        }
    }
}
