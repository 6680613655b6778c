//! Feature arcs, seen from outside: chains of features that write their letter into each packet.

mod support;

use quiver_graph::node::{Behaviour, Context, Expand, Expansion, Map, Source, Wake};
use quiver_graph::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::spec;

/// Where packets begin, and where letters go: the first byte counts them.
const AT: u16 = 256;

/// Brings vectors of packets, packet `n` of interface `n % interfaces + 1`, and begins the arc.
struct Start {
    arc: ArcIndex,
    vectors: Arc<AtomicUsize>,
    interfaces: u32,
    size: usize,
}

impl Source for Start {
    fn poll(&mut self, cx: &mut Context<'_>, out: &mut Vector) {
        if self.vectors.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err() {
            return;
        }
        for n in 0..self.size {
            let Some(packet) = cx.buffers.allocate_one() else { return };
            cx.buffers.bytes_mut(packet)[AT as usize] = 0;
            let rx_interface = InterfaceIndex(n as u32 % self.interfaces + 1);
            out.push(Row { packet, rx_interface, target: n as u32, l2: AT, l3: AT, length: 60, ..Row::default() }, 0);
            if let Some(chain) = cx.chain(self.arc, rx_interface) {
                out.begin_one(n, chain);
            }
        }
    }
    fn wake(&self) -> Wake<'_> {
        Wake::Poll
    }
}

fn write(cx: &mut Context<'_>, packet: PacketIndex, letter: u8) {
    let bytes = cx.buffers.bytes_mut(packet);
    bytes[AT as usize] += 1;
    bytes[(AT + u16::from(bytes[AT as usize])) as usize] = letter;
}

/// A feature that writes its letter and sends packets on, by `edge`.
struct Letter(u8, EdgeIndex);

impl Map for Letter {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.packets().iter().for_each(|packet| write(cx, *packet, self.0));
        vector.set_edges(self.1);
    }
}

/// A feature that holds packets until it is called again.
struct Hold(u8, Vec<Row>);

impl Expand for Hold {
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        for row in std::mem::take(&mut self.1) {
            write(x.cx, row.packet, self.0);
            x.emit(row, edge::CONTINUE);
        }
        self.1.extend((0..vector.len()).map(|i| vector.row(i)));
        vector.set_edges(edge::TAKEN);
    }
    fn held(&self) -> usize {
        self.1.len()
    }
}

/// What packets of each interface had written into them at the arc's end, and how many of them; by worker.
type Seen = Arc<Mutex<BTreeMap<(u32, String, usize), usize>>>;

struct End(Seen);

impl Map for End {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            assert_eq!(row.lazy(Lazy::Cursor), 0, "the arc ends here");
            let bytes = &cx.buffers.bytes(row.packet)[AT as usize..];
            let letters = String::from_utf8(bytes[1..=bytes[0] as usize].to_vec()).unwrap();
            *self.0.lock().unwrap().entry((row.rx_interface.0, letters, cx.thread)).or_default() += 1;
        }
        vector.set_edges(edge::SENT);
    }
}

struct Bed {
    graph: Graph,
    workers: Vec<Worker>,
    vectors: Arc<AtomicUsize>,
    seen: Seen,
}

impl Bed {
    /// An arc from `start` to `end`.
    fn new(workers: usize, interfaces: u32) -> Bed {
        let domain = rcu::Domain::new(workers);
        let mut graph = Graph::new(&domain, &Pool::new(8192, false).unwrap(), workers).unwrap();
        let workers = (0..workers).map(|thread| graph.worker(thread).unwrap()).collect();
        let arc = graph.register_arc("arc", "end").unwrap();
        let (vectors, seen) = (Arc::<AtomicUsize>::default(), Seen::default());
        let start = |thread: usize| {
            let vectors = if thread == 0 { vectors.clone() } else { Arc::default() };
            Behaviour::Source(Box::new(Start { arc, vectors, interfaces, size: 200 }))
        };
        graph.register(spec("start", &[EdgeSpec::Arc("arc")]), start).unwrap();
        graph.register(spec("end", &[]), |_| Behaviour::Map(Box::new(End(seen.clone())))).unwrap();
        Bed { graph, workers, vectors, seen }
    }

    fn letter(&mut self, letter: char, after: &'static [&'static str], before: &'static [&'static str]) {
        self.letter_to(letter, edge::CONTINUE);
        self.feature(letter, after, before).unwrap();
    }

    fn letter_to(&mut self, letter: char, to: EdgeIndex) {
        let make = |_| Behaviour::Map(Box::new(Letter(letter as u8, to)));
        self.graph.register(spec(&letter.to_string(), &[]), make).unwrap();
    }

    fn feature(
        &mut self,
        letter: char,
        after: &'static [&'static str],
        before: &'static [&'static str],
    ) -> Result<(), GraphError> {
        let node: &'static str = letter.to_string().leak();
        self.graph.register_feature(Feature { arc: "arc", node, after, before })
    }

    fn set(&mut self, interface: u32, letter: char, is_enabled: bool) {
        self.graph.set_feature("arc", &letter.to_string(), InterfaceIndex(interface), is_enabled).unwrap();
    }

    fn chain(&self, interface: u32) -> String {
        let chain = self.graph.chain("arc", InterfaceIndex(interface)).unwrap();
        chain.into_iter().map(|node| self.graph.info(node).unwrap().name.clone()).collect()
    }

    /// Sends so many vectors. Returns what was seen: interface, letters, worker, packets.
    fn run(&mut self, vectors: usize) -> Vec<(u32, String, usize, usize)> {
        self.vectors.store(vectors, Ordering::SeqCst);
        loop {
            let progress: Vec<Progress> = self.workers.iter_mut().map(Worker::round).collect();
            if progress.iter().all(|progress| *progress == Progress::Idle) {
                break;
            }
        }
        self.workers.iter_mut().for_each(|worker| assert!(worker.core().ledger().is_balanced()));
        let seen = std::mem::take(&mut *self.seen.lock().unwrap());
        seen.into_iter().map(|((interface, letters, thread), n)| (interface, letters, thread, n)).collect()
    }

    fn error(&self, reason: &str) -> u64 {
        let errors = self.graph.errors();
        let of = |at: usize| self.graph.counters().errors.sum(at, 0);
        (0..errors.len()).filter(|at| errors[*at].reason == reason).map(of).sum()
    }
}

fn on_first(found: &[(u32, &str, usize)]) -> Vec<(u32, String, usize, usize)> {
    found.iter().map(|(interface, letters, n)| (*interface, letters.to_string(), 0, *n)).collect()
}

#[test]
fn each_interfaces_packets_pass_the_features_that_are_enabled_there_in_order() {
    let mut bed = Bed::new(1, 4);
    // Registered last to first.
    bed.letter('c', &["b"], &[]);
    bed.letter('b', &["a"], &["nowhere"]);
    bed.letter('a', &[], &["c"]);
    assert_eq!(bed.run(2), on_first(&[(1, "", 100), (2, "", 100), (3, "", 100), (4, "", 100)]));
    for (interface, letter) in [(1, 'c'), (1, 'a'), (2, 'b'), (3, 'a'), (3, 'b'), (3, 'c')] {
        bed.set(interface, letter, true);
    }
    assert_eq!([1, 2, 3, 4].map(|interface| bed.chain(interface)), ["ac", "b", "abc", ""]);
    assert_eq!(bed.run(2), on_first(&[(1, "ac", 100), (2, "b", 100), (3, "abc", 100), (4, "", 100)]));
    bed.set(3, 'b', false);
    bed.set(2, 'b', false);
    bed.set(4, 'c', true);
    bed.graph.clear_features(InterfaceIndex(1));
    assert_eq!(bed.run(2), on_first(&[(1, "", 100), (2, "", 100), (3, "ac", 100), (4, "c", 100)]));
    assert_eq!(bed.error("edge leads nowhere"), 0);
    assert_eq!(bed.graph.ledger().sent, 1200);
}

#[test]
fn two_features_stand_in_either_order() {
    for (after, before, chain) in [(&["a"][..], &[][..], "ab"), (&[][..], &["a"][..], "ba"), (&[], &[], "ab")] {
        let mut bed = Bed::new(1, 1);
        bed.letter('a', &[], &[]);
        bed.letter('b', after, before);
        bed.set(1, 'b', true);
        bed.set(1, 'a', true);
        assert_eq!((bed.chain(1).as_str(), bed.run(1)), (chain, on_first(&[(1, chain, 200)])));
    }
}

#[test]
fn a_feature_that_comes_later_takes_its_place_in_chains_that_are_published() {
    let mut bed = Bed::new(1, 1);
    bed.letter('a', &[], &[]);
    bed.letter('c', &[], &[]);
    bed.set(1, 'a', true);
    bed.set(1, 'c', true);
    assert_eq!(bed.run(1), on_first(&[(1, "ac", 200)]));
    bed.letter('b', &["a"], &["c"]);
    bed.set(1, 'b', true);
    assert_eq!(bed.run(1), on_first(&[(1, "abc", 200)]));
    // No packet goes back: the order in which nodes run follows the arc.
    assert_eq!(bed.error("recirculated too often"), 0);
    let order = bed.graph.order();
    let place = |name: &str| order.iter().position(|node| *node == bed.graph.find(name).unwrap()).unwrap();
    assert!(["start", "a", "b", "c", "end"].map(place).is_sorted());
}

#[test]
fn an_order_that_cannot_be_is_refused_with_its_features() {
    let mut bed = Bed::new(1, 1);
    bed.letter('a', &[], &["b"]);
    bed.letter('b', &[], &["c"]);
    bed.letter_to('c', edge::CONTINUE);
    let refused = bed.feature('c', &[], &["a"]).unwrap_err().to_string();
    assert_eq!(refused, "features of arc that each want to be before the other: a, b, c");
    bed.set(1, 'a', true);
    bed.set(1, 'b', true);
    assert_eq!(bed.run(1), on_first(&[(1, "ab", 200)]));
    let unknown = |result: Result<(), GraphError>| result.unwrap_err().to_string();
    assert_eq!(
        unknown(bed.graph.set_feature("arc", "c", InterfaceIndex(1), true)),
        "c is no feature of arc (show features lists those that are)"
    );
    assert!(
        unknown(bed.graph.set_feature("ark", "a", InterfaceIndex(1), true)).starts_with("no feature arc named 'ark'")
    );
    assert!(
        unknown(bed.graph.set_feature("arc", "a", InterfaceIndex(1 << 20), true)).starts_with("too many interfaces")
    );
}

#[test]
fn a_chain_goes_on_on_another_worker() {
    let mut bed = Bed::new(2, 2);
    bed.letter('a', &[], &[]);
    bed.letter_to('b', edge::continue_on(1));
    bed.feature('b', &["a"], &[]).unwrap();
    bed.letter('c', &["b"], &[]);
    ['a', 'b', 'c'].into_iter().for_each(|letter| bed.set(1, letter, true));
    bed.set(2, 'b', true);
    assert_eq!(bed.run(3), [(1, "abc".into(), 1, 300), (2, "b".into(), 1, 300)]);
    assert_eq!(bed.error("edge leads nowhere"), 0);
    // There is no such worker.
    bed.letter_to('d', edge::continue_on(7));
    bed.feature('d', &[], &["a"]).unwrap();
    bed.set(2, 'd', true);
    assert_eq!(bed.run(1), [(1, "abc".into(), 1, 100)]);
    assert_eq!(bed.error("edge leads nowhere"), 100);
}

#[test]
fn packets_on_their_way_to_a_feature_that_is_gone_are_dropped_by_name() {
    let mut bed = Bed::new(1, 1);
    let hold = |_| Behaviour::Expand(Box::new(Hold(b'h', Vec::new())));
    bed.graph.register(spec("h", &[]), hold).unwrap();
    bed.feature('h', &[], &[]).unwrap();
    bed.letter('a', &["h"], &[]);
    bed.set(1, 'h', true);
    bed.set(1, 'a', true);
    assert_eq!(bed.run(1), []);
    let gone = bed.graph.find("a").unwrap();
    bed.graph.remove(gone);
    assert_eq!(bed.chain(1), "h");
    // Another node takes its number: what was on the way to the first is not for it.
    bed.letter_to('x', edge::SENT);
    assert_eq!(bed.graph.find("x").unwrap(), gone);
    assert_eq!(bed.run(1), [], "the second vector is held, the first was on its way");
    assert_eq!(bed.error("edge leads nowhere"), 200);
    assert_eq!(bed.run(1), on_first(&[(1, "h", 200)]));
}

#[test]
fn a_node_that_is_no_feature_cannot_send_packets_on_along_a_chain() {
    let mut bed = Bed::new(1, 1);
    bed.letter('a', &[], &[]);
    bed.set(1, 'a', true);
    let node = |_| Behaviour::Map(Box::new(Letter(b'z', edge::CONTINUE)));
    let end = bed.graph.find("end").unwrap();
    bed.graph.remove(end);
    bed.graph.register(spec("end", &[]), node).unwrap();
    bed.run(1);
    assert_eq!(bed.error("edge leads nowhere"), 200);
}

/// Runs while control enables and disables two features: every packet follows a chain that was in force.
#[test]
fn chains_change_under_traffic_on_two_workers() {
    let mut bed = Bed::new(2, 2);
    bed.letter('a', &[], &[]);
    bed.letter_to('h', edge::continue_on(1));
    bed.feature('h', &["a"], &[]).unwrap();
    bed.letter('b', &["h"], &[]);
    bed.set(2, 'h', true);
    bed.set(1, 'h', true);
    let stop = Arc::new(AtomicBool::new(false));
    let vectors = bed.vectors.clone();
    let threads: Vec<_> = std::mem::take(&mut bed.workers)
        .into_iter()
        .map(|mut worker| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    worker.round();
                }
                worker
            })
        })
        .collect();
    let deadline = Instant::now() + Duration::from_secs(60);
    for toggle in 0..10_000 {
        vectors.store(1, Ordering::SeqCst);
        let is_enabled = toggle % 4 < 2;
        bed.set(1, if toggle % 2 == 0 { 'a' } else { 'b' }, is_enabled);
        if toggle % 100 == 0 {
            // Let packets pass in each state once in a while.
            let before = bed.graph.ledger().received;
            while bed.graph.ledger().received == before && Instant::now() < deadline {
                vectors.store(1, Ordering::SeqCst);
                std::thread::yield_now();
            }
        }
    }
    vectors.store(0, Ordering::SeqCst);
    stop.store(true, Ordering::SeqCst);
    bed.workers = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let seen = bed.run(0);
    let total: usize = seen.iter().map(|(.., n)| n).sum();
    for (interface, letters, thread, _) in &seen {
        let valid: &[&str] = if *interface == 1 { &["h", "ah", "ahb", "hb"] } else { &["h"] };
        assert!(valid.contains(&letters.as_str()) && *thread == 1, "{interface} {letters} {thread}");
    }
    let ledger = bed.graph.ledger();
    assert_eq!(ledger.received, ledger.sent + ledger.dropped);
    assert_eq!(ledger.dropped, bed.error("congestion drop between workers"));
    assert!(total > 0 && total as u64 == ledger.sent, "{total} {ledger:?}");
}

/// A feature of dropped packets: records each packet's interface and error, and sends it on by an edge.
struct Witness(Arc<Mutex<Vec<(u32, u32)>>>, EdgeIndex);

impl Map for Witness {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) {
        let seen = vector.rx_interfaces().iter().zip(vector.targets()).map(|(rx, error)| (rx.0, *error));
        self.0.lock().unwrap().extend(seen);
        vector.set_edges(self.1);
    }
}

/// Drops every third packet by its second edge, the others by its first.
struct Sorting;

impl Map for Sorting {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let edge = u16::from(vector.targets()[i].is_multiple_of(3));
            vector.set_edge(i, edge);
        }
    }
}

#[test]
fn features_see_what_is_dropped_of_an_interface_and_by_which_error() {
    let mut bed = Bed::new(1, 4);
    const DROPS: &[EdgeSpec] =
        &[EdgeSpec::Drop("common", Severity::Error, ""), EdgeSpec::Drop("third", Severity::Error, "")];
    bed.graph.register(spec("sorting", DROPS), |_| Behaviour::Map(Box::new(Sorting))).unwrap();
    bed.graph.register_feature(Feature { arc: "arc", node: "sorting", after: &[], before: &[] }).unwrap();
    let seen = Arc::<Mutex<Vec<(u32, u32)>>>::default();
    const OWN: &[EdgeSpec] = &[EdgeSpec::Drop("own", Severity::Error, "")];
    let witness = |edge| {
        let seen = seen.clone();
        move |_| Behaviour::Map(Box::new(Witness(seen.clone(), edge)) as Box<dyn Map>)
    };
    for (node, edge) in [("looks", edge::CONTINUE), ("ends", 0)] {
        bed.graph.register(spec(node, OWN), witness(edge)).unwrap();
        bed.graph.register_feature(Feature { arc: "error-drop", node, after: &[], before: &[] }).unwrap();
    }
    let refused = bed.graph.set_feature("error-drop", "looks", InterfaceIndex(1), true);
    assert!(refused.is_err(), "the arc has no end yet");
    bed.graph.register_drop().unwrap();
    for interface in 1..=4 {
        bed.graph.set_feature("arc", "sorting", InterfaceIndex(interface), true).unwrap();
    }
    let counts = |bed: &Bed| ["common", "third", "own"].map(|reason| bed.error(reason));
    bed.run(1);
    assert_eq!((counts(&bed), seen.lock().unwrap().len()), ([133, 67, 0], 0));
    bed.graph.set_feature("error-drop", "looks", InterfaceIndex(1), true).unwrap();
    bed.graph.set_feature("error-drop", "looks", InterfaceIndex(2), true).unwrap();
    bed.graph.set_feature("error-drop", "ends", InterfaceIndex(2), true).unwrap();
    bed.run(1);
    // Interface 2 has packets 1, 5, 9 and so on, of which `ends` drops all, each once.
    let third_of_2 = (0..200).filter(|n| n % 4 == 1 && n % 3 == 0).count() as u64;
    assert_eq!(counts(&bed), [2 * 133 - (50 - third_of_2), 2 * 67 - third_of_2, 50]);
    let errors = bed.graph.errors();
    let named = |error: u32| errors[error as usize].reason.clone();
    let mut found = BTreeMap::<(u32, String), u64>::new();
    seen.lock().unwrap().iter().for_each(|(rx, error)| *found.entry((*rx, named(*error))).or_default() += 1);
    let third_of_1 = (0..200).filter(|n| n % 4 == 0 && n % 3 == 0).count() as u64;
    // Packets of interface 2 are seen by both features.
    let expected = [
        ((1, "common".to_string()), 50 - third_of_1),
        ((1, "third".to_string()), third_of_1),
        ((2, "common".to_string()), 2 * (50 - third_of_2)),
        ((2, "third".to_string()), 2 * third_of_2),
    ];
    assert_eq!(found, BTreeMap::from(expected));
    let ledger = bed.graph.ledger();
    assert_eq!((ledger.received, ledger.dropped, bed.error("edge leads nowhere")), (400, 400, 0));
    assert_eq!(bed.graph.counters().drops.sum(2, 0), 100);
}

scratch_number! {
    struct Number(u32) = "a test's number"
}

/// Leaves a number for packets of interfaces with an odd number, and begins the arc anew for all.
struct Leaves(ArcIndex);

impl Map for Leaves {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let rx = vector.rx_interfaces()[i];
            if rx.0 % 2 == 1 {
                vector.leave(i, Number(rx.0 + 100));
            }
            vector.send(i, cx.chain(self.0, rx), edge::SENT);
        }
    }
}

/// Interfaces of packets, each with what was left for it.
type Found = Arc<Mutex<Vec<(u32, Option<u32>)>>>;

/// Records what was left for packets; sends them on.
struct Reads(Found, EdgeIndex);

impl Map for Reads {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let left = vector.left(i).map(|Number(number)| number);
            self.0.lock().unwrap().push((vector.rx_interfaces()[i].0, left));
        }
        vector.set_edges(self.1);
    }
}

#[test]
fn what_a_node_leaves_passes_features_and_is_gone_behind_their_end() {
    let mut bed = Bed::new(1, 4);
    let second = bed.graph.register_arc("second", "reads").unwrap();
    const ON: &[EdgeSpec] = &[EdgeSpec::Next("end")];
    let found = Found::default();
    let reads = |to| {
        let found = found.clone();
        move |_| Behaviour::Map(Box::new(Reads(found.clone(), to)) as Box<dyn Map>)
    };
    bed.graph
        .register(spec("leaves", &[EdgeSpec::Arc("second")]), |_| Behaviour::Map(Box::new(Leaves(second))))
        .unwrap();
    bed.graph.register_feature(Feature { arc: "arc", node: "leaves", after: &[], before: &[] }).unwrap();
    bed.letter_to('x', edge::CONTINUE);
    bed.graph.register_feature(Feature { arc: "second", node: "x", after: &[], before: &[] }).unwrap();
    bed.graph.register(spec("reads", ON), reads(0)).unwrap();
    for interface in 1..=4 {
        bed.graph.set_feature("arc", "leaves", InterfaceIndex(interface), true).unwrap();
        bed.graph.set_feature("second", "x", InterfaceIndex(interface), true).unwrap();
    }
    assert_eq!(bed.run(1), on_first(&[(1, "x", 50), (2, "x", 50), (3, "x", 50), (4, "x", 50)]));
    let found = std::mem::take(&mut *found.lock().unwrap());
    assert_eq!(found.len(), 200);
    assert!(found.iter().all(|(rx, left)| *left == (rx % 2 == 1).then_some(rx + 100)), "{found:?}");
}
