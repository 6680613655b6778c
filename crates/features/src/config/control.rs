//! Operations on the configuration as a whole.

use super::collect;
use super::plan::{Difference, Step, steps};
use command::{CommandError, CommandSet, FileError, Files, complete_lines};
use router::capability::Notice;
use router::capability::Statement;
use router::reach::is_same;
use router::{Devices, Options, Router, check_memory, commands_of};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Longest file of configuration, in bytes: some 500,000 routes.
const MAX_FILE: u64 = 64 << 20;
/// Bytes that the first line of a saved file takes at most.
const HEADING: u64 = 256;
/// Packet buffers of a router that is only a plan: the fewest that a pool can have.
const PLAN_BUFFERS: u32 = graph::buffer::MIN_BUFFERS;

/// Why a configuration was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(transparent)]
    File(#[from] FileError),
    /// A command of the file; nothing was changed.
    #[error("{file}:{line}: {message}")]
    Line { file: String, line: usize, message: String },
    /// A step that only showed itself when it was taken, and those that could then not be
    /// taken back.
    #[error("'{command}': {message}\n{}", aftermath(not_undone))]
    Step { command: String, message: String, not_undone: Vec<String> },
    #[error("no file to save to: name one, or set 'unix {{ startup-config FILE }}'")]
    NoStartupFile,
    #[error("the configuration takes {length} bytes, and no file of more than {MAX_FILE} is read: nothing was saved")]
    TooLong { length: u64 },
    #[error(
        "{count} commands of {file} failed at start and would be lost (show logging names them); 'save force' saves \
         all the same"
    )]
    WouldLose { count: usize, file: String },
    #[error("nothing to go back to: no configuration was loaded")]
    NothingBefore,
    #[error("no loaded configuration waits to be confirmed")]
    NothingToConfirm,
    #[error("the last load still waits: 'confirm' keeps it, 'rollback' takes it back")]
    Unconfirmed,
    #[error(transparent)]
    Router(#[from] router::Error),
}

fn aftermath(not_undone: &[String]) -> String {
    match not_undone {
        [] => "nothing was changed".into(),
        some => format!("and the way back failed; state these again:\n  {}", some.join("\n  ")),
    }
}

/// Carries out a command of a file. One that ends in `?` would be answered with help, and
/// state nothing without a word.
fn carry_out(router: &mut Router, line: &str) -> Result<(), CommandError> {
    let commands = stating(router);
    match commands.question(line) {
        Some(_) => Err(CommandError::new("a question ('?') states no configuration")),
        None => commands.execute(router, line).map(drop),
    }
}

/// What is remembered of files and loads.
#[derive(Default)]
pub struct Configuration {
    /// Commands of that file that failed at start.
    pub failed_at_start: usize,
    /// What was before the last load.
    before: Option<Vec<Statement>>,
    /// When that comes back by itself.
    deadline: Option<Instant>,
    /// The commands by which it is stated and taken away, since they were needed.
    commands: OnceLock<Arc<CommandSet<Router>>>,
}

impl Configuration {
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.deadline
    }
}

/// The commands by which configuration is stated and taken away.
fn stating(router: &Router) -> Arc<CommandSet<Router>> {
    router.state::<Configuration>().commands.get_or_init(|| Arc::new(commands_of(router.capabilities()))).clone()
}

/// A router without devices and workers: what a file of configuration would make.
fn plan(router: &Router) -> Result<Router, router::Error> {
    let workers = router.graph.workers();
    let (buffers, huge_pages, devices) = (PLAN_BUFFERS, false, Devices::DryRun);
    let sections = router.sections.clone();
    let options = Options { buffers, huge_pages, devices, workers, sections, ..Options::default() };
    let plan = Router::with(options, router.capabilities())?;
    let _ = plan.state::<Configuration>().commands.set(stating(router));
    plan.graph.has_no_workers();
    Ok(plan)
}

/// Carries out the file that is read at start, as far as it can be: a device that is
/// gone must not keep a distant router from coming up with the others. Says how many
/// commands were done, and `None` when there is no such file yet.
///
/// # Errors
/// When it cannot be read.
pub fn restore_config(router: &mut Router) -> Result<Option<usize>, ConfigError> {
    let Some(file) = router.startup.clone() else { return Ok(None) };
    // The program's own configuration names it, not a command.
    if !file.exists() {
        return Ok(None);
    }
    let name = file.display().to_string();
    // Until it is read: a file that makes no sense must not be overwritten either.
    router.state_mut::<Configuration>().failed_at_start = 1;
    let text = Files::anywhere().read_text(&file, MAX_FILE)?;
    let lines = complete_lines(&text).map_err(|error| ConfigError::Line {
        file: name.clone(),
        line: error.number,
        message: error.message,
    })?;
    router.state_mut::<Configuration>().failed_at_start = 0;
    for line in &lines {
        router.breathe();
        if let Err(error) = carry_out(router, &line.text) {
            log::error!("{name}:{}: {error}", line.number);
            router.state_mut::<Configuration>().failed_at_start += 1;
        }
    }
    Ok(Some(lines.len() - router.state::<Configuration>().failed_at_start))
}

/// What a file states, checked whole.
///
/// # Errors
/// The first command that would be refused, or states no configuration.
pub fn read_config(router: &mut Router, file: &Path) -> Result<Vec<Statement>, ConfigError> {
    let files = router.files.clone();
    let text = router.aside(|| files.read_text(file, MAX_FILE))?;
    parse_config(router, &file.display().to_string(), &text)
}

/// What the text of a file states.
///
/// # Errors
/// See [`read_config`].
pub fn parse_config(router: &mut Router, file: &str, text: &str) -> Result<Vec<Statement>, ConfigError> {
    let refused = |line: usize, message: String| ConfigError::Line { file: file.into(), line, message };
    let lines = router.aside(|| complete_lines(text)).map_err(|error| refused(error.number, error.message))?;
    let (mut plan, commands) = (plan(router)?, stating(router));
    plan.files = router.files.clone();
    for line in lines {
        router.breathe();
        check_memory()?;
        let states = commands.find(&line.text).is_none_or(command::Command::is_configuration);
        if !states {
            let name = commands.find(&line.text).map_or("", command::Command::name);
            let message = format!("'{name}' states no configuration ('exec' carries out any command)");
            return Err(refused(line.number, message));
        }
        carry_out(&mut plan, &line.text).map_err(|error| refused(line.number, error.to_string()))?;
    }
    collect::collect_plan(router, plan)
}

/// What `wanted` would change.
///
/// # Errors
/// When there is no memory to collect what is.
pub fn compare_config(router: &mut Router, wanted: &[Statement]) -> Result<Difference, ConfigError> {
    let now = collect::collect_config(router)?;
    Ok(router.aside(move || Difference::between(&now, wanted)))
}

/// What [`rollback_config`] would change.
///
/// # Errors
/// When nothing was loaded, and as [`compare_config`].
pub fn compare_config_before(router: &mut Router) -> Result<Difference, ConfigError> {
    // It is taken out and put back: nothing changes the router meanwhile.
    let before = router.state_mut::<Configuration>().before.take().ok_or(ConfigError::NothingBefore)?;
    let difference = compare_config(router, &before);
    router.state_mut::<Configuration>().before = Some(before);
    difference
}

/// Makes `wanted` what is stated here, and nothing else; nothing to do is no load. With `confirm` what was before
/// comes back after that time unless [`confirm_config`] is called.
///
/// # Errors
/// When a step fails, all are taken back; when a load waits for its confirmation.
pub fn load_config(
    router: &mut Router,
    wanted: &[Statement],
    confirm: Option<Duration>,
) -> Result<Difference, ConfigError> {
    if router.state::<Configuration>().deadline.is_some() {
        return Err(ConfigError::Unconfirmed);
    }
    let before = collect::collect_config(router)?;
    let difference = router.aside(|| Difference::between(&before, wanted));
    if difference.is_empty() {
        router.aside(move || drop(before));
        return Ok(difference); // and what was before the last load stays to go back to
    }
    let steps = router.aside(|| steps(&before, wanted));
    take(router, steps)?;
    let (removed, added) = (difference.removed.len(), difference.added.len());
    let waits = if confirm.is_some() { ", to be confirmed" } else { "" };
    log::info!("configuration changed as a whole: {removed} commands gone, {added} come{waits}");
    let past = router.state_mut::<Configuration>().before.replace(before);
    router.aside(move || drop(past));
    router.state_mut::<Configuration>().deadline = confirm.map(|time| Instant::now() + time);
    router.say(Notice::Committed);
    Ok(difference)
}

/// Keeps what was loaded.
///
/// # Errors
/// When nothing waits for that.
pub fn confirm_config(router: &mut Router) -> Result<(), ConfigError> {
    router.state_mut::<Configuration>().deadline.take().ok_or(ConfigError::NothingToConfirm)?;
    log::info!("the loaded configuration is confirmed");
    Ok(())
}

/// Goes back to what was before the last load; once more goes forth again.
///
/// # Errors
/// When nothing was loaded, or see [`load_config`].
pub fn rollback_config(router: &mut Router) -> Result<Difference, ConfigError> {
    let wanted = router.state_mut::<Configuration>().before.take().ok_or(ConfigError::NothingBefore)?;
    // It is no longer to be confirmed, however this ends: or it would be tried for ever.
    router.state_mut::<Configuration>().deadline = None;
    let result = load_config(router, &wanted, None);
    match router.state::<Configuration>().before {
        Some(_) => router.aside(move || drop(wanted)),
        // Nothing has changed: it is still what was before.
        None => router.state_mut::<Configuration>().before = Some(wanted),
    }
    result
}

/// Goes back when a load was not confirmed in time.
pub(crate) fn tick_config(router: &mut Router, now: Instant) {
    if router.state::<Configuration>().deadline.is_none_or(|deadline| now < deadline) {
        return;
    }
    match rollback_config(router) {
        Ok(_) => log::warn!("the loaded configuration was not confirmed: back to the one before"),
        Err(error) => log::error!("the loaded configuration was not confirmed, and going back failed: {error}"),
    }
}

/// Takes all steps, or none.
fn take(router: &mut Router, steps: Vec<Step>) -> Result<(), ConfigError> {
    // On the way from one state to another, and back, there may be more routes than in either.
    router.ip.knows_no_limit = true;
    let result = take_each(router, steps);
    router.ip.knows_no_limit = false;
    result
}

fn take_each(router: &mut Router, steps: Vec<Step>) -> Result<(), ConfigError> {
    let commands = stating(router);
    for (at, step) in steps.iter().enumerate() {
        router.breathe();
        let Err(error) = commands.execute(router, &step.command) else { continue };
        let mut not_undone = Vec::new();
        for taken in steps[..at].iter().rev() {
            router.breathe();
            if let Err(error) = commands.execute(router, &taken.undo) {
                log::error!("'{}' (taking back '{}'): {error}", taken.undo, taken.command);
                not_undone.push(taken.undo.clone());
            }
        }
        return Err(ConfigError::Step { command: step.command.clone(), message: error.to_string(), not_undone });
    }
    router.aside(move || drop(steps));
    Ok(())
}

/// Writes what is stated to a file, or to the one that is read at start; gives its name
/// and the number of commands.
///
/// # Errors
/// When there is none or it cannot be written, then it is as it was; when a load waits for
/// its confirmation.
pub fn save_config(router: &mut Router, file: Option<&Path>, force: bool) -> Result<(PathBuf, usize), ConfigError> {
    let file = match (file, &router.startup) {
        (Some(file), _) => file.to_path_buf(),
        (None, Some(startup)) => startup.clone(),
        (None, None) => return Err(ConfigError::NoStartupFile),
    };
    if router.state::<Configuration>().deadline.is_some() {
        return Err(ConfigError::Unconfirmed);
    }
    let is_startup = router.startup.as_ref().is_some_and(|startup| is_same(&file, startup));
    if is_startup && router.state::<Configuration>().failed_at_start > 0 && !force {
        let name = file.display().to_string();
        return Err(ConfigError::WouldLose { count: router.state::<Configuration>().failed_at_start, file: name });
    }
    let lines = collect::collect_lines(router, MAX_FILE - HEADING)?;
    // The program's own configuration names that file, not a command.
    let files = if is_startup { Files::anywhere() } else { router.files.clone() };
    let count = lines.len();
    let path = &file;
    // A disk may take its time, too.
    router.aside(move || {
        files.replace(path, |out| {
            writeln!(out, "# Configuration of quiver v{}, as 'save' wrote it.", crate::inspect::VERSION)?;
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))
        })
    })?;
    log::info!("configuration saved to {}: {count} commands", file.display());
    if is_startup {
        router.state_mut::<Configuration>().failed_at_start = 0;
    }
    Ok((file, count))
}
