//! Bytes to text: the character set of MSH-18 (HL7 table 0211 and its common misspellings), then terminators.

use std::borrow::Cow;

use encoding_rs::Encoding;

/// A character set of HL7 table 0211 that we can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charset(&'static Encoding);

impl Charset {
    /// UTF-8.
    pub const UTF_8: Self = Self(encoding_rs::UTF_8);

    /// Reads a name of table 0211, an IANA name, or a usual variant: `UNICODE UTF-8`, `8859/1`, ` 8859/15 `, `ISO IR87`.
    pub fn from_name(name: &str) -> Option<Self> {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_uppercase()).collect();
        let encoding = match plain.as_str() {
            "ASCII" | "USASCII" | "ISOIR6" | "UNICODEUTF8" | "UTF8" | "UNICODE" => encoding_rs::UTF_8,
            "ISOIR100" | "LATIN1" => encoding_rs::WINDOWS_1252,
            "ISOIR87" | "ISOIR159" | "ISOIR14" | "ISO2022JP" => encoding_rs::ISO_2022_JP,
            "KSX1001" | "EUCKR" => encoding_rs::EUC_KR,
            "CNS116431992" | "BIG5" | "BIG5HKSCS" => encoding_rs::BIG5,
            "GB18030" | "GB180302000" => encoding_rs::GB18030,
            "EUCJP" => encoding_rs::EUC_JP,
            "SHIFTJIS" | "SJIS" => encoding_rs::SHIFT_JIS,
            other => {
                let part = other.strip_prefix("ISO").unwrap_or(other).strip_prefix("8859");
                let label = match part {
                    Some(part) => format!("iso-8859-{part}"),
                    None => name.trim().to_ascii_lowercase(),
                };
                Encoding::for_label(label.as_bytes())?
            }
        };
        // UTF-16 can't be framed by single bytes.
        let framed = encoding != encoding_rs::UTF_16LE && encoding != encoding_rs::UTF_16BE;
        framed.then_some(Self(encoding))
    }

    /// Its IANA name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// A text in this character set; what it lacks becomes a numeric reference.
    pub fn encode(self, text: &str) -> Vec<u8> {
        self.0.encode(text).0.into_owned()
    }
}

/// Something about the bytes that an operator should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecodeFlag {
    /// A byte order mark was left out.
    ByteOrderMark,
    /// MSH-18 names no known character set; the fallback was used.
    CharsetUnknown,
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
#[derive(Clone, Debug)]
pub struct Decoded<'b> {
    /// The text.
    pub text: Cow<'b, str>,
    /// What it was read as.
    pub charset: Charset,
    /// What was noticed, each once, in order.
    pub flags: Vec<DecodeFlag>,
}

/// Decodes bytes by MSH-18, else by `fallback`, and normalises terminators.
pub fn decode(bytes: &[u8], fallback: Charset) -> Result<Decoded<'_>, DecodeError> {
    let mut flags = Vec::new();
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) || looks_like_utf16(bytes) {
        return Err(DecodeError::Utf16);
    }
    let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) => {
            flags.push(DecodeFlag::ByteOrderMark);
            rest
        }
        None => bytes,
    };
    let declared = declared(bytes);
    let charset = match &declared {
        None => fallback,
        Some(name) => Charset::from_name(name).unwrap_or_else(|| {
            flags.push(DecodeFlag::CharsetUnknown);
            fallback
        }),
    };
    let (text, charset) = text(bytes, charset, fallback, &mut flags);
    let text = normalised(text, &mut flags);
    Ok(Decoded { text, charset, flags })
}

fn looks_like_utf16(bytes: &[u8]) -> bool {
    let ascii = |b: &u8| b.is_ascii_alphabetic();
    matches!(bytes, [a, 0, b, 0, c, 0, ..] | [0, a, 0, b, 0, c, ..] if ascii(a) && ascii(b) && ascii(c))
}

/// The first repetition of MSH-18, from the raw bytes: the separators are ASCII in every supported character set.
fn declared(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|b| matches!(b, b'\r' | b'\n')).unwrap_or(bytes.len());
    let header = bytes.get(..end)?.strip_prefix(b"MSH")?;
    let separator = *header.first()?;
    let repetition = header.get(3).copied().unwrap_or(b'~');
    let field = header.split(|&b| b == separator).nth(17)?;
    let first = field.split(|&b| b == repetition).next()?;
    let name = String::from_utf8_lossy(first).trim().to_owned();
    (!name.is_empty()).then_some(name)
}

fn text<'b>(
    bytes: &'b [u8],
    charset: Charset,
    fallback: Charset,
    flags: &mut Vec<DecodeFlag>,
) -> (Cow<'b, str>, Charset) {
    if let Some(text) = charset.0.decode_without_bom_handling_and_without_replacement(bytes) {
        return (text, charset);
    }
    flags.push(DecodeFlag::CharsetMismatch);
    // A sender that says ASCII or UTF-8 and sends single bytes almost always means Windows-1252.
    for other in [fallback, Charset::UTF_8, Charset(encoding_rs::WINDOWS_1252)] {
        if let Some(text) = other.0.decode_without_bom_handling_and_without_replacement(bytes) {
            return (text, other);
        }
    }
    flags.push(DecodeFlag::BytesReplaced);
    (charset.0.decode_without_bom_handling(bytes).0, charset)
}

/// CR after each segment: CR LF and, where segments end in it, LF become CR; blank lines go.
fn normalised<'b>(text: Cow<'b, str>, flags: &mut Vec<DecodeFlag>) -> Cow<'b, str> {
    let blank = text.contains("\r\r") || text.starts_with('\r');
    if !text.contains('\n') && !blank {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    // An LF inside a message whose segments end in CR is part of a value, unless a segment begins after it.
    let mut lines = text.split_inclusive(['\r', '\n']).peekable();
    let carriage_returns = text.contains('\r');
    while let Some(line) = lines.next() {
        let content = line.trim_end_matches(['\r', '\n']);
        let ended_by_lf = line.ends_with('\n');
        if content.is_empty() {
            let after_cr = out.ends_with('\r');
            let lf_of_cr = ended_by_lf && after_cr;
            flags.push(if lf_of_cr { DecodeFlag::Terminators } else { DecodeFlag::BlankLines });
            continue;
        }
        out.push_str(content);
        if !ended_by_lf {
            if line.ends_with('\r') {
                out.push('\r');
            }
        } else if carriage_returns && lines.peek().is_some_and(|next| !begins_segment(next)) {
            out.push('\n');
        } else {
            flags.push(DecodeFlag::Terminators);
            out.push('\r');
        }
    }
    flags.sort_unstable();
    flags.dedup();
    Cow::Owned(out)
}

/// Three characters of a segment name and a separator after them.
fn begins_segment(line: &str) -> bool {
    let mut bytes = line.bytes();
    let name = bytes.by_ref().take(3).filter(|b| b.is_ascii_uppercase() || b.is_ascii_digit()).count() == 3;
    name && bytes.next().is_none_or(|b| b.is_ascii_punctuation() || b == b'\r' || b == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Decoded<'_> {
        decode(bytes, Charset::UTF_8).unwrap()
    }

    fn with_charset(name: &str, body: &[u8]) -> Vec<u8> {
        [format!("MSH|^~\\&|||||||||||||||| {name} \rPID|").as_bytes(), body].concat()
    }

    #[test]
    fn names_of_table_0211_and_their_variants() {
        for (name, encoding) in [
            ("UNICODE UTF-8", "UTF-8"),
            ("UTF-8", "UTF-8"),
            ("8859/1", "windows-1252"),
            ("iso-8859-1", "windows-1252"),
            (" 8859/15 ", "ISO-8859-15"),
            ("ISO IR87", "ISO-2022-JP"),
            ("GB 18030-2000", "gb18030"),
            ("WINDOWS-1250", "windows-1250"),
        ] {
            assert_eq!(Charset::from_name(name).map(Charset::name), Some(encoding), "{name}");
        }
        assert_eq!(Charset::from_name("KLINGON"), None);
        assert_eq!(Charset::from_name("UTF-16"), None);
    }

    #[test]
    fn declared_and_mismatched_character_sets() {
        let latin = with_charset("8859/1", b"M\xfcller");
        assert!(read(&latin).text.ends_with("Müller"));
        let wrong = with_charset("UNICODE UTF-8", b"M\xfcller");
        assert_eq!(read(&wrong).flags, [DecodeFlag::CharsetMismatch]);
        assert!(read(&wrong).text.ends_with("Müller"));
        let unknown = with_charset("KLINGON", "é".as_bytes());
        assert_eq!(read(&unknown).flags, [DecodeFlag::CharsetUnknown]);
        let repeated = with_charset("ASCII~ISO IR87", b"x");
        assert_eq!(read(&repeated).charset, Charset::UTF_8);
    }

    #[test]
    fn byte_order_marks_and_utf_16() {
        assert_eq!(read(b"\xef\xbb\xbfMSH|").flags, [DecodeFlag::ByteOrderMark]);
        assert_eq!(read(b"\xef\xbb\xbfMSH|").text, "MSH|");
        assert_eq!(decode(b"\xff\xfeM\0S\0H\0", Charset::UTF_8).unwrap_err(), DecodeError::Utf16);
        assert_eq!(decode(b"M\0S\0H\0", Charset::UTF_8).unwrap_err(), DecodeError::Utf16);
    }

    #[test]
    fn terminators_become_cr_and_values_keep_their_lf() {
        assert_eq!(read(b"MSH|a\nPID|b\n").text, "MSH|a\rPID|b\r");
        assert_eq!(read(b"MSH|a\r\nPID|b").text, "MSH|a\rPID|b");
        assert_eq!(read(b"MSH|a\r\rPID|b\r").text, "MSH|a\rPID|b\r");
        assert_eq!(read(b"\n\nMSH|a\n\n\nPID|b\n").text, "MSH|a\rPID|b\r");
        assert_eq!(read(b"MSH|a\rOBX|two\nlines\rNTE|\r").text, "MSH|a\rOBX|two\nlines\rNTE|\r");
        assert_eq!(read(b"MSH|a\rPID|b\nPV1|c\r").text, "MSH|a\rPID|b\rPV1|c\r");
    }
}
