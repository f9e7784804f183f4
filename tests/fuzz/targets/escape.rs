//! Any text under any separators: escaped and back, and resolved as if it were escaped.
#![no_main]

#[path = "../bodies/escape.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::escape(bytes));
