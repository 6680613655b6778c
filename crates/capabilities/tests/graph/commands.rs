//! The commands, typed as an operator would, and at random.

use crate::bed::Bed;
use crate::packet::Random;
use command::CommandSet;
use router::{Options, Router};
use std::sync::LazyLock;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LINES: usize = 10_000;

/// A router whose worker runs on a thread of its own, for commands that ask the worker.
pub struct Running {
    pub router: Router,
    commands: CommandSet<Router>,
    worker: Option<JoinHandle<()>>,
}

impl Running {
    pub fn new() -> Running {
        let options = Options { buffers: 4096, huge_pages: false, ..Options::default() };
        let router = quiver_capabilities::router(options).unwrap();
        let worker = router.graph.worker(0).unwrap();
        let worker = Some(std::thread::spawn(move || worker.run()));
        Running { router, commands: quiver_capabilities::commands(), worker }
    }

    pub fn execute(&mut self, line: &str) -> Result<Box<dyn command::Reply>, command::CommandError> {
        let result = self.commands.execute(&mut self.router, line);
        while self.router.events_waiting() > 0 {
            self.router.handle_events();
        }
        result
    }

    pub fn must(&mut self, line: &str) -> String {
        self.execute(line).unwrap_or_else(|error| panic!("{line}: {error}")).text()
    }

    /// Stops the worker, which must not have panicked.
    pub fn stop(mut self) -> Router {
        self.router.graph.stop();
        self.worker.take().unwrap().join().expect("the worker ends in peace");
        self.router
    }
}

const STREAM: &str = "packet-generator new { name s0 limit 300 rate 1e6 size 64-128 interface pg0 node ethernet-input \
     data { IP4: 02:00:00:00:00:aa -> 02:fe:00:00:00:00 UDP: 10.0.0.9 -> 10.0.1.2 - 10.0.1.9 UDP: 1 -> 2 \
     incrementing 40 } }";

/// Two generator interfaces with addresses, a route, a neighbour and a stream.
pub fn set_up(running: &mut Running) {
    for line in [
        "create packet-generator interface pg0",
        "create packet-generator interface pg1",
        "create null interface name n0",
        "set interface state pg0 up",
        "set int state pg1 up",
        "set int ip address pg0 10.0.0.1/24",
        "set int ip address pg1 10.0.1.1/24",
        "ip route add 16.0.0.0/24 via 10.0.1.2",
        "ip route add 17.0.0.0/24 via 10.0.1.2 weight 2 via 10.0.1.3 pg1",
        "ip route add 18.0.0.0/24 via drop",
        "ip neighbor pg1 10.0.1.2 50:7c:6f:20:30:70",
        STREAM,
    ] {
        running.must(line);
    }
}

/// Waits until the generator has sent its packets.
pub fn wait_for_stream(running: &mut Running, count: u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !features::packet_generator::progress(&running.router)
        .iter()
        .any(|(_, enabled, sent)| !enabled && *sent == count)
    {
        assert!(Instant::now() < deadline, "the stream does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn every_show_answers_in_text_and_in_json() {
    let mut running = Running::new();
    set_up(&mut running);
    for line in [
        "mpls table add 0",
        "set interface mpls pg0 enable",
        "mpls local-label add 16 eos via 10.0.1.2 pg1 out-labels 17",
    ] {
        running.must(line);
    }
    running.must("trace add pg-input 20");
    running.must("packet-generator enable-stream s0");
    wait_for_stream(&mut running, 300);
    let mut lines: Vec<String> =
        running.commands.commands().iter().map(|c| c.name().to_string()).filter(|n| n.starts_with("show")).collect();
    assert!(lines.len() >= 15, "{lines:?}");
    for more in [
        "show interface pg1",
        "show interface address",
        "show interface pg0 address",
        "show ip fib 16.0.0.0/24",
        "show ip fib 17.0.0.1",
        "show ip fib detail",
        "show ip fib summary",
        "show ip fib memory",
        "show ip neighbors pg1",
        "show mpls fib 16",
        "show mpls fib table 0 detail",
        "show mpls interface pg1",
        "show node ip4-lookup",
        "show node pg1-output",
        "show errors verbose",
        "show errors meaning",
        "show features verbose",
        "show interface features pg0",
        "show interface pg0 features",
        "show interface rx-placement",
        "show hardware-interfaces verbose pg0",
        "show hardware-interfaces pg0 detail",
        "show hardware-interfaces brief",
        "show memory verbose",
        "show runtime max",
        "show runtime time verbose",
        "show runtime summary",
        "show runtime ip4-lookup",
        "show vlib graph ip4-lookup",
        "show vlib graph dot verbose",
        "show trace max 3",
        "show version verbose",
    ] {
        lines.push(more.into());
    }
    for line in lines {
        let reply = running.execute(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let (text, json) = (reply.text(), reply.json());
        // Generator interfaces have no receive queue, so this output may be empty.
        let may_be_empty = line.contains("rx-placement") || line.contains("show ip6 interface");
        assert!(text.ends_with('\n') || (may_be_empty && text.is_empty()), "{line}: {text:?}");
        assert!(!text.contains('\r'), "{line}: {text:?}");
        assert!(!json.is_null() && json.get("error").is_none(), "{line}: {json}");
    }
    assert!(running.must("show ledger").ends_with("balanced\n"));
    running.stop();
}

#[test]
fn names_that_the_router_knows_are_offered() {
    let mut running = Running::new();
    set_up(&mut running);
    let offered = |line: &str| {
        let completion = running.commands.complete(line, &|kind| router::values(&running.router, kind));
        completion.candidates.into_iter().map(|candidate| candidate.word).collect::<Vec<_>>()
    };
    assert_eq!(offered("set int state "), ["n0", "pg0", "pg1"]);
    assert_eq!(offered("packet-generator delete "), ["s0"]);
    assert_eq!(offered("show node ip4-in"), ["ip4-input", "ip4-input-no-checksum"]);
    assert_eq!(offered("trace add pg-"), ["pg-input", "pg-stall"]);
    running.stop();
}

#[test]
fn every_example_is_a_line_of_its_command() {
    quiver_capabilities::commands().check_examples().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn what_states_configuration_can_be_told_from_what_acts() {
    let commands = quiver_capabilities::commands();
    for (name, expected) in [
        ("set interface state", true),
        ("ip route add", true),
        ("ip neighbor", true),
        ("packet-generator new", true),
        ("packet-generator enable-stream", false),
        ("clear interfaces", false),
        ("show interface", false),
    ] {
        assert_eq!(commands.command(name).unwrap().is_configuration(), expected, "{name}");
    }
}

#[test]
fn a_stream_follows_the_state_of_any_interface() {
    let mut running = Running::new();
    running.must("create null interface name n0");
    running.must(&STREAM.replace("pg0", "n0").replace("02:fe:", "02:51:"));
    for (state, node) in [("down", "pg-input"), ("up", "ip4-input"), ("down", "pg-input")] {
        running.must(&format!("set interface state n0 {state}"));
        running.must("clear errors");
        running.must("packet-generator enable-stream s0");
        wait_for_stream(&mut running, 300);
        let errors = running.must("show errors");
        assert!(errors.contains(node), "{state}: {errors}");
        assert!(errors.contains("300"), "{state}: {errors}");
    }
    running.stop();
}

#[test]
fn a_stream_that_is_slower_than_time_lets_the_worker_sleep() {
    let mut running = Running::new();
    set_up(&mut running);
    running.must(&STREAM.replace("s0", "slow").replace("1e6", "1e-300"));
    running.must("packet-generator enable-stream slow");
    std::thread::sleep(Duration::from_millis(50));
    assert!(running.must("show packet-generator").contains("slow"));
    running.stop();
}

#[test]
fn a_full_trace_takes_no_more() {
    let mut running = Running::new();
    set_up(&mut running);
    let many = STREAM.replace("s0", "many").replace("limit 300 rate 1e6", "limit 60000");
    running.must(&many);
    for _ in 0..2 {
        running.must("trace add pg-input 50000");
        running.must("packet-generator enable-stream many");
        wait_for_stream(&mut running, 60_000);
    }
    let text = running.must("show trace max 60000");
    assert!(text.contains("Packet 50000\n") && !text.contains("Packet 50001\n"));
    running.stop();
}

#[test]
fn the_commands_of_the_seed_work_as_written() {
    let mut bed = Bed::new();
    bed.port_that_finishes("e0", drivers::TxOffloads::default());
    for line in [
        "set int state e0 up",
        "set int ip address e0 100.64.1.1/30",
        "ip route add 16.0.0.0/24 via 100.64.1.2",
        "ip neighbor e0 100.64.1.2 50:7c:6f:20:30:70",
    ] {
        assert_eq!(bed.command(line), Ok(String::new()), "{line}");
    }
    assert!(bed.command("show ip fib 16.0.0.0/24").unwrap().contains("ipv4 via 100.64.1.2 e0"));
    assert!(bed.command("show ip neighbors").unwrap().contains("50:7c:6f:20:30:70"));
    for line in ["set int ip address del e0 100.64.1.1/30", "ip route del 16.0.0.0/24", "ip neighbor del e0 100.64.1.2"]
    {
        assert_eq!(bed.command(line), Ok(String::new()), "{line}");
    }
    assert_eq!((bed.router.ip.routes().len(), bed.router.ip.objects()), (0, 0));
}

#[test]
fn clearing_makes_counters_read_zero() {
    let mut running = Running::new();
    set_up(&mut running);
    running.must("packet-generator enable-stream s0");
    wait_for_stream(&mut running, 300);
    assert!(running.must("show interface pg0").contains("rx packets"));
    running.must("clear interfaces");
    assert!(!running.must("show interface pg0").contains("rx packets"));
    running.must("clear errors");
    running.must("clear runtime");
    running.must("clear trace");
    assert!(running.must("show ledger").ends_with("balanced\n"), "what is cleared is what is read only");
    running.stop();
}

/// Lines that make sense, and the words that they consist of.
const SAMPLES: &[&str] = &[
    "set interface state pg0 up",
    "set interface state pg1 down",
    "set interface ip address pg0 10.0.0.1/24",
    "set interface ip address del pg0 10.0.0.1/24",
    "set interface mtu packet 1500 pg1",
    "set interface mac address pg0 02:00:00:00:00:01",
    "set interface name pg0 pg7",
    "set interface name pg7 pg0",
    "create null interface name n1",
    "create packet-generator interface pg0",
    "create packet-generator interface pg1",
    "delete interface pg0",
    "delete interface n1",
    "delete host-interface name eth9",
    "ip route add 16.0.0.0/24 via 10.0.1.2 pg1 weight 3 via 10.0.1.3",
    "ip route add 0.0.0.0/0 via pg1",
    "ip route add 1.2.3.4/32 via local",
    "ip route add 1.2.0.0/16 via punt",
    "ip route add 1.3.0.0/16 via unreachable",
    "ip route del 16.0.0.0/24",
    "ip route del 16.0.0.0/24 via 10.0.1.3",
    "ip neighbor pg1 10.0.1.2 02:00:00:00:00:02 static",
    "set ip neighbor del pg1 10.0.1.2",
    STREAM,
    "packet-generator new { name s1 limit 10 interface pg1 node ip4-input data { UDP: 1.2.3.4 -> 10.0.0.1 UDP: 1 -> \
     2 hex 0xdead } }",
    "packet-generator new { name s2 interface pg0 pcap /nowhere }",
    "packet-generator enable-stream s0",
    "packet-generator disable-stream",
    "packet-generator delete s0",
    "trace add pg-input 5",
    "clear trace",
    "clear errors",
    "clear runtime",
    "clear interfaces",
    "show interface pg0 address",
    "show hardware-interfaces pg0 verbose",
    "show interface features pg0",
    "show interface rx-placement pg1",
    "show features verbose",
    "show errors verbose",
    "show threads",
    "clear interfaces pg0",
    "show ip fib 16.0.0.0/24 detail",
    "show ip neighbors pg1",
    "show errors",
    "show node ip4-rewrite",
    "show runtime max verbose ip4-lookup",
    "show vlib graph ip4-lookup",
    "show trace max 2",
    "show packet-generator",
    "show buffers",
    "show ledger",
    "comment what you like",
    "show ?",
];

const WORDS: &[&str] = &[
    "{",
    "}",
    "",
    "é",
    "%s",
    "0",
    "4294967296",
    "-1",
    "255.255.255.255/32",
    "2001:db8::/129",
    "::ffff:10.0.0.1",
    "fe80::1",
    "ff02::1",
    "0.0.0.0/0",
    "10.0.1.0/33",
    "224.0.0.1",
    "ff:ff:ff:ff:ff:ff",
    "via",
    "weight",
    "name",
    "interface",
    "pg0",
    "pg1",
    "n1",
    "show",
    "s",
    "?",
    "\t",
    "1e308",
    "data",
];

/// The samples, and the examples of every configuration command, with names of interfaces that exist here.
static LINES_AS_MEANT: LazyLock<Vec<String>> = LazyLock::new(|| {
    let commands = quiver_capabilities::commands();
    let stating = commands.commands();
    let stating = stating.iter().filter(|command| command.is_configuration());
    let of_beds = |line: &String| {
        let named = |word: &str| match word {
            "e0" => "pg0".to_string(),
            "e1" | "tap0" => "pg1".to_string(),
            word => word.to_string(),
        };
        line.split(' ').map(named).collect::<Vec<_>>().join(" ")
    };
    let examples = stating.flat_map(|command| command.examples().iter().map(of_beds));
    SAMPLES.iter().map(|line| line.to_string()).chain(examples).collect()
});

pub fn any_line(random: &mut Random) -> String {
    let mut words: Vec<String> = random.of(&LINES_AS_MEANT).split(' ').map(str::to_string).collect();
    for _ in 0..random.below(4) {
        let at = random.below(words.len());
        match random.below(7) {
            0 => drop(words.remove(at)),
            1 => words.insert(at, random.of(WORDS).to_string()),
            2 => words[at] = random.of(WORDS).to_string(),
            3 => {
                let length = words[at].chars().count();
                let keep = random.below(length + 1);
                words[at] = words[at].chars().take(keep).collect();
            }
            4 => {
                let other: Vec<&str> = random.of(&LINES_AS_MEANT).split(' ').collect();
                let from = random.below(other.len());
                words.extend(other[from..].iter().map(|word| word.to_string()));
            }
            5 => words[at].push(char::from_u32(random.below(0x3000) as u32).unwrap_or('?')),
            _ => {
                let to = random.below(words.len());
                words.swap(at, to);
            }
        }
        if words.is_empty() {
            words.push(String::new());
        }
    }
    words.join(" ")
}

#[test]
fn whatever_is_typed_gets_an_answer_or_an_error_in_words() {
    let mut running = Running::new();
    set_up(&mut running);
    let random = &mut Random::new(10);
    let (mut good, mut bad) = (0, 0);
    for number in 0..LINES {
        let line = any_line(random);
        // Commands that make devices of the host are tested elsewhere, with the host.
        let name = running.commands.find(&line).map(|command| command.name().to_string());
        if name.is_some_and(|name| ["create tap", "create host-interface"].contains(&name.as_str())) {
            continue;
        }
        assert!(!running.commands.help(&line).is_empty() || line.contains('{'), "{line}");
        let completion = running.commands.complete(&line, &|kind| router::values(&running.router, kind));
        assert!(completion.candidates.iter().all(|candidate| candidate.word.starts_with(&line[completion.start..])));
        match running.execute(&line) {
            Ok(reply) => {
                good += 1;
                let _ = (reply.text(), reply.json());
            }
            Err(error) => {
                bad += 1;
                assert!(!error.to_string().is_empty(), "{line}");
                assert!(!error.to_string().contains("did not answer"), "{line}: {error}");
            }
        }
        if number % 100 == 0 {
            running.router.tick();
        }
    }
    assert!(good > LINES / 10 && bad > LINES / 10, "{good} good, {bad} bad");
    let _ = running.execute("packet-generator disable-stream");
    let router = running.stop();
    let counters = &router.graph.counters().errors;
    for (number, error) in router.graph.errors().iter().enumerate().take_while(|(_, error)| error.node == "dispatcher")
    {
        assert_eq!(counters.sum(number, 0), 0, "{}", error.reason);
    }
    assert!(router.graph.ledger().is_balanced());
}

#[test]
fn the_log_is_shown_as_vpp_shows_it() {
    use features::logging::{self, Level};
    let mut running = Running::new();
    running.must("set logging class neighbor level debug rate-limit 9");
    running.must("set logging class ip4 syslog-level err");
    logging::of(&running.router).record("neighbor", Level::Debug, "asked\x1b[2J");
    logging::of(&running.router).record("plugin/load", Level::Notice, "no debug here");
    logging::of(&running.router).record("plugin/load", Level::Debug, "never seen");
    let shown = running.must("show log");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}");
    // `2026/11/20 09:21:42:821 notice     plugin/load    Loaded ...`
    assert_eq!(&lines[0][23..], " debug      neighbor       asked\\u001b[2J");
    assert_eq!(&lines[1][23..], " notice     plugin/load    no debug here");
    let json = running.execute("show logging").unwrap().json();
    assert_eq!(json["entries"][1]["class"], "plugin/load");
    assert_eq!(json["entries"][0]["level"], "debug");
    let shown = running.must("show logging configuration");
    assert!(shown.contains("\nneighbor               debug          all            9\n"), "{shown}");
    assert!(shown.contains("\nip4                    notice         err            50\n"), "{shown}");
    assert_eq!(
        logging::of(&running.router).configuration(),
        ["set logging class ip4 syslog-level err", "set logging class neighbor level debug rate-limit 9"]
    );
    for line in logging::of(&running.router).configuration() {
        running.must(&line);
    }
    running.must("set logging class neighbor level default rate-limit default");
    running.must("set logging size 16");
    running.must("set logging size default");
    running.must("set logging unthrottle-time 3");
    assert_eq!(
        logging::of(&running.router).configuration(),
        ["set logging unthrottle-time 3", "set logging class ip4 syslog-level err"]
    );
    running.must("clear logging");
    assert_eq!(running.must("show logging"), "No log entries\n");
    for (line, said) in [
        ("set logging class dhpc level debug", "did you mean 'dhcp'?"),
        ("set logging class neighbor", "level, syslog-level, rate-limit"),
        ("set logging class neighbor level loud", "loud"),
        ("set logging size 3", "16..65536"),
    ] {
        let refusal = running.execute(line).err().unwrap_or_else(|| panic!("{line}")).to_string();
        assert!(refusal.contains(said), "{refusal}");
    }
    running.stop();
}
