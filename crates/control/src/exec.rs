//! Files of commands: `exec FILE`, the file named in `startup.conf`, and whatever else
//! runs commands from a file.
//!
//! `exec` is recognised here and not in the command set, because a file is a door to the
//! executor like any other, and must not occupy the thread that owns the router while it
//! is read. The program registers an `exec <file:path>` command too, for its help only.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use command::{CommandLine, LineError, Lines, MAXIMUM_LINE};

use crate::{Executor, Format};

/// Deepest nesting of files that execute files.
pub const MAXIMUM_NESTING: usize = 8;

/// Output that is kept of one file, in bytes; what the commands print beyond is dropped.
const MAXIMUM_OUTPUT: usize = 16 << 20;

/// Why a file was not executed to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecError {
    /// What the commands before the failing one printed.
    pub output: String,
    /// `FILE:LINE: message` of the first failing line, or `FILE: message`.
    pub message: String,
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExecError {}

/// Runs one command line as a client sent it: `exec FILE` here, all else by the executor.
///
/// # Errors
/// The message for the operator; for a file, preceded by the output so far.
pub fn run_line(executor: &dyn Executor, line: &str, format: Format) -> Result<String, String> {
    run_nested(executor, line, format, 0).map_err(|error| error.output + &error.message)
}

/// Runs the commands of a file up to the first that fails.
pub fn run_file(executor: &dyn Executor, file: &Path, format: Format) -> Result<String, ExecError> {
    FileRun::new(executor, file, format, 0).run()
}

fn run_nested(executor: &dyn Executor, line: &str, format: Format, nesting: usize) -> Result<String, ExecError> {
    let failed = |message: String| ExecError { output: String::new(), message };
    match exec_argument(line) {
        None | Some("?") => executor.execute(line, format).map_err(failed),
        Some("") => Err(failed("exec: expected file name after `exec'".into())),
        Some(_) if nesting == MAXIMUM_NESTING => {
            Err(failed(format!("exec: files nested deeper than {MAXIMUM_NESTING}")))
        }
        Some(file) => FileRun::new(executor, Path::new(file), format, nesting + 1).run(),
    }
}

/// The file name of an `exec` line.
fn exec_argument(line: &str) -> Option<&str> {
    let rest = line.trim().strip_prefix("exec")?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
}

/// The execution of one file.
struct FileRun<'a> {
    executor: &'a dyn Executor,
    file: PathBuf,
    format: Format,
    nesting: usize,
    output: String,
}

impl<'a> FileRun<'a> {
    fn new(executor: &'a dyn Executor, file: &Path, format: Format, nesting: usize) -> Self {
        Self { executor, file: file.to_path_buf(), format, nesting, output: String::new() }
    }

    fn run(mut self) -> Result<String, ExecError> {
        match self.read() {
            Ok(()) => Ok(self.output),
            Err(message) => Err(ExecError { output: self.output, message }),
        }
    }

    fn read(&mut self) -> Result<(), String> {
        let name = self.file.display().to_string();
        let unreadable = |error: std::io::Error| format!("{name}: {error}");
        let at = |number: usize, message: &str| format!("{name}:{number}: {message}");
        let at_line = |error: LineError| at(error.number, &error.message);
        // A pipe or a device could hold us for ever.
        if !std::fs::metadata(&self.file).map_err(unreadable)?.is_file() {
            return Err(format!("{name}: not a regular file"));
        }
        let mut reader = BufReader::new(File::open(&self.file).map_err(unreadable)?);
        let mut lines = Lines::new();
        let mut number = 0;
        while let Some(line) = read_line(&mut reader).map_err(unreadable)? {
            number += 1;
            if line.len() > MAXIMUM_LINE {
                return Err(at(number, &format!("line longer than {MAXIMUM_LINE} bytes")));
            }
            let line = std::str::from_utf8(&line).map_err(|_| at(number, "not UTF-8 text"))?;
            if let Some(command) = lines.push(line).map_err(at_line)? {
                self.run_command(&command).map_err(|message| at(command.number, &message))?;
            }
        }
        lines.finish().map_err(at_line)
    }

    fn run_command(&mut self, command: &CommandLine) -> Result<(), String> {
        match run_nested(self.executor, &command.text, self.format, self.nesting) {
            Ok(output) => {
                self.keep(&output);
                Ok(())
            }
            Err(error) => {
                self.keep(&error.output);
                Err(error.message)
            }
        }
    }

    fn keep(&mut self, output: &str) {
        if !output.is_empty() && self.output.len() + output.len() <= MAXIMUM_OUTPUT {
            self.output.push_str(output);
            if !output.ends_with('\n') {
                self.output.push('\n');
            }
        }
    }
}

/// Reads a line with its newline, or a little more than the longest allowed.
pub(crate) fn read_line(reader: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let bound = MAXIMUM_LINE as u64 + 1;
    reader.take(bound).read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Notes what it runs; refuses lines that begin with `bad`.
    #[derive(Default)]
    struct Notebook(Mutex<Vec<String>>);

    impl Executor for Notebook {
        fn execute(&self, line: &str, _: Format) -> Result<String, String> {
            if line.starts_with("bad") {
                return Err(format!("bad: unknown input `{line}'"));
            }
            self.0.lock().unwrap().push(line.to_string());
            Ok(format!("did {line}"))
        }

        fn help(&self, _: &str) -> String {
            String::new()
        }

        fn banner(&self) -> String {
            String::new()
        }
    }

    /// A file that is removed with its test.
    struct TemporaryFile(PathBuf);

    impl TemporaryFile {
        fn new(name: &str, text: &[u8]) -> Self {
            let name = format!("quiver-exec-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, text).unwrap();
            Self(path)
        }

        fn run(&self) -> Result<String, ExecError> {
            run_file(&Notebook::default(), &self.0, Format::Text)
        }
    }

    impl Drop for TemporaryFile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn commands_run_in_order_and_blocks_are_joined() {
        let file = TemporaryFile::new("order", b"# first\none\npg {\n a\n}\r\n\ntwo");
        assert_eq!(file.run().unwrap(), "did one\ndid pg {\n a\n}\ndid two\n");
    }

    #[test]
    fn the_first_failing_line_is_named_after_the_output_so_far() {
        let file = TemporaryFile::new("fail", b"one\n\nbad line\ntwo\n");
        let error = file.run().unwrap_err();
        assert_eq!(error.output, "did one\n");
        let name = file.0.display();
        assert_eq!(error.message, format!("{name}:3: bad: unknown input `bad line'"));
        let line = format!("exec {name}");
        let answer = run_line(&Notebook::default(), &line, Format::Text).unwrap_err();
        assert_eq!(answer, error.output + &error.message);
    }

    #[test]
    fn a_file_that_executes_itself_ends_at_the_nesting_bound() {
        let file = TemporaryFile::new("self", b"");
        std::fs::write(&file.0, format!("exec {}\n", file.0.display())).unwrap();
        let error = file.run().unwrap_err();
        assert!(error.message.ends_with("exec: files nested deeper than 8"));
        assert_eq!(error.message.matches(":1: ").count(), 9);
    }

    #[test]
    fn what_is_no_text_file_is_refused_with_its_place() {
        for (name, text, message) in [
            ("utf8", &b"one\n\xff\n"[..], ":2: not UTF-8 text"),
            ("open", b"one\npg {\n x\n", ":2: `{' is never closed"),
            ("long", &[b'x'; MAXIMUM_LINE + 9], ":1: line longer than 65536 bytes"),
        ] {
            let error = TemporaryFile::new(name, text).run().unwrap_err();
            assert!(error.message.ends_with(message), "{error}");
        }
        let run = |file: &str| run_file(&Notebook::default(), Path::new(file), Format::Text);
        assert_eq!(run("/dev/zero").unwrap_err().message, "/dev/zero: not a regular file");
        assert!(run("/nonexistent").unwrap_err().message.starts_with("/nonexistent: "));
    }

    #[test]
    fn only_the_whole_word_exec_is_taken() {
        let run = |line| run_line(&Notebook::default(), line, Format::Text);
        assert_eq!(run("execute x").unwrap(), "did execute x");
        assert_eq!(run("exec").unwrap_err(), "exec: expected file name after `exec'");
    }
}
