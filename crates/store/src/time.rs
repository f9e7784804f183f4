//! Wall clock times as the databases keep them: microseconds since 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Saturates at the ends of the range.
pub(crate) fn micros(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
    }
}

/// The inverse.
pub(crate) fn system_time(micros: i64) -> SystemTime {
    let distance = Duration::from_micros(micros.unsigned_abs());
    let time = if micros < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    time.unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for value in [0, 1, -1, 1_700_000_000_123_456, i64::from(u32::MAX) * 1_000_000] {
            assert_eq!(micros(system_time(value)), value);
        }
    }
}
