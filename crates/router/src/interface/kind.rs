//! Kinds of interfaces: what an interface of each is made of, and the command that makes it.
//!
//! A kind is a type that is an [`InterfaceConfig`]: the options of one interface. The folder of the kind also has its
//! commands. Nothing outside compares a driver's name: it asks the interface what it carries, or for the options of
//! the kind that it needs ([`Interface::options`]).

use super::Interface;
use super::config::removal;
use crate::{Devices, Error, Router};
use drivers::{Device, OpenError};
use graph::InterfaceIndex;
use std::any::Any;
use std::fmt;
use std::io::ErrorKind;
use wire::MacAddress;

/// How an interface was requested: the options for opening its device, and the command with the same options, so that
/// a saved configuration creates it again.
pub trait InterfaceConfig: Any + fmt::Debug + Send + Sync {
    /// The name of an interface that was created without one.
    fn default_name(&self, router: &mut Router) -> String;

    /// The command that creates it under a name.
    fn command(&self, name: &str) -> String;

    /// The command that removes it.
    fn undo(&self, name: &str) -> String {
        removal(name)
    }

    /// The interface whose settings it follows, so that none of its own are stated.
    fn follows(&self) -> Option<InterfaceIndex> {
        None
    }

    /// What only one interface can have: a host interface in its namespace ([`host_claim`]), or a number.
    fn claims(&self) -> Vec<String> {
        Vec::new()
    }

    /// Refuses what another interface has already. The name and the Ethernet address are checked by the caller.
    ///
    /// # Errors
    /// Which interface has it.
    fn check(&self, _router: &Router) -> Result<(), Error> {
        Ok(())
    }

    /// The commands that remove what must exist first.
    fn needs(&self) -> Option<String> {
        None
    }

    /// The Ethernet address that was requested.
    fn mac(&self) -> Option<MacAddress> {
        None
    }

    /// The host interface that it lies on.
    fn host(&self) -> Option<String> {
        None
    }

    /// What another interface can have only after this one's device is closed.
    fn held(&self) -> Option<String> {
        self.host()
    }

    /// Opens the device of an interface of that name.
    ///
    /// # Errors
    /// When the system refuses.
    fn open(&self, router: &mut Router, name: &str) -> Result<Device, OpenError>;

    /// In place of the device, for a router that is a plan: has its queues, and touches nothing of the host
    /// ([`drivers::stand_in`]).
    fn stand_in(&self) -> Device;

    /// Sets an option that is written `key=value`, as ports of a load test have them.
    ///
    /// # Errors
    /// What the value must be, or that there is no such option ([`NO_SUCH_OPTION`]).
    fn set(&mut self, _key: &str, _value: &str) -> Result<(), String> {
        Err(NO_SUCH_OPTION.into())
    }
}

/// What [`InterfaceConfig::set`] says of an option that the kind does not have.
pub const NO_SUCH_OPTION: &str =
    "not known of this driver: there are ip, gw, src, dst, vlan, speed, and of most drivers queues";

/// Most queues of a load test's port.
const MAX_PORT_QUEUES: u32 = 64;

/// A kind of interfaces.
pub struct InterfaceKind {
    /// Its driver's name.
    pub driver: &'static str,
    /// One of it, for a router that is a plan ([`crate::Devices::DryRun`]).
    pub specimen: fn() -> Box<dyn InterfaceConfig>,
    /// How a load test's port names one, if it can.
    pub port: Option<PortSyntax>,
}

/// How a load test's port names an interface, behind the driver's name.
pub struct PortSyntax {
    /// What stands behind a colon. Empty: nothing does.
    pub operand: &'static str,
    /// The interface of an operand.
    pub of: fn(&str) -> Box<dyn InterfaceConfig>,
}

/// Reads a number of [`InterfaceConfig::set`].
///
/// # Errors
/// Which numbers there are.
pub fn number(value: &str, most: u32) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("a number from 1 to {most}"))
}

/// Reads how many queues a port has.
///
/// # Errors
/// Which numbers there are.
pub fn queues(value: &str) -> Result<u16, String> {
    number(value, MAX_PORT_QUEUES).map(|queues| queues as u16)
}

/// An option of a command with its value, if it has one.
pub fn option(word: &str, value: Option<impl fmt::Display>) -> String {
    value.map_or(String::new(), |value| format!(" {word} {value}"))
}

/// The option for more than one receive queue.
pub fn queues_option(queues: u16) -> String {
    option("num-rx-queues", (queues > 1).then_some(queues))
}

/// What an interface claims that lies on a host interface of a namespace; none: the namespace of this process.
pub fn host_claim(namespace: Option<&str>, host: &str) -> String {
    format!("{} {host}", namespace.unwrap_or(""))
}

impl Interface {
    /// The options that it was created with, if it is of the kind that has options of this type.
    pub fn options<T: InterfaceConfig>(&self) -> Option<&T> {
        let creation: &dyn Any = self.creation.as_deref()?;
        creation.downcast_ref()
    }
}

impl Router {
    /// Makes an interface with its device; it starts administratively down.
    ///
    /// # Errors
    /// When the name is malformed or taken, the host interface is in use here already, or
    /// the system refuses; then nothing has changed.
    pub fn create(&mut self, name: &str, config: Box<dyn InterfaceConfig>) -> Result<InterfaceIndex, Error> {
        self.check_new_name(name)?;
        config.check(self)?;
        if let Some(mac) = config.mac().filter(|mac| mac.is_multicast() || mac.is_zero()) {
            return Err(Error::BadInterfaceMac(mac));
        }
        let device = match self.devices {
            Devices::Real => self.open(name, &*config)?,
            Devices::DryRun => config.stand_in(),
        };
        self.operation(|router| {
            let index = router.create_interface(name, device)?;
            router.interfaces.made_by(index, config)?;
            Ok(index)
        })
    }

    /// Opens the device of an interface that is to be created ([`Router::create_interface`]). A device that was removed
    /// just now stays open until the workers give it up and the janitor closes it. Until then the host would refuse
    /// another of its name, or hand out the old one. So this waits until such a device is closed.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open(&mut self, name: &str, config: &dyn InterfaceConfig) -> Result<Device, OpenError> {
        let unheard = match config.held().is_some_and(|held| self.closing.contains(&held)) {
            true => self.await_closing(),
            false => None,
        };
        match (config.open(self, name), unheard) {
            (Err(OpenError::System { what, source }), Some(worker)) if source.kind() == ErrorKind::ResourceBusy => {
                Err(OpenError::Refused(format!(
                    "{what}: worker {worker}, which is stuck ('show threads'), has it open still"
                )))
            }
            (outcome, _) => outcome,
        }
    }

    /// Waits until removed devices are closed. Returns a worker that did not answer, which may still have one open.
    fn await_closing(&mut self) -> Option<usize> {
        // Workers handle messages in order: one that answers has given up removed devices before.
        let unheard = (0..self.graph.workers()).find(|worker| self.graph.ask(*worker, |_| ()).is_err());
        if self.graph.janitor().wait() && unheard.is_none() {
            self.closing.clear();
        }
        unheard
    }
}
