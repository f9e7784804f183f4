//! What tests that cross crates share: a running `sluice serve`, FHIR servers and their digest, messages from files.

pub mod adt;
pub mod corpus;
pub mod digest;
pub mod fhir_server;
pub mod gateway_process;
pub mod http;
pub mod golden;
pub mod metrics;
pub mod scene;
pub mod wire;
