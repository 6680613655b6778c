//! What operators see of the machine: real packets, then what `show` says of them.

use crate::bed::{Bed, Port};
use crate::packet::Packet;
use drivers::Finishes;
use serde_json::{Value, json};
use std::path::Path;

/// Sends so many packets from `e0` towards a host behind `e1`, in one vector.
fn forward(bed: &mut Bed, e0: &Port, count: usize) {
    for _ in 0..count {
        e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.2", b"data"));
    }
    bed.run();
}

/// The entry of a list of objects that has this `name`.
fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list.as_array().expect("a list").iter().find(|entry| entry["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {list}"))
}

#[test]
fn runtime_max_names_the_costliest_call_and_forgets_it_when_cleared() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.command("clear runtime").unwrap();
    bed.run();
    forward(&mut bed, &e0, 200);
    let runtime = bed.json("show runtime max");
    let lookup = named(&runtime["threads"][0]["nodes"], "ip4-lookup");
    assert_eq!(
        (&lookup["calls"], &lookup["vectors"], &lookup["vectors_at_max"]),
        (&json!(1), &json!(200), &json!(200))
    );
    let clocks = lookup["max_node_clocks"].as_f64().unwrap();
    assert!(clocks > 0.0);
    // One call: the largest is the average.
    assert_eq!(
        (lookup["max_clocks"].as_f64(), lookup["clocks"].as_f64()),
        (Some(clocks / 200.0), Some(clocks / 200.0))
    );
    let text = bed.command("show runtime max").unwrap();
    let title = "             Name              Max Node Clocks  Vectors at Max    Max Clocks      Avg Clocks   Avg Vectors/Call";
    assert_eq!(text.lines().nth(3), Some(title));
    let row = text.lines().find(|line| line.starts_with("ip4-lookup ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((cells.len(), cells[2], cells[5]), (6, "200", "2.00e2"), "{row}");
    bed.command("clear runtime").unwrap();
    assert!(bed.json("show runtime max")["threads"][0]["nodes"].as_array().unwrap().is_empty());
    forward(&mut bed, &e0, 3);
    let runtime = bed.json("show runtime max");
    assert_eq!(named(&runtime["threads"][0]["nodes"], "ip4-lookup")["vectors_at_max"], 3);
}

#[test]
fn runtime_shows_time_one_node_idle_nodes_or_the_summary_alone() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    forward(&mut bed, &e0, 10);
    let names = |text: &str| -> Vec<String> {
        let rows = text.lines().skip(4).map(|line| line.split(' ').next().unwrap().to_string());
        rows.collect()
    };
    let summary = bed.command("show runtime summary").unwrap();
    assert_eq!(summary.lines().count(), 3, "{summary}");
    let plain = bed.command("show runtime").unwrap();
    assert!(names(&plain).contains(&"ip4-rewrite".into()) && !names(&plain).contains(&"ip4-icmp-error".into()));
    let row = plain.lines().find(|line| line.starts_with("ip4-lookup ")).unwrap();
    assert!(row.starts_with("ip4-lookup                       active                  1              10"), "{row}");
    let idle_too = bed.command("show runtime verbose").unwrap();
    assert_eq!(names(&idle_too).len(), bed.router.graph.nodes().len());
    assert_eq!(names(&bed.command("show runtime ip4-icmp-error").unwrap()), ["ip4-icmp-error"]);
    assert!(bed.command("show runtime no-such").unwrap_err().contains("no node named `no-such'"));
    let time = bed.command("show runtime time ip4-lookup").unwrap();
    let (title, row) = (time.lines().nth(3).unwrap(), time.lines().nth(4).unwrap());
    assert!(title.ends_with("    Suspends       Packet-Time    Vectors/Call  "), "{title:?}");
    let lookup = &bed.json("show runtime time ip4-lookup")["threads"][0]["nodes"][0];
    let (clocks, nanoseconds) = (lookup["clocks"].as_f64().unwrap(), lookup["nanoseconds"].as_f64().unwrap());
    assert!((clocks / nanoseconds * 1e9 / graph::time::ticks_per_second() - 1.0).abs() < 1e-9);
    assert!(row.contains(&format!("{nanoseconds:.2e}")), "{row} {nanoseconds}");
}

#[test]
fn runtime_counts_what_goes_to_the_hosts_control_plane() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.command("ip route add 10.0.1.2/32 via punt").unwrap();
    forward(&mut bed, &e0, 9);
    let punts = |bed: &mut Bed| bed.json("show runtime")["threads"][0]["rate_punt"].as_f64().unwrap();
    assert!(punts(&mut bed) > 0.0);
    bed.command("clear runtime").unwrap();
    assert_eq!(punts(&mut bed), 0.0);
}

#[test]
fn vlib_graph_lists_what_follows_and_what_comes_before_each_node() {
    let (mut bed, _) = Bed::with_three_ports();
    let text = bed.command("show vlib graph ip4-rewrite").unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("           Name                      Next                    Previous"));
    assert!(lines.next().unwrap().starts_with("ip4-rewrite               "), "{text}");
    assert!(text.contains(" e0-output [") && text.contains(" drop ["), "{text}");
    let shown = bed.json("show vlib graph ip4-rewrite");
    let previous = shown["nodes"][0]["previous"].as_array().unwrap();
    assert!(previous.contains(&json!("ip4-lookup")) && previous.contains(&json!("ip4-load-balance")), "{previous:?}");
    let lookup = bed.router.graph.find("ip4-lookup").unwrap();
    let edges = bed.router.graph.info(lookup).unwrap().edges.len();
    assert_eq!(bed.json("show vlib graph ip4-lookup")["nodes"][0]["next"].as_array().unwrap().len(), edges);
    assert_eq!(bed.json("show vlib graph")["nodes"].as_array().unwrap().len(), bed.router.graph.nodes().len());
    bed.command("delete interface e2").unwrap();
    assert!(!bed.command("show vlib graph").unwrap().contains("e2-"));
}

/// A router that has every input node, none of whose devices needs the host.
fn drawn() -> Bed {
    let mut bed = Bed::new();
    bed.port_by("virtio-input", "tap0", Finishes::default());
    bed.port_by("af-packet-input", "host-eth0", Finishes::default());
    bed.command("create packet-generator interface pg0").unwrap();
    bed.command("create null interface").unwrap();
    bed
}

/// `make graph` draws anew; without it the drawing in docs must be that of the program.
#[test]
fn the_drawing_in_docs_is_what_the_command_prints() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let dot = drawn().command("show vlib graph dot").unwrap();
    if std::env::var_os("QUIVER_DRAW").is_some() {
        std::fs::write(docs.join("graph.dot"), &dot).unwrap();
        return;
    }
    assert_eq!(std::fs::read_to_string(docs.join("graph.dot")).unwrap(), dot, "run `make graph'");
    let svg = std::fs::read_to_string(docs.join("graph.svg")).unwrap();
    let (drawn_nodes, drawn_edges) = (svg.matches("class=\"node\"").count(), svg.matches("class=\"edge\"").count());
    assert_eq!(drawn_nodes, dot.matches(" [label=").count());
    assert_eq!(drawn_edges, dot.matches(" -> ").count());
}

#[test]
fn a_drawing_collapses_interfaces_unless_told_otherwise() {
    let mut bed = drawn();
    let dot = bed.command("show vlib graph dot").unwrap();
    assert!(dot.contains("  \"INTERFACE-output\" -> \"INTERFACE-tx\";\n") && !dot.contains("pg0-"), "{dot}");
    assert!(dot.contains("  \"virtio-input\" -> \"ethernet-input\";\n"));
    let each = bed.command("show vlib graph dot verbose").unwrap();
    assert!(each.contains("  \"pg0-output\" -> \"pg0-tx\";\n") && !each.contains("INTERFACE"), "{each}");
    assert!(each.contains("ip4 length &lt; 20") && !each.contains("length < 20"), "{each}");
}
