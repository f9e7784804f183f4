//! The closed grammar of `when`, in the guide's words, parsed to a tree once.
//! Not here: looking the paths up in a message (`evaluate`).
//!
//! ```text
//! condition = ["IF"] all { "OR" all }          all = term { "AND" term }
//! term      = "NOT" term | "(" condition ")" | path ["IS"] test
//! test      = ["NOT"] ( "VALUED" | "NUMERIC" ) | ["NOT"] "EQUALS" operand | ["NOT"] "IN" "(" string { "," string } ")"
//!           | "LST.COUNT" measure | "LENGTH" measure
//! measure   = ("EQUALS" | "GREATER THAN" | "LESS THAN") number      operand = string | path
//! ```
//! An absent value equals nothing and is in nothing, so NOT EQUALS and NOT IN hold for it.

use smol_str::SmolStr;

use crate::source::{self, Base, Source};

/// Deepest nesting of parentheses and NOT.
const DEPTH_MAX: usize = 16;

/// A parsed condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Valued(Source),
    /// A number as NM has it.
    Numeric(Source),
    Equals(Source, SmolStr),
    Same(Source, Source),
    In(Source, Vec<SmolStr>),
    /// Number of valued repetitions.
    Count(Source, Measure),
    /// Characters of the text.
    Length(Source, Measure),
}

/// A comparison with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Is(usize),
    Over(usize),
    Under(usize),
}

impl Measure {
    pub(crate) fn holds(self, found: usize) -> bool {
        match self {
            Self::Is(n) => found == n,
            Self::Over(n) => found > n,
            Self::Under(n) => found < n,
        }
    }
}

/// Parses a condition whose paths are relative to `base`.
pub(crate) fn parse(text: &str, base: Base<'_>) -> Result<Condition, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, base };
    if parser.at_word("IF") {
        parser.at = parser.at.saturating_add(1);
    }
    let condition = parser.any(0)?;
    match parser.peek() {
        None => Ok(condition),
        Some(token) => Err(format!("condition ends before {}", token.show())),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Open,
    Close,
    Comma,
    Text(SmolStr),
    Word(String),
}

impl Token {
    fn show(&self) -> String {
        match self {
            Self::Open => "`(`".to_owned(),
            Self::Close => "`)`".to_owned(),
            Self::Comma => "`,`".to_owned(),
            Self::Text(text) => format!("\"{text}\""),
            Self::Word(word) => format!("`{word}`"),
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, used) = match first {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            ',' => (Token::Comma, 1),
            '=' => (Token::Word("EQUALS".to_owned()), 1),
            '"' => {
                let inner = rest.strip_prefix('"').unwrap_or_default();
                let (value, _) = inner.split_once('"').ok_or("a string without its closing quote")?;
                (Token::Text(SmolStr::new(value)), value.len().saturating_add(2))
            }
            _ => {
                let end = rest.find(|c: char| c.is_whitespace() || "(),\"=".contains(c)).unwrap_or(rest.len());
                (Token::Word(rest.get(..end).unwrap_or_default().to_owned()), end)
            }
        };
        tokens.push(token);
        rest = rest.get(used..).unwrap_or_default().trim_start();
    }
    Ok(tokens)
}

struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    base: Base<'a>,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at = self.at.saturating_add(1);
        token
    }

    fn at_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(found)) if found == word)
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.at = self.at.saturating_add(1);
        }
        found
    }

    fn any(&mut self, depth: usize) -> Result<Condition, String> {
        let mut parts = vec![self.all(depth)?];
        while self.eat("OR") {
            parts.push(self.all(depth)?);
        }
        Ok(single_or(parts, Condition::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Condition, String> {
        let mut parts = vec![self.term(depth)?];
        while self.eat("AND") {
            parts.push(self.term(depth)?);
        }
        Ok(single_or(parts, Condition::All))
    }

    fn term(&mut self, depth: usize) -> Result<Condition, String> {
        if depth > DEPTH_MAX {
            return Err("condition nests too deeply".to_owned());
        }
        let deeper = depth.saturating_add(1);
        match self.next() {
            Some(Token::Open) => {
                let inner = self.any(deeper)?;
                match self.next() {
                    Some(Token::Close) => Ok(inner),
                    _ => Err("`(` without `)`".to_owned()),
                }
            }
            Some(Token::Word(word)) if word == "NOT" => Ok(Condition::Not(Box::new(self.term(deeper)?))),
            Some(Token::Word(word)) => {
                let path = source::parse(&word, self.base)?;
                self.test(path)
            }
            Some(other) => Err(format!("wanted a path, found {}", other.show())),
            None => Err("condition ends where a path should follow".to_owned()),
        }
    }

    fn test(&mut self, path: Source) -> Result<Condition, String> {
        let _ = self.eat("IS") || self.eat("ARE");
        let negated = self.eat("NOT");
        let test = match self.next() {
            Some(Token::Word(word)) => match word.as_str() {
                "VALUED" => Condition::Valued(path),
                "EQUALS" => self.operand(path)?,
                "NUMERIC" => Condition::Numeric(path),
                "IN" => Condition::In(path, self.list()?),
                "LST.COUNT" if !negated => Condition::Count(path, self.measure()?),
                "LENGTH" if !negated => Condition::Length(path, self.measure()?),
                other => {
                    return Err(format!(
                        "`{other}` is no test; tests are VALUED, NUMERIC, EQUALS, IN, LST.COUNT, LENGTH"
                    ));
                }
            },
            Some(other) => return Err(format!("wanted a test, found {}", other.show())),
            None => return Err("condition ends where a test should follow".to_owned()),
        };
        Ok(if negated { Condition::Not(Box::new(test)) } else { test })
    }

    fn operand(&mut self, path: Source) -> Result<Condition, String> {
        match self.next() {
            Some(Token::Text(text)) => Ok(Condition::Equals(path, text)),
            Some(Token::Word(word)) => Ok(Condition::Same(path, source::parse(&word, self.base)?)),
            _ => Err("EQUALS wants a quoted string or a path".to_owned()),
        }
    }

    fn list(&mut self) -> Result<Vec<SmolStr>, String> {
        const SHAPE: &str = "IN wants (\"a\", \"b\")";
        if self.next() != Some(Token::Open) {
            return Err(SHAPE.to_owned());
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Some(Token::Text(text)) => values.push(text),
                _ => return Err(SHAPE.to_owned()),
            }
            match self.next() {
                Some(Token::Comma) => {}
                Some(Token::Close) => return Ok(values),
                _ => return Err(SHAPE.to_owned()),
            }
        }
    }

    fn measure(&mut self) -> Result<Measure, String> {
        let build = if self.eat("EQUALS") {
            Measure::Is
        } else if self.eat("GREATER") && self.eat("THAN") {
            Measure::Over
        } else if self.eat("LESS") && self.eat("THAN") {
            Measure::Under
        } else {
            return Err("wanted EQUALS, GREATER THAN or LESS THAN".to_owned());
        };
        match self.next() {
            Some(Token::Word(word)) => word.parse().map(build).map_err(|_| format!("`{word}` is not a number")),
            _ => Err("wanted a number".to_owned()),
        }
    }
}

fn single_or(mut parts: Vec<Condition>, build: fn(Vec<Condition>) -> Condition) -> Condition {
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            parts.extend(last);
            build(parts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Condition::{All, Any, Count, Equals, In, Length, Not, Same, Valued};

    fn field(field: u16, part: u16) -> Source {
        Source::Segment { segment: None, field, parts: [part, 0] }
    }

    fn read(text: &str) -> Result<Condition, String> {
        parse(text, Base::Segment("PID"))
    }

    #[test]
    fn reads_the_guides_conditions() {
        let count = Count(field(11, 0), Measure::Is(1));
        assert_eq!(
            read("IF PID-11 LST.COUNT EQUALS 1 AND PID-11.9 IS NOT VALUED"),
            Ok(All(vec![count, Not(Box::new(Valued(field(11, 9))))]))
        );
        assert_eq!(read("PID-7 NOT NUMERIC"), Ok(Not(Box::new(Condition::Numeric(field(7, 0))))));
        assert_eq!(read("PID-7 LENGTH GREATER THAN 8"), Ok(Length(field(7, 0), Measure::Over(8))));
        assert_eq!(
            read("PID-3 VALUED OR NOT (PID-8.1 IN (\"A\", \"B\") AND PID-5 EQUALS \"x y\")"),
            Ok(Any(vec![
                Valued(field(3, 0)),
                Not(Box::new(All(vec![
                    In(field(8, 1), vec!["A".into(), "B".into()]),
                    Equals(field(5, 0), "x y".into())
                ])))
            ]))
        );
        assert_eq!(read("PID-11.9 NOT EQUALS PID-12"), Ok(Not(Box::new(Same(field(11, 9), field(12, 0))))));
        assert_eq!(read("PID-8 = \"M\""), Ok(Equals(field(8, 0), "M".into())));
    }

    #[test]
    fn refuses_what_is_not_the_grammar() {
        for bad in [
            "",
            "PID-1",
            "VALUED",
            "PID-1 VALUED PID-2",
            "PID-1 EQUALS",
            "PID-1 IN ()",
            "PID-1 IN (\"a\"",
            "(PID-1 VALUED",
            "PID-1 VALUED)",
            "PID-1 EQUALS \"a",
            "PID-1 EXISTS",
            "PID-1 LST.COUNT 1",
            "PID-1 LENGTH GREATER THAN x",
            "PID-1 VALUED AND",
            "PID-1 NOT LENGTH EQUALS 1",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read(&format!("{}PID-1 VALUED", "NOT ".repeat(40))).is_err());
    }
}
