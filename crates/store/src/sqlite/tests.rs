//! What only SQLite can do wrong: durability settings, crashes, a full disk, tampering, plans that scan.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Row, SqliteConnection};
use tempfile::TempDir;

use super::writer::{Job, Rare};
use super::{SqliteOptions, SqliteStore, Synchronous};
use crate::{
    AcceptError, Arrival, AuditError, Disposition, FaultKind, Identified, OpenError, RetryError, Settlement, Status,
    Store, Verdict,
};

fn arrival(n: u64, bytes: usize) -> Arrival {
    let hash = |kind: u8| std::array::from_fn(|at| if at == 0 { kind } else { n.to_be_bytes()[at % 8] });
    Arrival {
        receipt_id: format!("receipt {n}"),
        received_at: UNIX_EPOCH,
        sender: "adt".into(),
        peer: String::new(),
        traceparent: String::new(),
        raw: vec![b'x'; bytes],
        raw_hash: hash(1),
        identified: Some(Identified {
            message_id: format!("message {n}"),
            semantic_hash: hash(2),
            transport_key: n.to_string(),
            business_key: Some(hash(3)),
            order_key: n.to_be_bytes().to_vec(),
            subject: Some(format!("subject {n}")),
            message_type: "ADT^A01".into(),
            message_control_id: n.to_string(),
        }),
        disposition: Disposition::Apply,
        mapping_version: "v1".into(),
        ack: b"AA".to_vec(),
    }
}

fn again(n: u64) -> Arrival {
    Arrival { receipt_id: format!("receipt {n} again"), ..arrival(n, 100) }
}

async fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(directory.join("store.db"), SqliteOptions::default()).await.unwrap()
}

async fn connection(directory: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(directory.join("store.db")).connect().await.unwrap()
}

async fn run(connection: &mut SqliteConnection, sql: &str) -> Result<(), sqlx::Error> {
    sqlx::query(AssertSqlSafe(sql)).execute(connection).await.map(|_| ())
}

fn copy(from: &Path) -> TempDir {
    let to = tempfile::tempdir().unwrap();
    for name in ["store.db", "store.db-wal"] {
        std::fs::copy(from.join(name), to.path().join(name)).unwrap();
    }
    to
}

/// The negative control of the check at start.
#[tokio::test]
async fn less_than_full_sync_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions { synchronous: Synchronous::Normal, ..SqliteOptions::default() };
    let refused = SqliteStore::open(directory.path().join("store.db"), options).await.unwrap_err();
    assert!(matches!(refused, OpenError::Unsafe { pragma: "synchronous", .. }), "{refused}");
}

/// The writer syncs whatever connection it opens later, too.
#[tokio::test]
async fn no_file_no_store() {
    let directory = tempfile::tempdir().unwrap();
    let refused = SqliteStore::open(directory.path().join("missing/store.db"), SqliteOptions::default()).await;
    let Err(OpenError::Database(fault)) = refused else { panic!("opened") };
    assert_eq!(fault.kind, FaultKind::Io);
}

/// The files as a crash leaves them: whatever was answered is there, leases and epochs included.
#[tokio::test]
async fn a_crash_loses_nothing_that_was_answered() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    for n in 0..20 {
        store.accept(arrival(n, 100)).await.unwrap();
    }
    let held = store.claim("worker", Duration::from_mins(1), UNIX_EPOCH).await.unwrap().unwrap();
    let crashed = copy(directory.path());
    let reopened = open(crashed.path()).await;
    let counts = reopened.counts().await.unwrap();
    assert_eq!(counts.statuses[&Status::Pending], 20);
    assert_eq!(reopened.accept(again(3)).await.unwrap().verdict, Verdict::SkippedExact);
    assert_eq!(reopened.verify_audit().await.unwrap().rows, 21);
    assert_eq!(reopened.identity_key().await.unwrap(), store.identity_key().await.unwrap());
    let later = UNIX_EPOCH + Duration::from_mins(1);
    let mut epoch = None;
    while let Some(claim) = reopened.claim("worker", Duration::from_mins(1), later).await.unwrap() {
        if claim.subject == held.subject {
            epoch = Some(claim.epoch);
        }
    }
    assert_eq!(epoch, Some(held.epoch + 1));
}

/// A log cut off in the middle of a commit: the commits before it hold, that one is gone whole.
#[tokio::test]
async fn a_torn_commit_is_gone_whole() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    store.accept(arrival(1, 100)).await.unwrap();
    store.accept(arrival(2, 20_000)).await.unwrap();
    let crashed = copy(directory.path());
    let log = std::fs::OpenOptions::new().write(true).open(crashed.path().join("store.db-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() - 5000).unwrap();
    let reopened = open(crashed.path()).await;
    assert_eq!(reopened.verify_audit().await.unwrap().rows, 1);
    assert!(reopened.trace("receipt 2").await.unwrap().receipts.is_empty());
    assert_eq!(reopened.accept(arrival(2, 20_000)).await.unwrap().verdict, Verdict::Applied);
}

/// Dropped without closing while work is queued, then opened again.
#[tokio::test]
async fn dropped_and_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    store.accept(arrival(1, 100)).await.unwrap();
    drop(store);
    let store = open(directory.path()).await;
    assert_eq!(store.accept(again(1)).await.unwrap().verdict, Verdict::SkippedExact);
    store.close().await;
    assert_eq!(open(directory.path()).await.verify_audit().await.unwrap().rows, 2);
}

async fn size_max(store: &SqliteStore, pages: u32) {
    let limited: Result<(), RetryError> = store.ask(pages, |work| Job::Rare(Rare::SizeMax(work))).await;
    limited.unwrap();
}

/// Out of space: refused for certain, what was answered stays, reads go on, and it recovers without a restart.
#[tokio::test]
async fn a_full_disk_is_survived() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    size_max(&store, 100).await;
    let mut taken = 0;
    let refused = loop {
        match store.accept(arrival(taken, 20_000)).await {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    let AcceptError::Write(fault) = refused else { panic!("{refused}") };
    assert_eq!((fault.fault.kind, fault.certainly_not_written), (FaultKind::Full, true));
    assert!(taken > 2);
    assert!(store.accept(arrival(taken, 20_000)).await.is_err(), "still full");
    assert_eq!(store.counts().await.unwrap().statuses[&Status::Pending], taken);
    size_max(&store, 1_000_000).await;
    assert_eq!(store.accept(arrival(taken, 20_000)).await.unwrap().verdict, Verdict::Applied);
    assert_eq!(store.verify_audit().await.unwrap().rows, taken + 1);
    let later = UNIX_EPOCH + Duration::from_secs(1);
    while let Some(claim) = store.claim("worker", Duration::from_mins(1), later).await.unwrap() {
        store.settle(&claim, Settlement::new(later)).await.unwrap();
        if claim.subject == format!("subject {taken}") {
            return;
        }
    }
    panic!("the last message is not due");
}

/// Another process holds the lock longer than the time-out: refused for certain; later it works again.
#[tokio::test]
async fn a_held_lock_is_survived() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions { busy_timeout: Duration::from_millis(20), ..SqliteOptions::default() };
    let store = SqliteStore::open(directory.path().join("store.db"), options).await.unwrap();
    let mut other = connection(directory.path()).await;
    run(&mut other, "BEGIN IMMEDIATE").await.unwrap();
    let Err(AcceptError::Write(fault)) = store.accept(arrival(1, 100)).await else { panic!("written") };
    assert_eq!((fault.fault.kind, fault.certainly_not_written), (FaultKind::Busy, true));
    run(&mut other, "ROLLBACK").await.unwrap();
    assert_eq!(store.accept(arrival(1, 100)).await.unwrap().verdict, Verdict::Applied);
}

/// By triggers, in every way SQL has; and if those are taken away, the chain tells.
#[tokio::test]
async fn the_audit_cannot_be_changed_unseen() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    for n in 0..5 {
        store.accept(arrival(n, 100)).await.unwrap();
    }
    let mut other = connection(directory.path()).await;
    for change in [
        "UPDATE audit SET detail = '' WHERE seq = 3",
        "DELETE FROM audit WHERE seq = 3",
        "INSERT OR REPLACE INTO audit SELECT seq, at, 'forged', receipt_id, message_id, detail, hash FROM audit",
        "REPLACE INTO audit (seq, at, event, detail, hash) VALUES (3, 0, 'forged', '', x'')",
    ] {
        let refused = run(&mut other, change).await.unwrap_err();
        assert!(refused.to_string().contains("append-only"), "{change}: {refused}");
    }
    assert_eq!(store.verify_audit().await.unwrap().rows, 5);
    run(&mut other, "DROP TRIGGER audit_no_update").await.unwrap();
    run(&mut other, "DROP TRIGGER audit_no_delete").await.unwrap();
    run(&mut other, "UPDATE audit SET detail = '{}' WHERE seq = 3").await.unwrap();
    assert_eq!(store.verify_audit().await.unwrap_err(), AuditError::Broken { seq: 3 });
    run(&mut other, "DELETE FROM audit WHERE seq <= 3").await.unwrap();
    assert_eq!(store.verify_audit().await.unwrap_err(), AuditError::Broken { seq: 4 });
}

/// Uniqueness is the database's: rows that a decision would never write are refused by it.
#[tokio::test]
async fn the_constraints_are_the_arbiter() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    store.accept(arrival(1, 100)).await.unwrap();
    let mut other = connection(directory.path()).await;
    for duplicate in [
        "INSERT INTO identity SELECT * FROM identity",
        "INSERT INTO message (message_id, sender, message_type, message_control_id, order_key, semantic_hash, status,
            verdict, mapping_version, first_receipt)
            SELECT message_id, '', '', '', x'', x'', 'pending', '', '', 1 FROM message",
        "INSERT INTO identity (kind, key, message, receipt) VALUES (1, x'00', 77, 1)",
        "UPDATE message SET status = 'lost'",
    ] {
        let refused = run(&mut other, duplicate).await.unwrap_err();
        assert!(refused.to_string().contains("constraint failed"), "{duplicate}: {refused}");
    }
}

/// Frequent statements find rows by index: a plan that scans a table grows with the store.
#[tokio::test]
async fn frequent_statements_do_not_scan() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).await.close().await;
    let mut connection = connection(directory.path()).await;
    let row = ["?"; 15].join(", ");
    let table = format!("(VALUES ({row}), ({row})) v");
    for (name, template) in super::accept::FREQUENT.iter().chain(super::lease::FREQUENT).chain(super::settle::FREQUENT)
    {
        let sql = format!("EXPLAIN QUERY PLAN {}", template.replace("{v}", &table));
        let plan = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut connection).await.unwrap();
        for step in plan {
            let step: String = step.get("detail");
            let scans = step.starts_with("SCAN") && !step.ends_with("VALUES CLAUSE") && step != "SCAN v";
            assert!(!scans, "{name}: {step}");
        }
    }
}
