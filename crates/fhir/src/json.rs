//! JSON as FHIR needs it: decimals keep their text, objects keep one key order.
//!
//! A FHIR decimal `5.00` is not `5.0` (R4 §2.24.0.1), so numbers never pass through a binary float. Objects are sorted
//! (`resourceType` first when written), so the same content is the same bytes whatever built it. Reading text: `parse`.

mod parse;

use std::collections::BTreeMap;
use std::fmt;

use smol_str::SmolStr;

/// A JSON object; keys are FHIR element names.
pub type Object = BTreeMap<SmolStr, Json>;

/// A JSON value. Equality is equality of content; numbers compare by their text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Json {
    /// `null`: in FHIR only inside primitive arrays, beside extensions.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number by its text as sent or computed, e.g. `5.00`.
    Number(SmolStr),
    /// A string.
    String(SmolStr),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(Object),
}

/// Text is no JSON: where the fault is, never what the text was.
#[derive(Debug, thiserror::Error)]
#[error("not JSON: line {line}, column {column}")]
pub struct ParseError {
    /// Line of the fault, from 1.
    pub line: usize,
    /// Column of the fault, from 1.
    pub column: usize,
}

impl Json {
    /// A string value.
    pub fn string(text: impl Into<SmolStr>) -> Self {
        Self::String(text.into())
    }

    /// An object from pairs; later pairs win.
    pub fn object<K: Into<SmolStr>>(pairs: impl IntoIterator<Item = (K, Json)>) -> Self {
        Self::Object(pairs.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }

    /// Parses text; numbers keep their digits.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_bytes(text.as_bytes())
    }

    /// Parses UTF-8 bytes; numbers keep their digits.
    pub fn parse_bytes(bytes: &[u8]) -> Result<Self, ParseError> {
        parse::parse(bytes)
    }

    /// The member `name` of an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.as_object()?.get(name)
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(s) => Some(s),
            _ => None,
        }
    }

    /// The boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The members of an object.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(o) => Some(o),
            _ => None,
        }
    }

    /// The members of an object, to change.
    pub fn as_object_mut(&mut self) -> Option<&mut Object> {
        match self {
            Self::Object(o) => Some(o),
            _ => None,
        }
    }

    /// The items of an array; nothing for other values.
    pub fn items(&self) -> &[Json] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }

    /// `resourceType` of a resource.
    pub fn resource_type(&self) -> Option<&str> {
        self.get("resourceType")?.as_str()
    }

    /// Appends the canonical text: `resourceType` first, then keys in order, no white space.
    pub fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(text) => out.push_str(text),
            Self::String(text) => write_string(text, out),
            Self::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => write_object(members, out),
        }
    }
}

fn write_object(members: &Object, out: &mut String) {
    const FIRST: &str = "resourceType";
    out.push('{');
    let first = members.get_key_value(FIRST);
    let rest = members.iter().filter(|(name, _)| *name != FIRST);
    for (i, (name, value)) in first.into_iter().chain(rest).enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_string(name, out);
        out.push(':');
        value.write(out);
    }
    out.push('}');
}

/// Writes a JSON string with the escapes of RFC 8259 §7.
fn write_string(text: &str, out: &mut String) {
    const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{0}'..='\u{1f}' => {
                out.push_str("\\u00");
                for nibble in [u32::from(c) >> 4, u32::from(c) & 0xf] {
                    out.push(HEX.get(nibble as usize).copied().unwrap_or('0'));
                }
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out);
        f.write_str(&out)
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        use serde_json::Value;
        match value {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(b),
            Value::Number(n) => Self::Number(n.to_string().into()),
            Value::String(s) => Self::String(s.into()),
            Value::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Value::Object(members) => Self::object(members.into_iter().map(|(k, v)| (k, Self::from(v)))),
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::string(text)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl serde::Serialize for Json {
    /// As its canonical text: an opaque string, so that storing and loading never loses a digit.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Json {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_keep_their_text() {
        for text in ["5.00", "5", "-0.10", "1e5", "1E-7", "1.0e+20", "123456789012345678901234567890.10", "0"] {
            assert_eq!(Json::parse(text).unwrap().to_string(), text);
        }
        assert_ne!(Json::parse("5.0").unwrap(), Json::parse("5.00").unwrap());
    }

    #[test]
    fn keys_have_one_order_whatever_the_parser_keeps() {
        let text = r#"{"z":1,"resourceType":"Patient","a":{"c":1,"b":[{"y":null,"x":true}]},"A":2}"#;
        let canonical = r#"{"resourceType":"Patient","A":2,"a":{"b":[{"x":true,"y":null}],"c":1},"z":1}"#;
        assert_eq!(Json::parse(text).unwrap().to_string(), canonical);
        let mut by_hand = Object::new();
        by_hand.insert("b".into(), true.into());
        by_hand.insert("a".into(), "x".into());
        assert_eq!(Json::Object(by_hand), Json::object([("a", Json::from("x")), ("b", Json::from(true))]));
    }

    #[test]
    fn control_characters_are_escaped() {
        let text: String = ('\u{0}'..='\u{20}').chain(['"', '\\', '/', '\u{7f}', 'é', '\u{2028}', '𝄞']).collect();
        let written = Json::string(text.as_str()).to_string();
        assert!(written.bytes().all(|b| b >= b' '));
        assert!(written.starts_with("\"\\u0000\\u0001") && written.contains("\\u001f"));
        assert_eq!(Json::parse(&written).unwrap().as_str(), Some(text.as_str()));
    }

    #[test]
    fn faults_have_a_place_and_no_text() {
        let fault = Json::parse("{\"a\":\n  Jane}").unwrap_err();
        assert_eq!(fault.to_string(), "not JSON: line 2, column 3");
        for bad in ["", "{} x", "{\"a\":1,}", "[1 2]", "01", "\"\u{1}\"", "nul", "+1", ".5", "NaN"] {
            assert!(Json::parse(bad).is_err(), "{bad}");
        }
        assert!(Json::parse_bytes(b"\"\xff\"").is_err());
        assert!(Json::parse(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn members_are_reached_by_type() {
        let mut json = Json::parse(r#"{"resourceType":"Patient","active":true,"name":[{"family":"X"}]}"#).unwrap();
        assert_eq!(json.resource_type(), Some("Patient"));
        assert_eq!(json.get("active").and_then(Json::as_bool), Some(true));
        assert_eq!(json.get("name").unwrap().items()[0].get("family").and_then(Json::as_str), Some("X"));
        assert_eq!((json.items().len(), json.as_str(), json.as_bool()), (0, None, None));
        json.as_object_mut().unwrap().remove("name");
        assert!(json.get("name").is_none() && Json::Null.as_object_mut().is_none());
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
            "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,10})?([eE][+-]?[0-9]{1,3})?".prop_map(|n| Json::Number(n.into())),
            any::<String>().prop_map(Json::string),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Json::Array),
                prop::collection::vec((any::<String>(), inner), 0..8).prop_map(Json::object),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(json in any_json()) {
            let text = json.to_string();
            let read = Json::parse(&text).unwrap();
            prop_assert_eq!(&read, &json);
            prop_assert_eq!(read.to_string(), text);
            let stored = serde_json::to_string(&json).unwrap();
            prop_assert_eq!(serde_json::from_str::<Json>(&stored).unwrap(), json);
        }

        #[test]
        fn any_text_is_read_or_refused(text in any::<String>()) {
            let _ = Json::parse(&text);
        }
    }
}
