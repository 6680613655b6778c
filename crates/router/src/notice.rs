//! Notices: what happened, for those whom it concerns. The core says what became of an interface, and does not know who
//! listens.
//!
//! An operation says what it did ([`Router::say`]): at its end, or, if it has more to do, within [`Router::operation`].
//! The notices are delivered when it is done, in the order in which they were said, each to all capabilities in the
//! order of their list. So everybody hears of the same things in the same order, and sees a router that is in order.
//! What a listener does may say more; that joins the end.
//!
//! Who is outside of the router follows it ([`Router::follow`]): its notices are numbered, and one that is too slow
//! loses some, and hears that it did.

use crate::neighbour_key::NeighbourKey;
use crate::route_source::Source;
use crate::table_index::TableIndex;
use crate::{Error, Router};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use graph::InterfaceIndex;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use wire::{Family, Prefix};

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An interface was created. It is administratively down.
    Created(InterfaceIndex),
    /// It is about to go: it is down, its neighbours are forgotten, and it has all else still.
    Leaving(InterfaceIndex),
    /// It is gone. Its index names none.
    Gone {
        interface: InterfaceIndex,
        name: String,
    },
    /// It has another name now.
    Renamed {
        interface: InterfaceIndex,
        before: String,
    },
    /// An operator set it up or down.
    AdminState {
        interface: InterfaceIndex,
        up: bool,
    },
    /// Its link came up or went down.
    LinkState {
        interface: InterfaceIndex,
        up: bool,
    },
    /// It came up or went down, by an operator, by its link, or with its parent. Without a link it is still of no use
    /// ([`crate::interface::Interface::is_usable`]).
    State {
        interface: InterfaceIndex,
        up: bool,
    },
    /// It has another Ethernet address.
    Mac(InterfaceIndex),
    /// It takes longer packets or shorter ones, of one protocol at least.
    Mtu(InterfaceIndex),
    /// It belongs to another routing table.
    Table {
        interface: InterfaceIndex,
        family: Family,
    },
    /// An operator stated which table it belongs to.
    TableStated(InterfaceIndex),
    /// A routing table of a family was added, or is gone.
    Tables(Family),
    /// It uses the addresses of another interface now, or does so no longer.
    Lender(InterfaceIndex),
    AddressAdded {
        interface: InterfaceIndex,
        address: Prefix,
    },
    AddressRemoved {
        interface: InterfaceIndex,
        address: Prefix,
    },
    /// Routes of a source in a table may have been added, have other paths, or be gone: those of these prefixes, or,
    /// where they are too many to name, any. Said only to those who want it ([`Wants`]), after all else. Whoever hears
    /// of it later asks first whether the table is there still ([`crate::ip::control::Ip::has_table`]).
    Routes {
        source: Source,
        table: TableIndex,
        family: Family,
        prefixes: Option<Arc<[Prefix]>>,
    },
    /// A neighbour may be known by another Ethernet address, or not any more. Said only to those who want it.
    Neighbour(NeighbourKey),
    /// A whole configuration was loaded, or taken back.
    Committed,
    /// No other station has this IPv6 address: it is used from now on.
    AddressInUse {
        interface: InterfaceIndex,
        address: IpAddr,
    },
}

/// Which of the many notices somebody wants to hear.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wants {
    pub routes: bool,
    pub neighbours: bool,
}

impl Wants {
    pub const NONE: Wants = Wants { routes: false, neighbours: false };
    pub const ALL: Wants = Wants { routes: true, neighbours: true };

    fn has(self, notice: &Notice) -> bool {
        match notice {
            Notice::Routes { .. } => self.routes,
            Notice::Neighbour(_) => self.neighbours,
            _ => true,
        }
    }
}

/// What is about to change, if nobody objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// An interface gets an address.
    Address { interface: InterfaceIndex, address: IpAddr },
    /// An interface loses an address.
    NoAddress { interface: InterfaceIndex, address: Prefix },
    /// An interface uses the addresses of another.
    Borrow { interface: InterfaceIndex },
    /// An interface moves into another routing table.
    Table { interface: InterfaceIndex, family: Family, table: TableIndex },
}

/// A notice with its number: one more than that of the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered {
    pub number: u64,
    pub notice: Notice,
}

/// What somebody outside hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    Notice(Arc<Numbered>),
    /// Notices were lost because too many waited to be heard. It is the last thing that is heard: whoever wants to go
    /// on takes a new look at the router, and follows it anew.
    Lost,
}

/// What was said and not heard yet, and who listens.
#[derive(Default)]
pub(crate) struct Notices {
    /// The number of the notice said last.
    last: u64,
    /// That of the notice heard last.
    heard: u64,
    waiting: VecDeque<Arc<Numbered>>,
    /// Operations that run: one calls another.
    depth: usize,
    /// Interfaces that go when all have heard that they leave, the next one first.
    pub(crate) leaving: VecDeque<InterfaceIndex>,
    followers: Vec<(Wants, Sender<Heard>)>,
}

impl Notices {
    fn put(&mut self, notice: Notice) {
        self.last += 1;
        self.waiting.push_back(Arc::new(Numbered { number: self.last, notice }));
    }
}

impl Router {
    /// Runs an operation that says what it does. Once the outermost one is done, all that was said is heard.
    pub fn operation<T>(&mut self, work: impl FnOnce(&mut Router) -> T) -> T {
        let running = Running::begin(self);
        let done = work(running.router);
        if running.router.notices.depth == 1 {
            running.router.deliver();
        }
        done
    }

    /// Asks all capabilities whether they bear a change.
    ///
    /// # Errors
    /// The first refusal.
    pub(crate) fn allows(&self, change: Change) -> Result<(), Error> {
        self.capabilities.iter().try_for_each(|capability| (capability.allows)(self, &change))
    }

    /// Says that something happened. Outside of an operation it is heard at once.
    pub fn say(&mut self, notice: Notice) {
        self.notices.put(notice);
        if self.notices.depth == 0 {
            self.operation(|_| ());
        }
    }

    /// Follows this router: what a reader of its state sees now is complete up to the number that is returned; what
    /// happens afterwards is heard. At most `room` notices wait to be heard. Whoever does not want all kinds hears of
    /// fewer numbers.
    pub fn follow(&mut self, room: usize, wants: Wants) -> (u64, Receiver<Heard>) {
        let (follower, heard) = bounded(room + 1);
        self.notices.followers.push((wants, follower));
        self.settle_wants();
        (self.notices.heard, heard)
    }

    /// What nobody wants to hear is not noted.
    pub(crate) fn settle_wants(&mut self) {
        let capabilities = self.capabilities.iter().map(|capability| capability.wants);
        let all: Vec<Wants> = capabilities.chain(self.notices.followers.iter().map(|(wants, _)| *wants)).collect();
        self.ip.unsaid.is_wanted = all.iter().any(|wants| wants.routes);
        self.neighbours.unsaid.is_wanted = all.iter().any(|wants| wants.neighbours);
    }

    /// Routes and neighbours that changed are said in batches.
    fn say_unsaid(&mut self) {
        if self.ip.unsaid.is_empty() && self.neighbours.unsaid.is_empty() {
            return;
        }
        let routes = self.ip.unsaid.take();
        for notice in routes.into_iter().chain(self.neighbours.unsaid.take()) {
            self.notices.put(notice);
        }
    }

    /// Everybody hears what was said. Interfaces that leave are gone once nothing is left to hear.
    fn deliver(&mut self) {
        loop {
            self.say_unsaid();
            if let Some(said) = self.notices.waiting.pop_front() {
                for capability in self.capabilities.iter().filter(|one| one.wants.has(&said.notice)) {
                    let hear = || (capability.hears)(self, &said.notice);
                    if catch_unwind(AssertUnwindSafe(hear)).is_err() {
                        log::error!("{} failed at {:?}: others go on", capability.name, said.notice);
                    }
                }
                let before = self.notices.followers.len();
                let goes_on = |follower: &Sender<Heard>| hears(follower, &said);
                self.notices.followers.retain(|(wants, follower)| !wants.has(&said.notice) || goes_on(follower));
                if self.notices.followers.len() != before {
                    self.settle_wants();
                }
                self.notices.heard = said.number;
                self.breathe();
            } else if let Some(index) = self.notices.leaving.pop_front() {
                self.breathe();
                self.finish_deletion(index);
            } else {
                return;
            }
        }
    }
}

/// Passes a notice to a follower. Whether it goes on following.
fn hears(follower: &Sender<Heard>, said: &Arc<Numbered>) -> bool {
    // The last place is kept for the word that some were lost.
    let has_room = follower.capacity().is_none_or(|room| follower.len() + 1 < room);
    match has_room {
        true => !matches!(follower.try_send(Heard::Notice(said.clone())), Err(TrySendError::Disconnected(_))),
        false => {
            let _ = follower.try_send(Heard::Lost);
            false
        }
    }
}

/// An operation that runs. It ends also when it panics; then nothing is delivered until the next one ends.
struct Running<'r> {
    router: &'r mut Router,
}

impl Running<'_> {
    fn begin(router: &mut Router) -> Running<'_> {
        router.notices.depth += 1;
        Running { router }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.router.notices.depth -= 1;
    }
}
