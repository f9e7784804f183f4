//! Batches (R4 §3.1.0.11.1), and what batches and transactions are answered with.

use fhir::Json;

use crate::engine::Engine;
use crate::outcome::Refusal;
use crate::request::{Answer, Method, Prefer, Request};

impl Engine {
    /// A Bundle posted to the base URL.
    pub(crate) fn bundle(&mut self, request: &Request) -> Result<Answer, Refusal> {
        let bundle = request.resource_of("Bundle").inspect_err(|_| self.counters.refusals += 1)?;
        match bundle.get("type").and_then(Json::as_str) {
            Some("transaction") => self.transaction(&bundle, request.prefer),
            Some("batch") => Ok(self.batch(&bundle, request.prefer)),
            _ => {
                self.counters.refusals += 1;
                Err(Refusal::invalid("Bundle.type is neither transaction nor batch"))
            }
        }
    }

    /// Each entry by itself.
    fn batch(&mut self, bundle: &Json, prefer: Prefer) -> Answer {
        self.counters.batches += 1;
        let mut responses = Vec::new();
        for entry in entries(bundle) {
            let request = Request::from_entry(entry, &self.base_url, prefer);
            let response = match request {
                Ok(request) => match self.perform(&request) {
                    Ok(answer) => response_entry(&self.base_url, &request, answer),
                    Err(refusal) => refused_entry(&refusal),
                },
                Err(refusal) => {
                    self.counters.refusals += 1;
                    refused_entry(&refusal)
                }
            };
            responses.push(response);
        }
        Answer::of(response_bundle("batch-response", responses))
    }
}

/// The entries of a bundle.
pub(crate) fn entries(bundle: &Json) -> &[Json] {
    bundle.get("entry").map_or(&[], Json::items)
}

pub(crate) fn response_bundle(kind: &str, entries: Vec<Json>) -> Json {
    let mut bundle = vec![("resourceType", Json::from("Bundle")), ("type", Json::from(kind))];
    if !entries.is_empty() {
        bundle.push(("entry", Json::Array(entries)));
    }
    Json::object(bundle)
}

/// R4 §2.36.1 Bundle.entry.response. What was read is in it; what was written only if the client prefers so.
pub(crate) fn response_entry(base_url: &str, request: &Request, answer: Answer) -> Json {
    let mut response = vec![("status", Json::string(status_line(answer.status)))];
    if let Some(about) = &answer.about {
        response.push(("etag", Json::String(about.etag())));
        response.push(("lastModified", Json::string(format!("{:.3}", about.last_updated))));
        if request.method != Method::Get {
            response.push(("location", Json::string(format!("{base_url}/{}", about.location()))));
        }
    }
    let mut entry = vec![("response", Json::object(response))];
    let wanted = answer.about.is_none() || request.method == Method::Get || request.prefer == Prefer::Representation;
    entry.extend(answer.body.filter(|_| wanted).map(|body| ("resource", body)));
    Json::object(entry)
}

fn refused_entry(refusal: &Refusal) -> Json {
    let response = [("status", Json::string(status_line(refusal.status))), ("outcome", refusal.operation_outcome())];
    Json::object([("response", Json::object(response))])
}

/// `201 Created`.
fn status_line(status: u16) -> String {
    let code = axum::http::StatusCode::from_u16(status).ok();
    match code.and_then(|code| code.canonical_reason()) {
        Some(reason) => format!("{status} {reason}"),
        None => status.to_string(),
    }
}
