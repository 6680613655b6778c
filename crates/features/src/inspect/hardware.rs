//! `show hardware-interfaces`: the devices behind interfaces.

use command::{Args, Command, CommandError, CommandSet, Reply, reply};
use graph::worker::thread_name;
use router::Router;
use router::interface::Interface;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "show hardware-interfaces {{ [<interface:interface>] | [{brief|verbose|detail : amount}] }}",
            "Show the devices of interfaces; `verbose`: with their counters; `detail`: with counters that are zero, \
             too.",
            show,
        )
        .also("show hardware-interfaces [{brief|verbose|detail : amount}] (<interface:interface> : more)+"),
    );
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Amount {
    Brief,
    Plain,
    Verbose,
    Detail,
}

fn show(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    router.check_links();
    let amount = match args.optional_text("amount") {
        Some("brief") => Amount::Brief,
        Some("verbose") => Amount::Verbose,
        Some("detail") => Amount::Detail,
        _ => Amount::Plain,
    };
    // A sub-interface has no device of its own: asked for by name it is shown by its parent's.
    let device = |interface: &Interface| interface.sub.as_ref().map_or(interface.index, |sub| sub.parent);
    let mut named = Vec::new();
    for name in std::iter::once(args).chain(args.groups("more")).filter_map(|one| one.optional_text("interface")) {
        named.push(device(router.interfaces.get(router.interfaces.find(name)?)?));
    }
    let chosen = router.interfaces.iter().filter(|interface| interface.sub.is_none());
    let chosen = chosen.filter(|interface| named.is_empty() || named.contains(&interface.index));
    let errors = errors_by_node(router);
    let mut interfaces: Vec<ShownHardware> =
        chosen.map(|interface| ShownHardware::of(router, &errors, interface)).collect();
    interfaces.sort_by(|a, b| a.name.cmp(&b.name));
    reply(ShowHardware { amount, interfaces })
}

/// The numbers of each node's errors.
fn errors_by_node(router: &Router) -> HashMap<&str, Vec<usize>> {
    let mut by_node: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, error) in router.graph.errors().iter().enumerate() {
        by_node.entry(&error.node).or_default().push(number);
    }
    by_node
}

#[derive(Serialize)]
struct ReceiveQueue {
    queue: u32,
    thread: usize,
    thread_name: String,
    mode: &'static str,
}

#[derive(Serialize)]
struct TransmitQueue {
    queue: usize,
    /// More than one thread sends by it.
    shared: bool,
    threads: Vec<usize>,
}

#[derive(Serialize)]
struct Counted {
    node: String,
    reason: String,
    count: u64,
}

#[derive(Serialize)]
struct ShownHardware {
    name: String,
    index: u32,
    link: &'static str,
    /// None: the device does not tell.
    megabits_per_second: Option<u32>,
    full_duplex: Option<bool>,
    driver: &'static str,
    description: String,
    host_interface: Option<String>,
    mac: String,
    secondary_macs: Vec<String>,
    promiscuous: bool,
    mtu: u16,
    receive_queues: Vec<ReceiveQueue>,
    transmit_queues: Vec<TransmitQueue>,
    /// What the device finishes by itself; we finish the rest.
    finishes: Vec<&'static str>,
    /// What the driver has to say.
    details: Vec<String>,
    /// What its own nodes dropped or did, zeros included.
    counters: Vec<Counted>,
}

impl ShownHardware {
    fn of(router: &Router, errors: &HashMap<&str, Vec<usize>>, interface: &Interface) -> ShownHardware {
        let speed = interface.link.speed();
        let own = [interface.output_node, interface.tx_node];
        let own = own.iter().filter_map(|node| errors.get(&*router.graph.info(*node)?.name)).flatten();
        let counters = own.map(|&number| {
            let graph::registry::ErrorInfo { node, reason, .. } = &router.graph.errors()[number];
            let count = router.graph.counters().errors.sum(number, 0);
            Counted { node: node.clone(), reason: reason.clone(), count }
        });
        let queues = interface.receive_queues.iter().zip(0..).map(|(queue, number)| ReceiveQueue {
            queue: number,
            thread: queue.thread + 1,
            thread_name: thread_name(queue.thread),
            mode: queue.mode.name(),
        });
        let transmit_queues = (0..interface.transmit_queues.count).map(|queue| {
            let users = interface.transmit_queues.users(queue, router.graph.workers());
            TransmitQueue { queue, shared: users.len() > 1, threads: users.iter().map(|user| user + 1).collect() }
        });
        let finishes = [("checksum", interface.finishes.checksum), ("segmentation", interface.finishes.segmentation)];
        ShownHardware {
            name: interface.name.clone(),
            index: interface.index.0,
            link: if router.interfaces.link_up(interface) { "up" } else { "down" },
            megabits_per_second: speed.map(|speed| speed.megabits),
            full_duplex: speed.and_then(|speed| speed.full_duplex),
            driver: interface.driver,
            description: interface.description.clone(),
            host_interface: interface.host.clone(),
            mac: interface.mac.to_string(),
            secondary_macs: interface.secondary_macs.iter().map(ToString::to_string).collect(),
            promiscuous: interface.promiscuous,
            mtu: interface.link_mtu(),
            receive_queues: queues.collect(),
            transmit_queues: transmit_queues.collect(),
            finishes: finishes.into_iter().filter(|(_, can)| *can).map(|(name, _)| name).collect(),
            details: interface.link.details(),
            counters: counters.collect(),
        }
    }

    fn link_speed(&self) -> String {
        match self.megabits_per_second {
            None => "unknown".into(),
            Some(megabits) if megabits >= 1000 && megabits.is_multiple_of(1000) => format!("{} Gbps", megabits / 1000),
            Some(megabits) => format!("{megabits} Mbps"),
        }
    }

    fn write_device(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  Link speed: {}", self.link_speed())?;
        if let Some(full) = self.full_duplex {
            writeln!(f, "  Duplex: {}", if full { "full" } else { "half" })?;
        }
        if !self.receive_queues.is_empty() {
            writeln!(f, "  RX Queues:\n    queue thread           mode      ")?;
        }
        for queue in &self.receive_queues {
            let thread = format!("{} ({})", queue.thread_name, queue.thread);
            writeln!(f, "    {:<6}{thread:<17}{:<10}", queue.queue, queue.mode)?;
        }
        writeln!(f, "  TX Queues:\n    queue shared thread(s)      ")?;
        for queue in &self.transmit_queues {
            let shared = if queue.shared { "yes" } else { "no" };
            let threads: Vec<String> = queue.threads.iter().map(ToString::to_string).collect();
            writeln!(f, "    {:<6}{shared:<7}{}", queue.queue, threads.join(","))?;
        }
        writeln!(f, "  Ethernet address {}", self.mac)?;
        if !self.secondary_macs.is_empty() {
            writeln!(f, "  Secondary MAC addresses: {}", self.secondary_macs.join(" "))?;
        }
        if self.promiscuous {
            writeln!(f, "  Promiscuous: every frame that the device sees is received")?;
        }
        writeln!(f, "  {}: {}", self.driver, self.description)?;
        self.details.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        let finishes = if self.finishes.is_empty() { "none".into() } else { self.finishes.join(" ") };
        writeln!(f, "  MTU {}, tx offloads: {finishes}", self.mtu)
    }
}

#[derive(Serialize)]
struct ShowHardware {
    #[serde(skip)]
    amount: Amount,
    interfaces: Vec<ShownHardware>,
}

impl fmt::Display for ShowHardware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "              Name                Idx   Link  Hardware")?;
        for interface in &self.interfaces {
            let ShownHardware { name, index, link, host_interface, .. } = interface;
            let hardware = host_interface.as_ref().unwrap_or(name);
            writeln!(f, "{name:<33}{index:^5}{link:^8}{hardware}")?;
            if self.amount == Amount::Brief {
                continue;
            }
            interface.write_device(f)?;
            let counted = match self.amount {
                Amount::Detail => |_: &&Counted| true,
                Amount::Verbose => |counted: &&Counted| counted.count > 0,
                _ => |_: &&Counted| false,
            };
            for Counted { node, reason, count } in interface.counters.iter().filter(counted) {
                writeln!(f, "    {:<40}{count:>16}", format!("{node}: {reason}"))?;
            }
        }
        Ok(())
    }
}
