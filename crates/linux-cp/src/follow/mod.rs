//! Linux is followed: a thread reads what it says in each network namespace that has pairs, and control takes that
//! over.
//!
//! ```text
//!  Linux ──messages──▶ reader thread ──events──▶ control (`from_linux`) ──▶ the router's operations
//!          dumps ▶      mirror of routes             │
//!                            ▲───────orders──────────┘  interfaces to follow; the last batch is done
//! ```
//!
//! The reader never waits for control, so Linux seldom has to drop a message. One batch of routes is on its way at a
//! time: while control is busy with it, the next one grows.

mod counts;
mod reader;
mod space;

pub(crate) use counts::counts;
pub use counts::{Count, Counts};
pub use space::Space;

use crate::kernel::{Followed, Key};
use crate::netlink::link::VlanLink;
use crate::netlink::neighbour::Standing;
use crate::ordered::Ordered;
use graph::InterfaceIndex;
use router::events::EventSender;
use router::ip::bulk::Batch;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A network namespace by its name; none: that of this process.
pub type Namespace = Option<String>;

/// How to follow, from `startup.conf`.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Bytes of messages that Linux keeps until they are read.
    pub room: usize,
    /// The most routes of one batch.
    pub batch: usize,
    /// The time between two batches.
    pub pause: Duration,
}

/// Settings without a section: room for some 200,000 messages about routes, and a pause in which a batch grows.
impl Default for Settings {
    fn default() -> Settings {
        Settings { room: 128 << 20, batch: 1 << 18, pause: Duration::from_millis(2) }
    }
}

/// What the reader is to do.
pub enum Order {
    /// Follow a link, which is the side in Linux of an interface. A new one was made just now.
    Follow { namespace: Namespace, link: u32, interface: InterfaceIndex, is_new: bool, counts: Arc<Counts> },
    /// Follow it no longer.
    Leave { namespace: Namespace, link: u32 },
    /// Follow the routes of this namespace, and of no other; or of none.
    Routes(Option<Namespace>),
    /// Look at everything again.
    Look,
    /// Packets of routes that have no way for the router go to Linux, or not.
    NoPaths(bool),
    /// These tables are followed.
    Tables(Followed),
    /// The router differs from Linux in these prefixes: it hears of them again.
    Again { namespace: Namespace, prefixes: Vec<Key> },
    /// The batch is done, and so many of its routes were refused; none: all of it.
    Done(Option<usize>),
}

/// What control hears.
pub enum Event {
    /// Something became of these links; some were down meanwhile, and some lost addresses.
    Links { namespace: Namespace, links: BTreeSet<u32>, was_down: BTreeSet<u32>, lost: BTreeSet<(u32, IpAddr)> },
    /// Somebody made these VLANs of links that are followed: each with its number.
    Vlans { namespace: Namespace, vlans: Vec<(u32, VlanLink)> },
    /// All VRFs: the table of each, by the number of its device.
    Vrfs { namespace: Namespace, vrfs: BTreeMap<u32, u32> },
    /// Linux has, or no longer has, these neighbours.
    Neighbours(Vec<((InterfaceIndex, IpAddr), Standing)>),
    /// All neighbours that Linux has for ever on these interfaces.
    Permanent { interfaces: BTreeSet<InterfaceIndex>, neighbours: BTreeSet<(InterfaceIndex, IpAddr)> },
    /// Messages were lost, and all is as it should be again. An audit finds out whether it is.
    Audit,
    /// Changes of routes in tables of Linux. Control gives an order when they are done.
    Routes(Vec<(u32, Batch)>),
}

/// The reader, as control has it.
pub type Reader = Ordered<Order>;

/// # Errors
/// When the system has no thread for it.
pub fn start(settings: Settings, events: EventSender<Event>) -> io::Result<Reader> {
    Ordered::start("netlink", move |orders, bell| reader::run(settings, &events, orders, bell))
}
