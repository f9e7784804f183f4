//! The wall clock as text: what answers and reports show. Never part of what is written to FHIR.

use std::time::SystemTime;

use jiff::Timestamp;

/// Now as an HL7 DTM in UTC: `20260105081500+0000`.
pub fn hl7_now() -> String {
    Timestamp::now().strftime("%Y%m%d%H%M%S+0000").to_string()
}

/// A time as RFC 3339 in UTC, to the second.
pub fn rfc3339(at: SystemTime) -> String {
    Timestamp::try_from(at).map(|t| t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn known_instants() {
        assert_eq!(rfc3339(UNIX_EPOCH), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(951_782_461)), "2000-02-29T00:01:01Z");
        assert_eq!(hl7_now().len(), "20260105081500+0000".len());
    }
}
