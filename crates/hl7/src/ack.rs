//! Acknowledgements: MSH, MSA and ERR for any message or for text that is none (HL7 v2.5.1 §2.9, §2.15).
//! Not here: which code answers what. Contract: whatever was received, the answer is a message that parses, with CR after
//! each segment and no control character that could break its frame.

mod header;
mod requested;

use crate::delimiters::Delimiters;
use crate::escape::escape;
use crate::message::Message;
use crate::path::Location;

use header::Header;
pub use requested::{Condition, Requested, requested};

/// MSH-12 of an answer to what names no version.
const VERSION: &str = "2.5.1";
/// MSH-11 of an answer to what names none.
const PROCESSING_ID: &str = "P";

/// MSA-1 (HL7 table 0008).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AckCode {
    /// Application accept.
    AA,
    /// Application error: the content can't be taken.
    AE,
    /// Application reject: this receiver does not take such messages.
    AR,
    /// Commit accept.
    CA,
    /// Commit error.
    CE,
    /// Commit reject.
    CR,
}

impl AckCode {
    /// The code as written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AA => "AA",
            Self::AE => "AE",
            Self::AR => "AR",
            Self::CA => "CA",
            Self::CE => "CE",
            Self::CR => "CR",
        }
    }
}

/// ERR-4 (HL7 table 0516).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Not taken.
    Error,
    /// Taken, but not all of it could be used.
    Warning,
}

/// One ERR segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckError {
    /// ERR-2.
    pub location: Option<Location>,
    /// ERR-3, HL7 table 0357.
    pub code: u16,
    /// ERR-4.
    pub severity: Severity,
    /// ERR-5: our stable code.
    pub application_code: &'static str,
    /// ERR-8: what to do, without message content.
    pub text: String,
}

/// An acknowledgement to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// MSA-1.
    pub code: AckCode,
    /// ERR segments, in order.
    pub errors: Vec<AckError>,
}

/// What is acknowledged.
#[derive(Clone, Copy)]
pub enum AckSource<'a> {
    /// A parsed message.
    Message(&'a Message<'a>),
    /// Text that could not be parsed; what can be read of an MSH segment is used.
    Unreadable(&'a str),
}

/// HL7 table 0357.
fn condition(code: u16) -> &'static str {
    match code {
        0 => "Message accepted",
        100 => "Segment sequence error",
        101 => "Required field missing",
        102 => "Data type error",
        103 => "Table value not found",
        104 => "Value too long",
        200 => "Unsupported message type",
        201 => "Unsupported event code",
        202 => "Unsupported processing id",
        203 => "Unsupported version id",
        204 => "Unknown key identifier",
        205 => "Duplicate key identifier",
        206 => "Application record locked",
        _ => "Application internal error",
    }
}

/// Writes the answer. `control_id` becomes its MSH-10, `date_time` its MSH-7; all else comes from the message. Every
/// segment ends in CR.
pub fn build(source: AckSource<'_>, ack: &Ack, control_id: &str, date_time: &str) -> String {
    let (header, delimiters) = match source {
        AckSource::Message(message) => (Header::of(message), message.delimiters()),
        AckSource::Unreadable(text) => Header::salvage(text),
    };
    write(&header, delimiters, ack, control_id, date_time)
}

fn write(header: &Header, d: Delimiters, ack: &Ack, control_id: &str, date_time: &str) -> String {
    let c = char::from(d.component);
    let mut message_type = format!("ACK{c}{}{c}ACK", header.event);
    if header.event.is_empty() {
        message_type = "ACK".into();
    }
    let [application, facility] = &header.sending;
    let [receiving_application, receiving_facility] = &header.receiving;
    let or = |value: &str, default: &str| if value.is_empty() { default.to_owned() } else { value.to_owned() };
    let version = or(&header.version, VERSION);
    let mut msh = vec![
        "MSH".to_owned(),
        d.encoding_characters(),
        receiving_application.clone(),
        receiving_facility.clone(),
        application.clone(),
        facility.clone(),
        escape(date_time, d).into_owned(),
        String::new(),
        message_type,
        escape(control_id, d).into_owned(),
        or(&header.processing_id, PROCESSING_ID),
        version.clone(),
    ];
    if !header.charset.is_empty() {
        msh.resize(17, String::new());
        msh.push(header.charset.clone());
    }
    let mut msa = vec!["MSA".to_owned(), ack.code.as_str().to_owned(), header.control_id.clone()];
    let old = is_before_2_5(&version);
    if let Some(error) = ack.errors.first().filter(|_| old) {
        // Before 2.5 the text of the fault stands in MSA-3, since ERR has no place for it.
        msa.push(escape(&format!("{}: {}", error.application_code, error.text), d).into_owned());
    }
    let mut segments = vec![msh, msa];
    if old {
        segments.extend(old_err(&ack.errors, d));
    } else {
        segments.extend(ack.errors.iter().map(|error| err(error, d)));
    }
    let field = char::from(d.field).to_string();
    segments.iter().flat_map(|fields| [fields.join(&field), "\r".to_owned()]).collect()
}

fn is_before_2_5(version: &str) -> bool {
    let number = version.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
    let mut parts = number.split('.');
    parts.next() == Some("2") && parts.next().and_then(|minor| minor.parse::<u8>().ok()).is_some_and(|minor| minor < 5)
}

/// ERR-1, one repetition for each fault, in the only ERR there may be (HL7 v2.3 §2.24.6, v2.4 §2.16.5): segment,
/// sequence, field, code.
fn old_err(errors: &[AckError], d: Delimiters) -> Option<Vec<String>> {
    let (c, s) = (char::from(d.component), char::from(d.subcomponent));
    let one = |error: &AckError| {
        let place = error.location.map_or_else(
            || format!("{c}{c}"),
            |at| {
                let field = if at.field > 0 { at.field.to_string() } else { String::new() };
                format!("{}{c}{}{c}{field}", escape(at.segment_name(), d), at.occurrence.max(1))
            },
        );
        format!("{place}{c}{}{s}{}{s}HL70357", error.code, condition(error.code))
    };
    let repetitions: Vec<String> = errors.iter().map(one).collect();
    (!repetitions.is_empty()).then(|| vec!["ERR".to_owned(), repetitions.join(&char::from(d.repetition).to_string())])
}

/// ERR from 2.5 on (HL7 v2.5.1 §2.15.5).
fn err(error: &AckError, d: Delimiters) -> Vec<String> {
    let c = char::from(d.component);
    let severity = match error.severity {
        Severity::Error => "E",
        Severity::Warning => "W",
    };
    vec![
        "ERR".to_owned(),
        String::new(),
        error.location.map(|at| at.erl(c)).unwrap_or_default(),
        format!("{}{c}{}{c}HL70357", error.code, condition(error.code)),
        severity.to_owned(),
        escape(error.application_code, d).into_owned(),
        String::new(),
        String::new(),
        escape(&error.text, d).into_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing() -> Ack {
        Ack {
            code: AckCode::AE,
            errors: vec![AckError {
                location: Some(Location::field("PID", 3)),
                code: 101,
                severity: Severity::Error,
                application_code: "NO_PATIENT_IDENTITY",
                text: "send PID-3 with an assigning authority".into(),
            }],
        }
    }

    fn answer(text: &str, ack: &Ack) -> String {
        match Message::parse(text) {
            Ok(message) => build(AckSource::Message(&message), ack, "R1", "20240101"),
            Err(_) => build(AckSource::Unreadable(text), ack, "R1", "20240101"),
        }
    }

    #[test]
    fn the_header_is_turned_round() {
        let text = "MSH|^~\\&|A^1.2^ISO|B|C|D^9|20240101||ADT^A01^ADT_A01|M\\F\\1|T^A|2.5.1||||||8859/1\r";
        let accepted = Ack { code: AckCode::AA, errors: Vec::new() };
        assert_eq!(
            answer(text, &accepted),
            "MSH|^~\\&|C|D^9|A^1.2^ISO|B|20240101||ACK^A01^ACK|R1|T^A|2.5.1||||||8859/1\rMSA|AA|M\\F\\1\r"
        );
    }

    #[test]
    fn separators_of_the_sender_and_odd_headers() {
        let accepted = Ack { code: AckCode::AA, errors: Vec::new() };
        let own = answer("MSH*$!@%#*A$1*B*C*D*20240101**ADT$A01$ADT_A01*7*P$T*2.7\r", &accepted);
        assert_eq!(own, "MSH*$!@%#*C*D*A$1*B*20240101**ACK$A01$ACK*R1*P$T*2.7\rMSA*AA*7\r");
        for (sent, written) in [
            ("MSH|^~\\&|A||C|^^||||||\r", "MSH|^~\\&|C|^^|A||20240101||ACK|R1|P|2.5.1\rMSA|AA|\r"),
            (
                "MSH|^~\\&|A\u{b}\u{1c}|||||||7\n\u{85}\r",
                "MSH|^~\\&|||A\\X0B\\\\X1C\\||20240101||ACK|R1|P|2.5.1\rMSA|AA|7\\X0A\\\\XC285\\\r",
            ),
            ("MSH|^~\\&", "MSH|^~\\&|||||20240101||ACK|R1|P|2.5.1\rMSA|AA|\r"),
        ] {
            assert_eq!(answer(sent, &accepted), written);
        }
    }

    #[test]
    fn errors_name_place_code_and_remedy() {
        let answer = answer("MSH|^~\\&|A|B|C|D|||ADT^A01|7|P|2.5.1\r", &missing());
        assert!(answer.ends_with(
            "MSA|AE|7\rERR||PID^1^3|101^Required field missing^HL70357|E|NO_PATIENT_IDENTITY|||send PID-3 with an assigning authority\r"
        ));
    }

    #[test]
    fn before_2_5_the_error_segment_has_one_field() {
        let answer = answer("MSH|^~\\&|A|B|C|D|||ADT^A01|7|P|2.3\r", &missing());
        assert!(answer.ends_with(
            "MSA|AE|7|NO_PATIENT_IDENTITY: send PID-3 with an assigning authority\rERR|PID^1^3^101&Required field missing&HL70357\r"
        ));
        let mut two = missing();
        two.errors.push(AckError { location: None, code: 207, ..missing().errors.remove(0) });
        let answer = self::answer("MSH|^~\\&|A|B|C|D|||ADT^A01|7|P|2.4^USA\r", &two);
        assert!(
            answer.ends_with(
                "\rERR|PID^1^3^101&Required field missing&HL70357~^^^207&Application internal error&HL70357\r"
            )
        );
    }

    #[test]
    fn what_can_be_read_of_an_unreadable_message_is_used() {
        let own = answer("msh|^~\\&|A|B|C|D|||ADT^A01|7|P|2.5\r", &missing());
        assert!(own.starts_with("MSH|^~\\&|C|D|A|B|20240101||ACK^A01^ACK|R1|P|2.5\rMSA|AE|7\r"), "{own}");
        let odd = answer("MSH|^^^^|A^x|B|C|D|||ADT^A01|7|P|2.5\r", &missing());
        assert!(odd.starts_with("MSH|^~\\&|C|D|A\\S\\x|B|20240101||ACK|R1|P|2.5\rMSA|AE|7\r"), "{odd}");
        let later = answer("PID|1\r\n \u{feff}MSH|^~\\&|A\r", &missing());
        assert!(later.starts_with("MSH|^~\\&|||A||20240101||ACK|R1|P|2.5.1\rMSA|AE|\r"), "{later}");
        let utf_16 = answer("\u{fffd}\u{fffd}M\0S\0H\0|\0^\0~\0\\\0&\0|\0A\0|\0", &missing());
        assert!(utf_16.starts_with("MSH|^~\\&|||A||20240101|"), "{utf_16}");
        let none = answer("hello", &missing());
        assert!(none.starts_with("MSH|^~\\&|||||20240101||ACK|R1|P|2.5.1\rMSA|AE|\r"), "{none}");
    }
}
