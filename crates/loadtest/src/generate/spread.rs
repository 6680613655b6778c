//! Several queues towards a device that has none of its own accord: shared memory. A card deals packets to its
//! receive queues by their flows (RSS); to a memif the sender does. So packets of a flow stay together, and one flow
//! fills one queue.

use drivers::Transmit;
use graph::{Buffers, EdgeSpec, Vector};
use wire::flow::FlowHasher;

const FLOWS: FlowHasher = FlowHasher::new(0x5156, false);

/// A device's queues, dealt to by one worker.
pub struct Spread {
    queues: Vec<Queue>,
}

struct Queue {
    transmit: Box<dyn Transmit>,
    /// What goes there of a vector, and which of it that was.
    packets: Box<Vector>,
    places: Vec<usize>,
}

impl Spread {
    /// The queues that a device has beyond those that each worker has for itself; else the device itself.
    pub fn over(device: Box<dyn Transmit>) -> Box<dyn Transmit> {
        let count = device.queues();
        let queues: Option<Vec<Queue>> = (0..count)
            .map(|number| {
                let transmit = device.another(number, count)?;
                Some(Queue { transmit, packets: Vector::new(), places: Vec::with_capacity(graph::VECTOR_SIZE) })
            })
            .collect();
        match queues {
            Some(queues) if count > 1 => Box::new(Spread { queues }),
            _ => device,
        }
    }
}

impl Transmit for Spread {
    fn transmit(&mut self, buffers: &mut Buffers, vector: &mut Vector) {
        let count = self.queues.len() as u64;
        for i in 0..vector.len() {
            let row = vector.row(i);
            let from = usize::from(row.l2);
            let end = from + row.first_length(buffers);
            let hash = buffers.bytes(row.packet).get(from..end).map_or(0, |frame| FLOWS.of_frame(frame));
            let queue = &mut self.queues[((u64::from(hash) * count) >> 32) as usize];
            queue.packets.push(row, 0);
            queue.places.push(i);
        }
        for queue in self.queues.iter_mut().filter(|queue| !queue.places.is_empty()) {
            queue.transmit.transmit(buffers, &mut queue.packets);
            for (&place, &to) in queue.places.iter().zip(queue.packets.edges()) {
                vector.set_edge(place, to);
            }
            queue.packets.clear();
            queue.places.clear();
        }
    }

    fn edges(&self) -> &'static [EdgeSpec] {
        self.queues[0].transmit.edges()
    }

    fn queues(&self) -> usize {
        self.queues.len()
    }
}
