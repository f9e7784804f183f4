//! JSON text to [`Json`] (RFC 8259), strictly, with numbers as written.
//!
//! Written here because readers at hand change a number's text (`1e5` to `1e+5`) or, by a feature that any crate of a build
//! can switch, its digits. A property test holds it against one of them.

use smol_str::SmolStr;

use super::{Json, Object, ParseError};

/// Greatest depth of arrays and objects; R4 resources stay below 30.
const DEPTH_MAX: usize = 128;

/// Where reading stopped: a byte offset.
struct Stop(usize);

type Read<T> = Result<T, Stop>;

pub(super) fn parse(bytes: &[u8]) -> Result<Json, ParseError> {
    let text = std::str::from_utf8(bytes).map_err(|fault| place(bytes, fault.valid_up_to()))?;
    let mut reader = Reader { text, at: 0 };
    reader.whole().map_err(|Stop(at)| place(bytes, at))
}

fn place(bytes: &[u8], at: usize) -> ParseError {
    let before = bytes.get(..at).unwrap_or(bytes);
    let line = before.split(|b| *b == b'\n').count();
    let last_line = before.rsplit(|b| *b == b'\n').next().unwrap_or_default();
    // Bytes that continue a character don't count.
    let chars = last_line.iter().filter(|b| **b & 0xc0 != 0x80).count();
    ParseError { line, column: chars.saturating_add(1) }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn whole(&mut self) -> Read<Json> {
        let json = self.value(0)?;
        self.space();
        if self.peek().is_some() { Err(Stop(self.at)) } else { Ok(json) }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.skip();
        }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Takes a byte if it's next.
    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        if there {
            self.skip();
        }
        there
    }

    fn expect(&mut self, byte: u8) -> Read<()> {
        if self.take(byte) { Ok(()) } else { Err(Stop(self.at)) }
    }

    fn value(&mut self, depth: usize) -> Read<Json> {
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words = [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))];
                for (word, json) in words {
                    if self.rest().starts_with(word) {
                        self.at = self.at.saturating_add(word.len());
                        return Ok(json);
                    }
                }
                Err(Stop(self.at))
            }
        }
    }

    fn deeper(&self, depth: usize) -> Read<usize> {
        if depth < DEPTH_MAX { Ok(depth.saturating_add(1)) } else { Err(Stop(self.at)) }
    }

    fn array(&mut self, depth: usize) -> Read<Json> {
        let depth = self.deeper(depth)?;
        self.expect(b'[')?;
        let mut items = Vec::new();
        self.space();
        if self.take(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            self.space();
            if !self.take(b',') {
                self.expect(b']')?;
                return Ok(Json::Array(items));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Read<Json> {
        let depth = self.deeper(depth)?;
        self.expect(b'{')?;
        let mut members = Object::new();
        self.space();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            let name = self.string()?;
            self.space();
            self.expect(b':')?;
            let value = self.value(depth)?;
            members.insert(name, value);
            self.space();
            if !self.take(b',') {
                self.expect(b'}')?;
                return Ok(Json::Object(members));
            }
        }
    }

    fn digits(&mut self) -> Read<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.skip();
        }
        if self.at > start { Ok(()) } else { Err(Stop(self.at)) }
    }

    fn number(&mut self) -> Read<Json> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        let text = self.text.get(start..self.at).ok_or(Stop(start))?;
        Ok(Json::Number(SmolStr::new(text)))
    }

    fn string(&mut self) -> Read<SmolStr> {
        self.expect(b'"')?;
        let plain = self.plain();
        if self.take(b'"') {
            return Ok(SmolStr::new(plain));
        }
        let mut text = plain.to_owned();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.skip();
                    return Ok(text.into());
                }
                Some(b'\\') => text.push(self.escape()?),
                // The end, or a control character, which must be escaped.
                None | Some(..b' ') => return Err(Stop(self.at)),
                Some(_) => text.push_str(self.plain()),
            }
        }
    }

    /// Characters up to a quote, an escape, a control character or the end.
    fn plain(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.bytes().position(|b| matches!(b, b'"' | b'\\' | ..b' ')).unwrap_or(rest.len());
        self.at = self.at.saturating_add(end);
        rest.get(..end).unwrap_or_default()
    }

    fn escape(&mut self) -> Read<char> {
        let start = self.at;
        self.skip();
        let letter = self.peek().ok_or(Stop(start))?;
        let c = match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(start),
            _ => return Err(Stop(start)),
        };
        self.skip();
        Ok(c)
    }

    /// `\uXXXX`, or two of them for a character outside the basic plane.
    fn unicode(&mut self, start: usize) -> Read<char> {
        let mut units = [self.unit().ok_or(Stop(start))?, 0];
        let high = matches!(units, [0xd800..0xdc00, _]);
        if high && self.take(b'\\') {
            units = [units[0], self.unit().ok_or(Stop(start))?];
        }
        let units = if high { &units[..] } else { &units[..1] };
        let mut chars = char::decode_utf16(units.iter().copied());
        match (chars.next(), chars.next()) {
            (Some(Ok(c)), None) => Ok(c),
            _ => Err(Stop(start)),
        }
    }

    /// `uXXXX`
    fn unit(&mut self) -> Option<u16> {
        let hex = self.rest().strip_prefix('u')?.get(..4).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))?;
        self.at = self.at.saturating_add(5);
        u16::from_str_radix(hex, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<Json> {
        parse(text.as_bytes()).ok()
    }

    #[test]
    fn escapes_give_the_character() {
        let all = r#""\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud834\udd1e x""#;
        assert_eq!(read(all), Some(Json::string("\"\\/\u{8}\u{c}\n\r\tA\u{e9}\u{20ac}\u{1d11e} x")));
        for bad in [
            r#""\x""#,
            r#""\u12""#,
            r#""\u+123""#,
            r#""\ud834""#,
            r#""\ud834\u0041""#,
            r#""\udd1e""#,
            r#""\""#,
            "\"a\nb\"",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn depth_is_limited() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(read(&nested(DEPTH_MAX)).is_some() && read(&nested(DEPTH_MAX + 1)).is_none());
    }

    #[test]
    fn the_last_of_equal_keys_counts() {
        assert_eq!(read(r#"{"a":1,"a":2}"#), Some(Json::object([("a", Json::Number("2".into()))])));
    }

    /// Text that is often JSON, or nearly.
    fn jsonish() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"a\"",
            "\"\\u00e9\"",
            "1",
            "-0.5",
            "1e5",
            "01",
            "1.",
            "null",
            "true",
            "fals",
            " ",
            "\n",
            "\"",
            "\\",
            "é",
        ]);
        prop::collection::vec(word, 0..12).prop_map(|words| words.concat())
    }

    /// Compares content, with numbers as floats, as the other reader may rewrite them.
    fn same(mine: &Json, theirs: &serde_json::Value) -> bool {
        match (mine, theirs) {
            (Json::Number(text), serde_json::Value::Number(n)) => {
                text.parse::<f64>().ok() == n.to_string().parse().ok()
            }
            (Json::Array(a), serde_json::Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
            }
            (Json::Object(a), serde_json::Value::Object(b)) => {
                a.len() == b.len() && b.iter().all(|(k, v)| a.get(k.as_str()).is_some_and(|mine| same(mine, v)))
            }
            _ => *mine == Json::from(theirs.clone()),
        }
    }

    proptest! {
        #[test]
        fn reads_what_another_reader_reads(text in prop_oneof![jsonish(), any::<String>(), any::<String>().prop_map(|s| format!("\"{s}\""))]) {
            match (read(&text), serde_json::from_str::<serde_json::Value>(&text)) {
                (Some(mine), Ok(theirs)) => prop_assert!(same(&mine, &theirs)),
                (None, Err(_)) => {}
                (mine, theirs) => prop_assert!(false, "{:?} {:?}", mine, theirs),
            }
        }
    }
}
