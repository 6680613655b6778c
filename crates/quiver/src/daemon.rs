//! `quiver run`: threads and sockets.
//!
//! The main thread is the control thread: it owns the [`Router`] and handles, one at a time, commands, reports of
//! workers, and timers. Each worker has its own thread, which never waits for the control thread.

use command::{CommandLine, CommandSet, Files, Format, complete_lines};
use control::{CliClient, CliServer, Executor, SessionDefaults, add_session_commands, exec};
use crossbeam_channel::{Receiver, Sender, bounded, select};
use features::config::{self, Configuration};
use features::inspect::VERSION;
use features::logging::{self, By, ClassSettings, Level, Logging};
use router::{Options, Router};
use startup::{LogLevel, PageSize, StartupConfig};
use std::io::{IsTerminal, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::control_client::{self, ControlClient, SharedRequests};
use crate::control_watch;
use crate::surroundings::{self, PidFile};
use crate::watchdog::Watchdog;
use crate::{cores, crash, log_sink, notify, show_config, signals};

/// Where VPP's own `vppctl` connects.
const VPP_SOCKET: &str = "/run/vpp/cli.sock";
/// Longest file that is checked for being a script, in bytes.
const LONGEST_SCRIPT: u64 = 64 << 20;
/// Timeout for the background process to answer.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// Runs the router until a signal ends it.
///
/// # Errors
/// Why it could not start, as text.
pub fn run(config: Option<&Path>, foreground: bool) -> Result<(), String> {
    let (config, config_file) = match config {
        Some(file) => {
            let sections = router::capability::sections(capabilities::CAPABILITIES);
            (StartupConfig::load(file, &sections).map_err(|error| error.to_string())?, Some(file))
        }
        None => (StartupConfig::default(), None),
    };
    if let Some(file) = config_file
        && !config.unix.nodaemon
        && !foreground
    {
        return run_in_background(file, &config);
    }
    let _last_lines = log_sink::LastLines;
    if config.unix.log.is_some() && std::io::stderr().is_terminal() {
        say(&foreseen(&config));
    }
    // Without a visible standard error, the operator has only the log.
    serve(&config, config_file).inspect_err(|error| {
        if config.unix.log.is_some() {
            log::error!("the router does not start: {error}");
        }
    })
}

/// Starts a background process and waits until it answers.
fn run_in_background(file: &Path, config: &StartupConfig) -> Result<(), String> {
    let socket = config.unix.cli_listen.display();
    if CliClient::connect(&config.unix.cli_listen, Format::Text).is_ok() {
        return Err(format!("a router runs already: it answers on {socket}"));
    }
    if config.unix.log.is_none() {
        eprintln!("quiver: nothing of the log is kept in the background: set 'unix {{ log FILE }}'");
    }
    // Warn here, where the operator sees it: the background process has only its log.
    say(&foreseen(config));
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = std::process::Command::new(program)
        .args(["run", "--foreground", "--config"])
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // Read it until the process runs, then close it, so that a caller that waits for our output need not wait for
        // the process.
        .stderr(Stdio::piped())
        // Keys typed at this terminal, such as ^C, are not meant for the process.
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
        if CliClient::connect(&config.unix.cli_listen, Format::Text).is_ok() && has_pid_file(config, child.id()) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Err(format!("the router does not answer on {socket}"))
}

/// Whether the pidfile, if one is configured, names the process: the caller may read it right after.
fn has_pid_file(config: &StartupConfig, process: u32) -> bool {
    let names = |file: &PathBuf| std::fs::read_to_string(file).is_ok_and(|text| text.trim() == process.to_string());
    config.unix.pidfile.as_ref().is_none_or(names)
}

/// Configures the router's log, and starts to write it.
fn start_log(logging: &Arc<Logging>, config: &StartupConfig) -> Result<(), String> {
    let chosen = &config.logging;
    logging.set_default_level(level(chosen.default_log_level));
    logging.set_default_syslog_level(chosen.default_syslog_log_level.map(level));
    logging.set_size(By::Startup, chosen.size);
    logging.set_throttle_time(By::Startup, chosen.throttle_time);
    let installed = log_sink::install(logging.clone(), config.unix.log.as_deref());
    installed.map_err(|error| config.complaint("unix log", error).to_string())?;
    for class in &chosen.classes {
        let settings = ClassSettings {
            level: class.level.map(|chosen| Some(level(chosen))),
            syslog_level: class.syslog_level.map(|chosen| Some(level(chosen))),
            rate_limit: class.rate_limit.map(Some),
        };
        if let Err(error) = logging.set_class(By::Startup, &class.name, settings) {
            log::warn!("{}", config.complaint(&format!("logging class {}", class.name), error.to_string()));
        }
    }
    for warning in foreseen(config) {
        log::warn!("{warning}");
    }
    Ok(())
}

/// Configuration that has no effect, or a different one, as far as that is known before the router is made.
fn foreseen(config: &StartupConfig) -> Vec<String> {
    let mut warnings = config.warnings.clone();
    if config.buffers.default_data_size as usize != graph::buffer::DATA_SIZE {
        warnings.push(format!("buffers: data-size is {} in this version", graph::buffer::DATA_SIZE));
    }
    warnings.extend(surroundings::group(config).err());
    warnings
}

fn say(warnings: &[String]) {
    for warning in warnings {
        eprintln!("quiver: warning: {warning}");
    }
}

fn level(level: LogLevel) -> Level {
    match level {
        LogLevel::Disabled => Level::Disabled,
        LogLevel::Emergency => Level::Emergency,
        LogLevel::Alert => Level::Alert,
        LogLevel::Critical => Level::Critical,
        LogLevel::Error => Level::Error,
        LogLevel::Warning => Level::Warning,
        LogLevel::Notice => Level::Notice,
        LogLevel::Info => Level::Info,
        LogLevel::Debug => Level::Debug,
    }
}

/// All commands: the router's, the process's, and those that sessions carry out themselves.
fn all_commands(config: &StartupConfig, file: Option<&Path>) -> CommandSet<Router> {
    let mut commands = capabilities::commands();
    show_config::register(&mut commands, config, file);
    add_session_commands(&mut commands);
    commands
}

/// The same without a router, for documents made from the grammar.
pub fn grammar() -> CommandSet<Router> {
    all_commands(&StartupConfig::default(), None)
}

fn serve(config: &StartupConfig, config_file: Option<&Path>) -> Result<(), String> {
    tables::keep_heap_small();
    heap::keep_reserve();
    let started = Instant::now();
    let (stop, stopped) = bounded(1);
    signals::listen(stop.clone()).map_err(|error| format!("signals: {error}"))?;
    let options = Options {
        buffers: config.buffers.buffers_per_numa,
        huge_pages: config.buffers.page_size != PageSize::Size4K,
        workers: config.cpu.workers.max(1) as usize,
        hash_seed: std::process::id(),
        sections: Arc::new(config.sections.clone()),
        commit: env!("QUIVER_COMMIT"),
        ..Options::default()
    };
    let mut router = capabilities::router(options).map_err(|error| error.to_string())?;
    start_log(logging::of(&router), config)?;
    let crashes = config.unix.crash_dir.clone().unwrap_or_else(|| config.unix.runtime_dir.clone());
    crash::install(crashes.clone(), crash::Process { started, config: config_file.map(PathBuf::from) });
    heap::at_the_end(crash::report_no_memory).map_err(|error| format!("handler of SIGABRT: {error}"))?;
    surroundings::allow_core_files(&config.unix);
    warn_of_limits(config, &router);
    let data = start_workers(&router, config, &crashes)?;
    control_watch::start(&router.pace.status).map_err(|error| format!("control watch: {error}"))?;
    cores::pin("control", config.cpu.main_core);
    router.files = files(config)?;
    router.startup = config.unix.startup_config.clone();
    router.pace.set_between(|_| notify::alive());

    let commands = Arc::new(all_commands(config, config_file));
    let script = config.unix.startup_config.as_deref().filter(|file| is_script(&commands, file));
    let restored = match script {
        Some(_) => {
            router.startup = None;
            Restored::Nothing
        }
        None => {
            router.pace.begin("saved configuration");
            let restored = restore(&mut router);
            router.pace.end();
            restored
        }
    };

    let (requests, incoming) = bounded(64);
    router.listings = control_client::listings(requests.clone());
    let desk: Arc<dyn Executor> = Arc::new(ControlClient {
        commands: commands.clone(),
        requests,
        files: router.files.clone(),
        manners: manners(config, &restored),
    });
    let mut servers = open_sockets(config, surroundings::group(config).ok().flatten(), &desk)?;
    let pid_file = config.unix.pidfile.as_deref().map(PidFile::write).transpose();
    let _pid_file = pid_file.map_err(|error| config.complaint("unix pidfile", error).to_string())?;
    log::info!("quiver v{VERSION} runs; commands on {}", config.unix.cli_listen.display());
    start_up(config, script, desk, restored);
    if config.unix.interactive {
        converse(&config.unix.cli_listen, stop)?;
    }

    let watchdog = Watchdog::start(router.graph.workers(), Instant::now());
    let requests = SharedRequests::new(incoming, commands, crashes, watchdog);
    requests.serve_between_pieces(&mut router);
    let why = control_loop(&mut router, &requests, &stopped);
    log::info!("{why}: leaving");
    notify::stopping(&format!("{why}: leaving"));
    servers.iter_mut().for_each(CliServer::shutdown);
    router.farewell();
    router.graph.stop();
    for (number, worker) in data.into_iter().enumerate() {
        worker.join().map_err(|_| format!("worker {number} panicked"))?;
    }
    Ok(())
}

fn start_workers(
    router: &Router,
    config: &StartupConfig,
    crashes: &Path,
) -> Result<Vec<thread::JoinHandle<()>>, String> {
    let cores = cores::of_workers(&config.cpu, router.graph.workers());
    let start = |(number, core)| start_worker(router, number, core, config, crashes);
    cores.into_iter().enumerate().map(start).collect()
}

fn start_worker(
    router: &Router,
    number: usize,
    core: Option<u32>,
    config: &StartupConfig,
    crashes: &Path,
) -> Result<thread::JoinHandle<()>, String> {
    let mut worker = router.graph.worker(number).map_err(|error| error.to_string())?;
    // Add what the worker did last to the report of its panic.
    let reports = crashes.to_path_buf();
    worker.on_panic(Box::new(move |panic| {
        if let Err(error) = crash::report(&reports, panic) {
            log::error!("{panic}\nno report in {}: {error}", reports.display());
        }
    }));
    worker.rest_between_polls(Duration::from_micros(config.unix.poll_sleep.into()));
    let thread = thread::Builder::new().name(graph::worker::thread_name(number));
    let cpu = config.cpu.clone();
    let run = move || {
        let what = format!("worker {number}");
        cores::pin(&what, core);
        cores::schedule(&what, &cpu);
        worker.run();
    };
    thread.spawn(run).map_err(|error| format!("worker {number}: {error}"))
}

/// How interactive sessions begin.
fn manners(config: &StartupConfig, restored: &Restored) -> SessionDefaults {
    let unix = &config.unix;
    let mut banner = format!("Quiver v{VERSION}: a vector packet router. '?' lists commands, 'quit' leaves.\n");
    if let Restored::InPart(complaint) = restored {
        banner += &format!("{complaint} at start: 'show logging' names them.\n");
    }
    let usual = SessionDefaults::default();
    // The idle timeout of a session on standard input would end the router.
    let idle_timeout = match unix.cli_idle_timeout {
        _ if unix.interactive => None,
        Some(0) => None,
        Some(seconds) => Some(Duration::from_secs(seconds.into())),
        None => usual.idle_timeout,
    };
    SessionDefaults {
        banner: if unix.cli_no_banner { String::new() } else { banner },
        prompt: unix.cli_prompt.as_ref().map_or(usual.prompt, |prompt| format!("{} ", prompt.trim_end())),
        history: unix.cli_history_limit.map_or(usual.history, |limit| limit as usize),
        idle_timeout,
        pager: !unix.cli_no_pager,
        pager_limit: unix.cli_pager_buffer_limit.unwrap_or(usual.pager_limit),
        macros: usual.macros,
    }
}

/// Warns of configuration that this version treats differently.
fn warn_of_limits(config: &StartupConfig, router: &Router) {
    let buffers = &config.buffers;
    let asked_for_huge = matches!(buffers.page_size, PageSize::Size2M | PageSize::Size1G);
    if asked_for_huge && !router.graph.pool().huge {
        log::warn!("buffers: page-size: no huge pages are free, plain pages are used (see 'sysctl vm.nr_hugepages')");
    } else if buffers.page_size == PageSize::Size1G {
        log::warn!("buffers: page-size 1g: 2m pages are used");
    }
}

/// Which files commands may reach.
fn files(config: &StartupConfig) -> Result<Files, String> {
    let Some(root) = &config.unix.cli_file_root else { return Ok(Files::anywhere()) };
    Files::beneath(root).map_err(|error| format!("unix: cli-file-root {}: {error}", root.display()))
}

/// Whether a `startup-config` file is a script in VPP's style: one that runs other scripts, or ends early. VPP treats
/// `startup-config` like `exec`, but `save` could not write such a file again.
fn is_script(commands: &CommandSet<Router>, file: &Path) -> bool {
    // The code that restores the file reports what is wrong with it.
    let Ok(text) = Files::anywhere().read_text(file, LONGEST_SCRIPT) else { return false };
    let Ok(lines) = complete_lines(&text) else { return false };
    let steers = |line: &&CommandLine| {
        commands.find(&line.text).is_some_and(|command| matches!(command.name(), "exec" | "quit" | "exit"))
    };
    let Some(line) = lines.iter().find(steers) else { return false };
    log::warn!(
        "{}:{}: '{}': the file is a script and no saved configuration: it is carried out as 'exec' would, and 'save' \
         needs the name of a file",
        file.display(),
        line.number,
        line.text
    );
    true
}

/// The result of restoring the saved configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Restored {
    /// There is none.
    Nothing,
    Whole,
    /// Only part of it could be restored, for this reason.
    InPart(String),
}

/// Applies the saved configuration, if there is one.
fn restore(router: &mut Router) -> Restored {
    let Some(file) = router.startup.clone() else { return Restored::Nothing };
    let file = file.display();
    match config::restore_config(router) {
        Ok(None) => {
            log::info!("{file} does not exist yet: 'save' makes it");
            return Restored::Nothing;
        }
        Ok(Some(done)) => log::info!("saved configuration {file}: {done} commands done"),
        Err(error) => log::error!("saved configuration: {error}"),
    }
    match router.state::<Configuration>().failed_at_start {
        0 => Restored::Whole,
        failed => {
            let complaint = format!("saved configuration {file}: {failed} commands failed");
            log::error!("{complaint}");
            Restored::InPart(complaint)
        }
    }
}

/// Runs the startup commands as if an operator had typed them, through the control thread, unless a saved configuration
/// replaces them. A `startup-config` that is a `script` is run before all others. Then the router is configured, and
/// the service manager is notified.
fn start_up(config: &StartupConfig, script: Option<&Path>, desk: Arc<dyn Executor>, restored: Restored) {
    let mut status = format!("commands on {}", config.unix.cli_listen.display());
    if let Restored::InPart(complaint) = &restored {
        status = format!("{status}; {complaint}");
    }
    let Some(file) = script.or(config.unix.exec.as_deref()).map(PathBuf::from) else { return notify::ready(&status) };
    if restored != Restored::Nothing {
        log::info!("{} is not carried out: the saved configuration takes its place", file.display());
        return notify::ready(&status);
    }
    let thread = thread::Builder::new().name("quiver_start".into());
    // The output of startup commands is discarded.
    let run = move || match exec::run_file(&*desk, &Files::anywhere(), &file, &mut |_| Ok(())) {
        Ok(()) => {
            log::info!("startup commands of {} done", file.display());
            notify::ready(&status);
        }
        Err(error) => {
            log::error!("startup commands: {error}");
            // It runs all the same, so that the operator can correct it.
            notify::ready(&format!("{status}; startup commands: {error}"));
        }
    };
    if let Err(error) = thread.spawn(run) {
        log::error!("startup commands: no thread for them: {error}");
        notify::ready(&format!("startup commands: no thread for them: {error}"));
    }
}

/// Runs a session on standard input, in a process of its own (terminal modes and signals belong to a process); its end
/// ends the router.
fn converse(socket: &Path, stop: Sender<String>) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut session = std::process::Command::new(program);
    let mut session = session.args(["cli", "--socket"]).arg(socket).spawn().map_err(|error| error.to_string())?;
    let wait = move || {
        let _ = session.wait();
        // While the router stops, nothing receives this.
        let _ = stop.try_send("end of the session on standard input".into());
    };
    thread::Builder::new().spawn(wait).map(drop).map_err(|error| format!("session on standard input: {error}"))
}

fn open_sockets(
    config: &StartupConfig,
    group: Option<u32>,
    desk: &Arc<dyn Executor>,
) -> Result<Vec<CliServer>, String> {
    let open = |path: &Path| {
        // An error names its socket.
        let mut server = CliServer::bind(path).map_err(|error| format!("CLI socket: {error}"))?;
        surroundings::give(path, group, config.unix.cli_socket_mode)?;
        server.serve(desk.clone()).map_err(|error| format!("CLI socket {}: {error}", path.display()))?;
        Ok::<CliServer, String>(server)
    };
    let mut servers = vec![open(&config.unix.cli_listen)?];
    // The open socket may be the same under another name: `/var/run` is `/run`.
    let place = |path: &Path| path.canonicalize().ok();
    let is_open = place(&config.unix.cli_listen).is_some_and(|own| place(Path::new(VPP_SOCKET)) == Some(own));
    if !is_open {
        match open(Path::new(VPP_SOCKET)) {
            Ok(server) => {
                log::info!("commands on {VPP_SOCKET}, too: 'vppctl' without a socket talks to this router");
                servers.push(server);
            }
            Err(error) => log::info!("not listening on {VPP_SOCKET} too: {error}"),
        }
    }
    Ok(servers)
}

/// Serves until the router is stopped; returns what stopped it.
fn control_loop(router: &mut Router, requests: &SharedRequests, stopped: &Receiver<String>) -> String {
    let (bell, incoming) = (router.bell().clone(), requests.incoming());
    loop {
        let watch_due = requests.watch(router);
        router.pace.begin("timers");
        let due = router.tick();
        router.pace.end();
        if let Some(request) = requests.put_off() {
            match stopped.try_recv() {
                Ok(why) => return why,
                Err(_) => requests.carry_out(request, router),
            }
            continue;
        }
        let pause = match [due, watch_due].into_iter().flatten().min() {
            Some(due) => crossbeam_channel::at(due),
            None => crossbeam_channel::never(),
        };
        select! {
            recv(stopped) -> why => return why.unwrap_or_else(|_| "nobody is there to end it".into()),
            recv(bell) -> _ => {
                router.pace.begin("events of workers");
                router.handle_events();
                router.pace.end();
            }
            recv(incoming) -> request => {
                let Ok(request) = request else { return "no door is open".into() };
                requests.carry_out(request, router);
            }
            recv(pause) -> _ => {}
        }
    }
}
