//! What other programs use of the cores that a test runs on.
//!
//! A test on a machine that is busy with other work measures the machine. So the processor time of each core
//! (`/proc/stat`) is read before and during each run, and the time of the test's own threads is subtracted
//! (`/proc/PID/task/TID/schedstat`): those of this process, and of the programs that it started. Time that a hypervisor
//! took (steal) counts as use by other programs. Interrupts do not: most of them are the test's own packets.

use rustix::param::clock_ticks_per_second;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Default percent of a core that other programs may use: more falsifies what is lost or not sent.
pub const LIMIT: f64 = 10.0;
/// How long the measurement before a run must last.
pub const BEFORE: Duration = Duration::from_millis(100);
/// How often threads are checked: a thread that is not pinned may have moved to another core.
const LOOK: Duration = Duration::from_millis(250);
/// The busiest period of this length is reported beside the mean of a run.
const PEAK: Duration = Duration::from_secs(1);
/// `/proc/stat` counts ticks, so for each core the count may be off by this many.
const BLUR_TICKS: f64 = 2.0;

/// What other programs used of a core.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CoreUse {
    pub core: u32,
    /// Percent of the core's time, steal included.
    pub percent: f64,
    pub steal_percent: f64,
    /// The same in the worst second, and when that was, in seconds from the start.
    pub peak_percent: f64,
    pub peak_at: f64,
}

/// What other programs used of all cores of a test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Others {
    /// Percent that they may use.
    pub limit: f64,
    /// How long the measurements before and during the run lasted, in seconds.
    pub before_seconds: f64,
    pub seconds: f64,
    pub before: Vec<CoreUse>,
    pub during: Vec<CoreUse>,
}

impl Others {
    fn worst(&self, of: fn(&CoreUse) -> f64) -> Option<&CoreUse> {
        self.during.iter().max_by(|a, b| of(a).total_cmp(&of(b)))
    }

    /// The error of a figure, in percent.
    fn blur(seconds: f64) -> f64 {
        100.0 * BLUR_TICKS / clock_ticks_per_second() as f64 / seconds.max(f64::MIN_POSITIVE)
    }

    /// Why the figures of the run show the machine and not the device: other programs used more of a core than allowed.
    pub fn excess(&self) -> Option<String> {
        let worst = self.worst(|core| core.percent)?;
        let is_much = worst.percent - Others::blur(self.seconds) > self.limit;
        is_much.then(|| format!("{:.0} % of core {} was used by others", worst.percent, worst.core))
    }

    /// The same for a run in which each moment counts: in some second the use was too high.
    pub fn peak_excess(&self) -> Option<String> {
        let worst = self.worst(|core| core.peak_percent)?;
        let is_much = worst.peak_percent - Others::blur(self.seconds.min(PEAK.as_secs_f64())) > self.limit;
        let peak = || {
            format!(
                "{:.0} % of core {} was used by others after {:.0} s",
                worst.peak_percent, worst.core, worst.peak_at
            )
        };
        self.excess().or_else(|| is_much.then(peak))
    }

    /// Of several runs, the one in which other programs used the most.
    pub fn worst_of<'a>(all: impl IntoIterator<Item = &'a Others>) -> Option<&'a Others> {
        let most = |others: &Others| others.worst(|core| core.percent).map_or(-1.0, |core| core.percent);
        all.into_iter().max_by(|a, b| most(a).total_cmp(&most(b)))
    }
}

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.during.is_empty() {
            return f.write_str("Others' use of these cores is not known: /proc/stat does not tell");
        }
        let said = |all: &[CoreUse]| {
            let one = |core: &CoreUse| {
                let steal = match core.steal_percent >= 0.5 {
                    true => format!(" (steal {:.0} %)", core.steal_percent),
                    false => String::new(),
                };
                format!("{:.0} % of core {}{steal}", core.percent, core.core)
            };
            all.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        write!(f, "Others used {} during the test", said(&self.during))?;
        if !self.before.is_empty() {
            write!(f, "; {} before it", said(&self.before))?;
        }
        let peak = self.worst(|core| core.peak_percent).filter(|core| core.peak_percent > core.percent + self.limit);
        if let Some(core) = peak {
            write!(
                f,
                "; {:.0} % of core {} in the worst second, after {:.0} s",
                core.peak_percent, core.core, core.peak_at
            )?;
        }
        Ok(())
    }
}

/// Seconds of a core: used by programs, and taken by a hypervisor.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Used {
    busy: f64,
    steal: f64,
}

/// Parses `/proc/stat`. `tick`: seconds of a tick.
fn used(text: &str, tick: f64) -> BTreeMap<u32, Used> {
    let core = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        let core: u32 = words.next().filter(|_| !line.starts_with("cpu "))?.parse().ok()?;
        let ticks: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
        let at = |n: usize| ticks.get(n).copied().unwrap_or(0.0) * tick;
        // user, nice, system, idle, iowait, irq, softirq, steal.
        Some((core, Used { busy: at(0) + at(1) + at(2), steal: at(7) }))
    };
    text.lines().filter_map(core).collect()
}

/// The core that a thread last ran on, from `/proc/PID/task/TID/stat`.
fn core_of(stat: &str) -> Option<u32> {
    // The name, in parentheses, may contain spaces.
    stat.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()
}

/// Seconds that each thread of a process has run, and the core where it last ran. Includes the programs that it
/// started.
fn threads(process: &Path, left: &mut usize, into: &mut BTreeMap<u64, (f64, Option<u32>)>) {
    let Ok(tasks) = fs::read_dir(process.join("task")) else { return };
    for task in tasks.flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let (path, name) = (task.path(), task.file_name());
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let read = |name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
        let ran = read("schedstat").split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
        if let Some(ran) = ran {
            into.insert(id, (ran / 1e9, core_of(&read("stat"))));
        }
        for child in read("children").split_whitespace() {
            threads(&Path::new("/proc").join(child), left, into);
        }
    }
}

/// Most threads that are examined, so that a program with very many does not stop the test.
const MOST_THREADS: usize = 4096;

/// Use within a period, core by core.
#[derive(Debug, Clone, Default)]
struct Window {
    seconds: f64,
    /// Seconds of other programs, and how many of them are steal.
    cores: BTreeMap<u32, (f64, f64)>,
}

impl Window {
    fn add(&mut self, other: &Window) {
        self.seconds += other.seconds;
        for (core, (others, steal)) in &other.cores {
            let own = self.cores.entry(*core).or_default();
            (own.0, own.1) = (own.0 + others, own.1 + steal);
        }
    }

    fn percent(&self, seconds: f64) -> f64 {
        (100.0 * seconds / self.seconds.max(f64::MIN_POSITIVE)).clamp(0.0, 100.0)
    }
}

/// Measures how other programs use cores.
pub struct OthersMeter {
    cores: Vec<u32>,
    tick: f64,
    looked: Instant,
    used: BTreeMap<u32, Used>,
    threads: BTreeMap<u64, (f64, Option<u32>)>,
    /// Since the last `take`: the whole time, the current second, and the worst second of each core with its end.
    whole: Window,
    second: Window,
    peaks: BTreeMap<u32, (f64, f64)>,
}

impl OthersMeter {
    /// Watches these cores; if a worker is not pinned, all cores of the machine.
    pub fn new(cores: &[Option<u32>]) -> OthersMeter {
        let known: Option<Vec<u32>> = cores.iter().copied().collect();
        let mut cores = known.unwrap_or_else(|| graph::schedule::available_cores().into_iter().collect());
        cores.sort_unstable();
        cores.dedup();
        let mut meter = OthersMeter {
            cores,
            tick: 1.0 / clock_ticks_per_second() as f64,
            looked: Instant::now(),
            used: BTreeMap::new(),
            threads: BTreeMap::new(),
            whole: Window::default(),
            second: Window::default(),
            peaks: BTreeMap::new(),
        };
        meter.look();
        (meter.whole, meter.second) = Default::default();
        meter
    }

    /// How long it has measured since the last `take`.
    pub fn watched(&self) -> Duration {
        Duration::from_secs_f64(self.whole.seconds) + self.looked.elapsed()
    }

    /// Call this regularly.
    pub fn poll(&mut self) {
        if self.looked.elapsed() >= LOOK {
            self.look();
        }
    }

    fn look(&mut self) {
        let fresh = used(&fs::read_to_string("/proc/stat").unwrap_or_default(), self.tick);
        let mut threads_now = BTreeMap::new();
        threads(Path::new("/proc/self"), &mut MOST_THREADS.clone(), &mut threads_now);
        let now = Instant::now();
        let mut own = BTreeMap::<u32, f64>::new();
        for (id, (ran, core)) in &threads_now {
            let (before, was_on) = self.threads.get(id).copied().unwrap_or((0.0, *core));
            // A thread that moved has run on both cores; it is unknown how long on each.
            for core in [was_on, *core].into_iter().flatten() {
                *own.entry(core).or_default() += (ran - before).max(0.0) / 2.0;
            }
        }
        let mut window = Window { seconds: (now - self.looked).as_secs_f64(), cores: BTreeMap::new() };
        for core in &self.cores {
            let (Some(now), Some(before)) = (fresh.get(core), self.used.get(core)) else { continue };
            let steal = (now.steal - before.steal).max(0.0);
            let others = now.busy - before.busy - own.get(core).copied().unwrap_or(0.0) + steal;
            window.cores.insert(*core, (others, steal));
        }
        (self.looked, self.used, self.threads) = (now, fresh, threads_now);
        self.whole.add(&window);
        self.second.add(&window);
        if self.second.seconds >= PEAK.as_secs_f64() {
            self.end_second();
        }
    }

    fn end_second(&mut self) {
        let second = std::mem::take(&mut self.second);
        for (core, (others, _)) in &second.cores {
            let percent = second.percent(*others);
            let peak = self.peaks.entry(*core).or_insert((percent, self.whole.seconds));
            if percent > peak.0 {
                *peak = (percent, self.whole.seconds);
            }
        }
    }

    /// Use since the last `take`, and the length of that time.
    pub fn take(&mut self) -> (Vec<CoreUse>, f64) {
        self.look();
        let (whole, peaks) = (std::mem::take(&mut self.whole), std::mem::take(&mut self.peaks));
        self.second = Window::default();
        let core = |(core, (others, steal)): (&u32, &(f64, f64))| {
            let percent = whole.percent(*others);
            let (peak_percent, peak_at) = peaks.get(core).copied().unwrap_or((percent, whole.seconds));
            let steal_percent = whole.percent(*steal).min(percent);
            CoreUse { core: *core, percent, steal_percent, peak_percent: peak_percent.max(percent), peak_at }
        };
        (whole.cores.iter().map(core).collect(), whole.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(core: u32, percent: f64, peak_percent: f64) -> CoreUse {
        CoreUse { core, percent, steal_percent: 0.0, peak_percent, peak_at: 7.0 }
    }

    fn others(during: &[CoreUse], seconds: f64) -> Others {
        Others { limit: 10.0, before_seconds: 0.1, seconds, before: vec![core(1, 35.0, 35.0)], during: during.to_vec() }
    }

    #[test]
    fn what_the_system_says_is_read() {
        let text = "cpu  30 4 5 6 0 7 8 9 0 0\ncpu0 100 20 50 400 3 7 11 25 60 0\ncpu12 1 2 3 4 5 6 7 8\nintr 5 \
         cpu3\nctxt 7\n";
        let read = used(text, 0.01);
        assert_eq!(read.keys().copied().collect::<Vec<_>>(), [0, 12]);
        assert!((read[&0].busy - 1.7).abs() < 1e-9 && (read[&0].steal - 0.25).abs() < 1e-9);
        assert!((read[&12].busy - 0.06).abs() < 1e-9);
        let stat = "77 (a) R (b) S 1 2 3 0 -1 4194304 100 0 0 0 0 0 0 0 20 0 1 0 73877 3133440 374 1 1 1 1 0 0 0 0 \
         0 0 0 0 0 17 3 0 0 0 0 0";
        assert_eq!(core_of(stat), Some(3));
        assert_eq!((core_of("77 (cut"), core_of(""), used("", 0.01).len()), (None, None, 0));
    }

    #[test]
    fn more_than_others_may_use_is_told_with_the_core() {
        let busy = others(&[core(0, 2.0, 2.0), core(1, 38.2, 40.0)], 10.0);
        assert_eq!(busy.excess().as_deref(), Some("38 % of core 1 was used by others"));
        assert_eq!(
            busy.to_string(),
            "Others used 2 % of core 0, 38 % of core 1 during the test; 35 % of core 1 before it"
        );
        assert_eq!(others(&[core(0, 9.0, 9.0)], 10.0).excess(), None);
        // In a fifth of a second, a tick or two are ten percent.
        assert_eq!(others(&[core(0, 19.0, 19.0)], 0.2).excess(), None);
        assert!(others(&[core(0, 23.0, 23.0)], 0.2).excess().is_some());
        assert_eq!(Others { limit: 100.0, ..others(&[core(0, 100.0, 100.0)], 10.0) }.excess(), None);
        assert_eq!(Others::default().excess(), None);
        let brief = others(&[core(0, 3.0, 60.0)], 600.0);
        assert_eq!(
            (brief.excess(), brief.peak_excess().as_deref()),
            (None, Some("60 % of core 0 was used by others after 7 s"))
        );
        assert!(brief.to_string().ends_with("; 60 % of core 0 in the worst second, after 7 s"), "{brief}");
        let all = [brief, busy.clone()];
        assert_eq!(Others::worst_of(&all), Some(&busy));
    }

    #[test]
    fn the_time_of_our_own_threads_is_not_others() {
        let mut meter = OthersMeter::new(&[None]);
        // One busy thread for each core: other programs can use only what they really take from us.
        let cores = graph::schedule::available_cores().len();
        let end = Instant::now() + Duration::from_millis(600);
        std::thread::scope(|scope| {
            for _ in 0..cores {
                scope.spawn(|| while Instant::now() < end {});
            }
            while Instant::now() < end - Duration::from_millis(50) {
                std::thread::sleep(Duration::from_millis(20));
                meter.poll();
            }
            let (seen, seconds) = meter.take();
            assert_eq!(seen.len(), cores);
            assert!((0.4..60.0).contains(&seconds), "{seconds}");
            // Our threads had all of our time, so other programs had what our threads had not.
            let own: f64 = meter.threads.values().map(|(ran, _)| ran).sum();
            let others: f64 = seen.iter().map(|core| core.percent / 100.0 * seconds).sum();
            let all = cores as f64 * seconds;
            assert!(own + others > 0.5 * all && others < all - 0.2 * own.min(all), "{own} {others} {all}");
        });
    }
}
