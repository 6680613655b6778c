//! What each error means, as a page for operators: `docs/guide/errors.md`.
//!
//! The page consists of the nodes' own comments (`graph::edges!`, `CounterSpec`), by capability and in the order in
//! which packets meet the nodes.

use graph::registry::ErrorInfo;
use router::capability::{self, Chapter, List, OUTPUT, SUB_OUTPUT, Stage, TX};
use router::interface::sub::by_number;
use router::{Devices, Error, Options, Router};
use serde::Serialize;
use std::collections::HashSet;
use std::fmt::Write;

/// An error as the page shows it.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Meaning {
    /// The part of the router that it belongs to.
    pub section: &'static str,
    pub node: String,
    pub reason: String,
    /// `dropped`, `done` or `counted`.
    pub outcome: String,
    pub severity: String,
    pub meaning: &'static str,
}

/// The chapters in the order in which packets meet their nodes. Nodes that no chapter names are in the last one.
fn chapters(capabilities: List) -> Vec<Chapter> {
    let mut chapters: Vec<Chapter> = Vec::new();
    for chapter in capabilities.iter().flat_map(|capability| capability.chapters) {
        match chapters.iter_mut().find(|known| known.title == chapter.title) {
            Some(known) if known.about.is_empty() => known.about = chapter.about,
            Some(_) => {}
            None => chapters.push(*chapter),
        }
    }
    chapters.sort_by_key(|chapter| chapter.stage);
    let elsewhere = "Nodes of no single capability.";
    chapters.push(Chapter { stage: Stage::Sending, title: ELSEWHERE, about: elsewhere, nodes: &[] });
    chapters
}

const ELSEWHERE: &str = "Elsewhere";

const INTRODUCTION: &str = "\
Every packet that is not forwarded ends under a name, and each name is counted. `show errors` lists the counts by node
and name. `show errors meaning` adds the explanations of this page.

- To see what happens now: `clear errors`, wait, `show errors`.
- `pcap trace drop max 100 file drops.pcap` captures dropped packets, each with its node and reason
  ([captures](capture.md)). `trace add virtio-input 10` and `show trace` show the way of single packets.
- `show interface` counts the dropped packets of each receiving interface as `drops`.

Each name is of one kind:

- *dropped*: the packet is lost.
- *done*: the packet did its work here, or is meant to end here. Nothing is lost.
- *counted*: an event is counted. The packet itself is counted where it ends.

`show errors` sorts by severity. An operator should act on `error`. `warn` is worth a look if it continues: another
station misbehaves, or a limit was reached. `info` is normal, even where packets are dropped. Below the names,
`show errors` lists the neighbours that packets wait for and those that did not answer.

A packet that the router answers with an ICMP error counts as dropped, too, under the name of the error.

[Troubleshooting](troubleshooting.md) goes the other way: from a symptom to the remedy.
";

fn chapter_of(capabilities: List, node: &str) -> &'static str {
    let mut all = capabilities.iter().flat_map(|capability| capability.chapters);
    all.find(|chapter| chapter.nodes.contains(&node)).map_or(ELSEWHERE, |chapter| chapter.title)
}

/// Every error of a router with these capabilities, section by section, in the order in which packets meet them.
///
/// # Errors
/// When there is no memory for the router that the errors are read from.
pub fn meanings(capabilities: List) -> Result<Vec<Meaning>, Error> {
    let options = Options { buffers: 1024, huge_pages: false, devices: Devices::DryRun, ..Options::default() };
    let mut router = Router::with(options, capabilities)?;
    // Interfaces have nodes of their own, which differ from kind to kind.
    for (number, kind) in capability::kinds(capabilities).enumerate() {
        let index = router.create(&format!("{}{number}", kind.driver), (kind.specimen)())?;
        if number == 0 {
            router.create_sub_interface(index, 1, by_number(1))?;
        }
    }
    let mut found: Vec<Meaning> = in_order(&router).into_iter().map(|error| told(&router, error)).collect();
    let chapters = chapters(capabilities);
    let rank = |meaning: &Meaning| chapters.iter().position(|chapter| chapter.title == meaning.section);
    found.sort_by_key(rank);
    let mut seen = HashSet::new();
    found.retain(|meaning| seen.insert((meaning.node.clone(), meaning.reason.clone())));
    Ok(found)
}

/// The errors in the order of their nodes on a packet's way.
fn in_order(router: &Router) -> Vec<&ErrorInfo> {
    let order = router.graph.order();
    let rank = |error: &&ErrorInfo| {
        let node = router.graph.find(&error.node).ok();
        node.and_then(|node| order.iter().position(|other| *other == node)).unwrap_or(usize::MAX)
    };
    let mut errors: Vec<&ErrorInfo> = router.graph.errors().iter().collect();
    errors.sort_by_key(rank);
    errors
}

fn told(router: &Router, error: &ErrorInfo) -> Meaning {
    let of_interfaces = router.interfaces.iter().flat_map(|it| {
        let output = if it.sub.is_some() { SUB_OUTPUT } else { OUTPUT };
        [(it.output_node, output), (it.tx_node, TX)]
    });
    let node = router.graph.find(&error.node).ok();
    let own = of_interfaces.into_iter().find(|(own, _)| Some(*own) == node);
    let node = own.map_or(error.node.as_str(), |(_, name)| name);
    Meaning {
        section: chapter_of(router.capabilities(), node),
        node: node.into(),
        reason: error.reason.clone(),
        outcome: error.outcome.to_string(),
        severity: error.severity.to_string(),
        meaning: error.meaning,
    }
}

/// The page. `note` is the remark at its top.
///
/// # Errors
/// As [`meanings`].
pub fn errors_guide(capabilities: List, note: &str) -> Result<String, Error> {
    let meanings = meanings(capabilities)?;
    let mut page = format!("# Errors and counters\n\n<!-- {note} -->\n\n{INTRODUCTION}");
    for chapter in chapters(capabilities) {
        let mut nodes = by_node(&meanings, chapter.title);
        if nodes.is_empty() {
            continue;
        }
        let _ = writeln!(page, "\n## {}\n\n{}", chapter.title, chapter.about);
        while !nodes.is_empty() {
            // Nodes with the same counters share one table.
            let rows = rows(&nodes[0].1);
            let mut alike: Vec<&str> =
                nodes.extract_if(.., |(_, other)| self::rows(other) == rows).map(|it| it.0).collect();
            alike.sort_unstable();
            let _ = writeln!(
                page,
                "\n### {}\n\n| name | kind | meaning |\n|---|---|---|\n{}",
                alike.join(", "),
                rows.trim_end()
            );
        }
    }
    Ok(page.trim_end().to_string() + "\n")
}

fn by_node<'a>(meanings: &'a [Meaning], chapter: &str) -> Vec<(&'a str, Vec<&'a Meaning>)> {
    let mut nodes: Vec<(&str, Vec<&Meaning>)> = Vec::new();
    for meaning in meanings.iter().filter(|meaning| meaning.section == chapter) {
        match nodes.iter_mut().find(|(node, _)| *node == meaning.node) {
            Some((_, of_node)) => of_node.push(meaning),
            None => nodes.push((&meaning.node, vec![meaning])),
        }
    }
    nodes
}

fn rows(meanings: &[&Meaning]) -> String {
    let row = |meaning: &&Meaning| {
        let text = meaning.meaning.replace('|', "\\|");
        format!("| `{}` | {} | {text} |\n", meaning.reason, meaning.outcome)
    };
    meanings.iter().map(row).collect()
}
