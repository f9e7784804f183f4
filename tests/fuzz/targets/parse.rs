//! Any bytes as a message: decoded, indexed, walked to the leaves, made canonical, acknowledged.
#![no_main]

#[path = "../bodies/parse.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::parse(bytes));
