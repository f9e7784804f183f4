//! The running whole: store, rules, listeners, delivery and the HTTP endpoint, started and stopped together.
//!
//! Contract of a stop: listeners take no more, frames and bundles in flight finish within the deadline, the store closes
//! last. Whatever is cut off by the deadline is as after a crash: nothing acknowledged is lost.

use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::sync::Arc;

use std::time::Duration;

use mapping::Plan;
use mllp::{FrameEnd, Limits, Listener, ListenerConfig, OnOversize};
use store::Store;
use store::sqlite::{SqliteOptions, SqliteStore};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use writer::Writer;

use crate::config::{self, Config};
use crate::deliver::Deliverer;
use crate::http::{self, Readiness};
use crate::judge::{Judge, UnusableSender};
use crate::metrics::Metrics;
use crate::receive::Receiver;
use crate::rules;

/// How often gauges are read from a listener.
const GAUGE_PERIOD: Duration = Duration::from_secs(1);
/// Longest wait between tries to reach a FHIR server that is down at the start.
const CONNECT_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Why the gateway can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The rules.
    #[error(transparent)]
    Rules(#[from] rules::LoadError),
    /// The store.
    #[error("cannot open the store {path}")]
    Store {
        /// Its file.
        path: String,
        /// Why.
        #[source]
        source: store::OpenError,
    },
    /// Another `sluice serve` has the store.
    #[error("another process serves the store {path}: one process per file")]
    InUse {
        /// Its file.
        path: String,
    },
    /// The lock beside the store.
    #[error("cannot lock the store {path}")]
    Lock {
        /// Its file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Reading the store's identity key.
    #[error("cannot read the store's identity key")]
    IdentityKey(#[from] store::ReadError),
    /// A sender.
    #[error(transparent)]
    Sender(#[from] UnusableSender),
    /// An MLLP listener.
    #[error(transparent)]
    Bind(#[from] mllp::BindError),
    /// The HTTP endpoint.
    #[error("cannot listen on {address} for HTTP")]
    Http {
        /// Its address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The settings of the FHIR server.
    #[error("the settings of the FHIR server are unusable")]
    Writer(#[source] writer::ConnectError),
    /// A metric is registered twice.
    #[error("cannot register the metrics")]
    Metrics(#[from] prometheus::Error),
}

/// A started gateway.
pub struct Gateway {
    /// MLLP addresses, in the order of the configuration.
    pub mllp: Vec<SocketAddr>,
    /// Address of `/healthz`, `/readyz` and `/metrics`.
    pub http: SocketAddr,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// Its store.
    pub store: Arc<dyn Store>,
    /// Its rules and senders.
    pub judge: Arc<Judge>,
    listening: CancellationToken,
    delivering: CancellationToken,
    listeners: JoinSet<mllp::Stopped>,
    tasks: JoinSet<()>,
    readiness: Arc<Readiness>,
    deadline: Duration,
    /// Held as long as the gateway runs.
    _lock: File,
}

/// Opens the store a configuration names.
pub async fn open_store(config: &Config) -> Result<SqliteStore, StartError> {
    open(config, false).await
}

/// Makes sure that no other process serves the same file, until the lock is dropped or the process ends, however it does.
fn sole(path: &str) -> Result<File, StartError> {
    let file = File::create(format!("{path}.lock")).map_err(|source| StartError::Lock { path: path.into(), source })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StartError::InUse { path: path.into() }),
        Err(TryLockError::Error(source)) => Err(StartError::Lock { path: path.into(), source }),
    }
}

async fn open(config: &Config, serves_alone: bool) -> Result<SqliteStore, StartError> {
    SqliteStore::open(&config.store.path, SqliteOptions { serves_alone, ..SqliteOptions::default() })
        .await
        .map_err(|source| StartError::Store { path: config.store.path.clone(), source })
}

/// The writer's settings. Identifiers of our own systems are nobody else's, so nothing is read before their first write.
pub fn writer_config(config: &Config) -> writer::Config {
    let fhir = &config.fhir;
    writer::Config {
        ownership: match fhir.ownership {
            config::Ownership::Shared => writer::Ownership::Shared,
            config::Ownership::Exclusive => writer::Ownership::Exclusive,
        },
        own_systems: config.senders.values().map(|s| s.own_system.as_str().into()).collect(),
        connect_timeout: Duration::from_secs(fhir.connect_timeout_s),
        request_timeout: Duration::from_secs(fhir.request_timeout_s),
        ..writer::Config::new(fhir.base_url.trim_end_matches('/'))
    }
}

impl Gateway {
    /// Starts everything. Listeners take messages at once; delivery begins when the FHIR server answers.
    pub async fn start(config: &Config) -> Result<Self, StartError> {
        Self::start_with(config, Arc::new(rules::load(&config.mapping.directory)?)).await
    }

    /// Starts with rules compiled before; `mapping.directory` is not read.
    pub async fn start_with(config: &Config, plan: Arc<Plan>) -> Result<Self, StartError> {
        let lock = sole(&config.store.path)?;
        let store: Arc<dyn Store> = Arc::new(open(config, true).await?);
        let judge = Arc::new(Judge::new(plan, config, store.identity_key().await?)?);
        let metrics = Arc::new(Metrics::new()?);
        let readiness = Arc::new(Readiness::default());
        let http_listener = TcpListener::bind(config.http.address)
            .await
            .map_err(|source| StartError::Http { address: config.http.address, source })?;
        let http = http_listener.local_addr().unwrap_or(config.http.address);
        let mut gateway = Self {
            mllp: Vec::new(),
            http,
            metrics,
            store,
            judge,
            listening: CancellationToken::new(),
            delivering: CancellationToken::new(),
            listeners: JoinSet::new(),
            tasks: JoinSet::new(),
            readiness,
            deadline: config.stop.deadline(),
            _lock: lock,
        };
        for listener in &config.listeners {
            gateway.listen(listener, &config.stop).await?;
        }
        gateway.serve_http(http_listener);
        gateway.deliver(config);
        gateway.readiness.store(true);
        gateway.readiness.listening(true);
        info!(mllp = ?gateway.mllp, %http, mapping = gateway.judge.mapping_version(), "sluice is up");
        Ok(gateway)
    }

    async fn listen(&mut self, settings: &config::Listener, stop: &config::Stop) -> Result<(), StartError> {
        let listener = Listener::bind(settings.address, listener_config(settings, stop)).await?;
        self.mllp.push(listener.local_addr());
        let receiver = Receiver {
            judge: Arc::clone(&self.judge),
            store: Arc::clone(&self.store),
            metrics: Arc::clone(&self.metrics),
            readiness: Arc::clone(&self.readiness),
            sender: settings.sender.clone(),
        };
        let (counters, metrics, name) = (listener.counters(), Arc::clone(&self.metrics), settings.name.clone());
        let done = self.delivering.clone();
        self.tasks.spawn(async move {
            while !done.is_cancelled() {
                for (what, value) in counters.list() {
                    let gauge = metrics.listener.with_label_values(&[&name, what]);
                    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
                }
                tokio::select! { () = tokio::time::sleep(GAUGE_PERIOD) => {}, () = done.cancelled() => {} }
            }
        });
        self.listeners.spawn(listener.serve(Arc::new(receiver), self.listening.clone()));
        Ok(())
    }

    fn serve_http(&mut self, listener: TcpListener) {
        let shared = http::Shared {
            store: Arc::clone(&self.store),
            metrics: Arc::clone(&self.metrics),
            readiness: Arc::clone(&self.readiness),
        };
        let stop = self.delivering.clone();
        self.tasks.spawn(async move {
            if let Err(error) = http::serve(listener, shared, stop).await {
                warn!(%error, "the HTTP endpoint ended");
            }
        });
    }

    /// Connects to the FHIR server, however long that takes, then delivers.
    fn deliver(&mut self, config: &Config) {
        let (store, judge, metrics) = (Arc::clone(&self.store), Arc::clone(&self.judge), Arc::clone(&self.metrics));
        let (mut settings, writer_config) = (config.deliver.clone(), writer_config(config));
        // A lease outlasts a bundle: a search before it, the transaction, a reading back after it.
        settings.lease_s = settings.lease_s.max(config.fhir.request_timeout_s.saturating_mul(3));
        let stop = self.delivering.clone();
        self.tasks.spawn(async move {
            let Some(writer) = connect(writer_config, &metrics, &stop).await else { return };
            let owner = format!("{}-{}", std::process::id(), uuid::Uuid::now_v7().simple());
            let deliverer = Arc::new(Deliverer::new(store, writer, judge, metrics, settings, owner));
            deliverer.run(stop).await;
        });
    }

    /// Stops in order; true when everything finished within the deadline.
    pub async fn stop(mut self) -> bool {
        self.readiness.listening(false);
        self.listening.cancel();
        let clean = tokio::time::timeout(self.deadline, async {
            while self.listeners.join_next().await.is_some() {}
            self.delivering.cancel();
            while self.tasks.join_next().await.is_some() {}
        })
        .await
        .is_ok();
        self.delivering.cancel();
        self.tasks.abort_all();
        self.store.close().await;
        info!(clean, "sluice is down");
        clean
    }
}

async fn connect(config: writer::Config, metrics: &Metrics, stop: &CancellationToken) -> Option<Writer> {
    let mut pause = Duration::from_millis(200);
    loop {
        match Writer::connect(config.clone()).await {
            Ok(writer) => return Some(writer),
            Err(error) => {
                let reason = crate::telemetry::chain(&error);
                warn!(reason, code = "FHIR_UNAVAILABLE", "no usable FHIR server yet; messages are taken and kept");
                metrics.alerts.with_label_values(&["FHIR_UNAVAILABLE"]).inc();
            }
        }
        tokio::select! { () = tokio::time::sleep(pause) => {}, () = stop.cancelled() => return None }
        pause = (pause * 2).min(CONNECT_PAUSE_MAX);
    }
}

fn listener_config(settings: &config::Listener, stop: &config::Stop) -> ListenerConfig {
    ListenerConfig {
        limits: Limits {
            frame_bytes_max: settings.frame_bytes_max,
            preamble_bytes_max: settings.preamble_bytes_max,
            in_flight_frames_max: settings.in_flight_max,
            connections_max: settings.connections_max,
            connections_per_peer_max: settings.connections_max,
            frame_timeout: Duration::from_secs(settings.frame_timeout_s),
            idle_timeout: Some(Duration::from_secs(settings.idle_timeout_s)),
            stop_timeout: stop.deadline(),
            ..Limits::default()
        },
        end: if settings.strict_end { FrameEnd::Strict } else { FrameEnd::Lenient },
        on_oversize: OnOversize::Skip,
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.listening.cancel();
        self.delivering.cancel();
    }
}
