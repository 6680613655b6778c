//! Long listings, page by page ([decision 025](../../../docs/decisions/025-listings-in-pages.md)).
//!
//! A reply is written by the thread of whoever reads it, while another thread owns the router. So what is short is copied
//! into the reply whole. Of what may be long, such as a routing table, the reply holds where it goes on, and asks for the
//! next page when its reader has taken the one before: many slow readers hold a page each, not a table each.

use crate::Router;
use crossbeam_channel::bounded;
use std::sync::Arc;

/// Entries of a page: some hundred kilobytes when each has a next hop of its own, collected in a millisecond or two.
pub const PAGE: usize = 512;

/// Something that only looks at the router, for the thread that owns it to do.
pub type Look = Box<dyn FnOnce(&Router) + Send>;

/// The way from a reply that is being written to the thread that owns the router; without one replies are whole.
#[derive(Clone, Default)]
pub struct Listings(Option<Arc<dyn Fn(Look) -> bool + Send + Sync>>);

impl Listings {
    /// Pages are asked for so: `ask` brings what looks to the router, and says whether it could. It is called by threads
    /// that do not own the router.
    pub fn by(ask: impl Fn(Look) -> bool + Send + Sync + 'static) -> Listings {
        Listings(Some(Arc::new(ask)))
    }

    pub(crate) fn are_paged(&self) -> bool {
        self.0.is_some()
    }

    /// Has the router looked at, and waits for what comes of it; `None` when there is no router any more.
    pub(crate) fn look<T: Send + 'static>(&self, look: impl FnOnce(&Router) -> T + Send + 'static) -> Option<T> {
        let ask = self.0.as_ref()?;
        let (answer, answered) = bounded(1);
        // Who asked may have gone meanwhile.
        let asked = ask(Box::new(move |router: &Router| drop(answer.send(look(router)))));
        asked.then(|| answered.recv().ok()).flatten()
    }
}
