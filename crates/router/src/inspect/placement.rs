//! `show interface rx-placement`: which worker polls which receive queue.

use super::worker_name;
use crate::Router;
use command::{Args, Command, CommandSet, Done, reply};
use serde::Serialize;
use std::fmt;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(Command::new(
        "show interface rx-placement [<interface:interface>]",
        "Which worker polls which receive queue.",
        |router: &mut Router, args: &Args| {
            let only = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
            let chosen = router.interfaces.iter().filter(|interface| only.is_none_or(|only| only == interface.index));
            let mut queues: Vec<Placed> = chosen
                .filter_map(|interface| {
                    let queue = interface.receive_queue.as_ref()?;
                    Some(Placed {
                        thread: queue.thread + 1,
                        thread_name: worker_name(queue.thread),
                        node: interface.input_node,
                        interface: interface.name.clone(),
                        queue: 0,
                        mode: queue.mode(),
                    })
                })
                .collect();
            queues.sort_by(|a, b| (a.thread, a.node, &a.interface).cmp(&(b.thread, b.node, &b.interface)));
            reply(ShowPlacement { queues })
        },
    ));
    set.add(
        Command::new(
            "set interface rx-placement <interface:interface> [queue <queue:u32 0..0>] worker <worker:u32>",
            "Have a worker poll a receive queue. Workers are counted from 0.",
            |router: &mut Router, args: &Args| {
                let index = router.interfaces.find(args.text("interface")?)?;
                router.place_receive_queue(index, args.parse::<u32>("worker")? as usize)?;
                reply(Done)
            },
        )
        .example("set interface rx-placement e0 worker 0"),
    );
}

#[derive(Serialize)]
struct Placed {
    thread: usize,
    thread_name: String,
    node: &'static str,
    interface: String,
    queue: u32,
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
