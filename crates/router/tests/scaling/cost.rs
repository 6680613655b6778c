//! What work costs: the trials of a case, and their comparison.

use command::CommandSet;
use graph::worker::Worker;
use quiver_router::{Devices, Options, Router};
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Four times the work takes less than so many times the cost.
const MOST: u32 = 6;
/// A case that seems to fail is tried again. What is compared is the least of all its trials.
const TRIALS: usize = 6;
/// Costs below these tell nothing: pages come in heaps, and the first of all things takes longer.
const LEAST_TIME: Duration = Duration::from_millis(4);
const LEAST_MEMORY: u64 = 24 << 20;

static TURN: Mutex<()> = Mutex::new(());

pub fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The processor time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Memory of this process that is there.
fn resident() -> u64 {
    let pages: u64 =
        fs::read_to_string("/proc/self/statm").unwrap().split(' ').nth(1).unwrap().parse().expect("a number of pages");
    pages * 4096
}

/// A router whose devices are stand-ins, with its commands and its worker.
struct Bench {
    router: Router,
    worker: Worker,
    commands: CommandSet<Router>,
}

impl Bench {
    fn new(lines: &[String]) -> Bench {
        let options = Options { buffers: 1024, huge_pages: false, devices: Devices::DryRun, ..Options::default() };
        let router = Router::new(options).unwrap();
        let worker = router.graph.worker(0).unwrap();
        let mut bench = Bench { router, worker, commands: quiver_router::commands() };
        bench.give_all(lines);
        bench
    }

    fn give(&mut self, line: &str) {
        let done = self.commands.execute(&mut self.router, line);
        done.unwrap_or_else(|error| panic!("{line}: {error}"));
    }

    fn give_all(&mut self, lines: &[String]) {
        for (at, line) in lines.iter().enumerate() {
            self.give(line);
            if at % 64 == 0 {
                self.settle();
            }
        }
        self.settle();
    }

    /// The worker takes in what was posted, and what was given up is freed.
    fn settle(&mut self) {
        self.worker.round();
        self.router.tick();
    }
}

/// A file that goes with the test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("quiver-scaling-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Processor time of the commands, of so many at once, and memory of all.
struct Cost {
    times: Vec<Duration>,
    memory: u64,
}

impl Cost {
    fn unknown() -> Cost {
        Cost { times: Vec::new(), memory: u64::MAX }
    }

    /// Keeps the least of two trials, piece by piece. Long work is always interrupted by another program, which evicts
    /// its data from the caches; short pieces are not.
    fn improve(&mut self, other: Cost) {
        self.times.resize(other.times.len(), Duration::MAX);
        self.times.iter_mut().zip(other.times).for_each(|(time, other)| *time = other.min(*time));
        self.memory = self.memory.min(other.memory);
    }

    fn sum(&self) -> (Duration, u64) {
        (self.times.iter().sum(), self.memory)
    }
}

/// What is measured: a state of so much work, and the commands that are measured on it.
struct Case<'a> {
    name: &'a str,
    /// So much that the commands take some tens of milliseconds.
    work: usize,
    before: &'a dyn Fn(usize) -> Vec<String>,
    measured: &'a dyn Fn(usize) -> Vec<String>,
}

impl Case<'_> {
    fn cost(&self, work: usize) -> Cost {
        let mut bench = Bench::new(&(self.before)(work));
        let measured = (self.measured)(work);
        let memory = resident();
        let times = measured.chunks(64).map(|chunk| {
            let begin = cpu_time();
            chunk.iter().for_each(|line| bench.give(line));
            let time = cpu_time() - begin;
            bench.settle();
            time
        });
        Cost { times: times.collect(), memory: resident().saturating_sub(memory) }
    }

    fn check(&self) {
        let (mut less, mut more) = (Cost::unknown(), Cost::unknown());
        let (mut of_all, mut of_all4) = (Duration::ZERO, Duration::ZERO);
        let mut said = String::new();
        for _ in 0..TRIALS {
            let (cost, cost4) = (self.cost(self.work), self.cost(4 * self.work));
            of_all += cost.sum().0;
            of_all4 += cost4.sum().0;
            less.improve(cost);
            more.improve(cost4);
            let ((time, memory), (time4, memory4)) = (less.sum(), more.sum());
            let _ = writeln!(said, "{}: {} took {time:?}, {memory} bytes; ", self.name, self.work);
            let _ = writeln!(said, "{}: {} took {time4:?}, {memory4} bytes", self.name, 4 * self.work);
            // On a busy machine little work may go through without an interruption in one trial, and much work never
            // does. Over all trials both meet the same.
            let is_in_time = time4 < MOST * time.max(LEAST_TIME) || of_all4 < MOST * of_all;
            if is_in_time && memory4 < u64::from(MOST) * memory.max(LEAST_MEMORY / 4) {
                println!("{said}");
                return;
            }
        }
        panic!("more than {MOST} times the cost of a quarter of the work:\n{said}");
    }
}

pub fn check(name: &str, work: usize, before: impl Fn(usize) -> Vec<String>, measured: impl Fn(usize) -> Vec<String>) {
    Case { name, work, before: &before, measured: &measured }.check();
}
