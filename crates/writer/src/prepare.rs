//! From resources to the one transaction bundle that writes them (DESIGN §5).
//!
//! Contract: each resource at most once; known ones as `PUT Type/id` with `ifMatch`, new ones by conditional update or under an
//! id of ours; references to known resources are `Type/id`, to new ones their `fullUrl`, and none points nowhere.

use std::collections::{BTreeMap, BTreeSet};

use fhir::bundle::{Bundle, Entry, Method, Request};
use fhir::{Json, ResourceKey, map_references, references};
use smol_str::SmolStr;

use crate::adopt::{self, Standing};
use crate::config::Ownership;
use crate::error::TransactError;
use crate::lookup::{Found, Question};
use crate::matching::{Element, carries, client_id, criteria};
use crate::ownership::{merge, record};
use crate::{Known, Targets, Write, Writer, Written};

/// A bundle about to be sent.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The transaction. Empty if the server holds everything already.
    pub bundle: Bundle,
    /// Resources that the server holds as wanted; they are not in the bundle.
    pub adopted: Vec<Written>,
    /// For each entry what is known of it.
    pub(crate) planned: Vec<Planned>,
}

/// An entry's resource.
#[derive(Clone)]
pub(crate) struct Planned {
    pub(crate) full_url: SmolStr,
    pub(crate) key: ResourceKey,
    /// `Type/id`, where the entry says it.
    pub(crate) server_id: Option<SmolStr>,
    pub(crate) if_match: Option<SmolStr>,
    pub(crate) foreign: Option<Json>,
}

impl std::fmt::Debug for Planned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Planned({:?}, {})", self.key, self.server_id.as_deref().unwrap_or("-"))
    }
}

impl Prepared {
    /// `fullUrl`s of the resources in the bundle.
    pub fn full_urls(&self) -> impl Iterator<Item = &SmolStr> {
        self.planned.iter().map(|planned| &planned.full_url)
    }
}

impl Writer {
    /// Makes the bundle. Asks the server only where a resource that others may have written is met for the first time.
    pub async fn prepare(&self, writes: &[Write], targets: &Targets) -> Result<Prepared, TransactError> {
        self.prepare_met(writes, targets, &self.meet(writes).await?)
    }

    /// Makes the bundle with what [`Writer::meet`] found, without asking again.
    pub fn prepare_met(
        &self,
        writes: &[Write],
        targets: &Targets,
        met: &BTreeMap<SmolStr, Found>,
    ) -> Result<Prepared, TransactError> {
        refuse_doubles(writes)?;
        let mut ids = adopt::ids(writes, met, targets);
        for write in writes.iter().filter(|write| write.known.is_none() && self.chooses_id(&write.key)) {
            let full_url = write.key.full_url();
            ids.insert(full_url.clone(), SmolStr::from([&write.key.resource_type, "/", client_id(&full_url)].concat()));
        }
        let within: BTreeSet<SmolStr> = writes.iter().map(|write| write.key.full_url()).collect();
        let mut prepared =
            Prepared { bundle: Bundle::transaction(Vec::new()), adopted: Vec::new(), planned: Vec::new() };
        for write in writes {
            let known = match met.get(&write.key.full_url()).map(|f| self.standing(write, f, &ids)) {
                None | Some(Standing::Absent) => write.known.clone(),
                Some(Standing::Differs(known)) => Some(known),
                Some(Standing::AsWanted(written)) => {
                    prepared.adopted.push(written);
                    continue;
                }
                Some(Standing::Several(_)) => {
                    return Err(TransactError::MultipleMatches { full_url: Some(write.key.full_url()) });
                }
            };
            let (entry, planned) = self.entry(write, known, &ids, &within)?;
            prepared.bundle.entries.push(entry);
            prepared.planned.push(planned);
        }
        refuse_one_resource_twice(&prepared)?;
        prepared.bundle.sort();
        let mut planned: BTreeMap<SmolStr, Planned> =
            prepared.planned.drain(..).map(|planned| (planned.full_url.clone(), planned)).collect();
        let names = prepared.bundle.entries.iter().filter_map(|entry| entry.full_url.as_ref());
        prepared.planned = names.filter_map(|full_url| planned.remove(full_url)).collect();
        Ok(prepared)
    }

    fn standing(&self, write: &Write, found: &Found, ids: &Targets) -> Standing {
        adopt::standing(self.config.ownership, write, found, ids)
    }

    /// Looks for what others may have written already: resources matched on an identifier that is not of our making, before
    /// their first write. Asks nothing under exclusive ownership.
    pub async fn meet(&self, writes: &[Write]) -> Result<BTreeMap<SmolStr, Found>, TransactError> {
        if self.config.ownership == Ownership::Exclusive {
            return Ok(BTreeMap::new());
        }
        let new = writes.iter().filter(|write| {
            write.known.is_none()
                && Element::of(&write.key.resource_type) == Element::Identifier
                && !self.config.own_systems.contains(&write.key.system)
        });
        let questions: Vec<Question<'_>> = new.map(|write| Question { key: &write.key, server_id: None }).collect();
        Ok(self.lookup(&questions).await?)
    }

    fn entry(
        &self,
        write: &Write,
        known: Option<Known>,
        ids: &Targets,
        within: &BTreeSet<SmolStr>,
    ) -> Result<(Entry, Planned), TransactError> {
        let full_url = write.key.full_url();
        let malformed = |fault| TransactError::Malformed { full_url: full_url.clone(), fault };
        if write.resource.resource_type() != Some(&write.key.resource_type) {
            return Err(malformed("the resource is of another type than its key"));
        }
        let foreign = (self.config.ownership == Ownership::Shared).then(|| match &known {
            // What was just read is recorded already.
            Some(known) if write.known.is_none() => known.foreign.clone().unwrap_or(Json::Null),
            _ => record(&write.resource, None, known.as_ref().and_then(|known| known.foreign.as_ref())),
        });
        let mut resource = foreign.as_ref().map_or_else(|| write.resource.clone(), |kept| merge(&write.resource, kept));
        map_references(&mut resource, |reference| ids.get(reference).cloned());
        if references(&resource).iter().any(|r| r.starts_with("urn:uuid:") && !within.contains(r)) {
            return Err(malformed("a reference points to no known resource"));
        }
        let chooses_id = known.is_none() && self.chooses_id(&write.key);
        if chooses_id && !self.capabilities.client_ids {
            return Err(malformed("the server cannot search for its identifier"));
        }
        let own_id = ids.get(&full_url).filter(|_| chooses_id).cloned();
        let (server_id, if_match) = known.map_or((own_id, None), |known| (Some(known.server_id), known.etag));
        let request = if let Some(server_id) = &server_id {
            let id = server_id.rsplit('/').next().unwrap_or_default();
            if let Some(members) = resource.as_object_mut() {
                members.insert("id".into(), id.into());
            }
            Request { if_match: if_match.clone(), ..Request::new(Method::Put, server_id.clone()) }
        } else {
            // Without it in the resource, each update would create another one.
            if !carries(&resource, &write.key) {
                return Err(malformed("the resource does not carry the identifier it is matched on"));
            }
            Request::conditional_update(&write.key.resource_type, &criteria(&write.key))
        };
        let planned = Planned { full_url: full_url.clone(), key: write.key.clone(), server_id, if_match, foreign };
        Ok((Entry::write(full_url, resource, request), planned))
    }
}

/// Servers disagree about two entries for one resource: some drop one silently.
fn refuse_doubles(writes: &[Write]) -> Result<(), TransactError> {
    let mut seen = BTreeSet::new();
    match writes.iter().find(|write| !seen.insert(&write.key)) {
        None => Ok(()),
        Some(double) => {
            let fault = "the resource is in the bundle twice";
            Err(TransactError::Malformed { full_url: double.key.full_url(), fault })
        }
    }
}

/// Two identifiers may belong to one resource on the server.
fn refuse_one_resource_twice(prepared: &Prepared) -> Result<(), TransactError> {
    let adopted = prepared.adopted.iter().map(|written| (&written.full_url, &written.server_id));
    let planned = prepared.planned.iter().filter_map(|planned| Some((&planned.full_url, planned.server_id.as_ref()?)));
    let mut seen = BTreeSet::new();
    for (full_url, server_id) in adopted.chain(planned) {
        if !seen.insert(server_id) {
            let fault = "two resources of the bundle are one on the server";
            return Err(TransactError::Malformed { full_url: full_url.clone(), fault });
        }
    }
    Ok(())
}
