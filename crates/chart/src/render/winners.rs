//! Which registers of a resource count, where some exclude others: the types of a choice element (R4 §2.6.1.4), and the
//! extensions of a primitive whose value has changed since.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};

use fhir::ElementTable;
use mapping::{RegisterPath, Strength};
use smol_str::SmolStr;

use super::place::Place;
use crate::fold::Entry;
use crate::order::OrderKey;

/// A register: where it goes and what it holds.
struct Winner<'s> {
    path: &'s RegisterPath,
    place: Place<'s>,
    entry: &'s Entry,
}

/// By whose word: greater is later.
fn word(entry: &Entry) -> (Strength, &OrderKey) {
    (entry.strength, &entry.key)
}

/// The registers that do not count.
pub(super) fn left_out(resource_type: &str, registers: &BTreeMap<RegisterPath, Entry>) -> BTreeSet<RegisterPath> {
    let all = registers.iter().map(|(path, entry)| Winner { path, place: Place::parse(path), entry });
    let (outdated, current): (Vec<_>, Vec<_>) = all.partition(|w| is_outdated(w, registers));
    let mut left_out: BTreeSet<RegisterPath> = outdated.into_iter().map(|w| w.path.clone()).collect();
    let along: Vec<_> = current.iter().map(|winner| (winner, choices(resource_type, &winner.place))).collect();
    let chosen = chosen_types(&along);
    for (winner, choices) in along {
        let mut others = choices.iter().filter_map(|(family, variant)| Some((chosen.get(family)?, variant)));
        if others.any(|(chosen, variant)| chosen.variant != *variant) {
            left_out.insert(winner.path.clone());
        }
    }
    left_out
}

/// Is it an extension of a primitive whose value another message has set or cleared since? It was about the old value.
/// In a repeating primitive the items belong together only when one message said both.
fn is_outdated(winner: &Winner<'_>, registers: &BTreeMap<RegisterPath, Entry>) -> bool {
    let Some(primitive) = winner.place.extended_primitive().and_then(|path| registers.get(&path)) else { return false };
    let (extension, value) = (word(winner.entry), word(primitive));
    if winner.place.is_item() && winner.place.leaf().starts_with('_') {
        return extension.1 != value.1;
    }
    extension.1 != value.1 && extension < value
}

/// The type a choice element has.
struct Chosen<'s> {
    variant: &'s str,
    by: (Strength, &'s OrderKey),
}

/// For each choice element, the type that was said last; of two in one message the later in the alphabet, which takes
/// `deceasedDateTime` over `deceasedBoolean`.
fn chosen_types<'s>(along: &[(&Winner<'s>, Vec<(SmolStr, &'s str)>)]) -> BTreeMap<SmolStr, Chosen<'s>> {
    let mut chosen: BTreeMap<SmolStr, Chosen<'s>> = BTreeMap::new();
    for (winner, choices) in along.iter().filter(|(w, _)| w.entry.value.is_some()) {
        for (family, variant) in choices {
            let candidate = Chosen { variant, by: word(winner.entry) };
            match chosen.entry(family.clone()) {
                Slot::Vacant(free) => {
                    free.insert(candidate);
                }
                Slot::Occupied(mut taken) => {
                    let best = taken.get_mut();
                    if (candidate.by, candidate.variant) > (best.by, best.variant) {
                        *best = candidate;
                    }
                }
            }
        }
    }
    chosen
}

/// The choice elements along a register's path, each as `deceased[x]` behind its parents, with the type's member
/// `deceasedDateTime`.
fn choices<'s>(resource_type: &str, place: &Place<'s>) -> Vec<(SmolStr, &'s str)> {
    // A variant has its type's capital behind the stem; most members are one plain word.
    if !place.steps().any(|step| step.bytes().any(|b| b.is_ascii_uppercase())) {
        return Vec::new();
    }
    let steps: Vec<&'s str> = place.steps().collect();
    let found = ElementTable::r4().choices_along(resource_type, &steps).into_iter();
    let named = found.filter_map(|(at, stem)| {
        let parents = steps.get(..at)?.iter().copied();
        let member = steps.get(at)?;
        let family = parents.chain([stem]).collect::<Vec<_>>().join(".");
        Some((SmolStr::from(family), member.strip_prefix('_').unwrap_or(member)))
    });
    named.collect()
}
