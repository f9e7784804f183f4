//! The interactions on one resource, as R4 §3.1.0 has them.

mod endpoint;

use endpoint::{BASE, MRN, by_mrn, call, get, patient, post, put, sandbox, text};
use sandbox::SOFTWARE_NAME;

#[tokio::test]
async fn the_capability_statement_says_what_it_is() {
    let statement = get(&sandbox(), "/metadata").await.json();
    assert_eq!(text(&statement, "software.name"), SOFTWARE_NAME);
    assert_eq!(text(&statement, "fhirVersion"), "4.0.1");
    assert_eq!(text(&statement, "rest.0.resource.0.conditionalUpdate"), "true");
}

#[tokio::test]
async fn create_read_update_vread_history_delete() {
    let sandbox = sandbox();
    let created = post(&sandbox, "/Patient", &patient("1", "A")).await;
    assert_eq!((created.status, created.header("etag")), (201, "W/\"1\""));
    assert_eq!(created.header("location"), format!("{BASE}/Patient/1/_history/1"));
    assert!(created.header("last-modified").ends_with(" GMT"));

    let read = get(&sandbox, "/Patient/1").await;
    assert_eq!((read.status, read.header("etag")), (200, "W/\"1\""));
    assert_eq!(text(&read.json(), "meta.versionId"), "1");
    assert_eq!(call(&sandbox, "GET", "/Patient/1", &[("if-none-match", "W/\"1\"")], "").await.status, 304);

    let second = patient("1", "B").replacen('{', r#"{"id":"1","#, 1);
    let updated = put(&sandbox, "/Patient/1", &second).await;
    assert_eq!((updated.status, updated.header("etag"), updated.header("location")), (200, "W/\"2\"", ""));

    let first = get(&sandbox, "/Patient/1/_history/1").await.json();
    assert_eq!(text(&first, "name.0.family"), "A");

    assert_eq!(call(&sandbox, "DELETE", "/Patient/1", &[], "").await.status, 204);
    assert_eq!(call(&sandbox, "DELETE", "/Patient/1", &[], "").await.status, 204);
    let gone = get(&sandbox, "/Patient/1").await;
    assert_eq!((gone.status, gone.issue().as_str()), (410, "deleted"));

    let history = get(&sandbox, "/Patient/1/_history").await.json();
    let methods = [0, 1, 2].map(|number| text(&history, &format!("entry.{number}.request.method")));
    assert_eq!(methods, ["DELETE", "PUT", "POST"]);

    let again = put(&sandbox, "/Patient/1", &second).await;
    assert_eq!((again.status, again.header("etag")), (201, "W/\"4\""));
    let counters = sandbox.counters();
    assert_eq!((counters.creates, counters.updates, counters.deletes, counters.writes()), (2, 1, 1, 4));
}

#[tokio::test]
async fn numbers_keep_their_digits() {
    let sandbox = sandbox();
    let observation =
        r#"{"resourceType":"Observation","status":"final","code":{"text":"x"},"valueQuantity":{"value":5.00}}"#;
    post(&sandbox, "/Observation", observation).await;
    assert_eq!(text(&get(&sandbox, "/Observation/1").await.json(), "valueQuantity.value"), "5.00");
}

#[tokio::test]
async fn conditional_create() {
    let sandbox = sandbox();
    let condition = format!("identifier={MRN}|1");
    let create =
        async || call(&sandbox, "POST", "/Patient", &[("if-none-exist", &condition)], &patient("1", "A")).await;
    assert_eq!(create().await.status, 201);
    let matched = create().await;
    assert_eq!((matched.status, matched.header("etag")), (200, "W/\"1\""));
    assert_eq!(sandbox.counters().no_ops, 1);
    post(&sandbox, "/Patient", &patient("1", "A")).await;
    let several = create().await;
    assert_eq!((several.status, several.issue().as_str()), (412, "multiple-matches"));
    assert_eq!(sandbox.counters().conflicts, 1);
}

#[tokio::test]
async fn conditional_update() {
    let sandbox = sandbox();
    assert_eq!(put(&sandbox, &by_mrn("1"), &patient("1", "A")).await.status, 201);
    let updated = put(&sandbox, &by_mrn("1"), &patient("1", "B")).await;
    assert_eq!((updated.status, updated.header("etag")), (200, "W/\"2\""));
    let other_id = patient("1", "B").replacen('{', r#"{"id":"7","#, 1);
    assert_eq!(put(&sandbox, &by_mrn("1"), &other_id).await.status, 400);
    // No match, but an id: update as create.
    assert_eq!(put(&sandbox, &by_mrn("2"), &other_id.replace(r#""1""#, r#""2""#)).await.status, 201);
    assert!(sandbox.resource("Patient", "7").is_some());
    post(&sandbox, "/Patient", &patient("1", "C")).await;
    assert_eq!(put(&sandbox, &by_mrn("1"), &patient("1", "B")).await.status, 412);
    assert_eq!(put(&sandbox, "/Patient", &patient("1", "B")).await.status, 400, "no criteria");
    assert_eq!(put(&sandbox, "/Patient?name=B", &patient("1", "B")).await.issue(), "not-supported");
}

#[tokio::test]
async fn conditional_update_by_tag() {
    let sandbox = sandbox();
    let provenance = r#"{"resourceType":"Provenance","meta":{"tag":[{"system":"urn:t","code":"k1"}]},
        "target":[{"reference":"Patient/1"}],"recorded":"2024-01-01T00:00:00Z","agent":[{"who":{"display":"x"}}]}"#;
    assert_eq!(put(&sandbox, "/Provenance?_tag=urn:t|k1", provenance).await.status, 201);
    assert_eq!(put(&sandbox, "/Provenance?_tag=urn:t|k1", provenance).await.status, 200);
    assert_eq!((sandbox.resources().len(), sandbox.versions("Provenance", "1")), (1, 2));
    let found = get(&sandbox, "/Provenance?target=Patient/1").await.json();
    assert_eq!(text(&found, "total"), "1");
}

#[tokio::test]
async fn if_match() {
    let sandbox = sandbox();
    let patient = patient("1", "A").replacen('{', r#"{"id":"p","#, 1);
    let update = async |etag: &str| call(&sandbox, "PUT", "/Patient/p", &[("if-match", etag)], &patient).await;
    assert_eq!(update("W/\"1\"").await.status, 412, "nothing is there");
    assert_eq!(put(&sandbox, "/Patient/p", &patient).await.status, 201);
    assert_eq!(update("W/\"1\"").await.status, 200);
    let stale = update("W/\"1\"").await;
    assert_eq!((stale.status, stale.issue().as_str()), (412, "conflict"));
    assert_eq!(update("2").await.status, 400);
    let absent = call(&sandbox, "PUT", "/Patient/p", &[("if-none-match", "*")], &patient).await;
    assert_eq!(absent.status, 412);
    assert_eq!(sandbox.versions("Patient", "p"), 2);
}

#[tokio::test]
async fn searches() {
    let sandbox = sandbox();
    for number in ["1", "2", "3"] {
        post(&sandbox, "/Patient", &patient(number, "A")).await;
    }
    let encounter = r#"{"resourceType":"Encounter","status":"planned","class":{"code":"IMP"},
        "subject":{"reference":"Patient/2"}}"#;
    post(&sandbox, "/Encounter", encounter).await;
    let total = async |url: &str| text(&get(&sandbox, url).await.json(), "total");
    assert_eq!(total(&by_mrn("2")).await, "1");
    assert_eq!(total("/Patient?identifier=2").await, "1");
    assert_eq!(total("/Patient?identifier=%7C2").await, "0", "a value without a system");
    assert_eq!(total(&format!("/Patient?identifier={MRN}|")).await, "3");
    assert_eq!(total(&format!("/Patient?identifier={MRN}|1,{MRN}|3")).await, "2");
    assert_eq!(total(&format!("/Patient?identifier={MRN}|1&_id=2")).await, "0");
    assert_eq!(total("/Patient?_id=1").await, "1");
    for criterion in ["patient=Patient/2", "patient=2", "subject=Patient/2", &format!("patient={BASE}/Patient/2")] {
        assert_eq!(total(&format!("/Encounter?{criterion}")).await, "1", "{criterion}");
    }
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let found = call(&sandbox, "POST", "/Patient/_search", &form, &format!("identifier={MRN}%7C2")).await.json();
    assert_eq!(text(&found, "entry.0.fullUrl"), format!("{BASE}/Patient/2"));
    assert_eq!(text(&found, "entry.0.search.mode"), "match");
    let counted = get(&sandbox, "/Patient?_summary=count").await.json();
    assert_eq!((text(&counted, "total"), text(&counted, "entry")), ("3".into(), String::new()));
    assert_eq!(get(&sandbox, "/Patient?name=A").await.issue(), "not-supported");
    assert_eq!(get(&sandbox, "/Nonsense").await.status, 404);
}

#[tokio::test]
async fn a_searchset_has_pages() {
    let sandbox = sandbox();
    for number in 0..5 {
        post(&sandbox, "/Patient", &patient(&number.to_string(), "A")).await;
    }
    let mut url = "/Patient?_count=2".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = get(&sandbox, &url).await.json();
        assert_eq!(text(&page, "total"), "5");
        seen.extend(page.get("entry").unwrap().items().iter().map(|entry| text(entry, "resource.id")));
        match text(&page, "link.1.url").strip_prefix(BASE) {
            Some(next) => url = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, ["1", "2", "3", "4", "5"]);
}

#[tokio::test]
async fn what_changed_is_found_by_what_it_is_now() {
    let sandbox = sandbox();
    put(&sandbox, &by_mrn("1"), &patient("1", "A")).await;
    put(&sandbox, &by_mrn("1"), &patient("2", "A")).await;
    let total = async |url: &str| text(&get(&sandbox, url).await.json(), "total");
    assert_eq!((total(&by_mrn("1")).await, total(&by_mrn("2")).await), ("0".into(), "1".into()));
    call(&sandbox, "DELETE", "/Patient/1", &[], "").await;
    assert_eq!((total(&by_mrn("2")).await, total("/Patient").await), ("0".into(), "0".into()));
}

#[tokio::test]
async fn every_error_is_an_operation_outcome() {
    let sandbox = sandbox();
    let with_id = |id: &str| patient("1", "A").replacen('{', &format!(r#"{{"id":"{id}","#), 1);
    for (status, issue, reply) in [
        (400, "structure", post(&sandbox, "/Patient", "{").await),
        (400, "structure", post(&sandbox, "/Patient", "[]").await),
        (400, "invalid", post(&sandbox, "/Encounter", &patient("1", "A")).await),
        (400, "invalid", put(&sandbox, "/Patient/1", &with_id("2")).await),
        (400, "value", put(&sandbox, "/Patient/a_b", &with_id("a_b")).await),
        (400, "invalid", post(&sandbox, "/", r#"{"resourceType":"Bundle","type":"collection"}"#).await),
        (404, "not-found", get(&sandbox, "/Patient/1").await),
        (404, "not-found", get(&sandbox, "/Patient/1/_history").await),
        (404, "not-found", get(&sandbox, "/Patient/1/$everything").await),
        (404, "not-supported", get(&sandbox, "/patient/1").await),
        (405, "not-supported", call(&sandbox, "PATCH", "/Patient/1", &[], "[]").await),
        (415, "not-supported", call(&sandbox, "POST", "/Patient", &[("content-type", "text/xml")], "<a/>").await),
        (422, "structure", post(&sandbox, "/Patient", r#"{"resourceType":"Patient","name":[]}"#).await),
    ] {
        assert_eq!((reply.status, reply.issue().as_str()), (status, issue), "{}", reply.text);
    }
    assert_eq!(sandbox.counters().refusals, 13);
    assert!(sandbox.resources().is_empty());
}

#[tokio::test]
async fn what_r4_does_not_allow_is_told_issue_by_issue() {
    let sandbox = sandbox();
    let invalid = r#"{"resourceType":"Patient","gender":"man","birthDate":"1970-02-30","nonsense":true}"#;
    let refused = post(&sandbox, "/Patient", invalid).await;
    assert_eq!(refused.status, 422);
    let outcome = refused.json();
    let mut places: Vec<String> =
        outcome.get("issue").unwrap().items().iter().map(|issue| text(issue, "expression.0")).collect();
    places.sort();
    assert_eq!(places, ["Patient.birthDate", "Patient.gender", "Patient.nonsense"]);
    assert!(sandbox.resources().is_empty());
}

#[tokio::test]
async fn an_identical_update_makes_a_version_unless_the_profile_says_otherwise() {
    let sandbox = sandbox();
    put(&sandbox, &by_mrn("1"), &patient("1", "A")).await;
    put(&sandbox, &by_mrn("1"), &patient("1", "A")).await;
    assert_eq!(sandbox.versions("Patient", "1"), 2);
    assert_eq!(sandbox.counters().identical_updates, 1);
    sandbox.set_profile(|profile| profile.skips_identical_updates = true);
    let skipped = put(&sandbox, &by_mrn("1"), &patient("1", "A")).await;
    assert_eq!((skipped.status, skipped.header("etag")), (200, "W/\"2\""));
    assert_eq!((sandbox.versions("Patient", "1"), sandbox.counters().no_ops), (2, 1));
}

#[tokio::test]
async fn preferred_answers() {
    let sandbox = sandbox();
    let minimal = call(&sandbox, "POST", "/Patient", &[("prefer", "return=minimal")], &patient("1", "A")).await;
    assert_eq!((minimal.status, minimal.text.as_str(), minimal.header("etag")), (201, "", "W/\"1\""));
}
