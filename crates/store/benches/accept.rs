//! Durable accepts a second with 64 callers, and what the same rows cost without lookups and decisions.
//!
//! Set `TMPDIR` to choose the disk (a memory disk shows the limit without syncs). `accept/64 callers` is the product's way; `rows/64 a commit` writes the same tables from one task, 64 messages a
//! transaction, one statement a table: the limit that the first can at best come near to.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sha2::{Digest, Sha256};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, SqliteConnection};
use store::sqlite::{SqliteOptions, SqliteStore};
use tokio::runtime::Runtime;

use store::{Arrival, Disposition, Identified, Settlement, Store};

const CALLERS: u64 = 64;
const MESSAGE_BYTES: usize = 1400;

fn hash(text: &str, n: u64) -> [u8; 32] {
    Sha256::digest(format!("{text}{n}").as_bytes()).into()
}

fn arrival(n: u64) -> Arrival {
    let mut raw = format!("MSH|^~\\&|A|B|||20240101||ADT^A08|{n}|P|2.5\r").into_bytes();
    raw.resize(MESSAGE_BYTES, b'x');
    Arrival {
        receipt_id: uuid::Uuid::now_v7().to_string(),
        received_at: SystemTime::now(),
        sender: "bench".into(),
        peer: "127.0.0.1:40000".into(),
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into(),
        raw_hash: Sha256::digest(&raw).into(),
        raw,
        identified: Some(Identified {
            message_id: hex::encode(&hash("message", n)[..16]),
            semantic_hash: hash("semantic", n),
            transport_key: format!("bench|A|B|{n}"),
            business_key: Some(hash("business", n)),
            order_key: n.to_be_bytes().to_vec(),
            subject: Some(format!("urn:uuid:{}", hex::encode(&hash("subject", n / 5)[..16]))),
            message_type: "ADT^A08^ADT_A01".into(),
            message_control_id: n.to_string(),
        }),
        disposition: Disposition::Apply,
        mapping_version: "v1+0123456789abcdef".into(),
        ack: vec![b'a'; 120],
    }
}

async fn accept_all(store: &Arc<SqliteStore>, first: u64, count: u64) -> Duration {
    let mut arrivals: Vec<Vec<Arrival>> = (0..CALLERS).map(|_| Vec::new()).collect();
    for n in first..first + count {
        arrivals[usize::try_from(n % CALLERS).unwrap()].push(arrival(n));
    }
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for own in arrivals {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            for arrival in own {
                store.accept(arrival).await.unwrap();
            }
        });
    }
    while let Some(joined) = tasks.join_next().await {
        joined.unwrap();
    }
    started.elapsed()
}

async fn deliver_all(store: &SqliteStore) {
    let lease = Duration::from_mins(1);
    while let Some(claim) = store.claim("bench", lease, SystemTime::now()).await.unwrap() {
        let mut settlement = Settlement::new(SystemTime::now());
        settlement.applied = claim.messages.iter().map(|message| message.message_id.clone()).collect();
        store.settle(&claim, settlement).await.unwrap();
    }
}

/// One statement for all rows of a table; `values` binds a row's columns.
async fn insert<'q>(
    connection: &mut SqliteConnection,
    (into, columns, after): (&str, usize, &str),
    rows: usize,
    bind: impl FnOnce(Values<'q>) -> Values<'q>,
) {
    let row = format!("({})", vec!["?"; columns].join(","));
    let sql = format!("INSERT INTO {into} VALUES {} {after}", vec![row; rows].join(","));
    bind(sqlx::query(AssertSqlSafe(sql))).execute(connection).await.unwrap();
}

type Values<'q> = sqlx::query::Query<'q, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>;

const MESSAGE: &str = "message (id, message_id, sender, message_type, message_control_id, order_key, semantic_hash,
    business_key, subject, status, verdict, mapping_version, first_receipt)";
const RECEIPT: &str = "receipt (id, receipt_id, message, received_at, sender, peer, traceparent, message_control_id,
    verdict, ack, payload_of, audit_seq)";
const AUDIT: &str = "audit (seq, at, event, receipt_id, message_id, detail, hash)";
const NEWEST: &str = "ON CONFLICT (subject) DO UPDATE SET newest_key = excluded.newest_key";

fn message<'q>(query: Values<'q>, id: i64, arrival: &'q Arrival, identified: &'q Identified) -> Values<'q> {
    let query = query.bind(id).bind(&identified.message_id).bind(&arrival.sender).bind(&identified.message_type);
    let query = query.bind(&identified.message_control_id).bind(&identified.order_key);
    let query = query.bind(identified.semantic_hash.as_slice()).bind(identified.semantic_hash.as_slice());
    query.bind(&identified.subject).bind("pending").bind("applied").bind(&arrival.mapping_version).bind(id)
}

fn receipt<'q>(query: Values<'q>, id: i64, arrival: &'q Arrival) -> Values<'q> {
    let query = query.bind(id).bind(&arrival.receipt_id).bind(id).bind(id).bind(&arrival.sender).bind(&arrival.peer);
    let query = query.bind(&arrival.traceparent).bind(id.to_string()).bind("applied").bind(&arrival.ack);
    query.bind(id).bind(id)
}

fn identity<'q>(query: Values<'q>, id: i64, arrival: &'q Arrival, identified: &'q Identified) -> Values<'q> {
    let transport = hash("transport", id.unsigned_abs());
    let keys = [arrival.raw_hash, identified.semantic_hash, transport, identified.business_key.unwrap()];
    (1_i64..).zip(keys).fold(query, |query, (kind, key)| query.bind(kind).bind(key.to_vec()).bind(id).bind(id))
}

fn audit<'q>(query: Values<'q>, id: i64, arrival: &'q Arrival, identified: &'q Identified) -> Values<'q> {
    let detail = "{\"alerts\":[],\"code\":null,\"mapping\":\"v1+0123456789abcdef\",\"verdict\":\"applied\"}";
    let query = query.bind(id).bind(id).bind("received").bind(&arrival.receipt_id).bind(&identified.message_id);
    query.bind(detail).bind(identified.semantic_hash.as_slice())
}

fn subject<'q>(query: Values<'q>, id: i64, identified: &'q Identified) -> Values<'q> {
    query.bind(&identified.subject).bind(&identified.order_key).bind(id).bind(1)
}

async fn insert_rows(connection: &mut SqliteConnection, first: u64, arrivals: &[Arrival]) {
    let n = arrivals.len();
    let rows: Vec<(i64, &Arrival, &Identified)> = (first.cast_signed()..)
        .zip(arrivals)
        .map(|(id, arrival)| (id, arrival, arrival.identified.as_ref().unwrap()))
        .collect();
    let rows = || rows.iter().copied();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await.unwrap();
    insert(connection, (MESSAGE, 13, ""), n, |q| rows().fold(q, |q, (id, a, i)| message(q, id, a, i))).await;
    insert(connection, (RECEIPT, 12, ""), n, |q| rows().fold(q, |q, (id, a, _)| receipt(q, id, a))).await;
    insert(connection, ("payload", 2, ""), n, |q| rows().fold(q, |q, (id, a, _)| q.bind(id).bind(&a.raw))).await;
    let table = ("identity (kind, key, message, receipt)", 4, "");
    insert(connection, table, 4 * n, |q| rows().fold(q, |q, (id, a, i)| identity(q, id, a, i))).await;
    let table = ("subject (subject, newest_key, next_at, dirty)", 4, NEWEST);
    insert(connection, table, n, |q| rows().fold(q, |q, (id, _, i)| subject(q, id, i))).await;
    insert(connection, (AUDIT, 7, ""), n, |q| rows().fold(q, |q, (id, a, i)| audit(q, id, a, i))).await;
    sqlx::query("COMMIT").execute(connection).await.unwrap();
}

async fn schema(path: &Path) -> SqliteConnection {
    SqliteStore::open(path, SqliteOptions::default()).await.unwrap().close().await;
    let options = SqliteConnectOptions::new().filename(path).journal_mode(SqliteJournalMode::Wal);
    let options = options.pragma("wal_autocheckpoint", "8192").pragma("cache_size", "-8192");
    options.synchronous(SqliteSynchronous::Full).disable_statement_logging().connect().await.unwrap()
}

fn open(runtime: &Runtime, path: &Path) -> Arc<SqliteStore> {
    Arc::new(runtime.block_on(SqliteStore::open(path, SqliteOptions::default())).unwrap())
}

fn accepts(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut group = criterion.benchmark_group("store");
    group.throughput(Throughput::Elements(1)).sample_size(10).measurement_time(Duration::from_secs(8));
    let directory = tempfile::tempdir().unwrap();

    let store = open(&runtime, &directory.path().join("accept.db"));
    let mut next = 0;
    group.bench_function("accept/64 callers", |bencher| {
        bencher.iter_custom(|count| {
            let elapsed = runtime.block_on(accept_all(&store, next, count));
            next += count;
            elapsed
        });
    });
    let stored = next;
    group.bench_function("skip/64 callers", |bencher| {
        bencher.iter_custom(|count| {
            let firsts = (0..count).step_by(usize::try_from(stored).unwrap());
            firsts.map(|done| runtime.block_on(accept_all(&store, 0, stored.min(count - done)))).sum()
        });
    });
    runtime.block_on(store.close());

    let mut connection = runtime.block_on(schema(&directory.path().join("rows.db")));
    let mut next = 1;
    group.bench_function("rows/64 a commit", |bencher| {
        bencher.iter_custom(|count| {
            let arrivals: Vec<Arrival> = (next..next + count).map(arrival).collect();
            let started = Instant::now();
            for chunk in arrivals.chunks(64) {
                runtime.block_on(insert_rows(&mut connection, next, chunk));
                next += chunk.len() as u64;
            }
            started.elapsed()
        });
    });
    group.finish();
}

fn deliveries(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut group = criterion.benchmark_group("store");
    group.throughput(Throughput::Elements(1)).sample_size(10).measurement_time(Duration::from_secs(8));
    let directory = tempfile::tempdir().unwrap();
    let store = open(&runtime, &directory.path().join("deliver.db"));
    let mut next = 0;
    group.bench_function("claim and settle/8 holders", |bencher| {
        bencher.iter_custom(|count| {
            runtime.block_on(accept_all(&store, next, count));
            next += count;
            let started = Instant::now();
            runtime.block_on(async {
                let mut tasks = tokio::task::JoinSet::new();
                for _ in 0..8 {
                    let store = Arc::clone(&store);
                    tasks.spawn(async move { deliver_all(&store).await });
                }
                while let Some(joined) = tasks.join_next().await {
                    joined.unwrap();
                }
            });
            started.elapsed()
        });
    });
    runtime.block_on(store.close());
    group.finish();
}

criterion_group!(benches, accepts, deliveries);
criterion_main!(benches);
