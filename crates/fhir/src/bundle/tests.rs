//! Bundles as a whole: one fault each, reading and writing.

use super::*;
use crate::check::CheckIssue;

const PATIENT: &str = "urn:uuid:00000000-0000-4000-8000-000000000001";
const ENCOUNTER: &str = "urn:uuid:00000000-0000-4000-8000-000000000002";

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn patient() -> Json {
    json(r#"{"resourceType":"Patient","identifier":[{"system":"urn:oid:1.2","value":"7"}]}"#)
}

fn encounter() -> Json {
    json(&format!(
        r#"{{"resourceType":"Encounter","status":"planned","class":{{"code":"x"}},"subject":{{"reference":"{PATIENT}"}}}}"#
    ))
}

fn good() -> Bundle {
    Bundle::transaction(vec![
        Entry::write(ENCOUNTER, encounter(), Request::conditional_create("Encounter", "identifier=a|1")),
        Entry::write(PATIENT, patient(), Request::conditional_update("Patient", "identifier=urn:oid:1.2%7C7")),
    ])
}

/// The issues of a bundle with a fault; the same for the bundle as JSON.
fn issues(fault: impl FnOnce(&mut Bundle)) -> Vec<String> {
    let mut bundle = good();
    fault(&mut bundle);
    let issues = bundle.check();
    assert_eq!(check_bundle(&bundle.to_json()), issues);
    issues.iter().map(ToString::to_string).collect()
}

fn requested(request: Request) -> Vec<String> {
    issues(|bundle| bundle.entries[0].request = Some(request))
}

#[test]
fn a_good_bundle_has_no_issues_and_its_patient_first() {
    assert_eq!(issues(|_| ()), Vec::<String>::new());
    assert_eq!(good().entries[0].resource_type(), Some("Patient"));
}

#[test]
fn entries_fit_one_another() {
    assert_eq!(issues(|b| b.entries[1].request = None), ["BUNDLE Bundle.entry[1]: bdl-3: a request is required"]);
    assert_eq!(
        issues(|b| b.entries[1].response = Some(Response { status: "200".into(), ..Response::default() })),
        ["BUNDLE Bundle.entry[1]: bdl-4: no response in a bundle of this type"]
    );
    assert_eq!(
        issues(|b| b.entries[1].full_url = Some(PATIENT.into())),
        ["BUNDLE Bundle.entry[1].fullUrl: bdl-7: the fullUrl of entry 0 again"]
    );
    let dangling = issues(|b| b.entries[0].full_url = Some("urn:uuid:00000000-0000-4000-8000-000000000009".into()));
    assert_eq!(dangling, ["REFERENCE Bundle.entry[1].resource.subject.reference: no entry has this fullUrl"]);
    let wrong_type = issues(|b| {
        b.entries[0].full_url = Some(ENCOUNTER.into());
        b.entries[1].full_url = Some(PATIENT.into());
    });
    assert_eq!(wrong_type, ["REFERENCE Bundle.entry[1].resource.subject: must lead to Group or Patient"]);
    let again = issues(|b| {
        let request = Request::conditional_update("Patient", "identifier=urn%3Aoid%3A1.2|7");
        b.entries.push(Entry { resource: Some(patient()), request: Some(request), ..Entry::default() });
    });
    assert_eq!(again, ["BUNDLE Bundle.entry[2].request: the target of entry 0 again"]);
}

#[test]
fn full_urls_are_absolute_and_agree_with_ids() {
    let named = |url: &str, id: &str| {
        issues(|b| {
            b.entries.truncate(1);
            b.entries[0].full_url = Some(url.into());
            b.entries[0].request = Some(Request::update("Patient", id));
            let members = b.entries[0].resource.as_mut().and_then(Json::as_object_mut);
            members.unwrap().insert("id".into(), id.into());
        })
    };
    assert_eq!(named("https://x.org/fhir/Patient/7", "7"), Vec::<String>::new());
    assert_eq!(named("Patient/7", "7"), ["BUNDLE Bundle.entry[0].fullUrl: a fullUrl is absolute"]);
    assert_eq!(
        named("https://x.org/Patient/8", "7"),
        ["BUNDLE Bundle.entry[0].fullUrl: another id than the resource's"]
    );
    assert_eq!(
        named("https://x.org/Patient/7/_history/1", "7"),
        ["BUNDLE Bundle.entry[0].fullUrl: bdl-8: a fullUrl names no version"]
    );
}

#[test]
fn requests_fit_their_resources() {
    let put = |url: &str| Request::new(Method::Put, url);
    for (request, message) in [
        (put("Observation?x=1"), "url and resource have different types"),
        (put("Patient"), "the url of a PUT is Type/id or Type?criteria"),
        (put("Patient/7"), "the resource's id is the url's"),
        (put("Patient?"), "the criteria are missing"),
        (Request::new(Method::Post, "Patient/7"), "the url of a POST is a resource type"),
        (Request::new(Method::Delete, "Patient/7"), "no resource for this method"),
        (Request { if_none_exist: Some("a=b".into()), ..put("Patient?a=b") }, "ifNoneExist is for POST"),
        (Request::new(Method::Post, "Patient").if_match("1"), "ifMatch is for PUT, PATCH and DELETE"),
        (Request { if_match: Some("3".into()), ..put("Patient?a=b") }, "ifMatch is an ETag such as W/\"1\""),
    ] {
        assert_eq!(requested(request), [format!("BUNDLE Bundle.entry[0].request: {message}")]);
    }
    assert_eq!(requested(put("Patient?a=b").if_match("1")), Vec::<String>::new());
    let asks = issues(|b| b.entries.push(Entry::ask(Request::new(Method::Get, "Patient?a=b"))));
    assert_eq!(asks, Vec::<String>::new());
    let no_resource = issues(|b| b.entries.push(Entry::ask(Request::new(Method::Put, "Location/1"))));
    assert_eq!(no_resource, ["BUNDLE Bundle.entry[2].request: a resource is required for this method"]);
}

#[test]
fn json_that_is_no_bundle_is_said_to_be_none() {
    assert_eq!(check_bundle(&patient()).len(), 1);
    assert_eq!(Bundle::from_json(patient()), Err(BundleFault::NotABundle));
    assert_eq!(Bundle::from_json(json(r#"{"resourceType":"Bundle"}"#)), Err(BundleFault::UnknownType));
    let read = |entry: &str| {
        Bundle::from_json(json(&format!(r#"{{"resourceType":"Bundle","type":"batch","entry":[{entry}]}}"#)))
    };
    assert_eq!(read(r#"{"request":{"method":"put","url":"x"}}"#), Err(BundleFault::Entry(0, "request")));
    assert_eq!(read(r#"{"response":{"etag":"x"}}"#), Err(BundleFault::Entry(0, "response")));
    assert_eq!(read("1"), Err(BundleFault::Entry(0, "entry")));
    let codes = |text: &str| -> Vec<String> {
        check_bundle(&json(text)).iter().map(|i: &CheckIssue| format!("{} {}", i.code, i.path)).collect()
    };
    assert_eq!(
        codes(
            r#"{"resourceType":"Bundle","type":"collection","timestamp":"2020-01-01T10:00:00","entry":[{"resource":{"resourceType":"Basic","code":{"text":"x"}}}]}"#
        ),
        ["FORMAT Bundle.timestamp"]
    );
    assert_eq!(
        codes(r#"{"resourceType":"Bundle","type":"batch","entry":[{"request":{"method":"SEND","url":"Patient"}}]}"#),
        ["CODE Bundle.entry[0].request.method"]
    );
}

#[test]
fn reads_what_it_writes() {
    let mut bundle = good();
    bundle.entries[0].request = Some(Request::update("Patient", "7").if_match("3"));
    bundle.entries.push(Entry::default());
    bundle.entries.push(Entry {
        response: Some(Response {
            status: "201 Created".into(),
            location: Some("Patient/7/_history/2".into()),
            etag: Some("W/\"2\"".into()),
            last_modified: Some("2020-01-01T10:00:00Z".into()),
            outcome: Some(json(r#"{"resourceType":"OperationOutcome"}"#)),
        }),
        ..Entry::default()
    });
    let json = bundle.to_json();
    assert_eq!(bundle.to_text(), json.to_string());
    assert_eq!(Json::parse(&bundle.to_text()).unwrap(), json);
    assert_eq!(Bundle::from_json(json).unwrap(), bundle);
    let empty = Bundle::new(BundleType::Batch);
    assert_eq!(
        (empty.to_text(), empty.to_text()),
        (empty.to_json().to_string(), r#"{"resourceType":"Bundle","type":"batch"}"#.to_owned())
    );
}

#[test]
fn answers_say_what_was_written() {
    let response = |status: &str, location: &str, etag: Option<&str>| Response {
        status: status.into(),
        location: Some(location.into()),
        etag: etag.map(Into::into),
        ..Response::default()
    };
    let created = response("201 Created", "https://x.org/fhir/Patient/7/_history/2", Some("W/\"3\""));
    assert_eq!(
        (created.status_code(), created.resource(), created.version_id()),
        (Some(201), Some(("Patient", "7")), Some("3"))
    );
    let bare = response("200", "Patient/7/_history/2", None);
    assert_eq!((bare.status_code(), bare.version_id()), (Some(200), Some("2")));
    let odd = response("é", "nowhere", None);
    assert_eq!((odd.status_code(), odd.resource(), odd.version_id()), (None, None, None));
}

#[test]
fn debug_shows_no_content() {
    let shown = format!("{:?}", good());
    assert!(shown.contains("Entry(Patient, PUT Patient)"), "{shown}");
    assert!(!shown.contains("1.2") && !shown.contains("identifier"), "{shown}");
}
