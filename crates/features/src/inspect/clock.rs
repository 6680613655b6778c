//! `show clock`, `show uptime`: the time as the router and its workers see it.

use super::Clears;
use command::{Args, Command, CommandSet, reply};
use graph::time;
use graph::worker::thread_name;
use router::Router;
use serde::Serialize;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 24 * 60 * 60;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "show clock",
            "Show the time, and when each worker began its last round.",
            |router: &mut Router, _: &Args| {
                let since = |ticks: u64| time::seconds(ticks.saturating_sub(router.state::<Clears>().origin));
                let workers = (0..router.graph.workers()).map(|thread| WorkerClock {
                    thread: thread + 1,
                    name: thread_name(thread),
                    last_round: router.graph.round_began(thread).map(since),
                });
                reply(ShowClock {
                    now: since(time::ticks()),
                    date: date(SystemTime::now()),
                    workers: workers.collect(),
                })
            },
        )
        .also("show clock verbose"),
    );
    set.add(Command::new(
        "show uptime",
        "Show how long the router has been running.",
        |router: &mut Router, _: &Args| {
            let up = router.started.elapsed();
            reply(ShowUptime { seconds: up.as_secs_f64(), since: date(SystemTime::now() - up) })
        },
    ));
}

/// As RFC 9110 5.6.7 writes dates.
fn date(time: SystemTime) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (days, rest) = (seconds / DAY, seconds % DAY);
    let (mut year, mut day) = (1970, days);
    let length = |year: u64| if is_leap(year) { 366 } else { 365 };
    while day >= length(year) {
        day -= length(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 0;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!(
        "{}, {:02} {} {year} {hours:02}:{minutes:02}:{seconds:02} GMT",
        WEEKDAYS[(days % 7) as usize],
        day + 1,
        MONTHS[month]
    )
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[derive(Serialize)]
struct WorkerClock {
    thread: usize,
    name: String,
    /// Seconds since the router started; none before the first round.
    last_round: Option<f64>,
}

#[derive(Serialize)]
struct ShowClock {
    /// Seconds since the router started.
    now: f64,
    date: String,
    workers: Vec<WorkerClock>,
}

impl fmt::Display for ShowClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Time now {:.6}, {}", self.now, self.date)?;
        for worker in &self.workers {
            match worker.last_round {
                Some(seconds) => writeln!(f, "{}: Time of last round {seconds:.6}", worker.thread)?,
                None => writeln!(f, "{}: no round yet", worker.thread)?,
            }
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct ShowUptime {
    seconds: f64,
    since: String,
}

impl fmt::Display for ShowUptime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds as u64;
        let (days, hours, minutes) = (seconds / DAY, seconds / 3600 % 24, seconds / 60 % 60);
        writeln!(f, "up {days} days, {hours:02}:{minutes:02}:{:02}, since {}", seconds % 60, self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_at_the_edges_of_years_and_months() {
        let at = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        // RFC 9110's own example.
        assert_eq!(at(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(951_782_399), "Mon, 28 Feb 2000 23:59:59 GMT");
        assert_eq!(at(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(at(1_798_761_599), "Thu, 31 Dec 2026 23:59:59 GMT");
        assert_eq!(at(4_107_542_400), "Mon, 01 Mar 2100 00:00:00 GMT");
    }

    #[test]
    fn uptime_is_in_days_and_hours() {
        let up = ShowUptime { seconds: 3.0 * DAY as f64 + 3723.9, since: "then".into() };
        assert_eq!(up.to_string(), "up 3 days, 01:02:03, since then\n");
    }
}
