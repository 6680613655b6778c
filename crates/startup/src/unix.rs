//! Section `unix`: the process and its surroundings.

use std::path::PathBuf;

use super::reader::{Key, Reading};
use super::tree::{Block, Complaint};
use super::value::Value;
use super::{CLI_SOCKET, default_runtime_directory};

const BUILT_IN: &str = "it is so in any case";

pub(super) const KEYS: &[Key] = &[
    Key::flag("nodaemon"),
    Key::flag("interactive"),
    Key::value("exec", "a file name"),
    Key::value("startup-config", "a file name"),
    Key::value("log", "a file name"),
    Key::value("runtime-dir", "a directory"),
    Key::value("cli-listen", "the path of a Unix socket"),
    Key::value("cli-socket-mode", "an octal mode, like 0660"),
    Key::value("gid", "a group"),
    Key::value("pidfile", "a file name"),
    Key::flag("full-coredump"),
    Key::value("coredump-size", "a size or 'unlimited'"),
    Key::value("crash-dir", "a directory"),
    Key::value("cli-file-root", "a directory"),
    Key::value("cli-prompt", "a prompt"),
    Key::value("cli-history-limit", "a number of lines"),
    Key::value("cli-pager-buffer-limit", "a number of lines"),
    Key::value("cli-idle-timeout", "a number of seconds"),
    Key::flag("cli-no-pager"),
    Key::flag("cli-no-banner"),
    Key::value("poll-sleep-usec", "a number of microseconds"),
    Key::flag("nobanner").idle("there is no banner at start; 'cli-no-banner' is about the one of CLI sessions"),
    Key::flag("nocolor").idle("colours are used on a terminal only, and not when NO_COLOR is set"),
    Key::flag("nosyslog").idle("nothing is sent to syslog; the log goes to 'log FILE' or to standard error"),
    Key::flag("cli-line-mode").idle("a terminal edits lines, anything else is read by the line"),
    Key::flag("use-colors").idle(BUILT_IN),
    Key::flag("use-current-dir"),
];

/// How large a core file may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoredumpSize {
    Unlimited,
    Bytes(u64),
}

/// The process and its surroundings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unix {
    pub nodaemon: bool,
    /// A CLI on standard input; implies `nodaemon`, as in VPP.
    pub interactive: bool,
    /// Commands to carry out at start.
    pub exec: Option<PathBuf>,
    /// The configuration to load at start.
    pub startup_config: Option<PathBuf>,
    pub log: Option<PathBuf>,
    pub runtime_dir: PathBuf,
    pub cli_listen: PathBuf,
    /// Permission bits of the CLI sockets.
    pub cli_socket_mode: u32,
    /// Group of the CLI sockets: a name, or a number.
    pub gid: Option<String>,
    pub pidfile: Option<PathBuf>,
    /// Core files hold all memory, packet buffers included.
    pub full_coredump: bool,
    pub coredump_size: Option<CoredumpSize>,
    /// Where crash reports are written; the runtime directory unless set.
    pub crash_dir: Option<PathBuf>,
    /// Commands may read and write files below this directory only.
    pub cli_file_root: Option<PathBuf>,
    pub cli_prompt: Option<String>,
    /// Lines that a session remembers.
    pub cli_history_limit: Option<u32>,
    /// Lines that a pager keeps.
    pub cli_pager_buffer_limit: Option<u32>,
    /// Seconds after which a silent connection is closed; 0: never.
    pub cli_idle_timeout: Option<u32>,
    pub cli_no_pager: bool,
    pub cli_no_banner: bool,
    /// Microseconds that a polling worker sleeps after an idle poll.
    pub poll_sleep: u32,
}

/// Owner and group may connect. A user who may connect can reconfigure the router.
const SOCKET_MODE: u32 = 0o660;

impl Default for Unix {
    fn default() -> Self {
        let runtime_dir = default_runtime_directory();
        Self {
            nodaemon: false,
            interactive: false,
            exec: None,
            startup_config: None,
            log: None,
            cli_listen: runtime_dir.join(CLI_SOCKET),
            runtime_dir,
            cli_socket_mode: SOCKET_MODE,
            gid: None,
            pidfile: None,
            full_coredump: false,
            coredump_size: None,
            crash_dir: None,
            cli_file_root: None,
            cli_prompt: None,
            cli_history_limit: None,
            cli_pager_buffer_limit: None,
            cli_idle_timeout: None,
            cli_no_pager: false,
            cli_no_banner: false,
            poll_sleep: 0,
        }
    }
}

impl Unix {
    pub(super) fn read(&mut self, block: &Block<'_>, reading: &mut Reading) -> Result<(), Complaint> {
        for given in reading.keys("unix", block, KEYS)? {
            let value = &given.value;
            match given.key {
                "nodaemon" => self.nodaemon = true,
                "interactive" => self.interactive = true,
                "exec" => self.exec = Some(value.path()),
                "startup-config" => self.startup_config = Some(value.path()),
                "log" => self.log = Some(value.path()),
                // As in VPP: the directory in which the process was started.
                "use-current-dir" => self.runtime_dir = PathBuf::from("."),
                "runtime-dir" => self.runtime_dir = value.path(),
                "cli-listen" => self.cli_listen = socket_path(value)?,
                "cli-socket-mode" => self.cli_socket_mode = mode(value)?,
                "gid" => self.gid = Some(value.string()),
                "pidfile" => self.pidfile = Some(value.path()),
                "full-coredump" => self.full_coredump = true,
                "coredump-size" => self.coredump_size = Some(coredump_size(value)?),
                "crash-dir" => self.crash_dir = Some(value.path()),
                "cli-file-root" => self.cli_file_root = Some(value.path()),
                "cli-prompt" => self.cli_prompt = Some(value.string()),
                "cli-history-limit" => self.cli_history_limit = Some(value.number(0, 100_000)?),
                "cli-pager-buffer-limit" => self.cli_pager_buffer_limit = Some(value.number(0, 10_000_000)?),
                "cli-idle-timeout" => self.cli_idle_timeout = Some(value.number(0, 10_000_000)?),
                "cli-no-pager" => self.cli_no_pager = true,
                "cli-no-banner" => self.cli_no_banner = true,
                "poll-sleep-usec" => self.poll_sleep = value.number(0, 1_000_000)?,
                key => unreachable!("key {key} is listed"),
            }
        }
        Ok(())
    }

    /// Checks keys that depend on other keys.
    pub(super) fn finish(&mut self, reading: &Reading) -> Result<(), Complaint> {
        if reading.place("unix cli-listen").is_none() {
            self.cli_listen = self.runtime_dir.join(CLI_SOCKET);
        }
        self.nodaemon |= self.interactive;
        let none = self.coredump_size == Some(CoredumpSize::Bytes(0));
        match reading.place("unix coredump-size").filter(|_| none && self.full_coredump) {
            Some(place) => Err(Complaint::new(place, "'coredump-size 0' contradicts 'full-coredump'")),
            None => Ok(()),
        }
    }
}

fn socket_path(value: &Value<'_>) -> Result<PathBuf, Complaint> {
    match value.text.contains('/') {
        true => Ok(value.path()),
        false => Err(value.complain(
            "the path of a Unix socket, like /run/quiver/cli.sock. The CLI is not served over TCP: whoever reached the \
             port could reconfigure the router, for it asks for no password; from afar use `ssh HOST quiver cli`",
        )),
    }
}

/// Permission bits for owner, group and others; the owner must be able to connect.
fn mode(value: &Value<'_>) -> Result<u32, Complaint> {
    let octal = value.text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    let mode = octal.then(|| u32::from_str_radix(value.text, 8).ok()).flatten();
    mode.filter(|mode| *mode <= 0o777 && mode & 0o600 == 0o600)
        .ok_or_else(|| value.complain("an octal mode from 0600 to 0777 that lets the owner read and write, like 0660"))
}

fn coredump_size(value: &Value<'_>) -> Result<CoredumpSize, Complaint> {
    match value.text {
        "unlimited" => Ok(CoredumpSize::Unlimited),
        _ => value.bytes().map(CoredumpSize::Bytes),
    }
}
