//! FHIR `date`, `dateTime`, `instant` and `time` (R4 §2.24.0.1): their form, the calendar, and which comes first.
//!
//! Not here: HL7 v2 times. A year alone is no instant, so comparison answers only what is certain.

use std::cmp::Ordering;

/// Seconds of a day.
const DAY_S: i64 = 86_400;
/// A date without zone may begin up to 14 hours before it does in UTC and end up to 12 hours after (RFC 3339, tz database).
const ZONE_EAST_S: i64 = 14 * 3600;
const ZONE_WEST_S: i64 = 12 * 3600;

/// A date with the precision it was written in, or a date with time and zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateTime<'t> {
    year: u16,
    month: Option<u8>,
    day: Option<u8>,
    time: Option<Time<'t>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Time<'t> {
    second_of_day: u32,
    /// Digits after the point, without trailing zeros.
    fraction: &'t str,
    offset_minutes: i16,
}

/// Text is no FHIR date or dateTime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a date or dateTime")]
pub struct DateTimeFault;

impl<'t> DateTime<'t> {
    /// Reads `YYYY`, `YYYY-MM`, `YYYY-MM-DD` or `YYYY-MM-DDThh:mm:ss[.f]` with `Z` or an offset. The day must be in the calendar.
    pub fn parse(text: &'t str) -> Result<Self, DateTimeFault> {
        Self::read(text).ok_or(DateTimeFault)
    }

    fn read(text: &'t str) -> Option<Self> {
        let (date, time) = match text.split_once('T') {
            Some((date, time)) => (date, Some(read_time(time)?)),
            None => (text, None),
        };
        let mut parts = date.split('-');
        let year = number(parts.next()?, 4).filter(|year| *year > 0)?;
        let month = match parts.next() {
            Some(month) => Some(number(month, 2).filter(|m| (1..=12).contains(m))?),
            None => None,
        };
        let day = match (parts.next(), month) {
            (Some(day), Some(month)) => Some(number(day, 2).filter(|d| (1..=days_in(year, month)).contains(d))?),
            _ => None,
        };
        if parts.next().is_some() || (time.is_some() && day.is_none()) {
            return None;
        }
        let byte = |n: u16| u8::try_from(n).ok();
        Some(Self { year, month: month.and_then(byte), day: day.and_then(byte), time })
    }

    /// Has it a time of day, and so a zone?
    pub fn has_time(&self) -> bool {
        self.time.is_some()
    }

    /// Is it certain that this comes after the other? Of partial dates only what both have counts, and a date without zone
    /// may be anywhere on earth.
    pub fn is_after(&self, other: &DateTime<'_>) -> bool {
        match (self.time, other.time) {
            (None, None) => {
                let (mine, theirs) = (self.fields(), other.fields());
                let both = mine.iter().zip(theirs).take_while(|(a, b)| a.is_some() && b.is_some());
                both.map(|(a, b)| a.cmp(&b)).find(|o| o.is_ne()) == Some(Ordering::Greater)
            }
            (Some(a), Some(b)) => (self.latest_s(), a.fraction) > (other.latest_s(), b.fraction),
            _ => self.earliest_s() > other.latest_s(),
        }
    }

    fn fields(&self) -> [Option<u16>; 3] {
        [Some(self.year), self.month.map(u16::from), self.day.map(u16::from)]
    }

    /// Seconds since 1970 of its first moment.
    fn earliest_s(&self) -> i64 {
        let midnight = days(self.year, self.month.unwrap_or(1), self.day.unwrap_or(1)).saturating_mul(DAY_S);
        match self.time {
            Some(time) => midnight.saturating_add(time.utc_s()),
            None => midnight.saturating_sub(ZONE_EAST_S),
        }
    }

    /// Seconds since 1970 of its last moment.
    fn latest_s(&self) -> i64 {
        if self.time.is_some() {
            return self.earliest_s();
        }
        let month = self.month.unwrap_or(12);
        let last = u8::try_from(days_in(self.year, u16::from(month))).unwrap_or(31);
        let next_midnight = days(self.year, month, self.day.unwrap_or(last)).saturating_add(1).saturating_mul(DAY_S);
        next_midnight.saturating_add(ZONE_WEST_S)
    }
}

impl Time<'_> {
    fn utc_s(&self) -> i64 {
        i64::from(self.second_of_day).saturating_sub(i64::from(self.offset_minutes).saturating_mul(60))
    }
}

/// Is it `hh:mm:ss[.f]`, without zone (R4 §2.24.0.1 `time`)?
pub fn is_time(text: &str) -> bool {
    read_clock(text).is_some_and(|(_, rest)| rest.is_empty())
}

/// `hh:mm:ss[.f]` and a zone.
fn read_time(text: &str) -> Option<Time<'_>> {
    let ((second_of_day, fraction), zone) = read_clock(text)?;
    let offset_minutes = if zone == "Z" {
        0
    } else {
        let (sign, offset) = (zone.get(..1)?, zone.get(1..)?);
        let (hour, minute) = offset.split_once(':')?;
        let (hour, minute) = (number(hour, 2)?, number(minute, 2).filter(|m| *m < 60)?);
        let minutes = i16::try_from(hour.checked_mul(60)?.checked_add(minute)?).ok().filter(|m| *m <= 14 * 60)?;
        match sign {
            "+" => minutes,
            "-" => minutes.checked_neg()?,
            _ => return None,
        }
    };
    Some(Time { second_of_day, fraction, offset_minutes })
}

/// `hh:mm:ss[.f]`: second of the day and fraction, and what follows. Second 60 is allowed, as the standard does.
fn read_clock(text: &str) -> Option<((u32, &str), &str)> {
    let hour = number(text.get(..2)?, 2).filter(|h| *h < 24)?;
    let minute = number(text.get(2..5)?.strip_prefix(':')?, 2).filter(|m| *m < 60)?;
    let second = number(text.get(5..8)?.strip_prefix(':')?, 2).filter(|s| *s <= 60)?;
    let mut rest = text.get(8..)?;
    let mut fraction = "";
    if let Some(after) = rest.strip_prefix('.') {
        let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        (fraction, rest) = after.split_at_checked(end).filter(|(digits, _)| !digits.is_empty())?;
        fraction = fraction.trim_end_matches('0');
    }
    let minutes = u32::from(hour).saturating_mul(60).saturating_add(u32::from(minute));
    Some(((minutes.saturating_mul(60).saturating_add(u32::from(second)), fraction), rest))
}

/// A number of exactly so many digits.
fn number(text: &str, digits: usize) -> Option<u16> {
    let all_digits = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    if all_digits { text.parse().ok() } else { None }
}

fn days_in(year: u16, month: u16) -> u16 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the Gregorian calendar, by counting leap days of whole years before a year that begins in March.
fn days(year: u16, month: u8, day: u8) -> i64 {
    let (year, month) = if month > 2 {
        (i64::from(year), i64::from(month).saturating_sub(3))
    } else {
        (i64::from(year).saturating_sub(1), i64::from(month).saturating_add(9))
    };
    let day_of_year = month.saturating_mul(153).saturating_add(2).div_euclid(5).saturating_add(i64::from(day));
    let leap_days = year.div_euclid(4).saturating_sub(year.div_euclid(100)).saturating_add(year.div_euclid(400));
    // 719469 days lie between 0000-02-29 and 1970-01-01.
    year.saturating_mul(365).saturating_add(leap_days).saturating_add(day_of_year).saturating_sub(719_469)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(a: &str, b: &str) -> bool {
        DateTime::parse(a).unwrap().is_after(&DateTime::parse(b).unwrap())
    }

    #[test]
    fn the_calendar_and_the_zone_count() {
        for good in [
            "2020",
            "0001",
            "2020-12",
            "2020-02-29",
            "2000-02-29",
            "2020-01-01T00:00:00Z",
            "2020-01-01T23:59:60.000+14:00",
            "2020-01-01T23:59:59.1234567890-00:30",
        ] {
            assert!(DateTime::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "0000",
            "20200101",
            "2020-1-1",
            "2020-13",
            "2020-00",
            "2020-02-30",
            "1900-02-29",
            "2020-01-01T10:00:00",
            "2020-01-01T10:00Z",
            "2020-01-01T24:00:00Z",
            "2020-01T10:00:00Z",
            "2020-01-01T10:00:00.Z",
            "2020-01-01T10:00:00+14:01",
            "2020-01-01T10:00:00+0100",
            "2020-01-01T10:00:00é",
            "2020-01-01 ",
            "+202-01-01",
            "2020-01-01-01",
        ] {
            assert!(DateTime::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_certain_order_counts() {
        assert!(after("2020-01-02", "2020-01-01"));
        assert!(!after("2020-01-02", "2020-01"));
        assert!(after("2021", "2020-12-31"));
        assert!(after("2020-01-01T10:00:00+01:00", "2020-01-01T08:59:59Z"));
        assert!(!after("2020-01-01T10:00:00+01:00", "2020-01-01T09:00:00Z"));
        assert!(after("2020-01-01T10:00:00.2Z", "2020-01-01T10:00:00.19Z"));
        assert!(!after("2020-01-01T10:00:00.20Z", "2020-01-01T10:00:00.2Z"));
        assert!(!after("2020-01-02", "2020-01-01T23:00:00-05:00"));
        assert!(after("2020-01-03", "2020-01-01T10:00:00Z"));
        assert!(!after("2020-01-02T01:00:00Z", "2020-01-01"));
        assert!(after("2020-03-01T00:00:00Z", "2020-01"));
    }

    #[test]
    fn days_count_from_1970() {
        assert_eq!(days(1970, 1, 1), 0);
        assert_eq!(days(1970, 3, 1), 59);
        assert_eq!(days(2000, 3, 1), 11_017);
        assert_eq!(days(1969, 12, 31), -1);
    }
}
