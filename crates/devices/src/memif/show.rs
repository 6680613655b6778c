//! `show memif`, in VPP's words.

use super::Memif;
use super::control::status;
use command::{Args, CommandError, Reply, reply};
use drivers::memif::{MemifStatus, RingStatus, Role};
use router::Router;
use serde::Serialize;
use std::fmt;

#[derive(Serialize)]
struct ShownSocket {
    id: u32,
    /// How many interfaces wait for others to connect.
    listeners: usize,
    is_listening: bool,
    filename: String,
}

#[derive(Serialize)]
struct ShownDescriptor {
    flags: u16,
    region: u16,
    length: u32,
    offset: u32,
}

#[derive(Serialize)]
struct ShownRing {
    to_master: bool,
    number: usize,
    region: u16,
    offset: u32,
    ring_size: u16,
    interrupt_descriptor: i32,
    head: u16,
    tail: u16,
    flags: u16,
    interrupts: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    descriptors: Vec<ShownDescriptor>,
}

#[derive(Serialize)]
struct ShownMemif {
    interface: String,
    remote_name: String,
    remote_interface: String,
    socket_id: u32,
    id: u32,
    role: &'static str,
    admin_up: bool,
    connected: bool,
    listener_descriptor: i32,
    connection_descriptor: i32,
    buffer_size: u32,
    /// Bytes of each.
    regions: Vec<u64>,
    local_reason: String,
    remote_reason: String,
    rings: Vec<ShownRing>,
}

#[derive(Serialize)]
struct ShowMemif {
    sockets: Vec<ShownSocket>,
    interfaces: Vec<ShownMemif>,
}

pub(super) fn show(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let with_descriptors = args.flag("descriptors");
    let chosen = match args.optional_text("interface") {
        Some(name) => Some(router.interfaces.find(name)?),
        None => None,
    };
    let mut interfaces = Vec::new();
    for interface in router.interfaces.iter().filter(|it| chosen.is_none_or(|index| it.index == index)) {
        match status(router, interface, with_descriptors) {
            Some(status) => interfaces.push(shown(&interface.name, interface.admin_up, status)),
            None if chosen.is_some() => return command::fail(format!("{} is no memif", interface.name)),
            None => {}
        }
    }
    let memif = router.state::<Memif>();
    let sockets = memif.sockets().map(|(id, filename)| {
        let is_master = |memif: &&ShownMemif| memif.socket_id == id && memif.role == "master";
        ShownSocket {
            id,
            listeners: interfaces.iter().filter(is_master).count(),
            is_listening: memif.is_listening(filename),
            filename: filename.into(),
        }
    });
    let sockets = sockets.collect();
    reply(ShowMemif { sockets, interfaces })
}

fn shown(name: &str, admin_up: bool, status: MemifStatus) -> ShownMemif {
    let is_master = status.options.role == Role::Master;
    let rings = |rings: Vec<RingStatus>, to_master: bool| {
        rings.into_iter().enumerate().map(move |(number, ring)| ShownRing {
            to_master,
            number,
            region: ring.region,
            offset: ring.offset,
            ring_size: ring.size,
            interrupt_descriptor: ring.interrupt_descriptor,
            head: ring.head,
            tail: ring.tail,
            flags: ring.flags,
            interrupts: ring.interrupts,
            descriptors: ring.descriptors.iter().map(descriptor).collect(),
        })
    };
    ShownMemif {
        interface: name.into(),
        remote_name: status.remote_name,
        remote_interface: status.remote_interface,
        socket_id: status.options.socket_id,
        id: status.options.id,
        role: if is_master { "master" } else { "slave" },
        admin_up,
        connected: status.connected,
        listener_descriptor: status.listener_descriptor,
        connection_descriptor: status.connection_descriptor,
        buffer_size: if is_master { 0 } else { status.options.buffer_size },
        regions: status.regions.iter().map(|region| region.size).collect(),
        local_reason: status.local_reason,
        remote_reason: status.remote_reason,
        rings: rings(status.transmit, !is_master).chain(rings(status.receive, is_master)).collect(),
    }
}

fn descriptor(of: &drivers::memif::Descriptor) -> ShownDescriptor {
    ShownDescriptor { flags: of.flags, region: of.region, length: of.length, offset: of.offset }
}

impl fmt::Display for ShowMemif {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "sockets")?;
        writeln!(f, "  {:<3} {:<11} filename", "id", "listener")?;
        for socket in &self.sockets {
            let listener = if socket.is_listening { format!("yes ({})", socket.listeners) } else { "no".into() };
            writeln!(f, "  {:<3} {listener:<11} {}", socket.id, socket.filename)?;
        }
        writeln!(f)?;
        self.interfaces.iter().try_for_each(|interface| writeln!(f, "{interface}"))
    }
}

impl fmt::Display for ShownMemif {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "interface {}", self.interface)?;
        for (word, text) in [("remote-name", &self.remote_name), ("remote-interface", &self.remote_interface)] {
            if !text.is_empty() {
                writeln!(f, "  {word} \"{text}\"")?;
            }
        }
        writeln!(f, "  socket-id {} id {} mode ethernet", self.socket_id, self.id)?;
        write!(f, "  flags")?;
        let flags = [(self.admin_up, "admin-up"), (self.role == "slave", "slave"), (self.connected, "connected")];
        flags.into_iter().filter(|(is, _)| *is).try_for_each(|(_, word)| write!(f, " {word}"))?;
        writeln!(f)?;
        writeln!(f, "  listener-fd {} conn-fd {}", self.listener_descriptor, self.connection_descriptor)?;
        let count = |to_master: bool| self.rings.iter().filter(|ring| ring.to_master == to_master).count();
        writeln!(
            f,
            "  num-s2m-rings {} num-m2s-rings {} buffer-size {} num-regions {}",
            count(true),
            count(false),
            self.buffer_size,
            self.regions.len()
        )?;
        for (word, text) in [("local-disc-reason", &self.local_reason), ("remote-disc-reason", &self.remote_reason)] {
            if !text.is_empty() {
                writeln!(f, "  {word} \"{text}\"")?;
            }
        }
        for (number, size) in self.regions.iter().enumerate() {
            writeln!(f, "  region {number} size {size}")?;
        }
        self.rings.iter().try_for_each(|ring| write!(f, "{ring}"))
    }
}

impl fmt::Display for ShownRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.to_master { "slave-to-master" } else { "master-to-slave" };
        writeln!(f, "    {way} ring {}:", self.number)?;
        let (region, offset, size) = (self.region, self.offset, self.ring_size);
        writeln!(f, "      region {region} offset {offset} ring-size {size} int-fd {}", self.interrupt_descriptor)?;
        let (head, tail, flags) = (self.head, self.tail, self.flags);
        writeln!(f, "      head {head} tail {tail} flags 0x{flags:04x} interrupts {}", self.interrupts)?;
        if self.descriptors.is_empty() {
            return Ok(());
        }
        writeln!(f, "      descriptor table:")?;
        writeln!(f, "      id    flags region   len     offset")?;
        writeln!(f, "      ===== ===== ====== ======= ==========")?;
        for (slot, descriptor) in self.descriptors.iter().enumerate() {
            let ShownDescriptor { flags, region, length, offset } = descriptor;
            writeln!(f, "      {slot:<5} {flags:<5} {region:<6} {length:<7} {offset:<10}")?;
        }
        Ok(())
    }
}
