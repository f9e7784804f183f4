//! v2-to-FHIR rules as data: rule files → checked plan → contributions and ledger. Pure: no clock, I/O, randomness,
//! environment or logging; the caller reads the files.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

mod apply;
mod assemble;
mod code_map;
mod compile;
mod condition;
pub mod contribution;
mod convert;
mod elements;
mod evaluate;
mod execute;
mod explain;
mod fault;
mod grammar;
mod identity;
mod instance;
mod issue;
mod ledger;
mod mapped;
mod node;
mod number;
mod plan;
mod primitive;
mod provenance;
mod reader;
mod rule_file;
mod sender;
mod source;
mod structure;
mod system;
mod target;
mod time;
mod value;

pub use contribution::{Contribution, Register, RegisterPath, Scope, Strength};
pub use explain::Explanation;
pub use fault::Fault;
pub use issue::{Issue, IssueCode};
pub use ledger::{Fate, FateKind, Leaf, Ledger, Trace};
pub use mapped::{MapError, Mapped};
pub use plan::{Plan, RuleFile, RuleOrigin};
pub use sender::{Context, EncounterFallback, Sender, UnknownTimeZone, Zone};
