//! How to reach the server and on which terms we write to it.

use std::collections::BTreeSet;
use std::time::Duration;

use smol_str::SmolStr;

/// Longest answer read, in bytes. CapabilityStatements of full servers have some megabytes.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Who else writes to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Others do: what is there is read before the first write, and their elements stay.
    Shared,
    /// Nobody: no read before the first write, and the whole resource is ours.
    Exclusive,
}

/// Who gives ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The server; resources are matched on their identifier.
    Server,
    /// We do, deterministically (`PUT Type/id`): for servers that we alone fill, so ownership is exclusive then.
    Client,
}

/// Settings of a [`crate::Writer`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The server's base address, e.g. `https://fhir.example.org/r4`.
    pub base_url: String,
    /// Who else writes.
    pub ownership: Ownership,
    /// Who gives ids.
    pub identity: Identity,
    /// Systems of identifiers that only we give: a resource matched on one is ours, so nothing is read before its first write.
    pub own_systems: BTreeSet<SmolStr>,
    /// For a connection, TLS included.
    pub connect_timeout: Duration,
    /// For a request from start to the end of its answer.
    pub request_timeout: Duration,
    /// Longest answer read, in bytes.
    pub answer_bytes_max: usize,
}

impl Config {
    /// The default settings for a server.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            ownership: Ownership::Shared,
            identity: Identity::Server,
            own_systems: BTreeSet::new(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_mins(1),
            answer_bytes_max: ANSWER_BYTES_MAX,
        }
    }
}
