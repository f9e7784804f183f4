//! One claim at work: from a batch of messages to a settlement, and what follows from each answer of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use chart::Event;
use fhir::{Json, ResourceKey};
use mapping::Scope;
use sha2::{Digest, Sha256};
use smol_str::SmolStr;
use store::{Attempt, AuditEvent, Claim, Resource, SettleError, Settlement, StoredMessage};
use tracing::{error, info, warn};
use uuid::Uuid;
use writer::{Found, Known, Question, Standing, TransactError, Write, Written};

use super::Deliverer;
use super::fold::{self, Folded, Knowledge, Pending};
use crate::judge::Reread;
use crate::outcome::Outcome;

/// Folds of one batch: each further one follows a change by somebody else (a shared resource, the server).
const ROUNDS_MAX: usize = 8;

/// Messages read at a time for a fold from scratch.
const REFOLD_PAGE: u32 = 500;
/// What names the lease of a shared resource among the subjects.
const SHARED: &str = "shared:";

/// How a batch ended.
pub(super) enum Ended {
    /// The server shows it and the store knows.
    Settled,
    /// Released for later or parked; the claim is gone.
    GivenUp,
    /// Released, and nothing else should be tried either.
    Unauthorized,
}

/// What the server was found to hold, by `fullUrl`.
type Met = BTreeMap<SmolStr, Found>;

/// What to do next.
enum Next {
    /// Fold and compare again.
    Again,
    /// This batch is over.
    Over(Ended),
}

/// The store failed under a batch; nothing is lost, the claim runs out.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error(transparent)]
    Read(#[from] store::ReadError),
    #[error(transparent)]
    Claim(#[from] store::ClaimError),
    #[error(transparent)]
    Lease(#[from] store::LeaseError),
    #[error(transparent)]
    Attempt(#[from] store::AttemptError),
    /// A message that a fold from scratch needs can't be mapped any more; without it the fold would be another.
    #[error("a message of the fold is {0}")]
    Unfoldable(&'static str),
    #[error(transparent)]
    Settle(store::SettleError),
    #[error(transparent)]
    Checkpoint(#[from] fold::Unreadable),
}

/// A claim being worked on.
pub(super) struct Work<'d> {
    deliverer: &'d Deliverer,
    claim: Claim,
    /// Shadows written or read from the server, not settled yet, by `fullUrl`.
    learned: BTreeMap<String, Resource>,
    /// Somebody else wrote: read before the next write.
    read_first: bool,
    /// Resources of an earlier bundle of unknown outcome, not read back yet: whatever their shadows say.
    suspects: BTreeSet<String>,
    attempt_id: Option<String>,
}

impl<'d> Work<'d> {
    pub(super) fn new(deliverer: &'d Deliverer, claim: Claim) -> Self {
        // An attempt of unknown outcome: read before writing (DESIGN §5), also what would not have to be written.
        let suspects = claim.open_attempt.iter().flat_map(|attempt| attempt.resources.iter().cloned()).collect();
        Self { deliverer, claim, learned: BTreeMap::new(), read_first: false, suspects, attempt_id: None }
    }

    /// Delivers one batch; `keep` keeps the claim for the next one.
    pub(super) async fn deliver(&mut self, batch: &[StoredMessage], keep: bool) -> Ended {
        match self.rounds(batch, keep).await {
            Ok(ended) => ended,
            Err(Stopped::Unfoldable(code)) => self.park(Outcome::RawExpired, code).await,
            Err(error) => {
                error!(subject = self.claim.subject, %error, "delivery stopped at the store; it is done again");
                self.release(Duration::from_secs(1), Outcome::StoreFailed.code()).await
            }
        }
    }

    async fn rounds(&mut self, batch: &[StoredMessage], keep: bool) -> Result<Ended, Stopped> {
        let reread = self.deliverer.judge.reread(batch);
        for _ in 0..ROUNDS_MAX {
            let known = self.read(&reread).await?;
            let folded = fold::fold(&reread.events, &known)?;
            if let Some(broken) = &folded.broken {
                self.deliverer.metrics.alerts.with_label_values(&[Outcome::CheckFailed.code()]).inc();
                return Ok(self.park(Outcome::CheckFailed, broken).await);
            }
            if folded.pending.is_empty() {
                match self.settle(&reread, folded, keep).await {
                    Ok(()) => return Ok(Ended::Settled),
                    Err(SettleError::CheckpointMoved) => continue,
                    Err(SettleError::StaleEpoch) => return Ok(Ended::GivenUp),
                    Err(other) => return Err(Stopped::Settle(other)),
                }
            }
            let next = match self.hold_shared(&folded.pending).await? {
                Held::Already => {
                    let next = self.write(folded).await;
                    self.deliverer.count_requests();
                    next?
                }
                // What was read before the lease may have changed since.
                Held::Now => Next::Again,
                Held::ByOthers => Next::Over(
                    self.release(self.deliverer.pause_while_busy(&self.claim.subject), "a shared resource is held")
                        .await,
                ),
            };
            if let Next::Over(ended) = next {
                return Ok(ended);
            }
        }
        warn!(
            subject = self.claim.subject,
            code = Outcome::FhirConflict.code(),
            "others wrote every time; tried again later"
        );
        Ok(self.release(self.pause(None), Outcome::FhirConflict.code()).await)
    }

    /// Checkpoints and shadows of what the events touch, with what was learned since; on a refold from the messages.
    async fn read(&self, reread: &Reread) -> Result<Knowledge, Stopped> {
        let touched = fold::touched(&reread.events);
        let mut known = Knowledge {
            checkpoints: self.deliverer.store.checkpoints(&touched).await?,
            shadows: BTreeMap::new(),
            earlier: Vec::new(),
            suspects: self.suspects.clone(),
        };
        if self.claim.refold {
            known.earlier = self.earlier(&touched).await?;
        }
        let mentioned = fold::mentioned(&reread.events, &known)?;
        known.shadows = self.deliverer.store.resources(&mentioned).await?;
        known.shadows.extend(self.learned.clone());
        Ok(known)
    }

    /// Every message that ever touched these resources: what a fold from scratch takes.
    async fn earlier(&self, full_urls: &[String]) -> Result<Vec<Event>, Stopped> {
        let mut messages = BTreeMap::new();
        for full_url in full_urls {
            let mut after: Option<(Vec<u8>, String)> = None;
            loop {
                let cursor = after.as_ref().map(|(key, id)| (key.as_slice(), id.as_str()));
                let page = self.deliverer.store.messages_of_resource(full_url, cursor, REFOLD_PAGE).await?;
                let Some(last) = page.last() else { break };
                after = Some((last.order_key.clone(), last.message_id.clone()));
                messages.extend(page.into_iter().map(|m| (m.message_id.clone(), m)));
            }
        }
        let messages: Vec<StoredMessage> = messages.into_values().collect();
        let reread = self.deliverer.judge.reread(&messages);
        match reread.parked.first() {
            None => Ok(reread.events),
            Some((_, code)) => Err(Stopped::Unfoldable(code)),
        }
    }

    /// Resources that messages about other subjects may also change are written under their own lease.
    async fn hold_shared(&mut self, pending: &[Pending]) -> Result<Held, Stopped> {
        let mut wanted: Vec<String> = pending
            .iter()
            .flat_map(|p| self.contested_names(p))
            .filter(|name| self.claim.leases().all(|(held, _)| held != name))
            .collect();
        if wanted.is_empty() {
            return Ok(Held::Already);
        }
        wanted.sort();
        wanted.dedup();
        let (lease, now) = (self.deliverer.lease(), SystemTime::now());
        match self.deliverer.store.claim_more(&self.claim, &wanted, lease, now).await {
            Ok(Some(claim)) => {
                self.claim = claim;
                Ok(Held::Now)
            }
            Ok(None) => Ok(Held::ByOthers),
            Err(error) => Err(error.into()),
        }
    }

    /// What other subjects must not write at the same time: the resource itself where they may speak of it, and whatever
    /// its business identifiers find.
    fn contested_names(&self, pending: &Pending) -> Vec<String> {
        let key = &pending.write.key;
        let identifiers = pending.write.resource.get("identifier").map(Json::items).unwrap_or_default();
        let text = |identifier: &Json, name| identifier.get(name).and_then(Json::as_str).map(SmolStr::new);
        let named = identifiers.iter().filter_map(|identifier| {
            let (system, value) = (text(identifier, "system")?, text(identifier, "value")?);
            let own = self.deliverer.judge.is_own_system(&system);
            (!own).then(|| ResourceKey { resource_type: key.resource_type.clone(), system, value })
        });
        let itself = (pending.scope == Scope::Shared).then(|| key.clone());
        named.chain(itself).map(|key| format!("{SHARED}{}", key.full_url())).collect()
    }

    /// A resource that was found by its identifier may be another one of ours that carries the identifier too: two
    /// numbers of one patient, each sent alone. Until they are merged each is a resource of its own, whichever came first,
    /// so the later one lives under an id of ours.
    async fn keep_apart(&self, pending: &mut [Pending], met: &mut Met) -> Result<(), Stopped> {
        let ids = met.values().flat_map(|found| match found {
            Found::Absent => Vec::new(),
            Found::One(remote) => vec![remote.server_id.to_string()],
            Found::Several(ids) => ids.iter().map(ToString::to_string).collect(),
        });
        let ids: Vec<String> = ids.collect();
        if ids.is_empty() {
            return Ok(());
        }
        let mut owners = self.deliverer.store.owners(&ids).await?;
        owners.extend(self.learned.values().filter_map(|r| Some((r.server_id.clone()?, r.full_url.clone()))));
        for resource in pending.iter_mut().filter(|p| p.write.known.is_none()) {
            let full_url = resource.write.key.full_url();
            let is_others = |id: &SmolStr| owners.get(id.as_str()).is_some_and(|owner| *owner != full_url);
            let apart = match met.get(&full_url) {
                None | Some(Found::Absent) => false,
                Some(Found::One(remote)) => is_others(&remote.server_id),
                Some(Found::Several(ids)) => {
                    let own = Known::under_our_id(&resource.write.key).server_id;
                    ids.iter().all(|id| is_others(id) || *id == own)
                }
            };
            if apart {
                met.remove(&full_url);
                resource.write.known = Some(Known::under_our_id(&resource.write.key));
            }
        }
        Ok(())
    }

    /// Sends one bundle, recorded before it leaves.
    async fn write(&mut self, folded: Folded) -> Result<Next, Stopped> {
        let Folded { mut pending, mut targets, .. } = folded;
        let mut met = Met::new();
        let suspected = pending.iter().any(|p| self.suspects.contains(p.write.key.full_url().as_str()));
        if self.read_first || suspected {
            if let Some(next) = self.compare(&mut pending, &mut targets).await? {
                return Ok(next);
            }
        } else {
            let writes: Vec<Write> = pending.iter().map(|p| p.write.clone()).collect();
            match self.deliverer.writer.meet(&writes).await {
                Ok(found) => met = found,
                Err(error) => return Ok(self.failed(error).await),
            }
            self.keep_apart(&mut pending, &mut met).await?;
        }
        let server = &self.deliverer.writer;
        let hashes: BTreeMap<SmolStr, (ResourceKey, [u8; 32])> =
            pending.iter().map(|p| (p.write.key.full_url(), (p.write.key.clone(), p.hash))).collect();
        let writes: Vec<Write> = pending.into_iter().map(|p| p.write).collect();
        let prepared = match server.prepare_met(&writes, &targets, &met) {
            Ok(prepared) => prepared,
            Err(error) => return Ok(self.failed(error).await),
        };
        let text = prepared.bundle.to_text();
        let attempt = Attempt {
            attempt_id: Uuid::now_v7().to_string(),
            resources: prepared.full_urls().map(ToString::to_string).collect(),
            bundle_hash: Sha256::digest(text.as_bytes()).into(),
            created_at: SystemTime::now(),
        };
        if !prepared.bundle.entries.is_empty() {
            self.deliverer.store.renew(&self.claim, self.deliverer.lease(), SystemTime::now()).await?;
            let attempt_id = attempt.attempt_id.clone();
            self.deliverer.store.record_attempt(&self.claim, attempt).await?;
            self.deliverer.keep_bundle(&attempt_id, &text).await;
            self.attempt_id = Some(attempt_id);
        }
        let started = Instant::now();
        let sent = server.send(prepared).await;
        self.deliverer.metrics.bundle_seconds.observe(started.elapsed().as_secs_f64());
        match sent {
            Ok(written) => {
                self.deliverer.metrics.bundles.with_label_values(&["written"]).inc();
                self.deliverer.metrics.resources_written.inc_by(written.len() as u64);
                self.read_first = false;
                self.deliverer.succeeded(&self.claim.subject);
                for written in written {
                    if let Some((key, hash)) = hashes.get(&written.full_url) {
                        self.learn(key, *hash, &written);
                    }
                }
                Ok(Next::Again)
            }
            Err(error) => Ok(self.failed(error).await),
        }
    }

    /// Reads what the server holds of the pending resources: what is as wanted is adopted, the rest written with the
    /// version found.
    async fn compare(
        &mut self,
        pending: &mut Vec<Pending>,
        targets: &mut writer::Targets,
    ) -> Result<Option<Next>, Stopped> {
        let server = &self.deliverer.writer;
        let questions = pending.iter().map(|p| {
            let server_id = p.write.known.as_ref().map(|known| known.server_id.as_str());
            Question { key: &p.write.key, server_id }
        });
        let mut found = match server.lookup(&questions.collect::<Vec<_>>()).await {
            Ok(found) => found,
            Err(error) => return Ok(Some(self.failed(error.into()).await)),
        };
        self.keep_apart(pending, &mut found).await?;
        let writes: Vec<Write> = pending.iter().map(|p| p.write.clone()).collect();
        let standings = server.compare(&writes, &found, targets);
        let mut rest = Vec::new();
        for (mut resource, standing) in std::mem::take(pending).into_iter().zip(standings) {
            match standing {
                Standing::AsWanted(written) => {
                    targets.insert(written.full_url.clone(), written.server_id.clone());
                    self.learn(&resource.write.key, resource.hash, &written);
                }
                Standing::Differs(known) => {
                    resource.write.known = Some(known);
                    rest.push(resource);
                }
                Standing::Absent => {
                    // Not looked at, because it is kept apart under an id of ours; else it is gone.
                    let own = Known::under_our_id(&resource.write.key);
                    resource.write.known = resource.write.known.filter(|known| *known == own);
                    rest.push(resource);
                }
                Standing::Several(_) => {
                    let full_url = Some(resource.write.key.full_url());
                    return Ok(Some(self.failed(TransactError::MultipleMatches { full_url }).await));
                }
            }
        }
        let done = rest.is_empty();
        *pending = rest;
        Ok(done.then_some(Next::Again))
    }

    /// The shadow a resource now has.
    fn learn(&mut self, key: &ResourceKey, hash: [u8; 32], written: &Written) {
        let resource = Resource {
            full_url: written.full_url.to_string(),
            resource_type: key.resource_type.to_string(),
            system: key.system.to_string(),
            value: key.value.to_string(),
            subject: self.claim.subject.clone(),
            server_id: Some(written.server_id.to_string()),
            etag: written.etag.as_ref().map(ToString::to_string),
            hash,
            foreign_elements: written.foreign.as_ref().map(ToString::to_string).unwrap_or_default(),
        };
        self.suspects.remove(&resource.full_url);
        self.learned.insert(resource.full_url.clone(), resource);
    }

    /// What follows from a transaction that failed (DESIGN §5).
    async fn failed(&mut self, error: TransactError) -> Next {
        let outcome = outcome_of(&error);
        self.deliverer.metrics.bundles.with_label_values(&[outcome.code()]).inc();
        self.deliverer.metrics.alerts.with_label_values(&[outcome.code()]).inc();
        let (subject, code) = (&self.claim.subject, outcome.code());
        match error {
            TransactError::Conflict { .. } => {
                warn!(subject, code, "somebody else wrote: read, compare, write again");
                self.read_first = true;
                Next::Again
            }
            TransactError::Unauthorized { status } => {
                warn!(subject, code, status, "not written");
                self.release(self.deliverer.unauthorized_pause(), code).await;
                Next::Over(Ended::Unauthorized)
            }
            TransactError::Unavailable { retry_after, .. } | TransactError::Unknown { retry_after, .. } => {
                let pause = self.pause(retry_after);
                warn!(subject, code, reason = %error, pause_ms = pause.as_millis(), "tried again later");
                Next::Over(self.release(pause, code).await)
            }
            TransactError::MultipleMatches { .. } | TransactError::Malformed { .. } | TransactError::Refused { .. } => {
                Next::Over(self.park(outcome, &error.to_string()).await)
            }
        }
    }

    fn pause(&self, retry_after: Option<Duration>) -> Duration {
        self.deliverer.pause_after_failure(&self.claim.subject, retry_after)
    }

    async fn release(&self, pause: Duration, reason: &str) -> Ended {
        let retry_at = SystemTime::now() + pause;
        if let Err(error) = self.deliverer.store.release(&self.claim, retry_at, reason).await {
            warn!(subject = self.claim.subject, %error, "the claim was not released; it runs out");
        }
        Ended::GivenUp
    }

    async fn park(&self, outcome: Outcome, summary: &str) -> Ended {
        let (subject, code) = (&self.claim.subject, outcome.code());
        warn!(subject, code, summary, "subject parked: its messages wait until an operator retries");
        if let Err(error) = self.deliverer.store.park_subject(&self.claim, code, summary, SystemTime::now()).await {
            warn!(subject, %error, "not parked; the claim runs out");
        }
        Ended::GivenUp
    }

    /// Everything the batch led to, in one transaction of the store.
    async fn settle(&mut self, reread: &Reread, folded: Folded, keep: bool) -> Result<(), SettleError> {
        let metrics = &self.deliverer.metrics;
        let detail = format!(
            "{{\"written\":{},\"unchanged\":{},\"incomplete\":{}}}",
            self.learned.len(),
            folded.unchanged,
            folded.incomplete.len()
        );
        let delivered = |event: &Event| AuditEvent {
            event: "delivered".into(),
            message_id: Some(event.message_id.to_string()),
            detail: detail.clone(),
        };
        let parked = |(id, code): &(String, &str)| AuditEvent {
            event: "parked".into(),
            message_id: Some(id.clone()),
            detail: format!("{{\"code\":\"{code}\"}}"),
        };
        let written = self.learned.len() as u64;
        let settlement = Settlement {
            applied: reread.events.iter().map(|e| e.message_id.to_string()).collect(),
            parked: reread.parked.iter().map(|(id, code)| (id.clone(), (*code).to_owned())).collect(),
            checkpoints: folded.checkpoints,
            resources: self.learned.values().cloned().collect(),
            message_resources: folded.lineage,
            audit: reread.events.iter().map(delivered).chain(reread.parked.iter().map(parked)).collect(),
            attempt_id: self.attempt_id.clone(),
            keep_lease: keep,
            ..Settlement::new(SystemTime::now())
        };
        self.deliverer.store.settle(&self.claim, settlement).await?;
        metrics.resources_unchanged.inc_by((folded.unchanged as u64).saturating_sub(written));
        if folded.ambiguous > 0 {
            metrics.alerts.with_label_values(&[chart::AMBIGUOUS_ORDER]).inc_by(folded.ambiguous as u64);
        }
        for code in folded.alerts {
            warn!(subject = self.claim.subject, code, "left out of a resource");
            metrics.alerts.with_label_values(&[code]).inc();
        }
        for (subject, incomplete) in folded.incomplete.iter().map(|url| (&self.claim.subject, url)) {
            info!(subject, resource = incomplete, code = "REQUIRED_MISSING", "held back until a message completes it");
        }
        info!(subject = self.claim.subject, messages = reread.events.len(), written, "delivered");
        self.deliverer.succeeded(&self.claim.subject);
        self.learned.clear();
        self.attempt_id = None;
        Ok(())
    }
}

/// Whether the leases on shared resources are there.
enum Held {
    Already,
    Now,
    ByOthers,
}

fn outcome_of(error: &TransactError) -> Outcome {
    match error {
        TransactError::Conflict { .. } => Outcome::FhirConflict,
        TransactError::MultipleMatches { .. } => Outcome::FhirMultipleMatches,
        TransactError::Malformed { .. } => Outcome::CheckFailed,
        TransactError::Refused { .. } => Outcome::FhirRefused,
        TransactError::Unauthorized { .. } => Outcome::FhirUnauthorized,
        TransactError::Unavailable { .. } => Outcome::FhirUnavailable,
        TransactError::Unknown { .. } => Outcome::FhirOutcomeUnknown,
    }
}
