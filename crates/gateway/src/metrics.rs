//! The counters and gauges of `/metrics`. Labels are codes and names from the configuration, never message content.

use std::time::SystemTime;

use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};
use store::{Counts, Status};

/// All metrics of one process.
#[expect(missing_docs, reason = "each is explained by its help text below")]
pub struct Metrics {
    registry: Registry,
    pub receipts: IntCounterVec,
    pub answers: IntCounterVec,
    pub alerts: IntCounterVec,
    pub mapping_issues: IntCounterVec,
    pub accept_seconds: Histogram,
    pub bundles: IntCounterVec,
    pub bundle_seconds: Histogram,
    pub fhir_requests: IntCounter,
    pub resources_written: IntCounter,
    pub resources_unchanged: IntCounter,
    pub subjects_parked: IntGauge,
    pub listener: IntGaugeVec,
    pub messages: IntGaugeVec,
    pub pending_age_seconds: IntGauge,
}

impl Metrics {
    /// Registers everything once.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, label: &str| -> Result<IntCounterVec, prometheus::Error> {
            let metric = IntCounterVec::new(Opts::new(name, help), &[label])?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let total = |name: &str, help: &str| -> Result<IntCounter, prometheus::Error> {
            let metric = IntCounter::new(name, help)?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let gauge = |name: &str, help: &str, labels: &[&str]| -> Result<IntGaugeVec, prometheus::Error> {
            let metric = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let seconds = |name: &str, help: &str| -> Result<Histogram, prometheus::Error> {
            let buckets = prometheus::exponential_buckets(0.000_25, 2.0, 16)?;
            let metric = Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets))?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let number = |name: &str, help: &str| -> Result<IntGauge, prometheus::Error> {
            let metric = IntGauge::new(name, help)?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        Ok(Self {
            receipts: counter("sluice_receipts_total", "Arrivals by verdict", "verdict")?,
            answers: counter("sluice_answers_total", "Answers by MSA-1 code", "code")?,
            alerts: counter("sluice_alerts_total", "Alerts and refusals by outcome code", "code")?,
            mapping_issues: counter(
                "sluice_mapping_issues_total",
                "Fields not mapped as they should be, by code",
                "code",
            )?,
            accept_seconds: seconds("sluice_accept_seconds", "From the whole frame to the durable answer")?,
            bundles: counter("sluice_bundles_total", "Transaction bundles by result", "result")?,
            bundle_seconds: seconds("sluice_bundle_seconds", "Duration of one transaction on the FHIR server")?,
            fhir_requests: total("sluice_fhir_requests_total", "HTTP requests to the FHIR server")?,
            resources_written: total("sluice_resources_written_total", "Resources created or updated")?,
            resources_unchanged: total(
                "sluice_resources_unchanged_total",
                "Resources found as they should be: no write",
            )?,
            subjects_parked: number("sluice_subjects_parked", "Subjects put aside until an operator retries")?,
            listener: gauge("sluice_listener", "Connections and frames of the MLLP listeners", &["name", "what"])?,
            messages: gauge("sluice_messages", "Messages in the store by state", &["state"])?,
            pending_age_seconds: number("sluice_pending_age_seconds", "Age of the oldest message not yet delivered")?,
            registry,
        })
    }

    /// Takes over the figures of the store.
    pub fn stored(&self, counts: &Counts, now: SystemTime) {
        let gauge = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        for status in [Status::Pending, Status::Applied, Status::Parked, Status::Rejected] {
            let count = counts.statuses.get(&status).copied().unwrap_or(0);
            self.messages.with_label_values(&[status.as_str()]).set(gauge(count));
        }
        let age = counts.oldest_pending.and_then(|at| now.duration_since(at).ok());
        self.pending_age_seconds.set(age.map_or(0, |age| gauge(age.as_secs())));
        self.subjects_parked.set(gauge(counts.parked_subjects.values().sum()));
    }

    /// The Prometheus text format.
    pub fn render(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_default()
    }
}
