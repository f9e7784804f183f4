//! Delivery to servers that deviate, fail and are written to by others (DESIGN §5): what ends up on the server, and that
//! nobody's message is blamed for the server.

use fhir::Json;
use sandbox::{Failure, Profile};
use store::{ParkedFilter, Status};
use tests::adt::{message, pid, pv1};
use tests::http;
use tests::scene::{Scene, Settings, accept, identifies, sandbox, until};

/// Admission of a patient to a visit; the clock is the minute of one morning.
fn admission(n: usize, minute: usize, family: &str) -> String {
    let clock = format!("20240402{:02}{:02}00", 8 + minute / 60, minute % 60);
    message(
        "A01^ADT_A01",
        &format!("D{n}-{minute}-{family}"),
        &clock,
        &[
            &pid(&format!("DM-{n}"), &format!("{family}^Dana||19811231|F|||Ring 1^^Hof^^95028")),
            &pv1(&format!("DV-{n}"), "4E^2^B^NORTH", "777^Doc^Dee^^^^^^NORTH", "20240402080000"),
        ],
    )
}

fn family(patient: &Json) -> String {
    let name = patient.get("name").and_then(|n| n.items().first()?.get("family")?.as_str());
    name.unwrap_or_default().to_owned()
}

fn id(resource: &Json) -> String {
    resource.get("id").and_then(Json::as_str).expect("an id").to_owned()
}

/// What somebody else does to a resource over the API.
async fn put(scene: &Scene, resource: &Json) {
    let kind = resource.resource_type().expect("a type");
    let url = format!("{}/{kind}/{}", scene.server.base_url, id(resource));
    let request = http::client().put(url).header("content-type", "application/fhir+json");
    let answer = request.body(resource.to_string()).send().await.expect("the sandbox answers");
    assert!(answer.status().is_success(), "{}", answer.status());
}

fn with(mut resource: Json, element: &str, value: Json) -> Json {
    resource.as_object_mut().expect("a resource").insert(element.into(), value);
    resource
}

async fn parked_subjects(scene: &Scene) -> Vec<store::ParkedSubject> {
    scene.gateway.store.parked_subjects(None, 100).await.expect("the store lists")
}

/// Everything on the server is there once, and says what the messages said.
fn assert_once(scene: &Scene, patients: usize) {
    assert_eq!(scene.resources("Patient").len(), patients);
    assert_eq!(scene.resources("Encounter").len(), patients);
    assert_eq!(scene.resources("Practitioner").len(), 1, "the doctor is shared");
    for n in 0..patients {
        scene.resource("Patient", &format!("DM-{n}"));
        scene.resource("Encounter", &format!("DV-{n}"));
    }
}

/// Writes of another system between two messages: ours win where we speak, theirs stay where we don't.
async fn someone_else_writes(profile: Profile) {
    let scene = Scene::with(Settings::default(), profile).await;
    scene.accept(&[admission(0, 0, "First")]).await;
    scene.drained().await;
    let patient = scene.resource("Patient", "DM-0");
    let theirs = with(patient, "maritalStatus", Json::object([("text", Json::from("by another system"))]));
    let theirs = with(theirs, "gender", Json::from("other"));
    put(&scene, &theirs).await;
    scene.accept(&[admission(0, 1, "Second")]).await;
    scene.drained().await;
    let patient = scene.resource("Patient", "DM-0");
    assert_eq!(family(&patient), "Second");
    assert_eq!(patient.get("gender").and_then(Json::as_str), Some("female"), "our element wins");
    assert!(patient.get("maritalStatus").is_some(), "theirs stays");
    assert!(scene.alerts("FHIR_CONFLICT") >= 1);
    assert!(parked_subjects(&scene).await.is_empty());
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f5_412_after_somebody_elses_write() {
    someone_else_writes(Profile::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_409_is_the_same_as_412() {
    someone_else_writes(Profile { answers_409_for_412: true, ..Profile::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f5_what_is_there_before_the_first_contact_stays() {
    let scene = Scene::start().await;
    let there = r#"{"resourceType":"Patient","id":"x","identifier":[{"system":"urn:id:NORTH","value":"DM-0"}],
        "photo":[{"title":"theirs"}],"name":[{"family":"Old"}]}"#;
    put(&scene, &Json::parse(there).expect("JSON")).await;
    scene.accept(&[admission(0, 0, "New")]).await;
    scene.drained().await;
    let patient = scene.resource("Patient", "DM-0");
    assert_eq!((id(&patient).as_str(), family(&patient).as_str()), ("x", "New"));
    assert!(patient.get("photo").is_some());
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f7_5xx_is_nobodys_fault_and_drains_in_order() {
    let scene = Scene::start().await;
    scene.accept(&[admission(0, 0, "Warm")]).await;
    scene.drained().await;
    let failure = |times, retry_after_s| Some(Failure { status: 503, times, retry_after_s });
    scene.sandbox().set_profile(|p| p.fails_with = failure(u32::MAX, None));
    for minute in 1..8 {
        scene.accept(&[admission(0, minute, &format!("At{minute}")), admission(1, minute, "Other")]).await;
    }
    let refused = scene.sandbox().counters().refusals;
    until("the server was tried again", async || scene.sandbox().counters().refusals > refused + 3).await;
    assert_eq!(scene.pending().await, 14, "kept, visible");
    assert!(parked_subjects(&scene).await.is_empty());
    assert!(scene.alerts("FHIR_UNAVAILABLE") >= 1);
    scene.sandbox().set_profile(|p| p.fails_with = failure(2, Some(1)));
    scene.drained().await;
    assert_eq!(family(&scene.resource("Patient", "DM-0")), "At7");
    assert_once(&scene, 2);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f7_a_server_that_is_away_at_the_start() {
    let server = sandbox(Profile::default()).await;
    let address = server.base_url.trim_start_matches("http://").trim_end_matches("/fhir").to_owned();
    server.stop().await;
    let address = address.parse().expect("an address");
    let messages: Vec<String> = (0..5).map(|n| admission(n, n, "Early")).collect();
    let scene = Scene::before_server(address, async |gateway| {
        accept(gateway, &messages).await;
        let counts = gateway.store.counts().await.expect("the store counts");
        assert_eq!(counts.statuses.get(&Status::Pending), Some(&5));
    })
    .await;
    scene.drained().await;
    assert_once(&scene, 5);
    scene.stop().await;
}

/// An answer that does not say what happened: read back, and nothing is there twice.
async fn unknown_outcome(spoil: impl Fn(&mut Profile)) {
    for ownership in ["shared", "exclusive"] {
        let settings = Settings { fhir: format!("ownership = \"{ownership}\""), ..Settings::default() };
        let scene = Scene::with(settings, Profile::default()).await;
        scene.accept(&[admission(0, 0, "Warm")]).await;
        scene.drained().await;
        for (n, minute) in [(1, 1), (0, 2), (1, 3), (2, 4)] {
            scene.sandbox().set_profile(&spoil);
            scene.accept(&[admission(n, minute, &format!("At{minute}"))]).await;
            scene.drained().await;
        }
        assert_once(&scene, 3);
        assert_eq!(family(&scene.resource("Patient", "DM-0")), "At2");
        assert_eq!(family(&scene.resource("Patient", "DM-1")), "At3");
        let provenances = scene.resources("Provenance").len();
        assert_eq!(provenances, 5, "one for each message");
        assert!(parked_subjects(&scene).await.is_empty());
        let writes = scene.sandbox().counters().writes();
        scene.accept(&[admission(0, 2, "At2").replace('\r', "\r\n")]).await;
        scene.drained().await;
        assert_eq!(scene.sandbox().counters().writes(), writes);
        scene.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_reset_after_the_server_applied() {
    unknown_outcome(|p| p.resets_after_apply = 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_truncated_answers() {
    unknown_outcome(|p| p.truncates_body = 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_html_instead_of_an_error_parks_nothing() {
    let scene = Scene::start().await;
    scene.accept(&[admission(0, 0, "Warm")]).await;
    scene.drained().await;
    let patient = scene.resource("Patient", "DM-0");
    put(&scene, &with(patient, "gender", Json::from("other"))).await;
    // The version conflict comes as a page.
    scene.sandbox().set_profile(|p| p.returns_html_errors = 2);
    scene.accept(&[admission(0, 1, "Paged")]).await;
    scene.drained().await;
    assert_eq!(family(&scene.resource("Patient", "DM-0")), "Paged");
    assert_once(&scene, 1);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_credentials_stop_writing_and_park_nothing() {
    let scene = Scene::start().await;
    scene.accept(&[admission(0, 0, "Warm")]).await;
    scene.drained().await;
    scene.sandbox().set_profile(|p| p.fails_with = Some(Failure { status: 401, times: u32::MAX, retry_after_s: None }));
    scene.accept(&[admission(0, 1, "Locked"), admission(1, 1, "Out")]).await;
    until("the alert", async || scene.alerts("FHIR_UNAUTHORIZED") >= 1).await;
    let requests = scene.sandbox().counters().requests;
    // Traffic goes on meanwhile, and must not keep writing from being tried again.
    let mut minute = 2;
    until("writing is tried again under traffic", async || {
        scene.accept(&[admission(0, minute, "Traffic")]).await;
        minute = (minute + 1) % 900;
        scene.sandbox().counters().requests >= requests + 3
    })
    .await;
    assert!(scene.sandbox().counters().requests < requests + 60, "not once a message");
    assert!(parked_subjects(&scene).await.is_empty());
    scene.sandbox().set_profile(|p| p.fails_with = None);
    scene.drained().await;
    assert_once(&scene, 2);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_bundle_parks_its_subject_and_no_other_and_a_retry_frees_it() {
    let scene = Scene::start().await;
    // Two patients have the number: which is meant, nobody can say (412 on several matches).
    let twin = r#"{"resourceType":"Patient","id":"ID","identifier":[{"system":"urn:id:NORTH","value":"DM-0"}]}"#;
    for twin_id in ["t1", "t2"] {
        put(&scene, &Json::parse(&twin.replace("ID", twin_id)).expect("JSON")).await;
    }
    scene.accept(&[admission(0, 0, "Several"), admission(0, 1, "Held")]).await;
    until("the subject is parked", async || !parked_subjects(&scene).await.is_empty()).await;
    let parked = parked_subjects(&scene).await.remove(0);
    assert_eq!(parked.code, "FHIR_MULTIPLE_MATCHES");
    assert!(!parked.summary.contains("DM-0"), "no identifier in {}", parked.summary);
    scene.accept(&[admission(1, 2, "Goes"), admission(2, 3, "On")]).await;
    until("others go on", async || scene.pending().await == 2).await;
    scene.resource("Encounter", "DV-1");
    scene.resource("Encounter", "DV-2");
    // Somebody takes the number off one of them.
    put(&scene, &Json::parse(r#"{"resourceType":"Patient","id":"t2","active":false}"#).expect("JSON")).await;
    let filter = ParkedFilter { code: Some(parked.code), ..ParkedFilter::default() };
    scene.gateway.store.retry_parked(&filter, std::time::SystemTime::now()).await.expect("the store frees it");
    scene.drained().await;
    let patient = scene.resource("Patient", "DM-0");
    assert_eq!((id(&patient).as_str(), family(&patient).as_str()), ("t1", "Held"));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_422_parks_with_what_the_server_said() {
    let scene = Scene::start().await;
    scene.accept(&[admission(0, 0, "Warm")]).await;
    scene.drained().await;
    scene.sandbox().set_profile(|p| p.fails_with = Some(Failure { status: 422, times: 1, retry_after_s: None }));
    scene.accept(&[admission(0, 1, "Refused")]).await;
    until("the subject is parked", async || !parked_subjects(&scene).await.is_empty()).await;
    assert_eq!(parked_subjects(&scene).await[0].code, "FHIR_REFUSED");
    // What follows of the subject waits; others do not.
    scene.accept(&[admission(0, 2, "Behind"), admission(1, 3, "Free")]).await;
    until("the other is delivered", async || scene.pending().await == 2).await;
    let statuses: Vec<Status> = scene.trace("D0-2-Behind").await.messages.iter().map(|m| m.status).collect();
    assert_eq!(statuses, [Status::Pending]);
    assert_eq!(family(&scene.resource("Patient", "DM-0")), "Warm");
    scene.gateway.store.retry_parked(&ParkedFilter::default(), std::time::SystemTime::now()).await.expect("freed");
    scene.drained().await;
    assert_eq!(family(&scene.resource("Patient", "DM-0")), "Behind");
    assert_once(&scene, 2);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_someone_deleted_is_made_again() {
    let scene = Scene::start().await;
    scene.accept(&[admission(0, 0, "Warm")]).await;
    scene.drained().await;
    let encounter = scene.resource("Encounter", "DV-0");
    let url = format!("{}/Encounter/{}", scene.server.base_url, id(&encounter));
    http::client().delete(url).send().await.expect("the sandbox answers");
    assert!(scene.resources("Encounter").is_empty());
    let transfer = admission(0, 1, "Warm").replacen("A01^ADT_A01", "A02^ADT_A02", 1).replacen("4E^2^B", "5W^1^A", 1);
    scene.accept(&[transfer]).await;
    scene.drained().await;
    let again = scene.resource("Encounter", "DV-0");
    assert!(identifies(&again, "DV-0"));
    assert_once(&scene, 1);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f4_servers_that_deviate_end_up_the_same() {
    let messages: Vec<String> = (0..12).map(|i| admission(i % 3, i, &format!("Name{}", i % 4))).collect();
    let mut states = Vec::new();
    for profile in [
        Profile::default(),
        Profile { refuses_client_ids: true, ..Profile::default() },
        Profile { ignores_if_match: true, ..Profile::default() },
        Profile { resolves_entries_in_order: true, ..Profile::default() },
        Profile { skips_identical_updates: true, ..Profile::default() },
        Profile { stale_search: 3, ..Profile::default() },
    ] {
        let scene = Scene::with(Settings::default(), profile).await;
        scene.accept(&messages).await;
        scene.drained().await;
        assert!(parked_subjects(&scene).await.is_empty());
        assert_once(&scene, 3);
        states.push(scene.state());
        scene.stop().await;
    }
    for state in &states[1..] {
        assert_eq!(*state, states[0]);
    }
}
