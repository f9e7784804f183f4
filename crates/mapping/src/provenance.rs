//! The Provenance of a message (R4 §6.3): what it contributed to, when it was recorded, by which rules, from which
//! message.
//! Contract: nothing of it depends on when or how often the message arrived.

use std::collections::BTreeMap;

use fhir::Json;
use smol_str::SmolStr;

use crate::contribution::{Register, RegisterPath, Strength};
use crate::execute::Mapper;
use crate::instance::{Gathered, single};
use crate::time;
use crate::value::Value;

const PARTICIPANT: &str = "http://terminology.hl7.org/CodeSystem/provenance-participant-type";

/// Adds what the rules do not say. False where there is no time to record, which R4 requires.
pub(crate) fn complete(
    registers: &mut BTreeMap<RegisterPath, Register>,
    mapper: &Mapper<'_, '_, '_>,
    gathered: &Gathered,
) -> bool {
    let mut set = |path: &'static str, value: Json| {
        registers.insert(SmolStr::new_static(path), Register { strength: Strength::Asserts, value: Some(value) });
    };
    let targets = gathered.urls().map(|url| single("reference", Json::String(url.clone())));
    set("target[1]", Json::Array(targets.collect()));
    set("agent[sluice]", Json::Array(vec![mapper.plan.agent.clone()]));
    set("entity[sluice]", Json::Array(vec![source(mapper)]));
    if registers.get("recorded").is_some_and(|register| register.value.is_some()) {
        return true;
    }
    // MSH-7 is when the message was made, EVN-2 when the event was recorded.
    let Some(recorded) = instant(mapper, "MSH", 7).or_else(|| instant(mapper, "EVN", 2)) else { return false };
    registers.insert(SmolStr::new_static("recorded"), Register { strength: Strength::Fills, value: Some(recorded) });
    true
}

/// The rules as a Provenance's agent.
pub(crate) fn agent(version: &str, digest: &str) -> Json {
    let coding = Json::object([("system", Json::from(PARTICIPANT)), ("code", Json::from("assembler"))]);
    let display = SmolStr::from_iter(["Sluice mapping rules ", version, ", sha256:", digest]);
    Json::object([
        ("type", single("coding", Json::Array(vec![coding]))),
        ("who", single("display", Json::String(display))),
    ])
}

fn source(mapper: &Mapper<'_, '_, '_>) -> Json {
    let identifier = Json::object([
        ("system", Json::string(mapper.context.sender.own_system.as_str())),
        ("value", Json::string(mapper.context.message_id)),
    ]);
    Json::object([("role", Json::from("source")), ("what", single("identifier", identifier))])
}

fn instant(mapper: &Mapper<'_, '_, '_>, segment: &str, field: usize) -> Option<Json> {
    let element = mapper.segment(mapper.first(segment)?)?.field(field).repetitions().next()?;
    let at = crate::value::At { repetition: 1, ..crate::value::At::default() };
    let text = Value { element, at }.leaf_text()?;
    time::instant(text.trim(), &mapper.context.sender.time_zone).json
}
