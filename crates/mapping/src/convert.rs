//! Values to FHIR primitives (R4 §2.24.0.1): text, codes, numbers, URIs.
//! Not here: times (`time`), systems of identifiers and codes (`system`).
//! Contract: what is not valid FHIR gives no value and says why; nothing is guessed.

use fhir::Json;
use smol_str::SmolStr;

use crate::issue::IssueCode;
use crate::number::{self, Whole};
use crate::primitive::Primitive;
use crate::sender::Zone;
use crate::time;

/// A converted value, and what there is to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Converted {
    pub json: Option<Json>,
    pub issue: Option<IssueCode>,
}

impl Converted {
    pub(crate) fn good(json: Json) -> Self {
        Self { json: Some(json), issue: None }
    }

    pub(crate) fn failed(issue: IssueCode) -> Self {
        Self { json: None, issue: Some(issue) }
    }

    /// Nothing to say: white space alone is no value.
    pub(crate) fn nothing() -> Self {
        Self { json: None, issue: None }
    }

    fn or_failed(json: Option<Json>, issue: IssueCode) -> Self {
        json.map_or_else(|| Self::failed(issue), Self::good)
    }
}

/// Converts the text of a value.
pub(crate) fn convert(kind: Primitive, text: &str, zone: &Zone) -> Converted {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Converted::nothing();
    }
    match kind {
        Primitive::Markdown | Primitive::Full => string(text.trim_end()),
        Primitive::Code => Converted::or_failed(code(trimmed), IssueCode::InvalidCode),
        Primitive::Id => Converted::or_failed(id(trimmed), IssueCode::InvalidUri),
        Primitive::Uri | Primitive::Url | Primitive::Canonical => {
            Converted::or_failed(uri(trimmed), IssueCode::InvalidUri)
        }
        Primitive::Oid => Converted::or_failed(oid(trimmed), IssueCode::InvalidUri),
        Primitive::Uuid => Converted::or_failed(uuid(trimmed), IssueCode::InvalidUri),
        Primitive::Boolean => Converted::or_failed(boolean(trimmed), IssueCode::CodeUnmapped),
        Primitive::Integer => whole(trimmed, Whole::Any),
        Primitive::PositiveInt => whole(trimmed, Whole::Positive),
        Primitive::UnsignedInt => whole(trimmed, Whole::Unsigned),
        Primitive::Decimal => Converted::or_failed(number::decimal(trimmed), IssueCode::InvalidNumber),
        Primitive::Date => time::date(trimmed),
        Primitive::DateTime => time::date_time(trimmed, zone),
        Primitive::Instant => time::instant(trimmed, zone),
        Primitive::Time => time::time(trimmed),
        Primitive::Base64Binary => Converted::or_failed(base64(trimmed), IssueCode::InvalidBase64),
        // Their callers take values apart first; what is left is text.
        Primitive::String
        | Primitive::Authority
        | Primitive::EntityAuthority
        | Primitive::IdentifierSystem
        | Primitive::CodingSystem
        | Primitive::Telephone => string(trimmed),
    }
}

fn whole(text: &str, whole: Whole) -> Converted {
    Converted::or_failed(number::integer(text, whole), IssueCode::InvalidNumber)
}

/// R4 strings have no control characters besides tab, CR and LF; spaces at the end say nothing (HL7 v2 §2.A.75).
fn string(text: &str) -> Converted {
    // Most texts have none: 0xC2 begins U+0080 to U+009F among others.
    if text.bytes().all(|b| b >= b' ' && b != 0x7f && b != 0xc2) {
        return Converted::good(Json::string(text));
    }
    let forbidden = |c: char| c.is_control() && !matches!(c, '\t' | '\r' | '\n');
    if !text.contains(forbidden) {
        return Converted::good(Json::string(text));
    }
    let kept: String = text.chars().filter(|c| !forbidden(*c)).collect();
    let json = (!kept.trim().is_empty()).then(|| Json::string(kept));
    Converted { json, issue: Some(IssueCode::ControlCharacters) }
}

/// `[^\s]+(\s[^\s]+)*`
fn code(text: &str) -> Option<Json> {
    let mut space = false;
    for c in text.chars() {
        if c.is_control() || (space && c.is_whitespace()) {
            return None;
        }
        space = c.is_whitespace();
    }
    Some(Json::string(text))
}

/// `[A-Za-z0-9\-\.]{1,64}`
fn id(text: &str) -> Option<Json> {
    let valid = text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.');
    valid.then(|| Json::string(text))
}

fn uri(text: &str) -> Option<Json> {
    let valid = !text.chars().any(|c| c.is_whitespace() || c.is_control());
    valid.then(|| Json::string(text))
}

/// `urn:oid:[0-2](\.(0|[1-9][0-9]*))+`, the prefix added where it is missing.
fn oid(text: &str) -> Option<Json> {
    let digits = text.strip_prefix("urn:oid:").unwrap_or(text);
    is_oid(digits).then(|| Json::String(SmolStr::from_iter(["urn:oid:", digits])))
}

/// Dotted numbers from 0, 1 or 2, without leading zeros.
pub(crate) fn is_oid(text: &str) -> bool {
    let mut arcs = text.split('.');
    let root = arcs.next().is_some_and(|arc| matches!(arc, "0" | "1" | "2"));
    let mut more = 0_usize;
    let all = arcs.all(|arc| {
        more = more.saturating_add(1);
        let digits = !arc.is_empty() && arc.bytes().all(|b| b.is_ascii_digit());
        digits && (arc == "0" || !arc.starts_with('0'))
    });
    root && all && more > 0
}

fn uuid(text: &str) -> Option<Json> {
    let bare = text.strip_prefix("urn:uuid:").unwrap_or(text);
    let parsed = uuid::Uuid::try_parse(bare).ok()?;
    Some(Json::string(parsed.urn().encode_lower(&mut uuid::Uuid::encode_buffer())))
}

/// HL7 table 0136.
fn boolean(text: &str) -> Option<Json> {
    match text {
        "Y" | "true" => Some(Json::Bool(true)),
        "N" | "false" => Some(Json::Bool(false)),
        _ => None,
    }
}

/// RFC 4648 §4 with padding; white space between is allowed and dropped.
fn base64(text: &str) -> Option<Json> {
    let packed: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let body = packed.trim_end_matches('=');
    let padding = packed.len().checked_sub(body.len())?;
    let alphabet = body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/');
    (alphabet && padding <= 2 && packed.len().is_multiple_of(4)).then(|| Json::string(packed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(kind: Primitive, text: &str) -> Option<String> {
        convert(kind, text, &Zone::named("UTC").unwrap()).json.map(|json| json.to_string())
    }

    #[test]
    fn text_and_codes() {
        assert_eq!(show(Primitive::String, " a  b ").as_deref(), Some("\"a  b\""));
        assert_eq!(show(Primitive::Markdown, "  a\nb ").as_deref(), Some("\"  a\\nb\""));
        assert_eq!(show(Primitive::String, "  "), None);
        assert_eq!(show(Primitive::String, "a\u{1}b").as_deref(), Some("\"ab\""));
        assert_eq!(show(Primitive::Code, "a b").as_deref(), Some("\"a b\""));
        assert_eq!(show(Primitive::Code, "a  b"), None);
        assert_eq!(show(Primitive::Boolean, "Y").as_deref(), Some("true"));
        assert_eq!(show(Primitive::Boolean, "U"), None);
    }

    #[test]
    fn uris_and_binaries() {
        assert_eq!(show(Primitive::Oid, "1.2.840.0").as_deref(), Some("\"urn:oid:1.2.840.0\""));
        for bad in ["1", "3.1", "1.02", "1..2", "1.a", "urn:oid:"] {
            assert_eq!(show(Primitive::Oid, bad), None, "{bad}");
        }
        assert_eq!(
            show(Primitive::Uuid, "C757873D-EC9A-4326-A141-556F43239520").as_deref(),
            Some("\"urn:uuid:c757873d-ec9a-4326-a141-556f43239520\"")
        );
        assert_eq!(show(Primitive::Uri, "urn:a b"), None);
        assert_eq!(show(Primitive::Id, "a_b"), None);
        assert_eq!(show(Primitive::Base64Binary, "QUJD RA==").as_deref(), Some("\"QUJDRA==\""));
        assert_eq!(show(Primitive::Base64Binary, "QUJDR"), None);
        assert_eq!(show(Primitive::Base64Binary, "QU=D"), None);
    }
}
