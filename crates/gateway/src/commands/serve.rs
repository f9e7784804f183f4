//! `sluice serve`: the gateway until it is told to stop.

use std::process::ExitCode;

use super::{ConfigFile, Failure};
use crate::{Gateway, telemetry};

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
pub(super) struct Serve {
    #[command(flatten)]
    config: ConfigFile,
}

impl Serve {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let config = self.config.load()?;
        telemetry::start(&config.log)?;
        let gateway = Gateway::start(&config).await?;
        super::stop_signal().await?;
        let clean = gateway.stop().await;
        Ok(if clean { ExitCode::SUCCESS } else { ExitCode::from(2) })
    }
}
