//! When a message happened: the clinical clock of DESIGN §3.1, as an instant that compares across senders and offsets.
//!
//! Lives here: which field is the clock, and an HL7 time as an instant. Does not: time zones, which the caller knows
//! ([`LocalTime`]). Contract: a time of lower precision stands at its beginning; what is no valid time is no clock.

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
pub type LocalTime<'z> = &'z dyn Fn(&DateTime) -> Option<i64>;

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
    pub fn of(time: &DateTime, zone: LocalTime<'_>) -> Option<Clock> {
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
pub fn clock(message: &Message<'_>, zone: LocalTime<'_>) -> Option<(Clock, ClockSource)> {
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
pub fn message_time(message: &Message<'_>, zone: LocalTime<'_>) -> Option<Clock> {
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
fn latest(message: &Message<'_>, segment: &str, n: usize, zone: LocalTime<'_>) -> Option<Clock> {
    message.segments().filter(|s| s.name() == segment).filter_map(|s| instant(s.field(n), zone)).max()
}

/// A TS or DTM as an instant.
fn instant(element: hl7::Element<'_>, zone: LocalTime<'_>) -> Option<Clock> {
    Clock::of(&DateTime::parse(element.component(1).text().trim()).ok()?, zone)
}

/// A field of the first segment of a name; absent where there is none.
pub(crate) fn field<'t>(message: &Message<'t>, segment: &str, n: usize) -> hl7::Element<'t> {
    message.get(&hl7::Path::field(segment, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hours east of UTC.
    fn east(time: &DateTime) -> Option<i64> {
        let mut with_offset = time.clone();
        with_offset.offset = Some(120);
        Clock::of(&with_offset, &|_| None).map(Clock::seconds)
    }

    fn at(text: &str) -> Clock {
        Clock::of(&DateTime::parse(text).unwrap(), &east).unwrap()
    }

    #[test]
    fn instants_compare_across_offsets_and_precisions() {
        assert_eq!(at("19700101000000+0000"), Clock { seconds: 0, nanos: 0 });
        assert_eq!(at("20000229120000+0000").seconds(), 951_825_600);
        assert_eq!(at("20240301000000Z").seconds(), 1_709_251_200);
        assert_eq!(at("19000228235959+0000").seconds(), -2_203_891_201);
        assert_eq!(at("20240101120000-0530"), at("20240101173000+0000"));
        assert_eq!(at("20240101120000"), at("20240101100000+0000"));
        assert_eq!(at("2024"), at("20240101000000"));
        assert_eq!(at("202405"), at("202405010000"));
        assert!(at("20240101") < at("20240101000001"));
        assert_eq!(at("20240101000000.1230Z").nanos(), 123_000_000);
        assert!(at("20240101000000.0009") < at("20240101000000.001"));
    }

    #[test]
    fn bytes_sort_as_instants_do() {
        let mut instants: Vec<Clock> = ["2024", "1969", "1601", "9999"].map(at).to_vec();
        instants.extend([Clock { seconds: i64::MIN, nanos: 0 }, Clock { seconds: i64::MAX, nanos: 999_999_999 }]);
        let mut by_bytes = instants.clone();
        instants.sort();
        by_bytes.sort_by_key(|clock| clock.to_bytes());
        assert_eq!(instants, by_bytes);
        assert!(instants.iter().all(|clock| Clock::from_bytes(clock.to_bytes()) == Some(*clock)));
        assert_eq!(Clock::from_bytes([0xff; 12]), None);
    }

    fn of(message_type: &str, rest: &str) -> Option<(i64, ClockSource)> {
        let text = format!("MSH|^~\\&|A|B|C|D|20240101||{message_type}|1|P|2.5\r{rest}");
        let message = Message::parse(&text).unwrap();
        let new_year = at("20240101").seconds();
        clock(&message, &east).map(|(clock, source)| (clock.seconds() - new_year, source))
    }

    #[test]
    fn each_kind_of_message_has_its_clock() {
        let day = 86_400;
        assert_eq!(of("ADT^A01", "EVN|A01|20240102\r"), Some((day, ClockSource::EventRecorded)));
        assert_eq!(of("ADT^A01", "EVN|A01|20240102||||20240109\r"), Some((day, ClockSource::EventRecorded)));
        assert_eq!(of("ADT^A01", "EVN|A01|99999999\r"), Some((0, ClockSource::Message)));
        assert_eq!(of("ADT^A01", "EVN|A01|\"\"\r"), Some((0, ClockSource::Message)));
        assert_eq!(of("ADT^A01", ""), Some((0, ClockSource::Message)));
        let obr = |date: &str| format!("OBR|1{}{date}\r", "|".repeat(21));
        let obx = |date: &str| format!("OBX|1{}{date}\r", "|".repeat(18));
        let results = [obr("20240102"), obr("20240103"), obx("20240109")].concat();
        assert_eq!(of("ORU^R01", &results), Some((2 * day, ClockSource::ResultsReported)));
        assert_eq!(
            of("ORU^R01", &[obr(""), obx("20240103"), obx("20240102")].concat()),
            Some((2 * day, ClockSource::Analysed))
        );
        assert_eq!(of("ORM^O01", "ORC|NW||||||||20240104\rOBR|1\r"), Some((3 * day, ClockSource::OrderTransaction)));
        assert_eq!(of("ORM^O01", "ORC|NW\r"), Some((0, ClockSource::Message)));
        assert_eq!(of("MDM^T02", "EVN|T02|20240102\r"), Some((day, ClockSource::EventRecorded)));
    }

    #[test]
    fn no_time_is_no_clock() {
        let message = Message::parse("MSH|^~\\&|A|B|C|D|soon||ADT^A01|1|P|2.5\r").unwrap();
        assert_eq!(clock(&message, &east), None);
        let message = Message::parse("MSH|^~\\&|A|B|C|D|20240101||ADT^A01|1|P|2.5\r").unwrap();
        assert_eq!(clock(&message, &|_| None), None);
    }
}
