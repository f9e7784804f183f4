//! Registers and their join: for each register the greatest (strength, order key) wins.
//!
//! Lives here: the state of resources and how a message extends it. Does not: what a register becomes in FHIR (`render`),
//! its stored form (`checkpoint`). Contract: `absorb` is commutative, associative and idempotent, so a chart depends on the
//! set of events alone (promise 2); and no register goes backwards (promise 6).

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::collections::btree_map::{self, BTreeMap};

use fhir::{Json, ResourceKey};
use mapping::{Contribution, RegisterPath, Scope, Strength};
use smol_str::SmolStr;

use crate::event::Event;
use crate::order::OrderKey;

/// Two messages contradict each other and only their hashes say which is later.
pub const AMBIGUOUS_ORDER: &str = "AMBIGUOUS_ORDER";

/// What a register holds, and by whose word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// How strongly it was claimed.
    pub strength: Strength,
    /// The place of the message that claimed it.
    pub key: OrderKey,
    /// `None` is an explicit null.
    pub value: Option<Json>,
    /// The message that claimed it.
    pub message_id: SmolStr,
    /// Another message claimed another value just as strongly, and only the hash decided ([`AMBIGUOUS_ORDER`]).
    pub contested: bool,
}

impl Entry {
    /// By what entries are compared. Value and message id only make the order total: two messages never share a key.
    fn weight(&self) -> (Strength, &OrderKey, &Option<Json>, &SmolStr) {
        (self.strength, &self.key, &self.value, &self.message_id)
    }

    /// Takes over a greater claim; true where the entry is contested only since now.
    pub(crate) fn join(&mut self, claim: Claim<'_>) -> bool {
        let level = self.strength == claim.strength && self.key.equals_but_for_hash(claim.key);
        let before = self.contested;
        let contradicted = before || claim.contested || self.value != *claim.value;
        let greater = (claim.strength, claim.key, claim.value, claim.message_id) > self.weight();
        if greater {
            *self = claim.to_entry();
        }
        if level {
            self.contested = contradicted;
            return contradicted && !before;
        }
        greater && self.contested
    }
}

/// What one message says about one register.
#[derive(Clone, Copy)]
pub(crate) struct Claim<'e> {
    pub(crate) strength: Strength,
    pub(crate) key: &'e OrderKey,
    pub(crate) value: &'e Option<Json>,
    pub(crate) message_id: &'e SmolStr,
    pub(crate) contested: bool,
}

impl Claim<'_> {
    fn to_entry(self) -> Entry {
        Entry {
            strength: self.strength,
            key: self.key.clone(),
            value: self.value.clone(),
            message_id: self.message_id.clone(),
            contested: self.contested,
        }
    }
}

/// What messages said about one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceState {
    /// Who may speak of it; shared as soon as one message says so.
    pub scope: Scope,
    /// What was said, by register.
    pub registers: BTreeMap<RegisterPath, Entry>,
}

impl ResourceState {
    pub(crate) fn new(scope: Scope) -> Self {
        Self { scope, registers: BTreeMap::new() }
    }

    /// Joins a claim about a register; true where it is contested only since now.
    pub(crate) fn claim(&mut self, path: &RegisterPath, claim: Claim<'_>) -> bool {
        match self.registers.entry(path.clone()) {
            btree_map::Entry::Vacant(free) => {
                free.insert(claim.to_entry());
                claim.contested
            }
            btree_map::Entry::Occupied(taken) => taken.into_mut().join(claim),
        }
    }
}

/// A register that only the hash decided.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ambiguity {
    /// The resource.
    pub resource: ResourceKey,
    /// Its register.
    pub path: RegisterPath,
}

/// What absorbing an event came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Absorbed {
    /// Resources the event speaks of.
    pub touched: BTreeSet<ResourceKey>,
    /// Registers contested since this event, in order.
    pub ambiguous: Vec<Ambiguity>,
}

/// The resources that a set of events adds up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chart {
    resources: BTreeMap<ResourceKey, ResourceState>,
}

impl Chart {
    /// F: the chart of all of a subject's events, in any order and any number of times.
    pub fn fold(events: &[Event]) -> Chart {
        let mut chart = Chart::default();
        for event in events {
            chart.absorb(event);
        }
        chart
    }

    /// The chart of one event alone, without copying what it says.
    pub fn of(event: Event) -> Chart {
        let mut chart = Chart::default();
        for Contribution { resource, scope, registers } in event.contributions {
            let state = chart.state_mut(&resource, scope);
            for (path, register) in registers {
                let claim = Claim {
                    strength: register.strength,
                    key: &event.key,
                    value: &None,
                    message_id: &event.message_id,
                    contested: false,
                };
                let entry = Entry { value: register.value, ..claim.to_entry() };
                state.registers.entry(path).or_insert(entry);
            }
        }
        chart
    }

    /// Extends the chart by one event; its cost does not grow with the number of events before.
    pub fn absorb(&mut self, event: &Event) -> Absorbed {
        let mut absorbed = Absorbed::default();
        for Contribution { resource, scope, registers } in &event.contributions {
            absorbed.touched.insert(resource.clone());
            let state = self.state_mut(resource, *scope);
            for (path, register) in registers {
                let claim = Claim {
                    strength: register.strength,
                    key: &event.key,
                    value: &register.value,
                    message_id: &event.message_id,
                    contested: false,
                };
                if state.claim(path, claim) {
                    absorbed.ambiguous.push(Ambiguity { resource: resource.clone(), path: path.clone() });
                }
            }
        }
        absorbed.ambiguous.sort();
        absorbed.ambiguous.dedup();
        absorbed
    }

    pub(crate) fn state_mut(&mut self, resource: &ResourceKey, scope: Scope) -> &mut ResourceState {
        let state = self.resources.entry(resource.clone()).or_insert_with(|| ResourceState::new(scope));
        state.scope = state.scope.max(scope);
        state
    }

    /// What is known of a resource.
    pub fn get(&self, resource: &ResourceKey) -> Option<&ResourceState> {
        self.resources.get(resource)
    }

    /// Who may speak of a resource; one that no event spoke of belongs to its subject.
    pub fn scope(&self, resource: &ResourceKey) -> Scope {
        self.get(resource).map_or(Scope::Subject, |state| state.scope)
    }

    /// Every resource with what is known of it, in the order of keys.
    pub fn resources(&self) -> impl Iterator<Item = (&ResourceKey, &ResourceState)> {
        self.resources.iter()
    }

    pub(crate) fn into_resources(self) -> impl Iterator<Item = (ResourceKey, ResourceState)> {
        self.resources.into_iter()
    }

    /// Every register that only the hash decided, in order.
    pub fn ambiguous(&self) -> Vec<Ambiguity> {
        let mut found = Vec::new();
        for (resource, state) in &self.resources {
            let contested = state.registers.iter().filter(|(_, entry)| entry.contested);
            found.extend(contested.map(|(path, _)| Ambiguity { resource: resource.clone(), path: path.clone() }));
        }
        found
    }
}
