//! References of a resource: their form, that they lead somewhere, and to an allowed type.

use super::walk::Walk;
use super::{CheckCode, Place};
use crate::element::Property;
use crate::json::{Json, Object};
use crate::primitive::{is_urn_oid, is_urn_uuid};
use crate::references::{Target, visit};

/// Checks an object of type Reference.
pub(super) fn check<'r>(
    walk: &mut Walk<'r, '_, '_>,
    property: &'static Property,
    reference: &'r Object,
    at: &Place<'_>,
) {
    let said = reference.get("type").and_then(Json::as_str);
    let mut found = None;
    if let Some(text) = reference.get("reference").and_then(Json::as_str)
        && !text.is_empty()
    {
        let target = Target::parse(text);
        match lead(walk, target) {
            Ok(resource_type) => found = resource_type,
            Err(message) => return walk.issue(&at.member("reference"), CheckCode::Reference, message),
        }
    }
    if let (Some(said), Some(found)) = (said, found)
        && said != found
    {
        walk.issue(&at.member("type"), CheckCode::Reference, "another type than the reference leads to");
    }
    let targets = &property.element.targets;
    if let Some(resource_type) = found.or(said)
        && !targets.is_empty()
        && !targets.iter().any(|target| *target == resource_type || *target == "Resource")
    {
        let message = ["must lead to ", &targets.join(" or ")].concat();
        walk.issue(at, CheckCode::Reference, message);
    }
}

/// The resource type a reference leads to, where that can be said.
fn lead<'x, 'r: 'x, 't: 'x>(
    walk: &mut Walk<'r, '_, 't>,
    target: Option<Target<'r>>,
) -> Result<Option<&'x str>, &'static str> {
    match target {
        None => Err("must be Type/id, an absolute address, a urn or #id"),
        Some(Target::Contained("")) => Ok(None),
        Some(Target::Contained(id)) => {
            walk.used.push(id);
            let inner = walk.contained.iter().find(|inner| inner.get("id").and_then(Json::as_str) == Some(id));
            inner.map(Json::resource_type).ok_or("ref-1: no contained resource has this id")
        }
        Some(Target::Urn(urn)) if !is_urn_uuid(urn) && !is_urn_oid(urn) => Err("must be a urn:uuid or urn:oid"),
        Some(Target::Urn(urn)) => match walk.resolve {
            None => Ok(None),
            Some(resolve) => resolve(urn).map(Some).ok_or("no entry has this fullUrl"),
        },
        Some(other) => Ok(other.resource_type()),
    }
}

/// Does a contained resource refer to the one it's in (`#`), which is reason enough for it to be there (dom-3)?
pub(super) fn refers_to_container(contained: &Json) -> bool {
    let mut found = false;
    visit(contained, &mut |text| found |= text == "#");
    found
}
