//! The bounds of a listener and its connections, each a named number.
//!
//! Lives here: the numbers and their defaults. What happens at each bound is said where it is enforced.

use std::time::Duration;

/// Bounds of one listener. `Default` suits a gateway that receives ADT, results and reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest content of one frame; a longer one is [`crate::Fault::Oversize`].
    pub frame_bytes_max: usize,
    /// How much of an oversize frame is kept; never more than `frame_bytes_max` counts.
    pub head_bytes_max: usize,
    /// Most bytes skipped in search of a VT; beyond that the peer does not speak MLLP and is closed.
    pub preamble_bytes_max: usize,
    /// Frames of one connection given to the outlet and not yet answered; beyond that reading pauses.
    pub in_flight_frames_max: usize,
    /// Content bytes of those frames; one frame is always let through.
    pub in_flight_bytes_max: usize,
    /// Connections open at once; the next is refused.
    pub connections_max: usize,
    /// Connections open at once from one IP address.
    pub connections_per_peer_max: usize,
    /// Longest time spent waiting for the rest of a frame after its VT.
    pub frame_timeout: Duration,
    /// How long a lenient listener waits for the CR after an FS before it takes the frame as ended.
    pub end_timeout: Duration,
    /// Longest silence between frames; `None` lets a connection idle as long as its keepalive is answered.
    pub idle_timeout: Option<Duration>,
    /// Longest time a peer may refuse to take its answers.
    pub write_timeout: Duration,
    /// How long frames in flight may take after a stop was asked for.
    pub stop_timeout: Duration,
    /// Silence after which TCP probes whether the peer is still there.
    pub keepalive: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes_max: 16 << 20,
            head_bytes_max: 64 << 10,
            preamble_bytes_max: 4 << 10,
            in_flight_frames_max: 64,
            in_flight_bytes_max: 32 << 20,
            connections_max: 1024,
            connections_per_peer_max: 256,
            frame_timeout: Duration::from_secs(30),
            end_timeout: Duration::from_millis(500),
            idle_timeout: None,
            write_timeout: Duration::from_secs(30),
            stop_timeout: Duration::from_secs(10),
            keepalive: Duration::from_mins(1),
        }
    }
}
