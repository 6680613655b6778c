//! What the kernel says of one of our threads (proc_pid_stat(5)).

use serde::Serialize;
use std::fs;

/// A thread, as the scheduler sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Task {
    pub lwp: u32,
    pub name: String,
    /// The processor that it ran on last.
    pub processor: u32,
    /// `other`, `fifo`, `rr`, `batch`, `idle` or `deadline`.
    pub policy: &'static str,
    /// Of the real-time policies, else 0.
    pub priority: u32,
    /// It could run, if it had a core.
    pub is_runnable: bool,
    /// Processor time that it has had, in the system's ticks.
    pub used: u64,
}

impl Task {
    /// A thread of this process. None: there is no such thread.
    pub fn of(lwp: u32) -> Option<Task> {
        Task::parse(lwp, &fs::read_to_string(format!("/proc/self/task/{lwp}/stat")).ok()?)
    }

    /// The thread that asks.
    pub fn current() -> Option<Task> {
        let link = fs::read_link("/proc/thread-self").ok()?;
        Task::of(link.file_name()?.to_str()?.parse().ok()?)
    }

    /// `PID (NAME) STATE ...`; a name may hold spaces and brackets.
    fn parse(lwp: u32, stat: &str) -> Option<Task> {
        let (name, rest) = (stat.split_once('(')?.1).rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Fields are numbered from 1; `rest` begins with the third.
        let field = |number: usize| fields.get(number - 3)?.parse::<u32>().ok();
        let policy = match field(41)? {
            0 => "other",
            1 => "fifo",
            2 => "rr",
            3 => "batch",
            5 => "idle",
            6 => "deadline",
            _ => "unknown",
        };
        let used = [14, 15].map(|number| fields.get(number - 3)?.parse::<u64>().ok());
        Some(Task {
            lwp,
            name: name.into(),
            processor: field(39)?,
            policy,
            priority: field(40)?,
            is_runnable: fields.first() == Some(&"R"),
            used: used[0]? + used[1]?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_thread_are_found_behind_any_name() {
        let mut stat = String::from("77 (a ) (b) S");
        (4..=52).for_each(|field| stat.push_str(&format!(" {field}")));
        let stat = stat.replace(" 41 42 ", " 1 42 ");
        let task = Task::parse(77, &stat).unwrap();
        assert_eq!(
            task,
            Task {
                lwp: 77,
                name: "a ) (b".into(),
                processor: 39,
                policy: "fifo",
                priority: 40,
                is_runnable: false,
                used: 14 + 15,
            }
        );
        for cut in ["", "77", "77 (a)", "77 (a) S 1 2 3"] {
            assert_eq!(Task::parse(77, cut), None, "{cut}");
        }
    }

    #[test]
    fn a_thread_knows_itself() {
        let named = std::thread::Builder::new().name("quiver_test".into());
        let task = named.spawn(|| Task::current().unwrap()).unwrap().join().unwrap();
        assert_eq!((task.name.as_str(), task.policy), ("quiver_test", "other"));
        assert_ne!(task.lwp, std::process::id());
    }
}
