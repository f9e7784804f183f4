//! The order of messages (DESIGN §3.1): clinical clock, MSH-13 where the sender counts, trigger rank, MSH-7, MSH-10 where
//! the sender's ids grow, semantic hash. Not here: which clock a message has (`clock`).
//! Contract: the bytes of a key sort as the keys do, so that a database may order messages without knowing them.

use smol_str::SmolStr;

use crate::clock::Clock;
use crate::rank::Rank;

/// What a sender is known to do, as far as order and identity depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderOrder {
    /// MSH-13 is a sequence number that grows with every message.
    pub sequence_numbers: bool,
    /// MSH-10 grows with every message, numbers in it taken as numbers.
    pub monotone_control_ids: bool,
    /// Sends the same message again under a new MSH-7.
    pub restamps: bool,
}

/// The place of a message among all messages. What comes first in the struct decides first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderKey {
    /// When it happened; a message without a clock comes before all others (it parks).
    pub clock: Option<Clock>,
    /// MSH-13; 0 where the sender does not count.
    pub sequence: u64,
    /// The trigger event's place among events of one instant.
    pub rank: Rank,
    /// MSH-7.
    pub message_time: Option<Clock>,
    /// MSH-10 so written that it sorts as the sender counts ([`control_id`]); empty where it does not grow.
    pub control_id: SmolStr,
    /// The semantic hash: decides where nothing else does.
    pub hash: [u8; 32],
}

/// Bytes that are no order key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an order key")]
pub struct OrderKeyError;

/// Longest run of digits whose length still counts when control ids are compared.
const DIGITS_MAX: usize = 0x7e;

/// A control id so written that texts sort as a person counts: `A9` before `A10`. Each run of digits is written as `0`,
/// its length and its digits, without leading zeros.
pub(crate) fn control_id(text: &str) -> SmolStr {
    let mut out = String::with_capacity(text.len().saturating_add(4));
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_digit = c.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        if is_digit {
            let digits = run.trim_start_matches('0');
            let length = u8::try_from(digits.len().min(DIGITS_MAX)).unwrap_or_default();
            out.push('0');
            out.push(char::from(length.saturating_add(1)));
            out.push_str(digits);
        } else {
            out.push_str(run);
        }
        rest = after;
    }
    SmolStr::from(out)
}

impl OrderKey {
    /// Is only the hash different, if anything?
    pub fn equals_but_for_hash(&self, other: &OrderKey) -> bool {
        self.clock == other.clock
            && self.sequence == other.sequence
            && self.rank == other.rank
            && self.message_time == other.message_time
            && self.control_id == other.control_id
    }

    /// Bytes that sort as the keys do.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(72_usize.saturating_add(self.control_id.len()));
        put_clock(&mut out, self.clock);
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.push(self.rank.number());
        put_clock(&mut out, self.message_time);
        for byte in self.control_id.bytes() {
            out.push(byte);
            if byte == 0 {
                out.push(0xff);
            }
        }
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&self.hash);
        out
    }

    /// Reads [`OrderKey::to_bytes`] back.
    pub fn from_bytes(bytes: &[u8]) -> Result<OrderKey, OrderKeyError> {
        read(bytes).ok_or(OrderKeyError)
    }
}

fn put_clock(out: &mut Vec<u8>, clock: Option<Clock>) {
    out.push(u8::from(clock.is_some()));
    out.extend_from_slice(&clock.map(Clock::to_bytes).unwrap_or_default());
}

fn read(bytes: &[u8]) -> Option<OrderKey> {
    let mut rest = bytes;
    let clock = take_clock(&mut rest).ok()?;
    let sequence = u64::from_be_bytes(take(&mut rest)?);
    let [rank] = take(&mut rest)?;
    let rank = Rank::from_number(rank)?;
    let message_time = take_clock(&mut rest).ok()?;
    let mut control_id = Vec::new();
    loop {
        match (take(&mut rest)?, rest.first()) {
            ([0], Some(0)) => break,
            ([0], Some(0xff)) => control_id.push(0),
            ([0], _) => return None,
            ([byte], _) => {
                control_id.push(byte);
                continue;
            }
        }
        take::<1>(&mut rest)?;
    }
    take::<1>(&mut rest)?;
    let control_id = SmolStr::from(String::from_utf8(control_id).ok()?);
    let hash = take(&mut rest)?;
    rest.is_empty().then_some(OrderKey { clock, sequence, rank, message_time, control_id, hash })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (front, back) = rest.split_first_chunk::<N>()?;
    *rest = back;
    Some(*front)
}

fn take_clock(rest: &mut &[u8]) -> Result<Option<Clock>, OrderKeyError> {
    let [present] = take(rest).ok_or(OrderKeyError)?;
    let bytes = take(rest).ok_or(OrderKeyError)?;
    match present {
        0 if bytes == [0; 12] => Ok(None),
        1 => Clock::from_bytes(bytes).map(Some).ok_or(OrderKeyError),
        _ => Err(OrderKeyError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> OrderKey {
        OrderKey {
            clock: Clock::new(5, 0),
            sequence: 5,
            rank: Rank::Moved,
            message_time: Clock::new(5, 0),
            control_id: control_id("A5"),
            hash: [5; 32],
        }
    }

    #[test]
    fn what_comes_first_decides_first() {
        // Each is greater than the key in one place and smaller in all that come after.
        let greater = [
            OrderKey { clock: Clock::new(6, 0), ..OrderKey { sequence: 0, ..key() } },
            OrderKey { sequence: 6, ..OrderKey { rank: Rank::Announced, ..key() } },
            OrderKey { rank: Rank::Ended, ..OrderKey { message_time: None, ..key() } },
            OrderKey { message_time: Clock::new(6, 0), ..OrderKey { control_id: control_id("A1"), ..key() } },
            OrderKey { control_id: control_id("A10"), ..OrderKey { hash: [0; 32], ..key() } },
            OrderKey { hash: [6; 32], ..key() },
        ];
        for (i, greater) in greater.iter().enumerate() {
            assert!(*greater > key() && greater.to_bytes() > key().to_bytes(), "{i}");
            assert_eq!(greater.equals_but_for_hash(&key()), i == 5);
        }
        assert!(OrderKey { clock: None, ..key() } < key());
    }

    #[test]
    fn control_ids_count() {
        let sorted = ["", "A9", "A10", "A10B1", "A10B02", "A100", "B1"];
        for pair in sorted.windows(2) {
            assert!(control_id(pair[0]) < control_id(pair[1]), "{pair:?}");
        }
        assert_eq!(control_id("A007"), control_id("A7"));
        let long = "9".repeat(300);
        assert!(control_id(&long) < control_id(&format!("{long}1")));
    }

    #[test]
    fn other_bytes_are_refused() {
        let bytes = key().to_bytes();
        assert_eq!(OrderKey::from_bytes(&bytes), Ok(key()));
        assert_eq!(OrderKey::from_bytes(&bytes[1..]), Err(OrderKeyError));
        assert_eq!(OrderKey::from_bytes(&[bytes.as_slice(), &[0]].concat()), Err(OrderKeyError));
        assert_eq!(OrderKey::from_bytes(&[]), Err(OrderKeyError));
    }
}
