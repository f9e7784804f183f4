//! Lineage from any correlation ID and back, and the walk along the audit chain (promise 5 of DESIGN §9).

use std::collections::BTreeMap;

use sqlx::sqlite::{SqlitePool, SqliteRow};
use sqlx::{AssertSqlSafe, Row, SqliteConnection};

use super::fault::{UNREADABLE, fault};
use super::read::{RESOURCE, resource};
use super::rows::column;
use crate::time::system_time;
use crate::{
    AuditError, AuditHead, AuditRow, Fault, MessageRow, ReceiptRow, Status, TRACE_ROWS_MAX, Trace, Verdict, audit,
};

/// Audit rows read at a time.
const AUDIT_PAGE: i64 = 1000;

pub(super) async fn trace(pool: &SqlitePool, correlation_id: &str) -> Result<Trace, Fault> {
    let mut connection = pool.acquire().await.map_err(|e| fault(&e))?;
    let query = "SELECT r.id, r.message FROM receipt r WHERE r.receipt_id = ?1
        UNION SELECT r.id, r.message FROM receipt r JOIN message m ON m.id = r.message WHERE m.message_id = ?1
        UNION SELECT r.id, r.message FROM receipt r WHERE r.message_control_id = ?1
        ORDER BY 1 LIMIT ?2";
    let limit = i64::try_from(TRACE_ROWS_MAX).unwrap_or(i64::MAX) + 1;
    let rows =
        sqlx::query(query).bind(correlation_id).bind(limit).fetch_all(&mut *connection).await.map_err(|e| fault(&e))?;
    let mut messages = Vec::new();
    let mut receipts = Vec::new();
    for row in rows.iter().take(TRACE_ROWS_MAX) {
        receipts.push(row.try_get::<i64, _>(0).map_err(|e| fault(&e))?);
        messages.extend(row.try_get::<Option<i64>, _>(1).map_err(|e| fault(&e))?);
    }
    lineage(&mut connection, receipts, messages, rows.len() > TRACE_ROWS_MAX).await
}

pub(super) async fn trace_resource(pool: &SqlitePool, id: &str) -> Result<Trace, Fault> {
    let mut connection = pool.acquire().await.map_err(|e| fault(&e))?;
    let query = "SELECT x.message FROM message_resource x WHERE x.full_url = ?1
        UNION SELECT x.message FROM resource s JOIN message_resource x ON x.full_url = s.full_url WHERE s.server_id = ?1
        ORDER BY 1 LIMIT ?2";
    let limit = i64::try_from(TRACE_ROWS_MAX).unwrap_or(i64::MAX) + 1;
    let rows = sqlx::query(query).bind(id).bind(limit).fetch_all(&mut *connection).await.map_err(|e| fault(&e))?;
    let mut messages = Vec::new();
    for row in rows.iter().take(TRACE_ROWS_MAX) {
        messages.push(row.try_get::<i64, _>(0).map_err(|e| fault(&e))?);
    }
    lineage(&mut connection, Vec::new(), messages, rows.len() > TRACE_ROWS_MAX).await
}

/// All receipts of the messages, the receipts given (those without a message among them), and what they led to.
async fn lineage(
    connection: &mut SqliteConnection,
    receipts: Vec<i64>,
    mut messages: Vec<i64>,
    truncated: bool,
) -> Result<Trace, Fault> {
    let mut trace = Trace { truncated, ..Trace::default() };
    messages.sort_unstable();
    messages.dedup();
    let mut audit_seqs = Vec::new();
    let mut found = BTreeMap::new();
    let by_id = receipt_query("r.id = v.column1");
    let by_message = receipt_query("r.message = v.column1");
    for (ids, query) in [(receipts, by_id), (messages.clone(), by_message)] {
        for row in column(ids)?.fetch(connection, &query).await? {
            found.insert(row.try_get::<i64, _>(0).map_err(|e| fault(&e))?, row);
        }
    }
    trace.truncated |= found.len() > TRACE_ROWS_MAX;
    for row in found.values().take(TRACE_ROWS_MAX) {
        audit_seqs.push(row.try_get::<i64, _>(1).map_err(|e| fault(&e))?);
        trace.receipts.push(receipt(row)?);
    }
    trace.messages = message_rows(connection, &messages).await?;
    resources_of(connection, &messages, &mut trace).await?;
    audit_of(connection, audit_seqs, &mut trace).await?;
    Ok(trace)
}

fn receipt_query(on: &str) -> String {
    format!(
        "SELECT r.id, r.audit_seq, r.receipt_id, m.message_id, r.received_at, r.sender, r.peer, r.traceparent,
            r.verdict, r.code, r.ack, r.alerts
        FROM {{v}} CROSS JOIN receipt r ON {on} LEFT JOIN message m ON m.id = r.message
        ORDER BY r.id LIMIT {}",
        TRACE_ROWS_MAX + 1
    )
}

fn receipt(row: &SqliteRow) -> Result<ReceiptRow, Fault> {
    let e = |e: sqlx::Error| fault(&e);
    let alerts: String = row.try_get(11).map_err(e)?;
    Ok(ReceiptRow {
        receipt_id: row.try_get(2).map_err(e)?,
        message_id: row.try_get(3).map_err(e)?,
        received_at: system_time(row.try_get(4).map_err(e)?),
        sender: row.try_get(5).map_err(e)?,
        peer: row.try_get(6).map_err(e)?,
        traceparent: row.try_get(7).map_err(e)?,
        verdict: Verdict::from_name(row.try_get(8).map_err(e)?).ok_or(UNREADABLE)?,
        code: row.try_get(9).map_err(e)?,
        ack: row.try_get(10).map_err(e)?,
        alerts: alerts.split(',').filter(|alert| !alert.is_empty()).map(str::to_owned).collect(),
    })
}

async fn message_rows(connection: &mut SqliteConnection, ids: &[i64]) -> Result<Vec<MessageRow>, Fault> {
    let query = "SELECT m.message_id, m.sender, m.message_type, m.message_control_id, m.subject, m.status, m.code,
            m.mapping_version, c.message_id, (SELECT min(received_at) FROM receipt WHERE message = m.id),
            (SELECT max(received_at) FROM receipt WHERE message = m.id)
        FROM {v} CROSS JOIN message m ON m.id = v.column1 LEFT JOIN message c ON c.id = m.corrects ORDER BY m.id";
    let e = |e: sqlx::Error| fault(&e);
    let mut messages = Vec::new();
    for row in column(ids.iter().copied())?.fetch(connection, query).await? {
        messages.push(MessageRow {
            message_id: row.try_get(0).map_err(e)?,
            sender: row.try_get(1).map_err(e)?,
            message_type: row.try_get(2).map_err(e)?,
            message_control_id: row.try_get(3).map_err(e)?,
            subject: row.try_get(4).map_err(e)?,
            status: Status::from_name(row.try_get(5).map_err(e)?).ok_or(UNREADABLE)?,
            code: row.try_get(6).map_err(e)?,
            mapping_version: row.try_get(7).map_err(e)?,
            corrects: row.try_get(8).map_err(e)?,
            first_received_at: system_time(row.try_get(9).map_err(e)?),
            last_received_at: system_time(row.try_get(10).map_err(e)?),
            resources: Vec::new(),
        });
    }
    Ok(messages)
}

async fn resources_of(connection: &mut SqliteConnection, ids: &[i64], trace: &mut Trace) -> Result<(), Fault> {
    let query = "SELECT m.message_id, x.full_url FROM {v} CROSS JOIN message_resource x ON x.message = v.column1
        CROSS JOIN message m ON m.id = x.message ORDER BY x.message, x.full_url";
    let mut touched = BTreeMap::<String, Vec<String>>::new();
    for row in column(ids.iter().copied())?.fetch(connection, query).await? {
        let full_url = row.try_get(1).map_err(|e| fault(&e))?;
        touched.entry(row.try_get(0).map_err(|e| fault(&e))?).or_default().push(full_url);
    }
    for message in &mut trace.messages {
        message.resources = touched.remove(&message.message_id).unwrap_or_default();
    }
    let full_urls: std::collections::BTreeSet<&str> =
        trace.messages.iter().flat_map(|message| &message.resources).map(String::as_str).collect();
    trace.truncated |= full_urls.len() > TRACE_ROWS_MAX;
    let query = format!("SELECT {RESOURCE} FROM {{v}} CROSS JOIN resource s ON s.full_url = v.column1");
    let shown = column(full_urls.into_iter().take(TRACE_ROWS_MAX))?;
    for row in shown.fetch(connection, &query).await? {
        trace.resources.push(resource(&row)?);
    }
    Ok(())
}

/// Receipts know their audit row; rows of delivery are found by message.
async fn audit_of(connection: &mut SqliteConnection, seqs: Vec<i64>, trace: &mut Trace) -> Result<(), Fault> {
    const COLUMNS: &str = "a.seq, a.at, a.event, a.receipt_id, a.message_id, a.detail";
    let by_seq = format!("SELECT {COLUMNS} FROM {{v}} CROSS JOIN audit a ON a.seq = v.column1");
    let by_message = format!(
        "SELECT {COLUMNS} FROM {{v}} CROSS JOIN audit a ON a.message_id = v.column1
        WHERE a.receipt_id IS NULL AND a.message_id IS NOT NULL ORDER BY a.seq LIMIT {}",
        TRACE_ROWS_MAX + 1
    );
    let mut rows = column(seqs)?.fetch(connection, &by_seq).await?;
    let message_ids: Vec<String> = trace.messages.iter().map(|message| message.message_id.clone()).collect();
    rows.extend(column(message_ids)?.fetch(connection, &by_message).await?);
    let mut found = BTreeMap::new();
    for row in rows {
        let row = audit_row(&row)?;
        found.insert(row.seq, row);
    }
    trace.truncated |= found.len() > 2 * TRACE_ROWS_MAX;
    trace.audit = found.into_values().take(2 * TRACE_ROWS_MAX).collect();
    Ok(())
}

fn audit_row(row: &SqliteRow) -> Result<AuditRow, Fault> {
    let e = |e: sqlx::Error| fault(&e);
    Ok(AuditRow {
        seq: row.try_get(0).map_err(e)?,
        at: system_time(row.try_get(1).map_err(e)?),
        event: row.try_get(2).map_err(e)?,
        receipt_id: row.try_get(3).map_err(e)?,
        message_id: row.try_get(4).map_err(e)?,
        detail: row.try_get(5).map_err(e)?,
    })
}

/// Recomputes every hash in a few pages of memory.
pub(super) async fn verify_audit(pool: &SqlitePool) -> Result<AuditHead, AuditError> {
    let mut head = audit::Head { seq: 0, hash: audit::GENESIS };
    loop {
        let query = format!(
            "SELECT seq, at, event, receipt_id, message_id, detail, hash FROM audit WHERE seq > ?1
            ORDER BY seq LIMIT {AUDIT_PAGE}"
        );
        let rows = sqlx::query(AssertSqlSafe(query)).bind(head.seq).fetch_all(pool).await.map_err(|e| fault(&e))?;
        if rows.is_empty() {
            return Ok(AuditHead { rows: head.seq.unsigned_abs(), hash: head.hash });
        }
        for row in rows {
            let e = |e: sqlx::Error| fault(&e);
            let seq: i64 = row.try_get(0).map_err(e)?;
            let entry = audit::Entry {
                at: row.try_get(1).map_err(e)?,
                event: row.try_get(2).map_err(e)?,
                receipt_id: row.try_get(3).map_err(e)?,
                message_id: row.try_get(4).map_err(e)?,
                detail: row.try_get(5).map_err(e)?,
            };
            let stored: Vec<u8> = row.try_get(6).map_err(e)?;
            let expected = head.append(&entry);
            if expected.seq != seq || expected.hash.as_slice() != stored {
                return Err(AuditError::Broken { seq });
            }
        }
    }
}
