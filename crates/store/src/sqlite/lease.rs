//! Leases in the writer's transaction: who holds which subject under which epoch; attempts recorded under them.
//!
//! A leased subject's `next_at` is the end of its lease, so that an expired one is due by itself.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::{Row, SqliteConnection};

use super::accept::append_audit;
use super::fault::{UNREADABLE, fault};
use super::rows::{Rows, column};
use super::writer::Work;
use crate::time::micros;
use crate::{Attempt, AttemptError, ClaimError, Fault, Lease, LeaseError, audit};

/// Epochs of the subjects that are leased now.
pub(super) type Held = BTreeMap<String, i64>;

/// Asks for the subject that has been due longest.
#[derive(Debug)]
pub(super) struct ClaimRequest {
    pub(super) owner: String,
    pub(super) until: i64,
    pub(super) now: i64,
}

/// A subject leased.
#[derive(Debug)]
pub(super) struct Leased {
    pub(super) lease: Lease,
    pub(super) failures: u32,
}

/// Asks for further subjects.
#[derive(Debug)]
pub(super) struct MoreRequest {
    pub(super) held: Vec<Lease>,
    pub(super) subjects: BTreeSet<String>,
    pub(super) owner: String,
    pub(super) until: i64,
    pub(super) now: i64,
}

/// What becomes of a claim that is not settled.
#[derive(Debug)]
pub(super) enum Change {
    Renew { until: i64 },
    Release { retry_at: i64, reason: String },
    Park { code: String, summary: String, at: i64 },
}

/// A change of all leases of a claim, its own subject's first.
#[derive(Debug)]
pub(super) struct ChangeRequest {
    pub(super) leases: Vec<Lease>,
    pub(super) change: Change,
}

/// A bundle about to be sent.
#[derive(Debug)]
pub(super) struct AttemptRequest {
    pub(super) leases: Vec<Lease>,
    pub(super) attempt: Attempt,
}

const DUE: &str = "SELECT subject, epoch, failures, next_at, coalesce(lease_until, next_at) FROM subject
        WHERE dirty = 1 AND parked_code IS NULL AND next_at <= ?1 AND (lease_until IS NULL OR lease_until <= ?1)
        ORDER BY next_at LIMIT ?2";

const HELD: &str = "SELECT s.subject, s.epoch FROM {v} CROSS JOIN subject s ON s.subject = v.column1
        WHERE s.owner IS NOT NULL";

const OPEN_ATTEMPTS: &str = "SELECT a.subject, a.resources FROM {v} CROSS JOIN attempt a ON a.subject = v.column1
        WHERE a.state = 'open'";

const TAKE: &str =
    "UPDATE subject SET epoch = v.column2, owner = v.column3, lease_until = v.column4, next_at = v.column4
    FROM {v} WHERE subject.subject = v.column1";

/// Statements whose plans a test looks at.
#[cfg(test)]
pub(super) const FREQUENT: &[(&str, &str)] =
    &[("due", DUE), ("held", HELD), ("open attempts", OPEN_ATTEMPTS), ("take", TAKE)];

/// Looks up which of `subjects` are leased.
pub(super) async fn held(connection: &mut SqliteConnection, subjects: BTreeSet<&str>) -> Result<Held, Fault> {
    let mut held = Held::new();
    for row in column(subjects)?.fetch(connection, HELD).await? {
        held.insert(row.try_get(0).map_err(|e| fault(&e))?, row.try_get(1).map_err(|e| fault(&e))?);
    }
    Ok(held)
}

/// Whether every lease still stands.
pub(super) fn stand(held: &Held, leases: &[Lease]) -> bool {
    leases.iter().all(|lease| held.get(&lease.subject) == Some(&lease.epoch))
}

/// Serves all requests for work of a batch, longest due first.
pub(super) async fn claim(
    connection: &mut SqliteConnection,
    requests: &mut [Work<ClaimRequest, Option<Leased>, ClaimError>],
) -> Result<(), Fault> {
    let Some(now) = requests.iter().map(|work| work.input.now).max() else { return Ok(()) };
    let rows = sqlx::query(DUE)
        .bind(now)
        .bind(i64::try_from(requests.len()).unwrap_or(i64::MAX))
        .fetch_all(&mut *connection)
        .await
        .map_err(|e| fault(&e))?;
    let mut due = std::collections::VecDeque::new();
    for row in rows {
        let e = |e: sqlx::Error| fault(&e);
        let lease = Lease { subject: row.try_get(0).map_err(e)?, epoch: row.try_get::<i64, _>(1).map_err(e)? + 1 };
        let due_at = row.try_get::<i64, _>(3).map_err(e)?.max(row.try_get(4).map_err(e)?);
        due.push_back((due_at, Leased { lease, failures: row.try_get(2).map_err(e)? }));
    }
    let mut taken = Rows::new(4);
    for work in requests {
        let found = due.iter().position(|(due_at, _)| *due_at <= work.input.now).and_then(|at| due.remove(at));
        if let Some((_, leased)) = &found {
            add_lease(&mut taken, &leased.lease, &work.input.owner, work.input.until)?;
        }
        work.result = Some(Ok(found.map(|(_, leased)| leased)));
    }
    taken.execute(connection, TAKE).await
}

fn add_lease(rows: &mut Rows, lease: &Lease, owner: &str, until: i64) -> Result<(), Fault> {
    rows.add(lease.subject.as_str())?.add(lease.epoch)?.add(owner)?.add(until)?;
    Ok(())
}

/// Leases further subjects, all or none. Unknown subjects come into being: a merge may name a patient before any
/// message does.
pub(super) async fn claim_more(
    connection: &mut SqliteConnection,
    request: &MoreRequest,
) -> Result<Result<Option<Vec<Lease>>, ClaimError>, Fault> {
    let names = request.held.iter().map(|lease| lease.subject.as_str()).collect();
    if !stand(&held(connection, names).await?, &request.held) {
        return Ok(Err(ClaimError::StaleEpoch));
    }
    let wanted = || request.subjects.iter().filter(|s| request.held.iter().all(|held| held.subject != **s));
    let query = "SELECT s.subject, s.epoch, s.parked_code IS NULL AND (s.owner IS NULL OR s.lease_until <= v.column2)
        FROM {v} CROSS JOIN subject s ON s.subject = v.column1";
    let mut asked = Rows::new(2);
    for subject in wanted() {
        asked.add(subject.as_str())?.add(request.now)?;
    }
    let mut epochs = BTreeMap::<String, i64>::new();
    for row in asked.fetch(connection, query).await? {
        if !row.try_get::<bool, _>(2).map_err(|e| fault(&e))? {
            return Ok(Ok(None));
        }
        epochs.insert(row.try_get(0).map_err(|e| fault(&e))?, row.try_get(1).map_err(|e| fault(&e))?);
    }
    let (mut taken, mut leases) = (Rows::new(4), Vec::new());
    for subject in wanted() {
        let lease = Lease { subject: subject.clone(), epoch: epochs.get(subject).copied().unwrap_or(0) + 1 };
        add_lease(&mut taken, &lease, &request.owner, request.until)?;
        leases.push(lease);
    }
    let take = "INSERT INTO subject (subject, epoch, owner, lease_until, next_at)
        SELECT column1, column2, column3, column4, column4 FROM {v} WHERE column1 IS NOT NULL
        ON CONFLICT (subject) DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner,
            lease_until = excluded.lease_until, next_at = excluded.next_at";
    taken.execute(connection, take).await?;
    Ok(Ok(Some(leases)))
}

/// Renews, releases or parks.
pub(super) async fn change(
    connection: &mut SqliteConnection,
    request: &ChangeRequest,
    held: &mut Held,
    chain: &mut audit::Head,
) -> Result<Result<(), LeaseError>, Fault> {
    if !stand(held, &request.leases) {
        return Ok(Err(LeaseError::StaleEpoch));
    }
    let release = "UPDATE subject SET owner = NULL, lease_until = NULL, next_at = v.column2,
            failures = failures + v.column3, reason = coalesce(v.column4, reason)
        FROM {v} WHERE subject.subject = v.column1";
    let mut rows = Rows::new(4);
    match &request.change {
        Change::Renew { until } => {
            for lease in &request.leases {
                rows.add(lease.subject.as_str())?.add(*until)?.add(0)?.add(None::<&str>)?;
            }
            let renew = "UPDATE subject SET lease_until = v.column2, next_at = v.column2
                FROM {v} WHERE subject.subject = v.column1";
            rows.execute(connection, renew).await?;
            return Ok(Ok(()));
        }
        Change::Release { retry_at, reason } => {
            for lease in &request.leases {
                rows.add(lease.subject.as_str())?.add(*retry_at)?.add(1)?.add(Some(reason.as_str()))?;
            }
            rows.execute(connection, release).await?;
        }
        Change::Park { code, summary, at } => {
            for lease in &request.leases {
                rows.add(lease.subject.as_str())?.add(*at)?.add(0)?.add(None::<&str>)?;
            }
            rows.execute(connection, release).await?;
            park(connection, &request.leases, (code, summary), *at, chain).await?;
        }
    }
    for lease in &request.leases {
        held.remove(&lease.subject);
    }
    Ok(Ok(()))
}

async fn park(
    connection: &mut SqliteConnection,
    leases: &[Lease],
    (code, summary): (&str, &str),
    at: i64,
    chain: &mut audit::Head,
) -> Result<(), Fault> {
    let own = leases.first().ok_or(UNREADABLE)?;
    sqlx::query("UPDATE subject SET parked_code = ?, parked_summary = ? WHERE subject = ?")
        .bind(code)
        .bind(summary)
        .bind(&own.subject)
        .execute(&mut *connection)
        .await
        .map_err(|e| fault(&e))?;
    let detail = serde_json::json!({ "code": code }).to_string();
    let event = "subject_parked".to_owned();
    append_audit(connection, &[audit::Entry { at, event, receipt_id: None, message_id: None, detail }], chain).await
}

/// Records attempts. One of unknown outcome that came before is superseded, its resources are carried along: whoever
/// finds the new attempt open reads them all.
pub(super) async fn record_attempts(
    connection: &mut SqliteConnection,
    requests: &mut [Work<AttemptRequest, (), AttemptError>],
    held: &Held,
) -> Result<(), Fault> {
    let mut standing = Vec::new();
    for work in requests {
        let stands = stand(held, &work.input.leases);
        work.result = Some(if stands { Ok(()) } else { Err(AttemptError::StaleEpoch) });
        if stands {
            standing.push(&work.input);
        }
    }
    let subjects: BTreeSet<&str> =
        standing.iter().flat_map(|request| &request.leases).map(|lease| lease.subject.as_str()).collect();
    let mut open = BTreeMap::<String, BTreeSet<String>>::new();
    for row in column(subjects.iter().copied())?.fetch(connection, OPEN_ATTEMPTS).await? {
        let resources = resources_from_json(row.try_get(1).map_err(|e| fault(&e))?)?;
        open.entry(row.try_get(0).map_err(|e| fault(&e))?).or_default().extend(resources);
    }
    if !open.is_empty() {
        let supersede = "UPDATE attempt SET state = 'superseded'
            FROM {v} WHERE attempt.subject = v.column1 AND attempt.state = 'open'";
        column(open.keys().map(String::as_str))?.execute(connection, supersede).await?;
    }
    let mut rows = Rows::new(6);
    for AttemptRequest { leases, attempt } in standing {
        for lease in leases {
            let before = open.get(&lease.subject).into_iter().flatten();
            let resources: BTreeSet<&String> = attempt.resources.iter().chain(before).collect();
            rows.add(attempt.attempt_id.as_str())?
                .add(lease.subject.as_str())?
                .add(lease.epoch)?
                .add(serde_json::json!(resources).to_string())?
                .add(attempt.bundle_hash.as_slice())?
                .add(micros(attempt.created_at))?;
        }
    }
    let insert = "INSERT INTO attempt (attempt_id, subject, epoch, resources, bundle_hash, created_at, state)
        SELECT v.*, 'open' FROM {v} WHERE column1 IS NOT NULL";
    rows.execute(connection, insert).await
}

/// Reads the list an attempt row keeps.
pub(super) fn resources_from_json(text: &str) -> Result<Vec<String>, Fault> {
    serde_json::from_str(text).map_err(|_| UNREADABLE)
}
