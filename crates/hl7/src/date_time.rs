//! Times with the precision and offset they were sent with (HL7 v2.5.1 §2.A.22 DTM, TS).
//!
//! `YYYY[MM[DD[HH[MM[SS[.S[S[S[S…]]]]]]]]][+/-ZZZZ]`. Calendar days are checked; nothing is filled in.

use std::fmt;
use std::str::FromStr;

/// A DT, DTM or TS value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateTime {
    /// 1–9999.
    pub year: u16,
    /// 1–12.
    pub month: Option<u8>,
    /// 1–31, valid in its month.
    pub day: Option<u8>,
    /// 0–23.
    pub hour: Option<u8>,
    /// 0–59; given wherever the hour is and minutes were sent.
    pub minute: Option<u8>,
    /// 0–59. A leap second (60) is read as 59, since FHIR instants have none.
    pub second: Option<u8>,
    /// Digits after the decimal point, as sent.
    pub fraction: Option<String>,
    /// Minutes east of UTC.
    pub offset: Option<i16>,
}

/// A text is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DateTimeError {
    /// Not digits in the form YYYY[MM[DD[HH[MM[SS[.S…]]]]]][±ZZZZ].
    #[error("not of the form YYYY[MM[DD[HH[MM[SS[.S]]]]]][+/-ZZZZ]")]
    Form,
    /// A month, day, hour, minute, second or offset that does not exist.
    #[error("no such day or time")]
    Range,
}

/// Most digits of a fraction that are read; the standard has four.
const FRACTION_DIGITS_MAX: usize = 9;
/// The greatest offset in use, that of Kiritimati.
const OFFSET_MINUTES_MAX: i16 = 14 * 60;

impl DateTime {
    /// Reads a value; surrounding blanks are ignored.
    pub fn parse(text: &str) -> Result<Self, DateTimeError> {
        let text = text.trim();
        let (stamp, offset) = match text.find(['+', '-']) {
            Some(at) => (text.get(..at).unwrap_or_default(), Some(offset(text.get(at..).unwrap_or_default())?)),
            None => match text.strip_suffix('Z') {
                Some(stamp) => (stamp, Some(0)),
                None => (text, None),
            },
        };
        let (digits, fraction) = match stamp.split_once('.') {
            Some((digits, fraction)) => (digits, Some(fraction)),
            None => (stamp, None),
        };
        let even = matches!(digits.len(), 4 | 6 | 8 | 10 | 12 | 14);
        if !even || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(DateTimeError::Form);
        }
        let fraction = match fraction {
            None | Some("") => None,
            Some(f)
                if digits.len() == 14 && f.len() <= FRACTION_DIGITS_MAX && f.bytes().all(|b| b.is_ascii_digit()) =>
            {
                Some(f.to_owned())
            }
            Some(_) => return Err(DateTimeError::Form),
        };
        let part = |from: usize| digits.get(from..from.saturating_add(2)).and_then(|d| d.parse::<u8>().ok());
        let read = Self {
            year: digits.get(..4).and_then(|d| d.parse().ok()).ok_or(DateTimeError::Form)?,
            month: part(4),
            day: part(6),
            hour: part(8),
            minute: part(10),
            second: part(12).map(|s| if s == 60 { 59 } else { s }),
            fraction,
            offset,
        };
        if read.exists() { Ok(read) } else { Err(DateTimeError::Range) }
    }

    fn exists(&self) -> bool {
        let month = self.month.unwrap_or(1);
        let within = |value: Option<u8>, last: u8| value.is_none_or(|v| v <= last);
        self.year > 0
            && (1..=12).contains(&month)
            && self.day.is_none_or(|d| d >= 1 && d <= days_in(self.year, month))
            && within(self.hour, 23)
            && within(self.minute, 59)
            && within(self.second, 59)
    }

    /// Whether it has a time of day.
    pub fn has_time(&self) -> bool {
        self.hour.is_some()
    }
}

/// Days of a month in the Gregorian calendar.
fn days_in(year: u16, month: u8) -> u8 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `+0530`, `-0030`, `+05:30`.
fn offset(text: &str) -> Result<i16, DateTimeError> {
    let negative = text.starts_with('-');
    let digits: String = text.get(1..).unwrap_or_default().chars().filter(|&c| c != ':').collect();
    if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(DateTimeError::Form);
    }
    let value: i16 = digits.parse().map_err(|_| DateTimeError::Form)?;
    let (hours, minutes) = (value.div_euclid(100), value.rem_euclid(100));
    let total = hours.saturating_mul(60).saturating_add(minutes);
    if minutes > 59 || total > OFFSET_MINUTES_MAX {
        return Err(DateTimeError::Range);
    }
    Ok(if negative { total.saturating_neg() } else { total })
}

impl FromStr for DateTime {
    type Err = DateTimeError;

    fn from_str(text: &str) -> Result<Self, DateTimeError> {
        Self::parse(text)
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}", self.year)?;
        for part in [self.month, self.day, self.hour, self.minute, self.second].into_iter().map_while(|p| p) {
            write!(f, "{part:02}")?;
        }
        if let Some(fraction) = &self.fraction {
            write!(f, ".{fraction}")?;
        }
        if let Some(offset) = self.offset {
            let sign = if offset < 0 { '-' } else { '+' };
            let minutes = offset.unsigned_abs();
            write!(f, "{sign}{:02}{:02}", minutes.div_euclid(60), minutes.rem_euclid(60))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn precision_and_offset_are_kept() {
        for text in [
            "2024",
            "202402",
            "20240229",
            "2024022913",
            "202402291305",
            "20240229130501",
            "20240229130501.1234",
            "20240229130501.12-0530",
            "20240101-0030",
        ] {
            assert_eq!(DateTime::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(DateTime::parse("20240101-0030").unwrap().offset, Some(-30));
        assert_eq!(DateTime::parse("20240101000000-0530").unwrap().offset, Some(-330));
        assert_eq!(DateTime::parse("20000229+1400").unwrap().offset, Some(840));
        assert_eq!(DateTime::parse("20240101120000Z").unwrap().offset, Some(0));
        assert_eq!(DateTime::parse("20240101120000.").unwrap().fraction, None);
        assert_eq!(DateTime::parse("20161231235960").unwrap().second, Some(59));
        assert_eq!(DateTime::parse(" 20240101 ").unwrap().day, Some(1));
    }

    #[test]
    fn what_does_not_exist_is_refused() {
        for text in [
            "20240230",
            "20230229",
            "00000000",
            "0000",
            "20241301",
            "2024010124",
            "202401012460",
            "20240101+1500",
            "20240101+0060",
        ] {
            assert_eq!(DateTime::parse(text), Err(DateTimeError::Range), "{text}");
        }
        for text in [
            "",
            "2",
            "202",
            "20240",
            "2024-01-01",
            "yesterday",
            "20240101T10",
            "202401.5",
            "20240101000000.1234567890",
            "20240101+05",
            "20240101+",
            "２０２４",
        ] {
            assert_eq!(DateTime::parse(text), Err(DateTimeError::Form), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_parses_is_written_the_same(text in "[0-9]{4}(0[1-9]|1[0-2])(0[1-9]|1[0-9]|2[0-8])([01][0-9][0-5][0-9]([0-5][0-9](\\.[0-9]{1,4})?)?)?([+-](0[0-9]|1[0-3])[0-5][0-9])?") {
            prop_assume!(!text.starts_with("0000"));
            let read = DateTime::parse(&text).unwrap();
            let zero = text.replace("-0000", "+0000");
            prop_assert_eq!(read.to_string(), zero);
        }

        #[test]
        fn any_text_is_answered(text in ".{0,30}") {
            let _ = DateTime::parse(&text);
        }
    }
}
