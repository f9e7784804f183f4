//! A FHIR R4 endpoint in memory, for the demo and the tests; it says so in its CapabilityStatement.
//!
//! Lives here: the interactions of the R4 RESTful API that a writer of patients and encounters uses (read, vread,
//! history, create, update, delete, their conditional forms, search, batch, transaction), and switches to deviate from the
//! standard as real servers do ([`Profile`]). Does not: durability, security, terminology, the rest of the API.
//!
//! Contract: one interaction, and one transaction, is all or nothing and runs alone; every error is an OperationOutcome
//! unless the profile says otherwise.

mod batch;
mod capability;
mod counters;
mod digest;
mod engine;
mod http;
mod outcome;
mod profile;
mod request;
mod resources;
mod search;
mod transaction;

use std::future::IntoFuture as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use fhir::Json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use counters::Counters;
pub use profile::{Failure, Profile};

/// What `CapabilityStatement.software.name` says.
pub const SOFTWARE_NAME: &str = "Sluice sandbox (in memory, not for production)";

/// Path under which a sandbox started with [`Sandbox::start`] serves.
const BASE_PATH: &str = "/fhir";

/// The sandbox's state, shared by its endpoint and whoever watches it. Clones are the same sandbox.
#[derive(Clone, Debug)]
pub struct Sandbox {
    engine: Arc<Mutex<engine::Engine>>,
}

/// A sandbox being served.
#[derive(Debug)]
pub struct Running {
    /// Where: `http://127.0.0.1:1234/fhir`, without a slash at the end.
    pub base_url: String,
    /// Its state.
    pub sandbox: Sandbox,
    shutdown: CancellationToken,
    serving: JoinHandle<std::io::Result<()>>,
}

/// A sandbox can't be started.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {addr}")]
pub struct StartError {
    /// The address asked for.
    pub addr: SocketAddr,
    /// What the system said.
    #[source]
    pub source: std::io::Error,
}

impl Sandbox {
    /// An empty sandbox that calls itself `base_url` in links and locations.
    pub fn new(base_url: impl Into<String>, profile: Profile) -> Self {
        Self { engine: Arc::new(Mutex::new(engine::Engine::new(base_url.into(), profile))) }
    }

    /// Starts an empty sandbox on `addr`; port 0 takes a free one.
    pub async fn start(addr: SocketAddr, profile: Profile) -> Result<Running, StartError> {
        let fault = |source| StartError { addr, source };
        let socket = tokio::net::TcpListener::bind(addr).await.map_err(fault)?;
        let base_url = format!("http://{}{BASE_PATH}", socket.local_addr().map_err(fault)?);
        let sandbox = Self::new(base_url.clone(), profile);
        let router = Router::new().nest_service(BASE_PATH, sandbox.router());
        let shutdown = CancellationToken::new();
        let stopped = shutdown.clone().cancelled_owned();
        let service = router.into_make_service_with_connect_info::<http::Cutter>();
        let serving = axum::serve(http::CuttableListener(socket), service).with_graceful_shutdown(stopped);
        Ok(Running { base_url, sandbox, shutdown, serving: tokio::spawn(serving.into_future()) })
    }

    /// The endpoint, to be served under the path of the base URL.
    pub fn router(&self) -> Router {
        http::router(self.clone())
    }

    /// The switches as they are now; one-shot switches count down in them.
    pub fn profile(&self) -> Profile {
        self.engine().profile.clone()
    }

    /// Changes switches of the running sandbox.
    pub fn set_profile(&self, change: impl FnOnce(&mut Profile)) {
        change(&mut self.engine().profile);
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.engine().counters
    }

    /// Every resource that is not deleted, by type and id.
    pub fn resources(&self) -> Vec<Json> {
        self.engine().resources.iter().map(|(_, content)| Json::clone(content)).collect()
    }

    /// The resource `Type/id`, unless it is deleted.
    pub fn resource(&self, resource_type: &str, id: &str) -> Option<Json> {
        self.engine().resources.read(&resources::Key::new(resource_type, id)).map(|content| Json::clone(content))
    }

    /// Number of versions of `Type/id`, deletions included.
    pub fn versions(&self, resource_type: &str, id: &str) -> usize {
        self.engine().resources.history(&resources::Key::new(resource_type, id)).len()
    }

    /// A hash of what the resources say: equal for two sandboxes that hold the same content under other ids, versions
    /// and times. References count as what they point at, ids as nothing.
    pub fn digest(&self) -> String {
        digest::digest(&self.engine().resources)
    }

    fn engine(&self) -> MutexGuard<'_, engine::Engine> {
        // A panic under the lock is a fault of the sandbox; the tests that look at it afterwards should still see.
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Stops serving; requests under way are answered.
    pub async fn stop(self) {
        self.shutdown.cancel();
        // The server's result is only ever an error of accepting, which axum retries itself.
        if let Err(error) = self.serving.await {
            tracing::warn!(%error, "sandbox failed");
        }
    }
}
