//! Reading what the server holds: one batch of reads and searches (R4 §3.1.0.11.1). Identifiers travel in its body.

use std::collections::BTreeMap;

use fhir::bundle::{Bundle, BundleType, Entry, Method, Request};
use fhir::{Json, OperationOutcome, ResourceKey};
use smol_str::{SmolStr, format_smolstr};

use crate::Writer;
use crate::answer::version;
use crate::config::Identity;
use crate::error::{LookupError, Reason};
use crate::http::{Answer, Http, NoAnswer};
use crate::matching::{Element, carries, client_id, criteria, is_odd};

/// Questions in one batch; more are asked in further batches.
const QUESTIONS_MAX: usize = 100;

/// What the server holds for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing, or nothing any more.
    Absent,
    /// This resource.
    One(Remote),
    /// Several, by their `Type/id`: a person has to decide.
    Several(Vec<SmolStr>),
}

/// A resource as the server holds it.
#[derive(Clone, PartialEq, Eq)]
pub struct Remote {
    /// `Type/id`
    pub server_id: SmolStr,
    /// Its version, as for `ifMatch`.
    pub etag: Option<SmolStr>,
    /// The resource.
    pub resource: Json,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Remote({}, {})", self.server_id, self.etag.as_deref().unwrap_or("-"))
    }
}

impl Remote {
    pub(crate) fn of(resource: Json) -> Option<Self> {
        let id = resource.get("id").and_then(Json::as_str)?;
        let server_id = format_smolstr!("{}/{id}", resource.resource_type()?);
        let version = resource.get("meta").and_then(|meta| meta.get("versionId")).and_then(Json::as_str);
        let etag = version.map(|version| format_smolstr!("W/\"{version}\""));
        Some(Self { server_id, etag, resource })
    }
}

/// A resource to look for: by its id on the server where that is known, else by its key.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// Its key.
    pub key: &'q ResourceKey,
    /// `Type/id`
    pub server_id: Option<&'q str>,
}

impl Writer {
    /// Reads what the server holds for each question, by `fullUrl` of its key.
    pub async fn lookup(&self, questions: &[Question<'_>]) -> Result<BTreeMap<SmolStr, Found>, LookupError> {
        let mut found = BTreeMap::new();
        for questions in questions.chunks(QUESTIONS_MAX) {
            let urls: Vec<SmolStr> = questions.iter().map(|question| self.url(*question)).collect();
            let answers = ask(&self.http, urls).await?;
            for (question, answer) in questions.iter().zip(answers) {
                found.insert(question.key.full_url(), read(*question, answer)?);
            }
        }
        Ok(found)
    }

    /// Whether the resource is first written under an id of ours, because the server cannot find it by its key.
    pub(crate) fn chooses_id(&self, key: &ResourceKey) -> bool {
        let can = &self.capabilities;
        self.config.identity == Identity::Client
            || (Element::of(&key.resource_type) == Element::Tag && !can.tag_matching)
            || (is_odd(key) && !can.odd_identifiers)
            || (can.client_ids && !can.finds_by_identifier(&key.resource_type))
    }

    fn url(&self, question: Question<'_>) -> SmolStr {
        let resource_type = &question.key.resource_type;
        match question.server_id {
            Some(server_id) => server_id.into(),
            None if self.chooses_id(question.key) => {
                format_smolstr!("{resource_type}/{}", client_id(&question.key.full_url()))
            }
            None => format_smolstr!("{resource_type}?{}", criteria(question.key)),
        }
    }
}

/// Asks in one batch.
pub(crate) async fn ask(http: &Http, urls: Vec<SmolStr>) -> Result<Vec<Entry>, LookupError> {
    if urls.is_empty() {
        return Ok(Vec::new());
    }
    let mut batch = Bundle::new(BundleType::Batch);
    batch.entries = urls.into_iter().map(|url| Entry::ask(Request::new(Method::Get, url))).collect();
    let answer = http.post(&batch).await.map_err(unavailable)?;
    answers(answer, batch.entries.len())
}

fn unavailable(lost: NoAnswer) -> LookupError {
    LookupError::Unavailable { reason: lost.reason(), retry_after: None }
}

fn answers(answer: Answer, expected: usize) -> Result<Vec<Entry>, LookupError> {
    let Answer { status, retry_after, body } = answer;
    let unavailable = |reason| Err(LookupError::Unavailable { reason, retry_after });
    match status {
        200..=299 => {}
        401 | 403 => return Err(LookupError::Unauthorized { status }),
        400 | 404..=407 | 409..=428 | 430..=499 => {
            let Some(outcome) = body.ok().and_then(|body| OperationOutcome::from_json(&body)) else {
                return unavailable(Reason::Status(status));
            };
            return Err(LookupError::Refused { status, outcome: Some(Box::new(outcome)) });
        }
        _ => return unavailable(Reason::Status(status)),
    }
    let bundle = match body.map(Bundle::from_json) {
        Ok(Ok(bundle)) => bundle,
        Ok(Err(_)) => return unavailable(Reason::NotAnAnswer),
        Err(reason) => return unavailable(reason),
    };
    if bundle.bundle_type != BundleType::BatchResponse || bundle.entries.len() != expected {
        return unavailable(Reason::NotAnAnswer);
    }
    Ok(bundle.entries)
}

pub(crate) fn read(question: Question<'_>, entry: Entry) -> Result<Found, LookupError> {
    let response = entry.response.unwrap_or_default();
    match response.status_code() {
        Some(200..=299) => {}
        Some(404 | 410) => return Ok(Found::Absent),
        Some(status @ (401 | 403)) => return Err(LookupError::Unauthorized { status }),
        Some(status @ (400 | 405..=428)) => {
            let outcome = response.outcome.as_ref().and_then(OperationOutcome::from_json).map(Box::new);
            return Err(LookupError::Refused { status, outcome });
        }
        status => {
            let reason = status.map_or(Reason::NotAnAnswer, Reason::Status);
            return Err(LookupError::Unavailable { reason, retry_after: None });
        }
    }
    let not_an_answer = LookupError::Unavailable { reason: Reason::NotAnAnswer, retry_after: None };
    let Some(resource) = entry.resource else { return Err(not_an_answer) };
    if resource.resource_type() == Some("Bundle") && question.key.resource_type != "Bundle" {
        return searched(question.key, resource).ok_or(not_an_answer);
    }
    let mut remote = Remote::of(resource).ok_or(not_an_answer)?;
    remote.etag = version(&response).or(remote.etag);
    Ok(Found::One(remote))
}

/// Reads a searchset. Only what carries the key counts: there are servers that ignore a parameter they do not know.
fn searched(key: &ResourceKey, searchset: Json) -> Option<Found> {
    let bundle = Bundle::from_json(searchset).ok().filter(|bundle| bundle.bundle_type == BundleType::Searchset)?;
    let matches = bundle.entries.into_iter().filter_map(|entry| entry.resource).filter(|found| carries(found, key));
    let mut matches: Vec<Json> = matches.collect();
    Some(match matches.len() {
        0 => Found::Absent,
        1 => Found::One(Remote::of(matches.pop()?)?),
        _ => Found::Several(matches.into_iter().filter_map(Remote::of).map(|remote| remote.server_id).collect()),
    })
}
