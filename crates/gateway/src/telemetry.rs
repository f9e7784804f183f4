//! Structured logs. No message content reaches them: values logged are ids, codes, names from the configuration, numbers.

use std::error::Error;
use std::fmt::Write as _;

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

/// The log filter of the configuration is no filter.
#[derive(Debug, thiserror::Error)]
#[error("log.level is no filter: use error, warn, info, debug or a filter such as info,mllp=debug")]
pub struct InvalidLevel;

/// Starts logging to standard error.
pub fn start(log: &Log) -> Result<(), InvalidLevel> {
    let filter = EnvFilter::try_new(&log.level).map_err(|_| InvalidLevel)?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start in one process (tests) keeps the first.
    let _ = match log.format {
        LogFormat::Json => subscriber.json().flatten_event(true).try_init(),
        LogFormat::Text => subscriber.with_target(false).try_init(),
    };
    Ok(())
}

/// An error with its causes, in one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // A String takes every write.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
