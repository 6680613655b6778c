//! Files that the load tester writes. It overwrites its own files and no others: the results of hours are not worth the
//! operator's notes. Files are checked before the test, so that a wrong name does not lose hours of results either.

use clap::Args;
use loadtest::{page, session};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// How files begin that the load tester wrote: figures of a run, a session, a page, and a ramp in the format of
/// `trex-loadtest.py`. That script puts spaces elsewhere, so its own files do not match.
const OWN: [&str; 4] =
    ["{\n  \"format\": \"quiver-loadtest/", session::BEGINNING, page::BEGINNING, "{\"vars\":{\"profile_file\":"];

#[derive(Args, Clone, Default)]
pub struct Overwrite {
    /// Write over files that this program did not write, too.
    #[arg(long)]
    pub force: bool,
}

impl Overwrite {
    /// Whether a file may be written: it does not exist, it is empty, it is our own, or it is no regular file.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn check(&self, file: impl AsRef<Path>) -> Result<(), String> {
        let file = file.as_ref();
        let wrong = |error: std::io::Error| format!("{}: {error}", file.display());
        let metadata = match fs::metadata(file) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
                return match directory {
                    Some(directory) if !directory.is_dir() => {
                        Err(format!("{}: there is no directory '{}'", file.display(), directory.display()))
                    }
                    _ => Ok(()),
                };
            }
            Err(error) => return Err(wrong(error)),
        };
        if metadata.is_dir() {
            return Err(format!("{}: it is a directory: name a file in it", file.display()));
        }
        if self.force || !metadata.is_file() || metadata.len() == 0 {
            return Ok(());
        }
        let longest = OWN.iter().map(|own| own.len()).max().unwrap_or(0);
        let mut start = Vec::new();
        File::open(file).and_then(|file| file.take(longest as u64).read_to_end(&mut start)).map_err(wrong)?;
        match OWN.iter().any(|own| start.starts_with(own.as_bytes())) {
            true => Ok(()),
            false => Err(format!(
                "{}: it is there, and the load tester did not write it: name another file, or '--force'",
                file.display()
            )),
        }
    }

    /// Writes a file.
    ///
    /// # Errors
    /// As [`Overwrite::check`], and the system's.
    pub fn write(&self, file: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<(), String> {
        let file = file.as_ref();
        self.check(file)?;
        fs::write(file, bytes).map_err(|error| format!("{}: {error}", file.display()))
    }
}
