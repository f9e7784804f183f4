//! The binary `sluice`: reads the command line, starts the runtime, and turns the outcome into an exit code.

use std::process::ExitCode;

use clap::Parser;
use gateway::commands::Cli;

/// Mapping makes and drops many small values; the system's allocator would take a third of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("sluice: {}", gateway::telemetry::chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}
