//! `quiver loadtest soak`: hours at one rate.

use super::setup::{Common, Direction, ended, profile, seconds, session, watched};
use clap::Args;
use loadtest::device::quiver::MOST_ROUTES;
use loadtest::method::soak;
use loadtest::rate::Rate;
use loadtest::run::Plan;
use loadtest::session::Test;

#[derive(Args)]
pub struct Options {
    /// What is sent; unless given 'full-table' with routes, else 'bench-var2-64b'.
    #[arg(short, long, value_name = "NAME|FILE")]
    profile: Option<String>,
    /// Routes of the router under test: bgp:N are N prefixes as the Internet has them, bgp:1000000;
    /// beyond four million the rest are /24s.
    #[arg(long, value_name = "KIND:N", value_parser = routes)]
    routes: Option<usize>,
    /// How much each port sends.
    #[arg(short = 'm', long = "rate", default_value = "1mpps", value_name = "RATE")]
    rate: Rate,
    /// How long: 90, 10m, 8h.
    #[arg(short, long, default_value = "1h", value_name = "TIME", value_parser = time)]
    duration: f64,
    #[arg(long, value_enum, default_value = "uni")]
    direction: Direction,
    #[command(flatten)]
    common: Common,
}

fn routes(text: &str) -> Result<usize, String> {
    let count = text.strip_prefix("bgp:").and_then(|count| count.parse().ok());
    count.filter(|count| (1..=MOST_ROUTES).contains(count)).ok_or_else(|| format!("bgp:N, N from 1 to {MOST_ROUTES}"))
}

fn time(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.as_bytes().last() {
        Some(b'h') => (&text[..text.len() - 1], 3600.0),
        Some(b'm') => (&text[..text.len() - 1], 60.0),
        _ => (text, 1.0),
    };
    Ok(seconds(number)? * scale)
}

/// Does it.
///
/// # Errors
/// What failed, in words.
pub fn run(options: &Options) -> Result<(), String> {
    options.common.kept.check()?;
    let device = options.common.target.device();
    if options.routes.is_some() && !device.is_quiver() {
        return Err("'--routes' are of the router under test: '--dut quiver'".into());
    }
    let (mut session, mut setup) = (session(), options.common.setup.clone());
    if matches!(options.rate, Rate::Percent(_)) {
        setup.assume_line(&device, &mut session.notes);
    }
    let usual = if options.routes.is_some() { "full-table" } else { "bench-var2-64b" };
    let profile = profile(options.profile.as_deref().unwrap_or(usual))?;
    let plan = setup.plan(device, profile, options.direction, options.rate, options.duration)?;
    let plan = Plan { routes: options.routes, ..plan };
    let found = watched(Some(options.duration), |watch| soak::run(&plan, watch))?;
    super::super::say(found.to_string().as_bytes())?;
    for note in found.total.notes.iter().chain(&session.notes) {
        super::super::say(format!("Note: {note}\n").as_bytes())?;
    }
    let failure = found.failure().map(String::from);
    session.add(Test::Soak(Box::new(found)));
    options.common.kept.keep(&session)?;
    ended(failure.as_deref())
}
