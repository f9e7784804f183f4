//! What tests that cross crates share: a running `sluice serve`, FHIR servers and their digest, messages from files.

#![expect(clippy::missing_panics_doc, reason = "a harness fails by panics")]
#![expect(clippy::float_cmp, reason = "figures of metrics are counts")]

pub mod adt;
pub mod corpus;
pub mod digest;
pub mod fhir_server;
pub mod gateway_process;
pub mod golden;
pub mod http;
pub mod metrics;
pub mod scene;
pub mod wire;
