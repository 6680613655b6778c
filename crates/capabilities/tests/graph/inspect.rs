//! What operators see of the router: real packets, then what `show` reports about them.

use crate::bed::{Bed, Port};
use crate::commands::{Running, set_up, wait_for_stream};
use crate::packet::Packet;
use crate::packet6::Packet6;
use drivers::{Device, Link, Receive, ReceiveCounts, Speed, Transmit, TxOffloads};
use graph::{Behaviour, Buffers, Context, EdgeSpec, NodeSpec, Severity, Source, Vector, Wake, edge};
use serde_json::{Value, json};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use wire::MacAddress;

/// Sends this many packets from `e0` towards a host behind `e1`, in one vector.
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
    // With one call, the largest value equals the average.
    assert_eq!(
        (lookup["max_clocks"].as_f64(), lookup["clocks"].as_f64()),
        (Some(clocks / 200.0), Some(clocks / 200.0))
    );
    let text = bed.command("show runtime max").unwrap();
    let title = "             Name              Max Node Clocks  Vectors at Max    Max Clocks      Avg Clocks   Avg \
     Vectors/Call";
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
    assert!(bed.command("show runtime no-such").unwrap_err().contains("no node named 'no-such'"));
    let time = bed.command("show runtime time ip4-lookup").unwrap();
    let (title, row) = (time.lines().nth(3).unwrap(), time.lines().nth(4).unwrap());
    assert!(title.ends_with("    Suspends       Packet-Time    Vectors/Call  "), "{title:?}");
    let lookup = &bed.json("show runtime time ip4-lookup")["threads"][0]["nodes"][0];
    let (clocks, nanoseconds) = (lookup["clocks"].as_f64().unwrap(), lookup["nanoseconds"].as_f64().unwrap());
    assert!((clocks / nanoseconds * 1e9 / graph::time::ticks_per_second() - 1.0).abs() < 1e-9);
    assert!(row.contains(&format!("{nanoseconds:.2e}")), "{row} {nanoseconds}");
}

#[test]
fn runtime_keeps_its_columns_straight_beside_long_names() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.command("create null interface name customer-a-with-a-long-name").unwrap();
    forward(&mut bed, &e0, 10);
    for view in ["", "max", "time", "total"] {
        let text = bed.command(&format!("show runtime {view} verbose")).unwrap();
        let rows: Vec<&str> = text.lines().skip(3).collect();
        assert!(rows.iter().any(|row| row.starts_with("customer-a-with-a-long-name-output ")), "{text}");
        let widths: Vec<usize> = rows.iter().map(|row| row.len()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{view}: {text}");
    }
}

#[test]
fn runtime_shows_polls_of_the_generator_only_when_it_has_streams() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    forward(&mut bed, &e0, 10);
    let shown = |bed: &mut Bed, command: &str| bed.command(command).unwrap().contains("\npg-input ");
    assert!(!shown(&mut bed, "show runtime") && shown(&mut bed, "show runtime verbose"));
    bed.command(
        "packet-generator new { name s0 limit 1 interface e0 node ip4-input data { UDP: 1.2.3.4 -> 10.0.0.1 \
     UDP: 1 -> 2 } }",
    )
    .unwrap();
    bed.run();
    assert!(shown(&mut bed, "show runtime"));
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
    let columns: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(columns, ["Name", "Next", "Previous"]);
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

/// A router that has every input node, without devices of the host.
fn drawn() -> Bed {
    let mut bed = Bed::new();
    bed.port_by("virtio-input", "tap0", TxOffloads::default());
    bed.port_by("af-packet-input", "host-eth0", TxOffloads::default());
    bed.command("create packet-generator interface pg0").unwrap();
    bed.command("create null interface").unwrap();
    bed.command("create sub-interfaces tap0 100").unwrap();
    bed
}

/// `make graph` updates the drawing in docs. This test fails when the drawing is out of date.
#[test]
fn the_drawing_in_docs_is_what_the_command_prints() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let dot = drawn().command("show vlib graph dot").unwrap();
    if std::env::var_os("QUIVER_DRAW").is_some() {
        std::fs::write(docs.join("graph.dot"), &dot).unwrap();
        return;
    }
    let drawn = std::fs::read_to_string(docs.join("graph.dot")).unwrap();
    let differs = drawn.lines().zip(dot.lines()).find(|(drawn, line)| drawn != line);
    assert_eq!((differs, drawn.len()), (None, dot.len()), "run 'make graph', which needs Graphviz");
    let svg = std::fs::read_to_string(docs.join("graph.svg")).unwrap();
    // Graphviz titles nodes and edges by name, with dashes and arrows escaped.
    let titles = dot.lines().filter(|line| line.starts_with("  \"")).map(|line| {
        let name = line.split(" [").next().unwrap().trim().replace(" -> ", "->").replace(['"', ';'], "");
        format!("<title>{}</title>", name.replace('-', "&#45;").replace('>', "&gt;"))
    });
    let mut drawn = 0;
    for title in titles {
        assert!(svg.contains(&title), "{title}: run 'make graph'");
        drawn += 1;
    }
    // One more title: the picture's own.
    assert_eq!(svg.matches("<title>").count(), drawn + 1);
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

#[test]
fn feature_arcs_are_shown_with_their_features_in_order() {
    let (mut bed, _) = Bed::with_three_ports();
    let text = bed.command("show features").unwrap();
    assert!(
        text.starts_with(
            "Available feature paths\ndevice-input:\n  span-input\n  worker-handoff\n  linux-cp-xc\n  ethernet-input\n"
        ),
        "{text}"
    );
    for part in [
        "interface-output:\n  span-output\n  interface-output-arc-end\n",
        "ip4-unicast:\n  ip4-rx-urpf\n  ip4-lookup\n",
        "ip4-multicast:\n  ip4-rx-urpf\n  ip4-local\n",
        "ip6-unicast:\n  ip6-rx-urpf\n  ip6-lookup\n",
        "ip6-multicast:\n  ip6-rx-urpf\n  ip6-local\n",
    ] {
        assert!(text.contains(part), "{part}{text}");
    }
    let verbose = bed.command("show features verbose").unwrap();
    assert!(verbose.contains("ip4-unicast:\n  ip4-rx-urpf (ip4)\n  ip4-lookup (end)\n"), "{verbose}");
    // Each is a node that leads to the next one, as the graph's order must have it; each arc is shown once.
    let shown = bed.json("show features");
    let graph = &bed.router.graph;
    for arc in shown["arcs"].as_array().unwrap() {
        let features = arc["features"].as_array().unwrap().iter().map(|feature| feature["node"].as_str().unwrap());
        let nodes: Vec<&str> = features.chain([arc["end"].as_str().unwrap()]).collect();
        for pair in nodes.windows(2) {
            let info = graph.info(graph.find(pair[0]).unwrap()).unwrap();
            assert!(info.edges.iter().any(|edge| edge.to == pair[1]), "{} does not lead to {}", pair[0], pair[1]);
        }
    }
}

#[test]
fn the_features_of_an_interface_are_those_of_its_chains() {
    let (mut bed, _) = Bed::with_three_ports();
    let features = |bed: &mut Bed, line: &str, arc: &str| -> Vec<String> {
        let shown = bed.json(line);
        let arcs = shown["interfaces"][0]["arcs"].as_array().unwrap().clone();
        let arc = arcs.iter().find(|other| other["arc"] == arc).unwrap();
        let text = |feature: &Value, key: &str| feature[key].as_str().unwrap().to_string();
        let features = arc["features"].as_array().unwrap().iter();
        features.map(|feature| (text(feature, "node") + " " + &text(feature, "does")).trim().to_string()).collect()
    };
    let e0 = "show interface features e0";
    let text = bed.command(e0).unwrap();
    assert!(text.starts_with("Feature paths configured on e0...\n\ndevice-input:\n  none configured\n"), "{text}");
    for line in [
        "set interface handoff e0 workers 0 symmetrical",
        "set interface span e0 destination e1 both",
        "set urpf ip4 rx strict e0",
    ] {
        bed.command(line).unwrap();
    }
    let input = ["span-input", "worker-handoff workers 0 symmetrical"];
    assert_eq!(features(&mut bed, e0, "device-input"), input);
    assert_eq!(features(&mut bed, "show interface e0 features", "interface-output"), ["span-output"]);
    assert_eq!(features(&mut bed, e0, "ip4-unicast"), ["ip4-rx-urpf strict"]);
    assert!(features(&mut bed, "show interface features e1", "device-input").is_empty());
    let text = bed.command(e0).unwrap();
    assert!(text.contains("device-input:\n  span-input\n  worker-handoff (workers 0 symmetrical)\n"), "{text}");
    bed.command("set interface span e0 disable").unwrap();
    bed.command("set interface handoff e0 disable").unwrap();
    bed.command("set urpf ip4 rx off e0").unwrap();
    for arc in ["device-input", "interface-output", "ip4-unicast"] {
        assert!(features(&mut bed, e0, arc).is_empty(), "{arc}");
    }
    assert!(bed.command("show interface features nope").unwrap_err().contains("no interface named 'nope'"));
}

/// A device with a descriptor that wakes its worker, or without one.
struct Idle(Option<UnixStream>);

impl Receive for Idle {
    fn receive(&mut self, _: &mut Buffers, _: &mut Vector, _: &mut ReceiveCounts) {}
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|stream| stream.as_fd())
    }
}

impl Transmit for Idle {
    fn transmit(&mut self, _: &mut Buffers, vector: &mut Vector) {
        vector.set_edges(edge::SENT);
    }
}

impl Link for Idle {
    fn is_up(&self) -> bool {
        false
    }
    fn speed(&self) -> Option<Speed> {
        Some(Speed { megabits: 25_000, full_duplex: Some(true) })
    }
}

fn idle_device(node: &'static str, stream: Option<UnixStream>) -> Device {
    Device {
        driver: "test",
        carries: drivers::Carries::LINK,
        input_node: node,
        description: "idle".into(),
        host: Some("eth7".into()),
        mac: MacAddress([2, 0, 0, 0, 0, 7]),
        mtu: 1500,
        finishes: TxOffloads { checksum: true, segmentation: false },
        receive: vec![Box::new(Idle(stream))],
        transmit: Box::new(Idle(None)),
        link: Box::new(Idle(None)),
    }
}

#[test]
fn rx_placement_names_worker_node_queue_and_mode() {
    let mut bed = Bed::new();
    let (stream, _peer) = UnixStream::pair().unwrap();
    bed.router.create_interface("x1", idle_device("x-input", None)).unwrap();
    bed.router.create_interface("x0", idle_device("x-input", Some(stream))).unwrap();
    bed.router.create_interface("a0", idle_device("a-input", None)).unwrap();
    bed.command("create null interface name n0").unwrap();
    let expected = "Thread 1 (quiver_wk_0):\n  node a-input:\n    a0 queue 0 (polling)\n  node x-input:\n    \
                    x0 queue 0 (adaptive)\n    x1 queue 0 (polling)\n";
    assert_eq!(bed.command("show interface rx-placement").unwrap(), expected);
    assert_eq!(bed.command("sh int rx-placement n0").unwrap(), "");
    let one = bed.json("show interface rx-placement x1");
    assert_eq!((one["queues"].as_array().unwrap().len(), &one["queues"][0]["mode"]), (1, &json!("polling")));
}

#[test]
fn hardware_interfaces_tell_link_queues_offloads_and_what_was_counted() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.router.create_interface("x0", idle_device("x-input", None)).unwrap();
    let text = bed.command("show hardware-interfaces x0").unwrap();
    let expected = [
        "              Name                Idx   Link  Hardware",
        "x0                                 4    down  eth7",
        "  Link speed: 25 Gbps",
        "  Duplex: full",
        "  RX Queues:",
        "    queue thread           mode      ",
        "    0     quiver_wk_0 (1)  polling   ",
        "  TX Queues:",
        "    queue shared thread(s)      ",
        "    0     no     1",
        "  Ethernet address 02:00:00:00:00:07",
        "  test: idle",
        "  MTU 1500, tx offloads: checksum",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    assert!(bed.command("show hardware-interfaces e0").unwrap().contains("  Link speed: unknown\n"));
    assert_eq!(bed.command("show hardware-interfaces brief").unwrap().lines().count(), 1 + 4);
    e1.refuse_next(drivers::FULL);
    forward(&mut bed, &e0, 1);
    let verbose = bed.command("show hardware-interfaces verbose e1").unwrap();
    assert!(verbose.contains("    e1-tx: device has no room"), "{verbose}");
    assert!(!verbose.contains("refused") && !bed.command("show hardware-interfaces e1").unwrap().contains("no room"));
    let detail = bed.command("show hardware-interfaces e1 detail").unwrap();
    assert!(detail.contains("    e1-tx: device refused the packet"), "{detail}");
    let counters = &bed.json("show hardware-interfaces e1")["interfaces"][0]["counters"];
    let full = counters.as_array().unwrap().iter().find(|counted| counted["reason"] == "device has no room").unwrap();
    assert_eq!(full["count"], 1);
}

#[test]
fn errors_are_shown_by_worker_and_clear_takes_one_interface() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.command("ip route add 16.0.0.0/8 via drop").unwrap();
    e0.receive_packet(&Packet::udp("10.0.0.2", "16.0.0.1", b"x"));
    e1.receive_packet(&Packet::udp("10.0.1.2", "16.0.0.1", b"x"));
    bed.run();
    let text = bed.command("show errors verbose").unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let title = "   Count                  Node                              Reason               Severity  Index";
    assert_eq!(lines[0].trim_end(), title);
    assert_eq!((lines[1], lines[3]), ("Thread 1 (quiver_wk_0):", "Total:"), "{text}");
    assert!(lines[2].starts_with("         2") && lines[2].contains("blackholed packets") && lines[2] == lines[4]);
    assert_eq!(bed.command("show node counters").unwrap(), bed.command("show errors").unwrap());
    let drops = |bed: &mut Bed, name: &str| {
        bed.json(&format!("show interface {name}"))["interfaces"][0]["counters"]["drops"].clone()
    };
    assert_eq!((drops(&mut bed, "e0"), drops(&mut bed, "e1")), (json!(1), json!(1)));
    bed.command("clear interfaces e0").unwrap();
    assert_eq!((drops(&mut bed, "e0"), drops(&mut bed, "e1")), (json!(0), json!(1)));
    bed.command("clear interfaces").unwrap();
    assert_eq!(drops(&mut bed, "e1"), json!(0));
}

/// An IPv4 router receives IPv6 frames of hosts on every link, which needs no action.
#[test]
fn errors_to_act_on_are_listed_first() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let host = MacAddress([2, 0, 0, 0, 0, 9]);
    let plain = Packet::udp("10.0.0.2", "10.0.1.2", b"x");
    let mut broken = plain.frame(e0.mac, host);
    broken[14] = 0x55;
    e0.receive(broken);
    e0.receive(plain.frame(MacAddress([2, 0, 0, 0, 0, 8]), host));
    e0.receive(Packet6::udp("2001:db8::2", "2001:db8::1", b"x").frame(e0.mac, host));
    bed.run();
    let shown = bed.json("show errors");
    let text = |error: &Value, of: &str| error[of].as_str().unwrap().to_string();
    let listed = shown["errors"].as_array().unwrap().iter();
    let listed: Vec<(String, String)> = listed.map(|error| (text(error, "reason"), text(error, "severity"))).collect();
    let expected = [("ip4 version != 4", "warn"), ("l3 mac mismatch", "info"), ("ip6 not enabled", "info")];
    assert_eq!(listed, expected.map(|(reason, severity)| (reason.to_string(), severity.to_string())));
}

#[test]
fn a_trace_says_which_stream_a_packet_came_from() {
    let mut running = Running::new();
    set_up(&mut running);
    let other = "packet-generator new { name other limit 1 interface pg0 data { IP4: 02:00:00:00:00:aa -> \
                 02:fe:00:00:00:00 UDP: 10.0.0.9 -> 10.0.1.2 UDP: 1 -> 2 incrementing 40 } }";
    running.must(other);
    running.must("trace add pg-input 1");
    running.must("packet-generator enable-stream other");
    wait_for_stream(&mut running, 1);
    let stream = |running: &mut Running| {
        let text = running.must("show trace");
        text.lines().find(|line| line.starts_with("  stream ")).map(str::to_string)
    };
    assert_eq!(stream(&mut running).as_deref(), Some("  stream other, 82 bytes, sw_if_index 1"));
    running.must("packet-generator delete other");
    running.must(other);
    assert_eq!(stream(&mut running).as_deref(), Some("  stream (removed), 82 bytes, sw_if_index 1"));
    running.stop();
}

/// Receives nothing. It blocks its round until the test ends it.
struct Stuck(Receiver<()>);

impl Source for Stuck {
    fn poll(&mut self, _: &mut Context<'_>, _: &mut Vector) {
        let _ = self.0.recv();
    }
    fn wake(&self) -> Wake<'_> {
        Wake::Never
    }
}

fn until(running: &mut Running, line: &str, wanted: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let text = running.must(line);
        if text.contains(wanted) {
            return text;
        }
        assert!(Instant::now() < deadline, "'{line}' never says '{wanted}':\n{text}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn threads_are_shown_with_their_numbers_and_a_stuck_worker_is_named() {
    let mut running = Running::new();
    let shown = until(&mut running, "show threads", "asleep");
    let title = "ID     Name                Type        LWP     Sched Policy (Priority)  lcore  Core   Socket State";
    assert_eq!(shown.lines().next(), Some(title));
    let threads = running.execute("show threads").unwrap().json()["threads"].clone();
    let worker = named(&threads, "quiver_wk_0");
    // The thread's own view: `PID/task/LWP`.
    let own = running.router.graph.ask(0, |_| std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
    assert_eq!(own.file_name().unwrap().to_str().unwrap(), worker["lwp"].to_string());
    assert_ne!(worker["lwp"], threads[0]["lwp"]);
    assert_eq!((&worker["id"], &worker["type"], &worker["policy"]), (&json!(1), &json!("workers"), &json!("other")));
    assert!(
        shown.contains(&format!("workers     {:<8}other (0)                ", worker["lwp"].to_string())),
        "{shown}"
    );

    let (go, wait) = channel();
    let wait = std::cell::RefCell::new(Some(wait));
    let spec = NodeSpec {
        name: "stuck".into(),
        edges: &[EdgeSpec::Drop("none", Severity::Error, "")],
        counters: &[],
        trace: |_, _| Ok(()),
    };
    let make = |_| Behaviour::Source(Box::new(Stuck(wait.borrow_mut().take().unwrap())));
    running.router.graph.register(spec, make).unwrap();
    let shown = until(&mut running, "show threads", "stalled for ");
    assert!(shown.ends_with(" retired objects wait for quiver_wk_0\n"), "{shown}");
    drop(go);
    until(&mut running, "show threads", "asleep");
    running.stop();
}

#[test]
fn files_are_named_with_the_worker_that_waits_on_them() {
    let mut running = Running::new();
    let (stream, _peer) = UnixStream::pair().unwrap();
    let number = stream.as_raw_fd();
    running.router.create_interface("x0", idle_device("x-input", Some(stream))).unwrap();
    let shown = running.execute("show unix files").unwrap().json();
    let files = shown["files"].as_array().unwrap();
    let of = |fd: i32| files.iter().find(|file| file["fd"] == fd).unwrap();
    assert_eq!((&of(number)["thread"], &of(number)["description"]), (&json!(1), &json!("x0 queue 0 (x-input)")));
    let bell = of(running.router.graph.bell(0));
    assert_eq!(
        (&bell["file"], &bell["description"]),
        (&json!("anon_inode:[eventfd]"), &json!("control wakes quiver_wk_0"))
    );
    let text = running.must("show unix files");
    let head: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["FD", "Thread", "File", "Name", "Description"], "{text}");
    running.stop();
}

#[test]
fn memory_is_that_of_the_process_and_of_its_tables() {
    let mut bed = Bed::new();
    let shown = bed.json("show memory verbose");
    assert!(shown["process"]["resident"].as_u64().unwrap() > 1 << 20);
    assert!(shown["process"]["peak"].as_u64().unwrap() >= shown["process"]["anonymous"].as_u64().unwrap());
    let mapped = shown["mappings"].as_array().unwrap();
    assert!(mapped.iter().any(|mapped| mapped["name"] == "/memfd:quiver-buffers (deleted)"), "{mapped:?}");
    let entries =
        |bed: &mut Bed, name: &str| named(&bed.json("show memory")["tables"], name)["entries"].as_u64().unwrap();
    let (routes, nodes) = (entries(&mut bed, "ip4 fib"), entries(&mut bed, "graph nodes"));
    bed.port("e0", &["10.0.0.1/24"]);
    bed.command("ip route add 16.0.0.0/8 via 10.0.0.2").unwrap();
    // An address adds its network, itself, and the network's first and last address.
    assert_eq!(entries(&mut bed, "ip4 fib"), routes + 5);
    assert_eq!(entries(&mut bed, "graph nodes"), nodes + 3);
    assert!(bed.command("show memory").unwrap().starts_with("process: resident "));
}

#[test]
fn clock_and_uptime_count_from_the_start() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let before = bed.json("show clock");
    forward(&mut bed, &e0, 1);
    let after = bed.json("show clock");
    let (began, then) = (after["workers"][0]["last_round"].as_f64().unwrap(), before["now"].as_f64().unwrap());
    assert!(began > then && began < after["now"].as_f64().unwrap(), "{before} {after}");
    assert!(bed.command("show clock").unwrap().contains("\n1: Time of last round "));
    let up = bed.json("show uptime")["seconds"].as_f64().unwrap();
    assert!(up > 0.0 && up <= bed.router.started.elapsed().as_secs_f64());
    assert!(bed.command("show uptime").unwrap().starts_with("up 0 days, 00:0"));
}

#[test]
fn version_cpu_and_plugins_say_what_runs_here() {
    let mut bed = Bed::new();
    let version = bed.command("show version verbose").unwrap();
    let program = std::env::args().next().unwrap();
    assert!(version.contains(&format!("Command line:             {program}")), "{version}");
    assert!(version.contains(&format!("Current PID:              {}\n", std::process::id())), "{version}");
    let cpu = bed.command("show cpu").unwrap();
    let frequency = format!("Base frequency:           {:.4} GHz\n", graph::time::ticks_per_second() / 1e9);
    assert!(cpu.starts_with("Model name:               ") && cpu.contains(&frequency), "{cpu}");
    let plugins = bed.command("show plugins").unwrap();
    assert!(
        plugins.starts_with(
            "     Plugin                                   Version                          Description\n"
        )
    );
    assert!(plugins.contains("No plugins are loaded. Built in:\n  1. interface "), "{plugins}");
    let built_in = bed.json("show plugins")["built_in"].as_array().unwrap().len();
    let shown = quiver_capabilities::CAPABILITIES.iter().filter(|capability| !capability.description.is_empty());
    assert_eq!(built_in, shown.count());
}

/// Abbreviations that operators type today. One that became ambiguous would fail here.
#[test]
fn the_usual_abbreviations_are_understood() {
    let mut bed = Bed::new();
    bed.port("e0", &[]);
    let usual = [
        "sh int",
        "sh int addr",
        "sh int e0 addr",
        "sh hard",
        "sh err",
        "sh run",
        "sh run max",
        "sh ver",
        "sh thr",
        "sh memo",
        "sh buf",
        "sh ip fib",
        "sh ip neighbor",
        "sh arp",
        "sh feat",
        "sh int feat e0",
        "sh plug",
        "sh clo",
        "sh upt",
        "sh unix files",
        "sh vlib graph",
        "sh node",
        "cl err",
        "cl int",
        "cl run",
    ];
    for line in usual {
        assert!(bed.command(line).is_ok(), "{line}: {:?}", bed.command(line));
    }
}

#[test]
fn show_node_tells_the_end_of_a_packet_that_did_its_work_from_a_drop() {
    let (mut bed, _) = Bed::with_three_ports();
    let text = bed.command("show node arp-reply").unwrap();
    assert!(text.contains("          end: ARP replies received\n"), "{text}");
    assert!(text.contains("          drop: ARP message truncated\n"), "{text}");
    let edges = bed.json("show node arp-reply")["edges"].as_array().unwrap().clone();
    let ends = edges.iter().filter(|edge| edge["is_end"] == true);
    assert!(ends.clone().count() > 0 && ends.into_iter().all(|edge| edge["is_drop"] == false));
}
