//! Parked messages and subjects set going again, in the writer's transaction, a small chunk at a time.

use sqlx::{Row, SqliteConnection};

use super::accept::append_audit;
use super::fault::fault;
use super::rows::{Rows, column};
use crate::decide::{Key, Keys};
use crate::{Disposition, Fault, Identified, IdentityKeyError, ParkedFilter, ReidentifyError, audit};

/// Rows set going in one transaction; live traffic comes between.
pub(super) const CHUNK: i64 = 256;

/// The next chunk of a retry.
#[derive(Debug)]
pub(super) struct RetryRequest {
    pub(super) filter: ParkedFilter,
    pub(super) after: i64,
    pub(super) at: i64,
}

/// What a chunk did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chunk {
    pub(super) rows: u64,
    /// Where the next chunk of messages starts; `None` after the last.
    pub(super) next: Option<i64>,
}

/// Makes a chunk of parked messages pending.
pub(super) async fn retry_messages(
    connection: &mut SqliteConnection,
    request: &RetryRequest,
    chain: &mut audit::Head,
) -> Result<Chunk, Fault> {
    let query = "SELECT id, message_id FROM message
        WHERE status = 'parked' AND subject IS NOT NULL AND id > ?1 AND (?2 IS NULL OR code = ?2)
            AND (?3 IS NULL OR subject = ?3) AND (?4 IS NULL OR message_id = ?4)
        ORDER BY id LIMIT ?5";
    let found = sqlx::query(query)
        .bind(request.after)
        .bind(request.filter.code.as_deref())
        .bind(request.filter.subject.as_deref())
        .bind(request.filter.message_id.as_deref())
        .bind(CHUNK)
        .fetch_all(&mut *connection)
        .await
        .map_err(|e| fault(&e))?;
    let (mut ids, mut entries) = (Vec::new(), Vec::new());
    for row in found {
        ids.push(row.try_get::<i64, _>(0).map_err(|e| fault(&e))?);
        entries.push(audit::Entry {
            at: request.at,
            event: "retried".to_owned(),
            receipt_id: None,
            message_id: row.try_get(1).map_err(|e| fault(&e))?,
            detail: "{}".to_owned(),
        });
    }
    let update = "UPDATE message SET status = 'pending', code = NULL FROM {v} WHERE message.id = v.column1";
    column(ids.iter().copied())?.execute(connection, update).await?;
    mark_dirty(connection, &ids, request.at).await?;
    append_audit(connection, &entries, chain).await?;
    let full = i64::try_from(ids.len()).is_ok_and(|found| found == CHUNK);
    Ok(Chunk { rows: ids.len() as u64, next: ids.last().copied().filter(|_| full) })
}

async fn mark_dirty(connection: &mut SqliteConnection, ids: &[i64], at: i64) -> Result<(), Fault> {
    let mut rows = Rows::new(2);
    for id in ids {
        rows.add(*id)?.add(at)?;
    }
    let upsert = "INSERT INTO subject (subject, newest_key, next_at, dirty)
        SELECT m.subject, max(m.order_key), max(v.column2), 1 FROM {v} CROSS JOIN message m ON m.id = v.column1
        WHERE m.subject IS NOT NULL GROUP BY m.subject
        ON CONFLICT (subject) DO UPDATE SET
            newest_key = max(coalesce(newest_key, x''), excluded.newest_key),
            next_at = CASE WHEN dirty = 1 THEN next_at ELSE excluded.next_at END, dirty = 1";
    rows.execute(connection, upsert).await
}

/// Frees a chunk of parked subjects.
pub(super) async fn retry_subjects(
    connection: &mut SqliteConnection,
    request: &RetryRequest,
    chain: &mut audit::Head,
) -> Result<Chunk, Fault> {
    let update = "UPDATE subject SET parked_code = NULL, parked_summary = NULL, failures = 0, next_at = ?1
        WHERE subject IN (SELECT subject FROM subject WHERE parked_code IS NOT NULL
            AND (?2 IS NULL OR parked_code = ?2) AND (?3 IS NULL OR subject = ?3) LIMIT ?4)";
    let rows = sqlx::query(update)
        .bind(request.at)
        .bind(request.filter.code.as_deref())
        .bind(request.filter.subject.as_deref())
        .bind(CHUNK)
        .execute(&mut *connection)
        .await
        .map_err(|e| fault(&e))?
        .rows_affected();
    if rows > 0 {
        let detail = serde_json::json!({ "subjects": rows, "code": request.filter.code }).to_string();
        let event = "subjects_retried".to_owned();
        let entry = audit::Entry { at: request.at, event, receipt_id: None, message_id: None, detail };
        append_audit(connection, &[entry], chain).await?;
    }
    let full = i64::try_from(rows).is_ok_and(|rows| rows == CHUNK);
    Ok(Chunk { rows, next: full.then_some(0) })
}

/// New keys and a new disposition for a message put aside.
#[derive(Debug)]
pub(super) struct ReidentifyRequest {
    pub(super) message_id: String,
    pub(super) identified: Identified,
    pub(super) disposition: Disposition,
    pub(super) at: i64,
}

/// Judges a parked or rejected message anew.
pub(super) async fn reidentify(
    connection: &mut SqliteConnection,
    request: &ReidentifyRequest,
    chain: &mut audit::Head,
) -> Result<Result<(), ReidentifyError>, Fault> {
    let found = sqlx::query(
        "SELECT id, first_receipt, sender FROM message WHERE message_id = ? AND status IN ('parked', 'rejected')",
    )
    .bind(&request.message_id)
    .fetch_optional(&mut *connection)
    .await
    .map_err(|e| fault(&e))?;
    let Some(row) = found else { return Ok(Err(ReidentifyError::NotParked)) };
    let id: i64 = row.try_get(0).map_err(|e| fault(&e))?;
    let (status, code) = match request.disposition {
        Disposition::Apply => ("pending", None),
        Disposition::Park(code) => ("parked", Some(code)),
        Disposition::Reject(code) => ("rejected", Some(code)),
    };
    if status != "rejected" {
        let receipt = row.try_get(1).map_err(|e| fault(&e))?;
        let keys = Keys::of_identified(row.try_get(2).map_err(|e| fault(&e))?, &request.identified);
        identify(connection, id, receipt, keys).await?;
    }
    update(connection, id, request, (status, code)).await?;
    if status == "pending" {
        mark_dirty(connection, &[id], request.at).await?;
    }
    let detail = serde_json::json!({ "status": status, "code": code }).to_string();
    let message_id = Some(request.message_id.clone());
    let event = "reidentified".to_owned();
    append_audit(connection, &[audit::Entry { at: request.at, event, receipt_id: None, message_id, detail }], chain)
        .await?;
    Ok(Ok(()))
}

/// Adds the keys the message may not have had; the first message under a key keeps it.
async fn identify(
    connection: &mut SqliteConnection,
    id: i64,
    receipt: i64,
    keys: [Option<Key>; 3],
) -> Result<(), Fault> {
    let mut rows = Rows::new(4);
    for (kind, key) in keys.iter().flatten() {
        rows.add(*kind as i64)?.add(key.as_slice())?.add(id)?.add(receipt)?;
    }
    let insert = "INSERT OR IGNORE INTO identity (kind, key, message, receipt)
        SELECT * FROM {v} WHERE column1 IS NOT NULL";
    rows.execute(connection, insert).await
}

async fn update(
    connection: &mut SqliteConnection,
    id: i64,
    request: &ReidentifyRequest,
    (status, code): (&str, Option<&str>),
) -> Result<(), Fault> {
    let update = "UPDATE message SET message_type = ?2, order_key = ?3, business_key = ?4, subject = ?5, status = ?6,
            code = ?7, corrects = (SELECT message FROM identity WHERE kind = 4 AND key = ?4 AND message <> ?1)
        WHERE id = ?1";
    let identified = &request.identified;
    sqlx::query(update)
        .bind(id)
        .bind(&identified.message_type)
        .bind(&identified.order_key)
        .bind(identified.business_key.as_ref().map(<[u8; 32]>::as_slice))
        .bind(identified.subject.as_deref())
        .bind(status)
        .bind(code)
        .execute(connection)
        .await
        .map_err(|e| fault(&e))?;
    Ok(())
}

/// Replaces the identity key while nothing was stored under another.
pub(super) async fn import_identity_key(
    connection: &mut SqliteConnection,
    key: &[u8; 32],
) -> Result<Result<(), IdentityKeyError>, Fault> {
    let row =
        sqlx::query("SELECT value = ?1 OR NOT EXISTS (SELECT 1 FROM message) FROM setting WHERE name = 'identity_key'")
            .bind(key.as_slice())
            .fetch_one(&mut *connection)
            .await
            .map_err(|e| fault(&e))?;
    if !row.try_get::<bool, _>(0).map_err(|e| fault(&e))? {
        return Ok(Err(IdentityKeyError::InUse));
    }
    sqlx::query("UPDATE setting SET value = ? WHERE name = 'identity_key'")
        .bind(key.as_slice())
        .execute(connection)
        .await
        .map_err(|e| fault(&e))?;
    Ok(Ok(()))
}
