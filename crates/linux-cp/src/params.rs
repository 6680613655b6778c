//! What operators set for all pairs at once: a default of `startup.conf`, which a command may replace.

use std::collections::BTreeSet;

/// A switch of VPP's `lcp param`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Param {
    /// Packets of routes by interfaces that only Linux has go to Linux.
    RouteNoPaths,
    /// Interfaces in Linux have the addresses that the router's interface borrows.
    SyncUnnumbered,
    /// Routes go when their link goes down. They always do: the router has what Linux has.
    DelStatic,
    DelDynamic,
}

impl Param {
    pub const ALL: [Param; 4] = [Param::RouteNoPaths, Param::SyncUnnumbered, Param::DelStatic, Param::DelDynamic];

    /// The word of the commands, and of `startup.conf`.
    pub fn word(self) -> &'static str {
        match self {
            Param::RouteNoPaths => "route-no-paths",
            Param::SyncUnnumbered => "lcp-sync-unnumbered",
            Param::DelStatic => "del-static-on-link-down",
            Param::DelDynamic => "del-dynamic-on-link-down",
        }
    }
}

/// One switch.
#[derive(Debug, Clone, Copy, Default)]
struct Switch {
    startup: bool,
    stated: Option<bool>,
}

/// All switches, and the types of frames of VPP's `lcp ethertype enable`.
#[derive(Debug, Default)]
pub struct Params {
    switches: [Switch; Param::ALL.len()],
    /// Linux gets frames of these and of all other types that the router does not know.
    pub ethertypes: BTreeSet<u16>,
}

impl Params {
    /// What `startup.conf` says.
    pub fn new(startup: impl Fn(Param) -> bool) -> Params {
        let switches = Param::ALL.map(|param| Switch { startup: startup(param), stated: None });
        Params { switches, ethertypes: BTreeSet::new() }
    }

    pub fn is_on(&self, param: Param) -> bool {
        let switch = self.switches[param as usize];
        switch.stated.unwrap_or(switch.startup)
    }
    pub fn set(&mut self, param: Param, on: bool) {
        let switch = &mut self.switches[param as usize];
        switch.stated = (on != switch.startup).then_some(on);
    }

    /// What a command said that differs from `startup.conf`.
    pub fn stated(&self, param: Param) -> Option<bool> {
        self.switches[param as usize].stated
    }
}
