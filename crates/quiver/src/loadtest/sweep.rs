//! `quiver loadtest sweep`: frames of many sizes.

use super::setup::{Common, Direction, ended, seconds, session, watched};
use clap::Args;
use loadtest::method::sweep::{self, SIZES};
use loadtest::profile::Profile;
use loadtest::rate::Rate;
use loadtest::run::Plan;
use loadtest::session::Test;

#[derive(Args)]
pub struct Options {
    /// Sizes of frames with their frame check sequence [default: 20 of 64 to 1518, around the edges of cache lines].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(64..=9220))]
    sizes: Vec<u32>,
    /// Seconds of each size.
    #[arg(short, long, default_value_t = 2.0, value_name = "SECONDS", value_parser = seconds)]
    duration: f64,
    #[command(flatten)]
    common: Common,
}

/// Does it.
///
/// # Errors
/// What failed, in words.
pub fn run(options: &Options) -> Result<(), String> {
    options.common.kept.check()?;
    let sizes = if options.sizes.is_empty() { SIZES.to_vec() } else { options.sizes.clone() };
    let (mut session, mut setup, device) = (session(), options.common.setup.clone(), options.common.target.device());
    setup.assume_line(&device, &mut session.notes);
    // Each size has its own.
    let profile = Profile::built_in("bench").map_err(|error| error.to_string())?;
    let plan = setup.plan(device, profile, Direction::Bi, Rate::Percent(100.0), options.duration)?;
    let plan = Plan { interval: plan.interval.min(plan.duration / 4), ..plan };
    let found = watched(Some(sizes.len() as f64 * options.duration), |watch| sweep::run(&plan, &sizes, watch))?;
    super::super::say(found.to_string().as_bytes())?;
    for note in &session.notes {
        super::super::say(format!("Note: {note}\n").as_bytes())?;
    }
    let failure = found.failure.clone();
    session.add(Test::Sweep(found));
    options.common.kept.keep(&session)?;
    ended(failure.as_deref())
}
