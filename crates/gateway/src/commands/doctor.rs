//! `sluice doctor`: checks everything a start needs, and says what to do about what is wrong.

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use store::Store;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use writer::Writer;

use super::{ConfigFile, Failure};
use crate::config::Config;
use crate::{rules, telemetry};

/// How long a gateway that is up may take to say so.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);
/// More than a gateway says about its health.
const HEALTH_BYTES_MAX: u64 = 4096;

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub(super) struct Doctor {
    #[command(flatten)]
    config: ConfigFile,
}

/// The findings so far.
struct Findings {
    sound: bool,
}

impl Findings {
    fn report<T, E: std::error::Error>(
        &mut self,
        what: &str,
        result: Result<T, E>,
        good: impl FnOnce(&T) -> String,
    ) -> Option<T> {
        match result {
            Ok(value) => {
                println!("ok    {what}: {}", good(&value));
                Some(value)
            }
            Err(error) => {
                self.sound = false;
                println!("FAULT {what}: {}", telemetry::chain(&error));
                None
            }
        }
    }
}

/// A check that failed, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{what}; {advice}")]
struct Advised {
    what: String,
    advice: String,
}

impl Doctor {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let mut findings = Findings { sound: true };
        let loaded = self.config.load();
        let described = |c: &Config| format!("{} listeners, {} senders", c.listeners.len(), c.senders.len());
        let Some(config) = findings.report("configuration", loaded, described) else { return Ok(ExitCode::FAILURE) };
        findings.report("rules", rules::load(&config.mapping.directory), |plan| {
            format!("version {}, {} trigger events", plan.version(), plan.events().count())
        });
        check_store(&mut findings, &config).await;
        check_listeners(&mut findings, &config).await;
        let server = Writer::connect(crate::writer_config(&config)).await.map_err(|error| Advised {
            what: format!("{}: {}", config.fhir.base_url, telemetry::chain(&error)),
            advice: "check fhir.base_url and the server (messages are taken and kept meanwhile)".to_owned(),
        });
        findings.report("FHIR server", server, |writer| writer.capabilities().to_string());
        println!("{}", if findings.sound { "all is well" } else { "see the faults above" });
        Ok(if findings.sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

async fn check_store(findings: &mut Findings, config: &Config) {
    let path = Path::new(&config.store.path);
    if !path.exists() {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let made = |_: &std::fs::Metadata| format!("{} does not exist yet; serve makes it", path.display());
        let missing = std::fs::metadata(folder).map_err(|error| Advised {
            what: format!("no folder {}: {error}", folder.display()),
            advice: "make it, or change store.path".to_owned(),
        });
        findings.report("store", missing, made);
        return;
    }
    let opened = crate::open_store(config).await;
    let opens = format!("{} opens, synchronous=FULL", config.store.path);
    let Some(store) = findings.report("store", opened, |_| opens) else { return };
    findings.report("counts", store.counts().await, |counts| {
        let parked: u64 = counts.parked_codes.values().sum();
        let subjects: u64 = counts.parked_subjects.values().sum();
        format!("{} subjects to deliver, {parked} messages and {subjects} subjects parked", counts.dirty_subjects)
    });
    findings.report("audit chain", store.verify_audit().await, |head| format!("{} rows hold together", head.rows));
    store.close().await;
}

async fn check_listeners(findings: &mut Findings, config: &Config) {
    let up = is_up(config.http.address).await;
    for listener in &config.listeners {
        let (name, address) = (&listener.name, listener.address);
        let free = match std::net::TcpListener::bind(address) {
            Ok(_) => Ok("is free"),
            Err(error) if error.kind() == ErrorKind::AddrInUse && up => Ok("is in use, by the gateway that is up"),
            Err(error) => Err(Advised {
                what: format!("{name} at {address}: {error}"),
                advice: "stop what uses the address, or change it".to_owned(),
            }),
        };
        findings.report("listener", free, |state| format!("{name} at {address} {state}"));
    }
}

/// Whether a gateway answers at the configuration's HTTP address.
async fn is_up(address: std::net::SocketAddr) -> bool {
    let health = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.take(HEALTH_BYTES_MAX).read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = tokio::time::timeout(HEALTH_TIMEOUT, health).await;
    answer.is_ok_and(|read| read.is_ok_and(|text| text.contains(" 200 OK") && text.ends_with("ok\n")))
}
