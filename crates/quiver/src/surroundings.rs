//! Settings of the process in the system, at start: core files, the pidfile, the group of its sockets.

use command::Files;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use startup::{CoredumpSize, StartupConfig, StartupError, Unix};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Everything goes into a core file: private and shared memory, files that are mapped, huge
/// pages (core(5), bits 0 to 6).
const ALL_MEMORY: &str = "0x7f";

/// Enables core files, as far as the system allows.
pub fn allow_core_files(unix: &Unix) {
    let wanted = match (unix.coredump_size, unix.full_coredump) {
        (Some(CoredumpSize::Bytes(bytes)), _) => Some(bytes),
        (Some(CoredumpSize::Unlimited), _) | (None, true) => None,
        (None, false) => return,
    };
    let hard = getrlimit(Resource::Core).maximum;
    // Only a privileged process can raise the hard limit.
    let limit = |size| setrlimit(Resource::Core, Rlimit { current: size, maximum: size });
    if limit(wanted).is_err() {
        let least = |wanted: u64| hard.map_or(wanted, |hard| hard.min(wanted));
        let current = wanted.map_or(hard, |wanted| Some(least(wanted)));
        let _ = setrlimit(Resource::Core, Rlimit { current, maximum: hard });
        let shown = current.map_or("unlimited".into(), |bytes| format!("{bytes} bytes"));
        log::warn!("core files: {shown} at most (the system's hard limit; see 'ulimit -Hc')");
    }
    if unix.full_coredump
        && let Err(error) = fs::write("/proc/self/coredump_filter", ALL_MEMORY)
    {
        log::warn!("core files will not hold all memory: /proc/self/coredump_filter: {error}");
    }
}

/// The number of the group that the configuration names, if it names one.
///
/// # Errors
/// A group that the system does not have, with its place in the configuration. A warning is enough: without the group
/// fewer users may connect, not more.
pub fn group(config: &StartupConfig) -> Result<Option<u32>, String> {
    let Some(name) = config.unix.gid.as_ref() else { return Ok(None) };
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    group_number(&groups, name).map(Some).ok_or_else(|| unknown_group(config, name).to_string())
}

fn unknown_group(config: &StartupConfig, name: &str) -> StartupError {
    let message = format!(
        "gid {name}: no such group in /etc/group (make it with 'groupadd --system {name}'); the sockets keep theirs"
    );
    config.complaint("unix gid", message)
}

/// The number of a group in the text of `/etc/group`, by its name, or a number itself.
fn group_number(groups: &str, group: &str) -> Option<u32> {
    let named = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(group)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    named.or_else(|| group.parse().ok())
}

/// Sets a socket's group, and which users may connect.
///
/// # Errors
/// When the system refuses, with the name of the socket.
pub fn give(socket: &Path, group: Option<u32>, mode: u32) -> Result<(), String> {
    let about = |what: &str, error: std::io::Error| format!("{what} of {}: {error}", socket.display());
    if let Some(group) = group {
        chown(socket, None, Some(group)).map_err(|error| about(&format!("group {group}"), error))?;
    }
    fs::set_permissions(socket, fs::Permissions::from_mode(mode)).map_err(|error| about("mode", error))
}

/// Permissions of the pidfile: every user may read it.
const PID_FILE_MODE: u32 = 0o644;

/// The pidfile; removed when dropped, if it is still ours.
pub struct PidFile {
    path: PathBuf,
    content: String,
    /// Device and inode.
    identity: Option<(u64, u64)>,
}

impl PidFile {
    /// # Errors
    /// When it cannot be written, with its name.
    pub fn write(path: &Path) -> Result<PidFile, String> {
        let content = format!("{}\n", std::process::id());
        // Not through a link that another user has left there: the file replaces it.
        let write = |out: &mut dyn Write| out.write_all(content.as_bytes());
        let written = Files::anywhere().replace_with_mode(path, PID_FILE_MODE, write);
        written.map_err(|error| format!("pidfile {error}"))?;
        Ok(PidFile { path: path.into(), content, identity: identity(path) })
    }
}

/// The file that a name leads to, links not followed.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let is_ours = self.identity.is_some() && identity(&self.path) == self.identity;
        if is_ours && fs::read_to_string(&self.path).is_ok_and(|content| content == self.content) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_name_or_number() {
        let groups = "root:x:0:\nvpp:x:123:alice,bob\n42:x:7:\n";
        assert_eq!(group_number(groups, "vpp"), Some(123));
        assert_eq!(group_number(groups, "77"), Some(77));
        assert_eq!(group_number(groups, "42"), Some(7), "a name that looks like a number");
        assert_eq!(group_number(groups, "vp"), None);
    }

    #[test]
    fn an_unknown_group_is_complained_about_where_it_stands() {
        let config = StartupConfig::parse("test.conf", "unix {\n gid no-such-group\n}", &[]).unwrap();
        let error = group(&config).unwrap_err();
        assert!(error.starts_with("test.conf:2:2: gid no-such-group: no such group in /etc/group"), "{error}");
    }

    #[test]
    fn a_pidfile_goes_with_the_process_unless_another_took_it() {
        let path = std::env::temp_dir().join(format!("quiver-pid-{}", std::process::id()));
        let file = PidFile::write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
        let file = PidFile::write(&path).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(file);
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
        // A link's target is neither written nor removed.
        let precious = path.with_extension("precious");
        fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        let file = PidFile::write(&path).unwrap();
        assert!(!path.is_symlink() && fs::read_to_string(&precious).unwrap() == "precious");
        drop(file);
        assert!(!path.exists() && precious.exists());
        fs::remove_file(&precious).unwrap();
    }
}
