//! Documents made of the grammar, so that they cannot say anything else than it does: the
//! guide to the commands (Markdown) and the commands' part of the manual page (roff).

use std::fmt::Write;

use textwrap::{Options, WordSeparator, WordSplitter, fill};

use crate::syntax::values;
use crate::{Command, CommandSet};

/// Columns of a line of the guide.
const WIDTH: usize = 118;

/// What holds for every command.
const INTRODUCTION: &str = "\
Any word of a command may be shortened while it stays unambiguous: `sh int`, `set int state e0 up`. At a terminal, TAB
completes a word, and `?` lists the possible continuations at every word.

Commands come from `quiver cli COMMAND`, a session (`quiver cli`, `vppctl`), standard input, a file
(`quiver cli -f FILE`, `exec FILE`) or `unix { exec FILE }`. Every command can answer as JSON
(`quiver cli --json COMMAND`).

- A `{ ... }` block may span lines. `\\` at the end of a line continues it.
- `#` at the start of a word begins a remark that lasts to the end of the line. A line that begins with `comment` is a
  remark, too. `comment { ... }` may span lines.
- `define NAME VALUE` defines a macro. `$(NAME)` stands for its value in later lines.
- Other spellings of VPP's, such as `loop create`, are accepted but not listed here.
- For a VPP command that is not in this version, the answer names a replacement if there is one.

In the syntax, plain words stand for themselves and `<...>` for a value. `[...]` is optional, `{a|b}` is one of
several, and `...` means that the part before it may be repeated. Commands marked *configuration* configure the router;
the others act or show.
";

impl<C> CommandSet<C> {
    /// All commands as a Markdown page, by section. `note` stands at its top as a remark.
    pub fn guide(&self, note: &str) -> String {
        let mut page = format!("# Commands\n\n<!-- {note} -->\n\n{INTRODUCTION}");
        for (section, commands) in self.sections().iter().filter(|(_, commands)| !commands.is_empty()) {
            let _ = writeln!(page, "\n## {}", section.title);
            if !section.introduction.is_empty() {
                let _ = writeln!(page, "\n{}", wrapped(&section.introduction, "", ""));
            }
            for command in commands {
                page += &entry(command);
            }
        }
        page
    }

    /// All commands as a section of a manual page.
    pub fn manual(&self) -> String {
        let mut page = String::from(".SH COMMANDS\nGiven to a running router by \\fBquiver cli\\fR.\n");
        for (section, commands) in self.sections().iter().filter(|(_, commands)| !commands.is_empty()) {
            let _ = writeln!(page, ".SS \"{}\"", roff(&section.title));
            for command in commands {
                let _ = writeln!(page, ".TP\n\\fB{}\\fR\n{}", roff(&command.syntax()), roff(command.help()));
            }
        }
        page
    }
}

/// A command in the guide: syntax, sentence, parameters, examples.
fn entry<C>(command: &Command<C>) -> String {
    let mark = if command.is_configuration() { " *Configuration.*" } else { "" };
    let (syntax, help) = (command.syntax(), format!("{}{mark}", command.help()));
    let (syntax, help) = (wrapped(&syntax, "    ", "        "), wrapped(&help, "", ""));
    let mut entry = format!("\n### {}\n\n{syntax}\n\n{help}\n", command.name());
    let mut told: Vec<&str> = Vec::new();
    for (name, kind) in values(&command.parameters) {
        let expectation = kind.expectation(name);
        // A block, or a word that is called what it is, needs no more words.
        if told.contains(&name) || expectation == kind.placeholder(name) || expectation == name.replace('_', " ") {
            continue;
        }
        if told.is_empty() {
            entry.push('\n');
        }
        told.push(name);
        let line = format!("- `{}`: {expectation}", kind.placeholder(name));
        let _ = writeln!(entry, "{}", wrapped(&line, "", "  "));
    }
    if !command.examples().is_empty() {
        let lines: Vec<String> = command.examples().iter().flat_map(|line| line.lines()).map(str::to_string).collect();
        let _ = writeln!(entry, "\n```\n{}\n```", lines.join("\n"));
    }
    entry
}

/// In lines of a page's width, broken at blanks; the first is indented, and those that follow.
fn wrapped(text: &str, first: &str, further: &str) -> String {
    let options = Options::new(WIDTH).initial_indent(first).subsequent_indent(further);
    fill(text, options.word_separator(WordSeparator::AsciiSpace).word_splitter(WordSplitter::NoHyphenation))
}

/// A text as roff wants it: nothing in it commands the formatter.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('"', "\\(dq");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Args, Done, reply};

    fn commands() -> CommandSet<()> {
        let mut set = CommandSet::new();
        set.section("Interfaces", "What packets come from.");
        set.add(
            Command::new("set mtu <mtu:u32 68..9216> <interface:interface>", "Set it.", |(): &mut (), _: &Args| {
                reply(Done)
            })
            .configures()
            .example("set mtu 1500 e0"),
        );
        set
    }

    #[test]
    fn the_guide_tells_syntax_parameters_and_examples_by_section() {
        let guide = commands().guide("made by hand");
        let (_, interfaces) = guide.split_once("\n## Interfaces\n").unwrap();
        let (interfaces, sessions) = interfaces.split_once("\n## Sessions and files\n").unwrap();
        assert_eq!(
            interfaces,
            "\nWhat packets come from.\n\n### set mtu\n\n    set mtu <mtu> <interface>\n\nSet it. *Configuration.*\n\n\
             - `<mtu>`: number 68..9216\n- `<interface>`: interface name\n\n```\nset mtu 1500 e0\n```\n"
        );
        assert!(sessions.contains("\n### comment\n"));
        assert!(guide.starts_with("# Commands\n\n<!-- made by hand -->\n"));
    }

    #[test]
    fn the_manual_escapes_what_roff_would_read() {
        assert_eq!(roff(".a-b \\ \"c\""), "\\&.a\\-b \\e \\(dqc\\(dq");
        assert!(commands().manual().contains(".SS \"Interfaces\"\n.TP\n\\fBset mtu <mtu> <interface>\\fR\nSet it.\n"));
    }

    #[test]
    fn an_example_that_is_no_line_of_its_command_is_found() {
        let with = |example| {
            let mut set = commands();
            set.add(Command::of_session("leave [now]", "Leave.").example(example));
            set.check_examples().map_err(|error| error.message().to_string())
        };
        assert_eq!(with("leave now"), Ok(()));
        assert_eq!(with("echo x").unwrap_err(), "example 'echo x' of leave: it is one of echo");
        assert!(with("leave soon").unwrap_err().contains("unknown input 'soon'"));
    }
}
