//! A hash of what the resources say, whatever the server calls them.
//!
//! Ids are handed out in the order of arrival, so two runs that end in the same state have different ones. A resource is
//! therefore named by its type and its identifiers (for types without, by its tags), and references by that name.

use std::collections::BTreeMap;

use fhir::Json;
use sha2::{Digest as _, Sha256};
use smol_str::{SmolStr, format_smolstr};

use crate::engine::without_version;
use crate::resources::Resources;

pub(crate) fn digest(resources: &Resources) -> String {
    let names: BTreeMap<SmolStr, SmolStr> =
        resources.iter().map(|(key, content)| (format_smolstr!("{key}"), name(&key.resource_type, content))).collect();
    let mut texts: Vec<String> = resources
        .iter()
        .map(|(_, content)| {
            let mut content = without_version(content);
            rename(&mut content, &names);
            content.to_string()
        })
        .collect();
    texts.sort_unstable();
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.as_bytes());
        hash.update(b"\n");
    }
    hex::encode(hash.finalize())
}

fn name(resource_type: &str, content: &Json) -> SmolStr {
    let tags = || content.get("meta").and_then(|meta| meta.get("tag"));
    let identity = content.get("identifier").or_else(tags).cloned();
    format_smolstr!("{resource_type}?{}", identity.unwrap_or_else(|| without_version(content)))
}

/// Replaces references to resources by their names; a version in them counts as nothing.
fn rename(value: &mut Json, names: &BTreeMap<SmolStr, SmolStr>) {
    match value {
        Json::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        Json::Object(members) => {
            for (member, value) in members {
                match value {
                    Json::String(reference) if member == "reference" => {
                        let target = reference.split("/_history/").next().unwrap_or_default();
                        if let Some(name) = names.get(target) {
                            *reference = name.clone();
                        }
                    }
                    _ => rename(value, names),
                }
            }
        }
        _ => {}
    }
}
