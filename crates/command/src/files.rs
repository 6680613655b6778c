//! Files that commands name: anywhere, or confined beneath one directory.
//!
//! A client that may give commands need not be allowed to read and write every file that this process can. With a root
//! directory (`unix { cli-file-root DIR }`) no name, link or `..` leads out of it: the kernel resolves names beneath it
//! (`openat2(2)`). A file is written whole or not at all: first as a temporary file beside it, which then takes the
//! name.

use crate::harmless_line;
use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Permissions of a new file: owner and group may read it, as they may use the CLI socket.
const NEW_FILE: u32 = 0o640;

/// Permissions of a new directory, whatever the umask.
const NEW_DIRECTORY: u32 = 0o755;

/// Makes a directory and its missing parents. Other users may look in, but only the owner may write.
///
/// # Errors
/// When the system refuses.
pub fn make_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(NEW_DIRECTORY).create(path)
}

/// Why a file was refused.
#[derive(Debug)]
pub struct FileError {
    name: PathBuf,
    why: String,
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", harmless_line(&self.name.display().to_string()), self.why)
    }
}

impl std::error::Error for FileError {}

impl FileError {
    /// What is wrong, without the file's name: for a caller that names the file in its own message.
    pub fn why(&self) -> &str {
        &self.why
    }
}

struct Root {
    path: PathBuf,
    directory: OwnedFd,
}

impl Root {
    fn refusal(&self) -> String {
        format!("outside of {}, where commands may use files", self.path.display())
    }
}

/// Which part of the file system commands may reach.
#[derive(Clone, Default)]
pub struct Files(Option<Arc<Root>>);

impl Files {
    /// No confinement: all that the process may reach. Relative names count from its working directory.
    pub fn anywhere() -> Files {
        Files(None)
    }

    /// Only what is beneath `directory`. Relative names count from there.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub fn beneath(directory: &Path) -> io::Result<Files> {
        let path = std::fs::canonicalize(directory)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = fs::open(&path, flags, Mode::empty())?;
        Ok(Files(Some(Arc::new(Root { path, directory: opened }))))
    }

    /// Whether names lead beneath one directory only.
    pub fn are_confined(&self) -> bool {
        self.0.is_some()
    }

    /// Refuses a name that leads outside. For what is reached by its name and not by [`Files::open`]: a socket, a
    /// namespace. What is there must lie inside, links followed; if nothing is there, its directory must.
    ///
    /// # Errors
    /// When it lies outside, or neither it nor its directory exists.
    pub fn check_inside(&self, name: &Path) -> Result<(), FileError> {
        if !self.are_confined() {
            return Ok(());
        }
        match self.resolve(name, OFlags::PATH) {
            Ok(_) => Ok(()),
            // A link that leads nowhere now would be followed as soon as something is there.
            Err(_) if self.resolve(name, OFlags::PATH | OFlags::NOFOLLOW).is_err() => self.check_target(name),
            Err(why) => Err(FileError { name: name.into(), why }),
        }
    }

    /// Refuses a name whose directory lies outside. [`Files::open`] or [`Files::replace`], which then use the name,
    /// refuse everything else.
    ///
    /// # Errors
    /// When it lies outside.
    pub fn check_name(&self, name: &Path) -> Result<(), FileError> {
        let Some(root) = &self.0 else { return Ok(()) };
        match self.resolve(name.parent().unwrap_or(name), OFlags::PATH) {
            Err(why) if why == root.refusal() => Err(FileError { name: name.into(), why }),
            // The caller that uses the name reports any other fault.
            _ => Ok(()),
        }
    }

    /// The full path of a name that counts from the root directory.
    pub fn whole(&self, name: &Path) -> PathBuf {
        self.0.as_ref().map_or(name.into(), |root| root.path.join(name))
    }

    /// Opens a regular file for reading. A pipe or a device could hold us for ever.
    ///
    /// # Errors
    /// When there is no such file, it is no regular file, or it lies outside.
    pub fn open(&self, name: &Path) -> Result<File, FileError> {
        let about = |why: String| FileError { name: name.into(), why };
        // Opening a pipe without a writer must not block either.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.resolve(name, flags).map_err(&about)?;
        let status = fs::fstat(&file).map_err(|error| about(words(error)))?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => Ok(File::from(file)),
            FileType::Directory => Err(about("is a directory".into())),
            _ => Err(about("not a regular file".into())),
        }
    }

    /// The text of a file of at most `most` bytes.
    ///
    /// # Errors
    /// See [`Files::open`]; when the file is longer, or is not UTF-8 text.
    pub fn read_text(&self, name: &Path, most: u64) -> Result<String, FileError> {
        let about = |why: String| FileError { name: name.into(), why };
        let mut bytes = Vec::new();
        let file = self.open(name)?;
        if file.metadata().is_ok_and(|about| about.len() > most) {
            return Err(about(format!("larger than {most} bytes")));
        }
        // The file may grow meanwhile.
        file.take(most + 1).read_to_end(&mut bytes).map_err(|error| about(error.to_string()))?;
        if bytes.len() as u64 > most {
            return Err(about(format!("larger than {most} bytes")));
        }
        String::from_utf8(bytes).map_err(|_| about("not UTF-8 text".into()))
    }

    /// Refuses a name that [`Files::replace`] could not write, as far as can be seen beforehand.
    ///
    /// # Errors
    /// When the name is not one for a file, or its directory does not exist or lies outside.
    pub fn check_target(&self, name: &Path) -> Result<(), FileError> {
        self.directory_of(name).map(drop)
    }

    /// Where a file is written: its opened directory, and its name there.
    fn directory_of<'a>(&self, name: &'a Path) -> Result<(OwnedFd, &'a OsStr), FileError> {
        let about = |why: String| FileError { name: name.into(), why };
        let (Some(file_name), Some(directory)) = (name.file_name(), name.parent()) else {
            return Err(about("is no name for a file".into()));
        };
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let opened = self.resolve(directory, OFlags::RDONLY | OFlags::DIRECTORY).map_err(&about)?;
        Ok((opened, file_name))
    }

    /// Writes a file whole: whatever interrupts it, the name leads to the old or to the new content. An existing file
    /// keeps its mode and owner. A link is not followed: the file replaces it.
    ///
    /// # Errors
    /// When its directory does not exist or lies outside, the name is that of something other than a regular file, or
    /// `write` fails. Then the old file is unchanged.
    pub fn replace(&self, name: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), FileError> {
        self.replace_with_mode(name, NEW_FILE, write)
    }

    /// [`Files::replace`] with the mode that a new file gets.
    ///
    /// # Errors
    /// As [`Files::replace`].
    pub fn replace_with_mode(
        &self,
        name: &Path,
        mode: u32,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), FileError> {
        let about = |why: String| FileError { name: name.into(), why };
        let (directory, file_name) = self.directory_of(name)?;
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(file_name);
        temporary.push(".new");
        let written = replace_in(directory.as_fd(), file_name.as_ref(), temporary.as_ref(), mode, write);
        if written.is_err() {
            let _ = fs::unlinkat(&directory, &temporary, AtFlags::empty());
        }
        written.map_err(|error| about(error.to_string()))
    }

    fn resolve(&self, name: &Path, flags: OFlags) -> Result<OwnedFd, String> {
        let flags = flags | OFlags::CLOEXEC;
        let Some(root) = &self.0 else {
            return fs::openat(CWD, name, flags, Mode::empty()).map_err(words);
        };
        let outside = || root.refusal();
        let inside = match name.strip_prefix("/") {
            Ok(_) => name.strip_prefix(&root.path).map_err(|_| outside())?,
            Err(_) => name,
        };
        let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
        if inside.components().any(|part| part == Component::ParentDir) {
            return Err(outside());
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        fs::openat2(&root.directory, inside, flags, Mode::empty(), resolve).map_err(|error| match error {
            Errno::XDEV => outside(),
            error => words(error),
        })
    }
}

fn words(error: Errno) -> String {
    io::Error::from(error).to_string()
}

/// Writes the new content under a temporary name, syncs it to the disk, and renames it.
fn replace_in(
    directory: BorrowedFd<'_>,
    name: &Path,
    temporary: &Path,
    mode: u32,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let old = match fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(status) => match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => Some(status),
            FileType::Symlink => None,
            _ => return Err(io::Error::other("not a regular file")),
        },
        Err(Errno::NOENT) => None,
        Err(error) => return Err(error.into()),
    };
    // An interrupted write may have left one.
    match fs::unlinkat(directory, temporary, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(fs::openat(directory, temporary, flags, Mode::from_raw_mode(mode))?);
    if let Some(old) = old {
        // We may replace another user's file, but may not be allowed to give it back to that user.
        let _ = std::os::unix::fs::fchown(&file, Some(old.st_uid), Some(old.st_gid));
        fs::fchmod(&file, Mode::from_raw_mode(old.st_mode & 0o777))?;
    }
    let mut buffered = io::BufWriter::new(&mut file);
    write(&mut buffered)?;
    buffered.flush()?;
    drop(buffered);
    file.sync_all()?;
    fs::renameat(directory, temporary, directory, name)?;
    Ok(fs::fsync(directory)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A directory that is removed with its test.
    struct Playground(PathBuf);

    impl Playground {
        fn new(name: &str) -> Playground {
            let path = std::env::temp_dir().join(format!("quiver-files-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(path.join("inside/deeper")).unwrap();
            std::fs::write(path.join("secret"), "secret").unwrap();
            std::fs::write(path.join("inside/plain"), "plain").unwrap();
            Playground(path)
        }

        fn confined(&self) -> Files {
            Files::beneath(&self.0.join("inside")).unwrap()
        }
    }

    impl Drop for Playground {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn write_text(text: &'static str) -> impl FnOnce(&mut dyn Write) -> io::Result<()> {
        move |out| out.write_all(text.as_bytes())
    }

    #[test]
    fn nothing_leads_out_of_the_root() {
        let ground = Playground::new("root");
        let files = ground.confined();
        symlink("../secret", ground.0.join("inside/link")).unwrap();
        symlink(ground.0.join("secret"), ground.0.join("inside/absolute")).unwrap();
        symlink("..", ground.0.join("inside/up")).unwrap();
        let secret = ground.0.join("secret");
        for name in ["link", "absolute", "up/secret", "../secret", "deeper/../../secret", secret.to_str().unwrap()] {
            let refusal = files.read_text(Path::new(name), 100).unwrap_err().to_string();
            assert!(refusal.contains("outside of "), "{name}: {refusal}");
            // A link itself may be replaced: that changes nothing that it leads to.
            let is_link = matches!(name, "link" | "absolute");
            assert_eq!(files.replace(Path::new(name), write_text("x")).is_ok(), is_link, "{name}");
            assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
        }
        assert!(files.replace(Path::new("up/new"), write_text("x")).is_err());
        assert!(!ground.0.join("new").exists());
    }

    #[test]
    fn what_is_reached_by_its_name_lies_inside_links_followed() {
        let ground = Playground::new("names");
        let files = ground.confined();
        symlink("../secret", ground.0.join("inside/link")).unwrap();
        symlink("../nothing-yet", ground.0.join("inside/dangling")).unwrap();
        let secret = ground.0.join("secret");
        for name in ["link", "dangling", "../secret", "/run/vpp/memif.sock", secret.to_str().unwrap()] {
            let refusal = files.check_inside(Path::new(name)).unwrap_err().to_string();
            assert!(refusal.contains("outside of "), "{refusal}");
            assert!(Files::anywhere().check_inside(Path::new(name)).is_ok());
        }
        for name in ["plain", "new", "deeper/new"] {
            files.check_inside(Path::new(name)).unwrap();
            files.check_name(Path::new(name)).unwrap();
        }
        assert!(files.check_name(&secret).is_err() && files.check_name(Path::new("../secret")).is_err());
        let root = std::fs::canonicalize(ground.0.join("inside")).unwrap();
        assert_eq!(files.whole(Path::new("plain")), root.join("plain"));
    }

    #[test]
    fn what_is_inside_is_read_by_relative_and_by_absolute_name() {
        let ground = Playground::new("inside");
        let files = ground.confined();
        let absolute = std::fs::canonicalize(ground.0.join("inside/plain")).unwrap();
        for name in [Path::new("plain"), Path::new("./deeper/.././plain"), &absolute] {
            // `..` is refused even where it would stay inside: that is simpler to explain.
            let expected = !name.to_string_lossy().contains("..");
            assert_eq!(files.read_text(name, 100).is_ok(), expected, "{}", name.display());
        }
        files.replace(Path::new("deeper/new"), write_text("new")).unwrap();
        assert_eq!(std::fs::read_to_string(ground.0.join("inside/deeper/new")).unwrap(), "new");
    }

    #[test]
    fn a_file_is_replaced_whole_or_stays() {
        let ground = Playground::new("whole");
        let (files, name) = (Files::anywhere(), ground.0.join("inside/plain"));
        std::fs::set_permissions(&name, std::fs::Permissions::from_mode(0o604)).unwrap();
        let broken = files.replace(&name, |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(broken.unwrap_err().to_string().ends_with("plain: the disk is full"));
        assert_eq!(std::fs::read_to_string(&name).unwrap(), "plain");
        // An interrupted write left its temporary file.
        std::fs::write(ground.0.join("inside/.plain.new"), "left over").unwrap();
        files.replace(&name, write_text("whole")).unwrap();
        assert_eq!(std::fs::read_to_string(&name).unwrap(), "whole");
        assert_eq!(std::fs::metadata(&name).unwrap().permissions().mode() & 0o777, 0o604);
        // A temporary name that a stranger made a link is not followed either.
        symlink(ground.0.join("secret"), ground.0.join("inside/.plain.new")).unwrap();
        files.replace(&name, write_text("whole again")).unwrap();
        assert_eq!(std::fs::read_to_string(ground.0.join("secret")).unwrap(), "secret");
        let names = std::fs::read_dir(ground.0.join("inside")).unwrap().count();
        assert_eq!(names, 2, "nothing temporary is left");
    }

    #[test]
    fn only_regular_files_of_text_are_read() {
        let ground = Playground::new("kinds");
        let files = Files::anywhere();
        let refusal = |name: &str| files.read_text(&ground.0.join(name), 5).unwrap_err().to_string();
        std::fs::write(ground.0.join("long"), "123456").unwrap();
        std::fs::write(ground.0.join("bytes"), b"\xff").unwrap();
        let fifo = ground.0.join("fifo");
        fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(refusal("inside").ends_with("is a directory"));
        assert!(refusal("fifo").ends_with("not a regular file"));
        assert!(refusal("long").ends_with("larger than 5 bytes"));
        assert!(refusal("bytes").ends_with("not UTF-8 text"));
        assert!(refusal("absent").contains("No such file"));
        assert!(files.replace(&fifo, write_text("x")).unwrap_err().to_string().ends_with("not a regular file"));
        assert!(files.replace(Path::new("/"), write_text("x")).is_err());
    }
}
