//! What lower crates must not know: the graph and the drivers serve any protocol and any node.

use crate::bed::Bed;
use quiver_capabilities::CAPABILITIES;
use router::capability;
use std::collections::{BTreeMap, BTreeSet};
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
    assert!(!found.is_empty(), "{name} has sources");
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

/// Whoever has to do with one kind of interfaces asks for the kind's options, or for what the interface carries.
#[test]
fn no_drivers_name_is_compared() {
    let kinds: Vec<&str> = capability::kinds(CAPABILITIES).map(|kind| kind.driver).collect();
    assert!(kinds.len() > 6 && kinds.contains(&"af_packet"), "{kinds:?}");
    for (path, text) in ["router", "protocols", "features", "loadtest", "control"].into_iter().flat_map(sources) {
        // The classes of the log are those of modules.
        for (line, code) in code(&text).filter(|_| !path.ends_with("logging/class.rs")) {
            let is_compared = |kind: &&&str| {
                let compared = [format!("== \"{kind}\""), format!("!= \"{kind}\""), format!("\"{kind}\" =>")];
                compared.iter().any(|text| code.contains(text))
            };
            assert_eq!(kinds.iter().find(is_compared), None, "{}:{line}", path.display());
        }
    }
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

/// The modules of a crate's root, folders and files, each with those whose items it names.
fn arrows(name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let unit = |path: &Path| path.strip_prefix(&root).unwrap().iter().next().unwrap().to_string_lossy().into_owned();
    let unit = |path: &Path| unit(path).trim_end_matches(".rs").to_string();
    let sources = sources(name);
    let units: BTreeSet<String> = sources.iter().map(|(path, _)| unit(path)).collect();
    // What the root passes on, by the module that it is from.
    let mut passed_on = BTreeMap::new();
    for (_, text) in sources.iter().filter(|(path, _)| ["lib", "main"].contains(&unit(path).as_str())) {
        let text: String = code(text).map(|(_, line)| line).collect::<Vec<_>>().join(" ");
        for (module, items) in text.split("use ").skip(1).filter_map(|used| used.split(';').next()?.split_once("::")) {
            let module = module.trim().to_string();
            if units.contains(&module) {
                words(items).for_each(|item| drop(passed_on.insert(item.to_string(), module.clone())));
            }
        }
    }
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in &sources {
        let from = unit(path);
        if ["lib", "main"].contains(&from.as_str()) {
            continue;
        }
        let text: String = code(text).map(|(_, line)| line).collect::<Vec<_>>().join("\n");
        let named = text.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
            // The first word of each item of a group.
            Some(group) => {
                let (mut depth, mut items) = (0, vec![String::new()]);
                for c in group.chars() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => items.push(String::new()),
                        c if depth == 0 && !c.is_whitespace() => items.last_mut().unwrap().push(c),
                        _ => {}
                    }
                }
                items
            }
            None => vec![rest.to_string()],
        });
        let first = |item: String| words(&item).next().unwrap_or_default().to_string();
        let module = |item: String| if units.contains(&item) { Some(item) } else { passed_on.get(&item).cloned() };
        let to = named.map(first).filter_map(module).filter(|to| *to != from);
        arrows.entry(from.clone()).or_default().extend(to);
    }
    arrows
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Whether a way of arrows leads from one module to another.
fn leads(arrows: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for next in arrows.get(module).into_iter().flatten() {
            if next == to {
                return true;
            }
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    false
}

/// Between crates the compiler sees to it: cargo builds no circle of crates.
#[test]
fn no_module_is_in_a_circle_of_imports() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for name in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        let arrows = arrows(&name);
        seen += arrows.len();
        let in_a_circle: Vec<&str> = arrows.keys().filter(|one| leads(&arrows, one, one)).map(String::as_str).collect();
        assert_eq!(in_a_circle, Vec::<&str>::new(), "{name}");
    }
    assert!(seen > 150, "{seen}");
    assert!(arrows("features")["capture"].contains("inspect") && arrows("router")["ip"].contains("interface"));
}

/// A folder that its crate does not list would be compiled and never start.
#[test]
fn each_capability_is_listed_by_its_crate() {
    let mut listed = 0;
    for name in ["devices", "protocols", "features"] {
        let sources = sources(name);
        let (_, root) = sources.iter().find(|(path, _)| path.ends_with("src/lib.rs")).unwrap();
        let of_line =
            |line: &str, before, after| Some(line.trim().strip_prefix(before)?.strip_suffix(after)?.to_string());
        let find = |before, after| root.lines().filter_map(|line| of_line(line, before, after)).collect::<Vec<_>>();
        let (mut modules, mut list) = (find("pub mod ", ";"), find("&", "::CAPABILITY,"));
        list.sort();
        modules.sort();
        assert_eq!(modules, list, "{name}");
        listed += list.len();
    }
    let others = router::capability::CAPABILITIES.len() + linux_cp::CAPABILITIES.len() + 1;
    assert_eq!(listed + others, CAPABILITIES.len(), "all crates are in the list, and what VPP has beyond");
}

/// The page is what operators go by.
#[test]
fn every_key_of_a_capabilitys_section_is_in_the_guide() {
    let guide = include_str!("../../../../docs/guide/configuration.md");
    for section in capability::sections(CAPABILITIES) {
        let inside = section.keys.iter().flat_map(|key| key.keys);
        for name in section.keys.iter().chain(inside).map(|key| key.name).chain([section.name]) {
            assert!(guide.contains(name), "{name} of {}", section.name);
        }
    }
}
