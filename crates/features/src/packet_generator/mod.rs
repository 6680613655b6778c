//! The packet generator's streams and commands. [`drivers::pg`] sends the packets.

mod cli;
mod config;
pub mod entry;
pub mod kind;
mod stall;

use drivers::pg::{self, PgInput, Stream};
use graph::{Behaviour, Core, InterfaceIndex, NodeIndex, Snapshot};
use kind::Generator;
use router::capability::{Chapter, Description, Notice, Part, Phase, Stage, Starting};
use router::interface::kind::InterfaceKind;
use router::{Error, Router};
use stall::Stall;
use std::time::Duration;

pub const CAPABILITY: Description = Description {
    name: "packet-generator",
    log_classes: &[("packet_generator", "pg")],
    codes: &[GeneratorError::CODES],
    description: "Streams of made or replayed packets",
    start,
    hears,
    traces,
    idles,
    kinds: &[InterfaceKind { driver: pg::DRIVER, specimen: || Box::new(Generator), port: None }],
    commands: cli::register,
    statements: &[(Phase::Services, Part::Few(config::statements))],
    values: &[("stream", |router| streams(router).iter().map(|stream| stream.name.clone()).collect())],
    chapters: &[Chapter { stage: Stage::Receiving, title: "Devices, receiving", about: "", nodes: &["pg-input"] }],
    ..Description::NONE
};

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let (graph, rx) = (&mut *starting.graph, starting.core.counters.rx.clone());
    let arc = graph.arc(drivers::input::ARC)?;
    let input = graph.register(PgInput::spec(entry::Edge::EDGES), move |_| {
        Behaviour::Source(Box::new(PgInput::new(arc, rx.clone())))
    })?;
    let stall = graph.register(stall::spec(), |_| Behaviour::Map(Box::new(stall::Stall::default())))?;
    starting.own(Streams { all: Vec::new(), ever: 0, input, stall });
    Ok(())
}

fn hears(router: &mut Router, notice: &Notice) {
    match notice {
        // Streams can be received on any interface.
        Notice::State { interface, up } if has_streams(router, *interface) => {
            let (interface, up) = (*interface, *up);
            on_generators(router, move |generator| generator.set_up(interface, up));
        }
        Notice::Leaving(interface) if has_streams(router, *interface) => forget(router, *interface),
        _ => {}
    }
}

fn has_streams(router: &Router, interface: InterfaceIndex) -> bool {
    streams(router).iter().any(|stream| stream.interface == interface)
}

/// The stream that a traced packet comes from.
fn traces(router: &Router, step: &Snapshot) -> Option<String> {
    let Streams { all, input, .. } = router.state();
    let stream = all.iter().find(|stream| stream.number == step.row.target);
    (step.node == *input).then(|| format!("stream {}", stream.map_or("(removed)", |stream| &stream.name)))
}

/// The generator is asked each round, whether it has streams or not.
fn idles(router: &Router, node: NodeIndex) -> bool {
    let Streams { all, input, .. } = router.state();
    node == *input && all.is_empty()
}

/// A stream as control remembers it.
#[derive(Debug, Clone)]
pub struct StreamInfo {
    pub name: String,
    /// See [`Stream::number`]: never reused.
    pub number: u32,
    pub interface: InterfaceIndex,
    /// The worker that runs it.
    pub worker: usize,
    /// The options that the stream was created with, for `show packet-generator`.
    pub parameters: String,
    /// The lines that define it, without its name and interface.
    pub definition: Vec<String>,
}

struct Streams {
    /// In the order of their creation.
    all: Vec<StreamInfo>,
    /// How many there ever were.
    ever: u32,
    input: NodeIndex,
    stall: NodeIndex,
}

/// Why the packet generator refused something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GeneratorError {
    #[error("no stream named '{0}' (show packet-generator lists them)")]
    NoSuchStream(String),
    #[error("a stream named '{0}' exists already")]
    StreamTaken(String),
}

router::codes! { GeneratorError {
    NoSuchStream => "packet-generator-no-such-stream",
    StreamTaken => "packet-generator-stream-taken",
} }

/// All streams, in the order of their creation.
pub fn streams(router: &Router) -> &[StreamInfo] {
    &router.state::<Streams>().all
}

/// Adds a stream, stopped. `worker` is the worker that will run it.
///
/// # Errors
/// When its name is taken, or its interface or the worker does not exist.
pub fn add(
    router: &mut Router,
    mut stream: Stream,
    worker: usize,
    parameters: String,
    definition: Vec<String>,
) -> Result<(), Error> {
    let workers = router.graph.workers();
    if worker >= workers {
        return Err(Error::NoSuchWorker { worker, workers });
    }
    if router.state::<Streams>().all.iter().any(|known| known.name == stream.name) {
        return Err(GeneratorError::StreamTaken(stream.name).into());
    }
    let interface = router.interfaces.get(stream.interface)?;
    stream.up = interface.is_up();
    router.state_mut::<Streams>().ever += 1;
    stream.number = router.state_mut::<Streams>().ever;
    let (name, number, interface) = (stream.name.clone(), stream.number, stream.interface);
    let info = StreamInfo { name, number, interface, worker, parameters, definition };
    router.state_mut::<Streams>().all.push(info);
    let input = router.state::<Streams>().input;
    router.graph.call_one(worker, move |core| {
        if let Some(generator) = core.node::<PgInput>(input) {
            generator.streams.push(stream);
        }
    });
    Ok(())
}

/// Starts or stops a stream, or all streams.
///
/// # Errors
/// When there is no stream of this name.
pub fn enable(router: &mut Router, name: Option<&str>, enabled: bool) -> Result<(), Error> {
    if let Some(name) = name {
        find(router, name)?;
    }
    let name = name.map(str::to_string);
    on_generators(router, move |generator| generator.enable(name.as_deref(), enabled));
    Ok(())
}

/// Removes a stream.
///
/// # Errors
/// When there is no stream of this name.
pub fn remove(router: &mut Router, name: &str) -> Result<(), Error> {
    find(router, name)?;
    router.state_mut::<Streams>().all.retain(|stream| stream.name != name);
    let name = name.to_string();
    on_generators(router, move |generator| generator.streams.retain(|stream| stream.name != name));
    Ok(())
}

/// Removes the streams of an interface that is removed.
pub(crate) fn forget(router: &mut Router, interface: InterfaceIndex) {
    router.state_mut::<Streams>().all.retain(|stream| stream.interface != interface);
    on_generators(router, move |generator| generator.streams.retain(|stream| stream.interface != interface));
}

/// The progress of each stream: name, whether it runs, packets sent. Streams of a worker that does not answer are
/// left out.
pub fn progress(router: &Router) -> Vec<(String, bool, u64)> {
    let input = router.state::<Streams>().input;
    let ask = |worker| {
        let look = move |core: &mut Core| {
            let Some(generator) = core.node::<PgInput>(input) else { return Vec::new() };
            generator.streams.iter().map(|stream| (stream.name.clone(), stream.enabled, stream.sent)).collect()
        };
        router.graph.ask(worker, look).unwrap_or_default()
    };
    // Workers without streams are not asked.
    let has_some = |worker: &usize| router.state::<Streams>().all.iter().any(|stream| stream.worker == *worker);
    (0..router.graph.workers()).filter(has_some).flat_map(ask).collect()
}

/// Sets how long `pg-stall` blocks its worker for each vector.
pub fn set_stall(router: &Router, time: Duration) {
    let node = router.state::<Streams>().stall;
    router.graph.call(|_| {
        Box::new(move |core| {
            if let Some(stall) = core.node::<Stall>(node) {
                stall.time = time;
            }
        })
    });
}

fn find(router: &Router, name: &str) -> Result<(), Error> {
    let known = streams(router).iter().any(|stream| stream.name == name);
    known.then_some(()).ok_or_else(|| GeneratorError::NoSuchStream(name.into()).into())
}

/// Runs `act` on the generator of every worker.
pub(crate) fn on_generators(router: &Router, act: impl Fn(&mut PgInput) + Clone + Send + 'static) {
    let input = router.state::<Streams>().input;
    router.graph.call(|_| {
        let act = act.clone();
        Box::new(move |core| {
            if let Some(generator) = core.node::<PgInput>(input) {
                act(generator);
            }
        })
    });
}
