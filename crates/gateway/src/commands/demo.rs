//! `sluice demo`: everything in one process, something to watch, and a table of what happened.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use mllp::Client;
use sandbox::{Profile, Running, Sandbox};
use store::{Status, Verdict};

use super::{Failure, bench, send, stop_signal};
use crate::config::{self, Config};
use crate::demo::stream::{self, Kind, Step};
use crate::{Gateway, telemetry};

/// How often the state of delivery is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Looks without progress after which delivery counts as stuck (30 s).
const LOOKS_MAX: u32 = 600;

/// Arguments of `demo`.
#[derive(Debug, clap::Args)]
pub(super) struct Demo {
    /// A FHIR R4 server of yours instead of the sandbox
    #[arg(long, value_name = "URL")]
    fhir: Option<String>,
    /// Pause between messages, in milliseconds
    #[arg(long, default_value_t = 60)]
    pace_ms: u64,
    /// Leave when the stream is over instead of staying up
    #[arg(long)]
    exit: bool,
}

/// What was sent and answered, by what was special about it.
#[derive(Default)]
struct Tally {
    sent: BTreeMap<Kind, BTreeMap<String, usize>>,
}

impl Demo {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let folder = bench::tempfolder(None)?;
        let sandbox = match self.fhir {
            Some(_) => None,
            None => Some(Sandbox::start(SocketAddr::from(([127, 0, 0, 1], 0)), Profile::default()).await?),
        };
        let base_url = self.fhir.clone().or_else(|| sandbox.as_ref().map(|s| s.base_url.clone())).unwrap_or_default();
        let config = settings(&folder.0, &base_url)?;
        telemetry::start(&config.log)?;
        let gateway = Gateway::start(&config).await?;
        let mllp = gateway.mllp.first().copied().ok_or("no listener")?;
        println!(
            "Sluice demo: one gateway, one {}",
            if sandbox.is_some() { "FHIR sandbox in memory" } else { "FHIR server of yours" }
        );
        println!("  MLLP    {mllp}");
        println!("  FHIR    {base_url}");
        println!("  metrics http://{}/metrics\n", gateway.http);
        let ended = tokio::select! {
            played = self.play(&gateway, mllp, sandbox.as_ref()) => played,
            stopped = stop_signal() => stopped.map_err(Failure::from),
        };
        if ended.is_ok() && !self.exit {
            self.stay(&gateway, mllp, &base_url, sandbox.is_some()).await?;
        }
        gateway.stop().await;
        if let Some(sandbox) = sandbox {
            sandbox.stop().await;
        }
        ended.map(|()| ExitCode::SUCCESS)
    }

    async fn play(&self, gateway: &Gateway, mllp: SocketAddr, sandbox: Option<&Running>) -> Result<(), Failure> {
        let steps = stream::as_delivered();
        let tally = self.once(mllp, &steps, "first pass").await?;
        drained(gateway).await?;
        let first = figures(gateway);
        report(&tally, gateway, first).await?;
        let digest = sandbox.map(|s| s.sandbox.digest());

        let messages: Vec<Vec<u8>> = steps.into_iter().rev().map(|s| s.message.into_bytes()).collect();
        let total = messages.len();
        println!("\nEverything again, backwards, on 4 connections …");
        send::play(&mllp.to_string(), messages, 4, 1).await?;
        drained(gateway).await?;
        let second = figures(gateway);
        println!("  {total} messages answered, {} resources written", second.written - first.written);
        if let (Some(before), Some(sandbox)) = (digest, sandbox) {
            let after = sandbox.sandbox.digest();
            let verdict = if before == after { "the same" } else { "DIFFERENT" };
            println!("  state of the server before {} and after {}: {verdict}", short(&before), short(&after));
            if before != after {
                return Err("a second pass changed the state of the server".into());
            }
        }
        Ok(())
    }

    async fn once(&self, mllp: SocketAddr, steps: &[Step], what: &str) -> Result<Tally, Failure> {
        let mut client = Client::connect(mllp).await?;
        let mut tally = Tally::default();
        let bar = ProgressBar::new(steps.len() as u64).with_style(
            ProgressStyle::with_template("{prefix} [{bar:40}] {pos}/{len} {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.set_prefix(what.to_owned());
        for step in steps {
            let answer = client.send(step.message.as_bytes()).await?;
            let code = send::code(&answer);
            bar.set_message(format!("{}: {code}", step.kind.label()));
            *tally.sent.entry(step.kind).or_default().entry(code).or_default() += 1;
            bar.inc(1);
            tokio::time::sleep(Duration::from_millis(self.pace_ms)).await;
        }
        bar.finish_and_clear();
        Ok(tally)
    }

    async fn stay(&self, gateway: &Gateway, mllp: SocketAddr, base_url: &str, sandbox: bool) -> Result<(), Failure> {
        println!("\nStill up; Ctrl-C stops it. Try:");
        println!("  sluice send FILE --to {mllp} --answers");
        if sandbox {
            println!("  curl '{base_url}/Patient?_count=3'");
        }
        println!("  curl http://{}/metrics", gateway.http);
        Ok(stop_signal().await?)
    }
}

/// The built-in defaults with free ports and a store of the demo's own.
fn settings(folder: &std::path::Path, base_url: &str) -> Result<Config, Failure> {
    let text = format!(
        "[store]\npath = {:?}\n[http]\naddress = \"127.0.0.1:0\"\n[fhir]\nbase_url = {base_url:?}\n\
         [log]\nlevel = \"error\"\nformat = \"text\"\n[[listener]]\nname = \"demo\"\naddress = \"127.0.0.1:0\"\n",
        folder.join("demo.db").display().to_string()
    );
    config::parse(&text).map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ").into())
}

/// Waits until nothing is pending; an error when nothing moves for long.
async fn drained(gateway: &Gateway) -> Result<(), Failure> {
    let mut last = u64::MAX;
    let mut looks = 0;
    loop {
        let counts = gateway.store.counts().await?;
        let pending = counts.statuses.get(&Status::Pending).copied().unwrap_or(0);
        let stuck: u64 = counts.parked_subjects.values().sum();
        if pending == 0 || stuck > 0 {
            return Ok(());
        }
        looks = if pending == last { looks + 1 } else { 0 };
        last = pending;
        if looks > LOOKS_MAX {
            return Err(format!("{pending} messages stay pending: is the FHIR server reachable?").into());
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[derive(Clone, Copy)]
struct Figures {
    requests: u64,
    written: u64,
    unchanged: u64,
}

fn figures(gateway: &Gateway) -> Figures {
    let m = &gateway.metrics;
    Figures {
        requests: m.fhir_requests.get(),
        written: m.resources_written.get(),
        unchanged: m.resources_unchanged.get(),
    }
}

async fn report(tally: &Tally, gateway: &Gateway, figures: Figures) -> Result<(), Failure> {
    println!("What was sent        count  answers");
    for (kind, codes) in &tally.sent {
        let count: usize = codes.values().sum();
        let answers: Vec<String> = codes.iter().map(|(code, n)| format!("{code} {n}")).collect();
        println!("  {:<20} {count:>3}  {}", kind.label(), answers.join(", "));
    }
    let counts = gateway.store.counts().await?;
    println!("What it was          count");
    for verdict in Verdict::ALL {
        let count = counts.verdicts.get(&verdict).copied().unwrap_or(0);
        if count > 0 {
            println!("  {:<20} {count:>3}", verdict.as_str());
        }
    }
    for (code, count) in &counts.parked_codes {
        println!("  parked as {code}: {count}");
    }
    for (code, count) in &counts.parked_subjects {
        println!("  subjects parked as {code}: {count}");
    }
    println!("What was written");
    println!(
        "  {} requests, {} resources written, {} found as they should be",
        figures.requests, figures.written, figures.unchanged
    );
    Ok(())
}

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
