//! What operators stated, collected a part at a time: of many routes, or of many interfaces, somebody else is answered in
//! between. One line a capability.

use super::Statement;
use crate::ip::config::RouteStatements;
use crate::{
    Router, arp, dhcp, handoff, icmp, interface, ip, logging, mld, mpls, nd, neighbour, packet_generator, punt,
    reassembly, router_advertisement, span,
};

/// Says what was stated of a capability.
type Capability = fn(&Router, &mut Vec<Statement>);

/// In an order in which it can be stated again.
const BEFORE_ROUTES: [Capability; 14] = [
    logging::config::statements,
    nd::config::statements,
    ip::vrf::statements,
    mpls::config::tables,
    crate::memif::config::statements,
    interface::config::statements,
    span::config::statements,
    handoff::config::statements,
    router_advertisement::config::statements,
    mld::config::statements,
    // Neighbours may be on their links by it only.
    nd::config::proxied,
    neighbour::config::statements,
    arp::config::statements,
    ip::config::statements,
];
const BEHIND_ROUTES: [Capability; 7] = [
    mpls::config::statements,
    ip::vrf::limits,
    punt::config::statements,
    icmp::config::statements,
    reassembly::config::statements,
    dhcp::config::statements,
    packet_generator::config::statements,
];

/// A configuration that is being collected.
#[derive(Default)]
pub(super) struct Collecting {
    statements: Vec<Statement>,
    /// Capabilities that were asked.
    asked: usize,
    routes: RouteStatements,
}

impl Collecting {
    /// Collects the next part; says whether there may be more.
    pub fn go_on(&mut self, router: &Router) -> bool {
        let (before, behind) = (BEFORE_ROUTES.get(self.asked), self.asked.checked_sub(BEFORE_ROUTES.len()));
        match (before, behind.and_then(|at| BEHIND_ROUTES.get(at))) {
            (None, None) => return false,
            (None, Some(_)) if self.routes.go_on(router, &mut self.statements) => return true,
            (Some(capability), _) | (None, Some(capability)) => capability(router, &mut self.statements),
        }
        self.asked += 1;
        true
    }
}

impl Router {
    /// What operators stated, in an order in which it can be stated again.
    pub fn running_config(&self) -> Vec<Statement> {
        let mut collecting = Collecting::default();
        while collecting.go_on(self) {}
        collecting.statements
    }

    /// The same, in pieces.
    pub(super) fn collect_config(&mut self) -> Vec<Statement> {
        let mut collecting = Collecting::default();
        while collecting.go_on(self) {
            self.breathe();
        }
        collecting.statements
    }

    /// What is stated in a plan, in pieces; the plan is no longer needed.
    pub(super) fn collect_plan(&mut self, plan: Router) -> Vec<Statement> {
        let mut collecting = Collecting::default();
        while collecting.go_on(&plan) {
            self.breathe();
        }
        self.aside(move || drop(plan));
        collecting.statements
    }
}
