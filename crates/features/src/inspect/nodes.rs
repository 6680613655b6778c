//! `show node`: the graph's nodes and where they lead.

use command::{Args, Command, CommandError, CommandSet, Reply, reply};
use graph::NodeIndex;
use graph::registry::NodeInfo;
use router::Router;
use serde::Serialize;
use std::fmt;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "show node [<node:node>]",
            "Show all nodes, or one with its edges.",
            |router: &mut Router, args: &Args| match (args.optional_text("node"), args.optional("index")?) {
                (Some(name), _) => show_one(router, router.graph.find(name)?),
                (None, Some(number)) => show_one(router, NodeIndex(number)),
                (None, None) => {
                    let nodes = router.graph.nodes().into_iter();
                    let nodes =
                        nodes.map(|node| ListedNode { index: node.index.0, kind: node.kind, name: node.name.clone() });
                    reply(ListNodes { nodes: nodes.collect() })
                }
            },
        )
        .also("show node index <index:u32>")
        .example("show node ip4-lookup"),
    );
}

fn show_one(router: &Router, node: NodeIndex) -> Result<Box<dyn Reply>, CommandError> {
    let node = router.graph.info(node).ok_or("no such node ('show node' lists them)").map_err(CommandError::new)?;
    let edges = node.edges.iter().enumerate().map(|(number, edge)| ShownEdge {
        edge: number,
        node: edge.node.map(|node| node.0),
        to: if edge.to.is_empty() { "(removed)".into() } else { edge.to.clone() },
        is_drop: edge.is_drop && !edge.is_end,
        is_end: edge.is_end,
    });
    let leads_here = |other: &&&NodeInfo| other.edges.iter().any(|edge| edge.node == Some(node.index));
    let nodes = router.graph.nodes();
    let previous = nodes.iter().filter(leads_here).map(|other| format!("{} ({})", other.name, other.index.0));
    reply(ShowNode {
        name: node.name.clone(),
        kind: node.kind,
        index: node.index.0,
        edges: edges.collect(),
        previous: previous.collect(),
    })
}

#[derive(Serialize)]
struct ListedNode {
    index: u32,
    kind: &'static str,
    name: String,
}

#[derive(Serialize)]
struct ListNodes {
    nodes: Vec<ListedNode>,
}

impl fmt::Display for ListNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>6}  {:<10}Name", "Index", "Type")?;
        for node in &self.nodes {
            writeln!(f, "{:>6}  {:<10}{}", node.index, node.kind, node.name)?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct ShownEdge {
    edge: usize,
    node: Option<u32>,
    to: String,
    is_drop: bool,
    /// The packet has done its work.
    is_end: bool,
}

#[derive(Serialize)]
struct ShowNode {
    name: String,
    kind: &'static str,
    index: u32,
    edges: Vec<ShownEdge>,
    previous: Vec<String>,
}

impl fmt::Display for ShowNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "node {}, type {}, state active, index {}", self.name, self.kind, self.index)?;
        writeln!(f, "\n  next nodes:\n    next-index  node-index               Node")?;
        for edge in &self.edges {
            let node = edge.node.map_or("-".into(), |node| node.to_string());
            let to = match edge {
                ShownEdge { node: Some(_), to, .. } => to.clone(),
                ShownEdge { is_drop: true, to, .. } => format!("drop: {to}"),
                ShownEdge { is_end: true, to, .. } => format!("end: {to}"),
                ShownEdge { to, .. } => format!("{to} (not there)"),
            };
            writeln!(f, "{:>10}{node:>13}          {to}", edge.edge)?;
        }
        writeln!(f, "\n  known previous nodes:")?;
        for previous in &self.previous {
            writeln!(f, "    {previous}")?;
        }
        Ok(())
    }
}
