//! The head of a page: what was tested, when, on what, with which load, and in one sentence what came of it.

use super::{escaped, grouped};
use crate::arithmetic::{scaled, significant};
use crate::method::ramp::NEVER;
use crate::method::sweep::Step;
use crate::session::{Session, Test};
use crate::verdict::Bound;
use std::fmt::Write;

/// Tests whose results are in the sentence; others are below.
const MOST_SAID: usize = 4;
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The date of a time, in seconds since 1970, and the time of day: `25 November 2026`, `16:59 UTC`.
fn date(seconds: f64) -> (String, String) {
    // A session may say anything: what is no time of ours is the first or the last day of it.
    let seconds = seconds.clamp(0.0, 253_402_300_799.0) as u64;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the odd day of leap years is the last one; an era has 400 of them.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let calendar = if month < 10 { month + 2 } else { month - 10 };
    let year = era * 400 + year + u64::from(calendar < 2);
    let named = MONTHS[calendar as usize % 12];
    (format!("{of_month} {named} {year}"), format!("{:02}:{:02} UTC", rest / 3600, rest % 3600 / 60))
}

fn device(test: &Test) -> &str {
    match test {
        Test::Ramp(ramp) => &ramp.total.device,
        Test::Matrix(matrix) => &matrix.device,
        Test::Saturate(saturation) => &saturation.device,
        Test::Sweep(sweep) => &sweep.device,
        Test::Search(search) => &search.device,
        Test::Soak(soak) => &soak.total.device,
    }
}

/// What was offered.
fn load(test: &Test) -> String {
    let line = |bps: f64| format!("{}bit/s", scaled(bps));
    let ways = |both: bool| if both { "both ways" } else { "one way" };
    match test {
        Test::Ramp(ramp) => format!(
            "{} {} up to {} % of {}",
            ramp.total.profile,
            ways(ramp.total.bidirectional),
            significant(ramp.target),
            line(ramp.line_bps)
        ),
        Test::Matrix(matrix) => format!("1514 and 64 bytes, one way and both, at {}", line(matrix.line_bps)),
        Test::Saturate(found) => {
            let rates: Vec<&str> = found.steps.iter().map(|step| step.rate.as_str()).collect();
            format!("{} one way at {}", found.profile, rates.join(", "))
        }
        Test::Sweep(sweep) => {
            let sizes = || sweep.steps.iter().map(|step| step.frame);
            let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
            format!("frames of {least} to {most} bytes both ways at {}", line(sweep.line_bps))
        }
        Test::Search(search) => {
            format!("{} {}, up to {}", search.profile, ways(search.bidirectional), line(search.line_bps))
        }
        Test::Soak(soak) => format!(
            "{} {} at {} for {} s, {} routes",
            soak.total.profile,
            ways(soak.total.bidirectional),
            soak.total.rate,
            significant(soak.total.seconds),
            grouped(soak.routes as u64)
        ),
    }
}

/// What came of a test, as a part of a sentence.
fn result(test: &Test) -> String {
    let pps = |pps: f64| format!("{}pps", scaled(pps));
    let said = match test {
        Test::Ramp(ramp) => {
            let label = if ramp.label.is_empty() { String::new() } else { format!(" with {}", ramp.label) };
            match &ramp.overload {
                Some(at) => {
                    format!("{}{label} loses packets from {} on", ramp.total.device, pps(at.sent_pps))
                }
                None if ramp.not_found() == NEVER => {
                    format!(
                        "{}{label} never loses more than 0.1 %, with {} at most",
                        ramp.total.device,
                        pps(ramp.max_pps)
                    )
                }
                None => format!("where {}{label} begins to lose: {}", ramp.total.device, ramp.not_found()),
            }
        }
        Test::Matrix(matrix) => {
            let trials = || matrix.rows.iter().filter_map(|row| Some((row, row.trial.as_ref()?)));
            let best = trials().filter(|(_, trial)| trial.verdict.bound != Bound::NoResult);
            let best = best.max_by(|a, b| a.1.received_pps.total_cmp(&b.1.received_pps));
            match (best, trials().find_map(|(_, trial)| trial.verdict.why_no_result())) {
                (Some((row, trial)), _) => {
                    format!("{} carries {} at most ({})", matrix.device, pps(trial.received_pps), row.name)
                }
                (None, Some(why)) => format!("{}: no result: {why}", matrix.device),
                (None, None) => format!("{}: nothing was measured", matrix.device),
            }
        }
        Test::Saturate(found) => format!("one core of {} carries {}", found.device, found.most()),
        Test::Sweep(sweep) => {
            let bound = |step: &&Step| step.trial.verdict.bound;
            let disturbed = sweep.steps.iter().find_map(|step| step.trial.verdict.why_no_result());
            let own = sweep.steps.iter().filter(|step| bound(step) == Bound::Generator).count();
            match (sweep.verdict.bound, disturbed) {
                (Bound::CacheLine, _) => format!("{} is {}", sweep.device, sweep.verdict.line()),
                (_, Some(why)) => format!("dips of {}: no result: {why}", sweep.device),
                _ if own > 0 => format!(
                    "no dip of {} is known; at {own} of {} sizes the load tester was at its own limit",
                    sweep.device,
                    sweep.steps.len()
                ),
                _ => format!("{} carries no size slower than a longer one", sweep.device),
            }
        }
        Test::Search(search) => {
            let ports = if search.bidirectional { 2.0 } else { 1.0 };
            let goal = |found: &crate::method::search::mlr::Found| {
                let rate = match (&found.no_result, found.lower) {
                    (Some(why), _) => format!("no result: {why}"),
                    (None, Some(load)) => pps(load * ports),
                    (None, None) => "none".into(),
                };
                format!("{} {rate}", found.goal.name)
            };
            let same = search.found.first().and_then(|first| first.no_result.as_ref());
            match same.filter(|why| search.found.iter().all(|found| found.no_result.as_ref() == Some(why))) {
                Some(why) => {
                    let names: Vec<&str> = search.found.iter().map(|found| found.goal.name.as_str()).collect();
                    format!("{}: no result for {}: {why}", search.device, names.join(" and "))
                }
                None => {
                    let goals: Vec<String> = search.found.iter().map(goal).collect();
                    format!("{}: {}", search.device, goals.join(", "))
                }
            }
        }
        Test::Soak(soak) => {
            let total = &soak.total;
            let delay = total.latency.map_or(String::new(), |delay| {
                format!("; 99 % took {} us at most, the longest {} us", significant(delay.p99), significant(delay.max))
            });
            let not_sent = match total.kept_rate {
                true => String::new(),
                false => format!("; {} % of what was due was not sent", significant(100.0 * total.not_sent_share)),
            };
            let why = total.verdict.why_no_result();
            let why = why.map_or(String::new(), |why| format!("; no verdict: {why}"));
            format!(
                "{} lost {} of {} packets in {} s{delay}{not_sent}{why}",
                total.device,
                grouped(total.lost_packets),
                grouped(total.sent_packets),
                significant(total.seconds)
            )
        }
    };
    let interrupted = match test {
        Test::Ramp(ramp) => &ramp.interrupted,
        Test::Matrix(matrix) => &matrix.interrupted,
        Test::Saturate(saturation) => &saturation.interrupted,
        Test::Sweep(sweep) => &sweep.interrupted,
        Test::Search(search) => &search.interrupted,
        Test::Soak(soak) => &soak.interrupted,
    };
    interrupted.as_ref().map_or(said.clone(), |interrupted| format!("{said} ({interrupted})"))
}

fn distinct(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    all.for_each(|one| {
        if !seen.contains(&one) {
            seen.push(one);
        }
    });
    seen
}

/// `Load test of quiver and kernel, 25 November 2026`.
pub fn title(sessions: &[Session]) -> String {
    let devices = distinct(sessions.iter().flat_map(|session| &session.tests).map(|test| device(test).to_string()));
    let dates = distinct(sessions.iter().map(|session| date(session.started).0));
    let what = match devices.split_last() {
        Some((last, [])) => format!(" of {last}"),
        Some((last, others)) => format!(" of {} and {last}", others.join(", ")),
        None => String::new(),
    };
    format!("Load test{what}, {}", dates.join(", "))
}

/// What a page begins with.
pub fn write(out: &mut String, sessions: &[Session]) {
    let _ = writeln!(out, "<h1>{}</h1>", escaped(&title(sessions)));
    for session in sessions.iter().filter(|session| !session.others.during.is_empty()) {
        let _ = writeln!(out, "<p class=\"others\">{}.</p>", escaped(&session.others.to_string()));
    }
    let tests = || sessions.iter().flat_map(|session| &session.tests);
    let mut results: Vec<String> = tests().take(MOST_SAID).map(result).collect();
    let more = tests().count().saturating_sub(MOST_SAID);
    if more > 0 {
        results.push(format!("{more} more below"));
    }
    let sentence = results.join("; ");
    let mut letters = sentence.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let _ = writeln!(out, "<p class=\"summary\">{}.</p>", escaped(&format!("{first}{}", letters.as_str())));
    *out += "<table class=\"facts\">\n";
    let mut row = |name: &str, words: &[String]| {
        let words: Vec<String> = words.iter().map(|word| escaped(word)).collect();
        let _ = writeln!(out, "<tr><td>{name}</td><td class=\"words\">{}</td></tr>", words.join("<br>"));
    };
    let when = |session: &Session| {
        let (day, time) = date(session.started);
        format!("{day}, {time}")
    };
    let host = |session: &Session| {
        let machine = &session.machine;
        let host = if machine.host.is_empty() { "not known" } else { &machine.host };
        format!("{host}, Linux {}", machine.kernel)
    };
    let processor = |session: &Session| {
        let machine = &session.machine;
        let mhz = (machine.ticks_per_second / 1e6).round();
        format!("{}, {} cores, {mhz} MHz", machine.processor, machine.cores)
    };
    row("Date", &distinct(sessions.iter().map(when)));
    row("Host", &distinct(sessions.iter().map(host)));
    row("Processor", &distinct(sessions.iter().map(processor)));
    row("Load", &distinct(tests().map(load)));
    *out += "</table>\n";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_its_date() {
        for (seconds, day, time) in [
            (0.0, "1 January 1970", "00:00 UTC"),
            (951_782_399.0, "28 February 2000", "23:59 UTC"),
            (951_782_400.0, "29 February 2000", "00:00 UTC"),
            (1_795_573_476.2, "25 November 2026", "02:24 UTC"),
            (4_107_542_400.0, "1 March 2100", "00:00 UTC"),
            (1_704_067_199.0, "31 December 2023", "23:59 UTC"),
            (-5.0, "1 January 1970", "00:00 UTC"),
            (1e18, "31 December 9999", "23:59 UTC"),
            (f64::NAN, "1 January 1970", "00:00 UTC"),
        ] {
            assert_eq!(date(seconds), (day.to_string(), time.to_string()), "{seconds}");
        }
    }
}
