//! Persistent configuration: what operators stated, as the commands that state it again.
//!
//! Each capability lists its state of source *config* as statements ([`router::capability::Statement`]). Learned state
//! (neighbours, connected routes) is not part of it. `show running-config` prints the statements, `save` writes them to
//! a file. `load` goes the other way: the file's commands build a second router without devices ([`Plan`]). Where its
//! statements differ from this router's, steps are taken ([`plan`]), each with the command that undoes it. So the whole
//! file is checked, by the very code that carries it out, before anything changes.
//!
//! `rollback` goes back to the configuration before the last `load`. A `load` that needs confirmation goes back by
//! itself when the operator does not confirm it in time.

pub mod cli;
mod collect;
pub mod control;
mod plan;

pub use collect::running_config;
pub use control::{
    ConfigError, Configuration, compare_config, load_config, parse_config, restore_config, rollback_config, save_config,
};

use router::capability::{Description, Tick};

pub const CAPABILITY: Description = Description {
    name: "config",
    log_classes: &[("config", "config")],
    start: |starting| {
        starting.own(Configuration::default());
        Ok(())
    },
    commands: cli::register,
    ticks: &[Tick::new(control::tick_config, |router| router.state::<Configuration>().next_due())],
    ..Description::NONE
};
