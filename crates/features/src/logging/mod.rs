//! The log: what deserves an operator's attention, with VPP's commands.
//!
//! Code calls the `log` facade; [`Logging::class_of`] maps the calling module to a *class* (`arp`, `cli`, `tap`).
//! [`Logging`] holds the settings of each class and the last entries. It belongs to a router, and the program that
//! runs the router installs the code that feeds it and writes it out. So a second router in the same process does not
//! touch the first one's log.
//!
//! No worker calls this on its packet path: workers count instead.

mod class;
pub mod cli;
pub(crate) mod config;
mod level;
mod ring;
mod throttle;
mod timestamp;

pub use level::Level;
pub use ring::Entry;
pub use timestamp::Timestamp;

use class::Modules;
use ring::Ring;
use router::Router;
use router::capability::{Description, List, Part, Phase};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant, SystemTime};
use throttle::{Throttle, Verdict};

pub const CAPABILITY: Description = Description {
    name: "logging",
    log_classes: &[("logging", "logging")],
    start: |starting| {
        starting.own(Arc::new(Logging::new(starting.capabilities)));
        Ok(())
    },
    commands: cli::register,
    statements: &[(Phase::Log, Part::Few(config::statements))],
    values: &[("class", |router| of(router).class_names())],
    ..Description::NONE
};

/// The log of a router; the program that runs the router feeds it.
pub fn of(router: &Router) -> &Arc<Logging> {
    router.state()
}

/// By default, how many entries are kept; then the fewest and most.
pub const DEFAULT_SIZE: u32 = 512;
pub const SIZES: std::ops::RangeInclusive<u32> = 16..=65_536;
/// By default, entries a second of one class.
pub const DEFAULT_RATE_LIMIT: u32 = 50;
/// By default, how long a class is silent after it exceeded its rate limit.
pub const DEFAULT_THROTTLE_TIME: Duration = Duration::from_secs(5);
/// Most classes: modules without a listed class may add theirs.
const MAXIMUM_CLASSES: usize = 256;

/// Set by the start-up configuration, or by a command. Zero stands for neither.
#[derive(Default)]
struct Setting {
    startup: AtomicU32,
    command: AtomicU32,
}

impl Setting {
    /// The value in force: the command's, else the start-up configuration's.
    fn get(&self) -> Option<u32> {
        let set = |place: &AtomicU32| Some(place.load(Ordering::Relaxed)).filter(|value| *value != 0);
        set(&self.command).or_else(|| set(&self.startup))
    }

    fn by_command(&self) -> Option<u32> {
        Some(self.command.load(Ordering::Relaxed)).filter(|value| *value != 0)
    }
}

/// The settings and the throttle of one class.
#[derive(Default)]
struct Class {
    level: Setting,
    syslog_level: Setting,
    rate_limit: Setting,
    throttle: Mutex<Throttle>,
}

/// The origin of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// From `startup.conf`. It applies again after a restart, so it is not part of the running configuration.
    Startup,
    Command,
}

impl Setting {
    fn set(&self, by: By, value: Option<u32>) {
        let place = match by {
            By::Startup => &self.startup,
            By::Command => &self.command,
        };
        place.store(value.unwrap_or(0), Ordering::Relaxed);
    }
}

/// The settings of a class to change; `None` inside resets to the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSettings {
    pub level: Option<Option<Level>>,
    pub syslog_level: Option<Option<Level>>,
    /// Entries a second.
    pub rate_limit: Option<Option<u32>>,
}

/// A class that is not known.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no log class '{name}'{meant} (show logging configuration lists them)")]
pub struct NoSuchClass {
    name: String,
    meant: String,
}

/// How far the log's writer is, for `show logging configuration`.
#[derive(Default)]
pub struct Writing {
    waiting: AtomicU64,
    lost: AtomicU64,
}

impl Writing {
    /// Sets how many lines are pending, and how many were dropped and are not reported yet.
    pub fn set(&self, waiting: u64, lost: u64) {
        self.waiting.store(waiting, Ordering::Release);
        self.lost.store(lost, Ordering::Release);
    }

    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Acquire)
    }

    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Acquire)
    }
}

/// Levels, limits and the last entries.
pub struct Logging {
    /// Updated by the writer of the lines.
    pub writing: Arc<Writing>,
    default_level: AtomicU8,
    /// Zero: all that is kept is written.
    default_syslog_level: AtomicU8,
    size: Setting,
    /// Milliseconds plus one, so that zero means that none is set.
    throttle_time: Setting,
    classes: RwLock<BTreeMap<String, Class>>,
    ring: Mutex<Ring>,
    modules: Modules,
}

impl Logging {
    pub fn new(capabilities: List) -> Logging {
        let modules = Modules::of(capabilities);
        let classes = modules.classes().map(|name| (name.to_string(), Class::default()));
        Logging {
            writing: Arc::default(),
            default_level: AtomicU8::new(Level::Notice as u8),
            default_syslog_level: AtomicU8::new(0),
            size: Setting::default(),
            throttle_time: Setting::default(),
            classes: RwLock::new(classes.collect()),
            ring: Mutex::new(Ring::new(DEFAULT_SIZE as usize)),
            modules,
        }
    }

    /// The class of a log target: a module path, or the name of a class itself.
    pub fn class_of<'a>(&self, target: &'a str) -> &'a str {
        self.modules.class(target)
    }

    fn classes(&self) -> RwLockReadGuard<'_, BTreeMap<String, Class>> {
        // The map is consistent at every moment, even if a thread panicked.
        self.classes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The level that is kept of classes without a level of their own.
    pub fn default_level(&self) -> Level {
        Level::from_number(self.default_level.load(Ordering::Relaxed).into()).unwrap_or(Level::Notice)
    }

    pub fn set_default_level(&self, level: Level) {
        self.default_level.store(level as u8, Ordering::Relaxed);
    }

    /// The level that is written of classes without one of their own; `None`: all that is kept.
    pub fn default_syslog_level(&self) -> Option<Level> {
        Level::from_number(self.default_syslog_level.load(Ordering::Relaxed).into())
    }

    pub fn set_default_syslog_level(&self, level: Option<Level>) {
        self.default_syslog_level.store(level.map_or(0, |level| level as u8), Ordering::Relaxed);
    }

    fn level_of(&self, class: Option<&Class>) -> Level {
        class.and_then(|class| Level::from_number(class.level.get()?)).unwrap_or_else(|| self.default_level())
    }

    fn syslog_level_of(&self, class: Option<&Class>) -> Option<Level> {
        let own = class.and_then(|class| Level::from_number(class.syslog_level.get()?));
        own.or_else(|| self.default_syslog_level())
    }

    /// Whether a message of this level and class is kept.
    pub fn keeps(&self, class: &str, level: Level) -> bool {
        level.is_within(self.level_of(self.classes().get(class)))
    }

    /// Whether what is kept is written out, too.
    pub fn writes(&self, class: &str, level: Level) -> bool {
        self.syslog_level_of(self.classes().get(class)).is_none_or(|most| level.is_within(most))
    }

    fn throttle_time(&self) -> Duration {
        self.throttle_time.get().map_or(DEFAULT_THROTTLE_TIME, |more| Duration::from_millis(u64::from(more - 1)))
    }

    /// Keeps a message, unless its class does not keep its level or exceeds its rate limit. Returns the entries to be
    /// written: the message, and before it, if any were suppressed, how many.
    pub fn record(&self, class: &str, level: Level, text: &str) -> Vec<Entry> {
        self.record_at(SystemTime::now(), Instant::now(), class, level, text)
    }

    /// [`Logging::record`] at a given time, so that tests need not sleep.
    fn record_at(&self, time: SystemTime, now: Instant, class: &str, level: Level, text: &str) -> Vec<Entry> {
        if !self.keeps(class, level) {
            return Vec::new();
        }
        let entry = |level, text: &str| Entry::new(time, level, class, text);
        let written = match self.throttle(class, now, text) {
            Verdict::Pass => vec![entry(level, text)],
            Verdict::PassAfter(suppressed) => {
                let summary = format!("{suppressed} messages of this class were suppressed");
                vec![entry(Level::Warning, &summary), entry(level, text)]
            }
            Verdict::Suppress => return Vec::new(),
        };
        let mut ring = self.ring();
        for entry in &written {
            ring.push(entry.clone());
        }
        written
    }

    fn throttle(&self, class: &str, now: Instant, text: &str) -> Verdict {
        let time = self.throttle_time();
        let judge = |class: &Class| {
            let limit = class.rate_limit.get().unwrap_or(DEFAULT_RATE_LIMIT);
            class.throttle.lock().unwrap_or_else(PoisonError::into_inner).judge(now, text, limit, time)
        };
        if let Some(class) = self.classes().get(class) {
            return judge(class);
        }
        let mut classes = self.classes.write().unwrap_or_else(PoisonError::into_inner);
        if classes.len() >= MAXIMUM_CLASSES {
            return Verdict::Pass;
        }
        judge(classes.entry(class.to_string()).or_default())
    }

    /// The last entries, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        self.ring().entries().cloned().collect()
    }

    /// Classes that are suppressed now, each with the number of messages.
    pub fn suppressed(&self) -> Vec<(String, u64)> {
        let count = |class: &Class| class.throttle.lock().unwrap_or_else(PoisonError::into_inner).suppressed();
        let counts = self.classes().iter().map(|(name, class)| (name.clone(), count(class))).collect::<Vec<_>>();
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        self.ring().clear();
    }

    /// The most entries that are kept.
    pub fn size(&self) -> u32 {
        self.size.get().unwrap_or(DEFAULT_SIZE)
    }

    /// Sets how many entries are kept; `None` resets to the default.
    pub fn set_size(&self, by: By, size: Option<u32>) {
        self.size.set(by, size.map(|size| size.clamp(*SIZES.start(), *SIZES.end())));
        self.ring().resize(self.size() as usize);
    }

    /// Sets how long a class is silent after it exceeded its rate limit; `None` resets to the default.
    pub fn set_throttle_time(&self, by: By, time: Option<Duration>) {
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX - 1).min(u32::MAX - 1);
        self.throttle_time.set(by, time.map(|time| millis(time) + 1));
    }

    /// Sets the levels and the rate limit of a class.
    ///
    /// # Errors
    /// When there is no such class.
    pub fn set_class(&self, by: By, name: &str, settings: ClassSettings) -> Result<(), NoSuchClass> {
        let classes = self.classes();
        let class = classes.get(name).ok_or_else(|| {
            let likely = command::nearest::likely(name, classes.keys().map(String::as_str));
            let meant = likely.map_or(String::new(), |likely| format!("; did you mean '{likely}'?"));
            NoSuchClass { name: name.into(), meant }
        })?;
        let number = |level: Option<Level>| level.map(|level| level as u32);
        if let Some(level) = settings.level {
            class.level.set(by, number(level));
        }
        if let Some(level) = settings.syslog_level {
            class.syslog_level.set(by, number(level));
        }
        if let Some(limit) = settings.rate_limit {
            class.rate_limit.set(by, limit);
        }
        Ok(())
    }

    /// The names of all classes.
    pub fn class_names(&self) -> Vec<String> {
        self.classes().keys().cloned().collect()
    }

    /// The commands that restore what commands have set.
    pub fn configuration(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(size) = self.size.by_command() {
            lines.push(format!("set logging size {size}"));
        }
        if let Some(more) = self.throttle_time.by_command() {
            lines.push(format!("set logging unthrottle-time {}", (more - 1) / 1000));
        }
        for (name, class) in self.classes().iter() {
            let mut words = String::new();
            let level = |setting: &Setting| Level::from_number(setting.by_command()?);
            if let Some(level) = level(&class.level) {
                words += &format!(" level {level}");
            }
            if let Some(level) = level(&class.syslog_level) {
                words += &format!(" syslog-level {level}");
            }
            if let Some(limit) = class.rate_limit.by_command() {
                words += &format!(" rate-limit {limit}");
            }
            if !words.is_empty() {
                lines.push(format!("set logging class {name}{words}"));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests;
