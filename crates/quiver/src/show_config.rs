//! `show config`: what the program was started with.

use command::{Args, Command, CommandSet, reply};
use router::Router;
use serde::Serialize;
use startup::{Setting, StartupConfig};
use std::fmt;
use std::path::Path;

/// Adds the command. It shows a configuration that does not change any more.
pub fn register(set: &mut CommandSet<Router>, config: &StartupConfig, file: Option<&Path>) {
    let shown = ShowConfig {
        file: file.map(|file| file.display().to_string()),
        settings: config.settings(),
        without_effect: config.warnings.clone(),
    };
    set.section(
        "The process",
        "The start-up configuration, `startup.conf`, is read once. Later commands change the running configuration.",
    );
    set.add(Command::new(
        "show config",
        "Show the start-up configuration in force, with the line of each setting.",
        move |_: &mut Router, _: &Args| reply(shown.clone()),
    ));
}

#[derive(Clone, Serialize)]
struct ShowConfig {
    /// `None`: no file, all by default.
    file: Option<String>,
    settings: Vec<Setting>,
    /// What was read and does nothing in this version, as sentences.
    without_effect: Vec<String>,
}

impl fmt::Display for ShowConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.file.as_deref().unwrap_or("no file: all by default"))?;
        let mut section = "";
        for setting in &self.settings {
            if setting.section != section {
                section = setting.section;
                writeln!(f, "{section}")?;
            }
            let from = setting.line.map_or("default".into(), |line| format!("line {line}"));
            writeln!(f, "  {:<28}{:<36}{from}", setting.key, setting.value)?;
        }
        self.without_effect.iter().try_for_each(|sentence| writeln!(f, "{sentence}"))
    }
}
