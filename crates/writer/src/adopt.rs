//! Compares what the server holds with what we want, after a conflict, after an unknown outcome and at first contact: a
//! resource that already says what we want counts as written (DESIGN §5 "read, compare, adopt"). Pure but for the reading.

use std::collections::BTreeMap;

use fhir::{Json, map_references, references};
use smol_str::SmolStr;

use crate::config::Ownership;
use crate::error::LookupError;
use crate::lookup::{Found, Question, Remote};
use crate::ownership::{merge, record};
use crate::{Known, Targets, Write, Writer, Written};

/// How a wanted resource stands on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It says what we want: nothing to write.
    AsWanted(Written),
    /// It says something else: write with this knowledge.
    Differs(Known),
    /// It is not there, or not any more.
    Absent,
    /// There are several, so nobody can tell which is meant.
    Several(usize),
}

impl Writer {
    /// Reads what the server holds of `writes` and compares, in their order. One request.
    pub async fn reread(&self, writes: &[Write], targets: &Targets) -> Result<Vec<Standing>, LookupError> {
        let known = |write: &'_ Write| write.known.as_ref().map(|known| known.server_id.clone());
        let ids: Vec<Option<SmolStr>> = writes.iter().map(known).collect();
        let questions = writes.iter().zip(&ids);
        let questions: Vec<Question<'_>> =
            questions.map(|(write, id)| Question { key: &write.key, server_id: id.as_deref() }).collect();
        let found = self.lookup(&questions).await?;
        Ok(self.compare(writes, &found, targets))
    }

    /// Compares `writes` with what [`Writer::lookup`] found, in their order.
    pub fn compare(&self, writes: &[Write], found: &BTreeMap<SmolStr, Found>, targets: &Targets) -> Vec<Standing> {
        let ids = ids(writes, found, targets);
        let found = |write: &Write| found.get(&write.key.full_url()).unwrap_or(&Found::Absent);
        writes.iter().map(|write| standing(self.config.ownership, write, found(write), &ids)).collect()
    }
}

/// Every `fullUrl` whose `Type/id` is known.
pub(crate) fn ids(writes: &[Write], found: &BTreeMap<SmolStr, Found>, targets: &Targets) -> Targets {
    let mut ids = targets.clone();
    for write in writes {
        ids.extend(write.known.as_ref().map(|known| (write.key.full_url(), known.server_id.clone())));
    }
    for (full_url, found) in found {
        if let Found::One(remote) = found {
            ids.insert(full_url.clone(), remote.server_id.clone());
        }
    }
    ids
}

/// How one wanted resource stands.
pub(crate) fn standing(ownership: Ownership, write: &Write, found: &Found, ids: &Targets) -> Standing {
    let remote = match found {
        Found::Absent => return Standing::Absent,
        Found::Several(ids) => return Standing::Several(ids.len()),
        Found::One(remote) => remote,
    };
    let mut wanted = write.resource.clone();
    map_references(&mut wanted, |reference| ids.get(reference).cloned());
    let before = write.known.as_ref().and_then(|known| known.foreign.as_ref());
    let foreign = match ownership {
        Ownership::Exclusive => None,
        Ownership::Shared => Some(record(&wanted, Some(&remote.resource), before)),
    };
    if let Some(foreign) = &foreign {
        wanted = merge(&wanted, foreign);
    }
    // Only a target that is not known yet is still a urn; then the resource cannot refer to it already.
    let resolved = !references(&wanted).iter().any(|reference| reference.starts_with("urn:uuid:"));
    let Remote { server_id, etag, .. } = remote;
    let (server_id, etag) = (server_id.clone(), etag.clone());
    if resolved && says_the_same(&wanted, &remote.resource) {
        let full_url = write.key.full_url();
        return Standing::AsWanted(Written { full_url, server_id, etag, foreign, created: false });
    }
    Standing::Differs(Known { server_id, etag, foreign })
}

/// Whether the server's resource is the one wanted, apart from what servers add: id, version, time and source of it, and a
/// narrative they generated.
fn says_the_same(wanted: &Json, theirs: &Json) -> bool {
    let has_source = wanted.get("meta").and_then(|meta| meta.get("source")).is_some();
    content(wanted, has_source) == content(theirs, has_source)
}

fn content(resource: &Json, with_source: bool) -> Json {
    let mut resource = resource.clone();
    let Some(members) = resource.as_object_mut() else { return resource };
    members.remove("id");
    if members.get("text").and_then(|text| text.get("status")).and_then(Json::as_str) == Some("generated") {
        members.remove("text");
    }
    if let Some(meta) = members.get_mut("meta").and_then(Json::as_object_mut) {
        meta.remove("versionId");
        meta.remove("lastUpdated");
        if !with_source {
            meta.remove("source");
        }
        if meta.is_empty() {
            members.remove("meta");
        }
    }
    resource
}

#[cfg(test)]
mod tests {
    use fhir::ResourceKey;

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    fn write(resource: &str) -> Write {
        let key = ResourceKey { resource_type: "Encounter".into(), system: "s".into(), value: "1".into() };
        Write { key, resource: json(resource), known: None }
    }

    fn remote(resource: &str) -> Found {
        Found::One(Remote::of(json(resource)).unwrap())
    }

    const WANTED: &str = r#"{"resourceType":"Encounter","status":"planned","subject":{"reference":"urn:uuid:p"}}"#;
    const THERE: &str = r##"{"resourceType":"Encounter","id":"7","meta":{"versionId":"3","lastUpdated":"x","source":"#z"},"status":"planned","subject":{"reference":"Patient/1"}}"##;

    #[test]
    fn what_is_as_wanted_is_adopted_with_its_version() {
        let ids = Targets::from([("urn:uuid:p".into(), "Patient/1".into())]);
        for ownership in [Ownership::Shared, Ownership::Exclusive] {
            let Standing::AsWanted(written) = standing(ownership, &write(WANTED), &remote(THERE), &ids) else {
                panic!("{ownership:?}");
            };
            assert_eq!((written.server_id.as_str(), written.etag.as_deref()), ("Encounter/7", Some("W/\"3\"")));
            assert_eq!(written.foreign.is_some(), ownership == Ownership::Shared);
        }
    }

    #[test]
    fn another_target_or_element_is_a_difference() {
        let other = Targets::from([("urn:uuid:p".into(), "Patient/2".into())]);
        for ids in [&other, &Targets::new()] {
            let standing = standing(Ownership::Exclusive, &write(WANTED), &remote(THERE), ids);
            assert!(matches!(standing, Standing::Differs(known) if known.server_id == "Encounter/7"));
        }
    }

    #[test]
    fn what_others_wrote_is_no_difference_where_they_may() {
        let ids = Targets::from([("urn:uuid:p".into(), "Patient/1".into())]);
        let there = remote(&THERE.replace(r#""status""#, r#""length":{"value":1},"status""#));
        assert!(matches!(standing(Ownership::Shared, &write(WANTED), &there, &ids), Standing::AsWanted(_)));
        assert!(matches!(standing(Ownership::Exclusive, &write(WANTED), &there, &ids), Standing::Differs(_)));
    }

    #[test]
    fn absent_and_several() {
        let of = |found| standing(Ownership::Shared, &write(WANTED), &found, &Targets::new());
        assert_eq!(of(Found::Absent), Standing::Absent);
        assert_eq!(of(Found::Several(vec!["Patient/1".into(), "Patient/2".into()])), Standing::Several(2));
    }
}
