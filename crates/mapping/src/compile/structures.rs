//! `messages/`: the syntax of a structure, its bindings, labels and references.
//! Not here: placing segments (`grammar`) or choosing a structure (`structure`).

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::Compiler;
use crate::elements::{self, TypeKind};
use crate::fault::Place;
use crate::grammar::Grammar;
use crate::plan::{Bind, BindReference, Label, Origin, Span, Structure};
use crate::rule_file::{RawBind, RawMessage};
use crate::source::Base;
use crate::target;

/// A structure and the events that use it.
pub(super) struct Placed {
    pub structure: Structure,
    pub events: Vec<String>,
    place: Place,
}

impl Compiler {
    pub(super) fn structure(&mut self, raw: RawMessage) -> Option<Placed> {
        let grammar = match Grammar::parse(&raw.segments) {
            Ok(grammar) => grammar,
            Err(message) => {
                self.fault(raw.segments_place, message);
                return None;
            }
        };
        let mut labels = Vec::new();
        for bind in &raw.binds {
            self.label(bind, &grammar, &mut labels);
        }
        let subject = labels.iter().position(|label: &Label| label.name == raw.subject);
        if subject.is_none() {
            self.fault(raw.place, format!("no binding makes the subject `{}`", raw.subject));
        }
        let mut binds: Vec<Vec<Bind>> = vec![Vec::new(); grammar.slots.len()];
        for bind in raw.binds {
            self.bindings.push(Origin {
                file: bind.place.file,
                line: bind.place.line,
                map: SmolStr::from(raw.structure.as_str()),
                rows: bind.rows.clone(),
                target: SmolStr::from(bind.resource.as_str()),
                path: SmolStr::default(),
                resource: true,
            });
            if let Some((slot, bind)) = self.bind(&bind, &grammar, &labels)
                && let Some(of_slot) = binds.get_mut(slot)
            {
                of_slot.push(bind);
            }
        }
        let structure = Structure { name: raw.structure.into(), grammar, subject: subject.unwrap_or(0), labels, binds };
        Some(Placed { structure, events: raw.events, place: raw.place })
    }

    /// A label belongs to the innermost repeating place of the first binding that names it.
    fn label(&mut self, bind: &RawBind, grammar: &Grammar, labels: &mut Vec<Label>) {
        if labels.iter().any(|label| label.name == bind.resource) {
            return;
        }
        let kind = bind.resource.split('[').next().unwrap_or_default();
        if elements::kind(kind) != Some(TypeKind::Resource) {
            self.fault(bind.place, format!("`{}` is not an R4 resource with a label, like Patient[1]", bind.resource));
            return;
        }
        let Some(slot) = grammar.slot(&bind.path) else { return };
        let span = match grammar.slots.get(slot) {
            Some(place) if place.repeats => Span::Slot(slot),
            _ => grammar
                .around(slot)
                .find(|group| grammar.groups.get(*group).is_some_and(|group| group.repeats))
                .map_or(Span::Message, Span::Group),
        };
        labels.push(Label { name: SmolStr::from(bind.resource.as_str()), resource: SmolStr::new(kind), span });
    }

    fn bind(&mut self, raw: &RawBind, grammar: &Grammar, labels: &[Label]) -> Option<(usize, Bind)> {
        let place = raw.place;
        let Some(slot) = grammar.slot(&raw.path) else {
            self.fault(place, format!("`{}` is no place in the structure", raw.path));
            return None;
        };
        let segment = grammar.slots.get(slot).map(|slot| slot.segment.clone()).unwrap_or_default();
        let condition = self.condition(raw.when.as_deref(), Base::Message(&segment), place);
        let Some((map, mapped, resource)) = self.names.segments.get(&raw.map).cloned() else {
            self.fault(place, format!("`{}` is no segment map", raw.map));
            return None;
        };
        if mapped != segment {
            self.fault(place, format!("`{}` maps {mapped}, the place is {segment}'s", raw.map));
        }
        let label = self.visible(&raw.resource, slot, grammar, labels, place)?;
        if labels.get(label).is_some_and(|label| label.resource != resource) {
            self.fault(place, format!("`{}` makes {resource}, not {}", raw.map, raw.resource));
        }
        let references = raw
            .references
            .iter()
            .filter_map(|(path, to, place)| self.bind_reference(&resource, path, to, (slot, *place), grammar, labels));
        let references = references.collect();
        Some((slot, Bind { map, label, condition, references }))
    }

    fn bind_reference(
        &mut self,
        resource: &str,
        path: &str,
        to: &str,
        (slot, place): (usize, Place),
        grammar: &Grammar,
        labels: &[Label],
    ) -> Option<BindReference> {
        let label = self.visible(to, slot, grammar, labels, place)?;
        let target = match target::resolve(path, resource) {
            Ok(target) => target,
            Err(message) => {
                self.fault(place, message);
                return None;
            }
        };
        if !target.field.kind.eq("Reference") {
            self.fault(place, format!("`{path}` is {}, not a Reference", target.field.kind));
            return None;
        }
        let kind = labels.get(label).map_or("", |label| label.resource.as_str());
        if !target.field.refers_to(kind) {
            self.fault(place, format!("`{path}` refers to {}, not to {kind}", target.field.targets.join(", ")));
        }
        let register = self.registers.note(resource, &target);
        Some(BindReference { register, items: false, steps: Vec::new(), label })
    }

    /// The label's index, if its instance can be told apart from this slot.
    fn visible(&mut self, name: &str, slot: usize, grammar: &Grammar, labels: &[Label], place: Place) -> Option<usize> {
        let Some(index) = labels.iter().position(|label| label.name == name) else {
            self.fault(place, format!("no binding makes `{name}`"));
            return None;
        };
        let seen = match labels.get(index).map(|label| label.span) {
            Some(Span::Slot(of)) => of == slot,
            Some(Span::Group(of)) => grammar.around(slot).any(|group| group == of),
            Some(Span::Message) | None => true,
        };
        if !seen {
            self.fault(place, format!("`{name}` repeats elsewhere: here it cannot be told which one is meant"));
            return None;
        }
        Some(index)
    }

    /// `ADT^A01` → structures, in file order.
    pub(super) fn events(&mut self, structures: &[Placed]) -> BTreeMap<SmolStr, Vec<usize>> {
        let mut events: BTreeMap<SmolStr, Vec<usize>> = BTreeMap::new();
        for (index, placed) in structures.iter().enumerate() {
            let code = placed.structure.name.split('_').next().unwrap_or_default();
            for event in &placed.events {
                let of_event = events.entry(SmolStr::from_iter([code, "^", event.as_str()])).or_default();
                if of_event.contains(&index) {
                    self.fault(placed.place, format!("event `{event}` is listed twice"));
                } else {
                    of_event.push(index);
                }
            }
        }
        events
    }
}
