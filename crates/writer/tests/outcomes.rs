//! Each outcome of a transaction against the sandbox, and what to do about it.

mod scene;

use fhir::Json;
use sandbox::{Failure, Profile};
use scene::{count, encounter, forgotten, held, json, key, patient, provenance, scene, settle, transact};
use writer::{Known, Ownership, Reason, Standing, Targets, TransactError, Write};

#[tokio::test]
async fn new_resources_are_written_once_with_their_references() {
    let (running, writer) = scene(Ownership::Exclusive).await;
    let mut p = patient("1", "A");
    let mut e = encounter("v1", &p);
    let mut v = provenance("m1", &[&p, &e]);
    // Whatever order they come in, also for servers that look at entries one after the other.
    running.sandbox.set_profile(|profile| profile.resolves_entries_in_order = true);
    settle(&writer, &mut [&mut v, &mut e, &mut p]).await;
    let server_id = |write: &Write| Json::from(write.known.as_ref().unwrap().server_id.as_str());
    assert_eq!(held(&running, &e).get("subject").unwrap().get("reference"), Some(&server_id(&p)));
    let targets = held(&running, &v).get("target").unwrap().clone();
    let targets: Vec<_> = targets.items().iter().filter_map(|target| target.get("reference")).cloned().collect();
    assert_eq!(targets, [server_id(&p), server_id(&e)]);
    assert_eq!(count(&running), 3);

    let again = transact(&writer, &[&forgotten(&p), &forgotten(&e), &forgotten(&v)]).await.unwrap();
    assert!(again.iter().all(|written| !written.created));
    assert_eq!(count(&running), 3);
}

#[tokio::test]
async fn a_known_resource_takes_one_request() {
    for ownership in [Ownership::Shared, Ownership::Exclusive] {
        let (running, writer) = scene(ownership).await;
        let mut p = patient("1", "A");
        settle(&writer, &mut [&mut p]).await;
        let before = running.sandbox.counters();
        p.resource = patient("1", "B").resource;
        let new = encounter("v1", &p);
        settle(&writer, &mut [&mut p, &mut new.clone()]).await;
        let after = running.sandbox.counters();
        assert_eq!((after.requests - before.requests, after.searches - before.searches), (1, 0), "{ownership:?}");
        assert!(held(&running, &p).to_string().contains("\"B\""));
    }
}

#[tokio::test]
async fn references_to_resources_elsewhere_go_by_their_id() {
    let (running, writer) = scene(Ownership::Exclusive).await;
    let mut p = patient("1", "A");
    settle(&writer, &mut [&mut p]).await;
    let mut e = encounter("v1", &p);
    let server_id = p.known.as_ref().unwrap().server_id.clone();
    let targets = Targets::from([(p.key.full_url(), server_id.clone())]);
    let written = writer.transact(std::slice::from_ref(&e), &targets).await.unwrap().remove(0);
    e.known = Some(Known { server_id: written.server_id, etag: written.etag, foreign: None });
    let subject = held(&running, &e).get("subject").unwrap().to_string();
    assert_eq!(subject, format!(r#"{{"reference":"{server_id}"}}"#));
}

#[tokio::test]
async fn f5_first_contact_reads_once_and_keeps_what_is_there() {
    let (running, writer) = scene(Ownership::Shared).await;
    let (_, other) = (&running, writer::Writer::connect(scene::config(&running.base_url)).await.unwrap());
    let mut theirs = patient("1", "Other");
    let members = theirs.resource.as_object_mut().unwrap();
    members.insert("maritalStatus".into(), json(r#"{"text":"married"}"#));
    settle(&other, &mut [&mut theirs]).await;

    let before = running.sandbox.counters();
    let mut p = patient("1", "Ours");
    let mut e = encounter("v1", &p);
    settle(&writer, &mut [&mut p, &mut e]).await;
    let after = running.sandbox.counters();
    assert_eq!((after.requests - before.requests, after.searches - before.searches), (2, 1), "the visit is our own");
    let found = held(&running, &p).to_string();
    assert!(found.contains("married") && found.contains("Ours") && !found.contains("Other"), "{found}");

    // And later on without another read.
    p.resource = patient("1", "Ours too").resource;
    settle(&writer, &mut [&mut p]).await;
    let found = held(&running, &p).to_string();
    assert!(found.contains("married") && found.contains("Ours too"), "{found}");
}

#[tokio::test]
async fn what_the_server_holds_already_is_adopted_without_a_write() {
    let (running, writer) = scene(Ownership::Shared).await;
    let mut p = patient("1", "A");
    settle(&writer, &mut [&mut p]).await;
    let before = running.sandbox.counters();
    let prepared = writer.prepare(&[forgotten(&p)], &Targets::new()).await.unwrap();
    assert_eq!((prepared.bundle.entries.len(), prepared.adopted.len()), (0, 1));
    let adopted = writer.send(prepared).await.unwrap();
    assert_eq!(adopted[0].server_id, p.known.as_ref().unwrap().server_id);
    assert_eq!(running.sandbox.counters().writes(), before.writes());
}

#[tokio::test]
async fn the_bundle_can_be_seen_before_it_is_sent_and_is_valid() {
    let (_running, writer) = scene(Ownership::Exclusive).await;
    let mut p = patient("1", "A");
    settle(&writer, &mut [&mut p]).await;
    let e = encounter("v1", &p);
    let v = provenance("m1", &[&p, &e]);
    let prepared = writer.prepare(&[v, e, p], &Targets::new()).await.unwrap();
    assert_eq!(prepared.bundle.check(), []);
    let types: Vec<_> = prepared.bundle.entries.iter().filter_map(|entry| entry.resource_type()).collect();
    assert_eq!(types, ["Patient", "Encounter", "Provenance"]);
    assert_eq!(prepared.full_urls().count(), 3);
    let requests: Vec<_> = prepared.bundle.entries.iter().filter_map(|entry| entry.request.as_ref()).collect();
    assert_eq!(requests[0].if_match.as_deref(), Some("W/\"1\""));
    assert!(requests[1].url.starts_with("Encounter?identifier=") && requests[2].url.starts_with("Provenance?_tag="));
}

#[tokio::test]
async fn conflict_whatever_its_status_then_read_compare_write() {
    for answers_409_for_412 in [false, true] {
        let (running, writer) = scene(Ownership::Shared).await;
        running.sandbox.set_profile(|profile| profile.answers_409_for_412 = answers_409_for_412);
        let mut p = patient("1", "A");
        settle(&writer, &mut [&mut p]).await;
        let mut theirs = p.clone();
        theirs.resource.as_object_mut().unwrap().insert("maritalStatus".into(), json(r#"{"text":"married"}"#));
        settle(&writer, &mut [&mut theirs]).await;

        p.resource = patient("1", "B").resource;
        let error = transact(&writer, &[&p, &encounter("v1", &p)]).await.unwrap_err();
        assert!(matches!(error, TransactError::Conflict { .. }), "{error:?}");
        assert!(error.certainly_not_written() && !error.is_transient());
        assert_eq!(count(&running), 1, "nothing else of the bundle was written either");
        let standings = writer.reread(std::slice::from_ref(&p), &Targets::new()).await.unwrap();
        let [Standing::Differs(known)] = standings.as_slice() else { panic!("{standings:?}") };
        p.known = Some(known.clone());
        settle(&writer, &mut [&mut p]).await;
        assert!(held(&running, &p).to_string().contains("\"B\""));
    }
}

#[tokio::test]
async fn several_matches() {
    let (running, writer) = scene(Ownership::Exclusive).await;
    // Two patients with one number, as the server may have had before us.
    let (mut one, mut two) = (patient("1", "A"), patient("2", "A"));
    settle(&writer, &mut [&mut one, &mut two]).await;
    two.resource = one.resource.clone();
    settle(&writer, &mut [&mut two]).await;

    let error = transact(&writer, &[&patient("1", "B")]).await.unwrap_err();
    assert!(matches!(error, TransactError::MultipleMatches { .. }), "{error:?}");
    let shared = writer::Writer::connect(scene::config(&running.base_url)).await.unwrap();
    let error = transact(&shared, &[&patient("1", "B"), &patient("3", "B")]).await.unwrap_err();
    assert_eq!(error, TransactError::MultipleMatches { full_url: Some(one.key.full_url()) });
    let standings = shared.reread(&[patient("1", "B")], &Targets::new()).await.unwrap();
    assert_eq!(standings, [Standing::Several(2)]);
}

#[tokio::test]
async fn a_bundle_the_server_will_not_take() {
    let (running, writer) = scene(Ownership::Exclusive).await;
    let mut p = patient("1", "A");
    settle(&writer, &mut [&mut p]).await;
    for known in [None, p.known.clone()] {
        let mut bad = Write { known, ..p.clone() };
        bad.resource.as_object_mut().unwrap().insert("birthDate".into(), "yesterday, Jane".into());
        let error = transact(&writer, &[&bad]).await.unwrap_err();
        let TransactError::Refused { status: 422, outcome: Some(_) } = &error else { panic!("{error:?}") };
        let told = format!("{error} {error:?}");
        assert!(!told.contains("Jane") && told.contains("422"), "{told}");
    }
    running.sandbox.set_profile(|profile| profile.body_bytes_max = 100);
    let error = transact(&writer, &[&patient("2", "A")]).await.unwrap_err();
    assert!(matches!(error, TransactError::Refused { status: 413, .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_that_does_not_take_us_or_cannot_now() {
    let (running, writer) = scene(Ownership::Shared).await;
    let fail = |status, retry_after_s| {
        let failure = Failure { status, times: 1, retry_after_s };
        running.sandbox.set_profile(|profile| profile.fails_with = Some(failure));
    };
    // Both when it is asked what is there, and when it is written to.
    for known in [None, Some(Known { server_id: "Patient/9".into(), etag: None, foreign: None })] {
        let p = Write { known, ..patient("1", "A") };
        for status in [401, 403] {
            fail(status, None);
            assert_eq!(transact(&writer, &[&p]).await, Err(TransactError::Unauthorized { status }));
        }
        for status in [429, 503] {
            fail(status, Some(7));
            let error = transact(&writer, &[&p]).await.unwrap_err();
            let reason = Reason::Status(status);
            let retry_after = Some(std::time::Duration::from_secs(7));
            assert_eq!(error, TransactError::Unavailable { reason, retry_after });
            assert!(error.certainly_not_written() && error.retry_after() == retry_after);
        }
    }
    // Who says 500 or 504 may have passed it on.
    let p =
        Write { known: Some(Known { server_id: "Patient/9".into(), etag: None, foreign: None }), ..patient("1", "A") };
    for status in [500, 502, 504] {
        fail(status, None);
        let error = transact(&writer, &[&p]).await.unwrap_err();
        assert_eq!(error, TransactError::Unknown { reason: Reason::Status(status), retry_after: None });
        assert!(!error.certainly_not_written());
    }
}

#[tokio::test]
async fn f3_an_answer_lost_after_the_write_is_read_back_and_adopted() {
    for reason in [Reason::NotJson, Reason::ConnectionLost] {
        let switch = |profile: &mut Profile| match reason {
            Reason::NotJson => profile.truncates_body = 1,
            _ => profile.resets_after_apply = 1,
        };
        for ownership in [Ownership::Shared, Ownership::Exclusive] {
            let (running, writer) = scene(ownership).await;
            let p = patient("1", "A");
            let wanted = [p.clone(), encounter("v1", &p), provenance("m1", &[&p])];
            let prepared = writer.prepare(&wanted, &Targets::new()).await.unwrap();
            running.sandbox.set_profile(switch);
            let error = writer.send(prepared).await.unwrap_err();
            assert_eq!(error, TransactError::Unknown { reason, retry_after: None });

            let before = running.sandbox.counters();
            let standings = writer.reread(&wanted, &Targets::new()).await.unwrap();
            assert!(standings.iter().all(|s| matches!(s, Standing::AsWanted(_))), "{reason:?} {standings:?}");
            assert_eq!(running.sandbox.counters().requests - before.requests, 1);
            assert_eq!(count(&running), 3);
        }
    }
}

#[tokio::test]
async fn f3_a_page_with_200_says_nothing() {
    let (running, writer) = scene(Ownership::Exclusive).await;
    running.sandbox.set_profile(|profile| profile.returns_html_errors = 1);
    let mut bad = patient("1", "A");
    bad.resource.as_object_mut().unwrap().insert("birthDate".into(), "yesterday".into());
    let error = transact(&writer, &[&bad]).await.unwrap_err();
    assert_eq!(error, TransactError::Unknown { reason: Reason::NotJson, retry_after: None });
    assert_eq!(writer.reread(&[bad], &Targets::new()).await.unwrap(), [Standing::Absent]);
}

#[tokio::test]
async fn f7_nobody_there() {
    let (running, writer) = scene(Ownership::Exclusive).await;
    running.stop().await;
    let error = transact(&writer, &[&patient("1", "A")]).await.unwrap_err();
    assert_eq!(error, TransactError::Unavailable { reason: Reason::NoConnection, retry_after: None });
}

#[tokio::test]
async fn f5_a_resource_that_somebody_deleted_is_a_conflict_and_can_be_created_again() {
    let (running, writer) = scene(Ownership::Shared).await;
    let mut p = patient("1", "A");
    settle(&writer, &mut [&mut p]).await;
    let server_id = &p.known.as_ref().unwrap().server_id;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client.delete(format!("{}/{server_id}", running.base_url)).send().await.unwrap();

    p.resource = patient("1", "B").resource;
    let error = transact(&writer, &[&p]).await.unwrap_err();
    assert!(matches!(error, TransactError::Conflict { .. }), "{error:?}");
    assert_eq!(writer.reread(std::slice::from_ref(&p), &Targets::new()).await.unwrap(), [Standing::Absent]);
    p.known = None;
    settle(&writer, &mut [&mut p]).await;
    assert_eq!(count(&running), 1);
}

#[tokio::test]
async fn what_makes_no_bundle() {
    let (running, writer) = scene(Ownership::Shared).await;
    let p = patient("1", "A");
    let e = encounter("v1", &p);
    let fault = async |writes: &[&Write]| match transact(&writer, writes).await {
        Err(error @ TransactError::Malformed { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(fault(&[&e]).await.contains("points to no known resource"));
    assert!(fault(&[&p, &p]).await.contains("twice"));
    let unmarked = Write { key: key("Patient", scene::OWN, "x"), ..p.clone() };
    assert!(fault(&[&unmarked]).await.contains("does not carry"));
    let mistyped = Write { resource: e.resource.clone(), ..p.clone() };
    assert!(fault(&[&mistyped]).await.contains("another type"));

    // Two numbers, one patient.
    let mut both = patient("1", "A");
    let second = json(&format!(r#"{{"system":"{}","value":"2"}}"#, scene::MRN));
    if let Some(Json::Array(identifiers)) = both.resource.as_object_mut().unwrap().get_mut("identifier") {
        identifiers.push(second);
    }
    settle(&writer, &mut [&mut both]).await;
    assert!(fault(&[&patient("1", "B"), &patient("2", "B")]).await.contains("one on the server"));
    assert_eq!(count(&running), 1);
}

#[tokio::test]
async fn nothing_shown_names_a_patient() {
    let (_running, writer) = scene(Ownership::Shared).await;
    let p = patient("4711", "Jane");
    let prepared = writer.prepare(std::slice::from_ref(&p), &Targets::new()).await.unwrap();
    let written = writer.send(prepared.clone()).await.unwrap();
    let found = writer.lookup(&[writer::Question { key: &p.key, server_id: None }]).await.unwrap();
    let shown = format!("{p:?} {prepared:?} {written:?} {found:?}");
    assert!(!shown.contains("4711") && !shown.contains("Jane"), "{shown}");
}
