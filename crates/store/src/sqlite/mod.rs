//! The embedded store on SQLite: WAL, `synchronous=FULL`, one writer with group commit, a few readers (DESIGN §7).
//!
//! What lives in this file: opening and the trait's surface. What does not: the SQL (see the modules by topic).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Row, SqliteConnection};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc, oneshot};

mod accept;
mod fault;
mod lease;
mod migrate;
mod parked;
mod read;
mod rows;
mod settle;
#[cfg(test)]
mod tests;
mod trace;
mod writer;

use self::fault::fault;
use self::lease::{AttemptRequest, Change, ChangeRequest, ClaimRequest, MoreRequest};
use self::parked::{Chunk, ReidentifyRequest, RetryRequest};
use self::settle::{SettleRequest, Settled};
use self::writer::{Job, Rare, Work, Writer};
use crate::Checkpoint;
use crate::time::micros;
use crate::{
    AcceptError, Accepted, Arrival, Attempt, AttemptError, AuditError, AuditHead, Claim, ClaimError, Counts,
    Disposition, Fault, FaultKind, Identified, IdentityKeyError, Lease, LeaseError, OpenError, ParkedFilter,
    ParkedMessage, ParkedSubject, ReadError, ReidentifyError, Resource, Retried, RetryError, SettleError, Settlement,
    Store, StoredMessage, Trace, WriteFault,
};

/// How durable a commit is. Only for proving that the check at start bites: anything below `Full` is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    /// The log is synced at each commit.
    Full,
    /// A commit may be lost with the machine.
    Normal,
}

/// How the store is opened.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// Must be `Full`; read back and checked at start.
    pub synchronous: Synchronous,
    /// This process alone delivers from the file: whoever held leases before is gone, so they end now instead of running out.
    pub serves_alone: bool,
    /// How long another process may hold the lock.
    pub busy_timeout: Duration,
    /// Jobs written in one transaction at most.
    pub jobs_per_commit_max: usize,
    /// Jobs that wait for the writer; more callers wait for a place.
    pub jobs_queued_max: usize,
    /// Reading connections.
    pub readers: u32,
    /// Pending messages of a subject that one claim brings.
    pub claim_messages_max: u32,
    /// Page cache of each connection.
    pub cache_kib: u32,
    /// Pages in the log before they are copied into the file. Keys are hashes, so each message touches pages all over
    /// the file: the longer the log, the more often a page is copied once for many changes.
    pub checkpoint_pages: u32,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            synchronous: Synchronous::Full,
            serves_alone: false,
            busy_timeout: Duration::from_secs(5),
            jobs_per_commit_max: 256,
            jobs_queued_max: 1024,
            readers: 4,
            claim_messages_max: 256,
            cache_kib: 8 * 1024,
            checkpoint_pages: 8 * 1024,
        }
    }
}

/// The store in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    jobs: mpsc::Sender<Job>,
    readers: SqlitePool,
    woken: Arc<Notify>,
    claim_messages_max: u32,
}

impl SqliteStore {
    /// Opens or creates the file, brings its schema up to date and checks that commits will be durable. Must be called
    /// within a tokio runtime, which the writer task joins.
    pub async fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, OpenError> {
        let file = SqliteConnectOptions::new()
            .filename(path)
            .foreign_keys(true)
            .busy_timeout(options.busy_timeout)
            .pragma("cache_size", format!("-{}", options.cache_kib))
            .pragma("wal_autocheckpoint", options.checkpoint_pages.to_string())
            .command_buffer_size(4)
            .row_buffer_size(256)
            .statement_cache_capacity(512)
            .disable_statement_logging();
        let write = file.clone().create_if_missing(true).journal_mode(SqliteJournalMode::Wal).synchronous(
            match options.synchronous {
                Synchronous::Full => SqliteSynchronous::Full,
                Synchronous::Normal => SqliteSynchronous::Normal,
            },
        );
        let mut connection = write.connect().await.map_err(|e| fault(&e))?;
        check(&mut connection).await?;
        migrate::migrate(&mut connection, migrate::MIGRATIONS).await?;
        make_identity_key(&mut connection).await?;
        if options.serves_alone {
            end_leases(&mut connection).await?;
        }
        let readers = SqlitePoolOptions::new()
            .max_connections(options.readers.max(1))
            .test_before_acquire(false)
            .connect_with(file.pragma("query_only", "ON"))
            .await
            .map_err(|e| fault(&e))?;
        let (jobs, queue) = mpsc::channel(options.jobs_queued_max.max(1));
        let woken = Arc::new(Notify::new());
        let writer = Writer {
            connection: Some(connection),
            options: write,
            jobs: queue,
            jobs_per_commit_max: options.jobs_per_commit_max.max(1),
            woken: Arc::clone(&woken),
        };
        tokio::spawn(writer.run());
        Ok(Self { jobs, readers, woken, claim_messages_max: options.claim_messages_max.max(1) })
    }

    async fn ask<I, T, E: From<WriteFault>>(&self, input: I, job: fn(Work<I, T, E>) -> Job) -> Result<T, E> {
        let closed = |certainly_not_written| WriteFault { certainly_not_written, fault: Fault::new(FaultKind::Closed) };
        let (work, answer) = Work::new(input);
        if self.jobs.send(job(work)).await.is_err() {
            return Err(closed(true).into());
        }
        answer.await.unwrap_or_else(|_| Err(closed(false).into()))
    }

    async fn change(&self, claim: &Claim, change: Change) -> Result<(), LeaseError> {
        self.ask(ChangeRequest { leases: leases(claim), change }, Job::Change).await
    }

    /// Reads what is to be done under leases that are already durable.
    async fn opened(&self, owner: String, leases: Vec<Lease>, failures: u32) -> Result<Option<Claim>, ClaimError> {
        read::claim(&self.readers, owner, leases, failures, self.claim_messages_max)
            .await
            .map_err(|fault| ClaimError::Write(WriteFault { certainly_not_written: false, fault }))
    }
}

/// Promise 1 of DESIGN §9 rests on these: they are read back, not assumed.
async fn check(connection: &mut SqliteConnection) -> Result<(), OpenError> {
    // FULL is 2, EXTRA 3.
    for (pragma, query, wanted) in [
        ("journal_mode", "PRAGMA journal_mode", "wal"),
        ("synchronous", "PRAGMA synchronous", "2"),
        ("foreign_keys", "PRAGMA foreign_keys", "1"),
    ] {
        let row = sqlx::query(query).fetch_one(&mut *connection).await.map_err(|e| fault(&e))?;
        let found = match row.try_get::<i64, _>(0) {
            Ok(number) => number.to_string(),
            Err(_) => row.try_get::<String, _>(0).map_err(|e| fault(&e))?,
        };
        if found != wanted && !(pragma == "synchronous" && found == "3") {
            return Err(OpenError::Unsafe { pragma, found, wanted });
        }
    }
    Ok(())
}

async fn make_identity_key(connection: &mut SqliteConnection) -> Result<(), OpenError> {
    let mut key = [0_u8; 32];
    getrandom::fill(&mut key).map_err(|_| OpenError::NoRandomness)?;
    sqlx::query("INSERT OR IGNORE INTO setting (name, value) VALUES ('identity_key', ?)")
        .bind(key.as_slice())
        .execute(connection)
        .await
        .map_err(|e| fault(&e))?;
    Ok(())
}

/// Ends every lease as if its holder had been overtaken: its epoch is over.
async fn end_leases(connection: &mut SqliteConnection) -> Result<(), OpenError> {
    sqlx::query(
        "UPDATE subject SET owner = NULL, lease_until = NULL, next_at = 0, epoch = epoch + 1 WHERE owner IS NOT NULL",
    )
    .execute(connection)
    .await
    .map_err(|e| fault(&e))?;
    Ok(())
}

fn leases(claim: &Claim) -> Vec<Lease> {
    claim.leases().map(|(subject, epoch)| Lease { subject: subject.to_owned(), epoch }).collect()
}

fn end_of(lease: Duration, now: SystemTime) -> i64 {
    micros(now).saturating_add(i64::try_from(lease.as_micros()).unwrap_or(i64::MAX))
}

/// The messages a settlement names, with their keys at the time of the claim.
fn settled(claim: &Claim, settlement: &Settlement) -> Result<Vec<Settled>, SettleError> {
    let keys: BTreeMap<&str, &Vec<u8>> = claim.messages.iter().map(|m| (m.message_id.as_str(), &m.order_key)).collect();
    let applied = settlement.applied.iter().map(|message_id| (message_id, None));
    let parked = settlement.parked.iter().map(|(message_id, code)| (message_id, Some(code.clone())));
    applied
        .chain(parked)
        .map(|(message_id, parked)| {
            let order_key = keys.get(message_id.as_str()).ok_or(SettleError::NotClaimed)?;
            Ok(Settled { message_id: message_id.clone(), order_key: (*order_key).clone(), parked })
        })
        .collect()
}

#[async_trait]
impl Store for SqliteStore {
    async fn accept(&self, arrival: Arrival) -> Result<Accepted, AcceptError> {
        let subject = arrival.identified.as_ref().and_then(|identified| identified.subject.as_ref());
        if matches!(arrival.disposition, Disposition::Apply) && subject.is_none() {
            return Err(AcceptError::NoSubject);
        }
        self.ask(arrival, Job::Accept).await
    }

    async fn claim(&self, owner: &str, lease: Duration, now: SystemTime) -> Result<Option<Claim>, ClaimError> {
        let owner = owner.to_owned();
        let request = ClaimRequest { owner: owner.clone(), until: end_of(lease, now), now: micros(now) };
        match self.ask(request, Job::Claim).await? {
            Some(leased) => self.opened(owner, vec![leased.lease], leased.failures).await,
            None => Ok(None),
        }
    }

    async fn claim_more(
        &self,
        claim: &Claim,
        subjects: &[String],
        lease: Duration,
        now: SystemTime,
    ) -> Result<Option<Claim>, ClaimError> {
        let mut held = leases(claim);
        let request = MoreRequest {
            held: held.clone(),
            subjects: subjects.iter().cloned().collect::<BTreeSet<_>>(),
            owner: claim.owner.clone(),
            until: end_of(lease, now),
            now: micros(now),
        };
        let Some(mut more) = self.ask(request, |work| Job::Rare(Rare::More(work))).await? else {
            return Ok(None);
        };
        more.extend(held.drain(1..));
        more.sort();
        held.extend(more);
        self.opened(claim.owner.clone(), held, claim.failures).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration, now: SystemTime) -> Result<(), LeaseError> {
        self.change(claim, Change::Renew { until: end_of(lease, now) }).await
    }

    async fn release(&self, claim: &Claim, retry_at: SystemTime, reason: &str) -> Result<(), LeaseError> {
        self.change(claim, Change::Release { retry_at: micros(retry_at), reason: reason.to_owned() }).await
    }

    async fn park_subject(&self, claim: &Claim, code: &str, summary: &str, at: SystemTime) -> Result<(), LeaseError> {
        let change = Change::Park { code: code.to_owned(), summary: summary.to_owned(), at: micros(at) };
        self.change(claim, change).await
    }

    async fn record_attempt(&self, claim: &Claim, attempt: Attempt) -> Result<(), AttemptError> {
        self.ask(AttemptRequest { leases: leases(claim), attempt }, Job::Attempt).await
    }

    async fn settle(&self, claim: &Claim, settlement: Settlement) -> Result<(), SettleError> {
        let messages = settled(claim, &settlement)?;
        self.ask(SettleRequest { leases: leases(claim), messages, settlement }, Job::Settle).await
    }

    async fn retry_parked(&self, filter: &ParkedFilter, at: SystemTime) -> Result<Retried, RetryError> {
        let mut retried = Retried::default();
        let mut next = Some(0);
        while let Some(after) = next {
            let request = RetryRequest { filter: filter.clone(), after, at: micros(at) };
            let chunk: Chunk = self.ask(request, |work| Job::Rare(Rare::RetryMessages(work))).await?;
            retried.messages += chunk.rows;
            next = chunk.next;
        }
        // A filter for one message frees no subject.
        next = filter.message_id.is_none().then_some(0);
        while let Some(after) = next {
            let request = RetryRequest { filter: filter.clone(), after, at: micros(at) };
            let chunk: Chunk = self.ask(request, |work| Job::Rare(Rare::RetrySubjects(work))).await?;
            retried.subjects += chunk.rows;
            next = chunk.next;
        }
        let without_subject = read::parked_without_subject(&self.readers, filter).await;
        retried.without_subject =
            without_subject.map_err(|fault| WriteFault { certainly_not_written: false, fault })?;
        Ok(retried)
    }

    async fn reidentify(
        &self,
        message_id: &str,
        identified: Identified,
        disposition: Disposition,
        at: SystemTime,
    ) -> Result<(), ReidentifyError> {
        if matches!(disposition, Disposition::Apply) && identified.subject.is_none() {
            return Err(ReidentifyError::NoSubject);
        }
        let request = ReidentifyRequest { message_id: message_id.to_owned(), identified, disposition, at: micros(at) };
        self.ask(request, |work| Job::Rare(Rare::Reidentify(work))).await
    }

    fn notified(&self) -> Notified<'_> {
        self.woken.notified()
    }

    async fn next_due(&self) -> Result<Option<SystemTime>, ReadError> {
        Ok(read::next_due(&self.readers).await?)
    }

    async fn checkpoints(&self, full_urls: &[String]) -> Result<BTreeMap<String, Checkpoint>, ReadError> {
        Ok(read::checkpoints(&self.readers, full_urls).await?)
    }

    async fn resources(&self, full_urls: &[String]) -> Result<BTreeMap<String, Resource>, ReadError> {
        Ok(read::resources(&self.readers, full_urls).await?)
    }

    async fn owners(&self, server_ids: &[String]) -> Result<BTreeMap<String, String>, ReadError> {
        Ok(read::owners(&self.readers, server_ids).await?)
    }

    async fn messages_of_resource(
        &self,
        full_url: &str,
        after: Option<(&[u8], &str)>,
        limit: u32,
    ) -> Result<Vec<StoredMessage>, ReadError> {
        Ok(read::messages_of_resource(&self.readers, full_url, after, limit).await?)
    }

    async fn raw(&self, id: &str) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(read::raw(&self.readers, id).await?)
    }

    async fn trace(&self, correlation_id: &str) -> Result<Trace, ReadError> {
        Ok(trace::trace(&self.readers, correlation_id).await?)
    }

    async fn trace_resource(&self, id: &str) -> Result<Trace, ReadError> {
        Ok(trace::trace_resource(&self.readers, id).await?)
    }

    async fn counts(&self) -> Result<Counts, ReadError> {
        Ok(read::counts(&self.readers).await?)
    }

    async fn parked_messages(
        &self,
        code: Option<&str>,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<ParkedMessage>, ReadError> {
        Ok(read::parked_messages(&self.readers, code, after, limit).await?)
    }

    async fn parked_subjects(&self, after: Option<&str>, limit: u32) -> Result<Vec<ParkedSubject>, ReadError> {
        Ok(read::parked_subjects(&self.readers, after, limit).await?)
    }

    async fn identity_key(&self) -> Result<[u8; 32], ReadError> {
        Ok(read::identity_key(&self.readers).await?)
    }

    async fn import_identity_key(&self, key: [u8; 32]) -> Result<(), IdentityKeyError> {
        self.ask(key, |work| Job::Rare(Rare::IdentityKey(work))).await
    }

    async fn verify_audit(&self) -> Result<AuditHead, AuditError> {
        trace::verify_audit(&self.readers).await
    }

    async fn close(&self) {
        let (answer, closed) = oneshot::channel();
        if self.jobs.send(Job::Close(answer)).await.is_ok() {
            // The writer may have ended between: then there is nothing to wait for.
            let _ = closed.await;
        }
        self.readers.close().await;
    }
}
