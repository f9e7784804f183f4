//! Reads for the deliver side and for metrics, on the reading connections; every list is bounded.
//!
//! What does not live here: lineage (`trace`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use sqlx::sqlite::{SqlitePool, SqliteRow};
use sqlx::{AssertSqlSafe, Row, SqliteConnection};

use super::fault::{UNREADABLE, fault};
use super::lease::resources_from_json;
use super::rows::column;
use crate::Checkpoint;
use crate::time::system_time;
use crate::{
    Attempt, Claim, Counts, Fault, Lease, ParkedFilter, ParkedMessage, ParkedSubject, Resource, Status, StoredMessage,
    Verdict,
};

const STORED_MESSAGE: &str = "SELECT m.message_id, m.subject, m.sender, m.message_type, m.message_control_id,
        m.order_key, m.mapping_version, m.verdict, m.refold, r.traceparent, r.received_at, p.raw
    FROM message m JOIN receipt r ON r.id = m.first_receipt LEFT JOIN payload p ON p.receipt = r.payload_of";

fn stored_message(row: &SqliteRow) -> Result<StoredMessage, Fault> {
    let e = |e: sqlx::Error| fault(&e);
    Ok(StoredMessage {
        message_id: row.try_get(0).map_err(e)?,
        subject: row.try_get(1).map_err(e)?,
        sender: row.try_get(2).map_err(e)?,
        message_type: row.try_get(3).map_err(e)?,
        message_control_id: row.try_get(4).map_err(e)?,
        order_key: row.try_get(5).map_err(e)?,
        mapping_version: row.try_get(6).map_err(e)?,
        verdict: Verdict::from_name(row.try_get(7).map_err(e)?).ok_or(UNREADABLE)?,
        refold: row.try_get(8).map_err(e)?,
        traceparent: row.try_get(9).map_err(e)?,
        received_at: system_time(row.try_get(10).map_err(e)?),
        raw: row.try_get(11).map_err(e)?,
    })
}

/// The messages and the open attempt under `leases`, the first of which is the claim's own. Other writers can only add
/// messages to a leased subject, so this need not be in the transaction that leased it.
pub(super) async fn claim(
    pool: &SqlitePool,
    owner: String,
    leases: Vec<Lease>,
    failures: u32,
    messages_max: u32,
) -> Result<Option<Claim>, Fault> {
    let mut connection = pool.acquire().await.map_err(|e| fault(&e))?;
    let mut leases = leases.into_iter();
    let Some(Lease { subject, epoch }) = leases.next() else { return Ok(None) };
    let more: Vec<Lease> = leases.collect();
    let mut claim = Claim {
        subject,
        epoch,
        owner,
        more,
        messages: Vec::new(),
        truncated: false,
        failures,
        refold: false,
        open_attempt: None,
    };
    let subjects: Vec<String> = claim.leases().map(|(subject, _)| subject.to_owned()).collect();
    for subject in &subjects {
        let query = format!(
            "{STORED_MESSAGE} WHERE m.subject = ?1 AND m.status = 'pending' ORDER BY m.order_key, m.id LIMIT ?2"
        );
        let rows = sqlx::query(AssertSqlSafe(query))
            .bind(subject)
            .bind(i64::from(messages_max) + 1)
            .fetch_all(&mut *connection)
            .await
            .map_err(|e| fault(&e))?;
        claim.truncated |= rows.len() > messages_max as usize;
        for row in rows.iter().take(messages_max as usize) {
            claim.messages.push(stored_message(row)?);
        }
    }
    claim.messages.sort_by(|a, b| (&a.order_key, &a.message_id).cmp(&(&b.order_key, &b.message_id)));
    claim.refold = claim.messages.iter().any(|message| message.refold);
    claim.open_attempt = open_attempt(&mut connection, &subjects).await?;
    Ok(Some(claim))
}

/// The newest open attempt with the resources of all.
async fn open_attempt(connection: &mut SqliteConnection, subjects: &[String]) -> Result<Option<Attempt>, Fault> {
    let query = "SELECT a.attempt_id, a.resources, a.bundle_hash, a.created_at FROM {v}
        CROSS JOIN attempt a ON a.subject = v.column1 WHERE a.state = 'open' ORDER BY a.created_at DESC, a.attempt_id";
    let mut newest: Option<Attempt> = None;
    let mut resources = BTreeSet::new();
    for row in column(subjects.iter().map(String::as_str))?.fetch(connection, query).await? {
        let e = |e: sqlx::Error| fault(&e);
        resources.extend(resources_from_json(row.try_get(1).map_err(e)?)?);
        if newest.is_none() {
            let hash: Vec<u8> = row.try_get(2).map_err(e)?;
            newest = Some(Attempt {
                attempt_id: row.try_get(0).map_err(e)?,
                resources: Vec::new(),
                bundle_hash: hash.try_into().map_err(|_| UNREADABLE)?,
                created_at: system_time(row.try_get(3).map_err(e)?),
            });
        }
    }
    Ok(newest.map(|attempt| Attempt { resources: resources.into_iter().collect(), ..attempt }))
}

/// A subject under a lease is due no sooner than the lease ends, even if a new message set an earlier time: so the head
/// of the queue only bounds which subjects to look at.
pub(super) async fn next_due(pool: &SqlitePool) -> Result<Option<SystemTime>, Fault> {
    let query = "SELECT min(max(next_at, coalesce(lease_until, next_at))) FROM subject
        WHERE dirty = 1 AND parked_code IS NULL AND next_at <= coalesce(
            (SELECT max(next_at, coalesce(lease_until, next_at)) FROM subject
                WHERE dirty = 1 AND parked_code IS NULL ORDER BY next_at LIMIT 1), 0)";
    let row = sqlx::query(query).fetch_one(pool).await.map_err(|e| fault(&e))?;
    Ok(row.try_get::<Option<i64>, _>(0).map_err(|e| fault(&e))?.map(system_time))
}

pub(super) async fn checkpoints(
    pool: &SqlitePool,
    full_urls: &[String],
) -> Result<BTreeMap<String, Checkpoint>, Fault> {
    let mut connection = pool.acquire().await.map_err(|e| fault(&e))?;
    let query = "SELECT c.full_url, c.version, c.registers FROM {v} CROSS JOIN checkpoint c ON c.full_url = v.column1";
    let mut found = BTreeMap::new();
    for row in column(full_urls.iter().map(String::as_str))?.fetch(&mut connection, query).await? {
        let version = row.try_get(1).map_err(|e| fault(&e))?;
        let registers = row.try_get(2).map_err(|e| fault(&e))?;
        found.insert(row.try_get(0).map_err(|e| fault(&e))?, Checkpoint { version, registers });
    }
    Ok(found)
}

pub(super) async fn resources(pool: &SqlitePool, full_urls: &[String]) -> Result<BTreeMap<String, Resource>, Fault> {
    let mut connection = pool.acquire().await.map_err(|e| fault(&e))?;
    let query = format!("SELECT {RESOURCE} FROM {{v}} CROSS JOIN resource s ON s.full_url = v.column1");
    let mut found = BTreeMap::new();
    for row in column(full_urls.iter().map(String::as_str))?.fetch(&mut connection, &query).await? {
        let resource = resource(&row)?;
        found.insert(resource.full_url.clone(), resource);
    }
    Ok(found)
}

pub(super) async fn owners(pool: &SqlitePool, server_ids: &[String]) -> Result<BTreeMap<String, String>, Fault> {
    let mut connection = pool.acquire().await.map_err(|e| fault(&e))?;
    let query = "SELECT s.server_id, s.full_url FROM {v} CROSS JOIN resource s ON s.server_id = v.column1";
    let mut found = BTreeMap::new();
    for row in column(server_ids.iter().map(String::as_str))?.fetch(&mut connection, query).await? {
        found.insert(row.try_get(0).map_err(|e| fault(&e))?, row.try_get(1).map_err(|e| fault(&e))?);
    }
    Ok(found)
}

/// Columns of a shadow, for [`resource`].
pub(super) const RESOURCE: &str =
    "s.full_url, s.resource_type, s.system, s.value, s.subject, s.server_id, s.etag, s.hash,
    s.foreign_elements";

pub(super) fn resource(row: &SqliteRow) -> Result<Resource, Fault> {
    let e = |e: sqlx::Error| fault(&e);
    let hash: Vec<u8> = row.try_get(7).map_err(e)?;
    Ok(Resource {
        full_url: row.try_get(0).map_err(e)?,
        resource_type: row.try_get(1).map_err(e)?,
        system: row.try_get(2).map_err(e)?,
        value: row.try_get(3).map_err(e)?,
        subject: row.try_get(4).map_err(e)?,
        server_id: row.try_get(5).map_err(e)?,
        etag: row.try_get(6).map_err(e)?,
        hash: hash.try_into().map_err(|_| UNREADABLE)?,
        foreign_elements: row.try_get(8).map_err(e)?,
    })
}

pub(super) async fn messages_of_resource(
    pool: &SqlitePool,
    full_url: &str,
    after: Option<(&[u8], &str)>,
    limit: u32,
) -> Result<Vec<StoredMessage>, Fault> {
    let query = format!(
        "{STORED_MESSAGE} JOIN message_resource x ON x.message = m.id
        WHERE x.full_url = ?1 AND m.subject IS NOT NULL AND m.status IN ('pending', 'applied')
            AND (m.order_key, m.message_id) > (?2, ?3)
        ORDER BY m.order_key, m.message_id LIMIT ?4"
    );
    let (order_key, message_id) = after.unwrap_or((&[], ""));
    let rows = sqlx::query(AssertSqlSafe(query))
        .bind(full_url)
        .bind(order_key)
        .bind(message_id)
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await
        .map_err(|e| fault(&e))?;
    rows.iter().map(stored_message).collect()
}

pub(super) async fn raw(pool: &SqlitePool, id: &str) -> Result<Option<Vec<u8>>, Fault> {
    let query = "SELECT raw FROM payload WHERE receipt = coalesce(
        (SELECT payload_of FROM receipt WHERE receipt_id = ?1),
        (SELECT first_receipt FROM message WHERE message_id = ?1))";
    let row = sqlx::query(query).bind(id).fetch_optional(pool).await.map_err(|e| fault(&e))?;
    row.map(|row| row.try_get(0).map_err(|e| fault(&e))).transpose()
}

pub(super) async fn counts(pool: &SqlitePool) -> Result<Counts, Fault> {
    let mut counts = Counts::default();
    for (verdict, n) in grouped(pool, "SELECT verdict, n FROM tally").await? {
        counts.verdicts.insert(Verdict::from_name(&verdict).ok_or(UNREADABLE)?, n);
    }
    let unsettled = "SELECT status, count(*) FROM message WHERE status <> 'applied' GROUP BY status";
    for (status, n) in grouped(pool, unsettled).await? {
        counts.statuses.insert(Status::from_name(&status).ok_or(UNREADABLE)?, n);
    }
    let codes = "SELECT coalesce(code, ''), count(*) FROM message WHERE status = 'parked' GROUP BY code";
    counts.parked_codes = grouped(pool, codes).await?.into_iter().collect();
    let subjects = "SELECT parked_code, count(*) FROM subject WHERE parked_code IS NOT NULL GROUP BY parked_code";
    counts.parked_subjects = grouped(pool, subjects).await?.into_iter().collect();
    // Rows of message are never deleted and numbered without gaps, so its greatest id counts them.
    let rest = "SELECT (SELECT coalesce(max(id), 0) FROM message),
        (SELECT count(*) FROM subject WHERE dirty = 1 AND parked_code IS NULL),
        (SELECT r.received_at FROM receipt r WHERE r.id = (SELECT first_receipt FROM message WHERE id =
            (SELECT min(id) FROM message WHERE status <> 'applied' AND status = 'pending')))";
    let row = sqlx::query(rest).fetch_one(pool).await.map_err(|e| fault(&e))?;
    let unsettled: u64 = counts.statuses.values().sum();
    let applied = row.try_get::<i64, _>(0).map_err(|e| fault(&e))?.unsigned_abs().saturating_sub(unsettled);
    if applied > 0 {
        counts.statuses.insert(Status::Applied, applied);
    }
    counts.dirty_subjects = row.try_get::<i64, _>(1).map_err(|e| fault(&e))?.unsigned_abs();
    counts.oldest_pending = row.try_get::<Option<i64>, _>(2).map_err(|e| fault(&e))?.map(system_time);
    Ok(counts)
}

async fn grouped(pool: &SqlitePool, query: &'static str) -> Result<Vec<(String, u64)>, Fault> {
    let rows = sqlx::query(query).fetch_all(pool).await.map_err(|e| fault(&e))?;
    rows.iter()
        .map(|row| {
            let n: i64 = row.try_get(1).map_err(|e| fault(&e))?;
            Ok((row.try_get(0).map_err(|e| fault(&e))?, n.unsigned_abs()))
        })
        .collect()
}

pub(super) async fn parked_messages(
    pool: &SqlitePool,
    code: Option<&str>,
    after: Option<i64>,
    limit: u32,
) -> Result<Vec<ParkedMessage>, Fault> {
    // By code the index is (code, id), without it (status, id): both page without sorting.
    let which = if code.is_some() {
        "m.status = 'parked' AND m.code = ?2"
    } else {
        "m.status <> 'applied' AND m.status = 'parked'"
    };
    let query = format!(
        "SELECT m.id, m.message_id, coalesce(m.code, ''), m.sender, m.message_type, m.message_control_id, m.subject,
            r.received_at
        FROM message m JOIN receipt r ON r.id = m.first_receipt
        WHERE {which} AND m.id > ?1 ORDER BY m.id LIMIT ?3"
    );
    let rows = sqlx::query(AssertSqlSafe(query))
        .bind(after.unwrap_or(0))
        .bind(code)
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await
        .map_err(|e| fault(&e))?;
    let e = |e: sqlx::Error| fault(&e);
    rows.iter()
        .map(|row| {
            Ok(ParkedMessage {
                cursor: row.try_get(0).map_err(e)?,
                message_id: row.try_get(1).map_err(e)?,
                code: row.try_get(2).map_err(e)?,
                sender: row.try_get(3).map_err(e)?,
                message_type: row.try_get(4).map_err(e)?,
                message_control_id: row.try_get(5).map_err(e)?,
                subject: row.try_get(6).map_err(e)?,
                received_at: system_time(row.try_get(7).map_err(e)?),
            })
        })
        .collect()
}

pub(super) async fn parked_subjects(
    pool: &SqlitePool,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<ParkedSubject>, Fault> {
    let query = "SELECT subject, parked_code, coalesce(parked_summary, '') FROM subject
        WHERE parked_code IS NOT NULL AND subject > ?1 ORDER BY subject LIMIT ?2";
    let rows = sqlx::query(query)
        .bind(after.unwrap_or(""))
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await
        .map_err(|e| fault(&e))?;
    let e = |e: sqlx::Error| fault(&e);
    rows.iter()
        .map(|row| {
            Ok(ParkedSubject {
                subject: row.try_get(0).map_err(e)?,
                code: row.try_get(1).map_err(e)?,
                summary: row.try_get(2).map_err(e)?,
            })
        })
        .collect()
}

pub(super) async fn parked_without_subject(pool: &SqlitePool, filter: &ParkedFilter) -> Result<u64, Fault> {
    if filter.subject.is_some() {
        return Ok(0);
    }
    let query = "SELECT count(*) FROM message WHERE status = 'parked' AND subject IS NULL
        AND (?1 IS NULL OR code = ?1) AND (?2 IS NULL OR message_id = ?2)";
    let row = sqlx::query(query)
        .bind(filter.code.as_deref())
        .bind(filter.message_id.as_deref())
        .fetch_one(pool)
        .await
        .map_err(|e| fault(&e))?;
    Ok(row.try_get::<i64, _>(0).map_err(|e| fault(&e))?.unsigned_abs())
}

pub(super) async fn identity_key(pool: &SqlitePool) -> Result<[u8; 32], Fault> {
    let row = sqlx::query("SELECT value FROM setting WHERE name = 'identity_key'")
        .fetch_one(pool)
        .await
        .map_err(|e| fault(&e))?;
    row.try_get::<Vec<u8>, _>(0).map_err(|e| fault(&e))?.try_into().map_err(|_| UNREADABLE)
}
