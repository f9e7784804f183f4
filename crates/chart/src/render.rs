//! From registers to a resource: what was said last, put together as R4 wants it.
//!
//! Lives here: the steps and what they report. Does not: which registers count (`render/winners`), building the JSON
//! (`render/place`). Contract: deterministic; nothing is added that no message said except `resourceType`, and what is left
//! out because R4 forbids it is reported.

mod place;
mod winners;

#[cfg(test)]
mod tests;

use fhir::date_time::DateTime;
use fhir::{CheckCode, CheckIssue, Json, Object, ResourceKey};
use smol_str::SmolStr;

use crate::fold::{Chart, ResourceState};

/// The end of a period came before its start and was left out (R4 per-1).
pub const PERIOD_REVERSED: &str = "PERIOD_REVERSED";

/// Something that could not be rendered as it was said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RenderIssue {
    /// The stable code.
    pub code: &'static str,
    /// The element: `Encounter.period.end`.
    pub path: String,
}

/// A resource as the messages so far add up to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The resource. References to resources of the chart hold [`ResourceKey::full_url`].
    pub json: Json,
    /// Elements that R4 requires and no message has said yet: `Encounter.status`.
    pub missing: Vec<String>,
    /// What else about it breaks R4; references to other resources are not followed.
    pub faults: Vec<CheckIssue>,
    /// What was left out.
    pub issues: Vec<RenderIssue>,
}

impl Chart {
    /// The resource as R4 JSON; `None` for one that no event spoke of.
    pub fn render(&self, resource: &ResourceKey) -> Option<Rendered> {
        self.get(resource).map(|state| state.render(&resource.resource_type))
    }
}

impl Chart {
    /// Every resource rendered, in the order of keys.
    pub fn into_rendered(self) -> impl Iterator<Item = (ResourceKey, Rendered)> {
        self.into_resources().map(|(key, state)| {
            let rendered = state.into_rendered(&key.resource_type);
            (key, rendered)
        })
    }
}

impl ResourceState {
    /// The state as a resource of a type.
    pub fn render(&self, resource_type: &str) -> Rendered {
        self.clone().into_rendered(resource_type)
    }

    fn into_rendered(self, resource_type: &str) -> Rendered {
        let left_out = winners::left_out(resource_type, &self.registers);
        let counting = self.registers.into_iter().filter(|(path, _)| !left_out.contains(path));
        let mut members = place::build(counting.filter_map(|(path, entry)| Some((path, entry.value?))));
        members.insert(SmolStr::new_static("resourceType"), Json::string(resource_type));
        let mut issues = Vec::new();
        for path in order_periods(&mut members) {
            issues.push(RenderIssue { code: PERIOD_REVERSED, path: [resource_type, &path, ".end"].concat() });
        }
        let json = Json::Object(members);
        let (missing, faults) = fhir::check(&json).into_iter().partition::<Vec<_>, _>(is_missing);
        Rendered { json, missing: missing.into_iter().map(|i| i.path).collect(), faults, issues }
    }
}

/// Does the check say that something required is not there?
fn is_missing(issue: &CheckIssue) -> bool {
    issue.code == CheckCode::Cardinality && issue.message.ends_with("required")
}

/// Drops the end of each Period that ends before it starts, at any depth; gives their paths (`.period`, `.name[0].period`).
fn order_periods(members: &mut Object) -> Vec<String> {
    let mut found = Vec::new();
    if is_reversed_period(members) {
        members.remove("end");
        members.remove("_end");
        found.push(String::new());
    }
    for (name, value) in members {
        match value {
            Json::Object(inner) => {
                found.extend(order_periods(inner).into_iter().map(|below| format!(".{name}{below}")));
            }
            Json::Array(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    if let Json::Object(inner) = item {
                        let below = order_periods(inner).into_iter();
                        found.extend(below.map(|below| format!(".{name}[{i}]{below}")));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// Of R4's types only Period has `start` and `end` and nothing besides but what every element has.
fn is_reversed_period(members: &Object) -> bool {
    const NAMES: [&str; 6] = ["start", "_start", "end", "_end", "id", "extension"];
    let at = |name| DateTime::parse(members.get(name).and_then(Json::as_str)?).ok();
    let (Some(start), Some(end)) = (at("start"), at("end")) else { return false };
    start.is_after(&end) && members.keys().all(|name| NAMES.contains(&name.as_str()))
}
