//! Bytes to the text of a message: byte order mark, character set, terminators.
//! Not here: which character sets there are (`charset`).
//!
//! Contract: nothing disappears unsaid. Apart from a byte order mark only line ends are left out, and they are counted;
//! with no flag raised the text is the bytes, in its character set.

use std::borrow::Cow;

use crate::charset::{Charset, Declared, declared};

/// Something about the bytes that an operator should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecodeFlag {
    /// A byte order mark was left out.
    ByteOrderMark,
    /// MSH-18 names no known character set; the sender's fallback was used.
    CharsetUnknown,
    /// MSH-18 is empty and the bytes are no UTF-8; the sender's fallback was used.
    CharsetAssumed,
    /// The bytes are no text in the declared character set; the sender's fallback was used.
    CharsetMismatch,
    /// Some bytes are no text in any of them and were replaced by U+FFFD.
    BytesReplaced,
    /// Segments ended in LF or CR LF.
    Terminators,
    /// Blank lines between segments were left out.
    BlankLines,
}

/// Bytes can't be a message's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// UTF-16, which MLLP can't carry.
    #[error("the bytes are UTF-16; send UTF-8 or a single-byte character set")]
    Utf16,
}

/// A message's text with CR after each segment.
#[derive(Clone)]
pub struct Decoded<'b> {
    /// The text.
    pub text: Cow<'b, str>,
    /// What it was read as.
    pub charset: Charset,
    /// What was noticed, each once, in order.
    pub flags: Vec<DecodeFlag>,
    /// Line ends left out: the LF of CR LF, blank lines.
    pub line_ends_left_out: usize,
}

impl std::fmt::Debug for Decoded<'_> {
    /// All but the text, which may be about a patient.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Decoded({} bytes, {}, {:?})", self.text.len(), self.charset.name(), self.flags)
    }
}

/// Decodes bytes by MSH-18, else as UTF-8, else by `fallback`, and normalises terminators.
///
/// No character set is guessed: where the declared one and the fallback don't fit, U+FFFD stands for what doesn't.
pub fn decode(bytes: &[u8], fallback: Charset) -> Result<Decoded<'_>, DecodeError> {
    let mut flags = Vec::new();
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) || looks_like_utf16(bytes) {
        return Err(DecodeError::Utf16);
    }
    let (bytes, marked) = bytes.strip_prefix(b"\xef\xbb\xbf").map_or((bytes, false), |rest| (rest, true));
    if marked {
        flags.push(DecodeFlag::ByteOrderMark);
    }
    let (text, charset) = text(bytes, fallback, &mut flags);
    let lines = normalised(text);
    flags.extend(lines.terminators.then_some(DecodeFlag::Terminators));
    flags.extend(lines.blank.then_some(DecodeFlag::BlankLines));
    Ok(Decoded { text: lines.text, charset, flags, line_ends_left_out: lines.left_out })
}

fn looks_like_utf16(bytes: &[u8]) -> bool {
    let ascii = |b: &u8| b.is_ascii_alphabetic();
    matches!(bytes, [a, 0, b, 0, c, 0, ..] | [0, a, 0, b, 0, c, ..] if ascii(a) && ascii(b) && ascii(c))
}

fn text<'b>(bytes: &'b [u8], fallback: Charset, flags: &mut Vec<DecodeFlag>) -> (Cow<'b, str>, Charset) {
    let charset = match declared(bytes) {
        Declared::Known(charset) => charset,
        Declared::Unknown => {
            flags.push(DecodeFlag::CharsetUnknown);
            // UTF-8 is hardly ever valid by chance.
            match Charset::UTF_8.read(bytes) {
                Some(text) => return (text, Charset::UTF_8),
                None => fallback,
            }
        }
        // ASCII is the same in all of them but the stateful one.
        Declared::Nothing if bytes.is_ascii() || fallback.is_stateful() => fallback,
        Declared::Nothing => match Charset::UTF_8.read(bytes) {
            Some(text) => return (text, Charset::UTF_8),
            None if fallback == Charset::UTF_8 => fallback,
            None => {
                flags.push(DecodeFlag::CharsetAssumed);
                fallback
            }
        },
    };
    if let Some(text) = charset.read(bytes) {
        return (text, charset);
    }
    if charset != fallback {
        flags.push(DecodeFlag::CharsetMismatch);
        if let Some(text) = fallback.read(bytes) {
            return (text, fallback);
        }
    }
    flags.push(DecodeFlag::BytesReplaced);
    (charset.read_lossy(bytes), charset)
}

struct Lines<'b> {
    text: Cow<'b, str>,
    terminators: bool,
    blank: bool,
    left_out: usize,
}

/// CR after each segment: CR LF and, where segments end in it, LF become CR; blank lines go.
///
/// Where segments end in CR, an LF without one belongs to a value (a report with lines), unless a segment follows.
fn normalised(text: Cow<'_, str>) -> Lines<'_> {
    let bytes = text.as_bytes();
    let carriage_returns = memchr::memchr(b'\r', bytes).is_some();
    let blank = bytes.starts_with(b"\r") || memchr::memmem::find(bytes, b"\r\r").is_some();
    if !blank && memchr::memchr(b'\n', bytes).is_none() {
        return Lines { text, terminators: false, blank: false, left_out: 0 };
    }
    let mut lines = Lines { text: Cow::Borrowed(""), terminators: false, blank: false, left_out: 0 };
    let separator = field_separator(&text);
    let mut out = String::with_capacity(text.len());
    let mut rest: &str = &text;
    while let Some(at) = memchr::memchr2(b'\r', b'\n', rest.as_bytes()) {
        let (content, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        let behind = from.trim_start_matches(['\r', '\n']);
        let run = from.get(..from.len().saturating_sub(behind.len())).unwrap_or_default();
        rest = behind;
        out.push_str(content);
        let ends = !carriage_returns || run.contains('\r') || behind.is_empty() || begins_segment(behind, separator);
        if !ends {
            out.push_str(run);
            continue;
        }
        let returns = run.matches('\r').count();
        let feeds = run.len().saturating_sub(returns);
        let kept = usize::from(!out.is_empty());
        lines.terminators |= feeds > 0;
        lines.blank |= returns.max(feeds) > kept;
        lines.left_out = lines.left_out.saturating_add(run.len().saturating_sub(kept));
        if kept > 0 {
            out.push('\r');
        }
    }
    out.push_str(rest);
    lines.text = Cow::Owned(out);
    lines
}

fn field_separator(text: &str) -> u8 {
    let text = text.trim_start_matches(['\r', '\n']);
    text.strip_prefix("MSH").and_then(|rest| rest.bytes().next()).unwrap_or(b'|')
}

/// A segment name and a separator after it.
fn begins_segment(text: &str, separator: u8) -> bool {
    matches!(text.as_bytes(), [a, b, c, s, ..] if *s == separator
        && a.is_ascii_uppercase() && [b, c].iter().all(|n| n.is_ascii_uppercase() || n.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Decoded<'_> {
        decode(bytes, Charset::UTF_8).unwrap()
    }

    fn message(charset: &str, body: &[u8]) -> Vec<u8> {
        [format!("MSH|^~\\&|||||||||||||||| {charset} \rPID|").as_bytes(), body].concat()
    }

    fn latin_2() -> Charset {
        Charset::from_name("8859/2").unwrap()
    }

    #[test]
    fn the_declared_character_set_counts() {
        let latin = message("8859/1", b"M\xfcller");
        assert!(read(&latin).text.ends_with("Müller"));
        assert_eq!(read(&latin).flags, []);
        let japanese = message("~ISO IR87", b"\x1b$B;3ED\x1b(B^x");
        assert!(read(&japanese).text.ends_with("山田^x"));
    }

    #[test]
    fn without_msh_18_it_is_utf_8_else_the_fallback() {
        let utf_8 = message("", "Łódź".as_bytes());
        let decoded = decode(&utf_8, latin_2()).unwrap();
        assert!(decoded.text.ends_with("Łódź") && decoded.charset == Charset::UTF_8 && decoded.flags.is_empty());
        let latin = message("", b"\xa3\xf3d\xbc");
        let decoded = decode(&latin, latin_2()).unwrap();
        assert!(decoded.text.ends_with("Łódź") && decoded.charset == latin_2());
        assert_eq!(decoded.flags, [DecodeFlag::CharsetAssumed]);
        // The answer is written in what the sender reads.
        assert_eq!(decode(&message("", b"x"), latin_2()).unwrap().charset, latin_2());
    }

    #[test]
    fn an_unknown_or_wrong_character_set_is_flagged_and_nothing_is_guessed() {
        let unknown = message("KLINGON", "é".as_bytes());
        assert_eq!(read(&unknown).flags, [DecodeFlag::CharsetUnknown]);
        let wrong = message("UNICODE UTF-8", b"M\xfcller");
        let decoded = decode(&wrong, Charset::from_name("8859/1").unwrap()).unwrap();
        assert!(decoded.text.ends_with("Müller"));
        assert_eq!(decoded.flags, [DecodeFlag::CharsetMismatch]);
        for charset in ["", "ASCII", "UTF-8"] {
            let bytes = message(charset, b"M\xfcller");
            assert!(read(&bytes).text.ends_with("M\u{fffd}ller"));
            assert_eq!(read(&bytes).flags, [DecodeFlag::BytesReplaced], "{charset}");
        }
        let both = message("KLINGON", b"M\xfcller");
        assert_eq!(read(&both).flags, [DecodeFlag::CharsetUnknown, DecodeFlag::BytesReplaced]);
        let valid = message("KLINGON", "Żółć".as_bytes());
        assert!(decode(&valid, latin_2()).unwrap().text.ends_with("Żółć"));
    }

    #[test]
    fn byte_order_marks_and_utf_16() {
        let decoded = decode("\u{feff}MSH|ł".as_bytes(), latin_2()).unwrap();
        assert_eq!((decoded.text.as_ref(), decoded.charset), ("MSH|ł", Charset::UTF_8));
        assert_eq!(decoded.flags, [DecodeFlag::ByteOrderMark]);
        assert_eq!(decode(b"\xff\xfeM\0S\0H\0", Charset::UTF_8).unwrap_err(), DecodeError::Utf16);
        assert_eq!(decode(b"M\0S\0H\0", Charset::UTF_8).unwrap_err(), DecodeError::Utf16);
        assert_eq!(decode(b"\0M\0S\0H", Charset::UTF_8).unwrap_err(), DecodeError::Utf16);
    }

    #[test]
    fn terminators_become_cr_and_values_keep_their_lf() {
        use DecodeFlag::{BlankLines, Terminators};
        for (sent, text, flags, left_out) in [
            ("MSH|a\rPID|b\r", "MSH|a\rPID|b\r", &[][..], 0),
            ("MSH|a\nPID|b\n", "MSH|a\rPID|b\r", &[Terminators], 0),
            ("MSH|a\r\nPID|b", "MSH|a\rPID|b", &[Terminators], 1),
            ("MSH|a\n\rPID|b\n\r", "MSH|a\rPID|b\r", &[Terminators], 2),
            ("MSH|a\r\rPID|b\r", "MSH|a\rPID|b\r", &[BlankLines], 1),
            ("MSH|a\r\n\r\nPID|b\r\n", "MSH|a\rPID|b\r", &[Terminators, BlankLines], 4),
            ("\n\nMSH|a\n\n\nPID|b\n", "MSH|a\rPID|b\r", &[Terminators, BlankLines], 4),
            ("\rMSH|a\r", "MSH|a\r", &[BlankLines], 1),
            ("MSH|a\rOBX|two\nlines\rNTE|\r", "MSH|a\rOBX|two\nlines\rNTE|\r", &[], 0),
            ("MSH|a\rOBX|one\n\nthree\nABC\r", "MSH|a\rOBX|one\n\nthree\nABC\r", &[], 0),
            ("MSH|a\rPID|b\nPV1|c\r", "MSH|a\rPID|b\rPV1|c\r", &[Terminators], 0),
            ("MSH|a\rPID|b\n", "MSH|a\rPID|b\r", &[Terminators], 0),
            ("MSH*a\rOBX*b|\nPV1|c\r", "MSH*a\rOBX*b|\nPV1|c\r", &[], 0),
            ("\r\n\r\n", "", &[Terminators, BlankLines], 4),
        ] {
            let decoded = read(sent.as_bytes());
            assert_eq!((decoded.text.as_ref(), decoded.flags.as_slice()), (text, flags), "{sent:?}");
            assert_eq!(decoded.line_ends_left_out, left_out, "{sent:?}");
        }
    }
}
