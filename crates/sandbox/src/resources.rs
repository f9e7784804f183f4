//! Resources, their versions, and the index searches look in.
//!
//! Contract: between `begin` and `rollback` nothing happened. Ids are never given twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use fhir::{Json, Object};
use jiff::Timestamp;
use smol_str::{SmolStr, format_smolstr};

use crate::search::{Criterion, Term, terms};

/// `Type/id`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) resource_type: SmolStr,
    pub(crate) id: SmolStr,
}

impl Key {
    pub(crate) fn new(resource_type: impl Into<SmolStr>, id: impl Into<SmolStr>) -> Self {
        Self { resource_type: resource_type.into(), id: id.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.resource_type, self.id)
    }
}

/// One version; without content it is a deletion.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) number: u64,
    pub(crate) last_updated: Timestamp,
    pub(crate) content: Option<Arc<Json>>,
}

#[derive(Debug, Default)]
pub(crate) struct Resources {
    histories: BTreeMap<Key, Vec<Version>>,
    index: Index,
    last_id: u64,
    /// Keys written since the last commit, in order.
    journal: Vec<Key>,
}

impl Resources {
    /// The newest version, which may be a deletion.
    pub(crate) fn current(&self, key: &Key) -> Option<&Version> {
        self.histories.get(key)?.last()
    }

    /// The content, unless deleted.
    pub(crate) fn read(&self, key: &Key) -> Option<&Arc<Json>> {
        self.current(key)?.content.as_ref()
    }

    /// All versions, oldest first.
    pub(crate) fn history(&self, key: &Key) -> &[Version] {
        self.histories.get(key).map_or(&[], Vec::as_slice)
    }

    /// Resources that are not deleted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<Json>)> {
        self.histories
            .iter()
            .filter_map(|(key, versions)| versions.last()?.content.as_ref().map(|content| (key, content)))
    }

    /// An id no resource of the type has or had.
    pub(crate) fn assign_id(&mut self, resource_type: &str) -> SmolStr {
        loop {
            self.last_id += 1;
            let id = format_smolstr!("{}", self.last_id);
            if !self.histories.contains_key(&Key::new(resource_type, id.clone())) {
                return id;
            }
        }
    }

    /// Adds a version (`None` deletes) and sets `id`, `meta.versionId` and `meta.lastUpdated`.
    pub(crate) fn write(&mut self, key: &Key, content: Option<Json>) -> &Version {
        let versions = self.histories.entry(key.clone()).or_default();
        let number = versions.last().map_or(1, |version| version.number + 1);
        let last_updated = Timestamp::now();
        let content = content.map(|content| Arc::new(stamp(content, key, number, last_updated)));
        self.journal.push(key.clone());
        versions.push(Version { number, last_updated, content });
        &versions[versions.len() - 1]
    }

    /// Keeps what was written. The index takes it in after `stale_search` further searches.
    pub(crate) fn commit(&mut self, stale_search: u32) {
        for key in std::mem::take(&mut self.journal) {
            let content = self.read(&key).cloned();
            self.index.change(key, content, stale_search);
        }
    }

    /// Takes back everything written since the last commit.
    pub(crate) fn rollback(&mut self) {
        while let Some(key) = self.journal.pop() {
            if let Some(versions) = self.histories.get_mut(&key) {
                versions.pop();
                if versions.is_empty() {
                    self.histories.remove(&key);
                }
            }
        }
    }

    /// The resources of a type that meet all criteria, by id, as far as the index knows.
    pub(crate) fn matches(&self, resource_type: &str, criteria: &[Criterion]) -> Vec<Key> {
        let ids = self.index.matches(resource_type, criteria);
        ids.into_iter().map(|id| Key::new(resource_type, id)).filter(|key| self.read(key).is_some()).collect()
    }

    /// A search was answered: the index gets on by one.
    pub(crate) fn searched(&mut self) {
        self.index.answers += 1;
        while self.index.pending.front().is_some_and(|change| change.due <= self.index.answers) {
            if let Some(change) = self.index.pending.pop_front() {
                self.index.set(&change.key, change.content.as_deref());
            }
        }
    }
}

/// What searches look in.
#[derive(Debug, Default)]
struct Index {
    ids: BTreeMap<Term, BTreeSet<SmolStr>>,
    terms: BTreeMap<Key, Vec<Term>>,
    pending: VecDeque<Change>,
    answers: u64,
}

/// A write the index has yet to see, when `due` searches have been answered.
#[derive(Debug)]
struct Change {
    due: u64,
    key: Key,
    content: Option<Arc<Json>>,
}

impl Index {
    fn change(&mut self, key: Key, content: Option<Arc<Json>>, stale_search: u32) {
        let due = self.answers + u64::from(stale_search);
        // A change never overtakes an older one that is still pending.
        if stale_search == 0 && self.pending.is_empty() {
            self.set(&key, content.as_deref());
        } else {
            self.pending.push_back(Change { due, key, content });
        }
    }

    fn set(&mut self, key: &Key, content: Option<&Json>) {
        for term in self.terms.remove(key).unwrap_or_default() {
            if let Some(ids) = self.ids.get_mut(&term) {
                ids.remove(&key.id);
                if ids.is_empty() {
                    self.ids.remove(&term);
                }
            }
        }
        if let Some(content) = content {
            let terms = terms(key, content);
            for term in &terms {
                self.ids.entry(term.clone()).or_default().insert(key.id.clone());
            }
            self.terms.insert(key.clone(), terms);
        }
    }

    fn matches(&self, resource_type: &str, criteria: &[Criterion]) -> BTreeSet<SmolStr> {
        let mut found: Option<BTreeSet<SmolStr>> = None;
        for criterion in criteria {
            let mut ids = BTreeSet::new();
            for term in criterion.terms(resource_type) {
                ids.extend(self.ids.get(&term).into_iter().flatten().cloned());
            }
            found = Some(match found {
                None => ids,
                Some(found) => found.intersection(&ids).cloned().collect(),
            });
        }
        found.unwrap_or_else(|| {
            let of_type = self.terms.keys().filter(|key| key.resource_type == resource_type);
            of_type.map(|key| key.id.clone()).collect()
        })
    }
}

/// Content as version `number` of `key` (R4 §2.26.3.5 Resource.meta).
fn stamp(mut content: Json, key: &Key, number: u64, last_updated: Timestamp) -> Json {
    if let Some(members) = content.as_object_mut() {
        members.insert("id".into(), Json::String(key.id.clone()));
        let meta = members.entry("meta".into()).or_insert_with(|| Json::Object(Object::new()));
        if let Some(meta) = meta.as_object_mut() {
            meta.insert("versionId".into(), Json::String(format_smolstr!("{number}")));
            meta.insert("lastUpdated".into(), Json::String(format_smolstr!("{last_updated:.3}")));
        }
    }
    content
}
