//! Which interface's packets are copied to which others.

use super::{INPUT, Listeners, OUTPUT, SpanDestination};
use graph::{EdgeIndex, InterfaceIndex, NodeIndex, PerInterface};
use router::capability::Notice;
use router::interface::output::OUTPUT_ARC;
use router::{Error, Router};
use std::collections::BTreeMap;

/// Most listeners of one interface: each costs a copy of every packet.
pub const MAX_DESTINATIONS: usize = 8;

/// One interface listens to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    pub destination: InterfaceIndex,
    /// What is received, what is sent; one of both at least.
    pub rx: bool,
    pub tx: bool,
    /// Edges of `span-input` and `span-output` to the destination's output.
    input_edge: EdgeIndex,
    output_edge: EdgeIndex,
}

impl Session {
    /// In VPP's words.
    pub fn directions(&self) -> &'static str {
        match (self.rx, self.tx) {
            (true, true) => "both",
            (true, false) => "rx",
            (false, true) => "tx",
            (false, false) => "none",
        }
    }
}

/// Who listens to whom.
pub(super) struct Spans {
    /// By source, in the order of destinations.
    of: BTreeMap<InterfaceIndex, Vec<Session>>,
    /// The same for nodes.
    pub listeners: PerInterface<Listeners>,
    pub input: NodeIndex,
    pub output: NodeIndex,
}

impl Spans {
    pub fn new(listeners: PerInterface<Listeners>, input: NodeIndex, output: NodeIndex) -> Spans {
        Spans { of: BTreeMap::new(), listeners, input, output }
    }

    /// The sources with their sessions.
    pub fn iter(&self) -> impl Iterator<Item = (InterfaceIndex, &[Session])> {
        self.of.iter().map(|(source, sessions)| (*source, &sessions[..]))
    }
}

impl Listeners {
    fn of(sessions: &[Session]) -> Listeners {
        let listener = |session: &Session, edge| SpanDestination { interface: session.destination, edge };
        let (rx, tx) = (sessions.iter().filter(|session| session.rx), sessions.iter().filter(|session| session.tx));
        Listeners {
            rx: rx.map(|session| listener(session, session.input_edge)).collect(),
            tx: tx.map(|session| listener(session, session.output_edge)).collect(),
        }
    }
}

/// Why SPAN was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    #[error("{0} cannot get copies of its own packets")]
    ToItself(String),
    #[error("too many interfaces get copies of the packets of {0} (at most {max})", max = MAX_DESTINATIONS)]
    TooMany(String),
    #[error("{0} is a sub-interface or a tunnel: copies are made of what whole interfaces receive and send")]
    NotWhole(String),
}

router::codes! { SpanError {
    ToItself => "span-to-itself",
    TooMany => "span-too-many",
    NotWhole => "span-not-whole",
} }

/// Has `destination` listen to what `source` receives (`rx`), sends (`tx`), or both, instead of what it listened to
/// there before; with neither it no longer listens.
///
/// # Errors
/// When one of them does not exist, both are one, or the source has too many listeners; then nothing has changed.
pub fn set(
    router: &mut Router,
    source: InterfaceIndex,
    destination: InterfaceIndex,
    rx: bool,
    tx: bool,
) -> Result<(), Error> {
    let to = router.interfaces.get(destination)?;
    let from = router.interfaces.get(source)?;
    if let Some(sub) =
        [from, to].into_iter().find(|interface| interface.sub.is_some() || router.is_tunnel(interface.index))
    {
        return Err(SpanError::NotWhole(sub.name.clone()).into());
    }
    if source == destination {
        return Err(SpanError::ToItself(from.name.clone()).into());
    }
    let mut sessions = sessions(router, source).to_vec();
    sessions.retain(|session| session.destination != destination);
    if (rx || tx) && sessions.len() >= MAX_DESTINATIONS {
        return Err(SpanError::TooMany(from.name.clone()).into());
    }
    if rx || tx {
        let (output, Spans { input: of_input, output: of_output, .. }) =
            (format!("{}-output", to.name), router.state::<Spans>());
        let (of_input, of_output) = (*of_input, *of_output);
        let input_edge = router.graph.connect(of_input, &output)?;
        let output_edge = router.graph.connect(of_output, &output)?;
        sessions.push(Session { destination, rx, tx, input_edge, output_edge });
        sessions.sort_by_key(|session| session.destination);
    }
    change(router, source, sessions)
}

/// Nobody listens to an interface any more.
///
/// # Errors
/// When there is none.
pub fn clear(router: &mut Router, source: InterfaceIndex) -> Result<(), Error> {
    router.interfaces.get(source)?;
    change(router, source, Vec::new())
}

/// Who listens to an interface, in the order of destinations.
pub fn sessions(router: &Router, source: InterfaceIndex) -> &[Session] {
    router.state::<Spans>().of.get(&source).map_or(&[], |sessions| sessions)
}

/// Has an interface's packets copied to these listeners, and pass the nodes that do so.
fn change(router: &mut Router, source: InterfaceIndex, sessions: Vec<Session>) -> Result<(), Error> {
    let mirrored = sessions.iter().any(|session| session.rx);
    let copied = sessions.iter().any(|session| session.tx);
    let state = router.state_mut::<Spans>();
    state.listeners.set(source, (mirrored || copied).then(|| Listeners::of(&sessions)));
    match sessions.is_empty() {
        true => drop(state.of.remove(&source)),
        false => drop(state.of.insert(source, sessions)),
    }
    router.graph.set_feature(drivers::input::ARC, INPUT, source, mirrored)?;
    router.graph.set_feature(OUTPUT_ARC, OUTPUT, source, copied)?;
    Ok(())
}

/// Who leaves listens to none; nobody listens to who is gone.
pub(super) fn hears(router: &mut Router, notice: &Notice) {
    match notice {
        Notice::Leaving(leaving) => {
            let listens = |sessions: &[Session]| sessions.iter().any(|session| session.destination == *leaving);
            let all = router.state::<Spans>().iter();
            let sources: Vec<InterfaceIndex> = all.filter(|(_, of)| listens(of)).map(|(source, _)| source).collect();
            for source in sources {
                if let Err(error) = set(router, source, *leaving, false, false) {
                    log::error!("SPAN of a removed interface is not undone: {error}");
                }
            }
        }
        Notice::Gone { interface, .. } => drop(router.state_mut::<Spans>().of.remove(interface)),
        _ => {}
    }
}
