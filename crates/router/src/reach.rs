//! What commands may reach of the file system.

use crate::Router;
use command::{CommandError, PathKind};
use std::path::Path;

/// Whether a command may reach what it names: files, sockets and namespaces beneath [`Router::files`].
///
/// # Errors
/// When it lies outside.
pub(crate) fn may_reach(router: &Router, kind: PathKind, name: &str) -> Result<(), CommandError> {
    let path = Path::new(name);
    let outcome = match kind {
        // The file of the program's own configuration may be named, too.
        PathKind::File if router.startup.as_ref().is_some_and(|startup| is_same(path, startup)) => Ok(()),
        PathKind::File => router.files.check_name(path),
        // Of these only paths are in the file system.
        PathKind::Socket if drivers::memif::is_abstract(name) => Ok(()),
        PathKind::Namespace if !name.contains('/') && name != ".." => Ok(()),
        PathKind::Socket | PathKind::Namespace => router.files.check_inside(path),
    };
    outcome.map_err(CommandError::from)
}

/// Whether two names are of one file, as far as there is one.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    one == other || real(one).is_some_and(|file| Some(file) == real(other))
}
