//! What a server can do is found out by doing it: CapabilityStatements are often generated, and wrong.
//!
//! Contract: the probe writes three `Basic` resources under identifiers of its own, the same ones at every start, and never
//! deletes; it leaves nothing else. Where a server takes no `Basic`, its CapabilityStatement has to be believed.

use fhir::bundle::{Bundle, Entry, Method, Request};
use fhir::{Json, OperationOutcome, ResourceKey};
use smol_str::{SmolStr, format_smolstr};

use crate::Written;
use crate::answer::{self, Verdict};
use crate::capability::Capabilities;
use crate::config::{Config, Identity};
use crate::error::{ConnectError, LookupError, Reason, TransactError};
use crate::http::Http;
use crate::lookup::{Found, Question, ask, read};
use crate::matching::{client_id, criteria};
use crate::prepare::Planned;

/// System of the probe's identifiers and tags.
const SYSTEM: &str = "urn:sluice:probe";
/// An identifier with all the characters that separate values in a search.
const ODD: &str = r"\,|$\";
/// What a person who finds a resource of the probe reads.
const WHAT: &str = "Sluice writes this at start to find out what the server can do. It is about nobody.";
/// Runs of the probe, when another process probes at the same time.
const RUNS_MAX: usize = 3;

/// Finds out what the server can do, or why it cannot be written to.
pub(crate) async fn probe(http: &Http, config: &Config) -> Result<Capabilities, ConnectError> {
    let statement = statement(http).await?;
    let mut capabilities = believed(&statement);
    for run in 1..=RUNS_MAX {
        let probe = Probe { http, identity: config.identity, nonce: fastrand::u64(..) };
        match probe.run(&mut capabilities).await {
            Ok(()) => break,
            Err(Trouble::Disturbed) if run < RUNS_MAX => {}
            Err(Trouble::Disturbed) => return Err(ConnectError::Unsuitable("what was written cannot be read back")),
            Err(Trouble::Refused(outcome)) => {
                let outcome = outcome.map(|outcome| outcome.summary());
                tracing::warn!(outcome, "the FHIR server refuses the probe: what it says of itself is believed");
                break;
            }
            Err(Trouble::Failed(error)) => return Err(ConnectError::Probe(error)),
        }
    }
    match capabilities.fault(config.identity) {
        None => Ok(capabilities),
        Some(fault) => Err(ConnectError::Unsuitable(fault)),
    }
}

/// Reads the CapabilityStatement (R4 §5.1) and refuses what is no R4 server with transactions.
async fn statement(http: &Http) -> Result<Json, ConnectError> {
    let failed = |reason, retry_after| ConnectError::Probe(TransactError::Unavailable { reason, retry_after });
    let answer = http.metadata().await.map_err(|lost| failed(lost.reason(), None))?;
    let status = answer.status;
    let statement = match (status, answer.body) {
        (401 | 403, _) => return Err(ConnectError::Probe(TransactError::Unauthorized { status })),
        (200..=299, Ok(statement)) => statement,
        (200..=299, Err(reason)) if reason != Reason::NotJson => return Err(failed(reason, answer.retry_after)),
        (429 | 500.., _) => return Err(failed(Reason::Status(status), answer.retry_after)),
        _ => return Err(ConnectError::NoStatement { status }),
    };
    if statement.resource_type() != Some("CapabilityStatement") {
        return Err(ConnectError::NoStatement { status });
    }
    let found = SmolStr::new(statement.get("fhirVersion").and_then(Json::as_str).unwrap_or("of no version"));
    if found != "4.0" && !found.starts_with("4.0.") {
        return Err(ConnectError::Version { found });
    }
    let interactions = server(&statement).and_then(|rest| rest.get("interaction")).map_or(&[][..], Json::items);
    let offers = |code: &str| interactions.iter().any(|i| i.get("code").and_then(Json::as_str) == Some(code));
    // A server that lists nothing at all may still do it; the probe will see.
    if !interactions.is_empty() && !offers("transaction") {
        return Err(ConnectError::Unsuitable("it does not support transactions"));
    }
    Ok(statement)
}

fn server(statement: &Json) -> Option<&Json> {
    let rest = statement.get("rest").map_or(&[][..], Json::items);
    rest.iter().find(|rest| rest.get("mode").and_then(Json::as_str) == Some("server"))
}

/// What the CapabilityStatement says of the type `Patient`, which stands for all.
fn believed(statement: &Json) -> Capabilities {
    let resources = server(statement).and_then(|rest| rest.get("resource")).map_or(&[][..], Json::items);
    let patient = resources.iter().find(|r| r.get("type").and_then(Json::as_str) == Some("Patient"));
    let says = |name: &str| patient.and_then(|patient| patient.get(name));
    let parameters = says("searchParam").map_or(&[][..], Json::items);
    let software = |name| statement.get("software").and_then(|software| software.get(name)).and_then(Json::as_str);
    let name = software("name").unwrap_or("unnamed server");
    let version = software("version").map(|version| format!(" {version}")).unwrap_or_default();
    Capabilities {
        software: format!("{name}{version}"),
        probed: false,
        conditional_update: says("conditionalUpdate").and_then(Json::as_bool) == Some(true),
        resolves_entries: true,
        if_match: says("versioning").and_then(Json::as_str) == Some("versioned-update"),
        tag_matching: parameters.iter().any(|p| p.get("name").and_then(Json::as_str) == Some("_tag")),
        client_ids: says("updateCreate").and_then(Json::as_bool) == Some(true),
        odd_identifiers: false,
        by_identifier: resources.iter().filter_map(searched_by_identifier).collect(),
        current_search: true,
        versions_in_answers: true,
    }
}

/// The type, where it has the search parameter `identifier`.
fn searched_by_identifier(resource: &Json) -> Option<SmolStr> {
    let parameters = resource.get("searchParam").map_or(&[][..], Json::items);
    let named = parameters.iter().any(|p| p.get("name").and_then(Json::as_str) == Some("identifier"));
    resource.get("type").and_then(Json::as_str).filter(|_| named).map(SmolStr::new)
}

/// Why a probe gave no findings.
enum Trouble {
    /// The server refuses the probe's resources.
    Refused(Option<Box<OperationOutcome>>),
    /// Somebody else wrote the probe's resources meanwhile.
    Disturbed,
    /// No server to ask.
    Failed(TransactError),
}

impl From<LookupError> for Trouble {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::Refused { outcome, .. } => Self::Refused(outcome),
            other => Self::Failed(other.into()),
        }
    }
}

/// One run of the probe.
struct Probe<'p> {
    http: &'p Http,
    identity: Identity,
    /// Tells this run's content from that of others.
    nonce: u64,
}

/// A resource of the probe.
struct Specimen {
    key: ResourceKey,
    /// `Type/id`, if it is there.
    server_id: Option<SmolStr>,
    /// Whether its identifier finds it alone.
    single: bool,
}

impl Probe<'_> {
    async fn run(&self, capabilities: &mut Capabilities) -> Result<(), Trouble> {
        let mut first = specimen("first");
        let mut second = specimen("second");
        self.meet([&mut first, &mut second]).await?;
        let written = match self.write_both(&first, &second, false).await {
            Err(Trouble::Refused(_)) => {
                let written = self.write_both(&first, &second, true).await?;
                capabilities.conditional_update = false;
                written
            }
            written => written?,
        };
        let [one, two] = written.as_slice() else { return Err(Trouble::Disturbed) };
        (first.server_id, second.server_id) = (Some(one.server_id.clone()), Some(two.server_id.clone()));
        capabilities.probed = true;
        capabilities.versions_in_answers = written.iter().all(|written| written.etag.is_some());
        self.read_back(&first, &second, capabilities).await?;
        if first.single && second.single {
            self.match_again(&first, &second, capabilities).await?;
        } else {
            self.update(&first, None).await?;
        }
        capabilities.if_match = match (&one.etag, self.update(&first, one.etag.as_deref()).await) {
            (Some(_), Err(Trouble::Refused(_))) => true,
            (_, Err(trouble @ Trouble::Failed(_))) => return Err(trouble),
            _ => false,
        };
        capabilities.client_ids = self.choose_id().await?;
        Ok(())
    }

    /// Finds what earlier runs wrote.
    async fn meet(&self, specimens: [&mut Specimen; 2]) -> Result<(), Trouble> {
        let urls = specimens.iter().map(|s| format_smolstr!("Basic?{}", criteria(&s.key))).collect();
        for (specimen, answer) in specimens.into_iter().zip(ask(self.http, urls).await?) {
            match read(Question { key: &specimen.key, server_id: None }, answer)? {
                Found::Absent => {}
                Found::One(remote) => specimen.server_id = Some(remote.server_id),
                // Made when two processes started at once, on a server that lets both create. They are written by their ids.
                Found::Several(_) => specimen.single = false,
            }
        }
        Ok(())
    }

    /// Writes both in one transaction; the second refers to the first.
    async fn write_both(
        &self,
        first: &Specimen,
        second: &Specimen,
        by_client_id: bool,
    ) -> Result<Vec<Written>, Trouble> {
        let place = |specimen: &Specimen| {
            let own = [&specimen.key.resource_type, "/", client_id(&specimen.key.full_url())].concat();
            let own_id = by_client_id || self.identity == Identity::Client || !specimen.single;
            specimen.server_id.clone().or_else(|| own_id.then(|| own.into()))
        };
        let target = first.key.full_url();
        let entries = vec![
            self.entry(first, place(first).as_ref(), Content::Nonce("written"), None),
            self.entry(second, place(second).as_ref(), Content::Reference(&target), None),
        ];
        self.transact(entries).await
    }

    /// Was the reference resolved, does a search see the last write, does it find tags?
    async fn read_back(
        &self,
        first: &Specimen,
        second: &Specimen,
        capabilities: &mut Capabilities,
    ) -> Result<(), Trouble> {
        let nonce = ResourceKey { value: self.nonce_value("written"), ..first.key.clone() };
        let odd = ResourceKey { value: ODD.into(), ..first.key.clone() };
        let (one, two) = (place_of(first), place_of(second));
        let tag = |value: &str| format_smolstr!("Basic?_tag={SYSTEM_ENCODED}%7C{value}");
        let urls = vec![
            one.clone(),
            two,
            format_smolstr!("Basic?{}", criteria(&nonce)),
            tag(&second.key.value),
            tag("nobody"),
            format_smolstr!("Basic?{}", criteria(&odd)),
        ];
        let answers = ask(self.http, urls).await?;
        let resources: Vec<Option<Json>> = answers.into_iter().map(|entry| entry.resource).collect();
        let [Some(one_read), Some(two_read), by_nonce, by_tag, by_no_tag, by_odd] = resources.as_slice() else {
            return Err(Trouble::Disturbed);
        };
        if !crate::matching::carries(one_read, &nonce) {
            return Err(Trouble::Disturbed);
        }
        let subject = two_read.get("subject").and_then(|subject| subject.get("reference")).and_then(Json::as_str);
        capabilities.resolves_entries = subject.is_some_and(|subject| subject.ends_with(one.as_str()));
        capabilities.odd_identifiers = ids_in(by_odd.as_ref()).contains(&one);
        capabilities.current_search = ids_in(by_nonce.as_ref()) == [one];
        capabilities.tag_matching =
            ids_in(by_tag.as_ref()) == [place_of(second)] && ids_in(by_no_tag.as_ref()).is_empty();
        Ok(())
    }

    /// Does a conditional update find what is there?
    async fn match_again(
        &self,
        first: &Specimen,
        second: &Specimen,
        capabilities: &mut Capabilities,
    ) -> Result<(), Trouble> {
        if !capabilities.current_search || !capabilities.conditional_update {
            return self.update(first, None).await.map(|_| ());
        }
        let nowhere = |specimen: &Specimen| Specimen { key: specimen.key.clone(), server_id: None, single: true };
        let (first_again, second_again) = (nowhere(first), nowhere(second));
        let by_identifier = self.entry(&first_again, None, Content::Nonce("matched"), None);
        match self.transact(vec![by_identifier]).await {
            Ok(written) => {
                capabilities.conditional_update =
                    written.iter().all(|w| Some(&w.server_id) == first.server_id.as_ref());
            }
            Err(Trouble::Refused(_)) => {
                capabilities.conditional_update = false;
                self.update(first, None).await?;
            }
            Err(trouble) => return Err(trouble),
        }
        if capabilities.tag_matching {
            let mut by_tag = self.entry(&second_again, None, Content::Nonce("matched"), None);
            if let Some(request) = &mut by_tag.request {
                request.url = format_smolstr!("Basic?_tag={SYSTEM_ENCODED}%7C{}", second.key.value);
            }
            capabilities.tag_matching = match self.transact(vec![by_tag]).await {
                Ok(written) => written.iter().all(|w| Some(&w.server_id) == second.server_id.as_ref()),
                Err(Trouble::Refused(_)) => false,
                Err(trouble) => return Err(trouble),
            };
        }
        Ok(())
    }

    /// Updates by id, perhaps expecting a version.
    async fn update(&self, specimen: &Specimen, if_match: Option<&str>) -> Result<Vec<Written>, Trouble> {
        let content = Content::Nonce(if if_match.is_some() { "expected" } else { "updated" });
        let entry = self.entry(specimen, specimen.server_id.as_ref(), content, if_match);
        self.transact(vec![entry]).await
    }

    /// May a client choose the id of a resource?
    async fn choose_id(&self) -> Result<bool, Trouble> {
        let third = specimen("third");
        let id = format_smolstr!("Basic/{}", client_id(&third.key.full_url()));
        match self.transact(vec![self.entry(&third, Some(&id), Content::Nonce("chosen"), None)]).await {
            Ok(_) => Ok(true),
            Err(Trouble::Refused(_)) => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    fn nonce_value(&self, step: &str) -> SmolStr {
        format_smolstr!("{step}-{:016x}", self.nonce)
    }

    fn entry(&self, specimen: &Specimen, id: Option<&SmolStr>, content: Content<'_>, if_match: Option<&str>) -> Entry {
        let mut resource = basic(&specimen.key, content, |step| self.nonce_value(step));
        let request = match id {
            None => Request::conditional_update("Basic", &criteria(&specimen.key)),
            Some(id) => {
                if let Some(members) = resource.as_object_mut() {
                    members.insert("id".into(), id.trim_start_matches("Basic/").into());
                }
                Request { if_match: if_match.map(SmolStr::new), ..Request::new(Method::Put, id.clone()) }
            }
        };
        Entry::write(specimen.key.full_url(), resource, request)
    }

    async fn transact(&self, entries: Vec<Entry>) -> Result<Vec<Written>, Trouble> {
        let bundle = Bundle::transaction(entries);
        let planned: Vec<Planned> = bundle.entries.iter().filter_map(planned).collect();
        match answer::read(self.http.post(&bundle).await, &planned) {
            Verdict::Written(written) => Ok(written),
            Verdict::Disputed { outcome, .. } | Verdict::Failed(TransactError::Refused { outcome, .. }) => {
                Err(Trouble::Refused(outcome))
            }
            Verdict::Failed(TransactError::Conflict { .. } | TransactError::MultipleMatches { .. }) => {
                Err(Trouble::Refused(None))
            }
            Verdict::Failed(error) => Err(Trouble::Failed(error)),
        }
    }
}

/// [`SYSTEM`], percent-encoded.
const SYSTEM_ENCODED: &str = "urn%3Asluice%3Aprobe";

/// What a resource of the probe says.
#[derive(Clone, Copy)]
enum Content<'c> {
    /// Something new in each step.
    Nonce(&'c str),
    /// A reference to another entry.
    Reference(&'c str),
}

fn specimen(name: &str) -> Specimen {
    let key = ResourceKey { resource_type: "Basic".into(), system: SYSTEM.into(), value: name.into() };
    Specimen { key, server_id: None, single: true }
}

fn place_of(specimen: &Specimen) -> SmolStr {
    specimen.server_id.clone().unwrap_or_default()
}

fn basic(key: &ResourceKey, content: Content<'_>, nonce: impl Fn(&str) -> SmolStr) -> Json {
    let token = |name: &str, value: &SmolStr| {
        Json::object([("system", Json::from(SYSTEM)), (name, Json::String(value.clone()))])
    };
    let mut identifiers = vec![token("value", &key.value)];
    let mut members = vec![
        ("resourceType", Json::from("Basic")),
        ("meta", Json::object([("tag", Json::Array(vec![token("code", &key.value)]))])),
        ("code", Json::object([("text", WHAT)].map(|(name, text)| (name, Json::from(text))))),
    ];
    match content {
        Content::Nonce(step) => identifiers.extend([token("value", &nonce(step)), token("value", &ODD.into())]),
        Content::Reference(target) => {
            members.push(("subject", Json::object([("reference", Json::from(target))])));
        }
    }
    members.push(("identifier", Json::Array(identifiers)));
    Json::object(members)
}

fn planned(entry: &Entry) -> Option<Planned> {
    let request = entry.request.as_ref()?;
    let server_id = (!request.url.contains('?')).then(|| request.url.clone());
    let key = ResourceKey { resource_type: "Basic".into(), system: SYSTEM.into(), value: SmolStr::default() };
    Some(Planned {
        full_url: entry.full_url.clone()?,
        key,
        server_id,
        if_match: request.if_match.clone(),
        foreign: None,
    })
}

/// `Type/id` of each resource in a searchset.
fn ids_in(searchset: Option<&Json>) -> Vec<SmolStr> {
    let entries = searchset.and_then(|searchset| searchset.get("entry")).map_or(&[][..], Json::items);
    let resources = entries.iter().filter_map(|entry| entry.get("resource"));
    let basics = resources.filter(|resource| resource.resource_type() == Some("Basic"));
    basics.filter_map(|basic| Some(format_smolstr!("Basic/{}", basic.get("id")?.as_str()?))).collect()
}
