//! The interface of streams as a kind of interfaces.

use drivers::{Carries, Device, OpenError, pg, stand_in};
use router::Router;
use router::interface::InterfaceConfig;

/// It has no options.
#[derive(Debug)]
pub struct Generator;

impl InterfaceConfig for Generator {
    fn default_name(&self, router: &mut Router) -> String {
        router.free_name("pg")
    }

    fn command(&self, name: &str) -> String {
        format!("create packet-generator interface {name}")
    }

    fn open(&self, router: &mut Router, _: &str) -> Result<Device, OpenError> {
        Ok(pg::open(router.interfaces.free_device(pg::DRIVER)))
    }

    fn stand_in(&self) -> Device {
        Device { carries: Carries::STREAMS, ..stand_in::open(pg::DRIVER, pg::INPUT, None, 0) }
    }
}
