//! Codes against the value sets of required bindings (R4 §4.1.5.1), and of extensible ones whose codes the table has.

use crate::element::{ElementTable, Property, ValueSet};
use crate::json::{Json, Object};

/// A `code` with a required binding: must be in the set.
pub(super) fn code_fault(table: &'static ElementTable, property: &'static Property, code: &str) -> Option<String> {
    let set = table.value_set(property.value_set?)?;
    let url = property.element.binding?;
    (!set.contains_code(code)).then(|| not_in(url))
}

/// A Coding. Required: must be in the set. Extensible: a system the set draws from is used with the set's codes only.
pub(super) fn coding_fault(
    table: &'static ElementTable,
    property: &'static Property,
    coding: &Object,
) -> Option<String> {
    let set = table.value_set(property.value_set?)?;
    match (property.element.binding, property.element.extensible) {
        (Some(url), _) => (!is_in(set, coding) && !coding.contains_key("extension")).then(|| not_in(url)),
        (None, Some(url)) => outside_its_system(set, coding).then(|| not_in(url)),
        (None, None) => None,
    }
}

/// A CodeableConcept. Required: one coding must be in the set; others may say the same in other systems.
pub(super) fn concept_fault(
    table: &'static ElementTable,
    property: &'static Property,
    concept: &Object,
) -> Option<String> {
    let set = table.value_set(property.value_set?)?;
    let mut codings = concept.get("coding").map_or(&[][..], Json::items).iter().filter_map(Json::as_object);
    match (property.element.binding, property.element.extensible) {
        (Some(url), _) => {
            let excused = !concept.contains_key("coding") && concept.contains_key("extension");
            (!codings.any(|coding| is_in(set, coding)) && !excused).then(|| not_in(url))
        }
        (None, Some(url)) => codings.any(|coding| outside_its_system(set, coding)).then(|| not_in(url)),
        (None, None) => None,
    }
}

fn pair(coding: &Object) -> Option<(&str, &str)> {
    Some((coding.get("system")?.as_str()?, coding.get("code")?.as_str()?))
}

fn is_in(set: &ValueSet, coding: &Object) -> bool {
    pair(coding).is_some_and(|(system, code)| set.contains(system, code))
}

fn outside_its_system(set: &ValueSet, coding: &Object) -> bool {
    pair(coding).is_some_and(|(system, code)| set.contains_system(system) && !set.contains(system, code))
}

fn not_in(url: &str) -> String {
    ["no code of ", url].concat()
}
