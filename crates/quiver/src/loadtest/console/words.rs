//! The commands of the console. Their words and options are those of T-Rex.

use super::seconds;
use crate::loadtest::setup::profile;
use clap::{Args, CommandFactory, Parser, Subcommand};
use loadtest::console::{Change, Console, Start};
use loadtest::profile::NAMES;
use loadtest::rate::Rate;
use std::time::{Duration, Instant};

/// A command line.
#[derive(Parser)]
#[command(multicall = true, disable_help_flag = false, subcommand_required = true)]
struct Line {
    #[command(subcommand)]
    word: Word,
}

#[derive(Subcommand)]
enum Word {
    /// Send a profile.
    Start(StartWords),
    /// Stop sending, and print the results.
    Stop(PortWords),
    /// Pause sending.
    Pause(PortWords),
    /// Resume after a pause.
    Resume(PortWords),
    /// Change the rate.
    Update(UpdateWords),
    /// What ports did in the last second, and since counters were cleared.
    #[command(visible_alias = "ports")]
    Stats,
    /// The streams that are being sent.
    Streams,
    /// The built-in profiles.
    Profiles,
    /// Reset the counters.
    Clear,
    /// A command for the router under test: 'dut show runtime'.
    #[command(disable_help_flag = true)]
    Dut {
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        words: Vec<String>,
    },
    /// In a script: wait this many seconds, or until all ports have sent what they had to.
    Wait {
        #[arg(value_name = "SECONDS", value_parser = seconds)]
        seconds: Option<f64>,
    },
    /// Stop all ports, and leave.
    #[command(visible_aliases = ["exit", "q"])]
    Quit,
}

#[derive(Args)]
struct PortWords {
    /// Ports, as '-p 0 1' or '-p 0,1'; default: all.
    #[arg(short, long = "port", value_name = "PORT", num_args = 1.., value_delimiter = ',')]
    ports: Vec<usize>,
    /// All ports.
    #[arg(short, long, conflicts_with = "ports")]
    all: bool,
}

#[derive(Args)]
struct StartWords {
    /// A built-in profile, a file, or a T-Rex name (stl/udp_1pkt_simple.py).
    #[arg(short, long = "file", value_name = "NAME|FILE")]
    file: String,
    /// How much each port sends: 1kpps, 10Mpps, 1gbps, 1gbpsl1, 100%, max, or a multiple of the profile.
    #[arg(short, long = "mult", default_value = "1", value_name = "RATE")]
    mult: Rate,
    /// Stop after this many seconds.
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<f64>,
    /// Stop after this many packets of each port.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    packets: Option<u64>,
    /// The rate is the sum over all ports.
    #[arg(long)]
    total: bool,
    /// Stop what these ports are sending first.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    ports: PortWords,
}

#[derive(Args)]
struct UpdateWords {
    /// The new rate; +10% and -10% are a tenth of the line more or less than now, +1kpps a thousand packets more.
    #[arg(short, long = "mult", value_name = "RATE", allow_hyphen_values = true)]
    mult: Change,
    #[command(flatten)]
    ports: PortWords,
}

/// The result of a line.
pub enum Done {
    Said(String),
    Wait(Waiting),
    Quit,
}

/// What a script waits for.
pub enum Waiting {
    Until(Instant),
    /// All ports are idle.
    Idle,
}

impl Waiting {
    pub fn is_over(&self, console: &Console) -> bool {
        match self {
            Waiting::Until(end) => Instant::now() >= *end,
            Waiting::Idle => console.busy().is_empty(),
        }
    }
}

/// The words that a line may begin with.
pub fn names() -> Vec<String> {
    Line::command().get_subcommands().map(|word| word.get_name().to_string()).chain(["help".to_string()]).collect()
}

impl PortWords {
    /// The ports that are named, each once; if none is named, all ports or all busy ones.
    fn of(&self, console: &Console, busy: bool) -> Vec<usize> {
        let mut ports = match (&self.ports[..], busy) {
            ([], false) => (0..console.ports()).collect(),
            ([], true) => console.busy(),
            (ports, _) => ports.to_vec(),
        };
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}

/// Carries a line out.
///
/// # Errors
/// What is wrong with it, as text.
pub fn carry_out(console: &mut Console, line: &str) -> Result<Done, String> {
    let word = match Line::try_parse_from(line.split_whitespace()) {
        Ok(line) => line.word,
        Err(error) => {
            use clap::error::ErrorKind;
            let text = error.render().to_string();
            return match error.kind() {
                ErrorKind::DisplayHelp => Ok(Done::Said(text)),
                // The first line of the error says what is wrong; the others how to get help.
                _ => Err(text
                    .trim_start_matches("error: ")
                    .lines()
                    .take_while(|line| !line.starts_with("Usage"))
                    .collect::<Vec<_>>()
                    .join(" ")
                    .trim()
                    .into()),
            };
        }
    };
    let text = |error: loadtest::tester::TestError| error.to_string();
    let nothing = || "nothing is sent: 'start' something first".to_string();
    let busy = |ports: &PortWords, console: &Console| {
        let ports = ports.of(console, true);
        if ports.is_empty() { Err(nothing()) } else { Ok(ports) }
    };
    let said = match word {
        Word::Start(words) => {
            let ports = words.ports.of(console, false);
            let start = Start {
                profile: profile(&words.file)?,
                rate: words.mult,
                total: words.total,
                duration: words.duration.map(Duration::from_secs_f64),
                packets: words.packets,
                force: words.force,
            };
            console.start(&ports, &start).map_err(text)?
        }
        Word::Stop(ports) => {
            let ports = busy(&ports, console)?;
            console.stop(&ports).map_err(text)?
        }
        Word::Pause(ports) => {
            let ports = busy(&ports, console)?;
            console.set_paused(&ports, true).map_err(text)?
        }
        Word::Resume(ports) => {
            let ports = busy(&ports, console)?;
            console.set_paused(&ports, false).map_err(text)?
        }
        Word::Update(words) => {
            let ports = busy(&words.ports, console)?;
            console.update(&ports, words.mult).map_err(text)?
        }
        Word::Stats => console.stats().to_string(),
        Word::Streams => console.streams(),
        Word::Profiles => NAMES.join(", "),
        Word::Clear => {
            console.clear();
            "counters are cleared".into()
        }
        Word::Dut { words } => console.ask_device(&words.join(" ")).map_err(text)?,
        Word::Wait { seconds: Some(seconds) } => {
            return Ok(Done::Wait(Waiting::Until(Instant::now() + Duration::from_secs_f64(seconds))));
        }
        Word::Wait { seconds: None } => {
            return match console.endless() {
                None => Ok(Done::Wait(Waiting::Idle)),
                Some(port) => Err(format!("port {port} goes on until it is stopped: say for how many seconds")),
            };
        }
        Word::Quit => return Ok(Done::Quit),
    };
    Ok(Done::Said(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Word, String> {
        Line::try_parse_from(line.split_whitespace()).map(|line| line.word).map_err(|error| error.to_string())
    }

    #[test]
    fn the_words_of_the_document_are_known() {
        Line::command().debug_assert();
        let Ok(Word::Start(start)) = parse("start -f stl/udp_1pkt_simple.py -p 0 -m 1kpps") else { panic!() };
        assert_eq!(
            (start.file.as_str(), start.mult, &start.ports.ports[..]),
            ("stl/udp_1pkt_simple.py", Rate::Packets(1e3), &[0][..])
        );
        for line in
            ["pause", "resume", "stop", "stop -a", "pause -p 0 1", "resume --port 0,1", "stats", "q", "wait 3", "help"]
        {
            assert!(parse(line).is_ok() || line == "help", "{line}");
        }
        for (line, rate) in
            [("1Mpps", Rate::Packets(1e6)), ("10Mpps", Rate::Packets(1e7)), ("100%", Rate::Percent(100.0))]
        {
            let Ok(Word::Update(update)) = parse(&format!("update -m {line}")) else { panic!("{line}") };
            assert_eq!(update.mult, Change::To(rate));
        }
        let Ok(Word::Update(update)) = parse("update -m -10% -p 1") else { panic!() };
        assert_eq!((update.mult, &update.ports.ports[..]), (Change::Less(Rate::Percent(10.0)), &[1][..]));
        let Ok(Word::Dut { words }) = parse("dut show interface -x") else { panic!() };
        assert_eq!(words, ["show", "interface", "-x"]);
    }

    #[test]
    fn what_is_no_command_is_told() {
        for (line, wrong) in [
            ("fly", "fly"),
            ("start", "--file"),
            ("start -f bench -m fast", "fast"),
            ("update", "--mult"),
            ("stop -p x", "x"),
            ("start -f bench -p 0 --packets 0", "0"),
        ] {
            assert!(parse(line).err().is_some_and(|error| error.contains(wrong)), "{line}");
        }
        assert!(names().contains(&"update".to_string()));
    }
}
