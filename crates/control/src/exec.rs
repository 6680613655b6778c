//! Files of commands: `exec FILE`, the file named in `startup.conf`, and anything else that runs commands from a file.
//!
//! `exec` is a command of sessions. The executor does not run it: a file is only another way to the executor, and
//! reading it must not occupy the thread that owns the router.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use command::{CommandLine, Done, Files, LineError, Lines, MAXIMUM_LINE, Reply};

use crate::{Executor, session_commands};

/// Deepest nesting of files that execute files.
pub const MAXIMUM_NESTING: usize = 8;

/// Shows the reply of a file's command, before the next command is run. An error ends the file.
pub type Show<'a> = dyn FnMut(&dyn Reply) -> io::Result<()> + 'a;

/// Why a file was not executed to its end.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// `FILE:LINE: message` of the first failing line, or `FILE: message`.
    #[error("{0}")]
    Refused(String),
    /// A reply could not be shown.
    #[error(transparent)]
    Output(io::Error),
}

/// Runs the commands of a file up to the first that fails, or to `quit`.
///
/// # Errors
/// See [`ExecError`]. The commands before the failing one stay in effect.
pub fn run_file(executor: &dyn Executor, files: &Files, file: &Path, show: &mut Show<'_>) -> Result<(), ExecError> {
    FileRun { executor, files, file: file.to_path_buf(), nesting: 0 }.run(show)
}

/// Whether a file goes on after a line.
#[derive(PartialEq)]
enum Next {
    Continue,
    Quit,
}

/// The execution of one file.
struct FileRun<'a> {
    executor: &'a dyn Executor,
    /// Which files this file, and those that it executes, may reach.
    files: &'a Files,
    file: PathBuf,
    /// How many files are executing this one.
    nesting: usize,
}

impl FileRun<'_> {
    fn run(&self, show: &mut Show<'_>) -> Result<(), ExecError> {
        let name = self.file.display();
        let unreadable = |error: io::Error| ExecError::Refused(format!("{name}: {error}"));
        let at = |number: usize, message: &str| ExecError::Refused(format!("{name}:{number}: {message}"));
        let at_line = |error: LineError| at(error.number, &error.message);
        let opened = self.files.open(&self.file).map_err(|error| ExecError::Refused(error.to_string()))?;
        let mut reader = BufReader::new(opened);
        let mut lines = Lines::with_macros(self.executor.manners().macros);
        let mut number = 0;
        while let Some(line) = read_line(&mut reader).map_err(unreadable)? {
            number += 1;
            if line.len() > MAXIMUM_LINE {
                return Err(at(number, &format!("line longer than {MAXIMUM_LINE} bytes")));
            }
            let line = std::str::from_utf8(&line).map_err(|_| at(number, "not UTF-8 text"))?;
            let Some(command) = lines.push(line).map_err(at_line)? else {
                continue;
            };
            match self.run_command(&command, show) {
                Ok(Next::Continue) => {}
                Ok(Next::Quit) => return Ok(()),
                Err(ExecError::Refused(message)) => return Err(at(command.number, &message)),
                Err(error) => return Err(error),
            }
        }
        lines.finish().map_err(at_line)
    }

    fn run_command(&self, command: &CommandLine, show: &mut Show<'_>) -> Result<Next, ExecError> {
        let refused = |message: &str| ExecError::Refused(message.to_string());
        if let Some(own) = self.executor.of_session(&command.text) {
            match (own.name.as_str(), own.args.optional_text("file")) {
                ("quit" | "exit", _) => return Ok(Next::Quit),
                ("exec", Some(_)) if self.nesting == MAXIMUM_NESTING => {
                    return Err(refused(&format!("exec: files nested deeper than {MAXIMUM_NESTING}")));
                }
                ("exec", Some(file)) => {
                    let nested = FileRun {
                        executor: self.executor,
                        files: self.files,
                        file: file.into(),
                        nesting: self.nesting + 1,
                    };
                    nested.run(show)?;
                    // The file may have printed nothing; still check whether the client wants more.
                    show(&Done).map_err(ExecError::Output)?;
                    return Ok(Next::Continue);
                }
                _ => {
                    if let Some(done) = session_commands::on_macros(&own, &self.executor.manners().macros) {
                        let reply = done.map_err(|error| refused(error.message()))?;
                        show(&*reply).map_err(ExecError::Output)?;
                        return Ok(Next::Continue);
                    }
                    // The executor refuses commands for interactive sessions.
                }
            }
        }
        let reply = self.executor.execute(&command.text).map_err(|error| refused(error.message()))?;
        show(&*reply).map_err(ExecError::Output)?;
        Ok(Next::Continue)
    }
}

/// Reads a line with its newline, or a little more than the longest allowed.
pub(crate) fn read_line(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let bound = MAXIMUM_LINE as u64 + 1;
    reader.take(bound).read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionLine;
    use crate::add_session_commands;
    use command::{Command, CommandError, CommandSet, Completion, Text, reply};

    /// Repeats what it runs; refuses lines that begin with `bad`.
    struct Notebook(CommandSet<()>, crate::SessionDefaults);

    impl Notebook {
        fn new() -> Self {
            let mut set = CommandSet::new();
            add_session_commands(&mut set);
            for syntax in ["one", "two", "pg <block:block>", "execute <what:word>"] {
                set.add(Command::new(syntax, "", |(): &mut (), _| reply(Text("unused".into()))));
            }
            Self(set, crate::SessionDefaults::default())
        }
    }

    impl Executor for Notebook {
        fn execute(&self, line: &str) -> Result<Box<dyn Reply>, CommandError> {
            match line.starts_with("bad") {
                true => Err(CommandError::new(format!("bad: unknown input '{line}'"))),
                false => reply(Text(format!("did {line}\n"))),
            }
        }

        fn of_session(&self, line: &str) -> Option<SessionLine> {
            let parsed = self.0.parse(line).ok().filter(|parsed| parsed.command.is_of_session())?;
            Some(SessionLine { name: parsed.command.name().to_string(), args: parsed.args })
        }

        fn manners(&self) -> crate::SessionDefaults {
            self.1.clone()
        }

        fn help(&self, _: &str) -> String {
            String::new()
        }

        fn complete(&self, _: &str) -> Completion {
            Completion::default()
        }
    }

    /// What a file's commands printed, and why it ended early, if it did.
    fn run(file: &Path) -> (String, Option<String>) {
        let mut output = String::new();
        let mut show = |reply: &dyn Reply| {
            output += &reply.text();
            Ok(())
        };
        let error =
            run_file(&Notebook::new(), &Files::anywhere(), file, &mut show).err().map(|error| error.to_string());
        (output, error)
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
    }

    impl Drop for TemporaryFile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn commands_run_in_order_and_blocks_are_joined_up_to_quit() {
        let file = TemporaryFile::new("order", b"# first\none\npg {\n a\n}\r\n\ntwo\nquit\none");
        assert_eq!(run(&file.0), ("did one\ndid pg {\n a\n}\ndid two\n".into(), None));
    }

    #[test]
    fn lines_are_joined_remarks_passed_over_and_macros_put_in_across_files() {
        let inner = TemporaryFile::new("macro-inner", b"execute $(WHAT) # behind\nundefine WHAT\n");
        let text = format!(
            "define WHAT x\\\n  y\ncomment {{\n two\n}}\none \\\n more\nexec {}\nexecute $(WHAT)\n",
            inner.0.display()
        );
        let outer = TemporaryFile::new("macro-outer", text.as_bytes());
        let name = outer.0.display();
        let missing = "no macro 'WHAT' ('define WHAT VALUE' makes it, 'show macro' lists them)";
        assert_eq!(run(&outer.0), ("did one  more\ndid execute x   y\n".into(), Some(format!("{name}:9: {missing}"))));
    }

    #[test]
    fn the_first_failing_line_is_named_after_the_output_so_far() {
        let file = TemporaryFile::new("fail", b"one\n\nbad line\ntwo\n");
        let name = file.0.display();
        assert_eq!(run(&file.0), ("did one\n".into(), Some(format!("{name}:3: bad: unknown input 'bad line'"))));
    }

    #[test]
    fn a_file_may_execute_another_and_only_a_whole_word_does() {
        let inner = TemporaryFile::new("inner", b"two\nquit\none\n");
        let outer = TemporaryFile::new("outer", format!("exec {}\none\nexecute x\n", inner.0.display()).as_bytes());
        assert_eq!(run(&outer.0), ("did two\ndid one\ndid execute x\n".into(), None));
    }

    #[test]
    fn a_file_that_executes_itself_ends_at_the_nesting_bound() {
        let file = TemporaryFile::new("self", b"");
        std::fs::write(&file.0, format!("exec {}\n", file.0.display())).unwrap();
        let message = run(&file.0).1.unwrap();
        assert!(message.ends_with("exec: files nested deeper than 8"));
        assert_eq!(message.matches(":1: ").count(), 9);
    }

    #[test]
    fn output_that_nobody_takes_ends_the_file() {
        let file = TemporaryFile::new("gone", b"one\ntwo\n");
        let mut shown = 0;
        let mut show = |_: &dyn Reply| {
            shown += 1;
            Err(io::ErrorKind::BrokenPipe.into())
        };
        let error = run_file(&Notebook::new(), &Files::anywhere(), &file.0, &mut show).unwrap_err();
        assert!(matches!(error, ExecError::Output(_)));
        assert_eq!(shown, 1);
    }

    #[test]
    fn what_is_no_text_file_is_refused_with_its_place() {
        for (name, text, message) in [
            ("utf8", &b"one\n\xff\n"[..], ":2: not UTF-8 text"),
            ("open", b"one\npg {\n x\n", ":2: '{' is never closed"),
            ("long", &[b'x'; MAXIMUM_LINE + 9], ":1: line longer than 65536 bytes"),
        ] {
            let error = run(&TemporaryFile::new(name, text).0).1.unwrap();
            assert!(error.ends_with(message), "{error}");
        }
        let error = |file: &str| run(Path::new(file)).1.unwrap();
        assert_eq!(error("/dev/zero"), "/dev/zero: not a regular file");
        assert!(error("/nonexistent").starts_with("/nonexistent: "));
    }
}
