//! `quiver loadtest saturate`: what one core carries, and what a packet costs at each rate.

use super::setup::{Common, Direction, ended, profile, seconds, session, watched};
use clap::Args;
use loadtest::method::saturate::{self, RATES};
use loadtest::rate::Rate;
use loadtest::run::Plan;
use loadtest::session::Test;

#[derive(Args)]
pub struct Options {
    /// What is sent.
    #[arg(short, long, default_value = "bench", value_name = "NAME|FILE")]
    profile: String,
    /// Rates, one after the other [default: 1kpps,1mpps,10mpps,max].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    rates: Vec<Rate>,
    /// Seconds of each rate.
    #[arg(short, long, default_value_t = 5.0, value_name = "SECONDS", value_parser = seconds)]
    duration: f64,
    /// Print what the router under test says of its nodes at each rate.
    #[arg(long)]
    runtime: bool,
    #[command(flatten)]
    common: Common,
}

/// Does it.
///
/// # Errors
/// What failed, in words.
pub fn run(options: &Options) -> Result<(), String> {
    options.common.kept.check()?;
    let rates = if options.rates.is_empty() { RATES.to_vec() } else { options.rates.clone() };
    let mut session = session();
    let profile = profile(&options.profile)?;
    let plan = options.common.setup.plan(
        options.common.target.device(),
        profile,
        Direction::Uni,
        rates[0],
        options.duration,
    )?;
    let plan = Plan { interval: plan.interval.min(plan.duration / 4), ..plan };
    let found = watched(Some(rates.len() as f64 * options.duration), |watch| saturate::run(&plan, &rates, watch))?;
    super::super::say(found.to_string().as_bytes())?;
    if options.runtime {
        for step in &found.steps {
            let text = step.runtime.as_deref().unwrap_or("not known: the device is not in this process\n");
            super::super::say(format!("\nshow runtime at {}:\n{text}", step.rate).as_bytes())?;
        }
    }
    let failure = found.failure.clone();
    session.add(Test::Saturate(found));
    options.common.kept.keep(&session)?;
    ended(failure.as_deref())
}
