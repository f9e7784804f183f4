//! The gateway: receives HL7 v2 over MLLP, keeps it, and delivers what it adds up to to a FHIR R4 server.
//!
//! Lives here: configuration, receive, deliver, policy, telemetry and the commands of `sluice`. Does not: HL7 syntax
//! (`hl7`), mapping (`mapping`), the fold (`chart`), framing (`mllp`), durability (`store`), HTTP to FHIR (`writer`).

pub mod clock;
pub mod commands;
pub mod config;
pub mod deliver;
pub mod demo;
pub mod http;
pub mod judge;
pub mod message_file;
pub mod metrics;
pub mod outcome;
pub mod receive;
pub mod rules;
mod running;
pub mod telemetry;

pub use running::{Gateway, StartError, open_store, writer_config};
