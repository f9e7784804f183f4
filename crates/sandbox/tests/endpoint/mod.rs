//! Calls the sandbox's router without a socket.

#![allow(dead_code, reason = "each test binary uses its own part")]

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request};
use fhir::Json;
use fhir::check::check;
use sandbox::{Profile, Sandbox};
use tower::ServiceExt as _;

pub(crate) const BASE: &str = "http://sandbox.test/fhir";
pub(crate) const MRN: &str = "urn:oid:1.2.36.146.595.217.0.1";

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Json {
        Json::parse(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// `OperationOutcome.issue.code`.
    pub(crate) fn issue(&self) -> String {
        let outcome = self.json();
        assert_eq!(outcome.resource_type(), Some("OperationOutcome"));
        text(&outcome, "issue.0.code")
    }
}

pub(crate) fn sandbox() -> Sandbox {
    Sandbox::new(BASE, Profile::default())
}

pub(crate) async fn call(sandbox: &Sandbox, method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let mut request = Request::builder().method(method).uri(url);
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", "application/fhir+json");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let response = sandbox.router().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    // Whatever the sandbox says is R4 itself.
    if let (Ok(answer), false) = (Json::parse(&text), sandbox.profile().accepts_invalid) {
        assert_eq!(check(&answer), [], "{method} {url}");
    }
    Reply { status: parts.status.as_u16(), headers: parts.headers, text }
}

pub(crate) async fn get(sandbox: &Sandbox, url: &str) -> Reply {
    call(sandbox, "GET", url, &[], "").await
}

pub(crate) async fn put(sandbox: &Sandbox, url: &str, body: &str) -> Reply {
    call(sandbox, "PUT", url, &[], body).await
}

pub(crate) async fn post(sandbox: &Sandbox, url: &str, body: &str) -> Reply {
    call(sandbox, "POST", url, &[], body).await
}

/// The text at a path of names and numbers, `""` if there is none.
pub(crate) fn text(json: &Json, path: &str) -> String {
    let found = path.split('.').try_fold(json, |json, step| match step.parse::<usize>() {
        Ok(number) => json.items().get(number),
        Err(_) => json.get(step),
    });
    match found {
        Some(Json::String(text) | Json::Number(text)) => text.to_string(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

/// A Patient with a record number and a family name.
pub(crate) fn patient(mrn: &str, family: &str) -> String {
    format!(
        r#"{{"resourceType":"Patient","identifier":[{{"system":"{MRN}","value":"{mrn}"}}],"name":[{{"family":"{family}"}}]}}"#
    )
}

/// `Patient?identifier=…` of that number.
pub(crate) fn by_mrn(mrn: &str) -> String {
    format!("/Patient?identifier={MRN}|{mrn}")
}

/// An entry of a transaction; `request` is the inside of its request object.
pub(crate) fn entry(full_url: &str, request: &str, resource: &str) -> String {
    let resource = if resource.is_empty() { String::new() } else { format!(r#","resource":{resource}"#) };
    let full_url = if full_url.is_empty() { String::new() } else { format!(r#""fullUrl":"{full_url}","#) };
    format!(r#"{{{full_url}"request":{{{request}}}{resource}}}"#)
}

pub(crate) fn bundle(kind: &str, entries: &[String]) -> String {
    format!(r#"{{"resourceType":"Bundle","type":"{kind}","entry":[{}]}}"#, entries.join(","))
}
