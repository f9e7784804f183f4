//! Bytes from outside: arbitrary ones, broken messages, and sizes beyond all reason. The bodies are those of the fuzz
//! targets.

#[path = "../../../tests/fuzz/bodies/escape.rs"]
mod escape_body;
#[path = "../../../tests/fuzz/bodies/parse.rs"]
mod parse_body;

use hl7::canonical::{Skip, canonical};
use hl7::{Charset, Limit, Message, ParseError, decode, limits};
use proptest::prelude::*;

const SENT: &[u8] = b"MSH|^~\\&|A^1.2^ISO|B|C|D|20240229130501.12-0530||ADT^A01^ADT_A01|7|P|2.5.1|||AL|NE||8859/1\r\
    PID|1||7^^^H&1.2&ISO^MR~8^^^H||M\xfcller \\T\\ S\\F\\hne^\"\"||00000000|\"\"\r\
    OBX|1|FT|a||line\\.br\\two\\X0D0A\\\\.sp3\\\\Zx\\\nthree\r\nNTE|\\\rAL1|\rzz\r\r";

/// A message with a few bytes put in the wrong place.
fn broken() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![proptest::sample::select(&b"|^~\\&#\r\n\0\x0b\x1cMSH\"X.\xc3\xff"[..]), any::<u8>()];
    let edit = (any::<proptest::sample::Index>(), byte, 0..3_u8);
    (proptest::collection::vec(edit, 0..8), 0..=SENT.len()).prop_map(|(edits, length)| {
        let mut bytes = SENT.to_vec();
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => {
                    bytes.remove(at);
                }
            }
        }
        bytes.truncate(length.max(4));
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        parse_body::parse(&bytes);
    }

    #[test]
    fn arbitrary_bytes_behind_a_header(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        parse_body::parse(&[b"MSH|^~\\&|", &bytes[..]].concat());
    }

    #[test]
    fn broken_messages(bytes in broken()) {
        parse_body::parse(&bytes);
    }

    #[test]
    fn arbitrary_text_is_escaped(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        escape_body::escape(&bytes);
    }

    #[test]
    fn text_of_escapes_is_escaped(text in "(\\||\\*)[$^~&\\\\#]{4}([\\\\FSTREPXHN.brsp0-9é ]|\\\\(\\.sp99|F|XE9|x)\\\\){0,60}") {
        escape_body::escape(text.as_bytes());
    }
}

#[test]
fn headers_of_every_length() {
    for length in 0..SENT.len() {
        parse_body::parse(&SENT[..length]);
    }
}

/// M19: sizes that a stack, a square or a multiple would not survive.
#[test]
fn large_messages() {
    let with = |body: String| format!("MSH|^~\\&|A|B\r{body}");
    for body in [
        "OBX|1|ST|a^b^c||x&y~z\r".repeat(10_000),
        "PID|\r".repeat(50_000),
        format!("OBX|1|ED|a||{}\r", "A".repeat(1 << 20)),
        format!("OBX|1|FT|a||{}\r", "\\.br\\".repeat(200_000)),
        format!("OBX|1|FT|a||{}\r", "\\".repeat(1 << 20)),
        format!("OBX|1|FT|a||{}\r", "\\q\\F".repeat(200_000)),
        format!("OBX|{}", "~".repeat(1 << 20)),
        format!("OBX|{}", "&^".repeat(1 << 19)),
        "\n".repeat(1 << 20),
        "\r\n".repeat(1 << 19),
    ] {
        let sent = with(body);
        let decoded = decode(sent.as_bytes(), Charset::UTF_8).unwrap();
        let message = Message::parse(&decoded.text).unwrap();
        let texts = message.segments().flat_map(|s| (1..=s.field_count()).map(move |n| s.field(n).text().len()));
        assert!(texts.sum::<usize>() <= sent.len());
        assert!(canonical(&message, Skip::Encoding).len() <= sent.len());
    }
}

#[test]
fn limits_are_named_and_exact() {
    let with = |body: String| format!("MSH|^~\\&\r{body}");
    let limit = |text: &str| match Message::parse(text) {
        Ok(_) => None,
        Err(ParseError::Limit(limit)) => Some(limit),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(limit(&with("A\r".repeat(limits::SEGMENTS_MAX - 1))), None);
    assert_eq!(limit(&with("A\r".repeat(limits::SEGMENTS_MAX))), Some(Limit::Segments));
    assert_eq!(limit(&with("|".repeat(limits::FIELDS_MAX))), None);
    assert_eq!(limit(&with("|".repeat(limits::FIELDS_MAX + 1))), Some(Limit::Fields));
    let header = with(String::new()).len();
    assert_eq!(limit(&with("x".repeat(limits::TEXT_BYTES_MAX - header))), None);
    assert_eq!(limit(&with("x".repeat(limits::TEXT_BYTES_MAX - header + 1))), Some(Limit::TextBytes));
    assert_eq!(Limit::Segments.to_string(), format!("{} segments", limits::SEGMENTS_MAX));
}
