//! Several workers, seen from outside: what goes from one to the other, and what wakes them.

mod support;

use quiver_graph::node::{Behaviour, Context, Expand, Expansion, Source, Wake};
use quiver_graph::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Feed, Sink, spec};

fn one_worker() -> (Graph, Worker) {
    let (domain, pool) = (rcu::Domain::new(1), Pool::new(1024, false).unwrap());
    let graph = Graph::new(&domain, &pool, 1).unwrap();
    let worker = graph.worker(0).unwrap();
    (graph, worker)
}

fn two_workers(buffers: u32) -> (Graph, [Worker; 2]) {
    let (domain, pool) = (rcu::Domain::new(2), Pool::new(buffers, false).unwrap());
    let graph = Graph::new(&domain, &pool, 2).unwrap();
    let workers = [graph.worker(0).unwrap(), graph.worker(1).unwrap()];
    (graph, workers)
}

/// Two workers that run in turns; the second has packets for a node that lives on the first.
struct Pair {
    graph: Graph,
    workers: [Worker; 2],
    seen: Arc<Mutex<Vec<u32>>>,
    sink: NodeIndex,
}

impl Pair {
    fn new(vectors: usize, size: usize, route: fn(usize) -> EdgeIndex) -> Pair {
        let (mut graph, workers) = two_workers(16384);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let make = || Behaviour::Map(Box::new(Sink(seen.clone())));
        let sink = graph.register_owned(spec("sink", &[]), 0, make).unwrap();
        let feed = move |thread| {
            let vectors = if thread == 1 { vectors } else { 0 };
            Behaviour::Source(Box::new(Feed { vectors, size, route }))
        };
        graph
            .register(spec("feed", &[EdgeSpec::Next("sink"), EdgeSpec::Drop("here", Severity::Error, "")]), feed)
            .unwrap();
        Pair { graph, workers, seen, sink }
    }

    fn settle(&mut self) {
        let mut idle = 0;
        // Messages that lead to messages are no work.
        while idle < 8 {
            let worked = self.workers.each_mut().map(|worker| worker.round() == Progress::Worked);
            idle = if worked == [false, false] { idle + 1 } else { 0 };
        }
        self.check();
    }

    /// Has the second worker's source bring so many vectors more.
    fn feed_again(&mut self, vectors: usize) {
        let source = self.graph.find("feed").unwrap();
        self.workers[1].core().node::<Feed>(source).unwrap().vectors = vectors;
    }

    fn check(&mut self) {
        for worker in &mut self.workers {
            let ledger = worker.core().ledger();
            assert!(ledger.is_balanced(), "{ledger:?}");
        }
    }

    fn error(&self, reason: &str) -> u64 {
        let errors = self.graph.errors();
        let of = |i: usize| self.graph.counters().errors.sum(i, 0);
        (0..errors.len()).filter(|&i| errors[i].reason == reason).map(of).sum()
    }
}

#[test]
fn packets_go_on_where_their_node_lives_in_order() {
    let mut pair = Pair::new(40, 200, |n| (n % 10 == 3) as EdgeIndex);
    pair.settle();
    let one: Vec<u32> = (0..200).filter(|n| n % 10 != 3).collect();
    assert_eq!(*pair.seen.lock().unwrap(), one.repeat(40));
    assert_eq!(pair.error("here"), 40 * 20);
    let [first, second] = pair.workers.each_mut().map(|worker| worker.core().ledger());
    assert_eq!((second.received, second.handed, second.taken), (8000, 7200, 0));
    assert_eq!((first.received, first.taken, first.sent), (0, 7200, 7200));
    let used = pair.workers.each_mut().map(|worker| worker.core().buffers.in_use());
    assert_eq!(used[0].wrapping_add(used[1]), 0, "all buffers are back");
}

#[test]
fn what_a_busy_worker_has_no_room_for_is_dropped_by_name() {
    // A quarter of all packet memory may wait.
    let mut pair = Pair::new(60, 100, |_| 0);
    // The owner does not come to it.
    while pair.workers[1].round() == Progress::Worked {}
    assert_eq!(pair.error("congestion drop between workers"), 20 * 100);
    pair.settle();
    assert_eq!(pair.seen.lock().unwrap().len(), 40 * 100);
    // What it has taken in makes room again.
    pair.feed_again(30);
    while pair.workers[1].round() == Progress::Worked {}
    pair.settle();
    assert_eq!(pair.seen.lock().unwrap().len(), 70 * 100);
}

#[test]
fn small_vectors_are_bounded_by_their_number() {
    let mut pair = Pair::new(200, 1, |_| 0);
    while pair.workers[1].round() == Progress::Worked {}
    assert_eq!(pair.error("congestion drop between workers"), 200 - 128);
    pair.settle();
    assert_eq!(pair.seen.lock().unwrap().len(), 128);
}

#[test]
fn what_was_on_its_way_to_a_node_that_is_gone_is_dropped() {
    let mut pair = Pair::new(5, 100, |_| 0);
    while pair.workers[1].round() == Progress::Worked {}
    pair.graph.remove(pair.sink);
    // Another one gets its number; what was on its way is not for it.
    let others = Arc::new(Mutex::new(Vec::new()));
    let make = || Behaviour::Map(Box::new(Sink(others.clone())));
    assert_eq!(pair.graph.register_owned(spec("other", &[]), 0, make).unwrap(), pair.sink);
    pair.settle();
    assert_eq!((pair.seen.lock().unwrap().len(), others.lock().unwrap().len()), (0, 0));
    assert_eq!(pair.error("edge leads nowhere"), 500);
}

#[test]
fn a_worker_that_sleeps_is_woken_by_what_is_handed_to_it() {
    let pair = Pair::new(0, 1, |_| 0);
    let Pair { mut graph, workers: [first, mut second], seen, .. } = pair;
    let owner = std::thread::spawn(move || first.run());
    let one = |thread| {
        let vectors = if thread == 1 { 1 } else { 0 };
        Behaviour::Source(Box::new(Feed { vectors, size: 1, route: |_| 0 }))
    };
    for n in 0..50 {
        while graph.worker_state(0) != quiver_graph::WorkerState::Asleep {
            std::thread::yield_now();
        }
        let source = graph.register(spec(&format!("more-{n}"), &[EdgeSpec::Next("sink")]), one).unwrap();
        while second.round() == Progress::Worked {}
        while seen.lock().unwrap().len() <= n {
            std::thread::yield_now();
        }
        graph.remove(source);
    }
    graph.stop();
    owner.join().unwrap();
}

#[test]
fn what_is_passed_on_arrives_when_what_was_sent_before_has() {
    let mut pair = Pair::new(3, 100, |_| 0);
    let seen = pair.seen.clone();
    // Its vectors are on their way to the first worker, which has not looked.
    while pair.workers[1].round() == Progress::Worked {}
    let when_given = Arc::new(AtomicUsize::new(0));
    let noted = when_given.clone();
    pair.graph.call_one(1, move |core| {
        core.pass_to(0, move |_| noted.store(seen.lock().unwrap().len(), Ordering::Relaxed));
    });
    pair.settle();
    assert_eq!(when_given.load(Ordering::Relaxed), 300);
}

#[test]
fn what_is_gone_is_settled_when_nobody_sends_to_it_and_nothing_is_on_its_way() {
    let mut pair = Pair::new(3, 100, |_| 0);
    let settled = Arc::new(AtomicUsize::new(0));
    let seen = (pair.seen.clone(), settled.clone());
    pair.graph.when_settled(move || seen.1.store(seen.0.lock().unwrap().len(), Ordering::Relaxed));
    // However long the first worker takes.
    for _ in 0..20 {
        pair.workers[1].round();
    }
    assert_eq!(settled.load(Ordering::Relaxed), 0);
    pair.settle();
    assert_eq!(settled.load(Ordering::Relaxed), 300);
}

/// Notes the tokens of its timers; arms one a second from each packet.
struct Clock {
    fired: Arc<Mutex<Vec<u64>>>,
}

impl Expand for Clock {
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        self.fired.lock().unwrap().extend(x.fired.iter());
        for token in 0..vector.len() as u64 {
            x.arm(x.cx.now + time::to_ticks(Duration::from_secs(token + 1)), token);
        }
        vector.set_edges(edge::SENT);
    }
}

#[test]
fn timers_call_their_node_until_it_is_gone() {
    let (mut graph, mut worker) = one_worker();
    let fired: Arc<Mutex<Vec<u64>>> = Arc::default();
    let make = |_| Behaviour::Expand(Box::new(Clock { fired: fired.clone() }));
    let clock = graph.register(spec("clock", &[]), make).unwrap();
    let feed = |_| Behaviour::Source(Box::new(Feed { vectors: 1, size: 3, route: |_| 0 }));
    graph.register(spec("feed", &[EdgeSpec::Next("clock")]), feed).unwrap();
    let pass = |worker: &mut Worker, milliseconds| {
        worker.core().let_pass(Duration::from_millis(milliseconds));
        worker.round();
        fired.lock().unwrap().clone()
    };
    assert_eq!(pass(&mut worker, 0), []);
    assert_eq!(pass(&mut worker, 900), []);
    assert_eq!(pass(&mut worker, 101), [0]);
    assert_eq!(pass(&mut worker, 0), [0], "once");
    assert_eq!(pass(&mut worker, 1000), [0, 1]);
    graph.remove(clock);
    graph.register(spec("clock", &[]), make).unwrap();
    assert_eq!(pass(&mut worker, 1000), [0, 1], "the timer of another node of that number");
}

#[test]
fn a_timer_wakes_its_worker() {
    let (mut graph, worker) = one_worker();
    let fired: Arc<Mutex<Vec<u64>>> = Arc::default();
    let make = |_| Behaviour::Expand(Box::new(Clock { fired: fired.clone() }));
    graph.register(spec("clock", &[]), make).unwrap();
    let feed = |_| Behaviour::Source(Box::new(Feed { vectors: 1, size: 1, route: |_| 0 }));
    graph.register(spec("feed", &[EdgeSpec::Next("clock")]), feed).unwrap();
    let thread = std::thread::spawn(move || worker.run());
    while fired.lock().unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    graph.stop();
    thread.join().unwrap();
}

#[test]
fn a_worker_that_must_poll_may_rest_in_between() {
    let (mut graph, mut worker) = one_worker();
    worker.rest_between_polls(Duration::from_millis(10));
    struct Restless;
    impl Source for Restless {
        fn poll(&mut self, _: &mut Context<'_>, _: &mut Vector) {}
        fn wake(&self) -> Wake<'_> {
            Wake::Poll
        }
    }
    graph.register(spec("restless", &[]), |_| Behaviour::Source(Box::new(Restless))).unwrap();
    let rounds = || graph.counters().workers.raw(0, quiver_graph::worker::worker_word::ROUNDS, 0);
    let thread = std::thread::spawn(move || worker.run());
    while rounds() == 0 {}
    let start = std::time::Instant::now();
    std::thread::sleep(Duration::from_millis(100));
    let most = start.elapsed().as_millis() as u64 / 10 + 2;
    assert!((1..=most).contains(&rounds()), "{} rounds, at most {most}", rounds());
    graph.stop();
    thread.join().unwrap();
}
