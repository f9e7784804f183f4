//! MLLP over TCP (HL7 v2 transport specification, MLLP Release 1): framing codec, listener, client.
//!
//! Lives here: where a message begins and ends on a byte stream, and what to do with every stream that does not keep
//! to it. Does not: what the bytes between VT and FS CR mean; they are opaque, and never logged.
//!
//! Contract: every frame is given to the [`Outlet`] once, whole or [quarantined](Received::Quarantined), and its
//! answer is written in the order of the frames. Memory per connection is bounded by [`Limits`]; no input panics.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

pub mod bench;
mod client;
mod codec;
mod connection;
mod counters;
mod limits;
mod listener;

pub use client::{Client, ClientConfig, ConnectError, SendAllError, SendError};
pub use codec::{Codec, DecodeError, EncodeError, Fault, FrameEnd, OnOversize, Progress, Received, Skipped};
pub use counters::Counters;
pub use limits::Limits;
pub use listener::{Arrival, BindError, Listener, ListenerConfig, Outlet, Stopped};
