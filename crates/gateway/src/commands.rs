//! The commands of `sluice`: what each takes, and where it is done.

mod bench;
mod check_mapping;
mod demo;
mod doctor;
mod map;
mod retry;
mod send;
mod serve;
mod trace;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
pub use map::{bundle, explanation, pretty};
use store::sqlite::SqliteStore;

/// What ends a command: shown with its causes, one line.
pub type Failure = Box<dyn Error + Send + Sync>;

/// HL7 v2 over MLLP in, FHIR R4 out: the same state from any order, any number, any crash.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, max_term_width = 120)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway until SIGTERM or Ctrl-C
    Serve(serve::Serve),
    /// See it work: an ADT stream with duplicates and late messages, played into a sandbox or a server of yours
    Demo(demo::Demo),
    /// Send messages from files over MLLP and show the answers
    Send(send::Send),
    /// Map messages from a file and show the resources; with --explain what became of every field
    Map(map::Map),
    /// Follow a receipt id, message id, MSH-10 or Type/id to everything it led to
    Trace(trace::Trace),
    /// List what is parked, or retry it
    Retry(retry::Retry),
    /// Check rule files and report every fault
    CheckMapping(check_mapping::CheckMapping),
    /// Check configuration, rules, store and FHIR server, and say what to do
    Doctor(doctor::Doctor),
    /// Measure this machine: parse, map, echo, commit, accept
    Bench(bench::Bench),
}

/// The configuration that most commands read.
#[derive(Debug, clap::Args)]
pub struct ConfigFile {
    /// Configuration file; without it the built-in defaults
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    fn load(&self) -> Result<crate::config::Config, crate::config::LoadError> {
        crate::config::load(self.config.as_deref())
    }
}

/// The store of a gateway that ran before. Looking for something never makes a store: an empty one in the wrong folder
/// would answer that nothing is known.
async fn existing_store(config: &crate::config::Config) -> Result<SqliteStore, Failure> {
    if !std::path::Path::new(&config.store.path).exists() {
        let path = &config.store.path;
        return Err(format!("there is no store {path}: give the --config that serve runs with, in its folder").into());
    }
    Ok(crate::open_store(config).await?)
}

impl Cli {
    /// Runs the command to its end.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            match self.command {
                Command::Serve(command) => command.run().await,
                Command::Demo(command) => command.run().await,
                Command::Send(command) => command.run().await,
                Command::Map(command) => command.run(),
                Command::Trace(command) => command.run().await,
                Command::Retry(command) => command.run().await,
                Command::CheckMapping(command) => command.run(),
                Command::Doctor(command) => command.run().await,
                Command::Bench(command) => command.run().await,
            }
        })
    }
}

/// Waits for SIGTERM or Ctrl-C.
async fn stop_signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result,
        _ = terminate.recv() => Ok(()),
    }
}
