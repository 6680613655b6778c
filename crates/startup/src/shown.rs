//! The configuration as it is in force, setting by setting, with where each comes from.

use super::idle;
use super::section::Settings;
use super::{LogLevel, PageSize, StartupConfig};
use serde::Serialize;
use std::path::Path;

/// One setting in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    pub section: &'static str,
    pub key: String,
    pub value: String,
    /// Where it is given; `None`: by default.
    pub line: Option<usize>,
}

impl StartupConfig {
    /// The settings in force, those that no file gave included.
    pub fn settings(&self) -> Vec<Setting> {
        let mut settings = self.of_unix();
        settings.extend(self.of_the_rest());
        for (name, given) in &self.sections {
            if idle::SECTIONS.iter().all(|section| section.name != *name) {
                of_capability(name, "", given, &mut settings);
            }
        }
        settings
    }

    fn setting(&self, section: &'static str, key: &'static str, value: impl ToString) -> Setting {
        let place = self.places.keys.get(&format!("{section} {key}"));
        Setting { section, key: key.into(), value: value.to_string(), line: place.map(|(line, _)| *line) }
    }

    fn of_unix(&self) -> Vec<Setting> {
        let unix = &self.unix;
        let path = |path: &Option<std::path::PathBuf>| path.as_deref().map_or("none".into(), shown);
        let count = |number: Option<u32>| number.map_or("default".to_string(), |number| number.to_string());
        let crash_dir = unix.crash_dir.as_ref().unwrap_or(&unix.runtime_dir);
        let pairs = [
            ("nodaemon", on_off(unix.nodaemon)),
            ("interactive", on_off(unix.interactive)),
            ("exec", path(&unix.exec)),
            ("startup-config", path(&unix.startup_config)),
            ("log", unix.log.as_deref().map_or("standard error".into(), shown)),
            ("runtime-dir", shown(&unix.runtime_dir)),
            ("cli-listen", shown(&unix.cli_listen)),
            ("cli-socket-mode", format!("{:04o}", unix.cli_socket_mode)),
            ("gid", unix.gid.clone().unwrap_or_else(|| "of the process".into())),
            ("pidfile", path(&unix.pidfile)),
            ("crash-dir", shown(crash_dir)),
            ("full-coredump", on_off(unix.full_coredump)),
            ("cli-file-root", unix.cli_file_root.as_deref().map_or("anywhere".into(), shown)),
            ("cli-prompt", unix.cli_prompt.clone().unwrap_or_else(|| "default".into())),
            ("cli-history-limit", count(unix.cli_history_limit)),
            ("cli-idle-timeout", count(unix.cli_idle_timeout)),
            ("cli-pager-buffer-limit", count(unix.cli_pager_buffer_limit)),
            ("cli-no-pager", on_off(unix.cli_no_pager)),
            ("cli-no-banner", on_off(unix.cli_no_banner)),
        ];
        pairs.into_iter().map(|(key, value)| self.setting("unix", key, value)).collect()
    }

    fn of_the_rest(&self) -> Vec<Setting> {
        let (cpu, buffers, logging) = (&self.cpu, &self.buffers, &self.logging);
        let cores: Vec<String> = cpu.corelist_workers.iter().map(u32::to_string).collect();
        let not_pinned = || "not pinned".to_string();
        let pages = match buffers.page_size {
            PageSize::Default => "default",
            PageSize::Size4K => "4k",
            PageSize::Size2M => "2m",
            PageSize::Size1G => "1g",
        };
        let written = logging.default_syslog_log_level.map_or("all that is kept", level);
        vec![
            self.setting("cpu", "main-core", cpu.main_core.map_or_else(not_pinned, |core| core.to_string())),
            self.setting("cpu", "workers", cpu.workers),
            self.setting("cpu", "corelist-workers", if cores.is_empty() { not_pinned() } else { cores.join(",") }),
            self.setting("cpu", "skip-cores", cpu.skip_cores),
            self.setting("buffers", "buffers-per-numa", buffers.buffers_per_numa),
            self.setting("buffers", "default data-size", buffers.default_data_size),
            self.setting("buffers", "page-size", pages),
            self.setting("logging", "default-log-level", level(logging.default_log_level)),
            self.setting("logging", "default-syslog-log-level", written),
        ]
    }
}

/// What was given in a section of a capability: of keys that were not, only the capability knows the default.
fn of_capability(section: &'static str, block: &str, given: &Settings, into: &mut Vec<Setting>) {
    for entry in &given.0 {
        let (key, line) = (format!("{block}{}", entry.key), Some(entry.places.0.line));
        if entry.inside.is_empty() {
            let value = if entry.text.is_empty() { "on".into() } else { entry.text.clone() };
            into.push(Setting { section, key, value, line });
        } else {
            of_capability(section, &format!("{key} {} ", entry.text), &entry.inside, into);
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn on_off(value: bool) -> String {
    if value { "on" } else { "off" }.into()
}

/// A level by VPP's name.
fn level(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Disabled => "disabled",
        LogLevel::Emergency => "emerg",
        LogLevel::Alert => "alert",
        LogLevel::Critical => "crit",
        LogLevel::Error => "err",
        LogLevel::Warning => "warn",
        LogLevel::Notice => "notice",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_has_its_line_and_the_rest_its_default() {
        let text = "unix {\n  nodaemon\n  log /var/log/q.log\n}\ncpu { corelist-workers 1-2 }\nbuffers { default \
         data-size 2048 }\n";
        let settings = StartupConfig::parse("x.conf", text, &[]).unwrap().settings();
        let of = |key: &str| {
            let setting = settings.iter().find(|setting| setting.key == key).unwrap_or_else(|| panic!("{key}"));
            (setting.value.as_str(), setting.line)
        };
        assert_eq!(of("nodaemon"), ("on", Some(2)));
        assert_eq!(of("log"), ("/var/log/q.log", Some(3)));
        assert_eq!(of("corelist-workers"), ("1,2", Some(5)));
        assert_eq!(of("default data-size"), ("2048", Some(6)));
        assert_eq!(of("default-log-level"), ("notice", None));
        assert_eq!(of("cli-socket-mode"), ("0660", None));
    }
}
