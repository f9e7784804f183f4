//! The audit chain: what is hashed for a row, in which form.
//!
//! A row's hash covers the hash before it and every field, each with its length, so that no two rows share a text.
//! What does not live here: where rows are kept and what makes them unchangeable.

use sha2::{Digest, Sha256};

/// The hash before the first row.
pub(crate) const GENESIS: [u8; 32] = [0; 32];

/// A row to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: i64,
    pub(crate) event: String,
    pub(crate) receipt_id: Option<String>,
    pub(crate) message_id: Option<String>,
    pub(crate) detail: String,
}

impl Entry {
    /// The hash of this row at `seq` after a row with the hash `previous`.
    pub(crate) fn hash(&self, previous: &[u8; 32], seq: i64) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(previous);
        hasher.update(seq.to_be_bytes());
        hasher.update(self.at.to_be_bytes());
        for field in [Some(&self.event), self.receipt_id.as_ref(), self.message_id.as_ref(), Some(&self.detail)] {
            match field {
                None => hasher.update([0]),
                Some(text) => {
                    hasher.update([1]);
                    hasher.update((text.len() as u64).to_be_bytes());
                    hasher.update(text.as_bytes());
                }
            }
        }
        hasher.finalize().into()
    }
}

/// The last row of a chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) seq: i64,
    pub(crate) hash: [u8; 32],
}

impl Head {
    /// Appends: the row's place and hash.
    pub(crate) fn append(&mut self, entry: &Entry) -> Self {
        self.seq += 1;
        self.hash = entry.hash(&self.hash, self.seq);
        *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(event: &str, receipt_id: Option<&str>, message_id: Option<&str>) -> Entry {
        Entry {
            at: 1,
            event: event.into(),
            receipt_id: receipt_id.map(Into::into),
            message_id: message_id.map(Into::into),
            detail: "{}".into(),
        }
    }

    #[test]
    fn fields_cannot_be_shifted_into_each_other() {
        let hash = |entry: Entry| entry.hash(&GENESIS, 1);
        assert_ne!(hash(entry("a", Some("b"), None)), hash(entry("a", None, Some("b"))));
        assert_ne!(hash(entry("ab", None, None)), hash(entry("a", Some("b"), None)));
        assert_ne!(hash(entry("a", Some(""), None)), hash(entry("a", None, None)));
    }

    #[test]
    fn a_row_depends_on_the_one_before() {
        let row = entry("a", None, None);
        assert_ne!(row.hash(&GENESIS, 2), row.hash(&[1; 32], 2));
    }
}
