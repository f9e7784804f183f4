//! The walk: each segment placed in its structure, its bindings run, its rules applied to what they read.
//! Not here: what an action does to a value (`apply`), conditions (`evaluate`), contributions (`assemble`).
//! Contract: linear in the message; each rule fires or leaves a mark that says why not.

use std::collections::BTreeMap;

use hl7::{Element, Location, Message, Segment, State};
use smol_str::SmolStr;

use crate::contribution::Strength;
use crate::grammar::{Placed, Placement, Placer};
use crate::instance::{Instance, ItemKey, ONLY};
use crate::issue::IssueCode;
use crate::ledger::{Application, Mark, Outcome, Trail};
use crate::mapped::{MapError, Mapped};
use crate::node::{Node, Step};
use crate::plan::{Action, Bind, Plan, Rule, Span, Structure, Target};
use crate::sender::Context;
use crate::source::Source;
use crate::structure;
use crate::value::{At, Value, positions, segment_at};

/// Deepest nesting of datatype maps; maps do not apply themselves, so only a long chain of files gets here.
const DEPTH_MAX: u8 = 12;

impl Plan {
    /// Maps a message. The same message, plan and context give the same result, byte for byte.
    pub fn map(&self, message: &Message<'_>, context: &Context<'_>) -> Result<Mapped, MapError> {
        let index = structure::choose(self, message)?;
        let Some(structure) = self.structures.get(index) else {
            return Err(MapError::UnsupportedEvent { location: structure::message_type() });
        };
        let mut mapper = Mapper::new(self, message, context);
        mapper.walk(structure);
        if let Some(error) = mapper.parked.take() {
            return Err(error);
        }
        crate::assemble::assemble(mapper, index)
    }
}

/// An issue by numbers; its names come at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raised {
    pub code: IssueCode,
    pub at: At,
    /// Whose target it concerns.
    pub trail: Option<Trail>,
}

/// A reference that a binding asks for, once all resources are there.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'p> {
    pub from: usize,
    pub register: u32,
    pub item: ItemKey,
    pub steps: &'p [Step],
    pub to: (usize, u32),
}

/// The state of mapping one message.
pub(crate) struct Mapper<'p, 'm, 't> {
    pub plan: &'p Plan,
    pub message: &'m Message<'t>,
    pub context: &'p Context<'p>,
    /// First segment of each name.
    first: BTreeMap<&'t str, u32>,
    pub occurrences: Vec<u32>,
    pub instances: Vec<Instance>,
    /// (label, iteration) → instance.
    pub labelled: BTreeMap<(usize, u32), usize>,
    pub wanted: Vec<Wanted<'p>>,
    pub marks: Vec<Mark>,
    pub applications: Vec<Application>,
    /// Rules that put something where it stays, in order.
    pub wrote: Vec<u32>,
    pub raised: Vec<Raised>,
    pub placements: Vec<Placement>,
    pub parked: Option<MapError>,
    /// The parts of the values that datatype maps are applied to, split once, innermost value last.
    pub parts: Vec<Element<'t>>,
    /// The fields of the segment at hand, found once.
    fields: (u32, Vec<Element<'t>>),
}

/// Where a rule stands when it fires.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'t> {
    /// Index of the segment at hand.
    pub segment: u32,
    /// The value a datatype map is applied to.
    pub value: Option<Value<'t>>,
    /// Where its parts are in [`Mapper::parts`]: the first, and how many.
    pub parts: (usize, u16),
    /// The repetition at hand: of the field of a segment rule.
    pub current: Option<Value<'t>>,
    /// The resource written into.
    pub instance: usize,
    /// The item written into.
    pub item: ItemKey,
    pub depth: u8,
    /// The application of the datatype map at hand.
    pub via: Option<u32>,
}

impl Frame<'_> {
    /// A rule fired in this frame, for issues and the ledger.
    pub(crate) fn trail(&self, rule: &Rule) -> Trail {
        Trail { rule: rule.id, via: self.via }
    }
}

impl<'p, 'm, 't> Mapper<'p, 'm, 't> {
    fn new(plan: &'p Plan, message: &'m Message<'t>, context: &'p Context<'p>) -> Self {
        let (first, occurrences) = positions(message);
        Self {
            plan,
            message,
            context,
            first,
            occurrences,
            instances: Vec::new(),
            labelled: BTreeMap::new(),
            wanted: Vec::new(),
            marks: Vec::with_capacity(256),
            applications: Vec::with_capacity(64),
            wrote: Vec::with_capacity(256),
            raised: Vec::new(),
            placements: Vec::with_capacity(message.segment_count()),
            parked: None,
            parts: Vec::with_capacity(64),
            fields: (u32::MAX, Vec::with_capacity(64)),
        }
    }

    /// A field of a segment, absent where it has none.
    pub(crate) fn field(&self, segment: u32, field: u16) -> Option<Element<'t>> {
        let (at_hand, fields) = &self.fields;
        if *at_hand == segment {
            return fields.get(usize::from(field).checked_sub(1)?).copied();
        }
        Some(self.segment(segment)?.field(usize::from(field)))
    }

    /// A part of the value at hand.
    pub(crate) fn part(&self, frame: &Frame<'t>, parts: [u16; 2]) -> Option<Value<'t>> {
        let ([first, second], (start, width)) = (parts, frame.parts);
        let value = frame.value?;
        if first == 0 {
            return Some(value);
        }
        if first > width {
            return None;
        }
        let index = start.checked_add(usize::from(first))?.checked_sub(1)?;
        let part = value.at_part(first, *self.parts.get(index)?)?;
        if second == 0 { Some(part) } else { part.part(second) }
    }

    pub(crate) fn segment(&self, index: u32) -> Option<Segment<'m, 't>> {
        segment_at(self.message, index)
    }

    /// The first segment of a name.
    pub(crate) fn first(&self, name: &str) -> Option<u32> {
        self.first.get(name).copied()
    }

    fn walk(&mut self, structure: &'p Structure) {
        let mut placer = Placer::new(&structure.grammar);
        for (index, segment) in (0..).zip(self.message.segments()) {
            self.fields.0 = index;
            self.fields.1.clear();
            self.fields.1.extend(segment.fields().map(|(_, element)| element));
            let placement = placer.place(segment.name());
            self.placements.push(placement);
            let at = At { segment: index, ..At::default() };
            match placement {
                Placement::Placed(at_slot) => {
                    if at_slot.out_of_order {
                        self.raise(IssueCode::SegmentOutOfOrder, at, None);
                    }
                    self.binds(structure, &placer, at_slot, index);
                }
                Placement::Repeated => self.raise(IssueCode::SegmentRepeated, at, None),
                Placement::Unknown if segment.name().starts_with('Z') => {}
                Placement::Unknown => self.raise(IssueCode::UnknownSegment, at, None),
            }
        }
    }

    fn binds(&mut self, structure: &'p Structure, placer: &Placer<'_>, at_slot: Placed, segment: u32) {
        let plan = self.plan;
        for bind in structure.binds.get(at_slot.slot).into_iter().flatten() {
            let Some(label) = structure.labels.get(bind.label) else { continue };
            if label.resource == "MessageHeader" && !self.context.message_header {
                continue;
            }
            let mut frame = Frame {
                segment,
                value: None,
                parts: (0, 0),
                current: None,
                instance: 0,
                item: (segment, 1),
                depth: 0,
                via: None,
            };
            if bind.condition.as_ref().is_some_and(|condition| !self.holds(condition, &frame)) {
                continue;
            }
            let iteration = |label: usize| match structure.labels.get(label).map(|label| label.span) {
                Some(Span::Slot(_)) => at_slot.iteration,
                Some(Span::Group(group)) => placer.iteration(group),
                Some(Span::Message) | None => 0,
            };
            frame.instance = self.instance(bind.label, iteration(bind.label), &label.resource, segment);
            if let Some(map) = plan.segment_maps.get(bind.map) {
                self.resource_rules(&map.rules, frame);
            }
            self.want(bind, frame, iteration);
        }
    }

    fn want(&mut self, bind: &'p Bind, frame: Frame<'t>, iteration: impl Fn(usize) -> u32) {
        for reference in &bind.references {
            let item = if reference.items { frame.item } else { ONLY };
            self.wanted.push(Wanted {
                from: frame.instance,
                register: reference.register,
                item,
                steps: &reference.steps,
                to: (reference.label, iteration(reference.label)),
            });
        }
    }

    fn instance(&mut self, label: usize, iteration: u32, resource: &SmolStr, segment: u32) -> usize {
        let next = self.instances.len();
        let index = *self.labelled.entry((label, iteration)).or_insert(next);
        if index == next {
            self.instances.push(Instance::new(resource.clone(), segment, None));
        }
        index
    }

    /// A place by name.
    pub(crate) fn location(&self, at: At) -> Location {
        let occurrence = usize::try_from(at.segment).ok().and_then(|index| self.occurrences.get(index));
        at.location(self.message, occurrence.copied().unwrap_or(1))
    }

    pub(crate) fn raise(&mut self, code: IssueCode, at: At, trail: Option<Trail>) {
        self.raised.push(Raised { code, at, trail });
    }

    pub(crate) fn mark(&mut self, at: At, rule: &Rule, frame: &Frame<'_>, outcome: Outcome) {
        self.marks.push(Mark { at, trail: frame.trail(rule), instance: frame.instance, outcome });
    }

    /// Runs rules whose targets are registers of the resource at hand.
    pub(crate) fn resource_rules(&mut self, rules: &'p [Rule], frame: Frame<'t>) {
        if frame.depth > DEPTH_MAX {
            self.raise(IssueCode::DepthLimit, frame.value.map_or(At::default(), |value| value.at), None);
            return;
        }
        for rule in rules {
            match &rule.source {
                Source::Value { parts } => {
                    if let Some(value) = self.part(&frame, *parts) {
                        self.value_rule(rule, value, frame);
                    }
                }
                Source::Segment { segment, field, parts } => {
                    let index = match segment {
                        None => Some(frame.segment),
                        Some(name) => self.first(name),
                    };
                    if let Some(index) = index {
                        self.field_rule(rule, index, *field, *parts, frame);
                    }
                }
            }
        }
    }

    /// A rule of a datatype map that makes a resource.
    fn value_rule(&mut self, rule: &'p Rule, value: Value<'t>, frame: Frame<'t>) {
        match value.element.state() {
            State::Absent => {}
            State::Null => {
                if self.fires(rule, &frame) {
                    self.null(rule, value.at, &frame);
                }
            }
            State::Value => {
                if self.fires(rule, &frame) {
                    self.write(rule, value, frame);
                }
            }
        }
    }

    /// A rule that reads a field, repetition by repetition.
    fn field_rule(&mut self, rule: &'p Rule, index: u32, field: u16, parts: [u16; 2], frame: Frame<'t>) {
        if field == 0 {
            let Some(segment) = self.segment(index) else { return };
            let valued = (1..=segment.field_count()).any(|n| segment.field(n).state() == State::Value);
            if valued
                && self.fires(rule, &frame)
                && let Some(element) = first_valued(segment)
            {
                let at = At { segment: index, ..At::default() };
                self.write(rule, Value { element, at }, frame);
            }
            return;
        }
        let Some(whole) = self.field(index, field) else { return };
        let at = At { segment: index, field, ..At::default() };
        match whole.state() {
            State::Absent => {}
            State::Null => {
                let value = Value { element: whole, at };
                if self.fires(rule, &Frame { current: Some(value), ..frame }) {
                    self.null(rule, at, &frame);
                }
            }
            State::Value => self.repetitions(rule, Value { element: whole, at }, parts, frame),
        }
    }

    fn repetitions(&mut self, rule: &'p Rule, whole: Value<'t>, parts: [u16; 2], frame: Frame<'t>) {
        let items =
            matches!(rule.target, Target::Register { items: true, .. }) || matches!(rule.action, Action::Merge { .. });
        let mut taken = false;
        for (repetition, element) in (1..=u16::MAX).zip(whole.element.repetitions()) {
            let current = Value { element, at: At { repetition, ..whole.at } };
            let Some(value) = current.parts(parts) else { continue };
            let frame = Frame { current: Some(current), item: (frame.segment, repetition), ..frame };
            match value.element.state() {
                State::Absent => {}
                State::Null => {
                    if repetition == 1 && self.fires(rule, &frame) {
                        self.null(rule, value.at, &frame);
                    }
                }
                State::Value => {
                    if !self.fires(rule, &frame) {
                    } else if taken && !items {
                        self.mark(value.at, rule, &frame, Outcome::Dropped(IssueCode::RepetitionDropped));
                    } else {
                        taken = true;
                        self.write(rule, value, frame);
                    }
                }
            }
        }
    }

    fn fires(&self, rule: &Rule, frame: &Frame<'t>) -> bool {
        rule.condition.as_ref().is_none_or(|condition| self.holds(condition, frame))
    }

    fn null(&mut self, rule: &Rule, at: At, frame: &Frame<'_>) {
        if let Target::Register { register, .. } = &rule.target
            && let Some(instance) = self.instances.get_mut(frame.instance)
            && !matches!(rule.action, Action::Constant(_))
        {
            instance.put_null(*register, rule.strength);
            self.mark(at, rule, frame, Outcome::Mapped);
        }
    }

    /// Applies a rule to a valued element and puts the result into the resource at hand.
    fn write(&mut self, rule: &'p Rule, value: Value<'t>, frame: Frame<'t>) {
        let before = self.marks.len();
        let Some(node) = self.apply(rule, value, &frame) else { return };
        let Target::Register { register, items, steps } = &rule.target else { return };
        let item = if *items { frame.item } else { ONLY };
        let says = !matches!(node, Node::Empty);
        if !self.put(frame.instance, (*register, rule.strength, item), steps, node) {
            // An earlier rule has the place: this one said nothing.
            self.marks.truncate(before);
        } else if says {
            self.wrote.push(rule.id);
        }
    }

    fn put(&mut self, instance: usize, place: (u32, Strength, ItemKey), steps: &[Step], node: Node) -> bool {
        let (register, strength, item) = place;
        self.instances.get_mut(instance).is_some_and(|instance| instance.put(register, strength, item, steps, node))
    }

    /// Runs the rules of a datatype map that makes a value.
    pub(crate) fn value_rules(&mut self, rules: &'p [Rule], frame: Frame<'t>) -> Node {
        let mut built = Node::Empty;
        if frame.depth > DEPTH_MAX {
            self.raise(IssueCode::DepthLimit, frame.value.map_or(At::default(), |value| value.at), None);
            return built;
        }
        for rule in rules {
            let Some(value) = self.locate(&rule.source, &frame) else { continue };
            match value.element.state() {
                State::Absent => {}
                // The item is replaced as a whole, so a null part is simply not in it.
                State::Null => {
                    if self.fires(rule, &frame) && !matches!(rule.action, Action::Constant(_)) {
                        self.mark(value.at, rule, &frame, Outcome::Mapped);
                    }
                }
                State::Value => {
                    if self.fires(rule, &frame) {
                        self.build(rule, value, &frame, &mut built);
                    }
                }
            }
        }
        built
    }

    fn build(&mut self, rule: &'p Rule, value: Value<'t>, frame: &Frame<'t>, built: &mut Node) {
        let before = self.marks.len();
        let Some(node) = self.apply(rule, value, frame) else { return };
        let steps: &[Step] = match &rule.target {
            Target::Value(steps) => steps,
            Target::This | Target::Register { .. } => &[],
        };
        let says = !matches!(node, Node::Empty);
        if !built.put(steps, node) {
            self.marks.truncate(before);
        } else if says {
            self.wrote.push(rule.id);
        }
    }
}

fn first_valued<'t>(segment: Segment<'_, 't>) -> Option<Element<'t>> {
    (1..=segment.field_count()).map(|n| segment.field(n)).find(|element| element.state() == State::Value)
}
