//! What must hold for any bytes that are taken for a message.

use hl7::ack::{self, Ack, AckCode, AckError, AckSource, Severity};
use hl7::canonical::{Skip, canonical};
use hl7::{Charset, DateTime, DecodeFlag, Decoded, Element, Level, Location, Message, Segment, State, decode};

/// Panics where a promise of the crate is broken.
pub(crate) fn parse(bytes: &[u8]) {
    let latin = Charset::from_name("8859/1").unwrap_or(Charset::UTF_8);
    for fallback in [Charset::UTF_8, latin] {
        let Ok(decoded) = decode(bytes, fallback) else {
            answered(&String::from_utf8_lossy(bytes));
            continue;
        };
        accounted(bytes, &decoded);
        answered(&decoded.text);
        if let Ok(message) = Message::parse(&decoded.text) {
            walk(&message);
        }
    }
    // Also as nobody normalised it.
    if let Ok(text) = std::str::from_utf8(bytes) {
        answered(text);
        if let Ok(message) = Message::parse(text) {
            walk(&message);
        }
    }
}

/// Decoding leaves out what it says, and nothing else.
fn accounted(bytes: &[u8], decoded: &Decoded<'_>) {
    let text = &decoded.text;
    if decoded.charset == Charset::UTF_8 && !decoded.flags.contains(&DecodeFlag::BytesReplaced) {
        let marked = decoded.flags.contains(&DecodeFlag::ByteOrderMark);
        let left_out = decoded.line_ends_left_out + if marked { 3 } else { 0 };
        assert_eq!(text.len() + left_out, bytes.len(), "bytes disappeared");
        let ends = |byte: &u8| !matches!(byte, b'\r' | b'\n');
        let sent = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        assert!(text.bytes().filter(ends).eq(sent.iter().copied().filter(ends)), "bytes changed");
        if decoded.flags.is_empty() {
            assert_eq!(text.as_bytes(), bytes);
        }
    }
    assert!(!text.contains("\r\r") && !text.starts_with('\r') && !text.contains("\r\n"), "terminators are normalised");
    assert!(decoded.flags.is_sorted() && text.len() <= bytes.len().saturating_mul(3));
}

fn walk(message: &Message<'_>) {
    let raws: Vec<&str> = message.segments().map(|segment| segment.raw()).collect();
    let last = if message.text().ends_with('\r') { "\r" } else { "" };
    assert_eq!(raws.join("\r") + last, message.text(), "segments and terminators are the text");
    for segment in message.segments() {
        assert_eq!(rebuilt(segment, message), segment.raw());
        assert_eq!(segment.field(0).state(), State::Absent);
        assert_eq!(segment.field(segment.field_count() + 1).state(), State::Absent);
        assert_eq!(segment.field(usize::MAX).state(), State::Absent);
        for (_, field) in segment.fields() {
            element(field);
        }
    }
    let full = canonical(message, Skip::Encoding);
    let semantic = canonical(message, Skip::Transmission);
    assert!(semantic.len() <= full.len());
}

/// The segment from its name and fields.
fn rebuilt(segment: Segment<'_, '_>, message: &Message<'_>) -> String {
    let separator = char::from(message.delimiters().field);
    let mut raw = segment.name().to_owned();
    for (n, field) in segment.fields() {
        // MSH-1 is the separator itself, so none stands before it or MSH-2.
        if n > 2 || !matches!(segment.name(), "MSH" | "FHS" | "BHS") {
            raw.push(separator);
        }
        raw.push_str(field.raw());
    }
    raw
}

fn element(element: Element<'_>) {
    let delimiters = element.delimiters();
    let (separator, parts) = match element.level() {
        Level::Field => (delimiters.repetition, element.repetitions()),
        Level::Repetition => (delimiters.component, element.components()),
        Level::Component => (delimiters.subcomponent, element.subcomponents()),
        Level::Literal | Level::Subcomponent => {
            assert_eq!(element.component(1), element);
            assert_eq!(element.component(2).state(), State::Absent);
            let text = element.text();
            if let Ok(time) = DateTime::parse(&text) {
                assert_eq!(DateTime::parse(&time.to_string()), Ok(time));
            }
            return;
        }
    };
    assert_eq!(
        element.text().is_empty(),
        element.state() != State::Value || hl7::unescape(element.raw(), delimiters).is_empty()
    );
    let raws: Vec<&str> = parts.clone().map(|part| part.raw()).collect();
    assert_eq!(raws.join(&char::from(separator).to_string()), element.raw(), "parts and separators are the whole");
    parts.for_each(self::element);
}

/// Whatever it is, the answer is a message of ours to it.
fn answered(text: &str) {
    let error = AckError {
        location: Some(Location { component: 4, ..Location::field("PID", 3) }),
        code: 101,
        severity: Severity::Error,
        application_code: "NO_PATIENT_IDENTITY",
        text: "no | identity\r".into(),
    };
    let ack = Ack { code: AckCode::AE, errors: vec![error.clone(), error] };
    let parsed = Message::parse(text);
    let source = parsed.as_ref().map_or(AckSource::Unreadable(text), AckSource::Message);
    let answer = ack::build(source, &ack, "R1", "20240101000000+0000");
    assert!(answer.ends_with('\r') && !answer.contains(|c: char| c.is_control() && c != '\r'), "frames hold");
    let Ok(answer) = Message::parse(&answer) else { panic!("an answer must parse") };
    assert_eq!(answer.segment("MSA").map(|msa| msa.field(1).text().into_owned()).as_deref(), Some("AE"));
    assert_eq!(answer.segments().next().map(|msh| msh.field(10).text().into_owned()).as_deref(), Some("R1"));
    if let Ok(message) = &parsed {
        let (msh, own) = (message.segment("MSH"), answer.segment("MSH"));
        let text = |segment: Option<Segment<'_, '_>>, n| segment.map(|s| s.field(n).text().into_owned());
        for (theirs, ours) in [(3, 5), (4, 6), (5, 3), (6, 4)] {
            assert_eq!(text(msh, theirs), text(own, ours));
        }
        assert_eq!(text(msh, 10), text(answer.segment("MSA"), 2));
    }
}
