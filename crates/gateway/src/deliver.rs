//! Deliver: claim a subject, fold its pending messages, write one bundle, settle (DESIGN §2, §5).
//!
//! Lives here: the loop and what follows from each answer. Does not: the fold (`fold`), HTTP (`writer`), durability
//! (`store`). No database transaction is open while a request is under way. Contract: a subject is settled only after
//! the server showed what its messages add up to, and whatever stops in between leaves a claim that is done again.

mod fold;
mod work;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use store::{Claim, Store};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use writer::{Backoff, Writer};

use crate::config;
use crate::judge::Judge;
use crate::metrics::Metrics;

/// First and longest wait before a subject is tried again whose shared resources another subject holds.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
const BUSY_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Longest sleep of a worker that nothing wakes.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// Longest wait before writing is tried again after 401 or 403.
const UNAUTHORIZED_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Writes what the messages add up to.
pub struct Deliverer {
    store: Arc<dyn Store>,
    writer: Writer,
    judge: Arc<Judge>,
    metrics: Arc<Metrics>,
    settings: config::Deliver,
    owner: String,
    /// The server refused our credentials: nobody's message is at fault, so nothing is tried until then.
    unauthorized_until: Mutex<Option<Instant>>,
    /// Failures in a row of subjects that the server is not available to.
    failures: Mutex<BTreeMap<String, u32>>,
    requests_counted: AtomicU64,
}

impl Deliverer {
    /// A deliverer; `owner` names this process in leases.
    pub fn new(
        store: Arc<dyn Store>,
        writer: Writer,
        judge: Arc<Judge>,
        metrics: Arc<Metrics>,
        settings: config::Deliver,
        owner: String,
    ) -> Self {
        let (unauthorized_until, failures) = (Mutex::default(), Mutex::default());
        // The probe's requests are no deliveries.
        let requests_counted = AtomicU64::new(writer.requests());
        Self { store, writer, judge, metrics, settings, owner, unauthorized_until, failures, requests_counted }
    }

    /// Runs the workers until `stop`; a bundle in flight is finished first.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut workers = JoinSet::new();
        for _ in 0..self.settings.workers {
            workers.spawn(Arc::clone(&self).worker(stop.clone()));
        }
        while let Some(ended) = workers.join_next().await {
            if let Err(fault) = ended
                && !stop.is_cancelled()
            {
                // The claim of a worker that panicked runs out and is taken over.
                error!(panic = fault.is_panic(), "a delivery worker ended");
                workers.spawn(Arc::clone(&self).worker(stop.clone()));
            }
        }
    }

    async fn worker(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let work = self.store.notified();
            let claimed = if self.unauthorized_for().is_some() { Ok(None) } else { self.claim().await };
            match claimed {
                Ok(Some(claim)) => self.subject(claim, &stop).await,
                Ok(None) => {
                    let pause = self.pause().await;
                    tokio::select! {
                        () = work => {}
                        () = tokio::time::sleep(pause) => {}
                        () = stop.cancelled() => {}
                    }
                }
                Err(fault) => {
                    error!(%fault, "cannot claim a subject");
                    tokio::select! { () = tokio::time::sleep(IDLE_MAX) => {}, () = stop.cancelled() => {} }
                }
            }
        }
    }

    async fn claim(&self) -> Result<Option<Claim>, store::ClaimError> {
        self.store.claim(&self.owner, self.lease(), SystemTime::now()).await
    }

    fn lease(&self) -> Duration {
        Duration::from_secs(self.settings.lease_s)
    }

    /// How long until something is due without anybody waking us.
    async fn pause(&self) -> Duration {
        if let Some(pause) = self.unauthorized_for() {
            return pause;
        }
        match self.store.next_due().await {
            Ok(Some(due)) => due.duration_since(SystemTime::now()).unwrap_or(Duration::from_millis(1)).min(IDLE_MAX),
            Ok(None) | Err(_) => IDLE_MAX,
        }
    }

    /// Delivers the pending messages of a claim, bundle by bundle.
    async fn subject(&self, claim: Claim, stop: &CancellationToken) {
        let batches = batches(&claim, &self.settings);
        let count = batches.len();
        let mut work = work::Work::new(self, claim);
        for (i, batch) in batches.into_iter().enumerate() {
            let keep = i + 1 < count && !stop.is_cancelled();
            match work.deliver(&batch, keep).await {
                work::Ended::Settled if keep => {}
                work::Ended::Settled | work::Ended::GivenUp => return,
                work::Ended::Unauthorized => {
                    let until = Instant::now() + self.unauthorized_pause();
                    *self.unauthorized_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
                    warn!(
                        code = "FHIR_UNAUTHORIZED",
                        "the FHIR server refuses our credentials: nothing is written until it takes them"
                    );
                    return;
                }
            }
        }
    }

    /// How long writing rests after a refusal of our credentials.
    fn unauthorized_pause(&self) -> Duration {
        UNAUTHORIZED_PAUSE_MAX.min(Duration::from_secs(self.settings.retry_max_s))
    }

    /// How long writing still rests. By the clock, since traffic wakes the workers all the time.
    fn unauthorized_for(&self) -> Option<Duration> {
        let until = (*self.unauthorized_until.lock().unwrap_or_else(PoisonError::into_inner))?;
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// How long a subject waits after one more failure.
    fn pause_after_failure(&self, subject: &str, retry_after: Option<Duration>) -> Duration {
        let first = Duration::from_millis(self.settings.retry_first_ms);
        let max = Duration::from_secs(self.settings.retry_max_s);
        self.next_pause(subject, Backoff { first, max }, retry_after)
    }

    /// How long a subject waits for a resource that another one holds: shortly at first, since a bundle is soon written.
    fn pause_while_busy(&self, subject: &str) -> Duration {
        self.next_pause(subject, Backoff { first: BUSY_PAUSE, max: BUSY_PAUSE_MAX }, Some(BUSY_PAUSE))
    }

    /// Counts one more vain try of a subject and says how long the next one waits.
    fn next_pause(&self, subject: &str, backoff: Backoff, at_least: Option<Duration>) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(subject.to_owned()).or_default();
        *count = count.saturating_add(1);
        backoff.delay(*count, at_least, fastrand::f64())
    }

    fn succeeded(&self, subject: &str) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(subject);
    }

    /// Keeps a copy of a bundle where the configuration asks for it. It holds PHI, like the store.
    async fn keep_bundle(&self, attempt_id: &str, text: &str) {
        if self.settings.bundle_directory.is_empty() {
            return;
        }
        let file = std::path::Path::new(&self.settings.bundle_directory).join(format!("{attempt_id}.json"));
        if let Err(error) = tokio::fs::write(&file, text).await {
            warn!(%error, "cannot keep a copy of the bundle in deliver.bundle_directory");
        }
    }

    /// Counts the requests made since it was last called, by whichever worker.
    fn count_requests(&self) {
        let total = self.writer.requests();
        let before = self.requests_counted.fetch_max(total, Ordering::Relaxed);
        self.metrics.fhir_requests.inc_by(total.saturating_sub(before));
    }
}

/// Splits the pending messages into those that share a bundle.
fn batches(claim: &Claim, settings: &config::Deliver) -> Vec<Vec<store::StoredMessage>> {
    let together = match settings.coalesce {
        _ if claim.refold => true,
        config::Coalesce::Never => false,
        config::Coalesce::Always => true,
        config::Coalesce::Backlog => claim.truncated || claim.messages.len() >= settings.backlog_messages.max(2),
    };
    if together || claim.messages.is_empty() {
        vec![claim.messages.clone()]
    } else {
        claim.messages.iter().map(|m| vec![m.clone()]).collect()
    }
}
