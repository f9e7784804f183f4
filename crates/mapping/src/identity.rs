//! What makes a resource the same resource in another message (DESIGN §5): a business identifier with a system, else an
//! identifier of ours, an HMAC of subject, type and content.
//! Not here: which messages are the same (dedup).
//! Contract: an identifier without a system never identifies by itself; identifiers of ours show nothing of what they
//! are made of.

use fhir::{Json, ResourceKey};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use smol_str::SmolStr;

use crate::contribution::Scope;
use crate::instance::Instance;
use crate::node::Node;
use crate::plan::{IdentifiedBy, Identity, Plan};
use crate::sender::{Context, EncounterFallback};

/// The outcome for one resource.
#[derive(Clone, Debug)]
pub(crate) struct Identified {
    pub key: ResourceKey,
    pub scope: Scope,
    /// The register and value that carry an identifier which the rules did not write.
    pub carried: Option<(SmolStr, Json)>,
}

/// Whether a type has one resource per message, named after the message.
pub(crate) fn is_per_message(resource: &str) -> bool {
    matches!(resource, "Provenance" | "MessageHeader")
}

/// Whether a name in `content` or `identifier_slots` means a register: itself, its slots, what is below it.
pub(crate) fn covers(name: &str, register: &str) -> bool {
    register.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
}

/// An identifier as the rules built it.
struct Candidate<'n> {
    system: Option<&'n SmolStr>,
    value: &'n SmolStr,
    kind: Option<&'n SmolStr>,
}

/// The account number of the message's one patient (PID-18): system and value.
pub(crate) type Account = Option<(SmolStr, SmolStr)>;

/// Identifies the resources of one message.
pub(crate) struct Identifier<'a> {
    pub plan: &'a Plan,
    pub context: &'a Context<'a>,
    pub account: Account,
    /// Keyed once.
    mac: Option<Hmac<Sha256>>,
}

impl<'a> Identifier<'a> {
    pub(crate) fn new(plan: &'a Plan, context: &'a Context<'a>, account: Account) -> Self {
        // HMAC takes keys of any length (RFC 2104 §2), so there always is one.
        Self { plan, context, account, mac: Hmac::new_from_slice(context.identity_key).ok() }
    }

    /// What identifies an instance. Without a subject only a business identifier can.
    pub(crate) fn identify(
        &self,
        instance: &Instance,
        subject: Option<&ResourceKey>,
        resolve: &impl Fn(usize) -> Option<Json>,
    ) -> Option<Identified> {
        let identity = self.plan.identities.get(&instance.resource)?;
        match identity.by {
            IdentifiedBy::Message => {
                let parts = [("message", self.context.message_id.to_owned())];
                return Some(self.own(&instance.resource, None, &parts));
            }
            IdentifiedBy::Content => return self.by_content(instance, identity, subject?, resolve),
            IdentifiedBy::Identifier => {}
        }
        // PV1-19 identifies a visit; PV1-50 only where the sender is configured so.
        let is_encounter = instance.resource == "Encounter";
        let (first, further) =
            identity.slots.split_at(identity.slots.len().min(if is_encounter { 1 } else { usize::MAX }));
        let by_type = self.business(instance, identity, first);
        if let Some(found) = by_type {
            return Some(found);
        }
        let bare = self
            .bare(instance, first)
            .zip(subject)
            .map(|(value, subject)| self.own(&instance.resource, Some(subject), &[("identifier", value.to_string())]));
        if bare.is_some() || !is_encounter {
            return bare.or_else(|| self.by_content(instance, identity, subject?, resolve));
        }
        self.context.sender.encounter_fallbacks.iter().find_map(|fallback| match fallback {
            EncounterFallback::AlternateVisitId => self.business(instance, identity, further),
            EncounterFallback::AccountNumber => self.by_account(instance, identity),
            EncounterFallback::AdmitTime => self.by_content(instance, identity, subject?, resolve),
        })
    }

    /// A business identifier with a system: by preferred type, else the first.
    fn business(&self, instance: &Instance, identity: &Identity, slots: &[SmolStr]) -> Option<Identified> {
        if slots.is_empty() && !identity.slots.is_empty() {
            return None;
        }
        let candidates = self.candidates(instance, slots);
        let with_system = || candidates.iter().filter(|candidate| candidate.system.is_some());
        let preferred =
            identity.types.iter().find_map(|kind| with_system().find(|candidate| candidate.kind == Some(kind)));
        let chosen = preferred.or_else(|| with_system().next())?;
        let key = ResourceKey {
            resource_type: instance.resource.clone(),
            system: chosen.system?.clone(),
            value: chosen.value.clone(),
        };
        Some(Identified { key, scope: identity.scope, carried: None })
    }

    /// The first identifier without a system.
    fn bare(&self, instance: &Instance, slots: &[SmolStr]) -> Option<SmolStr> {
        let candidates = self.candidates(instance, slots);
        candidates.iter().find(|candidate| candidate.system.is_none()).map(|candidate| candidate.value.clone())
    }

    fn candidates<'n>(&self, instance: &'n Instance, slots: &[SmolStr]) -> Vec<Candidate<'n>> {
        let path = |register: u32| {
            let index = usize::try_from(register).ok()?;
            self.plan.registers.get(index).map(|name| name.path.as_str())
        };
        let mut registers: Vec<u32> = instance
            .written()
            .filter(|register| path(*register).is_some_and(|path| covers("identifier", path)))
            .collect();
        // Registers are numbered in the order of slots.
        registers.sort_unstable();
        registers.dedup();
        if !slots.is_empty() {
            let rank =
                |register: &u32| slots.iter().position(|slot| path(*register).is_some_and(|path| covers(slot, path)));
            registers.retain(|register| rank(register).is_some());
            registers.sort_by_key(rank);
        }
        registers.into_iter().flat_map(|register| instance.items(register)).filter_map(candidate).collect()
    }

    /// PID-18 where one account is one visit.
    fn by_account(&self, instance: &Instance, identity: &Identity) -> Option<Identified> {
        let (system, value) = self.account.clone()?;
        let json = Json::object([("system", Json::String(system.clone())), ("value", Json::String(value.clone()))]);
        let key = ResourceKey { resource_type: instance.resource.clone(), system, value };
        let carried = Some((SmolStr::new_static("identifier[account]"), Json::Array(vec![json])));
        Some(Identified { key, scope: identity.scope, carried })
    }

    fn by_content(
        &self,
        instance: &Instance,
        identity: &Identity,
        subject: &ResourceKey,
        resolve: &impl Fn(usize) -> Option<Json>,
    ) -> Option<Identified> {
        if identity.content.is_empty() {
            return None;
        }
        let named = |path: &str| identity.content.iter().any(|name| covers(name, path));
        let registers = instance.only(&self.plan.registers, named).finish(&self.plan.registers, resolve);
        let mut parts = Vec::new();
        for name in &identity.content {
            let of_name = registers.iter().filter(|(path, _)| covers(name, path));
            parts.extend(of_name.filter_map(|(path, register)| {
                let mut text = String::with_capacity(256);
                register.value.as_ref()?.write(&mut text);
                Some((path.as_str(), text))
            }));
        }
        (!parts.is_empty()).then(|| self.own(&instance.resource, Some(subject), &parts))
    }

    /// An identifier of ours. It is the subject's alone, whoever else may speak of the type.
    fn own(&self, resource: &SmolStr, subject: Option<&ResourceKey>, parts: &[(&str, String)]) -> Identified {
        let value = self.digest(resource, subject, parts);
        let system = SmolStr::from(self.context.sender.own_system.as_str());
        let has_identifier = self.plan.identities.get(resource).is_some_and(|identity| identity.has_identifier);
        let (register, member) =
            if has_identifier { ("identifier[sluice]", "value") } else { ("meta.tag[sluice]", "code") };
        let json = Json::object([("system", Json::String(system.clone())), (member, Json::String(value.clone()))]);
        let key = ResourceKey { resource_type: resource.clone(), system, value };
        let carried = Some((SmolStr::new_static(register), Json::Array(vec![json])));
        Identified { key, scope: Scope::Subject, carried }
    }

    /// HMAC-SHA256 over the parts, each with its length, in hex.
    fn digest(&self, resource: &str, subject: Option<&ResourceKey>, parts: &[(&str, String)]) -> SmolStr {
        let Some(mut mac) = self.mac.clone() else { return SmolStr::default() };
        let mut add = |text: &str| {
            mac.update(&u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
            mac.update(text.as_bytes());
        };
        add(resource);
        if let Some(subject) = subject {
            for part in [&subject.resource_type, &subject.system, &subject.value] {
                add(part);
            }
        }
        for (name, text) in parts {
            add(name);
            add(text);
        }
        let mut text = [0; 64];
        let encoded = hex::encode_to_slice(mac.finalize().into_bytes(), &mut text);
        encoded.ok().and_then(|()| std::str::from_utf8(&text).ok()).map(SmolStr::new).unwrap_or_default()
    }
}

fn candidate(node: &Node) -> Option<Candidate<'_>> {
    let value = node.at(&["value"])?.text()?;
    Some(Candidate {
        system: node.at(&["system"]).and_then(Node::text),
        value,
        kind: node.at(&["type", "coding", "code"]).and_then(Node::text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cover_their_slots_and_what_is_below() {
        assert!(covers("identifier", "identifier[1]"));
        assert!(covers("identifier[1]", "identifier[1]"));
        assert!(covers("period", "period.start"));
        assert!(!covers("identifier[1]", "identifier[10]"));
        assert!(!covers("name", "names"));
    }
}
