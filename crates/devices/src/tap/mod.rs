//! TAP interfaces: the other end of each is a device of the host.

mod cli;

use drivers::tap::{self, TapOptions};
use drivers::{Device, OpenError, stand_in};
use router::capability::{Chapter, Description, Stage};
use router::interface::kind::{self, InterfaceConfig, InterfaceKind, PortSyntax, host_claim, option, queues_option};
use router::{Error, Router};
use wire::MacAddress;

pub const CAPABILITY: Description = Description {
    name: "tap",
    description: "TAP interfaces of the Linux kernel",
    log_classes: &[("tap", "tap")],
    codes: &[TapError::CODES],
    commands: cli::register,
    kinds: &[InterfaceKind {
        driver: tap::DRIVER,
        specimen: || Box::new(TapConfig(TapOptions::default())),
        port: Some(PortSyntax { operand: "NAME", of: |name| Box::new(TapConfig(port(name))) }),
    }],
    chapters: &[Chapter { stage: Stage::Receiving, title: "Devices, receiving", about: "", nodes: &[tap::INPUT] }],
    ..Description::NONE
};

fn port(name: &str) -> TapOptions {
    TapOptions { host_interface_name: Some(name.into()), ..TapOptions::default() }
}

/// What only one TAP can have.
const ID: &str = "tap id ";

/// Why a TAP was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TapError {
    #[error("the TAP with the id {id} is {name} already (without an id the next free one is taken)")]
    Taken { id: u32, name: String },
}

router::codes! { TapError {
    Taken => "tap-taken",
} }

/// The lowest number that no TAP has, and whose device no interface here uses in the namespace.
fn free_id(router: &mut Router, namespace: Option<&str>) -> u32 {
    router.interfaces.free_number(&[ID, &host_claim(namespace, "tap")])
}

/// What the host calls its end.
fn host_name(options: &TapOptions) -> String {
    options.host_interface_name.clone().unwrap_or_else(|| format!("tap{}", options.id))
}

/// What makes one: the options of its driver.
#[derive(Debug, Clone)]
pub struct TapConfig(pub TapOptions);

impl InterfaceConfig for TapConfig {
    fn default_name(&self, _: &mut Router) -> String {
        format!("tap{}", self.0.id)
    }

    fn command(&self, name: &str) -> String {
        [
            format!("create tap id {} name {name}", self.0.id),
            option("host-if-name", self.0.host_interface_name.as_ref()),
            option("host-ns", self.0.host_namespace.as_ref()),
            option("host-ip4-addr", self.0.host_ip4),
            option("host-ip6-addr", self.0.host_ip6),
            option("host-ip4-gw", self.0.host_gateway4),
            option("host-ip6-gw", self.0.host_gateway6),
            option("host-bridge", self.0.host_bridge.as_ref()),
            option("host-mac-addr", self.0.host_mac),
            option("host-mtu-size", self.0.host_mtu),
            option("hw-addr", self.0.hw_address),
            queues_option(self.0.queues),
        ]
        .concat()
    }

    fn claims(&self) -> Vec<String> {
        vec![host_claim(self.0.host_namespace.as_deref(), &host_name(&self.0)), format!("{ID}{}", self.0.id)]
    }

    fn check(&self, router: &Router) -> Result<(), Error> {
        match router.interfaces.claimed(&format!("{ID}{}", self.0.id)) {
            Some(taken) => Err(TapError::Taken { id: self.0.id, name: taken.name.clone() }.into()),
            None => Ok(()),
        }
    }

    fn mac(&self) -> Option<MacAddress> {
        self.0.hw_address
    }

    fn host(&self) -> Option<String> {
        Some(host_name(&self.0))
    }

    fn open(&self, _: &mut Router, _: &str) -> Result<Device, OpenError> {
        tap::open(self.0.clone())
    }

    fn stand_in(&self) -> Device {
        stand_in::open(tap::DRIVER, tap::INPUT, self.host(), self.0.queues)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "netns" => self.0.host_namespace = Some(value.into()),
            "queues" => self.0.queues = kind::queues(value)?,
            "id" => self.0.id = kind::number(value, 1 << 20)?,
            _ => return Err(kind::NO_SUCH_OPTION.into()),
        }
        Ok(())
    }
}
