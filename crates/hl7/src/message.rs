//! The index of a message: where segments and fields are. What is inside a field is found when asked for.
//!
//! Contract: the segments' texts joined by CR, with the last terminator as it was, are the message's text; nothing is
//! skipped. The index takes 4 bytes a field and 16 a segment.

use crate::delimiters::{Delimiters, DelimitersError};
use crate::element::{Element, Level};
use crate::path::Path;

/// The bounds of a message; beyond them it is refused, never half read.
pub mod limits {
    /// Longest text, in bytes.
    pub const TEXT_BYTES_MAX: usize = 64 << 20;
    /// Most segments.
    pub const SEGMENTS_MAX: usize = 100_000;
    /// Most fields of one segment.
    pub const FIELDS_MAX: usize = 100_000;
}

/// Which bound was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// [`limits::TEXT_BYTES_MAX`].
    #[error("{} bytes", limits::TEXT_BYTES_MAX)]
    TextBytes,
    /// [`limits::SEGMENTS_MAX`].
    #[error("{} segments", limits::SEGMENTS_MAX)]
    Segments,
    /// [`limits::FIELDS_MAX`].
    #[error("{} fields in a segment", limits::FIELDS_MAX)]
    Fields,
}

/// Text is no HL7 v2 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// There is no text.
    #[error("the message is empty")]
    Empty,
    /// The first segment is not MSH.
    #[error("the first segment is not MSH")]
    NoMsh,
    /// MSH-1 or MSH-2 is unusable.
    #[error(transparent)]
    Delimiters(#[from] DelimitersError),
    /// Larger than a bound allows.
    #[error("the message has more than {0}")]
    Limit(Limit),
}

/// Where a segment is; all fit 32 bits, see [`limits::TEXT_BYTES_MAX`].
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
    /// Index of its first field separator in `Message::separators`.
    first: u32,
    /// One after its last.
    last: u32,
}

/// A place in a text that is not longer than [`limits::TEXT_BYTES_MAX`].
fn short(at: usize) -> Result<u32, ParseError> {
    u32::try_from(at).map_err(|_| ParseError::Limit(Limit::TextBytes))
}

/// The same as an index.
fn wide(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// A parsed message over its text.
#[derive(Clone)]
pub struct Message<'t> {
    text: &'t str,
    delimiters: Delimiters,
    segments: Vec<Span>,
    separators: Vec<u32>,
}

impl<'t> Message<'t> {
    /// Indexes a text whose segments end in CR, as [`crate::decode`] gives it.
    pub fn parse(text: &'t str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Err(ParseError::Empty);
        }
        if text.len() > limits::TEXT_BYTES_MAX {
            return Err(ParseError::Limit(Limit::TextBytes));
        }
        let first = text.split('\r').next().unwrap_or_default();
        let header = first.strip_prefix("MSH").ok_or(ParseError::NoMsh)?;
        let field = header.as_bytes().first().copied().ok_or(ParseError::NoMsh)?;
        if field.is_ascii_alphanumeric() {
            return Err(ParseError::NoMsh);
        }
        if !field.is_ascii() {
            return Err(DelimitersError::NotPunctuation.into());
        }
        let encoding = header.get(1..).unwrap_or_default().split(char::from(field)).next().unwrap_or_default();
        let delimiters = Delimiters::read(field, encoding)?;
        // Half the text's size at first: what fields usually need.
        let separators = Vec::with_capacity(text.len().div_euclid(8));
        let mut message = Self { text, delimiters, segments: Vec::with_capacity(16), separators };
        message.index()?;
        Ok(message)
    }

    fn index(&mut self) -> Result<(), ParseError> {
        let bytes = self.text.as_bytes();
        let mut start = 0;
        let mut first = 0;
        for at in memchr::memchr2_iter(self.delimiters.field, b'\r', bytes) {
            if bytes.get(at) == Some(&b'\r') {
                self.close(start, at, first)?;
                start = at.saturating_add(1);
                first = self.separators.len();
            } else {
                self.separators.push(short(at)?);
                if self.separators.len().saturating_sub(first) > limits::FIELDS_MAX {
                    return Err(ParseError::Limit(Limit::Fields));
                }
            }
        }
        if start < bytes.len() {
            self.close(start, bytes.len(), first)?;
        }
        Ok(())
    }

    fn close(&mut self, start: usize, end: usize, first: usize) -> Result<(), ParseError> {
        if self.segments.len() >= limits::SEGMENTS_MAX {
            return Err(ParseError::Limit(Limit::Segments));
        }
        let (first, last) = (short(first)?, short(self.separators.len())?);
        self.segments.push(Span { start: short(start)?, end: short(end)?, first, last });
        Ok(())
    }

    /// The whole text.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// The separators of this message.
    pub fn delimiters(&self) -> Delimiters {
        self.delimiters
    }

    /// How many segments there are.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// All segments in order.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = Segment<'_, 't>> {
        self.segments.iter().enumerate().map(|(i, &span)| Segment { message: self, span, number: i.saturating_add(1) })
    }

    /// The segment at a position from 1.
    pub fn segment_at(&self, number: usize) -> Option<Segment<'_, 't>> {
        let span = *self.segments.get(number.checked_sub(1)?)?;
        Some(Segment { message: self, span, number })
    }

    /// The first segment of a name.
    pub fn segment(&self, name: &str) -> Option<Segment<'_, 't>> {
        self.segments().find(|s| s.name() == name)
    }

    /// What stands at a path; absent where the segment or anything below is missing.
    pub fn get(&self, path: &Path) -> Element<'t> {
        let occurrence = path.occurrence.max(1).saturating_sub(1);
        let Some(segment) = self.segments().filter(|s| s.name() == path.segment.as_str()).nth(occurrence) else {
            return Element::absent(self.delimiters);
        };
        segment.field(path.field).descend(path)
    }
}

impl std::fmt::Debug for Message<'_> {
    /// Sizes only: the rest may be about a patient.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message({} segments, {} bytes)", self.segments.len(), self.text.len())
    }
}

/// One segment.
#[derive(Clone, Copy)]
pub struct Segment<'m, 't> {
    message: &'m Message<'t>,
    span: Span,
    number: usize,
}

impl<'t> Segment<'_, 't> {
    /// Its name: all before the first field separator, as sent.
    pub fn name(&self) -> &'t str {
        let end = self.separator(0).unwrap_or(wide(self.span.end));
        self.message.text.get(wide(self.span.start)..end).unwrap_or_default()
    }

    /// Its place in the message, from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Its text without the terminator.
    pub fn raw(&self) -> &'t str {
        self.message.text.get(wide(self.span.start)..wide(self.span.end)).unwrap_or_default()
    }

    fn separator(&self, n: usize) -> Option<usize> {
        let own = wide(self.span.first)..wide(self.span.last);
        self.message.separators.get(own)?.get(n).copied().map(wide)
    }

    /// MSH, FHS and BHS: their field 1 is the field separator itself (HL7 v2.5.1 §2.15.9.1).
    fn declares_delimiters(&self) -> bool {
        matches!(self.name(), "MSH" | "FHS" | "BHS")
    }

    /// The number of its last field.
    pub fn field_count(&self) -> usize {
        let separators = wide(self.span.last.saturating_sub(self.span.first));
        if self.declares_delimiters() { separators.saturating_add(1) } else { separators }
    }

    /// Field `n` from 1, numbered as the standard does; absent beyond the last.
    pub fn field(&self, n: usize) -> Element<'t> {
        let delimiters = self.message.delimiters;
        let mut index = n;
        if self.declares_delimiters() {
            if n == 1 {
                let raw = self.separator(0).and_then(|at| self.message.text.get(at..at.saturating_add(1)));
                return raw.map_or(Element::absent(delimiters), |raw| Element::new(raw, Level::Literal, delimiters));
            }
            index = n.saturating_sub(1);
        }
        let Some(at) = index.checked_sub(1).and_then(|i| self.separator(i)) else {
            return Element::absent(delimiters);
        };
        let end = self.separator(index).unwrap_or(wide(self.span.end));
        let raw = self.message.text.get(at.saturating_add(1)..end).unwrap_or_default();
        let level = if self.declares_delimiters() && n == 2 { Level::Literal } else { Level::Field };
        Element::new(raw, level, delimiters)
    }

    /// All fields with their numbers.
    pub fn fields(&self) -> impl Iterator<Item = (usize, Element<'t>)> {
        (1..=self.field_count()).map(|n| (n, self.field(n)))
    }
}

impl std::fmt::Debug for Segment<'_, '_> {
    /// Name and place only: the rest may be about a patient.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}#{}", self.name(), self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::State;

    const SENT: &str = "MSH|^~\\&|A|B\rPID|1||7~8^x&y\rOBX|1\rZZ9\rOBX|2||\"\"";

    fn path(text: &str) -> Path {
        text.parse().unwrap()
    }

    #[test]
    fn fields_are_numbered_as_the_standard_does() {
        let message = Message::parse(SENT).unwrap();
        let msh = message.segment("MSH").unwrap();
        let texts: Vec<_> = msh.fields().map(|(n, field)| (n, field.text().into_owned())).collect();
        assert_eq!(texts, [(1, "|".into()), (2, "^~\\&".into()), (3, "A".into()), (4, "B".into())]);
        assert_eq!(msh.field(2).component(2).state(), State::Absent);
        assert_eq!(message.segment("PID").unwrap().field_count(), 3);
        assert_eq!(message.segment("ZZ9").unwrap().field_count(), 0);
        assert_eq!(message.segments().map(|s| s.number()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(message.segment_at(5).unwrap().raw(), "OBX|2||\"\"");
        assert!(message.segment_at(0).is_none() && message.segment_at(6).is_none() && message.segment("NTE").is_none());
    }

    #[test]
    fn paths_lead_to_elements() {
        let message = Message::parse(SENT).unwrap();
        for (at, text) in [("PID-1", "1"), ("PID-3[2].2.2", "y"), ("PID-3.1", "7"), ("OBX[2]-1", "2"), ("MSH-3", "A")] {
            assert_eq!(message.get(&path(at)).text(), text, "{at}");
        }
        assert_eq!(message.get(&path("OBX[2]-3")).state(), State::Null);
        for at in ["OBX[3]-1", "NTE-1", "PID-99", "PID-3[3]", "PID-3.2", "PID-3[2].2.3"] {
            assert_eq!(message.get(&path(at)).state(), State::Absent, "{at}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_reason() {
        for (text, error) in [
            ("", ParseError::Empty),
            ("PID|1", ParseError::NoMsh),
            ("msh|^~\\&|", ParseError::NoMsh),
            ("MSH", ParseError::NoMsh),
            (" MSH|^~\\&|", ParseError::NoMsh),
            ("MSHA^~\\&A", ParseError::NoMsh),
            ("MSH|", ParseError::Delimiters(DelimitersError::Count)),
            ("MSH||A", ParseError::Delimiters(DelimitersError::Count)),
            ("MSH|^~\\\\&|", ParseError::Delimiters(DelimitersError::Repeated)),
            ("MSH|^~A&|", ParseError::Delimiters(DelimitersError::NotPunctuation)),
            ("MSH\u{e9}^~\\&|", ParseError::Delimiters(DelimitersError::NotPunctuation)),
        ] {
            assert_eq!(Message::parse(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn short_and_long_encoding_characters() {
        for (sent, component) in [("MSH|$|a$b", "b"), ("MSH|^~|a^b", "b"), ("MSH|^~\\&#|a^b#|x", "b#")] {
            let message = Message::parse(sent).unwrap();
            assert_eq!(message.get(&path("MSH-3.2")).text(), component);
        }
        assert_eq!(Message::parse("MSH|^~\\&#|a\\P\\").unwrap().get(&path("MSH-3")).text(), "a#");
    }

    #[test]
    fn debugging_shows_no_content() {
        let message = Message::parse(SENT).unwrap();
        assert_eq!(format!("{:?}", message.segment("PID").unwrap()), "PID#2");
        assert_eq!(format!("{message:?}"), "Message(5 segments, 47 bytes)");
    }
}
