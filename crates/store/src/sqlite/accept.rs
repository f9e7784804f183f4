//! A batch of arrivals in one transaction: look up all keys, decide, write one statement a table.
//!
//! What does not live here: the decision (`decide`) and the transaction's begin and end (`writer`).

use std::collections::BTreeSet;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::fault::{UNREADABLE, fault};
use super::rows::{Rows, column};
use crate::decide::{Decider, Keys, Kind, Known, KnownMessage, NewIdentity, NewMessage, Seen, Writes};
use crate::time::micros;
use crate::{Accepted, Arrival, Fault, Status, audit};

const IDENTITIES: &str = "SELECT i.kind, i.key, i.message, i.receipt, i.flagged, r.ack, r.verdict = 'rejected',
            m.message_id, m.status, m.order_key, m.business_key, m.message_control_id, m.subject, f.ack
        FROM {v} CROSS JOIN identity i ON i.kind = v.column1 AND i.key = v.column2
        CROSS JOIN receipt r ON r.id = i.receipt
        LEFT JOIN message m ON m.id = i.message LEFT JOIN receipt f ON f.id = m.first_receipt";

const MESSAGES: &str =
    "SELECT m.id, m.message_id, m.status, m.order_key, m.business_key, m.message_control_id, m.subject,
            f.ack
        FROM {v} CROSS JOIN message m ON m.message_id = v.column1 CROSS JOIN receipt f ON f.id = m.first_receipt";

const NEWEST: &str = "SELECT s.subject, s.newest_key FROM {v} CROSS JOIN subject s ON s.subject = v.column1
        WHERE s.newest_key IS NOT NULL";

const MARK_DIRTY: &str = "INSERT INTO subject (subject, newest_key, next_at, dirty)
        SELECT column1, column2, column3, 1 FROM {v} WHERE column1 IS NOT NULL
        ON CONFLICT (subject) DO UPDATE SET
            newest_key = max(coalesce(newest_key, x''), coalesce(excluded.newest_key, x'')),
            next_at = CASE WHEN dirty = 1 THEN next_at ELSE excluded.next_at END, dirty = 1";

const LOWER: &str = "UPDATE message SET order_key = v.column2, message_control_id = v.column3,
            first_receipt = v.column4,
            refold = CASE WHEN status IN ('applied', 'pending') THEN 1 ELSE refold END,
            status = CASE status WHEN 'applied' THEN 'pending' ELSE status END
        FROM {v} WHERE message.id = v.column1";

const PROMOTE: &str = "UPDATE message SET sender = v.column3, message_type = v.column4, message_control_id = v.column5,
            order_key = v.column6, semantic_hash = v.column7, business_key = v.column8, subject = v.column9,
            status = v.column10, code = v.column11, verdict = v.column12, mapping_version = v.column13,
            corrects = v.column14, first_receipt = v.column15
        FROM {v} WHERE message.id = v.column1";

const REPOINT: &str = "UPDATE identity SET message = v.column3, receipt = v.column4
        FROM {v} WHERE identity.kind = v.column1 AND identity.key = v.column2";

const FLAG: &str = "UPDATE identity SET flagged = 1
        FROM {v} WHERE identity.kind = v.column1 AND identity.key = v.column2";

/// Statements whose plans a test looks at.
#[cfg(test)]
pub(super) const FREQUENT: &[(&str, &str)] = &[
    ("identities", IDENTITIES),
    ("messages", MESSAGES),
    ("newest", NEWEST),
    ("mark dirty", MARK_DIRTY),
    ("lower", LOWER),
    ("promote", PROMOTE),
    ("repoint", REPOINT),
    ("flag", FLAG),
];

/// Decides and writes `arrivals`; the answers hold once the transaction is committed.
pub(super) async fn accept(
    connection: &mut SqliteConnection,
    arrivals: &[&Arrival],
    chain: &mut audit::Head,
) -> Result<Vec<Accepted>, Fault> {
    let keys: Vec<Keys> = arrivals.iter().map(|arrival| Keys::of(arrival)).collect();
    let known = look_up(connection, arrivals, &keys).await?;
    let row = sqlx::query(
        "SELECT coalesce((SELECT max(id) FROM message), 0) + 1, coalesce((SELECT max(id) FROM receipt), 0) + 1",
    )
    .fetch_one(&mut *connection)
    .await
    .map_err(|e| fault(&e))?;
    let next = |at: usize| row.try_get::<i64, _>(at).map_err(|e| fault(&e));
    let (accepted, writes) = Decider::new(arrivals, &keys, known, next(0)?, next(1)?).run();
    write(connection, arrivals, writes, chain).await?;
    Ok(accepted)
}

async fn look_up(connection: &mut SqliteConnection, arrivals: &[&Arrival], keys: &[Keys]) -> Result<Known, Fault> {
    let mut known = Known::default();
    let mut rows = Rows::new(2);
    for key in keys.iter().flat_map(Keys::iter).collect::<BTreeSet<_>>() {
        rows.add(key.0 as i64)?.add(key.1.as_slice())?;
    }
    for row in rows.fetch(connection, IDENTITIES).await? {
        known_identity(&mut known, &row)?;
    }
    let identified = || arrivals.iter().filter_map(|arrival| arrival.identified.as_ref());
    let message_ids: BTreeSet<&str> = identified().map(|i| i.message_id.as_str()).collect();
    for row in column(message_ids)?.fetch(connection, MESSAGES).await? {
        let id = row.try_get(0).map_err(|e| fault(&e))?;
        known.add_message(id, known_message(&row, 1)?);
    }
    let subjects: BTreeSet<&str> = identified().filter_map(|i| i.subject.as_deref()).collect();
    for row in column(subjects)?.fetch(connection, NEWEST).await? {
        let subject = row.try_get(0).map_err(|e| fault(&e))?;
        known.newest.insert(subject, row.try_get(1).map_err(|e| fault(&e))?);
    }
    Ok(known)
}

fn known_identity(known: &mut Known, row: &SqliteRow) -> Result<(), Fault> {
    let e = |e: sqlx::Error| fault(&e);
    let kind = Kind::from_number(row.try_get(0).map_err(e)?).ok_or(UNREADABLE)?;
    let key: Vec<u8> = row.try_get(1).map_err(e)?;
    let message: Option<i64> = row.try_get(2).map_err(e)?;
    let ack = if kind == Kind::Raw { row.try_get(5).map_err(e)? } else { Vec::new() };
    let seen = Seen {
        message,
        receipt: row.try_get(3).map_err(e)?,
        ack,
        rejected: row.try_get(6).map_err(e)?,
        flagged: row.try_get(4).map_err(e)?,
    };
    known.identities.insert((kind, key.try_into().map_err(|_| UNREADABLE)?), seen);
    if let Some(id) = message
        && !known.messages.contains_key(&id)
    {
        known.add_message(id, known_message(row, 7)?);
    }
    Ok(())
}

fn known_message(row: &SqliteRow, first: usize) -> Result<KnownMessage, Fault> {
    let e = |e: sqlx::Error| fault(&e);
    Ok(KnownMessage {
        message_id: row.try_get(first).map_err(e)?,
        status: Status::from_name(row.try_get(first + 1).map_err(e)?).ok_or(UNREADABLE)?,
        order_key: row.try_get(first + 2).map_err(e)?,
        business_key: row.try_get(first + 3).map_err(e)?,
        message_control_id: row.try_get(first + 4).map_err(e)?,
        subject: row.try_get(first + 5).map_err(e)?,
        ack: row.try_get(first + 6).map_err(e)?,
    })
}

async fn write(
    connection: &mut SqliteConnection,
    arrivals: &[&Arrival],
    writes: Writes,
    chain: &mut audit::Head,
) -> Result<(), Fault> {
    write_messages(connection, arrivals, &writes.messages).await?;
    write_receipts(connection, arrivals, &writes, chain.seq).await?;
    let insert = "INSERT INTO identity (kind, key, message, receipt) SELECT * FROM {v} WHERE column1 IS NOT NULL";
    identity_rows(&writes.identities)?.execute(connection, insert).await?;
    let mut touched = Rows::new(3);
    for (subject, touch) in &writes.touched {
        touched.add(subject.as_str())?.add(touch.newest_key.as_deref())?.add(touch.due_at)?;
    }
    // A subject that waits already keeps its place in the queue, or its time of retry.
    touched.execute(connection, MARK_DIRTY).await?;
    write_rare(connection, arrivals, &writes).await?;
    append_audit(connection, &writes.audit, chain).await
}

async fn write_messages(
    connection: &mut SqliteConnection,
    arrivals: &[&Arrival],
    messages: &[NewMessage],
) -> Result<(), Fault> {
    let insert = "INSERT INTO message (id, message_id, sender, message_type, message_control_id, order_key,
            semantic_hash, business_key, subject, status, code, verdict, mapping_version, corrects, first_receipt)
        SELECT * FROM {v} WHERE column1 IS NOT NULL";
    message_rows(arrivals, messages)?.execute(connection, insert).await
}

fn message_rows(arrivals: &[&Arrival], messages: &[NewMessage]) -> Result<Rows, Fault> {
    let mut rows = Rows::new(15);
    for message in messages {
        let arrival = arrivals.get(message.arrival).ok_or(UNREADABLE)?;
        let identified = arrival.identified.as_ref().ok_or(UNREADABLE)?;
        rows.add(message.id)?
            .add(identified.message_id.as_str())?
            .add(arrival.sender.as_str())?
            .add(identified.message_type.as_str())?
            .add(identified.message_control_id.as_str())?
            .add(message.order_key.as_slice())?
            .add(identified.semantic_hash.as_slice())?
            .add(identified.business_key.as_ref().map(<[u8; 32]>::as_slice))?
            .add(identified.subject.as_deref())?
            .add(message.status.as_str())?
            .add(message.code)?
            .add(message.verdict.as_str())?
            .add(arrival.mapping_version.as_str())?
            .add(message.corrects)?
            .add(message.first_receipt)?;
    }
    Ok(rows)
}

/// Receipts, the bytes that no earlier receipt brought, and the tally of verdicts. The audit row of the n-th receipt
/// is the n-th after `audit_seq`.
async fn write_receipts(
    connection: &mut SqliteConnection,
    arrivals: &[&Arrival],
    writes: &Writes,
    mut audit_seq: i64,
) -> Result<(), Fault> {
    let (mut receipts, mut payloads) = (Rows::new(14), Rows::new(2));
    let mut tally = std::collections::BTreeMap::<&str, i64>::new();
    for receipt in &writes.receipts {
        let arrival = arrivals.get(receipt.arrival).ok_or(UNREADABLE)?;
        audit_seq += 1;
        receipts
            .add(receipt.id)?
            .add(arrival.receipt_id.as_str())?
            .add(receipt.message)?
            .add(micros(arrival.received_at))?
            .add(arrival.sender.as_str())?
            .add(arrival.peer.as_str())?
            .add(arrival.traceparent.as_str())?
            .add(arrival.identified.as_ref().map(|identified| identified.message_control_id.as_str()))?
            .add(receipt.verdict.as_str())?
            .add(receipt.code)?
            .add(receipt.ack.as_slice())?
            .add(receipt.alerts.join(","))?
            .add(receipt.payload_of)?
            .add(audit_seq)?;
        if receipt.payload_of == receipt.id {
            payloads.add(receipt.id)?.add(arrival.raw.as_slice())?;
        }
        *tally.entry(receipt.verdict.as_str()).or_default() += 1;
    }
    let insert = "INSERT INTO receipt (id, receipt_id, message, received_at, sender, peer, traceparent,
            message_control_id, verdict, code, ack, alerts, payload_of, audit_seq)
        SELECT * FROM {v} WHERE column1 IS NOT NULL";
    receipts.execute(connection, insert).await?;
    payloads
        .execute(connection, "INSERT INTO payload (receipt, raw) SELECT * FROM {v} WHERE column1 IS NOT NULL")
        .await?;
    let mut counts = Rows::new(2);
    for (verdict, n) in tally {
        counts.add(verdict)?.add(n)?;
    }
    let add = "INSERT INTO tally (verdict, n) SELECT * FROM {v} WHERE column1 IS NOT NULL
        ON CONFLICT (verdict) DO UPDATE SET n = n + excluded.n";
    counts.execute(connection, add).await
}

fn identity_rows(identities: &[NewIdentity]) -> Result<Rows, Fault> {
    let mut rows = Rows::new(4);
    for identity in identities {
        rows.add(identity.key.0 as i64)?
            .add(identity.key.1.as_slice())?
            .add(identity.message)?
            .add(identity.receipt)?;
    }
    Ok(rows)
}

/// What most batches have none of.
async fn write_rare(connection: &mut SqliteConnection, arrivals: &[&Arrival], writes: &Writes) -> Result<(), Fault> {
    message_rows(arrivals, &writes.promoted)?.execute(connection, PROMOTE).await?;
    let mut lowered = Rows::new(4);
    for (id, told) in &writes.lowered {
        lowered.add(*id)?.add(told.order_key.as_slice())?.add(told.message_control_id.as_str())?.add(told.receipt)?;
    }
    // What was folded with the greater key has to be folded anew; a message put aside stays there.
    lowered.execute(connection, LOWER).await?;
    identity_rows(&writes.repointed)?.execute(connection, REPOINT).await?;
    let mut flagged = Rows::new(2);
    for key in &writes.flagged {
        flagged.add(key.0 as i64)?.add(key.1.as_slice())?;
    }
    flagged.execute(connection, FLAG).await
}

/// Reads the end of the audit chain.
pub(super) async fn audit_head(connection: &mut SqliteConnection) -> Result<audit::Head, Fault> {
    let row = sqlx::query("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")
        .fetch_optional(connection)
        .await
        .map_err(|e| fault(&e))?;
    let Some(row) = row else {
        return Ok(audit::Head { seq: 0, hash: audit::GENESIS });
    };
    let hash: Vec<u8> = row.try_get(1).map_err(|e| fault(&e))?;
    Ok(audit::Head { seq: row.try_get(0).map_err(|e| fault(&e))?, hash: hash.try_into().map_err(|_| UNREADABLE)? })
}

/// Appends rows to the audit chain.
pub(super) async fn append_audit(
    connection: &mut SqliteConnection,
    entries: &[audit::Entry],
    chain: &mut audit::Head,
) -> Result<(), Fault> {
    let mut rows = Rows::new(7);
    for entry in entries {
        let placed = chain.append(entry);
        rows.add(placed.seq)?
            .add(entry.at)?
            .add(entry.event.as_str())?
            .add(entry.receipt_id.as_deref())?
            .add(entry.message_id.as_deref())?
            .add(entry.detail.as_str())?
            .add(placed.hash.as_slice())?;
    }
    let insert = "INSERT INTO audit (seq, at, event, receipt_id, message_id, detail, hash)
        SELECT * FROM {v} WHERE column1 IS NOT NULL";
    rows.execute(connection, insert).await
}
