//! Wall time, to the millisecond, in UTC: logs of several machines stay in order, and no time
//! comes twice when clocks change in autumn.

use serde::{Serialize, Serializer};
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment of wall time. `Display` is RFC 3339: `2026-11-20T13:05:01.123Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    year: i64,
    month: u8,
    day: u8,
    /// Milliseconds of the day.
    millis: u32,
}

const MILLIS_OF_DAY: u64 = 86_400_000;

impl From<SystemTime> for Timestamp {
    /// A clock before 1970 is set wrong; it shows as 1970.
    fn from(time: SystemTime) -> Self {
        let millis = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let (year, month, day) = civil((millis / MILLIS_OF_DAY) as i64);
        Self { year, month, day, millis: (millis % MILLIS_OF_DAY) as u32 }
    }
}

/// Days since 1970 as a date of the Gregorian calendar. Years are counted from March on, so
/// that the day that leap years have is the last; 400 of them have 146,097 days.
fn civil(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + i64::from(month <= 2), month as u8, day as u8)
}

impl Timestamp {
    fn clock(self) -> (u32, u32, u32, u32) {
        let seconds = self.millis / 1000;
        (seconds / 3600, seconds / 60 % 60, seconds % 60, self.millis % 1000)
    }

    /// As VPP prints it: `2026/11/20 09:21:42:821`.
    pub fn vpp(self) -> String {
        let (hours, minutes, seconds, millis) = self.clock();
        let Self { year, month, day, .. } = self;
        format!("{year:04}/{month:02}/{day:02} {hours:02}:{minutes:02}:{seconds:02}:{millis:03}")
    }

    /// For names of files: `20261120T130501Z`.
    pub fn compact(self) -> String {
        let (hours, minutes, seconds, _) = self.clock();
        let Self { year, month, day, .. } = self;
        format!("{year:04}{month:02}{day:02}T{hours:02}{minutes:02}{seconds:02}Z")
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hours, minutes, seconds, millis) = self.clock();
        let Self { year, month, day, .. } = self;
        write!(f, "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, shown) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_795_179_901, "2026-11-20T13:05:01.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(Timestamp::from(time).to_string(), shown);
        }
    }

    #[test]
    fn vpp_prints_it_with_slashes_and_a_fourth_colon() {
        let time = UNIX_EPOCH + Duration::from_millis(1_795_166_502_821);
        assert_eq!(Timestamp::from(time).vpp(), "2026/11/20 09:21:42:821");
        assert_eq!(Timestamp::from(time).compact(), "20261120T092142Z");
    }
}
