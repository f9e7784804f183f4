//! Reference order of entries: what is referred to comes before what refers to it, so that servers which process entries in
//! the order sent agree with those that follow R4 §3.1.0.11.2.

use std::collections::{BTreeMap, BTreeSet};

use smol_str::SmolStr;

use super::Entry;
use crate::references::visit;

/// Where references leave a choice: who, where, the visit, what was done, what was found; records of records last.
const FIRST: [&str; 11] = [
    "Patient",
    "Organization",
    "Practitioner",
    "PractitionerRole",
    "Location",
    "RelatedPerson",
    "Account",
    "Coverage",
    "EpisodeOfCare",
    "Encounter",
    "Device",
];
const LAST: [&str; 8] = [
    "Specimen",
    "Observation",
    "DiagnosticReport",
    "DocumentReference",
    "Composition",
    "MessageHeader",
    "AuditEvent",
    "Provenance",
];

/// Rank by type, then name, then place in the input: a total order that doesn't depend on the input's order where names differ.
type Rank<'e> = (usize, &'e str, &'e str, usize);

/// The indexes of the entries in reference order. A cycle is entered at its least entry by type and name.
pub fn reference_order(entries: &[Entry]) -> Vec<usize> {
    let ranks: Vec<Rank<'_>> = entries.iter().enumerate().map(|(index, entry)| rank(index, entry)).collect();
    let mut waits: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); entries.len()];
    let mut referrers: Vec<Vec<usize>> = vec![Vec::new(); entries.len()];
    let by_name = names(entries);
    for (index, entry) in entries.iter().enumerate() {
        let Some(resource) = &entry.resource else { continue };
        visit(resource, &mut |text| {
            let Some(target) = by_name.get(text.as_str()).copied().filter(|target| *target != index) else { return };
            let news = waits.get_mut(index).is_some_and(|waits| waits.insert(target));
            if news && let Some(referrers) = referrers.get_mut(target) {
                referrers.push(index);
            }
        });
    }
    let mut pending: BTreeSet<Rank<'_>> = ranks.iter().copied().collect();
    let free = |index: usize, waits: &[BTreeSet<usize>]| waits.get(index).is_none_or(BTreeSet::is_empty);
    let mut ready: BTreeSet<Rank<'_>> = ranks.iter().copied().filter(|rank| free(rank.3, &waits)).collect();
    let mut order = Vec::with_capacity(entries.len());
    while let Some(next) = ready.pop_first().or_else(|| pending.first().copied()) {
        pending.remove(&next);
        order.push(next.3);
        for referrer in referrers.get(next.3).into_iter().flatten().copied() {
            if let Some(waits) = waits.get_mut(referrer) {
                waits.remove(&next.3);
            }
            let rank = ranks.get(referrer).copied().filter(|rank| pending.contains(rank));
            if let Some(rank) = rank.filter(|rank| free(rank.3, &waits)) {
                ready.insert(rank);
            }
        }
    }
    order
}

/// What other entries may call an entry: its fullUrl, and `Type/id` where it's written under a known id.
fn names(entries: &[Entry]) -> BTreeMap<SmolStr, usize> {
    let mut names = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let id = entry.resource.as_ref().and_then(|r| r.get("id")).and_then(crate::Json::as_str);
        let literal = entry.resource_type().zip(id).map(|(name, id)| SmolStr::from([name, "/", id].concat()));
        for name in entry.full_url.clone().into_iter().chain(literal) {
            names.entry(name).or_insert(index);
        }
    }
    names
}

fn rank(index: usize, entry: &Entry) -> Rank<'_> {
    let name = entry.resource_type().unwrap_or_default();
    let first = FIRST.iter().position(|n| *n == name);
    let last = LAST.iter().position(|n| *n == name);
    let by_type = match (first, last) {
        (Some(rank), _) => rank,
        (None, Some(rank)) => FIRST.len().saturating_add(1).saturating_add(rank),
        (None, None) => FIRST.len(),
    };
    let url = entry.full_url.as_deref().or(entry.request.as_ref().map(|r| r.url.as_str())).unwrap_or_default();
    (by_type, name, url, index)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Json;
    use crate::bundle::{Method, Request};

    fn entry(name: &str, resource_type: &str, refers: &[&str]) -> Entry {
        let references = refers.iter().map(|r| Json::object([("reference", Json::from(*r))])).collect();
        let resource = Json::object([("resourceType", Json::from(resource_type)), ("x", Json::Array(references))]);
        Entry::write(name, resource, Request::new(Method::Post, resource_type))
    }

    fn order(entries: &[Entry]) -> Vec<String> {
        reference_order(entries).iter().map(|i| entries[*i].full_url.clone().unwrap().to_string()).collect()
    }

    #[test]
    fn referenced_before_referencing_else_by_type_and_name() {
        let entries = [
            entry("p2", "Provenance", &["o1", "e1"]),
            entry("o1", "Observation", &["e1", "a1"]),
            entry("e1", "Encounter", &["a1", "r1"]),
            entry("a1", "Patient", &["g1"]),
            entry("r1", "Practitioner", &[]),
            entry("g1", "Organization", &[]),
            entry("c1", "Condition", &["a1", "elsewhere"]),
        ];
        assert_eq!(order(&entries), ["g1", "a1", "r1", "e1", "c1", "o1", "p2"]);
    }

    #[test]
    fn a_cycle_is_entered_at_its_least() {
        let entries =
            [entry("b", "Patient", &["a"]), entry("a", "Patient", &["b"]), entry("e", "Encounter", &["b", "e"])];
        assert_eq!(order(&entries), ["a", "b", "e"]);
    }

    #[test]
    fn literal_ids_count_as_names() {
        let mut patient = entry("u", "Patient", &["Organization/1"]);
        let mut organization = entry("v", "Organization", &[]);
        patient.resource = patient.resource.map(|r| with_id(r, "7"));
        organization.resource = organization.resource.map(|r| with_id(r, "1"));
        assert_eq!(order(&[patient, organization]), ["v", "u"]);
    }

    fn with_id(mut resource: Json, id: &str) -> Json {
        resource.as_object_mut().unwrap().insert("id".into(), id.into());
        resource
    }

    proptest! {
        #[test]
        fn every_entry_once_whatever_the_input_order(edges in prop::collection::vec((0_usize..8, 0_usize..8), 0..20), seed in any::<u64>()) {
            let types = ["Patient", "Encounter", "Observation", "Condition"];
            let entries: Vec<Entry> = (0..8).map(|i| {
                let refers: Vec<String> = edges.iter().filter(|(from, _)| *from == i).map(|(_, to)| format!("n{to}")).collect();
                let refers: Vec<&str> = refers.iter().map(String::as_str).collect();
                entry(&format!("n{i}"), types[i % 4], &refers)
            }).collect();
            let mut shuffled = entries.clone();
            shuffled.sort_by_key(|e| e.full_url.as_ref().unwrap().bytes().fold(seed, |h, b| h.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(b))));
            let sorted = order(&entries);
            prop_assert_eq!(&sorted, &order(&shuffled));
            prop_assert_eq!(sorted.iter().collect::<BTreeSet<_>>().len(), 8);
            if edges.iter().all(|(from, to)| from > to) {
                for (from, to) in edges {
                    let place = |n: usize| sorted.iter().position(|s| *s == format!("n{n}"));
                    prop_assert!(place(to) < place(from));
                }
            }
        }
    }
}
