//! What can go wrong, by what has to be done about it (DESIGN §5). No text quotes a resource, an identifier or an answer.

use std::fmt;
use std::time::Duration;

use fhir::OperationOutcome;
use smol_str::SmolStr;

/// A transaction did not succeed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TransactError {
    /// Somebody else changed or deleted a resource (409 or 412): read, compare, adopt or write again.
    #[error("the server holds another version than the one expected")]
    Conflict {
        /// `fullUrl`s of the resources concerned, where known.
        full_urls: Vec<SmolStr>,
    },
    /// An identifier matches several resources on the server: a person has to decide.
    #[error("an identifier matches several resources on the server")]
    MultipleMatches {
        /// `fullUrl` of the resource concerned, where known.
        full_url: Option<SmolStr>,
    },
    /// The resources do not make a bundle: the fault is in what was asked for.
    #[error("no bundle can be made: {fault}")]
    Malformed {
        /// `fullUrl` of the resource at fault.
        full_url: SmolStr,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The server will not take this bundle (400, 413, 422 …): trying again does not help.
    #[error("the server refuses the bundle with status {status}{}", summary(outcome.as_deref()))]
    Refused {
        /// HTTP status.
        status: u16,
        /// What the server said about it. May quote PHI, except in its `summary`.
        outcome: Option<Box<OperationOutcome>>,
    },
    /// The server does not take our credentials (401, 403): no message is at fault, stop writing.
    #[error("the server does not take our credentials (status {status})")]
    Unauthorized {
        /// HTTP status.
        status: u16,
    },
    /// Nothing was written, and later it may work: back off.
    #[error("the server is not available: {reason}")]
    Unavailable {
        /// Why.
        reason: Reason,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// It may have been written or not: read before the next write.
    #[error("the outcome of the transaction is unknown: {reason}")]
    Unknown {
        /// Why.
        reason: Reason,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
}

impl TransactError {
    /// Whether the server certainly did not write anything.
    pub fn certainly_not_written(&self) -> bool {
        !matches!(self, Self::Unknown { .. })
    }

    /// Whether the same bundle may succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unknown { .. })
    }

    /// How long the server asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_after, .. } | Self::Unknown { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// A read or search did not succeed. Nothing was written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LookupError {
    /// The server will not answer this question.
    #[error("the server refuses the search with status {status}{}", summary(outcome.as_deref()))]
    Refused {
        /// HTTP status, of the request or of one of its entries.
        status: u16,
        /// What the server said about it. May quote PHI, except in its `summary`.
        outcome: Option<Box<OperationOutcome>>,
    },
    /// The server does not take our credentials (401, 403).
    #[error("the server does not take our credentials (status {status})")]
    Unauthorized {
        /// HTTP status.
        status: u16,
    },
    /// Later it may work.
    #[error("the server is not available: {reason}")]
    Unavailable {
        /// Why.
        reason: Reason,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
}

impl From<LookupError> for TransactError {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::Refused { status, outcome } => Self::Refused { status, outcome },
            LookupError::Unauthorized { status } => Self::Unauthorized { status },
            LookupError::Unavailable { reason, retry_after } => Self::Unavailable { reason, retry_after },
        }
    }
}

/// A server cannot be written to.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is not one of a FHIR server.
    #[error("the base address is not an http or https address without query")]
    Address,
    /// The HTTP client cannot be set up, e.g. for want of trust anchors.
    #[error("the HTTP client cannot be set up")]
    Client(#[source] reqwest::Error),
    /// Something answers, but not a FHIR server.
    #[error("no CapabilityStatement at the base address (status {status})")]
    NoStatement {
        /// HTTP status.
        status: u16,
    },
    /// Another version of FHIR.
    #[error("the server speaks FHIR {found}, not 4.0")]
    Version {
        /// CapabilityStatement.fhirVersion
        found: SmolStr,
    },
    /// The server lacks what safe writing needs.
    #[error("the server cannot be written to safely: {0}")]
    Unsuitable(&'static str),
    /// The server did not answer a question of the probe.
    #[error("the server did not answer the probe")]
    Probe(#[source] TransactError),
}

impl ConnectError {
    /// Whether it may work later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Probe(error) if error.is_transient())
    }
}

/// Why there is no answer to go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No connection could be made.
    NoConnection,
    /// The connection ended before the answer did.
    ConnectionLost,
    /// No answer in time.
    TimedOut,
    /// The answer is longer than we read.
    AnswerTooLong,
    /// The answer is not JSON: cut off, or a page of something in between.
    NotJson,
    /// The answer is JSON, but not what belongs to the request.
    NotAnAnswer,
    /// An HTTP status without meaning for the request.
    Status(u16),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoConnection => "no connection",
            Self::ConnectionLost => "the connection was lost",
            Self::TimedOut => "no answer in time",
            Self::AnswerTooLong => "the answer is too long",
            Self::NotJson => "the answer is not JSON",
            Self::NotAnAnswer => "the answer does not belong to the request",
            Self::Status(status) => return write!(f, "status {status}"),
        })
    }
}

fn summary(outcome: Option<&OperationOutcome>) -> String {
    outcome.map(|outcome| format!(": {}", outcome.summary())).unwrap_or_default()
}
