//! What a listener has seen, as plain atomics for an exporter to read.
//!
//! Lives here: names and values. Does not: any metrics library.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the listener was bound; all but `connections_open` only grow.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[$doc])* pub $name: AtomicU64,)* }

        impl Counters {
            /// Every counter with its field's name, in the order of the fields.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Ordering::Relaxed)),)*]
            }
        }
    };
}

counters! {
    /// Connections now open (a gauge).
    connections_open,
    /// Connections accepted and served.
    connections_accepted,
    /// Connections refused at `connections_max`.
    connections_refused,
    /// Connections refused at `connections_per_peer_max`.
    connections_refused_peer,
    /// Connections the peer broke off while bytes or answers were under way.
    connections_broken,
    /// Failures to accept, such as no free file descriptor.
    accept_errors,
    /// Bytes read.
    received_bytes,
    /// Whole frames.
    frames,
    /// Frames cut off by a new VT.
    frames_truncated,
    /// Frames over `frame_bytes_max`.
    frames_oversize,
    /// Frames a strict listener refused because no CR followed the FS.
    frames_end_without_return,
    /// Frames left open by a close or a time-out.
    frames_unfinished,
    /// Connections closed because a frame took longer than `frame_timeout`.
    frame_timeouts,
    /// Connections closed after `idle_timeout`.
    idle_timeouts,
    /// Connections closed because the peer took no answers for `write_timeout`.
    write_timeouts,
    /// Connections closed because `preamble_bytes_max` was exceeded.
    preambles_over_limit,
    /// Answers written.
    answers,
    /// Panics of the outlet; the connection concerned was closed without that answer.
    outlet_panics,
    /// LF and CR skipped between frames.
    skipped_line_end_bytes,
    /// NUL skipped between frames.
    skipped_nul_bytes,
    /// FS skipped between frames.
    skipped_end_bytes,
    /// VT repeated at the start of a frame.
    skipped_start_bytes,
    /// Any other byte skipped between frames.
    skipped_other_bytes,
}

/// Adds to a counter; no other memory depends on the order.
pub(crate) fn add(counter: &AtomicU64, amount: usize) {
    counter.fetch_add(amount as u64, Ordering::Relaxed);
}
