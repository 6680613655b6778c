//! The packet generator's streams and commands. [`drivers::pg`] sends the packets.

pub mod cli;
pub(crate) mod config;
pub mod entry;
mod stall;

use crate::capability::Description;
use crate::config::{Part, Phase};
use crate::interface::InterfaceCounters;
use crate::{Error, Router};
use drivers::pg::{PgInput, Stream};
use graph::{Behaviour, Core, Graph, GraphError, InterfaceIndex, NodeIndex};
use stall::Stall;
use std::time::Duration;

pub(crate) const CAPABILITY: Description = Description {
    name: "packet-generator",
    description: "Streams of made or replayed packets",
    commands: cli::register,
    statements: &[(Phase::Services, Part::Few(config::statements))],
    values: &[("stream", |router| router.streams.0.iter().map(|stream| stream.name.clone()).collect())],
    ..Description::NONE
};

/// Nodes that control calls.
pub(crate) struct Nodes {
    pub input: NodeIndex,
    stall: NodeIndex,
}

/// Registers the capability's node.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(graph: &mut Graph, counters: &InterfaceCounters) -> Result<Nodes, GraphError> {
    let rx = counters.rx.clone();
    let arc = graph.arc(drivers::input::ARC)?;
    let input = graph.register(PgInput::spec(entry::Edge::EDGES), move |_| {
        Behaviour::Source(Box::new(PgInput::new(arc, rx.clone())))
    })?;
    let stall = graph.register(stall::spec(), |_| Behaviour::Map(Box::new(stall::Stall::default())))?;
    Ok(Nodes { input, stall })
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

/// All streams in the order of their creation, and how many there ever were.
#[derive(Debug, Default)]
pub struct Streams(pub Vec<StreamInfo>, u32);

impl Streams {
    /// The stream that a traced packet comes from.
    pub(crate) fn name_of(&self, number: u32) -> Option<&str> {
        self.0.iter().find(|stream| stream.number == number).map(|stream| stream.name.as_str())
    }
}

impl Router {
    /// Adds a stream, stopped. `worker` is the worker that will run it.
    ///
    /// # Errors
    /// When its name is taken, or its interface or the worker does not exist.
    pub fn add_stream(
        &mut self,
        mut stream: Stream,
        worker: usize,
        parameters: String,
        definition: Vec<String>,
    ) -> Result<(), Error> {
        let workers = self.graph.workers();
        if worker >= workers {
            return Err(Error::NoSuchWorker { worker, workers });
        }
        if self.streams.0.iter().any(|known| known.name == stream.name) {
            return Err(Error::StreamTaken(stream.name));
        }
        let interface = self.interfaces.get(stream.interface)?;
        stream.up = interface.is_up();
        self.streams.1 += 1;
        stream.number = self.streams.1;
        let (name, number, interface) = (stream.name.clone(), stream.number, stream.interface);
        let info = StreamInfo { name, number, interface, worker, parameters, definition };
        self.streams.0.push(info);
        let input = self.nodes.generator.input;
        self.graph.call_one(worker, move |core| {
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
    pub fn enable_stream(&mut self, name: Option<&str>, enabled: bool) -> Result<(), Error> {
        if let Some(name) = name {
            self.find_stream(name)?;
        }
        let name = name.map(str::to_string);
        self.on_generators(move |generator| generator.enable(name.as_deref(), enabled));
        Ok(())
    }

    /// Removes a stream.
    ///
    /// # Errors
    /// When there is no stream of this name.
    pub fn remove_stream(&mut self, name: &str) -> Result<(), Error> {
        self.find_stream(name)?;
        self.streams.0.retain(|stream| stream.name != name);
        let name = name.to_string();
        self.on_generators(move |generator| generator.streams.retain(|stream| stream.name != name));
        Ok(())
    }

    /// Removes the streams of an interface that is removed.
    pub(crate) fn forget_streams(&mut self, interface: InterfaceIndex) {
        self.streams.0.retain(|stream| stream.interface != interface);
        self.on_generators(move |generator| generator.streams.retain(|stream| stream.interface != interface));
    }

    /// The progress of each stream: name, whether it runs, packets sent. Streams of a worker that does not answer are
    /// left out.
    pub fn stream_progress(&self) -> Vec<(String, bool, u64)> {
        let input = self.nodes.generator.input;
        let ask = |worker| {
            let look = move |core: &mut Core| {
                let Some(generator) = core.node::<PgInput>(input) else { return Vec::new() };
                generator.streams.iter().map(|stream| (stream.name.clone(), stream.enabled, stream.sent)).collect()
            };
            self.graph.ask(worker, look).unwrap_or_default()
        };
        // Workers without streams are not asked.
        let has_some = |worker: &usize| self.streams.0.iter().any(|stream| stream.worker == *worker);
        (0..self.graph.workers()).filter(has_some).flat_map(ask).collect()
    }

    /// Sets how long `pg-stall` blocks its worker for each vector.
    pub fn set_stall(&self, time: Duration) {
        let node = self.nodes.generator.stall;
        self.graph.call(|_| {
            Box::new(move |core| {
                if let Some(stall) = core.node::<Stall>(node) {
                    stall.time = time;
                }
            })
        });
    }

    fn find_stream(&self, name: &str) -> Result<(), Error> {
        let known = self.streams.0.iter().any(|stream| stream.name == name);
        known.then_some(()).ok_or_else(|| Error::NoSuchStream(name.into()))
    }

    /// Runs `act` on the generator of every worker.
    pub(crate) fn on_generators(&self, act: impl Fn(&mut PgInput) + Clone + Send + 'static) {
        let input = self.nodes.generator.input;
        self.graph.call(|_| {
            let act = act.clone();
            Box::new(move |core| {
                if let Some(generator) = core.node::<PgInput>(input) {
                    act(generator);
                }
            })
        });
    }
}
