//! Escape sequences (HL7 v2.5.1 §2.7), read after splitting and written before joining.
//!
//! Formatting is rendered as text: `\.br\` and its kin as line feeds, `\.sp3\` as line feeds, `\.in+2\` and highlighting as
//! nothing. What is no known sequence stays as it was sent, so that nothing is lost.

use std::borrow::Cow;

use crate::delimiters::Delimiters;

/// Most blank lines one `\.sp<n>\` gives; a larger number would let three bytes become many.
const SKIPPED_LINES_MAX: usize = 99;

/// Resolves the escapes in a text.
pub fn unescape(text: &str, delimiters: Delimiters) -> Cow<'_, str> {
    let escape = char::from(delimiters.escape);
    let Some(first) = text.find(escape) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len());
    out.push_str(text.get(..first).unwrap_or_default());
    let mut rest = text.get(first..).unwrap_or_default();
    while let Some(after) = rest.strip_prefix(escape) {
        let Some(end) = after.find(escape) else {
            // Unterminated: the character stands for itself.
            out.push_str(rest);
            return Cow::Owned(out);
        };
        let sequence = after.get(..end).unwrap_or_default();
        let behind = after.get(end.saturating_add(1)..).unwrap_or_default();
        if resolve(sequence, delimiters, &mut out) {
            rest = behind;
        } else {
            // Not a sequence: keep the character, and let the next one open a sequence.
            out.push(escape);
            out.push_str(sequence);
            rest = after.get(end..).unwrap_or_default();
            if !opens_sequence(rest, escape, delimiters) {
                out.push(escape);
                rest = behind;
            }
        }
        let next = rest.find(escape).unwrap_or(rest.len());
        out.push_str(rest.get(..next).unwrap_or_default());
        rest = rest.get(next..).unwrap_or_default();
    }
    Cow::Owned(out)
}

/// Whether a known sequence begins at the start of `rest`.
fn opens_sequence(rest: &str, escape: char, delimiters: Delimiters) -> bool {
    let sequence = rest.strip_prefix(escape).and_then(|after| after.find(escape).and_then(|end| after.get(..end)));
    sequence.is_some_and(|s| resolve(s, delimiters, &mut String::new()))
}

/// Appends what a sequence stands for; false when it is none.
fn resolve(sequence: &str, delimiters: Delimiters, out: &mut String) -> bool {
    let mut letters = sequence.chars();
    let Some(kind) = letters.next() else { return false };
    let rest = letters.as_str();
    if rest.is_empty() {
        let plain = match kind.to_ascii_uppercase() {
            'F' => delimiters.field,
            'S' => delimiters.component,
            'T' => delimiters.subcomponent,
            'R' => delimiters.repetition,
            'E' => delimiters.escape,
            'P' => delimiters.truncation.unwrap_or(b'#'),
            'H' | 'N' => return true,
            _ => return false,
        };
        out.push(char::from(plain));
        return true;
    }
    match kind {
        'X' | 'x' => hexadecimal(rest, out),
        '.' => formatting(rest, out),
        // Character set switches: the bytes were decoded already, the switch itself shows nothing.
        'C' | 'c' => rest.len() == 4 && is_hexadecimal(rest),
        'M' | 'm' => matches!(rest.len(), 4 | 6) && is_hexadecimal(rest),
        _ => false,
    }
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// `\X0D0A\`: bytes; as UTF-8 where they are that, else each as its Latin-1 character.
fn hexadecimal(digits: &str, out: &mut String) -> bool {
    if digits.is_empty() || !digits.len().is_multiple_of(2) || !is_hexadecimal(digits) {
        return false;
    }
    let nibble = |b: u8| char::from(b).to_digit(16).and_then(|n| u8::try_from(n).ok()).unwrap_or(0);
    let bytes: Vec<u8> = digits
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| pair.iter().fold(0_u8, |byte, &digit| byte.wrapping_shl(4) | nibble(digit)))
        .collect();
    match std::str::from_utf8(&bytes) {
        Ok(text) => out.push_str(text),
        Err(_) => out.extend(bytes.iter().map(|&b| char::from(b))),
    }
    true
}

/// Formatting commands of FT (§2.7.6).
fn formatting(command: &str, out: &mut String) -> bool {
    let name = command.get(..2).unwrap_or_default().to_ascii_lowercase();
    let argument = command.get(2..).unwrap_or_default().trim();
    match name.as_str() {
        "br" | "ce" if argument.is_empty() => out.push('\n'),
        "sp" => {
            let lines = if argument.is_empty() { 1 } else { argument.trim_start_matches('+').parse().unwrap_or(0) };
            if lines == 0 && argument != "0" {
                return false;
            }
            out.extend(std::iter::repeat_n('\n', lines.min(SKIPPED_LINES_MAX)));
        }
        "in" | "ti" | "sk" if argument.trim_start_matches(['+', '-']).bytes().all(|b| b.is_ascii_digit()) => {
            if name == "sk" {
                let spaces: usize = argument.trim_start_matches('+').parse().unwrap_or(0);
                out.extend(std::iter::repeat_n(' ', spaces.min(SKIPPED_LINES_MAX)));
            }
        }
        "fi" | "nf" if argument.is_empty() => {}
        _ => return false,
    }
    true
}

/// Writes a text so that [`unescape`] gives it back: separators, the escape character and control characters, among them
/// those that end segments and frames, are escaped.
pub fn escape(text: &str, delimiters: Delimiters) -> Cow<'_, str> {
    if !text.contains(|c: char| c.is_control() || letter(c, delimiters).is_some()) {
        return Cow::Borrowed(text);
    }
    let mark = char::from(delimiters.escape);
    let mut out = String::with_capacity(text.len().saturating_add(8));
    for c in text.chars() {
        match letter(c, delimiters) {
            Some(letter) => out.extend([mark, letter, mark]),
            None if c.is_control() => {
                out.extend([mark, 'X']);
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    out.extend([digit(byte.wrapping_shr(4)), digit(byte & 0xf)]);
                }
                out.push(mark);
            }
            None => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0').to_ascii_uppercase()
}

/// A field as it was sent, with its control characters escaped: same parts, same texts.
pub(crate) fn escape_controls(field: &str, delimiters: Delimiters) -> Cow<'_, str> {
    if !field.contains(char::is_control) {
        return Cow::Borrowed(field);
    }
    // Part by part: a sequence opened beside a lone escape character would swallow it.
    let separators = [delimiters.repetition, delimiters.component, delimiters.subcomponent].map(char::from);
    let part = |part: &str| {
        let (text, separator) = match part.char_indices().next_back() {
            Some((at, last)) if separators.contains(&last) => (part.get(..at).unwrap_or_default(), Some(last)),
            _ => (part, None),
        };
        let mut out = escape(&unescape(text, delimiters), delimiters).into_owned();
        out.extend(separator);
        out
    };
    Cow::Owned(field.split_inclusive(separators).map(part).collect())
}

fn letter(c: char, delimiters: Delimiters) -> Option<char> {
    let byte = u8::try_from(c).ok().filter(u8::is_ascii)?;
    let d = delimiters;
    [(d.field, 'F'), (d.component, 'S'), (d.subcomponent, 'T'), (d.repetition, 'R'), (d.escape, 'E')]
        .into_iter()
        .chain(d.truncation.map(|t| (t, 'P')))
        .find_map(|(separator, letter)| (separator == byte).then_some(letter))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(text: &str) -> String {
        unescape(text, Delimiters::default()).into_owned()
    }

    #[test]
    fn every_sequence_of_the_standard() {
        for (sent, meant) in [
            (r"a\F\b\S\c\T\d\R\e\E\f", r"a|b^c&d~e\f"),
            (r"\f\\s\", "|^"),
            (r"\P\", "#"),
            (r"line\.br\next", "line\nnext"),
            (r"a\.sp3\b", "a\n\n\nb"),
            (r"a\.sp\b\.ce\c", "a\nb\nc"),
            (r"\.in+4\\.ti-2\\.fi\\.nf\x", "x"),
            (r"a\.sk3\b", "a   b"),
            (r"\H\bold\N\", "bold"),
            (r"a\X0D0A\b", "a\r\nb"),
            (r"\XC3A9\", "é"),
            (r"\XE9\", "é"),
            (r"\C2842\x\M2442A1\", "x"),
            (r"Müller \T\ Söhne", "Müller & Söhne"),
            (r"éééé\F\b", "éééé|b"),
        ] {
            assert_eq!(plain(sent), meant, "{sent}");
        }
    }

    #[test]
    fn what_is_no_sequence_stays() {
        for text in [r"C:\temp", r"a\b\c", r"\", r"x\Zfoo\y", r"\X0\", r"\XZZ\", r"\.xx\", r"\.sp99x\"] {
            assert_eq!(plain(text), text);
        }
        assert_eq!(plain(r"a\q\F\b"), r"a\q|b");
        // Doubled or meant as they are: nobody knows, so both stay.
        assert_eq!(plain(r"\\server\share"), r"\\server\share");
        assert_eq!(plain(r"\\F\"), r"\|");
        assert_eq!(plain(r"\.sp4000000000\").len(), 99);
    }

    proptest! {
        #[test]
        fn unescape_undoes_escape(text in "[ -~\u{0}-\u{1f}\u{7f}-\u{ff}日|^~&#\\\\]{0,40}", truncation in any::<bool>()) {
            let delimiters = Delimiters { truncation: truncation.then_some(b'#'), ..Delimiters::default() };
            let sent = escape(&text, delimiters);
            let rest = sent.replace(char::from(delimiters.escape), "");
            for separator in [delimiters.field, delimiters.component, delimiters.repetition, delimiters.subcomponent] {
                prop_assert!(!rest.contains(char::from(separator)));
            }
            prop_assert_eq!(unescape(&sent, delimiters).into_owned(), text);
        }

        #[test]
        fn any_text_is_unescaped_without_growing_out_of_hand(text in ".{0,200}") {
            prop_assert!(plain(&text).len() <= text.len() * 25 + 100);
        }
    }
}
