//! The command language as an operator meets it: lines in, parameters and messages out.

use quiver_command::{
    Args, Command, CommandSet, Done, Format, MAXIMUM_DEPTH, MAXIMUM_LINE, MAXIMUM_WORDS, Text, fail, reply,
};

/// What the handlers saw.
type Seen = Vec<String>;

const INTERFACE_STATE: &str = "set interface state <interface:interface> {up|down:state}";
const ROUTE_ADD: &str = "ip route add <prefix:prefix4> [table <table:u32>] \
    (via {<next_hop:ip4> [<interface:interface>] | drop : target} \
    [weight <weight:u32 1..255>] : paths)+";
const GENERATOR_NEW: &str = "packet-generator new '{' {{ name <name:word> \
    | [limit <limit:u64>] | [rate <rate:rate>] | [size <size:word>] \
    | [interface <interface:interface>] | node <node:word> | data <data:block> \
    | (tag <tag:word> : tags)* }} '}'";

fn saw(name: &'static str) -> impl Fn(&mut Seen, &Args) -> Handled + Send + Sync {
    move |seen: &mut Seen, _: &Args| {
        seen.push(name.to_string());
        reply(Done)
    }
}

type Handled = Result<Box<dyn quiver_command::Reply>, quiver_command::CommandError>;

fn interface_state(seen: &mut Seen, args: &Args) -> Handled {
    if args.text("interface")? == "none" {
        return fail("no interface 'none'");
    }
    seen.push(format!("{} {}", args.text("interface")?, args.text("state")?));
    reply(Done)
}

fn route_add(seen: &mut Seen, args: &Args) -> Handled {
    let mut line = args.text("prefix")?.to_string();
    if let Some(table) = args.optional::<u32>("table")? {
        line += &format!(" table {table}");
    }
    for path in args.groups("paths") {
        let via = path.optional_text("next_hop").unwrap_or("-");
        let interface = path.optional_text("interface").unwrap_or("-");
        let weight = path.optional::<u8>("weight")?.unwrap_or(1);
        line += &format!(" | {} {via} {interface} {weight}", path.text("target")?);
    }
    seen.push(line);
    reply(Done)
}

fn generator_new(seen: &mut Seen, args: &Args) -> Handled {
    seen.push(format!(
        "{} limit {:?} rate {:?} node {} data [{}] tags {}",
        args.text("name")?,
        args.optional::<u64>("limit")?,
        args.optional_rate("rate")?,
        args.text("node")?,
        args.text("data")?,
        args.groups("tags").count(),
    ));
    reply(Done)
}

fn commands() -> CommandSet<Seen> {
    let mut set = CommandSet::new();
    set.add(Command::new(INTERFACE_STATE, "Set it up or down.", interface_state))
        .add(Command::new(ROUTE_ADD, "Add a route.", route_add))
        .add(Command::new(GENERATOR_NEW, "Make a stream.", generator_new))
        .add(Command::new(
            "set interface ip address [del] <interface:interface> <prefix:prefix4>",
            "Add an address.",
            |seen: &mut Seen, args: &Args| {
                let sign = if args.flag("del") { "-" } else { "+" };
                seen.push(format!("{sign}{} {}", args.text("interface")?, args.text("prefix")?));
                reply(Done)
            },
        ))
        .add(Command::new(
            "show interface [<interface:interface>] [verbose]",
            "Interfaces and their counters.",
            |seen: &mut Seen, args: &Args| {
                seen.push(format!(
                    "interface {} {}",
                    args.optional_text("interface").unwrap_or("-"),
                    args.flag("verbose")
                ));
                reply(Text("table".into()))
            },
        ))
        .add(Command::new("show interface address", "Addresses.", saw("addresses")))
        .add(Command::new("show ip", "About IP.", saw("ip")))
        .add(Command::new("show ip fib", "Routes.", saw("fib")))
        .add(Command::new("show ip4 neighbors", "Neighbours.", saw("neighbors")))
        .add(Command::new("show version [{verbose|very-short:how}]", "Version.", saw("version")))
        .add(Command::new("show trace [max <count:u32 1..100>]", "Trace.", saw("trace")))
        .add(Command::new(
            "set interface tag <interface:interface> <text:rest>",
            "Describe it.",
            |seen: &mut Seen, args: &Args| {
                seen.push(args.text("text")?.to_string());
                reply(Done)
            },
        ))
        .add(Command::new("clear trace", "Clear it.", saw("clear")));
    set
}

fn run(line: &str) -> Result<String, String> {
    let mut seen = Seen::new();
    commands().execute(&mut seen, line).map(|_| seen.pop().unwrap_or_default()).map_err(|error| error.to_string())
}

fn ok(line: &str) -> String {
    run(line).unwrap_or_else(|error| panic!("'{line}': {error}"))
}

fn refused(line: &str) -> String {
    run(line).expect_err(line)
}

#[test]
fn path_words_may_be_abbreviated_while_unambiguous() {
    assert_eq!(ok("set int state e0 up"), "e0 up");
    assert_eq!(ok("set int ip address e0 100.64.1.1/30"), "+e0 100.64.1.1/30");
    assert_eq!(ok("set int ip addr del e0 100.64.1.1/30"), "-e0 100.64.1.1/30");
    assert_eq!(ok("sh int"), "interface - false");
    assert_eq!(ok("  sh   int\taddr "), "addresses");
}

#[test]
fn an_exact_word_wins_over_a_longer_word_it_begins() {
    assert_eq!(ok("show ip"), "ip");
    assert_eq!(ok("show ip fib"), "fib");
    assert_eq!(ok("show ip4 n"), "neighbors");
}

#[test]
fn a_path_that_is_a_command_takes_its_parameters_unless_the_path_goes_on() {
    assert_eq!(ok("show interface e0 verbose"), "interface e0 true");
    assert_eq!(ok("show interface verbose"), "interface - true");
    assert_eq!(ok("show interface address"), "addresses");
}

#[test]
fn repetitions_are_read_in_order() {
    assert_eq!(
        ok("ip route add 10.0.0.0/8 via 1.0.0.1 e0 weight 3 via drop via 1.0.0.2 weight 9"),
        "10.0.0.0/8 | next_hop 1.0.0.1 e0 3 | drop - - 1 | next_hop 1.0.0.2 - 9"
    );
    assert_eq!(ok("ip route add 0.0.0.0/0 table 7 via drop"), "0.0.0.0/0 table 7 | drop - - 1");
}

#[test]
fn a_keyword_is_not_taken_for_a_value() {
    assert_eq!(
        ok("ip route add 10.0.0.0/8 via 1.0.0.1 via 1.0.0.2"),
        "10.0.0.0/8 | next_hop 1.0.0.1 - 1 | next_hop 1.0.0.2 - 1"
    );
}

#[test]
fn options_come_in_any_order_and_the_block_is_raw_text() {
    let expected =
        "x limit Some(10) rate Some(1000000.0) node ethernet-input data [IP4: 1.2.3 -> 4.5.6 { a  b }] tags 2";
    for line in [
        "packet-generator new { name x limit 10 rate 1e6 size 64-64 interface pg0 \
         node ethernet-input tag a data { IP4: 1.2.3 -> 4.5.6 { a  b } } tag b }",
        "packet-generator new {\n data {IP4: 1.2.3 -> 4.5.6 { a  b }}\n tag a tag b\n node ethernet-input\n rate 1M \
         limit 10 name x}",
    ] {
        assert_eq!(ok(line), expected);
    }
}

#[test]
fn keyword_abbreviations_are_taken_where_no_value_fits() {
    assert_eq!(ok("ip route add 10.0.0.0/8 v drop"), "10.0.0.0/8 | drop - - 1");
    assert_eq!(ok("show version verb"), "version");
    assert_eq!(ok("set int state e0 u"), "e0 up");
    // Here an interface may stand, so the word is one.
    assert_eq!(ok("show interface verb"), "interface verb false");
}

#[test]
fn the_rest_of_a_line_is_taken_as_written() {
    assert_eq!(ok("set int tag e0   to  the { peer }  "), "to  the { peer }");
}

#[test]
fn remarks_do_nothing() {
    for line in ["", "   ", "# anything {", "comment {{{ }", "comment"] {
        assert_eq!(ok(line), "", "{line}");
    }
}

#[test]
fn an_unknown_word_names_what_could_come() {
    assert_eq!(
        refused("show bogus-command"),
        "show: unknown input 'bogus-command'\nexpected one of: interface, ip, ip4, trace, version"
    );
    assert_eq!(
        refused("bogus"),
        "unknown input 'bogus'\nexpected one of: clear, comment, echo, ip, packet-generator, set, show"
    );
    assert_eq!(refused("show ip bogus"), "show ip: unknown input 'bogus'\nexpected one of: fib");
    assert_eq!(
        refused("show version bogus"),
        "show version: unknown input 'bogus' (word 3)\nexpected one of: verbose, very-short"
    );
}

#[test]
fn an_ambiguous_word_names_what_it_could_be() {
    assert_eq!(refused("show i"), "show: ambiguous command 'i', could be: interface, ip, ip4");
    assert_eq!(refused("c"), "ambiguous command 'c', could be: clear, comment");
    assert_eq!(refused("show version ver"), "show version: ambiguous 'ver' (word 3), could be: verbose, very-short");
}

#[test]
fn an_incomplete_command_says_what_is_missing() {
    assert_eq!(refused("show"), "show: incomplete command\nexpected one of: interface, ip, ip4, trace, version");
    assert_eq!(refused("ip route add"), "ip route add: expected prefix (like 10.0.0.0/8) after 'add'");
    assert_eq!(refused("ip route add 10.0.0.0/8"), "ip route add: expected table or via after '10.0.0.0/8'");
    assert_eq!(refused("packet-generator new { name x limit"), "'{' is never closed (word 3)");
    assert!(refused("packet-generator new { name x }").contains("'}' (word 6)\nexpected one of:"));
}

#[test]
fn a_bad_value_is_named_with_its_place_and_what_was_expected() {
    assert_eq!(
        refused("ip route add 10.0.0.0/33 via drop"),
        "ip route add: bad value '10.0.0.0/33' (word 4): expected prefix (like 10.0.0.0/8)"
    );
    assert_eq!(refused("show trace max 101"), "show trace: bad value '101' (word 4): expected number 1..100");
    assert_eq!(refused("show trace max"), "show trace: expected number 1..100 after 'max'");
}

#[test]
fn trailing_garbage_is_named() {
    assert_eq!(refused("clear trace now"), "clear trace: unexpected 'now' (word 3): the command is complete before it");
}

#[test]
fn an_option_given_twice_or_left_out_is_refused() {
    assert!(refused("packet-generator new { name x name y node n data { } }").contains("'name' (word 6)"));
    assert!(refused("packet-generator new { name x data { } }").contains("node"));
}

#[test]
fn a_handlers_error_carries_the_commands_name() {
    assert_eq!(refused("set int state none up"), "set interface state: no interface 'none'");
}

#[test]
fn a_long_word_is_not_repeated_at_length() {
    let message = refused(&format!("show {}", "ü".repeat(5000)));
    assert!(message.len() < 300, "{}", message.len());
}

#[test]
fn bounds_hold_at_the_set() {
    assert!(refused(&"x".repeat(MAXIMUM_LINE + 1)).contains("longer than"));
    assert!(refused(&"x ".repeat(MAXIMUM_WORDS + 1)).contains("more than 4096 words"));
    let deep = "{".repeat(MAXIMUM_DEPTH + 1) + &"}".repeat(MAXIMUM_DEPTH + 1);
    assert!(refused(&deep).contains("nested deeper"));
    let many = format!("ip route add 10.0.0.0/8{}", " via drop".repeat(2000));
    assert_eq!(ok(&many).matches('|').count(), 2000);
}

#[test]
fn help_lists_names_in_a_column_as_vpp_does() {
    let help = commands().help("show ip");
    assert_eq!(
        help,
        "  show ip                                  About IP.\n\
         \x20 show ip fib                              Routes.\n\
         \x20 show ip4 neighbors                       Neighbours.\n"
    );
    assert_eq!(commands().help("").lines().count(), 7, "first words only");
    assert!(commands().help("").contains("\n  ip route add                             Add a route.\n"));
    assert!(commands().help("").contains("\n  set                                      3 commands: set interface\n"));
    assert_eq!(commands().help("?"), commands().help(""));
    assert!(commands().help("show ").starts_with("  show interface    "));
}

#[test]
fn help_on_a_whole_command_shows_syntax_sentence_and_what_comes_next() {
    assert_eq!(
        commands().help("ip route add ?"),
        "  ip route add                             ip route add <prefix> [table <table>] via {<next-hop> \
         [<interface>]|drop} [weight <weight>] ...\n\
         \x20                                          Add a route.\n\
         \x20 <prefix>                                 prefix (like 10.0.0.0/8)\n"
    );
    assert_eq!(next("ip route add 10.0.0.0/8 "), ["table", "via"]);
    assert_eq!(next("ip route add 10.0.0.0/8 v"), ["via"]);
    assert_eq!(next("ip route add 10.0.0.0/8 via 1.0.0.1 ?"), ["<interface>", "weight", "via", "<enter>"]);
    assert!(
        commands()
            .help("ip route add 10.0.0.0/8 ")
            .ends_with("  table                                    number\n  via\n")
    );
    assert_eq!(next("show interface "), ["<interface>", "verbose", "<enter>"]);
    assert!(commands().help("show interface ").contains("\n  show interface address                   Addresses.\n"));
    // What cannot be lists what could.
    assert_eq!(next("ip route add 10.0.0.0/8 x"), ["table", "via"]);
    assert!(commands().help("bogus ").starts_with("unknown input 'bogus'"));
}

/// The words with which help says that a line may go on.
fn next(line: &str) -> Vec<String> {
    let help = commands().help(line);
    // Words and placeholders; commands are listed with their whole paths.
    let rows = help.lines().filter(|row| !row.starts_with("   ")).map(|row| row.chars().take(42).collect::<String>());
    let words = rows.map(|row| row.trim().to_string()).filter(|word| !word.contains(' ') || word == "{ ... }");
    words.collect()
}

#[test]
fn help_inside_an_open_block_shows_the_options_that_are_left() {
    let left = ["rate", "size", "interface", "node", "data", "tag"];
    assert_eq!(next("packet-generator new { name x limit 3\n "), left);
    assert_eq!(next("packet-generator new { data "), ["{ ... }"]);
    assert!(next("packet-generator new { data { ").is_empty());
}

/// What completes a line, in a program that has some interfaces.
fn completed(line: &str) -> (usize, Vec<String>) {
    let values = |kind: &str| match kind {
        "interface" => vec!["e1".to_string(), "e0".to_string(), "wan".to_string()],
        _ => Vec::new(),
    };
    let completion = commands().complete(line, &values);
    (completion.start, completion.candidates.into_iter().map(|candidate| candidate.word).collect())
}

#[test]
fn a_line_is_completed_by_path_words_keywords_and_known_values() {
    for (line, start, words) in [
        ("", 0, &["clear", "comment", "echo", "ip", "packet-generator", "set", "show"][..]),
        ("sh", 0, &["show"]),
        ("c", 0, &["clear", "comment"]),
        ("show i", 5, &["interface", "ip", "ip4"]),
        ("sh int ", 7, &["address", "e0", "e1", "verbose", "wan"]),
        ("show interface e", 15, &["e0", "e1"]),
        ("show interface e0 ", 18, &["verbose"]),
        ("set int state wan ", 18, &["down", "up"]),
        ("ip route add 10.0.0.0/8 via 1.0.0.1 w", 36, &["wan", "weight"]),
        ("packet-generator new {na", 22, &["name"]),
        ("packet-generator new {\n interface w", 34, &["wan"]),
        ("packet-generator new { name x node y data { } ", 46, &["interface", "limit", "rate", "size", "tag", "}"]),
        // Nothing is known of these.
        ("ip route add ", 13, &[]),
        ("bogus ", 6, &[]),
        ("show interface e0 verbose ", 26, &[]),
        ("set int tag e0 ", 15, &[]),
        ("comment sh", 8, &[]),
        ("# sh", 2, &[]),
        ("a } b", 5, &[]),
    ] {
        assert_eq!(completed(line), (start, words.iter().map(|word| word.to_string()).collect()), "'{line}'");
    }
}

#[test]
fn candidates_say_what_they_are() {
    let about = |line: &str| {
        let completion = commands().complete(line, &|_| vec!["e0".into()]);
        completion.candidates.into_iter().map(|candidate| candidate.help).collect::<Vec<_>>()
    };
    assert_eq!(about("show i"), ["...", "...", "Neighbours."]);
    assert_eq!(about("show trace "), ["number 1..100"]);
    assert_eq!(about("set int state "), ["interface name"]);
}

#[test]
fn what_candidates_share_is_known() {
    let common = |line: &str| commands().complete(line, &|_| Vec::new()).common_prefix().to_string();
    assert_eq!(common("show i"), "i");
    assert_eq!(common("show ip"), "ip");
    assert_eq!(common("show version "), "ver");
    assert_eq!(common("bogus "), "");
}

#[test]
fn a_misspelled_word_is_guessed() {
    assert_eq!(
        refused("show interfcae"),
        "show: unknown input 'interfcae', did you mean 'interface'?\nexpected one of: interface, ip, ip4, trace, \
         version"
    );
    assert_eq!(
        refused("show version verbsoe"),
        "show version: unknown input 'verbsoe' (word 3), did you mean 'verbose'?\nexpected one of: verbose, very-short"
    );
}

#[test]
fn a_line_is_parsed_without_being_run() {
    let set = commands();
    let parsed = set.parse("set int state e0 up").unwrap();
    assert_eq!(parsed.command.name(), "set interface state");
    assert_eq!(parsed.args.text("interface").unwrap(), "e0");
    let mut seen = Seen::new();
    parsed.command.run(&mut seen, &parsed.args).unwrap();
    assert_eq!(seen, ["e0 up"]);
    let error = set.parse("set int state e0 sideways").err().unwrap();
    assert!(error.message().starts_with("set interface state: unknown input 'sideways'"));
    for remark in ["", "# x {", "comment { x"] {
        assert_eq!(set.parse(remark).unwrap().command.name(), "comment");
    }
}

#[test]
fn commands_of_the_session_are_known_and_not_run() {
    let mut set = commands();
    set.add(Command::of_session("set terminal pager {on|off:state}", "Stop at each page."));
    let parsed = set.parse("set term pag on").unwrap();
    assert!(parsed.command.is_of_session() && !set.command("clear trace").unwrap().is_of_session());
    assert_eq!(parsed.args.text("state").unwrap(), "on");
    let refusal = set.execute(&mut Seen::new(), "set term pag on").err().unwrap();
    assert_eq!(refusal.message(), "set terminal pager: this command is for interactive sessions");
}

#[test]
fn commands_belong_to_the_section_that_is_open() {
    let mut set = commands();
    set.section("A", "First.").add(Command::of_session("one", "")).section("B", "").add(Command::of_session("two", ""));
    set.section("A", "").add(Command::of_session("three", ""));
    let told: Vec<(String, Vec<&str>)> = set
        .sections()
        .into_iter()
        .map(|(section, commands)| (section.title.clone(), commands.iter().map(|command| command.name()).collect()))
        .collect();
    assert_eq!(told[0], ("A".into(), vec!["one", "three"]));
    assert_eq!(told[1], ("B".into(), vec!["two"]));
    assert_eq!((told[2].0.as_str(), told[2].1.contains(&"echo")), ("Sessions and files", true));
    assert_eq!(set.sections()[0].0.introduction, "First.");
}

#[test]
fn a_text_is_echoed_as_written() {
    let mut seen = Seen::new();
    assert_eq!(commands().execute(&mut seen, " echo  a  b ").unwrap().text(), "a  b\n");
}

#[test]
fn a_question_mark_in_a_line_asks_for_help() {
    let text = |line: &str| {
        let mut seen = Seen::new();
        let reply = commands().execute(&mut seen, line).map_err(|e| e.to_string());
        (reply.map(|r| r.render(Format::Text)), seen)
    };
    for line in ["?", "show ?", "sh?", "show int?", "ip route add 10.0.0.0/8 ?", "show i?"] {
        let (reply, seen) = text(line);
        assert!(reply.unwrap().starts_with("  "), "{line}");
        assert!(seen.is_empty());
    }
    let (reply, seen) = text("set interface tag e0 why?");
    assert_eq!(reply.unwrap(), "");
    assert_eq!(seen, ["why?"]);
}

#[test]
fn find_names_the_command_of_an_abbreviated_line() {
    let set = commands();
    assert_eq!(set.find("sh int e0").unwrap().name(), "show interface");
    assert!(set.find("show").is_none());
}

#[test]
#[should_panic(expected = "command 'show ip fib' is registered twice")]
fn a_name_registered_twice_panics_with_the_name() {
    commands().add(Command::new("show ip fib [detail]", "", saw("x")));
}

#[test]
#[should_panic(expected = "unknown type 'zebra'")]
fn a_malformed_syntax_panics_with_the_reason() {
    let _ = Command::<Seen>::new("x <y:zebra>", "", saw("x"));
}

/// A small deterministic generator (xorshift), so that a failing line can be found again.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

fn mutate(line: &str, random: &mut Random) -> String {
    const PIECES: [&str; 16] =
        [" ", "{", "}", "?", "\n", "\0", "é", "🂡", "via", "0", "-", "/", "name ", "{ }", "\u{202e}", "#"];
    let mut chars: Vec<char> = line.chars().collect();
    for _ in 0..=random.below(6) {
        let at = random.below(chars.len() + 1);
        match random.below(4) {
            0 if at < chars.len() => {
                chars.remove(at);
            }
            1 => chars.truncate(at),
            2 => {
                let piece: Vec<char> = chars[at..].iter().take(9).copied().collect();
                chars.splice(at..at, piece);
            }
            _ => {
                let piece = PIECES[random.below(PIECES.len())];
                chars.splice(at..at, piece.chars());
            }
        }
    }
    chars.into_iter().collect()
}

#[test]
fn mutated_lines_are_answered_and_never_panic() {
    let seeds = [
        "set interface state e0 up",
        "ip route add 10.0.0.0/8 via 1.0.0.1 e0 weight 3 via drop",
        "packet-generator new { name x limit 10 node n data { IP4: 1 -> 2 } tag a tag b }",
        "show interface e0 verbose",
        "show trace max 10",
        "set int ip address e0 100.64.1.1/30",
    ];
    let set = commands();
    let mut random = Random(0x5eed_1234_5678_9abc);
    let (mut taken, mut refused) = (0, 0);
    for round in 0..10_000 {
        let line = mutate(seeds[round % seeds.len()], &mut random);
        let mut seen = Seen::new();
        match set.execute(&mut seen, &line) {
            Ok(_) => taken += 1,
            Err(error) => {
                assert!(!error.message().is_empty());
                refused += 1;
            }
        }
        assert!(set.parse(&line).map_or_else(|error| !error.message().is_empty(), |_| true));
        let _ = set.help(&line);
        let completion = set.complete(&line, &|_| vec!["e0".into(), "é🂡".into()]);
        assert!(line.is_char_boundary(completion.start), "{line}");
        assert!(completion.candidates.iter().all(|candidate| candidate.word.starts_with(&line[completion.start..])));
        let _ = set.find(&line);
        let _ = quiver_command::complete_lines(&line);
    }
    assert!(taken > 100 && refused > 100, "{taken} taken, {refused} refused");
}

#[test]
fn another_spelling_is_the_same_command_and_is_not_listed() {
    let mut set: CommandSet<Seen> = CommandSet::new();
    set.add(
        Command::new("create loopback interface [mac <mac:mac>]", "Make one.", |seen: &mut Seen, args: &Args| {
            seen.push(args.optional_text("mac").unwrap_or("any").to_string());
            reply(Done)
        })
        .also("loopback create-interface [mac <mac:mac>]")
        .also("loop create"),
    );
    set.add(Command::new("load <file:word>", "Load.", saw("load")));
    set.add(Command::new("create tap", "Make one.", saw("tap")));
    set.refuse("create bond", "not in this version");
    let mut seen = Seen::new();
    for line in
        ["loop create", "loopback create-int mac dead.beef.babe", "loopback create-interface mac 1:2:3:4:5:6", "lo x"]
    {
        set.execute(&mut seen, line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    assert_eq!(seen, ["any", "dead.beef.babe", "1:2:3:4:5:6", "load"]);
    assert_eq!(set.find("loop create").unwrap().name(), "create loopback interface");
    let refused = |line: &str| set.parse(line).err().unwrap().to_string();
    assert_eq!(refused("create bond mode lacp"), "create bond: not in this version");
    assert!(refused("loopback create-interface mac x").contains("expected MAC address"));
    assert!(refused("create bnod").starts_with("create: unknown input 'bnod'"));
    let told = set.guide("") + &set.help("") + &format!("{:?}", set.complete("lo", &|_| Vec::new()));
    assert!(!told.contains("create-interface") && !told.contains("bond"), "{told}");
}
