//! From resources being built to contributions: identities, references, our own identifiers, Provenance, issues.
//! Not here: rules.
//! Contract: a resource without identity is not written, and what was mapped into it is in the ledger as kept; a
//! resource that lacks required elements is contributed all the same, since other messages may have them: what is
//! rendered from all of them is checked before it is written.

use std::collections::BTreeMap;

use fhir::{Json, ResourceKey};
use smol_str::SmolStr;

use crate::contribution::{Register, RegisterPath, Scope};
use crate::execute::{Mapper, Raised};
use crate::identity::{Account, Identified, Identifier, covers, is_per_message};
use crate::instance::{Gathered, Instance, single};
use crate::issue::{Issue, IssueCode};
use crate::ledger::{Ledger, Mark, Outcome};
use crate::mapped::{MapError, Mapped};
use crate::node::Node;
use crate::plan::Structure;
use crate::provenance;
use crate::sender::EncounterFallback;
use crate::system::Authority;
use crate::value::{At, Value};

/// A resource's place in the result.
struct Resolved {
    identified: Identified,
    url: SmolStr,
}

/// Finishes a mapping.
pub(crate) fn assemble(mut mapper: Mapper<'_, '_, '_>, index: usize) -> Result<Mapped, MapError> {
    let plan = mapper.plan;
    let Some(structure) = plan.structures.get(index) else {
        return Err(MapError::UnsupportedEvent { location: crate::structure::message_type() });
    };
    let empty: Vec<bool> = mapper.instances.iter().map(Instance::is_empty).collect();
    refer(&mut mapper);
    let identifier = Identifier::new(plan, mapper.context, account(&mapper));
    let (resolved, subject) = identify(&mapper, structure, &empty, &identifier)?;
    let instances = std::mem::take(&mut mapper.instances);
    let names: Vec<Option<SmolStr>> =
        instances.iter().zip(&resolved).map(|(i, r)| if r.is_none() { display(i, plan) } else { None }).collect();
    let resolve = |index: usize| reference(index, &resolved, &names);
    let mut gathered = Gathered::default();
    let mut provenance_registers = BTreeMap::new();
    for (number, (instance, found)) in instances.into_iter().zip(&resolved).enumerate() {
        let Some(found) = found else {
            if empty.get(number) == Some(&false) {
                mapper.raise(IssueCode::NoIdentity, At { segment: instance.segment, ..At::default() }, None);
            }
            continue;
        };
        let (resource, segment) = (instance.resource.clone(), instance.segment);
        let registers = instance.finish(&plan.registers, &resolve);
        if resource == "Provenance" {
            provenance_registers.extend(registers);
            continue;
        }
        let conflicts = add(&mut gathered, found, registers);
        for _ in conflicts {
            mapper.raise(IssueCode::ConflictingValues, At { segment, ..At::default() }, None);
        }
    }
    unidentified(&mut mapper, &resolved);
    attest(&mut mapper, &identifier, &mut gathered, provenance_registers);
    let issues = issues(&mut mapper);
    Ok(Mapped {
        structure: structure.name.clone(),
        subject,
        contributions: gathered.finish(),
        ledger: Ledger::new(index, mapper.marks, mapper.applications, mapper.placements, mapper.wrote),
        issues,
    })
}

/// Identities of all resources, patients first, since the others' may hang on them; and the subject's.
fn identify(
    mapper: &Mapper<'_, '_, '_>,
    structure: &Structure,
    empty: &[bool],
    identifier: &Identifier<'_>,
) -> Result<(Vec<Option<Resolved>>, ResourceKey), MapError> {
    let mut resolved: Vec<Option<Resolved>> = mapper.instances.iter().map(|_| None).collect();
    // Where the subject's group repeats (A40), the first of them names the message.
    let of_label = (structure.subject, 0)..=(structure.subject, u32::MAX);
    let subject = mapper.labelled.range(of_label).next().map(|(_, index)| *index);
    for (index, instance) in mapper.instances.iter().enumerate() {
        let required = mapper.plan.identities.get(&instance.resource).is_some_and(|identity| identity.required);
        if instance.resource != "Patient" && !required && subject != Some(index) {
            continue;
        }
        match identifier.identify(instance, None, &|_| None) {
            Some(found) => set(&mut resolved, index, found),
            None if required || subject == Some(index) => {
                let location = mapper.location(At { segment: instance.segment, ..At::default() });
                return Err(MapError::NoPatientIdentity { location, why: "no identifier with a system" });
            }
            None => {}
        }
    }
    let Some(key) = subject.and_then(|index| resolved.get(index)?.as_ref()).map(|found| found.identified.key.clone())
    else {
        return Err(MapError::NoPatientIdentity {
            location: subject_location(structure),
            why: "no segment for the patient",
        });
    };
    let patients = patients(mapper);
    // Content may refer to the visit, and to what a rule of the resource made, which comes behind it.
    let (visits, others): (Vec<_>, Vec<_>) =
        mapper.instances.iter().enumerate().rev().partition(|(_, instance)| instance.resource == "Encounter");
    for (index, instance) in visits.into_iter().chain(others) {
        let said = empty.get(index) == Some(&false) || is_per_message(&instance.resource);
        if resolved.get(index).is_some_and(Option::is_some) || !said {
            continue;
        }
        let patient = patients.get(index).copied().flatten().and_then(|patient| resolved.get(patient)?.as_ref());
        let of = patient.map_or_else(|| key.clone(), |found| found.identified.key.clone());
        let resolve = |index: usize| reference(index, &resolved, &[]);
        if let Some(found) = identifier.identify(instance, Some(&of), &resolve) {
            set(&mut resolved, index, found);
        }
    }
    Ok((resolved, key))
}

fn set(resolved: &mut [Option<Resolved>], index: usize, identified: Identified) {
    if let Some(place) = resolved.get_mut(index) {
        *place = Some(Resolved { url: identified.key.full_url(), identified });
    }
}

/// Per resource the patient it is, or refers to: a message may have several (A17).
fn patients(mapper: &Mapper<'_, '_, '_>) -> Vec<Option<usize>> {
    let is_patient = |index: usize| mapper.instances.get(index).is_some_and(|i| i.resource == "Patient");
    let mut patients: Vec<Option<usize>> =
        mapper.instances.iter().enumerate().map(|(index, _)| is_patient(index).then_some(index)).collect();
    for wanted in &mapper.wanted {
        let target = mapper.labelled.get(&wanted.to).copied().filter(|target| is_patient(*target));
        if let Some(patient) = patients.get_mut(wanted.from) {
            *patient = patient.or(target);
        }
    }
    // What a rule of a resource made is behind it, and its patient's.
    for index in 0..patients.len() {
        let parent = mapper.instances.get(index).and_then(|instance| instance.parent);
        let inherited = parent.and_then(|parent| patients.get(parent).copied().flatten());
        if let Some(patient) = patients.get_mut(index) {
            *patient = patient.or(inherited);
        }
    }
    patients
}

fn subject_location(structure: &Structure) -> hl7::Location {
    let binds = structure.binds.iter().position(|binds| binds.iter().any(|bind| bind.label == structure.subject));
    let segment = binds.and_then(|slot| structure.grammar.slots.get(slot)).map_or("PID", |slot| slot.segment.as_str());
    hl7::Location::segment(segment, 1)
}

/// PID-18 with its system, where the message has one patient.
fn account(mapper: &Mapper<'_, '_, '_>) -> Account {
    if !mapper.context.sender.encounter_fallbacks.contains(&EncounterFallback::AccountNumber) {
        return None;
    }
    let mut patients = mapper.message.segments().enumerate().filter(|(_, segment)| segment.name() == "PID");
    let (Some((index, segment)), None) = (patients.next(), patients.next()) else { return None };
    let element = segment.field(18).repetitions().next()?;
    let at = At { segment: u32::try_from(index).ok()?, field: 18, repetition: 1, ..At::default() };
    let value = Value { element, at };
    let text = |value: Option<Value<'_>>| {
        value.and_then(Value::leaf_text).map(|text| SmolStr::new(text.trim())).filter(|text| !text.is_empty())
    };
    let number = text(value.part(1))?;
    let part = |n: u16| text(value.part(4).and_then(|authority| authority.part(n)));
    let authority = Authority { namespace: part(1), universal: part(2), universal_type: part(3) };
    let sender = mapper.context.sender;
    let system = authority.system(sender).or_else(|| sender.visit_id_system.as_deref().map(SmolStr::from))?;
    Some((system, number))
}

/// The references that bindings ask for.
fn refer(mapper: &mut Mapper<'_, '_, '_>) {
    let strength = crate::contribution::Strength::Asserts;
    for wanted in &mapper.wanted {
        if let Some(target) = mapper.labelled.get(&wanted.to).copied()
            && let Some(instance) = mapper.instances.get_mut(wanted.from)
        {
            instance.put(wanted.register, strength, wanted.item, wanted.steps, Node::Reference(target));
        }
    }
}

fn reference(index: usize, resolved: &[Option<Resolved>], names: &[Option<SmolStr>]) -> Option<Json> {
    if let Some(found) = resolved.get(index)?.as_ref() {
        return Some(single("reference", Json::String(found.url.clone())));
    }
    let name = names.get(index)?.clone()?;
    Some(single("display", Json::String(name)))
}

/// The name of a resource that is not written, for `Reference.display`.
fn display(instance: &Instance, plan: &crate::plan::Plan) -> Option<SmolStr> {
    let registers = instance.only(&plan.registers, |path| covers("name", path)).finish(&plan.registers, &|_| None);
    let value = registers.values().next().and_then(|register| register.value.as_ref())?;
    if let Some(text) = value.as_str() {
        return Some(SmolStr::from(text));
    }
    let first = value.items().first()?;
    if let Some(text) = first.get("text").and_then(Json::as_str) {
        return Some(SmolStr::from(text));
    }
    let list = |member: &str| first.get(member).map_or(&[][..], Json::items).iter().filter_map(Json::as_str);
    let family = first.get("family").and_then(Json::as_str);
    let parts: Vec<&str> = list("prefix").chain(list("given")).chain(family).chain(list("suffix")).collect();
    (!parts.is_empty()).then(|| SmolStr::from(parts.join(" ")))
}

/// What was mapped into resources that nothing identifies is only in the message.
fn unidentified(mapper: &mut Mapper<'_, '_, '_>, resolved: &[Option<Resolved>]) {
    let written = |instance: usize| resolved.get(instance).is_some_and(Option::is_some);
    for mark in mapper.marks.iter_mut().filter(|mark| mark.outcome == Outcome::Mapped && !written(mark.instance)) {
        mark.outcome = Outcome::Dropped(IssueCode::NoIdentity);
    }
}

fn add(gathered: &mut Gathered, found: &Resolved, mut registers: BTreeMap<RegisterPath, Register>) -> Vec<SmolStr> {
    let Identified { key, scope, carried } = &found.identified;
    if let Some((path, json)) = carried {
        let strength = crate::contribution::Strength::Asserts;
        registers.insert(path.clone(), Register { strength, value: Some(json.clone()) });
    }
    gathered.add((key, &found.url), *scope, registers)
}

/// The message's Provenance, over all it contributes to.
fn attest(
    mapper: &mut Mapper<'_, '_, '_>,
    identifier: &Identifier<'_>,
    gathered: &mut Gathered,
    mut registers: BTreeMap<RegisterPath, Register>,
) {
    let instance = Instance::new(SmolStr::new_static("Provenance"), 0, None);
    let Some(own) = identifier.identify(&instance, None, &|_| None) else { return };
    if !provenance::complete(&mut registers, mapper, gathered) {
        mapper.raise(IssueCode::RequiredMissing, At { segment: 0, field: 7, ..At::default() }, None);
        return;
    }
    let found = Resolved { url: own.key.full_url(), identified: Identified { scope: Scope::Subject, ..own } };
    add(gathered, &found, registers);
}

/// All issues by name, in the order of the message; a repetition that one rule dropped and another mapped is none.
fn issues(mapper: &mut Mapper<'_, '_, '_>) -> Vec<Issue> {
    let mut raised = std::mem::take(&mut mapper.raised);
    let is_dropped = |mark: &Mark| mark.outcome == Outcome::Dropped(IssueCode::RepetitionDropped);
    if mapper.marks.iter().any(is_dropped) {
        let place = |mark: &Mark| (mark.at.segment, mark.at.field, mark.at.repetition);
        let mut landed: Vec<_> = mapper.marks.iter().filter(|m| m.outcome == Outcome::Mapped).map(place).collect();
        landed.sort_unstable();
        for mark in mapper.marks.iter().filter(|mark| is_dropped(mark)) {
            if landed.binary_search(&place(mark)).is_err() {
                let at = At { component: 0, subcomponent: 0, ..mark.at };
                raised.push(Raised { code: IssueCode::RepetitionDropped, at, trail: Some(mark.trail) });
            }
        }
    }
    raised.sort_by_key(|raised| (raised.at, raised.code, raised.trail));
    raised.dedup_by_key(|raised| (raised.at, raised.code, raised.trail));
    let named = raised.into_iter().map(|raised| Issue {
        code: raised.code,
        location: mapper.location(raised.at),
        path: raised
            .trail
            .map(|trail| crate::ledger::path(trail, &mapper.applications, mapper.plan))
            .unwrap_or_default(),
    });
    named.collect()
}
