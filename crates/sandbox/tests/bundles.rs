//! Batches and transactions, as R4 §3.1.0.11 has them, and the digest.

mod endpoint;

use endpoint::{BASE, MRN, bundle, by_mrn, call, entry, get, patient, post, put, sandbox, text};
use sandbox::Sandbox;

const VISIT: &str = "urn:visit";

fn conditional_put(kind: &str, system: &str, value: &str) -> String {
    format!(r#""method":"PUT","url":"{kind}?identifier={system}|{value}""#)
}

fn encounter(visit: &str, subject: &str) -> String {
    format!(
        r#"{{"resourceType":"Encounter","identifier":[{{"system":"{VISIT}","value":"{visit}"}}],"status":"planned",
            "class":{{"code":"IMP"}},"subject":{{"reference":"{subject}"}}}}"#
    )
}

const PATIENT_URN: &str = "urn:uuid:00000000-0000-4000-8000-000000000001";
const ENCOUNTER_URN: &str = "urn:uuid:00000000-0000-4000-8000-000000000002";

/// A patient and an encounter that refers to it, by conditional update.
fn admission(mrn: &str, visit: &str) -> [String; 2] {
    [
        entry(PATIENT_URN, &conditional_put("Patient", MRN, mrn), &patient(mrn, "A")),
        entry(ENCOUNTER_URN, &conditional_put("Encounter", VISIT, visit), &encounter(visit, PATIENT_URN)),
    ]
}

#[tokio::test]
async fn a_transaction_resolves_references_between_its_entries() {
    let sandbox = sandbox();
    let sent = bundle("transaction", &admission("1", "v1"));
    let reply = post(&sandbox, "/", &sent).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let answer = reply.json();
    assert_eq!(text(&answer, "type"), "transaction-response");
    assert_eq!(text(&answer, "entry.0.response.status"), "201 Created");
    assert_eq!(text(&answer, "entry.0.response.etag"), "W/\"1\"");
    assert_eq!(text(&answer, "entry.0.response.location"), format!("{BASE}/Patient/1/_history/1"));
    assert_ne!(text(&answer, "entry.0.response.lastModified"), "");
    assert_eq!(text(&answer, "entry.0.resource"), "");
    assert_eq!(text(&get(&sandbox, "/Encounter/2").await.json(), "subject.reference"), "Patient/1");

    let again = call(&sandbox, "POST", "/", &[("prefer", "return=representation")], &sent).await.json();
    assert_eq!(text(&again, "entry.1.response.status"), "200 OK");
    assert_eq!(text(&again, "entry.1.resource.subject.reference"), "Patient/1");
    let counters = sandbox.counters();
    assert_eq!((counters.transactions, counters.creates, counters.updates), (2, 2, 2));
}

#[tokio::test]
async fn entries_may_come_in_any_order() {
    let sandbox = sandbox();
    let [patient, encounter] = admission("1", "v1");
    assert_eq!(post(&sandbox, "/", &bundle("transaction", &[encounter, patient])).await.status, 200);
    let answer = get(&sandbox, "/Encounter?patient=Patient/2").await.json();
    assert_eq!(text(&answer, "total"), "1");
}

#[tokio::test]
async fn a_transaction_is_all_or_nothing() {
    let sandbox = sandbox();
    put(&sandbox, &by_mrn("1"), &patient("1", "before")).await;
    let (digest, before) = (sandbox.digest(), sandbox.counters());
    let [patient, encounter] = admission("1", "v1");
    for (status, last) in [
        (422, entry("", r#""method":"POST","url":"Location""#, r#"{"resourceType":"Location","name":""}"#)),
        (412, entry("", r#""method":"PUT","url":"Patient/9","ifMatch":"W/\"3\"""#, &stale())),
        (400, entry("", r#""method":"POST","url":"Encounter""#, &self::encounter("v2", "urn:uuid:nowhere"))),
        (400, entry("", r#""method":"GET","url":"Patient?_id=1""#, "")),
        (404, entry("", r#""method":"GET","url":"Patient/77""#, "")),
        (400, entry("", r#""url":"Patient""#, "").replace(r#""url":"Patient""#, r#""method":"POST""#)),
    ] {
        let reply = post(&sandbox, "/", &bundle("transaction", &[patient.clone(), encounter.clone(), last])).await;
        assert_eq!(reply.status, status, "{}", reply.text);
        assert!(text(&reply.json(), "issue.0.diagnostics").starts_with("entry 2: "), "{}", reply.text);
        assert_eq!(sandbox.digest(), digest);
    }
    assert_eq!((sandbox.versions("Patient", "1"), sandbox.counters().writes()), (1, before.writes()));
    assert_eq!(text(&get(&sandbox, &by_mrn("1")).await.json(), "entry.0.resource.name.0.family"), "before");
    assert_eq!(sandbox.counters().transactions, 6);
}

fn stale() -> String {
    patient("9", "A").replacen('{', r#"{"id":"9","#, 1)
}

#[tokio::test]
async fn f1_two_entries_about_one_resource_are_refused() {
    let sandbox = sandbox();
    put(&sandbox, &by_mrn("1"), &patient("1", "A")).await;
    let by_condition = entry("", &conditional_put("Patient", MRN, "1"), &patient("1", "B"));
    let by_id = entry("", r#""method":"PUT","url":"Patient/1""#, &patient("1", "C").replacen('{', r#"{"id":"1","#, 1));
    let new = entry("", &conditional_put("Patient", MRN, "2"), &patient("2", "B"));
    for pair in [[by_condition.clone(), by_condition.clone()], [by_condition, by_id], [new.clone(), new]] {
        let reply = post(&sandbox, "/", &bundle("transaction", &pair)).await;
        assert_eq!((reply.status, reply.issue().as_str()), (400, "duplicate"));
    }
    assert_eq!(sandbox.counters().writes(), 1);
}

#[tokio::test]
async fn the_same_full_url_twice_is_refused() {
    let entries = ["1", "2"].map(|mrn| entry(PATIENT_URN, &conditional_put("Patient", MRN, mrn), &patient(mrn, "A")));
    assert_eq!(post(&sandbox(), "/", &bundle("transaction", &entries)).await.issue(), "duplicate");
}

#[tokio::test]
async fn if_match_and_if_none_exist_in_a_transaction() {
    let sandbox = sandbox();
    post(&sandbox, "/Patient", &patient("1", "A")).await;
    let with_id = patient("1", "B").replacen('{', r#"{"id":"1","#, 1);
    let entries = [
        entry("", r#""method":"PUT","url":"Patient/1","ifMatch":"W/\"1\"""#, &with_id),
        entry(
            PATIENT_URN,
            &format!(r#""method":"POST","url":"Patient","ifNoneExist":"identifier={MRN}|2""#),
            &patient("2", "A"),
        ),
        entry("", r#""method":"POST","url":"Encounter""#, &encounter("v", PATIENT_URN)),
        entry("", r#""method":"GET","url":"Patient/1""#, ""),
    ];
    let answer = post(&sandbox, "/", &bundle("transaction", &entries)).await.json();
    let statuses = [0, 1, 2, 3].map(|number| text(&answer, &format!("entry.{number}.response.status")));
    assert_eq!(statuses, ["200 OK", "201 Created", "201 Created", "200 OK"], "{answer}");
    assert_eq!(text(&answer, "entry.3.resource.name.0.family"), "B", "reads see the writes");

    let again = post(&sandbox, "/", &bundle("transaction", &entries[1..3])).await.json();
    assert_eq!(text(&again, "entry.0.response.status"), "200 OK");
    assert_eq!(text(&again, "entry.0.response.location"), format!("{BASE}/Patient/2/_history/1"));
    let conflict = post(&sandbox, "/", &bundle("transaction", &entries[..1])).await;
    assert_eq!((conflict.status, conflict.issue().as_str()), (412, "conflict"));
}

#[tokio::test]
async fn a_batch_answers_each_entry_by_itself() {
    let sandbox = sandbox();
    post(&sandbox, "/Patient", &patient("1", "A")).await;
    let entries = [
        entry("", &format!(r#""method":"GET","url":"Patient?identifier={MRN}|1""#), ""),
        entry("", r#""method":"GET","url":"Patient/99""#, ""),
        entry("", r#""method":"POST","url":"Patient""#, &patient("2", "A")),
        r#"{"resource":{}}"#.to_owned(),
        entry("", &format!(r#""method":"GET","url":"{BASE}/Patient/1""#), ""),
    ];
    let answer = post(&sandbox, "/", &bundle("batch", &entries)).await.json();
    let statuses = [0, 1, 2, 3, 4].map(|number| text(&answer, &format!("entry.{number}.response.status")));
    assert_eq!(statuses, ["200 OK", "404 Not Found", "201 Created", "400 Bad Request", "200 OK"]);
    assert_eq!(text(&answer, "entry.0.resource.entry.0.resource.id"), "1");
    assert_eq!(text(&answer, "entry.1.response.outcome.issue.0.code"), "not-found");
    assert_eq!(text(&answer, "entry.4.resource.resourceType"), "Patient");
    let counters = sandbox.counters();
    assert_eq!((counters.batches, counters.refusals, counters.creates, counters.requests), (1, 2, 2, 2));
}

#[tokio::test]
async fn the_digest_knows_content_and_not_ids() {
    let load = async |order: &[(&str, &str)]| -> Sandbox {
        let sandbox = sandbox();
        for (mrn, visit) in order {
            post(&sandbox, "/", &bundle("transaction", &admission(mrn, visit))).await;
        }
        sandbox
    };
    let one = load(&[("1", "v1"), ("2", "v2")]).await;
    let other = load(&[("2", "v2"), ("1", "v1"), ("2", "v2")]).await;
    assert_ne!(one.resources(), other.resources());
    assert_eq!(one.digest(), other.digest());
    // The same resources, but the visits belong to the other patient each.
    assert_ne!(one.digest(), load(&[("1", "v2"), ("2", "v1")]).await.digest());
    let duplicated = load(&[("1", "v1"), ("2", "v2")]).await;
    post(&duplicated, "/Patient", &patient("1", "A")).await;
    assert_ne!(one.digest(), duplicated.digest());
}
