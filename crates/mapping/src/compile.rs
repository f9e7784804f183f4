//! Rule files to plan: read, name, compile, check; all faults of all files in one go.
//! Not here: the parts (`compile::rules`, `registers`, `structures`, `identities`) and the texts (`rule_file`).

mod identities;
mod registers;
mod rules;
mod structures;

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};
use smol_str::SmolStr;

use crate::code_map::{self, CodeMap};
use crate::elements::{self, TypeKind};
use crate::fault::{Fault, Faults, Place};
use crate::plan::{Action, Origin, Plan, Rule, RuleFile, SegmentMap, ValueMap};
use crate::reader;
use crate::rule_file::{self, RawIdentity, RawManifest, RawMap, RawMessage};
use crate::source::is_segment_name;

use registers::Registers;

/// All files as written.
#[derive(Default)]
struct Raw {
    manifest: Option<RawManifest>,
    segments: Vec<RawMap>,
    datatypes: Vec<RawMap>,
    messages: Vec<RawMessage>,
    identities: Vec<RawIdentity>,
    systems: BTreeMap<SmolStr, SmolStr>,
    codes: Vec<CodeMap>,
}

/// What rules may refer to by name.
#[derive(Default)]
struct Names {
    codes: BTreeMap<String, usize>,
    /// Name → index and R4 type.
    values: BTreeMap<String, (usize, SmolStr)>,
    /// Name → index, segment and resource type.
    segments: BTreeMap<String, (usize, SmolStr, SmolStr)>,
}

/// The state of one compilation.
struct Compiler {
    faults: Faults,
    names: Names,
    codes: Vec<CodeMap>,
    origins: Vec<Origin>,
    bindings: Vec<Origin>,
    registers: Registers,
}

pub(crate) fn compile(files: &[RuleFile<'_>]) -> Result<Plan, Vec<Fault>> {
    let mut files: Vec<RuleFile<'_>> = files.to_vec();
    files.sort_by(|a, b| a.path.cmp(b.path));
    let mut faults = Faults::new(files.iter().map(|file| file.path.to_owned()).collect());
    let raw = read(&files, &mut faults);
    let names = names(&raw, &mut faults);
    let mut compiler = Compiler {
        faults,
        names,
        codes: raw.codes,
        origins: Vec::new(),
        bindings: Vec::new(),
        registers: Registers::default(),
    };

    let mut value_maps: Vec<ValueMap> = raw.datatypes.into_iter().map(|map| compiler.value_map(map)).collect();
    let mut segment_maps: Vec<SegmentMap> = raw.segments.into_iter().map(|map| compiler.segment_map(map)).collect();
    compiler.cycles(&value_maps);
    let mut structures: Vec<_> = raw.messages.into_iter().filter_map(|message| compiler.structure(message)).collect();
    compiler.registers.settle();
    let rules =
        segment_maps.iter_mut().flat_map(|m| &mut m.rules).chain(value_maps.iter_mut().flat_map(|m| &mut m.rules));
    compiler.registers.place(rules);
    compiler.registers.place_references(structures.iter_mut().flat_map(|s| &mut s.structure.binds).flatten());
    let emitted = emitted(&value_maps, &segment_maps, &structures);
    let identities = compiler.identities(raw.identities, &emitted);
    let events = compiler.events(&structures);

    let found = compiler.faults.finish();
    if !found.is_empty() {
        return Err(found);
    }
    let (version, digest) = (raw.manifest.unwrap_or_default().version, digest(&files));
    Ok(Plan {
        agent: crate::provenance::agent(&version, &digest),
        version,
        digest,
        files: files.iter().map(|file| SmolStr::new(file.path)).collect(),
        origins: compiler.origins,
        bindings: compiler.bindings,
        registers: compiler.registers.finish(),
        segment_maps,
        value_maps,
        code_maps: compiler.codes,
        systems: raw.systems,
        structures: structures.into_iter().map(|s| s.structure).collect(),
        events,
        identities,
    })
}

/// Lengths go in too, so that no two sets of files give the same bytes.
fn digest(files: &[RuleFile<'_>]) -> String {
    let mut hash = Sha256::new();
    for file in files {
        for part in [file.path, file.text] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part.as_bytes());
        }
    }
    hex::encode(hash.finalize())
}

fn read(files: &[RuleFile<'_>], faults: &mut Faults) -> Raw {
    let mut raw = Raw::default();
    let mut previous = None;
    for (index, file) in files.iter().enumerate() {
        if previous == Some(file.path) {
            faults.add_file(file.path, "the file is given twice");
        }
        previous = Some(file.path);
        read_file(index, *file, &mut raw, faults);
    }
    if raw.manifest.is_none() {
        faults.add_file("manifest.toml", "the file is missing");
    }
    raw
}

fn read_file(index: usize, file: RuleFile<'_>, raw: &mut Raw, faults: &mut Faults) {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", file.path));
    let toml = std::path::Path::new(name).extension().is_some_and(|extension| extension == "toml");
    match (folder, name) {
        ("", "manifest.toml") => {
            raw.manifest = Some(rule_file::manifest(reader::parse(index, file.text, faults), faults));
        }
        ("", "identity.toml") => raw.identities = rule_file::identity(reader::parse(index, file.text, faults), faults),
        ("", "systems.toml") => raw.systems = rule_file::systems(reader::parse(index, file.text, faults), faults),
        ("", "corrections.toml") => rule_file::remarks(reader::parse(index, file.text, faults), "correction", faults),
        ("", "deviations.toml") => rule_file::remarks(reader::parse(index, file.text, faults), "deviation", faults),
        ("segments", _) if toml => {
            let table = reader::parse(index, file.text, faults);
            raw.segments.push(rule_file::map(table, file.path, "resource", faults));
        }
        ("datatypes", _) if toml => {
            let table = reader::parse(index, file.text, faults);
            raw.datatypes.push(rule_file::map(table, file.path, "target", faults));
        }
        ("messages", _) if toml => {
            let table = reader::parse(index, file.text, faults);
            raw.messages.extend(rule_file::message(table, file.path, faults));
        }
        ("codes", _) => match code_map::name_of(file.path) {
            Some(name) => raw.codes.push(code_map::load(index, name, file.text, faults)),
            None => faults.add_file(file.path, "code maps are .json files"),
        },
        _ => faults.add_file(file.path, "not a place for a rule file"),
    }
}

fn names(raw: &Raw, faults: &mut Faults) -> Names {
    let mut names = Names::default();
    for (index, map) in raw.codes.iter().enumerate() {
        names.codes.insert(map.name.to_string(), index);
    }
    for (index, map) in raw.datatypes.iter().enumerate() {
        let target = SmolStr::from(map.target.as_str());
        for name in std::iter::once(&map.name).chain(&map.also) {
            if names.values.insert(name.clone(), (index, target.clone())).is_some() {
                faults.add(map.place, format!("datatype map `{name}` is there twice"));
            }
        }
    }
    for (index, map) in raw.segments.iter().enumerate() {
        let segment = SmolStr::from(map.name.split('[').next().unwrap_or_default());
        let entry = (index, segment, SmolStr::from(map.target.as_str()));
        if names.segments.insert(map.name.clone(), entry).is_some() {
            faults.add(map.place, format!("segment map `{}` is there twice", map.name));
        }
    }
    names
}

impl Compiler {
    fn fault(&mut self, place: Place, message: impl Into<String>) {
        self.faults.add(place, message);
    }

    fn value_map(&mut self, raw: RawMap) -> ValueMap {
        let Some(kind) = elements::kind(&raw.target) else {
            self.fault(raw.place, format!("`{}` is not an R4 type", raw.target));
            return ValueMap {
                name: raw.name.into(),
                target: raw.target.into(),
                rules: Vec::new(),
                ignores: Vec::new(),
            };
        };
        let resource = kind == TypeKind::Resource;
        let names: Vec<String> =
            std::iter::once(&raw.name).chain(&raw.also).map(|name| head(name).to_owned()).collect();
        let scope = rules::RuleScope {
            base: crate::source::Base::Datatypes(&names),
            root: &raw.target,
            resource,
            map: SmolStr::from(raw.name.as_str()),
        };
        let (rules, ignores) = self.rules(raw.rules, raw.ignores, &scope);
        ValueMap { name: raw.name.into(), target: raw.target.into(), rules, ignores }
    }

    fn segment_map(&mut self, raw: RawMap) -> SegmentMap {
        let segment = head(&raw.name).to_owned();
        if !is_segment_name(&segment) {
            self.fault(raw.place, format!("`{}` does not begin with a segment name", raw.name));
        }
        if elements::kind(&raw.target) != Some(TypeKind::Resource) {
            self.fault(raw.place, format!("`{}` is not an R4 resource", raw.target));
            return SegmentMap { rules: Vec::new(), ignores: Vec::new() };
        }
        let scope = rules::RuleScope {
            base: crate::source::Base::Segment(&segment),
            root: &raw.target,
            resource: true,
            map: SmolStr::from(raw.name.as_str()),
        };
        let (rules, ignores) = self.rules(raw.rules, raw.ignores, &scope);
        SegmentMap { rules, ignores }
    }

    /// Datatype maps that end up applying themselves.
    fn cycles(&mut self, maps: &[ValueMap]) {
        for (start, map) in maps.iter().enumerate() {
            let mut seen = BTreeSet::new();
            let mut open = vec![start];
            while let Some(at) = open.pop() {
                for next in maps.get(at).into_iter().flat_map(|m| &m.rules).filter_map(applied) {
                    if next == start {
                        let place = map.rules.first().and_then(|r| self.origins.get(usize::try_from(r.id).ok()?));
                        let place = place.map_or(Place { file: 0, line: 0 }, |o| Place { file: o.file, line: o.line });
                        self.fault(place, format!("datatype map `{}` applies itself", map.name));
                        open.clear();
                        break;
                    }
                    if seen.insert(next) {
                        open.push(next);
                    }
                }
            }
        }
    }
}

/// The datatype map a rule applies.
fn applied(rule: &Rule) -> Option<usize> {
    match &rule.action {
        Action::Datatype { map, .. } | Action::Resource { map } | Action::Merge { map } => Some(*map),
        Action::Constant(_) | Action::Primitive { .. } => None,
    }
}

/// The resource types the rules can make.
fn emitted(values: &[ValueMap], segments: &[SegmentMap], structures: &[structures::Placed]) -> BTreeSet<SmolStr> {
    let rules = values.iter().flat_map(|m| &m.rules).chain(segments.iter().flat_map(|m| &m.rules));
    let referred = rules.filter_map(|rule| match &rule.action {
        Action::Resource { map } => values.get(*map).map(|map| map.target.clone()),
        _ => None,
    });
    let bound = structures.iter().flat_map(|s| &s.structure.labels).map(|label| label.resource.clone());
    referred.chain(bound).collect()
}

/// `PV1[Encounter]` → `PV1`.
fn head(name: &str) -> &str {
    name.split('[').next().unwrap_or(name)
}
