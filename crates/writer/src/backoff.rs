//! How long to wait before the next try: exponential with full jitter, never shorter than the server asks for.
//!
//! Pure: the caller brings the randomness and does the waiting.

use std::time::Duration;

/// Longest wait a server may ask for.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// A schedule of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Upper bound of the wait after the first failure.
    pub first: Duration,
    /// Upper bound of any wait that the server did not ask for.
    pub max: Duration,
}

impl Backoff {
    /// The wait after `failures` failures in a row (from 1). `jitter` is uniform in `0.0..1.0`; it spreads the waits of many
    /// subjects over the whole interval, so that they do not come back together.
    pub fn delay(&self, failures: u32, retry_after: Option<Duration>, jitter: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let bound = self.first.saturating_mul(1 << doublings).min(self.max);
        let spread = bound.mul_f64(jitter.clamp(0.0, 1.0));
        retry_after.map_or(spread, |asked| asked.min(RETRY_AFTER_MAX).saturating_add(spread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(30) };

    #[test]
    fn grows_to_its_maximum_and_stays() {
        let bounds = [1, 2, 3, 9, 10, 40, u32::MAX].map(|n| BACKOFF.delay(n, None, 1.0).as_millis());
        assert_eq!(bounds, [100, 200, 400, 25_600, 30_000, 30_000, 30_000]);
        assert_eq!(BACKOFF.delay(0, None, 1.0).as_millis(), 100);
    }

    #[test]
    fn jitter_spreads_over_the_whole_interval() {
        assert_eq!(BACKOFF.delay(3, None, 0.0), Duration::ZERO);
        assert_eq!(BACKOFF.delay(3, None, 0.5).as_millis(), 200);
        assert_eq!(BACKOFF.delay(3, None, 7.0).as_millis(), 400);
    }

    #[test]
    fn never_shorter_than_the_server_asks_for() {
        let asked = Some(Duration::from_secs(7));
        assert_eq!(BACKOFF.delay(1, asked, 0.0).as_secs(), 7);
        assert_eq!(BACKOFF.delay(1, asked, 1.0).as_millis(), 7_100);
        assert_eq!(BACKOFF.delay(1, Some(Duration::MAX), 0.0), RETRY_AFTER_MAX);
    }
}
