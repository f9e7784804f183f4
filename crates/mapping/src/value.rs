//! A part of a message and its place: what rules read and the ledger marks.
//! Not here: conversion to FHIR (`convert`).
//! Contract: places count from 1; a 0 means the whole of what is above it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hl7::{Element, Location, Message, Segment, State};

/// A place in a message, as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct At {
    /// Index of the segment, from 0.
    pub segment: u32,
    pub field: u16,
    pub repetition: u16,
    pub component: u16,
    pub subcomponent: u16,
}

impl At {
    /// Whether this place is `other` or around it.
    pub(crate) fn covers(self, other: At) -> bool {
        let same = |mine: u16, theirs: u16| mine == 0 || theirs == 0 || mine == theirs;
        self.segment == other.segment
            && same(self.field, other.field)
            && same(self.repetition, other.repetition)
            && same(self.component, other.component)
            && same(self.subcomponent, other.subcomponent)
    }

    /// The place by name, for people; `occurrence` is the segment's number among those of its name.
    pub(crate) fn location(self, message: &Message<'_>, occurrence: u32) -> Location {
        let name = segment_at(message, self.segment).map_or("", |segment| segment.name());
        Location {
            field: self.field.into(),
            repetition: self.repetition.into(),
            component: self.component.into(),
            subcomponent: self.subcomponent.into(),
            ..Location::segment(name, occurrence)
        }
    }
}

/// The segment at an index from 0.
pub(crate) fn segment_at<'m, 't>(message: &'m Message<'t>, index: u32) -> Option<Segment<'m, 't>> {
    message.segment_at(usize::try_from(index).ok()?.checked_add(1)?)
}

/// The first segment of each name, and for each segment its number among those of its name, from 1.
pub(crate) fn positions<'t>(message: &Message<'t>) -> (BTreeMap<&'t str, u32>, Vec<u32>) {
    let mut names: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    let mut numbers = Vec::with_capacity(message.segment_count());
    for (index, segment) in (0..).zip(message.segments()) {
        let (_, count) = names.entry(segment.name()).or_insert((index, 0));
        *count = count.saturating_add(1);
        numbers.push(*count);
    }
    (names.into_iter().map(|(name, (first, _))| (name, first)).collect(), numbers)
}

/// An element of a message with its place.
#[derive(Clone, Copy)]
pub(crate) struct Value<'t> {
    pub element: Element<'t>,
    pub at: At,
}

impl<'t> Value<'t> {
    /// The n-th part, one level down: component of a repetition, subcomponent of a component. Below a subcomponent there
    /// is only itself.
    pub(crate) fn part(self, n: u16) -> Option<Value<'t>> {
        // The same datatype reads the same one level down.
        self.at_part(n, self.element.component(usize::from(n)))
    }

    /// The n-th part, found already.
    pub(crate) fn at_part(self, n: u16, element: Element<'t>) -> Option<Value<'t>> {
        let mut at = self.at;
        if at.component == 0 {
            at.component = n;
        } else if at.subcomponent == 0 {
            at.subcomponent = n;
        }
        (element.state() != State::Absent).then_some(Value { element, at })
    }

    /// The part at up to two levels, 0 for none.
    pub(crate) fn parts(self, parts: [u16; 2]) -> Option<Value<'t>> {
        let [first, second] = parts;
        let value = if first == 0 { self } else { self.part(first)? };
        if second == 0 { Some(value) } else { value.part(second) }
    }

    /// The first subcomponent of the first component.
    pub(crate) fn leaf(self) -> Value<'t> {
        let mut value = self;
        while value.at.subcomponent == 0 {
            match value.part(1) {
                Some(part) => value = part,
                None => break,
            }
        }
        value
    }

    pub(crate) fn is_valued(self) -> bool {
        self.element.state() == State::Value
    }

    pub(crate) fn text(self) -> Cow<'t, str> {
        self.element.text()
    }

    /// The text of the first component and subcomponent, if valued.
    pub(crate) fn leaf_text(self) -> Option<Cow<'t, str>> {
        let leaf = self.leaf();
        leaf.is_valued().then(|| leaf.text())
    }
}
