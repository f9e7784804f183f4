//! The stable codes of everything an operator may see happen to a receipt, a message or a subject.
//!
//! Codes that mapping finds (`CODE_UNMAPPED`, `INVALID_DATE`, …) are `mapping::IssueCode`; the README's table has both.

use hl7::ack::AckCode;

/// An outcome that an operator can look up, alert on and retry by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The frame is larger than the listener's limit; its head is stored.
    FrameTooLarge,
    /// A new frame began before this one ended; what came is stored.
    FrameTruncated,
    /// The frame holds no bytes.
    FrameEmpty,
    /// The frame does not begin with an MSH segment.
    NotHl7,
    /// MSH-1 or MSH-2 can't separate anything.
    DelimitersInvalid,
    /// The bytes are UTF-16 or another encoding that HL7 framing can't carry.
    CharsetUnsupported,
    /// More segments, fields or bytes than the limits allow.
    MessageTooComplex,
    /// MSH-9 is empty.
    MessageTypeMissing,
    /// MSH-10 is empty.
    ControlIdMissing,
    /// MSH-12 is no version 2.x.
    VersionUnsupported,
    /// MSH-11 is not among the configured ones.
    ProcessingIdUnsupported,
    /// No rules for this trigger event yet.
    UnsupportedEvent,
    /// No patient identifier with an authority.
    NoPatientIdentity,
    /// Neither EVN-2 nor MSH-7 gives a time to order by.
    ClockMissing,
    /// A code whose rule says `unmapped = "park"` has no target.
    CodeUnmapped,
    /// A resource made from the message breaks R4.
    CheckFailed,
    /// The raw message is past its retention and can't be mapped again.
    RawExpired,
    /// The store could not make the message durable; it was not taken.
    StoreFailed,
    /// The FHIR server refused the bundle (400, 413, 422, …).
    FhirRefused,
    /// More than one resource on the server has the business identifier.
    FhirMultipleMatches,
    /// The FHIR server wants other credentials (401, 403).
    FhirUnauthorized,
    /// The FHIR server is down, overloaded or rate-limiting.
    FhirUnavailable,
    /// Someone else changed a resource in between (409, 412).
    FhirConflict,
    /// The answer was lost: the bundle may or may not have been applied.
    FhirOutcomeUnknown,
}

impl Outcome {
    /// Every outcome, in order of declaration.
    pub const ALL: [Self; 24] = [
        Self::FrameTooLarge,
        Self::FrameTruncated,
        Self::FrameEmpty,
        Self::NotHl7,
        Self::DelimitersInvalid,
        Self::CharsetUnsupported,
        Self::MessageTooComplex,
        Self::MessageTypeMissing,
        Self::ControlIdMissing,
        Self::VersionUnsupported,
        Self::ProcessingIdUnsupported,
        Self::UnsupportedEvent,
        Self::NoPatientIdentity,
        Self::ClockMissing,
        Self::CodeUnmapped,
        Self::CheckFailed,
        Self::RawExpired,
        Self::StoreFailed,
        Self::FhirRefused,
        Self::FhirMultipleMatches,
        Self::FhirUnauthorized,
        Self::FhirUnavailable,
        Self::FhirConflict,
        Self::FhirOutcomeUnknown,
    ];

    /// The code as stored, logged and counted.
    pub fn code(self) -> &'static str {
        match self {
            Self::FrameTooLarge => "FRAME_TOO_LARGE",
            Self::FrameTruncated => "FRAME_TRUNCATED",
            Self::FrameEmpty => "FRAME_EMPTY",
            Self::NotHl7 => "NOT_HL7",
            Self::DelimitersInvalid => "DELIMITERS_INVALID",
            Self::CharsetUnsupported => "CHARSET_UNSUPPORTED",
            Self::MessageTooComplex => "MESSAGE_TOO_COMPLEX",
            Self::MessageTypeMissing => "MESSAGE_TYPE_MISSING",
            Self::ControlIdMissing => "CONTROL_ID_MISSING",
            Self::VersionUnsupported => "VERSION_UNSUPPORTED",
            Self::ProcessingIdUnsupported => "PROCESSING_ID_UNSUPPORTED",
            Self::UnsupportedEvent => "UNSUPPORTED_EVENT",
            Self::NoPatientIdentity => "NO_PATIENT_IDENTITY",
            Self::ClockMissing => "CLOCK_MISSING",
            Self::CodeUnmapped => "CODE_UNMAPPED",
            Self::CheckFailed => "CHECK_FAILED",
            Self::RawExpired => "RAW_EXPIRED",
            Self::StoreFailed => "STORE_FAILED",
            Self::FhirRefused => "FHIR_REFUSED",
            Self::FhirMultipleMatches => "FHIR_MULTIPLE_MATCHES",
            Self::FhirUnauthorized => "FHIR_UNAUTHORIZED",
            Self::FhirUnavailable => "FHIR_UNAVAILABLE",
            Self::FhirConflict => "FHIR_CONFLICT",
            Self::FhirOutcomeUnknown => "FHIR_OUTCOME_UNKNOWN",
        }
    }

    /// MSA-1 and the HL7 table 0357 code of an answer that carries this outcome.
    pub fn answer(self) -> (AckCode, u16) {
        match self {
            Self::MessageTypeMissing | Self::ControlIdMissing => (AckCode::AR, 101),
            Self::VersionUnsupported => (AckCode::AR, 203),
            Self::ProcessingIdUnsupported => (AckCode::AR, 202),
            Self::NotHl7 | Self::FrameEmpty => (AckCode::AR, 100),
            Self::DelimitersInvalid | Self::CharsetUnsupported => (AckCode::AR, 102),
            Self::FrameTooLarge | Self::MessageTooComplex | Self::FrameTruncated => (AckCode::AR, 207),
            // Stored and mapped once rules exist: an engine that stopped its queue here would stop for nothing.
            Self::UnsupportedEvent => (AckCode::AA, 201),
            Self::NoPatientIdentity | Self::ClockMissing => (AckCode::AE, 101),
            Self::CodeUnmapped => (AckCode::AE, 103),
            Self::CheckFailed => (AckCode::AE, 102),
            _ => (AckCode::AE, 207),
        }
    }
}
