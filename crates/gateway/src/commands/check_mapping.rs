//! `sluice check-mapping`: every fault of the rule files at once.

use std::path::PathBuf;
use std::process::ExitCode;

use super::Failure;
use crate::rules;

/// Arguments of `check-mapping`.
#[derive(Debug, clap::Args)]
pub(super) struct CheckMapping {
    /// Folder of rule files; without it the built-in rules
    directory: Option<PathBuf>,
}

impl CheckMapping {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let directory = self.directory.map(|d| d.display().to_string()).unwrap_or_default();
        match rules::load(&directory) {
            Ok(plan) => {
                println!("version {}, digest {}", plan.version(), plan.digest());
                println!(
                    "{} rules, {} structures, {} trigger events: no fault",
                    plan.rules().count(),
                    plan.structures().count(),
                    plan.events().count()
                );
                Ok(ExitCode::SUCCESS)
            }
            Err(rules::LoadError::Faults(faults)) => {
                for fault in &faults {
                    println!("{fault}");
                }
                println!("{} faults", faults.len());
                Ok(ExitCode::FAILURE)
            }
            Err(error) => Err(error.into()),
        }
    }
}
