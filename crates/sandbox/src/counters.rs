//! What the sandbox was asked and did.

/// Counts since the start. Interactions in a transaction count when it succeeds, beside the transaction itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// HTTP requests, refused ones included.
    pub requests: u64,
    /// Reads, vreads and histories.
    pub reads: u64,
    /// Searches.
    pub searches: u64,
    /// Resources created, by create or update.
    pub creates: u64,
    /// Resources given a new version.
    pub updates: u64,
    /// Of those, updates with the content that was there already.
    pub identical_updates: u64,
    /// Interactions that wrote nothing: conditional creates that matched, identical updates that were skipped.
    pub no_ops: u64,
    /// Resources deleted.
    pub deletes: u64,
    /// Transactions, refused ones included.
    pub transactions: u64,
    /// Batches.
    pub batches: u64,
    /// Requests and batch entries answered with an error.
    pub refusals: u64,
    /// Of those, version conflicts and several matches.
    pub conflicts: u64,
}

impl Counters {
    /// New versions of any kind: what a replay must not add to.
    pub fn writes(&self) -> u64 {
        self.creates + self.updates + self.deletes
    }
}
