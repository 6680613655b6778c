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
        "What concerns the session and not the router. At a terminal: arrows walk the history, `^R` searches it, TAB \
         completes, `^C` gives up a line or ends what is being printed. Output that is longer than the window stops at \
         each page: space goes on by a page, enter by a line, `a` to the end, `q` leaves it.",
    );
    for name in ["quit", "exit"] {
        set.add(Command::of_session(name, "Leave this session; in a file, end the file."));
    }
    set.add(
        Command::of_session(
            "exec <file:path>",
            "Carry out the commands in a file. The first that fails ends it and is named; those before it stay in force.",
        )
        .example("exec /etc/quiver/peering.cli"),
    );
    set.add(
        Command::of_session(
            "define <name:word> <value:rest>",
            "Have `$(NAME)` stand for the value, in all later lines of sessions and files; in a file that is loaded, in its own \
             lines. Macros in the value are read now.",
        )
        .example("define WAN e0")
        .example("define PEER 192.0.2.1"),
    );
    set.add(Command::of_session("undefine <name:word>", "Forget a macro.").example("undefine PEER"));
    set.add(Command::of_session("show macro", "What `$(NAME)` stands for, by name."));
    for name in ["history", "show history"] {
        set.add(Command::of_session(name, "The lines entered in this session."));
    }
    set.add(Command::of_session("show terminal", "What is known of this session's terminal, and how it is set."));
    set.add(
        Command::of_session(
            "set terminal pager [{on|off:state}] [limit <limit:u32>]",
            "Stop at each page of a longer output, or not. Of one output `limit' lines are paged, the rest is printed \
             without stopping.",
        )
        .example("set terminal pager off"),
    );
    set.add(
        Command::of_session(
            "set terminal history [{on|off:state}] [limit <limit:u32 1..10000>]",
            "Remember the lines entered, or not, and how many.",
        )
        .example("set terminal history limit 200"),
    );
    set.add(
        Command::of_session("set terminal ansi {on|off:state}", "Use colours, or not.")
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
