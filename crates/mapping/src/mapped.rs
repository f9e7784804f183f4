//! What mapping a message gives: contributions, ledger and issues, or why it cannot be mapped.
//! Not here: how (`execute`, `assemble`).

use fhir::ResourceKey;
use hl7::Location;
use smol_str::SmolStr;

use crate::contribution::Contribution;
use crate::issue::Issue;
use crate::ledger::Ledger;

/// A message mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The structure it was mapped by: `ADT_A01`.
    pub structure: SmolStr,
    /// Whom it is about.
    pub subject: ResourceKey,
    /// What it says, one contribution per resource, in the order of their keys.
    pub contributions: Vec<Contribution>,
    /// What became of each of its parts.
    pub ledger: Ledger,
    /// What there is to know about it, in the order of the message.
    pub issues: Vec<Issue>,
}

/// Why a message cannot be mapped; it parks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// No rules for the event; it goes through by a retry once there are.
    #[error("no rules for the event at {location}")]
    UnsupportedEvent {
        /// MSH-9.
        location: Location,
    },
    /// Nothing identifies the patient: neither an identifier with an authority nor a configured system.
    #[error("no usable patient identity at {location}: {why}")]
    NoPatientIdentity {
        /// The segment that should have it.
        location: Location,
        /// What is missing.
        why: &'static str,
    },
    /// A code without a target, where its rule says `unmapped = "park"`.
    #[error("code at {location} has no target in {map}")]
    Parked {
        /// The code.
        location: Location,
        /// The code map.
        map: SmolStr,
    },
}

impl MapError {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnsupportedEvent { .. } => "UNSUPPORTED_EVENT",
            Self::NoPatientIdentity { .. } => "NO_PATIENT_IDENTITY",
            Self::Parked { .. } => "CODE_PARKED",
        }
    }

    /// Where in the message.
    pub const fn location(&self) -> &Location {
        match self {
            Self::UnsupportedEvent { location }
            | Self::NoPatientIdentity { location, .. }
            | Self::Parked { location, .. } => location,
        }
    }
}
