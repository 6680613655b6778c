//! Commands on the configuration as a whole.

use super::collect::Collecting;
use super::control;
use super::plan::Difference;
use command::{Args, Command, CommandError, CommandSet, Done, Reply, reply};
use router::Router;
use router::listing::Listing;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Default time in which a load must be confirmed, in seconds.
const CONFIRM_WITHIN: u64 = 60;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Configuration",
        "The running configuration can be printed as commands, saved to a file, and loaded, as a whole or not at \
         all. It does not include what the router learned by itself.",
    );
    set.add(Command::new(
        "show running-config",
        "Show the running configuration as commands.",
        |router: &mut Router, _: &Args| {
            let capabilities = router.capabilities();
            reply(ShowConfig { commands: Listing::new(router, move || Collecting::of(capabilities)) })
        },
    ));
    set.add(Command::new(
        "save [force] [<file:path>]",
        "Save the running configuration to a file; by default to the file that is read at start.",
        |router: &mut Router, args: &Args| {
            let file = args.optional_text("file").map(PathBuf::from);
            let (file, commands) = control::save_config(router, file.as_deref(), args.flag("force"))?;
            reply(Saved { file: file.display().to_string(), commands })
        },
    ));
    set.add(Command::new(
        "load <file:path> {{ [dry-run] | [confirm [<seconds:u32 1..86400>]] }}",
        "Replace the running configuration by that in a file, as a whole or not at all. With `confirm`, it is rolled \
         back unless it is confirmed in time.",
        load,
    ));
    set.add(Command::new(
        "confirm",
        "Confirm the loaded configuration, so that it stays.",
        |router: &mut Router, _: &Args| {
            control::confirm_config(router)?;
            reply(Done)
        },
    ));
    set.add(Command::new(
        "rollback [dry-run]",
        "Return to the configuration before the last load. Later changes are lost, too.",
        |router: &mut Router, args: &Args| {
            let difference = match args.flag("dry-run") {
                true => control::compare_config_before(router)?,
                false => control::rollback_config(router)?,
            };
            reply(Loaded { difference, within: None })
        },
    ));
}

fn load(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let wanted = control::read_config(router, &args.parse::<PathBuf>("file")?)?;
    if args.flag("dry-run") {
        return reply(Loaded { difference: control::compare_config(router, &wanted)?, within: None });
    }
    let seconds = args.optional::<u64>("seconds")?.unwrap_or(CONFIRM_WITHIN);
    let within = args.flag("confirm").then_some(seconds);
    let difference = control::load_config(router, &wanted, within.map(Duration::from_secs))?;
    // Without a difference there is nothing to confirm.
    let within = within.filter(|_| !difference.is_empty());
    reply(Loaded { difference, within })
}

#[derive(Serialize)]
struct ShowConfig {
    commands: Listing<Collecting>,
}

impl fmt::Display for ShowConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.commands.try_each(|command| writeln!(f, "{command}"))
    }
}

#[derive(Serialize)]
struct Saved {
    file: String,
    commands: usize,
}

impl fmt::Display for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} commands saved", self.file, self.commands)
    }
}

#[derive(Serialize)]
struct Loaded {
    #[serde(flatten)]
    difference: Difference,
    /// Seconds in which the load must be confirmed.
    #[serde(rename = "confirm_within")]
    within: Option<u64>,
}

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut marked = |mark: char, lines: &[String]| {
            lines.iter().flat_map(|line| line.lines()).try_for_each(|line| writeln!(f, "{mark} {line}"))
        };
        marked('-', &self.difference.removed)?;
        marked('+', &self.difference.added)?;
        if self.difference.is_empty() {
            writeln!(f, "no difference")?;
        }
        match self.within {
            Some(seconds) => writeln!(f, "goes back in {seconds} s unless you 'confirm'"),
            None => Ok(()),
        }
    }
}
