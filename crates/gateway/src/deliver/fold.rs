//! From messages to what must be written: fold, render, compare with the shadows. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use chart::{Chart, Event};
use fhir::{Json, ResourceKey};
use mapping::Scope;
use smol_str::SmolStr;
use store::{Checkpoint, Resource};
use writer::{Known, Write};

/// What the store knows of the resources at hand, with what was learned from the server since.
#[derive(Default)]
pub(super) struct Knowledge {
    /// Folded registers by `fullUrl`.
    pub(super) checkpoints: BTreeMap<String, Checkpoint>,
    /// Shadows by `fullUrl`.
    pub(super) shadows: BTreeMap<String, Resource>,
    /// Resources of a bundle whose outcome is unknown: the server may hold something else than their shadows say.
    pub(super) suspects: BTreeSet<String>,
    /// Events to fold from scratch with, instead of the checkpoints; empty in the normal case.
    pub(super) earlier: Vec<Event>,
}

/// A resource that has to be written, and the shadow it will have.
pub(super) struct Pending {
    /// For the writer.
    pub(super) write: Write,
    /// Hash of the content, references unresolved.
    pub(super) hash: [u8; 32],
    /// Whether messages about other subjects may speak of it.
    pub(super) scope: Scope,
}

/// What a batch of messages comes to.
#[derive(Default)]
pub(super) struct Folded {
    /// Resources whose content differs from the shadow.
    pub(super) pending: Vec<Pending>,
    /// Server ids of resources that are referred to but not written.
    pub(super) targets: BTreeMap<SmolStr, SmolStr>,
    /// Checkpoints to keep, with the version each was folded from.
    pub(super) checkpoints: Vec<(String, Checkpoint)>,
    /// Which message touched which resource.
    pub(super) lineage: Vec<(String, String)>,
    /// Resources found as they should be.
    pub(super) unchanged: usize,
    /// Resources held back because no message has said yet what R4 requires.
    pub(super) incomplete: Vec<String>,
    /// Registers that only the content hash decided.
    pub(super) ambiguous: usize,
    /// Codes of what rendering left out.
    pub(super) alerts: Vec<&'static str>,
    /// The first resource that breaks R4, and how.
    pub(super) broken: Option<String>,
}

/// A checkpoint that can't be read back.
#[derive(Debug, thiserror::Error)]
#[error("a stored checkpoint cannot be read")]
pub(super) struct Unreadable;

/// Folds `events` into what is known.
pub(super) fn fold(events: &[Event], known: &Knowledge) -> Result<Folded, Unreadable> {
    let mut chart = before(events, known)?;
    let mut folded = Folded::default();
    let mut touched = BTreeSet::new();
    for event in events {
        let absorbed = chart.absorb(event);
        folded.ambiguous += absorbed.ambiguous.len();
        for key in &absorbed.touched {
            folded.lineage.push((event.message_id.to_string(), key.full_url().to_string()));
        }
        touched.extend(absorbed.touched);
    }
    let mut rendered = Vec::new();
    for key in touched {
        let full_url = key.full_url();
        let version = known.checkpoints.get(full_url.as_str()).map_or(0, |c| c.version);
        folded.checkpoints.push((full_url.to_string(), Checkpoint { version, registers: chart.save(&key) }));
        let Some(resource) = chart.render(&key) else { continue };
        folded.alerts.extend(resource.issues.iter().map(|issue| issue.code));
        if resource.missing.is_empty() {
            rendered.push((key, full_url, resource.json));
        } else {
            folded.incomplete.push(full_url.to_string());
        }
    }
    compare(rendered, &chart, known, &mut folded);
    Ok(folded)
}

/// The chart before these events: from checkpoints, or from all messages where those are to be folded anew.
fn before(events: &[Event], known: &Knowledge) -> Result<Chart, Unreadable> {
    if !known.earlier.is_empty() {
        return Ok(Chart::fold(&known.earlier));
    }
    let mut chart = Chart::default();
    for full_url in touched(events) {
        if let Some(checkpoint) = known.checkpoints.get(&full_url) {
            chart.restore(&checkpoint.registers).map_err(|_| Unreadable)?;
        }
    }
    Ok(chart)
}

/// Every `fullUrl` whose shadow the fold looks at: what the events touch, and what that refers to.
pub(super) fn mentioned(events: &[Event], known: &Knowledge) -> Result<Vec<String>, Unreadable> {
    let mut chart = before(events, known)?;
    let mut urls = BTreeSet::new();
    for event in events {
        for key in chart.absorb(event).touched {
            urls.insert(key.full_url());
            urls.extend(chart.render(&key).map(|r| fhir::references(&r.json)).unwrap_or_default());
        }
    }
    Ok(urls.into_iter().filter(|url| url.starts_with("urn:uuid:")).map(String::from).collect())
}

/// Splits the rendered resources into those to write and those that are as they should be.
fn compare(rendered: Vec<(ResourceKey, SmolStr, Json)>, chart: &Chart, known: &Knowledge, folded: &mut Folded) {
    let types: BTreeMap<SmolStr, SmolStr> =
        rendered.iter().map(|(key, url, _)| (url.clone(), key.resource_type.clone())).collect();
    for (key, full_url, mut json) in rendered {
        let unknown = |target: &str| {
            target.starts_with("urn:uuid:")
                && !types.contains_key(target)
                && known.shadows.get(target).is_none_or(|s| s.server_id.is_none())
        };
        remove_references(&mut json, &unknown);
        for target in fhir::references(&json) {
            if let Some(id) = known.shadows.get(target.as_str()).and_then(|s| s.server_id.as_deref()) {
                folded.targets.insert(target, SmolStr::new(id));
            }
        }
        let hash = chart::hash(&json);
        let shadow = known.shadows.get(full_url.as_str());
        let suspect = known.suspects.contains(full_url.as_str());
        if !suspect && shadow.is_some_and(|s| s.hash == hash && s.server_id.is_some()) {
            folded.unchanged += 1;
            continue;
        }
        let type_of = |target: &str| {
            let shadow = || known.shadows.get(target).map(|s| s.resource_type.as_str());
            types.get(target).map(SmolStr::as_str).or_else(shadow)
        };
        if let Some(issue) = fhir::check_with(&json, &type_of).into_iter().next() {
            folded.broken.get_or_insert(format!("{}: {}", issue.path, issue.code.as_str()));
        }
        let scope = chart.scope(&key);
        folded.pending.push(Pending {
            write: Write { key, resource: json, known: shadow.and_then(known_of) },
            hash,
            scope,
        });
    }
}

/// What the writer has to know of a resource it wrote before.
fn known_of(shadow: &Resource) -> Option<Known> {
    Some(Known {
        server_id: SmolStr::new(shadow.server_id.as_deref()?),
        etag: shadow.etag.as_deref().map(SmolStr::new),
        foreign: Json::parse(&shadow.foreign_elements).ok(),
    })
}

/// Every `fullUrl` that the fold of `events` reads.
pub(super) fn touched(events: &[Event]) -> Vec<String> {
    let urls: BTreeSet<String> =
        events.iter().flat_map(|e| &e.contributions).map(|c| c.resource.full_url().to_string()).collect();
    urls.into_iter().collect()
}

/// Takes out references to resources that are not there (held back as incomplete): array items whole, other elements by
/// themselves.
fn remove_references(json: &mut Json, gone: &dyn Fn(&str) -> bool) {
    let refers = |value: &Json| value.get("reference").and_then(Json::as_str).is_some_and(gone);
    match json {
        Json::Array(items) => {
            items.retain(|item| !refers(item));
            for item in items.iter_mut() {
                remove_references(item, gone);
            }
        }
        Json::Object(members) => {
            members.retain(|_, value| !refers(value));
            for value in members.values_mut() {
                remove_references(value, gone);
            }
            members.retain(|_, value| *value != Json::Array(Vec::new()));
        }
        _ => {}
    }
}
