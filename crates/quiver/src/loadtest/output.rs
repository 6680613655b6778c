//! Files that the load tester writes. It writes over its own, and over no others: a test that ran for hours is not
//! worth somebody's notes. Files are looked at before the test, so that hours of it are not lost for a wrong name
//! either.

use clap::Args;
use loadtest::{page, session};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// How a file begins that was written here: figures of a run, a session, a page, and a ramp as `trex-loadtest.py`
/// writes it, which puts spaces elsewhere.
const OWN: [&str; 4] =
    ["{\n  \"format\": \"quiver-loadtest/", session::BEGINNING, page::BEGINNING, "{\"vars\":{\"profile_file\":"];

#[derive(Args, Clone, Default)]
pub struct Overwrite {
    /// Write over files that this program did not write, too.
    #[arg(long)]
    pub force: bool,
}

impl Overwrite {
    /// Whether a file may be written: there is none, it has nothing in it, it is our own, or it is no regular file.
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
