//! The load tester itself: a router with ports that makes packets and accounts for those that come back.

use crate::device::quiver::pin;
use crate::frame::Ends;
use crate::generate::spread::Spread;
use crate::generate::{self, Generator, Taken, Watched};
use crate::port::PortSpec;
use crate::profile::ProfileError;
use crate::rate::RateError;
use crate::receive::heard::{Ear, Heard, Listener};
use crate::receive::{self, Receiver};
use command::CommandSet;
use drivers::Device;
use drivers::input::{self, DeviceInput};
use graph::{Behaviour, Core, CounterTable, GraphError, InterfaceIndex, NodeIndex};
use router::neighbour::NeighbourKey;
use router::{Options as RouterOptions, Router};
use running::Part;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Answers, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::MacAddress;

mod running;

pub use running::{Counted, Cut, Finished, Order, Outcome, Running};

/// Numbers of streams: as many as fit a tag.
const NUMBERS: usize = 1 << 16;
/// Timeout for links and gateways.
const PATIENCE: Duration = Duration::from_secs(5);
/// Timeout for a worker's answer. Long, because a worker does not run while other programs use its core.
const ANSWER: Duration = Duration::from_secs(60);
/// How often to check whether a worker that has not answered yet still exists.
const ANSWER_LOOK: Duration = Duration::from_millis(100);
/// How often control checks for news.
const LOOK: Duration = Duration::from_millis(5);

/// Why a test is not possible.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    #[error("{0}")]
    Router(#[from] router::Error),
    #[error("{0}")]
    Graph(#[from] GraphError),
    #[error("{0}")]
    Profile(#[from] ProfileError),
    #[error("{0}")]
    Rate(#[from] RateError),
    #[error("port {number} ({name}): {source}")]
    Open { number: usize, name: String, source: drivers::OpenError },
    #[error("port {number} ({name}): {why}")]
    Port { number: usize, name: String, why: String },
    #[error("{0}")]
    Other(String),
}

/// The settings of a load tester.
#[derive(Debug, Clone)]
pub struct Options {
    /// The core of each worker; none: the system chooses.
    pub cores: Vec<Option<u32>>,
    /// Packet buffers.
    pub buffers: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { cores: vec![None], buffers: 32_768 }
    }
}

/// A port.
pub struct Port {
    pub name: String,
    pub interface: InterfaceIndex,
    /// Bits a second of its line.
    pub line: Option<f64>,
    gateway: Option<IpAddr>,
    /// Its VLAN, and the interface that has its addresses: a sub-interface if there is a VLAN.
    vlan: Option<u16>,
    addressed: InterfaceIndex,
    pub source: MacAddress,
    destination: Option<MacAddress>,
    /// It receives packets.
    is_heard: bool,
    /// Workers that can send by it directly.
    workers: Vec<usize>,
    /// How much the device refused of each worker's packets.
    taken: Arc<Vec<Arc<Taken>>>,
    /// How its queues are polled, and those counts at the start of the run.
    ears: Vec<Arc<Ear>>,
    heard_before: Heard,
}

/// The load tester.
pub struct Tester {
    router: Router,
    commands: CommandSet<Router>,
    ports: Vec<Port>,
    workers: Vec<JoinHandle<()>>,
    cores: Vec<Option<u32>>,
    generator: NodeIndex,
    receiver: NodeIndex,
    tx: Arc<CounterTable>,
    rx: Arc<CounterTable>,
    next_number: u16,
    running: Vec<Running>,
    parts: Vec<Part>,
    /// Epochs that have ended since the first stream began to send.
    epoch: usize,
    began: u64,
}

impl Tester {
    /// A load tester without ports.
    ///
    /// # Errors
    /// When the system refuses memory or threads.
    pub fn new(options: &Options) -> Result<Tester, TestError> {
        let workers = options.cores.len().max(1);
        let mut router =
            capabilities::router(RouterOptions { workers, buffers: options.buffers, ..RouterOptions::default() })?;
        let io = |error: std::io::Error| TestError::Other(error.to_string());
        let tx = CounterTable::new("/loadtest/tx", workers, NUMBERS, generate::word::WIDTH).map_err(io)?;
        let rx = CounterTable::new("/loadtest/rx", workers, NUMBERS, receive::word::WIDTH).map_err(io)?;
        let (own_tx, own_rx) = (tx.clone(), rx.clone());
        let generator = router
            .graph
            .register(Generator::spec(), move |_| Behaviour::Source(Box::new(Generator::new(own_tx.clone()))))?;
        let receiver = router
            .graph
            .register(Receiver::spec(), move |_| Behaviour::Map(Box::new(Receiver::new(own_rx.clone()))))?;
        let mut tester = Tester {
            router,
            commands: capabilities::commands(),
            ports: Vec::new(),
            workers: Vec::new(),
            cores: options.cores.clone(),
            generator,
            receiver,
            tx,
            rx,
            next_number: 1,
            running: Vec::new(),
            parts: Vec::new(),
            epoch: 0,
            began: 0,
        };
        tester.cores.resize(workers, None);
        for (number, core) in tester.cores.iter().copied().enumerate() {
            let worker = tester.router.graph.worker(number).map_err(|error| TestError::Other(error.to_string()))?;
            let run = move || {
                pin("the load tester", core);
                worker.run();
            };
            let thread = std::thread::Builder::new().name(format!("loadtest_{number}"));
            tester.workers.push(thread.spawn(run).map_err(io)?);
        }
        Ok(tester)
    }

    /// Opens a port.
    ///
    /// # Errors
    /// When the system or the router refuses.
    pub fn add_port(&mut self, spec: &PortSpec) -> Result<usize, TestError> {
        let number = self.ports.len();
        let device = self.router.open(&port_name(number), &*spec.creation).map_err(|source| TestError::Open {
            number,
            name: spec.text.clone(),
            source,
        })?;
        let number = self.add_device(&spec.text, device)?;
        let port = &mut self.ports[number];
        (port.gateway, port.destination) = (spec.gateway, spec.destination);
        port.line = spec.line.or(port.line);
        let index = port.interface;
        if let Some(mac) = spec.source {
            self.router.set_mac(index, mac)?;
            self.ports[number].source = mac;
        }
        let mut addressed = port_name(number);
        if let Some(vlan) = spec.vlan {
            addressed = self.add_vlan(number, vlan)?;
        }
        for address in &spec.addresses {
            self.execute(&format!("set interface ip address {addressed} {address}"))?;
        }
        Ok(number)
    }

    /// Puts a port's own packets into a VLAN: makes a sub-interface in the port's table, and returns its name.
    fn add_vlan(&mut self, number: usize, vlan: u16) -> Result<String, TestError> {
        let (parent, table) = (port_name(number), number + 1);
        let name = format!("{parent}.{vlan}");
        for line in [
            format!("create sub-interfaces {parent} {vlan} dot1q {vlan} exact-match"),
            format!("set interface ip table {name} {table}"),
            format!("set interface ip6 table {name} {table}"),
            format!("set interface state {name} up"),
        ] {
            self.execute(&line)?;
        }
        let port = &mut self.ports[number];
        (port.vlan, port.addressed) = (Some(vlan), self.router.interfaces.find(&name)?);
        Ok(name)
    }

    /// Makes a port from a device.
    ///
    /// # Errors
    /// When the router refuses it.
    pub fn add_device(&mut self, text: &str, mut device: Device) -> Result<usize, TestError> {
        let (number, workers) = (self.ports.len(), self.router.graph.workers());
        let name = port_name(number);
        let taken: Vec<Arc<Taken>> = (0..workers).map(|_| Arc::default()).collect();
        let taken = Arc::new(taken);
        let is_for_all = device.transmit.is_for_all(workers);
        if workers == 1 && device.input_node == "memif-input" {
            device.transmit = Spread::over(device.transmit);
        }
        device.transmit = Box::new(Watched::new(device.transmit, &self.tx, &taken));
        let ears: Vec<Arc<Ear>> = device.receive.iter().map(|_| Arc::default()).collect();
        let queues = std::mem::take(&mut device.receive).into_iter().zip(&ears);
        device.receive = queues.map(|(queue, ear)| Box::new(Listener::new(queue, ear)) as _).collect();
        let (input_node, has_queues) = (device.input_node, !device.receive.is_empty());
        let line = device.link.speed().map(|speed| f64::from(speed.megabits) * 1e6);
        let interface = self.router.create_interface(&name, device)?;
        let known = self.router.interfaces.get(interface)?;
        let owner = known.transmit_queues.owner.unwrap_or(0);
        let source = known.mac;
        let users = if is_for_all { (0..workers).collect() } else { vec![owner] };
        // Each port has a table of its own, so nothing is routed between ports.
        let table = number + 1;
        for line in [
            format!("ip table add {table}"),
            format!("ip6 table add {table}"),
            format!("set interface ip table {name} {table}"),
            format!("set interface ip6 table {name} {table}"),
        ] {
            self.execute(&line)?;
        }
        self.router.set_admin(interface, true)?;
        if has_queues {
            self.router.set_receive_mode(interface, None, input::Mode::Polling)?;
            let input = self.router.graph.find(input_node)?;
            let edge = self.router.graph.connect(input, receive::NODE)?;
            for worker in 0..workers {
                self.router.graph.call_one(worker, move |core| {
                    if let Some(input) = core.node::<DeviceInput>(input) {
                        input.set_cross_connect(interface, Some(edge));
                    }
                });
            }
        }
        self.ports.push(Port {
            name: text.into(),
            interface,
            line,
            gateway: None,
            vlan: None,
            addressed: interface,
            source,
            destination: None,
            is_heard: has_queues,
            workers: users,
            taken,
            ears,
            heard_before: Heard::default(),
        });
        Ok(number)
    }

    /// The reply of the load tester's own router to a command.
    ///
    /// # Errors
    /// When it refuses.
    pub fn execute(&mut self, line: &str) -> Result<String, TestError> {
        let done = self.commands.execute(&mut self.router, line);
        done.map(|reply| reply.text()).map_err(|error| TestError::Other(format!("{line}: {error}")))
    }

    /// Asks a worker between its rounds.
    fn post<T: Send + 'static>(
        &self,
        worker: usize,
        question: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> Answers<T> {
        let (sender, answers) = sync_channel(1);
        self.router.graph.call_one(worker, move |core| {
            // The caller may have given up.
            let _ = sender.send(question(core));
        });
        answers
    }

    /// Waits for the answer of a worker, which may be late.
    fn answer<T>(&self, worker: usize, answers: &Answers<T>) -> Result<T, TestError> {
        let begun = Instant::now();
        loop {
            match answers.recv_timeout(ANSWER_LOOK) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout)
                    if begun.elapsed() < ANSWER
                        && self.workers.get(worker).is_some_and(|thread| !thread.is_finished()) => {}
                Err(_) => return Err(GraphError::NoAnswer(worker).into()),
            }
        }
    }

    fn ask<T: Send + 'static>(
        &self,
        worker: usize,
        question: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> Result<T, TestError> {
        self.answer(worker, &self.post(worker, question))
    }

    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Access to a port, to set what is unknown: the speed of its line, the destination of its packets.
    pub fn port_mut(&mut self, number: usize) -> &mut Port {
        &mut self.ports[number]
    }

    /// The port that receives what a port sends: ports form pairs, and a port without a partner receives its own
    /// packets.
    pub fn peer(&self, number: usize) -> usize {
        if number ^ 1 < self.ports.len() { number ^ 1 } else { number }
    }

    /// Does control's work that is due until then; calls `others` now and then.
    pub fn wait(&mut self, until: Instant, others: &mut dyn FnMut()) {
        loop {
            self.tick();
            others();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // Control preempts the worker on this core while it works.
            std::thread::sleep(left.min(4 * LOOK));
        }
    }

    fn tick(&mut self) {
        self.router.handle_events();
        self.router.tick();
    }

    /// Waits until all links are up and all gateways have answered.
    ///
    /// # Errors
    /// Which is not, and a possible reason.
    pub fn await_ready(&mut self, others: &mut dyn FnMut()) -> Result<(), TestError> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.router.check_links();
            let Some((number, why)) = self.unready() else { return Ok(()) };
            if Instant::now() > end {
                let name = self.ports[number].name.clone();
                return Err(TestError::Port { number, name, why });
            }
            self.wait(Instant::now() + 2 * LOOK, others);
        }
    }

    /// A port that is not ready, and the reason.
    fn unready(&mut self) -> Option<(usize, String)> {
        for number in 0..self.ports.len() {
            if !self.is_link_up(number) {
                let what = "its link is down: is the other side there, and up?";
                return Some((number, what.into()));
            }
        }
        for number in 0..self.ports.len() {
            let Port { addressed, gateway, destination, .. } = self.ports[number];
            let Some(gateway) = gateway.filter(|_| destination.is_none()) else { continue };
            let key = NeighbourKey::new(addressed, gateway);
            match self.router.neighbours.mac_of(&key) {
                Some(mac) => self.ports[number].destination = Some(mac),
                None => {
                    self.router.resolve_neighbour(key);
                    let protocol = if gateway.is_ipv4() { "ARP requests" } else { "neighbour solicitations" };
                    let why = format!(
                        "{gateway} does not answer {protocol}: is the device up, is that its address, and is it on \
                         this port? \
                         ('dst=MAC' goes without)"
                    );
                    return Some((number, why));
                }
            }
        }
        None
    }

    pub fn is_link_up(&self, number: usize) -> bool {
        let interface = self.router.interfaces.get(self.ports[number].interface);
        interface.is_ok_and(|interface| self.router.interfaces.link_up(interface))
    }

    /// The first port whose link is down.
    pub fn down(&mut self) -> Option<usize> {
        self.router.check_links();
        (0..self.ports.len()).find(|number| !self.is_link_up(*number))
    }

    fn ends(&self, number: usize) -> Ends {
        let peer = &self.ports[self.peer(number)];
        // Without a gateway, the wire leads to the other port.
        let destination = self.ports[number].destination.unwrap_or(peer.source);
        Ends { source: self.ports[number].source, destination, vlan: self.ports[number].vlan }
    }

    /// The underlying router.
    pub fn router(&mut self) -> &mut Router {
        &mut self.router
    }
}

fn port_name(number: usize) -> String {
    format!("port{number}")
}

impl Drop for Tester {
    fn drop(&mut self) {
        self.router.graph.stop();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}
