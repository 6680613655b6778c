//! Interfaces on top of those of the host, past its network stack (AF_XDP).

mod cli;

use drivers::af_xdp::{self, BUDGET, Copying, MAX_QUEUES, Options, RING};
use drivers::{Device, OpenError, stand_in};
use router::capability::{Chapter, Description, Stage};
use router::interface::Interface;
use router::interface::kind::{self, InterfaceConfig, InterfaceKind, PortSyntax, host_claim, option};
use router::{Error, Router};
use wire::MacAddress;

pub const CAPABILITY: Description = Description {
    name: "af-xdp",
    description: "Network interfaces of the Linux kernel, by XDP sockets (AF_XDP)",
    log_classes: &[("af_xdp", "af_xdp")],
    commands: cli::register,
    kinds: &[InterfaceKind {
        driver: af_xdp::DRIVER,
        specimen: || Box::new(AfXdpConfig(Options::new("eth1"))),
        port: Some(PortSyntax { operand: "INTERFACE", of: |host| Box::new(AfXdpConfig(Options::new(host))) }),
    }],
    chapters: &[Chapter { stage: Stage::Receiving, title: "Devices, receiving", about: "", nodes: &[af_xdp::INPUT] }],
    ..Description::NONE
};

/// What makes one: the options of its driver.
#[derive(Debug, Clone)]
pub struct AfXdpConfig(pub Options);

impl InterfaceConfig for AfXdpConfig {
    fn default_name(&self, _: &mut Router) -> String {
        format!("{}/0", self.0.host_interface)
    }

    fn command(&self, name: &str) -> String {
        let Options { host_interface, receive_ring, transmit_ring, busy_poll, .. } = &self.0;
        let flag = |word: &str, is_set: bool| if is_set { format!(" {word}") } else { String::new() };
        let unless_usual = |size: u32| (size != RING).then_some(size);
        let queues = match self.0.queues {
            None => Some("all".to_string()),
            Some(1) => None,
            Some(queues) => Some(queues.to_string()),
        };
        let budget = busy_poll.map(|(_, budget)| budget).filter(|budget| *budget != BUDGET);
        [
            format!("create interface af_xdp host-if {host_interface}"),
            option("netns", self.0.namespace.as_ref()),
            option("num-rx-queues", queues),
            option("rx-queue-size", unless_usual(*receive_ring)),
            option("tx-queue-size", unless_usual(*transmit_ring)),
            option("prog", self.0.program.as_ref()),
            flag("zero-copy", self.0.copying == Copying::Never),
            flag("no-zero-copy", self.0.copying == Copying::Always),
            option("busy-poll-usecs", busy_poll.map(|(usecs, _)| usecs)),
            option("busy-poll-budget", budget),
            flag("no-syscall-lock", self.0.no_syscall_lock),
            flag("mac-reuse", self.0.reuses_mac),
            option("hw-addr", self.0.hw_address),
            format!(" name {name}"),
        ]
        .concat()
    }

    fn claims(&self) -> Vec<String> {
        vec![host_claim(self.0.namespace.as_deref(), &self.0.host_interface)]
    }

    /// On a TAP of this process it can lie: that is the other end.
    fn check(&self, router: &Router) -> Result<(), Error> {
        let claims = self.claims();
        let has_it = |other: &&Interface| other.creation.as_ref().is_some_and(|other| other.claims() == claims);
        match router.interfaces.iter().find(has_it) {
            Some(taken) => {
                let host = self.0.host_interface.clone();
                Err(Error::HostInterfaceTaken { host, name: taken.name.clone() })
            }
            None => Ok(()),
        }
    }

    fn mac(&self) -> Option<MacAddress> {
        self.0.hw_address
    }

    fn host(&self) -> Option<String> {
        Some(self.0.host_interface.clone())
    }

    fn open(&self, router: &mut Router, _: &str) -> Result<Device, OpenError> {
        af_xdp::open(&self.0, router.graph.pool())
    }

    fn stand_in(&self) -> Device {
        // Only the device knows how many queues it has.
        stand_in::open(af_xdp::DRIVER, af_xdp::INPUT, self.host(), self.0.queues.unwrap_or(MAX_QUEUES))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "netns" => self.0.namespace = Some(value.into()),
            "queues" => self.0.queues = Some(kind::queues(value)?),
            _ => return Err(kind::NO_SUCH_OPTION.into()),
        }
        Ok(())
    }
}
