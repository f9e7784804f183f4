//! The one writer: a task that takes what is queued and writes it in one transaction (group commit).
//!
//! Everybody is answered after the COMMIT. A fault of the database fails the whole batch, except a constraint, which
//! is one job's own: then each job gets a transaction of its own. What does not live here: what the jobs write.

use std::collections::BTreeSet;
use std::sync::Arc;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::sync::{Notify, mpsc, oneshot};

use super::fault::fault;
use super::lease::{AttemptRequest, Change, ChangeRequest, ClaimRequest, Leased, MoreRequest};
use super::parked::{Chunk, ReidentifyRequest, RetryRequest};
use super::settle::SettleRequest;
use super::{accept, lease, parked, settle};
use crate::{
    AcceptError, Accepted, Arrival, AttemptError, ClaimError, Fault, FaultKind, IdentityKeyError, Lease, LeaseError,
    ReidentifyError, RetryError, SettleError, Verdict, WriteFault,
};

/// A request with the place for its answer.
#[derive(Debug)]
pub(super) struct Work<I, T, E> {
    pub(super) input: I,
    pub(super) result: Option<Result<T, E>>,
    answer: oneshot::Sender<Result<T, E>>,
}

impl<I, T, E: From<WriteFault>> Work<I, T, E> {
    pub(super) fn new(input: I) -> (Self, oneshot::Receiver<Result<T, E>>) {
        let (answer, answered) = oneshot::channel();
        (Self { input, result: None, answer }, answered)
    }

    fn finish(self, failed: Option<WriteFault>) {
        let missing = WriteFault { certainly_not_written: false, fault: Fault::new(FaultKind::Other) };
        let result = match failed {
            Some(fault) => Err(fault.into()),
            None => self.result.unwrap_or_else(|| Err(missing.into())),
        };
        // Whoever asked may have gone; what was written stays.
        let _ = self.answer.send(result);
    }
}

/// What can be asked of the writer.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most jobs are the largest one")]
pub(super) enum Job {
    Accept(Work<Arrival, Accepted, AcceptError>),
    Claim(Work<ClaimRequest, Option<Leased>, ClaimError>),
    Attempt(Work<AttemptRequest, (), AttemptError>),
    Settle(Work<SettleRequest, (), SettleError>),
    Change(Work<ChangeRequest, (), LeaseError>),
    Rare(Rare),
    Close(oneshot::Sender<()>),
}

/// Jobs that come one at a time.
#[derive(Debug)]
pub(super) enum Rare {
    More(Work<MoreRequest, Option<Vec<Lease>>, ClaimError>),
    RetryMessages(Work<RetryRequest, Chunk, RetryError>),
    RetrySubjects(Work<RetryRequest, Chunk, RetryError>),
    Reidentify(Work<ReidentifyRequest, (), ReidentifyError>),
    IdentityKey(Work<[u8; 32], (), IdentityKeyError>),
    /// Lets a test run out of space without a small disk.
    #[cfg(test)]
    SizeMax(Work<u32, (), RetryError>),
}

/// What is written in one transaction, by kind.
#[derive(Debug, Default)]
struct Batch {
    settles: Vec<Work<SettleRequest, (), SettleError>>,
    attempts: Vec<Work<AttemptRequest, (), AttemptError>>,
    changes: Vec<Work<ChangeRequest, (), LeaseError>>,
    rare: Vec<Rare>,
    accepts: Vec<Work<Arrival, Accepted, AcceptError>>,
    claims: Vec<Work<ClaimRequest, Option<Leased>, ClaimError>>,
}

impl Batch {
    fn push(&mut self, job: Job) -> Option<oneshot::Sender<()>> {
        match job {
            Job::Accept(work) => self.accepts.push(work),
            Job::Claim(work) => self.claims.push(work),
            Job::Attempt(work) => self.attempts.push(work),
            Job::Settle(work) => self.settles.push(work),
            Job::Change(work) => self.changes.push(work),
            Job::Rare(rare) => self.rare.push(rare),
            Job::Close(answer) => return Some(answer),
        }
        None
    }

    fn len(&self) -> usize {
        self.settles.len()
            + self.attempts.len()
            + self.changes.len()
            + self.rare.len()
            + self.accepts.len()
            + self.claims.len()
    }

    fn singly(self) -> impl Iterator<Item = Self> {
        let settles = self.settles.into_iter().map(Job::Settle);
        let attempts = self.attempts.into_iter().map(Job::Attempt);
        let changes = self.changes.into_iter().map(Job::Change);
        let rare = self.rare.into_iter().map(Job::Rare);
        let accepts = self.accepts.into_iter().map(Job::Accept);
        let claims = self.claims.into_iter().map(Job::Claim);
        settles.chain(attempts).chain(changes).chain(rare).chain(accepts).chain(claims).map(|job| {
            let mut batch = Self::default();
            batch.push(job);
            batch
        })
    }

    /// Settlements come first and claims last, so that a claim sees what the batch made due.
    async fn write(&mut self, connection: &mut SqliteConnection) -> Result<(), Fault> {
        let mut chain = accept::audit_head(connection).await?;
        let leases = self.settles.iter().flat_map(|work| &work.input.leases);
        let leases = leases.chain(self.attempts.iter().flat_map(|work| &work.input.leases));
        let leases = leases.chain(self.changes.iter().flat_map(|work| &work.input.leases));
        let subjects: BTreeSet<&str> = leases.map(|lease| lease.subject.as_str()).collect();
        let mut held = lease::held(connection, subjects).await?;
        settle::settle(connection, &mut self.settles, &mut held, &mut chain).await?;
        lease::record_attempts(connection, &mut self.attempts, &held).await?;
        for work in &mut self.changes {
            work.result = Some(lease::change(connection, &work.input, &mut held, &mut chain).await?);
        }
        for rare in &mut self.rare {
            rare.write(connection, &mut chain).await?;
        }
        if !self.accepts.is_empty() {
            let arrivals: Vec<&Arrival> = self.accepts.iter().map(|work| &work.input).collect();
            let accepted = accept::accept(connection, &arrivals, &mut chain).await?;
            for (work, accepted) in self.accepts.iter_mut().zip(accepted) {
                work.result = Some(Ok(accepted));
            }
        }
        lease::claim(connection, &mut self.claims).await
    }

    /// Whether a subject may have become due for somebody else than who asked.
    fn wakes(&self) -> bool {
        use Verdict::{Applied, AppliedCorrection, AppliedLate, SkippedResend};
        self.accepts.iter().any(|work| {
            work.result.as_ref().and_then(|result| result.as_ref().ok()).is_some_and(|accepted| {
                matches!(accepted.verdict, Applied | AppliedCorrection | AppliedLate | SkippedResend)
            })
        }) || self.changes.iter().any(|work| !matches!(work.input.change, Change::Renew { .. }))
            || self.settles.iter().any(|work| work.input.leases.len() > 1)
            || !self.rare.is_empty()
    }

    fn finish(self, failed: Option<WriteFault>) {
        self.settles.into_iter().for_each(|work| work.finish(failed));
        self.attempts.into_iter().for_each(|work| work.finish(failed));
        self.changes.into_iter().for_each(|work| work.finish(failed));
        self.rare.into_iter().for_each(|rare| rare.finish(failed));
        self.accepts.into_iter().for_each(|work| work.finish(failed));
        self.claims.into_iter().for_each(|work| work.finish(failed));
    }
}

impl Rare {
    async fn write(&mut self, connection: &mut SqliteConnection, chain: &mut crate::audit::Head) -> Result<(), Fault> {
        match self {
            Self::More(work) => work.result = Some(lease::claim_more(connection, &work.input).await?),
            Self::RetryMessages(work) => {
                work.result = Some(Ok(parked::retry_messages(connection, &work.input, chain).await?));
            }
            Self::RetrySubjects(work) => {
                work.result = Some(Ok(parked::retry_subjects(connection, &work.input, chain).await?));
            }
            Self::Reidentify(work) => {
                work.result = Some(parked::reidentify(connection, &work.input, chain).await?);
            }
            Self::IdentityKey(work) => {
                work.result = Some(parked::import_identity_key(connection, &work.input).await?);
            }
            #[cfg(test)]
            Self::SizeMax(work) => {
                let pragma = format!("PRAGMA max_page_count = {}", work.input);
                sqlx::query(sqlx::AssertSqlSafe(pragma)).fetch_all(connection).await.map_err(|e| fault(&e))?;
                work.result = Some(Ok(()));
            }
        }
        Ok(())
    }

    fn finish(self, failed: Option<WriteFault>) {
        match self {
            Self::More(work) => work.finish(failed),
            Self::RetryMessages(work) | Self::RetrySubjects(work) => work.finish(failed),
            Self::Reidentify(work) => work.finish(failed),
            Self::IdentityKey(work) => work.finish(failed),
            #[cfg(test)]
            Self::SizeMax(work) => work.finish(failed),
        }
    }
}

/// The task's state. The connection is opened anew after a fault that may have broken it.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) connection: Option<SqliteConnection>,
    pub(super) options: SqliteConnectOptions,
    pub(super) jobs: mpsc::Receiver<Job>,
    pub(super) jobs_per_commit_max: usize,
    pub(super) woken: Arc<Notify>,
}

impl Writer {
    /// Runs until the store is closed or dropped; what was queued before is written.
    pub(super) async fn run(mut self) {
        let mut queued = Vec::with_capacity(self.jobs_per_commit_max);
        let mut closing = None;
        while closing.is_none() && self.jobs.recv_many(&mut queued, self.jobs_per_commit_max).await > 0 {
            let mut batch = Batch::default();
            for job in queued.drain(..) {
                closing = batch.push(job).or(closing);
            }
            self.commit(batch).await;
            // Whoever was answered may ask again before the next commit: fewer, larger ones.
            tokio::task::yield_now().await;
        }
        self.jobs.close();
        let mut late = Batch::default();
        while let Some(job) = self.jobs.recv().await {
            late.push(job);
        }
        late.finish(Some(WriteFault { certainly_not_written: true, fault: Fault::new(FaultKind::Closed) }));
        if let Some(connection) = self.connection.take()
            && let Err(error) = connection.close().await
        {
            tracing::warn!(fault = %fault(&error), "store did not close cleanly");
        }
        if let Some(answer) = closing {
            let _ = answer.send(());
        }
    }

    async fn commit(&mut self, mut batch: Batch) {
        if batch.len() == 0 {
            return;
        }
        match self.transaction(&mut batch).await {
            Err(failed) if failed.fault.kind == FaultKind::Constraint && batch.len() > 1 => {
                for mut one in batch.singly() {
                    let failed = self.transaction(&mut one).await.err();
                    self.answer(one, failed);
                }
            }
            result => self.answer(batch, result.err()),
        }
    }

    fn answer(&self, batch: Batch, failed: Option<WriteFault>) {
        match failed {
            Some(failed) => tracing::error!(fault = %failed, jobs = batch.len(), "batch not written"),
            None if batch.wakes() => self.woken.notify_waiters(),
            None => {}
        }
        batch.finish(failed);
    }

    async fn transaction(&mut self, batch: &mut Batch) -> Result<(), WriteFault> {
        let nothing = |fault| WriteFault { certainly_not_written: true, fault };
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.options.connect().await.map_err(|e| nothing(fault(&e)))?,
        };
        execute(&mut connection, "BEGIN IMMEDIATE").await.map_err(nothing)?;
        let failed = match batch.write(&mut connection).await {
            Err(fault) => nothing(fault),
            Ok(()) => match execute(&mut connection, "COMMIT").await {
                Ok(()) => {
                    self.connection = Some(connection);
                    return Ok(());
                }
                Err(fault) => {
                    // A constraint or a lock is found before anything is written; else frames may be in the log.
                    let certainly_not_written = matches!(fault.kind, FaultKind::Constraint | FaultKind::Busy);
                    WriteFault { certainly_not_written, fault }
                }
            },
        };
        // SQLite may have rolled back itself; a connection in doubt is dropped, which rolls back too.
        if execute(&mut connection, "ROLLBACK").await.is_ok() {
            self.connection = Some(connection);
        }
        Err(failed)
    }
}

async fn execute(connection: &mut SqliteConnection, sql: &'static str) -> Result<(), Fault> {
    sqlx::query(sql).execute(connection).await.map(|_| ()).map_err(|e| fault(&e))
}
