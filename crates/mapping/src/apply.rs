//! What a rule's action makes of a valued element: constants, primitives, datatype maps, codes, resources.
//! Not here: where the result goes (`execute`).

use fhir::Json;
use smol_str::SmolStr;

use crate::code_map::Translation;
use crate::convert::{self, Converted};
use crate::execute::{Frame, Mapper};
use crate::instance::Instance;
use crate::issue::IssueCode;
use crate::ledger::{Application, Outcome, Trail};
use crate::mapped::MapError;
use crate::node::{Member, Node, Step};
use crate::plan::{Action, CodeShape, CodeUse, Rule, Unmapped};
use crate::primitive::Primitive;
use crate::source::NUMBER_MAX;
use crate::system::{self, Authority, Telephone};
use crate::value::{At, Value};

impl<'p, 't> Mapper<'p, '_, 't> {
    /// The node a rule makes of a value; `None` where it wrote for itself.
    pub(crate) fn apply(&mut self, rule: &'p Rule, value: Value<'t>, frame: &Frame<'t>) -> Option<Node> {
        match &rule.action {
            Action::Constant(json) => {
                for source in &rule.reads {
                    if let Some(read) = self.locate(source, frame) {
                        self.mark(read.leaf().at, rule, frame, Outcome::Mapped);
                    }
                }
                Some(Node::Constant(json.clone()))
            }
            Action::Primitive { kind, code: None } => Some(self.primitive(*kind, rule, value, frame)),
            Action::Primitive { kind, code: Some(code) } => {
                Some(self.coded(rule, *code, value, frame, |mapper| mapper.primitive(*kind, rule, value, frame)))
            }
            Action::Datatype { map, code: None } => Some(self.datatype(*map, rule, value, frame)),
            Action::Datatype { map, code: Some(code) } => {
                Some(self.coded(rule, *code, value, frame, |mapper| mapper.datatype(*map, rule, value, frame)))
            }
            Action::Resource { map } => Some(self.resource(*map, rule, value, frame)),
            Action::Merge { map } => {
                let (rules, inner) = self.applied(*map, rule, value, frame);
                self.resource_rules(rules, inner);
                self.parts.truncate(inner.parts.0);
                None
            }
        }
    }

    /// The rules of a datatype map and the frame they run in; the ledger is told of it.
    fn applied(&mut self, map: usize, rule: &Rule, value: Value<'t>, frame: &Frame<'t>) -> (&'p [Rule], Frame<'t>) {
        let via = u32::try_from(self.applications.len()).ok();
        self.applications.push(Application { at: value.at, map, trail: Trail { rule: rule.id, via: frame.via } });
        let rules = self.plan.value_maps.get(map).map_or(&[][..], |map| &map.rules);
        let start = self.parts.len();
        // No rule names a part beyond.
        self.parts.extend(value.element.components().take(usize::from(NUMBER_MAX)));
        let width = u16::try_from(self.parts.len().saturating_sub(start)).unwrap_or(NUMBER_MAX);
        (
            rules,
            Frame { value: Some(value), parts: (start, width), depth: frame.depth.saturating_add(1), via, ..*frame },
        )
    }

    fn datatype(&mut self, map: usize, rule: &Rule, value: Value<'t>, frame: &Frame<'t>) -> Node {
        let (rules, inner) = self.applied(map, rule, value, frame);
        let node = self.value_rules(rules, inner);
        self.parts.truncate(inner.parts.0);
        node
    }

    /// A resource of its own, and a reference to it.
    fn resource(&mut self, map: usize, rule: &Rule, value: Value<'t>, frame: &Frame<'t>) -> Node {
        let Some(target) = self.plan.value_maps.get(map).map(|map| map.target.clone()) else { return Node::Empty };
        let (rules, inner) = self.applied(map, rule, value, frame);
        let index = self.instances.len();
        self.instances.push(Instance::new(target, frame.segment, Some(frame.instance)));
        let item = (frame.segment, 1);
        self.resource_rules(rules, Frame { instance: index, item, ..inner });
        self.parts.truncate(inner.parts.0);
        match self.instances.get(index) {
            Some(instance) if !instance.is_empty() => Node::Reference(index),
            _ => Node::Empty,
        }
    }

    fn primitive(&mut self, kind: Primitive, rule: &Rule, value: Value<'t>, frame: &Frame<'t>) -> Node {
        match kind {
            Primitive::Authority => self.authority(value, [1, 2, 3], rule, frame),
            Primitive::EntityAuthority => self.authority(value, [2, 3, 4], rule, frame),
            Primitive::IdentifierSystem => self.identifier_system(value, rule, frame),
            Primitive::CodingSystem => self.coding_system(value, rule, frame),
            Primitive::Telephone => self.telephone(value, rule, frame),
            Primitive::Full => self.converted(
                convert::convert(kind, &value.text(), &self.context.sender.time_zone),
                value,
                rule,
                frame,
            ),
            _ => {
                // Text is taken whole, with separators that were not escaped (M14); all else is its first part.
                let read = if kind.is_text() { value } else { value.leaf() };
                let converted = convert::convert(kind, &read.text(), &self.context.sender.time_zone);
                self.converted(converted, read, rule, frame)
            }
        }
    }

    /// Marks and raises what a conversion came to.
    fn converted(&mut self, converted: Converted, value: Value<'t>, rule: &Rule, frame: &Frame<'t>) -> Node {
        if let Some(code) = converted.issue {
            self.raise(code, value.at, Some(frame.trail(rule)));
        }
        match (converted.json, converted.issue) {
            (Some(json), _) => {
                self.mark(value.at, rule, frame, Outcome::Mapped);
                Node::Content(json)
            }
            (None, Some(code)) => {
                self.mark(value.at, rule, frame, Outcome::Failed(code));
                Node::Empty
            }
            (None, None) => Node::Empty,
        }
    }

    fn authority(&mut self, value: Value<'t>, parts: [u16; 3], rule: &Rule, frame: &Frame<'t>) -> Node {
        let [namespace, universal, universal_type] = parts.map(|n| value.part(n).and_then(valued_text));
        let authority = Authority { namespace, universal, universal_type };
        let Some(system) = authority.system(self.context.sender) else { return Node::Empty };
        for part in parts.into_iter().filter_map(|n| value.part(n)) {
            self.mark(part.at, rule, frame, Outcome::Mapped);
        }
        Node::Content(Json::String(system))
    }

    /// CX.4, else what the sender's configuration says of numbers without one; only for numbers of the type's own kinds.
    fn identifier_system(&mut self, value: Value<'t>, rule: &Rule, frame: &Frame<'t>) -> Node {
        if let Some(authority) = value.part(4)
            && let node @ Node::Content(_) = self.authority(authority, [1, 2, 3], rule, frame)
        {
            return node;
        }
        if !value.part(1).is_some_and(Value::is_valued) {
            return Node::Empty;
        }
        let resource = self.instances.get(frame.instance).map_or("", |instance| instance.resource.as_str());
        let sender = self.context.sender;
        let configured = match resource {
            "Patient" => sender.patient_id_system.as_deref(),
            "Encounter" => sender.visit_id_system.as_deref(),
            _ => None,
        };
        let kind = value.part(5).and_then(Value::leaf_text);
        let types = self.plan.identities.get(resource).map_or(&[][..], |identity| &identity.types);
        let own_kind = kind.is_none_or(|kind| types.iter().any(|known| known.as_str() == kind.trim()));
        if let Some(system) = configured.filter(|_| own_kind) {
            return Node::Constant(Json::string(system));
        }
        self.raise(IssueCode::IdentifierWithoutAuthority, value.at, Some(frame.trail(rule)));
        Node::Empty
    }

    /// The system of a coding system's name or OID, or of a whole CWE (CWE.14, else CWE.3).
    fn coding_system(&mut self, value: Value<'t>, rule: &Rule, frame: &Frame<'t>) -> Node {
        let whole = rule.source == crate::source::Source::Value { parts: [0, 0] };
        let named = if whole {
            [14, 3].into_iter().filter_map(|n| value.part(n)).filter(|part| part.is_valued()).collect()
        } else {
            vec![value.leaf()]
        };
        for part in &named {
            let system = part.leaf_text().and_then(|name| system::coding_system(&name, &self.plan.systems));
            if let Some(system) = system {
                self.mark(part.at, rule, frame, Outcome::Mapped);
                return Node::Content(Json::String(system));
            }
        }
        if let Some(part) = named.first() {
            self.raise(IssueCode::CodingSystemUnknown, part.at, Some(frame.trail(rule)));
            self.mark(part.at, rule, frame, Outcome::Failed(IssueCode::CodingSystemUnknown));
        }
        Node::Empty
    }

    fn telephone(&mut self, value: Value<'t>, rule: &Rule, frame: &Frame<'t>) -> Node {
        let text = |n: u16| value.part(n).and_then(valued_text);
        // The address of an e-mail is XTN.4; rules map it.
        if matches!(text(3).as_deref(), Some("Internet" | "X.400")) {
            return Node::Empty;
        }
        let telephone = Telephone {
            free_text: text(1),
            country: text(5),
            area: text(6),
            local: text(7),
            extension: text(8),
            unformatted: text(12),
        };
        let Some((number, used)) = telephone.number() else { return Node::Empty };
        for part in used.iter().filter_map(|n| value.part(*n)) {
            self.mark(part.at, rule, frame, Outcome::Mapped);
        }
        Node::Content(Json::String(number))
    }

    /// A value with a code map: its first part is the code, its third the system, as CWE has them.
    fn coded(
        &mut self,
        rule: &'p Rule,
        code: CodeUse,
        value: Value<'t>,
        frame: &Frame<'t>,
        as_sent: impl FnOnce(&mut Self) -> Node,
    ) -> Node {
        let leaf = value.leaf();
        let Some(text) = leaf.leaf_text() else { return as_sent(self) };
        let sent = text.trim();
        let named = value.part(3).filter(|part| part.is_valued());
        let system = named.and_then(Value::leaf_text).and_then(|name| system::coding_system(&name, &self.plan.systems));
        let plan = self.plan;
        let Some(map) = plan.code_maps.get(code.map) else { return Node::Empty };
        let Some(found) = map.translate(sent, system.as_deref()) else {
            return self.unmapped(rule, code, leaf.at, frame, as_sent);
        };
        self.mark(leaf.at, rule, frame, Outcome::Mapped);
        if let Some(named) = named.filter(|_| system.is_some()) {
            self.mark(named.at, rule, frame, Outcome::Mapped);
        }
        match code.shape {
            CodeShape::Plain(kind) => {
                let converted = convert::convert(kind, &found.target.code, &self.context.sender.time_zone);
                converted.json.map_or(Node::Empty, Node::Content)
            }
            CodeShape::Coding => {
                let same = found.target.code == sent;
                let display = value.part(2).filter(|_| same).and_then(|part| Some((part, valued_text(part)?)));
                if let Some((part, _)) = &display {
                    self.mark(part.at, rule, frame, Outcome::Mapped);
                }
                coding(found, display.map(|(_, text)| text))
            }
            CodeShape::CodeableConcept => {
                let as_sent = as_sent(self);
                translated_concept(found, sent, as_sent)
            }
        }
    }

    fn unmapped(
        &mut self,
        rule: &Rule,
        code: CodeUse,
        at: At,
        frame: &Frame<'t>,
        as_sent: impl FnOnce(&mut Self) -> Node,
    ) -> Node {
        match code.unmapped {
            Unmapped::Keep => {
                self.raise(IssueCode::CodeUnmapped, at, Some(frame.trail(rule)));
                as_sent(self)
            }
            Unmapped::Omit => {
                self.raise(IssueCode::CodeUnmapped, at, Some(frame.trail(rule)));
                self.mark(at, rule, frame, Outcome::Failed(IssueCode::CodeUnmapped));
                Node::Empty
            }
            Unmapped::Park => {
                let map = self.plan.code_maps.get(code.map).map(|map| map.name.clone()).unwrap_or_default();
                let location = self.location(at);
                self.parked.get_or_insert(MapError::Parked { location, map });
                Node::Empty
            }
        }
    }
}

fn valued_text(value: Value<'_>) -> Option<SmolStr> {
    let text = value.leaf_text()?;
    let trimmed = text.trim();
    (!trimmed.is_empty()).then(|| SmolStr::new(trimmed))
}

fn step(name: &'static str) -> Step {
    Step { name: SmolStr::new_static(name), slot: 1, repeats: false }
}

fn coding(found: &Translation, display: Option<SmolStr>) -> Node {
    let target = &found.target;
    let display = display.or_else(|| target.display.clone());
    let parts = [("system", target.system.clone()), ("code", Some(target.code.clone())), ("display", display)];
    let members = parts
        .into_iter()
        .filter_map(|(name, text)| Some(Member { step: step(name), node: Node::Content(Json::String(text?)) }));
    Node::Object(members.collect())
}

/// The translated coding first. The sent one stays behind it where it differs; where it is the same code, the two are
/// one, with the display as sent.
fn translated_concept(found: &Translation, sent: &str, as_sent: Node) -> Node {
    let Node::Object(members) = as_sent else {
        let member = Member { step: Step { repeats: true, ..step("coding") }, node: coding(found, None) };
        return Node::Object(vec![member]);
    };
    let target = &found.target;
    let (mut first, mut others) = (coding(found, None), Vec::new());
    for mut member in members {
        if member.step.name == "coding" {
            let is_sent = member.node.at(&["code"]).and_then(Node::text).is_some_and(|code| code == sent);
            let system = member.node.at(&["system"]).and_then(Node::text).cloned();
            // Without a name of its own the code is of the map's table.
            let system = system.or_else(|| found.source.clone().filter(|_| is_sent));
            if is_sent && target.code == sent && system == target.system {
                let display = member.node.at(&["display"]).and_then(Node::text).cloned();
                first = coding(found, display);
                first.put(&[], member.node);
                continue;
            }
            if let Some(system) = system {
                member.node.put(&[step("system")], Node::Content(Json::String(system)));
            }
            member.step.slot = member.step.slot.saturating_add(1);
        }
        others.push(member);
    }
    others.insert(0, Member { step: Step { repeats: true, ..step("coding") }, node: first });
    Node::Object(others)
}
