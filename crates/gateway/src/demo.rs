//! What `sluice demo` plays.

pub mod stream;
