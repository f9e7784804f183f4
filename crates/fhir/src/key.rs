//! What makes two mentions of a resource the same resource: its type and one identifier (DESIGN §5).

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use uuid::Uuid;

/// Namespace of the `urn:uuid` names we give to resources (UUIDv5, RFC 9562 §5.5).
const NAMESPACE: Uuid = Uuid::from_u128(0x5c6b_7f0e_2f0d_4b5e_9a4e_6d1f_0c5a_31d2);

/// The identity of a resource: its type and the identifier (or, for types without one, the tag) it is matched on.
///
/// `value` may be a medical record number, so `Debug` does not show it; logs use [`ResourceKey::full_url`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourceKey {
    /// `Patient`, `Encounter`, …
    pub resource_type: SmolStr,
    /// The identifier's system: an absolute URI, never empty.
    pub system: SmolStr,
    /// The identifier's value, never empty.
    pub value: SmolStr,
}

impl ResourceKey {
    /// A deterministic `urn:uuid:…` of the key: `fullUrl` in bundles, the reference other resources hold until the
    /// server's id is known, and the name that logs and tables may show.
    pub fn full_url(&self) -> SmolStr {
        let name = [self.resource_type.as_str(), &self.system, &self.value].join("|");
        let mut text = [0; 45];
        SmolStr::new(Uuid::new_v5(&NAMESPACE, name.as_bytes()).urn().encode_lower(&mut text))
    }
}

impl std::fmt::Debug for ResourceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.resource_type, self.full_url())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(resource_type: &str, system: &str, value: &str) -> ResourceKey {
        ResourceKey { resource_type: resource_type.into(), system: system.into(), value: value.into() }
    }

    #[test]
    fn the_name_depends_on_every_part_and_nothing_else() {
        let patient = key("Patient", "urn:oid:1.2.3", "12345");
        assert_eq!(patient.full_url(), key("Patient", "urn:oid:1.2.3", "12345").full_url());
        for other in [
            key("Person", "urn:oid:1.2.3", "12345"),
            key("Patient", "urn:oid:1.2.4", "12345"),
            key("Patient", "urn:oid:1.2.3", "12346"),
        ] {
            assert_ne!(patient.full_url(), other.full_url());
        }
        assert!(crate::primitive::is_urn_uuid(&patient.full_url()));
    }

    #[test]
    fn the_name_is_the_same_in_every_version() {
        let patient = key("Patient", "urn:oid:1.2.3", "12345");
        assert_eq!(patient.full_url(), "urn:uuid:0f18dc0a-e183-5802-a5b1-78746e3a44a0");
    }

    #[test]
    fn debug_does_not_show_the_identifier() {
        let shown = format!("{:?}", key("Patient", "urn:oid:1.2.3", "12345"));
        assert!(shown.starts_with("Patient(urn:uuid:") && !shown.contains("12345") && !shown.contains("1.2.3"));
    }
}
