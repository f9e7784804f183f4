//! Against real servers: `SLUICE_FHIR_SERVERS="http://127.0.0.1:8080 http://127.0.0.1:8081/fhir"`. Says so when skipped.

mod scene;

use std::io::Write as _;

use fhir::Json;
use scene::{encounter, patient, provenance, settle};
use writer::{Config, Found, Identity, Ownership, Question, Standing, Targets, TransactError, Write, Writer};

fn servers() -> Vec<String> {
    let servers = std::env::var("SLUICE_FHIR_SERVERS").unwrap_or_default();
    if servers.trim().is_empty() {
        // Past the test harness, which keeps what a test that passes prints to itself.
        let note = "SKIPPED: set SLUICE_FHIR_SERVERS to the base addresses of FHIR servers to run this test\n";
        std::io::stderr().write_all(note.as_bytes()).unwrap();
    }
    servers.split_whitespace().map(str::to_owned).collect()
}

fn config(base_url: &str, ownership: Ownership, identity: Identity) -> Config {
    Config { ownership, identity, ..scene::config(base_url) }
}

/// A value nobody used before.
fn fresh(what: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("{what}-{}-{}", std::process::id(), now.as_nanos())
}

async fn server_ids(writer: &Writer, wanted: &[Write]) -> Vec<String> {
    let questions: Vec<Question<'_>> =
        wanted.iter().map(|write| Question { key: &write.key, server_id: None }).collect();
    let found = writer.lookup(&questions).await.unwrap();
    let one = |write: &Write| match &found[&write.key.full_url()] {
        Found::One(remote) => remote.server_id.to_string(),
        other => panic!("{other:?}"),
    };
    wanted.iter().map(one).collect()
}

#[tokio::test]
async fn a_patient_with_visit_and_provenance_is_written_updated_and_adopted() {
    for server in servers() {
        for (ownership, identity) in [
            (Ownership::Shared, Identity::Server),
            (Ownership::Exclusive, Identity::Server),
            (Ownership::Exclusive, Identity::Client),
        ] {
            let writer = Writer::connect(config(&server, ownership, identity)).await.unwrap();
            eprintln!("{server} {ownership:?} {identity:?}: {}", writer.capabilities());
            let mut p = patient(&fresh("mrn"), "A");
            let mut e = encounter(&fresh("visit"), &p);
            let mut v = provenance(&fresh("message"), &[&p, &e]);
            settle(&writer, &mut [&mut v, &mut e, &mut p]).await;
            let ids = server_ids(&writer, &[p.clone(), e.clone(), v.clone()]).await;
            let known = |write: &Write| write.known.as_ref().unwrap().server_id.to_string();
            assert_eq!(ids, [known(&p), known(&e), known(&v)], "{server}");

            // Everything again, as after a lost store: adopted or found, never doubled.
            let again: Vec<Write> = [&p, &e, &v].map(|write| Write { known: None, ..write.clone() }).into();
            let standings = writer.reread(&again, &Targets::new()).await.unwrap();
            assert!(standings.iter().all(|s| matches!(s, Standing::AsWanted(_))), "{server} {standings:?}");
            let written = writer.transact(&again, &Targets::new()).await.unwrap();
            assert!(written.iter().all(|written| !written.created), "{server}");
            assert_eq!(server_ids(&writer, &again).await, ids, "{server}");

            // A version that is no longer current.
            let renamed = Write { resource: patient(&p.key.value, "B").resource, ..p.clone() };
            if ownership == Ownership::Shared {
                settle(&writer, &mut [&mut renamed.clone()]).await;
            }
            let lost = writer.transact(&[renamed.clone(), encounter(&fresh("visit"), &p)], &Targets::new()).await;
            let Err(TransactError::Conflict { full_urls }) = &lost else { panic!("{server} {lost:?}") };
            eprintln!("{server}: conflict of {full_urls:?}");
        }
    }
}

#[tokio::test]
async fn identifiers_with_odd_characters_are_found_again() {
    const ODD: [&str; 18] =
        [" ", "|", ",", "\\", "$", "%", "&", "+", "ü", "#", "=", "/", "?", "\"", "'", "*", "a|b,c\\$%&+ü", "\\,|$"];
    for server in servers() {
        let writer = Writer::connect(config(&server, Ownership::Exclusive, Identity::Server)).await.unwrap();
        for odd in ODD {
            let write = patient(&fresh(&format!("a{odd}z")), "A");
            let created = writer.transact(std::slice::from_ref(&write), &Targets::new()).await.unwrap();
            let updated = writer.transact(std::slice::from_ref(&write), &Targets::new()).await.unwrap();
            assert!(created[0].created && !updated[0].created, "{server} {odd}");
            assert_eq!(created[0].server_id, updated[0].server_id, "{server} {odd}");
            assert_eq!(server_ids(&writer, std::slice::from_ref(&write)).await, [updated[0].server_id.as_str()]);
        }
    }
}

#[tokio::test]
async fn f5_what_others_write_between_our_writes_stays() {
    for server in servers() {
        let ours = Writer::connect(config(&server, Ownership::Shared, Identity::Server)).await.unwrap();
        let theirs = Writer::connect(config(&server, Ownership::Exclusive, Identity::Server)).await.unwrap();
        let mut p = patient(&fresh("mrn"), "A");
        settle(&ours, &mut [&mut p]).await;

        let mut other = p.clone();
        let members = other.resource.as_object_mut().unwrap();
        members.insert("maritalStatus".into(), Json::object([("text", Json::from("married"))]));
        theirs.transact(&[other], &Targets::new()).await.unwrap();

        p.resource = patient(&p.key.value, "B").resource;
        let conflict = ours.transact(std::slice::from_ref(&p), &Targets::new()).await;
        assert!(matches!(conflict, Err(TransactError::Conflict { .. })), "{server} {conflict:?}");
        let standings = ours.reread(std::slice::from_ref(&p), &Targets::new()).await.unwrap();
        let [Standing::Differs(known)] = standings.as_slice() else { panic!("{server} {standings:?}") };
        p.known = Some(known.clone());
        settle(&ours, &mut [&mut p]).await;

        let id = p.known.as_ref().unwrap().server_id.clone();
        let found = ours.lookup(&[Question { key: &p.key, server_id: Some(&id) }]).await.unwrap();
        let Found::One(remote) = &found[&p.key.full_url()] else { panic!("{server} {found:?}") };
        let text = remote.resource.to_string();
        assert!(text.contains("married") && text.contains("\"B\""), "{server}");
    }
}
