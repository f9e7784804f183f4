//! Goes through a resource beside the table's shapes, once, without making text unless there's an issue.

use std::borrow::Cow;

use smol_str::SmolStr;

use super::{CheckCode, CheckIssue, Place, Resolve, reference, terminology};
use crate::element::{ElementTable, Kind, Property, Shape};
use crate::json::{Json, Object};
use crate::primitive::{Primitive, PrimitiveFault, is_absolute_uri};

/// More choices than any type of R4 has.
const CHOICES_MAX: usize = 8;

/// The check of one resource with what it contains.
pub(super) struct Walk<'r, 'w, 't> {
    pub table: &'static ElementTable,
    pub resolve: Option<Resolve<'w, 't>>,
    pub contained: &'r [Json],
    /// Ids of contained resources that something refers to.
    pub used: Vec<&'r str>,
    issues: &'w mut Vec<CheckIssue>,
}

impl<'r, 'w, 't> Walk<'r, 'w, 't> {
    pub(super) fn new(resource: &'r Json, resolve: Option<Resolve<'w, 't>>, issues: &'w mut Vec<CheckIssue>) -> Self {
        let contained = resource.get("contained").map_or(&[][..], Json::items);
        Self { table: ElementTable::r4(), resolve, contained, used: Vec::new(), issues }
    }

    pub(super) fn issue(&mut self, at: &Place<'_>, code: CheckCode, message: impl Into<Cow<'static, str>>) {
        self.issues.push(at.issue(code, message));
    }

    /// The resource the walk is about.
    pub(super) fn resource(mut self, resource: &'r Json, at: &Place<'_>) {
        self.resource_content(resource, at);
        for (index, inner) in self.contained.iter().enumerate() {
            let used = inner.get("id").and_then(Json::as_str).is_some_and(|id| self.used.contains(&id));
            if !used && !reference::refers_to_container(inner) {
                let at = at.member("contained");
                self.issue(&at.item(index), CheckCode::Invariant, "dom-3: a contained resource is referred to");
            }
        }
    }

    fn resource_content(&mut self, resource: &'r Json, at: &Place<'_>) {
        let Some(members) = resource.as_object() else {
            return self.issue(at, CheckCode::JsonType, "must be an object");
        };
        match resource.resource_type().map(|name| self.table.resource(name)) {
            Some(Some(shape)) => self.object(shape, members, at),
            Some(None) => self.issue(at, CheckCode::UnknownElement, "no resource type of R4"),
            None => self.issue(at, CheckCode::Cardinality, "resourceType is missing"),
        }
    }

    fn object(&mut self, shape: &'static Shape, members: &'r Object, at: &Place<'_>) {
        let content = members.keys().any(|name| name != "id" && name != "resourceType");
        if !content && (members.is_empty() || !shape.resource) {
            return self.issue(at, CheckCode::Empty, "ele-1: an element has a value or children");
        }
        let mut chosen: [Option<&'static SmolStr>; CHOICES_MAX] = [None; CHOICES_MAX];
        for (name, value) in members {
            if name == "resourceType" && shape.resource {
                continue;
            }
            let at = at.member(name);
            let property = match name.strip_prefix('_') {
                None => shape.property(name),
                Some(bare) => shape.property(bare).filter(|p| matches!(self.kind(p), Some(Kind::Primitive(_)))),
            };
            let Some(property) = property else {
                self.issue(&at, CheckCode::UnknownElement, "no element of R4 here");
                continue;
            };
            if let Some(slot) = property.choice.and_then(|choice| chosen.get_mut(choice)) {
                match slot {
                    Some(first) if **first != property.name => {
                        self.issue(&at, CheckCode::Cardinality, "only one type of a choice");
                    }
                    _ => *slot = Some(&property.name),
                }
            }
            if name.starts_with('_') {
                self.siblings(property, value, members.get(property.name.as_str()), &at);
            } else {
                self.property(property, value, members, &at);
            }
        }
        self.required(shape, members, at);
        for invariant in shape.invariants {
            if !(invariant.holds)(members) {
                self.issue(at, CheckCode::Invariant, invariant.text);
            }
        }
    }

    fn kind(&self, property: &Property) -> Option<Kind> {
        self.table.shape(property.shape).map(|shape| shape.kind)
    }

    fn required(&mut self, shape: &'static Shape, members: &'r Object, at: &Place<'_>) {
        for alternatives in &shape.required {
            let mut names = alternatives.iter().filter_map(|i| shape.properties.get(*i)).map(|p| &p.name);
            let there = names.clone().any(|name| members.contains_key(name))
                || names.clone().any(|name| members.keys().any(|key| key.strip_prefix('_') == Some(name)));
            if !there && let Some(name) = names.next() {
                let message = if alternatives.len() > 1 { "one type of the choice is required" } else { "is required" };
                self.issue(&at.member(name), CheckCode::Cardinality, message);
            }
        }
    }

    /// A member that isn't one of extensions only.
    fn property(&mut self, property: &'static Property, value: &'r Json, members: &'r Object, at: &Place<'_>) {
        match value {
            Json::Array(_) if !property.repeats => self.issue(at, CheckCode::JsonType, "must not be an array"),
            Json::Array(items) if items.is_empty() => self.issue(at, CheckCode::Empty, "an array is never empty"),
            Json::Array(items) => {
                let max = property.element.max.map(|max| usize::try_from(max).unwrap_or(usize::MAX));
                if max.is_some_and(|max| items.len() > max) {
                    self.issue(at, CheckCode::Cardinality, "too many");
                }
                let mut siblings: Option<&'r [Json]> = None;
                for (index, item) in items.iter().enumerate() {
                    let at = at.item(index);
                    if matches!(item, Json::Null) {
                        let all = siblings.get_or_insert_with(|| sibling_items(property, members));
                        if !all.get(index).is_some_and(|sibling| matches!(sibling, Json::Object(_))) {
                            self.issue(&at, CheckCode::Null, "null without an extension in its place");
                        }
                    } else {
                        self.value(property, item, &at);
                    }
                }
            }
            Json::Null => self.issue(at, CheckCode::Null, "a property is never null"),
            _ if property.repeats => self.issue(at, CheckCode::JsonType, "must be an array"),
            _ => self.value(property, value, at),
        }
    }

    /// A member `_name`: ids and extensions of the primitive `name` (R4 §2.6.2.3).
    fn siblings(&mut self, property: &'static Property, value: &'r Json, primitive: Option<&'r Json>, at: &Place<'_>) {
        let Some(shape) = self.table.shape(property.shape) else { return };
        match value {
            Json::Object(members) if !property.repeats => self.object(shape, members, at),
            Json::Array(items) if property.repeats => {
                if items.is_empty() {
                    self.issue(at, CheckCode::Empty, "an array is never empty");
                }
                let beside = primitive.map(Json::items);
                if beside.is_some_and(|values| values.len() != items.len()) {
                    self.issue(at, CheckCode::JsonType, "must have as many items as the array beside it");
                }
                for (index, item) in items.iter().enumerate() {
                    let at = at.item(index);
                    let valued = beside.and_then(|v| v.get(index)).is_some_and(|v| !matches!(v, Json::Null));
                    match item {
                        Json::Object(members) => self.object(shape, members, &at),
                        Json::Null if valued => {}
                        Json::Null => self.issue(&at, CheckCode::Null, "null without a value in its place"),
                        _ => self.issue(&at, CheckCode::JsonType, "must be an object"),
                    }
                }
            }
            _ if property.repeats => self.issue(at, CheckCode::JsonType, "must be an array"),
            _ => self.issue(at, CheckCode::JsonType, "must be an object"),
        }
    }

    /// One value, not an array.
    fn value(&mut self, property: &'static Property, value: &'r Json, at: &Place<'_>) {
        let Some(shape) = self.table.shape(property.shape) else { return };
        match shape.kind {
            Kind::Primitive(primitive) => self.primitive(property, primitive, value, at),
            Kind::AnyResource if property.name == "contained" => self.contained_resource(value, at),
            Kind::AnyResource => super::resource_at(value, at, self.resolve, self.issues),
            Kind::Complex => match value.as_object() {
                Some(members) => {
                    self.object(shape, members, at);
                    self.complex(property, shape, members, at);
                }
                None => self.issue(at, CheckCode::JsonType, "must be an object"),
            },
        }
    }

    fn contained_resource(&mut self, value: &'r Json, at: &Place<'_>) {
        self.resource_content(value, at);
        let mut rule = |broken: bool, message: &'static str| {
            if broken {
                self.issues.push(at.issue(CheckCode::Invariant, message));
            }
        };
        rule(value.get("contained").is_some(), "dom-2: a contained resource contains none");
        rule(value.get("id").is_none(), "a contained resource has an id");
        let meta = |name| value.get("meta").is_some_and(|meta| meta.get(name).is_some());
        rule(meta("versionId") || meta("lastUpdated"), "dom-4: a contained resource has no versionId or lastUpdated");
        rule(meta("security"), "dom-5: a contained resource has no security label");
    }

    fn primitive(&mut self, property: &'static Property, primitive: Primitive, value: &'r Json, at: &Place<'_>) {
        match primitive.check(value) {
            Ok(()) => {}
            Err(PrimitiveFault::JsonType(expected)) => {
                return self.issue(at, CheckCode::JsonType, ["must be a JSON ", expected].concat());
            }
            Err(PrimitiveFault::Form(rule)) => {
                let code = if value.as_str() == Some("") { CheckCode::Empty } else { CheckCode::Format };
                return self.issue(at, code, rule);
            }
        }
        let Some(text) = value.as_str() else { return };
        match primitive {
            Primitive::Code => {
                if let Some(message) = terminology::code_fault(self.table, property, text) {
                    self.issue(at, CheckCode::Code, message);
                }
            }
            Primitive::Uri | Primitive::Url | Primitive::Canonical => {
                if let Some(id) = text.strip_prefix('#') {
                    self.used.push(id);
                } else if property.name == "system" && !is_absolute_uri(text) {
                    self.issue(at, CheckCode::Format, "a system is an absolute URI");
                }
            }
            _ => {}
        }
    }

    /// What the table can't say of some datatypes.
    fn complex(&mut self, property: &'static Property, shape: &'static Shape, members: &'r Object, at: &Place<'_>) {
        match shape.root.path.as_str() {
            "Reference" => reference::check(self, property, members, at),
            "Coding" if property.value_set.is_some() => {
                if let Some(message) = terminology::coding_fault(self.table, property, members) {
                    self.issue(at, CheckCode::Code, message);
                }
            }
            "CodeableConcept" if property.value_set.is_some() => {
                if let Some(message) = terminology::concept_fault(self.table, property, members) {
                    self.issue(at, CheckCode::Code, message);
                }
            }
            "Extension" if property.element.path != "Extension.extension" => {
                let url = members.get("url").and_then(Json::as_str);
                if url.is_some_and(|url| !url.is_empty() && !is_absolute_uri(url)) {
                    self.issue(at, CheckCode::Format, "the url of an extension is absolute, except inside another");
                }
            }
            _ => {}
        }
    }
}

fn sibling_items<'r>(property: &Property, members: &'r Object) -> &'r [Json] {
    members.get(["_", property.name.as_str()].concat().as_str()).map_or(&[], Json::items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_type_has_more_choices_than_are_tracked() {
        for name in ElementTable::r4().resource_types().chain(["ElementDefinition", "Extension"]) {
            let shape = ElementTable::r4().type_id(name).and_then(|id| ElementTable::r4().shape(id)).unwrap();
            assert!(shape.choices.len() <= CHOICES_MAX, "{name}");
        }
    }
}
