//! The typed settings and the checks that types alone can't make.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Value;

use super::Fault;
use super::overlay::Merged;

/// The whole configuration; the fields are explained in `deploy/config.default.toml`.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the default configuration file documents each setting")]
pub struct Config {
    pub store: Store,
    pub http: Http,
    pub fhir: Fhir,
    pub mapping: Mapping,
    pub receive: Receive,
    pub deliver: Deliver,
    pub stop: Stop,
    pub log: Log,
    pub listeners: Vec<Listener>,
    pub senders: BTreeMap<String, Sender>,
}

/// `[store]`
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the default configuration file documents each setting")]
pub struct Store {
    pub path: String,
}

/// `[http]`
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the default configuration file documents each setting")]
pub struct Http {
    pub address: SocketAddr,
}

/// `[fhir]`
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the default configuration file documents each setting")]
pub struct Fhir {
    pub base_url: String,
    pub ownership: Ownership,
    pub connect_timeout_s: u64,
    pub request_timeout_s: u64,
}

/// Who else writes to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ownership {
    /// Others do: their elements stay.
    Shared,
    /// Nobody: no read before the first write.
    Exclusive,
}

/// `[mapping]`
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the default configuration file documents each setting")]
pub struct Mapping {
    pub directory: String,
    pub message_header: bool,
}

/// `[receive]`
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the default configuration file documents each setting")]
pub struct Receive {
    pub processing_ids: Vec<String>,
}

/// When pending messages of one subject share a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coalesce {
    /// A bundle per message, so that the server's history shows every state.
    Never,
    /// From `backlog_messages` pending messages on.
    Backlog,
    /// Whenever more than one is pending.
    Always,
}

/// `[deliver]`
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the default configuration file documents each setting")]
pub struct Deliver {
    pub workers: usize,
    pub coalesce: Coalesce,
    pub backlog_messages: usize,
    pub messages_per_claim: usize,
    pub lease_s: u64,
    pub retry_first_ms: u64,
    pub retry_max_s: u64,
    pub bundle_directory: String,
}

/// `[stop]`
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the default configuration file documents each setting")]
pub struct Stop {
    pub deadline_s: u64,
}

impl Stop {
    /// How long work in flight may take to finish.
    pub fn deadline(&self) -> Duration {
        Duration::from_secs(self.deadline_s)
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For a person at a terminal.
    Text,
}

/// `[log]`
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the default configuration file documents each setting")]
pub struct Log {
    pub level: String,
    pub format: LogFormat,
}

/// One `[[listener]]`
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the default configuration file documents each setting")]
pub struct Listener {
    pub name: String,
    pub address: SocketAddr,
    pub sender: String,
    pub connections_max: usize,
    pub frame_bytes_max: usize,
    pub preamble_bytes_max: usize,
    pub frame_timeout_s: u64,
    pub idle_timeout_s: u64,
    pub in_flight_max: usize,
    pub strict_end: bool,
}

/// One `[sender.*]`
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the default configuration file documents each setting")]
pub struct Sender {
    pub sending_application: String,
    pub sending_facility: String,
    pub time_zone: String,
    pub charset: String,
    pub own_system: String,
    pub namespace_base: String,
    pub patient_id_system: String,
    pub visit_id_system: String,
    pub encounter_fallbacks: Vec<String>,
    pub sequence_numbers: bool,
    pub monotone_control_ids: bool,
    pub restamps: bool,
    pub authorities: BTreeMap<String, String>,
}

/// Reads the sections one by one, so that a fault in one hides none in another.
struct Sections<'m> {
    merged: &'m Merged,
    faults: Vec<Fault>,
}

impl Sections<'_> {
    fn fault(&mut self, key: &str, message: impl Into<String>) {
        let message = format!("`{key}` {}", message.into());
        self.faults.push(Fault { line: self.merged.line(key), message });
    }

    /// Reads the section at `key`; where it is wrong, lays its keys one by one over `sound`, its default, to name the wrong ones.
    fn read<T: DeserializeOwned>(&mut self, key: &str, value: Option<&Value>, sound: Option<&Value>) -> Option<T> {
        let (Some(Value::Table(table)), Some(Value::Table(sound))) = (value, sound) else {
            self.fault(key, "is missing");
            return None;
        };
        let whole = match Value::Table(table.clone()).try_into::<T>() {
            Ok(section) => return Some(section),
            Err(error) => error,
        };
        let before = self.faults.len();
        for (name, value) in table {
            let mut one = sound.clone();
            one.insert(name.clone(), value.clone());
            if let Err(error) = Value::Table(one).try_into::<T>() {
                self.fault(&format!("{key}.{name}"), format!("is wrong: {}", error.message().trim_end()));
            }
        }
        if self.faults.len() == before {
            self.fault(key, format!("is wrong: {}", whole.message().trim_end()));
        }
        None
    }

    /// Reads a section that stands once, under its own name.
    fn section<T: DeserializeOwned>(&mut self, key: &str) -> Option<T> {
        let merged = self.merged;
        self.read(key, merged.table.get(key), merged.defaults.get(key))
    }

    fn at_least_one(&mut self, key: &str, value: usize) {
        if value == 0 {
            self.fault(key, "must be at least 1");
        }
    }
}

pub(super) fn typed(merged: &Merged) -> Result<Config, Vec<Fault>> {
    let mut s = Sections { merged, faults: Vec::new() };
    let store = s.section("store");
    let http = s.section("http");
    let fhir = s.section::<Fhir>("fhir");
    let mapping = s.section("mapping");
    let receive = s.section("receive");
    let deliver = s.section::<Deliver>("deliver");
    let stop = s.section("stop");
    let log = s.section("log");
    let senders = senders(&mut s);
    let listeners = listeners(&mut s, &senders);
    if let Some(d) = &deliver {
        s.at_least_one("deliver.workers", d.workers);
        s.at_least_one("deliver.messages_per_claim", d.messages_per_claim);
        s.at_least_one("deliver.lease_s", usize::try_from(d.lease_s).unwrap_or(usize::MAX));
        s.at_least_one("deliver.retry_max_s", usize::try_from(d.retry_max_s).unwrap_or(usize::MAX));
    }
    if let Some(f) = &fhir
        && !(f.base_url.starts_with("http://") || f.base_url.starts_with("https://"))
    {
        s.fault("fhir.base_url", "must begin with http:// or https://");
    }
    if !s.faults.is_empty() {
        s.faults.sort_by_key(|f| f.line);
        return Err(s.faults);
    }
    let whole = (|| {
        Some(Config {
            store: store?,
            http: http?,
            fhir: fhir?,
            mapping: mapping?,
            receive: receive?,
            deliver: deliver?,
            stop: stop?,
            log: log?,
            listeners,
            senders,
        })
    })();
    whole.ok_or_else(|| vec![Fault { line: 0, message: "a section is missing".into() }])
}

fn senders(s: &mut Sections<'_>) -> BTreeMap<String, Sender> {
    let mut senders = BTreeMap::new();
    let merged = s.merged;
    let Some(Value::Table(all)) = merged.table.get("sender") else { return senders };
    let sound = merged.defaults.get("sender").and_then(|t| t.get("default"));
    for (name, value) in all {
        let key = format!("sender.{name}");
        let Some(sender) = s.read::<Sender>(&key, Some(value), sound) else { continue };
        if mapping::Zone::named(&sender.time_zone).is_err() {
            s.fault(&format!("{key}.time_zone"), format!("is no IANA time zone: {}", sender.time_zone));
        }
        let uris = [("own_system", &sender.own_system), ("namespace_base", &sender.namespace_base)];
        let optional = [("patient_id_system", &sender.patient_id_system), ("visit_id_system", &sender.visit_id_system)];
        let optional = optional.into_iter().filter(|(_, uri)| !uri.is_empty());
        for (name, uri) in uris.into_iter().chain(optional) {
            if !fhir::primitive::is_absolute_uri(uri) {
                s.fault(
                    &format!("{key}.{name}"),
                    "must be an absolute URI, such as urn:oid:1.2.3 or https://example.org/id",
                );
            }
        }
        for (name, uri) in &sender.authorities {
            if !fhir::primitive::is_absolute_uri(uri) {
                s.fault(&format!("{key}.authorities.{name}"), "must be an absolute URI");
            }
        }
        if hl7::Charset::from_name(&sender.charset).is_none() {
            s.fault(&format!("{key}.charset"), format!("is no known character set: {}", sender.charset));
        }
        for fallback in &sender.encounter_fallbacks {
            if crate::judge::encounter_fallback(fallback).is_none() {
                s.fault(
                    &format!("{key}.encounter_fallbacks"),
                    format!("does not know {fallback}: use PV1-50, PID-18 or PV1-44"),
                );
            }
        }
        senders.insert(name.clone(), sender);
    }
    senders
}

fn listeners(s: &mut Sections<'_>, senders: &BTreeMap<String, Sender>) -> Vec<Listener> {
    let merged = s.merged;
    let Some(Value::Array(all)) = merged.table.get("listener") else { return Vec::new() };
    let sound = merged.defaults.get("listener").and_then(|l| l.get(0));
    let mut listeners = Vec::new();
    for (i, value) in all.iter().enumerate() {
        let key = format!("listener.{i}");
        let Some(Value::String(sender)) = value.get("sender") else { continue };
        let known = merged.table.get("sender").and_then(|t| t.get(sender)).is_some();
        if !known && !senders.contains_key(sender) {
            s.fault(&format!("{key}.sender"), format!("names no [sender.{sender}]"));
        }
        let Some(listener) = s.read::<Listener>(&key, Some(value), sound) else { continue };
        s.at_least_one(&format!("{key}.connections_max"), listener.connections_max);
        s.at_least_one(&format!("{key}.in_flight_max"), listener.in_flight_max);
        listeners.push(listener);
    }
    listeners
}
