//! Which interface's packets are shared out among which workers.

use super::node::{NODE, Shares};
use graph::{InterfaceIndex, PerInterface, edge};
use router::capability::Notice;
use router::{Error, Router};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use wire::flow::FlowHasher;

/// Sets hand-off apart from other uses of flow hashes: those that it gives to one worker must not all
/// take one path there.
const SEED: u64 = 0x68_61_6e_64_6f_66_66;

/// How an interface's packets are shared out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handoff {
    pub workers: Workers,
    /// Both directions of a flow go to one worker.
    pub symmetrical: bool,
}

impl fmt::Display for Handoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.workers, if self.symmetrical { "symmetrical" } else { "asymmetrical" })
    }
}

/// Workers, counted from 0; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workers(BTreeSet<usize>);

/// Why a list of workers was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected workers, counted from 0, such as 0,2-3")]
pub struct NoWorkers;

impl Workers {
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }
}

impl FromStr for Workers {
    type Err = NoWorkers;

    fn from_str(list: &str) -> Result<Workers, NoWorkers> {
        let number = |digits: &str| digits.parse::<u16>().map(usize::from).map_err(|_| NoWorkers);
        let mut workers = BTreeSet::new();
        for part in list.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(NoWorkers);
            }
            workers.extend(first..=last);
        }
        Ok(Workers(workers))
    }
}

impl fmt::Display for Workers {
    /// As it is read, with ranges where workers follow each other.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.iter().copied().peekable();
        let mut separator = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while let Some(next) = rest.next_if_eq(&(last + 1)) {
                last = next;
            }
            match first == last {
                true => write!(f, "{separator}{first}")?,
                false => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

/// Which interfaces' packets are shared out, and how.
pub(super) struct Handoffs {
    of: BTreeMap<InterfaceIndex, Handoff>,
    /// The same for the node.
    shares: PerInterface<Shares>,
}

impl Handoffs {
    pub(super) fn new(shares: PerInterface<Shares>) -> Handoffs {
        Handoffs { of: BTreeMap::new(), shares }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (InterfaceIndex, &Handoff)> {
        self.of.iter().map(|(index, handoff)| (*index, handoff))
    }
}

/// Why hand-off was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandoffError {
    #[error("{0} receives nothing that could be handed to workers")]
    NothingToHand(String),
}

router::codes! { HandoffError {
    NothingToHand => "handoff-nothing-received",
} }

/// Has the packets of an interface shared out among workers by flow, or stay on the workers that receive them.
///
/// # Errors
/// When there is no such interface or worker, or it receives nothing of its own; then nothing has changed.
pub fn set(router: &mut Router, index: InterfaceIndex, handoff: Option<Handoff>) -> Result<(), Error> {
    let workers = router.graph.workers();
    let missing = handoff.iter().flat_map(|handoff| handoff.workers.iter()).find(|worker| *worker >= workers);
    if let Some(worker) = missing {
        return Err(Error::NoSuchWorker { worker, workers });
    }
    let interface = router.interfaces.get(index)?;
    if let Some(sub) = &interface.sub {
        let (name, sub) = (interface.name.clone(), sub.parent);
        let parent = router.interfaces.get(sub)?.name.clone();
        return Err(Error::NoDevice { name, parent });
    }
    if handoff.is_some() && interface.receive_queues.is_empty() && !interface.carries.streams {
        return Err(HandoffError::NothingToHand(interface.name.clone()).into());
    }
    router.graph.set_feature(drivers::input::ARC, NODE, index, handoff.is_some())?;
    let state = router.state_mut::<Handoffs>();
    state.shares.set(index, handoff.as_ref().map(Shares::of));
    match handoff {
        Some(handoff) => drop(state.of.insert(index, handoff)),
        None => drop(state.of.remove(&index)),
    }
    Ok(())
}

/// How the packets of an interface are shared out, if they are.
pub fn of(router: &Router, index: InterfaceIndex) -> Option<&Handoff> {
    router.state::<Handoffs>().of.get(&index)
}

pub(super) fn hears(router: &mut Router, notice: &Notice) {
    if let Notice::Gone { interface, .. } = notice {
        router.state_mut::<Handoffs>().of.remove(interface);
    }
}

impl Shares {
    /// What the node needs to know of it.
    fn of(handoff: &Handoff) -> Shares {
        let edges = handoff.workers.iter().map(edge::continue_on).collect();
        Shares { hasher: FlowHasher::new(SEED, handoff.symmetrical), edges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_workers_are_read_and_said() {
        for (list, said) in [("0", "0"), ("0,1", "0-1"), ("3,1-2,2", "1-3"), ("0,2-4,9", "0,2-4,9")] {
            assert_eq!(list.parse::<Workers>().unwrap().to_string(), said);
        }
        for wrong in ["", ",", "0,", "a", "1-", "3-1", "-1", "0-70000", "1 2"] {
            assert_eq!(wrong.parse::<Workers>(), Err(NoWorkers), "{wrong}");
        }
    }
}
