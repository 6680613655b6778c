//! `show vlib graph`: which node leads to which; as text, or as a drawing for Graphviz.
//!
//! In the drawing each interface's own two nodes are collapsed into `INTERFACE-output` and
//! `INTERFACE-tx`, for all interfaces have the same; `verbose` draws each. Where packets
//! end is a note below the node: lines to one `drop` from everywhere would hide the rest.

use command::table::{Align, Table};
use command::{Args, Command, CommandError, CommandSet, Reply, Text, reply};
use graph::NodeIndex;
use graph::registry::{EdgeInfo, NodeInfo};
use router::Router;
use router::capability::{OUTPUT, SUB_OUTPUT, TX};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

pub fn register(set: &mut CommandSet<Router>) {
    set.add(Command::new(
        "show vlib graph [<node:word>]",
        "Show the next and the previous nodes of each node.",
        |router: &mut Router, args: &Args| show(router, args.optional_text("node")),
    ));
    set.add(
        Command::new(
            "show vlib graph dot [verbose]",
            "Show the graph as text for Graphviz; `verbose`: with the nodes of each interface.",
            |router: &mut Router, args: &Args| reply(Text(Drawing::of(router, args.flag("verbose")).to_string())),
        )
        .also("show vlib graphviz"),
    );
}

fn show(router: &Router, only: Option<&str>) -> Result<Box<dyn Reply>, CommandError> {
    let only = only.map(|name| router.graph.find(name)).transpose()?;
    let all = router.graph.nodes();
    let mut previous = previous(&all);
    let nodes = all.iter().filter(|node| only.is_none_or(|only| only == node.index)).map(|node| {
        let next = node.edges.iter().enumerate().map(|(edge, info)| Next {
            edge,
            node: info.node.is_some().then(|| info.to.clone()),
            drop: info.is_drop.then(|| info.to.clone()),
        });
        let previous = previous.remove(&node.index).unwrap_or_default().into_iter().map(str::to_string);
        ShownNode { name: node.name.clone(), next: next.collect(), previous: previous.collect() }
    });
    reply(ShowGraph { nodes: nodes.collect() })
}

/// What leads to each node, by name.
fn previous<'a>(all: &[&'a NodeInfo]) -> BTreeMap<NodeIndex, BTreeSet<&'a str>> {
    let mut previous: BTreeMap<NodeIndex, BTreeSet<&str>> = BTreeMap::new();
    for node in all {
        for next in node.edges.iter().filter_map(|edge| edge.node) {
            previous.entry(next).or_default().insert(&node.name);
        }
    }
    previous
}

/// An edge: to a node, to the end of a packet, or to a node that is gone.
#[derive(Serialize)]
struct Next {
    edge: usize,
    node: Option<String>,
    drop: Option<String>,
}

impl Next {
    /// As VPP prints it; why packets are dropped is what `show node` says.
    fn shown(&self) -> Option<String> {
        let to = self.node.as_deref().or(self.drop.as_ref().map(|_| "drop"))?;
        Some(format!("{to} [{}]", self.edge))
    }
}

#[derive(Serialize)]
struct ShownNode {
    name: String,
    next: Vec<Next>,
    previous: Vec<String>,
}

#[derive(Serialize)]
struct ShowGraph {
    nodes: Vec<ShownNode>,
}

impl fmt::Display for ShowGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new("")
            .titled_column("Name", Align::Centre, Align::Left, 26)
            .column("Next", Align::Centre, 26)
            .column("Previous", Align::Centre, 26);
        for node in &self.nodes {
            let next: Vec<String> = node.next.iter().filter_map(Next::shown).collect();
            for row in 0..next.len().max(node.previous.len()).max(1) {
                let cell = |cells: &[String]| cells.get(row).map_or(String::new(), |cell| format!(" {cell} "));
                let name = if row == 0 { node.name.clone() } else { String::new() };
                table.row([name, cell(&next), cell(&node.previous)]);
            }
        }
        write!(f, "{table}")
    }
}

/// A node of the drawing.
#[derive(Default)]
struct Drawn {
    kind: &'static str,
    /// Why packets end here.
    ends: BTreeSet<String>,
    next: BTreeSet<String>,
}

/// The graph to be drawn, by names.
struct Drawing(BTreeMap<String, Drawn>);

impl Drawing {
    fn of(router: &Router, each_interface: bool) -> Drawing {
        let mut collapsed: BTreeMap<NodeIndex, &str> = BTreeMap::new();
        if !each_interface {
            for interface in router.interfaces.iter() {
                if interface.sub.is_some() {
                    collapsed.insert(interface.output_node, SUB_OUTPUT);
                    continue;
                }
                collapsed.insert(interface.output_node, OUTPUT);
                collapsed.insert(interface.tx_node, TX);
            }
        }
        let name = |index: NodeIndex, name: &str| collapsed.get(&index).copied().unwrap_or(name).to_string();
        let mut nodes: BTreeMap<String, Drawn> = BTreeMap::new();
        for node in router.graph.nodes() {
            let drawn = nodes.entry(name(node.index, &node.name)).or_default();
            drawn.kind = if name(node.index, &node.name).ends_with("-tx") { "output" } else { node.kind };
            for edge in &node.edges {
                match edge {
                    EdgeInfo { node: Some(next), to, .. } => drop(drawn.next.insert(name(*next, to))),
                    EdgeInfo { is_drop: true, to, .. } => drop(drawn.ends.insert(to.clone())),
                    _ => {}
                }
            }
        }
        Drawing(nodes)
    }
}

/// Text as Graphviz takes it inside `<...>`.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

impl fmt::Display for Drawing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("digraph quiver {\n  rankdir=LR;\n  ranksep=0.6;\n")?;
        f.write_str(
            "  node [shape=box, style=\"rounded,filled\", fillcolor=\"#ffffff\", fontname=\"sans-serif\", \
         fontsize=12];\n",
        )?;
        f.write_str("  edge [color=\"#404040\", arrowsize=0.7];\n")?;
        for (name, node) in &self.0 {
            let mut label = format!("<b>{}</b>", escaped(name));
            for end in &node.ends {
                write!(label, "<br align=\"left\"/><font point-size=\"9\" color=\"#808080\">{}</font>", escaped(end))?;
            }
            if !node.ends.is_empty() {
                label.push_str("<br align=\"left\"/>");
            }
            let fill = match node.kind {
                "input" => ", fillcolor=\"#d5ead6\"",
                "output" => ", fillcolor=\"#d6e2f3\"",
                "expand" => ", fillcolor=\"#f6ecd2\"",
                _ => "",
            };
            writeln!(f, "  \"{name}\" [label=<{label}>{fill}];")?;
        }
        for (name, node) in &self.0 {
            for next in &node.next {
                writeln!(f, "  \"{name}\" -> \"{next}\";")?;
            }
        }
        f.write_str("}\n")
    }
}
