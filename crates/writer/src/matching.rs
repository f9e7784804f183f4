//! What a resource is found by: the search criteria of a key, and whether a resource carries the key.
//!
//! Types with an `identifier` element are matched on it, the others on `meta.tag` (DESIGN §5).

use fhir::{ElementTable, Json, ResourceKey};

/// What a type is matched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Identifier,
    Tag,
}

impl Element {
    pub(crate) fn of(resource_type: &str) -> Self {
        if ElementTable::r4().has_element(resource_type, "identifier") { Self::Identifier } else { Self::Tag }
    }
}

/// The criteria that find the key, to come after `Type?` in the entry of a bundle.
pub fn criteria(key: &ResourceKey) -> String {
    let parameter = match Element::of(&key.resource_type) {
        Element::Identifier => "identifier=",
        Element::Tag => "_tag=",
    };
    let mut text = parameter.to_owned();
    percent_encode(&escape(&key.system), &mut text);
    text.push_str("%7C");
    percent_encode(&escape(&key.value), &mut text);
    text
}

/// Escapes what would end the value (R4 §3.1.1.3.1). `|` and `$` may be escaped too, but need not be here: the first `|` alone
/// separates the system, `$` separates only composites, and there are servers that take their escapes literally and so would
/// create the same resource again at each update.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace(',', "\\,")
}

/// Whether the key has characters that separate values in a search: not every server reads their escapes as it should.
pub(crate) fn is_odd(key: &ResourceKey) -> bool {
    key.system.contains(ODD) || key.value.contains(ODD)
}

const ODD: [char; 4] = ['\\', ',', '|', '$'];

/// Percent-encodes all but unreserved characters (RFC 3986 §2.3).
fn percent_encode(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 0xf)]));
        }
    }
}

/// Whether the resource carries the key.
pub(crate) fn carries(resource: &Json, key: &ResourceKey) -> bool {
    if resource.resource_type() != Some(&key.resource_type) {
        return false;
    }
    let (tokens, value) = match Element::of(&key.resource_type) {
        Element::Identifier => (resource.get("identifier"), "value"),
        Element::Tag => (resource.get("meta").and_then(|meta| meta.get("tag")), "code"),
    };
    // Some types have one identifier at most, which then is no array.
    let tokens = match tokens {
        Some(Json::Array(tokens)) => tokens.as_slice(),
        Some(single) => std::slice::from_ref(single),
        None => &[],
    };
    let is = |token: &Json, name, text: &str| token.get(name).and_then(Json::as_str) == Some(text);
    tokens.iter().any(|token| is(token, "system", &key.system) && is(token, value, &key.value))
}

/// The id we give to a resource where clients choose ids: the UUID of its `fullUrl`, which tells nothing about the patient.
pub(crate) fn client_id(full_url: &str) -> &str {
    full_url.strip_prefix("urn:uuid:").unwrap_or(full_url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(resource_type: &str, system: &str, value: &str) -> ResourceKey {
        ResourceKey { resource_type: resource_type.into(), system: system.into(), value: value.into() }
    }

    #[test]
    fn criteria_are_escaped_and_encoded() {
        let plain = criteria(&key("Patient", "urn:oid:1.2", "a b+c&d=e%f/ü"));
        assert_eq!(plain, "identifier=urn%3Aoid%3A1.2%7Ca%20b%2Bc%26d%3De%25f%2F%C3%BC");
        assert_eq!(criteria(&key("Patient", "s", r"a,b\c")), "identifier=s%7Ca%5C%2Cb%5C%5Cc");
        assert_eq!(criteria(&key("Patient", "s", "a|b$c")), "identifier=s%7Ca%7Cb%24c");
        assert_eq!(criteria(&key("Provenance", "s", "m1")), "_tag=s%7Cm1");
    }

    #[test]
    fn a_resource_carries_its_key_in_full_only() {
        let patient = Json::parse(
            r#"{"resourceType":"Patient","identifier":[{"system":"s","value":"1"},{"value":"2"},{"system":"t","value":"3"}]}"#,
        )
        .unwrap();
        assert!(carries(&patient, &key("Patient", "s", "1")));
        assert!(carries(&patient, &key("Patient", "t", "3")));
        for (resource_type, system, value) in [("Patient", "s", "2"), ("Patient", "s", "3"), ("Person", "s", "1")] {
            assert!(!carries(&patient, &key(resource_type, system, value)), "{resource_type} {system} {value}");
        }
        let single = Json::parse(r#"{"resourceType":"Composition","identifier":{"system":"s","value":"1"}}"#).unwrap();
        assert!(carries(&single, &key("Composition", "s", "1")));
        let tagged = r#"{"resourceType":"Provenance","meta":{"tag":[{"system":"s","code":"m1"}]}}"#;
        assert!(carries(&Json::parse(tagged).unwrap(), &key("Provenance", "s", "m1")));
    }
}
