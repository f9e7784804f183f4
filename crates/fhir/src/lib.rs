//! FHIR R4 as we emit and receive it: JSON, references, Bundle, OperationOutcome, and the check of a resource
//! against the R4 element table. Pure: no clock, I/O, randomness, environment or logging.

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

pub mod bundle;
pub mod check;
pub mod date_time;
pub mod element;
mod invariant;
pub mod json;
pub mod key;
pub mod outcome;
pub mod primitive;
pub mod references;

pub use bundle::{Bundle, BundleType, Entry, Method, Request, Response, check_bundle};
pub use check::{CheckCode, CheckIssue, check, check_with};
pub use element::{Element, ElementTable, ValueSet};
pub use json::{Json, Object};
pub use key::ResourceKey;
pub use outcome::OperationOutcome;
pub use primitive::Primitive;
pub use references::{map_references, references};
