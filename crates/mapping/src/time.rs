//! HL7's DTM, DT and TM (HL7 v2 §2.A.22, §2.A.21, §2.A.75) to FHIR's date, dateTime, instant and time.
//! Not here: reading HL7's text (`hl7::DateTime`).
//! Contract: precision is kept, an offset is kept as sent, fractions keep their digits. A time without an offset takes
//! the sender's zone. Where the clocks change, the offset in force before the change is taken: a time that comes twice
//! is its first, a time that never was is as far after the change as it says; both are noted.
//! R4 wants seconds where there are minutes, and has no hours alone: seconds not sent are `00`, an hour alone is its date.

use std::fmt::Write;

use fhir::Json;
use hl7::DateTime;
use jiff::civil;
use jiff::tz::AmbiguousOffset;
use smol_str::{SmolStr, SmolStrBuilder};

use crate::convert::Converted;
use crate::issue::IssueCode;
use crate::sender::Zone;

/// Greatest offset R4 can write, in minutes.
const OFFSET_MINUTES_MAX: i32 = 14 * 60;

/// The date of a DTM or DT, as precise as it is, at most to the day.
pub(crate) fn date(text: &str) -> Converted {
    match DateTime::parse(text) {
        Ok(parsed) => Converted::good(Json::String(date_text(&parsed))),
        Err(_) => Converted::failed(IssueCode::InvalidDate),
    }
}

/// A dateTime: a date where no minutes are said.
pub(crate) fn date_time(text: &str, zone: &Zone) -> Converted {
    let Ok(parsed) = DateTime::parse(text) else { return Converted::failed(IssueCode::InvalidDate) };
    if parsed.minute.is_some() {
        return with_time(&parsed, zone);
    }
    let issue = parsed.hour.is_some().then_some(IssueCode::PrecisionReduced);
    Converted { json: Some(Json::String(date_text(&parsed))), issue }
}

/// An instant; one of lower precision is taken at its beginning, and noted where that is more than seconds.
pub(crate) fn instant(text: &str, zone: &Zone) -> Converted {
    let Ok(mut parsed) = DateTime::parse(text) else { return Converted::failed(IssueCode::InvalidDate) };
    let reduced = parsed.minute.is_none().then_some(IssueCode::PrecisionReduced);
    parsed.month.get_or_insert(1);
    parsed.day.get_or_insert(1);
    parsed.hour.get_or_insert(0);
    parsed.minute.get_or_insert(0);
    let converted = with_time(&parsed, zone);
    Converted { issue: converted.issue.or(reduced), ..converted }
}

/// The time of day of a TM (`HHMM[SS[.S]]`) or a DTM; FHIR's time has no zone.
pub(crate) fn time(text: &str) -> Converted {
    // A TM is a DTM without its date: any date makes it one.
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let parsed = if digits <= 6 { DateTime::parse(&["20000101", text].concat()) } else { DateTime::parse(text) };
    let Ok(parsed) = parsed else { return Converted::failed(IssueCode::InvalidDate) };
    let (Some(hour), Some(minute)) = (parsed.hour, parsed.minute) else {
        return Converted::failed(IssueCode::InvalidDate);
    };
    let mut out = SmolStrBuilder::new();
    push_time(&mut out, hour, minute, &parsed);
    Converted::good(Json::String(out.finish()))
}

fn with_time(parsed: &DateTime, zone: &Zone) -> Converted {
    let (Some(month), Some(day), Some(hour), Some(minute)) = (parsed.month, parsed.day, parsed.hour, parsed.minute)
    else {
        return Converted::failed(IssueCode::InvalidDate);
    };
    let (offset, ambiguous) = match parsed.offset {
        Some(offset) => (i32::from(offset), false),
        None => match local_offset(parsed, (month, day, hour, minute), zone) {
            Some(found) => found,
            None => return Converted::failed(IssueCode::InvalidDate),
        },
    };
    if offset.abs() > OFFSET_MINUTES_MAX {
        return Converted::failed(IssueCode::InvalidDate);
    }
    let mut out = SmolStrBuilder::new();
    push_date(&mut out, parsed);
    out.push('T');
    push_time(&mut out, hour, minute, parsed);
    let sign = if offset < 0 { '-' } else { '+' };
    let minutes = offset.abs();
    // Writing to a string cannot fail.
    let _ =
        write!(out, "{sign}{:02}:{:02}", minutes.checked_div(60).unwrap_or(0), minutes.checked_rem(60).unwrap_or(0));
    let issue = ambiguous.then_some(IssueCode::LocalTimeAmbiguous);
    Converted { json: Some(Json::String(out.finish())), issue }
}

/// Minutes of the zone's offset at a local time, and whether the clocks change there.
fn local_offset(parsed: &DateTime, (month, day, hour, minute): (u8, u8, u8, u8), zone: &Zone) -> Option<(i32, bool)> {
    let small = |n: u8| i8::try_from(n).ok();
    let year = i16::try_from(parsed.year).ok()?;
    let second = small(parsed.second.unwrap_or(0).min(59))?;
    let local = civil::DateTime::new(year, small(month)?, small(day)?, small(hour)?, small(minute)?, second, 0).ok()?;
    let (offset, ambiguous) = match zone.zone().to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => (offset, false),
        AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => (before, true),
    };
    // Offsets before standard time had seconds, which R4 cannot write.
    Some((offset.seconds().checked_div(60)?, ambiguous))
}

/// Seconds since 1970-01-01T00:00:00Z of the beginning of a time that was sent without an offset.
pub(crate) fn epoch_seconds(parsed: &DateTime, zone: &Zone) -> Option<i64> {
    let part = |n: Option<u8>, least: u8| n.unwrap_or(least);
    let (month, day) = (part(parsed.month, 1), part(parsed.day, 1));
    let (hour, minute) = (part(parsed.hour, 0), part(parsed.minute, 0));
    let (offset_minutes, _) = local_offset(parsed, (month, day, hour, minute), zone)?;
    let small = |n: u8| i8::try_from(n).ok();
    let year = i16::try_from(parsed.year).ok()?;
    let second = small(parsed.second.unwrap_or(0))?;
    let local = civil::DateTime::new(year, small(month)?, small(day)?, small(hour)?, small(minute)?, second, 0).ok()?;
    let as_utc = jiff::tz::Offset::UTC.to_timestamp(local).ok()?.as_second();
    as_utc.checked_sub(i64::from(offset_minutes).checked_mul(60)?)
}

fn date_text(parsed: &DateTime) -> SmolStr {
    let mut out = SmolStrBuilder::new();
    push_date(&mut out, parsed);
    out.finish()
}

fn push_date(out: &mut SmolStrBuilder, parsed: &DateTime) {
    let _ = write!(out, "{:04}", parsed.year);
    for part in [parsed.month, parsed.day].into_iter().map_while(|part| part) {
        let _ = write!(out, "-{part:02}");
    }
}

fn push_time(out: &mut SmolStrBuilder, hour: u8, minute: u8, parsed: &DateTime) {
    let _ = write!(out, "{hour:02}:{minute:02}:{:02}", parsed.second.unwrap_or(0));
    if let Some(fraction) = parsed.fraction.as_deref().filter(|fraction| !fraction.is_empty()) {
        out.push('.');
        out.push_str(fraction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> Zone {
        Zone::named("America/New_York").unwrap()
    }

    fn show(converted: Converted) -> (Option<String>, Option<&'static str>) {
        (converted.json.and_then(|json| json.as_str().map(str::to_owned)), converted.issue.map(IssueCode::as_str))
    }

    fn good(text: &str) -> (Option<String>, Option<&'static str>) {
        (Some(text.to_owned()), None)
    }

    #[test]
    fn precision_is_kept() {
        let shown = |text| show(date_time(text, &zone()));
        assert_eq!(shown("2024"), good("2024"));
        assert_eq!(shown("202402"), good("2024-02"));
        assert_eq!(shown("20240229"), good("2024-02-29"));
        assert_eq!(shown("202402291305"), good("2024-02-29T13:05:00-05:00"));
        assert_eq!(shown("20240701130501.120"), good("2024-07-01T13:05:01.120-04:00"));
        assert_eq!(shown("2024022913"), (Some("2024-02-29".into()), Some("PRECISION_REDUCED")));
    }

    #[test]
    fn an_offset_is_kept_as_sent() {
        let shown = |text| show(date_time(text, &zone()));
        assert_eq!(shown("20240229130501+0530"), good("2024-02-29T13:05:01+05:30"));
        assert_eq!(shown("202402291305-0030"), good("2024-02-29T13:05:00-00:30"));
        assert_eq!(shown("20240229130501+0000"), good("2024-02-29T13:05:01+00:00"));
    }

    #[test]
    fn where_clocks_change_the_offset_before_holds() {
        let shown = |text| show(date_time(text, &zone()));
        assert_eq!(shown("202403100230"), (Some("2024-03-10T02:30:00-05:00".into()), Some("LOCAL_TIME_AMBIGUOUS")));
        assert_eq!(shown("202411030130"), (Some("2024-11-03T01:30:00-04:00".into()), Some("LOCAL_TIME_AMBIGUOUS")));
    }

    #[test]
    fn what_is_no_date_gives_nothing() {
        for bad in ["20240230", "0000", "00000000", "2024-02-29", "20241301", "202402292500", "abc", "2024022913050160"]
        {
            assert_eq!(show(date_time(bad, &zone())), (None, Some("INVALID_DATE")), "{bad}");
        }
    }

    #[test]
    fn dates_instants_and_times() {
        assert_eq!(show(date("19800101123000+0100")), good("1980-01-01"));
        assert_eq!(show(date("1980")), good("1980"));
        assert_eq!(show(instant("20240229130501", &zone())), good("2024-02-29T13:05:01-05:00"));
        assert_eq!(
            show(instant("20240229", &zone())),
            (Some("2024-02-29T00:00:00-05:00".into()), Some("PRECISION_REDUCED"))
        );
        assert_eq!(show(time("1305")), good("13:05:00"));
        assert_eq!(show(time("130501.5")), good("13:05:01.5"));
        assert_eq!(show(time("20240229130501")), good("13:05:01"));
        assert_eq!(show(time("25")), (None, Some("INVALID_DATE")));
    }
}
