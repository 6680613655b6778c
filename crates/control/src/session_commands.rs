//! The commands that a session carries out by itself, as the grammar knows them.

use command::{Command, CommandSet, SESSION_SECTION};

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
