//! All capabilities of the program: each crate below lists its own.
#![forbid(unsafe_code)]

mod absent;

use command::CommandSet;
use router::capability::{Description, List};
use router::{Error, Options, Router};

/// All capabilities of this program.
// A constant: a static item would have all of them compiled into each test program that uses none.
pub const CAPABILITIES: List = &joined::<{ count(LISTS) }>(LISTS);

/// Those of each crate, from the lowest up: a capability may use the state of those before it.
const LISTS: &[List] = &[
    router::capability::CAPABILITIES,
    devices::CAPABILITIES,
    protocols::CAPABILITIES,
    features::CAPABILITIES,
    linux_cp::CAPABILITIES,
    &[&absent::CAPABILITY],
];

const fn count(lists: &[List]) -> usize {
    let (mut list, mut count) = (0, 0);
    while list < lists.len() {
        count += lists[list].len();
        list += 1;
    }
    count
}

const fn joined<const COUNT: usize>(lists: &[List]) -> [&'static Description; COUNT] {
    let mut all = [&Description::NONE; COUNT];
    let (mut list, mut at) = (0, 0);
    while list < lists.len() {
        let mut of_list = 0;
        while of_list < lists[list].len() {
            all[at] = lists[list][of_list];
            (of_list, at) = (of_list + 1, at + 1);
        }
        list += 1;
    }
    all
}

/// No two capabilities have a packet flag in common.
const _: () = {
    let (mut at, mut taken) = (0, 0);
    while at < CAPABILITIES.len() {
        assert!(taken & CAPABILITIES[at].flags == 0);
        taken |= CAPABILITIES[at].flags;
        at += 1;
    }
};

/// A router with all capabilities and without interfaces. The caller takes its workers from [`graph::Graph::worker`]
/// and runs them.
///
/// # Errors
/// When the system refuses memory.
pub fn router(options: Options) -> Result<Router, Error> {
    Router::with(options, CAPABILITIES)
}

/// The commands of all capabilities.
pub fn commands() -> CommandSet<Router> {
    router::commands_of(CAPABILITIES)
}
