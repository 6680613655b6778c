//! `show interface rx-placement`: which worker polls which receive queue.

use command::{Args, Command, CommandSet, reply};
use graph::worker::thread_name;
use router::Router;
use router::interface::Interface;
use router::interface::queues::ReceiveQueue;
use serde::Serialize;
use std::fmt;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(Command::new(
        "show interface rx-placement [<interface:interface>]",
        "Show which worker polls each receive queue.",
        |router: &mut Router, args: &Args| {
            let only = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
            let chosen = router.interfaces.iter().filter(|interface| only.is_none_or(|only| only == interface.index));
            let of_interface = |interface: &Interface| {
                let placed = |(queue, number): (&ReceiveQueue, u16)| Placed {
                    thread: queue.thread + 1,
                    thread_name: thread_name(queue.thread),
                    node: interface.input_node,
                    interface: interface.name.clone(),
                    queue: number,
                    mode: queue.mode.name(),
                };
                interface.receive_queues.iter().zip(0..).map(placed).collect::<Vec<_>>()
            };
            let mut queues: Vec<Placed> = chosen.flat_map(of_interface).collect();
            queues.sort_by(|a, b| {
                (a.thread, a.node, &a.interface, a.queue).cmp(&(b.thread, b.node, &b.interface, b.queue))
            });
            reply(ShowPlacement { queues })
        },
    ));
}

#[derive(Serialize)]
struct Placed {
    thread: usize,
    thread_name: String,
    node: &'static str,
    interface: String,
    queue: u16,
    mode: &'static str,
}

#[derive(Serialize)]
struct ShowPlacement {
    /// Sorted by thread, then node.
    queues: Vec<Placed>,
}

impl fmt::Display for ShowPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut thread, mut node) = (None, None);
        for placed in &self.queues {
            if thread.replace(placed.thread) != Some(placed.thread) {
                writeln!(f, "Thread {} ({}):", placed.thread, placed.thread_name)?;
                node = None;
            }
            if node.replace(placed.node) != Some(placed.node) {
                writeln!(f, "  node {}:", placed.node)?;
            }
            writeln!(f, "    {} queue {} ({})", placed.interface, placed.queue, placed.mode)?;
        }
        Ok(())
    }
}
