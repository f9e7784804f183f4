//! v2-to-FHIR rules as data: rule files → checked plan → contributions and ledger. Pure: no clock, I/O, randomness,
//! environment or logging; the caller reads the files.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

mod code_map;
mod compile;
mod condition;
pub mod contribution;
mod elements;
mod fault;
mod grammar;
mod identity;
mod instance;
mod node;
mod number;
mod plan;
mod primitive;
mod reader;
mod rule_file;
mod sender;
mod source;
mod target;

pub use contribution::{Contribution, Register, RegisterPath, Scope, Strength};
pub use fault::Fault;
pub use plan::{Plan, RuleFile, RuleOrigin};
pub use sender::{Context, EncounterFallback, Sender, UnknownTimeZone, Zone};
