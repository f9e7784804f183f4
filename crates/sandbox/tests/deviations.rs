//! Each switch of the profile, switched on in a running sandbox.

mod endpoint;

use std::net::SocketAddr;
use std::time::Duration;

use endpoint::{bundle, by_mrn, call, entry, get, patient, post, put, sandbox, text};
use fhir::Json;
use sandbox::{Failure, Profile, Sandbox};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

fn with_id(id: &str) -> String {
    patient("1", "A").replacen('{', &format!(r#"{{"id":"{id}","#), 1)
}

#[tokio::test]
async fn f4_ignores_if_match() {
    let sandbox = sandbox();
    post(&sandbox, "/Patient", &patient("1", "A")).await;
    sandbox.set_profile(|profile| profile.ignores_if_match = true);
    let stale = call(&sandbox, "PUT", "/Patient/1", &[("if-match", "W/\"9\"")], &with_id("1")).await;
    assert_eq!(stale.status, 200);
    let statement = get(&sandbox, "/metadata").await.json();
    assert_eq!(text(&statement, "rest.0.resource.0.versioning"), "versioned");
}

#[tokio::test]
async fn f3_answers_409_for_412_but_not_for_several_matches() {
    let sandbox = sandbox();
    for _ in 0..2 {
        post(&sandbox, "/Patient", &patient("1", "A")).await;
    }
    sandbox.set_profile(|profile| profile.answers_409_for_412 = true);
    let stale = call(&sandbox, "PUT", "/Patient/1", &[("if-match", "W/\"9\"")], &with_id("1")).await;
    assert_eq!(stale.status, 409);
    assert_eq!(put(&sandbox, &by_mrn("1"), &patient("1", "A")).await.status, 412);
}

#[tokio::test]
async fn f4_refuses_client_ids() {
    let sandbox = sandbox();
    sandbox.set_profile(|profile| profile.refuses_client_ids = true);
    let refused = put(&sandbox, "/Patient/p", &with_id("p")).await;
    assert_eq!((refused.status, refused.issue().as_str()), (405, "not-supported"));
    assert_eq!(put(&sandbox, &by_mrn("1"), &with_id("p")).await.status, 405);
    assert_eq!(put(&sandbox, &by_mrn("1"), &patient("1", "A")).await.status, 201);
    assert_eq!(put(&sandbox, "/Patient/1", &with_id("1")).await.status, 200, "an id the server gave");
}

#[tokio::test]
async fn f4_stale_search_sees_a_write_some_searches_later() {
    let sandbox = sandbox();
    sandbox.set_profile(|profile| profile.stale_search = 2);
    post(&sandbox, "/Patient", &patient("1", "A")).await;
    let total = async || text(&get(&sandbox, &by_mrn("1")).await.json(), "total");
    assert_eq!([total().await, total().await, total().await], ["0", "0", "1"]);
    // Conditional interactions look into the same index.
    put(&sandbox, &by_mrn("2"), &patient("2", "A")).await;
    put(&sandbox, &by_mrn("2"), &patient("2", "A")).await;
    assert_eq!(sandbox.resources().len(), 3);
    assert_eq!(get(&sandbox, "/Patient/2").await.status, 200, "reads are never stale");
}

#[tokio::test]
async fn f4_a_stale_search_never_goes_backwards() {
    let sandbox = sandbox();
    sandbox.set_profile(|profile| profile.stale_search = 2);
    put(&sandbox, "/Patient/p", &with_id("p")).await;
    sandbox.set_profile(|profile| profile.stale_search = 0);
    put(&sandbox, "/Patient/p", &with_id("p").replace(r#""value":"1""#, r#""value":"2""#)).await;
    for _ in 0..2 {
        get(&sandbox, "/Patient").await;
    }
    let total = async |mrn: &str| text(&get(&sandbox, &by_mrn(mrn)).await.json(), "total");
    assert_eq!((total("1").await, total("2").await), ("0".into(), "1".into()));
}

#[tokio::test]
async fn f4_entries_are_resolved_in_the_order_sent() {
    let sandbox = sandbox();
    sandbox.set_profile(|profile| profile.resolves_entries_in_order = true);
    let urn = "urn:uuid:00000000-0000-4000-8000-000000000001";
    let patient = entry(urn, r#""method":"POST","url":"Patient""#, &patient("1", "A"));
    let encounter = format!(
        r#"{{"resourceType":"Encounter","status":"planned","class":{{"code":"IMP"}},"subject":{{"reference":"{urn}"}}}}"#
    );
    let encounter = entry("", r#""method":"POST","url":"Encounter""#, &encounter);
    let forward = bundle("transaction", &[encounter.clone(), patient.clone()]);
    assert_eq!(post(&sandbox, "/", &forward).await.issue(), "not-found");
    assert_eq!(post(&sandbox, "/", &bundle("transaction", &[patient, encounter])).await.status, 200);
}

#[tokio::test]
async fn f3_errors_as_a_page_with_200() {
    let sandbox = sandbox();
    sandbox.set_profile(|profile| profile.returns_html_errors = 1);
    let page = get(&sandbox, "/Patient/1").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!(get(&sandbox, "/Patient/1").await.status, 404);
}

#[tokio::test]
async fn f3_truncated_body() {
    let sandbox = sandbox();
    sandbox.set_profile(|profile| profile.truncates_body = 1);
    let truncated = post(&sandbox, "/Patient", &patient("1", "Ä")).await;
    assert_eq!(truncated.status, 201);
    assert!(!truncated.text.is_empty() && Json::parse(&truncated.text).is_err());
    assert_eq!(get(&sandbox, "/Patient/1").await.json().resource_type(), Some("Patient"));
}

#[tokio::test]
async fn f3_too_long_a_body() {
    let sandbox = sandbox();
    sandbox.set_profile(|profile| profile.body_bytes_max = 100);
    let refused = post(&sandbox, "/Patient", &patient("1", "A")).await;
    assert_eq!((refused.status, refused.issue().as_str()), (413, "too-long"));
}

#[tokio::test]
async fn f3_fails_a_number_of_times() {
    let sandbox = sandbox();
    let failure = Failure { status: 503, times: 2, retry_after_s: Some(7) };
    sandbox.set_profile(|profile| profile.fails_with = Some(failure));
    for _ in 0..2 {
        let refused = post(&sandbox, "/Patient", &patient("1", "A")).await;
        assert_eq!((refused.status, refused.header("retry-after")), (503, "7"));
        assert_eq!(refused.issue(), "transient");
    }
    assert_eq!(sandbox.profile().fails_with, None);
    assert_eq!(post(&sandbox, "/Patient", &patient("1", "A")).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn latency_comes_before_everything() {
    let sandbox = sandbox();
    sandbox.set_profile(|profile| profile.latency = Duration::from_secs(90));
    let begun = tokio::time::Instant::now();
    assert_eq!(get(&sandbox, "/metadata").await.status, 200);
    assert_eq!(begun.elapsed().as_secs(), 90);
}

#[tokio::test]
async fn invalid_resources_are_accepted_where_the_profile_says_so() {
    let sandbox = sandbox();
    let invalid = r#"{"resourceType":"Patient","name":[]}"#;
    assert_eq!(post(&sandbox, "/Patient", invalid).await.status, 422);
    sandbox.set_profile(|profile| profile.accepts_invalid = true);
    assert_eq!(post(&sandbox, "/Patient", invalid).await.status, 201);
}

/// Sends one request over a socket and reads until the connection ends.
async fn raw(addr: &str, request: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // However the connection ends, what came before is the answer.
    let _ended = stream.read_to_end(&mut answer).await;
    answer
}

#[tokio::test]
async fn f3_reset_after_the_write_was_applied() {
    let running = Sandbox::start(SocketAddr::from(([127, 0, 0, 1], 0)), Profile::default()).await.unwrap();
    let addr = running.base_url.strip_prefix("http://").and_then(|url| url.strip_suffix("/fhir")).unwrap();
    let body = patient("1", "A");
    let request = format!(
        "POST /fhir/Patient HTTP/1.1\r\nhost: {addr}\r\ncontent-type: application/fhir+json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    running.sandbox.set_profile(|profile| profile.resets_after_apply = 1);
    assert_eq!(raw(addr, &request).await, b"");
    assert_eq!(running.sandbox.resources().len(), 1);
    let answer = String::from_utf8(raw(addr, &request).await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
    assert!(answer.contains(&format!("location: {}/Patient/2/_history/1\r\n", running.base_url)), "{answer}");

    let search = format!("GET /fhir/Patient?_count=1 HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\r\n");
    assert!(String::from_utf8(raw(addr, &search).await).unwrap().contains("\"total\":2"));
    let transaction = bundle("transaction", &[]);
    for path in ["/fhir", "/fhir/"] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {addr}\r\ncontent-type: application/fhir+json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{transaction}",
            transaction.len()
        );
        let answer = String::from_utf8(raw(addr, &request).await).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {answer}");
    }
    let addr = addr.to_owned();
    running.stop().await;
    assert!(TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn reset_without_a_socket_of_ours_breaks_the_body() {
    let sandbox = sandbox();
    sandbox.set_profile(|profile| profile.resets_after_apply = u32::MAX);
    let request = axum::http::Request::post("/Patient").header("content-type", "application/json");
    let request = request.body(axum::body::Body::from(patient("1", "A"))).unwrap();
    let response = tower::ServiceExt::oneshot(sandbox.router(), request).await.unwrap();
    assert!(axum::body::to_bytes(response.into_body(), usize::MAX).await.is_err());
    assert_eq!(sandbox.resources().len(), 1);
    assert_eq!(sandbox.profile().resets_after_apply, u32::MAX);
}
