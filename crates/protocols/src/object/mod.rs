//! Custom objects: routes whose packets go to a node of some capability, with what that node needs to know.
//!
//! A capability registers a node ([`register_object_kind`]), makes objects for it ([`add_object`]),
//! and routes lead to them by [`router::ip::control::PathAction::Object`]. Their leaves have the class
//! [`router::ip::class::OBJECT`], which leads from all lookups to `object-dispatch`, and the object's line says to
//! which node on from there. So a new kind of route needs neither a class nor an edge of a lookup node.
//!
//! The node finds the object in `target` ([`tables::object::ObjectRef::custom`]).

use graph::{Behaviour, Context, Map, NodeIndex, NodeSpec, Snapshot, Vector};
use router::capability::{Chapter, Description, Stage, Starting};
use router::ip::objects::Known;
use router::ip::objects::ObjectError;
pub use router::ip::objects::ObjectId;
use router::{Error, Router};
use std::fmt;
use tables::object::MAX_CUSTOM;
use tables::{Custom, Leaf, Object, ObjectHandle};

graph::edges! {
    /// The edges to the nodes of objects follow these.
    pub enum Edge {
        /// A packet matched a route that was being changed and had no forwarding object. A few during a change are
        /// harmless. If the counter keeps rising, report it together with `show ip fib`.
        Broken => drop "route leads to nothing",
    }
}

pub const CAPABILITY: Description = Description {
    name: "object",
    description: "Routes to the nodes of other capabilities",
    start,
    nodes: &["object-dispatch"],
    chapters: &[Chapter { stage: Stage::Network, title: "Tunnels", about: "", nodes: &["object-dispatch"] }],
    ..Description::NONE
};

/// `object-dispatch`. Reads: `target` (a custom object). Next: the node that the object names.
struct Dispatch {
    objects: ObjectHandle,
}

impl Map for Dispatch {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let objects = self.objects.load(cx.round);
        let columns = vector.columns();
        for (leaf, edge) in columns.target.iter().zip(columns.edge) {
            let object = objects.get(Leaf(*leaf).index());
            *edge = if object.custom().is_empty() { Edge::Broken.into() } else { object.edge() };
        }
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  dpo-idx {}", Leaf(snapshot.row.target).index())
}

/// Nodes that control calls.
struct Nodes {
    dispatch: NodeIndex,
}

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let spec = NodeSpec { name: "object-dispatch".into(), edges: Edge::EDGES, counters: &[], trace };
    let objects = starting.core.objects.clone();
    let dispatch = move |_| Behaviour::Map(Box::new(Dispatch { objects: objects.clone() }));
    let dispatch = starting.graph.register(spec, dispatch)?;
    starting.own(Nodes { dispatch });
    Ok(())
}

/// What a node registered for objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectKind {
    edge: u16,
    name: &'static str,
}

/// Has packets of objects of a new kind go to a node. `name` is for `show` commands.
///
/// # Errors
/// When there is no such node, or too many edges.
pub fn register_object_kind(router: &mut Router, name: &'static str, node: &str) -> Result<ObjectKind, Error> {
    let edge = router.graph.connect(router.state::<Nodes>().dispatch, node)?;
    Ok(ObjectKind { edge, name })
}

/// Makes an object with 1 to [`MAX_CUSTOM`] bytes that its node reads, and 16 bits more.
///
/// # Errors
/// When there is no room.
///
/// # Panics
/// When there are no bytes, or too many.
pub fn add_object(router: &mut Router, kind: ObjectKind, bytes: &[u8], bits: u16) -> Result<ObjectId, Error> {
    let id = ObjectId(router.ip.objects.insert(&custom(kind, bytes, bits))?);
    router.ip.customs.0.insert(id, Known { name: kind.name, users: 0 });
    Ok(id)
}

/// Changes an object in one step, whatever routes lead to it.
///
/// # Errors
/// When there is no room; nothing has changed.
///
/// # Panics
/// As [`add_object`], and when there is no such object.
pub fn replace_object(
    router: &mut Router,
    id: ObjectId,
    kind: ObjectKind,
    bytes: &[u8],
    bits: u16,
) -> Result<(), Error> {
    router.ip.objects.replace(id.0, &custom(kind, bytes, bits))?;
    router.ip.customs.0.get_mut(&id).expect("there is such an object").name = kind.name;
    Ok(())
}

/// Removes an object.
///
/// # Errors
/// While routes lead to it, or when there is no such object.
pub fn remove_object(router: &mut Router, id: ObjectId) -> Result<(), Error> {
    if router.ip.customs.name(id).is_none() {
        return Err(ObjectError::NotThere(id).into());
    }
    if router.ip.customs.0.get(&id).is_some_and(|known| known.users > 0) {
        return Err(ObjectError::InUse(id).into());
    }
    router.ip.customs.0.remove(&id);
    router.ip.objects.remove(id.0);
    Ok(())
}

fn custom(kind: ObjectKind, bytes: &[u8], bits: u16) -> Object {
    assert!((1..=MAX_CUSTOM).contains(&bytes.len()), "an object has 1 to {MAX_CUSTOM} bytes");
    Object::Custom(Custom { edge: kind.edge, bytes: bytes.to_vec(), owner: bits })
}
