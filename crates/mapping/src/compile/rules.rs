//! `[[rule]]` and `[[ignore]]` compiled and checked: paths, types, constants, codes.
//! Not here: registers and structures.

use std::collections::BTreeMap;

use fhir::Json;
use smol_str::SmolStr;

use super::{Compiler, Names};
use crate::condition::{self, Condition};
use crate::contribution::Strength;
use crate::elements::{self, Field, TypeKind};
use crate::fault::Place;
use crate::plan::{Action, CodeShape, CodeUse, Ignore, Origin, Rule, Target, Unmapped};
use crate::primitive::Primitive;
use crate::rule_file::{RawIgnore, RawRule};
use crate::source::{self, Base, Source};
use crate::target;

/// What the rules of one file are relative to.
pub(super) struct RuleScope<'a> {
    pub base: Base<'a>,
    /// R4 type of the targets.
    pub root: &'a str,
    pub resource: bool,
    pub map: SmolStr,
}

impl Compiler {
    pub(super) fn rules(
        &mut self,
        raw: Vec<RawRule>,
        ignores: Vec<RawIgnore>,
        scope: &RuleScope<'_>,
    ) -> (Vec<Rule>, Vec<Ignore>) {
        self.duplicates(&raw);
        let rules = raw.into_iter().filter_map(|rule| self.rule(rule, scope)).collect();
        let ignores = ignores.into_iter().filter_map(|ignore| self.ignore(ignore, scope)).collect();
        (rules, ignores)
    }

    /// Two rules for one slot need conditions that tell them apart.
    fn duplicates(&mut self, rules: &[RawRule]) {
        let mut seen: BTreeMap<(&str, &str, bool), Place> = BTreeMap::new();
        for rule in rules.iter().filter(|rule| rule.to != "$this") {
            let key = (rule.to.as_str(), rule.when.as_deref().unwrap_or(""), rule.fills);
            match seen.get(&key) {
                Some(first) => {
                    let message =
                        format!("`{}` is written by the rule at line {} under the same condition", rule.to, first.line);
                    self.faults.add(rule.place, message);
                }
                None => {
                    seen.insert(key, rule.place);
                }
            }
        }
    }

    fn ignore(&mut self, raw: RawIgnore, scope: &RuleScope<'_>) -> Option<Ignore> {
        match source::parse(&raw.from, scope.base) {
            Ok(source) => Some(Ignore { source, why: raw.why.into(), file: raw.place.file, line: raw.place.line }),
            Err(message) => {
                self.fault(raw.place, message);
                None
            }
        }
    }

    fn rule(&mut self, raw: RawRule, scope: &RuleScope<'_>) -> Option<Rule> {
        let place = raw.place;
        let source = source::parse(&raw.from, scope.base).map_err(|message| self.fault(place, message)).ok();
        let condition = self.condition(raw.when.as_deref(), scope.base, place);
        let (target, action) = self.target_and_action(&raw, scope)?;
        let source = source?;
        if matches!(source, Source::Segment { field: 0, .. }) && !matches!(action, Action::Constant(_)) {
            self.fault(place, "a whole segment can only make a constant fire");
        }
        if let Action::Primitive { kind: Primitive::IdentifierSystem | Primitive::EntityAuthority, .. } = action
            && !matches!(source, Source::Value { parts: [0, 0] })
        {
            self.fault(place, "this primitive reads the whole value: from = the datatype itself");
        }
        let reads = match (&action, &condition) {
            (Action::Constant(_), Some(condition)) => decided_by(condition, &source),
            _ => Vec::new(),
        };
        let id = u32::try_from(self.origins.len()).unwrap_or(u32::MAX);
        let path = if raw.to == "$this" { SmolStr::default() } else { SmolStr::from(raw.to.as_str()) };
        let written =
            if path.is_empty() { SmolStr::new(scope.root) } else { SmolStr::from_iter([scope.root, ".", &path]) };
        self.origins.push(Origin {
            file: place.file,
            line: place.line,
            map: scope.map.clone(),
            rows: raw.rows,
            target: written,
            path,
            resource: scope.resource,
        });
        let strength = if raw.fills { Strength::Fills } else { Strength::Asserts };
        Some(Rule { id, source, condition, action, target, strength, reads })
    }

    pub(super) fn condition(&mut self, when: Option<&str>, base: Base<'_>, place: Place) -> Option<Condition> {
        match condition::parse(when?, base) {
            Ok(condition) => Some(condition),
            Err(message) => {
                self.fault(place, format!("when: {message}"));
                None
            }
        }
    }

    fn target_and_action(&mut self, raw: &RawRule, scope: &RuleScope<'_>) -> Option<(Target, Action)> {
        let place = raw.place;
        if raw.to == "$this" {
            let action = match (elements::kind(scope.root), &raw.value) {
                (Some(TypeKind::Resource), _) => self.merge(raw, scope),
                (_, Some(value)) => self.constant(raw, &elements::whole(scope.root), value),
                _ => self.value_action(raw, &elements::whole(scope.root)),
            };
            return action.map(|action| (Target::This, action));
        }
        let path = match target::resolve(&raw.to, scope.root) {
            Ok(path) => path,
            Err(message) => {
                self.fault(place, message);
                return None;
            }
        };
        let action = match (&raw.value, &raw.resource) {
            (Some(value), _) => self.constant(raw, &path.field, value),
            (None, Some(resource)) => self.reference(raw, &path.field, resource),
            (None, None) => self.value_action(raw, &path.field),
        }?;
        let target = if scope.resource {
            Target::Register { register: self.registers.note(scope.root, &path), items: false, steps: Vec::new() }
        } else {
            Target::Value(path.steps)
        };
        Some((target, action))
    }

    /// `$this` of a resource: a datatype map of the same resource.
    fn merge(&mut self, raw: &RawRule, scope: &RuleScope<'_>) -> Option<Action> {
        let map = raw.mapper.as_deref().and_then(|name| self.names.values.get(name)).cloned();
        match map {
            Some((map, target)) if target == scope.root && raw.code.is_none() && raw.value.is_none() => {
                Some(Action::Merge { map })
            }
            _ => {
                self.fault(raw.place, format!("`$this` of {0} takes a datatype map whose target is {0}", scope.root));
                None
            }
        }
    }

    fn constant(&mut self, raw: &RawRule, field: &Field, value: &Json) -> Option<Action> {
        let others = [&raw.mapper, &raw.code, &raw.unmapped, &raw.resource];
        if others.iter().any(|other| other.is_some()) {
            self.fault(raw.place, "a constant has no `as`, `code`, `unmapped` or `resource`");
        }
        if let Err(message) = elements::constant(field, value) {
            self.fault(raw.place, message);
            return None;
        }
        Some(Action::Constant(value.clone()))
    }

    fn reference(&mut self, raw: &RawRule, field: &Field, resource: &str) -> Option<Action> {
        if !field.kind.eq("Reference") {
            self.fault(raw.place, format!("`resource` needs a Reference, `{}` is {}", raw.to, field.kind));
            return None;
        }
        if !field.refers_to(resource) {
            self.fault(raw.place, format!("`{}` refers to {}, not to {resource}", raw.to, field.targets.join(", ")));
        }
        if raw.code.is_some() || raw.unmapped.is_some() {
            self.fault(raw.place, "a reference has no `code` or `unmapped`");
        }
        let name = raw.mapper.as_deref().unwrap_or_default();
        match self.names.values.get(name) {
            Some((map, target)) if target == resource => Some(Action::Resource { map: *map }),
            Some((_, target)) => {
                let message = format!("`{name}` makes {target}, not {resource}");
                self.fault(raw.place, message);
                None
            }
            None => {
                self.fault(raw.place, format!("`as` = `{name}` is no datatype map"));
                None
            }
        }
    }

    fn value_action(&mut self, raw: &RawRule, field: &Field) -> Option<Action> {
        let place = raw.place;
        let Some(name) = raw.mapper.as_deref() else {
            let Some(kind) = Primitive::of_type(&field.kind) else {
                self.fault(place, format!("`{}` is {}, which needs a datatype map in `as`", raw.to, field.kind));
                return None;
            };
            let code = self.code_use(raw, field, CodeShape::Plain(kind));
            return Some(Action::Primitive { kind, code });
        };
        if let Some(kind) = Primitive::named(name) {
            if !elements::fits(kind.produces(), &field.kind) {
                self.fault(place, format!("`{name}` gives {}, `{}` is {}", kind.produces(), raw.to, field.kind));
            }
            let code = self.code_use(raw, field, CodeShape::Plain(kind));
            return Some(Action::Primitive { kind, code });
        }
        let Some((map, target)) = self.names.values.get(name).cloned() else {
            self.fault(place, unknown_map(&self.names, name));
            return None;
        };
        if !elements::fits(&target, &field.kind) {
            self.fault(place, format!("`{name}` gives {target}, `{}` is {}", raw.to, field.kind));
        }
        let shape = match target.as_str() {
            "Coding" => CodeShape::Coding,
            "CodeableConcept" => CodeShape::CodeableConcept,
            other => match Primitive::of_type(other) {
                Some(kind) => CodeShape::Plain(kind),
                None if raw.code.is_some() => {
                    self.fault(place, format!("{target} takes no `code`"));
                    return None;
                }
                None => CodeShape::Coding,
            },
        };
        let code = self.code_use(raw, field, shape);
        Some(Action::Datatype { map, code })
    }

    fn code_use(&mut self, raw: &RawRule, field: &Field, shape: CodeShape) -> Option<CodeUse> {
        let plain = matches!(shape, CodeShape::Plain(_));
        let unmapped = match raw.unmapped.as_deref() {
            None if plain => Unmapped::Omit,
            None | Some("keep") => Unmapped::Keep,
            Some("omit") => Unmapped::Omit,
            Some("park") => Unmapped::Park,
            Some(other) => {
                self.fault(raw.place, format!("unmapped `{other}` is none of \"keep\", \"omit\", \"park\""));
                Unmapped::Omit
            }
        };
        let Some(name) = raw.code.as_deref() else {
            if raw.unmapped.is_some() {
                self.fault(raw.place, "`unmapped` without `code`");
            }
            return None;
        };
        let Some(map) = self.names.codes.get(name).copied() else {
            self.fault(raw.place, format!("`{name}` is no code map"));
            return None;
        };
        if plain && unmapped == Unmapped::Keep && field.codes.is_some() {
            self.fault(raw.place, format!("`{}` takes only its own codes: an unmapped one cannot be kept", raw.to));
        }
        let codes = self.codes.get(map).into_iter().flat_map(crate::code_map::CodeMap::target_codes);
        let wrong: Vec<&str> = codes.filter(|code| plain && !field.allows(code)).collect();
        if !wrong.is_empty() {
            let message = format!("`{name}` has codes that `{}` does not take: {}", raw.to, wrong.join(", "));
            self.faults.add(raw.place, message);
        }
        Some(CodeUse { map, unmapped, shape })
    }
}

fn unknown_map(names: &Names, name: &str) -> String {
    let head = super::head(name);
    let near: Vec<&str> = names.values.keys().filter(|known| super::head(known) == head).map(String::as_str).collect();
    if near.is_empty() {
        format!("`{name}` is neither a primitive nor a datatype map")
    } else {
        format!("`{name}` is no datatype map; there are {}", near.join(", "))
    }
}

/// The paths of the rule's own field whose value makes the condition hold: what a constant says of the message.
fn decided_by(condition: &Condition, source: &Source) -> Vec<Source> {
    match condition {
        Condition::All(parts) | Condition::Any(parts) => {
            parts.iter().flat_map(|part| decided_by(part, source)).collect()
        }
        Condition::Equals(path, _) | Condition::In(path, _) if same_field(path, source) => vec![path.clone()],
        _ => Vec::new(),
    }
}

fn same_field(a: &Source, b: &Source) -> bool {
    let field = |source: &Source| match source {
        Source::Segment { segment, field, .. } => Some((segment.clone(), *field)),
        Source::Value { .. } => None,
    };
    field(a) == field(b)
}
