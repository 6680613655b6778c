//! `show version`, `show plugins`: what this program is and what is in it.

use super::VERSION;
use command::{Args, Command, CommandSet, reply};
use router::Router;
use serde::Serialize;
use std::fmt;
use std::fs;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "show version [verbose]",
            "Show the version of this program.",
            |router: &mut Router, args: &Args| {
                reply(ShowVersion {
                    verbose: args.flag("verbose") || args.flag("cmdline"),
                    version: VERSION,
                    commit: router.commit,
                    build: if cfg!(debug_assertions) { "debug" } else { "release" },
                    target: format!("{} {}", std::env::consts::ARCH, std::env::consts::OS),
                    kernels: format!("{:?}", wire::batch::Simd::detected()).to_lowercase(),
                    pid: std::process::id(),
                    command_line: command_line(),
                })
            },
        )
        .also("show version {{ [verbose] | [cmdline] }}"),
    );
    set.add(Command::new(
        "show plugins",
        "Show the capabilities that are built in.",
        |router: &mut Router, _: &Args| {
            let shown = router.capabilities().iter().filter(|capability| !capability.description.is_empty());
            let built_in = shown.map(|capability| BuiltIn {
                name: capability.name,
                version: VERSION,
                description: capability.description,
            });
            reply(ShowPlugins { plugins: [], built_in: built_in.collect() })
        },
    ));
}

/// How the process was started (proc_pid_cmdline(5)).
fn command_line() -> String {
    let words = fs::read("/proc/self/cmdline").unwrap_or_default();
    String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ")
}

#[derive(Serialize)]
struct ShowVersion {
    #[serde(skip)]
    verbose: bool,
    version: &'static str,
    /// Empty: not known.
    commit: &'static str,
    build: &'static str,
    target: String,
    kernels: String,
    pid: u32,
    command_line: String,
}

impl fmt::Display for ShowVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commit = if self.commit.is_empty() { String::new() } else { format!(", commit {}", self.commit) };
        if !self.verbose {
            return writeln!(f, "quiver v{}{commit}", self.version);
        }
        writeln!(f, "{:<26}quiver v{}{commit}", "Version:", self.version)?;
        writeln!(f, "{:<26}{} ({})", "Build:", self.build, self.target)?;
        writeln!(f, "{:<26}{}", "Kernels:", self.kernels)?;
        writeln!(f, "{:<26}{}", "Command line:", self.command_line)?;
        writeln!(f, "{:<26}{}", "Current PID:", self.pid)
    }
}

#[derive(Serialize)]
struct BuiltIn {
    name: &'static str,
    version: &'static str,
    description: &'static str,
}

#[derive(Serialize)]
struct ShowPlugins {
    /// None can be loaded in this version.
    plugins: [(); 0],
    built_in: Vec<BuiltIn>,
}

impl fmt::Display for ShowPlugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "     {:<41}{:<33}Description", "Plugin", "Version")?;
        writeln!(f, "No plugins are loaded. Built in:")?;
        for (number, BuiltIn { name, version, description }) in self.built_in.iter().enumerate() {
            writeln!(f, "{:>3}. {name:<41}{version:<33}{description}", number + 1)?;
        }
        Ok(())
    }
}
