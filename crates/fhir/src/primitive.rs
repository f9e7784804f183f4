//! The primitive types of R4 (§2.24.0.1) and what a value of each may be, in JSON and in text.
//!
//! Not here: dates and times (`date_time`), codes of a value set (`check`). Texts of faults name the rule, never the value.

use smol_str::SmolStr;

use crate::date_time::{DateTime, is_time};
use crate::json::Json;

/// Greatest number of characters of a string (R4 §2.24.0.1 `string`: 1 MB).
pub const STRING_CHARS_MAX: usize = 1024 * 1024;

/// Greatest number of characters of an `id` (R4 §2.24.0.1).
pub const ID_CHARS_MAX: usize = 64;

/// A primitive type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the variants are the standard's names")]
pub enum Primitive {
    Base64Binary,
    Boolean,
    Canonical,
    Code,
    Date,
    DateTime,
    Decimal,
    Id,
    Instant,
    Integer,
    Markdown,
    Oid,
    PositiveInt,
    String,
    Time,
    UnsignedInt,
    Uri,
    Url,
    Uuid,
    Xhtml,
}

const NAMES: [(&str, Primitive); 20] = [
    ("base64Binary", Primitive::Base64Binary),
    ("boolean", Primitive::Boolean),
    ("canonical", Primitive::Canonical),
    ("code", Primitive::Code),
    ("date", Primitive::Date),
    ("dateTime", Primitive::DateTime),
    ("decimal", Primitive::Decimal),
    ("id", Primitive::Id),
    ("instant", Primitive::Instant),
    ("integer", Primitive::Integer),
    ("markdown", Primitive::Markdown),
    ("oid", Primitive::Oid),
    ("positiveInt", Primitive::PositiveInt),
    ("string", Primitive::String),
    ("time", Primitive::Time),
    ("unsignedInt", Primitive::UnsignedInt),
    ("uri", Primitive::Uri),
    ("url", Primitive::Url),
    ("uuid", Primitive::Uuid),
    ("xhtml", Primitive::Xhtml),
];

/// A value is none of its primitive type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrimitiveFault {
    /// Another JSON type (R4 §2.6.2.3): `"true"` for `true`, `"5"` for `5`.
    #[error("must be a JSON {0}")]
    JsonType(&'static str),
    /// The right JSON type, but not the form of the primitive type.
    #[error("{0}")]
    Form(&'static str),
}

impl Primitive {
    /// The type of this name in the standard.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(n, _)| *n == name).map(|(_, primitive)| *primitive)
    }

    /// Its name in the standard.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, p)| *p == self).map_or("", |(name, _)| name)
    }

    /// Is the JSON value one of this type?
    pub fn check(self, value: &Json) -> Result<(), PrimitiveFault> {
        let (expected, text) = match (self, value) {
            (Self::Boolean, Json::Bool(_)) => return Ok(()),
            (Self::Boolean, _) => ("boolean", None),
            (Self::Decimal | Self::Integer | Self::PositiveInt | Self::UnsignedInt, Json::Number(text)) => {
                ("number", Some(text))
            }
            (Self::Decimal | Self::Integer | Self::PositiveInt | Self::UnsignedInt, _) => ("number", None),
            (_, Json::String(text)) => ("string", Some(text)),
            _ => ("string", None),
        };
        self.check_text(text.map(SmolStr::as_str).ok_or(PrimitiveFault::JsonType(expected))?)
    }

    /// Is the text of a value one of this type?
    pub fn check_text(self, text: &str) -> Result<(), PrimitiveFault> {
        match self.form_fault(text) {
            Some(rule) => Err(PrimitiveFault::Form(rule)),
            None => Ok(()),
        }
    }

    fn form_fault(self, text: &str) -> Option<&'static str> {
        let (fits, rule) = match self {
            Self::Boolean => (matches!(text, "true" | "false"), "must be true or false"),
            Self::String | Self::Markdown => return string_fault(text),
            Self::Code => (is_code(text), "a code has no white space at its ends and single spaces inside"),
            Self::Id => (is_id(text), "an id is 1 to 64 of A-Z a-z 0-9 - ."),
            Self::Uri | Self::Url | Self::Canonical => return uri_fault(text),
            Self::Oid => (is_urn_oid(text), "must be urn:oid: and an OID"),
            Self::Uuid => (is_urn_uuid(text), "must be urn:uuid: and a UUID in lower case"),
            Self::Date => (
                DateTime::parse(text).is_ok_and(|d| !d.has_time()),
                "must be YYYY, YYYY-MM or YYYY-MM-DD of the calendar",
            ),
            Self::DateTime => (
                DateTime::parse(text).is_ok(),
                "must be YYYY, YYYY-MM, YYYY-MM-DD or YYYY-MM-DDThh:mm:ss with a zone, of the calendar",
            ),
            Self::Instant => (
                DateTime::parse(text).is_ok_and(|d| d.has_time()),
                "must be YYYY-MM-DDThh:mm:ss with a zone, of the calendar",
            ),
            Self::Time => (is_time(text), "must be hh:mm:ss"),
            Self::Decimal => (is_decimal(text), "must be a decimal number"),
            Self::Integer => (integer(text).is_some(), "must be a whole number of 32 bits"),
            Self::UnsignedInt => (integer(text).is_some_and(|n| n >= 0), "must be a whole number from 0 to 2147483647"),
            Self::PositiveInt => (integer(text).is_some_and(|n| n >= 1), "must be a whole number from 1 to 2147483647"),
            Self::Base64Binary => (is_base64(text), "must be base64 with padding"),
            Self::Xhtml => (is_div(text), "must be an XHTML div"),
        };
        (!fits).then_some(rule)
    }
}

/// Control characters can't be written in FHIR's XML form, so no string may have them even where JSON could.
fn string_fault(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("must not be empty");
    }
    if text.bytes().any(|b| b < b' ' && !matches!(b, b'\t' | b'\n' | b'\r')) {
        return Some("must not have control characters");
    }
    let too_long = text.len() > STRING_CHARS_MAX && text.chars().count() > STRING_CHARS_MAX;
    too_long.then_some("must not have more than 1 MB")
}

fn is_code(text: &str) -> bool {
    let mut after_space = true;
    for c in text.chars() {
        let space = c.is_whitespace();
        if space && after_space {
            return false;
        }
        after_space = space;
    }
    !after_space
}

/// Is it a logical id (R4 §2.24.0.1 `id`)?
pub fn is_id(text: &str) -> bool {
    (1..=ID_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
}

fn uri_fault(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("must not be empty");
    }
    if text.chars().any(char::is_whitespace) {
        return Some("a URI has no white space");
    }
    if text.starts_with("urn:oid:") && !is_urn_oid(text) {
        return Some("urn:oid: without an OID");
    }
    (text.starts_with("urn:uuid:") && !is_urn_uuid(text)).then_some("urn:uuid: without a UUID in lower case")
}

/// Is it absolute, i.e. does it begin with a scheme (RFC 3986 §3.1)?
pub fn is_absolute_uri(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    })
}

/// Is it `urn:oid:` and an OID (R4 §2.24.0.1 `oid`)?
pub fn is_urn_oid(text: &str) -> bool {
    let Some(mut arcs) = text.strip_prefix("urn:oid:").map(|oid| oid.split('.')) else { return false };
    let first = arcs.next().is_some_and(|arc| matches!(arc, "0" | "1" | "2"));
    let mut count = 0_usize;
    let rest = arcs.all(|arc| {
        count = count.saturating_add(1);
        !arc.is_empty() && arc.bytes().all(|b| b.is_ascii_digit()) && (arc == "0" || !arc.starts_with('0'))
    });
    first && rest && count > 0
}

/// Is it `urn:uuid:` and a UUID in lower case (R4 §2.24.0.1 `uuid`)?
pub fn is_urn_uuid(text: &str) -> bool {
    let Some(uuid) = text.strip_prefix("urn:uuid:") else { return false };
    uuid.len() == 36
        && uuid.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => matches!(b, b'0'..=b'9' | b'a'..=b'f'),
        })
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(digits)
}

fn integer(text: &str) -> Option<i32> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if !digits(unsigned) || (unsigned.starts_with('0') && text != "0") {
        return None;
    }
    text.parse().ok()
}

/// White space is allowed between the letters (R4 §2.24.0.1 `base64Binary`).
fn is_base64(text: &str) -> bool {
    let (mut letters, mut padding) = (0_usize, 0_usize);
    for b in text.bytes() {
        match b {
            b' ' | b'\t' | b'\r' | b'\n' => continue,
            b'=' => padding = padding.saturating_add(1),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' if padding == 0 => {}
            _ => return false,
        }
        letters = letters.saturating_add(1);
    }
    letters > 0 && letters.is_multiple_of(4) && padding <= 2
}

fn is_div(text: &str) -> bool {
    let text = text.trim();
    let opens = text.strip_prefix("<div").is_some_and(|rest| rest.starts_with([' ', '>', '/', '\t', '\r', '\n']));
    opens && (text.ends_with("</div>") || text.ends_with("/>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_forms(primitive: Primitive, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(primitive.check_text(text), Ok(()), "{} {text:?}", primitive.name());
        }
        for text in bad {
            assert!(primitive.check_text(text).is_err(), "{} {text:?}", primitive.name());
        }
    }

    #[test]
    fn texts_of_strings() {
        let long = "é".repeat(STRING_CHARS_MAX);
        assert_forms(
            Primitive::String,
            &["x", " a\tb\r\n", "é", &long],
            &["", "\u{0}", "a\u{b}", &(long.clone() + "x")],
        );
        assert_forms(Primitive::Markdown, &["# x"], &[""]);
        assert_forms(Primitive::Code, &["a", "a b", "é-1"], &["", " ", " a", "a ", "a  b", "a\t b"]);
        assert_forms(Primitive::Id, &["a", "A.9-z", &"x".repeat(64)], &["", "a_b", "a b", &"x".repeat(65)]);
        assert_forms(
            Primitive::Xhtml,
            &["<div xmlns=\"http://www.w3.org/1999/xhtml\">x</div>", "<div/>"],
            &["x", "<divx></divx>"],
        );
        assert_forms(
            Primitive::Base64Binary,
            &["AAAA", "AAA=", "AA==", "AA AA\r\nBBBB"],
            &["", "A", "AAA", "A===", "AA=A", "@@@@", "===="],
        );
    }

    #[test]
    fn texts_of_uris() {
        assert_forms(
            Primitive::Uri,
            &[
                "http://x.org",
                "relative",
                "urn:oid:2.16.840.1",
                "urn:uuid:5c6b7f0e-2f0d-4b5e-9a4e-6d1f0c5a31d2",
                "urn:id:x",
            ],
            &[
                "",
                "a b",
                "urn:oid:ISO",
                "urn:oid:1",
                "urn:oid:1.02",
                "urn:oid:3.1",
                "urn:uuid:5C6B7F0E-2F0D-4B5E-9A4E-6D1F0C5A31D2",
            ],
        );
        assert_forms(Primitive::Oid, &["urn:oid:1.2.0"], &["1.2.3", "urn:oid:1..2", "urn:oid:1.2."]);
        assert_forms(
            Primitive::Uuid,
            &["urn:uuid:5c6b7f0e-2f0d-4b5e-9a4e-6d1f0c5a31d2"],
            &["urn:uuid:", "urn:uuid:5c6b7f0e"],
        );
        for (text, absolute) in [
            ("http://x", true),
            ("urn:oid:1.2", true),
            ("HL70203", false),
            ("1a:b", false),
            (":b", false),
            ("a:", false),
        ] {
            assert_eq!(is_absolute_uri(text), absolute, "{text}");
        }
    }

    #[test]
    fn texts_of_numbers_and_times() {
        assert_forms(
            Primitive::Decimal,
            &["0", "-0.10", "5.00", "1e5", "1.5E-10"],
            &["", "01", ".5", "5.", "+1", "1e", "NaN"],
        );
        assert_forms(
            Primitive::Integer,
            &["0", "-2147483648", "2147483647"],
            &["", "-0", "01", "1.0", "2147483648", "1e5"],
        );
        assert_forms(Primitive::UnsignedInt, &["0", "2147483647"], &["-1", "2147483648"]);
        assert_forms(Primitive::PositiveInt, &["1"], &["0", "-1"]);
        assert_forms(Primitive::Date, &["2020", "2020-02-29"], &["2019-02-29", "2020-01-01T00:00:00Z"]);
        assert_forms(Primitive::DateTime, &["2020", "2020-01-01T00:00:00Z"], &["2020-01-01T00:00:00"]);
        assert_forms(Primitive::Instant, &["2020-01-01T00:00:00.123+05:30"], &["2020-01-01"]);
        assert_forms(Primitive::Time, &["00:00:00", "23:59:60.5"], &["24:00:00", "10:00", "10:00:00Z"]);
        assert_forms(Primitive::Boolean, &["true", "false"], &["TRUE", "1"]);
    }

    #[test]
    fn json_types() {
        assert_eq!(Primitive::Boolean.check(&Json::Bool(true)), Ok(()));
        assert_eq!(Primitive::Boolean.check(&"true".into()), Err(PrimitiveFault::JsonType("boolean")));
        assert_eq!(Primitive::Decimal.check(&Json::Number("5.00".into())), Ok(()));
        assert_eq!(Primitive::Decimal.check(&"5.00".into()), Err(PrimitiveFault::JsonType("number")));
        assert_eq!(Primitive::Date.check(&Json::Number("2020".into())), Err(PrimitiveFault::JsonType("string")));
        assert!(matches!(Primitive::PositiveInt.check(&Json::Number("0".into())), Err(PrimitiveFault::Form(_))));
        for (name, primitive) in NAMES {
            assert_eq!((Primitive::named(name), primitive.name()), (Some(primitive), name));
        }
    }
}
