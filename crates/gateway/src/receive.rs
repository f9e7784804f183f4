//! Receive: judge a frame, make it durable, answer (DESIGN §2).
//!
//! The answer leaves after the store says that message, verdict and answer are on disk; when the store can't say so, the
//! sender gets a refusal it may repeat, never an AA. Nothing here logs or counts by content.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use chart::keys;
use hl7::ack::{self, Ack, AckCode, AckError, AckSource, Severity};
use hl7::{Charset, Message};
use mapping::{Issue, IssueCode, Mapped};
use mllp::{Arrival, Outlet, Received};
use store::{Accepted, Disposition, Store};
use tracing::{info, warn};
use uuid::Uuid;

use crate::clock;
use crate::http::Readiness;
use crate::judge::{self, Fault, Judge};
use crate::metrics::Metrics;
use crate::outcome::Outcome;

/// Most warnings in one answer; the ledger has them all.
const WARNINGS_MAX: usize = 10;

/// Takes the frames of one listener.
pub struct Receiver {
    /// What judges.
    pub judge: Arc<Judge>,
    /// What keeps.
    pub store: Arc<dyn Store>,
    /// What counts.
    pub metrics: Arc<Metrics>,
    /// Whether the last accept reached the disk.
    pub readiness: Arc<Readiness>,
    /// The sender that the listener's connections belong to.
    pub sender: String,
}

/// A frame judged: what to store and what to answer once it is.
struct Taken {
    sender: String,
    identified: Option<store::Identified>,
    disposition: Disposition,
    ack: Ack,
    answer: Vec<u8>,
    /// An acknowledgement itself: stored, never answered.
    is_answer: bool,
    issues: Vec<IssueCode>,
}

impl Outlet for Receiver {
    async fn receive(&self, arrival: Arrival) -> Option<Bytes> {
        let started = Instant::now();
        let receipt_id = Uuid::now_v7();
        let (bytes, answered, taken) = match arrival.received {
            Received::Frame(bytes) => {
                let taken = self.take(&bytes, receipt_id);
                let answered = !taken.is_answer;
                (bytes, answered, taken)
            }
            Received::Quarantined { fault, head, content_bytes } => {
                let (outcome, answered) = quarantine(fault);
                let text = format!("{}: {content_bytes} bytes", quarantine_text(fault));
                let taken = self.refuse(&head, receipt_id, &Fault::new(outcome, None, text));
                (head, answered, taken)
            }
        };
        let answer = self.keep(&bytes, receipt_id, arrival.peer, taken).await;
        self.metrics.accept_seconds.observe(started.elapsed().as_secs_f64());
        answered.then(|| Bytes::from(answer))
    }
}

/// The outcome of a frame that is not whole, and whether its sender waits for an answer to it.
fn quarantine(fault: mllp::Fault) -> (Outcome, bool) {
    match fault {
        mllp::Fault::Oversize => (Outcome::FrameTooLarge, true),
        mllp::Fault::EndWithoutReturn => (Outcome::FrameTruncated, true),
        // The sender began again: an answer here would pass for the answer to what it sends now.
        mllp::Fault::Truncated | mllp::Fault::Unfinished => (Outcome::FrameTruncated, false),
    }
}

fn quarantine_text(fault: mllp::Fault) -> &'static str {
    match fault {
        mllp::Fault::Oversize => "the frame is larger than frame_bytes_max of this listener",
        mllp::Fault::EndWithoutReturn => "FS was not followed by CR",
        mllp::Fault::Truncated => "a new frame began before this one ended",
        mllp::Fault::Unfinished => "the connection ended or stood still inside the frame",
    }
}

impl Receiver {
    /// Judges a whole frame.
    fn take(&self, bytes: &[u8], receipt_id: Uuid) -> Taken {
        let decoded = match self.judge.decode(bytes, &self.sender) {
            Ok(decoded) => decoded,
            Err(fault) => return self.refuse(bytes, receipt_id, &fault),
        };
        let message = match Judge::parse(&decoded.text) {
            Ok(message) => message,
            Err(fault) => return self.refuse(bytes, receipt_id, &fault),
        };
        let judged = self.judge.judge(&message, &self.sender);
        let mut issues = Vec::new();
        let (disposition, ack) = match judged.content.and_then(judge::check) {
            Ok(mapped) => {
                issues = mapped.issues.iter().map(|i| i.code).collect();
                (Disposition::Apply, Ack { code: AckCode::AA, errors: warnings(&mapped) })
            }
            Err(fault) => (disposition(fault.outcome), refusal(&fault)),
        };
        let answer = written(AckSource::Message(&message), &ack, receipt_id, decoded.charset);
        let is_answer = judge::is_answer(&message);
        Taken {
            sender: judged.sender,
            identified: Some(judged.identified),
            disposition,
            ack,
            answer,
            is_answer,
            issues,
        }
    }

    /// What becomes of bytes that are no message.
    fn refuse(&self, bytes: &[u8], receipt_id: Uuid, fault: &Fault) -> Taken {
        let ack = refusal(fault);
        let text = String::from_utf8_lossy(bytes);
        let answer = written(AckSource::Unreadable(&text), &ack, receipt_id, Charset::UTF_8);
        let disposition = Disposition::Reject(fault.outcome.code());
        let sender = self.sender.clone();
        Taken { sender, identified: None, disposition, ack, answer, is_answer: false, issues: Vec::new() }
    }

    /// Makes it durable and gives the answer to write.
    async fn keep(&self, bytes: &[u8], receipt_id: Uuid, peer: std::net::SocketAddr, taken: Taken) -> Vec<u8> {
        let outcome = match &taken.disposition {
            Disposition::Apply => None,
            Disposition::Park(code) | Disposition::Reject(code) => Some(*code),
        };
        let arrival = store::Arrival {
            receipt_id: receipt_id.to_string(),
            received_at: SystemTime::now(),
            sender: taken.sender,
            peer: peer.to_string(),
            traceparent: traceparent(receipt_id),
            raw: bytes.to_vec(),
            raw_hash: keys::raw_hash(bytes),
            identified: taken.identified,
            disposition: taken.disposition,
            mapping_version: self.judge.mapping_version(),
            ack: taken.answer,
        };
        match self.store.accept(arrival).await {
            Ok(accepted) => {
                self.readiness.store(true);
                self.count(&accepted, outcome, &taken.issues, receipt_id);
                self.metrics.answers.with_label_values(&[taken.ack.code.as_str()]).inc();
                accepted.ack
            }
            Err(error) => {
                self.readiness.store(false);
                warn!(%receipt_id, %error, code = Outcome::StoreFailed.code(), "not stored, not accepted");
                self.metrics.alerts.with_label_values(&[Outcome::StoreFailed.code()]).inc();
                self.metrics.answers.with_label_values(&["AE"]).inc();
                let fault = Fault::new(Outcome::StoreFailed, None, "the message could not be stored: send it again");
                unstored(bytes, receipt_id, &fault)
            }
        }
    }

    fn count(&self, accepted: &Accepted, outcome: Option<&str>, issues: &[IssueCode], receipt_id: Uuid) {
        let message_id = accepted.message_id.as_deref().unwrap_or("");
        self.metrics.receipts.with_label_values(&[accepted.verdict.as_str()]).inc();
        for code in accepted.alerts.iter().copied().chain(outcome) {
            self.metrics.alerts.with_label_values(&[code]).inc();
        }
        for issue in issues {
            self.metrics.mapping_issues.with_label_values(&[issue.as_str()]).inc();
        }
        let verdict = accepted.verdict.as_str();
        info!(%receipt_id, message_id, verdict, code = outcome.unwrap_or(""), alerts = ?accepted.alerts, "received");
    }
}

/// Whether an outcome is refused for good or waits for rules, configuration or an operator.
fn disposition(outcome: Outcome) -> Disposition {
    match outcome {
        Outcome::UnsupportedEvent
        | Outcome::NoPatientIdentity
        | Outcome::ClockMissing
        | Outcome::CodeUnmapped
        | Outcome::CheckFailed => Disposition::Park(outcome.code()),
        other => Disposition::Reject(other.code()),
    }
}

/// The answer to a message that is not applied: MSA-1 and one ERR that says where, what and what to do.
fn refusal(fault: &Fault) -> Ack {
    let (code, condition) = fault.outcome.answer();
    let severity = if code == AckCode::AA { Severity::Warning } else { Severity::Error };
    let error = AckError {
        location: fault.location,
        code: condition,
        severity,
        application_code: fault.outcome.code(),
        text: fault.text.clone(),
    };
    Ack { code, errors: vec![error] }
}

/// Warnings of an accepted message: values that were sent wrong, which its sender can correct.
fn warnings(mapped: &Mapped) -> Vec<AckError> {
    mapped.issues.iter().filter_map(warning).take(WARNINGS_MAX).collect()
}

fn warning(issue: &Issue) -> Option<AckError> {
    let (code, text) = match issue.code {
        IssueCode::InvalidDate => (102, "no such date or time: left out"),
        IssueCode::InvalidNumber => (102, "no number of its element: left out"),
        IssueCode::InvalidCode | IssueCode::InvalidUri | IssueCode::InvalidBase64 => {
            (102, "not of its data type: left out")
        }
        IssueCode::NoIdentity => (101, "nothing identifies the resource: it is not written"),
        _ => return None,
    };
    Some(AckError {
        location: Some(issue.location),
        code,
        severity: Severity::Warning,
        application_code: issue.code.as_str(),
        text: text.into(),
    })
}

fn written(source: AckSource<'_>, ack: &Ack, receipt_id: Uuid, charset: Charset) -> Vec<u8> {
    let text = ack::build(source, ack, &control_id(receipt_id), &clock::hl7_now());
    charset.encode(&text)
}

/// MSH-10 of an answer: the last 20 digits of the receipt id, since HL7 up to 2.6 has room for 20 characters.
fn control_id(receipt_id: Uuid) -> String {
    let digits = receipt_id.simple().to_string();
    digits.get(12..).unwrap_or(&digits).to_owned()
}

/// A W3C trace context that begins with the receipt.
fn traceparent(receipt_id: Uuid) -> String {
    let digits = receipt_id.simple().to_string();
    format!("00-{digits}-{}-01", digits.get(16..).unwrap_or("0000000000000001"))
}

/// The refusal of a message that the store did not take.
fn unstored(bytes: &[u8], receipt_id: Uuid, fault: &Fault) -> Vec<u8> {
    let ack = refusal(fault);
    let text = String::from_utf8_lossy(bytes);
    match Message::parse(&text) {
        Ok(message) => written(AckSource::Message(&message), &ack, receipt_id, Charset::UTF_8),
        Err(_) => written(AckSource::Unreadable(&text), &ack, receipt_id, Charset::UTF_8),
    }
}
