//! `sluice doctor`: checks everything a start needs, and says what to do about what is wrong.

use std::process::ExitCode;

use store::Store;
use writer::Writer;

use super::{ConfigFile, Failure};
use crate::{rules, telemetry};

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

impl Doctor {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let mut findings = Findings { sound: true };
        let loaded = self.config.load();
        let described =
            |c: &crate::config::Config| format!("{} listeners, {} senders", c.listeners.len(), c.senders.len());
        let Some(config) = findings.report("configuration", loaded, described) else { return Ok(ExitCode::FAILURE) };
        findings.report("rules", rules::load(&config.mapping.directory), |plan| {
            format!("version {}, {} trigger events", plan.version(), plan.events().count())
        });
        let opened = crate::open_store(&config).await;
        if let Some(store) =
            findings.report("store", opened, |_| format!("{} opens, synchronous=FULL", config.store.path))
        {
            findings.report("counts", store.counts().await, |counts| {
                let parked: u64 = counts.parked_codes.values().sum();
                let subjects: u64 = counts.parked_subjects.values().sum();
                format!(
                    "{} subjects to deliver, {parked} messages and {subjects} subjects parked",
                    counts.dirty_subjects
                )
            });
            findings
                .report("audit chain", store.verify_audit().await, |head| format!("{} rows hold together", head.rows));
            store.close().await;
        }
        for listener in &config.listeners {
            let bound = std::net::TcpListener::bind(listener.address);
            findings.report("listener", bound, |_| format!("{} at {} is free", listener.name, listener.address));
        }
        let server = Writer::connect(crate::writer_config(&config)).await;
        findings.report("FHIR server", server, |writer| writer.capabilities().to_string());
        println!("{}", if findings.sound { "all is well" } else { "see the faults above" });
        Ok(if findings.sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
