//! Sessions as bytes: what a client sends, and what comes back.

use super::*;
use crate::add_session_commands;
use crate::telnet::{terminal_type, window_size_told};
use command::{Command, CommandError, CommandSet, Completion, fail, reply, still_wanted};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A program that repeats each line, with a grammar that knows the shape of a few commands.
struct Parrot(CommandSet<()>);

/// Counts up, one number a line, for as long as the client reads.
struct Count(u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (1..=self.0).try_for_each(|number| writeln!(f, "{number}"))
    }
}

impl Serialize for Count {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(1..=self.0)
    }
}

/// Waits between its lines, as a ping does.
struct Live(u32);

impl Reply for Live {
    fn write(&self, _: Format, out: &mut dyn io::Write) -> io::Result<()> {
        (1..=self.0).try_for_each(|number| {
            still_wanted(out)?;
            writeln!(out, "{number}")
        })
    }

    fn json(&self) -> serde_json::Value {
        self.0.into()
    }
}

/// Lines of which some parts are empty, as in a table with an empty column.
#[derive(Serialize)]
struct Gaps(u32);

impl fmt::Display for Gaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (1..=self.0).try_for_each(|number| {
            f.write_str("")?;
            writeln!(f, "{number}")
        })
    }
}

#[derive(Serialize)]
struct Line(String);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.0)
    }
}

impl Parrot {
    fn new() -> Self {
        let mut set = CommandSet::new();
        add_session_commands(&mut set);
        for syntax in ["show interface <name:interface>", "show ip fib", "show ip neighbors", "set state <x:word>"] {
            set.add(Command::new(syntax, "", |(): &mut (), _| reply(command::Done)));
        }
        Self(set)
    }
}

impl Executor for Parrot {
    fn execute(&self, line: &str) -> Result<Box<dyn Reply>, CommandError> {
        match line.split_once(' ') {
            Some(("fail", message)) => fail(message),
            Some(("count", number)) => reply(Count(number.parse().unwrap())),
            Some(("gaps", number)) => reply(Gaps(number.parse().unwrap())),
            Some(("live", number)) => reply(Live(number.parse().unwrap())),
            _ if line == "silent" => reply(command::Done),
            _ => reply(Line(line.to_string())),
        }
    }

    fn of_session(&self, line: &str) -> Option<SessionLine> {
        let parsed = self.0.parse(line).ok().filter(|parsed| parsed.command.is_of_session())?;
        Some(SessionLine { name: parsed.command.name().to_string(), args: parsed.args })
    }

    fn help(&self, line: &str) -> String {
        format!("  help on '{line}'\n")
    }

    fn complete(&self, line: &str) -> Completion {
        self.0.complete(line, &|_| vec!["e0".into(), "east".into(), "west".into()])
    }

    fn manners(&self) -> SessionDefaults {
        SessionDefaults { banner: "welcome\n\n".into(), ..SessionDefaults::default() }
    }
}

/// A client whose input is written down beforehand.
#[derive(Default)]
struct Script {
    /// What it sends when the session waits, one item a read.
    input: VecDeque<Vec<u8>>,
    /// What it sends while a reply is being shown.
    meanwhile: VecDeque<Vec<u8>>,
    output: Vec<u8>,
    /// Size of the largest piece that it was sent.
    largest: usize,
    /// After how many bytes it is gone.
    patience: Option<usize>,
    /// How often the session looked for input while it printed.
    looks: Rc<Cell<usize>>,
}

impl Connection for Script {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.largest = self.largest.max(bytes.len());
        self.output.extend(bytes);
        match self.patience.is_some_and(|patience| self.output.len() > patience) {
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        }
    }

    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut next = self.input.pop_front().unwrap_or_default();
        let count = next.len().min(bytes.len());
        bytes[..count].copy_from_slice(&next[..count]);
        if count < next.len() {
            self.input.push_front(next.split_off(count));
        }
        Ok(count)
    }

    fn take(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.looks.set(self.looks.get() + 1);
        let next = self.meanwhile.pop_front().unwrap_or_default();
        bytes[..next.len()].copy_from_slice(&next);
        Ok(next.len())
    }
}

/// What a client receives if it sends these pieces.
fn transcript(pieces: &[&[u8]]) -> String {
    let mut script = Script { input: pieces.iter().map(|piece| piece.to_vec()).collect(), ..Script::default() };
    Session::new(&Parrot::new(), &mut script).run().unwrap();
    String::from_utf8(script.output).unwrap()
}

fn as_terminal(name: &str, bytes: &[u8]) -> String {
    transcript(&[&terminal_type(name), bytes])
}

/// What a person at a dumb terminal, who types one key after the other, sees between the first prompt and the last.
fn dumb(window: (u16, u16), keys: &[u8]) -> String {
    let greeting = [window_size_told(window.0, window.1), terminal_type("dumb")].concat();
    let mut pieces: Vec<&[u8]> = vec![&greeting];
    pieces.extend(keys.chunks(1));
    let seen = transcript(&pieces);
    let seen = seen.strip_prefix("welcome\r\n\r\nquiver# ").unwrap();
    seen.strip_suffix("quiver# ").unwrap_or(seen).to_string()
}

#[test]
fn a_plain_client_gets_answers_and_nothing_else() {
    assert_eq!(transcript(&[b"one\r\nsilent\n\nfail why\nlast"]), "[one]\nwhy\n[last]\n");
    assert_eq!(transcript(&[b"one\nqu", b"it\ntwo\n"]), "[one]\n");
}

#[test]
fn vppctl_gets_a_nul_after_each_line() {
    assert_eq!(as_terminal("vppctl", b"show version \n\0"), "[show version]\n\0");
    assert_eq!(as_terminal("vppctl", b"silent\n\nfail no\npg {\nx }\nq\n"), "\0\0no\n\0\0[pg {\nx }]\n\0");
}

#[test]
fn an_open_block_is_refused_at_the_clients_nul_or_quit() {
    let refusal = "\0'{' is never closed\n\0";
    assert_eq!(as_terminal("vppctl", b"pg { \n\0"), refusal);
    assert_eq!(as_terminal("vppctl", b"pg { \nquit\n"), refusal);
}

#[test]
fn our_client_gets_a_status_with_the_nul() {
    assert_eq!(
        as_terminal("quiver", b"one\n\0fail no\n\0pg {\n\0"),
        "[one]\n\x06\0\x15no\n\0\x15'{' is never closed\n\0"
    );
    assert_eq!(as_terminal("quiver-json", b"one\n\0fail no\n\0"), "\"one\"\n\x06\0\x15{\"error\":\"no\"}\n\0");
}

#[test]
fn our_client_may_ask_what_completes_a_line() {
    assert_eq!(as_terminal("quiver", b"sh ip \t\n\0"), "fib\t\nneighbors\t\n\x06\0");
    assert_eq!(as_terminal("quiver-json", b"sho\t\n\0"), "[{\"word\":\"show\",\"help\":\"...\"}]\n\x06\0");
}

#[test]
fn a_terminal_gets_banner_prompt_echo_and_crlf() {
    assert_eq!(
        as_terminal("dumb", b"one\rpg {\n }\r\n\x04"),
        "welcome\r\n\r\nquiver# one\r\n[one]\r\nquiver# pg {\r\n      >  }\r\n[pg {\r\n }]\r\nquiver# \r\n"
    );
}

#[test]
fn colours_are_for_terminals_that_have_them_and_can_be_turned_off() {
    assert_eq!(
        as_terminal("xterm", b"fail no\nset terminal ansi off\nfail no\n"),
        "welcome\r\n\r\n\x1b[1mquiver# \x1b[0mfail no\r\n\x1b[31mno\r\n\x1b[0m\x1b[1mquiver# \x1b[0m\
         set terminal ansi off\r\nquiver# fail no\r\nno\r\nquiver# "
    );
}

#[test]
fn a_question_mark_helps_at_once_and_keeps_the_line() {
    assert_eq!(dumb((80, 24), b"show ?\x03q\n"), "show ?\r\n  help on 'show '\r\nquiver# show ^C\r\nquiver# q\r\n");
}

#[test]
fn tab_completes_what_is_certain_and_lists_the_rest_at_the_second() {
    // One candidate; a common beginning; a bell, then a list.
    assert_eq!(dumb((80, 24), b"sho\t"), "show ");
    assert_eq!(dumb((80, 24), b"sho\t\t"), "show \x07");
    assert_eq!(dumb((80, 24), b"sh i\t"), "sh i\x07");
    assert_eq!(
        dumb((80, 24), b"sh int e\t\t\x01"),
        "sh int e\x07\r\ne0    east\r\nquiver# sh int e\x08\x08\x08\x08\x08\x08\x08\x08"
    );
    assert_eq!(dumb((80, 24), b"sh int ea\t\n"), "sh int east \r\n[sh int east]\r\n");
    assert_eq!(dumb((80, 24), b"x \t"), "x \x07");
    // Another key between two TABs: no list.
    assert_eq!(dumb((80, 24), b"sh i\t\x05\t"), "sh i\x07\x07");
    // A narrow window has one column.
    assert_eq!(dumb((9, 24), b"sh int \t\t"), "sh int \x07\r\ne0\r\neast\r\nwest\r\nquiver# sh int ");
}

#[test]
fn the_window_size_is_kept() {
    let shown = dumb((132, 43), b"sh term\n");
    assert!(shown.contains("Terminal width:  132\r\nTerminal height: 43\r\nANSI capable:    no\r\n"), "{shown}");
}

const MORE: &str = "-- more --";
const ERASED: &str = "\r          \r";

#[test]
fn the_pager_goes_by_pages_lines_to_the_end_or_leaves() {
    let page = |keys: &[u8]| dumb((80, 4), &[b"count 9\n", keys].concat()).replace("\r\n", "|");
    let stop = format!("{MORE}{ERASED}");
    assert_eq!(page(b"  "), format!("count 9|1|2|3|{stop}4|5|6|{stop}7|8|9|"));
    assert_eq!(page(b"\rxq"), format!("count 9|1|2|3|{stop}4|{stop}"));
    assert_eq!(page(b"a"), format!("count 9|1|2|3|{stop}4|5|6|7|8|9|"));
    assert_eq!(page(b"\x03"), format!("count 9|1|2|3|{stop}"));
    // A page that fits does not stop at its end.
    assert_eq!(dumb((80, 4), b"count 3\n"), "count 3\r\n1\r\n2\r\n3\r\n");
}

#[test]
fn a_window_that_grows_shows_more_and_rows_of_long_lines_count() {
    let keys = [b"count 9\n", &window_size_told(80, 8)[..], b"q"].concat();
    let stop = format!("{MORE}{ERASED}");
    assert_eq!(dumb((80, 4), &keys), format!("count 9|1|2|3|{stop}4|5|6|7|{stop}").replace('|', "\r\n"));
    // Three lines, of which the second fills three rows.
    let line = "x".repeat(30);
    let block = format!("pg {{\n{line}\n}}\n ");
    assert_eq!(dumb((10, 4), block.as_bytes()).matches(MORE).count(), 1);
    assert_eq!(dumb((40, 4), block.as_bytes()).matches(MORE).count(), 0);
}

#[test]
fn the_pager_can_be_limited_or_turned_off() {
    let stops = |set: &str| dumb((80, 4), format!("{set}\ncount 9\n          ").as_bytes()).matches(MORE).count();
    assert_eq!(stops("set terminal pager off"), 0);
    assert_eq!(stops("set terminal pager limit 4"), 1);
    assert_eq!(stops("set terminal pager on"), 2);
    // A reply that goes on by itself does not wait for a key; the next command has pages again.
    assert_eq!(dumb((80, 4), b"live 99\n").matches(MORE).count(), 0);
    assert_eq!(dumb((80, 4), b"live 99\ncount 9\n          ").matches(MORE).count(), 2);
    // A reply of which a part is empty is still paged.
    assert_eq!(dumb((80, 4), b"gaps 9\n          ").matches(MORE).count(), 2);
    // A window of unknown height has no pages; neither have clients that are no terminals.
    assert_eq!(dumb((0, 0), b"count 99\n").matches(MORE).count(), 0);
    assert!(!as_terminal("vppctl", b"count 99\n").contains(MORE));
}

#[test]
fn history_is_shown_limited_and_turned_off() {
    assert!(dumb((80, 24), b"one\ntwo\nhistory\n").ends_with("    1  one\r\n    2  two\r\n    3  history\r\n"));
    let limited = dumb((80, 24), b"one\ntwo\nset term hist limit 2\nhistory\n");
    assert!(limited.ends_with("    1  set term hist limit 2\r\n    2  history\r\n"), "{limited}");
    assert!(dumb((80, 24), b"one\nset term hist off\nhistory\n").ends_with("history\r\n"));
}

fn count(number: u64, mode: &str, more: impl FnOnce(&mut Script)) -> (io::Result<()>, Script) {
    let count = format!("count {number}\n").into_bytes();
    let input = [terminal_type(mode), b"set term pager off\n".to_vec(), count].into();
    let mut script = Script { input, ..Script::default() };
    more(&mut script);
    let outcome = Session::new(&Parrot::new(), &mut script).run();
    (outcome, script)
}

#[test]
fn a_million_lines_are_never_held_at_once() {
    let (outcome, script) = count(1_000_000, "vppctl", |_| {});
    outcome.unwrap();
    assert_eq!(script.output.iter().filter(|byte| **byte == b'\n').count(), 1_000_000);
    assert!(script.largest < 20_000, "{}", script.largest);
}

#[test]
fn interrupt_ends_a_reply_and_the_session_goes_on() {
    // The first looks find other keys, which are kept for later.
    let (outcome, script) = count(u64::MAX, "dumb", |script| {
        script.meanwhile = [b"x".to_vec(), b"\x03on".to_vec(), vec![]].into();
        script.input.push_back(b"e\nq\n".to_vec());
    });
    outcome.unwrap();
    let output = String::from_utf8(script.output).unwrap();
    assert!(output.ends_with("^C\r\nquiver# one\r\n[one]\r\nquiver# q\r\n"), "{}", &output[output.len() - 90..]);
    // One for each of the three commands.
    assert_eq!(script.looks.get(), 3);
}

#[test]
fn a_client_that_is_gone_ends_a_reply() {
    let (outcome, script) = count(u64::MAX, "vppctl", |script| script.patience = Some(100_000));
    assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert!(script.output.len() < 120_000);
}

#[test]
fn files_are_carried_out_by_the_session() {
    let file = std::env::temp_dir().join(format!("quiver-session-{}", std::process::id()));
    std::fs::write(&file, "one\nfail here\n").unwrap();
    let shown = as_terminal("quiver", format!("exec {}\n\0", file.display()).as_bytes());
    assert_eq!(shown, format!("[one]\n\x15{}:2: here\n\0", file.display()));
    std::fs::write(&file, "count 9\ntwo\n").unwrap();
    let shown = dumb((80, 4), format!("exec {}\nqthree\n", file.display()).as_bytes());
    assert!(!shown.contains("[two]") && shown.ends_with("[three]\r\n"), "{shown}");
    // The replies of a file are one output.
    std::fs::write(&file, "one\n".repeat(7)).unwrap();
    let shown = dumb((80, 4), format!("exec {}\n  one\n", file.display()).as_bytes());
    assert_eq!(shown.matches(MORE).count(), 2, "{shown}");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn output_cannot_steer_the_terminal_or_end_early() {
    assert_eq!(as_terminal("vppctl", b"fail a\x1b[2Jb\x01\n"), "a?[2Jb?\n\0");
    // C1 controls: their first byte also begins harmless characters.
    assert_eq!(as_terminal("vppctl", "fail a\u{9b}2J \u{a0}é\u{80}\n".as_bytes()), "a?2J \u{a0}é?\n\0");
    assert_eq!(as_terminal("vppctl", "fail \u{ad}\n".as_bytes()), "\u{ad}\n\0");
}

#[test]
fn lines_that_are_too_long_or_no_text_are_refused() {
    let long = [vec![b'x'; MAXIMUM_LINE * 3], b"\none\n".to_vec()].concat();
    assert_eq!(transcript(&[&long]), "line longer than 65536 bytes\n[one]\n");
    assert_eq!(transcript(&[b"\xc3(\none\n"]), "input is not UTF-8 text\n[one]\n");
}

#[test]
fn random_bytes_never_panic_in_any_mode() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for terminal in ["", "vppctl", "quiver", "xterm", "dumb"] {
        for _ in 0..200 {
            let mut bytes = Vec::new();
            for _ in 0..512 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // Prefer the bytes that have a meaning.
                let telling = b"\xff\xfa\xf0\x1b[ABCD{}\n\r\x00\x7f?\x03\x17\x15\t\x12\x07sh a";
                let choice = (random >> 8) as usize;
                bytes.push(match choice % 3 {
                    0 => (random >> 32) as u8,
                    _ => telling[(random >> 32) as usize % telling.len()],
                });
            }
            let mut script = Script::default();
            if !terminal.is_empty() {
                script.input.push_back(terminal_type(terminal));
            }
            script.input.push_back(bytes);
            Session::new(&Parrot::new(), &mut script).run().unwrap();
        }
    }
}

#[test]
fn a_line_longer_than_the_window_is_edited_over_its_rows() {
    let keys = |keys: &[u8]| {
        let told = [&window_size_told(20, 24)[..], &terminal_type("xterm")].concat();
        let seen = transcript(&[&told, keys]);
        seen.rsplit_once("welcome\r\n\r\n").unwrap().1.to_string()
    };
    // The prompt takes eight columns: twelve letters fill the row, and the cursor moves to the next.
    let begun = "\x1b[1mquiver# \x1b[0mabcdefghijkl\r\nmn";
    assert_eq!(keys(b"abcdefghijklmn"), begun);
    let to_the_front = format!("{begun}\x08\x08\x1b[A\x1b[19C{}", "\x08".repeat(11));
    assert_eq!(keys(b"abcdefghijklmn\x01"), to_the_front);
    // The answer appears below both rows, wherever the cursor was.
    let answered = keys(b"abcdefghijklmn\x01\n");
    assert!(answered.starts_with(&format!("{to_the_front}\x1b[1B\r\n[abcdefghijklmn]\r\n")), "{answered:?}");
}
