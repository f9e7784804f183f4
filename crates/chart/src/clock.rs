//! When a message happened: the clinical clock of DESIGN §3.1, as an instant that compares across senders and offsets.
//!
//! Lives here: which field is the clock, and an HL7 time as an instant. Does not: time zones, which the caller knows
//! ([`Zone`]). Contract: a time of lower precision stands at its beginning; what is no valid time is no clock.

use hl7::{DateTime, Message};

/// Nanoseconds of a second.
const SECOND_NS: u32 = 1_000_000_000;
/// Days from 0000-03-01 to 1970-01-01 in the Gregorian calendar.
const EPOCH_DAYS: i64 = 719_468;

/// An instant. It sorts, and so do its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clock {
    seconds: i64,
    nanos: u32,
}

/// Seconds since 1970-01-01T00:00:00Z of the beginning of a time that was sent without an offset, in the sender's zone.
/// `None` where that zone has no such time.
pub type Zone<'z> = &'z dyn Fn(&DateTime) -> Option<i64>;

/// Which field of a message is its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClockSource {
    /// EVN-2, recorded date/time.
    EventRecorded,
    /// The latest OBR-22, results report/status change.
    ResultsReported,
    /// The latest OBX-19, date/time of the analysis.
    Analysed,
    /// The latest ORC-9, date/time of transaction.
    OrderTransaction,
    /// MSH-7: nothing else says when, so the clock is about the message rather than the event.
    Message,
}

impl Clock {
    /// From seconds since 1970 in UTC and nanoseconds of that second.
    pub fn new(seconds: i64, nanos: u32) -> Option<Clock> {
        (nanos < SECOND_NS).then_some(Clock { seconds, nanos })
    }

    /// Seconds since 1970 in UTC.
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds of the second.
    pub fn nanos(self) -> u32 {
        self.nanos
    }

    /// The beginning of an HL7 time.
    pub fn of(time: &DateTime, zone: Zone<'_>) -> Option<Clock> {
        let seconds = match time.offset {
            Some(minutes) => civil_seconds(time).checked_sub(i64::from(minutes).checked_mul(60)?)?,
            None => zone(time)?,
        };
        let fraction = time.fraction.as_deref().unwrap_or_default();
        let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
        let nanos =
            digits.fold(0_u32, |n, digit| n.saturating_mul(10).saturating_add(u32::from(digit.saturating_sub(b'0'))));
        Clock::new(seconds, nanos)
    }

    /// Twelve bytes that sort as the instants do.
    pub(crate) fn to_bytes(self) -> [u8; 12] {
        let seconds = self.seconds.cast_unsigned() ^ (1 << 63);
        let mut out = [0; 12];
        let both = seconds.to_be_bytes().into_iter().chain(self.nanos.to_be_bytes());
        out.iter_mut().zip(both).for_each(|(to, from)| *to = from);
        out
    }

    /// Reads [`Clock::to_bytes`] back.
    pub(crate) fn from_bytes(bytes: [u8; 12]) -> Option<Clock> {
        let (seconds, nanos) = bytes.split_first_chunk::<8>()?;
        let seconds = (u64::from_be_bytes(*seconds) ^ (1 << 63)).cast_signed();
        Clock::new(seconds, u32::from_be_bytes(nanos.try_into().ok()?))
    }
}

/// Seconds since 1970 as if the time were in UTC, parts that were not sent taken at their least.
fn civil_seconds(time: &DateTime) -> i64 {
    let day = days(i64::from(time.year), i64::from(time.month.unwrap_or(1)), i64::from(time.day.unwrap_or(1)));
    let part = |n: Option<u8>, seconds: i64| i64::from(n.unwrap_or(0)).saturating_mul(seconds);
    day.saturating_mul(86_400)
        .saturating_add(part(time.hour, 3600))
        .saturating_add(part(time.minute, 60))
        .saturating_add(part(time.second, 1))
}

/// Days since 1970-01-01 of a date in the Gregorian calendar. Years are counted from March, so that a leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) =
        if month > 2 { (year, month.saturating_sub(3)) } else { (year.saturating_sub(1), month.saturating_add(9)) };
    let before_year =
        year.saturating_mul(365).saturating_add(year / 4).saturating_sub(year / 100).saturating_add(year / 400);
    let before_month = month.saturating_mul(153).saturating_add(2) / 5;
    before_year.saturating_add(before_month).saturating_add(day).saturating_sub(1).saturating_sub(EPOCH_DAYS)
}

/// The clinical clock of a message and where it was found; MSH-7 where there is no other. `None` where MSH-7 is no time
/// either.
pub fn clock(message: &Message<'_>, zone: Zone<'_>) -> Option<(Clock, ClockSource)> {
    let message_type = field(message, "MSH", 9).component(1).text();
    let latest = |segment, n| latest(message, segment, n, zone);
    let found = match message_type.as_ref() {
        "ORU" | "OUL" | "ORA" | "OPU" => latest("OBR", 22)
            .map(|clock| (clock, ClockSource::ResultsReported))
            .or_else(|| Some((latest("OBX", 19)?, ClockSource::Analysed))),
        order if is_order(order) => latest("ORC", 9).map(|clock| (clock, ClockSource::OrderTransaction)),
        // EVN stands in ADT, and in what else reports an event (BAR, DFT, MDM, PPR).
        _ => instant(field(message, "EVN", 2), zone).map(|clock| (clock, ClockSource::EventRecorded)),
    };
    found.or_else(|| Some((message_time(message, zone)?, ClockSource::Message)))
}

/// MSH-7 as an instant.
pub fn message_time(message: &Message<'_>, zone: Zone<'_>) -> Option<Clock> {
    instant(field(message, "MSH", 7), zone)
}

/// Orders and what fills them (HL7 v2 chapters 4 and 4A), and vaccinations, whose ORC is the same.
fn is_order(message_type: &str) -> bool {
    matches!(
        message_type,
        "ORM"
            | "ORR"
            | "OMG"
            | "ORG"
            | "OML"
            | "ORL"
            | "OMD"
            | "ORD"
            | "OMS"
            | "ORS"
            | "OMN"
            | "ORN"
            | "OMI"
            | "ORI"
            | "OMP"
            | "ORP"
            | "OMB"
            | "ORB"
            | "RDE"
            | "RRE"
            | "RDO"
            | "RDS"
            | "RRD"
            | "RGV"
            | "RRG"
            | "RAS"
            | "RRA"
            | "VXU"
    )
}

/// The greatest time in a field over all segments of a name.
fn latest(message: &Message<'_>, segment: &str, n: usize, zone: Zone<'_>) -> Option<Clock> {
    message.segments().filter(|s| s.name() == segment).filter_map(|s| instant(s.field(n), zone)).max()
}

/// A TS or DTM as an instant.
fn instant(element: hl7::Element<'_>, zone: Zone<'_>) -> Option<Clock> {
    Clock::of(&DateTime::parse(element.component(1).text().trim()).ok()?, zone)
}

/// A field of the first segment of a name; absent where there is none.
pub(crate) fn field<'t>(message: &Message<'t>, segment: &str, n: usize) -> hl7::Element<'t> {
    message.get(&hl7::Path::field(segment, n))
}
