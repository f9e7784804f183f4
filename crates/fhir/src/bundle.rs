//! Bundle (R4 §2.36 `Bundle`, §3.1.0.11 transactions): built to send, read when answered or searched.
//!
//! Here: the entries with their requests and responses, reading and writing. The order of entries: `order`. What must hold
//! between entries: `rules`. Not here: sending (the writer), and what an answer means. `Debug` shows no content.

mod order;
mod rules;
#[cfg(test)]
mod tests;

use std::fmt;

use smol_str::SmolStr;

use crate::json::{Json, Object};
use crate::references::Target;

pub use order::reference_order;
pub use rules::check_bundle;

/// Bundle.type (value set bundle-type).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the standard's codes")]
pub enum BundleType {
    Document,
    Message,
    Transaction,
    TransactionResponse,
    Batch,
    BatchResponse,
    History,
    Searchset,
    Collection,
}

const BUNDLE_TYPES: [(BundleType, &str); 9] = [
    (BundleType::Document, "document"),
    (BundleType::Message, "message"),
    (BundleType::Transaction, "transaction"),
    (BundleType::TransactionResponse, "transaction-response"),
    (BundleType::Batch, "batch"),
    (BundleType::BatchResponse, "batch-response"),
    (BundleType::History, "history"),
    (BundleType::Searchset, "searchset"),
    (BundleType::Collection, "collection"),
];

impl BundleType {
    /// The code.
    pub fn as_str(self) -> &'static str {
        BUNDLE_TYPES.iter().find(|(t, _)| *t == self).map_or("", |(_, code)| code)
    }

    fn parse(code: &str) -> Option<Self> {
        BUNDLE_TYPES.iter().find(|(_, c)| *c == code).map(|(t, _)| *t)
    }
}

/// Bundle.entry.request.method (value set http-verb).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the standard's codes")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Patch,
}

const METHODS: [(Method, &str); 6] = [
    (Method::Get, "GET"),
    (Method::Head, "HEAD"),
    (Method::Post, "POST"),
    (Method::Put, "PUT"),
    (Method::Delete, "DELETE"),
    (Method::Patch, "PATCH"),
];

impl Method {
    /// The code.
    pub fn as_str(self) -> &'static str {
        METHODS.iter().find(|(m, _)| *m == self).map_or("", |(_, code)| code)
    }

    /// The method of this code; case counts.
    pub fn parse(code: &str) -> Option<Self> {
        METHODS.iter().find(|(_, c)| *c == code).map(|(m, _)| *m)
    }
}

/// A bundle: its type and its entries. Links, totals, timestamps and signatures are not kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Bundle.type
    pub bundle_type: BundleType,
    /// Bundle.entry
    pub entries: Vec<Entry>,
}

/// Bundle.entry
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// The name other entries refer to it by; absolute.
    pub full_url: Option<SmolStr>,
    /// The resource sent or received.
    pub resource: Option<Json>,
    /// What to do with it (transaction, batch, history).
    pub request: Option<Request>,
    /// What became of it (responses).
    pub response: Option<Response>,
}

/// Bundle.entry.request
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// HTTP method.
    pub method: Method,
    /// Relative to the server's address: `Patient`, `Patient/7`, `Patient?identifier=…`.
    pub url: SmolStr,
    /// `W/"3"`: change this version only.
    pub if_match: Option<SmolStr>,
    /// `*` or an ETag.
    pub if_none_match: Option<SmolStr>,
    /// Criteria without `?`: create only if nothing matches.
    pub if_none_exist: Option<SmolStr>,
}

/// Bundle.entry.response
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// `201 Created`: begins with the status code.
    pub status: SmolStr,
    /// `Patient/7/_history/1`, perhaps with the server's address.
    pub location: Option<SmolStr>,
    /// `W/"1"`
    pub etag: Option<SmolStr>,
    /// An instant.
    pub last_modified: Option<SmolStr>,
    /// An OperationOutcome.
    pub outcome: Option<Json>,
}

/// A bundle can't be read. Names the element, never its content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleFault {
    /// It's something else.
    #[error("not a Bundle")]
    NotABundle,
    /// `Bundle.type` is missing or unknown.
    #[error("unknown Bundle.type")]
    UnknownType,
    /// An entry's request or response lacks what it must have.
    #[error("entry {0}: malformed {1}")]
    Entry(usize, &'static str),
}

impl Request {
    /// A request without conditions.
    pub fn new(method: Method, url: impl Into<SmolStr>) -> Self {
        Self { method, url: url.into(), if_match: None, if_none_match: None, if_none_exist: None }
    }

    /// `PUT Type/id`: update, or create under this id.
    pub fn update(resource_type: &str, id: &str) -> Self {
        Self::new(Method::Put, [resource_type, "/", id].concat())
    }

    /// `PUT Type?criteria`: conditional update (R4 §3.1.0.4.3).
    pub fn conditional_update(resource_type: &str, criteria: &str) -> Self {
        Self::new(Method::Put, [resource_type, "?", criteria].concat())
    }

    /// `POST Type` with ifNoneExist: conditional create (R4 §3.1.0.8.1).
    pub fn conditional_create(resource_type: &str, criteria: &str) -> Self {
        Self { if_none_exist: Some(criteria.into()), ..Self::new(Method::Post, resource_type) }
    }

    /// With `ifMatch` for a version id.
    #[must_use]
    pub fn if_match(self, version_id: &str) -> Self {
        Self { if_match: Some(["W/\"", version_id, "\""].concat().into()), ..self }
    }

    fn from_json(json: &Json) -> Option<Self> {
        Some(Self {
            method: Method::parse(json.get("method")?.as_str()?)?,
            url: text(json, "url")?,
            if_match: text(json, "ifMatch"),
            if_none_match: text(json, "ifNoneMatch"),
            if_none_exist: text(json, "ifNoneExist"),
        })
    }

    fn to_json(&self) -> Json {
        members([
            ("method", Some(self.method.as_str().into())),
            ("url", Some(self.url.clone())),
            ("ifMatch", self.if_match.clone()),
            ("ifNoneMatch", self.if_none_match.clone()),
            ("ifNoneExist", self.if_none_exist.clone()),
        ])
    }
}

impl Response {
    /// The HTTP status code that `status` begins with.
    pub fn status_code(&self) -> Option<u16> {
        self.status.get(..3)?.parse().ok()
    }

    /// Type and id from `location`.
    pub fn resource(&self) -> Option<(&str, &str)> {
        match Target::parse(self.location.as_deref()?)? {
            Target::Resource { resource_type, id, .. } => Some((resource_type, id)),
            _ => None,
        }
    }

    /// Version id from `etag`, or else from `location`.
    pub fn version_id(&self) -> Option<&str> {
        let quoted = self.etag.as_deref().map(|etag| etag.strip_prefix("W/").unwrap_or(etag));
        let version = quoted.map(|etag| etag.trim_matches('"')).filter(|version| !version.is_empty());
        version.or_else(|| Some(self.location.as_deref()?.split_once("/_history/")?.1))
    }

    fn from_json(json: &Json) -> Option<Self> {
        Some(Self {
            status: text(json, "status")?,
            location: text(json, "location"),
            etag: text(json, "etag"),
            last_modified: text(json, "lastModified"),
            outcome: json.get("outcome").cloned(),
        })
    }

    fn to_json(&self) -> Json {
        let mut json = members([
            ("status", Some(self.status.clone())),
            ("location", self.location.clone()),
            ("etag", self.etag.clone()),
            ("lastModified", self.last_modified.clone()),
        ]);
        if let (Some(object), Some(outcome)) = (json.as_object_mut(), &self.outcome) {
            object.insert("outcome".into(), outcome.clone());
        }
        json
    }
}

impl Entry {
    /// An entry that asks for something to be done with a resource.
    pub fn write(full_url: impl Into<SmolStr>, resource: Json, request: Request) -> Self {
        Self { full_url: Some(full_url.into()), resource: Some(resource), request: Some(request), response: None }
    }

    /// An entry that only asks: a search or read.
    pub fn ask(request: Request) -> Self {
        Self { request: Some(request), ..Self::default() }
    }

    /// `resourceType` of its resource.
    pub fn resource_type(&self) -> Option<&str> {
        self.resource.as_ref()?.resource_type()
    }
}

impl Bundle {
    /// An empty bundle.
    pub fn new(bundle_type: BundleType) -> Self {
        Self { bundle_type, entries: Vec::new() }
    }

    /// A transaction with its entries in reference order.
    pub fn transaction(entries: Vec<Entry>) -> Self {
        let mut bundle = Self { bundle_type: BundleType::Transaction, entries };
        bundle.sort();
        bundle
    }

    /// Reads a bundle. Requests and responses must be whole; resources are taken as they are.
    pub fn from_json(json: Json) -> Result<Self, BundleFault> {
        if json.resource_type() != Some("Bundle") {
            return Err(BundleFault::NotABundle);
        }
        let code = json.get("type").and_then(Json::as_str).unwrap_or_default();
        let mut bundle = Self::new(BundleType::parse(code).ok_or(BundleFault::UnknownType)?);
        let Json::Object(mut members) = json else { return Err(BundleFault::NotABundle) };
        let Some(Json::Array(entries)) = members.remove("entry") else { return Ok(bundle) };
        for (index, entry) in entries.into_iter().enumerate() {
            let Json::Object(mut entry) = entry else { return Err(BundleFault::Entry(index, "entry")) };
            let part = |name| entry.get(name);
            let request = match part("request") {
                Some(json) => Some(Request::from_json(json).ok_or(BundleFault::Entry(index, "request"))?),
                None => None,
            };
            let response = match part("response") {
                Some(json) => Some(Response::from_json(json).ok_or(BundleFault::Entry(index, "response"))?),
                None => None,
            };
            let full_url = part("fullUrl").and_then(Json::as_str).map(SmolStr::new);
            bundle.entries.push(Entry { full_url, resource: entry.remove("resource"), request, response });
        }
        Ok(bundle)
    }

    /// The bundle as JSON; resources are copied.
    pub fn to_json(&self) -> Json {
        let entries = self.entries.iter().map(|entry| {
            let mut object = Object::new();
            if let Some(url) = &entry.full_url {
                object.insert("fullUrl".into(), Json::String(url.clone()));
            }
            let parts = [
                ("resource", entry.resource.clone()),
                ("request", entry.request.as_ref().map(Request::to_json)),
                ("response", entry.response.as_ref().map(Response::to_json)),
            ];
            object.extend(parts.into_iter().filter_map(|(name, json)| Some((SmolStr::new(name), json?))));
            Json::Object(object)
        });
        let mut bundle = Object::new();
        bundle.insert("resourceType".into(), "Bundle".into());
        bundle.insert("type".into(), self.bundle_type.as_str().into());
        let entries: Vec<Json> = entries.collect();
        if !entries.is_empty() {
            bundle.insert("entry".into(), Json::Array(entries));
        }
        Json::Object(bundle)
    }

    /// The bundle's canonical text, the same as `to_json().to_string()` without copying resources.
    pub fn to_text(&self) -> String {
        let mut out = String::from("{\"resourceType\":\"Bundle\"");
        for (index, entry) in self.entries.iter().enumerate() {
            out.push_str(if index == 0 { ",\"entry\":[{" } else { "},{" });
            let full_url = entry.full_url.clone().map(Json::String);
            let request = entry.request.as_ref().map(Request::to_json);
            let response = entry.response.as_ref().map(Response::to_json);
            let parts = [
                ("\"fullUrl\":", full_url.as_ref()),
                ("\"request\":", request.as_ref()),
                ("\"resource\":", entry.resource.as_ref()),
                ("\"response\":", response.as_ref()),
            ];
            for (number, (name, json)) in parts.iter().filter_map(|(name, json)| Some((name, (*json)?))).enumerate() {
                if number > 0 {
                    out.push(',');
                }
                out.push_str(name);
                json.write(&mut out);
            }
        }
        out.push_str(if self.entries.is_empty() { ",\"type\":\"" } else { "}],\"type\":\"" });
        out.push_str(self.bundle_type.as_str());
        out.push_str("\"}");
        out
    }

    /// Puts the entries in reference order.
    pub fn sort(&mut self) {
        let order = reference_order(&self.entries);
        let mut entries: Vec<Option<Entry>> = std::mem::take(&mut self.entries).into_iter().map(Some).collect();
        self.entries = order.into_iter().filter_map(|index| entries.get_mut(index)?.take()).collect();
    }

    /// Checks every resource and what must hold between the entries, as [`check_bundle`] does for JSON.
    pub fn check(&self) -> Vec<crate::check::CheckIssue> {
        rules::check_entries(self)
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle").field("type", &self.bundle_type.as_str()).field("entry", &self.entries).finish()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({}", self.resource_type().unwrap_or("-"))?;
        if let Some(request) = &self.request {
            write!(f, ", {request:?}")?;
        }
        if let Some(response) = &self.response {
            write!(f, ", {response:?}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for Request {
    /// Without the criteria, which may hold identifiers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method.as_str(), self.url.split('?').next().unwrap_or_default())
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status_code().unwrap_or_default())
    }
}

fn text(json: &Json, name: &str) -> Option<SmolStr> {
    json.get(name)?.as_str().map(SmolStr::new)
}

fn members<const N: usize>(pairs: [(&str, Option<SmolStr>); N]) -> Json {
    Json::object(pairs.into_iter().filter_map(|(name, text)| Some((name, Json::String(text?)))))
}
