//! Registers placed by their paths: `period.start` into its parents, items of `name[1]` and `name[2]` into one array in
//! slot order, `_birthDate.extension[1]` beside its primitive (R4 §2.6.2.3).

use std::collections::{BTreeMap, BTreeSet};

use fhir::{Json, Object};
use mapping::RegisterPath;
use smol_str::SmolStr;

/// Where among the items of an element a register's items stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    /// `[2]`
    Number(u32),
    /// `[sluice]`: what we add stands behind what was sent.
    Own,
}

/// A register's path, read.
#[derive(Clone, Debug)]
pub(super) struct Place<'s> {
    parents: Vec<&'s str>,
    leaf: &'s str,
    slot: Option<Slot>,
    /// The leaf with its slot, as in the register's name.
    item: &'s str,
}

impl<'s> Place<'s> {
    /// Reads `hospitalization.specialArrangement[1]`.
    pub(super) fn parse(path: &'s str) -> Self {
        let mut parents: Vec<&str> = path.split('.').collect();
        let item = parents.pop().unwrap_or_default();
        let (leaf, slot) = match item.split_once('[') {
            None => (item, None),
            Some((leaf, slot)) => (leaf, Some(slot.trim_end_matches(']').parse().map_or(Slot::Own, Slot::Number))),
        };
        Self { parents, leaf, slot, item }
    }

    /// The element's name.
    pub(super) fn leaf(&self) -> &'s str {
        self.leaf
    }

    /// Does it hold items of a repeating element?
    pub(super) fn is_item(&self) -> bool {
        self.slot.is_some()
    }

    /// Names from the resource to the element.
    pub(super) fn steps(&self) -> impl Iterator<Item = &'s str> {
        self.parents.iter().copied().chain([self.leaf])
    }

    /// The register of the primitive that this one extends: `birthDate` for `_birthDate.extension[1]`, `category[1]` for
    /// `_category[1]`.
    pub(super) fn extended_primitive(&self) -> Option<SmolStr> {
        if !self.item.starts_with('_') && self.parents.iter().all(|step| !step.starts_with('_')) {
            return None;
        }
        let steps: Vec<&str> = self.parents.iter().copied().chain([self.item]).collect();
        let at = steps.iter().position(|step| step.starts_with('_'))?;
        let (front, back) = steps.split_at_checked(at)?;
        let primitive = back.first()?.strip_prefix('_')?;
        Some(SmolStr::from(front.iter().copied().chain([primitive]).collect::<Vec<_>>().join(".")))
    }
}

/// Items of one element by slot, and of the primitive's extensions beside it.
#[derive(Default)]
struct Items {
    plain: BTreeMap<Slot, Vec<Json>>,
    extended: BTreeMap<Slot, Vec<Json>>,
}

/// The members of the resource that the registers make up; the registers' values become part of it.
pub(super) fn build(registers: impl Iterator<Item = (RegisterPath, Json)>) -> Object {
    let mut members = Object::new();
    let mut repeating: BTreeMap<(SmolStr, SmolStr), Items> = BTreeMap::new();
    for (path, value) in registers {
        let place = Place::parse(&path);
        let Some(slot) = place.slot else {
            if let Some(clean) = cleaned(value) {
                put(&mut members, place.steps(), clean);
            }
            continue;
        };
        let items = match value {
            Json::Array(items) => items,
            single => vec![single],
        };
        let plain = place.leaf.strip_prefix('_');
        let of = repeating.entry((joined(&place.parents), SmolStr::new(plain.unwrap_or(place.leaf)))).or_default();
        let slots = if plain.is_some() { &mut of.extended } else { &mut of.plain };
        slots.insert(slot, items);
    }
    for ((parents, leaf), items) in repeating {
        let (plain, extended) = concatenated(items);
        let parents = || parents.split('.').filter(|parent| !parent.is_empty());
        if plain.iter().any(|item| *item != Json::Null) {
            put(&mut members, parents().chain([leaf.as_str()]), Json::Array(plain));
        }
        if extended.iter().any(|item| *item != Json::Null) {
            let extension = ["_", &leaf].concat();
            put(&mut members, parents().chain([extension.as_str()]), Json::Array(extended));
        }
    }
    members
}

/// Most registers have no parents.
fn joined(parents: &[&str]) -> SmolStr {
    match parents {
        [] => SmolStr::default(),
        [one] => SmolStr::new(one),
        more => SmolStr::from(more.join(".")),
    }
}

/// The items of all slots in order, each once, and the extensions at the same places.
fn concatenated(items: Items) -> (Vec<Json>, Vec<Json>) {
    let Items { mut plain, mut extended } = items;
    let slots: BTreeSet<Slot> = plain.keys().chain(extended.keys()).copied().collect();
    let mut pairs: Vec<(Json, Json)> = Vec::new();
    for slot in slots {
        let mut said = plain.remove(&slot).unwrap_or_default().into_iter();
        let mut beside = extended.remove(&slot).unwrap_or_default().into_iter();
        for _ in 0..said.len().max(beside.len()) {
            let one = |item: Option<Json>| item.and_then(cleaned).unwrap_or(Json::Null);
            let pair = (one(said.next()), one(beside.next()));
            if pair != (Json::Null, Json::Null) {
                pairs.push(pair);
            }
        }
    }
    if pairs.len() < 2 {
        return pairs.into_iter().unzip();
    }
    let mut seen = BTreeSet::new();
    let mut first: Vec<bool> = pairs.iter().map(|pair| seen.insert(pair)).collect();
    first.reverse();
    pairs.into_iter().filter(|_| first.pop() == Some(true)).unzip()
}

/// Puts a value at a path; what is there already stays.
fn put<'p>(members: &mut Object, path: impl Iterator<Item = &'p str>, value: Json) {
    let mut at = members;
    let mut path = path.peekable();
    while let Some(name) = path.next() {
        if path.peek().is_none() {
            at.entry(SmolStr::new(name)).or_insert(value);
            return;
        }
        match at.entry(SmolStr::new(name)).or_insert_with(|| Json::Object(Object::new())) {
            Json::Object(inner) => at = inner,
            _ => return,
        }
    }
}

/// A value without what R4 forbids: empty objects, arrays and strings (§2.6.2), and `null` outside an array.
fn cleaned(value: Json) -> Option<Json> {
    match value {
        Json::Null => None,
        Json::String(text) => (!text.is_empty()).then_some(Json::String(text)),
        Json::Bool(_) | Json::Number(_) => Some(value),
        Json::Array(items) => {
            // A null keeps a primitive beside its extensions; an object that says nothing keeps no place.
            let said = |item: Json| {
                let is_object = matches!(item, Json::Object(_));
                cleaned(item).or_else(|| (!is_object).then_some(Json::Null))
            };
            let items: Vec<Json> = items.into_iter().filter_map(said).collect();
            items.iter().any(|item| *item != Json::Null).then_some(Json::Array(items))
        }
        Json::Object(mut members) => {
            members.retain(|_, member| match cleaned(std::mem::replace(member, Json::Null)) {
                Some(clean) => {
                    *member = clean;
                    true
                }
                None => false,
            });
            (!members.is_empty()).then_some(Json::Object(members))
        }
    }
}
