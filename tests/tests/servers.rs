//! The public ADT corpus through a running `sluice serve` over TCP into real FHIR servers: once, ten times shuffled over
//! eight connections, and under kill -9.
//!
//! Needs what is not part of the product: a launcher of FHIR servers (`SLUICE_TEST_FHIR_LAUNCHER`) and a folder of
//! messages (`SLUICE_TEST_CORPUS`); with `SLUICE_TEST_ORACLE` every bundle is validated independently. Says aloud what it
//! skips; CI sets `SLUICE_TEST_REQUIRED`, under which skipping fails.

#![expect(clippy::float_cmp, reason = "figures of metrics are counts")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mllp::Client;
use tests::corpus;
use tests::digest::{self, Holdings};
use tests::fhir_server::{FhirServer, free_port};
use tests::gateway_process::GatewayProcess;
use tests::metrics;

/// Senders of the corpus leave authorities out; the test's configuration names systems for them, as a site would.
const SETTINGS: &str = "[log]\nlevel = \"warn\"\n[sender.default]\npatient_id_system = \"urn:test:patient\"\n\
    visit_id_system = \"urn:test:visit\"\n[deliver]\nretry_first_ms = 20\n";

struct Given {
    launcher: PathBuf,
    messages: Vec<Vec<u8>>,
    oracle: Option<PathBuf>,
}

fn given() -> Option<Given> {
    let launcher = corpus::folder("SLUICE_TEST_FHIR_LAUNCHER", "real FHIR servers");
    let folder = corpus::folder("SLUICE_TEST_CORPUS", "the public corpus");
    let oracle = corpus::folder("SLUICE_TEST_ORACLE", "independent validation");
    let required = std::env::var_os("SLUICE_TEST_REQUIRED").is_some();
    assert!(!required || (launcher.is_some() && folder.is_some() && oracle.is_some()), "a required part was skipped");
    Some(Given { launcher: launcher?, messages: corpus::adt_messages(&folder?), oracle })
}

/// Sends all over `connections`, each waiting for its answer; every frame gets exactly one.
async fn send_all(mllp: &str, messages: &[Vec<u8>], connections: usize) -> Vec<Vec<u8>> {
    let mut hands: Vec<Vec<Vec<u8>>> = vec![Vec::new(); connections];
    for (i, message) in messages.iter().enumerate() {
        hands[i % connections].push(message.clone());
    }
    let mut players = tokio::task::JoinSet::new();
    for hand in hands {
        let mllp = mllp.to_owned();
        players.spawn(async move {
            let mut client = Client::connect(&mllp).await.expect("connects");
            let mut answers = Vec::new();
            client
                .send_all(&hand, 16, |_, answer| answers.push(answer.to_vec()))
                .await
                .expect("every frame is answered");
            assert_eq!(answers.len(), hand.len());
            answers
        });
    }
    let mut all = Vec::new();
    while let Some(answers) = players.join_next().await {
        all.extend(answers.expect("a player ends"));
    }
    all
}

/// Every answer is an acknowledgement; one that is not AA says where and why.
fn assert_answers_tell(answers: &[Vec<u8>]) {
    for answer in answers {
        let text = String::from_utf8_lossy(answer);
        let acknowledged = text.split('\r').find(|s| s.starts_with("MSA")).expect("an answer has an MSA").to_owned();
        // Whatever the separators are.
        let accepted = acknowledged.get(4..6) == Some("AA");
        assert!(accepted || text.split('\r').any(|s| s.starts_with("ERR")), "no reason in {acknowledged}");
    }
}

async fn state(base: &str) -> Holdings {
    digest::holdings(&tests::http::client(), base).await
}

async fn written(gateway: &GatewayProcess) -> f64 {
    metrics::value(&tests::http::client(), &gateway.http, "sluice_resources_written_total", "").await
}

/// What the validator says that is no fault of a bundle: a code and its wording stay as the sender wrote them, also where
/// the system that the sender names has no such code; and one of its checkers can't count beyond the year 9999.
const NO_FAULTS: [&str; 3] = [
    "pyrofile: terminology.display ",
    "pyrofile: terminology.code-system ",
    "google: OverflowError: date value out of range",
];

fn assert_bundles_are_valid(oracle: &Path, bundles: &Path) {
    let files: Vec<PathBuf> =
        std::fs::read_dir(bundles).expect("bundles").map(|e| e.expect("an entry").path()).collect();
    assert!(!files.is_empty());
    for some in files.chunks(500) {
        let output = Command::new(oracle).args(some).output().expect("the oracle runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.lines().last().is_some_and(|line| line.contains(" passed, ")), "the oracle did not finish");
        let said = text.lines().filter(|line| line.contains(".json: "));
        let faults: Vec<&str> = said.filter(|line| !NO_FAULTS.iter().any(|known| line.contains(known))).collect();
        assert!(faults.is_empty(), "{}", faults.iter().take(20).copied().collect::<Vec<_>>().join("\n"));
    }
}

async fn once_and_again(given: &Given, kind: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = FhirServer::start(&given.launcher, kind, free_port(), folder.path().join("fhir")).await;
    let bundles = folder.path().join("bundles");
    std::fs::create_dir(&bundles).expect("a folder for bundles");
    let settings = format!("{SETTINGS}bundle_directory = {:?}\n", bundles.display().to_string());
    let gateway = GatewayProcess::start(folder.path(), &server.base_url, &settings).await;

    let answers = send_all(&gateway.mllp, &given.messages, 1).await;
    assert_answers_tell(&answers);
    gateway.drained().await;
    let parked = metrics::value(&tests::http::client(), &gateway.http, "sluice_subjects_parked", "").await;
    assert_eq!(parked, 0.0, "subjects were parked:\n{}", gateway.log());
    let first = state(&server.base_url).await;
    assert!(first.len() > 100, "the server holds {} resources", first.len());
    let writes = written(&gateway).await;

    let mut again = Vec::new();
    for _ in 0..10 {
        again.extend(given.messages.iter().cloned());
    }
    let answers = send_all(&gateway.mllp, &corpus::shuffled(again, 7), 8).await;
    assert_eq!(answers.len(), given.messages.len() * 10);
    gateway.drained().await;
    let second = state(&server.base_url).await;
    assert_eq!(first, second, "{:?}", digest::differences(&first, &second).iter().take(20).collect::<Vec<_>>());
    assert_eq!(written(&gateway).await, writes, "the second pass wrote");
    if let Some(oracle) = &given.oracle {
        assert_bundles_are_valid(oracle, &bundles);
    }
    let requests = metrics::value(&tests::http::client(), &gateway.http, "sluice_fhir_requests_total", "").await;
    println!(
        "{kind}: {} messages, {} resources, {writes} writes, {requests} requests",
        given.messages.len(),
        first.len()
    );
}

/// Sends every message until it is answered, whatever happens to the gateway; gives each message's answer.
async fn send_through_kills(
    mllp: String,
    messages: Vec<Vec<u8>>,
    answered: Arc<AtomicUsize>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut answers = Vec::new();
    let mut client = None;
    for message in messages {
        loop {
            if client.is_none() {
                client = Client::connect(&mllp).await.ok();
            }
            let Some(open) = client.as_mut() else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            if let Ok(answer) = open.send(&message).await {
                answered.fetch_add(1, Ordering::Relaxed);
                answers.push((message, answer.to_vec()));
                break;
            }
            client = None;
        }
    }
    answers
}

/// A store with an identity key, to copy: runs that are compared must make the same identifiers.
async fn seed(given: &Given, folder: &Path) {
    let server = FhirServer::start(&given.launcher, "hfs", free_port(), folder.join("fhir-seed")).await;
    let mut gateway = GatewayProcess::start(folder, &server.base_url, SETTINGS).await;
    gateway.terminate();
}

const KILLS: usize = 50;

/// kill -9 at `KILLS` moments spread over the run: nothing acknowledged is missing, and the server ends up the same.
async fn killed_again_and_again(given: &Given, kind: &str) {
    let seeded = tempfile::tempdir().expect("a folder");
    seed(given, seeded.path()).await;
    let mut states = Vec::new();
    for kills in [0, KILLS] {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::copy(seeded.path().join("sluice.db"), folder.path().join("sluice.db")).expect("the store is copied");
        let server = FhirServer::start(&given.launcher, kind, free_port(), folder.path().join("fhir")).await;
        let mut gateway = GatewayProcess::start(folder.path(), &server.base_url, SETTINGS).await;
        let answered = Arc::new(AtomicUsize::new(0));
        let mut players = tokio::task::JoinSet::new();
        for hand in 0..4 {
            let messages: Vec<Vec<u8>> = given.messages.iter().skip(hand).step_by(4).cloned().collect();
            players.spawn(send_through_kills(gateway.mllp.clone(), messages, Arc::clone(&answered)));
        }
        for kill in 1..=kills {
            // Some moments while messages come, some while only delivery is left.
            let moment = given.messages.len() * kill / (kills + 5);
            let mut looks = 0;
            while answered.load(Ordering::Relaxed) < moment && looks < 2000 {
                looks += 1;
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            gateway.kill();
            gateway.restart().await;
        }
        let mut answers = Vec::new();
        while let Some(played) = players.join_next().await {
            answers.extend(played.expect("a player ends"));
        }
        assert_eq!(answers.len(), given.messages.len());
        gateway.drained().await;
        // An exact duplicate of a stored message gets the stored answer, byte for byte.
        let mut client = Client::connect(&gateway.mllp).await.expect("connects");
        let mut missing = 0;
        for (message, answer) in &answers {
            let again = client.send(message).await.expect("answered");
            missing += usize::from(again.as_ref() != answer.as_slice());
        }
        assert_eq!(missing, 0, "{missing} acknowledged messages were not stored as answered");
        gateway.drained().await;
        states.push(digest::named(&state(&server.base_url).await));
    }
    let only = |one: &[String], other: &[String]| {
        one.iter().filter(|line| !other.contains(line)).cloned().collect::<Vec<String>>()
    };
    let (before, after) = (only(&states[0], &states[1]), only(&states[1], &states[0]));
    assert!(before.is_empty() && after.is_empty(), "{kind}: after {KILLS} kills\nno more {before:#?}\nbut {after:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_kills_over_hfs() {
    if let Some(given) = given() {
        killed_again_and_again(&given, "hfs").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_kills_over_sekmet() {
    if let Some(given) = given() {
        killed_again_and_again(&given, "sekmet").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_corpus_into_hfs_once_and_ten_times_shuffled() {
    if let Some(given) = given() {
        once_and_again(&given, "hfs").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_corpus_into_sekmet_once_and_ten_times_shuffled() {
    if let Some(given) = given() {
        once_and_again(&given, "sekmet").await;
    }
}
