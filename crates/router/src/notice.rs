//! Notices: what happened, for those whom it concerns. The core says what became of an interface, and does not know who
//! listens.
//!
//! An operation says what it did ([`Router::say`]): at its end, or, if it has more to do, within [`Router::operation`].
//! The notices are delivered when it is done, in the order in which they were said, each to all capabilities in the
//! order of their list. So everybody hears of the same things in the same order, and sees a router that is in order.
//! What a listener does may say more; that joins the end.
//!
//! Who is outside of the router follows it ([`Router::follow`]): its notices are numbered without a gap, and one that
//! is too slow loses some, and hears that it did.

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
    /// No other station has this IPv6 address: it is used from now on.
    AddressInUse {
        interface: InterfaceIndex,
        address: IpAddr,
    },
}

/// What is about to change, if nobody objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// An interface gets an address.
    Address { interface: InterfaceIndex, address: IpAddr },
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
    followers: Vec<Sender<Heard>>,
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
        self.notices.last += 1;
        self.notices.waiting.push_back(Arc::new(Numbered { number: self.notices.last, notice }));
        if self.notices.depth == 0 {
            self.operation(|_| ());
        }
    }

    /// Follows this router: what a reader of its state sees now is complete up to the number that is returned; what
    /// happens afterwards is heard. At most `room` notices wait to be heard.
    pub fn follow(&mut self, room: usize) -> (u64, Receiver<Heard>) {
        let (follower, heard) = bounded(room + 1);
        self.notices.followers.push(follower);
        (self.notices.heard, heard)
    }

    /// Everybody hears what was said. Interfaces that leave are gone once nothing is left to hear.
    fn deliver(&mut self) {
        loop {
            if let Some(said) = self.notices.waiting.pop_front() {
                for capability in self.capabilities {
                    let hear = || (capability.hears)(self, &said.notice);
                    if catch_unwind(AssertUnwindSafe(hear)).is_err() {
                        log::error!("{} failed at {:?}: others go on", capability.name, said.notice);
                    }
                }
                self.notices.followers.retain(|follower| hears(follower, &said));
                self.notices.heard = said.number;
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
