//! Whether a resource has to be written: its canonical text against what the server was last known to hold (DESIGN §5).

use fhir::Json;
use sha2::{Digest, Sha256};

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The server holds it: no write.
    None,
    /// It is new or differs.
    Write,
}

/// SHA-256 of the canonical text: equal content has equal hashes, whatever order it was built in.
pub fn hash(json: &Json) -> [u8; 32] {
    Sha256::digest(json.to_string().as_bytes()).into()
}

/// Compares a rendered resource with the hash of its shadow, if it has one.
pub fn diff(rendered: &Json, shadow: Option<&[u8; 32]>) -> Change {
    if shadow == Some(&hash(rendered)) { Change::None } else { Change::Write }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_content_is_no_change() {
        let parse = |text: &str| Json::parse(text).unwrap();
        let shadow = hash(&parse(r#"{"resourceType":"Patient","gender":"male","active":true}"#));
        let again = parse(r#"{"active":true, "gender":"male", "resourceType":"Patient"}"#);
        assert_eq!(diff(&again, Some(&shadow)), Change::None);
        assert_eq!(diff(&parse(r#"{"resourceType":"Patient","gender":"female"}"#), Some(&shadow)), Change::Write);
        assert_eq!(diff(&again, None), Change::Write);
    }

    #[test]
    fn digits_of_a_decimal_count() {
        assert_ne!(hash(&Json::parse("5.00").unwrap()), hash(&Json::parse("5.0").unwrap()));
    }
}
