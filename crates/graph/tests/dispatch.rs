//! The dispatcher, seen from outside: small graphs stepped by hand.

mod support;

use quiver_graph::node::{Behaviour, Context, Expand, Expansion, Map, Source, Wake};
use quiver_graph::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use support::{Feed, Sink, To, spec};

struct Bed {
    graph: Graph,
    worker: Worker,
}

impl Bed {
    fn new() -> Bed {
        let domain = rcu::Domain::new(2);
        let pool = Pool::new(4096, false).unwrap();
        let graph = Graph::new(&domain, &pool, 1).unwrap();
        let worker = graph.worker(0).unwrap();
        Bed { graph, worker }
    }
    fn source(
        &mut self,
        edges: &'static [EdgeSpec],
        vectors: usize,
        size: usize,
        route: fn(usize) -> EdgeIndex,
    ) -> NodeIndex {
        self.graph
            .register(spec("feed", edges), |_| Behaviour::Source(Box::new(Feed { vectors, size, route })))
            .unwrap()
    }
    fn sink(&mut self, name: &str) -> Arc<Mutex<Vec<u32>>> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        self.graph.register(spec(name, &[]), |_| Behaviour::Map(Box::new(Sink(seen.clone())))).unwrap();
        seen
    }
    fn settle(&mut self) {
        while self.worker.round() == Progress::Worked {}
        let ledger = self.worker.core().ledger();
        assert!(ledger.is_balanced(), "{ledger:?}");
    }
    fn error(&self, reason: &str) -> u64 {
        let errors = self.graph.errors();
        let counters = &self.graph.counters().errors;
        (0..errors.len()).filter(|&i| errors[i].reason == reason).map(|i| counters.sum(i, 0)).sum()
    }
}

#[test]
fn packets_that_part_ways_keep_their_order_on_each_edge() {
    let mut bed = Bed::new();
    bed.source(
        &[EdgeSpec::Next("a"), EdgeSpec::Next("b"), EdgeSpec::Drop("unwanted", Severity::Error, "")],
        2,
        200,
        |n| match n % 10 {
            0 => 1,
            7 => 2,
            _ => 0,
        },
    );
    let (a, b) = (bed.sink("a"), bed.sink("b"));
    bed.settle();
    let expected = |f: fn(u32) -> bool| -> Vec<u32> { (0..2).flat_map(|_| (0..200).filter(move |&n| f(n))).collect() };
    assert_eq!(*a.lock().unwrap(), expected(|n| !matches!(n % 10, 0 | 7)));
    assert_eq!(*b.lock().unwrap(), expected(|n| n % 10 == 0));
    assert_eq!(bed.error("unwanted"), 40);
    let ledger = bed.worker.core().ledger();
    assert_eq!((ledger.received, ledger.sent, ledger.dropped), (400, 360, 40));
    assert_eq!(bed.worker.core().buffers.in_use(), 0);
    assert_eq!(bed.graph.counters().drops.sum(0, 0), 40);
}

#[test]
fn an_edge_may_be_named_before_its_node_exists() {
    let mut bed = Bed::new();
    bed.source(&[EdgeSpec::Next("late")], 1, 3, |_| 0);
    bed.settle();
    assert_eq!(bed.error("edge leads nowhere"), 3);
    let late = bed.sink("late");
    bed.graph.call(|_| {
        Box::new(|core| {
            core.node::<Feed>(NodeIndex(0)).unwrap().vectors = 1;
        })
    });
    bed.settle();
    assert_eq!(late.lock().unwrap().len(), 3);
}

/// While its round runs, lets control add a node and an edge to it, and uses the edge.
struct Late {
    graph: Arc<Mutex<Option<Graph>>>,
    seen: Arc<Mutex<Vec<u32>>>,
}

impl Map for Late {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) {
        let mut graph = self.graph.lock().unwrap();
        let graph = graph.as_mut().unwrap();
        let seen = self.seen.clone();
        graph.register(spec("new", &[]), |_| Behaviour::Map(Box::new(Sink(seen.clone())))).unwrap();
        let me = graph.find("late").unwrap();
        vector.set_edges(graph.connect(me, "new").unwrap());
    }
}

#[test]
fn an_edge_met_before_its_message_was_applied_is_learned_at_once() {
    let mut bed = Bed::new();
    bed.source(&[EdgeSpec::Next("late")], 1, 5, |_| 0);
    let (shared, seen) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(Vec::new())));
    let late = || Late { graph: shared.clone(), seen: seen.clone() };
    bed.graph.register(spec("late", &[]), |_| Behaviour::Map(Box::new(late()))).unwrap();
    let Bed { graph, mut worker } = bed;
    *shared.lock().unwrap() = Some(graph);
    while worker.round() == Progress::Worked {}
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4]);
    assert!(worker.core().ledger().is_balanced());
}

#[test]
fn a_loop_ends_in_a_named_drop() {
    let mut bed = Bed::new();
    bed.source(&[EdgeSpec::Next("x")], 1, 10, |_| 0);
    bed.graph.register(spec("x", &[EdgeSpec::Next("y")]), |_| Behaviour::Map(Box::new(To(0)))).unwrap();
    bed.graph.register(spec("y", &[EdgeSpec::Next("x")]), |_| Behaviour::Map(Box::new(To(0)))).unwrap();
    bed.settle();
    assert_eq!(bed.error("recirculated too often"), 10);
    assert_eq!(bed.worker.core().buffers.in_use(), 0);
}

/// Holds every second packet until it is released; doubles the others.
#[derive(Default)]
struct Hoard {
    held: Vec<Row>,
    release: bool,
}
impl Expand for Hoard {
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        if std::mem::take(&mut self.release) {
            for row in self.held.drain(..) {
                x.emit(row, 0);
            }
        }
        for i in 0..vector.len() {
            if i % 2 == 0 {
                self.held.push(vector.row(i));
                vector.set_edge(i, edge::TAKEN);
            } else {
                vector.set_edge(i, 0);
                let copy = x.cx.buffers.allocate_one().unwrap();
                x.originate(Row { packet: copy, ..vector.row(i) }, 0);
            }
        }
    }
    fn held(&self) -> usize {
        self.held.len()
    }
    fn drain(&mut self, buffers: &mut Buffers) {
        for row in self.held.drain(..) {
            buffers.free_chain(row.packet);
        }
    }
}

#[test]
fn expand_nodes_hold_release_and_multiply_and_the_ledger_knows() {
    let mut bed = Bed::new();
    bed.source(&[EdgeSpec::Next("hoard")], 1, 100, |_| 0);
    let hoard = bed
        .graph
        .register(spec("hoard", &[EdgeSpec::Next("end")]), |_| Behaviour::Expand(Box::<Hoard>::default()))
        .unwrap();
    let end = bed.sink("end");
    bed.settle();
    let ledger = bed.worker.core().ledger();
    assert_eq!((ledger.received, ledger.originated, ledger.sent, ledger.held), (100, 50, 100, 50));
    bed.graph.call(|_| Box::new(move |core| core.node::<Hoard>(hoard).unwrap().release = true));
    bed.settle();
    assert_eq!(end.lock().unwrap().len(), 150);
    assert_eq!(bed.worker.core().ledger().held, 0);
    assert_eq!(bed.worker.core().buffers.in_use(), 0);
}

#[test]
fn removing_a_node_frees_what_it_holds_and_cuts_the_edges_to_it() {
    let mut bed = Bed::new();
    let feed = bed.source(&[EdgeSpec::Next("hoard")], 1, 100, |_| 0);
    let hoard = bed
        .graph
        .register(spec("hoard", &[EdgeSpec::Next("end")]), |_| Behaviour::Expand(Box::<Hoard>::default()))
        .unwrap();
    bed.sink("end");
    bed.settle();
    bed.graph.remove(hoard);
    bed.graph.call(|_| Box::new(move |core| core.node::<Feed>(feed).unwrap().vectors = 1));
    bed.settle();
    assert_eq!(bed.worker.core().buffers.in_use(), 0);
    assert_eq!(bed.error("edge leads nowhere"), 100);
    assert!(bed.graph.find("hoard").is_err());
}

struct Explodes(Arc<AtomicU64>);
impl Map for Explodes {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) {
        vector.set_edges(edge::SENT);
        if self.0.fetch_add(1, Ordering::Relaxed) == 0 {
            panic!("as the test wants");
        }
    }
}

#[test]
fn a_panicking_node_costs_its_packets_and_nothing_else() {
    let mut bed = Bed::new();
    bed.source(&[EdgeSpec::Next("bomb"), EdgeSpec::Next("end")], 2, 64, |n| (n % 2) as EdgeIndex);
    let calls = Arc::new(AtomicU64::new(0));
    bed.graph.register(spec("bomb", &[]), |_| Behaviour::Map(Box::new(Explodes(calls.clone())))).unwrap();
    bed.sink("end");
    bed.settle();
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    let lost = bed.error("node panicked");
    assert!((32..=64).contains(&lost), "{lost}");
    assert_eq!(bed.worker.core().ledger().sent, 128 - lost);
    assert_eq!(bed.worker.core().buffers.in_use(), 0);
}

#[test]
fn a_panic_is_reported_with_the_node_and_what_ran_before() {
    let mut bed = Bed::new();
    bed.source(&[EdgeSpec::Next("a")], 2, 64, |_| 0);
    bed.graph.register(spec("a", &[EdgeSpec::Next("fuse")]), |_| Behaviour::Map(Box::new(To(0)))).unwrap();
    let calls = Arc::new(AtomicU64::new(0));
    let bomb = bed.graph.register(spec("fuse", &[]), |_| Behaviour::Map(Box::new(Explodes(calls.clone())))).unwrap();
    bed.graph.rename(bomb, "bomb").unwrap();
    let crashes = Arc::new(Mutex::new(Vec::new()));
    let seen = crashes.clone();
    bed.worker.on_panic(Box::new(move |crash| seen.lock().unwrap().push(crash.clone())));
    bed.settle();
    let crashes = crashes.lock().unwrap();
    let [crash] = &crashes[..] else { panic!("{crashes:?}") };
    assert_eq!((crash.thread, crash.node.as_deref(), crash.message.as_str()), (0, Some("bomb"), "as the test wants"));
    assert_eq!((crash.panics, crash.is_last(), crash.lost), (1, false, 64));
    let steps: Vec<_> = crash.recent.iter().map(|step| (step.node.as_str(), step.packets)).collect();
    assert_eq!(steps, [("feed", 64), ("a", 64), ("bomb", 64)]);
    assert!(crash.recent.is_sorted_by(|earlier, later| earlier.ticks_before >= later.ticks_before));
    let text = crash.to_string();
    assert!(text.starts_with("worker 0: node bomb panicked: as the test wants\npanic 1 of 3 in a row"), "{text}");
    assert_eq!(text.lines().count(), 4 + 3);
}

/// Brings a packet, and panics before any node has it.
struct BadSource(bool);
impl Source for BadSource {
    fn poll(&mut self, cx: &mut Context<'_>, out: &mut Vector) {
        if std::mem::take(&mut self.0) {
            let packet = cx.buffers.allocate_one().unwrap();
            out.push(Row { packet, l2: 256, l3: 256, length: 60, ..Row::default() }, 0);
            panic!("source number {}", 7);
        }
    }
    fn wake(&self) -> Wake<'_> {
        Wake::Never
    }
}

#[test]
fn a_source_that_panics_is_named_and_a_reporter_that_panics_does_no_harm() {
    let mut bed = Bed::new();
    bed.graph.register(spec("bad", &[]), |_| Behaviour::Source(Box::new(BadSource(true)))).unwrap();
    let said = Arc::new(Mutex::new(String::new()));
    let heard = said.clone();
    bed.worker.on_panic(Box::new(move |crash| {
        *heard.lock().unwrap() =
            format!("{} {} {:?}", crash.culprit(), crash.message, crash.recent.last().unwrap().packets);
        panic!("in the reporter too");
    }));
    bed.settle();
    assert_eq!(*said.lock().unwrap(), "node bad source number 7 1");
    assert_eq!(bed.error("node panicked"), 1);
}

#[test]
fn a_message_that_panics_is_reported_and_the_worker_and_other_messages_go_on() {
    let mut bed = Bed::new();
    let feed = bed.source(&[EdgeSpec::Next("hoard")], 0, 64, |_| 0);
    let spec = spec("hoard", &[EdgeSpec::Next("end")]);
    let hoard = bed.graph.register(spec, |_| Behaviour::Expand(Box::new(Hoard::default()))).unwrap();
    let end = bed.sink("end");
    bed.settle();
    bed.graph.call(|_| Box::new(move |core| core.node::<Feed>(feed).unwrap().vectors = 1));
    bed.settle();
    let crashes = Arc::new(Mutex::new(Vec::new()));
    let seen = crashes.clone();
    bed.worker.on_panic(Box::new(move |crash| seen.lock().unwrap().push(crash.clone())));
    // A turn that was given before the panic is kept, and a later message is applied.
    bed.graph.call(|_| Box::new(move |core| core.node::<Hoard>(hoard).unwrap().release = true));
    bed.graph.call(|_| Box::new(|_| panic!("in a message")));
    let after = Arc::new(AtomicU64::new(0));
    let applied = after.clone();
    bed.graph.call_one(0, move |_| applied.store(1, Ordering::Relaxed));
    bed.settle();
    let crashes = crashes.lock().unwrap();
    let [crash] = &crashes[..] else { panic!("{crashes:?}") };
    assert_eq!((&crash.node, crash.message.as_str(), crash.panics, crash.lost), (&None, "in a message", 1, 0));
    assert!(crash.to_string().starts_with("worker 0: a message from control panicked: in a message\npanic 1 of 3"));
    assert_eq!(after.load(Ordering::Relaxed), 1);
    assert_eq!((end.lock().unwrap().len(), bed.worker.core().ledger().held), (96, 0));
}

/// Takes longest for the vector of this number.
struct SlowOnce {
    calls: usize,
    slow: usize,
}
impl Map for SlowOnce {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) {
        self.calls += 1;
        if self.calls == self.slow {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        vector.set_edges(edge::SENT);
    }
}

#[test]
fn the_largest_clocks_of_a_call_are_kept_with_its_packets_until_cleared() {
    let mut bed = Bed::new();
    let feed = bed.source(&[EdgeSpec::Next("slow")], 1, 10, |_| 0);
    let slow = bed.graph.register(spec("slow", &[]), |_| Behaviour::Map(Box::new(SlowOnce { calls: 0, slow: 2 })));
    let slow = slow.unwrap();
    let send = |bed: &mut Bed, size: usize| {
        let again = move |core: &mut Core| {
            let feed = core.node::<Feed>(feed).unwrap();
            (feed.vectors, feed.size) = (1, size);
        };
        bed.graph.call(|_| Box::new(again));
        bed.settle();
    };
    bed.settle();
    send(&mut bed, 77);
    send(&mut bed, 33);
    let run = bed.graph.runtime(0, slow);
    assert_eq!((run.calls, run.packets, run.max_packets), (3, 120, 77));
    assert!(run.max_clocks <= run.clocks && run.max_clocks >= time::to_ticks(std::time::Duration::from_millis(50)));
    bed.graph.clear_runtime();
    assert_eq!(bed.graph.runtime(0, slow), Default::default(), "cleared before the worker has heard of it");
    send(&mut bed, 5);
    let run = bed.graph.runtime(0, slow);
    assert_eq!((run.calls, run.packets, run.max_packets), (1, 5, 5));
    assert_eq!(run.max_clocks, run.clocks);
}

#[test]
fn a_node_in_a_removed_ones_place_does_not_inherit_its_largest_clocks() {
    let mut bed = Bed::new();
    bed.source(&[EdgeSpec::Next("end")], 1, 9, |_| 0);
    bed.sink("end");
    bed.settle();
    let end = bed.graph.find("end").unwrap();
    assert_eq!(bed.graph.runtime(0, end).max_packets, 9);
    bed.graph.remove(end);
    bed.sink("other");
    bed.settle();
    let other = bed.graph.find("other").unwrap();
    assert_eq!((other, bed.graph.runtime(0, other)), (end, Default::default()));
}

#[test]
fn marked_packets_are_seen_at_every_node() {
    let mut bed = Bed::new();
    let feed = bed.source(&[EdgeSpec::Next("middle")], 1, 10, |_| 0);
    bed.graph.register(spec("middle", &[EdgeSpec::Next("end")]), |_| Behaviour::Map(Box::new(To(0)))).unwrap();
    bed.sink("end");
    bed.graph.call(|_| Box::new(move |core| core.tracer.arm(feed, 2)));
    bed.settle();
    let steps: Vec<(u32, u32)> = bed.worker.core().tracer.steps().iter().map(|s| (s.packet, s.node.0)).collect();
    assert_eq!(steps, [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2)]);
}

#[test]
fn nodes_clocks_cover_the_round() {
    let mut bed = Bed::new();
    let feed = bed.source(&[EdgeSpec::Next("end")], 2000, 256, |_| 0);
    bed.sink("end");
    let _ = bed.worker.round();
    let clocks = |bed: &Bed| bed.graph.runtime(0, feed).clocks + bed.graph.runtime(0, NodeIndex(1)).clocks;
    let (before, start) = (clocks(&bed), time::ticks());
    for _ in 0..1000 {
        let _ = bed.worker.round();
    }
    let (counted, passed) = (clocks(&bed) - before, time::ticks() - start);
    assert!(counted <= passed && counted > passed / 2, "{counted} of {passed}");
}

#[test]
fn a_worker_on_a_thread_sleeps_and_answers() {
    let bed = Bed::new();
    let Bed { graph, worker } = bed;
    let thread = std::thread::spawn(move || worker.run());
    let own = |graph: &Graph| graph.worker_lwp(0).is_some_and(|lwp| lwp != std::process::id());
    for n in 0..20 {
        if n % 5 == 4 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(graph.ask(0, move |core| core.thread() + n).unwrap(), n);
    }
    assert!(own(&graph));
    until(|| graph.worker_state(0) == WorkerState::Asleep);
    graph.stop();
    thread.join().unwrap();
    assert!(graph.counters().workers.raw(0, worker::worker_word::SLEEPS, 0) > 0);
}

fn until(condition: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "it never happens");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Stays in its round until the test releases it.
struct Stuck(std::sync::mpsc::Receiver<()>);
impl Source for Stuck {
    fn poll(&mut self, _: &mut Context<'_>, _: &mut Vector) {
        let _ = self.0.recv();
    }
    fn wake(&self) -> Wake<'_> {
        Wake::Poll
    }
}

#[test]
fn a_stuck_worker_is_seen_to_be_stalled_and_recovers() {
    let mut bed = Bed::new();
    assert_eq!(bed.graph.worker_state(0), WorkerState::NotStarted);
    let (go, wait) = std::sync::mpsc::channel();
    let wait = std::cell::RefCell::new(Some(wait));
    let stuck = bed
        .graph
        .register(spec("stuck", &[]), |_| Behaviour::Source(Box::new(Stuck(wait.borrow_mut().take().unwrap()))))
        .unwrap();
    let Bed { graph, worker } = bed;
    let thread = std::thread::spawn(move || worker.run());
    until(|| matches!(graph.worker_state(0), WorkerState::Stalled(_)));
    drop(go);
    until(|| graph.worker_state(0) == WorkerState::Online);
    // It has to be polled, so its worker does not sleep.
    until(|| graph.node_state(0, stuck) == NodeState::Polling);
    graph.stop();
    thread.join().unwrap();
}

#[test]
fn a_worker_that_has_just_woken_is_not_called_stalled() {
    let Bed { graph, worker } = Bed::new();
    let thread = std::thread::spawn(move || worker.run());
    until(|| graph.worker_state(0) == WorkerState::Asleep);
    // Longer than a round may take before it counts as stalled.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let (woken, is_awake) = std::sync::mpsc::channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    graph.call_one(0, move |_| {
        woken.send(()).unwrap();
        let _ = wait.recv();
    });
    is_awake.recv().unwrap();
    assert_eq!(graph.worker_state(0), WorkerState::Online);
    drop(go);
    graph.stop();
    thread.join().unwrap();
}

#[test]
fn a_source_without_a_device_is_disabled_while_its_worker_sleeps() {
    let mut bed = Bed::new();
    let feed = bed.source(&[EdgeSpec::Next("end")], 0, 1, |_| 0);
    bed.sink("end");
    let end = bed.graph.find("end").unwrap();
    assert_eq!(bed.graph.node_state(0, feed), NodeState::Polling);
    let Bed { graph, worker } = bed;
    let thread = std::thread::spawn(move || worker.run());
    until(|| graph.node_state(0, feed) == NodeState::Disabled);
    assert_eq!(graph.node_state(0, end), NodeState::Active);
    graph.stop();
    thread.join().unwrap();
}

#[test]
fn a_node_that_comes_back_goes_on_counting_where_it_was() {
    const EDGES: &[EdgeSpec] = &[EdgeSpec::Drop("no good", Severity::Error, "")];
    let mut bed = Bed::new();
    bed.source(&[EdgeSpec::Next("judge")], 1, 7, |_| 0);
    let judge = |bed: &mut Bed| bed.graph.register(spec("judge", EDGES), |_| Behaviour::Map(Box::new(To(0)))).unwrap();
    judge(&mut bed);
    bed.settle();
    assert_eq!(bed.error("no good"), 7);
    let counters = bed.graph.errors().len();
    for _ in 0..100 {
        bed.graph.remove(bed.graph.find("judge").unwrap());
        judge(&mut bed);
    }
    assert_eq!(bed.graph.errors().len(), counters);
    assert_eq!(bed.error("no good"), 7);
}

#[test]
fn a_packet_flag_has_one_owner() {
    let domain = rcu::Domain::new(1);
    let mut graph = Graph::new(&domain, &Pool::new(1024, false).unwrap(), 1).unwrap();
    let (a, b) = (flag::claimable(0), flag::claimable(9));
    assert_eq!(graph.claim_flags("one", a | b), Ok(()));
    let refused = graph.claim_flags("two", b | flag::claimable(3));
    assert_eq!(refused.unwrap_err().to_string(), "packet flags 0x80000000 belong to one");
    let refused = graph.claim_flags("two", flag::CHAINED);
    assert!(refused.unwrap_err().to_string().ends_with("belong to the graph"));
    let others: Vec<u32> = (0..8).map(|_| graph.claim_any_flag("many").unwrap()).collect();
    assert_eq!(others.iter().fold(a | b, |all, flag| all ^ flag), flag::CLAIMABLE);
    assert!(graph.claim_any_flag("late").is_err());
}
