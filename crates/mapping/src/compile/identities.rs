//! `identity.toml` against the types the rules make and the registers they write.

use std::collections::{BTreeMap, BTreeSet};

use smol_str::SmolStr;

use super::Compiler;
use crate::contribution::Scope;
use crate::elements::{self, TypeKind};
use crate::fault::Place;
use crate::identity::{covers, is_per_message};
use crate::plan::{IdentifiedBy, Identity};
use crate::rule_file::RawIdentity;

impl Compiler {
    pub(super) fn identities(
        &mut self,
        raw: Vec<RawIdentity>,
        emitted: &BTreeSet<SmolStr>,
    ) -> BTreeMap<SmolStr, Identity> {
        let mut identities = BTreeMap::new();
        for section in raw {
            let resource = SmolStr::from(section.resource.as_str());
            if let Some(identity) = self.identity(section) {
                identities.insert(resource, identity);
            }
        }
        for resource in emitted {
            if is_per_message(resource) {
                identities.insert(resource.clone(), per_message(resource));
            } else if !identities.contains_key(resource) {
                self.faults
                    .add_file("identity.toml", format!("rules make {resource}, but nothing says what identifies one"));
            }
        }
        // Every message has its Provenance, bound or not.
        identities.insert(SmolStr::new_static("Provenance"), per_message("Provenance"));
        identities
    }

    fn identity(&mut self, raw: RawIdentity) -> Option<Identity> {
        let place = raw.place;
        if elements::kind(&raw.resource) != Some(TypeKind::Resource) {
            self.fault(place, format!("`{}` is not an R4 resource", raw.resource));
            return None;
        }
        let scope = match raw.scope.as_str() {
            "subject" => Scope::Subject,
            "shared" => Scope::Shared,
            other => {
                self.fault(place, format!("scope `{other}` is neither \"subject\" nor \"shared\""));
                Scope::Subject
            }
        };
        let by_identifier = !raw.identifier_types.is_empty() || !raw.identifier_slots.is_empty();
        if by_identifier && elements::field(&raw.resource, "identifier").is_err() {
            self.fault(place, format!("{} has no identifier in R4", raw.resource));
        }
        if raw.content_only && (by_identifier || raw.content.is_empty()) {
            self.fault(place, "`content_only` goes with `content`, and without identifiers");
        }
        self.known_registers(&raw.resource, "identifier_slots", &raw.identifier_slots, place);
        self.known_registers(&raw.resource, "content", &raw.content, place);
        let small = |texts: Vec<String>| texts.into_iter().map(SmolStr::from).collect();
        Some(Identity {
            scope,
            types: small(raw.identifier_types),
            slots: small(raw.identifier_slots),
            content: small(raw.content),
            required: raw.required,
            by: if raw.content_only { IdentifiedBy::Content } else { IdentifiedBy::Identifier },
            has_identifier: has_identifier(&raw.resource),
        })
    }

    fn known_registers(&mut self, resource: &str, key: &str, names: &[String], place: Place) {
        // A type no rule makes yet has no registers to hold against.
        let known: Vec<String> = self.registers.of(resource).map(str::to_owned).collect();
        for name in names.iter().filter(|_| !known.is_empty()) {
            if !known.iter().any(|register| covers(name, register)) {
                self.fault(place, format!("{resource} `{key}`: no rule writes `{name}`"));
            }
        }
    }
}

fn has_identifier(resource: &str) -> bool {
    elements::field(resource, "identifier").is_ok_and(|field| field.repeats)
}

fn per_message(resource: &str) -> Identity {
    Identity {
        scope: Scope::Subject,
        types: Vec::new(),
        slots: Vec::new(),
        content: Vec::new(),
        required: false,
        by: IdentifiedBy::Message,
        has_identifier: has_identifier(resource),
    }
}
