//! One FHIR transaction over HTTP, and what each answer means (DESIGN §5).
//!
//! Here: the bundle for a set of resources, sending it, reading what the server holds, and what the server can do. Not here:
//! which resources to write (`chart`), when to try again and what becomes of a message (the gateway), durability (`store`).
//!
//! Contract: a transaction either succeeded, certainly was not written, or its outcome is unknown, and the error says which.
//! No identifier of a patient is ever part of a URL, an error's text or a log line.

mod adopt;
mod answer;
pub mod backoff;
mod capability;
mod config;
mod error;
mod http;
mod lookup;
mod matching;
mod ownership;
mod prepare;
mod probe;
mod send;

use std::collections::BTreeMap;

use fhir::{Json, ResourceKey};
use smol_str::SmolStr;

pub use adopt::Standing;
pub use backoff::Backoff;
pub use capability::Capabilities;
pub use config::{Config, Identity, Ownership};
pub use error::{ConnectError, LookupError, Reason, TransactError};
pub use lookup::{Found, Question, Remote};
pub use matching::criteria;
pub use prepare::Prepared;

/// `fullUrl` (`urn:uuid:…`) to `Type/id`, for references to resources that are not in the bundle.
pub type Targets = BTreeMap<SmolStr, SmolStr>;

/// A resource to be written.
#[derive(Clone)]
pub struct Write {
    /// What it is matched on at first contact; the resource carries it as `identifier`, or as `meta.tag` where its type has
    /// no identifier.
    pub key: ResourceKey,
    /// The resource, without `id`; references to other resources of ours are their `fullUrl`.
    pub resource: Json,
    /// What the server is known to hold; `None` before first contact.
    pub known: Option<Known>,
}

/// What is known of a resource on the server.
#[derive(Clone, PartialEq, Eq)]
pub struct Known {
    /// `Type/id`
    pub server_id: SmolStr,
    /// The version we last saw, as for `ifMatch`; without one the update is unconditional.
    pub etag: Option<SmolStr>,
    /// What others wrote into the resource, as [`Written::foreign`] gave it: opaque to everyone else.
    pub foreign: Option<Json>,
}

impl Known {
    /// What is known of a resource that is to live under an id of ours because its key finds another one: nothing but
    /// where it will be. Writing it again changes nothing, so no version is expected.
    pub fn under_our_id(key: &ResourceKey) -> Self {
        let server_id = [&key.resource_type, "/", matching::client_id(&key.full_url())].concat();
        Self { server_id: server_id.into(), etag: None, foreign: None }
    }
}

/// A resource as the server now holds it.
#[derive(Clone, PartialEq, Eq)]
pub struct Written {
    /// Our name for it.
    pub full_url: SmolStr,
    /// `Type/id`
    pub server_id: SmolStr,
    /// The version to expect next time; `None` where the server tells none.
    pub etag: Option<SmolStr>,
    /// What to keep beside our elements next time; `None` under exclusive ownership.
    pub foreign: Option<Json>,
    /// Whether the resource is new.
    pub created: bool,
}

/// Writes to one FHIR server. Clones share connections.
#[derive(Clone, Debug)]
pub struct Writer {
    http: http::Http,
    config: Config,
    capabilities: Capabilities,
}

impl Writer {
    /// Finds out what the server is and can do; refuses one that cannot be written to safely.
    pub async fn connect(mut config: Config) -> Result<Self, ConnectError> {
        if config.identity == Identity::Client {
            config.ownership = Ownership::Exclusive;
        }
        let http = http::Http::new(&config)?;
        let capabilities = probe::probe(&http, &config).await?;
        tracing::info!(%capabilities, "FHIR server");
        for warning in capabilities.warnings(config.identity) {
            tracing::warn!("FHIR server: {warning}");
        }
        Ok(Self { http, config, capabilities })
    }

    /// What the server can do.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// How many requests were made to the server, the probe's included.
    pub fn requests(&self) -> u64 {
        self.http.requests()
    }

    /// Prepares and sends: one request, and before it one batch of searches where resources that others may have
    /// written are met for the first time.
    pub async fn transact(&self, writes: &[Write], targets: &Targets) -> Result<Vec<Written>, TransactError> {
        self.send(self.prepare(writes, targets).await?).await
    }
}

impl std::fmt::Debug for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Write({:?}, {:?})", self.key, self.known)
    }
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Known({}, {})", self.server_id, self.etag.as_deref().unwrap_or("-"))
    }
}

impl std::fmt::Debug for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = if self.created { "created" } else { "updated" };
        write!(f, "Written({}, {verb} {}, {})", self.full_url, self.server_id, self.etag.as_deref().unwrap_or("-"))
    }
}
