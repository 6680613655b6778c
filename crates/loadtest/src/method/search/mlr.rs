//! Multiple Loss Ratio Search (RFC 9971): for each goal, the highest load whose loss the goal allows, found by many
//! short trials. A load is judged by all its trials together, so one bad second does not decide.
//!
//! RFC 2544's throughput (section 26.1) is the goal of one long trial without loss.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A goal of the search (RFC 9971, section 4.6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    pub name: String,
    /// A trial with more loss is a bad one.
    pub loss_ratio: f64,
    /// Trials of a load may be bad for this share of their time.
    pub exceed_ratio: f64,
    /// Seconds of a trial, and of all trials together that a load needs.
    pub final_trial: f64,
    pub duration_sum: f64,
    /// Seconds of the first trials.
    pub initial_trial: f64,
    /// How close the upper and lower bound must be, as a share of the upper one.
    pub width: f64,
    /// How many coarser searches precede it, each with twice the width.
    pub preceding: u32,
    /// How much wider each step outwards is.
    pub expansion: f64,
}

impl Goal {
    /// The goals of CSIT: no loss, and half a percent of it.
    pub fn csit() -> [Goal; 2] {
        let goal = |name: &str, loss_ratio| Goal {
            name: name.into(),
            loss_ratio,
            exceed_ratio: 0.5,
            final_trial: 1.0,
            duration_sum: 21.0,
            initial_trial: 1.0,
            width: 0.005,
            preceding: 2,
            expansion: 2.0,
        };
        [goal("NDR", 0.0), goal("PDR", 0.005)]
    }

    /// One long trial without loss: RFC 2544's throughput.
    pub fn rfc2544(trial: f64) -> Goal {
        let [ndr, _] = Goal::csit();
        Goal { name: "RFC 2544".into(), exceed_ratio: 0.0, final_trial: trial, duration_sum: trial, ..ndr }
    }
}

/// The result of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Packets a second that should be sent.
    pub load: f64,
    pub seconds: f64,
    pub loss_ratio: f64,
    /// The load tester did not keep the load; what it did not send counts as lost.
    #[serde(default)]
    pub is_own: bool,
}

/// Whether a load is too much only because of trials in which the load tester itself did not keep the load.
pub fn is_own_limit(goal: &Goal, trials: &[Measured], load: f64) -> bool {
    let kept: Vec<Measured> = trials.iter().copied().filter(|trial| !trial.is_own).collect();
    classify(goal, &kept, load) != Class::Upper
}

/// What is known of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Lower,
    Upper,
    Undecided,
}

/// The result of the search for a goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    pub goal: Goal,
    /// The relevant bounds, in packets a second. None: even the least load is too much, or the highest is not.
    pub lower: Option<f64>,
    pub upper: Option<f64>,
    /// What the device forwards at the lower bound, leaving out the share of time that may be bad.
    pub conditional_throughput: Option<f64>,
    /// The bounds are as close as the goal requires; else the search ended before they were.
    #[serde(default = "yes")]
    pub is_whole: bool,
    /// Why there is no result; and the load that is known to be good nevertheless, in place of the bounds.
    #[serde(default)]
    pub no_result: Option<String>,
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Trials at its two bounds, including those for other goals, and their seconds.
    pub trials: usize,
    pub seconds: f64,
}

impl Found {
    /// For a goal that was not searched for.
    pub fn none(goal: &Goal) -> Found {
        Found {
            goal: goal.clone(),
            lower: None,
            upper: None,
            conditional_throughput: None,
            is_whole: false,
            no_result: None,
            at_least: None,
            trials: 0,
            seconds: 0.0,
        }
    }

    /// Removes the bounds, and gives the reason.
    pub fn withhold(&mut self, why: String) {
        self.at_least = self.lower.take();
        (self.upper, self.conditional_throughput, self.no_result) = (None, None, Some(why));
    }
}

fn yes() -> bool {
    true
}

/// Judges a load for a goal by its trials (RFC 9971, appendix A). Short trials count only to the extent that they are
/// worse than the goal allows.
pub fn classify(goal: &Goal, trials: &[Measured], load: f64) -> Class {
    let own = || trials.iter().filter(|trial| same(trial.load, load));
    let sum = |full: bool, bad: bool| -> f64 {
        let wanted = |trial: &&Measured| is_full(goal, trial) == full && (trial.loss_ratio > goal.loss_ratio) == bad;
        own().filter(wanted).map(|trial| trial.seconds).sum()
    };
    let balancing = match goal.exceed_ratio < 1.0 {
        true => sum(false, false) * goal.exceed_ratio / (1.0 - goal.exceed_ratio),
        false => f64::INFINITY,
    };
    let bad = sum(true, true) + (sum(false, true) - balancing).max(0.0);
    let known = sum(true, false) + bad;
    let whole = known.max(goal.duration_sum);
    let allowed = whole * goal.exceed_ratio;
    let (optimistic, pessimistic) = (bad <= allowed + EPSILON, bad + whole - known <= allowed + EPSILON);
    match (optimistic, pessimistic) {
        (true, true) => Class::Lower,
        (false, false) => Class::Upper,
        _ => Class::Undecided,
    }
}

const EPSILON: f64 = 1e-9;

/// Whether a trial is as long as the goal requires, within rounding.
fn is_full(goal: &Goal, trial: &Measured) -> bool {
    trial.seconds >= goal.final_trial * (1.0 - 1e-6)
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.max(b)
}

/// What is forwarded at a load, leaving out the share of time that may be bad (RFC 9971, appendix B).
fn conditional_throughput(goal: &Goal, trials: &[Measured], load: f64) -> f64 {
    let mut own: Vec<&Measured> =
        trials.iter().filter(|trial| same(trial.load, load) && is_full(goal, trial)).collect();
    own.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
    let known: f64 = own.iter().map(|trial| trial.seconds).sum();
    let mut left = known.max(goal.duration_sum) * (1.0 - goal.exceed_ratio);
    let mut loss = 0.0;
    for trial in own {
        if left <= EPSILON {
            break;
        }
        loss = trial.loss_ratio;
        left -= trial.seconds;
    }
    load * (1.0 - loss)
}

/// Searches for goals, one after the other: measurements for one goal count for the next. `measure` runs a trial of a
/// load and a length; it returns none if interrupted. Loads are from `least` to `most`.
///
/// # Errors
/// Those of `measure`.
pub fn search<E>(
    goals: &[Goal],
    least: f64,
    most: f64,
    measure: &mut dyn FnMut(f64, Duration) -> Result<Option<Measured>, E>,
) -> Result<(Vec<Found>, Vec<Measured>), E> {
    let mut trials: Vec<Measured> = Vec::new();
    let mut found = Vec::new();
    // Start at the highest load: what is forwarded then shows where to search.
    let Some(first) = measure(most, Duration::from_secs_f64(goals.first().map_or(1.0, |goal| goal.initial_trial)))?
    else {
        return Ok((found, trials));
    };
    trials.push(first);
    let mut start = (first.load * (1.0 - first.loss_ratio)).clamp(least, most);
    for goal in goals {
        let mut is_whole = true;
        for step in (0..=goal.preceding).rev() {
            // Coarse and short first; the last step is the goal itself.
            let share = f64::from(step) / f64::from(goal.preceding.max(1));
            let seconds = goal.final_trial * (goal.initial_trial / goal.final_trial).powf(share);
            let target = Goal {
                width: goal.width * f64::from(1u32 << step),
                final_trial: seconds,
                duration_sum: if step == 0 { goal.duration_sum } else { seconds },
                ..goal.clone()
            };
            match refine(&target, (least, most), start, &mut trials, measure)? {
                Some(load) => start = load,
                None => {
                    is_whole = false;
                    break;
                }
            }
        }
        let (lower, upper) = bounds(goal, &trials);
        let bears = |trial: &&Measured| [lower, upper].iter().flatten().any(|load| same(trial.load, *load));
        let own: Vec<&Measured> = trials.iter().filter(bears).collect();
        found.push(Found {
            lower,
            upper,
            conditional_throughput: lower.map(|load| conditional_throughput(goal, &trials, load)),
            is_whole,
            no_result: None,
            at_least: None,
            trials: own.len(),
            seconds: own.iter().fold(0.0, |sum, trial| sum + trial.seconds),
            goal: goal.clone(),
        });
        if !is_whole {
            break;
        }
    }
    Ok((found, trials))
}

/// The relevant bounds: the least load that is too much, and the highest load below it that is not.
fn bounds(goal: &Goal, trials: &[Measured]) -> (Option<f64>, Option<f64>) {
    let mut loads: Vec<f64> = trials.iter().map(|trial| trial.load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup_by(|a, b| same(*a, *b));
    let of = |class| move |load: &f64| classify(goal, trials, *load) == class;
    let upper = loads.iter().copied().find(of(Class::Upper));
    let below = |load: &f64| upper.is_none_or(|upper| *load < upper);
    let lower = loads.iter().copied().filter(below).rfind(of(Class::Lower));
    (lower, upper)
}

/// Narrows the bounds of a goal to its width, starting at a load. Returns the load to continue from; none: interrupted.
fn refine<E>(
    goal: &Goal,
    (least, most): (f64, f64),
    start: f64,
    trials: &mut Vec<Measured>,
    measure: &mut dyn FnMut(f64, Duration) -> Result<Option<Measured>, E>,
) -> Result<Option<f64>, E> {
    let mut next = start;
    let mut step = goal.width;
    loop {
        // Repeat until this load is decided.
        while classify(goal, trials, next) == Class::Undecided {
            let Some(measured) = measure(next, Duration::from_secs_f64(goal.final_trial))? else { return Ok(None) };
            trials.push(measured);
        }
        next = match bounds(goal, trials) {
            (Some(lower), Some(upper)) if (upper - lower) / upper <= goal.width + EPSILON => return Ok(Some(lower)),
            // In the middle of the bounds, by ratio, while they are too wide.
            (Some(lower), Some(upper)) => (lower * upper).sqrt(),
            (Some(lower), None) if same(lower, most) => return Ok(Some(lower)),
            (None, Some(upper)) if same(upper, least) => return Ok(Some(least)),
            (Some(lower), None) => {
                let out = (lower / (1.0 - step).max(0.1)).min(most);
                step = (step * goal.expansion).min(0.9);
                out
            }
            (None, Some(upper)) => {
                let out = (upper * (1.0 - step).max(0.1)).max(least);
                step = (step * goal.expansion).min(0.9);
                out
            }
            (None, None) => unreachable!("a load was judged just now"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Searches a device whose loss at a load is known; `n` counts its trials.
    fn run(goals: &[Goal], most: f64, device: impl Fn(f64, usize) -> f64) -> (Vec<Found>, Vec<Measured>) {
        let mut n = 0;
        let mut measure = |load: f64, length: Duration| {
            n += 1;
            assert!(n < 2000, "it has an end");
            Ok::<_, Infallible>(Some(Measured {
                load,
                seconds: length.as_secs_f64(),
                loss_ratio: device(load, n),
                is_own: false,
            }))
        };
        let Ok(found) = search(goals, 1000.0, most, &mut measure);
        found
    }

    fn capacity(load: f64) -> impl Fn(f64, usize) -> f64 {
        move |offered, _| (1.0 - load / offered).max(0.0)
    }

    fn assert_near(found: &Found, load: f64) {
        let (Some(lower), Some(upper)) = (found.lower, found.upper) else { panic!("{found:?}, {load}") };
        assert!(
            lower <= load * (1.0 + 1e-6)
                && upper >= load * (1.0 - 1e-6)
                && (upper - lower) / upper <= found.goal.width + 1e-9,
            "{found:?}, {load}"
        );
    }

    #[test]
    fn the_planted_rate_is_found_within_the_width() {
        for planted in [1500.0, 7.3e4, 1e6, 3.33e6, 9.5e6] {
            let (found, trials) = run(&Goal::csit(), 1e7, capacity(planted));
            assert_near(&found[0], planted);
            // Half a percent of loss occurs slightly above that rate.
            assert_near(&found[1], planted / 0.995);
            let throughput = found[1].conditional_throughput.unwrap();
            assert!((throughput / planted - 1.0).abs() < 0.006, "{throughput} {planted}");
            assert_eq!(found[0].conditional_throughput, found[0].lower);
            assert!(trials.len() < 200, "{}", trials.len());
            // At the highest load one good trial is enough; otherwise each of the two bounds takes half of 21 seconds.
            assert!(found.iter().all(|found| found.is_whole && found.trials >= 22), "{found:?}");
        }
    }

    #[test]
    fn a_device_that_always_loses_a_little_has_no_rate_without_loss() {
        let (found, _) = run(&Goal::csit(), 1e7, |offered, _| 0.003f64.max(1.0 - 2e6 / offered));
        assert_eq!((found[0].lower, found[0].upper), (None, Some(1000.0)));
        assert_eq!(found[0].conditional_throughput, None);
        assert_near(&found[1], 2e6 / 0.995);
        // What is received is less than what is sent.
        let (lower, throughput) = (found[1].lower.unwrap(), found[1].conditional_throughput.unwrap());
        assert!(throughput <= lower * 0.997 + 1.0, "{lower} {throughput}");
    }

    #[test]
    fn a_device_without_limit_is_good_for_the_most_there_is() {
        let (found, _) = run(&Goal::csit(), 1e6, |_, _| 0.0);
        for found in found {
            assert_eq!((found.lower, found.upper, found.conditional_throughput), (Some(1e6), None, Some(1e6)));
            // Trials for the goal without loss also count for half a percent.
            assert!(found.trials >= 11 && found.seconds >= 11.0, "{found:?}");
        }
    }

    #[test]
    fn a_search_that_was_interrupted_says_so() {
        let mut left = 30;
        let mut measure = |load: f64, length: Duration| {
            left -= 1;
            let measured = Measured {
                load,
                seconds: length.as_secs_f64(),
                loss_ratio: (1.0 - 3e6 / load).max(0.0),
                is_own: false,
            };
            Ok::<_, Infallible>((left > 0).then_some(measured))
        };
        let Ok((found, _)) = search(&Goal::csit(), 1000.0, 1e7, &mut measure);
        let [ndr] = &found[..] else { panic!("{found:?}") };
        assert!(!ndr.is_whole, "{ndr:?}");
    }

    #[test]
    fn less_than_half_of_the_trials_may_be_bad() {
        // Every third trial has loss at any load.
        let noisy = |offered: f64, n: usize| if n.is_multiple_of(3) { 0.01 } else { (1.0 - 1e6 / offered).max(0.0) };
        let (found, _) = run(&Goal::csit(), 1e7, noisy);
        assert_near(&found[0], 1e6);
        // If no such trial is allowed, no rate qualifies.
        let strict = Goal { exceed_ratio: 0.0, ..Goal::csit()[0].clone() };
        let (found, _) = run(&[strict], 1e7, noisy);
        assert!(found[0].lower.is_none_or(|lower| lower < 1e6));
    }

    #[test]
    fn throughput_of_rfc_2544_is_one_long_trial() {
        let (found, trials) = run(&[Goal::rfc2544(60.0)], 1e7, capacity(4.2e6));
        assert_near(&found[0], 4.2e6);
        let long = trials.iter().filter(|trial| trial.seconds == 60.0).count();
        assert!((2..12).contains(&long), "{long} of {}", trials.len());
    }

    #[test]
    fn loads_are_judged_by_all_their_trials() {
        let [goal, _] = Goal::csit();
        let trials = |good: usize, bad: usize| {
            let trial = |loss_ratio| Measured { load: 5.0, seconds: 1.0, loss_ratio, is_own: false };
            [vec![trial(0.0); good], vec![trial(0.1); bad]].concat()
        };
        for (good, bad, class) in [
            (0, 0, Class::Undecided),
            (10, 0, Class::Undecided),
            (11, 0, Class::Lower),
            (0, 10, Class::Undecided),
            (0, 11, Class::Upper),
            (10, 10, Class::Undecided),
            (11, 10, Class::Lower),
            (10, 11, Class::Upper),
        ] {
            assert_eq!(classify(&goal, &trials(good, bad), 5.0), class, "{good} good, {bad} bad");
        }
        // A load that the load tester did not keep says nothing about the device.
        let own =
            |all: Vec<Measured>| all.into_iter().map(|trial| Measured { is_own: true, ..trial }).collect::<Vec<_>>();
        assert!(is_own_limit(&goal, &own(trials(0, 11)), 5.0));
        assert!(!is_own_limit(&goal, &trials(0, 11), 5.0));
        assert!(is_own_limit(&goal, &[trials(0, 8), own(trials(0, 5))].concat(), 5.0));
        // Bad short trials count, except as far as good ones make up for them.
        let short =
            |count: usize, loss_ratio| vec![Measured { load: 5.0, seconds: 0.5, loss_ratio, is_own: false }; count];
        assert_eq!(classify(&goal, &short(40, 0.1), 5.0), Class::Upper);
        assert_eq!(classify(&goal, &[short(40, 0.1), short(40, 0.0)].concat(), 5.0), Class::Undecided);
        assert_eq!(classify(&goal, &short(100, 0.0), 5.0), Class::Undecided);
    }
}
