//! `show unix files`: what the process has open, and which worker waits on it.

use command::table::{Align, Table};
use command::{Args, Command, CommandError, CommandSet, Reply, reply};
use graph::worker::thread_name;
use router::Router;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::os::fd::RawFd;

/// Most descriptors that are listed.
const MOST: usize = 1024;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(Command::new(
        "show unix files",
        "Show open file descriptors, their purpose and the thread that waits on each.",
        |router: &mut Router, _: &Args| show(router),
    ));
}

fn show(router: &Router) -> Result<Box<dyn Reply>, CommandError> {
    let failed = |error| CommandError::new(format!("show unix files: /proc/self/fd: {error}"));
    let numbers = fs::read_dir("/proc/self/fd").map_err(failed)?.flatten();
    let mut numbers: Vec<RawFd> = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    let total = numbers.len();
    numbers.truncate(MOST);
    let (watched, sockets) = (watched(router), unix_sockets());
    let files = numbers.into_iter().filter_map(|fd| {
        // The descriptor of this listing itself is closed by now, and skipped.
        let file = fs::read_link(format!("/proc/self/fd/{fd}")).ok()?.to_string_lossy().into_owned();
        let (thread, purpose) = watched.get(&fd).cloned().unzip();
        let description = purpose.or_else(|| socket_path(&file, &sockets)).or_else(|| host_interface(fd, &file));
        Some(OpenFile { fd, thread, file, description: description.unwrap_or_default() })
    });
    reply(ShowFiles { files: files.collect(), not_shown: total.saturating_sub(MOST) })
}

/// Descriptors that wake workers: thread and purpose.
fn watched(router: &Router) -> HashMap<RawFd, (usize, String)> {
    let bell = |thread| (router.graph.bell(thread), (thread + 1, format!("control wakes {}", thread_name(thread))));
    let bells = (0..router.graph.workers()).map(bell);
    let queues = router.interfaces.iter().flat_map(|interface| {
        interface.receive_queues.iter().enumerate().filter_map(move |(number, queue)| {
            let purpose = format!("{} queue {number} ({})", interface.name, interface.input_node);
            Some((queue.descriptor?, (queue.thread + 1, purpose)))
        })
    });
    bells.chain(queues).collect()
}

/// Paths of the system's Unix sockets by inode (proc_net(5)).
fn unix_sockets() -> HashMap<String, String> {
    let table = fs::read_to_string("/proc/self/net/unix").unwrap_or_default();
    let row = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(6);
        Some((words.next()?.to_string(), words.next()?.to_string()))
    };
    table.lines().skip(1).filter_map(row).collect()
}

fn socket_path(file: &str, sockets: &HashMap<String, String>) -> Option<String> {
    sockets.get(file.strip_prefix("socket:[")?.strip_suffix(']')?).cloned()
}

/// The host's end of a TAP, as the kernel reports it.
fn host_interface(fd: RawFd, file: &str) -> Option<String> {
    if file != "/dev/net/tun" {
        return None;
    }
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let name = info.lines().find_map(|line| line.strip_prefix("iff:"))?.trim();
    Some(format!("host interface {name}"))
}

#[derive(Serialize)]
struct OpenFile {
    fd: RawFd,
    /// The worker that waits on it, from 1.
    thread: Option<usize>,
    file: String,
    description: String,
}

#[derive(Serialize)]
struct ShowFiles {
    files: Vec<OpenFile>,
    not_shown: usize,
}

impl fmt::Display for ShowFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(" ")
            .column("FD", Align::Right, 5)
            .column("Thread", Align::Right, 6)
            .column("File Name", Align::Left, 32)
            .column("Description", Align::Left, 0);
        for file in &self.files {
            let thread = file.thread.map_or(String::new(), |thread| thread.to_string());
            table.row([file.fd.to_string(), thread, file.file.clone(), file.description.clone()]);
        }
        write!(f, "{table}")?;
        if self.not_shown > 0 {
            writeln!(f, "and {} more", self.not_shown)?;
        }
        Ok(())
    }
}
