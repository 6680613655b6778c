//! How the system's scheduler treats a thread (sched(7)).
#![allow(unsafe_code)]

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// How the scheduler orders threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The usual policy: threads share the time.
    Other,
    Batch,
    /// Only while no other thread wants to run.
    Idle,
    /// Before threads of all other policies, until it sleeps; 1 to 99, the highest first.
    Fifo(u8),
    /// The same, but takes turns with threads of the same priority.
    RoundRobin(u8),
}

/// Pins the calling thread to a core.
///
/// # Errors
/// When there is no such core, or this process may not use it.
pub fn pin(core: u32) -> io::Result<()> {
    let mut cores = CpuSet::new();
    if core as usize >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    cores.set(core as usize);
    Ok(sched_setaffinity(None, &cores)?)
}

/// Cores that this process may use.
pub fn available_cores() -> Vec<u32> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).map(|core| core as u32).collect()
}

/// Sets the scheduling policy of the calling thread.
///
/// # Errors
/// When the system refuses: without `CAP_SYS_NICE`, for a priority out of range, or where real-time threads have no
/// share of the processor (control groups).
pub fn set_policy(policy: Policy) -> io::Result<()> {
    let (number, priority) = match policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Batch => (libc::SCHED_BATCH, 0),
        Policy::Idle => (libc::SCHED_IDLE, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, priority),
        Policy::RoundRobin(priority) => (libc::SCHED_RR, priority),
    };
    let parameters = libc::sched_param { sched_priority: priority.into() };
    // SAFETY: the kernel reads one `struct sched_param`; thread 0 is the calling one.
    let result = unsafe { libc::sched_setscheduler(0, number, &raw const parameters) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
