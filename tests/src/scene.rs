//! A gateway and a sandbox in this process, on ports and in a folder of their own.
//!
//! Every scene has the same identity key, so that two of them make the same identifiers of the same messages.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use fhir::Json;
use gateway::{Gateway, config, rules};
use mapping::Plan;
use sandbox::{Profile, Running, Sandbox};
use store::{Status, Store as _, Trace, Verdict};
use tempfile::TempDir;

use crate::digest;
use crate::wire::{self, Answer};

/// The key that every scene's store has.
const IDENTITY_KEY: [u8; 32] = *b"the identity key of every scene.";
/// Looks at a condition before it counts as never coming; with the pause between them about a minute.
const LOOKS_MAX: usize = 6000;
const PAUSE: Duration = Duration::from_millis(10);

/// Retries come quickly, so that a test waits for conditions and not for back-off.
const QUICK: &str = "retry_first_ms = 5\nretry_max_s = 1\n";

static PLAN: LazyLock<Arc<Plan>> = LazyLock::new(|| Arc::new(rules::load("").expect("the built-in rules compile")));

/// The built-in rules, compiled once in a test binary.
pub fn plan() -> Arc<Plan> {
    Arc::clone(&PLAN)
}

/// A running gateway and the sandbox it writes to.
pub struct Scene {
    /// The gateway.
    pub gateway: Gateway,
    /// The FHIR server.
    pub server: Running,
    folder: TempDir,
}

/// What a configuration of a scene says besides ports and the store.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Lines of `[fhir]`.
    pub fhir: String,
    /// Lines of `[deliver]`.
    pub deliver: String,
    /// Lines of the only `[[listener]]`.
    pub listener: String,
    /// Further sections.
    pub sections: String,
}

impl Scene {
    /// A gateway with default settings over a sandbox that keeps to the standard.
    pub async fn start() -> Self {
        Self::with(Settings::default(), Profile::default()).await
    }

    /// A gateway with these settings over a sandbox with this profile.
    pub async fn with(settings: Settings, profile: Profile) -> Self {
        let server = sandbox(profile).await;
        let (gateway, folder) = alone(&settings, &server.base_url).await;
        Self { gateway, server, folder }
    }

    /// A gateway whose FHIR server comes to this address only when `meanwhile` is over.
    pub async fn before_server(address: SocketAddr, meanwhile: impl AsyncFnOnce(&Gateway)) -> Self {
        let (gateway, folder) = alone(&Settings::default(), &format!("http://{address}/fhir")).await;
        meanwhile(&gateway).await;
        let server = Sandbox::start(address, Profile::default()).await.expect("the port is free again");
        Self { gateway, server, folder }
    }

    /// Stops the gateway and starts it again on the same store, under other settings perhaps.
    pub async fn restart(self, settings: &Settings) -> Self {
        assert!(self.gateway.stop().await, "the gateway stops within its deadline");
        let config = configuration(&self.folder, &self.server.base_url, settings);
        let gateway = Gateway::start_with(&config, plan()).await.expect("the gateway starts again");
        Self { gateway, ..self }
    }

    /// The sandbox's state.
    pub fn sandbox(&self) -> &Sandbox {
        &self.server.sandbox
    }

    /// Sends frames over one connection and gives all that is answered.
    pub async fn send<M: AsRef<[u8]>>(&self, messages: &[M]) -> Vec<Answer> {
        let bytes: Vec<u8> = messages.iter().flat_map(wire::frame).collect();
        self.send_bytes(&bytes).await
    }

    /// Sends bytes as they are over one connection and gives all that is answered.
    pub async fn send_bytes(&self, bytes: &[u8]) -> Vec<Answer> {
        wire::conversation(self.gateway.mllp[0], bytes).await
    }

    /// Sends messages over one connection; each must be taken.
    pub async fn accept<M: AsRef<[u8]>>(&self, messages: &[M]) {
        accept(&self.gateway, messages).await;
    }

    /// Waits until no message is pending but those of parked subjects.
    pub async fn drained(&self) {
        until("everything is delivered", async || self.pending().await == 0).await;
    }

    /// Messages taken and not delivered yet.
    pub async fn pending(&self) -> u64 {
        let counts = self.gateway.store.counts().await.expect("the store counts");
        counts.statuses.get(&Status::Pending).copied().unwrap_or(0)
    }

    /// Receipts with this verdict.
    pub async fn receipts(&self, verdict: Verdict) -> u64 {
        let counts = self.gateway.store.counts().await.expect("the store counts");
        counts.verdicts.get(&verdict).copied().unwrap_or(0)
    }

    /// Receipts with any verdict.
    pub async fn receipts_all(&self) -> u64 {
        self.gateway.store.counts().await.expect("the store counts").verdicts.values().sum()
    }

    /// The lineage of an id.
    pub async fn trace(&self, id: &str) -> Trace {
        self.gateway.store.trace(id).await.expect("the store traces")
    }

    /// Verdicts of the receipts of an MSH-10, in order of arrival.
    pub async fn verdicts(&self, control_id: &str) -> Vec<Verdict> {
        self.trace(control_id).await.receipts.iter().map(|r| r.verdict).collect()
    }

    /// What the server holds, as texts that are equal in two scenes whose servers say the same.
    pub fn state(&self) -> Vec<String> {
        digest::named(&digest::holdings_of(self.sandbox()))
    }

    /// Versions of all resources that messages led to: what a replay must not add to.
    pub fn versions(&self) -> usize {
        let held = digest::holdings_of(self.sandbox());
        let of = |name: &String| name.split_once('/').map(|(kind, id)| self.sandbox().versions(kind, id));
        held.keys().filter_map(of).sum()
    }

    /// Resources of a type on the server.
    pub fn resources(&self, resource_type: &str) -> Vec<Json> {
        let all = self.sandbox().resources().into_iter();
        all.filter(|resource| resource.resource_type() == Some(resource_type)).collect()
    }

    /// The only resource of a type with this identifier value.
    pub fn resource(&self, resource_type: &str, value: &str) -> Json {
        let mut found = self.resources(resource_type).into_iter().filter(|resource| identifies(resource, value));
        let first = found.next().unwrap_or_else(|| panic!("no {resource_type} {value}"));
        assert!(found.next().is_none(), "more than one {resource_type} {value}");
        first
    }

    /// How often this code was alerted.
    pub fn alerts(&self, code: &str) -> u64 {
        self.gateway.metrics.alerts.with_label_values(&[code]).get()
    }

    /// Stops all; the gateway must stop in time.
    pub async fn stop(self) {
        assert!(self.gateway.stop().await, "the gateway stops within its deadline");
        self.server.stop().await;
    }
}

/// Sends messages over one connection; each must be taken.
pub async fn accept<M: AsRef<[u8]>>(gateway: &Gateway, messages: &[M]) {
    let bytes: Vec<u8> = messages.iter().flat_map(wire::frame).collect();
    let answers = wire::conversation(gateway.mllp[0], &bytes).await;
    assert_eq!(answers.len(), messages.len());
    for answer in answers {
        assert_eq!(answer.code(), "AA", "{}", answer.text());
    }
}

/// A sandbox on a free port.
pub async fn sandbox(profile: Profile) -> Running {
    Sandbox::start("127.0.0.1:0".parse().expect("an address"), profile).await.expect("the sandbox starts")
}

/// A gateway with a store in a folder of its own.
async fn alone(settings: &Settings, fhir: &str) -> (Gateway, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = configuration(&folder, fhir, settings);
    let store = gateway::open_store(&config).await.expect("the store opens");
    store.import_identity_key(IDENTITY_KEY).await.expect("the key is taken");
    store.close().await;
    (Gateway::start_with(&config, plan()).await.expect("the gateway starts"), folder)
}

fn configuration(folder: &TempDir, fhir: &str, settings: &Settings) -> config::Config {
    let text = format!(
        "[store]\npath = {:?}\n[http]\naddress = \"127.0.0.1:0\"\n[fhir]\nbase_url = \"{fhir}\"\n{}\n\
         [deliver]\n{QUICK}{}\n[[listener]]\naddress = \"127.0.0.1:0\"\n{}\n{}",
        folder.path().join("sluice.db").display().to_string(),
        settings.fhir,
        settings.deliver,
        settings.listener,
        settings.sections,
    );
    config::parse(&text).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

/// Whether a resource has an identifier with this value.
pub fn identifies(resource: &Json, value: &str) -> bool {
    let identifiers = resource.get("identifier").map(Json::items).unwrap_or_default();
    identifiers.iter().any(|identifier| identifier.get("value").and_then(Json::as_str) == Some(value))
}

/// Waits for a condition; fails where it does not come.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..LOOKS_MAX {
        if holds().await {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("never: {what}");
}
