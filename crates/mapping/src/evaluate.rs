//! Conditions against the message at hand.
//! Not here: their grammar (`condition`).
//! Contract: comparisons look at the first component and subcomponent; a path into the field at hand means the
//! repetition at hand, any other path the first repetition of the segment at hand or, for another segment, of the first.

use hl7::State;

use crate::condition::Condition;
use crate::execute::{Frame, Mapper};
use crate::number;
use crate::source::Source;
use crate::value::{At, Value};

impl<'t> Mapper<'_, '_, 't> {
    pub(crate) fn holds(&self, condition: &Condition, frame: &Frame<'t>) -> bool {
        match condition {
            Condition::All(parts) => parts.iter().all(|part| self.holds(part, frame)),
            Condition::Any(parts) => parts.iter().any(|part| self.holds(part, frame)),
            Condition::Not(part) => !self.holds(part, frame),
            Condition::Valued(source) => self.is_valued(source, frame),
            Condition::Numeric(source) => self.leaf_is(source, frame, |text| number::decimal(text).is_some()),
            Condition::Equals(source, wanted) => self.leaf_is(source, frame, |text| text == wanted.as_str()),
            Condition::In(source, wanted) => self.leaf_is(source, frame, |text| wanted.iter().any(|w| w == text)),
            Condition::Same(a, b) => {
                let texts = [a, b].map(|source| self.locate(source, frame).and_then(Value::leaf_text));
                matches!(texts, [Some(a), Some(b)] if a == b)
            }
            Condition::Count(source, measure) => measure.holds(self.count(source, frame)),
            Condition::Length(source, measure) => {
                let text = self.locate(source, frame).and_then(Value::leaf_text);
                measure.holds(text.map_or(0, |text| text.trim().chars().count()))
            }
        }
    }

    fn is_valued(&self, source: &Source, frame: &Frame<'t>) -> bool {
        if let Source::Segment { segment, field: 0, .. } = source {
            let index = segment.as_ref().map_or(Some(frame.segment), |name| self.first(name));
            let segment = index.and_then(|index| self.segment(index));
            return segment.is_some_and(|s| (1..=s.field_count()).any(|n| s.field(n).state() == State::Value));
        }
        self.locate(source, frame).is_some_and(Value::is_valued)
    }

    fn leaf_is(&self, source: &Source, frame: &Frame<'t>, test: impl Fn(&str) -> bool) -> bool {
        self.locate(source, frame).and_then(Value::leaf_text).is_some_and(|text| test(text.trim()))
    }

    fn count(&self, source: &Source, frame: &Frame<'t>) -> usize {
        let Source::Segment { segment, field, .. } = source else {
            return usize::from(self.locate(source, frame).is_some_and(Value::is_valued));
        };
        let index = segment.as_ref().map_or(Some(frame.segment), |name| self.first(name));
        let Some(element) = index.and_then(|index| self.field(index, *field)) else { return 0 };
        element.repetitions().filter(|repetition| repetition.state() == State::Value).count()
    }

    /// The value at a path.
    pub(crate) fn locate(&self, source: &Source, frame: &Frame<'t>) -> Option<Value<'t>> {
        match source {
            Source::Value { parts } => self.part(frame, *parts),
            Source::Segment { segment, field, parts } => {
                let own = || self.segment(frame.segment).map(|segment| segment.name());
                let index = match segment {
                    None => frame.segment,
                    // A datatype map names segments in full, its own among them.
                    Some(name) if own() == Some(name.as_str()) => frame.segment,
                    Some(name) => self.first(name)?,
                };
                if let Some(current) = frame.current
                    && (current.at.segment, current.at.field) == (index, *field)
                {
                    return current.parts(*parts);
                }
                let element = self.field(index, *field)?.repetitions().next()?;
                let at = At { segment: index, field: *field, repetition: 1, ..At::default() };
                Value { element, at }.parts(*parts)
            }
        }
    }
}
