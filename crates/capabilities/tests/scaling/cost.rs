//! What work costs: the trials of a case, and their comparison.

use command::CommandSet;
use graph::worker::Worker;
use router::{Devices, Options, Router};
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So many times the work is compared with.
const MORE: usize = 16;
/// It takes less than so many times the cost. In proportion it would be 16, or twice that where little work finds all
/// it needs in the caches; with the square of the work it would be 256.
const MOST: u32 = 64;
/// A case that seems to fail is tried again. What is compared is the least of all its trials.
const TRIALS: usize = 6;
/// Costs below these tell nothing: pages come in heaps, and the first of all things takes longer.
const LEAST_TIME: Duration = Duration::from_millis(1);
const LEAST_MEMORY: u64 = 1 << 20;

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
        let router = quiver_capabilities::router(options).unwrap();
        let worker = router.graph.worker(0).unwrap();
        let mut bench = Bench { router, worker, commands: quiver_capabilities::commands() };
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

/// What is measured: commands on a state of so much work, one step after the other.
struct Case<'a> {
    name: &'a str,
    /// So much that with all of it the commands of a step take some tens of milliseconds.
    work: usize,
    before: &'a dyn Fn(usize) -> Vec<String>,
    steps: &'a [Step<'a>],
}

/// What is done, and the commands of so much work.
pub type Step<'a> = (&'a str, &'a dyn Fn(usize) -> Vec<String>);

/// What is known of a step: the least of little work and of all of it, and the time of all trials.
struct Known {
    less: Cost,
    more: Cost,
    all_less: Duration,
    all_more: Duration,
}

impl Known {
    fn nothing() -> Known {
        Known { less: Cost::unknown(), more: Cost::unknown(), all_less: Duration::ZERO, all_more: Duration::ZERO }
    }

    fn learn(&mut self, less: Cost, more: Cost) {
        self.all_less += less.sum().0;
        self.all_more += more.sum().0;
        self.less.improve(less);
        self.more.improve(more);
    }

    fn is_well(&self) -> bool {
        let ((time, memory), (more_time, more_memory)) = (self.less.sum(), self.more.sum());
        // On a busy machine little work may go through without an interruption in one trial, and much work never does.
        // Over all trials both meet the same.
        let is_in_time = more_time < MOST * time.max(LEAST_TIME) || self.all_more < MOST * self.all_less;
        is_in_time && more_memory < u64::from(MOST) * memory.max(LEAST_MEMORY)
    }
}

impl Case<'_> {
    /// What each step costs.
    fn costs(&self, work: usize) -> Vec<Cost> {
        let mut bench = Bench::new(&(self.before)(work));
        let cost = |(_, commands): &Step| {
            let commands = commands(work);
            let memory = resident();
            let times = commands.chunks(64).map(|chunk| {
                let begin = cpu_time();
                chunk.iter().for_each(|line| bench.give(line));
                let time = cpu_time() - begin;
                bench.settle();
                time
            });
            Cost { times: times.collect(), memory: resident().saturating_sub(memory) }
        };
        self.steps.iter().map(cost).collect()
    }

    fn check(&self) {
        let mut known: Vec<Known> = self.steps.iter().map(|_| Known::nothing()).collect();
        let mut said = String::new();
        for _ in 0..TRIALS {
            let costs = self.costs(self.work / MORE).into_iter().zip(self.costs(self.work));
            known.iter_mut().zip(costs).for_each(|(known, (less, more))| known.learn(less, more));
            for (known, (step, _)) in known.iter().zip(self.steps) {
                let word = if known.is_well() { "" } else { "TOO MUCH: " };
                let ((time, memory), (more_time, more_memory)) = (known.less.sum(), known.more.sum());
                let less = self.work / MORE;
                let _ = write!(said, "{word}{}, {step}: {less} took {time:?}, {memory} bytes; ", self.name);
                let _ = writeln!(said, "{} took {more_time:?}, {more_memory} bytes", self.work);
            }
            if known.iter().all(Known::is_well) {
                println!("{said}");
                return;
            }
        }
        panic!("{MORE} times the work costs more than {MOST} times as much:\n{said}");
    }
}

/// Checks steps that are taken one after the other, from a state.
pub fn check_steps(name: &str, work: usize, before: impl Fn(usize) -> Vec<String>, steps: &[Step]) {
    Case { name, work, before: &before, steps }.check();
}

pub fn check(name: &str, work: usize, before: impl Fn(usize) -> Vec<String>, measured: impl Fn(usize) -> Vec<String>) {
    check_steps(name, work, before, &[("all at once", &measured)]);
}
