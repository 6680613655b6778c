//! Copies of packets for control: as they were received, sent, or dropped.
//!
//! Control makes a [`Session`] with room for all that it asks for and hands it to a worker.
//! The worker copies packets into it, without allocation or system call, and sends it back
//! when it is full or when control says so. While there is none, each hook of the dispatcher
//! is one test a vector.

use crate::buffer::Buffers;
use crate::head::{Head, Predicate};
use crate::index::InterfaceIndex;
use crate::time::ticks;
use crate::vector::{Row, Vector, flag};
use crossbeam_channel::Sender;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where packets are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Point {
    Received = 1,
    Sent = 2,
    Dropped = 4,
}

impl Point {
    pub const ALL: [Point; 3] = [Point::Received, Point::Sent, Point::Dropped];
}

/// Which packets are wanted, and how much of them.
pub struct Request {
    /// [`Point`]s, or-ed.
    pub points: u8,
    /// Of one interface: the receiving one for received and dropped packets.
    pub interface: Option<InterfaceIndex>,
    pub filter: Option<Predicate>,
    /// Most packets.
    pub most: usize,
    pub bytes_per_packet: usize,
}

/// A copied packet.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    pub ticks: u64,
    pub point: Point,
    pub interface: InterfaceIndex,
    /// The number of the error under which it was dropped.
    pub reason: u32,
    /// Whether it begins with a link header.
    pub framed: bool,
    /// Bytes of the whole packet.
    pub length: u32,
    start: usize,
    copied: usize,
}

/// How many packets a session has, by [`Point`]: what control may read while it runs.
#[derive(Debug, Default)]
pub struct Counts([AtomicU32; 3]);

impl Counts {
    pub fn of(&self, point: Point) -> u32 {
        self.0[(point as u8).trailing_zeros() as usize].load(Ordering::Relaxed)
    }

    /// Only the session's worker writes.
    fn count(&self, point: Point) {
        let count = &self.0[(point as u8).trailing_zeros() as usize];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Tells control that a session is on its way back.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// One worker's part of a capture.
pub struct Session {
    request: Request,
    bytes: Vec<u8>,
    records: Vec<Record>,
    counts: Arc<Counts>,
    done: Sender<Box<Session>>,
    wake: Wake,
}

impl Session {
    /// Makes room for everything. When the worker is done it sends the session to `done`,
    /// which must have a place for it, and calls `wake`.
    pub fn new(request: Request, done: Sender<Box<Session>>, wake: Wake) -> Session {
        let room = request.most * request.bytes_per_packet;
        // Written once, and not with zeros, which the system could promise without giving: the
        // worker must not meet a page that is not there yet.
        let mut bytes = vec![u8::MAX; room];
        bytes.clear();
        let records = Vec::with_capacity(request.most);
        Session { request, bytes, records, counts: Arc::default(), done, wake }
    }

    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// What was copied, in order of time.
    pub fn packets(&self) -> impl Iterator<Item = (&Record, &[u8])> {
        self.records.iter().map(|record| (record, &self.bytes[record.start..record.start + record.copied]))
    }

    fn is_full(&self) -> bool {
        self.records.len() >= self.request.most
    }

    fn copy(&mut self, buffers: &Buffers, row: &Row, point: Point, interface: InterfaceIndex, reason: u32) {
        let head = Head::of(buffers, row);
        if self.request.filter.as_ref().is_some_and(|wanted| !wanted(&head)) {
            return;
        }
        let start = self.bytes.len();
        let mut room = self.request.bytes_per_packet.min(head.length);
        let mut append = |bytes: &[u8]| {
            let part = &bytes[..bytes.len().min(room)];
            self.bytes.extend_from_slice(part);
            room -= part.len();
            room > 0
        };
        let mut more = append(head.bytes) && row.flags & flag::CHAINED != 0;
        let mut at = buffers.segment(row.packet).next();
        while let Some(index) = at.filter(|_| more) {
            let segment = buffers.segment(index);
            let bytes = &buffers.bytes(index)[..];
            let from = (segment.offset as usize).min(bytes.len());
            more = append(&bytes[from..(from + segment.length as usize).min(bytes.len())]);
            at = segment.next();
        }
        self.records.push(Record {
            ticks: ticks(),
            point,
            interface,
            reason,
            framed: head.framed,
            length: head.length as u32,
            start,
            copied: self.bytes.len() - start,
        });
        self.counts.count(point);
    }
}

/// A worker's place for a session.
#[derive(Default)]
pub struct Capture {
    points: u8,
    session: Option<Box<Session>>,
}

impl Capture {
    pub fn start(&mut self, session: Box<Session>) {
        self.points = session.request.points;
        self.session = Some(session);
    }

    /// Gives the session back, if there is one.
    pub fn finish(&mut self) {
        self.points = 0;
        if let Some(session) = self.session.take() {
            // Control holds the other end for as long as it waits, and made a place for each.
            let (done, wake) = (session.done.clone(), session.wake.clone());
            let _ = done.try_send(session);
            wake();
        }
    }

    #[inline]
    pub(crate) fn wants(&self, point: Point) -> bool {
        self.points & point as u8 != 0
    }

    /// Copies what is wanted of a vector. `interface` is where packets go, or for those that
    /// came from somewhere none.
    #[cold]
    pub(crate) fn take(
        &mut self,
        buffers: &Buffers,
        vector: &Vector,
        point: Point,
        interface: Option<InterfaceIndex>,
        reason: u32,
    ) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            self.copy(buffers, &row, point, interface.unwrap_or(row.rx_interface), reason);
        }
    }

    /// The same of one packet of the interface by which it came.
    #[cold]
    pub(crate) fn take_one(&mut self, buffers: &Buffers, row: &Row, point: Point, reason: u32) {
        self.copy(buffers, row, point, row.rx_interface, reason);
    }

    fn copy(&mut self, buffers: &Buffers, row: &Row, point: Point, interface: InterfaceIndex, reason: u32) {
        let Some(session) = &mut self.session else { return };
        if session.request.interface.is_some_and(|only| only != interface) {
            return;
        }
        session.copy(buffers, row, point, interface, reason);
        if session.is_full() {
            self.finish();
        }
    }
}
