//! A FHIR value while rules build it: slots still apart, constants still told from content.
//! Not here: registers and their items (`instance`).
//! Contract: the first value of a leaf stays; what was tried and came out empty takes its constants with it; an
//! extension without a value is dropped (R4 ext-1).

use std::collections::btree_map::Entry;

use fhir::{Json, Object};
use smol_str::SmolStr;

/// One step of a target path: element name and slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Step {
    /// Element name; with `_` in front for the extensions of a primitive (R4 §2.6.2.3).
    pub name: SmolStr,
    /// The guide's `[n]`, 1 where it has none.
    pub slot: u16,
    /// Whether the element repeats, so its JSON is an array.
    pub repeats: bool,
}

/// A value being built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// Something was tried here and gave nothing.
    Empty,
    /// A rule's constant.
    Constant(Json),
    /// From the message.
    Content(Json),
    /// A reference to another resource of the message, by its index.
    Reference(usize),
    /// A complex value.
    Object(Vec<Member>),
}

/// An element of a complex value, in one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub step: Step,
    pub node: Node,
}

/// What a node became.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Finished {
    pub json: Option<Json>,
    /// Whether anything in it came from the message.
    content: bool,
    /// Whether anything in it was tried in vain.
    tried: bool,
}

impl Node {
    /// Puts a node below this one. False where the place was taken and nothing of `node` was used.
    pub(crate) fn put(&mut self, steps: &[Step], node: Node) -> bool {
        let Some((step, rest)) = steps.split_first() else {
            return self.merge(node);
        };
        if matches!(self, Node::Empty) {
            *self = Node::Object(Vec::new());
        }
        let Node::Object(members) = self else { return false };
        if let Some(member) = members.iter_mut().find(|m| m.step.slot == step.slot && m.step.name == step.name) {
            return member.node.put(rest, node);
        }
        let mut built = Node::Empty;
        let used = built.put(rest, node);
        members.push(Member { step: step.clone(), node: built });
        used
    }

    fn merge(&mut self, node: Node) -> bool {
        match (&mut *self, node) {
            (_, Node::Empty) => true,
            (Node::Empty, node) => {
                *self = node;
                true
            }
            (Node::Object(_), Node::Object(members)) => {
                let mut used = false;
                for member in members {
                    used |= self.put(std::slice::from_ref(&member.step), member.node);
                }
                used
            }
            _ => false,
        }
    }

    /// The node at a path of element names, first slot each.
    pub(crate) fn at(&self, names: &[&str]) -> Option<&Node> {
        let Some((name, rest)) = names.split_first() else { return Some(self) };
        let Node::Object(members) = self else { return None };
        let member = members.iter().filter(|m| m.step.name == *name).min_by_key(|m| m.step.slot)?;
        member.node.at(rest)
    }

    /// The text of a leaf.
    pub(crate) fn text(&self) -> Option<&SmolStr> {
        match self {
            Node::Constant(Json::String(text)) | Node::Content(Json::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Builds the JSON; `resolve` gives the value of a reference.
    pub(crate) fn finish(self, resolve: &impl Fn(usize) -> Option<Json>) -> Finished {
        match self {
            Node::Empty => Finished { tried: true, ..Finished::default() },
            Node::Constant(json) => Finished { json: Some(json), ..Finished::default() },
            Node::Content(json) => Finished { json: Some(json), content: true, tried: false },
            Node::Reference(index) => match resolve(index) {
                Some(json) => Finished { json: Some(json), content: true, tried: false },
                None => Finished { tried: true, ..Finished::default() },
            },
            Node::Object(members) => finish_object(members, resolve),
        }
    }
}

fn finish_object(mut members: Vec<Member>, resolve: &impl Fn(usize) -> Option<Json>) -> Finished {
    // Slot order within a name is the order of the array; between names the object sorts.
    members.sort_by_key(|member| member.step.slot);
    let aligned = members.iter().any(|member| member.step.repeats && member.step.name.starts_with('_'));
    let mut out = Object::new();
    let (mut content, mut tried) = (false, false);
    let mut slots: Vec<(Step, Json)> = Vec::new();
    for Member { step, node } in members {
        let finished = node.finish(resolve);
        content |= finished.content;
        tried |= finished.tried;
        let Some(json) = finished.json else { continue };
        if is_extension(&step.name) && !has_value(&json) {
            continue;
        }
        if !step.repeats {
            out.insert(step.name, json);
        } else if aligned {
            slots.push((step, json));
        } else {
            append(&mut out, step.name, json);
        }
    }
    if aligned {
        align(&mut slots);
        for (step, json) in slots {
            append(&mut out, step.name, json);
        }
    }
    let dropped = out.is_empty() || (tried && !content);
    Finished { json: (!dropped).then_some(Json::Object(out)), content, tried }
}

/// Adds an item to an array of an object.
fn append(out: &mut Object, name: SmolStr, json: Json) {
    match out.entry(name) {
        Entry::Vacant(free) => {
            free.insert(Json::Array(vec![json]));
        }
        Entry::Occupied(mut taken) => {
            if let Json::Array(items) = taken.get_mut() {
                items.push(json);
            }
        }
    }
}

/// Gives a repeating primitive and its extensions arrays of one length, `null` where one of them is missing
/// (R4 §2.6.2.3).
fn align(slots: &mut Vec<(Step, Json)>) {
    let mut missing = Vec::new();
    for (step, _) in slots.iter() {
        let Some(plain) = step.name.strip_prefix('_') else { continue };
        let extended: Vec<u16> = slots.iter().filter(|(s, _)| s.name == step.name).map(|(s, _)| s.slot).collect();
        let valued: Vec<u16> = slots.iter().filter(|(s, _)| s.name == plain).map(|(s, _)| s.slot).collect();
        let lacking = |name: &str, have: &[u16], want: &[u16]| -> Vec<Step> {
            let absent = want.iter().filter(|slot| !have.contains(slot));
            absent.map(|slot| Step { name: SmolStr::new(name), slot: *slot, repeats: true }).collect()
        };
        missing.extend(lacking(plain, &valued, &extended));
        missing.extend(lacking(&step.name, &extended, &valued));
    }
    missing.sort();
    missing.dedup();
    slots.extend(missing.into_iter().map(|step| (step, Json::Null)));
    slots.sort_by(|a, b| a.0.cmp(&b.0));
}

pub(crate) fn is_extension(name: &str) -> bool {
    name == "extension" || name == "modifierExtension"
}

/// Whether an extension says anything: a value or extensions of its own.
pub(crate) fn has_value(json: &Json) -> bool {
    json.as_object().is_some_and(|o| {
        o.keys().any(|name| name.starts_with("value") || name == "extension" || name.starts_with("_value"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(path: &str) -> Vec<Step> {
        path.split('.')
            .map(|part| {
                let repeats = part.contains('[');
                let (name, slot) = part.trim_end_matches(']').split_once('[').unwrap_or((part, "1"));
                Step { name: name.into(), slot: slot.parse().unwrap(), repeats }
            })
            .collect()
    }

    fn build(puts: &[(&str, Node)]) -> Option<String> {
        let mut node = Node::Empty;
        for (path, value) in puts {
            node.put(&steps(path), value.clone());
        }
        node.finish(&|index| (index == 7).then(|| Json::object([("reference", Json::from("urn:x"))])))
            .json
            .map(|j| j.to_string())
    }

    fn content(text: &str) -> Node {
        Node::Content(Json::from(text))
    }

    fn constant(text: &str) -> Node {
        Node::Constant(Json::from(text))
    }

    #[test]
    fn slots_make_arrays_in_order_and_first_wins() {
        let built = build(&[
            ("given[2]", content("B")),
            ("family", content("F")),
            ("given[1]", content("A")),
            ("family", content("G")),
        ]);
        assert_eq!(built.as_deref(), Some(r#"{"family":"F","given":["A","B"]}"#));
    }

    #[test]
    fn constants_go_with_what_was_tried_in_vain() {
        assert_eq!(build(&[("type.code", constant("VN")), ("value", Node::Empty)]), None);
        assert_eq!(
            build(&[("type.code", Node::Empty), ("type.system", constant("s")), ("value", content("1"))]).as_deref(),
            Some(r#"{"value":"1"}"#)
        );
        assert_eq!(build(&[("code", constant("active"))]).as_deref(), Some(r#"{"code":"active"}"#));
        assert_eq!(build(&[("type", constant("t")), ("who", Node::Reference(1))]), None);
        assert_eq!(build(&[("who", Node::Reference(7))]).as_deref(), Some(r#"{"who":{"reference":"urn:x"}}"#));
    }

    #[test]
    fn extensions_need_a_value_and_primitive_arrays_align() {
        assert_eq!(build(&[("extension[1].url", constant("u")), ("a", content("b"))]).as_deref(), Some(r#"{"a":"b"}"#));
        assert_eq!(
            build(&[
                ("given[1]", content("A")),
                ("given[2]", content("B")),
                ("_given[2].extension[1].url", constant("u")),
                ("_given[2].extension[1].valueCode", content("c")),
                ("_given[3].extension[1].valueCode", content("d")),
            ])
            .as_deref(),
            Some(
                r#"{"_given":[null,{"extension":[{"url":"u","valueCode":"c"}]},{"extension":[{"valueCode":"d"}]}],"given":["A","B",null]}"#
            )
        );
    }

    #[test]
    fn merging_keeps_slots() {
        let mut node = Node::Empty;
        let mut other = Node::Empty;
        other.put(&steps("line[2]"), content("2"));
        node.put(&steps("line[1]"), content("1"));
        assert!(node.put(&[], other.clone()));
        assert!(!node.put(&[], other));
        assert_eq!(node.finish(&|_| None).json.unwrap().to_string(), r#"{"line":["1","2"]}"#);
    }
}
