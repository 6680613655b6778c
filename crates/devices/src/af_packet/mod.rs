//! Interfaces on top of those of the host, by AF_PACKET.

mod cli;

use drivers::af_packet::{self, AfPacketOptions};
use drivers::{Device, OpenError, stand_in};
use router::capability::{Chapter, Description, Stage};
use router::interface::Interface;
use router::interface::kind::{self, InterfaceConfig, InterfaceKind, PortSyntax, host_claim, option, queues_option};
use router::{Error, Router};
use wire::MacAddress;

pub const CAPABILITY: Description = Description {
    name: "af-packet",
    description: "Network interfaces of the Linux kernel, by packet sockets (AF_PACKET)",
    log_classes: &[("af_packet", "af_packet")],
    commands: cli::register,
    kinds: &[InterfaceKind {
        driver: af_packet::DRIVER,
        specimen: || Box::new(AfPacketConfig(port("eth0"))),
        port: Some(PortSyntax { operand: "INTERFACE", of: |host| Box::new(AfPacketConfig(port(host))) }),
    }],
    chapters: &[Chapter {
        stage: Stage::Receiving,
        title: "Devices, receiving",
        about: "",
        nodes: &[af_packet::INPUT],
    }],
    ..Description::NONE
};

fn port(host: &str) -> AfPacketOptions {
    AfPacketOptions { host_interface: host.into(), hw_address: None, queues: 1 }
}

/// The interface on top of a host interface.
fn on_host<'a>(router: &'a Router, host: &str) -> Option<&'a Interface> {
    let is_on = |interface: &&Interface| {
        interface.options().is_some_and(|options: &AfPacketConfig| options.0.host_interface == host)
    };
    router.interfaces.iter().find(is_on)
}

/// What makes one: the options of its driver.
#[derive(Debug, Clone)]
pub struct AfPacketConfig(pub AfPacketOptions);

impl InterfaceConfig for AfPacketConfig {
    fn default_name(&self, _: &mut Router) -> String {
        format!("host-{}", self.0.host_interface)
    }

    fn command(&self, name: &str) -> String {
        let (mac, queues) = (option("hw-addr", self.0.hw_address), queues_option(self.0.queues));
        // VPP's long form, because a host interface may be called `name`.
        format!("create host-interface name {}{mac}{queues} interface-name {name}", self.0.host_interface)
    }

    fn claims(&self) -> Vec<String> {
        vec![host_claim(None, &self.0.host_interface)]
    }

    fn check(&self, router: &Router) -> Result<(), Error> {
        let host = &self.0.host_interface;
        match on_host(router, host) {
            Some(interface) => Err(Error::HostInterfaceTaken { host: host.clone(), name: interface.name.clone() }),
            None => Ok(()),
        }
    }

    fn mac(&self) -> Option<MacAddress> {
        self.0.hw_address
    }

    fn host(&self) -> Option<String> {
        Some(self.0.host_interface.clone())
    }

    fn open(&self, _: &mut Router, _: &str) -> Result<Device, OpenError> {
        af_packet::open(self.0.clone())
    }

    fn stand_in(&self) -> Device {
        stand_in::open(af_packet::DRIVER, af_packet::INPUT, self.host(), self.0.queues)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "queues" => self.0.queues = kind::queues(value)?,
            _ => return Err(kind::NO_SUCH_OPTION.into()),
        }
        Ok(())
    }
}
