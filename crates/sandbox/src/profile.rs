//! How the sandbox deviates from the standard, as servers in use do.
//!
//! Lives here: the switches. What each does is where the interaction is. Those that count down serve the next `n`
//! requests and are then off; `u32::MAX` is always.

use std::time::Duration;

/// The switches; `Default` is a server that keeps to the standard.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct Profile {
    /// `PUT Type/id` may not create (R4 §3.1.0.4.1 leaves it to the server): 405.
    pub refuses_client_ids: bool,
    /// An update with the content that is there makes no version. Off, so that needless writes are seen.
    pub skips_identical_updates: bool,
    /// Updates go through whatever version they expect.
    pub ignores_if_match: bool,
    /// A version conflict is 409 instead of 412. Several matches stay 412.
    pub answers_409_for_412: bool,
    /// A reference to an entry further down a transaction is not resolved: 400.
    pub resolves_entries_in_order: bool,
    /// Searches and conditional interactions see a write only after this many further searches.
    pub stale_search: u32,
    /// Longest request body; a longer one is 413.
    pub body_bytes_max: usize,
    /// Resources are not checked against the element table of R4.
    pub accepts_invalid: bool,
    /// Errors are an HTML page with status 200, as from a proxy: for this many errors.
    pub returns_html_errors: u32,
    /// Answers end in the middle of their JSON: for this many.
    pub truncates_body: u32,
    /// Writes are applied and then the connection is dropped without an answer: for this many.
    pub resets_after_apply: u32,
    /// Requests are refused before anything is done.
    pub fails_with: Option<Failure>,
    /// Wait before every request.
    pub latency: Duration,
}

/// A server that is down or throttles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status.
    pub status: u16,
    /// For this many requests.
    pub times: u32,
    /// `Retry-After` in seconds.
    pub retry_after_s: Option<u32>,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            refuses_client_ids: false,
            skips_identical_updates: false,
            ignores_if_match: false,
            answers_409_for_412: false,
            resolves_entries_in_order: false,
            stale_search: 0,
            body_bytes_max: 64 << 20,
            accepts_invalid: false,
            returns_html_errors: 0,
            truncates_body: 0,
            resets_after_apply: 0,
            fails_with: None,
            latency: Duration::ZERO,
        }
    }
}

/// Uses up one of a switch that counts down.
pub(crate) fn spend(times: &mut u32) -> bool {
    match *times {
        0 => false,
        u32::MAX => true,
        _ => {
            *times -= 1;
            true
        }
    }
}
