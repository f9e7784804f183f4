//! The stored form of a resource's registers: what lets the next message extend the fold without the ones before it.
//! Contract: deterministic (equal states are equal bytes), and a checkpoint joins into what is already known, so that
//! restoring one twice, or an older one after a newer, takes nothing back.

use std::collections::{BTreeMap, BTreeSet};

use fhir::{Json, ResourceKey};
use mapping::{RegisterPath, Scope, Strength};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::fold::{Chart, Claim, Entry, ResourceState};
use crate::order::OrderKey;

/// The form that is written; a change of meaning gets the next number.
const FORM: u8 = 1;

/// Bytes that are no checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Not what [`Chart::save`] writes.
    #[error("not a checkpoint: column {0}")]
    Malformed(usize),
    /// Of a form this version does not read.
    #[error("checkpoint of form {0}, this version reads form {FORM}")]
    Form(u8),
    /// A register names a message that is not listed, or a key is none.
    #[error("checkpoint does not hold together")]
    Inconsistent,
}

/// Messages are listed once, registers refer to them by place.
#[derive(Serialize, Deserialize)]
struct Stored {
    form: u8,
    resource: ResourceKey,
    scope: Scope,
    /// Order key (hexadecimal) and message id.
    messages: Vec<(String, SmolStr)>,
    registers: BTreeMap<RegisterPath, StoredEntry>,
}

#[derive(Serialize, Deserialize)]
struct StoredEntry {
    #[serde(rename = "m")]
    message: usize,
    #[serde(rename = "s")]
    strength: Strength,
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
    #[serde(rename = "c", default, skip_serializing_if = "std::ops::Not::not")]
    contested: bool,
}

impl Chart {
    /// The checkpoint of a resource; empty for one that no event spoke of.
    pub fn save(&self, resource: &ResourceKey) -> Vec<u8> {
        // Writing this struct to memory cannot fail: its keys are strings, and no part of it writes by itself.
        self.get(resource).and_then(|state| serde_json::to_vec(&store(resource, state)).ok()).unwrap_or_default()
    }

    /// Joins a checkpoint into the chart; returns whose it is.
    pub fn restore(&mut self, checkpoint: &[u8]) -> Result<ResourceKey, RestoreError> {
        let stored: Stored =
            serde_json::from_slice(checkpoint).map_err(|fault| RestoreError::Malformed(fault.column()))?;
        if stored.form != FORM {
            return Err(RestoreError::Form(stored.form));
        }
        let mut messages = Vec::with_capacity(stored.messages.len());
        for (key, message_id) in &stored.messages {
            let bytes = hex::decode(key).map_err(|_| RestoreError::Inconsistent)?;
            messages.push((OrderKey::from_bytes(&bytes).map_err(|_| RestoreError::Inconsistent)?, message_id));
        }
        if stored.registers.values().any(|entry| entry.message >= messages.len()) {
            return Err(RestoreError::Inconsistent);
        }
        let state = self.state_mut(&stored.resource, stored.scope);
        for (path, entry) in &stored.registers {
            let (key, message_id) = messages.get(entry.message).ok_or(RestoreError::Inconsistent)?;
            let StoredEntry { strength, value, contested, .. } = entry;
            state.claim(path, Claim { strength: *strength, key, value, message_id, contested: *contested });
        }
        Ok(stored.resource)
    }
}

fn store(resource: &ResourceKey, state: &ResourceState) -> Stored {
    fn by(entry: &Entry) -> (&OrderKey, &SmolStr) {
        (&entry.key, &entry.message_id)
    }
    let messages: BTreeSet<_> = state.registers.values().map(by).collect();
    let places: BTreeMap<_, usize> = messages.iter().copied().zip(0..).collect();
    let registers = state.registers.iter().map(|(path, entry)| {
        let message = places.get(&by(entry)).copied().unwrap_or_default();
        let Entry { strength, ref value, contested, .. } = *entry;
        (path.clone(), StoredEntry { message, strength, value: value.clone(), contested })
    });
    Stored {
        form: FORM,
        resource: resource.clone(),
        scope: state.scope,
        registers: registers.collect(),
        messages: messages.into_iter().map(|(key, id)| (hex::encode(key.to_bytes()), id.clone())).collect(),
    }
}
