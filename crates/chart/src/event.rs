//! One message as the fold sees it: who it is, where it stands, what it says.

use mapping::Contribution;
use smol_str::SmolStr;

use crate::order::OrderKey;

/// A message of S under one mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Deterministic from the message's content ([`crate::keys::message_id`]).
    pub message_id: SmolStr,
    /// Its place among all messages.
    pub key: OrderKey,
    /// What it says about which resource.
    pub contributions: Vec<Contribution>,
}
