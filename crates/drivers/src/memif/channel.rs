//! How two sides agree: what each says and answers, without the socket that carries it.
//!
//! The master greets; the slave answers with the interface that it wants, shares its memory and rings one by one, and
//! says that it is ready. Each is acknowledged before the next is sent.

use super::lending::{self, Loan};
use super::memory::Region;
use super::message::{AddRegion, AddRing, Hello, Init, Message, Mode, SECRET, VERSION};
use super::queue::{Connection, OwnBuffers, Role, Way};
use super::ring::{MAX_LOG2, Memory, Ring};
use super::slot::Bell;
use super::{MAX_QUEUES, Options};
use graph::Pool;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};

/// Regions that a slave may share.
const MAX_REGIONS: u16 = 256;

/// What is to be done about a message.
#[derive(Default)]
pub struct Answer {
    pub send: Option<(Message, Option<OwnedFd>)>,
    /// Packets can flow.
    pub connected: Option<Connection>,
}

impl Answer {
    fn say(message: Message) -> Answer {
        Answer { send: Some((message, None)), connected: None }
    }
}

/// What we call ourselves.
pub fn own_name() -> String {
    format!("Quiver {}", env!("CARGO_PKG_VERSION"))
}

fn way(ring: Ring, place: (u16, u32), own: Option<OwnBuffers>, interrupt: OwnedFd) -> Way {
    let (region, offset) = place;
    Way {
        loan: None,
        ring,
        region,
        offset,
        own,
        interrupt,
        busy: AtomicBool::new(false),
        kicked: AtomicBool::new(false),
        kicks: AtomicU64::new(0),
    }
}

/// The greeting of a master.
pub fn hello() -> Message {
    Message::Hello(Hello {
        name: own_name(),
        least_version: VERSION,
        greatest_version: VERSION,
        last_region: MAX_REGIONS - 1,
        last_m2s_ring: MAX_QUEUES - 1,
        last_s2m_ring: MAX_QUEUES - 1,
        log2_ring_size: MAX_LOG2,
    })
}

/// Whether a slave may have an interface.
///
/// # Errors
/// Why not.
pub fn admit(init: &Init, options: &Options) -> Result<(), String> {
    if init.version != VERSION {
        return Err(format!("version {}.{}: expected 2.0", init.version >> 8, init.version & 0xff));
    }
    if init.mode != Mode::Ethernet {
        return Err("the interface's mode is ethernet".into());
    }
    match options.secret {
        Some(_) if init.secret == [0; SECRET] => Err("the interface wants a secret".into()),
        Some(secret) if !is_same(&init.secret, &secret) => Err("wrong secret".into()),
        _ => Ok(()),
    }
}

/// Takes as long whatever they have in common.
fn is_same(one: &[u8; SECRET], other: &[u8; SECRET]) -> bool {
    one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

/// The master's side, from the moment that a slave has named an interface.
pub struct Master {
    options: Options,
    regions: Vec<Region>,
    /// By number: to the master, and from it.
    rings: [Vec<(AddRing, OwnedFd)>; 2],
}

impl Master {
    pub fn new(options: Options) -> Master {
        Master { options, regions: Vec::new(), rings: [Vec::new(), Vec::new()] }
    }

    /// # Errors
    /// Why the connection cannot be.
    pub fn take(&mut self, message: Message, descriptor: Option<OwnedFd>, bell: &Arc<Bell>) -> Result<Answer, String> {
        match message {
            Message::AddRegion(region) => self.add_region(region, descriptor).map(|()| Answer::say(Message::Ack)),
            Message::AddRing(ring) => self.add_ring(ring, descriptor).map(|()| Answer::say(Message::Ack)),
            Message::Connect(_) => {
                let connection = self.connect(bell)?;
                let said = Message::Connected(self.options.name.clone());
                Ok(Answer { send: Some((said, None)), connected: Some(connection) })
            }
            _ => Err("unexpected message".into()),
        }
    }

    fn add_region(&mut self, region: AddRegion, descriptor: Option<OwnedFd>) -> Result<(), String> {
        let Some(descriptor) = descriptor else { return Err("a region without a descriptor".into()) };
        if usize::from(region.index) != self.regions.len() || region.index >= MAX_REGIONS {
            return Err(format!("region {}: expected number {}", region.index, self.regions.len()));
        }
        let mapped = Region::map(std::os::fd::AsFd::as_fd(&descriptor), region.size);
        self.regions.push(mapped.map_err(|error| format!("region {}: {error}", region.index))?);
        Ok(())
    }

    fn add_ring(&mut self, ring: AddRing, descriptor: Option<OwnedFd>) -> Result<(), String> {
        let Some(descriptor) = descriptor else { return Err("a ring without a descriptor".into()) };
        let (rings, most, word) = match ring.to_master {
            true => (&mut self.rings[0], self.options.rx_queues, "rx-queues"),
            false => (&mut self.rings[1], self.options.tx_queues, "tx-queues"),
        };
        if usize::from(ring.index) != rings.len() {
            return Err(format!("ring {}: expected number {}", ring.index, rings.len()));
        }
        if ring.index >= most {
            return Err(format!("ring {}: the interface has {most} {word}", ring.index));
        }
        rings.push((ring, descriptor));
        Ok(())
    }

    fn connect(&mut self, bell: &Arc<Bell>) -> Result<Connection, String> {
        let memory = Arc::new(Memory(std::mem::take(&mut self.regions)));
        let found = |(ring, interrupt): (AddRing, OwnedFd)| {
            let at = Ring::at(&memory, ring.region, ring.offset, ring.log2_ring_size);
            let at = at.filter(Ring::is_begun).ok_or_else(|| format!("ring {} is not in its region", ring.index))?;
            Ok(way(at, (ring.region, ring.offset), None, interrupt))
        };
        let [receive, transmit] = std::mem::take(&mut self.rings);
        let receive = receive.into_iter().map(found).collect::<Result<Vec<Way>, String>>()?;
        let transmit = transmit.into_iter().map(found).collect::<Result<Vec<Way>, String>>()?;
        if receive.is_empty() && transmit.is_empty() {
            return Err("no rings".into());
        }
        let bell = bell.clone();
        let (broken, lent) = (AtomicBool::new(false), AtomicU32::new(0));
        Ok(Connection { role: Role::Master, memory, receive, transmit, bell, broken, lent })
    }
}

/// The slave's side, from its socket's connection on.
pub struct Slave {
    options: Options,
    lender: Option<Arc<Pool>>,
    /// What is still to be said, one for each acknowledgement.
    queue: VecDeque<(Message, Option<OwnedFd>)>,
    ready: Option<Connection>,
}

impl Slave {
    pub fn new(options: Options, lender: Option<Arc<Pool>>) -> Slave {
        Slave { options, lender, queue: VecDeque::new(), ready: None }
    }

    /// # Errors
    /// Why the connection cannot be.
    pub fn take(&mut self, message: Message, bell: &Arc<Bell>) -> Result<Answer, String> {
        match message {
            Message::Hello(hello) if self.ready.is_none() && self.queue.is_empty() => {
                self.prepare(&hello, bell)?;
                let mut secret = [0; SECRET];
                secret.copy_from_slice(&self.options.secret.unwrap_or_default());
                let (id, mode) = (self.options.id, Mode::Ethernet);
                Ok(Answer::say(Message::Init(Init { version: VERSION, id, mode, secret, name: own_name() })))
            }
            Message::Ack => match self.queue.pop_front() {
                Some(next) => Ok(Answer { send: Some(next), connected: None }),
                None => Err("unexpected acknowledgement".into()),
            },
            Message::Connected(_) if self.queue.is_empty() => match self.ready.take() {
                Some(connection) => {
                    connection.offer_all();
                    Ok(Answer { send: None, connected: Some(connection) })
                }
                None => Err("connected twice".into()),
            },
            _ => Err("unexpected message".into()),
        }
    }

    /// Makes memory and rings, as many as both sides have.
    fn prepare(&mut self, hello: &Hello, bell: &Arc<Bell>) -> Result<(), String> {
        if !(hello.least_version..=hello.greatest_version).contains(&VERSION) {
            return Err("the master does not speak version 2.0".into());
        }
        let options = &self.options;
        let to_master = options.tx_queues.min(hello.last_s2m_ring.saturating_add(1));
        let to_slave = options.rx_queues.min(hello.last_m2s_ring.saturating_add(1));
        let log2 = options.log2_ring_size.min(hello.log2_ring_size).min(MAX_LOG2);
        let (count, size) = (usize::from(to_master) + usize::from(to_slave), options.buffer_size as usize);
        // With those of the pool it needs none of its own.
        let size = if self.lender.is_some() { 0 } else { size };
        let (ring_bytes, buffers) = (Ring::bytes(log2).next_multiple_of(64), size << log2);
        let begin = (count * ring_bytes).next_multiple_of(4096);
        let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
        let (region, file) =
            Region::create(begin + count * buffers).map_err(|error| failed("memory to be shared", error))?;
        let length = region.len() as u64;
        let memory = Arc::new(Memory(vec![region]));
        self.queue.push_back((Message::AddRegion(AddRegion { index: 0, size: length }), Some(file)));
        if let Some(pool) = &self.lender {
            let file = pool.file().try_clone_to_owned().map_err(|error| failed("packet memory", error))?;
            // Of whole pages, as it can be mapped and unmapped.
            let size = rustix::fs::fstat(&file).map_err(|error| failed("packet memory", error.into()))?.st_size as u64;
            let said = AddRegion { index: lending::REGION, size };
            self.queue.push_back((Message::AddRegion(said), Some(file)));
        }
        let mut ways = [Vec::new(), Vec::new()];
        let numbers = (0..to_master).map(|index| (true, index)).chain((0..to_slave).map(|index| (false, index)));
        for (at, (is_to_master, index)) in numbers.enumerate() {
            let offset = (at * ring_bytes) as u32;
            let own = OwnBuffers { region: 0, offset: (begin + at * buffers) as u32, size: size as u32 };
            let interrupt = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
            let interrupt = interrupt.map_err(|error| failed("a descriptor", error.into()))?;
            let theirs = interrupt.try_clone().map_err(|error| failed("a descriptor", error))?;
            let ring = Ring::at(&memory, 0, offset, log2).expect("the region is as long as all rings");
            let own = Some(own).filter(|_| self.lender.is_none());
            let loan = self.lender.as_ref().map(|pool| Mutex::new(Some(Loan::new(pool, log2))));
            ways[usize::from(!is_to_master)].push(Way { loan, ..way(ring, (0, offset), own, interrupt) });
            let said =
                AddRing { to_master: is_to_master, index, region: 0, offset, log2_ring_size: log2, private_header: 0 };
            self.queue.push_back((Message::AddRing(said), Some(theirs)));
        }
        self.queue.push_back((Message::Connect(options.name.clone()), None));
        let [transmit, receive] = ways;
        let (bell, broken, lent) = (bell.clone(), AtomicBool::new(false), AtomicU32::new(0));
        let connection = Connection { role: Role::Slave, memory, receive, transmit, bell, broken, lent };
        connection.begin();
        self.ready = Some(connection);
        Ok(())
    }
}
