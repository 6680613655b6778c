//! What is wrong with a router under test because it was asked for: a card that brings too little, a line that takes
//! too little, work that takes too long. Each holds the router back in its own way, so what is said of it can be
//! checked.

use crate::rate::packets_a_second;
use drivers::{Device, FULL, Receive, ReceiveCounts, Transmit};
use graph::{Buffers, EdgeSpec, VECTOR_SIZE, Vector, time};
use rustix::fd::BorrowedFd;
use std::fmt;
use std::str::FromStr;

/// Most clocks that a packet may be made to cost: a longer call is taken for a preempted worker.
const MOST_WORK: u64 = 40_000;
/// Packets that may come, or leave, at once after a rest.
const AT_ONCE: f64 = (2 * VECTOR_SIZE) as f64;

/// What is planted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FaultInjection {
    /// Each card brings so many packets a second at most; others are lost before a worker sees them.
    pub card: Option<f64>,
    /// Each line takes so many packets a second at most; for others the device has no room.
    pub line: Option<f64>,
    /// Each packet costs a worker so many clocks more.
    pub work: u64,
}

impl FromStr for FaultInjection {
    type Err = String;

    /// `card=1mpps,line=2mpps,work=1000`; nothing: it is as it is.
    fn from_str(text: &str) -> Result<FaultInjection, String> {
        let mut plant = FaultInjection::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let rate = || packets_a_second(value).ok_or_else(|| format!("'{part}': packets a second, as 1mpps"));
            match key {
                "card" => plant.card = Some(rate()?),
                "line" => plant.line = Some(rate()?),
                "work" => {
                    let clocks = value.parse().ok().filter(|clocks| (1..=MOST_WORK).contains(clocks));
                    plant.work = clocks.ok_or_else(|| format!("'{part}': clocks, 1 to {MOST_WORK}"))?;
                }
                _ => return Err(format!("'{part}': in the router under test card, line and work can be planted")),
            }
        }
        Ok(plant)
    }
}

impl fmt::Display for FaultInjection {
    /// As it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.card.map(|rate| format!("card={rate}pps")));
        parts.extend(self.line.map(|rate| format!("line={rate}pps")));
        parts.extend((self.work > 0).then(|| format!("work={}", self.work)));
        f.write_str(&parts.join(","))
    }
}

impl FaultInjection {
    /// A device with it.
    pub fn into(self, mut device: Device) -> Device {
        if self.card.is_some() || self.work > 0 {
            let queues = device.receive.len() as f64;
            let card = |inner| {
                let bucket = self.card.map(|rate| Bucket::new(rate / queues));
                Box::new(Card { inner, bucket, work: self.work }) as _
            };
            device.receive = device.receive.into_iter().map(card).collect();
        }
        if let Some(rate) = self.line {
            device.transmit = Box::new(Line { inner: device.transmit, rate, bucket: Bucket::new(rate) });
        }
        device
    }
}

/// Lets so many packets a second through.
struct Bucket {
    /// Ticks of a packet.
    each: f64,
    /// The time for which packets have been let through.
    spent: f64,
}

impl Bucket {
    fn new(rate: f64) -> Bucket {
        Bucket { each: time::ticks_per_second() / rate, spent: 0.0 }
    }

    /// How many there is room for at a time.
    fn room(&mut self, now: u64) -> usize {
        self.spent = self.spent.max(now as f64 - AT_ONCE * self.each);
        // Of a whole number nothing is to be rounded off.
        ((now as f64 - self.spent) / self.each + 1e-6).max(0.0) as usize
    }

    fn take(&mut self, packets: usize) {
        self.spent += packets as f64 * self.each;
    }
}

/// A receive queue of a card that is too slow, or whose packets are too much work.
struct Card {
    inner: Box<dyn Receive>,
    bucket: Option<Bucket>,
    work: u64,
}

impl Receive for Card {
    fn receive(&mut self, buffers: &mut Buffers, out: &mut Vector, counts: &mut ReceiveCounts) {
        let had = out.len();
        self.inner.receive(buffers, out, counts);
        let now = time::ticks();
        let mut brought = out.len() - had;
        if let Some(bucket) = &mut self.bucket {
            let room = bucket.room(now);
            if brought > room {
                for packet in &out.packets()[had + room..] {
                    buffers.free_chain(*packet);
                }
                counts.missed += (brought - room) as u64;
                out.truncate(had + room);
                brought = room;
            }
            bucket.take(brought);
        }
        let until = now + self.work * brought as u64;
        while time::ticks() < until {
            std::hint::spin_loop();
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }

    fn begin_wait(&mut self) -> bool {
        self.inner.begin_wait()
    }

    fn end_wait(&mut self) {
        self.inner.end_wait();
    }

    fn is_gone(&self) -> bool {
        self.inner.is_gone()
    }
}

/// A transmit side whose line is too slow: it takes a vector, or has no room for it.
struct Line {
    inner: Box<dyn Transmit>,
    rate: f64,
    bucket: Bucket,
}

impl Transmit for Line {
    fn transmit(&mut self, buffers: &mut Buffers, vector: &mut Vector) {
        if self.bucket.room(time::ticks()) < vector.len() {
            return vector.set_edges(FULL);
        }
        self.bucket.take(vector.len());
        self.inner.transmit(buffers, vector);
    }

    fn edges(&self) -> &'static [EdgeSpec] {
        self.inner.edges()
    }

    fn queues(&self) -> usize {
        self.inner.queues()
    }

    fn is_for_all(&self, workers: usize) -> bool {
        self.inner.is_for_all(workers)
    }

    fn another(&self, worker: usize, workers: usize) -> Option<Box<dyn Transmit>> {
        let (inner, rate) = (self.inner.another(worker, workers)?, self.rate / workers.max(1) as f64);
        Some(Box::new(Line { inner, rate, bucket: Bucket::new(rate) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planted_is_read() {
        let read: FaultInjection = "card=1mpps,line=2Mpps,work=1000".parse().unwrap();
        assert_eq!(read, FaultInjection { card: Some(1e6), line: Some(2e6), work: 1000 });
        assert_eq!(read.to_string().parse(), Ok(read));
        assert_eq!("".parse(), Ok(FaultInjection::default()));
        for (text, wrong) in [
            ("card=0pps", "packets a second"),
            ("line=10g", "packets a second"),
            ("work=0", "clocks, 1 to"),
            ("noise=1", "card, line and work"),
        ] {
            assert!(text.parse::<FaultInjection>().unwrap_err().contains(wrong), "{text}");
        }
    }

    #[test]
    fn a_bucket_lets_its_rate_through_and_no_more_than_two_vectors_at_once() {
        let mut bucket = Bucket::new(1e6);
        let each = time::ticks_per_second() / 1e6;
        let mut passed = 0;
        // After a rest, then every 100 us as many as there is room for.
        for step in 1..=1000u64 {
            let room = bucket.room(1_000_000_000_000 + (step as f64 * 100.0 * each) as u64);
            assert_eq!(step == 1, room == 512, "{step}: {room}");
            bucket.take(room);
            passed += room;
        }
        assert!((512 + 99_890..=512 + 99_900).contains(&passed), "{passed}");
    }
}
