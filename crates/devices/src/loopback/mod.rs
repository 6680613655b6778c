//! Loopback interfaces, for addresses that must not depend on a link.

mod cli;

use drivers::{Device, OpenError, loopback};
use router::capability::Description;
use router::interface::kind::{InterfaceConfig, InterfaceKind, option};
use router::{Error, Router};
use wire::MacAddress;

pub const CAPABILITY: Description = Description {
    name: "loopback",
    description: "Loopback interfaces, for addresses that need no link",
    codes: &[LoopbackError::CODES],
    commands: cli::register,
    kinds: &[InterfaceKind {
        driver: loopback::DRIVER,
        specimen: || Box::new(LoopbackOptions { instance: 0, mac: None }),
        port: None,
    }],
    ..Description::NONE
};

/// The stem of default names.
const NAME: &str = "loop";
/// What only one loopback can have.
const INSTANCE: &str = "loopback instance ";

/// The options of a loopback interface.
#[derive(Debug, Clone)]
pub struct LoopbackOptions {
    /// The loopback's number, which its default name contains.
    pub instance: u32,
    pub mac: Option<MacAddress>,
}

/// Why a loopback was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoopbackError {
    #[error("loopback {instance} is {name} already (without an instance the next free one is taken)")]
    Taken { instance: u32, name: String },
}

router::codes! { LoopbackError {
    Taken => "loopback-taken",
} }

/// The lowest number that no loopback has and whose name is free.
fn free_instance(router: &mut Router) -> u32 {
    router.interfaces.free_number(&[NAME, INSTANCE])
}

impl LoopbackOptions {
    fn claim(&self) -> String {
        format!("{INSTANCE}{}", self.instance)
    }
}

impl InterfaceConfig for LoopbackOptions {
    fn default_name(&self, _: &mut Router) -> String {
        format!("{NAME}{}", self.instance)
    }

    fn command(&self, name: &str) -> String {
        let mac = option("mac", self.mac);
        format!("create loopback interface instance {}{mac} name {name}", self.instance)
    }

    fn claims(&self) -> Vec<String> {
        vec![self.claim()]
    }

    fn check(&self, router: &Router) -> Result<(), Error> {
        match router.interfaces.claimed(&self.claim()) {
            Some(taken) => Err(LoopbackError::Taken { instance: self.instance, name: taken.name.clone() }.into()),
            None => Ok(()),
        }
    }

    fn mac(&self) -> Option<MacAddress> {
        self.mac
    }

    fn open(&self, _: &mut Router, _: &str) -> Result<Device, OpenError> {
        Ok(self.stand_in())
    }

    /// The device itself, which touches nothing of the host.
    fn stand_in(&self) -> Device {
        loopback::open(self.instance, self.mac)
    }
}
