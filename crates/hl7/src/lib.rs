//! HL7 v2 ER7 text to structure and back: charset, terminators, segments and fields, escapes, paths, three-state
//! values, dates with precision, canonical form, acknowledgements. Pure: no clock, I/O, randomness, environment or
//! logging, and no input makes it panic, loop or take memory out of proportion to its length.

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

pub mod ack;
pub mod canonical;
mod charset;
mod date_time;
mod decode;
mod delimiters;
mod element;
mod escape;
mod message;
mod path;

pub use charset::Charset;
pub use date_time::{DateTime, DateTimeError};
pub use decode::{DecodeError, DecodeFlag, Decoded, decode};
pub use delimiters::{Delimiters, DelimitersError};
pub use element::{Element, Elements, Level, State};
pub use escape::{escape, unescape};
pub use message::{Limit, Message, ParseError, Segment, limits};
pub use path::{Location, Path, PathError};
