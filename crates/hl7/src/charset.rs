//! Character sets: HL7 table 0211, its common misspellings, and what MSH-18 says (HL7 v2.5.1 §2.15.9.18).
//! Not here: decoding a whole message (`decode`).

use encoding_rs::Encoding;

/// A character set of HL7 table 0211 that we can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charset(&'static Encoding);

/// What MSH-18 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Declared {
    /// Nothing: ASCII by the standard, in practice anything.
    Nothing,
    /// A character set we can read.
    Known(Charset),
    /// Names, but none we know.
    Unknown,
}

impl Charset {
    /// UTF-8.
    pub const UTF_8: Self = Self(encoding_rs::UTF_8);

    /// Reads a name of table 0211, an IANA name, or a usual variant: `UNICODE UTF-8`, `8859/1`, ` 8859/15 `, `ISO IR87`.
    /// ASCII and Latin-1 are read as their supersets UTF-8 and Windows-1252.
    pub fn from_name(name: &str) -> Option<Self> {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_uppercase()).collect();
        let encoding = match plain.as_str() {
            "ASCII" | "USASCII" | "ISOIR6" | "ISOIR006" | "UNICODEUTF8" | "UTF8" | "ISOIR192" | "UNICODE" => {
                encoding_rs::UTF_8
            }
            "LATIN1" => encoding_rs::WINDOWS_1252,
            "ISOIR14" | "ISOIR87" | "ISOIR159" | "ISO2022JP" => encoding_rs::ISO_2022_JP,
            "KSX1001" | "ISOIR149" | "EUCKR" => encoding_rs::EUC_KR,
            "BIG5" | "BIG5HKSCS" => encoding_rs::BIG5,
            "GB18030" | "GB180302000" => encoding_rs::GB18030,
            "EUCJP" => encoding_rs::EUC_JP,
            "SHIFTJIS" | "SJIS" => encoding_rs::SHIFT_JIS,
            other => Encoding::for_label_no_replacement(label(name, other).as_bytes())?,
        };
        // UTF-16 can't be framed by single bytes; the other is no character set but a way to carry bytes.
        let none = [encoding_rs::UTF_16LE, encoding_rs::UTF_16BE, encoding_rs::X_USER_DEFINED];
        (!none.contains(&encoding)).then_some(Self(encoding))
    }

    /// Its IANA name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// A text in this character set; what it lacks becomes `?`, which no message uses as a separator.
    pub fn encode(self, text: &str) -> Vec<u8> {
        let (bytes, _, lossy) = self.0.encode(text);
        if !lossy {
            return bytes.into_owned();
        }
        let known = |c: char| !self.0.encode(c.encode_utf8(&mut [0; 4])).2;
        let text: String = text.chars().map(|c| if known(c) { c } else { '?' }).collect();
        self.0.encode(&text).0.into_owned()
    }

    /// The text, if every byte of it is one of this character set.
    pub(crate) fn read(self, bytes: &[u8]) -> Option<std::borrow::Cow<'_, str>> {
        self.0.decode_without_bom_handling_and_without_replacement(bytes)
    }

    /// The text, with U+FFFD for what is none.
    pub(crate) fn read_lossy(self, bytes: &[u8]) -> std::borrow::Cow<'_, str> {
        self.0.decode_without_bom_handling(bytes).0
    }

    /// Whether bytes that are all ASCII may stand for other characters in it.
    pub(crate) fn is_stateful(self) -> bool {
        self.0 == encoding_rs::ISO_2022_JP
    }
}

/// A name as the Encoding Standard labels it.
fn label(name: &str, plain: &str) -> String {
    let bare = plain.strip_prefix("ISO").unwrap_or(plain);
    let bare = bare.strip_prefix("IEC").unwrap_or(bare);
    if let Some(part) = bare.strip_prefix("8859") {
        return format!("iso-8859-{part}");
    }
    match plain.strip_prefix("ISOIR") {
        Some(registration) => format!("iso-ir-{registration}"),
        None => name.trim().to_ascii_lowercase(),
    }
}

/// MSH-18 from the raw bytes: the separators are ASCII in every supported character set.
///
/// Of several repetitions the first known one counts, since all later ones extend it; but a Japanese set among them
/// means that bytes switch to it by escapes of ISO 2022 (HL7 v2.5.1 §2.15.9.20), which only reading as that can follow.
pub(crate) fn declared(bytes: &[u8]) -> Declared {
    let Some(field) = msh_18(bytes) else { return Declared::Nothing };
    let mut declared = Declared::Nothing;
    for name in field.0.split(|&byte| byte == field.1) {
        let name = String::from_utf8_lossy(name);
        match (Charset::from_name(&name), declared) {
            _ if name.trim().is_empty() => {}
            (Some(charset), _) if charset.is_stateful() => return Declared::Known(charset),
            (Some(charset), Declared::Nothing | Declared::Unknown) => declared = Declared::Known(charset),
            (None, Declared::Nothing) => declared = Declared::Unknown,
            _ => {}
        }
    }
    declared
}

/// The bytes of MSH-18 and the repetition separator.
fn msh_18(bytes: &[u8]) -> Option<(&[u8], u8)> {
    let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let header = bytes.get(start..)?.strip_prefix(b"MSH")?;
    let end = memchr::memchr2(b'\r', b'\n', header).unwrap_or(header.len());
    let header = header.get(..end)?;
    let separator = *header.first()?;
    let repetition = header.get(2).copied().filter(|&byte| byte != separator).unwrap_or(b'~');
    let field = header.split(|&byte| byte == separator).nth(17)?;
    Some((field, repetition))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_table_0211_and_their_variants() {
        for (name, encoding) in [
            ("ASCII", "UTF-8"),
            ("UNICODE UTF-8", "UTF-8"),
            ("UTF-8", "UTF-8"),
            ("8859/1", "windows-1252"),
            ("iso-8859-1", "windows-1252"),
            ("ISO8859-15", "ISO-8859-15"),
            ("ISO/IEC 8859-2", "ISO-8859-2"),
            (" 8859/15 ", "ISO-8859-15"),
            ("8859/9", "windows-1254"),
            ("ISO IR87", "ISO-2022-JP"),
            ("ISO IR159", "ISO-2022-JP"),
            ("ISO_IR 100", "windows-1252"),
            ("ISO_IR 144", "ISO-8859-5"),
            ("GB 18030-2000", "gb18030"),
            ("KS X 1001", "EUC-KR"),
            ("BIG-5", "Big5"),
            ("WINDOWS-1250", "windows-1250"),
        ] {
            assert_eq!(Charset::from_name(name).map(Charset::name), Some(encoding), "{name}");
        }
        // UTF-16 can't be framed; the rest would be read wrongly without a word.
        for name in [
            "KLINGON",
            "",
            "UTF-16",
            "UNICODE UTF-16",
            "UNICODE UTF-32",
            "CNS 11643-1992",
            "ISO IR 999",
            "iso-2022-kr",
            "8859/12",
        ] {
            assert_eq!(Charset::from_name(name), None, "{name}");
        }
    }

    #[test]
    fn what_a_charset_lacks_is_written_as_a_question_mark() {
        let latin = Charset::from_name("8859/1").unwrap();
        assert_eq!(latin.encode("Müller 日|x"), b"M\xfcller ?|x");
        assert_eq!(Charset::UTF_8.encode("日"), "日".as_bytes());
    }

    #[test]
    fn repetitions_of_msh_18() {
        let known = |name: &str| Declared::Known(Charset::from_name(name).unwrap());
        for (field, expected) in [
            ("", Declared::Nothing),
            (" ", Declared::Nothing),
            ("8859/2", known("8859/2")),
            ("8859/2~UNICODE UTF-8", known("8859/2")),
            ("~8859/2", known("8859/2")),
            ("code1~code2", Declared::Unknown),
            ("code1~8859/2", known("8859/2")),
            ("ASCII~ISO IR87", known("ISO IR87")),
            ("~ISO IR87~ISO IR159", known("ISO IR87")),
        ] {
            let header = format!("MSH|^~\\&||||||||||||||||{field}|x\rPID|");
            assert_eq!(declared(header.as_bytes()), expected, "{field}");
        }
        assert_eq!(declared(b"\r\nMSH*$!\\&****************8859/2!UTF-8"), known("8859/2"));
        for header in [&b"MSH"[..], b"", b"\r\n", b"MSH|^", b"PID|1"] {
            assert_eq!(declared(header), Declared::Nothing);
        }
    }
}
