//! The decision table of DESIGN §4 over what is already known; pure, the same for every database.
//!
//! A batch of arrivals is decided one after the other: each sees what the ones before it in the batch will write. What
//! does not live here: looking up what is known, and writing.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use crate::audit::Entry;
use crate::{Accepted, Arrival, CONTROL_ID_REUSE, Disposition, Identified, RESTAMPED_CONTENT, Status, Verdict};

/// The keys of DESIGN §4 by which a message is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Raw = 1,
    Semantic = 2,
    Transport = 3,
    Business = 4,
}

impl Kind {
    pub(crate) fn from_number(number: i64) -> Option<Self> {
        [Self::Raw, Self::Semantic, Self::Transport, Self::Business].into_iter().find(|kind| *kind as i64 == number)
    }
}

/// A kind and its 32 bytes.
pub(crate) type Key = (Kind, [u8; 32]);

/// What an identity row says.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) message: Option<i64>,
    pub(crate) receipt: i64,
    /// Raw keys only: the answer that receipt got.
    pub(crate) ack: Vec<u8>,
    /// Whether that receipt was rejected.
    pub(crate) rejected: bool,
    pub(crate) flagged: bool,
}

/// What a message row says, as far as decisions need it.
#[derive(Clone, Debug)]
pub(crate) struct KnownMessage {
    pub(crate) message_id: String,
    pub(crate) status: Status,
    pub(crate) order_key: Vec<u8>,
    pub(crate) business_key: Option<Vec<u8>>,
    pub(crate) message_control_id: String,
    pub(crate) subject: Option<String>,
    pub(crate) ack: Vec<u8>,
}

/// What is known about the keys of a batch.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) identities: BTreeMap<Key, Seen>,
    pub(crate) messages: BTreeMap<i64, KnownMessage>,
    pub(crate) by_message_id: BTreeMap<String, i64>,
    /// The greatest order key of each subject.
    pub(crate) newest: BTreeMap<String, Vec<u8>>,
}

impl Known {
    pub(crate) fn add_message(&mut self, id: i64, message: KnownMessage) {
        self.by_message_id.insert(message.message_id.clone(), id);
        self.messages.insert(id, message);
    }
}

/// A receipt row to insert.
#[derive(Debug)]
pub(crate) struct NewReceipt {
    pub(crate) id: i64,
    /// Its arrival's place in the batch.
    pub(crate) arrival: usize,
    pub(crate) message: Option<i64>,
    pub(crate) verdict: Verdict,
    pub(crate) code: Option<&'static str>,
    pub(crate) ack: Vec<u8>,
    pub(crate) alerts: Vec<&'static str>,
    pub(crate) payload_of: i64,
}

/// A message row to insert, or (`promoted`) a rejected one to take after all.
#[derive(Debug)]
pub(crate) struct NewMessage {
    pub(crate) id: i64,
    pub(crate) arrival: usize,
    pub(crate) order_key: Vec<u8>,
    pub(crate) status: Status,
    pub(crate) code: Option<&'static str>,
    pub(crate) verdict: Verdict,
    pub(crate) corrects: Option<i64>,
    pub(crate) first_receipt: i64,
}

/// An identity row to insert, or (`repointed`) to replace: the raw key of bytes that were judged anew.
#[derive(Debug)]
pub(crate) struct NewIdentity {
    pub(crate) key: Key,
    pub(crate) message: Option<i64>,
    pub(crate) receipt: i64,
}

/// The receipt that speaks for a message from now on: the one with the smallest order key, whichever came first.
#[derive(Debug)]
pub(crate) struct Lowered {
    pub(crate) order_key: Vec<u8>,
    pub(crate) message_control_id: String,
    pub(crate) receipt: i64,
}

/// A subject to mark dirty.
#[derive(Debug)]
pub(crate) struct Touched {
    pub(crate) newest_key: Option<Vec<u8>>,
    pub(crate) due_at: i64,
}

/// Everything a batch writes.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    pub(crate) receipts: Vec<NewReceipt>,
    pub(crate) messages: Vec<NewMessage>,
    pub(crate) promoted: Vec<NewMessage>,
    /// Stored messages whose order key became smaller.
    pub(crate) lowered: BTreeMap<i64, Lowered>,
    pub(crate) identities: Vec<NewIdentity>,
    pub(crate) repointed: Vec<NewIdentity>,
    pub(crate) flagged: BTreeSet<Key>,
    pub(crate) touched: BTreeMap<String, Touched>,
    pub(crate) audit: Vec<Entry>,
}

/// The keys of one arrival.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) raw: Key,
    pub(crate) semantic: Option<Key>,
    pub(crate) transport: Option<Key>,
    pub(crate) business: Option<Key>,
}

impl Keys {
    pub(crate) fn of(arrival: &Arrival) -> Self {
        let raw = (Kind::Raw, scoped(&arrival.sender, &arrival.raw_hash));
        let identified = arrival.identified.as_ref().map(|i| Self::of_identified(&arrival.sender, i));
        let [semantic, transport, business] = identified.unwrap_or_default();
        Self { raw, semantic, transport, business }
    }

    /// The semantic, transport and business key of a message from `sender`.
    pub(crate) fn of_identified(sender: &str, identified: &Identified) -> [Option<Key>; 3] {
        // An id that is the semantic hash itself finds the same content under any MSH-7: no second key is needed.
        let restampable = !hex::encode(identified.semantic_hash).starts_with(&identified.message_id);
        [
            restampable.then(|| (Kind::Semantic, scoped(sender, &identified.semantic_hash))),
            Some((Kind::Transport, Sha256::digest(identified.transport_key.as_bytes()).into())),
            identified.business_key.map(|key| (Kind::Business, key)),
        ]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Key> {
        [Some(self.raw), self.semantic, self.transport, self.business].into_iter().flatten()
    }
}

fn scoped(sender: &str, hash: &[u8; 32]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update((sender.len() as u64).to_be_bytes());
    hasher.update(sender.as_bytes());
    hasher.update(hash);
    hasher.finalize().into()
}

/// Decides a batch.
#[derive(Debug)]
pub(crate) struct Decider<'b> {
    arrivals: &'b [&'b Arrival],
    keys: &'b [Keys],
    known: Known,
    writes: Writes,
    next_message: i64,
    next_receipt: i64,
}

/// What is found about an arrival that no earlier receipt answers.
struct Judged {
    verdict: Verdict,
    status: Status,
    code: Option<&'static str>,
    alerts: Vec<&'static str>,
    corrects: Option<i64>,
}

/// What one receipt led to.
struct Outcome {
    message: Option<i64>,
    verdict: Verdict,
    code: Option<&'static str>,
    alerts: Vec<&'static str>,
    ack: Vec<u8>,
    /// The receipt that brought the same bytes before.
    payload_of: Option<i64>,
}

impl<'b> Decider<'b> {
    /// `keys[n]` belongs to `arrivals[n]`; row ids are handed out from `next_message` and `next_receipt`.
    pub(crate) fn new(
        arrivals: &'b [&'b Arrival],
        keys: &'b [Keys],
        known: Known,
        next_message: i64,
        next_receipt: i64,
    ) -> Self {
        Self { arrivals, keys, known, writes: Writes::default(), next_message, next_receipt }
    }

    /// One answer per arrival, in order, and what is to be written for them.
    pub(crate) fn run(mut self) -> (Vec<Accepted>, Writes) {
        let accepted = (0..self.arrivals.len()).map(|at| self.decide(at)).collect();
        (accepted, self.writes)
    }

    fn decide(&mut self, at: usize) -> Accepted {
        let (arrival, keys) = (self.arrivals[at], &self.keys[at]);
        if let Some(seen) = self.known.identities.get(&keys.raw).filter(|seen| !self.judged_anew(seen, arrival)) {
            let outcome = Outcome {
                message: seen.message,
                verdict: Verdict::SkippedExact,
                code: None,
                alerts: Vec::new(),
                ack: seen.ack.clone(),
                payload_of: Some(seen.receipt),
            };
            return self.answer(at, outcome);
        }
        let Some(identified) = &arrival.identified else {
            return self.unreadable(at);
        };
        match self.known.by_message_id.get(&identified.message_id).copied() {
            // A message that was taken, come again as one that can't be (without MSH-10): it must not speak for the message.
            Some(id) if self.refused_again(id, arrival) => self.unreadable(at),
            Some(id) if !self.taken_after_all(id, arrival) => self.resend(at, identified, id),
            known => self.new_message(at, identified, known),
        }
    }

    /// Whether bytes that were rejected before may be taken now (the configuration changed, the sender tries again).
    fn judged_anew(&self, seen: &Seen, arrival: &Arrival) -> bool {
        let rejected = match seen.message.and_then(|id| self.known.messages.get(&id)) {
            Some(message) => message.status == Status::Rejected,
            None => seen.rejected,
        };
        rejected && !matches!(arrival.disposition, Disposition::Reject(_))
    }

    fn refused_again(&self, id: i64, arrival: &Arrival) -> bool {
        self.known.messages.get(&id).is_some_and(|message| message.status != Status::Rejected)
            && matches!(arrival.disposition, Disposition::Reject(_))
    }

    fn taken_after_all(&self, id: i64, arrival: &Arrival) -> bool {
        self.known.messages.get(&id).is_some_and(|message| message.status == Status::Rejected)
            && !matches!(arrival.disposition, Disposition::Reject(_))
    }

    /// Row 11 for bytes without keys: a receipt that keeps them.
    fn unreadable(&mut self, at: usize) -> Accepted {
        let arrival = self.arrivals[at];
        let (verdict, code) = match arrival.disposition {
            Disposition::Park(code) => (Verdict::Parked, Some(code)),
            Disposition::Reject(code) => (Verdict::Rejected, Some(code)),
            // Refused before it is queued; without keys there is nothing to apply.
            Disposition::Apply => (Verdict::Rejected, None),
        };
        let ack = arrival.ack.clone();
        self.answer(at, Outcome { message: None, verdict, code, alerts: Vec::new(), ack, payload_of: None })
    }

    /// Row 2: the message is known; its order key becomes the smaller one, and the receipt that has it speaks for it, since
    /// what is outside of the semantic hash (MSH-10) may end up in resources, too.
    fn resend(&mut self, at: usize, identified: &Identified, id: i64) -> Accepted {
        let arrival = self.arrivals[at];
        let alerts = self.control_id_reuse(at, identified, id).into_iter().collect();
        let Some(message) = self.known.messages.get_mut(&id) else {
            return self.unreadable(at);
        };
        let settled = matches!(message.status, Status::Parked | Status::Rejected);
        let same_control_id = message.message_control_id == identified.message_control_id;
        let ack = if settled && same_control_id { message.ack.clone() } else { arrival.ack.clone() };
        let receipt = self.next_receipt;
        if identified.order_key < message.order_key {
            message.order_key.clone_from(&identified.order_key);
            message.message_control_id.clone_from(&identified.message_control_id);
            message.ack.clone_from(&ack);
            let subject = message.subject.clone().filter(|_| !settled);
            if let Some(new) = self.writes.messages.iter_mut().find(|new| new.id == id) {
                new.order_key.clone_from(&identified.order_key);
                (new.arrival, new.first_receipt) = (at, receipt);
            } else {
                let lowered = Lowered {
                    order_key: identified.order_key.clone(),
                    message_control_id: identified.message_control_id.clone(),
                    receipt,
                };
                self.writes.lowered.insert(id, lowered);
                if let Some(subject) = subject {
                    self.touch(&subject, None, arrival);
                }
            }
        }
        self.identify(self.keys[at].transport, Some(id), receipt);
        let verdict = Verdict::SkippedResend;
        self.answer(at, Outcome { message: Some(id), verdict, code: None, alerts, ack, payload_of: None })
    }

    /// Rows 3–8 and 11 with keys: a new element of S, or `known`, rejected before and taken now.
    fn new_message(&mut self, at: usize, identified: &Identified, known: Option<i64>) -> Accepted {
        let arrival = self.arrivals[at];
        let id = known.unwrap_or(self.next_message);
        let judged = self.judge(at, identified, id);
        let receipt = self.next_receipt;
        let row = NewMessage {
            id,
            arrival: at,
            order_key: identified.order_key.clone(),
            status: judged.status,
            code: judged.code,
            verdict: judged.verdict,
            corrects: judged.corrects,
            first_receipt: receipt,
        };
        if known.is_none() {
            self.next_message += 1;
            self.writes.messages.push(row);
        } else if let Some(new) = self.writes.messages.iter_mut().find(|new| new.id == id) {
            *new = row;
        } else {
            self.writes.promoted.push(row);
        }
        self.known.add_message(
            id,
            KnownMessage {
                message_id: identified.message_id.clone(),
                status: judged.status,
                order_key: identified.order_key.clone(),
                business_key: identified.business_key.map(Vec::from),
                message_control_id: identified.message_control_id.clone(),
                subject: identified.subject.clone(),
                ack: arrival.ack.clone(),
            },
        );
        if judged.status != Status::Rejected {
            // A rejected message is no element of S: nothing may be a correction or a reuse of it.
            let keys = &self.keys[at];
            for key in [keys.semantic, keys.transport, keys.business] {
                self.identify(key, Some(id), receipt);
            }
        }
        if let (Status::Pending, Some(subject)) = (judged.status, &identified.subject) {
            self.touch(subject, Some(&identified.order_key), arrival);
        }
        let outcome = Outcome {
            message: Some(id),
            verdict: judged.verdict,
            code: judged.code,
            alerts: judged.alerts,
            ack: arrival.ack.clone(),
            payload_of: None,
        };
        self.answer(at, outcome)
    }

    fn judge(&mut self, at: usize, identified: &Identified, id: i64) -> Judged {
        let arrival = self.arrivals[at];
        if let Disposition::Reject(code) = arrival.disposition {
            let (verdict, status) = (Verdict::Rejected, Status::Rejected);
            return Judged { verdict, status, code: Some(code), alerts: Vec::new(), corrects: None };
        }
        let other = |key: Option<Key>| {
            key.and_then(|key| self.known.identities.get(&key))
                .and_then(|seen| seen.message)
                .filter(|other| *other != id)
        };
        let restamped = other(self.keys[at].semantic).map(|_| RESTAMPED_CONTENT);
        let corrects = other(self.keys[at].business);
        let alerts = restamped.into_iter().chain(self.control_id_reuse(at, identified, id)).collect();
        if let Disposition::Park(code) = arrival.disposition {
            return Judged { verdict: Verdict::Parked, status: Status::Parked, code: Some(code), alerts, corrects };
        }
        let newest = identified.subject.as_ref().and_then(|subject| self.known.newest.get(subject));
        let verdict = if corrects.is_some() {
            Verdict::AppliedCorrection
        } else if newest.is_some_and(|newest| identified.order_key < *newest) {
            Verdict::AppliedLate
        } else {
            Verdict::Applied
        };
        Judged { verdict, status: Status::Pending, code: None, alerts, corrects }
    }

    /// Row 4: the transport key stands for another real-world event. Raised once per key: some senders put a site id
    /// into MSH-10.
    fn control_id_reuse(&mut self, at: usize, identified: &Identified, id: i64) -> Option<&'static str> {
        let key = self.keys[at].transport?;
        let seen = self.known.identities.get_mut(&key)?;
        let other = seen.message.filter(|other| *other != id)?;
        let same_event = identified.business_key.is_some_and(|own| {
            self.known.messages.get(&other).and_then(|m| m.business_key.as_deref()) == Some(own.as_slice())
        });
        if same_event || seen.flagged {
            return None;
        }
        seen.flagged = true;
        self.writes.flagged.insert(key);
        Some(CONTROL_ID_REUSE)
    }

    /// The first message under a key keeps it.
    fn identify(&mut self, key: Option<Key>, message: Option<i64>, receipt: i64) {
        if let Some(key) = key
            && !self.known.identities.contains_key(&key)
        {
            let seen = Seen { message, receipt, ack: Vec::new(), rejected: false, flagged: false };
            self.known.identities.insert(key, seen);
            self.writes.identities.push(NewIdentity { key, message, receipt });
        }
    }

    fn touch(&mut self, subject: &str, order_key: Option<&Vec<u8>>, arrival: &Arrival) {
        if let Some(order_key) = order_key {
            let newest = self.known.newest.entry(subject.to_owned()).or_default();
            if *newest < *order_key {
                newest.clone_from(order_key);
            }
        }
        let due_at = crate::time::micros(arrival.received_at);
        let newest_key = self.known.newest.get(subject).cloned();
        let touched = self.writes.touched.entry(subject.to_owned()).or_insert(Touched { newest_key: None, due_at });
        touched.newest_key = newest_key;
    }

    /// Writes the receipt, its raw key and its audit row.
    fn answer(&mut self, at: usize, outcome: Outcome) -> Accepted {
        let arrival = self.arrivals[at];
        let Outcome { message, verdict, code, alerts, ack, payload_of } = outcome;
        let id = self.next_receipt;
        self.next_receipt += 1;
        if payload_of.is_none() {
            self.identify_bytes(self.keys[at].raw, message, id, &ack, verdict == Verdict::Rejected);
        }
        let message_id = message.and_then(|id| self.known.messages.get(&id)).map(|message| message.message_id.clone());
        let detail = serde_json::json!({
            "verdict": verdict.as_str(), "code": code, "alerts": alerts, "mapping": arrival.mapping_version,
        });
        self.writes.audit.push(Entry {
            at: crate::time::micros(arrival.received_at),
            event: "received".to_owned(),
            receipt_id: Some(arrival.receipt_id.clone()),
            message_id: message_id.clone(),
            detail: detail.to_string(),
        });
        self.writes.receipts.push(NewReceipt {
            id,
            arrival: at,
            message,
            verdict,
            code,
            ack: ack.clone(),
            alerts: alerts.clone(),
            payload_of: payload_of.unwrap_or(id),
        });
        Accepted { verdict, message_id, ack, alerts }
    }

    /// A raw key always stands for the latest receipt that was judged, so that its answer is the one repeated.
    fn identify_bytes(&mut self, key: Key, message: Option<i64>, receipt: i64, ack: &[u8], rejected: bool) {
        let seen = Seen { message, receipt, ack: ack.to_vec(), rejected, flagged: false };
        let row = NewIdentity { key, message, receipt };
        if self.known.identities.insert(key, seen).is_none() {
            self.writes.identities.push(row);
        } else if let Some(new) = self.writes.identities.iter_mut().find(|new| new.key == key) {
            *new = row;
        } else {
            self.writes.repointed.push(row);
        }
    }
}
