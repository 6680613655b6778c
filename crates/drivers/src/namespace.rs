//! Network namespaces of the host, by their names.

use crate::OpenError;
use rustix::fd::AsFd;
use rustix::fs::{self, Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::path::{Path, PathBuf};

/// Does something in a namespace: a name under `/var/run/netns`, or a path; none: in the one where we are.
pub fn inside<T: Send>(
    namespace: Option<&str>,
    act: impl FnOnce() -> Result<T, OpenError> + Send,
) -> Result<T, OpenError> {
    let Some(namespace) = namespace else { return act() };
    let path = path(namespace)?;
    // Namespaces belong to threads; descriptors stay ours when this one ends.
    std::thread::scope(|scope| {
        let inside = || {
            enter(&path)?;
            act()
        };
        let thread = std::thread::Builder::new().spawn_scoped(scope, inside);
        let thread = thread.map_err(|error| OpenError::system("a thread for a network namespace", error))?;
        thread.join().expect("opening a device does not panic")
    })
}

fn path(namespace: &str) -> Result<PathBuf, OpenError> {
    match namespace {
        path if path.starts_with('/') => Ok(path.into()),
        name if matches!(name, "" | "." | "..") || name.contains('/') => Err(OpenError::Refused(format!(
            "'{name}' is not a network namespace: expected a name under /var/run/netns or an absolute path"
        ))),
        name => Ok(Path::new("/var/run/netns").join(name)),
    }
}

fn enter(path: &Path) -> Result<(), OpenError> {
    let failed = |error| OpenError::system(format!("network namespace {}", path.display()), error);
    let namespace = fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).map_err(failed)
}
