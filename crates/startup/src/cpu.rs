//! Section `cpu`: which threads run where.

use super::MAXIMUM_CORES;
use super::reader::{Key, Reading};
use super::tree::{Block, Complaint};

pub(super) const KEYS: &[Key] = &[
    Key::value("main-core", "a core"),
    Key::value("workers", "a number of workers"),
    Key::value("corelist-workers", "cores, like 1-3,5"),
    Key::value("skip-cores", "a number of cores"),
    Key::value("scheduler-policy", "one of other, batch, idle, fifo, rr"),
    Key::value("scheduler-priority", "a number 1..99"),
    Key::value("coremask-workers", "a mask").idle("say 'corelist-workers' with a list, like 1-3,5"),
    Key::value("corelist-hqos-threads", "cores").idle("there are no such threads"),
    Key::value("coremask-hqos-threads", "a mask").idle("there are no such threads"),
    Key::value("numa-heap-size", "a number of bytes").idle("there is no heap of a fixed size"),
    Key::value("thread-prefix", "a name").idle("data threads are called quiver_wk_N"),
    Key::flag("relative").idle("cores are counted as the system does"),
    Key::flag("use-pthreads").idle("threads are those of the system in any case"),
];

/// How the system's scheduler treats the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerPolicy {
    Other,
    Batch,
    Idle,
    Fifo,
    RoundRobin,
}

/// Which threads run where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    pub main_core: Option<u32>,
    /// Number of workers; that of `corelist_workers` when it is given.
    pub workers: u32,
    /// Cores of the workers in ascending order; empty when they are chosen by number.
    pub corelist_workers: Vec<u32>,
    pub skip_cores: u32,
    /// Of the workers; none: as the process was started.
    pub scheduler_policy: Option<SchedulerPolicy>,
    pub scheduler_priority: Option<u32>,
}

const POLICIES: [(&str, SchedulerPolicy); 5] = [
    ("other", SchedulerPolicy::Other),
    ("batch", SchedulerPolicy::Batch),
    ("idle", SchedulerPolicy::Idle),
    ("fifo", SchedulerPolicy::Fifo),
    ("rr", SchedulerPolicy::RoundRobin),
];

impl Cpu {
    pub(super) fn read(&mut self, block: &Block<'_>, reading: &mut Reading) -> Result<(), Complaint> {
        for given in reading.keys("cpu", block, KEYS)? {
            let value = &given.value;
            match given.key {
                "main-core" => self.main_core = Some(value.core()?),
                "workers" => self.workers = value.core()?,
                "corelist-workers" => self.corelist_workers = value.cores()?,
                "skip-cores" => self.skip_cores = value.core()?,
                "scheduler-policy" => self.scheduler_policy = Some(value.one_of(&POLICIES)?),
                "scheduler-priority" => self.scheduler_priority = Some(value.number(1, 99)?),
                key => unreachable!("key {key} is listed"),
            }
        }
        Ok(())
    }

    /// Checks what spans keys, and counts the workers.
    pub(super) fn finish(&mut self, reading: &mut Reading) -> Result<(), Complaint> {
        let against = |key: &str, message: String| match reading.place(key) {
            Some(place) => Err(Complaint::new(place, message)),
            None => Ok(()),
        };
        if reading.place("cpu corelist-workers").is_some() {
            let listed = u32::try_from(self.corelist_workers.len()).unwrap_or(MAXIMUM_CORES);
            if self.workers != listed {
                against(
                    "cpu workers",
                    format!("'workers {}' contradicts 'corelist-workers', which lists {listed} cores", self.workers),
                )?;
            }
            against("cpu skip-cores", "'skip-cores' contradicts 'corelist-workers': the list says which cores".into())?;
            self.workers = listed;
            if let Some(core) = self.main_core.filter(|core| self.corelist_workers.contains(core)) {
                against(
                    "cpu corelist-workers",
                    format!("core {core} of 'corelist-workers' is the 'main-core' already"),
                )?;
            }
        }
        let real_time = matches!(self.scheduler_policy, Some(SchedulerPolicy::Fifo | SchedulerPolicy::RoundRobin));
        if !real_time {
            against("cpu scheduler-priority", "'scheduler-priority' needs 'scheduler-policy' fifo or rr".into())?;
        }
        Ok(())
    }
}
