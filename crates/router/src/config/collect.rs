//! Collects what operators stated, a part at a time. Routes and interfaces may be many, so other clients are answered
//! between two parts. One line a capability.

use super::{ConfigError, Statement, Statements};
use crate::listing::{PAGE, Pages};
use crate::{
    Router, arp, check_memory, dhcp, handoff, icmp, interface, ip, logging, mld, mpls, nd, neighbour, packet_generator,
    punt, reassembly, router_advertisement, span,
};

/// How the statements of a capability begin.
enum Capability {
    /// Few statements: all at once.
    Few(fn(&Router, &mut Vec<Statement>)),
    /// As many statements as there are routes, neighbours or interfaces: some at a time.
    Many(fn() -> Box<dyn Statements>),
}
use Capability::{Few, Many};

/// Ordered so that each statement can be carried out again after those before it.
const CAPABILITIES: [Capability; 24] = [
    Few(logging::config::statements),
    Few(nd::config::statements),
    Few(ip::vrf::statements),
    Few(ip::flow_hash::statements),
    Few(mpls::config::tables),
    Few(crate::memif::config::statements),
    Many(interface::config::statements),
    Few(span::config::statements),
    Few(handoff::config::statements),
    Few(router_advertisement::config::statements),
    Few(mld::config::statements),
    // Before the neighbours: a neighbour may be on its link only because it is proxied.
    Few(nd::config::proxied),
    Few(neighbour::config::limits),
    Many(neighbour::config::statements),
    Few(arp::config::statements),
    Few(ip::config::statements),
    Many(ip::config::routes),
    Many(mpls::config::statements),
    Few(ip::vrf::limits),
    Few(punt::config::statements),
    Few(icmp::config::statements),
    Few(reassembly::config::statements),
    Few(dhcp::config::statements),
    Few(packet_generator::config::statements),
];

/// Most parts that are collected for one page.
const PARTS: usize = 16;

/// A configuration that is being collected.
#[derive(Default)]
pub(super) struct Collecting {
    /// How many capabilities were asked.
    asked: usize,
    /// The statements of the last one, while there may be more.
    more: Option<Box<dyn Statements>>,
}

impl Collecting {
    /// Collects the next part. Returns whether there may be more.
    pub fn go_on(&mut self, router: &Router, into: &mut Vec<Statement>) -> bool {
        if let Some(more) = &mut self.more {
            if !more.go_on(router, into) {
                self.more = None;
            }
            return true;
        }
        match CAPABILITIES.get(self.asked) {
            None => return false,
            Some(Few(state)) => state(router, into),
            Some(Many(begin)) => self.more = Some(begin()),
        }
        self.asked += 1;
        true
    }
}

/// The same, as lines, page by page.
impl Pages for Collecting {
    type Entry = String;

    fn next(&mut self, router: &Router) -> Option<Vec<String>> {
        let mut page = Vec::new();
        // A bound on parts, because a part may be empty: of many routes, perhaps none is an operator's.
        for _ in 0..PARTS {
            if page.len() >= PAGE {
                break;
            }
            if !self.go_on(router, &mut page) {
                (!page.is_empty()).then_some(())?;
                break;
            }
        }
        let lines = page.into_iter().map(|statement| statement.line).collect();
        Some(lines)
    }
}

impl Router {
    /// What operators stated, ordered so that it can be stated again.
    pub fn running_config(&self) -> Vec<Statement> {
        let (mut collecting, mut statements) = (Collecting::default(), Vec::new());
        while collecting.go_on(self, &mut statements) {}
        statements
    }

    /// The same, in pieces.
    pub(super) fn collect_config(&mut self) -> Result<Vec<Statement>, ConfigError> {
        let (mut collecting, mut statements) = (Collecting::default(), Vec::new());
        while collecting.go_on(self, &mut statements) {
            self.breathe();
            check_memory()?;
        }
        Ok(statements)
    }

    /// Only the lines, in pieces. Fails when the text is longer than `most` bytes.
    pub(super) fn collect_lines(&mut self, most: u64) -> Result<Vec<String>, ConfigError> {
        let (mut collecting, mut part, mut lines, mut length) = (Collecting::default(), Vec::new(), Vec::new(), 0);
        while collecting.go_on(self, &mut part) {
            length += part.iter().map(|statement| statement.line.len() as u64 + 1).sum::<u64>();
            let added = part.drain(..).map(|statement| statement.line);
            match length > most {
                true => lines.clear(),
                false => lines.extend(added),
            }
            self.breathe();
            check_memory()?;
        }
        if length > most { Err(ConfigError::TooLong { length }) } else { Ok(lines) }
    }

    /// What the plan states, in pieces. The plan is freed afterwards.
    pub(super) fn collect_plan(&mut self, plan: Router) -> Result<Vec<Statement>, ConfigError> {
        let (mut collecting, mut statements) = (Collecting::default(), Vec::new());
        while collecting.go_on(&plan, &mut statements) {
            self.breathe();
            check_memory()?;
        }
        self.aside(move || drop(plan));
        Ok(statements)
    }
}
