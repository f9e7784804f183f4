//! The deliver side: leases on subjects, the messages under them, attempts and settlements (DESIGN §2, §5, §7).
//!
//! A lease carries an epoch that grows with every claim of its subject; each write under a claim names it, so that
//! a holder whose lease was taken over can finish nothing. What does not live here: what a checkpoint or bundle means.

use std::time::SystemTime;

use crate::Verdict;

/// The right to write for one subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    /// The subject held.
    pub subject: String,
    /// Grows with every claim of the subject.
    pub epoch: i64,
}

/// A message of S with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Deterministic from content.
    pub message_id: String,
    /// The subject it is about.
    pub subject: String,
    /// Name of the configured sender.
    pub sender: String,
    /// `ADT^A01^ADT_A01` as understood.
    pub message_type: String,
    /// MSH-10 of the first receipt.
    pub message_control_id: String,
    /// The smallest order key over its receipts.
    pub order_key: Vec<u8>,
    /// Version and digest of the mapping that judged it.
    pub mapping_version: String,
    /// Its first receipt's verdict.
    pub verdict: Verdict,
    /// Its order key became smaller after it was applied: what was folded with the greater key is to be folded anew.
    pub refold: bool,
    /// W3C traceparent of its first receipt.
    pub traceparent: String,
    /// When it first came.
    pub received_at: SystemTime,
    /// The first receipt's bytes; `None` past the retention.
    pub raw: Option<Vec<u8>>,
}

/// A bundle that was sent or was about to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Chosen by the caller, unique.
    pub attempt_id: String,
    /// `fullUrl` of each resource in it (and of those in unsettled attempts before it).
    pub resources: Vec<String>,
    /// SHA-256 of the bundle.
    pub bundle_hash: [u8; 32],
    /// When it was recorded.
    pub created_at: SystemTime,
}

/// One subject held for delivery, with what is to be done.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The subject.
    pub subject: String,
    /// Its epoch.
    pub epoch: i64,
    /// Who holds it.
    pub owner: String,
    /// Further subjects held with it, in sorted order (a merge, a swap).
    pub more: Vec<Lease>,
    /// Pending messages in key order, at most `claim_messages_max` a subject.
    pub messages: Vec<StoredMessage>,
    /// Whether the subject has more pending messages than `messages` shows.
    pub truncated: bool,
    /// Claims in a row that were released without result.
    pub failures: u32,
    /// Whether any message asks for a fold from scratch.
    pub refold: bool,
    /// An attempt of unknown outcome: read its resources before writing.
    pub open_attempt: Option<Attempt>,
}

impl Claim {
    /// Every lease of the claim, its own subject's first.
    pub fn leases(&self) -> impl Iterator<Item = (&str, i64)> {
        std::iter::once((self.subject.as_str(), self.epoch))
            .chain(self.more.iter().map(|l| (l.subject.as_str(), l.epoch)))
    }
}

/// The folded registers of a resource. Resources that several subjects speak of are folded by several claims at once:
/// a settlement holds only if nobody settled another version since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Read: the stored version, from 1. Settled: the version this one was folded from, 0 for none.
    pub version: i64,
    /// What the chart makes of them.
    pub registers: Vec<u8>,
}

/// Shadow: what the server was last known to hold for a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Our name for it (`urn:uuid:…`).
    pub full_url: String,
    /// `Patient`, `Encounter`, …
    pub resource_type: String,
    /// System of the identifier it is matched on.
    pub system: String,
    /// Value of that identifier.
    pub value: String,
    /// The subject it belongs to.
    pub subject: String,
    /// `Patient/123`, once the server named it.
    pub server_id: Option<String>,
    /// The version to send in `ifMatch`.
    pub etag: Option<String>,
    /// Hash of the canonical content last written.
    pub hash: [u8; 32],
    /// JSON of the elements on the server that are not ours.
    pub foreign_elements: String,
}

/// An entry for the audit trail. No message content in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// `delivered`, `parked`, …
    pub event: String,
    /// The message it is about, if one.
    pub message_id: Option<String>,
    /// JSON.
    pub detail: String,
}

/// What a delivered bundle led to; written whole or not at all.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// Wall clock of the settlement.
    pub at: SystemTime,
    /// Messages of the claim that the server now shows.
    pub applied: Vec<String>,
    /// Messages of the claim put aside, with the outcome code.
    pub parked: Vec<(String, String)>,
    /// Folded registers by `fullUrl`, each with the version it was folded from.
    pub checkpoints: Vec<(String, Checkpoint)>,
    /// Shadows to put.
    pub resources: Vec<Resource>,
    /// Which message touched which resource: (`message_id`, `fullUrl`).
    pub message_resources: Vec<(String, String)>,
    /// What the audit trail says.
    pub audit: Vec<AuditEvent>,
    /// The attempt whose outcome this is; `None` when nothing had to be written.
    pub attempt_id: Option<String>,
    /// Keep the lease for the next message of the same claim; otherwise it ends.
    pub keep_lease: bool,
}

impl Settlement {
    /// A settlement that changes nothing but ends the lease.
    pub fn new(at: SystemTime) -> Self {
        Self {
            at,
            applied: Vec::new(),
            parked: Vec::new(),
            checkpoints: Vec::new(),
            resources: Vec::new(),
            message_resources: Vec::new(),
            audit: Vec::new(),
            attempt_id: None,
            keep_lease: false,
        }
    }
}
