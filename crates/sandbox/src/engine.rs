//! The interactions on one resource: which resource a request is about, and what is done to it.
//!
//! Lives here: read, vread, history, create, update, delete and their conditions (R4 §3.1.0). Does not: bundles, HTTP.

use fhir::check::check;
use fhir::{ElementTable, Json};

use crate::capability;
use crate::counters::Counters;
use crate::outcome::Refusal;
use crate::profile::Profile;
use crate::request::{Answer, Method, Request, etag_version, is_id};
use crate::resources::{Key, Resources, Version};
use crate::search::{Query, searchset};

/// All state of a sandbox.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) base_url: String,
    pub(crate) profile: Profile,
    pub(crate) counters: Counters,
    pub(crate) resources: Resources,
}

/// What a request comes to, before anything is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// A new resource under an id of ours.
    Create(Key),
    /// A conditional create whose criteria match: nothing to do.
    Existing(Key),
    /// A new version, or under a client's id a new resource.
    Update(Key),
    Delete(Key),
    /// Nothing is written.
    Read,
}

impl Plan {
    /// The resource it is about.
    pub(crate) fn key(&self) -> Option<&Key> {
        match self {
            Self::Create(key) | Self::Existing(key) | Self::Update(key) | Self::Delete(key) => Some(key),
            Self::Read => None,
        }
    }
}

impl Engine {
    pub(crate) fn new(base_url: String, profile: Profile) -> Self {
        Self { base_url, profile, counters: Counters::default(), resources: Resources::default() }
    }

    /// One interaction, all or nothing.
    pub(crate) fn perform(&mut self, request: &Request) -> Result<Answer, Refusal> {
        self.all_or_nothing(|engine| {
            let plan = engine.plan(request)?;
            engine.apply(&plan, request, None)
        })
    }

    /// Keeps what `interactions` did if all went well, takes it back if not.
    pub(crate) fn all_or_nothing(
        &mut self,
        interactions: impl FnOnce(&mut Self) -> Result<Answer, Refusal>,
    ) -> Result<Answer, Refusal> {
        let before = self.counters;
        let result = interactions(self);
        match &result {
            Ok(_) => self.resources.commit(self.profile.stale_search),
            Err(refusal) => {
                self.resources.rollback();
                self.counters = before;
                self.counters.refusals += 1;
                self.counters.conflicts += u64::from(refusal.is_conflict());
            }
        }
        result
    }

    /// Decides what a request is about. Writes nothing, but may use up an id.
    pub(crate) fn plan(&mut self, request: &Request) -> Result<Plan, Refusal> {
        let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
        let plan = match (request.method, path.as_slice()) {
            (Method::Get, _) | (Method::Post, [_, "_search"]) => return Ok(Plan::Read),
            (Method::Post, [resource_type]) => self.plan_create(request, known(resource_type)?)?,
            (Method::Put, [resource_type]) => self.plan_conditional_update(request, known(resource_type)?)?,
            (Method::Put, [resource_type, id]) => self.plan_update(request, known(resource_type)?, id)?,
            (Method::Delete, [resource_type, id]) => Plan::Delete(Key::new(known(resource_type)?, *id)),
            (Method::Delete, [_]) => return Err(Refusal::not_supported("conditional delete is not supported")),
            _ => return Err(Refusal::new(404, "not-found", "no such interaction")),
        };
        self.check_versions(request, &plan)?;
        Ok(plan)
    }

    fn plan_create(&mut self, request: &Request, resource_type: &str) -> Result<Plan, Refusal> {
        request.resource_of(resource_type)?;
        if let Some(criteria) = &request.if_none_exist {
            match self.matches(resource_type, criteria)?.as_slice() {
                [] => {}
                [existing] => return Ok(Plan::Existing(existing.clone())),
                several => return Err(Refusal::several_matches(several.len())),
            }
        }
        Ok(Plan::Create(self.new_key(resource_type)))
    }

    fn plan_update(&self, request: &Request, resource_type: &str, id: &str) -> Result<Plan, Refusal> {
        if !is_id(id) {
            return Err(Refusal::new(400, "value", "id is not valid"));
        }
        let resource = request.resource_of(resource_type)?;
        if resource.get("id").and_then(Json::as_str) != Some(id) {
            return Err(Refusal::invalid("id of the resource is not the id in the URL"));
        }
        let key = Key::new(resource_type, id);
        self.check_client_id(&key)?;
        Ok(Plan::Update(key))
    }

    /// R4 §3.1.0.4.3.
    fn plan_conditional_update(&mut self, request: &Request, resource_type: &str) -> Result<Plan, Refusal> {
        let resource = request.resource_of(resource_type)?;
        let id = resource.get("id").and_then(Json::as_str);
        match (self.matches(resource_type, &request.query)?.as_slice(), id) {
            ([], None) => Ok(Plan::Create(self.new_key(resource_type))),
            ([], Some(id)) => {
                let key = Key::new(resource_type, id);
                if !is_id(id) {
                    return Err(Refusal::new(400, "value", "id is not valid"));
                }
                if self.resources.read(&key).is_some() {
                    return Err(Refusal::new(409, "conflict", "the id belongs to a resource that does not match"));
                }
                self.check_client_id(&key)?;
                Ok(Plan::Update(key))
            }
            ([found], Some(id)) if found.id != id => {
                Err(Refusal::invalid("id of the resource is not the id of the resource that matches"))
            }
            ([found], _) => Ok(Plan::Update(found.clone())),
            (several, _) => Err(Refusal::several_matches(several.len())),
        }
    }

    fn check_client_id(&self, key: &Key) -> Result<(), Refusal> {
        if self.profile.refuses_client_ids && self.resources.current(key).is_none() {
            return Err(Refusal::new(405, "not-supported", "clients may not choose ids"));
        }
        Ok(())
    }

    /// If-Match (R4 §3.1.0.5) and `If-None-Match: *`.
    fn check_versions(&self, request: &Request, plan: &Plan) -> Result<(), Refusal> {
        let Some(key) = plan.key() else { return Ok(()) };
        let current = self.resources.current(key).filter(|version| version.content.is_some());
        if request.if_none_match.as_deref() == Some("*") && request.method == Method::Put && current.is_some() {
            return Err(self.version_conflict("the resource exists"));
        }
        let Some(etag) = request.if_match.as_deref().filter(|_| !self.profile.ignores_if_match) else { return Ok(()) };
        if etag_version(etag)? != current.map_or(0, |version| version.number) {
            return Err(self.version_conflict("the resource is not at the version in If-Match"));
        }
        Ok(())
    }

    fn version_conflict(&self, diagnostics: &str) -> Refusal {
        let status = if self.profile.answers_409_for_412 { 409 } else { 412 };
        Refusal::new(status, "conflict", diagnostics)
    }

    /// The resources that meet the criteria of a conditional interaction.
    fn matches(&mut self, resource_type: &str, parameters: &[(String, String)]) -> Result<Vec<Key>, Refusal> {
        let query = Query::read(parameters, &self.base_url)?;
        if query.criteria.is_empty() {
            return Err(Refusal::invalid("conditional interaction without criteria"));
        }
        Ok(self.resources.matches(resource_type, &query.criteria))
    }

    fn new_key(&mut self, resource_type: &str) -> Key {
        Key::new(resource_type, self.resources.assign_id(resource_type))
    }

    /// Does what was planned. `resource` is the request's own with its references resolved, where a transaction did so.
    pub(crate) fn apply(&mut self, plan: &Plan, request: &Request, resource: Option<Json>) -> Result<Answer, Refusal> {
        let resource = resource.or_else(|| request.resource.clone());
        match (plan, resource) {
            (Plan::Read, _) => self.read(request),
            (Plan::Existing(key), _) => {
                self.counters.no_ops += 1;
                let version = self.resources.current(key).ok_or_else(Refusal::not_found)?;
                Ok(Answer::about(200, key, version, true))
            }
            (Plan::Create(key) | Plan::Update(key), Some(resource)) => self.write(key, resource),
            (Plan::Create(_) | Plan::Update(_), None) => Err(Refusal::new(400, "required", "no resource")),
            (Plan::Delete(key), _) => Ok(self.delete(key)),
        }
    }

    fn write(&mut self, key: &Key, resource: Json) -> Result<Answer, Refusal> {
        let issues = if self.profile.accepts_invalid { Vec::new() } else { check(&resource) };
        if let Some(refusal) = Refusal::unprocessable(issues) {
            return Err(refusal);
        }
        let current = self.resources.current(key).filter(|version| version.content.is_some());
        let identical = current.is_some_and(|version| is_identical(version, &resource));
        if let (true, true, Some(version)) = (identical, self.profile.skips_identical_updates, current) {
            self.counters.no_ops += 1;
            return Ok(Answer::about(200, key, version, false));
        }
        let exists = current.is_some();
        self.counters.identical_updates += u64::from(identical);
        let counter = if exists { &mut self.counters.updates } else { &mut self.counters.creates };
        *counter += 1;
        let version = self.resources.write(key, Some(resource));
        Ok(Answer::about(if exists { 200 } else { 201 }, key, version, !exists))
    }

    fn delete(&mut self, key: &Key) -> Answer {
        if self.resources.read(key).is_none() {
            return Answer { status: 204, body: None, about: None };
        }
        self.counters.deletes += 1;
        Answer::about(204, key, self.resources.write(key, None), false)
    }

    fn read(&mut self, request: &Request) -> Result<Answer, Refusal> {
        let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
        match path.as_slice() {
            ["metadata"] => Ok(Answer::of(capability::statement(&self.base_url, &self.profile))),
            [resource_type] | [resource_type, "_search"] => self.search(request, known(resource_type)?),
            [resource_type, id] => self.read_version(request, &Key::new(known(resource_type)?, *id), None),
            [resource_type, id, "_history"] => self.history(&Key::new(known(resource_type)?, *id)),
            [resource_type, id, "_history", number] => {
                let number = number.parse().map_err(|_| Refusal::not_found())?;
                self.read_version(request, &Key::new(known(resource_type)?, *id), Some(number))
            }
            _ => Err(Refusal::new(404, "not-found", "no such interaction")),
        }
    }

    /// Read, or with a number vread (R4 §3.1.0.2, §3.1.0.3).
    fn read_version(&mut self, request: &Request, key: &Key, number: Option<u64>) -> Result<Answer, Refusal> {
        self.counters.reads += 1;
        let version = match number {
            None => self.resources.current(key),
            Some(number) => self.resources.history(key).iter().find(|version| version.number == number),
        };
        let version = version.ok_or_else(Refusal::not_found)?;
        if version.content.is_none() {
            return Err(Refusal::new(410, "deleted", "the resource is deleted"));
        }
        let mut answer = Answer::about(200, key, version, false);
        let known = request.if_none_match.as_deref().and_then(|etag| etag_version(etag).ok());
        if known == Some(version.number) {
            (answer.status, answer.body) = (304, None);
        }
        Ok(answer)
    }

    /// History of one resource, newest first (R4 §3.1.0.9).
    fn history(&mut self, key: &Key) -> Result<Answer, Refusal> {
        self.counters.reads += 1;
        let versions = self.resources.history(key);
        if versions.is_empty() {
            return Err(Refusal::not_found());
        }
        let entries = versions.iter().rev().map(|version| history_entry(&self.base_url, key, version)).collect();
        Ok(Answer::of(Json::object([
            ("resourceType", Json::from("Bundle")),
            ("type", Json::from("history")),
            ("total", Json::Number(versions.len().to_string().into())),
            ("entry", Json::Array(entries)),
        ])))
    }

    fn search(&mut self, request: &Request, resource_type: &str) -> Result<Answer, Refusal> {
        let query = Query::read(&request.query, &self.base_url)?;
        self.counters.searches += 1;
        let found = self.resources.matches(resource_type, &query.criteria);
        self.resources.searched();
        let page_max = if query.only_count { 0 } else { query.page };
        let page = found.iter().skip(query.offset).take(page_max).filter_map(|key| {
            let content = self.resources.read(key)?;
            Some((format!("{}/{key}", self.base_url), Json::clone(content)))
        });
        let page: Vec<_> = page.collect();
        let next = query.offset.saturating_add(page.len());
        let link = |offset: usize| {
            let mut parameters = form_urlencoded::Serializer::new(String::new());
            parameters.extend_pairs(request.query.iter().filter(|(name, _)| name != "_offset"));
            parameters.append_pair("_offset", &offset.to_string());
            format!("{}/{resource_type}?{}", self.base_url, parameters.finish())
        };
        let mut links = vec![("self", link(query.offset))];
        if next < found.len() && !query.only_count {
            links.push(("next", link(next)));
        }
        Ok(Answer::of(searchset(found.len(), page, links)))
    }
}

fn known(resource_type: &str) -> Result<&str, Refusal> {
    if ElementTable::r4().is_resource_type(resource_type) {
        return Ok(resource_type);
    }
    Err(Refusal::new(404, "not-supported", "no such resource type"))
}

fn history_entry(base_url: &str, key: &Key, version: &Version) -> Json {
    let (method, url, status) = match (&version.content, version.number) {
        (None, _) => ("DELETE", key.to_string(), "204"),
        (Some(_), 1) => ("POST", key.resource_type.to_string(), "201"),
        (Some(_), _) => ("PUT", key.to_string(), "200"),
    };
    let response = [
        ("status", Json::from(status)),
        ("etag", Json::string(format!("W/\"{}\"", version.number))),
        ("lastModified", Json::string(format!("{:.3}", version.last_updated))),
    ];
    let mut entry = vec![
        ("fullUrl", Json::string(format!("{base_url}/{key}"))),
        ("request", Json::object([("method", Json::from(method)), ("url", Json::string(url))])),
        ("response", Json::object(response)),
    ];
    entry.extend(version.content.as_deref().map(|content| ("resource", content.clone())));
    Json::object(entry)
}

/// Whether an update says what is there already; id and the server's own members of meta aside.
fn is_identical(current: &Version, update: &Json) -> bool {
    current.content.as_deref().is_some_and(|content| without_version(content) == without_version(update))
}

/// A resource without its id and what the server sets in meta.
pub(crate) fn without_version(resource: &Json) -> Json {
    let mut resource = resource.clone();
    let Some(members) = resource.as_object_mut() else { return resource };
    members.remove("id");
    if let Some(meta) = members.get_mut("meta").and_then(Json::as_object_mut) {
        meta.remove("versionId");
        meta.remove("lastUpdated");
        if meta.is_empty() {
            members.remove("meta");
        }
    }
    resource
}
