//! What one frame is: decode → parse → sender → map → check → keys. No I/O.
//!
//! The same judgement serves receive (what to answer and store), deliver (what to fold) and `sluice map`, so that what
//! was acknowledged is what is delivered.

mod sender;

use std::collections::BTreeMap;
use std::sync::Arc;

use chart::{Chart, Event, Identity};
use hl7::{Decoded, Element, Location, Message, ParseError};
use mapping::{Context, MapError, Mapped, Plan};
use smol_str::SmolStr;

use crate::config::Config;
use crate::outcome::Outcome;

pub use sender::{Sender, UnusableSender, encounter_fallback};

/// Rules, senders and policy: everything a judgement depends on besides the bytes.
pub struct Judge {
    plan: Arc<Plan>,
    senders: BTreeMap<String, Sender>,
    processing_ids: Vec<String>,
    message_header: bool,
    identity_key: [u8; 32],
}

/// Why a message is not applied as it is: the outcome and where in the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The stable code.
    pub outcome: Outcome,
    /// Where, when it is about a place.
    pub location: Option<Location>,
    /// What to do, without message content.
    pub text: String,
}

impl Fault {
    pub(crate) fn new(outcome: Outcome, location: Option<Location>, text: impl Into<String>) -> Self {
        Self { outcome, location, text: text.into() }
    }
}

/// What a parsed message is.
pub struct Judged {
    /// Who sent it.
    pub sender: String,
    /// Its keys for dedup (DESIGN §4).
    pub identified: store::Identified,
    /// What it says, or why it is put aside or refused.
    pub content: Result<Content, Fault>,
}

/// What a message that can be delivered says.
pub struct Content {
    /// Ledger and issues; its contributions are the event's.
    pub mapped: Mapped,
    /// Its place among all messages, and what it says, as the chart takes it.
    pub event: Event,
}

/// Messages of a batch as the chart takes them, and those that today's rules can't take any more.
pub struct Reread {
    /// In key order.
    pub events: Vec<Event>,
    /// Message id and outcome code.
    pub parked: Vec<(String, &'static str)>,
}

impl Judge {
    /// Puts rules and configuration together.
    pub fn new(plan: Arc<Plan>, config: &Config, identity_key: [u8; 32]) -> Result<Self, UnusableSender> {
        let senders = config
            .senders
            .iter()
            .map(|(name, settings)| Ok((name.clone(), Sender::new(name, settings)?)))
            .collect::<Result<_, UnusableSender>>()?;
        Ok(Self {
            plan,
            senders,
            processing_ids: config.receive.processing_ids.clone(),
            message_header: config.mapping.message_header,
            identity_key,
        })
    }

    /// The compiled rules.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Version and digest of the rules, as they travel with every message.
    pub fn mapping_version(&self) -> String {
        format!("{} {}", self.plan.version(), self.plan.digest())
    }

    /// Whether identifiers of a system are ours, and so nobody else's.
    pub fn is_own_system(&self, system: &str) -> bool {
        self.senders.values().any(|sender| sender.mapping.own_system == system)
    }

    /// The sender a listener's connections belong to, as long as no message says otherwise.
    fn listener_sender(&self, name: &str) -> &Sender {
        self.senders.get(name).or_else(|| self.senders.get("default")).unwrap_or_else(|| Sender::fallback())
    }

    /// Decodes a frame with the listener's sender's character set.
    pub fn decode<'b>(&self, bytes: &'b [u8], listener_sender: &str) -> Result<Decoded<'b>, Fault> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(Fault::new(Outcome::FrameEmpty, None, "the frame is empty"));
        }
        let unsupported = |error: hl7::DecodeError| Fault::new(Outcome::CharsetUnsupported, None, error.to_string());
        let charset = self.listener_sender(listener_sender).charset;
        let decoded = hl7::decode(bytes, charset).map_err(unsupported)?;
        if self.senders.values().all(|sender| sender.precision() == 0) {
            return Ok(decoded);
        }
        // The message may name a sender of its own, with a character set of its own: receive and deliver must read alike.
        let claimed =
            Message::parse(&decoded.text).ok().map(|message| self.sender_of(&message, listener_sender).charset);
        match claimed {
            Some(own) if own != charset => hl7::decode(bytes, own).map_err(unsupported),
            _ => Ok(decoded),
        }
    }

    /// Parses decoded text.
    pub fn parse(text: &str) -> Result<Message<'_>, Fault> {
        Message::parse(text).map_err(|error| {
            let (outcome, location) = match error {
                ParseError::Empty => (Outcome::FrameEmpty, None),
                ParseError::NoMsh => (Outcome::NotHl7, Some(Location::segment("MSH", 1))),
                ParseError::Delimiters(_) => (Outcome::DelimitersInvalid, Some(Location::field("MSH", 2))),
                ParseError::Limit(_) => (Outcome::MessageTooComplex, None),
            };
            Fault::new(outcome, location, error.to_string())
        })
    }

    /// Judges a parsed message: who sent it, which message it is, what it says.
    pub fn judge(&self, message: &Message<'_>, listener_sender: &str) -> Judged {
        let sender = self.sender_of(message, listener_sender);
        let identity = sender.identity(message);
        let header = refused_header(message, &self.processing_ids);
        let mut identified = sender.identified(message, &identity);
        let content = match header {
            Some(fault) => Err(fault),
            None => self.content(message, sender, &identity, &mut identified),
        };
        Judged { sender: sender.name.clone(), identified, content }
    }

    /// The sender that claims the message by MSH-3 and MSH-4, else the listener's.
    fn sender_of(&self, message: &Message<'_>, listener_sender: &str) -> &Sender {
        let named = |n| {
            message.segment("MSH").map(|msh| msh.field(n).component(1).text().trim().to_owned()).unwrap_or_default()
        };
        let (application, facility) = (named(3), named(4));
        let claims = self.senders.values().filter(|s| s.claims(&application, &facility));
        claims.max_by_key(|s| s.precision()).unwrap_or_else(|| self.listener_sender(listener_sender))
    }

    fn content(
        &self,
        message: &Message<'_>,
        sender: &Sender,
        identity: &Identity,
        identified: &mut store::Identified,
    ) -> Result<Content, Fault> {
        let context = Context {
            sender: &sender.mapping,
            identity_key: &self.identity_key,
            message_id: &identity.message_id,
            message_header: self.message_header,
        };
        let mut mapped = self.plan.map(message, &context).map_err(|error| map_fault(&error))?;
        identified.subject = Some(subject_name(&mapped));
        identified.business_key = sender.business_key(message, identity, &mapped);
        if identity.key.clock.is_none() {
            let text = "no valid time in EVN-2 or MSH-7 to order the message by";
            return Err(Fault::new(Outcome::ClockMissing, Some(Location::field("EVN", 2)), text));
        }
        let contributions = std::mem::take(&mut mapped.contributions);
        let (message_id, key) = (identity.message_id.clone(), identity.key.clone());
        Ok(Content { mapped, event: Event { message_id, key, contributions } })
    }

    /// Judges stored messages again, for delivery.
    pub fn reread(&self, messages: &[store::StoredMessage]) -> Reread {
        let mut reread = Reread { events: Vec::new(), parked: Vec::new() };
        for stored in messages {
            match self.reread_one(stored) {
                Ok(event) => reread.events.push(event),
                Err(outcome) => reread.parked.push((stored.message_id.clone(), outcome.code())),
            }
        }
        reread.events.sort_by(|a, b| a.key.cmp(&b.key));
        reread
    }

    fn reread_one(&self, stored: &store::StoredMessage) -> Result<Event, Outcome> {
        let raw = stored.raw.as_deref().ok_or(Outcome::RawExpired)?;
        let decoded = self.decode(raw, &stored.sender).map_err(|f| f.outcome)?;
        let message = Self::parse(&decoded.text).map_err(|f| f.outcome)?;
        let content = self.judge(&message, &stored.sender).content.map_err(|f| f.outcome)?;
        // The stored key is the smallest over all receipts, and the stored id is the one every table names.
        let key = sender::order_key(&stored.order_key).ok_or(Outcome::StoreFailed)?;
        Ok(Event { message_id: SmolStr::new(&stored.message_id), key, ..content.event })
    }
}

/// The name of a subject in the store: the patient's `urn:uuid`, so that no table of names holds a record number.
fn subject_name(mapped: &Mapped) -> String {
    mapped.subject.full_url().to_string()
}

fn map_fault(error: &MapError) -> Fault {
    let (outcome, text) = match error {
        MapError::UnsupportedEvent { .. } => (
            Outcome::UnsupportedEvent,
            "no rules for this event yet: the message is kept and goes through by a retry".to_owned(),
        ),
        MapError::NoPatientIdentity { why, .. } => (Outcome::NoPatientIdentity, (*why).to_owned()),
        MapError::Parked { map, .. } => (Outcome::CodeUnmapped, format!("add the code to {map} and retry")),
    };
    let mut location = *error.location();
    if outcome == Outcome::NoPatientIdentity && location.field == 0 {
        // The segment is known; a sender looks for the field that identifies the patient in it.
        location.field = match location.segment_name() {
            "PID" => 3,
            "MRG" => 1,
            _ => 0,
        };
    }
    Fault::new(outcome, Some(location), text)
}

/// The header fields without which a message can't be taken (HL7 v2.5.1 §2.15.9).
fn refused_header(message: &Message<'_>, processing_ids: &[String]) -> Option<Fault> {
    let msh = message.segment("MSH")?;
    let at = |n| Some(Location::field("MSH", n));
    if message.segments().filter(|segment| segment.name() == "MSH").count() > 1 {
        let second = Some(Location::segment("MSH", 2));
        return Some(Fault::new(
            Outcome::NotHl7,
            second,
            "several messages in one frame: send each in a frame of its own",
        ));
    }
    let first = |n: usize| msh.field(n).component(1);
    if !first(9).is_valued() {
        return Some(Fault::new(Outcome::MessageTypeMissing, at(9), "MSH-9 must name the message type"));
    }
    if !msh.field(10).is_valued() {
        return Some(Fault::new(Outcome::ControlIdMissing, at(10), "MSH-10 must name the message"));
    }
    if !is_version_2(first(12)) {
        return Some(Fault::new(Outcome::VersionUnsupported, at(12), "MSH-12 must be 2.1 to 2.9"));
    }
    let processing_id = first(11);
    if processing_id.is_valued() && !processing_ids.iter().any(|known| *known == processing_id.text()) {
        return Some(Fault::new(Outcome::ProcessingIdUnsupported, at(11), "MSH-11 is not one this gateway takes"));
    }
    None
}

/// Empty (older senders), or `2` with anything after a dot.
fn is_version_2(version: Element<'_>) -> bool {
    let text = version.text();
    let text = text.trim();
    text.is_empty() || text == "2" || text.starts_with("2.")
}

/// Checks every resource of a message against R4, apart from what other messages may still say. A message that fails
/// parks, since what it adds to could never be written.
pub fn check(content: Content) -> Result<Mapped, Fault> {
    let rendered = Chart::of(content.event).into_rendered().map(|(_, rendered)| rendered);
    let complete = rendered.filter(|r| r.missing.is_empty());
    match complete.flat_map(|r| r.faults).next() {
        None => Ok(content.mapped),
        Some(fault) => Err(Fault::new(Outcome::CheckFailed, None, format!("{}: {}", fault.path, fault.code.as_str()))),
    }
}

/// ACK and MCF messages are answers themselves and get none (HL7 v2.5.1 §2.9.2); so does a message that says no type and
/// carries nothing but an acknowledgement.
pub fn is_answer(message: &Message<'_>) -> bool {
    let message_type = message.segment("MSH").map(|msh| msh.field(9).component(1).text()).unwrap_or_default();
    let acknowledges = || {
        message.segment("MSA").is_some()
            && message.segments().all(|s| matches!(s.name(), "MSH" | "SFT" | "UAC" | "MSA" | "ERR" | "NTE"))
    };
    matches!(&*message_type, "ACK" | "MCF") || (message_type.is_empty() && acknowledges())
}
