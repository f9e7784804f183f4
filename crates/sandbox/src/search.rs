//! Search (R4 §3.1.1): what a resource can be found by, what a query asks for, and the searchset.
//!
//! Lives here: token and reference parameters. Does not: the other types of parameter; they are refused, not ignored,
//! since ignoring a criterion finds too much.

use fhir::Json;
use smol_str::SmolStr;

use crate::outcome::Refusal;
use crate::resources::Key;

/// Parameters that find by an element's value, on every type.
const PARAMETERS: [&str; 7] = ["_id", "_tag", "identifier", "patient", "subject", "encounter", "target"];

/// Parameters about the answer.
const COUNT: &str = "_count";
const OFFSET: &str = "_offset";
const SUMMARY: &str = "_summary";
/// Parameters that change nothing here: order is always by id, totals are always exact, the format is always JSON.
const ACCEPTED: [&str; 4] = ["_format", "_pretty", "_total", "_sort"];

/// Resources in one page of a searchset, where `_count` does not ask for fewer.
const PAGE_MAX: usize = 100;

/// Something a resource is found by. `system` is `None` where the query names none; `Some("")` says there is none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term {
    resource_type: SmolStr,
    parameter: &'static str,
    system: Option<SmolStr>,
    /// `None` is any value within the system.
    value: Option<SmolStr>,
}

/// One parameter of a query: any of the values will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Criterion {
    parameter: &'static str,
    alternatives: Vec<(Option<SmolStr>, Option<SmolStr>)>,
}

impl Criterion {
    /// The terms of which a resource must have one.
    pub(crate) fn terms(&self, resource_type: &str) -> impl Iterator<Item = Term> {
        self.alternatives.iter().map(move |(system, value)| Term {
            resource_type: resource_type.into(),
            parameter: self.parameter,
            system: system.clone(),
            value: value.clone(),
        })
    }
}

/// A query, read.
#[derive(Debug, Default)]
pub(crate) struct Query {
    pub(crate) criteria: Vec<Criterion>,
    pub(crate) page: usize,
    pub(crate) offset: usize,
    /// `_summary=count`: the number and nothing else.
    pub(crate) only_count: bool,
}

impl Query {
    /// Reads the parameters of a search or of a conditional interaction.
    pub(crate) fn read(parameters: &[(String, String)], base_url: &str) -> Result<Self, Refusal> {
        let mut query = Self { page: PAGE_MAX, ..Self::default() };
        for (name, value) in parameters {
            let number = || value.parse::<usize>().map_err(|_| Refusal::invalid(format!("{name} is not a number")));
            match name.as_str() {
                COUNT => query.page = number()?.min(PAGE_MAX),
                OFFSET => query.offset = number()?,
                SUMMARY if value == "count" => query.only_count = true,
                SUMMARY if value == "false" => {}
                accepted if ACCEPTED.contains(&accepted) => {}
                _ => query.criteria.push(criterion(name, value, base_url)?),
            }
        }
        // `_count=0` is the same as `_summary=count` (R4 §3.1.1.5.2).
        query.only_count |= query.page == 0;
        Ok(query)
    }
}

fn criterion(name: &str, value: &str, base_url: &str) -> Result<Criterion, Refusal> {
    let Some(parameter) = PARAMETERS.into_iter().find(|known| *known == name) else {
        return Err(Refusal::not_supported("a search parameter or modifier is not supported"));
    };
    let mut alternatives = Vec::new();
    for value in split(value, ',') {
        alternatives.push(match parameter {
            "_id" => (None, Some(unescape(&value))),
            "identifier" | "_tag" => token(&value),
            "patient" => (None, Some(reference(&unescape(&value), base_url, Some("Patient")))),
            _ => (None, Some(reference(&unescape(&value), base_url, None))),
        });
    }
    if alternatives.iter().any(|(system, value)| system.is_none() && value.as_ref().is_none_or(SmolStr::is_empty)) {
        return Err(Refusal::invalid(format!("{parameter} has no value")));
    }
    Ok(Criterion { parameter, alternatives })
}

/// `system|value`, `|value`, `system|`, `value` (R4 §3.1.1.4.10).
fn token(text: &str) -> (Option<SmolStr>, Option<SmolStr>) {
    let parts = split(text, '|');
    match parts.as_slice() {
        [value] => (None, Some(unescape(value))),
        [system, value] if value.is_empty() && !system.is_empty() => (Some(unescape(system)), None),
        [system, value @ ..] => (Some(unescape(system)), Some(unescape(&value.join("|")))),
        [] => (None, None),
    }
}

fn reference(text: &str, base_url: &str, default_type: Option<&str>) -> SmolStr {
    let local = text.strip_prefix(base_url).map_or(text, |rest| rest.trim_start_matches('/'));
    match default_type {
        Some(default_type) if !local.contains('/') => SmolStr::new(format!("{default_type}/{local}")),
        _ => local.into(),
    }
}

/// Splits at a separator that no `\` precedes (R4 §3.1.1.3.1); escapes stay.
fn split(text: &str, separator: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == separator && !escaped {
            parts.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts
}

fn unescape(text: &str) -> SmolStr {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            _ => out.push(c),
        }
    }
    out.into()
}

/// Everything a resource is found by.
pub(crate) fn terms(key: &Key, content: &Json) -> Vec<Term> {
    let mut terms = Vec::new();
    let mut add = |parameter, system: Option<&str>, value: Option<&str>| {
        terms.push(Term {
            resource_type: key.resource_type.clone(),
            parameter,
            system: system.map(SmolStr::from),
            value: value.map(SmolStr::from),
        });
    };
    add("_id", None, Some(&key.id));
    let tags = content.get("meta").and_then(|meta| meta.get("tag")).map_or(&[][..], Json::items);
    let coded = tags.iter().map(|tag| ("_tag", tag, "code"));
    let identifiers = content.get("identifier").into_iter().flat_map(one_or_many);
    for (parameter, token, value) in coded.chain(identifiers.map(|token| ("identifier", token, "value"))) {
        let system = token.get("system").and_then(Json::as_str).unwrap_or_default();
        let value = token.get(value).and_then(Json::as_str);
        add(parameter, Some(system), value);
        add(parameter, Some(system), None);
        add(parameter, None, value);
    }
    let elements = [
        ("subject", "subject"),
        ("subject", "patient"),
        ("patient", "patient"),
        ("encounter", "encounter"),
        ("target", "target"),
    ];
    for (element, parameter) in elements {
        for reference in content.get(element).into_iter().flat_map(one_or_many) {
            let Some(target) = reference.get("reference").and_then(Json::as_str) else { continue };
            if parameter != "patient" || target.starts_with("Patient/") {
                add(parameter, None, Some(target));
            }
            if let (true, Some((_, id))) = (parameter != "patient", target.rsplit_once('/')) {
                add(parameter, None, Some(id));
            }
        }
    }
    terms
}

/// The items of an array, or the value itself.
fn one_or_many(value: &Json) -> &[Json] {
    match value {
        Json::Array(items) => items,
        single => std::slice::from_ref(single),
    }
}

/// A page of a searchset (R4 §3.1.1.5).
pub(crate) fn searchset(total: usize, page: Vec<(String, Json)>, links: Vec<(&str, String)>) -> Json {
    let links = links
        .into_iter()
        .map(|(relation, url)| Json::object([("relation", Json::from(relation)), ("url", Json::string(url))]));
    let entries: Vec<Json> = page
        .into_iter()
        .map(|(full_url, resource)| {
            Json::object([
                ("fullUrl", Json::string(full_url)),
                ("resource", resource),
                ("search", Json::object([("mode", Json::from("match"))])),
            ])
        })
        .collect();
    let mut bundle = vec![
        ("resourceType", Json::from("Bundle")),
        ("type", Json::from("searchset")),
        ("total", Json::Number(total.to_string().into())),
        ("link", Json::Array(links.collect())),
    ];
    if !entries.is_empty() {
        bundle.push(("entry", Json::Array(entries)));
    }
    Json::object(bundle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_in_their_four_forms() {
        let part = |text: &str| Some(SmolStr::from(text));
        assert_eq!(token("v"), (None, part("v")));
        assert_eq!(token("s|v"), (part("s"), part("v")));
        assert_eq!(token("|v"), (part(""), part("v")));
        assert_eq!(token("s|"), (part("s"), None));
        assert_eq!(token(r"s|a\|b\,c\\"), (part("s"), part(r"a|b,c\")));
    }

    #[test]
    fn values_are_split_at_commas_that_are_not_escaped() {
        let criterion = criterion("identifier", r"s|a\,b,s|c", "").unwrap();
        assert_eq!(criterion.alternatives.len(), 2);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (name, value) in [("name", "x"), ("identifier:not", "x"), ("identifier", ""), ("_count", "x")] {
            let parameters = [(name.to_owned(), value.to_owned())];
            assert_eq!(Query::read(&parameters, "").unwrap_err().status, 400, "{name}");
        }
    }
}
