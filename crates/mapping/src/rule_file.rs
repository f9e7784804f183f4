//! What rule files say, as written: segment and datatype maps, messages, identity, systems, manifest.
//! Not here: whether it makes sense (`check`, `plan`).

use std::collections::BTreeMap;

use fhir::Json;
use smol_str::SmolStr;

use crate::code_map::bracketed;
use crate::fault::{Faults, Place};
use crate::reader::{Table, Value};

/// `[[rule]]` as written.
#[derive(Debug)]
pub(crate) struct RawRule {
    pub place: Place,
    pub rows: Vec<u32>,
    pub from: String,
    pub to: String,
    pub mapper: Option<String>,
    pub code: Option<String>,
    pub unmapped: Option<String>,
    pub when: Option<String>,
    pub value: Option<Json>,
    pub fills: bool,
    pub resource: Option<String>,
}

/// `[[ignore]]` as written.
#[derive(Debug)]
pub(crate) struct RawIgnore {
    pub place: Place,
    pub from: String,
    pub why: String,
}

/// A file of `segments/` or `datatypes/`.
#[derive(Debug)]
pub(crate) struct RawMap {
    pub place: Place,
    /// `PV1[Encounter]`.
    pub name: String,
    /// Further names of a datatype map.
    pub also: Vec<String>,
    /// R4 type the targets are relative to.
    pub target: String,
    pub rules: Vec<RawRule>,
    pub ignores: Vec<RawIgnore>,
}

/// `[[bind]]` as written.
#[derive(Debug)]
pub(crate) struct RawBind {
    pub place: Place,
    pub rows: Vec<u32>,
    pub path: String,
    pub map: String,
    pub resource: String,
    pub when: Option<String>,
    pub references: Vec<(String, String, Place)>,
}

/// A file of `messages/`.
#[derive(Debug)]
pub(crate) struct RawMessage {
    pub place: Place,
    pub structure: String,
    pub events: Vec<String>,
    pub segments: String,
    pub segments_place: Place,
    pub subject: String,
    pub binds: Vec<RawBind>,
}

/// A section of `identity.toml` as written.
#[derive(Debug)]
pub(crate) struct RawIdentity {
    pub place: Place,
    pub resource: String,
    pub scope: String,
    pub identifier_types: Vec<String>,
    pub identifier_slots: Vec<String>,
    pub content: Vec<String>,
    pub content_only: bool,
    pub required: bool,
}

/// `manifest.toml` as written.
#[derive(Debug, Default)]
pub(crate) struct RawManifest {
    pub version: String,
}

/// `segments/PV1.Encounter.toml`, `datatypes/XPN.HumanName.toml`. `target_key` is `resource` or `target`.
pub(crate) fn map(mut table: Table, path: &str, target_key: &'static str, faults: &mut Faults) -> RawMap {
    let place = table.place;
    let name_place = table.place_of("map");
    let name = table.required_text("map", faults).unwrap_or_default();
    let stem = path.rsplit('/').next().unwrap_or_default().trim_end_matches(".toml");
    if !name.is_empty() && bracketed(stem) != name {
        faults.add(
            name_place,
            format!("map `{name}` belongs in a file named {}.toml", name.replace('[', ".").replace(']', "")),
        );
    }
    let also = if target_key == "target" { table.texts("also", faults) } else { Vec::new() };
    let target = table.required_text(target_key, faults).unwrap_or_default();
    table.text("note", faults);
    let rules = table.tables("rule", faults).into_iter().filter_map(|t| rule(t, faults)).collect();
    let ignores = table.tables("ignore", faults).into_iter().filter_map(|t| ignore(t, faults)).collect();
    table.finish(faults);
    RawMap { place, name, also, target, rules, ignores }
}

fn rule(mut table: Table, faults: &mut Faults) -> Option<RawRule> {
    let rows = table.rows("rows", faults);
    let from = table.required_text("from", faults);
    let to = table.required_text("to", faults);
    let mapper = table.text("as", faults);
    let code = table.text("code", faults);
    let unmapped = table.text("unmapped", faults);
    let when = table.text("when", faults);
    let value = constant(&mut table, faults);
    let fills = table.boolean("fills", faults);
    let resource = table.text("resource", faults);
    let note = table.text("note", faults);
    if rows.is_empty() && note.is_none() {
        faults.add(table.place, "a rule without guide rows says why in `note`");
    }
    let place = table.place;
    table.finish(faults);
    Some(RawRule { place, rows, from: from?, to: to?, mapper, code, unmapped, when, value, fills, resource })
}

fn constant(table: &mut Table, faults: &mut Faults) -> Option<Json> {
    let node = table.take("value")?;
    match node.value {
        Value::Text(text) if !text.trim().is_empty() && text.trim() == text => Some(Json::string(text)),
        Value::Boolean(flag) => Some(Json::Bool(flag)),
        Value::Integer(number) => Some(Json::Number(SmolStr::from(number.to_string()))),
        _ => {
            faults.add(node.place, "`value` is a string without spaces around it, a boolean or an integer");
            None
        }
    }
}

fn ignore(mut table: Table, faults: &mut Faults) -> Option<RawIgnore> {
    let place = table.place;
    table.rows("rows", faults);
    let from = table.required_text("from", faults);
    let why = table.required_text("why", faults);
    table.finish(faults);
    Some(RawIgnore { place, from: from?, why: why? })
}

/// `messages/ADT_A01.toml`.
pub(crate) fn message(mut table: Table, path: &str, faults: &mut Faults) -> Option<RawMessage> {
    let place = table.place;
    let structure = table.required_text("structure", faults);
    let stem = path.rsplit('/').next().unwrap_or_default().trim_end_matches(".toml");
    if let Some(name) = &structure
        && name != stem
    {
        faults.add(place, format!("structure `{name}` belongs in a file named {name}.toml"));
    }
    let events = table.texts("events", faults);
    if events.is_empty() {
        faults.add(place, "`events` is missing or empty");
    }
    let segments_place = table.place_of("segments");
    let segments = table.required_text("segments", faults);
    let subject = table.text("subject", faults).unwrap_or_else(|| "Patient[1]".to_owned());
    table.text("note", faults);
    let binds = table.tables("bind", faults).into_iter().filter_map(|t| bind(t, faults)).collect();
    table.finish(faults);
    Some(RawMessage { place, structure: structure?, events, segments: segments?, segments_place, subject, binds })
}

fn bind(mut table: Table, faults: &mut Faults) -> Option<RawBind> {
    let place = table.place;
    let rows = table.rows("rows", faults);
    let path = table.required_text("path", faults);
    let map = table.required_text("map", faults);
    let resource = table.required_text("resource", faults);
    let when = table.text("when", faults);
    let references = table.pairs("references", faults);
    table.text("note", faults);
    table.finish(faults);
    Some(RawBind { place, rows, path: path?, map: map?, resource: resource?, when, references })
}

/// `identity.toml`.
pub(crate) fn identity(mut table: Table, faults: &mut Faults) -> Vec<RawIdentity> {
    let mut sections = Vec::new();
    for (resource, mut section) in table.named_tables(faults) {
        let place = section.place;
        let scope = section.required_text("scope", faults).unwrap_or_default();
        let identifier_types = section.texts("identifier_types", faults);
        let identifier_slots = section.texts("identifier_slots", faults);
        let content = section.texts("content", faults);
        let content_only = section.boolean("content_only", faults);
        let required = section.boolean("required", faults);
        section.text("note", faults);
        section.finish(faults);
        sections.push(RawIdentity {
            place,
            resource,
            scope,
            identifier_types,
            identifier_slots,
            content,
            content_only,
            required,
        });
    }
    sections
}

/// `systems.toml`: names and OIDs of coding systems to URIs.
pub(crate) fn systems(mut table: Table, faults: &mut Faults) -> BTreeMap<SmolStr, SmolStr> {
    let mut systems = BTreeMap::new();
    for (name, uri, place) in table.pairs("systems", faults) {
        if !uri.contains(':') || uri.contains(char::is_whitespace) {
            faults.add(place, format!("`{uri}` is not an absolute URI"));
        }
        systems.insert(SmolStr::from(name), SmolStr::from(uri));
    }
    table.finish(faults);
    systems
}

/// `manifest.toml`.
pub(crate) fn manifest(mut table: Table, faults: &mut Faults) -> RawManifest {
    let version = table.required_text("version", faults).unwrap_or_default();
    let place = table.place_of("fhir");
    if table.required_text("fhir", faults).is_some_and(|fhir| fhir != "4.0.1") {
        faults.add(place, "rules are checked against FHIR 4.0.1 only");
    }
    table.texts("hl7", faults);
    table.text("note", faults);
    table.text("guide", faults);
    table.finish(faults);
    RawManifest { version }
}

/// `corrections.toml` and `deviations.toml`: where the rules differ from the guide, for readers; each says why.
pub(crate) fn remarks(mut table: Table, key: &'static str, faults: &mut Faults) {
    for mut remark in table.tables(key, faults) {
        remark.required_text("map", faults);
        remark.required_text("why", faults);
        remark.rows("rows", faults);
        for optional in ["was", "is", "note"] {
            remark.text(optional, faults);
        }
        // One row or several.
        remark.take("row");
        remark.finish(faults);
    }
    table.finish(faults);
}
