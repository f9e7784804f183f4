//! kill -9 at random moments, and an orderly stop: nothing acknowledged is lost, and the server ends up as if nothing had
//! happened (DESIGN §9, promises 1 and 2).
//!
//! Over the sandbox in this process; `servers.rs` does the same to real servers with a public corpus.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mllp::{Client, ClientConfig};
use sandbox::Profile;
use store::Store as _;
use store::sqlite::{SqliteOptions, SqliteStore};
use tests::adt::{message, pid, pv1};
use tests::digest;
use tests::gateway_process::GatewayProcess;
use tests::scene;

const SETTINGS: &str =
    "[log]\nlevel = \"warn\"\n[deliver]\nretry_first_ms = 5\nretry_max_s = 1\nlease_s = 1\n[stop]\ndeadline_s = 10\n";
const KILLS: usize = 15;
const CONNECTIONS: usize = 4;
const IDENTITY_KEY: [u8; 32] = [9; 32];

/// Visits of a dozen patients, each told of in several messages, with doctors and wards shared.
fn messages() -> Vec<String> {
    let mut all = Vec::new();
    for n in 0..240 {
        let (patient, step) = (n % 12, n / 12);
        let clock = format!("202406{:02}{:02}{:02}00", 1 + step, 6 + patient, n % 60);
        let event = if step == 0 { "A01^ADT_A01" } else { ["A08^ADT_A01", "A02^ADT_A02"][step % 2] };
        let told = pid(&format!("K-{patient}"), &format!("Kill{}^Ann||19500101|F", step % 5));
        let visit = pv1(
            &format!("KV-{patient}-{}", step / 7),
            &format!("W{}^{}", step % 3, patient % 4),
            &format!("{}^Doc^No{}^^^^^^NORTH", 900 + patient % 3, step % 2),
            "20240601060000",
        );
        all.push(message(event, &format!("K{n}"), &clock, &[&told, &visit]));
    }
    all
}

async fn store(folder: &Path) -> SqliteStore {
    let path = folder.join("sluice.db").display().to_string();
    SqliteStore::open(&path, SqliteOptions::default()).await.expect("the store opens")
}

/// A folder with a store that has the key of all runs.
async fn prepared() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let fresh = store(folder.path()).await;
    fresh.import_identity_key(IDENTITY_KEY).await.expect("the key is taken");
    fresh.close().await;
    folder
}

/// Sends each message until it is answered with AA.
async fn send_through_kills(mllp: String, messages: Vec<String>, acknowledged: Arc<AtomicUsize>) {
    let config = ClientConfig { answer_timeout: Duration::from_secs(5), ..ClientConfig::default() };
    let mut client = None;
    for message in messages {
        loop {
            if client.is_none() {
                client = Client::connect_with(&mllp, config.clone()).await.ok();
            }
            let Some(open) = client.as_mut() else {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            };
            match open.send(message.as_bytes()).await {
                Ok(answer) if String::from_utf8_lossy(&answer).contains("\rMSA|AA|") => break,
                Ok(answer) => panic!("{}", String::from_utf8_lossy(&answer)),
                Err(_) => client = None,
            }
        }
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
}

/// Where in the run each kill comes: spread, but not evenly.
fn moments(count: usize) -> Vec<usize> {
    let mut state = 0x9e37_79b9_u64;
    let mut moments: Vec<usize> = (0..KILLS)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).expect("31 bits") % count
        })
        .collect();
    moments.sort_unstable();
    moments
}

async fn run(kills: bool) -> Vec<String> {
    let server = scene::sandbox(Profile { latency: Duration::from_millis(2), ..Profile::default() }).await;
    let folder = prepared().await;
    let mut gateway = GatewayProcess::start(folder.path(), &server.base_url, SETTINGS).await;
    let all = messages();
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let mut senders = tokio::task::JoinSet::new();
    for connection in 0..CONNECTIONS {
        // A patient's messages stay on one connection, as an engine would send them.
        let own = all.iter().skip(connection).step_by(CONNECTIONS).cloned().collect();
        senders.spawn(send_through_kills(gateway.mllp.clone(), own, Arc::clone(&acknowledged)));
    }
    for moment in if kills { moments(all.len()) } else { Vec::new() } {
        scene::until("the moment of a kill", async || acknowledged.load(Ordering::Relaxed) >= moment).await;
        gateway.kill();
        gateway.restart().await;
    }
    while let Some(sent) = senders.join_next().await {
        sent.expect("a sender ends");
    }
    if kills {
        // Once more where only delivery is left.
        gateway.kill();
        gateway.restart().await;
    }
    gateway.drained().await;
    gateway.kill();
    let kept = store(folder.path()).await;
    for n in 0..all.len() {
        let trace = kept.trace(&format!("K{n}")).await.expect("the store traces");
        assert_eq!(trace.messages.len(), 1, "K{n} was acknowledged");
        assert_eq!(trace.messages[0].status, store::Status::Applied, "K{n}");
    }
    kept.verify_audit().await.expect("the audit chain holds");
    kept.close().await;
    let state = digest::named(&digest::holdings_of(&server.sandbox));
    server.stop().await;
    state
}

#[tokio::test(flavor = "multi_thread")]
async fn fifteen_kills_lose_nothing_and_change_nothing() {
    let undisturbed = run(false).await;
    let killed = run(true).await;
    let differs = killed.iter().zip(&undisturbed).find(|(a, b)| a != b);
    assert!(differs.is_none(), "{differs:#?}");
    assert_eq!(killed.len(), undisturbed.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_stop_ends_in_time_and_keeps_what_was_acknowledged() {
    let server = scene::sandbox(Profile { latency: Duration::from_millis(20), ..Profile::default() }).await;
    let folder = prepared().await;
    let mut gateway = GatewayProcess::start(folder.path(), &server.base_url, SETTINGS).await;
    let all: Vec<String> = messages().into_iter().take(60).collect();
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let sender = tokio::spawn({
        let (mllp, acknowledged, all) = (gateway.mllp.clone(), Arc::clone(&acknowledged), all.clone());
        async move {
            let mut client = Client::connect(&mllp).await.expect("connects");
            let count = |_, _| {
                acknowledged.fetch_add(1, Ordering::Relaxed);
            };
            // Stopped somewhere in the middle: what is not answered is not taken.
            let _cut = client.send_all(&all, 8, count).await;
        }
    });
    scene::until("messages in flight", async || acknowledged.load(Ordering::Relaxed) >= 20).await;
    // With a deadline of ten seconds the process has to be gone well before thirty, whatever else the machine does.
    let stop = tokio::task::spawn_blocking(move || (gateway.terminate(), gateway));
    let stopped = tokio::time::timeout(Duration::from_secs(30), stop).await.expect("it stops in time");
    let (code, mut gateway) = stopped.expect("it stops");
    assert_eq!(code, Some(0), "{}", gateway.log());
    sender.await.expect("the sender ends");
    let kept = store(folder.path()).await;
    for n in 0..acknowledged.load(Ordering::Relaxed) {
        let trace = kept.trace(&format!("K{n}")).await.expect("the store traces");
        let status = trace.messages.first().map(|m| m.status);
        assert!(matches!(status, Some(store::Status::Applied | store::Status::Pending)), "K{n}: {status:?}");
    }
    kept.close().await;
    gateway.restart().await;
    gateway.drained().await;
    gateway.kill();
    server.stop().await;
}
