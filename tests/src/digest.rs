//! What a FHIR server holds, as one comparable text: every resource without version and time stamp, server ids replaced
//! by names made of the resources' own identifiers, so that two servers that were told the same compare equal.

use std::collections::BTreeMap;

use fhir::Json;
use sha2::{Digest as _, Sha256};

/// The resource types Sluice writes for ADT. The writer's probe resources (`Basic`) are no content.
pub const TYPES: [&str; 18] = [
    "Account",
    "AllergyIntolerance",
    "CareTeam",
    "Condition",
    "Coverage",
    "Device",
    "Encounter",
    "EpisodeOfCare",
    "Location",
    "MessageHeader",
    "Observation",
    "Organization",
    "Patient",
    "Practitioner",
    "PractitionerRole",
    "Procedure",
    "Provenance",
    "RelatedPerson",
];

/// All resources of a server by `Type/id`, as sent but without `meta.versionId` and `meta.lastUpdated`.
pub type Holdings = BTreeMap<String, Json>;

/// Reads everything the server at `base` holds of the types Sluice writes.
pub async fn holdings(client: &reqwest::Client, base: &str) -> Holdings {
    let mut all = Holdings::new();
    for kind in TYPES {
        let mut next = Some(format!("{base}/{kind}?_count=200"));
        let mut pages = 0;
        while let Some(url) = next.take() {
            let answer = client.get(&url).send().await.expect("the FHIR server answers");
            assert!(answer.status().is_success(), "{kind}: {}", answer.status());
            let bundle = Json::parse_bytes(&answer.bytes().await.expect("a whole answer")).expect("a JSON answer");
            for entry in bundle.get("entry").map(Json::items).unwrap_or_default() {
                let Some(resource) = entry.get("resource") else { continue };
                let id = resource.get("id").and_then(Json::as_str).unwrap_or_default();
                if resource.resource_type() == Some(kind) {
                    all.insert(format!("{kind}/{id}"), without_version(resource.clone()));
                }
            }
            next = link(&bundle, "next").map(|url| absolute(base, &url));
            pages += 1;
            assert!(pages < 1000, "{kind}: endless paging");
        }
    }
    all
}

/// What a sandbox holds, the same way.
pub fn holdings_of(sandbox: &sandbox::Sandbox) -> Holdings {
    let written = |resource: &Json| resource.resource_type().is_some_and(|kind| TYPES.contains(&kind));
    let resources = sandbox.resources().into_iter().filter(written);
    let keyed = resources.map(|resource| {
        let id = resource.get("id").and_then(Json::as_str).unwrap_or_default();
        (format!("{}/{id}", resource.resource_type().unwrap_or_default()), without_version(resource))
    });
    keyed.collect()
}

/// A digest that is equal for two servers with the same content under different ids.
pub fn digest(holdings: &Holdings) -> String {
    let mut hash = Sha256::new();
    for line in named(holdings) {
        hash.update(line.as_bytes());
        hash.update(b"\n");
    }
    hash.finalize().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Every resource as text under the name that the digest gives it, sorted.
pub fn named(holdings: &Holdings) -> Vec<String> {
    let names: BTreeMap<&str, String> = holdings.iter().map(|(id, r)| (id.as_str(), name(r))).collect();
    let mut lines: Vec<String> = holdings
        .iter()
        .map(|(id, resource)| {
            let mut resource = resource.clone();
            if let Some(members) = resource.as_object_mut() {
                members.insert("id".into(), Json::string(names[id.as_str()].as_str()));
            }
            rename(&mut resource, &names);
            resource.to_string()
        })
        .collect();
    lines.sort();
    lines
}

/// The differences between two holdings of one server, for a failing test's message: ids and element names only.
pub fn differences(before: &Holdings, after: &Holdings) -> Vec<String> {
    let mut found = Vec::new();
    for id in before.keys().chain(after.keys().filter(|id| !before.contains_key(*id))) {
        match (before.get(id), after.get(id)) {
            (Some(_), None) => found.push(format!("{id} is gone")),
            (None, Some(_)) => found.push(format!("{id} is new")),
            (Some(a), Some(b)) if a != b => {
                let (empty, other) = (fhir::Object::new(), fhir::Object::new());
                let (a, b) = (a.as_object().unwrap_or(&empty), b.as_object().unwrap_or(&other));
                let changed: Vec<&str> =
                    a.keys().chain(b.keys()).filter(|k| a.get(*k) != b.get(*k)).map(AsRef::as_ref).collect();
                found.push(format!("{id} differs in {changed:?}"));
            }
            _ => {}
        }
    }
    found
}

fn without_version(mut resource: Json) -> Json {
    if let Some(members) = resource.as_object_mut() {
        let mut empty = false;
        if let Some(meta) = members.get_mut("meta").and_then(Json::as_object_mut) {
            meta.remove("versionId");
            meta.remove("lastUpdated");
            empty = meta.is_empty();
        }
        if empty {
            members.remove("meta");
        }
    }
    resource
}

/// A name made of what identifies the resource to the outside.
fn name(resource: &Json) -> String {
    let mut text = resource.resource_type().unwrap_or_default().to_owned();
    for part in ["identifier"].iter().filter_map(|p| resource.get(p)) {
        text.push_str(&part.to_string());
    }
    if let Some(tag) = resource.get("meta").and_then(|m| m.get("tag")) {
        text.push_str(&tag.to_string());
    }
    Sha256::digest(text.as_bytes()).iter().take(12).fold(String::new(), |t, b| format!("{t}{b:02x}"))
}

fn rename(value: &mut Json, names: &BTreeMap<&str, String>) {
    match value {
        Json::Object(members) => {
            for (key, member) in members.iter_mut() {
                if key == "reference"
                    && let Json::String(target) = member
                {
                    let local = target.rsplit('/').take(2).collect::<Vec<_>>();
                    let local = local.into_iter().rev().collect::<Vec<_>>().join("/");
                    if let Some(name) = names.get(local.as_str()) {
                        *member = Json::string(name.as_str());
                    }
                } else {
                    rename(member, names);
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        _ => {}
    }
}

fn link(bundle: &Json, relation: &str) -> Option<String> {
    bundle
        .get("link")?
        .items()
        .iter()
        .find(|l| l.get("relation").and_then(Json::as_str) == Some(relation))?
        .get("url")?
        .as_str()
        .map(str::to_owned)
}

/// Servers give next links absolute, rooted or relative.
fn absolute(base: &str, url: &str) -> String {
    if url.starts_with("http") {
        let path = url.splitn(4, '/').nth(3).unwrap_or_default();
        let root = base.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        format!("{root}/{path}")
    } else if let Some(query) = url.strip_prefix('?') {
        format!("{base}?{query}")
    } else {
        format!("{base}/{}", url.trim_start_matches('/'))
    }
}
