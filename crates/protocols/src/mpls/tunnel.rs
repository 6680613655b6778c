//! Tunnels: interfaces behind which is a label switched path. What routes send onto one gets the labels of its paths;
//! control sees to that beforehand, so that packets cost no more than with labels of their routes.
//!
//! `NAME-tx` of a tunnel counts its packets, and sends them on by the interface of their adjacency. Reads: `target`,
//! the adjacency, whose link header and labels the packet has. Writes: `tx_interface`. Next:
//! `interface-output`.

use drivers::{Carries, Device, Link, REFUSED, Transmit, TxOffloads};
use graph::{Behaviour, Buffers, Context, CounterTable, InterfaceIndex, Map, NodeIndex, NodeSpec, Snapshot, Vector};
use router::interface::control::Way;
use router::interface::output::is_labelled;
use router::ip::control::{MAX_PATHS, Path, TableIndex, join_paths};
use router::ip::labels::control::{MplsError, check_labels};
pub use router::ip::path_list::{ListId, ListRef, Of, User};
use router::ip::route::RouteError;
use router::{Error, Router};
use std::fmt;
use std::sync::Arc;
use tables::{Leaf, ObjectHandle};
use wire::MacAddress;

/// What a tunnel's interface is called, with its number, and by what driver it is known.
const DRIVER: &str = "mpls-tunnel";
/// Whatever fits the links of its paths.
const MTU: u16 = 9216;

graph::edges! {
    pub enum Edge {
        Output => next "interface-output",
        /// The router sent a packet of its own to the tunnel, such as the announcement of an address. No station
        /// behind a tunnel could receive it, so the router discards it. Harmless.
        NotLabelled => end "nobody is behind a tunnel to be told",
    }
}

fn spec(name: &str) -> NodeSpec {
    NodeSpec { name: format!("{name}-tx"), edges: Edge::EDGES, counters: &[], trace }
}

pub struct TunnelOutput {
    index: InterfaceIndex,
    objects: ObjectHandle,
    /// Packets and bytes sent, by interface.
    tx: Arc<CounterTable>,
}

impl TunnelOutput {
    pub fn new(index: InterfaceIndex, objects: ObjectHandle, tx: Arc<CounterTable>) -> TunnelOutput {
        TunnelOutput { index, objects, tx }
    }
}

impl Map for TunnelOutput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let (mut sent, mut bytes) = (0, 0);
        for i in 0..vector.len() {
            let row = vector.row(i);
            if !is_labelled(cx, &row) {
                vector.set_edge(i, Edge::NotLabelled.into());
                continue;
            }
            let object = self.objects.get(cx.round, Leaf(row.target).index());
            vector.set_tx_interface(i, InterfaceIndex(object.interface()));
            vector.set_edge(i, Edge::Output.into());
            (sent, bytes) = (sent + 1, bytes + u64::from(row.length));
        }
        self.tx.add(cx.thread, self.index.0 as usize, 0, sent);
        self.tx.add(cx.thread, self.index.0 as usize, 1, bytes);
    }

    fn interface(&self) -> Option<InterfaceIndex> {
        Some(self.index)
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "{}", wire::pretty::Summary::ethernet(snapshot.l2()).indented(2))
}

/// In place of a device: packets go by its paths, which are up when they are.
struct NoDevice;

impl Transmit for NoDevice {
    fn transmit(&mut self, _: &mut Buffers, vector: &mut Vector) {
        vector.set_edges(REFUSED);
    }
}

impl Link for NoDevice {
    fn is_up(&self) -> bool {
        true
    }
}

fn device(number: u32) -> Device {
    let [_, _, high, low] = number.to_be_bytes();
    Device {
        driver: DRIVER,
        carries: Carries::LINK,
        input_node: "",
        description: "labels that are put before packets".into(),
        host: None,
        mac: MacAddress([2, 0xfd, 0, 0, high, low]),
        mtu: MTU,
        // Whoever sends them sees to that.
        finishes: TxOffloads { checksum: true, segmentation: true },
        receive: Vec::new(),
        transmit: Box::new(NoDevice),
        link: Box::new(NoDevice),
    }
}

fn list_ref(index: InterfaceIndex, paths: &[Path]) -> ListRef<'_> {
    ListRef { of: Of::Tunnel(index), table: TableIndex::DEFAULT, host: None, holds_itself: false, paths }
}

/// Makes a tunnel over some paths, each with its labels; it starts administratively down. Without a name it gets
/// the next one that is free.
///
/// # Errors
/// When the name is malformed or taken, or a path makes no sense for a tunnel; then nothing has changed.
pub fn add_tunnel(router: &mut Router, name: Option<&str>, paths: Vec<Path>) -> Result<InterfaceIndex, Error> {
    let number = |name: &str| name.strip_prefix(DRIVER)?.parse::<u32>().ok();
    let number = name.and_then(number).unwrap_or_else(|| router.interfaces.free_number(&[DRIVER]));
    let name = name.map_or_else(|| format!("{DRIVER}{number}"), String::from);
    check_tunnel_paths(router, &paths)?;
    router.operation(|router| {
        let register = |router: &mut Router, index| register_tunnel_output(router, &name, index);
        let index = router.add_interface(&name, device(number), Way::Node(&register))?;
        put_tunnel(router, index, paths).inspect_err(|_| {
            if let Err(error) = router.delete_interface(index) {
                log::error!("{name} is left over: {error}");
            }
        })?;
        Ok(index)
    })
}

fn register_tunnel_output(router: &mut Router, name: &str, index: InterfaceIndex) -> Result<NodeIndex, Error> {
    let (objects, tx) = (router.ip.objects.handle(), router.counters.tx.clone());
    let node = move |_| Behaviour::Map(Box::new(TunnelOutput::new(index, objects.clone(), tx.clone())));
    Ok(router.graph.register(spec(name), node)?)
}

/// Adds paths to a tunnel; with `replace` these become its only ones.
///
/// # Errors
/// When the interface is no tunnel, or a path makes no sense for one; then nothing has changed.
pub fn add_tunnel_paths(
    router: &mut Router,
    index: InterfaceIndex,
    paths: Vec<Path>,
    replace: bool,
) -> Result<(), Error> {
    let known = tunnel_paths(router, index)?;
    let known = if replace { Vec::new() } else { known.to_vec() };
    put_tunnel(router, index, join_paths(known, paths))
}

/// Takes paths off a tunnel.
///
/// # Errors
/// When the interface is no tunnel, or has no such path.
pub fn remove_tunnel_paths(router: &mut Router, index: InterfaceIndex, paths: &[Path]) -> Result<(), Error> {
    let known = tunnel_paths(router, index)?;
    if !paths.iter().all(|gone| known.iter().any(|path| gone.means(path))) {
        return Err(MplsError::NoSuchTunnelPath(router.interfaces.get(index)?.name.clone()).into());
    }
    let left = known.iter().filter(|path| !paths.iter().any(|gone| gone.means(path))).cloned().collect();
    put_tunnel(router, index, left)
}

/// The paths of a tunnel.
///
/// # Errors
/// When the interface is none.
pub fn tunnel_paths(router: &Router, index: InterfaceIndex) -> Result<&[Path], Error> {
    match router.ip.tunnels.get(&index) {
        Some(list) => Ok(&router.ip.lists.get(*list).key.paths),
        None => Err(MplsError::NoTunnel(router.interfaces.get(index)?.name.clone()).into()),
    }
}

fn check_tunnel_paths(router: &Router, paths: &[Path]) -> Result<(), Error> {
    if paths.len() > MAX_PATHS {
        return Err(RouteError::TooManyPaths.into());
    }
    for path in paths {
        check_labels(path)?;
        let stated = path.labels.as_ref().filter(|stated| !stated.labels.is_empty());
        if stated.is_none_or(|stated| stated.is_uniform) || !path.way.has_hop() {
            return Err(MplsError::NotForTunnels.into());
        }
    }
    router.check_paths(TableIndex::DEFAULT, paths)
}

fn put_tunnel(router: &mut Router, index: InterfaceIndex, paths: Vec<Path>) -> Result<(), Error> {
    check_tunnel_paths(router, &paths)?;
    if paths.iter().any(|path| path.way.interface() == Some(index)) {
        return Err(MplsError::TunnelIntoItself.into());
    }
    let before = router.ip.tunnels.get(&index).copied();
    let list = router.acquire_list(list_ref(index, &paths), before)?;
    let before = router.ip.tunnels.insert(index, list);
    if before != Some(list) {
        router.ip.lists.add_user(list, || User::Tunnel(index));
        before.into_iter().for_each(|before| leave_list(router, before, index));
        router.install_by(index);
    }
    Ok(())
}

fn leave_list(router: &mut Router, list: ListId, index: InterfaceIndex) {
    router.ip.lists.remove_user(list, || User::Tunnel(index));
    router.drop_unused(list);
}

/// An interface goes, perhaps a tunnel.
pub(crate) fn forget_tunnel(router: &mut Router, index: InterfaceIndex) {
    if let Some(list) = router.ip.tunnels.remove(&index) {
        leave_list(router, list, index);
    }
}

/// An interface goes: tunnels have no path by it any more.
pub(crate) fn remove_tunnel_paths_of(router: &mut Router, gone: InterfaceIndex) {
    let lists: Vec<ListId> = router.ip.lists_by(gone).collect();
    for list in lists {
        router.breathe();
        let key = &router.ip.lists.get(list).key;
        let Of::Tunnel(index) = key.of else { continue };
        let by: Vec<Path> = key.paths.iter().filter(|path| path.way.interface() == Some(gone)).cloned().collect();
        if let Err(error) = remove_tunnel_paths(router, index, &by) {
            log::error!("a tunnel's paths are not up to date: {error}");
        }
    }
}
