//! Messages, dedup, subjects, shadows, attempts and audit behind one trait (DESIGN §4, §7).
//!
//! What lives here: the durable truth and its uniqueness constraints. What does not: HL7, FHIR, mapping; payloads are
//! bytes. The contract of every implementation is the `conformance` suite.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::sync::futures::Notified;

mod arrival;
mod audit;
mod claim;
#[cfg(feature = "conformance")]
pub mod conformance;
mod decide;
mod error;
mod lineage;
pub mod sqlite;
mod time;

pub use arrival::{Accepted, Arrival, CONTROL_ID_REUSE, Disposition, Identified, RESTAMPED_CONTENT, Verdict};
pub use claim::{Attempt, AuditEvent, Checkpoint, Claim, Lease, Resource, Settlement, StoredMessage};
pub use error::{
    AcceptError, AttemptError, AuditError, ClaimError, Fault, FaultKind, IdentityKeyError, LeaseError, OpenError,
    ReadError, ReidentifyError, RetryError, SettleError, WriteFault,
};
pub use lineage::{
    AuditHead, AuditRow, Counts, MessageRow, ParkedFilter, ParkedMessage, ParkedSubject, ReceiptRow, Retried, Status,
    TRACE_ROWS_MAX, Trace,
};

/// The durable truth. Dropping a future of a write does not undo the write.
#[async_trait]
pub trait Store: Send + Sync {
    /// Decides about an arrival (DESIGN §4) and makes everything that follows durable before it returns.
    async fn accept(&self, arrival: Arrival) -> Result<Accepted, AcceptError>;

    /// Leases the subject that has been due longest; `None` when none is due at `now`.
    async fn claim(&self, owner: &str, lease: Duration, now: SystemTime) -> Result<Option<Claim>, ClaimError>;

    /// Leases further subjects in sorted order, all or none; `None` when one of them is held or parked. The answer
    /// replaces `claim` and holds the messages of all.
    async fn claim_more(
        &self,
        claim: &Claim,
        subjects: &[String],
        lease: Duration,
        now: SystemTime,
    ) -> Result<Option<Claim>, ClaimError>;

    /// Extends the leases of a claim to `now + lease`.
    async fn renew(&self, claim: &Claim, lease: Duration, now: SystemTime) -> Result<(), LeaseError>;

    /// Ends the leases without result; the subjects are due again at `retry_at`.
    async fn release(&self, claim: &Claim, retry_at: SystemTime, reason: &str) -> Result<(), LeaseError>;

    /// Puts the claim's own subject aside: its messages wait until [`Store::retry_parked`]. Ends all its leases.
    async fn park_subject(&self, claim: &Claim, code: &str, summary: &str, at: SystemTime) -> Result<(), LeaseError>;

    /// Records a bundle before it is sent. The caller has read the resources of `claim.open_attempt` before.
    async fn record_attempt(&self, claim: &Claim, attempt: Attempt) -> Result<(), AttemptError>;

    /// Writes the outcome of a claim in one transaction and ends its leases unless told to keep them.
    async fn settle(&self, claim: &Claim, settlement: Settlement) -> Result<(), SettleError>;

    /// Makes parked messages pending and parked subjects due again, in small chunks.
    async fn retry_parked(&self, filter: &ParkedFilter, at: SystemTime) -> Result<Retried, RetryError>;

    /// Gives a parked or rejected message the keys and the disposition it has under today's rules. The message id
    /// stays; `identified.message_id` is not looked at.
    async fn reidentify(
        &self,
        message_id: &str,
        identified: Identified,
        disposition: Disposition,
        at: SystemTime,
    ) -> Result<(), ReidentifyError>;

    /// Wakes when a subject may have become due through this store. Call it before [`Store::claim`] and await it
    /// after a claim gave `None`: then no wake-up is lost. See [`Store::next_due`] for retries and expiring leases.
    fn notified(&self) -> Notified<'_>;

    /// When the next dirty subject is due (a retry, or the end of a lease).
    async fn next_due(&self) -> Result<Option<SystemTime>, ReadError>;

    /// Checkpoints by `fullUrl`, those that exist.
    async fn checkpoints(&self, full_urls: &[String]) -> Result<BTreeMap<String, Checkpoint>, ReadError>;

    /// Shadows by `fullUrl`, those that exist.
    async fn resources(&self, full_urls: &[String]) -> Result<BTreeMap<String, Resource>, ReadError>;

    /// Which of these server ids (`Type/id`) are resources of ours, each with its `fullUrl`.
    async fn owners(&self, server_ids: &[String]) -> Result<BTreeMap<String, String>, ReadError>;

    /// A page of the messages that touched a resource, in key order, after `(order_key, message_id)` of the last
    /// page's last message.
    async fn messages_of_resource(
        &self,
        full_url: &str,
        after: Option<(&[u8], &str)>,
        limit: u32,
    ) -> Result<Vec<StoredMessage>, ReadError>;

    /// The bytes of a receipt (by receipt id) or of a message's first receipt (by message id).
    async fn raw(&self, id: &str) -> Result<Option<Vec<u8>>, ReadError>;

    /// Lineage from a receipt id, a message id or MSH-10.
    async fn trace(&self, correlation_id: &str) -> Result<Trace, ReadError>;

    /// Lineage back from a server id (`Patient/123`) or a `fullUrl`.
    async fn trace_resource(&self, id: &str) -> Result<Trace, ReadError>;

    /// Numbers for metrics.
    async fn counts(&self) -> Result<Counts, ReadError>;

    /// A page of parked messages, oldest first, after the cursor of the last page's last row.
    async fn parked_messages(
        &self,
        code: Option<&str>,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<ParkedMessage>, ReadError>;

    /// A page of parked subjects, by name, after the last page's last subject.
    async fn parked_subjects(&self, after: Option<&str>, limit: u32) -> Result<Vec<ParkedSubject>, ReadError>;

    /// The deployment's identity key (DESIGN §5), made at first start.
    async fn identity_key(&self) -> Result<[u8; 32], ReadError>;

    /// Takes over another deployment's identity key; refused when messages were stored under a different one.
    async fn import_identity_key(&self, key: [u8; 32]) -> Result<(), IdentityKeyError>;

    /// Walks the audit chain from its first row.
    async fn verify_audit(&self) -> Result<AuditHead, AuditError>;

    /// Writes what is queued and closes. Operations after it fail as `Closed`.
    async fn close(&self);
}
