//! What each error means, as a page for operators: `docs/guide/errors.md`.
//!
//! The page consists of the nodes' own comments (`graph::edges!`, `CounterSpec`), by capability and in the order in
//! which packets meet the nodes.

use crate::capability::{OUTPUT, SUB_OUTPUT, TX};
use crate::interface::{InterfaceConfig, LoopbackOptions};
use crate::vlan::control::by_number;
use crate::{CAPABILITIES, Devices, Error, Options, Router};
use drivers::input::DeviceInput;
use graph::Behaviour;
use graph::registry::ErrorInfo;
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

/// A chapter of the page.
struct Section {
    title: &'static str,
    about: &'static str,
    /// The capabilities and the nodes, by name, whose errors this section lists.
    of: &'static [&'static str],
}

/// In the order in which packets meet the nodes. Nodes without a section are in the last one.
const SECTIONS: &[Section] = &[
    Section {
        title: "Devices, receiving",
        about: "Frames that a driver could not receive from its device, or the packet generator from its streams.",
        of: &[VIRTIO_INPUT, AF_PACKET_INPUT, AF_XDP_INPUT, MEMIF_INPUT, "pg-input", "packet-generator"],
    },
    Section { title: "Ethernet", about: "Frames as they come from a device.", of: &["ethernet"] },
    Section {
        title: "ARP",
        about: "Questions and answers about neighbours (RFC 826), and packets that wait for an answer.",
        of: &["arp"],
    },
    Section {
        title: "IPv4",
        about: "Packets are examined (RFC 1812 5.2), looked up and sent on, or delivered to this router.",
        of: &["ip4", "ip4-input-no-checksum", "ip4-local-full-reassembly", "ip4-punt-redirect"],
    },
    Section {
        title: "ICMP",
        about: "ICMP messages to this router (RFC 792), and the errors that it sends.",
        of: &["icmp", "ip4-ping"],
    },
    Section {
        title: "Neighbor Discovery",
        about: "IPv6 neighbours (RFC 4861), and packets that wait for an answer.",
        of: &["nd"],
    },
    Section {
        title: "Multicast listeners",
        about: "Listeners to IPv6 multicast groups (MLD, RFC 3810).",
        of: &["mld"],
    },
    Section {
        title: "IPv6",
        about: "Packets are examined (RFC 8200), looked up and sent on, or delivered to this router.",
        of: &["ip6", "ip6-local-full-reassembly", "ip6-udp-lookup", "tcp6-reset", "ip6-punt-redirect"],
    },
    Section {
        title: "ICMPv6",
        about: "ICMPv6 messages to this router (RFC 4443), and the errors that it sends.",
        of: &["icmp6", "ip6-ping"],
    },
    Section {
        title: "MPLS",
        about: "Labels are swapped, pushed and popped (RFC 3031, RFC 3032), and the packet behind the last label is \
         checked.",
        of: &["mpls"],
    },
    Section {
        title: "Tunnels",
        about: "Packets get a header in front and are sent on by it, or go to the node of another capability.",
        of: &["midchain", "object"],
    },
    Section { title: "UDP and TCP", about: "Datagrams and segments to this router itself.", of: &["local", "dhcp"] },
    Section { title: "Mirroring", about: "Copies of packets to a mirror port (SPAN).", of: &["span"] },
    Section {
        title: "Interfaces, sending",
        about: "The last nodes of a packet. `INTERFACE` stands for the name: each interface has these nodes.",
        of: &["interface", "vlan", "control-input"],
    },
    Section { title: "Elsewhere", about: "Nodes of no single capability.", of: &[] },
];

const VIRTIO_INPUT: &str = "virtio-input";
const AF_PACKET_INPUT: &str = "af-packet-input";
const MEMIF_INPUT: &str = "memif-input";
const AF_XDP_INPUT: &str = "af_xdp-input";

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

fn section_of(node: &str) -> &'static Section {
    let capability = CAPABILITIES.iter().find(|capability| capability.nodes.contains(&node));
    let names = [Some(node), capability.map(|capability| capability.name)];
    let is_here = |section: &&Section| names.iter().flatten().any(|name| section.of.contains(name));
    SECTIONS.iter().find(is_here).unwrap_or(&SECTIONS[SECTIONS.len() - 1])
}

/// Every error of the program, section by section, in the order in which packets meet them.
///
/// # Errors
/// When there is no memory for the router that the errors are read from.
pub fn meanings() -> Result<Vec<Meaning>, Error> {
    let options = Options { buffers: 1024, huge_pages: false, devices: Devices::DryRun, ..Options::default() };
    let mut router = Router::new(options)?;
    // Interfaces have nodes of their own, and those of loopbacks differ. Stand-in devices have no input nodes, so those
    // are added below.
    let device = router.create("null0", InterfaceConfig::Null)?;
    router.create_sub_interface(device, 1, by_number(1))?;
    router.create("loop0", InterfaceConfig::Loopback(LoopbackOptions { instance: 0, mac: None }))?;
    for node in [VIRTIO_INPUT, AF_PACKET_INPUT, AF_XDP_INPUT, MEMIF_INPUT] {
        let (arc, rx) = (router.graph.arc(drivers::input::ARC)?, router.counters.rx.clone());
        router.graph.register(DeviceInput::spec(node), move |_| {
            Behaviour::Source(Box::new(DeviceInput::new(arc, rx.clone())))
        })?;
    }
    let mut found: Vec<Meaning> = in_order(&router).into_iter().map(|error| told(&router, error)).collect();
    let rank = |meaning: &Meaning| SECTIONS.iter().position(|section| section.title == meaning.section);
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
        section: section_of(node).title,
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
pub fn errors_guide(note: &str) -> Result<String, Error> {
    let meanings = meanings()?;
    let mut page = format!("# Errors and counters\n\n<!-- {note} -->\n\n{INTRODUCTION}");
    for section in SECTIONS {
        let mut nodes = by_node(&meanings, section);
        if nodes.is_empty() {
            continue;
        }
        let _ = writeln!(page, "\n## {}\n\n{}", section.title, section.about);
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

fn by_node<'a>(meanings: &'a [Meaning], section: &Section) -> Vec<(&'a str, Vec<&'a Meaning>)> {
    let mut nodes: Vec<(&str, Vec<&Meaning>)> = Vec::new();
    for meaning in meanings.iter().filter(|meaning| meaning.section == section.title) {
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
