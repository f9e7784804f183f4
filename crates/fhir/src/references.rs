//! References between resources (R4 §2.3.0): what a reference text names, which ones a resource holds, and changing them.
//!
//! Not here: which type an element may refer to (`check`), the order of entries that references ask for (`bundle`).

use std::collections::BTreeSet;

use smol_str::SmolStr;

use crate::element::ElementTable;
use crate::json::Json;
use crate::primitive::{is_absolute_uri, is_id};

/// What a literal reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'r> {
    /// `#id`: a contained resource; empty for the containing resource itself.
    Contained(&'r str),
    /// `urn:uuid:…` or `urn:oid:…`: the entry of the same bundle with this fullUrl.
    Urn(&'r str),
    /// `Type/id`, perhaps after a server's address and with `/_history/version`.
    Resource {
        /// `https://example.org/fhir`; `None` for a relative reference.
        base: Option<&'r str>,
        /// Resource type.
        resource_type: &'r str,
        /// Logical id.
        id: &'r str,
    },
    /// `Type?query`: a conditional reference (R4 §3.1.0.11.2).
    Conditional {
        /// Resource type.
        resource_type: &'r str,
        /// Search criteria.
        query: &'r str,
    },
    /// An absolute address that doesn't have the form of a RESTful server.
    Address(&'r str),
}

impl<'r> Target<'r> {
    /// Reads `Reference.reference`; `None` where it's none of the forms the standard has.
    pub fn parse(text: &'r str) -> Option<Self> {
        if text.is_empty() || text.contains(char::is_whitespace) {
            return None;
        }
        if let Some(id) = text.strip_prefix('#') {
            return Some(Self::Contained(id));
        }
        if text.starts_with("urn:") {
            return Some(Self::Urn(text));
        }
        if let Some((resource_type, query)) = text.split_once('?')
            && !query.is_empty()
            && is_type(resource_type)
        {
            return Some(Self::Conditional { resource_type, query });
        }
        let unversioned = match text.split_once("/_history/") {
            Some((before, version)) if is_id(version) => before,
            Some(_) => return None,
            None => text,
        };
        Self::resource(unversioned).or_else(|| is_absolute_uri(text).then_some(Self::Address(text)))
    }

    fn resource(text: &'r str) -> Option<Self> {
        let (rest, id) = text.rsplit_once('/').filter(|(_, id)| is_id(id))?;
        let (base, resource_type) = match rest.rsplit_once('/') {
            Some((base, name)) => (Some(base).filter(|base| is_absolute_uri(base)), name),
            None => (None, rest),
        };
        let relative = rest == resource_type;
        ((relative || base.is_some()) && is_type(resource_type)).then_some(Self::Resource { base, resource_type, id })
    }

    /// The resource type that the text itself says.
    pub fn resource_type(&self) -> Option<&'r str> {
        match self {
            Self::Resource { resource_type, .. } | Self::Conditional { resource_type, .. } => Some(resource_type),
            Self::Contained(_) | Self::Urn(_) | Self::Address(_) => None,
        }
    }
}

fn is_type(name: &str) -> bool {
    ElementTable::r4().is_resource_type(name)
}

/// Every `reference` in the tree, contained ones (`#id`) too.
pub fn references(json: &Json) -> BTreeSet<SmolStr> {
    let mut found = BTreeSet::new();
    visit(json, &mut |text| {
        found.insert(text.clone());
    });
    found
}

/// Calls `f` with every `reference` in the tree, in the tree's order.
pub(crate) fn visit<'j>(json: &'j Json, f: &mut impl FnMut(&'j SmolStr)) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| visit(item, f)),
        Json::Object(members) => {
            for (name, value) in members {
                match value {
                    Json::String(text) if name == "reference" => f(text),
                    _ => visit(value, f),
                }
            }
        }
        _ => {}
    }
}

/// Replaces every `reference` for which `f` gives another text; the rest of the tree stays as it is.
pub fn map_references(json: &mut Json, mut f: impl FnMut(&str) -> Option<SmolStr>) {
    map(json, &mut f);
}

fn map(json: &mut Json, f: &mut impl FnMut(&str) -> Option<SmolStr>) {
    match json {
        Json::Array(items) => items.iter_mut().for_each(|item| map(item, f)),
        Json::Object(members) => {
            for (name, value) in members {
                match value {
                    Json::String(text) if name == "reference" => {
                        if let Some(new) = f(text) {
                            *text = new;
                        }
                    }
                    _ => map(value, f),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_forms_of_the_standard() {
        let relative = Target::Resource { base: None, resource_type: "Patient", id: "7" };
        assert_eq!(Target::parse("Patient/7"), Some(relative));
        assert_eq!(Target::parse("Patient/7/_history/2"), Some(relative));
        let absolute = Target::Resource { base: Some("https://x.org/fhir"), resource_type: "Patient", id: "7" };
        assert_eq!(Target::parse("https://x.org/fhir/Patient/7"), Some(absolute));
        assert_eq!(Target::parse("#o1"), Some(Target::Contained("o1")));
        assert_eq!(Target::parse("urn:uuid:x"), Some(Target::Urn("urn:uuid:x")));
        let conditional = Target::Conditional { resource_type: "Patient", query: "identifier=a%7Cb" };
        assert_eq!(Target::parse("Patient?identifier=a%7Cb"), Some(conditional));
        assert_eq!(Target::parse("https://x.org/a"), Some(Target::Address("https://x.org/a")));
        for bad in [
            "",
            "Patient",
            "Patient/",
            "Patent/7",
            "Patient/a_b",
            "a/Patient/7",
            "Patient?",
            "Patient/7/_history/",
            "x y",
        ] {
            assert_eq!(Target::parse(bad), None, "{bad}");
        }
        assert_eq!(conditional.resource_type(), Some("Patient"));
        assert_eq!(Target::Urn("urn:uuid:x").resource_type(), None);
    }

    #[test]
    fn changes_only_references() {
        let mut json = Json::parse(
            r##"{"a":[{"reference":"urn:uuid:1","display":"urn:uuid:1"},{"reference":"#c"}],"b":{"c":{"reference":"urn:uuid:2"}},"reference":{"reference":"Group/1"}}"##,
        )
        .unwrap();
        let all: Vec<_> = references(&json).into_iter().collect();
        assert_eq!(all, ["#c", "Group/1", "urn:uuid:1", "urn:uuid:2"]);
        map_references(&mut json, |text| (text == "urn:uuid:1").then(|| "Patient/9".into()));
        assert_eq!(
            json.to_string(),
            r##"{"a":[{"display":"urn:uuid:1","reference":"Patient/9"},{"reference":"#c"}],"b":{"c":{"reference":"urn:uuid:2"}},"reference":{"reference":"Group/1"}}"##
        );
    }
}
