//! One side of a memif without the other: what a peer could write to shared memory is written by hand. For tests and
//! fuzzers.

use super::channel::{Master, Slave, hello};
use super::message::Message;
use super::queue::{Connection, MemifReceive};
use super::ring::{Descriptor, Ring};
use super::slot::{Bell, Slot};
use super::transmit::MemifTransmit;
use super::{Options, Role};
use crate::{Receive, Transmit};
use rustix::event::epoll;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A connection of one ring each way, and the queues of one side.
pub struct Peerless {
    pub(super) connection: Arc<Connection>,
    pub(super) receive: MemifReceive,
    pub(super) transmit: MemifTransmit,
}

impl Peerless {
    /// Both sides agree; then the other one is forgotten.
    ///
    /// # Panics
    /// When the system has no memory or descriptor left.
    pub fn new(role: Role, log2_ring_size: u8, buffer_size: u32) -> Peerless {
        let options = |role| Options {
            name: "peerless".into(),
            id: 0,
            socket_id: 0,
            socket: "@peerless".into(),
            role,
            secret: None,
            log2_ring_size,
            buffer_size,
            rx_queues: 1,
            tx_queues: 1,
            hw_address: None,
            zero_copy: false,
        };
        let bell = Arc::new(Bell::new().expect("a descriptor"));
        let (mut slave, mut master) = (Slave::new(options(Role::Slave), None), Master::new(options(Role::Master)));
        let (mut said, mut connection) = (Some(hello()), None);
        while let Some(message) = said.take() {
            let answer = slave.take(message, &bell).expect("both agree");
            match answer.send {
                Some((Message::Init(_), None)) => said = Some(Message::Ack),
                Some((message, descriptor)) => {
                    let answer = master.take(message, descriptor, &bell).expect("both agree");
                    (said, connection) = (answer.send.map(|(message, _)| message), connection.or(answer.connected));
                }
                None if role == Role::Slave => connection = answer.connected,
                None => {}
            }
        }
        let (connection, slot) = (Arc::new(connection.expect("both agree")), Arc::new(Slot::default()));
        slot.set(Some(connection.clone()));
        let waiter = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC).expect("a descriptor"));
        let receive = MemifReceive::new(slot.clone(), 0, waiter);
        Peerless { connection, receive, transmit: MemifTransmit::new(slot, 1, 0, 1) }
    }

    pub fn receive(&mut self) -> &mut dyn Receive {
        &mut self.receive
    }

    pub fn transmit(&mut self) -> &mut dyn Transmit {
        &mut self.transmit
    }

    /// Whether the connection would be closed by now.
    pub fn is_broken(&self) -> bool {
        self.connection.broken.load(Ordering::Relaxed)
    }

    fn rings(&self) -> [&Ring; 2] {
        [&self.connection.receive[0].ring, &self.connection.transmit[0].ring]
    }

    /// Writes the head of both rings.
    pub fn set_head(&self, head: u16) {
        self.rings().iter().for_each(|ring| ring.set_head(head));
    }

    /// Writes the tail of both rings.
    pub fn set_tail(&self, tail: u16) {
        self.rings().iter().for_each(|ring| ring.set_tail(tail));
    }

    /// Whether the receivers of both rings are to be woken.
    pub fn set_wakes(&self, wakes: bool) {
        self.rings().iter().for_each(|ring| ring.set_wakes(wakes));
    }

    /// Writes a slot of both rings.
    pub fn describe(&self, slot: u16, descriptor: Descriptor) {
        self.rings().iter().for_each(|ring| ring.put(slot, descriptor));
    }
}
