//! The packet generator's streams and commands. The work is done by [`drivers::pg`].

pub mod cli;
pub(crate) mod config;
mod stall;

use crate::capability::Capability;
use crate::interface::InterfaceCounters;
use crate::{Error, Router};
use drivers::pg::{PgInput, Stream};
use graph::{Behaviour, Core, Graph, GraphError, InterfaceIndex, NodeIndex};
use stall::Stall;
use std::time::Duration;

/// For `show plugins` and `show features`.
pub(crate) const CAPABILITY: Capability =
    Capability { name: "packet-generator", description: "Streams of made or replayed packets", stages: &[] };

/// Nodes that control talks to.
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
    let input = graph.register(PgInput::spec(), move |_| Behaviour::Source(Box::new(PgInput::new(rx.clone()))))?;
    let stall = graph.register(stall::spec(), |_| Behaviour::Map(Box::new(stall::Stall::default())))?;
    Ok(Nodes { input, stall })
}

/// A stream as control remembers it.
#[derive(Debug, Clone)]
pub struct StreamInfo {
    pub name: String,
    /// See [`Stream::number`]: never given again.
    pub number: u32,
    pub interface: InterfaceIndex,
    /// The worker that runs it.
    pub worker: usize,
    /// For `show packet-generator`: what the stream was made with.
    pub parameters: String,
    /// The lines that define it, but for its name and interface.
    pub definition: Vec<String>,
}

/// All streams, in the order they were made, and how many there ever were.
#[derive(Debug, Default)]
pub struct Streams(pub Vec<StreamInfo>, u32);

impl Streams {
    /// Where the packets of a trace come from.
    pub(crate) fn name_of(&self, number: u32) -> Option<&str> {
        self.0.iter().find(|stream| stream.number == number).map(|stream| stream.name.as_str())
    }
}

impl Router {
    /// Adds a stream, stopped, to be run by a worker.
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
        stream.mirrored = interface.span.iter().any(|session| session.rx);
        stream.handed = interface.handoff.is_some();
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

    /// Starts or stops a stream, or all.
    ///
    /// # Errors
    /// When there is none of this name.
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
    /// When there is none of this name.
    pub fn remove_stream(&mut self, name: &str) -> Result<(), Error> {
        self.find_stream(name)?;
        self.streams.0.retain(|stream| stream.name != name);
        let name = name.to_string();
        self.on_generators(move |generator| generator.streams.retain(|stream| stream.name != name));
        Ok(())
    }

    /// Removes the streams of an interface that goes away.
    pub(crate) fn forget_streams(&mut self, interface: InterfaceIndex) {
        self.streams.0.retain(|stream| stream.interface != interface);
        self.on_generators(move |generator| generator.streams.retain(|stream| stream.interface != interface));
    }

    /// How far each stream is: name, whether it runs, packets sent. Those of a worker that does not answer
    /// are left out.
    pub fn stream_progress(&self) -> Vec<(String, bool, u64)> {
        let input = self.nodes.generator.input;
        let ask = |worker| {
            let look = move |core: &mut Core| {
                let Some(generator) = core.node::<PgInput>(input) else { return Vec::new() };
                generator.streams.iter().map(|stream| (stream.name.clone(), stream.enabled, stream.sent)).collect()
            };
            self.graph.ask(worker, look).unwrap_or_default()
        };
        // Nobody is asked who has none.
        let has_some = |worker: &usize| self.streams.0.iter().any(|stream| stream.worker == *worker);
        (0..self.graph.workers()).filter(has_some).flat_map(ask).collect()
    }

    /// How long each vector that comes to `pg-stall` holds its worker up.
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

    /// Has the generator do something on all workers.
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
