//! Settlements in the writer's transaction: all of a batch's at once, one statement a table.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::{Row, SqliteConnection};

use super::accept::append_audit;
use super::fault::fault;
use super::lease::{Held, stand};
use super::rows::Rows;
use super::writer::Work;
use crate::time::micros;
use crate::{Checkpoint, Fault, Lease, SettleError, Settlement, audit};

/// `+status` keeps the planner on the unique index of message_id.
const STATUS: &str = "UPDATE message SET status = v.column2, code = v.column3, refold = 0
        FROM {v} WHERE message.message_id = v.column1 AND message.order_key = v.column4 AND +message.status = 'pending'";

const LINEAGE: &str = "INSERT OR IGNORE INTO message_resource (message, full_url)
        SELECT m.id, v.column2 FROM {v} CROSS JOIN message m ON m.message_id = v.column1";

const CLOSE_ATTEMPTS: &str =
    "UPDATE attempt SET state = CASE WHEN attempt_id = v.column2 THEN 'settled' ELSE 'superseded' END
        FROM {v} WHERE attempt.subject = v.column1 AND attempt.state = 'open'";

const END_LEASES: &str = "UPDATE subject SET failures = 0, reason = NULL,
            dirty = EXISTS (SELECT 1 FROM message m WHERE m.subject = subject.subject AND m.status = 'pending'),
            next_at = CASE WHEN v.column3 THEN next_at ELSE v.column2 END,
            owner = CASE WHEN v.column3 THEN owner END,
            lease_until = CASE WHEN v.column3 THEN lease_until END
        FROM {v} WHERE subject.subject = v.column1";

/// Statements whose plans a test looks at.
#[cfg(test)]
pub(super) const FREQUENT: &[(&str, &str)] =
    &[("status", STATUS), ("lineage", LINEAGE), ("close attempts", CLOSE_ATTEMPTS), ("end leases", END_LEASES)];

/// A message of the claim and what becomes of it.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) message_id: String,
    /// Its order key when it was claimed: if a resend lowered it since, the message stays pending.
    pub(super) order_key: Vec<u8>,
    /// `None` for applied, else why it is put aside.
    pub(super) parked: Option<String>,
}

/// A settlement with the leases it stands on, the claim's own subject's first.
#[derive(Debug)]
pub(super) struct SettleRequest {
    pub(super) leases: Vec<Lease>,
    pub(super) messages: Vec<Settled>,
    pub(super) settlement: Settlement,
}

/// Writes the settlements whose leases stand.
pub(super) async fn settle(
    connection: &mut SqliteConnection,
    requests: &mut [Work<SettleRequest, (), SettleError>],
    held: &mut Held,
    chain: &mut audit::Head,
) -> Result<(), Fault> {
    let mut versions = Versions::read(connection, requests).await?;
    let mut standing = Vec::new();
    for work in requests {
        let stands = stand(held, &work.input.leases);
        work.result = Some(if stands { Ok(()) } else { Err(SettleError::StaleEpoch) });
        if !stands {
            continue;
        }
        if !versions.take(&work.input.settlement.checkpoints) {
            work.result = Some(Err(SettleError::CheckpointMoved));
            continue;
        }
        if !work.input.settlement.keep_lease {
            for lease in &work.input.leases {
                held.remove(&lease.subject);
            }
        }
        standing.push(&work.input);
    }
    write_messages(connection, &standing).await?;
    write_resources(connection, &standing).await?;
    write_subjects(connection, &standing).await?;
    let mut entries = Vec::new();
    for request in &standing {
        entries.extend(request.settlement.audit.iter().map(|event| audit::Entry {
            at: micros(request.settlement.at),
            event: event.event.clone(),
            receipt_id: None,
            message_id: event.message_id.clone(),
            detail: event.detail.clone(),
        }));
    }
    append_audit(connection, &entries, chain).await
}

/// Versions of the checkpoints that a batch of settlements is about, as they stand after those decided so far.
struct Versions(BTreeMap<String, i64>);

impl Versions {
    async fn read(
        connection: &mut SqliteConnection,
        requests: &[Work<SettleRequest, (), SettleError>],
    ) -> Result<Self, Fault> {
        let mut asked = Rows::new(1);
        let names: BTreeSet<&str> = requests
            .iter()
            .flat_map(|work| &work.input.settlement.checkpoints)
            .map(|(full_url, _)| full_url.as_str())
            .collect();
        for full_url in names {
            asked.add(full_url)?;
        }
        let query = "SELECT c.full_url, c.version FROM {v} CROSS JOIN checkpoint c ON c.full_url = v.column1";
        let mut versions = BTreeMap::new();
        for row in asked.fetch(connection, query).await? {
            versions.insert(row.try_get(0).map_err(|e| fault(&e))?, row.try_get(1).map_err(|e| fault(&e))?);
        }
        Ok(Self(versions))
    }

    /// Takes the next version of each, all or none: false when one was settled since it was read.
    fn take(&mut self, checkpoints: &[(String, Checkpoint)]) -> bool {
        let current = |full_url: &str| self.0.get(full_url).copied().unwrap_or(0);
        if checkpoints.iter().any(|(full_url, checkpoint)| current(full_url) != checkpoint.version) {
            return false;
        }
        self.0.extend(checkpoints.iter().map(|(full_url, checkpoint)| (full_url.clone(), checkpoint.version + 1)));
        true
    }
}

async fn write_messages(connection: &mut SqliteConnection, standing: &[&SettleRequest]) -> Result<(), Fault> {
    let mut messages = Rows::new(4);
    for message in standing.iter().flat_map(|request| &request.messages) {
        let status = if message.parked.is_some() { "parked" } else { "applied" };
        messages
            .add(message.message_id.as_str())?
            .add(status)?
            .add(message.parked.as_deref())?
            .add(message.order_key.as_slice())?;
    }
    messages.execute(connection, STATUS).await?;
    let mut lineage = Rows::new(2);
    for (message_id, full_url) in standing.iter().flat_map(|request| &request.settlement.message_resources) {
        lineage.add(message_id.as_str())?.add(full_url.as_str())?;
    }
    lineage.execute(connection, LINEAGE).await
}

async fn write_resources(connection: &mut SqliteConnection, standing: &[&SettleRequest]) -> Result<(), Fault> {
    // In the order decided: within one statement the last version of a checkpoint is the one that stays.
    let mut latest: BTreeMap<&str, &Checkpoint> = BTreeMap::new();
    for (full_url, checkpoint) in standing.iter().flat_map(|request| &request.settlement.checkpoints) {
        latest.insert(full_url, checkpoint);
    }
    let mut checkpoints = Rows::new(3);
    for (full_url, checkpoint) in latest {
        checkpoints.add(full_url)?.add(checkpoint.version + 1)?.add(checkpoint.registers.as_slice())?;
    }
    let put = "INSERT INTO checkpoint (full_url, version, registers) SELECT * FROM {v} WHERE column1 IS NOT NULL
        ON CONFLICT (full_url) DO UPDATE SET version = excluded.version, registers = excluded.registers";
    checkpoints.execute(connection, put).await?;
    let mut resources = Rows::new(9);
    for resource in standing.iter().flat_map(|request| &request.settlement.resources) {
        resources
            .add(resource.full_url.as_str())?
            .add(resource.resource_type.as_str())?
            .add(resource.system.as_str())?
            .add(resource.value.as_str())?
            .add(resource.subject.as_str())?
            .add(resource.server_id.as_deref())?
            .add(resource.etag.as_deref())?
            .add(resource.hash.as_slice())?
            .add(resource.foreign_elements.as_str())?;
    }
    let put = "INSERT INTO resource (full_url, resource_type, system, value, subject, server_id, etag, hash,
            foreign_elements)
        SELECT * FROM {v} WHERE column1 IS NOT NULL
        ON CONFLICT (full_url) DO UPDATE SET resource_type = excluded.resource_type, system = excluded.system,
            value = excluded.value, subject = excluded.subject, server_id = excluded.server_id, etag = excluded.etag,
            hash = excluded.hash, foreign_elements = excluded.foreign_elements";
    resources.execute(connection, put).await
}

/// Closes attempts and ends leases. Whether a subject has more to do is asked of the messages, not counted along.
async fn write_subjects(connection: &mut SqliteConnection, standing: &[&SettleRequest]) -> Result<(), Fault> {
    // The last settlement of a subject decides, should one holder have given several at once.
    let mut last = BTreeMap::new();
    for SettleRequest { leases, settlement, .. } in standing {
        last.extend(leases.iter().map(|lease| (lease.subject.as_str(), settlement)));
    }
    let (mut attempts, mut subjects) = (Rows::new(2), Rows::new(3));
    for (subject, settlement) in last {
        attempts.add(subject)?.add(settlement.attempt_id.as_deref())?;
        subjects.add(subject)?.add(micros(settlement.at))?.add(settlement.keep_lease)?;
    }
    attempts.execute(connection, CLOSE_ATTEMPTS).await?;
    subjects.execute(connection, END_LEASES).await
}
