//! The canonical form of a message: what stays the same when it is re-sent, re-encoded or written by another engine.
//!
//! Terminators, trailing separators, escapes, character set and the choice of separators don't count; nor do, for the
//! semantic form, the fields that say when and as what it was transmitted (DESIGN §4). Two messages have the same
//! canonical form exactly when every value that counts is the same.

use crate::delimiters::Delimiters;
use crate::element::{Element, Level};
use crate::escape::unescape;
use crate::message::Message;

/// MSH fields of the transmission rather than the content: time, control id, sequence number, continuation pointer,
/// acknowledgement types.
const TRANSMISSION: [usize; 6] = [7, 10, 13, 14, 15, 16];

/// `""`: no escaped byte looks like it, so a value of two quotes written as `\X2222\` is another.
const NULL: [u8; 2] = [0x1b, b'0'];

/// What is left out of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// Nothing but MSH-1, MSH-2 and MSH-18, which say how the bytes are written.
    Encoding,
    /// Also the transmission's own fields and the SFT segments.
    Transmission,
}

/// The form: one byte per structure (0x1C segment, 0x1D field, 0x1E repetition, 0x1F component, 0x1A subcomponent),
/// values unescaped. Bytes of that range inside a value stand behind 0x1B.
pub fn canonical(message: &Message<'_>, skip: Skip) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.text().len());
    for segment in message.segments() {
        let name = segment.name();
        if skip == Skip::Transmission && name == "SFT" {
            continue;
        }
        out.push(0x1c);
        value(name, &mut out);
        let header = name == "MSH";
        for (n, field) in segment.fields() {
            let left_out =
                header && (matches!(n, 1 | 2 | 18) || (skip == Skip::Transmission && TRANSMISSION.contains(&n)));
            out.push(0x1d);
            if !left_out {
                parts(field, &mut out);
            }
        }
        trim(&mut out, &[0x1d]);
    }
    out
}

/// A field by its leaves; each mark takes the weaker ones before it away, since nothing follows them.
fn parts(field: Element<'_>, out: &mut Vec<u8>) {
    if field.level() == Level::Literal {
        return value(field.raw(), out);
    }
    let d = field.delimiters();
    let mut rest = field.raw();
    while let Some(at) = memchr::memchr3(d.repetition, d.component, d.subcomponent, rest.as_bytes()) {
        let (part, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        leaf(part, d, out);
        let (mark, weaker): (u8, &[u8]) = match from.as_bytes().first() {
            Some(&byte) if byte == d.repetition => (0x1e, &[0x1f, 0x1a]),
            Some(&byte) if byte == d.component => (0x1f, &[0x1a]),
            _ => (0x1a, &[]),
        };
        trim(out, weaker);
        out.push(mark);
        rest = from.get(1..).unwrap_or_default();
    }
    leaf(rest, d, out);
    trim(out, &[0x1e, 0x1f, 0x1a]);
}

/// Drops trailing marks.
fn trim(out: &mut Vec<u8>, marks: &[u8]) {
    while out.last().is_some_and(|last| marks.contains(last)) {
        out.pop();
    }
}

fn leaf(raw: &str, delimiters: Delimiters, out: &mut Vec<u8>) {
    if raw == "\"\"" {
        return out.extend_from_slice(&NULL);
    }
    // Without short circuit, so that it is done many bytes at a time.
    let special = |byte: u8| u8::from(byte == delimiters.escape || is_mark(byte));
    if raw.bytes().fold(0, |any, byte| any | special(byte)) == 0 {
        out.extend_from_slice(raw.as_bytes());
    } else {
        value(&unescape(raw, delimiters), out);
    }
}

/// Whether a byte stands for structure or for the escape before a value's own such byte.
fn is_mark(byte: u8) -> bool {
    matches!(byte, 0x1a..=0x1f)
}

fn value(text: &str, out: &mut Vec<u8>) {
    for &byte in text.as_bytes() {
        if is_mark(byte) {
            out.push(0x1b);
            // Moved out of the range of marks, so that trimming never takes a value's byte for one.
            out.push(byte | 0x40);
        } else {
            out.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn semantic(text: &str) -> Vec<u8> {
        canonical(&Message::parse(text).unwrap(), Skip::Transmission)
    }

    const SENT: &str = "MSH|^~\\&|A|B|||20240101||ADT^A01|1|P|2.5\rPID|1||7^^^H&1.2&ISO^MR~8||Fo\\T\\o^B\"ar\r";

    #[test]
    fn writing_and_transmission_do_not_count() {
        for again in [
            "MSH|^~\\&|A|B|||20250505||ADT^A01|2|P|2.5|9||AL|NE|\rSFT|x\rPID|1||7^^^H&1.2&ISO^MR~8||Fo\\T\\o^B\"ar|||||\r",
            "MSH|^~\\&|A|B|||20240101||ADT^A01^|1|P|2.5\rPID|1||7^^^H&1.2&ISO^MR^^~8~||Fo\\X26\\o^B\"ar",
            "MSH*$~\\&*A*B***20240101**ADT$A01*1*P*2.5\rPID*1**7$$$H&1.2&ISO$MR~8**Fo\\T\\o$B\"ar\r",
        ] {
            assert_eq!(semantic(again), semantic(SENT), "{again}");
        }
    }

    #[test]
    fn values_nulls_and_structure_count() {
        for other in [
            "MSH|^~\\&|A|B|||20240101||ADT^A01|1|P|2.5\rPID|1||7^^^H&1.2&ISO^MR~8||Fo\\T\\o^B\"ar|\"\"\r",
            "MSH|^~\\&|A|B|||20240101||ADT^A01|1|P|2.5\rPID|1||7^^^H&1.2&ISO^MR^8||Fo\\T\\o^B\"ar\r",
            "MSH|^~\\&|A|B|||20240101||ADT^A01|1|P|2.5\rPID|1||7^^^H&1.2&ISO^MR~8||Fo&o^B\"ar\r",
            "MSH|^~\\&|A|C|||20240101||ADT^A01|1|P|2.5\rPID|1||7^^^H&1.2&ISO^MR~8||Fo\\T\\o^B\"ar\r",
        ] {
            assert_ne!(semantic(other), semantic(SENT), "{other}");
        }
        let text = canonical(&Message::parse(SENT).unwrap(), Skip::Encoding);
        let later = SENT.replace("20240101", "20240102");
        assert_ne!(canonical(&Message::parse(&later).unwrap(), Skip::Encoding), text);
    }

    #[test]
    fn marks_inside_values_do_not_pass_for_structure() {
        assert_ne!(semantic("MSH|^~\\&|A\rNTE|\\X2222\\\r"), semantic("MSH|^~\\&|A\rNTE|\"\"\r"));
        let with = "MSH|^~\\&|A\rNTE|\\X1D\\\r";
        let without = "MSH|^~\\&|A\rNTE|\r";
        assert_ne!(semantic(with), semantic(without));
    }
}
