//! One value at any level: field, repetition, component, subcomponent. Absent, null or valued (HL7 v2.5.1 §2.5.3).

use std::borrow::Cow;

use crate::delimiters::Delimiters;
use crate::escape::unescape;
use crate::path::Path;

/// Whether something was said, and whether it was "nothing".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not there or empty: says nothing.
    Absent,
    /// `""`: says that there is no value.
    Null,
    /// A value.
    Value,
}

/// What an element is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// MSH-1 and MSH-2: separators that separate nothing.
    Literal,
    /// A field with its repetitions.
    Field,
    /// One repetition.
    Repetition,
    /// A component.
    Component,
    /// A subcomponent.
    Subcomponent,
}

/// A value of a message, borrowed from its text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Element<'t> {
    raw: &'t str,
    level: Level,
    delimiters: Delimiters,
}

impl<'t> Element<'t> {
    pub(crate) fn new(raw: &'t str, level: Level, delimiters: Delimiters) -> Self {
        Self { raw, level, delimiters }
    }

    pub(crate) fn absent(delimiters: Delimiters) -> Self {
        Self { raw: "", level: Level::Subcomponent, delimiters }
    }

    /// The text as sent, with separators and escapes.
    pub fn raw(&self) -> &'t str {
        self.raw
    }

    /// What it is part of.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The separators it is read with.
    pub fn delimiters(&self) -> Delimiters {
        self.delimiters
    }

    /// Absent, null or valued. A value of nothing but separators (`^^`, `&`) says nothing.
    pub fn state(&self) -> State {
        if self.raw.is_empty() {
            return State::Absent;
        }
        if self.raw == "\"\"" {
            return State::Null;
        }
        if self.level == Level::Literal {
            return State::Value;
        }
        let separators = self.separators();
        if self.raw.bytes().all(|b| separators.contains(&b)) { State::Absent } else { State::Value }
    }

    /// Whether it has a value.
    pub fn is_valued(&self) -> bool {
        self.state() == State::Value
    }

    fn separators(&self) -> [u8; 3] {
        let d = &self.delimiters;
        match self.level {
            Level::Field => [d.repetition, d.component, d.subcomponent],
            Level::Repetition => [d.component, d.component, d.subcomponent],
            // A byte that a lone subcomponent can't be made of: it has no separators.
            Level::Component => [d.subcomponent; 3],
            Level::Literal | Level::Subcomponent => [0; 3],
        }
    }

    fn parts(self, separator: u8, level: Level) -> Elements<'t> {
        Elements { rest: Some(self.raw), separator, level, delimiters: self.delimiters }
    }

    /// The repetitions of a field; anything else is its own only one.
    pub fn repetitions(self) -> Elements<'t> {
        match self.level {
            Level::Field => self.parts(self.delimiters.repetition, Level::Repetition),
            _ => self.whole(),
        }
    }

    fn whole(self) -> Elements<'t> {
        Elements { rest: Some(self.raw), separator: 0, level: self.level, delimiters: self.delimiters }
    }

    /// The components of a repetition (of a field: of its first), the subcomponents of a component.
    pub fn components(self) -> Elements<'t> {
        match self.level {
            Level::Field => self.repetition(1).components(),
            Level::Repetition => self.parts(self.delimiters.component, Level::Component),
            Level::Component => self.parts(self.delimiters.subcomponent, Level::Subcomponent),
            Level::Literal | Level::Subcomponent => self.whole(),
        }
    }

    /// The subcomponents of a component (of a field or repetition: of its first component).
    pub fn subcomponents(self) -> Elements<'t> {
        match self.level {
            Level::Field | Level::Repetition => self.component(1).subcomponents(),
            Level::Component => self.parts(self.delimiters.subcomponent, Level::Subcomponent),
            Level::Literal | Level::Subcomponent => self.whole(),
        }
    }

    /// Repetition `n` from 1.
    #[must_use]
    pub fn repetition(self, n: usize) -> Self {
        self.repetitions().at(n)
    }

    /// Component `n` from 1; of a component its subcomponent `n`, so that a datatype reads the same one level down.
    #[must_use]
    pub fn component(self, n: usize) -> Self {
        self.components().at(n)
    }

    /// Subcomponent `n` from 1.
    #[must_use]
    pub fn subcomponent(self, n: usize) -> Self {
        self.subcomponents().at(n)
    }

    /// The text with escapes resolved; separators below this level stay as they are (an unescaped `&` in a text is
    /// part of it). Null and absent are empty.
    pub fn text(&self) -> Cow<'t, str> {
        match self.state() {
            State::Absent | State::Null => Cow::Borrowed(""),
            State::Value if self.level == Level::Literal => Cow::Borrowed(self.raw),
            State::Value => unescape(self.raw, self.delimiters),
        }
    }

    pub(crate) fn descend(self, path: &Path) -> Self {
        let mut element = self;
        if let Some(n) = path.repetition {
            element = element.repetition(n);
        }
        if let Some(n) = path.component {
            element = element.component(n);
        }
        if let Some(n) = path.subcomponent {
            element = element.subcomponent(n);
        }
        element
    }
}

impl std::fmt::Debug for Element<'_> {
    /// Level, state and length: the text may be about a patient.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}({:?}, {} bytes)", self.level, self.state(), self.raw.len())
    }
}

/// The parts of an element, in order.
#[derive(Clone, Debug)]
pub struct Elements<'t> {
    rest: Option<&'t str>,
    /// 0 where there is nothing to separate.
    separator: u8,
    level: Level,
    delimiters: Delimiters,
}

impl<'t> Elements<'t> {
    fn at(mut self, n: usize) -> Element<'t> {
        let absent = Element::absent(self.delimiters);
        n.checked_sub(1).and_then(|i| self.nth(i)).unwrap_or(absent)
    }
}

impl<'t> Iterator for Elements<'t> {
    type Item = Element<'t>;

    fn next(&mut self) -> Option<Element<'t>> {
        let rest = self.rest?;
        let cut = if self.separator == 0 { None } else { memchr::memchr(self.separator, rest.as_bytes()) };
        self.rest = cut.and_then(|at| rest.get(at.saturating_add(1)..));
        let raw = cut.map_or(rest, |at| rest.get(..at).unwrap_or_default());
        Some(Element::new(raw, self.level, self.delimiters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(raw: &str) -> Element<'_> {
        Element::new(raw, Level::Field, Delimiters::default())
    }

    #[test]
    fn absent_null_and_valued_at_every_level() {
        for raw in ["", "~", "^^", "&", "~^&~"] {
            assert_eq!(field(raw).state(), State::Absent, "{raw}");
            assert_eq!(field(raw).text(), "");
        }
        let mixed = field("\"\"^a^^\"\"&b&");
        assert!(mixed.is_valued());
        assert_eq!(mixed.component(1).state(), State::Null);
        assert_eq!(mixed.component(1).text(), "");
        assert_eq!(mixed.component(3).state(), State::Absent);
        assert_eq!(mixed.component(4).state(), State::Value);
        assert_eq!(mixed.component(4).subcomponent(1).state(), State::Null);
        assert_eq!(mixed.component(4).subcomponent(3).state(), State::Absent);
        assert_eq!(field("\"\"").state(), State::Null);
        assert_eq!(field("\"\"\"\"").state(), State::Value);
        assert_eq!(field(" ").state(), State::Value);
    }

    #[test]
    fn what_has_no_separator_is_its_own_first_part() {
        let plain = field("a");
        for first in [plain.repetition(1), plain.component(1), plain.subcomponent(1), plain.component(1).component(1)] {
            assert_eq!(first.raw(), "a");
        }
        let leaf = plain.component(1).subcomponent(1);
        assert_eq!((leaf.level(), leaf.component(1).component(1)), (Level::Subcomponent, leaf));
        for beyond in
            [plain.repetition(2), plain.component(2), plain.subcomponent(2), leaf.component(2), plain.component(0)]
        {
            assert_eq!(beyond.state(), State::Absent);
        }
        // The same datatype reads the same one level down.
        assert_eq!(field("x^a&b").component(2).component(2).raw(), "b");
    }

    #[test]
    fn separators_in_a_text_stay_and_escapes_are_read_after_splitting() {
        assert_eq!(field("Smith & Sons^Ltd").text(), "Smith & Sons^Ltd");
        assert_eq!(field("R&D").component(1).text(), "R&D");
        let escaped = field("a\\S\\b\\R\\c^d\\T\\e");
        assert_eq!(escaped.repetitions().count(), 1);
        assert_eq!(escaped.component(1).text(), "a^b~c");
        assert_eq!(escaped.component(2).subcomponent(1).text(), "d&e");
    }

    #[test]
    fn debugging_shows_no_content() {
        assert_eq!(format!("{:?}", field("Okonkwo^Adaeze")), "Field(Value, 14 bytes)");
    }
}
