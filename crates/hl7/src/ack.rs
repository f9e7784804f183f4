//! Acknowledgements: MSH, MSA and ERR for any message or for bytes that are none (HL7 v2.5.1 §2.9, §2.15).

use crate::delimiters::Delimiters;
use crate::escape::escape;
use crate::message::{Message, Segment};
use crate::path::Location;

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
#[derive(Clone, Copy, Debug)]
pub enum AckSource<'a> {
    /// A parsed message.
    Message(&'a Message<'a>),
    /// Text that could not be parsed; what can be read of an MSH segment is used.
    Unreadable(&'a str),
}

/// The header fields an answer takes over, raw.
#[derive(Default)]
struct Header {
    sending: [String; 2],
    receiving: [String; 2],
    event: String,
    control_id: String,
    processing_id: String,
    version: String,
    charset: String,
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
        AckSource::Message(message) => {
            (message.segment("MSH").map(|msh| read(&msh)).unwrap_or_default(), message.delimiters())
        }
        AckSource::Unreadable(text) => salvage(text),
    };
    write(&header, delimiters, ack, control_id, date_time)
}

fn read(msh: &Segment<'_, '_>) -> Header {
    let raw = |n: usize| msh.field(n).raw().to_owned();
    Header {
        sending: [raw(3), raw(4)],
        receiving: [raw(5), raw(6)],
        event: msh.field(9).component(2).raw().to_owned(),
        control_id: raw(10),
        processing_id: raw(11),
        version: raw(12),
        charset: raw(18),
    }
}

/// What can be read of an MSH that is not first, in lower case, or has unusable separators.
fn salvage(text: &str) -> (Header, Delimiters) {
    let delimiters = Delimiters::default();
    let line = text.split(['\r', '\n']).find(|line| line.get(..3).is_some_and(|name| name.eq_ignore_ascii_case("MSH")));
    let Some(rest) = line.and_then(|l| l.get(3..)) else { return (Header::default(), delimiters) };
    let Some(separator) = rest.chars().next().filter(|c| !c.is_ascii_alphanumeric()) else {
        return (Header::default(), delimiters);
    };
    let fields: Vec<&str> = rest.split(separator).collect();
    let encoding = fields.get(1).copied().unwrap_or_default();
    let own = u8::try_from(separator).ok().and_then(|s| Delimiters::read(s, encoding).ok());
    let delimiters = own.unwrap_or(delimiters);
    // With separators that can't be used, values are rewritten with the recommended ones: whole and escaped.
    let raw = |n: usize| {
        let value = fields.get(n.saturating_sub(1)).copied().unwrap_or_default();
        if own.is_some() { value.to_owned() } else { escape(value, delimiters).into_owned() }
    };
    let event = fields.get(8).and_then(|f| f.split(char::from(delimiters.component)).nth(1)).unwrap_or_default();
    let header = Header {
        sending: [raw(3), raw(4)],
        receiving: [raw(5), raw(6)],
        event: if own.is_some() { event.to_owned() } else { String::new() },
        control_id: raw(10),
        processing_id: raw(11),
        version: raw(12),
        charset: raw(18),
    };
    (header, delimiters)
}

fn write(header: &Header, d: Delimiters, ack: &Ack, control_id: &str, date_time: &str) -> String {
    let f = char::from(d.field);
    let c = char::from(d.component);
    let f_text = f.encode_utf8(&mut [0; 4]).to_owned();
    let f_text = f_text.as_str();
    let mut message_type = format!("ACK{c}{}{c}ACK", header.event);
    if header.event.is_empty() {
        message_type = "ACK".into();
    }
    let version = if header.version.is_empty() { "2.5.1" } else { &header.version };
    let processing_id = if header.processing_id.is_empty() { "P" } else { &header.processing_id };
    let mut out = format!(
        "MSH{f}{}{f}{}{f}{}{f}{}{f}{}{f}{date_time}{f}{f}{message_type}{f}{}{f}{processing_id}{f}{version}",
        d.encoding_characters(),
        header.receiving[0],
        header.receiving[1],
        header.sending[0],
        header.sending[1],
        escape(control_id, d),
    );
    if !header.charset.is_empty() {
        out.extend(std::iter::repeat_n(f, 6));
        out.push_str(&header.charset);
    }
    out.push('\r');
    let before_err_4 = is_before_2_5(version);
    let first = ack.errors.first().filter(|_| before_err_4);
    out.extend(["MSA", f_text, ack.code.as_str(), f_text, &header.control_id]);
    if let Some(error) = first {
        // Before 2.5 the text of the fault stands in MSA-3.
        out.push(f);
        out.push_str(&escape(&text(error), d));
    }
    out.push('\r');
    for error in &ack.errors {
        out.push_str(&err(error, d, before_err_4));
        out.push('\r');
    }
    out
}

fn is_before_2_5(version: &str) -> bool {
    let number = version.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
    let mut parts = number.split('.');
    parts.next() == Some("2") && parts.next().and_then(|minor| minor.parse::<u8>().ok()).is_some_and(|minor| minor < 5)
}

fn text(error: &AckError) -> String {
    format!("{}: {}", error.application_code, error.text)
}

fn err(error: &AckError, d: Delimiters, before_2_5: bool) -> String {
    let f = char::from(d.field);
    let c = char::from(d.component);
    let code = error.code;
    if before_2_5 {
        // ERR-1, a CM: segment, sequence, field, code (HL7 v2.3 §2.24.6).
        let s = char::from(d.subcomponent);
        let location = error.location.map(|l| {
            let (sequence, field) = (l.occurrence.max(1), l.field);
            let field = if field > 0 { field.to_string() } else { String::new() };
            format!("{}{c}{sequence}{c}{field}", l.segment_name())
        });
        let location = location.unwrap_or_else(|| format!("{c}{c}"));
        return format!("ERR{f}{location}{c}{code}{s}{}{s}HL70357", condition(code));
    }
    let location = error.location.map(|l| l.erl(c)).unwrap_or_default();
    let severity = match error.severity {
        Severity::Error => 'E',
        Severity::Warning => 'W',
    };
    format!(
        "ERR{f}{f}{location}{f}{code}{c}{}{c}HL70357{f}{severity}{f}{}{f}{f}{f}{}",
        condition(code),
        error.application_code,
        escape(&error.text, d)
    )
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
    }

    #[test]
    fn what_can_be_read_of_an_unreadable_message_is_used() {
        let own = answer("msh|^~\\&|A|B|C|D|||ADT^A01|7|P|2.5\r", &missing());
        assert!(own.starts_with("MSH|^~\\&|C|D|A|B|20240101||ACK^A01^ACK|R1|P|2.5\rMSA|AE|7\r"), "{own}");
        let odd = answer("MSH|^^^^|A^x|B|C|D|||ADT^A01|7|P|2.5\r", &missing());
        assert!(odd.starts_with("MSH|^~\\&|C|D|A\\S\\x|B|20240101||ACK|R1|P|2.5\rMSA|AE|7\r"), "{odd}");
        let none = answer("hello", &missing());
        assert!(none.starts_with("MSH|^~\\&|||||20240101||ACK|R1|P|2.5.1\rMSA|AE|\r"), "{none}");
    }
}
