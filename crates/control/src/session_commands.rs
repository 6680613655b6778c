//! The commands that a session carries out by itself, as the grammar knows them.

use crate::SessionLine;
use command::{Command, CommandError, CommandSet, Done, Macros, Reply, SESSION_SECTION, reply};
use serde::Serialize;
use std::fmt;

/// Puts the commands of sessions into a program's grammar, so that help, completion and
/// abbreviation treat them as all others.
pub fn add_session_commands<C>(set: &mut CommandSet<C>) {
    set.section(
        SESSION_SECTION,
        "These commands concern the session, not the router. At a terminal, the arrow keys browse the history, `^R` \
         searches it, TAB completes, and `^C` discards a line or stops the output. Output that is longer than the \
         window stops at each page: space shows the next page, enter the next line, `a` the rest; `q` quits.",
    );
    for name in ["quit", "exit"] {
        set.add(Command::of_session(name, "Leave this session; in a file, end the file."));
    }
    set.add(
        Command::of_session(
            "exec <file:path>",
            "Run the commands of a file. The first command that fails is reported and ends the file; the commands \
             before it stay in force.",
        )
        .example("exec /etc/quiver/peering.cli"),
    );
    set.add(
        Command::of_session(
            "define <name:word> <value:rest>",
            "Define a macro: `$(NAME)` stands for the value in all later lines of sessions and files. A macro of a \
             file that is loaded holds in this file only. Macros in the value are expanded at once.",
        )
        .example("define WAN e0")
        .example("define PEER 192.0.2.1"),
    );
    set.add(Command::of_session("undefine <name:word>", "Remove a macro.").example("undefine PEER"));
    set.add(Command::of_session("show macro", "Show macros by name."));
    for name in ["history", "show history"] {
        set.add(Command::of_session(name, "Show the lines entered in this session."));
    }
    set.add(Command::of_session("show terminal", "Show the terminal of this session and its settings."));
    set.add(
        Command::of_session(
            "set terminal pager [{on|off:state}] [limit <limit:u32>]",
            "Enable or disable the pager. It pages the first `limit` lines of an output and prints the rest without \
             stopping.",
        )
        .example("set terminal pager off"),
    );
    set.add(
        Command::of_session(
            "set terminal history [{on|off:state}] [limit <limit:u32 1..10000>]",
            "Enable or disable the history of lines, and set its length.",
        )
        .example("set terminal history limit 200"),
    );
    set.add(
        Command::of_session("set terminal ansi {on|off:state}", "Enable or disable colours.")
            .example("set terminal ansi off"),
    );
}

/// Carries out a line on macros; `None` when it is about something else.
pub(crate) fn on_macros(own: &SessionLine, macros: &Macros) -> Option<Result<Box<dyn Reply>, CommandError>> {
    let name = own.args.optional_text("name").unwrap_or_default();
    let value = own.args.optional_text("value").unwrap_or_default();
    let done = match own.name.as_str() {
        "define" => macros.define(name, value),
        "undefine" => macros.undefine(name),
        "show macro" => return Some(reply(Listing(macros.list()))),
        _ => return None,
    };
    let failed = |message| CommandError::new(format!("{}: {message}", own.name));
    Some(done.map_err(failed).and_then(|()| reply(Done)))
}

/// The reply of `show macro`.
#[derive(Serialize)]
struct Listing(Vec<(String, String)>);

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, value)| writeln!(f, "{name:<24} {value}"))
    }
}
