//! Null interfaces, which discard what they send.

use command::{Args, Command, CommandSet};
use drivers::{Device, OpenError, null};
use router::Router;
use router::capability::Description;
use router::interface::cli::create;
use router::interface::kind::{InterfaceConfig, InterfaceKind, PortSyntax};
use wire::MacAddress;

pub const CAPABILITY: Description = Description {
    name: "null",
    description: "Interfaces that swallow what they are given",
    commands: register,
    kinds: &[InterfaceKind {
        driver: null::DRIVER,
        specimen: || Box::new(Null),
        port: Some(PortSyntax { operand: "", of: |_| Box::new(Null) }),
    }],
    ..Description::NONE
};

/// It has no options.
#[derive(Debug)]
pub struct Null;

impl InterfaceConfig for Null {
    fn default_name(&self, router: &mut Router) -> String {
        router.free_name("null")
    }

    fn command(&self, name: &str) -> String {
        format!("create null interface name {name}")
    }

    fn open(&self, router: &mut Router, _: &str) -> Result<Device, OpenError> {
        Ok(null::open(router.interfaces.free_device(null::DRIVER)))
    }

    fn stand_in(&self) -> Device {
        Device { mac: MacAddress::ZERO, ..null::open(0) }
    }
}

fn register(set: &mut CommandSet<Router>) {
    set.section("Interfaces", "");
    set.add(
        Command::new(
            "create null interface [name <name:word>]",
            "Create an interface that discards what it sends.",
            |router: &mut Router, args: &Args| create(router, args.optional_text("name"), Box::new(Null)),
        )
        .configures()
        .example("create null interface name n0"),
    );
}
