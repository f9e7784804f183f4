//! A configured sender in the forms that decoding, mapping and ordering want.

use std::sync::LazyLock;

use chart::keys::{self, Business};
use chart::{Identity, OrderKey, SenderOrder};
use hl7::{Charset, Message};
use mapping::{EncounterFallback, Mapped, Zone};
use sha2::{Digest, Sha256};

use crate::config;

/// A configured source of messages.
pub struct Sender {
    pub(super) name: String,
    application: String,
    facility: String,
    pub(super) charset: Charset,
    pub(super) mapping: mapping::Sender,
    order: SenderOrder,
}

/// Settings of a sender that its readers refuse; the configuration's own checks name them with their line before.
#[derive(Debug, thiserror::Error)]
#[error("sender {name}: {fault}")]
pub struct UnusableSender {
    name: String,
    fault: String,
}

/// `PV1-50`, `PID-18`, `PV1-44` as the configuration names the fallbacks of a visit without PV1-19.
pub fn encounter_fallback(field: &str) -> Option<EncounterFallback> {
    match field {
        "PV1-50" => Some(EncounterFallback::AlternateVisitId),
        "PID-18" => Some(EncounterFallback::AccountNumber),
        "PV1-44" => Some(EncounterFallback::AdmitTime),
        _ => None,
    }
}

/// Longest part of MSH-10 that tells receipts of one message apart.
const CONTROL_ID_BYTES_MAX: usize = 64;
/// Bytes of a hash that do the same.
const TEXT_HASH_BYTES: usize = 8;

/// The order key as stored. Behind the key's own bytes stands what tells receipts of one message apart (MSH-10, then the
/// text): it never decides between two messages, since their hashes differ before, but which receipt speaks for a
/// message: MSH-10 is outside of the semantic hash and yet ends up in resources.
fn stored_key(key: &OrderKey, message: &Message<'_>) -> Vec<u8> {
    let control_id = message.segment("MSH").map(|msh| msh.field(10).text()).unwrap_or_default();
    let mut bytes = key.to_bytes();
    let own = bytes.len();
    bytes.extend(control_id.bytes().filter(|b| *b != 0).take(CONTROL_ID_BYTES_MAX));
    bytes.push(0);
    bytes.extend(Sha256::digest(message.text()).into_iter().take(TEXT_HASH_BYTES));
    let added = bytes.len() - own + 1;
    // At most 64 + 1 + 8 + 1.
    bytes.push(u8::try_from(added).unwrap_or(u8::MAX));
    bytes
}

/// The order key of a stored one.
pub(super) fn order_key(stored: &[u8]) -> Option<OrderKey> {
    let added = usize::from(*stored.last()?);
    OrderKey::from_bytes(stored.get(..stored.len().checked_sub(added)?)?).ok()
}

impl Sender {
    pub(super) fn new(name: &str, settings: &config::Sender) -> Result<Self, UnusableSender> {
        let unusable = |fault: String| UnusableSender { name: name.to_owned(), fault };
        let zone = Zone::named(&settings.time_zone).map_err(|e| unusable(e.to_string()))?;
        let charset = Charset::from_name(&settings.charset)
            .ok_or_else(|| unusable(format!("no known character set: {}", settings.charset)))?;
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let mapping = mapping::Sender {
            authorities: settings.authorities.clone(),
            namespace_base: settings.namespace_base.clone(),
            patient_id_system: given(&settings.patient_id_system),
            visit_id_system: given(&settings.visit_id_system),
            encounter_fallbacks: settings.encounter_fallbacks.iter().filter_map(|f| encounter_fallback(f)).collect(),
            own_system: settings.own_system.clone(),
            ..mapping::Sender::new(name, zone)
        };
        let order = SenderOrder {
            sequence_numbers: settings.sequence_numbers,
            monotone_control_ids: settings.monotone_control_ids,
            restamps: settings.restamps,
        };
        Ok(Self {
            name: name.to_owned(),
            application: settings.sending_application.clone(),
            facility: settings.sending_facility.clone(),
            charset,
            mapping,
            order,
        })
    }

    /// A sender with nothing but defaults, for a listener that names none.
    pub(super) fn fallback() -> &'static Self {
        static FALLBACK: LazyLock<Sender> = LazyLock::new(|| {
            let defaults = config::load(None).expect("the embedded defaults are a configuration");
            Sender::new("default", &defaults.senders["default"]).expect("the default sender is usable")
        });
        &FALLBACK
    }

    /// Whether the sender is configured to own messages with these MSH-3.1 and MSH-4.1.
    pub(super) fn claims(&self, application: &str, facility: &str) -> bool {
        self.precision() > 0
            && (self.application.is_empty() || self.application == application)
            && (self.facility.is_empty() || self.facility == facility)
    }

    /// How much a sender asks of a message to claim it.
    pub(super) fn precision(&self) -> usize {
        usize::from(!self.application.is_empty()) + usize::from(!self.facility.is_empty())
    }

    pub(super) fn identity(&self, message: &Message<'_>) -> Identity {
        Identity::of(message, &self.order, &|time| self.mapping.time_zone.epoch_seconds(time))
    }

    /// The keys that do not depend on what the message says.
    pub(super) fn identified(&self, message: &Message<'_>, identity: &Identity) -> store::Identified {
        let msh = message.segment("MSH");
        let text = |n: usize| msh.map(|msh| msh.field(n).text().into_owned()).unwrap_or_default();
        store::Identified {
            message_id: identity.message_id.to_string(),
            semantic_hash: identity.semantic_hash,
            transport_key: keys::transport_key(&self.name, message),
            business_key: None,
            order_key: stored_key(&identity.key, message),
            subject: None,
            message_type: text(9),
            message_control_id: text(10),
        }
    }

    pub(super) fn business_key(&self, message: &Message<'_>, identity: &Identity, mapped: &Mapped) -> Option<[u8; 32]> {
        let event = message.segment("MSH").map(|msh| msh.field(9).component(2).text().into_owned()).unwrap_or_default();
        keys::business_key(&Business {
            sender: &self.name,
            event: (&event, &mapped.structure),
            patient: Some(&mapped.subject),
            visit: keys::visit(&mapped.contributions),
            clock: identity.key.clock,
        })
    }
}
