//! What one message says about one FHIR resource, field by field: a value, an explicit null, or nothing.

use std::collections::BTreeMap;

use fhir::{Json, ResourceKey};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// Whether a resource belongs to one patient or is shared by all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Only messages about the subject speak of it (Patient, Encounter, Coverage, …).
    Subject,
    /// Messages about any patient may speak of it (Practitioner, Organization, Location, Device).
    Shared,
}

/// How strongly a message claims a register: the greatest (strength, order key) wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strength {
    /// Only where nobody asserts a value.
    Fills,
    /// The normal case.
    Asserts,
}

/// The name of a register: a rule's target path cut after its first repeating element, slot included:
/// `gender`, `period.start`, `name[1]`, `location[2]`, `extension[4]`. Order among registers of one element is slot order.
pub type RegisterPath = SmolStr;

/// What a message says about one register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// See [`Strength`].
    pub strength: Strength,
    /// For a repeating element an array of its items; for any other path the value at it; `None` is HL7's explicit
    /// null (`""`), which clears the register. References hold [`ResourceKey::full_url`].
    pub value: Option<Json>,
}

/// What one message says about one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contribution {
    /// The resource.
    pub resource: ResourceKey,
    /// Who else may speak of it.
    pub scope: Scope,
    /// The registers the message speaks of; absent registers are left alone.
    pub registers: BTreeMap<RegisterPath, Register>,
}
