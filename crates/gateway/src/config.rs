//! The configuration file: one TOML document over the embedded defaults.
//!
//! `deploy/config.default.toml` is the schema, the defaults and the documentation at once. What a user's file adds to it
//! is checked key by key, and all faults are reported together with their lines.

mod overlay;
mod settings;

use std::fmt;
use std::path::Path;

pub use settings::{
    Coalesce, Config, Deliver, Fhir, Http, Listener, Log, LogFormat, Mapping, Ownership, Receive, Sender, Stop, Store,
};

/// The embedded default file.
pub const DEFAULT: &str = include_str!("../../../deploy/config.default.toml");

/// One thing wrong with a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Line in the user's file, from 1; 0 when the fault is no single line's.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// Why a configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file can't be read.
    #[error("cannot read configuration file {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file has faults: all of them.
    #[error("configuration file {path} has faults:\n{}", list(faults))]
    Faults {
        /// The file.
        path: String,
        /// All that is wrong, in order of lines.
        faults: Vec<Fault>,
    },
}

fn list(faults: &[Fault]) -> String {
    faults.iter().map(|fault| format!("  {fault}")).collect::<Vec<_>>().join("\n")
}

/// Reads the file, or the defaults alone where there is none.
pub fn load(path: Option<&Path>) -> Result<Config, LoadError> {
    let Some(path) = path else {
        return parse("").map_err(|faults| LoadError::Faults { path: "(defaults)".into(), faults });
    };
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|source| LoadError::Read { path: name.clone(), source })?;
    parse(&text).map_err(|faults| LoadError::Faults { path: name, faults })
}

/// Parses a document over the defaults; on error all faults, in order of lines.
pub fn parse(text: &str) -> Result<Config, Vec<Fault>> {
    let merged = overlay::over_defaults(DEFAULT, text)?;
    settings::typed(&merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_alone_are_a_whole_configuration() {
        let config = parse("").unwrap();
        assert_eq!(config.listeners.len(), 1);
        assert_eq!(config.listeners[0].address.to_string(), "127.0.0.1:2575");
        assert_eq!(config.senders["default"].time_zone, "UTC");
        assert_eq!(config.deliver.coalesce, Coalesce::Backlog);
    }

    #[test]
    fn senders_inherit_and_listeners_replace() {
        let config = parse(
            "[sender.default]\ntime_zone = \"Europe/Berlin\"\n[sender.lab]\nsending_facility = \"LAB\"\n\
             [[listener]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\nsender = \"lab\"\n[[listener]]\naddress = \"127.0.0.1:2\"\n\
             [sender.lab.authorities]\nMRN = \"urn:oid:1.2.3\"\n",
        )
        .unwrap();
        assert_eq!(config.senders["lab"].time_zone, "Europe/Berlin");
        assert_eq!(config.senders["lab"].sending_facility, "LAB");
        assert_eq!(config.senders["lab"].authorities["MRN"], "urn:oid:1.2.3");
        assert!(config.senders["default"].authorities.is_empty());
        assert_eq!(config.listeners.len(), 2);
        assert_eq!(config.listeners[1].sender, "default");
        assert_eq!(config.listeners[0].frame_bytes_max, 16_777_216);
    }

    #[test]
    fn all_faults_come_at_once_with_their_lines() {
        let faults = parse(
            "[store]\npth = \"x\"\n[fhir]\nownership = \"mine\"\nrequest_timeout_s = \"30\"\n[deliver]\nworkers = 0\n[colour]\n\
             [[listener]]\naddress = \"nowhere\"\nsender = \"ghost\"\n[sender.default]\ntime_zone = \"Mars/Olympus\"\n",
        )
        .unwrap_err();
        let lines: Vec<usize> = faults.iter().map(|f| f.line).collect();
        assert_eq!(lines, [2, 4, 5, 7, 8, 10, 11, 13], "{faults:#?}");
        assert!(faults[0].message.contains("unknown key `store.pth`"));
    }

    #[test]
    fn text_that_is_no_toml_names_its_line() {
        let faults = parse("[store]\npath = \n").unwrap_err();
        assert_eq!(faults[0].line, 2);
    }
}
