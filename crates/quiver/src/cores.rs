//! Which thread runs on which core.

use graph::schedule::{self, Policy};
use startup::{Cpu, SchedulerPolicy};

/// The core of each worker, by the section `cpu`; none: the system chooses.
pub fn of_workers(cpu: &Cpu, workers: usize) -> Vec<Option<u32>> {
    let cores = plan(cpu, &schedule::available_cores(), workers);
    let without = cores.iter().filter(|core| core.is_none()).count();
    if cpu.workers > 0 && without > 0 {
        log::warn!("cpu: there are too few cores: {without} of {workers} workers run on any");
    }
    cores
}

/// The cores of the list, if one was given. If a number was given: the first available cores after those to be skipped,
/// without the core of the main thread.
fn plan(cpu: &Cpu, available: &[u32], workers: usize) -> Vec<Option<u32>> {
    let mut cores: Vec<Option<u32>> = if !cpu.corelist_workers.is_empty() {
        cpu.corelist_workers.iter().copied().map(Some).collect()
    } else if cpu.workers > 0 {
        let free = available.iter().copied().filter(|core| cpu.main_core != Some(*core));
        free.skip(cpu.skip_cores as usize).map(Some).collect()
    } else {
        Vec::new()
    };
    cores.resize(workers, None);
    cores
}

/// Pins the calling thread to a core, if one is given.
pub fn pin(what: &str, core: Option<u32>) {
    let Some(core) = core else { return };
    if let Err(error) = schedule::pin(core) {
        log::warn!("{what} is not kept on core {core}: {error}");
    }
}

/// Sets the scheduling policy of the calling worker, by the section `cpu`.
pub fn schedule(what: &str, cpu: &Cpu) {
    let Some(chosen) = cpu.scheduler_policy else { return };
    // The configuration has checked its range.
    let priority = cpu.scheduler_priority.map_or(1, |priority| priority as u8);
    let policy = match chosen {
        SchedulerPolicy::Other => Policy::Other,
        SchedulerPolicy::Batch => Policy::Batch,
        SchedulerPolicy::Idle => Policy::Idle,
        SchedulerPolicy::Fifo => Policy::Fifo(priority),
        SchedulerPolicy::RoundRobin => Policy::RoundRobin(priority),
    };
    match schedule::set_policy(policy) {
        Err(error) => log::warn!("{what} is scheduled as before: cpu: scheduler-policy: {error}"),
        Ok(()) if matches!(policy, Policy::Fifo(_) | Policy::RoundRobin(_)) => warn_of_throttling(what),
        Ok(()) => {}
    }
}

/// By default, Linux stops real-time threads that never sleep for 50 ms each second (sched(7)). That affects a worker
/// that polls, or is busy.
fn warn_of_throttling(what: &str) {
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/sched_rt_{name}_us")).ok()?.trim().parse().ok();
    if let (Some(runtime), Some(period)) = (read("runtime"), read("period"))
        && (0..period).contains(&runtime)
    {
        let pause: i64 = (period - runtime) / 1000;
        log::warn!(
            "{what}: Linux stops real-time threads for {pause} ms in every {} ms that they do not sleep: 'sysctl \
             kernel.sched_rt_runtime_us=-1' ends that",
            period / 1000
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(cpu: Cpu, workers: usize) -> Vec<Option<u32>> {
        plan(&cpu, &[0, 1, 2, 5], workers)
    }

    #[test]
    fn workers_get_cores_as_they_were_asked_for() {
        let cpu = Cpu::default;
        assert_eq!(planned(cpu(), 1), [None], "the one data thread runs anywhere");
        assert_eq!(planned(Cpu { corelist_workers: vec![3, 7], workers: 2, ..cpu() }, 2), [Some(3), Some(7)]);
        assert_eq!(planned(Cpu { workers: 2, ..cpu() }, 2), [Some(0), Some(1)]);
        assert_eq!(planned(Cpu { workers: 2, main_core: Some(0), ..cpu() }, 2), [Some(1), Some(2)]);
        assert_eq!(planned(Cpu { workers: 2, skip_cores: 1, main_core: Some(1), ..cpu() }, 2), [Some(2), Some(5)]);
        assert_eq!(planned(Cpu { workers: 3, skip_cores: 2, ..cpu() }, 3), [Some(2), Some(5), None]);
    }
}
