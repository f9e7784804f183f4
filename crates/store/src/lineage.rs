//! What operators read: lineage from a correlation ID, counts, parked lists (DESIGN §1, promise 5 of §9).
//!
//! Every list is bounded by its caller. What does not live here: presentation.

use std::collections::BTreeMap;
use std::time::SystemTime;

use crate::{Resource, Verdict};

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Waits for delivery.
    Pending,
    /// The server shows it.
    Applied,
    /// Put aside under a code.
    Parked,
    /// Not taken.
    Rejected,
}

impl Status {
    /// The stored and shown name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Applied => "applied",
            Self::Parked => "parked",
            Self::Rejected => "rejected",
        }
    }

    /// Reads the stored name back.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Pending, Self::Applied, Self::Parked, Self::Rejected].into_iter().find(|status| status.as_str() == name)
    }
}

/// One receipt as traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptRow {
    /// UUIDv7.
    pub receipt_id: String,
    /// The message it brought, if parsable.
    pub message_id: Option<String>,
    /// Wall clock of the arrival.
    pub received_at: SystemTime,
    /// Name of the configured sender.
    pub sender: String,
    /// Address of the peer.
    pub peer: String,
    /// W3C traceparent.
    pub traceparent: String,
    /// The decision.
    pub verdict: Verdict,
    /// Why it was parked or rejected.
    pub code: Option<String>,
    /// The answer given.
    pub ack: Vec<u8>,
    /// Outcome codes raised.
    pub alerts: Vec<String>,
}

/// One message as traced (without its bytes: [`crate::Store::raw`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// Deterministic from content.
    pub message_id: String,
    /// Name of the configured sender.
    pub sender: String,
    /// `ADT^A01^ADT_A01` as understood.
    pub message_type: String,
    /// MSH-10 of the first receipt.
    pub message_control_id: String,
    /// The subject it is about.
    pub subject: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// Why it is parked or rejected.
    pub code: Option<String>,
    /// Version and digest of the mapping that judged it.
    pub mapping_version: String,
    /// The message this one corrects (DESIGN §4 row 5).
    pub corrects: Option<String>,
    /// First arrival.
    pub first_received_at: SystemTime,
    /// Latest arrival of the same content.
    pub last_received_at: SystemTime,
    /// `fullUrl` of each resource it touched.
    pub resources: Vec<String>,
}

/// One audit row as traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Place in the chain, from 1.
    pub seq: i64,
    /// Wall clock of the event.
    pub at: SystemTime,
    /// `received`, `delivered`, `parked`, …
    pub event: String,
    /// The receipt it is about.
    pub receipt_id: Option<String>,
    /// The message it is about.
    pub message_id: Option<String>,
    /// JSON.
    pub detail: String,
}

/// Everything a correlation ID leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Receipts in the order of arrival.
    pub receipts: Vec<ReceiptRow>,
    /// Messages in the order of first arrival.
    pub messages: Vec<MessageRow>,
    /// Resources those messages touched.
    pub resources: Vec<Resource>,
    /// Audit rows about these receipts and messages.
    pub audit: Vec<AuditRow>,
    /// More was found than is shown (each list holds at most [`TRACE_ROWS_MAX`]).
    pub truncated: bool,
}

/// Rows of each kind in a [`Trace`]; a sender with a constant MSH-10 must not fill the memory.
pub const TRACE_ROWS_MAX: usize = 200;

/// Numbers for metrics and the doctor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Receipts by verdict.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// Messages by status.
    pub statuses: BTreeMap<Status, u64>,
    /// Parked messages by code.
    pub parked_codes: BTreeMap<String, u64>,
    /// Parked subjects by code.
    pub parked_subjects: BTreeMap<String, u64>,
    /// Subjects with pending messages.
    pub dirty_subjects: u64,
    /// First arrival of the oldest pending message.
    pub oldest_pending: Option<SystemTime>,
}

/// A message put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedMessage {
    /// Where the next page starts (exclusive).
    pub cursor: i64,
    /// Deterministic from content.
    pub message_id: String,
    /// Why.
    pub code: String,
    /// Name of the configured sender.
    pub sender: String,
    /// `ADT^A01^ADT_A01` as understood.
    pub message_type: String,
    /// MSH-10 of the first receipt.
    pub message_control_id: String,
    /// The subject, if known.
    pub subject: Option<String>,
    /// First arrival.
    pub received_at: SystemTime,
}

/// A subject put aside: its messages wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedSubject {
    /// The subject; also where the next page starts (exclusive).
    pub subject: String,
    /// Why.
    pub code: String,
    /// What the server said, in short.
    pub summary: String,
}

/// Which parked messages and subjects to retry; every given part must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParkedFilter {
    /// Only this outcome code.
    pub code: Option<String>,
    /// Only this subject.
    pub subject: Option<String>,
    /// Only this message.
    pub message_id: Option<String>,
}

/// What a retry set going.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retried {
    /// Messages pending again.
    pub messages: u64,
    /// Subjects free again.
    pub subjects: u64,
    /// Messages that match but have no subject: they need [`crate::Store::reidentify`].
    pub without_subject: u64,
}

/// The verified audit chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditHead {
    /// Rows verified.
    pub rows: u64,
    /// Hash of the last row; noted elsewhere it proves that nothing was cut off since.
    pub hash: [u8; 32],
}
