//! `quiver loadtest search`: throughput, with and without a little loss.

use super::setup::{Common, Direction, ended, profile, seconds, session, watched};
use clap::Args;
use loadtest::method::search::mlr::Goal;
use loadtest::method::search::{self, Wanted};
use loadtest::rate::Rate;
use loadtest::run::Plan;
use loadtest::session::Test;
use std::time::Duration;

#[derive(Args)]
pub struct Options {
    /// What to send.
    #[arg(short, long, default_value = "bench-var2-64b", value_name = "NAME|FILE")]
    profile: String,
    /// Also RFC 2544's throughput: one trial of this many seconds without loss.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, num_args = 0..=1, default_missing_value = "60")]
    rfc2544: Option<f64>,
    /// Seconds of a trial (MLRsearch's final trial duration).
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = seconds)]
    trial: f64,
    /// Seconds of all trials that a load needs.
    #[arg(long, default_value_t = 21.0, value_name = "SECONDS", value_parser = seconds)]
    duration_sum: f64,
    /// Percent of this time that may be bad.
    #[arg(long, default_value_t = 50.0, value_name = "PERCENT", value_parser = share)]
    exceed: f64,
    /// How close the bounds must be, in percent.
    #[arg(long, default_value_t = 0.5, value_name = "PERCENT", value_parser = share)]
    width: f64,
    /// Loss that PDR allows, in percent.
    #[arg(long, default_value_t = 0.5, value_name = "PERCENT", value_parser = share)]
    pdr: f64,
    /// Percent of what is due that the load tester may leave out; more counts as lost (RFC 9971: all of it).
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT", value_parser = unsent)]
    unsent: f64,
    /// The maximum receive rate: what is received when the line is full, ten times.
    #[arg(long)]
    mrr: bool,
    /// Delay at 0, 10, 50, 90 and 100 % of the throughput without loss.
    #[arg(long)]
    latency: bool,
    /// Loss at rates from the line's rate down in steps of a tenth.
    #[arg(long)]
    loss_rate: bool,
    /// The longest burst at the line's rate that is forwarded without loss (back-to-back frames, RFC 9004): the mean of
    /// this many searches.
    #[arg(long, value_name = "TIMES", num_args = 0..=1, default_missing_value = "50",
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    back_to_back: Option<u16>,
    /// How long packets are lost after an overload of this many seconds (system recovery, RFC 2544).
    #[arg(long, value_name = "SECONDS", value_parser = seconds, num_args = 0..=1, default_missing_value = "60")]
    recovery: Option<f64>,
    #[arg(long, value_enum, default_value = "bi")]
    direction: Direction,
    #[command(flatten)]
    common: Common,
}

fn share(text: &str) -> Result<f64, String> {
    let share: Option<f64> = text.trim_end_matches('%').parse().ok();
    share.filter(|share| (0.001..100.0).contains(share)).ok_or_else(|| "percent, more than 0 and less than 100".into())
}

fn unsent(text: &str) -> Result<f64, String> {
    if text.trim_end_matches('%').parse() == Ok(0.0) { Ok(0.0) } else { share(text) }
}

/// Runs the command.
///
/// # Errors
/// What failed, as text.
pub fn run(options: &Options) -> Result<(), String> {
    options.common.kept.check()?;
    let (mut session, mut setup, device) = (session(), options.common.setup.clone(), options.common.target.device());
    setup.assume_line(&device, &mut session.notes);
    let profile = profile(&options.profile)?;
    let plan = setup.plan(device, profile, options.direction, Rate::Factor(1.0), options.trial)?;
    let plan = Plan { interval: plan.interval.min(plan.duration / 2), ..plan };
    let mut goals: Vec<Goal> = Goal::csit()
        .into_iter()
        .map(|goal| Goal {
            loss_ratio: if goal.loss_ratio == 0.0 { 0.0 } else { options.pdr / 100.0 },
            exceed_ratio: options.exceed / 100.0,
            final_trial: options.trial,
            initial_trial: options.trial.min(1.0),
            duration_sum: options.duration_sum.max(options.trial),
            width: options.width / 100.0,
            ..goal
        })
        .collect();
    goals.extend(options.rfc2544.map(Goal::rfc2544));
    let wanted = Wanted {
        goals,
        mrr: options.mrr,
        latency: options.latency,
        curve: options.loss_rate,
        unsent: options.unsent / 100.0,
        bursts: options.back_to_back.unwrap_or(0).into(),
        recovery: options.recovery.map(Duration::from_secs_f64),
    };
    // The number of trials is not known in advance.
    let found = watched(None, |watch| search::run(&plan, &wanted, watch))?;
    super::super::say(found.to_string().as_bytes())?;
    for note in &session.notes {
        super::super::say(format!("Note: {note}\n").as_bytes())?;
    }
    let failure = found.failure.clone();
    session.add(Test::Search(Box::new(found)));
    options.common.kept.keep(&session)?;
    ended(failure.as_deref())
}
