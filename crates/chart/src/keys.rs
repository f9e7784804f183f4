//! By what a message is known again (DESIGN §4): raw hash, semantic hash, transport key, business key, and the message id
//! made of them. Not here: what follows from having seen a key before (`store`).
//! Contract: keys are deterministic from content and sender, are hashes throughout (no identifier of a patient can be
//! read from one), and parts are written with their length, so that no two lists of parts run into the same bytes.

use fhir::ResourceKey;
use hl7::canonical::{Skip, canonical};
use hl7::{Element, Message};
use mapping::Contribution;
use sha2::{Digest, Sha256};
use smol_str::SmolStr;

use crate::clock::{self, Clock, ClockSource, LocalTime, field};
use crate::order::{self, OrderKey, SenderOrder};
use crate::rank::Rank;

/// Bytes of the hash that a message id shows: 128 bits.
const MESSAGE_ID_BYTES: usize = 16;

/// Which message it is and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// See [`message_id`].
    pub message_id: SmolStr,
    /// See [`semantic_hash`].
    pub semantic_hash: [u8; 32],
    /// Its place among all messages.
    pub key: OrderKey,
    /// Which field its clock is; `None` where it has no clock.
    pub clock_source: Option<ClockSource>,
}

impl Identity {
    /// Of a message as its sender is known to behave.
    pub fn of(message: &Message<'_>, sender: &SenderOrder, zone: LocalTime<'_>) -> Identity {
        let semantic_hash = semantic_hash(message);
        let clock = clock::clock(message, zone);
        let clock_source = clock.map(|(_, source)| source);
        let message_time = clock::message_time(message, zone);
        let counts = !sender.restamps && clock_source == Some(ClockSource::Message);
        let key = OrderKey {
            clock: clock.map(|(clock, _)| clock),
            sequence: if sender.sequence_numbers { sequence(message) } else { 0 },
            rank: Rank::of(&trigger_event(message)),
            message_time,
            control_id: if sender.monotone_control_ids { control_id(message) } else { SmolStr::default() },
            hash: semantic_hash,
        };
        Identity {
            message_id: message_id(&semantic_hash, message_time.filter(|_| counts)),
            semantic_hash,
            key,
            clock_source,
        }
    }
}

/// MSH-9.2, and where that is empty EVN-1 (HL7 v2.2 and older).
fn trigger_event(message: &Message<'_>) -> SmolStr {
    let event = field(message, "MSH", 9).component(2);
    let event = if event.is_valued() { event } else { field(message, "EVN", 1).component(1) };
    SmolStr::new(event.text().trim())
}

/// MSH-13; 0 where it is no whole number.
fn sequence(message: &Message<'_>) -> u64 {
    field(message, "MSH", 13).component(1).text().trim().parse().unwrap_or(0)
}

/// MSH-10 as it is compared.
fn control_id(message: &Message<'_>) -> SmolStr {
    order::control_id(field(message, "MSH", 10).text().trim())
}

/// SHA-256 of a frame's bytes: a byte-identical resend.
pub fn raw_hash(frame: &[u8]) -> [u8; 32] {
    Sha256::digest(frame).into()
}

/// SHA-256 of the canonical message without MSH-7, 10, 13 to 16 and SFT: the same content re-sent, re-stamped or re-encoded.
pub fn semantic_hash(message: &Message<'_>) -> [u8; 32] {
    Sha256::digest(canonical(message, Skip::Transmission)).into()
}

/// The message's deterministic id, 32 hexadecimal digits: the beginning of its semantic hash; where MSH-7 is the message's
/// only clock, of a hash over both, for then the same content at another time is another message.
pub fn message_id(semantic_hash: &[u8; 32], only_clock: Option<Clock>) -> SmolStr {
    let digest: [u8; 32] = match only_clock {
        None => *semantic_hash,
        Some(clock) => {
            let mut hasher = Sha256::new();
            hasher.update(b"message");
            hasher.update(semantic_hash);
            hasher.update(clock.to_bytes());
            hasher.finalize().into()
        }
    };
    SmolStr::from(hex::encode(digest.get(..MESSAGE_ID_BYTES).unwrap_or(&digest)))
}

/// The sender's own name for a message: the sender with MSH-3, 4 and 10, hashed; hexadecimal.
pub fn transport_key(sender: &str, message: &Message<'_>) -> String {
    let mut hasher = Sha256::new();
    put(&mut hasher, b"transport");
    put(&mut hasher, sender.as_bytes());
    for n in [3, 4, 10] {
        put_element(&mut hasher, field(message, "MSH", n));
    }
    hex::encode(hasher.finalize())
}

/// A field without what does not count: trailing separators, escapes, the separators used.
fn put_element(hasher: &mut Sha256, field: Element<'_>) {
    let components: Vec<_> = field.components().map(|component| component.text().trim().to_owned()).collect();
    let valued = components.iter().rposition(|text| !text.is_empty()).map_or(0, |last| last.saturating_add(1));
    hasher.update(u64::try_from(valued).unwrap_or(u64::MAX).to_be_bytes());
    for component in components.iter().take(valued) {
        put(hasher, component.as_bytes());
    }
}

/// What makes two messages speak of the same real-world event.
#[derive(Clone, Copy, Debug)]
pub struct Business<'a> {
    /// Name of the configured sender.
    pub sender: &'a str,
    /// Trigger event (MSH-9.2) and the structure it was mapped by.
    pub event: (&'a str, &'a str),
    /// The patient, where there is one.
    pub patient: Option<&'a ResourceKey>,
    /// The visit or order; `None` for events about a person.
    pub visit: Option<&'a ResourceKey>,
    /// The clinical clock.
    pub clock: Option<Clock>,
}

/// SHA-256 over sender, event, patient, visit and clock; `None` without a patient or a clock.
pub fn business_key(business: &Business<'_>) -> Option<[u8; 32]> {
    let (patient, clock) = (business.patient?, business.clock?);
    let mut hasher = Sha256::new();
    put(&mut hasher, b"business");
    for part in [business.sender, business.event.0, business.event.1] {
        put(&mut hasher, part.as_bytes());
    }
    for key in [Some(patient), business.visit].into_iter().flatten() {
        for part in [&key.resource_type, &key.system, &key.value] {
            put(&mut hasher, part.as_bytes());
        }
    }
    put(&mut hasher, &clock.to_bytes());
    Some(hasher.finalize().into())
}

/// The visit a message is about: its Encounter, the first by key where there are several.
pub fn visit(contributions: &[Contribution]) -> Option<&ResourceKey> {
    contributions.iter().map(|c| &c.resource).filter(|key| key.resource_type == "Encounter").min()
}

fn put(hasher: &mut Sha256, part: &[u8]) {
    hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
    hasher.update(part);
}

#[cfg(test)]
mod tests;
