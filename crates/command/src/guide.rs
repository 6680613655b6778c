//! Documents made of the grammar, so that they cannot say anything else than it does: the
//! guide to the commands (Markdown) and the commands' part of the manual page (roff).

use std::fmt::Write;

use crate::syntax::values;
use crate::{Command, CommandSet};

/// What holds for every command.
const INTRODUCTION: &str = "\
Any word of a command may be shortened while it stays unambiguous: `sh int`, `set int state e0 up`. At a terminal TAB
completes a word and `?` lists what can follow, at every word. Commands come from `quiver cli COMMAND`, a session
(`quiver cli`, `vppctl`), standard input, a file (`quiver cli -f FILE`, `exec FILE`) or `unix { exec FILE }`. A
`{ ... }` block may span lines, and `\\` at the end of a line continues it. `#` where a word could begin is a remark to the end of
the line, a line that begins with `comment` is one, and `comment { ... }` may span lines. `define NAME VALUE` makes a macro, for which
`$(NAME)` stands in later lines. Other spellings of VPP's are taken, too, and not listed (`loop create`); a
word of VPP's for what is not here is answered with what there is instead. Every command also answers as JSON
(`quiver cli --json COMMAND`).

How to read what follows: words stand for themselves, `<...>` for a value, `[...]` may be left out, `{a|b}` is one of
several, and `...` after something means that it may be repeated. Commands marked *configuration* say how the router is
to be set up; the others act or show.
";

impl<C> CommandSet<C> {
    /// All commands as a Markdown page, by section. `note` stands at its top as a remark.
    pub fn guide(&self, note: &str) -> String {
        let mut page = format!("# Commands\n\n<!-- {note} -->\n\n{INTRODUCTION}");
        for (section, commands) in self.sections().iter().filter(|(_, commands)| !commands.is_empty()) {
            let _ = writeln!(page, "\n## {}", section.title);
            if !section.introduction.is_empty() {
                let _ = writeln!(page, "\n{}", section.introduction);
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
    let mut entry = format!("\n### {}\n\n    {}\n\n{}", command.name(), command.syntax(), command.help());
    if command.is_configuration() {
        entry += " *Configuration.*";
    }
    entry.push('\n');
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
        let _ = writeln!(entry, "- `{}`: {expectation}", kind.placeholder(name));
    }
    if !command.examples().is_empty() {
        let lines: Vec<String> = command.examples().iter().flat_map(|line| line.lines()).map(str::to_string).collect();
        let _ = writeln!(entry, "\n```\n{}\n```", lines.join("\n"));
    }
    entry
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
        assert_eq!(with("echo x").unwrap_err(), "example `echo x' of leave: it is one of echo");
        assert!(with("leave soon").unwrap_err().contains("unknown input `soon'"));
    }
}
