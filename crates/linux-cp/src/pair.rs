//! The Linux side of a pair, as a kind of interface: a TAP that `lcp create` makes.

use crate::error::LcpError;
use crate::state::{Opened, Pairs};
use drivers::tap::{self, Kept, TapOptions};
use drivers::{Device, OpenError, stand_in};
use graph::InterfaceIndex;
use router::interface::config::removal;
use router::interface::kind::{InterfaceConfig, host_claim};
use router::{Error, Router};
use wire::MacAddress;

/// How `show hardware-interfaces` calls it.
pub const DRIVER: &str = "lcp";

/// How commands call the namespace of this process.
pub const OWN_NAMESPACE: &str = "clear";

/// A namespace as commands name it; none: that of this process.
pub fn namespace_of(named: &str) -> Option<&str> {
    Some(named).filter(|name| *name != OWN_NAMESPACE)
}

/// What makes one.
#[derive(Debug, Clone, Default)]
pub struct PairConfig {
    /// The router's interface.
    pub phy: InterfaceIndex,
    /// Its name, which is in the command.
    pub phy_name: String,
    /// The name in Linux.
    pub host: String,
    /// The network namespace in Linux; none: the one of this process.
    pub namespace: Option<String>,
    /// The Ethernet address of both sides.
    pub mac: Option<MacAddress>,
    pub mtu: u16,
    pub queues: u16,
}

impl PairConfig {
    /// How its keeper knows it.
    pub fn key(&self) -> String {
        host_claim(self.namespace.as_deref(), &self.host)
    }
}

impl InterfaceConfig for PairConfig {
    fn default_name(&self, router: &mut Router) -> String {
        let taken = |router: &Router, name: &str| router.interfaces.find(name).is_ok();
        let number = (0..).find(|number| !taken(router, &format!("lcp{number}"))).unwrap_or(0u32);
        format!("lcp{number}")
    }

    fn command(&self, _: &str) -> String {
        // By name, because the default may be another one when the command is given again.
        let namespace = self.namespace.as_deref().unwrap_or(OWN_NAMESPACE);
        format!("lcp create {} host-if {} netns {namespace}", self.phy_name, self.host)
    }

    fn undo(&self, _: &str) -> String {
        format!("lcp delete {}", self.phy_name)
    }

    fn claims(&self) -> Vec<String> {
        vec![host_claim(self.namespace.as_deref(), &self.host)]
    }

    fn check(&self, router: &Router) -> Result<(), Error> {
        let taken = self.claims().iter().find_map(|claim| router.interfaces.claimed(claim));
        taken.map_or(Ok(()), |taken| Err(LcpError::HostTaken(self.host.clone(), taken.name.clone()).into()))
    }

    fn needs(&self) -> Option<String> {
        Some(removal(&self.phy_name))
    }

    fn follows(&self) -> Option<InterfaceIndex> {
        Some(self.phy)
    }

    fn host(&self) -> Option<String> {
        Some(self.host.clone())
    }

    fn open(&self, router: &mut Router, _: &str) -> Result<Device, OpenError> {
        let options = TapOptions {
            host_interface_name: Some(self.host.clone()),
            host_namespace: self.namespace.clone(),
            host_mac: self.mac,
            host_mtu: Some(self.mtu.into()),
            host_is_down: true,
            queues: self.queues,
            ..TapOptions::default()
        };
        let key = self.key();
        let device = match router.state_mut::<Pairs>().keeper() {
            None => tap::open_alone(options)?,
            Some(keeper) => {
                let is_held = keeper.holds(&key).unwrap_or(false);
                let (device, Kept { holder, was_there }) = tap::open_kept(options, is_held)?;
                if let Err(error) = keeper.keep(&key, &holder) {
                    log::warn!("{} ends with the router: the process that keeps it is gone: {error}", self.host);
                }
                let opened = if was_there { Opened::WasThere } else { Opened::New };
                router.state_mut::<Pairs>().opened = Some(opened);
                device
            }
        };
        Ok(Device { driver: DRIVER, ..device })
    }

    fn stand_in(&self) -> Device {
        stand_in::open(DRIVER, tap::INPUT, self.host(), self.queues)
    }
}
