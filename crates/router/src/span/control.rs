//! Which interface's packets are copied to which others.

use super::{Listeners, SpanDestination};
use crate::interface::Interface;
use crate::interface::output::OUTPUT_ARC;
use crate::{Error, Router};
use graph::{EdgeIndex, InterfaceIndex};
use std::collections::BTreeSet;

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

impl Interface {
    /// Who listens to it, for the data path.
    pub(crate) fn listeners(&self) -> Listeners {
        let listener = |session: &Session, edge| SpanDestination { interface: session.destination, edge };
        let (rx, tx) = (self.span.iter().filter(|session| session.rx), self.span.iter().filter(|session| session.tx));
        Listeners {
            rx: rx.map(|session| listener(session, session.input_edge)).collect(),
            tx: tx.map(|session| listener(session, session.output_edge)).collect(),
        }
    }
}

impl Router {
    /// Has `destination` listen to what `source` receives (`rx`), sends (`tx`), or both, instead
    /// of what it listened to there before; with neither it no longer listens.
    ///
    /// # Errors
    /// When one of them does not exist, both are one, or the source has too many listeners; then
    /// nothing has changed.
    pub fn set_span(
        &mut self,
        source: InterfaceIndex,
        destination: InterfaceIndex,
        rx: bool,
        tx: bool,
    ) -> Result<(), Error> {
        let to = self.interfaces.get(destination)?;
        let from = self.interfaces.get(source)?;
        if let Some(sub) =
            [from, to].into_iter().find(|interface| interface.sub.is_some() || self.is_tunnel(interface.index))
        {
            return Err(Error::SpanOfSub(sub.name.clone()));
        }
        if source == destination {
            return Err(Error::SpanToItself(from.name.clone()));
        }
        let others = from.span.iter().filter(|session| session.destination != destination).count();
        if (rx || tx) && others >= MAX_DESTINATIONS {
            return Err(Error::TooManySpans(from.name.clone()));
        }
        let output = format!("{}-output", to.name);
        let mut session = None;
        if rx || tx {
            let input_edge = self.graph.connect(self.nodes.span.input, &output)?;
            let output_edge = self.graph.connect(self.nodes.span.output, &output)?;
            session = Some(Session { destination, rx, tx, input_edge, output_edge });
        }
        let from = self.interfaces.get_mut(source)?;
        from.span.retain(|session| session.destination != destination);
        from.span.extend(session);
        from.span.sort_by_key(|session| session.destination);
        self.publish_facts();
        self.set_span_features(source)
    }

    /// Nobody listens to an interface any more.
    ///
    /// # Errors
    /// When there is none.
    pub fn clear_span(&mut self, source: InterfaceIndex) -> Result<(), Error> {
        self.interfaces.get_mut(source)?.span.clear();
        self.publish_facts();
        self.set_span_features(source)
    }

    /// An interface goes away: it listens to none.
    pub(crate) fn forget_listener(&mut self, gone: InterfaceIndex) {
        let listens = |interface: &Interface| interface.span.iter().any(|session| session.destination == gone);
        let book = self.interfaces.book.borrow();
        let is_source = |index: &InterfaceIndex| self.interfaces.get(*index).is_ok_and(listens);
        let sources: BTreeSet<_> = book.may_be_mirrored().filter(is_source).collect();
        drop(book);
        for source in sources {
            if let Err(error) = self.set_span(source, gone, false, false) {
                log::error!("SPAN of a removed interface is not undone: {error}");
            }
        }
    }

    /// Has packets of an interface pass the nodes that copy them, or not.
    fn set_span_features(&mut self, index: InterfaceIndex) -> Result<(), Error> {
        let mirrored = self.interfaces.get(index)?.span.iter().any(|session| session.rx);
        let copied = self.interfaces.get(index)?.span.iter().any(|session| session.tx);
        self.graph.set_feature(drivers::input::ARC, "span-input", index, mirrored)?;
        self.graph.set_feature(OUTPUT_ARC, "span-output", index, copied)?;
        Ok(())
    }
}
