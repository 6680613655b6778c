//! Router advertisements (RFC 4861 section 6.2): they tell the hosts of a link which prefixes, which router and which
//! name servers (RFC 8106) to use.
//!
//! The control thread sends them, by a timer for each interface and when hosts ask ([`control`]). Their contents are in
//! [`settings`], their encoding in [`message`]. The router sends none unless an operator enables them: a router that is
//! connected to an existing network must not become the default router of its hosts (RFC 4861 6.2.1,
//! AdvSendAdvertisements).

mod cli;
mod config;
mod control;
mod message;
mod settings;

pub use control::{Advertising, set};
pub use settings::{PrefixSettings, Settings, SettingsError};

use crate::nd::OfRouters;
use router::capability::{Description, Farewell, Part, Parting, Phase, Tick};

pub const CAPABILITY: Description = Description {
    name: "router-advertisement",
    log_classes: &[("router_advertisement", "router_advertisement")],
    codes: &[SettingsError::CODES],
    description: "Routers advertise prefixes and themselves to IPv6 hosts (RFC 4861)",
    start: |starting| {
        starting.own(control::Advertising::default());
        starting.state::<OfRouters>().0 = Some(control::handle);
        Ok(())
    },
    hears: control::hears,
    farewells: &[Farewell {
        when: &[Parting::Down, Parting::Deleted, Parting::Exit, Parting::Readdressed],
        say: control::cease_advertising,
    }],
    commands: cli::register,
    statements: &[(Phase::OnInterfaces, Part::Few(config::statements))],
    ticks: &[Tick::new(control::tick, |router| router.state::<control::Advertising>().next_due())],
    ..Description::NONE
};
