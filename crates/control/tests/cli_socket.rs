//! The CLI socket from outside: byte transcripts of the clients that use it.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use command::{Command, CommandError, CommandSet, Completion, Done, Reply, Text, fail, reply, still_wanted};
use quiver_control::cli_client::Failure;
use quiver_control::cli_server::MAXIMUM_CONNECTIONS;
use quiver_control::{CliClient, CliServer, Executor, Format, SessionDefaults, SessionLine, add_session_commands};
use serde::Serialize;

/// What the server sends first: WILL SGA, DO SGA, WILL ECHO, DONT ECHO, DO TTYPE,
/// SB TTYPE SEND, DO NAWS, SB NAWS SEND.
const GREETING: [u8; 30] = [
    255, 251, 3, 255, 253, 3, 255, 251, 1, 255, 254, 1, 255, 253, 24, 255, 250, 24, 1, 255, 240, 255, 253, 31, 255,
    250, 31, 1, 255, 240,
];

/// How `vppctl COMMAND` and `vppctl` in an xterm answer the request for a terminal type.
const TTYPE_VPPCTL: &[u8] = b"\xff\xfa\x18\x00vppctl\xff\xf0";
const TTYPE_XTERM: &[u8] = b"\xff\xfa\x18\x00xterm\xff\xf0";
/// 80 columns, 24 rows.
const NAWS: &[u8] = b"\xff\xfa\x1f\x00\x50\x00\x18\xff\xf0";

/// A router with a few commands.
struct Fake(CommandSet<()>);

impl Fake {
    fn new() -> Self {
        let mut set = CommandSet::new();
        add_session_commands(&mut set);
        for syntax in ["show version", "show interface <name:interface>", "large", "forever", "slow"] {
            set.add(Command::of_session(syntax, ""));
        }
        Self(set)
    }
}

#[derive(Serialize)]
struct Version {
    version: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "quiver v{}", self.version)
    }
}

/// Rows, without end or a given number; counts those that were rendered.
#[derive(Serialize)]
struct Rows {
    count: u64,
    #[serde(skip)]
    rendered: Arc<AtomicUsize>,
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.count).try_for_each(|_| {
            self.rendered.fetch_add(1, Ordering::Relaxed);
            writeln!(f, "0123456789abcde")
        })
    }
}

/// Two lines in quick succession, a third after a while. Then it waits until the test has seen them all, and checks now
/// and then whether it is still wanted.
struct Slow;

/// Lines of [`Slow`] that the test has seen.
static SEEN: AtomicUsize = AtomicUsize::new(0);

impl Reply for Slow {
    fn write(&self, _: Format, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "one\ntwo")?;
        for (seen, line) in [(2, "three"), (3, "end")] {
            while SEEN.load(Ordering::SeqCst) < seen {
                still_wanted(out)?;
                thread::sleep(Duration::from_millis(10));
            }
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// Waits without end for something to print.
struct Wait;

/// How often [`Wait`] has asked whether it is still wanted.
static ASKED: AtomicUsize = AtomicUsize::new(0);

impl Reply for Wait {
    fn write(&self, _: Format, out: &mut dyn Write) -> io::Result<()> {
        loop {
            still_wanted(out)?;
            ASKED.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn json(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// Waits until a count of rendered rows stops growing.
fn wait_until_it_ends(count: &AtomicUsize) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let before = count.load(Ordering::SeqCst);
        thread::sleep(Duration::from_millis(300));
        if count.load(Ordering::SeqCst) == before {
            return;
        }
        assert!(Instant::now() < deadline, "a reply to nobody goes on");
    }
}

/// Rows of [`Rows`] for `forever` that this process has rendered so far.
static ENDLESS: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

impl Executor for Fake {
    fn execute(&self, line: &str) -> Result<Box<dyn Reply>, CommandError> {
        match line.trim() {
            "show version" => reply(Version { version: 1 }),
            "large" => reply(Rows { count: 1 << 16, rendered: Arc::default() }),
            "forever" => reply(Rows { count: u64::MAX, rendered: ENDLESS.clone() }),
            "ping" => reply(Slow),
            "wait" => reply(Wait),
            "slow" => {
                thread::sleep(Duration::from_millis(1000));
                reply(Done)
            }
            line if line.starts_with("pg {") => reply(Text(format!("{} lines\n", line.lines().count()))),
            "show bogus" => fail("show: unknown input 'bogus'"),
            _ => reply(Done),
        }
    }

    fn of_session(&self, line: &str) -> Option<SessionLine> {
        const OWN: [&str; 4] = ["quit", "exit", "exec", "show terminal"];
        let parsed = self.0.parse(line).ok().filter(|parsed| OWN.contains(&parsed.command.name()))?;
        Some(SessionLine { name: parsed.command.name().to_string(), args: parsed.args })
    }

    fn help(&self, line: &str) -> String {
        format!("  help on '{line}'\n")
    }

    fn complete(&self, line: &str) -> Completion {
        self.0.complete(line, &|_| vec!["e0".into(), "e1".into()])
    }

    fn manners(&self) -> SessionDefaults {
        SessionDefaults { banner: "Quiver\n\n".into(), ..SessionDefaults::default() }
    }
}

/// A directory of its own for each test, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("quiver-cli-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn socket(&self) -> PathBuf {
        self.0.join("run/cli.sock")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn server(directory: &Directory) -> CliServer {
    let mut server = CliServer::bind(directory.socket()).unwrap();
    server.serve(Arc::new(Fake::new())).unwrap();
    server
}

/// A client that states exactly which bytes it sends and expects.
struct Wire(UnixStream);

impl Wire {
    fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut wire = Self(stream);
        wire.expect(&GREETING);
        wire
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    fn expect(&mut self, bytes: &[u8]) {
        let mut received = vec![0; bytes.len()];
        self.0.read_exact(&mut received).unwrap();
        assert_eq!(received.escape_ascii().to_string(), bytes.escape_ascii().to_string());
    }

    fn expect_end(&mut self) {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.escape_ascii().to_string(), "");
    }
}

#[test]
fn vppctl_with_a_command() {
    let directory = Directory::new();
    let _server = server(&directory);
    let mut wire = Wire::connect(&directory.socket());
    wire.send(TTYPE_VPPCTL);
    wire.send(b"show version \n\0");
    wire.expect(b"quiver v1\n\0");
    wire.send(b"quit\n");
    wire.expect_end();
}

#[test]
fn vppctl_with_a_command_that_fails_or_prints_nothing() {
    let directory = Directory::new();
    let _server = server(&directory);
    let mut wire = Wire::connect(&directory.socket());
    wire.send(TTYPE_VPPCTL);
    wire.send(b"show bogus \n\0silent \n\0");
    wire.expect(b"show: unknown input 'bogus'\n\0\0");
    wire.send(b"quit\n");
    wire.expect_end();
}

#[test]
fn vppctl_fed_by_a_pipe_with_a_block_of_several_lines() {
    let directory = Directory::new();
    let _server = server(&directory);
    let mut wire = Wire::connect(&directory.socket());
    wire.send(TTYPE_VPPCTL);
    wire.send(b"show version\npg {\n  name x\n");
    wire.send(b"}\nquit\n");
    wire.expect(b"quiver v1\n\0\0\x003 lines\n\0");
    wire.expect_end();
}

#[test]
fn vppctl_in_a_terminal() {
    const PROMPT: &[u8] = b"\x1b[1mquiver# \x1b[0m";
    let directory = Directory::new();
    let _server = server(&directory);
    let mut wire = Wire::connect(&directory.socket());
    // The client answers both requests, and reports its size again when its window changes.
    wire.send(&[TTYPE_XTERM, NAWS].concat());
    wire.expect(&[b"Quiver\r\n\r\n", PROMPT].concat());
    wire.send(b"sho");
    wire.expect(b"sho");
    wire.send(NAWS);
    wire.send(b"w ?");
    wire.expect(&[b"w ?\r\n  help on 'show '\r\n", PROMPT, b"show "].concat());
    wire.send(b"versiom\x7fn\n");
    wire.expect(&[b"versiom\x08 \x08n\r\nquiver v1\r\n", PROMPT].concat());
    wire.send(b"\x1b[A\r");
    wire.expect(&[b"show version\r\nquiver v1\r\n", PROMPT].concat());
    wire.send(b"show bogus\n");
    wire.expect(&[b"show bogus\r\n\x1b[31mshow: unknown input 'bogus'\r\n\x1b[0m", PROMPT].concat());
    wire.send(b"show int\t");
    wire.expect(b"show interface ");
    // First TAB: the unambiguous part; second TAB: the candidates.
    wire.send(b"\t\t");
    wire.expect(&[b"e\r\ne0  e1\r\n", PROMPT, b"show interface e"].concat());
    wire.send(b"\x03");
    wire.expect(&[b"^C\r\n", PROMPT].concat());
    wire.send(b"\x04");
    wire.expect(b"\r\n");
    wire.expect_end();
}

#[test]
fn a_reply_that_takes_its_time_is_seen_as_it_comes() {
    let directory = Directory::new();
    let _server = server(&directory);
    let mut wire = Wire::connect(&directory.socket());
    wire.send(TTYPE_VPPCTL);
    wire.send(b"ping\n\0");
    wire.expect(b"one\ntwo\n");
    SEEN.store(2, Ordering::SeqCst);
    wire.expect(b"three\n");
    SEEN.store(3, Ordering::SeqCst);
    wire.expect(b"end\n\0");
}

#[test]
fn interrupt_and_hanging_up_end_a_reply_without_end() {
    let directory = Directory::new();
    let _server = server(&directory);
    let mut wire = Wire::connect(&directory.socket());
    wire.send(&[b"\xff\xfa\x18\x00dumb\xff\xf0", NAWS].concat());
    wire.expect(b"Quiver\r\n\r\nquiver# ");
    // Pages would stop the reply.
    wire.send(b"forever\n");
    wire.expect(b"forever\r\n0123456789abcde\r\n");
    wire.send(b"a");
    let mut some = vec![0; 1 << 20];
    wire.0.read_exact(&mut some).unwrap();
    wire.send(b"\x03");
    wire.0.write_all(b"\x04").unwrap();
    let mut rest = Vec::new();
    wire.0.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"^C\r\nquiver# \r\n"), "{}", rest[rest.len() - 40..].escape_ascii());

    let mut wire = Wire::connect(&directory.socket());
    wire.send(b"forever\n");
    wire.0.read_exact(&mut some).unwrap();
    drop(wire);
    wait_until_it_ends(&ENDLESS);

    // A reply that prints nothing cannot notice by writing that the client is gone.
    let mut wire = Wire::connect(&directory.socket());
    wire.send(b"wait\n");
    while ASKED.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    drop(wire);
    wait_until_it_ends(&ASKED);
}

#[test]
fn interrupt_and_hanging_up_end_a_file_that_prints_nothing() {
    let directory = Directory::new();
    let server = server(&directory);
    // Files that execute the next one over and over: 8^8 times, nothing at the end.
    let name = |depth: usize| directory.0.join(format!("depth{depth}"));
    for depth in 0..8 {
        std::fs::write(name(depth), format!("exec {}\n", name(depth + 1).display()).repeat(8)).unwrap();
    }
    std::fs::write(name(8), "").unwrap();
    let exec = format!("exec {}\n", name(0).display());
    let mut wire = Wire::connect(server.path());
    wire.send(TTYPE_XTERM);
    wire.send(exec.as_bytes());
    thread::sleep(Duration::from_millis(50));
    wire.send(b"\x03quit\n");
    let mut shown = Vec::new();
    wire.0.read_to_end(&mut shown).unwrap();
    assert!(shown.ends_with(b"^C\r\n\x1b[1mquiver# \x1b[0mquit\r\n"), "{}", shown.escape_ascii());
    // Clients that hang up leave room for other clients.
    for _ in 0..MAXIMUM_CONNECTIONS {
        Wire::connect(server.path()).send(exec.as_bytes());
        thread::sleep(Duration::from_millis(2));
    }
    let is_greeted = || {
        let mut first = [0];
        UnixStream::connect(server.path()).unwrap().read_exact(&mut first).unwrap();
        first[0] == GREETING[0]
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_greeted() {
        assert!(Instant::now() < deadline, "files are carried out for nobody");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn telnet_sequences_may_be_cut_anywhere() {
    let directory = Directory::new();
    let _server = server(&directory);
    let mut wire = Wire::connect(&directory.socket());
    for byte in [TTYPE_VPPCTL, NAWS, b"show version \n\0"].concat() {
        wire.send(&[byte]);
        thread::sleep(Duration::from_micros(200));
    }
    wire.expect(b"quiver v1\n\0");
}

#[test]
fn a_plain_client_is_answered_without_prompts_or_nuls() {
    let directory = Directory::new();
    let _server = server(&directory);
    let mut wire = Wire::connect(&directory.socket());
    wire.send(b"show version\nshow bogus\nshow version");
    wire.0.shutdown(std::net::Shutdown::Write).unwrap();
    wire.expect(b"quiver v1\nshow: unknown input 'bogus'\nquiver v1\n");
    wire.expect_end();
}

#[test]
fn our_client_learns_whether_a_command_failed() {
    let directory = Directory::new();
    let _server = server(&directory);
    let mut client = CliClient::connect(directory.socket(), Format::Text).unwrap();
    let done = client.run("show version").unwrap();
    assert_eq!((done.text.as_str(), done.success), ("quiver v1\n", true));
    let failed = client.run("show bogus").unwrap();
    assert_eq!((failed.text.as_str(), failed.success), ("show: unknown input 'bogus'\n", false));
    assert_eq!(client.run("pg {\n a\n}").unwrap().text, "3 lines\n");
    assert_eq!(client.run("large").unwrap().text.len(), 1 << 20);
    assert!(!client.run("pg {").unwrap().success);
    assert!(!client.run("a\0b").unwrap().success);
    assert!(client.run("quit").unwrap().success);
    assert!(client.run("# remark").unwrap().success);

    let mut client = CliClient::connect(directory.socket(), Format::Json).unwrap();
    assert_eq!(client.run("show version").unwrap().text, "{\"version\":1}\n");
    assert_eq!(client.run("show version\nshow version").unwrap().text, "{\"version\":1}\n{\"version\":1}\n");
    let failed = client.run("show bogus").unwrap();
    assert_eq!(failed.text, "{\"error\":\"show: unknown input 'bogus'\"}\n");
}

#[test]
fn a_batch_names_the_lines_that_fail_and_stops_or_goes_on() {
    let directory = Directory::new();
    let _server = server(&directory);
    let mut client = CliClient::connect(directory.socket(), Format::Text).unwrap();
    let mut batch = |text: &[u8], go_on: bool| {
        let (mut output, mut failures) = (Vec::new(), Vec::new());
        let failed = |failure| {
            failures.push(failure);
            go_on
        };
        client.run_lines(text, &mut output, failed).unwrap();
        (String::from_utf8(output).unwrap(), failures)
    };
    let failure = |line, message: &str| Failure { line, message: message.into() };
    let text = b"# start\nshow version\npg {\n}\n\nshow bogus\nshow version\n";
    let bogus = failure(6, "show: unknown input 'bogus'");
    assert_eq!(batch(text, false), ("quiver v1\n2 lines\n".into(), vec![bogus.clone()]));
    assert_eq!(batch(text, true), ("quiver v1\n2 lines\nquiver v1\n".into(), vec![bogus]));
    assert_eq!(batch(b"\npg {\n", false), (String::new(), vec![failure(2, "'{' is never closed")]));
    let quit = b"show version\n\xff\nquit\nshow bogus";
    assert_eq!(batch(quit, true), ("quiver v1\n".into(), vec![failure(2, "not UTF-8 text")]));
}

#[test]
fn our_client_asks_what_completes_a_line() {
    let directory = Directory::new();
    let _server = server(&directory);
    let mut client = CliClient::connect(directory.socket(), Format::Text).unwrap();
    assert_eq!(client.complete("show interface ").unwrap(), ["e0", "e1"]);
    assert_eq!(client.complete("show ver").unwrap(), ["version"]);
    assert!(client.complete("bogus ").unwrap().is_empty());
    assert!(client.run("show version").unwrap().success);
}

#[test]
fn our_client_passes_keys_and_characters_between_a_terminal_and_the_session() {
    let directory = Directory::new();
    let _server = server(&directory);
    let (mut client, keys) = CliClient::connect_terminal(directory.socket(), "dumb", (100, 30)).unwrap();
    keys.press(b"show terminal\r").unwrap();
    keys.tell_window_size((255, 43)).unwrap();
    // Bytes that no UTF-8 text holds are not sent as telnet.
    keys.press(b"sh term\xff\xfa\r\x04").unwrap();
    let mut output = Vec::new();
    client.show(&mut output).unwrap();
    let output = String::from_utf8(output).unwrap();
    assert!(output.contains("Terminal width:  100\r\n") && output.contains("Terminal width:  255\r\n"), "{output}");
    assert!(output.ends_with("Pager limit:     100000\r\nquiver# \r\n"), "{output}");
}

#[test]
fn connections_beyond_the_bound_are_told_so() {
    let directory = Directory::new();
    let _server = server(&directory);
    let mut open: Vec<Wire> = (0..MAXIMUM_CONNECTIONS).map(|_| Wire::connect(&directory.socket())).collect();
    let mut turned_away = UnixStream::connect(directory.socket()).unwrap();
    turned_away.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut refused = String::new();
    turned_away.read_to_string(&mut refused).unwrap();
    assert_eq!(refused, "too many CLI connections (at most 64)\n");
    let error = CliClient::connect(directory.socket(), Format::Text).err().unwrap();
    assert!(error.to_string().contains("too many CLI connections"), "{error}");
    // A client that leaves makes room.
    open.pop().unwrap().send(b"quit\n");
    let deadline = Instant::now() + Duration::from_secs(5);
    while CliClient::connect(directory.socket(), Format::Text).is_err() {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn clients_that_hang_or_do_not_read_hold_up_nobody() {
    let directory = Directory::new();
    let mut server = CliServer::bind(directory.socket()).unwrap();
    server.set_write_timeout(Duration::from_millis(200));
    server.serve(Arc::new(Fake::new())).unwrap();
    let mut deaf = Wire::connect(&directory.socket());
    deaf.send(b"large\nlarge\n");
    let mut slow = Wire::connect(&directory.socket());
    slow.send(TTYPE_VPPCTL);
    slow.send(b"slow \n\0");
    let _half = UnixStream::connect(directory.socket()).unwrap().write_all(b"\xff\xfa");
    let began = Instant::now();
    let mut client = CliClient::connect(directory.socket(), Format::Text).unwrap();
    assert!(client.run("show version").unwrap().success);
    assert!(began.elapsed() < Duration::from_millis(900));
    slow.expect(b"\0");
    // The server drops the client that does not read: its stream ends early.
    thread::sleep(Duration::from_millis(600));
    let mut rest = Vec::new();
    deaf.0.read_to_end(&mut rest).unwrap();
    assert!(rest.len() < 2 << 20, "{}", rest.len());
}

#[test]
fn random_bytes_are_survived() {
    let directory = Directory::new();
    let _server = server(&directory);
    let mut random = 0xdead_beef_1234_5678_u64;
    for round in 0..100 {
        let mut wire = Wire::connect(&directory.socket());
        let mut bytes = Vec::new();
        for _ in 0..2000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let telling = b"\xff\xfa\xf0\x18\x1f\x00\n\r{}?\x1b[quit";
            bytes.push(match random % 2 {
                0 => (random >> 32) as u8,
                _ => telling[(random >> 32) as usize % telling.len()],
            });
        }
        if round % 2 == 0 {
            let _ = wire.0.write_all(TTYPE_XTERM);
        }
        // The server may have closed already: the bytes may hold a `quit`.
        let _ = wire.0.write_all(&bytes);
    }
    let mut client = CliClient::connect(directory.socket(), Format::Text).unwrap();
    assert!(client.run("show version").unwrap().success);
}

#[test]
fn a_stale_socket_is_taken_and_a_living_one_names_its_holder() {
    let directory = Directory::new();
    let path = directory.socket();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    drop(UnixListener::bind(&path).unwrap());
    let first = server(&directory);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    let error = CliServer::bind(&path).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    let holder = format!("is in use by process {} (", std::process::id());
    assert!(error.to_string().contains(&holder), "{error}");
    drop(first);
    assert!(!path.exists());
    std::fs::write(&path, "a file").unwrap();
    let error = CliServer::bind(&path).err().unwrap();
    assert!(error.to_string().ends_with("exists and is not a socket"));
}

#[test]
fn shutdown_closes_clients_and_leaves_a_socket_that_is_no_longer_ours() {
    let directory = Directory::new();
    let mut server = server(&directory);
    let mut wire = Wire::connect(&directory.socket());
    std::fs::remove_file(directory.socket()).unwrap();
    let _other = UnixListener::bind(directory.socket()).unwrap();
    server.shutdown();
    wire.expect_end();
    assert!(directory.socket().exists());
}

#[test]
fn a_client_says_what_it_could_not_reach() {
    let error = CliClient::connect("/nonexistent/cli.sock", Format::Text).err().unwrap();
    assert!(error.to_string().starts_with("/nonexistent/cli.sock: "));
}
