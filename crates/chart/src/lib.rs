//! F, the chart (DESIGN §3): from what messages say to the resources they add up to. Lives here: the order of messages,
//! the keys by which they are known again, registers, the fold, rendering and comparing. Does not: reading a message
//! (`hl7`), what it says (`mapping`), storing and writing. Contract: the result depends on the set of messages alone,
//! never on how often or in which order they came. Pure: no clock, I/O, randomness, environment or logging.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

mod checkpoint;
mod clock;
mod diff;
mod event;
mod fold;
pub mod keys;
mod order;
mod rank;
mod render;

pub use checkpoint::RestoreError;
pub use clock::{Clock, ClockSource, LocalTime, clock, message_time};
pub use diff::{Change, diff, hash};
pub use event::Event;
pub use fold::{AMBIGUOUS_ORDER, Absorbed, Ambiguity, Chart, Entry, ResourceState};
pub use keys::Identity;
pub use order::{OrderKey, OrderKeyError, SenderOrder};
pub use rank::Rank;
pub use render::{PERIOD_REVERSED, RenderIssue, Rendered};
