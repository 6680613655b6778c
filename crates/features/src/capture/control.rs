//! A capture from its beginning to its file.

use super::file::{self, Direction, Packet};
use crate::inspect::predicate;
use command::FileError;
use crossbeam_channel::Receiver;
use graph::capture::{Counts, Point, Request, Session};
use graph::{InterfaceIndex, time};
use router::events::EventSender;
use router::{Error, Router};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wire::filter::Filter;

/// Packets that are captured unless the operator says otherwise.
pub const MAX_PACKETS: usize = 1000;
pub const BYTES_PER_PACKET: usize = 512;
/// Memory that a worker's part may take.
const MAX_MEMORY: usize = 256 << 20;
/// How long `off` waits for workers.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a capture was refused.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error("a capture runs already, to {0} ('pcap trace off' ends it)")]
    Running(PathBuf),
    #[error("no capture runs")]
    NotRunning,
    #[error("{packets} packets of {bytes} bytes take {needed} MiB: at most {most} MiB",
        needed = (packets * bytes) >> 20, most = MAX_MEMORY >> 20)]
    TooLarge { packets: usize, bytes: usize },
    #[error("file {0}")]
    Name(std::io::Error),
    #[error("cannot write {0}")]
    Write(#[from] FileError),
}

router::codes! { CaptureError {
    Running => "capture-running",
    NotRunning => "capture-not-running",
    TooLarge => "capture-too-large",
    Name => "capture-bad-file-name",
    Write => "capture-not-written",
} }

/// What to capture.
pub struct Wanted {
    /// [`Point`]s, or-ed.
    pub points: u8,
    pub interface: Option<InterfaceIndex>,
    pub filter: Option<Filter>,
    pub max: usize,
    pub bytes_per_packet: usize,
    pub file: String,
}

/// A clock reading in both units.
#[derive(Debug, Clone, Copy)]
struct Reading {
    ticks: u64,
    wall: u64,
}

impl Reading {
    fn now() -> Reading {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_nanos() as u64);
        Reading { ticks: time::ticks(), wall }
    }

    /// The wall clock at `ticks`, between this reading and a later one.
    fn wall_at(&self, ticks: u64, later: &Reading) -> u64 {
        let passed = later.ticks.saturating_sub(self.ticks).max(1) as f64;
        let rate = later.wall.saturating_sub(self.wall) as f64 / passed;
        self.wall + (ticks.saturating_sub(self.ticks) as f64 * rate) as u64
    }
}

/// A capture that runs.
pub struct Running {
    pub points: u8,
    pub interface: Option<InterfaceIndex>,
    pub filter: Option<Arc<Filter>>,
    pub max: usize,
    pub bytes_per_packet: usize,
    pub path: PathBuf,
    /// By worker.
    counts: Vec<Arc<Counts>>,
    sessions: Vec<Session>,
    arriving: Receiver<Box<Session>>,
    /// Names of interfaces as it began, for those that may be gone at its end.
    names: HashMap<InterfaceIndex, String>,
    began: Reading,
}

impl Running {
    pub fn count(&self, point: Point) -> u64 {
        self.counts.iter().map(|counts| u64::from(counts.of(point))).sum()
    }

    /// The first worker whose session is not back.
    fn missing(&self) -> Option<usize> {
        let is_back = |counts| self.sessions.iter().any(|session| Arc::ptr_eq(&session.counts(), counts));
        self.counts.iter().position(|counts| !is_back(counts))
    }
}

/// How a capture ended.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Outcome {
    pub packets: usize,
    pub file: PathBuf,
    /// Why there is no file.
    pub error: Option<String>,
}

/// The capture that runs, and how the last one ended.
pub struct Captures {
    pub running: Option<Running>,
    pub last: Option<Outcome>,
    events: EventSender<()>,
}

impl Captures {
    pub(crate) fn new(events: EventSender<()>) -> Captures {
        Captures { running: None, last: None, events }
    }
}

/// Begins a capture.
///
/// # Errors
/// When one runs, it would take too much memory, or the file's name is none.
pub fn start(router: &mut Router, wanted: Wanted) -> Result<(), Error> {
    if let Some(running) = &router.state::<Captures>().running {
        return Err(CaptureError::Running(running.path.clone()).into());
    }
    let Wanted { points, interface, filter, max, bytes_per_packet, file } = wanted;
    let path = file::resolve(&router.files, &file).map_err(CaptureError::Name)?;
    router.files.check_target(&path).map_err(CaptureError::from)?;
    if max.saturating_mul(bytes_per_packet) > MAX_MEMORY {
        return Err(CaptureError::TooLarge { packets: max, bytes: bytes_per_packet }.into());
    }
    let filter = filter.map(Arc::new);
    let workers = router.graph.workers();
    let (done, arriving) = crossbeam_channel::bounded(workers);
    // All before the first begins, for they take their time.
    let session = |_| {
        let events = router.state::<Captures>().events.clone();
        let filter = filter.as_ref().map(|filter| predicate(filter, true));
        let request = Request { points, interface, filter, most: max, bytes_per_packet };
        // A full queue does no harm: it is full of events that say the same.
        let wake = Arc::new(move || {
            let _ = events.try_send(());
        });
        Box::new(Session::new(request, done.clone(), wake))
    };
    let started: Vec<Box<Session>> = (0..workers).map(session).collect();
    let counts = started.iter().map(|session| session.counts()).collect();
    let began = Reading::now();
    for (thread, session) in started.into_iter().enumerate() {
        router.graph.call_one(thread, move |core| core.capture.start(session));
    }
    let names = router.interfaces.iter().map(|interface| (interface.index, interface.name.clone())).collect();
    router.state_mut::<Captures>().running = Some(Running {
        points,
        interface,
        filter,
        max,
        bytes_per_packet,
        path,
        counts,
        sessions: Vec::new(),
        arriving,
        names,
        began,
    });
    Ok(())
}

/// Ends the capture and writes its file.
///
/// # Errors
/// When none runs, a worker does not answer, or the file cannot be written.
pub fn stop(router: &mut Router) -> Result<Outcome, Error> {
    if router.state::<Captures>().running.is_some() {
        router.graph.call(|_| Box::new(|core| core.capture.finish()));
    }
    let Some(running) = &mut router.state_mut::<Captures>().running else {
        return Err(CaptureError::NotRunning.into());
    };
    let deadline = Instant::now() + PATIENCE;
    while let Some(missing) = running.missing() {
        let session = running.arriving.recv_deadline(deadline);
        running.sessions.push(*session.map_err(|_| graph::GraphError::NoAnswer(missing))?);
    }
    let running = router.state_mut::<Captures>().running.take().expect("looked at above");
    let (path, written) = (running.path.clone(), write(router, running));
    router.state_mut::<Captures>().last = Some(written.as_ref().cloned().unwrap_or_else(|error| Outcome {
        packets: 0,
        file: path.clone(),
        error: Some(error.to_string()),
    }));
    written.map_err(|error| CaptureError::Write(error).into())
}

/// Takes in what workers have sent back of their own accord: one that is full ends the
/// capture for all.
pub(crate) fn collect(router: &mut Router) {
    let Some(running) = &mut router.state_mut::<Captures>().running else { return };
    let before = running.sessions.len();
    running.sessions.extend(running.arriving.try_iter().map(|session| *session));
    if running.sessions.len() == before {
        return;
    }
    if running.missing().is_some() {
        return router.graph.call(|_| Box::new(|core| core.capture.finish()));
    }
    match stop(router) {
        Ok(outcome) => log::info!("capture ended: {} packets in {}", outcome.packets, outcome.file.display()),
        Err(error) => log::error!("capture lost: {error}"),
    }
}

fn write(router: &Router, running: Running) -> Result<Outcome, FileError> {
    let ended = Reading::now();
    let mut captured: Vec<_> = running.sessions.iter().flat_map(|session| session.packets()).collect();
    captured.sort_by_key(|(record, _)| record.ticks);
    captured.truncate(running.max);
    let mut interfaces: Vec<file::Interface> = Vec::new();
    let mut places: HashMap<(InterfaceIndex, bool), u32> = HashMap::new();
    let packets: Vec<(u32, String)> = captured
        .iter()
        .map(|(record, _)| {
            let place = *places.entry((record.interface, record.framed)).or_insert_with(|| {
                let link_type = if record.framed { file::ETHERNET } else { file::RAW_IP };
                interfaces.push(file::Interface { name: name_at_end(router, &running, record.interface), link_type });
                interfaces.len() as u32 - 1
            });
            let reason = router.graph.errors().get(record.reason as usize);
            (place, reason.map_or(String::new(), |reason| format!("{}: {}", reason.node, reason.reason)))
        })
        .collect();
    if interfaces.is_empty() {
        interfaces.push(file::Interface { name: "any".into(), link_type: file::ETHERNET });
    }
    let blocks = captured.iter().zip(&packets).map(|((record, bytes), (interface, reason))| Packet {
        interface: *interface,
        time: running.began.wall_at(record.ticks, &ended),
        bytes,
        length: record.length,
        direction: if record.point == Point::Sent { Direction::Outbound } else { Direction::Inbound },
        comment: (record.point == Point::Dropped).then_some(reason),
    });
    file::write(&router.files, &running.path, &interfaces, blocks)?;
    Ok(Outcome { packets: captured.len(), file: running.path, error: None })
}

/// An interface's name: today's, else the one that it had.
fn name_at_end(router: &Router, running: &Running, index: InterfaceIndex) -> String {
    let today = router.interfaces.get(index).ok().map(|interface| interface.name.clone());
    // What control originated came from no interface, which VPP names so.
    let unknown = || if index.0 == 0 { "local0".into() } else { format!("#{index}") };
    today.or_else(|| running.names.get(&index).cloned()).unwrap_or_else(unknown)
}
