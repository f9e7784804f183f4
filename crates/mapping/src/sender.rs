//! What is known of a sender and a message from outside the message: time zone, authorities, the systems of
//! identifiers. Not here: reading configuration.

use std::collections::BTreeMap;

use jiff::tz::{TimeZone, TimeZoneDatabase};

/// An IANA time zone, looked up in the database that is compiled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

/// A name that is no IANA time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone `{name}`: use an IANA name such as Europe/Berlin")]
pub struct UnknownTimeZone {
    /// The name as configured.
    pub name: String,
}

impl Zone {
    /// The zone of an IANA name.
    pub fn named(name: &str) -> Result<Zone, UnknownTimeZone> {
        match TimeZoneDatabase::bundled().get(name) {
            Ok(zone) => Ok(Zone { name: name.to_owned(), zone }),
            Err(_) => Err(UnknownTimeZone { name: name.to_owned() }),
        }
    }

    /// The IANA name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Seconds since 1970-01-01T00:00:00Z of the beginning of a time that was sent without an offset; where the clocks
    /// change, by the offset in force before.
    pub fn epoch_seconds(&self, time: &hl7::DateTime) -> Option<i64> {
        crate::time::epoch_seconds(time, self)
    }

    pub(crate) fn zone(&self) -> &TimeZone {
        &self.zone
    }
}

/// What may identify an Encounter when PV1-19 does not, in the order configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EncounterFallback {
    /// PV1-50, the alternate visit id.
    AlternateVisitId,
    /// PID-18, the account number, where one account is one visit.
    AccountNumber,
    /// The patient and PV1-44, the admit time.
    AdmitTime,
}

/// A configured source of messages, as far as mapping depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Its name in the configuration.
    pub name: String,
    /// The zone of times sent without an offset.
    pub time_zone: Zone,
    /// Assigning authorities by namespace (HD.1): system URIs.
    pub authorities: BTreeMap<String, String>,
    /// Put before a namespace that `authorities` does not list; empty gives such an identifier no system.
    pub namespace_base: String,
    /// System of patient identifiers without an authority.
    pub patient_id_system: Option<String>,
    /// System of visit numbers without an authority.
    pub visit_id_system: Option<String>,
    /// See [`EncounterFallback`].
    pub encounter_fallbacks: Vec<EncounterFallback>,
    /// System of the identifiers and tags we make.
    pub own_system: String,
}

impl Sender {
    /// A sender with nothing configured but its zone: namespaces become `urn:id:<namespace>`.
    pub fn new(name: &str, time_zone: Zone) -> Sender {
        Sender {
            name: name.to_owned(),
            time_zone,
            authorities: BTreeMap::new(),
            namespace_base: "urn:id:".to_owned(),
            patient_id_system: None,
            visit_id_system: None,
            encounter_fallbacks: Vec::new(),
            own_system: "urn:sluice:id".to_owned(),
        }
    }
}

/// What one mapping depends on besides the message and the plan.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Who sent the message.
    pub sender: &'a Sender,
    /// The deployment's key for identifiers of ours (HMAC-SHA256).
    pub identity_key: &'a [u8],
    /// The message's deterministic id.
    pub message_id: &'a str,
    /// Whether to write a MessageHeader.
    pub message_header: bool,
}

impl std::fmt::Debug for Context<'_> {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("sender", &self.sender.name)
            .field("message_id", &self.message_id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_come_from_the_bundled_database() {
        assert_eq!(Zone::named("Europe/Berlin").unwrap().name(), "Europe/Berlin");
        assert!(Zone::named("Mars/Olympus").is_err());
        assert!(Zone::named("../etc/passwd").is_err());
    }
}
