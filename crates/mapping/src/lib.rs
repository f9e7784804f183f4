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

pub mod contribution;

pub use contribution::{Contribution, Register, RegisterPath, Scope, Strength};
