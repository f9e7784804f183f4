//! What comes in and what is answered: arrivals, verdicts, keys (DESIGN §4).
//!
//! What does not live here: the decision itself (`decide`) and its storage. Payloads are bytes.

use std::time::SystemTime;

/// The decision about one receipt (DESIGN §4). Stored and shown by its snake-case name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// Row 1: the same bytes came before.
    SkippedExact,
    /// Row 2: the same content came before, re-stamped or re-encoded.
    SkippedResend,
    /// Row 5: the same real-world event with new content.
    AppliedCorrection,
    /// Row 6: older than the subject's newest.
    AppliedLate,
    /// Row 7: new.
    Applied,
    /// Rows 8–10 and events without rules: stored, waits for an operator or for rules.
    Parked,
    /// Row 11: stored, not a message we can read or may take.
    Rejected,
}

impl Verdict {
    /// Every verdict, in the order of the decision table.
    pub const ALL: [Self; 7] = [
        Self::SkippedExact,
        Self::SkippedResend,
        Self::AppliedCorrection,
        Self::AppliedLate,
        Self::Applied,
        Self::Parked,
        Self::Rejected,
    ];

    /// The stored and shown name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SkippedExact => "skipped_exact",
            Self::SkippedResend => "skipped_resend",
            Self::AppliedCorrection => "applied_correction",
            Self::AppliedLate => "applied_late",
            Self::Applied => "applied",
            Self::Parked => "parked",
            Self::Rejected => "rejected",
        }
    }

    /// Reads the stored name back.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.as_str() == name)
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The sender used its MSH-10 for another real-world event before (DESIGN §4 row 4); raised once per key.
pub const CONTROL_ID_REUSE: &str = "CONTROL_ID_REUSE";
/// The same content under a new MSH-7 that is its only clock (DESIGN §4 row 3).
pub const RESTAMPED_CONTENT: &str = "RESTAMPED_CONTENT";

/// What the caller found out about the content before asking the store.
#[derive(Clone, Debug)]
pub enum Disposition {
    /// Map and deliver.
    Apply,
    /// Keep aside under this outcome code.
    Park(&'static str),
    /// Refuse under this outcome code.
    Reject(&'static str),
}

/// The keys and order of a parsed message.
#[derive(Clone, Debug)]
pub struct Identified {
    /// Deterministic from content; hex.
    pub message_id: String,
    /// SHA-256 of the canonical message without MSH-7, 10, 13–16, SFT.
    pub semantic_hash: [u8; 32],
    /// Sender + MSH-3, 4, 10.
    pub transport_key: String,
    /// Sender, event, patient, visit, clock; `None` where a part is missing.
    pub business_key: Option<[u8; 32]>,
    /// Bytes that sort as the chart's order key.
    pub order_key: Vec<u8>,
    /// The subject the message is about; `None` when parked or rejected without one.
    pub subject: Option<String>,
    /// `ADT^A01^ADT_A01` as understood.
    pub message_type: String,
    /// MSH-10 as sent.
    pub message_control_id: String,
}

/// One arrival to be made durable.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// UUIDv7, hyphenated.
    pub receipt_id: String,
    /// Wall clock of the arrival.
    pub received_at: SystemTime,
    /// Name of the configured sender.
    pub sender: String,
    /// Address of the peer, for operators.
    pub peer: String,
    /// W3C traceparent of the receipt.
    pub traceparent: String,
    /// The frame's bytes (for an oversize frame its head).
    pub raw: Vec<u8>,
    /// SHA-256 of the frame's bytes.
    pub raw_hash: [u8; 32],
    /// `None` when unparsable.
    pub identified: Option<Identified>,
    /// What to do if it is new.
    pub disposition: Disposition,
    /// Version and digest of the mapping that judged it.
    pub mapping_version: String,
    /// The answer to give if it is new.
    pub ack: Vec<u8>,
}

/// What became of an arrival; the answer in it is durable before this is returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The decision.
    pub verdict: Verdict,
    /// The message this receipt belongs to, if parsable.
    pub message_id: Option<String>,
    /// The bytes to answer with: the arrival's own, or for row 1 the stored answer again.
    pub ack: Vec<u8>,
    /// Alerts raised, by outcome code (`CONTROL_ID_REUSE`, …).
    pub alerts: Vec<&'static str>,
}
