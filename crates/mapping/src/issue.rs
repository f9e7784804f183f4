//! What mapping may have to say about a message besides its resources: stable codes, and where in the message.
//! Not here: errors that stop a message ([`crate::MapError`]) and faults of rule files ([`crate::Fault`]).
//! Contract: an issue names a place and a code, never the content found there.

use std::fmt;

use smol_str::SmolStr;

macro_rules! issue_codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// The stable codes of issues; each says what it means and what to do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum IssueCode {
            $($(#[doc = $doc])+ $name,)+
        }

        impl IssueCode {
            /// Every code, in order of declaration.
            pub const ALL: &'static [IssueCode] = &[$(IssueCode::$name,)+];

            /// The code as it appears in logs, metrics and answers.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(IssueCode::$name => $text,)+
                }
            }

            /// The meaning and what to do, for the table of codes in the documentation.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(IssueCode::$name => concat!($($doc),+),)+
                }
            }
        }
    };
}

issue_codes! {
    /// A code has no target in its code map. Where the element allows it the original coding is kept, else the element
    /// is left out. Add the code to the map, or have the sender send a code of the table.
    CodeUnmapped = "CODE_UNMAPPED",
    /// The name of a coding system is not in `systems.toml`: the coding has no system. Add the name.
    CodingSystemUnknown = "CODING_SYSTEM_UNKNOWN",
    /// A value is not a FHIR `code` (R4 §2.24.0.1). It is left out; correct it at the sender.
    InvalidCode = "INVALID_CODE",
    /// A value is not a date or time of HL7 v2 §2.A.22, or not one FHIR can hold. It is left out; correct it at the sender.
    InvalidDate = "INVALID_DATE",
    /// A value is not a number of HL7 v2 §2.A.46, or not in the range of its element. It is left out; correct it at the
    /// sender.
    InvalidNumber = "INVALID_NUMBER",
    /// A value is not a URI, OID or UUID, or not an `id`. It is left out; correct it at the sender.
    InvalidUri = "INVALID_URI",
    /// A value is not base64 (R4 §2.24.0.1). It is left out; correct it at the sender.
    InvalidBase64 = "INVALID_BASE64",
    /// A text holds control characters FHIR forbids; they are left out of it.
    ControlCharacters = "CONTROL_CHARACTERS",
    /// A local time does not exist or exists twice, because the clocks changed; the offset in force before the change is
    /// taken. Have the sender send offsets.
    LocalTimeAmbiguous = "LOCAL_TIME_AMBIGUOUS",
    /// A time to the hour is kept as its date, since FHIR has no hours without minutes; an instant of lower precision is
    /// taken at its beginning.
    PrecisionReduced = "PRECISION_REDUCED",
    /// A field repeats but its element does not: the first repetition is mapped, this one is kept raw.
    RepetitionDropped = "REPETITION_DROPPED",
    /// A segment stands where its structure has no place for it; it is mapped as if at its first place.
    SegmentOutOfOrder = "SEGMENT_OUT_OF_ORDER",
    /// A segment that the structure has once came again; it is kept raw and not mapped.
    SegmentRepeated = "SEGMENT_REPEATED",
    /// A segment that the structure does not have is kept raw.
    UnknownSegment = "UNKNOWN_SEGMENT",
    /// An identifier has no assigning authority and the sender's configuration gives none: it is kept without a system
    /// and never matched on. Configure the sender's `patient_id_system`, `visit_id_system` or authorities.
    IdentifierWithoutAuthority = "IDENTIFIER_WITHOUT_AUTHORITY",
    /// A resource has content but nothing that identifies it: it is not written. Configure a fallback, or have the sender
    /// send an identifier.
    NoIdentity = "NO_IDENTITY",
    /// Two places of the message say different things about one element of one resource; the first is taken.
    ConflictingValues = "CONFLICTING_VALUES",
    /// A resource lacks an element that R4 requires; it waits for a message that has it.
    RequiredMissing = "REQUIRED_MISSING",
    /// A value nests deeper than rules go; the rest of it is kept raw.
    DepthLimit = "DEPTH_LIMIT",
}

impl fmt::Display for IssueCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing to know about a message; the message maps all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// What.
    pub code: IssueCode,
    /// Where in the message.
    pub location: hl7::Location,
    /// Type and register of the resource concerned (`Patient.birthDate`), empty where none is.
    pub path: SmolStr,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_upper_case_unique_and_explained() {
        let mut seen = std::collections::BTreeSet::new();
        for code in IssueCode::ALL {
            assert!(code.as_str().chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit()));
            assert!(seen.insert(code.as_str()));
            assert!(code.meaning().len() > 20);
        }
    }
}
