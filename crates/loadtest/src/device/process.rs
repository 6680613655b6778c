//! Programs that are started for a test and end with it.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take to exit after it is asked to.
const PATIENCE: Duration = Duration::from_secs(3);
/// Bytes of its output that are reported when it exits too early.
const WORDS: u64 = 500;
/// Bytes at the start of its output that are searched.
const MOST_SEARCHED: usize = 16 << 10;

/// A running program; dropping it ends it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    output: File,
}

impl Process {
    /// Starts a program. Its output goes to a file without a name.
    ///
    /// # Errors
    /// When it cannot be started, with the reason.
    pub fn start(mut command: Command) -> Result<Process, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let wrong = |error: std::io::Error| format!("{name}: {error}");
        let output = rustix::fs::memfd_create("output", rustix::fs::MemfdFlags::CLOEXEC);
        let output = File::from(output.map_err(|error| wrong(error.into()))?);
        let (out, err) = (output.try_clone().map_err(wrong)?, output.try_clone().map_err(wrong)?);
        // ^C at the terminal is for the load tester, which ends its programs itself.
        let child = command.process_group(0).stdin(Stdio::null()).stdout(out).stderr(err).spawn().map_err(wrong)?;
        Ok(Process { name, child, output })
    }

    /// Fails if the program has exited without being asked to.
    ///
    /// # Errors
    /// Its exit code and the end of its output.
    pub fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(Some(status)) => {
                let words = self.words();
                Err(format!("{} ended with {status}: {words}", self.name))
            }
            Ok(None) => Ok(()),
            Err(error) => Err(format!("{}: {error}", self.name)),
        }
    }

    /// The first line of its output so far that contains a word.
    pub fn line_with(&self, word: &str) -> Option<String> {
        let mut text = vec![0; MOST_SEARCHED];
        let n = std::os::unix::fs::FileExt::read_at(&self.output, &mut text, 0).ok()?;
        let text = String::from_utf8_lossy(&text[..n]);
        text.lines().find(|line| line.contains(word)).map(String::from)
    }

    fn words(&mut self) -> String {
        let mut text = Vec::new();
        let length = self.output.metadata().map_or(0, |metadata| metadata.len());
        if self.output.seek(SeekFrom::Start(length.saturating_sub(WORDS))).is_ok() {
            let _ = self.output.by_ref().take(WORDS).read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).trim().replace('\n', "; ")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program until it exits.
///
/// # Errors
/// Its output, when it failed.
pub fn done(program: &str, arguments: &[&str]) -> Result<(), String> {
    let said = format!("'{program} {}'", arguments.join(" "));
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{said}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{said}: {}", String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_until_it_is_dropped_and_its_last_words_are_told() {
        let mut sleeps = Command::new("sleep");
        sleeps.arg("60");
        let mut process = Process::start(sleeps).unwrap();
        assert_eq!(process.check(), Ok(()));
        let pid = process.child.id();
        drop(process);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
        let mut fails = Command::new("sh");
        fails.args(["-c", "echo no luck >&2; exit 3"]);
        let mut process = Process::start(fails).unwrap();
        let end = Instant::now() + PATIENCE;
        while process.check().is_ok() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let said = process.check().unwrap_err();
        assert!(said.contains("exit status: 3") && said.ends_with("no luck"), "{said}");
        assert!(Process::start(Command::new("/no/such/program")).unwrap_err().starts_with("/no/such/program: "));
        assert!(done("sh", &["-c", "echo why >&2; exit 1"]).unwrap_err().ends_with(": why"));
    }
}
