//! Resources to write and servers to write them to.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use fhir::{Json, ResourceKey};
use sandbox::{Profile, Running, Sandbox};
use writer::{Config, Known, Ownership, Targets, TransactError, Write, Writer, Written};

pub(crate) const MRN: &str = "urn:oid:1.2.36.146.595.217.0.1";
pub(crate) const OWN: &str = "https://example.org/sluice";

pub(crate) const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

pub(crate) fn config(base_url: &str) -> Config {
    Config {
        own_systems: BTreeSet::from([OWN.into()]),
        request_timeout: Duration::from_secs(30),
        ..Config::new(base_url)
    }
}

pub(crate) async fn sandbox(profile: Profile) -> Running {
    Sandbox::start(ANY_PORT, profile).await.unwrap()
}

/// A sandbox and a writer to it.
pub(crate) async fn scene(ownership: Ownership) -> (Running, Writer) {
    let running = sandbox(Profile::default()).await;
    let writer = Writer::connect(Config { ownership, ..config(&running.base_url) }).await.unwrap();
    (running, writer)
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap_or_else(|fault| panic!("{fault}: {text}"))
}

pub(crate) fn key(resource_type: &str, system: &str, value: &str) -> ResourceKey {
    ResourceKey { resource_type: resource_type.into(), system: system.into(), value: value.into() }
}

pub(crate) fn patient(mrn: &str, family: &str) -> Write {
    let identifier = Json::object([("system", Json::from(MRN)), ("value", Json::string(mrn))]);
    let resource = Json::object([
        ("resourceType", Json::from("Patient")),
        ("identifier", Json::Array(vec![identifier])),
        ("name", Json::Array(vec![Json::object([("family", Json::from(family))])])),
    ]);
    Write { key: key("Patient", MRN, mrn), resource, known: None }
}

pub(crate) fn encounter(visit: &str, patient: &Write) -> Write {
    let resource = json(&format!(
        r#"{{"resourceType":"Encounter","identifier":[{{"system":"{OWN}","value":"{visit}"}}],"status":"in-progress",
        "class":{{"system":"http://terminology.hl7.org/CodeSystem/v3-ActCode","code":"IMP"}},
        "subject":{{"reference":"{}"}}}}"#,
        patient.key.full_url()
    ));
    Write { key: key("Encounter", OWN, visit), resource, known: None }
}

pub(crate) fn provenance(message: &str, targets: &[&Write]) -> Write {
    let targets: Vec<String> = targets.iter().map(|t| format!(r#"{{"reference":"{}"}}"#, t.key.full_url())).collect();
    let resource = json(&format!(
        r#"{{"resourceType":"Provenance","meta":{{"tag":[{{"system":"{OWN}","code":"{message}"}}]}},
        "recorded":"2024-05-01T12:00:00Z","target":[{}],"agent":[{{"who":{{"display":"interface engine"}}}}]}}"#,
        targets.join(",")
    ));
    Write { key: key("Provenance", OWN, message), resource, known: None }
}

pub(crate) async fn transact(writer: &Writer, wanted: &[&Write]) -> Result<Vec<Written>, TransactError> {
    let wanted: Vec<Write> = wanted.iter().map(|write| (*write).clone()).collect();
    writer.transact(&wanted, &Targets::new()).await
}

/// Writes, and remembers what the server then holds.
pub(crate) async fn settle(writer: &Writer, wanted: &mut [&mut Write]) {
    let asked: Vec<&Write> = wanted.iter().map(|write| &**write).collect();
    for written in transact(writer, &asked).await.unwrap() {
        let write = wanted.iter_mut().find(|write| write.key.full_url() == written.full_url).unwrap();
        write.known = Some(Known { server_id: written.server_id, etag: written.etag, foreign: written.foreign });
    }
}

/// The same, as if we had never heard of it.
pub(crate) fn forgotten(write: &Write) -> Write {
    Write { known: None, ..write.clone() }
}

/// The resource of a sandbox that `write` is about.
pub(crate) fn held(running: &Running, write: &Write) -> Json {
    let server_id = &write.known.as_ref().unwrap().server_id;
    let (resource_type, id) = server_id.split_once('/').unwrap();
    running.sandbox.resource(resource_type, id).unwrap()
}

/// Number of resources in a sandbox apart from the probe's.
pub(crate) fn count(running: &Running) -> usize {
    running.sandbox.resources().iter().filter(|resource| resource.resource_type() != Some("Basic")).count()
}
