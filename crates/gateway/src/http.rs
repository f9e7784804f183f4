//! `/healthz`, `/readyz` and `/metrics`: is the process alive, may traffic come, what are the figures.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use store::Store;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::metrics::Metrics;

/// How long the process is unready after a message could not be stored. Then it has to be tried: nothing else would show
/// that the store takes messages again.
const UNREADY: Duration = Duration::from_secs(5);

/// Whether traffic may come: listeners are bound and the store takes messages. The FHIR server being away does not make
/// the process unready, since messages are still taken and kept.
#[derive(Default)]
pub struct Readiness {
    listening: AtomicBool,
    failed_at: Mutex<Option<Instant>>,
}

impl Readiness {
    /// The listeners are bound (or closed again).
    pub fn listening(&self, yes: bool) {
        self.listening.store(yes, Ordering::Relaxed);
    }

    /// The last accept reached the disk (or failed to).
    pub fn store(&self, yes: bool) {
        let failed_at = (!yes).then(Instant::now);
        *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner) = failed_at;
    }

    fn ready(&self) -> bool {
        let failed_at = *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner);
        self.listening.load(Ordering::Relaxed) && failed_at.is_none_or(|at| at.elapsed() >= UNREADY)
    }
}

/// What the endpoint shows.
#[derive(Clone)]
pub struct Shared {
    /// What is stored.
    pub store: Arc<dyn Store>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Whether traffic may come.
    pub readiness: Arc<Readiness>,
}

/// Serves until `stop`.
pub async fn serve(listener: TcpListener, shared: Shared, stop: CancellationToken) -> std::io::Result<()> {
    let app = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(render))
        .with_state(shared);
    axum::serve(listener, app).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn readyz(State(shared): State<Shared>) -> impl IntoResponse {
    if shared.readiness.ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}

/// Gauges of the store are read now: who scrapes sees what is, from the first scrape on.
async fn render(State(shared): State<Shared>) -> impl IntoResponse {
    match shared.store.counts().await {
        Ok(counts) => shared.metrics.stored(&counts, SystemTime::now()),
        Err(error) => warn!(%error, "the gauges of the store are old"),
    }
    ([("content-type", "text/plain; version=0.0.4")], shared.metrics.render())
}
