//! `quiver run`: threads, sockets, signals.
//!
//! The main thread is the control thread: it owns the [`Router`] and serves, one at a
//! time, commands, what workers report, and what is due. Each worker has a thread of its
//! own that never waits for it.

use command::{Command, CommandSet, Format, Text, reply};
use control::startup::{LogLevel, PageSize, StartupConfig};
use control::{CliClient, CliServer, Executor, exec};
use crossbeam_channel::{Receiver, Sender, bounded, select};
use router::inspect::VERSION;
use router::{Options, Router};
use rustix::thread::{CpuSet, sched_setaffinity};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Where VPP's own `vppctl` looks.
const VPP_SOCKET: &str = "/run/vpp/cli.sock";
/// How long the background process may take until it answers.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// Runs the router until a signal ends it.
///
/// # Errors
/// Why it could not start, in words.
pub fn run(config: Option<&Path>, foreground: bool) -> Result<(), String> {
    let (config, config_file) = match config {
        Some(file) => (StartupConfig::load(file).map_err(|error| error.to_string())?, Some(file)),
        None => (StartupConfig::default(), None),
    };
    if let Some(file) = config_file
        && !config.unix.nodaemon
        && !foreground
    {
        return run_in_background(file, &config);
    }
    start_log(&config)?;
    for warning in &config.warnings {
        log::warn!("{warning}");
    }
    serve(&config)
}

/// Starts a process of its own and waits until it answers.
fn run_in_background(file: &Path, config: &StartupConfig) -> Result<(), String> {
    let socket = config.unix.cli_listen.display();
    if CliClient::connect(&config.unix.cli_listen, Format::Text).is_ok() {
        return Err(format!("a router runs already: it answers on {socket}"));
    }
    if config.unix.log.is_none() {
        eprintln!("quiver: nothing of the log is kept in the background: set `unix {{ log FILE }}'");
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = std::process::Command::new(program)
        .args(["run", "--foreground", "--config"])
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // Read until it runs, then closed: whoever waits for our output need not wait for it.
        .stderr(Stdio::piped())
        // What is typed at the terminal, such as ^C, is not meant for it.
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot start in the background: {error}"))?;
    let start = Instant::now();
    while start.elapsed() < START_PATIENCE {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            let mut said = String::new();
            if let Some(mut stderr) = child.stderr.take() {
                let _ = stderr.read_to_string(&mut said);
            }
            let logged = config.unix.log.as_ref().map(|log| format!("; see {}", log.display())).unwrap_or_default();
            return Err(format!("the router ended at start ({status}){logged}\n{}", said.trim_end()));
        }
        if CliClient::connect(&config.unix.cli_listen, Format::Text).is_ok() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Err(format!("the router does not answer on {socket}"))
}

fn start_log(config: &StartupConfig) -> Result<(), String> {
    let level = match config.logging.default_log_level {
        LogLevel::Disabled => log::LevelFilter::Off,
        LogLevel::Emergency | LogLevel::Alert | LogLevel::Critical | LogLevel::Error => log::LevelFilter::Error,
        LogLevel::Warning => log::LevelFilter::Warn,
        LogLevel::Notice | LogLevel::Info => log::LevelFilter::Info,
        LogLevel::Debug => log::LevelFilter::Debug,
    };
    let mut builder = env_logger::Builder::new();
    builder.filter_level(level);
    if let Some(path) = &config.unix.log {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|error| format!("log {}: {error}", path.display()))?;
        builder.target(env_logger::Target::Pipe(Box::new(file)));
    }
    builder.try_init().map_err(|error| error.to_string())
}

/// A command on its way to the control thread.
struct Request {
    line: String,
    format: Format,
    answer: Sender<Result<String, String>>,
}

/// What the CLI's threads hold of the router.
struct Desk {
    commands: Arc<CommandSet<Router>>,
    requests: Sender<Request>,
}

impl Executor for Desk {
    fn execute(&self, line: &str, format: Format) -> Result<String, String> {
        let (answer, answered) = bounded(1);
        let request = Request { line: line.into(), format, answer };
        let gone = |_| "the router is shutting down".to_string();
        self.requests.send(request).map_err(|error| gone(error.to_string()))?;
        answered.recv().map_err(|error| gone(error.to_string()))?
    }

    fn help(&self, line: &str) -> String {
        self.commands.help(line)
    }

    fn banner(&self) -> String {
        format!("Quiver v{VERSION}: a vector packet router. `?' lists commands, `quit' leaves.\n")
    }
}

/// All commands, those that the server itself carries out included, so that `?` shows
/// them.
fn all_commands() -> CommandSet<Router> {
    let mut commands = router::commands();
    let served = |_: &mut Router, _: &command::Args| reply(Text("this command is for sessions and files\n".into()));
    commands.add(Command::new("exec <file:path>", "Carry out the commands in a file.", served));
    commands.add(Command::new("quit", "Leave this session.", served));
    commands
}

fn serve(config: &StartupConfig) -> Result<(), String> {
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|error| format!("signals: {error}"))?;
    let options = Options {
        buffers: config.buffers.buffers_per_numa,
        huge_pages: config.buffers.page_size != PageSize::Size4K,
        workers: 1,
        hash_seed: std::process::id(),
        ..Options::default()
    };
    warn_of_limits(config);
    let mut router = Router::new(options).map_err(|error| error.to_string())?;
    let worker = router.graph.worker(0).map_err(|error| error.to_string())?;
    let core = config.cpu.corelist_workers.first().copied();
    let data = thread::Builder::new()
        .name("quiver_wk_0".into())
        .spawn(move || {
            pin("worker 0", core);
            worker.run();
        })
        .map_err(|error| format!("worker 0: {error}"))?;
    pin("control", config.cpu.main_core);

    let commands = Arc::new(all_commands());
    let (requests, incoming) = bounded(64);
    let desk: Arc<dyn Executor> = Arc::new(Desk { commands: commands.clone(), requests });
    let mut servers = open_sockets(config, &desk)?;
    if let Some(file) = &config.unix.exec {
        run_startup_commands(file.clone(), desk.clone());
    }
    drop(desk);

    let (stop, stopped) = bounded(1);
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let _ = stop.send(signal);
        }
    });
    log::info!("quiver v{VERSION} runs; commands on {}", config.unix.cli_listen.display());
    let signal = control_loop(&mut router, &commands, &incoming, &stopped);
    log::info!("signal {signal}: leaving");
    servers.iter_mut().for_each(CliServer::shutdown);
    router.graph.stop();
    data.join().map_err(|_| "worker 0 panicked".to_string())
}

/// Names what the configuration asks for and this version does otherwise.
fn warn_of_limits(config: &StartupConfig) {
    let (cpu, buffers) = (&config.cpu, &config.buffers);
    if cpu.workers > 1 {
        log::warn!("cpu: workers {}: this version has one data thread", cpu.workers);
    }
    if cpu.skip_cores > 0 {
        log::warn!("cpu: skip-cores has no effect; corelist-workers names the data thread's core");
    }
    if buffers.default_data_size as usize != graph::buffer::DATA_SIZE {
        log::warn!("buffers: data-size is {} in this version", graph::buffer::DATA_SIZE);
    }
    if buffers.page_size == PageSize::Size1G {
        log::warn!("buffers: page-size 1g: 2m pages are used when there are any");
    }
}

/// Runs the startup commands as an operator's would: through the control thread.
fn run_startup_commands(file: PathBuf, desk: Arc<dyn Executor>) {
    thread::spawn(move || match exec::run_file(&*desk, &file, Format::Text) {
        Ok(_) => log::info!("startup commands of {} done", file.display()),
        Err(error) => log::error!("startup commands: {error}"),
    });
}

fn open_sockets(config: &StartupConfig, desk: &Arc<dyn Executor>) -> Result<Vec<CliServer>, String> {
    let path = &config.unix.cli_listen;
    let mut server = CliServer::bind(path).map_err(|error| format!("CLI socket {}: {error}", path.display()))?;
    if let Some(group) = &config.unix.gid {
        server.set_group(group).map_err(|error| format!("group {group} of {}: {error}", path.display()))?;
    }
    server.serve(desk.clone()).map_err(|error| format!("CLI socket {}: {error}", path.display()))?;
    let mut servers = vec![server];
    match CliServer::bind(VPP_SOCKET).and_then(|mut server| server.serve(desk.clone()).map(|()| server)) {
        Ok(server) => servers.push(server),
        Err(error) => log::info!("not listening on {VPP_SOCKET} too: {error}"),
    }
    Ok(servers)
}

/// Serves until a signal comes; gives the signal.
fn control_loop(
    router: &mut Router,
    commands: &CommandSet<Router>,
    incoming: &Receiver<Request>,
    stopped: &Receiver<i32>,
) -> i32 {
    let events = router.events().clone();
    loop {
        let due = router.tick();
        let pause = match due {
            Some(due) => crossbeam_channel::at(due),
            None => crossbeam_channel::never(),
        };
        select! {
            recv(stopped) -> signal => return signal.unwrap_or(SIGTERM),
            recv(events) -> event => {
                if let Ok(event) = event {
                    router.handle(event);
                }
            }
            recv(incoming) -> request => {
                let Ok(Request { line, format, answer }) = request else { return SIGTERM };
                let _ = answer.send(execute(router, commands, &line, format));
            }
            recv(pause) -> _ => {}
        }
    }
}

/// Carries out a command. A panic in it is a defect, but no reason to stop forwarding.
fn execute(router: &mut Router, commands: &CommandSet<Router>, line: &str, format: Format) -> Result<String, String> {
    let run = AssertUnwindSafe(|| commands.execute(router, line).map(|reply| reply.render(format)));
    match catch_unwind(run) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => {
            log::error!("command `{line}' panicked");
            Err("this command met a defect of the program; its effects are uncertain (see the log)".into())
        }
    }
}

/// Keeps the calling thread on a core, when one is given.
fn pin(what: &str, core: Option<u32>) {
    let Some(core) = core else { return };
    let mut cores = CpuSet::new();
    cores.set(core as usize);
    if let Err(error) = sched_setaffinity(None, &cores) {
        log::warn!("{what} is not kept on core {core}: {error}");
    }
}
