//! Long listings, page by page ([decision 025](../../../docs/decisions/025-listings-in-pages.md)).
//!
//! The thread of the client that reads a reply writes it, while another thread owns the router. So a short reply is
//! copied whole. A long listing, such as a routing table, holds only where it continues, and asks for the next page
//! when its reader has taken the one before. Many slow readers then hold a page each, not a table each.

use crate::Router;
use crossbeam_channel::bounded;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// Entries of a page: some hundred kilobytes when each has its own next hop, collected in a millisecond or two.
pub const PAGE: usize = 512;

/// Code that only reads the router, run by the thread that owns it.
pub type Look = Box<dyn FnOnce(&Router) + Send>;

/// The way from the writer of a reply to the thread that owns the router. Without one, replies are whole.
#[derive(Clone, Default)]
pub struct Listings(Option<Arc<dyn Fn(Look) -> bool + Send + Sync>>);

impl Listings {
    /// `ask` passes a [`Look`] to the thread that owns the router, and returns whether it could. Threads that do not
    /// own the router call it.
    pub fn by(ask: impl Fn(Look) -> bool + Send + Sync + 'static) -> Listings {
        Listings(Some(Arc::new(ask)))
    }

    /// Runs `look` on the router and waits for its result; `None` when there is no router any more.
    fn look<T: Send + 'static>(&self, look: impl FnOnce(&Router) -> T + Send + 'static) -> Option<T> {
        let ask = self.0.as_ref()?;
        let (answer, answered) = bounded(1);
        // The thread that asked may have ended meanwhile.
        let asked = ask(Box::new(move |router: &Router| drop(answer.send(look(router)))));
        asked.then(|| answered.recv().ok()).flatten()
    }
}

/// The place where a listing continues. It is a key, not a position, so additions and removals between two pages do no
/// harm.
pub trait Pages: Send + 'static {
    type Entry: Send + 'static;

    /// About [`PAGE`] more entries; fewer or none where a part has few. `None` after the last entry, and when the
    /// object that the entries belong to was removed.
    fn next(&mut self, router: &Router) -> Option<Vec<Self::Entry>>;
}

/// The entries of a listing: all of them, or page by page.
pub enum Listing<P: Pages> {
    Whole(Vec<P::Entry>),
    Paged(Listings, Box<dyn Fn() -> P + Send>),
}

impl<P: Pages> Listing<P> {
    /// A listing that starts with `begin`; in pages when there is a way to ask for them.
    pub fn new(router: &Router, begin: impl Fn() -> P + Send + 'static) -> Listing<P> {
        if router.listings.0.is_some() {
            return Listing::Paged(router.listings.clone(), Box::new(begin));
        }
        let (mut pages, mut all) = (begin(), Vec::new());
        while let Some(page) = pages.next(router) {
            all.extend(page);
        }
        Listing::Whole(all)
    }

    /// Calls `each` for one entry after the other.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn try_each<E>(&self, mut each: impl FnMut(&P::Entry) -> Result<(), E>) -> Result<(), E> {
        let (listings, begin) = match self {
            Listing::Whole(all) => return all.iter().try_for_each(each),
            Listing::Paged(listings, begin) => (listings, begin),
        };
        let next = |mut pages: P| {
            listings.look(move |router: &Router| {
                let page = pages.next(router)?;
                Some((pages, page))
            })
        };
        let mut turn = next(begin()).flatten();
        while let Some((pages, page)) = turn {
            page.iter().try_for_each(&mut each)?;
            turn = next(pages).flatten();
        }
        Ok(())
    }
}

/// A listing by small keys, which are collected at the start. What is shown of each is looked up page by page.
pub(crate) struct Keys<K, T> {
    keys: Arc<[K]>,
    next: usize,
    show: fn(&Router, K) -> Option<T>,
}

impl<K: Copy + Send + Sync + 'static, T: Send + 'static> Listing<Keys<K, T>> {
    /// A listing of the objects with these keys. `show` returns nothing for an object that was removed meanwhile.
    pub fn of_keys(router: &Router, keys: Vec<K>, show: fn(&Router, K) -> Option<T>) -> Listing<Keys<K, T>> {
        let keys: Arc<[K]> = keys.into();
        Listing::new(router, move || Keys { keys: keys.clone(), next: 0, show })
    }
}

impl<K: Copy + Send + Sync + 'static, T: Send + 'static> Pages for Keys<K, T> {
    type Entry = T;

    fn next(&mut self, router: &Router) -> Option<Vec<T>> {
        let page: Vec<K> = self.keys.iter().skip(self.next).take(PAGE).copied().collect();
        self.next += page.len();
        (!page.is_empty()).then(|| page.into_iter().filter_map(|key| (self.show)(router, key)).collect())
    }
}

impl<P: Pages<Entry: Serialize>> Serialize for Listing<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entries = serializer.serialize_seq(None)?;
        self.try_each(|entry| entries.serialize_element(entry))?;
        entries.end()
    }
}
