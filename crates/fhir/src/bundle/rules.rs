//! What must hold between the entries of a bundle, their requests and their resources (R4 invariants bdl-3 to bdl-8,
//! §3.1.0.11 transactions). Each resource by itself: `check`.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::{Bundle, BundleType, Method};
use crate::check::{CheckCode, CheckIssue, Place, Resolve, resource_at};
use crate::json::Json;
use crate::primitive::is_absolute_uri;
use crate::references::Target;

/// An entry as the rules see it, be it JSON or [`super::Entry`].
struct View<'b> {
    full_url: Option<&'b str>,
    resource: Option<&'b Json>,
    request: Option<RequestView<'b>>,
    response: bool,
}

struct RequestView<'b> {
    /// `None` where it's no method.
    method: Option<Method>,
    url: &'b str,
    if_match: Option<&'b str>,
    if_none_exist: Option<&'b str>,
}

/// Checks a Bundle as JSON: itself, every resource in it, and what must hold between its entries.
pub fn check_bundle(bundle: &Json) -> Vec<CheckIssue> {
    let root = Place::root("Bundle");
    if bundle.resource_type() != Some("Bundle") {
        return vec![root.issue(CheckCode::UnknownElement, "not a Bundle")];
    }
    let views: Vec<View<'_>> = bundle.get("entry").map_or(&[][..], Json::items).iter().map(view).collect();
    let bundle_type = bundle.get("type").and_then(Json::as_str).and_then(BundleType::parse);
    let urls = full_urls(&views);
    let mut issues = Vec::new();
    resource_at(bundle, &root, Some(&|urn| urls.get(urn).copied()), &mut issues);
    rules(&views, bundle_type, &mut issues);
    issues
}

/// Checks a bundle before it's written, without making JSON of it.
pub(super) fn check_entries(bundle: &Bundle) -> Vec<CheckIssue> {
    let views: Vec<View<'_>> = bundle.entries.iter().map(view_of_entry).collect();
    let urls = full_urls(&views);
    let resolve: Resolve<'_, '_> = &|urn| urls.get(urn).copied();
    let mut issues = Vec::new();
    let root = Place::root("Bundle");
    for (index, view) in views.iter().enumerate() {
        let (list, outcome) = (root.member("entry"), bundle.entries.get(index).and_then(|e| e.response.as_ref()));
        let entry = list.item(index);
        if let Some(resource) = view.resource {
            resource_at(resource, &entry.member("resource"), Some(resolve), &mut issues);
        }
        if let Some(outcome) = outcome.and_then(|response| response.outcome.as_ref()) {
            resource_at(outcome, &entry.member("response").member("outcome"), Some(resolve), &mut issues);
        }
    }
    rules(&views, Some(bundle.bundle_type), &mut issues);
    issues
}

fn view(entry: &Json) -> View<'_> {
    let request = entry.get("request").map(|request| {
        let member = |name| request.get(name).and_then(Json::as_str);
        RequestView {
            method: member("method").and_then(Method::parse),
            url: member("url").unwrap_or_default(),
            if_match: member("ifMatch"),
            if_none_exist: member("ifNoneExist"),
        }
    });
    View {
        full_url: entry.get("fullUrl").and_then(Json::as_str),
        resource: entry.get("resource"),
        request,
        response: entry.get("response").is_some(),
    }
}

fn view_of_entry(entry: &super::Entry) -> View<'_> {
    View {
        full_url: entry.full_url.as_deref(),
        resource: entry.resource.as_ref(),
        request: entry.request.as_ref().map(|request| RequestView {
            method: Some(request.method),
            url: &request.url,
            if_match: request.if_match.as_deref(),
            if_none_exist: request.if_none_exist.as_deref(),
        }),
        response: entry.response.is_some(),
    }
}

/// Resource types by fullUrl; the first entry counts. An entry without resource has no type to refer to.
fn full_urls<'b>(views: &[View<'b>]) -> BTreeMap<&'b str, &'b str> {
    let mut urls = BTreeMap::new();
    for view in views {
        if let (Some(url), Some(resource_type)) = (view.full_url, view.resource.and_then(Json::resource_type)) {
            urls.entry(url).or_insert(resource_type);
        }
    }
    urls
}

fn rules(views: &[View<'_>], bundle_type: Option<BundleType>, issues: &mut Vec<CheckIssue>) {
    let root = Place::root("Bundle");
    let mut urls: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut targets: BTreeMap<SmolStr, usize> = BTreeMap::new();
    for (index, view) in views.iter().enumerate() {
        let list = root.member("entry");
        let at = list.item(index);
        let mut broken = |place: &Place<'_>, message: String| issues.push(place.issue(CheckCode::Bundle, message));
        if let Some(message) = presence_fault(view, bundle_type) {
            broken(&at, message.to_owned());
        }
        if let Some(url) = view.full_url {
            let at = at.member("fullUrl");
            let meta = view.resource.and_then(|resource| resource.get("meta"));
            let version = meta.and_then(|meta| meta.get("versionId")).and_then(Json::as_str);
            let version = version.filter(|_| bundle_type == Some(BundleType::History)).unwrap_or_default();
            if let Some(first) = urls.insert((url, version), index) {
                broken(&at, format!("bdl-7: the fullUrl of entry {first} again"));
            }
            if let Some(message) = full_url_fault(url, view.resource) {
                broken(&at, message.to_owned());
            }
        }
        let Some(request) = &view.request else { continue };
        let at = at.member("request");
        if let Some(message) = request_fault(request, view.resource) {
            broken(&at, message.to_owned());
        }
        if bundle_type != Some(BundleType::Transaction) {
            continue;
        }
        if let Some(target) = target(request)
            && let Some(first) = targets.insert(target, index)
        {
            broken(&at, format!("the target of entry {first} again"));
        }
    }
}

fn presence_fault(view: &View<'_>, bundle_type: Option<BundleType>) -> Option<&'static str> {
    use BundleType::{Batch, BatchResponse, History, Transaction, TransactionResponse};
    let asks = matches!(bundle_type, Some(Batch | Transaction | History));
    let answers = matches!(bundle_type, Some(BatchResponse | TransactionResponse | History));
    let rules = [
        (asks && view.request.is_none(), "bdl-3: a request is required"),
        (!asks && view.request.is_some(), "bdl-3: no request in a bundle of this type"),
        (answers && !view.response, "bdl-4: a response is required"),
        (!answers && view.response, "bdl-4: no response in a bundle of this type"),
        (
            view.resource.is_none() && view.request.is_none() && !view.response,
            "bdl-5: a resource is required without request and response",
        ),
    ];
    rules.iter().find(|(broken, _)| *broken && bundle_type.is_some()).map(|(_, message)| *message)
}

fn full_url_fault(url: &str, resource: Option<&Json>) -> Option<&'static str> {
    if !is_absolute_uri(url) {
        return Some("a fullUrl is absolute");
    }
    if url.contains("/_history/") {
        return Some("bdl-8: a fullUrl names no version");
    }
    let id = resource.and_then(|resource| resource.get("id")).and_then(Json::as_str);
    match Target::parse(url)? {
        Target::Resource { id: named, .. } if id.is_some_and(|id| id != named) => {
            Some("another id than the resource's")
        }
        _ => None,
    }
}

/// Does the request fit its resource (R4 §3.1.0.11.2)?
fn request_fault(request: &RequestView<'_>, resource: Option<&Json>) -> Option<&'static str> {
    let method = request.method?;
    let (path, criteria) = match request.url.split_once('?') {
        Some((path, criteria)) => (path, Some(criteria)),
        None => (request.url, None),
    };
    let (resource_type, id) = match path.split_once('/') {
        Some((resource_type, id)) => (resource_type, Some(id)),
        None => (path, None),
    };
    let writes = matches!(method, Method::Put | Method::Post | Method::Patch);
    let operation = path.rsplit('/').next().is_some_and(|last| last.starts_with('$'));
    if request.if_none_exist.is_some() && method != Method::Post {
        return Some("ifNoneExist is for POST");
    }
    if request.if_match.is_some() && matches!(method, Method::Post | Method::Get | Method::Head) {
        return Some("ifMatch is for PUT, PATCH and DELETE");
    }
    if request.if_match.is_some_and(|etag| !is_etag(etag)) {
        return Some("ifMatch is an ETag such as W/\"1\"");
    }
    if operation {
        return None;
    }
    let Some(resource) = resource else { return writes.then_some("a resource is required for this method") };
    if !writes {
        return Some("no resource for this method");
    }
    if method == Method::Patch {
        return None;
    }
    if resource.resource_type() != Some(resource_type) {
        return Some("url and resource have different types");
    }
    match (method, id, criteria) {
        (Method::Post, None, None) => None,
        (Method::Post, _, _) => Some("the url of a POST is a resource type"),
        (_, Some(id), None) => {
            let own = resource.get("id").and_then(Json::as_str);
            (own != Some(id)).then_some("the resource's id is the url's")
        }
        (_, None, Some(criteria)) => criteria.is_empty().then_some("the criteria are missing"),
        _ => Some("the url of a PUT is Type/id or Type?criteria"),
    }
}

fn is_etag(text: &str) -> bool {
    let quoted = text.strip_prefix("W/").unwrap_or(text);
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.is_some_and(|version| !version.is_empty() && !version.contains('"'))
}

/// What a request would write: `Type/id`, or `Type?criteria` in one spelling. `None` for a plain create or a question.
fn target(request: &RequestView<'_>) -> Option<SmolStr> {
    match (request.method?, request.if_none_exist) {
        (Method::Get | Method::Head, _) | (Method::Post, None) => None,
        (Method::Post, Some(criteria)) => Some(conditional(request.url, criteria)),
        _ => Some(match request.url.split_once('?') {
            Some((resource_type, criteria)) => conditional(resource_type, criteria),
            None => SmolStr::new(request.url),
        }),
    }
}

fn conditional(resource_type: &str, criteria: &str) -> SmolStr {
    let mut criteria: Vec<String> = criteria.split('&').map(percent_decoded).collect();
    criteria.sort();
    SmolStr::from([resource_type, "?", &criteria.join("&")].concat())
}

/// Decodes `%7C` and the like (RFC 3986 §2.1); what isn't an escape stays.
fn percent_decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escape = after.split_at_checked(2).filter(|_| *first == b'%');
        let byte = escape.and_then(|(hex, after)| {
            let hex = std::str::from_utf8(hex).ok().filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))?;
            Some((u8::from_str_radix(hex, 16).ok()?, after))
        });
        let (byte, after) = byte.unwrap_or((*first, after));
        out.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&out).into_owned()
}
